//! [`ValueType`] of streams.

use super::{Stream, StreamId, log};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::field_expiry::FirstExpiry;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::CommandSink;
use crate::db::value_type::ValueType;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use structures::listpack::Listpack;
use structures::prefetch::prefetch_object;
use structures::size_class::usable_size;
use structures::stream::Producers;
use wire::convert::usize_of;

/// Streams with more nodes, pending entries and producers' messages are freed in the background: each is an allocation, a
/// node's of some kilobytes.
const LARGE_PARTS: usize = 64;

impl ValueType for Stream {
    const NAME: &'static str = "stream";
    const NUMBER: u8 = 6;
    /// Counters and groups outlive the entries.
    const STAYS_EMPTY: bool = true;

    fn memory_bytes(&self) -> usize {
        usable_size(size_of::<log::Stream>()) + self.log.memory_bytes()
    }

    fn elements(&self) -> Option<usize> {
        Some(usize_of(self.log.len()))
    }

    fn is_large(&self) -> bool {
        let pending: usize = self.log.groups().map(|(_, group)| group.pending_len()).sum();
        let messages = self.log.producers().map_or(0, Producers::len);
        self.log.node_count() + pending + messages > LARGE_PARTS
    }

    #[inline]
    fn first_expiry(&self) -> Option<FirstExpiry> {
        // The search removes elements that expire before now, and messages expire at their time.
        let due_ms = self.log.producers()?.due_ms()?.saturating_sub(1);
        Some(FirstExpiry { at_ms: i64::try_from(due_ms).unwrap_or(i64::MAX), is_field: false })
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        prefetch_object(&*self.log);
        true
    }

    #[inline]
    fn prefetch_search<'a>(&'a self, _target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        self.log.prefetch_append();
        None
    }

    fn encoding_name(&self) -> &'static str {
        "stream"
    }

    fn layout(&self) -> Layout {
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

    fn check(&self) {
        self.log.check();
    }

    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        self.rewrite_whole(key, sink)
    }

    /// Passes the length of each field with its value.
    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        self.for_each(&mut |_, fields| {
            fields.for_each(|(field, value)| visit(field.len() + value.len()));
        });
    }

    fn add_to_digest(&self, digest: &mut Digest, _fields_at_ms: i64) {
        self.for_each(&mut |id, fields| {
            digest.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
            for (field, value) in fields {
                digest.mix_value(field);
                digest.mix_value(value);
            }
        });
    }

    fn signature(&self) -> Signature {
        Signature { content: hash_of_entries(self), rest: hash_of_groups(self) }
    }

    fn signature_elements(&self) -> usize {
        let groups = self.log.groups();
        let of_groups: usize =
            groups.map(|(_, group)| 1 + group.pending_len() + group.consumer_count()).sum();
        usize_of(self.log.len()) + of_groups
    }
}

fn hash_of_entries(stream: &Stream) -> u64 {
    let mut all = DefaultHasher::new();
    stream.for_each(&mut |id, fields| {
        all.write(&id.to_key());
        fields.for_each(|(field, value)| all.write_u64(hash_of(&[field, value])));
    });
    all.finish()
}

/// Hash of the counters and the groups' state, without the times when consumers were last seen.
fn hash_of_groups(stream: &Stream) -> u64 {
    let mut all = DefaultHasher::new();
    all.write(format!("{:?}", stream.state()).as_bytes());
    for (name, group) in stream.groups() {
        all.write_u64(hash_of(&[StringValue::Bytes(name)]));
        all.write(format!("{:?}", (group.last_id, group.entries_read)).as_bytes());
        for (id, pending) in group.pending_from(StreamId::MIN) {
            let consumer = group.consumer(pending.consumer).name();
            all.write(
                format!("{id} {consumer:?} {} {}", pending.delivered_ms, pending.deliveries).as_bytes(),
            );
        }
        let mut names: Vec<&[u8]> = group.consumers().map(|(_, consumer)| consumer.name()).collect();
        names.sort_unstable();
        names.iter().for_each(|name| all.write_u64(hash_of(&[StringValue::Bytes(name)])));
    }
    all.finish()
}
