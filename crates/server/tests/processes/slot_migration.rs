//! Slots that move from one process to another in one step: while clients write, with failures on each side, and with a
//! source that lies.

use crate::cluster::{Node, cluster_with};
use crate::process::{Client, encode, eventually, info, shown};
use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The slot of the keys `{06S}...`.
const SLOT: u16 = 0;

/// The state of a node's newest job, and its message.
fn job(node: &Node) -> (String, String) {
    let reply = node.process.connect().ask("CLUSTER GETSLOTMIGRATIONS");
    let field = |name: &str, next: &str| {
        let rest = reply.split_once(&format!(" {name} ")).map_or("", |(_, rest)| rest);
        rest.split_once(&format!(" {next} ")).map_or("", |(value, _)| value).to_owned()
    };
    (field("state", "message"), field("message", "cow_size"))
}

fn start(from: &Node, to: &Node) {
    let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {SLOT} {SLOT} NODE {}", to.id());
    eventually("the start", || from.process.connect().ask(&command) == "OK");
}

fn ends(node: &Node, state: &str) {
    eventually(state, || {
        let (now, message) = job(node);
        assert!(state == "failed" || now != "failed", "{message}");
        now == state
    });
}

fn count(node: &Node) -> String {
    node.process.connect().ask(&format!("CLUSTER COUNTKEYSINSLOT {SLOT}"))
}

fn prevent(nodes: &[Node], what: &str, on: u8) {
    for node in nodes {
        assert_eq!(node.process.connect().ask(&format!("DEBUG SLOTMIGRATION {what} {on}")), "OK");
    }
}

/// Three primaries that accept DEBUG.
fn three() -> Vec<Node> {
    cluster_with(0, &["--enable-debug-command", "yes"])
}

/// Writes to keys of the slot, following redirections, until `ends` is set; returns the acknowledged values.
fn write_on(ports: &[u16], name: &str, ends: &AtomicBool) -> HashMap<String, u64> {
    let connect = |port: u16| Client::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut clients: HashMap<u16, Client<TcpStream>> =
        ports.iter().map(|port| (*port, connect(*port))).collect();
    let (mut at, mut acknowledged) = (ports[0], HashMap::new());
    let mut number = 0u64;
    while !ends.load(Ordering::Relaxed) {
        let key = format!("{{06S}}{name}{}", number % 50);
        let reply = clients.get_mut(&at).unwrap().ask(&format!("INCR {key}"));
        if let Some(moved) = reply.strip_prefix("MOVED ") {
            at = moved.rsplit_once(':').unwrap().1.parse().unwrap();
            continue;
        }
        let value: u64 = reply.parse().unwrap_or_else(|_| panic!("{reply}"));
        let before = acknowledged.insert(key, value).unwrap_or(0);
        assert_eq!(value, before + 1, "a write was lost or repeated");
        number += 1;
    }
    acknowledged
}

#[test]
fn slots_move_to_and_fro_while_clients_write() {
    let nodes = three();
    let mut client = nodes[0].process.connect();
    client.ask("CONFIG SET cluster-databases 1");
    for command in [
        "RPUSH {06S}list a b c",
        "HSET {06S}hash f 1 g 2",
        "HEXPIRE {06S}hash 10000 FIELDS 1 f",
        "ZADD {06S}scores 1 a 2.5 b",
        "SADD {06S}set 1 2 3",
        "XADD {06S}stream 1-1 f v",
        "XGROUP CREATE {06S}stream g 0",
        "SET {06S}expiring v EX 10000",
        "SETBIT {06S}bits 100000 1",
    ] {
        assert!(!client.ask(command).starts_with("ERR"), "{command}");
    }
    let keys =
        ["list", "hash", "scores", "set", "stream", "expiring", "bits"].map(|key| format!("{{06S}}{key}"));
    let digests = |node: &Node| node.process.connect().ask(&format!("DEBUG DIGEST-VALUE {}", keys.join(" ")));
    let before = digests(&nodes[0]);
    let (ports, over) =
        (nodes.iter().map(|node| node.process.port).collect::<Vec<u16>>(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = ["a", "b"].map(|name| scope.spawn(|| write_on(&ports, name, &over))).into();
        let mut at = 0;
        for to in [1, 0, 2, 1, 0, 1] {
            start(&nodes[at], &nodes[to]);
            ends(&nodes[at], "success");
            assert_eq!(digests(&nodes[to]), before, "from {at} to {to}");
            eventually("the removal", || count(&nodes[at]) == "0");
            std::thread::sleep(Duration::from_millis(50));
            at = to;
        }
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            let acknowledged = writer.join().unwrap();
            assert!(acknowledged.len() == 50, "the writers have written");
            let mut client = nodes[at].process.connect();
            for (key, value) in acknowledged {
                assert_eq!(client.ask(&format!("GET {key}")), value.to_string(), "{key}");
            }
        }
    });
}

#[test]
fn only_writes_to_the_moving_slots_wait() {
    let nodes = three();
    let mut client = nodes[0].process.connect();
    client.ask("SET {06S}a 1");
    prevent(&nodes, "PREVENT-FAILOVER", 1);
    start(&nodes[0], &nodes[1]);
    ends(&nodes[0], "failover-granted");
    let mut held = nodes[0].process.connect();
    held.send(&[b"SET", b"{06S}a", b"2"]);
    let mut script = nodes[0].process.connect();
    script.send(&[b"EVAL", b"return server.call('SET', '{06S}a', 3)", b"0"]);
    eventually("the held clients", || client.ask("INFO clients").contains("blocked_clients:2"));
    assert_eq!(client.ask("GET {06S}a"), "1", "reads go on");
    // Slot 3300, which stays.
    assert_eq!(client.ask("SET {b} 1"), "OK");
    assert_eq!(nodes[0].process.info("paused_reason").as_deref(), Some("slot_migration_in_progress"));
    prevent(&nodes, "PREVENT-FAILOVER", 0);
    let reply = shown(&held.receive().unwrap());
    assert!(reply.starts_with("MOVED 0 127.0.0.1:"), "{reply}");
    let reply = shown(&script.receive().unwrap());
    assert!(reply.contains("Attempted to access a non local key"), "{reply}");
    ends(&nodes[0], "success");
}

#[test]
fn what_did_not_move_is_gone_from_the_target() {
    let nodes = three();
    let mut client = nodes[0].process.connect();
    for i in 0..100 {
        client.ask(&format!("SET {{06S}}{i} {i}"));
    }
    prevent(&nodes, "PREVENT-PAUSE", 1);
    start(&nodes[0], &nodes[1]);
    ends(&nodes[0], "waiting-to-pause");
    eventually("the keys", || count(&nodes[1]) == "100");
    let mut target = nodes[1].process.connect();
    assert_eq!(target.ask("DBSIZE"), "0");
    assert_eq!(target.ask("KEYS *"), "[]");
    assert!(target.ask("GET {06S}1").starts_with("MOVED 0 "), "the source serves them");
    assert!(client.ask("CLIENT LIST").contains(" flags=E "));
    assert!(target.ask("CLIENT LIST").contains(" flags=i "));
    assert_eq!(client.ask("CLUSTER SETSLOT 0 STABLE"), "ERR Slot export in progress.");
    assert_eq!(target.ask("CLUSTER SETSLOT 0 STABLE"), "ERR Slot import in progress.");
    assert_eq!(client.ask("CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    assert_eq!(job(&nodes[0]).0, "cancelled");
    ends(&nodes[1], "failed");
    assert_eq!((count(&nodes[1]), count(&nodes[0])), ("0".into(), "100".into()));
    // Neither a flush nor a target that hangs leaves a job behind.
    start(&nodes[0], &nodes[1]);
    ends(&nodes[0], "waiting-to-pause");
    assert_eq!(target.ask("FLUSHALL"), "OK");
    ends(&nodes[0], "failed");
    ends(&nodes[1], "failed");
    assert_eq!(job(&nodes[1]).1, "Data was flushed");
    client.ask("CONFIG SET repl-timeout 1");
    start(&nodes[0], &nodes[1]);
    ends(&nodes[0], "waiting-to-pause");
    nodes[1].process.signal(rustix::process::Signal::STOP);
    ends(&nodes[0], "failed");
    nodes[1].process.signal(rustix::process::Signal::CONT);
    assert_eq!(job(&nodes[0]).1, "Timed out after too long with no interaction");
    ends(&nodes[1], "failed");
    eventually("the removal", || count(&nodes[1]) == "0");
}

/// A connection that says it is the source of the slot.
fn false_source(nodes: &[Node], name: &str) -> Client<TcpStream> {
    let mut source = nodes[1].process.connect();
    let establish =
        format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {} NAME {name} SLOTSRANGE {SLOT} {SLOT}", nodes[0].id());
    assert_eq!(source.ask(&establish), "OK");
    source
}

#[test]
fn a_source_that_lies_changes_nothing() {
    let nodes = three();
    let mut client = nodes[1].process.connect();
    // Slot 7365 is the target's own.
    assert_eq!(client.ask("SET {c} mine"), "OK");
    let name = "a".repeat(40);
    let lies: [&[&[u8]]; 8] = [
        &[b"SET", b"{c}", b"theirs"],
        &[b"FLUSHALL"],
        &[b"GET", b"{06S}a"],
        &[b"CONFIG", b"SET", b"maxclients", b"1"],
        &[b"EVAL", b"return server.call('SET', '{c}', 1)", b"1", b"{06S}a"],
        &[b"MULTI"],
        &[b"CLUSTER", b"SYNCSLOTS", b"FAILOVER-GRANTED"],
        &[b"no such command"],
    ];
    for lie in lies {
        let mut source = false_source(&nodes, &name);
        source.send(&[b"CLUSTER", b"SYNCSLOTS", b"ACK"]);
        source.send(&[b"SET", b"{06S}a", b"1"]);
        source.send(lie);
        assert!(source.is_closed_by_server(), "{:?}", String::from_utf8_lossy(lie[0]));
        ends(&nodes[1], "failed");
        eventually("the removal", || count(&nodes[1]) == "0");
        assert_eq!(client.ask("GET {c}"), "mine", "{:?}", String::from_utf8_lossy(lie[0]));
        assert_eq!(client.ask("DBSIZE"), "1");
    }
    assert!(nodes[1].is_ok());
    // What no job's connection sends is refused.
    let refused = "ERR CLUSTER SYNCSLOTS PAUSED should only be used by slot migration clients";
    assert_eq!(client.ask("CLUSTER SYNCSLOTS PAUSED"), refused);
    let finish = format!("CLUSTER SYNCSLOTS FINISH STATE success NAME {}", "b".repeat(40));
    assert_eq!(client.ask(&finish), "ERR No such slot migration job");
    client.ask("MULTI");
    let establish =
        format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {} NAME {name} SLOTSRANGE 0 0", nodes[0].id());
    client.ask(&establish);
    assert!(client.ask("EXEC").contains("is not allowed in a transaction"));
}

#[test]
fn a_killed_source_leaves_the_target_without_its_keys() {
    let mut nodes = three();
    let mut client = nodes[0].process.connect();
    client.ask("SET {06S}a 1");
    prevent(&nodes, "PREVENT-PAUSE", 1);
    start(&nodes[0], &nodes[1]);
    eventually("the key", || count(&nodes[1]) == "1");
    nodes[0].process.signal(rustix::process::Signal::KILL);
    nodes[0].process.wait();
    ends(&nodes[1], "failed");
    eventually("the removal", || count(&nodes[1]) == "0");
    assert!(job(&nodes[1]).1.starts_with("Connection lost to source."), "{:?}", job(&nodes[1]));
}

#[test]
fn under_a_steady_load_a_move_takes_no_longer_than_its_data() {
    let nodes = three();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Pipelines of writes to the moving slot: there is always something unsent.
        let load = scope.spawn(|| {
            let mut client = nodes[0].process.connect();
            let command = encode(&[b"SET", b"{06S}load", &[b'x'; 200]]);
            let pipeline = command.repeat(100);
            while !over.load(Ordering::Relaxed) {
                client.stream.write_all(&pipeline).unwrap();
                for _ in 0..100 {
                    let reply = shown(&client.receive().unwrap());
                    if reply.starts_with("MOVED") {
                        return;
                    }
                }
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        start(&nodes[0], &nodes[1]);
        ends(&nodes[0], "success");
        let took = began.elapsed();
        over.store(true, Ordering::Relaxed);
        load.join().unwrap();
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_log_without_a_snapshot_hides_the_slots_of_an_import_too() {
    let nodes = cluster_with(
        0,
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--enable-debug-command", "yes"],
    );
    let mut client = nodes[1].process.connect();
    let mut source = false_source(&nodes, &"a".repeat(40));
    source.send(&[b"CLUSTER", b"SYNCSLOTS", b"ACK"]);
    source.send(&[b"SET", b"{06S}a", b"1"]);
    eventually("the key", || count(&nodes[1]) == "1");
    client.ask("BGREWRITEAOF");
    eventually("a base", || {
        info(&mut client, "aof_rewrite_in_progress") == "0" && info(&mut client, "aof_rewrites") != "0"
    });
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("DBSIZE"), "0");
    eventually("the removal", || count(&nodes[1]) == "0");
    assert!(source.is_closed_by_server());
}
