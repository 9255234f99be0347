//! Slots whose keys do not count: those that another node is about to hand over, and may not hand over after all.
//!
//! Invariants:
//! 1. `groups` are the sums over the hidden tables of each group, or none while the database has no tables.
//! 2. `total` is the sum over all hidden tables.

use super::slots::Counts;
use std::sync::Arc;
use wire::cluster_bus::SlotSet;

/// The hidden slots of a database. Its databases share the set.
pub(super) struct HiddenSlots {
    slots: Arc<SlotSet>,
    groups: Box<[Counts]>,
    total: Counts,
}

impl HiddenSlots {
    /// Of a database that has no tables.
    pub fn new(slots: Arc<SlotSet>) -> HiddenSlots {
        HiddenSlots { slots, groups: Box::default(), total: Counts::default() }
    }

    pub fn slots(&self) -> &Arc<SlotSet> {
        &self.slots
    }

    pub fn contains(&self, slot: usize) -> bool {
        u16::try_from(slot).is_ok_and(|slot| self.slots.contains(slot))
    }

    /// The bits of a group's slots.
    pub fn of_group(&self, group: usize) -> u64 {
        self.slots.word(group)
    }

    /// Sums over the hidden tables of a group.
    pub fn counts_of_group(&self, group: usize) -> Counts {
        self.groups.get(group).copied().unwrap_or_default()
    }

    /// Sums over all hidden tables.
    pub fn total(&self) -> Counts {
        self.total
    }

    /// The database has got this number of groups of tables, all of them empty, or has lost its tables.
    pub fn reset(&mut self, groups: usize) {
        self.groups = vec![Counts::default(); groups].into();
        self.total = Counts::default();
    }

    /// Counts a change of a hidden table in this group.
    pub fn count(&mut self, group: usize, before: Counts, after: Counts) {
        for counts in [&mut self.groups[group], &mut self.total] {
            *counts += after;
            *counts -= before;
        }
    }
}
