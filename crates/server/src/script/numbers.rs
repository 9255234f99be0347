//! Numbers of scripts: a random generator with the same sequence on every machine, and texts of doubles.

use wire::convert::{low_u32, signed_len, unsigned_len};

/// The 48-bit generator of C's `lrand48`, one sequence for all scripts: a seed gives the same sequence on every
/// machine.
#[derive(Clone, Debug)]
pub struct Random48(u64);

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
/// The exclusive upper bound of [`Random48::draw`].
pub const RANDOM_MAX: u32 = i32::MAX as u32;

impl Default for Random48 {
    fn default() -> Self {
        Random48(0x1234_ABCD_330E)
    }
}

impl Random48 {
    /// Restarts the sequence from a seed.
    pub fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | 0x330E;
    }

    /// The next 31 random bits.
    pub fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & ((1 << 48) - 1);
        low_u32(self.0 >> 17)
    }
}

/// Appends a number as a command argument: integers without exponent, others in the fewest digits.
pub fn push_argument_text(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 {
        out.push(b'0');
    } else if value.is_nan() && value.is_sign_negative() {
        out.extend_from_slice(b"-nan");
    } else {
        out.extend_from_slice(&wire::number::f64_text(value));
    }
}

/// A double in the format of C's `%.<precision>g`; precision is 1 to 17.
pub fn general_text(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the `e` format has an exponent");
    let exponent: i64 = exponent.parse().expect("an exponent is a number");
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= signed_len(precision) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    without_zeros(&format!("{value:.*}", unsigned_len((signed_len(precision) - 1 - exponent).max(0))))
}

/// A longer text is not a number, also in Lua (`LUAI_MAXNUMERAL`): parsing a number cannot be interrupted.
pub const NUMBER_BYTES_MAX: usize = 1 << 20;

/// The number at the beginning of a text as C's `strtod` parses it, and its length; (0, 0) if there is none.
pub fn leading_number(text: &[u8]) -> (f64, usize) {
    let sign_len = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let rest = &text[sign_len..];
    let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (value, len) = if starts(b"infinity") {
        (f64::INFINITY, 8)
    } else if starts(b"inf") {
        (f64::INFINITY, 3)
    } else if starts(b"nan") {
        (f64::NAN, 3 + nan_payload_len(&rest[3..]))
    } else if starts(b"0x") && hexadecimal_len(&rest[2..]) > 0 {
        let (value, len) = hexadecimal(&rest[2..]);
        (value, len + 2)
    } else {
        decimal(rest)
    };
    if len == 0 {
        return (0.0, 0);
    }
    (if negative { -value } else { value }, sign_len + len)
}

/// The length of `(letters)` after a nan.
fn nan_payload_len(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let letters = text[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if text.get(letters + 1) == Some(&b')') { letters + 2 } else { 0 }
}

fn digits_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn decimal(text: &[u8]) -> (f64, usize) {
    let integer_len = digits_len(text);
    let mut len = integer_len;
    if text.get(len) == Some(&b'.') {
        let fraction_len = digits_len(&text[len + 1..]);
        if integer_len + fraction_len == 0 {
            return (0.0, 0);
        }
        len += 1 + fraction_len;
    }
    if len == 0 {
        return (0.0, 0);
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign_len = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let exponent_len = digits_len(&text[(len + 1 + sign_len).min(text.len())..]);
        if exponent_len > 0 {
            len += 1 + sign_len + exponent_len;
        }
    }
    let value = std::str::from_utf8(&text[..len]).ok().and_then(|text| text.parse().ok());
    (value.unwrap_or_default(), len)
}

fn hexadecimal_len(text: &[u8]) -> usize {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let integer_len = digits(text);
    match text.get(integer_len) {
        Some(b'.') => integer_len + digits(&text[integer_len + 1..]),
        _ => integer_len,
    }
}

/// Parses digits and a binary exponent after `0x`.
fn hexadecimal(text: &[u8]) -> (f64, usize) {
    let (mut value, mut exponent, mut len, mut point) = (0.0f64, 0i32, 0, false);
    while let Some(&byte) = text.get(len) {
        if byte == b'.' && !point {
            point = true;
        } else if let Some(digit) = char::from(byte).to_digit(16) {
            value = value * 16.0 + f64::from(digit);
            exponent -= if point { 4 } else { 0 };
        } else {
            break;
        }
        len += 1;
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let negative = text.get(len + 1) == Some(&b'-');
        let sign_len = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let digits = &text[(len + 1 + sign_len).min(text.len())..];
        let digits = &digits[..digits_len(digits)];
        if !digits.is_empty() {
            let power = digits.iter().fold(0i32, |power, digit| {
                power.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(1 << 20)
            });
            exponent += if negative { -power } else { power };
            len += 1 + sign_len + digits.len();
        }
    }
    (value * 2f64.powi(exponent), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_shown_as_c_shows_them() {
        let shown = [0.1, 1e15, 1e14, -1.5e-5, 123456.0, 0.0001, 3.0, 2.5e300, 99999999999999.9, -0.0];
        let texts: Vec<_> = shown.iter().map(|&value| general_text(value, 14)).collect();
        let expected =
            ["0.1", "1e+15", "1e+14", "-1.5e-05", "123456", "0.0001", "3", "2.5e+300", "1e+14", "-0"];
        assert_eq!(texts, expected);
        assert_eq!(general_text(0.15, 1), "0.1");
    }

    #[test]
    fn leading_numbers_are_read_as_c_reads_them() {
        let read = |text: &str| leading_number(text.as_bytes());
        assert_eq!(read("1.5e3x"), (1500.0, 5));
        assert_eq!(read("-0x10,"), (-16.0, 5));
        assert_eq!(read("0x1.8p1"), (3.0, 7));
        assert_eq!(read("1e+"), (1.0, 1));
        assert_eq!(read("1."), (1.0, 2));
        assert_eq!((read("."), read("-"), read("x")), ((0.0, 0), (0.0, 0), (0.0, 0)));
        assert_eq!(read("-infinityy"), (f64::NEG_INFINITY, 9));
        assert_eq!(read("nan(1)").1, 6);
        assert_eq!(read("0x"), (0.0, 1));
    }

    #[test]
    fn chance_is_that_of_lrand48() {
        let mut random = Random48::default();
        random.seed(0);
        let drawn: Vec<_> = (0..3).map(|_| random.draw()).collect();
        assert_eq!(drawn, [366850414, 1610402240, 206956554]);
    }

    #[test]
    fn numbers_become_arguments() {
        let text = |value| {
            let mut out = Vec::new();
            push_argument_text(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(-0.0), "0");
        assert_eq!(text(1e15), "1000000000000000");
        assert_eq!(text(1e20), "1e+20");
        assert_eq!(text(0.1), "0.1");
        assert_eq!(text(3.0), "3");
    }
}
