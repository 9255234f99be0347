//! Output to replicas besides replies: the snapshot, then the stream, passed to the socket as slices without copying.

use super::super::Executor;
use super::Replication;
use super::replicas::{Replica, Stage, replica_name};
use crate::clock::Clock;
use crate::db::Db;
use crate::server::Server;
use crate::session::ClientHandle;
use std::io::IoSlice;

/// Collects slices for a vectored write; returns their number.
fn gather<'a>(slices: impl Iterator<Item = &'a [u8]>, runs: &mut [IoSlice<'a>]) -> usize {
    let mut count = 0;
    for (run, slice) in runs.iter_mut().zip(slices) {
        *run = IoSlice::new(slice);
        count += 1;
    }
    count
}

impl Replication {
    /// Returns whether there are bytes to send to the replica now.
    fn owes(&self, replica: &Replica) -> bool {
        match &replica.stage {
            Stage::Waiting { .. }
            | Stage::Snapshot
            | Stage::RdbChannel
            | Stage::Online { awaits_acknowledgement: true } => false,
            Stage::File(_) => true,
            Stage::Pipe { position, .. } => self.full_syncs.transfer_end().is_some_and(|end| *position < end),
            Stage::MainChannel { .. } | Stage::Online { .. } => {
                replica.position.is_some_and(|position| position < self.outgoing.offset())
            }
        }
    }

    /// Returns whether any replica is attached.
    pub fn has_replicas(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// Returns the replicas with bytes to send now.
    pub fn replicas_with_output(&self) -> impl Iterator<Item = ClientHandle> {
        self.replicas.iter().filter(|(_, replica)| self.owes(replica)).map(|(handle, _)| handle)
    }

    /// Returns whether there are bytes to send to this replica now.
    pub fn has_output_for(&self, handle: ClientHandle) -> bool {
        self.replicas.get(handle).is_some_and(|replica| self.owes(replica))
    }

    /// Collects the replica's next bytes as slices; returns their number. The caller reports the bytes sent to
    /// [`Executor::replica_output_sent`].
    pub fn output_for<'a>(
        &'a mut self,
        server: &mut Server,
        handle: ClientHandle,
        runs: &mut [IoSlice<'a>],
    ) -> usize {
        if !self.read_on_for(handle) {
            server.close_asap(handle);
            return 0;
        }
        let Some(replica) = self.replicas.get(handle).filter(|replica| self.owes(replica)) else {
            return 0;
        };
        match (&replica.stage, replica.position) {
            (Stage::File(transfer), _) => gather(std::iter::once(transfer.unsent()), runs),
            (Stage::Pipe { position, .. }, _) => {
                self.full_syncs.transferred().map_or(0, |log| gather(log.slices(*position), runs))
            }
            (Stage::MainChannel { .. } | Stage::Online { .. }, Some(position)) => {
                self.outgoing.backlog().map_or(0, |log| gather(log.slices(position), runs))
            }
            _ => 0,
        }
    }

    /// Reads the next piece of the file being sent to a replica, once all earlier bytes are sent; `false` on failure.
    fn read_on_for(&mut self, handle: ClientHandle) -> bool {
        let Some(replica) = self.replicas.get_mut(handle) else { return true };
        let Stage::File(transfer) = &mut replica.stage else { return true };
        let read = transfer.read_on();
        if let Err(error) = &read {
            log::warn!("Read error sending DB to replica: {error}");
        }
        read.is_ok()
    }

    /// Records sent bytes of [`Self::output_for`].
    fn output_sent(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        clock: &Clock,
        handle: ClientHandle,
        bytes: usize,
    ) {
        let Some(replica) = self.replicas.get_mut(handle) else { return };
        match (&mut replica.stage, &mut replica.position) {
            (Stage::File(transfer), _) => {
                transfer.advance(bytes);
                if transfer.is_done() && self.put_online(server, handle, false) {
                    self.begin_stream(db, server, clock);
                }
            }
            (Stage::Pipe { position, progress_us }, _) => {
                *position += bytes as u64;
                *progress_us = server.now.monotonic_us;
                if self.full_syncs.is_sent(*position) {
                    self.put_online(server, handle, true);
                }
                self.trim_transfer();
            }
            (Stage::MainChannel { .. } | Stage::Online { .. }, Some(position)) => *position += bytes as u64,
            _ => {}
        }
    }

    /// Ends the snapshot phase of a replica; returns whether the stream follows. After a snapshot with an end mark, the stream
    /// starts only once the replica has acknowledged the mark.
    fn put_online(
        &mut self,
        server: &mut Server,
        handle: ClientHandle,
        awaits_acknowledgement: bool,
    ) -> bool {
        let name = replica_name(server, handle);
        if awaits_acknowledgement {
            log::info!(
                "Streamed RDB transfer with replica {name} succeeded (socket). Waiting for REPLCONF ACK from replica to enable streaming"
            );
        }
        let profile = server.clients[handle].replica.as_ref();
        let is_snapshot_only = profile.is_some_and(|profile| profile.snapshot_only);
        let Some(replica) = self.replicas.change(handle) else { return false };
        replica.stage = Stage::Online { awaits_acknowledgement };
        replica.last_ack_us = server.now.monotonic_us;
        if is_snapshot_only {
            log::info!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap");
            server.close_asap(handle);
            return false;
        }
        log::info!("Synchronization with replica {name} succeeded");
        true
    }
}

impl Executor {
    /// Records the bytes of [`Replication::output_for`] that were sent.
    pub fn replica_output_sent(&mut self, handle: ClientHandle, bytes: usize) {
        self.replication.output_sent(&mut self.db, &mut self.server, &self.clock, handle, bytes);
    }
}
