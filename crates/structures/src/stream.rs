//! A log of entries, each with an id and some fields, and the groups of consumers that read it.
//!
//! ```text
//!  Stream ──> radix tree: id of the first entry ──> listpack of entries     node.rs
//!         ──> groups by name ──> pending entries by id; consumers           group.rs
//!         ──> producers by name ──> messages that were added once           producers.rs
//! ```
//!
//! Ids ascend, so every entry is appended to the last node until that is full (`NodeLimits`), and trimming removes whole
//! nodes from the front. A deleted entry is only marked; its node is freed with its last live entry.
//!
//! Invariants:
//! 1. A node's key is the id of the first entry it was created with; its entries' ids ascend and are below the next
//!    node's key. It has at least one live entry.
//! 2. `state.len` is the number of live entries, `state.first_id` the id of the first (0-0 if none), and no
//!    entry has an id above `state.last_id`.
//! 3. `part_bytes` is the allocated size of the nodes' listpacks and of the groups, with their names.
//! 4. Those of the groups.

mod group;
mod hash_index;
mod node;
mod oldest;
mod producers;
mod references;
mod sorted_blocks;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::listpack::Listpack;
use crate::radix_tree::{Cursor, Key, RadixTree};
use group::NamedGroup;
pub use group::{Claimable, Consumer, ConsumerId, Group, GroupMut, Pending};
pub use node::{Entry, Fields, InvalidNode};
use node::{NodeEntries, NodeView, RawEntry};
pub use producers::{MessageLimits, PRODUCERS_MAX, Producers};
pub use references::{References, Trimmed, Unreferenced};
use sorted_blocks::SortedBlocks;

/// An entry's id: milliseconds and a sequence number within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since the epoch.
    pub ms: u64,
    /// Sequence number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id.
    pub const MIN: StreamId = StreamId::new(0, 0);
    /// The greatest id.
    pub const MAX: StreamId = StreamId::new(u64::MAX, u64::MAX);

    /// Creates an id.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The least id above this one.
    pub fn next(self) -> Option<StreamId> {
        self.number().checked_add(1).map(StreamId::from_number)
    }

    /// The greatest id below this one.
    pub fn previous(self) -> Option<StreamId> {
        self.number().checked_sub(1).map(StreamId::from_number)
    }

    fn number(self) -> u128 {
        (self.ms as u128) << 64 | self.seq as u128
    }

    fn from_number(number: u128) -> StreamId {
        StreamId::new((number >> 64) as u64, number as u64)
    }

    /// 16 bytes, big-endian, whose order is the order of ids: the form of RDB too.
    pub fn to_key(self) -> Key {
        self.number().to_be_bytes()
    }

    /// The id of a key.
    pub fn from_key(key: Key) -> StreamId {
        StreamId::from_number(u128::from_be_bytes(key))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The limits of a node: `stream-node-max-bytes` and `stream-node-max-entries`, 0 meaning no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Most bytes of a node.
    pub bytes: usize,
    /// Most entries of a node.
    pub entries: u64,
}

/// The reason why an entry was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The id is not above the last one.
    NotAboveLast,
    /// The fields and values together are larger than a node can be.
    TooLarge,
}

/// The direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ids ascend.
    Forward,
    /// Ids descend.
    Backward,
}

/// The limit to which a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// At most this number of entries stays.
    Length(u64),
    /// Entries with a lower id are removed.
    Id(StreamId),
}

/// The counters of a stream, used by XINFO, XSETID and the lag of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Live entries.
    pub len: u64,
    /// The greatest id ever added, or set.
    pub last_id: StreamId,
    /// The id of the first live entry, 0-0 if there is none.
    pub first_id: StreamId,
    /// The greatest id that was deleted one by one, 0-0 if none was.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
}

/// Maximum of counters from files and XSETID, the largest number that commands can express; counters stop there.
pub const COUNTER_MAX: u64 = i64::MAX as u64;

impl State {
    /// Returns whether a deletion at or after `start` is known.
    pub fn has_deleted_from(&self, start: StreamId) -> bool {
        self.len > 0 && self.max_deleted_id != StreamId::MIN && start <= self.max_deleted_id
    }

    /// The number of entries ever added up to `id`, if it is known.
    pub fn entries_added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.entries_added);
        }
        let whole = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        if !whole || id > self.first_id {
            return None;
        }
        let before_first = self.entries_added.saturating_sub(self.len);
        Some(before_first + (id == self.first_id) as u64)
    }
}

/// A stream. See the [module](self) for its structure.
#[derive(Default)]
pub struct Stream {
    nodes: RadixTree<Listpack>,
    /// Allocated size of the nodes' listpacks and the groups.
    part_bytes: usize,
    state: State,
    /// By ascending name. Few streams have more than a few groups, and each word here is one for every stream.
    groups: SortedBlocks<NamedGroup>,
    producers: Option<Box<Producers>>,
}

impl Clone for Stream {
    fn clone(&self) -> Stream {
        let nodes = self.nodes.clone();
        let (groups, producers) = (self.groups.clone(), self.producers.clone());
        let mut copy = Stream { nodes, part_bytes: 0, state: self.state, groups, producers };
        // A copy has no spare capacity.
        copy.part_bytes = copy.counted_part_bytes();
        copy
    }
}

impl Stream {
    /// Creates an empty stream.
    pub fn new() -> Self {
        Stream::default()
    }

    /// The number of live entries.
    pub fn len(&self) -> u64 {
        self.state.len
    }

    /// Returns whether there are no live entries.
    pub fn is_empty(&self) -> bool {
        self.state.len == 0
    }

    /// The counters.
    pub fn state(&self) -> State {
        self.state
    }

    /// The id that `*` generates at this time; none once ids are exhausted.
    pub fn next_id(&self, now_ms: u64) -> Option<StreamId> {
        let last = self.state.last_id;
        if now_ms > last.ms { Some(StreamId::new(now_ms, 0)) } else { last.next() }
    }

    /// The id that `ms-*` generates; none if it would not be above the last one.
    pub fn next_id_in(&self, ms: u64) -> Option<StreamId> {
        let last = self.state.last_id;
        match ms.cmp(&last.ms) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)),
            std::cmp::Ordering::Greater => Some(StreamId::new(ms, 0)),
        }
    }

    /// Appends an entry; `items` are field, value, field, value...
    pub fn append<T: AsRef<[u8]>>(
        &mut self,
        id: StreamId,
        items: &[T],
        limits: NodeLimits,
    ) -> Result<(), AppendError> {
        assert!(items.len().is_multiple_of(2), "every field has a value");
        if id <= self.state.last_id {
            return Err(AppendError::NotAboveLast);
        }
        let text_bytes: usize = items.iter().map(|item| item.as_ref().len()).sum();
        if !node::can_hold(text_bytes, items.len()) {
            return Err(AppendError::TooLarge);
        }
        match self.nodes.last_mut() {
            Some((key, listpack)) if node::has_room(listpack, text_bytes, items.len(), limits) => {
                self.part_bytes -= listpack.memory_bytes();
                node::append(listpack, StreamId::from_key(key), id, items);
                self.part_bytes += listpack.memory_bytes();
            }
            _ => self.insert_node(id, node::create(items)),
        }
        self.state.len += 1;
        self.state.entries_added = (self.state.entries_added + 1).min(COUNTER_MAX);
        self.state.last_id = id;
        if self.state.len == 1 {
            self.state.first_id = id;
        }
        Ok(())
    }

    /// Iterates over live entries with ids from `start` to `end`, both included.
    pub fn range(&self, start: StreamId, end: StreamId, direction: Direction) -> Entries<'_> {
        Entries::new(&self.nodes, start, end, direction)
    }

    /// The live entry with this id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id, Direction::Forward).next()
    }

    /// Finds entries by ascending ids: each node is read once.
    pub fn finder(&self) -> Finder<'_> {
        Finder::new(&self.nodes)
    }

    /// The first live entry.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX, Direction::Forward).next()
    }

    /// The last live entry.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX, Direction::Backward).next()
    }

    /// Deletes one entry; returns false if there is none with this id.
    pub fn delete(&mut self, id: StreamId) -> bool {
        if id < self.state.first_id || id > self.state.last_id {
            return false;
        }
        let Some((key, listpack)) = self.nodes.at_or_before(&id.to_key()).get() else { return false };
        let view = NodeView::new(StreamId::from_key(key), listpack);
        let mut entries = view.entries();
        entries.skip_below(id);
        let found = entries.next().filter(|raw| raw.entry.id == id && !raw.is_deleted());
        let Some(mark) = found.map(|raw| raw.mark()) else { return false };
        if view.live() <= 1 {
            self.remove_node(&key);
        } else {
            self.delete_in_node(&key, &[mark]);
        }
        self.state.len -= 1;
        self.state.max_deleted_id = self.state.max_deleted_id.max(id);
        if id == self.state.first_id || self.state.len == 0 {
            self.find_first_id();
        }
        true
    }

    fn insert_node(&mut self, base: StreamId, listpack: Listpack) {
        self.part_bytes += listpack.memory_bytes();
        self.nodes.insert(&base.to_key(), listpack);
    }

    fn remove_node(&mut self, key: &Key) {
        self.part_bytes -= self.nodes.remove(key).map_or(0, |listpack| listpack.memory_bytes());
    }

    fn remove_first_node(&mut self) {
        self.part_bytes -= self.nodes.pop_first().map_or(0, |listpack| listpack.memory_bytes());
    }

    fn delete_in_node(&mut self, key: &Key, marks: &[node::Mark]) {
        let Some(listpack) = self.nodes.get_mut(key) else { return };
        self.part_bytes -= listpack.memory_bytes();
        node::delete(listpack, marks);
        self.part_bytes += listpack.memory_bytes();
    }

    fn find_first_id(&mut self) {
        self.state.first_id = self.first().map_or(StreamId::MIN, |entry| entry.id);
    }

    /// Removes entries from the front and returns their number. An approximate trim only removes whole nodes. A `limit`
    /// above 0 stops before a node that would make the number of removed entries exceed it.
    pub fn trim(&mut self, to: TrimTo, approximate: bool, limit: u64) -> u64 {
        let mut removed = 0;
        while let Some((key, listpack)) = self.nodes.first().get() {
            let view = NodeView::new(StreamId::from_key(key), listpack);
            let live = view.live();
            let done = matches!(to, TrimTo::Length(length) if self.state.len <= length);
            if done || (limit > 0 && removed + live > limit) {
                break;
            }
            let whole = match to {
                TrimTo::Length(length) => self.state.len - live >= length,
                TrimTo::Id(id) => view.entries().next_back().is_none_or(|last| last.entry.id < id),
            };
            if whole {
                self.remove_first_node();
                self.state.len -= live;
                removed += live;
                continue;
            }
            if !approximate {
                let (marks, left) = self.marks_to_trim(&view, to);
                removed += marks.len() as u64;
                self.state.len -= marks.len() as u64;
                if let Some(first_id) = left {
                    if !marks.is_empty() {
                        self.delete_in_node(&key, &marks);
                    }
                    self.state.first_id = first_id;
                    return removed;
                }
                // All entries at or above the id are deleted.
                self.remove_first_node();
            }
            break;
        }
        if removed > 0 {
            self.find_first_id();
        }
        removed
    }

    /// The live entries of the first node that a trim deletes, and the id of the first one that stays.
    fn marks_to_trim(&self, view: &NodeView<'_>, to: TrimTo) -> (Vec<node::Mark>, Option<StreamId>) {
        let mut marks = Vec::new();
        for raw in view.entries().filter(|raw| !raw.is_deleted()) {
            let stays = match to {
                TrimTo::Length(length) => marks.len() as u64 >= self.state.len - length,
                TrimTo::Id(id) => raw.entry.id >= id,
            };
            if stays {
                return (marks, Some(raw.entry.id));
            }
            marks.push(raw.mark());
        }
        (marks, None)
    }

    /// Sets the counters, for XSETID and for loading a file. The caller has checked that `last_id` is not below the last
    /// entry's and `entries_added` not below the length.
    pub fn set_counters(
        &mut self,
        last_id: StreamId,
        entries_added: Option<u64>,
        max_deleted_id: Option<StreamId>,
    ) {
        if last_id < self.state.last_id {
            for (_, group) in self.groups.iter_mut() {
                GroupMut::new(group, &mut self.part_bytes).forget_oldest();
            }
            self.forget_deleted_above(last_id);
        }
        self.state.last_id = last_id;
        self.state.entries_added = entries_added.unwrap_or(self.state.entries_added).min(COUNTER_MAX);
        self.state.max_deleted_id = max_deleted_id.unwrap_or(self.state.max_deleted_id);
    }

    /// Removes the remains of entries above `id`, all of which are deleted: entries added next have lower ids.
    fn forget_deleted_above(&mut self, id: StreamId) {
        let Some((key, listpack)) = self.nodes.last_mut() else { return };
        self.part_bytes -= listpack.memory_bytes();
        node::forget_deleted_above(listpack, StreamId::from_key(key), id);
        self.part_bytes += listpack.memory_bytes();
    }

    /// The nodes in the form of RDB and DUMP: the id of the first entry, and a listpack.
    pub fn nodes(&self) -> impl Iterator<Item = (StreamId, &Listpack)> {
        self.nodes.iter().map(|(key, listpack)| (StreamId::from_key(key), listpack))
    }

    /// Appends a node from a file after validating it. Counts its entries; the other counters are set by
    /// [`Stream::set_counters`] afterwards.
    pub fn add_node(&mut self, base: StreamId, listpack: Listpack) -> Result<(), InvalidNode> {
        if self.nodes.last().get().is_some() && base <= self.state.last_id {
            return Err(InvalidNode);
        }
        let (live, last_id) = node::validate(base, &listpack)?;
        self.insert_node(base, listpack);
        self.state.len += live;
        self.state.entries_added += live;
        self.state.last_id = last_id;
        if self.state.len == live {
            self.find_first_id();
        }
        Ok(())
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The number of nodes of the index over the nodes, as XINFO counts them; see [`RadixTree::plain_node_count`].
    pub fn index_node_count(&self) -> usize {
        self.nodes.plain_node_count()
    }

    /// Allocated bytes, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        let names = self.groups.memory_bytes();
        self.nodes.memory_bytes() + self.part_bytes + names + self.producers_memory_bytes()
    }

    /// [`Stream::part_bytes`], recomputed.
    fn counted_part_bytes(&self) -> usize {
        let listpacks = self.nodes.values().map(Listpack::memory_bytes);
        listpacks.chain(self.groups.iter().map(group::memory_bytes_of)).sum()
    }

    /// Prefetches the memory that the next [`Stream::append`] writes to.
    pub fn prefetch_append(&self) {
        if let Some((_, listpack)) = self.nodes.last().get() {
            listpack.prefetch();
        }
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        self.nodes.check();
        let (mut live, mut last) = (0, None);
        for (base, listpack) in self.nodes() {
            listpack.check();
            assert!(last.is_none_or(|last| last < base));
            let (node_live, node_last) = node::validate(base, listpack).expect("the layout of a node");
            assert!(node_live > 0);
            live += node_live;
            last = Some(node_last);
        }
        assert_eq!(live, self.state.len);
        assert_eq!(self.counted_part_bytes(), self.part_bytes);
        assert!(last.is_none_or(|last| last <= self.state.last_id));
        assert_eq!(self.first().map_or(StreamId::MIN, |entry| entry.id), self.state.first_id);
        self.groups.iter().for_each(|(_, group)| {
            group.check();
            group.check_oldest(|id| self.get(id).is_some());
        });
        self.groups.check();
        assert!(self.groups.iter().is_sorted_by(|a, b| a.0 < b.0));
    }
}

/// See [`Stream::finder`].
pub struct Finder<'a> {
    nodes: &'a RadixTree<Listpack>,
    /// The rest of the node that was read last, behind the entry that was read from it last without being the one sought.
    node: Option<NodeEntries<'a>>,
    read: Option<RawEntry<'a>>,
    next_base: Option<StreamId>,
}

impl<'a> Finder<'a> {
    fn new(nodes: &'a RadixTree<Listpack>) -> Finder<'a> {
        Finder { nodes, node: None, read: None, next_base: None }
    }

    /// The entry, if it exists; `id` must be above all earlier ones.
    pub fn find(&mut self, id: StreamId) -> Option<Entry<'a>> {
        if self.node.is_none() || self.next_base.is_some_and(|next_base| id >= next_base) {
            let mut cursor = self.nodes.at_or_before(&id.to_key());
            let (key, listpack) = cursor.get()?;
            cursor.move_next();
            self.node = Some(NodeView::new(StreamId::from_key(key), listpack).entries());
            self.next_base = cursor.get().map(|(key, _)| StreamId::from_key(key));
            self.read = None;
        }
        let node = self.node.as_mut()?;
        if self.read.as_ref().is_none_or(|raw| raw.entry.id < id) {
            node.skip_below(id);
            self.read = node.next();
        }
        let raw = self.read.as_ref()?;
        (raw.entry.id == id && !raw.is_deleted()).then(|| raw.entry.clone())
    }
}

/// See [`Stream::range`].
pub struct Entries<'a> {
    cursor: Cursor<'a, Listpack>,
    node: Option<NodeEntries<'a>>,
    start: StreamId,
    end: StreamId,
    direction: Direction,
}

impl<'a> Entries<'a> {
    fn new(
        nodes: &'a RadixTree<Listpack>,
        start: StreamId,
        end: StreamId,
        direction: Direction,
    ) -> Entries<'a> {
        let from = if direction == Direction::Forward { start } else { end };
        let mut cursor = nodes.at_or_before(&from.to_key());
        if cursor.get().is_none() && direction == Direction::Forward {
            cursor = nodes.first();
        }
        Entries { cursor, node: None, start, end, direction }
    }

    fn next_node(&mut self) -> Option<()> {
        let (key, listpack) = self.cursor.get()?;
        let base = StreamId::from_key(key);
        let mut entries = NodeView::new(base, listpack).entries();
        if self.direction == Direction::Forward && base < self.start {
            entries.skip_below(self.start);
        }
        self.node = Some(entries);
        match self.direction {
            Direction::Forward => self.cursor.move_next(),
            Direction::Backward => self.cursor.move_back(),
        }
        Some(())
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let forward = self.direction == Direction::Forward;
            let raw =
                self.node.as_mut().and_then(|node| if forward { node.next() } else { node.next_back() });
            let Some(raw) = raw else {
                self.next_node()?;
                continue;
            };
            let id = raw.entry.id;
            let (early, late) =
                if forward { (id < self.start, id > self.end) } else { (id > self.end, id < self.start) };
            if late {
                return None;
            }
            if !early && !raw.is_deleted() {
                return Some(raw.entry);
            }
        }
    }
}
