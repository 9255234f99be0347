//! Paths down the tree: by member, by key, by rank, and along the edges.
//!
//! The score's part of a node's prefix is compared as one number, and a leaf named by the index is found in the last node by
//! its id. A path is written in place by the caller: copying bytes just written would wait for the writes.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::inner::{Branch, Inner};
use super::insert::Indexed;
use super::key::{Key, SCORE_BYTES, below_all};
use super::leaf::{Leaf, NO_LEAF};
use super::member_index::MemberIndex;
use super::{FbTree, Inners};
use crate::work;
use std::ops::Range;

/// Levels a tree can have. Nodes are at least a quarter full away from the edges, so 2^32 leaves need 8.
pub(super) const HEIGHT_MAX: usize = 16;

/// A node on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The node's id.
    pub node: u32,
    child: u8,
}

impl Step {
    /// The node's child that is next on the path.
    pub fn child(&self) -> usize {
        usize::from(self.child)
    }
}

/// The position of a member.
#[derive(Clone, Copy)]
pub(super) struct Located<'a> {
    /// The leaf's id.
    pub id: u32,
    /// The leaf.
    pub leaf: &'a Leaf,
    /// The slot in the leaf.
    pub slot: usize,
}

/// The path from the root to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    steps: [Step; HEIGHT_MAX],
    len: usize,
    /// The leaf's id.
    pub leaf: u32,
}

impl Path {
    /// An empty path.
    #[inline(always)]
    pub fn new() -> Self {
        Path { steps: [Step::default(); HEIGHT_MAX], len: 0, leaf: NO_LEAF }
    }

    /// Appends a node and the number of its child on the path.
    pub fn push(&mut self, node: u32, child: usize) {
        work::visited(1);
        self.steps[self.len] = Step { node, child: child as u8 };
        self.len += 1;
    }

    /// The nodes from the root down.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }
}

/// Returns whether `key` itself has the node's prefix, which only a key before the first anchor may lack.
fn follows_prefix(node: &Inner, key: &Key<'_>, child: usize) -> bool {
    child > 0 || node.compare_prefix(key, 0).is_eq()
}

/// The leftmost leaf below a node (or the leaf itself at height 0): its first key is the anchor.
pub(super) fn first_leaf(inners: &Inners, mut id: u32, height: usize) -> u32 {
    for _ in 0..height {
        work::visited(1);
        id = inners[id].child(0);
    }
    id
}

impl FbTree {
    /// Finds a member. `hash` is its hash.
    #[inline(always)]
    pub(super) fn locate(&self, member: &[u8], hash: u64) -> Option<Located<'_>> {
        self.locate_with(member, hash, Leaf::prefetch_for_lookup)
    }

    /// As [`FbTree::locate`], for callers that read the score next: it is prefetched with the rest of the leaf's columns.
    #[inline(always)]
    pub(super) fn locate_with_score(&self, member: &[u8], hash: u64) -> Option<Located<'_>> {
        self.locate_with(member, hash, Leaf::prefetch_columns)
    }

    #[inline(always)]
    fn locate_with(&self, member: &[u8], hash: u64, prefetch: impl Fn(&Leaf)) -> Option<Located<'_>> {
        let Some(index) = &self.index else {
            let leaf = &self.pages.leaves[self.root];
            prefetch(leaf);
            let slot = leaf.find(tag(hash), member, &self.pages.longs)?;
            return Some(Located { id: self.root, leaf, slot });
        };
        self.locate_indexed(index, member, hash, prefetch)
    }

    #[inline(never)]
    fn locate_indexed(
        &self,
        index: &MemberIndex,
        member: &[u8],
        hash: u64,
        prefetch: impl Fn(&Leaf),
    ) -> Option<Located<'_>> {
        for id in index.candidates(hash) {
            let leaf = &self.pages.leaves[id];
            prefetch(leaf);
            if let Some(slot) = leaf.find(tag(hash), member, &self.pages.longs) {
                return Some(Located { id, leaf, slot });
            }
        }
        None
    }

    /// Returns the position of a member, or what is known of its index entry for an insertion.
    #[inline]
    pub(super) fn locate_or_place(&self, member: &[u8], hash: u64) -> Result<Located<'_>, Indexed> {
        let Some(index) = &self.index else {
            return self.locate_with_score(member, hash).ok_or(Indexed::Not);
        };
        let place = index.seek(hash);
        for id in index.candidates_at(place, hash) {
            let leaf = &self.pages.leaves[id];
            leaf.prefetch_columns();
            if let Some(slot) = leaf.find(tag(hash), member, &self.pages.longs) {
                return Ok(Located { id, leaf, slot });
            }
        }
        Err(Indexed::Sought(place))
    }

    /// The path to the leaf that holds `key`, or would.
    #[inline(always)]
    pub(super) fn path_to(&self, key: &Key<'_>) -> Path {
        self.path_to_known(NO_LEAF, key)
    }

    /// As [`FbTree::path_to`], to `leaf`, which is known to hold `key`, unless it is [`NO_LEAF`].
    #[inline(always)]
    pub(super) fn path_to_known(&self, leaf: u32, key: &Key<'_>) -> Path {
        let mut path = Path::new();
        self.lead_to(leaf, key, &mut path);
        path
    }

    #[inline(never)]
    pub(super) fn lead_to(&self, leaf: u32, key: &Key<'_>, path: &mut Path) {
        path.leaf = self.descend(key, leaf, |id, _, child| path.push(id, child));
    }

    /// The rank of the first member of `leaf`, which is known to hold `key`.
    pub(super) fn first_rank(&self, leaf: u32, key: &Key<'_>) -> usize {
        let mut before = 0;
        self.descend(key, leaf, |_, node, child| before += node.before(child));
        before
    }

    /// The leaf that holds `key`, or would, and the rank of its first member.
    pub(super) fn leaf_for(&self, key: &Key<'_>) -> (u32, usize) {
        let mut before = 0;
        let leaf = self.descend(key, NO_LEAF, |_, node, child| before += node.before(child));
        (leaf, before)
    }

    /// The leaf that holds `key`, or would; calls `pass` with each node on the path and its next child. The `known` leaf,
    /// unless it is [`NO_LEAF`], is found by its id in the last node.
    #[inline]
    fn descend(&self, key: &Key<'_>, known: u32, mut pass: impl FnMut(u32, &Inner, usize)) -> u32 {
        let mut id = self.root;
        let mut skip = 0;
        for height in (0..self.height as usize).rev() {
            let node = &self.inners[id];
            if height == 0 && known != NO_LEAF {
                pass(id, node, node.position(known));
                return known;
            }
            let child = self.child_for(node, key, skip, height);
            // Between two anchors that share the prefix, every key has it. The score's part of it is compared at once.
            if node.prefix().len() > SCORE_BYTES
                && child + 1 < node.count()
                && follows_prefix(node, key, child)
            {
                skip = skip.max(node.prefix().len());
            }
            pass(id, node, child);
            id = node.child(child);
        }
        id
    }

    /// The last child whose anchor is not above `key`, or the first. `height` is that of the children.
    #[inline(always)]
    fn child_for(&self, node: &Inner, key: &Key<'_>, skip: usize, height: usize) -> usize {
        match node.branch(self.simd, key, skip) {
            Branch::Child(child) => child,
            Branch::Tied { from, to } => self.child_among(node, key, from..to, height),
        }
    }

    /// As [`FbTree::child_for`], if the child is one of `tied` or the one before.
    #[inline(never)]
    fn child_among(&self, node: &Inner, key: &Key<'_>, mut tied: Range<usize>, height: usize) -> usize {
        while !tied.is_empty() {
            let middle = tied.start + tied.len() / 2;
            let leaf = &self.pages.leaves[first_leaf(&self.inners, node.child(middle), height)];
            if leaf.compare(0, key, &self.pages.longs).is_le() {
                tied.start = middle + 1;
            } else {
                tied.end = middle;
            }
        }
        tied.start.saturating_sub(1)
    }

    /// The path to the member at `rank`, which must be below `len`, and its slot.
    #[inline(always)]
    pub(super) fn path_to_rank(&self, rank: usize) -> (Path, usize) {
        let mut path = Path::new();
        let slot = self.lead_to_rank(rank, &mut path);
        (path, slot)
    }

    #[inline(never)]
    pub(super) fn lead_to_rank(&self, rank: usize, path: &mut Path) -> usize {
        let (mut id, mut rank) = (self.root, rank);
        for _ in 0..self.height {
            let (child, within) = self.inners[id].child_at_rank(rank);
            path.push(id, child);
            (id, rank) = (self.inners[id].child(child), within);
        }
        path.leaf = id;
        rank
    }

    /// The leaf that has the member at `rank`, which must be below `len`, and its slot.
    pub(super) fn leaf_at_rank(&self, rank: usize) -> (u32, usize) {
        // The ids of the ends are not in the tree's first line.
        if self.pages.leaves.only().is_some() {
            return (0, rank);
        }
        // A descent fetches lines of every level, which are cold where there are many sets; the ends are known without one.
        if rank == 0 {
            return (self.first, 0);
        }
        if rank + 1 == self.len as usize {
            return (self.last, self.pages.leaves[self.last].count() - 1);
        }
        let (mut id, mut rank) = (self.root, rank);
        for _ in 0..self.height {
            work::visited(1);
            let node = &self.inners[id];
            let (child, within) = node.child_at_rank(rank);
            (id, rank) = (node.child(child), within);
        }
        (id, rank)
    }

    /// The path along the left edge or the right.
    #[inline(always)]
    pub(super) fn path_to_edge(&self, right: bool) -> Path {
        let mut path = Path::new();
        self.lead_to_edge(right, &mut path);
        path
    }

    #[inline(never)]
    pub(super) fn lead_to_edge(&self, right: bool, path: &mut Path) {
        let mut id = self.root;
        for _ in 0..self.height {
            let node = &self.inners[id];
            let child = if right { node.count() - 1 } else { 0 };
            path.push(id, child);
            id = node.child(child);
        }
        path.leaf = id;
    }

    /// The rank of the first member of the path's leaf.
    pub(super) fn rank_of_leaf(&self, path: &Path) -> usize {
        path.steps().iter().map(|step| self.inners[step.node].before(step.child())).sum()
    }

    /// The ranks of the scores from `start` on and below `end` (ordered bits); empty, or ending before its start, if there
    /// are none. Most ranges are short: the leaf with the start also has the end, and is searched once.
    pub(super) fn ranks_between(&self, start: u64, end: u64) -> Range<usize> {
        let [low, high] = [start, end].map(|score| Key { score, member: below_all() });
        let (id, first) = self.leaf_for(&low);
        let leaf = &self.pages.leaves[id];
        if self.height == 0 || leaf.score(leaf.count() - 1) >= end {
            let [start, end] = leaf.count_below(self.simd, [start, end]);
            return first + start..first + end;
        }
        let (end_id, end_first) = self.leaf_for(&high);
        let [start] = leaf.count_below(self.simd, [start]);
        let [end] = self.pages.leaves[end_id].count_below(self.simd, [end]);
        first + start..end_first + end
    }

    /// The number of members with scores below this one (ordered bits).
    pub(super) fn rank_of_score(&self, score: u64) -> usize {
        let (id, first) = self.leaf_for(&Key { score, member: below_all() });
        let [below] = self.pages.leaves[id].count_below(self.simd, [score]);
        first + below
    }

    /// The number of members below `key`, and whether it is itself a member.
    pub(super) fn lower_rank(&self, key: &Key<'_>) -> (usize, bool) {
        let (leaf, first) = self.leaf_for(key);
        let found = self.pages.leaves[leaf].lower_bound(key, &self.pages.longs);
        (first + found.slot, found.exact)
    }
}

/// The byte of a hash that a leaf keeps. The index has it too: it keeps the leading bits.
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}
