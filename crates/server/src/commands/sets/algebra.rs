//! Intersections, unions and differences of sets, answered or stored.

use crate::command::{Args, Context, Outcome};
use crate::db::collection::Collection;
use crate::db::set::Set;
use crate::db::{EventClasses, StringValue};
use crate::error::ClientError;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

pub(super) fn sinter(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(ctx, args, Operation::Intersection)
}

pub(super) fn sunion(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(ctx, args, Operation::Union)
}

pub(super) fn sdiff(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(ctx, args, Operation::Difference)
}

pub(super) fn sinterstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(ctx, args, Operation::Intersection, "sinterstore")
}

pub(super) fn sunionstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(ctx, args, Operation::Union, "sunionstore")
}

pub(super) fn sdiffstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(ctx, args, Operation::Difference, "sdiffstore")
}

/// Calls `emit` for each member of the result, once, until it says stop.
fn combine(sets: &[Option<&Set>], operation: Operation, emit: &mut dyn FnMut(StringValue<'_>) -> bool) {
    match operation {
        Operation::Intersection => intersection(sets, emit),
        Operation::Union => union(sets, emit),
        Operation::Difference => difference(sets, emit),
    }
}

/// Walks the smallest set and asks the others, smallest first.
fn intersection(sets: &[Option<&Set>], emit: &mut dyn FnMut(StringValue<'_>) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    smallest.any(&mut |member| others.iter().all(|set| set.contains_value(member)) && emit(member));
}

/// Walks set after set; a member is new if none of the sets before has it.
fn union(sets: &[Option<&Set>], emit: &mut dyn FnMut(StringValue<'_>) -> bool) {
    let mut present: Vec<&Set> = sets.iter().flatten().copied().collect();
    present.sort_by_key(|set| std::cmp::Reverse(set.len()));
    for (index, set) in present.iter().enumerate() {
        let before = &present[..index];
        let stopped = set.any(&mut |member| !before.iter().any(|b| b.contains_value(member)) && emit(member));
        if stopped {
            return;
        }
    }
}

/// Either asks the other sets for each member of the first, or takes the members of the others out of a copy:
/// whichever looks at fewer members. A set without itself is empty.
fn difference(sets: &[Option<&Set>], emit: &mut dyn FnMut(StringValue<'_>) -> bool) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = others.iter().flatten().copied().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return;
    }
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let asking = first.len() * (others.len() + 1) / 2;
    let removing = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if asking <= removing {
        first.any(&mut |member| !others.iter().any(|set| set.contains_value(member)) && emit(member));
        return;
    }
    let mut left = HashSet::with_capacity(first.len());
    first.for_each(&mut |member| {
        left.insert(member.to_vec());
    });
    for other in others {
        other.for_each(&mut |member| {
            member.with_bytes(|bytes| left.remove(bytes));
        });
    }
    for member in &left {
        if emit(StringValue::Bytes(member)) {
            return;
        }
    }
}

fn answer(ctx: &mut Context<'_>, args: Args<'_>, operation: Operation) -> Outcome {
    let sets = ctx.db.read_collections::<Set>(args.from(1).iter())?;
    let mark = ctx.reply.begin();
    let mut found = 0;
    combine(&sets, operation, &mut |member| {
        member.reply(ctx.reply);
        found += 1;
        false
    });
    ctx.reply.end_set(mark, found);
    Ok(())
}

fn store(ctx: &mut Context<'_>, args: Args<'_>, operation: Operation, event: &'static str) -> Outcome {
    let target = args.at(1);
    let (limits, seed) = (ctx.db.limits.clone(), ctx.db.seed());
    let mut random = ctx.db.random.clone();
    let now_ms = ctx.db.now_ms();
    let context = crate::db::collection::CollectionContext {
        limits: &limits,
        seed,
        random: &mut random,
        now_ms,
        expired_fields: None,
    };
    let sets = ctx.db.read_collections::<Set>(args.from(2).iter())?;
    let mut result = Set::new(&limits, seed);
    combine(&sets, operation, &mut |member| {
        member.with_bytes(|bytes| result.add(bytes, &context));
        false
    });
    let len = result.len();
    if ctx.db.store_collection(target, result) {
        ctx.db.changed(EventClasses::SET, event, target);
    }
    ctx.reply.integer(len as i64);
    Ok(())
}

pub(super) fn sintercard(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let few = ClientError::text("ERR numkeys should be greater than 0");
    let count = args.integer_in(1, 1, i64::MAX, few)? as usize;
    if count > args.len() - 2 {
        return Err(ClientError::text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut at = 2 + count;
    while at < args.len() {
        if !args.is(at, "LIMIT") || at + 1 >= args.len() {
            return Err(ClientError::Syntax);
        }
        let negative = ClientError::text("ERR LIMIT can't be negative");
        limit = args.integer_in(at + 1, 0, i64::MAX, negative)? as usize;
        at += 2;
    }
    let sets = ctx.db.read_collections::<Set>(args.from(2).iter().take(count))?;
    let mut found = 0;
    combine(&sets, Operation::Intersection, &mut |_| {
        found += 1;
        limit > 0 && found >= limit
    });
    ctx.reply.integer(found as i64);
    Ok(())
}
