//! The event loop's side of HTTP: the HTTP thread has its own sockets; it runs commands as a client with a connection for
//! each request, and requests figures.
//!
//! ```text
//!  thread "http"                              event loop
//!  a pair of sockets: keeps one end,
//!  sends the other --- bounded queue -------> admitted as a client, with the requester's address
//!  writes to an eventfd --------------------> wakes, Token::Http
//! ```
//! 1. A change of the options ends the thread, with its connections and history, and starts another one.

mod commands;
mod figures;

use super::accept::Room;
use super::event_loop::EventLoop;
use super::listener::{Accepted, ListenError, Listener};
use super::listeners::{Protocol, open_beside, resolve};
use super::tls_context::Published;
use crate::command::registry::Registry;
use crate::config::{Config, Flags, ROWS, default_value, takes};
use crate::observe::Readiness;
use crate::server::Server;
use commands::Gate;
use figures::LastReport;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Maximum number of HTTP connections, each with at most one client. They are accepted beyond `maxclients`, since
/// monitoring must work at that limit.
const CONNECTIONS_MAX: usize = 64;

/// Open files: for each connection its socket and both ends of the pair for its request; the thread's poller, waker and
/// listeners.
pub(super) const HTTP_FILES_MAX: u64 = 3 * CONNECTIONS_MAX as u64 + 32;

/// The running HTTP thread, if any. Shared by the event loop and CONFIG SET, which starts and ends it.
pub struct Http {
    /// Written to on each arrival; the event loop watches it.
    event_fd: Arc<OwnedFd>,
    readiness: Arc<Readiness>,
    tls: Arc<Published<Arc<web::ServerConfig>>>,
    registry: Registry,
    running: Option<Running>,
}

pub(super) struct Running {
    /// The options that it was started with.
    options: HttpOptions,
    /// Duplicates of the thread's listening sockets.
    listeners: Vec<Listener>,
    arrivals: Receiver<Arrival>,
    last_report: LastReport,
    /// Ends when dropped.
    _thread: web::Thread,
}

/// The HTTP thread of a prepared configuration.
pub(super) enum PreparedHttp {
    /// The running thread stays.
    Same,
    Other(Option<Running>),
}

/// Options whose change requires another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HttpOptions {
    port: u16,
    bind: Vec<String>,
    speaks_tls: bool,
    hosts: Vec<String>,
    runs_all: bool,
}

impl HttpOptions {
    fn of(config: &Config) -> Self {
        HttpOptions {
            port: config.http_port,
            bind: config.http_bind.clone(),
            speaks_tls: config.http_tls,
            hosts: config.http_hosts.clone(),
            runs_all: config.http_commands,
        }
    }
}

/// An arrival from the thread.
enum Arrival {
    Client(Accepted),
    /// A log line. The thread does not write it itself: a child forked at that time would wait for the log's lock forever.
    Warning(String),
    /// A request for figures.
    Figures(Box<dyn FnOnce(web::Figures) + Send>),
}

/// The thread's access to the server.
struct ServerAccess {
    arrivals: SyncSender<Arrival>,
    /// Written to on each arrival.
    event_fd: Arc<OwnedFd>,
    readiness: Arc<Readiness>,
    tls: Arc<Published<Arc<web::ServerConfig>>>,
    gate: Gate,
}

impl ServerAccess {
    /// Sends an arrival; drops it if the queue is full.
    fn send(&self, arrival: Arrival) {
        if self.arrivals.try_send(arrival).is_ok() {
            let _ = rustix::io::write(&self.event_fd, &1u64.to_ne_bytes());
        }
    }
}

impl web::Server for ServerAccess {
    fn connect(&self, peer: SocketAddr, local: SocketAddr) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let arrival = Accepted {
            socket: theirs.into(),
            address: peer.to_string(),
            local_address: local.to_string(),
            peer: Some(peer.ip()),
        };
        self.arrivals.try_send(Arrival::Client(arrival)).map_err(|refused| match refused {
            TrySendError::Full(_) => io::Error::other("too many requests wait for the server"),
            TrySendError::Disconnected(_) => io::Error::other("the server is stopping"),
        })?;
        rustix::io::write(&self.event_fd, &1u64.to_ne_bytes())?;
        Ok(ours)
    }

    fn tls(&self) -> Option<Arc<web::ServerConfig>> {
        self.tls.get()
    }

    fn warn(&self, text: String) {
        // A full queue has other warnings.
        self.send(Arrival::Warning(text));
    }

    fn unready(&self) -> Vec<&'static str> {
        self.readiness.reasons()
    }

    fn judge(&self, words: &[Vec<u8>]) -> web::Verdict {
        self.gate.judge(words)
    }

    fn request_figures(&self, answer: Box<dyn FnOnce(web::Figures) + Send>) {
        self.send(Arrival::Figures(answer));
    }

    fn options(&self) -> Vec<web::OptionText> {
        let shown = ROWS.iter().filter(|row| !row.flags.has(Flags::HIDDEN));
        shown
            .map(|row| web::OptionText {
                name: row.name.to_owned(),
                default: default_value(row),
                section: row.section.to_owned(),
                takes: takes(row),
                text: row.doc.to_owned(),
                is_fixed: row.flags.has(Flags::IMMUTABLE),
            })
            .collect()
    }
}

impl Http {
    pub(super) fn new(server: &Server, tls: Arc<Published<Arc<web::ServerConfig>>>) -> io::Result<Self> {
        Ok(Http {
            event_fd: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            readiness: Arc::clone(&server.observed.readiness),
            tls,
            registry: server.registry.clone(),
            running: None,
        })
    }

    /// Each write to it is an edge, so it need not be read.
    pub(super) fn event_fd(&self) -> &OwnedFd {
        &self.event_fd
    }

    /// Starts the configured thread beside the running one. On failure, and when the result is dropped, the running thread is
    /// unchanged.
    pub(super) fn prepare(&self, config: &Config) -> Result<PreparedHttp, ListenError> {
        let options = HttpOptions::of(config);
        if self.running.as_ref().is_some_and(|running| running.options == options) {
            return Ok(PreparedHttp::Same);
        }
        let is_enabled = options.port != 0;
        let started = is_enabled.then(|| self.start(options, config.tcp_backlog)).transpose()?;
        Ok(PreparedHttp::Other(started))
    }

    /// Starts the use of the prepared thread, and ends the previous one.
    pub(super) fn commit(&mut self, prepared: PreparedHttp) {
        if let PreparedHttp::Other(running) = prepared {
            self.running = running;
        }
    }

    fn start(&self, options: HttpOptions, backlog: u32) -> Result<Running, ListenError> {
        let failed = |source| ListenError::Listen { address: format!("HTTP port {}", options.port), source };
        if options.bind.is_empty() {
            return Err(without_address(options.port));
        }
        // The thread applies its own protocol.
        let wanted = resolve(&options.bind, options.port, Protocol::Plain)?;
        let listeners = open_beside(self.listeners(), &wanted, backlog)?;
        let files: io::Result<Vec<_>> = listeners.iter().map(Listener::to_tcp_listener).collect();
        let (sender, arrivals) = sync_channel(CONNECTIONS_MAX);
        let access = Arc::new(ServerAccess {
            arrivals: sender,
            event_fd: Arc::clone(&self.event_fd),
            readiness: Arc::clone(&self.readiness),
            tls: Arc::clone(&self.tls),
            gate: Gate::new(self.registry.clone(), options.runs_all),
        });
        let settings = web::Settings {
            hosts: options.hosts.clone(),
            speaks_tls: options.speaks_tls,
            connections_max: CONNECTIONS_MAX,
        };
        let thread = files.and_then(|files| web::start(files, settings, access)).map_err(failed)?;
        Ok(Running { options, listeners, arrivals, last_report: LastReport::default(), _thread: thread })
    }

    /// The thread's listening sockets.
    pub(super) fn listeners(&self) -> &[Listener] {
        self.running.as_ref().map_or(&[], |running| &running.listeners)
    }

    pub(super) fn close(&mut self) {
        self.running = None;
    }

    fn arrival(&self) -> Option<Arrival> {
        self.running.as_ref()?.arrivals.try_recv().ok()
    }
}

/// The error of an HTTP port without an address to listen on.
pub(super) fn without_address(port: u16) -> ListenError {
    let source = io::Error::other("http-bind names no address");
    ListenError::Listen { address: format!("HTTP port {port}"), source }
}

impl EventLoop {
    /// Handles the arrivals from the HTTP thread.
    pub(super) fn accept_http(&mut self) {
        let http = Rc::clone(&self.http);
        loop {
            let Some(arrival) = http.borrow().arrival() else { return };
            match arrival {
                Arrival::Client(accepted) => self.admit(accepted, false, Room::Reserved),
                Arrival::Warning(text) => log::warn!("{text}"),
                Arrival::Figures(answer) => {
                    if let Some(running) = &mut http.borrow_mut().running {
                        answer(running.last_report.figures(&mut self.executor));
                    }
                }
            }
        }
    }
}
