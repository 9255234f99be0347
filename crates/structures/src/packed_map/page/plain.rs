//! Plain pages: even, without expiries, so that they consist of tags and records alone. Most pages are plain; adding and
//! removing one element here skips the checks that are known to be false for all such pages.
//!
//! Invariants are those of [`super`].
//!
//! Measurements: [docs/structures.md](../../../../../docs/structures.md#pages-of-packed-maps).

use super::{KEPT_MIN, LANES, Page, Slot, size_step, work};
use std::ptr;

impl Page {
    #[inline(always)]
    pub(in super::super) fn is_plain(&self) -> bool {
        self.flags == 0
    }

    /// Bytes of a record and its tag in the page.
    #[inline(always)]
    fn plain_bytes(&self) -> usize {
        1 + usize::from(self.length_or_bytes)
    }

    /// Adds a record of `length` bytes, which `write` fills, if the page is plain with records of that length, and has room
    /// up to `used_max`; returns the increase of the used bytes.
    #[inline(always)]
    pub(in super::super) fn push_plain(
        &mut self,
        tag: u8,
        length: usize,
        used_max: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<usize> {
        let count = self.count();
        let used = (count + 1) * (1 + length);
        if !self.is_plain()
            || usize::from(self.length_or_bytes) != length
            || length >= KEPT_MIN
            || used > self.capacity().min(used_max)
        {
            return None;
        }
        work::moved(1 + length);
        let start = self.capacity() - (count + 1) * length;
        let bytes = self.bytes_mut();
        write(&mut bytes[start..start + length]);
        bytes[count] = tag;
        self.count += 1;
        Some(1 + length)
    }

    /// Removes an element of a plain page: the last one takes its slot. Returns the decrease of the used bytes.
    #[inline(always)]
    pub(in super::super) fn remove_plain(&mut self, slot: Slot) -> usize {
        let (last, stored) = (self.count() - 1, usize::from(self.length_or_bytes));
        assert!(self.is_plain() && slot.index <= last, "no such slot in a plain page");
        work::moved(1 + stored);
        let data = self.data.as_ptr();
        // SAFETY: invariants 3 and 4: both are tags of this page, and both records of `stored` bytes lie in it; they are
        // the same record or do not overlap.
        unsafe {
            *data.add(slot.index) = *data.add(last);
            let from = data.add(self.capacity() - (last + 1) * stored);
            let to = data.add(self.capacity() - (slot.index + 1) * stored);
            copy_record(from, to, stored);
        }
        self.count = last as u16;
        1 + stored
    }

    /// Returns whether [`Page::fit`] would move a plain page.
    #[inline(always)]
    pub(in super::super) fn is_loose_plain(&self) -> bool {
        let used = self.count() * self.plain_bytes();
        used + used / 8 + size_step(self.capacity()).max(LANES) <= self.capacity()
    }
}

/// Copies a record; for the most common lengths by two overlapping loads and as many stores, without a call.
///
/// # Safety
/// `length` bytes at `from` can be read, at `to` written; both are the same record or do not overlap.
#[inline(always)]
unsafe fn copy_record(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: invariants 3 and 4, guaranteed by the caller: of each pair of chunks one begins at the first byte
    // and one ends at the last. Chunks of bytes need no alignment.
    unsafe {
        match length {
            16..=32 => {
                let first = from.cast::<[u8; 16]>().read();
                let last = from.add(length - 16).cast::<[u8; 16]>().read();
                to.cast::<[u8; 16]>().write(first);
                to.add(length - 16).cast::<[u8; 16]>().write(last);
            }
            8..16 => {
                let first = from.cast::<[u8; 8]>().read();
                let last = from.add(length - 8).cast::<[u8; 8]>().read();
                to.cast::<[u8; 8]>().write(first);
                to.add(length - 8).cast::<[u8; 8]>().write(last);
            }
            _ => ptr::copy(from, to, length),
        }
    }
}
