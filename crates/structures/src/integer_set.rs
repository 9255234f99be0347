//! A set of signed 64-bit integers in ascending order: a sorted array, then compressed pages after the idea of Roaring
//! bitmaps. Unlike those, pages are divided by the number of their values, not by the values' upper bits.
//!
//! ```text
//!  small (512 at most): SortedIntegers ──> | width u32 | count u32 | value | value | ...   sorted.rs
//!  large:               IntegerPages   ──> groups of pages of at most 512 values           pages.rs
//!                                          page: a run, packed offsets, or a bitmap        page.rs
//! ```
//!
//! Invariants: those of the two forms; a set that became large stays large.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#sets-of-integers).

pub mod cursor;
mod page;
mod pages;
mod sorted;
#[cfg(test)]
mod tests;

pub use pages::{IntegerFigures, IntegerPages};
pub use sorted::{Invalid, SortedIntegers};

use crate::random::{Random, SelectionSample};
use crate::unaligned_box::UnalignedBox;
use std::collections::HashSet;

/// A small set becomes large when it would exceed this many values.
pub const SMALL_MAX: usize = 512;

/// A set of integers. See the [module](self) for its forms.
#[derive(Clone)]
pub enum IntegerSet {
    /// At most [`SMALL_MAX`] values, in one sorted array.
    Small(SortedIntegers),
    /// Any number of values, in pages.
    Large(UnalignedBox<IntegerPages>),
}

impl std::fmt::Debug for IntegerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl IntegerSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        IntegerSet::Small(SortedIntegers::new())
    }

    /// Creates a set of `values`, which must ascend strictly.
    pub fn from_sorted(values: &[i64]) -> Self {
        if values.len() <= SMALL_MAX {
            IntegerSet::Small(SortedIntegers::from_sorted(values))
        } else {
            IntegerSet::Large(UnalignedBox::new(IntegerPages::from_sorted(values)))
        }
    }

    /// Creates a set of the untrusted integer set of an RDB file or a DUMP payload, of any size.
    pub fn validate(bytes: &[u8]) -> Result<Self, Invalid> {
        let sorted = SortedIntegers::validate(bytes)?;
        if sorted.len() <= SMALL_MAX {
            return Ok(IntegerSet::Small(sorted));
        }
        Ok(IntegerSet::from_sorted(&sorted.iter().collect::<Vec<_>>()))
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        match self {
            IntegerSet::Small(set) => set.len() as u64,
            IntegerSet::Large(set) => set.len(),
        }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `value`; returns false if it was in the set.
    pub fn insert(&mut self, value: i64) -> bool {
        let small = match self {
            IntegerSet::Large(set) => return set.insert(value),
            IntegerSet::Small(set) if set.len() < SMALL_MAX => return set.insert(value),
            IntegerSet::Small(set) => set,
        };
        if small.contains(value) {
            return false;
        }
        let mut large = IntegerPages::from_sorted(&small.iter().collect::<Vec<_>>());
        large.insert(value);
        *self = IntegerSet::Large(UnalignedBox::new(large));
        true
    }

    /// Removes `value`; returns false if it was not in the set.
    pub fn remove(&mut self, value: i64) -> bool {
        match self {
            IntegerSet::Small(set) => set.remove(value),
            IntegerSet::Large(set) => set.remove(value),
        }
    }

    /// Returns whether `value` is in the set.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        match self {
            IntegerSet::Small(set) => set.contains(value),
            IntegerSet::Large(set) => set.contains(value),
        }
    }

    /// Prefetches what a lookup of `value` reads next, one fetch a step: called with step 0, 1, ... while the fetches of
    /// the previous step are under way; returns false when no step is left.
    pub fn prefetch(&self, value: i64, step: u32) -> bool {
        match self {
            IntegerSet::Small(set) => {
                set.prefetch();
                false
            }
            IntegerSet::Large(set) => match step {
                0 => {
                    crate::prefetch::prefetch(&raw const **set);
                    true
                }
                _ => set.prefetch(value, step - 1),
            },
        }
    }

    /// The value with `rank` smaller ones. A random rank gives a uniformly random value.
    pub fn at(&self, rank: u64) -> Option<i64> {
        match self {
            IntegerSet::Small(set) => set.at(usize::try_from(rank).ok()?),
            IntegerSet::Large(set) => set.at(rank),
        }
    }

    /// Iterates over the values in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        match self {
            IntegerSet::Small(set) => Iter::Small { set, index: 0 },
            IntegerSet::Large(set) => Iter::Large(set.iter()),
        }
    }

    /// A value drawn uniformly; none if the set is empty.
    pub fn random(&self, random: &mut Random) -> Option<i64> {
        match self {
            IntegerSet::Small(set) if set.is_empty() => None,
            IntegerSet::Small(set) => set.at(random.below(set.len() as u64) as usize),
            IntegerSet::Large(set) => set.random(random),
        }
    }

    /// Visits `wanted` different values, every choice equally likely; all if there are no more. Takes time proportional
    /// to `wanted`, in a small set to its size.
    pub fn random_distinct(&self, wanted: u64, random: &mut Random, mut visit: impl FnMut(i64)) {
        if let IntegerSet::Large(set) = self
            && wanted <= set.len() / 4
        {
            let mut seen = HashSet::with_capacity(wanted as usize);
            while (seen.len() as u64) < wanted {
                let Some(value) = set.random(random) else { return };
                if seen.insert(value) {
                    visit(value);
                }
            }
            return;
        }
        let mut sample = SelectionSample::new(self.len(), wanted);
        for value in self.iter() {
            if sample.is_complete() {
                return;
            }
            if sample.takes(random) {
                visit(value);
            }
        }
    }

    /// One step of a scan: passes `count` values to `read`, up to three more where no [`cursor`] lies between, and
    /// returns the cursor of the next step, 0 at the end. Start with 0. A value that stays in the set throughout is
    /// visited exactly once, whatever else changes, because the cursor is a position among all integers.
    pub fn scan(&self, cursor: u64, count: usize, mut read: impl FnMut(i64)) -> u64 {
        let mut iter = self.iter();
        iter.seek(cursor::bound(cursor));
        let mut handed = 0;
        let mut last = i64::MIN;
        for value in iter {
            if handed >= count.max(1)
                && let Some(cursor) = cursor::between(last, value)
            {
                return cursor;
            }
            read(value);
            (handed, last) = (handed + 1, value);
        }
        0
    }

    /// Allocated bytes, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        match self {
            IntegerSet::Small(set) => set.memory_bytes(),
            IntegerSet::Large(set) => {
                crate::size_class::usable_size(size_of::<IntegerPages>()) + set.memory_bytes()
            }
        }
    }

    /// The set in the format of RDB and DUMP.
    pub fn to_sorted(&self) -> SortedIntegers {
        match self {
            IntegerSet::Small(set) => set.clone(),
            IntegerSet::Large(set) => SortedIntegers::from_sorted(&set.iter().collect::<Vec<_>>()),
        }
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        match self {
            IntegerSet::Small(set) => {
                set.check();
                assert!(set.len() <= SMALL_MAX);
            }
            IntegerSet::Large(set) => set.check(),
        }
    }
}

impl Default for IntegerSet {
    fn default() -> Self {
        IntegerSet::new()
    }
}

/// An iterator over the values in ascending order.
#[derive(Clone)]
pub enum Iter<'a> {
    /// Over the array of a small set.
    Small {
        /// The set.
        set: &'a SortedIntegers,
        /// Index of the next value; the number of values at the end.
        index: usize,
    },
    /// Over the pages of a large set.
    Large(pages::Iter<'a>),
}

impl Iter<'_> {
    /// Skips all values below `value`. Never goes back.
    pub fn seek(&mut self, value: i64) {
        match self {
            Iter::Small { set, index } => *index = (*index).max(set.rank(value)),
            Iter::Large(iter) => iter.seek(value),
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        match self {
            Iter::Small { set, index } => {
                let value = set.at(*index)?;
                *index += 1;
                Some(value)
            }
            Iter::Large(iter) => iter.next(),
        }
    }
}
