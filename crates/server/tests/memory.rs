//! What MEMORY USAGE answers is what the allocator has handed out: collections of every type and encoding are built
//! element by element, and their figure is compared with the difference in bytes allocated by this thread.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use server::config::{Config, SetOrigin};
use server::db::hash::FieldExpiry;
use server::db::list::{End, List};
use server::db::policy::Policies;
use server::db::rdb::LoadedKey;
use server::db::sorted_set::SortedSet;
use server::db::stream::{Pending, Stream, StreamId};
use server::db::{Db, EventClasses, Hash, Set, Turn};
use server::observe::memory::ThreadMemory;
use structures::hash::HashSeed;
use wire::rdb::StringRef;

const KEY: &[u8] = b"collection";

/// Adds element `i` to the collection at [`KEY`].
type Add<'a> = &'a dyn Fn(&mut Db, usize);

fn text(i: usize) -> Vec<u8> {
    format!("element:{i:08}").into_bytes()
}

/// In random order.
fn scattered(i: usize) -> usize {
    i.wrapping_mul(2_654_435_761) % 1_000_000_007
}

fn referred_string(db: &mut Db, i: usize) {
    let reply = db.share_string(db.key(KEY)).cloned();
    string(db, i);
    drop(reply);
}

fn list(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |list: &mut List, means| {
        let element = text(scattered(i));
        list.push(if i.is_multiple_of(3) { End::Left } else { End::Right }, &element, means.limits);
    })
    .unwrap();
}

/// A value that lies in its key's entry is taken out of it to be changed, into an allocation that is kept for the next of its
/// type. Of lists it is given up when the last one was emptied; of sets and sorted sets it is there afterwards.
fn take_out_others(db: &mut Db) {
    for _ in 0..2 {
        db.change_or_create(db.key(b"other"), |list: &mut List, means| {
            list.push(End::Left, b"1", means.limits)
        })
        .unwrap();
    }
    for _ in 0..2 {
        db.change(db.key(b"other"), |list: &mut List, means| {
            list.pop(End::Left, |_| ());
            list.shrunk(means.limits);
        })
        .unwrap();
    }
    db.changed(EventClasses::LIST, "lpop", db.key(b"other"));
    for member in [b"a", b"b"] {
        db.change_or_create(db.key(b"other"), |set: &mut Set, means| set.add(member, &means)).unwrap();
    }
    for member in [b"a", b"b"] {
        db.change(db.key(b"other"), |set: &mut Set, _| set.remove(member)).unwrap();
    }
    db.changed(EventClasses::SET, "srem", db.key(b"other"));
    for member in [b"a", b"b"] {
        db.change_or_create(db.key(b"other"), |set: &mut SortedSet, means| {
            set.insert(member, 1.0, &means).unwrap();
        })
        .unwrap();
    }
    for member in [b"a", b"b"] {
        db.change(db.key(b"other"), |set: &mut SortedSet, _| set.remove(member)).unwrap();
    }
    db.changed(EventClasses::ZSET, "zrem", db.key(b"other"));
}

fn long_list(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |list: &mut List, means| {
        list.push(End::Right, &vec![b'x'; 100 + scattered(i) % 20_000], means.limits)
    })
    .unwrap();
}

fn texts(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |set: &mut Set, means| set.add(&text(scattered(i)), &means)).unwrap();
}

fn integers(db: &mut Db, i: usize) {
    let member = scattered(i).to_string();
    db.change_or_create(db.key(KEY), |set: &mut Set, means| set.add(member.as_bytes(), &means)).unwrap();
}

fn consecutive(db: &mut Db, i: usize) {
    let member = i.to_string();
    db.change_or_create(db.key(KEY), |set: &mut Set, means| set.add(member.as_bytes(), &means)).unwrap();
}

fn scores(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |set: &mut SortedSet, means| {
        set.insert(&text(i), scattered(i) as f64 / 7.0, &means).map(drop).unwrap();
    })
    .unwrap();
}

fn long_members(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |set: &mut SortedSet, means| {
        let mut member = text(i);
        member.resize(20 + scattered(i) % 3000, b'm');
        set.insert(&member, scattered(i) as f64, &means).map(drop).unwrap();
    })
    .unwrap();
}

fn entries(db: &mut Db, i: usize) {
    db.change_or_create(db.key(KEY), |stream: &mut Stream, means| {
        let id = StreamId { ms: 1_700_000_000_000 + i as u64, seq: 0 };
        stream.add(id, &[b"field", &text(i)], means.limits).unwrap();
    })
    .unwrap();
}

/// Overwrites: the longest is what stays.
fn string(db: &mut Db, i: usize) {
    db.put_string(db.key(KEY), &vec![b'x'; i * 37], None);
}

/// Lengths of up to three sizes of entries, beside each limit, and some that have buffers of their own; in units of 37.
const STRINGS: [usize; 17] = [1, 2, 4, 5, 6, 7, 8, 9, 10, 15, 28, 41, 56, 57, 443, 444, 5000];

fn expiring_string(db: &mut Db, i: usize) {
    db.put_string(db.key(KEY), &vec![b'x'; i * 37], Some(1 << 40));
}

fn string_given_a_time(db: &mut Db, i: usize) {
    string(db, i);
    db.set_expiry(db.key(KEY), Some(1 << 40));
}

fn loaded_string(db: &mut Db, i: usize) {
    let about = LoadedKey { replaces: true, ..LoadedKey::default() };
    db.load_string(db.key(KEY), &StringRef::Bytes(&vec![b'x'; i * 37]), about);
}

fn copied_string(db: &mut Db, i: usize) {
    string(db, i);
    let copy = db.read_for_write(db.key(KEY)).map(|value| value.to_owned_entry()).unwrap();
    db.put_owned(db.key(KEY), copy);
}

fn changed_string(db: &mut Db, i: usize) {
    string(db, i);
    db.edit_string(db.key(KEY), |text| text.push(b'y')).unwrap();
}

/// A log whose entries are each pending with one of three consumers.
fn read_entries(db: &mut Db, i: usize) {
    entries(db, i);
    db.change(db.key(KEY), |stream: &mut Stream, _| {
        if i == 0 {
            stream.create_group(b"group", StreamId::MIN, Some(0));
            let mut group = stream.group_mut(b"group").unwrap();
            for name in ["a", "b", "a long name of a consumer"] {
                group.create_consumer(name.as_bytes(), 0).unwrap();
            }
        }
        let mut group = stream.group_mut(b"group").unwrap();
        let (consumer, _) = group.consumers().nth(i % 3).unwrap();
        let id = StreamId { ms: 1_700_000_000_000 + i as u64, seq: 0 };
        group.assign(id, Pending { consumer, delivered_ms: i as i64, deliveries: 1 });
    })
    .unwrap();
}

/// Takes element `i` out again.
type Remove<'a> = &'a dyn Fn(&mut Db, usize);

fn remove_text(db: &mut Db, i: usize) {
    db.change(db.key(KEY), |set: &mut Set, _| set.remove(&text(scattered(i)))).unwrap();
}

fn remove_integer(db: &mut Db, i: usize) {
    db.change(db.key(KEY), |set: &mut Set, _| set.remove(scattered(i).to_string().as_bytes())).unwrap();
}

fn remove_member(db: &mut Db, i: usize) {
    db.change(db.key(KEY), |set: &mut SortedSet, _| set.remove(&text(i))).unwrap();
}

fn remove_field(db: &mut Db, i: usize) {
    db.change(db.key(KEY), |hash: &mut Hash, mut means| hash.remove(&text(scattered(i)), &mut means))
        .unwrap();
}

fn pop(db: &mut Db, i: usize) {
    db.change(db.key(KEY), |list: &mut List, means| {
        list.pop(if i.is_multiple_of(2) { End::Left } else { End::Right }, |_| ());
        list.shrunk(means.limits);
    })
    .unwrap();
}

fn delete_entry(db: &mut Db, i: usize) {
    let id = StreamId { ms: 1_700_000_000_000 + i as u64, seq: 0 };
    db.change(db.key(KEY), |stream: &mut Stream, _| stream.delete(id)).unwrap();
}

fn forget_changes(db: &mut Db) {
    db.changed(EventClasses::GENERIC, "set", db.key(KEY));
    drop(db.change_log.take());
    drop(std::mem::take(&mut db.change_log.audit));
}

/// What such rules come to.
fn policies(rules: &str) -> Policies {
    let mut config = Config::default();
    config.set(&[(b"key-policy", rules.as_bytes())], SetOrigin::default()).unwrap();
    Policies::of(&config)
}

/// A collection is built of each size, and then, if it can be, cut down to a tenth.
fn compare(
    what: &str,
    policies: &Policies,
    add: Add<'_>,
    remove: Option<Remove<'_>>,
    sizes: &[usize],
) -> Vec<String> {
    let memory = ThreadMemory::of_this_thread().expect("the allocator counts");
    let mut differences = Vec::new();
    for &size in sizes {
        let mut db = Db::new(1, HashSeed::new(1, 2), 3);
        db.policies = policies.clone();
        db.begin(Turn::new(0, 0));
        // The table, the change log, and what is kept of large keys are there before the key is.
        (0..size).for_each(|i| add(&mut db, i));
        db.remove(db.key(KEY));
        take_out_others(&mut db);
        forget_changes(&mut db);
        let before = memory.used_bytes();
        let mut compare_now = |db: &mut Db, when: &str| {
            take_out_others(db);
            forget_changes(db);
            let allocated = u64::try_from(memory.used_bytes() - before).unwrap();
            let counted = db.memory_bytes(db.key(KEY)).unwrap() as u64;
            // The database's own index of hashes with fields that expire has a line for the key.
            let index_bytes = if what.contains("expiry") { 32 } else { 0 };
            if counted.abs_diff(allocated) > allocated / 100 + index_bytes {
                differences
                    .push(format!("{what} of {size} {when}: {counted} counted, {allocated} allocated"));
            }
        };
        (0..size).for_each(|i| add(&mut db, i));
        compare_now(&mut db, "built");
        if let Some(remove) = remove {
            (0..size - size.div_ceil(10)).for_each(|i| remove(&mut db, i));
            compare_now(&mut db, "cut down");
        }
    }
    differences
}

#[test]
fn consumers_that_are_gone_leave_no_room_behind() {
    let mut db = Db::new(1, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, 0));
    read_entries(&mut db, 0);
    forget_changes(&mut db);
    let before = db.memory_bytes(db.key(KEY)).unwrap();
    for goes in [false, true] {
        db.change(db.key(KEY), |stream: &mut Stream, _| {
            let mut group = stream.group_mut(b"group").unwrap();
            for name in (0..10_000).map(text) {
                match goes {
                    false => _ = group.create_consumer(&name, 0).unwrap(),
                    true => assert_eq!(group.remove_consumer(&name), Some(0)),
                }
            }
        })
        .unwrap();
        forget_changes(&mut db);
    }
    let left = db.memory_bytes(db.key(KEY)).unwrap() - before;
    assert!(left < 2000, "{left}");
}

#[test]
fn the_memory_of_collections_is_what_was_allocated() {
    let limits = policies("");
    let skip_list = policies("* zset-index skiplist");
    let compressed = policies("* list-compress-depth 1");
    let large_listpacks = policies(
        "* hash-max-listpack-entries 1000 zset-max-listpack-entries 1000 set-max-listpack-entries 1000 \
         list-max-listpack-size 1000",
    );
    let no_listpacks = policies(
        "* hash-max-listpack-entries 0 zset-max-listpack-entries 0 set-max-listpack-entries 0 \
         set-max-intset-entries 0 list-max-listpack-size 1",
    );
    let sizes = [1, 5, 100, 129, 1000, 30_000];
    let few = &sizes[..5];
    let add_field = |expiry: FieldExpiry| {
        move |db: &mut Db, i: usize| {
            let value = format!("value:{i}");
            db.change_or_create(db.key(KEY), |hash: &mut Hash, mut means| {
                hash.set(&text(scattered(i)), value.as_bytes(), expiry, &mut means);
            })
            .unwrap();
        }
    };
    let (field, expiring_field) = (add_field(FieldExpiry::Clear), add_field(FieldExpiry::At(1 << 40)));
    let rows: &[(&str, &Policies, Add<'_>, Option<Remove<'_>>, &[usize])] = &[
        ("string", &limits, &string, None, &STRINGS),
        ("string with a time to live", &limits, &expiring_string, None, &STRINGS),
        ("string that is given a time to live", &limits, &string_given_a_time, None, &STRINGS),
        ("string that was read from a file", &limits, &loaded_string, None, &STRINGS),
        ("string that was copied", &limits, &copied_string, None, &STRINGS),
        ("string that has been changed", &limits, &changed_string, None, &STRINGS),
        ("string that replies refer to", &limits, &referred_string, None, &STRINGS),
        ("list", &limits, &list, Some(&pop), &[1, 3, 31, 32, 33, 60, 160, 1000, 30_000]),
        ("compressed list", &compressed, &list, Some(&pop), &sizes),
        ("list of long elements", &limits, &long_list, Some(&pop), &[1, 10, 1000]),
        ("set", &limits, &texts, Some(&remove_text), &sizes),
        ("set of integers", &limits, &integers, Some(&remove_integer), &sizes),
        ("set of consecutive integers", &limits, &consecutive, None, &sizes),
        ("sorted set", &limits, &scores, Some(&remove_member), &sizes),
        ("sorted set of long members", &limits, &long_members, None, few),
        ("skip list", &skip_list, &scores, Some(&remove_member), &sizes),
        ("skip list of long members", &skip_list, &long_members, None, few),
        ("hash", &limits, &field, Some(&remove_field), &sizes),
        ("hash with expiry", &limits, &expiring_field, Some(&remove_field), &sizes),
        ("hash as a large listpack", &large_listpacks, &field, Some(&remove_field), few),
        ("hash as no listpack", &no_listpacks, &field, Some(&remove_field), few),
        ("set as a large listpack", &large_listpacks, &texts, Some(&remove_text), few),
        ("set as no listpack", &no_listpacks, &texts, Some(&remove_text), few),
        ("integers as no array", &no_listpacks, &integers, Some(&remove_integer), few),
        ("sorted set as a large listpack", &large_listpacks, &scores, Some(&remove_member), few),
        ("sorted set as no listpack", &no_listpacks, &scores, Some(&remove_member), few),
        ("list of large nodes", &large_listpacks, &list, Some(&pop), few),
        ("list of nodes of one element", &no_listpacks, &list, Some(&pop), few),
        ("stream", &limits, &entries, Some(&delete_entry), &sizes),
        ("stream with readers", &limits, &read_entries, None, &sizes),
    ];
    let differences: Vec<String> = rows
        .iter()
        .flat_map(|(what, policies, add, remove, sizes)| compare(what, policies, *add, *remove, sizes))
        .collect();
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Builds hashes with fields that expire, the first field of the hash `i` at `at_ms(i)`. Returns what is counted for a key
/// and what is allocated, without the table of keys.
fn expiring_hashes(count: usize, fields: usize, at_ms: &dyn Fn(usize) -> i64) -> (f64, f64) {
    let memory = ThreadMemory::of_this_thread().expect("the allocator counts");
    let key = |i: usize| format!("hash:{i:012}").into_bytes();
    let build = |add: &dyn Fn(&mut Db, usize)| {
        let mut db = Db::new(1, HashSeed::new(1, 2), 3);
        db.begin(Turn::new(0, 0));
        let before = memory.used_bytes();
        for i in 0..count {
            add(&mut db, i);
            db.changed(EventClasses::GENERIC, "set", db.key(&key(i)));
        }
        forget_changes(&mut db);
        let allocated = memory.used_bytes() - before;
        let counted: usize = (0..count).map(|i| db.memory_bytes(db.key(&key(i))).unwrap()).sum();
        (counted as f64 / count as f64, allocated as f64 / count as f64)
    };
    // The table has a slot for each key, whatever the value is.
    let (counted, allocated) = build(&|db, i| db.put_string(db.key(&key(i)), b"value", None));
    let slot = allocated - counted;
    let (counted, allocated) = build(&|db, i| {
        db.change_or_create(db.key(&key(i)), |hash: &mut Hash, mut means| {
            for field in 0..fields {
                let expiry = FieldExpiry::At(at_ms(i) + field as i64);
                hash.set(&text(field), b"value", expiry, &mut means);
            }
        })
        .unwrap();
    });
    (counted, allocated - slot)
}

#[test]
fn what_finds_hashes_with_fields_that_expire_is_counted_for_their_keys() {
    const START_MS: i64 = 1 << 40;
    let orders: [(&str, &dyn Fn(usize) -> i64); 3] = [
        ("ascending", &|i| START_MS + i as i64),
        ("equal", &|_| START_MS),
        ("scattered", &|i| START_MS + scattered(i) as i64),
    ];
    for (order, at_ms) in orders {
        for (count, fields) in [(1000, 1), (30_000, 1), (1000, 5), (10_000, 5), (1000, 30)] {
            let (counted, allocated) = expiring_hashes(count, fields, at_ms);
            let difference = (counted - allocated).abs();
            assert!(
                difference <= 6.0 && (fields == 1 || difference <= allocated / 50.0),
                "{count} hashes of {fields} fields, {order}: {counted:.1} counted, {allocated:.1} allocated"
            );
        }
    }
}
