//! A bucket: eight slots in one cache line. The last slot may be a link to the overflow: the entries that do not fit.
//!
//! ```text
//!  bucket  | slot 0 | ... | slot 6 | slot 7: an entry, or a link -> node or crowd
//!  node    | slot | slot | ...                  2 to 8 slots, exactly sized
//!  crowd   a vector of 9 slots or more, in the order of their tags
//! ```
//! With evenly spread hashes one bucket in a thousand has a crowd. Keys inserted in hash order, as from a scan of another
//! table, all go to the same few buckets: there a crowd grows to the square root of the number of keys still to come, and
//! is searched by bisection.
//!
//! Invariants:
//! 1. Occupied slots come first, empty ones last.
//! 2. A link is always the eighth slot of a bucket. It alone owns its node or crowd, neither of which has a link or an
//!    empty slot. A node has exactly the length in its link; a crowd is longer than the longest node.
//! 3. The filter in a node's link is exactly the union of the filter bits of the node's entries; a crowd's has all bits
//!    set.
//! 4. The slots of a crowd ascend by tag.
//! 5. A bucket is 64 initialised bytes at a multiple of 64, a line as `byte_compare` compares it.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#the-table-of-keys).

use super::slot::{Slot, filter_bit};
use crate::byte_compare::{BitMask, Line};
use crate::work;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ops::Range;
use std::ptr::NonNull;

pub(super) const SLOTS: usize = 8;
/// A longer overflow is a crowd.
const NODE_SLOTS_MAX: usize = 8;

#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    /// The slots whose upper 16 bits are `tag`. May include a link, and empty slots if `tag` is 0.
    #[inline]
    pub(super) fn matching(&self, tag: u16) -> BitMask<u32> {
        // SAFETY: invariant 5.
        unsafe { &*(&raw const self.slots).cast::<Line>() }.matching(tag)
    }
}

/// The overflow slots of `slots`; none if there is no link.
#[inline]
pub(super) fn overflow(slots: &[Slot; SLOTS]) -> &[Slot] {
    let last = slots[SLOTS - 1];
    if !last.is_link() {
        return &[];
    }
    if last.is_crowd_link() {
        // SAFETY: invariant 2: the crowd is alive and borrowed through its only owner.
        return unsafe { &*crowd_of(last) };
    }
    // SAFETY: invariant 2: the node is alive, of this length, and borrowed through its only owner.
    unsafe { std::slice::from_raw_parts(last.address().cast(), last.link_len()) }
}

fn overflow_mut(slots: &mut [Slot; SLOTS]) -> &mut [Slot] {
    let last = slots[SLOTS - 1];
    if !last.is_link() {
        return &mut [];
    }
    if last.is_crowd_link() {
        // SAFETY: invariant 2: the crowd is alive and borrowed mutably through its only owner.
        return unsafe { &mut *crowd_of(last) };
    }
    // SAFETY: invariant 2: the node is alive, of this length, and borrowed mutably through its only owner.
    unsafe { std::slice::from_raw_parts_mut(last.address().cast(), last.link_len()) }
}

/// The range of the overflow slots that contains those with this tag, and maybe others.
fn range_of(slots: &[Slot; SLOTS], tag: u16) -> Range<usize> {
    let beyond = overflow(slots);
    if !slots[SLOTS - 1].is_crowd_link() {
        return 0..beyond.len();
    }
    let start = beyond.partition_point(|slot| slot.tag() < tag);
    start..start + beyond[start..].iter().take_while(|slot| slot.tag() == tag).count()
}

/// The overflow slots that may have this tag.
#[inline]
pub(super) fn overflow_near(slots: &[Slot; SLOTS], tag: u16) -> &[Slot] {
    let last = slots[SLOTS - 1];
    if !last.is_link() || last.link_filter() & filter_bit(tag) == 0 {
        return &[];
    }
    let near = &overflow(slots)[range_of(slots, tag)];
    work::visited(near.len().div_ceil(SLOTS));
    near
}

/// Calls `visit` with the slot of every entry, overflow included.
#[inline]
pub(super) fn for_each_entry(slots: &[Slot; SLOTS], mut visit: impl FnMut(Slot)) {
    for &slot in slots {
        if slot.is_empty() {
            return;
        }
        if !slot.is_link() {
            visit(slot);
        }
    }
    overflow(slots).iter().for_each(|&slot| visit(slot));
}

/// The number of entries, overflow included.
#[inline]
pub(super) fn entry_count(slots: &[Slot; SLOTS]) -> usize {
    if slots[SLOTS - 1].is_link() { SLOTS - 1 + overflow(slots).len() } else { used(slots) }
}

/// The `n`-th entry, overflow included.
#[inline]
pub(super) fn nth_entry(slots: &[Slot; SLOTS], n: usize) -> Option<Slot> {
    match slots.get(n) {
        Some(slot) if !slot.is_link() => (!slot.is_empty()).then_some(*slot),
        _ => overflow(slots).get(n + 1 - SLOTS).copied(),
    }
}

/// The slot of the entry at `address`, which must be in this bucket and have this tag.
#[inline]
pub(super) fn slot_of(slots: &mut [Slot; SLOTS], tag: u16, address: *mut u8) -> &mut Slot {
    let mut mask = 0u32;
    for (i, slot) in slots.iter().enumerate() {
        mask |= u32::from(slot.address() == address) << i;
    }
    // The address of a node or crowd is never an entry's.
    match slots.get_mut(mask.trailing_zeros() as usize) {
        Some(_) => &mut slots[mask.trailing_zeros() as usize],
        None => {
            let at = overflowed_at(slots, tag, address);
            &mut overflow_mut(slots)[at]
        }
    }
}

/// The index of the entry at `address` within the overflow.
fn overflowed_at(slots: &[Slot; SLOTS], tag: u16, address: *mut u8) -> usize {
    let range = range_of(slots, tag);
    let found = overflow(slots)[range.clone()].iter().position(|slot| slot.address() == address);
    range.start + found.expect("the entry is in its bucket")
}

/// The number of slots in use, link included. Counts instead of searching: the result is not predictable.
#[inline]
fn used(slots: &[Slot; SLOTS]) -> usize {
    slots.iter().map(|slot| !slot.is_empty() as usize).sum()
}

/// Adds an entry. Returns the overflow bytes added if it went to the overflow, which may be 0.
#[inline]
pub(super) fn push(slots: &mut [Slot; SLOTS], slot: Slot) -> Option<usize> {
    let used = used(slots);
    match slots.get_mut(used) {
        Some(free) => {
            *free = slot;
            None
        }
        None => Some(spill(slots, slot)),
    }
}

/// Fills an empty bucket with these entries, of which the trailing slots may be empty: at most what fits into the bucket
/// and one node. Returns the overflow bytes added.
#[inline]
pub(super) fn fill(slots: &mut [Slot; SLOTS], entries: &[Slot; 2 * SLOTS]) -> usize {
    debug_assert!(slots[0].is_empty() && entries[2 * SLOTS - 1].is_empty());
    slots.copy_from_slice(&entries[..SLOTS]);
    if entries[SLOTS].is_empty() { 0 } else { fill_overflow(slots, &entries[SLOTS - 1..]) }
}

#[cold]
fn fill_overflow(slots: &mut [Slot; SLOTS], beyond: &[Slot]) -> usize {
    let count = beyond.iter().take_while(|slot| !slot.is_empty()).count();
    let entries = &beyond[..count];
    slots[SLOTS - 1] = Slot::link(allocate_node(entries), count, filter_of(entries));
    size_of_val(entries)
}

/// Adds an entry to eight full slots.
#[cold]
fn spill(slots: &mut [Slot; SLOTS], slot: Slot) -> usize {
    let last = slots[SLOTS - 1];
    if !last.is_link() {
        let node = allocate_node(&[last, slot]);
        slots[SLOTS - 1] = Slot::link(node, 2, filter_bit(last.tag()) | filter_bit(slot.tag()));
        return 2 * size_of::<Slot>();
    }
    if last.is_crowd_link() || last.link_len() == NODE_SLOTS_MAX {
        return add_to_crowd(slots, &[slot]);
    }
    let len = last.link_len();
    let node = resize_node(node_of(last), len, len + 1);
    // SAFETY: invariant 2: the node was just resized to `len + 1` slots.
    unsafe { node.add(len).write(slot) };
    slots[SLOTS - 1] = Slot::link(node, len + 1, last.link_filter() | filter_bit(slot.tag()));
    size_of::<Slot>()
}

/// Adds entries to a bucket with a crowd, or with a full node. Returns the overflow bytes added.
#[cold]
pub(super) fn add_to_crowd(slots: &mut [Slot; SLOTS], more: &[Slot]) -> usize {
    let last = slots[SLOTS - 1];
    if !last.is_crowd_link() {
        let mut crowd = Vec::with_capacity(NODE_SLOTS_MAX + more.len());
        crowd.extend_from_slice(overflow(slots));
        crowd.extend_from_slice(more);
        crowd.sort_unstable_by_key(|slot| slot.tag());
        free_overflow(last);
        let added = crowd_bytes(&crowd) - NODE_SLOTS_MAX * size_of::<Slot>();
        slots[SLOTS - 1] = Slot::crowd_link(NonNull::from(Box::leak(Box::new(crowd))));
        return added;
    }
    // SAFETY: invariant 2: the crowd is alive and borrowed mutably through its only owner.
    let crowd = unsafe { &mut *crowd_of(last) };
    let bytes = crowd_bytes(crowd);
    if crowd.len() + more.len() > crowd.capacity() {
        crowd.reserve_exact(more.len().max(crowd.len() / 4));
    }
    if let [slot] = more {
        let at = crowd.partition_point(|other| other.tag() < slot.tag());
        work::moved((crowd.len() - at) * size_of::<Slot>());
        crowd.insert(at, *slot);
    } else {
        crowd.extend_from_slice(more);
        work::moved(size_of_val(crowd.as_slice()));
        // Entries from another crowd are mostly sorted.
        crowd.sort_by_key(|slot| slot.tag());
    }
    crowd_bytes(crowd) - bytes
}

/// Removes the entry at `address`, which must be in this bucket and have this tag; an overflow entry takes its place.
/// Returns the overflow bytes freed.
#[inline]
pub(super) fn remove(slots: &mut [Slot; SLOTS], tag: u16, address: *mut u8) -> usize {
    if slots[SLOTS - 1].is_link() {
        return remove_before_overflow(slots, tag, address);
    }
    let last = used(slots) - 1;
    *slot_of(slots, tag, address) = slots[last];
    slots[last] = Slot::EMPTY;
    0
}

fn remove_before_overflow(slots: &mut [Slot; SLOTS], tag: u16, address: *mut u8) -> usize {
    match slots.iter().position(|slot| slot.address() == address) {
        Some(at) => {
            let last = overflow(slots).len() - 1;
            slots[at] = overflow(slots)[last];
            drop_overflowed(slots, last)
        }
        None => {
            let at = overflowed_at(slots, tag, address);
            drop_overflowed(slots, at)
        }
    }
}

/// Removes the `at`-th overflow entry. Returns the bytes freed.
fn drop_overflowed(slots: &mut [Slot; SLOTS], at: usize) -> usize {
    let link = slots[SLOTS - 1];
    if link.is_crowd_link() {
        return drop_from_crowd(slots, at);
    }
    let node = overflow_mut(slots);
    let len = node.len();
    node[at] = node[len - 1];
    if len == 2 {
        slots[SLOTS - 1] = node[0];
        free_overflow(link);
        return 2 * size_of::<Slot>();
    }
    let filter = filter_of(&node[..len - 1]);
    slots[SLOTS - 1] = Slot::link(resize_node(node_of(link), len, len - 1), len - 1, filter);
    size_of::<Slot>()
}

#[cold]
fn drop_from_crowd(slots: &mut [Slot; SLOTS], at: usize) -> usize {
    let link = slots[SLOTS - 1];
    // SAFETY: invariant 2: the crowd is alive and borrowed mutably through its only owner.
    let crowd = unsafe { &mut *crowd_of(link) };
    let bytes = crowd_bytes(crowd);
    work::moved((crowd.len() - at) * size_of::<Slot>());
    crowd.remove(at);
    if crowd.len() <= NODE_SLOTS_MAX {
        slots[SLOTS - 1] = Slot::link(allocate_node(crowd), crowd.len(), filter_of(crowd));
        let left = size_of_val(crowd.as_slice());
        free_overflow(link);
        return bytes - left;
    }
    if crowd.len() < crowd.capacity() / 2 {
        crowd.shrink_to(crowd.len() + crowd.len() / 4);
    }
    bytes - crowd_bytes(crowd)
}

/// The filter of a link to a node with these slots.
#[inline]
pub(super) fn filter_of(node: &[Slot]) -> u16 {
    node.iter().fold(0, |filter, slot| filter | filter_bit(slot.tag()))
}

/// Passes every entry to `take`, with some empty slots between them, and frees the overflow. Returns the bytes freed.
#[inline]
pub(super) fn dissolve(slots: &[Slot; SLOTS], mut take: impl FnMut(Slot)) -> usize {
    let [first @ .., last] = slots;
    for &slot in first {
        take(slot);
    }
    if !last.is_link() {
        take(*last);
        return 0;
    }
    overflow(slots).iter().for_each(|&slot| take(slot));
    free_overflow(*last)
}

#[inline]
fn node_of(link: Slot) -> NonNull<Slot> {
    NonNull::new(link.address().cast()).expect("a link has a node")
}

#[inline]
fn node_layout(len: usize) -> Layout {
    Layout::array::<Slot>(len).expect("a node is at most 64 bytes")
}

#[inline]
fn allocate_node(slots: &[Slot]) -> NonNull<Slot> {
    let layout = node_layout(slots.len());
    debug_assert!(layout.size() > 0);
    // SAFETY: invariant 2: the layout's size is not zero: nodes have at least two slots.
    let node = unsafe { alloc(layout) }.cast::<Slot>();
    let node = NonNull::new(node).unwrap_or_else(|| handle_alloc_error(layout));
    // SAFETY: invariant 2: the new allocation has room for exactly these slots.
    unsafe { node.copy_from_nonoverlapping(NonNull::from(slots).cast(), slots.len()) };
    node
}

#[inline]
fn resize_node(node: NonNull<Slot>, len: usize, new_len: usize) -> NonNull<Slot> {
    // SAFETY: invariant 2: the node was allocated with the layout of `len` slots; the new size is not zero.
    let resized = unsafe { realloc(node.as_ptr().cast(), node_layout(len), node_layout(new_len).size()) };
    NonNull::new(resized.cast()).unwrap_or_else(|| handle_alloc_error(node_layout(new_len)))
}

#[inline]
fn crowd_of(link: Slot) -> *mut Vec<Slot> {
    debug_assert!(link.is_crowd_link());
    link.address().cast()
}

/// Bytes of a crowd, without its link.
pub(super) fn crowd_bytes(crowd: &Vec<Slot>) -> usize {
    size_of::<Vec<Slot>>() + crowd.capacity() * size_of::<Slot>()
}

/// Bytes of the overflow behind a link.
pub(super) fn overflow_bytes(link: Slot) -> usize {
    if link.is_crowd_link() {
        // SAFETY: invariant 2: the crowd is alive; the link's owner is borrowed by the caller.
        return crowd_bytes(unsafe { &*crowd_of(link) });
    }
    link.link_len() * size_of::<Slot>()
}

/// Frees the overflow behind a link; the caller overwrites the link. Returns the bytes.
#[inline]
fn free_overflow(link: Slot) -> usize {
    let bytes = overflow_bytes(link);
    if link.is_crowd_link() {
        // SAFETY: invariant 2: this link is the only owner of the crowd, which came from a box, and is not used again.
        drop(unsafe { Box::from_raw(crowd_of(link)) });
    } else {
        // SAFETY: invariant 2: this link is the node's only owner, and the caller does not use it again.
        unsafe { dealloc(link.address(), node_layout(link.link_len())) };
    }
    bytes
}
