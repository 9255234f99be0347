//! Reading and setting options at run time.

use super::*;
use crate::config::*;

#[test]
fn names_and_aliases_are_unique() {
    let mut names: Vec<&str> = ROWS.iter().flat_map(Row::names).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.iter().all(|name| name.to_ascii_lowercase() == *name));
}

#[test]
fn every_default_reads_back_as_itself() {
    let default = Config::default();
    for row in ROWS {
        let mut config = Config::default();
        let text = default.value_of(row);
        let words: Vec<&[u8]> = match row.flags.has(Flags::MULTI) {
            true if text.is_empty() => Vec::new(),
            true => text.split(|byte| *byte == b' ').collect(),
            false => vec![&text],
        };
        if row.name == "replicaof" {
            continue;
        }
        let changed = (row.set)(&mut config, &words, Occurrence::First).unwrap();
        assert!(!changed && config == default, "{}", row.name);
    }
}

#[test]
fn get_finds_names_aliases_and_patterns() {
    let config = Config::default();
    let names = |patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        config.get(&patterns).into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    };
    assert_eq!(names(&["*of"]), ["replicaof", "slaveof"]);
    assert_eq!(names(&["MaxMemory"]), ["MaxMemory"]);
    assert_eq!(
        names(&["maxmemory", "maxmemory*", "MAXMEMORY", "port"]),
        [
            "maxmemory",
            "maxmemory-clients",
            "maxmemory-eviction-tenacity",
            "maxmemory-policy",
            "maxmemory-samples",
            "port"
        ]
    );
    assert_eq!(names(&["s[ae]ve"]), ["save"]);
    assert_eq!(names(&["SLAVE-priorit?"]), ["slave-priority"]);
    assert_eq!(names(&["no-such-thing", ""]), [""; 0]);
    assert_eq!(names(&["key-load-dela?"]), [""; 0]);
    assert_eq!(names(&["key-load-delay"]), ["key-load-delay"]);
    let all = names(&["*"]);
    assert!(all.is_sorted() && all.len() > 230);
}

#[test]
fn set_changes_all_or_nothing() {
    let mut config = Config::default();
    let before = config.clone();
    let error = set(
        &mut config,
        &[("maxmemory", "10000001"), ("maxmemory-clients", "200%"), ("client-query-buffer-limit", "invalid")],
    );
    assert_eq!(
        error.unwrap_err().text().unwrap(),
        b"ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
          percentage argument must be less or equal to 100"
    );
    assert!(config == before);
    let changed = set(&mut config, &[("maxmemory", "100mb"), ("port", "6379"), ("slave-priority", "7")]);
    assert_eq!(changed.unwrap(), ["maxmemory", "slave-priority"]);
    assert_eq!((config.maxmemory_bytes, config.replica_priority), (100 << 20, 7));
}

#[test]
fn a_name_and_its_alias_in_one_set() {
    let mut config = Config::default();
    set(&mut config, &[("SLAVE-priority", "1"), ("replica-priority", "2")]).unwrap();
    assert_eq!(config.replica_priority, 2);
}

#[test]
fn volatile_options_always_change() {
    let mut config = Config::default();
    set(&mut config, &[("tls-cert-file", "a.pem")]).unwrap();
    assert_eq!(set(&mut config, &[("tls-cert-file", "a.pem")]).unwrap(), ["tls-cert-file"]);
}

#[test]
fn errors_of_names() {
    let text = |pairs: &[(&str, &str)]| {
        let error = set(&mut Config::default(), pairs).unwrap_err();
        String::from_utf8(error.text().unwrap()).unwrap()
    };
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'";
    assert_eq!(text(&[("Foo", "bar"), ("port", "1")]), unknown);
    assert_eq!(text(&[("port", "1"), ("Foo", "bar")]), unknown);
    let related = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    assert_eq!(
        text(&[("Maxclients", "10"), ("MAXclients", "11")]),
        related("MAXclients", "duplicate parameter")
    );
    assert_eq!(text(&[("Databases", "3")]), related("Databases", "can't set immutable config"));
    assert_eq!(text(&[("dir", "/")]), related("dir", "can't set protected config"));
    // Errors of values contain the option's canonical name.
    assert_eq!(
        text(&[("Loglevel", "x")]),
        related(
            "loglevel",
            "argument(s) must be one of the following: debug, verbose, notice, warning, nothing"
        )
    );
    assert_eq!(text(&[("SLAVEOF", "no one")]), related("SLAVEOF", "can't set immutable config"));
}

#[test]
fn errors_of_values() {
    let cases = [
        ("bind", "127.0.0.1  ::1", "Invalid bind address."),
        ("bind", "a\"b", "Invalid bind address."),
        ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
        ("port", "70000", "argument must be between 0 and 65535 inclusive"),
        ("maxclients", "-1", "argument must be between 1 and 4294967295 inclusive"),
        ("maxclients", "abc", "argument couldn't be parsed into an integer"),
        ("maxclients", "007", "argument couldn't be parsed into an integer"),
        ("maxclients", "", "argument couldn't be parsed into an integer"),
        ("maxmemory", "99999999999999999999", "argument must be a memory value"),
        ("maxmemory", "18446744073709551615gb", "argument must be a memory value"),
        ("maxmemory", "1tb", "argument must be a memory value"),
        ("maxmemory", "-1", "argument must be a memory value"),
        ("maxmemory-clients", "101%", "percentage argument must be less or equal to 100"),
        ("maxmemory-clients", "-5", "argument must be a memory or percent value"),
        ("maxmemory-clients", "%", "argument must be a memory or percent value"),
        (
            "repl-backlog-size",
            "9223372036854775808",
            "argument must be between 1 and 9223372036854775807 inclusive",
        ),
        (
            "slot-migration-max-failover-repl-bytes",
            "-2",
            "argument must be between -1 and 9223372036854775807 inclusive",
        ),
        (
            "list-max-listpack-size",
            "-2147483649",
            "argument must be between -2147483648 and 2147483647 inclusive",
        ),
        (
            "shutdown-on-sigterm",
            "save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ),
        (
            "shutdown-on-sigterm",
            "",
            "argument(s) must be one of the following: default, save, nosave, now, force, safe, failover",
        ),
        (
            "client-output-buffer-limit",
            "normal 0",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit",
            "foo 0 0 0",
            "Invalid client class specified in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit",
            "normal a 0 0",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        ("save", "1", "Invalid save parameters"),
        ("save", "0 1", "Invalid save parameters"),
        ("save", "10 -1", "Invalid save parameters"),
        ("notify-keyspace-events", "Kq", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        ("latency-tracking-info-percentiles", "a", "Invalid latency-tracking-info-percentiles parameters"),
        (
            "latency-tracking-info-percentiles",
            "101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
        ),
        ("oom-score-adj-values", "1 2", "wrong number of arguments"),
        (
            "oom-score-adj-values",
            "1 2 2001",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
        ),
        ("proc-title-template", "{x}", "template format is invalid or contains unknown variables"),
        ("proc-title-template", "{title}", "template format is invalid or contains unknown variables"),
        ("cluster-announce-client-ipv4", "x", "Invalid IPv4 address"),
        ("cluster-announce-client-ipv6", "1.2.3.4", "Invalid IPv6 address"),
        (
            "cluster-announce-hostname",
            "a b",
            "Hostnames may only contain alphanumeric characters, hyphens or dots",
        ),
        ("cluster-announce-human-nodename", "a,b", "Announced human node name contained invalid character"),
        ("cluster-announce-ip", "a;b", "cluster-announce-ip contains invalid character"),
        ("cluster-announce-ip", "a\0", "cluster-announce-ip contains invalid character"),
        ("dbfilename", "", "dbfilename can't be empty"),
        ("dbfilename", "a/b", "dbfilename can't be a path, just a filename"),
        ("dir", "", "dir can't be empty"),
        ("dir", "/nonexistent", "No such file or directory"),
        ("dir", "/dev/null", "Not a directory"),
        ("bind", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "Too many bind addresses specified."),
    ];
    for (name, value, reason) in cases {
        let expected = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
        assert_eq!(refusal(name, value), expected, "{name} {value:?}");
    }
}

#[test]
fn accepted_values_and_how_they_print() {
    let cases = [
        ("maxmemory", "", "0"),
        ("maxmemory", "1Kb", "1024"),
        ("maxmemory", "1k", "1000"),
        ("maxmemory", "2G", "2000000000"),
        ("maxmemory", "9223372036854775808", "9223372036854775808"),
        ("maxmemory", "18446744073709551615b", "18446744073709551615"),
        ("maxmemory-clients", "5%", "5%"),
        ("maxmemory-clients", "0%", "0"),
        ("maxmemory-clients", "1mb", "1048576"),
        ("slot-migration-max-failover-repl-bytes", "-1", "-1"),
        ("slot-migration-max-failover-repl-bytes", "1kb", "1024"),
        ("cluster-blacklist-ttl", "-1", "-1"),
        ("hz", "100000", "500"),
        ("hz", "0", "1"),
        ("appendonly", "YES", "yes"),
        ("oom-score-adj", "relative", "yes"),
        ("shutdown-on-sigterm", "force now NOSAVE default", "nosave now force"),
        ("shutdown-on-sigint", "default", "default"),
        ("save", "", ""),
        ("save", "900 1 300 10", "900 1 300 10"),
        ("bind", "", ""),
        ("bind", "127.0.0.1 -::1", "127.0.0.1 -::1"),
        (
            "client-output-buffer-limit",
            "replica 1mb 2kb 3 NORMAL 1 2 3",
            "normal 1 2 3 slave 1048576 2048 3 pubsub 33554432 8388608 60",
        ),
        ("notify-keyspace-events", "KEAm", "AKEm"),
        ("notify-keyspace-events", "g$lshzxetdnmKE", "AKEm"),
        ("notify-keyspace-events", "Exlg", "glxE"),
        ("notify-keyspace-events", "nK", "nK"),
        ("latency-tracking-info-percentiles", "99.99 1e-3 0.0000001", "99.99 0.001 0"),
        ("latency-tracking-info-percentiles", "100 50", "100 50"),
        ("latency-tracking-info-percentiles", "", ""),
        ("oom-score-adj-values", "-5 +6 0007", "-5 6 7"),
        ("tls-auth-clients-user", "cn", "CN"),
        ("zset-max-ziplist-value", "1kb", "1024"),
        ("proc-title-template", "{{", "{{"),
    ];
    for (name, typed, printed) in cases {
        let mut config = Config::default();
        set(&mut config, &[(name, typed)]).unwrap();
        assert_eq!(value(&config, name), printed, "{name} {typed:?}");
    }
}

#[test]
fn protection_and_loading() {
    let mut config = Config::default();
    let pairs: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"x.rdb")];
    config.enable_protected_configs = ProtectedAction::Local;
    let remote = SetOrigin { local: false, loading: false };
    assert!(config.prepare(&pairs, remote).is_err());
    let (next, changes) = config.prepare(&pairs, SetOrigin { local: true, ..remote }).unwrap();
    assert_eq!(next.dbfilename, b"x.rdb");
    assert_eq!(changes, [Change { option: OptionId::dbfilename, name: "dbfilename" }]);
    assert_eq!(config.dbfilename, b"dump.rdb");

    let pairs: [(&[u8], &[u8]); 2] = [(b"port", b"1"), (b"appendonly", b"yes")];
    let loading = SetOrigin { loading: true, local: false };
    assert_eq!(config.prepare(&pairs, loading).unwrap_err(), SetError::Loading);
    let change = Change { option: OptionId::port, name: "port" };
    assert_eq!(
        SetError::not_applied(&change, "Unable to listen on this port. Check server logs.").text().unwrap(),
        b"ERR CONFIG SET failed (possibly related to argument 'port') - \
          Unable to listen on this port. Check server logs."
    );
}

#[test]
fn binary_values() {
    let mut config = Config::default();
    let pairs: [(&[u8], &[u8]); 1] = [(b"requirepass", b"a\0\xff")];
    config.set(&pairs, SetOrigin::default()).unwrap();
    assert_eq!(config.requirepass.as_deref(), Some(&b"a\0\xff"[..]));
    set(&mut config, &[("requirepass", "")]).unwrap();
    assert_eq!(config.requirepass, None);
    assert!(refusal("tls-ciphers", "a\0b").ends_with("argument must not contain a zero byte"));
    assert!(is_sensitive(b"MasterAuth") && !is_sensitive(b"port"));
    let shown = format!("{:?}", configured("requirepass geheim"));
    assert!(!shown.contains("geheim") && shown.contains("\"port\": \"6379\""));
}

#[test]
fn hostile_patterns_take_no_time() {
    let config = Config::default();
    let pattern = "*a".repeat(10_000);
    assert!(config.get(&[pattern.as_bytes(), b"["]).is_empty());
    // Unclosed classes and a trailing backslash are unusual, but valid.
    let _ = config.get(&[b"[^", b"*[a-", b"*\\", b"*[z-a]"]);
}
