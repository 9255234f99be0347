//! The layout of entries in a node's listpack, element by element; the same in RDB and DUMP.
//!
//! ```text
//!  live | deleted | n | field 1 | ... | field n | 0 |            the fields of the entry that began the node
//!  flags | ms | seq | value 1 | ... | value n | size |           an entry with the same fields (flag 2)
//!  flags | ms | seq | m | field 1 | value 1 | ... | size |       an entry with others
//! ```
//!
//! `ms` and `seq` are differences from the node's key, modulo 2^64. `size` is the number of elements of the entry
//! before it, so that entries can be read backwards. Flag 1 marks a deleted entry.

use std::fmt;

use super::{NodeLimits, StreamId};
use crate::listpack::{Element, Iter, Listpack, Position, Rest, TOTAL_BYTES_MAX};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// The listpack does not have the layout of a stream's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNode;

impl fmt::Display for InvalidNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node of a stream is malformed")
    }
}

impl std::error::Error for InvalidNode {}

/// An entry, borrowed from its node.
#[derive(Clone)]
pub struct Entry<'a> {
    /// The entry's id.
    pub id: StreamId,
    fields: Fields<'a>,
}

impl<'a> Entry<'a> {
    /// Fields and their values, in the order in which they were added.
    pub fn fields(&self) -> Fields<'a> {
        self.fields.clone()
    }
}

/// See [`Entry::fields`].
#[derive(Clone)]
pub struct Fields<'a> {
    left: usize,
    /// The node's fields, if the entry has the same.
    names: Option<Iter<'a>>,
    items: Iter<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.next()?,
            None => self.items.next()?,
        };
        Some((name, self.items.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// An entry with the data needed to delete it.
pub(super) struct RawEntry<'a> {
    /// The entry.
    pub entry: Entry<'a>,
    flags: i64,
    flags_at: Position,
}

impl RawEntry<'_> {
    /// Returns whether the entry is deleted.
    pub fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    /// The mark for deleting the entry.
    pub fn mark(&self) -> Mark {
        Mark { flags: self.flags, flags_at: self.flags_at }
    }
}

/// Identifies an entry to delete.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    flags: i64,
    flags_at: Position,
}

/// A parsed node; the listpack must have the layout of one.
pub(super) struct NodeView<'a> {
    base: StreamId,
    live: i64,
    deleted: i64,
    names: Iter<'a>,
    name_count: usize,
    entries: Iter<'a>,
}

#[inline]
fn integer(elements: &mut Iter<'_>) -> Option<i64> {
    elements.next_integer()
}

impl<'a> NodeView<'a> {
    /// Parses a node.
    pub fn new(base: StreamId, listpack: &'a Listpack) -> NodeView<'a> {
        NodeView::parse(base, listpack).expect("nodes are validated before they are added")
    }

    fn parse(base: StreamId, listpack: &'a Listpack) -> Option<NodeView<'a>> {
        let mut elements = listpack.iter();
        let (live, deleted) = (integer(&mut elements)?, integer(&mut elements)?);
        let name_count = usize::try_from(integer(&mut elements)?).ok()?;
        let names = elements.split_front(name_count)?;
        (integer(&mut elements)? == 0).then_some(())?;
        Some(NodeView { base, live, deleted, names, name_count, entries: elements })
    }

    /// The number of live entries.
    pub fn live(&self) -> u64 {
        self.live as u64
    }

    /// Iterates over all entries, including deleted ones.
    pub fn entries(&self) -> NodeEntries<'a> {
        NodeEntries {
            base: self.base,
            names: self.names.clone(),
            name_count: self.name_count,
            rest: self.entries.clone(),
        }
    }
}

/// An iterator over the entries of a node, from both ends.
pub(super) struct NodeEntries<'a> {
    base: StreamId,
    names: Iter<'a>,
    name_count: usize,
    rest: Iter<'a>,
}

impl<'a> NodeEntries<'a> {
    /// Reads one entry and the size after it from the front of `elements`.
    fn read(&self, elements: &mut Iter<'a>) -> Option<RawEntry<'a>> {
        let flags_at = elements.next_position()?;
        let flags = integer(elements)?;
        let (ms, seq) = (integer(elements)? as u64, integer(elements)? as u64);
        let id = StreamId::new(self.base.ms.wrapping_add(ms), self.base.seq.wrapping_add(seq));
        let same = flags & SAME_FIELDS != 0;
        let left = if same { self.name_count } else { usize::try_from(integer(elements)?).ok()? };
        let items = elements.split_front(if same { left } else { left.checked_mul(2)? })?;
        let elements_before =
            if same { left.checked_add(3)? } else { left.checked_mul(2)?.checked_add(4)? };
        (integer(elements)? == elements_before as i64).then_some(())?;
        let names = same.then(|| self.names.clone());
        Some(RawEntry { entry: Entry { id, fields: Fields { left, names, items } }, flags, flags_at })
    }
}

impl NodeEntries<'_> {
    /// Skips the entries with ids below `id`, reading no more of them than necessary.
    pub fn skip_below(&mut self, id: StreamId) {
        let mut rest = self.rest.rest();
        let mut passed = rest;
        while self.read_id(&mut rest).is_some_and(|(found, _)| found < id) {
            passed = rest;
        }
        self.rest.go_to(&passed);
    }

    /// As [`Iterator::next`], for the id only, and whether the entry is deleted.
    fn next_id(&mut self) -> Option<(StreamId, bool)> {
        let mut rest = self.rest.rest();
        let read = self.read_id(&mut rest);
        self.rest.go_to(&rest);
        read
    }

    /// Reads the id of one entry, and whether it is deleted, and skips the entry and the size after it.
    #[inline(always)]
    fn read_id(&self, rest: &mut Rest<'_>) -> Option<(StreamId, bool)> {
        crate::work::visited(1);
        let flags = rest.next_integer()?;
        let (ms, seq) = (rest.next_integer()? as u64, rest.next_integer()? as u64);
        let id = StreamId::new(self.base.ms.wrapping_add(ms), self.base.seq.wrapping_add(seq));
        let (items, others) = if flags & SAME_FIELDS != 0 {
            (self.name_count, 3)
        } else {
            (usize::try_from(rest.next_integer()?).ok()?.checked_mul(2)?, 4)
        };
        rest.pass_over(items)?;
        let size = items.checked_add(others)?;
        (rest.next_integer()? == size as i64).then_some((id, flags & DELETED != 0))
    }
}

impl<'a> Iterator for NodeEntries<'a> {
    type Item = RawEntry<'a>;

    fn next(&mut self) -> Option<RawEntry<'a>> {
        crate::work::visited(1);
        let mut rest = self.rest.clone();
        let raw = self.read(&mut rest)?;
        self.rest = rest;
        Some(raw)
    }
}

impl<'a> DoubleEndedIterator for NodeEntries<'a> {
    fn next_back(&mut self) -> Option<RawEntry<'a>> {
        crate::work::visited(1);
        let size = self.rest.clone().next_back()?.as_integer()?;
        let mut entry = self.rest.split_back(usize::try_from(size).ok()?.checked_add(1)?)?;
        self.read(&mut entry)
    }
}

/// Returns whether a node of its own can hold an entry with this amount of text; see also [`has_room`].
pub(super) fn can_hold(text_bytes: usize, items: usize) -> bool {
    // Twice the fields at worst: once for the node and once for the entry; 16 elements around them.
    let overhead = items.saturating_mul(2).saturating_add(16).saturating_mul(14);
    text_bytes.saturating_mul(2).saturating_add(overhead) <= TOTAL_BYTES_MAX
}

/// Returns whether an entry fits an existing node.
pub(super) fn has_room(listpack: &Listpack, text_bytes: usize, items: usize, limits: NodeLimits) -> bool {
    let bytes_max = if limits.bytes == 0 { TOTAL_BYTES_MAX } else { limits.bytes.min(TOTAL_BYTES_MAX) };
    if listpack.total_bytes() + text_bytes >= bytes_max || !listpack.fits(text_bytes, items + 16) {
        return false;
    }
    let mut elements = listpack.iter();
    let entries =
        integer(&mut elements).zip(integer(&mut elements)).map_or(0, |(live, deleted)| live + deleted);
    limits.entries == 0 || (entries as u64) < limits.entries
}

/// Creates a node whose first entry has the id of its key.
pub(super) fn create<T: AsRef<[u8]>>(items: &[T]) -> Listpack {
    let mut listpack = Listpack::new();
    let names = items.iter().step_by(2).map(|name| Element::Bytes(name.as_ref()));
    let head = [1, 0, items.len() as i64 / 2].map(Element::Integer);
    listpack.append(head.into_iter().chain(names).chain([Element::Integer(0)]));
    append_entry(&mut listpack, true, 0, 0, items);
    listpack
}

/// Appends an entry to a node with room for it.
pub(super) fn append<T: AsRef<[u8]>>(listpack: &mut Listpack, base: StreamId, id: StreamId, items: &[T]) {
    let view = NodeView::new(base, listpack);
    let same = view.name_count == items.len() / 2
        && view.names.clone().zip(items.iter().step_by(2)).all(|(name, item)| name == *item.as_ref());
    let live = view.live;
    if let Some(first) = listpack.first() {
        listpack.replace_integer(first, live + 1);
    }
    let (ms, seq) = (id.ms.wrapping_sub(base.ms), id.seq.wrapping_sub(base.seq));
    append_entry(listpack, same, ms as i64, seq as i64, items);
}

fn append_entry<T: AsRef<[u8]>>(listpack: &mut Listpack, same: bool, ms: i64, seq: i64, items: &[T]) {
    let (flags, step) = if same { (SAME_FIELDS, 2) } else { (0, 1) };
    let head = [flags, ms, seq].map(Element::Integer);
    let count = (!same).then_some(Element::Integer(items.len() as i64 / 2));
    let written = items.iter().skip(step - 1).step_by(step).map(|item| Element::Bytes(item.as_ref()));
    let size = 3 + count.is_some() as usize + written.len();
    let tail = Element::Integer(size as i64);
    listpack.append(head.into_iter().chain(count).chain(written).chain([tail]));
}

/// Marks entries of a node, in ascending order, as deleted; at least one other stays live.
pub(super) fn delete(listpack: &mut Listpack, marks: &[Mark]) {
    // From the last: setting the lowest bit never needs a wider integer, but a node from a file may hold flags in a
    // wider encoding than necessary, and the elements behind them move.
    for mark in marks.iter().rev() {
        listpack.replace_integer(mark.flags_at, mark.flags | DELETED);
    }
    let view = NodeView::new(StreamId::MIN, listpack);
    let (live, deleted) = (view.live - marks.len() as i64, view.deleted + marks.len() as i64);
    assert!(live > 0, "a node without live entries is removed instead");
    if let Some(first) = listpack.first() {
        listpack.replace_integer(first, live);
    }
    if let Some(second) = listpack.first().and_then(|first| listpack.next(first)) {
        listpack.replace_integer(second, deleted);
    }
}

/// Removes the entries above `id`, all of which are deleted; another stays live.
pub(super) fn forget_deleted_above(listpack: &mut Listpack, base: StreamId, id: StreamId) {
    let view = NodeView::new(base, listpack);
    let mut above = view.entries();
    let Some(next) = id.next() else { return };
    above.skip_below(next);
    let Some(from) = above.rest.next_position() else { return };
    let (elements, deleted) = (above.rest.clone().count(), view.deleted - above.count() as i64);
    listpack.remove_from(from, elements);
    if let Some(second) = listpack.first().and_then(|first| listpack.next(first)) {
        listpack.replace_integer(second, deleted);
    }
}

/// Validates that an untrusted listpack is a node with at least one live entry; returns the number of live entries
/// and the last id.
pub(super) fn validate(base: StreamId, listpack: &Listpack) -> Result<(u64, StreamId), InvalidNode> {
    let view = NodeView::parse(base, listpack).ok_or(InvalidNode)?;
    let mut entries = view.entries();
    let (mut live, mut deleted, mut last) = (0, 0, None);
    while entries.rest.next_position().is_some() {
        let (id, is_deleted) = entries.next_id().ok_or(InvalidNode)?;
        *(if is_deleted { &mut deleted } else { &mut live }) += 1;
        if id < base || last.is_some_and(|last| last >= id) {
            return Err(InvalidNode);
        }
        last = Some(id);
    }
    let counted = (live, deleted) == (view.live, view.deleted);
    match last {
        Some(last) if counted && live > 0 => Ok((live as u64, last)),
        _ => Err(InvalidNode),
    }
}
