//! What MEMORY USAGE answers is what the allocator has handed out: collections of every type and encoding are built
//! element by element, and their figure is compared with the difference in bytes allocated by this thread.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use server::config::Config;
use server::db::collection::EncodingLimits;
use server::db::hash::FieldExpiry;
use server::db::list::{End, List};
use server::db::sorted_set::SortedSet;
use server::db::stream::{Stream, StreamId};
use server::db::{Db, EventClasses, Hash, Set};
use server::observe::memory::ThreadMemory;
use structures::hash::HashSeed;

const KEY: &[u8] = b"collection";

/// Adds element `i` to the collection at [`KEY`].
type Add<'a> = &'a dyn Fn(&mut Db, usize);

fn text(i: usize) -> Vec<u8> {
    format!("element:{i:08}").into_bytes()
}

/// In an order that is nobody's.
fn scattered(i: usize) -> usize {
    i.wrapping_mul(2_654_435_761) % 1_000_000_007
}

fn list(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |list: &mut List, means| {
        let element = text(scattered(i));
        list.expect(1, element.len(), means.limits);
        list.push(if i % 3 == 0 { End::Left } else { End::Right }, &element);
    })
    .unwrap();
}

fn long_list(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |list: &mut List, _| {
        list.push(End::Right, &vec![b'x'; 100 + scattered(i) % 20_000])
    })
    .unwrap();
}

fn texts(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |set: &mut Set, means| set.add(&text(scattered(i)), &means)).unwrap();
}

fn integers(db: &mut Db, i: usize) {
    let member = scattered(i).to_string();
    db.change_or_create(KEY, |set: &mut Set, means| set.add(member.as_bytes(), &means)).unwrap();
}

fn consecutive(db: &mut Db, i: usize) {
    let member = i.to_string();
    db.change_or_create(KEY, |set: &mut Set, means| set.add(member.as_bytes(), &means)).unwrap();
}

fn scores(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |set: &mut SortedSet, means| {
        set.insert(&text(i), scattered(i) as f64 / 7.0, &means).map(drop).unwrap();
    })
    .unwrap();
}

fn long_members(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |set: &mut SortedSet, means| {
        let mut member = text(i);
        member.resize(20 + scattered(i) % 3000, b'm');
        set.insert(&member, scattered(i) as f64, &means).map(drop).unwrap();
    })
    .unwrap();
}

fn entries(db: &mut Db, i: usize) {
    db.change_or_create(KEY, |stream: &mut Stream, means| {
        let id = StreamId { ms: 1_700_000_000_000 + i as u64, seq: 0 };
        stream.add(id, &[b"field", &text(i)], means.limits).unwrap();
    })
    .unwrap();
}

/// Overwrites: the longest is what stays.
fn string(db: &mut Db, i: usize) {
    db.put_text(KEY, &vec![b'x'; i * 37], None);
}

fn forget_changes(db: &mut Db) {
    db.changed(EventClasses::GENERIC, "set", KEY);
    drop(db.journal.take());
}

fn compare(what: &str, limits: &EncodingLimits, add: Add<'_>, sizes: &[usize]) -> Vec<String> {
    let memory = ThreadMemory::of_this_thread().expect("the allocator counts");
    let mut differences = Vec::new();
    for &size in sizes {
        let mut db = Db::new(1, HashSeed::new(1, 2), 3);
        db.limits = limits.clone();
        db.begin(0, 0);
        // The table and the journal are there before the key is.
        add(&mut db, 0);
        db.remove(KEY);
        forget_changes(&mut db);
        let before = memory.used_bytes();
        (0..size).for_each(|i| add(&mut db, i));
        forget_changes(&mut db);
        let allocated = memory.used_bytes() - before;
        let told = db.memory_bytes(KEY).unwrap() as u64;
        // The database's own index of hashes with fields that expire has a line for the key.
        let index_bytes = if what.contains("expiry") { 48 } else { 0 };
        if told.abs_diff(allocated) > allocated / 100 + index_bytes {
            differences.push(format!("{what} of {size}: {told} told, {allocated} allocated"));
        }
    }
    differences
}

#[test]
fn the_memory_of_collections_is_what_was_allocated() {
    let limits = EncodingLimits::of(&Config::default());
    let skip_list = EncodingLimits { sorted_set_skip_list: true, ..limits.clone() };
    let sizes = [1, 5, 100, 129, 1000, 30_000];
    let mut differences = Vec::new();
    differences.extend(compare("string", &limits, &string, &[1, 2, 4, 10, 500, 5000]));
    differences.extend(compare("list", &limits, &list, &sizes));
    differences.extend(compare("list of long elements", &limits, &long_list, &[1, 10, 1000]));
    differences.extend(compare("set", &limits, &texts, &sizes));
    differences.extend(compare("set of integers", &limits, &integers, &sizes));
    differences.extend(compare("set of consecutive integers", &limits, &consecutive, &sizes));
    differences.extend(compare("sorted set", &limits, &scores, &sizes));
    differences.extend(compare("sorted set of long members", &limits, &long_members, &sizes[..5]));
    differences.extend(compare("skip list", &skip_list, &scores, &sizes));
    differences.extend(compare("skip list of long members", &skip_list, &long_members, &sizes[..5]));
    differences.extend(compare("stream", &limits, &entries, &sizes));
    let hash = |expiry: FieldExpiry| {
        move |db: &mut Db, i: usize| {
            db.change_or_create(KEY, |hash: &mut Hash, means| {
                hash.set(&text(scattered(i)), format!("value:{i}").as_bytes(), expiry, &means);
            })
            .unwrap();
        }
    };
    differences.extend(compare("hash", &limits, &hash(FieldExpiry::Clear), &sizes));
    differences.extend(compare("hash with expiry", &limits, &hash(FieldExpiry::At(1 << 40)), &sizes));
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}
