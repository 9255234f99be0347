//! An ordered set as a skip list whose header is embedded: the design that the feature B+ tree replaces.
//!
//! One allocation a member, linked on a random number of levels, and a hash table from member to node beside
//! it.
//!
//! ```text
//!  header (inside the list's own value)          node (one allocation)
//!  +--------+------+---------+- -+----------+    +-------+------+---------+- -+-----+--------+
//!  | length | tail | level 0 |   | level 15 |    | score | back | level 0 |   | len | member |
//!  +--------+------+---------+- -+----------+    +-------+------+---------+- -+-----+--------+
//!      8       8       16            16              8      8       16         1 | 5
//!
//!  level i: next node on level i (8) | span (8): distance to that node in members
//!  level 0: the span would always be 1, or 0 at the end, so its place holds the height of the tower
//! ```
//!
//! The header has a node's shape with other words in the first two fields, so an iteration starts at it
//! without a special case. `len` is one byte below 255, otherwise the byte 255 and four more.
//!
//! Invariants, verified by [`SkipList::check`]:
//! 1. Every node reachable from the header on level 0 is alive, owned by this list, and reached once.
//! 2. A node of height h is linked on levels `0..h`, `1 <= h <= LEVELS_MAX`, and on no other.
//! 3. Level 0 is in strictly ascending order by score, then by member; scores are never NaN nor -0.0.
//! 4. The span at level i > 0 is the distance in ranks to the next node there, or to the last member when
//!    there is none.
//! 5. `back` is the previous node on level 0, null for the first; `tail` is the last node, null when empty.
//! 6. Levels of the header at and above its height are never read; the topmost below it is not empty, unless
//!    the height is 1.
//! 7. The index holds each node once, under the hash of its member.
//! 8. `length` is the number of nodes, `nodes_bytes` the sum of their allocations.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#the-skip-list).

mod buckets;
mod header;
mod member_index;
mod node;
#[cfg(test)]
mod tests;

use super::{End, Full, Insertion, LexBound, OrderedSet, RankRange, ScoreBound, ScoreProbe};
use crate::hash::HashSeed;
use crate::prefetch::prefetch;
use crate::random::Random;
use crate::work;
use header::HeaderPlace;
pub use header::{EmbeddedHeader, SeparateHeader};
use member_index::MemberIndex;
use node::Node;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The tallest tower.
const LEVELS_MAX: usize = 16;
const MEMBERS_MAX: usize = u32::MAX as usize;

/// The list. Its header makes it large (some 400 bytes): keep it boxed inside anything that moves.
pub struct SkipList<H: HeaderPlace = EmbeddedHeader> {
    header: H,
    index: MemberIndex<NonNull<Node>>,
    seed: HashSeed,
    random: Random,
    nodes_bytes: usize,
}

// SAFETY: the list owns its nodes (invariant 1), shares them with nothing else, and has no interior
// mutability.
unsafe impl<H: HeaderPlace> Send for SkipList<H> {}
// SAFETY: invariant 1: `&self` methods only read.
unsafe impl<H: HeaderPlace> Sync for SkipList<H> {}

impl SkipList {
    /// Creates an empty list. `seed` keys the member index, `random_seed` draws the heights of the towers.
    pub fn new(seed: HashSeed, random_seed: u64) -> Self {
        Self::with_header(EmbeddedHeader::default(), seed, random_seed)
    }
}

impl SkipList<SeparateHeader> {
    /// The older design, for comparison: length, tail and height are in the list, the header is an allocation
    /// of its own.
    pub fn with_separate_header(seed: HashSeed, random_seed: u64) -> Self {
        Self::with_header(SeparateHeader::default(), seed, random_seed)
    }
}

/// For each level, the last node before a position, and that node's rank counted from 1, the header's being 0.
struct Path {
    before: [*mut Node; LEVELS_MAX],
    ranks: [u64; LEVELS_MAX],
}

impl Path {
    /// The same path after the list was reborrowed, which invalidated the old pointer to its header.
    fn renewed(mut self, top: *mut Node) -> Self {
        for (before, &rank) in self.before.iter_mut().zip(&self.ranks) {
            if rank == 0 {
                *before = top;
            }
        }
        self
    }
}

/// The set's order: by score, then by the member's bytes.
///
/// # Safety
/// `node` is alive and no header.
#[inline]
unsafe fn compare(node: *const Node, score: f64, member: &[u8]) -> Ordering {
    // SAFETY: invariant 1, guaranteed by the caller.
    let (own_score, own_member) = unsafe { ((*node).score, node::member(node)) };
    if own_score < score {
        Ordering::Less
    } else if own_score > score {
        Ordering::Greater
    } else {
        own_member.cmp(member)
    }
}

/// The hash of a node in the index.
fn hash_of(seed: HashSeed, node: NonNull<Node>) -> u64 {
    // SAFETY: only nodes of the index are hashed, and they are alive (invariants 1 and 7).
    seed.hash(unsafe { node::member(node.as_ptr()) })
}

impl<H: HeaderPlace> SkipList<H> {
    /// The seed of the members' hashes.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    fn with_header(header: H, seed: HashSeed, random_seed: u64) -> Self {
        SkipList { header, index: MemberIndex::new(), seed, random: Random::new(random_seed), nodes_bytes: 0 }
    }

    fn find(&self, hash: u64, member: &[u8]) -> Option<NonNull<Node>> {
        // SAFETY: the index holds live nodes (invariants 1 and 7).
        self.index.find(hash, |node| unsafe { node::member(node.as_ptr()) } == member)
    }

    /// One level in four reaches the next.
    fn random_height(&mut self) -> usize {
        let zeros = self.random.next_u64().trailing_zeros() as usize;
        (1 + zeros / 2).min(LEVELS_MAX)
    }

    /// The number of members for which `precedes` holds; these must be a prefix of the order.
    #[inline]
    fn count_before(&self, mut precedes: impl FnMut(*const Node) -> bool) -> usize {
        let mut rank = 0;
        let mut at = self.header.top();
        for level in (0..self.header.height()).rev() {
            // SAFETY: `at` is the header or a node linked on `level`, and so is alive and as tall as that
            // (invariants 1 and 2).
            unsafe {
                let mut next = node::next(at, level);
                while !next.is_null() && precedes(next) {
                    work::visited(1);
                    rank += node::span(at, level);
                    at = next;
                    next = node::next(at, level);
                }
            }
        }
        rank as usize
    }

    /// The predecessors of the position of `(score, member)`.
    fn path_to(&mut self, score: f64, member: &[u8]) -> Path {
        // SAFETY: invariant 1: `walk` passes live nodes only.
        self.walk(|next, _| unsafe { compare(next, score, member) } == Ordering::Less)
    }

    /// The predecessors of the member at `rank` (from 0).
    fn path_to_rank(&mut self, rank: usize) -> Path {
        self.walk(|_, next_rank| next_rank <= rank as u64)
    }

    /// Descends along the nodes for which `precedes(node, its rank from 1)` holds.
    #[inline]
    fn walk(&mut self, mut precedes: impl FnMut(*const Node, u64) -> bool) -> Path {
        let height = self.header.height();
        let top = self.header.top_mut();
        let mut path = Path { before: [top; LEVELS_MAX], ranks: [0; LEVELS_MAX] };
        let (mut at, mut rank) = (top, 0);
        for level in (0..height).rev() {
            // SAFETY: invariants 1 and 2, as in `count_before`.
            unsafe {
                loop {
                    let next = node::next(at, level);
                    if next.is_null() {
                        break;
                    }
                    let next_rank = rank + node::span(at, level);
                    if !precedes(next, next_rank) {
                        break;
                    }
                    work::visited(1);
                    (at, rank) = (next, next_rank);
                }
            }
            path.before[level] = at;
            path.ranks[level] = rank;
        }
        path
    }

    /// Links a node that is on no level yet, at the position of its score and member.
    ///
    /// # Safety
    /// `node` is alive, unlinked, and no node of the list equals it in both score and member.
    unsafe fn link(&mut self, node: *mut Node) {
        // SAFETY: invariants 1 and 2: the caller guarantees it for `node`; the path's nodes are alive and as
        // tall as their level. The path points into the header, which nothing between here and its last use
        // borrows as a whole.
        unsafe {
            let Path { before, ranks } = self.path_to((*node).score, node::member(node));
            let (height, length) = (node::height(node), self.header.length());
            for (level, &top) in before.iter().enumerate().take(height).skip(self.header.height()) {
                // The path reaches above the list's height only with the header.
                node::set_next(top, level, ptr::null_mut());
                node::set_span(top, level, length as u64);
            }
            let grown = self.header.height().max(height);
            for level in 0..height {
                let gap = ranks[0] - ranks[level];
                node::set_next(node, level, node::next(before[level], level));
                node::set_next(before[level], level, node);
                if level > 0 {
                    node::set_span(node, level, node::span(before[level], level) - gap);
                    node::set_span(before[level], level, gap + 1);
                }
            }
            for (level, &left) in before.iter().enumerate().take(grown).skip(height) {
                node::set_span(left, level, node::span(left, level) + 1);
            }
            let back = if ranks[0] == 0 { ptr::null_mut() } else { before[0] };
            (*node).back = back;
            let next = node::next(node, 0);
            if next.is_null() {
                self.header.set_tail(node);
            } else {
                (*next).back = node;
            }
            self.header.set_height(grown);
            self.header.set_length(length + 1);
        }
    }

    /// Unlinks the `count` nodes after `path` from every level and returns the first of them; they stay linked
    /// to one another on level 0, and in the index.
    ///
    /// # Safety
    /// `path` leads to a rank r with `0 < count <= len - r`, and the list has not changed since.
    unsafe fn unlink(&mut self, path: Path, count: usize) -> *mut Node {
        let height = self.header.height();
        let Path { before, ranks } = path.renewed(self.header.top_mut());
        // SAFETY: invariants 1 and 2, guaranteed by the caller: every node visited is alive and as tall as
        // the level it was visited on.
        unsafe {
            let first = node::next(before[0], 0);
            let mut after = first;
            for _ in 0..count {
                let node = after;
                after = node::next(node, 0);
                for (level, &left) in before.iter().enumerate().take(node::height(node)) {
                    node::set_next(left, level, node::next(node, level));
                    if level > 0 {
                        node::set_span(left, level, node::span(left, level) + node::span(node, level));
                    }
                }
            }
            for (level, &left) in before.iter().enumerate().take(height).skip(1) {
                node::set_span(left, level, node::span(left, level) - count as u64);
            }
            let back = if ranks[0] == 0 { ptr::null_mut() } else { before[0] };
            if after.is_null() {
                self.header.set_tail(back);
            } else {
                (*after).back = back;
            }
            self.header.set_length(self.header.length() - count);
            self.lower();
            first
        }
    }

    /// Restores invariant 6 after levels became empty.
    fn lower(&mut self) {
        let top = self.header.top();
        let mut height = self.header.height();
        // SAFETY: levels below the height may be read (invariant 6).
        while height > 1 && unsafe { node::next(top, height - 1) }.is_null() {
            height -= 1;
        }
        self.header.set_height(height);
    }

    /// Changes the score of a node of the list.
    fn update(&mut self, node: NonNull<Node>, score: f64) -> Insertion {
        let node = node.as_ptr();
        // SAFETY: invariants 1 and 5: nodes of the list and their neighbours are alive; the path is used at
        // once.
        unsafe {
            let previous = (*node).score;
            if previous == score {
                return Insertion::Unchanged;
            }
            let member = node::member(node);
            let (back, next) = ((*node).back, node::next(node, 0));
            let in_place = (back.is_null() || compare(back, score, member) == Ordering::Less)
                && (next.is_null() || compare(next, score, member) == Ordering::Greater);
            if in_place {
                (*node).score = score;
            } else {
                let path = self.path_to(previous, member);
                self.unlink(path, 1);
                (*node).score = score;
                self.link(node);
            }
            Insertion::Updated { previous }
        }
    }

    /// The rank of a node of the list: the spans of its tower and the following ones give the number of nodes
    /// after it.
    fn rank_of(&self, node: NonNull<Node>) -> usize {
        let mut at: *const Node = node.as_ptr();
        let mut after = 0;
        while !at.is_null() {
            work::visited(1);
            // SAFETY: invariants 1 and 2: nodes of the list are alive, and the level is below the node's
            // height.
            unsafe {
                let topmost = node::height(at) - 1;
                after += node::span(at, topmost);
                at = node::next(at, topmost);
            }
        }
        self.len() - 1 - after as usize
    }

    /// The node at `rank`; null past the end.
    fn node_at(&self, rank: usize) -> *const Node {
        if rank >= self.len() {
            return ptr::null();
        }
        if rank == self.len() - 1 {
            return self.header.tail();
        }
        let target = rank as u64 + 1;
        let (mut at, mut passed) = (self.header.top(), 0);
        for level in (0..self.header.height()).rev() {
            // SAFETY: invariants 1 and 2, as in `count_before`.
            unsafe {
                while passed + node::span(at, level) <= target && !node::next(at, level).is_null() {
                    passed += node::span(at, level);
                    at = node::next(at, level);
                }
            }
            if passed == target {
                break;
            }
        }
        debug_assert_eq!(passed, target);
        at
    }
}

/// The parts of a list, for OBJECT LAYOUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipListFigures {
    /// Height of the tallest tower.
    pub levels: usize,
    /// Bytes of all nodes.
    pub nodes_bytes: usize,
    /// Bytes of the table from members to nodes.
    pub index_bytes: usize,
}

impl<H: HeaderPlace> SkipList<H> {
    /// Computes the figures.
    pub fn figures(&self) -> SkipListFigures {
        SkipListFigures {
            levels: self.header.height(),
            nodes_bytes: self.nodes_bytes,
            index_bytes: self.index.memory_bytes(),
        }
    }
}

impl<H: HeaderPlace> OrderedSet for SkipList<H> {
    type Ascending<'a>
        = Ascending<'a>
    where
        H: 'a;
    type Descending<'a>
        = Descending<'a>
    where
        H: 'a;

    fn len(&self) -> usize {
        self.header.length()
    }

    fn insert(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full> {
        assert!(!score.is_nan(), "NaN has no place in the order");
        let score = score + 0.0; // -0.0 becomes 0.0, every other score stays.
        let hash = self.seed.hash(member);
        if let Some(node) = self.find(hash, member) {
            return Ok(self.update(node, score));
        }
        if self.len() == MEMBERS_MAX {
            return Err(Full);
        }
        let height = self.random_height();
        let node = node::allocate(height, score, member);
        // SAFETY: invariant 7: just allocated, and the index has no other node with this member.
        unsafe {
            self.nodes_bytes += node::allocation_bytes(node.as_ptr());
            self.link(node.as_ptr());
        }
        let seed = self.seed;
        self.index.insert(hash, node, |node| hash_of(seed, node));
        Ok(Insertion::Added)
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = self.seed.hash(member);
        // SAFETY: invariants 1 and 7: the index holds live nodes, from which this one is removed before it
        // is freed.
        unsafe {
            let node = self.index.remove(hash, |node| node::member(node.as_ptr()) == member)?.as_ptr();
            let score = (*node).score;
            let path = self.path_to(score, member);
            self.unlink(path, 1);
            self.nodes_bytes -= node::allocation_bytes(node);
            node::free(node);
            Some(score)
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        let node = self.find(self.seed.hash(member), member)?;
        // SAFETY: invariants 1 and 7: the index holds live nodes.
        Some(unsafe { (*node.as_ptr()).score })
    }

    fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let node = self.find(self.seed.hash(member), member)?;
        // SAFETY: invariants 1 and 7: the index holds live nodes.
        Some((self.rank_of(node), unsafe { (*node.as_ptr()).score }))
    }

    fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.ascending(rank..rank.saturating_add(1)).next()
    }

    fn ascending(&self, ranks: RankRange) -> Ascending<'_> {
        let left = ranks.end.min(self.len()).saturating_sub(ranks.start);
        Ascending { next: self.node_at(ranks.start), left, list: PhantomData }
    }

    fn descending(&self, ranks: RankRange) -> Descending<'_> {
        let end = ranks.end.min(self.len());
        let left = end.saturating_sub(ranks.start);
        Descending { next: self.node_at(end.saturating_sub(1)), left, list: PhantomData }
    }

    fn score_range(&self, min: ScoreBound, max: ScoreBound) -> RankRange {
        // SAFETY: invariant 1: `count_before` passes live nodes only.
        let score = |node: *const Node| unsafe { (*node).score };
        let start = match min {
            ScoreBound::Inclusive(bound) => self.count_before(|node| score(node) < bound),
            ScoreBound::Exclusive(bound) => self.count_before(|node| score(node) <= bound),
        };
        let end = match max {
            ScoreBound::Inclusive(bound) => self.count_before(|node| score(node) <= bound),
            ScoreBound::Exclusive(bound) => self.count_before(|node| score(node) < bound),
        };
        start..end
    }

    fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> RankRange {
        // SAFETY: invariant 1: `count_before` passes live nodes only.
        let below = |bound: &[u8]| self.count_before(|node| unsafe { node::member(node) } < bound);
        // SAFETY: invariant 1, as above.
        let up_to = |bound: &[u8]| self.count_before(|node| unsafe { node::member(node) } <= bound);
        let start = match min {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(bound) => below(bound),
            LexBound::Exclusive(bound) => up_to(bound),
        };
        let end = match max {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(bound) => up_to(bound),
            LexBound::Exclusive(bound) => below(bound),
        };
        start..end
    }

    fn remove_range(&mut self, range: RankRange, removed: &mut dyn FnMut(&[u8], f64)) -> usize {
        let end = range.end.min(self.len());
        if range.start >= end {
            return 0;
        }
        let count = end - range.start;
        let path = self.path_to_rank(range.start);
        // SAFETY: invariants 1 and 7: the path is used at once, and `count` nodes follow it. The chain that
        // `unlink` returns is unreachable otherwise once it is removed from the index; if `removed` panics,
        // the rest of it leaks.
        unsafe {
            let first = self.unlink(path, count);
            let mut node = first;
            for _ in 0..count {
                self.index.remove(self.seed.hash(node::member(node)), |other| other.as_ptr() == node);
                self.nodes_bytes -= node::allocation_bytes(node);
                node = node::next(node, 0);
            }
            node = first;
            for _ in 0..count {
                let next = node::next(node, 0);
                removed(node::member(node), (*node).score);
                node::free(node);
                node = next;
            }
        }
        count
    }

    /// Visits a bucket of the index, whatever number is wanted.
    fn scan<'a>(&'a self, cursor: u64, _wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        // SAFETY: invariants 1 and 7: the index holds live nodes.
        self.index.scan(cursor, |node| unsafe { visit(node::member(node.as_ptr()), (*node.as_ptr()).score) })
    }

    fn probe(&self, member: &[u8]) -> ScoreProbe {
        let hash = self.seed.hash(member);
        prefetch(self.index.address(hash));
        ScoreProbe { hash, stage: 0, ..ScoreProbe::finished() }
    }

    fn probe_end(&self, end: End) -> ScoreProbe {
        prefetch(match end {
            End::Lowest => self.node_at(0),
            End::Highest => self.header.tail(),
        });
        ScoreProbe::finished()
    }

    fn probe_step(&self, probe: &mut ScoreProbe) -> bool {
        if probe.stage == 0 {
            self.index.candidates(probe.hash).for_each(|node| prefetch(node.as_ptr()));
        }
        probe.finish()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes_bytes + self.index.memory_bytes() + self.header.allocated_bytes()
    }

    fn check(&self) {
        self.check_order();
        for level in 0..self.header.height() {
            self.check_level(level);
        }
        let seed = self.seed;
        self.index.check(|node| hash_of(seed, node));
        assert_eq!(self.index.len(), self.len(), "invariant 7: the index has a different number of nodes");
    }
}

impl<H: HeaderPlace> SkipList<H> {
    /// Invariants 2 (heights), 3, 5, 7 and 8, along level 0.
    fn check_order(&self) {
        let (mut count, mut bytes, mut tallest) = (0, 0, 1);
        let mut previous: *const Node = ptr::null();
        // SAFETY: invariant 1: this verifies what it relies on; in a broken list any access is unsound.
        unsafe {
            let mut node: *const Node = node::next(self.header.top(), 0);
            while !node.is_null() {
                let (score, member) = ((*node).score, node::member(node));
                assert!(
                    !score.is_nan() && (score != 0.0 || score.is_sign_positive()),
                    "invariant 3: {score}"
                );
                assert!((1..=LEVELS_MAX).contains(&node::height(node)), "invariant 2: height");
                if !previous.is_null() {
                    assert_eq!(compare(previous, score, member), Ordering::Less, "invariant 3: order");
                }
                assert_eq!((*node).back.cast_const(), previous, "invariant 5: back");
                let found =
                    self.find(self.seed.hash(member), member).map(|found| found.as_ptr().cast_const());
                assert_eq!(found, Some(node), "invariant 7: a node that is missing from the index");
                tallest = tallest.max(node::height(node));
                bytes += node::allocation_bytes(node);
                count += 1;
                previous = node;
                node = node::next(node, 0);
            }
        }
        assert_eq!(self.header.tail(), previous, "invariant 5: tail");
        assert_eq!(self.header.height(), tallest, "invariant 6: height");
        assert_eq!(count, self.len(), "invariant 8: length");
        assert_eq!(bytes, self.nodes_bytes, "invariant 8: bytes");
    }

    /// Invariants 2 (links) and 4, on one level: follows it alongside level 0.
    fn check_level(&self, level: usize) {
        let (mut low, mut rank): (*const Node, u64) = (self.header.top(), 0);
        let (mut at, mut at_rank) = (low, 0);
        // SAFETY: invariant 1, as in `check_order`, which has run.
        unsafe {
            loop {
                low = node::next(low, 0);
                if low.is_null() {
                    break;
                }
                rank += 1;
                if node::height(low) > level {
                    assert_eq!(node::next(at, level).cast_const(), low, "invariant 2: a tower left out");
                    assert_eq!(node::span(at, level), rank - at_rank, "invariant 4: span");
                    (at, at_rank) = (low, rank);
                }
            }
            assert!(
                node::next(at, level).is_null(),
                "invariant 2: a node of level {level} is not on level 0"
            );
            assert_eq!(node::span(at, level), rank - at_rank, "invariant 4: span to the end");
        }
    }
}

impl<H: HeaderPlace> Drop for SkipList<H> {
    fn drop(&mut self) {
        // SAFETY: level 0 reaches every node once (invariant 1), each read before it is freed.
        unsafe {
            let mut node = node::next(self.header.top(), 0);
            while !node.is_null() {
                let next = node::next(node, 0);
                node::free(node);
                node = next;
            }
        }
    }
}

/// An iterator upwards.
pub struct Ascending<'a> {
    next: *const Node,
    left: usize,
    list: PhantomData<&'a Node>,
}

impl<'a> Iterator for Ascending<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let node = self.next;
        if node.is_null() {
            return None;
        }
        // SAFETY: the iterator borrows the list, so its nodes stay alive (invariant 1).
        unsafe {
            self.next = node::next(node, 0);
            Some((node::member(node), (*node).score))
        }
    }
}

/// An iterator downwards.
pub struct Descending<'a> {
    next: *const Node,
    left: usize,
    list: PhantomData<&'a Node>,
}

impl<'a> Iterator for Descending<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let node = self.next;
        if node.is_null() {
            return None;
        }
        // SAFETY: the iterator borrows the list, so its nodes stay alive (invariants 1 and 5).
        unsafe {
            self.next = (*node).back;
            Some((node::member(node), (*node).score))
        }
    }
}
