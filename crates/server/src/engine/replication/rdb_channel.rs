//! The primary's side of a full sync over two connections: a child writes the snapshot to the *rdb channel*, while the
//! stream is sent over the *main channel*; the replica buffers the stream until the snapshot is loaded. So this server's
//! memory does not depend on the duration of the load.
//!
//! ```text
//!  main channel                                          rdb channel
//!  PSYNC ? -1                 +DUALCHANNELSYNC
//!                                                        SYNC    $ENDOFF:<offset> <id> <db> <client id>
//!                                                                $EOF:<mark> RDB <mark>
//!  REPLCONF set-rdb-client-id <client id>
//!  PSYNC <id> <offset + 1>    +CONTINUE, the stream
//! ```
//!
//! 1. From the snapshot until a main channel requests the stream, a *reservation* keeps the whole stream, even after the
//!    rdb channel has closed: a small snapshot may be loaded before the main channel sends its request. `reservations`
//!    decides when it is released.
//! 2. While a child writes to a socket, this process does not.

use super::super::Executor;
use super::full_sync::debug_pause_after_fork;
use super::replicas::{Replica, Stage, replica_name};
use super::reservations::{Action, Event, Facts, RdbChannel};
use super::sync_plan::{self, Format};
use super::{Replication, note_exceeded_limit};
use crate::engine::persistence::Disk;
use crate::persist::child::Purpose;
use crate::server::Server;
use crate::session::ClientHandle;
use rustix::fd::RawFd;
use std::io;
use wire::convert::signed_len;

/// The sockets of replicas, for a child that writes to them in blocking mode.
pub trait ReplicaSockets {
    /// Returns their file descriptors.
    fn files(&self) -> Vec<RawFd>;
    /// Writes all bytes to one of them; a failed socket is skipped from then on.
    fn write_to(&mut self, place: usize, bytes: &[u8]);
    /// As [`Self::write_to`], to all of them; returns the total sent, or an error if all have failed.
    fn write_to_all(&mut self, bytes: &[u8]) -> io::Result<u64>;
}

/// Returns whether the replica's full sync uses two connections.
pub(super) fn takes_rdb_channel(server: &Server, handle: ClientHandle) -> bool {
    server.clients[handle].replica.as_ref().is_some_and(|profile| profile.takes_rdb_channel)
}

pub(super) fn offer_rdb_channel(server: &mut Server, handle: ClientHandle) {
    log::info!(
        "Dual channel replication: Replica {} is capable of dual channel synchronization, and partial sync isn't possible. Full sync will continue with dedicated RDB channel.",
        replica_name(server, handle)
    );
    server.clients.push(handle, |reply| reply.raw(b"+DUALCHANNELSYNC\r\n"));
}

impl Replication {
    /// Returns whether a snapshot for this client has yet to begin.
    #[inline]
    pub fn is_waiting_replica(&self, handle: ClientHandle) -> bool {
        !self.replicas.is_empty() && self.replicas.get(handle).is_some_and(Replica::is_waiting)
    }

    /// Returns whether a child writes to the client's socket, and would continue after this process disconnects it.
    pub(crate) fn has_child_on_socket(&self, disk: &Disk, handle: ClientHandle) -> bool {
        let replica = self.replicas.get(handle);
        replica.is_some_and(Replica::is_rdb_channel) && disk.child_is(Purpose::Sync)
    }

    /// Records the start of the snapshot for these channels, at this offset.
    fn rdb_channels_begun(&mut self, server: &mut Server, channels: &[ClientHandle], offset: u64) {
        self.full_syncs.note_begun(offset);
        self.outgoing.forget_selected();
        let holds_bytes = self.outgoing.backlog().is_some_and(|log| log.end() > log.start());
        for &handle in channels {
            if let Some(replica) = self.replicas.change(handle) {
                replica.stage = Stage::RdbChannel;
            }
            let (client, name) = (&server.clients[handle], replica_name(server, handle));
            let (client_id, address) = (client.id, client.connection.address.clone());
            let channel = RdbChannel { client_id, handle, address, name, position: offset, holds_bytes };
            self.step_reservations(server, Event::Begun(channel));
        }
    }

    /// Gives the reservations an event, and does what they want done.
    pub(super) fn step_reservations(&mut self, server: &mut Server, event: Event<'_>) {
        let facts = Facts {
            now_us: server.now.monotonic_us,
            timeout_s: server.config.repl_timeout_seconds.into(),
            free_delay_s: server.switches.rdb_client_free_delay_s,
        };
        for action in self.reservations.step(event, facts) {
            match action {
                Action::Log(level, text) => log::log!(level, "{text}"),
                Action::Close(handle) => server.close_asap(handle),
                Action::NoteExceededLimit { client_id, address } => {
                    note_exceeded_limit(server, client_id, &address);
                }
            }
        }
        self.publish_reservations(server);
    }

    /// Hands the kept stream over to a main channel; returns the rdb channel that it has named.
    pub(super) fn take_up_reservation(
        &mut self,
        server: &mut Server,
        handle: ClientHandle,
    ) -> Option<ClientHandle> {
        let client_id = server.clients[handle].replica.as_ref()?.rdb_client?;
        let channel = self.reservations.take_up(client_id)?;
        log::debug!(
            "Dual channel replication: Remove psync waiting replica {} with cid {}",
            replica_name(server, handle),
            client_id.0
        );
        self.publish_reservations(server);
        Some(channel.handle)
    }

    /// Publishes the rdb channels that a main channel may name.
    fn publish_reservations(&self, server: &mut Server) {
        let published = &mut server.replicas.awaiting_main_channel;
        published.clear();
        published.extend(self.reservations.client_ids());
    }
}

impl Executor {
    /// Begins a snapshot that a child writes to these sockets.
    pub(super) fn begin_channels(
        &mut self,
        format: Format,
        channels: &[ClientHandle],
        sockets: &mut dyn ReplicaSockets,
    ) {
        let snapshot = self.replication.snapshot_of(&self.server, format);
        let outgoing = &self.replication.outgoing;
        let (offset, id) = (outgoing.offset(), outgoing.history().id().to_owned());
        let db = self.replication.selected_db(&self.server).map_or(-1, signed_len);
        let mut greetings = Vec::new();
        for &handle in channels {
            let client_id = self.server.clients[handle].id.0;
            log::info!(
                "Dual channel replication: Sending to replica {} RDB end offset {offset} and client-id {client_id}",
                replica_name(&self.server, handle)
            );
            greetings.push(format!("$ENDOFF:{offset} {id} {db} {client_id}\r\n"));
        }
        let mark = self.replication.outgoing.draw_id();
        if !self.disk.start_sending(&self.db, &mut self.server, sockets, &greetings, &mark, snapshot) {
            return self.plan_syncs(sync_plan::Event::NotBegun);
        }
        debug_pause_after_fork(&self.server);
        self.replication.rdb_channels_begun(&mut self.server, channels, offset);
    }
}
