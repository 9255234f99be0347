//! Iterating over a list from any index, in either direction.

use super::PackedList;
use super::node::{Node, RESTART_INTERVAL, Records, View};
use crate::listpack::Element;

/// The direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the head to the tail: indexes ascend.
    Forward,
    /// From the tail to the head: indexes descend.
    Backward,
}

/// An iterator over elements. Each is borrowed from the iterator, which may have expanded it.
pub struct Walk<'a> {
    list: &'a PackedList,
    direction: Direction,
    node: usize,
    /// Elements left in this node, including the next one.
    left: usize,
    /// The offset of the next element, when iterating forward.
    at: usize,
    /// Offsets of the records from a multiple of 32 on, when iterating backward.
    block: [u16; RESTART_INTERVAL],
    /// The expanded contents of this node, if it is compressed.
    scratch: Vec<u8>,
}

impl PackedList {
    /// Iterates from element `index` on; empty if there is no such element.
    pub fn walk(&self, index: u64, direction: Direction) -> Walk<'_> {
        let mut walk = Walk {
            list: self,
            direction,
            // No node: none follows in either direction.
            node: usize::MAX,
            left: 0,
            at: 0,
            block: [0; RESTART_INTERVAL],
            scratch: Vec::new(),
        };
        if index < self.len {
            let (node, within) = self.locate(index);
            walk.enter(node, within);
        }
        walk
    }

    /// Passes up to `count` elements from `start` on to `read`: faster than an iterator, since each node is
    /// entered once.
    pub fn for_each(&self, start: u64, count: u64, direction: Direction, mut read: impl FnMut(Element<'_>)) {
        if start >= self.len {
            return;
        }
        let (first, mut within) = self.locate(start);
        let (mut left, mut scratch) = (count, Vec::new());
        let (mut forward, mut backward);
        let nodes: &mut dyn Iterator<Item = &Node> = match direction {
            Direction::Forward => {
                forward = self.nodes.range(first..self.nodes.len());
                &mut forward
            }
            Direction::Backward => {
                backward = self.nodes.range(0..first + 1).rev();
                &mut backward
            }
        };
        for node in nodes {
            if left == 0 {
                return;
            }
            match (node.view(&mut scratch), direction) {
                (View::Plain(element), _) => {
                    read(Element::Bytes(element));
                    left -= 1;
                }
                (View::Records(records), Direction::Forward) => {
                    left -= read_forward(&records, within, left, &mut read);
                    within = 0;
                }
                (View::Records(records), Direction::Backward) => {
                    let last = within.min(records.count - 1);
                    left -= read_backward(&records, last, left, &mut read);
                }
            }
            if direction == Direction::Backward {
                within = usize::MAX;
            }
        }
    }

    /// Bytes of the nodes whose elements are all among the `count` from `start` on.
    pub fn whole_nodes_bytes(&self, start: u64, count: u64) -> usize {
        if start >= self.len {
            return 0;
        }
        let (first, within) = self.locate(start);
        let (mut left, mut bytes) = (count.saturating_add(within as u64), 0);
        for (at, node) in self.nodes.range(first..self.nodes.len()).enumerate() {
            let Some(rest) = left.checked_sub(node.count() as u64) else { break };
            if at > 0 || within == 0 {
                bytes += node.used();
            }
            left = rest;
        }
        bytes
    }
}

/// Reads up to `count` elements from record `from` on; returns their number.
pub(super) fn read_forward(
    records: &Records<'_>,
    from: usize,
    count: u64,
    read: &mut impl FnMut(Element<'_>),
) -> u64 {
    let taken = count.min((records.count - from) as u64);
    let mut at = records.seek(from);
    for _ in 0..taken {
        let (element, next) = records.step(at);
        at = next;
        read(element);
    }
    taken
}

/// Reads up to `count` elements from record `last` back; returns their number.
pub(super) fn read_backward(
    records: &Records<'_>,
    last: usize,
    count: u64,
    read: &mut impl FnMut(Element<'_>),
) -> u64 {
    let taken = count.min(last as u64 + 1);
    let end = last + 1 - taken as usize;
    let mut block = [0; RESTART_INTERVAL];
    let mut high = last + 1;
    while high > end {
        fill_block(records, high - 1, &mut block);
        let low = (high - 1) / RESTART_INTERVAL * RESTART_INTERVAL;
        for index in (low.max(end)..high).rev() {
            read(records.element(block[index - low] as usize));
        }
        high = low;
    }
    taken
}

fn records<'a>(node: &'a Node, scratch: &'a [u8]) -> Option<Records<'a>> {
    if node.is_plain() {
        return None;
    }
    Some(if node.is_compressed() { node.expanded_records(scratch) } else { node.records() })
}

impl Walk<'_> {
    /// Makes element `within` of `node` the next one.
    fn enter(&mut self, node: usize, within: usize) {
        self.node = node;
        let Some(entered) = self.list.nodes.get(node) else {
            self.left = 0;
            return;
        };
        let last = entered.count() - 1;
        let within = within.min(last);
        self.left = match self.direction {
            Direction::Forward => last - within + 1,
            Direction::Backward => within + 1,
        };
        if entered.is_compressed() {
            // Expands into the scratch buffer, from which `records` reads.
            let _ = entered.view(&mut self.scratch);
        }
        if let Some(records) = records(entered, &self.scratch) {
            match self.direction {
                Direction::Forward => self.at = records.seek(within),
                Direction::Backward => fill_block(&records, within, &mut self.block),
            }
        }
    }

    /// The next element.
    #[expect(clippy::should_implement_trait, reason = "elements borrow from the walk itself")]
    #[inline]
    pub fn next(&mut self) -> Option<Element<'_>> {
        if self.left == 0 && !self.next_node() {
            return None;
        }
        self.left -= 1;
        let node = &self.list.nodes[self.node];
        let Some(records) = records(node, &self.scratch) else {
            return match node.is_compressed() {
                true => Some(Element::Bytes(&self.scratch)),
                false => Some(Element::Bytes(node.plain_bytes())),
            };
        };
        if self.direction == Direction::Forward {
            let (element, next) = records.step(self.at);
            self.at = next;
            return Some(element);
        }
        let at = self.block[self.left % RESTART_INTERVAL] as usize;
        if self.left > 0 && self.left.is_multiple_of(RESTART_INTERVAL) {
            fill_block(&records, self.left - 1, &mut self.block);
        }
        Some(records.element(at))
    }

    #[cold]
    fn next_node(&mut self) -> bool {
        match self.direction {
            Direction::Forward => self.enter(self.node.saturating_add(1), 0),
            Direction::Backward => self.enter(self.node.wrapping_sub(1), usize::MAX),
        }
        self.left > 0
    }
}

/// Fills `block` with the offsets of the records from the last multiple of 32 up to `last`.
fn fill_block(records: &Records<'_>, last: usize, block: &mut [u16; RESTART_INTERVAL]) {
    let first = last - last % RESTART_INTERVAL;
    let mut at = records.seek(first);
    for start in &mut block[..=last - first] {
        *start = at as u16;
        at = records.after(at);
    }
}
