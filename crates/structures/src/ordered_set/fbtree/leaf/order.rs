//! Search by score and member, in the order of the slots: invariants 2 and 5 of [`super`].

use super::super::frame_of_reference::Decoder;
use super::super::key::Key;
use super::{Leaf, LongMembers};
use crate::byte_compare::{Column, Simd};
use std::ops::Range;

/// The position of a key, or where it would be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// The first slot not below the key.
    pub slot: usize,
    /// Whether the slot has this very key.
    pub exact: bool,
}

/// The column of scores, prepared for reading many of them.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    /// The page from the column on.
    column: &'a [u8],
    decoder: Decoder,
}

impl Scores<'_> {
    #[inline(always)]
    pub(super) fn delta(&self, slot: usize) -> u64 {
        self.decoder.delta(self.column, slot)
    }

    /// The number of slots of `range` whose deltas do not pass; those that pass follow those that do not. Independent
    /// compares in rounds, without branches on the results.
    #[inline]
    fn count_failing(&self, range: Range<usize>, passes: impl Fn(u64) -> bool) -> usize {
        let failing = |at: usize| usize::from(!passes(self.delta(at)));
        let Range { mut start, mut end } = range;
        for step in STEPS {
            // A loop: the sum of an iterator became a call.
            let mut whole = 0;
            for nth in 0..(end - start) / step {
                whole += failing(start + step * nth + step - 1);
            }
            start += step * whole;
            end = end.min(start + step);
        }
        start - range.start
    }
}

/// The number of the first `count` deltas below `least`. A separate function, as the caller would have too few registers.
#[inline(never)]
fn deltas_below(column: &[u8], decoder: Decoder, count: usize, least: u64) -> usize {
    Scores { column, decoder }.count_failing(0..count, |delta| delta >= least)
}

/// Strides of the rounds: each round reads the last of this number of slots; the first touches every line of the column,
/// which may be cold.
const STEPS: [usize; 3] = [16, 4, 1];

impl Leaf {
    /// Compares the slot's key with `key`. Reads the record only where scores are equal.
    #[inline]
    pub fn compare(&self, slot: usize, key: &Key<'_>, longs: &LongMembers) -> std::cmp::Ordering {
        self.score(slot).cmp(&key.score).then_with(|| self.compare_member(slot, key, longs))
    }

    /// Kept out of `compare`, which is small without it.
    #[inline(never)]
    fn compare_member(&self, slot: usize, key: &Key<'_>, longs: &LongMembers) -> std::cmp::Ordering {
        self.member(slot, longs).cmp(key.member)
    }

    /// The number of members with scores below each of these (ordered bits).
    #[inline]
    pub fn count_below<const N: usize>(&self, simd: Simd, scores: [u64; N]) -> [usize; N] {
        let deltas = scores.map(|score| self.code.least_delta(score));
        let bytes = &self.page[self.scores_at()..];
        let column = Column { bytes, width: self.code.width(), count: self.count() };
        simd.count_below(&column, deltas).unwrap_or_else(|| self.count_deltas_below(deltas))
    }

    /// The number of slots with deltas below each of these.
    #[inline(never)]
    fn count_deltas_below<const N: usize>(&self, deltas: [u64; N]) -> [usize; N] {
        let scores = self.scores();
        deltas.map(|least| scores.count_failing(0..self.count(), |delta| delta >= least))
    }

    /// The first slot not below `key`, or `count`.
    pub fn lower_bound(&self, key: &Key<'_>, longs: &LongMembers) -> Found {
        let Some((delta, exact)) = self.code.lower_bound(key.score) else {
            return Found { slot: self.count(), exact: false };
        };
        let scores = self.scores();
        let first = deltas_below(scores.column, scores.decoder, self.count(), delta);
        if !exact || first == self.count() || scores.delta(first) != delta {
            return Found { slot: first, exact: false };
        }
        // No member is below the empty one, which marks the start of a range of scores.
        if key.member.is_empty() {
            return Found { slot: first, exact: self.member(first, longs).is_empty() };
        }
        let next = first + 1;
        let mut range = first..match next < self.count() && scores.delta(next) == delta {
            true => next + scores.count_failing(next..self.count(), |d| d > delta),
            false => next,
        };
        while !range.is_empty() {
            let middle = range.start + range.len() / 2;
            match self.member(middle, longs).cmp(key.member) {
                std::cmp::Ordering::Less => range.start = middle + 1,
                std::cmp::Ordering::Equal => return Found { slot: middle, exact: true },
                std::cmp::Ordering::Greater => range.end = middle,
            }
        }
        Found { slot: range.start, exact: false }
    }

    /// The slot for a new key, where it is likely to be the first or behind the last.
    pub fn place_for(&self, key: &Key<'_>, longs: &LongMembers) -> usize {
        let Some(last) = self.count().checked_sub(1) else { return 0 };
        match self.code.lower_bound(key.score) {
            None => self.count(),
            Some((delta, _)) if delta > self.scores().delta(last) => self.count(),
            Some((delta, false)) if delta <= self.scores().delta(0) => 0,
            Some((delta, true)) if delta < self.scores().delta(0) => 0,
            Some(_) => self.lower_bound(key, longs).slot,
        }
    }

    #[inline]
    pub(super) fn scores(&self) -> Scores<'_> {
        Scores { column: &self.page[self.scores_at()..], decoder: self.code.decoder() }
    }
}
