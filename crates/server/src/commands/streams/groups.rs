//! The subcommands of XGROUP, and XSETID.

use super::{ids, no_group, wrong_subcommand};
use crate::command::{Args, Context, Outcome};
use crate::db::stream::{Stream, StreamId};
use crate::db::{EventClasses, Key};
use crate::error::{ClientError, quoted};

const NO_STREAM: ClientError = ClientError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

/// The options MKSTREAM and ENTRIESREAD.
#[derive(Default)]
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: Args<'_>, creates: bool) -> Result<Self, ClientError> {
        let mut options = Options::default();
        let mut at = 5;
        while at < args.len() {
            if creates && args.is(at, "MKSTREAM") {
                options.make_stream = true;
                at += 1;
            } else if args.is(at, "ENTRIESREAD") && at + 1 < args.len() {
                let entries_read = args.integer(at + 1)?;
                if entries_read < -1 {
                    return Err(ClientError::text("ERR value for ENTRIESREAD must be positive or -1"));
                }
                options.entries_read = u64::try_from(entries_read).ok();
                at += 2;
            } else {
                return Err(wrong_subcommand(args));
            }
        }
        Ok(options)
    }
}

fn unknown_group(args: Args<'_>) -> ClientError {
    no_group(format_args!("consumer group '{}' for key name '{}'", quoted(args.at(3)), quoted(args.at(2))))
}

/// Refuses a key without a stream and, with `needs_group`, a stream without the group.
fn expect_stream(ctx: &mut Context<'_>, args: Args<'_>, needs_group: bool) -> Result<(), ClientError> {
    let stream = ctx.db.read_collection_for_write::<Stream>(args.key(2))?.ok_or(NO_STREAM)?;
    if needs_group && stream.group(args.at(3)).is_none() {
        return Err(unknown_group(args));
    }
    Ok(())
}

/// Publishes an event of a group: the stream itself has not changed, and WATCH is not affected.
fn group_changed(ctx: &mut Context<'_>, event: &'static str, key: Key<'_>) {
    ctx.db.event(EventClasses::STREAM, event, key);
    ctx.db.changed_quietly(key, 1);
}

pub(super) fn create(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    const ARGS_MAX: usize = 8;
    let options = Options::parse(args, true)?;
    let (key, group) = (args.key(2), args.at(3));
    let last_id = ctx.db.read_collection_for_write::<Stream>(key)?.map(|stream| stream.state().last_id);
    if last_id.is_none() && !options.make_stream {
        return Err(NO_STREAM);
    }
    if args.len() > ARGS_MAX {
        return Err(wrong_subcommand(args));
    }
    let id = match args.at(4) {
        b"$" => last_id.unwrap_or_default(),
        text => ids::strict(text, 0)?,
    };
    let created = ctx.db.change_or_create(key, |stream: &mut Stream, _| {
        stream.create_group(group, id, options.entries_read)
    })?;
    if !created {
        return Err(ClientError::text("BUSYGROUP Consumer Group name already exists"));
    }
    if last_id.is_none() {
        ctx.db.touched(key);
        ctx.db.event(EventClasses::STREAM, "xgroup-create", key);
    } else {
        group_changed(ctx, "xgroup-create", key);
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) fn set_id(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, false)?;
    expect_stream(ctx, args, true)?;
    if args.len() != 5 && args.len() != 7 {
        return Err(wrong_subcommand(args));
    }
    let given = match args.at(4) {
        b"$" => None,
        text => Some(ids::lenient(text, 0)?),
    };
    let (key, group) = (args.key(2), args.at(3));
    ctx.db.change(key, |stream: &mut Stream, _| {
        let id = given.unwrap_or(stream.state().last_id);
        if let Some(mut group) = stream.group_mut(group) {
            group.last_id = id;
            group.entries_read = options.entries_read;
        }
    })?;
    group_changed(ctx, "xgroup-setid", key);
    ctx.reply.ok();
    Ok(())
}

pub(super) fn destroy(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expect_stream(ctx, args, false)?;
    let (key, group) = (args.key(2), args.at(3));
    let removed = ctx.db.change(key, |stream: &mut Stream, _| stream.remove_group(group))?.flatten();
    if removed.is_some() {
        group_changed(ctx, "xgroup-destroy", key);
        // Clients that block on the group must learn that it no longer exists.
        let selected = ctx.db.selected();
        ctx.db.change_log.ready(selected, key.bytes());
    }
    ctx.reply.integer(removed.is_some().into());
    Ok(())
}

pub(super) fn create_consumer(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expect_stream(ctx, args, true)?;
    let (key, group, consumer) = (args.key(2), args.at(3), args.at(4));
    let created = ctx.db.change(key, |stream: &mut Stream, context| {
        stream.group_mut(group)?.create_consumer(consumer, context.now_ms)
    })?;
    let created = created.flatten().is_some();
    if created {
        group_changed(ctx, "xgroup-createconsumer", key);
    }
    ctx.reply.integer(created.into());
    Ok(())
}

pub(super) fn delete_consumer(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expect_stream(ctx, args, true)?;
    let (key, group, consumer) = (args.key(2), args.at(3), args.at(4));
    let pending =
        ctx.db.change(key, |stream: &mut Stream, _| stream.group_mut(group)?.remove_consumer(consumer))?;
    let pending = pending.flatten();
    if pending.is_some() {
        group_changed(ctx, "xgroup-delconsumer", key);
    }
    ctx.reply.count(pending.unwrap_or(0));
    Ok(())
}

/// XSETID's options.
#[derive(Default)]
struct Counters {
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
}

impl Counters {
    fn parse(args: Args<'_>, last_id: StreamId) -> Result<Self, ClientError> {
        let mut counters = Counters::default();
        let mut at = 3;
        while at < args.len() {
            let has_value = at + 1 < args.len();
            if args.is(at, "ENTRIESADDED") && has_value {
                let entries_added = u64::try_from(args.integer(at + 1)?)
                    .map_err(|_| ClientError::text("ERR entries_added must be positive"))?;
                counters.entries_added = Some(entries_added);
            } else if args.is(at, "MAXDELETEDID") && has_value {
                let id = ids::strict(args.at(at + 1), 0)?;
                if last_id < id {
                    return Err(ClientError::text(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
                counters.max_deleted_id = Some(id).filter(|&id| id != StreamId::MIN);
            } else {
                return Err(ClientError::Syntax);
            }
            at += 2;
        }
        Ok(counters)
    }

    /// Refuses values that contradict the stream's entries.
    fn check(&self, stream: &Stream, last_id: StreamId) -> Result<(), ClientError> {
        if last_id < stream.state().max_deleted_id {
            return Err(ClientError::text(
                "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
            ));
        }
        if stream.last_live_id().is_some_and(|last| last_id < last) {
            return Err(ClientError::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if self.entries_added.is_some_and(|entries_added| entries_added < stream.len()) {
            return Err(ClientError::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
        Ok(())
    }
}

pub(super) fn xsetid(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let last_id = ids::strict(args.at(2), 0)?;
    let counters = Counters::parse(args, last_id)?;
    let key = args.key(1);
    let stream = ctx.db.read_collection_for_write::<Stream>(key)?.ok_or(ClientError::NoSuchKey)?;
    counters.check(stream, last_id)?;
    ctx.db.change(key, |stream: &mut Stream, _| {
        stream.set_counters(last_id, counters.entries_added, counters.max_deleted_id);
    })?;
    ctx.db.event(EventClasses::STREAM, "xsetid", key);
    ctx.db.changed_quietly(key, 1);
    ctx.reply.ok();
    Ok(())
}
