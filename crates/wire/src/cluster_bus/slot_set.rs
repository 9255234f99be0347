//! Sets of slots, in the order of bits that frames have.
//!
//! ```text
//!  slot   0 ... 7  8 ...              word of 64 bits, from the lowest   bytes of a frame, from the lowest bit
//!         word 0, bits 0 ... 63, word 1 ...                              byte 0, bits 0 ... 7, byte 1 ...
//! ```

use std::fmt;

/// Number of slots of a cluster.
pub const SLOTS: u16 = 16_384;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = SLOTS as usize / WORD_BITS;

/// A set of slots, with a bit for each.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl SlotSet {
    /// Length in frames.
    pub const BYTES: usize = SLOTS as usize / 8;

    /// Returns a set without slots.
    pub fn new() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }

    /// Returns the set of all slots.
    pub fn full() -> SlotSet {
        SlotSet(Box::new([u64::MAX; WORDS]))
    }

    /// Reads a set from a frame.
    pub fn from_bytes(bytes: &[u8; SlotSet::BYTES]) -> SlotSet {
        let mut set = SlotSet::new();
        let (words, _) = bytes.as_chunks();
        for (word, bytes) in set.0.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
        }
        set
    }

    /// Appends the set as frames have it.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend(self.0.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Returns the bits of the slots from 64 times `index` on. There are none from [`SLOTS`] on.
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Returns whether the slot is in the set. Slots from [`SLOTS`] on never are.
    pub fn contains(&self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a slot, and returns whether it was not in the set. Slots from [`SLOTS`] on are left out.
    pub fn insert(&mut self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        let Some(word) = self.0.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a slot, and returns whether it was in the set.
    pub fn remove(&mut self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        let Some(word) = self.0.get_mut(word) else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns whether the sets have a slot in common.
    pub fn intersects(&self, other: &SlotSet) -> bool {
        self.0.iter().zip(other.0.iter()).any(|(word, other)| word & other != 0)
    }

    /// Adds all slots of the other set.
    pub fn insert_all(&mut self, other: &SlotSet) {
        for (word, other) in self.0.iter_mut().zip(other.0.iter()) {
            *word |= other;
        }
    }

    /// Removes all slots of the other set.
    pub fn remove_all(&mut self, other: &SlotSet) {
        for (word, other) in self.0.iter_mut().zip(other.0.iter()) {
            *word &= !other;
        }
    }

    /// Returns whether what is left without the slots of `removed` is `other`.
    pub fn equals_without(&self, removed: &SlotSet, other: &SlotSet) -> bool {
        let words = self.0.iter().zip(removed.0.iter()).map(|(word, removed)| word & !removed);
        words.eq(other.0.iter().copied())
    }

    /// Returns the slots in their order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.ranges().flat_map(|(first, last)| first..=last)
    }

    /// Returns the first and the last slot of each run, in their order.
    pub fn ranges(&self) -> Ranges<'_> {
        Ranges { set: self, next: 0 }
    }

    /// Returns the next slot from this one on that is in the set, or is not.
    fn position(&self, from: usize, is_in: bool) -> usize {
        let mut index = from / WORD_BITS;
        let mut ignored = (1 << (from % WORD_BITS)) - 1;
        while let Some(word) = self.0.get(index) {
            let found = if is_in { *word } else { !*word };
            let found = found & !ignored;
            if found != 0 {
                return index * WORD_BITS + found.trailing_zeros() as usize;
            }
            ignored = 0;
            index += 1;
        }
        usize::from(SLOTS)
    }
}

/// The word of a slot and its bit there.
fn place(slot: u16) -> (usize, u64) {
    (usize::from(slot) / WORD_BITS, 1 << (usize::from(slot) % WORD_BITS))
}

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet::new()
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges().map(|(first, last)| first..=last)).finish()
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<T: IntoIterator<Item = u16>>(slots: T) -> SlotSet {
        let mut set = SlotSet::new();
        set.extend(slots);
        set
    }
}

impl Extend<u16> for SlotSet {
    fn extend<T: IntoIterator<Item = u16>>(&mut self, slots: T) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

/// The runs of a set's slots, as first and last slot.
pub struct Ranges<'a> {
    set: &'a SlotSet,
    next: usize,
}

impl Iterator for Ranges<'_> {
    type Item = (u16, u16);

    fn next(&mut self) -> Option<(u16, u16)> {
        let first = u16::try_from(self.set.position(self.next, true)).ok().filter(|first| *first < SLOTS)?;
        self.next = self.set.position(usize::from(first), false);
        let last = u16::try_from(self.next - 1).ok()?;
        Some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use structures::random::Random;

    #[test]
    fn a_slot_is_a_bit_from_the_lowest_of_its_byte() {
        let set: SlotSet = [0, 9, 16_383].into_iter().collect();
        let mut bytes = Vec::new();
        set.append_to(&mut bytes);
        assert_eq!(bytes.len(), SlotSet::BYTES);
        assert_eq!((bytes[0], bytes[1], bytes[2047]), (1, 2, 128));
        assert_eq!(SlotSet::from_bytes(&bytes.try_into().unwrap()), set);
    }

    #[test]
    fn slots_beyond_the_last_are_never_in_a_set() {
        let mut set = SlotSet::full();
        assert!(!set.insert(SLOTS) && !set.contains(SLOTS) && !set.remove(u16::MAX));
        assert_eq!(set.len(), 16_384);
        assert_eq!(set.ranges().collect::<Vec<_>>(), [(0, 16_383)]);
        set.remove_all(&SlotSet::full());
        assert!(set.is_empty() && set.ranges().next().is_none());
    }

    #[test]
    fn random_operations_equal_a_sorted_set() {
        let mut random = Random::new(1);
        let mut set = SlotSet::new();
        let mut model = BTreeSet::new();
        for _ in 0..20_000 {
            // Few places, so that runs grow and are split.
            let slot = (random.below(4) * 4096 + random.below(200)) as u16;
            if random.below(2) == 0 {
                assert_eq!(set.insert(slot), model.insert(slot));
            } else {
                assert_eq!(set.remove(slot), model.remove(&slot));
            }
            assert_eq!(set.contains(slot), model.contains(&slot));
        }
        assert_eq!(set.len(), model.len());
        assert!(set.iter().eq(model.iter().copied()));
        let runs = model.iter().filter(|slot| **slot == 0 || !model.contains(&(**slot - 1))).count();
        assert_eq!(set.ranges().count(), runs);
        assert!(
            set.ranges().all(|(first, last)| first <= last && (first..=last).all(|s| model.contains(&s)))
        );
    }

    #[test]
    fn sets_are_joined_and_taken_from_each_other() {
        let (low, middle): (SlotSet, SlotSet) = ((0..100).collect(), (50..150).collect());
        let mut all = low.clone();
        all.insert_all(&middle);
        assert_eq!(all, (0..150).collect());
        let mut high = all.clone();
        high.remove_all(&low);
        assert_eq!(high, (100..150).collect());
        assert!(high.intersects(&middle) && !high.intersects(&low));
        assert!(all.equals_without(&low, &high) && all.equals_without(&SlotSet::new(), &all));
        assert!(!all.equals_without(&high, &high) && !high.equals_without(&low, &all));
    }
}
