//! Removing elements from the ends of lists.

use super::push_event;
use crate::command::{Args, Context, Outcome};
use crate::commands::multi_pop::{MultiPop, first_present};
use crate::db::list::{End, List};
use crate::db::{EventClasses, Key, Kind};
use crate::error::ClientError;

/// Parses LEFT or RIGHT.
pub(super) fn end_at(args: Args<'_>, index: usize) -> Result<End, ClientError> {
    match (args.is(index, "LEFT"), args.is(index, "RIGHT")) {
        (true, _) => Ok(End::Left),
        (_, true) => Ok(End::Right),
        _ => Err(ClientError::Syntax),
    }
}

/// Records the removal of elements from an end.
pub(super) fn popped(ctx: &mut Context<'_>, key: Key<'_>, end: End, count: usize) {
    let event = if end == End::Left { "lpop" } else { "rpop" };
    ctx.db.changed_many(EventClasses::LIST, event, key, count as u64);
    // Propagates the effect, without the other keys and the timeout.
    let has_own_form = matches!(ctx.command.name, "blpop" | "brpop" | "lmpop" | "blmpop");
    if has_own_form && ctx.db.change_log.is_recording() {
        let name: &[u8] = if end == End::Left { b"LPOP" } else { b"RPOP" };
        ctx.db.propagate_as(&[name, key.bytes(), count.to_string().as_bytes()]);
    }
}

pub(super) fn lpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Left)
}

pub(super) fn rpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Right)
}

fn pop(ctx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    let key = args.key(1);
    if args.len() > 3 {
        let command = ctx.command.name.to_owned();
        return Err(ClientError::WrongArity { command });
    }
    if args.len() == 3 {
        let count = args.integer(2).ok().and_then(|count| usize::try_from(count).ok());
        return pop_count(ctx, key, end, count.ok_or(ClientError::MustBePositive)?);
    }
    let reply = &mut *ctx.reply;
    let taken = ctx.db.change(key, |list: &mut List, context| {
        let taken = list.pop(end, |element| element.reply(reply));
        list.shrunk(context.limits);
        taken
    })?;
    match taken.flatten() {
        None => ctx.reply.null(),
        Some(()) => popped(ctx, key, end, 1),
    }
    Ok(())
}

/// Removes and returns the element at an end of a list.
pub(super) fn take(ctx: &mut Context<'_>, key: Key<'_>, end: End) -> Result<Option<Vec<u8>>, ClientError> {
    let taken = ctx.db.change(key, |list: &mut List, context| {
        let taken = list.pop(end, |element| element.to_vec());
        list.shrunk(context.limits);
        taken
    })?;
    Ok(taken.flatten())
}

fn pop_count(ctx: &mut Context<'_>, key: Key<'_>, end: End, count: usize) -> Outcome {
    let reply = &mut *ctx.reply;
    let taken = ctx.db.change(key, |list: &mut List, context| {
        let taken = count.min(list.len());
        reply.array(taken);
        list.pop_many(end, taken, &mut |element| element.reply(reply));
        list.shrunk(context.limits);
        taken
    })?;
    match taken {
        None => ctx.reply.null_array(),
        Some(0) => {}
        Some(taken) => popped(ctx, key, end, taken),
    }
    Ok(())
}

/// Pops from the first list that exists and replies with its key and elements; returns whether there was one.
pub(super) fn pop_first_present(
    ctx: &mut Context<'_>,
    wanted: &MultiPop<'_, End>,
) -> Result<bool, ClientError> {
    let Some(key) = first_present(ctx, wanted.keys, Kind::List)? else { return Ok(false) };
    ctx.reply.array(2);
    ctx.reply.bulk(key.bytes());
    pop_count(ctx, key, wanted.end, wanted.count)?;
    Ok(true)
}

pub(super) fn lmpop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = MultiPop::parse(args, 1, end_at)?;
    if !pop_first_present(ctx, &wanted)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// Moves one element and replies with it; returns whether there was one.
pub(super) fn move_element(
    ctx: &mut Context<'_>,
    from: Key<'_>,
    to: Key<'_>,
    ends: (End, End),
) -> Result<bool, ClientError> {
    if !ctx.db.expect_kind(from, Kind::List)? {
        return Ok(false);
    }
    ctx.db.expect_kind(to, Kind::List)?;
    let (taken_from, pushed_to) = ends;
    if from == to {
        // The list can be empty in between; it must not be removed.
        let element = ctx.db.change(from, |list: &mut List, context| {
            let element =
                list.pop(taken_from, |element| element.to_vec()).expect("a stored list is not empty");
            list.push(pushed_to, &element, context.limits);
            list.shrunk(context.limits);
            element
        })?;
        ctx.db.changed_too(EventClasses::LIST, push_event(pushed_to), to);
        popped(ctx, from, taken_from, 1);
        ctx.reply.bulk_or_null(element.as_deref());
        return Ok(true);
    }
    let Some(element) = take(ctx, from, taken_from)? else { return Ok(false) };
    ctx.db.change_or_create(to, |list: &mut List, context| {
        list.push(pushed_to, &element, context.limits);
    })?;
    // Its event is published first.
    ctx.db.changed_too(EventClasses::LIST, push_event(pushed_to), to);
    popped(ctx, from, taken_from, 1);
    ctx.reply.bulk(&element);
    Ok(true)
}

pub(super) fn lmove(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let ends = (end_at(args, 3)?, end_at(args, 4)?);
    if !move_element(ctx, args.key(1), args.key(2), ends)? {
        ctx.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !move_element(ctx, args.key(1), args.key(2), (End::Right, End::Left))? {
        ctx.reply.null();
    }
    Ok(())
}
