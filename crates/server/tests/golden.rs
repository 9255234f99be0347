//! Golden scripts: commands and the exact bytes of their replies, run against an executor in this process with a
//! clock that the script turns. The same scripts replay against a reference server to prove them right:
//!
//! ```text
//! cargo test -p warmline-server --test golden                          in process
//! UPDATE=1 cargo test -p warmline-server --test golden                 write the replies that were seen
//! REFERENCE=127.0.0.1:7000 cargo test -p warmline-server --test golden against a server, flushed for each script
//! REDIS_REFERENCE=127.0.0.1:7001 cargo test ...                        against Redis 8.6: scripts of what Valkey has not
//! RESP3=1 REFERENCE=... cargo test ...                                 live against a server, all in protocol 3
//! GOLDEN=strings cargo test ...                                        only scripts whose name contains a word
//! ```
//!
//! A script (`tests/golden/*.golden`) is a list of steps, separated by blank lines:
//!
//! ```text
//! # a comment
//! SET key "a value\x00"        one command a line, words and quotes as in redis-cli
//! @b GET key                   by another client, named b; clients connect when first named
//! ~HELLO 3                     a command whose reply is not recorded
//! advance 1500                 turns the clock by milliseconds (against a reference: sleeps)
//! ---
//! $7                           what all clients received, protocol lines as they are, other bytes escaped;
//! a value\x00                  what others than the first client received begins with @name
//! ```
//! A line `--- like` instead takes the expected lines as glob patterns, for what differs from run to run. A script
//! whose first line is `# not for the reference: why` is not replayed, one that begins with `# of Redis` only against that.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod script;

use script::{Player, Reference, Script};
use server::commands::GROUPS;
use server::config::{Config, PrefixRule, ZsetIndex};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice;

/// The scripts whose name contains `GOLDEN`, by path.
fn scripts() -> Vec<(PathBuf, Script)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let wanted = std::env::var("GOLDEN").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the folder of scripts is part of the source")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "golden"))
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(&wanted))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no golden script matches {wanted:?}");
    let parse = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, script)
    };
    files.into_iter().map(parse).collect()
}

#[test]
fn golden_scripts() {
    let reference = Reference::address();
    let mut failures = Vec::new();
    for (path, script) in scripts() {
        if reference.as_ref().is_some_and(|(kind, _)| *kind != script.reference) {
            continue;
        }
        if let (Some((_, address)), true) = (&reference, std::env::var("RESP3").is_ok()) {
            let mut here = Player::in_process(Config::default()).in_resp3();
            let mut there = Player::against_server(address).in_resp3();
            let differences = script.compare(&mut here, &mut there);
            failures.extend(differences.into_iter().map(|d| format!("{}:{d}", path.display())));
            continue;
        }
        let mut player = match &reference {
            Some((_, address)) => Player::against_server(address),
            None => Player::in_process(Config::default()),
        };
        let (seen, differences) = script.play(&mut player);
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(path, seen).unwrap();
        } else {
            failures.extend(differences.into_iter().map(|d| format!("{}:{d}", path.display())));
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// What a sorted set answers does not depend on how it is kept, of which only OBJECT LAYOUT tells, nor what any command
/// answers on keys being counted, of which MEMORY PREFIXES tells; the counts are right after each step.
#[test]
fn golden_scripts_with_skip_lists() {
    let mut failures = Vec::new();
    for (path, script) in scripts() {
        if path.ends_with("object_layout.golden") || path.ends_with("memory_prefixes.golden") {
            continue;
        }
        let memory_prefixes = PrefixRule::Learn;
        let config = Config { zset_index: ZsetIndex::Skiplist, memory_prefixes, ..Config::default() };
        let (_, differences) = script.play(&mut Player::in_process(config));
        failures.extend(differences.into_iter().map(|d| format!("{}:{d}", path.display())));
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// Commands that no script can hold, and why.
const NOT_IN_SCRIPTS: &[(&str, &str)] = &[
    ("psync", "is answered by the data itself: tests/processes/replication.rs"),
    ("sync", "as psync"),
    ("acl|load", "there is no file of users; tests/processes/users.rs"),
    ("acl|save", "as ACL LOAD"),
    ("asking", "there is no cluster"),
    ("bgrewriteaof", "a child writes files; `persistence.rs` does that with a server of its own"),
    ("bgsave", "as BGREWRITEAOF"),
    ("clusterscan", "there is no cluster"),
    ("config|rewrite", "there is no file of options; its unit tests write one"),
    ("failover", "wants a replica: tests/processes/failover.rs"),
    ("function|kill", "nothing else runs while a script does; `scripts.rs` has clients that wait for one"),
    ("latency|graph", "nothing takes long while the clock stands; `observe/latency.rs` tests what is drawn"),
    ("memory|malloc-stats", "the allocator's report has other lines each time"),
    ("restore-asking", "there is no cluster"),
    ("save", "as BGREWRITEAOF"),
    ("script|kill", "as FUNCTION KILL"),
    ("shutdown", "ends the process"),
];

#[test]
fn every_command_is_in_a_golden_script() {
    if std::env::var("GOLDEN").is_ok() {
        return;
    }
    let mut answered = BTreeMap::new();
    for (_, script) in scripts() {
        let mut player = Player::in_process(Config::default());
        script.play(&mut player);
        answered.append(&mut player.answered);
    }
    let rows = GROUPS.iter().flat_map(|group| group.iter());
    // A container itself answers nothing but errors.
    let rows =
        rows.flat_map(|row| if row.subcommands.is_empty() { slice::from_ref(row) } else { row.subcommands });
    let names = rows.map(|row| row.name);
    // There is no cluster: all that is answered is where a key would be.
    let of_cluster = |name: &str| name.starts_with("cluster|") && name != "cluster|keyslot";
    let excused = |name: &str| of_cluster(name) || NOT_IN_SCRIPTS.iter().any(|(excused, _)| *excused == name);
    let missing: Vec<&str> =
        names.clone().filter(|name| !answered.contains_key(name) && !excused(name)).collect();
    assert!(missing.is_empty(), "answered in no golden script but with errors: {}", missing.join(", "));
    for (name, why) in NOT_IN_SCRIPTS {
        assert!(names.clone().any(|row| row == *name), "{name} is no command (any more): {why}");
    }
}
