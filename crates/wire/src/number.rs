//! Numbers as text: the strict integers of the protocol, and the two styles in which floats are read and written.

/// Longest text of an `i64`: a sign and 19 digits.
pub const I64_TEXT_LEN_MAX: usize = 20;

/// Reads a decimal integer in its one canonical spelling: an optional `-`, no `+`, no leading zeros, no `-0`,
/// no spaces. `None` for anything else and for values outside `i64`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        [b'-', digits @ ..] => {
            parse_magnitude(digits, i64::MIN.unsigned_abs()).map(|m| m.wrapping_neg() as i64)
        }
        digits => parse_magnitude(digits, i64::MAX as u64).map(|m| m as i64),
    }
}

/// A positive number without leading zeros, at most `max`.
#[inline]
fn parse_magnitude(digits: &[u8], max: u64) -> Option<u64> {
    // 19 digits cannot overflow a u64, so the limit can be checked once, at the end.
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

#[cfg(test)]
mod tests;
