//! Slots that this node has taken by a migration, of which the source may not have heard.
//!
//! The source may have a newer epoch than the claim: it has taken other slots meanwhile. Its frames then beat the claim, also
//! those that it has sent before it heard of the claim and gave the slots up, and which arrive later. If the target gave them
//! up too, both would delete the keys. So the target keeps them until the source has claimed them for so long that it knows
//! what it claims. What other nodes believe meanwhile ends when frames of the source no longer claim the slots.

use wire::cluster_bus::{Header, NodeId, SlotSet};

use crate::cluster::Cluster;

/// Where a slot has come from by a migration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) source: NodeId,
    /// Since when frames of the source claim the slot with an epoch that beats this node's.
    claimed_ms: Option<u64>,
    /// Since when frames of the source may not claim the slot.
    given_ms: Option<u64>,
}

impl Cluster {
    /// The end of a migration on its target: takes slots of another node with an epoch that beats all that are known.
    pub(crate) fn claim_slots(&mut self, slots: &SlotSet, source: NodeId) {
        self.bump_epoch();
        for slot in slots.iter() {
            self.move_slot(self.my_id(), slot);
            self.slots.taken.insert(slot, Taken { source, claimed_ms: None, given_ms: None });
        }
        self.save_synced();
        (self.todo.update_state, self.todo.broadcast) = (true, true);
    }

    /// A node claims a slot with an epoch that beats this node's. Returns whether that changes nothing yet.
    pub(crate) fn keeps_taken_slot(&mut self, slot: u16, claimant: NodeId) -> bool {
        let (now_ms, patience_ms) = (self.now_ms(), self.patience_with_source_ms());
        let Some(taken) = self.slots.taken.get_mut(&slot).filter(|taken| taken.source == claimant) else {
            return false;
        };
        now_ms.saturating_sub(*taken.claimed_ms.get_or_insert(now_ms)) < patience_ms
    }

    /// Longer than a source may grant slots, and than frames of it are under way.
    fn patience_with_source_ms(&self) -> u64 {
        self.pause_of_migrations_ms().max(self.settings.node_timeout_ms)
    }

    /// Reads which slots a node claims that have come from there.
    pub(crate) fn read_source_of_taken_slots(&mut self, sender: NodeId, header: &Header) {
        if self.slots.taken.is_empty() {
            return;
        }
        let (now_ms, patience_ms) = (self.now_ms(), self.patience_with_source_ms());
        let is_primary = header.replica_of.is_none();
        self.slots.taken.retain(|slot, taken| {
            if taken.source != sender || is_primary && header.slots.contains(*slot) {
                return true;
            }
            taken.claimed_ms = None;
            // Older frames may follow.
            now_ms.saturating_sub(*taken.given_ms.get_or_insert(now_ms)) < patience_ms
        });
    }
}
