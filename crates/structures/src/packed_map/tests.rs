use super::page::{INLINE_MAX, KEPT_MIN, LARGE_BYTES, NEVER, PAGE_BYTES_MAX, Page, Slot};
use super::*;
use crate::model::{scaled, with_seeds};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

const SEED: HashSeed = HashSeed::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

/// A byte string: mostly short, sometimes empty, binary, near the limit of what a page keeps, or huge.
fn bytes(random: &mut Random, kind: u64) -> Vec<u8> {
    let len = match kind {
        0 => random.below(3),
        1..=5 => random.below(20),
        6 => 40 + random.below(60),
        7 => 240 + random.below(25),
        8 => 255 + random.below(if cfg!(miri) { 20 } else { 2_000 }),
        _ => return format!("{}", random.below(1_000_000)).into_bytes(),
    };
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn field(random: &mut Random, number: u64) -> Vec<u8> {
    // A field's shape follows from its number, so that the same fields recur.
    let mut shape = Random::new(number);
    let kind = if number.is_multiple_of(50) { random.below(1) + 8 } else { shape.below(7) + 3 };
    let mut field = bytes(&mut shape, kind);
    field.extend_from_slice(&number.to_le_bytes()[..3]);
    field
}

type Model = HashMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn assert_same(map: &PackedMap, model: &Model) {
    map.check();
    assert_eq!(map.len(), model.len());
    assert_eq!(map.expiring_len(), model.values().filter(|(_, expiry)| expiry.is_some()).count());
    assert_eq!(map.next_expiry_hint(), model.values().filter_map(|(_, expiry)| *expiry).min());
    let mut seen = 0;
    for (field, value, expiry) in map.iter_with_expiry() {
        let (expected, expected_expiry) = &model[field];
        assert_eq!((value, expiry), (expected.as_slice(), *expected_expiry));
        seen += 1;
    }
    assert_eq!(seen, model.len());
}

fn random_expiry(random: &mut Random) -> Expiry {
    match random.below(8) {
        0 => Expiry::Clear,
        1 => Expiry::AtMs(random.below(100_000) as i64),
        _ => Expiry::Keep,
    }
}

fn step(
    map: &mut PackedMap,
    model: &mut Model,
    random: &mut Random,
    growing: bool,
    fields: u64,
    expiring: bool,
) {
    let number = random.below(fields);
    let field = field(random, number);
    let hash = map.hash(&field);
    let roll = random.below(100);
    match roll {
        0..50 if growing || roll < 20 => {
            let kind = random.below(10);
            let value = bytes(random, kind);
            let expiry = if expiring { random_expiry(random) } else { Expiry::Keep };
            let expected = if model.contains_key(&field) { Insertion::Replaced } else { Insertion::Added };
            assert_eq!(map.insert(&field, &value, expiry), expected);
            let entry = model.entry(field).or_default();
            entry.0 = value;
            match expiry {
                Expiry::Keep => {}
                Expiry::Clear => entry.1 = None,
                Expiry::AtMs(ms) => entry.1 = Some(ms),
            }
        }
        0..70 if !growing || roll >= 60 => {
            let taken = map.take(&field, <[u8]>::to_vec);
            assert_eq!(taken, model.remove(&field).map(|(value, _)| value));
        }
        70..75 if expiring => {
            let expiry = (random.below(3) > 0).then(|| random.below(100_000) as i64);
            let there = model.get_mut(&field).map(|entry| entry.1 = expiry);
            assert_eq!(map.set_expiry(&field, expiry), there.is_some());
        }
        75 if expiring => {
            let now = random.below(20_000) as i64;
            let limit = random.below(40) as usize;
            let expired = model.values().filter(|(_, expiry)| expiry.is_some_and(|at| at < now)).count();
            let removed = map.remove_expired(now, limit, &mut |field, value| {
                let (expected, expiry) = model.remove(field).expect("an expired field was in the map");
                assert_eq!(value, expected);
                assert!(expiry.expect("it had an expiry") < now);
            });
            assert_eq!(removed, expired.min(limit));
        }
        _ => {
            let expected = model.get(&field).map(|(value, expiry)| (value.as_slice(), *expiry));
            let mut probe = map.probe(hash);
            while probe.step() {}
            assert_eq!(map.get_with_expiry_hashed(hash, &field), expected);
            assert_eq!(map.get(&field), expected.map(|(value, _)| value));
            assert_eq!(map.contains(&field), expected.is_some());
        }
    }
}

fn run_model(random: &mut Random, fields: u64, steps: u64, expiring: bool) {
    let (mut map, mut model) = (PackedMap::new(SEED), Model::new());
    let (steps, fields) = if cfg!(miri) { (150, fields.min(100)) } else { (scaled(steps), fields) };
    let phase = (steps / 6).max(1);
    for number in 0..steps {
        let growing = (number / phase).is_multiple_of(2);
        step(&mut map, &mut model, random, growing, fields, expiring);
        let checks = if cfg!(miri) {
            6
        } else if fields < 100 {
            steps
        } else {
            50
        };
        if number % (steps / checks).max(1) == 0 {
            assert_same(&map, &model);
        }
    }
    assert_same(&map, &model);
    let fields: Vec<Vec<u8>> = model.keys().cloned().collect();
    for field in &fields {
        assert!(map.remove(field));
    }
    assert!(map.is_empty());
    map.check();
    assert_eq!(map.memory_bytes(), 0, "an empty map holds no memory");
}

#[test]
fn small_map_follows_the_model() {
    with_seeds(0..3, |random| run_model(random, 60, 10_000, true));
}

#[test]
fn growing_map_follows_the_model() {
    with_seeds(3..5, |random| run_model(random, 3_000, 100_000, false));
}

#[test]
fn expiring_map_follows_the_model() {
    with_seeds(5..7, |random| run_model(random, 3_000, 100_000, true));
}

#[test]
fn set_follows_the_model() {
    with_seeds(7..9, run_set_model);
}

fn run_set_model(random: &mut Random) {
    let (mut set, mut model) = (PackedSet::new(SEED), HashSet::<Vec<u8>>::new());
    let steps = if cfg!(miri) { 150 } else { scaled(100_000) };
    for number in 0..steps {
        let member_number = random.below(5_000);
        let member = if member_number == 0 { Vec::new() } else { field(random, member_number) };
        let growing = (number / (steps / 6).max(1)).is_multiple_of(2);
        match random.below(10) {
            0..5 if growing => assert_eq!(set.insert(&member), model.insert(member)),
            0..5 => assert_eq!(set.remove(&member), model.remove(&member)),
            5 => {
                if let Some(drawn) = set.random(random).map(<[u8]>::to_vec) {
                    assert!(set.remove(&drawn) && model.remove(&drawn));
                }
            }
            _ => assert_eq!(set.contains(&member), model.contains(&member)),
        }
        assert_eq!(set.len(), model.len());
        if number % (steps / if cfg!(miri) { 5 } else { 40 }).max(1) == 0 {
            set.check();
            assert!(set.iter().all(|member| model.contains(member)));
            assert_eq!(set.iter().count(), model.len());
        }
    }
}

#[test]
fn scan_returns_all_that_stayed() {
    with_seeds(10..10 + scaled(60).max(4), run_scan);
}

fn run_scan(random: &mut Random) {
    let stable = if cfg!(miri) { 100 } else { 2_000 };
    for round in 0..2 {
        let mut set = PackedSet::new(SEED);
        let member = |number: u64| number.to_be_bytes();
        for number in 0..stable {
            set.insert(&member(number));
        }
        // Other members come and go, so that the table grows, shrinks, or both between two calls.
        let others = random.below(4 * stable) + 1;
        let mut next_other = stable;
        if round % 2 == 0 {
            (stable..stable + others).for_each(|number| assert!(set.insert(&member(number))));
        }
        let (mut cursor, mut seen, mut calls) = (0, HashSet::new(), 0);
        let wanted = [1, 3, 10, 10, 1_000][random.below(5) as usize];
        loop {
            let mut visited = 0;
            cursor = set.scan(cursor, wanted as usize, &mut |member| {
                seen.insert(u64::from_be_bytes(member.try_into().expect("8 bytes")));
                visited += 1;
            });
            assert!(cursor < CURSORS_END && CURSORS_END < 1 << 53, "a double holds a cursor");
            assert!(visited <= wanted + 5, "{visited} visited, {wanted} wanted");
            calls += 1;
            if cursor == 0 {
                break;
            }
            // A scan of a table that grows faster than it is scanned does not end.
            let changes = random.below(2 * others / 50 + 2);
            for _ in 0..if round % 2 == 0 { changes } else { changes.min(wanted) } {
                if round % 2 == 0 {
                    set.remove(&member(next_other));
                } else {
                    set.insert(&member(next_other));
                }
                next_other += 1;
            }
        }
        assert!((0..stable).all(|number| seen.contains(&number)), "round {round}, {calls} calls");
        set.check();
    }
}

#[test]
fn scan_of_a_still_map_visits_each_field_once() {
    let mut map = PackedMap::new(SEED);
    for number in 0..scaled(3_000) {
        map.insert(&number.to_be_bytes(), b"value", Expiry::Keep);
    }
    let (mut cursor, mut seen) = (0, HashSet::new());
    loop {
        cursor = map.scan(cursor, 7, &mut |field, _| assert!(seen.insert(field.to_vec())));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), map.len());
    // Any number a client sends is a cursor.
    let mut random = Random::new(6);
    for _ in 0..scaled(1_000) {
        map.scan(random.next_u64(), 10, &mut |_, _| ());
    }
    assert_eq!(PackedMap::new(SEED).scan(17, 10, &mut |_, _| panic!("the map is empty")), 0);
}

/// Chi-square of counts against equal chances, in standard deviations from its mean.
fn deviation(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    (chi - freedom) / (2.0 * freedom).sqrt()
}

#[test]
#[cfg_attr(miri, ignore = "statistics")]
fn every_member_is_as_likely() {
    let mut random = Random::new(7);
    for (inserted, kept) in [(5, 5), (300, 300), (1_500, 1_500), (3_000, 1_100), (700, 690)] {
        let mut set = PackedSet::new(SEED);
        (0..inserted).for_each(|number: u32| assert!(set.insert(&number.to_be_bytes())));
        (kept..inserted).for_each(|number| assert!(set.remove(&number.to_be_bytes())));
        let number = |member: &[u8]| u32::from_be_bytes(member.try_into().expect("4 bytes")) as usize;
        let mut counts = vec![0; kept as usize];
        for _ in 0..kept * 100 {
            counts[number(set.random(&mut random).expect("not empty"))] += 1;
        }
        assert!(deviation(&counts).abs() < 5.0, "single, {kept} of {inserted}: {}", deviation(&counts));
        for wanted in [kept / 10 + 1, kept / 2, kept - 1] {
            let mut counts = vec![0; kept as usize];
            for _ in 0..kept * 100 / wanted + 1 {
                let mut seen = HashSet::new();
                set.random_distinct(wanted as usize, &mut random, &mut |member| {
                    assert!(seen.insert(number(member)));
                    counts[number(member)] += 1;
                });
                assert_eq!(seen.len(), wanted as usize);
            }
            assert!(deviation(&counts) < 5.0, "{wanted} of {kept}: {}", deviation(&counts));
        }
        let mut all = 0;
        set.random_distinct(usize::MAX, &mut random, &mut |_| all += 1);
        assert_eq!(all, set.len());
    }
}

#[test]
fn memory_follows_the_count_both_ways() {
    let mut map = PackedMap::new(SEED);
    let fields = scaled(20_000);
    let mut on_the_way_up = Vec::new();
    for number in 0..fields {
        on_the_way_up.push(map.memory_bytes());
        map.insert(format!("{number:010}").as_bytes(), b"0123456789", Expiry::Keep);
    }
    map.check();
    for number in (0..fields).rev() {
        map.remove(format!("{number:010}").as_bytes());
        let (now, then) = (map.memory_bytes(), on_the_way_up[number as usize]);
        assert!(now <= then * 3 / 2 + 256, "{number} fields: {now} bytes, {then} on the way up");
    }
    assert_eq!(map.memory_bytes(), 0);
}

#[test]
fn expiries_keep_their_extremes() {
    let mut map = PackedMap::new(SEED);
    map.insert(b"last", b"", Expiry::AtMs(i64::MAX));
    map.insert(b"past", b"", Expiry::AtMs(-5));
    assert_eq!(
        (map.expiry(b"last"), map.expiry(b"past"), map.expiry(b"none")),
        (Some(i64::MAX), Some(0), None)
    );
    assert_eq!(map.remove_expired(i64::MAX, 10, &mut |field, _| assert_eq!(field, b"past")), 1);
    assert!(map.set_expiry(b"last", None) && !map.set_expiry(b"past", Some(1)));
    assert_eq!((map.expiring_len(), map.next_expiry_hint()), (0, None));
    map.check();
}

#[test]
fn maps_and_sets_may_be_dropped_by_another_thread() {
    fn movable<T: Send + Sync>() {}
    movable::<PackedMap>();
    movable::<PackedSet>();
    let mut map = PackedMap::new(SEED);
    map.insert(b"field", &[1; 5_000], Expiry::Keep);
    std::thread::spawn(move || drop(map)).join().expect("the drop succeeds");
}

/// Record lengths around each at which their form changes, in tables that grow past the page counts at which other bits
/// of hashes are kept, and shrink again.
#[test]
fn long_records_keep_the_bits_that_splits_ask_for() {
    let lengths = [63, 64, 65, 100, 252, 253, 254, 255];
    let member = |number: u64| {
        let mut member = number.to_be_bytes().to_vec();
        member.resize(lengths[number as usize % lengths.len()], number as u8);
        member
    };
    let count = scaled(4_000);
    let (mut set, mut map) = (PackedSet::new(SEED), PackedMap::new(SEED));
    for number in 0..count {
        let member = member(number);
        assert!(set.insert(&member) && !set.insert(&member));
        let (field, value) = member.split_at(20);
        assert_eq!(map.insert(field, value, Expiry::Keep), Insertion::Added);
        assert_eq!(map.insert(field, &value[1..], Expiry::Keep), Insertion::Replaced);
        if number.is_multiple_of(count / 20) {
            set.check();
            map.check();
        }
    }
    assert!(cfg!(miri) || set.pages_len() > 256, "{} pages", set.pages_len());
    assert_eq!(set.clone().iter().count(), set.len());
    set.clone().check();
    for number in 0..count {
        let member = member(number);
        assert!(set.contains(&member));
        assert_eq!(map.get(&member[..20]), Some(&member[21..]));
        assert!(set.remove(&member) && map.remove(&member[..20]));
        if number.is_multiple_of(count / 20) {
            set.check();
            map.check();
        }
    }
    assert_eq!((set.memory_bytes(), map.memory_bytes()), (0, 0));
}

#[test]
fn what_is_inserted_together_is_as_if_it_were_one_by_one() {
    with_seeds(0..20, |random| {
        let (mut set, mut map) = (PackedSet::new(SEED), PackedMap::new(SEED));
        let (mut members, mut pairs) = (HashSet::new(), HashMap::new());
        for _ in 0..scaled(60) {
            // Some members occur twice, also within one call.
            let count = random.below(70);
            let numbers: Vec<u64> = (0..count).map(|_| random.below(5_000)).collect();
            let fields: Vec<Vec<u8>> = numbers.iter().map(|&number| field(random, number)).collect();
            let new = fields.iter().filter(|&field| members.insert(field.clone())).count();
            assert_eq!(set.insert_all(fields.iter().map(Vec::as_slice)), new);
            let values: Vec<Vec<u8>> = fields.iter().map(|_| bytes(random, 6)).collect();
            let given = || fields.iter().map(Vec::as_slice).zip(values.iter().map(Vec::as_slice));
            let new =
                given().filter(|&(field, value)| pairs.insert(field.to_vec(), value.to_vec()).is_none());
            let new = new.count();
            assert_eq!(map.insert_all(given()), new);
        }
        set.check();
        map.check();
        assert_eq!(set.iter().map(<[u8]>::to_vec).collect::<HashSet<_>>(), members);
        let found: HashMap<_, _> =
            map.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
        assert_eq!(found, pairs);
    });
}

#[test]
fn what_is_expected_may_come_or_not() {
    with_seeds(0..12, |random| {
        let count = random.below(scaled(3_000)) + 1;
        for expected in [0, 1, count / 2, count, 3 * count, u64::MAX] {
            let (mut set, mut map) = (PackedSet::new(SEED), PackedMap::new(SEED));
            let fields: Vec<Vec<u8>> = (0..count).map(|number| field(random, number)).collect();
            for (number, field) in (1_u64..).zip(&fields) {
                set.insert(field);
                set.expect(expected);
                map.insert(field, &bytes(random, 6), Expiry::Keep);
                map.expect(expected);
                if number.is_power_of_two() {
                    set.check();
                    map.check();
                }
                let pages = set.len().max(16 * set.len() / 32);
                assert!(set.pages_len() <= pages, "{expected} expected, {} found", set.len());
            }
            assert!(fields.iter().all(|field| set.contains(field) && map.get(field).is_some()));
            for field in &fields {
                set.remove(field);
                map.remove(field);
            }
            assert_eq!((set.memory_bytes(), map.memory_bytes()), (0, 0));
        }
    });
}

/// Fields and values mostly of one length each, so that pages change between even and uneven.
fn run_even_model(random: &mut Random) {
    let (mut map, mut model) = (PackedMap::new(SEED), Model::new());
    let steps = if cfg!(miri) { 200 } else { scaled(20_000) };
    for number in 0..steps {
        // For a while no other lengths, then many, then few.
        let others = [0, 2, 50][(number / (steps / 9).max(1) % 3) as usize];
        let field = random.below(if cfg!(miri) { 50 } else { 300 }).to_be_bytes();
        match random.below(20) {
            0..9 => {
                let len = if random.below(100) < others { random.below(300) } else { 6 };
                let value = vec![number as u8; len as usize];
                let expiry = if others == 2 { random_expiry(random) } else { Expiry::Keep };
                map.insert(&field, &value, expiry);
                let entry = model.entry(field.to_vec()).or_default();
                entry.0 = value;
                match expiry {
                    Expiry::Keep => {}
                    Expiry::Clear => entry.1 = None,
                    Expiry::AtMs(ms) => entry.1 = Some(ms),
                }
            }
            9..16 => {
                let taken = map.take(&field, <[u8]>::to_vec);
                assert_eq!(taken, model.remove(&field[..]).map(|(value, _)| value));
            }
            16 => {
                let expiry = (random.below(3) == 0).then_some(number as i64);
                let there = model.get_mut(&field[..]).map(|entry| entry.1 = expiry);
                assert_eq!(map.set_expiry(&field, expiry), there.is_some());
            }
            17 => {
                let now = random.below(100_000) as i64;
                map.remove_expired(now, usize::MAX, &mut |_, _| ());
                model.retain(|_, (_, expiry)| expiry.is_none_or(|at| at >= now));
            }
            _ => {
                let expected = model.get(&field[..]).map(|(value, expiry)| (value.as_slice(), *expiry));
                assert_eq!(map.get_with_expiry(&field), expected);
            }
        }
        if number % if cfg!(miri) { 40 } else { 5 } == 0 {
            assert_same(&map, &model);
            assert_same(&map.clone(), &model);
        }
    }
}

#[test]
fn pages_that_are_even_or_not_follow_the_model() {
    with_seeds(20..23, run_even_model);
}

#[test]
fn pages_are_even_at_every_length_that_they_keep() {
    let lengths: Vec<usize> = if cfg!(miri) { vec![2, 64, 253, 254] } else { (1..258).collect() };
    for length in lengths {
        let count = if cfg!(miri) { 70 } else { 200 };
        let member = |number: u64, length: usize| {
            let mut member = (number as u8).to_le_bytes().to_vec();
            member.resize(length, 7);
            member
        };
        let mut set = PackedSet::new(SEED);
        for number in 0..count {
            assert!(set.insert(&member(number, length)));
        }
        set.check();
        let kept = if length < 64 { 0 } else { 1 };
        let each = if length <= 253 { 1 + length + kept } else { 2 + 16 };
        assert_eq!(set.used_bytes(), each * count as usize, "length {length}");
        // The shorter member comes and goes; while it is present its page has a column of lengths.
        assert!(set.insert(&member(0, length - 1)));
        set.check();
        assert_eq!(set.clone().iter().count(), set.len());
        assert!((0..count).all(|number| set.contains(&member(number, length))));
        assert!(set.remove(&member(0, length - 1)));
        for number in 0..count {
            assert!(set.remove(&member(number, length)) && !set.contains(&member(number, length)));
            set.check();
        }
        assert_eq!(set.memory_bytes(), 0);
    }
}

#[test]
fn pages_become_even_again_as_they_are_split() {
    let mut set = PackedSet::new(SEED);
    let count = if cfg!(miri) { 60 } else { 1_000 };
    (0..count).for_each(|number: u64| assert!(set.insert(&number.to_be_bytes())));
    assert_eq!(set.used_bytes(), 9 * set.len());
    (0..count).for_each(|number| assert!(set.insert(&number.to_be_bytes()[2..])));
    assert!(set.used_bytes() > 9 * set.len() - 2 * count as usize);
    (0..count).for_each(|number| assert!(set.remove(&number.to_be_bytes()[2..])));
    set.check();
    (count..6 * count).for_each(|number| assert!(set.insert(&number.to_be_bytes())));
    set.check();
    assert_eq!(set.used_bytes(), 9 * set.len());
}

/// Record lengths around each limit: empty, the chunk sizes of moves, the length of a large record's reference, with a
/// byte of the hash, out of line.
const LENGTHS: [usize; 19] = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 62, 63, 64, 65, 252, 253, 254, 300];

/// Tag, record, the hash byte behind it, the hash bits that a large one keeps, expiry.
type PageElement = (u8, Vec<u8>, Option<u8>, Option<u64>, u64);

/// A page and a model of its elements, in any order.
struct PageHarness {
    page: Page,
    model: Vec<PageElement>,
}

impl PageHarness {
    fn new() -> PageHarness {
        PageHarness { page: Page::empty(), model: Vec::new() }
    }

    fn slot(&self, random: &mut Random) -> Option<Slot> {
        let count = self.page.count() as u64;
        (count > 0).then(|| self.page.slot(random.below(count) as usize))
    }

    fn element(page: &Page, slot: Slot) -> PageElement {
        let record = page.record(slot).bytes.to_vec();
        let kept = (page.kept_byte(slot), page.kept_hash(slot));
        (page.tag(slot.index), record, kept.0, kept.1, page.expiry(slot.index))
    }

    fn push(&mut self, random: &mut Random, length: usize, expiry: u64) {
        let (tag, kept, hash) = (random.below(6) as u8, random.next_u64() as u8, random.next_u64());
        let record: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        let element = if length > INLINE_MAX {
            self.page.push_large(tag, hash, record.clone().into(), expiry);
            (tag, record, None, Some(hash & ((1 << page::KEPT_HASH_BITS) - 1)), expiry)
        } else if expiry == NEVER && random.below(2) == 0 && self.push_plain(random, tag, &record) {
            (tag, record, None, None, expiry)
        } else {
            self.page.push_inline(tag, length, kept, expiry, |bytes| bytes.copy_from_slice(&record));
            (tag, record, (length >= KEPT_MIN).then_some(kept), None, expiry)
        };
        self.model.push(element);
    }

    /// Returns whether the page was plain and had room.
    fn push_plain(&mut self, random: &mut Random, tag: u8, record: &[u8]) -> bool {
        let (used, capacity) = (self.page.used(), self.page.capacity());
        let used_max = if random.below(3) == 0 { used + record.len() } else { usize::MAX };
        let write = |bytes: &mut [u8]| bytes.copy_from_slice(record);
        let more = self.page.push_plain(tag, record.len(), used_max, write);
        assert_eq!((self.page.used(), self.page.capacity()), (used + more.unwrap_or(0), capacity));
        assert!(more.is_none_or(|more| more == 1 + record.len() && used_max == usize::MAX));
        more.is_some()
    }

    fn model_of(&mut self, element: &PageElement) -> usize {
        self.model.iter().position(|held| held == element).expect("the page holds what was added")
    }

    fn remove(&mut self, slot: Slot) {
        let element = Self::element(&self.page, slot);
        let at = self.model_of(&element);
        self.model.swap_remove(at);
        if self.page.is_plain() && element.0.is_multiple_of(2) {
            let used = self.page.used();
            assert_eq!(self.page.remove_plain(slot), used - self.page.used());
            return;
        }
        let large = self.page.remove(slot);
        assert_eq!(large.map(Vec::from), element.3.is_some().then_some(element.1));
    }

    fn fit(&mut self) {
        let capacity = self.page.capacity();
        let loose = (capacity > 0 && self.page.is_plain()).then(|| self.page.is_loose_plain());
        self.page.fit();
        assert!(loose.is_none_or(|loose| loose == (self.page.capacity() < capacity)));
    }

    fn set_expiry(&mut self, slot: Slot, expiry: u64) {
        let at = self.model_of(&Self::element(&self.page, slot));
        self.page.set_expiry(slot.index, expiry);
        self.model[at].4 = expiry;
    }

    fn overwrite(&mut self, random: &mut Random, slot: Slot) {
        let element = Self::element(&self.page, slot);
        let at = self.model_of(&element);
        let length = element.1.len();
        for other in [length + 1, length.saturating_sub(1)] {
            assert!(other == length || self.page.overwrite(slot, other).is_none());
        }
        let written = self.page.overwrite(slot, length);
        assert_eq!(written.is_none(), element.3.is_some());
        if let Some(bytes) = written {
            bytes.fill(random.next_u64() as u8);
            self.model[at].1 = bytes.to_vec();
        }
    }

    /// Splits the page and joins the halves again, perhaps in reverse order.
    fn split_and_append(&mut self, random: &mut Random) {
        let all = random.below(5);
        let moves = |_| if all < 2 { all == 0 } else { random.below(2) == 0 };
        let moves: Vec<bool> = (0..self.page.count()).map(moves).collect();
        let mut moved = self.page.split(&moves);
        moved.check();
        self.page.check();
        if moved.count() == 0 {
            return;
        }
        if random.below(2) == 0 {
            std::mem::swap(&mut self.page, &mut moved);
        }
        self.page.append(moved);
    }

    fn check(&self, page: &Page) {
        page.check();
        let mut found: Vec<_> = page.slots().map(|slot| Self::element(page, slot)).collect();
        for tag in 0..6 {
            let (all, records) = <(RefCell<Vec<usize>>, RefCell<Vec<usize>>)>::default();
            page.find_slot(tag, |slot| {
                all.borrow_mut().push(slot.index);
                None::<()>
            });
            page.find(tag, |slot, record| {
                assert_eq!(record.bytes, page.record(slot).bytes);
                records.borrow_mut().push(slot.index);
                None::<()>
            });
            assert_eq!(all, records, "tag {tag}");
        }
        let mut model = self.model.clone();
        found.sort_unstable();
        model.sort_unstable();
        assert!(found == model);
    }
}

fn run_page_model(random: &mut Random) {
    let mut held = PageHarness::new();
    let steps = if cfg!(miri) { 300 } else { scaled(3_000) };
    let (mut common, mut others, mut expiring, mut growing) = (8, 0, 0, true);
    for _ in 0..steps {
        if random.below(60) == 0 {
            common = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
            others = [0, 0, 3, 60][random.below(4) as usize];
            expiring = [0, 0, 5, 100][random.below(4) as usize];
            growing = random.below(2) == 0;
        }
        let alike = random.below(100) >= others;
        let length = if alike { common } else { LENGTHS[random.below(LENGTHS.len() as u64) as usize] };
        let expiry = if random.below(100) < expiring { random.below(50) } else { NEVER };
        let slot = held.slot(random);
        match (random.below(40), slot) {
            (0, _) => held.page = held.page.copy(),
            (1, _) if random.below(4) == 0 => held.split_and_append(random),
            (2..4, _) => held.fit(),
            (4..7, Some(slot)) => held.set_expiry(slot, expiry),
            (7..10, Some(slot)) => held.overwrite(random, slot),
            (roll, Some(slot)) if (roll < 18) == growing || held.page.count() > 150 => held.remove(slot),
            _ => held.push(random, length, expiry),
        }
        held.check(&held.page);
    }
    while let Some(slot) = held.slot(random) {
        held.remove(slot);
        held.fit();
        held.check(&held.page);
    }
    assert_eq!((held.page.used(), held.page.capacity()), (0, 0));
}

#[test]
fn one_page_follows_the_model() {
    with_seeds(30..36, run_page_model);
}

/// Pages are filled to the last byte that a crowded one may take, and made uneven and expiring where that costs most.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of elements")]
fn a_crowded_page_takes_what_it_says_it_has_room_for() {
    for (first, length) in LENGTHS.into_iter().flat_map(|first| [(first, 16), (first, 300), (first, first)]) {
        for first_expiring in [usize::MAX, 0, 900] {
            let (mut held, mut random) = (PageHarness::new(), Random::new(first as u64));
            while held.page.used() + held.page.push_bytes_max(NEVER) <= PAGE_BYTES_MAX * 9 / 10 {
                held.push(&mut random, first.max(1), NEVER);
            }
            for number in 0.. {
                let expiry = if number < first_expiring { NEVER } else { 7 };
                if held.page.used() + held.page.push_bytes_max(expiry) > PAGE_BYTES_MAX {
                    break;
                }
                held.push(&mut random, if length > LARGE_BYTES { 300 } else { length }, expiry);
            }
            held.check(&held.page);
            held.check(&held.page.copy());
        }
    }
}
