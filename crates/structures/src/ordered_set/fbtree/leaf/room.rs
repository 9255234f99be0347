//! Room in a leaf: insertion, removal, and rebuilding the page.
//!
//! Columns are open at both ends. Inserting below all members, or removing from there, moves none: the first member's
//! position in the columns goes down or up. A page that is rebuilt for a member below all others has all its room there;
//! one that has room at the other end alone moves half of it once.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::{FIRST_SLOTS, FrameOfReference, Leaf, Record, Room, SLOTS_OPEN_BELOW, Slots, page_class};
use crate::work;
use std::ops::Range;

impl Leaf {
    /// Inserts at `slot`; returns `false`, with nothing changed, if the members would need a page larger than the tree
    /// allows.
    pub fn insert(&mut self, slot: usize, score: u64, tag: u8, record: &Record<'_>, room: Room) -> bool {
        let Some(delta) = self.make_room(slot, score, record.len(), room) else { return false };
        self.push_record(record);
        self.open(slot);
        let (tag_at, offset) = (self.tags_at() + slot, self.offsets_at() + 2 * slot);
        let score = self.scores_at() + self.code.width() * slot;
        self.page[tag_at] = tag;
        self.page[offset..offset + 2].copy_from_slice(&self.heap.to_le_bytes());
        self.code.write(&mut self.page, score, delta);
        true
    }

    /// Frees a slot in the columns, which have room. At an end with room nothing moves.
    #[inline(always)]
    fn open(&mut self, slot: usize) {
        let count = self.count();
        if slot == 0 && self.before > 0 {
            self.set_before(self.before as usize - 1);
        } else if slot < count || self.before as usize + count == self.slots() {
            self.open_by_moving(slot);
        }
        self.count += 1;
    }

    /// As [`Leaf::open`], where other slots have to move: those above, as long as there is room above them.
    #[inline(never)]
    fn open_by_moving(&mut self, slot: usize) {
        let count = self.count();
        let free = self.slots() - count;
        // An insertion at an end without room is likely to be followed by others.
        if slot == count {
            return self.slide(free / 2);
        }
        if slot == 0 && self.may_open_below() {
            self.slide(free.div_ceil(2));
            return self.set_before(self.before as usize - 1);
        }
        let before = self.before as usize;
        if before == free {
            self.move_slots(0..slot, before - 1);
            self.set_before(before - 1);
        } else {
            self.move_slots(slot..count, before + slot + 1);
        }
    }

    pub(super) fn may_open_below(&self) -> bool {
        self.slots() >= SLOTS_OPEN_BELOW
    }

    /// Moves all members, so that this many slots are free before them.
    fn slide(&mut self, before: usize) {
        self.move_slots(0..self.count(), before);
        self.set_before(before);
    }

    /// Sets the number of free slots before the first member.
    #[inline]
    pub(super) fn set_before(&mut self, before: usize) {
        self.before = before as u16;
        self.offsets_at = (self.slots() + 2 * before) as u16;
        self.scores_at = (3 * self.slots() + self.code.width() * before) as u16;
    }

    /// Moves the column entries of these slots, so that the first of them becomes the column's `to`th.
    #[inline]
    fn move_slots(&mut self, slots: Range<usize>, to: usize) {
        let (all, width) = (self.slots(), self.code.width());
        work::moved(slots.len() * (3 + width));
        let (start, end) = (self.before as usize + slots.start, self.before as usize + slots.end);
        self.page.copy_within(start..end, to);
        self.page.copy_within(all + 2 * start..all + 2 * end, all + 2 * to);
        self.page.copy_within(3 * all + width * start..3 * all + width * end, 3 * all + width * to);
    }

    /// Gives the member at `slot` a score and moves it to `to`, shifting those between by one slot; `false` if the code
    /// cannot express the score.
    pub fn move_slot(&mut self, slot: usize, to: usize, score: u64) -> bool {
        let Some(delta) = self.code.encode(score) else { return false };
        let (tag, offset) = (self.tags_at() + slot, self.offsets_at() + 2 * slot);
        let (tag, offset) = (self.page[tag], [self.page[offset], self.page[offset + 1]]);
        let before = self.before as usize;
        if slot < to {
            self.move_slots(slot + 1..to + 1, before + slot);
        } else {
            self.move_slots(to..slot, before + to + 1);
        }
        let (tag_at, offset_at) = (self.tags_at() + to, self.offsets_at() + 2 * to);
        self.page[tag_at] = tag;
        self.page[offset_at..offset_at + 2].copy_from_slice(&offset);
        let score_at = self.scores_at() + self.code.width() * to;
        self.code.write(&mut self.page, score_at, delta);
        true
    }

    /// Makes the code express `score`, whose delta is returned, and makes room for one more slot and `record_len` bytes.
    /// The score will be that of `slot`.
    #[inline]
    fn make_room(&mut self, slot: usize, score: u64, record_len: usize, room: Room) -> Option<u64> {
        let (count, slots) = (self.count(), self.slots());
        let taken = slots * (3 + self.code.width()) + self.heap as usize + record_len;
        match self.code.encode(score) {
            Some(delta) if (1..slots).contains(&count) && taken <= self.page.len() => Some(delta),
            _ => self.make_room_elsewhere(slot, score, record_len, room),
        }
    }

    /// As [`Leaf::make_room`], in another page.
    #[inline(never)]
    fn make_room_elsewhere(&mut self, slot: usize, score: u64, record_len: usize, room: Room) -> Option<u64> {
        let code = match self.code.encode(score) {
            Some(_) if self.count > 0 => self.code,
            _ => self.code_with(score),
        };
        let (count, slots) = (self.count(), self.slots());
        let live = self.heap as usize - self.garbage as usize + record_len;
        let page_max = self.own_page_max(room.page_max);
        let needed = |slots: usize| slots * (3 + code.width()) + live;
        // How many members like these could be added before the page is full.
        let left = page_max.checked_sub(needed(count + 1))?;
        let record = live / (count + 1);
        let may_come = left / (3 + code.width() + record);
        let more = if room.more_to_come { (count / 2).max(FIRST_SLOTS - 1) } else { count / 8 };
        let roomy = if count < slots { slots } else { (count + 1 + more).next_multiple_of(4) };
        let slots = roomy.min(count + 1 + may_come);
        let for_records = if room.more_to_come { (slots - count - 1) * record } else { 0 };
        // Where members arrive from below, all the room is before them.
        let before = if slot == 0 && count > 0 && slots >= SLOTS_OPEN_BELOW { slots - count } else { 0 };
        self.relayout(code, slots, before, page_class(needed(slots) + for_records));
        code.encode(score)
    }

    /// The narrowest code for the present scores and one more.
    fn code_with(&self, score: u64) -> FrameOfReference {
        let Some(last) = self.count().checked_sub(1) else {
            return FrameOfReference::fit([score].into_iter());
        };
        let ends = [self.score(0), self.score(last), score];
        let (scores, first) = (self.scores(), self.scores().delta(0));
        // The lowest bit in which any two differ is one in which another differs from the first.
        let differing = (0..=last).fold(0, |bits, slot| bits | scores.delta(slot) ^ first);
        FrameOfReference::spanning(
            ends.into_iter().fold(u64::MAX, u64::min),
            ends.into_iter().fold(0, u64::max),
            self.code.distance(differing) | score ^ ends[0],
        )
    }

    /// Moves the members to a page of `len` bytes with this code and this number of slots, `before` of them before the
    /// members, without holes.
    fn relayout(&mut self, code: FrameOfReference, slots: usize, before: usize, len: usize) {
        let mut new = Leaf::with_room(code, slots, len);
        (new.prev, new.next) = (self.prev, self.next);
        new.set_before(before);
        new.slots.0 |= self.slots.0 & Slots::FILLED_IN_ORDER;
        new.append(self, 0..self.count());
        *self = new;
    }

    /// Removes the members at `slots`; the caller then calls [`Leaf::shrink_if_roomy`] and frees long members' bytes.
    pub fn remove(&mut self, slots: Range<usize>) {
        for slot in slots.clone().rev() {
            let len = self.record(slot).len() as u16;
            if self.record_at(slot) == self.page.len() - self.heap as usize {
                self.heap -= len;
            } else {
                self.garbage += len;
            }
        }
        let (before, removed) = (self.before as usize, slots.len());
        if slots.start == 0 && self.may_open_below() {
            self.set_before(before + removed);
        } else {
            self.move_slots(slots.end..self.count(), before + slots.start);
        }
        self.count -= removed as u16;
    }

    /// Puts a record before all others. There must be room.
    #[inline]
    pub(super) fn push_record(&mut self, record: &Record<'_>) {
        self.heap += record.len() as u16;
        let at = self.page.len() - self.heap as usize;
        let place = &mut self.page[at..at + record.len()];
        match record.head_len {
            1 => place[0] = record.head[0],
            len => place[..len].copy_from_slice(&record.head[..len]),
        }
        place[record.head_len..].copy_from_slice(record.body);
    }
}
