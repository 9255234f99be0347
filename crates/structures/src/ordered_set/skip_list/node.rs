//! A node's layout; independent of the order. The header can be used as a node wherever only levels are read.
//!
//! Invariants, which the callers of every function here guarantee:
//! 1. A node that is passed is alive, and a level is below its height, which is at least 1.
//! 2. Its allocation has the layout that its height and its member's length give (`layout`).

use super::LEVELS_MAX;
use crate::size_class::usable_size;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// One level of a tower: the next node there, and its distance in ranks. On level 0 the span's field holds the
/// tower's height.
#[repr(C)]
pub struct Level {
    next: *mut Node,
    span: u64,
}

impl Level {
    /// Level 0 of a tower of one level without a next node; above level 0, a level that spans nothing.
    pub const fn empty(span_or_height: u64) -> Self {
        Level { next: ptr::null_mut(), span: span_or_height }
    }
}

/// The start of a node; its levels, the member's length and the member's bytes follow in the allocation.
#[repr(C)]
pub struct Node {
    /// The score.
    pub score: f64,
    /// The previous node on level 0, null for the first.
    pub back: *mut Node,
    levels: [Level; 0],
}

const FIXED_BYTES: usize = size_of::<Node>();
const LEVEL_BYTES: usize = size_of::<Level>();
/// The length byte that is followed by a length of four bytes: for members of this length or longer.
const LONG_MEMBER: usize = 255;

const _: () = assert!(FIXED_BYTES == 8 + size_of::<*mut Node>());
const _: () = assert!(align_of::<Node>() == 8);

#[inline]
unsafe fn level(node: *const Node, level: usize) -> *mut Level {
    // SAFETY: invariant 1; the pointer keeps the provenance of the whole allocation.
    unsafe { (&raw const (*node).levels).cast::<Level>().add(level).cast_mut() }
}

/// The next node on a level; null at the end.
#[inline]
pub unsafe fn next(node: *const Node, on: usize) -> *mut Node {
    // SAFETY: invariants 1 and 2.
    unsafe { (*level(node, on)).next }
}

/// Sets the next node on a level.
#[inline]
pub unsafe fn set_next(node: *mut Node, on: usize, next: *mut Node) {
    // SAFETY: invariants 1 and 2.
    unsafe { (*level(node, on)).next = next }
}

/// Ranks between this node and the next on the level, or the last member.
#[inline]
pub unsafe fn span(node: *const Node, on: usize) -> u64 {
    // SAFETY: invariants 1 and 2.
    unsafe { if on == 0 { !next(node, 0).is_null() as u64 } else { (*level(node, on)).span } }
}

/// Sets the span of a level other than 0, whose span follows from its pointer.
#[inline]
pub unsafe fn set_span(node: *mut Node, on: usize, span: u64) {
    debug_assert!(on > 0, "level 0 holds the height");
    // SAFETY: invariants 1 and 2.
    unsafe { (*level(node, on)).span = span }
}

/// The height of the node's tower.
#[inline]
pub unsafe fn height(node: *const Node) -> usize {
    // SAFETY: invariant 1: every tower has a level 0.
    unsafe { (*level(node, 0)).span as usize }
}

/// Sets the height of the node's tower.
#[inline]
pub unsafe fn set_height(node: *mut Node, height: usize) {
    // SAFETY: invariant 1: every tower has a level 0.
    unsafe { (*level(node, 0)).span = height as u64 }
}

/// The member's bytes; not for the header. The caller chooses a lifetime within the node's.
#[inline]
pub unsafe fn member<'a>(node: *const Node) -> &'a [u8] {
    // SAFETY: invariant 2: `allocate` wrote the length and the bytes behind the levels.
    unsafe {
        let at = node.cast::<u8>().add(FIXED_BYTES + height(node) * LEVEL_BYTES);
        let short = *at as usize;
        if short < LONG_MEMBER {
            std::slice::from_raw_parts(at.add(1), short)
        } else {
            let len = at.add(1).cast::<u32>().read_unaligned() as usize;
            std::slice::from_raw_parts(at.add(5), len)
        }
    }
}

fn layout(height: usize, member_len: usize) -> Layout {
    let length_bytes = if member_len < LONG_MEMBER { 1 } else { 5 };
    let bytes = FIXED_BYTES + height * LEVEL_BYTES + length_bytes + member_len;
    Layout::from_size_align(bytes, align_of::<Node>())
        .expect("a member of at most 2^32-1 bytes fits a layout")
}

/// Allocates a node of `height` levels without next nodes. Members are at most 2^32-1 bytes long (asserted).
pub fn allocate(height: usize, score: f64, member: &[u8]) -> NonNull<Node> {
    assert!((1..=LEVELS_MAX).contains(&height));
    assert!(u32::try_from(member.len()).is_ok(), "a member is shorter than 4 GiB");
    let layout = layout(height, member.len());
    // SAFETY: invariant 2: the layout is not empty, and has room for everything written: see `layout`.
    unsafe {
        let bytes = alloc(layout);
        let Some(node) = NonNull::new(bytes.cast::<Node>()) else { handle_alloc_error(layout) };
        (&raw mut (*node.as_ptr()).score).write(score);
        (&raw mut (*node.as_ptr()).back).write(ptr::null_mut());
        for on in 0..height {
            level(node.as_ptr(), on).write(Level::empty(if on == 0 { height as u64 } else { 0 }));
        }
        let at = bytes.add(FIXED_BYTES + height * LEVEL_BYTES);
        let start = if member.len() < LONG_MEMBER {
            at.write(member.len() as u8);
            at.add(1)
        } else {
            at.write(LONG_MEMBER as u8);
            at.add(1).cast::<u32>().write_unaligned(member.len() as u32);
            at.add(5)
        };
        start.copy_from_nonoverlapping(member.as_ptr(), member.len());
        node
    }
}

/// Frees the node, which is not alive afterwards.
pub unsafe fn free(node: *mut Node) {
    // SAFETY: invariant 2: allocated by `allocate` with this very layout, which the node itself records.
    unsafe { dealloc(node.cast(), layout(height(node), member(node).len())) }
}

/// The size of the node's allocation.
pub unsafe fn allocation_bytes(node: *const Node) -> usize {
    // SAFETY: invariants 1 and 2.
    unsafe { usable_size(layout(height(node), member(node).len()).size()) }
}
