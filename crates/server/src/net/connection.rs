//! One client's connection: its transport and buffers.

use super::query_buffer::{QueryBuffer, READ_BYTES};
use super::transport::{Interest, Stopped, Transport};
use crate::session::ClientHandle;
use rustix::fd::BorrowedFd;
use std::io::IoSlice;
use wire::reply::Output;

/// Bytes written to one connection in one turn.
pub(super) const WRITE_BYTES_MAX: usize = 1 << 20;
/// Slices in one vectored write: headers and contents of half as many large values.
pub(super) const WRITE_RUNS_MAX: usize = 64;
/// Unread bytes discarded before closing, so that the kernel does not discard our last reply instead.
const DISCARDED_BYTES_MAX: usize = 256 * 1024;

/// Handshake timeout.
pub(super) const HANDSHAKE_US_MAX: u64 = 10_000_000;
pub(super) const HANDSHAKE_TOO_LATE: &str = "the handshake was not done in time";

/// Result of a write, and the bytes sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub bytes: usize,
    /// The socket takes no more for now.
    pub is_full: bool,
    /// The peer is gone.
    pub closed: bool,
}

/// A connection and its buffers.
pub struct Connection {
    pub handle: ClientHandle,
    pub transport: Transport,
    /// Input not yet executed, if any.
    pub query_buffer: Option<Box<QueryBuffer>>,
    /// Output that a thread could not send before it returned the connection.
    pub unsent: Option<Box<Output>>,
    pub watches_writable: bool,
    pub watches_readable: bool,
    /// An outgoing connection that is not established yet.
    pub is_connecting: bool,
    /// It is on the event loop's list of connections to read without an event.
    pub is_listed: bool,
}

impl Connection {
    /// Creates an established connection.
    pub fn new(handle: ClientHandle, transport: Transport) -> Self {
        Connection {
            handle,
            transport,
            query_buffer: None,
            unsent: None,
            watches_writable: false,
            watches_readable: true,
            is_connecting: false,
            is_listed: false,
        }
    }

    /// Creates an outgoing connection; it is watched for its completion.
    pub fn connecting(handle: ClientHandle, transport: Transport) -> Self {
        Connection {
            watches_readable: false,
            watches_writable: true,
            is_connecting: true,
            ..Connection::new(handle, transport)
        }
    }

    /// Returns the socket's file, for watching.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.transport.fd()
    }

    /// Returns what the poller has to watch.
    pub fn interest(&self) -> Interest {
        let wants = Interest { readable: self.watches_readable, writable: self.watches_writable };
        self.transport.interest(wants)
    }

    /// Returns the memory held for this connection.
    pub fn memory_bytes(&self) -> usize {
        let buffered_bytes = self.query_buffer.as_ref().map_or(0, |query_buffer| query_buffer.memory_bytes());
        size_of::<Self>() + self.transport.memory_bytes() + buffered_bytes
    }

    /// Writes as much of `output` as the socket takes.
    pub fn write(&mut self, output: &mut Output) -> Written {
        let mut written = Written { bytes: 0, is_full: false, closed: false };
        while !output.is_empty() && written.bytes < WRITE_BYTES_MAX && !written.is_full && !written.closed {
            let sent = match output.as_slice() {
                Some(bytes) => self.transport.write(bytes),
                None => self.write_runs(output),
            };
            match sent {
                Ok(n) => {
                    written.bytes += n;
                    output.advance(n);
                }
                Err(Stopped::WouldBlock) => written.is_full = true,
                Err(Stopped::Closed) => written.closed = true,
            }
        }
        written
    }

    #[cold]
    fn write_runs(&mut self, output: &Output) -> Result<usize, Stopped> {
        let mut runs = [IoSlice::new(&[]); WRITE_RUNS_MAX];
        let count = output.gather(&mut runs);
        self.transport.write_runs(&runs[..count])
    }

    /// Discards unread input before the connection closes after its last reply: otherwise the kernel would reset the
    /// connection, and the peer lose that reply.
    pub fn finish(&mut self) {
        if self.transport.shutdown_write().is_err() {
            return;
        }
        let (mut discarded, mut bytes) = (0, Vec::with_capacity(READ_BYTES));
        while discarded < DISCARDED_BYTES_MAX {
            bytes.clear();
            match self.transport.read(&mut bytes) {
                Ok(count) => discarded += count,
                Err(_) => return,
            }
        }
    }
}
