//! What all types answer, of hashes.

use super::{Encoding, Hash};
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use crate::db::value_type::ValueType;
use structures::packed_map::PackedMap;
use structures::size_class::usable_size;

impl ValueType for Hash {
    const NAME: &'static str = "hash";
    const NUMBER: u8 = 4;

    fn memory_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Compact(list) => list.memory_bytes(),
            Encoding::Packed(map) => usable_size(size_of::<PackedMap>()) + map.memory_bytes(),
        }
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    #[inline]
    fn earliest_expiry_ms(&self) -> Option<i64> {
        match &self.encoding {
            Encoding::Compact(_) => None,
            Encoding::Packed(map) => map.next_expiry_hint(),
        }
    }

    fn encoding_name(&self) -> &'static str {
        match &self.encoding {
            Encoding::Compact(_) => "listpack",
            Encoding::Packed(_) => "hashtable",
        }
    }

    fn layout(&self) -> Layout {
        match &self.encoding {
            Encoding::Compact(list) => Layout::of_listpack(list),
            Encoding::Packed(map) => {
                Layout::new("packed map", vec![("pages", map.pages_len()), ("expiring", map.expiring_len())])
                    .packed(map.used_bytes(), map.page_bytes())
            }
        }
    }

    fn check(&self) {
        match &self.encoding {
            Encoding::Compact(list) => crate::db::check::check_unique(list, 2),
            Encoding::Packed(map) => map.check(),
        }
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
