//! The columns of a leaf, for iteration: members are read without checks that the leaf's invariants make redundant.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::frame_of_reference::Numbers;
use std::marker::PhantomData;

/// The addresses of a page's columns, and how to decode them.
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
    /// The columns of an empty page.
    pub fn none() -> Self {
        Columns::new(&[], 0, 0, 0, Numbers::default())
    }

    /// The columns of `page`, whose deltas are `width` bytes and decoded by `numbers`.
    pub fn new(page: &'a [u8], offsets_at: usize, scores_at: usize, width: usize, numbers: Numbers) -> Self {
        let (offsets, scores) = (page[offsets_at..].as_ptr().cast(), page[scores_at..].as_ptr());
        Columns { offsets, scores, end: page.as_ptr_range().end, width, numbers, page: PhantomData }
    }

    /// Member and score of a slot.
    ///
    /// # Safety
    /// The slot exists, its member is in its record, and eight bytes from its score on are within the page.
    #[inline(always)]
    pub unsafe fn read(&self, slot: usize) -> (&'a [u8], f64) {
        // SAFETY: invariant 4 of the leaf: the slot exists, so its offset leads to a record within the page,
        // which has a length and that many bytes; the page is borrowed for as long as the returned slice.
        unsafe {
            let offset = u16::from_le_bytes(*self.offsets.add(slot));
            let record = self.end.sub(usize::from(offset));
            let member = std::slice::from_raw_parts(record.add(1), usize::from(*record));
            let word = self.scores.add(self.width * slot).cast::<[u8; 8]>();
            (member, self.numbers.score(u64::from_le_bytes(*word)))
        }
    }
}
