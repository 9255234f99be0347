//! Prefetches of a leaf's lines, so that their fetches overlap.

use super::Leaf;
use crate::prefetch::{prefetch, prefetch_bytes};
use std::ops::Range;

/// Lines that a lookup prefetches: those of the tags and offsets of a page that is full of members of 16 bytes. The same
/// number for each page, because a loop count that depends on the page is mispredicted.
const LOOKUP_LINES: usize = 7;

/// Assumed length of a record that a lookup prefetches: the true length is in the record.
const SHORT_RECORD_BYTES: usize = 20;

impl Leaf {
    /// Prefetches the columns that lead to a member, so that their fetches overlap; the score's line is known once the slot
    /// is.
    #[inline(always)]
    pub fn prefetch_for_lookup(&self) {
        (0..LOOKUP_LINES).for_each(|line| prefetch(self.page.as_ptr().wrapping_add(64 * line)));
    }

    /// Prefetches all columns, so that their fetches overlap.
    #[inline]
    pub fn prefetch_columns(&self) {
        let columns = self.scores_at() + self.count() * self.code.width();
        (0..columns).step_by(64).for_each(|at| prefetch(self.page.as_ptr().wrapping_add(at)));
    }

    /// Prefetches the tags.
    #[inline]
    pub fn prefetch_tags(&self) {
        let tags = self.page.as_ptr().wrapping_add(self.tags_at());
        (0..self.count()).step_by(64).for_each(|at| prefetch(tags.wrapping_add(at)));
    }

    /// Prefetches a slot's score and the offset of its record.
    #[inline]
    pub fn prefetch_slot(&self, slot: usize) {
        for at in [self.offsets_at() + 2 * slot, self.scores_at() + slot * self.code.width()] {
            prefetch(self.page.as_ptr().wrapping_add(at));
        }
    }

    /// Prefetches a slot's record, and the line that its end may be in: without the latter, a ZSCORE in a pipeline of 16
    /// takes 1.08 of the time.
    #[inline]
    pub fn prefetch_record(&self, slot: usize) {
        self.prefetch_place(self.place(slot));
    }

    /// As [`Leaf::prefetch_record`], of the record at this place.
    #[inline]
    pub fn prefetch_place(&self, place: u16) {
        let record = self.page.as_ptr_range().end.wrapping_sub(place.into());
        prefetch(record);
        prefetch(record.wrapping_add(SHORT_RECORD_BYTES));
    }

    /// Prefetches a slot's score and record, once the columns before its score have arrived.
    #[inline]
    pub fn prefetch_slot_and_record(&self, slot: usize) {
        prefetch(self.page.as_ptr().wrapping_add(self.scores_at() + slot * self.code.width()));
        prefetch(self.page.as_ptr().wrapping_add(self.record_at(slot)));
    }

    /// Prefetches the line where the next record will go.
    #[inline]
    pub fn prefetch_heap_top(&self) {
        prefetch(self.page.as_ptr().wrapping_add(self.page.len() - self.heap as usize).wrapping_sub(1));
    }

    /// Prefetches the whole page.
    pub fn prefetch_page(&self) {
        prefetch_bytes(&self.page);
    }

    /// Prefetches all records at full speed, for the start of an iteration with no other fetches under way.
    #[inline]
    pub fn prefetch_all_records(&self) {
        let records = &self.page[self.page.len() - self.heap as usize..];
        (0..records.len()).step_by(64).for_each(|at| prefetch(records.as_ptr().wrapping_add(at)));
    }

    /// Prefetches the records of those of these slots that exist.
    #[inline]
    pub fn prefetch_records(&self, slots: Range<usize>) {
        let slots = slots.start.min(self.count())..slots.end.min(self.count());
        let (at, end) = (self.offsets_at(), self.page.as_ptr().wrapping_add(self.page.len()));
        for offset in self.page[at + 2 * slots.start..at + 2 * slots.end].chunks_exact(2) {
            prefetch(end.wrapping_sub(u16::from_le_bytes([offset[0], offset[1]]) as usize));
        }
    }
}
