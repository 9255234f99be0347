//! Who owns which slot, and which slots are on the move.
//!
//! ```text
//!  owners:     slot -> place of a node, or none       answers each command, so it is an array of 2-byte numbers
//!  Node.slots: the same by node, as a set             compared with what the node claims in each frame
//!  unclaimed:  slots whose owner has stopped claiming them, and that no other node has claimed yet
//!  migrating, importing:  slot -> the other node      set by SETSLOT
//!  taken:      slot -> the source of a migration, until that no longer claims the slot
//! ```
//!
//! 1. `owners` and the nodes' sets agree, and only nodes of the table own slots.
//! 2. A slot of `unclaimed` has an owner.
//! 3. A slot of `taken` is this node's.

use std::collections::BTreeMap;

use wire::cluster_bus::{NodeFlags, NodeId, SLOTS, SlotSet};

use crate::cluster::Cluster;
use crate::node::Node;
use crate::nodes::{MYSELF, Place};
use crate::taken_slots::Taken;

/// A slot without owner.
const NONE: u16 = u16::MAX;

pub(crate) struct Slots {
    owners: Box<[u16; SLOTS as usize]>,
    pub(crate) unclaimed: SlotSet,
    pub(crate) migrating: BTreeMap<u16, NodeId>,
    pub(crate) importing: BTreeMap<u16, NodeId>,
    pub(crate) taken: BTreeMap<u16, Taken>,
    /// How often a slot has got or lost its owner.
    pub(crate) changes: u64,
    /// Slots that have lost their owners since the latest [`crate::Effect::SlotsLeft`].
    pub(crate) left: SlotSet,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots {
            owners: Box::new([NONE; SLOTS as usize]),
            unclaimed: SlotSet::new(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            taken: BTreeMap::new(),
            changes: 0,
            left: SlotSet::new(),
        }
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Place> {
        self.owners.get(usize::from(slot)).filter(|place| **place != NONE).map(|place| Place(*place))
    }

    /// The slot has no owner, or one that no longer says so.
    pub(crate) fn is_free(&self, slot: u16) -> bool {
        self.owner(slot).is_none() || self.unclaimed.contains(slot)
    }

    pub(crate) fn close_all(&mut self) {
        self.migrating.clear();
        self.importing.clear();
    }
}

impl Cluster {
    /// Returns the node that owns a slot.
    pub fn owner(&self, slot: u16) -> Option<&Node> {
        self.nodes.at(self.slots.owner(slot)?)
    }

    /// Returns whether this node owns a slot.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.owner(slot) == Some(MYSELF)
    }

    /// Returns the node that SETSLOT MIGRATING has named for a slot.
    pub fn migrating_to(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(*self.slots.migrating.get(&slot)?)
    }

    /// Returns the node that SETSLOT IMPORTING has named for a slot.
    pub fn importing_from(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(*self.slots.importing.get(&slot)?)
    }

    /// Returns the slots that SETSLOT has left in migrating state, with their targets.
    pub fn migrating_slots(&self) -> impl Iterator<Item = (u16, NodeId)> + '_ {
        self.slots.migrating.iter().map(|(slot, node)| (*slot, *node))
    }

    /// Returns the slots that SETSLOT has left in importing state, with their sources.
    pub fn importing_slots(&self) -> impl Iterator<Item = (u16, NodeId)> + '_ {
        self.slots.importing.iter().map(|(slot, node)| (*slot, *node))
    }

    pub(crate) fn owner_id(&self, slot: u16) -> Option<NodeId> {
        self.owner(slot).map(|node| node.id)
    }

    /// Gives a slot that has no owner to a node.
    pub(crate) fn add_slot(&mut self, id: NodeId, slot: u16) {
        let Some(place) = self.nodes.place(id) else { return };
        if slot >= SLOTS || self.slots.owner(slot).is_some() {
            return;
        }
        self.slots.owners[usize::from(slot)] = place.0;
        self.slots.changes += 1;
        self.slots.unclaimed.remove(slot);
        let is_first = self.nodes.at(place).is_some_and(|node| node.slot_count == 0);
        // A new primary deserves replicas if other primaries have some.
        let gets_replicas =
            is_first && self.nodes.iter().any(|node| !node.is_replica() && !node.replicas.is_empty());
        if let Some(node) = self.nodes.at_mut(place) {
            node.slots.insert(slot);
            node.slot_count += 1;
            node.flags.set(NodeFlags::MIGRATE_TO, gets_replicas || node.has(NodeFlags::MIGRATE_TO));
        }
    }

    /// Takes a slot from its owner, and returns whether it had one.
    pub(crate) fn delete_slot(&mut self, slot: u16) -> bool {
        let Some(place) = self.slots.owner(slot) else { return false };
        self.slots.owners[usize::from(slot)] = NONE;
        self.slots.changes += 1;
        self.slots.unclaimed.remove(slot);
        self.slots.taken.remove(&slot);
        self.slots.left.insert(slot);
        if let Some(node) = self.nodes.at_mut(place)
            && node.slots.remove(slot)
        {
            node.slot_count -= 1;
        }
        true
    }

    /// Takes all slots from a node, and returns how many it had.
    pub(crate) fn delete_slots_of(&mut self, id: NodeId) -> usize {
        let Some(node) = self.nodes.get(id) else { return 0 };
        let slots = node.slots.clone();
        slots.iter().filter(|slot| self.delete_slot(*slot)).count()
    }

    /// Gives a slot to a node, also if another has it.
    pub(crate) fn move_slot(&mut self, id: NodeId, slot: u16) {
        self.delete_slot(slot);
        self.add_slot(id, slot);
    }

    /// Checks the invariants.
    pub(crate) fn check_slots(&self) {
        for slot in 0..SLOTS {
            let owner = self.owner(slot);
            assert!(owner.is_none_or(|node| node.slots.contains(slot)));
            assert!(!self.slots.unclaimed.contains(slot) || owner.is_some());
            assert!(!self.slots.taken.contains_key(&slot) || self.owns(slot));
        }
        let owned = (0..SLOTS).filter(|slot| self.owner(*slot).is_some()).count();
        assert_eq!(self.nodes.iter().map(|node| usize::from(node.slot_count)).sum::<usize>(), owned);
    }
}
