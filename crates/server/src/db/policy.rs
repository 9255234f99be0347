//! Settings by key: the rules of `key-policy`, compiled.
//!
//! Without rules the only cost is a check that there are none. With rules, code that creates or changes a value looks up
//! its key's policy, which depends on the key alone, so a rename changes it.

pub mod matcher;

use super::collection::EncodingLimits;
use crate::config::{Config, KeyPolicy};
use matcher::Matcher;

/// How the values of some keys are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Limits of the encodings.
    pub limits: EncodingLimits,
    /// Whether strings are compressed.
    pub compresses_values: bool,
    /// The rule's number, from 0; `None` for the server's options.
    pub rule: Option<usize>,
}

/// The policies of all keys.
#[derive(Clone, Debug)]
pub struct Policies {
    otherwise: Policy,
    rules: Option<Box<Rules>>,
    compresses_any: bool,
}

#[derive(Clone, Debug)]
struct Rules {
    source: Vec<KeyPolicy>,
    matcher: Matcher,
    policies: Vec<Policy>,
}

impl Policies {
    /// The policies of the configuration.
    pub fn of(config: &Config) -> Self {
        let limits = EncodingLimits::of(config);
        let otherwise = Policy { limits, compresses_values: false, rule: None };
        let rules = (!config.key_policy.is_empty()).then(|| Box::new(Rules::of(config)));
        let compresses_any = config.key_policy.iter().any(KeyPolicy::compresses_values);
        Policies { otherwise, rules, compresses_any }
    }

    /// Follows the configuration; returns whether the policies have changed.
    pub fn follow(&mut self, config: &Config) -> bool {
        let source = self.rules.as_ref().map_or(&[][..], |rules| &rules.source);
        let is_same = self.otherwise.limits == EncodingLimits::of(config) && source == config.key_policy;
        if !is_same {
            *self = Policies::of(config);
        }
        !is_same
    }

    /// The policy of this key.
    #[inline]
    pub fn of_key(&self, key: &[u8]) -> &Policy {
        match &self.rules {
            None => &self.otherwise,
            Some(rules) => rules.of_key(key).unwrap_or(&self.otherwise),
        }
    }

    /// The rule by which this key's strings are compressed, if any.
    #[inline]
    pub fn compressing(&self, key: &[u8]) -> Option<usize> {
        if !self.compresses_any {
            return None;
        }
        let policy = self.of_key(key);
        policy.rule.filter(|_| policy.compresses_values)
    }

    /// Whether any rule compresses strings.
    #[inline]
    pub fn compress_any(&self) -> bool {
        self.compresses_any
    }

    /// Whether there is any rule.
    #[inline]
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// The globs of all rules in order, all different.
    pub fn globs(&self) -> impl Iterator<Item = &[u8]> {
        self.rules.iter().flat_map(|rules| rules.matcher.globs())
    }

    /// The policy of keys without a rule.
    pub fn otherwise(&self) -> &Policy {
        &self.otherwise
    }
}

impl Rules {
    fn of(config: &Config) -> Self {
        let mut scratch = config.clone();
        let policy = |(index, rule): (usize, &KeyPolicy)| Policy {
            limits: rule.with_applied(&mut scratch, EncodingLimits::of),
            compresses_values: rule.compresses_values(),
            rule: Some(index),
        };
        Rules {
            policies: config.key_policy.iter().enumerate().map(policy).collect(),
            matcher: Matcher::new(config.key_policy.iter().map(|rule| rule.glob.as_slice())),
            source: config.key_policy.clone(),
        }
    }

    fn of_key(&self, key: &[u8]) -> Option<&Policy> {
        self.matcher.first_match(key).map(|rule| &self.policies[rule])
    }
}

#[cfg(test)]
mod tests {
    use super::Policies;
    use crate::config::{Config, SetOrigin};

    fn configured(rules: &str) -> Config {
        let mut config = Config::default();
        config.set(&[(b"key-policy", rules.as_bytes())], SetOrigin::default()).unwrap();
        config
    }

    #[test]
    fn a_rule_changes_what_it_names_and_leaves_the_rest() {
        let rules = "user:* hash-max-ziplist-entries 7 ; * zset-index skiplist compress-values yes";
        let mut config = configured(rules);
        let mut policies = Policies::of(&config);
        assert!(!policies.follow(&config), "nothing has changed");
        let of_users = policies.of_key(b"user:1");
        assert_eq!((of_users.rule, of_users.compresses_values), (Some(0), false));
        assert_eq!(of_users.limits.hash_listpack_entries_max, 7);
        assert!(!of_users.limits.sorted_set_skip_list);
        let of_others = policies.of_key(b"other");
        assert_eq!((of_others.rule, of_others.compresses_values), (Some(1), true));
        assert_eq!(of_others.limits.hash_listpack_entries_max, 512);
        assert!(of_others.limits.sorted_set_skip_list);
        assert_eq!((policies.compressing(b"user:1"), policies.compressing(b"other")), (None, Some(1)));
        // Settings without a rule follow the server's options, also when they change.
        config.set(&[(b"set-max-listpack-entries", b"3")], SetOrigin::default()).unwrap();
        assert!(policies.follow(&config));
        for key in [&b"user:1"[..], b"other", b""] {
            assert_eq!(policies.of_key(key).limits.set_listpack_entries_max, 3);
        }
        assert_eq!(policies.of_key(b"").rule, None);
        config.set(&[(b"key-policy", b"")], SetOrigin::default()).unwrap();
        assert!(policies.follow(&config) && !policies.has_rules());
        assert_eq!(policies.of_key(b"user:1"), policies.otherwise());
    }
}
