use super::*;
use crate::model::{scaled, with_seeds};
use crate::random::Random;
use crate::record::members::tests::random_member;

type Model = Vec<(f64, Vec<u8>)>;

fn pairs(set: RankingView<'_>) -> Model {
    let text = |member: Value<'_>| member.text(&mut TextBuffer::default()).to_vec();
    set.iter_from(0).map(|(member, score)| (score, text(member))).collect()
}

/// Scores of a phase: the same integers often, integers of all lengths, or any.
fn random_score(random: &mut Random, phase: u64) -> f64 {
    match (phase, random.below(10)) {
        (0, _) => random.below(9) as f64,
        (1, _) => 1_764_000_000.0 + random.below(100_000) as f64,
        (2, 0..=7) => {
            (random.next_u64() >> (11 + random.below(53))) as f64
                * if random.below(3) == 0 { -1.0 } else { 1.0 }
        }
        (_, 0) => f64::INFINITY,
        (_, 1) => f64::NEG_INFINITY,
        (_, 2) => -0.0,
        (_, 3) => 9_007_199_254_740_993.0,
        (_, 4) => -9_007_199_254_740_992.0,
        _ => random.below(1000) as f64 / 8.0 - 10.0,
    }
}

fn change(set: &mut Ranking, model: &mut Model, random: &mut Random, phase: u64) {
    let (member, score) = (random_member(random), random_score(random, phase));
    let at = model.iter().position(|(_, other)| *other == member);
    let there = set.view().find(&member);
    assert_eq!(there.map(|place| (place.rank, place.score)), at.map(|at| (at, model[at].0)));
    match random.below(8) {
        0..=4 if if at.is_some() { set.fits_score() } else { set.fits(member.len()) } => {
            let expected = match at {
                None => Insertion::Added,
                Some(at) if model[at].0 == score => Insertion::Unchanged,
                Some(at) => Insertion::Updated { previous: model[at].0 },
            };
            assert_eq!(set.insert(&member, score, there), expected);
            if expected != Insertion::Unchanged {
                at.map(|at| model.remove(at));
                model.push((score + 0.0, member));
                model.sort_by(|a, b| a.partial_cmp(b).unwrap());
            }
        }
        5 if random.below(6) == 0 => {
            let start = random.index(model.len() + 1);
            let range = start..start + random.index(model.len() - start + 1);
            set.cut(range.clone());
            model.drain(range);
        }
        _ => assert_eq!(set.remove(&member), at.map(|at| model.remove(at).0)),
    }
}

fn compare(set: RankingView<'_>, model: &Model, random: &mut Random, phase: u64) {
    assert_eq!(&pairs(set), model);
    assert_eq!(set.len(), model.len());
    let start = random.index(model.len() + 1);
    let range = start..start + random.index(model.len() - start + 1);
    let from: Vec<f64> = set.iter_from(start).map(|(_, score)| score).collect();
    assert_eq!(from, model[start..].iter().map(|(score, _)| *score).collect::<Vec<f64>>());
    let mut found = Model::new();
    set.ascending(range.clone(), |member, score| {
        found.push((score, member.text(&mut TextBuffer::default()).to_vec()));
        found.len() < 7
    });
    assert_eq!(found, model[range.clone()].iter().take(7).cloned().collect::<Model>());
    let mut found = Model::new();
    set.descending(range.clone(), |member, score| {
        found.push((score, member.text(&mut TextBuffer::default()).to_vec()));
        found.len() < 7
    });
    let expected: Model = model[range].iter().rev().take(7).cloned().collect();
    assert_eq!(found, expected);
    let bound = random_score(random, phase);
    let count =
        |is_counted: &dyn Fn(f64) -> bool| model.iter().filter(|(score, _)| is_counted(*score)).count();
    assert_eq!(set.below(ScoreBound::Inclusive(bound)), count(&|score| score < bound));
    assert_eq!(set.below(ScoreBound::Exclusive(bound)), count(&|score| score <= bound));
    assert_eq!(set.up_to(ScoreBound::Inclusive(bound)), count(&|score| score <= bound));
    assert_eq!(set.up_to(ScoreBound::Exclusive(bound)), count(&|score| score < bound));
}

#[test]
fn a_sorted_set_is_a_sorted_list_of_pairs() {
    with_seeds(0..scaled(10).max(4), |random| {
        let (mut set, mut model) = (Ranking::default(), Model::new());
        for step in 0..scaled(20_000) {
            let phase = step / 500 % 4;
            change(&mut set, &mut model, random, phase);
            set.check();
            compare(set.view(), &model, random, phase);
            if let Some(bytes) = set.embedded() {
                assert_eq!(pairs(RankingView::of_embedded(bytes)), model);
                let mut copy = Ranking::default();
                copy.assign_embedded(bytes);
                assert_eq!(copy.embedded(), Ranking::of_embedded(bytes).embedded());
            }
        }
    });
}

#[test]
fn times_take_the_bytes_of_their_differences() {
    let mut set = Ranking::default();
    for number in 0..20u32 {
        let (member, score) = ((1_000_000 + number).to_string(), f64::from(1_764_000_000 + number * 3_000));
        assert!(set.fits(member.len()));
        set.insert(member.as_bytes(), score, None);
    }
    // Two bytes of head, four of the base, two for each score and four for each member.
    assert_eq!(set.embedded().map(<[u8]>::len), Some(2 + 4 + 20 * (2 + 4)));
    let same = set.view().find(b"1000003").unwrap();
    assert_eq!(set.insert(b"1000003", same.score, Some(same)), Insertion::Unchanged);
    let before = set.embedded().unwrap().len();
    assert_eq!(
        set.insert(b"1000003", same.score + 7.0, Some(same)),
        Insertion::Updated { previous: same.score }
    );
    assert_eq!(set.embedded().unwrap().len(), before);
    set.insert(b"half", 0.5, None);
    set.check();
    assert_eq!(set.view().find(b"half").unwrap().rank, 0);
}

#[test]
fn the_most_and_the_longest_members_fit() {
    let mut set = Ranking::default();
    for number in 0..MEMBERS_MAX {
        assert!(set.fits(3));
        set.insert(format!("m{number}").as_bytes(), -1.5 * number as f64, None);
    }
    assert!(!set.fits(0) && set.fits_score());
    set.check();
    let longest = vec![b'x'; ROOM_BYTES - HEAD_BYTES - BASE_BYTES_MAX - FLOAT_BYTES - VALUE_HEAD_BYTES_MAX];
    let mut set = Ranking::default();
    assert!(set.fits(longest.len()) && !set.fits(longest.len() + 1) && !set.fits(usize::MAX));
    set.insert(&longest, 9_007_199_254_740_991.0, None);
    set.insert(&longest, 0.1, set.view().find(&longest));
    set.check();
    assert!(set.embedded().is_none() && set.fits_score());
    assert_eq!(set.view().find(&[b'x'; 2 * ROOM_BYTES]), None);
    assert_eq!(set.remove(&longest), Some(0.1));
    set.check();
}

/// Every cut of a set's bytes is another set or panics: none is read beyond its end.
#[test]
fn cut_sets_are_not_read_beyond_their_end() {
    let mut set = Ranking::default();
    for (rank, member) in ["tag", "1234567", "1.25", "10.1.2.3", "deadbeef", "0123"].iter().enumerate() {
        set.insert(member.as_bytes(), 1000.0 * rank as f64, None);
    }
    let (bytes, all) = (set.embedded().unwrap().to_vec(), pairs(set.view()));
    for len in 2..bytes.len() {
        let cut = bytes[..len].to_vec().into_boxed_slice();
        let read = std::panic::catch_unwind(|| pairs(RankingView::of_embedded(&cut)));
        assert!(read.is_err() || all.starts_with(&read.unwrap_or_default()), "{len}");
        _ = std::panic::catch_unwind(|| RankingView::of_embedded(&cut).find(b"0123"));
    }
}
