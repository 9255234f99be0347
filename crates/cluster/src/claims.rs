//! Claims of slots: which role and which slots a frame's sender says that it has, and what follows for this node.
//!
//! A slot goes to the node that claims it with the highest epoch. If that takes a primary's last slot, the primary becomes a
//! replica of the claimant: that is how the old primary of a failover finds its place.

use wire::cluster_bus::{Gossip, Header, NodeFlags, NodeId, SLOTS, SlotSet, Update};

use crate::action::{Effect, Level};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::roles::Conversion;

/// A claim, and what it has changed so far.
struct Claim<'a> {
    claimant: NodeId,
    epoch: u64,
    slots: &'a SlotSet,
    is_in_my_shard: bool,
    /// This node, or its primary.
    primary: NodeId,
    /// Slots that `primary` has lost to the claimant.
    lost: u16,
    /// Slots that this node itself has lost.
    dirty: SlotSet,
    /// Slots that came from one node of another shard, to be logged as a range.
    moved: Option<(u16, u16, NodeId)>,
}

impl Cluster {
    /// Reads a known sender's role, slots and gossip.
    pub(crate) fn read_configuration(&mut self, sender: NodeId, header: &Header, gossip: Gossip) {
        let Some(node) = self.nodes.get(sender) else { return };
        let was_replica = node.is_replica();
        match header.replica_of {
            None => self.set_as_primary(sender),
            Some(primary) => {
                if !self.note_replica(sender, primary, header) {
                    return;
                }
            }
        }
        if header.replica_of.is_none() && (was_replica || self.is_other_claim(sender, &header.slots)) {
            let text =
                format!("Mismatch in topology information for sender node {}", self.called_in_shard(sender));
            self.log(Level::Notice, text);
            self.take_claim(sender, header.config_epoch, &header.slots);
            self.correct_claim(sender, header);
        }
        self.read_source_of_taken_slots(sender, header);
        if self.myself().primary == Some(sender) {
            self.close_imports_of_primary(&header.slots);
        }
        let is_primary = self.nodes.get(sender).is_some_and(Node::is_primary);
        if is_primary && self.myself().is_primary() && header.config_epoch == self.myself().config_epoch {
            self.resolve_collision(sender);
        }
        self.read_gossip(Some(sender), &gossip);
        self.read_extensions(sender, gossip.extensions);
    }

    /// Returns whether a claim says something new. A slot that its owner has stopped claiming stays the owner's until
    /// another node claims it, which may take for ever: each frame differs from the table then. It is news only where
    /// SETSLOT has left slots that such a frame may close.
    pub(crate) fn is_other_claim(&self, sender: NodeId, claimed: &SlotSet) -> bool {
        let Some(node) = self.nodes.get(sender) else { return false };
        let has_open_slots = !self.slots.migrating.is_empty() || !self.slots.importing.is_empty();
        has_open_slots && node.slots != *claimed || !node.slots.equals_without(&self.slots.unclaimed, claimed)
    }

    /// This node's primary claims slots that were being imported: the import has ended.
    pub(crate) fn close_imports_of_primary(&mut self, claimed: &SlotSet) {
        let before = self.slots.importing.len();
        self.slots.importing.retain(|slot, _| !claimed.contains(*slot));
        if self.slots.importing.len() < before {
            self.save();
        }
    }

    /// A sender is a replica. Returns whether its frame is read further: not if it is older than what is known.
    fn note_replica(&mut self, sender: NodeId, primary: NodeId, header: &Header) -> bool {
        let known_primary = self.nodes.get(primary).filter(|node| node.id != sender).map(|node| node.id);
        if self.nodes.get(sender).is_some_and(Node::is_primary) {
            let in_one_shard = known_primary.filter(|primary| self.are_in_one_shard(*primary, sender));
            if let Some(primary) = in_one_shard {
                if !self.note_failover(sender, primary, header) {
                    return false;
                }
            } else {
                self.note_shard_left(sender, known_primary);
            }
            if let Some(node) = self.nodes.get_mut(sender) {
                node.flags.set(NodeFlags::PRIMARY | NodeFlags::MIGRATE_TO, false);
                node.flags |= NodeFlags::REPLICA;
            }
            self.save_synced();
            self.todo.update_state = true;
        } else if let Some(node) = self.nodes.get_mut(sender).filter(|node| !node.is_replica()) {
            node.flags |= NodeFlags::REPLICA;
        }
        if let Some(primary) = known_primary
            && self.nodes.get(sender).is_some_and(|node| node.primary != Some(primary))
        {
            self.note_new_primary(sender, primary);
        }
        true
    }

    /// A primary has become the replica of a node in its shard. Returns whether that is news.
    fn note_failover(&mut self, sender: NodeId, primary: NodeId, header: &Header) -> bool {
        let epoch = header.config_epoch;
        if self.is_me(primary) && self.myself().is_replica() {
            // This node is made a primary by votes or by its operator, and by nothing else.
            return false;
        }
        let epoch_of = |id| self.nodes.get(id).map_or(0, |node| self.epoch_of(node));
        let known = epoch_of(sender).max(epoch_of(primary));
        // A primary that has no slots may follow one with an older epoch: nothing can be lost.
        let has_slots = self.nodes.get(sender).is_some_and(|node| node.slot_count > 0);
        if has_slots && known > epoch {
            let text = format!(
                "Ignore stale message from {}; gossip config epoch: {epoch}, current config epoch: {known}",
                self.called_in_shard(sender)
            );
            self.log(Level::Notice, text);
            return false;
        }
        let slots = self.nodes.get(sender).map(|node| node.slots.clone()).unwrap_or_default();
        if !self.nodes.get(primary).is_some_and(Node::is_replica) {
            // A replica's frame has its primary's slots. What else the sender had is for others to claim.
            for slot in slots.iter() {
                self.delete_slot(slot);
                if header.slots.contains(slot) {
                    self.add_slot(primary, slot);
                }
            }
            return true;
        }
        for slot in slots.iter() {
            self.move_slot(primary, slot);
        }
        self.follow_failover(sender, primary);
        self.set_as_primary(primary);
        self.note_epoch(primary, epoch);
        if !slots.is_empty() {
            let text = format!(
                "A failover occurred in shard {}; node {} lost {} slot(s) and failed over to node {} with a \
                 config epoch of {epoch}",
                self.nodes.get(sender).map(|node| node.shard_id.to_string()).unwrap_or_default(),
                self.called(sender),
                slots.len(),
                self.called(primary)
            );
            self.log(Level::Notice, text);
        }
        true
    }

    /// What SETSLOT has left follows a failover of the other node.
    fn follow_failover(&mut self, from: NodeId, to: NodeId) {
        let redirect = |slots: &mut std::collections::BTreeMap<u16, NodeId>| {
            let nodes = slots.values_mut().filter(|node| **node == from);
            nodes.map(|node| *node = to).count()
        };
        let importing = redirect(&mut self.slots.importing);
        let migrating = redirect(&mut self.slots.migrating);
        for (count, state, end) in [(importing, "importing", "source"), (migrating, "migrating", "target")] {
            if count > 0 {
                let text = format!(
                    "A failover occurred in migration {end}. Update {state} {end} of {count} slot(s) to node {}.",
                    self.called_in_shard(to)
                );
                self.log(Level::Notice, text);
            }
        }
    }

    /// A primary has become a replica in another shard.
    fn note_shard_left(&mut self, sender: NodeId, primary: Option<NodeId>) {
        let slots = self.delete_slots_of(sender);
        let Some(node) = self.nodes.get(sender) else { return };
        let text = format!(
            "Node {} is no longer primary of shard {}; removed all {slots} slot(s) it used to own",
            self.called(sender),
            node.shard_id
        );
        self.log(Level::Notice, text);
        if let Some(shard_id) = primary.and_then(|primary| self.nodes.get(primary)).map(|node| node.shard_id)
        {
            let text = format!("Node {} is now part of shard {shard_id}", self.called(sender));
            self.log(Level::Notice, text);
        }
    }

    /// A replica has another primary.
    fn note_new_primary(&mut self, sender: NodeId, primary: NodeId) {
        let text = format!(
            "Node {} is now a replica of node {}",
            self.called(sender),
            self.called_in_shard(primary)
        );
        self.log(Level::Notice, text);
        self.nodes.attach(sender, primary);
        self.leave_replica();
        if let Some(shard_id) = self.nodes.get(primary).map(|node| node.shard_id) {
            self.set_shard_id(sender, shard_id);
        }
        self.save();
    }

    /// A replica of a replica becomes one of the latter's primary.
    fn leave_replica(&mut self) {
        let Some(middle) = self.myself().primary else { return };
        let Some(top) = self.nodes.get(middle).and_then(|node| node.primary) else { return };
        if self.is_me(top) {
            return;
        }
        let text = format!("I'm a sub-replica! Reconfiguring myself as a replica of {top} from {middle}");
        self.log(Level::Notice, text);
        let full_sync = !self.are_in_one_shard(top, self.my_id());
        self.replicate_from(top, Conversion { closes_slots: true, full_sync });
        self.save_synced();
        (self.todo.update_state, self.todo.broadcast) = (true, true);
    }

    /// Sends an UPDATE about a slot that the sender claims and another node has with a newer epoch. One such node is enough: the
    /// others follow when the sender claims again.
    fn correct_claim(&mut self, sender: NodeId, header: &Header) {
        let newer = header.slots.iter().find_map(|slot| {
            let owner = self.owner(slot).filter(|_| !self.slots.is_free(slot))?;
            (owner.id != sender && owner.config_epoch > header.config_epoch).then_some(owner.id)
        });
        if let Some(owner) = newer {
            self.send_update(sender, owner);
        }
    }

    /// UPDATE: a node sends the slots of another.
    pub(crate) fn receive_update(&mut self, sender: NodeId, update: &Update) {
        let Some(node) = self.nodes.get(update.id) else { return };
        let known = node.config_epoch;
        if known >= update.config_epoch || !self.believes_epoch(update.config_epoch) {
            return;
        }
        if node.is_myself() {
            return self.log(Level::Notice, "Discarding UPDATE message about myself.".to_string());
        }
        let text = format!(
            "Processing UPDATE message received from {} about node {}. old configEpoch {known}, new configEpoch {}",
            self.called_in_shard(sender),
            self.called_in_shard(update.id),
            update.config_epoch
        );
        self.log(Level::Notice, text);
        self.set_as_primary(update.id);
        self.note_epoch(update.id, update.config_epoch);
        self.take_claim(update.id, update.config_epoch, &update.slots);
    }

    /// Gives the slots that a primary claims to it where its epoch is newer, and finds this node's new role.
    fn take_claim(&mut self, claimant: NodeId, epoch: u64, slots: &SlotSet) {
        let Some(node) = self.nodes.get(claimant) else { return };
        let mut claim = Claim {
            claimant,
            epoch,
            slots,
            is_in_my_shard: self.is_in_my_shard(node),
            primary: self.my_primary().id,
            lost: 0,
            dirty: SlotSet::new(),
            moved: None,
        };
        for slot in 0..SLOTS {
            if slots.contains(slot) {
                self.take_claimed_slot(&mut claim, slot);
            } else {
                self.note_slot_not_claimed(&claim, slot);
            }
        }
        self.log_moved(claim.moved.take(), claimant);
        self.follow_claim(claim);
    }

    fn take_claimed_slot(&mut self, claim: &mut Claim<'_>, slot: u16) {
        let owner = self.owner_id(slot);
        if owner == Some(claim.claimant) {
            self.slots.unclaimed.remove(slot);
            return;
        }
        let is_free = self.slots.is_free(slot);
        let is_older = self.owner(slot).is_some_and(|owner| owner.config_epoch < claim.epoch);
        let beats_owner = is_free || is_older && !self.keeps_taken_slot(slot, claim.claimant);
        if !beats_owner && !self.is_granted(slot, claim.claimant) {
            return;
        }
        if let Some(owner) = owner.filter(|owner| !is_free && !self.are_in_one_shard(*owner, claim.claimant))
        {
            self.note_moved(claim, slot, owner);
        }
        if self.owns(slot) {
            claim.dirty.insert(slot);
        }
        claim.lost += u16::from(owner == Some(claim.primary));
        self.close_claimed_slot(claim, slot);
        self.move_slot(claim.claimant, slot);
        self.save_synced();
        self.todo.update_state = true;
    }

    /// What SETSLOT has left for a slot ends if the slot goes to another shard, and follows a failover otherwise.
    fn close_claimed_slot(&mut self, claim: &Claim<'_>, slot: u16) {
        if let Some(target) = self.slots.migrating.get(&slot).copied().filter(|_| !claim.is_in_my_shard) {
            let text =
                format!("Slot {slot} is no longer being migrated to node {}.", self.called_in_shard(target));
            self.log(Level::Notice, text);
            self.slots.migrating.remove(&slot);
        }
        let Some(source) = self.slots.importing.get(&slot).copied() else { return };
        if source == claim.claimant {
            return;
        }
        if self.are_in_one_shard(claim.claimant, source) {
            self.slots.importing.insert(slot, claim.claimant);
            self.log_with(Level::Verbose, |cluster| {
                format!(
                    "Failover occurred in migration source. Update importing source for slot {slot} to node {}.",
                    cluster.called_in_shard(claim.claimant)
                )
            });
        } else {
            let text = format!(
                "Slot {slot} is no longer being imported from node {}.",
                self.called_in_shard(source)
            );
            self.log(Level::Notice, text);
            self.slots.importing.remove(&slot);
        }
    }

    fn note_slot_not_claimed(&mut self, claim: &Claim<'_>, slot: u16) {
        let claimant = claim.claimant;
        if self.owner_id(slot) == Some(claimant) {
            // Clients are still sent there, until somebody else claims the slot.
            self.slots.unclaimed.insert(slot);
        }
        let target = self.slots.migrating.get(&slot).and_then(|target| self.nodes.get(*target));
        let is_replaced = target.is_some_and(|target| {
            target.id != claimant
                && (target.config_epoch < claim.epoch || target.is_replica())
                && self.are_in_one_shard(target.id, claimant)
        });
        if is_replaced {
            self.slots.migrating.insert(slot, claimant);
            self.log_with(Level::Verbose, |cluster| {
                format!(
                    "Failover occurred in migration target. Slot {slot} is now being migrated to node {}.",
                    cluster.called_in_shard(claimant)
                )
            });
            self.save_synced();
            self.todo.update_state = true;
        }
        if self.myself().is_primary() && self.slots.importing.get(&slot) == Some(&claimant) {
            self.finish_import(claimant, slot);
        }
    }

    /// The source of an import has given a slot up: this node, or the primary that it replaced, was to have it.
    fn finish_import(&mut self, source: NodeId, slot: u16) {
        let text = format!(
            "Slot {slot} is no longer being imported from node {}; Clear my importing source for the slot.",
            self.called_in_shard(source)
        );
        self.log(Level::Notice, text);
        self.slots.importing.remove(&slot);
        if !self.owns(slot) {
            self.move_slot(self.my_id(), slot);
            self.bump_epoch();
            self.save_synced();
            self.todo.update_state = true;
        }
    }

    /// Notes a slot that went from one shard to another; runs of them are one line of the log.
    fn note_moved(&mut self, claim: &mut Claim<'_>, slot: u16, from: NodeId) {
        match &mut claim.moved {
            Some((_, last, source)) if *source == from && *last + 1 == slot => *last = slot,
            moved => {
                let earlier = moved.replace((slot, slot, from));
                self.log_moved(earlier, claim.claimant);
            }
        }
    }

    fn log_moved(&mut self, moved: Option<(u16, u16, NodeId)>, to: NodeId) {
        let Some((first, last, from)) = moved else { return };
        let text = format!(
            "Slot range [{first}, {last}] is migrated from node {} to node {}.",
            self.called_in_shard(from),
            self.called_in_shard(to)
        );
        self.log(Level::Notice, text);
    }

    /// What a claim means for this node: its shard may have lost its last slot.
    fn follow_claim(&mut self, claim: Claim<'_>) {
        let (claimant, myself) = (claim.claimant, self.myself());
        let epoch = self.epoch_of(myself);
        // Without slots there is nothing to lose: then the shard's primary is the one with the newest epoch.
        let replaces_idle = claim.lost == 0
            && claim.is_in_my_shard
            && claim.slots.is_empty()
            && myself.slot_count == 0
            && myself.primary != Some(claimant)
            && epoch < claim.epoch;
        let is_shard_empty = self.nodes.get(claim.primary).is_some_and(|node| node.slot_count == 0);
        if (claim.lost > 0 || replaces_idle) && is_shard_empty {
            return self.follow_claimant(claim);
        }
        self.delete_dirty(claim.dirty);
    }

    fn follow_claimant(&mut self, claim: Claim<'_>) {
        let claimant = claim.claimant;
        if self.settings.allow_replica_migration || claim.is_in_my_shard {
            let text = format!(
                "Configuration change detected. Reconfiguring myself as a replica of node {}",
                self.called_in_shard(claimant)
            );
            self.log(Level::Notice, text);
            let is_foreign = !claim.is_in_my_shard;
            self.replicate_from(claimant, Conversion { closes_slots: is_foreign, full_sync: is_foreign });
            self.save_synced();
            (self.todo.update_state, self.todo.broadcast) = (true, true);
        } else if self.myself().is_primary() {
            let text = format!(
                "My last slot was migrated to node {}. I am now an empty primary.",
                self.called_in_shard(claimant)
            );
            self.log(Level::Notice, text);
            self.delete_dirty(claim.dirty);
        }
    }

    fn delete_dirty(&mut self, dirty: SlotSet) {
        if !dirty.is_empty() {
            self.effect(Effect::DeleteKeysInSlots(dirty));
        }
    }
}
