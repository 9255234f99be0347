//! Values in RDB files and DUMP payloads: each type's module writes its encodings as they lie in memory where the format
//! has the same, and reads every encoding written by servers up to Valkey 9.1 and Redis 8.8.
//!
//! No input is trusted: a compact encoding is checked to the last byte before it is kept, and one with a duplicate
//! element is refused.

pub mod batch;

use super::access::{GivenAccess, NewKey};
use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::embedded::embedded;
use super::object::{Kind, Object, StringValue, Value, by_embedded, by_type};
use super::stream::MESSAGES;
use super::strings::bytes_value;
use super::value_type::ValueType;
use super::{Db, Key};
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use structures::hash::HashSeed;
use structures::key_table::{NewValue, Value as Stored};
use structures::listpack::Listpack;
use structures::random::Random;
use structures::record::shape::Shapes;
use wire::convert::usize_of;
use wire::rdb::{ReadError, Reader, StringRef, Writer, kind, module, opcode};
use wire::{ziplist, zipmap};

/// Result of reading a value.
#[derive(Debug)]
pub enum ReadValue {
    /// A string that is the decimal form of this integer.
    Integer(i64),
    /// A string short enough for the key's entry.
    Bytes(Vec<u8>),
    /// A value outside the entry.
    Object(Object),
    /// A collection without elements, as some old servers have written: the key does not exist.
    Empty,
    /// All fields of a hash were expired.
    AllExpired,
}

impl ReadValue {
    /// From a collection that was read; an empty one is `Empty`, unless its type stays empty.
    pub(super) fn of(collection: impl Collection) -> Self {
        if collection.is_empty() { ReadValue::Empty } else { ReadValue::Object(collection.into_object()) }
    }

    /// The value's type; `None` if the key does not exist.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            ReadValue::Integer(_) | ReadValue::Bytes(_) => Some(Kind::String),
            ReadValue::Object(object) => Some(object.kind()),
            ReadValue::Empty | ReadValue::AllExpired => None,
        }
    }
}

/// Receives a field: its name and its content.
pub type AsideSink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Reading and writing values of a type in files.
pub trait RdbType: Sized {
    /// The types of values that it reads: its current one, and those of older servers.
    const RDB_KINDS: &'static [u8];

    /// The type of value that it is written as.
    fn rdb_kind(&self) -> u8;

    /// Writes the value without its type.
    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()>;

    /// Passes data that the form has no place for to `sink`. It follows the value, in fields that other servers skip.
    fn write_asides(&self, _sink: &mut AsideSink<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Reads the value after `kind`, which is one of [`RdbType::RDB_KINDS`].
    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue>;
}

/// The type that reads each type of value in files.
const READERS: [Option<Kind>; 256] = {
    let mut readers = [None; 256];
    let mut types = Kind::ALL;
    while let [type_of, other_types @ ..] = types {
        let mut kinds = type_of.rdb_kinds();
        while let [kind, other_kinds @ ..] = kinds {
            assert!(readers[*kind as usize].is_none(), "two types claim the same values");
            readers[*kind as usize] = Some(*type_of);
            kinds = other_kinds;
        }
        types = other_types;
    }
    readers
};

/// Settings for reading values.
pub struct ReadContext<'a> {
    /// Limits of encodings for the key.
    pub limits: &'a EncodingLimits,
    /// Seed of the elements' hashes.
    pub seed: HashSeed,
    /// Source of random numbers.
    pub random: &'a mut Random,
    /// Time of the load, in milliseconds since the epoch.
    pub now_ms: i64,
    /// Fields that expire before this are dropped, if set.
    pub fields_expired_before_ms: Option<i64>,
    /// Records get the shapes of the databases when they are stored.
    pub(super) no_shapes: Shapes,
}

impl ReadContext<'_> {
    pub(super) fn context(&mut self) -> CollectionContext<'_> {
        CollectionContext {
            limits: self.limits,
            seed: self.seed,
            random: self.random,
            now_ms: 0,
            expired_fields: None,
            shapes: &self.no_shapes,
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// The error for corrupt data, with the reason.
pub(super) fn corrupt<T>(what: &'static str) -> Result<T> {
    Err(ReadError::Corrupt(what))
}

/// The error for valid data that is not supported, with its name.
pub(super) fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(ReadError::Unsupported(what.into()))
}

pub(super) fn write_text<W: Write>(writer: &mut Writer<W>, text: StringValue<'_>) -> io::Result<()> {
    match text {
        StringValue::Bytes(bytes) => writer.string(bytes),
        StringValue::Integer(n) => writer.integer(n),
        StringValue::Compressed(_) | StringValue::Typed(_) => text.with_bytes(|bytes| writer.string(bytes)),
    }
}

/// Calls `write` for each visited element, and keeps the first error.
pub(super) struct FirstError(pub io::Result<()>);

impl FirstError {
    /// No error yet.
    pub fn new() -> Self {
        FirstError(Ok(()))
    }

    /// Calls `write` unless an earlier call has failed.
    pub fn then(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.0.is_ok() {
            self.0 = write();
        }
    }
}

/// The type of value that a value is written as.
pub fn kind_of(value: &Value<'_>) -> u8 {
    match value.entry().value() {
        Stored::Object(object) => by_type!(object, value => value.rdb_kind()),
        Stored::Embedded(bytes) => by_embedded!(bytes, Type => Type::EMBEDDED_RDB_KIND),
        _ => kind::STRING,
    }
}

/// Attributes of a key in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedKey {
    /// Time of expiry in milliseconds since the epoch; `None`: it does not expire.
    pub expiry_ms: Option<i64>,
    /// Access time or frequency.
    pub access: GivenAccess,
    /// An existing key is replaced.
    pub replaces: bool,
}

/// Result of loading a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The key was stored.
    Stored,
    /// The key exists already, and was kept.
    Duplicate,
    /// See [`ReadValue::Empty`].
    Empty,
    /// See [`ReadValue::AllExpired`].
    AllExpired,
}

impl Db {
    /// Stores a string read from a file in the selected database. Records no event.
    pub fn load_string(&mut self, key: Key<'_>, value: &StringRef<'_>, about: LoadedKey) -> Loaded {
        match value {
            StringRef::Integer(n) => self.load(key, NewValue::Integer(*n), about),
            StringRef::Bytes(bytes) => match wire::number::parse_i64(bytes) {
                Some(n) => self.load(key, NewValue::Integer(n), about),
                None => self.load_bytes(key, bytes, about),
            },
        }
    }

    /// Prepares a database for loading `keys` keys, which saves growing if it is empty. Allocates at once: callers limit
    /// untrusted numbers.
    pub fn expect_keys(&mut self, db_index: usize, keys: usize) {
        self.with_database(db_index, |db| db.selected_database_mut().reserve(keys));
    }

    /// Reads the value after its type, in the encoding for that key.
    pub fn read_value<R: Read>(
        &mut self,
        key: &[u8],
        reader: &mut Reader<R>,
        kind: u8,
        fields_expired_before_ms: Option<i64>,
    ) -> Result<ReadValue> {
        let mut context = ReadContext {
            limits: &self.policies.of_key(key).limits,
            seed: self.seed,
            random: &mut self.random,
            now_ms: self.turn.now_ms,
            fields_expired_before_ms,
            no_shapes: Shapes::default(),
        };
        read_value(reader, kind, &mut context)
    }

    /// Reads the fields after a value in a payload; other content is skipped.
    pub fn read_asides<R: Read>(&self, reader: &mut Reader<R>, value: &mut ReadValue) -> Result<()> {
        while !reader.is_at_end()? && reader.byte()? == opcode::AUX {
            let name = reader.string()?.to_vec();
            let content = reader.string()?.to_vec();
            if name == MESSAGES.as_bytes() {
                value.read_messages(&content, self.turn.now_ms, self.seed)?;
            }
        }
        Ok(())
    }

    /// Stores a value sent by a client in the selected database. Records no event.
    pub fn restore_read(&mut self, key: Key<'_>, value: ReadValue, about: LoadedKey) -> Loaded {
        let loaded = self.load_read(key, value, about);
        if loaded == Loaded::Stored {
            self.note_given_expiry(key, about.expiry_ms);
        }
        loaded
    }

    /// Stores a value read from a file in the selected database. Records no event.
    pub fn load_read(&mut self, key: Key<'_>, value: ReadValue, about: LoadedKey) -> Loaded {
        match value {
            ReadValue::Integer(n) => self.load(key, NewValue::Integer(n), about),
            ReadValue::Bytes(bytes) => self.load_bytes(key, &bytes, about),
            ReadValue::Object(object) => self.load(key, NewValue::Object(object), about),
            ReadValue::Empty => Loaded::Empty,
            ReadValue::AllExpired => Loaded::AllExpired,
        }
    }

    fn load_bytes(&mut self, key: Key<'_>, bytes: &[u8], about: LoadedKey) -> Loaded {
        self.load(key, bytes_value(key.bytes(), bytes, about.expiry_ms), about)
    }

    #[inline]
    fn load(&mut self, key: Key<'_>, value: NewValue<'_, Object>, about: LoadedKey) -> Loaded {
        if about.replaces {
            self.remove_stored(key, false);
        } else if self.selected_database().contains(key) {
            return Loaded::Duplicate;
        }
        let mut buffer = Vec::new();
        let value = self.compressed(key.bytes(), value, about.expiry_ms.is_some(), &mut buffer);
        let mut kept = None;
        let value = embedded(value, &mut kept, &mut self.interned);
        let object = if let NewValue::Object(object) = &value { Some(object) } else { None };
        let fields_expire_ms = object.and_then(|object| self.note_put_size(key, object));
        let new =
            NewKey { hash: key.hash(), db_index: self.turn.database, expires: about.expiry_ms.is_some() };
        let access = self.access.restored(new, about.access, self.turn.now_ms);
        self.selected_database_mut().put_new(key, value, about.expiry_ms, access);
        self.take_back(buffer);
        self.fields_moved(key, None, fields_expire_ms);
        Loaded::Stored
    }
}

/// Writes a value, without its type.
pub fn write_value<W: Write>(writer: &mut Writer<W>, value: &Value<'_>) -> io::Result<()> {
    match value.text() {
        Some(text) => write_text(writer, text),
        None => {
            value.with_object(|object| by_type!(object, value => value.write_rdb(writer))).unwrap_or(Ok(()))
        }
    }
}

/// Writes the fields after a value: see [`RdbType::write_asides`].
pub fn write_asides<W: Write>(writer: &mut Writer<W>, value: &Value<'_>) -> io::Result<()> {
    // Embedded values have none.
    let Stored::Object(object) = value.entry().value() else { return Ok(()) };
    let mut sink = |name: &str, content: &[u8]| {
        writer.byte(opcode::AUX)?;
        writer.string(name.as_bytes())?;
        writer.string(content)
    };
    by_type!(object, value => value.write_asides(&mut sink))
}

/// Reads the value after its type.
pub fn read_value<R: Read>(
    reader: &mut Reader<R>,
    kind: u8,
    context: &mut ReadContext<'_>,
) -> Result<ReadValue> {
    match READERS[usize::from(kind)] {
        Some(type_of) => type_of.read_rdb(reader, kind, context),
        None => refuse(reader, kind),
    }
}

/// Returns the error for a type that is not read.
#[cold]
fn refuse<R: Read>(reader: &mut Reader<R>, kind: u8) -> Result<ReadValue> {
    match kind {
        kind::MODULE_PRE_GA => corrupt("Pre-release module format not supported"),
        kind::MODULE_2 => {
            let name = module::type_name(reader.length()?);
            let what =
                format!("The RDB file contains module data I can't load: no matching module type '{name}'");
            Err(ReadError::Unsupported(what.into()))
        }
        _ if kind & kind::REDIS != 0 => unsupported("values of this type exist in Redis only"),
        _ => corrupt("Unknown RDB encoding type"),
    }
}

/// Validates a compact list of records of `width` elements whose first elements, fields or members, are unique.
pub(super) fn unique_listpack(bytes: &[u8], width: usize, what: &'static str) -> Result<Listpack> {
    let Ok(list) = Listpack::validate(bytes) else { return corrupt(what) };
    if !list.len().is_multiple_of(width) || !is_unique(list.iter().step_by(width).map(StringValue::from)) {
        return corrupt(what);
    }
    Ok(list)
}

/// The elements of an old compact list as a new one; see [`unique_listpack`].
pub(super) fn unique_ziplist(bytes: &[u8], width: usize, what: &'static str) -> Result<Listpack> {
    let list = ziplist_elements(bytes, what)?;
    if !list.len().is_multiple_of(width) || !is_unique(list.iter().step_by(width).map(StringValue::from)) {
        return corrupt(what);
    }
    Ok(list)
}

pub(super) fn ziplist_elements(bytes: &[u8], what: &'static str) -> Result<Listpack> {
    let Ok(elements) = ziplist::parse(bytes) else { return corrupt(what) };
    let mut list = Listpack::new();
    if !list.fits(bytes.len(), elements.len()) {
        return corrupt(what);
    }
    for element in elements {
        match element {
            ziplist::Element::Integer(n) => list.push_back_integer(n),
            ziplist::Element::Bytes(bytes) => list.push_back(bytes),
        }
    }
    Ok(list)
}

/// The fields and values of the oldest compact hash, as a compact list.
pub(super) fn zipmap_elements(bytes: &[u8]) -> Result<Listpack> {
    let Ok(pairs) = zipmap::parse(bytes) else { return corrupt("Zipmap integrity check failed.") };
    let mut list = Listpack::new();
    if !list.fits(bytes.len(), 2 * pairs.len())
        || !is_unique(pairs.iter().map(|(field, _)| StringValue::Bytes(field)))
    {
        return corrupt("Hash zipmap with dup elements, or big length");
    }
    for (field, value) in pairs {
        list.push_back(field);
        list.push_back(value);
    }
    Ok(list)
}

/// Lists up to this length are searched for duplicates by comparing all pairs.
const COMPARED_MAX: usize = 8;

fn is_unique<'a>(texts: impl Iterator<Item = StringValue<'a>>) -> bool {
    let texts: Vec<StringValue<'a>> = texts.collect();
    if texts.len() <= COMPARED_MAX {
        return (1..texts.len()).all(|at| texts[..at].iter().all(|other| !same(*other, texts[at])));
    }
    // Open addressing by hash; there are at least twice as many slots as texts.
    let hasher = foldhash::fast::RandomState::default();
    let places_mask = (texts.len() * 2).next_power_of_two() - 1;
    let mut places: Vec<Option<StringValue<'a>>> = vec![None; places_mask + 1];
    texts.iter().all(|text| {
        let mut at = usize_of(hash(&hasher, *text)) & places_mask;
        while let Some(other) = places[at] {
            if same(other, *text) {
                return false;
            }
            at = (at + 1) & places_mask;
        }
        places[at] = Some(*text);
        true
    })
}

/// Equal for equal texts, whether or not one is stored as the integer that it spells: an integer's digits need not be
/// written out to hash it.
fn hash(hasher: &impl BuildHasher, text: StringValue<'_>) -> u64 {
    if let StringValue::Integer(value) = text {
        return hasher.hash_one(value);
    }
    text.with_bytes(|bytes| match wire::number::parse_i64(bytes) {
        Some(value) => hasher.hash_one(value),
        None => hasher.hash_one(bytes),
    })
}

fn same(a: StringValue<'_>, b: StringValue<'_>) -> bool {
    match (a, b) {
        (StringValue::Integer(a), StringValue::Integer(b)) => a == b,
        _ => a.with_bytes(|bytes| b.equals(bytes)),
    }
}

#[cfg(test)]
mod tests;
