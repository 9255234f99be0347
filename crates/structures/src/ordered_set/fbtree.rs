//! The feature B+ tree: an ordered set whose members are packed into pages, without pointers between them. After the
//! FB+-tree of Chen et al., arXiv 2503.23397, with packed leaves and a member index.
//!
//! ```text
//!              inner            prefix | feature rows | child ids | counts          (`inner`)
//!             /     \           routes by SIMD over the features, ranks by the counts
//!        inner       inner
//!       /  |  \     /  |  \
//!    leaf=leaf=leaf=leaf=leaf   tags | offsets | scores | room | records            (`leaf`)
//!      ^     ^         ^        in order, linked both ways
//!      +-----+----+----+
//!          member index         hash -> leaf id, for lookups without an order        (`member_index`)
//! ```
//!
//! A key is the score as 8 order-preserving bytes followed by the member (`key`). A set that fits one leaf consists of
//! that leaf alone: no node, no index, and a page that grows by allocation classes.
//!
//! A lookup by member fetches an index line, a leaf's tags, offset and score, and the record; a rank or a descent fetches
//! a feature block and counts per level.
//!
//! Invariants, beside those of each part:
//! 1. Every leaf is at depth `height`; leaves left to right hold the members in ascending order, and the chain
//!    `first`, `next` .. `last` is the same sequence (and back by `prev`).
//! 2. No leaf is empty unless the set is.
//! 3. `counts` in each node and `len` are the true numbers of members.
//! 4. The index exists if and only if `height > 0`.
//! 5. The members in the table of long members are exactly those that some record refers to, each with its hash.
//! 6. While there is one leaf, `Pages::ends` are the places of its first and last record.
//! 7. At least half of the ids of leaves, and of long members, are in use, or there are few ids.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#the-feature-b-tree).

mod bulk;
mod check;
mod columns;
mod descend;
mod frame_of_reference;
mod inner;
mod insert;
mod key;
mod leaf;
mod lookup_many;
mod member_index;
mod rebalance;
mod remove;
mod remove_range;
mod slab;
mod walk;

#[cfg(test)]
mod tests;

pub use bulk::{Loader, Repeated};
pub use walk::{Ascending, Descending};

use super::{End, Full, Insertion, LexBound, OrderedSet, RankRange, ScoreBound, ScoreProbe};
use crate::byte_compare::Simd;
use crate::hash::HashSeed;
use crate::size_class::usable_size;
use descend::Located;
use inner::{FANOUT, Inner};
use key::{Key, bits_to_score, score_to_bits};
use leaf::{Leaf, LongMembers};
use member_index::MemberIndex;
use slab::Slab;
use std::ops::Range;

/// The sizes of a tree's parts. The default measured best; others are for measuring, and for testing tall trees of few
/// members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Limit of a leaf's page, 1,024 to 32,768.
    pub page_bytes_max: u16,
    /// Limit of a node's children, 4 to 64.
    pub node_children_max: u8,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { page_bytes_max: 4096, node_children_max: FANOUT as u8 }
    }
}

/// An ordered set of up to 2^32-1 members. A clone has the same parts, page for page: loading it anew took three times as
/// long at 10,000 members.
///
/// What a set of one leaf needs for a member at a rank is in the first cache line.
#[derive(Clone)]
#[repr(C)]
pub struct FbTree {
    len: u32,
    /// Levels of nodes above the leaves.
    height: u8,
    simd: Simd,
    pages: Pages,
    seed: HashSeed,
    shape: Shape,
    /// A node if `height > 0`, else a leaf.
    root: u32,
    first: u32,
    last: u32,
    inners: Inners,
    index: Option<Box<MemberIndex>>,
}

/// An allocation of at most this size has the size of its class, a multiple of the lines.
const _: () = assert!(size_of::<FbTree>() <= 192);
const _: () = assert!(
    std::mem::offset_of!(FbTree, pages) + std::mem::offset_of!(Pages, leaves) + size_of::<Slab<Leaf>>() <= 64
);

/// The leaves, and the members too long for them.
#[derive(Clone)]
#[repr(C)]
struct Pages {
    /// The places of the records of the lowest and the highest member, while there is one leaf: they save a line.
    ends: [u16; 2],
    leaves: Slab<Leaf>,
    longs: LongMembers,
    long_bytes: usize,
    page_bytes: usize,
}

/// The inner nodes.
#[derive(Clone)]
struct Inners(Slab<Option<Box<Inner>>>);

impl std::ops::Index<u32> for Inners {
    type Output = Inner;
    #[inline]
    fn index(&self, id: u32) -> &Inner {
        self.0[id].as_deref().expect("an id in the tree names a live node")
    }
}

impl std::ops::IndexMut<u32> for Inners {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Inner {
        self.0[id].as_deref_mut().expect("an id in the tree names a live node")
    }
}

impl Pages {
    #[inline]
    fn key(&self, leaf: u32, slot: usize) -> Key<'_> {
        self.leaves[leaf].key(slot, &self.longs)
    }

    /// The anchor of a leaf.
    fn first_key(&self, leaf: u32) -> Key<'_> {
        self.key(leaf, 0)
    }

    /// Changes these slots of a leaf, or inserts at the start of the range, updating the sum of page sizes and the places of
    /// the ends: those that did not change are in lines that a change at the other end does not fetch.
    fn change<R>(&mut self, id: u32, slots: Range<usize>, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let leaf = &mut self.leaves[id];
        let (count, bytes, page) = (leaf.count(), leaf.page_bytes(), leaf.page_address());
        let result = change(leaf);
        self.page_bytes = self.page_bytes + leaf.page_bytes() - bytes;
        if let Some(leaf) = self.leaves.only() {
            let is_new = leaf.page_address() != page;
            if is_new || slots.start == 0 {
                self.ends[End::Lowest as usize] = leaf.end_place(End::Lowest);
            }
            if is_new || slots.end >= count {
                self.ends[End::Highest as usize] = leaf.end_place(End::Highest);
            }
        }
        result
    }

    /// Keeps the places of the ends of the only leaf.
    #[inline]
    fn note_ends(&mut self) {
        if let Some(leaf) = self.leaves.only() {
            self.ends = [End::Lowest, End::Highest].map(|end| leaf.end_place(end));
        }
    }

    /// The lowest or highest member of the only leaf.
    #[inline]
    fn end_member<'a>(&'a self, leaf: &'a Leaf, end: End) -> &'a [u8] {
        leaf.member_in(self.ends[end as usize], &self.longs)
    }

    /// Replaces the contents of a leaf, keeping its links.
    fn replace(&mut self, id: u32, with: Leaf) {
        self.change(id, 0..usize::MAX, |leaf| leaf.replace_members(with));
    }

    fn add(&mut self, leaf: Leaf) -> u32 {
        self.page_bytes += leaf.page_bytes();
        let id = self.leaves.insert(leaf);
        self.note_ends();
        id
    }

    fn take(&mut self, id: u32) -> Leaf {
        let leaf = self.leaves.take(id);
        self.page_bytes -= leaf.page_bytes();
        self.note_ends();
        leaf
    }

    /// Frees the bytes of a long member that a leaf is about to lose.
    fn free_long(&mut self, leaf: u32, slot: usize) {
        if let Some(id) = self.leaves[leaf].long_id(slot) {
            self.long_bytes -= usable_size(self.longs.take(id).bytes.len());
        }
    }
}

impl FbTree {
    /// Creates an empty set, which allocates nothing for members.
    pub fn new(seed: HashSeed) -> Self {
        FbTree::with_shape(seed, Shape::default())
    }

    /// The seed of the members' hashes.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// Creates an empty set with parts of these sizes.
    pub fn with_shape(seed: HashSeed, shape: Shape) -> Self {
        assert!((1024..=32768).contains(&shape.page_bytes_max), "page_bytes_max out of range");
        assert!((4..=FANOUT as u8).contains(&shape.node_children_max), "node_children_max out of range");
        FbTree::empty(seed, shape, Simd::detect())
    }

    fn empty(seed: HashSeed, shape: Shape, simd: Simd) -> Self {
        let mut pages =
            Pages { ends: [0; 2], leaves: Slab::new(), longs: Slab::new(), long_bytes: 0, page_bytes: 0 };
        let root = pages.add(Leaf::default());
        FbTree {
            len: 0,
            height: 0,
            simd,
            pages,
            seed,
            shape,
            root,
            first: root,
            last: root,
            inners: Inners(Slab::new()),
            index: None,
        }
    }

    /// Empties the set and returns its former contents.
    fn take(&mut self) -> FbTree {
        let empty = FbTree::empty(self.seed, self.shape, self.simd);
        std::mem::replace(self, empty)
    }

    fn page_max(&self) -> usize {
        self.shape.page_bytes_max as usize
    }

    fn node_max(&self) -> usize {
        self.shape.node_children_max as usize
    }
}

/// The parts of a tree, for OBJECT LAYOUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeFigures {
    /// Number of leaves.
    pub leaves: usize,
    /// Number of inner nodes.
    pub inner_nodes: usize,
    /// Levels of nodes above the leaves.
    pub levels: usize,
    /// Members too long for a page.
    pub long_members: usize,
    /// Bytes allocated for the leaves' pages.
    pub page_bytes: usize,
    /// Bytes of `page_bytes` that members take: without free room and holes.
    pub used_bytes: usize,
    /// Bytes of the member index.
    pub index_bytes: usize,
}

impl FbTree {
    /// Returns whether one page holds all members.
    pub fn is_one_leaf(&self) -> bool {
        self.height == 0
    }

    /// Computes the figures by visiting every leaf.
    pub fn figures(&self) -> TreeFigures {
        let mut leaf = self.first;
        let leaves = std::iter::from_fn(|| {
            let found = (leaf != leaf::NO_LEAF).then(|| &self.pages.leaves[leaf])?;
            leaf = found.next;
            Some(found)
        });
        TreeFigures {
            leaves: self.pages.leaves.live(),
            inner_nodes: self.inners.0.live(),
            levels: usize::from(self.height),
            long_members: self.pages.longs.live(),
            page_bytes: self.pages.page_bytes,
            used_bytes: leaves.map(Leaf::used_bytes).sum(),
            index_bytes: self.index.as_ref().map_or(0, |index| index.memory_bytes()),
        }
    }
}

/// The ordered bits of the infinities, between which all scores lie.
const LOWEST_SCORE: u64 = !f64::NEG_INFINITY.to_bits();
const HIGHEST_SCORE: u64 = f64::INFINITY.to_bits() ^ (1 << 63);

/// The ordered bits of the least score within a lower bound. No score has bits beyond those of infinity, so one more is
/// always the next possible score.
fn start_bits(min: ScoreBound) -> u64 {
    match min {
        ScoreBound::Inclusive(score) => score_to_bits(score),
        ScoreBound::Exclusive(score) => score_to_bits(score) + 1,
    }
}

/// The ordered bits behind the greatest score within an upper bound.
fn end_bits(max: ScoreBound) -> u64 {
    match max {
        ScoreBound::Inclusive(score) => score_to_bits(score) + 1,
        ScoreBound::Exclusive(score) => score_to_bits(score),
    }
}

impl OrderedSet for FbTree {
    type Ascending<'a> = Ascending<'a>;
    type Descending<'a> = Descending<'a>;

    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn insert(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full> {
        let hash = self.seed.hash(member);
        let key = Key { score: score_to_bits(score), member };
        match self.locate_or_place(member, hash) {
            Ok(Located { id, slot, .. }) => Ok(self.set_score(id, slot, &key, hash)),
            Err(indexed) => self.insert_absent(&key, hash, indexed),
        }
    }

    fn insert_if(
        &mut self,
        member: &[u8],
        wanted: &mut dyn FnMut(Option<f64>) -> Option<f64>,
    ) -> Result<Option<Insertion>, Full> {
        let hash = self.seed.hash(member);
        let key = |score| Key { score: score_to_bits(score), member };
        match self.locate_or_place(member, hash) {
            Ok(Located { id, leaf, slot }) => {
                let score = wanted(Some(bits_to_score(leaf.score(slot))));
                Ok(score.map(|score| self.set_score(id, slot, &key(score), hash)))
            }
            Err(indexed) => {
                wanted(None).map(|score| self.insert_absent(&key(score), hash, indexed)).transpose()
            }
        }
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = self.seed.hash(member);
        let Located { id, leaf, slot } = self.locate_with_score(member, hash)?;
        let score = leaf.score(slot);
        self.remove_at(id, slot, hash);
        Some(bits_to_score(score))
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        let found = self.locate(member, self.seed.hash(member))?;
        Some(bits_to_score(found.leaf.score(found.slot)))
    }

    fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let Located { id, leaf, slot } = self.locate_with_score(member, self.seed.hash(member))?;
        let score = leaf.score(slot);
        Some((self.first_rank(id, &Key { score, member }) + slot, bits_to_score(score)))
    }

    fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        if rank >= self.len() {
            return None;
        }
        let (leaf, slot) = self.leaf_at_rank(rank);
        let key = self.pages.key(leaf, slot);
        Some((key.member, bits_to_score(key.score)))
    }

    fn member_at(&self, rank: usize) -> Option<&[u8]> {
        let end = match rank {
            0 => End::Lowest,
            _ if rank + 1 == self.len() => End::Highest,
            _ => return self.at(rank).map(|(member, _)| member),
        };
        match self.pages.leaves.only() {
            Some(leaf) => (self.len > 0).then(|| self.pages.end_member(leaf, end)),
            None => self.at(rank).map(|(member, _)| member),
        }
    }

    fn scores(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        self.scores_of(members, visit);
    }

    fn at_each<'a>(&'a self, ranks: &[usize], visit: &mut dyn FnMut(&'a [u8], f64) -> bool) {
        self.at_ranks(ranks, visit);
    }

    fn ascending(&self, ranks: RankRange) -> Ascending<'_> {
        Ascending::new(self, ranks)
    }

    fn descending(&self, ranks: RankRange) -> Descending<'_> {
        Descending::new(self, ranks)
    }

    fn score_range(&self, min: ScoreBound, max: ScoreBound) -> RankRange {
        let (start, end) = (start_bits(min), end_bits(max));
        match (start <= LOWEST_SCORE, end > HIGHEST_SCORE) {
            (false, false) => self.ranks_between(start, end),
            (true, true) => 0..self.len(),
            (true, false) => 0..self.rank_of_score(end),
            (false, true) => self.rank_of_score(start)..self.len(),
        }
    }

    fn score_range_start(&self, min: ScoreBound, max: ScoreBound, wanted: usize) -> RankRange {
        let start = match start_bits(min) {
            ..=LOWEST_SCORE => 0,
            start => self.rank_of_score(start),
        };
        let (end, wanted_end) = (end_bits(max), start.saturating_add(wanted).min(self.len()));
        if wanted_end <= start || end > HIGHEST_SCORE {
            return start..wanted_end.max(start);
        }
        let (leaf, slot) = self.leaf_at_rank(wanted_end - 1);
        if self.pages.leaves[leaf].score(slot) < end {
            return start..wanted_end;
        }
        start..self.rank_of_score(end)
    }

    fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> RankRange {
        if self.len == 0 {
            return 0..0;
        }
        let score = self.pages.first_key(self.first).score;
        let below = |member| self.lower_rank(&Key { score, member }).0;
        let through = |member| {
            let (rank, exact) = self.lower_rank(&Key { score, member });
            rank + usize::from(exact)
        };
        let start = match min {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(member) => below(member),
            LexBound::Exclusive(member) => through(member),
        };
        let end = match max {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(member) => through(member),
            LexBound::Exclusive(member) => below(member),
        };
        start..end
    }

    fn remove_range(&mut self, range: RankRange, removed: &mut dyn FnMut(&[u8], f64)) -> usize {
        let range = range.start..range.end.min(self.len());
        if !range.is_empty() {
            self.remove_ranks(range.clone(), Some(removed));
        }
        range.len()
    }

    fn drop_range(&mut self, range: RankRange) -> usize {
        let range = range.start..range.end.min(self.len());
        if !range.is_empty() {
            self.remove_ranks(range.clone(), None);
        }
        range.len()
    }

    fn scan<'a>(&'a self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        self.scan_from(cursor, wanted, visit)
    }

    fn memory_bytes(&self) -> usize {
        self.pages.page_bytes
            + self.pages.leaves.table_bytes()
            + self.pages.longs.table_bytes()
            + self.pages.long_bytes
            + self.inners.0.table_bytes()
            + self.inners.0.live() * usable_size(size_of::<Inner>())
            + self.index.as_ref().map_or(0, |index| index.memory_bytes())
    }

    fn probe(&self, member: &[u8]) -> ScoreProbe {
        self.start_probe(member)
    }

    fn probe_end(&self, end: End) -> ScoreProbe {
        self.start_end_probe(end)
    }

    fn probe_step(&self, probe: &mut ScoreProbe) -> bool {
        self.step_probe(probe)
    }

    fn check(&self) {
        self.check_all();
    }
}
