//! Iteration in both directions, the cursor scan, the stepwise lookup.
//!
//! Members of a leaf are read from its [`Columns`]; in sets with out-of-line members, each is read individually.
//!
//! A scan finds the slots of each index entry once, when it prefetches their records.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::columns::Columns;
use super::descend::tag;
use super::key::bits_to_score;
use super::leaf::{Few, Leaf, NO_LEAF};
use super::member_index::Met;
use super::{FbTree, OrderedSet, RankRange};
use crate::ordered_set::{End, ScoreProbe};
use crate::prefetch::prefetch;
use crate::tag_order::{TAGS, tags_end};

/// Leading bits of a hash position that a cursor holds: below 2^53, so that clients that store numbers as doubles read it
/// exactly. Index entries distinguish members by fewer bits than that at any size that fits memory.
pub(super) const CURSOR_BITS: u32 = 52;
/// Index entries whose members are fetched together.
const BATCH: usize = 16;
/// An iteration over more members of a leaf prefetches the whole page, fewer lines than records; else only the members it
/// visits. Prefetching more cost the first member of each of 100,000 sets 1.6 us, seven times as long as from a skip list.
const SOME: usize = 32;
/// The last stage of a lookup.
const RECORD_STAGE: u8 = 4;
/// The stages before it of an iteration from an end.
const END_STAGE: u8 = 16;
const END_SLOT_STAGE: u8 = END_STAGE + 1;
/// Means the last slot of a leaf, whatever its number.
const LAST_SLOT: u16 = ScoreProbe::NO_SLOT - 1;

/// An iterator upwards. See [`OrderedSet::ascending`].
pub struct Ascending<'a> {
    tree: &'a FbTree,
    leaf: &'a Leaf,
    columns: Columns<'a>,
    /// The next slot.
    slot: usize,
    /// Slots before this one can be read from `columns`.
    ready: usize,
    /// Number of members left behind those.
    left: usize,
}

/// An iterator downwards. See [`OrderedSet::descending`].
pub struct Descending<'a> {
    tree: &'a FbTree,
    leaf: &'a Leaf,
    columns: Columns<'a>,
    /// One more than the next slot.
    slot: usize,
    /// Slots from this one on can be read from `columns`.
    ready: usize,
    /// Number of members left before those.
    left: usize,
}

impl<'a> Ascending<'a> {
    pub(super) fn new(tree: &'a FbTree, ranks: RankRange) -> Self {
        let left = ranks.end.min(tree.len()).saturating_sub(ranks.start);
        let (leaf, slot) = if left == 0 { (tree.last, 0) } else { tree.leaf_at_rank(ranks.start) };
        let leaf = &tree.pages.leaves[leaf];
        match left.min(leaf.count() - slot) {
            here @ 0..=SOME => leaf.prefetch_records(slot..slot + here),
            _ => leaf.prefetch_all_records(),
        }
        let mut walk = Ascending { tree, leaf, columns: Columns::none(), slot, ready: slot, left };
        walk.make_ready();
        walk
    }

    /// Prepares the columns of the leaf's members that the iteration visits, if possible.
    #[inline]
    fn make_ready(&mut self) {
        let end = self.leaf.count().min(self.slot + self.left);
        if let Some(columns) = self.leaf.columns(self.slot..end, &self.tree.pages.longs) {
            self.left -= end - self.slot;
            (self.columns, self.ready) = (columns, end);
            self.prefetch_next_leaf();
        }
    }

    /// The next member, when none is ready but some are left, and the iterator from there on: passed by value, so that it
    /// stays in registers.
    #[inline(never)]
    fn next_in_leaf(mut self) -> ((&'a [u8], f64), Self) {
        if self.slot == self.leaf.count() {
            self.leaf = &self.tree.pages.leaves[self.leaf.next];
            self.slot = 0;
            self.ready = 0;
        }
        self.make_ready();
        if self.ready == self.slot {
            self.left -= 1;
            self.ready += 1;
        }
        let key = self.leaf.key(self.slot, &self.tree.pages.longs);
        self.slot += 1;
        ((key.member, bits_to_score(key.score)), self)
    }

    /// Prefetches the part of the next leaf that the iteration visits.
    fn prefetch_next_leaf(&self) {
        if self.left == 0 || self.leaf.next == NO_LEAF {
            return;
        }
        let next = &self.tree.pages.leaves[self.leaf.next];
        match self.left {
            wanted @ 0..=SOME => next.prefetch_records(0..wanted),
            _ => next.prefetch_page(),
        }
    }
}

impl<'a> Iterator for Ascending<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let slot = self.slot;
        if slot >= self.ready {
            if self.left == 0 {
                return None;
            }
            let (item, walk) = Ascending { ..*self }.next_in_leaf();
            *self = walk;
            return Some(item);
        }
        self.slot += 1;
        // SAFETY: invariant 4 of the leaf: `Leaf::columns` returned columns for exactly the slots that are
        // ready.
        Some(unsafe { self.columns.read(slot) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.ready - self.slot + self.left;
        (left, Some(left))
    }
}

impl<'a> Descending<'a> {
    pub(super) fn new(tree: &'a FbTree, ranks: RankRange) -> Self {
        let end = ranks.end.min(tree.len());
        let left = end.saturating_sub(ranks.start);
        let (leaf, slot) = if left == 0 { (tree.last, 0) } else { tree.leaf_at_rank(end - 1) };
        let (leaf, slot) = (&tree.pages.leaves[leaf], slot + usize::from(left > 0));
        match left.min(slot) {
            here @ 0..=SOME => leaf.prefetch_records(slot - here..slot),
            _ => leaf.prefetch_all_records(),
        }
        let mut walk = Descending { tree, leaf, columns: Columns::none(), slot, ready: slot, left };
        walk.make_ready();
        walk
    }

    /// As [`Ascending::make_ready`].
    #[inline]
    fn make_ready(&mut self) {
        let start = self.slot.saturating_sub(self.left);
        if let Some(columns) = self.leaf.columns(start..self.slot, &self.tree.pages.longs) {
            self.left -= self.slot - start;
            (self.columns, self.ready) = (columns, start);
            self.prefetch_next_leaf();
        }
    }

    /// As [`Ascending::next_in_leaf`], the other way.
    #[inline(never)]
    fn next_in_leaf(mut self) -> ((&'a [u8], f64), Self) {
        if self.slot == 0 {
            self.leaf = &self.tree.pages.leaves[self.leaf.prev];
            self.slot = self.leaf.count();
            self.ready = self.slot;
        }
        self.make_ready();
        if self.ready == self.slot {
            self.left -= 1;
            self.ready -= 1;
        }
        self.slot -= 1;
        let key = self.leaf.key(self.slot, &self.tree.pages.longs);
        ((key.member, bits_to_score(key.score)), self)
    }

    /// As [`Ascending::prefetch_next_leaf`], the other way.
    fn prefetch_next_leaf(&self) {
        if self.left == 0 || self.leaf.prev == NO_LEAF {
            return;
        }
        let prev = &self.tree.pages.leaves[self.leaf.prev];
        match self.left {
            wanted @ 0..=SOME => prev.prefetch_records(prev.count().saturating_sub(wanted)..prev.count()),
            _ => prev.prefetch_page(),
        }
    }
}

impl<'a> Iterator for Descending<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.slot <= self.ready {
            if self.left == 0 {
                return None;
            }
            let (item, walk) = Descending { ..*self }.next_in_leaf();
            *self = walk;
            return Some(item);
        }
        self.slot -= 1;
        // SAFETY: invariant 4 of the leaf, as in `Ascending::next`.
        Some(unsafe { self.columns.read(self.slot) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.slot - self.ready + self.left;
        (left, Some(left))
    }
}

/// An index entry met by a scan, and the slots of the leaf that have the tag.
#[derive(Clone, Copy, Default)]
struct Scanned {
    met: Met,
    few: Few,
}

impl FbTree {
    /// Visits members in the order of hashes; the cursor is the hash position that follows. Its meaning does not depend on
    /// the sizes of tree and index, so members that stay are visited whatever grows, shrinks or moves between the calls. A
    /// single leaf has the hashes' first bytes.
    pub(super) fn scan_from<'a>(
        &'a self,
        cursor: u64,
        wanted: usize,
        visit: &mut dyn FnMut(&'a [u8], f64),
    ) -> u64 {
        let position = cursor << (64 - CURSOR_BITS);
        let Some(index) = &self.index else {
            return self.scan_leaf((position >> 56) as usize, wanted, visit);
        };
        // Each entry names another leaf: their lines are prefetched together.
        let (mut together, mut filled) = ([Scanned::default(); BATCH], 0);
        let next = index.scan(position, wanted, &mut |met| {
            prefetch(&raw const self.pages.leaves[met.leaf]);
            together[filled].met = met;
            filled += 1;
            if filled == BATCH {
                self.visit_scanned(&mut together, visit);
                filled = 0;
            }
        });
        self.visit_scanned(&mut together[..filled], visit);
        next >> (64 - CURSOR_BITS)
    }

    /// Visits the members that these entries refer to.
    fn visit_scanned<'a>(&'a self, entries: &mut [Scanned], visit: &mut dyn FnMut(&'a [u8], f64)) {
        entries.iter().for_each(|entry| self.pages.leaves[entry.met.leaf].prefetch_for_lookup());
        for entry in entries.iter_mut() {
            let leaf = &self.pages.leaves[entry.met.leaf];
            entry.few = leaf.few_tagged(tag(entry.met.hash));
            entry.few.slots().for_each(|slot| leaf.prefetch_slot_and_record(slot));
        }
        for &Scanned { met, few } in &*entries {
            let leaf = &self.pages.leaves[met.leaf];
            let visit_slot = |slot: usize| {
                let key = leaf.key(slot, &self.pages.longs);
                visit(key.member, bits_to_score(key.score));
            };
            let is_meant = |slot: &usize| {
                (leaf.hash(*slot, &self.pages.longs, self.seed) ^ met.hash) >> (64 - met.bits) == 0
            };
            if met.bits < 8 {
                (0..leaf.count()).filter(is_meant).for_each(visit_slot);
            } else if !few.is_all() {
                leaf.tagged(tag(met.hash)).filter(is_meant).for_each(visit_slot);
            } else if met.is_only {
                // Of the slots that have the tag the last is meant if no other is: it is not hashed.
                let mut slots = few.slots();
                let last = slots.next_back();
                slots.find(is_meant).or(last).into_iter().for_each(visit_slot);
            } else {
                few.slots().filter(is_meant).for_each(visit_slot);
            }
        }
    }

    fn scan_leaf<'a>(&'a self, first: usize, wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        let leaf = &self.pages.leaves[self.root];
        let end = tags_end(leaf.tags(), first, wanted);
        for (slot, &tag) in leaf.tags().iter().enumerate() {
            if (first..end).contains(&usize::from(tag)) {
                let key = leaf.key(slot, &self.pages.longs);
                visit(key.member, bits_to_score(key.score));
            }
        }
        if end == TAGS { 0 } else { (end as u64) << (CURSOR_BITS - 8) }
    }

    /// Begins a stepwise lookup by prefetching the first line.
    pub(super) fn start_probe(&self, member: &[u8]) -> ScoreProbe {
        let hash = self.seed.hash(member);
        let (stage, leaf) = match &self.index {
            Some(index) => {
                prefetch(index.header_address(hash));
                (0, NO_LEAF)
            }
            None => {
                self.pages.leaves[self.root].prefetch_tags();
                (3, self.root)
            }
        };
        ScoreProbe { hash, stage, leaf, ..ScoreProbe::finished() }
    }

    /// Begins a stepwise iteration from an end by prefetching the pointer to its leaf. The slot and the record of the only
    /// leaf, which is within the tree, are prefetched at once.
    pub(super) fn start_end_probe(&self, end: End) -> ScoreProbe {
        if let Some(leaf) = self.pages.leaves.only() {
            let slot = match end {
                End::Lowest => 0,
                End::Highest => leaf.count().saturating_sub(1),
            };
            leaf.prefetch_slot(slot);
            leaf.prefetch_place(self.pages.ends[end as usize]);
            return ScoreProbe::finished();
        }
        let (leaf, slot) = match end {
            End::Lowest => (self.first, 0),
            End::Highest => (self.last, LAST_SLOT),
        };
        self.pages.leaves.prefetch_place(leaf);
        ScoreProbe { leaf, slots: [slot, ScoreProbe::NO_SLOT], stage: END_STAGE, ..ScoreProbe::finished() }
    }

    /// One step: index line, leaf header, tags, offset and score, record; from an end, all but the first and the tags.
    /// Returns `true` while there are more.
    pub(super) fn step_probe(&self, probe: &mut ScoreProbe) -> bool {
        match (probe.stage, &self.index) {
            (0, Some(index)) => index.prefetch_entries(probe.hash),
            (1, Some(index)) => match index.candidates(probe.hash).next() {
                Some(leaf) => {
                    probe.leaf = leaf;
                    prefetch(&raw const self.pages.leaves[leaf]);
                }
                None => return probe.finish(),
            },
            (2, _) => self.pages.leaves[probe.leaf].prefetch_tags(),
            (3, _) => {
                let leaf = &self.pages.leaves[probe.leaf];
                for (place, slot) in probe.slots.iter_mut().zip(leaf.tagged(tag(probe.hash))) {
                    leaf.prefetch_slot(slot);
                    *place = slot as u16;
                }
            }
            (RECORD_STAGE, _) => {
                let leaf = &self.pages.leaves[probe.leaf];
                for slot in probe.slots.into_iter().take_while(|&slot| slot != ScoreProbe::NO_SLOT) {
                    leaf.prefetch_record(slot.into());
                }
                return probe.finish();
            }
            (END_STAGE, _) => self.pages.leaves.prefetch(probe.leaf),
            (END_SLOT_STAGE, _) => {
                let leaf = &self.pages.leaves[probe.leaf];
                let Some(last) = leaf.count().checked_sub(1) else { return probe.finish() };
                let slot = last.min(probe.slots[0].into());
                leaf.prefetch_slot(slot);
                (probe.slots[0], probe.stage) = (slot as u16, RECORD_STAGE);
                return true;
            }
            _ => return probe.finish(),
        }
        probe.stage += 1;
        true
    }
}
