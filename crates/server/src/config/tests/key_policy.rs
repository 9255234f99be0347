//! `key-policy`: rules in files, in CONFIG SET, and in rewritten files.

use super::*;
use crate::config::key_policy::{GLOB_BYTES_MAX, KeyPolicy, RULES_MAX, put, remove, settings};
use crate::config::*;

fn set(config: &mut Config, rules: &str) -> Result<(), String> {
    let set = config.set(&[(b"key-policy", rules.as_bytes())], SetOrigin::default());
    set.map(|_| ()).map_err(|error| String::from_utf8(error.text().unwrap()).unwrap())
}

fn rule(text: &str) -> KeyPolicy {
    KeyPolicy::parse(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap()
}

#[test]
fn rules_of_a_file_add_up_and_are_shown_and_rewritten() {
    let text = "key-policy user:* hash-max-ziplist-entries 010 zset-INDEX skiplist\n\
                key-policy \"a b\\x00\" list-max-listpack-size -1\nkey-policy \"\" compress-values YES\n";
    let refused = load_text(text).unwrap_err().to_string();
    assert!(refused.contains("couldn't be parsed"), "{refused}");
    let config = configured(text.replace("010", "10"));
    assert_eq!(
        value(&config, "key-policy"),
        "user:* hash-max-listpack-entries 10 zset-index skiplist ; \"a b\\x00\" list-max-listpack-size -1 ; \
         \"\" compress-values yes"
    );
    let rewritten = config.rewritten_text(text.as_bytes(), RewriteRequest::default());
    assert!(configured(&rewritten).key_policy == config.key_policy);
    assert_eq!(String::from_utf8(rewritten).unwrap().matches("key-policy").count(), 3);
    // CONFIG SET accepts the output of CONFIG GET.
    let mut other = configured("key-policy x compress-values no");
    set(&mut other, &value(&config, "key-policy")).unwrap();
    assert!(other.key_policy == config.key_policy);
    set(&mut other, "").unwrap();
    assert!(other.key_policy.is_empty());
    let none = String::from_utf8(other.rewritten_text(text.as_bytes(), RewriteRequest::default())).unwrap();
    assert!(!none.contains("key-policy"), "{none}");
    assert!(configured("key-policy a compress-values no\nkey-policy \"\"").key_policy.is_empty());
}

#[test]
fn a_later_rule_for_the_same_glob_takes_its_place() {
    let config = configured(
        "key-policy a compress-values no\nkey-policy b compress-values no\nkey-policy a zset-index skiplist",
    );
    assert_eq!(value(&config, "key-policy"), "a zset-index skiplist ; b compress-values no");
}

#[test]
fn a_bad_rule_changes_nothing_and_says_why() {
    let mut config = configured("key-policy a compress-values no");
    let long = format!("{} compress-values no", "x".repeat(GLOB_BYTES_MAX + 1));
    for (rules, why) in [
        ("a", "pairs"),
        ("a compress-values", "pairs"),
        ("a compress-values no ;", "begins with a glob"),
        ("; a compress-values no", "begins with a glob"),
        ("a compress-values maybe", "'yes' or 'no'"),
        ("a maxmemory 1", "'maxmemory' is no setting"),
        ("a stream-idmp-maxsize 1", "is no setting"),
        ("a no-such 1", "'no-such' is no setting"),
        ("a zset-index tree", "zset-index: "),
        ("a hash-max-listpack-entries -1", "hash-max-listpack-entries: argument must be between 0"),
        ("a hash-max-listpack-entries 1 hash-max-ziplist-entries 2", "is set twice"),
        ("a compress-values no ; b compress-values", "pairs"),
        ("\"a compress-values no", "nbalanced quotes"),
        (long.as_str(), "256 bytes at most"),
    ] {
        let refused = set(&mut config, rules).unwrap_err();
        assert!(refused.contains(why), "{rules}: {refused}");
        assert_eq!(value(&config, "key-policy"), "a compress-values no");
        assert!(rules.contains(';') || load_text(format!("key-policy {rules}")).is_err());
    }
    let at_limit = format!("{} compress-values no", "x".repeat(GLOB_BYTES_MAX));
    set(&mut config, &at_limit).unwrap();
    let many =
        |count: usize| (0..count).map(|n| format!("{n} compress-values no")).collect::<Vec<_>>().join(" ; ");
    set(&mut config, &many(RULES_MAX)).unwrap();
    assert_eq!(config.key_policy.len(), RULES_MAX);
    assert!(set(&mut config, &many(RULES_MAX + 1)).unwrap_err().contains("128 rules at most"));
}

#[test]
fn rules_are_put_where_they_are_wanted() {
    let mut rules = Vec::new();
    let text = |rules: &[KeyPolicy]| -> String {
        rules.iter().map(|rule| String::from_utf8(rule.glob.clone()).unwrap()).collect()
    };
    for (glob, before, expected) in [
        ("a", None, Ok("a")),
        ("b", None, Ok("ab")),
        ("c", Some(0), Ok("cab")),
        ("d", Some(3), Ok("cabd")),
        ("e", Some(5), Err(())),
        ("a", None, Ok("cabd")),
        ("a", Some(0), Ok("acbd")),
        ("a", Some(4), Ok("cbda")),
        ("b", Some(1), Ok("cbda")),
        ("b", Some(2), Ok("cbda")),
    ] {
        let put = put(&mut rules, rule(&format!("{glob} compress-values no")), before);
        assert_eq!(put.map(|()| text(&rules)).map_err(|_| ()), expected.map(str::to_owned));
    }
    assert!(remove(&mut rules, b"d") && !remove(&mut rules, b"d"));
    assert_eq!(text(&rules), "cba");
}

/// Every setting accepts its default value, with the same effect as the server's option.
#[test]
fn every_setting_can_be_set() {
    let default = Config::default();
    for name in settings() {
        let value = find(name.as_bytes()).map_or(b"yes".to_vec(), |(row, _)| default.value_of(row));
        let rule = KeyPolicy::parse(&[b"*", name.as_bytes(), &value]).unwrap();
        assert_eq!(rule.settings().collect::<Vec<_>>(), [(name, value.as_slice())]);
        let mut config = default.clone();
        rule.with_applied(&mut config, |applied| assert!(*applied == default));
    }
    assert_eq!(settings().count(), 13);
}
