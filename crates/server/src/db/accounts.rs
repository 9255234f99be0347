//! Accounts: number and memory of the keys of each class, updated as keys change.
//!
//! ```text
//!  Database -> Accounts      none while counting is off
//!                by prefix   -> Account -> Classes: from key to class
//!                                          counted_to: hashes below this are counted, the others not yet
//!                                          tallies: one for each class
//!                                            Tally -> cells: type and encoding -> keys, bytes, keys with an expiry
//! ```
//! A key's [`Image`] is counted: its bytes as MEMORY USAGE answers them, its type, its encoding and whether it expires.
//! Images are taken before and after every change, all in [`Database`](super::keyspace::Database), through which every
//! change goes. Accounts are part of their database, so they move with it when databases are swapped, emptied, or
//! replaced by loaded ones.
//!
//! An account started on a database with keys counts them incrementally, a few buckets at a time, in the order of their
//! hashes. Changes to keys not yet reached are not counted: those keys are counted with their state when reached.
//!
//! Invariants, verified by [`Accounts::check`] against all keys:
//! 1. The tallies are exactly the sums of the images of the keys whose hashes are below `counted_to`.
//! 2. A key's class never changes: learnt classes are never removed (see [`classes`]).
//!
//! Expired keys count until they are removed: they take memory until then.
//!
//! Rejected by arithmetic: a slot for each of the 13 pairs of type and encoding (312 bytes a class, and a list of
//! encodings to maintain beside the types): a class has one or two, and is searched from the first.

pub mod big_keys;
pub mod classes;
#[cfg(test)]
mod tests;

use super::keyspace::Database;
use super::object::{encoding_name_of, kind_of, memory_bytes_of};
use super::{Db, Key, Kind, Object};
use crate::config::PrefixRule;
use classes::{Classes, Ruled};
use std::collections::BTreeMap;
use std::sync::Arc;
use structures::key_table::EntryRef;

/// What accounts require of a database's table.
pub(super) trait Keys {
    fn hash(&self, key: &[u8]) -> u64;

    /// Visits the entries of one bucket or more from the cursor on, which is a hash without its lowest [`CURSOR_SHIFT`]
    /// bits. Returns the next cursor, 0 at the end.
    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64;

    fn iter(&self) -> impl Iterator<Item = EntryRef<'_, Object>>;
}

/// The counted properties of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    kind: Kind,
    encoding: &'static str,
    bytes: u64,
    expires: bool,
}

impl Image {
    #[inline(never)]
    pub(super) fn of(entry: EntryRef<'_, Object>) -> Image {
        Image {
            kind: kind_of(entry),
            encoding: encoding_name_of(entry),
            bytes: memory_bytes_of(entry) as u64,
            expires: entry.expiry_ms().is_some(),
        }
    }
}

/// A key and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its database.
    pub db_index: usize,
    /// Type of its value.
    pub kind: Kind,
    /// Encoding of its value, as OBJECT ENCODING names it.
    pub encoding: &'static str,
    /// Memory of key and value.
    pub bytes: usize,
    /// Number of elements; a string's length.
    pub elements: usize,
}

/// The keys of one type and encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Type of the values.
    pub kind: Kind,
    /// Encoding of the values, as OBJECT ENCODING names it.
    pub encoding: &'static str,
    /// Number of keys.
    pub keys: u64,
    /// Memory of keys and values.
    pub bytes: u64,
    /// Keys with an expiry.
    pub expiring: u64,
}

/// The keys of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    cells: Vec<Cell>,
}

impl Tally {
    fn cell(&mut self, kind: Kind, encoding: &'static str) -> &mut Cell {
        let found = self.cells.iter().position(|cell| cell.kind == kind && cell.encoding == encoding);
        let at = found.unwrap_or_else(|| {
            self.cells.push(Cell { kind, encoding, keys: 0, bytes: 0, expiring: 0 });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    fn add(&mut self, image: Image) {
        let cell = self.cell(image.kind, image.encoding);
        cell.keys += 1;
        cell.bytes += image.bytes;
        cell.expiring += u64::from(image.expires);
    }

    fn subtract(&mut self, image: Image) {
        let cell = self.cell(image.kind, image.encoding);
        cell.keys -= 1;
        cell.bytes -= image.bytes;
        cell.expiring -= u64::from(image.expires);
    }

    /// Counts by type and encoding, without the empty ones, unordered.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.keys > 0)
    }

    /// Number of keys.
    pub fn keys(&self) -> u64 {
        self.cells.iter().map(|cell| cell.keys).sum()
    }

    /// Memory of the keys in bytes.
    pub fn bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.bytes).sum()
    }

    /// Keys with an expiry.
    pub fn expiring(&self) -> u64 {
        self.cells.iter().map(|cell| cell.expiring).sum()
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        for from in other.cells() {
            let to = self.cell(from.kind, from.encoding);
            to.keys += from.keys;
            to.bytes += from.bytes;
            to.expiring += from.expiring;
        }
    }

    /// The non-empty cells in order, for comparison.
    fn sorted(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = self.cells().copied().collect();
        cells.sort_unstable_by_key(|cell| (cell.kind as u8, cell.encoding));
        cells
    }
}

/// Counts of a database's keys in one respect.
#[derive(Debug)]
pub struct Account {
    classes: Classes,
    tallies: Vec<Tally>,
    /// The first hash whose keys are not counted yet; `None`: all keys are counted.
    counted_to: Option<u64>,
}

impl Account {
    /// Creates the account of a database that has keys already, or none.
    fn new(classes: Classes, is_empty: bool) -> Account {
        Account { classes, tallies: Vec::new(), counted_to: (!is_empty).then_some(0) }
    }

    fn tally(&mut self, class: usize) -> &mut Tally {
        if class >= self.tallies.len() {
            self.tallies.resize_with(class + 1, Tally::default);
        }
        &mut self.tallies[class]
    }

    fn moved(&mut self, key: Key<'_>, before: Option<Image>, after: Option<Image>) {
        // Keys not reached yet are counted with their state when reached.
        if self.counted_to.is_some_and(|counted_to| key.hash() >= counted_to) {
            return;
        }
        let class = self.classes.class_of(key.bytes());
        let tally = self.tally(class);
        if let Some(after) = after {
            tally.add(after);
        }
        if let Some(before) = before {
            tally.subtract(before);
        }
    }

    /// Counts the keys of the next bucket.
    fn step(&mut self, table: &impl Keys) {
        let Some(from) = self.counted_to else { return };
        let next = table.scan(from >> CURSOR_SHIFT, &mut |entry| {
            // The table may have shrunk: a bucket can then begin before the counted hashes.
            if table.hash(entry.key()) >= from {
                let class = self.classes.class_of(entry.key());
                self.tally(class).add(Image::of(entry));
            }
        });
        self.counted_to = (next != 0).then_some(next << CURSOR_SHIFT);
    }

    /// Whether all keys are counted.
    pub fn is_exact(&self) -> bool {
        self.counted_to.is_none()
    }

    /// Each class that has keys, with its name.
    pub fn classes(&self) -> impl Iterator<Item = (&[u8], &Tally)> {
        let named = self.tallies.iter().enumerate().map(|(class, tally)| (self.classes.name(class), tally));
        named.filter(|(_, tally)| tally.keys() > 0)
    }

    fn check(&self, table: &impl Keys) {
        let mut expected = vec![Tally::default(); self.tallies.len()];
        for entry in table.iter() {
            if self.counted_to.is_none_or(|counted_to| table.hash(entry.key()) < counted_to) {
                expected[self.classes.known_class_of(entry.key())].add(Image::of(entry));
            }
        }
        for (class, (expected, tally)) in expected.iter().zip(&self.tallies).enumerate() {
            let name = self.classes.name(class).escape_ascii().to_string();
            assert_eq!(tally.sorted(), expected.sorted(), "tally of the class '{name}'");
            assert!(tally.cells.iter().all(|cell| cell.keys > 0 || cell.bytes == 0), "bytes of no keys");
        }
    }
}

impl Db {
    /// Counts keys by prefix as the rule says; existing keys are counted incrementally.
    pub fn count_prefixes(&mut self, rule: &PrefixRule) {
        if *rule != self.prefix_rule {
            self.prefix_rule = rule.clone();
            self.begin_counting_prefixes();
        }
    }

    /// Counts keys by policy rule unless that is done already; existing keys are counted incrementally.
    pub fn count_policies(&mut self) {
        if self.tallies(Respect::Policy).is_none() {
            self.counts_keys = true;
            let rules = Arc::new(Ruled::new(self.policies.globs()));
            let classes = || Some(Classes::Ruled(Arc::clone(&rules)));
            self.keyspace.iter_all_mut().for_each(|database| database.count(Respect::Policy, classes()));
        }
    }

    /// Drops the tallies by policy after the rules have changed.
    pub fn forget_policy_tallies(&mut self) {
        self.keyspace.iter_all_mut().for_each(|database| database.count(Respect::Policy, None));
    }

    pub(super) fn begin_counting_prefixes(&mut self) {
        self.counts_keys = true;
        let rule = &self.prefix_rule;
        self.keyspace
            .iter_all_mut()
            .for_each(|database| database.count(Respect::Prefix, Classes::by_prefix(rule)));
    }

    /// Whether there are keys not counted yet.
    #[inline]
    pub fn has_keys_to_count(&self) -> bool {
        self.counts_keys
    }

    /// Continues counting keys, up to `buckets` buckets of each database.
    pub fn step_accounts(&mut self, buckets: usize) {
        let mut goes_on = false;
        self.keyspace.for_each_mut(|database| goes_on |= database.step_accounts(buckets));
        self.counts_keys = goes_on;
    }

    /// Measures the recorded large keys again.
    pub fn measure_big_keys(&mut self) {
        self.keyspace.for_each_mut(Database::measure_big_keys);
    }

    /// The largest recorded keys with their current sizes.
    pub fn big_keys(&mut self, count: usize) -> Vec<BigKey> {
        self.measure_big_keys();
        let mut found = Vec::new();
        for (db_index, database) in self.keyspace.iter() {
            for key in database.big_keys().keys() {
                let entry = database.get(self.key(key));
                let Some(value) =
                    entry.map(|entry| self.value_of(entry)).filter(|value| !self.hides(value.expiry_ms()))
                else {
                    continue;
                };
                found.push(BigKey {
                    key: key.to_vec(),
                    db_index,
                    kind: value.kind(),
                    encoding: value.encoding_name(),
                    bytes: value.memory_bytes(),
                    elements: value.elements().unwrap_or_else(|| value.text().map_or(0, |text| text.len())),
                });
            }
        }
        found.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
        found.truncate(count);
        found
    }

    /// The tallies of all databases by class name, and whether they are exact. `None`: counting is off.
    pub fn tallies(&self, respect: Respect) -> Option<(BTreeMap<Box<[u8]>, Tally>, bool)> {
        let (mut tallies, mut is_exact) = (BTreeMap::<Box<[u8]>, Tally>::new(), true);
        self.keyspace.database(0).account(respect)?;
        for (_, database) in self.keyspace.iter() {
            let account = database.account(respect)?;
            is_exact &= account.is_exact();
            for (name, tally) in account.classes() {
                tallies.entry(name.into()).or_default().merge(tally);
            }
        }
        Some((tallies, is_exact))
    }
}

/// Number of low bits of the hash that a cursor of [`Keys::scan`] lacks.
const CURSOR_SHIFT: u32 = 16;

/// Respects in which keys are counted, each with its own classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Respect {
    /// By given or learnt prefixes.
    Prefix,
    /// By the rules of `key-policy`: from the first request until the rules change.
    Policy,
}

const RESPECTS: usize = 2;

/// All accounts of a database.
#[derive(Debug, Default)]
pub struct Accounts {
    by_respect: [Option<Account>; RESPECTS],
}

impl Accounts {
    /// Whether anything is counted.
    pub(super) fn are_kept(&self) -> bool {
        self.by_respect.iter().any(Option::is_some)
    }

    /// The accounts for an empty database that replaces the one with these.
    pub(super) fn renewed(&self) -> Accounts {
        let renewed = |account: &Option<Account>| {
            account.as_ref().map(|account| Account::new(account.classes.renewed(), true))
        };
        Accounts { by_respect: self.by_respect.each_ref().map(renewed) }
    }

    /// Starts counting, or stops it (`None`).
    pub(super) fn count(&mut self, respect: Respect, classes: Option<Classes>, is_empty: bool) {
        self.by_respect[respect as usize] = classes.map(|classes| Account::new(classes, is_empty));
    }

    /// The account in one respect, if it is kept.
    pub fn account(&self, respect: Respect) -> Option<&Account> {
        self.by_respect[respect as usize].as_ref()
    }

    /// Counts that a key was created, changed or removed.
    pub(super) fn moved(&mut self, key: Key<'_>, before: Option<Image>, after: Option<Image>) {
        if before != after {
            self.by_respect.iter_mut().flatten().for_each(|account| account.moved(key, before, after));
        }
    }

    /// Whether there may be keys that are not counted yet.
    pub(super) fn are_behind(&self) -> bool {
        self.by_respect.iter().flatten().any(|account| !account.is_exact())
    }

    /// Counts the keys of the next `buckets` buckets.
    pub(super) fn step(&mut self, table: &impl Keys, buckets: usize) {
        for account in self.by_respect.iter_mut().flatten() {
            (0..buckets).for_each(|_| account.step(table));
        }
    }

    /// Panics unless every account agrees with the table.
    pub(super) fn check(&self, table: &impl Keys) {
        self.by_respect.iter().flatten().for_each(|account| account.check(table));
    }
}
