//! The tree against a sorted vector, and the known failures of such trees.

use super::*;
use crate::ordered_set::ALL_RANKS;
use crate::random::Random;
#[cfg(debug_assertions)]
use crate::work;
use std::collections::{HashMap, HashSet};

mod ends;
mod known_failures;
mod moves;

pub(super) const SEED: HashSeed = HashSeed::new(0x1234, 0x5678);

/// Shapes under test: the real one, and one that makes tall trees of few members.
const SHAPES: [Shape; 2] = [
    Shape { page_bytes_max: 4096, node_children_max: 64 },
    Shape { page_bytes_max: 1024, node_children_max: 4 },
];

/// `WARMLINE_TEST_SCALE`, 1 unless set.
fn scale() -> f64 {
    let scale = std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|scale| scale.parse().ok());
    scale.unwrap_or(1.0)
}

/// Thousands of steps at scale 1; few under Miri.
fn steps(thousands: usize) -> usize {
    sized((1_000.0 * thousands as f64 * scale()) as usize, 80)
}

/// The size of a test: Miri takes a thousand times as long for a step.
fn sized(full: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { full }
}

/// The same set as a sorted vector and a map.
#[derive(Default)]
struct Model {
    ordered: Vec<(u64, Vec<u8>)>,
    scores: HashMap<Vec<u8>, f64>,
}

impl Model {
    fn insert(&mut self, member: &[u8], score: f64) -> Insertion {
        let score = score + 0.0;
        let previous = self.scores.get(member).copied();
        if previous == Some(score) {
            return Insertion::Unchanged;
        }
        self.remove(member);
        self.scores.insert(member.to_vec(), score);
        let key = (score_to_bits(score), member.to_vec());
        let at = self.ordered.binary_search(&key).unwrap_err();
        self.ordered.insert(at, key);
        previous.map_or(Insertion::Added, |previous| Insertion::Updated { previous })
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.ordered.remove(self.rank_of(member, score));
        Some(score)
    }

    fn rank_of(&self, member: &[u8], score: f64) -> usize {
        self.ordered.binary_search(&(score_to_bits(score), member.to_vec())).unwrap()
    }

    fn pairs(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.ordered.iter().map(|(score, member)| (&member[..], bits_to_score(*score)))
    }

    fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.ordered.get(rank).map(|(score, member)| (&member[..], bits_to_score(*score)))
    }
}

/// The kind of members and scores that a run draws.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Short members, integer scores.
    Plain,
    /// All scores equal, members with a long common prefix.
    Lexical,
    /// Few different scores, members of any bytes and of lengths up to 600.
    Mixed,
    /// Scores of every magnitude, infinities and both zeros.
    Wild,
}

struct Run {
    random: Random,
    kind: Kind,
    tree: FbTree,
    model: Model,
}

impl Run {
    fn new(seed: u64, kind: Kind, shape: Shape) -> Self {
        Run {
            random: Random::new(seed),
            kind,
            tree: FbTree::with_shape(SEED, shape),
            model: Model::default(),
        }
    }

    fn member(&mut self, universe: u64) -> Vec<u8> {
        let id = self.random.below(universe);
        match self.kind {
            Kind::Plain => format!("m{id}").into_bytes(),
            Kind::Lexical => [
                &b"a common prefix that is longer than what a node can hold/"[..],
                format!("{id:05}").as_bytes(),
            ]
            .concat(),
            Kind::Mixed | Kind::Wild => {
                let mut of_id = Random::new(id);
                let len = [0, 1, 2, 5, 20, 100, 253, 254, 255, 256, 600][of_id.below(11) as usize];
                let mut member: Vec<u8> =
                    (0..len).map(|_| [0, 255, of_id.next_u64() as u8][id as usize % 3]).collect();
                member.extend((id as u16).to_be_bytes().iter().take(len));
                member
            }
        }
    }

    fn score(&mut self) -> f64 {
        match self.kind {
            Kind::Plain => self.random.below(1_000_000) as f64,
            Kind::Lexical => 0.0,
            Kind::Mixed => self.random.below(5) as f64 - 2.0,
            Kind::Wild => match self.random.below(10) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => -0.0,
                3 => 0.0,
                4 => f64::MIN_POSITIVE,
                5 => self.random.unit(),
                6 => -self.random.unit() * 1e300,
                _ => (self.random.next_u64() as i64 >> self.random.below(63)) as f64,
            },
        }
    }

    fn score_bound(&mut self) -> ScoreBound {
        let score = match self.model.at(self.random.below(self.model.ordered.len() as u64 + 1) as usize) {
            Some((_, score)) if self.random.below(2) == 0 => score,
            _ if self.random.below(4) == 0 => [f64::NEG_INFINITY, f64::INFINITY][self.random.index(2)],
            _ => self.score(),
        };
        if self.random.below(2) == 0 { ScoreBound::Inclusive(score) } else { ScoreBound::Exclusive(score) }
    }

    fn step(&mut self, universe: u64) {
        match self.random.below(100) {
            0..10 => {
                let (member, score) = (self.member(universe), self.score());
                self.insert_if(&member, score);
            }
            10..45 => {
                let (member, score) = (self.member(universe), self.score());
                let expected = self.model.insert(&member, score);
                assert_eq!(self.tree.insert(&member, score), Ok(expected), "{member:?} {score}");
            }
            45..55 => self.nudge(),
            55..85 => {
                let member = self.member(universe);
                assert_eq!(self.tree.remove(&member), self.model.remove(&member));
            }
            85..90 => self.look_up(universe),
            90..94 => self.ranges(),
            94..97 => self.walk(),
            97 => self.remove_range(),
            98 => self.pop(),
            _ => self.go_on_with_a_copy(),
        }
    }

    /// Changes a present member's score a little.
    fn nudge(&mut self) {
        let rank = self.random.below(self.model.ordered.len() as u64 + 1) as usize;
        let Some((member, score)) = self.model.at(rank) else { return };
        let by = if matches!(self.kind, Kind::Lexical) { 0 } else { self.random.below(5) as i32 - 2 };
        let (member, score) = (member.to_vec(), score + f64::from(by));
        self.insert_if(&member, score);
    }

    /// Inserts, moves or refuses, depending on the present score.
    fn insert_if(&mut self, member: &[u8], score: f64) {
        let there = self.model.scores.get(member).copied();
        let is_wanted = self.random.below(4) > 0;
        let mut wanted = |found: Option<f64>| {
            assert_eq!(found, there, "{member:?}");
            is_wanted.then_some(score)
        };
        let inserted = self.tree.insert_if(member, &mut wanted);
        let expected = is_wanted.then(|| self.model.insert(member, score));
        assert_eq!(inserted, Ok(expected));
    }

    /// Replaces the tree by a copy, which is no larger and shares nothing with the original.
    fn go_on_with_a_copy(&mut self) {
        let copy = self.tree.clone();
        assert!(copy.memory_bytes() <= self.tree.memory_bytes(), "a copy is larger");
        let mut original = std::mem::replace(&mut self.tree, copy);
        original.drop_range(0..original.len() / 2);
        original.check();
        self.tree.check();
    }

    fn look_up(&mut self, universe: u64) {
        let member = self.member(universe);
        let score = self.model.scores.get(&member).copied();
        assert_eq!(self.tree.score(&member), score);
        let rank = score.map(|score| (self.model.rank_of(&member, score), score));
        assert_eq!(self.tree.rank(&member), rank);
        let rank = self.random.below(self.model.ordered.len() as u64 + 2) as usize;
        assert_eq!(self.tree.at(rank), self.model.at(rank));
        let members: Vec<Vec<u8>> = (0..self.random.below(40)).map(|_| self.member(universe)).collect();
        let mut scores = Vec::new();
        let borrowed: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
        self.tree.scores(&borrowed, &mut |score| scores.push(score));
        let expected = members.iter().map(|member| self.model.scores.get(member).copied());
        assert!(expected.eq(scores), "scores of several members");
        if !self.model.ordered.is_empty() {
            let len = self.model.ordered.len() as u64;
            let ranks: Vec<usize> = (0..40).map(|_| self.random.below(len) as usize).collect();
            let mut found = Vec::new();
            self.tree.at_each(&ranks, &mut |member, score| {
                found.push(Some((member, score)));
                found.len() < 30
            });
            assert!(found.into_iter().eq(ranks.iter().take(30).map(|&rank| self.model.at(rank))));
        }
        let mut probe = self.tree.probe(&member);
        let steps = (0..20).take_while(|_| self.tree.probe_step(&mut probe)).count();
        assert!(steps < 8, "a probe has few steps");
        for end in [End::Lowest, End::Highest] {
            let mut probe = self.tree.probe_end(end);
            let steps = (0..20).take_while(|_| self.tree.probe_step(&mut probe)).count();
            let is_one = self.tree.pages.leaves.only().is_some();
            assert!(steps <= if is_one { 0 } else { 2 }, "{steps} steps");
            assert!(!self.tree.probe_step(&mut probe), "the probe has ended");
        }
    }

    fn ranges(&mut self) {
        let (min, max) = (self.score_bound(), self.score_bound());
        let above = |score: f64| match min {
            ScoreBound::Inclusive(bound) => score >= bound,
            ScoreBound::Exclusive(bound) => score > bound,
        };
        let below = |score: f64| match max {
            ScoreBound::Inclusive(bound) => score <= bound,
            ScoreBound::Exclusive(bound) => score < bound,
        };
        let expected: Vec<_> =
            self.model.pairs().filter(|&(_, score)| above(score) && below(score)).collect();
        let range = self.tree.score_range(min, max);
        assert_eq!(range.len(), expected.len(), "{min:?} {max:?}");
        if !range.is_empty() {
            assert_eq!(self.model.at(range.start), expected.first().copied(), "{min:?} {max:?}");
        }
        for wanted in [0, 1, self.random.below(100) as usize, usize::MAX] {
            let first = self.tree.score_range_start(min, max, wanted);
            assert_eq!(first.len().min(wanted), expected.len().min(wanted), "{min:?} {max:?} {wanted}");
            assert!(first.is_empty() || first.start == range.start, "{min:?} {max:?} {wanted}");
        }
        if matches!(self.kind, Kind::Lexical) {
            self.lex_ranges();
        }
    }

    fn lex_ranges(&mut self) {
        let members = [self.member(2_000), self.member(2_000), vec![0xff; 3], vec![]];
        let bounds =
            |member| [LexBound::Min, LexBound::Max, LexBound::Inclusive(member), LexBound::Exclusive(member)];
        for (low, high) in [(0, 1), (1, 0), (0, 0), (3, 2), (0, 2), (2, 3)] {
            for min in bounds(&members[low]) {
                for max in bounds(&members[high]) {
                    let expected: Vec<usize> = (0..self.model.ordered.len())
                        .filter(|&rank| lex_within(&self.model.ordered[rank].1, min, max))
                        .collect();
                    let range = self.tree.lex_range(min, max);
                    assert_eq!(range.len(), expected.len(), "{min:?} {max:?}");
                    assert!(range.is_empty() || range.start == expected[0], "{min:?} {max:?}");
                }
            }
        }
    }

    fn walk(&mut self) {
        let len = self.model.ordered.len();
        let rank = self.random.below(len as u64 + 2) as usize;
        let count = self.random.below(400) as usize;
        let ranks = rank..rank + count;
        let up: Vec<_> = self.tree.ascending(ranks.clone()).collect();
        assert_eq!(up, self.model.pairs().skip(rank).take(count).collect::<Vec<_>>());
        let down: Vec<_> = self.tree.descending(ranks).collect();
        assert!(down.iter().rev().eq(&up));
    }

    fn remove_range(&mut self) {
        let len = self.model.ordered.len();
        let start = self.random.below(len as u64 + 2) as usize;
        let count = match self.random.below(8) {
            0 => self.random.below(len as u64 + 1) as usize,
            1 => len,
            _ => self.random.below(len as u64 / 16 + 2) as usize,
        };
        let end = (start + count).min(len);
        let start = start.min(end);
        let expected: Vec<_> = self.model.ordered.drain(start..end).collect();
        for (_, member) in &expected {
            self.model.scores.remove(member);
        }
        if self.random.below(3) == 0 {
            assert_eq!(self.tree.drop_range(start..end), expected.len());
            return;
        }
        let mut removed = Vec::new();
        let removed_len = self.tree.remove_range(start..end, &mut |member, score| {
            removed.push((score_to_bits(score), member.to_vec()));
        });
        assert_eq!(removed_len, expected.len());
        assert_eq!(removed, expected);
    }

    fn pop(&mut self) {
        let mut popped = None;
        let max = self.random.below(2) == 0;
        let mut keep = |member: &[u8], score: f64| popped = Some((member.to_vec(), score));
        let rank = if max { self.tree.len().saturating_sub(1) } else { 0 };
        let any = self.tree.remove_range(rank..rank + 1, &mut keep) == 1;
        let expected = self.model.at(rank).map(|(member, score)| (member.to_vec(), score));
        assert_eq!(any, expected.is_some());
        assert_eq!(popped, expected);
        if let Some((member, _)) = expected {
            self.model.remove(&member);
        }
    }

    fn check(&self) {
        self.tree.check();
        assert_eq!(self.tree.len(), self.model.ordered.len());
        assert!(self.tree.ascending(ALL_RANKS).eq(self.model.pairs()), "ascending differs");
        assert!(self.tree.descending(ALL_RANKS).eq(self.model.pairs().rev()), "descending differs");
    }
}

fn lex_within(member: &[u8], min: LexBound, max: LexBound) -> bool {
    let above = match min {
        LexBound::Min => true,
        LexBound::Max => false,
        LexBound::Inclusive(bound) => member >= bound,
        LexBound::Exclusive(bound) => member > bound,
    };
    let below = match max {
        LexBound::Min => false,
        LexBound::Max => true,
        LexBound::Inclusive(bound) => member <= bound,
        LexBound::Exclusive(bound) => member < bound,
    };
    above && below
}

/// Runs random steps on universes that grow and shrink the set, checking often while it is small.
fn random_run(seed: u64, kind: Kind, shape: Shape, steps: usize) {
    println!("seed {seed}, {kind:?}, {shape:?}");
    let mut run = Run::new(seed, kind, shape);
    for step in 0..steps {
        let universe = [40, 400, 4_000][step * 6 / steps % 3];
        run.step(universe);
        if run.model.ordered.len() < sized(60, 10) || step % sized(64, 8) == 0 {
            run.check();
        }
    }
    run.check();
}

#[test]
fn random_operations_agree_with_the_model() {
    for (at, kind) in [Kind::Plain, Kind::Lexical, Kind::Mixed, Kind::Wild].into_iter().enumerate() {
        for (shape_at, shape) in SHAPES.into_iter().enumerate() {
            random_run((10 * at + shape_at) as u64, kind, shape, steps(20));
        }
    }
}

/// Full leaves, which may grow beyond the others' limit, between operations of all kinds.
#[test]
fn random_operations_in_sets_that_were_filled_in_order() {
    for (at, kind) in [Kind::Plain, Kind::Mixed, Kind::Wild].into_iter().enumerate() {
        for (shape_at, shape) in SHAPES.into_iter().enumerate() {
            let seed = (100 + 10 * at + shape_at) as u64;
            println!("{kind:?}, {shape:?}, seed {seed}");
            let mut run = Run::new(seed, kind, shape);
            for i in 0..sized(2_000, 120) {
                let (member, score) = (format!("in order {i:05}").into_bytes(), i as f64);
                let at_the_end = if at % 2 == 0 { score } else { -score };
                let expected = run.model.insert(&member, at_the_end);
                assert_eq!(run.tree.insert(&member, at_the_end), Ok(expected));
            }
            run.check();
            for _ in 0..steps(4) {
                run.step(400);
                run.check();
            }
        }
    }
}

#[test]
fn every_slot_of_a_leaf_is_found_however_many_there_are() {
    let name = |len: usize, id: usize| format!("{id:0len$}").into_bytes();
    for len in [3, 8, 9, 16, 17, 32, 33] {
        let mut set = FbTree::new(SEED);
        for count in 1..=sized(260, 70) {
            let id = count - 1;
            set.insert(&name(len, id), -(id as f64)).unwrap();
            let first = if cfg!(miri) { id } else { 0 };
            for sought in first..count {
                assert_eq!(
                    set.score(&name(len, sought)),
                    Some(-(sought as f64)),
                    "{sought} of {count} of {len} bytes"
                );
            }
            assert_eq!(set.score(&name(len, count)), None, "one more than {count} of {len} bytes");
        }
        set.check();
    }
}

#[test]
fn leaves_filled_in_order_take_a_quarter_more_before_they_divide() {
    let mut tree = FbTree::new(SEED);
    let count = sized(20_000, 1_000);
    for i in 0..count {
        tree.insert(format!("{i:016}").as_bytes(), i as f64).unwrap();
    }
    let leaves = tree.figures().leaves;
    let per_leaf = count / leaves;
    let mut between = |from: usize, to: usize| {
        for nth in from..to {
            for leaf in 0..leaves - 1 {
                let score = (leaf * per_leaf + nth) as f64;
                tree.insert(format!("between {leaf:03} {nth:03}").as_bytes(), score).unwrap();
            }
        }
        tree.check();
        tree.figures().leaves
    };
    assert_eq!(between(0, per_leaf / 8), leaves);
    assert!(between(per_leaf / 8, per_leaf / 2) > leaves);
}

/// Members that arrive at an end and leave again, as in a queue: a leaf there grows by half, and must not shrink at once.
#[test]
#[cfg(debug_assertions)]
fn a_leaf_at_an_end_is_not_made_anew_for_each_member_that_comes_and_goes() {
    let member = |nth: i32| format!("{nth:012}").into_bytes();
    for (upwards, newest) in [(true, true), (false, true), (true, false)] {
        let (mut set, mut nth) = (FbTree::new(SEED), 0);
        let score = |nth: i32| f64::from(if upwards { nth } else { -nth });
        let mut insert = |set: &mut FbTree| {
            set.insert(&member(nth), score(nth)).unwrap();
            nth += 1;
            nth
        };
        while set.figures().leaves < 3 {
            insert(&mut set);
        }
        // Beyond, the page has its maximum size.
        for _ in 0..140 {
            let (pairs, mut moved) = (sized(50, 3) as u64, 0);
            for _ in 0..pairs {
                work::take();
                let count = insert(&mut set);
                assert!(set.remove(&member(count - if newest { 1 } else { 3 })).is_some());
                moved += work::take().moved;
            }
            set.check();
            assert!(moved < pairs * 2_500, "{moved} bytes moved by {pairs} pairs, {} members", set.len());
            insert(&mut set);
        }
    }
}

/// Inserts by the thousand without removal, so that nodes split on several levels, then removes all.
#[test]
fn tall_trees_grow_and_shrink() {
    let shape = SHAPES[1];
    for (seed, order) in ["ascending", "descending", "random"].into_iter().enumerate() {
        let mut run = Run::new(seed as u64, Kind::Plain, shape);
        let count = sized(20_000, 150);
        for i in 0..count {
            let score = match order {
                "ascending" => i as f64,
                "descending" => -(i as f64),
                _ => run.random.unit(),
            };
            let member = format!("member {i}").into_bytes();
            assert_eq!(run.tree.insert(&member, score), Ok(run.model.insert(&member, score)));
            if i % 1_000 == 0 {
                run.check();
            }
        }
        run.check();
        assert!(cfg!(miri) || run.tree.height >= 4, "{order}: only {} levels", run.tree.height);
        let mut members: Vec<Vec<u8>> = run.model.scores.keys().cloned().collect();
        members.sort();
        while !members.is_empty() {
            let at = run.random.below(members.len() as u64) as usize;
            let member = members.swap_remove(at);
            assert_eq!(run.tree.remove(&member), run.model.remove(&member));
            if members.len().is_multiple_of(sized(1_000, 40)) || members.len() < sized(20, 5) {
                run.check();
            }
        }
        assert_eq!(
            run.tree.memory_bytes(),
            FbTree::new(SEED).memory_bytes(),
            "{order}: memory is given back"
        );
    }
}

fn trees_of_every_instruction_set(shape: Shape) -> Vec<FbTree> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut sets = vec![Simd::Plain, Simd::detect()];
    #[cfg(target_arch = "x86_64")]
    sets.push(Simd::Sse2);
    sets.into_iter().map(|simd| FbTree::empty(SEED, shape, simd)).collect()
}

#[test]
fn every_instruction_set_builds_the_same_set() {
    let mut trees = trees_of_every_instruction_set(SHAPES[1]);
    let mut random = Random::new(5);
    for _ in 0..steps(5) {
        let (member, score) = (random.below(2_000).to_string(), random.below(100) as f64);
        let insertions: Vec<_> = trees.iter_mut().map(|tree| tree.insert(member.as_bytes(), score)).collect();
        assert!(insertions.windows(2).all(|pair| pair[0] == pair[1]));
        let gone = random.below(2_000).to_string();
        let removals: Vec<_> = trees.iter_mut().map(|tree| tree.remove(gone.as_bytes())).collect();
        assert!(removals.windows(2).all(|pair| pair[0] == pair[1]));
    }
    for tree in &trees {
        tree.check();
        assert!(tree.ascending(ALL_RANKS).eq(trees[0].ascending(ALL_RANKS)));
    }
}

/// A leaf's scores are searched in steps of 16: counts around each of their ends, with scores shared by few and by all,
/// and with the empty member, below which a range of scores begins.
#[test]
fn ranges_are_exact_beside_every_step_within_a_leaf() {
    for count in [1, 15, 16, 17, 31, 32, 33, 79, 80, 81] {
        for shared in [1, 2, 16, 17, 100] {
            let mut set = FbTree::new(SEED);
            let member = |at: usize| if at == 0 { String::new() } else { format!("{at:03}") };
            let score = |at: usize| (at / shared) as f64;
            for at in (0..count).rev() {
                set.insert(member(at).as_bytes(), score(at)).unwrap();
            }
            set.check();
            for half in -2..2 * (count / shared) as i32 + 3 {
                let bound = f64::from(half) / 2.0;
                let below = (0..count).filter(|&at| score(at) < bound).count();
                let through = (0..count).filter(|&at| score(at) <= bound).count();
                let range = |min, max| set.score_range(min, max);
                let (least, most) =
                    (ScoreBound::Inclusive(f64::NEG_INFINITY), ScoreBound::Inclusive(f64::INFINITY));
                assert_eq!(range(ScoreBound::Inclusive(bound), most), below..count, "{count} {shared}");
                assert_eq!(range(ScoreBound::Exclusive(bound), most), through..count, "{count} {shared}");
                assert_eq!(range(least, ScoreBound::Exclusive(bound)), 0..below, "{count} {shared}");
                assert_eq!(range(least, ScoreBound::Inclusive(bound)), 0..through, "{count} {shared}");
            }
            for at in (0..count).filter(|_| shared > count) {
                let member = member(at);
                let from = set.lex_range(LexBound::Inclusive(member.as_bytes()), LexBound::Max);
                let behind = set.lex_range(LexBound::Exclusive(member.as_bytes()), LexBound::Max);
                assert_eq!((from, behind), (at..count, at + 1..count), "{count}");
            }
        }
    }
}

/// Ordered bits of scores for columns of every width, among them the least, the greatest and those around zero.
fn scores_in_few_bits(random: &mut Random, count: usize) -> Vec<u64> {
    let [least, most] = [f64::NEG_INFINITY, f64::INFINITY].map(score_to_bits);
    let bits = random.below(65) as u32;
    let span = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
    let zeros = if random.below(3) == 0 { random.below(52) } else { 0 };
    let from = match random.below(6) {
        0 => least,
        1 => most.saturating_sub(span),
        2 => score_to_bits(0.0).saturating_sub(span / 2),
        3 => score_to_bits(1.0),
        4 => score_to_bits(-1000.0),
        _ => random.next_u64(),
    };
    let mut any = || from.saturating_add(random.next_u64() & span & !0 << zeros).clamp(least, most);
    // There is no negative zero.
    (0..count).map(|_| score_to_bits(bits_to_score(any()))).collect()
}

#[test]
fn ranges_are_exact_for_scores_of_every_width_and_instruction_set() {
    for seed in 0..steps(1).div_ceil(2) as u64 {
        let mut random = Random::new(seed);
        let count = random.below([20, 20, 150, 150, sized(1_500, 30) as u64][seed as usize % 5]) as usize;
        let mut scores = scores_in_few_bits(&mut random, count);
        match seed % 3 {
            0 => scores.sort_unstable(),
            1 => scores.sort_unstable_by(|a, b| b.cmp(a)),
            _ => {}
        }
        let mut trees = trees_of_every_instruction_set(SHAPES[random.below(2) as usize]);
        let length_max = [2, 10, 20, 40, 300][random.below(5) as usize];
        for (number, &score) in scores.iter().enumerate() {
            let member = format!("{number}{}", "x".repeat(random.below(length_max) as usize));
            let insert = |set: &mut FbTree| set.insert(member.as_bytes(), bits_to_score(score));
            assert!(trees.iter_mut().all(|set| insert(set) == Ok(Insertion::Added)));
        }
        trees.iter().for_each(FbTree::check);
        scores.sort_unstable();
        let near = |random: &mut Random| {
            let known = scores.get(random.below(count as u64 + 1) as usize).copied();
            let bits = known.unwrap_or(score_to_bits(0.0)) + random.below(3) - 1;
            bits_to_score(bits.clamp(score_to_bits(f64::NEG_INFINITY), score_to_bits(f64::INFINITY)))
        };
        for _ in 0..60 {
            let (low, high) = (near(&mut random), near(&mut random));
            let below = |bound: f64| scores.partition_point(|&score| bits_to_score(score) < bound);
            let through = |bound: f64| scores.partition_point(|&score| bits_to_score(score) <= bound);
            for (min, start) in
                [(ScoreBound::Inclusive(low), below(low)), (ScoreBound::Exclusive(low), through(low))]
            {
                for (max, end) in
                    [(ScoreBound::Inclusive(high), through(high)), (ScoreBound::Exclusive(high), below(high))]
                {
                    let ranges = trees.iter().map(|set| set.score_range(min, max));
                    let is_right =
                        |range: RankRange| range == (start..end) || start >= end && range.is_empty();
                    assert!(ranges.into_iter().all(is_right), "seed {seed}: {min:?} {max:?}");
                }
            }
        }
    }
}

/// Nodes need not know keys below all others: whichever of the first leaves split, merge or empty then are exact.
#[test]
fn members_below_all_others_are_in_order_whatever_comes_between() {
    for (seed, shape) in (20..).zip(SHAPES) {
        let (mut set, mut model) = (FbTree::with_shape(SEED, shape), Model::default());
        let (mut random, mut lowest) = (Random::new(seed), 0.0);
        for step in 0..steps(4) {
            let among = random.below(model.ordered.len() as u64 / 4 + 1) as usize;
            let known =
                model.ordered.get(among).map(|(score, member)| (bits_to_score(*score), member.clone()));
            match (random.below(if step % 1_000 < 600 { 12 } else { 4 }), known) {
                (0, Some((score, _))) => {
                    let member = format!("between {step}");
                    assert_eq!(set.insert(member.as_bytes(), score + 0.5), Ok(Insertion::Added));
                    model.insert(member.as_bytes(), score + 0.5);
                }
                (1, Some((score, member))) => assert_eq!(
                    (set.remove(&member), model.remove(&member)),
                    (Some(score), Some(score)),
                    "seed {seed}, step {step}"
                ),
                (2, Some((_, member))) if step % 7 == 0 => {
                    let rank = set.rank(&member).expect("the member is in the set").0;
                    set.drop_range(0..rank);
                    while model.ordered[0].1 != member {
                        let first = model.ordered[0].1.clone();
                        model.remove(&first);
                    }
                }
                (3, Some(_)) => {
                    let first = model.ordered[0].1.clone();
                    assert_eq!(set.remove(&first), model.remove(&first), "seed {seed}, step {step}");
                }
                _ => {
                    lowest -= 1.0;
                    let member = format!("lowest {step}");
                    assert_eq!(set.insert(member.as_bytes(), lowest), Ok(Insertion::Added));
                    model.insert(member.as_bytes(), lowest);
                }
            }
            set.check();
            let bound = lowest + random.below(20) as f64;
            let below = model.ordered.partition_point(|(score, _)| *score < score_to_bits(bound));
            let range = set.score_range(ScoreBound::Inclusive(bound), ScoreBound::Inclusive(f64::INFINITY));
            assert_eq!(range.start, below, "seed {seed}, step {step}");
        }
        assert!(set.ascending(ALL_RANKS).eq(model.pairs()), "seed {seed}");
    }
}

/// Members present throughout must be visited, whatever is inserted and removed between the calls.
#[test]
fn scan_meets_every_member_that_stays() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut random = Random::new(seed);
        let mut tree = FbTree::with_shape(SEED, SHAPES[1]);
        let stay = [10, 200, 3_000][seed as usize % 3].min(sized(3_000, 60) as u64);
        for i in 0..stay {
            tree.insert(format!("stay {i}").as_bytes(), random.unit()).unwrap();
        }
        let (mut seen, mut cursor, mut calls) = (HashSet::new(), 0, 0);
        loop {
            let mut visited = 0;
            cursor = tree.scan(cursor, 16, &mut |member, _| {
                seen.insert(member.to_vec());
                visited += 1;
            });
            assert!(cursor < 1 << 53 && visited < 24, "seed {seed}: {visited} visited, cursor {cursor}");
            calls += 1;
            if cursor == 0 {
                break;
            }
            let grows = random.below(2) == 0;
            for _ in 0..random.below(sized(60, 6) as u64) {
                let member = format!("come and go {}", random.below(4_000));
                if grows {
                    tree.insert(member.as_bytes(), random.unit()).unwrap();
                } else {
                    tree.remove(member.as_bytes());
                }
            }
            let moved = format!("stay {}", random.below(stay));
            tree.insert(moved.as_bytes(), random.unit()).unwrap();
        }
        for i in 0..stay {
            assert!(seen.contains(format!("stay {i}").as_bytes()), "seed {seed}: {i} was missed");
        }
        assert!(calls < 10 + 2 * (stay + 4_000) / 16, "seed {seed}: {calls} calls");
    }
}

#[test]
fn scan_of_a_resting_set_meets_each_member_once() {
    let mut tree = FbTree::new(SEED);
    let count = sized(20_000, 150) as u32;
    for i in 0..count {
        tree.insert(&u32::to_be_bytes(i), f64::from(i % 7)).unwrap();
    }
    let (mut seen, mut cursor) = (Vec::new(), 0);
    loop {
        cursor =
            tree.scan(cursor, 16, &mut |member, score| seen.push((score_to_bits(score), member.to_vec())));
        if cursor == 0 {
            break;
        }
    }
    seen.sort();
    let all: Vec<_> =
        tree.ascending(ALL_RANKS).map(|(member, score)| (score_to_bits(score), member.to_vec())).collect();
    assert_eq!(seen, all);
}

/// The bytes per member that issue 3 promises, computed by the tree itself.
#[test]
#[cfg_attr(miri, ignore)]
fn members_take_few_bytes() {
    let per_member = |count: usize, len: usize| {
        let mut tree = FbTree::new(SEED);
        let mut random = Random::new(2);
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|i| order.swap(i, random.below(i as u64 + 1) as usize));
        for i in order {
            tree.insert(format!("{i:0len$}").as_bytes(), i as f64).unwrap();
        }
        tree.check();
        (tree.memory_bytes() + size_of::<FbTree>()) as f64 / count as f64
    };
    let sizes = [per_member(129, 10), per_member(1_000, 16), per_member(100_000, 16)];
    println!("bytes a member: {sizes:?}");
    assert!(sizes[0] <= 28.0 && sizes[1] <= 40.0 && sizes[2] <= 36.0, "{sizes:?}");
}

/// A run of members that ascend from `base` on, some of equal scores and some too long for a page.
fn ascending_run(random: &mut Random, round: usize, base: f64) -> Vec<(Vec<u8>, f64)> {
    let len = 1 + random.below(sized(700, 50) as u64) as usize;
    let mut run: Vec<(Vec<u8>, f64)> = (0..len)
        .map(|n| {
            let long = if random.below(200) == 0 { 300 } else { random.below(20) as usize };
            let member = format!("{round}:{n}:{}", "x".repeat(long)).into_bytes();
            (member, base + (n / 3) as f64 * if round.is_multiple_of(3) { 0.1 } else { 1.0 })
        })
        .collect();
    run.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    run
}

fn pairs_of(run: &[(Vec<u8>, f64)]) -> Vec<(&[u8], f64)> {
    run.iter().map(|(member, score)| (member.as_slice(), *score)).collect()
}

#[test]
fn runs_are_loaded_as_by_insertion() {
    let mut random = Random::new(5);
    for (shape, down) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        for rounds in [0, 1, 2, sized(steps(1).min(40), 3)] {
            let mut loader = Loader::filling(FbTree::with_shape(SEED, shape));
            let mut model = Model::default();
            for round in 0..rounds {
                let mut run = ascending_run(&mut random, round, round as f64 * if down { -1e4 } else { 1e4 });
                if run.len() > 1 && random.below(4) == 0 {
                    run.reverse();
                    assert!(!loader.add(&pairs_of(&run)), "a run that descends is refused");
                    run.reverse();
                }
                assert!(loader.add(&pairs_of(&run)));
                assert!(!loader.add(&pairs_of(&run)), "a run that lies within is refused");
                run.iter().for_each(|(member, score)| _ = model.insert(member, *score));
            }
            let mut tree = loader.finish().expect("no member occurred twice");
            tree.check();
            assert!(tree.ascending(ALL_RANKS).eq(model.pairs()));
            for (member, score) in ascending_run(&mut random, 0, 1e9) {
                assert_eq!(tree.insert(&member, score).unwrap(), model.insert(&member, score));
            }
            tree.check();
            assert!(tree.ascending(ALL_RANKS).eq(model.pairs()));
        }
    }
}

#[test]
fn what_is_loaded_takes_no_more_than_what_was_inserted() {
    let mut random = Random::new(7);
    for len in [1, 2, 20, 100, 129, 150, 200, 250, 300, 1000] {
        let scores: Vec<f64> = (0..len).map(|_| random.below(1_000_000) as f64).collect();
        let mut inserted = FbTree::new(SEED);
        for (number, &score) in scores.iter().enumerate() {
            inserted.insert(format!("member {number}").as_bytes(), score).unwrap();
        }
        let mut run = Vec::new();
        inserted.ascending(ALL_RANKS).for_each(|(member, score)| run.push((member.to_vec(), score)));
        let mut loader = Loader::new(SEED);
        assert!(loader.add(&pairs_of(&run)));
        let loaded = loader.finish().expect("no member occurred twice");
        loaded.check();
        let (loaded, inserted) = (loaded.memory_bytes(), inserted.memory_bytes());
        assert!(loaded <= inserted + inserted / 10, "{len} members: {loaded} loaded, {inserted} inserted");
    }
}

#[test]
fn a_loader_notices_members_that_come_twice() {
    let mut random = Random::new(6);
    for (rounds, length) in [(1, 2), (1, 700), (3, 300), (8, 700)] {
        let length = length.min(sized(700, 20));
        for _ in 0..sized(20, 1) {
            let mut loader = Loader::new(SEED);
            let members: Vec<Vec<u8>> =
                (0..rounds * length).map(|n| format!("member {n}").into_bytes()).collect();
            let (first, second) = (random.below(members.len() as u64), random.below(members.len() as u64));
            for round in 0..rounds {
                let run = round * length..(round + 1) * length;
                let member = |at: usize| &members[if at == second as usize { first as usize } else { at }];
                let pairs: Vec<(&[u8], f64)> = run.map(|at| (member(at).as_slice(), at as f64)).collect();
                assert!(loader.add(&pairs));
            }
            assert_eq!(loader.finish().is_err(), first != second, "{first} and {second} of {rounds}");
        }
    }
}

/// Scores of one sign, of both, of any width; members with records of one byte; a member out of line.
#[test]
fn walks_meet_what_stands_at_their_ranks() {
    let scores: [fn(i32) -> f64; 7] = [
        |_| 7.0,
        f64::from,
        |i| -f64::from(i) - 1.0,
        |i| f64::from(i - 40),
        |i| (f64::from(i) - 40.5) / 7.0,
        |i| if i % 2 == 0 { f64::INFINITY } else { 1e-300 * f64::from(i) },
        |i| if i == 0 { f64::NEG_INFINITY } else { f64::from(i) * 1e280 },
    ];
    for (score, count) in
        scores.iter().flat_map(|score| [1, 2, 5, 9, 80, sized(700, 90)].map(|count| (score, count)))
    {
        for long in [false, true] {
            let mut set = FbTree::with_shape(SEED, SHAPES[1]);
            for i in 0..count {
                let member = if i == 0 { Vec::new() } else { vec![i as u8; 1 + i / 256] };
                set.insert(&member, score(i as i32)).unwrap();
            }
            if long {
                set.insert(&[b'l'; 300], score(count as i32 / 2)).unwrap();
            }
            let at = |rank: usize| set.at(rank).unwrap();
            for start in (0..set.len()).step_by(1 + count / 9) {
                for end in [start, start + 1, start + 17, start + 40, usize::MAX] {
                    let ranks = start..end.min(set.len());
                    assert_eq!(set.ascending(start..end).size_hint().0, ranks.len());
                    assert!(set.ascending(start..end).eq(ranks.clone().map(at)), "{start}..{end} of {count}");
                    assert!(set.descending(start..end).eq(ranks.rev().map(at)), "{start}..{end} of {count}");
                }
            }
        }
    }
}
