//! A compact list of strings and integers in one buffer, byte for byte Valkey's listpack format, so that DUMP and RDB files
//! contain it unchanged.
//!
//! ```text
//!  Listpack (one pointer) ──> | total u32 | count u16 | element backlen | element backlen | ... | 0xFF |
//!                             └──────── 6 bytes ──────┘
//! ```
//!
//! All numbers are little-endian; `encoding.rs` describes elements. `count` is 65,535 when the true number is unknown
//! (there were 65,535 elements or more); then counting reads all elements.
//!
//! Invariants:
//! 1. `total` is the length of the whole, the last byte is `0xFF`, and the allocation is `size_class(total)`.
//! 2. Elements follow each other without a gap from byte 6 to the terminator, each with its own backlen.
//! 3. `count` is the number of elements, or 65,535.
//!
//! Untrusted bytes become a `Listpack` only through [`Listpack::validate`], so iterations trust what they read; were the
//! invariants broken, a slice index would panic: no iteration is `unsafe`.

mod builder;
pub(crate) mod encoding;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

pub use builder::Builder;

use std::fmt;

use crate::decimal;
use crate::thin_bytes::{Header, ThinBytes};
use encoding::{END, Encoded, backlen, backlen_size, decode, element_size, read_backlen, size_by_tag};

const HEADER_BYTES: usize = 6;
/// The header's count for more elements than it can express; they must be read to be counted.
const COUNT_UNKNOWN: u16 = u16::MAX;
/// The maximum length of a listpack in bytes; see [`Listpack::fits`].
pub const TOTAL_BYTES_MAX: usize = 1 << 30;

/// An element in its stored form, borrowed from the listpack.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// A number, in 1 to 9 bytes with its header. [`Builder`] and insertions store the decimal text of an `i64` so.
    Integer(i64),
    /// All other bytes.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The text of the element; that of an integer is written to `buffer`.
    #[inline]
    pub fn text<'b>(&self, buffer: &'b mut [u8; decimal::TEXT_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Element::Integer(value) => decimal::format(value, buffer),
            Element::Bytes(bytes) => bytes,
        }
    }

    /// Copies the text of the element.
    pub fn to_vec(&self) -> Vec<u8> {
        self.text(&mut [0; decimal::TEXT_BYTES_MAX]).to_vec()
    }

    /// Length of the text in bytes.
    pub fn text_len(&self) -> usize {
        match *self {
            Element::Integer(value) => decimal::text_len(value),
            Element::Bytes(bytes) => bytes.len(),
        }
    }

    /// The number whose canonical text this is, if any.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Element::Integer(value) => Some(value),
            Element::Bytes(bytes) => decimal::parse(bytes),
        }
    }
}

/// Elements are equal when their texts are.
impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => a == b,
            (Element::Bytes(a), Element::Bytes(b)) => a == b,
            (Element::Integer(value), Element::Bytes(text))
            | (Element::Bytes(text), Element::Integer(value)) => decimal::parse(text) == Some(*value),
        }
    }
}

impl Eq for Element<'_> {}

impl PartialEq<[u8]> for Element<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        *self == Element::Bytes(other)
    }
}

/// The offset of an element. Any change of the listpack invalidates earlier positions; using a stale one gives a wrong
/// element or a panic, never undefined behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u32);

/// The reason why bytes are not a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Fewer bytes than the smallest listpack, or more than [`TOTAL_BYTES_MAX`].
    Length(usize),
    /// The header states another length.
    HeaderLength {
        /// The length that the header states, in bytes.
        header: u32,
        /// The number of bytes.
        actual: usize,
    },
    /// The last byte is not the terminator.
    Terminator,
    /// No well-formed element with its backlen starts where one must.
    Element {
        /// Offset of the element's first byte.
        at: usize,
    },
    /// The header states another count.
    Count {
        /// The number of elements that the header states.
        header: u16,
        /// The number of elements.
        actual: usize,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Length(len) => write!(f, "{len} bytes cannot be a listpack"),
            Invalid::HeaderLength { header, actual } => {
                write!(f, "a listpack of {actual} bytes says it has {header}")
            }
            Invalid::Terminator => f.write_str("a listpack does not end with its terminator"),
            Invalid::Element { at } => write!(f, "a listpack has a malformed element at byte {at}"),
            Invalid::Count { header, actual } => {
                write!(f, "a listpack of {actual} elements says it has {header}")
            }
        }
    }
}

impl std::error::Error for Invalid {}

struct ListpackHeader;

impl Header for ListpackHeader {
    const LEN: usize = HEADER_BYTES;

    #[inline]
    fn used_bytes(first: &[u8; 8]) -> usize {
        u32::from_le_bytes([first[0], first[1], first[2], first[3]]) as usize
    }
}

/// A listpack. See the [module](self) for the format.
#[derive(Clone)]
pub struct Listpack {
    bytes: ThinBytes<ListpackHeader>,
}

const _: () = assert!(size_of::<Listpack>() == 8 && size_of::<Option<Listpack>>() == 8);

impl Listpack {
    /// Creates an empty listpack: 7 bytes.
    pub fn new() -> Self {
        Listpack { bytes: ThinBytes::new(&[&[7, 0, 0, 0, 0, 0, END]]) }
    }

    /// Copies untrusted bytes after validating every one that an iteration would trust. Never panics.
    pub fn validate(bytes: &[u8]) -> Result<Listpack, Invalid> {
        check_bytes(bytes)?;
        Ok(Listpack { bytes: ThinBytes::new(&[bytes]) })
    }

    /// Iterates over the elements of untrusted bytes, after validating every byte that an iteration would trust. Never
    /// panics.
    pub fn validated(bytes: &[u8]) -> Result<Iter<'_>, Invalid> {
        check_bytes(bytes)?;
        Ok(Iter { bytes, at: HEADER_BYTES, end: bytes.len() - 1 })
    }

    /// The whole listpack in its wire format, as stored by DUMP and RDB.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Length of the wire format in bytes.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Prefetches the first line of the buffer, which every command on it reads first.
    #[inline]
    pub fn prefetch(&self) {
        self.bytes.prefetch();
    }

    /// Number of elements. Reads all elements if there ever were 65,535.
    pub fn len(&self) -> usize {
        match self.header_count() {
            COUNT_UNKNOWN => self.iter().count(),
            count => count as usize,
        }
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.total_bytes() == HEADER_BYTES + 1
    }

    /// Returns whether `bytes` more of text in `elements` more elements keep the listpack below its limit.
    pub fn fits(&self, bytes: usize, elements: usize) -> bool {
        // A head has at most 9 bytes more than the text, a backlen at most 5.
        let added = elements.saturating_mul(14).saturating_add(bytes);
        self.total_bytes().saturating_add(added) <= TOTAL_BYTES_MAX
    }

    /// Appends an element.
    pub fn push_back(&mut self, element: &[u8]) {
        let end = self.end();
        self.splice(end, 0, Encoded::new(element));
    }

    /// Appends an integer.
    pub fn push_back_integer(&mut self, value: i64) {
        let end = self.end();
        self.splice(end, 0, Encoded::integer(value));
    }

    /// Prepends an element.
    pub fn push_front(&mut self, element: &[u8]) {
        self.splice(HEADER_BYTES, 0, Encoded::new(element));
    }

    /// Appends several elements with one change of the allocation; `elements` is iterated twice.
    pub fn append<'a, I>(&mut self, elements: I)
    where
        I: IntoIterator<Item = Element<'a>>,
        I::IntoIter: Clone,
    {
        let elements = elements.into_iter();
        let (mut added, mut count) = (0, 0);
        for element in elements.clone() {
            let size = Encoded::element(element).size();
            added += size + backlen_size(size);
            count += 1;
        }
        let (end, header) = (self.end(), self.header(0, added, 0, count));
        let room = self.bytes.insert_zeroed(end, added, &header);
        let mut at = 0;
        for element in elements {
            let encoded = Encoded::element(element);
            let size = encoded.size();
            let (backlen, backlen_len) = backlen(size);
            encoded.write(&mut room[at..]);
            room[at + size..at + size + backlen_len].copy_from_slice(&backlen[..backlen_len]);
            at += size + backlen_len;
        }
    }

    /// Inserts before the element at `at` and returns the new one's position.
    pub fn insert_before(&mut self, at: Position, element: &[u8]) -> Position {
        self.splice(at.0 as usize, 0, Encoded::new(element));
        at
    }

    /// Inserts two elements before the one at `at`, or at the end.
    pub fn insert_pair(&mut self, at: Option<Position>, pair: [Element<'_>; 2]) {
        let [first, second] = pair.map(Encoded::element);
        let [(back, back_len), (other_back, other_back_len)] = [first, second].map(|one| backlen(one.size()));
        let at = at.map_or(self.end(), |at| at.0 as usize);
        let parts = [first.head(), first.body(), &back[..back_len]];
        let others = [second.head(), second.body(), &other_back[..other_back_len]];
        self.splice_entries(at, 0, 0, &[parts, others].concat(), 2);
    }

    /// Inserts after the element at `at` and returns the new one's position.
    pub fn insert_after(&mut self, at: Position, element: &[u8]) -> Position {
        let next = self.entry_end(at.0 as usize);
        self.splice(next, 0, Encoded::new(element));
        Position(next as u32)
    }

    /// Replaces the element at `at`; the position stays valid for the new one.
    pub fn replace(&mut self, at: Position, element: &[u8]) {
        self.replace_encoded(at, Encoded::new(element));
    }

    /// Replaces the element at `at` by an integer.
    pub fn replace_integer(&mut self, at: Position, value: i64) {
        self.replace_encoded(at, Encoded::integer(value));
    }

    fn replace_encoded(&mut self, at: Position, element: Encoded<'_>) {
        let at = at.0 as usize;
        if element_size(self.as_bytes(), at) == element.size() {
            element.write(&mut self.bytes.payload_mut()[at - HEADER_BYTES..]);
            return;
        }
        let removed = self.entry_end(at) - at;
        self.splice(at, removed, element);
    }

    /// Removes the element at `at`; returns the position of the next one.
    pub fn remove(&mut self, at: Position) -> Option<Position> {
        let at = at.0 as usize;
        let removed = self.entry_end(at) - at;
        self.splice_entries(at, removed, 1, &[], 0);
        self.position(at)
    }

    /// Removes up to `count` elements from the one at `index` on (negative: from the end, -1 the last). Returns their
    /// number.
    pub fn remove_range(&mut self, index: i64, count: usize) -> usize {
        let Some(first) = self.at(index) else { return 0 };
        let left = match self.header_count() {
            COUNT_UNKNOWN => None,
            _ if index < 0 => Some(index.unsigned_abs() as usize),
            len => Some(len as usize - index as usize),
        };
        let Some(left) = left.filter(|&left| left <= count) else {
            return self.remove_from(first, count);
        };
        // Everything from here on is removed: iterating to the end would take a third of ZREMRANGEBYRANK of 100
        // (docs/growth.md).
        let start = first.0 as usize;
        self.splice_entries(start, self.end() - start, left, &[], 0);
        left
    }

    /// Removes up to `count` elements from position `first` on; returns their number.
    pub fn remove_from(&mut self, first: Position, count: usize) -> usize {
        let start = first.0 as usize;
        let (mut end, mut removed) = (start, 0);
        while removed < count && self.as_bytes()[end] != END {
            end = self.entry_end(end);
            removed += 1;
        }
        self.splice_entries(start, end - start, removed, &[], 0);
        removed
    }

    /// Keeps the elements for which `keep` holds, called for each in order: one iteration and one change of the allocation
    /// for any number of removals.
    pub fn retain(&mut self, mut keep: impl FnMut(Element<'_>) -> bool) {
        let end = self.end() - HEADER_BYTES;
        let payload = self.bytes.payload_mut();
        let (mut at, mut kept, mut removed_count) = (0, 0, 0);
        while at < end {
            let (element, size) = decode(payload, at);
            let next = at + size + backlen_size(size);
            if !keep(element) {
                removed_count += 1;
            } else {
                if kept < at {
                    payload.copy_within(at..next, kept);
                }
                kept += next - at;
            }
            at = next;
        }
        self.splice_entries(HEADER_BYTES + kept, end - kept, removed_count, &[], 0);
    }

    /// Concatenates two listpacks.
    pub fn merge(mut first: Listpack, second: &Listpack) -> Listpack {
        let entries = &second.as_bytes()[HEADER_BYTES..second.end()];
        let end = first.end();
        first.splice_entries(end, 0, 0, &[entries], second.len());
        first
    }

    /// The position of the first element.
    pub fn first(&self) -> Option<Position> {
        self.position(HEADER_BYTES)
    }

    /// The position of the last element.
    pub fn last(&self) -> Option<Position> {
        self.previous_of(self.end())
    }

    /// The position after `at`.
    pub fn next(&self, at: Position) -> Option<Position> {
        self.position(self.entry_end(at.0 as usize))
    }

    /// The position before `at`.
    pub fn previous(&self, at: Position) -> Option<Position> {
        self.previous_of(at.0 as usize)
    }

    /// The position of the element at `index`; negative indexes count from the end, -1 being the last.
    pub fn at(&self, index: i64) -> Option<Position> {
        let from_end = match self.header_count() {
            COUNT_UNKNOWN => index < 0,
            // Iterate from the nearer end.
            count => {
                let count = count as i64;
                let forward = if index < 0 { index + count } else { index };
                if !(0..count).contains(&forward) {
                    return None;
                }
                return if forward <= count / 2 {
                    self.nth(forward as u64)
                } else {
                    self.nth_back((count - 1 - forward) as u64)
                };
            }
        };
        if from_end { self.nth_back(index.unsigned_abs() - 1) } else { self.nth(index as u64) }
    }

    fn nth(&self, steps: u64) -> Option<Position> {
        let mut at = self.first()?;
        for _ in 0..steps {
            at = self.next(at)?;
        }
        Some(at)
    }

    fn nth_back(&self, steps: u64) -> Option<Position> {
        let mut at = self.last()?;
        for _ in 0..steps {
            at = self.previous(at)?;
        }
        Some(at)
    }

    /// The element at `at`.
    #[inline]
    pub fn get(&self, at: Position) -> Element<'_> {
        decode(self.as_bytes(), at.0 as usize).0
    }

    /// The first element equal to `needle` from `from` on, comparing only every `skip + 1`-th element: `skip` 1 visits the
    /// fields of a list of fields and values.
    pub fn find(&self, from: Position, needle: &[u8], skip: usize) -> Option<Position> {
        self.find_counted(from, needle, skip).map(|(_, at)| at)
    }

    /// As [`Listpack::find`], with the number of elements compared before it.
    #[inline]
    pub fn find_counted(&self, from: Position, needle: &[u8], skip: usize) -> Option<(usize, Position)> {
        let bytes = self.as_bytes();
        let number = decimal::parse(needle);
        let (mut at, mut compared) = (from.0 as usize, 0);
        while bytes[at] != END {
            let (element, size) = decode(bytes, at);
            let equal = match element {
                Element::Integer(value) => number == Some(value),
                Element::Bytes(text) => text == needle,
            };
            if equal {
                return Some((compared, Position(at as u32)));
            }
            at += size + backlen_size(size);
            for _ in 0..skip {
                if bytes[at] == END {
                    return None;
                }
                let size = element_size(bytes, at);
                at += size + backlen_size(size);
            }
            compared += 1;
        }
        None
    }

    /// Iterates over all elements.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(self.first())
    }

    /// Iterates from an element to the last; over nothing if `from` is `None`.
    pub fn iter_from(&self, from: Option<Position>) -> Iter<'_> {
        let at = from.map_or(self.end(), |at| at.0 as usize);
        Iter { bytes: self.as_bytes(), at, end: self.end() }
    }

    fn header_count(&self) -> u16 {
        let bytes = self.as_bytes();
        u16::from_le_bytes([bytes[4], bytes[5]])
    }

    /// The offset of the terminator.
    #[inline]
    fn end(&self) -> usize {
        self.total_bytes() - 1
    }

    #[inline]
    fn entry_end(&self, at: usize) -> usize {
        let size = element_size(self.as_bytes(), at);
        at + size + backlen_size(size)
    }

    #[inline]
    fn position(&self, at: usize) -> Option<Position> {
        (self.as_bytes()[at] != END).then_some(Position(at as u32))
    }

    fn previous_of(&self, at: usize) -> Option<Position> {
        if at == HEADER_BYTES {
            return None;
        }
        let (size, backlen) = read_backlen(self.as_bytes(), at);
        Some(Position((at - backlen - size) as u32))
    }

    /// Replaces the `removed` bytes of at most one entry at `at` by one element.
    #[inline]
    fn splice(&mut self, at: usize, removed: usize, element: Encoded<'_>) {
        let (backlen, backlen_len) = backlen(element.size());
        let parts = [element.head(), element.body(), &backlen[..backlen_len]];
        self.splice_entries(at, removed, (removed > 0) as usize, &parts, 1);
    }

    /// Replaces `removed` bytes, being `removed_count` entries, by `parts`, being `added_count` entries.
    fn splice_entries(
        &mut self,
        at: usize,
        removed: usize,
        removed_count: usize,
        parts: &[&[u8]],
        added_count: usize,
    ) {
        let added: usize = parts.iter().map(|part| part.len()).sum();
        let header = self.header(removed, added, removed_count, added_count);
        self.bytes.splice(at, removed, parts, &header);
    }

    /// The header after a change by these numbers of bytes and elements.
    fn header(
        &self,
        removed: usize,
        added: usize,
        removed_count: usize,
        added_count: usize,
    ) -> [u8; HEADER_BYTES] {
        let total = self.total_bytes() - removed + added;
        assert!(total <= TOTAL_BYTES_MAX || added == 0, "callers check fits() first");
        let count = match self.header_count() {
            COUNT_UNKNOWN => COUNT_UNKNOWN,
            count => u16::try_from(count as usize - removed_count + added_count).unwrap_or(COUNT_UNKNOWN),
        };
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(total as u32).to_le_bytes());
        header[4..].copy_from_slice(&count.to_le_bytes());
        header
    }

    /// Panics unless every invariant of this file holds.
    pub fn check(&self) {
        check_bytes(self.as_bytes()).expect("the invariants of a listpack");
        assert!(self.memory_bytes() >= self.total_bytes());
    }
}

fn check_bytes(bytes: &[u8]) -> Result<(), Invalid> {
    let mut records = UncheckedRecords::new(bytes)?;
    while records.next_record()?.is_some() {}
    Ok(())
}

/// The elements of untrusted bytes, each validated when it is read, as are length, terminator and count.
pub(crate) struct UncheckedRecords<'a> {
    /// The elements, without the terminator.
    entries: &'a [u8],
    at: usize,
    count: usize,
}

impl<'a> UncheckedRecords<'a> {
    /// Checks length and terminator.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Invalid> {
        let actual = bytes.len();
        if !(HEADER_BYTES + 1..=TOTAL_BYTES_MAX).contains(&actual) {
            return Err(Invalid::Length(actual));
        }
        let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if header as usize != actual {
            return Err(Invalid::HeaderLength { header, actual });
        }
        match bytes.split_at(actual - 1) {
            (entries, [END]) => Ok(UncheckedRecords { entries, at: HEADER_BYTES, count: 0 }),
            _ => Err(Invalid::Terminator),
        }
    }

    /// The next element: the listpack's bytes from there on, and the element's length without its backlen. At the end,
    /// checks the header's count.
    #[inline(always)]
    pub fn next_record(&mut self) -> Result<Option<(&'a [u8], usize)>, Invalid> {
        let Some(&tag) = self.entries.get(self.at) else { return self.end() };
        // Nearly all elements have a head of one byte and a backlen of one.
        let size = match tag {
            0..0x80 => 1,
            0x80..0xC0 => 1 + (tag & 0x3F) as usize,
            _ => size_by_tag(tag),
        };
        let (size, backlen_len) = match size > 0 && self.entries.get(self.at + size) == Some(&(size as u8)) {
            true => (size, 1),
            false => self.checked_sizes(tag)?,
        };
        let record = &self.entries[self.at..];
        self.at += size + backlen_len;
        self.count += 1;
        Ok(Some((record, size)))
    }

    /// Bytes of the next element and of its backlen, if both are complete and agree.
    fn checked_sizes(&self, tag: u8) -> Result<(usize, usize), Invalid> {
        if tag & 0xF0 == 0xE0
            && let Some(sizes) = self.medium_string()
        {
            return Ok(sizes);
        }
        let invalid = Invalid::Element { at: self.at };
        let size = encoding::checked_element_size(self.entries, self.at).ok_or(invalid)?;
        let (backlen, backlen_len) = backlen(size);
        match self.entries[self.at + size..].starts_with(&backlen[..backlen_len]) {
            true => Ok((size, backlen_len)),
            false => Err(invalid),
        }
    }

    /// As [`UncheckedRecords::checked_sizes`], for a string of 64 to 4,095 bytes: by two words instead of comparisons of
    /// memory.
    #[inline]
    fn medium_string(&self) -> Option<(usize, usize)> {
        let rest = &self.entries[self.at..];
        let &[high, low] = rest.first_chunk()?;
        let size = 2 + (usize::from(high & 0xF) << 8 | usize::from(low));
        let &[first, second] = rest.get(size..)?.first_chunk()?;
        match size < 0x80 {
            true => (usize::from(first) == size).then_some((size, 1)),
            false => (usize::from(first) == size >> 7 && usize::from(second) == size & 0x7F | 0x80)
                .then_some((size, 2)),
        }
    }

    #[cold]
    fn end(&self) -> Result<Option<(&'a [u8], usize)>, Invalid> {
        let header = u16::from_le_bytes([self.entries[4], self.entries[5]]);
        match header == COUNT_UNKNOWN || usize::from(header) == self.count {
            true => Ok(None),
            false => Err(Invalid::Count { header, actual: self.count }),
        }
    }
}

impl Default for Listpack {
    fn default() -> Self {
        Listpack::new()
    }
}

impl fmt::Debug for Listpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> FromIterator<Element<'a>> for Listpack {
    fn from_iter<T: IntoIterator<Item = Element<'a>>>(elements: T) -> Self {
        let mut listpack = Listpack::new();
        listpack.append(elements.into_iter().collect::<Vec<_>>());
        listpack
    }
}

impl<'a> IntoIterator for &'a Listpack {
    type Item = Element<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over elements, from both ends.
#[derive(Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Iter<'a> {
    /// Splits off the first `elements` as an iterator of their own; returns nothing if there are fewer.
    pub fn split_front(&mut self, elements: usize) -> Option<Iter<'a>> {
        let mut rest = self.clone();
        for _ in 0..elements {
            rest.skip_one()?;
        }
        let front = Iter { end: rest.at, ..*self };
        *self = rest;
        Some(front)
    }

    /// Splits off the last `elements` as an iterator of their own; returns nothing if there are fewer.
    pub fn split_back(&mut self, elements: usize) -> Option<Iter<'a>> {
        let mut rest = self.clone();
        for _ in 0..elements {
            rest.next_back()?;
        }
        let back = Iter { at: rest.end, ..*self };
        *self = rest;
        Some(back)
    }

    /// Skips this number of elements; returns nothing if there are fewer.
    pub fn pass_over(&mut self, elements: usize) -> Option<()> {
        (0..elements).try_for_each(|_| self.skip_one())
    }

    #[inline]
    fn skip_one(&mut self) -> Option<()> {
        if self.at >= self.end {
            return None;
        }
        let size = element_size(self.bytes, self.at);
        self.at += size + backlen_size(size);
        Some(())
    }

    /// The next element, if it is an integer.
    #[inline]
    pub(crate) fn next_integer(&mut self) -> Option<i64> {
        if self.at < self.end && self.bytes[self.at] < 0x80 {
            let value = self.bytes[self.at];
            self.at += 2;
            return Some(value.into());
        }
        self.next()?.as_integer()
    }

    /// The remaining elements, as an iterator that is faster over elements of one shape.
    pub(crate) fn rest(&self) -> Rest<'a> {
        Rest { bytes: &self.bytes[..self.end], at: self.at }
    }

    /// Continues at the position of an iterator obtained by [`Iter::rest`].
    pub(crate) fn go_to(&mut self, rest: &Rest<'a>) {
        self.at = rest.at;
    }

    /// The position of the element that `next` will return.
    pub fn next_position(&self) -> Option<Position> {
        (self.at < self.end).then_some(Position(self.at as u32))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.at >= self.end {
            return None;
        }
        let (element, size) = decode(self.bytes, self.at);
        self.at += size + backlen_size(size);
        Some(element)
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<Element<'a>> {
        if self.at >= self.end {
            return None;
        }
        let (size, backlen) = read_backlen(self.bytes, self.end);
        self.end -= size + backlen;
        Some(decode(self.bytes, self.end).0)
    }
}

/// An iterator that distinguishes element shapes by branches, which are predicted where elements are alike: the offset of
/// the next element then does not depend on loading this one. Skipping the entries of a stream's node takes 4 ns for each,
/// with [`Iter`] 10.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    /// Skips this number of elements; returns nothing if there are fewer.
    #[inline(always)]
    pub fn pass_over(&mut self, elements: usize) -> Option<()> {
        for _ in 0..elements {
            let tag = *self.bytes.get(self.at)?;
            self.at += match tag {
                0..0x80 => 2,
                0x80..0xC0 => 2 + (tag & 0x3F) as usize,
                _ => self.rare_size(),
            };
        }
        Some(())
    }

    /// The next element, if it is an integer.
    #[inline(always)]
    pub fn next_integer(&mut self) -> Option<i64> {
        let tag = *self.bytes.get(self.at)?;
        if tag < 0x80 {
            self.at += 2;
            return Some(tag.into());
        }
        if let (0xF1..=0xF3, Some(&[a, b, c, d])) =
            (tag, self.bytes.get(self.at + 1..).and_then(|b| b.first_chunk()))
        {
            let unused_bits = (0xF3 - u32::from(tag)) * 8;
            self.at += 6 - (unused_bits / 8) as usize;
            return Some((i32::from_le_bytes([a, b, c, d]) << unused_bits >> unused_bits).into());
        }
        self.next_rare_integer()
    }

    #[inline(never)]
    fn next_rare_integer(&mut self) -> Option<i64> {
        let (element, size) = decode(self.bytes, self.at);
        self.at += size + backlen_size(size);
        element.as_integer()
    }

    #[inline(never)]
    fn rare_size(&self) -> usize {
        let size = element_size(self.bytes, self.at);
        size + backlen_size(size)
    }
}
