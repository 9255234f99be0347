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
//! 4. Look-ups by key, and what is about all that is stored, find hidden slots ([`hidden`](super::hidden)) as any other:
//!    hiding changes only what [`Scope::Shown`] and the functions named so look at.

use super::super::Object;
use super::hidden::HiddenSlots;
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;
use structures::hash::HashSeed;
use structures::key_slot::{SLOTS, hash_in_table, slot_of_hash, slot_of_hash_in_table};
use structures::key_table::{self, EntryRef, KeyTable, Probe, Registration};
use structures::random::Random;
use wire::cluster_bus::SlotSet;

/// Slots of one group: the bits of a word.
const GROUP_SLOTS: usize = u64::BITS as usize;
/// Low bits of a cursor that are the position within a slot; the upper 14 of its 48 bits are the slot.
const CURSOR_IN_SLOT_BITS: u32 = 34;
/// A cursor of a slot's table has 48 bits; the database's cursor has its upper 34, and so the table's is that of the
/// database shifted by this number of bits.
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

/// Which slots an operation looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Those that are not hidden.
    Shown,
}

/// Sums over tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub keys: usize,
    pub expiring: usize,
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
    hidden: Option<Box<HiddenSlots>>,
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
            hidden: None,
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
        if let Some(hidden) = &mut self.hidden {
            hidden.reset(0);
        }
        true
    }

    #[cold]
    fn come_into_use(&mut self) {
        self.registration.enter();
        self.tables = (0..SLOTS).map(|_| KeyTable::new(self.seed)).collect();
        self.groups = vec![Group::default(); SLOTS / GROUP_SLOTS].into();
        if let Some(hidden) = &mut self.hidden {
            hidden.reset(self.groups.len());
        }
    }

    /// Hides these slots, and no others.
    pub fn hide(&mut self, slots: Option<Arc<SlotSet>>) {
        self.hidden = slots.map(|slots| {
            let mut hidden = HiddenSlots::new(Arc::clone(&slots));
            hidden.reset(self.groups.len());
            for (slot, table) in
                slots.iter().map(usize::from).filter_map(|slot| Some((slot, self.tables.get(slot)?)))
            {
                hidden.count(slot / GROUP_SLOTS, Counts::default(), Counts::of(table));
            }
            Box::new(hidden)
        });
    }

    /// The hidden slots, if there are any.
    pub fn hidden(&self) -> Option<&Arc<SlotSet>> {
        self.hidden.as_ref().map(|hidden| hidden.slots())
    }

    fn is_hidden(&self, slot: usize) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.contains(slot))
    }

    /// Sums over the tables that are not hidden.
    pub fn shown(&self) -> Counts {
        let mut counts = self.total;
        if let Some(hidden) = &self.hidden {
            counts -= hidden.total();
        }
        counts
    }

    /// As [`SlotTables::shown`], of one group.
    fn shown_of_group(&self, group: usize) -> Counts {
        let mut counts = self.groups[group].counts;
        if let Some(hidden) = &self.hidden {
            counts -= hidden.counts_of_group(group);
        }
        counts
    }

    fn shown_of_slot(&self, slot: usize) -> Counts {
        if self.is_hidden(slot) { Counts::default() } else { Counts::of(&self.tables[slot]) }
    }

    /// The bits of the tables of a group that have buckets.
    fn used(&self, group: usize, scope: Scope) -> u64 {
        let used = self.groups[group].used;
        match &self.hidden {
            Some(hidden) if scope == Scope::Shown => used & !hidden.of_group(group),
            _ => used,
        }
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
            if let Some(hidden) = self.hidden.as_mut().filter(|hidden| hidden.contains(slot)) {
                hidden.count(slot / GROUP_SLOTS, before, after);
            }
        }
    }

    /// The first slot from `slot` on whose table has buckets.
    pub fn next_used(&self, slot: usize, scope: Scope) -> Option<usize> {
        let group = slot / GROUP_SLOTS;
        if group >= self.groups.len() {
            return None;
        }
        let first = self.used(group, scope) >> (slot % GROUP_SLOTS);
        if first != 0 {
            return Some(slot + first.trailing_zeros() as usize);
        }
        let later = (group + 1..self.groups.len()).map(|at| (at, self.used(at, scope)));
        let (at, used) = later.into_iter().find(|(_, used)| *used != 0)?;
        Some(at * GROUP_SLOTS + used.trailing_zeros() as usize)
    }

    /// The slot of the `rank`-th shown key, bucket or whatever `count` takes from the counts, and the rank in it.
    fn slot_of_rank(&self, mut rank: usize, count: impl Fn(&Counts) -> usize) -> Option<usize> {
        for at in 0..self.groups.len() {
            let in_group = count(&self.shown_of_group(at));
            if rank < in_group {
                let slots = at * GROUP_SLOTS..(at + 1) * GROUP_SLOTS;
                return slots.into_iter().find(|&slot| {
                    let in_slot = count(&self.shown_of_slot(slot));
                    let found = rank < in_slot;
                    rank = rank.wrapping_sub(in_slot);
                    found
                });
            }
            rank -= in_group;
        }
        None
    }

    /// As [`KeyTable::scan`] over the tables of `scope`.
    pub fn scan(&self, cursor: u64, scope: Scope, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        let Some((slot, within)) = self.position(cursor, scope) else { return 0 };
        let next = self.tables[slot].scan(within, visit);
        self.cursor(slot, next, scope)
    }

    /// As [`KeyTable::scan_expiring`] over all tables that are not hidden.
    pub fn scan_expiring(&mut self, cursor: u64, visit: &mut dyn FnMut(EntryRef<'_, Object>)) -> u64 {
        let Some((mut slot, mut within)) = self.position(cursor, Scope::Shown) else { return 0 };
        while self.tables[slot].expiring_len() == 0 {
            let Some(next) = self.next_with(slot + 1, |counts| counts.expiring) else { return 0 };
            (slot, within) = (next, 0);
        }
        let next = self.tables[slot].scan_expiring(within, visit);
        self.cursor(slot, next, Scope::Shown)
    }

    /// The first shown slot from `slot` on that has some of what `count` takes from the counts; groups without any are
    /// passed over.
    fn next_with(&self, mut slot: usize, count: impl Fn(&Counts) -> usize) -> Option<usize> {
        while let Some(used) = self.next_used(slot, Scope::Shown) {
            if count(&self.shown_of_group(used / GROUP_SLOTS)) == 0 {
                slot = (used / GROUP_SLOTS + 1) * GROUP_SLOTS;
            } else if count(&Counts::of(&self.tables[used])) == 0 {
                slot = used + 1;
            } else {
                return Some(used);
            }
        }
        None
    }

    /// The first slot from `slot` on that has keys.
    pub fn next_with_keys(&self, slot: usize) -> Option<usize> {
        self.next_with(slot, |counts| counts.keys)
    }

    /// The first used slot at or behind the cursor, and the cursor in its table.
    fn position(&self, cursor: u64, scope: Scope) -> Option<(usize, u64)> {
        let slot = usize::from(slot_of_cursor(cursor));
        let used = self.next_used(slot, scope)?;
        let within = if used == slot { (cursor & CURSOR_IN_SLOT) << CURSOR_SHIFT } else { 0 };
        Some((used, within))
    }

    /// The database's cursor for the next position of a slot's table; 0 is behind its last.
    fn cursor(&self, slot: usize, next: u64, scope: Scope) -> u64 {
        let next_slot =
            |slot| self.next_used(slot, scope).map_or(0, |next| (next as u64) << CURSOR_IN_SLOT_BITS);
        match next {
            0 => next_slot(slot + 1),
            next => (slot as u64) << CURSOR_IN_SLOT_BITS | next >> CURSOR_SHIFT,
        }
    }

    /// As [`KeyTable::random`], of what is not hidden.
    pub fn random(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        let slot = self.random_slot(random, |counts| counts.keys)?;
        self.tables[slot].random(random)
    }

    /// As [`KeyTable::random_expiring`], of what is not hidden.
    pub fn random_expiring(&self, random: &mut Random) -> Option<EntryRef<'_, Object>> {
        let slot = self.random_slot(random, |counts| counts.expiring)?;
        self.tables[slot].random_expiring(random)
    }

    fn random_slot(&self, random: &mut Random, count: impl Fn(&Counts) -> usize) -> Option<usize> {
        let all = count(&self.shown());
        if all == 0 { None } else { self.slot_of_rank(random.index(all), count) }
    }

    /// As [`KeyTable::sample`], of what is not hidden; goes on in the slots that follow.
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
            slot = self.next_with(slot + 1, count).or_else(|| self.next_with(0, count)).unwrap_or(first);
            if sampled >= n || slot == first {
                return;
            }
        }
    }

    /// As [`KeyTable::visit_bucket`], of what is not hidden.
    pub fn visit_bucket(
        &self,
        random: &mut Random,
        only_expiring: bool,
        visit: &mut dyn FnMut(EntryRef<'_, Object>),
    ) {
        let shown = self.shown();
        if only_expiring && shown.expiring < shown.keys / 2 {
            if let Some(entry) = self.random_expiring(random) {
                visit(entry);
            }
        } else if let Some(slot) = self.random_slot(random, |counts| counts.buckets) {
            self.tables[slot].visit_bucket(random, only_expiring, visit);
        }
    }

    /// Resizes some of the tables, rearranging at most about `buckets_max` buckets in all, and frees the last bucket of
    /// those without keys. The next call goes on with a table that is not finished.
    pub fn step(&mut self, buckets_max: usize) {
        let mut left = buckets_max;
        for _ in 0..STEPPED_TABLES {
            let next = |from| self.next_used(from, Scope::All);
            let Some(slot) = next(self.next_to_step).or_else(|| next(0)) else { return };
            let mut is_unfinished = false;
            self.change_slot(slot, |table| {
                let done;
                (done, is_unfinished) = table.step(left);
                table.leave_use();
                left = left.saturating_sub(done);
            });
            self.next_to_step = if is_unfinished { slot } else { slot + 1 };
            if left == 0 {
                return;
            }
        }
    }

    /// Number of keys in a slot.
    pub fn keys_in_slot(&self, slot: u16) -> usize {
        self.tables.get(usize::from(slot)).map_or(0, KeyTable::len)
    }

    /// Number of keys with an expiry in a slot.
    pub fn expiring_in_slot(&self, slot: u16) -> usize {
        self.tables.get(usize::from(slot)).map_or(0, KeyTable::expiring_len)
    }

    /// Iterates over the keys of a slot.
    pub fn iter_slot(&self, slot: u16) -> impl Iterator<Item = EntryRef<'_, Object>> {
        self.tables.get(usize::from(slot)).into_iter().flat_map(KeyTable::iter)
    }

    /// Iterates over the keys of `scope` in the order of their hashes.
    pub fn iter(&self, scope: Scope) -> Iter<'_> {
        Iter { tables: self, scope, next: 0, keys: None }
    }

    pub fn check(&self) {
        let (mut total, mut hidden) = (Counts::default(), Counts::default());
        for (at, group) in self.groups.iter().enumerate() {
            let (mut counts, mut hidden_counts, mut used) = (Counts::default(), Counts::default(), 0u64);
            for slot in at * GROUP_SLOTS..(at + 1) * GROUP_SLOTS {
                let table = &self.tables[slot];
                table.check();
                counts += Counts::of(table);
                if self.is_hidden(slot) {
                    hidden_counts += Counts::of(table);
                }
                used |= u64::from(table.buckets() > 0) << (slot % GROUP_SLOTS);
                for entry in table.iter() {
                    let own = usize::from(structures::key_slot::key_slot(entry.key()));
                    assert_eq!(own, slot, "slots of the keyspace: invariant 1");
                }
            }
            assert_eq!(group.counts, counts, "slots of the keyspace: invariant 2");
            assert_eq!(group.used, used, "slots of the keyspace: invariant 2");
            let told = self.hidden.as_ref().map(|hidden| hidden.counts_of_group(at)).unwrap_or_default();
            assert_eq!(told, hidden_counts, "hidden slots: invariant 1");
            hidden += hidden_counts;
            total += counts;
        }
        assert_eq!(self.total, total, "slots of the keyspace: invariant 2");
        let told = self.hidden.as_ref().map(|hidden| hidden.total()).unwrap_or_default();
        assert_eq!(told, hidden, "hidden slots: invariant 2");
    }
}

/// See [`SlotTables::iter`].
pub struct Iter<'a> {
    tables: &'a SlotTables,
    scope: Scope,
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
            let slot = self.tables.next_used(self.next, self.scope)?;
            self.next = slot + 1;
            self.keys = Some(self.tables.tables[slot].iter());
        }
    }
}
