//! What lists, sets, hashes, sorted sets and streams share as values: they are found at a key, changed in place, and
//! removed when empty.

use super::access::UsedKey;
use super::accounts::Image;
use super::audit::signature;
use super::interned::Interned;
use super::object::embedded_tag;
use super::value_type::ValueType;
use super::{Db, EventClasses, Key, Value};
use crate::error::ClientError;
use structures::hash::HashSeed;
use structures::key_table::{NewValue, Value as Stored};
use structures::random::Random;
use structures::record::shape::Shapes;
use structures::stream::MessageLimits;

/// Limits up to which collections are kept as compact lists; copied from the configuration, and from rules for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// The option `hash-max-listpack-entries`.
    pub hash_listpack_entries_max: usize,
    /// The option `hash-max-listpack-value`, in bytes.
    pub hash_listpack_value_bytes_max: usize,
    /// The option `list-max-listpack-size`: elements if positive, otherwise a class of sizes.
    pub list_listpack_size: i32,
    /// The option `list-compress-depth`.
    pub list_compress_depth: u32,
    /// The option `set-max-intset-entries`.
    pub set_intset_entries_max: usize,
    /// The option `set-max-listpack-entries`.
    pub set_listpack_entries_max: usize,
    /// The option `set-max-listpack-value`, in bytes.
    pub set_listpack_value_bytes_max: usize,
    /// The option `zset-max-listpack-entries`.
    pub sorted_set_listpack_entries_max: usize,
    /// The option `zset-max-listpack-value`, in bytes.
    pub sorted_set_listpack_value_bytes_max: usize,
    /// Large sorted sets are skip lists instead of feature B+ trees.
    pub sorted_set_skip_list: bool,
    /// The option `stream-node-max-bytes`; 0: no limit.
    pub stream_node_bytes_max: usize,
    /// The option `stream-node-max-entries`; 0: no limit.
    pub stream_node_entries_max: u64,
    /// For streams created from now on.
    pub stream_message_limits: MessageLimits,
}

impl EncodingLimits {
    /// The limits of the configuration.
    pub fn of(config: &crate::config::Config) -> Self {
        EncodingLimits {
            hash_listpack_entries_max: config.hash_max_listpack_entries,
            hash_listpack_value_bytes_max: config.hash_max_listpack_value_bytes,
            list_listpack_size: config.list_max_listpack_size,
            list_compress_depth: config.list_compress_depth,
            set_intset_entries_max: config.set_max_intset_entries,
            set_listpack_entries_max: config.set_max_listpack_entries,
            set_listpack_value_bytes_max: config.set_max_listpack_value_bytes,
            sorted_set_listpack_entries_max: config.zset_max_listpack_entries,
            sorted_set_listpack_value_bytes_max: config.zset_max_listpack_value_bytes,
            sorted_set_skip_list: config.zset_index == crate::config::ZsetIndex::Skiplist,
            stream_node_bytes_max: config.stream_node_max_bytes,
            stream_node_entries_max: config.stream_node_max_entries,
            stream_message_limits: MessageLimits {
                kept_s: config.stream_idmp_duration_s,
                messages_max: config.stream_idmp_maxsize,
            },
        }
    }
}

/// A type whose values start empty and are changed in place, and whose empty values are removed, unless the type says
/// otherwise.
pub trait Collection: ValueType + 'static {
    /// A read-only view of a value, embedded or not.
    type View<'a>: Copy;

    /// A view of this value.
    fn view(&self) -> Self::View<'_>;

    /// A view of an embedded value.
    fn view_embedded<'a>(_bytes: &'a [u8], _interned: &'a Interned) -> Option<Self::View<'a>> {
        None
    }

    /// An empty value.
    fn new(limits: &EncodingLimits, seed: HashSeed) -> Self;

    /// Converts a small encoding that has too many elements for its limits, which may have been lowered since the last
    /// write. Element lengths are not checked: that would read all elements. For the same reason a large encoding is not
    /// converted back.
    fn conform(&mut self, _context: &CollectionContext<'_>) {}

    /// Whether its key may be removed.
    #[inline]
    fn is_empty(&self) -> bool {
        !Self::STAYS_EMPTY && self.elements() == Some(0)
    }
}

/// Whether an embedded value is of this type.
#[inline]
fn is_embedded<C: Collection>(bytes: &[u8]) -> bool {
    C::EMBEDDED_TAG == Some(embedded_tag(bytes))
}

/// The [`CollectionContext`] for a key's value, from a `Db` whose other fields may be borrowed.
macro_rules! context {
    ($db:expr, $key:expr) => {
        CollectionContext {
            limits: &$db.policies.of_key($key).limits,
            seed: $db.seed,
            random: &mut $db.random,
            now_ms: $db.turn.now_ms,
            expired_fields: None,
            shapes: &$db.interned.shapes,
        }
    };
}

/// What a change to a collection needs beside the collection.
pub struct CollectionContext<'a> {
    /// Limits of encodings for the key.
    pub limits: &'a EncodingLimits,
    /// Seed of the elements' hashes.
    pub seed: HashSeed,
    /// Source of random numbers.
    pub random: &'a mut Random,
    /// Time of the command, in milliseconds since the epoch.
    pub now_ms: i64,
    /// `None` where fields do not expire, as in a collection being created or loaded.
    pub expired_fields: Option<&'a mut ExpiredFields>,
    /// The shapes of records.
    pub(super) shapes: &'a Shapes,
}

/// What creating a collection needs, apart from the database: for a collection made of others that are borrowed from it.
pub struct Making {
    limits: EncodingLimits,
    seed: HashSeed,
    random: Random,
    now_ms: i64,
    /// A record gets the shape of the databases when it is stored.
    shapes: Shapes,
}

impl Making {
    /// The context for changes to the new collection.
    pub fn context(&mut self) -> CollectionContext<'_> {
        CollectionContext {
            limits: &self.limits,
            seed: self.seed,
            random: &mut self.random,
            now_ms: self.now_ms,
            expired_fields: None,
            shapes: &self.shapes,
        }
    }
}

/// Expired fields that a change has met and removed.
pub struct ExpiredFields {
    /// Fields that expire before this are expired.
    pub before_ms: i64,
    /// The removed fields.
    pub removed: Vec<Vec<u8>>,
    /// One of them was the last field: the key had expired with it, and the current one is new.
    pub emptied: bool,
}

impl Db {
    /// The collection at `key` for a read: counts a hit or miss.
    #[inline]
    pub fn read_collection<C: Collection>(
        &mut self,
        key: Key<'_>,
    ) -> Result<Option<C::View<'_>>, ClientError> {
        match self.read(key) {
            None => Ok(None),
            Some(value) => value.collection::<C>().map(Some).ok_or(ClientError::WrongType),
        }
    }

    /// The collection at `key` for a write that reads it first.
    pub fn read_collection_for_write<C: Collection>(
        &mut self,
        key: Key<'_>,
    ) -> Result<Option<C::View<'_>>, ClientError> {
        match self.read_for_write(key) {
            None => Ok(None),
            Some(value) => value.collection::<C>().map(Some).ok_or(ClientError::WrongType),
        }
    }

    /// As [`Db::read_collection`], for reads that also need randomness.
    pub fn read_collection_with<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        read: impl FnOnce(C::View<'_>, &mut Random) -> R,
    ) -> Result<Option<R>, ClientError> {
        if self.read_collection::<C>(key)?.is_none() {
            return Ok(None);
        }
        let database = self.keyspace.database(self.turn.database);
        let entry = database.get(key).expect("the collection was just read");
        let view = Value::new(entry, &self.interned).collection::<C>().ok_or(ClientError::WrongType)?;
        Ok(Some(read(view, &mut self.random)))
    }

    /// The collections at several keys at once, for commands that combine them.
    pub fn read_collections<'a, 'k, C: Collection + 'a>(
        &'a mut self,
        keys: impl Iterator<Item = Key<'k>> + Clone,
    ) -> Result<Vec<Option<C::View<'a>>>, ClientError> {
        let mut present = Vec::new();
        for key in keys.clone() {
            present.push(self.read_collection::<C>(key)?.is_some());
        }
        let db = &*self;
        Ok(keys
            .zip(present)
            .map(|(key, present)| if present { db.stored_collection::<C>(key) } else { None })
            .collect())
    }

    /// The collection at `key` as it is stored, expired or not: for commands that have read it before.
    pub fn stored_collection<C: Collection>(&self, key: Key<'_>) -> Option<C::View<'_>> {
        self.change_log.audit.check_named(key.bytes());
        self.value_of(self.selected_database().get(key)?).collection::<C>()
    }

    /// Passes the collection at `key`, if it exists, to `change`, which must [record](Db::changed) every change it makes.
    /// If that empties the collection, the key is removed, and recording the change records that too. Counts as a use.
    pub fn change<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C, CollectionContext<'_>) -> R,
    ) -> Result<Option<R>, ClientError> {
        self.change_log.audit.check_named(key.bytes());
        self.change_stored(key, true, change)
    }

    /// As [`Db::change`], for changes not made by a client: not a use.
    pub(super) fn change_unasked<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C, CollectionContext<'_>) -> R,
    ) -> Result<Option<R>, ClientError> {
        self.change_stored(key, false, change)
    }

    /// As [`Db::change`], on a new collection if the key does not exist; one that stays empty is not stored.
    pub fn change_or_create<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C, CollectionContext<'_>) -> R,
    ) -> Result<R, ClientError> {
        self.begin_look_up(key);
        let mut change = Some(change);
        let changed = self.change_stored(key, true, |collection: &mut C, context| {
            change.take().map(|change| change(collection, context))
        })?;
        if let Some(result) = changed.flatten() {
            return Ok(result);
        }
        let change = change.take().expect("`change` has not run on an existing value");
        let mut collection = C::new(&self.policies.of_key(key.bytes()).limits, self.seed);
        let result = change(&mut collection, context!(self, key.bytes()));
        if !collection.is_empty() {
            self.put(key, NewValue::Object(collection.into_object()), None);
        }
        Ok(result)
    }

    /// Finds the key, removes it if it is expired, and reaches the collection, with one look-up.
    #[inline]
    fn change_stored<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        is_use: bool,
        change: impl FnOnce(&mut C, CollectionContext<'_>) -> R,
    ) -> Result<Option<R>, ClientError> {
        let hidden = self.hiding();
        let mut expired_fields =
            ExpiredFields { before_ms: self.fields_at_ms(), removed: Vec::new(), emptied: false };
        let database = self.keyspace.database_mut(self.turn.database);
        let is_accounted = database.are_accounts_kept();
        let Some(mut entry) = database.get_mut(key) else { return Ok(None) };
        if hidden(entry.as_ref().expiry_ms()) {
            self.remove_if_expired(key);
            return Ok(None);
        }
        if is_use && !self.turn.no_touch {
            self.access.touch(UsedKey::new(key), &mut entry, self.turn.now_ms, &mut self.random);
        }
        let image = is_accounted.then(|| Image::of(entry.as_ref()));
        let embedded = match entry.as_ref().value() {
            Stored::Embedded(bytes) if is_embedded::<C>(bytes) => Some(bytes),
            _ => None,
        };
        let is_taken_out = embedded.is_some();
        let object = match embedded {
            Some(bytes) => self.taken_out.take_out::<C>(bytes, &self.interned),
            None => entry.object_mut().ok_or(ClientError::WrongType)?,
        };
        let before = signature(object);
        let context =
            CollectionContext { expired_fields: Some(&mut expired_fields), ..context!(self, key.bytes()) };
        let collection = C::of_mut(object).ok_or(ClientError::WrongType)?;
        // A collection adopts the rule of its key when it is written, not when the server stores it again.
        if is_use && self.policies.has_rules() {
            collection.conform(&context);
        }
        let fields_expire_ms = collection.first_expiry();
        let result = change(collection, context);
        let (is_empty, fields_expire_after_ms) = (collection.is_empty(), collection.first_expiry());
        let bytes = collection.memory_bytes();
        self.change_log.audit.compare(self.turn.database, key.bytes(), before, signature(object));
        if let Some(collection) = C::of_mut(object).filter(|_| !is_empty) {
            collection.settle(&mut self.interned);
        }
        if C::EMBEDDED_TAG.is_some() && !is_empty && (is_taken_out || object.embedded().is_some()) {
            if let Some(object) = entry.object_mut() {
                self.taken_out.exchange::<C>(object);
            }
            entry = match self.taken_out.value::<C>() {
                NewValue::Embedded(bytes) if entry.overwrite_embedded(bytes) => entry,
                value => entry.put(value),
            };
        }
        let images = image.map(|before| (before, Image::of(entry.as_ref())));
        database.changed_in_place(key, images);
        database.note_size(key, C::KIND, bytes);
        database.fields_moved(key, fields_expire_ms, fields_expire_after_ms);
        if is_empty {
            self.remove_stored(key, self.lazy_freeing.replaced);
            self.change_log.emptied(key);
        }
        if !expired_fields.removed.is_empty() {
            self.record_expired_fields(key, &expired_fields);
        }
        Ok(Some(result))
    }

    /// What is needed to create a collection for a key while other collections are borrowed.
    pub fn making(&self, key: &[u8]) -> Making {
        Making {
            limits: self.policies.of_key(key).limits.clone(),
            seed: self.seed,
            random: self.random.clone(),
            now_ms: self.turn.now_ms,
            shapes: Shapes::default(),
        }
    }

    /// Creates a value, such as a collection to be [stored](Db::store_collection) at that key, with the context of a
    /// change.
    pub fn build<R>(&mut self, key: &[u8], make: impl FnOnce(CollectionContext<'_>) -> R) -> R {
        make(context!(self, key))
    }

    /// Stores a whole collection, or removes the key if the collection is empty; returns whether it is stored. Records
    /// the removal, but not the storing.
    pub fn store_collection<C: Collection>(&mut self, key: Key<'_>, collection: C) -> bool {
        if !collection.is_empty() {
            self.put(key, NewValue::Object(collection.into_object()), None);
            return true;
        }
        if self.remove_replaced(key) {
            self.changed(EventClasses::GENERIC, "del", key);
        }
        false
    }
}

impl<'a> super::Value<'a> {
    /// Number of elements of a collection, or an error for a value of another type.
    #[inline]
    pub fn len_of<C: Collection>(&self) -> Result<usize, ClientError> {
        let len = match self.entry().value() {
            Stored::Object(object) => C::of(object).and_then(C::elements),
            Stored::Embedded(bytes) if is_embedded::<C>(bytes) => {
                Some(C::embedded_elements(bytes, self.interned()))
            }
            Stored::Embedded(_) | Stored::Inline(_) | Stored::Compressed(_) | Stored::Integer(_) => None,
        };
        len.ok_or(ClientError::WrongType)
    }

    /// The collection, or `None` for a value of another type.
    #[inline]
    pub fn collection<C: Collection>(&self) -> Option<C::View<'a>> {
        match self.entry().value() {
            Stored::Object(object) => C::of(object).map(C::view),
            Stored::Embedded(bytes) if is_embedded::<C>(bytes) => C::view_embedded(bytes, self.interned()),
            Stored::Embedded(_) => None,
            Stored::Inline(_) | Stored::Compressed(_) | Stored::Integer(_) => None,
        }
    }
}
