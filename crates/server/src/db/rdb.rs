//! Values as RDB files and DUMP payloads hold them: each type's module writes its encodings as they lie in memory
//! where the format has the same, and reads every encoding that servers up to Valkey 9.1 and Redis 7.2 have written.
//!
//! Nothing read is trusted: a compact encoding is checked to the last byte before it is kept, and what holds an element
//! twice is refused.

pub mod batch;

use super::Db;
use super::collection::{CollectionContext, EncodingLimits};
use super::field_expiry::earliest_expiry_ms;
use super::hash::Hash;
use super::list::List;
use super::object::{Object, StringValue, Value};
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use std::collections::HashSet;
use std::io::{self, Read, Write};
use structures::hash::HashSeed;
use structures::key_table::{NewValue, Value as Stored};
use structures::listpack::Listpack;
use structures::random::Random;
use wire::rdb::{ReadError, Reader, StringRef, Writer, kind};
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

/// How values are read.
pub struct ReadContext<'a> {
    pub limits: &'a EncodingLimits,
    pub seed: HashSeed,
    pub random: &'a mut Random,
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

pub(super) fn write_text<W: Write>(writer: &mut Writer<W>, text: StringValue<'_>) -> io::Result<()> {
    match text {
        StringValue::Bytes(bytes) => writer.string(bytes),
        StringValue::Integer(n) => writer.integer(n),
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
        Stored::Inline(_) | Stored::Integer(_) | Stored::Object(Object::String(_)) => kind::STRING,
        Stored::Object(Object::Hash(hash)) => hash.rdb_kind(),
        Stored::Object(Object::Set(set)) => set.rdb_kind(),
        Stored::Object(Object::SortedSet(set)) => set.rdb_kind(),
        Stored::Object(Object::List(_)) => kind::LIST_QUICKLIST_2,
        Stored::Object(Object::Stream(_)) => kind::STREAM_LISTPACKS_3,
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
    /// Fields that expire before this are left out, if given.
    pub fields_expired_before_ms: Option<i64>,
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
    /// Reads the value that follows its type, and puts it into the selected database. Says nothing.
    pub fn load_value<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        kind: u8,
        key: &[u8],
        about: LoadedKey,
    ) -> Result<Loaded> {
        let value = self.read_value(reader, kind, about.fields_expired_before_ms)?;
        Ok(match value {
            ReadValue::Empty => Loaded::Empty,
            ReadValue::AllExpired => Loaded::AllExpired,
            value => self.load_read(key, value, about),
        })
    }

    /// Puts a string that was read into the selected database. Says nothing.
    pub fn load_string(&mut self, key: &[u8], value: &StringRef<'_>, about: LoadedKey) -> Loaded {
        match value {
            StringRef::Integer(n) => self.load(key, NewValue::Integer(*n), about),
            StringRef::Bytes(bytes) => match wire::number::parse_i64(bytes) {
                Some(n) => self.load(key, NewValue::Integer(n), about),
                None => self.load(key, super::strings::bytes_value(bytes), about),
            },
        }
    }

    /// So many keys are about to be loaded into a database, which saves growing if it is empty. Takes memory at once:
    /// a caller bounds what it trusts.
    pub fn expect_keys(&mut self, db_index: usize, keys: usize) {
        self.with_database(db_index, |db| db.selected_database_mut().reserve(keys));
    }

    /// Reads the value that follows its type.
    pub fn read_value<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        kind: u8,
        fields_expired_before_ms: Option<i64>,
    ) -> Result<ReadValue> {
        let mut context = ReadContext {
            limits: &self.limits,
            seed: self.seed,
            random: &mut self.random,
            fields_expired_before_ms,
        };
        read_value(reader, kind, &mut context)
    }

    /// Puts a value that was read into the selected database. Says nothing.
    pub fn load_read(&mut self, key: &[u8], value: ReadValue, about: LoadedKey) -> Loaded {
        match value {
            ReadValue::Integer(n) => self.load(key, NewValue::Integer(n), about),
            ReadValue::Bytes(bytes) => self.load(key, NewValue::Inline(&bytes), about),
            ReadValue::Object(object) => self.load(key, NewValue::Object(object), about),
            ReadValue::Empty => Loaded::Empty,
            ReadValue::AllExpired => Loaded::AllExpired,
        }
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
        let fields_expire_ms = match &value {
            NewValue::Object(object) => earliest_expiry_ms(Some(object)),
            NewValue::Inline(_) | NewValue::Integer(_) => None,
        };
        let access = about.access.unwrap_or_else(|| self.access.initial(self.now_ms));
        self.selected_database_mut().put_new(hash, key, value, about.expiry_ms, access);
        self.fields_moved(key, None, fields_expire_ms);
        Loaded::Stored
    }
}

/// Writes a value, without its type.
pub fn write_value<W: Write>(writer: &mut Writer<W>, value: &Value<'_>) -> io::Result<()> {
    match value.entry().value() {
        Stored::Inline(bytes) => writer.string(bytes),
        Stored::Integer(n) => writer.integer(n),
        Stored::Object(Object::String(text)) => writer.string(text),
        Stored::Object(Object::Hash(hash)) => hash.write_rdb(writer),
        Stored::Object(Object::Set(set)) => set.write_rdb(writer),
        Stored::Object(Object::SortedSet(set)) => set.write_rdb(writer),
        Stored::Object(Object::List(list)) => list.write_rdb(writer),
        Stored::Object(Object::Stream(stream)) => stream.write_rdb(writer),
    }
}

/// Reads the value that follows its type.
pub fn read_value<R: Read>(
    reader: &mut Reader<R>,
    kind: u8,
    context: &mut ReadContext<'_>,
) -> Result<ReadValue> {
    let object = match kind {
        kind::STRING => return read_string(reader),
        kind::HASH | kind::HASH_2 | kind::HASH_LISTPACK | kind::HASH_ZIPLIST | kind::HASH_ZIPMAP => {
            match Hash::read_rdb(reader, kind, context)? {
                Some(hash) => Object::Hash(hash),
                None if kind == kind::HASH_2 => return Ok(ReadValue::AllExpired),
                None => return Ok(ReadValue::Empty),
            }
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => {
            Object::Set(Set::read_rdb(reader, kind, context)?)
        }
        kind::ZSET | kind::ZSET_2 | kind::ZSET_LISTPACK | kind::ZSET_ZIPLIST => {
            Object::SortedSet(SortedSet::read_rdb(reader, kind, context)?)
        }
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            Object::List(List::read_rdb(reader, kind, context)?)
        }
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
            return Ok(ReadValue::Object(Object::Stream(Stream::read_rdb(reader, kind)?)));
        }
        kind::MODULE_PRE_GA => return corrupt("Pre-release module format not supported"),
        kind::MODULE_2 => return corrupt("The RDB file contains module data I can't load"),
        _ => return corrupt("Unknown RDB encoding type"),
    };
    Ok(if object.elements() == Some(0) { ReadValue::Empty } else { ReadValue::Object(object) })
}

fn read_string<R: Read>(reader: &mut Reader<R>) -> Result<ReadValue> {
    Ok(match reader.string()? {
        StringRef::Integer(n) => ReadValue::Integer(n),
        StringRef::Bytes(bytes) => match wire::number::parse_i64(bytes) {
            Some(n) => ReadValue::Integer(n),
            None if bytes.len() <= super::strings::INLINE_LEN_MAX => ReadValue::Bytes(bytes.to_vec()),
            None => ReadValue::Object(Object::text(bytes.to_vec())),
        },
    })
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
    let mut seen = HashSet::with_capacity_and_hasher(texts.len(), foldhash::fast::RandomState::default());
    texts.iter().all(|text| seen.insert(text.to_vec()))
}

fn same(a: StringValue<'_>, b: StringValue<'_>) -> bool {
    a.with_bytes(|bytes| b.equals(bytes))
}

#[cfg(test)]
mod tests;
