//! What a key can hold.

use structures::key_table::{self, EntryRef};

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
#[derive(Debug)]
pub enum Object {
    /// A string too long to sit in the entry, or one that grows in place.
    Text(Vec<u8>),
}

/// Freeing more than this at once is left to the background, in bytes of text or in elements.
const LARGE_TEXT_BYTES: usize = 1 << 20;

impl Object {
    pub fn kind(&self) -> Kind {
        match self {
            Object::Text(_) => Kind::String,
        }
    }

    /// Whether freeing it takes long enough to be noticed.
    pub fn is_large(&self) -> bool {
        match self {
            Object::Text(text) => text.capacity() > LARGE_TEXT_BYTES,
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
pub enum Text<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
}

impl<'a> Value<'a> {
    pub(super) fn new(entry: EntryRef<'a, Object>) -> Self {
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
    pub fn text(&self) -> Option<Text<'a>> {
        match self.entry.value() {
            key_table::Value::Inline(bytes) => Some(Text::Bytes(bytes)),
            key_table::Value::Integer(n) => Some(Text::Integer(n)),
            key_table::Value::Object(Object::Text(text)) => Some(Text::Bytes(text)),
        }
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
            key_table::Value::Object(Object::Text(_)) => "raw",
        }
    }
}

impl Text<'_> {
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Text::Bytes(bytes) => bytes.len(),
            Text::Integer(n) => wire::number::i64_text(*n).len(),
        }
    }

    /// The bytes a client sees, as its own copy.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Text::Bytes(bytes) => bytes.to_vec(),
            Text::Integer(n) => wire::number::i64_text(*n).to_vec(),
        }
    }

    /// Writes it as a bulk string.
    #[inline]
    pub fn reply(&self, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            Text::Bytes(bytes) => reply.bulk(bytes),
            Text::Integer(n) => reply.bulk_integer(*n),
        }
    }
}
