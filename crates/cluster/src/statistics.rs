//! Counts for CLUSTER INFO.

use wire::cluster_bus::{Kind, NodeFlags};

use crate::cluster::Cluster;

/// Frames that were sent and received, by their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    sent: [u64; Kind::ALL.len()],
    received: [u64; Kind::ALL.len()],
    pub(crate) links_over_limit: u64,
}

impl Statistics {
    pub(crate) fn sent(&mut self, kind: Kind) {
        self.sent[usize::from(kind.number())] += 1;
    }

    pub(crate) fn received(&mut self, kind: Kind) {
        self.received[usize::from(kind.number())] += 1;
    }
}

/// The numbers of CLUSTER INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The cluster works.
    pub is_ok: bool,
    /// Slots that have an owner.
    pub slots_assigned: usize,
    /// Slots whose owner is reached.
    pub slots_ok: usize,
    /// Slots whose owner this node does not reach.
    pub slots_pfail: usize,
    /// Slots whose owner has failed.
    pub slots_fail: usize,
    /// Nodes that this node does not reach.
    pub nodes_pfail: usize,
    /// Nodes that have failed.
    pub nodes_fail: usize,
    /// Of `nodes_pfail`, those that have a vote.
    pub voting_nodes_pfail: usize,
    /// Of `nodes_fail`, those that have a vote.
    pub voting_nodes_fail: usize,
    /// Nodes that are known.
    pub known_nodes: usize,
    /// Primaries that have slots.
    pub size: usize,
    /// Highest epoch.
    pub current_epoch: u64,
    /// Epoch of this node's slots; of a replica, that of its primary.
    pub my_epoch: u64,
    /// Frames sent, by type.
    pub sent: Vec<(Kind, u64)>,
    /// Frames received, by type.
    pub received: Vec<(Kind, u64)>,
    /// Links closed because they had too much to send.
    pub links_over_limit: u64,
}

impl Cluster {
    /// Returns the numbers of CLUSTER INFO.
    pub fn info(&self) -> Info {
        let mut info = Info {
            is_ok: self.state.is_ok,
            known_nodes: self.nodes.len(),
            size: self.state.size,
            current_epoch: self.current_epoch,
            my_epoch: self.epoch_of(self.myself()),
            sent: Kind::ALL.into_iter().zip(self.statistics.sent).collect(),
            received: Kind::ALL.into_iter().zip(self.statistics.received).collect(),
            links_over_limit: self.statistics.links_over_limit,
            ..Info::default()
        };
        for node in self.nodes.iter() {
            let (slots, voting) = (usize::from(node.slot_count), usize::from(node.has_vote()));
            info.slots_assigned += slots;
            if node.has(NodeFlags::FAILED) {
                info.slots_fail += slots;
                info.nodes_fail += 1;
                info.voting_nodes_fail += voting;
            } else if node.has(NodeFlags::POSSIBLY_FAILED) {
                info.slots_pfail += slots;
                info.nodes_pfail += 1;
                info.voting_nodes_pfail += voting;
            } else {
                info.slots_ok += slots;
            }
        }
        info
    }

    /// Counts a frame that came and was not believed.
    pub fn count_dropped_frame(&mut self, kind: Kind) {
        self.statistics.received(kind);
    }

    /// Sets the counts of frames to 0, for CONFIG RESETSTAT.
    pub fn reset_statistics(&mut self) {
        self.statistics = Statistics::default();
    }
}
