//! Integers as the decimal text that a client sends: exactly one text for each number, so that text which
//! looks like a number can be stored as one and returned unchanged.

use std::cmp::Ordering;

/// Longest text of an `i64`: a sign and 19 digits.
pub const TEXT_BYTES_MAX: usize = 20;

/// The number whose text is exactly `text`: no sign but `-`, no leading zero, no space, no `-0`.
#[inline]
pub fn parse(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let negative = text[0] == b'-';
    let digits = &text[negative as usize..];
    match digits.first() {
        Some(b'0') if text.len() == 1 => return Some(0),
        Some(b'1'..=b'9') => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(value as u64)?;
    }
    if negative {
        (magnitude <= 1 << 63).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Writes the text of `value` into `buffer` and returns it.
#[inline]
pub fn format(value: i64, buffer: &mut [u8; TEXT_BYTES_MAX]) -> &[u8] {
    let mut rest = value.unsigned_abs();
    let mut at = TEXT_BYTES_MAX;
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// Length of the text of `value` in bytes.
pub fn text_len(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + (value < 0) as usize
}

/// Compares the texts of two numbers, byte by byte, without creating them.
pub fn compare_texts(a: i64, b: i64) -> Ordering {
    // A minus sign sorts before every digit.
    (b < 0).cmp(&(a < 0)).then_with(|| {
        let [a, b] = [a, b].map(|value| u128::from(value.unsigned_abs()));
        let [a_digits, b_digits] = [a, b].map(|value| value.checked_ilog10().unwrap_or(0));
        let scaled = |value: u128, by: u32| value * 10u128.pow(by);
        scaled(a, b_digits.saturating_sub(a_digits))
            .cmp(&scaled(b, a_digits.saturating_sub(b_digits)))
            .then(a_digits.cmp(&b_digits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_their_texts() {
        let mut random = crate::random::Random::new(5);
        let mut values = vec![0, 1, -1, 9, 10, 11, 19, 100, 101, -10, -11, -100, i64::MAX, i64::MIN];
        values.extend((0..60).map(|_| (random.next_u64() >> random.below(64)) as i64));
        values.extend((0..60).map(|_| -((random.next_u64() >> (1 + random.below(62))) as i64)));
        for &a in &values {
            for &b in &values {
                let texts = [a, b].map(|value| value.to_string());
                assert_eq!(compare_texts(a, b), texts[0].cmp(&texts[1]), "{a} {b}");
            }
        }
    }

    #[test]
    fn text_and_number_are_one_to_one() {
        let edges =
            [0, 1, -1, 9, 10, 99, 127, 128, -4096, 4095, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1];
        for value in edges {
            let mut buffer = [0; TEXT_BYTES_MAX];
            let text = format(value, &mut buffer);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(text.len(), text_len(value));
            assert_eq!(parse(text), Some(value));
        }
    }

    #[test]
    fn other_texts_are_not_numbers() {
        let texts = [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "9223372036854775808",
            "00",
            "-9223372036854775809",
            "99999999999999999999",
            "100000000000000000000",
            "١",
        ];
        for text in texts {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
