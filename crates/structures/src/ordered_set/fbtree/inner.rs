//! An inner node: routes a key to one of up to 64 children without storing a separator.
//!
//! ```text
//! | count | prefix_len | prefix (40) | feature row 0 (64) | .. | row 3 (64) | children (64 x 4) | counts (64 x 4) |
//! ```
//!
//! The *anchor* of a child is the first key below it, which is stored in a leaf and only there. The node keeps the bytes
//! that all its anchors share (the prefix, as many as fit) and, byte by byte as columns, the `ROWS` bytes of each anchor
//! that follow it.
//!
//! Invariants:
//! 1. `1 <= count <= FANOUT` (the tree may set a lower limit); only the root has fewer than two children, and only
//!    temporarily.
//! 2. Every anchor starts with `prefix[..prefix_len]` (which may be shorter than the longest such prefix).
//! 3. `features[r][i]` is byte `prefix_len + r` of anchor `i`, or 0 beyond the anchor's end.
//!    Instead of anchor 0 of the nodes along the left edge, both may be of a key between it and anchor 1: a key below goes
//!    to the first child anyway. An insertion below all members then changes no node but one count in each.
//! 4. `counts[i]` is the number of members below child `i`, and is not 0.
//!
//! Measurements: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::key::Key;
use crate::byte_compare::{Narrowed, Row, Simd};
use std::cmp::Ordering;
use std::ops::Range;

/// Most children of a node: the bits of one mask.
pub(super) const FANOUT: usize = 64;
/// Bytes of each anchor kept as columns.
pub(super) const ROWS: usize = 4;
/// Bytes of the shared prefix that a node can hold; of a longer one it keeps the start.
pub(super) const PREFIX_MAX: usize = 40;

#[derive(Clone)]
pub(super) struct Inner {
    count: u8,
    prefix_len: u8,
    prefix: [u8; PREFIX_MAX],
    features: [Row; ROWS],
    children: [u32; FANOUT],
    counts: [u32; FANOUT],
}

/// The child that a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    Child(usize),
    /// The features are equal: the child is the last of these whose anchor is not above the key, or else the one before.
    Tied {
        from: usize,
        to: usize,
    },
}

impl Inner {
    /// A node without children.
    pub fn new() -> Box<Inner> {
        Box::new(Inner {
            count: 0,
            prefix_len: 0,
            prefix: [0; PREFIX_MAX],
            features: [[0; FANOUT]; ROWS],
            children: [0; FANOUT],
            counts: [0; FANOUT],
        })
    }

    /// The number of children.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The id of child `at`.
    pub fn child(&self, at: usize) -> u32 {
        self.children()[at]
    }

    /// The ids of all children.
    pub fn children(&self) -> &[u32] {
        &self.children[..self.count()]
    }

    /// The index of the child with this id, which must exist.
    #[inline]
    pub fn position(&self, child: u32) -> usize {
        self.children()
            .iter()
            .position(|&other| other == child)
            .expect("a leaf is a child of the node above it")
    }

    /// The number of members below each child.
    pub fn counts(&self) -> &[u32] {
        &self.counts[..self.count()]
    }

    /// The bytes that all anchors start with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix[..self.prefix_len as usize]
    }

    /// Members below all children.
    pub fn total(&self) -> u32 {
        self.counts().iter().sum()
    }

    /// Members below the children before `at`.
    #[inline]
    pub fn before(&self, at: usize) -> usize {
        self.counts[..at].iter().sum::<u32>() as usize
    }

    /// The child that holds `rank`, which must be below `total`, and the rank within it.
    pub fn child_at_rank(&self, rank: usize) -> (usize, usize) {
        let mut left = rank;
        for (at, &count) in self.counts().iter().enumerate() {
            if left < count as usize {
                return (at, left);
            }
            left -= count as usize;
        }
        panic!("rank {rank} is not below this node");
    }

    /// Adds to the count of child `at`.
    pub fn add(&mut self, at: usize, delta: i64) {
        self.counts[at] = u32::try_from(i64::from(self.counts[at]) + delta).expect("counts stay within u32");
    }

    /// Replaces the id of child `at`.
    pub fn rename_child(&mut self, at: usize, child: u32) {
        self.children[at] = child;
    }

    /// Sets the count of child `at`.
    pub fn set_count(&mut self, at: usize, count: u32) {
        self.counts[at] = count;
    }

    /// Routes `key`, whose first `skip` bytes are known to equal every anchor's.
    #[inline(always)]
    pub fn branch(&self, simd: Simd, key: &Key<'_>, skip: usize) -> Branch {
        match self.compare_prefix(key, skip) {
            Ordering::Less => return Branch::Child(0),
            Ordering::Greater => return Branch::Child(self.count() - 1),
            Ordering::Equal => {}
        }
        let live = u64::MAX >> (FANOUT - self.count());
        match simd.narrow(&self.features, key.feature(self.prefix_len as usize), live) {
            Narrowed::Between(below) => Branch::Child(below.saturating_sub(1)),
            Narrowed::Tied { from, to } => Branch::Tied { from, to },
        }
    }

    /// Compares `key` with the prefix, whose first `skip` bytes are known to be equal.
    #[inline]
    pub fn compare_prefix(&self, key: &Key<'_>, skip: usize) -> Ordering {
        key.compare_prefix(&self.prefix, usize::from(self.prefix_len), skip)
    }

    /// Inserts a child with this anchor at `at`.
    pub fn insert(&mut self, at: usize, child: u32, count: u32, anchor: &Key<'_>) {
        let len = self.count();
        assert!(len < FANOUT, "a full node is split first");
        self.children.copy_within(at..len, at + 1);
        self.counts.copy_within(at..len, at + 1);
        for row in &mut self.features {
            row.copy_within(at..len, at + 1);
        }
        self.children[at] = child;
        self.counts[at] = count;
        self.count += 1;
        if len == 0 {
            self.prefix_len = 0;
        }
        self.set_anchor(at, anchor);
    }

    /// Removes the children in `range`.
    pub fn remove(&mut self, range: Range<usize>) {
        let len = self.count();
        self.children.copy_within(range.end..len, range.start);
        self.counts.copy_within(range.end..len, range.start);
        for row in &mut self.features {
            row.copy_within(range.end..len, range.start);
        }
        self.count -= range.len() as u8;
    }

    /// Sets the anchor of child `at`, shortening the prefix if necessary.
    pub fn set_anchor(&mut self, at: usize, anchor: &Key<'_>) {
        let shared = anchor.shared_with(self.prefix());
        if shared < self.prefix_len as usize {
            self.shorten_prefix(shared);
        }
        let feature = anchor.feature(self.prefix_len as usize);
        for (row, byte) in self.features.iter_mut().zip(feature) {
            row[at] = byte;
        }
    }

    /// Keeps `len` bytes of the prefix. The new features are the dropped bytes of the prefix and the old features, so no
    /// anchor is fetched.
    fn shorten_prefix(&mut self, len: usize) {
        let dropped = &self.prefix[len..self.prefix_len as usize];
        let old = self.features;
        for (at, row) in self.features.iter_mut().enumerate() {
            *row = match dropped.get(at) {
                Some(&byte) => [byte; FANOUT],
                None => old[at - dropped.len()],
            };
        }
        self.prefix_len = len as u8;
    }

    /// Returns whether the prefix might be longer: the anchors share the byte that follows it.
    pub fn may_lengthen(&self) -> bool {
        let last = self.count() - 1;
        (self.prefix_len as usize) < PREFIX_MAX && self.features[0][0] == self.features[0][last]
    }

    /// Replaces the prefix; every anchor must then be set again.
    pub fn set_prefix(&mut self, of: &Key<'_>, len: usize) {
        self.prefix_len = len as u8;
        for at in 0..len {
            self.prefix[at] = of.byte(at);
        }
    }

    /// Moves the children from `at` on to a new node.
    pub fn split_off(&mut self, at: usize) -> Box<Inner> {
        let mut right = Box::new(self.clone());
        right.remove(0..at);
        self.count = at as u8;
        right
    }

    /// Verifies the invariants that concern the node alone.
    pub fn check(&self) {
        assert!((1..=FANOUT).contains(&self.count()), "node invariant 1: {} children", self.count);
        assert!(self.counts().iter().all(|&count| count > 0), "node invariant 4: an empty child");
    }

    /// Verifies invariants 2 and 3 for the first child of a node at the left edge.
    pub fn check_lowest_anchor(&self, anchor: &Key<'_>) {
        let known = |at: usize| [self.prefix(), &self.features.map(|row| row[at])].concat();
        let lowest: Vec<u8> = (0..known(0).len()).map(|at| anchor.byte(at)).collect();
        assert!(lowest <= known(0), "node invariant 3: the first anchor is above the node's features");
        assert!(
            self.count() == 1 || known(0) <= known(1),
            "node invariant 3: the first two anchors out of order"
        );
    }

    /// Verifies invariants 2 and 3 for one child.
    pub fn check_anchor(&self, at: usize, anchor: &Key<'_>) {
        let shared = anchor.shared_with(self.prefix());
        assert_eq!(shared, self.prefix_len as usize, "node invariant 2: an anchor without the prefix");
        let stored: [u8; ROWS] = std::array::from_fn(|row| self.features[row][at]);
        assert_eq!(stored, anchor.feature(shared), "node invariant 3: stale features of child {at}");
    }
}
