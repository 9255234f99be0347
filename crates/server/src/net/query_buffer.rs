//! Query buffers: a client's input, the requests parsed from it, and the hashes of their keys. They pass from connections to
//! the executor and back.
//!
//! 1. A connection with input borrows a query buffer, and returns it when all requests have run: an idle client holds
//!    none, and the few in use stay in the cache. A connection with a partial request keeps its query buffer;
//!    [`QueryBuffer::shrink`] frees unused capacity once the client is idle.
//! 2. A query buffer has one owner: the connection while it reads, the executor while it runs the requests. Threads pass
//!    the box and share no part of it.

mod long_argument;

use super::transport::{Stopped, Transport};
use crate::command::registry::{CommandId, Registry};
use crate::command::{Args, Request};
use crate::session::ClientHandle;
use long_argument::{LONG_ARGUMENT_BYTES_MIN, LongArgument};
use std::cell::Cell;
use std::ops::Range;
use structures::key_slot::KeySeed;
use structures::short_bytes::same_bytes;
use wire::convert::short_len;
use wire::reply::{Output, SharedBytes};
use wire::request::{ArgRange, Limits, Parser, Progress, ProtocolError};

/// Maximum number of bytes read from one connection in one turn, so that no connection starves the others.
pub const READ_BYTES: usize = 16 * 1024;
/// As [`READ_BYTES`], for a connection that filled its buffer: fewer system calls per request.
const BUSY_READ_BYTES: usize = 64 * 1024;
/// Capacity reserved at once for an announced argument; beyond it, capacity follows the arrived bytes.
const ANNOUNCED_BYTES_MAX: usize = 1 << 20;
/// Maximum capacity reserved for the rest of a request, as a multiple of its arrived bytes.
const EXPECTED_ROOM: usize = 3;
/// An argument from this size on is counted without the bytes before it in the buffer.
const BIG_ARGUMENT_BYTES: usize = 32 * 1024;
/// Query buffers kept for reuse.
const SPARE_QUERY_BUFFERS_MAX: usize = 64;
/// Requests parsed ahead of execution in one go.
pub const BATCH_REQUESTS_MAX: usize = 128;
/// As [`BATCH_REQUESTS_MAX`], in an I/O thread: more requests than a usual read contains.
const AHEAD_REQUESTS_MAX: usize = 1024;

/// Parsing options.
struct Parsing {
    ahead_max: usize,
    /// Long arguments are read into buffers of their own.
    separates_long_arguments: bool,
}

const IN_TURN: Parsing = Parsing { ahead_max: BATCH_REQUESTS_MAX, separates_long_arguments: true };
const STREAM: Parsing = Parsing { separates_long_arguments: false, ..IN_TURN };
const AHEAD: Parsing = Parsing { ahead_max: AHEAD_REQUESTS_MAX, separates_long_arguments: true };

/// Argument positions for which capacity is kept between requests.
const ARGS_KEPT_MAX: usize = 1024;
/// Unused capacity of an input buffer that is not freed.
const INPUT_FREE_BYTES_KEPT: usize = 4 * 1024;
/// An empty input buffer larger than this is not kept for the next request, however busy the client.
const INPUT_EMPTY_BYTES_MAX: usize = 512 * 1024;
/// An input buffer up to this size is kept while its client is busy, and may be reused for other clients.
const INPUT_KEPT_BYTES_MAX: usize = BUSY_READ_BYTES;
/// Time without input after which a client's input buffer is freed.
const IDLE_US: u64 = 2_000_000;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Number of bytes, and whether there was room for more.
    Bytes {
        /// Number of bytes.
        count: usize,
        /// Whether the socket has no more bytes.
        is_all: bool,
    },
    /// The socket has no more bytes for now.
    WouldBlock,
    /// The peer has closed its sending side.
    Closed,
}

/// A client's input and the requests parsed from it.
pub struct QueryBuffer {
    /// The client.
    pub handle: ClientHandle,
    /// Input not yet executed; requests before `position` are parsed.
    input: Vec<u8>,
    /// The connection keeps this query buffer although it may be empty.
    is_kept: bool,
    /// Peak of used or needed bytes in the buffer since the last check for shrinking.
    input_peak: usize,
    position: usize,
    /// Start of the first unexecuted request; bytes before it are done.
    start: usize,
    /// The last read filled the buffer.
    was_filled: bool,
    parser: Parser,
    /// The argument being read into a buffer of its own: the input has no byte of it, and ends where it would begin.
    long_argument: Option<LongArgument>,
    /// A completed long argument, of the last parsed request or of the one being parsed. Later requests are parsed only after
    /// that request has run.
    apart: Option<SharedBytes>,
    /// The input after `position` is invalid; the error is sent after the requests before it have run.
    broken: Option<ProtocolError>,
    /// Arguments of the parsed requests, and where each request ends among them.
    args: Vec<ArgRange>,
    requests: Vec<Parsed>,
    /// The first parsed request not yet executed.
    next_request: usize,
    /// The keys of requests before this one are prefetched.
    prefetched: Cell<usize>,
    /// Monotonic time at which the parsed requests, or the next ones, were read.
    received_us: u64,
    /// Data that accompanies the query buffer between threads.
    pub handover: Handover,
}

/// Data passed along with a query buffer between threads.
#[derive(Debug, Default)]
pub struct Handover {
    /// Bytes read into the query buffer since the executor last had it.
    pub received_bytes: u64,
    /// On the way to the connection's thread: output for the client. On the way to the executor: a buffer for reuse.
    pub output: Output,
    /// The client has not authenticated.
    pub is_unauthenticated: bool,
    /// What follows the output.
    pub follows: Follow,
}

/// What follows an output on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The executor holds more output: the connection stays for it, even if the client sends no more.
    HeldOutput,
    /// The end: the connection closes when the output is sent.
    Close,
}

/// Query buffers passed between owners, as boxes: a pointer each.
#[allow(clippy::vec_box, reason = "a box passes from list to list and between threads without a copy")]
pub type QueryBuffers = Vec<Box<QueryBuffer>>;

/// Empty query buffers for reuse.
#[derive(Default)]
pub struct SpareQueryBuffers(QueryBuffers);

impl SpareQueryBuffers {
    /// Returns a query buffer for a client.
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

    /// Takes back an unused query buffer, if it is empty and of usual size.
    #[inline]
    pub fn take_back(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let is_small = query_buffer.input.capacity() <= INPUT_KEPT_BYTES_MAX
            && query_buffer.handover.output.capacity() <= INPUT_KEPT_BYTES_MAX;
        if is_small && self.0.len() < SPARE_QUERY_BUFFERS_MAX && query_buffer.is_free() {
            self.0.push(query_buffer);
        }
    }
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    /// End of its arguments in the common list.
    args_end: u32,
    /// `None` for an unknown command.
    id: Option<CommandId>,
    /// End in the input, where the next request begins.
    end: usize,
}

impl QueryBuffer {
    /// Creates an empty query buffer.
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
            received_us: 0,
            handover: Handover::default(),
        }
    }

    /// Returns the input, for appending bytes that were not read from the socket.
    pub fn input_mut(&mut self) -> &mut Vec<u8> {
        assert!(self.long_argument.is_none(), "appended input would precede the argument's rest");
        &mut self.input
    }

    /// Returns the number of bytes not yet executed.
    pub fn unread_bytes(&self) -> usize {
        let apart_bytes = self.apart.as_ref().map_or(0, |apart| apart.len());
        self.input.len() + self.long_argument.as_ref().map_or(apart_bytes, LongArgument::arrived_bytes)
    }

    /// Returns the used bytes and the free capacity; both zero for a borrowed query buffer.
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

    /// Returns the memory of the buffer and of the parsed requests.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.input.capacity()
            + self.long_argument.as_ref().map_or(0, LongArgument::capacity)
            + self.apart.as_ref().map_or(0, |apart| apart.capacity())
            + self.parser.memory_bytes()
            + self.args.capacity() * size_of::<ArgRange>()
            + self.requests.capacity() * size_of::<Parsed>()
            + self.handover.output.capacity()
    }

    /// Returns whether the connection can return it: it is empty, and never held a partial request. Otherwise the connection
    /// keeps it.
    pub fn is_free(&mut self) -> bool {
        self.input_peak = self.input_peak.max(self.input.len());
        self.is_kept |= !self.input.is_empty() || self.broken.is_some();
        !self.is_kept
    }

    /// Makes the connection keep it, empty or not.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Frees capacity that the client has not used recently. `idle_us`: time since its last input. Returns whether the
    /// connection can return the query buffer.
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
            (self.args, self.requests) = (Vec::new(), Vec::new());
            self.next_request = 0;
            self.prefetched.set(0);
        }
        self.is_free()
    }

    /// Reads available input, at most [`READ_BYTES`], [`BUSY_READ_BYTES`] or the rest of the current request.
    pub fn read(&mut self, transport: &mut Transport) -> Transfer {
        // A blocked client's input is read without being parsed.
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

    /// Returns the bytes that the current argument still needs.
    #[inline]
    fn wanted_bytes(&self) -> usize {
        if self.long_argument.is_some() { 0 } else { self.parser.wanted_bytes() }
    }

    /// Reserves capacity for the next read.
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
        } else if room < wanted || wanted == 0 && room < READ_BYTES {
            // Doubling could reserve twice an argument's length for its last few bytes. The capacity follows the bytes that are
            // still expected, up to this multiple of the arrived ones: each step copies all of them to a new buffer.
            let expected = self.parser.bytes_to_come().min(len * EXPECTED_ROOM);
            self.input.reserve_exact(READ_BYTES.max(len / 4).max(expected));
        }
    }

    /// Records the time of a read. Input behind unexecuted requests counts as read with these.
    #[inline]
    pub fn store_read_time(&mut self, now_us: u64) {
        if !self.has_requests() {
            self.received_us = now_us;
        }
    }

    /// Returns when the next requests were read, on the monotonic clock.
    #[inline]
    pub fn received_us(&self) -> u64 {
        self.received_us
    }

    /// Parses complete requests, up to [`BATCH_REQUESTS_MAX`] ahead. An unauthenticated client gets them one by one,
    /// since the limits may change after each.
    pub fn parse(&mut self, limits: &Limits, registry: &Registry, seed: KeySeed) {
        self.parse_as(&IN_TURN, limits, registry, seed);
    }

    /// As [`Self::parse`], when the requests' bytes are needed too ([`Self::next_request_and_bytes`]).
    pub fn parse_stream(&mut self, limits: &Limits, registry: &Registry, seed: KeySeed) {
        self.parse_as(&STREAM, limits, registry, seed);
    }

    /// As [`Self::parse`], in an I/O thread: further ahead.
    pub fn parse_ahead(&mut self, limits: &Limits, registry: &Registry, seed: KeySeed) {
        self.parse_as(&AHEAD, limits, registry, seed);
    }

    /// One function for all variants, so that the parser is inlined into it.
    #[inline(never)]
    fn parse_as(&mut self, parsing: &Parsing, limits: &Limits, registry: &Registry, seed: KeySeed) {
        let ahead_max = if limits.authenticated { parsing.ahead_max } else { 1 };
        self.end_long_argument();
        // Bytes of a long argument are not parsed, and later requests wait until its request has run.
        if self.long_argument.is_some() || self.is_apart_parsed() {
            return;
        }
        // Pipelines often repeat a command; looking each name up took 5 % of a GET at pipeline 100.
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
                    if let Some(id) = id {
                        let ranges = &mut self.args[before..];
                        registry.row(id).hash_keys(&self.input, ranges, self.apart.as_ref(), seed);
                    }
                    let args_end = short_len(self.args.len());
                    self.requests.push(Parsed { args_end, id, end: self.position });
                    if self.apart.is_some() {
                        break;
                    }
                }
                Err(error) => self.broken = Some(error),
            }
        }
    }

    /// Moves the current argument to a buffer of its own, if it is long and at least half of it has not arrived.
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

    /// Continues after an argument in a buffer of its own, if it is complete.
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

    /// Returns the error in the bytes after the parsed requests.
    pub fn broken(&self) -> Option<ProtocolError> {
        self.broken
    }

    /// Returns the bytes after the parsed requests.
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
        Some(Request { id: request.id, args })
    }

    /// Returns the next parsed request, if there is one.
    #[inline]
    pub fn next_request(&mut self) -> Option<Request<'_>> {
        let index = self.next_request;
        self.next_request += (index < self.requests.len()) as usize;
        self.request(index)
    }

    /// Returns the last result of [`Self::next_request`].
    pub fn latest_request(&self) -> Option<Request<'_>> {
        self.request(self.next_request.checked_sub(1)?)
    }

    /// As [`Self::next_request`], with its encoded bytes and preceding empty lines.
    pub fn next_request_and_bytes(&mut self) -> Option<(Request<'_>, &[u8])> {
        let index = self.next_request;
        let start = index.checked_sub(1).map_or(self.start, |previous| self.requests[previous].end);
        let end = self.requests.get(index)?.end;
        assert!(
            self.apart.is_none(),
            "requests whose bytes are needed have no long arguments in separate buffers"
        );
        self.next_request += 1;
        Some((self.request(index)?, &self.input[start..end]))
    }

    /// Returns the number of parsed requests not yet run.
    pub fn request_count(&self) -> usize {
        self.requests.len() - self.next_request
    }

    /// Returns whether the next request's keys are not prefetched.
    #[inline]
    pub fn is_cold(&self) -> bool {
        self.prefetched.get() <= self.next_request
    }

    /// Passes the requests that are not prefetched to `take`, in order, until it returns `false`; returns how many it
    /// took, for [`QueryBuffer::count_prefetched`].
    #[inline]
    pub fn offer_cold<'a>(&'a self, mut take: impl FnMut(Request<'a>) -> bool) -> usize {
        let first = self.prefetched.get().max(self.next_request);
        let mut start = first.checked_sub(1).map_or(0, |previous| self.requests[previous].args_end as usize);
        let mut taken = 0;
        for parsed in self.requests.iter().skip(first) {
            let end = parsed.args_end as usize;
            if !take(Request { id: parsed.id, args: self.args_in(start..end) }) {
                break;
            }
            (start, taken) = (end, taken + 1);
        }
        taken
    }

    /// Returns the number of parsed requests that are not prefetched.
    pub fn cold_requests(&self) -> usize {
        self.requests.len() - self.prefetched.get().max(self.next_request)
    }

    /// Records that this many more requests are prefetched.
    pub fn count_prefetched(&self, requests: usize) {
        self.prefetched.set(self.prefetched.get().max(self.next_request) + requests);
    }

    /// Returns whether parsed requests wait to run.
    pub fn has_requests(&self) -> bool {
        self.next_request < self.requests.len()
    }

    /// Skips bytes that were taken unparsed; there must be no parsed requests.
    pub fn skip(&mut self, bytes: usize) {
        assert!(!self.has_requests() && bytes <= self.unparsed().len(), "only unparsed bytes can be skipped");
        self.position += bytes;
        self.consume();
    }

    /// Discards all input, including parsed requests.
    pub fn discard(&mut self) {
        (self.position, self.next_request) = (self.input.len(), self.requests.len());
        (self.parser, self.broken) = (Parser::new(), None);
        (self.long_argument, self.apart) = (None, None);
        self.consume();
    }

    /// Removes the parsed requests and their bytes, once all have run.
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

    /// As [`QueryBuffer::consume`], if more requests will be parsed at once: moves the rest only when it is shorter than the
    /// executed part, so that each byte is moved at most once, at any number of requests.
    pub fn consume_some(&mut self) {
        if self.position >= self.input.len() - self.position {
            return self.consume();
        }
        if !self.has_requests() {
            self.forget_requests();
            self.start = self.position;
        }
    }

    /// Returns whether the last parsed request has an argument in a separate buffer.
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
        if self.args.capacity() > ARGS_KEPT_MAX {
            self.args = Vec::new();
        }
        self.next_request = 0;
        self.prefetched.set(0);
    }
}

#[cfg(test)]
mod tests;
