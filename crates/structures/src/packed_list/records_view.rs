//! Read access to a list whose records are contiguous: a small one, wherever its bytes are, or one of a single node.

use super::Direction;
use super::node::Records;
use super::search::Needle;
use super::walk::{read_backward, read_forward};
use crate::listpack::Element;
use crate::listpack::writer::Writer;
use crate::work;

const COUNT_BYTES: usize = 1;

/// The records of such a list, borrowed.
#[derive(Clone, Copy)]
pub struct RecordsView<'a> {
    records: Records<'a>,
}

impl<'a> RecordsView<'a> {
    /// A view of the bytes of an embedded list; see [`SmallList::embedded`](super::SmallList::embedded).
    ///
    /// ```text
    ///  | count u8 | record | record | ... | record |
    /// ```
    #[inline]
    pub fn of_embedded(bytes: &'a [u8]) -> Self {
        RecordsView::new(Records::between(bytes, COUNT_BYTES, bytes[0].into()))
    }

    #[inline]
    pub(super) fn new(records: Records<'a>) -> Self {
        RecordsView { records }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.count
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the records.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.records.end - self.records.start
    }

    /// The index of element `index`, negative from the end, if it exists.
    pub(super) fn absolute(&self, index: i64) -> Option<usize> {
        let len = self.len() as i64;
        let index = if index < 0 { index.checked_add(len)? } else { index };
        (0..len).contains(&index).then_some(index as usize)
    }

    /// Passes the element at `index` to `read`; negative indexes count from the end, -1 being the last.
    pub fn get<R>(&self, index: i64, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        Some(read(self.records.element(self.records.seek(self.absolute(index)?))))
    }

    /// The index of the first element equal to `value`.
    pub fn position(&self, value: &[u8]) -> Option<usize> {
        let mut first = None;
        Needle::new(value).each_record(&self.records, u64::MAX, |index| {
            first = Some(index);
            false
        });
        first
    }

    /// Passes up to `count` elements from `start` on to `read`.
    pub fn for_each(
        &self,
        start: usize,
        count: usize,
        direction: Direction,
        mut read: impl FnMut(Element<'_>),
    ) {
        if start >= self.len() {
            return;
        }
        match direction {
            Direction::Forward => read_forward(&self.records, start, count as u64, &mut read),
            Direction::Backward => read_backward(&self.records, start, count as u64, &mut read),
        };
    }

    /// As [`PackedList::positions`](super::PackedList::positions).
    pub fn positions(&self, value: &[u8], rank: i64, count_max: u64, looked_max: u64) -> Vec<u64> {
        let needle = Needle::new(value);
        let (mut found, len) = (Vec::new(), self.len() as u64);
        let passed = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let taken = usize::try_from(count_max).unwrap_or(usize::MAX);
        if rank > 0 {
            let wanted = passed.saturating_add(taken);
            needle.each_record(&self.records, looked_max, |index| {
                found.push(index as u64);
                found.len() < wanted
            });
            work::visited(len.min(looked_max) as usize);
            return found.into_iter().skip(passed).take(taken).collect();
        }
        // The last ones are found by reading from the first.
        needle.each_record(&self.records, u64::MAX, |index| {
            found.push(index as u64);
            true
        });
        work::visited(len as usize);
        let first = len.saturating_sub(looked_max);
        found.into_iter().rev().take_while(|&index| index >= first).skip(passed).take(taken).collect()
    }

    /// Bytes of the records if all are among the `count` from `start` on, else 0.
    pub fn whole_bytes(&self, start: usize, count: usize) -> usize {
        if start == 0 && count >= self.len() { self.used_bytes() } else { 0 }
    }

    /// Writes the elements to `to` as one listpack, replacing its contents.
    pub fn write_listpack(&self, to: &mut Vec<u8>) {
        let mut writer = Writer::new(to);
        writer.add(self.records.bytes(), self.records.count);
        writer.finish();
    }
}
