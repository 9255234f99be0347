//! A list of one node, in one allocation behind one pointer.
//!
//! ```text
//!  SingleList (one pointer) ──> | header | gap | record | ... | record | gap | restart point k | ... | restart point 0 |
//!                               └─────────────────────── a node that is headed: node.rs ─────────────────────────────┘
//! ```
//!
//! It is read in place. To be changed it becomes a node again, which only decodes its header; all changes but pushes and
//! pops of one element use a general list on the stack.
//!
//! Invariants:
//! 1. No pointer: the list is empty. Otherwise the node has room for its header, and at most 8 KB.
//! 2. The allocation is a size class and the node's whole buffer, whose length is in its header.
//!
//! A general list keeps its form while its buffer has no room for a header: from 256 bytes on the size class above costs
//! more than the header saves.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#packed-lists).

#[cfg(test)]
mod tests;

use super::node::{HEADER_BYTES, Limits, Node, Records, headed_bytes};
use super::nodes::Nodes;
use super::{PackedList, RecordsView, SmallList};
use crate::listpack::Element;
use crate::listpack::encoding::Encoded;
use crate::prefetch::prefetch;
use crate::thin_bytes::{Header, ThinBytes};

struct NodeHeader;

impl Header for NodeHeader {
    const LEN: usize = HEADER_BYTES;

    #[inline]
    fn used_bytes(first: &[u8; 8]) -> usize {
        headed_bytes(first)
    }
}

/// A list of one node, in one allocation behind one pointer.
#[derive(Clone, Default)]
pub struct SingleList {
    bytes: Option<ThinBytes<NodeHeader>>,
}

const _: () = assert!(size_of::<SingleList>() == 8);

impl SingleList {
    /// Takes the elements of a general list, leaving it empty. Returns `None`, with nothing done, if its nodes cannot take
    /// this form.
    pub fn of_packed(list: &mut PackedList) -> Option<SingleList> {
        if list.is_empty() {
            return Some(SingleList::default());
        }
        let Nodes::One(node) = &list.nodes else { return None };
        if !node.can_be_headed() {
            return None;
        }
        list.len = 0;
        match std::mem::take(&mut list.nodes) {
            Nodes::One(node) => Some(SingleList::of_node(node)),
            Nodes::None | Nodes::Ring(_) => None,
        }
    }

    /// Converts to a general list.
    pub fn into_packed(mut self, fill: i32, compress_depth: u32) -> PackedList {
        let (nodes, len) = match self.take() {
            Some(node) => {
                let len = node.count() as u64;
                (Nodes::One(node), len)
            }
            None => (Nodes::None, 0),
        };
        PackedList { nodes, len, limits: Limits::new(fill), compress_depth }
    }

    #[inline]
    fn of_node(node: Node) -> SingleList {
        SingleList { bytes: Some(ThinBytes::from_box(node.into_headed())) }
    }

    #[inline]
    fn take(&mut self) -> Option<Node> {
        Some(Node::from_headed(self.bytes.take()?.into_box()))
    }

    #[inline]
    fn records(&self) -> Records<'_> {
        match &self.bytes {
            Some(bytes) => Records::headed(bytes.as_slice()),
            None => Records::between(&[], 0, 0),
        }
    }

    /// The elements, for reading.
    #[inline]
    pub fn view(&self) -> RecordsView<'_> {
        RecordsView::new(self.records())
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.records().count
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_none()
    }

    /// Bytes of the records.
    pub fn used_bytes(&self) -> usize {
        self.view().used_bytes()
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, ThinBytes::capacity)
    }

    /// The elements as a small list, if they are at most a `divisor`-th of what that may hold. `fill` as in
    /// `list-max-listpack-size`.
    #[inline]
    pub fn small(&self, fill: i32, divisor: usize) -> Option<SmallList> {
        SmallList::of_few(&self.records(), Limits::new(fill), divisor)
    }

    /// Prefetches the first line.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(bytes) = &self.bytes {
            bytes.prefetch();
        }
    }

    /// Prefetches what a push or pop at the front (or the back) reads, once the first line has arrived.
    #[inline]
    pub fn prefetch_end(&self, front: bool) {
        if let Some(bytes) = &self.bytes {
            let (bytes, records) = (bytes.as_slice(), self.records());
            let at = if front { records.start } else { records.end };
            if let Some(byte) = bytes.get(at) {
                prefetch(byte);
            }
        }
    }

    /// Adds an element at an end; returns false, with nothing done, if the buffer has no room for it there.
    #[inline]
    pub fn push(&mut self, front: bool, element: &[u8], fill: i32) -> bool {
        let (element, limits) = (Encoded::new(element), Limits::new(fill));
        let Some(mut node) = self.take() else { return false };
        let pushed = node.has_room(front, element.size())
            && if front { node.push_front(&element, limits) } else { node.push_back(&element, limits) };
        *self = SingleList::of_node(node);
        pushed
    }

    /// Replaces the element at `index` (negative: from the end), if there is one: `Some(false)`, with nothing done, if the
    /// buffer may have no room.
    pub fn set(&mut self, index: i64, element: &[u8], fill: i32) -> Option<bool> {
        let index = self.view().absolute(index)?;
        let (element, limits) = (Encoded::new(element), Limits::new(fill));
        let mut node = self.take()?;
        let replaced = node.has_room(false, element.size()) && node.replace(index, &element, limits);
        *self = SingleList::of_node(node);
        Some(replaced)
    }

    /// Removes the first element or the last, passing it to `read`.
    #[inline]
    pub fn pop<R>(&mut self, front: bool, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let records = self.records();
        let last = records.count.checked_sub(1)?;
        let at = if front { records.start } else { records.seek(last) };
        let result = read(records.element(at));
        let mut node = self.take()?;
        if last > 0 {
            if front {
                node.drop_front()
            } else {
                node.drop_back(at)
            }
            *self = SingleList::of_node(node);
        }
        Some(result)
    }

    /// Keeps only `count` elements from `start` on.
    pub fn retain_range(&mut self, start: usize, count: usize) {
        let Some(mut node) = self.take() else { return };
        let end = start.saturating_add(count).min(node.count());
        if start >= end {
            return;
        }
        if end < node.count() {
            node.remove(end, node.count() - end);
        }
        if start > 0 {
            node.remove(0, start);
        }
        *self = SingleList::of_node(node);
    }

    /// Runs `work`, which removes elements and adds none: the rest still fits this form.
    pub fn remove<R>(&mut self, work: impl FnOnce(&mut PackedList) -> R) -> R {
        let mut packed = std::mem::take(self).into_packed(-1, 0);
        let result = work(&mut packed);
        *self = SingleList::of_packed(&mut packed).expect("removals keep the room for a header");
        result
    }

    /// Panics unless the invariants of this file and of the node hold.
    pub fn check(&self) {
        let packed = self.clone().into_packed(-5, 0);
        packed.check_with_any_limits();
        assert_eq!(self.is_empty(), self.view().is_empty());
        assert!(self.is_empty() || self.records().start >= HEADER_BYTES);
    }
}
