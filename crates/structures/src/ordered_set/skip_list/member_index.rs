//! A hash table from a member's hash to its node, grown and shrunk one bucket at a time (linear hashing,
//! Litwin 1980), so that no insertion pays for a whole table and cursors stay valid at any size.
//!
//! ```text
//!  bucket, one cache line: | 6 entries of 8 bytes | 6 tags | .. | chain: overflow bucket + 1, 0 when none |
//! ```
//!
//! Linear hashing ([`LinearHash`]) maps a hash to its bucket. Adding a bucket splits one bucket only.
//!
//! A scan visits hashes in the order of their *reversed* bits. In that order each bucket holds one contiguous
//! interval, whatever the number of buckets, so a cursor that is a (reversed) position keeps SCAN's
//! guarantee.
//!
//! Invariants, verified by `check`:
//! 1. Each entry is in the chain of its hash's bucket, beside its tag, the hash's highest byte.
//! 2. In a chain all buckets but the last are full, and only the first may be empty.
//! 3. Each overflow bucket is in one chain or in the free list.
//! 4. There is at least one bucket; `len` entries, at most `LOAD_MAX_HALVES / 2` per bucket.

use super::buckets::Buckets;
use crate::linear_hash::LinearHash;
use crate::work;

const ENTRIES_A_BUCKET: usize = 6;
/// Average entries a bucket, in halves, above which a bucket is added. Simulated, overflow buckets counted:
/// 17.2 bytes an entry at 4.5 with every fifth bucket overflowing, 15.6 at 5.5 with every third, 14.7 at 6.5
/// with every second.
const LOAD_MAX_HALVES: usize = 11;
/// Average entries a bucket, in halves, below which one is removed: far from the maximum, so that alternating
/// insertions and removals do not split and merge repeatedly.
const LOAD_MIN_HALVES: usize = 5;

#[derive(Clone)]
#[repr(C, align(64))]
struct Bucket<T> {
    entries: [Option<T>; ENTRIES_A_BUCKET],
    tags: [u8; ENTRIES_A_BUCKET],
    /// The next overflow bucket of the chain, plus 1; 0 at the end.
    chain: u32,
}

const _: () = assert!(size_of::<Bucket<std::ptr::NonNull<u8>>>() == 64);

impl<T: Copy> Bucket<T> {
    const EMPTY: Self = Bucket { entries: [None; ENTRIES_A_BUCKET], tags: [0; ENTRIES_A_BUCKET], chain: 0 };

    fn used(&self) -> usize {
        self.entries.iter().take_while(|entry| entry.is_some()).count()
    }
}

/// See the module's documentation. `T` identifies a node.
pub struct MemberIndex<T> {
    buckets: Buckets<Bucket<T>>,
    overflow: Buckets<Bucket<T>>,
    /// First free overflow bucket plus 1, chained; 0 when none.
    free: u32,
    len: usize,
}

#[inline]
fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

impl<T: Copy> MemberIndex<T> {
    /// Creates an empty table.
    pub fn new() -> Self {
        let mut buckets = Buckets::new();
        buckets.push(Bucket::EMPTY);
        MemberIndex { buckets, overflow: Buckets::new(), free: 0, len: 0 }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn shape(&self) -> LinearHash {
        LinearHash::new(self.buckets.len())
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> usize {
        self.shape().index(hash)
    }

    /// The entry with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(T) -> bool) -> Option<T> {
        let tag = tag(hash);
        let mut bucket = &self.buckets[self.bucket_of(hash)];
        loop {
            work::visited(1);
            for (entry, &entry_tag) in bucket.entries.iter().zip(&bucket.tags) {
                match *entry {
                    Some(entry) if entry_tag == tag && is_it(entry) => return Some(entry),
                    Some(_) => {}
                    None => return None,
                }
            }
            if bucket.chain == 0 {
                return None;
            }
            bucket = &self.overflow[bucket.chain as usize - 1];
        }
    }

    /// Adds an entry that is not in the table. `hash_of` returns the hash of an entry; it is called for some
    /// when a bucket splits.
    pub fn insert(&mut self, hash: u64, entry: T, hash_of: impl FnMut(T) -> u64) {
        self.push(self.bucket_of(hash), entry, tag(hash));
        self.len += 1;
        if self.len * 2 > self.buckets.len() * LOAD_MAX_HALVES {
            self.grow(hash_of);
        }
    }

    /// Removes the entry with this hash for which `is_it` holds.
    pub fn remove(&mut self, hash: u64, mut is_it: impl FnMut(T) -> bool) -> Option<T> {
        let tag = tag(hash);
        let (mut link, mut slot);
        let mut found = None;
        let first = self.bucket_of(hash);
        link = 0;
        loop {
            let bucket = self.bucket(first, link);
            slot = (0..bucket.used())
                .find(|&i| bucket.tags[i] == tag && bucket.entries[i].is_some_and(&mut is_it));
            if let Some(slot) = slot {
                found = bucket.entries[slot].map(|entry| (slot, entry));
            }
            if found.is_some() || bucket.chain == 0 {
                break;
            }
            link = bucket.chain;
        }
        let (slot, entry) = found?;
        let (last, last_tag) = self.pop(first).expect("the chain holds the entry found");
        // The last entry of the chain fills the hole, unless it was the hole itself.
        let bucket = self.bucket_mut(first, link);
        if bucket.entries[slot].is_some() {
            bucket.entries[slot] = Some(last);
            bucket.tags[slot] = last_tag;
        }
        self.len -= 1;
        if self.buckets.len() > 1 && self.len * 2 < self.buckets.len() * LOAD_MIN_HALVES {
            self.shrink();
        }
        Some(entry)
    }

    /// The address of the first line that a lookup reads.
    pub fn address(&self, hash: u64) -> *const u8 {
        (&raw const self.buckets[self.bucket_of(hash)]).cast()
    }

    /// Entries of the first bucket that may have this hash.
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = T> + '_ {
        let bucket = &self.buckets[self.bucket_of(hash)];
        let matching = bucket.entries.iter().zip(&bucket.tags).filter(move |(_, own)| **own == tag(hash));
        matching.filter_map(|(entry, _)| *entry)
    }

    /// Visits one bucket and returns the next cursor, 0 at the end. Any cursor is accepted.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(T)) -> u64 {
        let at = self.bucket_of(cursor);
        let mask: u64 = (1 << self.shape().depth_of(at)) - 1;
        let mut bucket = &self.buckets[at];
        loop {
            bucket.entries.iter().flatten().for_each(|&entry| visit(entry));
            if bucket.chain == 0 {
                break;
            }
            bucket = &self.overflow[bucket.chain as usize - 1];
        }
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// Bytes allocated for the table.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes() + self.overflow.memory_bytes()
    }

    /// Bucket `first`, or the overflow bucket `link - 1` of its chain.
    fn bucket(&self, first: usize, link: u32) -> &Bucket<T> {
        if link == 0 { &self.buckets[first] } else { &self.overflow[link as usize - 1] }
    }

    fn bucket_mut(&mut self, first: usize, link: u32) -> &mut Bucket<T> {
        if link == 0 { &mut self.buckets[first] } else { &mut self.overflow[link as usize - 1] }
    }

    /// Appends to a chain.
    fn push(&mut self, first: usize, entry: T, tag: u8) {
        let mut link = 0;
        while self.bucket(first, link).chain != 0 {
            link = self.bucket(first, link).chain;
        }
        let mut used = self.bucket(first, link).used();
        if used == ENTRIES_A_BUCKET {
            let fresh = self.overflow_bucket();
            self.bucket_mut(first, link).chain = fresh;
            (link, used) = (fresh, 0);
        }
        let bucket = self.bucket_mut(first, link);
        bucket.entries[used] = Some(entry);
        bucket.tags[used] = tag;
    }

    /// Removes the last entry of a chain, and an overflow bucket that this empties.
    fn pop(&mut self, first: usize) -> Option<(T, u8)> {
        work::visited(1);
        let (mut before, mut link) = (0, 0);
        while self.bucket(first, link).chain != 0 {
            (before, link) = (link, self.bucket(first, link).chain);
        }
        let bucket = if link == 0 { &mut self.buckets[first] } else { &mut self.overflow[link as usize - 1] };
        let last = bucket.used().checked_sub(1)?;
        let entry = bucket.entries[last].take()?;
        let tag = bucket.tags[last];
        if last == 0 && link != 0 {
            bucket.chain = std::mem::replace(&mut self.free, link);
            self.bucket_mut(first, before).chain = 0;
        }
        Some((entry, tag))
    }

    /// The number of an empty overflow bucket, plus 1.
    fn overflow_bucket(&mut self) -> u32 {
        if self.free != 0 {
            let link = self.free;
            self.free = std::mem::take(&mut self.overflow[link as usize - 1].chain);
            return link;
        }
        self.overflow.push(Bucket::EMPTY);
        u32::try_from(self.overflow.len()).expect("2^32 members fill fewer overflow buckets")
    }

    /// Adds a bucket and moves its entries there.
    fn grow(&mut self, mut hash_of: impl FnMut(T) -> u64) {
        let added = self.buckets.len();
        let (source, _) = self.shape().next_split();
        self.buckets.push(Bucket::EMPTY);
        let mut stays: Vec<(T, u8)> = Vec::with_capacity(2 * ENTRIES_A_BUCKET);
        while let Some((entry, tag)) = self.pop(source) {
            if self.bucket_of(hash_of(entry)) == added {
                self.push(added, entry, tag);
            } else {
                stays.push((entry, tag));
            }
        }
        for (entry, tag) in stays {
            self.push(source, entry, tag);
        }
    }

    /// Removes the last bucket; its entries move back to the one it was split from.
    fn shrink(&mut self) {
        let removed = self.buckets.len() - 1;
        let target = self.shape().last_split_from();
        while let Some((entry, tag)) = self.pop(removed) {
            self.push(target, entry, tag);
        }
        self.buckets.pop();
        if self.len == 0 {
            (self.overflow, self.free) = (Buckets::new(), 0);
        }
    }

    /// Verifies the module's invariants.
    pub fn check(&self, mut hash_of: impl FnMut(T) -> u64) {
        self.buckets.check();
        self.overflow.check();
        let (mut len, mut chained) = (0, 0);
        for (at, first) in self.buckets.iter().enumerate() {
            let mut bucket = first;
            loop {
                let used = bucket.used();
                assert!(bucket.entries[used..].iter().all(Option::is_none), "invariant 2: a hole");
                for (entry, &tag_kept) in bucket.entries.iter().flatten().zip(&bucket.tags) {
                    let hash = hash_of(*entry);
                    assert_eq!((self.bucket_of(hash), tag(hash)), (at, tag_kept), "invariant 1");
                }
                len += used;
                if bucket.chain == 0 {
                    break;
                }
                assert_eq!(used, ENTRIES_A_BUCKET, "invariant 2: a chain continues after a bucket with room");
                bucket = &self.overflow[bucket.chain as usize - 1];
                assert!(bucket.used() > 0, "invariant 2: an empty overflow bucket");
                chained += 1;
            }
        }
        let mut link = self.free;
        while link != 0 {
            chained += 1;
            link = self.overflow[link as usize - 1].chain;
        }
        assert_eq!(chained, self.overflow.len(), "invariant 3");
        assert_eq!(len, self.len, "invariant 4: length");
        assert!(self.len * 2 <= self.buckets.len() * LOAD_MAX_HALVES, "invariant 4: load");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    fn scan_all(index: &MemberIndex<u64>) -> BTreeSet<u64> {
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = index.scan(cursor, |hash| assert!(seen.insert(hash), "visited twice in a quiet table"));
            if cursor == 0 {
                return seen;
            }
        }
    }

    #[test]
    fn grows_and_shrinks_one_bucket_at_a_time() {
        let steps = if cfg!(miri) { 120 } else { 5_000 };
        let mut random = Random::new(11);
        let (mut index, mut model) = (MemberIndex::new(), BTreeSet::new());
        for step in 0..2 * steps {
            if step < steps || model.is_empty() {
                let hash = random.next_u64();
                model.insert(hash);
                let before = index.buckets.len();
                index.insert(hash, hash, |hash| hash);
                assert!(index.buckets.len() <= before + 1);
            } else {
                let hash = *model.range(random.next_u64()..).next().or(model.first()).unwrap();
                model.remove(&hash);
                assert_eq!(index.remove(hash, |entry| entry == hash), Some(hash));
                assert_eq!(index.find(hash, |entry| entry == hash), None);
            }
            if step % 97 == 0 || step > 2 * steps - 100 {
                index.check(|hash| hash);
                assert_eq!(scan_all(&index), model);
            }
        }
        assert_eq!((index.len(), index.buckets.len()), (0, 1));
    }

    #[test]
    fn equal_hashes_chain_and_come_apart() {
        let mut index = MemberIndex::new();
        for entry in 0..40u64 {
            index.insert(5, entry, |_| 5);
        }
        index.check(|_| 5);
        for entry in (0..40).rev().step_by(2).chain((0..40).step_by(2)) {
            assert_eq!(index.remove(5, |other| other == entry), Some(entry));
            index.check(|_| 5);
        }
        assert_eq!(index.remove(5, |_| true), None);
    }

    #[test]
    fn a_scan_across_growth_and_shrinking_misses_nothing_that_stays() {
        let rounds = if cfg!(miri) { 2 } else { 60 };
        for seed in 0..rounds {
            let mut random = Random::new(seed);
            let mut index = MemberIndex::new();
            let stays: BTreeSet<u64> = (0..50).map(|_| random.next_u64()).collect();
            for &hash in &stays {
                index.insert(hash, hash, |hash| hash);
            }
            let (mut comes_and_goes, mut seen, mut cursor) = (Vec::new(), BTreeSet::new(), 0);
            loop {
                cursor = index.scan(cursor, |hash| _ = seen.insert(hash));
                if cursor == 0 {
                    break;
                }
                for _ in 0..random.below(30) {
                    let hash = random.next_u64();
                    comes_and_goes.push(hash);
                    index.insert(hash, hash, |hash| hash);
                }
                for _ in 0..random.below(40).min(comes_and_goes.len() as u64) {
                    let hash = comes_and_goes.pop().unwrap();
                    index.remove(hash, |entry| entry == hash);
                }
            }
            assert!(stays.is_subset(&seen), "seed {seed}");
        }
    }
}
