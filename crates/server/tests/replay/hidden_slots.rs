//! Slots that are hidden while they come from another node: who sees their keys, and who does not.

use super::START_UNIX_MS;
use super::contents::{Contents, Detail};
use super::life::Life;
use super::slots::clustered;
use super::world::Weather;
use server::db::slots::{has_no_keys, hidden, hide, is_hidden, keys_in, show};
use server::db::{Db, Turn};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::save::is_unrepresentable;
use server::persist::rdb::{LoadError, Loader, Snapshot, write_snapshot};
use structures::hash::HashSeed;
use structures::key_slot::{KeySeed, key_slot};
use wire::cluster_bus::{NodeId, SlotSet};
use wire::rdb::SlotImport;

const HIDDEN_TAG: &str = "{hidden}";

pub const LOADING: LoadOptions = LoadOptions {
    strict: true,
    verify_checksum: true,
    drop_expired: false,
    replaces: false,
    keys_expected_max: 0,
    key_delay_us: 0,
    now_ms: START_UNIX_MS,
};

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

/// Here no job has hidden the slot, as after a load that failed.
#[test]
fn a_load_shows_what_no_import_hides() {
    let mut life = with_hidden();
    assert_eq!(send(&mut life, "DEBUG RELOAD"), "+OK\r\n");
    assert_eq!(hidden(&life.executor.db), SlotSet::new());
    assert_eq!(send(&mut life, "DBSIZE"), ":4\r\n");
}

fn import(letter: &str, slots: SlotSet) -> SlotImport {
    SlotImport { name: NodeId::parse(letter.repeat(40).as_bytes()).unwrap(), slots }
}

fn load(file: &[u8]) -> Result<(Db, Vec<SlotImport>), LoadError> {
    let mut db = Db::new(3, KeySeed::new(HashSeed::new(5, 6), true), 7);
    db.begin(Turn::new(0, START_UNIX_MS));
    let mut loader = Loader::open(file, LOADING)?;
    assert!(loader.step(&mut db, &mut || false)?);
    let imports = loader.take_slot_imports();
    Ok((db, imports))
}

#[test]
fn files_name_imports_whose_slots_are_hidden_again() {
    let life = with_hidden();
    let imports = vec![import("a", hidden_slots()), import("b", [1, 2, 3, 100].into_iter().collect())];
    let snapshot =
        Snapshot { release: "9.1", checksummed: true, slot_imports: imports, ..Snapshot::default() };
    let write = |snapshot: &Snapshot| write_snapshot(Vec::new(), &life.executor.db, snapshot, &mut |_| ());
    let file = write(&snapshot).unwrap();
    let (db, imports) = load(&file).unwrap();
    assert_eq!(imports, snapshot.slot_imports);
    assert_eq!(hidden(&db).iter().count(), 5);
    assert!(has_no_keys(&db) && keys_in(&db, key_slot(HIDDEN_TAG.as_bytes())) == 5);
    db.check();
    let here = Contents::of(&life.executor, Detail::WithoutTimes);
    assert_eq!(here.difference(&Contents::of_db(&db, Vec::new(), Detail::WithoutTimes)), None);
    for len in 0..file.len() {
        assert!(load(&file[..len]).is_err(), "{len} bytes");
    }
    // A slot is imported once.
    let twice = vec![import("a", hidden_slots()), import("b", hidden_slots())];
    let file = write(&Snapshot { slot_imports: twice, ..snapshot.clone() }).unwrap();
    assert!(load(&file).is_err());
    let one_name = vec![import("a", hidden_slots()), import("a", [1, 2].into_iter().collect())];
    let file = write(&Snapshot { slot_imports: one_name, ..snapshot.clone() }).unwrap();
    assert!(load(&file).is_err());
    // Replicas that know nothing of it get none of it; libraries alone have none.
    let error = write(&Snapshot { for_7_2: true, ..snapshot.clone() }).unwrap_err();
    assert!(is_unrepresentable(&error));
    let file = write(&Snapshot { without_data: true, ..snapshot }).unwrap();
    assert_eq!(load(&file).unwrap().1, []);
}
