//! The sequence of a list's nodes, and the total size of their buffers.
//!
//! ```text
//!  one:       the node itself, within the list
//!  two on:    Nodes ──> | VecDeque<Node>, buffer_bytes | ──> | node | node | ... | node |
//! ```
//!
//! Invariants:
//! 1. A ring has two nodes or more.
//! 2. `buffer_bytes` is the sum over the nodes of a ring. Nodes are changed by [`Nodes::change`] alone, which compares the
//!    buffer's length before and after.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#packed-lists).

use super::node::Node;
use crate::prefetch::prefetch;
use crate::size_class::usable_size;
use std::collections::VecDeque;
use std::ops::{Index, Range};
use std::slice;

#[derive(Clone, Default)]
pub(super) enum Nodes {
    #[default]
    None,
    One(Node),
    Ring(Box<Ring>),
}

// The other variants are encoded in a node's invalid values.
const _: () = assert!(size_of::<Nodes>() == size_of::<Node>());

#[derive(Clone)]
pub(super) struct Ring {
    nodes: VecDeque<Node>,
    buffer_bytes: usize,
}

impl Ring {
    fn of(first: Node, second: Node) -> Ring {
        let buffer_bytes = first.memory_bytes() + second.memory_bytes();
        Ring { nodes: VecDeque::from([first, second]), buffer_bytes }
    }

    #[inline]
    fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        let node = &mut self.nodes[index];
        let before = node.capacity();
        let result = change(node);
        let after = node.capacity();
        if before != after {
            self.recount(before, after);
        }
        result
    }

    #[cold]
    fn recount(&mut self, before: usize, after: usize) {
        self.buffer_bytes = self.buffer_bytes - usable_size(before) + usable_size(after);
    }

    fn remove(&mut self, index: usize) -> Option<Node> {
        let node = self.nodes.remove(index)?;
        self.buffer_bytes -= node.memory_bytes();
        Some(node)
    }
}

impl Index<usize> for Nodes {
    type Output = Node;

    #[inline]
    fn index(&self, index: usize) -> &Node {
        self.get(index).expect("a node of the list")
    }
}

impl Nodes {
    /// The number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Nodes::None => 0,
            Nodes::One(_) => 1,
            Nodes::Ring(ring) => ring.nodes.len(),
        }
    }

    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Node `index`, if it exists.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Node> {
        match self {
            Nodes::One(node) if index == 0 => Some(node),
            Nodes::Ring(ring) => ring.nodes.get(index),
            Nodes::None | Nodes::One(_) => None,
        }
    }

    /// The first node.
    #[inline]
    pub fn front(&self) -> Option<&Node> {
        self.get(0)
    }

    /// The last node.
    #[inline]
    pub fn back(&self) -> Option<&Node> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Iterates over all nodes.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Node> {
        let (front, back) = match self {
            Nodes::None => (&[][..], &[][..]),
            Nodes::One(node) => (slice::from_ref(node), &[][..]),
            Nodes::Ring(ring) => ring.nodes.as_slices(),
        };
        front.iter().chain(back)
    }

    /// The nodes at these indexes, all of which must exist.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &Node> {
        range.map(|index| &self[index])
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Nodes::None | Nodes::One(_) => self.buffer_bytes(),
            Nodes::Ring(ring) => {
                let table = usable_size(ring.nodes.capacity() * size_of::<Node>());
                ring.buffer_bytes + table + usable_size(size_of::<Ring>())
            }
        }
    }

    /// Bytes of the nodes' buffers.
    pub fn buffer_bytes(&self) -> usize {
        match self {
            Nodes::None => 0,
            Nodes::One(node) => node.memory_bytes(),
            Nodes::Ring(ring) => ring.buffer_bytes,
        }
    }

    /// Changes node `index`, which must exist.
    #[inline]
    pub fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        match self {
            Nodes::One(node) if index == 0 => change(node),
            Nodes::Ring(ring) => ring.change(index, change),
            Nodes::None | Nodes::One(_) => unreachable!("no node {index}"),
        }
    }

    /// Adds a node before node `index`.
    pub fn insert(&mut self, index: usize, node: Node) {
        assert!(index <= self.len(), "a place among the nodes");
        *self = match std::mem::take(self) {
            Nodes::None => Nodes::One(node),
            Nodes::One(first) if index > 0 => Nodes::Ring(Box::new(Ring::of(first, node))),
            Nodes::One(last) => Nodes::Ring(Box::new(Ring::of(node, last))),
            Nodes::Ring(mut ring) => {
                ring.buffer_bytes += node.memory_bytes();
                ring.nodes.insert(index, node);
                Nodes::Ring(ring)
            }
        };
    }

    /// Replaces a node.
    pub fn put(&mut self, index: usize, node: Node) {
        self.change(index, |place| *place = node);
    }

    /// Takes a node, leaving an empty one in its place.
    pub fn take(&mut self, index: usize) -> Node {
        self.change(index, |node| std::mem::replace(node, Node::gone()))
    }

    /// Removes a node, if it exists.
    pub fn remove(&mut self, index: usize) -> Option<Node> {
        let removed = match self {
            Nodes::Ring(ring) => ring.remove(index),
            Nodes::One(_) if index == 0 => match std::mem::take(self) {
                Nodes::One(node) => Some(node),
                Nodes::None | Nodes::Ring(_) => None,
            },
            Nodes::None | Nodes::One(_) => None,
        };
        self.leave_ring_of_one();
        removed
    }

    /// Removes the nodes in `range`.
    pub fn drain(&mut self, range: Range<usize>) {
        match self {
            Nodes::Ring(ring) => {
                let gone: usize = ring.nodes.drain(range).map(|node| node.memory_bytes()).sum();
                ring.buffer_bytes -= gone;
            }
            Nodes::One(_) if range.contains(&0) => *self = Nodes::None,
            Nodes::None | Nodes::One(_) => {}
        }
        self.leave_ring_of_one();
    }

    /// Replaces a ring that has fewer than two nodes.
    fn leave_ring_of_one(&mut self) {
        if let Nodes::Ring(ring) = self
            && ring.nodes.len() < 2
        {
            *self = ring.nodes.pop_front().map_or(Nodes::None, Nodes::One);
        }
    }

    /// Frees the capacity of removed nodes.
    pub fn shrink_if_sparse(&mut self) {
        if let Nodes::Ring(ring) = self
            && ring.nodes.len() * 4 < ring.nodes.capacity()
        {
            ring.nodes.shrink_to(ring.nodes.len() * 2);
        }
    }

    /// Prefetches what a push or pop at the front (or the back) reads next, as [`PackedList::prefetch_end`] does.
    ///
    /// [`PackedList::prefetch_end`]: super::PackedList::prefetch_end
    pub fn prefetch_end(&self, front: bool, step: u32) -> bool {
        let steps_before = match self {
            Nodes::None => return false,
            Nodes::One(_) => 0,
            Nodes::Ring(ring) if step == 0 => {
                prefetch(&raw const **ring);
                return true;
            }
            Nodes::Ring(_) => 2,
        };
        let end = if front { self.front() } else { self.back() };
        match end {
            Some(node) if step < steps_before => prefetch(node),
            Some(node) => node.prefetch_end(front),
            None => {}
        }
        step < steps_before
    }

    /// Panics unless the documented invariants hold.
    pub fn check(&self) {
        if let Nodes::Ring(ring) = self {
            assert!(ring.nodes.len() >= 2, "a ring of {}", ring.nodes.len());
            assert_eq!(ring.nodes.iter().map(Node::memory_bytes).sum::<usize>(), ring.buffer_bytes);
        }
    }
}
