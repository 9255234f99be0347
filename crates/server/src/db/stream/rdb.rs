//! Streams in RDB files.
//!
//! ```text
//!  nodes | (id of the first entry, 16 bytes as a string | listpack)...
//!  entries | last id | first id | greatest deleted id | entries ever added      (the last three since version 2)
//!  groups | (name | last id | entries read | pending | (id, 16 bytes | delivery time | deliveries)...
//!            consumers | (name | seen | active, since version 3 | pending | (id, 16 bytes)...)...
//!            unowned | (id, 16 bytes)...      (since version 5)
//!           )...
//!  messages to be added once, since version 4 | seconds | greatest number |
//!            producers | (name | messages | (message | id)...)... | ever added | ever refused
//! ```
//! Ids are two lengths unless said otherwise; an unknown number is 2^64 - 1. Versions 4 and 5 are Redis's, which Valkey
//! does not read: version 3 is written, and the messages in extra fields, see `messages.rs`. Entries of version 5 without
//! a consumer are not supported.

use super::messages::read_messages;
use super::{ConsumerId, Group, Pending, Stream, StreamId};
use crate::db::rdb::{AsideSink, RdbType, ReadContext, ReadValue, Result, corrupt, unsupported};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use structures::listpack::Listpack;
use structures::stream as log;
use structures::unaligned_box::UnalignedBox;
use wire::rdb::{Reader, Writer, kind};

const UNKNOWN: u64 = u64::MAX;
const NEVER_MS: i64 = -1;

impl RdbType for Stream {
    const RDB_KINDS: &'static [u8] = &[
        kind::STREAM_LISTPACKS,
        kind::STREAM_LISTPACKS_2,
        kind::STREAM_LISTPACKS_3,
        kind::REDIS_STREAM_LISTPACKS_4,
        kind::REDIS_STREAM_LISTPACKS_5,
    ];

    fn rdb_kind(&self) -> u8 {
        kind::STREAM_LISTPACKS_3
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        writer.length(self.log.node_count() as u64)?;
        for (base, listpack) in self.log.nodes() {
            writer.string(&base.to_key())?;
            writer.string(listpack.as_bytes())?;
        }
        let state = self.log.state();
        writer.length(state.len)?;
        write_id(writer, state.last_id)?;
        write_id(writer, state.first_id)?;
        write_id(writer, state.max_deleted_id)?;
        writer.length(state.entries_added)?;
        writer.length(self.log.group_count() as u64)?;
        self.log.groups().try_for_each(|(name, group)| {
            writer.string(name)?;
            write_group(writer, group)
        })
    }

    fn write_asides(&self, sink: &mut AsideSink<'_>) -> io::Result<()> {
        self.write_messages(sink)
    }

    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Self::read(reader, kind, context).map(ReadValue::of)
    }
}

impl Stream {
    fn read<R: Read>(reader: &mut Reader<R>, kind: u8, context: &ReadContext<'_>) -> Result<Stream> {
        let limits = context.limits.stream_message_limits;
        let mut stream = log::Stream::with_message_limits(limits, context.seed);
        for _ in 0..reader.length()? {
            read_node(reader, &mut stream)?;
        }
        read_counters(reader, kind, &mut stream)?;
        for _ in 0..reader.length()? {
            let name = reader.string()?.to_vec();
            let last_id = read_id(reader)?;
            let entries_read = match kind {
                kind::STREAM_LISTPACKS => stream.state().entries_added_up_to(last_id),
                _ => Some(reader.length()?).filter(|&n| n != UNKNOWN),
            };
            if !stream.create_group(&name, last_id, entries_read) {
                return corrupt("Duplicated consumer group name");
            }
            let mut group = stream.group_mut(&name).expect("the group was just created");
            read_group(reader, kind, &mut group)?;
        }
        if matches!(kind, kind::REDIS_STREAM_LISTPACKS_4 | kind::REDIS_STREAM_LISTPACKS_5) {
            read_messages(reader, &mut stream, context.now_ms, context.seed)?;
        }
        Ok(Stream { log: UnalignedBox::new(stream) })
    }
}

pub(super) fn write_id<W: Write>(writer: &mut Writer<W>, id: StreamId) -> io::Result<()> {
    writer.length(id.ms)?;
    writer.length(id.seq)
}

pub(super) fn read_id<R: Read>(reader: &mut Reader<R>) -> Result<StreamId> {
    Ok(StreamId { ms: reader.length()?, seq: reader.length()? })
}

fn write_group<W: Write>(writer: &mut Writer<W>, group: &Group) -> io::Result<()> {
    write_id(writer, group.last_id)?;
    writer.length(group.entries_read.unwrap_or(UNKNOWN))?;
    writer.length(group.pending_len() as u64)?;
    for (id, pending) in group.pending_from(StreamId::MIN) {
        writer.raw(&id.to_key())?;
        writer.time_ms(pending.delivered_ms)?;
        writer.length(pending.deliveries)?;
    }
    writer.length(group.consumer_count() as u64)?;
    for (_, consumer) in group.consumers() {
        writer.string(consumer.name())?;
        writer.time_ms(consumer.seen_ms)?;
        writer.time_ms(consumer.active_ms.unwrap_or(NEVER_MS))?;
        writer.length(consumer.pending_len() as u64)?;
        for id in consumer.pending_from(StreamId::MIN) {
            writer.raw(&id.to_key())?;
        }
    }
    Ok(())
}

fn read_node<R: Read>(reader: &mut Reader<R>, stream: &mut log::Stream) -> Result<()> {
    let Ok(base) = reader.string()?.with_bytes(|key| key.try_into().map(StreamId::from_key)) else {
        return corrupt("Stream node key entry is not the size of a stream ID");
    };
    let listpack = reader.string()?.with_bytes(Listpack::validate);
    let added = listpack.is_ok_and(|listpack| stream.add_node(base, listpack).is_ok());
    if added { Ok(()) } else { corrupt("Stream listpack integrity check failed.") }
}

fn read_counters<R: Read>(reader: &mut Reader<R>, kind: u8, stream: &mut log::Stream) -> Result<()> {
    let counted = stream.state();
    let len = reader.length()?;
    let last_id = read_id(reader)?;
    if len != counted.len {
        return corrupt("Stream length inconsistent with the number of valid entries");
    }
    let (mut max_deleted_id, mut entries_added) = (None, Some(len));
    if kind != kind::STREAM_LISTPACKS {
        read_id(reader)?;
        max_deleted_id = Some(read_id(reader)?);
        entries_added = Some(reader.length()?);
    }
    if last_id < counted.last_id {
        return corrupt("The last ID of a stream is below that of an entry");
    }
    if entries_added.is_some_and(|added| added < len) {
        return corrupt("A stream has more entries than were added");
    }
    stream.set_counters(last_id, entries_added, max_deleted_id);
    Ok(())
}

fn read_group<R: Read>(reader: &mut Reader<R>, kind: u8, group: &mut Group) -> Result<()> {
    let mut unassigned = HashMap::new();
    for _ in 0..reader.length()? {
        let id = StreamId::from_key(reader.array()?);
        let delivered_ms = reader.time_ms()?;
        let deliveries = reader.length()?;
        if unassigned.insert(id, (delivered_ms, deliveries)).is_some() {
            return corrupt("Duplicated global PEL entry loading stream consumer group");
        }
    }
    for _ in 0..reader.length()? {
        let name = reader.string()?.to_vec();
        let seen_ms = reader.time_ms()?;
        let active_ms = match kind {
            kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 => Some(seen_ms),
            _ => Some(reader.time_ms()?).filter(|&at_ms| at_ms != NEVER_MS),
        };
        let Some(consumer) = group.create_consumer(&name, seen_ms) else {
            return corrupt("Duplicate stream consumer detected.");
        };
        group.consumer_mut(consumer).active_ms = active_ms;
        read_pending(reader, group, consumer, &mut unassigned)?;
    }
    if kind == kind::REDIS_STREAM_LISTPACKS_5 && reader.length()? > 0 {
        return unsupported("a group has pending entries that belong to no consumer (XNACK)");
    }
    if unassigned.is_empty() { Ok(()) } else { corrupt("Stream CG PEL entry without consumer") }
}

/// Assigns a consumer's entries, taken from those of the group without an owner.
fn read_pending<R: Read>(
    reader: &mut Reader<R>,
    group: &mut Group,
    consumer: ConsumerId,
    unassigned: &mut HashMap<StreamId, (i64, u64)>,
) -> Result<()> {
    for _ in 0..reader.length()? {
        let id = StreamId::from_key(reader.array()?);
        let Some((delivered_ms, deliveries)) = unassigned.remove(&id) else {
            if let Some(pending) = group.pending(id) {
                return corrupt(if pending.consumer == consumer {
                    "Duplicated consumer PEL entry loading a stream consumer group"
                } else {
                    "NACK already assigned to a different consumer, shared NACKs across consumers are not valid"
                });
            }
            return corrupt("Consumer entry not found in group global PEL");
        };
        group.assign(id, Pending { consumer, delivered_ms, deliveries });
    }
    Ok(())
}
