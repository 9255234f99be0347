//! The common arguments of the commands about expiring fields: `FIELDS count field ...`, and the options before it.

use crate::command::Args;
use crate::commands::strings::options::ExpiryUnit;
use crate::error::ClientError;

const WRONG_COUNT: ClientError =
    ClientError::text("ERR numfields should be greater than 0 and match the provided number of fields");

/// The index of FIELDS, from `first` on, unless it is the last argument.
pub(super) fn find_fields(args: Args<'_>, first: usize) -> Option<usize> {
    (first..args.len().saturating_sub(1)).find(|&at| args.is(at, "FIELDS"))
}

/// The arguments after `FIELDS count`, in groups of `each`; FIELDS is at `at`.
pub(super) fn counted<'a>(
    args: Args<'a>,
    at: Option<usize>,
    each: usize,
    wrong_count: ClientError,
) -> Result<Args<'a>, ClientError> {
    let Some(at) = at else { return Err(wrong_count) };
    let count = args.integer(at + 1)?;
    let listed = args.from(at + 2);
    let matches = usize::try_from(count).is_ok_and(|count| count.checked_mul(each) == Some(listed.len()));
    if count == 0 || !matches { Err(wrong_count) } else { Ok(listed) }
}

/// As [`counted`] in groups of one field, with the usual error.
pub(super) fn fields(args: Args<'_>, at: Option<usize>) -> Result<Args<'_>, ClientError> {
    counted(args, at, 1, WRONG_COUNT)
}

/// As [`counted`] in groups of a field and a value.
pub(super) fn pairs(args: Args<'_>, at: Option<usize>) -> Result<Args<'_>, ClientError> {
    counted(args, at, 2, WRONG_COUNT)
}

/// For commands whose second argument must be FIELDS; anything else is a syntax error.
pub(super) fn fields_at_2(args: Args<'_>, wrong_count: ClientError) -> Result<Args<'_>, ClientError> {
    if !args.is(2, "FIELDS") {
        return Err(ClientError::Syntax);
    }
    counted(args, Some(2), 1, wrong_count)
}

/// As [`fields_at_2`], with the usual error.
pub(super) fn only_fields(args: Args<'_>) -> Result<Args<'_>, ClientError> {
    fields_at_2(args, WRONG_COUNT)
}

/// `amount` as a point in time in milliseconds since the epoch: unlike a key's, it can be the epoch itself.
pub(super) fn resolve(
    unit: ExpiryUnit,
    amount: i64,
    now_ms: i64,
    command: &'static str,
) -> Result<i64, ClientError> {
    let base_ms = if unit.absolute { 0 } else { now_ms };
    let factor = if unit.in_seconds { 1000 } else { 1 };
    let ms = Some(amount).filter(|&amount| amount >= 0).and_then(|amount| amount.checked_mul(factor));
    ms.and_then(|ms| ms.checked_add(base_ms)).ok_or(ClientError::InvalidExpire { command })
}

/// The change of the fields' expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expires {
    #[default]
    Unsaid,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Never,
    /// The argument at this index is the time.
    At(ExpiryUnit, usize),
}

/// Whether a key or field must exist or must be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    Absent,
    Present,
}

/// The options of HSETEX and HGETEX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Change of the fields' expiry.
    pub expires: Expires,
    /// NX, XX
    pub key: Option<Existence>,
    /// FNX, FXX
    pub fields: Option<Existence>,
}

impl Options {
    /// Parses the arguments from 2 to `end`.
    pub fn parse(args: Args<'_>, end: usize, sets: bool) -> Result<Self, ClientError> {
        let args = args.first(end);
        let mut options = Options::default();
        let mut at = 2;
        while at < args.len() {
            at = match options.parse_one(args, at, sets) {
                Some(next) => next,
                None => return Err(ClientError::Syntax),
            };
        }
        Ok(options)
    }

    /// Parses the option at `at`; returns the index after it and its argument.
    fn parse_one(&mut self, args: Args<'_>, at: usize, sets: bool) -> Option<usize> {
        let demand = |slot: &mut Option<Existence>, wanted: Existence| {
            let allowed = slot.is_none_or(|there| there == wanted);
            *slot = Some(wanted);
            allowed.then_some(at + 1)
        };
        if sets && args.is(at, "NX") {
            return demand(&mut self.key, Existence::Absent);
        }
        if sets && args.is(at, "XX") {
            return demand(&mut self.key, Existence::Present);
        }
        if sets && args.is(at, "FNX") {
            return demand(&mut self.fields, Existence::Absent);
        }
        if sets && args.is(at, "FXX") {
            return demand(&mut self.fields, Existence::Present);
        }
        let (expires, next) = if sets && args.is(at, "KEEPTTL") {
            (Expires::Keep, at + 1)
        } else if !sets && args.is(at, "PERSIST") {
            (Expires::Never, at + 1)
        } else {
            let unit = ExpiryUnit::of_word(args.at(at)).filter(|_| at + 1 < args.len())?;
            (Expires::At(unit, at + 1), at + 2)
        };
        let agrees = match (self.expires, expires) {
            (Expires::Unsaid, _) => true,
            (Expires::At(before, _), Expires::At(now, _)) => before == now,
            (before, now) => before == now,
        };
        self.expires = expires;
        agrees.then_some(next)
    }
}
