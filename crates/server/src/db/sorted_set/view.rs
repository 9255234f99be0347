//! A read-only view of a sorted set, embedded or not.

use super::compact::{self, Compact};
use super::ordered::Scored;
use super::{LexBound, ScoreBound};
use crate::db::object::StringValue;
use std::ops::Range;
use structures::ordered_set::{OrderedSet, fbtree::FbTree, skip_list::SkipList};
use structures::random::{Random, SelectionSample};
use structures::record::ranking::RankingView;

/// Random members looked up together.
const DRAWN_TOGETHER: usize = 16;
/// For more than this share of a set, all members are scanned once, each taken with the probability that makes all
/// choices equally likely: cheaper than finding that number by rank.
const WALKED_SHARE: usize = 8;

/// A read-only view of a sorted set.
#[derive(Clone, Copy)]
pub struct SortedSetView<'a> {
    pub(super) encoding: Encoding<'a>,
}

/// The encodings of [`super::Encoding`].
#[derive(Clone, Copy)]
pub(super) enum Encoding<'a> {
    Record(RankingView<'a>),
    Compact(&'a Compact),
    Tree(&'a FbTree),
    SkipList(&'a SkipList),
}

/// Runs the same code on either large encoding.
macro_rules! large {
    ($encoding:expr, $record:ident => $tiny:expr, $compact:ident => $small:expr, $set:ident => $work:expr) => {
        match $encoding {
            Encoding::Record($record) => $tiny,
            Encoding::Compact($compact) => $small,
            Encoding::Tree($set) => $work,
            Encoding::SkipList($set) => $work,
        }
    };
}

/// The members of a record from a rank on, with their scores.
#[inline]
fn pairs(record: RankingView<'_>, rank: usize) -> impl Iterator<Item = Scored<'_>> {
    record.iter_from(rank).map(|(member, score)| (member.into(), score))
}

impl<'a> SortedSetView<'a> {
    /// Where the set is: views of one key's set have the same address, of different keys different ones.
    pub fn address(&self) -> *const () {
        match self.encoding {
            Encoding::Record(record) => record.address().cast(),
            Encoding::Compact(list) => std::ptr::from_ref(list).cast(),
            Encoding::Tree(set) => std::ptr::from_ref(set).cast(),
            Encoding::SkipList(set) => std::ptr::from_ref(set).cast(),
        }
    }

    /// Number of members.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        large!(self.encoding, record => record.len(), list => list.len(), set => set.len())
    }

    /// Whether all members lie side by side.
    pub fn is_compact(&self) -> bool {
        matches!(self.encoding, Encoding::Record(_) | Encoding::Compact(_))
    }

    /// The member's score.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        large!(
            self.encoding,
            record => record.find(member).map(|place| place.score),
            list => list.score(member),
            set => set.score(member)
        )
    }

    /// Passes the score of each member, in turn, to `visit`.
    pub fn scores(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        large!(self.encoding, record => members.iter().for_each(|member| {
            visit(record.find(member).map(|place| place.score));
        }), list => members.iter().for_each(|member| visit(list.score(member))), set => {
            set.scores(members, visit)
        })
    }

    /// The member's rank, from 0 at the lowest score, and its score.
    #[inline]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        large!(
            self.encoding,
            record => record.find(member).map(|place| (place.rank, place.score)),
            list => list.rank(member),
            set => set.rank(member)
        )
    }

    /// The ranks of the scores within both bounds.
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let range = large!(
            self.encoding,
            record => record.below(min)..record.up_to(max),
            list => list.score_range(min, max),
            set => set.score_range(min, max)
        );
        range.start..range.end.max(range.start)
    }

    /// As [`SortedSetView::score_range`], for callers that need only the first `wanted` of these ranks.
    pub fn score_range_start(&self, min: ScoreBound, max: ScoreBound, wanted: usize) -> Range<usize> {
        let range = large!(self.encoding, record => record.below(min)..record.up_to(max), list => {
            list.score_range(min, max)
        }, set => {
            set.score_range_start(min, max, wanted)
        });
        range.start..range.end.max(range.start)
    }

    /// The ranks of the members within both bounds, where all scores are equal.
    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let range = large!(
            self.encoding,
            record => compact::lex_range(pairs(record, 0), record.len(), min, max),
            list => list.lex_range(min, max),
            set => set.lex_range(min, max)
        );
        range.start..range.end.max(range.start)
    }

    /// Visits the ranks in `range`, upwards or downwards, until `visit` returns `false`.
    pub fn for_range(
        &self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        large!(self.encoding, record => {
            let range = range.start..range.end.min(record.len());
            if reverse {
                record.descending(range, |member, score| visit(member.into(), score));
            } else {
                record.ascending(range, |member, score| visit(member.into(), score));
            }
        }, list => list.for_range(range, reverse, visit), set => {
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

    /// As [`SortedSetView::for_range`], of all ranks, without scores.
    pub fn for_members(&self, range: Range<usize>, reverse: bool, visit: &mut dyn FnMut(StringValue<'a>)) {
        if range.len() == 1 && !self.is_compact() {
            let member =
                large!(self.encoding, _record => None, _list => None, set => set.member_at(range.start));
            return member.into_iter().for_each(|member| visit(StringValue::Bytes(member)));
        }
        self.for_range(range, reverse, &mut |member, _| {
            visit(member);
            true
        });
    }

    /// Visits the members whose scores lie within the first bounds, then those within the next, and so on, upwards, until
    /// `visit` returns `false`.
    pub fn for_score_ranges(
        &self,
        ranges: &[(ScoreBound, ScoreBound)],
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        match self.encoding {
            Encoding::Record(record) => {
                return compact::for_score_ranges(pairs(record, 0).collect(), ranges, visit);
            }
            Encoding::Compact(list) => return list.for_score_ranges(ranges, visit),
            Encoding::Tree(_) | Encoding::SkipList(_) => {}
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

    /// Visits some members and returns the next cursor, 0 at the end; a compact set is visited whole.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(StringValue<'a>, f64)) -> u64 {
        large!(self.encoding, record => {
            pairs(record, 0).for_each(|(member, score)| visit(member, score));
            0
        }, list => {
            list.for_range(0..list.len(), false, &mut |member, score| { visit(member, score); true });
            0
        }, set => set.scan(cursor, wanted, &mut |member, score| visit(StringValue::Bytes(member), score)))
    }

    /// Visits `wanted` members drawn one by one, possibly the same more than once, until `visit` returns `false`.
    pub fn random_each(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if self.len() == 0 {
            return;
        }
        large!(self.encoding, record => {
            if wanted == 1 {
                let rank = random.index(record.len());
                return self.for_range(rank..rank + 1, false, visit);
            }
            compact::random_each(&pairs(record, 0).collect::<Vec<_>>(), wanted, random, visit);
        }, list => list.random_each(wanted, random, visit), set => {
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
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if self.is_compact() || wanted > self.len() / WALKED_SHARE {
            let mut sample = SelectionSample::new(self.len() as u64, wanted as u64);
            self.for_range(0..self.len(), false, &mut |member, score| {
                !sample.is_complete() && (!sample.takes(random) || visit(member, score))
            });
            return;
        }
        let ranks = distinct_ranks(self.len(), wanted, random);
        large!(self.encoding, _record => {}, _list => {}, set => {
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
