//! Blocking list commands.

use super::popping::{end_at, move_element, pop_first_present, popped, take};
use crate::command::{Args, Context, Outcome};
use crate::commands::multi_pop::{MultiPop, first_present};
use crate::commands::timeout::seconds;
use crate::db::Kind;
use crate::db::list::End;
use crate::error::ClientError;
use crate::session::{BlockRequest, BlockedOn, TimeoutReply};
use std::ops::Range;

/// Waits for any of the keys, which are the arguments at these places, unless nothing may wait here: then it is up to the
/// caller to answer at once.
#[must_use]
fn wait_for(ctx: &mut Context<'_>, keys: Range<usize>, timeout_us: Option<u64>) -> bool {
    let on = BlockedOn::Keys { db_index: ctx.db.selected(), keys, kind: Kind::List };
    ctx.block(BlockRequest { on, timeout_us, timeout_reply: TimeoutReply::NullArray, claim: None })
}

pub(super) fn blpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_first(ctx, args, End::Left)
}

pub(super) fn brpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_first(ctx, args, End::Right)
}

fn pop_first(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    let keys = args.from(1).first(args.len() - 2);
    let timeout_us = seconds(args, args.len() - 1)?;
    if let Some(key) = first_present(ctx, keys, Kind::List)? {
        let element = take(ctx, key, end)?;
        popped(ctx, key, end, 1);
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes());
        ctx.reply.bulk_or_null(element.as_deref());
        return Ok(());
    }
    if !wait_for(ctx, 1..args.len() - 1, timeout_us) {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(super) fn blmpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = MultiPop::parse(args, 2, end_at)?;
    let timeout_us = seconds(args, 1)?;
    if !pop_first_present(ctx, &wanted)? && !wait_for(ctx, 3..3 + wanted.keys.len(), timeout_us) {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(super) fn blmove(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let ends = (end_at(args, 3)?, end_at(args, 4)?);
    let timeout_us = seconds(args, 5)?;
    let propagated = &[b"LMOVE", args.at(1), args.at(2), args.at(3), args.at(4)];
    move_or_wait(ctx, args, ends, timeout_us, propagated)
}

pub(super) fn brpoplpush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout_us = seconds(args, 3)?;
    let ends = (End::Right, End::Left);
    move_or_wait(ctx, args, ends, timeout_us, &[b"RPOPLPUSH", args.at(1), args.at(2)])
}

/// `propagated`: the non-blocking command with the same effect.
fn move_or_wait(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    ends: (End, End),
    timeout_us: Option<u64>,
    propagated: &[&[u8]],
) -> Outcome {
    let (from, to) = (args.key(1), args.key(2));
    let source_is_other = ctx.db.expect_kind(from, Kind::List).is_err();
    if source_is_other && !ctx.origin.retried {
        return Err(ClientError::WrongType);
    }
    if !source_is_other && move_element(ctx, from, to, ends)? {
        ctx.db.propagate_as(propagated);
        return Ok(());
    }
    if !wait_for(ctx, 1..2, timeout_us) {
        ctx.reply.null();
    }
    Ok(())
}
