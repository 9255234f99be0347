//! The encoding of an element: shared by the listpack and by the packed list, which omits the backlen.
//!
//! | first byte | what follows | element |
//! |---|---|---|
//! | `0vvvvvvv` | | integer 0..=127 |
//! | `10llllll` | l bytes | string below 64 bytes |
//! | `110vvvvv` | 1 byte | signed 13-bit integer, high bits first |
//! | `1110llll` | 1 byte, then l bytes | string below 4,096 bytes, high bits of l first |
//! | `0xF0` | u32 little-endian, then that many bytes | longer string |
//! | `0xF1` `0xF2` `0xF3` `0xF4` | 2, 3, 4, 8 bytes little-endian | signed integer |
//! | `0xFF` | | end of a listpack |
//!
//! In a listpack each element is followed by its *backlen*: the size of what precedes, in groups of seven
//! bits, most significant first; every byte but the first has its high bit set, so it reads backwards.

use super::Element;
use crate::decimal;

pub(crate) const END: u8 = 0xFF;

/// The longest head: the tag and eight bytes of an integer.
const HEAD_BYTES_MAX: usize = 9;

/// An element ready to be copied: a head and, for strings, the bytes themselves.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    body: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// The shortest encoding: as an integer when `bytes` are the canonical text of one.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        match decimal::parse(bytes) {
            Some(value) => Encoded::integer(value),
            None => Encoded::string(bytes),
        }
    }

    /// The encoding of an element.
    #[inline]
    pub fn element(element: Element<'a>) -> Self {
        match element {
            Element::Integer(value) => Encoded::integer(value),
            Element::Bytes(bytes) => Encoded::new(bytes),
        }
    }

    /// The shortest encoding of an integer.
    #[inline]
    pub fn integer(value: i64) -> Self {
        let mut head = [0; HEAD_BYTES_MAX];
        let bytes = value.to_le_bytes();
        let head_len = match value {
            0..=127 => {
                head[0] = bytes[0];
                1
            }
            -4096..=4095 => {
                head[0] = 0xC0 | (bytes[1] & 0x1F);
                head[1] = bytes[0];
                2
            }
            _ => {
                let (tag, width) = match value {
                    -0x8000..=0x7FFF => (0xF1, 2),
                    -0x80_0000..=0x7F_FFFF => (0xF2, 3),
                    -0x8000_0000..=0x7FFF_FFFF => (0xF3, 4),
                    _ => (0xF4, 8),
                };
                head[0] = tag;
                head[1..].copy_from_slice(&bytes);
                1 + width
            }
        };
        Encoded { head, head_len, body: &[] }
    }

    /// The shortest encoding as a string.
    #[inline]
    pub fn string(bytes: &'a [u8]) -> Self {
        let mut head = [0; HEAD_BYTES_MAX];
        let len = bytes.len();
        let head_len = if len < 64 {
            head[0] = 0x80 | len as u8;
            1
        } else if len < 4096 {
            head[0] = 0xE0 | (len >> 8) as u8;
            head[1] = len as u8;
            2
        } else {
            let len = u32::try_from(len).expect("callers reject elements of 4 GiB");
            head[0] = 0xF0;
            head[1..5].copy_from_slice(&len.to_le_bytes());
            5
        };
        Encoded { head, head_len, body: bytes }
    }

    /// The head's bytes.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len as usize]
    }

    /// The bytes behind the head.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Bytes without a backlen.
    #[inline]
    pub fn size(&self) -> usize {
        self.head_len as usize + self.body.len()
    }

    /// Copies head and body to the start of `to`.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (head, body) = to[..self.size()].split_at_mut(self.head_len as usize);
        // Nearly every head is one byte: a store instead of a call to copy memory.
        if let [only] = head {
            *only = self.head[0];
        } else {
            head.copy_from_slice(self.head());
        }
        body.copy_from_slice(self.body);
    }

    /// Returns whether the element at `at` in `bytes` has exactly this encoding.
    #[inline]
    pub fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let rest = &bytes[at..];
        if rest[0] != self.head[0] {
            return false;
        }
        // An integer consists of its head only: compared as one word, since a comparison of memory took half of a search.
        // Bytes that do not belong to the head are shifted out at the top.
        if let (true, Some(word)) = (self.body.is_empty(), rest.get(1..HEAD_BYTES_MAX)) {
            let (word, other): ([u8; 8], [u8; 8]) = (array(word, 0), array(&self.head, 1));
            let difference = u64::from_le_bytes(word) ^ u64::from_le_bytes(other);
            return difference.checked_shl(72 - 8 * u32::from(self.head_len)).unwrap_or(0) == 0;
        }
        rest.starts_with(self.head()) && rest[self.head_len as usize..].starts_with(self.body)
    }
}

/// Bytes of the element at `at`, without its backlen. The element must be well formed.
#[inline]
pub(crate) fn element_size(bytes: &[u8], at: usize) -> usize {
    let tag = bytes[at];
    if tag & 0xC0 == 0x80 {
        1 + (tag & 0x3F) as usize
    } else if tag < 0x80 {
        1
    } else {
        rare_element_size(bytes, at, tag)
    }
}

/// Lengths of elements by their tags from 0xC0 on, where the tag determines them; 0 where not. Iterations over integers of
/// several widths use this table instead of unpredictable branches.
const SIZES: [u8; 64] = {
    let mut sizes = [0; 64];
    let mut tag = 0;
    while tag < 0x20 {
        sizes[tag] = 2;
        tag += 1;
    }
    (sizes[0x31], sizes[0x32], sizes[0x33], sizes[0x34]) = (3, 4, 5, 9);
    sizes
};

/// Length of an element whose tag, from 0xC0 on, determines it; else 0.
#[inline]
pub(crate) fn size_by_tag(tag: u8) -> usize {
    SIZES[(tag & 0x3F) as usize] as usize
}

#[inline]
fn rare_element_size(bytes: &[u8], at: usize, tag: u8) -> usize {
    match size_by_tag(tag) {
        0 => long_element_size(bytes, at, tag),
        size => size,
    }
}

#[inline]
fn long_element_size(bytes: &[u8], at: usize, tag: u8) -> usize {
    match tag {
        0xE0..=0xEF => 2 + ((((tag & 0xF) as usize) << 8) | bytes[at + 1] as usize),
        0xF0 => 5 + u32::from_le_bytes(array(bytes, at + 1)) as usize,
        _ => panic!("byte {tag:#x} at {at} starts no element"),
    }
}

/// As [`element_size`], for untrusted bytes: returns nothing if the element is malformed or does not end within `bytes`.
pub(crate) fn checked_element_size(bytes: &[u8], at: usize) -> Option<usize> {
    let tag = *bytes.get(at)?;
    let head = match tag {
        0xE0..=0xEF => 2,
        0xF0 => 5,
        0xF5..=0xFF => return None,
        _ => 1,
    };
    if bytes.len() - at < head {
        return None;
    }
    let size = element_size(bytes, at);
    (size <= bytes.len() - at).then_some(size)
}

/// Returns whether the element of `len` bytes at the start of `rest` is encoded as [`Encoded::new`] would encode its text.
#[inline(always)]
pub(crate) fn is_canonical(rest: &[u8], len: usize) -> bool {
    let tag = rest[0];
    // Integers of several widths in an unpredictable order: looked up, not branched on.
    if let (0xF1..=0xF4, Some(word)) = (tag, rest.get(1..9)) {
        let unused_bits = 72 - 8 * len as u32;
        let value = i64::from_le_bytes(array(word, 0)) << unused_bits >> unused_bits;
        let narrower = NARROWER_BITS[(tag & 3) as usize];
        return value << (64 - narrower) >> (64 - narrower) != value;
    }
    match tag {
        0..0x80 => true,
        0x80..0xC0 => match rest.get(1) {
            // Other bytes cannot begin an integer.
            Some(b'-' | b'0'..=b'9') => decimal::parse(&rest[1..len]).is_none(),
            _ => true,
        },
        0xE0..0xF0 => len >= 64 + 2,
        0xF0 => len >= 4096 + 5,
        _ => is_canonical_integer(&rest[..len]),
    }
}

/// Bits of the next shorter encoding of an integer, by the lowest two bits of the tags 0xF1 to 0xF4.
const NARROWER_BITS: [u32; 4] = [32, 13, 16, 24];

/// Returns whether no other tag encodes the integer in fewer bytes: 13, 16, 24 or 32 bits do not hold it.
fn is_canonical_integer(record: &[u8]) -> bool {
    match *record {
        [tag @ 0xC0..=0xDF, low] => {
            // Of the thirteen bits all above the lowest seven are zero.
            !(tag == 0xC0 && low < 0x80)
        }
        [0xF1, a, b] => !(-4096..=4095).contains(&i16::from_le_bytes([a, b])),
        [0xF2, a, b, c] => {
            let value = i32::from_le_bytes([0, a, b, c]) >> 8;
            i32::from(value as i16) != value
        }
        [0xF3, a, b, c, d] => {
            let value = i32::from_le_bytes([a, b, c, d]);
            value << 8 >> 8 != value
        }
        [0xF4, ref bytes @ ..] => bytes.first_chunk().is_some_and(|&bytes| {
            let value = i64::from_le_bytes(bytes);
            i64::from(value as i32) != value
        }),
        _ => false,
    }
}

/// The element at `at` and its bytes without the backlen. The element must be well formed.
#[inline]
pub(crate) fn decode(bytes: &[u8], at: usize) -> (Element<'_>, usize) {
    let tag = bytes[at];
    if tag & 0xC0 == 0x80 {
        let end = at + 1 + (tag & 0x3F) as usize;
        return (Element::Bytes(&bytes[at + 1..end]), end - at);
    }
    if tag < 0x80 {
        return (Element::Integer(tag as i64), 1);
    }
    let size = rare_element_size(bytes, at, tag);
    if let (0xF1..=0xF4, Some(word)) = (tag, bytes.get(at + 1..at + 9)) {
        let unused_bits = 72 - 8 * size as u32;
        return (Element::Integer(i64::from_le_bytes(array(word, 0)) << unused_bits >> unused_bits), size);
    }
    let element = match tag {
        0xC0..=0xDF => {
            let raw = (((tag & 0x1F) as i64) << 8) | bytes[at + 1] as i64;
            Element::Integer(raw << 51 >> 51)
        }
        0xE0..=0xEF => Element::Bytes(&bytes[at + 2..at + size]),
        0xF0 => Element::Bytes(&bytes[at + 5..at + size]),
        0xF1 => Element::Integer(i16::from_le_bytes(array(bytes, at + 1)) as i64),
        0xF2 => {
            let [a, b, c] = array(bytes, at + 1);
            Element::Integer((i32::from_le_bytes([0, a, b, c]) >> 8) as i64)
        }
        0xF3 => Element::Integer(i32::from_le_bytes(array(bytes, at + 1)) as i64),
        _ => Element::Integer(i64::from_le_bytes(array(bytes, at + 1))),
    };
    (element, size)
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

/// Bytes of the backlen of an element of `size` bytes.
#[inline]
pub(crate) fn backlen_size(size: usize) -> usize {
    match size {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        0x20_0000..=0xFFF_FFFF => 4,
        _ => 5,
    }
}

/// The backlen of an element of `size` bytes, at the front of an array, and its length.
#[inline]
pub(crate) fn backlen(size: usize) -> ([u8; 5], usize) {
    let len = backlen_size(size);
    let mut bytes = [0; 5];
    for (i, byte) in bytes[..len].iter_mut().enumerate() {
        let group = (size >> (7 * (len - 1 - i))) as u8 & 0x7F;
        *byte = if i == 0 { group } else { group | 0x80 };
    }
    (bytes, len)
}

/// The size of the element whose backlen ends just before `end`, and the bytes of that backlen.
#[inline]
pub(crate) fn read_backlen(bytes: &[u8], end: usize) -> (usize, usize) {
    let mut size = 0;
    for len in 1..=5 {
        let byte = bytes[end - len];
        size |= ((byte & 0x7F) as usize) << (7 * (len - 1));
        if byte & 0x80 == 0 {
            return (size, len);
        }
    }
    panic!("the backlen before {end} does not end");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `value` under each tag of integers that can hold it.
    fn encodings(value: i64) -> Vec<Vec<u8>> {
        let bytes = value.to_le_bytes();
        let mut all = Vec::new();
        if (0..=127).contains(&value) {
            all.push(vec![bytes[0]]);
        }
        if (-4096..=4095).contains(&value) {
            all.push(vec![0xC0 | (bytes[1] & 0x1F), bytes[0]]);
        }
        for (tag, width) in [(0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8)] {
            let unused_bits = 64 - 8 * width;
            if value << unused_bits >> unused_bits == value {
                all.push([&[tag], &bytes[..width]].concat());
            }
        }
        all
    }

    #[test]
    fn the_shortest_encoding_of_an_integer_is_the_canonical_one() {
        let powers = (0..63).map(|bits| 1i64 << bits);
        let near = powers.flat_map(|power| [power - 1, power, power + 1]);
        for value in near.flat_map(|value| [value, -value]).chain([0, i64::MIN, i64::MAX]) {
            let shortest = Encoded::integer(value);
            for encoding in encodings(value) {
                assert_eq!(decode(&encoding, 0), (Element::Integer(value), encoding.len()));
                assert_eq!(
                    is_canonical(&encoding, encoding.len()),
                    encoding == shortest.head(),
                    "{value} as {encoding:x?}"
                );
            }
        }
    }
}
