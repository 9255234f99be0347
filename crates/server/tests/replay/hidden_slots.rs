//! Slots that are hidden while they come from another node: who sees their keys, and who does not.

use super::START_UNIX_MS;
use super::contents::{Contents, Detail};
use super::life::Life;
use super::slots::clustered;
use super::world::Weather;
use server::db::slots::{has_no_keys, hidden, hide, is_hidden, keys_in, show};
use structures::key_slot::key_slot;
use wire::cluster_bus::SlotSet;

const HIDDEN_TAG: &str = "{hidden}";

fn hidden_slots() -> SlotSet {
    [key_slot(HIDDEN_TAG.as_bytes())].into_iter().collect()
}

fn send(life: &mut Life, line: &str) -> String {
    let command = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    String::from_utf8(life.send(0, &command)).unwrap()
}

/// A node with keys of all types, some of which expire, in a hidden slot.
fn with_hidden() -> Life {
    let mut life = Life::begin(&clustered(1), Weather::default(), START_UNIX_MS, 1);
    hide(&mut life.executor.db, &hidden_slots());
    for line in [
        "SET {hidden}s v",
        "SET {hidden}t v PX 500",
        "RPUSH {hidden}l a b",
        "HSET {hidden}h f v g w",
        "HPEXPIRE {hidden}h 500 FIELDS 1 f",
        "SELECT 1",
        "SADD {hidden}m a b",
        "SELECT 0",
    ] {
        let reply = send(&mut life, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    life
}

#[test]
fn lists_and_numbers_of_keys_leave_hidden_slots_out() {
    let mut life = with_hidden();
    for (line, reply) in [
        ("DBSIZE", ":0\r\n"),
        ("KEYS *", "*0\r\n"),
        ("KEYS {hidden}*", "*0\r\n"),
        ("SCAN 0 COUNT 1000", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SCAN 0 MATCH {hidden}* COUNT 1000", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("RANDOMKEY", "$-1\r\n"),
        ("INFO keyspace", "$12\r\n# Keyspace\r\n\r\n"),
        ("GET {hidden}s", "$1\r\nv\r\n"),
        ("LLEN {hidden}l", ":2\r\n"),
        ("EXISTS {hidden}s {hidden}h", ":2\r\n"),
        ("SET other v", "+OK\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("KEYS *", "*1\r\n$5\r\nother\r\n"),
        ("RANDOMKEY", "$5\r\nother\r\n"),
    ] {
        assert_eq!(send(&mut life, line), reply, "{line}");
    }
    assert!(send(&mut life, "INFO keyspace").contains("db0:keys=1,expires=0,"));
    let db = &mut life.executor.db;
    assert_eq!(keys_in(db, key_slot(HIDDEN_TAG.as_bytes())), 5);
    show(db, &hidden_slots());
    assert_eq!(send(&mut life, "DBSIZE"), ":5\r\n");
    assert_eq!(hidden(&life.executor.db), SlotSet::new());
    assert!(send(&mut life, "INFO keyspace").contains("db1:keys=1,expires=0,"));
}

#[test]
fn nothing_of_hidden_slots_expires_by_itself() {
    let mut life = with_hidden();
    send(&mut life, "SET other v PX 500");
    (0..300).for_each(|_| life.turn(20));
    let figures = &life.executor.db.figures;
    assert_eq!((figures.expired_keys, figures.expired_fields), (1, 0));
    show(&mut life.executor.db, &hidden_slots());
    (0..300).for_each(|_| life.turn(20));
    let figures = &life.executor.db.figures;
    assert_eq!((figures.expired_keys, figures.expired_fields), (2, 1));
}

#[test]
fn nothing_of_hidden_slots_is_evicted() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-ttl",
        "volatile-random",
        "allkeys-s3fifo",
        "volatile-s3fifo",
    ] {
        let mut life = with_hidden();
        send(&mut life, &format!("CONFIG SET maxmemory-policy {policy}"));
        (0..50).for_each(|number| drop(send(&mut life, &format!("SET key:{number} v EX 1000"))));
        life.shortage_bytes = Some(1 << 40);
        let reply = send(&mut life, "SET more v");
        assert!(reply.starts_with("-OOM"), "{policy}: {reply}");
        let db = &life.executor.db;
        assert_eq!(db.figures.evicted_keys, 50, "{policy}");
        assert!(has_no_keys(db) && keys_in(db, key_slot(HIDDEN_TAG.as_bytes())) == 5, "{policy}");
        db.check();
    }
}

#[test]
fn files_have_what_is_hidden_and_flushes_remove_it() {
    let mut life = with_hidden();
    let config = clustered(1);
    let here = Contents::of(&life.executor, Detail::WithoutTimes);
    assert_eq!(here.keys(), 5);
    let replayed = life.replayed(&config, 0);
    assert_eq!(here.difference(&Contents::of(&replayed.executor, Detail::WithoutTimes)), None);
    let (loaded, libraries) = life.snapshot_loaded(&config);
    assert_eq!(here.difference(&Contents::of_db(&loaded, libraries, Detail::WithoutTimes)), None);
    assert_eq!(send(&mut life, "FLUSHALL"), "+OK\r\n");
    assert_eq!(Contents::of(&life.executor, Detail::WithoutTimes).keys(), 0);
    send(&mut life, "SET {hidden}s v");
    let db = &life.executor.db;
    assert!(has_no_keys(db) && is_hidden(db, key_slot(HIDDEN_TAG.as_bytes())), "the slot stays hidden");
    db.check();
}
