//! A sorted array of integers, byte for byte the integer set of Valkey's RDB files.
//!
//! ```text
//!  SortedIntegers (one pointer) ──> | width u32 | count u32 | value | value | ... |   all little-endian
//! ```
//!
//! Invariants:
//! 1. `width` is 2, 4 or 8 and every value has that many bytes; it grows with the values and never shrinks.
//! 2. Values ascend strictly.

use std::fmt;

use crate::thin_bytes::{Header, ThinBytes};

const HEADER_BYTES: usize = 8;

struct SortedHeader;

fn header_words(first: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *first;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

fn header(width: usize, count: usize) -> [u8; HEADER_BYTES] {
    let count = u32::try_from(count).expect("a sorted array is for small sets");
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&(width as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&count.to_le_bytes());
    bytes
}

impl Header for SortedHeader {
    const LEN: usize = HEADER_BYTES;

    #[inline]
    fn used_bytes(first: &[u8; 8]) -> usize {
        let (width, count) = header_words(first);
        HEADER_BYTES + width as usize * count as usize
    }
}

/// The reason why bytes are not a sorted integer set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Shorter than a header, or not of the length that the header states.
    Length(usize),
    /// A width other than 2, 4 and 8.
    Width(u32),
    /// There are no values.
    Empty,
    /// A value is not greater than the one before.
    Order {
        /// Index of the value.
        index: usize,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Length(len) => write!(f, "an integer set cannot have {len} bytes"),
            Invalid::Width(width) => write!(f, "an integer set cannot have values of {width} bytes"),
            Invalid::Empty => f.write_str("an integer set has no values"),
            Invalid::Order { index } => write!(f, "an integer set does not ascend at index {index}"),
        }
    }
}

impl std::error::Error for Invalid {}

/// A small set: a sorted array behind one pointer.
#[derive(Clone)]
pub struct SortedIntegers {
    bytes: ThinBytes<SortedHeader>,
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

impl SortedIntegers {
    /// Creates an empty set.
    pub fn new() -> Self {
        SortedIntegers { bytes: ThinBytes::new(&[&header(2, 0)]) }
    }

    /// Creates a set of `values`, which must ascend strictly.
    pub fn from_sorted(values: &[i64]) -> Self {
        let width = values.iter().map(|&value| width_of(value)).max().unwrap_or(2);
        SortedIntegers::with_width(values.iter().copied(), values.len(), width)
    }

    fn with_width(values: impl Iterator<Item = i64>, count: usize, width: usize) -> Self {
        let mut contents = Vec::with_capacity(count * width);
        for value in values {
            contents.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        SortedIntegers { bytes: ThinBytes::new(&[&header(width, count), &contents]) }
    }

    /// Copies untrusted bytes after validating the order of all values. Never panics.
    pub fn validate(bytes: &[u8]) -> Result<Self, Invalid> {
        let first = bytes.first_chunk::<8>().ok_or(Invalid::Length(bytes.len()))?;
        let (width, count) = header_words(first);
        if ![2, 4, 8].contains(&width) {
            return Err(Invalid::Width(width));
        }
        if (count as u64) * width as u64 + HEADER_BYTES as u64 != bytes.len() as u64 {
            return Err(Invalid::Length(bytes.len()));
        }
        if count == 0 {
            return Err(Invalid::Empty);
        }
        let set = SortedIntegers { bytes: ThinBytes::new(&[bytes]) };
        let mut previous = None;
        for (index, value) in set.iter().enumerate() {
            if previous.is_some_and(|previous| previous >= value) {
                return Err(Invalid::Order { index });
            }
            previous = Some(value);
        }
        Ok(set)
    }

    /// The whole set as stored by RDB and DUMP.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Prefetches the first line of the buffer.
    pub fn prefetch(&self) {
        self.bytes.prefetch();
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.header().1
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn header(&self) -> (usize, usize) {
        let first = self.as_bytes().first_chunk().expect("the buffer has a header");
        let (width, count) = header_words(first);
        (width as usize, count as usize)
    }

    /// The value with `rank` smaller ones.
    #[inline]
    pub fn at(&self, rank: usize) -> Option<i64> {
        let (width, count) = self.header();
        (rank < count).then(|| read(self.as_bytes(), width, rank))
    }

    /// The number of values below `value`.
    pub fn rank(&self, value: i64) -> usize {
        let (width, count) = self.header();
        let bytes = self.as_bytes();
        // Appending in order is common: check the last value first.
        if count > 0 && read(bytes, width, count - 1) < value {
            return count;
        }
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if read(bytes, width, middle) < value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns whether `value` is in the set.
    pub fn contains(&self, value: i64) -> bool {
        self.at(self.rank(value)) == Some(value)
    }

    /// Adds `value`; returns false if it was in the set.
    pub fn insert(&mut self, value: i64) -> bool {
        let rank = self.rank(value);
        if self.at(rank) == Some(value) {
            return false;
        }
        let (width, count) = self.header();
        let wider = width_of(value);
        if wider > width {
            *self = SortedIntegers::with_width(self.iter(), count, wider);
        }
        let width = width.max(wider);
        let at = HEADER_BYTES + rank * width;
        self.bytes.splice(at, 0, &[&value.to_le_bytes()[..width]], &header(width, count + 1));
        true
    }

    /// Removes `value`; returns false if it was not in the set.
    pub fn remove(&mut self, value: i64) -> bool {
        let rank = self.rank(value);
        if self.at(rank) != Some(value) {
            return false;
        }
        let (width, count) = self.header();
        self.bytes.splice(HEADER_BYTES + rank * width, width, &[], &header(width, count - 1));
        true
    }

    /// Iterates over the values in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> + DoubleEndedIterator + '_ {
        let (width, count) = self.header();
        let bytes = self.as_bytes();
        (0..count).map(move |rank| read(bytes, width, rank))
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        if !self.is_empty() {
            SortedIntegers::validate(self.as_bytes()).map(|_| ()).expect("the invariants of a sorted array");
        }
        assert_eq!(self.as_bytes().len(), HEADER_BYTES + self.header().0 * self.header().1);
    }
}

impl Default for SortedIntegers {
    fn default() -> Self {
        SortedIntegers::new()
    }
}

#[inline]
fn read(bytes: &[u8], width: usize, rank: usize) -> i64 {
    let at = HEADER_BYTES + rank * width;
    let value = &bytes[at..at + width];
    match *value {
        [a, b] => i16::from_le_bytes([a, b]) as i64,
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]) as i64,
        _ => i64::from_le_bytes(value.try_into().expect("a width of 8 bytes")),
    }
}
