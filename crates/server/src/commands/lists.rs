//! Lists: access to both ends and the middle, and blocking for elements.

mod blocking;
mod popping;

use crate::command::flag::{BLOCKING, DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, PrefetchHint, access};
use crate::db::EventClasses;
use crate::db::list::{End, List, resolve_range};
use crate::error::ClientError;

const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO)];
const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];
const INSERTS: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::INSERT)];
const UPDATES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::UPDATE)];
const DELETES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::DELETE)];
const POPS: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)];
const POPS_ANY: [KeySpec; 1] = [KeySpec::range(1, -2, 1, access::RW | access::ACCESS | access::DELETE)];
const MOVES: [KeySpec; 2] = [
    KeySpec::one(1, access::RW | access::ACCESS | access::DELETE),
    KeySpec::one(2, access::RW | access::INSERT),
];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("blmove", 6, Group::List, blocking::blmove)
        .flags(WRITE | DENY_OOM | BLOCKING)
        .keys(&MOVES)
        .since("6.2.0", "O(1)")
        .doc(
            "Moves an element from one list to another; blocks until one is available.",
            "source destination <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT> timeout",
        ),
    Command::new("blmpop", -5, Group::List, blocking::blmpop)
        .flags(WRITE | BLOCKING)
        .keys(&[KeySpec::counted(2, access::RW | access::ACCESS | access::DELETE)])
        .since("7.0.0", "O(N+M) where N is the number of keys and M the number of elements")
        .doc(
            "Pops elements from the first non-empty list; blocks until one is available.",
            "timeout numkeys key ... <where: LEFT | RIGHT> [COUNT count]",
        ),
    Command::new("blpop", -3, Group::List, blocking::blpop)
        .flags(WRITE | BLOCKING)
        .keys(&POPS_ANY)
        .since("2.0.0", "O(N) where N is the number of keys")
        .doc(
            "Pops the first element of the first non-empty list; blocks until one is available.",
            "key ... timeout",
        )
        .history(&[("6.0.0", "`timeout` can be fractional.")]),
    Command::new("brpop", -3, Group::List, blocking::brpop)
        .flags(WRITE | BLOCKING)
        .keys(&POPS_ANY)
        .since("2.0.0", "O(N) where N is the number of keys")
        .doc(
            "Pops the last element of the first non-empty list; blocks until one is available.",
            "key ... timeout",
        )
        .history(&[("6.0.0", "`timeout` can be fractional.")]),
    Command::new("brpoplpush", 4, Group::List, blocking::brpoplpush)
        .flags(WRITE | DENY_OOM | BLOCKING)
        .keys(&MOVES)
        .since("2.2.0", "O(1)")
        .doc(
            "Moves the last element of a list to the front of another; blocks until one is available.",
            "source destination timeout",
        )
        .history(&[("6.0.0", "`timeout` can be fractional.")]),
    Command::new("lindex", 3, Group::List, lindex)
        .flags(READONLY)
        .keys(&READS)
        .since("1.0.0", "O(N) where N is the number of nodes skipped")
        .doc("Returns the element at an index.", "key index"),
    Command::new("linsert", 5, Group::List, linsert)
        .flags(WRITE | DENY_OOM)
        .keys(&INSERTS)
        .since("2.2.0", "O(N) where N is the number of elements before the pivot")
        .doc("Inserts an element before or after another.", "key <where: BEFORE | AFTER> pivot element"),
    Command::new("llen", 2, Group::List, llen)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("1.0.0", "O(1)")
        .doc("Returns the number of elements.", "key"),
    Command::new("lmove", 5, Group::List, popping::lmove)
        .flags(WRITE | DENY_OOM)
        .keys(&MOVES)
        .since("6.2.0", "O(1)")
        .doc(
            "Moves an element from one list to another.",
            "source destination <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT>",
        ),
    Command::new("lmpop", -4, Group::List, popping::lmpop)
        .flags(WRITE)
        .keys(&[KeySpec::counted(1, access::RW | access::ACCESS | access::DELETE)])
        .since("7.0.0", "O(N+M) where N is the number of keys and M the number of elements")
        .doc(
            "Pops elements from the first non-empty list.",
            "numkeys key ... <where: LEFT | RIGHT> [COUNT count]",
        ),
    Command::new("lpop", -2, Group::List, popping::lpop)
        .flags(WRITE | FAST)
        .keys(&POPS)
        .prefetch_hint(PrefetchHint::Front)
        .since("1.0.0", "O(N) where N is the number of elements")
        .doc("Pops elements from the front of a list.", "key [count@6.2.0]")
        .history(&[("6.2.0", "`count`.")]),
    Command::new("lpos", -3, Group::List, lpos)
        .flags(READONLY)
        .keys(&READS)
        .since("6.0.6", "O(N) where N is the number of elements examined")
        .doc(
            "Returns the indexes of matching elements.",
            "key element [RANK rank] [COUNT num-matches:integer] [MAXLEN len]",
        ),
    Command::new("lpush", -3, Group::List, lpush)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .prefetch_hint(PrefetchHint::Front)
        .since("1.0.0", "O(1) for each element")
        .doc("Adds elements at the front.", "key element ...")
        .history(&[("2.4.0", "Several elements at once.")]),
    Command::new("lpushx", -3, Group::List, lpushx)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .prefetch_hint(PrefetchHint::Front)
        .since("2.2.0", "O(1) for each element")
        .doc("Adds elements at the front of a list that exists.", "key element ...")
        .history(&[("4.0.0", "Several elements at once.")]),
    Command::new("lrange", 4, Group::List, lrange)
        .flags(READONLY)
        .keys(&READS)
        .prefetch_hint(PrefetchHint::Front)
        .since("1.0.0", "O(S+N) where S is the number of nodes skipped and N the number of elements")
        .doc("Returns a range of elements.", "key start stop"),
    Command::new("lrem", 4, Group::List, lrem)
        .flags(WRITE)
        .keys(&DELETES)
        .since("1.0.0", "O(N) where N is the length of the list")
        .doc("Removes elements equal to the given one.", "key count element"),
    Command::new("lset", 4, Group::List, lset)
        .flags(WRITE | DENY_OOM)
        .keys(&UPDATES)
        .since("1.0.0", "O(N) where N is the number of nodes skipped")
        .doc("Sets the element at an index.", "key index element"),
    Command::new("ltrim", 4, Group::List, ltrim)
        .flags(WRITE)
        .keys(&DELETES)
        .since("1.0.0", "O(N) where N is the number of elements to remove")
        .doc("Trims a list to a range.", "key start stop"),
    Command::new("rpop", -2, Group::List, popping::rpop)
        .flags(WRITE | FAST)
        .keys(&POPS)
        .prefetch_hint(PrefetchHint::Back)
        .since("1.0.0", "O(N) where N is the number of elements")
        .doc("Pops elements from the end of a list.", "key [count@6.2.0]")
        .history(&[("6.2.0", "`count`.")]),
    Command::new("rpoplpush", 3, Group::List, popping::rpoplpush)
        .flags(WRITE | DENY_OOM)
        .keys(&MOVES)
        .prefetch_hint(PrefetchHint::Back)
        .since("1.2.0", "O(1)")
        .doc("Moves the last element of a list to the front of another.", "source destination"),
    Command::new("rpush", -3, Group::List, rpush)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .prefetch_hint(PrefetchHint::Back)
        .since("1.0.0", "O(1) for each element")
        .doc("Adds elements at the end.", "key element ...")
        .history(&[("2.4.0", "Several elements at once.")]),
    Command::new("rpushx", -3, Group::List, rpushx)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&INSERTS)
        .prefetch_hint(PrefetchHint::Back)
        .since("2.2.0", "O(1) for each element")
        .doc("Adds elements at the end of a list that exists.", "key element ...")
        .history(&[("4.0.0", "Several elements at once.")]),
];

fn push_event(end: End) -> &'static str {
    if end == End::Left { "lpush" } else { "rpush" }
}

fn push(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    let key = args.key(1);
    let len = ctx.db.change_or_create(key, |list: &mut List, context| {
        match args.len() {
            3 => list.push(end, args.at(2), context.limits),
            _ => list.push_all(end, args.from(2).iter(), context.limits),
        }
        list.len()
    })?;
    ctx.db.changed_many(EventClasses::LIST, push_event(end), key, args.len() as u64 - 2);
    ctx.reply.count(len);
    Ok(())
}

fn push_if_exists(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    if ctx.db.read_collection_for_write::<List>(args.key(1))?.is_some() {
        return push(ctx, args, end);
    }
    ctx.reply.integer(0);
    Ok(())
}

fn lpush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Left)
}

fn rpush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Right)
}

fn lpushx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push_if_exists(ctx, args, End::Left)
}

fn rpushx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push_if_exists(ctx, args, End::Right)
}

fn linsert(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let before = match (args.is(2, "BEFORE"), args.is(2, "AFTER")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err(ClientError::Syntax),
    };
    let inserted = ctx.db.change(key, |list: &mut List, context| {
        list.expect(1, args.at(4).len(), context.limits);
        list.insert(before, args.at(3), args.at(4), context.limits).then(|| list.len())
    })?;
    match inserted {
        None => ctx.reply.integer(0),
        Some(None) => ctx.reply.integer(-1),
        Some(Some(len)) => {
            ctx.db.changed(EventClasses::LIST, "linsert", key);
            ctx.reply.count(len);
        }
    }
    Ok(())
}

fn llen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read_collection::<List>(args.key(1))?.map_or(0, |list| list.len());
    ctx.reply.count(len);
    Ok(())
}

fn lindex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(list) = ctx.db.read_collection::<List>(args.key(1))? else {
        ctx.reply.null();
        return Ok(());
    };
    let index = args.integer(2)?;
    if list.get(index, |element| element.reply(ctx.reply)).is_none() {
        ctx.reply.null();
    }
    Ok(())
}

fn lset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    if ctx.db.read_collection_for_write::<List>(key)?.is_none() {
        return Err(ClientError::NoSuchKey);
    }
    let index = args.integer(2)?;
    let set = ctx.db.change(key, |list: &mut List, context| {
        list.expect(1, args.at(3).len(), context.limits);
        let set = list.set(index, args.at(3), context.limits);
        list.shrunk(context.limits);
        set
    })?;
    if set != Some(true) {
        return Err(ClientError::IndexOutOfRange);
    }
    ctx.db.changed(EventClasses::LIST, "lset", key);
    ctx.reply.ok();
    Ok(())
}

/// From this number of elements on, the reply's buffer is reserved at once instead of growing.
const RESERVED_COUNT_MIN: usize = 1000;

fn lrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (args.integer(2)?, args.integer(3)?);
    let list = ctx.db.read_collection::<List>(args.key(1))?;
    let range = list.and_then(|list| resolve_range(start, end, list.len()).map(|range| (list, range)));
    let Some((list, (start, end))) = range else {
        ctx.reply.array(0);
        return Ok(());
    };
    let count = end - start + 1;
    if count >= RESERVED_COUNT_MIN {
        ctx.reply.reserve(list.reply_bytes_min(start, count));
    }
    ctx.reply.array(count);
    list.for_each(start, count, &mut |element| element.reply(ctx.reply));
    Ok(())
}

fn ltrim(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let (start, end) = (args.integer(2)?, args.integer(3)?);
    let removed = ctx.db.change(key, |list: &mut List, context| {
        let before = list.len();
        list.retain(resolve_range(start, end, before));
        list.shrunk(context.limits);
        before - list.len()
    })?;
    match removed {
        None => {}
        // Publishes the event, but nothing has changed for WATCH or propagation.
        Some(0) => ctx.db.event(EventClasses::LIST, "ltrim", key),
        Some(removed) => {
            ctx.db.changed_many(EventClasses::LIST, "ltrim", key, removed as u64);
        }
    }
    ctx.reply.ok();
    Ok(())
}

fn lrem(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let count = args.integer(2)?;
    if count == i64::MIN {
        return Err(ClientError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let from = if count < 0 { End::Right } else { End::Left };
    let removed = ctx
        .db
        .change(key, |list: &mut List, context| {
            let removed = list.remove_equal(args.at(3), from, count.unsigned_abs());
            list.shrunk(context.limits);
            removed
        })?
        .unwrap_or(0);
    if removed > 0 {
        ctx.db.changed_many(EventClasses::LIST, "lrem", key, removed);
    }
    ctx.reply.count(removed);
    Ok(())
}

fn lpos(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut rank, mut count, mut looked_max) = (1, None, 0);
    let mut at = 3;
    while at < args.len() {
        let has_next = at + 1 < args.len();
        if args.is(at, "RANK") && has_next {
            rank = rank_of(args, at + 1)?;
        } else if args.is(at, "COUNT") && has_next {
            let negative = ClientError::text("ERR COUNT can't be negative");
            count = Some(args.integer_in(at + 1, 0, i64::MAX, negative)? as u64);
        } else if args.is(at, "MAXLEN") && has_next {
            let negative = ClientError::text("ERR MAXLEN can't be negative");
            looked_max = args.integer_in(at + 1, 0, i64::MAX, negative)? as u64;
        } else {
            return Err(ClientError::Syntax);
        }
        at += 2;
    }
    let list = ctx.db.read_collection::<List>(args.key(1))?;
    let found = list.map(|list| list.positions(args.at(2), rank, count.unwrap_or(1), looked_max));
    let found = found.unwrap_or_default();
    if count.is_none() {
        match found.first() {
            Some(&position) => ctx.reply.count(position),
            None => ctx.reply.null(),
        }
        return Ok(());
    }
    ctx.reply.array(found.len());
    found.iter().for_each(|&position| ctx.reply.count(position));
    Ok(())
}

fn rank_of(args: Args<'_>, index: usize) -> Result<i64, ClientError> {
    match args.integer(index)? {
        0 => Err(ClientError::text(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        )),
        i64::MIN => Err(ClientError::formatted(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        rank => Ok(rank),
    }
}
