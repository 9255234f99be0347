//! Which commands run over HTTP.

use super::*;
use crate::commands::GROUPS;

fn reply(gate: &Gate, line: &str) -> Result<(), String> {
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    gate.judge(&words).refusal.map_or(Ok(()), Err)
}

#[test]
fn what_changes_nothing_may_run() {
    let gate = Gate::new(Registry::new(GROUPS), false);
    for line in [
        "GET a",
        "get a",
        "SCAN 0",
        "CONFIG GET *",
        "config get *",
        "CLIENT LIST",
        "SLOWLOG GET",
        "MEMORY USAGE a",
        "OBJECT LAYOUT a",
        "ACL WHOAMI",
        "COMMAND DOCS",
        "COMMAND",
        "INFO",
        "SELECT 3",
        "XRANGE a - +",
        "OBJECT HELP",
        "SORT_RO a",
        "DUMP a",
        "POLICY STATS",
        "POLICY LIST",
        "HOTKEYS TOP",
        "MEMORY BIGKEYS",
        "CLUSTER SHARDS",
        "CLUSTER INFO",
        "CLUSTER LINKS",
        "CLUSTER GETSLOTMIGRATIONS",
        "CLUSTER SLOT-STATS ORDERBY KEY-COUNT",
    ] {
        assert_eq!(reply(&gate, line), Ok(()), "{line}");
    }
    for line in [
        "SET a b",
        "CONFIG SET a b",
        "CONFIG RESETSTAT",
        "SLOWLOG RESET",
        "CLIENT KILL x",
        "EVAL x 0",
        "EVAL_RO x 0",
        "FCALL_RO x 0",
        "FLUSHALL",
        "SHUTDOWN",
        "DEBUG JMAP",
        "PUBLISH a b",
        "MULTI",
        "EXEC",
        "SPUBLISH a b",
        "PFCOUNT a",
        "GETEX a",
        "ACL SETUSER a",
        "CLIENT PAUSE 1",
        "MIGRATE",
        "SORT a",
        "BGSAVE",
        "SCRIPT LOAD x",
        "LATENCY RESET",
        "LATENCY TRACE START",
        "HOTKEYS START METRICS 1 CPU",
        "POLICY SET a compression yes",
        "POLICY DEL a",
        "FAILOVER",
        "REPLICAOF a b",
        "MEMORY PURGE",
        "ACL LOG",
        "ACL GENPASS",
        "MODULE LOAD x",
        "CLUSTER MEET a 1",
        "CLUSTER FORGET x",
        "CLUSTER MIGRATESLOTS SLOTSRANGE 1 1 NODE x",
        "CLUSTER CANCELSLOTMIGRATIONS",
        "CLUSTER SETSLOT 1 STABLE",
        "CLUSTER SAVECONFIG",
    ] {
        let refused = reply(&gate, line).unwrap_err();
        assert!(refused.starts_with("NOPERM") || refused.starts_with("ERR unknown"), "{line}: {refused}");
    }
    assert!(reply(&gate, "NOSUCH a").unwrap_err().starts_with("ERR unknown command"));
    assert!(reply(&gate, "CONFIG NOSUCH").unwrap_err().starts_with("ERR unknown subcommand"));
}

#[test]
fn what_takes_a_connection_over_never_runs() {
    for runs_all in [false, true] {
        let gate = Gate::new(Registry::new(GROUPS), runs_all);
        for line in [
            "MONITOR",
            "SUBSCRIBE a",
            "PSUBSCRIBE a",
            "SSUBSCRIBE a",
            "UNSUBSCRIBE a",
            "BLPOP a 0",
            "BZPOPMIN a 0",
            "XREAD BLOCK 0 STREAMS a 0",
            "WAIT 1 0",
            "SYNC",
            "PSYNC ? -1",
            "HELLO 3",
            "AUTH x",
            "QUIT",
            "RESET",
            "CLIENT REPLY OFF",
            "CLIENT TRACKING ON",
            "REPLCONF x y",
        ] {
            let refused = reply(&gate, line).unwrap_err();
            assert!(refused.contains("does not run over HTTP"), "{line}: {refused}");
        }
    }
    let gate = Gate::new(Registry::new(GROUPS), true);
    for line in ["SET a b", "CONFIG SET a b", "MULTI", "EXEC", "PUBLISH a b"] {
        assert_eq!(reply(&gate, line), Ok(()), "{line}");
    }
}

/// Every command is decided, and none that is flagged as writing counts as read-only.
#[test]
fn no_row_that_writes_looks() {
    let registry = Registry::new(GROUPS);
    let gate = Gate::new(registry.clone(), false);
    for (_, row) in registry.iter() {
        let words: Vec<Vec<u8>> = row.name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        if gate.judge(&words).refusal.is_none() {
            let changes = flag::WRITE | flag::MAY_REPLICATE | flag::BLOCKING | flag::NO_AUTH;
            assert_eq!(row.flags & changes, 0, "{}", row.name);
        }
    }
}

#[test]
fn a_renamed_command_is_known_by_its_new_name() {
    let mut registry = Registry::new(GROUPS);
    registry.rename(b"flushall", b"ping2").unwrap();
    registry.rename(b"multi", b"x").unwrap();
    let gate = Gate::new(registry, false);
    assert!(reply(&gate, "ping2").unwrap_err().starts_with("NOPERM"));
    let opens = |word: &[u8]| gate.judge(&[word.to_vec()]).opens_transaction;
    assert!(opens(b"X") && !opens(b"multi") && !opens(b"exec"));
}
