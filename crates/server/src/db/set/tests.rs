use super::*;
use crate::config::Config;
use crate::db::object::ObjectVariant;
use crate::db::rdb::{RdbType, ReadContext, ReadValue};
use crate::db::value_type::ValueType;
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
        cursor = set.scan(cursor, wanted, &mut |member| assert!(seen.insert(member.to_vec())));
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
    assert_eq!(set.random(random).is_some(), !model.is_empty());
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
