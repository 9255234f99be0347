//! The nodes of a list in their order, and what their buffers take together.
//!
//! Invariant: `buffer_bytes` is the sum over all nodes. Nodes are changed by [`Nodes::change`] alone, which looks at the
//! buffer's length before and after.

use super::node::Node;
use crate::size_class::usable_size;
use std::collections::VecDeque;
use std::ops::{Deref, Range};

#[derive(Clone, Default)]
pub(super) struct Nodes {
    ring: VecDeque<Node>,
    buffer_bytes: usize,
}

impl Deref for Nodes {
    type Target = VecDeque<Node>;

    #[inline]
    fn deref(&self) -> &VecDeque<Node> {
        &self.ring
    }
}

impl Nodes {
    /// Bytes held from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.buffer_bytes + usable_size(self.ring.capacity() * size_of::<Node>())
    }

    /// Of these the nodes' buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    #[inline]
    pub fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        let node = &mut self.ring[index];
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

    /// Puts a node before node `index`.
    pub fn insert(&mut self, index: usize, node: Node) {
        if self.ring.is_empty() {
            self.ring.reserve_exact(1);
        }
        self.buffer_bytes += node.memory_bytes();
        self.ring.insert(index, node);
    }

    /// Puts a node into the place of another.
    pub fn put(&mut self, index: usize, node: Node) {
        self.change(index, |place| *place = node);
    }

    /// Takes a node out of its place, which stays.
    pub fn take(&mut self, index: usize) -> Node {
        self.change(index, |node| std::mem::replace(node, Node::gone()))
    }

    pub fn remove(&mut self, index: usize) -> Option<Node> {
        let node = self.ring.remove(index)?;
        self.buffer_bytes -= node.memory_bytes();
        Some(node)
    }

    pub fn drain(&mut self, range: Range<usize>) {
        for node in self.ring.drain(range) {
            self.buffer_bytes -= node.memory_bytes();
        }
    }

    /// Gives back room for nodes that are no more.
    pub fn shrink_if_sparse(&mut self) {
        if self.ring.len() * 4 < self.ring.capacity() {
            self.ring.shrink_to(self.ring.len() * 2);
        }
    }

    /// Panics unless the documented invariant holds.
    pub fn check(&self) {
        assert_eq!(self.ring.iter().map(Node::memory_bytes).sum::<usize>(), self.buffer_bytes);
    }
}
