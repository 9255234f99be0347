//! The values of keys: the types of data, and values as they are found at keys.

use super::compression::dictionary::{CompressedText, text_len};
use super::field_expiry::{first_expiry, line_bytes};
pub(super) use super::hash::Hash;
use super::interned::Interned;
pub(super) use super::list::List;
use super::rdb::{self, RdbType, ReadContext, ReadValue};
pub(super) use super::set::Set;
pub(super) use super::sorted_set::SortedSet;
pub(super) use super::stream::Stream;
use super::strings::EMBEDDED_LEN_MAX;
pub(super) use super::strings::long_string::LongString;
use super::value_type::ValueType;
use std::cmp::Ordering;
use std::io::Read;
use structures::decimal;
use structures::key_table::{self, EntryRef};
use structures::listpack::Element;
use structures::record::{self, value::TextBuffer};
use wire::rdb::Reader;

/// Declares the types of data: [`Object`], and macros that dispatch to a type's functions. The first argument is `$`,
/// which the generated macros need and this macro cannot write itself.
macro_rules! value_types {
    ($dollar:tt $($(#[$about:meta])* $variant:ident($type:ident),)*) => {
        /// The type of a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(
                /// The type of the same variant of [`Object`].
                $variant,
            )*
        }

        impl Kind {
            /// All types.
            pub const ALL: &[Kind] = &[$(Kind::$variant,)*];
        }

        /// A value that is not stored in its key's entry.
        #[derive(Clone, Debug)]
        pub enum Object {
            $($(#[$about])* $variant($type),)*
        }

        impl Object {
            /// Its type.
            #[inline]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$variant,)*
                }
            }
        }

        $(impl ObjectVariant for $type {
            const KIND: Kind = Kind::$variant;

            #[inline]
            fn of(object: &Object) -> Option<&Self> {
                if let Object::$variant(value) = object { Some(value) } else { None }
            }

            #[inline]
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                if let Object::$variant(value) = object { Some(value) } else { None }
            }

            #[inline]
            fn into_object(self) -> Object {
                Object::$variant(self)
            }
        })*

        /// Calls a function of the value in an object, whatever its type: `by_type!(object, value =>
        /// ValueType::elements(value))`.
        macro_rules! by_type {
            ($dollar object:expr, $dollar value:ident => $dollar work:expr) => {
                match $dollar object {
                    $($crate::db::object::Object::$variant($dollar value) => $dollar work,)*
                }
            };
        }

        /// Calls a function or reads a constant of a kind's type: `by_kind!(kind, Type => Type::NAME)`.
        macro_rules! by_kind {
            ($dollar kind:expr, $dollar alias:ident => $dollar work:expr) => {
                match $dollar kind {
                    $($crate::db::object::Kind::$variant => {
                        type $dollar alias = $crate::db::object::$type;
                        $dollar work
                    })*
                }
            };
        }
    };
}

// The table of types: a new row requires an implementation of `ValueType`.
value_types! { $
    /// A string too long for the entry, or one that grows in place.
    String(LongString),
    /// A hash.
    Hash(Hash),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A stream.
    Stream(Stream),
}

/// The type of embedded values, by the two highest bits of their first byte.
const EMBEDDED_KINDS: [Option<Kind>; 4] = {
    let mut embedded = [None; 4];
    let mut types = Kind::ALL;
    while let [kind, others @ ..] = types {
        if let Some(tag) = kind.embedded_tag() {
            assert!(embedded[tag as usize].is_none(), "two types claim the same embedded values");
            embedded[tag as usize] = Some(*kind);
        }
        types = others;
    }
    embedded
};

/// See [`ValueType::EMBEDDED_TAG`].
#[inline]
pub(super) fn embedded_tag(bytes: &[u8]) -> u8 {
    bytes[0] >> 6
}

/// The type of an embedded value.
#[inline]
pub(super) fn kind_of_embedded(bytes: &[u8]) -> Kind {
    EMBEDDED_KINDS[usize::from(embedded_tag(bytes))].expect("a type has embedded the value")
}

/// Calls a function or reads a constant of an embedded value's type: `by_embedded!(bytes, Type => Type::NAME)`.
macro_rules! by_embedded {
    ($bytes:expr, $alias:ident => $work:expr) => {
        $crate::db::object::by_kind!($crate::db::object::kind_of_embedded($bytes), $alias => $work)
    };
}

pub(super) use {by_embedded, by_kind, by_type};

// Part of every entry that is not a short string or a number: each byte counts once for each key.
const _: () = assert!(size_of::<Object>() == 10 && align_of::<Object>() == 1);

/// Conversions between a type and [`Object`].
pub trait ObjectVariant: Sized {
    /// The type's kind.
    const KIND: Kind;

    /// The value in an object, if it is of this type.
    fn of(object: &Object) -> Option<&Self>;
    /// As [`ObjectVariant::of`], mutable.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// The object of a value.
    fn into_object(self) -> Object;
}

impl Kind {
    /// The type's name as replied by TYPE.
    pub const fn name(self) -> &'static str {
        by_kind!(self, Type => Type::NAME)
    }

    /// See [`ValueType::EMBEDDED_TAG`].
    const fn embedded_tag(self) -> Option<u8> {
        by_kind!(self, Type => Type::EMBEDDED_TAG)
    }

    /// See [`RdbType::RDB_KINDS`].
    pub(super) const fn rdb_kinds(self) -> &'static [u8] {
        by_kind!(self, Type => Type::RDB_KINDS)
    }

    /// See [`RdbType::read_rdb`].
    pub(super) fn read_rdb<R: Read>(
        self,
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> rdb::Result<ReadValue> {
        by_kind!(self, Type => Type::read_rdb(reader, kind, context))
    }

    /// See [`ValueType::NUMBER`].
    pub const fn number(self) -> u8 {
        by_kind!(self, Type => Type::NUMBER)
    }
}

/// Strings from this length on are referred to by replies. A reference costs two allocations and a longer list for the
/// kernel. Measured (docs/threads.md), processor time of a GET relative to copying, alone and in a pipeline of ten: 2 KB
/// 1.25 and 0.96, 8 KB 1.04 and 0.57, 16 KB 1.05 and 0.58, 32 KB 0.72 and 0.55, 1 MB 0.53 and 0.10.
pub const REFERRED_LEN_MIN: usize = 16 * 1024;

impl Object {
    /// A string that can grow.
    pub fn text(bytes: Vec<u8>) -> Self {
        LongString::new(bytes).into_object()
    }

    /// See [`ValueType::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        by_type!(self, value => ValueType::memory_bytes(value))
    }

    /// See [`ValueType::embedded`].
    #[inline]
    pub(super) fn embedded(&self) -> Option<&[u8]> {
        by_type!(self, value => ValueType::embedded(value))
    }

    /// See [`ValueType::settle`].
    #[inline]
    pub(super) fn settle(&mut self, interned: &mut Interned) {
        by_type!(self, value => ValueType::settle(value, interned));
    }

    /// Creates a value from its bytes in an entry.
    #[inline]
    pub(super) fn from_embedded(bytes: &[u8], interned: &Interned) -> Object {
        by_embedded!(bytes, Type => Type::from_embedded(bytes, interned).into_object())
    }

    /// See [`ValueType::elements`].
    pub fn elements(&self) -> Option<usize> {
        by_type!(self, value => ValueType::elements(value))
    }

    /// See [`ValueType::for_each_element_len`].
    pub fn for_each_element_len(&self, visit: &mut dyn FnMut(usize)) {
        by_type!(self, value => ValueType::for_each_element_len(value, visit));
    }

    /// See [`ValueType::is_large`].
    pub fn is_large(&self) -> bool {
        by_type!(self, value => ValueType::is_large(value))
    }

    /// See [`ValueType::is_scattered`].
    pub fn is_scattered(&self) -> bool {
        by_type!(self, value => ValueType::is_scattered(value))
    }

    /// Whether it is an empty collection of a type whose empty values are removed.
    pub(super) fn is_to_go(&self) -> bool {
        self.elements() == Some(0) && !by_kind!(self.kind(), Type => Type::STAYS_EMPTY)
    }
}

/// A value found at a key, of any type.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    entry: EntryRef<'a, Object>,
    interned: &'a Interned,
}

/// A string's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringValue<'a> {
    /// Plain bytes.
    Bytes(&'a [u8]),
    /// A string that is the decimal form of this integer.
    Integer(i64),
    /// A string compressed with a dictionary.
    Compressed(CompressedText<'a>),
    /// In a form of its own, as values of records are.
    Typed(record::value::Value<'a>),
}

/// A value being moved from one key to another.
#[derive(Debug)]
pub struct OwnedEntry {
    /// The value.
    pub value: OwnedValue,
    /// Time of expiry in milliseconds since the epoch; `None`: it does not expire.
    pub expiry_ms: Option<i64>,
}

/// A value without its key.
#[derive(Debug)]
pub enum OwnedValue {
    /// A string's plain bytes.
    Bytes(Box<[u8]>),
    /// A string that is the decimal form of this integer.
    Integer(i64),
    /// A value outside the entry.
    Object(Object),
}

impl<'a> Value<'a> {
    /// `interned` must be that of the entry's databases; see [`Db::value_of`](super::Db::value_of).
    pub(super) fn new(entry: EntryRef<'a, Object>, interned: &'a Interned) -> Self {
        Value { entry, interned }
    }

    /// What values of its databases refer to.
    pub(super) fn interned(&self) -> &'a Interned {
        self.interned
    }

    /// The key's entry.
    pub fn entry(&self) -> EntryRef<'a, Object> {
        self.entry
    }

    /// Its type.
    #[inline]
    pub fn kind(&self) -> Kind {
        kind_of(self.entry)
    }

    /// The string, or `None` for a value of another type.
    #[inline]
    pub fn text(&self) -> Option<StringValue<'a>> {
        match self.entry.value() {
            key_table::Value::Inline(bytes) => Some(StringValue::Bytes(bytes)),
            key_table::Value::Integer(n) => Some(StringValue::Integer(n)),
            key_table::Value::Compressed(stored) => Some(StringValue::Compressed(self.text_of(stored))),
            key_table::Value::Object(object) => LongString::of(object).map(|text| StringValue::Bytes(text)),
            key_table::Value::Embedded(_) => None,
        }
    }

    #[inline]
    fn text_of(&self, stored: &'a [u8]) -> CompressedText<'a> {
        CompressedText::new(stored, &self.interned.dictionaries)
    }

    /// A copy that can be stored at another key.
    pub fn to_owned_entry(&self) -> OwnedEntry {
        let value = match self.entry.value() {
            key_table::Value::Inline(bytes) => OwnedValue::Bytes(bytes.into()),
            key_table::Value::Compressed(stored) => OwnedValue::Bytes(self.text_of(stored).to_vec().into()),
            key_table::Value::Integer(n) => OwnedValue::Integer(n),
            key_table::Value::Object(object) => OwnedValue::Object(object.clone()),
            key_table::Value::Embedded(bytes) => {
                OwnedValue::Object(Object::from_embedded(bytes, self.interned))
            }
        };
        OwnedEntry { value, expiry_ms: self.expiry_ms() }
    }

    /// Number of elements of a collection; `None` for a string.
    pub fn elements(&self) -> Option<usize> {
        match self.entry.value() {
            key_table::Value::Object(object) => object.elements(),
            key_table::Value::Embedded(bytes) => {
                Some(by_embedded!(bytes, Type => Type::embedded_elements(bytes, self.interned)))
            }
            _ => None,
        }
    }

    /// Bytes of the key's entry and the value, and of other state kept for the key, without its slot.
    pub fn memory_bytes(&self) -> usize {
        memory_bytes_of(self.entry)
    }

    /// Expiry in milliseconds since the epoch.
    pub fn expiry_ms(&self) -> Option<i64> {
        self.entry.expiry_ms()
    }

    /// OBJECT ENCODING's reply: the name of the reference server's encoding of such a value.
    pub fn encoding_name(&self) -> &'static str {
        encoding_name_of(self.entry)
    }
}

/// See [`Value::memory_bytes`].
pub fn memory_bytes_of(entry: EntryRef<'_, Object>) -> usize {
    let beyond = match entry.value() {
        key_table::Value::Object(object) => {
            let expiring = first_expiry(Some(object)).map(|_| line_bytes(entry.key()));
            object.memory_bytes() + expiring.unwrap_or(0)
        }
        _ => 0,
    };
    entry.allocation_bytes() + beyond
}

/// See [`Value::encoding_name`].
pub fn encoding_name_of(entry: EntryRef<'_, Object>) -> &'static str {
    match entry.value() {
        key_table::Value::Integer(_) => "int",
        key_table::Value::Inline(bytes) => encoding_of_bytes(bytes.len()),
        key_table::Value::Compressed(stored) => encoding_of_bytes(text_len(stored)),
        key_table::Value::Object(object) => by_type!(object, value => ValueType::encoding_name(value)),
        key_table::Value::Embedded(bytes) => by_embedded!(bytes, Type => Type::EMBEDDED_ENCODING),
    }
}

/// The type of the value in an entry.
#[inline]
pub fn kind_of(entry: EntryRef<'_, Object>) -> Kind {
    match entry.value() {
        key_table::Value::Object(object) => object.kind(),
        key_table::Value::Embedded(bytes) => kind_of_embedded(bytes),
        _ => Kind::String,
    }
}

/// See [`Value::encoding_name`].
fn encoding_of_bytes(len: usize) -> &'static str {
    if len > EMBEDDED_LEN_MAX { "raw" } else { "embstr" }
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

impl<'a> From<record::value::Value<'a>> for StringValue<'a> {
    #[inline]
    fn from(value: record::value::Value<'a>) -> Self {
        match value {
            record::value::Value::Bytes(bytes) => StringValue::Bytes(bytes),
            typed => typed.integer().map_or(StringValue::Typed(typed), StringValue::Integer),
        }
    }
}

impl StringValue<'_> {
    /// Length of the bytes that a client sees.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            StringValue::Bytes(bytes) => bytes.len(),
            StringValue::Integer(n) => decimal::text_len(*n),
            StringValue::Compressed(text) => text.len(),
            StringValue::Typed(value) => value.text_bytes(),
        }
    }

    /// Copies the bytes that a client sees.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            StringValue::Bytes(bytes) => bytes.to_vec(),
            StringValue::Integer(n) => wire::number::i64_text(*n).to_vec(),
            StringValue::Compressed(text) => text.to_vec(),
            StringValue::Typed(value) => value.text(&mut TextBuffer::default()).to_vec(),
        }
    }

    /// Compares the bytes that clients see.
    pub fn compare(&self, other: &StringValue<'_>) -> Ordering {
        match (self, other) {
            (StringValue::Bytes(a), StringValue::Bytes(b)) => a.cmp(b),
            (StringValue::Integer(a), StringValue::Integer(b)) => decimal::compare_texts(*a, *b),
            _ => self.with_bytes(|a| other.with_bytes(|b| a.cmp(b))),
        }
    }

    /// Passes the bytes that a client sees to `work`, without a copy on the heap.
    #[inline]
    pub fn with_bytes<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StringValue::Bytes(bytes) => work(bytes),
            StringValue::Integer(n) => work(&wire::number::i64_text(*n)),
            StringValue::Compressed(text) => text.with_bytes(work),
            StringValue::Typed(value) => work(value.text(&mut TextBuffer::default())),
        }
    }

    /// Whether a reply should refer to it instead of copying it.
    #[inline]
    pub fn is_worth_a_reference(&self) -> bool {
        matches!(self, StringValue::Bytes(bytes) if bytes.len() >= REFERRED_LEN_MIN)
    }

    /// Whether a client sees these bytes.
    pub fn equals(&self, other: &[u8]) -> bool {
        self.with_bytes(|bytes| bytes == other)
    }

    /// Its integer value, if it reads as one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            StringValue::Bytes(bytes) => wire::number::parse_i64(bytes),
            StringValue::Integer(n) => Some(*n),
            // Longer than any number.
            StringValue::Compressed(_) => None,
            StringValue::Typed(value) => value.integer(),
        }
    }

    /// Writes it as a bulk string.
    #[inline]
    pub fn reply(&self, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            StringValue::Bytes(bytes) => reply.bulk(bytes),
            StringValue::Integer(n) => reply.bulk_integer(*n),
            StringValue::Compressed(text) => reply.bulk_filled(text.len(), |into| text.write(into)),
            StringValue::Typed(record::value::Value::Uuid { bytes, is_upper }) => {
                reply.bulk(&record::value::uuid_text(bytes, *is_upper));
            }
            StringValue::Typed(value) => reply.bulk(value.text(&mut TextBuffer::default())),
        }
    }
}
