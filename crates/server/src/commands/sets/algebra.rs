//! Intersections, unions and differences of sets, as a reply or stored.

use crate::command::{Args, Context, Outcome};
use crate::commands::sources::{distinct, is_difference_asked};
use crate::db::hashed_value::{HashedValue, KeptHash};
use crate::db::set::{Set, SetView};
use crate::db::{EventClasses, StringValue};
use crate::error::ClientError;
use indexmap::IndexSet;
use std::collections::HashSet;
use structures::hash::HashSeed;

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

/// Calls `emit` for each member of the result, once, until it returns `true`.
fn combine<'a>(
    sets: &[Option<SetView<'a>>],
    operation: Operation,
    seed: HashSeed,
    emit: &mut dyn FnMut(StringValue<'a>) -> bool,
) {
    match operation {
        Operation::Intersection => intersection(sets, emit),
        Operation::Union => union(sets, seed, emit),
        Operation::Difference => difference(sets, seed, emit),
    }
}

/// Scans the smallest set and looks its members up in the others, smallest first.
fn intersection<'a>(sets: &[Option<SetView<'a>>], emit: &mut dyn FnMut(StringValue<'a>) -> bool) {
    let Some(sets) = sets.iter().copied().collect::<Option<Vec<SetView<'a>>>>() else { return };
    let mut sets = distinct(sets, |set| set.address());
    sets.sort_by_key(|set| set.len());
    let Some((&smallest, others)) = sets.split_first() else { return };
    smallest.any(&mut |member| others.iter().all(|set| set.contains_value(member)) && emit(member));
}

/// The number of look-ups in a compact set above which a hash table of its members is faster.
const SOUGHT_MAX: usize = 16;
/// The number of look-ups in a set, per member, above which a hash table is faster. The look-ups in all sets are at most
/// this many times their members.
const SOUGHT_PER_MEMBER_MAX: usize = 8;

/// Scans the sets, largest first; a member is new if no earlier set contains it.
#[expect(clippy::mutable_key_type, reason = "what decompresses a text changes nothing of the text")]
fn union<'a>(sets: &[Option<SetView<'a>>], seed: HashSeed, emit: &mut dyn FnMut(StringValue<'a>) -> bool) {
    let mut present = distinct(sets.iter().flatten().copied().collect(), |set| set.address());
    present.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let mut left: usize = present.iter().map(|set| set.len()).sum();
    // Earlier sets that are looked up directly, and the members of the other earlier sets.
    let mut asked: Vec<SetView<'a>> = Vec::new();
    let mut met: HashSet<HashedValue<'a>, KeptHash> = HashSet::default();
    for set in present {
        left -= set.len();
        let sought_max = if set.is_compact() { SOUGHT_MAX } else { SOUGHT_PER_MEMBER_MAX * set.len() };
        let is_asked = left <= sought_max;
        let stopped = set.any(&mut |member| {
            if asked.iter().any(|before| before.contains_value(member)) {
                return false;
            }
            if is_asked {
                let is_met = !met.is_empty() && met.contains(&HashedValue::new(member, seed));
                return !is_met && emit(member);
            }
            met.insert(HashedValue::new(member, seed)) && emit(member)
        });
        if stopped {
            return;
        }
        if is_asked {
            asked.push(set);
        }
    }
}

/// Either looks up each member of the first set in the others, or removes the members of the others from a copy of the
/// first: whichever visits fewer members. A set minus itself is empty.
fn difference<'a>(
    sets: &[Option<SetView<'a>>],
    seed: HashSeed,
    emit: &mut dyn FnMut(StringValue<'a>) -> bool,
) {
    let Some((&Some(first), others)) = sets.split_first() else { return };
    let mut others = distinct(others.iter().flatten().copied().collect(), |set| set.address());
    if others.iter().any(|set| set.address() == first.address()) {
        return;
    }
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    if is_difference_asked(first.len(), others.iter().map(|set| set.len())) {
        first.any(&mut |member| !others.iter().any(|set| set.contains_value(member)) && emit(member));
        return;
    }
    let mut left: IndexSet<HashedValue<'a>, KeptHash> =
        IndexSet::with_capacity_and_hasher(first.len(), KeptHash::default());
    first.for_each(&mut |member| {
        left.insert(HashedValue::new(member, seed));
    });
    for other in others {
        let is_empty = other.any(&mut |member| {
            left.swap_remove(&HashedValue::new(member, seed));
            left.is_empty()
        });
        if is_empty {
            return;
        }
    }
    for member in &left {
        if emit(member.value) {
            return;
        }
    }
}

fn answer(ctx: &mut Context<'_>, args: Args<'_>, operation: Operation) -> Outcome {
    let seed = ctx.db.key_seed().seed();
    let sets = ctx.db.read_collections::<Set>(args.from(1).keys())?;
    let mark = ctx.reply.begin();
    let mut found = 0;
    combine(&sets, operation, seed, &mut |member| {
        member.reply(ctx.reply);
        found += 1;
        false
    });
    ctx.reply.end_set(mark, found);
    Ok(())
}

fn store(ctx: &mut Context<'_>, args: Args<'_>, operation: Operation, event: &'static str) -> Outcome {
    let target = args.key(1);
    let (seed, mut making) = (ctx.db.key_seed().seed(), ctx.db.making(target.bytes()));
    let sets = ctx.db.read_collections::<Set>(args.from(2).keys())?;
    let mut members = Vec::new();
    combine(&sets, operation, seed, &mut |member| {
        members.push(member);
        false
    });
    let result = Set::of_distinct(&members, &making.context());
    let len = result.len();
    if ctx.db.store_collection(target, result) {
        ctx.db.changed(EventClasses::SET, event, target);
    }
    ctx.reply.count(len);
    Ok(())
}

pub(super) fn sintercard(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let few = ClientError::text("ERR numkeys should be greater than 0");
    let count = args.count_in(1, 1, usize::MAX, few)?;
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
        limit = args.count_in(at + 1, 0, usize::MAX, negative)?;
        at += 2;
    }
    let seed = ctx.db.key_seed().seed();
    let sets = ctx.db.read_collections::<Set>(args.from(2).keys().take(count))?;
    let mut found = 0;
    combine(&sets, Operation::Intersection, seed, &mut |_| {
        found += 1;
        limit > 0 && found >= limit
    });
    ctx.reply.count(found);
    Ok(())
}
