//! A lookup in steps, one fetch each, so that the fetches of a batch of lookups overlap.

use super::KeyTable;
use super::bucket::{self, SLOTS};
use super::entry::Entry;
use super::slot::{Slot, filter_bit};
use crate::prefetch::prefetch;

const LINE_BYTES: usize = 64;
/// Bytes fetched of an entry at least: its length is unknown before the header arrives. Fetching only the first line left a
/// tenth of a GET's time in the comparison of keys.
const ENTRY_BYTES_FETCHED: usize = 40;
/// Lines of a bulky entry that are fetched at once, even if it has fewer; the rest is fetched up to `BULKY_BYTES_FETCHED`
/// once the header has arrived. Measured, a GET of 400 bytes out of 300,000 keys, relative to the value in an allocation of
/// its own behind a head: 0.94; without the rest 1.03 to 1.10; with all but the first line fetched after the header, 1.06.
const BULKY_LINES_FETCHED: usize = 4;
const BULKY_BYTES_FETCHED: usize = 768;

/// A lookup that only prefetches. It holds no reference: each step reads the table in its current state.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    hash: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Bucket,
    Overflow,
    Object,
    Done,
}

/// The result of a step.
pub enum ProbeState<'a, T> {
    /// A line was prefetched; step again when it may have arrived.
    More,
    /// Probably the key's object: only the hash's tag was compared. For prefetching the memory it owns.
    Object(&'a T),
    /// Nothing more to fetch.
    Done,
}

impl Probe {
    /// Prefetches the bucket.
    #[inline]
    pub fn start<T>(table: &KeyTable<T>, hash: u64) -> Probe {
        if table.is_empty() {
            return Probe { hash, stage: Stage::Done };
        }
        prefetch(table.directory.address(table.number_of(hash)));
        Probe { hash, stage: Stage::Bucket }
    }

    /// The hash that the probe was started with.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Reads the line that the last step prefetched, and prefetches the next.
    #[inline]
    pub fn step<'a, T>(&mut self, table: &'a KeyTable<T>) -> ProbeState<'a, T> {
        if self.stage == Stage::Done || table.is_empty() {
            return ProbeState::Done;
        }
        let shape = table.shape_of(self.hash);
        let tag = shape.tag(self.hash);
        let bucket = table.directory.bucket(shape.bucket(self.hash));
        let slot = bucket.matching(tag).lowest().map_or(Slot::EMPTY, |lane| bucket.slots[lane]);
        if slot.is_entry() {
            return self.step_entry(slot);
        }
        self.step_overflow(&bucket.slots, tag)
    }

    #[inline]
    fn step_entry<'a, T>(&mut self, slot: Slot) -> ProbeState<'a, T> {
        if self.stage == Stage::Object {
            self.stage = Stage::Done;
            // SAFETY: invariant 6 of the table: the slot is a live entry's.
            let entry = unsafe { Entry::<T>::from_address(slot.address()) };
            if slot.is_bulky() {
                let lines = entry.allocation_bytes().min(BULKY_BYTES_FETCHED) / LINE_BYTES;
                for line in BULKY_LINES_FETCHED..lines {
                    prefetch(slot.address().wrapping_add(line * LINE_BYTES));
                }
            }
            if !slot.holds_object() {
                return ProbeState::Done;
            }
            // SAFETY: invariant 6 of the table: the slot is a live entry's that holds an object; `step`
            // binds the lifetime to the table's.
            return ProbeState::Object(unsafe { entry.object().as_ref() });
        }
        prefetch(slot.address());
        // A short entry that begins late in its line ends in the next one.
        if slot.address() as usize % LINE_BYTES > LINE_BYTES - ENTRY_BYTES_FETCHED {
            prefetch(slot.address().wrapping_add(ENTRY_BYTES_FETCHED));
        }
        if slot.is_bulky() {
            for line in 1..BULKY_LINES_FETCHED {
                prefetch(slot.address().wrapping_add(line * LINE_BYTES));
            }
        }
        if slot.holds_object() || slot.is_bulky() {
            self.stage = Stage::Object;
            return ProbeState::More;
        }
        self.stage = Stage::Done;
        ProbeState::Done
    }

    /// Crowds are too rare to be worth stages of their own.
    #[cold]
    fn step_overflow<'a, T>(&mut self, slots: &[Slot; SLOTS], tag: u16) -> ProbeState<'a, T> {
        let link = slots[SLOTS - 1];
        if !link.is_link() || link.link_filter() & filter_bit(tag) == 0 || link.is_crowd_link() {
            self.stage = Stage::Done;
            return ProbeState::Done;
        }
        if self.stage == Stage::Bucket {
            prefetch(link.address());
            self.stage = Stage::Overflow;
            return ProbeState::More;
        }
        match bucket::overflow(slots).iter().find(|slot| slot.tag() == tag) {
            Some(&slot) => self.step_entry(slot),
            None => {
                self.stage = Stage::Done;
                ProbeState::Done
            }
        }
    }
}
