//! Other servers as the event loop sees them: connections that this server opens, and streams that it sends. They belong to
//! replication or to slot migration, which are distinguished here alone.

use super::{Executor, slot_migration};
use crate::session::ClientHandle;
use crate::sys::file::system_text;
use cluster::MigrationEvent;
use rustix::fd::BorrowedFd;
use std::io::{self, IoSlice};

/// Handles a failed connection; its client is about to be disconnected.
pub fn connecting_failed(executor: &mut Executor, handle: ClientHandle, error: &io::Error) {
    match executor.server.clients[handle].routing.slot_link {
        Some(link) => {
            let event = MigrationEvent::ConnectingFailed(system_text(error));
            slot_migration::note(executor, link.job, event);
        }
        None => executor.replication.upstream().connecting_failed(handle, error),
    }
}

/// Handles an established connection.
pub fn connected(executor: &mut Executor, handle: ClientHandle) {
    match executor.server.clients[handle].routing.slot_link {
        Some(link) => slot_migration::note(executor, link.job, MigrationEvent::Connected),
        None => executor.connected(handle),
    }
}

/// Returns whether the connection's input goes to [`received`] rather than being parsed as commands.
#[inline]
pub fn takes_bytes(executor: &Executor, handle: ClientHandle) -> bool {
    executor.server.clients[handle].is_peer()
        && (executor.replication.upstream().takes_bytes(&executor.server, handle)
            || slot_migration::awaits_reply(executor, handle))
}

/// Handles input; returns the number of bytes taken.
pub fn received(executor: &mut Executor, handle: ClientHandle, bytes: &[u8]) -> usize {
    let mut taken = 0;
    if executor.server.clients[handle].routing.slot_link.is_none() {
        return executor.received(handle, bytes);
    }
    while taken < bytes.len() && takes_bytes(executor, handle) {
        taken += slot_migration::take_reply(executor, handle, &bytes[taken..]);
    }
    taken
}

/// Handles a disconnected client.
pub(super) fn disconnected(executor: &mut Executor, handle: ClientHandle) {
    match executor.server.clients.get(handle).and_then(|client| client.routing.slot_link) {
        Some(link) => slot_migration::link_closed(executor, link),
        None => executor.note_disconnected(handle),
    }
}

/// Returns the clients with bytes of a stream to send now.
pub fn with_stream_output(executor: &Executor) -> impl Iterator<Item = ClientHandle> {
    executor.replication.replicas_with_output().chain(executor.slot_exports.with_output())
}

/// Returns whether any client is sent a stream.
#[inline]
pub fn has_streams(executor: &Executor) -> bool {
    executor.replication.has_replicas() || executor.slot_exports.are_any()
}

/// Returns whether there are bytes of a stream to send to this client now.
pub fn has_stream_output_for(executor: &Executor, handle: ClientHandle) -> bool {
    executor.replication.has_output_for(handle) || executor.slot_exports.has_output_for(handle)
}

/// Collects the next bytes of the client's stream as slices; returns their number. [`stream_output_sent`] takes how many were
/// sent.
pub fn stream_output_for<'a>(
    executor: &'a mut Executor,
    handle: ClientHandle,
    runs: &mut [IoSlice<'a>],
) -> usize {
    let Executor { replication, server, slot_exports, .. } = executor;
    match server.clients[handle].is_slot_target() {
        true => slot_exports.output_for(handle, runs),
        false => replication.output_for(server, handle, runs),
    }
}

/// Records the bytes of [`stream_output_for`] that were sent.
pub fn stream_output_sent(executor: &mut Executor, handle: ClientHandle, bytes: usize) {
    match executor.server.clients[handle].is_slot_target() {
        true => {
            executor.slot_exports.output_sent(handle, bytes);
            executor.server.observed.statistics.slot_export_bytes += bytes as u64;
        }
        false => {
            executor.replica_output_sent(handle, bytes);
            executor.server.observed.statistics.replication_output_bytes += bytes as u64;
        }
    }
}

/// Returns the pipe of a child to poll for reading, and the number that identifies it.
pub fn child_pipe(executor: &Executor) -> Option<(u64, BorrowedFd<'_>)> {
    executor.replication.sync_pipe().or_else(|| executor.slot_exports.pipe())
}

/// Returns the pipe of a child, whether or not there is room for its bytes.
pub fn child_pipe_fd(executor: &Executor) -> Option<BorrowedFd<'_>> {
    executor.replication.sync_pipe_fd().or_else(|| executor.slot_exports.pipe_fd())
}

/// Reads available bytes from the pipe.
pub fn read_child_pipe(executor: &mut Executor) {
    executor.read_sync_pipe();
    slot_migration::read_pipe(executor);
}

/// Lets pending commands of other servers run: of the primary, and of sources of slot migrations.
pub(super) fn resume(executor: &mut Executor) {
    executor.replication.upstream().resume_primary(&mut executor.server);
    slot_migration::resume_sources(&mut executor.server);
}
