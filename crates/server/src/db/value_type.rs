//! The interface of all types of data: code that handles values of any type uses it and does not depend on the types.
//!
//! A new type is a folder with its encodings and an implementation of [`ValueType`], and a row in the table of types in
//! `object.rs`. No other code distinguishes values by type: commands request the type they work on
//! ([`super::Db::change`], [`super::Value::collection`]).
//!
//! Calls are dispatched statically: `by_type!` of `object.rs` is a `match`. An [`super::Object`] has no room for the
//! vtable pointer of `dyn ValueType`, and prefetch has to be inlined.

use super::audit::Signature;
use super::digest::Digest;
use super::field_expiry::FirstExpiry;
use super::interned::Interned;
use super::layout::Layout;
use super::object::ObjectVariant;
use super::prefetch::{PrefetchTarget, Search};
use super::rdb::RdbType;
use super::rewrite::CommandSink;
use std::io;

/// Values of more elements or bytes are freed in the background: it takes a good part of a millisecond, which one command
/// must not take. Each of these elements may be an allocation of its own, and each of these bytes cold.
const LARGE_ELEMENTS: usize = 1024;
pub(super) const LARGE_BYTES: usize = 1 << 20;
/// Fewer elements are freed fast whatever they are.
const SMALL_ELEMENTS: usize = 64;
/// Number of allocations from which a value that is not large is scattered.
pub(super) const SCATTERED_PARTS_MIN: usize = 8;

/// A type of data that a key can hold.
pub trait ValueType: ObjectVariant + RdbType {
    /// The type's name as replied by TYPE.
    const NAME: &'static str;
    /// Number of the type in signatures of the data and in reports on files: the reference's numbers, where 5 is a
    /// module's.
    const NUMBER: u8;
    /// Whether an empty value stays at its key.
    const STAYS_EMPTY: bool = false;

    /// Memory held from the allocator, without the value itself. Called at every change, so it visits nothing.
    fn memory_bytes(&self) -> usize;

    /// The two highest bits of the first byte of its embedded values; `None` of a type that embeds none.
    const EMBEDDED_TAG: Option<u8> = None;
    /// See [`ValueType::encoding_name`], of embedded values.
    const EMBEDDED_ENCODING: &'static str = "";
    /// See [`RdbType::rdb_kind`], of embedded values.
    const EMBEDDED_RDB_KIND: u8 = 0;

    /// Prepares a value that was created or changed for being stored: chooses the bytes to embed.
    #[inline]
    fn settle(&mut self, _interned: &mut Interned) {}

    /// The bytes stored in the key's entry instead of a [settled](ValueType::settle) value, if it is small enough: see
    /// [`super::embedded`].
    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        None
    }

    /// Creates a value from its embedded bytes.
    fn from_embedded(_bytes: &[u8], _interned: &Interned) -> Self {
        unreachable!("values of this type are not embedded")
    }

    /// Replaces the value by that with these embedded bytes.
    fn assign_embedded(&mut self, bytes: &[u8], interned: &Interned) {
        *self = Self::from_embedded(bytes, interned);
    }

    /// Number of elements of an embedded value.
    fn embedded_elements(_bytes: &[u8], _interned: &Interned) -> usize {
        0
    }

    /// See [`ValueType::layout`], of an embedded value.
    fn embedded_layout(bytes: &[u8], _interned: &Interned) -> Layout {
        Layout::new("bytes in the entry", vec![("bytes", bytes.len())])
    }

    /// Number of elements of a collection; `None` for a string.
    fn elements(&self) -> Option<usize>;

    /// Whether freeing it takes long enough to be noticed.
    fn is_large(&self) -> bool {
        let elements = self.elements().unwrap_or(0);
        elements > LARGE_ELEMENTS || elements > SMALL_ELEMENTS && self.memory_bytes() > LARGE_BYTES
    }

    /// Whether freeing it, if it is not large, takes many calls of the allocator, each of which may touch cold memory.
    fn is_scattered(&self) -> bool {
        false
    }

    /// Expiry of the first element, if elements expire on their own.
    fn first_expiry(&self) -> Option<FirstExpiry> {
        None
    }

    /// Prefetches the memory that the value points at; returns whether more can be fetched after that.
    fn prefetch_head(&self) -> bool;

    /// Begins the search for the accessed element once that memory is fetched. `None` if there is no more to fetch.
    fn prefetch_search<'a>(&'a self, target: PrefetchTarget<'a>) -> Option<Search<'a>>;

    /// For [`Search::Steps`]: prefetches what the step touches, from 0 on; returns whether there is another.
    fn prefetch_step(&self, _target: PrefetchTarget<'_>, _step: u32) -> bool {
        false
    }

    /// OBJECT ENCODING's reply: the name of the reference server's encoding of such a value.
    fn encoding_name(&self) -> &'static str;

    /// Its actual memory layout. May visit every page or node.
    fn layout(&self) -> Layout;

    /// Panics unless every invariant of its structure holds. For tests and fuzzers; it reads everything.
    fn check(&self);

    /// Passes the commands that create it at `key`, which does not exist, to `sink`.
    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()>;

    /// Passes the length of each element to `visit`, as reports on files count them: a member with its score, a field
    /// with its value. A string is one element.
    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize));

    /// Adds its content to a digest of the data. Fields that expire before `fields_at_ms` are not part of it.
    fn add_to_digest(&self, digest: &mut Digest, fields_at_ms: i64);

    /// Its signature, compared before and after a change. Called in debug builds, and reads all of the value.
    fn signature(&self) -> Signature;

    /// Number of elements read for the signature.
    fn signature_elements(&self) -> usize {
        self.elements().unwrap_or(0)
    }
}
