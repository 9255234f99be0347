//! One value of a record: a text in the shortest of several forms, each of which prints exactly that text again. A value
//! says where it ends, so that values need no table of their places.
//!
//! ```text
//!   first byte | then                                        | text
//!  ------------|---------------------------------------------|--------------------------------------------------
//!     0 to 199 |                                             | the digits of this number
//!   200 to 207 | integer of 1 to 8 bytes                     | its decimal digits
//!   208 to 209 | 16 bytes                                    | UUID, in lower or upper case
//!   210 to 211 | digits u8, two digits a byte                | hexadecimal digits, in lower or upper case
//!          212 | 4 bytes                                     | IPv4 address
//!          213 | scale << 4 | bytes - 1, integer             | decimal fraction with `scale` digits behind its point
//!          214 | length u8, bytes                            | the bytes
//!          215 | length u32, bytes                           | the bytes
//!   216 to 255 | 0 to 39 bytes                               | the bytes
//! ```
//! Numbers are little endian, integers in two's complement of as few bytes as hold them.
//!
//! Invariants:
//! 1. [`Encoded::of`] chooses the shortest form whose text is exactly the given one, and the bytes if none is shorter.
//!    Equal texts therefore have equal forms.
//! 2. The length of a form follows from its first two bytes, or from five if the first is 215.

use crate::decimal;

/// Most bytes of the text of a value that is not stored as its bytes.
pub const TYPED_TEXT_BYTES_MAX: usize = 255;

const INTEGER: u8 = 200;
const UUID_LOWER: u8 = 208;
const UUID_UPPER: u8 = 209;
const HEX_LOWER: u8 = 210;
const HEX_UPPER: u8 = 211;
const IPV4: u8 = 212;
const FRACTION: u8 = 213;
const BYTES_U8: u8 = 214;
const BYTES_U32: u8 = 215;
const BYTES_SHORT: u8 = 216;
const SHORT_BYTES_MAX: usize = (u8::MAX - BYTES_SHORT) as usize;
const UUID_TEXT_BYTES: usize = 36;
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];
const SCALE_MAX: usize = 15;
/// Each number of this many digits is below 2^64.
const NUMBER_DIGITS_MAX: usize = 19;
/// Longest head of a form: of a UUID.
const HEAD_BYTES_MAX: usize = 17;

/// A value, borrowed from the bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer in decimal digits.
    Integer(i64),
    /// `mantissa` divided by ten to the power of `scale`, with all `scale` digits (1 to 15) behind the point.
    Fraction {
        /// All digits of the text, signed; 0 has no sign.
        mantissa: i64,
        /// Digits behind the point.
        scale: u8,
    },
    /// A UUID.
    Uuid {
        /// Its 16 bytes, in the order of the text.
        bytes: &'a [u8],
        /// Whether its letters are in upper case.
        is_upper: bool,
    },
    /// Hexadecimal digits.
    Hex {
        /// Two digits each, the first in the high half; the low half of the last is 0 if the number of digits is odd.
        bytes: &'a [u8],
        /// Number of digits.
        digits: u8,
        /// Whether its letters are in upper case.
        is_upper: bool,
    },
    /// An IPv4 address.
    Ipv4([u8; 4]),
    /// Any bytes.
    Bytes(&'a [u8]),
}

/// A text in the form in which records store it: a head, then part of the text itself or nothing.
#[derive(Clone, Debug)]
pub struct Encoded<'t> {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// What follows the head: the text, digits to pack in pairs, or nothing.
    rest: Rest<'t>,
}

#[derive(Clone, Copy, Debug)]
enum Rest<'t> {
    Nothing,
    Bytes(&'t [u8]),
    Digits(&'t [u8]),
}

impl<'t> Encoded<'t> {
    /// The shortest form of a text.
    ///
    /// # Panics
    ///
    /// If the text has 4 GiB or more.
    #[inline]
    pub fn of(text: &'t [u8]) -> Self {
        match text.first() {
            Some(b'0'..=b'9' | b'-' | b'a'..=b'f' | b'A'..=b'F') => Encoded::of_typed(text),
            _ => Encoded::bytes(text),
        }
    }

    fn of_typed(text: &'t [u8]) -> Self {
        let is_number = matches!(text[0], b'0'..=b'9' | b'-');
        let number = if is_number { number(text).or_else(|| address(text)) } else { None };
        let plain = Encoded::bytes(text);
        match number.or_else(|| digits(text)) {
            Some(typed) if typed.len() < plain.len() => typed,
            _ => plain,
        }
    }

    #[inline]
    fn new(head: &[u8], rest: Rest<'t>) -> Self {
        let mut own = [0; HEAD_BYTES_MAX];
        own[..head.len()].copy_from_slice(head);
        Encoded { head: own, head_bytes: head.len() as u8, rest }
    }

    #[inline]
    fn bytes(text: &'t [u8]) -> Self {
        let rest = Rest::Bytes(text);
        match text.len() {
            len @ 0..=SHORT_BYTES_MAX => Encoded::new(&[BYTES_SHORT + len as u8], rest),
            len @ ..=255 => Encoded::new(&[BYTES_U8, len as u8], rest),
            len => {
                let [a, b, c, d] = u32::try_from(len).expect("texts of records are short").to_le_bytes();
                Encoded::new(&[BYTES_U32, a, b, c, d], rest)
            }
        }
    }

    /// Bytes of the form.
    #[inline]
    pub fn len(&self) -> usize {
        let rest = match self.rest {
            Rest::Nothing => 0,
            Rest::Bytes(bytes) => bytes.len(),
            Rest::Digits(digits) => digits.len().div_ceil(2),
        };
        self.head_bytes as usize + rest
    }

    /// Whether the value at `at` is this text.
    #[inline]
    pub fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        if bytes[at] != self.head[0] {
            return false;
        }
        let Some(behind) = bytes[at..].strip_prefix(&self.head[..self.head_bytes as usize]) else {
            return false;
        };
        match self.rest {
            Rest::Nothing => true,
            Rest::Bytes(rest) => behind.starts_with(rest),
            Rest::Digits(digits) => {
                behind.iter().zip(digits.chunks(2)).all(|(byte, digits)| *byte == pack(digits))
            }
        }
    }

    /// Writes the form over the beginning of `to`, which must have room for it.
    #[inline]
    pub fn write_to(&self, to: &mut [u8]) {
        let (head, behind) = to.split_at_mut(self.head_bytes as usize);
        head.copy_from_slice(&self.head[..self.head_bytes as usize]);
        match self.rest {
            Rest::Nothing => {}
            Rest::Bytes(bytes) => behind[..bytes.len()].copy_from_slice(bytes),
            Rest::Digits(digits) => {
                behind.iter_mut().zip(digits.chunks(2)).for_each(|(byte, digits)| *byte = pack(digits));
            }
        }
    }

    /// Writes the form behind `to`.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.head[..self.head_bytes as usize]);
        match self.rest {
            Rest::Nothing => {}
            Rest::Bytes(bytes) => to.extend_from_slice(bytes),
            Rest::Digits(digits) => to.extend(digits.chunks(2).map(pack)),
        }
    }
}

/// Two hexadecimal digits as a byte; a missing second one is 0.
fn pack(digits: &[u8]) -> u8 {
    let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { (digit | 0x20) - b'a' + 10 };
    (value(digits[0]) << 4) | digits.get(1).copied().map_or(0, value)
}

/// Number of bytes that hold `value` in two's complement.
fn integer_bytes(value: i64) -> usize {
    let significant = 65 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    significant.div_ceil(8) as usize
}

/// An integer or a fraction.
fn number<'t>(text: &[u8]) -> Option<Encoded<'t>> {
    let is_negative = text[0] == b'-';
    let digits = &text[usize::from(is_negative)..];
    // As many digits as are below 2^64 in any case, and a point.
    if digits.is_empty() || digits.len() > NUMBER_DIGITS_MAX + 1 {
        return None;
    }
    let (mut magnitude, mut point) = (0u64, None);
    for (index, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(index),
            _ => return None,
        }
    }
    let whole = point.unwrap_or(digits.len());
    let is_too_long = point.is_none() && whole > NUMBER_DIGITS_MAX;
    let has_leading_zero = whole > 1 && digits[0] == b'0';
    if whole == 0 || is_too_long || has_leading_zero || is_negative && magnitude == 0 {
        return None;
    }
    let value = match is_negative {
        true => 0i64.checked_sub_unsigned(magnitude)?,
        false => i64::try_from(magnitude).ok()?,
    };
    let bytes = integer_bytes(value);
    match point {
        None if (0..i64::from(INTEGER)).contains(&value) => Some(Encoded::new(&[value as u8], Rest::Nothing)),
        None => {
            let mut head = [INTEGER + (bytes - 1) as u8; 9];
            head[1..].copy_from_slice(&value.to_le_bytes());
            Some(Encoded::new(&head[..1 + bytes], Rest::Nothing))
        }
        Some(_) => {
            let scale = digits.len() - whole - 1;
            if !(1..=SCALE_MAX).contains(&scale) {
                return None;
            }
            let mut head = [FRACTION; 10];
            head[1] = ((scale << 4) | (bytes - 1)) as u8;
            head[2..].copy_from_slice(&value.to_le_bytes());
            Some(Encoded::new(&head[..2 + bytes], Rest::Nothing))
        }
    }
}

/// An IPv4 address: four numbers to 255 without leading zeros.
fn address<'t>(text: &[u8]) -> Option<Encoded<'t>> {
    if !(7..=15).contains(&text.len()) {
        return None;
    }
    let (mut head, mut parts) = ([IPV4; 5], 0);
    for part in text.split(|&byte| byte == b'.') {
        let value = decimal::parse(part).filter(|value| *value >= 0);
        let value = value.and_then(|value| u8::try_from(value).ok())?;
        *head.get_mut(1 + parts)? = value;
        parts += 1;
    }
    (parts == 4).then(|| Encoded::new(&head, Rest::Nothing))
}

/// A UUID or hexadecimal digits whose letters have one case.
fn digits(text: &[u8]) -> Option<Encoded<'_>> {
    let is_uuid = text.len() == UUID_TEXT_BYTES && UUID_DASHES.iter().all(|&at| text[at] == b'-');
    if !is_uuid && !(4..=TYPED_TEXT_BYTES_MAX).contains(&text.len()) {
        return None;
    }
    let (mut has_lower, mut has_upper) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {}
            b'a'..=b'f' => has_lower = true,
            b'A'..=b'F' => has_upper = true,
            b'-' if is_uuid && UUID_DASHES.contains(&at) => {}
            _ => return None,
        }
    }
    if has_lower && has_upper {
        return None;
    }
    if !is_uuid {
        let form = if has_upper { HEX_UPPER } else { HEX_LOWER };
        return Some(Encoded::new(&[form, text.len() as u8], Rest::Digits(text)));
    }
    let mut head = [if has_upper { UUID_UPPER } else { UUID_LOWER }; 17];
    let mut pairs = [0; 32];
    for (pair, digit) in pairs.iter_mut().zip(text.iter().filter(|&&byte| byte != b'-')) {
        *pair = *digit;
    }
    for (byte, pair) in head[1..].iter_mut().zip(pairs.chunks(2)) {
        *byte = pack(pair);
    }
    Some(Encoded::new(&head, Rest::Nothing))
}

/// The index behind the value at `at`.
///
/// # Panics
///
/// If the bytes end within the first bytes of the value.
#[inline]
pub fn end(bytes: &[u8], at: usize) -> usize {
    let fixed = FIXED_BYTES[bytes[at] as usize];
    if fixed > 0 { at + fixed as usize } else { end_of_counted(bytes, at) }
}

/// Bytes of the forms whose length follows from their first byte; 0 for others.
const FIXED_BYTES: [u8; 256] = {
    let mut lengths = [0; 256];
    let mut first = 0;
    while first < 256 {
        lengths[first] = match first as u8 {
            0..INTEGER => 1,
            byte @ INTEGER..UUID_LOWER => 2 + (byte - INTEGER),
            UUID_LOWER | UUID_UPPER => 17,
            IPV4 => 5,
            HEX_LOWER | HEX_UPPER | FRACTION | BYTES_U8 | BYTES_U32 => 0,
            byte @ BYTES_SHORT.. => 1 + (byte - BYTES_SHORT),
        };
        first += 1;
    }
    lengths
};

fn end_of_counted(bytes: &[u8], at: usize) -> usize {
    let second = bytes[at + 1] as usize;
    at + match bytes[at] {
        HEX_LOWER | HEX_UPPER => 2 + second.div_ceil(2),
        FRACTION => 3 + (second & 7),
        BYTES_U8 => 2 + second,
        _ => 5 + long_bytes(bytes, at),
    }
}

fn long_bytes(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]]) as usize
}

/// An integer of up to 8 bytes, its sign extended.
fn integer(bytes: &[u8]) -> i64 {
    let is_negative = bytes.last().is_some_and(|last| *last >= 0x80);
    let mut all = [if is_negative { 0xFF } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

impl<'a> Value<'a> {
    /// The value at `at`, and the index behind it.
    ///
    /// # Panics
    ///
    /// If the bytes end within the value.
    #[inline(always)]
    pub fn at(bytes: &'a [u8], at: usize) -> (Value<'a>, usize) {
        if bytes[at] >= BYTES_SHORT {
            let end = at + 1 + (bytes[at] - BYTES_SHORT) as usize;
            return (Value::Bytes(&bytes[at + 1..end]), end);
        }
        Value::other_at(bytes, at)
    }

    /// [`Value::at`] for all but short bytes.
    fn other_at(bytes: &'a [u8], at: usize) -> (Value<'a>, usize) {
        let end = end(bytes, at);
        let after = |head: usize| &bytes[at + head..end];
        let first = bytes[at];
        let value = match first {
            0..INTEGER => Value::Integer(first.into()),
            INTEGER..UUID_LOWER => Value::Integer(integer(after(1))),
            UUID_LOWER | UUID_UPPER => Value::Uuid { bytes: after(1), is_upper: first == UUID_UPPER },
            HEX_LOWER | HEX_UPPER => {
                Value::Hex { bytes: after(2), digits: bytes[at + 1], is_upper: first == HEX_UPPER }
            }
            IPV4 => Value::Ipv4([bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]]),
            FRACTION => Value::Fraction { mantissa: integer(after(2)), scale: bytes[at + 1] >> 4 },
            BYTES_U8 => Value::Bytes(after(2)),
            BYTES_U32 => Value::Bytes(after(5)),
            BYTES_SHORT.. => Value::Bytes(after(1)),
        };
        (value, end)
    }

    /// The text. `buffer` holds it if it is not stored as bytes.
    #[inline]
    pub fn text<'b>(&self, buffer: &'b mut TextBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        let len = match *self {
            Value::Bytes(bytes) => return bytes,
            Value::Integer(value) => buffer.put_integer(value),
            Value::Fraction { mantissa, scale } => buffer.put_fraction(mantissa, scale.into()),
            Value::Uuid { bytes, is_upper } => buffer.put_uuid(bytes, is_upper),
            Value::Hex { bytes, digits, is_upper } => buffer.put_hex(bytes, digits.into(), is_upper),
            Value::Ipv4(parts) => buffer.put_ipv4(parts),
        };
        &buffer.0[..len]
    }

    /// The integer, if the text is one of 64 bits in decimal digits: all of these are typed.
    #[inline]
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Value::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// Bytes of the text.
    pub fn text_bytes(&self) -> usize {
        match *self {
            Value::Bytes(bytes) => bytes.len(),
            Value::Integer(value) => decimal::text_len(value),
            Value::Fraction { mantissa, scale } => {
                let digits = mantissa.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                usize::from(mantissa < 0) + digits.max(scale as usize + 1) + 1
            }
            Value::Uuid { .. } => UUID_TEXT_BYTES,
            Value::Hex { digits, .. } => digits.into(),
            Value::Ipv4(parts) => {
                parts.iter().map(|part| decimal::text_len((*part).into())).sum::<usize>() + 3
            }
        }
    }
}

/// Room for the text of a value that is not stored as its bytes.
#[derive(Clone, Debug)]
pub struct TextBuffer([u8; TYPED_TEXT_BYTES_MAX]);

impl Default for TextBuffer {
    fn default() -> Self {
        TextBuffer([0; TYPED_TEXT_BYTES_MAX])
    }
}

impl TextBuffer {
    fn put(&mut self, at: usize, text: &[u8]) -> usize {
        self.0[at..at + text.len()].copy_from_slice(text);
        at + text.len()
    }

    fn put_integer(&mut self, value: i64) -> usize {
        self.put(0, decimal::format(value, &mut [0; decimal::TEXT_BYTES_MAX]))
    }

    fn put_fraction(&mut self, mantissa: i64, scale: usize) -> usize {
        let mut digits = [0; decimal::TEXT_BYTES_MAX];
        let digits = decimal::format(mantissa, &mut digits);
        let (sign, digits) = digits.split_at(usize::from(mantissa < 0));
        let mut at = self.put(0, sign);
        let zeros = (scale + 1).saturating_sub(digits.len());
        at = self.put(at, &[b'0'; SCALE_MAX + 1][..zeros]);
        at = self.put(at, digits);
        self.0.copy_within(at - scale..at, at - scale + 1);
        self.0[at - scale] = b'.';
        at + 1
    }

    fn put_hex(&mut self, bytes: &[u8], digits: usize, is_upper: bool) -> usize {
        let table = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        for (at, digit) in self.0[..digits].iter_mut().enumerate() {
            let byte = bytes[at / 2];
            *digit = table[(if at % 2 == 0 { byte >> 4 } else { byte & 15 }) as usize];
        }
        digits
    }

    fn put_uuid(&mut self, bytes: &[u8], is_upper: bool) -> usize {
        self.put_hex(bytes, 32, is_upper);
        // From the last group of digits on, each moves behind the dashes before it.
        for (dashes, at) in UUID_DASHES.iter().enumerate().rev() {
            let from = at - dashes;
            let to = UUID_DASHES.get(dashes + 1).map_or(32, |next| next - dashes - 1);
            self.0.copy_within(from..to, at + 1);
            self.0[*at] = b'-';
        }
        UUID_TEXT_BYTES
    }

    fn put_ipv4(&mut self, parts: [u8; 4]) -> usize {
        let mut at = 0;
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                at = self.put(at, b".");
            }
            at = self.put(at, decimal::format(part.into(), &mut [0; decimal::TEXT_BYTES_MAX]));
        }
        at
    }
}

#[cfg(test)]
mod tests;
