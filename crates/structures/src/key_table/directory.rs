//! The buckets' memory: chunks of a fixed number of buckets, so that a table grows without being copied.
//!
//! Invariants:
//! 1. A chunk is absent (a null pointer) or an owned allocation of `capacity` initialised buckets.
//! 2. Only the last chunk may have a capacity below [`CHUNK_BUCKETS`]: the directory ends with the table.
//! 3. `expiring` counts the entries with a time to live in the chunk's buckets, their overflow included.
//! 4. A stretch of buckets with such an entry is in its chunk's `stretches`. A stretch that had one may be too, until the
//!    search for expired keys clears it ([`Directory::forget_stretch`]) or the chunk has none left.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#the-table-of-keys).

use super::bucket::Bucket;
use super::expiring_counts::ExpiringCounts;
use crate::work;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;

/// 16 KiB: small enough that a half-migrated table wastes little, large enough that the directory of a table of 5M keys (52
/// KiB) stays in the second-level cache.
pub(super) const CHUNK_BUCKETS: usize = if cfg!(miri) { 8 } else { 256 };

/// Buckets of a stretch: a part of a chunk that the search for expired keys visits together.
pub(super) const STRETCH_BUCKETS: usize = CHUNK_BUCKETS / STRETCHES;
const STRETCHES: usize = if cfg!(miri) { 4 } else { 16 };

struct Chunk {
    buckets: *mut Bucket,
    capacity: u16,
    /// A bit for each stretch.
    stretches: u16,
    expiring: u32,
}

const _: () = assert!(size_of::<Chunk>() == 16 && STRETCHES <= u16::BITS as usize);

impl Chunk {
    const ABSENT: Chunk = Chunk { buckets: std::ptr::null_mut(), capacity: 0, stretches: 0, expiring: 0 };

    /// Resizes the chunk to `capacity` buckets; buckets cut off must be empty.
    fn resize(&mut self, capacity: usize) {
        let new = u16::try_from(capacity).expect("a chunk has at most 256 buckets");
        let old = usize::from(std::mem::replace(&mut self.capacity, new));
        if STRETCH_BUCKETS * STRETCHES > capacity {
            let kept = u32::MAX >> (u32::BITS as usize - capacity.div_ceil(STRETCH_BUCKETS));
            self.stretches &= kept as u16;
        }
        let from = self.buckets;
        let layout = chunk_layout(capacity);
        // SAFETY: invariant 1: `capacity` is never 0 here. All zero bits are empty slots.
        self.buckets = unsafe { alloc_zeroed(layout) }.cast();
        if self.buckets.is_null() {
            handle_alloc_error(layout);
        }
        if !from.is_null() {
            // SAFETY: invariant 1 for the old allocation, and the new one is distinct from it.
            unsafe {
                from.copy_to_nonoverlapping(self.buckets, old.min(capacity));
                dealloc(from.cast(), chunk_layout(old));
            }
        }
    }

    fn free(&mut self) {
        if !self.buckets.is_null() {
            debug_assert!(self.expiring == 0);
            // SAFETY: invariant 1; the chunk is absent afterwards.
            unsafe { dealloc(self.buckets.cast(), chunk_layout(usize::from(self.capacity))) };
            *self = Chunk::ABSENT;
        }
    }
}

fn chunk_layout(capacity: usize) -> Layout {
    Layout::array::<Bucket>(capacity).expect("a chunk is at most 16 KiB")
}

/// The bit of the stretch with this bucket, within its chunk.
#[inline]
fn stretch_bit(bucket: usize) -> u16 {
    1 << (bucket % CHUNK_BUCKETS / STRETCH_BUCKETS)
}

pub(super) struct Directory {
    chunks: Vec<Chunk>,
    expiring: ExpiringCounts,
    /// Number of buckets up to the end of the table.
    end: usize,
    bytes: usize,
}

impl Directory {
    pub(super) const fn new() -> Directory {
        Directory { chunks: Vec::new(), expiring: ExpiringCounts::new(), end: 0, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.chunks.capacity() * size_of::<Chunk>() + self.expiring.bytes()
    }

    /// The address of a bucket, for prefetching and reading. The bucket's chunk must be allocated.
    #[inline]
    pub(super) fn address(&self, bucket: usize) -> *mut Bucket {
        let chunk = &self.chunks[bucket / CHUNK_BUCKETS];
        debug_assert!(bucket % CHUNK_BUCKETS < usize::from(chunk.capacity));
        chunk.buckets.wrapping_add(bucket % CHUNK_BUCKETS)
    }

    #[inline]
    pub(super) fn bucket(&self, bucket: usize) -> &Bucket {
        // SAFETY: the table only accesses buckets for which it has called `ensure`, and not `release` (invariant 4 of the
        // table), so the chunk is allocated and holds the bucket.
        unsafe { &*self.address(bucket) }
    }

    #[inline]
    pub(super) fn bucket_mut(&mut self, bucket: usize) -> &mut Bucket {
        // SAFETY: invariant 1, as in `bucket`; the directory owns the chunk and is borrowed mutably.
        unsafe { &mut *self.address(bucket) }
    }

    /// Makes the directory end at `end` buckets. The buckets beyond must be empty.
    pub(super) fn set_end(&mut self, end: usize) {
        let old_end = std::mem::replace(&mut self.end, end);
        let count = end.div_ceil(CHUNK_BUCKETS);
        while self.chunks.len() > count {
            let mut chunk = self.chunks.pop().expect("longer than count");
            self.bytes -= usize::from(chunk.capacity) * size_of::<Bucket>();
            chunk.free();
        }
        if self.chunks.capacity() > 2 * count {
            self.chunks.shrink_to(count);
        }
        if self.chunks.len() < count {
            self.chunks.reserve_exact(count - self.chunks.len());
            self.chunks.resize_with(count, || Chunk::ABSENT);
        }
        let chunks = &self.chunks;
        self.expiring.resize(count, |at| chunks[at].expiring.into());
        // The chunk in which the table ended or now ends changes its capacity.
        let partial = old_end.min(end) / CHUNK_BUCKETS;
        if self.chunks.get(partial).is_some_and(|chunk| !chunk.buckets.is_null()) {
            let capacity = self.capacity(partial);
            let chunk = &mut self.chunks[partial];
            if usize::from(chunk.capacity) != capacity {
                self.bytes = self.bytes - usize::from(chunk.capacity) * size_of::<Bucket>()
                    + capacity * size_of::<Bucket>();
                chunk.resize(capacity);
            }
        }
    }

    #[inline]
    fn capacity(&self, chunk: usize) -> usize {
        CHUNK_BUCKETS.min(self.end - chunk * CHUNK_BUCKETS)
    }

    /// Allocates the chunks that hold these buckets, where they are absent.
    #[inline]
    pub(super) fn ensure(&mut self, buckets: Range<usize>) {
        for at in buckets.start / CHUNK_BUCKETS..buckets.end.div_ceil(CHUNK_BUCKETS) {
            if self.chunks[at].buckets.is_null() {
                let capacity = self.capacity(at);
                self.chunks[at].resize(capacity);
                self.bytes += capacity * size_of::<Bucket>();
            }
        }
    }

    /// Frees the chunks around `touched` that lie wholly within `unused`, whose buckets are empty.
    #[inline]
    pub(super) fn release(&mut self, unused: Range<usize>, touched: Range<usize>) {
        let last = touched.end.div_ceil(CHUNK_BUCKETS).min(self.chunks.len());
        for at in touched.start / CHUNK_BUCKETS..last {
            let start = at * CHUNK_BUCKETS;
            let chunk = &mut self.chunks[at];
            let capacity = usize::from(chunk.capacity);
            if capacity > 0 && unused.start <= start && start + capacity <= unused.end {
                self.bytes -= capacity * size_of::<Bucket>();
                chunk.free();
            }
        }
    }

    /// Adds `change` to the counts of entries with a time to live.
    #[inline]
    pub(super) fn count_expiring(&mut self, bucket: usize, change: i32) {
        let at = bucket / CHUNK_BUCKETS;
        let chunk = &mut self.chunks[at];
        chunk.expiring = chunk.expiring.wrapping_add_signed(change);
        if change > 0 {
            chunk.stretches |= stretch_bit(bucket);
        } else if chunk.expiring == 0 {
            chunk.stretches = 0;
        }
        self.expiring.add(at, change);
    }

    /// The first bucket, from `bucket` on, of the next stretch that may have an entry with a time to live; `bucket` may be
    /// within that stretch. May return an unused bucket.
    pub(super) fn next_stretch(&self, bucket: usize) -> Option<usize> {
        let at = bucket / CHUNK_BUCKETS;
        let chunk = self.chunks.get(at)?;
        work::visited(1);
        if chunk.expiring > 0 {
            let after = chunk.stretches & !(stretch_bit(bucket) - 1);
            if after != 0 {
                return Some(
                    bucket.max(at * CHUNK_BUCKETS + after.trailing_zeros() as usize * STRETCH_BUCKETS),
                );
            }
        }
        let next = self.expiring.next_from(at + 1, self.chunks.len(), |at| self.expiring_in(at))?;
        let first = self.chunks[next].stretches.trailing_zeros() as usize;
        Some(next * CHUNK_BUCKETS + first * STRETCH_BUCKETS)
    }

    /// Marks the stretch of `bucket` as having no entry with a time to live.
    pub(super) fn forget_stretch(&mut self, bucket: usize) {
        self.chunks[bucket / CHUNK_BUCKETS].stretches &= !stretch_bit(bucket);
    }

    /// The buckets of the chunk with the `n`-th such entry, and that entry's rank within the chunk.
    pub(super) fn chunk_of_expiring(&self, n: usize) -> Option<(Range<usize>, usize)> {
        let (at, rank) = self.expiring.find(n as u64, self.chunks.len(), |at| self.expiring_in(at))?;
        let start = at * CHUNK_BUCKETS;
        Some((start..start + self.chunks[at].capacity as usize, rank as usize))
    }

    fn expiring_in(&self, chunk: usize) -> u64 {
        self.chunks[chunk].expiring.into()
    }

    /// Verifies invariant 3 with a function that counts a bucket's entries with a time to live.
    pub(super) fn check_expiring(&self, count: impl Fn(usize) -> usize) {
        for (at, chunk) in self.chunks.iter().enumerate() {
            let start = at * CHUNK_BUCKETS;
            let expiring: usize = (start..start + usize::from(chunk.capacity)).map(&count).sum();
            assert_eq!(expiring, chunk.expiring as usize, "expiring entries of chunk {at}");
            for bucket in start..start + usize::from(chunk.capacity) {
                assert!(
                    count(bucket) == 0 || chunk.stretches & stretch_bit(bucket) != 0,
                    "stretch of {bucket}"
                );
            }
        }
        self.expiring.check(self.chunks.len(), |at| self.expiring_in(at));
    }

    /// Returns whether the bucket's chunk is allocated, for `check`.
    pub(super) fn is_present(&self, bucket: usize) -> bool {
        self.chunks
            .get(bucket / CHUNK_BUCKETS)
            .is_some_and(|chunk| bucket % CHUNK_BUCKETS < usize::from(chunk.capacity))
    }

    /// Verifies the invariants that do not concern entries.
    pub(super) fn check(&self) {
        assert_eq!(self.chunks.len(), self.end.div_ceil(CHUNK_BUCKETS));
        let mut bytes = 0;
        for (at, chunk) in self.chunks.iter().enumerate() {
            assert_eq!(chunk.buckets.is_null(), chunk.capacity == 0);
            assert!(
                chunk.capacity == 0 || usize::from(chunk.capacity) == self.capacity(at),
                "capacity of chunk {at}"
            );
            bytes += usize::from(chunk.capacity) * size_of::<Bucket>();
        }
        assert_eq!(bytes, self.bytes);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            chunk.expiring = 0;
            chunk.free();
        }
    }
}
