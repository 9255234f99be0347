//! Strings as bitmaps: single bits, ranges of bits, combinations of strings, and integer fields.

mod combination;
mod field;

use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::{EventClasses, strings};
use crate::error::ClientError;
use structures::bits;
use wire::convert::{signed_count, signed_len};

const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("bitcount", -2, Group::Bitmap, bitcount)
        .flags(READONLY)
        .keys(&READS)
        .since("2.6.0", "O(N)")
        .doc(
            "Counts the set bits of a string, or of a range of it.",
            "key [range: start [end-unit-block: end [unit@7.0.0: BYTE | BIT]]]",
        )
        .history(&[
            ("7.0.0", "`BYTE` and `BIT`."),
            ("8.0.0", "`end` is optional; the default is the last byte."),
        ]),
    Command::new("bitfield", -2, Group::Bitmap, field::bitfield)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::UPDATE | access::ACCESS | access::VARIABLE_FLAGS)
            .noted("read-only or write-only if all operations are")])
        .finds_keys(field::changed_key)
        .since("3.2.0", "O(1) for each subcommand")
        .doc(
            "Reads and changes integers of any width at any bit offset of a string.",
            "key [operation: GET <get-block: encoding offset> | <write: [OVERFLOW <overflow-block: WRAP | \
                SAT | FAIL>] <write-operation: SET <set-block: encoding offset value:integer> | INCRBY \
                <incrby-block: encoding offset increment:integer>>>] ...",
        ),
    Command::new("bitfield_ro", -2, Group::Bitmap, field::bitfield_ro)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("6.0.0", "O(1) for each subcommand")
        .doc(
            "Reads integers of any width at any bit offset of a string.",
            "key [GET... <get-block: encoding offset>]",
        ),
    Command::new("bitop", -4, Group::Bitmap, combination::bitop)
        .flags(WRITE | DENY_OOM)
        .keys(&[
            KeySpec::one(2, access::OW | access::UPDATE),
            KeySpec::range(3, -1, 1, access::RO | access::ACCESS),
        ])
        .propagated_as(combination::propagate)
        .since("2.6.0", "O(N)")
        .doc(
            "Combines strings bitwise and stores the result.",
            "<operation: AND | OR | XOR | NOT | DIFF@8.2.0 | DIFF1@8.2.0 | ANDOR@8.2.0 | ONE@8.2.0> \
                destkey:key key ...",
        )
        .history(&[("8.2.0", "`DIFF`, `DIFF1`, `ANDOR` and `ONE`.")]),
    Command::new("bitpos", -3, Group::Bitmap, bitpos)
        .flags(READONLY)
        .keys(&READS)
        .since("2.8.7", "O(N)")
        .doc(
            "Finds the first set or clear bit of a string.",
            "key bit:integer [range: start [end-unit-block: end [unit@7.0.0: BYTE | BIT]]]",
        )
        .history(&[("7.0.0", "`BYTE` and `BIT`.")]),
    Command::new("getbit", 3, Group::Bitmap, getbit)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("2.2.0", "O(1)")
        .doc("Returns one bit of a string.", "key offset"),
    Command::new("setbit", 4, Group::Bitmap, setbit)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE)])
        .since("2.2.0", "O(1)")
        .doc(
            "Sets or clears one bit of a string and returns its previous value.",
            "key offset value:integer",
        ),
];

/// A bit's position, which must lie within the maximum length of a string; `#n` is the `n`-th field of `width` bits,
/// if `width` is given.
fn bit_offset(ctx: &Context<'_>, word: &[u8], width: Option<u32>) -> Result<u64, ClientError> {
    let (digits, unit) = match (word, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, i64::from(width)),
        _ => (word, 1),
    };
    wire::number::parse_i64(digits)
        .and_then(|number| number.checked_mul(unit))
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < ctx.server.config.proto_max_bulk_len_bytes as u64)
        .ok_or(ClientError::BitOffset)
}

fn setbit(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let offset = bit_offset(ctx, args.at(2), None)?;
    let on = args.integer_in(3, 0, 1, ClientError::BitValue)? == 1;
    let (was, changed) = ctx.db.edit_text_if(key, |text| {
        let grows = offset / 8 >= text.len() as u64;
        let was = bits::read_field(text, offset, 1) == 1;
        if grows {
            strings::grow(text, (offset / 8) as usize + 1);
        }
        if was != on {
            bits::write_field(text, offset, 1, on.into());
        }
        let changed = grows || was != on;
        ((was, changed), changed)
    })?;
    if changed {
        ctx.db.changed(EventClasses::STRING, "setbit", key);
    }
    ctx.reply.integer(was.into());
    Ok(())
}

fn getbit(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let offset = bit_offset(ctx, args.at(2), None)?;
    let text = ctx.db.read_string(args.key(1))?;
    let bit = text.map_or(0, |text| text.with_bytes(|bytes| bits::read_field(bytes, offset, 1)));
    ctx.reply.count(bit);
    Ok(())
}

/// The range of BITCOUNT and BITPOS, as given.
#[derive(Clone, Copy, Default)]
struct Range {
    start: i64,
    /// `None` is the end of the string.
    end: Option<i64>,
    in_bits: bool,
}

impl Range {
    /// The arguments from `first` on: `[start [end [BYTE | BIT]]]`.
    fn parse(args: Args<'_>, first: usize) -> Result<Range, ClientError> {
        let mut range = Range::default();
        let given = args.len() - first;
        if given > 3 {
            return Err(ClientError::Syntax);
        }
        if given >= 1 {
            range.start = args.integer(first)?;
        }
        if given == 3 {
            range.in_bits = args.is(first + 2, "BIT");
            if !range.in_bits && !args.is(first + 2, "BYTE") {
                return Err(ClientError::Syntax);
            }
        }
        if given >= 2 {
            range.end = Some(args.integer(first + 1)?);
        }
        Ok(range)
    }

    /// The first and last bit in a string of `len` bytes, or `None` if the range is empty.
    fn bits(&self, len: usize) -> Option<(u64, u64)> {
        let (unit, total) = if self.in_bits { (1, signed_len(len) * 8) } else { (8, signed_len(len)) };
        let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
        let start = from_end(self.start);
        let end = from_end(self.end.unwrap_or(i64::MAX)).min(total - 1);
        (start <= end).then(|| (start as u64 * unit, end as u64 * unit + unit - 1))
    }
}

fn bitcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let range = Range::parse(args, 2)?;
    let text = ctx.db.read_string(args.key(1))?;
    // Both before the beginning of the string, and reversed: empty, although clamping would select the first element.
    let backwards = range.end.is_some_and(|end| range.start < 0 && end < 0 && range.start > end);
    let count = text.filter(|_| !backwards).map_or(0, |text| {
        text.with_bytes(|bytes| {
            range.bits(bytes.len()).map_or(0, |(first, last)| bits::count_ones_between(bytes, first, last))
        })
    });
    ctx.reply.count(count);
    Ok(())
}

fn bitpos(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = match args.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(ClientError::text("ERR The bit argument must be 1 or 0.")),
    };
    let range = Range::parse(args, 3)?;
    let position = match ctx.db.read_string(args.key(1))? {
        // A missing string is an infinite sequence of zeros.
        None if wanted => None,
        None => Some(0),
        Some(text) => text.with_bytes(|bytes| position(bytes, wanted, range)),
    };
    ctx.reply.integer(position.map_or(-1, signed_count));
    Ok(())
}

fn position(bytes: &[u8], wanted: bool, range: Range) -> Option<u64> {
    let (first, last) = range.bits(bytes.len())?;
    let found = bits::position_between(bytes, wanted, first, last);
    // Without an end, the bits after the string count as zeros.
    found.or((!wanted && range.end.is_none()).then_some(last + 1))
}
