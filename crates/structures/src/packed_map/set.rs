//! The packed set: members only, on the pages of [`super::PackedMap`].

use super::page::{NEVER, Record};
use super::probe::Probe;
use super::table::{Format, INSERTED_TOGETHER, Table};
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
    /// An empty set, which allocates nothing.
    pub const fn new(seed: HashSeed) -> PackedSet {
        PackedSet { table: Table::new(seed) }
    }

    /// All members, leaving none.
    pub fn take(&mut self) -> PackedSet {
        let seed = self.table.seed;
        std::mem::replace(self, PackedSet::new(seed))
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member's hash, for the `_hashed` forms and [`PackedSet::probe`].
    #[inline]
    pub fn hash(&self, member: &[u8]) -> u64 {
        self.table.hash(member)
    }

    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.contains_hashed(self.hash(member), member)
    }

    #[inline]
    pub fn contains_hashed(&self, hash: u64, member: &[u8]) -> bool {
        self.table.get(hash, member).is_some()
    }

    /// True if the member is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.insert_hashed(self.hash(member), member)
    }

    pub fn insert_hashed(&mut self, hash: u64, member: &[u8]) -> bool {
        if self.table.find(hash, member).is_some() {
            return false;
        }
        self.table.add(hash, member, b"", NEVER);
        true
    }

    /// Said while members are added that are going to be so many, where that is known: makes room for them ahead.
    #[inline(always)]
    pub fn expect(&mut self, members: u64) {
        self.table.expect(members);
    }

    /// Adds members; returns how many are new.
    pub fn insert_all<'a>(&mut self, mut members: impl Iterator<Item = &'a [u8]>) -> usize {
        if !self.table.is_cold() {
            return members.filter(|member| self.insert(member)).count();
        }
        let mut added = 0;
        let mut group: [(u64, &[u8]); INSERTED_TOGETHER] = [(0, b""); INSERTED_TOGETHER];
        loop {
            let mut count = 0;
            for (place, member) in group.iter_mut().zip(members.by_ref()) {
                *place = (self.hash(member), member);
                count += 1;
            }
            self.table.prefetch_insertions(group[..count].iter().map(|&(hash, _)| hash));
            for &(hash, member) in &group[..count] {
                added += usize::from(self.insert_hashed(hash, member));
            }
            if count < INSERTED_TOGETHER {
                return added;
            }
        }
    }

    /// True if the member was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.table.take(self.hash(member), member, |_| ()).is_some()
    }

    /// All members, in no order that means anything; the same order until the set changes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.table.iter().map(|(member, _)| member)
    }

    /// Visits some members and returns the next cursor, 0 when done; start with 0. A member present from the
    /// first call to the last is visited at least once, whatever is inserted and removed between the calls.
    /// How many a call visits, and what cursors are: see [`super::PackedMap::scan`].
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&[u8])) -> u64 {
        self.table.scan(cursor, wanted, &mut |member, _, _| visit(member))
    }

    /// A member, each equally likely; none if the set is empty.
    pub fn random(&self, random: &mut Random) -> Option<&[u8]> {
        let (index, slot) = self.table.random(random)?;
        Some(self.table.read(index, slot).0)
    }

    /// `wanted` different members, every choice equally likely; all if there are no more.
    pub fn random_distinct(&self, wanted: usize, random: &mut Random, visit: &mut dyn FnMut(&[u8])) {
        self.table.random_distinct(wanted, random, &mut |member, _| visit(member));
    }

    /// Starts a lookup in steps, one fetch each.
    pub fn probe(&self, hash: u64) -> Probe<'_> {
        Probe::new(&self.table.directory, hash)
    }

    /// Everything allocated for the set, this value's own size left out.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// How many pages there are, for OBJECT LAYOUT.
    pub fn pages_len(&self) -> usize {
        self.table.pages_len()
    }

    /// Bytes of the pages that hold columns and records, for OBJECT LAYOUT.
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
