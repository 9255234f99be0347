//! What all types answer, of hashes.

use super::{Encoding, Hash, record_of};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::field_expiry::FirstExpiry;
use crate::db::interned::Interned;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::{Batch, CommandSink};
use crate::db::value_type::{SCATTERED_PARTS_MIN, ValueType};
use std::io;
use structures::packed_map::PackedMap;
use structures::prefetch::prefetch_object;
use structures::record::{EMBEDDED_BYTES_MAX, FIRST_BYTE, Record, RecordView};
use structures::size_class::usable_size;
use wire::rdb::kind;

impl ValueType for Hash {
    const NAME: &'static str = "hash";
    const NUMBER: u8 = 4;

    const EMBEDDED_TAG: Option<u8> = Some(FIRST_BYTE >> 6);
    const EMBEDDED_ENCODING: &'static str = "listpack";
    const EMBEDDED_RDB_KIND: u8 = kind::HASH_LISTPACK;

    /// Gives a record its shape; one that is too long for an entry becomes a list, and a list that is short a record.
    #[inline]
    fn settle(&mut self, interned: &mut Interned) {
        if let Encoding::Compact(list) = &self.encoding
            && list.total_bytes() <= EMBEDDED_BYTES_MAX
            && let Some(record) = record_of(list)
        {
            *self = Hash::of_record(record);
        }
        if let Encoding::Record(record) = &mut self.encoding {
            record.settle(&mut interned.shapes);
            if record.embedded().is_none() {
                self.leave_record();
            }
        }
    }

    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        if let Encoding::Record(record) = &self.encoding { record.embedded() } else { None }
    }

    #[inline]
    fn from_embedded(bytes: &[u8], interned: &Interned) -> Hash {
        Hash::of_record(Record::of_embedded(bytes, &interned.shapes))
    }

    #[inline]
    fn assign_embedded(&mut self, bytes: &[u8], interned: &Interned) {
        match &mut self.encoding {
            Encoding::Record(record) => record.assign_embedded(bytes, &interned.shapes),
            _ => *self = Hash::from_embedded(bytes, interned),
        }
    }

    fn embedded_elements(bytes: &[u8], interned: &Interned) -> usize {
        RecordView::of_embedded(bytes, &interned.shapes).len()
    }

    fn embedded_layout(bytes: &[u8], interned: &Interned) -> Layout {
        layout_of(RecordView::of_embedded(bytes, &interned.shapes))
    }

    fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Record(record) => record.memory_bytes(),
            Encoding::Compact(list) => list.memory_bytes(),
            Encoding::Expiring(list) => list.memory_bytes(),
            Encoding::Packed(map) => usable_size(size_of::<PackedMap>()) + map.memory_bytes(),
        }
    }

    #[inline]
    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    fn is_scattered(&self) -> bool {
        matches!(&self.encoding, Encoding::Packed(map) if map.pages_len() >= SCATTERED_PARTS_MIN)
    }

    #[inline]
    fn first_expiry(&self) -> Option<FirstExpiry> {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => None,
            Encoding::Expiring(list) => list.earliest_ms().map(|at_ms| FirstExpiry { at_ms, is_field: true }),
            Encoding::Packed(map) => {
                map.next_expiry_hint().map(|at_ms| FirstExpiry { at_ms, is_field: true })
            }
        }
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        match &self.encoding {
            Encoding::Record(_) => {}
            Encoding::Compact(list) => list.prefetch(),
            Encoding::Expiring(list) => list.prefetch(),
            Encoding::Packed(map) => prefetch_object(&**map),
        }
        matches!(self.encoding, Encoding::Packed(_))
    }

    #[inline]
    fn prefetch_search<'a>(&'a self, target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        match (&self.encoding, target) {
            (Encoding::Packed(map), PrefetchTarget::Element(field)) => {
                Some(Search::Record(map.probe(map.hash(field))))
            }
            _ => None,
        }
    }

    fn encoding_name(&self) -> &'static str {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => Hash::EMBEDDED_ENCODING,
            Encoding::Expiring(_) | Encoding::Packed(_) => "hashtable",
        }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Encoding::Record(record) => layout_of(record.view()),
            Encoding::Compact(list) => Layout::of_listpack(list),
            Encoding::Expiring(list) => {
                let expiring = list.iter().filter(|(.., expiry_ms)| expiry_ms.is_some()).count();
                Layout::new("expiring listpack", vec![("pages", 1), ("expiring", expiring)])
                    .packed(list.used_bytes(), list.memory_bytes())
            }
            Encoding::Packed(map) => {
                Layout::new("packed map", vec![("pages", map.pages_len()), ("expiring", map.expiring_len())])
                    .packed(map.used_bytes(), map.page_bytes())
            }
        }
    }

    fn check(&self) {
        match &self.encoding {
            Encoding::Record(record) => record.check(),
            Encoding::Compact(list) => crate::db::check::check_unique(list, 2),
            Encoding::Expiring(list) => list.check(),
            Encoding::Packed(map) => map.check(),
        }
    }

    /// Fields that expire are written one by one, each with its time.
    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        let mut expiring = Vec::new();
        let mut batch = Batch::new(sink, b"HMSET", key);
        self.for_each(i64::MIN, &mut |field, value| {
            let field = field.to_vec();
            let expiry_ms = self.get_with_expiry(&field, i64::MIN).and_then(|(_, expiry_ms)| expiry_ms);
            match expiry_ms.filter(|_| self.has_expiring()) {
                Some(at_ms) => expiring.push((field, value.to_vec(), at_ms)),
                None => batch.add([field, value.to_vec()]),
            }
        });
        batch.finish()?;
        expiring.iter().try_for_each(|(field, value, at_ms)| {
            let at_ms = at_ms.to_string();
            sink(&[b"HSETEX", key, b"PXAT", at_ms.as_bytes(), b"FIELDS", b"1", field, value])
        })
    }

    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        self.for_each(i64::MIN, &mut |field, value| visit(field.len() + value.len()));
    }

    fn add_to_digest(&self, digest: &mut Digest, fields_at_ms: i64) {
        self.for_each(fields_at_ms, &mut |field, value| {
            let mut pair = Digest::default();
            pair.mix_value(field);
            pair.mix_value(value);
            digest.xor_digest(&pair);
        });
    }

    fn signature(&self) -> Signature {
        let mut sum = 0u64;
        self.for_each(i64::MIN, &mut |field, value| {
            let found = field.with_bytes(|name| self.get_with_expiry(name, i64::MIN));
            let expiry_ms = found.and_then(|(_, expiry_ms)| expiry_ms).unwrap_or(i64::MAX);
            let expiry = expiry_ms.to_ne_bytes();
            sum = sum.wrapping_add(hash_of(&[field, value, StringValue::Bytes(&expiry)]));
        });
        Signature::of_content(sum)
    }
}

/// The layout of a record.
fn layout_of(record: RecordView<'_>) -> Layout {
    let mut parts = vec![("fields", record.len()), ("bytes", record.used_bytes())];
    match record.shape() {
        None => Layout::new("record in the entry", parts),
        Some(shape) => {
            parts.push(("shape", shape.id().into()));
            Layout::new("shaped record in the entry", parts)
        }
    }
}
