//! The 80-bit float of the x87: what `INCRBYFLOAT` and `HINCRBYFLOAT` have always computed in, so what they must
//! go on computing in, on every processor.
//!
//! ```text
//!  value = (-1)^negative * significand * 2^exponent        significand: 64 bits, the top one set
//! ```
//!
//! 1. A finite value is zero (significand 0) or normal: the top bit of its significand is set, except at the
//!    smallest exponent, where values shade off to zero.
//! 2. Reading, adding and writing are exact and then rounded once, to nearest, ties to even.
//! 3. NaN does not exist: no text gives one, and the sum of opposite infinities is reported.
//!
//! Numbers of everyday size take 128-bit integer arithmetic; what is left takes a small unsigned big integer.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "exponents are bounded before they are converted, and limbs are cut to 64 bits"
)]

use super::without_sign;

/// Bits in the significand.
const PRECISION: u32 = 64;
/// Exponent of the significand's last bit in the smallest values.
const EXPONENT_MIN: i32 = -16445;
/// Exponent of the significand's last bit in the largest values.
const EXPONENT_MAX: i32 = 16320;
/// Texts of this length and more are refused.
const TEXT_LEN_LIMIT: usize = 5 * 1024;
/// Digits behind the point when written.
const FRACTION_DIGITS: u32 = 17;
/// Largest power of ten in a u64.
const U64_DIGITS: usize = 19;

/// An 80-bit float of the x87: a sign, a significand of 64 bits, an exponent of 15. C's `long double` on x86, in which the
/// reference does INCRBYFLOAT and HINCRBYFLOAT; without NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Finite { significand: u64, exponent: i32 },
    Infinite,
}

impl Extended {
    /// Positive zero.
    pub const ZERO: Self =
        Self { negative: false, magnitude: Magnitude::Finite { significand: 0, exponent: EXPONENT_MIN } };

    /// Reads a decimal or hexadecimal number (`0x1.8p3`), `inf` or `infinity`, in any case and with an optional
    /// sign. `None` for NaN, spaces, anything behind the number, magnitudes out of range, and texts from 5 KiB on.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_LEN_LIMIT {
            return None;
        }
        let negative = text.first() == Some(&b'-');
        let unsigned = without_sign(text);
        let magnitude = if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity")
        {
            Magnitude::Infinite
        } else if let [b'0', b'x' | b'X', hex @ ..] = unsigned {
            parse_hexadecimal(hex)?
        } else {
            parse_decimal(unsigned)?
        };
        Some(Self { negative, magnitude })
    }

    /// The number `value`, which a significand of 64 bits holds exactly.
    pub fn from_i64(value: i64) -> Self {
        Self { negative: value < 0, magnitude: round(u128::from(value.unsigned_abs()), 0, false) }
    }

    /// Significand and exponent of a finite value.
    #[cfg(test)]
    pub(super) fn parts(self) -> Option<(u64, i32)> {
        match self.magnitude {
            Magnitude::Finite { significand, exponent } => Some((significand, exponent)),
            Magnitude::Infinite => None,
        }
    }

    /// Whether the number is not an infinity.
    pub fn is_finite(self) -> bool {
        self.magnitude != Magnitude::Infinite
    }

    /// The nearest double, or one beside it.
    pub fn to_f64(self) -> f64 {
        let magnitude = match self.magnitude {
            Magnitude::Finite { significand, exponent } => significand as f64 * 2f64.powi(exponent),
            Magnitude::Infinite => f64::INFINITY,
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The sum. `None` for infinity plus minus infinity, which is no number.
    #[expect(clippy::should_implement_trait, reason = "an operator could not say that there is no sum")]
    pub fn add(self, other: Self) -> Option<Self> {
        use Magnitude::{Finite, Infinite};
        match (self.magnitude, other.magnitude) {
            (Infinite, Infinite) => (self.negative == other.negative).then_some(self),
            (Infinite, _) => Some(self),
            (_, Infinite) => Some(other),
            (Finite { significand: 0, .. }, Finite { significand: 0, .. }) => {
                Some(Self { negative: self.negative && other.negative, ..Self::ZERO })
            }
            (Finite { significand: 0, .. }, _) => Some(other),
            (_, Finite { significand: 0, .. }) => Some(self),
            (Finite { significand: a, exponent: p }, Finite { significand: b, exponent: q }) => {
                let ((large, a, p), (small, b, q)) = if (p, a) >= (q, b) {
                    ((self, a, p), (other, b, q))
                } else {
                    ((other, b, q), (self, a, p))
                };
                Some(add_ordered(large.negative, a, p, large.negative != small.negative, b, q))
            }
        }
    }

    /// The number without an exponent, rounded to 17 digits behind the point, trailing zeros dropped; zero has no
    /// sign. `inf`, `-inf`.
    pub fn text(self) -> Vec<u8> {
        let Magnitude::Finite { significand, exponent } = self.magnitude else {
            return if self.negative { b"-inf".to_vec() } else { b"inf".to_vec() };
        };
        let mut text = if exponent >= 0 {
            integer_text(significand, exponent as u32)
        } else {
            fraction_text(significand, -exponent as u32)
        };
        if self.negative && text != b"0" {
            text.insert(0, b'-');
        }
        text
    }
}

/// The sum or difference of two magnitudes other than zero, the one with the larger exponent first.
fn add_ordered(negative: bool, a: u64, p: i32, subtract: bool, b: u64, q: i32) -> Extended {
    // One bit above `a` for a carry, 63 below for what rounding must see; anything lower is summed up in one bit.
    let a = u128::from(a) << 63;
    let b = u128::from(b) << 63;
    let distance = p.abs_diff(q);
    let (b, lost) = match distance {
        0..128 => (b >> distance, b & ((1 << distance) - 1) != 0),
        _ => (0, true),
    };
    let sum = match (subtract, lost) {
        (false, _) => a + b,
        (true, false) => a - b,
        // A little more than `b` is taken away: the rest lies a little above this.
        (true, true) => a - b - 1,
    };
    if sum == 0 && !lost {
        return Extended::ZERO;
    }
    Extended { negative, magnitude: round(sum, p - 63, lost) }
}

/// `value * 2^exponent`, plus something less than the value's last bit if `lost`, rounded to 64 bits.
fn round(value: u128, exponent: i32, lost: bool) -> Magnitude {
    if value == 0 {
        return Extended::ZERO.magnitude;
    }
    let len = 128 - value.leading_zeros();
    // How many bits must go: those beyond 64, or those below the smallest exponent.
    let excess = (len as i32 - PRECISION as i32).max(EXPONENT_MIN - exponent);
    if excess <= 0 {
        // Nothing to round: the callers give more than 64 bits when they lose some.
        let shift = (-excess) as u32;
        return finite((value << shift) as u64, exponent - shift as i32);
    }
    if excess > 128 {
        return Extended::ZERO.magnitude;
    }
    let excess_bits = excess as u32;
    let kept = value.checked_shr(excess_bits).unwrap_or(0) as u64;
    let half = 1u128 << (excess_bits - 1);
    let rest = if excess_bits == 128 { value } else { value & ((1 << excess_bits) - 1) };
    let up = rest > half || (rest == half && (lost || kept & 1 == 1));
    match kept.overflowing_add(u64::from(up)) {
        (_, true) => finite(1 << 63, exponent + excess + 1),
        (significand, false) => finite(significand, exponent + excess),
    }
}

fn finite(significand: u64, exponent: i32) -> Magnitude {
    if exponent > EXPONENT_MAX { Magnitude::Infinite } else { Magnitude::Finite { significand, exponent } }
}

/// A magnitude that a text may stand for: neither an overflow nor an underflow to zero.
fn in_range(magnitude: Magnitude) -> Option<Magnitude> {
    match magnitude {
        Magnitude::Infinite | Magnitude::Finite { significand: 0, .. } => None,
        finite => Some(finite),
    }
}

/// The exponent behind a number's digits: nothing, or `marker`, an optional sign, and digits.
fn parse_exponent(text: &[u8], marker: u8) -> Option<i64> {
    let [first, rest @ ..] = text else { return Some(0) };
    let digits = without_sign(rest);
    if !first.eq_ignore_ascii_case(&marker) || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Far beyond any number's range, more digits change nothing.
    let exponent = digits
        .iter()
        .fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX)));
    Some(if rest[0] == b'-' { -exponent } else { exponent })
}

/// Splits digits from what follows: the digits of the integer, of the fraction, and the rest. `None` without digits.
fn split_digits(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<(&[u8], &[u8], &[u8])> {
    let run = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
    let (integer, rest) = text.split_at(run(text));
    let (fraction, rest) = match rest {
        [b'.', behind @ ..] => behind.split_at(run(behind)),
        _ => (&rest[..0], rest),
    };
    (!integer.is_empty() || !fraction.is_empty()).then_some((integer, fraction, rest))
}

fn parse_hexadecimal(text: &[u8]) -> Option<Magnitude> {
    let (integer, fraction, rest) = split_digits(text, u8::is_ascii_hexdigit)?;
    let exponent = parse_exponent(rest, b'p')?;
    let (mut value, mut dropped, mut lost) = (0u128, 0i64, false);
    for &byte in integer.iter().chain(fraction) {
        let digit = char::from(byte).to_digit(16)?;
        if value >> 120 == 0 {
            value = value << 4 | u128::from(digit);
        } else {
            dropped += 1;
            lost |= digit != 0;
        }
    }
    if value == 0 {
        return Some(Extended::ZERO.magnitude);
    }
    let exponent = exponent + 4 * (dropped - fraction.len() as i64);
    in_range(round(value, exponent.clamp(-100_000, 100_000) as i32, lost))
}

fn parse_decimal(text: &[u8]) -> Option<Magnitude> {
    let (integer, fraction, rest) = split_digits(text, u8::is_ascii_digit)?;
    let exponent = parse_exponent(rest, b'e')? - fraction.len() as i64;
    let mut digits: Vec<u8> =
        integer.iter().chain(fraction).copied().skip_while(|&digit| digit == b'0').collect();
    let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    digits.truncate(digits.len() - zeros);
    let exponent = exponent + zeros as i64;
    if digits.is_empty() {
        return Some(Extended::ZERO.magnitude);
    }
    // Out of range by its size alone, so that what follows is bounded.
    if !(-5000..=5000).contains(&(exponent + digits.len() as i64)) {
        return None;
    }
    let exponent = exponent as i32;
    in_range(decimal_small(&digits, exponent).unwrap_or_else(|| decimal_large(&digits, exponent)))
}

/// `digits * 10^exponent` where 128 bits suffice.
fn decimal_small(digits: &[u8], exponent: i32) -> Option<Magnitude> {
    if digits.len() > U64_DIGITS || exponent.unsigned_abs() > 18 {
        return None;
    }
    let value = digits.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    let power = u128::from(10u64.pow(exponent.unsigned_abs()));
    if exponent >= 0 {
        return Some(round(u128::from(value) * power, 0, false));
    }
    // 128 bits by fewer than 60: at least 68 bits, enough to round from.
    let shift = u128::from(value).leading_zeros();
    let value = u128::from(value) << shift;
    Some(round(value / power, -(shift as i32), value % power != 0))
}

/// `digits * 10^exponent` for any length and exponent.
fn decimal_large(digits: &[u8], exponent: i32) -> Magnitude {
    let mut value = Natural::from_digits(digits);
    if exponent >= 0 {
        value.multiply_by_power_of_ten(exponent as u32);
        let (top, shift, lost) = value.top_bits();
        return round(top, shift as i32, lost);
    }
    // Long division, one bit of the quotient at a time, from where the quotient's first bit is.
    let mut divisor = Natural::from_digits(b"1");
    divisor.multiply_by_power_of_ten(exponent.unsigned_abs());
    let scale = value.bit_len() as i32 - divisor.bit_len() as i32;
    value.shift_left((-scale).max(0) as u32);
    divisor.shift_left(scale.max(0) as u32);
    let mut quotient = 0u128;
    for _ in 0..PRECISION + 4 {
        quotient <<= 1;
        if value.subtract_if_not_less(&divisor) {
            quotient |= 1;
        }
        value.shift_left(1);
    }
    round(quotient, scale - (PRECISION as i32 + 3), !value.is_zero())
}

/// `significand * 2^exponent`.
fn integer_text(significand: u64, exponent: u32) -> Vec<u8> {
    if exponent <= 64 {
        return (u128::from(significand) << exponent).to_string().into_bytes();
    }
    let mut value = Natural { limbs: vec![significand] };
    value.shift_left(exponent);
    value.into_digits()
}

/// `significand / 2^shift`, at most [`FRACTION_DIGITS`] digits behind the point.
fn fraction_text(significand: u64, shift: u32) -> Vec<u8> {
    let unit = 10u128.pow(FRACTION_DIGITS);
    // 64 bits times 57 bits.
    let scaled = u128::from(significand) * unit;
    let rounded = match shift {
        0..128 => {
            let (floor, rest, half) = (scaled >> shift, scaled & ((1 << shift) - 1), 1u128 << (shift - 1));
            floor + u128::from(rest > half || (rest == half && floor & 1 == 1))
        }
        _ => 0,
    };
    let mut text = format!("{}.{:017}", rounded / unit, rounded % unit).into_bytes();
    let zeros = text.iter().rev().take_while(|&&digit| digit == b'0').count();
    text.truncate(text.len() - zeros);
    if text.last() == Some(&b'.') {
        text.pop();
    }
    text
}

/// An unsigned integer of any size, least significant limb first, no zero limb at the top.
struct Natural {
    limbs: Vec<u64>,
}

impl Natural {
    fn from_digits(digits: &[u8]) -> Self {
        let mut out = Self { limbs: Vec::new() };
        for chunk in digits.chunks(U64_DIGITS) {
            let value = chunk.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
            out.multiply_add(10u64.pow(chunk.len() as u32), value);
        }
        out
    }

    fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    fn bit_len(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 64 - top.leading_zeros())
    }

    fn multiply_add(&mut self, factor: u64, summand: u64) {
        let mut carry = summand;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    fn multiply_by_power_of_ten(&mut self, exponent: u32) {
        for _ in 0..exponent / U64_DIGITS as u32 {
            self.multiply_add(10u64.pow(U64_DIGITS as u32), 0);
        }
        self.multiply_add(10u64.pow(exponent % U64_DIGITS as u32), 0);
    }

    fn shift_left(&mut self, bits: u32) {
        if !bits.is_multiple_of(64) {
            self.multiply_add(1 << (bits % 64), 0);
        }
        if bits >= 64 && !self.is_zero() {
            self.limbs.splice(0..0, std::iter::repeat_n(0, bits as usize / 64));
        }
    }

    /// The top 65 to 128 bits (all of them, if there are fewer), how many bits are below, and whether any is set.
    fn top_bits(&self) -> (u128, u32, bool) {
        let below = self.limbs.len().saturating_sub(2);
        let top = self.limbs[below..].iter().rev().fold(0, |value, &limb| value << 64 | u128::from(limb));
        let mut lost = self.limbs[..below].iter().any(|&limb| limb != 0);
        // Two limbs may hold as few as 65 bits; that suffices, since one is left to round from.
        lost &= below > 0;
        (top, below as u32 * 64, lost)
    }

    fn subtract_if_not_less(&mut self, other: &Self) -> bool {
        let less = match self.limbs.len().cmp(&other.limbs.len()) {
            std::cmp::Ordering::Equal => self.limbs.iter().rev().lt(other.limbs.iter().rev()),
            order => order.is_lt(),
        };
        if less {
            return false;
        }
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let (difference, first) = limb.overflowing_sub(other.limbs.get(index).copied().unwrap_or(0));
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = first || second;
        }
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        true
    }

    fn into_digits(mut self) -> Vec<u8> {
        let unit = u128::from(10u64.pow(U64_DIGITS as u32));
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0u128;
            for limb in self.limbs.iter_mut().rev() {
                let value = rest << 64 | u128::from(*limb);
                *limb = (value / unit) as u64;
                rest = value % unit;
            }
            chunks.push(rest as u64);
            while self.limbs.last() == Some(&0) {
                self.limbs.pop();
            }
        }
        let mut text = chunks.pop().unwrap_or(0).to_string().into_bytes();
        for chunk in chunks.iter().rev() {
            text.extend_from_slice(format!("{chunk:019}").as_bytes());
        }
        text
    }
}
