//! Lists: a chain of packed nodes, or a few elements.
//!
//! ```text
//!   count and elements <= 128 bytes                      in the key's entry: see `embedded`
//!   <= 32 elements and 1,024 bytes                       a small list, one allocation
//!   <= 8 KB                                              a list of one node, one allocation
//!   more                                                 packed nodes
//! ```

mod rdb;
#[cfg(test)]
mod tests;
mod value_type;
mod view;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::interned::Interned;
use super::object::StringValue;
use structures::hash::HashSeed;
use structures::listpack::Element;
use structures::packed_list::{Direction, PackedList, RecordsView, SingleList, SmallList};
use structures::unaligned_box::UnalignedBox;
pub use view::ListView;
use wire::convert::{signed_len, unsigned_len, usize_of};

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// The value of a list key.
#[derive(Clone)]
pub struct List {
    encoding: Encoding,
}

#[derive(Clone)]
enum Encoding {
    /// Few elements.
    Small(SmallList),
    /// More elements, in one node.
    Single(SingleList),
    /// At most what a reference server keeps as one listpack, where that does not fit a list of one node.
    Packed(UnalignedBox<PackedList>),
    /// More than that. Converted back when few enough elements are left.
    Outgrown(UnalignedBox<PackedList>),
}

use Encoding::{Outgrown, Packed, Single, Small};

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List of {}", self.len())
    }
}

impl Default for List {
    fn default() -> Self {
        List { encoding: Small(SmallList::default()) }
    }
}

impl Collection for List {
    type View<'a> = ListView<'a>;

    #[inline]
    fn view(&self) -> ListView<'_> {
        match &self.encoding {
            Small(list) => ListView::of_records(list.view()),
            Single(list) => ListView::of_records(list.view()),
            Packed(list) | Outgrown(list) => ListView::of_packed(list),
        }
    }

    #[inline]
    fn view_embedded<'a>(bytes: &'a [u8], _interned: &'a Interned) -> Option<ListView<'a>> {
        Some(ListView::of_records(RecordsView::of_embedded(bytes)))
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        List::default()
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect(0, 0, context.limits);
    }
}

impl List {
    /// OBJECT ENCODING's reply for small lists.
    pub const SMALL_ENCODING: &'static str = "listpack";

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.encoding {
            Small(list) => list.len(),
            Single(list) => list.len(),
            Packed(list) | Outgrown(list) => usize_of(list.len()),
        }
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.view().node_count()
    }

    /// Passes `count` elements from `start` on to `read`.
    pub fn for_each(&self, start: usize, count: usize, read: &mut dyn FnMut(StringValue<'_>)) {
        self.view().for_each(start, count, read);
    }

    /// Converts to packed nodes; [`List::expect`] marks one that outgrows a listpack.
    fn into_packed(self, limits: &EncodingLimits) -> UnalignedBox<PackedList> {
        let (fill, depth) = (limits.list_listpack_size, limits.list_compress_depth);
        match self.encoding {
            Small(list) => UnalignedBox::new(PackedList::of_small(&list, fill, depth)),
            Single(list) => UnalignedBox::new(list.into_packed(fill, depth)),
            Packed(list) | Outgrown(list) => list,
        }
    }

    /// Changes the list as packed nodes. It is no longer small.
    fn change<R>(&mut self, limits: &EncodingLimits, work: impl FnOnce(&mut PackedList) -> R) -> R {
        let (fill, depth) = (limits.list_listpack_size, limits.list_compress_depth);
        let mut list = match &mut self.encoding {
            Small(list) => PackedList::of_small(list, fill, depth),
            Single(list) => std::mem::take(list).into_packed(fill, depth),
            Packed(list) | Outgrown(list) => {
                let result = work(list);
                self.make_single();
                return result;
            }
        };
        let result = work(&mut list);
        self.encoding = match SingleList::of_packed(&mut list) {
            Some(list) => Single(list),
            None => Packed(UnalignedBox::new(list)),
        };
        result
    }

    /// Converts to one allocation if it fits.
    #[inline]
    fn make_single(&mut self) {
        if let Packed(list) = &mut self.encoding
            && let Some(list) = SingleList::of_packed(list)
        {
            self.encoding = Single(list);
        }
    }

    /// Marks whether the list has outgrown a listpack.
    fn mark_outgrown(&mut self, outgrown: bool, limits: &EncodingLimits) {
        if outgrown {
            self.encoding = Outgrown(std::mem::take(self).into_packed(limits));
        } else if self.is_outgrown() {
            self.encoding = Packed(std::mem::take(self).into_packed(limits));
        }
    }

    /// Pushes an element.
    #[inline]
    pub fn push(&mut self, end: End, element: &[u8], limits: &EncodingLimits) {
        if let Small(list) = &mut self.encoding
            && list.push(end == End::Left, element, limits.list_listpack_size)
        {
            return;
        }
        self.expect(1, element.len(), limits);
        if let Single(list) = &mut self.encoding
            && list.push(end == End::Left, element, limits.list_listpack_size)
        {
            return;
        }
        self.change(limits, |list| push_packed(list, end, element));
    }

    /// Pushes elements one after another.
    pub fn push_all<'a>(
        &mut self,
        end: End,
        elements: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
        limits: &EncodingLimits,
    ) {
        if let Small(list) = &mut self.encoding
            && list.push_all(end == End::Left, elements.clone(), limits.list_listpack_size)
        {
            return;
        }
        self.expect(elements.len(), elements.clone().map(<[u8]>::len).sum(), limits);
        self.change(limits, |list| elements.for_each(|element| push_packed(list, end, element)));
    }

    /// Removes the element at an end, passing it to `read`.
    #[inline]
    pub fn pop<R>(&mut self, end: End, read: impl FnOnce(StringValue<'_>) -> R) -> Option<R> {
        let read = |element: Element<'_>| read(element.into());
        match (&mut self.encoding, end) {
            (Small(list), _) => list.pop(end == End::Left, read),
            (Single(list), _) => list.pop(end == End::Left, read),
            (Packed(list) | Outgrown(list), End::Left) => list.pop_front(read),
            (Packed(list) | Outgrown(list), End::Right) => list.pop_back(read),
        }
    }

    /// Removes `count` elements at an end, passing each to `taken`.
    pub fn pop_many(&mut self, end: End, count: usize, taken: &mut dyn FnMut(StringValue<'_>)) {
        let taken = |element: Element<'_>| taken(element.into());
        match (&mut self.encoding, end) {
            (Small(list), _) => list.pop_many(end == End::Left, count, taken),
            (Single(list), End::Left) => _ = list.remove(|list| list.pop_front_many(count as u64, taken)),
            (Single(list), End::Right) => _ = list.remove(|list| list.pop_back_many(count as u64, taken)),
            (Packed(list) | Outgrown(list), End::Left) => _ = list.pop_front_many(count as u64, taken),
            (Packed(list) | Outgrown(list), End::Right) => _ = list.pop_back_many(count as u64, taken),
        }
    }

    /// Replaces the element at `index`. Returns whether there is one.
    pub fn set(&mut self, index: i64, element: &[u8], limits: &EncodingLimits) -> bool {
        let set = match &mut self.encoding {
            Small(list) => list.set(index, element, limits.list_listpack_size),
            Single(list) => list.set(index, element, limits.list_listpack_size),
            Packed(_) | Outgrown(_) => Some(false),
        };
        match set {
            Some(false) => self.change(limits, |list| list.set(index, element)),
            Some(true) => true,
            None => false,
        }
    }

    /// Inserts an element before or after the pivot. Returns whether the pivot was found.
    pub fn insert(&mut self, before: bool, pivot: &[u8], element: &[u8], limits: &EncodingLimits) -> bool {
        if let Small(list) = &mut self.encoding {
            match list.insert(before, pivot, element, limits.list_listpack_size) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
        }
        self.change(limits, |list| match before {
            true => list.insert_before(pivot, element),
            false => list.insert_after(pivot, element),
        })
    }

    /// Removes up to `count` elements equal to `value`, from an end; 0 means all.
    pub fn remove_equal(&mut self, value: &[u8], from: End, count: u64) -> u64 {
        let direction = if from == End::Left { Direction::Forward } else { Direction::Backward };
        let count = if count == 0 { u64::MAX } else { count };
        match &mut self.encoding {
            Small(list) => list.remove_matching(value, direction, count),
            Single(list) => list.remove(|list| list.remove_matching(value, direction, count)),
            Packed(list) | Outgrown(list) => list.remove_matching(value, direction, count),
        }
    }

    /// Keeps `start..=end`, as resolved by [`resolve_range`], or nothing.
    pub fn retain(&mut self, range: Option<(usize, usize)>) {
        let (start, count) = range.map_or((0, 0), |(start, end)| (start, end - start + 1));
        match &mut self.encoding {
            Small(list) => list.retain_range(start, count),
            Single(list) => list.retain_range(start, count),
            Packed(list) | Outgrown(list) => list.retain_range(start as u64, count as u64),
        }
    }

    /// Prepares for adding elements of `bytes` bytes in all. The list's settings may have changed since its last write.
    pub fn expect(&mut self, elements: usize, bytes: usize, limits: &EncodingLimits) {
        // A list that fits a small list fits a listpack.
        if matches!(&self.encoding, Small(list) if list.fits(elements, bytes, limits.list_listpack_size)) {
            return;
        }
        if let Packed(list) | Outgrown(list) = &mut self.encoding {
            list.set_fill(limits.list_listpack_size);
        }
        if !self.is_outgrown()
            && !fits_listpack(self.len() + elements, self.listpack_bytes() + bytes, limits, 1)
        {
            self.mark_outgrown(true, limits);
        }
    }

    fn is_outgrown(&self) -> bool {
        matches!(self.encoding, Outgrown(_))
    }

    /// Converts back after a removal if few elements are left: fewer than the limit, so that a list at the limit does not
    /// change its encoding with every command.
    #[inline]
    pub fn shrunk(&mut self, limits: &EncodingLimits) {
        match &self.encoding {
            Small(_) => {}
            Single(list) => {
                if let Some(list) = list.small(limits.list_listpack_size, 2) {
                    self.encoding = Small(list);
                }
            }
            Packed(list) | Outgrown(list) => {
                if list.node_count() <= 1 {
                    self.shrunk_to_one_node(limits);
                }
            }
        }
    }

    fn shrunk_to_one_node(&mut self, limits: &EncodingLimits) {
        if self.is_outgrown() {
            // One large element stays in a node of its own.
            let is_large = limits.list_listpack_size >= 0 && self.records_bytes() > LISTPACK_BYTES_MAX;
            if is_large || !fits_listpack(self.len(), self.listpack_bytes(), limits, 2) {
                return;
            }
            self.mark_outgrown(false, limits);
        }
        self.make_small(2, limits);
    }

    /// Converts to a small list, unless it is one, if it fits the limits divided by `divisor`; else to one allocation
    /// where it fits.
    fn make_small(&mut self, divisor: usize, limits: &EncodingLimits) {
        let small = match &self.encoding {
            Single(list) => list.small(limits.list_listpack_size, divisor),
            Packed(list) => SmallList::of_packed(list, divisor),
            Small(_) | Outgrown(_) => None,
        };
        match small {
            Some(list) => self.encoding = Small(list),
            None => self.make_single(),
        }
    }

    /// Ends the loading of a new list, which had this number of nodes in its file.
    pub fn completed(&mut self, nodes_in_file: u64, limits: &EncodingLimits) {
        let outgrown = nodes_in_file > 1
            || self.node_count() > 1
            || !fits_listpack(self.len(), self.listpack_bytes(), limits, 1);
        self.mark_outgrown(outgrown, limits);
        self.make_small(1, limits);
    }

    fn records_bytes(&self) -> usize {
        match &self.encoding {
            Small(list) => list.used_bytes(),
            Single(list) => list.used_bytes(),
            Packed(list) | Outgrown(list) => list.records_bytes(),
        }
    }

    /// Size of the elements as one listpack: its header and end, and after each element its length again. A list that has
    /// not outgrown a listpack may have several nodes: a node is closed early where its buffer has no room at the end
    /// that is pushed to.
    fn listpack_bytes(&self) -> usize {
        7 + self.records_bytes() + self.len()
    }
}

fn push_packed(list: &mut PackedList, end: End, element: &[u8]) {
    match end {
        End::Left => list.push_front(element),
        End::Right => list.push_back(element),
    }
}

/// Maximum size of a listpack limited by its number of elements.
const LISTPACK_BYTES_MAX: usize = 8192;

/// Whether a list with this number of elements and bytes is kept as one listpack, with all limits divided by `divisor`.
fn fits_listpack(elements: usize, bytes: usize, limits: &EncodingLimits, divisor: usize) -> bool {
    match limits.list_listpack_size {
        size @ ..0 => bytes <= (4096 << (size.unsigned_abs() - 1).min(4)) / divisor,
        elements_max => {
            elements <= (elements_max as usize).max(1) / divisor
                && (divisor > 1 || bytes <= LISTPACK_BYTES_MAX)
        }
    }
}

/// Resolves inclusive positions, negative from the end, in a list of length `len`; `None` if the range is empty.
pub fn resolve_range(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = signed_len(len);
    let start = if start < 0 { start.saturating_add(len).max(0) } else { start };
    let end = if end < 0 { end.saturating_add(len) } else { end.min(len - 1) };
    (start <= end && start < len && end >= 0).then(|| (unsigned_len(start), unsigned_len(end)))
}
