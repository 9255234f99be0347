//! What all types answer, of sorted sets.

use super::{Encoding, SortedSet, large};
use crate::db::layout::Layout;
use crate::db::value_type::ValueType;
use structures::ordered_set::OrderedSet;
use structures::size_class::usable_size;

impl ValueType for SortedSet {
    const NAME: &'static str = "zset";

    fn memory_bytes(&self) -> usize {
        large!(&self.encoding, list => list.memory_bytes(), set => {
            usable_size(size_of_val(&**set)) + set.memory_bytes()
        })
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    fn encoding_name(&self) -> &'static str {
        if self.is_compact() { "listpack" } else { "skiplist" }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Encoding::Compact(list) => list.layout(),
            Encoding::Tree(tree) => {
                let figures = tree.figures();
                let parts = vec![
                    ("leaves", figures.leaves),
                    ("inner-nodes", figures.inner_nodes),
                    ("levels", figures.levels),
                    ("long-members", figures.long_members),
                    ("index-bytes", figures.index_bytes),
                ];
                Layout::new("feature B+ tree", parts).packed(figures.used_bytes, figures.page_bytes)
            }
            Encoding::SkipList(list) => {
                let figures = list.figures();
                let parts = vec![
                    ("nodes", list.len()),
                    ("levels", figures.levels),
                    ("node-bytes", figures.nodes_bytes),
                    ("index-bytes", figures.index_bytes),
                ];
                Layout::new("skip list", parts)
            }
        }
    }

    fn check(&self) {
        large!(&self.encoding, list => list.check(), set => set.check());
    }
}
