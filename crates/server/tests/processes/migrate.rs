//! Keys move between two servers in processes of their own.

use crate::process::{self, Client, Process};
use std::net::TcpStream;

/// Values of every type; answers the keys.
fn fill(client: &mut Client<TcpStream>) -> Vec<&'static str> {
    for command in [
        "SET string value",
        "SET number 42",
        "RPUSH list a 1 b",
        "SADD set a b",
        "SADD integers 1 2 3",
        "ZADD sorted 1.5 a -inf b",
        "HSET hash f v g w",
        "HSETEX expiring PXAT 4000000000000 FIELDS 1 f v",
        "XADD stream 1-1 f v",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group someone STREAMS stream >",
    ] {
        assert!(!client.ask(command).starts_with("ERR"), "{command}");
    }
    vec!["string", "number", "list", "set", "integers", "sorted", "hash", "expiring", "stream"]
}

fn start(options: &[&str]) -> Process {
    Process::start(&[&["--enable-debug-command", "yes"], options].concat())
}

#[test]
fn keys_of_every_type_arrive_as_they_were() {
    let (source, target) = (start(&[]), start(&[]));
    let (mut from, mut to) = (source.connect(), target.connect());
    let keys = fill(&mut from);
    let digests = format!("DEBUG DIGEST-VALUE {}", keys.join(" "));
    let before = from.ask(&digests);
    let port = target.port;
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} string 0 5000 COPY")), "OK");
    assert_eq!(from.ask("GET string"), "value");
    let all = keys.join(" ");
    let refused = from.ask(&format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {all} missing"));
    assert_eq!(refused, "ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    assert_eq!(from.ask("DBSIZE"), "1", "what was refused stays");
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} string 0 5000 REPLACE")), "OK");
    assert_eq!(from.ask("DBSIZE"), "0");
    assert_eq!(to.ask(&digests), before);
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} string 0 5000")), "NOKEY");
    assert!(from.ask("INFO stats").contains("migrate_cached_sockets:1"));
}

#[test]
fn times_to_live_and_databases_are_kept() {
    let (source, target) = (start(&[]), start(&[]));
    let (mut from, mut to) = (source.connect(), target.connect());
    from.ask("SET key value PX 100000");
    let port = target.port;
    for db in [3, 3, 7] {
        assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} key {db} 5000 COPY REPLACE")), "OK");
        to.ask(&format!("SELECT {db}"));
        let left_ms: i64 = to.ask("PTTL key").parse().unwrap();
        assert!((90_000..=100_000).contains(&left_ms));
        assert_eq!(to.ask("DBSIZE"), "1");
        to.ask("FLUSHALL");
    }
    let refused = from.ask(&format!("MIGRATE 127.0.0.1 {port} key 99 5000"));
    assert_eq!(refused, "ERR Target instance replied with error: ERR DB index is out of range");
    assert_eq!(from.ask("EXISTS key"), "1");
}

#[test]
fn passwords_are_asked_for() {
    let (source, target) = (start(&[]), start(&["--requirepass", "secret"]));
    let mut from = source.connect();
    from.ask("SET key value");
    let port = target.port;
    let refused = from.ask(&format!("MIGRATE 127.0.0.1 {port} key 0 5000"));
    assert_eq!(refused, "ERR Target instance replied with error: NOAUTH Authentication required.");
    let refused = from.ask(&format!("MIGRATE 127.0.0.1 {port} key 0 5000 AUTH wrong"));
    assert!(refused.starts_with("ERR Target instance replied with error: WRONGPASS"), "{refused}");
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} key 0 5000 COPY AUTH secret")), "OK");
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} key 0 5000 REPLACE AUTH2 default secret")), "OK");
    let mut to = target.connect();
    to.ask("AUTH secret");
    assert_eq!(to.ask("GET key"), "value");
}

#[test]
fn a_target_that_went_away_loses_nothing() {
    let source = start(&["--appendonly", "yes"]);
    let mut from = source.connect();
    process::eventually("loading", || from.ask("SET moved value") == "OK");
    from.ask("SET kept value");
    let target = start(&[]);
    let port = target.port;
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} moved 0 5000")), "OK");
    drop(target);
    let failed = from.ask(&format!("MIGRATE 127.0.0.1 {port} kept 0 1000"));
    assert_eq!(failed, "IOERR error or timeout writing to target instance");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let failed = from.ask(&format!("MIGRATE 127.0.0.1 {port} kept 0 50"));
    assert_eq!(failed, "IOERR error or timeout reading to target instance");
    from.ask("DEBUG LOADAOF");
    assert_eq!(from.ask("KEYS *"), "[kept]", "what has moved is removed in the append-only file too");
}
