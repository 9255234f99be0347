//! [`ValueType`] of sets.

use super::mixed::Mixed;
use super::{Encoding, Set, record_of};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::interned::Interned;
use crate::db::layout::Layout;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::{Batch, CommandSink};
use crate::db::value_type::{SCATTERED_PARTS_MIN, ValueType};
use std::io;
use structures::integer_set::IntegerSet;
use structures::packed_map::PackedSet;
use structures::prefetch::prefetch_object;
use structures::record::EMBEDDED_BYTES_MAX;
use structures::record::members::{FIRST_BYTE, Members, MembersView};
use structures::size_class::usable_size;
use wire::rdb::kind;

impl ValueType for Set {
    const NAME: &'static str = "set";
    const NUMBER: u8 = 2;

    const EMBEDDED_TAG: Option<u8> = Some(FIRST_BYTE >> 6);
    const EMBEDDED_ENCODING: &'static str = "listpack";
    const EMBEDDED_RDB_KIND: u8 = kind::SET_LISTPACK;

    /// A record that is too long for an entry becomes a list, and a list that is short a record.
    #[inline]
    fn settle(&mut self, _interned: &mut Interned) {
        if let Encoding::Compact(list) = &self.encoding
            && list.total_bytes() <= EMBEDDED_BYTES_MAX
            && let Some(members) = record_of(list)
        {
            *self = Set::of_record(members);
        }
        if let Encoding::Record(members) = &self.encoding
            && members.embedded().is_none()
        {
            self.leave_record();
        }
    }

    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        if let Encoding::Record(members) = &self.encoding { members.embedded() } else { None }
    }

    #[inline]
    fn from_embedded(bytes: &[u8], _interned: &Interned) -> Set {
        Set::of_record(Members::of_embedded(bytes))
    }

    #[inline]
    fn assign_embedded(&mut self, bytes: &[u8], interned: &Interned) {
        match &mut self.encoding {
            Encoding::Record(members) => members.assign_embedded(bytes),
            _ => *self = Set::from_embedded(bytes, interned),
        }
    }

    fn embedded_elements(bytes: &[u8], _interned: &Interned) -> usize {
        MembersView::of_embedded(bytes).len()
    }

    fn embedded_layout(bytes: &[u8], _interned: &Interned) -> Layout {
        layout_of(MembersView::of_embedded(bytes))
    }

    fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Integers { set, .. } => set.memory_bytes(),
            Encoding::Record(members) => members.memory_bytes(),
            Encoding::Compact(list) => list.memory_bytes(),
            Encoding::Packed(set) => usable_size(size_of::<PackedSet>()) + set.memory_bytes(),
            Encoding::Mixed(set) => usable_size(size_of::<Mixed>()) + set.memory_bytes(),
        }
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    fn is_scattered(&self) -> bool {
        let pages = match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) | Encoding::Integers { .. } => 0,
            Encoding::Packed(set) => set.pages_len(),
            Encoding::Mixed(set) => set.others.pages_len(),
        };
        pages >= SCATTERED_PARTS_MIN
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        match &self.encoding {
            Encoding::Record(_) => {}
            Encoding::Compact(list) => list.prefetch(),
            Encoding::Integers { set: IntegerSet::Small(sorted), .. } => sorted.prefetch(),
            Encoding::Integers { set: IntegerSet::Large(pages), .. } => prefetch_object(&**pages),
            Encoding::Packed(set) => prefetch_object(&**set),
            Encoding::Mixed(set) => prefetch_object(&**set),
        }
        match &self.encoding {
            Encoding::Record(_)
            | Encoding::Compact(_)
            | Encoding::Integers { set: IntegerSet::Small(_), .. } => false,
            Encoding::Integers { set: IntegerSet::Large(_), .. }
            | Encoding::Packed(_)
            | Encoding::Mixed(_) => true,
        }
    }

    /// Prefetches by the member's hash, or for integers in steps.
    #[inline]
    fn prefetch_search<'a>(&'a self, target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        let PrefetchTarget::Element(member) = target else { return None };
        let probe = match &self.encoding {
            Encoding::Integers { .. } | Encoding::Record(_) | Encoding::Compact(_) => None,
            Encoding::Packed(set) => Some(set.probe(set.hash(member))),
            Encoding::Mixed(set) => set.probe(member),
        };
        Some(probe.map_or(Search::Steps, Search::Record))
    }

    fn prefetch_step(&self, target: PrefetchTarget<'_>, step: u32) -> bool {
        let PrefetchTarget::Element(member) = target else { return false };
        match (&self.encoding, wire::number::parse_i64(member)) {
            (Encoding::Integers { set, .. }, Some(value)) => set.prefetch(value, step + 1),
            (Encoding::Mixed(set), Some(value)) => set.integers.prefetch(value, step),
            _ => false,
        }
    }

    fn encoding_name(&self) -> &'static str {
        match &self.encoding {
            Encoding::Integers { outgrown: false, .. } => "intset",
            Encoding::Record(_) | Encoding::Compact(_) => Set::EMBEDDED_ENCODING,
            Encoding::Integers { outgrown: true, .. } | Encoding::Packed(_) | Encoding::Mixed(_) => {
                "hashtable"
            }
        }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Encoding::Integers { set: IntegerSet::Small(sorted), .. } => {
                Layout::new("sorted integers", vec![("pages", 1)])
                    .packed(sorted.as_bytes().len(), sorted.memory_bytes())
            }
            Encoding::Integers { set: IntegerSet::Large(pages), .. } => {
                let figures = pages.figures();
                let parts =
                    vec![("pages", figures.pages), ("runs", figures.runs), ("bitmaps", figures.bitmaps)];
                Layout::new("integer pages", parts).packed(figures.used_bytes, figures.page_bytes)
            }
            Encoding::Record(members) => layout_of(members.view()),
            Encoding::Compact(list) => Layout::of_listpack(list),
            Encoding::Packed(set) => Layout::new("packed set", vec![("pages", set.pages_len())])
                .packed(set.used_bytes(), set.page_bytes()),
            Encoding::Mixed(set) => set.layout(),
        }
    }

    fn check(&self) {
        match &self.encoding {
            Encoding::Integers { set, .. } => set.check(),
            Encoding::Record(members) => members.check(),
            Encoding::Compact(list) => crate::db::check::check_unique(list, 1),
            Encoding::Packed(set) => set.check(),
            Encoding::Mixed(set) => set.check(),
        }
    }

    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        let mut batch = Batch::new(sink, b"SADD", key);
        self.for_each(&mut |member| batch.add([member.to_vec()]));
        batch.finish()
    }

    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        self.for_each(&mut |member| visit(member.len()));
    }

    fn add_to_digest(&self, digest: &mut Digest, _fields_at_ms: i64) {
        self.for_each(&mut |member| member.with_bytes(|bytes| digest.xor(bytes)));
    }

    fn signature(&self) -> Signature {
        let mut sum = 0u64;
        self.for_each(&mut |member| sum = sum.wrapping_add(hash_of(&[member])));
        Signature::of_content(sum)
    }
}

/// The layout of a record.
fn layout_of(members: MembersView<'_>) -> Layout {
    Layout::new("record in the entry", vec![("members", members.len()), ("bytes", members.used_bytes())])
}
