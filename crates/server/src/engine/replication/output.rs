//! Output of replicas beside replies: the snapshot, then the stream, passed to the socket as slices without copying.

use super::super::Executor;
use super::primary::{Replica, Stage};
use super::{Replication, Transfer};
use crate::session::ClientHandle;
use std::io::IoSlice;

impl Replication {
    /// Returns whether there are bytes to send to the replica now.
    fn owes(&self, replica: &Replica) -> bool {
        match &replica.stage {
            Stage::Waiting { .. }
            | Stage::Snapshot
            | Stage::RdbChannel
            | Stage::Online { awaits_acknowledgement: true } => false,
            Stage::File(_) => true,
            Stage::Pipe { position, .. } => {
                self.transfer.as_ref().is_some_and(|transfer| *position < transfer.log.end())
            }
            Stage::MainChannel { .. } | Stage::Online { .. } => {
                replica.position.is_some_and(|position| position < self.history.offset())
            }
        }
    }
}

/// Collects slices for a vectored write; returns their number.
fn gather<'a>(slices: impl Iterator<Item = &'a [u8]>, runs: &mut [IoSlice<'a>]) -> usize {
    let mut count = 0;
    for (run, slice) in runs.iter_mut().zip(slices) {
        *run = IoSlice::new(slice);
        count += 1;
    }
    count
}

impl Executor {
    /// Returns whether any replica is attached.
    pub fn has_replicas(&self) -> bool {
        !self.replication.replicas.is_empty()
    }

    /// Returns the replicas with bytes to send now.
    pub fn replicas_with_output(&self) -> impl Iterator<Item = ClientHandle> {
        let replication = &self.replication;
        let owed = replication.replicas.iter().filter(|(_, replica)| replication.owes(replica));
        owed.map(|(&handle, _)| handle)
    }

    /// Returns whether there are bytes to send to this replica now.
    pub fn has_output_for_replica(&self, handle: ClientHandle) -> bool {
        let replica = self.replication.replicas.get(&handle);
        replica.is_some_and(|replica| self.replication.owes(replica))
    }

    /// Collects the replica's next bytes as slices; returns their number. The caller reports the bytes sent to
    /// [`Self::replica_output_sent`].
    pub fn replica_output<'a>(&'a mut self, handle: ClientHandle, runs: &mut [IoSlice<'a>]) -> usize {
        if !self.read_on_for(handle) {
            self.server.close_asap(handle);
            return 0;
        }
        let replication = &self.replication;
        let Some(replica) = replication.replicas.get(&handle).filter(|replica| replication.owes(replica))
        else {
            return 0;
        };
        match (&replica.stage, replica.position) {
            (Stage::File(transfer), _) => gather(std::iter::once(transfer.unsent()), runs),
            (Stage::Pipe { position, .. }, _) => replication
                .transfer
                .as_ref()
                .map_or(0, |transfer| gather(transfer.log.slices(*position), runs)),
            (Stage::MainChannel { .. } | Stage::Online { .. }, Some(position)) => {
                replication.backlog().map_or(0, |log| gather(log.slices(position), runs))
            }
            _ => 0,
        }
    }

    /// Reads more of the file that a replica is sent, once all earlier bytes are sent; `false` on failure.
    fn read_on_for(&mut self, handle: ClientHandle) -> bool {
        let Some(replica) = self.replication.replicas.get_mut(&handle) else { return true };
        let Stage::File(transfer) = &mut replica.stage else { return true };
        let read = transfer.read_on();
        if let Err(error) = &read {
            log::warn!("Read error sending DB to replica: {error}");
        }
        read.is_ok()
    }

    /// Records the bytes of [`Self::replica_output`] that were sent.
    pub fn replica_output_sent(&mut self, handle: ClientHandle, bytes: usize) {
        let now_us = self.server.now.monotonic_us;
        let Some(replica) = self.replication.replicas.get_mut(&handle) else { return };
        match (&mut replica.stage, &mut replica.position) {
            (Stage::File(transfer), _) => {
                transfer.advance(bytes);
                if transfer.is_done() {
                    self.put_online(handle, false);
                }
            }
            (Stage::Pipe { position, progress_us }, _) => {
                *position += bytes as u64;
                *progress_us = now_us;
                let all_sent =
                    self.replication.transfer.as_ref().is_none_or(|transfer| transfer.is_sent(*position));
                if all_sent {
                    self.put_online(handle, true);
                }
                self.trim_transfer();
            }
            (Stage::MainChannel { .. } | Stage::Online { .. }, Some(position)) => *position += bytes as u64,
            _ => {}
        }
    }

    /// Ends the snapshot phase of a replica. After a snapshot with an end mark, the stream starts only once the replica
    /// has acknowledged finding the mark.
    fn put_online(&mut self, handle: ClientHandle, awaits_acknowledgement: bool) {
        let name = self.replica_name(handle);
        if awaits_acknowledgement {
            log::info!(
                "Streamed RDB transfer with replica {name} succeeded (socket). Waiting for REPLCONF ACK from replica to enable streaming"
            );
        }
        let now_us = self.server.now.monotonic_us;
        let profile = self.server.clients[handle].replica.as_ref();
        let wants_no_more = profile.is_some_and(|profile| profile.wants_snapshot_only);
        let Some(replica) = self.replication.replicas.get_mut(&handle) else { return };
        self.replication.has_changed = true;
        replica.stage = Stage::Online { awaits_acknowledgement };
        replica.heard_us = now_us;
        if wants_no_more {
            log::info!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap");
            return self.server.close_asap(handle);
        }
        log::info!("Synchronization with replica {name} succeeded");
        if !awaits_acknowledgement {
            self.begin_stream();
        }
    }
}

impl Transfer {
    /// Returns whether a replica at this position has the whole snapshot.
    fn is_sent(&self, position: u64) -> bool {
        self.is_complete && position == self.log.end()
    }
}
