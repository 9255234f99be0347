//! Counts of the entries with a time to live in each part of the table: a tree of sums that finds one of them without
//! reading all chunks. Unlike a Fenwick tree, each number is a whole sum, of 64 below it.
//!
//! ```text
//!  level 1        [ sum of 64 stretches | ... ]
//!  level 0        [ sum of 64 chunks | ... ]
//!  directory      [ chunk | chunk | ... ]              each with its own count
//! ```
//! A change adds to one number per level; a table of six million keys has one level and one of 400 million two. A
//! search reads at most 64 numbers per level.
//!
//! Invariant: each number is the sum of the up to 64 numbers below it; a level exists exactly if the one below it has more
//! than 64 numbers.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#the-table-of-keys).

use crate::work;
use std::ops::Range;

const FAN_OUT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct ExpiringCounts {
    levels: Vec<Vec<u64>>,
}

impl ExpiringCounts {
    pub(super) const fn new() -> Self {
        ExpiringCounts { levels: Vec::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        let sums: usize = self.levels.iter().map(|sums| sums.capacity() * size_of::<u64>()).sum();
        self.levels.capacity() * size_of::<Vec<u64>>() + sums
    }

    /// Adapts the levels to a new number of chunks, counted by `count`. Removed chunks are empty.
    pub(super) fn resize(&mut self, chunks: usize, count: impl Fn(usize) -> u64) {
        let mut below = chunks;
        let mut level = 0;
        while below > FAN_OUT {
            let len = below.div_ceil(FAN_OUT);
            if level == self.levels.len() {
                let sums = self.sums_below(level, below, &count);
                self.levels.push(sums);
            }
            let sums = &mut self.levels[level];
            sums.resize(len, 0);
            if sums.capacity() > 2 * len {
                sums.shrink_to(len);
            }
            (below, level) = (len, level + 1);
        }
        self.levels.truncate(level);
    }

    /// The sums of a new level over `below` numbers of the level beneath it.
    fn sums_below(&self, level: usize, below: usize, count: &impl Fn(usize) -> u64) -> Vec<u64> {
        let of = |at| if level == 0 { count(at) } else { self.levels[level - 1][at] };
        let starts = (0..below).step_by(FAN_OUT);
        starts.map(|start| (start..(start + FAN_OUT).min(below)).map(of).sum()).collect()
    }

    #[inline]
    pub(super) fn add(&mut self, chunk: usize, change: i32) {
        let mut at = chunk;
        for sums in &mut self.levels {
            at /= FAN_OUT;
            sums[at] = sums[at].wrapping_add_signed(change.into());
        }
    }

    /// The chunk of the `n`-th entry, and that entry's rank in it.
    pub(super) fn find(&self, n: u64, chunks: usize, count: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        let (mut at, mut rank) = (0, n);
        for level in (0..=self.levels.len()).rev() {
            let (len, of): (usize, &dyn Fn(usize) -> u64) = match level {
                0 => (chunks, &count),
                _ => (self.levels[level - 1].len(), &|at| self.levels[level - 1][at]),
            };
            let (start, is_top) = (at * FAN_OUT, level == self.levels.len());
            let end = if is_top { len } else { (start + FAN_OUT).min(len) };
            at = (start..end).find(|&at| {
                let here = of(at);
                let found = rank < here;
                rank -= if found { 0 } else { here };
                found
            })?;
        }
        Some((at, rank))
    }

    /// The first chunk from `chunk` on that has such an entry.
    pub(super) fn next_from(
        &self,
        chunk: usize,
        chunks: usize,
        count: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let of = |level: usize, at: usize| if level == 0 { count(at) } else { self.levels[level - 1][at] };
        let len = |level: usize| if level == 0 { chunks } else { self.levels[level - 1].len() };
        let first = |level: usize, mut range: Range<usize>| {
            work::visited(1);
            range.find(|&at| of(level, at) > 0)
        };
        // Up until a later sibling is not empty, then down into the first that is not.
        let (mut at, mut level) = (chunk, 0);
        let mut found = loop {
            let end = if level == self.levels.len() {
                len(level)
            } else {
                at.next_multiple_of(FAN_OUT).min(len(level))
            };
            match first(level, at..end) {
                Some(found) => break found,
                None if level == self.levels.len() => return None,
                None => (at, level) = (at.div_ceil(FAN_OUT), level + 1),
            }
        };
        while level > 0 {
            level -= 1;
            let start = found * FAN_OUT;
            found = first(level, start..(start + FAN_OUT).min(len(level))).expect("their sum is not 0");
        }
        Some(found)
    }

    /// Verifies the invariant.
    pub(super) fn check(&self, chunks: usize, count: impl Fn(usize) -> u64) {
        let mut below = chunks;
        for (level, sums) in self.levels.iter().enumerate() {
            assert!(below > FAN_OUT, "level {level} is needed");
            assert_eq!(*sums, self.sums_below(level, below, &count), "level {level}");
            below = sums.len();
        }
        assert!(below <= FAN_OUT, "another level is needed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_nth_entry_is_where_adding_up_says() {
        let mut random = Random::new(7);
        let mut counts = vec![];
        let mut tree = ExpiringCounts::new();
        for chunks in [1, 64, 65, 5000, 4097, 4096, 4095, 300_000, 65, 64, 2, 0] {
            let chunks = if cfg!(miri) { chunks / 10 } else { chunks };
            while counts.len() > chunks {
                let at = counts.len() - 1;
                tree.add(at, -(counts[at] as i32));
                counts.pop();
            }
            tree.resize(chunks, |at| *counts.get(at).unwrap_or(&0));
            counts.resize(chunks, 0);
            for _ in 0..200.min(chunks * 10) {
                let at = random.below(chunks as u64) as usize;
                let count = random.below(100);
                tree.add(at, count as i32 - counts[at] as i32);
                counts[at] = count;
            }
            tree.check(chunks, |at| counts[at]);
            let total: u64 = counts.iter().sum();
            assert_eq!(tree.find(total, chunks, |at| counts[at]), None);
            for _ in 0..50.min(total) {
                let n = random.below(total);
                let (chunk, rank) = tree.find(n, chunks, |at| counts[at]).expect("n is below the total");
                let before: u64 = counts[..chunk].iter().sum();
                assert!(before + rank == n && rank < counts[chunk]);
                let from = random.below(chunks as u64 + 1) as usize;
                let next = (from..chunks).find(|&at| counts[at] > 0);
                assert_eq!(tree.next_from(from, chunks, |at| counts[at]), next);
            }
        }
    }
}
