//! Lists: packed nodes in a row.

mod rdb;
mod value_type;

use super::collection::{Collection, EncodingLimits};
use super::object::StringValue;
use structures::hash::HashSeed;
use structures::packed_list::{Direction, NodeContents, PackedList};
use structures::unaligned_box::UnalignedBox;

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

#[derive(Clone)]
pub struct List {
    packed: UnalignedBox<PackedList>,
    /// More than a reference server keeps as one listpack. It becomes one again when little enough is left.
    outgrown: bool,
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List of {}", self.len())
    }
}

impl Collection for List {
    fn new(limits: &EncodingLimits, _seed: HashSeed) -> Self {
        let depth = limits.list_compress_depth;
        List { packed: UnalignedBox::new(PackedList::new(limits.list_listpack_size, depth)), outgrown: false }
    }
}

impl List {
    pub fn len(&self) -> usize {
        self.packed.len() as usize
    }

    pub fn node_count(&self) -> usize {
        self.packed.node_count()
    }

    /// What the nodes take in a file before they are compressed.
    pub fn node_bytes_in_files(&self) -> usize {
        let mut scratch = Vec::new();
        let bytes = |index| match self.packed.node_contents(index, &mut scratch) {
            NodeContents::Packed(bytes) | NodeContents::Plain(bytes) => bytes.len(),
        };
        (0..self.packed.node_count()).map(bytes).sum()
    }

    pub fn push(&mut self, end: End, element: &[u8]) {
        match end {
            End::Left => self.packed.push_front(element),
            End::Right => self.packed.push_back(element),
        }
    }

    /// Takes the element at an end.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        match end {
            End::Left => self.packed.pop_front(|element| element.to_vec()),
            End::Right => self.packed.pop_back(|element| element.to_vec()),
        }
    }

    /// Takes `count` elements at an end, handing each to `taken`.
    pub fn pop_many(&mut self, end: End, count: usize, taken: &mut dyn FnMut(StringValue<'_>)) {
        match end {
            End::Left => self.packed.pop_front_many(count as u64, |element| taken(element.into())),
            End::Right => self.packed.pop_back_many(count as u64, |element| taken(element.into())),
        };
    }

    /// The element at `index`, negative from the end, handed to `read`.
    pub fn get<R>(&self, index: i64, read: impl FnOnce(StringValue<'_>) -> R) -> Option<R> {
        self.packed.get(index, |element| read(element.into()))
    }

    /// Whether there is an element at `index`.
    pub fn set(&mut self, index: i64, element: &[u8]) -> bool {
        self.packed.set(index, element)
    }

    /// Whether the pivot was found.
    pub fn insert(&mut self, before: bool, pivot: &[u8], element: &[u8]) -> bool {
        if before {
            self.packed.insert_before(pivot, element)
        } else {
            self.packed.insert_after(pivot, element)
        }
    }

    /// Removes up to `count` elements equal to `value`, from an end; 0 means all.
    pub fn remove_equal(&mut self, value: &[u8], from: End, count: u64) -> u64 {
        let direction = if from == End::Left { Direction::Forward } else { Direction::Backward };
        self.packed.remove_matching(value, direction, if count == 0 { u64::MAX } else { count })
    }

    /// Keeps `start..=end`, as resolved by [`resolve_range`], or nothing.
    pub fn retain(&mut self, range: Option<(usize, usize)>) {
        match range {
            Some((start, end)) => self.packed.retain_range(start as u64, (end - start + 1) as u64),
            None => self.packed.retain_range(0, 0),
        }
    }

    pub fn for_each(&self, start: usize, count: usize, read: &mut dyn FnMut(StringValue<'_>)) {
        self.packed.for_each(start as u64, count as u64, Direction::Forward, |element| read(element.into()));
    }

    /// What a reply with these elements takes at least: no head of an element is longer than what a reply puts around it,
    /// less 4.
    pub fn reply_bytes_min(&self, start: usize, count: usize) -> usize {
        self.packed.whole_nodes_bytes(start as u64, count as u64) + 4 * count
    }

    /// Positions of elements equal to `value`: from the `rank`-th on (negative: from the end), at most `count`
    /// (0: all), looking at no more than `looked_max` elements (0: all).
    pub fn positions(&self, value: &[u8], rank: i64, count: u64, looked_max: u64) -> Vec<u64> {
        let all = |n: u64| if n == 0 { u64::MAX } else { n };
        self.packed.positions(value, rank, all(count), all(looked_max))
    }

    /// Elements are about to be added, `bytes` in all. The list's settings may have changed since it was written
    /// last.
    pub fn expect(&mut self, elements: usize, bytes: usize, limits: &EncodingLimits) {
        self.packed.set_fill(limits.list_listpack_size);
        if !self.outgrown {
            self.outgrown = !fits_listpack(self.len() + elements, self.listpack_bytes() + bytes, limits, 1);
        }
    }

    /// Elements have been removed: what is left may be little. Less than is allowed, so that a list at the limit
    /// does not change its encoding with every command.
    pub fn shrunk(&mut self, limits: &EncodingLimits) {
        // One large element stays in a node of its own.
        let is_large = limits.list_listpack_size >= 0 && self.packed.first_node_bytes() > LISTPACK_BYTES_MAX;
        if self.outgrown && self.packed.node_count() == 1 && !is_large {
            self.outgrown = !fits_listpack(self.len(), self.listpack_bytes(), limits, 2);
        }
    }

    /// All elements have been added to a new list.
    pub fn completed(&mut self, limits: &EncodingLimits) {
        self.outgrown =
            self.packed.node_count() > 1 || !fits_listpack(self.len(), self.listpack_bytes(), limits, 1);
    }

    /// What the first node would occupy as a listpack: its header and end, and after each element its length again.
    fn listpack_bytes(&self) -> usize {
        7 + self.packed.first_node_bytes() + self.len()
    }
}

/// Of a listpack that is limited by its elements.
const LISTPACK_BYTES_MAX: usize = 8192;

/// Whether as many elements with as many bytes are kept as one listpack, all limits divided by `divisor`.
fn fits_listpack(elements: usize, bytes: usize, limits: &EncodingLimits, divisor: usize) -> bool {
    match limits.list_listpack_size {
        size @ ..0 => bytes <= (4096 << (size.unsigned_abs() - 1).min(4)) / divisor,
        elements_max => {
            elements <= (elements_max as usize).max(1) / divisor
                && (divisor > 1 || bytes <= LISTPACK_BYTES_MAX)
        }
    }
}

/// Inclusive positions in a list of `len`, negative from the end, as they are; `None` if nothing lies between.
pub fn resolve_range(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = len as i64;
    let start = if start < 0 { start.saturating_add(len).max(0) } else { start };
    let end = if end < 0 { end.saturating_add(len) } else { end.min(len - 1) };
    (start <= end && start < len && end >= 0).then_some((start as usize, end as usize))
}
