//! What a client has sent, on its way to the executor and back: bytes, the requests cut from them, and what has been
//! found out about each request ahead of its turn.
//!
//! A query buffer is lent to a connection that has something to read, and goes back when all that was read has been
//! executed, so that an idle client holds none and the few in use stay in the cache. A connection that is left with
//! half a request keeps its query buffer; [`QueryBuffer::shrink`] takes room away again once the client is idle.
//!
//! It is a value with one owner: the connection while it reads, the executor while it runs the requests. Where the
//! two are threads, the box is what passes between them, and nothing in it is shared.

mod long_argument;

use super::transport::{Stopped, Transport};
use crate::command::registry::{CommandId, Registry};
use crate::command::{Args, FirstKey, Request};
use crate::engine::prefetch::hash_keys;
use crate::session::ClientHandle;
use long_argument::{LONG_ARGUMENT_BYTES_MIN, LongArgument};
use std::cell::Cell;
use std::ops::Range;
use structures::hash::HashSeed;
use structures::short_bytes::same_bytes;
use wire::reply::{Output, SharedBytes};
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

/// How requests are parsed.
struct Parsing {
    ahead_max: usize,
    hashes_all_keys: bool,
    /// Long arguments are read into buffers of their own.
    separates_long_arguments: bool,
}

const IN_TURN: Parsing =
    Parsing { ahead_max: BATCH_REQUESTS_MAX, hashes_all_keys: false, separates_long_arguments: true };
const STREAM: Parsing = Parsing { separates_long_arguments: false, ..IN_TURN };
const AHEAD: Parsing =
    Parsing { ahead_max: AHEAD_REQUESTS_MAX, hashes_all_keys: true, separates_long_arguments: true };

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
    /// The argument under way, if it is read into a buffer of its own: nothing of it is in the input, which ends where it would
    /// begin.
    long_argument: Option<LongArgument>,
    /// Such an argument that has become whole, of the last parsed request or of the one under way. Nothing behind that request is
    /// parsed before it has run.
    apart: Option<SharedBytes>,
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
            long_argument: None,
            apart: None,
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

    /// For appending what has come another way than from the socket.
    pub fn input_mut(&mut self) -> &mut Vec<u8> {
        assert!(self.long_argument.is_none(), "what is appended would stand before the argument's rest");
        &mut self.input
    }

    /// Bytes that have arrived and not been executed.
    pub fn unread_bytes(&self) -> usize {
        let apart_bytes = self.apart.as_ref().map_or(0, |apart| apart.len());
        self.input.len() + self.long_argument.as_ref().map_or(apart_bytes, LongArgument::arrived_bytes)
    }

    /// Bytes in the buffer that are not behind us, and the room left; none of a query buffer that is only lent.
    pub fn input_figures(&self) -> (usize, usize) {
        if !self.is_kept {
            return (0, 0);
        }
        if let Some(argument) = &self.long_argument {
            return (argument.arrived_bytes(), argument.capacity() - argument.arrived_bytes());
        }
        let before = match self.parser.argument_under_way() {
            Some((len, start)) if len >= BIG_ARGUMENT_BYTES => self.position + start,
            _ => self.position,
        };
        let apart_bytes = self.apart.as_ref().map_or(0, |apart| apart.len());
        let arrived = self.input.len() - before.min(self.input.len()) + apart_bytes;
        (arrived, self.input.capacity() - self.input.len())
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.input.capacity()
            + self.long_argument.as_ref().map_or(0, LongArgument::capacity)
            + self.apart.as_ref().map_or(0, |apart| apart.capacity())
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
        let wanted = len + self.wanted_bytes().min(ANNOUNCED_BYTES_MAX);
        let peak = std::mem::replace(&mut self.input_peak, wanted).max(wanted);
        if let Some(argument) = self.long_argument.as_mut().filter(|_| idle_us > IDLE_US) {
            argument.shrink();
        }
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
        // One that waits is read from without being parsed.
        self.end_long_argument();
        let (read, is_filled) = match &mut self.long_argument {
            Some(argument) => (argument.read(transport), argument.is_filled()),
            None => {
                self.reserve();
                let read = transport.read(&mut self.input);
                self.was_filled = self.input.len() == self.input.capacity();
                (read, self.was_filled)
            }
        };
        match read {
            Ok(count) => {
                let is_all = !is_filled && !transport.has_unread();
                Transfer::Bytes { count, is_all }
            }
            Err(Stopped::WouldBlock) => Transfer::WouldBlock,
            Err(Stopped::Closed) => Transfer::Closed,
        }
    }

    /// What the argument under way still needs of the input.
    #[inline]
    fn wanted_bytes(&self) -> usize {
        if self.long_argument.is_some() { 0 } else { self.parser.wanted_bytes() }
    }

    /// Makes room for what is read next.
    #[inline]
    fn reserve(&mut self) {
        let wanted = self.wanted_bytes();
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
        self.parse_as(&IN_TURN, limits, registry, seed);
    }

    /// As [`Self::parse`], of whoever's requests are needed as bytes too ([`Self::next_request_and_bytes`]).
    pub fn parse_stream(&mut self, limits: &Limits, registry: &Registry, seed: HashSeed) {
        self.parse_as(&STREAM, limits, registry, seed);
    }

    /// As [`Self::parse`] where that costs the executor nothing: further ahead, and with all keys hashed.
    pub fn parse_ahead(&mut self, limits: &Limits, registry: &Registry, seed: HashSeed) {
        self.parse_as(&AHEAD, limits, registry, seed);
    }

    /// One function for all, so that the parser is compiled into it.
    #[inline(never)]
    fn parse_as(&mut self, parsing: &Parsing, limits: &Limits, registry: &Registry, seed: HashSeed) {
        let ahead_max = if limits.authenticated { parsing.ahead_max } else { 1 };
        self.end_long_argument();
        // In its middle there is nothing to parse, and what follows it has to wait until it has run.
        if self.long_argument.is_some() || self.is_apart_parsed() {
            return;
        }
        // Pipelines call the same command many times over; looking each name up took 5 % of a GET at pipeline 100.
        let mut earlier: Option<(CommandId, ArgRange)> = None;
        while self.broken.is_none()
            && self.requests.len() - self.next_request < ahead_max
            && self.position < self.input.len()
        {
            let before = self.args.len();
            match self.parser.parse(&mut self.input, &mut self.position, limits, &mut self.args) {
                Ok(Progress::Incomplete) => {
                    if parsing.separates_long_arguments {
                        self.begin_long_argument();
                    }
                    break;
                }
                Ok(Progress::Complete) if self.args.len() == before => {}
                Ok(Progress::Complete) => {
                    let args = Args::with_apart(&self.input, &self.args[before..], self.apart.as_ref());
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
                    if let Some(id) = id.filter(|_| parsing.hashes_all_keys) {
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
                    if self.apart.is_some() {
                        break;
                    }
                }
                Err(error) => self.broken = Some(error),
            }
        }
    }

    /// Has the rest of the argument under way read into a buffer of its own, if it is a long one and half of it is to come.
    #[cold]
    fn begin_long_argument(&mut self) {
        let Some((len, start)) = self.parser.argument_under_way() else { return };
        let begin = self.position + start;
        let arrived = self.input.len() - begin;
        if len < LONG_ARGUMENT_BYTES_MIN || arrived > len / 2 || self.apart.is_some() {
            return;
        }
        self.long_argument = Some(LongArgument::begin(len, &self.input[begin..]));
        self.input.truncate(begin);
    }

    /// Goes on behind the argument that was read into a buffer of its own, if it is whole.
    #[inline]
    fn end_long_argument(&mut self) {
        if let Some(argument) = self.long_argument.take_if(|argument| argument.is_whole()) {
            self.accept_long_argument(argument);
        }
    }

    #[cold]
    fn accept_long_argument(&mut self, argument: LongArgument) {
        match self.parser.accept_apart(argument.bytes()) {
            Ok(()) => self.apart = Some(argument.into_shared()),
            Err(error) => self.broken = Some(error),
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

    #[inline]
    fn args_in(&self, places: Range<usize>) -> Args<'_> {
        Args::with_apart(&self.input, &self.args[places], self.apart.as_ref())
    }

    fn request(&self, index: usize) -> Option<Request<'_>> {
        let request = self.requests.get(index)?;
        let start = index.checked_sub(1).map_or(0, |previous| self.requests[previous].args_end as usize);
        let args = self.args_in(start..request.args_end as usize);
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
        assert!(
            self.apart.is_none(),
            "whose requests are needed as bytes has none of their arguments cut out"
        );
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
            let args = self.args_in(start..end);
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
        (self.long_argument, self.apart) = (None, None);
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

    /// The last parsed request has an argument that stands apart.
    #[inline]
    fn is_apart_parsed(&self) -> bool {
        self.apart.is_some() && !self.parser.has_apart()
    }

    fn forget_requests(&mut self) {
        if self.is_apart_parsed() {
            self.apart = None;
        }
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
mod tests;
