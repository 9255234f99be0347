//! The elements of a small list, for reading, wherever their bytes lie.

use super::super::Direction;
use super::super::node::Records;
use super::super::search::Needle;
use super::super::walk::{read_backward, read_forward};
use crate::listpack::Element;
use crate::listpack::writer::Writer;
use crate::work;

const COUNT_BYTES: usize = 1;

/// ```text
///  | count u8 | record | record | ... | record |
/// ```
#[derive(Clone, Copy)]
pub struct SmallView<'a> {
    bytes: &'a [u8],
}

impl<'a> SmallView<'a> {
    /// Of bytes that stand for a list; see [`SmallList::embedded`](super::SmallList::embedded).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        SmallView { bytes }
    }

    #[inline]
    fn records(&self) -> Records<'a> {
        Records::between(self.bytes, COUNT_BYTES, self.len())
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.bytes[0].into()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the records.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.bytes.len() - COUNT_BYTES
    }

    /// Which element `index` is, negative from the end.
    pub(super) fn absolute(&self, index: i64) -> Option<usize> {
        let len = self.len() as i64;
        let index = if index < 0 { index.checked_add(len)? } else { index };
        (0..len).contains(&index).then_some(index as usize)
    }

    /// Hands the element at `index` to `read`; negative indexes count from the end, -1 being the last.
    pub fn get<R>(&self, index: i64, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let records = self.records();
        Some(read(records.element(records.seek(self.absolute(index)?))))
    }

    /// The index of the first element equal to `value`.
    pub fn position(&self, value: &[u8]) -> Option<usize> {
        let mut first = None;
        Needle::new(value).each_record(&self.records(), u64::MAX, |index| {
            first = Some(index);
            false
        });
        first
    }

    /// Hands up to `count` elements from `start` on to `read`.
    pub fn for_each(
        &self,
        start: usize,
        count: usize,
        direction: Direction,
        mut read: impl FnMut(Element<'_>),
    ) {
        let records = self.records();
        if start >= records.count {
            return;
        }
        match direction {
            Direction::Forward => read_forward(&records, start, count as u64, &mut read),
            Direction::Backward => read_backward(&records, start, count as u64, &mut read),
        };
    }

    /// Which elements are equal to `value`: a bit for each.
    pub(super) fn matching(&self, value: &[u8]) -> u32 {
        let mut found = 0;
        Needle::new(value).each_record(&self.records(), u64::MAX, |index| {
            found |= 1 << index;
            true
        });
        found
    }

    /// As [`PackedList::positions`].
    pub fn positions(&self, value: &[u8], rank: i64, count_max: u64, looked_max: u64) -> Vec<u64> {
        let (found, len) = (self.matching(value), self.len());
        work::visited(len);
        let looked = usize::try_from(looked_max).unwrap_or(usize::MAX);
        let in_order: &mut dyn Iterator<Item = usize> =
            if rank > 0 { &mut (0..len) } else { &mut (0..len).rev() };
        let passed = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let taken = usize::try_from(count_max).unwrap_or(usize::MAX);
        let equal = in_order.take(looked).filter(|&index| found >> index & 1 == 1);
        equal.skip(passed).take(taken).map(|index| index as u64).collect()
    }

    /// The same elements as one listpack in place of what is in `to`.
    pub fn write_listpack(&self, to: &mut Vec<u8>) {
        let records = self.records();
        let mut writer = Writer::new(to);
        writer.add(records.bytes(), records.count);
        writer.finish();
    }
}
