//! Hashes.

mod arguments;
mod counting;
mod expiring;
mod sampling;

use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, PrefetchHint, access, propagation};
use crate::db::EventClasses;
use crate::db::hash::{Cell, FieldExpiry, Hash};
use crate::error::ClientError;

const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];
const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO)];
const UPDATES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::UPDATE)];
const INSERTS: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::INSERT)];
const READS_AND_UPDATES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE)];
const READS_AND_DELETES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)];
const EACH_FIELD: &str = "O(N) where N is the number of fields";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("hdel", -3, Group::Hash, hdel)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(N) where N is the number of fields")
        .doc("Deletes fields.", "key field ...")
        .history(&[("2.4.0", "Several fields at once.")]),
    Command::new("hexists", 3, Group::Hash, hexists)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(1)")
        .doc("Returns whether a field exists.", "key field"),
    Command::new("hexpire", -6, Group::Hash, expiring::hexpire)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .propagated_as(propagation::field_expiry_in_s)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Sets the time to live of fields in seconds.",
            "key seconds [condition: NX | XX | GT | LT] FIELDS <fields: numfields field ...>",
        ),
    Command::new("hexpireat", -6, Group::Hash, expiring::hexpireat)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .propagated_as(propagation::field_expiry_at_s)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Sets the expiry of fields as a Unix time in seconds.",
            "key unix-time-seconds:integer [condition@9.0.0: NX | XX | GT | LT] FIELDS <fields: \
                numfields#0 field ...>",
        ),
    Command::new("hexpiretime", -5, Group::Hash, expiring::hexpiretime)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Returns the expiry of fields as Unix times in seconds.",
            "key FIELDS <fields: numfields#0 field ...>",
        ),
    Command::new("hget", 3, Group::Hash, hget)
        .flags(READONLY | FAST)
        .keys(&READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(1)")
        .doc("Returns the value of a field.", "key field"),
    Command::new("hgetall", 2, Group::Hash, hgetall)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Returns all fields and values.", "key")
        .tips(&["nondeterministic_output_order"]),
    Command::new("hgetdel", -5, Group::Hash, expiring::hgetdel)
        .flags(WRITE | FAST)
        .keys(&READS_AND_DELETES)
        .since("9.1.0", EACH_FIELD)
        .doc("Returns the values of fields and deletes them.", "key FIELDS <fields: numfields#0 field ...>"),
    Command::new("hgetex", -5, Group::Hash, expiring::hgetex)
        .flags(WRITE | FAST)
        .keys(&READS_AND_UPDATES)
        .propagated_as(propagation::fields)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Returns the values of fields and sets or removes their expiry.",
            "key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
                unix-time-milliseconds | PERSIST] FIELDS <fields: numfields#0 field ...>",
        ),
    Command::new("hincrby", 4, Group::Hash, counting::hincrby)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&READS_AND_UPDATES)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(1)")
        .doc("Increments the integer value of a field.", "key field increment:integer"),
    Command::new("hincrbyfloat", 4, Group::Hash, counting::hincrbyfloat)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&READS_AND_UPDATES)
        .prefetch_hint(PrefetchHint::Element(2))
        .propagated_as(propagation::field_value)
        .since("2.6.0", "O(1)")
        .doc("Increments the numeric value of a field.", "key field increment:double"),
    Command::new("hkeys", 2, Group::Hash, hkeys)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Returns all fields.", "key")
        .tips(&["nondeterministic_output_order"]),
    Command::new("hlen", 2, Group::Hash, hlen)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("2.0.0", "O(1)")
        .doc("Returns the number of fields.", "key"),
    Command::new("hmget", -3, Group::Hash, hmget)
        .flags(READONLY | FAST)
        .keys(&READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(N) where N is the number of requested fields")
        .doc("Returns the values of several fields.", "key field ..."),
    Command::new("hmset", -4, Group::Hash, hmset)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(N) where N is the number of fields set")
        .doc("Sets several fields; an older form of HSET.", "key <data: field value> ..."),
    Command::new("hpersist", -5, Group::Hash, expiring::hpersist)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .since("9.0.0", EACH_FIELD)
        .doc("Removes the expiry of fields.", "key FIELDS <fields: numfields#0 field ...>"),
    Command::new("hpexpire", -6, Group::Hash, expiring::hpexpire)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .propagated_as(propagation::field_expiry_in_ms)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Sets the time to live of fields in milliseconds.",
            "key milliseconds [condition@9.0.0: NX | XX | GT | LT] FIELDS <fields: numfields#0 field ...>",
        ),
    Command::new("hpexpireat", -6, Group::Hash, expiring::hpexpireat)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Sets the expiry of fields as a Unix time in milliseconds.",
            "key unix-time-milliseconds:integer [condition@9.0.0: NX | XX | GT | LT] FIELDS <fields: \
                numfields#0 field ...>",
        ),
    Command::new("hpexpiretime", -5, Group::Hash, expiring::hpexpiretime)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Returns the expiry of fields as Unix times in milliseconds.",
            "key FIELDS <fields: numfields#0 field ...>",
        ),
    Command::new("hpttl", -5, Group::Hash, expiring::hpttl)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Returns the time to live of fields in milliseconds.",
            "key FIELDS <fields: numfields#0 field ...>",
        ),
    Command::new("hrandfield", -2, Group::Hash, sampling::hrandfield)
        .flags(READONLY)
        .keys(&READS)
        .since("6.2.0", "O(N) where N is the number of fields returned")
        .doc("Returns random fields.", "key [options: count [WITHVALUES]]")
        .tips(&["nondeterministic_output"]),
    Command::new("hscan", -3, Group::Hash, sampling::hscan)
        .flags(READONLY)
        .keys(&READS)
        .since("2.8.0", "O(1) for every call, O(N) for a complete iteration")
        .doc("Iterates over fields.", "key cursor [MATCH pattern] [COUNT count] [NOVALUES]")
        .tips(&["nondeterministic_output"]),
    Command::new("hset", -4, Group::Hash, hset)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(1) for each field")
        .doc("Sets fields and returns how many were added.", "key <data: field value> ...")
        .history(&[("4.0.0", "Several fields at once.")]),
    Command::new("hsetex", -6, Group::Hash, expiring::hsetex)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .propagated_as(propagation::set_fields)
        .since("9.0.0", EACH_FIELD)
        .doc(
            "Sets fields with an expiry, if a condition holds for all of them.",
            "key [key-condition: NX | XX] [fields-condition: FNX | FXX] [expiration: EX seconds | PX \
                milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS \
                <fields: numfields#0 <data: field value> ...>",
        ),
    Command::new("hsetnx", 4, Group::Hash, hsetnx)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(1)")
        .doc("Sets a field if it does not exist.", "key field value"),
    Command::new("hstrlen", 3, Group::Hash, hstrlen)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("3.2.0", "O(1)")
        .doc("Returns the length of a field's value.", "key field"),
    Command::new("httl", -5, Group::Hash, expiring::httl)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("9.0.0", EACH_FIELD)
        .doc("Returns the time to live of fields in seconds.", "key FIELDS <fields: numfields#0 field ...>"),
    Command::new("hvals", 2, Group::Hash, hvals)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Returns all values.", "key")
        .tips(&["nondeterministic_output_order"]),
];

fn hget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection::<Hash>(args.key(1))?;
    match hash.and_then(|hash| hash.get(args.at(2), at_ms)) {
        Some(value) => value.reply(ctx.reply),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn hmget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection::<Hash>(args.key(1))?;
    ctx.reply.array(args.len() - 2);
    for field in args.from(2).iter() {
        match hash.and_then(|hash| hash.get(field, at_ms)) {
            Some(value) => value.reply(ctx.reply),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn hexists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection::<Hash>(args.key(1))?;
    ctx.reply.integer(hash.is_some_and(|hash| hash.contains(args.at(2), at_ms)).into());
    Ok(())
}

fn hstrlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let hash = ctx.db.read_collection::<Hash>(args.key(1))?;
    let len = hash.and_then(|hash| hash.get(args.at(2), at_ms)).map_or(0, |value| value.len());
    ctx.reply.count(len);
    Ok(())
}

fn hlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read_collection::<Hash>(args.key(1))?.map_or(0, |hash| hash.len());
    ctx.reply.count(len);
    Ok(())
}

fn hgetall(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let Some(hash) = ctx.db.read_collection::<Hash>(args.key(1))? else {
        ctx.reply.map(0);
        return Ok(());
    };
    if !hash.has_expiring() {
        ctx.reply.map(hash.len());
        hash.for_each(at_ms, &mut |field, value| {
            field.reply(ctx.reply);
            value.reply(ctx.reply);
        });
        return Ok(());
    }
    let mark = ctx.reply.begin();
    let mut pairs = 0;
    hash.for_each(at_ms, &mut |field, value| {
        pairs += 1;
        field.reply(ctx.reply);
        value.reply(ctx.reply);
    });
    ctx.reply.end_map(mark, pairs);
    Ok(())
}

fn hkeys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    each(ctx, args, |field, _| field)
}

fn hvals(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    each(ctx, args, |_, value| value)
}

/// Replies with one of field and value for each field.
fn each(ctx: &mut Context<'_>, args: Args<'_>, shown: for<'a> fn(Cell<'a>, Cell<'a>) -> Cell<'a>) -> Outcome {
    let at_ms = ctx.db.fields_at_ms();
    let Some(hash) = ctx.db.read_collection::<Hash>(args.key(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    if !hash.has_expiring() {
        ctx.reply.array(hash.len());
        hash.for_each(at_ms, &mut |field, value| shown(field, value).reply(ctx.reply));
        return Ok(());
    }
    let mark = ctx.reply.begin_array();
    let mut answered = 0;
    hash.for_each(at_ms, &mut |field, value| {
        answered += 1;
        shown(field, value).reply(ctx.reply);
    });
    ctx.reply.end_array(mark, answered);
    Ok(())
}

/// Sets all pairs and returns the number of new fields.
fn set_pairs(ctx: &mut Context<'_>, args: Args<'_>, command: &str) -> Result<usize, ClientError> {
    if args.len() % 2 == 1 {
        return Err(ClientError::WrongArity { command: command.to_owned() });
    }
    let key = args.key(1);
    let added = ctx.db.change_or_create(key, |hash: &mut Hash, mut context| {
        hash.expect_fields(args.len() / 2 - 1, &context);
        hash.remove_expired_of(args.from(2).iter().step_by(2), &mut context);
        hash.set_all((2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1))), &mut context)
    })?;
    ctx.db.changed_many(EventClasses::HASH, "hset", key, args.len() as u64 / 2 - 1);
    Ok(added)
}

fn hset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let added = set_pairs(ctx, args, "hset")?;
    ctx.reply.count(added);
    Ok(())
}

fn hmset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_pairs(ctx, args, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

fn hsetnx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, field) = (args.key(1), args.at(2));
    let at_ms = ctx.db.fields_at_ms();
    if ctx.db.read_collection_for_write::<Hash>(key)?.is_some_and(|hash| hash.contains(field, at_ms)) {
        ctx.reply.integer(0);
        return Ok(());
    }
    ctx.db.change_or_create(key, |hash: &mut Hash, mut context| {
        hash.set(field, args.at(3), FieldExpiry::Clear, &mut context)
    })?;
    ctx.db.changed(EventClasses::HASH, "hset", key);
    ctx.reply.integer(1);
    Ok(())
}

fn hdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, fields, at_ms) = (args.key(1), args.from(2), ctx.db.fields_at_ms());
    let mut kept = Vec::new();
    let removed = ctx.db.change(key, |hash: &mut Hash, mut context| {
        let mut removes = |field| expiring::remove_or_keep(hash, field, at_ms, &mut kept, &mut context);
        fields.iter().enumerate().filter(|&field| removes(field)).count()
    })?;
    let removed = removed.unwrap_or(0);
    expiring::record_removed(ctx, key, fields, removed, &kept);
    ctx.reply.count(removed);
    Ok(())
}
