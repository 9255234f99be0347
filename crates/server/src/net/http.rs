//! The event loop's side of HTTP: the thread that answers it has its own sockets, and comes here for figures as a client
//! with a connection of its own for each request.
//!
//! ```text
//!  thread "http"                              event loop
//!  a pair of sockets: keeps one end,
//!  sends the other --- bounded queue -------> admitted as a client, with the address of whoever asked
//!  writes to an eventfd --------------------> wakes, Token::Http
//! ```

mod commands;
mod figures;

use super::accept::Room;
use super::event_loop::EventLoop;
use super::listener::{Accepted, ListenError};
use super::poller::Token;
use super::process_settings::open_hosts;
use super::tls_context::PublishedConfig;
use crate::config::{Config, Flags, ROWS, takes};
use crate::observe::Readiness;
use commands::Gate;
use figures::Told;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Connections over HTTP at a time, each with at most one client here. They are let in beyond `maxclients`: what is going on
/// is asked for when that has been reached.
const CONNECTIONS_MAX: usize = 64;

/// Of each connection the socket, and both ends of the pair that its request asks by; what the thread waits with, and listeners.
pub(super) const HTTP_FILES_MAX: u64 = 3 * CONNECTIONS_MAX as u64 + 32;

pub struct Http {
    arrivals: Receiver<Arrival>,
    told: Told,
    /// Ends with this.
    _thread: web::Thread,
}

/// What the thread sends here.
enum Arrival {
    Client(Accepted),
    /// A line for the log, which that thread does not write: a child made meanwhile would wait for it forever.
    Warning(String),
    /// Somebody who wants to know what has been done.
    Figures(Box<dyn FnOnce(web::Figures) + Send>),
}

/// What the thread knows of the server.
struct ServerAccess {
    arrivals: SyncSender<Arrival>,
    /// Written to when somebody has been sent.
    event_fd: OwnedFd,
    readiness: Arc<Readiness>,
    tls: Arc<PublishedConfig>,
    gate: Gate,
}

impl ServerAccess {
    /// Leaves it where there is no room.
    fn tell(&self, arrival: Arrival) {
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
            TrySendError::Full(_) => io::Error::other("too many wait for the server"),
            TrySendError::Disconnected(_) => io::Error::other("the server stops"),
        })?;
        rustix::io::write(&self.event_fd, &1u64.to_ne_bytes())?;
        Ok(ours)
    }

    fn tls(&self) -> Option<Arc<web::ServerConfig>> {
        self.tls.get()
    }

    fn warn(&self, text: String) {
        // Where so much is to be told that there is no room, enough has been.
        self.tell(Arrival::Warning(text));
    }

    fn unready(&self) -> Vec<&'static str> {
        self.readiness.reasons()
    }

    fn judge(&self, words: &[Vec<u8>]) -> web::Verdict {
        self.gate.judge(words)
    }

    fn ask_figures(&self, answer: Box<dyn FnOnce(web::Figures) + Send>) {
        self.tell(Arrival::Figures(answer));
    }

    fn options(&self) -> Vec<web::OptionText> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let defaults = Config::default();
        let shown = ROWS.iter().filter(|row| !row.flags.has(Flags::HIDDEN));
        shown
            .map(|row| web::OptionText {
                name: row.name.to_owned(),
                default: defaults
                    .get(&[row.name.as_bytes()])
                    .into_iter()
                    .find(|(name, _)| name.as_slice() == row.name.as_bytes())
                    .map(|(_, value)| text(value))
                    .unwrap_or_default(),
                section: row.section.to_owned(),
                takes: takes(row),
                text: row.doc.to_owned(),
                is_fixed: row.flags.has(Flags::IMMUTABLE),
            })
            .collect()
    }
}

impl EventLoop {
    /// Starts the thread that answers HTTP, if the configuration asks for it.
    pub(super) fn listen_http(&mut self) -> Result<(), ListenError> {
        let config = &self.executor.server.config;
        if config.http_port == 0 {
            return Ok(());
        }
        let failed =
            |source| ListenError::Listen { address: format!("HTTP port {}", config.http_port), source };
        if config.http_bind.is_empty() {
            return Err(failed(io::Error::other("http-bind names no address")));
        }
        let opened = open_hosts(&config.http_bind, config.http_port, false, config.tcp_backlog as i32)?;
        let listeners: io::Result<Vec<_>> =
            opened.iter().map(|listener| listener.to_tcp_listener()).collect();
        let event_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event_fd = event_fd.map_err(|errno| failed(errno.into()))?;
        // Each write is an edge, so that nobody has to read.
        self.poller.add_edges(&event_fd, Token::Http).map_err(failed)?;
        let (sender, arrivals) = sync_channel(CONNECTIONS_MAX);
        let readiness = Arc::clone(&self.executor.server.observed.readiness);
        let tls = self.tls.borrow().published();
        let gate = Gate::new(self.executor.server.registry.clone(), config.http_commands);
        let access = Arc::new(ServerAccess { arrivals: sender, event_fd, readiness, tls, gate });
        let settings = web::Settings {
            hosts: config.http_hosts.clone(),
            speaks_tls: config.http_tls,
            connections_max: CONNECTIONS_MAX,
        };
        let thread =
            listeners.and_then(|listeners| web::start(listeners, settings, access)).map_err(failed)?;
        self.http = Some(Http { arrivals, told: Told::default(), _thread: thread });
        Ok(())
    }

    /// Takes in those who have come over HTTP.
    pub(super) fn accept_http(&mut self) {
        while let Some(arrival) = self.http.as_ref().and_then(|http| http.arrivals.try_recv().ok()) {
            match arrival {
                Arrival::Client(accepted) => self.admit(accepted, false, Room::Reserved),
                Arrival::Warning(text) => log::warn!("{text}"),
                Arrival::Figures(answer) => {
                    if let Some(http) = &mut self.http {
                        answer(http.told.figures(&mut self.executor));
                    }
                }
            }
        }
    }
}
