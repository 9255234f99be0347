//! What a client has sent, on its way to the executor and back: bytes, the requests cut from them, and what has been
//! found out about each request ahead of its turn.
//!
//! A query buffer is lent to a connection that has something to read, and goes back when all that was read has been
//! executed, so that an idle client holds none and the few in use stay in the cache. A connection that is left with
//! half a request keeps its query buffer; [`QueryBuffer::shrink`] takes room away again once the client is idle.
//!
//! It is a value with one owner: the connection while it reads, the executor while it runs the requests. Where the
//! two are threads, the box is what passes between them, and nothing in it is shared.

use super::transport::{Stopped, Transport};
use crate::command::registry::{CommandId, Registry};
use crate::command::{Args, FirstKey, Request};
use crate::engine::prefetch::hash_keys;
use crate::session::ClientHandle;
use std::cell::Cell;
use structures::hash::HashSeed;
use structures::short_bytes::same_bytes;
use wire::reply::Output;
use wire::request::{ArgRange, Limits, Parser, Progress, ProtocolError};

/// Bytes read from one connection in one turn, so that none starves the others.
pub const READ_BYTES: usize = 16 * 1024;
/// As [`READ_BYTES`], from one that had more than there was room for: fewer calls of the system for each request.
const BUSY_READ_BYTES: usize = 64 * 1024;
/// Room made at once for an argument that has been announced; beyond this, room follows what has arrived.
const ANNOUNCED_BYTES_MAX: usize = 1 << 20;
/// An argument from this size on is counted without what stands before it in the buffer.
const BIG_ARGUMENT_BYTES: usize = 32 * 1024;
/// Query buffers kept for the next client that sends something.
const SPARE_QUERY_BUFFERS_MAX: usize = 64;
/// Requests parsed ahead of execution in one go.
pub const BATCH_REQUESTS_MAX: usize = 128;
/// As [`BATCH_REQUESTS_MAX`], in an I/O thread: more than a usual read holds.
const AHEAD_REQUESTS_MAX: usize = 1024;
/// Arguments whose positions are kept room for between requests.
const ARGS_KEPT_MAX: usize = 1024;
/// Unused room in an input buffer that is not worth taking away.
const INPUT_FREE_BYTES_KEPT: usize = 4 * 1024;
/// An empty input buffer of more than this is not kept for the next request, however busy the client.
const INPUT_EMPTY_BYTES_MAX: usize = 512 * 1024;
/// An input buffer up to this size is left alone while its client is busy, and may be lent to others.
const INPUT_KEPT_BYTES_MAX: usize = BUSY_READ_BYTES;
/// A client that has sent nothing for longer than this loses its input buffer.
const IDLE_US: u64 = 2_000_000;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// So many bytes, and whether there was room for more.
    Bytes {
        count: usize,
        is_all: bool,
    },
    /// The socket has no more for now.
    WouldBlock,
    Closed,
}

pub struct QueryBuffer {
    pub handle: ClientHandle,
    /// What has arrived and not been executed; requests before `position` are parsed.
    input: Vec<u8>,
    /// The connection keeps this query buffer although it may be empty.
    is_kept: bool,
    /// The most that was in the buffer, or was wanted in it, since it was last looked at for shrinking.
    input_peak: usize,
    position: usize,
    /// Where the first of the parsed requests begins; what is before it has run.
    start: usize,
    /// The last read left no room in the buffer.
    was_filled: bool,
    parser: Parser,
    /// What follows `position` makes no sense, and is to be answered when the requests before it have run.
    broken: Option<ProtocolError>,
    /// Arguments of the parsed requests, and where each request ends among them.
    args: Vec<ArgRange>,
    requests: Vec<Parsed>,
    /// The first parsed request not yet executed.
    next_request: usize,
    /// The requests before this one have had their keys fetched.
    prefetched: Cell<usize>,
    /// Hashes of the requests' keys, if they were taken ahead.
    hashes: Vec<u64>,
    /// When the parsed requests, or those that will be next, were read, on the monotonic clock.
    received_us: u64,
    pub handover: Handover,
}

/// What goes along when a query buffer passes between threads.
#[derive(Debug, Default)]
pub struct Handover {
    /// Bytes that were read into the query buffer since it last came to the executor.
    pub received_bytes: u64,
    /// To the connection's thread: what to send to the client. To the executor: a buffer to use again.
    pub output: Output,
    /// The client has yet to say who it is.
    pub is_unauthenticated: bool,
    /// The connection ends when the output has been sent.
    pub finishes: bool,
}

/// Query buffers on their way from one owner to the next. They pass by their boxes, a pointer each.
#[allow(clippy::vec_box, reason = "a box passes from list to list and between threads without a copy")]
pub type QueryBuffers = Vec<Box<QueryBuffer>>;

/// Empty query buffers for the next clients that send something.
#[derive(Default)]
pub struct SpareQueryBuffers(QueryBuffers);

impl SpareQueryBuffers {
    #[inline]
    pub fn lend(&mut self, handle: ClientHandle) -> Box<QueryBuffer> {
        match self.0.pop() {
            Some(mut query_buffer) => {
                query_buffer.handle = handle;
                query_buffer
            }
            None => Box::new(QueryBuffer::new(handle)),
        }
    }

    /// Takes back a query buffer that nobody needs, if it is empty and of usual size.
    #[inline]
    pub fn take_back(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let is_small = query_buffer.input.capacity() <= INPUT_KEPT_BYTES_MAX
            && query_buffer.handover.output.capacity() <= INPUT_KEPT_BYTES_MAX;
        if is_small && self.0.len() < SPARE_QUERY_BUFFERS_MAX && query_buffer.is_free() {
            self.0.push(query_buffer);
        }
    }
}

/// A request that has arrived whole.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    /// Where its arguments end among all of them.
    args_end: u32,
    /// Where its keys' hashes end among all of them.
    hashes_end: u32,
    /// `None` if no command has such a name.
    id: Option<CommandId>,
    first_key: FirstKey,
    /// Where it ends in the input, and the next one begins.
    end: usize,
}

impl QueryBuffer {
    pub fn new(handle: ClientHandle) -> Self {
        QueryBuffer {
            handle,
            input: Vec::new(),
            is_kept: false,
            input_peak: 0,
            position: 0,
            start: 0,
            was_filled: false,
            parser: Parser::new(),
            broken: None,
            args: Vec::new(),
            requests: Vec::new(),
            next_request: 0,
            prefetched: Cell::new(0),
            hashes: Vec::new(),
            received_us: 0,
            handover: Handover::default(),
        }
    }

    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// For appending what has come another way than from the socket.
    pub fn input_mut(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    /// Bytes in the buffer that are not behind us, and the room left; none of a query buffer that is only lent.
    pub fn input_figures(&self) -> (usize, usize) {
        if !self.is_kept {
            return (0, 0);
        }
        let before = match self.parser.argument_under_way() {
            Some((len, start)) if len >= BIG_ARGUMENT_BYTES => self.position + start,
            _ => self.position,
        };
        (self.input.len() - before.min(self.input.len()), self.input.capacity() - self.input.len())
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.input.capacity()
            + self.parser.memory_bytes()
            + self.args.capacity() * size_of::<ArgRange>()
            + self.requests.capacity() * size_of::<Parsed>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.handover.output.capacity()
    }

    /// Whether the connection can do without it: there is nothing in it, and never was a part of a request. One that
    /// the connection cannot do without is its own from now on.
    pub fn is_free(&mut self) -> bool {
        self.input_peak = self.input_peak.max(self.input.len());
        self.is_kept |= !self.input.is_empty() || self.broken.is_some();
        !self.is_kept
    }

    /// The connection is to keep it, empty or not.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Takes back room that the client has had no use for lately; `idle_us` is how long it has sent nothing. Whether
    /// the connection can do without the query buffer now.
    pub fn shrink(&mut self, idle_us: u64) -> bool {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let wanted = len + self.parser.wanted_bytes().min(ANNOUNCED_BYTES_MAX);
        let peak = std::mem::replace(&mut self.input_peak, wanted).max(wanted);
        if capacity - len > INPUT_FREE_BYTES_KEPT {
            if idle_us > IDLE_US {
                self.input.shrink_to_fit();
                self.is_kept = len > 0;
            } else if capacity > INPUT_KEPT_BYTES_MAX && capacity / 2 > peak {
                self.input.shrink_to(peak);
            }
        }
        if idle_us > IDLE_US && !self.has_requests() {
            (self.args, self.requests, self.hashes) = (Vec::new(), Vec::new(), Vec::new());
            self.next_request = 0;
            self.prefetched.set(0);
        }
        self.is_free()
    }

    /// Reads what has come, at most [`READ_BYTES`], [`BUSY_READ_BYTES`] or what the request under way still needs.
    pub fn read(&mut self, transport: &mut Transport) -> Transfer {
        let wanted = self.parser.wanted_bytes();
        let (len, room) = (self.input.len(), self.input.capacity() - self.input.len());
        if wanted > READ_BYTES {
            let announced = wanted.min(ANNOUNCED_BYTES_MAX.max(len) + READ_BYTES);
            self.input.reserve_exact(announced);
        } else if len < BIG_ARGUMENT_BYTES {
            self.input.reserve(READ_BYTES);
            if self.was_filled && self.input.capacity() < BUSY_READ_BYTES {
                self.input.reserve_exact(BUSY_READ_BYTES - len);
            }
        } else if wanted == 0 || room < wanted {
            // Doubling would hold as much again for the last few bytes of an argument.
            self.input.reserve_exact(READ_BYTES.max(len / 4));
        }
        match transport.read(&mut self.input) {
            Ok(count) => {
                self.was_filled = self.input.len() == self.input.capacity();
                let is_all = !self.was_filled && !transport.has_unread();
                Transfer::Bytes { count, is_all }
            }
            Err(Stopped::WouldBlock) => Transfer::WouldBlock,
            Err(Stopped::Closed) => Transfer::Closed,
        }
    }

    /// Something has just been read. What waits behind requests that have not run is counted as read with these.
    #[inline]
    pub fn note_read(&mut self, now_us: u64) {
        if !self.has_requests() {
            self.received_us = now_us;
        }
    }

    /// When the next requests were read, on the monotonic clock.
    #[inline]
    pub fn received_us(&self) -> u64 {
        self.received_us
    }

    /// Parses requests that have arrived whole, up to [`BATCH_REQUESTS_MAX`] ahead. A client that has yet to
    /// authenticate gets them one by one, for the limits may be others after each.
    pub fn parse(&mut self, limits: &Limits, registry: &Registry, seed: HashSeed) {
        self.parse_up_to(BATCH_REQUESTS_MAX, limits, registry, seed, false);
    }

    /// As [`Self::parse`] where that costs the executor nothing: further ahead, and with all keys hashed.
    pub fn parse_ahead(&mut self, limits: &Limits, registry: &Registry, seed: HashSeed) {
        self.parse_up_to(AHEAD_REQUESTS_MAX, limits, registry, seed, true);
    }

    /// One function for both, so that the parser is compiled into it.
    #[inline(never)]
    fn parse_up_to(
        &mut self,
        ahead_max: usize,
        limits: &Limits,
        registry: &Registry,
        seed: HashSeed,
        hashes_all_keys: bool,
    ) {
        let ahead_max = if limits.authenticated { ahead_max } else { 1 };
        // Pipelines call the same command many times over; looking each name up took 5 % of a GET at pipeline 100.
        let mut earlier: Option<(CommandId, ArgRange)> = None;
        while self.broken.is_none()
            && self.requests.len() - self.next_request < ahead_max
            && self.position < self.input.len()
        {
            let before = self.args.len();
            match self.parser.parse(&mut self.input, &mut self.position, limits, &mut self.args) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Complete) if self.args.len() == before => {}
                Ok(Progress::Complete) => {
                    let args = Args::new(&self.input, &self.args[before..]);
                    let id = match earlier {
                        Some((id, name)) if same_bytes(name.of(&self.input), args.at(0)) => Some(id),
                        _ => {
                            let found = registry.find(args).ok();
                            earlier = found
                                .filter(|&id| registry.is_known_by_name(id))
                                .map(|id| (id, self.args[before]));
                            found
                        }
                    };
                    if let Some(id) = id.filter(|_| hashes_all_keys) {
                        hash_keys(registry.row(id), args, seed, &mut self.hashes);
                    }
                    let request = registry.plan(id, args, seed);
                    self.requests.push(Parsed {
                        args_end: self.args.len() as u32,
                        hashes_end: self.hashes.len() as u32,
                        id,
                        first_key: request.first_key,
                        end: self.position,
                    });
                }
                Err(error) => self.broken = Some(error),
            }
        }
    }

    /// What is wrong with the bytes behind the parsed requests.
    pub fn broken(&self) -> Option<ProtocolError> {
        self.broken
    }

    /// What follows the parsed requests.
    pub fn unparsed(&self) -> &[u8] {
        &self.input[self.position..]
    }

    fn request(&self, index: usize) -> Option<Request<'_>> {
        let request = self.requests.get(index)?;
        let start = index.checked_sub(1).map_or(0, |previous| self.requests[previous].args_end as usize);
        let args = Args::new(&self.input, &self.args[start..request.args_end as usize]);
        Some(Request { id: request.id, args, first_key: request.first_key })
    }

    /// The hashes of a request's keys; none if they were not taken ahead.
    #[inline]
    fn hashes(&self, index: usize) -> &[u64] {
        if self.hashes.is_empty() {
            return &[];
        }
        let start = index.checked_sub(1).map_or(0, |previous| self.requests[previous].hashes_end as usize);
        &self.hashes[start..self.requests[index].hashes_end as usize]
    }

    /// The next parsed request, if there is one.
    #[inline]
    pub fn next_request(&mut self) -> Option<Request<'_>> {
        let index = self.next_request;
        self.next_request += (index < self.requests.len()) as usize;
        self.request(index)
    }

    /// The request that [`Self::next_request`] has answered last.
    pub fn latest_request(&self) -> Option<Request<'_>> {
        self.request(self.next_request.checked_sub(1)?)
    }

    /// As [`Self::next_request`], with the bytes that it came in, and empty lines before it.
    pub fn next_request_and_bytes(&mut self) -> Option<(Request<'_>, &[u8])> {
        let index = self.next_request;
        let start = index.checked_sub(1).map_or(self.start, |previous| self.requests[previous].end);
        let end = self.requests.get(index)?.end;
        self.next_request += 1;
        Some((self.request(index)?, &self.input[start..end]))
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
    /// returns how many it took, for [`QueryBuffer::note_prefetched`].
    #[inline]
    pub fn offer_cold<'a>(&'a self, mut take: impl FnMut(Request<'a>, &'a [u64]) -> bool) -> usize {
        let first = self.prefetched.get().max(self.next_request);
        let mut start = first.checked_sub(1).map_or(0, |previous| self.requests[previous].args_end as usize);
        let mut taken = 0;
        for (index, parsed) in self.requests.iter().enumerate().skip(first) {
            let end = parsed.args_end as usize;
            let args = Args::new(&self.input, &self.args[start..end]);
            let request = Request { id: parsed.id, args, first_key: parsed.first_key };
            if !take(request, self.hashes(index)) {
                break;
            }
            (start, taken) = (end, taken + 1);
        }
        taken
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

    /// So many bytes were no requests, and have been taken. There are no parsed requests.
    pub fn skip(&mut self, bytes: usize) {
        assert!(!self.has_requests() && bytes <= self.unparsed().len(), "nothing else has taken them");
        self.position += bytes;
        self.consume();
    }

    /// Throws away all that was read: nobody is going to run it.
    pub fn discard(&mut self) {
        (self.position, self.next_request) = (self.input.len(), self.requests.len());
        (self.parser, self.broken) = (Parser::new(), None);
        self.consume();
    }

    /// Once all parsed requests have run: forgets them and the bytes they were in.
    pub fn consume(&mut self) {
        if self.has_requests() {
            return;
        }
        self.forget_requests();
        self.input_peak = self.input_peak.max(self.input.len());
        self.input.drain(..std::mem::take(&mut self.position));
        self.start = 0;
        if self.input.is_empty() && self.input.capacity() > INPUT_EMPTY_BYTES_MAX {
            self.input = Vec::new();
        }
    }

    /// As [`QueryBuffer::consume`], if more is going to be parsed at once: moves what is left only when that is less
    /// than what has run, so that each byte is moved once in all, however many requests there are.
    pub fn consume_some(&mut self) {
        if self.position >= self.input.len() - self.position {
            return self.consume();
        }
        if !self.has_requests() {
            self.forget_requests();
            self.start = self.position;
        }
    }

    fn forget_requests(&mut self) {
        self.args.clear();
        self.requests.clear();
        self.hashes.clear();
        if self.args.capacity() > ARGS_KEPT_MAX {
            self.args = Vec::new();
        }
        self.next_request = 0;
        self.prefetched.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn room_for_an_announced_argument_is_kept_until_its_client_is_idle() {
        let (mut client, socket) = UnixStream::pair().unwrap();
        let mut transport = Transport::Plain(socket.into());
        let mut query_buffer = QueryBuffer::new(ClientHandle::default());
        for bytes in [&b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$1000000\r\n"[..], b"a"] {
            client.write_all(bytes).unwrap();
            assert!(matches!(query_buffer.read(&mut transport), Transfer::Bytes { .. }));
            query_buffer.parse(&Limits::default(), &Registry::new(&[]), HashSeed::new(1, 2));
            query_buffer.consume();
        }
        assert!(!query_buffer.shrink(0));
        assert!(query_buffer.input.capacity() > 1_000_000);
        assert!(!query_buffer.shrink(IDLE_US + 1));
        assert_eq!(query_buffer.input_figures(), (1, 0));
    }

    #[test]
    fn a_client_that_sends_much_is_read_in_larger_pieces_and_each_request_once() {
        let (mut client, socket) = UnixStream::pair().unwrap();
        let mut transport = Transport::Plain(socket.into());
        let mut query_buffer = QueryBuffer::new(ClientHandle::default());
        let request =
            |i: u32| format!("*2\r\n$4\r\necho\r\n$6\r\n{i:06}\r\n{}", &"\r\n\r\n"[..i as usize % 3 * 2]);
        let all: String = (0..20_000).map(request).collect();
        let writer = std::thread::spawn(move || client.write_all(all.as_bytes()).unwrap());
        let (mut seen, mut largest) = (0, 0);
        while seen < 20_000 {
            let transfer = query_buffer.read(&mut transport);
            let Transfer::Bytes { count, .. } = transfer else { panic!("{transfer:?} after {seen}") };
            largest = largest.max(count);
            loop {
                query_buffer.consume_some();
                query_buffer.parse(&Limits::default(), &Registry::new(&[]), HashSeed::new(1, 2));
                if !query_buffer.has_requests() {
                    break;
                }
                assert!(query_buffer.request_count() <= BATCH_REQUESTS_MAX);
                while let Some((found, bytes)) = query_buffer.next_request_and_bytes() {
                    let number = format!("{seen:06}").into_bytes();
                    assert_eq!(
                        (found.args.at(1), &bytes[bytes.len() - 8..bytes.len() - 2]),
                        (&number[..], &number[..])
                    );
                    assert!(bytes.starts_with(b"*2") || seen > 0 && bytes.starts_with(b"\r\n"));
                    seen += 1;
                }
            }
            query_buffer.consume();
            assert!(query_buffer.input.capacity() <= INPUT_KEPT_BYTES_MAX);
        }
        writer.join().unwrap();
        assert!(largest > INPUT_KEPT_BYTES_MAX / 2, "{largest}");
    }
}
