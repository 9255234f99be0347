//! The loop that connects sockets to the executor: wait, read, parse, run in order, write once.
//!
//! ```text
//!   own sockets -> Connection -> Inline --\                          /-- output of own connections -> write_on
//!                                          batch -> run_requests ->
//!   I/O threads -> Delivery::Requests ----/                          \-- Order::Serve -> I/O threads
//! ```
//!
//! The executor's own connections and those of I/O threads share their code (`net/connection.rs`); they differ in the path
//! to the batch: calls (`net/inline.rs`), or queues (`net/io_thread.rs`).

use super::bus_turns::BusTurns;
use super::by_handle::ByHandle;
use super::clients_cron::ClientsCron;
use super::connection::{Connection, Stay};
use super::http::Http;
use super::inline::{Batch, Inline, parse};
use super::io_thread::{Order, Shared};
use super::listener::ListenError;
use super::listeners::Listeners;
use super::outgoing::{go_on_connecting, receive_bytes};
use super::poller::{Poller, Token};
use super::process_settings::LiveProcessSettings;
use super::query_buffer::{BATCH_REQUESTS_MAX, QueryBuffer, QueryBuffers};
use super::remote::Balance;
use super::signals::{Request, Signals};
use super::sockets::Sockets;
use super::threads::{RemoteConnection, Threads};
use super::tls_context::TlsContext;
use crate::config::ShutdownFlags;
use crate::engine::client_limits::{evict_clients, evict_unauthenticated};
use crate::engine::loading::RestoreError;
use crate::engine::prefetch::Window;
use crate::engine::tracing::Begun;
use crate::engine::{Executor, Flow, confirmation, peers, slot_migration};
use crate::observe::log as server_log;
use crate::server::{ProcessRequest, Shutdown};
use crate::session::ClientHandle;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// Turns of a handshake: one for the peer's first message, one for its last.
const HANDSHAKE_STEPS: usize = 2;

/// Retry delay for orders that wait for room in a thread's queue.
const BACKED_UP_US: u64 = 1000;

/// The event loop with its sockets and the executor.
pub struct EventLoop {
    /// The executor.
    pub executor: Executor,
    pub(super) sockets: Sockets,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// Connections that this thread serves.
    pub(super) connections: ByHandle<Connection>,
    /// Connections that I/O threads serve.
    pub(super) remotes: ByHandle<RemoteConnection>,
    pub(super) threads: Threads,
    /// The cluster bus.
    pub(super) bus: BusTurns,
    pub(super) balance: Balance,
    pub(super) clients_cron: ClientsCron,
    /// The watched pipe's transfer.
    pub(super) watched_pipe: Option<u64>,
    /// The thread that answers HTTP, if there is one.
    pub(super) http: Rc<RefCell<Http>>,
    signals: Signals,
    /// A signal has requested a shutdown, which has not been handled yet.
    is_signalled: bool,
    batch: Batch,
    /// TLS configuration of new connections.
    pub(super) tls: Rc<RefCell<TlsContext>>,
    /// Connections that may have output to write at the end of the tick.
    pub(super) touched: Vec<ClientHandle>,
    /// Query buffers to return to I/O threads at the end of the tick.
    pub(super) finished: QueryBuffers,
}

impl EventLoop {
    /// Creates the loop with its poller; no socket listens yet.
    pub fn new(mut executor: Executor, signals: Signals) -> io::Result<Self> {
        let poller = Poller::new()?;
        executor.watch_stop_requests(signals.stop_requests());
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
            seed: executor.db.key_seed(),
            clock: executor.clock.clone(),
            bulk_len_max: AtomicUsize::new(executor.server.config.proto_max_bulk_len_bytes),
        })?;
        poller.add_edges(threads.waker.fd(), Token::Waker)?;
        let waker = Arc::clone(&threads.waker);
        confirmation::wake_when_synced(&mut executor, Arc::new(move || waker.wake()));
        Ok(EventLoop {
            executor,
            sockets: Sockets::new(poller),
            listeners,
            connections: ByHandle::default(),
            remotes: ByHandle::default(),
            threads,
            bus: BusTurns::default(),
            balance: Balance::default(),
            clients_cron: ClientsCron::default(),
            watched_pipe: None,
            http,
            signals,
            is_signalled: false,
            batch: Batch::default(),
            tls,
            touched: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// Opens the configured sockets. The plain port listens last: a client that reaches it finds all other sockets open.
    /// Addresses are taken first, so that a second server with the same configuration fails before it replaces the Unix
    /// socket of one that listens.
    pub fn listen(&mut self) -> Result<(), ListenError> {
        let config = &self.executor.server.config;
        let mut tls = self.tls.borrow_mut();
        let prepared = tls.prepare(config).map_err(ListenError::Tls)?;
        tls.commit(prepared);
        let (mut listeners, mut http) = (self.listeners.borrow_mut(), self.http.borrow_mut());
        let bound = listeners.bind(config).map_err(|(_, error)| error)?;
        let prepared = http.prepare(config)?;
        listeners.open_unix(config)?;
        http.commit(prepared);
        let prepared = listeners.listen(bound, config.tcp_backlog).map_err(|(_, error)| error)?;
        listeners.commit(prepared);
        Ok(())
    }

    /// Loads the data, serving clients in between; `false` when the process is to stop.
    pub fn load(&mut self) -> Result<bool, RestoreError> {
        self.executor.begin_loading()?;
        while self.executor.is_loading() {
            match self.tick() {
                Ok(true) => self.executor.load_step()?,
                Ok(false) => return Ok(false),
                Err(error) => log::warn!("Cannot serve clients during loading: {error}"),
            }
        }
        Ok(true)
    }

    /// Serves clients until a command or a signal ends the process.
    pub fn run(&mut self) -> io::Result<()> {
        while self.tick()? {}
        Ok(())
    }

    /// Runs one turn of the loop; `false` when the process is to stop.
    pub fn tick(&mut self) -> io::Result<bool> {
        // Before the first connections are accepted, so that these are distributed too.
        self.adapt_threads();
        let began_us = self.wait()?;
        self.executor.begin_tick();
        self.executor.note_wait(began_us);
        self.serve_sockets();
        self.executor.start_requested_shutdown();
        self.receive();
        self.bus.take_events(&mut self.executor);
        self.run_batch();
        self.executor.run_timers();
        self.resume();
        self.clients_cron_if_due();
        if self.is_signalled && !self.executor.is_stopping() {
            self.is_signalled = false;
            self.signals.forget();
        }
        self.executor.end_tick();
        self.bus.end(&mut self.executor);
        let goes_on = self.process_requests();
        self.inform_threads();
        self.flush();
        self.begin_rdb_channels();
        self.watch_sync_pipe();
        evict_clients(&mut self.executor.server);
        evict_unauthenticated(&mut self.executor.server);
        self.close_clients_asap();
        self.executor.note_replicas();
        self.balance_if_due();
        self.threads.announce();
        Ok(goes_on)
    }

    /// Reads input, and handles other events.
    fn serve_sockets(&mut self) {
        let handshakes = self.executor.server.config.max_new_tls_connections_per_cycle as usize;
        let now_us = self.executor.server.now.monotonic_us;
        self.sockets.begin_turn(now_us, HANDSHAKE_STEPS * handshakes);
        while let Some(handle) = self.sockets.next_postponed() {
            self.serve(handle, |connection, sockets, inline| connection.read_postponed(sockets, inline));
        }
        let ready = self.sockets.take_ready();
        for event in &ready {
            match event.token {
                Token::Signal => self.take_signals(),
                // The tick takes deliveries without an event; links of the bus are in its thread's poller.
                Token::Waker | Token::BusLink(_) => {}
                Token::SyncPipe => peers::read_child_pipe(&mut self.executor),
                Token::Http => self.accept_http(),
                Token::Listener(id) => self.accept(id),
                Token::Connection(handle) => {
                    self.serve(handle, |connection, sockets, inline| match connection.is_connecting() {
                        true => go_on_connecting(connection, sockets, inline),
                        false => connection.follow_event(event, sockets, inline),
                    });
                }
            }
        }
        self.sockets.keep_ready(ready);
        while let Some(handle) = self.sockets.next_listed() {
            self.serve(handle, |connection, sockets, inline| connection.read_listed(sockets, inline));
        }
    }

    /// Runs `work` on a connection of this thread, closes it if the result is [`Stay::Leaves`], and runs the batch if it is
    /// full. Returns whether the connection exists.
    pub(super) fn serve(
        &mut self,
        handle: ClientHandle,
        work: impl FnOnce(&mut Connection, &mut Sockets, &mut Inline<'_>) -> Stay,
    ) -> bool {
        let (connections, sockets, mut inline) = self.split();
        let Some(connection) = connections.get_mut(handle) else { return false };
        if work(connection, sockets, &mut inline) == Stay::Leaves {
            self.close(handle);
        } else if self.batch.requests >= BATCH_REQUESTS_MAX {
            self.run_batch();
        }
        true
    }

    #[inline]
    fn split(&mut self) -> (&mut ByHandle<Connection>, &mut Sockets, Inline<'_>) {
        let EventLoop { executor, batch, touched, connections, sockets, .. } = self;
        (connections, sockets, Inline { executor, batch, touched })
    }

    /// Returns whether the client has a connection, in this thread or in an I/O thread.
    pub(super) fn has_connection(&self, handle: ClientHandle) -> bool {
        self.connections.get(handle).is_some() || self.remotes.get(handle).is_some()
    }

    /// Returns the number of indexes at which clients may have connections.
    pub(super) fn connection_indexes(&self) -> usize {
        self.connections.indexes().max(self.remotes.indexes())
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
            self.executor.request_shutdown(Shutdown {
                save,
                force: flags.has(ShutdownFlags::FORCE),
                now: flags.has(ShutdownFlags::NOW),
                safe: flags.has(ShutdownFlags::SAFE),
                hands_over: flags.has(ShutdownFlags::FAILOVER),
                by_signal: true,
                restarts_after: None,
            });
        }
    }

    /// Waits for events; returns the monotonic time at which the wait began.
    fn wait(&mut self) -> io::Result<u64> {
        let now_us = self.executor.clock.monotonic_us();
        let mut timeout_us = self.executor.next_timer_us().saturating_sub(now_us);
        let awaits_disk = confirmation::awaits_disk(&self.executor);
        if !self.threads.is_empty() || self.bus.is_on() || awaits_disk {
            if self.threads.is_backed_up() || self.bus.is_backed_up() {
                timeout_us = timeout_us.min(BACKED_UP_US);
            }
            let is_idle = || {
                !self.threads.have_delivered()
                    && self.bus.is_idle()
                    && !confirmation::disk_has_answered(&self.executor)
            };
            if !self.threads.waker.may_sleep(is_idle) {
                timeout_us = 0;
            }
        }
        self.sockets.wait(Duration::from_micros(timeout_us))?;
        self.threads.waker.woken();
        Ok(now_us)
    }

    /// Adds requests to the batch, which runs when it is full or when all have been read.
    pub(super) fn collect(&mut self, query_buffer: Box<QueryBuffer>) {
        self.batch.push(query_buffer);
        if self.batch.requests >= BATCH_REQUESTS_MAX {
            self.run_batch();
        }
    }

    /// Prefetches the keys of the collected requests, then runs the requests in order.
    pub(super) fn run_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batch.query_buffers);
        self.batch.requests = 0;
        if let Some(mut window) = self.executor.open_window() {
            // The first query buffer that does not fit ends the window.
            let _ = batch.iter().all(|query_buffer| query_buffer.fill(&mut window, &self.executor));
            self.executor.fetch(window);
        }
        for query_buffer in batch.drain(..) {
            self.run_requests(query_buffer);
        }
        self.batch.query_buffers = batch;
    }

    /// Parses and runs a client's input, until it needs more or blocks.
    fn run_requests(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        let mut reply = self.executor.borrow_output(handle);
        reply.take_references();
        while self.executor.accepts_requests(handle) {
            if !query_buffer.has_requests() {
                query_buffer.consume_some();
                parse(&self.executor, &mut query_buffer)
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
        if self.executor.replication.is_waiting_replica(handle) {
            // Before other commands run, which would delay the snapshot and lengthen the stream.
            self.begin_rdb_channels();
        }
    }

    /// Returns a query buffer whose requests have run to its connection, or to the I/O thread that has it.
    fn after_requests(&mut self, query_buffer: Box<QueryBuffer>) {
        let (connections, sockets, mut inline) = self.split();
        let Some(connection) = connections.get_mut(query_buffer.handle) else {
            return self.settle(query_buffer);
        };
        if connection.keep(query_buffer, sockets, &mut inline) {
            connection.list(sockets);
        }
    }

    /// Resumes unblocked clients: their pending input is still in their buffers.
    fn resume(&mut self) {
        while let Some(handle) = self.executor.server.resumed.pop_front() {
            let query_buffer = match self.connections.get_mut(handle) {
                Some(connection) => {
                    let kept = connection.take_query_buffer();
                    kept.or_else(|| Some(self.sockets.spare_query_buffers.lend(handle)))
                }
                None => self.remotes.get_mut(handle).and_then(|remote| remote.held.take()),
            };
            let Some(mut query_buffer) = query_buffer else { continue };
            if peers::takes_bytes(&self.executor, handle)
                && let Some(connection) = self.connections.get_mut(handle)
                && !receive_bytes(&mut self.executor, connection, &mut query_buffer)
            {
                self.after_requests(query_buffer);
            } else {
                if self.executor.has_kept_stream_for(handle) {
                    self.executor
                        .replication
                        .upstream_mut()
                        .pass_kept_stream(&mut self.executor.server, query_buffer.input_mut());
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
        confirmation::take_ready(&mut self.executor, &mut touched);
        if peers::has_streams(&self.executor) {
            touched.extend(peers::with_stream_output(&self.executor));
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
        let is_here = self.serve(handle, |connection, sockets, inline| {
            confirmation::release(inline.executor, handle);
            let client = &mut inline.executor.server.clients[handle];
            client.output_pending = false;
            if client.close_asap {
                return Stay::Stays;
            }
            let stay = connection.write_on(sockets, inline);
            confirmation::keep_order(inline.executor, handle);
            stay
        });
        // The client may have disconnected, and its index be reused, since the output was written.
        if !is_here && self.remotes.get(handle).is_some() {
            match self.executor.server.clients[handle].is_replica {
                true => self.bring_here(handle),
                false => self.send_output(handle),
            }
        }
    }

    fn close_clients_asap(&mut self) {
        while let Some(handle) = self.executor.server.clients_to_close.pop() {
            self.close(handle);
        }
    }

    /// Closes a client's connection. Its handle is free at once if the socket is in this thread, otherwise when its thread has
    /// closed it.
    pub(super) fn close(&mut self, handle: ClientHandle) {
        // Clients of replayed files have no connection.
        if let Some(mut connection) = self.connections.remove(handle) {
            self.sockets.remove(&connection);
            if self.executor.replication.has_child_on_socket(&self.executor.disk, handle) {
                connection.transport.shut_down();
            }
            self.executor.disconnect(handle);
        } else if let Some(remote) = self.remotes.get_mut(handle) {
            remote.held = None;
            if !std::mem::replace(&mut remote.is_closing, true) {
                self.threads.send(remote.thread, Order::Close(handle));
            }
        }
    }

    /// Carries out commands' requests to the process; `false`: the process stops. The listeners close first, so that a client
    /// whose connection ends cannot connect again to a server that stops.
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
        let client = &executor.server.clients[handle];
        let (is_primary, is_peer) = (client.is_primary, client.is_peer());
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
            if is_peer {
                slot_migration::apply(executor, handle, request, reply);
                if !executor.accepts_requests(handle) {
                    return;
                }
                continue;
            }
            let begun = if is_tracing { executor.begin_trace() } else { Begun::default() };
            let flow = executor.execute_into(handle, request, reply);
            // Fetched again: keeping the request across the call cost 20 instructions per command.
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
        let taken = self.offer_cold(|request| window.add(executor, place, request));
        self.count_prefetched(taken);
        taken == cold
    }
}
