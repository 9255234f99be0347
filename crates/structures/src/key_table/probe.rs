//! A lookup in steps, one fetch each, so that a batch of lookups can wait for memory together.

use super::KeyTable;
use super::bucket::{self, SLOTS};
use super::entry::Entry;
use super::slot::{Slot, filter_bit};
use crate::prefetch::prefetch;

const LINE_BYTES: usize = 64;
/// Of an entry, whose length is not known before it has come, at least this much is fetched. Taking only the first
/// line left a tenth of a GET's time in the comparison of keys.
const ENTRY_BYTES_FETCHED: usize = 40;
/// Of a bulky one so many lines at once, which may be more than it has, and the rest up to so many bytes when the header
/// has come. Measured, a GET of 400 bytes out of 300,000 keys, compared with the value in an allocation of its own behind a
/// head: 0.94; without the rest 1.03 to 1.10; with all but the first line asked for when the header has come, 1.06.
const BULKY_LINES_FETCHED: usize = 4;
const BULKY_BYTES_FETCHED: usize = 768;

/// A lookup that only prefetches. It holds no reference: each step looks at the table as it is then.
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

/// What a step found.
pub enum ProbeState<'a, T> {
    /// A line is on its way; step again when it may have come.
    More,
    /// Probably the object of the key: only the hash's tag was compared. Good for prefetching what it owns.
    Object(&'a T),
    /// Nothing more to fetch.
    Done,
}

impl Probe {
    /// Fetches the bucket.
    #[inline]
    pub fn start<T>(table: &KeyTable<T>, hash: u64) -> Probe {
        if table.is_empty() {
            return Probe { hash, stage: Stage::Done };
        }
        prefetch(table.directory.address(table.number_of(hash)));
        Probe { hash, stage: Stage::Bucket }
    }

    /// Does what the last step's fetch has made possible, and starts the next fetch.
    #[inline]
    pub fn step<'a, T>(&mut self, table: &'a KeyTable<T>) -> ProbeState<'a, T> {
        if self.stage == Stage::Done || table.is_empty() {
            return ProbeState::Done;
        }
        let shape = table.shape_of(self.hash);
        let tag = shape.tag(self.hash);
        let bucket = table.directory.bucket(shape.bucket(self.hash));
        let slot = match bucket.matching(tag) {
            0 => Slot::EMPTY,
            mask => bucket.slots[mask.trailing_zeros() as usize],
        };
        if slot.is_entry() {
            return self.step_entry(slot);
        }
        self.step_overflow(&bucket.slots, tag)
    }

    #[inline]
    fn step_entry<'a, T>(&mut self, slot: Slot) -> ProbeState<'a, T> {
        if self.stage == Stage::Object {
            self.stage = Stage::Done;
            // SAFETY: the slot is a live entry's.
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
            // SAFETY: the slot is a live entry's that holds an object; `step` binds the lifetime to the
            // table's.
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
