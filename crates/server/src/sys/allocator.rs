//! jemalloc as the process's allocator, with its figures and switches that have no typed interface.
//!
//! Invariants:
//! 1. All calls go to one allocator, with layouts that are as large as asked for or larger, and padded in the same way each
//!    time: a block is freed with the size that it was made with.
//! 2. A name of a control is terminated, and the value is of the type that jemalloc's manual gives it; an unknown name or
//!    another size is an error, and nothing is written.

use std::alloc::{GlobalAlloc, Layout};
use tikv_jemalloc_ctl::raw;
#[cfg(not(system_allocator))]
use tikv_jemallocator::Jemalloc as Backing;

// Sanitizers check only the C library's allocator.
#[cfg(system_allocator)]
use std::alloc::System as Backing;

/// jemalloc built with size classes 8 bytes apart. Its crate assumes that every block of 16 bytes or more is aligned to
/// 16, which is not so in classes of 24, 40 or 56 bytes: for such an alignment (which the standard library's hash tables
/// request) the size is rounded up to a multiple of it, and all those classes are aligned.
pub struct Allocator;

/// Alignment of every block of jemalloc.
const QUANTUM: usize = 8;

#[inline]
fn aligned(layout: Layout) -> Layout {
    if layout.align() <= QUANTUM { layout } else { layout.pad_to_align() }
}

// SAFETY: invariant 1.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: invariant 1: the caller's promises are that allocator's conditions.
        unsafe { Backing.alloc(aligned(layout)) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: invariant 1, as in `alloc`.
        unsafe { Backing.alloc_zeroed(aligned(layout)) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: invariant 1: the block was made with this layout, padded as here.
        unsafe { Backing.dealloc(block, aligned(layout)) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let align = layout.align();
        let new_size = if align <= QUANTUM { new_size } else { new_size.next_multiple_of(align) };
        // SAFETY: invariant 1, as in `dealloc`; a size that fits a layout does so when it is rounded up to
        // the alignment.
        unsafe { Backing.realloc(block, aligned(layout), new_size) }
    }
}

/// The index of all arenas together.
const ALL_ARENAS: usize = 4096;

fn read<T: Copy>(name: &str) -> Option<T> {
    let name = format!("{name}\0");
    // SAFETY: invariant 2, to which the callers below keep.
    unsafe { raw::read(name.as_bytes()) }.ok()
}

/// Unused bytes in slabs of small size classes: what defragmentation could free. As of the last epoch.
pub fn small_bin_waste_bytes() -> Option<usize> {
    let bins: u32 = read("arenas.nbins")?;
    let mut waste = 0;
    for bin in 0..bins {
        let size: usize = read(&format!("arenas.bin.{bin}.size"))?;
        let regions_per_slab: u32 = read(&format!("arenas.bin.{bin}.nregs"))?;
        let regions: usize = read(&format!("stats.arenas.{ALL_ARENAS}.bins.{bin}.curregs"))?;
        let slabs: usize = read(&format!("stats.arenas.{ALL_ARENAS}.bins.{bin}.curslabs"))?;
        waste += (slabs * regions_per_slab as usize).saturating_sub(regions) * size;
    }
    Some(waste)
}

/// Bytes offered to the kernel that the allocator may still reuse. As of the last epoch.
pub fn muzzy_bytes() -> Option<usize> {
    let pages: usize = read(&format!("stats.arenas.{ALL_ARENAS}.pmuzzy"))?;
    let page_bytes: usize = read("arenas.page")?;
    Some(pages * page_bytes)
}

/// Returns unused pages of all arenas to the kernel; returns whether the allocator accepted.
pub fn purge() -> bool {
    let name = format!("arena.{ALL_ARENAS}.purge\0");
    // SAFETY: invariant 2: this control neither reads nor writes a value.
    let result = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
    result == 0
}

/// Returns unused pages to the kernel on threads of the allocator, or on threads that free memory; returns whether the
/// allocator accepted. Without such threads nothing is returned while no thread allocates or frees.
pub fn purge_in_background(on: bool) -> bool {
    // It starts them without the thread sanitizer's knowledge, which ends the process.
    if cfg!(system_allocator) {
        return true;
    }
    // SAFETY: invariant 2: this control takes a bool.
    unsafe { raw::write(b"background_thread\0", on) }.is_ok()
}

/// Frees the calling thread's cache: a single cached block keeps its whole slab allocated.
pub fn empty_thread_cache() {
    let name = b"thread.tcache.flush\0";
    // SAFETY: invariant 2: this control neither reads nor writes a value. It fails for a thread that has no
    // cache, which has nothing to give up.
    unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{alloc, dealloc};

    #[test]
    fn blocks_are_aligned_as_asked_for_in_every_size_class() {
        for (align, size) in
            [8, 16, 32, 64].into_iter().flat_map(|align| (1..300).map(move |size| (align, size)))
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: invariant 1: the layout is not empty, and each block is freed once with the layout
            // it was made with.
            let blocks: Vec<*mut u8> = (0..8).map(|_| unsafe { alloc(layout) }).collect();
            assert!(blocks.iter().all(|block| block.addr() % align == 0), "{size} bytes aligned to {align}");
            // SAFETY: invariant 1, as above.
            blocks.into_iter().for_each(|block| unsafe { dealloc(block, layout) });
        }
    }

    #[test]
    fn figures_exist_in_this_build_of_the_allocator() {
        tikv_jemalloc_ctl::epoch::advance().unwrap();
        assert!(small_bin_waste_bytes().is_some());
        assert!(muzzy_bytes().is_some());
        assert!(purge());
    }
}
