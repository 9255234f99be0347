//! The expiry of fields: setting, reading and clearing it.

use super::arguments::{self, Existence, Expires, Options, resolve};
use crate::command::{Args, Context, Outcome};
use crate::commands::expiry::ExpireConditions;
use crate::commands::strings::options::ExpiryUnit;
use crate::db::collection::CollectionContext;
use crate::db::hash::{FieldExpiry, Hash};
use crate::db::{EventClasses, Key};
use crate::error::{ClientError, quoted};

/// Results of setting or clearing a field's expiry.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

pub(super) fn hexpire(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(ctx, args, ExpiryUnit { in_seconds: true, absolute: false })
}

pub(super) fn hpexpire(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(ctx, args, ExpiryUnit { in_seconds: false, absolute: false })
}

pub(super) fn hexpireat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(ctx, args, ExpiryUnit { in_seconds: true, absolute: true })
}

pub(super) fn hpexpireat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(ctx, args, ExpiryUnit { in_seconds: false, absolute: true })
}

/// Sets the expiry of one field if `conditions` permit; `expired`: the expiry is in the past.
fn expire_field(
    hash: &mut Hash,
    field: &[u8],
    at_ms: i64,
    expired: bool,
    conditions: &ExpireConditions,
    context: &mut CollectionContext<'_>,
) -> i64 {
    hash.remove_if_expired(field, context);
    let Some((_, before_ms)) = hash.get_with_expiry(field, i64::MIN) else { return NO_FIELD };
    if !conditions.allow(before_ms, at_ms) {
        return REFUSED;
    }
    if expired {
        hash.remove_even_expired(field, context);
        return REMOVED;
    }
    hash.set_expiry(field, Some(at_ms), context);
    DONE
}

fn expire(ctx: &mut Context<'_>, args: Args<'_>, unit: ExpiryUnit) -> Outcome {
    let fields_at = arguments::find_fields(args, 3);
    let mut conditions = ExpireConditions::default();
    if let Some(fields_at) = fields_at {
        for word in args.first(fields_at).from(3).iter() {
            if !conditions.add(word) {
                let word = quoted(word);
                return Err(ClientError::formatted(format!("ERR Unsupported option {word}")));
            }
        }
        conditions.check()?;
    }
    let fields = arguments::fields(args, fields_at)?;
    let at_ms = resolve(unit, args.integer(2)?, ctx.db.now_ms(), ctx.command.name)?;
    let (key, expired) = (args.key(1), ctx.db.is_expired(at_ms));
    let results = ctx.db.change(key, |hash: &mut Hash, mut context| {
        fields
            .iter()
            .map(|field| expire_field(hash, field, at_ms, expired, &conditions, &mut context))
            .collect::<Vec<_>>()
    })?;
    let results = results.unwrap_or_else(|| vec![NO_FIELD; fields.len()]);
    let removed = results.iter().filter(|&&result| result == REMOVED).count();
    let changed = removed + results.iter().filter(|&&result| result == DONE).count();
    ctx.db.count_expired_fields(removed);
    if changed > 0 {
        let event = if removed > 0 { "hexpired" } else { "hexpire" };
        ctx.db.changed_many(EventClasses::HASH, event, key, changed as u64);
    }
    if removed > 0 {
        let is_removed = |(field, result)| (result == REMOVED).then_some(field);
        propagate_removed(ctx, key, fields.iter().zip(results.iter().copied()).filter_map(is_removed));
    }
    answer_integers(ctx, &results);
    Ok(())
}

/// Propagates fields with an expiry in the past as removals: the clocks of replicas can differ.
fn propagate_removed<'a>(ctx: &mut Context<'_>, key: Key<'_>, fields: impl Iterator<Item = &'a [u8]>) {
    if ctx.db.change_log.is_recording() {
        let fields: Vec<&[u8]> = fields.collect();
        ctx.db.propagate_as_list(&[b"HDEL", key.bytes()], fields.into_iter());
    }
}

fn answer_integers(ctx: &mut Context<'_>, integers: &[i64]) {
    ctx.reply.array(integers.len());
    integers.iter().for_each(|&integer| ctx.reply.integer(integer));
}

/// Clears the expiry of one field.
fn persist_field(hash: &mut Hash, field: &[u8], context: &mut CollectionContext<'_>) -> i64 {
    hash.remove_if_expired(field, context);
    match hash.get_with_expiry(field, i64::MIN) {
        None => NO_FIELD,
        Some((_, None)) => NO_EXPIRY,
        Some((_, Some(_))) => {
            hash.set_expiry(field, None, context);
            DONE
        }
    }
}

pub(super) fn hpersist(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let fields = arguments::only_fields(args)?;
    let key = args.key(1);
    let results = ctx.db.change(key, |hash: &mut Hash, mut context| {
        fields.iter().map(|field| persist_field(hash, field, &mut context)).collect::<Vec<_>>()
    })?;
    let results = results.unwrap_or_else(|| vec![NO_FIELD; fields.len()]);
    let changed = results.iter().filter(|&&result| result == DONE).count();
    if changed > 0 {
        ctx.db.changed_many(EventClasses::HASH, "hpersist", key, changed as u64);
    }
    answer_integers(ctx, &results);
    Ok(())
}

pub(super) fn httl(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    answer_expiry(ctx, args, |expiry_ms| rounded_seconds(expiry_ms.saturating_sub(now_ms).max(0)))
}

pub(super) fn hpttl(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    answer_expiry(ctx, args, |expiry_ms| expiry_ms.saturating_sub(now_ms).max(0))
}

pub(super) fn hexpiretime(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_expiry(ctx, args, rounded_seconds)
}

pub(super) fn hpexpiretime(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_expiry(ctx, args, |expiry_ms| expiry_ms)
}

fn rounded_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}

fn answer_expiry(ctx: &mut Context<'_>, args: Args<'_>, shown: impl Fn(i64) -> i64) -> Outcome {
    let fields = arguments::fields_at_2(args, ClientError::Syntax)?;
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection::<Hash>(args.key(1))?;
    ctx.reply.array(fields.len());
    for field in fields.iter() {
        ctx.reply.integer(match hash.and_then(|hash| hash.get_with_expiry(field, at_ms)) {
            None => NO_FIELD,
            Some((_, None)) => NO_EXPIRY,
            Some((_, Some(expiry_ms))) => shown(expiry_ms),
        });
    }
    Ok(())
}

/// The change that HGETEX makes to each field after reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Remove,
    Persist,
    ExpireAt(i64),
}

impl Then {
    /// Applies the change; returns whether the field has changed.
    fn apply(self, hash: &mut Hash, field: &[u8], context: &mut CollectionContext<'_>) -> bool {
        match self {
            Then::Nothing => false,
            Then::Remove => hash.remove(field, context),
            Then::Persist => persist_field(hash, field, context) == DONE,
            Then::ExpireAt(at_ms) => {
                let any = ExpireConditions::default();
                expire_field(hash, field, at_ms, false, &any, context) == DONE
            }
        }
    }

    fn event(self) -> &'static str {
        match self {
            Then::Remove => "hexpired",
            Then::Persist => "hpersist",
            Then::Nothing | Then::ExpireAt(_) => "hexpire",
        }
    }
}

pub(super) fn hgetex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let fields_at = arguments::find_fields(args, 0);
    let options = Options::parse(args, fields_at.unwrap_or(0), false)?;
    let fields = arguments::fields(args, fields_at)?;
    let key = args.key(1);
    ctx.db.read_collection::<Hash>(key)?;
    let then = match options.expires {
        Expires::Unsaid | Expires::Keep => Then::Nothing,
        Expires::Never => Then::Persist,
        Expires::At(unit, at) => match resolve(unit, args.integer(at)?, ctx.db.now_ms(), ctx.command.name)? {
            at_ms if ctx.db.is_expired(at_ms) => Then::Remove,
            at_ms => Then::ExpireAt(at_ms),
        },
    };
    let at_ms = ctx.db.fields_at_ms();
    ctx.reply.array(fields.len());
    let reply = &mut *ctx.reply;
    let changed = ctx.db.change(key, |hash: &mut Hash, mut context| {
        let answer_then = |field: &&[u8]| {
            match hash.get(field, at_ms) {
                Some(value) => value.reply(reply),
                None => reply.null(),
            }
            then.apply(hash, field, &mut context)
        };
        fields.iter().filter(answer_then).count()
    })?;
    let Some(changed) = changed else {
        fields.iter().for_each(|_| ctx.reply.null());
        return Ok(());
    };
    if changed > 0 {
        ctx.db.count_expired_fields(if then == Then::Remove { changed } else { 0 });
        ctx.db.changed_many(EventClasses::HASH, then.event(), key, changed as u64);
        if then == Then::Remove {
            propagate_removed(ctx, key, fields.iter());
        }
    }
    Ok(())
}

pub(super) fn hgetdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let fields = arguments::only_fields(args)?;
    let (key, at_ms) = (args.key(1), ctx.db.fields_at_ms());
    ctx.db.expect_kind(key, crate::db::Kind::Hash)?;
    ctx.reply.array(fields.len());
    let reply = &mut *ctx.reply;
    let mut kept = Vec::new();
    let removed = ctx.db.change(key, |hash: &mut Hash, mut context| {
        let answer_then_remove = |&at: &usize| {
            match hash.get(fields.at(at), at_ms) {
                Some(value) => value.reply(reply),
                None => reply.null(),
            }
            remove_or_keep(hash, (at, fields.at(at)), at_ms, &mut kept, &mut context)
        };
        (0..fields.len()).filter(answer_then_remove).count()
    })?;
    let Some(removed) = removed else {
        fields.iter().for_each(|_| ctx.reply.null());
        return Ok(());
    };
    record_removed(ctx, key, fields, removed, &kept);
    Ok(())
}

/// Removes a field that a client names; returns whether it existed. An expired field did not: it is kept until active
/// expiry removes it, and is added to `kept`.
pub(super) fn remove_or_keep(
    hash: &mut Hash,
    field: (usize, &[u8]),
    at_ms: i64,
    kept: &mut Vec<usize>,
    context: &mut CollectionContext<'_>,
) -> bool {
    let (at, name) = field;
    let is_expired = hash.is_expired(name, at_ms);
    if is_expired {
        kept.push(at);
    }
    !is_expired && hash.remove_even_expired(name, context)
}

/// Records the removal of fields. Expired fields in `kept` are excluded from propagation, as replicas can still see them.
pub(super) fn record_removed(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    fields: Args<'_>,
    removed: usize,
    kept: &[usize],
) {
    if removed == 0 {
        return;
    }
    ctx.db.changed_many(EventClasses::HASH, "hdel", key, removed as u64);
    if !kept.is_empty() {
        let others = (0..fields.len()).filter(|at| kept.binary_search(at).is_err());
        propagate_removed(ctx, key, others.map(|at| fields.at(at)));
    }
}

/// Whether the key and the fields meet the conditions of HSETEX.
fn is_wanted(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    options: &Options,
    pairs: Args<'_>,
) -> Result<bool, ClientError> {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection_for_write::<Hash>(key)?;
    let there = |field| hash.is_some_and(|hash| hash.contains(field, at_ms));
    let mut fields = pairs.iter().step_by(2);
    Ok(match options.fields {
        None => true,
        Some(Existence::Absent) => !fields.any(there),
        Some(Existence::Present) => fields.all(there),
    })
}

pub(super) fn hsetex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let fields_at = arguments::find_fields(args, 0);
    let options = Options::parse(args, fields_at.unwrap_or(0), true)?;
    let pairs = arguments::pairs(args, fields_at)?;
    let key = args.key(1);
    if options.key.is_some() {
        // Without its expired fields among these, the hash can be empty and no longer exist.
        ctx.db.change(key, |hash: &mut Hash, mut context| {
            pairs.iter().step_by(2).for_each(|field| _ = hash.remove_if_expired(field, &mut context));
        })?;
    }
    let key_is = match ctx.db.read_collection_for_write::<Hash>(key)? {
        Some(_) => Existence::Present,
        None => Existence::Absent,
    };
    if options.key.is_some_and(|wanted| wanted != key_is) {
        ctx.reply.integer(0);
        return Ok(());
    }
    let expiry = match options.expires {
        Expires::Unsaid | Expires::Never => FieldExpiry::Clear,
        Expires::Keep => FieldExpiry::Keep,
        Expires::At(unit, at) => {
            FieldExpiry::At(resolve(unit, args.integer(at)?, ctx.db.now_ms(), ctx.command.name)?)
        }
    };
    if !is_wanted(ctx, key, &options, pairs)? {
        ctx.reply.integer(0);
        return Ok(());
    }
    match expiry {
        FieldExpiry::At(at_ms) if ctx.db.is_expired(at_ms) => set_in_the_past(ctx, key, key_is, pairs)?,
        expiry => set_until(ctx, key, expiry, pairs)?,
    }
    ctx.reply.integer(1);
    Ok(())
}

fn set_until(ctx: &mut Context<'_>, key: Key<'_>, expiry: FieldExpiry, pairs: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    ctx.db.change_or_create(key, |hash: &mut Hash, mut context| {
        hash.remove_expired_of(pairs.iter().step_by(2), &mut context);
        if matches!(expiry, FieldExpiry::At(at_ms) if at_ms <= now_ms) {
            // A repeated field is already expired the second time, but it did not exist before.
            context.expired_fields = None;
        }
        for at in (0..pairs.len()).step_by(2) {
            hash.set(pairs.at(at), pairs.at(at + 1), expiry, &mut context);
        }
    })?;
    ctx.db.changed_many(EventClasses::HASH, "hset", key, pairs.len() as u64 / 2);
    if matches!(expiry, FieldExpiry::At(_)) {
        ctx.db.event(EventClasses::HASH, "hexpire", key);
    }
    Ok(())
}

/// Removes fields that would be set with an expiry in the past, with the same events as if they had been set first.
fn set_in_the_past(ctx: &mut Context<'_>, key: Key<'_>, key_is: Existence, pairs: Args<'_>) -> Outcome {
    let removed = ctx.db.change(key, |hash: &mut Hash, mut context| {
        // Already expired fields are removed too.
        let mut removes = |field: &&[u8]| hash.remove_even_expired(field, &mut context);
        pairs.iter().step_by(2).filter(|field| removes(field)).count()
    })?;
    let removed = removed.unwrap_or(0);
    ctx.db.count_expired_fields(pairs.len() / 2);
    if key_is == Existence::Absent {
        ctx.db.event(EventClasses::NEW, "new", key);
    }
    ctx.db.event(EventClasses::HASH, "hset", key);
    ctx.db.event(EventClasses::HASH, "hexpire", key);
    if removed > 0 {
        ctx.db.changed_many(EventClasses::HASH, "hexpired", key, removed as u64);
        propagate_removed(ctx, key, pairs.iter().step_by(2));
        return Ok(());
    }
    ctx.db.event(EventClasses::HASH, "hexpired", key);
    if key_is == Existence::Absent {
        ctx.db.event(EventClasses::GENERIC, "del", key);
    }
    Ok(())
}
