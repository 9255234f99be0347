//! RDB files and DUMP payloads: no bytes make the reader panic, nor take memory beyond what they can stand for; and
//! whatever it accepts is written as a file that loads again, and is written as the same bytes once more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::db::rdb::{Loaded, LoadedKey, ReadValue};
use server::db::{Db, Turn};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{Loader, Snapshot, write_snapshot};
use structures::hash::HashSeed;
use wire::rdb::Reader;
use wire::rdb::read::split_payload;

const OPTIONS: LoadOptions = LoadOptions {
    strict: false,
    verify_checksum: false,
    drop_expired: false,
    replaces: true,
    keys_expected_max: 1000,
    key_delay_us: 0,
    now_ms: 0,
};

/// Late enough for what is refused until some time has passed.
const NOW_MS: i64 = 1 << 48;

fn empty() -> Db {
    let mut db = Db::new(16, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, NOW_MS));
    db
}

fn written(db: &Db) -> Vec<u8> {
    let snapshot = Snapshot { release: "9.1.0", compresses: true, checksummed: true, ..Snapshot::default() };
    write_snapshot(Vec::new(), db, &snapshot, &mut |_| ()).expect("memory takes all that is written")
}

fn load(db: &mut Db, bytes: &[u8]) -> bool {
    let Ok(mut loader) = Loader::open(bytes, OPTIONS) else { return false };
    loader.step(db, &mut || false).unwrap_or(false)
}

/// What is written loads as much as there was. A foreign file may have its values in forms that are not ours, so only
/// what was written from our own is written again in the same length.
fn crosses(db: &Db) {
    let loaded = reloaded(db);
    let file = written(&loaded);
    assert_eq!(written(&reloaded(&loaded)).len(), file.len());
}

fn reloaded(db: &Db) -> Db {
    let mut again = empty();
    assert!(load(&mut again, &written(db)), "what was written loads");
    for index in 0..db.database_count() {
        assert_eq!(again.database(index).len(), db.database(index).len());
    }
    again
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let mut db = empty();
    if kind == b'V' || kind == b'R' {
        load(&mut db, bytes);
        return crosses(&db);
    }
    let _ = wire::ziplist::parse(rest);
    let _ = wire::zipmap::parse(rest);
    let _ = split_payload(rest);
    let mut reader = Reader::of_bytes(rest);
    let read = db.read_value(b"key", &mut reader, kind, None);
    assert!(reader.position() <= rest.len() as u64);
    if let Ok(value @ (ReadValue::Integer(_) | ReadValue::Bytes(_) | ReadValue::Object(_))) = read {
        assert_eq!(db.load_read(db.key(b"key"), value, LoadedKey::default()), Loaded::Stored);
        crosses(&db);
    }
});
