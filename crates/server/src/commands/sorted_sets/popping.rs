//! Removing members from the ends of sorted sets, optionally blocking.

use crate::command::{Args, Context, Outcome};
use crate::commands::multi_pop::{MultiPop, first_present};
use crate::commands::timeout::seconds;
use crate::db::sorted_set::SortedSet;
use crate::db::{EventClasses, Key, Kind, StringValue};
use crate::error::ClientError;
use crate::session::{BlockRequest, BlockedOn, TimeoutReply};
use std::ops::Range;

/// The end to pop from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Min,
    Max,
}

/// The format of popped members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `member score member score...`
    Flat,
    /// `[member score] [member score]...`
    Pairs,
    /// `key member score`
    AfterKey,
    /// `key [[member score]...]`
    PairsAfterKey,
}

/// Pops up to `count` members from an existing set, and replies with them.
fn pop_from(ctx: &mut Context<'_>, key: Key<'_>, end: End, count: usize, shape: Shape) -> Outcome {
    let reply = &mut *ctx.reply;
    let taken = ctx.db.change(key, |set: &mut SortedSet, _| {
        let taken = count.min(set.len());
        match shape {
            Shape::Flat => reply.array(2 * taken),
            Shape::Pairs => reply.array(taken),
            Shape::AfterKey => {
                reply.array(3);
                reply.bulk(key.bytes());
            }
            Shape::PairsAfterKey => {
                reply.array(2);
                reply.bulk(key.bytes());
                reply.array(taken);
            }
        }
        let mut answer = |member: StringValue<'_>, score: f64| {
            if matches!(shape, Shape::Pairs | Shape::PairsAfterKey) {
                reply.array(2);
            }
            member.reply(reply);
            reply.double(score);
        };
        let last = set.len() - taken..set.len();
        if end == End::Min {
            set.remove_range(0..taken, &mut answer);
        } else if taken == 1 {
            set.remove_range(last, &mut answer);
        } else {
            set.for_range(last.clone(), true, &mut |member, score| {
                answer(member, score);
                true
            });
            set.drop_range(last);
        }
        taken
    })?;
    if taken.is_some_and(|taken| taken > 0) {
        let event = if end == End::Min { "zpopmin" } else { "zpopmax" };
        ctx.db.changed_many(EventClasses::ZSET, event, key, taken.unwrap_or(1) as u64);
        if ctx.db.change_log.is_recording() && !matches!(ctx.command.name, "zpopmin" | "zpopmax") {
            let name: &[u8] = if end == End::Min { b"ZPOPMIN" } else { b"ZPOPMAX" };
            ctx.db.propagate_as(&[name, key.bytes(), taken.unwrap_or(1).to_string().as_bytes()]);
        }
    }
    Ok(())
}

pub(super) fn zpopmin(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Min)
}

pub(super) fn zpopmax(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Max)
}

fn pop(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    if args.len() > 3 {
        return Err(ClientError::Syntax);
    }
    let count = match args.len() {
        2 => None,
        _ => Some(args.count_in(2, 0, usize::MAX, ClientError::MustBePositive)?),
    };
    let key = args.key(1);
    if !ctx.db.expect_kind(key, Kind::SortedSet)? || count == Some(0) {
        ctx.reply.array(0);
        return Ok(());
    }
    let shape = if count.is_some() && super::nests_pairs(ctx.reply) { Shape::Pairs } else { Shape::Flat };
    pop_from(ctx, key, end, count.unwrap_or(1), shape)
}

/// `keys` are the places of the keys among the arguments.
fn wait_for(ctx: &mut Context<'_>, keys: Range<usize>, timeout_us: Option<u64>) {
    let on = BlockedOn::Keys { db_index: ctx.db.selected(), keys, kind: Kind::SortedSet };
    if !ctx.block(BlockRequest { on, timeout_us, timeout_reply: TimeoutReply::NullArray, claim: None }) {
        ctx.reply.null_array();
    }
}

pub(super) fn bzpopmin(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_or_wait(ctx, args, End::Min)
}

pub(super) fn bzpopmax(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_or_wait(ctx, args, End::Max)
}

fn pop_or_wait(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    let timeout_us = seconds(args, args.len() - 1)?;
    let keys = args.from(1).first(args.len() - 2);
    match first_present(ctx, keys, Kind::SortedSet)? {
        Some(key) => pop_from(ctx, key, end, 1, Shape::AfterKey),
        None => {
            wait_for(ctx, 1..args.len() - 1, timeout_us);
            Ok(())
        }
    }
}

/// Parses MIN or MAX.
fn end_at(args: Args<'_>, index: usize) -> Result<End, ClientError> {
    match (args.is(index, "MIN"), args.is(index, "MAX")) {
        (true, _) => Ok(End::Min),
        (_, true) => Ok(End::Max),
        _ => Err(ClientError::Syntax),
    }
}

pub(super) fn zmpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = MultiPop::parse(args, 1, end_at)?;
    match first_present(ctx, wanted.keys, Kind::SortedSet)? {
        Some(key) => pop_from(ctx, key, wanted.end, wanted.count, Shape::PairsAfterKey),
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}

pub(super) fn bzmpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = MultiPop::parse(args, 2, end_at)?;
    let timeout_us = seconds(args, 1)?;
    match first_present(ctx, wanted.keys, Kind::SortedSet)? {
        Some(key) => pop_from(ctx, key, wanted.end, wanted.count, Shape::PairsAfterKey),
        None => {
            wait_for(ctx, 3..3 + wanted.keys.len(), timeout_us);
            Ok(())
        }
    }
}
