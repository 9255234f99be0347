//! A leaf of the feature B+ tree: members in order, packed into one page.
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
//!
//! Slots are in the order of the set; records are in order of arrival, with holes where members were removed. Offsets count
//! from the page's *end* to the record's first byte, so a page can grow without changing them.
//!
//! Invariants:
//! 1. `before + count <= slots`, and `slots x (3 + width) + heap <= page length <= page_max`, the tree's limit, or a quarter more
//!    in a leaf that was filled in order. `before` is 0 in leaves of fewer than [`SLOTS_OPEN_BELOW`] slots.
//! 2. Slots `0..count` ascend strictly by `(score, member)`.
//! 3. Tag `i` is the top byte of the hash of member `i`.
//! 4. The records of slots `0..count` take exactly `heap - garbage` bytes within the last `heap` bytes.
//! 5. The code expresses every score; `Leaf::next` and `Leaf::prev` mirror each other.
//!
//! Score search, zeroed pages, the extra quarter, lookups by member: measurements and rejected designs are in
//! [docs/structures.md](../../../../../docs/structures.md#leaves-of-the-feature-b-tree).

mod room;

use super::columns::Columns;
use super::frame_of_reference::{Decoder, FrameOfReference};
use super::key::Key;
use super::slab::Slab;
use crate::byte_compare::{BitMask, Column, Group, LANES, Simd};
use crate::hash::HashSeed;
use crate::prefetch::{prefetch, prefetch_bytes};
use crate::work;
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

/// Lines that a lookup prefetches: those of the tags and offsets of a page that is full of members of 16 bytes. The same
/// number for each page, because a loop count that depends on the page is mispredicted.
const LOOKUP_LINES: usize = 7;
/// Assumed length of a record that a lookup prefetches: the true length is in the record.
const SHORT_RECORD_BYTES: usize = 20;
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

/// Slots of a leaf that have one tag. In a full leaf of short members every other lookup meets two, one in fifty more than
/// fit here.
#[derive(Clone, Copy, Default)]
pub(super) struct Few {
    slots: [u16; 4],
    count: u16,
}

impl Few {
    #[inline(always)]
    fn push(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(usize::from(self.count)) {
            *place = slot as u16;
        }
        self.count += 1;
    }

    /// Returns whether no slot was left out.
    #[inline]
    pub fn is_all(&self) -> bool {
        usize::from(self.count) <= self.slots.len()
    }

    /// The slots, ascending.
    #[inline]
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.slots[..self.slots.len().min(self.count.into())].iter().map(|&slot| usize::from(slot))
    }
}

/// The position of a key, or where it would be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The first slot not below the key.
    pub slot: usize,
    /// Whether the slot has this very key.
    pub exact: bool,
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

/// The column of scores, prepared for reading many of them.
#[derive(Clone, Copy)]
struct Scores<'a> {
    /// The page from the column on.
    column: &'a [u8],
    decoder: Decoder,
}

impl Scores<'_> {
    #[inline(always)]
    fn delta(&self, slot: usize) -> u64 {
        self.decoder.delta(self.column, slot)
    }

    /// The number of slots of `range` whose deltas do not pass; those that pass follow those that do not. Independent
    /// compares in rounds, without branches on the results.
    #[inline]
    fn count_failing(&self, range: Range<usize>, passes: impl Fn(u64) -> bool) -> usize {
        let failing = |at: usize| usize::from(!passes(self.delta(at)));
        let Range { mut start, mut end } = range;
        for step in STEPS {
            // A loop: the sum of an iterator became a call.
            let mut whole = 0;
            for nth in 0..(end - start) / step {
                whole += failing(start + step * nth + step - 1);
            }
            start += step * whole;
            end = end.min(start + step);
        }
        start - range.start
    }
}

/// The number of the first `count` deltas below `least`. A separate function, as the caller would have too few registers.
#[inline(never)]
fn deltas_below(column: &[u8], decoder: Decoder, count: usize, least: u64) -> usize {
    Scores { column, decoder }.count_failing(0..count, |delta| delta >= least)
}

/// Strides of the rounds: each round reads the last of this number of slots; the first touches every line of the column,
/// which may be cold.
const STEPS: [usize; 3] = [16, 4, 1];

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
        let at = self.offsets_at() + 2 * slot;
        self.page.len() - u16::from_le_bytes([self.page[at], self.page[at + 1]]) as usize
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
        let record = &self.page[self.record_at(slot)..];
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

    /// Compares the slot's key with `key`. Reads the record only where scores are equal.
    #[inline]
    pub fn compare(&self, slot: usize, key: &Key<'_>, longs: &LongMembers) -> std::cmp::Ordering {
        self.score(slot).cmp(&key.score).then_with(|| self.compare_member(slot, key, longs))
    }

    /// Kept out of `compare`, which is small without it.
    #[inline(never)]
    fn compare_member(&self, slot: usize, key: &Key<'_>, longs: &LongMembers) -> std::cmp::Ordering {
        self.member(slot, longs).cmp(key.member)
    }

    /// The number of members with scores below each of these (ordered bits).
    #[inline]
    pub fn count_below<const N: usize>(&self, simd: Simd, scores: [u64; N]) -> [usize; N] {
        let deltas = scores.map(|score| self.code.least_delta(score));
        let bytes = &self.page[self.scores_at()..];
        let column = Column { bytes, width: self.code.width(), count: self.count() };
        simd.count_below(&column, deltas).unwrap_or_else(|| self.count_deltas_below(deltas))
    }

    /// The number of slots with deltas below each of these.
    #[inline(never)]
    fn count_deltas_below<const N: usize>(&self, deltas: [u64; N]) -> [usize; N] {
        let scores = self.scores();
        deltas.map(|least| scores.count_failing(0..self.count(), |delta| delta >= least))
    }

    /// The first slot not below `key`, or `count`.
    pub fn lower_bound(&self, key: &Key<'_>, longs: &LongMembers) -> Found {
        let Some((delta, exact)) = self.code.lower_bound(key.score) else {
            return Found { slot: self.count(), exact: false };
        };
        let scores = self.scores();
        let first = deltas_below(scores.column, scores.decoder, self.count(), delta);
        if !exact || first == self.count() || scores.delta(first) != delta {
            return Found { slot: first, exact: false };
        }
        // No member is below the empty one, which marks the start of a range of scores.
        if key.member.is_empty() {
            return Found { slot: first, exact: self.member(first, longs).is_empty() };
        }
        let next = first + 1;
        let mut range = first..match next < self.count() && scores.delta(next) == delta {
            true => next + scores.count_failing(next..self.count(), |d| d > delta),
            false => next,
        };
        while !range.is_empty() {
            let middle = range.start + range.len() / 2;
            match self.member(middle, longs).cmp(key.member) {
                std::cmp::Ordering::Less => range.start = middle + 1,
                std::cmp::Ordering::Equal => return Found { slot: middle, exact: true },
                std::cmp::Ordering::Greater => range.end = middle,
            }
        }
        Found { slot: range.start, exact: false }
    }

    /// The slot for a new key, where it is likely to be the first or behind the last.
    pub fn place_for(&self, key: &Key<'_>, longs: &LongMembers) -> usize {
        let Some(last) = self.count().checked_sub(1) else { return 0 };
        match self.code.lower_bound(key.score) {
            None => self.count(),
            Some((delta, _)) if delta > self.scores().delta(last) => self.count(),
            Some((delta, false)) if delta <= self.scores().delta(0) => 0,
            Some((delta, true)) if delta < self.scores().delta(0) => 0,
            Some(_) => self.lower_bound(key, longs).slot,
        }
    }

    #[inline]
    fn scores(&self) -> Scores<'_> {
        Scores { column: &self.page[self.scores_at()..], decoder: self.code.decoder() }
    }

    /// The tag of each member.
    pub fn tags(&self) -> &[u8] {
        &self.page[self.tags_at()..self.tags_at() + self.count()]
    }

    /// Slots whose tag is `tag`, ascending.
    pub fn tagged(&self, tag: u8) -> Tagged<'_> {
        Tagged { leaf: self, tag, next: 0, mask: BitMask::<u64>::NONE }
    }

    /// The first few slots with this tag, and their number, for many lookups at once.
    #[inline]
    pub fn few_tagged(&self, tag: u8) -> Few {
        let mut few = Few::default();
        if self.page.len() < LANES {
            self.tagged(tag).for_each(|slot| few.push(slot));
            return few;
        }
        for row in (0..self.count()).step_by(2 * LANES) {
            self.two_rows_matching(row, tag).for_each(|lane| few.push(row + lane));
        }
        few
    }

    /// The slot of `member`, whose tag is `tag`.
    #[inline]
    pub fn find(&self, tag: u8, member: &[u8], longs: &LongMembers) -> Option<usize> {
        // The most common lengths are compared by two words that overlap. Without calls no registers are saved.
        match member.len() {
            8..=16 if self.page.len() >= LANES => self.find_short::<8>(tag, member),
            17..=32 if self.page.len() >= LANES => self.find_short::<16>(tag, member),
            _ => self.find_other(tag, member, longs),
        }
    }

    /// The slot of a member of `WORD` to twice as many bytes.
    #[inline(always)]
    fn find_short<const WORD: usize>(&self, tag: u8, member: &[u8]) -> Option<usize> {
        let (head, tail) = (member.first_chunk::<WORD>()?, member.last_chunk::<WORD>()?);
        self.find_record(tag, |record| {
            let Some((len, bytes)) = record.get(..1 + member.len()).and_then(|record| record.split_first())
            else {
                return false;
            };
            usize::from(*len) == member.len()
                && bytes.first_chunk() == Some(head)
                && bytes.last_chunk() == Some(tail)
        })
    }

    /// The slot with this tag whose record is the one sought; `is_it` is given the bytes from the record's start on.
    #[inline(always)]
    fn find_record(&self, tag: u8, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let mut row = 0;
        while row < self.count() {
            for lane in self.two_rows_matching(row, tag) {
                let slot = row + lane;
                if is_it(&self.page[self.record_at(slot)..]) {
                    return Some(slot);
                }
            }
            row += 2 * LANES;
        }
        None
    }

    /// Those of the slots from `row` on, which must exist, that have this tag, as far as two rows reach; the page must be a
    /// row or longer. Two rows at once: the branch on which of them has the member would be mispredicted half the time.
    #[inline(always)]
    fn two_rows_matching(&self, row: usize, tag: u8) -> BitMask<u128> {
        let matching = |row: usize| {
            let tags = self.tags_from(row).expect("in a page of a row or more a whole row follows each tag");
            tags.matching(tag)
        };
        let left = self.count() - row;
        let behind = if left > LANES { matching(row + LANES) } else { BitMask::<u64>::NONE };
        matching(row).followed_by(behind).below(left)
    }

    #[inline(never)]
    fn find_other(&self, tag: u8, member: &[u8], longs: &LongMembers) -> Option<usize> {
        self.tagged(tag).find(|&slot| self.member(slot, longs) == member)
    }

    /// The row of bytes from tag `row` on, which must exist. Only pages shorter than a row lack it: beyond the first row,
    /// the columns behind the tags take more than a row.
    #[inline(always)]
    fn tags_from(&self, row: usize) -> Option<Group<'_>> {
        Group::first_of(&self.page[self.tags_at() + row..])
    }

    /// Those of the slots from `row` on, which must exist, that have this tag, as far as one row reaches.
    fn row_matching(&self, row: usize, tag: u8) -> BitMask<u64> {
        let mut short = [0; LANES];
        let tags = self.tags_from(row).unwrap_or_else(|| {
            let tags = &self.page[self.tags_at() + row..];
            short[..tags.len()].copy_from_slice(tags);
            Group::of(&short)
        });
        tags.matching(tag).below(self.count() - row)
    }

    /// Marks the leaf as filled in order, so that it may become larger than others.
    pub fn set_filled_in_order(&mut self) {
        self.slots.0 |= Slots::FILLED_IN_ORDER;
    }

    /// The limit of this leaf's page in a tree whose limit is `page_max`.
    fn own_page_max(&self, page_max: usize) -> usize {
        page_max + if self.slots.filled_in_order() { page_max / 4 } else { 0 }
    }

    /// Puts a record before all others. There must be room.
    #[inline]
    fn push_record(&mut self, record: &Record<'_>) {
        self.heap += record.len() as u16;
        let at = self.page.len() - self.heap as usize;
        let place = &mut self.page[at..at + record.len()];
        match record.head_len {
            1 => place[0] = record.head[0],
            len => place[..len].copy_from_slice(&record.head[..len]),
        }
        place[record.head_len..].copy_from_slice(record.body);
    }

    /// A leaf of the first of these scores, tags and records, as many as fit a page. They ascend, and there is at least
    /// one.
    pub fn packed(parts: &[(u64, u8, &Record<'_>)], page_max: usize) -> Leaf {
        let mut count = parts.len();
        loop {
            let taken = &parts[..count];
            let code = FrameOfReference::fit(taken.iter().map(|&(score, _, _)| score));
            let records: usize = taken.iter().map(|(_, _, record)| record.len()).sum();
            let bytes = count * (3 + code.width()) + records;
            if bytes > page_max {
                // About as many as fit if all are alike, and a few less.
                count = (count * page_max / bytes).clamp(1, count - 1);
                continue;
            }
            let mut leaf = Leaf::with_room(code, count, page_class(bytes));
            taken.iter().for_each(|&(score, tag, record)| leaf.append_new(score, tag, record));
            return leaf;
        }
    }

    /// Adds a member behind the last. The room and the code must suffice.
    fn append_new(&mut self, score: u64, tag: u8, record: &Record<'_>) {
        self.push_record(record);
        let slot = self.count();
        let tag_at = self.tags_at() + slot;
        self.page[tag_at] = tag;
        let offset = self.offsets_at() + 2 * slot;
        self.page[offset..offset + 2].copy_from_slice(&self.heap.to_le_bytes());
        let delta = self.code.encode(score).expect("the code was fitted to this score");
        let at = self.scores_at() + self.code.width() * slot;
        self.code.write(&mut self.page, at, delta);
        self.count += 1;
    }

    /// Copies slots of another leaf behind the last. The room and the code must suffice.
    fn append(&mut self, from: &Leaf, range: Range<usize>) {
        let (count, added) = (self.count(), range.len());
        work::moved(added * (3 + self.code.width()));
        let (at, source) = (self.tags_at() + count, from.tags_at() + range.start);
        self.page[at..at + added].copy_from_slice(&from.page[source..source + added]);
        if self.code == from.code {
            let width = self.code.width();
            let source = from.scores_at() + range.start * width..from.scores_at() + range.end * width;
            let at = self.scores_at() + count * width;
            self.page[at..at + added * width].copy_from_slice(&from.page[source]);
        } else {
            let (scores, column) = (from.scores(), self.scores_at());
            let end = self.slots() * (3 + self.code.width());
            for (at, slot) in (count..).zip(range.clone()) {
                let delta = self.code.encode(from.code.decode(scores.delta(slot)));
                let delta = delta.expect("the code was fitted to this score");
                let at = column + at * self.code.width();
                // A whole word overwrites the column's next bytes, which are written later; preserving them would wait for
                // the word before.
                match self.page[at..end].first_chunk_mut() {
                    Some(word) => *word = delta.to_le_bytes(),
                    None => self.code.write(&mut self.page, at, delta),
                }
            }
        }
        if self.heap == 0 && from.garbage == 0 && added == from.count() {
            self.append_whole_heap(from);
        } else {
            for slot in range.clone() {
                self.append_record(from.record(slot), count + slot - range.start);
            }
        }
        self.count += added as u16;
    }

    /// Copies all records of a leaf without holes at once, with unchanged offsets.
    fn append_whole_heap(&mut self, from: &Leaf) {
        let (heap, len) = (from.heap as usize, self.page.len());
        work::moved(heap);
        self.page[len - heap..].copy_from_slice(&from.page[from.page.len() - heap..]);
        let at = self.offsets_at();
        let source = from.offsets_at()..from.offsets_at() + 2 * from.count();
        self.page[at..at + source.len()].copy_from_slice(&from.page[source]);
        self.heap = from.heap;
    }

    fn append_record(&mut self, record: &[u8], slot: usize) {
        work::moved(record.len());
        self.heap += record.len() as u16;
        let at = self.page.len() - self.heap as usize;
        self.page[at..at + record.len()].copy_from_slice(record);
        let offset = self.offsets_at() + 2 * slot;
        self.page[offset..offset + 2].copy_from_slice(&self.heap.to_le_bytes());
    }

    /// A leaf of these slots of these leaves, in this order, in the smallest page; `None` if that would exceed `page_max`.
    /// The links are not set.
    pub fn of(parts: &[(&Leaf, Range<usize>)], page_max: usize) -> Option<Leaf> {
        let slots_of = |part: &(&Leaf, Range<usize>)| part.1.clone();
        let scores = parts.iter().flat_map(|part| slots_of(part).map(|slot| part.0.score(slot)));
        let code = FrameOfReference::fit(scores);
        let count: usize = parts.iter().map(|part| part.1.len()).sum();
        let records: usize = parts.iter().map(|part| part.0.record_bytes(slots_of(part))).sum();
        let len = count * (3 + code.width()) + records;
        if len > page_max {
            return None;
        }
        let mut leaf = Leaf::with_room(code, count, page_class(len));
        for part in parts {
            leaf.append(part.0, slots_of(part));
        }
        Some(leaf)
    }

    fn record_bytes(&self, range: Range<usize>) -> usize {
        if range.len() == self.count() {
            return self.heap as usize - self.garbage as usize;
        }
        range.map(|slot| self.record(slot).len()).sum()
    }

    /// The slot at which the bytes before it come closest to `bytes`; within `1..count`.
    pub fn slot_at_bytes(&self, bytes: usize) -> usize {
        let mut sum = 0;
        let reaching = (0..self.count()).position(|slot| {
            sum += self.slot_bytes(slot);
            sum >= bytes
        });
        reaching.map_or(self.count(), |slot| slot + 1).clamp(1, self.count() - 1)
    }

    /// Moves the members to a smaller page if a fifth of this one would be free; half if more members are to come, because
    /// such a leaf grows by half at a time, and would be rebuilt for each member that comes and goes.
    pub fn shrink_if_roomy(&mut self, more_to_come: bool) {
        let used = self.used_bytes();
        let spare = if more_to_come { used } else { used / 4 };
        if page_class(used + spare) < self.page.len() {
            self.shrink();
        }
    }

    /// Takes over the members of another leaf, keeping the links.
    pub fn replace_members(&mut self, with: Leaf) {
        *self = Leaf { prev: self.prev, next: self.next, ..with };
    }

    /// Moves the members to the smallest page.
    pub fn shrink(&mut self) {
        let shrunk = self.without(self.count()..self.count());
        self.replace_members(shrunk);
    }

    /// A leaf of these members except those at `slots`, in the smallest page. The links are not set.
    pub fn without(&self, slots: Range<usize>) -> Leaf {
        let parts = [(self, 0..slots.start), (self, slots.end..self.count())];
        let mut left =
            Leaf::of(&parts, self.page.len()).expect("a code fitted to fewer scores is never wider");
        left.slots.0 |= self.slots.0 & Slots::FILLED_IN_ORDER;
        left
    }

    /// Gives the member at `slot` a score that keeps the order; `false` if the code cannot express it.
    pub fn set_score(&mut self, slot: usize, score: u64) -> bool {
        let Some(delta) = self.code.encode(score) else { return false };
        let at = self.scores_at() + slot * self.code.width();
        self.code.write(&mut self.page, at, delta);
        true
    }

    /// Prefetches the columns that lead to a member, so that their fetches overlap; the score's line is known once the slot
    /// is.
    #[inline(always)]
    pub fn prefetch_for_lookup(&self) {
        (0..LOOKUP_LINES).for_each(|line| prefetch(self.page.as_ptr().wrapping_add(64 * line)));
    }

    /// Prefetches all columns, so that their fetches overlap.
    #[inline]
    pub fn prefetch_columns(&self) {
        let columns = self.scores_at() + self.count() * self.code.width();
        (0..columns).step_by(64).for_each(|at| prefetch(self.page.as_ptr().wrapping_add(at)));
    }

    /// Prefetches the tags.
    #[inline]
    pub fn prefetch_tags(&self) {
        let tags = self.page.as_ptr().wrapping_add(self.tags_at());
        (0..self.count()).step_by(64).for_each(|at| prefetch(tags.wrapping_add(at)));
    }

    /// Prefetches a slot's score and the offset of its record.
    #[inline]
    pub fn prefetch_slot(&self, slot: usize) {
        for at in [self.offsets_at() + 2 * slot, self.scores_at() + slot * self.code.width()] {
            prefetch(self.page.as_ptr().wrapping_add(at));
        }
    }

    /// Prefetches a slot's record, and the line that its end may be in: without the latter, a ZSCORE in a pipeline of 16
    /// takes 1.08 of the time.
    #[inline]
    pub fn prefetch_record(&self, slot: usize) {
        let record = self.page.as_ptr().wrapping_add(self.record_at(slot));
        prefetch(record);
        prefetch(record.wrapping_add(SHORT_RECORD_BYTES));
    }

    /// Prefetches a slot's score and record, once the columns before its score have arrived.
    #[inline]
    pub fn prefetch_slot_and_record(&self, slot: usize) {
        prefetch(self.page.as_ptr().wrapping_add(self.scores_at() + slot * self.code.width()));
        prefetch(self.page.as_ptr().wrapping_add(self.record_at(slot)));
    }

    /// Prefetches the line where the next record will go.
    #[inline]
    pub fn prefetch_heap_top(&self) {
        prefetch(self.page.as_ptr().wrapping_add(self.page.len() - self.heap as usize).wrapping_sub(1));
    }

    /// Prefetches the whole page.
    pub fn prefetch_page(&self) {
        prefetch_bytes(&self.page);
    }

    /// Prefetches all records at full speed, for the start of an iteration with no other fetches under way.
    #[inline]
    pub fn prefetch_all_records(&self) {
        let records = &self.page[self.page.len() - self.heap as usize..];
        (0..records.len()).step_by(64).for_each(|at| prefetch(records.as_ptr().wrapping_add(at)));
    }

    /// Prefetches the records of those of these slots that exist.
    #[inline]
    pub fn prefetch_records(&self, slots: Range<usize>) {
        let slots = slots.start.min(self.count())..slots.end.min(self.count());
        let (at, end) = (self.offsets_at(), self.page.as_ptr().wrapping_add(self.page.len()));
        for offset in self.page[at + 2 * slots.start..at + 2 * slots.end].chunks_exact(2) {
            prefetch(end.wrapping_sub(u16::from_le_bytes([offset[0], offset[1]]) as usize));
        }
    }

    /// The tag of `slot`.
    pub fn tag(&self, slot: usize) -> u8 {
        self.page[self.tags_at() + slot]
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

/// Iterator of [`Leaf::tagged`]: compares [`LANES`] tags at a time.
pub(super) struct Tagged<'a> {
    leaf: &'a Leaf,
    tag: u8,
    /// The first slot not compared yet.
    next: usize,
    /// The rest of the last compare; lane 0 is slot `next - 64`.
    mask: BitMask<u64>,
}

impl Iterator for Tagged<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(lane) = self.mask.next() {
                return Some(self.next - LANES + lane);
            }
            if self.next >= self.leaf.count() {
                return None;
            }
            self.mask = self.leaf.row_matching(self.next, self.tag);
            self.next += LANES;
        }
    }
}
