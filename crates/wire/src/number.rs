//! Numbers as text: the strict integers of the protocol, doubles in the formats of replies and scores, and the 80-bit
//! floats of `INCRBYFLOAT`.
//!
//! | text for | reading | writing |
//! |---|---|---|
//! | integers | [`parse_i64`] | [`i64_text`] |
//! | scores, replies | [`parse_f64`], [`parse_f64_saturating`] for range ends | [`f64_text`] |
//! | ZSCAN over a large set | | [`f64_text_17_digits`] |
//! | geographic coordinates | | [`coordinate_text`] |
//! | `INCRBYFLOAT`, `HINCRBYFLOAT` | [`Extended::parse`] | [`Extended::text`] |

use crate::convert::{low_u64, signed_bits};
use std::io::Write as _;
use std::ops::Deref;

mod extended;
mod shortest;
pub use extended::Extended;

/// Maximum length of an `i64`: a sign and 19 digits.
pub const I64_TEXT_LEN_MAX: usize = 20;

/// Parses a decimal integer in its canonical form: an optional `-`, no `+`, no leading zeros, no `-0`, no spaces.
/// Returns `None` for anything else and for values outside `i64`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        [b'-', digits @ ..] => {
            parse_magnitude(digits, i64::MIN.unsigned_abs()).map(|m| signed_bits(m.wrapping_neg()))
        }
        digits => parse_magnitude(digits, i64::MAX as u64).map(signed_bits),
    }
}

/// Like [`parse_i64`], for `u64`, and with the additional forms that C's `strtoull` parses completely: blanks and a
/// sign before the digits, leading zeros, and a NUL as terminator.
pub fn parse_u64_leniently(text: &[u8]) -> Option<u64> {
    if let Some(value) = parse_i64(text) {
        return u64::try_from(value).ok();
    }
    let text = text.split(|&byte| byte == 0).next()?;
    let is_blank = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(is_blank).count()..];
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let magnitude = digits.iter().try_fold(0, append)?;
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

/// Parses a positive number without leading zeros, at most `max`.
#[inline]
fn parse_magnitude(digits: &[u8], max: u64) -> Option<u64> {
    // 19 digits cannot overflow a u64, so the limit is checked once, at the end.
    if digits.len() >= I64_TEXT_LEN_MAX || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    (magnitude <= max).then_some(magnitude)
}

/// The text of one number, on the stack.
#[derive(Clone, Copy)]
pub struct NumberText {
    bytes: [u8; NUMBER_TEXT_LEN_MAX],
    len: u8,
}

/// Maximum length of a double: a sign, 17 digits and up to seven zeros.
const NUMBER_TEXT_LEN_MAX: usize = 31;

impl NumberText {
    fn new() -> Self {
        Self { bytes: [0; NUMBER_TEXT_LEN_MAX], len: 0 }
    }

    fn of(text: &[u8]) -> Self {
        let mut out = Self::new();
        out.push(text);
        out
    }

    fn push(&mut self, text: &[u8]) {
        let len = usize::from(self.len);
        self.bytes[len..len + text.len()].copy_from_slice(text);
        self.len = u8::try_from(len + text.len()).expect("no text of a number is as long");
    }

    fn push_zeros(&mut self, count: usize) {
        self.push(&[b'0'; NUMBER_TEXT_LEN_MAX][..count]);
    }

    /// Returns the text, which is ASCII, as a string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self).expect("only ASCII is pushed")
    }
}

impl Deref for NumberText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Returns the decimal text of `value`, of 1 to 20 bytes.
#[inline]
pub fn i64_text(value: i64) -> NumberText {
    NumberText::of(itoa::Buffer::new().format(value).as_bytes())
}

/// Appends `value` to `out`.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Parses a decimal double or `inf`, `infinity` in any case, with an optional sign. Spaces, NaN, hexadecimal and
/// magnitudes out of the range of a double are errors.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(integer) = parse_short_integer(text) {
        return Some(integer);
    }
    let value = parse_f64_saturating(text)?;
    let literal_infinity = || matches!(without_sign(text).first(), Some(b'i' | b'I'));
    let literal_zero = || {
        let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(text);
        !mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'))
    };
    let in_range = match value {
        0.0 => literal_zero(),
        value if value.is_infinite() => literal_infinity(),
        _ => true,
    };
    in_range.then_some(value)
}

/// Like [`parse_f64`], except that magnitudes out of range become infinity or zero.
pub fn parse_f64_saturating(text: &[u8]) -> Option<f64> {
    if let Some(integer) = parse_short_integer(text) {
        return Some(integer);
    }
    // Rust's grammar is the same, plus NaN.
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Maximum number of digits that a double represents exactly.
const EXACT_DIGITS_MAX: usize = 15;

/// Fast path for short integers without a sign, which most scores are.
#[inline]
fn parse_short_integer(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > EXACT_DIGITS_MAX {
        return None;
    }
    let mut value = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value as f64)
}

fn without_sign(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"+").or(text.strip_prefix(b"-")).unwrap_or(text)
}

/// Bounds within which an integral double is printed as an integer: half the range of an `i64`.
const INTEGRAL_MAX: f64 = (i64::MAX / 2) as f64;

/// Formats a double for replies and scores: integers plainly, others with the fewest digits that parse to the same
/// double, with an exponent where the plain form would be long (`1e+20`, `1.5e-7`). `inf`, `-inf`, `nan`, `-0`.
pub fn f64_text(value: f64) -> NumberText {
    if let Some(integer) = f64_as_integer(value) {
        return i64_text(integer);
    }
    if value.is_nan() {
        return NumberText::of(b"nan");
    }
    if value.is_infinite() {
        return NumberText::of(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    if value == 0.0 {
        return NumberText::of(b"-0");
    }
    f64_text_in_few_digits(value)
}

/// Returns the integer that [`f64_text`] prints, for numbers that it prints as one; none for a negative zero.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is no integer within bounds is found by converting it back"
)]
pub fn f64_as_integer(value: f64) -> Option<i64> {
    let integer = value as i64;
    let is_integer =
        value.abs() <= INTEGRAL_MAX && integer as f64 == value && (integer != 0 || value.is_sign_positive());
    is_integer.then_some(integer)
}

/// Like [`f64_text`], but integers with many trailing zeros have an exponent too: `1e+10`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "there are 17 digits at most"
)]
pub fn f64_text_in_few_digits(value: f64) -> NumberText {
    if !value.is_finite() || value == 0.0 {
        return f64_text(value);
    }
    let mut out = NumberText::new();
    if value < 0.0 {
        out.push(b"-");
    }
    let decimal = shortest::shortest(value.abs());
    let digits = decimal.digits();
    let point = decimal.exponent + digits.len() as i32;
    let leading_exponent = point - 1;
    if decimal.exponent >= 0 && leading_exponent < digits.len() as i32 + 7 {
        out.push(digits);
        out.push_zeros(decimal.exponent as usize);
    } else if decimal.exponent < 0 && (decimal.exponent > -7 || leading_exponent.abs() < 4) {
        push_with_point(&mut out, digits, point);
    } else {
        push_with_exponent(&mut out, digits, leading_exponent, 1);
    }
    out
}

/// `point` is the number of digits before the decimal point; if negative, the number of zeros after it.
fn push_with_point(out: &mut NumberText, digits: &[u8], point: i32) {
    if point <= 0 {
        out.push(b"0.");
        out.push_zeros(-point as usize);
        out.push(digits);
    } else {
        let (integer, fraction) = digits.split_at((point as usize).min(digits.len()));
        out.push(integer);
        out.push_zeros(point as usize - integer.len());
        if !fraction.is_empty() {
            out.push(b".");
            out.push(fraction);
        }
    }
}

fn push_with_exponent(out: &mut NumberText, digits: &[u8], exponent: i32, exponent_len_min: usize) {
    out.push(&digits[..1]);
    if digits.len() > 1 {
        out.push(b".");
        out.push(&digits[1..]);
    }
    out.push(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = i64_text(i64::from(exponent.abs()));
    out.push_zeros(exponent_len_min.saturating_sub(magnitude.len()));
    out.push(&magnitude);
}

/// Formats a double like C's `%.17g`: 17 significant digits, trailing zeros dropped.
pub fn f64_text_17_digits(value: f64) -> NumberText {
    // Integers of up to 17 digits have the same text in both formats, which takes a tenth of the time.
    if !value.is_finite()
        || f64_as_integer(value).is_some_and(|integer| integer.unsigned_abs() < 10_u64.pow(17))
    {
        return f64_text(value);
    }
    let mut scientific = [0u8; NUMBER_TEXT_LEN_MAX];
    let mut rest = scientific.as_mut_slice();
    write!(rest, "{:.16e}", value.abs()).expect("17 digits, a point and an exponent fit");
    let unused = rest.len();
    let text = &scientific[..NUMBER_TEXT_LEN_MAX - unused];
    let (mantissa, exponent) = text.split_at(18);
    let exponent = parse_i64(&exponent[1..]).and_then(|exponent| i32::try_from(exponent).ok());
    let exponent = exponent.expect("Rust prints exponents plainly");

    let mut digits = [0u8; 17];
    digits[0] = mantissa[0];
    digits[1..].copy_from_slice(&mantissa[2..]);
    let zeros = digits[1..].iter().rev().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[..17 - zeros];

    let mut out = NumberText::new();
    if value.is_sign_negative() {
        out.push(b"-");
    }
    if (-4..17).contains(&exponent) {
        push_with_point(&mut out, digits, exponent + 1);
    } else {
        push_with_exponent(&mut out, digits, exponent, 2);
    }
    out
}

/// Formats a coordinate in degrees like C's `%.17Lf`: 17 digits after the point, the last rounded half to even,
/// trailing zeros dropped. Its magnitude must be below a million.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the integer part and an exponent are wanted, which are small"
)]
pub fn coordinate_text(value: f64) -> NumberText {
    const SCALE: u64 = 100_000_000_000_000_000;
    let magnitude = value.abs();
    assert!(magnitude < 1e6, "degrees are at most 360");
    let mut whole = magnitude as u64;
    let rest = magnitude - whole as f64;
    // The remainder is exactly `significand / 2^shift`: it is below 1, so its exponent is at most -1.
    let bits = rest.to_bits();
    let significand = bits & ((1 << 52) - 1) | u64::from(bits >> 52 != 0) << 52;
    let shift = 1075 - (bits >> 52).max(1) as u32;
    // 53 bits times 57 bits. A part that is shifted out completely is too small to affect the text.
    let scaled = u128::from(significand) * u128::from(SCALE);
    let mut fraction = low_u64(scaled.checked_shr(shift).unwrap_or(0));
    let lost = scaled & 1u128.checked_shl(shift).unwrap_or(0).wrapping_sub(1);
    let half = 1u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
    fraction += u64::from(lost > half || lost == half && fraction % 2 == 1);
    if fraction == SCALE {
        (whole, fraction) = (whole + 1, 0);
    }
    let mut out = NumberText::new();
    if value < 0.0 && (whole, fraction) != (0, 0) {
        out.push(b"-");
    }
    out.push(itoa::Buffer::new().format(whole).as_bytes());
    if fraction != 0 {
        let mut digits = itoa::Buffer::new();
        // The scale's leading digit keeps the zeros after the point; the point replaces it.
        let digits = digits.format(SCALE + fraction).as_bytes();
        let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
        out.push(b".");
        out.push(&digits[1..digits.len() - zeros]);
    }
    out
}

#[cfg(test)]
mod tests;
