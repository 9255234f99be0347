use std::collections::BTreeSet;

use super::*;
use crate::model::{scaled, with_seeds};
use crate::random::Random;

/// Values of a shape: dense, clustered, sparse, all 64 bits, or the very ends.
fn value(shape: u64, random: &mut Random) -> i64 {
    match shape {
        0 => random.below(3_000) as i64 - 1_500,
        1 => random.below(40) as i64 * 1_000_000 + random.below(200) as i64,
        2 => random.below(8_000_000_000) as i64 - 4_000_000_000,
        3 => random.next_u64() as i64,
        4 => (random.next_u64() >> random.below(64)) as i64,
        _ => match random.below(3) {
            0 => i64::MAX - random.below(900) as i64,
            1 => i64::MIN + random.below(900) as i64,
            _ => random.below(900) as i64,
        },
    }
}

fn compare(set: &IntegerSet, model: &BTreeSet<i64>, random: &mut Random) {
    set.check();
    assert_eq!(set.len(), model.len() as u64);
    assert!(set.iter().eq(model.iter().copied()));
    let rank = random.below(model.len() as u64 + 1);
    assert_eq!(set.at(rank), model.iter().nth(rank as usize).copied());
    let from = value(2, random);
    let mut iter = set.iter();
    iter.seek(from);
    assert!(iter.eq(model.range(from..).copied()));
}

#[test]
fn random_operations_match_a_tree() {
    with_seeds(0..12, |random| {
        let shape = random.below(6);
        let (mut set, mut model) = (IntegerSet::new(), BTreeSet::new());
        if random.below(2) == 0 {
            set = IntegerSet::Large(UnalignedBox::new(IntegerPages::default()));
        }
        for step in 0..scaled(12_000) {
            let growing = step / 2_000 % 3 != 2;
            let value = value(shape, random);
            if random.below(4) < if growing { 3 } else { 1 } {
                assert_eq!(set.insert(value), model.insert(value));
            } else if random.below(2) == 0 {
                assert_eq!(set.remove(value), model.remove(&value));
            } else if let Some(near) = model.range(value..).next().copied() {
                assert!(set.contains(near));
                assert!(set.remove(near) && model.remove(&near));
                assert!(!set.contains(near));
            }
            assert!((0..8).take_while(|&step| set.prefetch(value, step)).count() < 3);
            assert_eq!(set.contains(value), model.contains(&value));
            if step % 256 == 0 {
                compare(&set, &model, random);
            }
        }
        compare(&set, &model, random);
    });
}

#[test]
fn ordered_and_contiguous_inserts_and_removals() {
    let count = scaled(20_000) as i64;
    for step in [1, -1, 3, -7, 1_000_003, -1_000_003] {
        let mut set = IntegerSet::new();
        for i in 0..count {
            assert!(set.insert(i * step));
        }
        set.check();
        assert_eq!(set.len(), count as u64);
        assert!((0..count).all(|i| set.contains(i * step)));
        // Holes in every run, then filled again.
        assert!((0..count).step_by(5).all(|i| set.remove(i * step)));
        set.check();
        set.clone().check();
        assert!((0..count).step_by(5).all(|i| set.insert(i * step) && !set.insert(i * step)));
        set.check();
        assert!((0..count).rev().all(|i| set.remove(i * step)));
        assert!(set.is_empty());
        set.check();
    }
}

#[test]
fn one_page_may_span_all_integers() {
    let mut set = IntegerSet::Large(UnalignedBox::new(IntegerPages::default()));
    for value in [i64::MAX, i64::MIN, 0, -1, i64::MIN + 1, i64::MAX - 1] {
        assert!(set.insert(value) && !set.insert(value));
        set.check();
    }
    assert!(set.iter().eq([i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX]));
    for value in [0, i64::MIN, i64::MAX, -1] {
        assert!(set.remove(value) && !set.remove(value));
        set.check();
    }
    assert!(set.iter().eq([i64::MIN + 1, i64::MAX - 1]));
}

#[test]
fn a_scan_gives_what_stays_exactly_once() {
    with_seeds(0..6, |random| {
        let shape = random.below(6);
        let mut set = IntegerSet::new();
        let stays: BTreeSet<i64> = (0..scaled(2_000)).map(|_| value(shape, random) & !1).collect();
        stays.iter().for_each(|&value| _ = set.insert(value));
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            cursor = set.scan(cursor, 10, |value| seen.push(value));
            if cursor == 0 {
                break;
            }
            for _ in 0..20 {
                let passing = value(shape, random) | 1;
                if random.below(2) == 0 {
                    set.insert(passing)
                } else {
                    set.remove(passing)
                };
            }
        }
        seen.retain(|value| value & 1 == 0);
        assert!(seen.iter().copied().eq(stays));
    });
}

#[test]
fn cursors_stay_small_and_steps_near_their_count() {
    with_seeds(0..12, |random| {
        let shape = random.below(6);
        let values: BTreeSet<i64> = (0..scaled(3_000)).map(|_| value(shape, random)).collect();
        let set = IntegerSet::from_sorted(&values.iter().copied().collect::<Vec<_>>());
        for count in [1, 2, 10, 700] {
            let (mut cursor, mut seen) = (0, Vec::new());
            loop {
                let before = seen.len();
                cursor = set.scan(cursor, count, |value| seen.push(value));
                let handed = seen.len() - before;
                assert!(cursor == 0 || (count..=count + 3).contains(&handed), "{handed} for {count}");
                assert!(cursor < 1 << 63);
                // Values near zero, and those far from each other, have cursors that doubles hold.
                assert!(cursor < 1 << 53 || shape > 2, "{cursor}");
                if cursor == 0 {
                    break;
                }
            }
            assert!(seen.iter().eq(&values));
        }
        set.scan(random.next_u64(), 10, |_| ());
    });
}

#[test]
fn random_values_are_equally_likely() {
    with_seeds(0..4, |random| {
        let mut set = IntegerSet::new();
        let count = if cfg!(miri) { 1_000 } else { 400_000 };
        for _ in 0..count {
            set.insert(value(random.below(4), random));
        }
        // Groups and pages of very different sizes.
        let least = set.at(set.len() / 3).unwrap();
        let gone: Vec<i64> = set.iter().skip_while(|&value| value < least).step_by(2).collect();
        gone.iter().filter(|&&value| value % 1_024 != 0).for_each(|&value| _ = set.remove(value));
        let bounds: Vec<i64> = (0..10).map(|part| set.at(set.len() / 10 * part).unwrap()).collect();
        let mut drawn = [0u32; 10];
        for _ in 0..20_000 {
            let value = set.random(random).unwrap();
            assert!(set.contains(value));
            drawn[bounds.partition_point(|&bound| bound <= value).max(1) - 1] += 1;
        }
        assert!(cfg!(miri) || drawn.iter().all(|n| (1_700..2_300).contains(n)), "{drawn:?}");
        for wanted in [0, 1, 10, set.len() / 4, set.len() / 4 + 1, set.len() - 1, set.len(), u64::MAX] {
            let mut seen = BTreeSet::new();
            set.random_distinct(wanted, random, |value| assert!(set.contains(value) && seen.insert(value)));
            assert_eq!(seen.len() as u64, wanted.min(set.len()));
        }
    });
    assert_eq!(IntegerSet::new().random(&mut Random::new(1)), None);
}

#[test]
fn bytes_are_those_of_the_reference() {
    // The payload of DUMP s after SADD s 1 -2 70000 in Valkey 9.1, without type, length and checksum.
    let mut set = SortedIntegers::new();
    [1, -2, 70_000].iter().for_each(|&value| _ = set.insert(value));
    let expected = [4, 0, 0, 0, 3, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0x70, 0x11, 1, 0];
    assert_eq!(set.as_bytes(), expected);
    set.insert(-5_000_000_000);
    assert_eq!(set.as_bytes().len(), 8 + 4 * 8);
    assert!(set.iter().eq([-5_000_000_000, -2, 1, 70_000]));
    let again = IntegerSet::validate(set.as_bytes()).map(|set| set.to_sorted().as_bytes().to_vec());
    assert_eq!(again.as_deref(), Ok(set.as_bytes()));
}

#[test]
fn malformed_bytes_are_refused() {
    let set = SortedIntegers::from_sorted(&[-70_000, 5, 6, 70_000]);
    let bytes = set.as_bytes();
    for len in 0..bytes.len() {
        assert!(SortedIntegers::validate(&bytes[..len]).is_err());
    }
    let change = |at: usize, to: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = to;
        SortedIntegers::validate(&bytes).err()
    };
    assert_eq!(change(0, 3), Some(Invalid::Width(3)));
    assert_eq!(change(4, 5), Some(Invalid::Length(24)));
    assert_eq!(change(7, 0xFF), Some(Invalid::Length(24)));
    assert_eq!(change(16, 5), Some(Invalid::Order { index: 2 }));
    assert_eq!(SortedIntegers::validate(&[2, 0, 0, 0, 0, 0, 0, 0]).err(), Some(Invalid::Empty));
    with_seeds(0..2, |random| {
        for _ in 0..scaled(20_000) {
            let mut bytes = bytes.to_vec();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
            if let Ok(set) = IntegerSet::validate(&bytes) {
                set.check();
            }
        }
    });
}

#[test]
fn memory_stays_small() {
    if cfg!(miri) {
        return;
    }
    let mut set = IntegerSet::new();
    (0..100_000).for_each(|value| _ = set.insert(value));
    assert!(set.memory_bytes() < 20_000, "{}", set.memory_bytes());
    let mut random = Random::new(3);
    let mut set = IntegerSet::new();
    (0..100_000).for_each(|_| _ = set.insert(value(2, &mut random)));
    assert!(set.memory_bytes() < 500_000, "{}", set.memory_bytes());
}
