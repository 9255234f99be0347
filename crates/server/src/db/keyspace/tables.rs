//! The tables of a database: one for all keys, or in a cluster one for each slot. All operations on them dispatch here.

use super::super::Object;
use super::super::accounts::Keys;
use super::slots::{self, Scope, SlotTables};
use std::sync::Arc;
use structures::key_slot::KeySeed;
use structures::key_table::{
    self, EntryMut, EntryRef, KeyTable, NewValue, Probe, ProbeState, Registration, Removed, TablesInUse,
};
use structures::random::Random;
use wire::cluster_bus::SlotSet;

/// See the module's documentation. Hashes are those of [`KeySeed`].
pub(super) enum Tables {
    One(KeyTable<Object>),
    BySlot(Box<SlotTables>),
}

/// Iterates over all keys in the order of their hashes.
pub enum Iter<'a> {
    /// Of the only table.
    One(key_table::Iter<'a, Object>),
    /// Of the tables of all slots.
    BySlot(slots::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = EntryRef<'a, Object>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a, Object>> {
        match self {
            Iter::One(keys) => keys.next(),
            Iter::BySlot(keys) => keys.next(),
        }
    }
}

impl Keys for Tables {
    fn hash(&self, key: &[u8]) -> u64 {
        self.seed().hash(key)
    }

    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        Tables::scan(self, cursor, Scope::All, visit)
    }

    fn iter(&self) -> impl Iterator<Item = EntryRef<'_, Object>> {
        Tables::iter(self, Scope::All)
    }
}

impl Tables {
    /// The tables of the database with this number, which registers in `in_use` when it gets keys.
    pub fn new(seed: KeySeed, number: usize, in_use: &TablesInUse) -> Tables {
        match seed.by_slot() {
            false => Tables::One(KeyTable::numbered(seed.seed(), number, in_use)),
            true => {
                let registration = Registration::new(number, in_use);
                Tables::BySlot(Box::new(SlotTables::new(seed.seed(), registration)))
            }
        }
    }

    pub fn seed(&self) -> KeySeed {
        match self {
            Tables::One(table) => KeySeed::new(table.seed(), false),
            Tables::BySlot(tables) => KeySeed::new(tables.seed(), true),
        }
    }

    pub fn renumber(&mut self, number: usize, in_use: &TablesInUse) {
        match self {
            Tables::One(table) => table.renumber(number, in_use),
            Tables::BySlot(tables) => tables.renumber(Registration::new(number, in_use)),
        }
    }

    /// See [`KeyTable::leave_use`].
    pub fn leave_use(&mut self) -> bool {
        match self {
            Tables::One(table) => table.leave_use(),
            Tables::BySlot(tables) => tables.leave_use(),
        }
    }

    pub fn step(&mut self, buckets_max: usize) {
        match self {
            Tables::One(table) => _ = table.step(buckets_max),
            Tables::BySlot(tables) => tables.step(buckets_max),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Tables::One(table) => table.len(),
            Tables::BySlot(tables) => tables.len(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn expiring_len(&self) -> usize {
        match self {
            Tables::One(table) => table.expiring_len(),
            Tables::BySlot(tables) => tables.expiring_len(),
        }
    }

    /// As [`Tables::len`], without keys of hidden slots.
    pub fn shown_len(&self) -> usize {
        match self {
            Tables::One(table) => table.len(),
            Tables::BySlot(tables) => tables.shown().keys,
        }
    }

    /// As [`Tables::expiring_len`], without keys of hidden slots.
    pub fn shown_expiring_len(&self) -> usize {
        match self {
            Tables::One(table) => table.expiring_len(),
            Tables::BySlot(tables) => tables.shown().expiring,
        }
    }

    /// Hides these slots, and no others, if keys are divided so.
    pub fn hide(&mut self, slots: Option<Arc<SlotSet>>) {
        if let Tables::BySlot(tables) = self {
            tables.hide(slots);
        }
    }

    /// The hidden slots, if there are any.
    pub fn hidden(&self) -> Option<&Arc<SlotSet>> {
        match self {
            Tables::One(_) => None,
            Tables::BySlot(tables) => tables.hidden(),
        }
    }

    pub fn table_bytes(&self) -> usize {
        match self {
            Tables::One(table) => table.table_bytes(),
            Tables::BySlot(tables) => tables.bytes(),
        }
    }

    #[inline]
    pub fn buckets(&self) -> usize {
        match self {
            Tables::One(table) => table.buckets(),
            Tables::BySlot(tables) => tables.buckets(),
        }
    }

    /// The table of the keys with this hash, and the hash in it. One call of the table's own function follows, whatever the
    /// tables are: of two calls neither is inlined, which costs a SET of a server without a cluster 8 % of its instructions.
    #[inline(always)]
    fn at(&self, hash: u64) -> (&KeyTable<Object>, u64) {
        match self {
            Tables::One(table) => (table, hash),
            Tables::BySlot(tables) => tables.at(hash),
        }
    }

    /// As [`Tables::at`], for a change of an entry in all but its expiry.
    #[inline(always)]
    fn at_mut(&mut self, hash: u64) -> (&mut KeyTable<Object>, u64) {
        match self {
            Tables::One(table) => (table, hash),
            Tables::BySlot(tables) => tables.at_mut(hash),
        }
    }

    /// As [`Tables::at`], for a change that [`Tables::end_change`] ends.
    #[inline(always)]
    fn begin_change(&mut self, hash: u64) -> (&mut KeyTable<Object>, u64) {
        match self {
            Tables::One(table) => (table, hash),
            Tables::BySlot(tables) => tables.begin_change(hash),
        }
    }

    #[inline(always)]
    fn end_change(&mut self) {
        if let Tables::BySlot(tables) = self {
            tables.end_change();
        }
    }

    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<EntryRef<'_, Object>> {
        let (table, hash) = self.at(hash);
        table.get(hash, key)
    }

    /// The entry can be changed in all but its expiry.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, key: &[u8]) -> Option<EntryMut<'_, Object>> {
        let (table, hash) = self.at_mut(hash);
        table.get_mut(hash, key)
    }

    #[inline]
    pub fn contains(&self, hash: u64, key: &[u8]) -> bool {
        let (table, hash) = self.at(hash);
        table.contains(hash, key)
    }

    /// See [`KeyTable::put_over`].
    #[inline]
    pub fn put_over(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_, Object>,
        expiry_ms: Option<i64>,
        access: impl FnOnce(Option<EntryRef<'_, Object>>) -> u32,
    ) -> Option<Removed<Object>> {
        let (table, hash) = self.begin_change(hash);
        let removed = table.put_over(hash, key, value, expiry_ms, access);
        self.end_change();
        removed
    }

    /// See [`KeyTable::put_new`].
    #[inline]
    pub fn put_new(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_, Object>,
        expiry_ms: Option<i64>,
        access: u32,
    ) {
        let (table, hash) = self.begin_change(hash);
        table.put_new(hash, key, value, expiry_ms, access);
        self.end_change();
    }

    #[inline]
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Removed<Object>> {
        if self.is_empty() {
            return None;
        }
        let (table, hash) = self.begin_change(hash);
        let removed = table.remove(hash, key);
        self.end_change();
        removed
    }

    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expiry_ms: Option<i64>) -> bool {
        if self.is_empty() {
            return false;
        }
        let (table, hash) = self.begin_change(hash);
        let is_set = table.set_expiry(hash, key, expiry_ms);
        self.end_change();
        is_set
    }

    /// Tables of slots are not sized: their shares of the keys are not known.
    pub fn reserve(&mut self, keys: usize) {
        if let Tables::One(table) = self {
            table.reserve(keys);
        }
    }

    #[inline]
    pub fn probe(&self, hash: u64) -> Probe {
        let (table, hash) = self.at(hash);
        Probe::start(table, hash)
    }

    #[inline]
    pub fn step_probe(&self, probe: &mut Probe) -> ProbeState<'_, Object> {
        let table = match self {
            Tables::One(table) => table,
            Tables::BySlot(tables) => tables.at_probe(probe),
        };
        probe.step(table)
    }

    pub fn iter(&self, scope: Scope) -> Iter<'_> {
        match self {
            Tables::One(table) => Iter::One(table.iter()),
            Tables::BySlot(tables) => Iter::BySlot(tables.iter(scope)),
        }
    }

    pub fn scan(&self, cursor: u64, scope: Scope, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        match self {
            Tables::One(table) => table.scan(cursor, visit),
            Tables::BySlot(tables) => tables.scan(cursor, scope, visit),
        }
    }

    pub fn scan_expiring(&mut self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        match self {
            Tables::One(table) => table.scan_expiring(cursor, visit),
            Tables::BySlot(tables) => tables.scan_expiring(cursor, visit),
        }
    }

    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        match self {
            Tables::One(table) => table.random(random),
            Tables::BySlot(tables) => tables.random(random),
        }
    }

    pub fn random_expiring(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        match self {
            Tables::One(table) => table.random_expiring(random),
            Tables::BySlot(tables) => tables.random_expiring(random),
        }
    }

    pub fn sample(
        &self,
        random: &mut Random,
        keys: usize,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        match self {
            Tables::One(table) => drop(table.sample(random, keys, only_expiring, visit)),
            Tables::BySlot(tables) => tables.sample(random, keys, only_expiring, visit),
        }
    }

    pub fn visit_bucket(
        &self,
        random: &mut Random,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        match self {
            Tables::One(table) => table.visit_bucket(random, only_expiring, visit),
            Tables::BySlot(tables) => tables.visit_bucket(random, only_expiring, visit),
        }
    }

    /// The tables of slots, if keys are divided so.
    pub fn by_slot(&self) -> Option<&SlotTables> {
        match self {
            Tables::One(_) => None,
            Tables::BySlot(tables) => Some(tables),
        }
    }

    pub fn check(&self) {
        match self {
            Tables::One(table) => table.check(),
            Tables::BySlot(tables) => tables.check(),
        }
    }
}
