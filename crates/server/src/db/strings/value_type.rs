//! [`ValueType`] of strings in buffers of their own. Shorter ones, and numbers, lie in
//! their key's entry.

use super::long_string::LongString;
use crate::db::audit::{Signature, hash_of};
use crate::db::digest::Digest;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use crate::db::prefetch::{PrefetchTarget, Search};
use crate::db::rewrite::CommandSink;
use crate::db::value_type::{LARGE_BYTES, ValueType};
use std::io;
use structures::size_class::usable_size;

/// Bytes prefetched; the hardware sees the pattern and fetches the rest.
const BYTES_FETCHED_MAX: usize = 256;

impl ValueType for LongString {
    const NAME: &'static str = "string";
    const NUMBER: u8 = 0;

    fn memory_bytes(&self) -> usize {
        self.head_bytes() + usable_size(self.capacity())
    }

    fn elements(&self) -> Option<usize> {
        None
    }

    fn is_large(&self) -> bool {
        self.capacity() > LARGE_BYTES
    }

    #[inline]
    fn prefetch_head(&self) -> bool {
        self.prefetch_target(BYTES_FETCHED_MAX)
    }

    #[inline]
    fn prefetch_search<'a>(&'a self, _target: PrefetchTarget<'a>) -> Option<Search<'a>> {
        self.prefetch_bytes(BYTES_FETCHED_MAX);
        None
    }

    fn encoding_name(&self) -> &'static str {
        "raw"
    }

    fn layout(&self) -> Layout {
        Layout::new("bytes", Vec::new()).packed(self.len(), usable_size(self.capacity()))
    }

    fn check(&self) {}

    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()> {
        sink(&[b"SET", key, self])
    }

    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        visit(self.len());
    }

    fn add_to_digest(&self, digest: &mut Digest, _fields_at_ms: i64) {
        digest.mix(self);
    }

    fn signature(&self) -> Signature {
        Signature::of_content(hash_of(&[StringValue::Bytes(self)]))
    }
}
