use super::*;
use crate::ordered_set::ALL_RANKS;
use std::collections::BTreeMap;

/// The set's order on `(score, member)`, without NaN.
fn sorted(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(member, &score)| (member.clone(), score)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    all
}

fn listed<H: HeaderPlace>(list: &SkipList<H>) -> Vec<(Vec<u8>, f64)> {
    list.ascending(ALL_RANKS).map(|(member, score)| (member.to_vec(), score)).collect()
}

fn scale() -> usize {
    let scale =
        std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0f64);
    (scale.max(0.01) * 100.0) as usize
}

fn against_a_map<H: HeaderPlace>(mut list: SkipList<H>, seed: u64) {
    let steps = if cfg!(miri) { 60 } else { 40 * scale() };
    let mut random = Random::new(seed);
    let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for step in 0..steps {
        let member = format!("m{}", random.below(60)).into_bytes();
        let score = random.below(12) as f64 - 6.0;
        match random.below(10) {
            0..6 => {
                let expected = match model.insert(member.clone(), score) {
                    None => Insertion::Added,
                    Some(previous) if previous == score => Insertion::Unchanged,
                    Some(previous) => Insertion::Updated { previous },
                };
                assert_eq!(list.insert(&member, score), Ok(expected), "seed {seed}, step {step}");
            }
            6..9 => assert_eq!(list.remove(&member), model.remove(&member), "seed {seed}, step {step}"),
            _ => {
                let start = random.below(model.len() as u64 + 2) as usize;
                let end = start + random.below(5) as usize;
                let mut removed = Vec::new();
                list.remove_range(start..end, &mut |member, score| removed.push((member.to_vec(), score)));
                let expected: Vec<_> = sorted(&model).into_iter().take(end).skip(start).collect();
                expected.iter().for_each(|(member, _)| _ = model.remove(member));
                assert_eq!(removed, expected, "seed {seed}, step {step}");
            }
        }
        list.check();
        assert_eq!(list.len(), model.len());
        assert_eq!(list.score(&member), model.get(&member).copied());
        if step % 16 == 0 {
            compare_whole(&list, &sorted(&model));
        }
    }
}

fn compare_whole<H: HeaderPlace>(list: &SkipList<H>, expected: &[(Vec<u8>, f64)]) {
    assert_eq!(listed(list), expected);
    let mut backwards: Vec<_> = list.descending(ALL_RANKS).map(|(m, s)| (m.to_vec(), s)).collect();
    backwards.reverse();
    assert_eq!(backwards, expected);
    for (rank, (member, score)) in expected.iter().enumerate() {
        assert_eq!(list.rank(member), Some((rank, *score)));
        assert_eq!(list.at(rank), Some((&member[..], *score)));
    }
    assert_eq!(list.at(expected.len()), None);
}

#[test]
fn model_with_an_embedded_header() {
    against_a_map(SkipList::new(HashSeed::new(1, 2), 3), 21);
}

#[test]
fn model_with_a_separate_header() {
    against_a_map(SkipList::with_separate_header(HashSeed::new(1, 2), 3), 22);
}

fn filled(members: &[(&[u8], f64)]) -> SkipList {
    let mut list = SkipList::new(HashSeed::new(9, 9), 9);
    for (member, score) in members {
        list.insert(member, *score).unwrap();
    }
    list.check();
    list
}

#[test]
fn a_walk_in_steps_from_either_end_has_one() {
    for list in [filled(&[]), filled(&[(b"one", 1.0)]), filled(&[(b"one", 1.0), (b"two", 2.0)])] {
        for end in [End::Lowest, End::Highest] {
            assert!(!list.probe_step(&mut list.probe_end(end)));
        }
    }
}

#[test]
fn equal_scores_with_exclusive_bounds() {
    use ScoreBound::{Exclusive, Inclusive};
    let members: Vec<Vec<u8>> = (0..90u8).map(|i| vec![b'a' + i % 3, i]).collect();
    let mut list = SkipList::new(HashSeed::new(1, 1), 1);
    for (i, member) in members.iter().enumerate() {
        list.insert(member, [1.0, 2.0, 3.0][i % 3]).unwrap();
    }
    assert_eq!(list.score_range(Inclusive(2.0), Inclusive(2.0)), 30..60);
    assert_eq!(list.score_range(Exclusive(1.0), Exclusive(3.0)), 30..60);
    assert!(list.score_range(Exclusive(2.0), Exclusive(2.0)).is_empty());
    assert!(list.score_range(Exclusive(2.0), Inclusive(2.0)).is_empty());
    assert!(list.score_range(Inclusive(3.0), Inclusive(1.0)).is_empty());
    assert_eq!(list.remove_range(30..60, &mut |_, score| assert_eq!(score, 2.0)), 30);
    list.check();
    assert!(list.score_range(Inclusive(2.0), Inclusive(2.0)).is_empty());
}

#[test]
fn infinities_and_negative_zero() {
    use ScoreBound::{Exclusive, Inclusive};
    let mut list =
        filled(&[(b"low", f64::NEG_INFINITY), (b"zero", -0.0), (b"one", 1.0), (b"high", f64::INFINITY)]);
    assert_eq!(list.score_range(Inclusive(f64::NEG_INFINITY), Inclusive(f64::INFINITY)), 0..4);
    assert_eq!(list.score_range(Exclusive(f64::NEG_INFINITY), Exclusive(f64::INFINITY)), 1..3);
    assert_eq!(list.score_range(Inclusive(-0.0), Inclusive(0.0)), 1..2);
    assert!(list.score(b"zero").unwrap().is_sign_positive());
    assert_eq!(list.insert(b"zero", 0.0), Ok(Insertion::Unchanged));
    assert_eq!(list.insert(b"one", -0.0), Ok(Insertion::Updated { previous: 1.0 }));
    list.check();
}

#[test]
#[should_panic(expected = "NaN")]
fn nan_scores_are_refused() {
    _ = filled(&[]).insert(b"m", f64::NAN);
}

#[test]
fn lex_bounds_of_the_highest_bytes() {
    use LexBound::{Exclusive, Inclusive, Max, Min};
    let list = filled(&[(b"", 0.0), (b"a", 0.0), (b"\xff", 0.0), (b"\xff\xff", 0.0), (b"\xff\xff\x00", 0.0)]);
    assert_eq!(list.lex_range(Min, Max), 0..5);
    assert_eq!(list.lex_range(Inclusive(b"\xff"), Max), 2..5);
    assert_eq!(list.lex_range(Exclusive(b"\xff"), Max), 3..5);
    assert_eq!(list.lex_range(Exclusive(b"\xff\xff"), Inclusive(b"\xff\xff\xff")), 4..5);
    assert_eq!(list.lex_range(Exclusive(b""), Exclusive(b"\xff\xff")), 1..3);
    assert!(list.lex_range(Max, Min).is_empty());
    assert!(list.lex_range(Max, Max).is_empty());
}

#[test]
fn members_of_every_length_class() {
    let members: Vec<Vec<u8>> =
        [0, 1, 254, 255, 256, if cfg!(miri) { 300 } else { 70_000 }].map(|len| vec![b'x'; len]).into();
    let mut list = SkipList::new(HashSeed::new(3, 4), 5);
    for member in &members {
        assert_eq!(list.insert(member, 1.0), Ok(Insertion::Added));
        list.check();
    }
    assert_eq!(listed(&list).into_iter().map(|(member, _)| member).collect::<Vec<_>>(), members);
    for member in &members {
        assert_eq!(list.remove(member), Some(1.0));
        list.check();
    }
    assert_eq!(list.nodes_bytes, 0);
}

#[test]
fn removing_first_middle_and_last() {
    for rank in [0, 4, 8] {
        let mut list = filled(&[]);
        for i in 0..9u8 {
            list.insert(&[i], i as f64).unwrap();
        }
        assert_eq!(list.remove(&[rank]), Some(rank as f64));
        list.check();
        assert_eq!(list.remove(&[rank]), None);
        let expected: Vec<u8> = (0..9).filter(|&i| i != rank).collect();
        assert_eq!(list.ascending(ALL_RANKS).map(|(member, _)| member[0]).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_full_set_refuses_new_members_only() {
    let mut list = filled(&[(b"a", 1.0)]);
    list.header.set_length(MEMBERS_MAX);
    assert_eq!(list.insert(b"b", 1.0), Err(Full));
    assert_eq!(list.insert(b"a", 1.0), Ok(Insertion::Unchanged));
    list.header.set_length(1);
    list.check();
}

#[test]
fn a_list_may_move() {
    let list = filled(&[(b"a", 1.0), (b"b", 2.0)]);
    let mut boxed = Box::new(list);
    boxed.insert(b"c", 0.0).unwrap();
    let mut moved = *boxed;
    moved.remove(b"a");
    moved.check();
    assert_eq!(listed(&moved), [(b"c".to_vec(), 0.0), (b"b".to_vec(), 2.0)]);
}

#[test]
#[cfg_attr(miri, ignore = "leaks on purpose")]
fn a_panic_while_removing_leaves_a_sound_list() {
    let mut list = filled(&[(b"a", 1.0), (b"b", 2.0), (b"c", 3.0)]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        list.remove_range(0..2, &mut |_, _| panic!("a panic of the callback"));
    }));
    assert!(panicked.is_err());
    list.check();
    assert_eq!((list.len(), list.score(b"a"), list.score(b"c")), (1, None, Some(3.0)));
}
