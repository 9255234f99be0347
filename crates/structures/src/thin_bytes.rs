//! A byte buffer behind one pointer: its length is stored in the first bytes of its contents.
//!
//! ```text
//!  ThinBytes (8 bytes) ──> ┌────────────┬──────────────────────────┬ ─ ─ ─ ─ ┐
//!                          │ header     │ payload                  │ unused
//!                          └────────────┴──────────────────────────┴ ─ ─ ─ ─ ┘
//!                           └── H::used_bytes(header) ────────────┘
//!                           └── size_class(used) = the allocation ──────────┘
//! ```
//!
//! Invariants:
//! 1. The allocation has exactly `size_class(used)` bytes, where `used` is the length in the header or `H::ALLOCATED_MIN`
//!    if that is more.
//! 2. The first `used` bytes are initialised, and `used >= 8`, or `used >= H::LEN` with 8 bytes initialised.
//! 3. Only this file writes the header, and never one that breaks invariant 1.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#buffers-behind-one-word).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use crate::prefetch::prefetch;
use crate::size_class::size_class;

/// A format that stores its total length, header included, in its first bytes.
pub(crate) trait Header {
    /// Length of the header itself, at most 8 bytes.
    const LEN: usize;
    /// The smallest allocation; at least 8 bytes.
    const ALLOCATED_MIN: usize = 8;
    /// The total length, from the first 8 bytes; at least `LEN`.
    fn used_bytes(first: &[u8; 8]) -> usize;
}

/// Aligned to one byte, as [`UnalignedBox`](crate::unaligned_box::UnalignedBox) is and for the same reason.
#[repr(C, packed)]
pub(crate) struct ThinBytes<H: Header> {
    pointer: NonNull<u8>,
    header: PhantomData<H>,
}

// SAFETY: the buffer is owned by this value alone (invariant 1) and holds plain bytes.
unsafe impl<H: Header> Send for ThinBytes<H> {}
// SAFETY: invariant 3: shared references only read bytes.
unsafe impl<H: Header> Sync for ThinBytes<H> {}

/// Up to this size the allocator always moves an allocation when it is resized to another class.
const MOVED_MAX: usize = 4096;

#[inline]
fn layout<H: Header>(used: usize) -> Layout {
    const { assert!(H::ALLOCATED_MIN >= 8, "the first 8 bytes are read at once") };
    Layout::from_size_align(size_class(used.max(H::ALLOCATED_MIN)), 1)
        .expect("lengths stay far below isize::MAX")
}

impl<H: Header> ThinBytes<H> {
    /// Copies `parts`, one after another; together they must be a well-formed header and payload.
    pub fn new(parts: &[&[u8]]) -> Self {
        let used: usize = parts.iter().map(|part| part.len()).sum();
        assert!(used >= H::LEN, "a buffer has a header");
        let layout = layout::<H>(used);
        // SAFETY: invariant 1: the layout has at least 8 bytes.
        let raw = unsafe { alloc(layout) };
        let Some(pointer) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: invariant 1: the allocation has room for 8 bytes and for all parts, and is not yet shared.
        unsafe {
            pointer.cast::<[u8; 8]>().write_unaligned([0; 8]);
            copy_parts(pointer.as_ptr(), parts);
        }
        let made = ThinBytes { pointer, header: PhantomData };
        assert!(made.len() == used, "the header has the length");
        made
    }

    /// Takes over a buffer that is used entirely, according to its header, and whose length is a size class.
    #[inline]
    pub fn from_box(bytes: Box<[u8]>) -> Self {
        let used = bytes.first_chunk().map(H::used_bytes);
        assert!(used == Some(bytes.len()), "the header has the length");
        assert!(
            layout::<H>(bytes.len()).size() == bytes.len(),
            "the length is a size class, with which it is freed"
        );
        ThinBytes { pointer: NonNull::from(Box::leak(bytes)).cast(), header: PhantomData }
    }

    /// Returns the buffer, which must be used entirely.
    #[inline]
    pub fn into_box(self) -> Box<[u8]> {
        let kept = ManuallyDrop::new(self);
        let used = kept.len();
        assert!(layout::<H>(used).size() == used, "a box has no unused bytes");
        let bytes = ptr::slice_from_raw_parts_mut(kept.start().as_ptr(), used);
        // SAFETY: invariants 1 and 2: the allocation has as many bytes as are used, and a box of them the same layout;
        // nothing else will free it.
        unsafe { Box::from_raw(bytes) }
    }

    #[inline(always)]
    fn start(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Bytes used, header included.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: invariant 2: 8 bytes always exist and are initialised; bytes need no alignment.
        H::used_bytes(unsafe { self.start().cast::<[u8; 8]>().as_ref() })
    }

    /// Prefetches the first line.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.start().as_ptr());
    }

    /// Allocated bytes.
    pub fn capacity(&self) -> usize {
        layout::<H>(self.len()).size()
    }

    /// The bytes used, header included.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: invariants 1 and 2.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// All bytes after the header, for changes that keep the length.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: invariants 1 and 2; the header itself is left out, so the length cannot change.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr().add(H::LEN), len - H::LEN) }
    }

    /// Replaces the contents by `head`, which must be the first bytes of a well-formed header, and `rest`.
    #[inline]
    pub fn replace(&mut self, head: &[u8; 2], rest: &[u8]) {
        let used = head.len() + rest.len();
        if used.max(self.len()) > H::ALLOCATED_MIN || used < 8 {
            *self = ThinBytes::new(&[head, rest]);
            return;
        }
        // SAFETY: invariant 1: the smallest allocation has room for everything, so the present one has too;
        // `rest` cannot alias a buffer borrowed mutably.
        unsafe {
            let to = self.start();
            to.cast::<[u8; 2]>().write_unaligned(*head);
            to.add(head.len()).copy_from_nonoverlapping(NonNull::from(rest).cast(), rest.len());
        }
        assert!(self.len() == used, "the header has the length");
    }

    /// Replaces `removed` bytes at `at` by `parts` and writes `header`, which must state the new length.
    pub fn splice(&mut self, at: usize, removed: usize, parts: &[&[u8]], header: &[u8]) {
        let old = self.len();
        let added: usize = parts.iter().map(|part| part.len()).sum();
        assert!(at >= H::LEN && at + removed <= old && header.len() == H::LEN, "the payload holds the range");
        let new = old - removed + added;
        let mut first = [0; 8];
        first[..H::LEN].copy_from_slice(header);
        if H::LEN < 8 {
            // Bytes behind a short header belong to the payload and do not affect the length.
            first[H::LEN..].fill(0);
        }
        assert!(H::used_bytes(&first) == new, "the header has the length");
        let is_least = old.max(new) <= H::ALLOCATED_MIN;
        if !is_least && new <= MOVED_MAX && layout::<H>(old) != layout::<H>(new) {
            return self.splice_moving(at, removed, parts, header, new);
        }
        if !is_least && new > old {
            self.reallocate(old, new);
        }
        // SAFETY: invariant 1: max(old, new) bytes are allocated here (the buffer grows before and shrinks
        // after); the assertion above keeps both ranges inside; `parts` cannot alias a buffer borrowed
        // mutably.
        unsafe {
            let base = self.start().as_ptr();
            ptr::copy(base.add(at + removed), base.add(at + added), old - at - removed);
            copy_parts(base.add(at), parts);
            ptr::copy_nonoverlapping(header.as_ptr(), base, H::LEN);
        }
        if !is_least && new < old {
            self.reallocate(old, new);
        }
    }

    /// [`ThinBytes::splice`] into an allocation of another size: remaining bytes are copied once, to their new offset.
    fn splice_moving(&mut self, at: usize, removed: usize, parts: &[&[u8]], header: &[u8], new: usize) {
        let (old, layout_new) = (self.len(), layout::<H>(new));
        // SAFETY: invariant 1: the layout has at least 8 bytes.
        let raw = unsafe { alloc(layout_new) };
        let Some(pointer) = NonNull::new(raw) else { handle_alloc_error(layout_new) };
        // SAFETY: invariants 1 and 2: the new allocation has room for 8 bytes and for all of `new`, overlaps
        // nothing, and is initialised to its length before it takes the place of the old one, which has
        // `old` bytes; the caller has asserted that both ranges end within them.
        unsafe {
            let (from, to) = (self.start().as_ptr(), pointer.as_ptr());
            pointer.cast::<[u8; 8]>().write_unaligned([0; 8]);
            ptr::copy_nonoverlapping(from, to, at);
            copy_parts(to.add(at), parts);
            let rest = old - at - removed;
            ptr::copy_nonoverlapping(from.add(at + removed), to.add(new - rest), rest);
            ptr::copy_nonoverlapping(header.as_ptr(), to, H::LEN);
            dealloc(from, layout::<H>(old));
        }
        self.pointer = pointer;
    }

    /// Makes room for `added` bytes at `at`, zeroed for the caller to fill, and writes `header`, which must state the new
    /// length.
    pub fn insert_zeroed(&mut self, at: usize, added: usize, header: &[u8]) -> &mut [u8] {
        let old = self.len();
        assert!(at >= H::LEN && at <= old && header.len() == H::LEN, "the payload holds the place");
        let mut first = [0; 8];
        first[..H::LEN].copy_from_slice(header);
        assert!(H::used_bytes(&first) == old + added, "the header has the length");
        self.reallocate(old, old + added);
        // SAFETY: invariants 1 and 2: old + added bytes are allocated, and both ranges end within them; the
        // gap is initialised before a slice of it is made.
        unsafe {
            let base = self.start().as_ptr();
            ptr::copy(base.add(at), base.add(at + added), old - at);
            ptr::write_bytes(base.add(at), 0, added);
            ptr::copy_nonoverlapping(header.as_ptr(), base, H::LEN);
            std::slice::from_raw_parts_mut(base.add(at), added)
        }
    }

    #[inline]
    fn reallocate(&mut self, old: usize, new: usize) {
        let (from, to) = (layout::<H>(old), layout::<H>(new));
        if from == to {
            return;
        }
        // SAFETY: invariant 1 gives the present layout; the new size is at least 8.
        let raw = unsafe { realloc(self.start().as_ptr(), from, to.size()) };
        self.pointer = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(to));
    }
}

/// # Safety
/// `to` must be valid for writing all parts, and overlap none of them.
#[inline]
unsafe fn copy_parts(mut to: *mut u8, parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: invariants 1 and 2, guaranteed by the caller.
        unsafe {
            ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            to = to.add(part.len());
        }
    }
}

impl<H: Header> Drop for ThinBytes<H> {
    fn drop(&mut self) {
        let layout = layout::<H>(self.len());
        // SAFETY: invariant 1; nothing uses the pointer after this.
        unsafe { dealloc(self.start().as_ptr(), layout) }
    }
}

impl<H: Header> Clone for ThinBytes<H> {
    fn clone(&self) -> Self {
        ThinBytes::new(&[self.as_slice()])
    }
}
