//! The options that SET, GETEX and MSETEX share: conditions, expiry, KEEPTTL, GET.

use super::comparison::Comparison;
use crate::command::Args;
use crate::error::ClientError;

/// The parsed command, which determines the valid options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// SET.
    Set,
    /// GETEX.
    GetEx,
    /// MSETEX.
    MSetEx,
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition<'a> {
    /// No option.
    #[default]
    Always,
    /// NX: only if the key does not exist.
    IfAbsent,
    /// XX: only if the key exists.
    IfPresent,
    /// IFEQ and similar: only if the existing string compares so.
    If(Comparison<'a>),
}

/// The change of the expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiryOption {
    /// No option: SET clears the expiry, GETEX keeps it.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST: the expiry is removed.
    Persist,
    /// EX, PX, EXAT or PXAT.
    At {
        /// Time of expiry in milliseconds since the epoch.
        unix_ms: i64,
        /// Whether the option gave a point in time (EXAT, PXAT), not a duration.
        absolute: bool,
    },
}

/// The parsed options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// Condition of the write.
    pub condition: Condition<'a>,
    /// Change of the expiry.
    pub expiry: ExpiryOption,
    /// GET: the reply is the old value.
    pub get: bool,
}

/// The unit and base of an expiry option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryUnit {
    /// Whether the unit is seconds (EX, EXAT); otherwise milliseconds.
    pub in_seconds: bool,
    /// Whether it is a point in time (EXAT, PXAT); otherwise a duration.
    pub absolute: bool,
}

impl ExpiryUnit {
    /// The unit of EX, PX, EXAT and PXAT; `None` for any other word.
    pub fn of_word(word: &[u8]) -> Option<Self> {
        const WORDS: [(&str, bool, bool); 4] =
            [("EX", true, false), ("PX", false, false), ("EXAT", true, true), ("PXAT", false, true)];
        WORDS
            .iter()
            .find(|(name, ..)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|&(_, in_seconds, absolute)| ExpiryUnit { in_seconds, absolute })
    }

    /// `amount` as a point in time in milliseconds since the epoch; it must be after the epoch.
    pub fn resolve(self, amount: i64, now_ms: i64, command: &'static str) -> Result<i64, ClientError> {
        let invalid = ClientError::InvalidExpire { command };
        let ms = if self.in_seconds { amount.checked_mul(1000) } else { Some(amount) };
        let ms = ms.filter(|&ms| ms > 0).ok_or(invalid.clone())?;
        if self.absolute { Ok(ms) } else { ms.checked_add(now_ms).ok_or(invalid) }
    }
}

/// Parses `args` starting at `first`.
pub fn parse<'a>(
    args: Args<'a>,
    first: usize,
    of: For,
    now_ms: i64,
    command: &'static str,
) -> Result<Options<'a>, ClientError> {
    let mut options = Options::default();
    let mut amount = None;
    let mut at = first;
    while at < args.len() {
        let unit = ExpiryUnit::of_word(args.at(at));
        let has_next = at + 1 < args.len();
        let writes = of != For::GetEx;
        let expiry_free = options.expiry == ExpiryOption::Unsaid;
        if writes && args.is(at, "NX") && may_be(options.condition, Condition::IfAbsent) {
            options.condition = Condition::IfAbsent;
        } else if writes && args.is(at, "XX") && may_be(options.condition, Condition::IfPresent) {
            options.condition = Condition::IfPresent;
        } else if of == For::Set && args.is(at, "GET") {
            options.get = true;
        } else if writes && args.is(at, "KEEPTTL") && amount.is_none() {
            options.expiry = ExpiryOption::Keep;
        } else if of == For::GetEx && args.is(at, "PERSIST") && amount.is_none() {
            options.expiry = ExpiryOption::Persist;
        } else if let (Some(unit), true, true) = (unit, has_next, expiry_free) {
            if amount.is_some_and(|(_, other)| other != unit) {
                return Err(ClientError::Syntax);
            }
            amount = Some((at + 1, unit));
            at += 1;
        } else if of == For::Set
            && options.condition == Condition::Always
            && let Some(comparison) = Comparison::parse(args, at)
        {
            options.condition = Condition::If(comparison);
            at += 1;
        } else {
            return Err(ClientError::Syntax);
        }
        at += 1;
    }
    if let Some((index, unit)) = amount {
        let unix_ms = unit.resolve(args.integer(index)?, now_ms, command)?;
        options.expiry = ExpiryOption::At { unix_ms, absolute: unit.absolute };
    }
    Ok(options)
}

fn may_be(now: Condition<'_>, wanted: Condition<'_>) -> bool {
    now == Condition::Always || now == wanted
}
