//! One page: some elements' records with columns of bytes in front, in one allocation.
//!
//! ```text
//!  0        count     2 count          [10 count]                          capacity
//!  | tag 0.. | length 0.. | expiry 0.. | free ->        <- .. | record 1 | record 0 |
//!      1 B        1 B        [8 B]
//! ```
//!
//! Columns are packed without spare slots, so up to 32 elements have both on one cache line.
//! A record of [`KEPT_MIN`] bytes or more is followed by a byte of its key's hash: a page splits without hashing keys that
//! are long. A hash of 100 bytes costs 300 instructions, and each of them is met by one or two splits for each insertion;
//! the byte costs 1.5 % of such records at most.
//!
//! A record is found by summing the lengths before it, which two or three vector instructions do: a column of
//! 2-byte offsets would cost a byte more an element and fetch a second line. The page's header (capacity,
//! counts) lies in the directory, where it is fetched with the page's address.
//!
//! # Invariants
//! 1. `data` is an allocation of `capacity` initialised bytes that this page owns; dangling if `capacity` is 0.
//! 2. `capacity` is a multiple of [`LANES`], at most [`PAGE_BYTES_MAX`], and 0 only if `count` is 0.
//! 3. Columns and records fit: `column_bytes + record_bytes <= capacity`.
//! 4. Record 0 ends at the page's end; each further record ends where the one before it starts. The stored
//!    lengths add up to `record_bytes`.
//! 5. A length of 0..=254 is the record's own, with the byte of the hash that follows a record of [`KEPT_MIN`] or more;
//!    255 means a *large* record: 16 bytes holding the pointer of a boxed slice that this page owns, its length in 40
//!    bits, and the lowest 24 bits of its key's hash, so that a page with keys of any length splits without reading them.
//!    `large_count` counts large records.
//! 6. The byte that follows a record has those bits of the hash which tell the next splits, from a multiple of 8 on: see
//!    [`kept_shift`].
//! 7. The expiry column exists if and only if some element expires; an element that does not has [`NEVER`].

use crate::byte_compare::{self, LANES};
use crate::prefetch::prefetch;
use crate::size_class::size_class;
use crate::work;
use std::ptr::{self, NonNull};

/// The largest page: its counts are 16 bits wide. The table splits pages long before.
pub(super) const PAGE_BYTES_MAX: usize = 57_344;
/// The longest record kept in the page itself.
pub(super) const INLINE_MAX: usize = 253;
/// From so many bytes on, a byte of the key's hash is kept with a record.
pub(super) const KEPT_MIN: usize = 64;
/// What the expiry column holds for an element that does not expire.
pub(super) const NEVER: u64 = u64::MAX;

const PAGE_BYTES_MIN: usize = 64;
const LARGE: u8 = 255;
/// What a record that lies out of line takes of the page.
pub(super) const LARGE_BYTES: usize = 16;
const LARGE_LENGTH_BITS: u32 = 40;
/// Bits of the hash kept with a large record, the lowest: enough for 16 million pages.
pub(super) const KEPT_HASH_BITS: u32 = u64::BITS - LARGE_LENGTH_BITS;
const EXPIRY_BYTES: usize = 8;
const LINE_BYTES: usize = 64;
/// A page with less room than this is likely to move when a record comes.
const MOVING_BYTES: usize = 64;

/// A page's header; lives in the directory.
pub(super) struct Page {
    data: NonNull<u8>,
    capacity: u16,
    record_bytes: u16,
    count: u16,
    /// Twice the number of large records, plus one if the expiry column exists.
    large_and_expiry: u16,
}

const _: () = assert!(size_of::<Page>() == 16, "four headers to a cache line");

// SAFETY: a page owns its allocation and its large records (invariants 1 and 5) and shares them with nobody.
unsafe impl Send for Page {}
// SAFETY: through `&Page` memory is only read.
unsafe impl Sync for Page {}

/// Where an element lies in its page. Any change of the page makes it stale.
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

/// The allocation that holds `bytes` of columns and records.
pub(super) fn capacity_for(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { size_class(bytes.max(PAGE_BYTES_MIN)).next_multiple_of(LANES) }
}

/// Which bits of a hash follow a record in a page whose elements agree in the lowest `depth`: the 8 from this one on.
#[inline(always)]
pub(super) fn kept_shift(depth: u32) -> u32 {
    depth & !7
}

/// The length that the column holds for a record that lies in the page.
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
        Page { data: NonNull::dangling(), capacity: 0, record_bytes: 0, count: 0, large_and_expiry: 0 }
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
        self.column_bytes() + usize::from(self.record_bytes)
    }

    #[inline(always)]
    pub(super) fn expires(&self) -> bool {
        self.large_and_expiry & 1 == 1
    }

    #[inline(always)]
    pub(super) fn address(&self) -> *const u8 {
        self.data.as_ptr()
    }

    #[inline(always)]
    fn large_count(&self) -> usize {
        usize::from(self.large_and_expiry >> 1)
    }

    /// Bytes of all columns together, for each element.
    #[inline(always)]
    fn column_width(&self) -> usize {
        if self.expires() { 2 + EXPIRY_BYTES } else { 2 }
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

    // ---- looking ----

    /// The element with this tag whose record `matches` accepts.
    #[inline(always)]
    pub(super) fn find(&self, tag: u8, matches: impl Fn(Record<'_>) -> bool) -> Option<Slot> {
        self.find_slot(tag, |slot| matches(self.record(slot)))
    }

    /// The first element with this tag that `accept` takes; reads columns only.
    #[inline(always)]
    pub(super) fn find_slot(&self, tag: u8, mut accept: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let bytes = self.bytes();
        let count = self.count();
        let mut group_start = 0;
        while group_start < count {
            let group = bytes[group_start..].first_chunk().expect("invariant 2: whole groups");
            let mut mask = byte_compare::equal(group, tag);
            let left = count - group_start;
            if left < LANES {
                mask &= (1 << left) - 1;
            }
            while mask != 0 {
                let slot = self.slot(group_start + mask.trailing_zeros() as usize);
                if accept(slot) {
                    return Some(slot);
                }
                mask &= mask - 1;
            }
            group_start += LANES;
        }
        None
    }

    /// The element at `index < count`.
    #[inline(always)]
    pub(super) fn slot(&self, index: usize) -> Slot {
        let count = self.count();
        assert!(index < count, "no slot {index} in a page of {count}");
        let bytes = self.bytes();
        let length = bytes[count + index];
        let mut end_distance = byte_compare::sum(bytes, count, count + index) + stored_bytes(length);
        if self.large_count() > 0 {
            let large = byte_compare::count_equal(bytes, count, count + index, LARGE);
            end_distance -= large * (usize::from(LARGE) - LARGE_BYTES);
        }
        Slot { index, start: self.capacity() - end_distance, length }
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

    /// Every slot in order.
    #[inline]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let count = self.count();
        let mut start = self.capacity();
        let lengths = &self.bytes()[count.min(self.capacity())..(2 * count).min(self.capacity())];
        lengths.iter().enumerate().map(move |(index, &length)| {
            start -= stored_bytes(length);
            Slot { index, start, length }
        })
    }

    /// First and last byte of the record as stored in the page, for prefetching.
    pub(super) fn stored_range(&self, slot: Slot) -> std::ops::Range<*const u8> {
        self.bytes()[slot.start..slot.start + stored_bytes(slot.length)].as_ptr_range()
    }

    /// Asks for the columns and for the line where the next record goes.
    pub(super) fn prefetch_insertion(&self) {
        if self.capacity() < self.used() + MOVING_BYTES {
            return self.prefetch_whole();
        }
        for line in (0..self.column_bytes()).step_by(LINE_BYTES) {
            prefetch(self.address().wrapping_add(line));
        }
        prefetch(
            self.address().wrapping_add(self.capacity() - usize::from(self.record_bytes)).wrapping_sub(1),
        );
    }

    /// Asks for all of it.
    pub(super) fn prefetch_whole(&self) {
        for line in (0..self.capacity()).step_by(LINE_BYTES) {
            prefetch(self.address().wrapping_add(line));
        }
    }

    /// Asks for the start of a record that lies out of line; reads the record's place in the page.
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

    /// Where the byte of the hash stands that follows the record, if one does.
    fn kept_at(slot: Slot) -> Option<usize> {
        let length = usize::from(slot.length);
        (slot.length != LARGE && length > KEPT_MIN).then(|| slot.start + length - 1)
    }

    /// The byte of its key's hash that follows the record, if one does.
    pub(super) fn kept_byte(&self, slot: Slot) -> Option<u8> {
        Self::kept_at(slot).map(|at| self.bytes()[at])
    }

    /// Writes anew what follows the record, if anything does.
    pub(super) fn set_kept_byte(&mut self, slot: Slot, byte: u8) {
        if let Some(at) = Self::kept_at(slot) {
            self.bytes_mut()[at] = byte;
        }
    }

    /// As [`Page::set_kept_byte`], alike for all records.
    pub(super) fn set_kept_bytes(&mut self, byte: u8) {
        let mut end = self.capacity();
        for index in self.count()..2 * self.count() {
            let length = self.bytes()[index];
            let start = end - stored_bytes(length);
            self.set_kept_byte(Slot { index: index - self.count(), start, length }, byte);
            end = start;
        }
    }

    /// Address and length of the record's bytes, and the bits kept of its key's hash.
    fn read_large(&self, slot: Slot) -> (*mut u8, usize, u64) {
        assert!(slot.length == LARGE, "the record lies in the page");
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
        self.large_and_expiry += 2;
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

    /// Makes room for a record behind all others and enters its columns; returns where it starts.
    fn push(&mut self, tag: u8, length: u8, expiry: u64) -> usize {
        if expiry != NEVER && !self.expires() {
            self.add_expiry_column();
        }
        let stored = stored_bytes(length);
        self.reserve(self.column_width() + stored);
        let count = self.count();
        let expires = self.expires();
        work::moved(self.column_bytes() + stored);
        let bytes = self.bytes_mut();
        if expires {
            let end = count * (2 + EXPIRY_BYTES);
            bytes.copy_within(2 * count..end, 2 * count + 2);
            bytes[end + 2..end + 2 + EXPIRY_BYTES].copy_from_slice(&expiry.to_le_bytes());
        }
        bytes.copy_within(count..2 * count, count + 1);
        bytes[count] = tag;
        bytes[2 * count + 1] = length;
        self.count += 1;
        self.record_bytes += stored as u16;
        self.capacity() - usize::from(self.record_bytes)
    }

    /// The most that a record stored in [`LARGE_BYTES`] or fewer adds to the page.
    pub(super) fn push_bytes_max(&self, expiry: u64) -> usize {
        let column = if expiry == NEVER { 0 } else { self.expiry_column_bytes() };
        column + 2 + EXPIRY_BYTES + LARGE_BYTES
    }

    /// The record's bytes, to be overwritten, if a record of `length` bytes fits its place exactly.
    pub(super) fn overwrite(&mut self, slot: Slot, length: usize) -> Option<&mut [u8]> {
        let same = slot.length != LARGE && usize::from(slot.length) == stored_length(length);
        same.then(|| &mut self.bytes_mut()[slot.start..slot.start + length])
    }

    /// Removes an element; returns its record if that lay out of line. The allocation stays as it is: see
    /// [`Page::fit`].
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Box<[u8]>> {
        let large = (slot.length == LARGE).then(|| {
            let (data, length) = self.large(slot);
            self.large_and_expiry -= 2;
            // SAFETY: invariant 5: data and length came from `Box::into_raw`; the record that owned them goes.
            unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data, length)) }
        });
        let stored = stored_bytes(slot.length);
        let (count, index, expires) = (self.count(), slot.index, self.expires());
        let records_start = self.capacity() - usize::from(self.record_bytes);
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
        self.count -= 1;
        self.record_bytes -= stored as u16;
        if expires {
            self.drop_unused_expiry_column();
        }
        large
    }

    // ---- expiry ----

    /// When the element expires, [`NEVER`] if it does not.
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
        2 * self.count() + EXPIRY_BYTES * index
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

    /// What the column of expiries would add to the page; 0 if it has one.
    pub(super) fn expiry_column_bytes(&self) -> usize {
        if self.expires() { 0 } else { EXPIRY_BYTES * self.count() }
    }

    fn add_expiry_column(&mut self) {
        let count = self.count();
        self.reserve(EXPIRY_BYTES * count);
        self.large_and_expiry |= 1;
        self.bytes_mut()[2 * count..(2 + EXPIRY_BYTES) * count].fill(0xff);
    }

    fn drop_unused_expiry_column(&mut self) {
        if self.earliest_expiry() == NEVER {
            self.large_and_expiry &= !1;
        }
    }

    // ---- the allocation ----

    fn reserve(&mut self, extra: usize) {
        let needed = self.used() + extra;
        if needed > self.capacity() {
            self.reallocate(capacity_for(needed));
        }
    }

    /// Moves to a smaller allocation if a quarter of this one is free.
    pub(super) fn fit(&mut self) {
        let used = self.used();
        let wanted = capacity_for(used + used / 8);
        if wanted < self.capacity() {
            self.reallocate(wanted);
        }
    }

    /// Moves the page to a new allocation of at least `used` bytes.
    pub(super) fn reallocate(&mut self, capacity: usize) {
        let mut moved = self.bytes_in(capacity);
        moved.take_header(self);
        *self = moved;
    }

    /// The columns and records in an allocation of `capacity`; the new header is still empty.
    fn bytes_in(&self, capacity: usize) -> Page {
        let (columns, record_bytes) = (self.column_bytes(), usize::from(self.record_bytes));
        work::moved(columns + record_bytes);
        let old = self.bytes();
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&old[..columns]);
        bytes.resize(capacity - record_bytes, 0);
        bytes.extend_from_slice(&old[old.len() - record_bytes..]);
        Page::of_bytes(bytes)
    }

    /// The same elements in memory of their own, no more than they take.
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
        // Only now: before, they were the records of this page.
        (copy.count, copy.record_bytes) = (self.count, self.record_bytes);
        copy.large_and_expiry = self.large_and_expiry;
        copy
    }

    /// A page of these bytes, with an empty header.
    fn of_bytes(bytes: Vec<u8>) -> Page {
        let capacity = bytes.len();
        assert!(capacity <= PAGE_BYTES_MAX, "a page of {capacity} bytes: hashes are not spread");
        if capacity == 0 {
            return Page::empty();
        }
        let data = NonNull::from(Box::leak(bytes.into_boxed_slice())).cast();
        Page { data, capacity: capacity as u16, ..Page::empty() }
    }

    /// Takes over the ownership of records whose bytes were copied; `from` is left empty.
    fn take_header(&mut self, from: &mut Page) {
        self.record_bytes = std::mem::take(&mut from.record_bytes);
        self.count = std::mem::take(&mut from.count);
        self.large_and_expiry = std::mem::take(&mut from.large_and_expiry);
    }

    // ---- splitting and merging ----

    /// Moves the elements with `moves[index]` to a new page, in order.
    pub(super) fn split(&mut self, moves: &[bool]) -> Page {
        assert!(moves.len() == self.count(), "one decision for each element");
        let stays = self.gather(moves, false);
        let moved = self.gather(moves, true);
        // The records' bytes, and with them the large records, now belong to the two new pages.
        self.count = 0;
        self.large_and_expiry = 0;
        *self = stays;
        moved
    }

    /// A copy of the elements with `moves[index] == side`. The caller gives up the originals.
    fn gather(&self, moves: &[bool], side: bool) -> Page {
        let chosen = || self.slots().filter(|slot| moves[slot.index] == side);
        let (mut count, mut record_bytes, mut large, mut expires) = (0, 0, 0, false);
        for slot in chosen() {
            count += 1;
            record_bytes += stored_bytes(slot.length);
            large += usize::from(slot.length == LARGE);
            expires |= self.expiry(slot.index) != NEVER;
        }
        let width = if expires { 2 + EXPIRY_BYTES } else { 2 };
        work::moved(count * width + record_bytes);
        let (from, mut to) = (self.bytes(), vec![0; capacity_for(count * width + record_bytes)]);
        let mut start = to.len();
        for (index, slot) in chosen().enumerate() {
            to[index] = from[slot.index];
            to[count + index] = slot.length;
            if expires {
                let at = 2 * count + EXPIRY_BYTES * index;
                to[at..at + EXPIRY_BYTES].copy_from_slice(&self.expiry(slot.index).to_le_bytes());
            }
            let stored = stored_bytes(slot.length);
            start -= stored;
            to[start..start + stored].copy_from_slice(&from[slot.start..slot.start + stored]);
        }
        let mut page = Page::of_bytes(to);
        page.count = count as u16;
        page.record_bytes = record_bytes as u16;
        page.large_and_expiry = (large * 2 + usize::from(expires)) as u16;
        page
    }

    /// Adds all elements of `other` behind this page's own.
    pub(super) fn append(&mut self, mut other: Page) {
        let count = self.count() + other.count();
        let expires = self.expires() || other.expires();
        let width = if expires { 2 + EXPIRY_BYTES } else { 2 };
        let record_bytes = usize::from(self.record_bytes) + usize::from(other.record_bytes);
        let capacity = capacity_for(count * width + record_bytes);
        work::moved(count * width + record_bytes);
        let mut bytes = Vec::with_capacity(capacity);
        for from in [&*self, &other] {
            bytes.extend_from_slice(&from.bytes()[..from.count()]);
        }
        for from in [&*self, &other] {
            bytes.extend_from_slice(&from.bytes()[from.count()..2 * from.count()]);
        }
        if expires {
            for from in [&*self, &other] {
                (0..from.count()).for_each(|at| bytes.extend_from_slice(&from.expiry(at).to_le_bytes()));
            }
        }
        bytes.resize(capacity - record_bytes, 0);
        for from in [&other, &*self] {
            bytes.extend_from_slice(&from.bytes()[from.capacity() - usize::from(from.record_bytes)..]);
        }
        let mut page = Page::of_bytes(bytes);
        page.count = count as u16;
        page.record_bytes = record_bytes as u16;
        page.large_and_expiry =
            ((self.large_count() + other.large_count()) * 2 + usize::from(expires)) as u16;
        for from in [&mut *self, &mut other] {
            from.count = 0;
            from.large_and_expiry = 0;
        }
        *self = page;
    }

    /// Panics naming the invariant of the page that fails.
    pub(super) fn check(&self) {
        assert!(self.capacity().is_multiple_of(LANES) && self.capacity() <= PAGE_BYTES_MAX, "invariant 2");
        assert!(self.capacity() > 0 || self.count() == 0, "invariant 2: elements without memory");
        assert!(self.used() <= self.capacity(), "invariant 3: {} > {}", self.used(), self.capacity());
        let stored: usize = self.slots().map(|slot| stored_bytes(slot.length)).sum();
        assert_eq!(stored, usize::from(self.record_bytes), "invariant 4");
        let large = self.slots().filter(|slot| slot.length == LARGE).count();
        assert_eq!(large, self.large_count(), "invariant 5");
        assert_eq!(self.expires(), self.expiring_count() > 0, "invariant 7");
        for slot in self.slots() {
            let direct = self.slot(slot.index);
            assert_eq!((direct.start, direct.length), (slot.start, slot.length), "invariant 4: sums agree");
        }
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
            // SAFETY: invariant 1: `of_bytes` took it from a box of so many bytes; it is freed once.
            drop(unsafe { Box::from_raw(bytes) });
        }
    }
}
