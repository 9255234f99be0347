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
//!    rdb channel has closed: a small snapshot may be loaded before the main channel sends its request. The reservation is
//!    released when it exceeds the output limit of replicas, or after the replica timeout.
//! 2. While a child writes to a socket, this process does not.

use super::super::Executor;
use super::full_sync::debug_pause_after_fork;
use super::replicas::{Replica, Stage, replica_name};
use super::sync_plan::{self, Format};
use super::{OutputLimit, Replication, SoftLimit, note_exceeded_limit};
use crate::engine::persistence::Disk;
use crate::persist::child::Purpose;
use crate::server::Server;
use crate::session::{ClientHandle, ClientId};
use indexmap::IndexMap;
use rustix::fd::RawFd;
use std::io;
use wire::convert::signed_len;

const SECOND_US: u64 = 1_000_000;

/// The sockets of replicas, for a child that writes to them in blocking mode.
pub trait ReplicaSockets {
    /// Returns their file descriptors.
    fn files(&self) -> Vec<RawFd>;
    /// Writes all bytes to one of them; a failed socket is skipped from then on.
    fn write_to(&mut self, place: usize, bytes: &[u8]);
    /// As [`Self::write_to`], to all of them; returns the total sent, or an error if all have failed.
    fn write_to_all(&mut self, bytes: &[u8]) -> io::Result<u64>;
}

/// The stream from a snapshot's offset on, kept for a main channel.
struct Reservation {
    position: u64,
    /// The rdb channel.
    handle: ClientHandle,
    address: String,
    name: String,
    soft_limit: SoftLimit,
    /// It has kept bytes.
    holds_bytes: bool,
    /// Monotonic time of its creation.
    since_us: u64,
    /// Monotonic time at which the rdb channel was closed.
    orphaned_us: Option<u64>,
}

/// All reservations, keyed by the client of the rdb channel.
#[derive(Default)]
pub(super) struct Reservations {
    kept: IndexMap<ClientId, Reservation>,
}

impl Reservations {
    /// Returns whether there are no reservations.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the first byte of the stream that is kept.
    pub fn slowest(&self) -> Option<u64> {
        self.kept.values().map(|reservation| reservation.position).min()
    }

    /// Keeps the stream from `position` on; `holds_bytes`: the backlog has bytes.
    fn reserve(&mut self, server: &mut Server, handle: ClientHandle, position: u64, holds_bytes: bool) {
        let (client, name) = (&server.clients[handle], replica_name(server, handle));
        let (client_id, address) = (client.id, client.connection.address.clone());
        log::debug!(
            "Dual channel replication: Add rdb replica {name} to waiting psync, with cid {}, {}",
            client_id.0,
            if holds_bytes { "tracking repl-backlog tail" } else { "no repl-backlog to track" }
        );
        let (soft_limit, since_us) = (SoftLimit::default(), server.now.monotonic_us);
        let reservation = Reservation {
            position,
            handle,
            address,
            name,
            soft_limit,
            holds_bytes,
            since_us,
            orphaned_us: None,
        };
        self.kept.insert(client_id, reservation);
    }

    /// Publishes the state on which commands depend.
    fn publish(&self, server: &mut Server) {
        server.replicas.awaiting_main_channel = self.kept.keys().copied().collect();
    }

    /// Transfers the reservation to a main channel; returns its rdb channel.
    pub fn take_up(&mut self, server: &mut Server, handle: ClientHandle) -> Option<ClientHandle> {
        let client_id = server.clients[handle].replica.as_ref()?.rdb_client?;
        let kept = self.kept.shift_remove(&client_id)?;
        log::debug!(
            "Dual channel replication: Remove psync waiting replica {} with cid {}",
            replica_name(server, handle),
            client_id.0
        );
        self.publish(server);
        Some(kept.handle)
    }

    /// Releases all.
    pub fn forget(&mut self, server: &mut Server) {
        self.kept.clear();
        self.publish(server);
    }

    /// Releases those of an rdb channel whose snapshot has failed.
    pub fn forget_of(&mut self, server: &mut Server, handle: ClientHandle) {
        self.kept.retain(|_, kept| kept.handle != handle);
        self.publish(server);
    }

    /// Handles a closed rdb channel; its main channel may follow.
    pub fn orphan(&mut self, server: &Server, handle: ClientHandle) {
        let (now_us, delay_s) = (server.now.monotonic_us, server.switches.rdb_client_free_delay_s);
        let mut own = self.kept.iter_mut().filter(|(_, kept)| kept.handle == handle);
        if let Some((client_id, kept)) = own.next() {
            kept.orphaned_us = Some(now_us);
            log::debug!(
                "Dual channel replication: Postpone RDB client id={} ({}) free for {delay_s} seconds",
                client_id.0,
                kept.name
            );
        }
    }

    /// Releases those that have expired.
    pub fn expire(&mut self, server: &mut Server) {
        let (now_us, delay_s) = (server.now.monotonic_us, server.switches.rdb_client_free_delay_s);
        let timeout_s = delay_s.max(u64::from(server.config.repl_timeout_seconds));
        let mut over = Vec::new();
        for (&client_id, kept) in &self.kept {
            let (since_us, patience_s) =
                kept.orphaned_us.map_or((kept.since_us, timeout_s), |since_us| (since_us, delay_s));
            let waited_s = now_us.saturating_sub(since_us) / SECOND_US;
            if waited_s > patience_s {
                log::info!(
                    "Dual channel replication: Replica main channel failed to establish PSYNC within the grace period ({waited_s} seconds). Freeing RDB client {}.",
                    client_id.0
                );
                over.push(client_id);
            }
        }
        over.into_iter().for_each(|client_id| drop(self.give_up(server, client_id)));
    }

    /// Releases a reservation and closes its rdb channel.
    fn give_up(&mut self, server: &mut Server, client_id: ClientId) -> Option<Reservation> {
        let kept = self.kept.shift_remove(&client_id)?;
        if kept.orphaned_us.is_none() {
            server.close_asap(kept.handle);
        }
        self.publish(server);
        Some(kept)
    }

    /// Releases those beyond the limit, and closes their rdb channels; `end` is that of the stream.
    pub fn limit(&mut self, server: &mut Server, limit: &OutputLimit, end: u64) {
        let mut over = Vec::new();
        for (&client_id, kept) in &mut self.kept {
            if !kept.holds_bytes && end > kept.position {
                kept.holds_bytes = true;
                log::debug!(
                    "Dual channel replication: Attach replica rdb client {} to repl buf block",
                    client_id.0
                );
            }
            if limit.is_exceeded(end - kept.position, &mut kept.soft_limit) {
                over.push(client_id);
            }
        }
        for client_id in over {
            if let Some(kept) = self.give_up(server, client_id) {
                note_exceeded_limit(server, client_id, &kept.address);
            }
        }
    }
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
            self.reservations.reserve(server, handle, offset, holds_bytes);
        }
        self.reservations.publish(server);
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
