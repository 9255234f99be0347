//! Conversions between integers in place of `as`, each with the reason why nothing is lost, or what is.
//!
//! For numbers from outside, or without a bound, use `try_from`. These functions are for all others, and cost the
//! same as `as`.

use std::time::Duration;

// Lengths in memory and offsets in files are converted freely.
const _: () = assert!(usize::BITS == u64::BITS, "this program is for systems of 64 bits");

/// Lossless: both have 64 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits")]
pub const fn usize_of(number: u64) -> usize {
    number as usize
}

/// Converts a count or length in memory. Lossless: no allocation has more than `isize::MAX` bytes.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "nothing in memory is as long")]
pub const fn signed_len(len: usize) -> i64 {
    debug_assert!(len <= isize::MAX as usize);
    len as i64
}

/// Converts a count, time or offset that is known to be below 2^63: it grows from zero in small steps, or was
/// checked.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "callers know that it fits")]
pub const fn signed_count(count: u64) -> i64 {
    debug_assert!(count <= i64::MAX.unsigned_abs());
    count as i64
}

/// Conversion of a count, length, position or time to the signed integers of replies.
pub trait Count: Copy {
    /// Returns the number as a signed one.
    fn signed(self) -> i64;
}

impl Count for usize {
    #[inline]
    fn signed(self) -> i64 {
        signed_len(self)
    }
}

impl Count for u64 {
    #[inline]
    fn signed(self) -> i64 {
        signed_count(self)
    }
}

/// Converts a length, position or count that is known not to be negative. Lossless: both have 64 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits")]
pub const fn unsigned_len(number: i64) -> usize {
    debug_assert!(number >= 0);
    number as usize
}

/// Returns the integral part; a number out of range becomes the nearer bound, and NaN zero.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn whole_i64(number: f64) -> i64 {
    number as i64
}

/// Like [`whole_i64`]; negative numbers become zero.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn whole_u64(number: f64) -> u64 {
    number as u64
}

/// Like [`whole_u64`], for 32 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn whole_u32(number: f64) -> u32 {
    number as u32
}

/// Like [`whole_i64`], for 32 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn whole_i32(number: f64) -> i32 {
    number as i32
}

/// Returns the nearest number in single precision; numbers out of range become infinite.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn nearest_f32(number: f64) -> f32 {
    number as f32
}

/// Returns a duration in microseconds; no duration reaches 2^64 of them, 584,000 years.
#[inline]
pub const fn whole_us(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000 + duration.subsec_micros() as u64
}

/// Returns the digit of a number below ten.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is below ten")]
pub const fn digit(value: usize) -> u8 {
    debug_assert!(value < 10);
    b'0' + value as u8
}

/// Returns the lowest eight bits; the others are dropped intentionally.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn low_u8(bits: u64) -> u8 {
    bits as u8
}

/// Returns the lowest 32 bits; the others are dropped intentionally.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn low_u32(bits: u64) -> u32 {
    bits as u32
}

/// Returns the lowest 32 bits as a signed number; the others are dropped intentionally, like C's conversion of a
/// `long` to `int`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn low_i32(bits: i64) -> i32 {
    bits as i32
}

/// Returns the lowest 64 bits; the others are dropped intentionally.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub const fn low_u64(bits: u128) -> u64 {
    bits as u64
}

/// Returns the bits as a signed number, like C's `char`.
#[inline]
pub const fn signed_byte(byte: u8) -> i8 {
    i8::from_ne_bytes([byte])
}

/// Returns the bits as a signed number.
#[inline]
pub const fn signed_bits(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

/// Converts a length, position or index that is known to be below 2^32.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "callers know that it fits")]
pub const fn short_len(len: usize) -> u32 {
    debug_assert!(len <= u32::MAX as usize);
    len as u32
}

/// Like [`short_len`], below 2^31: C's `int`.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "callers know that it fits")]
pub const fn int_len(len: usize) -> i32 {
    debug_assert!(len <= i32::MAX as usize);
    len as i32
}

/// Converts a length, position or index that is known to be below 2^16.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "callers know that it fits")]
pub const fn len_u16(len: usize) -> u16 {
    debug_assert!(len <= u16::MAX as usize);
    len as u16
}

/// Converts a length, position or index that is known to be below 2^8.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "callers know that it fits")]
pub const fn len_u8(len: usize) -> u8 {
    debug_assert!(len <= u8::MAX as usize);
    len as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_the_names_say() {
        assert_eq!(usize_of(u64::MAX), usize::MAX);
        assert_eq!(signed_len(isize::MAX as usize), i64::MAX);
        assert_eq!((0..10).map(digit).collect::<Vec<_>>(), b"0123456789");
        assert_eq!((low_u8(0x1FE), low_u64(u128::MAX - 1)), (0xFE, u64::MAX - 1));
        assert_eq!((signed_byte(0xFF), signed_byte(0x80), signed_byte(0x7F)), (-1, -128, 127));
        assert_eq!((signed_bits(u64::MAX), signed_bits(1 << 63)), (-1, i64::MIN));
        assert_eq!(short_len(u32::MAX as usize), u32::MAX);
        assert_eq!(whole_us(Duration::new(3, 4_999)), 3_000_004);
        assert_eq!((len_u16(0xFFFF), len_u8(0xFF)), (u16::MAX, u8::MAX));
        assert_eq!((signed_count(1 << 62), unsigned_len(i64::MAX)), (1 << 62, isize::MAX.unsigned_abs()));
        assert_eq!((low_u32(u64::MAX - 1), low_i32(1 << 31), low_i32(-1)), (u32::MAX - 1, i32::MIN, -1));
        assert_eq!([-1.9, 1.9, 1e10, -1e10, f64::NAN].map(whole_i32), [-1, 1, i32::MAX, i32::MIN, 0]);
        assert_eq!((nearest_f32(0.1), nearest_f32(1e300), int_len(7)), (0.1, f32::INFINITY, 7));
        assert_eq!([-1.9, 1.9, 1e30, -1e30, f64::NAN].map(whole_i64), [-1, 1, i64::MAX, i64::MIN, 0]);
        assert_eq!([-1.9, 1.9, 1e30, f64::NAN].map(whole_u64), [0, 1, u64::MAX, 0]);
        assert_eq!([-1.9, 1.9, 1e10, f64::NAN].map(whole_u32), [0, 1, u32::MAX, 0]);
    }
}
