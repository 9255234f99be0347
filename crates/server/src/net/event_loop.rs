//! The loop that connects sockets to the executor: wait, read, parse, run in order, write once.

use super::clients_cron::ClientsCron;
use super::connection::Connection;
use super::http::Http;
use super::io_thread::{Order, Shared};
use super::listener::ListenError;
use super::listeners::Listeners;
use super::poller::{Poller, Readiness, Token};
use super::process_settings::LiveProcessSettings;
use super::query_buffer::{BATCH_REQUESTS_MAX, QueryBuffer, QueryBuffers, SpareQueryBuffers, Transfer};
use super::remote::Balance;
use super::signals::{Request, Signals};
use super::threads::{RemoteConnection, Threads};
use super::tls_context::TlsContext;
use super::transport::{Stopped, Transport};
use crate::config::ShutdownFlags;
use crate::engine::loading::RestoreError;
use crate::engine::prefetch::Window;
use crate::engine::tracing::Begun;
use crate::engine::{Executor, Flow};
use crate::observe::log as server_log;
use crate::server::{ProcessRequest, Shutdown};
use crate::session::ClientHandle;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use wire::request::{Limits, REQUEST_LEN_MAX};

/// Limit of unread input from a blocked client; beyond it the socket is not read until the client is unblocked.
const WAITING_INPUT_BYTES_MAX: usize = 1 << 20;

/// Turns of a handshake: one for the peer's first message, one for its last.
const HANDSHAKE_STEPS: u32 = 2;

/// Retry delay for orders that wait for room in a thread's queue.
const BACKED_UP_US: u64 = 1000;

/// The event loop with its sockets and the executor.
pub struct EventLoop {
    pub executor: Executor,
    pub(super) poller: Poller,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// Each client's connection, by handle.
    pub(super) connections: Vec<Option<ClientConnection>>,
    pub(super) spare_query_buffers: SpareQueryBuffers,
    pub(super) threads: Threads,
    pub(super) balance: Balance,
    pub(super) clients_cron: ClientsCron,
    /// The watched pipe's transfer.
    pub(super) watched_pipe: Option<u64>,
    /// The thread that answers HTTP, if there is one.
    pub(super) http: Rc<RefCell<Http>>,
    signals: Signals,
    /// A signal has requested the end, which has not been handled yet.
    is_signalled: bool,
    ready: Vec<Readiness>,
    /// Query buffers whose requests are collected into one batch; and the number of requests.
    batch: QueryBuffers,
    batch_requests: usize,
    /// Connections with input that no event will announce.
    pub(super) unread: Vec<ClientHandle>,
    /// Handshake steps left in this tick.
    handshake_steps_left: u32,
    /// TLS configuration of new connections.
    pub(super) tls: Rc<RefCell<TlsContext>>,
    /// Connections that may have output to write at the end of the tick.
    pub(super) touched: Vec<ClientHandle>,
    /// Query buffers to return to I/O threads at the end of the tick.
    pub(super) finished: QueryBuffers,
}

/// Where a client's connection is served.
pub(super) enum ClientConnection {
    /// Served by this thread.
    Local(Box<Connection>),
    /// Served by an I/O thread.
    Remote(Box<RemoteConnection>),
}

impl ClientConnection {
    fn handle(&self) -> ClientHandle {
        match self {
            ClientConnection::Local(connection) => connection.handle,
            ClientConnection::Remote(remote) => remote.handle,
        }
    }
}

/// Returns the slot of the client's connection; `None`: it is gone, even if its slot is reused by now.
pub(super) fn occupied(
    connections: &mut [Option<ClientConnection>],
    handle: ClientHandle,
) -> Option<&mut Option<ClientConnection>> {
    let place = connections.get_mut(handle.index())?;
    place.as_ref().is_some_and(|connection| connection.handle() == handle).then_some(place)
}

/// Returns the client's connection, if this thread serves it.
pub(super) fn local(
    connections: &mut [Option<ClientConnection>],
    handle: ClientHandle,
) -> Option<&mut Connection> {
    match occupied(connections, handle)? {
        Some(ClientConnection::Local(connection)) => Some(connection),
        Some(ClientConnection::Remote(_)) | None => None,
    }
}

impl EventLoop {
    /// Creates the loop with its poller; no socket listens yet.
    pub fn new(mut executor: Executor, signals: Signals) -> io::Result<Self> {
        let poller = Poller::new()?;
        executor.stop_requests = signals.stop_requests();
        let listeners = Rc::new(RefCell::new(Listeners::new(poller.try_clone()?)));
        let tls = Rc::new(RefCell::new(TlsContext::new(Arc::clone(&executor.server.observed.tls))));
        let http = Rc::new(RefCell::new(Http::new(&executor.server, tls.borrow().published())?));
        executor.server.process_settings = Box::new(LiveProcessSettings {
            listeners: Rc::clone(&listeners),
            tls: Rc::clone(&tls),
            http: Rc::clone(&http),
        });
        poller.add_edges(http.borrow().event_fd(), Token::Http)?;
        poller.add(&signals.wakes, Token::Signal)?;
        let threads = Threads::new(Shared {
            registry: executor.server.registry.clone(),
            seed: executor.db.seed(),
            clock: executor.clock.clone(),
            bulk_len_max: AtomicUsize::new(executor.server.config.proto_max_bulk_len_bytes),
        })?;
        poller.add_edges(threads.waker.fd(), Token::Waker)?;
        Ok(EventLoop {
            executor,
            poller,
            listeners,
            connections: Vec::new(),
            spare_query_buffers: SpareQueryBuffers::default(),
            threads,
            balance: Balance::default(),
            clients_cron: ClientsCron::default(),
            watched_pipe: None,
            http,
            signals,
            is_signalled: false,
            ready: Vec::new(),
            batch: Vec::new(),
            batch_requests: 0,
            unread: Vec::new(),
            handshake_steps_left: 0,
            tls,
            touched: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// Opens the configured sockets.
    pub fn listen(&mut self) -> Result<(), ListenError> {
        let config = &self.executor.server.config;
        let mut tls = self.tls.borrow_mut();
        let prepared = tls.prepare(config).map_err(ListenError::Tls)?;
        tls.commit(prepared);
        self.listeners.borrow_mut().open(config)?;
        let mut http = self.http.borrow_mut();
        let prepared = http.prepare(config)?;
        http.commit(prepared);
        Ok(())
    }

    /// Loads the data, serving clients in between; `false` when the process is to stop.
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

    /// Runs one turn of the loop; `false` when the process is to stop.
    pub fn tick(&mut self) -> io::Result<bool> {
        // Before the first connections are accepted, so that these are spread too.
        self.adapt_threads();
        let began_us = self.wait()?;
        self.executor.begin_tick();
        self.executor.note_wait(began_us);
        self.handshake_steps_left =
            HANDSHAKE_STEPS * self.executor.server.config.max_new_tls_connections_per_cycle;
        // Connections listed in this turn are read in the next one, after this turn's replies are written.
        let listed = std::mem::take(&mut self.unread);
        let ready = std::mem::take(&mut self.ready);
        for event in &ready {
            match event.token {
                Token::Signal => self.take_signals(),
                // The tick takes deliveries in any case.
                Token::Waker => {}
                Token::SyncPipe => self.executor.read_sync_pipe(),
                Token::Http => self.accept_http(),
                Token::Listener(id) => self.accept(id),
                Token::Connection(handle) => self.serve(handle, event),
            }
        }
        self.ready = ready;
        self.ready.clear();
        if !listed.is_empty() {
            self.serve_unread(listed);
        }
        self.executor.stop_if_wanted();
        self.receive();
        self.run_batch();
        self.executor.run_timers();
        self.resume();
        self.clients_cron_if_due();
        if self.is_signalled && !self.executor.is_stopping() {
            self.is_signalled = false;
            self.signals.forget();
        }
        self.executor.end_tick();
        let goes_on = self.process_requests();
        self.inform_threads();
        self.flush();
        self.begin_rdb_channels();
        self.watch_sync_pipe();
        self.executor.evict_clients();
        self.executor.evict_unauthenticated();
        self.close_clients_asap();
        self.executor.note_replicas();
        self.balance_if_due();
        self.threads.announce();
        Ok(goes_on)
    }

    fn take_signals(&mut self) {
        for request in self.signals.take() {
            let config = &self.executor.server.config;
            let (name, flags) = match request {
                Request::Interrupt => ("SIGINT", config.shutdown_on_sigint),
                Request::Terminate => ("SIGTERM", config.shutdown_on_sigterm),
                Request::ReopenLog => {
                    server_log::reopen();
                    continue;
                }
            };
            log::warn!("Received {name} scheduling shutdown...");
            self.is_signalled = true;
            let save = match flags {
                flags if flags.has(ShutdownFlags::SAVE) => Some(true),
                flags => flags.has(ShutdownFlags::NOSAVE).then_some(false),
            };
            let (force, now) = (flags.has(ShutdownFlags::FORCE), flags.has(ShutdownFlags::NOW));
            self.executor.want_shutdown(Shutdown { save, force, now, by_signal: true });
        }
    }

    /// Waits for events; returns since when.
    fn wait(&mut self) -> io::Result<u64> {
        let now_us = self.executor.clock.monotonic_us();
        let mut timeout_us = self.executor.next_timer_us().saturating_sub(now_us);
        if !self.threads.is_empty() {
            if self.threads.is_backed_up() {
                timeout_us = timeout_us.min(BACKED_UP_US);
            }
            if !self.threads.waker.may_sleep(|| !self.threads.have_delivered()) {
                timeout_us = 0;
            }
        }
        if !self.unread.is_empty() {
            timeout_us = 0;
        }
        self.poller.wait(Duration::from_micros(timeout_us), &mut self.ready)?;
        self.threads.waker.woken();
        Ok(now_us)
    }

    pub(super) fn serve(&mut self, handle: ClientHandle, event: &Readiness) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        if connection.is_connecting {
            return self.finish_connecting(handle);
        }
        if event.writable {
            self.touched.push(handle);
        }
        if !connection.watches_readable {
            // Its pending requests are dropped, since their replies cannot be sent.
            if event.hung_up {
                self.close(handle);
            }
            return;
        }
        // Once per turn; a listed connection is read from the list.
        if !event.readable || connection.is_listed {
            return;
        }
        if connection.transport.is_handshaking() {
            // The poller reports postponed connections again.
            let Some(left) = self.handshake_steps_left.checked_sub(1) else { return };
            self.handshake_steps_left = left;
        }
        let kept = connection.query_buffer.take();
        let mut query_buffer = kept.unwrap_or_else(|| self.spare_query_buffers.lend(handle));
        let transfer = query_buffer.read(&mut connection.transport);
        if let Transport::Tls(_) = &connection.transport {
            self.follow_tls(handle, transfer);
        }
        match transfer {
            Transfer::WouldBlock => return self.after_requests(query_buffer),
            Transfer::Closed => return self.close(handle),
            Transfer::Bytes { count, .. } => {
                query_buffer.note_read(self.executor.server.now.monotonic_us);
                self.executor.count_input(handle, count);
                if self.executor.server.clients[handle].is_closing() {
                    query_buffer.discard();
                }
            }
        }
        if self.executor.takes_bytes(handle) && !self.hand_over_bytes(handle, &mut query_buffer) {
            return self.after_requests(query_buffer);
        }
        if self.executor.accepts_requests(handle) && !query_buffer.has_requests() {
            query_buffer.consume();
            self.parse(&mut query_buffer);
        }
        self.collect(query_buffer);
    }

    /// Adds requests to the batch, which runs when it is full or when all have been read.
    pub(super) fn collect(&mut self, query_buffer: Box<QueryBuffer>) {
        self.batch_requests += query_buffer.request_count().max(1);
        self.batch.push(query_buffer);
        if self.batch_requests >= BATCH_REQUESTS_MAX {
            self.run_batch();
        }
    }

    /// Prefetches what the collected requests will look up, then runs them in order.
    pub(super) fn run_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        self.batch_requests = 0;
        if let Some(mut window) = self.executor.open_window() {
            // The first one that does not fit ends it.
            let _ = batch.iter().all(|query_buffer| query_buffer.fill(&mut window, &self.executor));
            self.executor.fetch(window);
        }
        for query_buffer in batch.drain(..) {
            self.run_requests(query_buffer);
        }
        self.batch = batch;
    }

    fn parse(&self, query_buffer: &mut QueryBuffer) {
        let limits = limits_of(&self.executor, query_buffer.handle);
        let (registry, seed) = (&self.executor.server.registry, self.executor.db.seed());
        match self.executor.server.clients[query_buffer.handle].is_primary {
            true => query_buffer.parse_stream(&limits, registry, seed),
            false => query_buffer.parse(&limits, registry, seed),
        }
    }

    /// Parses and runs a client's input, until it needs more or blocks.
    fn run_requests(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        let mut reply = self.executor.borrow_output(handle);
        reply.take_references();
        while self.executor.accepts_requests(handle) {
            if !query_buffer.has_requests() {
                query_buffer.consume_some();
                self.parse(&mut query_buffer)
            }
            if query_buffer.has_requests() {
                query_buffer.run_parsed(&mut self.executor, &mut reply);
            } else if let Some(error) = query_buffer.broken() {
                self.executor.protocol_error(handle, error, query_buffer.unparsed(), &mut reply);
            } else {
                break;
            }
        }
        self.executor.return_output(handle, reply);
        query_buffer.consume();
        self.after_requests(query_buffer);
        if self.executor.is_waiting_replica(handle) {
            // Before other commands run, which would make the snapshot later and the stream longer.
            self.begin_rdb_channels();
        }
    }

    /// Takes an empty query buffer back, and enforces the input limit of a client that sends faster than it is served.
    fn after_requests(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        let Some(connection) = local(&mut self.connections, handle) else { return self.settle(query_buffer) };
        self.touched.push(handle);
        let unread_bytes = query_buffer.unread_bytes();
        match query_buffer.is_free() {
            true => self.spare_query_buffers.take_back(query_buffer),
            false => connection.query_buffer = Some(query_buffer),
        }
        let watches_readable = !(self.executor.is_waiting(handle) && unread_bytes > WAITING_INPUT_BYTES_MAX)
            && !self.executor.leaves_unread(handle);
        let rewatch = connection.watches_readable != watches_readable;
        connection.watches_readable = watches_readable;
        if watches_readable && connection.transport.has_decrypted() && !connection.is_listed {
            connection.is_listed = true;
            self.unread.push(handle);
        }
        self.note_input(handle);
        self.executor.check_input_limit(handle, unread_bytes);
        if self.executor.limits_client_memory() {
            self.executor.server.clients.count_memory(handle);
        }
        self.executor.count_unauthenticated(handle);
        if rewatch {
            self.rewatch(handle);
        }
    }

    /// Updates the connection's memory figure in the executor.
    pub(super) fn note_input(&mut self, handle: ClientHandle) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        let figures = &mut self.executor.server.clients[handle].connection;
        (figures.input_bytes, figures.input_free_bytes) =
            connection.query_buffer.as_ref().map_or((0, 0), |query_buffer| query_buffer.input_figures());
        figures.memory_bytes = connection.memory_bytes();
    }

    pub(super) fn rewatch(&mut self, handle: ClientHandle) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        let figures = &mut self.executor.server.clients[handle].connection;
        (figures.watches_readable, figures.watches_writable) =
            (connection.watches_readable, connection.watches_writable);
        let (token, interest) = (Token::Connection(handle), connection.interest());
        if let Err(error) = self.poller.watch(connection.fd(), token, interest.readable, interest.writable) {
            log::warn!("Watching a client's socket: {error}");
            self.executor.server.close_asap(handle);
        }
    }

    /// Resumes unblocked clients: their pending input is still in their buffers.
    fn resume(&mut self) {
        while let Some(handle) = self.executor.server.resumed.pop_front() {
            let query_buffer = match occupied(&mut self.connections, handle).and_then(Option::as_mut) {
                Some(ClientConnection::Local(connection)) => {
                    connection.query_buffer.take().or_else(|| Some(self.spare_query_buffers.lend(handle)))
                }
                Some(ClientConnection::Remote(remote)) => remote.held.take(),
                None => None,
            };
            let Some(mut query_buffer) = query_buffer else { continue };
            if self.executor.takes_bytes(handle) && !self.hand_over_bytes(handle, &mut query_buffer) {
                self.after_requests(query_buffer);
            } else {
                if self.executor.has_kept_stream_for(handle) {
                    self.executor.pass_kept_stream(query_buffer.input_mut());
                }
                self.run_requests(query_buffer);
            }
        }
    }

    /// Writes the pending output of every touched client.
    fn flush(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        finished.drain(..).for_each(|query_buffer| self.send_back(query_buffer));
        self.finished = finished;
        let mut touched = std::mem::take(&mut self.touched);
        touched.append(&mut self.executor.server.clients.with_output);
        if self.executor.has_replicas() {
            touched.extend(self.executor.replicas_with_output());
        }
        for &handle in &touched {
            self.write(handle);
        }
        touched.clear();
        self.touched = touched;
        if self.executor.has_traces_under_way() {
            self.executor.finish_traces();
        }
    }

    fn write(&mut self, handle: ClientHandle) {
        // It may be gone, and its slot reused, since something was written to it.
        let connection = match occupied(&mut self.connections, handle).and_then(Option::as_mut) {
            Some(ClientConnection::Local(connection)) => connection,
            Some(ClientConnection::Remote(_)) if self.executor.server.clients[handle].is_replica => {
                return self.bring_here(handle);
            }
            Some(ClientConnection::Remote(_)) => return self.send_output(handle),
            None => return,
        };
        let client = &mut self.executor.server.clients[handle];
        client.output_pending = false;
        if client.close_asap {
            return;
        }
        if !client.output.is_empty() {
            let buffered_bytes = client.unsent().buffered_bytes;
            client.reply_buffer.note_unsent(buffered_bytes);
            let written = connection.write(client.output.output());
            client.last_interaction = self.executor.server.now;
            client.connection.output_bytes_total += written.bytes as u64;
            let statistics = &mut self.executor.server.observed.statistics;
            statistics.total_writes += 1;
            statistics.output_bytes += client.connection.take_uncounted(written.bytes as u64);
            if self.executor.has_traces_under_way() {
                self.executor.note_written(handle);
            }
            if written.closed {
                return self.close(handle);
            }
        } else if connection.transport.has_unsent() && connection.transport.flush() == Err(Stopped::Closed) {
            return self.close(handle);
        }
        if self.executor.server.clients[handle].is_replica && !self.write_to_replica(handle) {
            return self.close(handle);
        }
        self.after_write(handle);
    }

    /// Continues where the socket has taken everything, and waits where it has not.
    fn after_write(&mut self, handle: ClientHandle) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        let (watches_writable, is_flushed) =
            (connection.watches_writable, !connection.transport.has_unsent());
        let client = &mut self.executor.server.clients[handle];
        let (output_sent, is_replica) = (client.output.is_empty(), client.is_replica);
        let all_sent =
            output_sent && is_flushed && !(is_replica && self.executor.has_output_for_replica(handle));
        if output_sent {
            let closes = self.executor.server.clients[handle].close_after_reply && is_flushed;
            self.executor.server.clients.output_written(handle);
            if closes {
                return self.finish(handle);
            }
        } else {
            self.executor.check_output_limit(handle);
        }
        if self.executor.limits_client_memory() {
            self.executor.server.clients.count_memory(handle);
        }
        if watches_writable == all_sent
            && let Some(connection) = local(&mut self.connections, handle)
        {
            connection.watches_writable = !all_sent;
            self.rewatch(handle);
        }
    }

    /// Closes a connection whose last reply has been sent.
    fn finish(&mut self, handle: ClientHandle) {
        if let Some(connection) = local(&mut self.connections, handle) {
            connection.finish();
        }
        self.close(handle);
    }

    fn close_clients_asap(&mut self) {
        while let Some(handle) = self.executor.server.clients_to_close.pop() {
            self.close(handle);
        }
    }

    /// Closes a client's connection. Its handle is free at once if the socket is here, and otherwise when its thread
    /// has closed it.
    pub(super) fn close(&mut self, handle: ClientHandle) {
        // Clients of replayed files have no connection.
        match occupied(&mut self.connections, handle).and_then(Option::take) {
            Some(ClientConnection::Local(mut connection)) => {
                // The socket leaves the poller when it is closed; failing to remove it first changes nothing.
                let _ = self.poller.remove(connection.fd());
                if self.executor.has_child_on_socket(handle) {
                    connection.transport.shut_down();
                }
                self.executor.disconnect(handle);
            }
            Some(ClientConnection::Remote(mut remote)) => {
                remote.held = None;
                if !std::mem::replace(&mut remote.is_closing, true) {
                    self.threads.send(remote.thread, Order::Close(handle));
                }
                self.connections[handle.index()] = Some(ClientConnection::Remote(remote));
            }
            None => {}
        }
    }

    /// Does what commands have requested of the process; `false` when it is to stop. The listeners close first, so that
    /// a client whose connection ends cannot connect again without ever being served.
    fn process_requests(&mut self) -> bool {
        let mut goes_on = true;
        for request in std::mem::take(&mut self.executor.server.process_requests) {
            match request {
                ProcessRequest::Shutdown => goes_on = false,
                ProcessRequest::Connect { client, target } => self.connect(client, &target),
            }
        }
        if !goes_on {
            self.listeners.borrow_mut().close();
            self.http.borrow_mut().close();
        }
        goes_on
    }
}

impl QueryBuffer {
    /// Runs the parsed requests of a client in order, until one blocks it.
    fn run_parsed(&mut self, executor: &mut Executor, reply: &mut wire::reply::ReplyBuffer) {
        let handle = self.handle;
        let is_primary = executor.server.clients[handle].is_primary;
        let (is_tracing, received_us) = (executor.is_tracing(), self.received_us());
        loop {
            if self.is_cold()
                && let Some(mut window) = executor.open_window()
            {
                self.fill(&mut window, executor);
                executor.fetch(window);
            }
            if is_primary {
                let Some((request, bytes)) = self.next_request_and_bytes() else { return };
                executor.apply_streamed(handle, request, bytes, reply);
                if !executor.accepts_requests(handle) {
                    return;
                }
                continue;
            }
            let Some(request) = self.next_request() else { return };
            let begun = if is_tracing { executor.begin_trace() } else { Begun::default() };
            let flow = executor.execute_into(handle, request, reply);
            // Kept across the call, the request cost each of them 20 instructions.
            if is_tracing
                && executor.is_candidate(begun)
                && let Some(request) = self.latest_request()
            {
                executor.note_request(handle, request, received_us, begun);
            }
            if flow == Flow::Stop {
                return;
            }
        }
    }

    /// Adds requests' keys to the window, as many as fit; returns whether all did.
    fn fill<'a>(&'a self, window: &mut Window<'a>, executor: &Executor) -> bool {
        let (place, cold) = (executor.place_of_lookups(self.handle), self.cold_requests());
        let taken = self.offer_cold(|request, hashes| window.add(executor, place, request, hashes));
        self.note_prefetched(taken);
        taken == cold
    }
}

fn limits_of(executor: &Executor, handle: ClientHandle) -> Limits {
    // A replica accepts what its primary has accepted.
    let is_primary = executor.server.clients[handle].is_primary;
    let bulk_len_max = executor.server.config.proto_max_bulk_len_bytes;
    Limits {
        bulk_len_max: if is_primary { REQUEST_LEN_MAX } else { bulk_len_max },
        authenticated: !executor.needs_authentication(handle),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientConnection, RemoteConnection, occupied};
    use crate::session::ClientHandle;

    #[test]
    fn a_handle_that_has_outlived_its_client_finds_no_connection() {
        let first = ClientHandle::from_bits(0);
        let second = ClientHandle::from_bits(1 << 32);
        assert_eq!(first.index(), second.index(), "the slot is reused");
        let connection = ClientConnection::Remote(Box::new(RemoteConnection::new(second, 1, None)));
        let mut connections = [Some(connection), None];
        assert!(occupied(&mut connections, first).is_none());
        assert!(occupied(&mut connections, second).is_some_and(|place| place.take().is_some()));
        assert!(occupied(&mut connections, second).is_none());
    }
}
