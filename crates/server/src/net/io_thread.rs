//! An I/O thread: it serves some connections (`net/connection.rs`), and exchanges their requests and outputs with the executor
//! by queues.
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
//! 3. Outputs are sent in the order of the orders.
//! 4. The thread writes no log line: a process forked for a snapshot must not find the log locked.
//! 5. Input that arrives with a certificate's handshake is handed over before it is parsed: only the executor has the
//!    user that the certificate names, and the limits of its requests.

use super::by_handle::{ByHandle, OfClient};
use super::channel::{Receiver, Sender, Waker};
use super::connection::{Connection, Exchange, Sent, Stay};
use super::poller::{Poller, Token};
use super::query_buffer::{Follow, QueryBuffer};
use super::sockets::Sockets;
use super::transport::Transport;
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
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use structures::key_slot::KeySeed;
use wire::convert::whole_us;
use wire::reply::Output;
use wire::request::Limits;

/// An order from the executor to a thread.
pub enum Order {
    /// Serve the connection, and send its pending output.
    Adopt {
        /// The connection.
        connection: Box<Connection>,
        /// Counters shared with the executor.
        meter: Arc<Meter>,
        /// Unsent output.
        output: Output,
        /// Whether the client has not authenticated yet.
        is_unauthenticated: bool,
        /// What follows this output.
        follows: Follow,
        /// Whether the executor has the query buffer.
        is_away: bool,
    },
    /// Send the replies of the query buffer's requests, and continue to read.
    Serve(Box<QueryBuffer>),
    /// Send output that is not a reply, or a delayed one.
    Send { handle: ClientHandle, output: Output, follows: Follow },
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
    /// Size of an incomplete request; or growth of an unauthenticated connection's memory.
    Unread {
        /// The client.
        handle: ClientHandle,
        /// Length of the incomplete request.
        bytes: usize,
    },
    /// The peer has hung up while its requests are with the executor.
    HungUp(ClientHandle),
    /// The handshake is complete: the client may send requests.
    HandshakeDone {
        /// The client.
        handle: ClientHandle,
        /// The verified certificate, if the client presented one.
        certificate: Option<Vec<u8>>,
    },
    /// The handshake has failed; `Closed` follows.
    HandshakeFailed {
        /// The client.
        handle: ClientHandle,
        /// The error.
        reason: String,
    },
    /// The connection is closed.
    Closed(ClientHandle),
    /// The answer to [`Order::Release`].
    Returned {
        /// The connection.
        connection: Box<Connection>,
        /// Output that the socket has not taken.
        unsent: Output,
    },
    /// The thread has ended.
    Ended,
}

/// State shared by all threads and the executor.
pub struct Shared {
    /// The commands.
    pub registry: Registry,
    /// Seed of the keys' hashes.
    pub seed: KeySeed,
    /// The clock.
    pub clock: Clock,
    /// The option `proto-max-bulk-len`.
    pub bulk_len_max: AtomicUsize,
}

/// An incomplete request larger than this is reported to the executor, which enforces the limits.
const UNREAD_BYTES_REPORTED: usize = 32 * 1024;
/// Growth of an unauthenticated connection that is reported at once: their memory is limited together.
const UNAUTHENTICATED_BYTES_REPORTED: usize = 4 * 1024;
/// Handshake steps in one turn: each may take half a millisecond, which delays all other connections of the thread.
const HANDSHAKE_STEPS_MAX: usize = 4;
/// Number of deliveries after which the executor is woken during a turn.
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

/// A connection of this thread, with the state of its client.
struct AdoptedConnection {
    connection: Box<Connection>,
    client: RemoteClient,
}

impl OfClient for AdoptedConnection {
    fn handle(&self) -> ClientHandle {
        self.connection.handle()
    }
}

/// State of a client: output from the executor, and reported figures.
struct RemoteClient {
    meter: Arc<Meter>,
    /// Output that the socket has not taken yet.
    unsent: VecDeque<Output>,
    /// Output was lost: no more may be sent.
    is_lost: bool,
    is_unauthenticated: bool,
    /// Memory last reported while unauthenticated.
    reported_bytes: usize,
    /// Closes when all output is sent.
    finishes: bool,
    /// The executor holds more output.
    awaits_output: bool,
    /// The input has ended: the client closes after the output that the executor holds.
    has_ended: bool,
    /// Time of the last read, on the monotonic clock.
    read_us: u64,
}

struct IoThread {
    waker: Arc<Waker>,
    orders: Receiver<Order>,
    memory: Memory,
    sockets: Sockets,
    connections: ByHandle<AdoptedConnection>,
    outlet: Outlet,
    figures_due_us: u64,
}

/// The thread's end of the queue to the executor, and the state that its connections share.
struct Outlet {
    deliveries: Sender<Delivery>,
    shared: Arc<Shared>,
    figures: Arc<IoThreadFigures>,
    spare_outputs: Vec<Vec<u8>>,
    now_us: u64,
    next_cron_us: Option<u64>,
}

/// The exchange of one connection of this thread.
struct Channel<'a> {
    client: &'a mut RemoteClient,
    outlet: &'a mut Outlet,
}

/// The allocator's counters of this thread, and their base from earlier threads of this number.
#[derive(Clone, Copy)]
struct Memory {
    before_bytes: i64,
    of_thread: Option<ThreadMemory>,
}

/// The parts from which a thread is started.
pub struct Parts {
    /// The thread's epoll instance.
    pub epoll: OwnedFd,
    /// Wakes the thread.
    pub waker: Arc<Waker>,
    /// Orders of the executor.
    pub orders: Receiver<Order>,
    /// Deliveries to the executor.
    pub deliveries: Sender<Delivery>,
    /// Data shared by all threads.
    pub shared: Arc<Shared>,
    /// Counters for INFO.
    pub figures: Arc<IoThreadFigures>,
}

impl Parts {
    /// Runs the thread until it is stopped.
    pub fn run(self) {
        let before_bytes = self.figures.used_bytes.load(Ordering::Relaxed);
        let memory = Memory { before_bytes, of_thread: ThreadMemory::of_this_thread() };
        FINAL_REPORT
            .with(|report| report.set(FinalReport { memory, figures: Arc::clone(&self.figures) }))
            .ok();
        IoThread {
            waker: self.waker,
            orders: self.orders,
            memory,
            sockets: Sockets::new(Poller::of(self.epoll)),
            connections: ByHandle::default(),
            outlet: Outlet {
                deliveries: self.deliveries,
                shared: self.shared,
                figures: self.figures,
                spare_outputs: Vec::new(),
                now_us: 0,
                next_cron_us: None,
            },
            figures_due_us: 0,
        }
        .run();
    }
}

/// Reports the final figures of a thread when its thread-local data is dropped: the parts from which it was started are
/// freed after its function has returned. Otherwise memory in use would appear to grow by 100 bytes a thread.
struct FinalReport {
    memory: Memory,
    figures: Arc<IoThreadFigures>,
}

impl Drop for FinalReport {
    fn drop(&mut self) {
        self.memory.report(&self.figures);
    }
}

thread_local! {
    static FINAL_REPORT: OnceCell<FinalReport> = const { OnceCell::new() };
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
    /// Serves connections until stopped.
    fn run(mut self) {
        while self.turn() {
            self.outlet.deliveries.announce();
            self.report_figures();
        }
        self.connections.take_all().for_each(|adopted| self.give_back(*adopted));
        self.outlet.deliveries.send(Delivery::Ended);
        self.figures_due_us = 0;
        self.report_figures();
        while self.outlet.deliveries.is_backed_up() {
            self.outlet.deliveries.announce();
            std::thread::sleep(BACKED_UP);
        }
        self.outlet.deliveries.announce();
    }

    /// One turn of the loop; `false` when the thread ends.
    fn turn(&mut self) -> bool {
        self.wait();
        self.outlet.now_us = self.outlet.shared.clock.monotonic_us();
        self.serve_sockets();
        let goes_on = self.follow_orders();
        self.clients_cron_if_due();
        goes_on
    }

    fn wait(&mut self) {
        let next_us = self.outlet.next_cron_us.map(|at_us| at_us.saturating_sub(self.outlet.now_us));
        let mut timeout = next_us.map_or(FOR_EVER, Duration::from_micros);
        if self.outlet.deliveries.is_backed_up() {
            timeout = timeout.min(BACKED_UP);
        }
        if !self.waker.may_sleep(|| self.orders.is_empty()) {
            timeout = Duration::ZERO;
        }
        if self.sockets.wait(timeout).is_err() {
            // A kernel short of memory may make the poller fail.
            std::thread::sleep(BACKED_UP);
        }
        self.waker.woken();
        IoThreadFigures::count(&self.outlet.figures.polls, 1);
    }

    /// Reads input, and sends output that waited for room.
    fn serve_sockets(&mut self) {
        self.sockets.begin_turn(self.outlet.now_us, HANDSHAKE_STEPS_MAX);
        while let Some(handle) = self.sockets.next_postponed() {
            self.serve(handle, |connection, sockets, channel| connection.read_postponed(sockets, channel));
        }
        let ready = self.sockets.take_ready();
        for event in &ready {
            let Token::Connection(handle) = event.token else { continue };
            self.serve(handle, |connection, sockets, channel| {
                connection.follow_event(event, sockets, channel)
            });
        }
        self.sockets.keep_ready(ready);
        while let Some(handle) = self.sockets.next_listed() {
            self.serve(handle, |connection, sockets, channel| connection.read_listed(sockets, channel));
        }
    }

    /// Carries out all orders in the queue; `false`: the thread ends.
    fn follow_orders(&mut self) -> bool {
        while let Some(order) = self.orders.receive() {
            match order {
                Order::Adopt { connection, meter, output, is_unauthenticated, follows, is_away } => {
                    let now_us = self.outlet.now_us;
                    let client = RemoteClient::new(meter, output, is_unauthenticated, follows, now_us);
                    self.adopt(Box::new(AdoptedConnection { connection, client }), is_away);
                }
                Order::Serve(query_buffer) => {
                    self.serve(query_buffer.handle, |connection, sockets, channel| {
                        channel.answer(connection, sockets, query_buffer)
                    });
                }
                Order::Send { handle, output, follows } => {
                    self.serve(handle, |connection, sockets, channel| {
                        channel.client.expect(follows);
                        channel.send(connection, sockets, output)
                    });
                }
                Order::Close(handle) => self.serve(handle, |_, _, _| Stay::Leaves),
                Order::Release(handle) => {
                    if let Some(adopted) = self.connections.remove(handle) {
                        self.give_back(*adopted);
                    }
                }
                Order::Stop => return false,
            }
            if self.outlet.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
                self.outlet.deliveries.announce();
            }
        }
        true
    }

    fn adopt(&mut self, mut adopted: Box<AdoptedConnection>, is_away: bool) {
        let handle = adopted.handle();
        if adopted.connection.join(&mut self.sockets, is_away).is_err() {
            return self.outlet.deliveries.send(Delivery::Closed(handle));
        }
        adopted.client.report_input(&adopted.connection);
        if adopted.connection.transport.is_handshaking() {
            self.outlet.schedule_cron();
        }
        self.connections.insert(adopted);
        self.serve(handle, |connection, sockets, channel| match connection.write_on(sockets, channel) {
            Stay::Stays => connection.read_on(sockets, channel),
            Stay::Leaves => Stay::Leaves,
        });
    }

    /// Runs `work` on a connection, if it exists, and closes it if the result is [`Stay::Leaves`].
    fn serve(
        &mut self,
        handle: ClientHandle,
        work: impl FnOnce(&mut Connection, &mut Sockets, &mut Channel<'_>) -> Stay,
    ) {
        let Some(AdoptedConnection { connection, client }) = self.connections.get_mut(handle) else { return };
        let mut channel = Channel { client, outlet: &mut self.outlet };
        if work(connection, &mut self.sockets, &mut channel) == Stay::Leaves {
            self.close(handle);
        }
        if self.outlet.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
            self.outlet.deliveries.announce();
        }
    }

    fn close(&mut self, handle: ClientHandle) {
        if let Some(adopted) = self.connections.remove(handle) {
            self.sockets.remove(&adopted.connection);
            drop(adopted);
            self.outlet.deliveries.send(Delivery::Closed(handle));
        }
    }

    fn give_back(&mut self, adopted: AdoptedConnection) {
        let AdoptedConnection { connection, client } = adopted;
        self.sockets.remove(&connection);
        let mut unsent = Output::default();
        client.unsent.into_iter().for_each(|output| unsent.append(output));
        self.outlet.deliveries.send(Delivery::Returned { connection, unsent });
    }

    /// Closes connections with late handshakes, and frees memory of connections that are idle within a request.
    fn clients_cron_if_due(&mut self) {
        let now_us = self.outlet.now_us;
        if self.outlet.next_cron_us.is_none_or(|at_us| now_us < at_us) {
            return;
        }
        self.outlet.next_cron_us = None;
        let mut late = Vec::new();
        for AdoptedConnection { connection, client } in self.connections.iter_mut() {
            let (idle_us, had_input) = (now_us - client.read_us, connection.has_query_buffer());
            let mut channel = Channel { client, outlet: &mut self.outlet };
            if connection.inspect(idle_us, &mut channel) == Stay::Leaves {
                late.push(connection.handle());
            }
            if had_input {
                client.report_input(connection);
            }
            if connection.has_query_buffer() || connection.transport.is_handshaking() {
                self.outlet.schedule_cron();
            }
        }
        late.into_iter().for_each(|handle| self.close(handle));
    }

    /// Publishes the thread's resource use.
    fn report_figures(&mut self) {
        self.memory.report(&self.outlet.figures);
        if self.outlet.now_us >= self.figures_due_us {
            self.figures_due_us = self.outlet.now_us + FIGURES_US;
            let times = cpu_times(Whose::ThisThread);
            let busy_us = whole_us(times.user + times.system);
            self.outlet.figures.busy_us.store(busy_us, Ordering::Relaxed);
        }
    }
}

impl Outlet {
    /// Schedules the inspection of idle connections.
    fn schedule_cron(&mut self) {
        self.next_cron_us.get_or_insert(self.now_us + CRON_US);
    }

    fn keep_output(&mut self, output: Output) {
        let fits = (1..=SPARE_OUTPUT_BYTES_MAX).contains(&output.capacity());
        if fits && self.spare_outputs.len() < SPARE_OUTPUTS_MAX {
            self.spare_outputs.push(output.into_spare());
        }
    }
}

impl Exchange for Channel<'_> {
    fn accept_input(
        &mut self,
        connection: &mut Connection,
        query_buffer: &mut QueryBuffer,
        bytes: usize,
        was_handshaking: bool,
    ) -> bool {
        // Input after the last request, left unread, would make the kernel reset the connection, and the peer lose unsent
        // replies.
        if self.client.finishes {
            query_buffer.discard();
            return false;
        }
        if bytes > 0 {
            self.client.read_us = self.outlet.now_us;
            IoThreadFigures::count(&self.outlet.figures.reads, 1);
        }
        query_buffer.handover.received_bytes += bytes as u64;
        if was_handshaking && self.may_be_logged_in(connection) {
            return true;
        }
        if bytes > 0 {
            let shared = &self.outlet.shared;
            let limits = Limits {
                bulk_len_max: shared.bulk_len_max.load(Ordering::Relaxed),
                authenticated: !self.client.is_unauthenticated,
                ..Limits::default()
            };
            query_buffer.parse_ahead(&limits, &shared.registry, shared.seed);
        }
        is_due(query_buffer)
    }

    fn hand_over(&mut self, mut query_buffer: Box<QueryBuffer>) {
        if query_buffer.handover.output.capacity() == 0 {
            query_buffer.handover.output = self.outlet.spare_outputs.pop().unwrap_or_default().into();
        }
        self.outlet.deliveries.send(Delivery::Requests(query_buffer));
    }

    fn enforce_input_limits(&mut self, connection: &Connection, unread_bytes: usize) -> bool {
        let meter = &self.client.meter;
        if connection.has_query_buffer() {
            self.outlet.schedule_cron();
            self.client.report_input(connection);
        } else if meter.input_bytes.load(Ordering::Relaxed) > 0
            || meter.input_free_bytes.load(Ordering::Relaxed) > 0
        {
            self.client.report_input(connection);
        }
        let is_unknown = self.client.is_unauthenticated || connection.transport.is_handshaking();
        if unread_bytes > UNREAD_BYTES_REPORTED || is_unknown && self.client.has_grown(connection) {
            let (handle, bytes) = (connection.handle(), unread_bytes);
            self.outlet.deliveries.send(Delivery::Unread { handle, bytes });
        }
        false
    }

    fn stays_after_input(&mut self, _connection: &Connection) -> bool {
        self.client.has_ended = true;
        self.client.finishes || self.client.awaits_output
    }

    fn report_hang_up(&mut self, handle: ClientHandle) {
        self.outlet.deliveries.send(Delivery::HungUp(handle));
    }

    fn report_handshake(&mut self, handle: ClientHandle, certificate: Option<Vec<u8>>) {
        self.outlet.deliveries.send(Delivery::HandshakeDone { handle, certificate });
    }

    fn report_failed_handshake(&mut self, handle: ClientHandle, reason: String) {
        self.outlet.deliveries.send(Delivery::HandshakeFailed { handle, reason });
    }

    fn use_room(&mut self, connection: &mut Connection, sockets: &Sockets) -> Stay {
        match !self.client.unsent.is_empty() || connection.transport.has_unsent() {
            true => connection.write_on(sockets, self),
            false => Stay::Stays,
        }
    }

    fn write_output(&mut self, connection: &mut Connection) -> Sent {
        while let Some(output) = self.client.unsent.front_mut() {
            if !output.is_empty() {
                let written = connection.write(output);
                IoThreadFigures::count(&self.client.meter.output_bytes_total, written.bytes as u64);
                self.client.meter.note_written(|| self.outlet.shared.clock.monotonic_us());
                IoThreadFigures::count(&self.outlet.figures.writes, 1);
                if written.sent != Sent::All {
                    return written.sent;
                }
            }
            if let Some(output) = self.client.unsent.pop_front() {
                self.outlet.keep_output(output);
            }
        }
        Sent::All
    }

    fn write_stream(&mut self, _connection: &mut Connection) -> Sent {
        // Replicas are served by the executor.
        Sent::All
    }

    fn end_write(&mut self, _handle: ClientHandle, is_sent: bool) -> bool {
        self.client.finishes && is_sent
    }

    fn discard_output(&mut self) {
        self.client.is_lost = true;
        self.client.unsent.clear();
    }

    fn store_watched(&mut self, _handle: ClientHandle, _writable: bool) {
        // Only the executor's own connections show this.
    }

    fn log_watch_error(&self, _error: &io::Error) {
        // Invariant 4.
    }
}

impl Channel<'_> {
    /// Returns whether the handshake ended with a certificate, which may authenticate the client.
    fn may_be_logged_in(&self, connection: &Connection) -> bool {
        let Transport::Tls(tls) = &connection.transport else { return false };
        self.client.is_unauthenticated && !tls.is_handshaking() && tls.peer_certificate().is_some()
    }

    /// Sends the replies of a processed query buffer and reads on.
    fn answer(
        &mut self,
        connection: &mut Connection,
        sockets: &mut Sockets,
        mut query_buffer: Box<QueryBuffer>,
    ) -> Stay {
        connection.end_hand_over();
        if self.client.is_lost {
            return Stay::Leaves;
        }
        self.client.is_unauthenticated = query_buffer.handover.is_unauthenticated;
        self.client.expect(query_buffer.handover.follows);
        let output = std::mem::take(&mut query_buffer.handover.output);
        if self.send(connection, sockets, output) == Stay::Leaves {
            return Stay::Leaves;
        }
        if self.client.finishes {
            query_buffer.discard();
        }
        if is_due(&mut query_buffer) {
            connection.hand_over(query_buffer, self);
        } else if connection.keep(query_buffer, sockets, self) {
            // The connection has not been read in this turn.
            return connection.read_on(sockets, self);
        }
        Stay::Stays
    }

    /// Appends output to the unsent output, and writes.
    fn send(&mut self, connection: &mut Connection, sockets: &Sockets, output: Output) -> Stay {
        if self.client.is_lost {
            return Stay::Stays;
        }
        self.client.unsent.push_back(output);
        if self.client.unsent.len() > 1 { Stay::Stays } else { connection.write_on(sockets, self) }
    }
}

/// Returns whether the query buffer is for the executor: it holds requests, or invalid input.
fn is_due(query_buffer: &mut QueryBuffer) -> bool {
    let is_due = query_buffer.has_requests() || query_buffer.broken().is_some();
    if !is_due {
        query_buffer.consume();
    }
    is_due
}

impl RemoteClient {
    fn new(
        meter: Arc<Meter>,
        output: Output,
        is_unauthenticated: bool,
        follows: Follow,
        now_us: u64,
    ) -> Self {
        let unsent = if output.is_empty() { VecDeque::new() } else { VecDeque::from([output]) };
        let mut client = RemoteClient {
            meter,
            unsent,
            is_lost: false,
            is_unauthenticated,
            reported_bytes: 0,
            finishes: false,
            awaits_output: false,
            has_ended: false,
            read_us: now_us,
        };
        client.expect(follows);
        client
    }

    /// Stores what follows the output that is sent now.
    fn expect(&mut self, follows: Follow) {
        self.awaits_output = follows == Follow::HeldOutput;
        self.finishes |= follows == Follow::Close || self.has_ended && !self.awaits_output;
    }

    /// Updates the memory figure; returns whether it has grown enough to be reported at once.
    fn has_grown(&mut self, connection: &Connection) -> bool {
        self.report_input(connection);
        let held_bytes = connection.memory_bytes();
        let has_grown = held_bytes > self.reported_bytes + UNAUTHENTICATED_BYTES_REPORTED;
        if has_grown {
            self.reported_bytes = held_bytes;
        }
        has_grown
    }

    /// Reports the connection's memory to the executor.
    fn report_input(&self, connection: &Connection) {
        let memory_bytes = size_of::<AdoptedConnection>() + connection.memory_bytes();
        self.meter.report(connection.input_figures(), memory_bytes);
    }
}
