//! A 64-bit slot: the address of an entry, three flags in its low bits, sixteen bits of hash above it.

use std::ptr::NonNull;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a slot keeps 16 bits of hash above a 48-bit address: 64-bit targets only");

/// The entry has a time to live.
pub(super) const EXPIRES: usize = 1;
/// The entry holds an object (not bytes, not an integer).
pub(super) const OBJECT: usize = 2;
/// Not an entry: the address is that of a node or a crowd, see `bucket`.
const LINK: usize = 4;
/// The entry is bulky: longer than the lines that a lookup fetches of other entries.
pub(super) const BULKY: usize = 6;
/// The field whose values are [`OBJECT`], [`LINK`] and [`BULKY`]; 0 is an entry of few bytes, or an integer.
const KIND: usize = 6;
const FLAGS: usize = EXPIRES | KIND;

const ADDRESS_MASK: usize = 0x0000_ffff_ffff_fff8;
const TAG_SHIFT: u32 = 48;
const FILTER_BITS: u32 = 13;

/// ```text
///  63        48 47                             3   2   1      0
/// | tag        | address, a multiple of 8       | KIND    | EXPIRES |     an entry
/// | len-1 |filter| address of a node            | LINK    |    0    |     a link to a node
/// | 0     | ones | address of a crowd           | LINK    |    0    |     a link to a crowd
///   3 bits 13 bits
/// ```
/// A pointer instead of a `u64`, so that the address keeps its provenance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Slot(*mut u8);

const _: () = assert!(size_of::<Slot>() == 8);

impl Slot {
    pub(super) const EMPTY: Slot = Slot(std::ptr::null_mut());

    /// A slot for the entry at `address`; `flags` is a union of [`EXPIRES`] and one of [`OBJECT`] and [`BULKY`].
    #[inline]
    pub(super) fn entry(address: NonNull<u8>, tag: u16, flags: usize) -> Slot {
        debug_assert!(flags & !FLAGS == 0 && flags & KIND != LINK);
        Slot::pack(address, tag, flags)
    }

    /// A link to a node of `len` slots (2 to 8).
    pub(super) fn link(node: NonNull<Slot>, len: usize, filter: u16) -> Slot {
        debug_assert!((2..=8).contains(&len) && filter >> FILTER_BITS == 0);
        Slot::pack(node.cast(), ((len - 1) as u16) << FILTER_BITS | filter, LINK)
    }

    /// A link to a crowd.
    pub(super) fn crowd_link(crowd: NonNull<Vec<Slot>>) -> Slot {
        Slot::pack(crowd.cast(), (1 << FILTER_BITS) - 1, LINK)
    }

    #[inline]
    fn pack(address: NonNull<u8>, high: u16, flags: usize) -> Slot {
        assert!(
            address.addr().get() & !ADDRESS_MASK == 0,
            "the allocator returned an address beyond 48 bits"
        );
        Slot(address.as_ptr().map_addr(|bits| bits | flags | (high as usize) << TAG_SHIFT))
    }

    #[inline]
    fn bits(self) -> usize {
        self.0.addr()
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(super) fn is_link(self) -> bool {
        self.bits() & KIND == LINK
    }

    #[inline]
    pub(super) fn is_entry(self) -> bool {
        !self.is_empty() && !self.is_link()
    }

    #[inline]
    pub(super) fn expires(self) -> bool {
        self.bits() & EXPIRES != 0
    }

    #[inline]
    pub(super) fn is_bulky(self) -> bool {
        self.bits() & KIND == BULKY
    }

    /// The flags given to [`Slot::entry`].
    #[inline]
    pub(super) fn flags(self) -> usize {
        self.bits() & FLAGS
    }

    #[inline]
    pub(super) fn holds_object(self) -> bool {
        self.bits() & KIND == OBJECT
    }

    /// The address of the entry, node or crowd; null for an empty slot.
    #[inline]
    pub(super) fn address(self) -> *mut u8 {
        self.0.map_addr(|bits| bits & ADDRESS_MASK)
    }

    #[inline]
    pub(super) fn tag(self) -> u16 {
        (self.bits() >> TAG_SHIFT) as u16
    }

    #[inline]
    pub(super) fn with_tag(self, tag: u16) -> Slot {
        Slot(self.0.map_addr(|bits| bits & !(0xffff << TAG_SHIFT) | (tag as usize) << TAG_SHIFT))
    }

    #[inline]
    pub(super) fn is_crowd_link(self) -> bool {
        self.is_link() && self.tag() >> FILTER_BITS == 0
    }

    /// The number of slots of the linked node.
    #[inline]
    pub(super) fn link_len(self) -> usize {
        debug_assert!(self.is_link() && !self.is_crowd_link());
        (self.tag() >> FILTER_BITS) as usize + 1
    }

    /// A link's filter: the union of [`filter_bit`] over all overflow entries.
    #[inline]
    pub(super) fn link_filter(self) -> u16 {
        self.tag() & ((1 << FILTER_BITS) - 1)
    }
}

/// The bit of a link's filter that an entry with this tag sets: one of 13, by the tag's highest bits.
#[inline]
pub(super) fn filter_bit(tag: u16) -> u16 {
    1 << ((tag as u32 * FILTER_BITS) >> 16)
}
