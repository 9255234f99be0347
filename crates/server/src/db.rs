//! The data: sixteen (or as many as configured) databases of keys, and the rules that hold for every key
//! whatever its type: expiry, access times, eviction, and that an empty collection never stays.
//!
//! Only the executor touches a `Db`. Nothing above this module knows how a value is encoded.
//!
//! Every change is *said* in the [`Journal`], by the handler that made it ([`Db::changed`]) or by the database
//! itself when it removes a key on its own; the engine's effects read the journal after each command.

pub mod access;
pub mod evict;
pub mod expire;
pub mod journal;
pub mod object;
pub mod strings;

pub use crate::config::EventClasses;
pub use journal::{Change, Journal};
pub use object::{Kind, Object, Value};

use crate::error::ClientError;
use access::AccessPolicy;
use structures::hash::HashSeed;
use structures::key_table::{KeyTable, NewValue};
use structures::random::Random;

/// Counters that INFO stats shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbFigures {
    pub hits: u64,
    pub misses: u64,
    pub expired_keys: u64,
    pub evicted_keys: u64,
    pub expire_cycle_cpu_us: u64,
}

pub struct Db {
    databases: Vec<KeyTable<Object>>,
    /// The database of the client whose command runs.
    selected: usize,
    /// The instant of the command at hand: what is due by then does not exist.
    now_ms: i64,
    /// Removing due keys may be forbidden for a while (a paused server): they are then only hidden.
    pub keep_due_keys: bool,
    pub journal: Journal,
    pub access: AccessPolicy,
    pub figures: DbFigures,
    pub random: Random,
    seed: HashSeed,
    /// Where large objects go to be freed; the engine drains it.
    pub discarded: Vec<Object>,
}

impl Db {
    pub fn new(databases: usize, seed: HashSeed, random_seed: u64) -> Self {
        Db {
            databases: (0..databases).map(|_| KeyTable::new(seed)).collect(),
            selected: 0,
            now_ms: 0,
            keep_due_keys: false,
            journal: Journal::default(),
            access: AccessPolicy::default(),
            figures: DbFigures::default(),
            random: Random::new(random_seed),
            seed,
            discarded: Vec::new(),
        }
    }

    /// Turns to the database of the command at hand and to its instant.
    #[inline]
    pub fn begin(&mut self, selected: usize, now_ms: i64) {
        self.selected = selected;
        self.now_ms = now_ms;
    }

    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Runs `work` with another database selected; see [`Db::database_count`].
    pub fn with_database<R>(&mut self, index: usize, work: impl FnOnce(&mut Db) -> R) -> R {
        let previous = std::mem::replace(&mut self.selected, index);
        let result = work(self);
        self.selected = previous;
        result
    }

    pub fn database_count(&self) -> usize {
        self.databases.len()
    }

    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// The table of the selected database, for what walks all keys. Due keys are still in it.
    pub fn table(&self) -> &KeyTable<Object> {
        &self.databases[self.selected]
    }

    fn table_mut(&mut self) -> &mut KeyTable<Object> {
        &mut self.databases[self.selected]
    }

    /// Keys in the selected database, due ones not yet removed included.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    pub fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    /// Says that the key has changed: `class` and `event` are the keyspace notification's.
    #[inline]
    pub fn changed(&mut self, class: EventClasses, event: &'static str, key: &[u8]) {
        self.journal.changed(self.selected, class, event, key);
    }

    /// The value at `key` for a read: counts a hit or miss, notes the access, hides and removes what is due.
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<Value<'_>> {
        let hash = self.table().hash(key);
        if !self.remove_if_due(hash, key) {
            let now_ms = self.now_ms;
            if let Some(mut entry) = self.databases[self.selected].get_mut(hash, key) {
                self.figures.hits += 1;
                self.access.touch(&mut entry, now_ms, &mut self.random);
                return Some(Value::new(entry.into_ref()));
            }
        }
        self.figures.misses += 1;
        self.journal.missed(self.selected, key);
        None
    }

    /// The value at `key` for a write that looks first: like [`Db::read`] but counts nothing.
    #[inline]
    pub fn peek(&mut self, key: &[u8]) -> Option<Value<'_>> {
        self.lookup(key, true)
    }

    /// The value at `key` for commands that look at keys from outside (TYPE, OBJECT, TTL): notes no access.
    pub fn inspect(&mut self, key: &[u8]) -> Option<Value<'_>> {
        self.lookup(key, false)
    }

    #[inline]
    fn lookup(&mut self, key: &[u8], touch: bool) -> Option<Value<'_>> {
        let hash = self.table().hash(key);
        if self.remove_if_due(hash, key) {
            return None;
        }
        let now_ms = self.now_ms;
        let table = &mut self.databases[self.selected];
        let mut entry = table.get_mut(hash, key)?;
        if touch {
            self.access.touch(&mut entry, now_ms, &mut self.random);
        }
        Some(Value::new(entry.into_ref()))
    }

    /// Whether the key exists now.
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.lookup(key, false).is_some()
    }

    /// Puts a value, replacing what was there, expiry included. Says nothing: the handler knows the event.
    pub fn put(&mut self, key: &[u8], value: NewValue<'_, Object>, expiry_ms: Option<i64>) {
        let hash = self.table().hash(key);
        let access = self.access.initial(self.now_ms);
        let previous = self.table_mut().put(hash, key, value, expiry_ms, access);
        if let Some(object) = previous.and_then(|removed| removed.into_object()) {
            self.discard(object);
        }
        self.journal.mutated();
    }

    /// Removes the key; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.table().hash(key);
        !self.remove_if_due(hash, key) && self.remove_hashed(hash, key)
    }

    fn remove_hashed(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(removed) = self.table_mut().remove(hash, key) else { return false };
        self.journal.mutated();
        if let Some(object) = removed.into_object() {
            self.discard(object);
        }
        true
    }

    /// Drops an object, now if it is small, else by handing it to whoever frees in the background.
    fn discard(&mut self, object: Object) {
        if object.is_large() {
            self.discarded.push(object);
        }
    }

    /// Empties the selected database and returns how many keys it held.
    pub fn clear(&mut self) -> usize {
        let empty = KeyTable::new(self.seed);
        let old = std::mem::replace(self.table_mut(), empty);
        let keys = old.len();
        self.journal.mutated();
        drop(old);
        keys
    }

    /// Exchanges two databases whole.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.databases.swap(a, b);
        self.journal.mutated();
    }

    /// Goes on with tables that are growing or shrinking, up to `buckets_max` in each.
    pub fn step_tables(&mut self, buckets_max: usize) {
        for table in &mut self.databases {
            table.step(buckets_max);
        }
    }

    /// `Ok` if nothing is at `key` or a value of `kind` is.
    pub fn expect_kind(&mut self, key: &[u8], kind: Kind) -> Result<bool, ClientError> {
        match self.lookup(key, false) {
            None => Ok(false),
            Some(value) if value.kind() == kind => Ok(true),
            Some(_) => Err(ClientError::WrongType),
        }
    }
}
