//! Growing and shrinking, one group of buckets at a time.

use super::bucket::{self, SLOTS};
use super::entry::Entry;
use super::shape::Shape;
use super::slot::Slot;
use super::{KeyTable, NARROW, WIDE};
use crate::prefetch::prefetch;
use crate::work;
use std::ops::Range;

/// A bucket is added when more than 6 entries come to a bucket on average. Computed (Poisson) as bytes per
/// key and share of entries that need a second bucket line: at 5.5: 12.1 and 5.6 %; at 6: 11.3 and 7.8 %;
/// at 7: 10.2 and 13 %. With overflow nodes of a whole line it would be 12.9, 12.3 and 11.6 bytes, which is
/// why they are cut to size.
const LOAD_MAX: usize = 6;
/// A bucket is given back when fewer than 5 entries come to each of the others: a gap, so that one key put
/// and removed in turn does not move the split pointer back and forth.
const LOAD_MIN: usize = 5;
/// A group is not narrowed while its first bucket holds more entries than this, times how much larger the table is than
/// it should be. Keys that go in the order of their hashes (a search for expired keys removes them so, and whoever scans
/// and deletes) leave the rest behind in few buckets. Were these made fewer at the same pace, a million keys of which
/// all but 500 are gone would have them in one bucket, and each removal walk all of it; so it is 490 at most there, and
/// the table at worst what it was times the root of a fifth of the share of the keys that is left.
const CROWD_MAX: usize = 24;
/// A bucket is added early when a key comes to more than so many others. Keys that come in the order of their hashes all
/// come to few buckets; early ones, one a key, make a million of them a thousand in one bucket at worst instead of 2,450.
/// Where hashes are spread evenly, no bucket of a billion has so many.
pub(super) const RELIEVED_CROWD: usize = 40;

impl<T> KeyTable<T> {
    /// Gives the table the size it should have, rearranging at most about `buckets_max` buckets. Answers
    /// whether there is more to do. Only worth calling in idle time after much was removed: puts and
    /// removals keep pace by themselves.
    pub fn step(&mut self, buckets_max: usize) -> bool {
        let mut done = 0;
        while self.is_crowded() || self.is_sparse() {
            if done >= buckets_max {
                return true;
            }
            done += self.shapes[WIDE].width();
            let buckets = self.buckets;
            self.grow_if_crowded();
            self.shrink_if_sparse();
            if self.buckets == buckets {
                break;
            }
        }
        false
    }

    /// Gives an empty table the size for `keys` keys at once, which saves the growing. Allocates about 11
    /// bytes a key: a caller bounds what it trusts.
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

    /// Adds a bucket, though there are not many keys for each; never more buckets than keys.
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

    /// Buckets between the narrow and the wide groups.
    pub(super) fn unused_buckets(&self) -> Range<usize> {
        let narrow = self.shapes[NARROW];
        if self.split_pointer == narrow.groups() {
            return self.buckets..self.buckets;
        }
        self.split_pointer * narrow.width()..self.split_pointer * self.wide_width()
    }

    /// The number of the `at`-th bucket in the order of the hash.
    #[inline]
    pub(super) fn bucket_number(&self, at: usize) -> usize {
        let narrow_buckets = self.split_pointer * self.shapes[NARROW].width();
        if at < narrow_buckets { at } else { at + self.split_pointer }
    }

    /// The reverse of [`KeyTable::bucket_number`].
    #[inline]
    pub(super) fn bucket_index(&self, number: usize) -> usize {
        let narrow_buckets = self.split_pointer * self.shapes[NARROW].width();
        if number < narrow_buckets { number } else { number - self.split_pointer }
    }

    /// All buckets that may hold entries, in the order of the hash.
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

    /// The split pointer is at an end. If it was at the other when the phase began, every bucket has been filled anew.
    fn end_phase(&mut self) {
        if self.split_pointer != self.phase_start {
            self.crowd_max = self.phase_crowd_max;
        }
        self.phase_crowd_max = 0;
    }

    /// Moves the entries of a group, in the buckets `from`, to where they are in the other shape: within
    /// `to`. The buckets of `to` that are not in `from` are empty.
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
            // Empty slots come along, for lack of a branch that could be predicted.
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

    /// Adds what staged buckets had no room for, behind what they had room for.
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
        // SAFETY: the slot is an entry's.
        self.hash(unsafe { Entry::<T>::from_address(slot.address()) }.key())
    }

    fn prefetch_entries(&self, buckets: Range<usize>) {
        for bucket in buckets {
            bucket::for_each_entry(&self.directory.bucket(bucket).slots, |slot| prefetch(slot.address()));
        }
    }

    /// The group that the next step will rearrange.
    fn prefetch_buckets(&self, group: usize, width: usize) {
        if group < self.shapes[NARROW].groups() {
            for bucket in group * width..(group + 1) * width {
                prefetch(self.directory.address(bucket));
            }
        }
    }
}

/// The most that a bucket and one overflow node hold.
const STAGED_MAX: usize = bucket::SLOTS - 1 + bucket::SLOTS;

/// The entries of a group, sorted by their new bucket. Measured: with each entry pushed into its new bucket
/// at once, a search for the free slot each time, a put cost 727 ns instead of 444 at 1M keys, in
/// mispredicted branches.
struct Staging {
    slots: [[Slot; STAGED_MAX + 1]; 8],
    counts: [usize; 8],
    /// What the buckets here have no room for: one in 500 or so.
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
