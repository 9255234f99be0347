//! Streams: a log of entries and the groups that read it. The one type that may be empty and stay: its counters
//! and groups outlive its entries.

mod rdb;

use super::collection::{Collection, EncodingLimits};
use super::layout::Layout;
use super::object::{Kind, Object, StringValue};
use std::ops::{Deref, DerefMut};
use structures::hash::HashSeed;
use structures::listpack::Listpack;
use structures::prefetch::prefetch_object;
use structures::size_class::usable_size;
use structures::stream::{self as log, NodeLimits};
use structures::unaligned_box::UnalignedBox;
use wire::reply::ReplyBuffer;

pub use structures::stream::{
    AppendError, Consumer, ConsumerId, Direction, Entry, Group, Pending, StreamId, TrimTo,
};

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
    const KIND: Kind = Kind::Stream;

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Stream { log: UnalignedBox::new(log::Stream::new()) }
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Stream(self)
    }

    /// Never, as far as the database goes: what `is_empty` is asked for is whether the key may go.
    fn is_empty(&self) -> bool {
        false
    }
}

impl Stream {
    /// Adds an entry; `items` are field, value, field, value...
    pub fn add(&mut self, id: StreamId, items: &[&[u8]], limits: &EncodingLimits) -> Result<(), AppendError> {
        let limits =
            NodeLimits { bytes: limits.stream_node_bytes_max, entries: limits.stream_node_entries_max };
        self.log.append(id, items, limits)
    }

    /// Asks for what the value points at; whether more can be fetched once that has come.
    #[inline]
    pub fn prefetch_head(&self) -> bool {
        prefetch_object(&*self.log);
        true
    }

    /// Bytes held from the allocator, this value itself left out.
    pub fn boxed_memory_bytes(&self) -> usize {
        usable_size(size_of::<log::Stream>()) + self.log.memory_bytes()
    }

    pub fn layout(&self) -> Layout {
        let nodes = || self.log.nodes().map(|(_, listpack)| listpack);
        let parts = vec![
            ("nodes", self.log.node_count()),
            ("index-nodes", self.log.index_node_count()),
            ("groups", self.log.groups().count()),
        ];
        let used_bytes = nodes().map(Listpack::total_bytes).sum();
        Layout::new("radix tree of listpacks", parts)
            .packed(used_bytes, nodes().map(Listpack::memory_bytes).sum())
    }

    /// All entries, each field and value as it is.
    pub fn for_each(
        &self,
        visit: &mut dyn FnMut(StreamId, &mut dyn Iterator<Item = (StringValue<'_>, StringValue<'_>)>),
    ) {
        for entry in self.log.range(StreamId::MIN, StreamId::MAX, Direction::Forward) {
            visit(entry.id, &mut entry.fields().map(|(field, value)| (field.into(), value.into())));
        }
    }

    /// What freeing it takes, in entries and pending ones.
    pub fn freeing_steps(&self) -> usize {
        let pending: usize = self.log.groups().map(|(_, group)| group.pending_len()).sum();
        self.log.node_count() + pending
    }

    /// The id of the last live entry, which may lie below the last id ever given.
    pub fn last_live_id(&self) -> Option<StreamId> {
        self.log.last().map(|entry| entry.id)
    }
}

/// Answers an id.
pub fn reply_id(id: StreamId, reply: &mut ReplyBuffer) {
    let mut text = [0u8; ID_TEXT_LEN_MAX];
    let mut rest = &mut text[..];
    std::io::Write::write_fmt(&mut rest, format_args!("{id}")).expect("two numbers and a dash fit");
    let unused = rest.len();
    reply.bulk(&text[..ID_TEXT_LEN_MAX - unused]);
}

/// Two numbers of 20 digits and a dash.
const ID_TEXT_LEN_MAX: usize = 41;

/// Answers an entry: its id, and its fields and values in turn.
pub fn reply_entry(entry: &Entry<'_>, reply: &mut ReplyBuffer) {
    reply.array(2);
    reply_id(entry.id, reply);
    let fields = entry.fields();
    reply.array(fields.len() * 2);
    for (field, value) in fields {
        StringValue::from(field).reply(reply);
        StringValue::from(value).reply(reply);
    }
}
