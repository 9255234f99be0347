//! Growing and shrinking, one group of buckets at a time.

use super::bucket::{self, SLOTS};
use super::entry::Entry;
use super::shape::Shape;
use super::slot::Slot;
use super::{KeyTable, NARROW, WIDE};
use crate::prefetch::prefetch;
use crate::work;
use std::ops::Range;

/// A bucket is added when there are more than 6 entries per bucket on average. Computed (Poisson), bytes per key and
/// share of entries that need a second bucket line: at 5.5: 12.1 and 5.6 %; at 6: 11.3 and 7.8 %; at 7: 10.2 and 13 %.
/// With overflow nodes of a whole line it would be 12.9, 12.3 and 11.6 bytes, so they are sized exactly.
const LOAD_MAX: usize = 6;
/// A bucket is removed when the others would have fewer than 5 entries each on average: a gap, so that alternately
/// putting and removing one key does not move the split pointer back and forth.
const LOAD_MIN: usize = 5;
/// A group is not narrowed while its first bucket holds more entries than this, multiplied by the ratio of the table's
/// size to its target size. Removals in hash order (the search for expired keys, or a client that scans and deletes)
/// leave the remaining keys in few buckets. If those were merged at the same pace, a million keys of which all but 500
/// are removed would end up in one bucket, and each removal would scan all of it. With this limit a bucket holds at most
/// 490 there, and the table keeps at worst its former size times the square root of a fifth of the share of keys left.
const CROWD_MAX: usize = 24;
/// A bucket is added early when a key is inserted into one with more than this number of entries. Keys inserted in hash
/// order all go to few buckets; with one early bucket per key, a million of them make at worst a thousand entries in one
/// bucket instead of 2,450. With evenly spread hashes, no bucket of a billion has that many.
pub(super) const RELIEVED_CROWD: usize = 40;

impl<T> KeyTable<T> {
    /// Resizes the table towards its target size, rearranging at most about `buckets_max` buckets. Returns their number,
    /// and whether there is more to do. Only useful in idle time after many removals: puts and removals keep pace by
    /// themselves.
    pub fn step(&mut self, buckets_max: usize) -> (usize, bool) {
        let mut done = 0;
        while self.is_crowded() || self.is_sparse() {
            if done >= buckets_max {
                return (done, true);
            }
            done += self.shapes[WIDE].width();
            let buckets = self.buckets;
            self.grow_if_crowded();
            self.shrink_if_sparse();
            if self.buckets == buckets {
                break;
            }
        }
        (done, false)
    }

    /// Sizes an empty table for `keys` keys at once, which avoids growing step by step. Allocates about 11 bytes per key:
    /// the caller must bound an untrusted count.
    pub fn reserve(&mut self, keys: usize) {
        if self.len > 0 || keys <= SLOTS {
            return;
        }
        self.come_into_use();
        let mut shape = Shape::SMALLEST;
        while shape.groups() * shape.width() * LOAD_MAX < keys
            && let Some(wider) = shape.wider()
        {
            shape = wider;
        }
        self.shapes = [shape; 2];
        self.split_pointer = shape.groups();
        self.phase_start = self.split_pointer;
        self.buckets = shape.groups() * shape.width();
        self.directory.set_end(0);
        self.directory.set_end(self.buckets);
        self.directory.ensure(0..self.buckets);
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.len > LOAD_MAX * self.buckets
    }

    #[inline]
    fn is_sparse(&self) -> bool {
        self.len < LOAD_MIN * self.buckets.saturating_sub(1)
    }

    #[inline]
    pub(super) fn grow_if_crowded(&mut self) {
        if self.is_crowded() {
            self.grow();
        }
    }

    /// Adds a bucket although the load is low; never more buckets than keys.
    #[cold]
    pub(super) fn relieve(&mut self) {
        if self.buckets < self.len {
            self.grow();
        }
    }

    #[inline]
    pub(super) fn shrink_if_sparse(&mut self) {
        if self.is_sparse() {
            self.shrink();
        }
    }

    /// The width of a wide group, counted in groups of the narrow shape.
    #[inline]
    fn wide_width(&self) -> usize {
        self.shapes[NARROW].width() + 1
    }

    /// The unused buckets between the narrow and the wide groups.
    pub(super) fn unused_buckets(&self) -> Range<usize> {
        let narrow = self.shapes[NARROW];
        if self.split_pointer == narrow.groups() {
            return self.buckets..self.buckets;
        }
        self.split_pointer * narrow.width()..self.split_pointer * self.wide_width()
    }

    /// The number of the `at`-th bucket in hash order.
    #[inline]
    pub(super) fn bucket_number(&self, at: usize) -> usize {
        let narrow_buckets = self.split_pointer * self.shapes[NARROW].width();
        if at < narrow_buckets { at } else { at + self.split_pointer }
    }

    /// The inverse of [`KeyTable::bucket_number`].
    #[inline]
    pub(super) fn bucket_index(&self, number: usize) -> usize {
        let narrow_buckets = self.split_pointer * self.shapes[NARROW].width();
        if number < narrow_buckets { number } else { number - self.split_pointer }
    }

    /// All buckets that may hold entries, in hash order.
    pub(super) fn bucket_numbers(&self) -> impl Iterator<Item = usize> + use<T> {
        let unused = self.unused_buckets();
        (0..self.buckets + unused.len()).filter(move |bucket| !unused.contains(bucket))
    }

    pub(super) fn is_used(&self, bucket: usize) -> bool {
        let unused = self.unused_buckets();
        bucket < self.buckets + unused.len() && !unused.contains(&bucket)
    }

    /// Widens the last narrow group.
    #[inline(never)]
    fn grow(&mut self) {
        if self.split_pointer == 0 || self.split_pointer == self.shapes[NARROW].groups() {
            let narrow = if self.split_pointer == 0 { self.shapes[WIDE] } else { self.shapes[NARROW] };
            let Some(wide) = narrow.wider() else { return };
            self.end_phase();
            self.shapes = [narrow, wide];
            self.split_pointer = narrow.groups();
            self.phase_start = self.split_pointer;
            self.directory.set_end(narrow.groups() * self.wide_width());
        }
        let [narrow, wide] = self.shapes;
        let (group, narrow_width, wide_width) = (self.split_pointer - 1, narrow.width(), self.wide_width());
        let from = group * narrow_width..(group + 1) * narrow_width;
        let to = group * wide_width..(group + 1) * wide_width;
        self.directory.ensure(to.clone());
        if !narrow.knows_enough_for(&wide) {
            self.prefetch_entries(from.clone());
        }
        self.rearrange(from.clone(), narrow, to.clone(), wide);
        self.split_pointer = group;
        self.buckets += 1;
        self.directory.release(from.start..to.start, from);
        self.prefetch_buckets(group.wrapping_sub(1), narrow_width);
    }

    /// Narrows the first wide group.
    #[inline(never)]
    fn shrink(&mut self) {
        if self.split_pointer == self.shapes[NARROW].groups() {
            let Some(narrow) = self.shapes[NARROW].narrower() else { return };
            self.end_phase();
            self.shapes = [narrow, self.shapes[NARROW]];
            self.split_pointer = 0;
            self.phase_start = 0;
        }
        let [narrow, wide] = self.shapes;
        let (group, narrow_width, wide_width) = (self.split_pointer, narrow.width(), self.wide_width());
        let from = group * wide_width..(group + 1) * wide_width;
        if self.is_crowd(from.start) {
            return;
        }
        let to = group * narrow_width..(group + 1) * narrow_width;
        self.directory.ensure(to.clone());
        self.rearrange(from.clone(), wide, to.clone(), narrow);
        self.split_pointer = group + 1;
        self.buckets -= 1;
        if self.split_pointer == narrow.groups() {
            self.directory.set_end(self.buckets);
        } else {
            self.directory.release(to.end..from.end, from);
            self.prefetch_buckets(self.split_pointer, wide_width);
        }
    }

    /// See [`CROWD_MAX`].
    #[inline]
    fn is_crowd(&self, bucket: usize) -> bool {
        let slots = &self.directory.bucket(bucket).slots;
        // The table has `LOAD_MIN * buckets / len` times the buckets that it should have.
        slots[SLOTS - 1].is_link()
            && bucket::entry_count(slots) * self.len > CROWD_MAX * LOAD_MIN * self.buckets
    }

    /// Called with the split pointer at an end. If the phase began at the other end, every bucket has been refilled.
    fn end_phase(&mut self) {
        if self.split_pointer != self.phase_start {
            self.crowd_max = self.phase_crowd_max;
        }
        self.phase_crowd_max = 0;
    }

    /// Moves the entries of a group from the buckets `from` to their buckets in the other shape, within `to`. The buckets
    /// of `to` that are not in `from` are empty.
    fn rearrange(&mut self, from: Range<usize>, from_shape: Shape, to: Range<usize>, to_shape: Shape) {
        let mut staging = Staging::new();
        let narrow = self.shapes[NARROW];
        work::moved((from.len() + to.len()) * 64);
        for number in from {
            work::visited(1);
            let slots = std::mem::replace(&mut self.directory.bucket_mut(number).slots, [Slot::EMPTY; SLOTS]);
            if self.expiring > 0 {
                let mut expiring = 0;
                bucket::for_each_entry(&slots, |slot| expiring += slot.expires() as i32);
                self.directory.count_expiring(number, -expiring);
            }
            // Empty slots are copied too: a branch on them would be unpredictable.
            let freed = if from_shape.has_tags_of(&to_shape) {
                bucket::dissolve(&slots, |slot| staging.add(narrow.place(slot.tag(), to.len()), slot))
            } else {
                let known_bits = from_shape.known_bits(number);
                let recalls = from_shape.knows_enough_for(&to_shape);
                bucket::dissolve(&slots, |slot| {
                    if !slot.is_empty() {
                        let hash = if recalls { known_bits.hash(slot.tag()) } else { self.hash_of(slot) };
                        staging.add(to_shape.bucket(hash) - to.start, slot.with_tag(to_shape.tag(hash)));
                    }
                })
            };
            self.overflow_bytes -= freed;
        }
        for (at, number) in to.clone().enumerate() {
            self.unstage(number, staging.bucket(at));
        }
        if !staging.rest.is_empty() {
            self.unstage_rest(to.start, staging.rest);
        }
    }

    /// Adds the entries that did not fit into staged buckets, after those that did.
    #[cold]
    fn unstage_rest(&mut self, first: usize, mut rest: Vec<(usize, Slot)>) {
        rest.sort_by_key(|&(at, _)| at);
        for of_one in rest.chunk_by(|a, b| a.0 == b.0) {
            let number = first + of_one[0].0;
            let more: Vec<Slot> = of_one.iter().map(|&(_, slot)| slot).collect();
            let slots = &mut self.directory.bucket_mut(number).slots;
            self.overflow_bytes += bucket::add_to_crowd(slots, &more);
            let crowd = bucket::entry_count(slots);
            self.note_crowd(crowd);
            let expiring = more.iter().map(|slot| slot.expires() as i32).sum();
            self.directory.count_expiring(number, expiring);
        }
    }

    /// Fills an empty bucket.
    #[inline]
    fn unstage(&mut self, number: usize, staged: &[Slot; STAGED_MAX + 1]) {
        let slots = &mut self.directory.bucket_mut(number).slots;
        self.overflow_bytes += bucket::fill(slots, staged);
        if !staged[self.phase_crowd_max.clamp(SLOTS, STAGED_MAX)].is_empty() {
            self.note_crowd(staged.iter().filter(|slot| !slot.is_empty()).count());
        }
        if self.expiring > 0 {
            let expiring = staged.iter().map(|slot| slot.expires() as i32).sum();
            self.directory.count_expiring(number, expiring);
        }
    }

    #[inline]
    fn hash_of(&self, slot: Slot) -> u64 {
        // SAFETY: invariant 6 of the table: the slot is an entry's.
        self.hash(unsafe { Entry::<T>::from_address(slot.address()) }.key())
    }

    fn prefetch_entries(&self, buckets: Range<usize>) {
        for bucket in buckets {
            bucket::for_each_entry(&self.directory.bucket(bucket).slots, |slot| prefetch(slot.address()));
        }
    }

    /// Prefetches the group that the next step will rearrange.
    fn prefetch_buckets(&self, group: usize, width: usize) {
        if group < self.shapes[NARROW].groups() {
            for bucket in group * width..(group + 1) * width {
                prefetch(self.directory.address(bucket));
            }
        }
    }
}

/// Most entries that a bucket and one overflow node hold.
const STAGED_MAX: usize = bucket::SLOTS - 1 + bucket::SLOTS;

/// The entries of a group, grouped by their new bucket. Measured: pushing each entry into its new bucket at once, with a
/// search for the free slot each time, made a put cost 727 ns instead of 444 at 1M keys, in mispredicted branches.
struct Staging {
    slots: [[Slot; STAGED_MAX + 1]; 8],
    counts: [usize; 8],
    /// Entries that do not fit into the staged buckets: about one in 500.
    rest: Vec<(usize, Slot)>,
}

impl Staging {
    #[inline]
    fn new() -> Staging {
        Staging { slots: [[Slot::EMPTY; STAGED_MAX + 1]; 8], counts: [0; 8], rest: Vec::new() }
    }

    /// Adds an entry to the `at`-th bucket; an empty slot changes nothing, whatever `at` is.
    #[inline]
    fn add(&mut self, at: usize, slot: Slot) {
        let at = at & 7;
        let count = self.counts[at];
        if count == STAGED_MAX {
            return self.add_to_rest(at, slot);
        }
        self.slots[at][count & STAGED_MAX] = slot;
        self.counts[at] = count + !slot.is_empty() as usize;
    }

    #[cold]
    fn add_to_rest(&mut self, at: usize, slot: Slot) {
        if !slot.is_empty() {
            self.rest.push((at, slot));
        }
    }

    #[inline]
    fn bucket(&self, at: usize) -> &[Slot; STAGED_MAX + 1] {
        &self.slots[at]
    }
}
