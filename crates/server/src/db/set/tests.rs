use super::*;
use crate::config::{Config, EventClasses};
use crate::db::Db;
use crate::db::object::ObjectVariant;
use crate::db::rdb::{Loaded, LoadedKey, RdbType, ReadContext, ReadValue};
use crate::db::value_type::ValueType;
use crate::persist::rdb::save::dump_payload;
use std::collections::BTreeSet;
use wire::rdb::{PayloadWriter, Reader};

const SEED: HashSeed = HashSeed::new(5, 6);

fn context<'a>(limits: &'a EncodingLimits, random: &'a mut Random) -> CollectionContext<'a> {
    let shapes = &*Box::leak(Box::default());
    CollectionContext { limits, seed: SEED, random, now_ms: 0, expired_fields: None, shapes }
}

fn members(set: &Set) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    set.for_each(&mut |member| assert!(all.insert(member.to_vec()), "a member is visited twice"));
    all
}

fn member(random: &mut Random) -> Vec<u8> {
    let number = random.below(3_000);
    match random.below(9) {
        0 => format!("text:{}", random.below(300)).into_bytes(),
        1 => format!("0{}", random.below(300)).into_bytes(),
        2 => (i64::MIN + number as i64).to_string().into_bytes(),
        3 => (i64::MAX - number as i64).to_string().into_bytes(),
        _ => number.to_string().into_bytes(),
    }
}

fn scanned(set: &Set, wanted: usize) -> BTreeSet<Vec<u8>> {
    let (mut seen, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = set.view().scan(cursor, wanted, &mut |member| assert!(seen.insert(member.to_vec())));
        if cursor == 0 {
            return seen;
        }
    }
}

fn compare(set: &Set, model: &BTreeSet<Vec<u8>>, limits: &EncodingLimits, random: &mut Random) {
    assert_eq!(set.len(), model.len());
    assert_eq!(&members(set), model);
    assert_eq!(&scanned(set, 1 + random.below(20) as usize), model);
    for wanted in [0, 1, 7, model.len() / 5, model.len() / 2, model.len(), usize::MAX] {
        let mut drawn = BTreeSet::new();
        set.random_distinct(wanted, random, &mut |member| assert!(drawn.insert(member.to_vec())));
        assert!(drawn.is_subset(model) && drawn.len() == wanted.min(model.len()));
    }
    assert_eq!(set.view().random(random).is_some(), !model.is_empty());
    set.layout();
    if model.is_empty() {
        return;
    }
    let bytes = PayloadWriter::default().make(false, |writer| set.write_rdb(writer), std::mem::take);
    let mut read = ReadContext {
        limits,
        seed: SEED,
        random,
        now_ms: 0,
        fields_expired_before_ms: None,
        no_shapes: Default::default(),
    };
    let again = Set::read_rdb(&mut Reader::of_bytes(&bytes), set.rdb_kind(), &mut read);
    let ReadValue::Object(again) = again.unwrap() else { panic!("a set with members is read as a set") };
    let again = members(Set::of(&again).unwrap());
    assert_eq!(&again, model);
    assert_eq!(members(&set.clone()), again);
}

/// Random operations on integers and other members in turn, so that sets enter and leave every encoding.
#[test]
fn every_form_matches_a_tree() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut limits = EncodingLimits::of(&Config::default());
        limits.set_intset_entries_max = [0, 4, 512, 1_000][seed as usize % 4];
        let (mut set, mut model) = (Set::new(&limits, SEED), BTreeSet::new());
        let mut forms = BTreeSet::new();
        for step in 0..30_000 {
            // Integers only first, then all kinds, then one of the two kinds is removed.
            let phase = step / 3_000 % 5;
            let member = match phase {
                0 | 1 => random.below(4_000).to_string().into_bytes(),
                _ => member(&mut random),
            };
            let is_integer = wire::number::parse_i64(&member).is_some();
            let mut lots = random.clone();
            let removes = match phase {
                3 => is_integer == (seed % 2 == 0),
                4 => is_integer != (seed % 2 == 0),
                _ => random.below(4) == 0,
            };
            assert_eq!(set.contains(&member), model.contains(&member));
            if removes {
                assert_eq!(set.remove(&member), model.remove(&member));
            } else if random.below(8) == 0 {
                let others = (0..random.below(40)).map(|_| match phase {
                    0 | 1 => random.below(4_000).to_string().into_bytes(),
                    _ => self::member(&mut random),
                });
                let all: Vec<Vec<u8>> = std::iter::once(member).chain(others).collect();
                let added = set.add_all(all.iter().map(Vec::as_slice), &context(&limits, &mut lots));
                assert_eq!(added, all.into_iter().filter(|member| model.insert(member.clone())).count());
            } else {
                assert_eq!(set.add(&member, &context(&limits, &mut lots)), model.insert(member));
            }
            if step % 3_000 == 2_999 && phase > 2 {
                // The remaining members of one kind.
                let goes = |text: &Vec<u8>| {
                    wire::number::parse_i64(text).is_some() == ((seed % 2 == 0) == (phase == 3))
                };
                for text in model.iter().filter(|text| goes(text)) {
                    assert!(set.remove(text));
                }
                model.retain(|text| !goes(text));
            }
            if step % 1_500 == 0 || step % 3_000 == 2_999 {
                forms.insert(set.layout().structure);
                compare(&set, &model, &limits, &mut random);
            }
            if model.is_empty() {
                set = Set::new(&limits, SEED);
            }
        }
        assert!(forms.contains("integer pages and packed set"), "{forms:?}");
    }
}

/// The first other member of many integers does not move them.
#[test]
fn many_integers_are_not_converted_at_once() {
    let limits = EncodingLimits::of(&Config::default());
    let mut random = Random::new(1);
    let mut set = Set::new(&limits, SEED);
    for number in 0..20_000i64 {
        set.add((number * 7_919).to_string().as_bytes(), &context(&limits, &mut random));
    }
    let before = set.memory_bytes();
    assert!(set.add(b"other", &context(&limits, &mut random)));
    assert!(set.memory_bytes() < before + 512, "{} after {before}", set.memory_bytes());
    assert_eq!((set.encoding_name(), set.len()), ("hashtable", 20_001));
    assert!(set.remove(b"other"));
    assert_eq!((set.encoding_name(), set.layout().structure), ("hashtable", "integer pages"));
}

/// Members of every form, few enough to meet again.
fn short_member(random: &mut Random) -> Vec<u8> {
    match random.below(9) {
        0 => format!("{}.{:02}", random.below(10), random.below(10)).into_bytes(),
        1 => format!("{:032x}", random.below(20)).into_bytes(),
        2 => format!("10.0.0.{}", random.below(30)).into_bytes(),
        3 => vec![b'm'; random.below(70) as usize],
        4 => format!("0{:07x}-0000-4a5b-8c7d-0123456789ab", random.below(20)).into(),
        5 => member(random),
        6 => random.below(40).to_string().into_bytes(),
        _ => format!("tag{}", random.below(40)).into_bytes(),
    }
}

fn listed(set: SetView<'_>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    set.for_each(&mut |member| all.push(member.to_vec()));
    all
}

/// The set at `key` of the selected database after a payload has brought it into `other`.
fn by_payload(db: &mut Db, other: &mut Db, key: &[u8]) -> Vec<Vec<u8>> {
    let value = db.find(db.key(key)).expect("the set is stored");
    let payload = dump_payload(&value, true, &mut PayloadWriter::default(), std::mem::take);
    let mut reader = Reader::new(&payload[1..]);
    let read = other.read_value(key, &mut reader, payload[0], None).expect("the payload is whole");
    let about = LoadedKey { replaces: true, ..LoadedKey::default() };
    assert_eq!(other.load_read(other.key(key), read, about), Loaded::Stored);
    listed(other.stored_collection::<Set>(other.key(key)).expect("it was just stored"))
}

fn change(set: &mut Set, model: &mut Vec<Vec<u8>>, random: &mut Random, context: CollectionContext<'_>) {
    match random.below(40) {
        // Beyond an entry, and often beyond a list.
        0 => {
            let many: Vec<Vec<u8>> = (0..random.below(160)).map(|_| short_member(random)).collect();
            set.expect_more(many.len(), &context);
            let added = set.add_all(many.iter().map(Vec::as_slice), &context);
            let before = model.len();
            many.into_iter().for_each(|member| {
                if !model.contains(&member) {
                    model.push(member)
                }
            });
            assert_eq!(added, model.len() - before);
        }
        1 | 2 => {
            let mut taken = Vec::new();
            let wanted = random.index(model.len() + 2);
            set.take_random(wanted, random, &mut |member| taken.push(member.to_vec()));
            assert_eq!(taken.len(), wanted.min(model.len()));
            model.retain(|member| !taken.contains(member));
        }
        _ => {
            let member = short_member(random);
            let at = model.iter().position(|other| *other == member);
            assert_eq!(set.contains(&member), at.is_some());
            if random.below(3) == 0 {
                assert_eq!(set.remove(&member), at.is_some());
                at.map(|at| model.remove(at));
            } else {
                assert_eq!(set.add(&member, &context), at.is_none());
                if at.is_none() {
                    model.push(member);
                }
            }
        }
    }
}

/// Sets in a database, as records and in every other encoding, equal lists of their members: in lists the order too, and
/// the encoding that a reference server would have.
#[test]
fn stored_sets_equal_lists_of_members() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (mut db, mut other) = (Db::new(1, SEED, seed), Db::new(1, SEED, seed + 1));
        let mut all: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 40];
        let mut records = 0;
        for step in 0..8_000 {
            let at = random.index(all.len());
            let (key, model) = (format!("{at}").into_bytes(), &mut all[at]);
            let (stored, mut lots) = (db.key(&key), random.clone());
            db.change_or_create(stored, |set: &mut Set, context| {
                if set.len() == 0 && lots.below(3) > 0 {
                    set.expect(b"tag", 1, &context);
                }
                change(set, model, &mut lots, context);
            })
            .expect("the key is a set or free");
            random = lots;
            db.changed(EventClasses::SET, "sadd", stored);
            forget_changes(&mut db);
            let Some(value) = db.find(stored) else {
                assert!(model.is_empty());
                continue;
            };
            let (structure, encoding) = (value.layout().structure, value.encoding_name());
            let set = value.collection::<Set>().expect("it is a set");
            let mut found = listed(set);
            records += usize::from(structure == "record in the entry");
            let is_listed = matches!(structure, "record in the entry" | "listpack");
            assert_eq!(is_listed, encoding == "listpack", "{structure} is {encoding}");
            if is_listed {
                let mut expected = model.clone();
                // Members from the time when it was a set of integers are in their order.
                let integers = |members: &[Vec<u8>]| {
                    members.iter().take_while(|text| wire::number::parse_i64(text).is_some()).count()
                };
                let (a, b) = (integers(&expected), integers(&found));
                expected[..a].sort();
                found[..b].sort();
                assert_eq!(found, expected);
            }
            let mut sorted = model.clone();
            found.sort();
            sorted.sort();
            assert_eq!(found, sorted);
            if step % 16 == 0 {
                let before = listed(db.stored_collection::<Set>(stored).expect("it is stored"));
                let mut copy = by_payload(&mut db, &mut other, &key);
                if is_listed {
                    assert_eq!(copy, before);
                }
                copy.sort();
                assert_eq!(copy, sorted);
            }
            if step % 1000 == 0 {
                db.check();
                other.check();
            }
        }
        db.check();
        assert!(records > 1000, "{records} of the sets were records");
    }
}

fn forget_changes(db: &mut Db) {
    db.change_log.flushed(None);
    db.change_log.take();
    db.change_log.audit.forget_unpropagated();
}
