//! Failed nodes: one that this node does not reach may have failed, one that a majority does not reach has.

use wire::cluster_bus::{NodeFlags, NodeId};

use crate::action::Level;
use crate::cluster::Cluster;

/// Reports count for this many node timeouts.
const REPORT_TIMEOUTS: u64 = 2;
/// A primary that is reached again counts as working after this many node timeouts, if no other node took its slots.
const UNDO_TIMEOUTS: u64 = 2;
/// Times of reports are rounded up to this, so that those of one second count together.
const REPORT_STEP_MS: u64 = 1_000;

impl Cluster {
    /// Returns how many primaries currently say that they do not reach a node.
    pub fn failure_reports(&self, id: NodeId) -> usize {
        let timeout_ms = self.settings.node_timeout_ms.saturating_mul(REPORT_TIMEOUTS);
        let now_ms = self.now_ms();
        let counts = |at: &&u64| at.saturating_add(timeout_ms) > now_ms;
        self.nodes.get(id).map_or(0, |node| node.failure_reports.values().filter(counts).count())
    }

    /// Notes that a primary does not reach a node, and returns whether this is new.
    pub(crate) fn add_failure_report(&mut self, id: NodeId, reporter: NodeId) -> bool {
        let at = (self.now_ms() / REPORT_STEP_MS + 1) * REPORT_STEP_MS;
        let Some(node) = self.nodes.get_mut(id).filter(|node| !node.is_failed()) else { return false };
        node.failure_reports.insert(reporter, at).is_none()
    }

    /// Removes reports that are too old to count.
    pub(crate) fn drop_old_reports(&mut self, id: NodeId) {
        let timeout_ms = self.settings.node_timeout_ms.saturating_mul(REPORT_TIMEOUTS);
        let now_ms = self.now_ms();
        if let Some(node) = self.nodes.get_mut(id) {
            node.failure_reports.retain(|_, at| at.saturating_add(timeout_ms) > now_ms);
        }
    }

    /// A node that this one does not reach has failed if a majority says so; FAIL then goes to all.
    pub(crate) fn fail_by_majority(&mut self, id: NodeId) {
        let is_candidate = |node: &crate::node::Node| node.is_possibly_failed() && !node.is_failed();
        if !self.nodes.get(id).is_some_and(is_candidate) {
            return;
        }
        let reports = self.failure_reports(id) + usize::from(self.myself().has_vote());
        if reports < self.quorum() {
            return;
        }
        let text = format!("Marking node {} as failing (quorum reached).", self.called(id));
        self.log(Level::Notice, text);
        self.mark_failed(id);
        self.broadcast_fail(id);
    }

    pub(crate) fn mark_failed(&mut self, id: NodeId) {
        let now_ms = self.now_ms();
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags |= NodeFlags::FAILED;
            node.flags.set(NodeFlags::POSSIBLY_FAILED, false);
            node.times.failed = Some(now_ms);
        }
        if self.myself().is_replica() && self.myself().primary == Some(id) {
            // The shard's other replicas learn from it that this one's offset is its last.
            self.nodes.myself_mut().flags |= NodeFlags::PRIMARY_FAILED;
            self.todo.failover = true;
        }
        self.save_and_update_state();
    }

    /// A node has answered: it is no longer unreachable.
    pub(crate) fn mark_reachable(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.is_possibly_failed() {
            node.flags.set(NodeFlags::POSSIBLY_FAILED, false);
            self.save_and_update_state();
        } else if node.is_failed() {
            self.undo_failure(id);
        }
    }

    fn undo_failure(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let undo_ms = self.settings.node_timeout_ms.saturating_mul(UNDO_TIMEOUTS);
        let reason = if !node.has_vote() {
            let role = if node.is_replica() { "replica" } else { "primary without slots" };
            format!("{role} is reachable again.")
        } else if crate::node::age_ms(self.now_ms(), node.times.failed) > undo_ms {
            "is reachable again and nobody is serving its slots after some time.".to_string()
        } else {
            // Its replicas get the time to take its slots.
            return;
        };
        let text = format!("Clear FAIL state for node {}: {reason}", self.called(id));
        self.log(Level::Notice, text);
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags.set(NodeFlags::FAILED, false);
        }
        if self.myself().primary == Some(id) {
            self.nodes.myself_mut().flags.set(NodeFlags::PRIMARY_FAILED, false);
        }
        self.save_and_update_state();
    }
}
