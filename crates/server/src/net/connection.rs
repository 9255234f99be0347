//! One socket: bytes in, requests parsed from them, bytes out.
//!
//! A connection reads into a buffer that is lent to it and goes back when all that was read has been executed, so
//! that an idle client holds none and the few buffers in use stay in the cache. One that is left with half a request
//! keeps the buffer as its own; [`Connection::shrink_input`] takes it away again once the client is idle.

use crate::command::Args;
use crate::command::registry::{CommandId, Registry};
use crate::session::ClientSlot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use std::cell::Cell;
use wire::request::{ArgRange, Limits, Parser, Progress, ProtocolError};

/// Bytes read from one connection in one turn, so that none starves the others.
pub const READ_BYTES: usize = 16 * 1024;
/// Bytes written to one connection in one turn.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Room made at once for an argument that has been announced; beyond this, room follows what has arrived.
const ANNOUNCED_BYTES_MAX: usize = 1 << 20;
/// An argument from this size on is counted without what stands before it in the buffer.
const BIG_ARGUMENT_BYTES: usize = 32 * 1024;
/// Requests parsed ahead of execution in one go.
pub const BATCH_REQUESTS_MAX: usize = 128;
/// Arguments whose positions are kept room for between requests.
const ARGS_KEPT_MAX: usize = 1024;
/// Unused room in an input buffer that is not worth taking away.
const INPUT_FREE_BYTES_KEPT: usize = 4 * 1024;
/// An empty input buffer of more than this is not kept for the next request, however busy the client.
const INPUT_EMPTY_BYTES_MAX: usize = 512 * 1024;
/// An input buffer up to this size is left alone while its client is busy, and may be lent to others.
pub const INPUT_KEPT_BYTES_MAX: usize = 32 * 1024;
/// A client that has sent nothing for longer than this loses its input buffer.
const IDLE_US: u64 = 2_000_000;
/// Unread bytes thrown away before closing, so that the kernel does not throw away our last reply instead.
const DISCARDED_BYTES_MAX: usize = 256 * 1024;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Bytes(usize),
    /// The socket has no more for now.
    WouldBlock,
    Closed,
}

/// How a write ended, and how many bytes went out before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub bytes: usize,
    /// The peer is gone.
    pub closed: bool,
}

pub struct Connection {
    pub slot: ClientSlot,
    socket: OwnedFd,
    /// What has arrived and not been executed; requests before `position` are parsed.
    input: Vec<u8>,
    /// The buffer is kept although it may be empty.
    owns_input: bool,
    /// The most that was in the buffer, or was wanted in it, since it was last looked at for shrinking.
    input_peak: usize,
    position: usize,
    parser: Parser,
    /// What follows `position` makes no sense, and is to be answered when the requests before it have run.
    broken: Option<ProtocolError>,
    /// Arguments of the parsed requests, and where each request ends among them.
    args: Vec<ArgRange>,
    requests: Vec<Request>,
    /// The first parsed request not yet executed.
    next_request: usize,
    /// The requests before this one have had their keys fetched.
    prefetched: Cell<usize>,
    pub watches_writable: bool,
    pub watches_readable: bool,
}

/// A request that has arrived whole.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Where its arguments end among all of them.
    args_end: u32,
    /// `None` if no command has such a name.
    command: Option<CommandId>,
}

impl Connection {
    pub fn new(slot: ClientSlot, socket: OwnedFd) -> Self {
        Connection {
            slot,
            socket,
            input: Vec::new(),
            owns_input: false,
            input_peak: 0,
            position: 0,
            parser: Parser::new(),
            broken: None,
            args: Vec::new(),
            requests: Vec::new(),
            next_request: 0,
            prefetched: Cell::new(0),
            watches_writable: false,
            watches_readable: true,
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Bytes in the buffer that are not behind us, and the room left; none of a buffer that is only lent.
    pub fn input_figures(&self) -> (usize, usize) {
        if !self.owns_input {
            return (0, 0);
        }
        let before = match self.parser.argument_under_way() {
            Some((len, start)) if len >= BIG_ARGUMENT_BYTES => self.position + start,
            _ => self.position,
        };
        (self.input.len() - before.min(self.input.len()), self.input.capacity() - self.input.len())
    }

    /// All that is held for this connection.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.input.capacity()
            + self.parser.memory_bytes()
            + self.args.capacity() * size_of::<ArgRange>()
            + self.requests.capacity() * size_of::<Request>()
    }

    /// Whether it has to be lent a buffer before it can read.
    pub fn wants_buffer(&self) -> bool {
        self.input.capacity() == 0
    }

    pub fn lend_buffer(&mut self, buffer: Vec<u8>) {
        self.input = buffer;
    }

    /// Gives a lent buffer back when it is empty; keeps it as its own when it is not.
    pub fn return_buffer(&mut self) -> Option<Vec<u8>> {
        self.input_peak = self.input_peak.max(self.input.len());
        self.owns_input |= !self.input.is_empty();
        if self.owns_input || self.input.capacity() == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.input)).filter(|buffer| buffer.capacity() <= INPUT_KEPT_BYTES_MAX)
    }

    /// Takes back room that the client has had no use for lately; `idle_us` is how long it has sent nothing.
    pub fn shrink_input(&mut self, idle_us: u64) {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        if capacity - len > INPUT_FREE_BYTES_KEPT {
            if idle_us > IDLE_US {
                self.input.shrink_to_fit();
                self.owns_input = len > 0;
            } else if capacity > INPUT_KEPT_BYTES_MAX && capacity / 2 > self.input_peak {
                self.input.shrink_to(self.input_peak.max(len));
            }
        }
        let announced = self.parser.wanted_bytes().min(ANNOUNCED_BYTES_MAX);
        self.input_peak = len + announced;
        if idle_us > IDLE_US && !self.has_requests() {
            (self.args, self.requests) = (Vec::new(), Vec::new());
            self.next_request = 0;
            self.prefetched.set(0);
        }
    }

    /// Reads what the socket has, at most [`READ_BYTES`] or what the request under way still needs.
    pub fn read(&mut self) -> Transfer {
        let wanted = self.parser.wanted_bytes();
        if wanted > READ_BYTES {
            let announced = wanted.min(ANNOUNCED_BYTES_MAX.max(self.input.len()));
            self.input.reserve_exact(announced);
        } else {
            self.input.reserve(READ_BYTES);
        }
        match rustix::io::read(&self.socket, rustix::buffer::spare_capacity(&mut self.input)) {
            Ok(0) => Transfer::Closed,
            Ok(n) => Transfer::Bytes(n),
            Err(Errno::AGAIN | Errno::INTR) => Transfer::WouldBlock,
            Err(_) => Transfer::Closed,
        }
    }

    /// Writes as much of `output` as the socket takes.
    pub fn write(&mut self, output: &[u8]) -> Written {
        let mut bytes = 0;
        while bytes < output.len().min(WRITE_BYTES_MAX) {
            match rustix::net::send(&self.socket, &output[bytes..], SendFlags::NOSIGNAL) {
                Ok(n) => bytes += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Written { bytes, closed: true },
            }
        }
        Written { bytes, closed: false }
    }

    /// Before the connection is dropped after its last reply: bytes that were never read would make the kernel reset
    /// the connection, and the peer lose that reply.
    pub fn finish(&mut self) {
        if rustix::net::shutdown(&self.socket, Shutdown::Write).is_err() {
            return;
        }
        let mut discarded = 0;
        while discarded < DISCARDED_BYTES_MAX {
            self.input.clear();
            self.input.reserve(READ_BYTES);
            match rustix::io::read(&self.socket, rustix::buffer::spare_capacity(&mut self.input)) {
                Ok(n @ 1..) => discarded += n,
                _ => return,
            }
        }
    }

    /// Parses requests that have arrived whole, up to [`BATCH_REQUESTS_MAX`] ahead. A client that has yet to
    /// authenticate gets them one by one, for the limits may be others after each.
    pub fn parse(&mut self, limits: &Limits, registry: &Registry) {
        let ahead_max = if limits.authenticated { BATCH_REQUESTS_MAX } else { 1 };
        while self.broken.is_none()
            && self.requests.len() - self.next_request < ahead_max
            && self.position < self.input.len()
        {
            let before = self.args.len();
            match self.parser.parse(&mut self.input, &mut self.position, limits, &mut self.args) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Complete) if self.args.len() == before => {}
                Ok(Progress::Complete) => {
                    let command = registry.find(Args::new(&self.input, &self.args[before..])).ok();
                    self.requests.push(Request { args_end: self.args.len() as u32, command });
                }
                Err(error) => self.broken = Some(error),
            }
        }
    }

    /// What is wrong with the bytes behind the parsed requests.
    pub fn broken(&self) -> Option<ProtocolError> {
        self.broken
    }

    fn request(&self, index: usize) -> Option<(Option<CommandId>, Args<'_>)> {
        let request = self.requests.get(index)?;
        let start = index.checked_sub(1).map_or(0, |previous| self.requests[previous].args_end as usize);
        let args = Args::new(&self.input, &self.args[start..request.args_end as usize]);
        Some((request.command, args))
    }

    /// The next parsed request, if there is one: what the registry has found for it, and its arguments.
    #[inline]
    pub fn next_request(&mut self) -> Option<(Option<CommandId>, Args<'_>)> {
        let index = self.next_request;
        self.next_request += (index < self.requests.len()) as usize;
        self.request(index)
    }

    /// Parsed requests that have not run.
    pub fn request_count(&self) -> usize {
        self.requests.len() - self.next_request
    }

    /// Whether the next request's keys have not been fetched.
    #[inline]
    pub fn is_cold(&self) -> bool {
        self.prefetched.get() <= self.next_request
    }

    /// Lets `take` see the requests whose keys have not been fetched, in order, until it answers with `false`;
    /// returns how many it took, for [`Connection::note_prefetched`].
    #[inline]
    pub fn offer_cold<'a>(&'a self, mut take: impl FnMut(Option<CommandId>, Args<'a>) -> bool) -> usize {
        let first = self.prefetched.get().max(self.next_request);
        let requests = (first..).map_while(|index| self.request(index));
        requests.take_while(|&(id, args)| take(id, args)).count()
    }

    /// Parsed requests whose keys have not been fetched.
    pub fn cold_requests(&self) -> usize {
        self.requests.len() - self.prefetched.get().max(self.next_request)
    }

    pub fn note_prefetched(&self, requests: usize) {
        self.prefetched.set(self.prefetched.get().max(self.next_request) + requests);
    }

    pub fn has_requests(&self) -> bool {
        self.next_request < self.requests.len()
    }

    /// Once all parsed requests have run: forgets them and the bytes they were in.
    pub fn consume(&mut self) {
        if self.has_requests() {
            return;
        }
        self.args.clear();
        self.requests.clear();
        if self.args.capacity() > ARGS_KEPT_MAX {
            self.args = Vec::new();
        }
        self.next_request = 0;
        self.prefetched.set(0);
        self.input_peak = self.input_peak.max(self.input.len());
        self.input.drain(..std::mem::take(&mut self.position));
        if self.input.is_empty() && self.input.capacity() > INPUT_EMPTY_BYTES_MAX {
            self.input = Vec::new();
        }
    }
}
