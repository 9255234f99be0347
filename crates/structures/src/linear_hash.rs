//! Linear hashing: maps hashes to the parts of a table that grows and shrinks by one part at any size.
//!
//! With `n` parts and `2^depth <= n < 2^(depth+1)`, a hash belongs to the part numbered by its lowest `depth + 1` bits if
//! there is one, else by its lowest `depth`. Growing by one splits part `n - 2^depth`, shrinking merges the last part
//! back.
//!
//! ```text
//!  n = 6:   0    1    2    3    4    5         part 0 was split into 0 and 4, part 1 into 1 and 5;
//!          000  001   10   11  100  101        2 and 3 still await their turn (depth 2)
//! ```
//!
//! A *position* is a hash with its bits reversed. In this order each part covers one interval, a split halves it, and a
//! merge joins two halves, so a position passed by a scan stays passed at any size.
//!
//! The table of keys grows differently ([`crate::key_table`]): a quarter of a part at a time, in the order of hashes.

/// Without parts, only [`LinearHash::parts`] may be called; other methods panic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearHash {
    parts: usize,
    /// The lowest `depth + 1` bits; the lowest `depth` when no part is split; 0 when there are fewer than two parts.
    mask: usize,
}

impl LinearHash {
    #[inline]
    pub(crate) const fn new(parts: usize) -> LinearHash {
        LinearHash { parts, mask: parts.next_power_of_two() - 1 }
    }

    #[inline(always)]
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// The part of `hash`; there must be at least one part.
    #[inline(always)]
    pub(crate) fn index(&self, hash: u64) -> usize {
        let wide = hash as usize & self.mask;
        if wide < self.parts { wide } else { wide & (self.mask >> 1) }
    }

    /// The depth of the parts that the present round has not split; there must be at least one part.
    #[inline]
    fn depth(&self) -> u32 {
        self.parts.ilog2()
    }

    /// The number of parts that the present round has split: parts `0..split_count`, whose other halves are
    /// `2^depth..parts`.
    #[inline]
    pub(crate) fn split_count(&self) -> usize {
        self.parts - (1 << self.depth())
    }

    /// Returns whether the present round has split the part, or created it.
    #[inline]
    pub(crate) fn is_split(&self, index: usize) -> bool {
        index < self.split_count() || index >= 1 << self.depth()
    }

    /// The number of a hash's lowest bits that select the part.
    #[inline]
    pub(crate) fn depth_of(&self, index: usize) -> u32 {
        self.depth() + u32::from(self.is_split(index))
    }

    /// The part that the next added part is split from, and the hash bit that divides its elements.
    #[inline]
    pub(crate) fn next_split(&self) -> (usize, u64) {
        (self.split_count(), 1 << self.depth())
    }

    /// The part that the last part was split from.
    #[inline]
    pub(crate) fn last_split_from(&self) -> usize {
        assert!(self.parts > 1, "the only part was not split from another");
        let last = self.parts - 1;
        last - (1 << last.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    #[should_panic(expected = "logarithm")]
    fn of_no_parts_none_is_split() {
        LinearHash::new(0).split_count();
    }

    #[test]
    fn growing_moves_what_has_the_bit_and_nothing_else() {
        let mut random = Random::new(1);
        let hashes: Vec<u64> = (0..200).map(|_| random.next_u64()).collect();
        for parts in 1..if cfg!(miri) { 20 } else { 300 } {
            let (small, large) = (LinearHash::new(parts), LinearHash::new(parts + 1));
            let (from, bit) = small.next_split();
            assert_eq!(large.last_split_from(), from);
            for &hash in &hashes {
                let (before, after) = (small.index(hash), large.index(hash));
                assert!(before < parts);
                let moves = before == from && hash & bit != 0;
                assert_eq!(after, if moves { parts } else { before });
                assert_eq!(hash as usize & ((1 << small.depth_of(before)) - 1), before);
            }
            let depths = (0..parts).map(|index| 2f64.powi(-(small.depth_of(index) as i32)));
            assert_eq!(depths.sum::<f64>(), 1.0, "the parts' intervals cover every position once");
        }
    }
}
