//! Epochs: numbers that order who owned a slot last. The highest that anybody has seen is the current epoch; each
//! primary has an epoch of its own for its slots.

use wire::cluster_bus::{Header, NodeId};

use crate::action::Level;
use crate::cluster::Cluster;

/// Epochs up to this are believed at once: it is half of what there are, so that elections never run out of them.
pub(crate) const EPOCH_JUMP_MAX: u64 = 1 << 62;
/// Beyond that, epochs that are ahead of the current one by at most this are believed.
const EPOCH_STEP_MAX: u64 = 1 << 16;

impl Cluster {
    /// The epochs of a frame can be true. Those that are not would leave none for elections.
    pub(crate) fn believes(&self, header: &Header) -> bool {
        self.believes_epoch(header.current_epoch.max(header.config_epoch))
    }

    pub(crate) fn believes_epoch(&self, epoch: u64) -> bool {
        epoch <= EPOCH_JUMP_MAX.max(self.current_epoch.saturating_add(EPOCH_STEP_MAX))
    }

    /// Gives this node the next epoch, known to others once it is on disk.
    pub(crate) fn take_next_epoch(&mut self) -> u64 {
        self.current_epoch += 1;
        self.nodes.myself_mut().config_epoch = self.current_epoch;
        self.save_synced();
        self.todo.broadcast = true;
        self.current_epoch
    }

    /// Two primaries have one epoch: the one with the smaller id takes the next, so that all differ in the end.
    pub(crate) fn resolve_collision(&mut self, sender: NodeId) {
        if sender <= self.my_id() {
            return;
        }
        let epoch = self.take_next_epoch();
        let text =
            format!("configEpoch collision with node {}. configEpoch set to {epoch}", self.called(sender));
        self.log(Level::Notice, text);
    }
}
