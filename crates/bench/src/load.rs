//! Load generation: each connection sends a batch, waits for its replies, and sends the next.
//!
//! A thread serves a share of the connections with one epoll instance. At a fixed rate, batches have scheduled times
//! from which latencies are measured, so a server that stalls is charged for all requests scheduled meanwhile.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use client::Stream;
use hdrhistogram::Histogram;
use rustix::event::epoll;
use wire::response::{Reader, Skipper, Value};

use crate::connection::{LoadError, Setup, prepared};

/// Range of latencies in nanoseconds, from a microsecond to a minute.
const LATENCY_MIN_NS: u64 = 1_000;
const LATENCY_MAX_NS: u64 = 60_000_000_000;
const READ_LEN: usize = 64 * 1024;
const EVENTS_PER_WAIT: usize = 128;
/// Maximum time of waiting for events before the clock is read again.
const TICK: Duration = Duration::from_millis(100);

/// The requests of a connection, in batches.
pub trait Requests: Send {
    /// Encodes the next batch and returns the number of its replies, zero at the end. Requests during the warm-up do
    /// not count as sent.
    fn next_batch(&mut self, is_warming: bool) -> u64;

    /// Returns the latest batch.
    fn bytes(&self) -> &[u8];

    /// Whether [`Requests::reply`] receives the replies.
    fn wants_replies(&self) -> bool {
        false
    }

    fn reply(&mut self, _reply: Value) {}
}

/// A test, shared by all threads.
pub struct Test<'a> {
    /// Addresses that connections are distributed over.
    pub setups: &'a [Setup],
    /// Creates the requests of a connection, by its number.
    pub requests: &'a (dyn Fn(usize) -> Box<dyn Requests + 'a> + Sync),
    pub connections: usize,
    pub threads: usize,
    /// Number of replies after which a connection is closed and replaced.
    pub reconnect_after: Option<u64>,
    /// Commands per second of all connections together.
    pub rate: Option<f64>,
    pub warmup: Duration,
    /// End of the test, measured from the end of the warm-up.
    pub duration: Option<Duration>,
    /// Whether an error reply ends the test.
    pub stops_at_errors: bool,
    /// Significant digits of latencies.
    pub precision: u8,
}

impl Test<'_> {
    fn setup(&self, connection: usize) -> &Setup {
        &self.setups[connection % self.setups.len()]
    }
}

/// Progress of a running test.
pub struct Shared {
    connected: Barrier,
    pub start: OnceLock<Instant>,
    stops: AtomicBool,
    pub counters: Vec<Counters>,
    pub first_error: Mutex<Option<String>>,
}

/// Progress of one thread, written by that thread only.
#[derive(Default)]
#[repr(align(128))]
pub struct Counters {
    /// Number of replies during the warm-up, and after it.
    pub warming: AtomicU64,
    pub finished: AtomicU64,
    pub latency_sum_ns: AtomicU64,
    pub errors: AtomicU64,
    pub live: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

impl Shared {
    pub fn new(test: &Test<'_>) -> Self {
        Self {
            connected: Barrier::new(test.threads),
            start: OnceLock::new(),
            stops: AtomicBool::new(false),
            counters: (0..test.threads).map(|_| Counters::default()).collect(),
            first_error: Mutex::new(None),
        }
    }

    pub fn sum(&self, counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        self.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
    }

    fn note_error(&self, reply: &[u8]) {
        let mut first = self.first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert_with(|| {
            String::from_utf8_lossy(reply).trim_start_matches('-').trim_end().to_string()
        });
    }
}

pub fn new_histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, digits).expect("the bounds are in order")
}

/// Returns `Ok(None)` instead of `WouldBlock`.
fn unless_blocked(result: io::Result<usize>) -> Result<Option<usize>, LoadError> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(LoadError::Transfer(error)),
    }
}

/// Finds the ends of replies, or decodes them if they are needed.
enum Replies {
    Skipped(Skipper),
    Read(Reader),
}

/// Returns whether the first byte of a reply is that of an error.
fn is_push(kind: u8) -> bool {
    kind == b'>'
}

fn is_error(kind: u8) -> bool {
    matches!(kind, b'-' | b'!')
}

struct Client<'a> {
    stream: Stream,
    requests: Box<dyn Requests + 'a>,
    sent: usize,
    waits_to_write: bool,
    replies_missing: u64,
    replies_had: u64,
    /// Time at which the batch was sent, or scheduled.
    started: Instant,
    /// Batches sent during the warm-up are not measured.
    is_measured: bool,
    replies: Replies,
    /// The first byte of an incomplete reply.
    reply_kind: Option<u8>,
    received: Vec<u8>,
}

impl<'a> Client<'a> {
    fn new(setup: &Setup, requests: Box<dyn Requests + 'a>) -> Result<Self, LoadError> {
        let stream = prepared(setup)?;
        stream.set_nonblocking().map_err(LoadError::Transfer)?;
        Ok(Self {
            stream,
            sent: 0,
            waits_to_write: false,
            replies_missing: 0,
            replies_had: 0,
            started: Instant::now(),
            is_measured: false,
            replies: match requests.wants_replies() {
                true => Replies::Read(Reader::new()),
                false => Replies::Skipped(Skipper::new()),
            },
            requests,
            reply_kind: None,
            received: Vec::new(),
        })
    }

    /// Sends as much as the socket accepts. Returns whether the whole batch is sent.
    fn write(&mut self) -> Result<bool, LoadError> {
        let bytes = self.requests.bytes();
        while self.sent < bytes.len() {
            match unless_blocked(self.stream.write(&bytes[self.sent..]))? {
                Some(len) => self.sent += len,
                None => return Ok(false),
            }
        }
        let flushed = self.stream.flush();
        Ok(unless_blocked(flushed.map(|()| 0))?.is_some())
    }

    /// Reads once, and returns the number of replies that are complete then. Error replies are passed to
    /// `note_error`.
    fn read(&mut self, piece: &mut [u8], mut note_error: impl FnMut(&[u8])) -> Result<u64, LoadError> {
        let len = match unless_blocked(self.stream.read(piece))? {
            Some(0) => return Err(LoadError::Closed),
            Some(len) => len,
            None => return Ok(0),
        };
        // Usually the replies are complete, and no bytes need to be kept.
        let is_kept = !self.received.is_empty();
        if is_kept {
            self.received.extend_from_slice(&piece[..len]);
        }
        let bytes = if is_kept { self.received.as_slice() } else { &piece[..len] };
        let (mut position, mut answered) = (0, 0);
        while position < bytes.len() {
            let start = position;
            let kind = *self.reply_kind.get_or_insert(bytes[position]);
            let is_whole = match &mut self.replies {
                Replies::Skipped(skipper) => {
                    skipper.skip(bytes, &mut position).map_err(LoadError::Malformed)?.is_some()
                }
                Replies::Read(reader) => {
                    match reader.read(bytes, &mut position).map_err(LoadError::Malformed)? {
                        Some(reply) if !is_push(kind) => {
                            self.requests.reply(reply);
                            true
                        }
                        other => other.is_some(),
                    }
                }
            };
            if !is_whole {
                break;
            }
            self.reply_kind = None;
            if is_error(kind) {
                note_error(&bytes[start..position]);
            }
            answered += u64::from(!is_push(kind));
        }
        match is_kept {
            true => drop(self.received.drain(..position)),
            false => self.received.extend_from_slice(&piece[position..len]),
        }
        self.replies_had += answered;
        // A server that closes a connection may send an error without a request.
        self.replies_missing = self.replies_missing.saturating_sub(answered);
        Ok(answered)
    }
}

/// The connections of a thread.
struct Loop<'t, 'a> {
    test: &'t Test<'a>,
    thread: usize,
    shared: &'t Shared,
    counters: &'t Counters,
    latencies: Histogram<u64>,
    poll: rustix::fd::OwnedFd,
    clients: Vec<Option<Client<'a>>>,
    /// Connections that wait for their scheduled time, at a fixed rate.
    resting: VecDeque<usize>,
    /// Scheduled time of the next batch.
    next_batch: Instant,
    measures_from: Instant,
    ends_at: Option<Instant>,
    live: usize,
}

/// Result of a thread.
pub struct Share {
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    pub ended: Instant,
}

/// Runs a thread's share of a test.
pub fn run(test: &Test<'_>, shared: &Shared, thread: usize) -> Result<Share, LoadError> {
    let connected = connect(test, thread);
    if connected.is_err() {
        shared.stops.store(true, Ordering::Relaxed);
    }
    shared.connected.wait();
    let (poll, clients) = connected?;
    let start = *shared.start.get_or_init(Instant::now);
    let measures_from = start + test.warmup;
    let live = clients.len();
    let mut all = Loop {
        test,
        thread,
        shared,
        counters: &shared.counters[thread],
        latencies: new_histogram(test.precision),
        poll,
        clients,
        resting: VecDeque::new(),
        next_batch: start,
        measures_from,
        ends_at: test.duration.map(|duration| measures_from + duration),
        live,
    };
    let outcome = all.run();
    // All threads stop if one fails.
    if outcome.is_err() {
        shared.stops.store(true, Ordering::Relaxed);
    }
    let ended = all.ends_at.map_or_else(Instant::now, |end| end.min(Instant::now()));
    outcome.map(|()| Share { latencies: all.latencies, ended })
}

type Connected<'a> = (rustix::fd::OwnedFd, Vec<Option<Client<'a>>>);

fn connect<'a>(test: &Test<'a>, thread: usize) -> Result<Connected<'a>, LoadError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| LoadError::Poll(error.into()))?;
    let mut clients = Vec::new();
    for number in (thread..test.connections).step_by(test.threads) {
        let client = Client::new(test.setup(number), (test.requests)(number))?;
        watch(&poll, &client, clients.len(), true)?;
        clients.push(Some(client));
    }
    Ok((poll, clients))
}

/// Registers a connection with the poller.
fn watch(
    poll: &rustix::fd::OwnedFd,
    client: &Client<'_>,
    index: usize,
    is_new: bool,
) -> Result<(), LoadError> {
    let mut flags = epoll::EventFlags::IN;
    flags.set(epoll::EventFlags::OUT, client.waits_to_write);
    let data = epoll::EventData::new_u64(index as u64);
    let outcome = match is_new {
        true => epoll::add(poll, &client.stream, data, flags),
        false => epoll::modify(poll, &client.stream, data, flags),
    };
    outcome.map_err(|error| LoadError::Poll(error.into()))
}

impl Loop<'_, '_> {
    fn run(&mut self) -> Result<(), LoadError> {
        for index in 0..self.clients.len() {
            self.begin(index)?;
        }
        let (mut piece, mut events) = (vec![0; READ_LEN], Vec::with_capacity(EVENTS_PER_WAIT));
        while self.live > 0 && !self.shared.stops.load(Ordering::Relaxed) {
            self.counters.live.store(self.live as u64, Ordering::Relaxed);
            self.wait(&mut events)?;
            if self.ends_at.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            for event in events.drain(..) {
                self.handle(event, &mut piece)?;
            }
            self.wake_resting()?;
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), LoadError> {
        let now = Instant::now();
        let mut timeout = TICK;
        if !self.resting.is_empty() {
            timeout = timeout.min(self.next_batch.saturating_duration_since(now));
        }
        if let Some(end) = self.ends_at {
            timeout = timeout.min(end.saturating_duration_since(now));
        }
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ };
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.poll, spare, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LoadError::Poll(error.into())),
        }
    }

    /// Sends a connection's next batch, now or at its scheduled time; closes the connection at the end.
    fn begin(&mut self, index: usize) -> Result<(), LoadError> {
        let now = Instant::now();
        if self.test.rate.is_some() && now < self.next_batch {
            self.resting.push_back(index);
            return Ok(());
        }
        let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
        let is_warming = now < self.measures_from;
        let replies = client.requests.next_batch(is_warming);
        if replies == 0 {
            self.clients[index] = None;
            self.live -= 1;
            return Ok(());
        }
        client.sent = 0;
        client.replies_missing = replies;
        client.is_measured = !is_warming;
        client.started = now;
        if let Some(rate) = self.test.rate {
            client.started = self.next_batch;
            let share = rate / self.test.threads as f64;
            self.next_batch += Duration::from_secs_f64(replies as f64 / share);
        }
        self.write(index)
    }

    fn wake_resting(&mut self) -> Result<(), LoadError> {
        while !self.resting.is_empty() && Instant::now() >= self.next_batch {
            match self.resting.pop_front() {
                Some(index) => self.begin(index)?,
                None => break,
            }
        }
        Ok(())
    }

    fn write(&mut self, index: usize) -> Result<(), LoadError> {
        let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
        let waits_to_write = !client.write()?;
        if waits_to_write != std::mem::replace(&mut client.waits_to_write, waits_to_write) {
            watch(&self.poll, client, index, false)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: epoll::Event, piece: &mut [u8]) -> Result<(), LoadError> {
        let index = event.data.u64() as usize;
        let flags = event.flags;
        if flags.contains(epoll::EventFlags::OUT) {
            self.write(index)?;
        }
        // An idle connection is readable only if the server closes it.
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return Ok(());
        }
        loop {
            let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
            let was_asked = client.replies_missing > 0;
            let answered = client.read(piece, |reply| {
                Counters::add(&self.counters.errors, 1);
                self.shared.note_error(reply);
            })?;
            if client.is_measured && answered > 0 {
                let latency_ns = (client.started.elapsed().as_nanos() as u64).min(LATENCY_MAX_NS);
                self.latencies.record_n(latency_ns, answered).expect("the latency is within the bounds");
                Counters::add(&self.counters.finished, answered);
                Counters::add(&self.counters.latency_sum_ns, latency_ns * answered);
            } else {
                Counters::add(&self.counters.warming, answered);
            }
            let has_more = client.stream.has_received();
            let is_answered = was_asked && client.replies_missing == 0;
            if self.test.stops_at_errors && answered > 0 && self.counters.errors.load(Ordering::Relaxed) > 0 {
                self.shared.stops.store(true, Ordering::Relaxed);
                return Ok(());
            }
            if is_answered {
                self.renew(index)?;
            }
            if is_answered || !has_more {
                return Ok(());
            }
        }
    }

    /// Starts the next batch, after all replies of this one.
    fn renew(&mut self, index: usize) -> Result<(), LoadError> {
        let limit = self.test.reconnect_after;
        let number = self.thread + index * self.test.threads;
        if let Some(client) =
            self.clients[index].take_if(|client| limit.is_some_and(|limit| client.replies_had >= limit))
        {
            let client = Client::new(self.test.setup(number), client.requests)?;
            watch(&self.poll, &client, index, true)?;
            self.clients[index] = Some(client);
        }
        self.begin(index)
    }
}

/// Opens connections and leaves them idle until the server sends something or closes one.
pub fn idle(setup: &Setup, connections: usize) -> Result<(), LoadError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| LoadError::Poll(error.into()))?;
    let mut streams = Vec::new();
    let mut piece = vec![0; READ_LEN];
    for number in 0..connections {
        let stream = prepared(setup)?;
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, &stream, data, epoll::EventFlags::IN)
            .map_err(|error| LoadError::Poll(error.into()))?;
        streams.push(stream);
    }
    let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_PER_WAIT);
    loop {
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LoadError::Poll(error.into())),
        }
        for event in events.drain(..) {
            let stream = &mut streams[event.data.u64() as usize];
            match stream.read(&mut piece).map_err(LoadError::Transfer)? {
                0 => return Err(LoadError::Closed),
                len if is_error(piece[0]) => {
                    let text = String::from_utf8_lossy(&piece[1..len]).trim_end().to_string();
                    return Err(LoadError::Answer(text));
                }
                _ => {}
            }
        }
    }
}
