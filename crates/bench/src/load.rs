//! Making the load: connections that each send a batch, await its replies, and send the next.
//!
//! A thread runs a share of the connections on one epoll. Batches are drawn from a counter that all threads share, so
//! the test ends exactly when all requests have been answered.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll;
use tls::{ClientConfig, ServerName, TlsStream};
use wire::response::{ResponseError, Skipper};

use crate::template::{Numbers, Template, append_request};

/// Latencies from a microsecond to a minute, in nanoseconds, to three digits.
const LATENCY_MIN_NS: u64 = 1_000;
const LATENCY_MAX_NS: u64 = 60_000_000_000;
const LATENCY_DIGITS: u8 = 3;
const READ_LEN: usize = 64 * 1024;
const EVENTS_PER_WAIT: usize = 128;
/// How long a thread waits for events before it looks at the clock again.
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// How connections are encrypted.
#[derive(Clone)]
pub struct Encryption {
    pub config: Arc<ClientConfig>,
    /// What the server is called, if not by its address.
    pub name: Option<String>,
}

/// What every connection does first.
#[derive(Clone)]
pub struct Setup {
    pub address: Address,
    pub encryption: Option<Encryption>,
    pub commands: Vec<Vec<String>>,
}

#[derive(Debug)]
pub enum LoadError {
    Connect(io::Error),
    Refused(String),
    Poll(io::Error),
    Transfer(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "Could not connect to the server: {error}"),
            Self::Refused(answer) => write!(f, "The server refused to set up a connection: {answer}"),
            Self::Poll(error) => write!(f, "Could not wait for events: {error}"),
            Self::Transfer(error) => write!(f, "Error on a connection: {error}"),
            Self::Closed => f.write_str("Error: the server closed a connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// One test, as all threads see it.
pub struct Test<'a> {
    pub template: &'a Template,
    pub setup: &'a Setup,
    pub pipeline: u64,
    pub keep_alive: bool,
    /// Time between two batches of one thread's connections, if the rate is limited.
    pub batch_interval: Option<Duration>,
    /// Sequences that may be sent; a duration ends the test otherwise.
    pub sequences: u64,
    pub deadline: Option<Instant>,
    pub claimed: AtomicU64,
    /// Commands answered.
    pub finished: AtomicU64,
    pub errors: AtomicU64,
    pub first_error: Mutex<Option<String>>,
}

impl Test<'_> {
    /// Takes up to a pipeline's worth of sequences.
    fn claim(&self) -> u64 {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return 0;
        }
        let before = self.claimed.fetch_add(self.pipeline, Ordering::Relaxed);
        self.sequences.saturating_sub(before).min(self.pipeline)
    }

    fn note_error(&self, reply: &[u8]) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert_with(|| String::from_utf8_lossy(reply).trim().to_string());
    }
}

pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, LATENCY_DIGITS)
        .expect("the bounds are in order")
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls the same method on whichever stream there is.
macro_rules! on_stream {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl Stream {
    fn connect(setup: &Setup) -> io::Result<Self> {
        let (host, port) = match &setup.address {
            Address::Tcp(host, port) => (host, *port),
            Address::Unix(path) => return UnixStream::connect(path).map(Self::Unix),
        };
        let stream = TcpStream::connect((host.as_str(), port))?;
        stream.set_nodelay(true)?;
        let Some(Encryption { config, name }) = &setup.encryption else { return Ok(Self::Tcp(stream)) };
        let name = ServerName::try_from(name.as_ref().unwrap_or(host).clone()).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(TlsStream::connect(stream, Arc::clone(config), name)?)))
    }

    /// Whether there may be something to read that the poll will not tell of.
    fn has_received(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_received())
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tls(stream) => stream.socket.set_nonblocking(true),
        }
    }

    /// Connected and set up; blocking until then, not afterwards.
    fn prepare(setup: &Setup) -> Result<Self, LoadError> {
        let mut stream = Self::connect(setup).map_err(LoadError::Connect)?;
        let mut request = Vec::new();
        setup.commands.iter().for_each(|command| append_request(&mut request, command));
        on_stream!(&mut stream, stream => stream.write_all(&request)).map_err(LoadError::Connect)?;
        let (mut skipper, mut received, mut position) = (Skipper::new(), Vec::new(), 0);
        for _ in &setup.commands {
            let start = position;
            let is_error = loop {
                if let Some(is_error) =
                    skipper.skip(&received, &mut position).map_err(LoadError::Malformed)?
                {
                    break is_error;
                }
                let mut piece = [0; 4096];
                match on_stream!(&mut stream, stream => stream.read(&mut piece))
                    .map_err(LoadError::Connect)?
                {
                    0 => return Err(LoadError::Closed),
                    len => received.extend_from_slice(&piece[..len]),
                }
            };
            if is_error {
                let answer = String::from_utf8_lossy(&received[start..position]).trim().to_string();
                return Err(LoadError::Refused(answer));
            }
        }
        stream.set_nonblocking().map_err(LoadError::Connect)?;
        Ok(stream)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

/// `Ok(None)` instead of an error that only says "later".
fn unless_blocked(result: io::Result<usize>) -> Result<Option<usize>, LoadError> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(LoadError::Transfer(error)),
    }
}

struct Client {
    stream: Stream,
    /// A full batch; the part before `batch_len` is to be sent, the part before `sent` is.
    batch: Vec<u8>,
    batch_len: usize,
    sent: usize,
    waits_to_write: bool,
    replies_missing: u64,
    started: Instant,
    skipper: Skipper,
    received: Vec<u8>,
}

impl Client {
    fn new(test: &Test<'_>) -> Result<Self, LoadError> {
        Ok(Self {
            stream: Stream::prepare(test.setup)?,
            batch: test.template.repeated(test.pipeline as usize),
            batch_len: 0,
            sent: 0,
            waits_to_write: false,
            replies_missing: 0,
            started: Instant::now(),
            skipper: Skipper::new(),
            received: Vec::new(),
        })
    }

    /// Begins the next batch. False when there is nothing left to send.
    fn begin(&mut self, test: &Test<'_>, numbers: &mut Numbers<'_>) -> bool {
        let sequences = test.claim();
        test.template.renew(&mut self.batch, sequences as usize, numbers);
        self.batch_len = test.template.bytes.len() * sequences as usize;
        self.sent = 0;
        self.replies_missing = test.template.commands * sequences;
        self.started = Instant::now();
        sequences > 0
    }

    /// Sends what the socket takes. True when all of the batch is sent.
    fn write(&mut self) -> Result<bool, LoadError> {
        while self.sent < self.batch_len {
            let rest = &self.batch[self.sent..self.batch_len];
            match unless_blocked(on_stream!(&mut self.stream, stream => stream.write(rest)))? {
                Some(len) => self.sent += len,
                None => return Ok(false),
            }
        }
        let flushed = on_stream!(&mut self.stream, stream => stream.flush());
        Ok(unless_blocked(flushed.map(|()| 0))?.is_some())
    }

    /// Reads once and records the replies that are whole by then. True when the batch is answered.
    fn read(
        &mut self,
        test: &Test<'_>,
        latencies: &mut Histogram<u64>,
        piece: &mut [u8],
    ) -> Result<bool, LoadError> {
        let len = match unless_blocked(on_stream!(&mut self.stream, stream => stream.read(piece)))? {
            Some(0) => return Err(LoadError::Closed),
            Some(len) => len,
            None => return Ok(false),
        };
        let latency = (self.started.elapsed().as_nanos() as u64).clamp(LATENCY_MIN_NS, LATENCY_MAX_NS);
        // Usually the replies are all here, and nothing needs to be kept.
        let kept = std::mem::take(&mut self.received);
        let joined;
        let bytes = if kept.is_empty() {
            &piece[..len]
        } else {
            joined = [&kept, &piece[..len]].concat();
            &joined
        };
        let (mut position, mut answered) = (0, 0);
        while self.replies_missing > answered {
            let start = position;
            match self.skipper.skip(bytes, &mut position).map_err(LoadError::Malformed)? {
                Some(is_error) => {
                    answered += 1;
                    if is_error {
                        test.note_error(&bytes[start..position]);
                    }
                }
                None => break,
            }
        }
        latencies.record_n(latency, answered).expect("the latency was clamped to the bounds");
        test.finished.fetch_add(answered, Ordering::Relaxed);
        self.replies_missing -= answered;
        self.received = bytes[position..].to_vec();
        Ok(self.replies_missing == 0)
    }
}

/// One thread's connections.
struct Loop<'a> {
    test: &'a Test<'a>,
    numbers: Numbers<'a>,
    latencies: Histogram<u64>,
    poll: rustix::fd::OwnedFd,
    clients: Vec<Option<Client>>,
    /// Connections that wait for their turn, when the rate is limited.
    resting: Vec<usize>,
    next_batch: Instant,
    live: usize,
}

/// Runs this thread's share of a test.
pub fn run(test: &Test<'_>, clients: usize, numbers: Numbers<'_>) -> Result<Histogram<u64>, LoadError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| LoadError::Poll(error.into()))?;
    let mut all = Loop {
        test,
        numbers,
        latencies: new_histogram(),
        poll,
        clients: Vec::new(),
        resting: Vec::new(),
        next_batch: Instant::now(),
        live: 0,
    };
    for index in 0..clients {
        let client = Client::new(test)?;
        all.watch(&client, index, true)?;
        all.clients.push(Some(client));
    }
    all.live = clients;
    for index in 0..clients {
        all.begin(index)?;
    }
    let (mut piece, mut events) = (vec![0; READ_LEN], Vec::with_capacity(EVENTS_PER_WAIT));
    while all.live > 0 {
        all.wait(&mut events)?;
        for event in events.drain(..) {
            all.handle(event, &mut piece)?;
        }
        all.wake_resting()?;
    }
    Ok(all.latencies)
}

impl Loop<'_> {
    /// Tells the system what a connection waits for.
    fn watch(&self, client: &Client, index: usize, is_new: bool) -> Result<(), LoadError> {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, client.waits_to_write);
        let data = epoll::EventData::new_u64(index as u64);
        let outcome = match is_new {
            true => epoll::add(&self.poll, &client.stream, data, flags),
            false => epoll::modify(&self.poll, &client.stream, data, flags),
        };
        outcome.map_err(|error| LoadError::Poll(error.into()))
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), LoadError> {
        let until_next = self.next_batch.saturating_duration_since(Instant::now());
        let timeout = if self.resting.is_empty() { TICK } else { until_next.min(TICK) };
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ };
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.poll, spare, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LoadError::Poll(error.into())),
        }
    }

    /// Sends a connection's next batch, now or when its turn comes; closes it when there is nothing left.
    fn begin(&mut self, index: usize) -> Result<(), LoadError> {
        if let Some(interval) = self.test.batch_interval {
            let now = Instant::now();
            if now < self.next_batch {
                self.resting.push(index);
                return Ok(());
            }
            // A late batch does not make the following ones come faster for ever.
            self.next_batch = (self.next_batch + interval).max(now - TICK);
        }
        let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
        if client.begin(self.test, &mut self.numbers) {
            return self.write(index);
        }
        self.clients[index] = None;
        self.live -= 1;
        Ok(())
    }

    fn wake_resting(&mut self) -> Result<(), LoadError> {
        while Instant::now() >= self.next_batch {
            match self.resting.pop() {
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
            let client = self.clients[index].as_ref().expect("it was there just now");
            self.watch(client, index, false)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: epoll::Event, piece: &mut [u8]) -> Result<(), LoadError> {
        let index = event.data.u64() as usize;
        let flags = event.flags;
        if flags.contains(epoll::EventFlags::OUT) {
            self.write(index)?;
        }
        // A connection that rests has nothing to read, unless the server closes it.
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return Ok(());
        }
        loop {
            let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
            let is_answered = client.read(self.test, &mut self.latencies, piece)?;
            let has_more = client.stream.has_received();
            if is_answered {
                self.renew(index)?;
            }
            if is_answered || !has_more {
                return Ok(());
            }
        }
    }

    /// All of a batch has been answered: the next one begins.
    fn renew(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.test.keep_alive {
            let client = Client::new(self.test)?;
            self.watch(&client, index, true)?;
            self.clients[index] = Some(client);
        }
        self.begin(index)
    }
}
