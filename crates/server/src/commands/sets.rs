//! Sets: single members and set algebra.

mod algebra;

use super::scan::{Found, ScanOptions, Walked, answer_end, parse_cursor};
use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, PrefetchHint, access, repetition};
use crate::db::collection::Collection;
use crate::db::set::Set;
use crate::db::{Db, EventClasses, Key};
use crate::error::ClientError;
use wire::convert::{unsigned_len, usize_of};

const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO)];
const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];
const READS_ALL: [KeySpec; 1] = [KeySpec::range(1, -1, 1, access::RO | access::ACCESS)];
const STORES_FROM_ALL: [KeySpec; 2] =
    [KeySpec::one(1, access::OW | access::UPDATE), KeySpec::range(2, -1, 1, access::RO | access::ACCESS)];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, Group::Set, sadd)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::INSERT)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("1.0.0", "O(1) for each member")
        .doc("Adds members and returns how many were new.", "key member ...")
        .history(&[("2.4.0", "Several members at once.")]),
    Command::new("scard", 2, Group::Set, scard)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("1.0.0", "O(1)")
        .doc("Returns the number of members.", "key"),
    Command::new("sdiff", -2, Group::Set, algebra::sdiff)
        .flags(READONLY)
        .keys(&READS_ALL)
        .since("1.0.0", "O(N) where N is the number of members of all sets")
        .doc("Returns the difference of sets.", "key ...")
        .tips(ANY_ORDER),
    Command::new("sdiffstore", -3, Group::Set, algebra::sdiffstore)
        .flags(WRITE | DENY_OOM)
        .keys(&STORES_FROM_ALL)
        .since("1.0.0", "O(N) where N is the number of members of all sets")
        .doc("Stores the difference of sets.", "destination key ..."),
    Command::new("sinter", -2, Group::Set, algebra::sinter)
        .flags(READONLY)
        .keys(&READS_ALL)
        .since("1.0.0", "O(N*M) where N is the size of the smallest set and M the number of sets")
        .doc("Returns the intersection of sets.", "key ...")
        .tips(ANY_ORDER),
    Command::new("sintercard", -3, Group::Set, algebra::sintercard)
        .flags(READONLY)
        .keys(&[KeySpec::counted(1, access::RO | access::ACCESS)])
        .since("7.0.0", "O(N*M) where N is the size of the smallest set and M the number of sets")
        .doc(
            "Returns the number of members of the intersection of sets.",
            "numkeys key ... [LIMIT limit:integer]",
        ),
    Command::new("sinterstore", -3, Group::Set, algebra::sinterstore)
        .flags(WRITE | DENY_OOM)
        .keys(&STORES_FROM_ALL)
        .since("1.0.0", "O(N*M) where N is the size of the smallest set and M the number of sets")
        .doc("Stores the intersection of sets.", "destination key ..."),
    Command::new("sismember", 3, Group::Set, sismember)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("1.0.0", "O(1)")
        .doc("Returns whether a member is in the set.", "key member"),
    Command::new("smembers", 2, Group::Set, smembers)
        .flags(READONLY)
        .keys(&READS)
        .since("1.0.0", "O(N) where N is the number of members")
        .doc("Returns all members.", "key")
        .tips(ANY_ORDER),
    Command::new("smismember", -3, Group::Set, smismember)
        .flags(READONLY | FAST)
        .keys(&READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("6.2.0", "O(N) where N is the number of requested members")
        .doc("Returns which of several members are in the set.", "key member ..."),
    Command::new("smove", 4, Group::Set, smove)
        .flags(WRITE | FAST)
        .keys(&[
            KeySpec::one(1, access::RW | access::ACCESS | access::DELETE),
            KeySpec::one(2, access::RW | access::INSERT),
        ])
        .since("1.0.0", "O(1)")
        .doc("Moves a member from one set to another.", "source destination member"),
    Command::new("spop", -2, Group::Set, spop)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)])
        .since("1.0.0", "O(1) for each member")
        .doc("Removes and returns random members.", "key [count@3.2.0]")
        .history(&[("3.2.0", "`count`.")])
        .tips(ANY_OUTPUT),
    Command::new("srandmember", -2, Group::Set, srandmember)
        .flags(READONLY)
        .keys(&READS)
        .since("1.0.0", "O(1) for each member")
        .doc("Returns random members.", "key [count@2.6.0]")
        .history(&[("2.6.0", "`count`.")])
        .tips(ANY_OUTPUT),
    Command::new("srem", -3, Group::Set, srem)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("1.0.0", "O(N) where N is the number of members to remove")
        .doc("Removes members.", "key member ...")
        .history(&[("2.4.0", "Several members at once.")]),
    Command::new("sscan", -3, Group::Set, sscan)
        .flags(READONLY)
        .keys(&READS)
        .since("2.8.0", "O(1) for every call, O(N) for a complete iteration")
        .doc("Iterates over members.", "key cursor [MATCH pattern] [COUNT count]")
        .tips(ANY_OUTPUT),
    Command::new("sunion", -2, Group::Set, algebra::sunion)
        .flags(READONLY)
        .keys(&READS_ALL)
        .since("1.0.0", "O(N) where N is the number of members of all sets")
        .doc("Returns the union of sets.", "key ...")
        .tips(ANY_ORDER),
    Command::new("sunionstore", -3, Group::Set, algebra::sunionstore)
        .flags(WRITE | DENY_OOM)
        .keys(&STORES_FROM_ALL)
        .since("1.0.0", "O(N) where N is the number of members of all sets")
        .doc("Stores the union of sets.", "destination key ..."),
];

fn sadd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let added = ctx.db.change_or_create(key, |set: &mut Set, context| {
        if set.is_empty() {
            set.expect(args.at(2), args.len() - 2, &context);
        } else {
            set.expect_more(args.len() - 2, &context);
        }
        set.add_all(args.from(2).iter(), &context)
    })?;
    if added > 0 {
        ctx.db.changed_many(EventClasses::SET, "sadd", key, added as u64);
    }
    ctx.reply.count(added);
    Ok(())
}

fn srem(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let removed = ctx
        .db
        .change(key, |set: &mut Set, _| args.from(2).iter().filter(|member| set.remove(member)).count())?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.db.changed_many(EventClasses::SET, "srem", key, removed as u64);
    }
    ctx.reply.count(removed);
    Ok(())
}

fn scard(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read(args.key(1)).map_or(Ok(0), |value| value.len_of::<Set>())?;
    ctx.reply.count(len);
    Ok(())
}

fn sismember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = ctx.db.read_collection::<Set>(args.key(1))?.is_some_and(|set| set.contains(args.at(2)));
    ctx.reply.integer(found.into());
    Ok(())
}

fn smismember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = ctx.db.read_collection::<Set>(args.key(1))?;
    ctx.reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        ctx.reply.integer(set.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

fn smembers(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match ctx.db.read_collection::<Set>(args.key(1))? {
        None => ctx.reply.set(0),
        Some(set) => {
            ctx.reply.set(set.len());
            set.for_each(&mut |member| member.reply(ctx.reply));
        }
    }
    Ok(())
}

fn smove(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to, member) = (args.key(1), args.key(2), args.at(3));
    // Both are looked up, whatever the first contains.
    let to_is_set = ctx.db.expect_kind(to, crate::db::Kind::Set);
    if ctx.db.read_collection_for_write::<Set>(from)?.is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    to_is_set?;
    if from == to {
        let there = ctx.db.read_collection_for_write::<Set>(from)?.is_some_and(|set| set.contains(member));
        ctx.reply.integer(there.into());
        return Ok(());
    }
    let removed = ctx.db.change(from, |set: &mut Set, _| set.remove(member))?.unwrap_or(false);
    if removed {
        ctx.db.changed(EventClasses::SET, "srem", from);
        let added = ctx.db.change_or_create(to, |set: &mut Set, context| set.add(member, &context))?;
        if added {
            ctx.db.changed(EventClasses::SET, "sadd", to);
        }
    }
    ctx.reply.integer(removed.into());
    Ok(())
}

/// The count of SPOP: none, or a number that is not negative.
fn pop_count(args: Args<'_>) -> Result<Option<usize>, ClientError> {
    match args.len() {
        2 => Ok(None),
        3 => usize::try_from(args.integer(2).map_err(|_| ClientError::MustBePositive)?)
            .map(Some)
            .map_err(|_| ClientError::MustBePositive),
        _ => Err(ClientError::Syntax),
    }
}

fn spop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let count = pop_count(args)?;
    let (reply, is_recording) = (&mut *ctx.reply, ctx.db.change_log.is_recording());
    let mut popped = Vec::new();
    let taken = ctx.db.change(key, |set: &mut Set, context| {
        let taken = count.unwrap_or(1).min(set.len());
        if count.is_some() {
            reply.set(taken);
        }
        set.take_random(taken, context.random, &mut |member| {
            member.reply(reply);
            if is_recording {
                popped.push(member.to_vec());
            }
        });
        taken
    })?;
    match (taken, count) {
        (Some(0), _) => {}
        (Some(taken), _) => {
            if count.is_some() && !ctx.db.is_stored(ctx.db.selected(), key) {
                ctx.db.propagate_as(&[ctx.db.lazy_freeing.removal_of_replaced(), key.bytes()]);
            } else {
                propagate_removed(ctx.db, key, &popped);
            }
            ctx.db.changed_many(EventClasses::SET, "spop", key, taken as u64);
        }
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.set(0),
    }
    Ok(())
}

/// The maximum number of members in one propagated removal.
const REMOVALS_PROPAGATED_TOGETHER: usize = 1024;

/// Propagates the names of randomly drawn members.
fn propagate_removed(db: &mut Db, key: Key<'_>, members: &[Vec<u8>]) {
    if !db.change_log.is_recording() {
        return;
    }
    for some in wire::aof::parts(members, REMOVALS_PROPAGATED_TOGETHER) {
        db.propagate_as_list(&[b"SREM", key.bytes()], some.iter().map(Vec::as_slice));
    }
}

fn srandmember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return Err(ClientError::Syntax);
    }
    let count = match args.len() {
        2 => None,
        _ => Some(repetition::count(args, 2)?),
    };
    let repetition = ctx.begin_repetition(count.unwrap_or_default())?;
    let reply = &mut *ctx.reply;
    let answered = ctx.db.read_collection_with::<Set, _>(args.key(1), |set, random| match count {
        None => {
            if let Some(member) = set.random(random) {
                member.reply(reply);
            }
        }
        Some(count) if count >= 0 => {
            let wanted = unsigned_len(count).min(set.len());
            reply.array(wanted);
            set.random_distinct(wanted, random, &mut |member| member.reply(reply));
        }
        Some(count) if repetition::is_worth_listing(set.len(), count) => {
            reply.array(usize_of(count.unsigned_abs()));
            // A compact set is scanned to find a member: one scan collects all of them.
            let mut members = Vec::with_capacity(set.len());
            set.for_each(&mut |member| members.push(member));
            (0..count.unsigned_abs()).all(|_| {
                let at = usize::try_from(random.below(members.len() as u64)).unwrap_or_default();
                members.get(at).inspect(|member| member.reply(reply));
                repetition.goes_on(reply)
            });
        }
        Some(count) => {
            reply.array(usize_of(count.unsigned_abs()));
            (0..count.unsigned_abs()).all(|_| {
                if let Some(member) = set.random(random) {
                    member.reply(reply);
                }
                repetition.goes_on(reply)
            });
        }
    })?;
    match (answered, count) {
        (Some(()), _) => {}
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.array(0),
    }
    ctx.end_repetition(repetition)
}

fn sscan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let Some(set) = ctx.db.read_collection::<Set>(args.key(1))? else {
        answer_end(ctx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Walked::Set)?;
    let mut found = Found::default();
    let next = options.walk(cursor, |cursor, wanted| {
        let mut visited = 0;
        let next = set.scan(cursor, wanted, &mut |member| {
            visited += 1;
            if options.matches_value(&member) {
                member.with_bytes(|bytes| found.push(bytes));
            }
        });
        (next, visited)
    });
    found.answer(next, ctx.reply);
    Ok(())
}
