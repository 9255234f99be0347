//! Up to where collections are kept small: what runs of random commands are made with.

use super::random::Random;
use std::collections::BTreeSet;

pub const DEFAULT: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("list-max-listpack-size", "-2"),
    ("list-compress-depth", "0"),
    ("hll-sparse-max-bytes", "3000"),
    ("stream-node-max-entries", "100"),
    ("stream-node-max-bytes", "4096"),
];
const SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "4"),
    ("hash-max-listpack-value", "8"),
    ("set-max-intset-entries", "5"),
    ("set-max-listpack-entries", "6"),
    ("set-max-listpack-value", "20"),
    ("zset-max-listpack-entries", "4"),
    ("zset-max-listpack-value", "10"),
    ("list-max-listpack-size", "3"),
    ("list-compress-depth", "1"),
    ("hll-sparse-max-bytes", "200"),
    ("stream-node-max-entries", "3"),
    ("stream-node-max-bytes", "200"),
];
const NONE_SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "0"),
    ("set-max-intset-entries", "0"),
    ("set-max-listpack-entries", "0"),
    ("zset-max-listpack-entries", "0"),
    ("list-max-listpack-size", "-1"),
    ("list-compress-depth", "2"),
    ("hll-sparse-max-bytes", "0"),
    ("stream-node-max-entries", "1"),
];
const ALL_SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "20000"),
    ("hash-max-listpack-value", "30000"),
    ("set-max-listpack-entries", "20000"),
    ("zset-max-listpack-entries", "20000"),
    ("zset-max-listpack-value", "30000"),
    ("list-max-listpack-size", "-5"),
    ("stream-node-max-entries", "0"),
];
pub const LIMITS: &[(&[(&str, &str)], &str)] = &[
    (DEFAULT, "default limits"),
    (SMALL, "low limits"),
    (NONE_SMALL, "no small encodings"),
    (ALL_SMALL, "small encodings only"),
];

/// Options whose values GET or XTRIM with ~ show: how a sketch is kept, and how a stream is.
pub fn shows(name: &str) -> bool {
    name.starts_with("hll") || name.starts_with("stream")
}

/// Rules by key of which nothing shows in replies, as `key-policy` takes them.
pub fn rules(random: &mut Random) -> String {
    const GLOBS: [&str; 9] = ["hash:*", "list:?", "*set:*", "zset:[0-4]*", "*1", "s*", "hash:1", "*", "?*"];
    const OTHERS: &[(&str, &str)] =
        &[("zset-index", "skiplist"), ("zset-index", "fbtree"), ("compress-values", "yes")];
    let limits = LIMITS.iter().flat_map(|(limits, _)| *limits);
    let settings: Vec<_> = limits.chain(OTHERS).filter(|(name, _)| !shows(name)).collect();
    let mut rules = Vec::new();
    for _ in 0..random.below(8) {
        let mut rule = GLOBS[random.below(GLOBS.len() as u64) as usize].to_owned();
        let mut named = BTreeSet::new();
        for _ in 0..=random.below(4) {
            let (name, value) = settings[random.below(settings.len() as u64) as usize];
            if named.insert(name) {
                rule += &format!(" {name} {value}");
            }
        }
        rules.push(rule);
    }
    rules.join(" ; ")
}
