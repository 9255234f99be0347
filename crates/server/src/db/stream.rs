//! Streams: a log of entries and the groups that read it. The only type whose empty values stay: counters and groups
//! outlive the entries.

mod messages;
mod rdb;
mod rewrite;
mod value_type;

use super::collection::{Collection, EncodingLimits};
use super::object::StringValue;
use std::ops::{Deref, DerefMut};
use structures::hash::HashSeed;
use structures::stream::{self as log, NodeLimits};
use structures::unaligned_box::UnalignedBox;
use wire::reply::ReplyBuffer;

pub use messages::MESSAGES;
pub use rewrite::with_claim;
pub use structures::stream::{
    AppendError, Claimable, Consumer, ConsumerId, Direction, Entry, Group, MessageLimits, Pending, Producers,
    References, StreamId, TrimTo, Trimmed, Unreferenced,
};

/// The value of a stream key.
#[derive(Clone)]
pub struct Stream {
    log: UnalignedBox<log::Stream>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream of {}", self.log.len())
    }
}

impl Deref for Stream {
    type Target = log::Stream;

    fn deref(&self) -> &log::Stream {
        &self.log
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut log::Stream {
        &mut self.log
    }
}

impl Collection for Stream {
    type View<'a> = &'a Stream;

    #[inline]
    fn view(&self) -> &Stream {
        self
    }

    fn new(limits: &EncodingLimits, seed: HashSeed) -> Self {
        let log = log::Stream::with_message_limits(limits.stream_message_limits, seed);
        Stream { log: UnalignedBox::new(log) }
    }
}

impl Stream {
    /// Adds an entry; `items` are field, value, field, value...
    pub fn add(&mut self, id: StreamId, items: &[&[u8]], limits: &EncodingLimits) -> Result<(), AppendError> {
        let limits =
            NodeLimits { bytes: limits.stream_node_bytes_max, entries: limits.stream_node_entries_max };
        self.log.append(id, items, limits)
    }

    /// Visits all entries with their fields and values.
    pub fn for_each(
        &self,
        visit: &mut dyn FnMut(StreamId, &mut dyn Iterator<Item = (StringValue<'_>, StringValue<'_>)>),
    ) {
        for entry in self.log.range(StreamId::MIN, StreamId::MAX, Direction::Forward) {
            visit(entry.id, &mut entry.fields().map(|(field, value)| (field.into(), value.into())));
        }
    }

    /// Id of the last live entry, which may be lower than the last id given.
    pub fn last_live_id(&self) -> Option<StreamId> {
        self.log.last().map(|entry| entry.id)
    }
}

/// Replies with an id.
pub fn reply_id(id: StreamId, reply: &mut ReplyBuffer) {
    reply.bulk_pair(id.ms, id.seq);
}

/// Replies with an entry: its id, and its fields and values in turn.
pub fn reply_entry(entry: &Entry<'_>, reply: &mut ReplyBuffer) {
    reply.array(2);
    reply_entry_parts(entry, reply);
}

/// As [`reply_entry`], into an array that has been begun.
pub fn reply_entry_parts(entry: &Entry<'_>, reply: &mut ReplyBuffer) {
    reply_id(entry.id, reply);
    let fields = entry.fields();
    reply.array(fields.len() * 2);
    for (field, value) in fields {
        StringValue::from(field).reply(reply);
        StringValue::from(value).reply(reply);
    }
}
