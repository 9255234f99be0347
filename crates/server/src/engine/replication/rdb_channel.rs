//! A full sync over two connections: a child writes the snapshot to the socket of one, the *rdb channel*; at the same
//! time the stream goes over the other, the *main channel*, and the replica buffers it until the snapshot is loaded. So
//! this server's memory does not depend on the duration of the load.
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
//! 1. From the snapshot until a main channel requests the stream, a *reservation* keeps all of the stream: also for a
//!    while after the rdb channel has closed, for a small snapshot may be loaded before the main channel sends its
//!    request. It is released when it holds more than a replica may be behind, or when no main channel has come within
//!    the replica timeout.
//! 2. While a child writes to a socket, nothing else does.

use super::super::Executor;
use super::full_sync::Format;
use super::primary::Stage;
use super::{OutputLimit, SoftLimit};
use crate::persist::child::Purpose;
use crate::session::{ClientHandle, ClientId};
use rustix::fd::RawFd;
use std::io;
use wire::convert::signed_len;

const SECOND_US: u64 = 1_000_000;

/// The sockets of replicas, as a child writes to them: it blocks on each.
pub trait ReplicaSockets {
    /// Returns their file descriptors.
    fn files(&self) -> Vec<RawFd>;
    /// Writes all bytes to one of them; a failed socket is skipped from then on.
    fn write_to(&mut self, place: usize, bytes: &[u8]);
    /// As [`Self::write_to`], to all of them; returns the total sent. An error when none is left.
    fn write_to_all(&mut self, bytes: &[u8]) -> io::Result<u64>;
}

/// The stream from a snapshot's offset on, kept for a main channel.
pub(super) struct Reservation {
    pub position: u64,
    /// The rdb channel.
    handle: ClientHandle,
    address: String,
    name: String,
    soft_limit: SoftLimit,
    /// It has held bytes.
    holds_bytes: bool,
    /// On the monotonic clock, as below.
    since_us: u64,
    /// Since when the rdb channel is closed.
    orphaned_us: Option<u64>,
}

impl Executor {
    /// Returns whether the replica is offered a full sync over two connections.
    pub(super) fn takes_rdb_channel(&self, handle: ClientHandle) -> bool {
        self.server.clients[handle].replica.as_ref().is_some_and(|profile| profile.takes_rdb_channel)
    }

    pub(super) fn offer_rdb_channel(&mut self, handle: ClientHandle) {
        log::info!(
            "Dual channel replication: Replica {} is capable of dual channel synchronization, and partial sync isn't possible. Full sync will continue with dedicated RDB channel.",
            self.replica_name(handle)
        );
        self.server.clients.push(handle, |reply| reply.raw(b"+DUALCHANNELSYNC\r\n"));
    }

    /// Returns whether a snapshot for this client has yet to begin.
    #[inline]
    pub fn is_waiting_replica(&self, handle: ClientHandle) -> bool {
        self.has_replicas() && {
            let replica = self.replication.replicas.get(&handle);
            replica.is_some_and(|replica| matches!(replica.stage, Stage::Waiting { .. }))
        }
    }

    /// Returns the rdb channels whose snapshot is due; it begins once all of their sockets are in this thread.
    pub fn rdb_channels_due(&self) -> Vec<ClientHandle> {
        match self.has_replicas().then(|| self.due_sync()).flatten() {
            Some(format) if format.goes_by_rdb_channel => self.waiting_for(format),
            _ => Vec::new(),
        }
    }

    /// Begins a snapshot for these channels, whose `sockets` have no pending output.
    pub fn begin_rdb_channels(&mut self, channels: &[ClientHandle], sockets: &mut dyn ReplicaSockets) {
        let Some(&first) = channels.first() else { return };
        let format = Format::of(self.profile(first));
        if self.refuses_form(format) {
            return;
        }
        log::info!("Starting BGSAVE for SYNC with target: replicas sockets using: dual-channel");
        let snapshot = self.snapshot_of(format);
        let (offset, id) = (self.replication.history.offset(), self.replication.history.id().to_owned());
        // With none selected, the next command selects its own.
        let db = self.streamed_db().or(self.replication.selected()).map_or(-1, signed_len);
        let mut greetings = Vec::new();
        for &handle in channels {
            let client_id = self.server.clients[handle].id.0;
            log::info!(
                "Dual channel replication: Sending to replica {} RDB end offset {offset} and client-id {client_id}",
                self.replica_name(handle)
            );
            greetings.push(format!("$ENDOFF:{offset} {id} {db} {client_id}\r\n"));
        }
        let mark = self.replication.draw_id();
        if !self.disk.start_sending(&self.db, &mut self.server, sockets, &greetings, &mark, snapshot) {
            return self.refuse_waiting();
        }
        self.pause_after_fork_if_wanted();
        self.replication.snapshot_offset = offset;
        self.replication.forget_selected();
        for &handle in channels {
            if let Some(replica) = self.replication.replicas.get_mut(&handle) {
                replica.stage = Stage::RdbChannel;
            }
            self.reserve(handle, offset);
        }
        self.replication.has_changed = true;
        self.note_reservations();
    }

    fn reserve(&mut self, handle: ClientHandle, position: u64) {
        let (client, name) = (&self.server.clients[handle], self.replica_name(handle));
        let (client_id, address) = (client.id, client.connection.address.clone());
        let holds_bytes = self.replication.backlog().is_some_and(|log| log.end() > log.start());
        log::debug!(
            "Dual channel replication: Add rdb replica {name} to waiting psync, with cid {}, {}",
            client_id.0,
            if holds_bytes { "tracking repl-backlog tail" } else { "no repl-backlog to track" }
        );
        let (soft_limit, since_us) = (SoftLimit::default(), self.server.now.monotonic_us);
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
        self.replication.reservations.insert(client_id, reservation);
    }

    /// Publishes the state that commands depend on.
    fn note_reservations(&mut self) {
        self.server.replicas.awaiting_main_channel = self.replication.reservations.keys().copied().collect();
    }

    /// Hands the kept stream over to a main channel; returns the rdb channel of the reservation.
    pub(super) fn take_up_reservation(&mut self, handle: ClientHandle) -> Option<ClientHandle> {
        let client_id = self.server.clients[handle].replica.as_ref()?.rdb_client?;
        let kept = self.replication.reservations.shift_remove(&client_id)?;
        log::debug!(
            "Dual channel replication: Remove psync waiting replica {} with cid {}",
            self.replica_name(handle),
            client_id.0
        );
        self.note_reservations();
        Some(kept.handle)
    }

    pub(super) fn forget_reservations(&mut self) {
        self.replication.reservations.clear();
        self.note_reservations();
    }

    /// Handles a closed rdb channel; its main channel may yet come.
    pub(super) fn orphan_reservation(&mut self, handle: ClientHandle) {
        let (now_us, delay_s) = (self.server.now.monotonic_us, self.server.switches.rdb_client_free_delay_s);
        let mut own = self.replication.reservations.iter_mut().filter(|(_, kept)| kept.handle == handle);
        if let Some((client_id, kept)) = own.next() {
            kept.orphaned_us = Some(now_us);
            log::debug!(
                "Dual channel replication: Postpone RDB client id={} ({}) free for {delay_s} seconds",
                client_id.0,
                kept.name
            );
        }
    }

    /// Releases reservations that have expired.
    pub(super) fn expire_reservations(&mut self, now_us: u64) {
        let delay_s = self.server.switches.rdb_client_free_delay_s;
        let timeout_s = delay_s.max(u64::from(self.server.config.repl_timeout_seconds));
        let mut over = Vec::new();
        for (&client_id, kept) in &self.replication.reservations {
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
        over.into_iter().for_each(|client_id| drop(self.give_up_reservation(client_id)));
    }

    /// Releases a reservation and closes its rdb channel.
    fn give_up_reservation(&mut self, client_id: ClientId) -> Option<Reservation> {
        let kept = self.replication.reservations.shift_remove(&client_id)?;
        if kept.orphaned_us.is_none() {
            self.server.close_asap(kept.handle);
        }
        self.note_reservations();
        Some(kept)
    }

    /// Releases reservations beyond the limit, and closes their rdb channels.
    pub(super) fn limit_reservations(&mut self, limit: &OutputLimit) {
        let end = self.replication.history.offset();
        let mut over = Vec::new();
        for (&client_id, kept) in &mut self.replication.reservations {
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
            if let Some(kept) = self.give_up_reservation(client_id) {
                self.note_exceeded_limit(client_id, &kept.address);
            }
        }
    }

    /// Logs that a replica is closed because it is too far behind.
    pub(super) fn note_exceeded_limit(&mut self, client_id: ClientId, address: &str) {
        log::warn!(
            "Client id={} addr={address} flags=S scheduled to be closed ASAP for overcoming of output buffer limits.",
            client_id.0
        );
        self.server.observed.statistics.output_buffer_limit_disconnections += 1;
    }

    /// Exempts main channels from the timeout while their replica receives its snapshot on the rdb channel.
    pub(super) fn note_snapshots_under_way(&mut self, now_us: u64) {
        for at in 0..self.replication.replicas.len() {
            let Stage::MainChannel { rdb } = self.replication.replicas[at].stage else { continue };
            if self.replication.replicas.contains_key(&rdb) {
                self.replication.replicas[at].note_heard(now_us);
            }
        }
    }

    /// Returns whether this rdb channel has pending output, which would delay the snapshot for the others.
    pub(super) fn holds_up_rdb_channels(&self, handle: ClientHandle) -> bool {
        Format::of(self.profile(handle)).goes_by_rdb_channel && !self.server.clients[handle].output.is_empty()
    }

    fn rdb_channels(&self) -> Vec<ClientHandle> {
        let replicas = self.replication.replicas.iter();
        replicas.filter(|(_, replica)| replica.is_rdb_channel()).map(|(&handle, _)| handle).collect()
    }

    /// Returns whether a child writes to the client's socket, and would continue after a disconnection here.
    pub fn has_child_on_socket(&self, handle: ClientHandle) -> bool {
        let replica = self.replication.replicas.get(&handle);
        replica.is_some_and(|replica| replica.is_rdb_channel()) && self.disk.child_is(Purpose::Sync)
    }

    /// The child has sent the whole snapshot to all remaining channels.
    pub(super) fn rdb_channels_sent(&mut self) {
        for handle in self.rdb_channels() {
            log::info!(
                "RDB transfer completed, rdb only replica ({}) should be disconnected asap",
                self.replica_name(handle)
            );
            self.server.clients[handle].close_after_reply = true;
            self.server.clients.push(handle, |_| ());
        }
    }

    /// The child has failed: no replica has a complete snapshot.
    pub(super) fn rdb_channels_failed(&mut self) {
        for handle in self.rdb_channels() {
            log::warn!("SYNC failed. BGSAVE child returned an error");
            self.replication.reservations.retain(|_, kept| kept.handle != handle);
            self.server.close_asap(handle);
        }
        self.note_reservations();
    }

    /// Handles a closed rdb channel.
    pub(super) fn leave_rdb_channel(&mut self) {
        if self.disk.child_is(Purpose::Sync) {
            // The child may have ended before, successfully.
            self.reap_child();
        }
        let is_last = self.rdb_channels().is_empty() && self.replication.transfer.is_none();
        if is_last && self.disk.child_is(Purpose::Sync) {
            log::warn!("Background RDB transfer error: last replica dropped, killing fork child.");
            self.end_snapshot_child(Purpose::Sync);
        }
    }
}
