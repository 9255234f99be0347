//! Hashes.

use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::EventClasses;
use crate::db::hash::Hash;
use crate::error::ClientError;

const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];
const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO)];
const UPDATES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::UPDATE)];

pub const COMMANDS: &[Command] = &[
    Command::new("hdel", -3, Group::Hash, hdel)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .since("2.0.0", "O(N) where N is the number of fields")
        .doc("Removes fields.", "key field [field ...]"),
    Command::new("hexists", 3, Group::Hash, hexists)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("2.0.0", "O(1)")
        .doc("Tells whether a field exists.", "key field"),
    Command::new("hget", 3, Group::Hash, hget)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("2.0.0", "O(1)")
        .doc("Answers the value of a field.", "key field"),
    Command::new("hgetall", 2, Group::Hash, hgetall)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Answers all fields with their values.", "key")
        .tips(&["nondeterministic_output_order"]),
    Command::new("hkeys", 2, Group::Hash, hkeys)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Answers all fields.", "key")
        .tips(&["nondeterministic_output_order"]),
    Command::new("hlen", 2, Group::Hash, hlen)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("2.0.0", "O(1)")
        .doc("Counts the fields.", "key"),
    Command::new("hmget", -3, Group::Hash, hmget)
        .flags(READONLY | FAST)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the number of fields asked for")
        .doc("Answers the values of several fields.", "key field [field ...]"),
    Command::new("hmset", -4, Group::Hash, hmset)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .since("2.0.0", "O(N) where N is the number of fields set")
        .doc("Sets several fields; an older form of HSET.", "key field value [field value ...]"),
    Command::new("hset", -4, Group::Hash, hset)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .since("2.0.0", "O(1) for each field")
        .doc("Sets fields and counts the new ones.", "key field value [field value ...]"),
    Command::new("hvals", 2, Group::Hash, hvals)
        .flags(READONLY)
        .keys(&READS)
        .since("2.0.0", "O(N) where N is the size of the hash")
        .doc("Answers the values of all fields.", "key")
        .tips(&["nondeterministic_output_order"]),
];

fn hget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = ctx.db.read_collection::<Hash>(args.at(1))?;
    match hash.and_then(|hash| hash.get(args.at(2))) {
        Some(value) => value.reply(ctx.reply),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn hmget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = ctx.db.read_collection::<Hash>(args.at(1))?;
    ctx.reply.array(args.len() - 2);
    for field in args.from(2).iter() {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => value.reply(ctx.reply),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn hexists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let exists = ctx.db.read_collection::<Hash>(args.at(1))?.is_some_and(|hash| hash.contains(args.at(2)));
    ctx.reply.integer(exists.into());
    Ok(())
}

fn hlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read_collection::<Hash>(args.at(1))?.map_or(0, Hash::len);
    ctx.reply.integer(len as i64);
    Ok(())
}

fn hgetall(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(hash) = ctx.db.read_collection::<Hash>(args.at(1))? else {
        ctx.reply.map(0);
        return Ok(());
    };
    ctx.reply.map(hash.len());
    hash.for_each(&mut |field, value| {
        field.reply(ctx.reply);
        value.reply(ctx.reply);
    });
    Ok(())
}

fn hkeys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(hash) = ctx.db.read_collection::<Hash>(args.at(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(hash.len());
    hash.for_each(&mut |field, _| field.reply(ctx.reply));
    Ok(())
}

fn hvals(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(hash) = ctx.db.read_collection::<Hash>(args.at(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(hash.len());
    hash.for_each(&mut |_, value| value.reply(ctx.reply));
    Ok(())
}

/// Sets all pairs and returns how many fields are new.
fn set_pairs(ctx: &mut Context<'_>, args: Args<'_>, command: &str) -> Result<i64, ClientError> {
    if args.len() % 2 == 1 {
        return Err(ClientError::WrongArity { command: command.to_owned() });
    }
    let key = args.at(1);
    let added = ctx.db.change_or_create(key, |hash: &mut Hash, means| {
        (2..args.len()).step_by(2).filter(|&at| hash.set(args.at(at), args.at(at + 1), &means)).count()
    })?;
    ctx.db.changed(EventClasses::HASH, "hset", key);
    Ok(added as i64)
}

fn hset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let added = set_pairs(ctx, args, "hset")?;
    ctx.reply.integer(added);
    Ok(())
}

fn hmset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_pairs(ctx, args, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

fn hdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let removed = ctx
        .db
        .change(key, |hash: &mut Hash, _| args.from(2).iter().filter(|field| hash.remove(field)).count())?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.db.changed(EventClasses::HASH, "hdel", key);
    }
    ctx.reply.integer(removed as i64);
    Ok(())
}
