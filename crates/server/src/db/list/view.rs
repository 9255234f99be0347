//! A read-only view of a list, embedded or not.

use super::StringValue;
use structures::listpack::Element;
use structures::packed_list::{Direction, NodeContents, PackedList, RecordsView};
use wire::convert::usize_of;

/// A read-only view of a list.
#[derive(Clone, Copy)]
pub struct ListView<'a> {
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Records(RecordsView<'a>),
    Packed(&'a PackedList),
}

use Place::{Packed, Records};

impl<'a> ListView<'a> {
    /// A view of an embedded or small list.
    #[inline]
    pub fn of_records(list: RecordsView<'a>) -> Self {
        ListView { place: Records(list) }
    }

    /// A view of packed nodes.
    #[inline]
    pub fn of_packed(list: &'a PackedList) -> Self {
        ListView { place: Packed(list) }
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        match self.place {
            Records(list) => list.len(),
            Packed(list) => usize_of(list.len()),
        }
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        match self.place {
            Records(_) => 1,
            Packed(list) => list.node_count(),
        }
    }

    /// Size of the nodes in a file before compression.
    pub fn node_bytes_in_files(&self) -> usize {
        let mut scratch = Vec::new();
        match self.place {
            Records(list) => {
                list.write_listpack(&mut scratch);
                scratch.len()
            }
            Packed(list) => {
                let bytes = |index| match list.node_contents(index, &mut scratch) {
                    NodeContents::Packed(bytes) | NodeContents::Plain(bytes) => bytes.len(),
                };
                (0..list.node_count()).map(bytes).sum()
            }
        }
    }

    /// Passes the element at `index`, negative from the end, to `read`.
    pub fn get<R>(&self, index: i64, read: impl FnOnce(StringValue<'_>) -> R) -> Option<R> {
        match self.place {
            Records(list) => list.get(index, |element| read(element.into())),
            Packed(list) => list.get(index, |element| read(element.into())),
        }
    }

    /// Passes `count` elements from `start` on to `read`.
    pub fn for_each(&self, start: usize, count: usize, read: &mut dyn FnMut(StringValue<'_>)) {
        let read = |element: Element<'_>| read(element.into());
        match self.place {
            Records(list) => list.for_each(start, count, Direction::Forward, read),
            Packed(list) => {
                list.for_each(start as u64, count as u64, Direction::Forward, read);
            }
        }
    }

    /// Minimum size of a reply with these elements: an element's head is never longer than the reply's framing of it,
    /// less 4.
    pub fn reply_bytes_min(&self, start: usize, count: usize) -> usize {
        let whole_nodes = match self.place {
            Records(list) => list.whole_bytes(start, count),
            Packed(list) => list.whole_nodes_bytes(start as u64, count as u64),
        };
        whole_nodes + 4 * count
    }

    /// Positions of elements equal to `value`: from the `rank`-th on (negative: from the end), at most `count` (0: all),
    /// comparing at most `looked_max` elements (0: all).
    pub fn positions(&self, value: &[u8], rank: i64, count: u64, looked_max: u64) -> Vec<u64> {
        let all = |n: u64| if n == 0 { u64::MAX } else { n };
        match self.place {
            Records(list) => list.positions(value, rank, all(count), all(looked_max)),
            Packed(list) => list.positions(value, rank, all(count), all(looked_max)),
        }
    }
}
