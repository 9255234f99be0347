//! Comparing strings with a client's expected value, in full or by digest: DIGEST, DELEX, DELIFEQ, and the
//! conditions of SET.
//!
//! A digest is the 64 bits of XXH3 as 16 hexadecimal digits: <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>.

use crate::command::{Args, Context, Outcome};
use crate::db::{EventClasses, StringValue};
use crate::error::ClientError;
use wire::convert::usize_of;
use xxhash_rust::xxh3::xxh3_64;

const DIGEST_DIGITS: usize = 16;

/// The expected value of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison<'a> {
    Equals(&'a [u8]),
    Differs(&'a [u8]),
    DigestEquals(&'a [u8]),
    DigestDiffers(&'a [u8]),
}

impl<'a> Comparison<'a> {
    /// Parses the comparison at `at`, with the argument after it.
    pub fn parse(args: Args<'a>, at: usize) -> Option<Self> {
        let words: [(&str, fn(&'a [u8]) -> Self); 4] = [
            ("IFEQ", Comparison::Equals),
            ("IFNE", Comparison::Differs),
            ("IFDEQ", Comparison::DigestEquals),
            ("IFDNE", Comparison::DigestDiffers),
        ];
        let (_, comparison) = words.into_iter().find(|(word, _)| args.is(at, word))?;
        Some(comparison(args.get(at + 1)?))
    }

    /// Whether the comparison is true without a string.
    pub fn holds_of_nothing(self) -> bool {
        matches!(self, Comparison::Differs(_) | Comparison::DigestDiffers(_))
    }

    /// Whether the comparison is true for the string.
    pub fn holds(self, text: &StringValue<'_>) -> Result<bool, ClientError> {
        Ok(match self {
            Comparison::Equals(wanted) => text.equals(wanted),
            Comparison::Differs(unwanted) => !text.equals(unwanted),
            Comparison::DigestEquals(wanted) => has_digest(text, wanted)?,
            Comparison::DigestDiffers(unwanted) => !has_digest(text, unwanted)?,
        })
    }
}

fn has_digest(text: &StringValue<'_>, digits: &[u8]) -> Result<bool, ClientError> {
    if digits.len() != DIGEST_DIGITS {
        return Err(ClientError::text("ERR must be exactly 16 hexadecimal characters"));
    }
    Ok(digest_of(text).eq_ignore_ascii_case(digits))
}

fn digest_of(text: &StringValue<'_>) -> [u8; DIGEST_DIGITS] {
    let digest = text.with_bytes(xxh3_64);
    std::array::from_fn(|at| b"0123456789abcdef"[usize_of(digest >> (60 - 4 * at)) & 15])
}

/// DIGEST.
pub fn digest(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match ctx.db.read_string(args.key(1))? {
        Some(text) => ctx.reply.bulk(&digest_of(&text)),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// DELEX.
pub fn delex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let holds = match args.len() {
        2 => true,
        4 => delex_holds(ctx, args)?,
        _ => return Err(ClientError::WrongArity { command: "delex".to_owned() }),
    };
    let removed = holds && ctx.db.remove(key);
    if removed {
        ctx.db.changed(EventClasses::GENERIC, "del", key);
    }
    ctx.reply.integer(removed.into());
    Ok(())
}

fn delex_holds(ctx: &mut Context<'_>, args: Args<'_>) -> Result<bool, ClientError> {
    let text = match ctx.db.read_string_for_write(args.key(1)) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(false),
        Err(_) => {
            return Err(ClientError::text("ERR Key should be of string type if conditions are specified"));
        }
    };
    let comparison = Comparison::parse(args, 2)
        .ok_or(ClientError::text("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
    comparison.holds(&text)
}

/// DELIFEQ.
pub fn delifeq(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let equal = ctx.db.read_string_for_write(key)?.is_some_and(|text| text.equals(args.at(2)));
    if equal {
        ctx.db.remove(key);
        ctx.db.changed(EventClasses::GENERIC, "del", key);
    }
    ctx.reply.integer(equal.into());
    Ok(())
}
