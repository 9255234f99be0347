//! BITFIELD: integers of 1 to 64 bits at any bit offset of a string.

use super::bit_offset;
use crate::command::{Access, Args, Context, Outcome, access};
use crate::db::{EventClasses, Key, strings};
use crate::error::ClientError;
use structures::bits;
use wire::convert::{low_u64, signed_bits};

/// The handling of a result that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Keep the lowest bits.
    Wrap,
    /// Take the nearest representable value.
    Saturate,
    /// Change nothing and reply null.
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    signed: bool,
    width: u32,
    /// The offset of its highest bit.
    offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    IncrementBy(i64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    field: Field,
    action: Action,
    overflow: Overflow,
}

/// BITFIELD.
pub fn bitfield(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, operations) = (args.key(1), parse(ctx, args)?);
    let last_written = operations
        .iter()
        .filter(|operation| operation.action != Action::Get)
        .map(|operation| operation.field.offset + u64::from(operation.field.width) - 1)
        .max();
    match last_written {
        None => read(ctx, key, &operations),
        Some(last_bit) => change(ctx, key, &operations, (last_bit / 8) as usize + 1),
    }
}

/// BITFIELD_RO.
pub fn bitfield_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operations = parse(ctx, args)?;
    if operations.iter().any(|operation| operation.action != Action::Get) {
        return Err(ClientError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(ctx, args.key(1), &operations)
}

fn parse(ctx: &Context<'_>, args: Args<'_>) -> Result<Vec<Operation>, ClientError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < args.len() {
        let following = args.len() - at - 1;
        if args.is(at, "OVERFLOW") && following >= 1 {
            let words = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
            let named = words.into_iter().find(|(word, _)| args.is(at + 1, word));
            overflow = named.ok_or(ClientError::text("ERR Invalid OVERFLOW type specified"))?.1;
            at += 2;
            continue;
        }
        let reads = args.is(at, "GET") && following >= 2;
        let sets = args.is(at, "SET") && following >= 3;
        let increments = args.is(at, "INCRBY") && following >= 3;
        if !(reads || sets || increments) {
            return Err(ClientError::Syntax);
        }
        let (signed, width) = integer_type(args.at(at + 1))?;
        let field = Field { signed, width, offset: bit_offset(ctx, args.at(at + 2), Some(width))? };
        let action = match (reads, sets) {
            (true, _) => Action::Get,
            (_, true) => Action::Set(args.integer(at + 3)?),
            _ => Action::IncrementBy(args.integer(at + 3)?),
        };
        operations.push(Operation { field, action, overflow });
        at += if reads { 3 } else { 4 };
    }
    Ok(operations)
}

/// Parses `i16`, `u8`: signedness and width. Replies cannot hold an unsigned integer of 64 bits.
fn integer_type(word: &[u8]) -> Result<(bool, u32), ClientError> {
    let (signed, width_max) = match word.first() {
        Some(b'i') => (true, 64),
        Some(b'u') => (false, 63),
        _ => (false, 0),
    };
    let width = word.get(1..).and_then(wire::number::parse_i64).and_then(|width| u32::try_from(width).ok());
    let width = width.filter(|width| (1..=width_max).contains(width));
    let width = width.ok_or(ClientError::text(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
    ))?;
    Ok((signed, width))
}

fn read(ctx: &mut Context<'_>, key: Key<'_>, operations: &[Operation]) -> Outcome {
    let text = ctx.db.read_string(key)?;
    let answers: Vec<i64> = operations
        .iter()
        .map(|operation| text.map_or(0, |text| text.with_bytes(|bytes| operation.field.read(bytes))))
        .collect();
    ctx.reply.array(answers.len());
    answers.iter().for_each(|&answer| ctx.reply.integer(answer));
    Ok(())
}

fn change(ctx: &mut Context<'_>, key: Key<'_>, operations: &[Operation], len_min: usize) -> Outcome {
    let mut answers = Vec::with_capacity(operations.len());
    let (grown, changes) = ctx.db.edit_text_if(key, |text| {
        let grown = text.len() < len_min;
        strings::grow(text, len_min);
        let mut changes = 0;
        for operation in operations {
            let (answer, changed) = operation.apply(text);
            answers.push(answer);
            let writes = operation.action != Action::Get && answer.is_some();
            changes += u64::from(writes && (grown || changed));
        }
        ((grown, changes), grown || changes > 0)
    })?;
    if changes > 0 {
        ctx.db.changed_many(EventClasses::STRING, "setbit", key, changes);
    } else if grown {
        // Every write failed, but the string was extended for them.
        ctx.db.touched(key);
    }
    ctx.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(value) => ctx.reply.integer(value),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

impl Operation {
    /// The reply, null for a failed operation, and whether the field's value has changed.
    fn apply(&self, text: &mut [u8]) -> (Option<i64>, bool) {
        let before = self.field.read(text);
        let after = match self.action {
            Action::Get => return (Some(before), false),
            Action::Set(value) => self.field.fit(value, 0, self.overflow),
            Action::IncrementBy(amount) => self.field.fit(before, amount, self.overflow),
        };
        let Some(after) = after else { return (None, false) };
        bits::write_field(text, self.field.offset, self.field.width, after as u64);
        let answer = if matches!(self.action, Action::Set(_)) { before } else { after };
        (Some(answer), before != after)
    }
}

impl Field {
    fn read(&self, bytes: &[u8]) -> i64 {
        self.extend(bits::read_field(bytes, self.offset, self.width))
    }

    /// The value of the field's bits, sign-extended.
    fn extend(&self, bits: u64) -> i64 {
        let unused = 64 - self.width;
        if self.signed {
            signed_bits(bits << unused) >> unused
        } else {
            signed_bits(bits << unused >> unused)
        }
    }

    /// `value + amount`, adjusted to the field's range.
    fn fit(&self, value: i64, amount: i64, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.limits();
        let sum = if self.signed {
            i128::from(value) + i128::from(amount)
        } else {
            // A negative value represents the large unsigned one with the same bits.
            i128::from(value as u64) + i128::from(amount)
        };
        let above =
            sum > max.into() || self.signed && value < i64::MIN.saturating_add(max) + 1 && self.width < 64;
        if !above && sum >= min.into() {
            return i64::try_from(sum).ok();
        }
        match overflow {
            Overflow::Wrap => Some(self.extend(low_u64(sum as u128))),
            Overflow::Saturate => Some(if above { max } else { min }),
            Overflow::Fail => None,
        }
    }

    fn limits(&self) -> (i64, i64) {
        let unused = 64 - self.width;
        if self.signed {
            (i64::MIN >> unused, i64::MAX >> unused)
        } else {
            (0, signed_bits(u64::MAX >> unused))
        }
    }
}

/// BITFIELD with only GET is a read.
pub fn changed_key(args: Args<'_>) -> Vec<(usize, Access)> {
    const CHANGED: Access = access::RW | access::ACCESS | access::UPDATE;
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        at += match () {
            () if args.is(at, "GET") && left >= 2 => 3,
            () if args.is(at, "OVERFLOW") && left >= 1 => 2,
            // Invalid arguments count as a change, so that they cannot bypass the check of a key's permissions.
            () => return vec![(1, CHANGED)],
        };
    }
    vec![(1, access::RO | access::ACCESS)]
}
