//! The compact list of servers before version 7, which their files still hold.
//!
//! ```text
//!  | bytes u32 | offset of the last entry u32 | entries u16 | entry... | 255 |       little-endian
//!  entry: length of the one before, 1 byte or 254 + 4 bytes | encoding | content
//!  encoding: 00llllll                       up to 63 bytes
//!            01llllll llllllll              up to 14 bits of length
//!            10000000 + 4 bytes             big-endian length
//!            11000000, 11010000, 11100000   integers of 2, 4 and 8 bytes
//!            11110000, 11111110             integers of 3 bytes and 1
//!            11110001..11111101             0 to 12
//! ```

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// A number, whose decimal text is the element.
    Integer(i64),
    /// Any other bytes.
    Bytes(&'a [u8]),
}

/// Bytes that no server wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

const HEADER_BYTES: usize = 10;
const END: u8 = 255;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// All elements, after every byte that a reader would trust has been checked.
pub fn parse(bytes: &[u8]) -> Result<Vec<Element<'_>>, Corrupt> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Corrupt)?;
    let [a, b, c, d, e, f, g, h, i, j] = *header;
    let (total, last) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let count = u16::from_le_bytes([i, j]);
    let (&END, mut rest) = rest.split_last().ok_or(Corrupt)? else { return Err(Corrupt) };
    if total as usize != bytes.len() {
        return Err(Corrupt);
    }
    let mut elements = Vec::new();
    let (mut previous_len, mut last_at) = (0, HEADER_BYTES);
    while !rest.is_empty() {
        last_at = bytes.len() - 1 - rest.len();
        let (element, after) = entry(rest, previous_len)?;
        previous_len = rest.len() - after.len();
        rest = after;
        elements.push(element);
    }
    let counted = count == COUNT_UNKNOWN || count as usize == elements.len();
    if counted && last as usize == last_at { Ok(elements) } else { Err(Corrupt) }
}

fn take(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8]), Corrupt> {
    bytes.split_at_checked(len).ok_or(Corrupt)
}

/// The entry in front, and what follows it.
fn entry(bytes: &[u8], previous_len: usize) -> Result<(Element<'_>, &[u8]), Corrupt> {
    let (told_len, rest) = match bytes {
        [254, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [254 | END, ..] | [] => return Err(Corrupt),
        [len, rest @ ..] => (*len as usize, rest),
    };
    if told_len != previous_len {
        return Err(Corrupt);
    }
    let (&encoding, rest) = rest.split_first().ok_or(Corrupt)?;
    let len = match encoding {
        0x00..=0x3f => encoding as usize,
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first().ok_or(Corrupt)?;
            return text(rest, (encoding as usize & 0x3f) << 8 | low as usize);
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or(Corrupt)?;
            return text(rest, u32::from_be_bytes(*len) as usize);
        }
        _ => return integer(encoding, rest),
    };
    text(rest, len)
}

fn text(bytes: &[u8], len: usize) -> Result<(Element<'_>, &[u8]), Corrupt> {
    let (text, rest) = take(bytes, len)?;
    Ok((Element::Bytes(text), rest))
}

fn integer(encoding: u8, bytes: &[u8]) -> Result<(Element<'_>, &[u8]), Corrupt> {
    let width = match encoding {
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => return Ok((Element::Integer(i64::from(encoding) - 0xf1), bytes)),
        _ => return Err(Corrupt),
    };
    let (digits, rest) = take(bytes, width)?;
    // Put at the top of eight bytes, so that the shift down brings the sign with it.
    let mut word = [0; 8];
    word[8 - width..].copy_from_slice(digits);
    Ok((Element::Integer(i64::from_le_bytes(word) >> (64 - 8 * width)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries without the length of the one before, which is added here.
    fn list(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let (mut previous_len, mut last) = (0, HEADER_BYTES);
        for entry in entries {
            last = bytes.len();
            if previous_len < 254 {
                bytes.push(previous_len as u8);
            } else {
                bytes.push(254);
                bytes.extend_from_slice(&(previous_len as u32).to_le_bytes());
            }
            bytes.extend_from_slice(entry);
            previous_len = bytes.len() - last;
        }
        bytes.push(END);
        let total = bytes.len() as u32;
        bytes[..4].copy_from_slice(&total.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes
    }

    fn all_encodings() -> Vec<u8> {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let longest = [&[0x80, 0, 0, 0, 2][..], b"yz"].concat();
        list(&[
            b"\x03abc",
            &long,
            &longest,
            b"\xc0\x00\x80",
            b"\xd0\xff\xff\xff\xff",
            b"\xe0\x01\x00\x00\x00\x00\x00\x00\x80",
            b"\xf0\xff\xff\xff",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
        ])
    }

    #[test]
    fn every_encoding_is_read() {
        let bytes = all_encodings();
        let expected = [
            Element::Bytes(b"abc"),
            Element::Bytes(&[b'x'; 300]),
            Element::Bytes(b"yz"),
            Element::Integer(-32768),
            Element::Integer(-1),
            Element::Integer(i64::MIN + 1),
            Element::Integer(-1),
            Element::Integer(-128),
            Element::Integer(0),
            Element::Integer(12),
        ];
        assert_eq!(parse(&bytes).unwrap(), expected);
        assert_eq!(parse(&list(&[])).unwrap(), []);
    }

    #[test]
    fn truncated_and_damaged_lists_are_refused_or_read() {
        let bytes = all_encodings();
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len]), Err(Corrupt));
        }
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = parse(&damaged);
            }
        }
    }
}
