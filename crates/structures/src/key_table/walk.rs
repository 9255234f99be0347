//! Reading the table: scans, random entries, samples, iteration.

use super::bucket::{self, SLOTS};
use super::directory::STRETCH_BUCKETS;
use super::entry::{Entry, EntryRef};
use super::slot::Slot;
use super::{KeyTable, NARROW};
use crate::prefetch::prefetch;
use crate::random::Random;
use crate::work;
use std::ops::Range;

/// A cursor is the upper 48 bits of a hash: every boundary between buckets, at every size, is such a number.
const CURSOR_SHIFT: u32 = 16;

/// Random buckets tried before a sparse kind of entry is searched for chunk by chunk.
const TRIES_MAX: usize = 64;
/// Random entries tried before one with an expiry is found by its rank: in a table of few keys and many buckets each may
/// take a scan.
const EXPIRING_TRIES_MAX: usize = 8;

impl<T> KeyTable<T> {
    /// Visits the entries of one bucket and returns the cursor of the next; 0 starts and ends. An entry that is in the
    /// table from the first call to the last is visited, whatever changes between the calls; it may be visited twice if the
    /// table's size changes. Cursors are below 2^48; any number is accepted.
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

    /// Visits the entries with an expiry in one stretch of buckets and returns the cursor of the next. Does not touch the
    /// memory of other entries, nor stretches without such an entry, except those that had one since the last call. The
    /// guarantee is that of [`KeyTable::scan`].
    pub fn scan_expiring(&mut self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, T>)) -> u64 {
        if self.expiring == 0 {
            return 0;
        }
        let Some(start) = self.next_stretch(self.number_of(cursor << CURSOR_SHIFT)) else { return 0 };
        let stretch = self.rest_of_stretch(start);
        let mut found = 0;
        for number in stretch.clone() {
            work::visited(1);
            bucket::for_each_entry(&self.directory.bucket(number).slots, |slot| {
                if slot.expires() {
                    found += 1;
                    prefetch(slot.address());
                }
            });
        }
        if found == 0 {
            self.forget_stretch(&stretch);
        } else {
            for number in stretch.clone() {
                bucket::for_each_entry(&self.directory.bucket(number).slots, |slot| {
                    if slot.expires() {
                        visit(Self::entry_ref(slot));
                    }
                });
            }
        }
        let last = stretch.end - 1;
        self.shape_at(last).end(last).map_or(0, |end| end >> CURSOR_SHIFT)
    }

    /// The first used bucket, from `number` on, of a stretch that may have an entry with an expiry.
    fn next_stretch(&self, number: usize) -> Option<usize> {
        let unused = self.unused_buckets();
        let next = match self.directory.next_stretch(number) {
            // The stretch may continue behind the unused ones, or another one follow there.
            Some(next) if unused.contains(&next) => self.directory.next_stretch(unused.end),
            next => next,
        };
        next.filter(|&next| next < self.buckets + unused.len())
    }

    /// The used buckets from `number` on that lie in the same stretch and on the same side of the split pointer.
    fn rest_of_stretch(&self, number: usize) -> Range<usize> {
        let unused = self.unused_buckets();
        let stretch_end = (number / STRETCH_BUCKETS + 1) * STRETCH_BUCKETS;
        let side_end = if number < unused.start { unused.start } else { self.buckets + unused.len() };
        number..stretch_end.min(side_end)
    }

    /// Marks the stretch as having no entry with an expiry, if `seen` covers all of its used buckets.
    fn forget_stretch(&mut self, seen: &Range<usize>) {
        let start = seen.start / STRETCH_BUCKETS * STRETCH_BUCKETS;
        let mut stretch = start..start + STRETCH_BUCKETS;
        if stretch.all(|bucket| seen.contains(&bucket) || !self.is_used(bucket)) {
            self.directory.forget_stretch(seen.start);
        }
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
        // SAFETY: invariant 6 of the table: the slot is an entry's; the public functions bind the lifetime
        // to the table's.
        EntryRef::new(unsafe { Entry::from_address(slot.address()) })
    }

    /// Returns an entry drawn uniformly.
    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, T>> {
        if self.len == 0 {
            return None;
        }
        // Every position of every bucket has the same chance, occupied or not. At 5 entries per bucket or more and about 20
        // in the fullest, one in four tries hits.
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
        // Reached by a table reserved for many more keys than it holds, or one whose last keys, after removals in scan
        // order, share a few buckets.
        self.iter().nth(random.below(self.len as u64) as usize)
    }

    /// Returns an entry with an expiry, drawn uniformly.
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

    /// The `n`-th entry with an expiry in chunk order, found by the chunks' counts.
    fn nth_expiring(&self, n: usize) -> Option<Slot> {
        let (chunk, mut n) = self.directory.chunk_of_expiring(n)?;
        let mut next = self.next_stretch(chunk.start);
        while let Some(start) = next.filter(|start| chunk.contains(start)) {
            let stretch = self.rest_of_stretch(start);
            for number in stretch.clone() {
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
            next = self.next_stretch(stretch.end);
        }
        None
    }

    /// Visits up to `n` neighbouring entries, from a random one on: much cheaper than `n` random entries. Returns the
    /// number visited: fewer than `n` only if the table has fewer, or if entries with an expiry are wanted and are so
    /// sparse that 64 buckets for each do not suffice.
    ///
    /// Entries anywhere in a bucket have the same chance. From the first entry of each bucket on, those behind the `n`-th
    /// would hardly ever be visited, and these are the youngest.
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
            // Start at a matching entry.
            let entry = if only_expiring { self.random_expiring(random) } else { self.random(random) };
            at = entry.map_or(at, |entry| self.bucket_index(self.number_of(self.hash(entry.key()))));
        }
        let mut sampled = 0;
        let is_sparse = only_expiring && self.expiring < self.len / 8;
        // The first bucket may be visited again at the end, for what was skipped there.
        let buckets_max = (self.buckets + 1).min(n * if is_sparse { TRIES_MAX } else { 4 } + TRIES_MAX);
        let mut passed = 0;
        for nth in 0..buckets_max {
            if is_sparse {
                let next = self.skip_to_expiring(at);
                passed += (next + self.buckets - at) % self.buckets;
                at = next;
            }
            if passed > self.buckets {
                break;
            }
            passed += 1;
            work::visited(1);
            let slots = &self.directory.bucket(self.bucket_number(at)).slots;
            let is_wanted = |slot: Slot| !only_expiring || slot.expires();
            let starts_anywhere = nth == 0 && !is_sparse && !is_bare;
            let skips = if starts_anywhere { random.index(bucket::entry_count(slots).max(1)) } else { 0 };
            let (mut at_entry, mut prefetched) = (0, sampled);
            bucket::for_each_entry(slots, |slot| {
                if at_entry >= skips && is_wanted(slot) && prefetched < wanted {
                    prefetched += 1;
                    prefetch(slot.address());
                }
                at_entry += 1;
            });
            at_entry = 0;
            bucket::for_each_entry(slots, |slot| {
                if at_entry >= skips && is_wanted(slot) && sampled < wanted {
                    sampled += 1;
                    visit(Self::entry_ref(slot));
                }
                at_entry += 1;
            });
            if sampled == wanted {
                break;
            }
            at = if at + 1 == self.buckets { 0 } else { at + 1 };
        }
        sampled
    }

    /// Visits all entries of a random bucket, for estimates: of many buckets so visited each entry has the same share.
    /// Entries with an expiry, if only these are wanted and are sparse, are visited one at a time.
    pub fn visit_bucket(
        &self,
        random: &mut Random,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, T>),
    ) {
        if only_expiring && self.expiring < self.len / 2 {
            if let Some(entry) = self.random_expiring(random) {
                visit(entry);
            }
        } else if self.buckets > 0 {
            work::visited(1);
            let slots = &self.directory.bucket(self.bucket_number(random.index(self.buckets))).slots;
            bucket::for_each_entry(slots, |slot| prefetch(slot.address()));
            bucket::for_each_entry(slots, |slot| {
                if !only_expiring || slot.expires() {
                    visit(Self::entry_ref(slot));
                }
            });
        }
    }

    /// The bucket from which to look for an entry with an expiry, from the `at`-th on, wrapping around to the first.
    fn skip_to_expiring(&self, at: usize) -> usize {
        let next =
            self.next_stretch(self.bucket_number(at)).or_else(|| self.next_stretch(self.bucket_number(0)));
        next.map_or(at, |number| self.bucket_index(number))
    }

    /// Iterates over all entries, in hash order.
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
