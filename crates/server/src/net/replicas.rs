//! Replicas' sockets: what they are sent goes there from where it stands, and what a child writes for them comes here.
//!
//! Each turn of the loop writes once to each, all that its commands have added. Rejected: to hold that back while there are
//! requests to read, or for a millisecond, until 16, 64 or 256 KB are there. A write over loopback costs 5 to 7 µs whether it
//! is of 500 bytes or of 64 KB, most of it to wake the replica: 28 ns of a command where a turn runs 200, that could be 5.
//! Nothing of that was to be seen in the primary's processor time (SET, 10 in a pipeline, 1.16 to 1.34 of that without a
//! replica when held back, 1.19 to 1.21 when not), and replicas would be later.

use super::connection::{WRITE_BYTES_MAX, WRITE_RUNS_MAX};
use super::event_loop::{EventLoop, local};
use super::poller::Token;
use super::transport::Stopped;
use crate::session::ClientHandle;
use std::io::IoSlice;

impl EventLoop {
    /// Writes as much of the snapshot or the stream as the socket takes, up to a turn's share, behind all that the replica
    /// is owed as a client; `false` if it is gone.
    pub(super) fn write_to_replica(&mut self, handle: ClientHandle) -> bool {
        let Some(connection) = local(&mut self.connections, handle) else { return true };
        let client = &mut self.executor.server.clients[handle];
        if !client.output.is_empty() {
            return true;
        }
        if client.replica.as_mut().is_some_and(|replica| std::mem::take(&mut replica.gathers_small_writes)) {
            connection.transport.gather_small_writes();
        }
        let mut written_bytes = 0;
        while written_bytes < WRITE_BYTES_MAX {
            let mut runs = [IoSlice::new(&[]); WRITE_RUNS_MAX];
            let count = self.executor.replica_output(handle, &mut runs);
            if count == 0 {
                break;
            }
            let sent = match connection.transport.write_runs(&runs[..count]) {
                Ok(sent) => sent,
                Err(Stopped::WouldBlock) => break,
                Err(Stopped::Closed) => return false,
            };
            written_bytes += sent;
            self.executor.replica_output_sent(handle, sent);
        }
        let server = &mut self.executor.server;
        server.clients[handle].connection.output_bytes_total += written_bytes as u64;
        server.observed.statistics.replication_output_bytes += written_bytes as u64;
        true
    }

    /// Watches the pipe of a child that writes for replicas, while there is room for what it has written. One that is gone
    /// has left the poller.
    pub(super) fn watch_sync_pipe(&mut self) {
        let pipe = self.executor.sync_pipe();
        let number = pipe.as_ref().map(|(number, _)| *number);
        if number == self.watched_pipe {
            return;
        }
        if let Some((_, fd)) = pipe {
            if let Err(error) = self.poller.add(fd, Token::SyncPipe) {
                log::warn!("Watching a child's pipe: {error}");
                return;
            }
        } else if let Some(fd) = self.executor.sync_pipe_fd() {
            let _ = self.poller.remove(fd);
        }
        self.watched_pipe = number;
    }
}
