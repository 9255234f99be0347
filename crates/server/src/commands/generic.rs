//! Commands for keys of any type: removing, renaming, moving, copying, and whole databases.

use crate::command::flag::{DENY_OOM, FAST, LEAVES_DATABASE, READONLY, TOUCHES_ARBITRARY_KEYS, WRITE};
use crate::command::scope::Databases;
use crate::command::{Args, Command, Context, Group, KeySpec, Next, Outcome, access};
use crate::db::{Db, EventClasses, Key, OwnedEntry};
use crate::error::ClientError;
use crate::server::PersistRequest;
use crate::server::cluster_node::now;

const ALL_KEYS: [KeySpec; 1] = [KeySpec::range(1, -1, 1, access::RO)];
const ALL_KEYS_REMOVED: [KeySpec; 1] = [KeySpec::range(1, -1, 1, access::RM | access::DELETE)];
const FROM_AND_TO: [KeySpec; 2] = [
    KeySpec::one(1, access::RW | access::ACCESS | access::DELETE),
    KeySpec::one(2, access::OW | access::UPDATE),
];
const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("copy", -3, Group::Generic, copy)
        .flags(WRITE | DENY_OOM | LEAVES_DATABASE)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS), KeySpec::one(2, access::OW | access::UPDATE)])
        .databases(Databases::Named(databases_of_copy))
        .since("6.2.0", "O(N) for collections where N is the number of elements, O(1) for strings")
        .doc("Copies a value to another key.", "source destination [DB destination-db:integer] [REPLACE]"),
    Command::new("dbsize", 1, Group::Server, dbsize)
        .flags(READONLY | FAST)
        .categories(&["keyspace"])
        .since("1.0.0", "O(1)")
        .doc("Returns the number of keys in the database.", "")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
    Command::new("del", -2, Group::Generic, del)
        .flags(WRITE)
        .keys(&ALL_KEYS_REMOVED)
        .since("1.0.0", "O(N) where N is the number of keys")
        .doc("Deletes keys.", "key ...")
        .tips(SUMMED),
    Command::new("exists", -2, Group::Generic, exists)
        .flags(READONLY | FAST)
        .keys(&ALL_KEYS)
        .since("1.0.0", "O(N) where N is the number of keys")
        .doc("Returns how many of the given keys exist; repeated keys count repeatedly.", "key ...")
        .history(&[("3.0.3", "Several keys at once.")])
        .tips(SUMMED),
    Command::new("flushall", -1, Group::Server, flushall)
        .flags(WRITE)
        .databases(Databases::All)
        .categories(&["keyspace", "dangerous"])
        .since("1.0.0", "O(N) where N is the number of keys, in the background by default")
        .doc("Deletes all keys of all databases.", "[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]")
        .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
        .tips(ALL_SHARDS),
    Command::new("flushdb", -1, Group::Server, flushdb)
        .flags(WRITE)
        .categories(&["keyspace", "dangerous"])
        .since("1.0.0", "O(N) where N is the number of keys, in the background by default")
        .doc("Deletes all keys of the selected database.", "[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]")
        .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
        .tips(ALL_SHARDS),
    Command::new("move", 3, Group::Generic, move_key)
        .flags(WRITE | FAST | LEAVES_DATABASE)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE)])
        .databases(Databases::Named(|_| vec![2]))
        .since("1.0.0", "O(1)")
        .doc("Moves a key to another database.", "key db"),
    Command::new("randomkey", 1, Group::Generic, randomkey)
        .flags(READONLY | TOUCHES_ARBITRARY_KEYS)
        .since("1.0.0", "O(1)")
        .doc("Returns a random key.", "")
        .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"]),
    Command::new("rename", 3, Group::Generic, rename)
        .flags(WRITE)
        .keys(&FROM_AND_TO)
        .since("1.0.0", "O(1)")
        .doc("Renames a key, overwriting the destination.", "key newkey"),
    Command::new("renamenx", 3, Group::Generic, renamenx)
        .flags(WRITE | FAST)
        .keys(&[
            KeySpec::one(1, access::RW | access::ACCESS | access::DELETE),
            KeySpec::one(2, access::OW | access::INSERT),
        ])
        .since("1.0.0", "O(1)")
        .doc("Renames a key if the destination does not exist.", "key newkey")
        .history(&[("3.2.0", "A key may be renamed to itself.")]),
    Command::new("swapdb", 3, Group::Server, swapdb)
        .flags(WRITE | FAST)
        .databases(Databases::Named(|_| vec![1, 2]))
        .categories(&["keyspace", "dangerous"])
        .since("4.0.0", "O(N) where N is the number of clients that watch keys or are blocked on keys")
        .doc("Swaps two databases.", "index1 index2"),
    Command::new("touch", -2, Group::Generic, touch)
        .flags(READONLY | FAST)
        .keys(&ALL_KEYS)
        .since("3.2.1", "O(N) where N is the number of keys")
        .doc("Updates the access time of keys and returns how many exist.", "key ...")
        .tips(SUMMED),
    Command::new("type", 2, Group::Generic, type_of)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO)])
        .since("1.0.0", "O(1)")
        .doc("Returns the type of a key's value.", "key"),
    Command::new("unlink", -2, Group::Generic, unlink)
        .flags(WRITE | FAST)
        .keys(&ALL_KEYS_REMOVED)
        .since("4.0.0", "O(1) for each key; memory is freed in the background")
        .doc("Deletes keys and frees their memory in the background.", "key ...")
        .tips(SUMMED),
];

fn del(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove_all(ctx, args, Db::remove)
}

fn unlink(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove_all(ctx, args, Db::unlink)
}

fn remove_all(ctx: &mut Context<'_>, args: Args<'_>, remove: fn(&mut Db, Key<'_>) -> bool) -> Outcome {
    let mut removed = 0;
    for key in args.from(1).keys() {
        if remove(ctx.db, key) {
            ctx.db.changed(EventClasses::GENERIC, "del", key);
            removed += 1;
        }
    }
    ctx.reply.integer(removed);
    Ok(())
}

fn exists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = args.from(1).keys().filter(|&key| ctx.db.probe(key).is_some()).count();
    ctx.reply.count(found);
    Ok(())
}

fn touch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = args.from(1).keys().filter(|&key| ctx.db.touch(key).is_some()).count();
    ctx.reply.count(found);
    Ok(())
}

fn type_of(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let name = ctx.db.probe(args.key(1)).map_or("none", |value| value.kind().name());
    ctx.reply.simple(name);
    Ok(())
}

fn dbsize(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.count(ctx.db.selected_database().shown_len());
    Ok(())
}

/// The number of tries before RANDOMKEY stops looking for a key that is not expired: while expired keys cannot be
/// removed, there may be no other.
const RANDOM_KEY_TRIES_MAX: usize = 100;

fn randomkey(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let mut found = None;
    for _ in 0..RANDOM_KEY_TRIES_MAX {
        found = ctx.db.random_key();
        if found.as_ref().is_none_or(|key| ctx.db.exists(ctx.db.key(key))) {
            break;
        }
    }
    match found {
        Some(key) => ctx.reply.bulk(&key),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn rename(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if rename_unless(ctx, args, false)?.is_some() {
        ctx.reply.ok();
    }
    Ok(())
}

fn renamenx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if let Some(renamed) = rename_unless(ctx, args, true)? {
        ctx.reply.integer(renamed.into());
    }
    Ok(())
}

/// Renames the key unless `only_if_free` and the new name exists; returns whether it has its new name.
fn rename_unless(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    only_if_free: bool,
) -> Result<Option<bool>, ClientError> {
    let (from, to) = (args.key(1), args.key(2));
    if ctx.db.read_for_write(from).is_none() {
        return Err(ClientError::NoSuchKey);
    }
    if from == to {
        return Ok(Some(!only_if_free));
    }
    if only_if_free && ctx.db.read_for_write(to).is_some() {
        return Ok(Some(false));
    }
    if let Some(entry) = ctx.db.take(from) {
        ctx.db.put_owned(to, entry);
        ctx.db.changed(EventClasses::GENERIC, "rename_from", from);
        ctx.db.changed_too(EventClasses::GENERIC, "rename_to", to);
    }
    Ok(Some(true))
}

/// The database in the argument at `index`.
fn database(ctx: &Context<'_>, args: Args<'_>, index: usize) -> Result<usize, ClientError> {
    usize::try_from(args.integer_32(index)?)
        .ok()
        .filter(|&number| number < ctx.db.database_count())
        .ok_or(ClientError::DbIndexOutOfRange)
}

fn move_key(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let target = database(ctx, args, 2)?;
    if target == ctx.db.selected() {
        return Err(ClientError::SourceIsDestination);
    }
    let movable = ctx.db.read_for_write(key).is_some()
        && ctx.db.with_database(target, |db| db.read_for_write(key).is_none());
    if movable && let Some(entry) = ctx.db.take(key) {
        ctx.db.with_database(target, |db| db.put_owned(key, entry));
        ctx.db.changed(EventClasses::GENERIC, "move_from", key);
        ctx.db.with_database(target, |db| db.changed_too(EventClasses::GENERIC, "move_to", key));
    }
    ctx.reply.integer(movable.into());
    Ok(())
}

/// Every database that an option names, not only the last one, to which the key is copied.
fn databases_of_copy(args: Args<'_>) -> Vec<usize> {
    let mut positions = Vec::new();
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "REPLACE") {
            at += 1;
        } else if args.is(at, "DB") && at + 1 < args.len() {
            positions.push(at + 1);
            at += 2;
        } else {
            return Vec::new();
        }
    }
    positions
}

fn copy(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (args.key(1), args.key(2));
    let mut target = ctx.db.selected();
    let mut replace = false;
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "REPLACE") {
            replace = true;
        } else if args.is(at, "DB") && at + 1 < args.len() {
            target = database(ctx, args, at + 1)?;
            at += 1;
        } else {
            return Err(ClientError::Syntax);
        }
        at += 1;
    }
    if target == ctx.db.selected() && from == to {
        return Err(ClientError::SourceIsDestination);
    }
    let copied: Option<OwnedEntry> = ctx.db.read(from).map(|value| value.to_owned_entry());
    let Some(copied) = copied else {
        ctx.reply.integer(0);
        return Ok(());
    };
    let stored = ctx.db.with_database(target, |db| {
        if !replace && db.read_for_write(to).is_some() {
            return false;
        }
        db.put_owned(to, copied);
        db.changed(EventClasses::GENERIC, "copy_to", to);
        true
    });
    ctx.reply.integer(stored.into());
    Ok(())
}

/// Whether FLUSHDB or FLUSHALL can free memory in the background.
fn flush_in_background(ctx: &Context<'_>, args: Args<'_>) -> Result<bool, ClientError> {
    match args.len() {
        1 => Ok(ctx.server.config.lazyfree_lazy_user_flush),
        2 if args.is(1, "ASYNC") => Ok(true),
        2 if args.is(1, "SYNC") => Ok(false),
        _ => Err(ClientError::Syntax),
    }
}

fn flushdb(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let in_background = flush_in_background(ctx, args)?;
    ctx.db.clear(in_background);
    fail_migrations(ctx);
    let selected = ctx.db.selected();
    ctx.db.change_log.flushed(Some(selected));
    propagate_flush(ctx, args);
    ctx.reply.ok();
    Ok(())
}

/// Slots that are being moved have lost keys: the other node would keep them.
pub(super) fn fail_migrations(ctx: &mut Context<'_>) {
    let now = now(ctx.server.now);
    if let Some(node) = &mut ctx.server.cluster {
        node.view.fail_migrations("Data was flushed", now);
    }
}

/// Propagates the command even if nothing was removed, as in the reference.
fn propagate_flush(ctx: &mut Context<'_>, args: Args<'_>) {
    ctx.db.propagate_as_list(&[], args.iter());
}

fn flushall(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let in_background = flush_in_background(ctx, args)?;
    ctx.db.clear_all(in_background);
    fail_migrations(ctx);
    ctx.db.forget_client_expiry();
    ctx.db.change_log.flushed(None);
    propagate_flush(ctx, args);
    ctx.next = Next::Persist(PersistRequest::AllFlushed);
    Ok(())
}

fn swapdb(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if ctx.server.cluster.is_some() {
        return Err(ClientError::text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let number = |index: usize, which: &'static str| {
        args.integer_in(
            index,
            i32::MIN.into(),
            i32::MAX.into(),
            ClientError::formatted(format!("ERR invalid {which} DB index")),
        )
    };
    let (a, b) = (number(1, "first")?, number(2, "second")?);
    let valid = |n: i64| usize::try_from(n).ok().filter(|&n| n < ctx.db.database_count());
    let (Some(a), Some(b)) = (valid(a), valid(b)) else { return Err(ClientError::DbIndexOutOfRange) };
    ctx.db.swap(a, b);
    ctx.db.change_log.swapped(a, b);
    ctx.reply.ok();
    Ok(())
}
