//! Sorted sets: members ordered by score. A compact list while small; beyond, a feature B+ tree or (with `zset-index
//! skiplist`) a skip list.

mod compact;
pub mod ordered;
mod rdb;
mod value_type;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::object::StringValue;
use compact::Compact;
use std::ops::Range;
use structures::hash::HashSeed;
use structures::listpack::Position;
use structures::ordered_set::{ALL_RANKS, OrderedSet, ScoreProbe, fbtree::FbTree, skip_list::SkipList};
pub use structures::ordered_set::{Full, Insertion, LexBound, ScoreBound};
use structures::random::Random;
use structures::unaligned_box::UnalignedBox;

/// Random members looked up together.
const DRAWN_TOGETHER: usize = 16;
/// For more than this share of a set, all members are scanned once, each taken with the probability that makes all
/// choices equally likely: cheaper than finding that number by rank.
const WALKED_SHARE: usize = 8;

/// The value of a sorted set key.
pub struct SortedSet {
    encoding: Encoding,
}

enum Encoding {
    Compact(Compact),
    Tree(UnalignedBox<FbTree>),
    SkipList(UnalignedBox<SkipList>),
}

/// Runs the same code on either large encoding.
macro_rules! large {
    ($encoding:expr, $compact:pat => $small:expr, $set:ident => $work:expr) => {
        match $encoding {
            Encoding::Compact($compact) => $small,
            Encoding::Tree($set) => $work,
            Encoding::SkipList($set) => $work,
        }
    };
}

use large;

/// A lookup of a member, split at its cache misses.
pub struct Probe<'a> {
    set: &'a SortedSet,
    probe: ScoreProbe,
}

impl Probe<'_> {
    /// Prefetches the next line; returns whether there are more.
    #[inline]
    pub fn step(&mut self) -> bool {
        large!(&self.set.encoding, _ => false, set => set.probe_step(&mut self.probe))
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SortedSet of {}", self.len())
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> Self {
        let encoding = match &self.encoding {
            Encoding::Compact(list) => Encoding::Compact(list.clone()),
            Encoding::Tree(set) => Encoding::Tree(UnalignedBox::new(FbTree::clone(set))),
            Encoding::SkipList(set) => {
                let mut copy = SkipList::new(set.seed(), set.len() as u64);
                copy.load_sorted(set.ascending(ALL_RANKS)).expect("a copy is no larger");
                Encoding::SkipList(UnalignedBox::new(copy))
            }
        };
        SortedSet { encoding }
    }
}

impl Collection for SortedSet {
    type View<'a> = &'a SortedSet;

    #[inline]
    fn view(&self) -> &SortedSet {
        self
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        SortedSet { encoding: Encoding::Compact(Compact::default()) }
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect(self.len(), 0, context);
    }
}

impl SortedSet {
    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        large!(&self.encoding, list => list.len(), set => set.len())
    }

    /// Whether all members lie side by side.
    pub fn is_compact(&self) -> bool {
        matches!(self.encoding, Encoding::Compact(_))
    }

    /// The member's score.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        large!(&self.encoding, list => list.score(member), set => set.score(member))
    }

    /// Passes the score of each member, in turn, to `visit`.
    pub fn scores(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        large!(&self.encoding, list => members.iter().for_each(|member| visit(list.score(member))), set => {
            set.scores(members, visit)
        })
    }

    /// The member's rank, from 0 at the lowest score, and its score.
    #[inline]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        large!(&self.encoding, list => list.rank(member), set => set.rank(member))
    }

    /// Adds the member or moves it to `score`, which must be a number.
    #[inline]
    pub fn insert(
        &mut self,
        member: &[u8],
        score: f64,
        context: &CollectionContext<'_>,
    ) -> Result<Insertion, Full> {
        if let Encoding::Compact(list) = &self.encoding {
            let there = list.find(member);
            return self.insert_compact(member, score, there, context);
        }
        large!(&mut self.encoding, _ => unreachable!("looked at above"), set => set.insert(member, score))
    }

    /// Adds or moves the member to the score that `wanted` computes from its current one, if any: one search.
    pub fn insert_if(
        &mut self,
        member: &[u8],
        context: &CollectionContext<'_>,
        wanted: &mut dyn FnMut(Option<f64>) -> Option<f64>,
    ) -> Result<Option<Insertion>, Full> {
        if let Encoding::Compact(list) = &self.encoding {
            let there = list.find(member);
            let score = wanted(there.map(|(_, score)| score));
            return score.map(|score| self.insert_compact(member, score, there, context)).transpose();
        }
        large!(
            &mut self.encoding,
            _ => unreachable!("looked at above"),
            set => set.insert_if(member, wanted)
        )
    }

    /// Inserts into a compact set; `there` is the member's current entry.
    #[inline]
    fn insert_compact(
        &mut self,
        member: &[u8],
        score: f64,
        there: Option<(Position, f64)>,
        context: &CollectionContext<'_>,
    ) -> Result<Insertion, Full> {
        if let Encoding::Compact(list) = &mut self.encoding {
            let limits = context.limits;
            // A score may be longer than the one it replaces.
            let grows = !list.has_room_for(member)
                || there.is_none()
                    && (list.len() >= limits.sorted_set_listpack_entries_max
                        || member.len() > limits.sorted_set_listpack_value_bytes_max);
            if !grows {
                return Ok(list.insert(member, score, there));
            }
            self.enlarge(context);
        }
        large!(&mut self.encoding, _ => unreachable!("enlarged above"), set => set.insert(member, score))
    }

    /// Prepares for adding `members` members, the longest of `longest_bytes` bytes: if they exceed the compact encoding
    /// it is converted at once, even if the set has some of them already. Filling the compact encoding first costs five
    /// times the whole.
    pub fn expect(&mut self, members: usize, longest_bytes: usize, context: &CollectionContext<'_>) {
        let limits = context.limits;
        if members > limits.sorted_set_listpack_entries_max
            || longest_bytes > limits.sorted_set_listpack_value_bytes_max
        {
            self.enlarge(context);
        }
    }

    fn enlarge(&mut self, context: &CollectionContext<'_>) {
        let Encoding::Compact(list) = &self.encoding else { return };
        let mut members: Vec<(Vec<u8>, f64)> = Vec::with_capacity(list.len());
        list.for_range(0..list.len(), false, &mut |member, score| {
            members.push((member.to_vec(), score));
            true
        });
        let sorted = members.iter().map(|(member, score)| (member.as_slice(), *score));
        self.encoding = if context.limits.sorted_set_skip_list {
            let mut set = SkipList::new(context.seed, context.seed.k1 ^ context.now_ms as u64);
            set.load_sorted(sorted).expect("a compact set is small");
            Encoding::SkipList(UnalignedBox::new(set))
        } else {
            let mut set = FbTree::new(context.seed);
            set.load_sorted(sorted).expect("a compact set is small");
            Encoding::Tree(UnalignedBox::new(set))
        };
    }

    /// Removes the member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        large!(&mut self.encoding, list => list.remove(member), set => set.remove(member))
    }

    /// The ranks of the scores within both bounds.
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let range =
            large!(&self.encoding, list => list.score_range(min, max), set => set.score_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// As [`SortedSet::score_range`], for callers that need only the first `wanted` of these ranks.
    pub fn score_range_start(&self, min: ScoreBound, max: ScoreBound, wanted: usize) -> Range<usize> {
        let range = large!(&self.encoding, list => list.score_range(min, max), set => {
            set.score_range_start(min, max, wanted)
        });
        range.start..range.end.max(range.start)
    }

    /// The ranks of the members within both bounds, where all scores are equal.
    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let range = large!(&self.encoding, list => list.lex_range(min, max), set => set.lex_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// Visits the ranks in `range`, upwards or downwards, until `visit` returns `false`.
    pub fn for_range<'a>(
        &'a self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        large!(&self.encoding, list => list.for_range(range, reverse, visit), set => {
            if range.len() == 1 {
                // An iteration costs more to start.
                if let Some((member, score)) = set.at(range.start) {
                    visit(StringValue::Bytes(member), score);
                }
                return;
            }
            let mut visit = |(member, score)| visit(StringValue::Bytes(member), score);
            if reverse {
                set.descending(range).all(&mut visit);
            } else {
                set.ascending(range).all(&mut visit);
            }
        });
    }

    /// As [`SortedSet::for_range`], of all ranks, without scores.
    pub fn for_members<'a>(
        &'a self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'a>),
    ) {
        if range.len() == 1 && !self.is_compact() {
            let member = large!(&self.encoding, _ => None, set => set.member_at(range.start));
            return member.into_iter().for_each(|member| visit(StringValue::Bytes(member)));
        }
        self.for_range(range, reverse, &mut |member, _| {
            visit(member);
            true
        });
    }

    /// Visits the members whose scores lie within the first bounds, then those within the next, and so on, upwards, until
    /// `visit` returns `false`.
    pub fn for_score_ranges<'a>(
        &'a self,
        ranges: &[(ScoreBound, ScoreBound)],
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if let Encoding::Compact(list) = &self.encoding {
            return list.for_score_ranges(ranges, visit);
        }
        let mut goes_on = true;
        for &(min, max) in ranges {
            self.for_range(self.score_range(min, max), false, &mut |member, score| {
                goes_on = visit(member, score);
                goes_on
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Removes the ranks in `range`, passing each to `removed` in ascending order; returns how many.
    pub fn remove_range(
        &mut self,
        range: Range<usize>,
        removed: &mut dyn FnMut(StringValue<'_>, f64),
    ) -> usize {
        large!(&mut self.encoding, list => {
            list.for_range(range.clone(), false, &mut |member, score| { removed(member, score); true });
            list.drop_range(range)
        }, set => {
            set.remove_range(range, &mut |member, score| removed(StringValue::Bytes(member), score))
        })
    }

    /// As [`SortedSet::remove_range`], without passing them on.
    pub fn drop_range(&mut self, range: Range<usize>) -> usize {
        large!(&mut self.encoding, list => list.drop_range(range), set => set.drop_range(range))
    }

    /// Visits some members and returns the next cursor, 0 at the end; a compact set is visited whole.
    pub fn scan<'a>(
        &'a self,
        cursor: u64,
        wanted: usize,
        visit: &mut dyn FnMut(StringValue<'a>, f64),
    ) -> u64 {
        large!(&self.encoding, list => {
            list.for_range(0..list.len(), false, &mut |member, score| { visit(member, score); true });
            0
        }, set => set.scan(cursor, wanted, &mut |member, score| visit(StringValue::Bytes(member), score)))
    }

    /// Visits `wanted` members drawn one by one, possibly the same more than once, until `visit` returns `false`.
    pub fn random_each<'a>(
        &'a self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if self.len() == 0 {
            return;
        }
        large!(&self.encoding, list => list.random_each(wanted, random, visit), set => {
            let (mut left, mut goes_on) = (wanted, true);
            while left > 0 && goes_on {
                let mut ranks = [0; DRAWN_TOGETHER];
                let ranks = &mut ranks[..left.min(DRAWN_TOGETHER)];
                ranks.iter_mut().for_each(|rank| *rank = random.index(set.len()));
                set.at_each(ranks, &mut |member, score| {
                    goes_on = visit(StringValue::Bytes(member), score);
                    goes_on
                });
                left -= ranks.len();
            }
        });
    }

    /// Visits `wanted` distinct members (all, if there are fewer), each choice equally likely, until `visit` returns
    /// `false`.
    pub fn random_distinct<'a>(
        &'a self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if self.is_compact() || wanted > self.len() / WALKED_SHARE {
            // Knuth, volume 2, algorithm S.
            let (mut left, mut wanted) = (self.len() as u64, wanted.min(self.len()) as u64);
            self.for_range(0..self.len(), false, &mut |member, score| {
                let goes_on = wanted > 0
                    && (random.below(left) >= wanted || {
                        wanted -= 1;
                        visit(member, score)
                    });
                left -= 1;
                goes_on
            });
            return;
        }
        let ranks = distinct_ranks(self.len(), wanted, random);
        large!(&self.encoding, _ => unreachable!("a compact set is walked"), set => {
            set.at_each(&ranks, &mut |member, score| visit(StringValue::Bytes(member), score))
        });
    }
}

/// `wanted` distinct ranks below `len`, which is several times `wanted`, in order; each choice equally likely. All ranks
/// drawn count, so no choice is favoured.
fn distinct_ranks(len: usize, wanted: usize, random: &mut Random) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(wanted);
    while ranks.len() < wanted {
        ranks.extend((ranks.len()..wanted).map(|_| random.index(len)));
        ranks.sort_unstable();
        ranks.dedup();
    }
    ranks
}
