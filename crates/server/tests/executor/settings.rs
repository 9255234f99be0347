//! Configurations at the ends of what they may be.

use super::random::Random;
use super::words::{chance, pick};
use server::config::{Config, ProtectedAction, ZsetIndex};

/// Options that change how data is kept and what follows from commands, each with its ends, its default and something
/// between.
const OPTIONS: &[(&str, &[&str])] = &[
    ("hash-max-listpack-entries", &["0", "1", "4", "512", "1000000"]),
    ("hash-max-listpack-value", &["0", "1", "8", "64", "4095", "65536", "1048577"]),
    ("set-max-intset-entries", &["0", "1", "5", "512", "1000000"]),
    ("set-max-listpack-entries", &["0", "1", "6", "128", "1000000"]),
    ("set-max-listpack-value", &["0", "1", "20", "64", "4096", "65535", "1048577"]),
    ("zset-max-listpack-entries", &["0", "1", "4", "128", "1000000"]),
    ("zset-max-listpack-value", &["0", "1", "10", "64", "16384", "65537", "1048577"]),
    (
        "list-max-listpack-size",
        &[
            "-2147483648",
            "-5",
            "-5",
            "-5",
            "-5",
            "-4",
            "-3",
            "-2",
            "-1",
            "0",
            "1",
            "2",
            "3",
            "128",
            "65535",
            "2147483647",
        ],
    ),
    ("list-compress-depth", &["0", "0", "1", "2", "3", "2147483647"]),
    ("hll-sparse-max-bytes", &["0", "1", "200", "3000", "16000", "1000000"]),
    ("stream-node-max-entries", &["0", "1", "3", "100", "1000000"]),
    ("stream-node-max-bytes", &["0", "1", "200", "4096", "65536", "1048576"]),
    ("maxmemory", &["0", "0", "0", "1", "4mb", "16mb"]),
    (
        "maxmemory-policy",
        &[
            "noeviction",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "volatile-lrm",
            "allkeys-lrm",
            "volatile-s3fifo",
            "allkeys-s3fifo",
        ],
    ),
    ("maxmemory-samples", &["1", "5", "64"]),
    ("active-expire-effort", &["1", "10"]),
    ("hz", &["1", "10", "500"]),
    ("notify-keyspace-events", &["", "KEA", "KEAmn", "Kx", "Eg"]),
    ("lazyfree-lazy-eviction", &["yes", "no"]),
    ("lazyfree-lazy-expire", &["yes", "no"]),
    ("lazyfree-lazy-server-del", &["yes", "no"]),
    ("lazyfree-lazy-user-del", &["yes", "no"]),
    ("lazyfree-lazy-user-flush", &["yes", "no"]),
    ("rdbcompression", &["yes", "no"]),
    ("tracking-table-max-keys", &["0", "1", "1000000"]),
    ("latency-monitor-threshold", &["0", "1"]),
    ("commandlog-execution-slower-than", &["-1", "0", "10000"]),
    ("commandlog-request-larger-than", &["0", "1048576"]),
    ("commandlog-reply-larger-than", &["0", "1048576"]),
    ("maxmemory-clients", &["0", "0", "0", "1mb"]),
    (
        "client-output-buffer-limit",
        &["normal 8mb 0 0", "normal 100kb 0 0", "normal 0 60kb 1", "pubsub 1 1 1"],
    ),
    ("prefetch-batch-max-size", &["0", "1", "16", "128"]),
    ("memory-prefixes", &["", "learn", "k* ke* key:*", "*"]),
    ("import-mode", &["no", "no", "no", "yes"]),
];
/// Arguments and strings no longer than this: a few dozen of them fit a small machine.
const STRING_LEN_MAX: usize = 2 << 20;

/// What cannot be changed later.
pub fn config(random: &mut Random) -> Config {
    let zset_index = if chance(random, 50) { ZsetIndex::Fbtree } else { ZsetIndex::Skiplist };
    Config {
        enable_debug_command: ProtectedAction::Yes,
        save: Vec::new(),
        proto_max_bulk_len_bytes: STRING_LEN_MAX,
        zset_index,
        ..Config::default()
    }
}

/// CONFIG SET of one option.
pub fn change(random: &mut Random) -> Vec<Vec<u8>> {
    let (name, values) = OPTIONS[random.below(OPTIONS.len() as u64) as usize];
    words(name, pick(random, values))
}

/// CONFIG SET of some options, to begin a run with.
pub fn changes(random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    // Some replies would otherwise be as long as a number in the request says.
    let mut changes = vec![words("client-output-buffer-limit", "normal 8mb 0 0")];
    for (name, values) in OPTIONS {
        if chance(random, 50) {
            changes.push(words(name, pick(random, values)));
        }
    }
    changes
}

fn words(name: &str, value: &str) -> Vec<Vec<u8>> {
    ["CONFIG", "SET", name, value].map(|word| word.as_bytes().to_vec()).to_vec()
}

/// Every option with each of its values.
pub fn all_changes() -> impl Iterator<Item = Vec<Vec<u8>>> {
    OPTIONS.iter().flat_map(|(name, values)| values.iter().map(|value| words(name, value)))
}
