//! A leaf of the feature B+ tree. The textbook's leaf is an array of keys; this one is a slotted page, as in a database's
//! files: members of any length in one allocation, found through columns of fixed width in front of them.
//!
//! ```text
//! page:  | tags     | offsets      | scores           |   free   |  records  |
//!          slots x 1  slots x 2      slots x width      (room)     heap bytes
//!          0          slots          3 x slots                     len - heap        len
//!
//! each column:  | free                      | members | free |
//!                 before: room to grow        count
//!                 downwards without a move
//!
//! record: | length u8 | member          |    members of up to 254 bytes
//!         | 255       | id u32, LE      |    longer ones, kept in the tree's table of long members
//! ```
//! Slots are in the order of the set; records are in order of arrival, with holes where members were removed. Offsets count
//! from the page's *end* to the record's first byte, so a page can grow without changing them. A member is sought in either
//! of two ways: by its key, in the order of the slots (`order`), or by its tag alone, which knows of no order (`tags`).
//! `room` inserts and removes, `build` makes pages of other pages, `prefetch` fetches their lines.
//!
//! Invariants:
//! 1. `before + count <= slots`, and `slots x (3 + width) + heap <= page length <= page_max`, the tree's limit, or a quarter more
//!    in a leaf that was filled in order. `before` is 0 in leaves of fewer than [`SLOTS_OPEN_BELOW`] slots.
//! 2. Slots `0..count` ascend strictly by `(score, member)`.
//! 3. Tag `i` is the top byte of the hash of member `i`.
//! 4. The records of slots `0..count` take exactly `heap - garbage` bytes within the last `heap` bytes.
//! 5. The code expresses every score; `Leaf::next` and `Leaf::prev` mirror each other.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#leaves-of-the-feature-b-tree).

mod build;
mod order;
mod prefetch;
mod room;
mod tags;

pub(super) use tags::Few;

use super::columns::Columns;
use super::frame_of_reference::FrameOfReference;
use super::key::Key;
use super::slab::Slab;
use crate::byte_compare::LANES;
use crate::hash::HashSeed;
use crate::ordered_set::End;
use std::ops::Range;

/// No leaf: the end of the chain.
pub(super) const NO_LEAF: u32 = u32::MAX;

/// Members whose bytes do not fit a record, by id.
pub(super) type LongMembers = Slab<LongMember>;

/// A member out of line. Its hash is kept: a page holds hundreds of them, however long they are, and needs the hashes of
/// those that it moves to another.
#[derive(Clone, Default)]
pub(super) struct LongMember {
    /// The member's hash.
    pub hash: u64,
    /// The member's bytes.
    pub bytes: Box<[u8]>,
}

/// Members of this length or more are costly to hash; the hash of out-of-line members is kept.
const COSTLY_BYTES: u8 = 48;
/// Number of slots that a leaf at an end where members arrive has from the beginning.
const FIRST_SLOTS: usize = 16;
/// The length byte of a member kept out of line.
const LONG: u8 = 255;

/// A record's bytes before they are copied into a page.
pub(super) struct Record<'a> {
    head: [u8; 5],
    head_len: usize,
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Creates the record of `member`, whose hash is `hash`; a long one moves into `longs` first.
    pub fn new(member: &'a [u8], hash: u64, longs: &mut LongMembers) -> Self {
        if member.len() < LONG as usize {
            return Record { head: [member.len() as u8, 0, 0, 0, 0], head_len: 1, body: member };
        }
        let [a, b, c, d] = longs.insert(LongMember { hash, bytes: member.into() }).to_le_bytes();
        Record { head: [LONG, a, b, c, d], head_len: 5, body: &[] }
    }

    fn len(&self) -> usize {
        self.head_len + self.body.len()
    }

    /// Returns whether the member is out of line.
    pub fn is_long(&self) -> bool {
        self.head[0] == LONG
    }
}

/// How a leaf may grow.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// The tree's limit of a page.
    pub page_max: usize,
    /// Grow by half at a time, as the leaf will soon be full: each step is a copy of the page.
    pub more_to_come: bool,
}

#[derive(Clone)]
pub(super) struct Leaf {
    page: Box<[u8]>,
    code: FrameOfReference,
    /// The leaf before this one, or [`NO_LEAF`].
    pub prev: u32,
    /// The leaf behind this one, or [`NO_LEAF`].
    pub next: u32,
    count: u16,
    slots: Slots,
    heap: u16,
    garbage: u16,
    /// Index of the first member's tag: the number of free slots before it.
    before: u16,
    /// Position of the first record's offset, computed from `before` and the number of slots.
    offsets_at: u16,
    /// Position of the first score.
    scores_at: u16,
}

/// The number of slots of the columns, below 2^15 as pages are below 2^16; the highest bit is set if insertions in order
/// left the leaf full: its page may then grow by a quarter before it splits.
#[derive(Clone, Copy)]
struct Slots(u16);

impl Slots {
    const FILLED_IN_ORDER: u16 = 1 << 15;

    fn new(count: usize) -> Self {
        debug_assert!(count < usize::from(Self::FILLED_IN_ORDER), "invariant 1: slots of a page");
        Slots(count as u16)
    }

    #[inline]
    fn count(self) -> usize {
        usize::from(self.0 & !Self::FILLED_IN_ORDER)
    }

    fn filled_in_order(self) -> bool {
        self.0 & Self::FILLED_IN_ORDER != 0
    }
}

/// There are many leaves, and each occupies an entry of this size in its table.
const _: () = assert!(size_of::<Leaf>() <= 48);

/// In columns of at least this number of slots, a row of tags that begins at any of them ends within the page: offsets and
/// scores follow.
const SLOTS_OPEN_BELOW: usize = LANES / 2;

impl Default for Leaf {
    fn default() -> Self {
        Leaf {
            page: Box::default(),
            code: FrameOfReference::EMPTY,
            prev: NO_LEAF,
            next: NO_LEAF,
            count: 0,
            slots: Slots(0),
            heap: 0,
            garbage: 0,
            before: 0,
            offsets_at: 0,
            scores_at: 0,
        }
    }
}

/// The smallest allocation class that holds `len`: four classes to a doubling, like size-class allocators, so that a page
/// wastes no bytes that its allocator would not.
fn page_class(len: usize) -> usize {
    let step = (len.max(64).next_power_of_two() / 8).max(16);
    len.next_multiple_of(step)
}

/// The long member that a record refers to. Kept out of iterations, where few members are long.
#[cold]
#[inline(never)]
fn long_member<'a>(record: &[u8], longs: &'a LongMembers) -> &'a [u8] {
    &longs[u32::from_le_bytes([record[1], record[2], record[3], record[4]])].bytes
}

impl Leaf {
    /// Creates a leaf without members in a page of `len` bytes.
    fn with_room(code: FrameOfReference, slots: usize, len: usize) -> Leaf {
        let page = vec![0; len].into_boxed_slice();
        let mut leaf = Leaf { page, code, slots: Slots::new(slots), ..Leaf::default() };
        leaf.set_before(0);
        leaf
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of the page.
    pub fn page_bytes(&self) -> usize {
        self.page.len()
    }

    /// Bytes used by members, without free room and holes.
    pub fn used_bytes(&self) -> usize {
        self.count() * (3 + self.code.width()) + self.heap as usize - self.garbage as usize
    }

    /// Bytes used by one member.
    pub fn slot_bytes(&self, slot: usize) -> usize {
        3 + self.code.width() + self.record(slot).len()
    }

    fn slots(&self) -> usize {
        self.slots.count()
    }

    /// Position of the first member's tag; the others follow.
    #[inline(always)]
    fn tags_at(&self) -> usize {
        self.before as usize
    }

    /// Position of the first record's offset.
    #[inline(always)]
    fn offsets_at(&self) -> usize {
        self.offsets_at as usize
    }

    /// Position of the first score.
    #[inline(always)]
    fn scores_at(&self) -> usize {
        self.scores_at as usize
    }

    #[inline]
    fn record_at(&self, slot: usize) -> usize {
        self.page.len() - usize::from(self.place(slot))
    }

    /// The place of a slot's record: its distance from the page's end.
    #[inline]
    fn place(&self, slot: usize) -> u16 {
        let at = self.offsets_at() + 2 * slot;
        u16::from_le_bytes([self.page[at], self.page[at + 1]])
    }

    /// The place of the first or the last record, 0 in a leaf without members.
    #[inline]
    pub fn end_place(&self, end: End) -> u16 {
        match (self.count().checked_sub(1), end) {
            (None, _) => 0,
            (Some(_), End::Lowest) => self.place(0),
            (Some(last), End::Highest) => self.place(last),
        }
    }

    /// The address of the page: another one once the page is rebuilt.
    #[inline]
    pub fn page_address(&self) -> *const u8 {
        self.page.as_ptr()
    }

    #[inline]
    fn record(&self, slot: usize) -> &[u8] {
        let at = self.record_at(slot);
        let len = match self.page[at] {
            LONG => 5,
            len => 1 + len as usize,
        };
        &self.page[at..at + len]
    }

    /// The member at `slot`.
    #[inline(always)]
    pub fn member<'a>(&'a self, slot: usize, longs: &'a LongMembers) -> &'a [u8] {
        self.member_in(self.place(slot), longs)
    }

    /// The member whose record is at this place.
    #[inline(always)]
    pub fn member_in<'a>(&'a self, place: u16, longs: &'a LongMembers) -> &'a [u8] {
        let record = &self.page[self.page.len() - usize::from(place)..];
        match record[0] {
            LONG => long_member(record, longs),
            len => &record[1..1 + len as usize],
        }
    }

    /// The columns for reading these slots. None if slots need individual handling: a member is long, or scores of both
    /// signs are among them, or the last score is within eight bytes of the page's end.
    #[inline]
    pub fn columns(&self, slots: Range<usize>, longs: &LongMembers) -> Option<Columns<'_>> {
        let (width, last) = (self.code.width(), slots.clone().last()?);
        let word_end = self.scores_at() + width * last + size_of::<u64>();
        if longs.live() > 0 || last >= self.count() || word_end > self.page.len() {
            return None;
        }
        let numbers = self.code.numbers(|| (self.score(slots.start), self.score(last)))?;
        Some(Columns::new(&self.page, self.offsets_at(), self.scores_at(), width, numbers))
    }

    /// The hash of the member at `slot`, stored or computed.
    #[inline]
    pub fn hash(&self, slot: usize, longs: &LongMembers, seed: HashSeed) -> u64 {
        let record = &self.page[self.record_at(slot)..];
        match record[0] {
            LONG => longs[u32::from_le_bytes([record[1], record[2], record[3], record[4]])].hash,
            len => seed.hash(&record[1..1 + len as usize]),
        }
    }

    /// Returns whether the member at `slot` takes longer to hash than to find in a small index.
    #[inline]
    pub fn is_costly_to_hash(&self, slot: usize) -> bool {
        (COSTLY_BYTES..LONG).contains(&self.page[self.record_at(slot)])
    }

    /// Changes the id of an out-of-line member.
    pub fn set_long_id(&mut self, slot: usize, id: u32) {
        assert!(self.long_id(slot).is_some(), "an out-of-line member");
        let at = self.record_at(slot) + 1;
        self.page[at..at + 4].copy_from_slice(&id.to_le_bytes());
    }

    /// The id of an out-of-line member.
    pub fn long_id(&self, slot: usize) -> Option<u32> {
        match self.record(slot) {
            [LONG, id @ ..] => Some(u32::from_le_bytes(id.try_into().expect("4 bytes of id"))),
            _ => None,
        }
    }

    /// The score's ordered bits.
    #[inline]
    pub fn score(&self, slot: usize) -> u64 {
        let at = self.scores_at() + slot * self.code.width();
        self.code.decode(self.code.read(&self.page, at))
    }

    /// The key at `slot`.
    #[inline]
    pub fn key<'a>(&'a self, slot: usize, longs: &'a LongMembers) -> Key<'a> {
        Key { score: self.score(slot), member: self.member(slot, longs) }
    }

    /// Marks the leaf as filled in order, so that it may become larger than others.
    pub fn set_filled_in_order(&mut self) {
        self.slots.0 |= Slots::FILLED_IN_ORDER;
    }

    /// The limit of this leaf's page in a tree whose limit is `page_max`.
    fn own_page_max(&self, page_max: usize) -> usize {
        page_max + if self.slots.filled_in_order() { page_max / 4 } else { 0 }
    }

    /// Gives the member at `slot` a score that keeps the order; `false` if the code cannot express it.
    pub fn set_score(&mut self, slot: usize, score: u64) -> bool {
        let Some(delta) = self.code.encode(score) else { return false };
        let at = self.scores_at() + slot * self.code.width();
        self.code.write(&mut self.page, at, delta);
        true
    }

    /// Verifies invariants 1, 2, 4 and the part of 5 that concerns the leaf alone.
    pub fn check(&self, longs: &LongMembers, page_max: usize) {
        let columns = self.slots() * (3 + self.code.width());
        let rows = self.tags_at() + self.count().next_multiple_of(LANES);
        assert!(rows <= self.page.len().max(LANES), "rows of tags reach beyond the page");
        assert!(self.tags_at() + self.count() <= self.slots(), "leaf invariant 1: more members than slots");
        assert!(self.before == 0 || self.may_open_below(), "leaf invariant 1: open below with few slots");
        let (all, before) = (self.slots(), self.tags_at());
        assert_eq!(
            (self.offsets_at(), self.scores_at()),
            (all + 2 * before, 3 * all + self.code.width() * before)
        );
        assert!(
            columns + self.heap as usize <= self.page.len(),
            "leaf invariant 1: columns and records overlap"
        );
        assert!(self.page.len() <= self.own_page_max(page_max), "leaf invariant 1: page too large");
        for slot in 1..self.count() {
            assert!(
                self.key(slot - 1, longs) < self.key(slot, longs),
                "leaf invariant 2: slot {slot} out of order"
            );
        }
        let mut records: Vec<Range<usize>> = (0..self.count())
            .map(|slot| self.record_at(slot)..self.record_at(slot) + self.record(slot).len())
            .collect();
        records.sort_by_key(|record| record.start);
        assert!(
            records.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "leaf invariant 4: records overlap"
        );
        let start = self.page.len() - self.heap as usize;
        assert!(
            records.first().is_none_or(|record| record.start >= start),
            "leaf invariant 4: outside the heap"
        );
        let live: usize = records.iter().map(Range::len).sum();
        assert_eq!(live, (self.heap - self.garbage) as usize, "leaf invariant 4: garbage miscounted");
        for slot in 0..self.count() {
            assert!(self.code.encode(self.score(slot)).is_some(), "leaf invariant 5: score outside the code");
        }
    }
}
