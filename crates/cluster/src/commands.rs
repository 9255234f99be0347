//! What operators ask for by CLUSTER ... All checks come first: a command that is refused has changed nothing.

use wire::cluster_bus::{NodeFlags, NodeId, SLOTS, SlotSet};

use crate::action::{Effect, Flush, Level, Now};
use crate::cluster::Cluster;
use crate::epochs::EPOCH_JUMP_MAX;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::roles::Conversion;

/// What SETSLOT does to a slot, with the node's id as the client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState<'a> {
    /// Keys leave for another node.
    Migrating(&'a [u8]),
    /// Keys come from another node.
    Importing(&'a [u8]),
    /// Neither.
    Stable,
    /// The slot has another owner.
    Node(&'a [u8]),
}

/// What became of BUMPEPOCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bumped {
    /// This node has a new epoch, which is the highest.
    Bumped(u64),
    /// It has the highest already.
    Still(u64),
}

impl Cluster {
    /// ADDSLOTS, ADDSLOTSRANGE: this node owns these slots, given as first and last, from now on.
    pub fn add_slots(&mut self, ranges: &[(u16, u16)]) -> Result<(), Refusal> {
        for slot in self.check_slots_of(ranges, false)?.iter() {
            self.slots.importing.remove(&slot);
            self.add_slot(self.my_id(), slot);
        }
        self.save_command();
        Ok(())
    }

    /// DELSLOTS, DELSLOTSRANGE: these slots, given as first and last, have no owner from now on.
    pub fn delete_slots(&mut self, ranges: &[(u16, u16)]) -> Result<(), Refusal> {
        for slot in self.check_slots_of(ranges, true)?.iter() {
            self.delete_slot(slot);
        }
        self.save_command();
        Ok(())
    }

    /// Checks the slots of ADDSLOTS or DELSLOTS.
    fn check_slots_of(&self, ranges: &[(u16, u16)], are_owned: bool) -> Result<SlotSet, Refusal> {
        let mut slots = SlotSet::new();
        for &(first, last) in ranges {
            if first > last {
                return Err(Refusal::RangeReversed(first, last));
            }
            for slot in first..=last {
                match self.owner(slot) {
                    None if are_owned => return Err(Refusal::SlotUnassigned(slot)),
                    Some(_) if !are_owned => return Err(Refusal::SlotBusy(slot)),
                    _ if !slots.insert(slot) => return Err(Refusal::SlotRepeated(slot)),
                    _ => {}
                }
            }
        }
        Ok(slots)
    }

    /// FLUSHSLOTS: this node owns no slot from now on.
    pub fn flush_slots(&mut self, is_database_empty: bool) -> Result<(), Refusal> {
        if !is_database_empty {
            return Err(Refusal::KeysBeforeFlush);
        }
        self.delete_slots_of(self.my_id());
        self.save_command();
        Ok(())
    }

    /// Checks a SETSLOT: before it is sent to replicas, and again by [`Self::set_slot`].
    pub fn check_set_slot(
        &self,
        slot: u16,
        state: SlotState<'_>,
        keys_in_slot: u64,
        from_primary: bool,
    ) -> Result<(), Refusal> {
        if !from_primary && self.myself().is_replica() {
            return Err(Refusal::SetSlotOnReplica);
        }
        self.check_no_migrations()?;
        let owner = self.owner_id(slot);
        let is_mine = self.owns(slot);
        match state {
            SlotState::Stable => Ok(()),
            SlotState::Migrating(_) if self.myself().is_primary() && !is_mine => Err(Refusal::NotOwner(slot)),
            SlotState::Importing(_) if is_mine => Err(Refusal::AlreadyOwner(slot)),
            SlotState::Migrating(id) | SlotState::Importing(id) => {
                let node = self.lookup(id).ok_or_else(|| Refusal::UnknownPeer(text(id)))?;
                if node.is_myself() {
                    Err(Refusal::TargetIsMyself)
                } else if node.is_replica() {
                    Err(Refusal::TargetIsReplica)
                } else {
                    Ok(())
                }
            }
            SlotState::Node(id) => {
                let node = self.lookup(id).ok_or_else(|| Refusal::UnknownNode(text(id)))?;
                if node.is_replica() {
                    Err(Refusal::TargetIsReplica)
                } else if is_mine && owner != Some(node.id) && keys_in_slot != 0 {
                    Err(Refusal::SlotHasKeys(slot))
                } else {
                    Ok(())
                }
            }
        }
    }

    /// SETSLOT. A replica takes it from its primary only.
    pub fn set_slot(
        &mut self,
        slot: u16,
        state: SlotState<'_>,
        keys_in_slot: u64,
        from_primary: bool,
    ) -> Result<(), Refusal> {
        self.check_set_slot(slot, state, keys_in_slot, from_primary)?;
        match state {
            SlotState::Stable => {
                self.log(Level::Notice, format!("Marking slot {slot} stable"));
                self.slots.importing.remove(&slot);
                self.slots.migrating.remove(&slot);
            }
            SlotState::Migrating(id) => {
                let Some(node) = self.lookup(id).map(|node| node.id) else { return Ok(()) };
                self.log(Level::Notice, format!("Migrating slot {slot} to node {}", self.called(node)));
                self.slots.migrating.insert(slot, node);
            }
            SlotState::Importing(id) => {
                let Some(node) = self.lookup(id).map(|node| node.id) else { return Ok(()) };
                self.log(Level::Notice, format!("Importing slot {slot} from node {}", self.called(node)));
                self.slots.importing.insert(slot, node);
            }
            SlotState::Node(id) => {
                let Some(node) = self.lookup(id).map(|node| node.id) else { return Ok(()) };
                self.assign_slot(slot, node, keys_in_slot);
            }
        }
        self.save_command();
        Ok(())
    }

    /// SETSLOT NODE, after its checks.
    fn assign_slot(&mut self, slot: u16, node: NodeId, keys_in_slot: u64) {
        let text = format!("Assigning slot {slot} to node {}", self.called_in_shard(node));
        self.log(Level::Notice, text);
        if keys_in_slot == 0 {
            self.slots.migrating.remove(&slot);
        }
        let (primary, owner) = (self.my_primary().id, self.owner_id(slot));
        self.move_slot(node, slot);
        self.save_synced();
        let is_shard_empty = self.my_primary().slot_count == 0;
        if owner == Some(primary) && is_shard_empty && node != primary {
            self.lost_last_slot(node);
        }
        if !self.is_me(node) {
            // A replica leaves the slot in importing state until its primary claims it: should the primary fail before, the
            // source still owns the slot for all others, and the keys that have moved must not be deleted.
            return;
        }
        let was_importing = self.slots.importing.remove(&slot).is_some();
        // Others, the former owner included, believe it by an epoch that beats the owner's. That the slot was being
        // imported may have been forgotten: a claim of the owner meanwhile is enough.
        if was_importing || owner.is_some_and(|owner| owner != node) {
            if matches!(self.bump_epoch(), Bumped::Bumped(_)) {
                self.log(Level::Notice, format!("ConfigEpoch updated after importing slot {slot}"));
            }
            self.todo.broadcast = true;
        }
    }

    /// The shard's last slot went to another node by SETSLOT.
    fn lost_last_slot(&mut self, node: NodeId) {
        if self.settings.allow_replica_migration {
            let text = format!(
                "Lost my last slot during slot migration. Reconfiguring myself as a replica of {}",
                self.called_in_shard(node)
            );
            self.log(Level::Notice, text);
            self.replicate_from(node, Conversion { closes_slots: true, full_sync: true });
            self.save_synced();
            (self.todo.update_state, self.todo.broadcast) = (true, true);
        } else if self.myself().is_primary() {
            let text = format!(
                "My last slot was migrated to node {}. I am now an empty primary.",
                self.called_in_shard(node)
            );
            self.log(Level::Notice, text);
        }
    }

    /// BUMPEPOCH: gives this node the highest epoch, without asking anybody.
    pub fn bump_epoch(&mut self) -> Bumped {
        let highest = self.nodes.iter().map(|node| node.config_epoch).max().unwrap_or(0);
        let mine = self.myself().config_epoch;
        if mine != 0 && mine == highest.max(self.current_epoch) {
            return Bumped::Still(mine);
        }
        let epoch = self.take_next_epoch();
        self.log(Level::Notice, format!("New configEpoch set to {epoch}"));
        Bumped::Bumped(epoch)
    }

    /// SET-CONFIG-EPOCH: an epoch for a node that knows no other yet.
    pub fn set_config_epoch(&mut self, epoch: i64) -> Result<(), Refusal> {
        let wanted = u64::try_from(epoch).ok().filter(|epoch| *epoch <= EPOCH_JUMP_MAX);
        let wanted = wanted.ok_or(Refusal::BadEpoch(epoch))?;
        if self.nodes.len() > 1 {
            return Err(Refusal::EpochWithNodes);
        }
        if self.myself().config_epoch != 0 {
            return Err(Refusal::EpochTaken);
        }
        self.nodes.myself_mut().config_epoch = wanted;
        self.current_epoch = self.current_epoch.max(wanted);
        self.log(Level::Notice, format!("configEpoch set to {wanted} via CLUSTER SET-CONFIG-EPOCH"));
        self.save_command();
        Ok(())
    }

    /// Takes what SETSLOT has left on the primary, as a full synchronisation brings it: slots, whether they are being
    /// imported, and the other node. A node that is not known is one whose address is learnt from gossip.
    pub fn set_open_slots(&mut self, slots: &[(u16, bool, NodeId)]) {
        self.slots.close_all();
        for &(slot, is_importing, id) in slots.iter().filter(|(slot, ..)| *slot < SLOTS) {
            if self.nodes.get(id).is_none() {
                let (shard_id, now_ms) = (self.new_id(), self.now_ms());
                self.nodes.insert(Node::new(id, shard_id, NodeFlags::NONE, now_ms));
            }
            if self.nodes.get(id).is_some() {
                let open = if is_importing { &mut self.slots.importing } else { &mut self.slots.migrating };
                open.insert(slot, id);
            }
        }
        self.save();
    }

    /// SAVECONFIG: the turn's end saves nodes.conf and has it on disk; [`Self::awaited_save`] is its number.
    pub fn save_config(&mut self) {
        self.save_synced();
    }

    /// FORGET: removes a node, and keeps gossip from bringing it back. `requested_by` names the client in the log.
    pub fn forget(&mut self, id: &[u8], requested_by: &str, now: Now) -> Result<(), Refusal> {
        self.now = now;
        let Some(node) = self.lookup(id) else {
            // Another node may have spread it before.
            let is_forgotten = NodeId::parse(id).is_some_and(|id| self.is_forgotten(id));
            return if is_forgotten { Ok(()) } else { Err(Refusal::UnknownNode(text(id))) };
        };
        let id = node.id;
        if node.is_myself() {
            return Err(Refusal::ForgetMyself);
        }
        if self.myself().is_replica() && self.myself().primary == Some(id) {
            return Err(Refusal::ForgetPrimary);
        }
        self.log(Level::Notice, format!("Cluster forget {id} (user request from '{requested_by}')."));
        self.note_forgotten(id, self.settings.blacklist_ttl_s);
        self.remove_node(id);
        self.save_command();
        Ok(())
    }

    /// REPLICATE: makes this node a replica.
    pub fn replicate(&mut self, id: &[u8], is_database_empty: bool, now: Now) -> Result<(), Refusal> {
        self.now = now;
        let node = self.lookup(id).ok_or_else(|| Refusal::UnknownNode(text(id)))?;
        let id = node.id;
        if node.is_myself() {
            return Err(Refusal::ReplicateMyself);
        }
        if node.is_replica() {
            return Err(Refusal::ReplicateReplica);
        }
        let myself = self.myself();
        if myself.is_primary() && (myself.slot_count != 0 || !is_database_empty) {
            return Err(Refusal::NotEmpty);
        }
        if myself.primary == Some(id) {
            return Ok(());
        }
        self.replicate_from(id, Conversion { closes_slots: true, full_sync: true });
        self.save_command();
        self.todo.broadcast = true;
        Ok(())
    }

    /// REPLICATE NO ONE: makes a replica a primary without slots and data, in a shard of its own.
    pub fn replicate_no_one(&mut self, requested_by: &str, now: Now) {
        self.now = now;
        if self.myself().is_primary() {
            return;
        }
        let text = format!(
            "Stop replication and turning myself into empty primary (request from '{requested_by}')."
        );
        self.log(Level::Notice, text);
        self.set_as_primary(self.my_id());
        self.effect(Effect::Flush(Flush::Detached));
        self.slots.close_all();
        self.reset_manual_failover();
        self.election.cancel();
        self.move_to_new_shard();
        self.save_command();
        self.todo.broadcast = true;
    }

    fn move_to_new_shard(&mut self) {
        let shard_id = self.new_id();
        self.nodes.myself_mut().shard_id = shard_id;
        self.log(Level::Notice, format!("Moving myself to a new shard {shard_id}."));
    }

    /// RESET: forgets all other nodes and slots; if it is hard, also this node's id and epochs.
    pub fn reset(
        &mut self,
        hard: bool,
        is_database_empty: bool,
        requested_by: &str,
        now: Now,
    ) -> Result<(), Refusal> {
        self.now = now;
        if self.myself().is_primary() && !is_database_empty {
            return Err(Refusal::KeysBeforeReset);
        }
        self.log(Level::Notice, format!("Cluster reset (user request from '{requested_by}')."));
        self.slots.close_all();
        self.reset_manual_failover();
        self.election.cancel();
        for slot in 0..SLOTS {
            self.delete_slot(slot);
        }
        for id in self.nodes.ids_of(|node| !node.is_myself()) {
            self.remove_node(id);
        }
        self.forgotten.clear();
        if hard {
            self.renew_id();
        }
        self.move_to_new_shard();
        if self.myself().is_replica() {
            self.set_as_primary(self.my_id());
            self.effect(Effect::Flush(Flush::Reset));
        }
        self.save_command();
        Ok(())
    }

    /// Gives this node, which is the only one left, a new id and no epoch.
    fn renew_id(&mut self) {
        (self.current_epoch, self.last_vote_epoch) = (0, 0);
        self.nodes.myself_mut().config_epoch = 0;
        self.log(Level::Notice, "configEpoch set to 0 via CLUSTER RESET HARD".to_string());
        let (old, new) = (self.my_id(), self.new_id());
        self.nodes.rename(old, new);
        self.log(Level::Notice, format!("Node hard reset, now I'm {new}"));
    }

    /// Brings slots in agreement with the data of a primary: slots that have keys and no owner are taken, keys of
    /// others' slots are deleted. It is called once the data is loaded, and as [`Effect::VerifyData`] asks.
    pub fn verify_data(&mut self, slots_with_keys: &SlotSet) {
        if self.myself().is_replica() {
            return;
        }
        let mut foreign = SlotSet::new();
        for slot in slots_with_keys.iter() {
            if self.owns(slot) || self.slots.importing.contains_key(&slot) {
                continue;
            }
            if self.owner(slot).is_none() {
                let text = format!("I have keys for unassigned slot {slot}. Taking responsibility for it.");
                self.log(Level::Notice, text);
                self.add_slot(self.my_id(), slot);
                self.todo.update_state = true;
            } else {
                let text = format!(
                    "I have keys for slot {slot}, but the slot is assigned to another node. \
                     Deleting keys in the slot."
                );
                self.log(Level::Notice, text);
                foreign.insert(slot);
            }
            self.save_synced();
        }
        if !foreign.is_empty() {
            self.effect(Effect::DeleteKeysInSlots(foreign));
        }
    }
}

fn text(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}
