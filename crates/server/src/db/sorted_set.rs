//! Sorted sets: members in order of their scores. A compact list while small; beyond, a feature B+ tree or (by
//! `zset-index skiplist`) a skip list.

mod compact;
mod rdb;
mod value_type;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::object::StringValue;
use compact::Compact;
use std::ops::Range;
use structures::hash::HashSeed;
use structures::ordered_set::{ALL_RANKS, OrderedSet, ScoreProbe, fbtree::FbTree, skip_list::SkipList};
pub use structures::ordered_set::{Full, Insertion, LexBound, ScoreBound};
use structures::random::Random;
use structures::unaligned_box::UnalignedBox;

pub struct SortedSet {
    encoding: Encoding,
}

enum Encoding {
    Compact(Compact),
    Tree(UnalignedBox<FbTree>),
    SkipList(UnalignedBox<SkipList>),
}

/// Does the same with whichever large encoding there is.
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

/// A lookup of a member, taken apart at its cache misses.
pub struct Probe<'a> {
    set: &'a SortedSet,
    member: &'a [u8],
    probe: ScoreProbe,
}

impl Probe<'_> {
    /// Asks for the next line; whether there are more.
    #[inline]
    pub fn step(&mut self) -> bool {
        large!(&self.set.encoding, _ => false, set => set.probe_step(&mut self.probe, self.member))
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
            Encoding::Tree(set) => {
                let mut copy = FbTree::new(set.seed());
                copy.load_sorted(set.ascending(ALL_RANKS)).expect("a copy is no larger");
                Encoding::Tree(UnalignedBox::new(copy))
            }
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
    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        SortedSet { encoding: Encoding::Compact(Compact::default()) }
    }
}

impl SortedSet {
    #[inline]
    pub fn len(&self) -> usize {
        large!(&self.encoding, list => list.len(), set => set.len())
    }

    /// So small that all members stand side by side.
    pub fn is_compact(&self) -> bool {
        matches!(self.encoding, Encoding::Compact(_))
    }

    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        large!(&self.encoding, list => list.score(member), set => set.score(member))
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
        if let Encoding::Compact(list) = &mut self.encoding {
            let limits = context.limits;
            let there = list.score(member);
            let grows = there.is_none()
                && (list.len() >= limits.sorted_set_listpack_entries_max
                    || member.len() > limits.sorted_set_listpack_value_bytes_max
                    || !list.has_room_for(member));
            if !grows {
                return Ok(list.insert(member, score, there));
            }
            self.enlarge(context);
        }
        large!(&mut self.encoding, _ => unreachable!("enlarged above"), set => set.insert(member, score))
    }

    /// So many members, the longest of this length, are about to be added: what would be too much for the compact encoding
    /// ends it at once, even where the set has some of them already. Filling that encoding first costs five times the
    /// whole.
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

    /// The ranks whose scores lie within both bounds.
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let range =
            large!(&self.encoding, list => list.score_range(min, max), set => set.score_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// The ranks whose members lie within both bounds, where all scores are equal.
    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let range = large!(&self.encoding, list => list.lex_range(min, max), set => set.lex_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// Visits the ranks in `range`, upwards or downwards, until `visit` says stop (`false`).
    pub fn for_range(
        &self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'_>, f64) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        large!(&self.encoding, list => list.for_range(range, reverse, visit), set => {
            let mut visit = |(member, score)| visit(StringValue::Bytes(member), score);
            if reverse {
                set.descending(range).all(&mut visit);
            } else {
                set.ascending(range).all(&mut visit);
            }
        });
    }

    /// Removes the ranks in `range`, handing each to `removed` in ascending order; returns how many.
    pub fn remove_range(
        &mut self,
        range: Range<usize>,
        removed: &mut dyn FnMut(StringValue<'_>, f64),
    ) -> usize {
        large!(&mut self.encoding, list => list.remove_range(range, removed), set => {
            set.remove_range(range, &mut |member, score| removed(StringValue::Bytes(member), score))
        })
    }

    /// Visits some members and returns the next cursor, 0 at the end; a compact set is visited whole.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(StringValue<'_>, f64)) -> u64 {
        large!(&self.encoding, list => {
            list.for_range(0..list.len(), false, &mut |member, score| { visit(member, score); true });
            0
        }, set => set.scan(cursor, wanted, &mut |member, score| visit(StringValue::Bytes(member), score)))
    }

    /// One member, each as likely as any other, handed to `visit`.
    pub fn random(&self, random: &mut Random, visit: &mut dyn FnMut(StringValue<'_>, f64)) {
        if self.len() == 0 {
            return;
        }
        let rank = random.below(self.len() as u64) as usize;
        self.for_range(rank..rank + 1, false, &mut |member, score| {
            visit(member, score);
            true
        });
    }
}
