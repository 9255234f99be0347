//! A bucket: eight slots in one cache line, the last of which may link to an exactly sized overflow node.
//!
//! ```text
//!  bucket  | slot 0 | ... | slot 6 | slot 7: an entry, or a link -> | slot | slot | ...   2 to 8 slots
//! ```
//! A node of eight slots has a bucket's shape, so its last slot may be a link in turn.
//!
//! Invariants:
//! 1. Occupied slots come first, empty ones last.
//! 2. A link stands only in the eighth slot of eight. It alone owns its node, which has exactly the length
//!    the link says, and no empty slot.
//! 3. A link's filter is exactly the union of the filter bits of all entries beyond it.

use super::slot::{Slot, filter_bit};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

pub(super) const SLOTS: usize = 8;

#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

/// A set of slots of a bucket, bit i for slot i.
pub(super) type SlotMask = u32;

impl Bucket {
    /// The slots whose upper 16 bits are `tag`. May include a link, and empty slots if `tag` is 0.
    #[inline]
    pub(super) fn matching(&self, tag: u16) -> SlotMask {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return self.matching_sse2(tag);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return self.matching_plain(tag);
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn matching_sse2(&self, tag: u16) -> SlotMask {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86-64, and the four loads cover the 64 aligned bytes of the bucket.
        unsafe {
            let line = self.slots.as_ptr().cast::<__m128>();
            // 0xdd picks the upper 32 bits of each of four slots; shifting right leaves the tag,
            // sign-extended, which the saturating pack keeps as it is.
            let upper = |i: usize| {
                let pair = _mm_shuffle_ps::<0xdd>(
                    _mm_load_ps(line.add(i).cast()),
                    _mm_load_ps(line.add(i + 1).cast()),
                );
                _mm_srai_epi32::<16>(_mm_castps_si128(pair))
            };
            let tags = _mm_packs_epi32(upper(0), upper(2));
            let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as SlotMask
        }
    }

    #[cfg(any(test, miri, not(target_arch = "x86_64")))]
    #[inline]
    pub(super) fn matching_plain(&self, tag: u16) -> SlotMask {
        let mut mask = 0;
        for (i, slot) in self.slots.iter().enumerate() {
            mask |= ((slot.tag() == tag) as SlotMask) << i;
        }
        mask
    }
}

/// The slots beyond the link of `slots`; none if there is no link. The last one may be a link again.
#[inline]
pub(super) fn overflow(slots: &[Slot; SLOTS]) -> &[Slot] {
    let last = slots[SLOTS - 1];
    if !last.is_link() {
        return &[];
    }
    // SAFETY: invariant 2: the node is alive, of this length, and borrowed through its only owner.
    unsafe { std::slice::from_raw_parts(last.address().cast(), last.link_len()) }
}

fn overflow_mut(slots: &mut [Slot; SLOTS]) -> &mut [Slot] {
    let last = slots[SLOTS - 1];
    if !last.is_link() {
        return &mut [];
    }
    // SAFETY: invariant 2: the node is alive, of this length, and borrowed mutably through its only owner.
    unsafe { std::slice::from_raw_parts_mut(last.address().cast(), last.link_len()) }
}

/// Calls `visit` with the slot of every entry, overflow included.
#[inline]
pub(super) fn for_each_entry(slots: &[Slot; SLOTS], mut visit: impl FnMut(Slot)) {
    let mut slots: &[Slot] = slots;
    loop {
        for &slot in slots {
            if slot.is_empty() {
                return;
            }
            if !slot.is_link() {
                visit(slot);
            }
        }
        match <&[Slot; SLOTS]>::try_from(slots) {
            Ok(full) => slots = overflow(full),
            Err(_) => return,
        }
    }
}

/// The number of entries, overflow included.
pub(super) fn entry_count(slots: &[Slot; SLOTS]) -> usize {
    let mut count = 0;
    for_each_entry(slots, |_| count += 1);
    count
}

/// The slot of the entry at `address`, which must be there.
#[inline]
pub(super) fn slot_of(slots: &mut [Slot; SLOTS], address: *mut u8) -> &mut Slot {
    let mut mask: SlotMask = 0;
    for (i, slot) in slots.iter().enumerate() {
        mask |= ((slot.address() == address) as SlotMask) << i;
    }
    // A node's address is no entry's.
    match slots.get_mut(mask.trailing_zeros() as usize) {
        Some(_) => &mut slots[mask.trailing_zeros() as usize],
        None => slot_of_overflowed(overflow_mut(slots), address),
    }
}

fn slot_of_overflowed(node: &mut [Slot], address: *mut u8) -> &mut Slot {
    match node.iter().position(|slot| slot.is_entry() && slot.address() == address) {
        Some(at) => &mut node[at],
        None => {
            let full = <&mut [Slot; SLOTS]>::try_from(node).expect("the entry is in its bucket");
            slot_of_overflowed(overflow_mut(full), address)
        }
    }
}

/// The number of slots in use, link included. Counts rather than searches: the answer is not predictable.
#[inline]
fn used(slots: &[Slot; SLOTS]) -> usize {
    slots.iter().map(|slot| !slot.is_empty() as usize).sum()
}

/// Adds an entry. Returns the bytes of overflow this added.
#[inline]
pub(super) fn push(slots: &mut [Slot; SLOTS], slot: Slot) -> usize {
    let used = used(slots);
    match slots.get_mut(used) {
        Some(free) => {
            *free = slot;
            0
        }
        None => spill(slots, slot),
    }
}

/// Gives an empty bucket these entries, which empty slots may follow: as many as fit into it and one node.
/// Returns the bytes of overflow this added.
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
    let filter = last.link_filter() | filter_bit(slot.tag());
    if let Ok(full) = <&mut [Slot; SLOTS]>::try_from(overflow_mut(slots)) {
        let added = spill(full, slot);
        slots[SLOTS - 1] = Slot::link(node_of(last), SLOTS, filter);
        return added;
    }
    let len = last.link_len();
    let node = resize_node(node_of(last), len, len + 1);
    // SAFETY: the node has just been given room for `len + 1` slots.
    unsafe { node.add(len).write(slot) };
    slots[SLOTS - 1] = Slot::link(node, len + 1, filter);
    size_of::<Slot>()
}

/// Takes out the entry at `address`, which must be there: the chain's last entry moves into its place.
/// Returns the bytes of overflow this freed.
#[inline]
pub(super) fn remove(slots: &mut [Slot; SLOTS], address: *mut u8) -> usize {
    if slots[SLOTS - 1].is_link() {
        *slot_of(slots, address) = last_entry(slots);
        return drop_last_entry(slots);
    }
    let last = used(slots) - 1;
    *slot_of(slots, address) = slots[last];
    slots[last] = Slot::EMPTY;
    0
}

#[inline]
fn last_entry(slots: &[Slot; SLOTS]) -> Slot {
    let mut last = Slot::EMPTY;
    for_each_entry(slots, |slot| last = slot);
    last
}

/// Forgets the last entry of the chain, recomputing every filter on the way. Returns the bytes freed.
fn drop_last_entry(slots: &mut [Slot; SLOTS]) -> usize {
    let link = slots[SLOTS - 1];
    if !link.is_link() {
        let last = slots.iter_mut().rev().find(|slot| !slot.is_empty()).expect("an entry was found here");
        *last = Slot::EMPTY;
        return 0;
    }
    let node = overflow_mut(slots);
    if let Ok(full) = <&mut [Slot; SLOTS]>::try_from(&mut *node)
        && full[SLOTS - 1].is_link()
    {
        let freed = drop_last_entry(full);
        let filter = filter_of(full);
        slots[SLOTS - 1] = Slot::link(node_of(link), SLOTS, filter);
        return freed;
    }
    let len = node.len();
    if len == 2 {
        slots[SLOTS - 1] = node[0];
        free_node(link);
        return 2 * size_of::<Slot>();
    }
    let filter = filter_of(&node[..len - 1]);
    slots[SLOTS - 1] = Slot::link(resize_node(node_of(link), len, len - 1), len - 1, filter);
    size_of::<Slot>()
}

/// The filter of a link to a node with these slots.
#[inline]
pub(super) fn filter_of(node: &[Slot]) -> u16 {
    node.iter().fold(0, |filter, slot| {
        filter | if slot.is_link() { slot.link_filter() } else { filter_bit(slot.tag()) }
    })
}

/// Hands every entry to `take`, with some empty slots between them, and frees the overflow nodes. Returns the
/// bytes freed.
#[inline]
pub(super) fn dissolve(slots: &[Slot; SLOTS], mut take: impl FnMut(Slot)) -> usize {
    let [first @ .., last] = slots;
    for &slot in first {
        take(slot);
    }
    take(if last.is_link() { Slot::EMPTY } else { *last });
    let mut link = *last;
    let mut freed = 0;
    while link.is_link() {
        // SAFETY: invariant 2: the node is alive and of this length; its owner has been handed over to
        // `link`.
        let node: &[Slot] = unsafe { std::slice::from_raw_parts(link.address().cast(), link.link_len()) };
        let last = node[node.len() - 1];
        for &slot in node {
            take(if slot.is_link() { Slot::EMPTY } else { slot });
        }
        freed += size_of_val(node);
        free_node(link);
        link = last;
    }
    freed
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
    // SAFETY: the layout's size is not zero: nodes have at least two slots.
    let node = unsafe { alloc(layout) }.cast::<Slot>();
    let node = NonNull::new(node).unwrap_or_else(|| handle_alloc_error(layout));
    // SAFETY: the new allocation has room for exactly these slots.
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
fn free_node(link: Slot) {
    // SAFETY: invariant 2: this link is the node's only owner, and the caller forgets it.
    unsafe { dealloc(link.address(), node_layout(link.link_len())) };
}
