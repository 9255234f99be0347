//! A page: the records of some elements with columns of bytes in front, in one allocation.
//!
//! ```text
//!  0        count                                                               capacity
//!  | tag 0.. | [length 0..] | [expiry 0..] | free ->        <- .. | record 1 | record 0 |
//!      1 B         1 B            8 B
//! ```
//!
//! A page whose records all have one length is *even*: it has no column of lengths, and its header holds the length. A
//! record is found by one multiplication, and a removal moves the last record into the hole. In other pages a record is
//! found by summing the lengths before it. Columns are packed without spare slots, so 64 tags fit one cache line. A record
//! of [`KEPT_MIN`] bytes or more is followed by a byte of its key's hash, so that a split does not hash long keys. The
//! page's header (capacity, counts) is in the directory, where it is fetched with the page's address.
//!
//! Invariants:
//! 1. `data` is an allocation of `capacity` initialised bytes that this page owns; dangling if `capacity` is 0.
//! 2. `capacity` is a multiple of [`LANES`], at most [`PAGE_BYTES_MAX`], and 0 only if `count` is 0.
//! 3. Columns and records fit: `column_bytes + record_bytes <= capacity`.
//! 4. Record 0 ends at the page's end; each further record ends where the one before it starts. The stored
//!    lengths add up to [`Page::record_bytes`].
//! 5. A length of 0..=254 is the record's own, with the byte of the hash that follows a record of [`KEPT_MIN`] or more;
//!    255 means a *large* record: 16 bytes holding the pointer of a boxed slice that this page owns, its length in 40
//!    bits, and the lowest 24 bits of its key's hash, so that a split reads no key. `large_count` counts large records.
//! 6. The byte that follows a record holds the bits of the hash that decide the next splits, from a multiple of 8 on: see
//!    [`kept_shift`].
//! 7. The expiry column exists if and only if some element expires; an element without an expiry has [`NEVER`].
//! 8. The column of lengths exists if and only if the page is not even. An even page has no large record. A page that is no
//!    longer even becomes even again when it is split or merged and all lengths are equal.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#pages-of-packed-maps).

mod plain;

use crate::byte_compare::{self, BitMask, Group, LANES, Row};
use crate::prefetch::prefetch;
use crate::size_class::{size_class, size_step};
use crate::work;
use std::ptr::{self, NonNull};

/// The largest page: its counts are 16 bits wide. The table splits pages long before.
pub(super) const PAGE_BYTES_MAX: usize = 57_344;
/// The longest record kept in the page itself.
pub(super) const INLINE_MAX: usize = 253;
/// From this length on, a byte of the key's hash is kept with a record.
pub(super) const KEPT_MIN: usize = 64;
/// The expiry column's value for an element that does not expire.
pub(super) const NEVER: u64 = u64::MAX;

const PAGE_BYTES_MIN: usize = 64;
const LARGE: u8 = 255;
/// Bytes that an out-of-line record takes in the page.
pub(super) const LARGE_BYTES: usize = 16;
const LARGE_LENGTH_BITS: u32 = 40;
/// Lowest bits of the hash kept with a large record: enough for 16 million pages.
pub(super) const KEPT_HASH_BITS: u32 = u64::BITS - LARGE_LENGTH_BITS;
const EXPIRY_BYTES: usize = 8;
const LINE_BYTES: usize = 64;
/// A page with less room than this is likely to move when a record is added.
const MOVING_BYTES: usize = 64;

/// Index of the lower byte of a 16-bit number.
const LOW_BYTE: usize = if cfg!(target_endian = "little") { 0 } else { 1 };

/// A page's header; lives in the directory.
pub(super) struct Page {
    data: NonNull<u8>,
    capacity: u16,
    count: u16,
    /// In an even page the length of each record, else the sum of all lengths.
    length_or_bytes: u16,
    /// [`EXPIRES`], [`UNEVEN`] and, above them, the number of large records.
    flags: u16,
}

/// The expiry column exists.
const EXPIRES: u16 = 1;
/// The column of lengths exists.
const UNEVEN: u16 = 2;
const ONE_LARGE: u16 = 4;

const _: () = assert!(size_of::<Page>() == 16, "four headers to a cache line");

// SAFETY: a page owns its allocation and its large records (invariants 1 and 5) and shares them with nothing else.
unsafe impl Send for Page {}
// SAFETY: invariant 1: through `&Page` memory is only read.
unsafe impl Sync for Page {}

/// The position of an element in its page. Any change of the page invalidates it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) index: usize,
    start: usize,
    length: u8,
}

/// An element's record as its format wrote it.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) large: bool,
}

/// The size of the allocation for `bytes` of columns and records.
pub(super) fn capacity_for(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { size_class(bytes.max(PAGE_BYTES_MIN)).next_multiple_of(LANES) }
}

/// The first of the 8 hash bits that follow a record in a page whose elements agree in the lowest `depth` bits.
#[inline(always)]
pub(super) fn kept_shift(depth: u32) -> u32 {
    depth & !7
}

/// The value in the column of lengths for a record inside the page.
#[inline(always)]
fn stored_length(record_len: usize) -> usize {
    record_len + usize::from(record_len >= KEPT_MIN)
}

#[inline(always)]
fn stored_bytes(length: u8) -> usize {
    if length == LARGE { LARGE_BYTES } else { usize::from(length) }
}

impl Page {
    pub(super) const fn empty() -> Page {
        Page { data: NonNull::dangling(), capacity: 0, count: 0, length_or_bytes: 0, flags: 0 }
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    /// Bytes of columns and records.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.column_bytes() + self.record_bytes()
    }

    /// Bytes of all records.
    #[inline(always)]
    fn record_bytes(&self) -> usize {
        let each = if self.is_even() { self.count() } else { 1 };
        usize::from(self.length_or_bytes) * each
    }

    #[inline(always)]
    fn is_even(&self) -> bool {
        self.flags & UNEVEN == 0
    }

    #[inline(always)]
    pub(super) fn expires(&self) -> bool {
        self.flags & EXPIRES != 0
    }

    #[inline(always)]
    pub(super) fn address(&self) -> *const u8 {
        self.data.as_ptr()
    }

    #[inline(always)]
    fn large_count(&self) -> usize {
        usize::from(self.flags / ONE_LARGE)
    }

    /// Bytes of an element in the columns of tags and lengths.
    #[inline(always)]
    fn searched_width(&self) -> usize {
        1 + usize::from(!self.is_even())
    }

    /// Bytes of an element in all columns.
    #[inline(always)]
    fn column_width(&self) -> usize {
        self.searched_width() + if self.expires() { EXPIRY_BYTES } else { 0 }
    }

    #[inline(always)]
    fn column_bytes(&self) -> usize {
        self.count() * self.column_width()
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: invariant 1.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.capacity()) }
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariant 1; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.capacity()) }
    }

    // ---- searching ----

    /// Returns the first `Some` that `accept` makes of the record of an element with this tag.
    #[inline(always)]
    pub(super) fn find<'a, R>(
        &'a self,
        tag: u8,
        accept: impl Fn(Slot, Record<'a>) -> Option<R>,
    ) -> Option<R> {
        let stored = usize::from(self.length_or_bytes);
        let even_length = stored - usize::from(stored > KEPT_MIN);
        let count = self.count();
        let mut group_start = 0;
        while group_start < count {
            for lane in self.matching(group_start, tag) {
                let index = group_start + lane;
                let (slot, record) = if self.is_even() {
                    let start = self.capacity() - (index + 1) * stored;
                    // SAFETY: invariants 3 and 4: `index < count`, and `count` records of this length end the page.
                    let bytes =
                        unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(start), even_length) };
                    (Slot { index, start, length: stored as u8 }, Record { bytes, large: false })
                } else {
                    let (start, length) = self.find_by_sum(index);
                    let slot = Slot { index, start, length };
                    (slot, self.record(slot))
                };
                let accepted = accept(slot, record);
                if accepted.is_some() {
                    return accepted;
                }
            }
            group_start += LANES;
        }
        None
    }

    /// As [`Page::find`], reading columns only.
    #[inline(always)]
    pub(super) fn find_slot<R>(&self, tag: u8, mut accept: impl FnMut(Slot) -> Option<R>) -> Option<R> {
        let count = self.count();
        let mut group_start = 0;
        while group_start < count {
            for lane in self.matching(group_start, tag) {
                let slot = self.slot(group_start + lane);
                let accepted = accept(slot);
                if accepted.is_some() {
                    return accepted;
                }
            }
            group_start += LANES;
        }
        None
    }

    /// Those of the [`LANES`] elements from `group_start < count` on that have this tag.
    #[inline(always)]
    fn matching(&self, group_start: usize, tag: u8) -> BitMask<u64> {
        let left = self.count() - group_start;
        // SAFETY: invariants 2 and 3: columns fit, so the page has more than `group_start` bytes, a multiple of `LANES`.
        let tags = unsafe { &*self.data.as_ptr().add(group_start).cast::<Row>() };
        Group::of(tags).matching(tag).below(left)
    }

    /// The element at `index < count`.
    #[inline(always)]
    pub(super) fn slot(&self, index: usize) -> Slot {
        let count = self.count();
        assert!(index < count, "no slot {index} in a page of {count}");
        if self.is_even() {
            let length = self.length_or_bytes;
            let start = self.capacity() - (index + 1) * usize::from(length);
            return Slot { index, start, length: length as u8 };
        }
        let (start, length) = self.find_by_sum(index);
        Slot { index, start, length }
    }

    /// The start of the record, and its length in the column of lengths. Not inlined: the registers it uses would be saved
    /// and restored by searches that find nothing and those in even pages, a third of their instructions.
    #[inline(never)]
    fn find_by_sum(&self, index: usize) -> (usize, u8) {
        let (bytes, lengths) = (self.bytes(), self.count());
        let length = bytes[lengths + index];
        let mut end_distance = byte_compare::sum(bytes, lengths, lengths + index) + stored_bytes(length);
        if self.large_count() > 0 {
            let large = byte_compare::count_equal(bytes, lengths, lengths + index, LARGE);
            end_distance -= large * (usize::from(LARGE) - LARGE_BYTES);
        }
        (self.capacity() - end_distance, length)
    }

    #[inline(always)]
    pub(super) fn record(&self, slot: Slot) -> Record<'_> {
        if slot.length == LARGE {
            let (data, length) = self.large(slot);
            // SAFETY: invariant 5: the boxed slice lives as long as this page holds it.
            return Record { bytes: unsafe { std::slice::from_raw_parts(data, length) }, large: true };
        }
        let length = usize::from(slot.length);
        let length = length - usize::from(length > KEPT_MIN);
        Record { bytes: &self.bytes()[slot.start..slot.start + length], large: false }
    }

    /// All records in order.
    #[inline]
    pub(super) fn records(&self) -> Records<'_> {
        let (lengths, step) = if self.is_even() {
            ((&raw const self.length_or_bytes).cast::<u8>().wrapping_add(LOW_BYTE), 0)
        } else {
            (self.bytes()[self.count()..].as_ptr(), 1)
        };
        let at = self.data.as_ptr().wrapping_add(self.capacity());
        Records { page: self, left: self.count(), lengths, step, at }
    }

    /// All slots in order.
    #[inline]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let count = self.count();
        let lengths = if self.is_even() { &[] } else { &self.bytes()[count..2 * count] };
        let (common, mut start) = (self.length_or_bytes as u8, self.capacity());
        (0..count).map(move |index| {
            let length = lengths.get(index).copied().unwrap_or(common);
            start -= stored_bytes(length);
            Slot { index, start, length }
        })
    }

    /// The length of all records, if it is the same and none is out of line.
    fn common_length(slots: impl Iterator<Item = Slot>) -> Option<u8> {
        let mut lengths = slots.map(|slot| slot.length);
        let first = lengths.next()?;
        (first != LARGE && lengths.all(|length| length == first)).then_some(first)
    }

    /// Prefetches the columns that a search reads.
    pub(super) fn prefetch_searched(&self) {
        for line in (0..self.count() * self.searched_width()).step_by(LINE_BYTES) {
            prefetch(self.address().wrapping_add(line));
        }
    }

    /// First and last byte of the record as stored in the page, for prefetching.
    pub(super) fn stored_range(&self, slot: Slot) -> std::ops::Range<*const u8> {
        self.bytes()[slot.start..slot.start + stored_bytes(slot.length)].as_ptr_range()
    }

    /// Prefetches the columns and the line where the next record goes.
    pub(super) fn prefetch_insertion(&self) {
        if self.capacity() < self.used() + MOVING_BYTES {
            return self.prefetch_whole();
        }
        for line in (0..self.column_bytes()).step_by(LINE_BYTES) {
            prefetch(self.address().wrapping_add(line));
        }
        prefetch(self.address().wrapping_add(self.capacity() - self.record_bytes()).wrapping_sub(1));
    }

    /// Prefetches the whole page.
    pub(super) fn prefetch_whole(&self) {
        for line in (0..self.capacity()).step_by(LINE_BYTES) {
            prefetch(self.address().wrapping_add(line));
        }
    }

    /// Prefetches the start of an out-of-line record; reads the record's bytes in the page.
    pub(super) fn prefetch_large(&self, slot: Slot) {
        if slot.length == LARGE {
            prefetch(self.large(slot).0);
        }
    }

    pub(super) fn tag(&self, index: usize) -> u8 {
        self.bytes()[..self.count()][index]
    }

    pub(super) fn tags(&self) -> &[u8] {
        &self.bytes()[..self.count()]
    }

    fn large(&self, slot: Slot) -> (*mut u8, usize) {
        let (data, length, _) = self.read_large(slot);
        (data, length)
    }

    /// The lowest [`KEPT_HASH_BITS`] of the hash of the record's key, if they are kept.
    pub(super) fn kept_hash(&self, slot: Slot) -> Option<u64> {
        (slot.length == LARGE).then(|| self.read_large(slot).2)
    }

    /// The position of the hash byte that follows the record, if it has one.
    fn kept_at(slot: Slot) -> Option<usize> {
        let length = usize::from(slot.length);
        (slot.length != LARGE && length > KEPT_MIN).then(|| slot.start + length - 1)
    }

    /// The byte of its key's hash that follows the record, if it has one.
    pub(super) fn kept_byte(&self, slot: Slot) -> Option<u8> {
        Self::kept_at(slot).map(|at| self.bytes()[at])
    }

    /// Rewrites the hash byte that follows the record, if it has one.
    pub(super) fn set_kept_byte(&mut self, slot: Slot, byte: u8) {
        if let Some(at) = Self::kept_at(slot) {
            self.bytes_mut()[at] = byte;
        }
    }

    /// As [`Page::set_kept_byte`], with the same byte for all records.
    pub(super) fn set_kept_bytes(&mut self, byte: u8) {
        let slots: Vec<Slot> = self.slots().collect();
        slots.into_iter().for_each(|slot| self.set_kept_byte(slot, byte));
    }

    /// Address and length of the record's bytes, and the kept bits of its key's hash.
    fn read_large(&self, slot: Slot) -> (*mut u8, usize, u64) {
        assert!(slot.length == LARGE, "the record is inside the page");
        let stored = &self.bytes()[slot.start..slot.start + LARGE_BYTES];
        // SAFETY: invariant 5: these 16 bytes were written by `write_large`; the reads are unaligned.
        let (data, packed) = unsafe {
            let data = stored.as_ptr().cast::<*mut u8>().read_unaligned();
            (data, stored.as_ptr().add(8).cast::<u64>().read_unaligned())
        };
        (data, (packed & ((1 << LARGE_LENGTH_BITS) - 1)) as usize, packed >> LARGE_LENGTH_BITS)
    }

    // ---- adding, replacing, removing ----

    /// Adds a record of `length <= INLINE_MAX` bytes, which `write` fills; `kept` follows it if it is long.
    pub(super) fn push_inline(
        &mut self,
        tag: u8,
        length: usize,
        kept: u8,
        expiry: u64,
        write: impl FnOnce(&mut [u8]),
    ) {
        assert!(length <= INLINE_MAX, "a record of {length} bytes belongs out of line");
        let start = self.push(tag, stored_length(length) as u8, expiry);
        let bytes = self.bytes_mut();
        if length >= KEPT_MIN {
            bytes[start + length] = kept;
        }
        write(&mut bytes[start..start + length]);
    }

    /// Adds a record out of line; `hash` is its key's.
    pub(super) fn push_large(&mut self, tag: u8, hash: u64, record: Box<[u8]>, expiry: u64) {
        let start = self.push(tag, LARGE, expiry);
        self.write_large(start, record, hash);
        self.flags += ONE_LARGE;
    }

    fn write_large(&mut self, start: usize, record: Box<[u8]>, hash: u64) {
        assert!(record.len() < 1 << LARGE_LENGTH_BITS, "a record of a terabyte");
        let packed = record.len() as u64 | hash << LARGE_LENGTH_BITS;
        let data = Box::into_raw(record).cast::<u8>();
        let stored = &mut self.bytes_mut()[start..start + LARGE_BYTES];
        // SAFETY: 16 bytes of this page, written unaligned; establishes invariant 5.
        unsafe {
            stored.as_mut_ptr().cast::<*mut u8>().write_unaligned(data);
            stored.as_mut_ptr().add(8).cast::<u64>().write_unaligned(packed);
        }
    }

    /// Makes room for a record behind all others and writes its columns; returns where the record starts.
    #[inline(always)]
    fn push(&mut self, tag: u8, length: u8, expiry: u64) -> usize {
        let alike = self.count > 0 && self.flags == 0 && u16::from(length) == self.length_or_bytes;
        if alike && expiry == NEVER {
            self.reserve(1 + usize::from(length));
        } else {
            self.prepare_push(length, expiry);
        }
        let count = self.count();
        work::moved(1 + stored_bytes(length));
        self.bytes_mut()[count] = tag;
        self.count += 1;
        self.capacity() - self.record_bytes()
    }

    /// Makes room for a record and writes all its columns but the tag's.
    #[inline(never)]
    fn prepare_push(&mut self, length: u8, expiry: u64) {
        if self.count == 0 {
            self.set_form((length != LARGE).then_some(length), 0, false);
        } else if self.is_even() && u16::from(length) != self.length_or_bytes {
            self.add_length_column();
        }
        if expiry != NEVER && !self.expires() {
            self.add_expiry_column();
        }
        self.reserve(self.column_width() + stored_bytes(length));
        if self.column_width() > 1 {
            self.push_behind_tags(length, expiry);
        }
    }

    /// Writes the columns behind the tags, moving them to make room for one more tag.
    fn push_behind_tags(&mut self, length: u8, expiry: u64) {
        let (count, width) = (self.count(), self.searched_width());
        work::moved(self.column_bytes() - count);
        if self.expires() {
            let end = count * (width + EXPIRY_BYTES);
            let bytes = self.bytes_mut();
            bytes.copy_within(width * count..end, width * (count + 1));
            bytes[end + width..end + width + EXPIRY_BYTES].copy_from_slice(&expiry.to_le_bytes());
        }
        if !self.is_even() {
            let bytes = self.bytes_mut();
            bytes.copy_within(count..2 * count, count + 1);
            bytes[2 * count + 1] = length;
            self.length_or_bytes += stored_bytes(length) as u16;
        }
    }

    fn add_length_column(&mut self) {
        let (count, common) = (self.count(), self.length_or_bytes as u8);
        self.reserve(count);
        work::moved(self.column_bytes());
        let record_bytes = self.record_bytes() as u16;
        let expiries = count..self.column_bytes();
        let bytes = self.bytes_mut();
        bytes.copy_within(expiries, 2 * count);
        bytes[count..2 * count].fill(common);
        self.length_or_bytes = record_bytes;
        self.flags |= UNEVEN;
    }

    /// Bytes that a column of lengths would add to the page; 0 if it has one.
    fn length_column_bytes(&self) -> usize {
        if self.is_even() { self.count() } else { 0 }
    }

    /// Upper bound of the bytes that a record stored in [`LARGE_BYTES`] or fewer adds to the page.
    pub(super) fn push_bytes_max(&self, expiry: u64) -> usize {
        let column = if expiry == NEVER { 0 } else { self.expiry_column_bytes() };
        self.length_column_bytes() + column + 2 + EXPIRY_BYTES + LARGE_BYTES
    }

    /// The record's bytes for overwriting, if a record of `length` bytes fits exactly.
    pub(super) fn overwrite(&mut self, slot: Slot, length: usize) -> Option<&mut [u8]> {
        let same = slot.length != LARGE && usize::from(slot.length) == stored_length(length);
        same.then(|| &mut self.bytes_mut()[slot.start..slot.start + length])
    }

    /// Removes an element; returns its record if it was out of line. The allocation stays as it is: see [`Page::fit`].
    #[inline(always)]
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Box<[u8]>> {
        let large = (slot.length == LARGE).then(|| {
            let (data, length) = self.large(slot);
            self.flags -= ONE_LARGE;
            // SAFETY: invariant 5: data and length came from `Box::into_raw`; the record that owned them is removed.
            unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data, length)) }
        });
        if self.is_even() {
            self.remove_evenly(slot);
        } else {
            self.remove_and_close(slot);
        }
        self.count -= 1;
        if self.expires() {
            self.drop_unused_expiry_column();
        }
        large
    }

    /// Moves the last element into the removed one's slot; both records have the same length.
    #[inline(always)]
    fn remove_evenly(&mut self, slot: Slot) {
        let (last, stored, expires) = (self.count() - 1, usize::from(slot.length), self.expires());
        let last_start = self.capacity() - self.record_bytes();
        work::moved(1 + stored);
        let bytes = self.bytes_mut();
        bytes.copy_within(last_start..last_start + stored, slot.start);
        bytes[slot.index] = bytes[last];
        if expires {
            work::moved(EXPIRY_BYTES * last);
            let (start, end) = (last + 1, last + 1 + EXPIRY_BYTES * last);
            bytes.copy_within(end..end + EXPIRY_BYTES, start + EXPIRY_BYTES * slot.index);
            bytes.copy_within(start..end, start - 1);
        }
    }

    /// Closes the gap: moves the columns behind the removed element, and the records beyond its own.
    #[inline(always)]
    fn remove_and_close(&mut self, slot: Slot) {
        let stored = stored_bytes(slot.length);
        let (count, index, expires) = (self.count(), slot.index, self.expires());
        let records_start = self.capacity() - self.record_bytes();
        work::moved(self.column_bytes() + slot.start - records_start);
        let bytes = self.bytes_mut();
        bytes.copy_within(records_start..slot.start, records_start + stored);
        bytes.copy_within(index + 1..count + index, index);
        if expires {
            let expiry = 2 * count + EXPIRY_BYTES * index;
            bytes.copy_within(count + index + 1..expiry, count + index - 1);
            bytes.copy_within(expiry + EXPIRY_BYTES..count * (2 + EXPIRY_BYTES), expiry - 2);
        } else {
            bytes.copy_within(count + index + 1..2 * count, count + index - 1);
        }
        self.length_or_bytes -= stored as u16;
    }

    // ---- expiry ----

    /// The element's expiry, [`NEVER`] if it has none.
    #[inline]
    pub(super) fn expiry(&self, index: usize) -> u64 {
        if !self.expires() {
            return NEVER;
        }
        let at = self.expiry_at(index);
        u64::from_le_bytes(*self.bytes()[at..].first_chunk().expect("invariant 3: the column is whole"))
    }

    fn expiry_at(&self, index: usize) -> usize {
        assert!(index < self.count(), "no slot {index} in a page of {}", self.count());
        self.searched_width() * self.count() + EXPIRY_BYTES * index
    }

    pub(super) fn set_expiry(&mut self, index: usize, expiry: u64) {
        if !self.expires() {
            if expiry == NEVER {
                return;
            }
            self.add_expiry_column();
        }
        let at = self.expiry_at(index);
        self.bytes_mut()[at..at + EXPIRY_BYTES].copy_from_slice(&expiry.to_le_bytes());
        if expiry == NEVER {
            self.drop_unused_expiry_column();
        }
    }

    /// The earliest expiry in the page, [`NEVER`] if there is none.
    pub(super) fn earliest_expiry(&self) -> u64 {
        if !self.expires() {
            return NEVER;
        }
        (0..self.count()).map(|index| self.expiry(index)).min().unwrap_or(NEVER)
    }

    pub(super) fn expiring_count(&self) -> usize {
        (0..self.count()).filter(|&index| self.expiry(index) != NEVER).count()
    }

    /// Bytes that an expiry column would add to the page; 0 if it has one.
    pub(super) fn expiry_column_bytes(&self) -> usize {
        if self.expires() { 0 } else { EXPIRY_BYTES * self.count() }
    }

    fn add_expiry_column(&mut self) {
        let start = self.column_bytes();
        self.reserve(EXPIRY_BYTES * self.count());
        self.flags |= EXPIRES;
        let end = self.column_bytes();
        self.bytes_mut()[start..end].fill(0xff);
    }

    fn drop_unused_expiry_column(&mut self) {
        if self.earliest_expiry() == NEVER {
            self.flags &= !EXPIRES;
        }
    }

    // ---- the allocation ----

    #[inline(always)]
    fn reserve(&mut self, extra: usize) {
        let needed = self.used() + extra;
        if needed > self.capacity() {
            self.reallocate(capacity_for(needed));
        }
    }

    /// Moves to a smaller allocation if a quarter of this one is free.
    #[inline(always)]
    pub(super) fn fit(&mut self) {
        let used = self.used();
        let wanted = used + used / 8;
        if self.capacity > 0 && wanted <= self.capacity() - size_step(self.capacity()).max(LANES) {
            self.reallocate(capacity_for(wanted));
        }
    }

    /// Moves the page to a new allocation of at least `used` bytes.
    #[inline(never)]
    fn reallocate(&mut self, capacity: usize) {
        let mut moved = self.bytes_in(capacity);
        moved.take_header(self);
        *self = moved;
    }

    /// A page with a copy of the columns and records in an allocation of `capacity`; its header is still empty.
    fn bytes_in(&self, capacity: usize) -> Page {
        let (columns, record_bytes) = (self.column_bytes(), self.record_bytes());
        work::moved(columns + record_bytes);
        let old = self.bytes();
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&old[..columns]);
        bytes.resize(capacity - record_bytes, 0);
        bytes.extend_from_slice(&old[old.len() - record_bytes..]);
        Page::of_bytes(bytes)
    }

    /// Copies the elements into an allocation that is no larger than needed.
    pub(super) fn copy(&self) -> Page {
        let capacity = capacity_for(self.used());
        let mut copy = self.bytes_in(capacity);
        if self.large_count() > 0 {
            for slot in self.slots().filter(|slot| slot.length == LARGE) {
                let hash = self.read_large(slot).2;
                copy.write_large(
                    slot.start + capacity - self.capacity(),
                    self.record(slot).bytes.into(),
                    hash,
                );
            }
        }
        // Set last: before, the records belonged to this page.
        (copy.count, copy.length_or_bytes, copy.flags) = (self.count, self.length_or_bytes, self.flags);
        copy
    }

    /// Creates a page of these bytes, with an empty header.
    fn of_bytes(bytes: Vec<u8>) -> Page {
        let mut page = Page::empty();
        page.set_bytes(bytes);
        page
    }

    /// Gives these bytes to a page that has no memory.
    fn set_bytes(&mut self, bytes: Vec<u8>) {
        let capacity = bytes.len();
        assert!(capacity <= PAGE_BYTES_MAX, "a page of {capacity} bytes: hashes are not spread");
        assert!(self.capacity == 0, "a page that has memory");
        if capacity > 0 {
            self.data = NonNull::from(Box::leak(bytes.into_boxed_slice())).cast();
            self.capacity = capacity as u16;
        }
    }

    /// Takes over the header, and with it the records whose bytes were copied; `from` is left empty.
    fn take_header(&mut self, from: &mut Page) {
        self.count = std::mem::take(&mut from.count);
        self.length_or_bytes = std::mem::take(&mut from.length_or_bytes);
        self.flags = std::mem::take(&mut from.flags);
    }

    // ---- splitting and merging ----

    /// Moves the elements with `moves[index]` to a new page, in order.
    pub(super) fn split(&mut self, moves: &[bool]) -> Page {
        assert!(moves.len() == self.count(), "one decision for each element");
        let stays = self.gather(moves, false);
        let moved = self.gather(moves, true);
        // The records' bytes, and with them the large records, now belong to the two new pages.
        (self.count, self.flags) = (0, 0);
        *self = stays;
        moved
    }

    /// Copies the elements with `moves[index] == side`. The caller must discard the originals.
    fn gather(&self, moves: &[bool], side: bool) -> Page {
        let chosen = || self.slots().filter(|slot| moves[slot.index] == side);
        let (mut count, mut record_bytes, mut large, mut expires) = (0, 0, 0, false);
        for slot in chosen() {
            count += 1;
            record_bytes += stored_bytes(slot.length);
            large += u16::from(slot.length == LARGE);
            expires |= self.expiry(slot.index) != NEVER;
        }
        let common = Self::common_length(chosen());
        let mut page = Page { count: count as u16, ..Page::empty() };
        page.set_form(common, record_bytes, expires);
        let width = page.searched_width();
        work::moved(page.used());
        let (from, mut to) = (self.bytes(), vec![0; capacity_for(page.used())]);
        let mut start = to.len();
        for (index, slot) in chosen().enumerate() {
            to[index] = from[slot.index];
            if common.is_none() {
                to[count + index] = slot.length;
            }
            if expires {
                let at = width * count + EXPIRY_BYTES * index;
                to[at..at + EXPIRY_BYTES].copy_from_slice(&self.expiry(slot.index).to_le_bytes());
            }
            let stored = stored_bytes(slot.length);
            start -= stored;
            to[start..start + stored].copy_from_slice(&from[slot.start..slot.start + stored]);
        }
        page.set_bytes(to);
        page.flags += large * ONE_LARGE;
        page
    }

    /// Sets which columns exist, and the length field: `common`, if all records have that length.
    fn set_form(&mut self, common: Option<u8>, record_bytes: usize, expires: bool) {
        self.length_or_bytes = common.map_or(record_bytes as u16, u16::from);
        self.flags = if common.is_none() { UNEVEN } else { 0 } | if expires { EXPIRES } else { 0 };
    }

    /// Appends all elements of `other`.
    pub(super) fn append(&mut self, mut other: Page) {
        let count = self.count() + other.count();
        let expires = self.expires() || other.expires();
        let record_bytes = self.record_bytes() + other.record_bytes();
        let common = Self::common_length(self.slots().chain(other.slots()));
        let mut page = Page { count: count as u16, ..Page::empty() };
        page.set_form(common, record_bytes, expires);
        work::moved(page.used());
        let capacity = capacity_for(page.used());
        let mut bytes = Vec::with_capacity(capacity);
        for from in [&*self, &other] {
            bytes.extend_from_slice(from.tags());
        }
        if common.is_none() {
            bytes.extend(self.slots().chain(other.slots()).map(|slot| slot.length));
        }
        if expires {
            for from in [&*self, &other] {
                (0..from.count()).for_each(|at| bytes.extend_from_slice(&from.expiry(at).to_le_bytes()));
            }
        }
        bytes.resize(capacity - record_bytes, 0);
        for from in [&other, &*self] {
            bytes.extend_from_slice(&from.bytes()[from.capacity() - from.record_bytes()..]);
        }
        page.set_bytes(bytes);
        page.flags += (self.large_count() + other.large_count()) as u16 * ONE_LARGE;
        for from in [&mut *self, &mut other] {
            (from.count, from.flags) = (0, 0);
        }
        *self = page;
    }

    /// Verifies the invariants of the page; panics naming the one that fails.
    pub(super) fn check(&self) {
        assert!(self.capacity().is_multiple_of(LANES) && self.capacity() <= PAGE_BYTES_MAX, "invariant 2");
        assert!(self.capacity() > 0 || self.count() == 0, "invariant 2: elements without memory");
        assert!(self.used() <= self.capacity(), "invariant 3: {} > {}", self.used(), self.capacity());
        let stored: usize = self.slots().map(|slot| stored_bytes(slot.length)).sum();
        assert_eq!(stored, self.record_bytes(), "invariant 4");
        let large = self.slots().filter(|slot| slot.length == LARGE).count();
        assert_eq!(large, self.large_count(), "invariant 5");
        assert_eq!(self.expires(), self.expiring_count() > 0, "invariant 7");
        assert!(!self.is_even() || large == 0 && self.length_or_bytes < u16::from(LARGE), "invariant 8");
        for slot in self.slots() {
            let direct = self.slot(slot.index);
            assert_eq!((direct.start, direct.length), (slot.start, slot.length), "invariant 4: sums agree");
        }
        let found = self.slots().map(|slot| self.record(slot).bytes.as_ptr_range());
        let found: Vec<_> = found.collect();
        let mut walked = Vec::new();
        self.records().for_each(|record| walked.push(record.bytes.as_ptr_range()));
        assert!(walked == found, "invariant 4: whole iterations agree");
        let mut steps = self.records();
        assert!(
            std::iter::from_fn(|| steps.next()).map(|record| record.bytes.as_ptr_range()).eq(found),
            "invariant 4: stepwise iterations agree"
        );
    }
}

/// Iterator over the records, the hot loop of full iterations: with [`Page::slots`], which checks bounds, a set's member
/// took 27 instead of 15 instructions.
pub(super) struct Records<'a> {
    page: &'a Page,
    left: usize,
    /// The next record's length, and the distance to the length after it.
    lengths: *const u8,
    step: usize,
    /// The end of the next record.
    at: *const u8,
}

impl<'a> Records<'a> {
    /// The record of this length whose bytes start at `at`.
    ///
    /// # Safety
    /// `at` is the start of a record of `page` with this length.
    #[inline(always)]
    unsafe fn record(page: &'a Page, at: *const u8, length: u8) -> Record<'a> {
        if length == LARGE {
            let slot = Slot { index: 0, start: at.addr() - page.data.as_ptr().addr(), length };
            return page.record(slot);
        }
        let length = usize::from(length) - usize::from(usize::from(length) > KEPT_MIN);
        // SAFETY: invariants 3 and 4, guaranteed by the caller.
        Record { bytes: unsafe { std::slice::from_raw_parts(at, length) }, large: false }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: invariant 8: the column has a length for each element; an even page reads its header's each time.
        let length = unsafe { *self.lengths };
        self.lengths = self.lengths.wrapping_add(self.step);
        self.at = self.at.wrapping_sub(stored_bytes(length));
        // SAFETY: invariant 4: the record ends at the old `at`, and this is its length.
        Some(unsafe { Self::record(self.page, self.at, length) })
    }

    /// Used by full iterations: in an even page every step is the same.
    #[inline(always)]
    fn fold<B, F: FnMut(B, Record<'a>) -> B>(self, init: B, mut f: F) -> B {
        let Records { page, left, mut lengths, step, mut at } = self;
        if step > 0 {
            let uneven = (0..left).map(|_| {
                // SAFETY: invariants 4 and 8, as in `next`.
                let length = unsafe { *lengths };
                lengths = lengths.wrapping_add(step);
                at = at.wrapping_sub(stored_bytes(length));
                // SAFETY: invariants 4 and 8, as in `next`.
                unsafe { Self::record(page, at, length) }
            });
            return uneven.fold(init, f);
        }
        let mut folded = init;
        let stored = usize::from(page.length_or_bytes);
        let length = stored - usize::from(stored > KEPT_MIN);
        for _ in 0..left {
            at = at.wrapping_sub(stored);
            // SAFETY: invariants 4 and 8, as in `next`.
            let bytes = unsafe { std::slice::from_raw_parts(at, length) };
            folded = f(folded, Record { bytes, large: false });
        }
        folded
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.large_count() > 0 {
            for slot in self.slots().filter(|slot| slot.length == LARGE) {
                let (data, length) = self.large(slot);
                // SAFETY: invariant 5: from `Box::into_raw`, and this page is its only owner.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data, length)) });
            }
        }
        if self.capacity > 0 {
            let bytes = ptr::slice_from_raw_parts_mut(self.data.as_ptr(), self.capacity());
            // SAFETY: invariant 1: `of_bytes` took it from a box of `capacity` bytes; it is freed once.
            drop(unsafe { Box::from_raw(bytes) });
        }
    }
}
