//! Values as RDB files and DUMP payloads hold them: each type's module writes its encodings as they lie in memory
//! where the format has the same, and reads every encoding that servers up to Valkey 9.1 and Redis 8.8 have written.
//!
//! Nothing read is trusted: a compact encoding is checked to the last byte before it is kept, and what holds an element
//! twice is refused.

pub mod batch;

use super::Db;
use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::embedded::embedded;
use super::field_expiry::first_expiry;
use super::object::{EMBEDDED_RDB_KIND, Kind, Object, StringValue, Value, by_type};
use super::stream::MESSAGES;
use super::strings::bytes_value;
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use structures::hash::HashSeed;
use structures::key_table::{NewValue, Value as Stored};
use structures::listpack::Listpack;
use structures::random::Random;
use wire::rdb::{ReadError, Reader, StringRef, Writer, kind, module, opcode};
use wire::{ziplist, zipmap};

/// What became of a value that was read.
#[derive(Debug)]
pub enum ReadValue {
    Integer(i64),
    /// Short enough for the key's entry.
    Bytes(Vec<u8>),
    Object(Object),
    /// A collection without elements, as some old servers have written: there is no such key.
    Empty,
    /// All fields of a hash were expired.
    AllExpired,
}

impl ReadValue {
    /// A collection that was read; one without elements is none, unless its type stays so.
    pub(super) fn of(collection: impl Collection) -> Self {
        if collection.is_empty() { ReadValue::Empty } else { ReadValue::Object(collection.into_object()) }
    }

    /// `None` if there is no such key.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            ReadValue::Integer(_) | ReadValue::Bytes(_) => Some(Kind::String),
            ReadValue::Object(object) => Some(object.kind()),
            ReadValue::Empty | ReadValue::AllExpired => None,
        }
    }
}

/// Takes a field: its name and its content.
pub type AsideSink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// How the values of a type stand in files.
pub trait RdbType: Sized {
    /// What it is written as, and was by older servers: the types of values that it reads.
    const RDB_KINDS: &'static [u8];

    /// What it is written as now.
    fn rdb_kind(&self) -> u8;

    /// Writes it, without what it is written as.
    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()>;

    /// Hands over what its form has no place for. It stands behind the value, in fields that other servers pass over.
    fn write_asides(&self, _sink: &mut AsideSink<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Reads what follows `kind`, which is one of [`RdbType::RDB_KINDS`].
    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue>;
}

/// Who reads each type of value in files.
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

/// How values are read.
pub struct ReadContext<'a> {
    pub limits: &'a EncodingLimits,
    pub seed: HashSeed,
    pub random: &'a mut Random,
    pub now_ms: i64,
    /// Fields that expire before this are left out, if given.
    pub fields_expired_before_ms: Option<i64>,
}

impl ReadContext<'_> {
    pub(super) fn context(&mut self) -> CollectionContext<'_> {
        CollectionContext {
            limits: self.limits,
            seed: self.seed,
            random: self.random,
            now_ms: 0,
            expired_fields: None,
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// Refuses what is read, with the reason.
pub(super) fn corrupt<T>(what: &'static str) -> Result<T> {
    Err(ReadError::Corrupt(what))
}

/// Refuses what is sound and has no place here, with what it is.
pub(super) fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(ReadError::Unsupported(what.into()))
}

pub(super) fn write_text<W: Write>(writer: &mut Writer<W>, text: StringValue<'_>) -> io::Result<()> {
    match text {
        StringValue::Bytes(bytes) => writer.string(bytes),
        StringValue::Integer(n) => writer.integer(n),
        StringValue::Compressed(text) => text.with_bytes(|bytes| writer.string(bytes)),
    }
}

/// Calls `write` for all that `visit` walks, and keeps the first error.
pub(super) struct FirstError(pub io::Result<()>);

impl FirstError {
    pub fn new() -> Self {
        FirstError(Ok(()))
    }

    pub fn then(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.0.is_ok() {
            self.0 = write();
        }
    }
}

/// The type of a value in files.
pub fn kind_of(value: &Value<'_>) -> u8 {
    match value.entry().value() {
        Stored::Object(object) => by_type!(object, value => value.rdb_kind()),
        Stored::Embedded(_) => EMBEDDED_RDB_KIND,
        _ => kind::STRING,
    }
}

/// What stands in a file beside a key's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedKey {
    pub expiry_ms: Option<i64>,
    /// See [`super::access`]; `None`: as if it were new.
    pub access: Option<u32>,
    /// A key that is there already gives way.
    pub replaces: bool,
}

/// What became of a key that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    Stored,
    /// There is such a key already, and it has stayed.
    Duplicate,
    /// See [`ReadValue::Empty`].
    Empty,
    /// See [`ReadValue::AllExpired`].
    AllExpired,
}

impl Db {
    /// Puts a string that was read into the selected database. Says nothing.
    pub fn load_string(&mut self, key: &[u8], value: &StringRef<'_>, about: LoadedKey) -> Loaded {
        match value {
            StringRef::Integer(n) => self.load(key, NewValue::Integer(*n), about),
            StringRef::Bytes(bytes) => match wire::number::parse_i64(bytes) {
                Some(n) => self.load(key, NewValue::Integer(n), about),
                None => self.load_bytes(key, bytes, about),
            },
        }
    }

    /// So many keys are about to be loaded into a database, which saves growing if it is empty. Takes memory at once:
    /// a caller bounds what it trusts.
    pub fn expect_keys(&mut self, db_index: usize, keys: usize) {
        self.with_database(db_index, |db| db.selected_database_mut().reserve(keys));
    }

    /// Reads the value that follows its type, as one at that key is kept.
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
        };
        read_value(reader, kind, &mut context)
    }

    /// Reads the fields that stand behind a value in a payload; what is no field is passed over.
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

    /// Puts a value that a client has brought into the selected database. Says nothing.
    pub fn restore_read(&mut self, key: &[u8], value: ReadValue, about: LoadedKey) -> Loaded {
        let loaded = self.load_read(key, value, about);
        if loaded == Loaded::Stored {
            self.note_given_expiry(key, about.expiry_ms);
        }
        loaded
    }

    /// Puts a value that was read into the selected database. Says nothing.
    pub fn load_read(&mut self, key: &[u8], value: ReadValue, about: LoadedKey) -> Loaded {
        match value {
            ReadValue::Integer(n) => self.load(key, NewValue::Integer(n), about),
            ReadValue::Bytes(bytes) => self.load_bytes(key, &bytes, about),
            ReadValue::Object(object) => self.load(key, NewValue::Object(object), about),
            ReadValue::Empty => Loaded::Empty,
            ReadValue::AllExpired => Loaded::AllExpired,
        }
    }

    fn load_bytes(&mut self, key: &[u8], bytes: &[u8], about: LoadedKey) -> Loaded {
        self.load(key, bytes_value(key, bytes, about.expiry_ms), about)
    }

    fn load(&mut self, key: &[u8], value: NewValue<'_, Object>, about: LoadedKey) -> Loaded {
        let hash = self.key_hash(key);
        self.load_hashed(hash, key, value, about)
    }

    #[inline]
    fn load_hashed(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_, Object>,
        about: LoadedKey,
    ) -> Loaded {
        if about.replaces {
            self.remove_hashed(hash, key, false);
        } else if self.selected_database().contains(hash, key) {
            return Loaded::Duplicate;
        }
        let mut buffer = Vec::new();
        let value = self.compressed(key, value, about.expiry_ms.is_some(), &mut buffer);
        let mut kept = None;
        let value = embedded(value, &mut kept);
        let fields_expire_ms = match &value {
            NewValue::Object(object) => {
                let (kind, bytes) = (object.kind(), object.memory_bytes());
                self.selected_database_mut().note_size(hash, key, kind, bytes);
                first_expiry(Some(object))
            }
            _ => None,
        };
        let access = about.access.unwrap_or_else(|| self.access.initial(self.turn.now_ms));
        self.selected_database_mut().put_new(hash, key, value, about.expiry_ms, access);
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

/// Writes the fields that stand behind a value: see [`RdbType::write_asides`].
pub fn write_asides<W: Write>(writer: &mut Writer<W>, value: &Value<'_>) -> io::Result<()> {
    // What is embedded has none.
    let Stored::Object(object) = value.entry().value() else { return Ok(()) };
    let mut sink = |name: &str, content: &[u8]| {
        writer.byte(opcode::AUX)?;
        writer.string(name.as_bytes())?;
        writer.string(content)
    };
    by_type!(object, value => value.write_asides(&mut sink))
}

/// Reads the value that follows its type.
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

/// Says what it is that nobody reads.
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

/// A compact list of `width` elements each of which the first is unlike all others: fields or members.
pub(super) fn unique_listpack(bytes: &[u8], width: usize, what: &'static str) -> Result<Listpack> {
    let Ok(list) = Listpack::validate(bytes) else { return corrupt(what) };
    if !list.len().is_multiple_of(width) || !is_unique(list.iter().step_by(width).map(StringValue::from)) {
        return corrupt(what);
    }
    Ok(list)
}

/// The elements of an old compact list, as a new one; see [`unique_listpack`].
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

/// Lists up to this long are searched for doubles by comparing all with all.
const COMPARED_MAX: usize = 8;

fn is_unique<'a>(texts: impl Iterator<Item = StringValue<'a>>) -> bool {
    let texts: Vec<StringValue<'a>> = texts.collect();
    if texts.len() <= COMPARED_MAX {
        return (1..texts.len()).all(|at| texts[..at].iter().all(|other| !same(*other, texts[at])));
    }
    // Each is found by its hash from the place on that the hash gives; places are twice as many as texts, at least.
    let hasher = foldhash::fast::RandomState::default();
    let places_mask = (texts.len() * 2).next_power_of_two() - 1;
    let mut places: Vec<Option<StringValue<'a>>> = vec![None; places_mask + 1];
    texts.iter().all(|text| {
        let mut at = hash(&hasher, *text) as usize & places_mask;
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

/// Alike for texts that are the same, whether or not one of them is kept as the integer that it spells: an integer's
/// digits need not be written out to hash it.
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
