//! Slot migration: carries out what the cluster's view decides for its jobs, and passes it what happens to their
//! connections.
//!
//! ```text
//!  source                                            target
//!  SlotExports: one connection for each export       an ordinary connection, which ESTABLISH has marked
//!    handshake, keys from a child, changes  ----->   import: runs the commands, without replies
//!    words of SYNCSLOTS                     <---->   words of SYNCSLOTS
//! ```
//!
//! `export` has the source's connections, `import` the commands that a target runs.

use super::Executor;
use super::cluster::{carry_out_effects, remove_keys};
use super::confirmation;
use super::saving::end_slot_export;
use crate::db::encoded_commands::Receivers;
use crate::db::slots;
use crate::server::Server;
use crate::server::cluster_node::{ClusterNode, now};
use crate::session::client::SlotLink;
use crate::session::{Client, ClientHandle};
use cluster::{JobId, MigrationAction, MigrationEvent, MigrationFacts, Ranges, Word};
use wire::aof::write_command;
use wire::cluster_bus::{NodeId, SlotSet};
use wire::rdb::slot_import::SlotImport;

mod export;
mod import;

pub use export::begin_export;
pub(super) use export::{SlotExports, awaits_reply, read_pipe, take_reply};
pub use import::apply;

/// Continues the jobs; called at the end of each turn of the view.
pub(super) fn run(executor: &mut Executor) {
    let has_jobs = |node: &ClusterNode| node.view.has_migrations() || !node.unsent_exports().is_empty();
    if !executor.server.cluster.as_deref().is_some_and(has_jobs) {
        return;
    }
    if executor.slot_exports.take_unreadable_change() {
        log::warn!("A change could not be read for the targets of slot migrations");
        let now = now(executor.server.now);
        if let Some(node) = &mut executor.server.cluster {
            node.view.fail_exports("A change could not be propagated", now);
        }
    }
    executor.slot_exports.enforce_limits(&mut executor.server);
    let now = now(executor.server.now);
    let unsent = executor.slot_exports.unsent(&executor.server);
    let facts = MigrationFacts {
        // The changes of a suspended script are not yet known.
        may_fork: !executor.disk.has_child() && !executor.is_busy(),
        may_pause: !executor.is_busy(),
        authenticates: executor.server.config.primaryauth.is_some(),
        unsent_bytes: &|id| unsent.iter().find(|(job, _)| *job == id).map_or(0, |(_, bytes)| *bytes),
    };
    if let Some(node) = &mut executor.server.cluster {
        node.view.run_migrations(&facts, now);
    }
    carry_out_effects(executor);
    let unsent = executor.slot_exports.unsent(&executor.server);
    let memory_bytes = executor.slot_exports.memory_bytes() as u64;
    if let Some(node) = &mut executor.server.cluster {
        node.publish_unsent_exports(unsent, memory_bytes);
    }
}

/// Passes an event of a job to the view.
pub(super) fn note(executor: &mut Executor, id: JobId, event: MigrationEvent) {
    let now = now(executor.server.now);
    if let Some(node) = &mut executor.server.cluster {
        node.view.migration_event(id, event, now);
    }
    carry_out_effects(executor);
}

/// Counts bytes from a source, which are a sign of life.
#[cold]
pub(super) fn note_input(executor: &mut Executor, link: SlotLink, bytes: usize) {
    executor.server.observed.statistics.slot_import_bytes += bytes as u64;
    let now = now(executor.server.now);
    if let Some(node) = &mut executor.server.cluster {
        node.view.note_migration_input(link.job, now);
    }
}

/// Fails the job of a connection whose input is invalid.
pub(super) fn fail(executor: &mut Executor, link: SlotLink, why: &str) {
    log::warn!("Invalid input on the connection of a slot migration: {why}");
    note(executor, link.job, MigrationEvent::CommandFailed);
}

/// Carries out an action for a job.
pub(super) fn carry_out(executor: &mut Executor, id: JobId, action: MigrationAction) {
    match action {
        MigrationAction::Connect { address, port } => {
            executor.slot_exports.connect(&mut executor.server, id, address.to_string(), port);
        }
        MigrationAction::Authenticate => {
            let config = &executor.server.config;
            let words = [Some(b"AUTH".to_vec()), config.primaryuser.clone(), config.primaryauth.clone()];
            let words: Vec<Vec<u8>> = words.into_iter().flatten().collect();
            send(executor, id, &words);
        }
        MigrationAction::Establish => {
            let words = executor.server.cluster.as_deref().map(|node| establish_words(node, id));
            send(executor, id, &words.unwrap_or_default());
        }
        MigrationAction::Send(word) => {
            if word == Word::RequestFailover {
                // The source deletes the keys, whose writes it has confirmed.
                confirmation::sync_if_promised(executor);
            }
            send_word(executor, id, word);
        }
        MigrationAction::Snapshot => export::start_snapshot(executor, id),
        MigrationAction::Close => close(executor, id),
        MigrationAction::Hide(slots) => slots::hide(&mut executor.db, &slots),
        MigrationAction::Show(slots) => slots::show(&mut executor.db, &slots),
        MigrationAction::DeleteKeys(slots) => remove_keys(executor, &slots),
        MigrationAction::Finish { name, succeeded, message } => {
            propagate_end(executor, name, succeeded, message);
        }
    }
}

fn slots_of(server: &Server, id: JobId) -> Option<SlotSet> {
    let job = server.cluster.as_deref()?.view.migration(id)?;
    Some(job.slots().clone())
}

fn establish_words(node: &ClusterNode, id: JobId) -> Vec<Vec<u8>> {
    let Some(job) = node.view.migration(id) else { return Vec::new() };
    let (source, name) = (node.view.my_id(), job.name());
    let head =
        ["CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", source.as_str(), "NAME", name.as_str(), "SLOTSRANGE"];
    let ranges = job.ranges().iter().flat_map(|&(first, last)| [first, last]);
    let head = head.iter().map(|word| word.as_bytes().to_vec());
    head.chain(ranges.map(|slot| slot.to_string().into_bytes())).collect()
}

fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut command = Vec::new();
    write_command(&mut command, words.iter().map(Vec::as_slice)).expect("writing to memory cannot fail");
    command
}

fn send_word(executor: &mut Executor, id: JobId, word: Word) {
    let words = ["CLUSTER", "SYNCSLOTS", word.name()].map(|word| word.as_bytes().to_vec());
    match word {
        Word::SnapshotEof => executor.slot_exports.end_snapshot(id, &encoded(&words)),
        _ => send(executor, id, &words),
    }
}

/// Sends a command to the other node, behind all that it is sent already.
fn send(executor: &mut Executor, id: JobId, words: &[Vec<u8>]) {
    let command = encoded(words);
    if executor.slot_exports.append(id, &command) {
        return;
    }
    if let Some(handle) = source_of(&executor.server, id) {
        executor.server.clients.push(handle, |output| output.raw(&command));
    }
}

/// Returns the connection on which the keys of an import arrive.
fn source_of(server: &Server, id: JobId) -> Option<ClientHandle> {
    let is_source =
        |client: &&Client| client.routing.slot_link == Some(SlotLink { job: id, is_export: false });
    server.clients.iter().find(is_source).map(|client| client.handle)
}

/// Closes the connection of a job, and ends the child that writes for it.
fn close(executor: &mut Executor, id: JobId) {
    if executor.slot_exports.is_snapshot_of(id) {
        end_slot_export(executor);
    }
    let target = executor.slot_exports.remove(id);
    for handle in target.into_iter().chain(source_of(&executor.server, id)) {
        executor.server.close_asap(handle);
    }
}

/// Propagates the end of an import, so that copies of the data show its keys, or know that they were deleted.
fn propagate_end(executor: &mut Executor, name: NodeId, succeeded: bool, message: Option<String>) {
    let state = if succeeded { "success" } else { "failed" };
    let mut words = vec!["CLUSTER", "SYNCSLOTS", "FINISH", "STATE", state, "NAME", name.as_str()];
    words.extend(message.iter().flat_map(|message| ["MESSAGE", message.as_str()]));
    let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
    executor.begin_turn(executor.own_turn());
    executor.begin_changes();
    executor.db.change_log.propagate_as_received(0, words.into_iter());
    executor.db.change_log.end_command(Receivers::ALL);
    executor.feed_unit();
}

/// Ends the imports of data that is about to be replaced, or was loaded in part.
pub(super) fn data_is_replaced(executor: &mut Executor, why: &str) {
    let now = now(executor.server.now);
    if let Some(node) = &mut executor.server.cluster {
        node.view.drop_imports(why, now);
    }
    // A load that failed has hidden slots without a job.
    slots::show_all(&mut executor.db);
}

/// Takes up the imports that a file names: they are those of this node's primary, or have no source any more.
pub(super) fn take_up(executor: &mut Executor, imports: Vec<SlotImport>) {
    let now = now(executor.server.now);
    let Some(node) = &mut executor.server.cluster else { return };
    for SlotImport { name, slots } in imports {
        let ranges: Ranges = slots.ranges().collect();
        if node.view.check_import(&ranges).is_ok() {
            node.view.establish_import(name, None, ranges, now);
        }
    }
}

/// Lets the commands of sources run that were held back.
pub(super) fn resume_sources(server: &mut Server) {
    if server.cluster.as_deref().is_some_and(|node| node.view.has_imports()) {
        let sources = server.clients.iter().filter(|client| client.is_slot_source());
        let sources: Vec<ClientHandle> = sources.map(|client| client.handle).collect();
        server.resumed.extend(sources);
    }
}

/// Handles the end of the child that wrote the keys of an export.
pub(super) fn export_ended(executor: &mut Executor, succeeded: bool) {
    match succeeded {
        true => log::info!("Background slot export terminated with success"),
        false => log::warn!("Background slot export failed"),
    }
    let copied_bytes = executor.server.observed.persistence.child.copied_bytes_peak;
    let Some(id) = executor.slot_exports.child_ended() else { return };
    // The rest of the keys may still be in the pipe.
    if !succeeded || executor.slot_exports.has_whole_snapshot(id) {
        note(executor, id, MigrationEvent::SnapshotEnded { succeeded, copied_bytes });
    }
}

/// Handles the end of a job's connection. What follows is carried out at the end of the turn: the client is being removed.
pub(super) fn link_closed(executor: &mut Executor, link: SlotLink) {
    let has_child = executor.slot_exports.is_snapshot_of(link.job);
    executor.slot_exports.remove(link.job);
    let now = now(executor.server.now);
    if let Some(node) = &mut executor.server.cluster {
        node.view.migration_event(link.job, MigrationEvent::Disconnected, now);
    }
    if has_child {
        end_slot_export(executor);
    }
}
