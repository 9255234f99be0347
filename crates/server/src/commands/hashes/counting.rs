//! Numeric fields: HINCRBY and HINCRBYFLOAT.

use crate::command::{Args, Context, Outcome};
use crate::db::hash::{FieldExpiry, Hash};
use crate::db::{EventClasses, Key};
use crate::error::ClientError;
use wire::number::{Extended, i64_text};

/// The field's value, or `None`, and the expiry that an update keeps.
fn current(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    field: &[u8],
) -> Result<(Option<Vec<u8>>, FieldExpiry), ClientError> {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection_for_write::<Hash>(key)?;
    Ok(match hash.and_then(|hash| hash.get_with_expiry(field, at_ms)) {
        None => (None, FieldExpiry::Clear),
        Some((value, expiry_ms)) => {
            (Some(value.to_vec()), expiry_ms.map_or(FieldExpiry::Clear, FieldExpiry::At))
        }
    })
}

fn store(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    value: &[u8],
    expiry: FieldExpiry,
    event: &'static str,
) -> Outcome {
    let (key, field) = (args.key(1), args.at(2));
    ctx.db
        .change_or_create(key, |hash: &mut Hash, mut context| hash.set(field, value, expiry, &mut context))?;
    ctx.db.changed(EventClasses::HASH, event, key);
    Ok(())
}

pub(super) fn hincrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = args.integer(3)?;
    let (before, expiry) = current(ctx, args.key(1), args.at(2))?;
    let before = match before {
        None => 0,
        Some(text) => {
            wire::number::parse_i64(&text).ok_or(ClientError::text("ERR hash value is not an integer"))?
        }
    };
    let after = before.checked_add(amount).ok_or(ClientError::IncrementOverflow)?;
    store(ctx, args, &i64_text(after), expiry, "hincrby")?;
    ctx.reply.integer(after);
    Ok(())
}

pub(super) fn hincrbyfloat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = Extended::parse(args.at(3)).ok_or(ClientError::NotFloat)?;
    if !amount.is_finite() {
        return Err(ClientError::text("ERR value is NaN or Infinity"));
    }
    let (before, expiry) = current(ctx, args.key(1), args.at(2))?;
    let before = match before {
        None => Extended::from_i64(0),
        Some(text) => Extended::parse(&text).ok_or(ClientError::text("ERR hash value is not a float"))?,
    };
    let after = before.add(amount).filter(|sum| sum.is_finite()).ok_or(ClientError::IncrementNotFinite)?;
    let text = after.text();
    store(ctx, args, &text, expiry, "hincrbyfloat")?;
    ctx.reply.bulk(&text);
    Ok(())
}
