//! An I/O thread: it owns the sockets of some connections, reads and parses requests, and sends the executor's replies.
//!
//! ```text
//!              Order::Adopt, Serve, Send, Close, Release, Stop
//!   executor  ------------------------------------------------>  thread: epoll, read, parse, hash, write
//!             <------------------------------------------------
//!       Delivery::HandshakeDone, HandshakeFailed, Requests, Unread, HungUp, Closed, Returned, Ended
//! ```
//!
//! 1. A connection that was adopted ends with exactly one `Closed` or `Returned`; until then the thread owns its
//!    socket, and the executor does not reuse its handle. Orders for a closed handle are ignored: by the time the
//!    handle is reused, the executor has seen the end and all such orders have been taken.
//! 2. A connection has at most one query buffer. While the executor has it, nothing is read; a hang-up of the peer is
//!    reported as `HungUp`, and the end follows when the query buffer is back.
//! 3. Output is sent in the order of the orders.
//! 4. The thread writes no log line: a process forked for a snapshot must not find the log locked.
//! 5. Input that comes with a certificate's handshake is handed over before it is parsed: only the executor knows the
//!    user that the certificate names, and the limits of its requests.

use super::channel::{Receiver, Sender, Waker};
use super::connection::{Connection, HANDSHAKE_TOO_LATE, HANDSHAKE_US_MAX};
use super::poller::{Poller, Readiness, Token};
use super::query_buffer::{QueryBuffer, SpareQueryBuffers, Transfer};
use super::transport::{Stopped, TlsSocket, Transport};
use crate::clock::Clock;
use crate::command::registry::Registry;
use crate::observe::IoThreadFigures;
use crate::observe::memory::ThreadMemory;
use crate::observe::process::{Whose, cpu_times};
use crate::session::ClientHandle;
use crate::session::client::Meter;
use rustix::fd::OwnedFd;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use structures::hash::HashSeed;
use wire::convert::whole_us;
use wire::reply::Output;
use wire::request::Limits;

/// An order from the executor to a thread.
pub enum Order {
    /// Take over the connection, with its pending output: after that is sent, its end may be read.
    Adopt {
        connection: Box<Connection>,
        meter: Arc<Meter>,
        output: Output,
        is_unauthenticated: bool,
        is_away: bool,
    },
    /// The query buffer's requests are done: send the replies, and read on.
    Serve(Box<QueryBuffer>),
    /// Send output that is not a reply, or a delayed one.
    Send { handle: ClientHandle, output: Output, finishes: bool },
    /// Close the connection, discarding unsent output.
    Close(ClientHandle),
    /// Return the connection.
    Release(ClientHandle),
    /// Return all connections, and end.
    Stop,
}

/// A delivery from a thread to the executor.
pub enum Delivery {
    /// Complete requests, or invalid input.
    Requests(Box<QueryBuffer>),
    /// Size of an incomplete request; or the memory of a connection that is not authenticated has grown.
    Unread {
        handle: ClientHandle,
        bytes: usize,
    },
    /// The peer has hung up while its requests are with the executor.
    HungUp(ClientHandle),
    /// The client may send requests. It has presented this certificate, if any.
    HandshakeDone {
        handle: ClientHandle,
        certificate: Option<Vec<u8>>,
    },
    /// `Closed` follows.
    HandshakeFailed {
        handle: ClientHandle,
        reason: String,
    },
    Closed(ClientHandle),
    Returned(Box<Connection>),
    Ended,
}

/// State shared by all threads and the executor.
pub struct Shared {
    pub registry: Registry,
    pub seed: HashSeed,
    pub clock: Clock,
    /// The option `proto-max-bulk-len`.
    pub bulk_len_max: AtomicUsize,
}

/// An incomplete request larger than this is reported to the executor, which enforces the limits.
const UNREAD_BYTES_TOLD: usize = 32 * 1024;
/// Growth of an unauthenticated connection that is reported at once: the memory of all of those is limited.
const UNAUTHENTICATED_BYTES_TOLD: usize = 4 * 1024;
/// Handshake steps in one turn: each may take half a millisecond, which delays all other connections of the thread.
const HANDSHAKE_STEPS_MAX: usize = 4;
/// Deliveries in one turn after which the executor is woken, while the thread works on.
pub(super) const ANNOUNCED_DELIVERIES: usize = 16;
/// Sent output buffers kept for return to the executor with a query buffer.
const SPARE_OUTPUTS_MAX: usize = 64;
const SPARE_OUTPUT_BYTES_MAX: usize = 32 * 1024;
/// Period of the search for unused memory of connections, while there are any.
const CRON_US: u64 = 100_000;
/// Maximum age of a busy thread's figures.
const FIGURES_US: u64 = 10_000;
/// Retry delay when the executor's queue is full.
const BACKED_UP: Duration = Duration::from_millis(1);
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// A connection served here.
struct AdoptedConnection {
    connection: Box<Connection>,
    meter: Arc<Meter>,
    /// Output that the socket has not taken yet.
    unsent: VecDeque<Output>,
    /// The kernel may have more to read.
    is_readable: bool,
    has_hung_up: bool,
    /// Output was lost: nothing more may be sent.
    is_lost: bool,
    /// The executor has the query buffer.
    is_away: bool,
    is_unauthenticated: bool,
    /// Memory last reported while unauthenticated.
    told_bytes: usize,
    /// It waits for a handshake step in [`IoThread::postponed`].
    is_postponed: bool,
    /// Closes when all output is sent.
    finishes: bool,
    /// Time of the last read, on the monotonic clock.
    read_us: u64,
}

/// Whether a connection stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    Stays,
    Leaves,
}

struct IoThread {
    poller: Poller,
    waker: Arc<Waker>,
    orders: Receiver<Order>,
    deliveries: Sender<Delivery>,
    shared: Arc<Shared>,
    figures: Arc<IoThreadFigures>,
    memory: Memory,
    /// Indexed by handle.
    connections: Vec<Option<Box<AdoptedConnection>>>,
    spare_query_buffers: SpareQueryBuffers,
    spare_outputs: Vec<Vec<u8>>,
    ready: Vec<Readiness>,
    /// Connections that may have more input than one turn allows.
    again: VecDeque<ClientHandle>,
    /// Connections whose handshake continues in a later turn, each once.
    postponed: VecDeque<ClientHandle>,
    handshake_steps_left: usize,
    now_us: u64,
    next_cron_us: Option<u64>,
    figures_due_us: u64,
}

/// The allocator's counters of this thread, and their base from earlier threads of this number.
#[derive(Clone, Copy)]
struct Memory {
    before_bytes: i64,
    of_thread: Option<ThreadMemory>,
}

/// The parts of a thread that is yet to start.
pub struct Parts {
    pub epoll: OwnedFd,
    pub waker: Arc<Waker>,
    pub orders: Receiver<Order>,
    pub deliveries: Sender<Delivery>,
    pub shared: Arc<Shared>,
    pub figures: Arc<IoThreadFigures>,
}

impl Parts {
    /// Runs the thread until it is stopped.
    pub fn run(self) {
        let before_bytes = self.figures.used_bytes.load(Ordering::Relaxed);
        let memory = Memory { before_bytes, of_thread: ThreadMemory::of_this_thread() };
        LAST_WORD.with(|word| word.set(LastWord { memory, figures: Arc::clone(&self.figures) })).ok();
        IoThread {
            poller: Poller::of(self.epoll),
            waker: self.waker,
            orders: self.orders,
            deliveries: self.deliveries,
            shared: self.shared,
            figures: self.figures,
            memory,
            connections: Vec::new(),
            spare_query_buffers: SpareQueryBuffers::default(),
            spare_outputs: Vec::new(),
            ready: Vec::new(),
            again: VecDeque::new(),
            postponed: VecDeque::new(),
            handshake_steps_left: 0,
            now_us: 0,
            next_cron_us: None,
            figures_due_us: 0,
        }
        .run();
    }
}

/// Reports the final figures of a thread, after all it held is freed: what was created to start it is freed after its
/// function has returned. Without this, memory in use appeared to grow by 100 bytes a thread.
struct LastWord {
    memory: Memory,
    figures: Arc<IoThreadFigures>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.memory.report(&self.figures);
    }
}

thread_local! {
    static LAST_WORD: OnceCell<LastWord> = const { OnceCell::new() };
}

impl Memory {
    fn report(&self, figures: &IoThreadFigures) {
        if let Some(of_thread) = self.of_thread {
            let used_bytes = self.before_bytes + of_thread.used_bytes();
            figures.used_bytes.store(used_bytes, Ordering::Relaxed);
        }
    }
}

impl IoThread {
    /// Serves until stopped.
    fn run(mut self) {
        while self.turn() {
            self.deliveries.announce();
            self.report_figures();
        }
        let connections = std::mem::take(&mut self.connections);
        connections.into_iter().flatten().for_each(|adopted| self.give_back(*adopted));
        self.deliveries.send(Delivery::Ended);
        self.figures_due_us = 0;
        self.report_figures();
        while self.deliveries.is_backed_up() {
            self.deliveries.announce();
            std::thread::sleep(BACKED_UP);
        }
        self.deliveries.announce();
    }

    /// One turn of the loop; `false` when the thread ends.
    fn turn(&mut self) -> bool {
        self.wait();
        self.now_us = self.shared.clock.monotonic_us();
        self.handshake_steps_left = HANDSHAKE_STEPS_MAX;
        self.serve_postponed();
        self.serve_ready();
        self.serve_again();
        let goes_on = self.follow_orders();
        self.clients_cron_if_due();
        goes_on
    }

    fn wait(&mut self) {
        let next_us = self.next_cron_us.map(|at_us| at_us.saturating_sub(self.now_us));
        let mut timeout = next_us.map_or(FOR_EVER, Duration::from_micros);
        if self.deliveries.is_backed_up() {
            timeout = timeout.min(BACKED_UP);
        }
        let has_more = !self.again.is_empty() || !self.postponed.is_empty();
        if has_more || !self.waker.may_sleep(|| self.orders.is_empty()) {
            timeout = Duration::ZERO;
        }
        if self.poller.wait(timeout, &mut self.ready).is_err() {
            // The thread cannot make its own poller fail; a kernel short of memory may.
            std::thread::sleep(BACKED_UP);
        }
        self.waker.woken();
        IoThreadFigures::count(&self.figures.polls, 1);
    }

    fn serve_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            let Token::Connection(handle) = event.token else { continue };
            self.serve(handle, |thread, adopted| thread.follow_event(adopted, event));
        }
        self.ready = ready;
    }

    fn serve_postponed(&mut self) {
        for _ in 0..self.postponed.len().min(HANDSHAKE_STEPS_MAX) {
            let Some(handle) = self.postponed.pop_front() else { return };
            self.serve(handle, |thread, adopted| {
                adopted.is_postponed = false;
                thread.read_on(adopted)
            });
        }
    }

    fn serve_again(&mut self) {
        // Unfinished ones re-queue themselves for the next turn.
        for _ in 0..self.again.len() {
            let Some(handle) = self.again.pop_front() else { return };
            self.serve(handle, IoThread::read_on);
        }
    }

    /// Carries out the executor's orders, as long as there are any.
    fn follow_orders(&mut self) -> bool {
        while let Some(order) = self.orders.receive() {
            match order {
                Order::Adopt { connection, meter, output, is_unauthenticated, is_away } => {
                    let mut adopted =
                        AdoptedConnection::new(connection, meter, is_unauthenticated, is_away, self.now_us);
                    if !output.is_empty() {
                        adopted.unsent.push_back(output);
                    }
                    self.adopt(adopted);
                }
                Order::Serve(query_buffer) => {
                    self.serve(query_buffer.handle, |thread, adopted| thread.answer(adopted, query_buffer));
                }
                Order::Send { handle, output, finishes } => {
                    self.serve(handle, |thread, adopted| {
                        adopted.finishes |= finishes;
                        thread.send(adopted, output)
                    });
                }
                Order::Close(handle) => self.serve(handle, |_, _| Stay::Leaves),
                Order::Release(handle) => {
                    if let Some(adopted) = self.take(handle) {
                        self.give_back(*adopted);
                    }
                }
                Order::Stop => return false,
            }
            if self.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
                self.deliveries.announce();
            }
        }
        true
    }

    fn adopt(&mut self, adopted: Box<AdoptedConnection>) {
        let handle = adopted.connection.handle;
        let index = handle.index();
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        if self.poller.add_edges(adopted.connection.fd(), Token::Connection(handle)).is_err() {
            return self.deliveries.send(Delivery::Closed(handle));
        }
        adopted.report_input();
        if adopted.connection.transport.is_handshaking() {
            self.next_cron_us.get_or_insert(self.now_us + CRON_US);
        }
        self.connections[index] = Some(adopted);
        self.serve(handle, |thread, adopted| match thread.send_on(adopted) {
            Stay::Stays => thread.read_on(adopted),
            Stay::Leaves => Stay::Leaves,
        });
    }

    /// Removes and returns the connection, if it is still here.
    fn take(&mut self, handle: ClientHandle) -> Option<Box<AdoptedConnection>> {
        self.connections.get_mut(handle.index())?.take_if(|adopted| adopted.connection.handle == handle)
    }

    /// Runs `serve` on a connection, if it is still here, and closes it if the result says so.
    fn serve(
        &mut self,
        handle: ClientHandle,
        work: impl FnOnce(&mut IoThread, &mut AdoptedConnection) -> Stay,
    ) {
        let Some(mut adopted) = self.take(handle) else { return };
        match work(self, &mut adopted) {
            Stay::Stays => self.connections[handle.index()] = Some(adopted),
            Stay::Leaves => {
                // The socket leaves the poller when it is closed; failing to remove it first changes nothing.
                let _ = self.poller.remove(adopted.connection.fd());
                drop(adopted);
                self.deliveries.send(Delivery::Closed(handle));
            }
        }
        if self.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
            self.deliveries.announce();
        }
    }

    fn give_back(&mut self, adopted: AdoptedConnection) {
        let AdoptedConnection { mut connection, unsent, .. } = adopted;
        // As in `serve`.
        let _ = self.poller.remove(connection.fd());
        let left: &mut Output = connection.unsent.get_or_insert_default();
        unsent.into_iter().for_each(|output| left.append(output));
        self.deliveries.send(Delivery::Returned(connection));
    }

    fn follow_event(&mut self, adopted: &mut AdoptedConnection, event: Readiness) -> Stay {
        adopted.is_readable |= event.readable;
        if event.hung_up && !adopted.has_hung_up {
            adopted.has_hung_up = true;
            if adopted.is_away {
                self.deliveries.send(Delivery::HungUp(adopted.connection.handle));
            }
        }
        let has_unsent = !adopted.unsent.is_empty() || adopted.connection.transport.has_unsent();
        if event.writable && has_unsent && self.send_on(adopted) == Stay::Leaves {
            return Stay::Leaves;
        }
        if event.readable { self.read_on(adopted) } else { Stay::Stays }
    }

    /// Reads and parses, unless the executor still has the query buffer.
    fn read_on(&mut self, adopted: &mut AdoptedConnection) -> Stay {
        if adopted.is_away || !adopted.is_readable {
            return Stay::Stays;
        }
        if adopted.finishes {
            return self.discard_input(adopted);
        }
        let handle = adopted.connection.handle;
        let is_handshaking = adopted.connection.transport.is_handshaking();
        if is_handshaking && !self.takes_handshake_step(adopted) {
            return Stay::Stays;
        }
        let kept = adopted.connection.query_buffer.take();
        let mut query_buffer = kept.unwrap_or_else(|| self.spare_query_buffers.lend(handle));
        let transfer = query_buffer.read(&mut adopted.connection.transport);
        if let Transport::Tls(tls) = &mut adopted.connection.transport
            && self.follow_tls(handle, tls, transfer)
            && self.watch_writable(adopted, handle, true) == Stay::Leaves
        {
            return Stay::Leaves;
        }
        match transfer {
            Transfer::Closed => return Stay::Leaves,
            Transfer::WouldBlock => {
                // Under TLS a read may return no bytes but leave the end, which no event reports again.
                let transport = &adopted.connection.transport;
                let is_tls = matches!(transport, Transport::Tls(_));
                adopted.is_readable = transport.has_unread() || is_tls && adopted.has_hung_up;
            }
            Transfer::Bytes { count, is_all } => {
                // A hang-up is reported only once: the end is read, however little came before.
                adopted.is_readable = !is_all || adopted.has_hung_up;
                adopted.read_us = self.now_us;
                query_buffer.note_read(self.now_us);
                query_buffer.handover.received_bytes += count as u64;
                IoThreadFigures::count(&self.figures.reads, 1);
            }
        }
        if is_handshaking && adopted.may_be_logged_in() {
            self.hand_over(adopted, query_buffer);
            return Stay::Stays;
        }
        if let Transfer::Bytes { .. } = transfer {
            let limits = self.limits(adopted);
            query_buffer.parse_ahead(&limits, &self.shared.registry, self.shared.seed);
        }
        self.pass_on(adopted, query_buffer);
        Stay::Stays
    }

    /// Returns whether the handshake may continue in this turn; otherwise queues it for a later one.
    fn takes_handshake_step(&mut self, adopted: &mut AdoptedConnection) -> bool {
        if let Some(left) = self.handshake_steps_left.checked_sub(1) {
            self.handshake_steps_left = left;
            return true;
        }
        if !std::mem::replace(&mut adopted.is_postponed, true) {
            self.postponed.push_back(adopted.connection.handle);
        }
        false
    }

    /// Reports the end of a handshake; returns whether the socket must be watched for writing.
    fn follow_tls(&mut self, handle: ClientHandle, tls: &mut TlsSocket, transfer: Transfer) -> bool {
        if tls.is_newly_established() {
            let certificate = tls.peer_certificate().map(<[u8]>::to_vec);
            self.deliveries.send(Delivery::HandshakeDone { handle, certificate });
        }
        if transfer == Transfer::Closed
            && let Some(reason) = tls.handshake_failure()
        {
            self.deliveries.send(Delivery::HandshakeFailed { handle, reason });
        }
        tls.has_unsent()
    }

    /// Discards input after the last request: left unread it would make the kernel reset the connection, and the peer
    /// lose unsent replies.
    fn discard_input(&mut self, adopted: &mut AdoptedConnection) -> Stay {
        let mut query_buffer = self.spare_query_buffers.lend(adopted.connection.handle);
        match query_buffer.read(&mut adopted.connection.transport) {
            Transfer::Closed | Transfer::WouldBlock => adopted.is_readable = false,
            Transfer::Bytes { .. } => {
                query_buffer.discard();
                self.again.push_back(adopted.connection.handle);
            }
        }
        self.spare_query_buffers.take_back(query_buffer);
        Stay::Stays
    }

    fn limits(&self, adopted: &AdoptedConnection) -> Limits {
        Limits {
            bulk_len_max: self.shared.bulk_len_max.load(Ordering::Relaxed),
            authenticated: !adopted.is_unauthenticated,
            ..Limits::default()
        }
    }

    /// Hands a query buffer with requests to the executor; keeps or stores one without.
    fn pass_on(&mut self, adopted: &mut AdoptedConnection, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        if query_buffer.has_requests() || query_buffer.broken().is_some() {
            return self.hand_over(adopted, query_buffer);
        }
        query_buffer.consume();
        let bytes = query_buffer.unread_bytes();
        if query_buffer.is_free() {
            self.spare_query_buffers.take_back(query_buffer);
        } else {
            adopted.connection.query_buffer = Some(query_buffer);
            self.next_cron_us.get_or_insert(self.now_us + CRON_US);
            adopted.report_input();
        }
        if bytes > UNREAD_BYTES_TOLD || adopted.is_unknown() && adopted.has_grown() {
            self.deliveries.send(Delivery::Unread { handle, bytes });
        }
        if adopted.is_readable {
            self.again.push_back(handle);
        }
    }

    fn hand_over(&mut self, adopted: &mut AdoptedConnection, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        adopted.is_away = true;
        if query_buffer.handover.output.capacity() == 0 {
            query_buffer.handover.output = self.spare_outputs.pop().unwrap_or_default().into();
        }
        self.deliveries.send(Delivery::Requests(query_buffer));
        // The event came before the hand-over, and comes only once; a command would block without a client.
        if adopted.has_hung_up {
            self.deliveries.send(Delivery::HungUp(handle));
        }
    }

    /// Sends the replies of a processed query buffer and reads on.
    fn answer(&mut self, adopted: &mut AdoptedConnection, mut query_buffer: Box<QueryBuffer>) -> Stay {
        adopted.is_away = false;
        if adopted.is_lost {
            return Stay::Leaves;
        }
        adopted.is_unauthenticated = query_buffer.handover.is_unauthenticated;
        adopted.finishes |= query_buffer.handover.finishes;
        let output = std::mem::take(&mut query_buffer.handover.output);
        let stay = self.send(adopted, output);
        if adopted.finishes || stay == Stay::Leaves {
            self.spare_query_buffers.take_back(query_buffer);
            if adopted.is_readable && stay == Stay::Stays {
                self.again.push_back(adopted.connection.handle);
            }
            return stay;
        }
        let was_kept = adopted.meter.input_bytes.load(Ordering::Relaxed) > 0
            || adopted.meter.input_free_bytes.load(Ordering::Relaxed) > 0;
        self.pass_on(adopted, query_buffer);
        if was_kept && adopted.connection.query_buffer.is_none() {
            adopted.report_input();
        }
        // Input that `pass_on` has postponed can be read at once, since nothing else has been read of this connection.
        if adopted.is_readable && self.again.back() == Some(&adopted.connection.handle) {
            self.again.pop_back();
            return self.read_on(adopted);
        }
        Stay::Stays
    }

    /// Appends output to what is unsent, and writes.
    fn send(&mut self, adopted: &mut AdoptedConnection, output: Output) -> Stay {
        if adopted.is_lost {
            return Stay::Stays;
        }
        adopted.unsent.push_back(output);
        if adopted.unsent.len() > 1 { Stay::Stays } else { self.send_on(adopted) }
    }

    fn send_on(&mut self, adopted: &mut AdoptedConnection) -> Stay {
        while let Some(output) = adopted.unsent.front_mut() {
            let handle = adopted.connection.handle;
            if !output.is_empty() {
                let written = adopted.connection.write(output);
                let all_sent = output.is_empty();
                IoThreadFigures::count(&adopted.meter.output_bytes_total, written.bytes as u64);
                adopted.meter.note_written(|| self.shared.clock.monotonic_us());
                IoThreadFigures::count(&self.figures.writes, 1);
                if written.closed {
                    return self.lose(adopted);
                }
                if !all_sent {
                    // If not full, its turn's share is used up: rewatching triggers the next turn.
                    adopted.connection.watches_writable &= written.is_full;
                    return self.watch_writable(adopted, handle, true);
                }
            }
            let output = adopted.unsent.pop_front().expect("it has just been sent");
            self.keep_output(output);
        }
        if adopted.connection.transport.has_unsent() {
            match adopted.connection.transport.flush() {
                Ok(()) => {}
                Err(Stopped::WouldBlock) => {
                    let handle = adopted.connection.handle;
                    return self.watch_writable(adopted, handle, true);
                }
                Err(Stopped::Closed) => return self.lose(adopted),
            }
        }
        if adopted.finishes {
            adopted.connection.finish();
            return Stay::Leaves;
        }
        let handle = adopted.connection.handle;
        self.watch_writable(adopted, handle, false)
    }

    fn watch_writable(
        &mut self,
        adopted: &mut AdoptedConnection,
        handle: ClientHandle,
        writable: bool,
    ) -> Stay {
        if adopted.connection.watches_writable == writable {
            return Stay::Stays;
        }
        adopted.connection.watches_writable = writable;
        let (token, interest) = (Token::Connection(handle), adopted.connection.interest());
        match self.poller.watch_edges(adopted.connection.fd(), token, interest.writable) {
            Ok(()) => Stay::Stays,
            Err(_) => self.lose(adopted),
        }
    }

    /// Handles a dead socket: the connection closes, or is reported as hung up while the executor has its query buffer.
    fn lose(&mut self, adopted: &mut AdoptedConnection) -> Stay {
        if !adopted.is_away {
            return Stay::Leaves;
        }
        adopted.is_lost = true;
        adopted.unsent.clear();
        if !std::mem::replace(&mut adopted.has_hung_up, true) {
            self.deliveries.send(Delivery::HungUp(adopted.connection.handle));
        }
        Stay::Stays
    }

    fn keep_output(&mut self, output: Output) {
        let fits = (1..=SPARE_OUTPUT_BYTES_MAX).contains(&output.capacity());
        if fits && self.spare_outputs.len() < SPARE_OUTPUTS_MAX {
            self.spare_outputs.push(output.into_spare());
        }
    }

    /// Frees memory of connections that are idle within a request.
    fn clients_cron_if_due(&mut self) {
        if self.next_cron_us.is_none_or(|at_us| self.now_us < at_us) {
            return;
        }
        self.next_cron_us = None;
        let now_us = self.now_us;
        let mut late = Vec::new();
        for adopted in self.connections.iter_mut().flatten() {
            if adopted.connection.transport.is_handshaking() {
                if now_us - adopted.read_us > HANDSHAKE_US_MAX {
                    late.push(adopted.connection.handle);
                }
                self.next_cron_us = Some(now_us + CRON_US);
            }
            let Some(query_buffer) = &mut adopted.connection.query_buffer else { continue };
            if query_buffer.shrink(now_us - adopted.read_us) {
                adopted.connection.query_buffer = None;
            } else {
                self.next_cron_us = Some(now_us + CRON_US);
            }
            adopted.report_input();
        }
        for handle in late {
            let reason = HANDSHAKE_TOO_LATE.to_owned();
            self.deliveries.send(Delivery::HandshakeFailed { handle, reason });
            self.serve(handle, |_, _| Stay::Leaves);
        }
    }

    /// Publishes the thread's resource use.
    fn report_figures(&mut self) {
        self.memory.report(&self.figures);
        if self.now_us >= self.figures_due_us {
            self.figures_due_us = self.now_us + FIGURES_US;
            let times = cpu_times(Whose::ThisThread);
            let busy_us = whole_us(times.user + times.system);
            self.figures.busy_us.store(busy_us, Ordering::Relaxed);
        }
    }
}

impl AdoptedConnection {
    fn new(
        mut connection: Box<Connection>,
        meter: Arc<Meter>,
        is_unauthenticated: bool,
        is_away: bool,
        now_us: u64,
    ) -> Box<Self> {
        connection.watches_writable = false;
        assert!(connection.unsent.is_none(), "unsent output is passed beside an adopted connection");
        // The poller reports everything else.
        let is_readable = connection.transport.has_unread();
        Box::new(AdoptedConnection {
            connection,
            meter,
            unsent: VecDeque::new(),
            is_readable,
            has_hung_up: false,
            is_lost: false,
            is_away,
            is_unauthenticated,
            told_bytes: 0,
            is_postponed: false,
            finishes: false,
            read_us: now_us,
        })
    }

    /// Returns whether the client is unauthenticated, as far as is known here.
    fn is_unknown(&self) -> bool {
        self.is_unauthenticated || self.connection.transport.is_handshaking()
    }

    /// Returns whether the handshake is done with a certificate, which may have authenticated the client.
    fn may_be_logged_in(&self) -> bool {
        let Transport::Tls(tls) = &self.connection.transport else { return false };
        self.is_unauthenticated && !tls.is_handshaking() && tls.peer_certificate().is_some()
    }

    /// Updates the memory figure; returns whether it has grown enough to be reported at once.
    fn has_grown(&mut self) -> bool {
        self.report_input();
        let held_bytes = self.connection.memory_bytes();
        let has_grown = held_bytes > self.told_bytes + UNAUTHENTICATED_BYTES_TOLD;
        if has_grown {
            self.told_bytes = held_bytes;
        }
        has_grown
    }

    /// Reports the connection's memory to the executor.
    fn report_input(&self) {
        let figures =
            self.connection.query_buffer.as_ref().map_or((0, 0), |query_buffer| query_buffer.input_figures());
        self.meter.report(figures, size_of::<Self>() + self.connection.memory_bytes());
    }
}
