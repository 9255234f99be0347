//! Verifies every documented invariant of the tree. For tests.

use super::descend::{first_leaf, tag};
use super::key::Key;
use super::leaf::NO_LEAF;
use super::{FbTree, OrderedSet};
use crate::ordered_set::End;
use crate::size_class::usable_size;

impl FbTree {
    pub(super) fn check_all(&self) {
        if self.len == 0 {
            assert_eq!((self.height, self.pages.leaves.live()), (0, 1), "an empty set is one empty leaf");
            assert_eq!(self.inners.0.live(), 0, "an empty set has no nodes");
        }
        let mut leaves = Vec::new();
        let count = self.check_below(self.root, self.height as usize, true, &mut leaves);
        assert_eq!(count, self.len(), "tree invariant 3: len");
        self.check_chain(&leaves);
        self.check_tables(&leaves);
        self.check_index(&leaves);
        if let Some(leaf) = self.pages.leaves.only() {
            let ends = [End::Lowest, End::Highest].map(|end| leaf.end_place(end));
            assert_eq!(self.pages.ends, ends, "tree invariant 6: places of the ends");
        }
        self.pages.leaves.check();
        self.pages.longs.check();
        self.inners.0.check();
    }

    /// The anchor of a child.
    fn anchor_of(&self, child: u32, height: usize) -> Key<'_> {
        self.pages.first_key(first_leaf(&self.inners, child, height))
    }

    /// Checks a subtree, lists its leaves and returns its members.
    fn check_below(&self, id: u32, height: usize, left_edge: bool, leaves: &mut Vec<u32>) -> usize {
        if height == 0 {
            let leaf = &self.pages.leaves[id];
            leaf.check(&self.pages.longs, self.page_max());
            assert!(leaf.count() > 0 || self.len == 0, "tree invariant 2: an empty leaf");
            for slot in 0..leaf.count() {
                let hash = self.seed.hash(leaf.member(slot, &self.pages.longs));
                assert_eq!(leaf.tag(slot), tag(hash), "leaf invariant 3: tag of slot {slot}");
            }
            leaves.push(id);
            return leaf.count();
        }
        let node = &self.inners[id];
        node.check();
        assert!(node.count() <= self.node_max(), "node invariant 1: too many children");
        assert!(id != self.root || node.count() > 1, "node invariant 1: a root with one child");
        for (at, &child) in node.children().iter().enumerate() {
            let lowest = left_edge && at == 0;
            let count = self.check_below(child, height - 1, lowest, leaves);
            assert_eq!(count, node.counts()[at] as usize, "tree invariant 3: count of child {at}");
            let anchor = self.anchor_of(child, height - 1);
            if lowest {
                node.check_lowest_anchor(&anchor);
            } else {
                node.check_anchor(at, &anchor);
            }
        }
        node.total() as usize
    }

    fn check_chain(&self, leaves: &[u32]) {
        let mut prev = NO_LEAF;
        let mut last_key: Option<Key<'_>> = None;
        for (at, &id) in leaves.iter().enumerate() {
            let leaf = &self.pages.leaves[id];
            assert_eq!(leaf.prev, prev, "tree invariant 1: prev of leaf {at}");
            let next = leaves.get(at + 1).copied().unwrap_or(NO_LEAF);
            assert_eq!(leaf.next, next, "tree invariant 1: next of leaf {at}");
            prev = id;
            if leaf.count() > 0 {
                assert!(
                    last_key < Some(self.pages.first_key(id)),
                    "tree invariant 1: leaf {at} out of order"
                );
                last_key = Some(self.pages.key(id, leaf.count() - 1));
            }
        }
        assert_eq!((self.first, self.last), (leaves[0], prev), "tree invariant 1: first and last");
    }

    fn check_tables(&self, leaves: &[u32]) {
        assert_eq!(self.pages.leaves.live(), leaves.len(), "a leaf was lost");
        let sparse = self.pages.leaves.sparse_last().or(self.pages.longs.sparse_last());
        assert_eq!(sparse, None, "tree invariant 7: a table mostly free");
        let pages: usize = leaves.iter().map(|&id| self.pages.leaves[id].page_bytes()).sum();
        assert_eq!(pages, self.pages.page_bytes, "page bytes miscounted");
        let longs = leaves.iter().flat_map(|&id| {
            let leaf = &self.pages.leaves[id];
            (0..leaf.count()).filter_map(|slot| leaf.long_id(slot))
        });
        let mut longs: Vec<u32> = longs.collect();
        longs.sort_unstable();
        longs.dedup();
        assert_eq!(longs.len(), self.pages.longs.live(), "tree invariant 5: long members");
        for &id in &longs {
            let long = &self.pages.longs[id];
            assert_eq!(long.hash, self.seed.hash(&long.bytes), "tree invariant 5: hash of a long member");
        }
        let long_bytes: usize = longs.iter().map(|&id| usable_size(self.pages.longs[id].bytes.len())).sum();
        assert_eq!(long_bytes, self.pages.long_bytes, "bytes of long members miscounted");
    }

    fn check_index(&self, leaves: &[u32]) {
        assert_eq!(self.index.is_some(), self.height > 0, "tree invariant 4: index");
        let Some(index) = &self.index else { return };
        let mut members = Vec::new();
        let mut hashes = Vec::new();
        for &leaf in leaves {
            hashes.clear();
            self.push_hashes(leaf, &mut hashes);
            members.extend(hashes.iter().map(|&hash| (hash, leaf)));
        }
        index.check(&members);
    }
}
