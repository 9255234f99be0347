//! A list of any length as a deque of packed nodes, with optionally compressed middle nodes: the reference's quicklist.
//! Unlike there, nodes lie in a ring, not in a linked list, and their records have no length behind them.
//!
//! ```text
//!  PackedList ──> | node | node | node | ... | node |       24 bytes each, in a ring where there are two or more
//!                    │      │      │            │
//!                 records  records large      records       some kilobytes each: node.rs
//!                 (head)   trimmed element    (tail)
//! ```
//!
//! Pushes write into the head's or the tail's buffer, which grows by size classes up to the limit of a node; then the node
//! is trimmed and another one begins. An element that exceeds this limit gets a node of its own. With `compress_depth` d >
//! 0 every node but the d outermost at either end is LZF-compressed.
//!
//! Invariants:
//! 1. `len` is the sum of the nodes' counts; no node is empty.
//! 2. Every node satisfies the invariants of `node.rs` and the limits in force when it was last written.
//! 3. With depth d > 0 the d outermost nodes at either end are not compressed; with 0 none is.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#packed-lists).

mod listpacks;
mod node;
mod nodes;
mod records_view;
mod search;
mod single;
mod small;
#[cfg(test)]
mod tests;
mod walk;

use crate::listpack::Element;
use crate::listpack::encoding::Encoded;
use crate::work;
pub use listpacks::NodeContents;
use node::{Limits, Node, View};
use nodes::Nodes;
pub use records_view::RecordsView;
pub use single::SingleList;
pub use small::SmallList;
pub use walk::{Direction, Walk};

/// Byte limit of nodes that are limited by a number of entries.
const ENTRY_LIMITED_BYTES: u16 = 8192;
const NODE_BYTES: [u16; 5] = [4096, 8192, 16384, 32768, 65535];
/// The largest number of entries that fits a reader's signed 16-bit count.
const ENTRIES_MAX: u16 = 32_767;

impl Limits {
    /// `fill` as in `list-max-listpack-size`: -1 to -5 for nodes of 4 to 64 KiB, else entries per node.
    fn new(fill: i32) -> Limits {
        if fill < 0 {
            let class = fill.unsigned_abs() as usize;
            return Limits { bytes: NODE_BYTES[class.min(NODE_BYTES.len()) - 1], entries: ENTRIES_MAX };
        }
        Limits { bytes: ENTRY_LIMITED_BYTES, entries: fill.clamp(1, ENTRIES_MAX.into()) as u16 }
    }

    /// Returns whether an element of this encoded size needs a node of its own: none could hold it with its restart point.
    fn exceeded_by(self, element: &Encoded<'_>) -> bool {
        element.size() + 2 > self.bytes.into()
    }
}

/// A list of byte strings. See the [module](self) for the layout.
#[derive(Clone)]
pub struct PackedList {
    nodes: Nodes,
    len: u64,
    limits: Limits,
    compress_depth: u32,
}

const _: () = assert!(size_of::<PackedList>() == 40);

impl PackedList {
    /// `fill` as in `list-max-listpack-size`, `compress_depth` as in `list-compress-depth`.
    pub fn new(fill: i32, compress_depth: u32) -> Self {
        PackedList { nodes: Nodes::default(), len: 0, limits: Limits::new(fill), compress_depth }
    }

    /// Converts a list that outgrows the small form.
    pub fn of_small(list: &SmallList, fill: i32, compress_depth: u32) -> Self {
        let mut packed = PackedList::new(fill, compress_depth);
        let records = list.records();
        if records.count > 0 {
            packed.len = records.count as u64;
            packed.nodes.insert(0, Node::from_records(records.bytes(), records.count, 0));
        }
        packed
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The numbers of nodes that hold one large element, and of compressed nodes, for OBJECT LAYOUT.
    pub fn plain_and_compressed_nodes(&self) -> (usize, usize) {
        let plain = self.nodes.iter().filter(|node| node.is_plain()).count();
        (plain, self.nodes.iter().filter(|node| node.is_compressed()).count())
    }

    /// Bytes of the nodes' buffers used by elements, for OBJECT LAYOUT.
    pub fn used_bytes(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| if node.is_compressed() { node.memory_bytes() } else { node.used() })
            .sum()
    }

    /// Bytes of the nodes' buffers, for OBJECT LAYOUT.
    pub fn node_bytes(&self) -> usize {
        self.nodes.buffer_bytes()
    }

    /// Bytes of the records, compressed or not, and of large elements as stored. Reads all nodes.
    pub fn records_bytes(&self) -> usize {
        self.nodes.iter().map(Node::used).sum()
    }

    /// Allocated bytes, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }

    /// Sets the limits of nodes that are written from now on.
    pub fn set_fill(&mut self, fill: i32) {
        self.limits = Limits::new(fill);
    }

    /// Appends an element.
    pub fn push_back(&mut self, element: &[u8]) {
        self.push_encoded_back(Encoded::new(element));
    }

    /// Prepends an element.
    pub fn push_front(&mut self, element: &[u8]) {
        let element = Encoded::new(element);
        let limits = self.limits;
        if !self.nodes.is_empty()
            && self.nodes.change(0, |head| head.is_records() && head.push_front(&element, limits))
        {
            self.len += 1;
            return;
        }
        self.begin_node(0, element);
    }

    #[inline]
    fn push_encoded_back(&mut self, element: Encoded<'_>) {
        let limits = self.limits;
        if let Some(tail) = self.nodes.len().checked_sub(1)
            && self.nodes.change(tail, |tail| tail.is_records() && tail.push_back(&element, limits))
        {
            self.len += 1;
            return;
        }
        self.begin_node(self.nodes.len(), element);
    }

    /// Adds a new node of one element before node `index`.
    #[cold]
    fn begin_node(&mut self, index: usize, element: Encoded<'_>) {
        let node = if self.limits.exceeded_by(&element) {
            Node::plain(element.body())
        } else {
            Node::new(&element, self.limits)
        };
        self.len += 1;
        self.add_node(index, node);
    }

    /// Adds a node before node `index`; its neighbours, which are full, are trimmed.
    fn add_node(&mut self, index: usize, node: Node) {
        for neighbour in [index.wrapping_sub(1), index] {
            if neighbour < self.nodes.len() {
                self.nodes.change(neighbour, Node::trim);
            }
        }
        self.nodes.insert(index, node);
        // A new end moves one node inside; only that one may have to be compressed.
        let last = self.nodes.len() - 1;
        if index == last {
            self.settle_node(last.saturating_sub(self.depth()));
        } else if index == 0 {
            self.settle_node(self.depth().min(last));
        } else {
            self.settle_around(index);
        }
    }

    /// Prefetches what a push or pop at the front (or the back) reads next, one fetch a step: called with step 0, 1, ...
    /// while the fetches of the previous step are under way; returns false when no step is left.
    pub fn prefetch_end(&self, front: bool, step: u32) -> bool {
        self.nodes.prefetch_end(front, step)
    }

    /// Removes the first element, passing it to `read`.
    pub fn pop_front<R>(&mut self, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        self.expand_ends();
        let head = self.nodes.front()?;
        let result = match head.view(&mut Vec::new()) {
            View::Plain(element) => read(Element::Bytes(element)),
            View::Records(records) => read(records.element(records.start)),
        };
        self.len -= 1;
        if head.count() > 1 {
            self.nodes.change(0, Node::drop_front);
        } else {
            self.nodes.remove(0);
            self.after_node_removal();
        }
        Some(result)
    }

    /// Removes the last element, passing it to `read`.
    pub fn pop_back<R>(&mut self, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        self.expand_ends();
        let tail = self.nodes.back()?;
        let (result, at) = match tail.view(&mut Vec::new()) {
            View::Plain(element) => (read(Element::Bytes(element)), 0),
            View::Records(records) => {
                let at = records.seek(records.count - 1);
                (read(records.element(at)), at)
            }
        };
        self.len -= 1;
        let last = self.nodes.len() - 1;
        if tail.count() > 1 {
            self.nodes.change(last, |tail| tail.drop_back(at));
        } else {
            self.nodes.remove(last);
            self.after_node_removal();
        }
        Some(result)
    }

    /// Passes the element at `index` to `read`; negative indexes count from the end, -1 being the last.
    pub fn get<R>(&self, index: i64, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let (node, within) = self.locate(self.absolute(index)?);
        Some(match self.nodes[node].view(&mut Vec::new()) {
            View::Plain(element) => read(Element::Bytes(element)),
            View::Records(records) => read(records.element(records.seek(within))),
        })
    }

    /// Replaces the element at `index` (negative: from the end); returns false if there is none.
    pub fn set(&mut self, index: i64, element: &[u8]) -> bool {
        let Some(index) = self.absolute(index) else { return false };
        let (node, within) = self.locate(index);
        let element = Encoded::new(element);
        self.nodes.change(node, Node::expand);
        let (limits, was_plain) = (self.limits, self.nodes[node].is_plain());
        let large = limits.exceeded_by(&element);
        if large && was_plain {
            self.nodes.put(node, Node::plain(element.body()));
        } else if large
            || was_plain
            || !self.nodes.change(node, |node| node.replace(within, &element, limits))
        {
            if large || was_plain || !self.replace_in_half(node, within, &element) {
                self.remove_range(index, 1);
                self.insert_encoded(index, element);
            }
            return true;
        }
        self.tidy(node);
        true
    }

    /// Replaces an element in a node of records without room for the new one, by halving the node; returns false if a half
    /// has no room either. Removing and inserting the element instead, each of which searches its node, made LSET of a
    /// longer one into a million take 1.85 of the reference's time.
    fn replace_in_half(&mut self, node: usize, within: usize, element: &Encoded<'_>) -> bool {
        let (count, limits) = (self.nodes[node].count(), self.limits);
        if count == 1 {
            return false;
        }
        let cut = count.div_ceil(2);
        self.split(node, cut);
        let (half, within) = if within < cut { (node, within) } else { (node + 1, within - cut) };
        let is_replaced = self.nodes.change(half, |half| half.replace(within, element, limits));
        self.tidy(half);
        is_replaced
    }

    /// Splits a node: the records from `cut` on move to a node of their own.
    fn split(&mut self, node: usize, cut: usize) {
        let tail = self.nodes.change(node, |node| node.split_off(cut));
        self.nodes.insert(node + 1, tail);
    }

    /// Inserts before the element at `index`, which may be one past the last. Returns false if it is larger.
    pub fn insert(&mut self, index: u64, element: &[u8]) -> bool {
        if index > self.len {
            return false;
        }
        self.insert_encoded(index, Encoded::new(element));
        true
    }

    fn insert_encoded(&mut self, index: u64, element: Encoded<'_>) {
        if index == self.len {
            return self.push_encoded_back(element);
        }
        let (mut node, mut within) = self.locate(index);
        let large = self.limits.exceeded_by(&element);
        if within == 0 {
            // Between two nodes: the end of the previous one is equivalent, unless it is closed.
            if !large && node > 0 && self.nodes[node - 1].is_records() {
                (node, within) = (node - 1, self.nodes[node - 1].count());
            } else if large || self.nodes[node].is_plain() {
                return self.begin_node(node, element);
            }
        }
        self.nodes.change(node, Node::expand);
        let limits = self.limits;
        if !large && self.nodes.change(node, |node| node.insert(within, &element, limits)) {
            self.len += 1;
            return self.tidy(node);
        }
        let count = self.nodes[node].count();
        if within == 0 || within == count {
            return self.begin_node(node + (within > 0) as usize, element);
        }
        let cut = if large { within } else { count.div_ceil(2) };
        self.split(node, cut);
        if large {
            self.begin_node(node + 1, element);
            return self.tidy(node);
        }
        self.settle_around(node);
        self.insert_encoded(index, element);
    }

    /// Removes the first `count` elements, or all if there are fewer, passing each to `read`; returns their number.
    pub fn pop_front_many(&mut self, count: u64, read: impl FnMut(Element<'_>)) -> u64 {
        self.for_each(0, count, Direction::Forward, read);
        self.remove_range(0, count)
    }

    /// Removes the last `count` elements, or all if there are fewer, passing each to `read`, the last first.
    pub fn pop_back_many(&mut self, count: u64, read: impl FnMut(Element<'_>)) -> u64 {
        let Some(last) = self.len.checked_sub(1) else { return 0 };
        self.for_each(last, count, Direction::Backward, read);
        self.remove_range(self.len - count.min(self.len), count)
    }

    /// Removes up to `count` elements from `start` on; returns their number.
    pub fn remove_range(&mut self, start: u64, count: u64) -> u64 {
        let end = start.saturating_add(count).min(self.len);
        if start >= end {
            return 0;
        }
        let (mut node, within) = self.locate(start);
        let first = node;
        let mut rest = end - start;
        if within > 0 {
            let taken = rest.min((self.nodes[node].count() - within) as u64);
            self.nodes.change(node, |node| {
                node.expand();
                node.remove(within, taken as usize);
            });
            rest -= taken;
            node += 1;
        }
        let whole = node;
        while rest > 0 && self.nodes[node].count() as u64 <= rest {
            rest -= self.nodes[node].count() as u64;
            node += 1;
        }
        self.nodes.drain(whole..node);
        if rest > 0 {
            self.nodes.change(whole, |node| {
                node.expand();
                node.remove(0, rest as usize);
            });
        }
        self.len -= end - start;
        self.after_node_removal();
        if first < self.nodes.len() {
            self.tidy(first);
        }
        if first + 1 < self.nodes.len() {
            self.tidy(first + 1);
        }
        end - start
    }

    /// Keeps only `count` elements from `start` on.
    pub fn retain_range(&mut self, start: u64, count: u64) {
        let end = start.saturating_add(count).min(self.len);
        if start >= end {
            self.remove_range(0, self.len);
            return;
        }
        self.remove_range(end, self.len - end);
        self.remove_range(0, start);
    }

    fn depth(&self) -> usize {
        self.compress_depth as usize
    }

    fn absolute(&self, index: i64) -> Option<u64> {
        let index = if index < 0 { self.len.checked_sub(index.unsigned_abs())? } else { index as u64 };
        (index < self.len).then_some(index)
    }

    /// The node that holds element `index`, and the element's index within it.
    fn locate(&self, index: u64) -> (usize, usize) {
        debug_assert!(index < self.len);
        if index < self.len / 2 {
            let mut rest = index;
            for (at, node) in self.nodes.iter().enumerate() {
                work::visited(1);
                if rest < node.count() as u64 {
                    return (at, rest as usize);
                }
                rest -= node.count() as u64;
            }
        } else {
            let (mut rest, mut at) = (self.len - index, self.nodes.len());
            for node in self.nodes.iter().rev() {
                work::visited(1);
                at -= 1;
                if rest <= node.count() as u64 {
                    return (at, node.count() - rest as usize);
                }
                rest -= node.count() as u64;
            }
        }
        unreachable!("the counts of the nodes add up to the length")
    }

    /// Called after node `index` was changed in place: merges it with a neighbour if both are small, frees slack and
    /// compresses again.
    fn tidy(&mut self, index: usize) {
        let mut index = index;
        if index > 0 && self.join_with_next(index - 1) {
            index -= 1;
        }
        self.join_with_next(index);
        if index > 0 && index + 1 < self.nodes.len() {
            self.nodes.change(index, Node::trim);
        }
        self.settle_around(index);
    }

    fn join_with_next(&mut self, index: usize) -> bool {
        let (Some(node), Some(next)) = (self.nodes.get(index), self.nodes.get(index + 1)) else {
            return false;
        };
        let joined = node.share().zip(next.share()).and_then(|(a, b)| a.with(b, self.limits));
        let Some(mut taken) = joined.and_then(|_| self.nodes.remove(index + 1)) else { return false };
        taken.expand();
        self.nodes.change(index, |kept| {
            kept.expand();
            *kept = Node::joined([&*kept, &taken].into_iter());
        });
        true
    }

    fn after_node_removal(&mut self) {
        self.nodes.shrink_if_sparse();
        self.settle_around(0);
    }

    fn expand_ends(&mut self) {
        if self.compress_depth == 0 {
            return;
        }
        for node in [self.nodes.len().wrapping_sub(1), 0] {
            if node < self.nodes.len() {
                self.nodes.change(node, Node::expand);
            }
        }
    }

    /// Compresses or expands the nodes whose distance from the ends may have changed, and those around `index`.
    fn settle_around(&mut self, index: usize) {
        if self.compress_depth == 0 {
            return;
        }
        let nodes = self.nodes.len();
        let edge = (self.depth() + 2).min(nodes);
        for node in
            (0..edge).chain(nodes - edge..nodes).chain(index.saturating_sub(1)..(index + 3).min(nodes))
        {
            self.settle_node(node);
        }
    }

    fn settle_node(&mut self, index: usize) {
        let depth = self.depth();
        if depth > 0 && index >= depth && index + depth < self.nodes.len() {
            self.nodes.change(index, Node::compress);
        } else {
            self.nodes.change(index, Node::expand);
        }
    }

    /// Panics unless every invariant of this file and of its nodes holds, provided that the limits were never lowered.
    pub fn check(&self) {
        self.check_nodes(self.limits);
    }

    /// As [`PackedList::check`], for a list whose limits may have been lowered: nodes written before may exceed them.
    pub fn check_with_any_limits(&self) {
        self.check_nodes(Limits { bytes: u16::MAX, entries: u16::MAX });
    }

    fn check_nodes(&self, limits: Limits) {
        let count: u64 = self.nodes.iter().map(|node| node.count() as u64).sum();
        assert_eq!(count, self.len);
        self.nodes.check();
        for (index, node) in self.nodes.iter().enumerate() {
            node.check(limits);
            let inside = index >= self.depth() && index + self.depth() < self.nodes.len();
            assert!(!node.is_compressed() || (self.compress_depth > 0 && inside));
        }
    }
}
