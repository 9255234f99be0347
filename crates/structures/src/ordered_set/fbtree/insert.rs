//! Insertion, and making room for it.
//!
//! A leaf at an end where members arrive grows by half at a time, others by an eighth; one near its limit gets room for as many
//! members as still fit. No path is kept at an end, the index is searched once for the lookup and the insertion, and a new
//! score with which a member stays in its leaf moves only its column entries.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::descend::{Path, first_leaf, tag};
use super::inner::{Inner, PREFIX_MAX};
use super::key::{Key, bits_to_score};
use super::leaf::{Leaf, NO_LEAF, Record, Room};
use super::member_index::{MemberIndex, Place};
use super::{FbTree, Full, Insertion};
use crate::size_class::usable_size;
use std::ops::Range;

/// Number of index entries that are scanned in the time of one lookup by a member's hash.
const WALKED_MAX: usize = 32;

/// The state of the index entry of a member that is inserted.
pub(super) enum Indexed {
    /// There is no entry.
    Not,
    /// There is no entry, and its place is known.
    Sought(Place),
    /// There is still an entry, with this leaf.
    In(u32),
}

impl FbTree {
    /// Inserts a key that is not in the set, if the set may grow.
    pub(super) fn insert_absent(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        indexed: Indexed,
    ) -> Result<Insertion, Full> {
        if self.len == u32::MAX {
            return Err(Full);
        }
        self.insert_new(key, hash, indexed);
        // A new id may have released the last of the free ones behind the highest.
        self.compact();
        Ok(Insertion::Added)
    }

    /// Inserts a key that is not in the set.
    pub(super) fn insert_new(&mut self, key: &Key<'_>, hash: u64, indexed: Indexed) {
        let record = Record::new(key.member, hash, &mut self.pages.longs);
        if record.is_long() {
            self.pages.long_bytes += usable_size(key.member.len());
        }
        let mut known = self.known_place(key);
        if let Some((leaf, slot)) = known
            && self.insert_at_known(leaf, slot, key, hash, &record)
        {
            self.finish_insertion(hash, leaf, indexed);
            return;
        }
        let mut may_share = true;
        loop {
            let mut path = Path::new();
            let slot = self.lead_to_place(key, known, &mut path);
            let room = self.room_for(path.leaf, slot);
            if self
                .pages
                .change(path.leaf, slot..slot, |leaf| leaf.insert(slot, key.score, tag(hash), &record, room))
            {
                self.add_to_counts(&path, 1);
                // A key below all others: the nodes are updated when the first leaf splits.
                if slot == 0 && path.leaf != self.first {
                    self.set_anchors(&path, path.steps().len());
                }
                self.finish_insertion(hash, path.leaf, indexed);
                return;
            }
            if path.leaf == self.first {
                self.settle_first_anchor();
            }
            let count = self.pages.leaves[path.leaf].count();
            let after_all = path.leaf == self.last && slot == count;
            if after_all || (path.leaf == self.first && slot == 0) {
                let mut leaf = Leaf::default();
                assert!(leaf.insert(0, key.score, tag(hash), &record, room), "one record fits a page");
                let id = self.add_edge_leaf(&path, leaf, after_all);
                self.finish_insertion(hash, id, indexed);
                return;
            }
            // Once: a score that needs a wider column may fill both leaves again.
            if !(may_share && self.share_with_sibling(&path)) {
                self.split_leaf(&path);
            }
            may_share = false;
            known = self.known_place(key);
        }
    }

    /// Inserts at a place found without a descent, so that no path is known yet: in a leaf with room only the counts of the
    /// nodes change.
    #[inline]
    fn insert_at_known(
        &mut self,
        leaf: u32,
        slot: usize,
        key: &Key<'_>,
        hash: u64,
        record: &Record<'_>,
    ) -> bool {
        let room = self.room_for(leaf, slot);
        if !self.pages.change(leaf, slot..slot, |leaf| leaf.insert(slot, key.score, tag(hash), record, room))
        {
            return false;
        }
        let (mut id, is_last) = (self.root, slot > 0);
        for _ in 0..self.height {
            let node = &mut self.inners[id];
            let child = if is_last { node.count() - 1 } else { 0 };
            node.add(child, 1);
            id = node.child(child);
        }
        true
    }

    /// How a leaf grows for a member at `slot`. A leaf at an end where members arrive in order is soon full.
    fn room_for(&self, leaf: u32, slot: usize) -> Room {
        let at_end =
            slot == 0 && leaf == self.first || leaf == self.last && slot == self.pages.leaves[leaf].count();
        Room { page_max: self.page_max(), more_to_come: at_end && self.height > 0 }
    }

    fn finish_insertion(&mut self, hash: u64, leaf: u32, indexed: Indexed) {
        self.len += 1;
        match (&mut self.index, indexed) {
            (Some(_), Indexed::In(from)) if from == leaf => {}
            (Some(index), Indexed::In(from)) => index.relocate(&[hash], from, leaf),
            (Some(index), Indexed::Sought(place)) => index.insert_at(place, hash, leaf),
            (Some(index), Indexed::Not) => index.insert(hash, leaf),
            (None, _) if self.height > 0 => self.build_index(),
            (None, _) => {}
        }
        self.balance_index();
    }

    /// Adjusts the index's size, or removes the index of a single leaf.
    #[inline]
    pub(super) fn balance_index(&mut self) {
        if self.index.as_ref().is_some_and(|index| !index.is_balanced()) {
            self.resize_index();
        }
    }

    #[inline(never)]
    fn resize_index(&mut self) {
        let Some(mut index) = self.index.take() else { return };
        index.balance(&|leaf, hashes| self.push_hashes(leaf, hashes));
        self.index = Some(index);
    }

    /// Appends the hashes of all members of a leaf, slot by slot.
    pub(super) fn push_hashes(&self, leaf: u32, hashes: &mut Vec<u64>) {
        let leaf = &self.pages.leaves[leaf];
        hashes.extend((0..leaf.count()).map(|slot| leaf.hash(slot, &self.pages.longs, self.seed)));
    }

    /// The leaf and slot for a new key, where no search of the tree is needed: before the first or behind the last key, or
    /// in a single leaf.
    #[inline]
    fn known_place(&self, key: &Key<'_>) -> Option<(u32, usize)> {
        let last = &self.pages.leaves[self.last];
        if self.height == 0 {
            return Some((self.last, last.place_for(key, &self.pages.longs)));
        }
        if last.compare(last.count() - 1, key, &self.pages.longs).is_lt() {
            return Some((self.last, last.count()));
        }
        self.pages.leaves[self.first].compare(0, key, &self.pages.longs).is_gt().then_some((self.first, 0))
    }

    /// Finds the path to the leaf for a new key, and its slot there; `known` saves the search.
    fn lead_to_place(&self, key: &Key<'_>, known: Option<(u32, usize)>, path: &mut Path) -> usize {
        if let Some((_, slot)) = known {
            self.lead_to_edge(slot > 0, path);
            return slot;
        }
        self.lead_to(NO_LEAF, key, path);
        let leaf = &self.pages.leaves[path.leaf];
        leaf.prefetch_columns();
        leaf.prefetch_heap_top();
        leaf.lower_bound(key, &self.pages.longs).slot
    }

    /// Moves the member at `slot` to the key's score.
    pub(super) fn set_score(&mut self, leaf: u32, slot: usize, key: &Key<'_>, hash: u64) -> Insertion {
        let previous = self.pages.leaves[leaf].score(slot);
        if previous == key.score {
            return Insertion::Unchanged;
        }
        let stays = self.stays(leaf, slot, key) && self.pages.leaves[leaf].set_score(slot, key.score);
        if !(stays || self.move_within(leaf, slot, key)) {
            let indexed = self.take_out(leaf, slot, hash).map_or(Indexed::Not, Indexed::In);
            self.insert_new(key, hash, indexed);
            self.compact();
        }
        Insertion::Updated { previous: bits_to_score(previous) }
    }

    /// Returns whether a member with a new score keeps its slot. The first of a leaf does not, as it is an anchor.
    fn stays(&self, id: u32, slot: usize, key: &Key<'_>) -> bool {
        let leaf = &self.pages.leaves[id];
        let longs = &self.pages.longs;
        let after_previous = match slot {
            0 => self.height == 0,
            _ => leaf.compare(slot - 1, key, longs).is_lt(),
        };
        let before_next = || match (slot + 1 < leaf.count(), leaf.next) {
            (true, _) => leaf.compare(slot + 1, key, longs).is_gt(),
            (false, NO_LEAF) => true,
            (false, next) => self.pages.leaves[next].compare(0, key, longs).is_gt(),
        };
        after_previous && before_next()
    }

    /// Moves the member at `slot` to its place with a new score, if that is in the same leaf and neither place is the
    /// leaf's first, which is an anchor: then nodes, index and record stay unchanged.
    fn move_within(&mut self, id: u32, slot: usize, key: &Key<'_>) -> bool {
        let (leaf, longs) = (&self.pages.leaves[id], &self.pages.longs);
        if self.height > 0 {
            let is_behind_first = slot > 0 && leaf.compare(0, key, longs).is_lt();
            let is_before_next = || match leaf.next {
                NO_LEAF => true,
                next => {
                    leaf.compare(leaf.count() - 1, key, longs).is_gt()
                        || self.pages.leaves[next].compare(0, key, longs).is_gt()
                }
            };
            if !(is_behind_first && is_before_next()) {
                return false;
            }
        }
        let below = leaf.lower_bound(key, longs).slot;
        // The member itself is no longer below.
        let to = below - usize::from(below > slot);
        self.pages.change(id, slot.min(to)..slot.max(to) + 1, |leaf| leaf.move_slot(slot, to, key.score))
    }

    /// Adds to the counts of all nodes on the path.
    pub(super) fn add_to_counts(&mut self, path: &Path, delta: i64) {
        for step in path.steps() {
            self.inners[step.node].add(step.child(), delta);
        }
    }

    /// Updates the nodes above step `depth` of the path after its first key changed (at `steps().len()`: that of its leaf),
    /// as far up as that key is an anchor.
    pub(super) fn set_anchors(&mut self, path: &Path, depth: usize) {
        for depth in (0..depth).rev() {
            let step = path.steps()[depth];
            self.refresh_anchor(step.node, step.child(), self.height as usize - depth - 1);
            if step.child() > 0 {
                break;
            }
        }
    }

    /// Updates the nodes along the left edge with the first key, before another leaf's first key can be below the one they
    /// have.
    pub(super) fn settle_first_anchor(&mut self) {
        let path = self.path_to_edge(false);
        self.set_anchors(&path, path.steps().len());
    }

    /// Sets the features of one child from its anchor; `height` is the child's.
    pub(super) fn refresh_anchor(&mut self, node: u32, child: usize, height: usize) {
        let leaf = first_leaf(&self.inners, self.inners[node].child(child), height);
        let anchor = self.pages.first_key(leaf);
        self.inners[node].set_anchor(child, &anchor);
        if child == 0 || child + 1 == self.inners[node].count() {
            self.lengthen_prefix(node, height);
        }
    }

    /// Extends a node's prefix to all that its anchors share, if that is longer. `height` is its children's.
    pub(super) fn lengthen_prefix(&mut self, node: u32, height: usize) {
        if !self.inners[node].may_lengthen() {
            return;
        }
        let leaves: Vec<u32> = self.inners[node]
            .children()
            .iter()
            .map(|&child| first_leaf(&self.inners, child, height))
            .collect();
        let node = &mut self.inners[node];
        let first = self.pages.first_key(leaves[0]);
        let last = self.pages.first_key(leaves[leaves.len() - 1]);
        let shared = first.shared_prefix(&last, PREFIX_MAX);
        if shared > node.prefix().len() {
            node.set_prefix(&first, shared);
            for (at, &leaf) in leaves.iter().enumerate() {
                node.set_anchor(at, &self.pages.first_key(leaf));
            }
        }
    }

    /// Adds a leaf of new members before the first or behind the last: the full one stays full.
    pub(super) fn add_edge_leaf(&mut self, path: &Path, leaf: Leaf, right: bool) -> u32 {
        let count = leaf.count() as u32;
        let id = self.pages.add(leaf);
        let neighbour = path.leaf;
        self.pages.leaves[neighbour].set_filled_in_order();
        self.link(id, neighbour, right);
        if self.height == 0 {
            let children = if right { [neighbour, id] } else { [id, neighbour] };
            self.grow_root(children);
            return id;
        }
        let (last, above) = path.steps().split_last().expect("a tree of height 1 has a root");
        for step in above {
            self.inners[step.node].add(step.child(), i64::from(count));
        }
        self.insert_child(path, path.steps().len() - 1, last.child() + usize::from(right), id, count);
        id
    }

    /// Links a new leaf before or behind a neighbour.
    fn link(&mut self, id: u32, neighbour: u32, right: bool) {
        let leaves = &mut self.pages.leaves;
        let (prev, next) =
            if right { (neighbour, leaves[neighbour].next) } else { (leaves[neighbour].prev, neighbour) };
        (leaves[id].prev, leaves[id].next) = (prev, next);
        match prev {
            NO_LEAF => self.first = id,
            _ => leaves[prev].next = id,
        }
        match next {
            NO_LEAF => self.last = id,
            _ => leaves[next].prev = id,
        }
    }

    /// Creates a new root above two children, leaves if the root was a leaf.
    fn grow_root(&mut self, children: [u32; 2]) {
        let mut node = Inner::new();
        let height = self.height as usize;
        for (at, child) in children.into_iter().enumerate() {
            let count = match height {
                0 => self.pages.leaves[child].count() as u32,
                _ => self.inners[child].total(),
            };
            let leaf = first_leaf(&self.inners, child, height);
            node.insert(at, child, count, &self.pages.first_key(leaf));
        }
        self.root = self.inners.0.insert(Some(node));
        self.height += 1;
        self.lengthen_prefix(self.root, height);
    }

    /// Builds the index of the first leaves' members.
    fn build_index(&mut self) {
        let mut index = Box::new(MemberIndex::new());
        let mut hashes = Vec::new();
        for &leaf in self.inners[self.root].children() {
            hashes.clear();
            self.push_hashes(leaf, &mut hashes);
            hashes.iter().for_each(|&hash| index.insert(hash, leaf));
        }
        self.index = Some(index);
    }

    /// Moves members of the path's full leaf to a sibling, if one has enough room to be worth it.
    fn share_with_sibling(&mut self, path: &Path) -> bool {
        let Some(step) = path.steps().last() else { return false };
        let node = &self.inners[step.node];
        let used = |at: usize| self.pages.leaves[node.child(at)].used_bytes();
        let right = (step.child() + 1 < node.count()).then(|| (used(step.child() + 1), step.child()));
        let left = step.child().checked_sub(1).map(|left| (used(left), left));
        match left.into_iter().chain(right).min() {
            Some((used, left)) if used <= self.page_max() / 2 => self.share_leaves(step.node, left),
            _ => false,
        }
    }

    fn split_leaf(&mut self, path: &Path) {
        let id = path.leaf;
        let old = &self.pages.leaves[id];
        let at = old.slot_at_bytes(old.used_bytes() / 2);
        let halves =
            [0..at, at..old.count()].map(|range: Range<usize>| Leaf::of(&[(old, range)], self.page_max()));
        let [Some(left), Some(right)] = halves else { unreachable!("half a leaf fits a page") };
        let counts = [left.count() as u32, right.count() as u32];
        self.pages.replace(id, left);
        let new = self.pages.add(right);
        self.link(new, id, true);
        if self.height == 0 {
            self.grow_root([id, new]);
            return;
        }
        self.relocate(new, 0..counts[1] as usize, id);
        let depth = path.steps().len() - 1;
        let step = path.steps()[depth];
        self.inners[step.node].set_count(step.child(), counts[0]);
        self.insert_child(path, depth, step.child() + 1, new, counts[1]);
    }

    /// Updates the index after these members of `leaf` came from another leaf.
    pub(super) fn relocate(&mut self, leaf: u32, slots: Range<usize>, from: u32) {
        let Some(index) = &mut self.index else { return };
        let (page, longs, seed) = (&self.pages.leaves[leaf], &self.pages.longs, self.seed);
        let mut told_apart = |slot: &usize| {
            page.is_costly_to_hash(*slot) && index.relocate_by_tag(page.tag(*slot), from, leaf)
        };
        let others = slots.filter(|slot| !told_apart(slot));
        let hashes: Vec<u64> = others.map(|slot| page.hash(slot, longs, seed)).collect();
        index.relocate(&hashes, from, leaf);
    }

    /// As [`FbTree::relocate`], for all members that the other leaf had. In a small index all entries are scanned, which
    /// hashes nothing.
    pub(super) fn relocate_all(&mut self, leaf: u32, slots: Range<usize>, from: u32) {
        match &mut self.index {
            Some(index) if index.len() <= WALKED_MAX * slots.len() => index.rename_leaf(from, leaf),
            _ => self.relocate(leaf, slots, from),
        }
    }

    /// Adds a child at `at` of the path's node at `depth`, splitting nodes upwards as needed. The counts above that node
    /// include the child's members already.
    fn insert_child(&mut self, path: &Path, depth: usize, at: usize, child: u32, count: u32) {
        let height = self.height as usize - depth - 1;
        let mut node = path.steps()[depth].node;
        let mut at = at;
        let mut split = None;
        if self.inners[node].count() == self.node_max() {
            let middle = self.split_point(path, depth, at);
            let right = self.inners[node].split_off(middle);
            let right = self.inners.0.insert(Some(right));
            split = Some((node, right));
            if at > middle {
                (node, at) = (right, at - middle);
            }
        }
        let leaf = first_leaf(&self.inners, child, height);
        self.inners[node].insert(at, child, count, &self.pages.first_key(leaf));
        let Some((left, right)) = split else {
            if at == 0 {
                self.set_anchors(path, depth);
            }
            return;
        };
        self.lengthen_prefix(left, height);
        self.lengthen_prefix(right, height);
        self.attach_split(path, depth, left, right);
    }

    /// The index at which a full node splits: near the edge at which a sequential load arrives, else in the middle.
    fn split_point(&self, path: &Path, depth: usize, at: usize) -> usize {
        let above = &path.steps()[..depth];
        let right_edge = above.iter().all(|step| step.child() + 1 == self.inners[step.node].count());
        let left_edge = above.iter().all(|step| step.child() == 0);
        let full = self.node_max();
        match at {
            0 if left_edge => 1,
            _ if at == full && right_edge => full - 1,
            _ => full / 2,
        }
    }

    /// Adds the new right half of the node at `depth` to the node above, or creates a new root.
    fn attach_split(&mut self, path: &Path, depth: usize, left: u32, right: u32) {
        if depth == 0 {
            self.grow_root([left, right]);
            return;
        }
        let totals = [left, right].map(|node| self.inners[node].total());
        let above = path.steps()[depth - 1];
        self.inners[above.node].set_count(above.child(), totals[0]);
        if path.steps()[depth].child() == 0 {
            self.set_anchors(path, depth);
        }
        self.insert_child(path, depth - 1, above.child() + 1, right, totals[1]);
    }
}
