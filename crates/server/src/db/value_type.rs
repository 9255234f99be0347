//! What each type of data answers, so that whatever reads values of all types needs not know which there are.
//!
//! A new type is a folder with its encodings and an implementation of [`ValueType`], and a row in the table of types in
//! `object.rs`. Nothing else tells values apart by their types: commands ask for the one they work on
//! ([`super::Db::change`], [`super::Value::collection`]).
//!
//! Calls are resolved when they are compiled: `by_type!` of `object.rs` is a `match`. An [`super::Object`] has no room for
//! the table of functions that `dyn ValueType` needs, and prefetch is to be inlined.

use super::audit::Signature;
use super::digest::Digest;
use super::field_expiry::FirstExpiry;
use super::layout::Layout;
use super::object::ObjectVariant;
use super::prefetch::{PrefetchTarget, Search};
use super::rdb::RdbType;
use super::rewrite::CommandSink;
use std::io;

/// Freeing more than this at once is left to the background: it takes a good part of a millisecond, which one command
/// must not take. Each of so many elements may be an allocation of its own, and each of so many bytes cold.
const LARGE_ELEMENTS: usize = 1024;
pub(super) const LARGE_BYTES: usize = 1 << 20;
/// Fewer elements than this are freed fast whatever they are.
const SMALL_ELEMENTS: usize = 64;
/// From so many allocations on, what is not large is scattered.
pub(super) const SCATTERED_PARTS_MIN: usize = 8;

/// A type of data that a key can hold.
pub trait ValueType: ObjectVariant + RdbType {
    /// What TYPE answers.
    const NAME: &'static str;
    /// Stands for the type in signatures of the data and in reports on files. The numbers of the reference, where 5 is a
    /// module's.
    const NUMBER: u8;
    /// An empty one stays at its key.
    const STAYS_EMPTY: bool = false;

    /// Bytes held from the allocator, this value itself left out. Asked at every change, so it visits nothing.
    fn memory_bytes(&self) -> usize;

    /// The bytes that lie in the key's entry in place of the value, if it is so small: see [`super::embedded`].
    #[inline]
    fn embedded(&self) -> Option<&[u8]> {
        None
    }

    /// Elements of a collection; `None` for a string.
    fn elements(&self) -> Option<usize>;

    /// Whether freeing it takes long enough to be noticed.
    fn is_large(&self) -> bool {
        let elements = self.elements().unwrap_or(0);
        elements > LARGE_ELEMENTS || elements > SMALL_ELEMENTS && self.memory_bytes() > LARGE_BYTES
    }

    /// Whether freeing it, if it is not large, takes many calls of the allocator, each of which may meet cold memory.
    fn is_scattered(&self) -> bool {
        false
    }

    /// When the first of the elements expires that do so on their own.
    fn first_expiry(&self) -> Option<FirstExpiry> {
        None
    }

    /// Asks for what the value points at; whether more can be fetched once that has come.
    fn prefetch_head(&self) -> bool;

    /// What the value points at has come: begins the search for what a command looks at. `None` if there is no more to
    /// fetch.
    fn prefetch_search<'a>(&'a self, target: PrefetchTarget<'a>) -> Option<Search<'a>>;

    /// Of [`Search::Steps`]: asks for what the step touches, from 0 on; whether there is another.
    fn prefetch_step(&self, _target: PrefetchTarget<'_>, _step: u32) -> bool {
        false
    }

    /// What OBJECT ENCODING answers: the name that the reference server's encoding of such a value has.
    fn encoding_name(&self) -> &'static str;

    /// How it truly lies in memory. May visit every page or node.
    fn layout(&self) -> Layout;

    /// Panics unless every invariant of its structure holds. For tests and fuzzers; it reads everything.
    fn check(&self);

    /// Hands over the commands that make it at `key` where nothing is.
    fn rewrite(&self, key: &[u8], sink: &mut CommandSink<'_>) -> io::Result<()>;

    /// Hands over the bytes of each element, as reports on files count them: a member with its score, a field with its
    /// value. A string is one.
    fn for_each_element_len(&self, visit: &mut dyn FnMut(usize));

    /// Adds its content to a signature of the data. Fields that expire before `fields_at_ms` are not part of it.
    fn add_to_digest(&self, digest: &mut Digest, fields_at_ms: i64);

    /// What it is compared by, before a change and after. Debug builds ask for it, and read all of the value.
    fn signature(&self) -> Signature;

    /// How many elements are read for that.
    fn signature_elements(&self) -> usize {
        self.elements().unwrap_or(0)
    }
}
