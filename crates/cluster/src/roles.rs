//! Who replicates whom: how a node becomes a primary or a replica here.

use wire::cluster_bus::{NodeFlags, NodeId, SLOTS};

use crate::action::{Effect, Level};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::nodes::MYSELF;

/// How this node becomes a replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    /// What SETSLOT has left is forgotten.
    pub(crate) closes_slots: bool,
    /// The primary has another history.
    pub(crate) full_sync: bool,
}

impl Cluster {
    /// Notes that a node is a primary.
    pub(crate) fn set_as_primary(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        if node.is_primary() {
            return;
        }
        let (had_primary, shard) = (node.primary.is_some(), node.shard_id);
        let text = format!("Reconfiguring node {} as primary for shard {shard}", self.called(id));
        self.log(Level::Notice, text);
        self.nodes.detach(id);
        let is_me = self.is_me(id);
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags.set(NodeFlags::REPLICA, false);
            node.flags |= NodeFlags::PRIMARY;
            if had_primary && !is_me {
                node.flags |= NodeFlags::MIGRATE_TO;
            }
        }
        if is_me {
            self.nodes.myself_mut().flags.set(NodeFlags::PRIMARY_FAILED, false);
            self.is_replicating = false;
            self.effect(Effect::BecomePrimary);
        }
        self.save_and_update_state();
    }

    /// Makes this node, which has no slots, the replica of another.
    pub(crate) fn replicate_from(&mut self, primary: NodeId, how: Conversion) {
        let Some(node) = self.nodes.get(primary) else { return };
        let (shard_id, has_failed) = (node.shard_id, node.is_failed());
        let me = self.my_id();
        self.nodes.detach(me);
        let myself = self.nodes.myself_mut();
        myself.flags.set(NodeFlags::PRIMARY | NodeFlags::MIGRATE_TO, false);
        myself.flags |= NodeFlags::REPLICA;
        myself.flags.set(NodeFlags::PRIMARY_FAILED, has_failed);
        if how.closes_slots {
            self.slots.close_all();
        }
        self.nodes.attach(me, primary);
        self.set_shard_id(me, shard_id);
        self.is_replicating = false;
        self.announce_primary(how.full_sync);
        for slot in 0..SLOTS {
            if self.owner_id(slot) != Some(primary) {
                self.slots.left.insert(slot);
            }
        }
        self.reset_manual_failover();
        // An election for another primary's slots is none for these.
        self.election.cancel();
    }

    /// Has the server replicate from this replica's primary, if its address is known.
    pub(crate) fn announce_primary(&mut self, full_sync: bool) {
        let tls = self.settings.tls_replication;
        let Some(primary) = self.myself().primary.and_then(|primary| self.nodes.get(primary)) else { return };
        let (Some(address), port) = (primary.address.clone(), primary.port(tls)) else { return };
        self.is_replicating = true;
        self.effect(Effect::ReplicateFrom { address, port, full_sync });
    }

    /// Notes a node's shard. A replica is always in the shard of its primary.
    pub(crate) fn set_shard_id(&mut self, id: NodeId, shard_id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let primary = node.primary.and_then(|primary| self.nodes.get(primary)).unwrap_or(node);
        if node.is_replica() && primary.shard_id != shard_id {
            let known = primary.shard_id;
            let text = format!(
                "Shard id {shard_id} update request for node id {id} diverges from existing primary shard id \
                 {known}, rejecting!"
            );
            return self.log(Level::Notice, text);
        }
        if let Some(node) = self.nodes.get_mut(id)
            && node.shard_id != shard_id
        {
            node.shard_id = shard_id;
            self.save();
        }
        let myself = self.nodes.myself_mut();
        if myself.primary == Some(id) && myself.shard_id != shard_id {
            myself.shard_id = shard_id;
            self.save_synced();
        }
    }

    pub(crate) fn are_in_one_shard(&self, one: NodeId, other: NodeId) -> bool {
        let shard = |id| self.nodes.get(id).map(|node: &Node| node.shard_id);
        shard(one).is_some() && shard(one) == shard(other)
    }

    /// Removes a node, its slots and all that refers to it.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        if self.nodes.place(id).is_none_or(|place| place == MYSELF) {
            return;
        }
        self.log_with(Level::Debug, |cluster| {
            format!("Deleting node {} from cluster view", cluster.called(id))
        });
        self.slots.importing.retain(|_, node| *node != id);
        self.slots.migrating.retain(|_, node| *node != id);
        self.slots.taken.retain(|_, taken| taken.source != id);
        self.delete_slots_of(id);
        if self.nodes.get(id).is_some_and(|node| !node.is_in_handshake()) {
            for other in self.nodes.iter_mut() {
                other.failure_reports.remove(&id);
            }
        }
        self.close_links_of(id);
        if self.manual.replica() == Some(id) {
            self.reset_manual_failover();
        }
        self.nodes.remove(id);
    }
}
