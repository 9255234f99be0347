//! Rebalancing after a removal: merging and evening out small neighbours, and lowering the tree.

use super::FbTree;
use super::descend::{Path, first_leaf, tag};
use super::inner::Inner;
use super::leaf::{Leaf, NO_LEAF};
use super::slab::Slab;
use crate::work;
use std::ops::Range;

/// Fill limits of one kind of node: bytes of a leaf or children of an inner node.
struct Fill {
    /// A node with less is merged with a sibling, if together they have at most `joined_max`.
    min: usize,
    /// Leaves room for insertions, so that a pair does not alternately split and merge.
    joined_max: usize,
    /// A node with less, between siblings too full to merge, takes from one of them.
    scant: usize,
}

impl Fill {
    fn of(max: usize) -> Self {
        Fill { min: max / 2, joined_max: max * 3 / 4, scant: max / 4 }
    }
}

impl FbTree {
    /// Restores the fill of the nodes and leaves on the path to `rank` and lowers the tree where possible.
    pub(super) fn rebalance_at(&mut self, rank: usize) {
        while self.height > 0 {
            let (path, _) = self.path_to_rank(rank);
            if !self.rebalance_path(&path) {
                return;
            }
        }
    }

    /// One round of [`FbTree::rebalance_at`]; returns whether another round may find more to do. The path is then
    /// invalid.
    pub(super) fn rebalance_path(&mut self, path: &Path) -> bool {
        let joined = (0..path.steps().len()).rev().any(|depth| self.rebalance_step(path, depth));
        self.lower() | joined
    }

    /// Rebalances the path's child at `depth`; returns whether it was merged with another.
    fn rebalance_step(&mut self, path: &Path, depth: usize) -> bool {
        let step = path.steps()[depth];
        let height = self.height as usize - depth - 1;
        let node = &self.inners[step.node];
        let used = |at: usize| match height {
            0 => self.pages.leaves[node.child(at)].used_bytes(),
            _ => self.inners[node.child(at)].count(),
        };
        let fill = Fill::of(if height == 0 { self.page_max() } else { self.node_max() });
        let mine = used(step.child());
        if mine >= fill.min {
            return false;
        }
        let right = (step.child() + 1 < node.count()).then_some(step.child());
        let pairs = step.child().checked_sub(1).into_iter().chain(right);
        let Some((both, left)) = pairs.map(|left| (used(left) + used(left + 1), left)).min() else {
            return false;
        };
        if both <= fill.joined_max && self.join(step.node, left, height) {
            return true;
        }
        // A leaf at the edge may be draining or filling: members moved to it would have to be moved again and again.
        let edge = path.leaf == self.first || path.leaf == self.last;
        if height > 0 && mine < fill.scant {
            self.share_children(step.node, left, height);
        } else if mine < fill.scant && !edge {
            self.share_leaves(step.node, left);
        }
        false
    }

    /// Merges children `left` and `left + 1` of a node, unless they do not fit. The node keeps at least one.
    fn join(&mut self, node: u32, left: usize, height: usize) -> bool {
        let [a, b] = [self.inners[node].child(left), self.inners[node].child(left + 1)];
        if height == 0 {
            let pages = &self.pages;
            let parts = [a, b].map(|id| (&pages.leaves[id], 0..pages.leaves[id].count()));
            let kept = parts[0].1.len();
            let Some(joined) = Leaf::of(&parts, self.page_max()) else { return false };
            let count = joined.count();
            self.pages.replace(a, joined);
            self.relocate_all(a, kept..count, b);
            self.unlink_leaf(b);
        } else {
            let Some(right) = self.inners.0.take(b) else { unreachable!("a child is a live node") };
            self.move_children(a, &right, 0..right.count(), height - 1);
            self.lengthen_prefix(a, height - 1);
        }
        let parent = &mut self.inners[node];
        let total = parent.counts()[left] + parent.counts()[left + 1];
        parent.set_count(left, total);
        parent.remove(left + 1..left + 2);
        self.lengthen_prefix(node, height);
        true
    }

    /// Appends children of `from` to the node `to`; `height` is the children's.
    fn move_children(&mut self, to: u32, from: &Inner, range: Range<usize>, height: usize) {
        for at in range {
            let leaf = first_leaf(&self.inners, from.child(at), height);
            let node = &mut self.inners[to];
            node.insert(node.count(), from.child(at), from.counts()[at], &self.pages.first_key(leaf));
        }
    }

    /// Evens out the inner nodes `left` and `left + 1` of a node; `height` is those nodes'.
    fn share_children(&mut self, node: u32, left: usize, height: usize) {
        let [a, b] = [self.inners[node].child(left), self.inners[node].child(left + 1)];
        let (mut all, right) = (Inner::new(), Inner::new());
        std::mem::swap(&mut *all, &mut self.inners[a]);
        let old_right = std::mem::replace(&mut self.inners[b], *right);
        let half = (all.count() + old_right.count()) / 2;
        let from_left = all.count().min(half);
        self.move_children(a, &all, 0..from_left, height - 1);
        self.move_children(a, &old_right, 0..half - from_left, height - 1);
        self.move_children(b, &all, from_left..all.count(), height - 1);
        self.move_children(b, &old_right, half - from_left..old_right.count(), height - 1);
        self.lengthen_prefix(a, height - 1);
        self.lengthen_prefix(b, height - 1);
        let totals = [a, b].map(|id| self.inners[id].total());
        self.inners[node].set_count(left, totals[0]);
        self.inners[node].set_count(left + 1, totals[1]);
        self.refresh_anchor(node, left + 1, height);
    }

    /// Divides the members of two neighbouring leaves evenly, by bytes; `false` if they do not fit so.
    pub(super) fn share_leaves(&mut self, node: u32, left: usize) -> bool {
        let ids = [self.inners[node].child(left), self.inners[node].child(left + 1)];
        if ids[0] == self.first {
            self.settle_first_anchor();
        }
        let [a, b] = ids.map(|id| &self.pages.leaves[id]);
        let [in_a, in_b] = [a.count(), b.count()];
        let half = (a.used_bytes() + b.used_bytes()) / 2;
        let larger = if a.used_bytes() > half { a } else { b };
        if larger.count() < 2 {
            return false;
        }
        let max = self.page_max();
        let parts = if a.used_bytes() > half {
            let at = a.slot_at_bytes(half);
            (Leaf::of(&[(a, 0..at)], max), Leaf::of(&[(a, at..in_a), (b, 0..in_b)], max))
        } else {
            let at = b.slot_at_bytes(half - a.used_bytes());
            (Leaf::of(&[(a, 0..in_a), (b, 0..at)], max), Leaf::of(&[(b, at..in_b)], max))
        };
        let (Some(new_a), Some(new_b)) = parts else { return false };
        let counts = [new_a.count(), new_b.count()];
        self.pages.replace(ids[0], new_a);
        self.pages.replace(ids[1], new_b);
        self.relocate(ids[0], in_a.min(counts[0])..counts[0], ids[1]);
        self.relocate(ids[1], 0..counts[1].saturating_sub(in_b), ids[0]);
        self.inners[node].set_count(left, counts[0] as u32);
        self.inners[node].set_count(left + 1, counts[1] as u32);
        self.refresh_anchor(node, left + 1, 0);
        true
    }

    /// Unlinks a leaf from the chain and frees its id.
    pub(super) fn unlink_leaf(&mut self, id: u32) -> Leaf {
        let leaf = self.pages.take(id);
        match leaf.prev {
            NO_LEAF => self.first = leaf.next,
            prev => self.pages.leaves[prev].next = leaf.next,
        }
        match leaf.next {
            NO_LEAF => self.last = leaf.prev,
            next => self.pages.leaves[next].prev = leaf.prev,
        }
        leaf
    }

    /// Moves the leaf and the long member with the highest ids to free ones while most ids are free, so that the
    /// tables shrink with the set. One leaf, or one long member, is moved for each that was removed.
    #[inline]
    pub(super) fn compact(&mut self) {
        if self.pages.leaves.is_sparse() || self.pages.longs.is_sparse() {
            self.move_down();
        }
    }

    #[inline(never)]
    fn move_down(&mut self) {
        while let Some(last) = self.pages.leaves.sparse_last() {
            self.rename_leaf(last);
        }
        while let Some(last) = self.pages.longs.sparse_last() {
            self.rename_long_member(last);
        }
    }

    /// Gives a leaf the lowest free id.
    fn rename_leaf(&mut self, id: u32) {
        let new = self.rename_unindexed(id);
        self.relocate_all(new, 0..self.pages.leaves[new].count(), id);
    }

    /// As [`FbTree::rename_leaf`], without updating the index. Returns the new id.
    pub(super) fn rename_unindexed(&mut self, id: u32) -> u32 {
        work::visited(1);
        let path = self.path_to(&self.pages.first_key(id));
        debug_assert_eq!(path.leaf, id, "a leaf is found by its first key");
        let leaf = self.pages.leaves.take(id);
        let (prev, next) = (leaf.prev, leaf.next);
        let new = self.pages.leaves.insert(leaf);
        self.pages.note_ends();
        match prev {
            NO_LEAF => self.first = new,
            _ => self.pages.leaves[prev].next = new,
        }
        match next {
            NO_LEAF => self.last = new,
            _ => self.pages.leaves[next].prev = new,
        }
        match path.steps().last() {
            Some(step) => self.inners[step.node].rename_child(step.child(), new),
            None => self.root = new,
        }
        new
    }

    /// Gives a long member the lowest free id.
    fn rename_long_member(&mut self, id: u32) {
        work::visited(1);
        let hash = self.pages.longs[id].hash;
        let slot_in = |leaf: &u32| {
            let page = &self.pages.leaves[*leaf];
            page.tagged(tag(hash)).find(|&slot| page.long_id(slot) == Some(id))
        };
        let found = match &self.index {
            None => slot_in(&self.root).map(|slot| (self.root, slot)),
            Some(index) => index.candidates(hash).find_map(|leaf| Some((leaf, slot_in(&leaf)?))),
        };
        let (leaf, slot) = found.expect("invariant 5: some record refers to the long member");
        let long = self.pages.longs.take(id);
        let new = self.pages.longs.insert(long);
        self.pages.leaves[leaf].set_long_id(slot, new);
    }

    /// Removes a root with a single child; returns whether it did. A single leaf needs no index.
    fn lower(&mut self) -> bool {
        let lowers = self.height > 0 && self.inners[self.root].count() == 1;
        if lowers {
            let child = self.inners[self.root].child(0);
            self.inners.0.take(self.root);
            self.root = child;
            self.height -= 1;
            if self.height == 0 {
                self.index = None;
                self.settle_single_leaf();
            }
        }
        lowers
    }

    /// Gives the only leaf the first id, and frees the table of leaves.
    fn settle_single_leaf(&mut self) {
        let leaf = self.pages.take(self.root);
        debug_assert_eq!(self.pages.leaves.live(), 0, "other leaves");
        self.pages.leaves = Slab::new();
        self.root = self.pages.add(leaf);
        (self.first, self.last) = (self.root, self.root);
    }
}
