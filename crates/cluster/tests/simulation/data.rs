//! The data of a server: lists of the numbers of writes, so that a write that is lost or applied twice shows, and the stream
//! of changes that replicas copy and a restart repeats.

use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::Ranges;
use wire::cluster_bus::{NodeId, SLOTS};

use crate::network::Host;

/// A key: its slot, and its number within the slot.
pub type Key = (u16, u8);
/// Keys with the writes that they have taken, in order.
pub type Store = BTreeMap<Key, Vec<u64>>;

/// Keys of a slot.
pub const KEYS_PER_SLOT: u64 = 3;
/// Every slot with this distance has keys: more would only cost time.
const SLOT_STEP: u16 = 341;

/// Returns whether clients write to a slot.
pub fn has_keys(slot: u16) -> bool {
    slot.is_multiple_of(SLOT_STEP)
}

/// Returns the slots that clients write to.
pub fn slots_with_keys() -> impl Iterator<Item = u16> {
    (0..SLOTS).step_by(usize::from(SLOT_STEP))
}

/// A command of the replication stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Appends writes to a key. A key of a snapshot is sent so, as RPUSH: it does not replace what is there.
    Append(Key, Vec<u64>),
    DeleteSlot(u16),
    /// `CLUSTER SYNCSLOTS ESTABLISH`.
    Establish(NodeId, Ranges),
    /// `CLUSTER SYNCSLOTS FINISH`; the flag: the slots are the primary's.
    Finish(NodeId, bool),
}

impl Change {
    /// The slot of the change's keys.
    pub fn slot(&self) -> Option<u16> {
        match self {
            Change::Append((slot, _), _) | Change::DeleteSlot(slot) => Some(*slot),
            Change::Establish(..) | Change::Finish(..) => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Data {
    /// All changes with numbers that no other change has. An offset is their count.
    history: Vec<(u64, Rc<Change>)>,
    pub store: Store,
    /// Imports of the history without their end.
    pub imports: Vec<(NodeId, Ranges)>,
    /// Changes that are on disk.
    synced: usize,
    /// Replica: where the data comes from, and whether all of it has to be copied.
    pub source: Option<(Host, bool)>,
    pub heard_ms: u64,
}

impl Data {
    pub fn offset(&self) -> u64 {
        self.history.len() as u64
    }

    pub fn apply(&mut self, number: u64, change: Rc<Change>) {
        match &*change {
            Change::Append(key, writes) => self.store.entry(*key).or_default().extend(writes),
            Change::DeleteSlot(slot) => self.store.retain(|(other, _), _| other != slot),
            Change::Establish(name, ranges) => self.imports.push((*name, ranges.clone())),
            Change::Finish(name, _) => self.imports.retain(|(other, _)| other != name),
        }
        self.history.push((number, change));
    }

    /// Returns the changes that `copy` lacks, unless it has changes of its own.
    pub fn changes_after(&self, copy: &Data) -> Option<&[(u64, Rc<Change>)]> {
        let number = |history: &[(u64, Rc<Change>)]| history.last().map(|(number, _)| *number);
        let shared = self.history.get(..copy.history.len())?;
        (number(shared) == number(&copy.history)).then(|| &self.history[copy.history.len()..])
    }

    /// Replaces all data by that of another server.
    pub fn copy_from(&mut self, source: &Data) {
        let keeps = (self.source, self.heard_ms);
        *self = Data { synced: source.history.len(), ..source.clone() };
        (self.source, self.heard_ms) = keeps;
    }

    pub fn sync(&mut self) {
        self.synced = self.history.len();
    }

    /// The part that a crash cannot remove.
    pub fn synced(&self) -> usize {
        self.synced.min(self.history.len())
    }

    /// Keeps the oldest changes; returns the writes of the others.
    pub fn truncate(&mut self, len: usize) -> Vec<u64> {
        let history = std::mem::take(&mut self.history);
        (self.store, self.imports) = (Store::new(), Vec::new());
        let mut lost = Vec::new();
        for (at, (number, change)) in history.into_iter().enumerate() {
            match &*change {
                Change::Append(_, writes) if at >= len => lost.extend(writes),
                _ if at < len => self.apply(number, change),
                _ => {}
            }
        }
        self.synced = len;
        lost
    }

    pub fn contains(&self, slot: u16, write: u64) -> bool {
        let keys = self.store.range((slot, 0)..=(slot, u8::MAX));
        keys.into_iter().any(|(_, writes)| writes.contains(&write))
    }

    /// The writes of a slot.
    pub fn writes_of(&self, slot: u16) -> impl Iterator<Item = u64> + '_ {
        self.store.range((slot, 0)..=(slot, u8::MAX)).flat_map(|(_, writes)| writes.iter().copied())
    }

    /// The slots that have keys.
    pub fn slots(&self) -> Vec<u16> {
        let mut slots: Vec<u16> = self.store.keys().map(|(slot, _)| *slot).collect();
        slots.dedup();
        slots
    }
}
