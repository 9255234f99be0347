//! A list of few elements: one allocation behind one pointer, or bytes embedded in another value.
//!
//! ```text
//!  SmallList (one pointer) ──> | used u16 | count u8 | record | record | ... | record |
//!                              └────── 3 bytes ──────┘
//!                                         └────────── embedded: [`RecordsView`] ────────┘
//! ```
//!
//! A list of up to [`EMBEDDED_BYTES_MAX`] such bytes is meant to be stored as these alone, embedded in a value of its
//! owner. To be changed it is copied into an allocation in which it can grow.
//!
//! Records are those of `node.rs`. There are at most as many as between two restart points of a node, so that none is
//! needed: the last one is found in 31 steps.
//!
//! Invariants:
//! 1. No pointer: the list is empty. Otherwise `count` is 1 to 32, and that many well-formed records fill the bytes behind
//!    the header up to `used`, which is at most 1,024.
//! 2. The allocation is `size_class(used)`, and at least that of the smallest list that is not embedded.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#packed-lists).

#[cfg(test)]
mod tests;

use super::node::RESTART_INTERVAL;
use super::node::Records;
use super::search::Needle;
use super::{Direction, Limits, PackedList, RecordsView};
use crate::listpack::encoding::{Encoded, element_size};
use crate::listpack::{Element, Iter};
use crate::prefetch::prefetch;
use crate::size_class::size_class;
use crate::thin_bytes::{Header, ThinBytes};

const HEADER_BYTES: usize = 3;
/// Bytes of the header that an embedded list lacks.
const USED_BYTES: usize = 2;
/// Most bytes of count and records of an embedded list.
pub const EMBEDDED_BYTES_MAX: usize = 128;
/// Most bytes of header and records.
const USED_MAX: usize = 1024;
const COUNT_MAX: usize = RESTART_INTERVAL;
/// Most bytes of a listpack with the elements of a small list.
const LISTPACK_BYTES_MAX: usize = USED_MAX + 2 * COUNT_MAX + 7;
/// Most bytes that a record adds to its text.
const HEAD_MAX: usize = 5;
const LINE_BYTES: usize = 64;

struct SmallHeader;

impl Header for SmallHeader {
    const LEN: usize = HEADER_BYTES;
    const ALLOCATED_MIN: usize = size_class(USED_BYTES + EMBEDDED_BYTES_MAX + 1);

    #[inline]
    fn used_bytes(first: &[u8; 8]) -> usize {
        u16::from_le_bytes([first[0], first[1]]).into()
    }
}

/// A list of few elements, in one allocation behind one pointer.
#[derive(Clone, Default)]
pub struct SmallList {
    bytes: Option<ThinBytes<SmallHeader>>,
}

const _: () = assert!(size_of::<SmallList>() == 8);

fn header(used: usize, count: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(used <= USED_MAX && count <= COUNT_MAX);
    let [low, high] = (used as u16).to_le_bytes();
    [low, high, count as u8]
}

impl SmallList {
    /// Returns whether a listpack of this length may hold few enough elements for a small list.
    pub fn may_hold(listpack_bytes: usize) -> bool {
        listpack_bytes <= LISTPACK_BYTES_MAX
    }

    /// Creates a list of records, which must be few enough.
    pub(super) fn of_records(records: &[u8], count: usize) -> SmallList {
        let header = header(HEADER_BYTES + records.len(), count);
        SmallList { bytes: (count > 0).then(|| ThinBytes::new(&[&header, records])) }
    }

    /// Converts a list of one node, if it is at most a `divisor`-th of what a small list may be.
    pub fn of_packed(list: &PackedList, divisor: usize) -> Option<SmallList> {
        if list.nodes.len() > 1 {
            return None;
        }
        let Some(node) = list.nodes.front() else { return Some(SmallList::default()) };
        node.is_records().then(|| SmallList::of_few(&node.records(), list.limits, divisor))?
    }

    /// Creates a list of records, if they are at most a `divisor`-th of what a small list may hold.
    #[inline]
    pub(super) fn of_few(records: &Records<'_>, limits: Limits, divisor: usize) -> Option<SmallList> {
        let entries_max = COUNT_MAX.min(limits.entries.into()) / divisor;
        let used = HEADER_BYTES + records.end - records.start;
        (records.count <= entries_max && used <= USED_MAX / divisor)
            .then(|| SmallList::of_records(records.bytes(), records.count))
    }

    /// The bytes that represent the list where it is embedded, if it is short enough and not empty.
    #[inline]
    pub fn embedded(&self) -> Option<&[u8]> {
        let embedded = &self.bytes.as_ref()?.as_slice()[USED_BYTES..];
        (embedded.len() <= EMBEDDED_BYTES_MAX).then_some(embedded)
    }

    /// Creates a list from [its embedded bytes](SmallList::embedded).
    #[inline]
    pub fn from_embedded(embedded: &[u8]) -> SmallList {
        let used = (USED_BYTES + embedded.len()) as u16;
        SmallList { bytes: Some(ThinBytes::new(&[&used.to_le_bytes(), embedded])) }
    }

    /// Replaces the list by the one with these embedded bytes; see [`SmallList::embedded`].
    #[inline]
    pub fn assign_embedded(&mut self, embedded: &[u8]) {
        match &mut self.bytes {
            Some(bytes) => bytes.replace(&((USED_BYTES + embedded.len()) as u16).to_le_bytes(), embedded),
            None => *self = SmallList::from_embedded(embedded),
        }
    }

    /// The elements, for reading.
    #[inline]
    pub fn view(&self) -> RecordsView<'_> {
        RecordsView::new(self.records())
    }

    #[inline]
    fn buffer(&self) -> &[u8] {
        match &self.bytes {
            Some(bytes) => bytes.as_slice(),
            None => &[HEADER_BYTES as u8, 0, 0],
        }
    }

    #[inline]
    pub(super) fn records(&self) -> Records<'_> {
        let bytes = self.buffer();
        Records::between(bytes, HEADER_BYTES, bytes[2].into())
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer()[2].into()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_none()
    }

    /// Bytes of the records.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.buffer().len() - HEADER_BYTES
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, ThinBytes::capacity)
    }

    /// Prefetches the first line.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(bytes) = &self.bytes {
            bytes.prefetch();
        }
    }

    /// Prefetches the other lines, once the first has arrived: adding or removing an element moves those behind it.
    #[inline]
    pub fn prefetch_rest(&self) {
        self.buffer().iter().skip(LINE_BYTES).step_by(LINE_BYTES).for_each(|byte| prefetch(byte));
    }

    /// Returns whether this number of further elements, of `text_bytes` as text, keeps the list small. `fill` as in
    /// `list-max-listpack-size`.
    #[inline]
    pub fn fits(&self, elements: usize, text_bytes: usize, fill: i32) -> bool {
        let bytes = elements.saturating_mul(HEAD_MAX).saturating_add(text_bytes);
        self.fits_records(elements, bytes, fill)
    }

    #[inline]
    fn fits_records(&self, elements: usize, bytes: usize, fill: i32) -> bool {
        let entries_max = COUNT_MAX.min(Limits::new(fill).entries.into());
        self.len().saturating_add(elements) <= entries_max
            && self.buffer().len().saturating_add(bytes) <= USED_MAX
    }

    /// Replaces `removed` bytes of `count_removed` records by `added` of `count_added`.
    #[inline]
    fn splice(&mut self, at: usize, removed: (usize, usize), added: &[&[u8]], count_added: usize) {
        let (removed, count_removed) = removed;
        let added_bytes: usize = added.iter().map(|part| part.len()).sum();
        let count = self.len() + count_added - count_removed;
        let header = header(self.buffer().len() + added_bytes - removed, count);
        match (&mut self.bytes, count, added) {
            (_, 0, _) => self.bytes = None,
            (Some(bytes), ..) => bytes.splice(at, removed, added, &header),
            (None, _, &[head, body]) => self.bytes = Some(ThinBytes::new(&[&header, head, body])),
            (None, ..) => self.bytes = Some(ThinBytes::new(&[&header, &added.concat()])),
        }
    }

    /// Inserts `element` before record `index`, or behind the last; returns false if the list would no longer be small.
    fn insert_encoded(&mut self, index: usize, element: &Encoded<'_>, fill: i32) -> bool {
        if !self.fits_records(1, element.size(), fill) {
            return false;
        }
        let at = if index == self.len() { self.buffer().len() } else { self.records().seek(index) };
        self.splice(at, (0, 0), &[element.head(), element.body()], 1);
        true
    }

    /// Adds an element at an end; returns false, with nothing done, if the list would no longer be small.
    #[inline]
    pub fn push(&mut self, front: bool, element: &[u8], fill: i32) -> bool {
        self.insert_encoded(if front { 0 } else { self.len() }, &Encoded::new(element), fill)
    }

    /// Adds the elements at an end, one after another; returns false, with nothing done, if the list would no longer be
    /// small.
    pub fn push_all<'a>(
        &mut self,
        front: bool,
        elements: impl Iterator<Item = &'a [u8]> + Clone,
        fill: i32,
    ) -> bool {
        self.push_encoded(front, elements.map(Encoded::new), fill)
    }

    /// Appends the elements of a listpack; returns false, with nothing done, if the list would no longer be small.
    pub fn append_listpack(&mut self, elements: Iter<'_>, fill: i32) -> bool {
        self.push_encoded(false, elements.map(Encoded::element), fill)
    }

    fn push_encoded<'a>(
        &mut self,
        front: bool,
        elements: impl Iterator<Item = Encoded<'a>> + Clone,
        fill: i32,
    ) -> bool {
        let (mut added, mut size) = (0, 0);
        for element in elements.clone() {
            (added, size) = (added + 1, size + element.size());
            if !self.fits_records(added, size, fill) {
                return false;
            }
        }
        let mut records = [0; USED_MAX];
        let records = &mut records[..size];
        let mut at = if front { size } else { 0 };
        for element in elements {
            if front {
                at -= element.size();
            }
            element.write(&mut records[at..]);
            if !front {
                at += element.size();
            }
        }
        let place = if front { HEADER_BYTES } else { self.buffer().len() };
        self.splice(place, (0, 0), &[records], added);
        true
    }

    /// Removes the first element or the last, passing it to `read`.
    #[inline]
    pub fn pop<R>(&mut self, front: bool, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let records = self.records();
        let last = records.count.checked_sub(1)?;
        let at = if front { HEADER_BYTES } else { records.seek(last) };
        let (element, next) = records.step(at);
        let result = read(element);
        self.splice(at, (next - at, 1), &[], 0);
        Some(result)
    }

    /// Replaces the element at `index` (negative: from the end), if there is one: `Some(false)`, with nothing done, if the
    /// list would no longer be small.
    pub fn set(&mut self, index: i64, element: &[u8], fill: i32) -> Option<bool> {
        let index = self.view().absolute(index)?;
        let element = Encoded::new(element);
        let at = self.records().seek(index);
        let removed = element_size(self.buffer(), at);
        if !self.fits_records(0, element.size().saturating_sub(removed), fill) {
            return Some(false);
        }
        self.splice(at, (removed, 1), &[element.head(), element.body()], 1);
        Some(true)
    }

    /// Inserts before or after the first element equal to `pivot`, if there is one: `Some(false)`, with nothing done, if
    /// the list would no longer be small.
    pub fn insert(&mut self, before: bool, pivot: &[u8], element: &[u8], fill: i32) -> Option<bool> {
        let index = self.view().position(pivot)? + usize::from(!before);
        Some(self.insert_encoded(index, &Encoded::new(element), fill))
    }

    /// Removes up to `count` elements from `start` on; returns their number.
    pub fn remove_range(&mut self, start: usize, count: usize) -> usize {
        let records = self.records();
        let end = start.saturating_add(count).min(records.count);
        if start >= end {
            return 0;
        }
        let from = records.seek(start);
        let to = if end == records.count { records.end } else { records.seek(end) };
        self.splice(from, (to - from, end - start), &[], 0);
        end - start
    }

    /// Keeps only `count` elements from `start` on.
    pub fn retain_range(&mut self, start: usize, count: usize) {
        let end = start.saturating_add(count);
        self.remove_range(end, usize::MAX);
        self.remove_range(0, start);
    }

    /// Removes the first or last `count` elements, or all if there are fewer, passing each to `read` in the order of pops.
    pub fn pop_many(&mut self, front: bool, count: usize, read: impl FnMut(Element<'_>)) {
        let count = count.min(self.len());
        if count == 0 {
            return;
        }
        if front {
            self.view().for_each(0, count, Direction::Forward, read);
            self.remove_range(0, count);
        } else {
            self.view().for_each(self.len() - 1, count, Direction::Backward, read);
            self.remove_range(self.len() - count, count);
        }
    }

    /// The elements equal to `value`, as a bit mask.
    fn matching(&self, value: &[u8]) -> u32 {
        let mut found = 0;
        Needle::new(value).each_record(&self.records(), u64::MAX, |index| {
            found |= 1 << index;
            true
        });
        found
    }

    /// Removes the elements equal to `value`, at most `count_max`, from the chosen end on. Returns their number.
    pub fn remove_matching(&mut self, value: &[u8], direction: Direction, count_max: u64) -> u64 {
        let mut going = self.matching(value);
        for _ in count_max.min(u32::BITS.into())..going.count_ones().into() {
            // Too many: the one farthest from the chosen end stays.
            let farthest = match direction {
                Direction::Forward => u32::BITS - 1 - going.leading_zeros(),
                Direction::Backward => going.trailing_zeros(),
            };
            going &= !(1 << farthest);
        }
        let removed = going.count_ones();
        if removed > 0 {
            let records = self.records();
            let (mut kept, mut at) = (Vec::with_capacity(records.end), records.start);
            for index in 0..records.count {
                let next = records.after(at);
                if going >> index & 1 == 0 {
                    kept.extend_from_slice(&self.buffer()[at..next]);
                }
                at = next;
            }
            *self = SmallList::of_records(&kept, records.count - removed as usize);
        }
        removed.into()
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        let records = self.records();
        assert_eq!(records.count == 0, self.bytes.is_none());
        assert!(records.count <= COUNT_MAX && records.end <= USED_MAX);
        let mut at = HEADER_BYTES;
        for index in 0..records.count {
            assert_eq!(records.seek(index), at);
            at = records.after(at);
        }
        assert_eq!(at, records.end);
    }
}
