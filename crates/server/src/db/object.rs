//! What a key can hold.

use super::hash::Hash;
use super::list::List;
use super::long_string::LongString;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use structures::key_table::{self, EntryRef};
use structures::listpack::Element;

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }
}

/// A value that is not packed into its key's entry.
#[derive(Clone, Debug)]
pub enum Object {
    /// A string too long to sit in the entry, or one that grows in place.
    String(LongString),
    Hash(Hash),
    SortedSet(SortedSet),
    List(List),
    Set(Set),
    Stream(Stream),
}

// Stands in every entry that is not a short string or a number: each byte counts as often as there are keys.
const _: () = assert!(size_of::<Object>() == 10 && align_of::<Object>() == 1);

/// Freeing more than this at once is left to the background: it takes a good part of a millisecond, which one command
/// must not take. Each of so many elements may be an allocation of its own, and each of so many bytes cold.
const LARGE_ELEMENTS: usize = 1024;
const LARGE_BYTES: usize = 1 << 20;
/// Of a stream: each is an allocation of some kilobytes.
const LARGE_NODES: usize = 64;
/// Fewer elements than this are freed fast whatever they are.
const SMALL_ELEMENTS: usize = 64;

/// Strings from this length on are referred to by replies. A reference costs two allocations and a longer list for the
/// kernel. Measured (docs/threads.md), processor time of a GET compared with copying, alone and in a pipeline of ten:
/// 2 KB 1.25 and 0.96, 8 KB 1.04 and 0.57, 16 KB 1.05 and 0.58, 32 KB 0.72 and 0.55, 1 MB 0.53 and 0.10.
pub const REFERRED_LEN_MIN: usize = 16 * 1024;

impl Object {
    pub fn text(bytes: Vec<u8>) -> Self {
        Object::String(LongString::new(bytes))
    }

    pub fn kind(&self) -> Kind {
        match self {
            Object::String(_) => Kind::String,
            Object::Hash(_) => Kind::Hash,
            Object::SortedSet(_) => Kind::SortedSet,
            Object::List(_) => Kind::List,
            Object::Set(_) => Kind::Set,
            Object::Stream(_) => Kind::Stream,
        }
    }

    /// Bytes held from the allocator, this value itself left out.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Object::String(text) => text.memory_bytes(),
            Object::Hash(hash) => hash.memory_bytes(),
            Object::Set(set) => set.memory_bytes(),
            Object::List(list) => list.memory_bytes(),
            Object::SortedSet(set) => set.memory_bytes(),
            Object::Stream(stream) => stream.boxed_memory_bytes(),
        }
    }

    /// Elements of a collection; `None` for a string.
    pub fn elements(&self) -> Option<usize> {
        match self {
            Object::String(_) => None,
            Object::Hash(hash) => Some(hash.len()),
            Object::Set(set) => Some(set.len()),
            Object::List(list) => Some(list.len()),
            Object::SortedSet(set) => Some(set.len()),
            Object::Stream(stream) => Some(stream.len() as usize),
        }
    }

    /// Whether freeing it takes long enough to be noticed.
    pub fn is_large(&self) -> bool {
        match self {
            Object::String(text) => text.capacity() > LARGE_BYTES,
            Object::Stream(stream) => stream.freeing_steps() > LARGE_NODES,
            Object::Hash(_) | Object::SortedSet(_) | Object::List(_) | Object::Set(_) => {
                let elements = self.elements().unwrap_or(0);
                elements > LARGE_ELEMENTS || elements > SMALL_ELEMENTS && self.memory_bytes() > LARGE_BYTES
            }
        }
    }
}

/// A value as found at a key, whatever its type.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    entry: EntryRef<'a, Object>,
}

/// A string's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringValue<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
}

/// A value on its way from one key to another.
#[derive(Debug)]
pub struct OwnedEntry {
    pub value: OwnedValue,
    pub expiry_ms: Option<i64>,
}

#[derive(Debug)]
pub enum OwnedValue {
    Bytes(Box<[u8]>),
    Integer(i64),
    Object(Object),
}

impl<'a> Value<'a> {
    pub fn new(entry: EntryRef<'a, Object>) -> Self {
        Value { entry }
    }

    pub fn entry(&self) -> EntryRef<'a, Object> {
        self.entry
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.entry.value() {
            key_table::Value::Inline(_) | key_table::Value::Integer(_) => Kind::String,
            key_table::Value::Object(object) => object.kind(),
        }
    }

    /// The string here, or `None` if it is something else.
    #[inline]
    pub fn text(&self) -> Option<StringValue<'a>> {
        match self.entry.value() {
            key_table::Value::Inline(bytes) => Some(StringValue::Bytes(bytes)),
            key_table::Value::Integer(n) => Some(StringValue::Integer(n)),
            key_table::Value::Object(Object::String(text)) => Some(StringValue::Bytes(text)),
            key_table::Value::Object(_) => None,
        }
    }

    /// A copy that can be put at another key.
    pub fn to_owned_entry(&self) -> OwnedEntry {
        let value = match self.entry.value() {
            key_table::Value::Inline(bytes) => OwnedValue::Bytes(bytes.into()),
            key_table::Value::Integer(n) => OwnedValue::Integer(n),
            key_table::Value::Object(object) => OwnedValue::Object(object.clone()),
        };
        OwnedEntry { value, expiry_ms: self.expiry_ms() }
    }

    /// Elements of a collection; `None` for a string.
    pub fn elements(&self) -> Option<usize> {
        match self.entry.value() {
            key_table::Value::Inline(_) | key_table::Value::Integer(_) => None,
            key_table::Value::Object(object) => object.elements(),
        }
    }

    /// Bytes that the key's entry and the value occupy.
    pub fn memory_bytes(&self) -> usize {
        let beyond = match self.entry.value() {
            key_table::Value::Object(object) => object.memory_bytes(),
            key_table::Value::Inline(_) | key_table::Value::Integer(_) => 0,
        };
        self.entry.allocation_bytes() + beyond
    }

    /// Milliseconds since the epoch.
    pub fn expiry_ms(&self) -> Option<i64> {
        self.entry.expiry_ms()
    }

    /// What OBJECT ENCODING answers: the name that the reference server's encoding of such a value has.
    pub fn encoding_name(&self) -> &'static str {
        match self.entry.value() {
            key_table::Value::Integer(_) => "int",
            key_table::Value::Inline(_) => "embstr",
            key_table::Value::Object(Object::String(_)) => "raw",
            key_table::Value::Object(Object::Hash(hash)) => hash.encoding_name(),
            key_table::Value::Object(Object::SortedSet(set)) => set.encoding_name(),
            key_table::Value::Object(Object::List(list)) => list.encoding_name(),
            key_table::Value::Object(Object::Set(set)) => set.encoding_name(),
            key_table::Value::Object(Object::Stream(_)) => "stream",
        }
    }
}

impl<'a> From<Element<'a>> for StringValue<'a> {
    #[inline]
    fn from(element: Element<'a>) -> Self {
        match element {
            Element::Integer(n) => StringValue::Integer(n),
            Element::Bytes(bytes) => StringValue::Bytes(bytes),
        }
    }
}

impl StringValue<'_> {
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            StringValue::Bytes(bytes) => bytes.len(),
            StringValue::Integer(n) => wire::number::i64_text(*n).len(),
        }
    }

    /// The bytes a client sees, as its own copy.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            StringValue::Bytes(bytes) => bytes.to_vec(),
            StringValue::Integer(n) => wire::number::i64_text(*n).to_vec(),
        }
    }

    /// Hands over the bytes a client sees, without a copy on the heap.
    #[inline]
    pub fn with_bytes<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StringValue::Bytes(bytes) => work(bytes),
            StringValue::Integer(n) => work(&wire::number::i64_text(*n)),
        }
    }

    /// Whether a reply should refer to it rather than copy it.
    #[inline]
    pub fn is_worth_a_reference(&self) -> bool {
        matches!(self, StringValue::Bytes(bytes) if bytes.len() >= REFERRED_LEN_MIN)
    }

    pub fn equals(&self, other: &[u8]) -> bool {
        self.with_bytes(|bytes| bytes == other)
    }

    /// The integer it is, if it reads as one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            StringValue::Bytes(bytes) => wire::number::parse_i64(bytes),
            StringValue::Integer(n) => Some(*n),
        }
    }

    /// Writes it as a bulk string.
    #[inline]
    pub fn reply(&self, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            StringValue::Bytes(bytes) => reply.bulk(bytes),
            StringValue::Integer(n) => reply.bulk_integer(*n),
        }
    }
}
