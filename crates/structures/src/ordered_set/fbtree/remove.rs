//! Removal of one member and of ranges of ranks.

use super::descend::{Path, first_leaf};
use super::key::{Key, bits_to_score};
use super::leaf::Leaf;
use super::{FbTree, OrderedSet};
use crate::ordered_set::ALL_RANKS;
use crate::work;
use std::ops::Range;

/// Receives each removed `(member, score)`.
type Removed<'a> = dyn FnMut(&[u8], f64) + 'a;

impl FbTree {
    /// Removes the member at a slot; `hash` is its hash.
    pub(super) fn remove_at(&mut self, leaf: u32, slot: usize, hash: u64) {
        if let Some(index) = &mut self.index {
            index.remove(hash, leaf);
        }
        self.take_out(leaf, slot);
        self.balance_index();
        self.compact();
    }

    /// Removes the member at a slot from all but the index.
    pub(super) fn take_out(&mut self, leaf: u32, slot: usize) {
        let path = match self.height {
            0 => self.path_to_edge(false),
            _ => self.path_to(&self.pages.key(leaf, slot)),
        };
        debug_assert_eq!(path.leaf, leaf, "index and order name the same leaf");
        self.pages.free_long(leaf, slot);
        self.len -= 1;
        self.add_to_counts(&path, -1);
        self.pages.change(leaf, |leaf| leaf.remove(slot));
        if self.pages.leaves[leaf].count() == 0 {
            if self.len == 0 {
                self.take();
                return;
            }
            let rank = self.rank_of_leaf(&path);
            self.unlink_leaf(leaf);
            self.detach(&path);
            self.rebalance_at(rank.min(self.len() - 1));
            return;
        }
        if slot == 0 {
            self.set_anchors(&path, path.steps().len());
        }
        if self.height > 0 && self.pages.leaves[leaf].used_bytes() < self.page_max() / 2 {
            self.rebalance_at(self.rank_of_leaf(&path));
        }
    }

    /// Removes the empty leaf at the end of a path from its node, and nodes that this empties.
    fn detach(&mut self, path: &Path) {
        for depth in (0..path.steps().len()).rev() {
            let step = path.steps()[depth];
            let node = &mut self.inners[step.node];
            node.remove(step.child..step.child + 1);
            if node.count() == 0 {
                self.inners.0.take(step.node);
                continue;
            }
            let height = self.height as usize - depth - 1;
            self.lengthen_prefix(step.node, height);
            if step.child == 0 {
                self.set_anchors(path, depth);
            }
            return;
        }
        unreachable!("a tree with members keeps its root");
    }

    /// Removes ranks `range`, not empty and within the set: whole subtrees where it covers them, and parts of
    /// the two leaves at its ends.
    pub(super) fn remove_ranks(&mut self, range: Range<usize>, removed: &mut Removed<'_>) {
        if range.len() == self.len() {
            let all = self.take();
            all.ascending(ALL_RANKS).for_each(|(member, score)| removed(member, score));
            return;
        }
        if range.len() == 1 {
            let (path, slot) = self.path_to_rank(range.start);
            let leaf = &self.pages.leaves[path.leaf];
            let hash = leaf.hash(slot, &self.pages.longs, self.seed);
            let Key { score, member } = leaf.key(slot, &self.pages.longs);
            removed(member, bits_to_score(score));
            self.remove_at(path.leaf, slot, hash);
            return;
        }
        self.len -= range.len() as u32;
        self.remove_below(self.root, self.height as usize, range.clone(), removed);
        for rank in [range.start.saturating_sub(1), range.start] {
            self.rebalance_at(rank.min(self.len() - 1));
        }
        self.balance_index();
        self.compact();
    }

    /// Removes a part of what is below a node or leaf of this height, but not all.
    fn remove_below(&mut self, id: u32, height: usize, range: Range<usize>, removed: &mut Removed<'_>) {
        if height == 0 {
            self.remove_slots(id, range, removed);
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
                self.remove_subtree(child, height - 1, removed);
                covered = Some(covered.map_or(at, |(first, _)| first)).map(|first: usize| (first, at + 1));
            } else {
                self.inners[id].add(at, -(within.len() as i64));
                self.remove_below(child, height - 1, within, removed);
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

    /// Removes everything below a node, in order.
    fn remove_subtree(&mut self, id: u32, height: usize, removed: &mut Removed<'_>) {
        work::visited(1);
        if height == 0 {
            self.report(id, 0..self.pages.leaves[id].count(), removed);
            self.unlink_leaf(id);
            return;
        }
        let Some(node) = self.inners.0.take(id) else { unreachable!("a child is a live node") };
        for &child in node.children() {
            self.remove_subtree(child, height - 1, removed);
        }
    }

    /// Removes some members of a leaf, but not all.
    fn remove_slots(&mut self, id: u32, range: Range<usize>, removed: &mut Removed<'_>) {
        self.report(id, range.clone(), removed);
        let leaf = &self.pages.leaves[id];
        let left = Leaf::of(&[(leaf, 0..range.start), (leaf, range.end..leaf.count())], self.page_max());
        self.pages.replace(id, left.expect("part of a leaf fits a page"));
    }

    /// Hands members about to go to `removed`, and takes them out of the index and the table of long members.
    fn report(&mut self, id: u32, slots: Range<usize>, removed: &mut Removed<'_>) {
        let mut hashes = Vec::with_capacity(slots.len());
        for slot in slots.clone() {
            let Key { score, member } = self.pages.key(id, slot);
            hashes.push(self.pages.leaves[id].hash(slot, &self.pages.longs, self.seed));
            removed(member, bits_to_score(score));
        }
        if let Some(index) = &mut self.index {
            index.remove_all(&hashes, id);
        }
        for slot in slots {
            self.pages.free_long(id, slot);
        }
    }

    /// The anchor of a child, for checks.
    pub(super) fn anchor_of(&self, child: u32, height: usize) -> Key<'_> {
        self.pages.first_key(first_leaf(&self.inners, child, height))
    }
}
