//! An I/O thread: it owns the sockets of some connections, reads what their clients send, cuts it into requests, and
//! sends what the executor answers.
//!
//! ```text
//!              Order::Adopt, Serve, Send, Close, Release, Stop
//!   executor  ------------------------------------------------>  thread: epoll, read, parse, hash, write
//!             <------------------------------------------------
//!              Delivery::Requests, Unread, HungUp, Closed, Returned, Ended
//! ```
//!
//! 1. A connection that was adopted ends with exactly one `Closed` or `Returned`; until then the thread owns its
//!    socket, and the executor keeps its slot free of others. Orders about a slot that has gone are ignored: by the
//!    time the slot is used again, the executor has seen the end and all such orders have been taken.
//! 2. A connection has at most one intake. While it is with the executor, nothing is read; that the peer has hung up
//!    is told as `HungUp`, and the end follows when the intake is back.
//! 3. Output is sent in the order of the orders.
//! 4. The thread writes no log line: a process that is forked for a snapshot must not find the log locked.

use super::connection::Connection;
use super::intake::{Intake, SpareIntakes, Transfer};
use super::poller::{Poller, Readiness, Token};
use super::post::{Bell, Receiver, Sender};
use crate::clock::Clock;
use crate::command::registry::Registry;
use crate::observe::IoThreadFigures;
use crate::observe::memory::ThreadMemory;
use crate::observe::process::{Whose, cpu_times};
use crate::session::ClientSlot;
use crate::session::client::Meter;
use rustix::fd::OwnedFd;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use structures::hash::HashSeed;
use wire::reply::Output;
use wire::request::Limits;

/// What the executor asks of a thread.
pub enum Order {
    /// The connection lives here from now on.
    Adopt { connection: Box<Connection>, meter: Arc<Meter>, is_stranger: bool, is_away: bool },
    /// All that the intake held has been done: send the answers, and read on.
    Serve(Box<Intake>),
    /// Send this, which is no answer, or an answer that comes late.
    Send { slot: ClientSlot, output: Output, finishes: bool },
    /// End the connection, whatever is unsent.
    Close(ClientSlot),
    /// Give the connection back.
    Release(ClientSlot),
    /// Give all back, and end.
    Stop,
}

/// What a thread hands to the executor.
pub enum Delivery {
    /// Requests that have come whole, or bytes that make no sense.
    Requests(Box<Intake>),
    /// So much has been read of a request that is not whole yet.
    Unread {
        slot: ClientSlot,
        bytes: usize,
    },
    /// The peer has hung up while its requests are with the executor.
    HungUp(ClientSlot),
    Closed(ClientSlot),
    Returned(Box<Connection>),
    Ended,
}

/// What all threads and the executor know.
pub struct Shared {
    pub registry: Registry,
    pub seed: HashSeed,
    pub clock: Clock,
    /// `proto-max-bulk-len`.
    pub bulk_len_max: AtomicU64,
}

/// An incomplete request of more than this is told to the executor, who minds the limits.
const UNREAD_BYTES_TOLD: usize = 32 * 1024;
/// Deliveries of one turn after which the executor is woken, while the thread works on.
const ANNOUNCED_DELIVERIES: usize = 16;
/// Buffers of output that was sent, kept until an intake takes them back to the executor.
const SPARE_OUTPUTS_MAX: usize = 64;
const SPARE_OUTPUT_BYTES_MAX: usize = 32 * 1024;
/// How often the thread looks for connections that keep memory for nothing, while there are any.
const SWEEP_US: u64 = 100_000;
/// How old the figures of a busy thread may be.
const FIGURES_US: u64 = 10_000;
/// A thread that waits for room in the executor's queue tries again after this.
const BACKED_UP: Duration = Duration::from_millis(1);
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// A connection that lives here.
struct Guest {
    connection: Box<Connection>,
    meter: Arc<Meter>,
    /// Output that the socket has not taken yet.
    unsent: VecDeque<Output>,
    /// The kernel may have more to read.
    is_readable: bool,
    has_hung_up: bool,
    /// Output was lost: nothing more may be sent.
    is_lost: bool,
    /// The intake is with the executor.
    is_away: bool,
    is_stranger: bool,
    /// Ends when all output is sent.
    finishes: bool,
    /// When something was last read, on the monotonic clock.
    read_us: u64,
}

/// Whether a guest stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    Stays,
    Leaves,
}

struct IoThread {
    poller: Poller,
    bell: Arc<Bell>,
    orders: Receiver<Order>,
    deliveries: Sender<Delivery>,
    shared: Arc<Shared>,
    figures: Arc<IoThreadFigures>,
    memory: Memory,
    /// By slot.
    guests: Vec<Option<Box<Guest>>>,
    spare_intakes: SpareIntakes,
    spare_outputs: Vec<Vec<u8>>,
    ready: Vec<Readiness>,
    /// Guests that may have more to read than one turn allows.
    again: VecDeque<ClientSlot>,
    now_us: u64,
    next_sweep_us: Option<u64>,
    figures_due_us: u64,
}

/// The allocator's counters of this thread, and where those of earlier threads of this number stood.
#[derive(Clone, Copy)]
struct Memory {
    before_bytes: i64,
    of_thread: Option<ThreadMemory>,
}

/// What a thread is made of, before there is one.
pub struct Parts {
    pub epoll: OwnedFd,
    pub bell: Arc<Bell>,
    pub orders: Receiver<Order>,
    pub deliveries: Sender<Delivery>,
    pub shared: Arc<Shared>,
    pub figures: Arc<IoThreadFigures>,
}

impl Parts {
    /// Becomes the calling thread's work, until it is told to stop.
    pub fn run(self) {
        let before_bytes = self.figures.used_bytes.load(Ordering::Relaxed);
        let memory = Memory { before_bytes, of_thread: ThreadMemory::of_this_thread() };
        LAST_WORD.with(|word| word.set(LastWord { memory, figures: Arc::clone(&self.figures) })).ok();
        IoThread {
            poller: Poller::of(self.epoll),
            bell: self.bell,
            orders: self.orders,
            deliveries: self.deliveries,
            shared: self.shared,
            figures: self.figures,
            memory,
            guests: Vec::new(),
            spare_intakes: SpareIntakes::default(),
            spare_outputs: Vec::new(),
            ready: Vec::new(),
            again: VecDeque::new(),
            now_us: 0,
            next_sweep_us: None,
            figures_due_us: 0,
        }
        .run();
    }
}

/// Tells the figures of a thread that ends, when nothing is left of what it has held: what had been made to start it
/// is freed after its function has returned. Without this, memory in use appeared to grow by 100 bytes a thread.
struct LastWord {
    memory: Memory,
    figures: Arc<IoThreadFigures>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.memory.tell(&self.figures);
    }
}

thread_local! {
    static LAST_WORD: OnceCell<LastWord> = const { OnceCell::new() };
}

impl Memory {
    fn tell(&self, figures: &IoThreadFigures) {
        if let Some(of_thread) = self.of_thread {
            let used_bytes = self.before_bytes + of_thread.used_bytes() as i64;
            figures.used_bytes.store(used_bytes, Ordering::Relaxed);
        }
    }
}

impl IoThread {
    /// Serves until it is told to stop.
    fn run(mut self) {
        while self.turn() {
            self.deliveries.announce();
            self.tell_figures();
        }
        let guests = std::mem::take(&mut self.guests);
        guests.into_iter().flatten().for_each(|guest| self.give_back(*guest));
        self.deliveries.send(Delivery::Ended);
        self.figures_due_us = 0;
        self.tell_figures();
        while self.deliveries.is_backed_up() {
            self.deliveries.announce();
            std::thread::sleep(BACKED_UP);
        }
        self.deliveries.announce();
    }

    /// One turn of the loop; `false` when the thread is to end.
    fn turn(&mut self) -> bool {
        self.wait();
        self.now_us = self.shared.clock.monotonic_us();
        self.serve_ready();
        self.serve_again();
        let goes_on = self.follow_orders();
        self.sweep_if_due();
        goes_on
    }

    fn wait(&mut self) {
        let next_us = self.next_sweep_us.map(|at_us| at_us.saturating_sub(self.now_us));
        let mut timeout = next_us.map_or(FOR_EVER, Duration::from_micros);
        if self.deliveries.is_backed_up() {
            timeout = timeout.min(BACKED_UP);
        }
        if !self.again.is_empty() || !self.bell.may_sleep(|| self.orders.is_empty()) {
            timeout = Duration::ZERO;
        }
        if self.poller.wait(timeout, &mut self.ready).is_err() {
            // Nothing that the thread does can make its own poller fail; a kernel that is short of memory may.
            std::thread::sleep(BACKED_UP);
        }
        self.bell.woken();
        IoThreadFigures::count(&self.figures.polls, 1);
    }

    fn serve_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            let Token::Connection(slot) = event.token else { continue };
            self.serve(ClientSlot(slot), |thread, guest| thread.follow_event(guest, event));
        }
        self.ready = ready;
    }

    fn serve_again(&mut self) {
        // Those that are not done put themselves behind, for the next turn.
        for _ in 0..self.again.len() {
            let Some(slot) = self.again.pop_front() else { return };
            self.serve(slot, IoThread::read_on);
        }
    }

    /// Takes the executor's orders, as long as there are any.
    fn follow_orders(&mut self) -> bool {
        while let Some(order) = self.orders.receive() {
            match order {
                Order::Adopt { connection, meter, is_stranger, is_away } => {
                    self.adopt(Guest::new(connection, meter, is_stranger, is_away, self.now_us));
                }
                Order::Serve(intake) => {
                    self.serve(intake.slot, |thread, guest| thread.answer(guest, intake));
                }
                Order::Send { slot, output, finishes } => {
                    self.serve(slot, |thread, guest| {
                        guest.finishes |= finishes;
                        thread.send(guest, output)
                    });
                }
                Order::Close(slot) => self.serve(slot, |_, _| Stay::Leaves),
                Order::Release(slot) => {
                    if let Some(guest) = self.guests.get_mut(slot.0 as usize).and_then(Option::take) {
                        self.give_back(*guest);
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

    fn adopt(&mut self, guest: Box<Guest>) {
        let slot = guest.connection.slot;
        let index = slot.0 as usize;
        if self.guests.len() <= index {
            self.guests.resize_with(index + 1, || None);
        }
        if self.poller.add_edges(guest.connection.fd(), Token::Connection(slot.0)).is_err() {
            return self.deliveries.send(Delivery::Closed(slot));
        }
        guest.tell_input();
        self.guests[index] = Some(guest);
        self.serve(slot, IoThread::read_on);
    }

    /// Does something for a guest, if it is still here, and sees it off if that says so.
    fn serve(&mut self, slot: ClientSlot, work: impl FnOnce(&mut IoThread, &mut Guest) -> Stay) {
        let Some(mut guest) = self.guests.get_mut(slot.0 as usize).and_then(Option::take) else { return };
        match work(self, &mut guest) {
            Stay::Stays => self.guests[slot.0 as usize] = Some(guest),
            Stay::Leaves => {
                // The socket leaves the poller when it is closed; failing to take it out first changes nothing.
                let _ = self.poller.remove(guest.connection.fd());
                drop(guest);
                self.deliveries.send(Delivery::Closed(slot));
            }
        }
        if self.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
            self.deliveries.announce();
        }
    }

    fn give_back(&mut self, guest: Guest) {
        let Guest { mut connection, unsent, .. } = guest;
        // As in `serve`.
        let _ = self.poller.remove(connection.fd());
        unsent.into_iter().for_each(|output| connection.unsent.append(output));
        self.deliveries.send(Delivery::Returned(connection));
    }

    fn follow_event(&mut self, guest: &mut Guest, event: Readiness) -> Stay {
        guest.is_readable |= event.readable;
        if event.hung_up && !guest.has_hung_up {
            guest.has_hung_up = true;
            if guest.is_away {
                self.deliveries.send(Delivery::HungUp(guest.connection.slot));
            }
        }
        if event.writable && !guest.unsent.is_empty() && self.send_on(guest) == Stay::Leaves {
            return Stay::Leaves;
        }
        if event.readable { self.read_on(guest) } else { Stay::Stays }
    }

    /// Reads and parses, unless the executor still has what came before.
    fn read_on(&mut self, guest: &mut Guest) -> Stay {
        if guest.is_away || !guest.is_readable {
            return Stay::Stays;
        }
        if guest.finishes {
            return self.discard_input(guest);
        }
        let slot = guest.connection.slot;
        let kept = guest.connection.intake.take();
        let mut intake = kept.unwrap_or_else(|| self.spare_intakes.lend(slot));
        match intake.read(guest.connection.fd()) {
            Transfer::Closed => return Stay::Leaves,
            Transfer::WouldBlock => guest.is_readable = false,
            Transfer::Bytes { count, is_all } => {
                // A peer that has hung up is told once only: its end is read, however little came before.
                guest.is_readable = !is_all || guest.has_hung_up;
                guest.read_us = self.now_us;
                intake.travel.received_bytes += count as u64;
                IoThreadFigures::count(&self.figures.reads, 1);
                let limits = self.limits(guest);
                intake.parse_ahead(&limits, &self.shared.registry, self.shared.seed);
            }
        }
        self.pass_on(guest, intake);
        Stay::Stays
    }

    /// Behind the last request nobody runs anything, but left unread it would make the kernel reset the connection, and
    /// the peer lose what it has yet to receive.
    fn discard_input(&mut self, guest: &mut Guest) -> Stay {
        let mut intake = self.spare_intakes.lend(guest.connection.slot);
        match intake.read(guest.connection.fd()) {
            Transfer::Closed | Transfer::WouldBlock => guest.is_readable = false,
            Transfer::Bytes { .. } => {
                intake.discard();
                self.again.push_back(guest.connection.slot);
            }
        }
        self.spare_intakes.take_back(intake);
        Stay::Stays
    }

    fn limits(&self, guest: &Guest) -> Limits {
        Limits {
            bulk_len_max: self.shared.bulk_len_max.load(Ordering::Relaxed) as usize,
            authenticated: !guest.is_stranger,
            ..Limits::default()
        }
    }

    /// Hands an intake with something to do to the executor, and keeps or puts aside one without.
    fn pass_on(&mut self, guest: &mut Guest, mut intake: Box<Intake>) {
        let slot = intake.slot;
        if intake.has_requests() || intake.broken().is_some() {
            guest.is_away = true;
            if intake.travel.output.capacity() == 0 {
                intake.travel.output = self.spare_outputs.pop().unwrap_or_default().into();
            }
            self.deliveries.send(Delivery::Requests(intake));
            // The event came while nothing was away, and comes once only; a blocking command would wait for nobody.
            if guest.has_hung_up {
                self.deliveries.send(Delivery::HungUp(slot));
            }
            return;
        }
        intake.consume();
        if intake.is_free() {
            self.spare_intakes.take_back(intake);
        } else {
            let bytes = intake.input().len();
            guest.connection.intake = Some(intake);
            self.next_sweep_us.get_or_insert(self.now_us + SWEEP_US);
            guest.tell_input();
            if bytes > UNREAD_BYTES_TOLD {
                self.deliveries.send(Delivery::Unread { slot, bytes });
            }
        }
        if guest.is_readable {
            self.again.push_back(slot);
        }
    }

    /// The executor is done with an intake: sends the answers and goes on reading.
    fn answer(&mut self, guest: &mut Guest, mut intake: Box<Intake>) -> Stay {
        guest.is_away = false;
        if guest.is_lost {
            return Stay::Leaves;
        }
        guest.is_stranger = intake.travel.is_stranger;
        guest.finishes |= intake.travel.finishes;
        let output = std::mem::take(&mut intake.travel.output);
        let stay = self.send(guest, output);
        if guest.finishes || stay == Stay::Leaves {
            self.spare_intakes.take_back(intake);
            if guest.is_readable && stay == Stay::Stays {
                self.again.push_back(guest.connection.slot);
            }
            return stay;
        }
        let was_kept = guest.meter.input_bytes.load(Ordering::Relaxed) > 0
            || guest.meter.input_free_bytes.load(Ordering::Relaxed) > 0;
        self.pass_on(guest, intake);
        if was_kept && guest.connection.intake.is_none() {
            guest.tell_input();
        }
        // What `pass_on` has left for another turn can be had at once, for nothing else has been read of this one.
        if guest.is_readable && self.again.back() == Some(&guest.connection.slot) {
            self.again.pop_back();
            return self.read_on(guest);
        }
        Stay::Stays
    }

    /// Sends output behind what is unsent already.
    fn send(&mut self, guest: &mut Guest, output: Output) -> Stay {
        if guest.is_lost {
            return Stay::Stays;
        }
        guest.unsent.push_back(output);
        if guest.unsent.len() > 1 { Stay::Stays } else { self.send_on(guest) }
    }

    fn send_on(&mut self, guest: &mut Guest) -> Stay {
        while let Some(output) = guest.unsent.front_mut() {
            let slot = guest.connection.slot;
            if !output.is_empty() {
                let written = guest.connection.write(output);
                let all_sent = output.is_empty();
                IoThreadFigures::count(&guest.meter.output_bytes_total, written.bytes as u64);
                IoThreadFigures::count(&self.figures.writes, 1);
                if written.closed {
                    return self.lose(guest);
                }
                if !all_sent {
                    // Not full, it is at the end of its turn: watching once more brings the next one.
                    guest.connection.watches_writable &= written.is_full;
                    return self.watch_writable(guest, slot, true);
                }
            }
            let output = guest.unsent.pop_front().expect("it has just been sent");
            self.keep_output(output);
        }
        if guest.finishes {
            guest.connection.finish();
            return Stay::Leaves;
        }
        let slot = guest.connection.slot;
        self.watch_writable(guest, slot, false)
    }

    fn watch_writable(&mut self, guest: &mut Guest, slot: ClientSlot, writable: bool) -> Stay {
        if guest.connection.watches_writable == writable {
            return Stay::Stays;
        }
        guest.connection.watches_writable = writable;
        match self.poller.watch_edges(guest.connection.fd(), Token::Connection(slot.0), writable) {
            Ok(()) => Stay::Stays,
            Err(_) => self.lose(guest),
        }
    }

    /// The socket is of no use any more: the guest leaves, or when its intake is away, is said to be lost.
    fn lose(&mut self, guest: &mut Guest) -> Stay {
        if !guest.is_away {
            return Stay::Leaves;
        }
        guest.is_lost = true;
        guest.unsent.clear();
        if !std::mem::replace(&mut guest.has_hung_up, true) {
            self.deliveries.send(Delivery::HungUp(guest.connection.slot));
        }
        Stay::Stays
    }

    fn keep_output(&mut self, output: Output) {
        let fits = (1..=SPARE_OUTPUT_BYTES_MAX).contains(&output.capacity());
        if fits && self.spare_outputs.len() < SPARE_OUTPUTS_MAX {
            self.spare_outputs.push(output.into_spare());
        }
    }

    /// Takes memory back from guests that have stopped in the midst of a request.
    fn sweep_if_due(&mut self) {
        if self.next_sweep_us.is_none_or(|at_us| self.now_us < at_us) {
            return;
        }
        self.next_sweep_us = None;
        let now_us = self.now_us;
        for guest in self.guests.iter_mut().flatten() {
            let Some(intake) = &mut guest.connection.intake else { continue };
            if intake.shrink(now_us - guest.read_us) {
                guest.connection.intake = None;
            } else {
                self.next_sweep_us = Some(now_us + SWEEP_US);
            }
            guest.tell_input();
        }
    }

    /// Tells what the thread has used.
    fn tell_figures(&mut self) {
        self.memory.tell(&self.figures);
        if self.now_us >= self.figures_due_us {
            self.figures_due_us = self.now_us + FIGURES_US;
            let times = cpu_times(Whose::ThisThread);
            let busy_us = (times.user + times.system).as_micros() as u64;
            self.figures.busy_us.store(busy_us, Ordering::Relaxed);
        }
    }
}

impl Guest {
    fn new(
        mut connection: Box<Connection>,
        meter: Arc<Meter>,
        is_stranger: bool,
        is_away: bool,
        now_us: u64,
    ) -> Box<Self> {
        connection.watches_writable = false;
        let unsent = std::mem::take(&mut connection.unsent);
        assert!(unsent.is_empty(), "what is unsent when a connection arrives follows as an order");
        Box::new(Guest {
            connection,
            meter,
            unsent: VecDeque::new(),
            // Whatever there is, the poller will tell.
            is_readable: false,
            has_hung_up: false,
            is_lost: false,
            is_away,
            is_stranger,
            finishes: false,
            read_us: now_us,
        })
    }

    /// Tells the executor what the connection holds.
    fn tell_input(&self) {
        let figures = self.connection.intake.as_ref().map_or((0, 0), |intake| intake.input_figures());
        self.meter.tell(figures, size_of::<Self>() + self.connection.memory_bytes());
    }
}
