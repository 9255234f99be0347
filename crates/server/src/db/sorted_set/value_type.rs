//! [`ValueType`] of sorted sets.

use super::{Encoding, Probe, SortedSet, large, record_of};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::interned::Interned;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::{Batch, CommandSink};
use crate::db::value_type::{SCATTERED_PARTS_MIN, ValueType};
use std::io;
use structures::ordered_set::{End, OrderedSet};
use structures::prefetch::prefetch_object;
use structures::record::EMBEDDED_BYTES_MAX;
use structures::record::ranking::{FIRST_BYTE, Ranking, RankingView};
use structures::size_class::usable_size;
use wire::rdb::kind;

impl ValueType for SortedSet {
    const NAME: &'static str = "zset";
    const NUMBER: u8 = 3;

    const EMBEDDED_TAG: Option<u8> = Some(FIRST_BYTE >> 6);
    const EMBEDDED_ENCODING: &'static str = "listpack";
    const EMBEDDED_RDB_KIND: u8 = kind::ZSET_LISTPACK;

    /// A record that is too long for an entry becomes a list, and a list that is short a record.
    #[inline]
    fn settle(&mut self, _interned: &mut Interned) {
        if let Encoding::Compact(list) = &self.encoding
            && list.as_bytes().len() <= EMBEDDED_BYTES_MAX
            && let Some(record) = record_of(list)
        {
            *self = SortedSet::of_record(record);
        }
        if let Encoding::Record(record) = &self.encoding
            && record.embedded().is_none()
        {
            self.leave_record();
        }
    }

    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        if let Encoding::Record(record) = &self.encoding { record.embedded() } else { None }
    }

    #[inline]
    fn from_embedded(bytes: &[u8], _interned: &Interned) -> SortedSet {
        SortedSet::of_record(Ranking::of_embedded(bytes))
    }

    #[inline]
    fn assign_embedded(&mut self, bytes: &[u8], interned: &Interned) {
        match &mut self.encoding {
            Encoding::Record(record) => record.assign_embedded(bytes),
            _ => *self = SortedSet::from_embedded(bytes, interned),
        }
    }

    fn embedded_elements(bytes: &[u8], _interned: &Interned) -> usize {
        RankingView::len_of_embedded(bytes)
    }

    fn embedded_layout(bytes: &[u8], _interned: &Interned) -> Layout {
        layout_of(RankingView::of_embedded(bytes))
    }

    fn memory_bytes(&self) -> usize {
        large!(&self.encoding, record => record.memory_bytes(), list => list.memory_bytes(), set => {
            usable_size(size_of_val(&**set)) + set.memory_bytes()
        })
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    fn is_scattered(&self) -> bool {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => false,
            // Two leaves imply a node, an index and tables of all these.
            Encoding::Tree(set) => !set.is_one_leaf(),
            Encoding::SkipList(set) => set.len() >= SCATTERED_PARTS_MIN,
        }
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        large!(&self.encoding, _ => {}, list => list.prefetch(), set => prefetch_object(&**set));
        !self.is_compact()
    }

    #[inline]
    fn prefetch_search<'a>(&'a self, target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        let probe = large!(&self.encoding, _ => return None, _ => return None, set => match target {
            PrefetchTarget::Value => return None,
            PrefetchTarget::Element(member) => set.probe(member),
            PrefetchTarget::Front => set.probe_end(End::Lowest),
            PrefetchTarget::Back => set.probe_end(End::Highest),
        });
        Some(Search::Ordered(Probe { set: self, probe }))
    }

    fn encoding_name(&self) -> &'static str {
        if self.is_compact() { SortedSet::EMBEDDED_ENCODING } else { "skiplist" }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Encoding::Record(record) => layout_of(record.view()),
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
        large!(&self.encoding, record => record.check(), list => list.check(), set => set.check());
    }

    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        let mut batch = Batch::new(sink, b"ZADD", key);
        self.for_range(0..self.len(), false, &mut |member, score| {
            batch.add([wire::number::f64_text(score).to_vec(), member.to_vec()]);
            true
        });
        batch.finish()
    }

    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        self.for_range(0..self.len(), false, &mut |member, score| {
            visit(member.len() + wire::number::f64_text(score).len());
            true
        });
    }

    fn add_to_digest(&self, digest: &mut Digest, _fields_at_ms: i64) {
        self.for_range(0..self.len(), false, &mut |member, score| {
            let mut pair = Digest::default();
            pair.mix_value(member);
            pair.mix(&wire::number::f64_text_in_few_digits(score));
            digest.xor_digest(&pair);
            true
        });
    }

    fn signature(&self) -> Signature {
        let mut sum = 0u64;
        self.for_range(0..self.len(), false, &mut |member, score| {
            let score = score.to_bits().to_ne_bytes();
            sum = sum.wrapping_add(hash_of(&[member, StringValue::Bytes(&score)]));
            true
        });
        Signature::of_content(sum)
    }
}

/// The layout of a record.
fn layout_of(record: RankingView<'_>) -> Layout {
    Layout::new("record in the entry", vec![("members", record.len()), ("bytes", record.used_bytes())])
}
