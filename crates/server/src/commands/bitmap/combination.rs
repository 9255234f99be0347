//! BITOP: bitwise combinations of strings.

use crate::command::{Args, Context, Outcome, propagation};
use crate::db::{Db, EventClasses, StringValue};
use crate::error::ClientError;

/// The operation, on the bits at the same position of the first string (`x`) and of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    And,
    Or,
    Xor,
    Not,
    /// `x` without any of the others.
    Difference,
    /// Any of the others, but not `x`.
    ReverseDifference,
    /// `x`, and any of the others.
    AndOr,
    /// Exactly one of all strings.
    One,
}

impl Combination {
    fn parse(args: Args<'_>) -> Result<Self, ClientError> {
        let words = [
            ("AND", Self::And),
            ("OR", Self::Or),
            ("XOR", Self::Xor),
            ("NOT", Self::Not),
            ("DIFF", Self::Difference),
            ("DIFF1", Self::ReverseDifference),
            ("ANDOR", Self::AndOr),
            ("ONE", Self::One),
        ];
        let known = words.into_iter().find(|(word, _)| args.is(1, word));
        let (word, combination) = known.ok_or(ClientError::Syntax)?;
        match combination {
            Self::Not if args.len() != 4 => {
                Err(ClientError::text("ERR BITOP NOT must be called with a single source key."))
            }
            Self::Difference | Self::ReverseDifference | Self::AndOr if args.len() < 5 => {
                let text = format!("ERR BITOP {word} must be called with at least two source keys.");
                Err(ClientError::formatted(text))
            }
            combination => Ok(combination),
        }
    }
}

/// BITOP.
pub fn bitop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let combination = Combination::parse(args)?;
    let (destination, sources) = (args.key(2), args.from(3));
    let result = combine(combination, &ctx.db.read_strings(sources.keys())?);
    let len = result.len();
    if len > 0 {
        ctx.db.put_buffer(destination, result, None);
        ctx.db.changed(EventClasses::STRING, "set", destination);
    } else if ctx.db.remove_replaced(destination) {
        ctx.db.changed(EventClasses::GENERIC, "del", destination);
    }
    ctx.reply.count(len);
    Ok(())
}

/// Propagates the results of operations that only Redis 8.2 and later support: replicas can be of any kind.
pub fn propagate(args: Args<'_>, db: &mut Db) {
    let is_known_everywhere = ["AND", "OR", "XOR", "NOT"].iter().any(|word| args.is(1, word));
    if !is_known_everywhere {
        propagation::string_or_deletion(args.key(2), db);
    }
}

/// The result has the length of the longest string; shorter ones are extended with zeros.
fn combine(combination: Combination, texts: &[Option<StringValue<'_>>]) -> Vec<u8> {
    let len = texts.iter().flatten().map(StringValue::len).max().unwrap_or(0);
    let mut result = Vec::with_capacity(len);
    let (first, others) = texts.split_first().expect("there is a source");
    // Writes each byte directly, without zeroing it first.
    with_bytes(first, |bytes| match combination {
        Combination::Not => result.extend(bytes.iter().map(|byte| !byte)),
        _ => result.extend_from_slice(bytes),
    });
    result.resize(len, 0);
    match combination {
        Combination::And => {
            // The result is zero from the end of the shortest string on.
            let shared =
                texts.iter().map(|text| text.as_ref().map_or(0, StringValue::len)).min().unwrap_or(0);
            result[shared..].fill(0);
            others.iter().for_each(|other| {
                with_bytes(other, |bytes| {
                    result[..shared].iter_mut().zip(bytes).for_each(|(a, b)| *a &= b);
                });
            });
        }
        Combination::Or => or_all(&mut result, others),
        Combination::Xor => others.iter().for_each(|other| {
            with_bytes(other, |bytes| result.iter_mut().zip(bytes).for_each(|(a, b)| *a ^= b));
        }),
        Combination::Not => {}
        Combination::Difference => with_any(&mut result, others, |x, any| x & !any),
        Combination::ReverseDifference => with_any(&mut result, others, |x, any| !x & any),
        Combination::AndOr => with_any(&mut result, others, |x, any| x & any),
        Combination::One => {
            let mut several = vec![0; len];
            for other in others {
                with_bytes(other, |bytes| {
                    for ((one, several), b) in result.iter_mut().zip(&mut several).zip(bytes) {
                        *several |= *one & b;
                        *one |= b;
                    }
                });
            }
            result.iter_mut().zip(several).for_each(|(one, several)| *one &= !several);
        }
    }
    result
}

fn or_all(result: &mut [u8], texts: &[Option<StringValue<'_>>]) {
    for text in texts {
        with_bytes(text, |bytes| result.iter_mut().zip(bytes).for_each(|(a, b)| *a |= b));
    }
}

/// Combines the first string with the union of the others.
fn with_any(first: &mut [u8], others: &[Option<StringValue<'_>>], bits: fn(u8, u8) -> u8) {
    let mut any = vec![0; first.len()];
    or_all(&mut any, others);
    first.iter_mut().zip(any).for_each(|(x, any)| *x = bits(*x, any));
}

fn with_bytes(text: &Option<StringValue<'_>>, apply: impl FnOnce(&[u8])) {
    // In lines of the cache.
    structures::work::visited(text.as_ref().map_or(0, |text| text.len().div_ceil(64)));
    match text {
        Some(text) => text.with_bytes(apply),
        None => apply(b""),
    }
}
