//! Migration of replicas: a replica of a primary that has several goes to one that has lost its last.

use wire::cluster_bus::NodeFlags;

use crate::action::Level;
use crate::cluster::Cluster;
use crate::node::{Node, age_ms};
use crate::roles::Conversion;

/// A primary has to be without replicas for this long: after a failover, replicas take a while to follow.
const ORPHANED_MS: u64 = 5_000;
/// Fewer replicas than these are never divided.
const REPLICAS_MIN: usize = 2;

impl Cluster {
    /// Goes to a primary without replicas, if there is one and this replica is the one to go.
    pub(crate) fn migrate_if_needed(&mut self) {
        let is_allowed = self.settings.allow_replica_migration && self.state.is_ok;
        let Some(primary) = self.myself().primary.filter(|_| self.myself().is_replica() && is_allowed) else {
            return;
        };
        let counts =
            self.nodes.iter().filter(|node| !node.is_myself() && node.is_primary() && !node.is_failed());
        let most = counts.map(|node| self.working_replicas(node)).max().unwrap_or(0);
        let mine = self.nodes.get(primary).map_or(0, |node| self.working_replicas(node));
        if most < REPLICAS_MIN || mine != most {
            return;
        }
        self.note_orphans();
        if self.reachable_siblings() <= self.settings.migration_barrier || !self.is_first_of(most) {
            return;
        }
        let now_ms = self.now_ms();
        let is_target = |node: &&Node| node.slot_count > 0 && node.times.orphaned.is_some();
        let Some(target) = self.nodes.iter().find(is_target) else { return };
        if age_ms(now_ms, target.times.orphaned) <= ORPHANED_MS {
            return;
        }
        let target = target.id;
        let text = format!("Migrating to orphaned primary {}", self.called_in_shard(target));
        self.log(Level::Notice, text);
        self.replicate_from(target, Conversion { closes_slots: true, full_sync: true });
        self.save_synced();
        self.todo.broadcast = true;
    }

    /// Replicas of a node that have not failed.
    fn working_replicas(&self, node: &Node) -> usize {
        let replicas = node.replicas.iter().filter_map(|id| self.nodes.get(*id));
        replicas.filter(|replica| !replica.is_failed()).count()
    }

    /// Replicas of this one's primary that this node reaches, itself included.
    fn reachable_siblings(&self) -> usize {
        let unreachable = NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED;
        let replicas = self.my_primary().replicas.iter().filter_map(|id| self.nodes.get(*id));
        replicas.filter(|replica| !replica.has(unreachable)).count()
    }

    /// Notes since when primaries that had replicas have none.
    fn note_orphans(&mut self) {
        let now_ms = self.now_ms();
        for id in self.nodes.ids_of(Node::is_primary) {
            let Some(node) = self.nodes.get(id) else { continue };
            let is_orphan =
                !node.is_failed() && node.has(NodeFlags::MIGRATE_TO) && self.working_replicas(node) == 0;
            if let Some(node) = self.nodes.get_mut(id) {
                node.times.orphaned = is_orphan.then(|| node.times.orphaned.unwrap_or(now_ms));
            }
        }
    }

    /// This replica has the smallest id of all whose primaries have that many replicas.
    fn is_first_of(&self, replicas: usize) -> bool {
        let donors =
            self.nodes.iter().filter(|node| node.is_primary() && self.working_replicas(node) == replicas);
        let first = donors.flat_map(|node| &node.replicas).min();
        first.is_none_or(|first| *first >= self.my_id())
    }
}
