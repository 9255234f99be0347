//! The packed set: members only, on the pages of [`super::PackedMap`].

use super::page::{NEVER, Record};
use super::probe::Probe;
use super::table::{Format, Table};
use crate::hash::HashSeed;
use crate::random::Random;
use crate::short_bytes::copy_bytes;

/// The record is the member; its length is in the page's column.
struct Member;

impl Format for Member {
    fn record_len(key: &[u8], _value: &[u8], _large: bool) -> usize {
        key.len()
    }

    fn write(key: &[u8], _value: &[u8], _large: bool, record: &mut [u8]) {
        copy_bytes(key, record);
    }

    #[inline(always)]
    fn read(record: Record<'_>) -> (&[u8], &[u8]) {
        record.bytes.split_at(record.bytes.len())
    }
}

/// A set of byte strings in packed pages. See the [module](super) for the layout.
#[derive(Clone)]
pub struct PackedSet {
    table: Table<Member>,
}

impl std::fmt::Debug for PackedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl PackedSet {
    /// Creates an empty set, which allocates nothing.
    pub const fn new(seed: HashSeed) -> PackedSet {
        PackedSet { table: Table::new(seed) }
    }

    /// Moves all members out, leaving the set empty.
    pub fn take(&mut self) -> PackedSet {
        let seed = self.table.seed;
        std::mem::replace(self, PackedSet::new(seed))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member's hash, for the `_hashed` forms and [`PackedSet::probe`].
    #[inline]
    pub fn hash(&self, member: &[u8]) -> u64 {
        self.table.hash(member)
    }

    /// Returns whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.contains_hashed(self.hash(member), member)
    }

    /// As [`PackedSet::contains`], with the member's hash.
    #[inline]
    pub fn contains_hashed(&self, hash: u64, member: &[u8]) -> bool {
        self.table.get(hash, member).is_some()
    }

    /// Adds the member; returns whether it is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.insert_hashed(self.hash(member), member)
    }

    /// As [`PackedSet::insert`], with the member's hash.
    pub fn insert_hashed(&mut self, hash: u64, member: &[u8]) -> bool {
        Self::insert_into(&mut self.table, hash, member)
    }

    fn insert_into(table: &mut Table<Member>, hash: u64, member: &[u8]) -> bool {
        if table.find(hash, member).is_some() {
            return false;
        }
        table.add(hash, member, b"", NEVER);
        true
    }

    /// Announces that the set will have this number of members: makes room for them ahead. To be repeated between
    /// insertions.
    #[inline(always)]
    pub fn expect(&mut self, members: u64) {
        self.table.expect(members);
    }

    /// Adds members; returns the number of new ones.
    pub fn insert_all<'a>(&mut self, members: impl Iterator<Item = &'a [u8]>) -> usize {
        let pairs = members.map(|member| (member, &b""[..]));
        self.table.insert_all(pairs, |table, hash, member, _| Self::insert_into(table, hash, member))
    }

    /// Removes the member; returns whether it was in the set.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.table.take(self.hash(member), member, |_| ()).is_some()
    }

    /// Iterates over all members in an arbitrary order, which stays the same until the set changes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.table.iter().map(|(member, _)| member)
    }

    /// Visits some members and returns the next cursor, 0 when done; start with 0. A member present from the
    /// first call to the last is visited at least once, whatever is inserted and removed between the calls. For
    /// the number of visits per call and the cursors see [`super::PackedMap::scan`].
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&[u8])) -> u64 {
        self.table.scan(cursor, wanted, &mut |member, _, _| visit(member))
    }

    /// A member drawn uniformly; none if the set is empty.
    pub fn random(&self, random: &mut Random) -> Option<&[u8]> {
        let (index, slot) = self.table.random(random)?;
        Some(self.table.read(index, slot).0)
    }

    /// Visits `wanted` different members, every choice equally likely; all members if there are no more.
    pub fn random_distinct(&self, wanted: usize, random: &mut Random, visit: &mut dyn FnMut(&[u8])) {
        self.table.random_distinct(wanted, random, &mut |member, _| visit(member));
    }

    /// Starts a lookup in steps, one fetch each.
    pub fn probe(&self, hash: u64) -> Probe<'_> {
        Probe::new(&self.table.directory, hash)
    }

    /// Bytes allocated for the set, without the size of this value.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The number of pages, for OBJECT LAYOUT.
    pub fn pages_len(&self) -> usize {
        self.table.pages_len()
    }

    /// Bytes of the pages used by columns and records, for OBJECT LAYOUT.
    pub fn used_bytes(&self) -> usize {
        self.table.used_bytes()
    }

    /// Bytes of the pages, for OBJECT LAYOUT.
    pub fn page_bytes(&self) -> usize {
        self.table.page_bytes()
    }

    /// Verifies every documented invariant; panics naming the one that fails. For tests.
    pub fn check(&self) {
        self.table.check();
    }
}
