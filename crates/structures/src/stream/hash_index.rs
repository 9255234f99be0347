//! A hash table with linear probing that maps hashes to the numbers of elements stored elsewhere.
//!
//! ```text
//!  slots: | number + 1, or 0 | hash | ...      as many as a power of two, searched from the hash on
//! ```
//!
//! Invariants:
//! 1. Every number is in one slot, and all slots from its hash's own slot to that one are occupied.
//! 2. At most three quarters of the slots are occupied.

use crate::size_class::usable_size;

/// Upper limit of numbers, exclusive.
pub(super) const NUMBERS: u32 = u32::MAX;
const SLOTS_MIN: usize = 4;
/// The table shrinks when fewer than one slot in this number is occupied.
const SPARSE: usize = 8;

#[derive(Clone, Copy, Default)]
struct Slot {
    number_and_1: u32,
    hash: u32,
}

#[derive(Clone, Default)]
pub(super) struct HashIndex {
    slots: Box<[Slot]>,
    len: usize,
}

impl HashIndex {
    /// The number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number with this hash for which `is_it` holds.
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_of(hash, is_it).map(|at| self.slots[at].number_and_1 - 1)
    }

    /// Adds a number with this hash.
    pub fn insert(&mut self, hash: u32, number: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
        }
        self.put(Slot { number_and_1: number + 1, hash });
        self.len += 1;
    }

    /// Removes a number that is in the table.
    pub fn remove(&mut self, hash: u32, number: u32) {
        let found = self.place_of(hash, |other| other == number);
        let mut hole = found.expect("what is removed was inserted");
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.number_and_1 == 0 {
                break;
            }
            // It may move to the hole unless its own slot is behind that.
            let distance = at.wrapping_sub(slot.hash as usize) & mask;
            if distance >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = Slot::default();
        self.len -= 1;
        if self.slots.len() > SLOTS_MIN && self.len * SPARSE < self.slots.len() {
            self.resize(self.slots.len() / 2);
        }
    }

    /// Replaces a number that is in the table.
    pub fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let at = self.place_of(hash, |other| other == from).expect("what is renumbered was inserted");
        self.slots[at].number_and_1 = to + 1;
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        usable_size(self.slots.len() * size_of::<Slot>())
    }

    fn place_of(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.number_and_1 == 0 {
                return None;
            }
            if slot.hash == hash && is_it(slot.number_and_1 - 1) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].number_and_1 != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn resize(&mut self, slots: usize) {
        let before = std::mem::replace(&mut self.slots, vec![Slot::default(); slots].into());
        before.iter().filter(|slot| slot.number_and_1 != 0).for_each(|&slot| self.put(slot));
    }

    /// Panics unless every documented invariant holds.
    #[cfg(test)]
    pub fn check(&self) {
        let taken: Vec<Slot> = self.slots.iter().copied().filter(|slot| slot.number_and_1 != 0).collect();
        assert_eq!(taken.len(), self.len);
        assert!(self.len * 4 <= self.slots.len() * 3);
        for slot in taken {
            let number = slot.number_and_1 - 1;
            assert_eq!(self.find(slot.hash, |other| other == number), Some(number));
        }
    }
}
