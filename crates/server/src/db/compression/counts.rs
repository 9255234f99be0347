//! Counts of a database's compressed values by dictionary.

use super::dictionary::{slot_of, text_len};

/// Values compressed with one dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of values.
    pub values: u64,
    /// Their length decompressed.
    pub plain_bytes: u64,
    /// Their length as stored.
    pub stored_bytes: u64,
}

/// Counts by slot, up to the highest slot used so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    slots: Vec<Count>,
}

impl Counts {
    /// The count of a slot.
    pub fn of(&self, slot: u8) -> Count {
        self.slots.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Adds a stored value.
    pub fn add(&mut self, stored: &[u8]) {
        let slot = usize::from(slot_of(stored));
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Count::default());
        }
        let count = &mut self.slots[slot];
        count.values += 1;
        count.plain_bytes += text_len(stored) as u64;
        count.stored_bytes += stored.len() as u64;
    }

    /// Removes a stored value.
    pub fn remove(&mut self, stored: &[u8]) {
        let count = &mut self.slots[usize::from(slot_of(stored))];
        count.values -= 1;
        count.plain_bytes -= text_len(stored) as u64;
        count.stored_bytes -= stored.len() as u64;
    }

    /// Whether both have the same counts.
    pub fn are_those_of(&self, other: &Counts) -> bool {
        (0..=u8::MAX).all(|slot| self.of(slot) == other.of(slot))
    }
}
