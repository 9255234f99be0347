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
/// Bytes of the text of a UUID.
pub const UUID_TEXT_BYTES: usize = 36;
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
        match text {
            [digit @ b'0'..=b'9'] => Encoded::new(&[digit - b'0'], Rest::Nothing),
            [b'0'..=b'9' | b'-' | b'a'..=b'f' | b'A'..=b'F', ..] => Encoded::of_typed(text),
            _ => Encoded::bytes(text),
        }
    }

    /// The form of an integer's decimal digits, which is always shorter than they are.
    #[inline]
    pub fn of_integer(value: i64) -> Self {
        let bytes = integer_bytes(value);
        let mut head = [0; HEAD_BYTES_MAX];
        let head_bytes = if (0..i64::from(INTEGER)).contains(&value) {
            head[0] = value as u8;
            1
        } else {
            head[0] = INTEGER + (bytes - 1) as u8;
            head[1..9].copy_from_slice(&value.to_le_bytes());
            // Behind the form its array is zero.
            head[1 + bytes..].fill(0);
            1 + bytes as u8
        };
        Encoded { head, head_bytes, rest: Rest::Nothing }
    }

    fn of_typed(text: &'t [u8]) -> Self {
        // Each of these forms is shorter than the bytes.
        if let Some(value) = short_integer(text) {
            return Encoded::of_integer(value);
        }
        if text.len() == UUID_TEXT_BYTES && text[UUID_DASHES[0]] == b'-' {
            return digits(text).unwrap_or_else(|| Encoded::bytes(text));
        }
        let is_number = matches!(text[0], b'0'..=b'9' | b'-');
        let number = if is_number { number(text).or_else(|| address(text)) } else { None };
        number.or_else(|| digits(text)).unwrap_or_else(|| Encoded::bytes(text))
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
                let (eights, rest) = digits.as_chunks();
                let (words, behind) = behind.split_at_mut(4 * eights.len());
                for (word, digits) in words.as_chunks_mut().0.iter_mut().zip(eights) {
                    *word = pack_eight(*digits);
                }
                behind.iter_mut().zip(rest.chunks(2)).for_each(|(byte, digits)| *byte = pack(digits));
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

/// A text to be searched for: its form, whose first and last bytes are compared as words.
#[derive(Clone, Debug)]
pub struct Needle<'t> {
    form: Encoded<'t>,
    /// The first bytes of the form, at most eight.
    first: u64,
    first_mask: u64,
    /// The last eight bytes of a form of more; texts that differ often differ in these.
    last: u64,
    /// Length of the form in bytes if `first` and `last` hold its first and last bytes; otherwise 0.
    len: usize,
}

const WORD_BYTES: usize = size_of::<u64>();

impl<'t> Needle<'t> {
    /// A text in its form.
    #[inline]
    pub fn of(text: &'t [u8]) -> Self {
        let form = Encoded::of(text);
        let head_bytes = form.head_bytes as usize;
        // Behind the head its array is zero.
        let head = first_word(&form.head);
        let (mut first, mut known_bytes, mut last, mut len) = (head, head_bytes, 0, form.len());
        match form.rest {
            Rest::Nothing if len > WORD_BYTES => last = first_word(&form.head[len - WORD_BYTES..]),
            Rest::Nothing => {}
            Rest::Digits(_) => len = 0,
            Rest::Bytes(bytes) => {
                first |= first_word(bytes) << (8 * head_bytes);
                known_bytes += bytes.len();
                match bytes.last_chunk() {
                    Some(word) => last = u64::from_le_bytes(*word),
                    None if len > WORD_BYTES => len = 0,
                    None => {}
                }
            }
        }
        let first_mask = if known_bytes < WORD_BYTES { !(u64::MAX << (8 * known_bytes)) } else { u64::MAX };
        Needle { form, first, first_mask, last, len }
    }

    /// The form.
    #[inline]
    pub fn form(&self) -> &Encoded<'t> {
        &self.form
    }

    /// Whether the value at `at` is this text.
    #[inline(always)]
    pub fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let word_at =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|word| u64::from_le_bytes(*word));
        if self.len > WORD_BYTES {
            return word_at(at + self.len - WORD_BYTES) == Some(self.last)
                && word_at(at) == Some(self.first)
                && (self.len <= 2 * WORD_BYTES || self.form.is_at(bytes, at));
        }
        match word_at(at) {
            Some(word) => {
                (word ^ self.first) & self.first_mask == 0 && (self.len > 0 || self.form.is_at(bytes, at))
            }
            None => self.form.is_at(bytes, at),
        }
    }
}

/// The first eight bytes as a little-endian word; missing ones are 0.
#[inline]
pub(super) fn first_word(bytes: &[u8]) -> u64 {
    match *bytes {
        [] => 0,
        [a] => a.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]).into(),
        _ if bytes.len() >= WORD_BYTES => {
            u64::from_le_bytes(*bytes.first_chunk().expect("there are as many bytes"))
        }
        _ => {
            let half = |half: Option<&[u8; 4]>| u32::from_le_bytes(*half.expect("there are 4 to 7 bytes"));
            let (first, last) = (half(bytes.first_chunk()), half(bytes.last_chunk()));
            u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4))
        }
    }
}

/// Two hexadecimal digits as a byte; a missing second one is 0.
fn pack(digits: &[u8]) -> u8 {
    let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { (digit | 0x20) - b'a' + 10 };
    (value(digits[0]) << 4) | digits.get(1).copied().map_or(0, value)
}

/// Number of bytes that hold `value` in two's complement.
pub(super) fn integer_bytes(value: i64) -> usize {
    let significant = 65 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    significant.div_ceil(8) as usize
}

/// An integer of few digits.
#[inline]
fn short_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let has_leading_zero = digits.first() == Some(&b'0') && (is_negative || digits.len() > 1);
    if digits.is_empty() || digits.len() >= NUMBER_DIGITS_MAX || has_leading_zero {
        return None;
    }
    let mut magnitude = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + i64::from(digit);
    }
    Some(if is_negative { -magnitude } else { magnitude })
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
    match point {
        None => Some(Encoded::of_integer(value)),
        Some(_) => {
            let bytes = integer_bytes(value);
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

/// Kinds of bytes in texts of hexadecimal digits.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const OTHER: u8 = 4;
const KINDS: [u8; 256] = {
    let mut kinds = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        match byte as u8 {
            b'0'..=b'9' => kinds[byte] = 0,
            b'a'..=b'f' => kinds[byte] = LOWER,
            b'A'..=b'F' => kinds[byte] = UPPER,
            _ => {}
        }
        byte += 1;
    }
    kinds
};

/// Whether letters among hexadecimal digits are in upper case; `None` if they are in both, or there are other bytes.
#[inline]
fn is_upper(digits: &[u8]) -> Option<bool> {
    match digits.iter().fold(0, |kinds, &byte| kinds | KINDS[byte as usize]) {
        0 | LOWER => Some(false),
        UPPER => Some(true),
        _ => None,
    }
}

/// A UUID or hexadecimal digits whose letters have one case.
fn digits(text: &[u8]) -> Option<Encoded<'_>> {
    // Most other texts end here.
    is_upper(text.first_chunk::<4>()?)?;
    if let Some(text) = text.as_array()
        && UUID_DASHES.iter().all(|&at| text[at] == b'-')
    {
        return uuid(text);
    }
    if text.len() > TYPED_TEXT_BYTES_MAX {
        return None;
    }
    let form = if is_upper(text)? { HEX_UPPER } else { HEX_LOWER };
    Some(Encoded::new(&[form, text.len() as u8], Rest::Digits(text)))
}

/// A UUID, whose dashes are at their places.
fn uuid<'t>(text: &[u8; UUID_TEXT_BYTES]) -> Option<Encoded<'t>> {
    let mut digits = [0; 32];
    digits[..8].copy_from_slice(&text[..8]);
    digits[8..12].copy_from_slice(&text[9..13]);
    digits[12..16].copy_from_slice(&text[14..18]);
    digits[16..20].copy_from_slice(&text[19..23]);
    digits[20..].copy_from_slice(&text[24..]);
    let mut head = [if is_upper(&digits)? { UUID_UPPER } else { UUID_LOWER }; 17];
    for (bytes, digits) in head[1..].as_chunks_mut().0.iter_mut().zip(digits.as_chunks().0) {
        *bytes = pack_eight(*digits);
    }
    Some(Encoded::new(&head, Rest::Nothing))
}

/// Eight hexadecimal digits as four bytes.
#[inline]
fn pack_eight(digits: [u8; 8]) -> [u8; 4] {
    let word = u64::from_le_bytes(digits);
    // Of a letter the lower half is one to six, and bit 6 is set.
    let values = (word & 0x0F0F_0F0F_0F0F_0F0F) + 9 * (word >> 6 & 0x0101_0101_0101_0101);
    let bytes = (values << 4 | values >> 8) & 0x00FF_00FF_00FF_00FF;
    let pairs = (bytes | bytes >> 8) & 0x0000_FFFF_0000_FFFF;
    ((pairs | pairs >> 16) as u32).to_le_bytes()
}

/// The text of the UUID with these 16 bytes.
#[inline]
pub fn uuid_text(bytes: &[u8], is_upper: bool) -> [u8; UUID_TEXT_BYTES] {
    let bytes: &[u8; 16] = bytes.first_chunk().expect("a UUID has 16 bytes");
    let (mut digits, mut text) = ([0; 32], [b'-'; UUID_TEXT_BYTES]);
    for (eight, four) in digits.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        *eight = unpack_eight(*four, is_upper);
    }
    text[..8].copy_from_slice(&digits[..8]);
    text[9..13].copy_from_slice(&digits[8..12]);
    text[14..18].copy_from_slice(&digits[12..16]);
    text[19..23].copy_from_slice(&digits[16..20]);
    text[24..].copy_from_slice(&digits[20..]);
    text
}

/// The eight hexadecimal digits of four bytes.
#[inline]
fn unpack_eight(bytes: [u8; 4], is_upper: bool) -> [u8; 8] {
    let word = u64::from(u32::from_le_bytes(bytes));
    let pairs = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    let bytes = (pairs | pairs << 8) & 0x00FF_00FF_00FF_00FF;
    let values = (bytes >> 4 | bytes << 8) & 0x0F0F_0F0F_0F0F_0F0F;
    let letters = (values + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let behind_nine = u64::from(if is_upper { b'A' } else { b'a' } - b'9' - 1);
    (values + 0x3030_3030_3030_3030 + letters * behind_nine).to_le_bytes()
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

/// Whether a value with this first byte is an integer or a UUID.
#[inline]
pub fn is_data(first: u8) -> bool {
    first <= UUID_UPPER
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

/// An integer of `len` bytes at `at`, one to eight, its sign extended.
#[inline]
pub(super) fn integer_at(bytes: &[u8], at: usize, len: usize) -> i64 {
    let rest = &bytes[at..];
    let word = match rest.first_chunk() {
        Some(word) => i64::from_le_bytes(*word),
        None => first_word(rest) as i64,
    };
    let unused_bits = u64::BITS as usize - 8 * len;
    word << unused_bits >> unused_bits
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
            INTEGER..UUID_LOWER => Value::Integer(integer_at(bytes, at + 1, end - at - 1)),
            UUID_LOWER | UUID_UPPER => Value::Uuid { bytes: after(1), is_upper: first == UUID_UPPER },
            HEX_LOWER | HEX_UPPER => {
                Value::Hex { bytes: after(2), digits: bytes[at + 1], is_upper: first == HEX_UPPER }
            }
            IPV4 => Value::Ipv4([bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]]),
            FRACTION => {
                let mantissa = integer_at(bytes, at + 2, end - at - 2);
                Value::Fraction { mantissa, scale: bytes[at + 1] >> 4 }
            }
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
            Value::Uuid { bytes, is_upper } => buffer.put(0, &uuid_text(bytes, is_upper)),
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
pub struct TextBuffer([u8; BUFFER_BYTES]);

/// Digits are written in groups of eight.
const BUFFER_BYTES: usize = TYPED_TEXT_BYTES_MAX.next_multiple_of(8);

impl Default for TextBuffer {
    fn default() -> Self {
        TextBuffer([0; BUFFER_BYTES])
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
        let (words, rest) = bytes.as_chunks();
        let (to, _) = self.0.as_chunks_mut();
        for (to, word) in to.iter_mut().zip(words) {
            *to = unpack_eight(*word, is_upper);
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            to[words.len()] = unpack_eight(last, is_upper);
        }
        digits
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
