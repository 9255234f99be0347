//! The work of single operations, counted: bytes allocated, hashed and moved, places visited. Each is checked against a
//! bound that does not depend on the number of elements, or depends on its logarithm or as stated, while collections grow
//! one by one to a million elements, are changed at random and by adversarial patterns, and shrink again.
//!
//! Only builds with debug assertions count work. `WARMLINE_TEST_SCALE` multiplies the sizes.
#![cfg(all(debug_assertions, not(miri)))]

#[path = "bounded_work/meter.rs"]
mod meter;

use meter::{Bound, Meter, SEED, element, long_element, scaled, shuffled};
use structures::integer_set::IntegerSet;
use structures::key_table::{KeyTable, NewValue};
use structures::ordered_set::fbtree::FbTree;
use structures::ordered_set::skip_list::SkipList;
use structures::ordered_set::{LexBound, OrderedSet, ScoreBound};
use structures::packed_list::PackedList;
use structures::packed_map::{Expiry, PackedMap, PackedSet};
use structures::radix_tree::RadixTree;
use structures::random::Random;
use structures::stream::{Direction, NodeLimits, Stream, StreamId, TrimTo};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MILLION: u64 = 1_000_000;
/// Bytes of a table of segments that doubles, at a million elements.
const SEGMENT_TABLES: u64 = 64 << 10;

// ---- keys ----

/// A put or removal rearranges one group of at most 8 buckets, whose keys it hashes once in 16 doublings. Growing begins a
/// phase by making room for pointers to chunks: 16 bytes for 1,500 keys.
const KEY_CHANGED: Bound = Bound { allocated: 48 << 10, hashed: 4 << 10, moved: 2 << 10, visited: 24 };
const KEY_FOUND: Bound = Bound { allocated: 0, hashed: 24, moved: 0, visited: 4 };

#[test]
fn keys() {
    let mut table: KeyTable<u64> = KeyTable::new(SEED);
    let mut meter = Meter::new("key table: put");
    let count = scaled(MILLION);
    for number in 0..count {
        let key = element(number);
        let expiry_ms = number.is_multiple_of(3).then_some(number as i64);
        meter.hold(KEY_CHANGED, || {
            table.put(table.hash(&key), &key, NewValue::Inline(b"value"), expiry_ms, 0)
        });
    }
    let mut random = Random::new(1);
    let (mut found, mut drawn, mut expiry) =
        (Meter::new("key table: get"), Meter::new("key table: random"), Meter::new("key table: set_expiry"));
    for number in (0..count).step_by(10) {
        let key = element(number);
        found.hold(KEY_FOUND, || assert!(table.contains(table.hash(&key), &key)));
        // One draw in four hits; a hundred misses in a row do not happen.
        drawn.hold(Bound { visited: 100, ..Bound::default() }, || {
            assert!(table.random(&mut random).is_some())
        });
        expiry.hold(KEY_CHANGED, || {
            let hash = table.hash(&key);
            table.set_expiry(hash, &key, Some(5)) && table.set_expiry(hash, &key, None)
        });
    }
    let mut cursor = 0;
    let mut scan = Meter::new("key table: scan");
    loop {
        cursor = scan.hold(Bound { visited: 4, ..Bound::default() }, || table.scan(cursor, &mut |_| ()));
        if cursor == 0 {
            break;
        }
    }
    let mut meter = Meter::new("key table: remove");
    for number in shuffled(count, 2) {
        let key = element(number);
        assert!(meter.hold(KEY_CHANGED, || table.remove(table.hash(&key), &key)).is_some());
    }
}

/// A bucket has a thousand of a million keys that are inserted in the order of their hashes: their slots are moved to make
/// room for one, and divided when buckets are added.
const KEY_OF_CROWD_CHANGED: Bound =
    Bound { allocated: 160 << 10, hashed: 24 << 10, moved: 32 << 10, visited: 24 };

fn scanned_keys(table: &KeyTable<u64>) -> Vec<Vec<u8>> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = table.scan(cursor, &mut |entry| keys.push(entry.key().to_vec()));
        if cursor == 0 {
            return keys;
        }
    }
}

/// The order in which COPY and MOVE insert keys into another database, key by key of a SCAN.
#[test]
fn keys_in_the_order_of_a_scan() {
    let count = scaled(MILLION);
    let mut table: KeyTable<u64> = KeyTable::new(SEED);
    let put = |table: &mut KeyTable<u64>, key: &[u8], number: u64| {
        let expiry_ms = number.is_multiple_of(3).then_some(number as i64);
        table.put(table.hash(key), key, NewValue::Inline(b"value"), expiry_ms, 0);
    };
    (0..count).for_each(|number| put(&mut table, &element(number), number));
    let (keys, table_bytes) = (scanned_keys(&table), table.table_bytes());
    table = KeyTable::new(SEED);
    let (mut added, mut found) =
        (Meter::new("key table: put in order"), Meter::new("key table: get in order"));
    let crowd_max = 64 + (count as f64 * 1.5).sqrt() as usize;
    let (mut random, check_step) = (Random::new(19), keys.len() / 20 + 1);
    for (number, key) in keys.iter().enumerate() {
        added.hold(KEY_OF_CROWD_CHANGED, || put(&mut table, key, number as u64));
        let early = &keys[random.below(number as u64 / 8 + 1) as usize];
        found.hold(KEY_FOUND, || assert!(table.contains(table.hash(early), early)));
        let mut together = 0;
        table.scan(0, &mut |_| together += 1);
        assert!(together <= crowd_max, "{together} keys in the first bucket of {number}");
        assert!(table.table_bytes() < table_bytes * 5 / 4 + number * 64);
        if number.is_multiple_of(check_step) {
            table.check();
            assert!(table.random(&mut random).is_some() && table.random_expiring(&mut random).is_some());
        }
    }
    table.check();
    assert!(table.table_bytes() < table_bytes * 5 / 4, "{} bytes for {table_bytes}", table.table_bytes());
    let mut removed = Meter::new("key table: remove in order");
    for (number, key) in keys.iter().enumerate() {
        assert!(removed.hold(KEY_OF_CROWD_CHANGED, || table.remove(table.hash(key), key)).is_some());
        if number.is_multiple_of(check_step) {
            table.check();
        }
    }
}

/// Keys that share a bucket at any size of a table with this number of keys, removed in another order.
#[test]
fn keys_chosen_to_share_a_bucket() {
    let mut table: KeyTable<u64> = KeyTable::new(SEED);
    let keys: Vec<Vec<u8>> =
        (0..).map(element).filter(|key| table.hash(key) >> 52 == 5).take(2_000).collect();
    let mut meter = Meter::new("key table: one bucket");
    for (number, key) in keys.iter().enumerate() {
        let expiry_ms = number.is_multiple_of(3).then_some(1);
        meter.hold(KEY_OF_CROWD_CHANGED, || {
            table.put(table.hash(key), key, NewValue::Inline(b"value"), expiry_ms, 0)
        });
        if number.is_multiple_of(100) {
            table.check();
        }
    }
    for at in shuffled(keys.len() as u64, 20) {
        let key = &keys[at as usize];
        meter.hold(KEY_OF_CROWD_CHANGED, || {
            table.set_expiry(table.hash(key), key, at.is_multiple_of(2).then_some(7))
        });
        if at.is_multiple_of(3) {
            assert!(meter.hold(KEY_OF_CROWD_CHANGED, || table.remove(table.hash(key), key)).is_some());
        }
        if at.is_multiple_of(100) {
            table.check();
        }
    }
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(table.contains(table.hash(key), key), !at.is_multiple_of(3));
        assert_eq!(table.remove(table.hash(key), key).is_some(), !at.is_multiple_of(3));
    }
    while table.step(100).1 {}
    table.check();
    assert!(table.table_bytes() < 1_024, "{} bytes are left", table.table_bytes());
}

// ---- hashes and sets ----

/// A write moves a page of some kilobytes a few times, splits or merges one other, whose short keys it hashes, and may grow
/// a segment of the directory: 4,096 pages of 16 bytes at most.
const PAGE_CHANGED: Bound =
    Bound { allocated: SEGMENT_TABLES + (32 << 10), hashed: 4 << 10, moved: 32 << 10, visited: 32 };
const PAGE_READ: Bound = Bound { allocated: 0, hashed: 24, moved: 0, visited: 1 };

#[test]
fn hashes() {
    let mut map = PackedMap::new(SEED);
    let mut meter = Meter::new("packed map: insert");
    let count = scaled(MILLION);
    for number in 0..count {
        let field = element(number);
        meter.hold(PAGE_CHANGED, || map.insert(&field, &field, Expiry::Keep));
        if number.is_multiple_of(1_000) {
            // The first and last field to expire, repeatedly.
            meter.hold(PAGE_CHANGED, || map.set_expiry(&field, Some(1_000)));
            meter.hold(PAGE_CHANGED, || map.set_expiry(&field, None));
        }
    }
    let mut random = Random::new(3);
    let (mut found, mut written) = (Meter::new("packed map: get"), Meter::new("packed map: rewrite"));
    for step in 0..count / 5 {
        let field = element(random.below(count));
        found.hold(PAGE_READ, || assert!(map.get(&field).is_some()));
        let value = vec![b'v'; random.below(30) as usize];
        let expiry = if step.is_multiple_of(2) { Expiry::AtMs(step as i64) } else { Expiry::Clear };
        written.hold(PAGE_CHANGED, || map.insert(&field, &value, expiry));
    }
    let mut due = Meter::new("packed map: expire 16");
    let each = PAGE_CHANGED;
    while map.expiring_len() > 0 {
        let bound = Bound {
            moved: 16 * each.moved,
            visited: 16 * each.visited,
            allocated: 16 * each.allocated,
            hashed: 16 * each.hashed,
        };
        due.hold(bound, || map.remove_expired(i64::MAX, 16, &mut |_, _| ()));
    }
    let mut drawn = Meter::new("packed map: 100 different fields");
    let mut visited = 0;
    drawn.hold(Bound { allocated: 16 << 10, visited: 2_000, ..Bound::default() }, || {
        map.random_distinct(100, &mut random, &mut |_, _| visited += 1);
    });
    assert_eq!(visited, 100);
    let mut meter = Meter::new("packed map: remove");
    for number in shuffled(count, 4) {
        meter.hold(PAGE_CHANGED, || map.remove(&element(number)));
    }
    assert!(map.is_empty());
}

/// Values that become shorter leave no sparse pages behind, nor do cleared expiries.
#[test]
fn memory_of_hashes_follows_their_values() {
    let count = scaled(MILLION);
    let of_values = |len: usize, expiry: Expiry| {
        let mut map = PackedMap::new(SEED);
        for number in 0..count {
            map.insert(&element(number), &vec![b'v'; len], expiry);
        }
        map
    };
    let wanted = of_values(1, Expiry::Keep).memory_bytes();
    let mut meter = Meter::new("packed map: shorter values");
    for len in [100, 400] {
        let mut map = of_values(len, Expiry::Keep);
        for number in shuffled(count, 21) {
            meter.hold(PAGE_CHANGED, || map.insert(&element(number), b"v", Expiry::Keep));
        }
        let left = map.memory_bytes();
        // Pages are merged when they are half as full as those that are split.
        assert!(left < wanted * 23 / 20, "{left} bytes, {wanted} for values that always were short");
        map.check();
    }
    let mut map = of_values(1, Expiry::AtMs(1));
    for number in shuffled(count, 22) {
        let field = element(number);
        if number.is_multiple_of(2) {
            meter.hold(PAGE_CHANGED, || map.set_expiry(&field, None));
        } else {
            meter.hold(PAGE_CHANGED, || map.insert(&field, b"w", Expiry::Clear));
        }
    }
    let left = map.memory_bytes();
    assert!(left < wanted * 23 / 20, "{left} bytes, {wanted} for fields that never expired");
    map.check();
}

#[test]
fn sets() {
    let mut set = PackedSet::new(SEED);
    let mut random = Random::new(5);
    let mut meter = Meter::new("packed set: insert");
    let count = scaled(MILLION);
    for number in 0..count {
        meter.hold(PAGE_CHANGED, || set.insert(&element(number)));
    }
    let (mut scan, mut cursor) = (Meter::new("packed set: scan"), 0);
    loop {
        cursor = scan.hold(Bound { visited: 1, ..Bound::default() }, || set.scan(cursor, 10, &mut |_| ()));
        if cursor == 0 {
            break;
        }
    }
    let mut meter = Meter::new("packed set: pop");
    let bound = Bound { visited: 100, ..PAGE_CHANGED };
    let mut pop = || {
        let drawn = set.random(&mut random).map(<[u8]>::to_vec);
        drawn.is_some_and(|member| set.remove(&member))
    };
    while meter.hold(bound, &mut pop) {}
}

/// A page of 512 values is re-encoded, or two of them; a group of 128 pages of 32 bytes is split in two.
const INTEGER_CHANGED: Bound = Bound { allocated: 64 << 10, hashed: 0, moved: 24 << 10, visited: 0 };

#[test]
fn sets_of_integers() {
    // Consecutive ones, spread ones, and some of every size.
    let value = |number: u64| match number % 3 {
        0 => number as i64,
        1 => -(number.wrapping_mul(0x9e37_79b9) as i64 & 0xffff_ffff),
        _ => number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 >> (number % 60),
    };
    let mut set = IntegerSet::new();
    let mut meter = Meter::new("integer set");
    let count = scaled(MILLION);
    for number in 0..count {
        meter.hold(INTEGER_CHANGED, || set.insert(value(number)));
    }
    let mut random = Random::new(17);
    for _ in 0..count / 10 {
        meter.hold(Bound { visited: 200, ..Bound::default() }, || assert!(set.random(&mut random).is_some()));
        let some = value(random.below(count));
        meter.hold(Bound::default(), || assert!(set.contains(some)));
    }
    let drawn = Bound { allocated: 16 << 10, visited: 2_000, ..Bound::default() };
    meter.hold(drawn, || set.random_distinct(100, &mut random, |_| ()));
    for number in shuffled(count, 18) {
        meter.hold(INTEGER_CHANGED, || set.remove(value(number)));
    }
    assert!(set.is_empty());
}

/// Long keys are hashed when they are passed and never again.
#[test]
fn long_keys_of_hashes_and_sets() {
    const LEN: usize = 100_000;
    let (mut map, mut set) = (PackedMap::new(SEED), PackedSet::new(SEED));
    let (mut add, mut remove) = (Meter::new("long keys: insert"), Meter::new("long keys: remove"));
    // The map's record holds the key; the directory and pages hold as much as for short ones.
    let bound = Bound { allocated: 3 * LEN as u64, hashed: LEN as u64, moved: 32 << 10, visited: 16 };
    let count = scaled(1_000).min(10_000);
    for number in 0..count {
        let key = long_element(number, LEN);
        add.hold(bound, || map.insert(&key, b"value", Expiry::Keep));
        add.hold(bound, || set.insert(&key));
    }
    for number in 0..count {
        let key = long_element(number, LEN);
        assert!(remove.hold(bound, || map.remove(&key)));
        assert!(remove.hold(bound, || set.remove(&key)));
    }
}

/// As above, and pages are split until a crowded one's turn comes, up to the limit of one call.
const CROWD_CHANGED: Bound =
    Bound { allocated: 160 << 10, hashed: 32 << 10, moved: 96 << 10, visited: 2 << 10 };

/// The members in scan order, in which neighbours share their lowest hash bits.
fn scanned(set: &PackedSet) -> Vec<Vec<u8>> {
    let (mut members, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = set.scan(cursor, 100, &mut |member| members.push(member.to_vec()));
        if cursor == 0 {
            return members;
        }
    }
}

/// Inserts the members in this order into a set and a map, and removes them in the same order.
fn add_and_remove_in_order(members: &[Vec<u8>]) {
    let (mut set, mut map) = (PackedSet::new(SEED), PackedMap::new(SEED));
    let mut meter = Meter::new("crowded pages: insert");
    let mut random = Random::new(6);
    let check_step = members.len() / 20 + 1;
    for (number, member) in members.iter().enumerate() {
        assert!(meter.hold(CROWD_CHANGED, || set.insert(member)));
        let expiry = if number.is_multiple_of(1_000) { Expiry::AtMs(number as i64) } else { Expiry::Keep };
        meter.hold(CROWD_CHANGED, || map.insert(member, b"1", expiry));
        if number.is_multiple_of(check_step) {
            set.check();
            map.check();
        }
    }
    set.check();
    map.check();
    for member in members.iter().step_by(97) {
        assert!(set.contains(member) && map.get(member) == Some(b"1"));
        meter.hold(CROWD_CHANGED, || map.set_expiry(member, Some(1)));
    }
    let mut meter = Meter::new("crowded pages: remove");
    for (number, member) in members.iter().enumerate() {
        assert!(meter.hold(CROWD_CHANGED, || set.remove(member)));
        assert!(meter.hold(CROWD_CHANGED, || map.remove(member)));
        if number.is_multiple_of(check_step) {
            set.check();
            map.check();
            assert_eq!(set.random(&mut random).is_some(), !set.is_empty());
        }
    }
    assert_eq!((set.memory_bytes(), map.memory_bytes()), (0, 0));
}

#[test]
fn elements_in_the_order_of_a_scan() {
    for (count, len) in [(scaled(700_000), 16), (scaled(40_000), 250)] {
        let mut set = PackedSet::new(SEED);
        for number in 0..count {
            set.insert(&long_element(number, len));
        }
        add_and_remove_in_order(&scanned(&set));
    }
}

#[test]
fn elements_chosen_to_share_a_page() {
    let set = PackedSet::new(SEED);
    for (bits, len, wanted) in [(6, 250, 1_000), (12, 250, 600), (8, 9, 8_000)] {
        let members = (0..).map(|number| long_element(number, len));
        let sharing = members.filter(|member| set.hash(member) & ((1 << bits) - 1) == 5);
        add_and_remove_in_order(&sharing.take(wanted).collect::<Vec<_>>());
    }
}

// ---- sorted sets ----

/// Besides one descent: a leaf is split or merged, whose members' index entries are updated, and two leaves or long members
/// get free ids.
const MEMBER_CHANGED: Bound =
    Bound { allocated: SEGMENT_TABLES, hashed: 64 << 10, moved: 256 << 10, visited: 2_000 };
const MEMBER_READ: Bound = Bound { allocated: 0, hashed: 24, moved: 0, visited: 24 };

/// The skip list's towers vary: the length of a descent is logarithmic on average only.
const NODE_CHANGED: Bound = Bound { allocated: SEGMENT_TABLES, hashed: 1 << 10, moved: 0, visited: 600 };
const NODE_READ: Bound = Bound { visited: 400, ..MEMBER_READ };

fn sorted_set(set: &mut impl OrderedSet, name: &'static str, changed: Bound, read: Bound) {
    let mut meter = Meter::new(name);
    let count = scaled(MILLION);
    let mut random = Random::new(6);
    for number in 0..count {
        // Rising, falling, at random, all equal.
        let score = match number % 4 {
            0 => number as f64,
            1 => -(number as f64),
            2 => random.below(1_000) as f64,
            _ => 7.0,
        };
        meter.hold(changed, || set.insert(&element(number), score)).expect("not full");
    }
    for _ in 0..count / 10 {
        let (member, rank) = (element(random.below(count)), random.below(count) as usize);
        meter.hold(read, || assert!(set.score(&member).is_some()));
        meter.hold(read, || assert!(set.rank(&member).is_some()));
        meter.hold(read, || assert!(set.at(rank).is_some()));
        let two = Bound { visited: 2 * read.visited, ..Bound::default() };
        let least = random.below(1_000) as f64;
        meter.hold(two, || set.score_range(ScoreBound::Inclusive(least), ScoreBound::Exclusive(least + 1.0)));
        meter.hold(two, || set.lex_range(LexBound::Min, LexBound::Max));
        let both = Bound { visited: 2 * changed.visited, moved: 2 * changed.moved, ..changed };
        meter.hold(both, || set.insert(&member, random.below(2_000) as f64 - 1_000.0)).expect("not full");
    }
    let mut cursor = 0;
    loop {
        let scan = Bound { hashed: 4 << 10, visited: read.visited, ..Bound::default() };
        cursor = meter.hold(scan, || set.scan(cursor, 10, &mut |_, _| ()));
        if cursor == 0 {
            break;
        }
    }
    remove_all(set, &mut meter, changed, count);
}

fn remove_all(set: &mut impl OrderedSet, meter: &mut Meter, changed: Bound, count: u64) {
    // A range of ten, whose work may be ten times that of one; most of it within two leaves.
    let mut random = Random::new(7);
    for _ in 0..count / 100 {
        let start = random.below(set.len() as u64 - 10) as usize;
        let ten = Bound {
            visited: 3 * changed.visited,
            moved: 3 * changed.moved,
            hashed: 3 * changed.hashed,
            ..changed
        };
        meter.hold(ten, || set.remove_range(start..start + 10, &mut |_, _| ()));
    }
    for number in shuffled(count, 8) {
        meter.hold(changed, || set.remove(&element(number)));
        if set.len() == 1_000 {
            break;
        }
    }
    while meter.hold(changed, || set.remove_range(0..1, &mut |_, _| ())) == 1 {}
}

#[test]
fn sorted_sets_in_trees() {
    sorted_set(&mut FbTree::new(SEED), "feature B+ tree", MEMBER_CHANGED, MEMBER_READ);
}

#[test]
fn sorted_sets_in_skip_lists() {
    sorted_set(&mut SkipList::new(SEED, 9), "skip list", NODE_CHANGED, NODE_READ);
}

/// A leaf holds hundreds of long members; they are hashed when they are passed.
#[test]
fn long_members_of_sorted_sets() {
    const LEN: usize = 20_000;
    let mut set = FbTree::new(SEED);
    let mut meter = Meter::new("feature B+ tree: long members");
    let count = scaled(4_000).min(20_000);
    let bound = Bound { allocated: SEGMENT_TABLES + 2 * LEN as u64, hashed: LEN as u64, ..MEMBER_CHANGED };
    for number in shuffled(count, 10) {
        meter.hold(bound, || set.insert(&long_element(number, LEN), number as f64)).expect("not full");
    }
    for number in shuffled(count, 11) {
        meter.hold(bound, || set.insert(&long_element(number, LEN), -(number as f64))).expect("not full");
    }
    let full = set.memory_bytes();
    for number in shuffled(count, 12).into_iter().take(count as usize * 99 / 100) {
        assert!(meter.hold(bound, || set.remove(&long_element(number, LEN))).is_some());
    }
    assert!(set.memory_bytes() < full / 50, "{} of {full} bytes stay", set.memory_bytes());
    set.check();
}

/// Tables of removed elements are freed with them.
#[test]
fn memory_of_sorted_sets_follows_their_size() {
    let mut set = FbTree::new(SEED);
    let count = scaled(200_000);
    for number in 0..count {
        set.insert(&element(number), number as f64).expect("not full");
    }
    let each = set.memory_bytes() as u64 / count;
    for number in shuffled(count, 13).into_iter().take(count as usize * 199 / 200) {
        set.remove(&element(number));
    }
    let left = set.memory_bytes() as u64 / set.len() as u64;
    assert!(left < 2 * each, "{left} bytes a member where {each} were enough");
    set.check();
}

/// Leaves removed in order leave many free ids behind those in use once the last one is removed.
#[test]
fn ids_behind_the_last_leaf_go_a_few_in_a_call() {
    let mut set = FbTree::new(SEED);
    let mut meter = Meter::new("feature B+ tree: members in order");
    let count = scaled(MILLION);
    for number in 0..count {
        meter.hold(MEMBER_CHANGED, || set.insert(&element(number), number as f64)).expect("not full");
    }
    let full = set.memory_bytes();
    for number in count / 2..count {
        assert!(meter.hold(MEMBER_CHANGED, || set.remove(&element(number))).is_some());
    }
    for number in 0..count / 10 {
        assert!(meter.hold(MEMBER_CHANGED, || set.remove(&element(number))).is_some());
    }
    assert!(set.memory_bytes() < full / 2, "{} of {full} bytes", set.memory_bytes());
    set.check();
}

// ---- lists ----

/// An end's node grows by size classes up to 8 KB, and the ring of nodes doubles: 24 bytes for half a thousand elements.
const END_CHANGED: Bound = Bound { allocated: SEGMENT_TABLES + (24 << 10), hashed: 0, moved: 0, visited: 0 };

#[test]
fn lists() {
    let mut list = PackedList::new(-2, 0);
    let mut meter = Meter::new("packed list");
    let count = scaled(MILLION);
    for number in 0..count {
        let push = if number.is_multiple_of(3) { PackedList::push_front } else { PackedList::push_back };
        meter.hold(END_CHANGED, || push(&mut list, &element(number)));
    }
    let mut random = Random::new(14);
    // An index in the middle is found by the counts of the nodes, from the end with fewer elements.
    for _ in 0..count / 100 {
        let index = random.below(list.len());
        let nodes = list.node_count() as u64;
        let found = Bound { allocated: (48 << 10) + 48 * nodes, visited: nodes + 2, ..Bound::default() };
        meter.hold(found, || list.get(index as i64, |_| ()));
        // A full node is split, and the index searched again.
        let changed = Bound { visited: 5 * found.visited, ..found };
        meter.hold(changed, || list.set(index as i64, b"another element"));
        meter.hold(changed, || list.insert(index, b"one more"));
        meter.hold(changed, || list.remove_range(index, 1));
    }
    while meter.hold(END_CHANGED, || list.pop_front(|_| ())).is_some() {
        meter.hold(END_CHANGED, || list.pop_back(|_| ()));
    }
}

// ---- streams ----

const STREAM_LIMITS: NodeLimits = NodeLimits { bytes: 4096, entries: 100 };
/// An entry goes into a node of 4 KB, which holds a hundred of them; a descent of the radix tree has at most 16 nodes, and
/// a removed value is replaced by the last in its table.
const ENTRY_CHANGED: Bound = Bound { allocated: SEGMENT_TABLES, hashed: 0, moved: 16 << 10, visited: 400 };

#[test]
fn streams() {
    let mut stream = Stream::new();
    let mut meter = Meter::new("stream: append");
    let count = scaled(MILLION);
    for number in 0..count {
        let value = element(number);
        let id = StreamId::new(number / 3 + 1, number % 3);
        meter
            .hold(ENTRY_CHANGED, || stream.append(id, &[b"field".as_slice(), &value], STREAM_LIMITS))
            .expect("above the last");
    }
    let (mut random, mut meter) = (Random::new(15), Meter::new("stream: read, delete, trim"));
    for _ in 0..count / 20 {
        let number = random.below(count);
        let id = StreamId::new(number / 3 + 1, number % 3);
        meter.hold(ENTRY_CHANGED, || stream.range(id, StreamId::MAX, Direction::Forward).take(10).count());
        meter.hold(ENTRY_CHANGED, || stream.delete(id));
    }
    while !stream.is_empty() {
        let length = stream.len().saturating_sub(50);
        meter.hold(ENTRY_CHANGED, || stream.trim(TrimTo::Length(length), false, 0));
        let last = stream.last().map_or(StreamId::MIN, |entry| entry.id);
        meter.hold(ENTRY_CHANGED, || stream.delete(last));
    }
}

#[test]
fn radix_trees() {
    let mut tree: RadixTree<u64> = RadixTree::new();
    let mut meter = Meter::new("radix tree");
    let count = scaled(MILLION);
    // Ascending like ids of a stream, and spread over all keys.
    let key = |number: u64| match number % 2 {
        0 => (u128::from(number) << 64 | 1).to_be_bytes(),
        _ => (u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c65_d3a1_2b4f)).to_be_bytes(),
    };
    // The table of chunks doubles: 24 bytes for 128 values.
    let bound = Bound { allocated: SEGMENT_TABLES + count * 48 / 128, visited: 80, ..Bound::default() };
    for number in 0..count {
        meter.hold(bound, || tree.insert(&key(number), number));
    }
    for number in shuffled(count, 16) {
        meter.hold(Bound { allocated: 0, ..bound }, || assert!(tree.contains(&key(number))));
        assert_eq!(meter.hold(bound, || tree.remove(&key(number))), Some(number));
    }
}

// ---- groups ----

/// A block of 256 groups or consumers is moved, and occasionally the array of all blocks; searches for a name have two
/// steps for each doubling.
const GROUP_CHANGED: Bound = Bound { allocated: 64 << 10, hashed: 0, moved: 32 << 10, visited: 80 };

#[test]
fn groups_and_consumers() {
    let mut stream = Stream::new();
    let count = scaled(MILLION / 5);
    let mut meter = Meter::new("stream: create a group");
    for number in 0..count {
        let created =
            meter.hold(GROUP_CHANGED, || stream.create_group(&element(number), StreamId::MIN, None));
        assert!(created);
    }
    let bytes = stream.memory_bytes() as u64;
    let mut meter = Meter::new("stream: create a consumer");
    // The table of consumers doubles: 8 bytes each.
    let consumer_created = Bound { allocated: GROUP_CHANGED.allocated + 16 * count, ..GROUP_CHANGED };
    for number in 0..count {
        let mut group = stream.group_mut(&element(7)).expect("the group exists");
        let created = meter.hold(consumer_created, || group.create_consumer(&element(number), 1));
        assert!(created.is_some());
    }
    let mut meter = Meter::new("stream: remove a consumer, and create another");
    for number in shuffled(count, 17) {
        let mut group = stream.group_mut(&element(7)).expect("the group exists");
        let removed = Bound { visited: GROUP_CHANGED.visited + count, ..consumer_created };
        assert_eq!(meter.hold(removed, || group.remove_consumer(&element(number))), Some(0));
        if number.is_multiple_of(3) {
            let name = element(number + count);
            assert!(meter.hold(consumer_created, || group.create_consumer(&name, 1)).is_some());
            assert_eq!(meter.hold(removed, || group.remove_consumer(&name)), Some(0));
        }
    }
    assert_eq!(stream.memory_bytes() as u64, bytes, "removed consumers take memory");
    let mut meter = Meter::new("stream: remove a group");
    for number in shuffled(count, 18) {
        let removed = meter.hold(GROUP_CHANGED, || stream.remove_group(&element(number)));
        assert!(removed.is_some());
        if number.is_multiple_of(10_000) {
            stream.check();
        }
    }
    assert_eq!(stream.memory_bytes(), Stream::new().memory_bytes());
}

// ---- keys that expire among others ----

/// A stretch of 16 buckets for each such key, and a search past those without one.
#[test]
fn the_search_for_keys_that_expire_passes_over_others() {
    let mut table: KeyTable<u64> = KeyTable::new(SEED);
    let count = scaled(MILLION);
    for number in 0..count {
        table.put(table.hash(&element(number)), &element(number), NewValue::Inline(b"value"), None, 0);
    }
    let all = |table: &mut KeyTable<u64>| {
        let (mut meter, mut cursor, mut found, mut calls) =
            (Meter::new("key table: next to expire"), 0, 0, 0);
        loop {
            let bound = Bound { visited: 30, ..Bound::default() };
            cursor = meter.hold(bound, || table.scan_expiring(cursor, &mut |_| found += 1));
            calls += 1;
            if cursor == 0 {
                return (found, calls);
            }
        }
    };
    for number in (0..count).step_by(1_000) {
        table.set_expiry(table.hash(&element(number)), &element(number), Some(1));
    }
    let (found, calls) = all(&mut table);
    assert!(found == count / 1_000 && calls <= found + 1, "{found} found in {calls} calls");
    // After many were removed, each stretch is visited once more.
    for number in 0..count {
        table.set_expiry(table.hash(&element(number)), &element(number), Some(1));
    }
    for number in (0..count).filter(|number| !number.is_multiple_of(1_000)) {
        table.set_expiry(table.hash(&element(number)), &element(number), None);
    }
    let stretches = table.buckets() as u64 / 16 + 2;
    let (found, calls) = all(&mut table);
    assert!(found == count / 1_000 && calls <= stretches, "{calls} calls for {stretches} stretches");
    let (found, calls) = all(&mut table);
    assert!(found == count / 1_000 && calls <= found + 2, "{found} found in {calls} calls");
    table.check();
}
