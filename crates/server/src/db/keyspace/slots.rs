//! The tables of a database in a cluster: one for each slot, so that the keys of a slot are counted, listed and removed
//! without touching others.
//!
//! ```text
//! SlotTables -> group 0 -> table of slot 0        its place in the order of hashes is that of the slot
//!                          ...
//!                          table of slot 63
//!            -> group 1 -> table of slot 64 ...   each group counts keys, expiring keys and buckets of its tables
//! ```
//! Hashes and cursors are those of the whole database and begin with the slot, see [`structures::key_slot`].
//!
//! Invariants:
//! 1. A key is in the table of its slot.
//! 2. A group's bit of a table is set exactly if the table has buckets; its counts are the sums over its tables, `total`
//!    the sums over all groups.
//! 3. There are no tables at all unless one of them has buckets; then the database is registered as being in use.

use super::super::Object;
use std::ops::{AddAssign, SubAssign};
use structures::hash::HashSeed;
use structures::key_slot::{SLOTS, hash_in_table, slot_of_hash, slot_of_hash_in_table};
use structures::key_table::{self, EntryRef, KeyTable, Probe, Registration};
use structures::random::Random;

/// Slots of one group: the bits of a word.
const GROUP_SLOTS: usize = u64::BITS as usize;
/// Bits of a cursor that tell the place within a slot; the upper 14 of its 48 bits are the slot.
const CURSOR_IN_SLOT_BITS: u32 = 34;
/// Low bits that a cursor of the database lacks and one of a slot's table has.
const CURSOR_SHIFT: u32 = 14;
const CURSOR_IN_SLOT: u64 = (1 << CURSOR_IN_SLOT_BITS) - 1;
const CURSOR_SLOT_MASK: u64 = SLOTS as u64 - 1;
/// The cursor at which a slot begins.
pub fn cursor_of_slot(slot: u16) -> u64 {
    u64::from(slot) << CURSOR_IN_SLOT_BITS
}

/// The slot of a cursor's position.
pub fn slot_of_cursor(cursor: u64) -> u16 {
    (cursor >> CURSOR_IN_SLOT_BITS & CURSOR_SLOT_MASK) as u16
}

/// Tables that [`SlotTables::step`] visits.
const STEPPED_TABLES: usize = 64;

/// Sums over tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    keys: usize,
    expiring: usize,
    buckets: usize,
    bytes: usize,
}

impl Counts {
    #[inline]
    fn of(table: &KeyTable<Object>) -> Counts {
        Counts {
            keys: table.len(),
            expiring: table.expiring_len(),
            buckets: table.buckets(),
            bytes: table.table_bytes(),
        }
    }
}

impl AddAssign for Counts {
    #[inline]
    fn add_assign(&mut self, other: Counts) {
        self.keys += other.keys;
        self.expiring += other.expiring;
        self.buckets += other.buckets;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Counts {
    #[inline]
    fn sub_assign(&mut self, other: Counts) {
        self.keys -= other.keys;
        self.expiring -= other.expiring;
        self.buckets -= other.buckets;
        self.bytes -= other.bytes;
    }
}

#[derive(Clone, Copy, Default)]
struct Group {
    used: u64,
    counts: Counts,
}

/// See the module's documentation.
pub(super) struct SlotTables {
    /// One for each slot, or none.
    tables: Vec<KeyTable<Object>>,
    groups: Box<[Group]>,
    total: Counts,
    seed: HashSeed,
    registration: Registration,
    /// The slot at which [`SlotTables::step`] continues.
    next_to_step: usize,
    /// Looked in while there are no tables; always empty.
    none: KeyTable<Object>,
    /// The slot that is being changed, and the counts of its table before.
    under_change: (usize, Counts),
}

impl SlotTables {
    pub fn new(seed: HashSeed, registration: Registration) -> SlotTables {
        SlotTables {
            tables: Vec::new(),
            groups: Box::default(),
            total: Counts::default(),
            seed,
            registration,
            next_to_step: 0,
            none: KeyTable::new(seed),
            under_change: (0, Counts::default()),
        }
    }

    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    pub fn renumber(&mut self, registration: Registration) {
        if self.tables.is_empty() {
            registration.leave()
        } else {
            registration.enter()
        }
        self.registration = registration;
    }

    /// Returns tables that have no buckets to the unused state (invariant 3); returns whether they are in it.
    pub fn leave_use(&mut self) -> bool {
        if self.total.buckets > 0 {
            return false;
        }
        self.registration.leave();
        (self.tables, self.groups) = (Vec::new(), Box::default());
        true
    }

    #[cold]
    fn come_into_use(&mut self) {
        self.registration.enter();
        self.tables = (0..SLOTS).map(|_| KeyTable::new(self.seed)).collect();
        self.groups = vec![Group::default(); SLOTS / GROUP_SLOTS].into();
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.total.keys
    }

    pub fn expiring_len(&self) -> usize {
        self.total.expiring
    }

    #[inline]
    pub fn buckets(&self) -> usize {
        self.total.buckets
    }

    pub fn bytes(&self) -> usize {
        self.total.bytes
            + self.tables.capacity() * size_of::<KeyTable<Object>>()
            + self.groups.len() * size_of::<Group>()
    }

    /// The table of the slot with which the hash begins, and the hash in it.
    #[inline(never)]
    pub fn at(&self, hash: u64) -> (&KeyTable<Object>, u64) {
        let table = self.tables.get(usize::from(slot_of_hash(hash))).unwrap_or(&self.none);
        (table, hash_in_table(hash))
    }

    /// The table of the slot that the probe looks in.
    #[inline(never)]
    pub fn at_probe(&self, probe: &Probe) -> &KeyTable<Object> {
        self.tables.get(usize::from(slot_of_hash_in_table(probe.hash()))).unwrap_or(&self.none)
    }

    /// As [`SlotTables::at`], for changes to an entry that change no count.
    #[inline(never)]
    pub fn at_mut(&mut self, hash: u64) -> (&mut KeyTable<Object>, u64) {
        let table = self.tables.get_mut(usize::from(slot_of_hash(hash))).unwrap_or(&mut self.none);
        (table, hash_in_table(hash))
    }

    /// As [`SlotTables::at`], for a change that [`SlotTables::end_change`] ends. Creates all tables if there are none.
    #[inline(never)]
    pub fn begin_change(&mut self, hash: u64) -> (&mut KeyTable<Object>, u64) {
        if self.tables.is_empty() {
            self.come_into_use();
        }
        let slot = usize::from(slot_of_hash(hash));
        let table = &mut self.tables[slot];
        self.under_change = (slot, Counts::of(table));
        (table, hash_in_table(hash))
    }

    /// Counts what has changed since [`SlotTables::begin_change`].
    #[inline(never)]
    pub fn end_change(&mut self) {
        let (slot, before) = self.under_change;
        self.count(slot, before);
    }

    fn change_slot(&mut self, slot: usize, change: impl FnOnce(&mut KeyTable<Object>)) {
        let before = Counts::of(&self.tables[slot]);
        change(&mut self.tables[slot]);
        self.count(slot, before);
    }

    /// Upholds invariant 2 after a change to a table which had these counts before.
    fn count(&mut self, slot: usize, before: Counts) {
        let after = Counts::of(&self.tables[slot]);
        if before != after {
            let group = &mut self.groups[slot / GROUP_SLOTS];
            for counts in [&mut group.counts, &mut self.total] {
                *counts += after;
                *counts -= before;
            }
            let bit = 1 << (slot % GROUP_SLOTS);
            group.used = if after.buckets > 0 { group.used | bit } else { group.used & !bit };
        }
    }

    /// The first slot from `slot` on whose table has buckets.
    pub fn next_used(&self, slot: usize) -> Option<usize> {
        let first = self.groups.get(slot / GROUP_SLOTS)?.used >> (slot % GROUP_SLOTS);
        if first != 0 {
            return Some(slot + first.trailing_zeros() as usize);
        }
        let later = self.groups.iter().enumerate().skip(slot / GROUP_SLOTS + 1);
        let (at, group) = later.into_iter().find(|(_, group)| group.used != 0)?;
        Some(at * GROUP_SLOTS + group.used.trailing_zeros() as usize)
    }

    /// The slot of the `rank`-th key, bucket or whatever `count` takes from the counts, and the rank in it.
    fn slot_of_rank(&self, mut rank: usize, count: impl Fn(&Counts) -> usize) -> Option<usize> {
        for (at, group) in self.groups.iter().enumerate() {
            let in_group = count(&group.counts);
            if rank < in_group {
                let slots = at * GROUP_SLOTS..(at + 1) * GROUP_SLOTS;
                return slots.into_iter().find(|&slot| {
                    let in_slot = count(&Counts::of(&self.tables[slot]));
                    let found = rank < in_slot;
                    rank = rank.wrapping_sub(in_slot);
                    found
                });
            }
            rank -= in_group;
        }
        None
    }

    /// As [`KeyTable::scan`] over all tables.
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        let Some((slot, within)) = self.position(cursor) else { return 0 };
        let next = self.tables[slot].scan(within, visit);
        self.cursor(slot, next)
    }

    /// As [`KeyTable::scan_expiring`] over all tables.
    pub fn scan_expiring(&mut self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        let Some((mut slot, mut within)) = self.position(cursor) else { return 0 };
        while self.tables[slot].expiring_len() == 0 {
            let Some(next) = self.next_expiring(slot + 1) else { return 0 };
            (slot, within) = (next, 0);
        }
        let next = self.tables[slot].scan_expiring(within, visit);
        self.cursor(slot, next)
    }

    /// The first slot from `slot` on with keys that have an expiry.
    fn next_expiring(&self, mut slot: usize) -> Option<usize> {
        while let Some(used) = self.next_used(slot) {
            if self.groups[used / GROUP_SLOTS].counts.expiring == 0 {
                slot = (used / GROUP_SLOTS + 1) * GROUP_SLOTS;
            } else if self.tables[used].expiring_len() == 0 {
                slot = used + 1;
            } else {
                return Some(used);
            }
        }
        None
    }

    /// The first used slot at or behind the cursor, and the cursor in its table.
    fn position(&self, cursor: u64) -> Option<(usize, u64)> {
        let slot = usize::from(slot_of_cursor(cursor));
        let used = self.next_used(slot)?;
        let within = if used == slot { (cursor & CURSOR_IN_SLOT) << CURSOR_SHIFT } else { 0 };
        Some((used, within))
    }

    /// The database's cursor for the next position of a slot's table; 0 is behind its last.
    fn cursor(&self, slot: usize, next: u64) -> u64 {
        let next_slot = |slot| self.next_used(slot).map_or(0, |next| (next as u64) << CURSOR_IN_SLOT_BITS);
        match next {
            0 => next_slot(slot + 1),
            next => (slot as u64) << CURSOR_IN_SLOT_BITS | next >> CURSOR_SHIFT,
        }
    }

    /// As [`KeyTable::random`].
    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        let slot = self.random_slot(random, |counts| counts.keys)?;
        self.tables[slot].random(random)
    }

    /// As [`KeyTable::random_expiring`].
    pub fn random_expiring(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        let slot = self.random_slot(random, |counts| counts.expiring)?;
        self.tables[slot].random_expiring(random)
    }

    fn random_slot(&self, random: &mut Random, count: impl Fn(&Counts) -> usize) -> Option<usize> {
        let all = count(&self.total);
        if all == 0 { None } else { self.slot_of_rank(random.index(all), count) }
    }

    /// As [`KeyTable::sample`]; goes on in the slots that follow.
    pub fn sample(
        &self,
        random: &mut Random,
        n: usize,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        let count = |counts: &Counts| if only_expiring { counts.expiring } else { counts.keys };
        let Some(first) = self.random_slot(random, count) else { return };
        let (mut sampled, mut slot) = (0, first);
        loop {
            sampled += self.tables[slot].sample(random, n - sampled, only_expiring, visit);
            let next = |from| if only_expiring { self.next_expiring(from) } else { self.next_used(from) };
            slot = next(slot + 1).or_else(|| next(0)).unwrap_or(first);
            if sampled >= n || slot == first {
                return;
            }
        }
    }

    /// As [`KeyTable::visit_bucket`].
    pub fn visit_bucket(
        &self,
        random: &mut Random,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        if only_expiring && self.total.expiring < self.total.keys / 2 {
            if let Some(entry) = self.random_expiring(random) {
                visit(entry);
            }
        } else if let Some(slot) = self.random_slot(random, |counts| counts.buckets) {
            self.tables[slot].visit_bucket(random, only_expiring, visit);
        }
    }

    /// Resizes some of the tables, and frees the last bucket of those without keys.
    pub fn step(&mut self, buckets_max: usize) {
        for _ in 0..STEPPED_TABLES {
            let Some(slot) = self.next_used(self.next_to_step).or_else(|| self.next_used(0)) else { return };
            self.change_slot(slot, |table| {
                table.step(buckets_max);
                table.leave_use();
            });
            self.next_to_step = slot + 1;
        }
    }

    /// Number of keys in a slot.
    pub fn keys_in_slot(&self, slot: u16) -> usize {
        self.tables.get(usize::from(slot)).map_or(0, KeyTable::len)
    }

    /// Iterates over the keys of a slot.
    pub fn iter_slot(&self, slot: u16) -> impl Iterator<Item = EntryRef<'_, Object>> {
        self.tables.get(usize::from(slot)).into_iter().flat_map(KeyTable::iter)
    }

    /// Iterates over all keys in the order of their hashes.
    pub fn iter(&self) -> Iter<'_> {
        Iter { tables: self, next: 0, keys: None }
    }

    pub fn check(&self) {
        let mut total = Counts::default();
        for (at, group) in self.groups.iter().enumerate() {
            let (mut counts, mut used) = (Counts::default(), 0u64);
            for slot in at * GROUP_SLOTS..(at + 1) * GROUP_SLOTS {
                let table = &self.tables[slot];
                table.check();
                counts += Counts::of(table);
                used |= u64::from(table.buckets() > 0) << (slot % GROUP_SLOTS);
                for entry in table.iter() {
                    let own = usize::from(structures::key_slot::key_slot(entry.key()));
                    assert_eq!(own, slot, "slots of the keyspace: invariant 1");
                }
            }
            assert_eq!(group.counts, counts, "slots of the keyspace: invariant 2");
            assert_eq!(group.used, used, "slots of the keyspace: invariant 2");
            total += counts;
        }
        assert_eq!(self.total, total, "slots of the keyspace: invariant 2");
    }
}

/// See [`SlotTables::iter`].
pub struct Iter<'a> {
    tables: &'a SlotTables,
    /// The slot at which to look for the next table.
    next: usize,
    keys: Option<key_table::Iter<'a, Object>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = EntryRef<'a, Object>;

    fn next(&mut self) -> Option<EntryRef<'a, Object>> {
        loop {
            if let Some(entry) = self.keys.as_mut().and_then(Iterator::next) {
                return Some(entry);
            }
            let slot = self.tables.next_used(self.next)?;
            self.next = slot + 1;
            self.keys = Some(self.tables.tables[slot].iter());
        }
    }
}
