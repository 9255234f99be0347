//! Walking the table: scans, random entries, samples, iteration.

use super::bucket::{self, SLOTS};
use super::entry::{Entry, EntryRef};
use super::slot::Slot;
use super::{KeyTable, NARROW};
use crate::prefetch::prefetch;
use crate::random::Random;
use crate::work;

/// A cursor is the upper 48 bits of a hash: every boundary between buckets, at every size, is such a number.
const CURSOR_SHIFT: u32 = 16;

/// Random buckets to look into before a sparse kind of entry is searched for chunk by chunk.
const TRIES_MAX: usize = 64;
/// Random entries to look at before one with an expiry is found by its rank: in a table of few keys and many buckets each
/// may take a walk.
const EXPIRING_TRIES_MAX: usize = 8;

impl<T> KeyTable<T> {
    /// Visits the entries of one bucket, and answers the cursor of the next; 0 starts and ends. An entry
    /// that is in the table from the first call to the last is visited, whatever happens to the table
    /// between the calls; it may be visited twice if the table's size changes. Cursors are below 2^48; any
    /// number is accepted.
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, T>)) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let hash = cursor << CURSOR_SHIFT;
        let shape = self.shape_of(hash);
        let number = shape.bucket(hash);
        let next = shape.end(number).map_or(0, |end| end >> CURSOR_SHIFT);
        let slots = &self.directory.bucket(number).slots;
        bucket::for_each_entry(slots, |slot| prefetch(slot.address()));
        if next != 0 {
            prefetch(self.directory.address(self.number_of(next << CURSOR_SHIFT)));
        }
        bucket::for_each_entry(slots, |slot| visit(Self::entry_ref(slot)));
        next
    }

    /// Visits the entries with an expiry in up to `buckets_max` buckets, and answers the cursor of the
    /// next; other entries' memory is not touched, and stretches of the table without such an entry are
    /// skipped and not counted. The guarantee is that of [`KeyTable::scan`].
    pub fn scan_expiring(
        &self,
        cursor: u64,
        buckets_max: usize,
        visit: &mut dyn FnMut(EntryRef<'_, T>),
    ) -> u64 {
        if self.expiring == 0 {
            return 0;
        }
        let mut hash = cursor << CURSOR_SHIFT;
        let mut budget = buckets_max.max(1);
        while budget > 0 {
            let shape = self.shape_of(hash);
            let mut number = shape.bucket(hash);
            if self.directory.expiring_near(number) == 0 {
                number = self.last_of_chunk(number);
            } else {
                budget -= 1;
                let slots = &self.directory.bucket(number).slots;
                prefetch(self.directory.address(number).wrapping_add(1));
                bucket::for_each_entry(slots, |slot| {
                    if slot.expires() {
                        prefetch(slot.address());
                    }
                });
                bucket::for_each_entry(slots, |slot| {
                    if slot.expires() {
                        visit(Self::entry_ref(slot));
                    }
                });
            }
            // The last bucket of a chunk may belong to a group of the other shape than `number` at first did.
            match self.shape_at(number).end(number) {
                Some(end) => hash = end,
                None => return 0,
            }
        }
        hash >> CURSOR_SHIFT
    }

    /// The last used bucket that lies in the same chunk and on the same side of the split pointer.
    fn last_of_chunk(&self, number: usize) -> usize {
        let unused = self.unused_buckets();
        let chunk_end = (number / super::directory::CHUNK_BUCKETS + 1) * super::directory::CHUNK_BUCKETS;
        let side_end = if number < unused.start { unused.start } else { self.buckets + unused.len() };
        chunk_end.min(side_end) - 1
    }

    fn shape_at(&self, number: usize) -> &super::Shape {
        let narrow_buckets = self.split_pointer * self.shapes[NARROW].width();
        &self.shapes[(number >= narrow_buckets) as usize]
    }

    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        self.shape_of(hash).bucket(hash)
    }

    #[inline]
    fn entry_ref<'a>(slot: Slot) -> EntryRef<'a, T> {
        // SAFETY: the slot is an entry's; the public functions bind the lifetime to the table's.
        EntryRef::new(unsafe { Entry::from_address(slot.address()) })
    }

    /// An entry drawn uniformly.
    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, T>> {
        if self.len == 0 {
            return None;
        }
        // Every place of every bucket has the same chance, occupied or not. At 5 entries a bucket or more,
        // and a fullest bucket of some 20, one in four tries hits.
        let places = self.crowd_max.max(SLOTS) as u64;
        for _ in 0..16 * TRIES_MAX {
            work::visited(1);
            let number = self.bucket_number(random.below(self.buckets as u64) as usize);
            if let Some(slot) =
                bucket::nth_entry(&self.directory.bucket(number).slots, random.below(places) as usize)
            {
                return Some(Self::entry_ref(slot));
            }
        }
        // A table reserved for many more keys than it holds, or one whose last keys, removed in the order of a
        // scan, share a few buckets.
        self.iter().nth(random.below(self.len as u64) as usize)
    }

    /// An entry with an expiry, drawn uniformly.
    pub fn random_expiring(&self, random: &mut Random) -> Option<EntryRef<'_, T>> {
        if self.expiring == 0 {
            return None;
        }
        if self.expiring >= self.len / 4 {
            for _ in 0..EXPIRING_TRIES_MAX {
                let entry = self.random(random)?;
                if entry.expiry_ms().is_some() {
                    return Some(entry);
                }
            }
        }
        let slot = self.nth_expiring(random.below(self.expiring as u64) as usize)?;
        Some(Self::entry_ref(slot))
    }

    /// The `n`-th entry with an expiry in the order of the chunks, whose counts lead the way.
    fn nth_expiring(&self, n: usize) -> Option<Slot> {
        let (chunk, mut n) = self.directory.chunk_of_expiring(n)?;
        for number in chunk.filter(|&number| self.is_used(number)) {
            let mut found = None;
            bucket::for_each_entry(&self.directory.bucket(number).slots, |slot| {
                if slot.expires() {
                    if n == 0 && found.is_none() {
                        found = Some(slot);
                    }
                    n = n.wrapping_sub(1);
                }
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Visits up to `n` entries that are neighbours, from a random bucket on: much cheaper than `n` random
    /// entries. Answers how many were visited: fewer than `n` only if the table has fewer, or if entries
    /// with an expiry are wanted and lie so far apart that 64 buckets for each do not suffice.
    pub fn sample(
        &self,
        random: &mut Random,
        n: usize,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, T>),
    ) -> usize {
        let wanted = n.min(if only_expiring { self.expiring } else { self.len });
        if wanted == 0 {
            return 0;
        }
        let mut at = random.below(self.buckets as u64) as usize;
        let is_bare = self.len < self.buckets;
        if is_bare || only_expiring && self.expiring < self.len / 8 {
            // Start where there is one.
            let entry = if only_expiring { self.random_expiring(random) } else { self.random(random) };
            at = entry.map_or(at, |entry| self.bucket_index(self.number_of(self.hash(entry.key()))));
        }
        let mut sampled = 0;
        let is_sparse = only_expiring && self.expiring < self.len / 8;
        let buckets_max = self.buckets.min(n * if is_sparse { TRIES_MAX } else { 4 } + TRIES_MAX);
        let mut passed = 0;
        for _ in 0..buckets_max {
            if is_sparse {
                let next = self.skip_to_expiring(at);
                passed += (next + self.buckets - at) % self.buckets;
                at = next;
            }
            if passed >= self.buckets {
                break;
            }
            passed += 1;
            work::visited(1);
            let slots = &self.directory.bucket(self.bucket_number(at)).slots;
            let is_wanted = |slot: Slot| !only_expiring || slot.expires();
            let mut prefetched = sampled;
            bucket::for_each_entry(slots, |slot| {
                if is_wanted(slot) && prefetched < wanted {
                    prefetched += 1;
                    prefetch(slot.address());
                }
            });
            bucket::for_each_entry(slots, |slot| {
                if is_wanted(slot) && sampled < wanted {
                    sampled += 1;
                    visit(Self::entry_ref(slot));
                }
            });
            if sampled == wanted {
                break;
            }
            at = if at + 1 == self.buckets { 0 } else { at + 1 };
        }
        sampled
    }

    /// The bucket at which to look for an entry with an expiry, from the `at`-th on: not in a chunk that has none.
    fn skip_to_expiring(&self, at: usize) -> usize {
        let number = self.bucket_number(at);
        if self.directory.expiring_near(number) > 0 {
            return at;
        }
        let unused = self.unused_buckets();
        match self.directory.next_with_expiring(number) {
            Some(start) if unused.contains(&start) => self.bucket_index(unused.end),
            Some(start) => self.bucket_index(start),
            None => at,
        }
    }

    /// Every entry, in the order of the hash.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { table: self, bucket: 0, at: 0 }
    }
}

/// See [`KeyTable::iter`].
pub struct Iter<'a, T> {
    table: &'a KeyTable<T>,
    bucket: usize,
    at: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = EntryRef<'a, T>;

    fn next(&mut self) -> Option<EntryRef<'a, T>> {
        while self.bucket < self.table.buckets {
            work::visited(1);
            let slots = &self.table.directory.bucket(self.table.bucket_number(self.bucket)).slots;
            if self.at == 0 {
                bucket::for_each_entry(slots, |slot| prefetch(slot.address()));
            }
            if let Some(slot) = bucket::nth_entry(slots, self.at) {
                self.at += 1;
                return Some(KeyTable::entry_ref(slot));
            }
            self.bucket += 1;
            self.at = 0;
        }
        None
    }
}

impl<'a, T> IntoIterator for &'a KeyTable<T> {
    type Item = EntryRef<'a, T>;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
