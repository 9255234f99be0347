//! One socket: bytes in, requests parsed from them, bytes out.

use crate::session::ClientSlot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use wire::request::{ArgRange, Limits, Parser, Progress, ProtocolError};

/// Bytes read from one connection in one turn, so that none starves the others.
pub const READ_BYTES: usize = 16 * 1024;
/// Requests parsed ahead of execution in one go.
pub const BATCH_REQUESTS_MAX: usize = 128;
/// A larger empty input buffer is given back to the allocator.
const INPUT_KEPT_BYTES_MAX: usize = 32 * 1024;

/// How a read or write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Bytes(usize),
    /// The socket has no more for now, or takes no more.
    WouldBlock,
    Closed,
}

pub struct Connection {
    pub slot: ClientSlot,
    socket: OwnedFd,
    /// What has arrived and not been executed; requests before `position` are parsed.
    pub input: Vec<u8>,
    position: usize,
    parser: Parser,
    /// Arguments of the parsed requests, and where each request ends among them.
    args: Vec<ArgRange>,
    ends: Vec<u32>,
    /// The first parsed request not yet executed.
    next_request: usize,
    /// Bytes of the client's output already written.
    pub output_sent: usize,
    pub watches_writable: bool,
    pub watches_readable: bool,
}

/// Which arguments belong to one request.
pub type RequestRange = std::ops::Range<usize>;

impl Connection {
    pub fn new(slot: ClientSlot, socket: OwnedFd) -> Self {
        Connection {
            slot,
            socket,
            input: Vec::new(),
            position: 0,
            parser: Parser::new(),
            args: Vec::new(),
            ends: Vec::new(),
            next_request: 0,
            output_sent: 0,
            watches_writable: false,
            watches_readable: true,
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes that have arrived and are not part of a parsed request.
    pub fn unparsed_bytes(&self) -> usize {
        self.input.len() - self.position
    }

    /// Reads what the socket has, at most [`READ_BYTES`] or what the request under way still needs.
    pub fn read(&mut self) -> Transfer {
        let wanted = self.parser.wanted_bytes().max(READ_BYTES);
        self.input.reserve(wanted);
        match rustix::io::read(&self.socket, rustix::buffer::spare_capacity(&mut self.input)) {
            Ok(0) => Transfer::Closed,
            Ok(n) => Transfer::Bytes(n),
            Err(Errno::AGAIN | Errno::INTR) => Transfer::WouldBlock,
            Err(_) => Transfer::Closed,
        }
    }

    /// Writes `output` from where the last write stopped.
    pub fn write(&mut self, output: &[u8]) -> Transfer {
        while self.output_sent < output.len() {
            let rest = &output[self.output_sent..];
            match rustix::net::send(&self.socket, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(n) => self.output_sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Transfer::WouldBlock,
                Err(_) => return Transfer::Closed,
            }
        }
        Transfer::Bytes(std::mem::take(&mut self.output_sent))
    }

    /// Parses requests that have arrived whole, up to [`BATCH_REQUESTS_MAX`] ahead.
    pub fn parse(&mut self, limits: &Limits) -> Result<(), ProtocolError> {
        while self.ends.len() - self.next_request < BATCH_REQUESTS_MAX && self.position < self.input.len() {
            let before = self.args.len();
            match self.parser.parse(&mut self.input, &mut self.position, limits, &mut self.args)? {
                Progress::Incomplete => break,
                Progress::Complete if self.args.len() == before => {}
                Progress::Complete => self.ends.push(self.args.len() as u32),
            }
        }
        Ok(())
    }

    /// The next parsed request's arguments, if there is one.
    pub fn next_request(&mut self) -> Option<RequestRange> {
        let end = *self.ends.get(self.next_request)? as usize;
        let start = self.next_request.checked_sub(1).map_or(0, |previous| self.ends[previous] as usize);
        self.next_request += 1;
        Some(start..end)
    }

    pub fn has_requests(&self) -> bool {
        self.next_request < self.ends.len()
    }

    pub fn args(&self) -> &[ArgRange] {
        &self.args
    }

    /// Once all parsed requests have run: forgets them and the bytes they were in.
    pub fn consume(&mut self) {
        if self.has_requests() {
            return;
        }
        self.args.clear();
        self.ends.clear();
        self.next_request = 0;
        self.input.drain(..std::mem::take(&mut self.position));
        if self.input.is_empty() && self.input.capacity() > INPUT_KEPT_BYTES_MAX {
            self.input = Vec::new();
        }
    }
}
