//! What replicas are sent beside replies: the snapshot, then the stream, as runs of bytes that go to the socket from where
//! they stand.

use super::super::Executor;
use super::primary::{Replica, Stage};
use super::{Replication, Transfer};
use crate::session::ClientHandle;
use std::io::IoSlice;

impl Replication {
    /// Whether there are bytes for the replica now.
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

/// Puts runs of bytes where a call that writes takes them from; how many.
fn gather<'a>(slices: impl Iterator<Item = &'a [u8]>, runs: &mut [IoSlice<'a>]) -> usize {
    let mut count = 0;
    for (run, slice) in runs.iter_mut().zip(slices) {
        *run = IoSlice::new(slice);
        count += 1;
    }
    count
}

impl Executor {
    pub fn has_replicas(&self) -> bool {
        !self.replication.replicas.is_empty()
    }

    /// Replicas for which there are bytes now.
    pub fn replicas_with_output(&self) -> impl Iterator<Item = ClientHandle> {
        let replication = &self.replication;
        let owed = replication.replicas.iter().filter(|(_, replica)| replication.owes(replica));
        owed.map(|(&handle, _)| handle)
    }

    pub fn has_output_for_replica(&self, handle: ClientHandle) -> bool {
        let replica = self.replication.replicas.get(&handle);
        replica.is_some_and(|replica| self.replication.owes(replica))
    }

    /// The next bytes for the replica, as runs; how many runs. Whatever of them is sent is to be told to
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

    /// Where the replica is sent a file and has got all that was read of it, reads on; `false` if that fails.
    fn read_on_for(&mut self, handle: ClientHandle) -> bool {
        let Some(replica) = self.replication.replicas.get_mut(&handle) else { return true };
        let Stage::File(transfer) = &mut replica.stage else { return true };
        let read = transfer.read_on();
        if let Err(error) = &read {
            log::warn!("Read error sending DB to replica: {error}");
        }
        read.is_ok()
    }

    /// So many of the bytes of [`Self::replica_output`] have been sent.
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

    /// The replica has got its snapshot. One that was sent it with an end mark is sent nothing more before it has found
    /// that.
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
    /// Whether who is at this place has all of the snapshot.
    fn is_sent(&self, position: u64) -> bool {
        self.is_complete && position == self.log.end()
    }
}
