//! What all types answer, of streams.

use super::{Stream, log};
use crate::db::layout::Layout;
use crate::db::value_type::ValueType;
use structures::listpack::Listpack;
use structures::size_class::usable_size;

/// More nodes and pending entries than this are freed in the background: each is an allocation, a node's of some
/// kilobytes.
const LARGE_PARTS: usize = 64;

impl ValueType for Stream {
    const NAME: &'static str = "stream";
    /// Its counters and groups outlive its entries.
    const STAYS_EMPTY: bool = true;

    fn memory_bytes(&self) -> usize {
        usable_size(size_of::<log::Stream>()) + self.log.memory_bytes()
    }

    fn elements(&self) -> Option<usize> {
        Some(self.log.len() as usize)
    }

    fn is_large(&self) -> bool {
        let pending: usize = self.log.groups().map(|(_, group)| group.pending_len()).sum();
        self.log.node_count() + pending > LARGE_PARTS
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
}
