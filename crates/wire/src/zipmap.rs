//! The compact hash of servers before version 2.6, which their files still hold.
//!
//! ```text
//!  | fields, 254 for more than 253 | length | field | length | free | value | free bytes |... | 255 |
//!  length: 1 byte up to 253, else 254 + 4 bytes, little-endian
//! ```

/// Bytes that no server wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

const BIG: u8 = 254;
const END: u8 = 255;

/// All fields with their values, after every byte that a reader would trust has been checked.
pub fn parse(bytes: &[u8]) -> Result<Vec<(&[u8], &[u8])>, Corrupt> {
    let (&count, rest) = bytes.split_first().ok_or(Corrupt)?;
    let (&END, mut rest) = rest.split_last().ok_or(Corrupt)? else { return Err(Corrupt) };
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let (field, after) = {
            let (len, after) = length(rest)?;
            after.split_at_checked(len).ok_or(Corrupt)?
        };
        let (len, after) = length(after)?;
        let (&free, after) = after.split_first().ok_or(Corrupt)?;
        let (value, after) = after.split_at_checked(len).ok_or(Corrupt)?;
        (_, rest) = after.split_at_checked(free as usize).ok_or(Corrupt)?;
        pairs.push((field, value));
    }
    let counted = count == BIG || count as usize == pairs.len();
    if counted && !pairs.is_empty() { Ok(pairs) } else { Err(Corrupt) }
}

fn length(bytes: &[u8]) -> Result<(usize, &[u8]), Corrupt> {
    match bytes {
        [BIG, a, b, c, d, rest @ ..] => match u32::from_le_bytes([*a, *b, *c, *d]) as usize {
            0..254 => Err(Corrupt),
            len => Ok((len, rest)),
        },
        [BIG | END, ..] | [] => Err(Corrupt),
        [len, rest @ ..] => Ok((*len as usize, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_values_are_read() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";
        let expected: [(&[u8], &[u8]); 2] = [(b"foo", b"bar"), (b"hello", b"world")];
        assert_eq!(parse(bytes).unwrap(), expected);
    }

    #[test]
    fn truncated_and_damaged_maps_are_refused_or_read() {
        let long =
            [&b"\x02\x03foo\xfe\x2c\x01\x00\x00\x00"[..], &[b'v'; 300], b"\x01x\x01\x00y\xff"].concat();
        assert_eq!(parse(&long).unwrap().len(), 2);
        for len in 0..long.len() {
            assert_eq!(parse(&long[..len]), Err(Corrupt));
        }
        for at in 0..long.len() {
            for value in 0..=255 {
                let mut damaged = long.clone();
                damaged[at] = value;
                let _ = parse(&damaged);
            }
        }
    }
}
