//! The plain kinds of option: yes or no, numbers in a range, sizes of memory, text.

use super::checks::Check;
use super::option::{Kind, Occurrence, Refusal, RewrittenLine};
use super::quote::quoted;
use wire::convert::{low_u8, low_u64, signed_bits};

pub(super) const INT_MIN: i128 = i32::MIN as i128;
pub(super) const INT_MAX: i128 = i32::MAX as i128;
pub(super) const UINT_MAX: i128 = u32::MAX as i128;
pub(super) const LONG_MAX: i128 = i64::MAX as i128;
pub(super) const ULONG_MAX: i128 = u64::MAX as i128;

pub(super) struct YesNo;

impl Kind<bool> for YesNo {
    fn parse(&self, words: &[&[u8]], _before: &bool, _occurrence: Occurrence) -> Result<bool, Refusal> {
        if words[0].eq_ignore_ascii_case(b"yes") {
            Ok(true)
        } else if words[0].eq_ignore_ascii_case(b"no") {
            Ok(false)
        } else {
            Err("argument must be 'yes' or 'no'".into())
        }
    }

    fn format(&self, value: &bool) -> Vec<u8> {
        if *value { b"yes".into() } else { b"no".into() }
    }

    fn accepts(&self) -> String {
        "yes, no".to_owned()
    }
}

/// Another kind restricted to the default value, because this server lacks the feature: with any other value it would behave
/// differently from what was configured. The text names the missing feature.
pub(super) struct Only<K>(pub K, pub &'static str);

impl<T: Clone + Default + PartialEq, K: Kind<T>> Kind<T> for Only<K> {
    fn parse(&self, words: &[&[u8]], before: &T, occurrence: Occurrence) -> Result<T, Refusal> {
        let value = self.0.parse(words, before, occurrence)?;
        if value == T::default() { Ok(value) } else { Err(self.1.into()) }
    }

    fn format(&self, value: &T) -> Vec<u8> {
        self.0.format(value)
    }

    fn accepts(&self) -> String {
        String::from_utf8_lossy(&self.format(&T::default())).into_owned()
    }
}

/// An integer type of a field. Text is parsed as an `i64`, whose bits an unsigned field reinterprets; the bounds apply to
/// the result, so that -1 is out of the range of an unsigned option and not a very large value.
pub(super) trait Whole: Copy + PartialEq + TryFrom<i128> {
    const SIGNED: bool;
    fn widened(self) -> i128;

    fn to_bits(self) -> i64 {
        signed_bits(low_u64(self.widened() as u128))
    }

    fn widen(bits: i64) -> i128 {
        if Self::SIGNED { bits.into() } else { i128::from(bits as u64) }
    }
}

macro_rules! whole {
    ($($type:ty, $signed:literal;)*) => { $(
        impl Whole for $type {
            const SIGNED: bool = $signed;
            fn widened(self) -> i128 { self as i128 }
        }
    )* };
}

whole! { u16, false; i32, true; u32, false; i64, true; u64, false; usize, false; }

fn in_range<T: Whole>(bits: i64, low: i128, high: i128) -> Result<T, Refusal> {
    let number = T::widen(bits);
    let within = (low..=high).contains(&number).then(|| T::try_from(number).ok());
    within.flatten().ok_or_else(|| out_of_range(low, high))
}

fn out_of_range(low: i128, high: i128) -> Refusal {
    format!("argument must be between {low} and {high} inclusive").into()
}

/// An integer between two bounds, inclusive.
pub(super) struct Integer(pub i128, pub i128);

impl<T: Whole> Kind<T> for Integer {
    fn parse(&self, words: &[&[u8]], _before: &T, _occurrence: Occurrence) -> Result<T, Refusal> {
        let Some(bits) = wire::number::parse_i64(words[0]) else {
            return Err("argument couldn't be parsed into an integer".into());
        };
        in_range(bits, self.0, self.1)
    }

    fn format(&self, value: &T) -> Vec<u8> {
        value.to_bits().to_string().into()
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((self.0, self.1))
    }

    fn accepts(&self) -> String {
        match (self.0, self.1) {
            (INT_MIN, _) => "a whole number".to_owned(),
            (low, INT_MAX..) => format!("{low} or more"),
            (low, high) => format!("{low} to {high}"),
        }
    }
}

/// `hz`: any number from 0 on is accepted and clamped to the valid range.
pub(super) struct Hertz;

impl Kind<u32> for Hertz {
    fn parse(&self, words: &[&[u8]], before: &u32, occurrence: Occurrence) -> Result<u32, Refusal> {
        let typed: u32 = Integer(0, INT_MAX).parse(words, before, occurrence)?;
        Ok(typed.clamp(1, 500))
    }

    fn format(&self, value: &u32) -> Vec<u8> {
        value.to_string().into()
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((0, INT_MAX))
    }

    fn accepts(&self) -> String {
        "1 to 500".to_owned()
    }
}

/// File permissions in octal.
pub(super) struct Octal(pub u32);

impl Kind<u32> for Octal {
    fn parse(&self, words: &[&[u8]], _before: &u32, _occurrence: Occurrence) -> Result<u32, Refusal> {
        let text = std::str::from_utf8(words[0]).unwrap_or("not a number");
        match i64::from_str_radix(text, 8) {
            Ok(bits) => u32::try_from(bits)
                .ok()
                .filter(|bits| *bits <= self.0)
                .ok_or_else(|| format!("argument must be between 0 and {:o} inclusive", self.0).into()),
            Err(_) => Err("argument couldn't be parsed as an octal number".into()),
        }
    }

    fn format(&self, value: &u32) -> Vec<u8> {
        format!("{value:o}").into()
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((0, self.0.into()))
    }

    fn accepts(&self) -> String {
        format!("0 to {:o}, octal", self.0)
    }
}

/// A number of bytes with an optional unit: `1k` is 1,000, `1kb` is 1,024, `m`, `mb`, `g`, `gb` likewise, in any case.
/// Without digits it is 0, because existing configuration files rely on that.
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if text.is_empty() {
        return Some(0);
    }
    std::str::from_utf8(number).ok()?.parse::<u64>().ok()?.checked_mul(scale)
}

/// Bytes in the largest unit that divides them.
pub(super) fn memory_with_unit(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")];
    match UNITS.iter().find(|(scale, _)| bytes != 0 && bytes.is_multiple_of(*scale)) {
        Some((scale, unit)) => format!("{}{unit}", bytes / scale),
        None => bytes.to_string(),
    }
}

/// A memory size between two bounds, inclusive.
pub(super) struct Memory(pub i128, pub i128);

impl<T: Whole> Kind<T> for Memory {
    fn parse(&self, words: &[&[u8]], _before: &T, _occurrence: Occurrence) -> Result<T, Refusal> {
        let bytes = parse_memory(words[0]).ok_or("argument must be a memory value")?;
        in_range(signed_bits(bytes), self.0, self.1)
    }

    fn format(&self, value: &T) -> Vec<u8> {
        (value.to_bits() as u64).to_string().into()
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((self.0, self.1))
    }

    fn accepts(&self) -> String {
        match u64::try_from(self.0) {
            Ok(low @ 2..) => format!("a size, {} or more", memory_with_unit(low)),
            _ => "a size".to_owned(),
        }
    }

    fn rewritten(&self, value: &T, default: &T) -> Vec<RewrittenLine> {
        let text = memory_with_unit(value.to_bits() as u64).into();
        vec![RewrittenLine { text, forced: value != default }]
    }
}

/// `repl-backlog-size`: any size is accepted, and raised to the useful minimum.
pub(super) struct BacklogSize;

impl Kind<u64> for BacklogSize {
    fn parse(&self, words: &[&[u8]], before: &u64, occurrence: Occurrence) -> Result<u64, Refusal> {
        let typed: u64 = Memory(1, LONG_MAX).parse(words, before, occurrence)?;
        Ok(typed.max(16 << 10))
    }

    fn format(&self, value: &u64) -> Vec<u8> {
        Memory(1, LONG_MAX).format(value)
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((1, LONG_MAX))
    }

    fn accepts(&self) -> String {
        "a size".to_owned()
    }

    fn rewritten(&self, value: &u64, default: &u64) -> Vec<RewrittenLine> {
        Memory(1, LONG_MAX).rewritten(value, default)
    }
}

/// A memory size, or a negative number that means "no limit".
pub(super) struct SignedMemory(pub i128, pub i128);

impl Kind<i64> for SignedMemory {
    fn parse(&self, words: &[&[u8]], _before: &i64, _occurrence: Occurrence) -> Result<i64, Refusal> {
        let number = match parse_memory(words[0]) {
            // A size above the signed range is out of range, and must not become negative.
            Some(bytes) => i64::try_from(bytes).map_err(|_| out_of_range(self.0, self.1))?,
            None => wire::number::parse_i64(words[0]).ok_or("argument must be a memory value")?,
        };
        in_range(number, self.0, self.1)
    }

    fn format(&self, value: &i64) -> Vec<u8> {
        value.to_string().into()
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((self.0, self.1))
    }

    fn accepts(&self) -> String {
        "a size, or -1 for no limit".to_owned()
    }

    fn rewritten(&self, value: &i64, default: &i64) -> Vec<RewrittenLine> {
        let text = u64::try_from(*value).map_or_else(|_| value.to_string(), memory_with_unit);
        vec![RewrittenLine { text: text.into(), forced: value != default }]
    }
}

/// A limit given in bytes or as a share of `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// 0 is no limit.
    Bytes(u64),
    /// 1 to 100.
    Percent(u8),
}

impl MemoryLimit {
    /// The limit in bytes if 100 % are `whole_bytes`. 0 is no limit.
    pub fn bytes_of(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let percent = u64::from(percent);
                whole_bytes / 100 * percent + whole_bytes % 100 * percent / 100
            }
        }
    }
}

pub(super) struct MemoryOrPercent;

impl Kind<MemoryLimit> for MemoryOrPercent {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &MemoryLimit,
        _occurrence: Occurrence,
    ) -> Result<MemoryLimit, Refusal> {
        if let Some(bytes) = parse_memory(words[0]) {
            return Ok(MemoryLimit::Bytes(in_range(signed_bits(bytes), 0, LONG_MAX)?));
        }
        let percent = words[0].strip_suffix(b"%").and_then(wire::number::parse_i64);
        match percent {
            Some(0) => Ok(MemoryLimit::Bytes(0)),
            Some(percent @ 1..=100) => Ok(MemoryLimit::Percent(low_u8(percent.unsigned_abs()))),
            Some(101..) => Err("percentage argument must be less or equal to 100".into()),
            _ => Err("argument must be a memory or percent value".into()),
        }
    }

    fn format(&self, value: &MemoryLimit) -> Vec<u8> {
        match value {
            MemoryLimit::Bytes(bytes) => bytes.to_string().into(),
            MemoryLimit::Percent(percent) => format!("{percent}%").into(),
        }
    }

    fn range(&self) -> Option<(i128, i128)> {
        Some((0, LONG_MAX))
    }

    fn accepts(&self) -> String {
        "a size or a percentage".to_owned()
    }

    fn rewritten(&self, value: &MemoryLimit, default: &MemoryLimit) -> Vec<RewrittenLine> {
        let text = match value {
            MemoryLimit::Bytes(bytes) => memory_with_unit(*bytes).into(),
            MemoryLimit::Percent(_) => self.format(value),
        };
        vec![RewrittenLine { text, forced: value != default }]
    }
}

/// Text that is passed to system calls, and therefore contains no NUL. An `Option` field is `None` if the text is empty.
pub(super) struct Text(pub Check);

/// Any bytes.
pub(super) struct Bytes(pub Check);

impl Text {
    fn checked(&self, word: &[u8]) -> Result<Vec<u8>, Refusal> {
        // The option's own check says it in the words that clients know.
        (self.0)(word)?;
        if word.contains(&0) {
            return Err("argument must not contain a zero byte".into());
        }
        Ok(word.to_vec())
    }
}

impl Bytes {
    fn checked(&self, word: &[u8]) -> Result<Vec<u8>, Refusal> {
        (self.0)(word)?;
        Ok(word.to_vec())
    }
}

macro_rules! text_kind {
    ($($kind:ty),*) => { $(
        impl Kind<Vec<u8>> for $kind {
            fn parse(&self, words: &[&[u8]], _: &Vec<u8>, _: Occurrence) -> Result<Vec<u8>, Refusal> {
                self.checked(words[0])
            }

            fn format(&self, value: &Vec<u8>) -> Vec<u8> {
                value.clone()
            }

            fn accepts(&self) -> String {
                "text".to_owned()
            }

            fn rewritten(&self, value: &Vec<u8>, default: &Vec<u8>) -> Vec<RewrittenLine> {
                vec![RewrittenLine { text: quoted(value), forced: value != default }]
            }
        }

        impl Kind<Option<Vec<u8>>> for $kind {
            fn parse(
                &self,
                words: &[&[u8]],
                _: &Option<Vec<u8>>,
                _: Occurrence,
            ) -> Result<Option<Vec<u8>>, Refusal> {
                let text = self.checked(words[0])?;
                Ok((!text.is_empty()).then_some(text))
            }

            fn format(&self, value: &Option<Vec<u8>>) -> Vec<u8> {
                value.clone().unwrap_or_default()
            }

            fn accepts(&self) -> String {
                "text".to_owned()
            }

            fn rewritten(&self, value: &Option<Vec<u8>>, default: &Option<Vec<u8>>) -> Vec<RewrittenLine> {
                // `None` is written by omitting the line.
                let line = |text: &Vec<u8>| RewrittenLine { text: quoted(text), forced: value != default };
                value.iter().map(line).collect()
            }
        }
    )* };
}

text_kind!(Text, Bytes);
