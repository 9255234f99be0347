//! Sockets of replicas and of targets of slot migrations: writes the stream to them without copying, and reads the snapshot from a child's pipe. Each turn of
//! the loop writes once to each replica.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#writes-to-replicas).

use super::by_handle::OfClient;
use super::connection::{Connection, Sent, WRITE_BYTES_MAX, WRITE_RUNS_MAX};
use super::event_loop::EventLoop;
use super::poller::Token;
use super::transport::{Stopped, Transport};
use crate::engine::{Executor, ReplicaSockets, peers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, RawFd};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::{Duration, Instant};
use wire::convert::signed_count;

/// Writes as much of the snapshot or the stream as the socket takes, up to a turn's share, after the replica's pending
/// replies.
pub(super) fn write_to_replica(executor: &mut Executor, connection: &mut Connection) -> Sent {
    let handle = connection.handle();
    let client = &mut executor.server.clients[handle];
    if client.replica.as_mut().is_some_and(|replica| std::mem::take(&mut replica.gathers_small_writes)) {
        connection.transport.gather_small_writes();
    }
    let (mut written_bytes, mut stopped) = (0, Sent::Share);
    while written_bytes < WRITE_BYTES_MAX {
        let mut runs = [IoSlice::new(&[]); WRITE_RUNS_MAX];
        let count = peers::stream_output_for(executor, handle, &mut runs);
        if count == 0 {
            stopped = Sent::Full;
            break;
        }
        let sent = match connection.transport.write_runs(&runs[..count]) {
            Ok(sent) => sent,
            Err(Stopped::WouldBlock) => {
                stopped = Sent::Full;
                break;
            }
            Err(Stopped::Closed) => return Sent::Closed,
        };
        written_bytes += sent;
        peers::stream_output_sent(executor, handle, sent);
    }
    let server = &mut executor.server;
    server.clients[handle].connection.output_bytes_total += written_bytes as u64;
    if peers::has_stream_output_for(executor, handle) || connection.transport.has_unsent() {
        stopped
    } else {
        Sent::All
    }
}

impl EventLoop {
    /// Watches the pipe of a child that writes for replicas, while there is room for its output. A pipe that was closed
    /// has left the poller.
    pub(super) fn watch_sync_pipe(&mut self) {
        let pipe = peers::child_pipe(&self.executor);
        let number = pipe.as_ref().map(|(number, _)| *number);
        if number == self.watched_pipe {
            return;
        }
        if let Some((_, fd)) = pipe {
            if let Err(error) = self.sockets.poller.add(fd, Token::SyncPipe) {
                log::warn!("Cannot watch a child's pipe: {error}");
                return;
            }
        } else if let Some(fd) = peers::child_pipe_fd(&self.executor) {
            let _ = self.sockets.poller.remove(fd);
        }
        self.watched_pipe = number;
    }

    /// Begins the snapshots that a child writes to sockets, once all of the sockets are in this thread without pending output.
    pub(super) fn begin_rdb_channels(&mut self) {
        let mut due = self.executor.rdb_channels_due();
        if due.is_empty() {
            return;
        }
        let mut is_ready = true;
        for &handle in &due {
            is_ready &= self.executor.server.clients[handle].output.is_empty();
            if self.connections.get(handle).is_none() {
                is_ready = false;
                self.bring_here(handle);
            }
        }
        if !is_ready {
            return;
        }
        let patience = Duration::from_secs(self.executor.server.config.repl_timeout_seconds.into());
        let mut sockets = Sockets { transports: Vec::new(), patience };
        // In the order of the connections, so that the two lists match.
        due.sort_unstable_by_key(|handle| handle.index());
        for connection in self.connections.iter_mut() {
            if due.contains(&connection.handle()) {
                sockets.transports.push(Some(&mut connection.transport));
            }
        }
        self.executor.begin_rdb_channels(&due, &mut sockets);
        sockets.transports.into_iter().flatten().for_each(Transport::leave_to_child);
    }
}

/// The sockets to which a child writes; `None` in place of a failed one.
struct Sockets<'a> {
    transports: Vec<Option<&'a mut Transport>>,
    /// Timeout of a socket that takes no bytes.
    patience: Duration,
}

/// A write in progress to a socket.
struct Sending {
    place: usize,
    sent: usize,
    /// Time at which it last took bytes.
    since: Instant,
}

impl Sockets<'_> {
    /// Writes all of the bytes to each of these sockets. It waits for all of them at once: many stalled sockets delay the
    /// others no longer than one.
    fn write_to_those(&mut self, places: Range<usize>, bytes: &[u8]) {
        let since = Instant::now();
        let mut left: Vec<Sending> = places.map(|place| Sending { place, sent: 0, since }).collect();
        loop {
            left.retain_mut(|sending| match self.go_on(sending, bytes) {
                Ok(is_done) => !is_done,
                Err(error) => {
                    log::warn!("Write error sending the data to a replica: {error}");
                    self.transports[sending.place] = None;
                    false
                }
            });
            if left.is_empty() {
                return;
            }
            self.wait_for_room(&left);
        }
    }

    /// Writes as much as the socket takes now; returns whether everything is written.
    fn go_on(&mut self, sending: &mut Sending, bytes: &[u8]) -> io::Result<bool> {
        let Some(Some(transport)) = self.transports.get_mut(sending.place) else { return Ok(true) };
        let before = sending.sent;
        let ended = write_some(transport, bytes, &mut sending.sent);
        if sending.sent > before {
            sending.since = Instant::now();
        }
        match ended {
            Ok(()) => Ok(true),
            Err(Stopped::WouldBlock) if sending.since.elapsed() < self.patience => Ok(false),
            Err(Stopped::WouldBlock) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Err(Stopped::Closed) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
        }
    }

    /// Waits until one of these sockets has room or has stalled for too long.
    fn wait_for_room(&self, left: &[Sending]) {
        let transport = |sending: &Sending| self.transports.get(sending.place)?.as_deref();
        let mut watched: Vec<PollFd<'_>> = left
            .iter()
            .filter_map(transport)
            .map(|transport| PollFd::from_borrowed_fd(transport.fd(), PollFlags::OUT))
            .collect();
        let patience = left.iter().map(|sending| self.patience.saturating_sub(sending.since.elapsed())).min();
        let patience = patience.unwrap_or_default();
        let patience = Timespec {
            tv_sec: signed_count(patience.as_secs()),
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        // All sockets are tried again, whatever the result.
        let _ = poll(&mut watched, Some(&patience));
    }
}

impl ReplicaSockets for Sockets<'_> {
    fn files(&self) -> Vec<RawFd> {
        self.transports.iter().flatten().map(|transport| transport.fd().as_raw_fd()).collect()
    }

    fn write_to(&mut self, place: usize, bytes: &[u8]) {
        self.write_to_those(place..place + 1, bytes);
    }

    fn write_to_all(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.write_to_those(0..self.transports.len(), bytes);
        match self.transports.iter().flatten().count() {
            0 => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            left => Ok((left * bytes.len()) as u64),
        }
    }
}

/// Writes from `sent` on, until everything is written; otherwise returns the reason of the stop.
fn write_some(transport: &mut Transport, bytes: &[u8], sent: &mut usize) -> Result<(), Stopped> {
    while *sent < bytes.len() {
        *sent += transport.write(&bytes[*sent..])?;
    }
    if transport.has_unsent() { transport.flush() } else { Ok(()) }
}
