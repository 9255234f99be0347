//! Removal of a range of ranks: a few neighbours within one leaf, or whole subtrees and parts of the two leaves at the
//! range's ends.
//!
//! When many members are removed, the index is scanned once, and all entries of removed leaves are dropped.
//!
//! Measurements: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::descend::Path;
use super::key::{Key, bits_to_score};
use super::member_index::GONE;
use super::{FbTree, OrderedSet};
use crate::ordered_set::ALL_RANKS;
use crate::prefetch::prefetch;
use crate::work;
use std::ops::Range;

/// Receives each removed `(member, score)`.
pub(super) type Removed<'a> = dyn FnMut(&[u8], f64) + 'a;

/// Up to this number, neighbours are removed from their leaf one by one; for more, rebuilding its page costs less.
const FEW: usize = 16;
/// The index is scanned if at least one member in this number is removed.
const WALKED_SHARE: usize = 64;

/// With at least this number of members, the index is not in a cache when one is popped.
const POPPED_COLD: u32 = 1 << 16;

/// A removal under way.
struct Removal<'r, 'c> {
    removed: Option<&'r mut Removed<'c>>,
    /// If the index is to be scanned: the leaves removed as a whole.
    gone: Option<Vec<u32>>,
}

impl FbTree {
    /// Removes the ranks in `range`, which is not empty and within the set.
    pub(super) fn remove_ranks(&mut self, range: Range<usize>, mut removed: Option<&mut Removed<'_>>) {
        if range.len() == self.len() {
            let all = self.take();
            if let Some(removed) = &mut removed {
                all.ascending(ALL_RANKS).for_each(|(member, score)| removed(member, score));
            }
            return;
        }
        if range.len() <= FEW {
            let mut path = Path::new();
            let slot = self.lead_to_rank(range.start, &mut path);
            if slot + range.len() <= self.pages.leaves[path.leaf].count() {
                self.remove_neighbours(&path, slot..slot + range.len(), removed);
                return;
            }
        }
        let walks_index = range.len() >= self.len() / WALKED_SHARE;
        let ids = self.pages.leaves.ids();
        let mut removal = Removal { removed, gone: walks_index.then(Vec::new) };
        self.len -= range.len() as u32;
        self.remove_below(self.root, self.height as usize, range.clone(), &mut removal);
        if let Some(gone) = removal.gone {
            self.walk_index(&gone, ids);
        }
        for rank in [range.start.saturating_sub(1), range.start] {
            self.rebalance_at(rank.min(self.len() - 1));
        }
        self.balance_index();
        if let (true, Some(index)) = (walks_index, &mut self.index) {
            index.trim();
        }
        self.compact();
    }

    /// Removes a few slots of the path's leaf.
    fn remove_neighbours(&mut self, path: &Path, slots: Range<usize>, removed: Option<&mut Removed<'_>>) {
        let leaf = &self.pages.leaves[path.leaf];
        if let Some(removed) = removed {
            for slot in slots.clone() {
                let Key { score, member } = leaf.key(slot, &self.pages.longs);
                removed(member, bits_to_score(score));
            }
        }
        if let Some(index) = &mut self.index {
            let (mut hashes, mut len) = ([0; FEW], 0);
            for slot in slots.clone() {
                if leaf.is_costly_to_hash(slot) && index.remove_by_tag(leaf.tag(slot), path.leaf) {
                    continue;
                }
                hashes[len] = leaf.hash(slot, &self.pages.longs, self.seed);
                len += 1;
            }
            match len {
                0 => {}
                1 => index.remove(hashes[0], path.leaf),
                _ => index.remove_all(&hashes[..len], path.leaf),
            }
        }
        self.take_out_slots(path, slots);
        self.balance_index();
        self.compact();
        if self.len > POPPED_COLD {
            self.prefetch_next_pop(path.leaf);
        }
    }

    /// Prefetches for the next pop from the same end, which often follows soon, one step with each pop: the record, which
    /// has the member; by its hash, the segment of the index; by that, the entry.
    fn prefetch_next_pop(&self, id: u32) {
        let (Some(index), true) = (&self.index, id == self.first || id == self.last) else { return };
        let leaf = &self.pages.leaves[id];
        let Some(farthest) = leaf.count().checked_sub(3) else { return };
        let slot = |nth: usize| if id == self.first { nth } else { farthest + 2 - nth };
        let hash = |nth| leaf.hash(slot(nth), &self.pages.longs, self.seed);
        leaf.prefetch_records(slot(2)..slot(2) + 1);
        prefetch(index.header_address(hash(1)));
        index.prefetch_entries(hash(0));
    }

    /// Removes a part of the members below a node or leaf of this height, but not all.
    fn remove_below(&mut self, id: u32, height: usize, range: Range<usize>, removal: &mut Removal<'_, '_>) {
        if height == 0 {
            self.remove_slots(id, range, removal);
            return;
        }
        let mut start = 0;
        let mut covered = None;
        let mut parts = Vec::new();
        work::visited(self.inners[id].count());
        for at in 0..self.inners[id].count() {
            let node = &self.inners[id];
            let (child, count) = (node.child(at), node.counts()[at] as usize);
            let within = range.start.max(start) - start..range.end.min(start + count).saturating_sub(start);
            start += count;
            if within.is_empty() {
                continue;
            }
            if within.len() == count {
                self.remove_subtree(child, height - 1, removal);
                covered = Some(covered.map_or(at, |(first, _)| first)).map(|first: usize| (first, at + 1));
            } else {
                self.inners[id].add(at, -(within.len() as i64));
                self.remove_below(child, height - 1, within, removal);
                parts.push(child);
            }
        }
        if let Some((first, end)) = covered {
            self.inners[id].remove(first..end);
        }
        for child in parts {
            let at = self.inners[id].children().iter().position(|&c| c == child);
            self.refresh_anchor(id, at.expect("a child removed in part stays"), height - 1);
        }
        self.lengthen_prefix(id, height - 1);
    }

    /// Removes all members below a node, in order.
    fn remove_subtree(&mut self, id: u32, height: usize, removal: &mut Removal<'_, '_>) {
        work::visited(1);
        if height > 0 {
            let Some(node) = self.inners.0.take(id) else { unreachable!("a child is a live node") };
            for &child in node.children() {
                self.remove_subtree(child, height - 1, removal);
            }
            return;
        }
        let slots = 0..self.pages.leaves[id].count();
        self.report(id, slots.clone(), removal);
        match &mut removal.gone {
            Some(gone) => gone.push(id),
            None => self.forget(id, slots.clone()),
        }
        self.free_longs(id, slots);
        self.unlink_leaf(id);
    }

    /// Removes some members of a leaf, but not all.
    fn remove_slots(&mut self, id: u32, range: Range<usize>, removal: &mut Removal<'_, '_>) {
        self.report(id, range.clone(), removal);
        self.forget(id, range.clone());
        self.free_longs(id, range.clone());
        let left = self.pages.leaves[id].without(range);
        self.pages.replace(id, left);
    }

    /// Passes members that are about to be removed to the callback, if there is one.
    fn report(&self, id: u32, slots: Range<usize>, removal: &mut Removal<'_, '_>) {
        let Some(removed) = &mut removal.removed else { return };
        for slot in slots {
            let Key { score, member } = self.pages.key(id, slot);
            removed(member, bits_to_score(score));
        }
    }

    /// Removes members of a leaf from the index.
    fn forget(&mut self, id: u32, slots: Range<usize>) {
        let Some(index) = &mut self.index else { return };
        let (leaf, longs, seed) = (&self.pages.leaves[id], &self.pages.longs, self.seed);
        let mut told_apart =
            |slot: &usize| leaf.is_costly_to_hash(*slot) && index.remove_by_tag(leaf.tag(*slot), id);
        let others = slots.filter(|slot| !told_apart(slot));
        let hashes: Vec<u64> = others.map(|slot| leaf.hash(slot, longs, seed)).collect();
        index.remove_all(&hashes, id);
    }

    /// Drops the index entries of all removed leaves. In the same scan, leaves with high ids get free ones, so that
    /// [`FbTree::compact`] need not find the entries of each. `ids` is the number of ids before the removal.
    fn walk_index(&mut self, gone: &[u32], ids: usize) {
        let mut new_ids: Vec<u32> = (0..ids as u32).collect();
        gone.iter().for_each(|&id| new_ids[id as usize] = GONE);
        // No leaf gets a new id twice: the lowest free one is at most the number of leaves, half of all ids that are left.
        while let Some(last) = self.pages.leaves.sparse_last() {
            new_ids[last as usize] = self.rename_unindexed(last);
        }
        if let Some(index) = &mut self.index {
            index.rename_leaves(&new_ids);
        }
    }
}
