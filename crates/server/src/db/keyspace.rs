//! The keyspace: all databases, and the tables in which keys are found.
//!
//! ```text
//! Keyspace -> Database 0 -> table of keys        found by hash and key; scanned by cursors; one, or one for each slot
//!                           expiring fields      keys of hashes that have some, the earliest first
//!                           compressed values     their counts by dictionary
//!                           average time to live, measured by the search for expired keys
//!             Database 1 -> ...
//! ```
//!
//! Invariants:
//! 1. Nothing outside this file accesses a database's table or depends on there being a single one: look-ups, scans,
//!    sampling, prefetch, expiry and eviction go through [`Database`], which has its keys in [`tables`].
//! 2. `expiring_fields` has exactly the values in the table with elements that expire; code that stores, changes or
//!    removes a value reports it ([`Database::fields_moved`]).
//! 3. `compressed` counts exactly the values in the table that are compressed.
//! 4. Every creation, change or removal of a key's entry passes through here, and while accounts are kept uses
//!    [`Database::accounted`] or passes its images to [`Database::changed_in_place`]: so accounts are exact (see
//!    `accounts`).
//! 5. All databases hide the same slots of the cluster.
//! 6. A database's state beside its table moves with the table when databases are swapped or emptied.

mod hidden;
mod slots;
mod tables;
#[cfg(test)]
mod tests;

pub use slots::{cursor_of_slot, slot_of_cursor};
pub use tables::Iter;

use super::accounts::big_keys::BigKeys;
use super::accounts::classes::Classes;
use super::accounts::{Account, Accounts, Image, Keys, Respect};
use super::compression::Counts;
use super::expire::TtlAverage;
use super::field_expiry::{ExpiringFields, FirstExpiry};
use super::{Key, Kind, Object, field_expiry};
use slots::Scope;
use std::collections::BTreeSet;
use std::sync::Arc;
use structures::key_slot::{KeySeed, key_slot};
use structures::key_table::{
    EntryMut, EntryRef, NewValue, Probe, ProbeState, Removed, TablesInUse, Value as Stored,
};
use structures::random::Random;
use structures::work;
use tables::Tables;
use wire::cluster_bus::SlotSet;
use wire::convert::len_u16;

/// All databases. Their number is fixed. Unused ones have neither keys nor other state, and there may be thousands:
/// operations on all databases use [`Keyspace::indexes_in_use`].
pub(super) struct Keyspace {
    databases: Vec<Database>,
    in_use: TablesInUse,
}

/// One of the databases selected by SELECT.
pub struct Database {
    table: Tables,
    pub(super) expiring_fields: ExpiringFields,
    pub(super) ttl_average: Option<TtlAverage>,
    pub(super) compressed: Counts,
    /// `None`: nothing is counted.
    accounts: Option<Box<Accounts>>,
    big_keys: BigKeys,
}

impl Keyspace {
    pub(super) fn new(databases: usize, seed: KeySeed) -> Keyspace {
        let in_use = TablesInUse::default();
        let databases =
            (0..databases).map(|index| Database::new(Tables::new(seed, index, &in_use))).collect();
        Keyspace { databases, in_use }
    }

    #[inline]
    pub(super) fn database_count(&self) -> usize {
        self.databases.len()
    }

    /// Panics if there is no such database.
    #[inline]
    pub(super) fn database(&self, index: usize) -> &Database {
        work::visited(1);
        &self.databases[index]
    }

    /// Panics if there is no such database.
    #[inline]
    pub(super) fn database_mut(&mut self, index: usize) -> &mut Database {
        work::visited(1);
        &mut self.databases[index]
    }

    /// All databases that may have keys, in the order of their indexes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Database)> {
        self.indexes_in_use().map(|index| (index, self.database(index)))
    }

    /// See [`Keyspace::iter`].
    pub(super) fn indexes_in_use(&self) -> impl Iterator<Item = usize> + use<> {
        let (in_use, mut least) = (self.in_use.clone(), 0);
        std::iter::from_fn(move || {
            let index = in_use.next_from(least)?;
            least = index + 1;
            Some(index)
        })
    }

    /// The first database that may have keys, from this index on.
    pub(super) fn next_in_use_from(&self, index: usize) -> Option<usize> {
        self.in_use.next_from(index)
    }

    /// As [`Keyspace::next_in_use_from`], and then from 0.
    pub(super) fn next_in_use(&self, index: usize) -> Option<usize> {
        self.in_use.next_from(index).or_else(|| self.in_use.next_from(0))
    }

    /// Number of databases that may have keys.
    pub(super) fn in_use_count(&self) -> usize {
        self.in_use.len()
    }

    /// All databases, in use or not.
    pub(super) fn iter_all_mut(&mut self) -> impl Iterator<Item = &mut Database> {
        self.databases.iter_mut()
    }

    /// Calls `visit` with each database of [`Keyspace::iter`].
    pub(super) fn for_each_mut(&mut self, mut visit: impl FnMut(&mut Database)) {
        self.indexes_in_use().for_each(|index| visit(self.database_mut(index)));
    }

    /// Swaps two databases.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        self.databases.swap(a, b);
        for index in [a, b] {
            self.databases[index].table.renumber(index, &self.in_use);
        }
    }

    /// Takes a database's contents; `None` if it is unused.
    pub(super) fn take(&mut self, index: usize) -> Option<Database> {
        let database = &mut self.databases[index];
        if database.buckets() == 0 {
            return None;
        }
        let mut empty = Database::new(Tables::new(database.table.seed(), index, &self.in_use));
        empty.accounts = database.accounts.as_ref().map(|accounts| Box::new(accounts.renewed()));
        empty.table.hide(database.table.hidden().cloned());
        empty.table.leave_use();
        Some(std::mem::replace(database, empty))
    }

    /// Hides these slots of the cluster in all databases, and no others. Without a cluster nothing is hidden.
    pub(super) fn hide(&mut self, slots: SlotSet) {
        let shared = (!slots.is_empty()).then(|| Arc::new(slots));
        for database in &mut self.databases {
            database.table.hide(shared.clone());
        }
    }

    /// The hidden slots, if there are any.
    pub(super) fn hidden(&self) -> Option<&SlotSet> {
        self.databases.first()?.table.hidden().map(|slots| &**slots)
    }

    /// Continues resizing tables, up to `buckets_max` buckets in each. Databases that have become empty are marked
    /// unused.
    pub(super) fn step(&mut self, buckets_max: usize) {
        self.for_each_mut(|database| {
            database.table.step(buckets_max);
            if database.table.leave_use() {
                database.ttl_average = None;
                // Keys that come later are counted from the start on.
                let accounts = database.accounts.take();
                database.accounts = accounts.map(|accounts| Box::new(accounts.renewed()));
                database.measure_big_keys();
            }
        });
    }
}

impl Database {
    fn new(table: Tables) -> Database {
        Database {
            table,
            expiring_fields: ExpiringFields::default(),
            ttl_average: None,
            compressed: Counts::default(),
            accounts: None,
            big_keys: BigKeys::default(),
        }
    }

    /// Number of keys, including expired ones not yet removed and those of hidden slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Number of keys that have an expiry.
    #[inline]
    pub fn expiring_len(&self) -> usize {
        self.table.expiring_len()
    }

    /// As [`Database::len`], without keys of hidden slots: the number in replies.
    #[inline]
    pub fn shown_len(&self) -> usize {
        self.table.shown_len()
    }

    /// As [`Database::expiring_len`], without keys of hidden slots.
    #[inline]
    pub fn shown_expiring_len(&self) -> usize {
        self.table.shown_expiring_len()
    }

    /// Whether the key is in a hidden slot.
    pub(super) fn is_hidden(&self, key: &[u8]) -> bool {
        self.table.hidden().is_some_and(|slots| slots.contains(key_slot(key)))
    }

    /// Memory of the table in bytes, without the entries.
    pub fn table_bytes(&self) -> usize {
        self.table.table_bytes()
    }

    /// Number of 64-byte buckets: a measure of a scan's length.
    #[inline]
    pub fn buckets(&self) -> usize {
        self.table.buckets()
    }

    /// The entry of the key, expired or not.
    #[inline]
    pub fn get(&self, key: Key<'_>) -> Option<EntryRef<'_, Object>> {
        debug_assert!(key.hash() == self.table.hash(key.bytes()), "the hash is another key's");
        self.table.get(key.hash(), key.bytes())
    }

    /// As [`Database::get`], mutable.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key<'_>) -> Option<EntryMut<'_, Object>> {
        debug_assert!(key.hash() == self.table.hash(key.bytes()), "the hash is another key's");
        self.table.get_mut(key.hash(), key.bytes())
    }

    #[inline]
    pub(super) fn contains(&self, key: Key<'_>) -> bool {
        self.table.contains(key.hash(), key.bytes())
    }

    /// See [`structures::key_table::KeyTable::put_over`].
    #[inline]
    pub(super) fn put_over(
        &mut self,
        key: Key<'_>,
        value: NewValue<'_, Object>,
        expiry_ms: Option<i64>,
        access: impl FnOnce(Option<EntryRef<'_, Object>>) -> u32,
    ) -> Option<Removed<Object>> {
        // One call whether keys are counted or not: with two calls neither is inlined, which costs a SET 130
        // instructions.
        let is_accounted = self.are_accounts_kept();
        let mut before = None;
        if let NewValue::Compressed(stored) = value {
            self.add_compressed(key, stored);
        }
        let compressed = &mut self.compressed;
        let removed = self.table.put_over(key.hash(), key.bytes(), value, expiry_ms, |replaced| {
            if let Some(Stored::Compressed(stored)) = replaced.map(|entry| entry.value()) {
                compressed.remove(stored);
            }
            if is_accounted {
                before = replaced.map(Image::of);
            }
            access(replaced)
        });
        if is_accounted {
            self.note_put(key, before);
        }
        removed
    }

    /// Counts a compressed value about to be stored. Whatever its size, it lies in its entry.
    fn add_compressed(&mut self, key: Key<'_>, stored: &[u8]) {
        self.compressed.add(stored);
        self.note_size(key, Kind::String, stored.len());
    }

    #[inline(never)]
    fn note_put(&mut self, key: Key<'_>, before: Option<Image>) {
        let after = self.get(key).map(Image::of);
        self.note_move(key, before, after);
    }

    /// As [`Database::put_over`], for a key known to be absent.
    #[inline]
    pub(super) fn put_new(
        &mut self,
        key: Key<'_>,
        value: NewValue<'_, Object>,
        expiry_ms: Option<i64>,
        access: u32,
    ) {
        if let NewValue::Compressed(stored) = value {
            self.add_compressed(key, stored);
        }
        self.accounted(key, |table| table.put_new(key.hash(), key.bytes(), value, expiry_ms, access));
    }

    #[inline]
    pub(super) fn remove(&mut self, key: Key<'_>) -> Option<Removed<Object>> {
        let removed = self.accounted(key, |table| table.remove(key.hash(), key.bytes()))?;
        if let Stored::Compressed(stored) = removed.value() {
            self.compressed.remove(stored);
        }
        Some(removed)
    }

    /// Sets or (`None`) clears the expiry of a key; returns whether the key exists.
    pub(super) fn set_expiry(&mut self, key: Key<'_>, expiry_ms: Option<i64>) -> bool {
        self.accounted(key, |table| table.set_expiry(key.hash(), key.bytes(), expiry_ms))
    }

    /// Runs `change`, which may change the image of the key's entry, and updates the accounts.
    #[inline]
    fn accounted<R>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Tables) -> R) -> R {
        if !self.are_accounts_kept() {
            return change(&mut self.table);
        }
        let before = self.get(key).map(Image::of);
        let result = change(&mut self.table);
        let after = self.get(key).map(Image::of);
        self.note_move(key, before, after);
        result
    }

    /// Whether a change in place has to take the value's image before and after ([`Database::changed_in_place`]).
    #[inline]
    pub(super) fn are_accounts_kept(&self) -> bool {
        self.accounts.is_some()
    }

    /// Reports the images of an entry from [`Database::get_mut`] before and after its change; `None` if no accounts are
    /// kept.
    #[inline]
    pub(super) fn changed_in_place(&mut self, key: Key<'_>, images: Option<(Image, Image)>) {
        if let Some((before, after)) = images {
            self.note_move(key, Some(before), Some(after));
        }
    }

    /// Applies `change` to the key's object, if it has one.
    pub(super) fn change_object(&mut self, key: Key<'_>, change: impl FnOnce(&mut Object)) {
        self.accounted(key, |table| {
            if let Some(object) = table.get_mut(key.hash(), key.bytes()).and_then(EntryMut::into_object_mut) {
                change(object);
            }
        });
    }

    fn note_move(&mut self, key: Key<'_>, before: Option<Image>, after: Option<Image>) {
        if let Some(accounts) = &mut self.accounts {
            accounts.moved(key, before, after);
        }
    }

    /// Notes the size of an object, without its entry, that has been created or changed.
    #[inline]
    pub(super) fn note_size(&mut self, key: Key<'_>, kind: Kind, bytes: usize) {
        if self.big_keys.is_big(kind, bytes) {
            self.big_keys.note(key, kind, bytes);
        }
    }

    pub(super) fn measure_big_keys(&mut self) {
        self.big_keys.measure(|key| self.table.get(self.table.hash(key), key));
    }

    pub(super) fn big_keys(&self) -> &BigKeys {
        &self.big_keys
    }

    /// Starts counting keys by these classes, or (`None`) stops it.
    pub(super) fn count(&mut self, respect: Respect, classes: Option<Classes>) {
        let mut accounts = self.accounts.take().unwrap_or_default();
        accounts.count(respect, classes, self.table.is_empty());
        self.accounts = accounts.are_kept().then_some(accounts);
    }

    /// The account in one respect, if it is kept.
    pub fn account(&self, respect: Respect) -> Option<&Account> {
        self.accounts.as_ref()?.account(respect)
    }

    /// Continues counting; returns whether there may be more to count.
    pub(super) fn step_accounts(&mut self, buckets: usize) -> bool {
        let Some(accounts) = &mut self.accounts else { return false };
        if accounts.are_behind() {
            accounts.step(&self.table, buckets);
        }
        accounts.are_behind()
    }

    /// See [`ExpiringFields::moved`].
    #[inline]
    pub(super) fn fields_moved(
        &mut self,
        key: Key<'_>,
        before: Option<FirstExpiry>,
        after: Option<FirstExpiry>,
    ) {
        self.expiring_fields.moved(key.bytes(), before, after);
    }

    /// Sizes an empty database's table for this number of keys, which saves growing. Allocates at once.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys);
    }

    /// Starts prefetching a key's entry.
    #[inline]
    pub(super) fn probe(&self, hash: u64) -> Probe {
        self.table.probe(hash)
    }

    /// Advances a prefetch by one step.
    #[inline]
    pub(super) fn step_probe(&self, probe: &mut Probe) -> ProbeState<'_, Object> {
        self.table.step_probe(probe)
    }

    /// Iterates over all keys in the order of their hashes.
    pub fn iter(&self) -> Iter<'_> {
        self.table.iter(Scope::All)
    }

    /// As [`Database::iter`], without keys of hidden slots.
    pub fn iter_shown(&self) -> Iter<'_> {
        self.table.iter(Scope::Shown)
    }

    /// See [`structures::key_table::KeyTable::scan`].
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        self.table.scan(cursor, Scope::All, visit)
    }

    /// As [`Database::scan`], without keys of hidden slots: for cursors of clients.
    pub fn scan_shown(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        self.table.scan(cursor, Scope::Shown, visit)
    }

    /// See [`structures::key_table::KeyTable::scan_expiring`]. Leaves out hidden slots.
    pub(super) fn scan_expiring(&mut self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        self.table.scan_expiring(cursor, visit)
    }

    /// A uniformly random key outside hidden slots; it may be expired.
    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        self.table.random(random)
    }

    /// A random key with an expiry, outside hidden slots.
    pub(super) fn random_expiring(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        self.table.random_expiring(random)
    }

    /// See [`structures::key_table::KeyTable::sample`]. Leaves out hidden slots.
    pub(super) fn sample(
        &self,
        random: &mut Random,
        keys: usize,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        self.table.sample(random, keys, only_expiring, visit);
    }

    /// See [`structures::key_table::KeyTable::visit_bucket`]. Leaves out hidden slots.
    pub(super) fn visit_bucket(
        &self,
        random: &mut Random,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        self.table.visit_bucket(random, only_expiring, visit);
    }

    /// Number of keys in a slot of the cluster, including expired ones not yet removed.
    pub fn keys_in_slot(&self, slot: u16) -> usize {
        self.table.by_slot().map_or(0, |tables| tables.keys_in_slot(slot))
    }

    /// Number of keys with an expiry in a slot of the cluster.
    pub fn expiring_in_slot(&self, slot: u16) -> usize {
        self.table.by_slot().map_or(0, |tables| tables.expiring_in_slot(slot))
    }

    /// The first slot of the cluster from `slot` on that has keys and is not hidden.
    pub fn next_slot(&self, slot: u16) -> Option<u16> {
        self.table.by_slot().and_then(|tables| tables.next_with_keys(slot.into())).map(len_u16)
    }

    /// Iterates over the keys of a slot of the cluster, in no particular order.
    pub fn iter_slot(&self, slot: u16) -> impl Iterator<Item = EntryRef<'_, Object>> {
        self.table.by_slot().into_iter().flat_map(move |tables| tables.iter_slot(slot))
    }

    /// Panics unless every invariant holds that does not concern values.
    pub(super) fn check(&self) {
        self.table.check();
        let (mut expected, mut hashes) = (BTreeSet::new(), 0);
        for entry in self.iter() {
            if let Stored::Object(object) = entry.value()
                && let Some(first) = field_expiry::first_expiry(Some(object))
            {
                expected.insert((first.at_ms, entry.key().into()));
                hashes += usize::from(first.is_field);
            }
        }
        self.expiring_fields.check(&expected, hashes);
        if let Some(accounts) = &self.accounts {
            accounts.check(&self.table);
        }
    }
}
