//! Pages made of sorted members, or of members of other leaves.

use super::super::frame_of_reference::FrameOfReference;
use super::{Leaf, Record, Slots, page_class};
use crate::work;
use std::ops::Range;

impl Leaf {
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
    pub(super) fn append(&mut self, from: &Leaf, range: Range<usize>) {
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
}
