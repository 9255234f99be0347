//! The table behind [`super::PackedMap`] and [`super::PackedSet`]: pages found by hash, split and merged one at a time. A
//! [`Format`] interprets the records.

use super::directory::Directory;
use super::expiry::EarliestExpiries;
use super::page::{
    INLINE_MAX, KEPT_HASH_BITS, KEPT_MIN, LARGE_BYTES, NEVER, PAGE_BYTES_MAX, Page, Record, Slot, kept_shift,
};
use crate::byte_compare::LANES;
use crate::hash::HashSeed;
use crate::prefetch::prefetch;
use crate::short_bytes::same_bytes;
use crate::size_class::usable_size;
use crate::work;
use std::marker::PhantomData;

/// Elements a page holds on average before one is split: at 32 tags and lengths fill one cache line. Pages not
/// yet split in a round hold up to twice as many.
const PAGE_ELEMENTS: usize = 32;
/// Bytes a page holds on average before one is split.
const PAGE_BYTES: usize = 1024;
/// Pages are merged once the average falls below this share of both limits above.
const MERGE_DIVISOR: usize = 2;
/// A page with more bytes is *crowded*. Averages do not predict it: elements added or removed in scan order share their
/// lowest hash bits, and so their page. Before it takes another record, pages are split until its turn comes; while it
/// waits, its new records are put out of line.
const CROWD_BYTES: usize = 16 << 10;
/// Two pages that would hold more together are not merged: half, so that the next insertion does not split them again.
const MERGED_BYTES_MAX: usize = CROWD_BYTES / 2;
/// Maximum cost of relieving a crowded page in one call: one for each page split and one for each 64 bytes in it. From
/// crowded to full, a page takes over a thousand records.
const RELIEF_COST_MAX: usize = 256;
const RELIEF_COST_BYTES: usize = 64;
/// Merges after one removal, or one value that became shorter: directories that grew to relieve a crowded page shrink
/// faster than elements are removed.
const MERGES_MAX: usize = 2;

/// Tables of fewer pages are in the caches, or soon are. With all fetches issued together, 100 short members added together
/// took 4 % longer in a set of 10,000 (300 pages) and half as long in one of a million: 40 instead of 75 us. There another
/// 12 % come from prefetching whole pages that are about to move or to be split.
const COLD_PAGES_MIN: usize = if cfg!(test) { 4 } else { 512 };
/// Factor by which an announced number of elements may exceed the number present.
const BELIEVED: usize = 16;
/// Number of keys inserted together: their pages are fetched together.
const INSERTED_TOGETHER: usize = 16;

const _: () = assert!(2 * PAGE_ELEMENTS <= LANES, "a page not yet split is mostly searched in one step");

/// How a key and a value form a record.
pub(super) trait Format {
    /// Bytes of the record, kept in the page (`large` false) or out of line.
    fn record_len(key: &[u8], value: &[u8], large: bool) -> usize;
    /// Fills exactly `record_len` bytes.
    fn write(key: &[u8], value: &[u8], large: bool, record: &mut [u8]);
    /// Splits a record into key and value.
    fn read(record: Record<'_>) -> (&[u8], &[u8]);

    /// The value, if the record is that of `key`.
    #[inline(always)]
    fn value_of<'a>(record: Record<'a>, key: &[u8]) -> Option<&'a [u8]> {
        let (held, value) = Self::read(record);
        same_bytes(held, key).then_some(value)
    }
}

/// The new expiry of a key that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Unchanged; none if the key is new.
    Keep,
    /// No expiry.
    Clear,
    /// This time, in milliseconds since the epoch.
    AtMs(i64),
}

/// The effect of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The key was not there.
    Added,
    /// The key was there; its value, if it has one, is now the new one.
    Replaced,
}

pub(super) fn expiry_column(at_ms: Option<i64>) -> u64 {
    at_ms.map_or(NEVER, |ms| ms.max(0) as u64)
}

pub(super) fn expiry_ms(column: u64) -> Option<i64> {
    (column != NEVER).then_some(column as i64)
}

/// Takes key, value and expiry column.
pub(super) type VisitColumns<'a> = dyn FnMut(&[u8], &[u8], u64) + 'a;

pub(super) struct Table<F> {
    pub(super) directory: Directory,
    pub(super) seed: HashSeed,
    len: usize,
    /// Sum of all pages' columns and records.
    used_bytes: usize,
    /// Sum of all pages' allocations.
    page_bytes: usize,
    /// Sum of all large records' allocations.
    large_bytes: usize,
    /// Upper bounds of the elements of a page that this round has not split, and of one that it has.
    pub(super) count_bounds: CountBounds,
    pub(super) expiring_len: usize,
    pub(super) earliest: Option<Box<EarliestExpiries>>,
    format: PhantomData<F>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct CountBounds {
    pub(super) unsplit: u16,
    pub(super) split: u16,
}

/// Copies page by page, each into the smallest allocation.
impl<F> Clone for Table<F> {
    fn clone(&self) -> Self {
        let directory = self.directory.copy();
        let page_bytes = directory.pages().map(Page::capacity).sum();
        Table {
            directory,
            seed: self.seed,
            len: self.len,
            used_bytes: self.used_bytes,
            page_bytes,
            large_bytes: self.large_bytes,
            count_bounds: self.count_bounds,
            expiring_len: self.expiring_len,
            earliest: self.earliest.clone(),
            format: PhantomData,
        }
    }
}

impl<F: Format> Table<F> {
    pub(super) const fn new(seed: HashSeed) -> Self {
        Table {
            directory: Directory::new(),
            seed,
            len: 0,
            used_bytes: 0,
            page_bytes: 0,
            large_bytes: 0,
            count_bounds: CountBounds { unsplit: 0, split: 0 },
            expiring_len: 0,
            earliest: None,
            format: PhantomData,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_in_line(key)
    }

    /// The byte of a hash kept in the tag column: its highest, as the lowest bits select the page.
    #[inline(always)]
    pub(super) fn tag(hash: u64) -> u8 {
        (hash >> 56) as u8
    }

    #[inline(always)]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<(usize, Slot)> {
        let (index, page) = self.page_of(hash)?;
        let held = |slot, record| F::value_of(record, key).map(|_| slot);
        Some((index, page.find(Self::tag(hash), held)?))
    }

    /// The page that the hash selects; none if the table is empty.
    #[inline(always)]
    fn page_of(&self, hash: u64) -> Option<(usize, &Page)> {
        if self.len == 0 {
            return None;
        }
        work::visited(1);
        let index = self.directory.index(hash);
        Some((index, self.directory.page(index)))
    }

    #[inline(always)]
    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let (_, page) = self.page_of(hash)?;
        page.find(Self::tag(hash), |_, record| F::value_of(record, key))
    }

    #[inline]
    pub(super) fn read(&self, index: usize, slot: Slot) -> (&[u8], &[u8]) {
        F::read(self.directory.page(index).record(slot))
    }

    // ---- adding and replacing ----

    /// Adds the key or replaces its value.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], expiry: Expiry) -> Insertion {
        let Some((index, slot)) = self.find(hash, key) else {
            let at_ms = if let Expiry::AtMs(ms) = expiry { Some(ms) } else { None };
            self.add(hash, key, value, expiry_column(at_ms));
            return Insertion::Added;
        };
        self.replace((index, slot), hash, key, value, expiry);
        self.split_if_full();
        Insertion::Replaced
    }

    /// Inserts keys with their values by `insert`, which is given the hash too and returns whether the key is new; returns the
    /// number of new keys. The pages of a group of insertions are prefetched together, unless the table is in the caches.
    #[inline]
    pub(super) fn insert_all<'a>(
        &mut self,
        mut pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        mut insert: impl FnMut(&mut Self, u64, &[u8], &[u8]) -> bool,
    ) -> usize {
        if self.directory.len() < COLD_PAGES_MIN {
            return pairs.filter(|&(key, value)| insert(self, self.hash(key), key, value)).count();
        }
        let mut added = 0;
        let mut group: [(u64, &[u8], &[u8]); INSERTED_TOGETHER] = [(0, b"", b""); INSERTED_TOGETHER];
        loop {
            let mut count = 0;
            for (place, (key, value)) in group.iter_mut().zip(pairs.by_ref()) {
                *place = (self.hash(key), key, value);
                count += 1;
            }
            self.prefetch_insertions(group[..count].iter().map(|&(hash, ..)| hash));
            for &(hash, key, value) in &group[..count] {
                added += usize::from(insert(self, hash, key, value));
            }
            if count < INSERTED_TOGETHER {
                return added;
            }
        }
    }

    /// Prefetches what insertions with these hashes read first, all at once: a table of many pages is not in the caches.
    fn prefetch_insertions(&self, hashes: impl Iterator<Item = u64> + Clone) {
        hashes.clone().for_each(|hash| prefetch(self.directory.page(self.directory.index(hash))));
        hashes.for_each(|hash| self.directory.page(self.directory.index(hash)).prefetch_insertion());
        // Some of the insertions will split the next pages in turn.
        let (next, _) = self.directory.shape().next_split();
        self.directory.page(next).prefetch_whole();
    }

    /// Adds a key that is not in the table.
    pub(super) fn add(&mut self, hash: u64, key: &[u8], value: &[u8], expiry: u64) {
        if expiry != NEVER || !self.push_plain(hash, key, value) {
            if self.directory.len() == 0 {
                self.add_page(Page::empty());
            }
            self.push(hash, key, value, expiry);
        }
        self.len += 1;
        self.split_if_full();
    }

    /// Adds a record to a page that has room and keeps its form, the common case; returns false otherwise.
    #[inline(always)]
    fn push_plain(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        if self.len == 0 {
            return false;
        }
        let index = self.directory.index(hash);
        let page = self.directory.page_mut(index);
        let len = F::record_len(key, value, false);
        let write = |record: &mut [u8]| F::write(key, value, false, record);
        let Some(more) = page.push_plain(Self::tag(hash), len, CROWD_BYTES, write) else { return false };
        self.used_bytes += more;
        self.note_count(index);
        true
    }

    fn replace(&mut self, at: (usize, Slot), hash: u64, key: &[u8], value: &[u8], expiry: Expiry) {
        let (index, slot) = at;
        let page = self.directory.page_mut(index);
        let before = page.expiry(slot.index);
        let after = match expiry {
            Expiry::Keep => before,
            Expiry::Clear => NEVER,
            Expiry::AtMs(ms) => expiry_column(Some(ms)),
        };
        let len = F::record_len(key, value, false);
        if let Some(record) = page.overwrite(slot, len) {
            F::write(key, value, false, record);
            if before != after {
                self.set_expiry((index, slot), hash, key, after);
            }
            return;
        }
        self.remove_slot(index, slot, |_| ());
        let index = self.push(hash, key, value, after);
        self.edit(index, Page::fit);
        self.merge_while_sparse(MERGES_MAX);
    }

    /// Adds a record and returns its page; the caller adjusts `len`.
    fn push(&mut self, hash: u64, key: &[u8], value: &[u8], expiry: u64) -> usize {
        let tag = Self::tag(hash);
        let len = F::record_len(key, value, false);
        let mut index = self.directory.index(hash);
        let mut inline_max = INLINE_MAX;
        if self.directory.page(index).used() > CROWD_BYTES {
            if self.relieve(hash, |page| page.push_bytes_max(expiry)) {
                inline_max = LARGE_BYTES;
            }
            index = self.directory.index(hash);
        }
        if len <= inline_max {
            let kept = if len < KEPT_MIN { 0 } else { self.kept_byte(hash, index) };
            self.edit(index, |page| {
                page.push_inline(tag, len, kept, expiry, |record| F::write(key, value, false, record));
            });
        } else {
            let mut record = vec![0; F::record_len(key, value, true)].into_boxed_slice();
            F::write(key, value, true, &mut record);
            self.large_bytes += usable_size(record.len());
            self.edit(index, |page| page.push_large(tag, hash, record, expiry));
        }
        self.note_count(index);
        if expiry != NEVER {
            self.expiring_len += 1;
            self.note_expiry(index);
        }
        index
    }

    /// The hash byte that follows a long record with this hash in its page.
    fn kept_byte(&self, hash: u64, index: usize) -> u8 {
        (hash >> kept_shift(self.directory.shape().depth_of(index))) as u8
    }

    /// Changes a page and updates the sums of all pages.
    #[inline(always)]
    fn edit<R>(&mut self, index: usize, change: impl FnOnce(&mut Page) -> R) -> R {
        let page = self.directory.page_mut(index);
        self.used_bytes -= page.used();
        self.page_bytes -= page.capacity();
        let result = change(page);
        self.used_bytes += page.used();
        self.page_bytes += page.capacity();
        result
    }

    #[inline]
    fn note_count(&mut self, index: usize) {
        let count = self.directory.page(index).count() as u16;
        let bounds = &mut self.count_bounds;
        if count <= bounds.split.min(bounds.unsplit) {
            return;
        }
        let bound =
            if self.directory.shape().is_split(index) { &mut bounds.split } else { &mut bounds.unsplit };
        *bound = count.max(*bound);
    }

    // ---- removing ----

    /// Removes the key's element and passes its value to `removed`; none if the key is not in the table.
    #[inline(always)]
    pub(super) fn take<R>(&mut self, hash: u64, key: &[u8], removed: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if self.len == 0 {
            return None;
        }
        let index = self.directory.index(hash);
        let page = self.directory.page_mut(index);
        if !page.is_plain() {
            return self.take_from_any(hash, key, removed);
        }
        work::visited(1);
        let held = |slot, record| Some((slot, F::value_of(record, key)?));
        let (slot, value) = page.find(Self::tag(hash), held)?;
        let result = removed(value);
        self.used_bytes -= page.remove_plain(slot);
        let is_loose = page.is_loose_plain();
        self.len -= 1;
        if is_loose || self.is_sparse() {
            self.shrink(index);
        }
        Some(result)
    }

    /// As [`Table::take`], from a page of any kind.
    #[inline(never)]
    fn take_from_any<R>(&mut self, hash: u64, key: &[u8], removed: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (index, slot) = self.find(hash, key)?;
        let result = removed(self.read(index, slot).1);
        self.remove_slot(index, slot, Page::fit);
        self.len -= 1;
        self.merge_while_sparse(MERGES_MAX);
        Some(result)
    }

    /// Shrinks the page and merges pages after a removal.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self, index: usize) {
        self.edit(index, Page::fit);
        self.merge_while_sparse(MERGES_MAX);
    }

    /// Removes an element and applies `follow` to its page; the caller adjusts `len`.
    #[inline(always)]
    fn remove_slot(&mut self, index: usize, slot: Slot, follow: impl FnOnce(&mut Page)) {
        let expiry = self.directory.page(index).expiry(slot.index);
        let large = self.edit(index, |page| {
            let large = page.remove(slot);
            follow(page);
            large
        });
        if let Some(record) = large {
            self.large_bytes -= usable_size(record.len());
        }
        if expiry != NEVER {
            self.expiring_len -= 1;
            self.note_expiry(index);
        }
    }

    // ---- expiry ----

    /// Sets the expiry of an element at a position just found; the position is invalid afterwards.
    pub(super) fn set_expiry(&mut self, at: (usize, Slot), hash: u64, key: &[u8], expiry: u64) {
        let (mut index, mut slot) = at;
        let page = self.directory.page(index);
        if expiry != NEVER && page.used() > CROWD_BYTES && !page.expires() {
            self.relieve(hash, Page::expiry_column_bytes);
            (index, slot) = self.find(hash, key).expect("splitting pages loses no element");
        }
        let slot_index = slot.index;
        let before = self.directory.page(index).expiry(slot_index);
        self.edit(index, |page| page.set_expiry(slot_index, expiry));
        self.expiring_len += usize::from(expiry != NEVER);
        self.expiring_len -= usize::from(before != NEVER);
        self.note_expiry(index);
        if expiry == NEVER && before != NEVER && !self.directory.page(index).expires() {
            self.edit(index, Page::fit);
            self.merge_while_sparse(MERGES_MAX);
        }
    }

    /// Updates the tree of earliest expiries for a page; it exists only while something expires.
    fn note_expiry(&mut self, index: usize) {
        if self.expiring_len == 0 {
            self.earliest = None;
            return;
        }
        let earliest = self.earliest.get_or_insert_default();
        earliest.set(index, self.directory.page(index).earliest_expiry());
    }

    /// Removes up to `limit` elements that expire before `now`, passing each to `visit`; returns their number.
    pub(super) fn remove_expired(
        &mut self,
        now: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> usize {
        let mut removed = 0;
        while removed < limit {
            let Some(earliest) = self.earliest.as_ref().filter(|all| all.earliest() < now) else { break };
            let Some(index) = earliest.earliest_page() else { break };
            removed += self.expire_page(index, now, limit - removed, visit);
        }
        removed
    }

    fn expire_page(
        &mut self,
        index: usize,
        now: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> usize {
        let mut removed = 0;
        for slot_index in (0..self.directory.page(index).count()).rev() {
            let page = self.directory.page(index);
            if removed == limit || page.expiry(slot_index) >= now {
                continue;
            }
            let slot = page.slot(slot_index);
            let (key, value) = F::read(page.record(slot));
            visit(key, value);
            self.remove_slot(index, slot, |_| ());
            self.len -= 1;
            removed += 1;
        }
        self.edit(index, Page::fit);
        self.merge_while_sparse(removed * MERGES_MAX);
        removed
    }

    // ---- growing and shrinking ----

    fn add_page(&mut self, page: Page) {
        self.used_bytes += page.used();
        self.page_bytes += page.capacity();
        if let Some(earliest) = &mut self.earliest {
            earliest.set(self.directory.len(), page.earliest_expiry());
        }
        self.directory.push(page);
    }

    fn take_last_page(&mut self) -> Option<Page> {
        let page = self.directory.pop()?;
        self.used_bytes -= page.used();
        self.page_bytes -= page.capacity();
        if let Some(earliest) = &mut self.earliest {
            earliest.set(self.directory.len(), NEVER);
        }
        Some(page)
    }

    /// At most one split per insertion: an insertion adds no more than a fraction of a page.
    pub(super) fn split_if_full(&mut self) {
        let pages = self.directory.len();
        if self.len > pages * PAGE_ELEMENTS || self.used_bytes > pages * PAGE_BYTES {
            self.split();
        }
    }

    /// Announces the final number of elements: pages are split while they hold little. Restoring a set of a million took
    /// 0.67 of the time, and 0.74 from another server's dump. As a file may announce too many, there are at most pages for
    /// [`BELIEVED`] times the elements present.
    #[inline(always)]
    pub(super) fn expect(&mut self, elements: u64) {
        if self.len.is_power_of_two() {
            self.split_ahead(elements.min((BELIEVED * self.len) as u64) as usize);
        }
    }

    #[inline(never)]
    fn split_ahead(&mut self, elements: usize) {
        while self.directory.len() < elements / PAGE_ELEMENTS {
            self.split();
        }
    }

    /// Splits pages until the one of `hash` is not crowded with `extra` bytes more. Returns true if it still is: when the
    /// directory would outgrow the elements, or the cost limit of the call is reached. A page that would be full is always
    /// relieved: it takes more than a thousand hashes that agree in more bits than scans of all but the largest tables
    /// reveal.
    #[cold]
    #[inline(never)]
    fn relieve(&mut self, hash: u64, extra: impl Fn(&Page) -> usize) -> bool {
        let mut cost = 0;
        loop {
            let page = self.directory.page(self.directory.index(hash));
            let wanted = page.used() + extra(page);
            if wanted <= CROWD_BYTES {
                return false;
            }
            let worth_it = cost < RELIEF_COST_MAX && self.directory.len() < self.used_bytes;
            if !worth_it && wanted <= PAGE_BYTES_MAX {
                return true;
            }
            let (next, _) = self.directory.shape().next_split();
            cost += 1 + self.directory.page(next).used() / RELIEF_COST_BYTES;
            self.split();
        }
    }

    fn split(&mut self) {
        let pages = self.directory.len();
        let (index, bit) = self.directory.shape().next_split();
        if pages.is_power_of_two() {
            self.count_bounds.split = 0;
        }
        let depth = bit.trailing_zeros();
        let page = self.directory.page(index);
        let moves = |slot| match (page.kept_byte(slot), page.kept_hash(slot)) {
            (Some(kept), _) => u64::from(kept) << kept_shift(depth) & bit != 0,
            (None, Some(kept)) if bit >> KEPT_HASH_BITS == 0 => kept & bit != 0,
            _ => self.hash(F::read(page.record(slot)).0) & bit != 0,
        };
        let moves: Vec<bool> = page.slots().map(moves).collect();
        if kept_shift(depth + 1) != kept_shift(depth) {
            self.keep_bits(index, kept_shift(depth + 1));
        }
        let moved = self.edit(index, |page| page.split(&moves));
        self.add_page(moved);
        if self.directory.len().is_power_of_two() {
            self.count_bounds = CountBounds { unsplit: self.count_bounds.split, split: 0 };
        }
        self.note_count(index);
        self.note_count(pages);
        if self.earliest.is_some() {
            self.note_expiry(index);
        }
    }

    /// Makes long records of a page keep other bits of their hashes.
    fn keep_bits(&mut self, index: usize, shift: u32) {
        let slots: Vec<Slot> = self.directory.page(index).slots().collect();
        for slot in slots {
            let page = self.directory.page(index);
            if page.kept_byte(slot).is_some() {
                let hash = self.hash(F::read(page.record(slot)).0);
                self.directory.page_mut(index).set_kept_byte(slot, (hash >> shift) as u8);
            }
        }
    }

    fn merge_while_sparse(&mut self, merges_max: usize) {
        for _ in 0..merges_max {
            if !self.is_sparse() || !self.merge_last() {
                break;
            }
        }
    }

    /// Returns whether the average page is sparse.
    #[inline(always)]
    fn is_sparse(&self) -> bool {
        let pages = self.directory.len();
        self.len < pages * (PAGE_ELEMENTS / MERGE_DIVISOR)
            && self.used_bytes < pages * (PAGE_BYTES / MERGE_DIVISOR)
    }

    /// Merges the last page into the one it was split from, unless they are too large together; returns whether it did, in
    /// which case another merge may be due.
    #[inline(never)]
    fn merge_last(&mut self) -> bool {
        let pages = self.directory.len();
        if self.len == 0 {
            self.directory = Directory::new();
            (self.used_bytes, self.page_bytes, self.earliest) = (0, 0, None);
            self.count_bounds = CountBounds::default();
            return false;
        }
        if pages == 1 {
            return false;
        }
        let (into, last) = (self.directory.shape().last_split_from(), pages - 1);
        if self.directory.page(into).used() + self.directory.page(last).used() > MERGED_BYTES_MAX {
            return false;
        }
        self.merge(into);
        true
    }

    fn merge(&mut self, into: usize) {
        if self.directory.len().is_power_of_two() {
            self.count_bounds = CountBounds { unsplit: 0, split: self.count_bounds.unsplit };
        }
        let depth = self.directory.shape().depth_of(into);
        let Some(mut last) = self.take_last_page() else { return };
        let shift = kept_shift(depth - 1);
        if shift != kept_shift(depth) {
            // All bits up to the depth are those of the page's own number.
            let last_index = self.directory.len();
            last.set_kept_bytes((last_index >> shift) as u8);
            self.directory.page_mut(into).set_kept_bytes((into >> shift) as u8);
        }
        if last.count() > 0 {
            self.edit(into, |page| page.append(last));
        }
        self.note_count(into);
        if self.earliest.is_some() {
            self.note_expiry(into);
        }
        if self.directory.len().is_power_of_two() {
            self.count_bounds.split = 0;
        }
    }

    // ---- iterating ----

    /// Iterates over key and value of every element.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        self.directory.pages().flat_map(|page| {
            work::visited(1);
            page.records().map(F::read)
        })
    }

    /// Iterates over key, value and expiry column of every element.
    pub(super) fn iter_with_expiry(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> + '_ {
        self.directory.pages().flat_map(|page| {
            work::visited(1);
            page.records().enumerate().map(move |(index, record)| {
                let (key, value) = F::read(record);
                (key, value, page.expiry(index))
            })
        })
    }

    // ---- freeing, moving, measuring ----

    pub(super) fn memory_bytes(&self) -> usize {
        let earliest = self.earliest.as_ref().map_or(0, |earliest| earliest.memory_bytes());
        self.page_bytes + self.large_bytes + self.directory.memory_bytes() + earliest
    }

    pub(super) fn pages_len(&self) -> usize {
        self.directory.len()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Verifies the invariants of the table and its pages; panics naming the one that fails.
    pub(super) fn check(&self) {
        let (mut len, mut used, mut capacity, mut large, mut expiring) = (0, 0, 0, 0, 0);
        self.directory.check();
        for (index, page) in self.directory.pages().enumerate() {
            page.check();
            len += page.count();
            used += page.used();
            capacity += page.capacity();
            expiring += page.expiring_count();
            let split = self.directory.shape().is_split(index);
            let bound = if split { self.count_bounds.split } else { self.count_bounds.unsplit };
            assert!(
                page.count() <= usize::from(bound),
                "invariant 5: {} elements, bound {bound}",
                page.count()
            );
            for slot in page.slots() {
                let record = page.record(slot);
                large += if record.large { usable_size(record.bytes.len()) } else { 0 };
                let (key, value) = F::read(record);
                assert_eq!(record.bytes.len(), F::record_len(key, value, record.large), "invariant 2");
                assert!(record.large || record.bytes.len() <= INLINE_MAX, "invariant 2: large");
                let hash = self.hash(key);
                assert_eq!(self.directory.index(hash), index, "invariant 1: an element in the wrong page");
                assert_eq!(page.tag(slot.index), Self::tag(hash), "invariant 1: a wrong tag");
                let byte = self.kept_byte(hash, index);
                assert!(page.kept_byte(slot).is_none_or(|kept| kept == byte), "page invariant 6: other bits");
                let kept = hash & ((1 << KEPT_HASH_BITS) - 1);
                assert!(page.kept_hash(slot).is_none_or(|bits| bits == kept), "page invariant 5: wrong bits");
                let (_, found) = self.find(hash, key).expect("invariant 1: every element is found");
                assert_eq!(found.index, slot.index, "invariant 3: a key occurs twice");
            }
        }
        assert_eq!(
            (len, used, capacity, large, expiring),
            (self.len, self.used_bytes, self.page_bytes, self.large_bytes, self.expiring_len),
            "invariant 4: the sums"
        );
        assert_eq!(self.len == 0, self.directory.len() == 0, "invariant 6: an empty table has no page");
        assert_eq!(self.earliest.is_some(), self.expiring_len > 0, "invariant 7");
        if let Some(earliest) = &self.earliest {
            earliest.check(self.directory.pages().map(Page::earliest_expiry));
        }
    }
}
