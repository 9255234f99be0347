//! A ghost: remembers which keys have left a cache, by a fingerprint of 16 bits each, so that a key that comes back soon
//! is distinguished from one that is new.
//!
//! ```text
//!  hash      | 64 bits: position in the table, by multiplication | the lowest 16: fingerprint |
//!  slots     [ fingerprint | 0 | fingerprint | ... ]     2 bytes each, 0 is empty
//!  previous  [ ... ]                                     the table before the last change of size, looked up only
//! ```
//! A key that leaves overwrites its slot, so the ghost forgets in the order of chance: in a table of as many slots as the
//! cache has keys, a key is found again after as many departures with a probability of 1/e. Two keys share slot and
//! fingerprint with a probability of 2^-16.
//!
//! Invariants, verified by [`Ghost::check`]:
//! 1. The table has a slot for each key of the cache, to within a quarter of them, or none if nothing has left yet.
//! 2. The previous table is dropped after as many departures as the smaller of both tables has slots: by then either would
//!    have forgotten most. It has at most eight slots for each key of the cache.
//! 3. No operation moves fingerprints, so the time of each but [`Ghost::fit`] is constant; that allocates zeroed memory.

/// Slots of the smallest table.
const SLOTS_MIN: usize = 64;
/// Slots of the previous table for each key.
const PREVIOUS_SLOTS_MAX: usize = 8;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Ghost {
    slots: Box<[u16]>,
    previous: Box<[u16]>,
    /// Departures after which `previous` is dropped.
    previous_left: usize,
}

/// The slot of a key with this hash in a table of this size, which is not 0.
#[inline]
fn slot_of(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

#[inline]
fn fingerprint_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// Empties the key's slot and returns whether it had the key.
fn take_from(slots: &mut [u16], hash: u64) -> bool {
    if slots.is_empty() {
        return false;
    }
    let slot = &mut slots[slot_of(hash, slots.len())];
    let is_found = *slot == fingerprint_of(hash);
    if is_found {
        *slot = 0;
    }
    is_found
}

impl Ghost {
    /// Notes that the key with this hash has left a cache of `keys` keys.
    pub fn put(&mut self, hash: u64, keys: usize) {
        if self.slots.is_empty() || self.is_unfit(keys) {
            self.replace_table(keys);
        }
        self.slots[slot_of(hash, self.slots.len())] = fingerprint_of(hash);
        if self.previous_left > 0 {
            self.previous_left -= 1;
            if self.previous_left == 0 {
                self.previous = Box::default();
            }
        }
    }

    /// Returns whether the key with this hash is remembered, and forgets it.
    pub fn take(&mut self, hash: u64) -> bool {
        let is_in_table = take_from(&mut self.slots, hash);
        take_from(&mut self.previous, hash) || is_in_table
    }

    /// Adapts the size to a cache that has this number of keys now. A ghost that has noted nothing stays without memory.
    pub fn fit(&mut self, keys: usize) {
        if keys == 0 {
            *self = Ghost::default();
        } else if self.is_unfit(keys) {
            self.replace_table(keys);
        }
        if self.previous.len() / PREVIOUS_SLOTS_MAX > keys.max(SLOTS_MIN) {
            (self.previous, self.previous_left) = (Box::default(), 0);
        }
    }

    fn is_unfit(&self, keys: usize) -> bool {
        let (slots, wanted) = (self.slots.len(), keys.max(SLOTS_MIN));
        slots > 0 && slots.abs_diff(wanted) > slots / 4
    }

    #[cold]
    fn replace_table(&mut self, keys: usize) {
        let table = vec![0; keys.max(SLOTS_MIN)].into_boxed_slice();
        self.previous = std::mem::replace(&mut self.slots, table);
        self.previous_left = self.previous.len().min(self.slots.len());
    }

    /// Bytes of both tables.
    pub fn memory_bytes(&self) -> usize {
        (self.slots.len() + self.previous.len()) * size_of::<u16>()
    }

    /// Panics unless every documented invariant holds that does not concern the number of keys.
    pub fn check(&self) {
        assert_eq!(self.previous.is_empty(), self.previous_left == 0, "invariant 2");
        assert!(self.previous_left <= self.previous.len(), "invariant 2");
        assert!(self.slots.is_empty() || self.slots.len() >= SLOTS_MIN, "invariant 1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    /// Compares with a map from slot to hash, as long as the size stays.
    #[test]
    fn the_last_key_of_each_slot_is_remembered_until_it_is_taken() {
        let (mut random, mut ghost, keys) = (Random::new(7), Ghost::default(), 1000);
        let mut model = BTreeMap::new();
        let hashes: Vec<u64> = (0..3000).map(|_| random.next_u64()).collect();
        for _ in 0..50_000 {
            let hash = hashes[random.index(hashes.len())];
            let slot = slot_of(hash, keys);
            if random.below(2) == 0 {
                ghost.put(hash, keys);
                model.insert(slot, fingerprint_of(hash));
            } else {
                let is_known = model.get(&slot) == Some(&fingerprint_of(hash));
                if is_known {
                    model.remove(&slot);
                }
                assert_eq!(ghost.take(hash), is_known);
            }
            ghost.check();
        }
        assert_eq!(ghost.memory_bytes(), 2 * keys);
    }

    #[test]
    fn a_change_of_size_forgets_nothing_at_once() {
        let (mut random, mut ghost) = (Random::new(8), Ghost::default());
        for (keys, next) in [(1000, 2000), (2000, 400), (400, 70)] {
            let hashes: Vec<u64> = (0..50).map(|_| random.next_u64()).collect();
            hashes.iter().for_each(|&hash| ghost.put(hash, keys));
            ghost.fit(next);
            ghost.check();
            let known = hashes.iter().filter(|&&hash| ghost.take(hash)).count();
            assert!(known >= 45, "{known} of 50 from {keys} keys to {next}");
            assert!(hashes.iter().all(|&hash| !ghost.take(hash)), "taken from both tables");
            (0..keys).for_each(|_| ghost.put(random.next_u64(), next));
            assert_eq!(ghost.memory_bytes(), 2 * next, "the previous table is dropped");
        }
    }

    #[test]
    fn the_size_follows_the_keys() {
        let mut ghost = Ghost::default();
        ghost.fit(1 << 20);
        assert_eq!(ghost.memory_bytes(), 0, "nothing has left yet");
        for keys in [1, 5, 127, 128, 129, 10_000] {
            ghost.fit(0);
            assert_eq!((ghost.memory_bytes(), ghost.take(1)), (0, false));
            ghost.put(1, keys);
            assert_eq!(ghost.memory_bytes(), 2 * keys.max(SLOTS_MIN));
            ghost.fit(keys + keys / 5);
            assert_eq!(ghost.memory_bytes(), 2 * keys.max(SLOTS_MIN), "a fifth more is no reason");
            assert!(ghost.take(1) && !ghost.take(1));
            ghost.check();
        }
    }

    #[test]
    fn hashes_at_both_ends_have_slots() {
        for keys in [1, 64, 65, 1000] {
            let mut ghost = Ghost::default();
            for hash in [0, 1, u64::MAX, u64::MAX << 16] {
                ghost.put(hash, keys);
                assert!(ghost.take(hash) && !ghost.take(hash));
            }
        }
    }
}
