//! Differential test of ordered sets: random operations on two implementations of [`OrderedSet`], whose
//! results must be equal. `WARMLINE_TEST_SCALE` multiplies the number of operations.

#[path = "ordered_sets/sorted_model.rs"]
mod sorted_model;

use sorted_model::SortedModel;
use std::collections::BTreeMap;
use structures::hash::HashSeed;
use structures::ordered_set::fbtree::FbTree;
use structures::ordered_set::skip_list::SkipList;
use structures::ordered_set::{ALL_RANKS, LexBound, OrderedSet, ScoreBound};
use structures::random::Random;

/// The kinds of members and scores of a run.
struct Profile {
    name: &'static str,
    /// Number of different members.
    members: u64,
    member: fn(u64) -> Vec<u8>,
    score: fn(&mut Random) -> f64,
}

const PROFILES: &[Profile] = &[
    Profile { name: "leaderboard", members: 4_000, member: padded, score: |r| r.below(100_000) as f64 },
    Profile { name: "equal scores", members: 2_000, member: padded, score: |_| 7.0 },
    Profile { name: "few scores", members: 3_000, member: padded, score: |r| r.below(4) as f64 - 1.5 },
    Profile { name: "all sorts", members: 3_000, member: all_sorts, score: any_score },
    Profile { name: "long prefix", members: 600, member: long_prefix, score: |r| r.below(3) as f64 },
    Profile { name: "high bytes", members: 1_000, member: high_bytes, score: |_| 0.0 },
    Profile {
        name: "prefixes of one another",
        members: 400,
        member: staircase,
        score: |r| r.below(2) as f64,
    },
    Profile { name: "near scores", members: 3_000, member: padded, score: near_score },
    Profile { name: "ten members", members: 10, member: padded, score: any_score },
];

fn padded(number: u64) -> Vec<u8> {
    format!("member:{number:09}").into_bytes()
}

/// Lengths from 0 to a few hundred, all byte values.
fn all_sorts(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let len = if number.is_multiple_of(64) { random.below(700) } else { random.below(24) };
    let mut member: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    if number > 0 {
        member.extend_from_slice(&number.to_le_bytes()[..2]);
    }
    member
}

fn long_prefix(number: u64) -> Vec<u8> {
    let mut member = vec![b'p'; 120 + (number % 3) as usize * 90];
    member.extend_from_slice(number.to_string().as_bytes());
    member
}

/// The number in base 3; its digits are the two highest byte values and the lowest.
fn high_bytes(mut number: u64) -> Vec<u8> {
    let mut member = Vec::new();
    while number > 0 {
        member.push([0xff, 0xfe, 0x00][(number % 3) as usize]);
        number /= 3;
    }
    member
}

fn staircase(number: u64) -> Vec<u8> {
    vec![if number.is_multiple_of(2) { 0 } else { 0xff }; number as usize / 2 + (number % 2) as usize]
}

fn any_score(random: &mut Random) -> f64 {
    match random.below(8) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3 => f64::MIN_POSITIVE / 4.0,
        4 => random.unit() - 0.5,
        5 => -(random.below(1_000) as f64),
        6 => f64::MAX * (random.unit() - 0.5),
        _ => random.below(1_000) as f64,
    }
}

/// Bit patterns that differ in their last bits only.
fn near_score(random: &mut Random) -> f64 {
    f64::from_bits(1.0f64.to_bits() + random.below(50))
}

/// Prints the position of a run when it panics.
struct Whereabouts {
    profile: &'static str,
    seed: u64,
    step: usize,
}

impl Drop for Whereabouts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("profile {:?}, seed {}, step {}", self.profile, self.seed, self.step);
        }
    }
}

fn scaled(steps: usize) -> usize {
    let scale: f64 =
        std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    (steps as f64 * scale) as usize
}

/// Two sets under the same operations.
struct Mirror<'a, A, B> {
    left: A,
    right: B,
    profile: &'a Profile,
    random: Random,
}

impl<A: OrderedSet, B: OrderedSet> Mirror<'_, A, B> {
    fn member(&mut self) -> Vec<u8> {
        (self.profile.member)(self.random.below(self.profile.members))
    }

    fn score(&mut self) -> f64 {
        (self.profile.score)(&mut self.random)
    }

    /// A rank within the set or a little past its end.
    fn rank(&mut self) -> usize {
        self.random.below(self.right.len() as u64 + 3) as usize
    }

    fn insert(&mut self) {
        let (member, score) = (self.member(), self.score());
        assert_eq!(self.left.insert(&member, score), self.right.insert(&member, score));
    }

    /// Moves a present member; often only slightly, so that it may stay in place.
    fn update(&mut self) {
        let rank = self.rank();
        let Some((member, old)) = self.right.at(rank).map(|(member, old)| (member.to_vec(), old)) else {
            return;
        };
        let nearby = if old.is_finite() { f64::from_bits(old.to_bits() ^ self.random.below(4)) } else { 0.0 };
        let score = if self.random.below(2) == 0 && !nearby.is_nan() { nearby } else { self.score() };
        assert_eq!(self.left.insert(&member, score), self.right.insert(&member, score));
    }

    fn remove(&mut self) {
        let rank = self.rank();
        let member = self.right.at(rank).map(|(member, _)| member.to_vec()).unwrap_or_else(|| self.member());
        assert_eq!(self.left.remove(&member), self.right.remove(&member));
        assert_eq!(self.left.score(&member), None);
    }

    fn pop(&mut self) {
        let (mut from_left, mut from_right) = (None, None);
        let mut keep_left = |member: &[u8], score| from_left = Some((member.to_vec(), score));
        let mut keep_right = |member: &[u8], score| from_right = Some((member.to_vec(), score));
        let rank = if self.random.below(2) == 0 { 0 } else { self.right.len().saturating_sub(1) };
        let left = self.left.remove_range(rank..rank + 1, &mut keep_left);
        assert_eq!(left, self.right.remove_range(rank..rank + 1, &mut keep_right));
        assert_eq!(from_left, from_right);
    }

    fn remove_range(&mut self) {
        let start = self.rank();
        let longest = if self.random.below(8) == 0 { self.right.len() as u64 + 1 } else { 20 };
        let end = start + self.random.below(longest) as usize;
        let (mut from_left, mut from_right) = (Vec::new(), Vec::new());
        let left =
            self.left.remove_range(start..end, &mut |member, score| from_left.push((member.to_vec(), score)));
        let right = self
            .right
            .remove_range(start..end, &mut |member, score| from_right.push((member.to_vec(), score)));
        assert_eq!((left, from_left), (right, from_right), "removal of ranks {start}..{end}");
    }

    /// One member's score and rank, and the member at one rank.
    fn look_up(&mut self) {
        let (member, rank) = (self.member(), self.rank());
        assert_eq!(self.left.score(&member), self.right.score(&member));
        assert_eq!(self.left.rank(&member), self.right.rank(&member));
        assert_eq!(self.left.at(rank), self.right.at(rank));
        let mut probe = self.left.probe(&member);
        let steps = (0..1_000).take_while(|_| self.left.probe_step(&mut probe)).count();
        assert!(steps < 1_000, "a probe ends");
    }

    fn walk(&mut self) {
        let (rank, steps) = (self.rank(), self.random.below(200) as usize);
        let ranks = rank..rank + steps;
        assert!(self.left.ascending(ranks.clone()).eq(self.right.ascending(ranks.clone())));
        assert!(self.left.descending(ranks.clone()).eq(self.right.descending(ranks)));
    }

    fn score_bound(&mut self) -> ScoreBound {
        let rank = self.rank();
        let score = match self.random.below(8) {
            0 => f64::NEG_INFINITY,
            1 => f64::INFINITY,
            _ => self.right.at(rank).map(|(_, score)| score).unwrap_or_else(|| self.score()),
        };
        if self.random.below(2) == 0 { ScoreBound::Inclusive(score) } else { ScoreBound::Exclusive(score) }
    }

    fn score_range(&mut self) {
        let (min, max) = (self.score_bound(), self.score_bound());
        let (left, right) = (self.left.score_range(min, max), self.right.score_range(min, max));
        assert_same_range(left, right, &format!("scores {min:?} to {max:?}"));
        let wanted = self.random.below(20) as usize;
        let starts =
            [self.left.score_range_start(min, max, wanted), self.right.score_range_start(min, max, wanted)];
        let [left, right] = starts.map(|range| range.start..range.end.min(range.start + wanted));
        assert_same_range(left, right, &format!("{wanted} scores {min:?} to {max:?}"));
    }

    /// A present member or one close to it, and the kind of bound to make of it.
    fn lex_end(&mut self) -> (Vec<u8>, u64) {
        let rank = self.rank();
        let there = self.right.at(rank).map(|(member, _)| member.to_vec());
        let mut member = there.unwrap_or_else(|| self.member());
        match self.random.below(6) {
            0 => member.push(0),
            1 => member.push(0xff),
            2 => _ = member.pop(),
            _ => {}
        }
        (member, self.random.below(5))
    }

    fn lex_range(&mut self) {
        let (min, max) = (self.lex_end(), self.lex_end());
        let (min, max) = (lex_bound(&min), lex_bound(&max));
        let (left, right) = (self.left.lex_range(min, max), self.right.lex_range(min, max));
        assert_same_range(left, right, &format!("members {min:?} to {max:?}"));
    }

    /// A whole scan of the left set, with changes in between: members that stay must be visited.
    fn scan(&mut self) {
        let mut stays: BTreeMap<Vec<u8>, bool> =
            self.right.ascending(ALL_RANKS).map(|(member, _)| (member.to_vec(), false)).collect();
        let mut cursor = 0;
        let mut calls = 0;
        loop {
            cursor = self.left.scan(cursor, 16, &mut |member, _| {
                if let Some(seen) = stays.get_mut(member) {
                    *seen = true;
                }
            });
            if cursor == 0 {
                break;
            }
            calls += 1;
            if calls % 4 == 0 {
                self.insert();
                self.update();
                self.remove();
                stays.retain(|member, seen| *seen || self.right.score(member).is_some());
            }
        }
        let missed: Vec<_> = stays.iter().filter(|(_, seen)| !**seen).collect();
        assert!(missed.is_empty(), "the scan missed {missed:?}");
    }

    fn compare_whole(&self) {
        assert_eq!(self.left.len(), self.right.len());
        self.left.check();
        assert!(self.left.ascending(ALL_RANKS).eq(self.right.ascending(ALL_RANKS)), "ascending");
        assert!(self.left.descending(ALL_RANKS).eq(self.right.descending(ALL_RANKS)), "descending");
    }

    /// One random operation; insertions outweigh removals while the set is below `target`.
    fn step(&mut self, target: usize) {
        let growing = self.right.len() < target;
        match self.random.below(100) {
            0..40 if growing => self.insert(),
            0..40 => self.remove(),
            40..50 => self.insert(),
            50..58 => self.remove(),
            58..72 => self.update(),
            72..86 => self.look_up(),
            86..90 => self.score_range(),
            90..94 if self.has_equal_scores() => self.lex_range(),
            90..97 => self.walk(),
            97 if self.random.below(3) == 0 => self.remove_range(),
            98 => self.pop(),
            _ => {}
        }
        assert_eq!(self.left.len(), self.right.len());
    }

    /// Insertions in ascending, descending or random order of the members' numbers, until `size` is reached.
    fn fill(&mut self, size: usize) {
        let (first, order) = (self.random.below(self.profile.members), self.random.below(3));
        for i in 0..self.profile.members {
            if self.right.len() >= size {
                break;
            }
            let number = match order {
                0 => (first + i) % self.profile.members,
                1 => (first + self.profile.members - i) % self.profile.members,
                _ => self.random.below(self.profile.members),
            };
            let (member, score) = ((self.profile.member)(number), self.score());
            assert_eq!(self.left.insert(&member, score), self.right.insert(&member, score));
        }
    }

    /// Loads sorted members at once, one in a hundred of them out of order.
    fn load_sorted(&mut self, size: usize) {
        let mut model = SortedModel::default();
        for _ in 0..size {
            let (member, score) = (self.member(), self.score());
            model.insert(&member, score).expect("sizes are small");
        }
        let mut sorted: Vec<_> = model.ascending(ALL_RANKS).collect();
        for _ in 0..sorted.len() / 100 {
            let (a, b) = (self.random.below(sorted.len() as u64), self.random.below(sorted.len() as u64));
            sorted.swap(a as usize, b as usize);
        }
        assert_eq!(self.left.load_sorted(sorted.iter().copied()), Ok(()));
        assert_eq!(self.right.load_sorted(sorted.iter().copied()), Ok(()));
        self.compare_whole();
    }

    /// Returns whether lex ranges are meaningful.
    fn has_equal_scores(&self) -> bool {
        let last = self.right.len().wrapping_sub(1);
        self.right.at(0).map(|(_, score)| score) == self.right.at(last).map(|(_, score)| score)
    }
}

fn lex_bound((member, kind): &(Vec<u8>, u64)) -> LexBound<'_> {
    match kind {
        0 => LexBound::Min,
        1 => LexBound::Max,
        2 | 3 => LexBound::Inclusive(member),
        _ => LexBound::Exclusive(member),
    }
}

/// Empty ranges are equal, whatever their position.
fn assert_same_range(left: std::ops::Range<usize>, right: std::ops::Range<usize>, what: &str) {
    assert!(left == right || (left.is_empty() && right.is_empty()), "{what}: {left:?} and {right:?}");
}

/// Runs all profiles on new pairs. Sizes alternate between empty and full, so that structures gain every
/// level they have and lose it again.
fn mirror<A: OrderedSet, B: OrderedSet>(
    left: impl Fn(HashSeed) -> A,
    right: impl Fn(HashSeed) -> B,
    run: u64,
) {
    let steps = scaled(if cfg!(miri) { 100 } else { 40_000 });
    let phase = (steps / 6).clamp(1, 8_000);
    for (number, profile) in PROFILES.iter().enumerate() {
        let seed = run * 1_000 + number as u64;
        let hash_seed = HashSeed::new(seed, !seed);
        let mut whereabouts = Whereabouts { profile: profile.name, seed, step: 0 };
        let mut pair =
            Mirror { left: left(hash_seed), right: right(hash_seed), profile, random: Random::new(seed) };
        let (mut target, mut until_check) = (0, 0);
        for step in 0..steps {
            whereabouts.step = step;
            if step % phase == 0 {
                let whole = profile.members as usize;
                target = [whole * 3 / 4, 30, whole / 4, 0, whole, 5][step / phase % 6];
                if pair.right.is_empty() && pair.random.below(2) == 0 {
                    pair.load_sorted(target / 2);
                }
                pair.fill(target / 2);
                pair.scan();
            }
            pair.step(target);
            if until_check == 0 {
                pair.compare_whole();
                until_check = pair.right.len() / 2;
            } else {
                until_check -= 1;
            }
        }
        pair.compare_whole();
        pair.scan();
    }
}

fn skip_list(seed: HashSeed) -> SkipList {
    SkipList::new(seed, seed.k0)
}

fn model(_: HashSeed) -> SortedModel {
    SortedModel::default()
}

fn fbtree(seed: HashSeed) -> FbTree {
    FbTree::new(seed)
}

#[test]
fn skip_list_against_the_model() {
    mirror(skip_list, model, 1);
}

#[test]
fn fbtree_against_the_model() {
    mirror(fbtree, model, 2);
}

#[test]
fn fbtree_against_the_skip_list() {
    mirror(fbtree, skip_list, 3);
}
