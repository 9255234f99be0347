//! The loop that connects sockets to the executor: wait, read, parse, run in order, write once.

use super::connection::{Connection, Transfer};
use super::listener::{Accepted, ListenError, SocketOptions};
use super::poller::{Poller, Readiness, Token};
use super::surroundings::{Listeners, ProcessSurroundings};
use crate::command::Args;
use crate::engine::{Executor, Flow};
use crate::server::HostRequest;
use crate::session::ClientSlot;
use crate::session::client::ConnectionFigures;
use rustix::fd::{AsFd, AsRawFd};
use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use wire::request::Limits;

/// Clients accepted from one listener in one turn.
const ACCEPTS_PER_TICK_MAX: usize = 1000;

pub struct Host {
    pub executor: Executor,
    poller: Poller,
    listeners: Rc<RefCell<Listeners>>,
    connections: Vec<Option<Box<Connection>>>,
    /// Becomes readable when the process is asked to stop.
    signals: UnixStream,
    ready: Vec<Readiness>,
    /// Connections that may have output to write at the end of the tick.
    touched: Vec<ClientSlot>,
}

impl Host {
    /// `signals` becomes readable when the process should stop.
    pub fn new(mut executor: Executor, signals: UnixStream) -> io::Result<Self> {
        let listeners = Rc::new(RefCell::new(Listeners::default()));
        executor.server.surroundings = Box::new(ProcessSurroundings { listeners: Rc::clone(&listeners) });
        let poller = Poller::new()?;
        poller.add(&signals, Token::Signal)?;
        Ok(Host {
            executor,
            poller,
            listeners,
            connections: Vec::new(),
            signals,
            ready: Vec::new(),
            touched: Vec::new(),
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
        for (index, listener) in listeners.iter().enumerate() {
            self.poller
                .add(listener.fd(), Token::Listener(index as u32))
                .map_err(|source| ListenError::Listen { address: format!("listener {index}"), source })?;
        }
        Ok(())
    }

    /// Serves until a command or a signal ends the process.
    pub fn run(&mut self) -> io::Result<()> {
        while self.tick()? {}
        Ok(())
    }

    /// One turn of the loop; `false` when the process is to stop.
    pub fn tick(&mut self) -> io::Result<bool> {
        self.wait()?;
        self.executor.begin_tick();
        let ready = std::mem::take(&mut self.ready);
        let mut go_on = true;
        for event in &ready {
            match event.token {
                Token::Signal => go_on &= !self.stop_requested(),
                Token::Listener(index) => self.accept(index as usize),
                Token::Connection(slot) => self.serve(ClientSlot(slot), event),
            }
        }
        self.ready = ready;
        self.ready.clear();
        self.executor.run_timers();
        self.resume();
        self.executor.end_tick();
        self.flush();
        self.close_condemned();
        if let Err(error) = self.watch_listeners() {
            log::warn!("{error}");
        }
        Ok(go_on && self.host_requests())
    }

    fn wait(&mut self) -> io::Result<()> {
        let now_us = self.executor.clock.read().monotonic_us;
        let timeout_us = self.executor.next_timer_us().saturating_sub(now_us);
        self.poller.wait(Duration::from_micros(timeout_us), &mut self.ready)
    }

    fn stop_requested(&mut self) -> bool {
        let mut byte = [0; 16];
        matches!(io::Read::read(&mut &self.signals, &mut byte), Ok(1..))
    }

    fn accept(&mut self, index: usize) {
        let config = &self.executor.server.config;
        let options =
            SocketOptions { keepalive_s: config.tcp_keepalive_seconds as u64, nodelay: config.tcp_nodelay };
        for _ in 0..ACCEPTS_PER_TICK_MAX {
            let accepted = match self.listeners.borrow().get(index) {
                Some(listener) => listener.accept(options),
                None => return,
            };
            match accepted {
                Ok(None) => return,
                Ok(Some(accepted)) => self.admit(accepted),
                Err(error) => {
                    log::warn!("Accepting a client: {error}");
                    return;
                }
            }
        }
    }

    /// Refuses a client that may not connect, or gives it a slot.
    fn admit(&mut self, accepted: Accepted) {
        let server = &mut self.executor.server;
        let refusal = if server.clients.len() >= server.config.maxclients as usize {
            Some("-ERR max number of clients reached\r\n")
        } else if protects_itself_from(&server.config, &accepted) {
            Some(PROTECTED_MODE_REFUSAL)
        } else {
            None
        };
        if let Some(text) = refusal {
            server.observed.statistics.connections_rejected += 1;
            // The client may be gone already; it is closed either way.
            let _ = rustix::net::send(&accepted.socket, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
            return;
        }
        let figures = ConnectionFigures {
            address: accepted.address,
            local_address: accepted.local_address,
            fd: accepted.socket.as_raw_fd(),
            is_unix_socket: accepted.peer.is_none(),
            is_loopback: accepted.peer.is_none_or(|ip| ip.is_loopback()),
            ..ConnectionFigures::default()
        };
        let slot = self.executor.connect(figures);
        if let Err(error) = self.poller.add(accepted.socket.as_fd(), Token::Connection(slot.0)) {
            log::warn!("Watching a new client's socket: {error}");
            self.executor.disconnect(slot);
            return;
        }
        let index = slot.0 as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Box::new(Connection::new(slot, accepted.socket)));
    }

    fn serve(&mut self, slot: ClientSlot, event: &Readiness) {
        let Some(Some(connection)) = self.connections.get_mut(slot.0 as usize) else { return };
        if event.writable {
            self.touched.push(slot);
        }
        if !event.readable || !connection.watches_readable {
            return;
        }
        match connection.read() {
            Transfer::WouldBlock => return,
            Transfer::Closed => return self.close(slot),
            Transfer::Bytes(n) => {
                self.executor.server.observed.statistics.input_bytes += n as u64;
                self.executor.server.observed.statistics.total_reads += 1;
                let client = &mut self.executor.server.clients[slot];
                client.connection.input_bytes_total += n as u64;
            }
        }
        self.run_requests(slot);
        self.limit_input(slot);
    }

    /// Parses and runs what the connection has sent, until it has to wait for more or for something else.
    fn run_requests(&mut self, slot: ClientSlot) {
        let Some(connection) = self.connections[slot.0 as usize].as_deref_mut() else { return };
        self.touched.push(slot);
        let mut reply = self.executor.borrow_output(slot);
        while self.executor.accepts_requests(slot) {
            if !connection.has_requests() {
                connection.consume();
                let limits = limits_of(&self.executor, slot);
                if let Err(error) = connection.parse(&limits) {
                    connection.run_parsed(&mut self.executor, &mut reply);
                    self.executor.protocol_error(slot, error, &mut reply);
                    break;
                }
                if !connection.has_requests() {
                    break;
                }
            }
            connection.run_parsed(&mut self.executor, &mut reply);
        }
        self.executor.return_output(slot, reply);
        connection.consume();
        let client = &mut self.executor.server.clients[slot];
        client.connection.input_bytes = connection.input.len();
        client.connection.input_free_bytes = connection.input.capacity() - connection.input.len();
    }

    /// A client that sends faster than it may be answered must not fill the memory.
    fn limit_input(&mut self, slot: ClientSlot) {
        let Some(connection) = self.connections[slot.0 as usize].as_deref_mut() else { return };
        if connection.input.len() as u64 > self.executor.server.config.client_query_buffer_limit_bytes {
            log::warn!("Closing a client that reached the query buffer limit");
            self.executor.server.condemn(slot);
        }
        let blocked = self.executor.server.clients[slot].blocked.is_some();
        if blocked == connection.watches_readable && (!blocked || connection.input.len() > (1 << 20)) {
            connection.watches_readable = !blocked;
            self.rewatch(slot);
        }
    }

    fn rewatch(&mut self, slot: ClientSlot) {
        let Some(connection) = self.connections[slot.0 as usize].as_deref() else { return };
        let (readable, writable) = (connection.watches_readable, connection.watches_writable);
        if let Err(error) = self.poller.watch(connection.fd(), Token::Connection(slot.0), readable, writable)
        {
            log::warn!("Watching a client's socket: {error}");
            self.executor.server.condemn(slot);
        }
    }

    /// Goes on with clients whose waiting is over: what they have sent meanwhile is still in their buffers.
    fn resume(&mut self) {
        while let Some(slot) = self.executor.server.resumed.pop() {
            self.run_requests(slot);
            self.limit_input(slot);
        }
    }

    /// Writes what every touched client is owed.
    fn flush(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.append(&mut self.executor.server.clients.with_output);
        for &slot in &touched {
            self.write(slot);
        }
        touched.clear();
        self.touched = touched;
    }

    fn write(&mut self, slot: ClientSlot) {
        let Some(Some(connection)) = self.connections.get_mut(slot.0 as usize) else { return };
        let client = &mut self.executor.server.clients[slot];
        client.output_pending = false;
        if client.close_asap {
            return;
        }
        if client.output.is_empty() {
            if client.close_after_reply {
                self.close(slot);
            }
            return;
        }
        let transfer = connection.write(&client.output);
        let statistics = &mut self.executor.server.observed.statistics;
        statistics.total_writes += 1;
        match transfer {
            Transfer::Closed => self.close(slot),
            Transfer::WouldBlock => {
                self.executor.check_output_limit(slot, connection.output_sent);
                if !connection.watches_writable {
                    connection.watches_writable = true;
                    self.rewatch(slot);
                }
            }
            Transfer::Bytes(n) => {
                statistics.output_bytes += n as u64;
                client.connection.output_bytes_total += n as u64;
                client.output.clear();
                client.output_over_soft_limit_since_us = None;
                if client.close_after_reply {
                    return self.close(slot);
                }
                if connection.watches_writable {
                    connection.watches_writable = false;
                    self.rewatch(slot);
                }
            }
        }
    }

    fn close_condemned(&mut self) {
        while let Some(slot) = self.executor.server.condemned.pop() {
            self.close(slot);
        }
    }

    fn close(&mut self, slot: ClientSlot) {
        if let Some(connection) = self.connections[slot.0 as usize].take() {
            // The socket leaves the poller when it is closed; failing to take it out first changes nothing.
            let _ = self.poller.remove(connection.fd());
            self.executor.disconnect(slot);
        }
    }

    /// Does what commands have asked of the process; `false` when it is to stop.
    fn host_requests(&mut self) -> bool {
        for request in std::mem::take(&mut self.executor.server.host_requests) {
            match request {
                HostRequest::Shutdown => return false,
            }
        }
        true
    }
}

impl Connection {
    /// Runs the parsed requests in order, until one makes the client wait.
    fn run_parsed(&mut self, executor: &mut Executor, reply: &mut wire::reply::ReplyBuffer) {
        while executor.accepts_requests(self.slot) {
            let Some(range) = self.next_request() else { return };
            let args = Args::new(&self.input, &self.args()[range]);
            if executor.execute_into(self.slot, args, reply) == Flow::Stop {
                return;
            }
        }
    }
}

const PROTECTED_MODE_REFUSAL: &str = "-DENIED Running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running, however MAKE SURE it's not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

fn protects_itself_from(config: &crate::config::Config, accepted: &Accepted) -> bool {
    config.protected_mode && config.requirepass.is_none() && accepted.peer.is_some_and(|ip| !ip.is_loopback())
}

fn limits_of(executor: &Executor, slot: ClientSlot) -> Limits {
    Limits {
        bulk_len_max: executor.server.config.proto_max_bulk_len_bytes as usize,
        authenticated: executor.server.clients[slot].authenticated,
        ..Limits::default()
    }
}
