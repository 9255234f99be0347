//! Removal of one member, or of a few neighbours.

use super::descend::Path;
use super::{FbTree, OrderedSet};
use std::ops::Range;

impl FbTree {
    /// Removes the member at a slot; `hash` is its hash.
    pub(super) fn remove_at(&mut self, leaf: u32, slot: usize, hash: u64) {
        if let Some(index) = &mut self.index {
            index.remove(hash, leaf);
        }
        let path = self.path_to_slot(leaf, slot);
        self.take_out_slots(&path, slot..slot + 1);
        self.balance_index();
        self.compact();
    }

    /// Removes a member that is about to be inserted again from all but the index; returns the leaf that its index entry
    /// still names, unless the entry had to be removed.
    pub(super) fn take_out(&mut self, leaf: u32, slot: usize, hash: u64) -> Option<u32> {
        let path = self.path_to_slot(leaf, slot);
        let page = &self.pages.leaves[leaf];
        let left = page.used_bytes() - page.slot_bytes(slot);
        let is_sparse = left < self.page_max() / 2;
        let indexed = match &mut self.index {
            // Leaves may be merged then, which updates all entries of one of them, whatever member they are of.
            Some(index) if is_sparse => {
                index.remove(hash, leaf);
                None
            }
            _ => Some(leaf),
        };
        self.take_out_slots(&path, slot..slot + 1);
        indexed
    }

    #[inline(always)]
    fn path_to_slot(&self, leaf: u32, slot: usize) -> Path {
        let path = match self.height {
            0 => self.path_to_edge(false),
            _ => self.path_to_known(leaf, &self.pages.key(leaf, slot)),
        };
        debug_assert_eq!(path.leaf, leaf, "index and order name the same leaf");
        path
    }

    /// Removes a few slots of the path's leaf from all but the index.
    pub(super) fn take_out_slots(&mut self, path: &Path, slots: Range<usize>) {
        let leaf = path.leaf;
        self.free_longs(leaf, slots.clone());
        self.len -= slots.len() as u32;
        self.add_to_counts(path, -(slots.len() as i64));
        self.pages.change(leaf, slots.clone(), |leaf| leaf.remove(slots.clone()));
        if self.pages.leaves[leaf].count() == 0 {
            if self.len == 0 {
                self.take();
                return;
            }
            let rank = self.rank_of_leaf(path);
            self.unlink_leaf(leaf);
            self.detach(path);
            self.rebalance_at(rank.min(self.len() - 1));
            return;
        }
        if slots.start == 0 {
            self.set_anchors(path, path.steps().len());
        }
        if self.height > 0 && self.pages.leaves[leaf].used_bytes() < self.page_max() / 2 {
            let rank = self.rank_of_leaf(path);
            if self.rebalance_path(path) {
                self.rebalance_at(rank);
                let (path, _) = self.path_to_rank(rank.min(self.len() - 1));
                return self.shrink_if_roomy(path.leaf);
            }
        }
        // Last, because a leaf that is merged or takes members gets a new page anyway.
        self.shrink_if_roomy(leaf);
    }

    fn shrink_if_roomy(&mut self, id: u32) {
        let more_to_come = self.height > 0 && (id == self.first || id == self.last);
        self.pages.change(id, 1..1, |leaf| leaf.shrink_if_roomy(more_to_come));
    }

    /// Frees the bytes of the long ones among these members.
    pub(super) fn free_longs(&mut self, leaf: u32, slots: Range<usize>) {
        if self.pages.longs.live() > 0 {
            slots.for_each(|slot| self.pages.free_long(leaf, slot));
        }
    }

    /// Removes the empty leaf at the end of a path from its node, and nodes that this empties.
    fn detach(&mut self, path: &Path) {
        for depth in (0..path.steps().len()).rev() {
            let step = path.steps()[depth];
            let node = &mut self.inners[step.node];
            node.remove(step.child()..step.child() + 1);
            if node.count() == 0 {
                self.inners.0.take(step.node);
                continue;
            }
            let height = self.height as usize - depth - 1;
            self.lengthen_prefix(step.node, height);
            if step.child() == 0 {
                self.set_anchors(path, depth);
            }
            return;
        }
        unreachable!("a tree with members keeps its root");
    }
}
