//! The columns of a leaf, for walks: a member is read without asking what the leaf's invariants promise.
//!
//! Measured with 100 members of a hot set of 128 on an AMD EPYC, in instructions a member and ns in all, where the skip list
//! takes 22 and 108: with slices, which ask whether offset, record and score lie within the page, 89 and 323; the same into an
//! array of 16 members, from which the walk takes them, 70 and 249; pointers that move on from slot to slot, looked after once
//! in 16 slots, 47 and 210; a place for the whole leaf and a slot's number, once a leaf, 33 and 171; and with the walk handed
//! by value to the step between leaves, so that its slot stays in a register, 28 and 118.

use super::frame_of_reference::Numbers;
use std::marker::PhantomData;

/// Where the columns of a page begin, and what their contents mean.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    offsets: *const [u8; 2],
    scores: *const u8,
    /// The end of the page, from which offsets count.
    end: *const u8,
    width: usize,
    numbers: Numbers,
    page: PhantomData<&'a [u8]>,
}

impl<'a> Columns<'a> {
    /// The columns of no page.
    pub fn none() -> Self {
        Columns::new(&[], 0, 0, 0, Numbers::default())
    }

    pub fn new(page: &'a [u8], offsets_at: usize, scores_at: usize, width: usize, numbers: Numbers) -> Self {
        let (offsets, scores) = (page[offsets_at..].as_ptr().cast(), page[scores_at..].as_ptr());
        Columns { offsets, scores, end: page.as_ptr_range().end, width, numbers, page: PhantomData }
    }

    /// Member and score of a slot.
    ///
    /// # Safety
    /// There is such a slot, its member is in its record, and eight bytes from its score on are within the page.
    #[inline(always)]
    pub unsafe fn read(&self, slot: usize) -> (&'a [u8], f64) {
        // SAFETY: as there is such a slot, its offset leads to a record within the page, which has a length and so many
        // bytes; the page is borrowed for as long as what is returned.
        unsafe {
            let offset = u16::from_le_bytes(*self.offsets.add(slot));
            let record = self.end.sub(usize::from(offset));
            let member = std::slice::from_raw_parts(record.add(1), usize::from(*record));
            let word = self.scores.add(self.width * slot).cast::<[u8; 8]>();
            (member, self.numbers.score(u64::from_le_bytes(*word)))
        }
    }
}
