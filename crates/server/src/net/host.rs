//! The loop that connects sockets to the executor: wait, read, parse, run in order, write once.

use super::connection::Connection;
use super::intake::{BATCH_REQUESTS_MAX, Intake, Intakes, SpareIntakes, Transfer};
use super::io_thread::{Order, Shared};
use super::listener::ListenError;
use super::poller::{Poller, Readiness, Token};
use super::remote::Balance;
use super::signals::{StopSignal, StopSignals};
use super::surroundings::{Listeners, ProcessSurroundings};
use super::sweep::Sweep;
use super::threads::{Lodging, Threads};
use crate::config::ShutdownFlags;
use crate::engine::persistence::RestoreError;
use crate::engine::prefetch::Window;
use crate::engine::{Executor, Flow};
use crate::server::{HostRequest, Shutdown};
use crate::session::ClientSlot;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use wire::request::Limits;

/// A waiting client may have this much unread; then its socket is left alone until it may go on.
const WAITING_INPUT_BYTES_MAX: usize = 1 << 20;

/// Orders that wait for room in a thread's queue are tried again after this.
const BACKED_UP_US: u64 = 1000;

pub struct Host {
    pub executor: Executor,
    pub(super) poller: Poller,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// Where each client's connection is, by slot.
    pub(super) seats: Vec<Option<Seat>>,
    pub(super) spare_intakes: SpareIntakes,
    pub(super) threads: Threads,
    pub(super) balance: Balance,
    pub(super) sweep: Sweep,
    signals: StopSignals,
    /// A signal that has come and has not been followed yet.
    stop_wanted: Option<StopSignal>,
    ready: Vec<Readiness>,
    /// Intakes whose requests wait for others to be parsed, so that all run as one batch; and how many requests.
    batch: Intakes,
    batch_requests: usize,
    /// Connections that may have output to write at the end of the tick.
    pub(super) touched: Vec<ClientSlot>,
    /// Intakes of connections in threads, that go back there at the end of the tick.
    pub(super) finished: Intakes,
}

/// Where a client's connection is.
pub(super) enum Seat {
    /// Served by this thread.
    Here(Box<Connection>),
    /// Served by an I/O thread.
    There(Box<Lodging>),
}

/// The client's connection, if this thread serves it.
pub(super) fn here(seats: &mut [Option<Seat>], slot: ClientSlot) -> Option<&mut Connection> {
    match seats.get_mut(slot.0 as usize) {
        Some(Some(Seat::Here(connection))) => Some(connection),
        Some(Some(Seat::There(_)) | None) | None => None,
    }
}

impl Host {
    pub fn new(mut executor: Executor, signals: StopSignals) -> io::Result<Self> {
        let listeners = Rc::new(RefCell::new(Listeners::default()));
        executor.server.surroundings = Box::new(ProcessSurroundings { listeners: Rc::clone(&listeners) });
        let poller = Poller::new()?;
        poller.add(&signals.wakes, Token::Signal)?;
        let threads = Threads::new(Shared {
            registry: executor.server.registry.clone(),
            seed: executor.db.seed(),
            clock: executor.clock.clone(),
            bulk_len_max: AtomicU64::new(executor.server.config.proto_max_bulk_len_bytes),
        })?;
        poller.add_edges(threads.bell.fd(), Token::Bell)?;
        Ok(Host {
            executor,
            poller,
            listeners,
            seats: Vec::new(),
            spare_intakes: SpareIntakes::default(),
            threads,
            balance: Balance::default(),
            sweep: Sweep::default(),
            signals,
            stop_wanted: None,
            ready: Vec::new(),
            batch: Vec::new(),
            batch_requests: 0,
            touched: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// Opens the sockets that the configuration names.
    pub fn listen(&mut self) -> Result<(), ListenError> {
        let config = &self.executor.server.config;
        self.listeners.borrow_mut().exchange(config, config)?;
        self.watch_listeners()
    }

    /// Watches sockets that were opened since the last time; those that are closed have left the poller.
    fn watch_listeners(&mut self) -> Result<(), ListenError> {
        let mut listeners = self.listeners.borrow_mut();
        if !std::mem::take(&mut listeners.changed) {
            return Ok(());
        }
        for (index, listener) in listeners.iter_mut().enumerate().filter(|(_, listener)| !listener.is_watched)
        {
            self.poller
                .add(listener.fd(), Token::Listener(index as u32))
                .map_err(|source| ListenError::Listen { address: format!("listener {index}"), source })?;
            listener.is_watched = true;
        }
        Ok(())
    }

    /// Loads the data, answering clients in between; `false` when the process is to stop.
    pub fn load(&mut self) -> Result<bool, RestoreError> {
        self.executor.begin_loading()?;
        while self.executor.is_loading() {
            match self.tick() {
                Ok(true) => self.executor.load_step()?,
                Ok(false) => return Ok(false),
                Err(error) => log::warn!("Serving clients while loading: {error}"),
            }
        }
        Ok(true)
    }

    /// Serves until a command or a signal ends the process.
    pub fn run(&mut self) -> io::Result<()> {
        while self.tick()? {}
        Ok(())
    }

    /// One turn of the loop; `false` when the process is to stop.
    pub fn tick(&mut self) -> io::Result<bool> {
        // Before the first connections are accepted, so that these are spread too.
        self.adapt_threads();
        self.wait()?;
        self.executor.begin_tick();
        let ready = std::mem::take(&mut self.ready);
        for event in &ready {
            match event.token {
                Token::Signal => self.stop_wanted = self.signals.requested().or(self.stop_wanted),
                // The tick takes what was delivered.
                Token::Bell => {}
                Token::Listener(index) => self.accept(index as usize),
                Token::Connection(slot) => self.serve(ClientSlot(slot), event),
            }
        }
        self.ready = ready;
        self.ready.clear();
        self.stop_if_wanted();
        self.receive();
        self.run_batch();
        self.executor.run_timers();
        self.resume();
        self.sweep_if_due();
        self.executor.end_tick();
        let goes_on = self.host_requests();
        self.inform_threads();
        self.flush();
        self.executor.evict_clients();
        self.close_condemned();
        self.balance_if_due();
        self.threads.announce();
        if let Err(error) = self.watch_listeners() {
            log::warn!("{error}");
        }
        Ok(goes_on)
    }

    /// If a signal has come, ends the process if the data is safe. A script or transaction that has been put aside is
    /// waited for: what it has done so far is half of it, and to be saved whole or not at all.
    fn stop_if_wanted(&mut self) {
        if self.executor.is_busy() && !self.executor.is_loading() {
            return;
        }
        let Some(signal) = self.stop_wanted.take() else { return };
        let config = &self.executor.server.config;
        let flags = match signal {
            StopSignal::Interrupt => config.shutdown_on_sigint,
            StopSignal::Terminate => config.shutdown_on_sigterm,
        };
        let save = match flags {
            flags if flags.has(ShutdownFlags::SAVE) => Some(true),
            flags => flags.has(ShutdownFlags::NOSAVE).then_some(false),
        };
        self.executor.shut_down(Shutdown { save, force: flags.has(ShutdownFlags::FORCE) });
    }

    fn wait(&mut self) -> io::Result<()> {
        let now_us = self.executor.clock.monotonic_us();
        let loading = self.executor.is_loading();
        let next_us = if loading { now_us } else { self.executor.next_timer_us() };
        let mut timeout_us = next_us.saturating_sub(now_us);
        if !self.threads.is_empty() {
            if self.threads.is_backed_up() {
                timeout_us = timeout_us.min(BACKED_UP_US);
            }
            if !self.threads.bell.may_sleep(|| !self.threads.have_delivered()) {
                timeout_us = 0;
            }
        }
        self.poller.wait(Duration::from_micros(timeout_us), &mut self.ready)?;
        self.threads.bell.woken();
        Ok(())
    }

    fn serve(&mut self, slot: ClientSlot, event: &Readiness) {
        let Some(connection) = here(&mut self.seats, slot) else { return };
        if event.writable {
            self.touched.push(slot);
        }
        if !connection.watches_readable {
            // What it has sent waits with it, and would be answered to nobody.
            if event.hung_up {
                self.close(slot);
            }
            return;
        }
        if !event.readable {
            return;
        }
        let kept = connection.intake.take();
        let mut intake = kept.unwrap_or_else(|| self.spare_intakes.lend(slot));
        match intake.read(connection.fd()) {
            Transfer::WouldBlock => return self.after_requests(intake),
            Transfer::Closed => return self.close(slot),
            Transfer::Bytes { count, .. } => {
                self.executor.server.observed.statistics.input_bytes += count as u64;
                self.executor.server.observed.statistics.total_reads += 1;
                let client = &mut self.executor.server.clients[slot];
                client.connection.input_bytes_total += count as u64;
                client.last_interaction = self.executor.server.now;
                if client.is_closing() {
                    intake.discard();
                }
            }
        }
        if self.executor.accepts_requests(slot) && !intake.has_requests() {
            intake.consume();
            intake.parse(&limits_of(&self.executor, slot), &self.executor.server.registry);
        }
        self.collect(intake);
    }

    /// Leaves what has come for the batch, which runs when it is full or when all have been read.
    pub(super) fn collect(&mut self, intake: Box<Intake>) {
        self.batch_requests += intake.request_count().max(1);
        self.batch.push(intake);
        if self.batch_requests >= BATCH_REQUESTS_MAX {
            self.run_batch();
        }
    }

    /// Fetches what the collected requests will look up, then runs them in order.
    pub(super) fn run_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        self.batch_requests = 0;
        if let Some(mut window) = self.executor.open_window() {
            // The first one that does not fit in ends it.
            let _ = batch.iter().all(|intake| intake.fill(&mut window, &self.executor));
            self.executor.fetch(&window);
        }
        for intake in batch.drain(..) {
            self.run_requests(intake);
        }
        self.batch = batch;
    }

    /// Parses and runs what the client has sent, until it has to wait for more or for something else.
    fn run_requests(&mut self, mut intake: Box<Intake>) {
        let slot = intake.slot;
        let mut reply = self.executor.borrow_output(slot);
        reply.take_references();
        while self.executor.accepts_requests(slot) {
            if !intake.has_requests() {
                intake.consume();
                intake.parse(&limits_of(&self.executor, slot), &self.executor.server.registry);
            }
            if intake.has_requests() {
                intake.run_parsed(&mut self.executor, &mut reply);
            } else if let Some(error) = intake.broken() {
                self.executor.protocol_error(slot, error, intake.unparsed(), &mut reply);
            } else {
                break;
            }
        }
        self.executor.return_output(slot, reply);
        intake.consume();
        self.after_requests(intake);
    }

    /// Takes an empty intake back, and sees that a client that sends faster than it may be answered does not fill
    /// the memory.
    fn after_requests(&mut self, mut intake: Box<Intake>) {
        let slot = intake.slot;
        let Some(connection) = here(&mut self.seats, slot) else { return self.settle(intake) };
        self.touched.push(slot);
        let unread_bytes = intake.input().len();
        match intake.is_free() {
            true => self.spare_intakes.take_back(intake),
            false => connection.intake = Some(intake),
        }
        let watches_readable = !(self.executor.is_waiting(slot) && unread_bytes > WAITING_INPUT_BYTES_MAX);
        let rewatch = connection.watches_readable != watches_readable;
        connection.watches_readable = watches_readable;
        self.note_input(slot);
        self.executor.check_input_limit(slot, unread_bytes);
        if self.executor.limits_client_memory() {
            self.executor.server.clients.count_memory(slot);
        }
        if rewatch {
            self.rewatch(slot);
        }
    }

    /// Tells the executor what the connection holds.
    pub(super) fn note_input(&mut self, slot: ClientSlot) {
        let Some(connection) = here(&mut self.seats, slot) else { return };
        let figures = &mut self.executor.server.clients[slot].connection;
        (figures.input_bytes, figures.input_free_bytes) =
            connection.intake.as_ref().map_or((0, 0), |intake| intake.input_figures());
        figures.memory_bytes = connection.memory_bytes();
    }

    fn rewatch(&mut self, slot: ClientSlot) {
        let Some(connection) = here(&mut self.seats, slot) else { return };
        let (readable, writable) = (connection.watches_readable, connection.watches_writable);
        let figures = &mut self.executor.server.clients[slot].connection;
        (figures.watches_readable, figures.watches_writable) = (readable, writable);
        if let Err(error) = self.poller.watch(connection.fd(), Token::Connection(slot.0), readable, writable)
        {
            log::warn!("Watching a client's socket: {error}");
            self.executor.server.condemn(slot);
        }
    }

    /// Goes on with clients whose waiting is over: what they have sent meanwhile is still in their buffers.
    fn resume(&mut self) {
        while let Some(slot) = self.executor.server.resumed.pop_front() {
            let intake = match self.seats.get_mut(slot.0 as usize).and_then(Option::as_mut) {
                Some(Seat::Here(connection)) => {
                    connection.intake.take().or_else(|| Some(self.spare_intakes.lend(slot)))
                }
                Some(Seat::There(lodging)) => lodging.held.take(),
                None => None,
            };
            if let Some(intake) = intake {
                self.run_requests(intake);
            }
        }
    }

    /// Writes what every touched client is owed.
    fn flush(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        finished.drain(..).for_each(|intake| self.send_back(intake));
        self.finished = finished;
        let mut touched = std::mem::take(&mut self.touched);
        touched.append(&mut self.executor.server.clients.with_output);
        for &slot in &touched {
            self.write(slot);
        }
        touched.clear();
        self.touched = touched;
    }

    fn write(&mut self, slot: ClientSlot) {
        let connection = match self.seats.get_mut(slot.0 as usize) {
            Some(Some(Seat::Here(connection))) => connection,
            Some(Some(Seat::There(_))) => return self.send_output(slot),
            Some(None) | None => return,
        };
        let client = &mut self.executor.server.clients[slot];
        client.output_pending = false;
        if client.close_asap {
            return;
        }
        if !client.output.is_empty() {
            let buffered_bytes = client.unsent().buffered_bytes;
            client.reply_buffer.peak_bytes = client.reply_buffer.peak_bytes.max(buffered_bytes);
            let written = connection.write(client.output.output());
            client.last_interaction = self.executor.server.now;
            client.connection.output_bytes_total += written.bytes as u64;
            let statistics = &mut self.executor.server.observed.statistics;
            statistics.total_writes += 1;
            statistics.output_bytes += written.bytes as u64;
            if written.closed {
                return self.close(slot);
            }
        }
        self.after_write(slot);
    }

    /// Goes on where the socket has taken all, and waits where it has not.
    fn after_write(&mut self, slot: ClientSlot) {
        let client = &mut self.executor.server.clients[slot];
        let all_sent = client.output.is_empty();
        if all_sent {
            let closes = client.close_after_reply;
            self.executor.server.clients.output_written(slot);
            if closes {
                return self.finish(slot);
            }
        } else {
            self.executor.check_output_limit(slot);
        }
        if self.executor.limits_client_memory() {
            self.executor.server.clients.count_memory(slot);
        }
        let Some(connection) = here(&mut self.seats, slot) else { return };
        if connection.watches_writable == all_sent {
            connection.watches_writable = !all_sent;
            self.rewatch(slot);
        }
    }

    /// Closes a connection whose last reply has been sent.
    fn finish(&mut self, slot: ClientSlot) {
        if let Some(connection) = here(&mut self.seats, slot) {
            connection.finish();
        }
        self.close(slot);
    }

    fn close_condemned(&mut self) {
        while let Some(slot) = self.executor.server.condemned.pop() {
            self.close(slot);
        }
    }

    /// Ends a client's connection. Its slot is free at once if the socket is here, and otherwise when its thread has
    /// closed it.
    pub(super) fn close(&mut self, slot: ClientSlot) {
        // Commands that are read from a file have a client too, and it has no connection.
        match self.seats.get_mut(slot.0 as usize).and_then(Option::take) {
            Some(Seat::Here(connection)) => {
                // The socket leaves the poller when it is closed; failing to take it out first changes nothing.
                let _ = self.poller.remove(connection.fd());
                self.executor.disconnect(slot);
            }
            Some(Seat::There(mut lodging)) => {
                lodging.held = None;
                if !std::mem::replace(&mut lodging.is_closing, true) {
                    self.threads.send(lodging.thread, Order::Close(slot));
                }
                self.seats[slot.0 as usize] = Some(Seat::There(lodging));
            }
            None => {}
        }
    }

    /// Does what commands have asked of the process; `false` when it is to stop. Then whoever sees its connection end
    /// finds nobody listening any more, rather than a server that takes one more connection and answers nothing.
    fn host_requests(&mut self) -> bool {
        let requests = std::mem::take(&mut self.executor.server.host_requests);
        let stops = requests.contains(&HostRequest::Shutdown);
        if stops {
            self.listeners.borrow_mut().close();
        }
        !stops
    }
}

impl Intake {
    /// Runs the parsed requests in order, until one makes the client wait.
    fn run_parsed(&mut self, executor: &mut Executor, reply: &mut wire::reply::ReplyBuffer) {
        let slot = self.slot;
        while executor.accepts_requests(slot) {
            if self.is_cold()
                && let Some(mut window) = executor.open_window()
            {
                self.fill(&mut window, executor);
                executor.fetch(&window);
            }
            let Some((id, args)) = self.next_request() else { return };
            if executor.execute_into(slot, id, args, reply) == Flow::Stop {
                return;
            }
        }
    }

    /// Hands the keys of requests to the window, as many as it takes; whether it took all.
    fn fill<'a>(&'a self, window: &mut Window<'a>, executor: &Executor) -> bool {
        let slot = self.slot;
        let cold = self.cold_requests();
        let taken = self
            .offer_cold(|id, args, hashes| id.is_none_or(|id| window.add(executor, slot, id, args, hashes)));
        self.note_prefetched(taken);
        taken == cold
    }
}

fn limits_of(executor: &Executor, slot: ClientSlot) -> Limits {
    Limits {
        bulk_len_max: executor.server.config.proto_max_bulk_len_bytes as usize,
        authenticated: !executor.needs_authentication(slot),
        ..Limits::default()
    }
}
