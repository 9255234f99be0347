//! The subcommands of XINFO.

use super::{no_group, wrong_subcommand};
use crate::command::{Args, Context, Outcome};
use crate::db::stream::{
    Consumer, Direction, Entry, Group, Producers, Stream, StreamId, reply_entry, reply_id,
};
use crate::error::{ClientError, quoted};
use wire::convert::{signed_bits, signed_count};
use wire::reply::ReplyBuffer;

/// The number of entries and pending entries that XINFO STREAM FULL lists of each kind without COUNT.
const COUNT_DEFAULT: usize = 10;

/// Writes a key and an integer of a map.
fn number(reply: &mut ReplyBuffer, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    // A counter can come from a file: one of 2^63 or more is shown negative, as C does.
    reply.integer(signed_bits(value));
}

fn id(reply: &mut ReplyBuffer, name: &str, value: StreamId) {
    reply.bulk(name.as_bytes());
    reply_id(value, reply);
}

fn number_or_null(reply: &mut ReplyBuffer, name: &str, value: Option<i64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

pub(super) fn consumers(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    let stream = ctx.db.read_collection::<Stream>(args.key(2))?.ok_or(ClientError::NoSuchKey)?;
    let Some(group) = stream.group(args.at(3)) else {
        return Err(no_group(format_args!(
            "consumer group '{}' for key name '{}'",
            quoted(args.at(3)),
            quoted(args.at(2))
        )));
    };
    ctx.reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        ctx.reply.map(4);
        ctx.reply.bulk(b"name");
        ctx.reply.bulk(consumer.name());
        number(ctx.reply, "pending", consumer.pending_len() as u64);
        number(ctx.reply, "idle", now_ms.saturating_sub(consumer.seen_ms).max(0) as u64);
        ctx.reply.bulk(b"inactive");
        ctx.reply.integer(consumer.active_ms.map_or(-1, |active_ms| now_ms.saturating_sub(active_ms)));
    }
    Ok(())
}

pub(super) fn groups(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let stream = ctx.db.read_collection::<Stream>(args.key(2))?.ok_or(ClientError::NoSuchKey)?;
    ctx.reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        ctx.reply.map(6);
        ctx.reply.bulk(b"name");
        ctx.reply.bulk(name);
        number(ctx.reply, "consumers", group.consumer_count() as u64);
        number(ctx.reply, "pending", group.pending_len() as u64);
        progress(ctx.reply, group, stream);
    }
    Ok(())
}

/// Writes a group's read position and lag.
fn progress(reply: &mut ReplyBuffer, group: &Group, stream: &Stream) {
    id(reply, "last-delivered-id", group.last_id);
    number_or_null(reply, "entries-read", group.entries_read.map(signed_count));
    number_or_null(reply, "lag", group.lag(&stream.state()));
}

/// `None` for the short form, else the maximum of listed elements of each kind.
fn full_count(args: Args<'_>) -> Result<Option<usize>, ClientError> {
    match args.len() {
        3 => return Ok(None),
        4 | 6 if args.is(3, "FULL") => {}
        _ => return Err(wrong_subcommand(args)),
    }
    if args.len() == 4 {
        return Ok(Some(COUNT_DEFAULT));
    }
    if !args.is(4, "COUNT") {
        return Err(wrong_subcommand(args));
    }
    Ok(Some(match args.integer(5)? {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(COUNT_DEFAULT),
    }))
}

pub(super) fn stream(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    let stream = ctx.db.read_collection::<Stream>(args.key(2))?.ok_or(ClientError::NoSuchKey)?;
    let count = full_count(args)?;
    let reply = &mut *ctx.reply;
    let state = stream.state();
    let fields_of_messages = if stream.producers().is_some() { 6 } else { 0 };
    reply.map(fields_of_messages + if count.is_some() { 9 } else { 10 });
    number(reply, "length", state.len);
    number(reply, "radix-tree-keys", stream.node_count() as u64);
    number(reply, "radix-tree-nodes", stream.index_node_count() as u64);
    id(reply, "last-generated-id", state.last_id);
    id(reply, "max-deleted-entry-id", state.max_deleted_id);
    number(reply, "entries-added", state.entries_added);
    id(reply, "recorded-first-entry-id", state.first_id);
    if let Some(producers) = stream.producers() {
        messages(reply, producers, now_ms);
    }
    match count {
        None => ends(reply, stream),
        Some(count) => full(reply, stream, count),
    }
    Ok(())
}

/// Writes the state of deduplicated messages. Streams without such messages omit the fields, as in Valkey: some clients
/// do not accept unknown fields.
fn messages(reply: &mut ReplyBuffer, producers: &Producers, now_ms: i64) {
    let (limits, (tracked, messages)) = (producers.limits(), producers.tracked(now_ms.max(0) as u64));
    let (added, duplicates) = producers.counts();
    number(reply, "idmp-duration", limits.kept_s.into());
    number(reply, "idmp-maxsize", limits.messages_max.into());
    number(reply, "pids-tracked", tracked as u64);
    number(reply, "iids-tracked", messages as u64);
    number(reply, "iids-added", added);
    number(reply, "iids-duplicates", duplicates);
}

/// Writes the first and the last entry.
fn ends(reply: &mut ReplyBuffer, stream: &Stream) {
    let entry = |reply: &mut ReplyBuffer, name: &str, entry: Option<Entry<'_>>| {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(&entry, reply),
            None => reply.null(),
        }
    };
    number(reply, "groups", stream.group_count() as u64);
    entry(reply, "first-entry", stream.first());
    entry(reply, "last-entry", stream.last());
}

/// Writes entries and groups, at most `count` of each kind.
fn full(reply: &mut ReplyBuffer, stream: &Stream, count: usize) {
    reply.bulk(b"entries");
    let mark = reply.begin_array();
    let mut listed = 0;
    for entry in stream.range(StreamId::MIN, StreamId::MAX, Direction::Forward).take(count) {
        reply_entry(&entry, reply);
        listed += 1;
    }
    reply.end_array(mark, listed);
    reply.bulk(b"groups");
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        progress(reply, group, stream);
        full_group(reply, group, count);
    }
}

fn full_group(reply: &mut ReplyBuffer, group: &Group, count: usize) {
    number(reply, "pel-count", group.pending_len() as u64);
    reply.bulk(b"pending");
    reply.array(group.pending_len().min(count));
    for (id, pending) in group.pending_from(StreamId::MIN).take(count) {
        reply.array(4);
        reply_id(id, reply);
        reply.bulk(group.consumer(pending.consumer).name());
        reply.integer(pending.delivered_ms);
        reply.integer(signed_bits(pending.deliveries));
    }
    reply.bulk(b"consumers");
    reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        full_consumer(reply, group, consumer, count);
    }
}

fn full_consumer(reply: &mut ReplyBuffer, group: &Group, consumer: &Consumer, count: usize) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_ms);
    reply.bulk(b"active-time");
    reply.integer(consumer.active_ms.unwrap_or(-1));
    number(reply, "pel-count", consumer.pending_len() as u64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(count));
    for id in consumer.pending_from(StreamId::MIN).take(count) {
        reply.array(3);
        reply_id(id, reply);
        let pending = group.pending(id);
        reply.integer(pending.map_or(0, |pending| pending.delivered_ms));
        reply.integer(pending.map_or(0, |pending| signed_bits(pending.deliveries)));
    }
}
