//! Exports of slots to other nodes of the cluster: the child that writes the keys, and what follows its end.

use super::Executor;
use crate::persist::child::ChildPipe;
use wire::cluster_bus::SlotSet;

/// Starts a child that writes the keys of `slots` as commands; returns what it writes into, or `None` if there is no
/// child. There may be no other child.
pub fn begin_export(executor: &mut Executor, slots: &SlotSet) -> Option<ChildPipe> {
    let Executor { disk, db, server, .. } = executor;
    if disk.start_slot_export(db, server, slots) { disk.take_output() } else { None }
}

/// Handles the end of the child that wrote the keys of slots.
pub(super) fn export_ended(_executor: &mut Executor, succeeded: bool) {
    match succeeded {
        true => log::info!("Background slot export terminated with success"),
        false => log::warn!("Background slot export failed"),
    }
}
