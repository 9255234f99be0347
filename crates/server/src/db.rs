//! The data: the numbered databases of keys (sixteen by default), and the rules that hold for keys of every type: expiry,
//! access times, eviction, and removal of empty collections.
//!
//! Only the executor accesses a `Db`. No module above this one depends on how a value is encoded.
//!
//! Every change is *recorded* in the [`ChangeLog`], by the handler that made it ([`Db::changed`]) or by the database
//! itself when it removes a key on its own; the engine's effects read the change log after each command.

pub mod access;
pub mod accounts;
pub mod audit;
pub mod change_log;
mod check;
pub mod client_expiry;
pub mod collection;
pub mod compression;
pub mod digest;
mod embedded;
pub mod encoded_commands;
pub mod evict;
pub mod expire;
pub mod field_expiry;
pub mod hash;
pub mod hashed_value;
pub mod interned;
mod key;
pub mod keyspace;
pub mod layout;
pub mod list;
pub mod object;
pub mod policy;
pub mod prefetch;
pub mod rdb;
pub mod rewrite;
pub mod set;
mod shape_walk;
pub mod slots;
pub mod sorted_set;
pub mod stream;
pub mod strings;
pub mod turn;
pub mod value_type;

pub use crate::config::EventClasses;
pub use change_log::{Change, ChangeLog};
pub use hash::Hash;
pub use key::Key;
pub use keyspace::{cursor_of_slot, slot_of_cursor};
pub use object::{Kind, Object, OwnedEntry, OwnedValue, StringValue, Value};
pub use set::Set;
pub use turn::{ExpiredKeys, Turn};

use crate::config::PrefixRule;
use crate::error::ClientError;
use access::{AccessPolicy, Meaning, NewKey, UsedKey};
use compression::Compression;
use compression::dictionary::CompressedText;
use embedded::{TakenOut, embedded};
use field_expiry::{FirstExpiry, first_expiry};
use interned::Interned;
use keyspace::{Database, Keyspace};
use policy::Policies;
use prefetch::Announced;
use shape_walk::ShapeWalk;
use std::collections::BTreeSet;
use strings::bytes_value;
use structures::hash::HashSeed;
use structures::key_slot::KeySeed;
use structures::key_table::{EntryRef, NewValue, Value as Stored};
use structures::random::Random;
use structures::shared_log::{BLOCK_BYTES, SharedLog};

/// Counters that INFO stats shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DbFigures {
    /// Look-ups of keys that found one.
    pub hits: u64,
    /// Look-ups of keys that found none.
    pub misses: u64,
    /// Keys removed since their time to live had passed.
    pub expired_keys: u64,
    /// Fields of hashes removed since their time to live had passed.
    pub expired_fields: u64,
    /// Keys removed to stay within `maxmemory`.
    pub evicted_keys: u64,
    /// Batches of keys prefetched ahead of their commands.
    pub prefetch_batches: u64,
    /// Keys in these batches.
    pub prefetched_keys: u64,
    /// Processor time of the search for expired keys, in microseconds.
    pub expire_cycle_cpu_us: u64,
    /// The share of keys with an expiry that the last expire cycles found expired, in percent.
    pub stale_percent: f64,
}

impl DbFigures {
    /// Counts a batch of `keys` prefetched keys.
    pub fn count_prefetch(&mut self, keys: usize) {
        self.prefetch_batches += 1;
        self.prefetched_keys += keys as u64;
    }
}

/// Number of scattered objects in one batch of commands from which they are freed in the background: freeing one costs a
/// few hundred nanoseconds, waking the thread a few thousand.
const SCATTERED_MIN: usize = 8;
/// Number of objects handed over together, or their bytes.
const SCATTERED_MAX: usize = 64;
const SCATTERED_BYTES_MAX: usize = 4 << 20;

/// Memory that takes long to free, on its way to the background thread.
pub enum Garbage {
    /// A large object.
    Object(Object),
    /// Objects that together take as long as a large one.
    Objects(Vec<Object>),
    /// All keys of a database.
    Database(Box<Cleared>),
    /// A stream's log.
    Stream(SharedLog),
}

/// The contents of a database that has been emptied.
pub struct Cleared {
    db_index: usize,
    database: Database,
    in_background: bool,
}

/// Reasons for which large values are freed in the background when they are removed: the `lazyfree-lazy-*` options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyFreeing {
    /// To stay within `maxmemory`.
    pub evicted: bool,
    /// Since the time to live has passed.
    pub expired: bool,
    /// Overwritten, or emptied by taking its last element.
    pub replaced: bool,
    /// By DEL.
    pub deleted: bool,
}

impl Default for LazyFreeing {
    fn default() -> Self {
        LazyFreeing { evicted: true, expired: true, replaced: true, deleted: true }
    }
}

impl LazyFreeing {
    /// The command by which replicas and the append-only file remove an expired key.
    pub fn removal_of_expired(self) -> &'static [u8] {
        if self.expired { b"UNLINK" } else { b"DEL" }
    }

    /// As [`Self::removal_of_expired`], of a key that a command has emptied, or overwritten with nothing.
    pub fn removal_of_replaced(self) -> &'static [u8] {
        if self.replaced { b"UNLINK" } else { b"DEL" }
    }
}

impl Garbage {
    /// Number of values, or of blocks of a stream.
    pub fn objects(&self) -> usize {
        match self {
            Garbage::Object(_) => 1,
            Garbage::Objects(objects) => objects.len(),
            Garbage::Database(cleared) => cleared.database.len(),
            Garbage::Stream(log) => log.memory_bytes() / BLOCK_BYTES,
        }
    }
}

/// All databases: keys, their values and expiries, and what is recorded of changes to them.
pub struct Db {
    keyspace: Keyspace,
    /// The database, time and modes of the current command or activity.
    turn: Turn,
    /// During an import (`import-mode`) expired keys are not removed: the importing client decides.
    pub importing: bool,
    client_expiry: client_expiry::ClientExpiry,
    /// What commands, expiry and eviction have done since effects were last applied.
    pub change_log: ChangeLog,
    /// How the access bits of keys are set and read.
    pub access: AccessPolicy,
    /// Counters of look-ups, expiry and eviction.
    pub figures: DbFigures,
    /// The key policies: how values are stored, by key.
    pub policies: Policies,
    compression: Compression,
    interned: Interned,
    shape_walk: ShapeWalk,
    /// Which removed values are freed in the background.
    pub lazy_freeing: LazyFreeing,
    /// Draws keys and members; not for secrets.
    pub random: Random,
    key_seed: KeySeed,
    seed: HashSeed,
    taken_out: TakenOut,
    announced: Announced,
    /// Remaining lookups until small tables are assumed to be in the caches.
    cold_lookups: usize,
    /// Large objects to be freed in the background; the engine drains it.
    pub discarded: Vec<Garbage>,
    /// Objects of a few allocations each, which go to `discarded` if there are enough to wake a thread for.
    scattered: Vec<Object>,
    scattered_bytes: usize,
    /// Databases that the last command has emptied, kept until its effects have run.
    cleared: Vec<Cleared>,
    prefix_rule: PrefixRule,
    /// Accounts were started that may not have counted all keys yet.
    counts_keys: bool,
}

impl Db {
    /// Creates this number of empty databases.
    pub fn new(databases: usize, seed: impl Into<KeySeed>, random_seed: u64) -> Self {
        let key_seed = seed.into();
        Db {
            keyspace: Keyspace::new(databases, key_seed),
            turn: Turn::new(0, 0),
            importing: false,
            client_expiry: client_expiry::ClientExpiry::default(),
            change_log: ChangeLog::default(),
            access: AccessPolicy::default(),
            figures: DbFigures::default(),
            policies: Policies::of(&crate::config::Config::default()),
            compression: Compression::default(),
            interned: Interned::default(),
            shape_walk: ShapeWalk::default(),
            lazy_freeing: LazyFreeing::default(),
            random: Random::new(random_seed),
            key_seed,
            seed: key_seed.seed(),
            taken_out: TakenOut::default(),
            announced: Announced::default(),
            cold_lookups: 0,
            discarded: Vec::new(),
            scattered: Vec::new(),
            scattered_bytes: 0,
            cleared: Vec::new(),
            prefix_rule: PrefixRule::default(),
            counts_keys: false,
        }
    }

    /// Begins a command, or an activity of the server, with the given database, time and modes.
    #[inline]
    pub fn begin(&mut self, turn: Turn) {
        self.turn = turn;
        self.begin_next();
    }

    /// Begins the next command of the same turn.
    #[inline]
    pub fn begin_next(&mut self) {
        self.access.counted = [None; 2];
    }

    /// Ends a command: drops what is kept of its arguments.
    #[inline]
    pub fn end(&mut self) {
        self.forget_announced();
        self.forget_named_keys();
    }

    /// The database, time and modes of the current command or activity.
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// Lets look-ups find expired keys from now on: for commands that report what is stored.
    pub fn show_expired_keys(&mut self) {
        self.turn.expired = ExpiredKeys::Shown;
    }

    /// The current command's time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.turn.now_ms
    }

    /// Index of the selected database.
    pub fn selected(&self) -> usize {
        self.turn.database
    }

    /// Runs `work` with another database selected; see [`Db::database_count`].
    pub fn with_database<R>(&mut self, index: usize, work: impl FnOnce(&mut Db) -> R) -> R {
        let previous = std::mem::replace(&mut self.turn.database, index);
        let result = work(self);
        self.turn.database = previous;
        result
    }

    /// Number of databases.
    pub fn database_count(&self) -> usize {
        self.keyspace.database_count()
    }

    /// Indexes of the databases that may have keys; all others are empty. The iterator is not affected by changes made
    /// meanwhile.
    pub fn databases_in_use(&self) -> impl Iterator<Item = usize> + use<> {
        self.keyspace.indexes_in_use()
    }

    /// Databases whose keys may have been replaced by the last command: those it has emptied, and those that have keys.
    pub fn databases_replaced(&self) -> BTreeSet<usize> {
        self.cleared.iter().map(|cleared| cleared.db_index).chain(self.databases_in_use()).collect()
    }

    /// What hashes keys; collections hash with its seed.
    pub fn key_seed(&self) -> KeySeed {
        self.key_seed
    }

    /// A database as it is stored, for scans of all its keys. Includes expired keys.
    #[inline]
    pub fn database(&self, index: usize) -> &Database {
        self.keyspace.database(index)
    }

    /// See [`Db::database`].
    #[inline]
    pub fn selected_database(&self) -> &Database {
        self.keyspace.database(self.turn.database)
    }

    #[inline]
    fn selected_database_mut(&mut self) -> &mut Database {
        self.keyspace.database_mut(self.turn.database)
    }

    /// Number of keys in the selected database, including expired ones not yet removed.
    pub fn len(&self) -> usize {
        self.selected_database().len()
    }

    /// Whether the selected database has no keys.
    pub fn is_empty(&self) -> bool {
        self.selected_database().is_empty()
    }

    /// Number of keys in the selected database that have an expiry.
    pub fn expiring_len(&self) -> usize {
        self.selected_database().expiring_len()
    }

    /// Memory of the selected database's table in bytes, without the entries.
    pub fn table_bytes(&self) -> usize {
        self.selected_database().table_bytes()
    }

    /// Number of buckets of the selected database's table.
    pub fn table_buckets(&self) -> usize {
        self.selected_database().buckets()
    }

    /// Bytes that a key and its value occupy; `None` if there is no such key.
    pub fn memory_bytes(&mut self, key: Key<'_>) -> Option<usize> {
        self.find(key).map(|value| value.memory_bytes())
    }

    /// Records that the key has changed: `class` and `event` are the keyspace notification's.
    #[inline]
    pub fn changed(&mut self, class: EventClasses, event: &'static str, key: Key<'_>) {
        self.changed_many(class, event, key, 1);
    }

    /// As [`Db::changed`], for a change that is part of another one, or not made by a command, and is not counted in
    /// `dirty`.
    pub fn changed_too(&mut self, class: EventClasses, event: &'static str, key: Key<'_>) {
        self.changed_many(class, event, key, 0);
    }

    /// As [`Db::changed`], for `elements` changed elements of the key's value, each of which is counted.
    #[inline]
    pub fn changed_many(&mut self, class: EventClasses, event: &'static str, key: Key<'_>, elements: u64) {
        self.change_log.changed(self.turn.database, class, event, key, elements);
        self.note_change(key);
    }

    /// As [`Db::changed`], for a change without an event.
    pub fn touched(&mut self, key: Key<'_>) {
        self.change_log.touched(self.turn.database, key.bytes(), 1);
        self.note_change(key);
    }

    /// As [`Db::touched`], for a change made by expiry: not counted in `dirty`.
    fn touched_by_expiry(&mut self, key: Key<'_>) {
        self.change_log.touched(self.turn.database, key.bytes(), 0);
        self.note_change(key);
    }

    /// As [`Db::changed`], for a change that WATCH and tracking do not report: of a stream's groups. `count` may be 0.
    pub fn changed_quietly(&mut self, key: Key<'_>, count: u64) {
        self.change_log.add_dirty(count);
        self.note_change(key);
    }

    #[inline]
    fn note_change(&mut self, key: Key<'_>) {
        if self.access.bits.meaning() == Meaning::LastChange {
            self.note_change_time(key);
        }
    }

    #[cold]
    fn note_change_time(&mut self, key: Key<'_>) {
        let access = self.access.changed(self.turn.now_ms);
        if let Some(mut entry) = self.keyspace.database_mut(self.turn.database).get_mut(key) {
            entry.set_access(access);
        }
    }

    /// Notes a command that repeats an expiry's or eviction's removal; see [`ChangeLog::propagate_removal`].
    fn propagate_removal<'a>(&mut self, head: &[&[u8]], rest: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.change_log.propagate_removal(self.turn.database, head, rest);
    }

    /// Notes a command that is propagated to replicas and the append-only file instead of the current one, with others so
    /// noted.
    pub fn propagate_as(&mut self, arguments: &[&[u8]]) {
        self.change_log.propagate_as(self.turn.database, arguments, std::iter::empty());
    }

    /// As [`Db::propagate_as`], with the arguments `head`, then `rest`.
    pub fn propagate_as_list<'a>(&mut self, head: &[&[u8]], rest: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.change_log.propagate_as(self.turn.database, head, rest);
    }

    /// Announces an event that accompanies a change already recorded.
    #[inline]
    pub fn event(&mut self, class: EventClasses, event: &'static str, key: Key<'_>) {
        self.change_log.event(self.turn.database, class, event, key.bytes());
    }
}

/// Look-ups of keys. A look-up may note a use of the key for eviction and OBJECT, count a hit or a miss, and announce a
/// miss as an event. An expired key counts as absent, and is removed if that is up to this server.
///
/// | look-up | notes a use | counts | announces a miss | an expired key |
/// |---|---|---|---|---|
/// | `read`, `read_string`, `read_collection` | yes, but not under CLIENT NO-TOUCH | yes | yes | is removed |
/// | `touch` | yes | yes | yes | is removed |
/// | `probe` | no | yes | yes | is removed |
/// | `describe` | no | yes | no | is removed |
/// | `read_for_write`, and of a string, of a collection; `expect_kind` | as `read` | no | no | is removed |
/// | `find`, `exists` | no | no | no | is removed |
/// | `stored_collection`, `stored_expiry_ms`, `is_stored` | no | no | no | is found |
/// | `live_kind` | no | no | no | is absent, and stays |
/// | `is_stored_expired` | no | no | no | is all that is found |
impl Db {
    /// The value at `key` for a read.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.read_as(key, !self.turn.no_touch, true)
    }

    /// As [`Db::read`], for commands that do not use the value (TYPE, TTL, EXISTS).
    pub fn probe(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.read_as(key, false, true)
    }

    /// As [`Db::read`], for TOUCH.
    pub fn touch(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.read_as(key, true, true)
    }

    /// As [`Db::probe`], for OBJECT.
    pub fn describe(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.read_as(key, false, false)
    }

    #[inline]
    fn read_as(&mut self, key: Key<'_>, touch: bool, announces_miss: bool) -> Option<Value<'_>> {
        self.begin_look_up(key);
        if !self.remove_if_expired(key) {
            let now_ms = self.turn.now_ms;
            if let Some(mut entry) = self.keyspace.database_mut(self.turn.database).get_mut(key) {
                self.figures.hits += 1;
                if touch {
                    self.access.touch(UsedKey::new(key), &mut entry, now_ms, &mut self.random);
                }
                return Some(Value::new(entry.into_ref(), &self.interned));
            }
        }
        self.figures.misses += 1;
        if announces_miss {
            self.change_log.missed(self.turn.database, key.bytes());
        }
        None
    }

    /// The value at `key` for a write that reads it first.
    #[inline]
    pub fn read_for_write(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.lookup(key, true)
    }

    /// The value at `key` for commands that inspect keys (DEBUG), or that have looked the key up before.
    pub fn find(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.lookup(key, false)
    }

    #[inline]
    fn lookup(&mut self, key: Key<'_>, touch: bool) -> Option<Value<'_>> {
        self.begin_look_up(key);
        if self.remove_if_expired(key) {
            return None;
        }
        let now_ms = self.turn.now_ms;
        let mut entry = self.keyspace.database_mut(self.turn.database).get_mut(key)?;
        if touch && !self.turn.no_touch {
            self.access.touch(UsedKey::new(key), &mut entry, now_ms, &mut self.random);
        }
        Some(Value::new(entry.into_ref(), &self.interned))
    }

    /// Whether the key exists now.
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        self.lookup(key, false).is_some()
    }
}

impl Db {
    /// The value in an entry of these databases.
    #[inline]
    pub fn value_of<'a>(&'a self, entry: EntryRef<'a, Object>) -> Value<'a> {
        Value::new(entry, &self.interned)
    }

    /// A random key of the selected database; it may be expired.
    pub fn random_key(&mut self) -> Option<Box<[u8]>> {
        let entry = self.keyspace.database(self.turn.database).random(&mut self.random)?;
        Some(entry.key().into())
    }

    /// Removes the key from the selected database and returns its value and expiry.
    pub fn take(&mut self, key: Key<'_>) -> Option<OwnedEntry> {
        self.begin_look_up(key);
        if self.remove_if_expired(key) {
            return None;
        }
        let removed = self.selected_database_mut().remove(key)?;
        self.change_log.audit.check_named_changed(key.bytes());
        self.change_log.audit.key_changed(self.turn.database, key.bytes());
        let expiry_ms = removed.expiry_ms();
        let value = match removed.value() {
            Stored::Inline(bytes) => OwnedValue::Bytes(bytes.into()),
            Stored::Compressed(stored) => {
                let text = CompressedText::new(stored, &self.interned.dictionaries);
                OwnedValue::Bytes(text.to_vec().into())
            }
            Stored::Integer(n) => OwnedValue::Integer(n),
            Stored::Embedded(bytes) => OwnedValue::Object(Object::from_embedded(bytes, &self.interned)),
            Stored::Object(_) => {
                let object = removed.into_object()?;
                self.fields_moved(key, first_expiry(Some(&object)), None);
                OwnedValue::Object(object)
            }
        };
        Some(OwnedEntry { value, expiry_ms })
    }

    /// Stores an entry that was taken or copied, at any key of any database. The key counts as new even where it replaces
    /// one.
    pub fn put_owned(&mut self, key: Key<'_>, entry: OwnedEntry) {
        match entry.value {
            OwnedValue::Bytes(bytes) => {
                self.put_as_new(key, bytes_value(key.bytes(), &bytes, entry.expiry_ms), entry.expiry_ms)
            }
            OwnedValue::Integer(n) => self.put_as_new(key, NewValue::Integer(n), entry.expiry_ms),
            OwnedValue::Object(object) => self.put_as_new(key, NewValue::Object(object), entry.expiry_ms),
        }
    }

    /// Stores a value, replacing the previous one and its expiry: a use of the key. Records no event: the handler does.
    pub fn put(&mut self, key: Key<'_>, value: NewValue<'_, Object>, expiry_ms: Option<i64>) {
        self.put_in_place(key, value, expiry_ms, false);
    }

    /// As [`Db::put`], but the key counts as new: the access data of a replaced key is dropped.
    fn put_as_new(&mut self, key: Key<'_>, value: NewValue<'_, Object>, expiry_ms: Option<i64>) {
        self.put_in_place(key, value, expiry_ms, true);
    }

    /// Notes the size of an object that is about to be stored; returns when the first of its fields expires.
    #[inline]
    fn note_put_size(&mut self, key: Key<'_>, object: &Object) -> Option<FirstExpiry> {
        let (kind, bytes) = (object.kind(), object.memory_bytes());
        self.selected_database_mut().note_size(key, kind, bytes);
        first_expiry(Some(object))
    }

    #[inline]
    fn put_in_place(
        &mut self,
        key: Key<'_>,
        value: NewValue<'_, Object>,
        expiry_ms: Option<i64>,
        is_new: bool,
    ) {
        self.change_log.audit.check_named_changed(key.bytes());
        self.begin_look_up(key);
        let mut buffer = Vec::new();
        let value = self.compressed(key.bytes(), value, expiry_ms.is_some(), &mut buffer);
        let mut kept = None;
        let value = embedded(value, &mut kept, &mut self.interned);
        let object = if let NewValue::Object(object) = &value { Some(object) } else { None };
        let fields_expire_ms = object.and_then(|object| self.note_put_size(key, object));
        let keys_before = self.len();
        let (hidden, Turn { now_ms, no_touch, .. }) = (self.hiding(), self.turn);
        let db_index = self.turn.database;
        let (policy, random, mut was_expired) = (&mut self.access, &mut self.random, false);
        let access = |replaced: Option<EntryRef<'_, Object>>| {
            was_expired = replaced.is_some_and(|entry| hidden(entry.expiry_ms()));
            match replaced {
                Some(entry) if !is_new && !was_expired && no_touch => entry.access(),
                Some(entry) if !is_new && !was_expired => {
                    policy.used(UsedKey::new(key), entry.access(), now_ms, random)
                }
                Some(_) | None => {
                    let new = NewKey { hash: key.hash(), db_index, expires: expiry_ms.is_some() };
                    policy.initial(new, now_ms)
                }
            }
        };
        let database = self.keyspace.database_mut(self.turn.database);
        let previous = database.put_over(key, value, expiry_ms, access);
        self.take_back(buffer);
        let replaced = previous.and_then(|removed| removed.into_object());
        self.fields_moved(key, first_expiry(replaced.as_ref()), fields_expire_ms);
        if was_expired {
            self.note_expired_and_replaced(key);
        }
        if was_expired || is_new || self.len() > keys_before {
            self.event(EventClasses::NEW, "new", key);
        }
        if let Some(object) = replaced {
            self.discard(object, self.lazy_freeing.replaced);
        }
        self.change_log.audit.key_changed(self.turn.database, key.bytes());
        self.note_given_expiry(key, expiry_ms);
    }

    /// Removes the key for a client's command. Returns whether it existed.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let in_background = self.lazy_freeing.deleted;
        self.remove_freeing(key, in_background)
    }

    /// As [`Db::remove`], but large values are always freed in the background.
    pub fn unlink(&mut self, key: Key<'_>) -> bool {
        self.remove_freeing(key, true)
    }

    /// Removes the key because a command replaces it, possibly with nothing: removes an expired key too. Returns whether
    /// it existed.
    pub fn remove_replaced(&mut self, key: Key<'_>) -> bool {
        self.change_log.audit.check_named_changed(key.bytes());
        self.begin_look_up(key);
        self.remove_stored(key, self.lazy_freeing.replaced)
    }

    fn remove_freeing(&mut self, key: Key<'_>, in_background: bool) -> bool {
        self.change_log.audit.check_named_changed(key.bytes());
        self.begin_look_up(key);
        !self.remove_if_expired(key) && self.remove_stored(key, in_background)
    }

    fn remove_stored(&mut self, key: Key<'_>, in_background: bool) -> bool {
        let Some(removed) = self.selected_database_mut().remove(key) else { return false };
        self.change_log.audit.key_changed(self.turn.database, key.bytes());
        if let Some(object) = removed.into_object() {
            self.fields_moved(key, first_expiry(Some(&object)), None);
            self.discard(object, in_background);
        }
        true
    }

    /// Drops an object: now, or in the background if it is expensive to free and `in_background` is set.
    fn discard(&mut self, object: Object, in_background: bool) {
        if !in_background {
            return;
        }
        if object.is_large() {
            self.discarded.push(Garbage::Object(object));
        } else if object.is_scattered() {
            self.scattered_bytes += object.memory_bytes();
            self.scattered.push(object);
            if self.scattered.len() == SCATTERED_MAX || self.scattered_bytes >= SCATTERED_BYTES_MAX {
                self.discard_scattered();
            }
        }
    }

    /// Moves the scattered objects to `discarded` if there are enough to be worth another thread; else frees them.
    pub fn gather_scattered(&mut self) {
        if self.scattered.len() >= SCATTERED_MIN {
            self.discard_scattered();
        }
        self.scattered.clear();
        self.scattered_bytes = 0;
    }

    fn discard_scattered(&mut self) {
        self.discarded.push(Garbage::Objects(std::mem::take(&mut self.scattered)));
        self.scattered_bytes = 0;
    }

    /// Frees the scattered objects at once: eviction decides by the memory that is seen to be free.
    pub fn free_scattered(&mut self) {
        self.scattered.clear();
        self.scattered_bytes = 0;
        self.discarded.retain(|garbage| !matches!(garbage, Garbage::Objects(_)));
    }

    /// Empties the selected database.
    pub fn clear(&mut self, in_background: bool) {
        let Some(database) = self.keyspace.take(self.turn.database) else { return };
        if database.is_empty() {
            return;
        }
        self.change_log.audit.database_changed(self.turn.database);
        self.change_log.add_dirty(database.len() as u64);
        if database.len() >= structures::record::shape::USERS_MIN as usize {
            self.interned.shapes.request_walk();
        }
        self.cleared.push(Cleared { db_index: self.turn.database, database, in_background });
    }

    /// Empties all databases.
    pub fn clear_all(&mut self, in_background: bool) {
        for index in self.databases_in_use() {
            self.with_database(index, |db| db.clear(in_background));
        }
    }

    /// Creates empty databases with the same settings, which later replace these ([`Db::replace_all`]).
    pub fn empty_beside(&mut self) -> Db {
        let mut beside = Db::new(self.database_count(), self.key_seed, self.random.next_u64());
        beside.policies = self.policies.clone();
        beside.compression = self.compression.beside();
        beside.interned = self.interned.beside();
        beside.access = self.access.beside();
        beside.begin(Turn::new(0, self.turn.now_ms));
        beside.count_prefixes(&self.prefix_rule);
        beside
    }

    /// Empties these databases and replaces them by `others`. The caller records the change.
    pub fn replace_all(&mut self, mut others: Db, in_background: bool) {
        self.clear_all(in_background);
        (0..self.database_count()).for_each(|index| self.change_log.audit.database_changed(index));
        std::mem::swap(&mut self.keyspace, &mut others.keyspace);
        std::mem::swap(&mut self.compression, &mut others.compression);
        std::mem::swap(&mut self.interned, &mut others.interned);
        self.shape_walk = ShapeWalk::default();
        self.interned.shapes.request_walk();
        self.access.exchange(&mut others.access);
        if others.prefix_rule != self.prefix_rule {
            // The option has changed since `others` was created.
            self.begin_counting_prefixes();
        }
        // Rules may have changed since `others` was created.
        self.follow_policies();
    }

    /// Frees unused databases in the background.
    pub fn discard_all(&mut self, mut others: Db) {
        for db_index in others.databases_in_use() {
            let Some(database) = others.keyspace.take(db_index) else { continue };
            let cleared = Cleared { db_index, database, in_background: true };
            self.discarded.push(Garbage::Database(Box::new(cleared)));
        }
    }

    /// Drops the contents of emptied databases once their effects have run.
    #[inline(always)]
    pub fn forget_cleared(&mut self) {
        if !self.cleared.is_empty() {
            self.discard_cleared();
        }
    }

    #[cold]
    fn discard_cleared(&mut self) {
        let in_background = self.cleared.drain(..).filter(|cleared| cleared.in_background);
        self.discarded.extend(in_background.map(|cleared| Garbage::Database(Box::new(cleared))));
    }

    /// Swaps two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.keyspace.swap(a, b);
        self.compression.databases_swapped();
        self.restart_shape_walk();
        self.client_expiry.swapped(a, b);
        self.change_log.audit.database_changed(a);
        self.change_log.audit.database_changed(b);
    }

    /// Continues resizing the tables, up to `buckets_max` buckets in each.
    pub fn step_tables(&mut self, buckets_max: usize) {
        self.keyspace.step(buckets_max);
    }

    /// `Ok(true)` if the key holds a value of `kind`, `Ok(false)` if it does not exist, for a write that looks first.
    pub fn expect_kind(&mut self, key: Key<'_>, kind: Kind) -> Result<bool, ClientError> {
        match self.read_for_write(key) {
            None => Ok(false),
            Some(value) if value.kind() == kind => Ok(true),
            Some(_) => Err(ClientError::WrongType),
        }
    }
}
