//! [`ValueType`] of lists.

use super::{List, Outgrown, Packed, RecordsView, Single, Small, SmallList};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::interned::Interned;
use crate::db::layout::Layout;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::{Batch, CommandSink};
use crate::db::value_type::{LARGE_BYTES, ValueType};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use structures::packed_list::PackedList;
use structures::prefetch::prefetch_object;
use structures::size_class::usable_size;

/// Lists of more nodes are freed in the background: each is an allocation of some kilobytes.
const LARGE_NODES: usize = 64;

impl ValueType for List {
    const NAME: &'static str = "list";
    const NUMBER: u8 = 1;

    fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Small(list) => list.memory_bytes(),
            Single(list) => list.memory_bytes(),
            Packed(list) | Outgrown(list) => usable_size(size_of::<PackedList>()) + list.memory_bytes(),
        }
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    /// The time depends on the nodes, not on the elements.
    fn is_large(&self) -> bool {
        self.node_count() > LARGE_NODES || self.memory_bytes() > LARGE_BYTES
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        match &self.encoding {
            Small(list) => list.prefetch(),
            Single(list) => list.prefetch(),
            Packed(list) | Outgrown(list) => prefetch_object(&**list),
        }
        true
    }

    #[inline]
    fn prefetch_search<'a>(&'a self, _target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        match &self.encoding {
            Small(list) => {
                list.prefetch_rest();
                None
            }
            Single(_) | Packed(_) | Outgrown(_) => Some(Search::Steps),
        }
    }

    /// Prefetches the node that an operation at an end touches.
    #[inline]
    fn prefetch_step(&self, target: PrefetchTarget<'_>, step: u32) -> bool {
        match &self.encoding {
            Small(_) => false,
            Single(list) => {
                list.prefetch_end(target != PrefetchTarget::Back);
                false
            }
            Packed(list) | Outgrown(list) => list.prefetch_end(target != PrefetchTarget::Back, step),
        }
    }

    const EMBEDDED_TAG: Option<u8> = Some(0);
    const EMBEDDED_ENCODING: &'static str = List::SMALL_ENCODING;
    const EMBEDDED_RDB_KIND: u8 = List::RDB_KIND;

    #[inline]
    fn from_embedded(bytes: &[u8], _interned: &Interned) -> List {
        List { encoding: Small(SmallList::from_embedded(bytes)) }
    }

    #[inline]
    fn assign_embedded(&mut self, bytes: &[u8], interned: &Interned) {
        match &mut self.encoding {
            Small(list) => list.assign_embedded(bytes),
            Single(_) | Packed(_) | Outgrown(_) => *self = List::from_embedded(bytes, interned),
        }
    }

    fn embedded_elements(bytes: &[u8], _interned: &Interned) -> usize {
        RecordsView::of_embedded(bytes).len()
    }

    fn embedded_layout(bytes: &[u8], _interned: &Interned) -> Layout {
        Layout::new("small packed list in the entry", vec![("bytes", bytes.len())])
    }

    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        match &self.encoding {
            Small(list) => list.embedded(),
            Single(_) | Packed(_) | Outgrown(_) => None,
        }
    }

    fn encoding_name(&self) -> &'static str {
        if self.is_outgrown() { "quicklist" } else { List::SMALL_ENCODING }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Small(list) => Layout::new("small packed list", vec![("nodes", 1)])
                .packed(list.used_bytes(), list.memory_bytes()),
            Single(list) => Layout::new("packed list of one node", vec![("nodes", 1)])
                .packed(list.used_bytes(), list.memory_bytes()),
            Packed(list) | Outgrown(list) => {
                let (plain, compressed) = list.plain_and_compressed_nodes();
                let parts =
                    vec![("nodes", list.node_count()), ("large-elements", plain), ("compressed", compressed)];
                Layout::new("packed list", parts).packed(list.used_bytes(), list.node_bytes())
            }
        }
    }

    fn check(&self) {
        match &self.encoding {
            Small(list) => list.check(),
            Single(list) => list.check(),
            Packed(list) | Outgrown(list) => list.check_with_any_limits(),
        }
    }

    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        let mut batch = Batch::new(sink, b"RPUSH", key);
        self.for_each(0, self.len(), &mut |element| batch.add([element.to_vec()]));
        batch.finish()
    }

    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        self.for_each(0, self.len(), &mut |element| visit(element.len()));
    }

    fn add_to_digest(&self, digest: &mut Digest, _fields_at_ms: i64) {
        self.for_each(0, self.len(), &mut |element| digest.mix_value(element));
    }

    fn signature(&self) -> Signature {
        let mut all = DefaultHasher::new();
        self.for_each(0, self.len(), &mut |element| all.write_u64(hash_of(&[element])));
        Signature::of_content(all.finish())
    }
}
