//! The member index's array of buckets, in segments: adding or removing one never copies more than a segment.

use crate::size_class::usable_size;
use std::ops::{Index, IndexMut};

const SEGMENT_BITS: u32 = 8;
const SEGMENT: usize = 1 << SEGMENT_BITS;

pub(super) struct Buckets<B> {
    /// All but the last are full and have no spare capacity, and none is empty.
    segments: Vec<Vec<B>>,
    len: usize,
}

impl<B> Buckets<B> {
    pub(super) const fn new() -> Self {
        Buckets { segments: Vec::new(), len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &B> {
        self.segments.iter().flatten()
    }

    /// Appends a bucket; the capacity grows by an eighth.
    pub(super) fn push(&mut self, bucket: B) {
        if self.len >> SEGMENT_BITS == self.segments.len() {
            if self.segments.is_empty() {
                self.segments.reserve_exact(1);
            }
            self.segments.push(Vec::new());
        }
        let wanted = (self.len / 8).max(1);
        let segment = self.segments.last_mut().expect("pushed above");
        if segment.len() == segment.capacity() {
            segment.reserve_exact(wanted.min(SEGMENT - segment.len()));
        }
        segment.push(bucket);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<B> {
        let segment = self.segments.last_mut()?;
        let bucket = segment.pop();
        self.len -= 1;
        if segment.is_empty() {
            self.segments.pop();
            if self.segments.is_empty() || self.segments.len() < self.segments.capacity() / 4 {
                self.segments.shrink_to(2 * self.segments.len());
            }
        } else if segment.len() < segment.capacity() / 2 {
            segment.shrink_to(segment.len() + segment.len() / 8);
        }
        bucket
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let last = self.segments.last().map_or(0, Vec::capacity);
        self.segments.len().saturating_sub(1) * usable_size(SEGMENT * size_of::<B>())
            + usable_size(last * size_of::<B>())
            + usable_size(self.segments.capacity() * size_of::<Vec<B>>())
    }

    /// Panics unless segments are as documented.
    pub(super) fn check(&self) {
        let Some((last, full)) = self.segments.split_last() else { return };
        assert!(!last.is_empty());
        assert!(full.iter().all(|segment| (segment.len(), segment.capacity()) == (SEGMENT, SEGMENT)));
    }
}

impl<B> Index<usize> for Buckets<B> {
    type Output = B;
    #[inline]
    fn index(&self, at: usize) -> &B {
        &self.segments[at >> SEGMENT_BITS][at & (SEGMENT - 1)]
    }
}

impl<B> IndexMut<usize> for Buckets<B> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut B {
        &mut self.segments[at >> SEGMENT_BITS][at & (SEGMENT - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_segments_come_and_go() {
        let mut buckets = Buckets::new();
        let count = 3 * SEGMENT + 7;
        for number in 0..count {
            buckets.push(number as u64);
            assert_eq!((buckets.len(), buckets[number / 2]), (number + 1, (number / 2) as u64));
            buckets.check();
        }
        assert!(buckets.iter().copied().eq(0..count as u64));
        for number in (0..count).rev() {
            assert_eq!(buckets.pop(), Some(number as u64));
            buckets.check();
        }
        assert_eq!((buckets.pop(), buckets.memory_bytes()), (None, 0));
    }
}
