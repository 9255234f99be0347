//! Streams as the commands that create them.

use super::{Group, Pending, Producers, Stream, StreamId};
use crate::db::rewrite::CommandSink;
use std::io;
use wire::convert::{signed_bits, signed_count};

impl Stream {
    /// See [`crate::db::value_type::ValueType::rewrite`].
    pub(super) fn rewrite_whole(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        let mut outcome = Ok(());
        self.for_each(&mut |id, fields| {
            let mut arguments = vec![b"XADD".to_vec(), key.to_vec(), id.to_string().into_bytes()];
            arguments.extend(fields.flat_map(|(field, value)| [field.to_vec(), value.to_vec()]));
            if outcome.is_ok() {
                outcome = send(sink, &arguments);
            }
        });
        outcome?;
        let state = self.state();
        let (last_id, deleted) = (state.last_id.to_string(), state.max_deleted_id.to_string());
        if state.len == 0 {
            // An empty stream is created by adding an entry and trimming it at once.
            let id = state.last_id.max(StreamId { ms: 0, seq: 1 }).to_string();
            sink(&[b"XADD", key, b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"])?;
        }
        let added = state.entries_added.to_string();
        sink(&[
            b"XSETID",
            key,
            last_id.as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            deleted.as_bytes(),
        ])?;
        self.groups().try_for_each(|(name, group)| rewrite_group(sink, key, name, group))?;
        self.producers().map_or(Ok(()), |producers| rewrite_messages(sink, key, producers))
    }
}

fn send(sink: &mut CommandSink<'_>, arguments: &[Vec<u8>]) -> io::Result<()> {
    sink(&arguments.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn rewrite_group(sink: &mut CommandSink<'_>, key: &[u8], name: &[u8], group: &Group) -> io::Result<()> {
    let last_id = group.last_id.to_string();
    let read = group.entries_read.map_or(-1, signed_count).to_string();
    sink(&[b"XGROUP", b"CREATE", key, name, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()])?;
    for (_, consumer) in group.consumers() {
        sink(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()])?;
    }
    for (id, pending) in group.pending_from(StreamId::MIN) {
        let consumer = group.consumer(pending.consumer).name();
        with_claim(key, name, consumer, id, pending, |claim| sink(claim))?;
    }
    Ok(())
}

fn rewrite_messages(sink: &mut CommandSink<'_>, key: &[u8], producers: &Producers) -> io::Result<()> {
    let limits = producers.limits();
    let (kept_s, messages_max) = (limits.kept_s.to_string(), limits.messages_max.to_string());
    sink(&[b"XCFGSET", key, b"IDMP-DURATION", kept_s.as_bytes(), b"IDMP-MAXSIZE", messages_max.as_bytes()])?;
    for (name, messages) in producers.iter() {
        for (message, id) in messages {
            sink(&[b"XIDMPRECORD", key, name, message, id.to_string().as_bytes()])?;
        }
    }
    Ok(())
}

/// Passes the command that makes an entry pending with exactly this state to `take`.
pub fn with_claim<R>(
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
    id: StreamId,
    pending: Pending,
    take: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    let id = id.to_string();
    let (time, count) = (pending.delivered_ms.to_string(), signed_bits(pending.deliveries).to_string());
    take(&[
        b"XCLAIM",
        key,
        group,
        consumer,
        b"0",
        id.as_bytes(),
        b"TIME",
        time.as_bytes(),
        b"RETRYCOUNT",
        count.as_bytes(),
        b"JUSTID",
        b"FORCE",
    ])
}
