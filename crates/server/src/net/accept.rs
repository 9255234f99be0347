//! Acceptance and refusal of new clients.

use super::connection::Connection;
use super::event_loop::EventLoop;
use super::listener::{Accepted, SocketOptions};
use super::listeners::Protocol;
use super::poller::Token;
use super::transport::Transport;
use crate::session::client::ConnectionFigures;
use rustix::fd::AsRawFd;

/// Limit that applies to a new client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// `maxclients`.
    Shared,
    /// A separate limit of connections.
    Reserved,
}

impl EventLoop {
    /// Accepts the clients waiting at a listener, up to the configured number per turn.
    pub(super) fn accept(&mut self, id: u32) {
        let config = &self.executor.server.config;
        let options =
            SocketOptions { keepalive_s: config.tcp_keepalive_seconds as u64, nodelay: config.tcp_nodelay };
        let protocol = self.listeners.borrow().get(id).map(|listener| listener.protocol);
        let has_tls = protocol == Some(Protocol::Tls);
        let connections_max = match has_tls {
            true => config.max_new_tls_connections_per_cycle,
            false => config.max_new_connections_per_cycle,
        };
        for _ in 0..connections_max {
            let accepted = match self.listeners.borrow().get(id) {
                Some(listener) => listener.accept(options),
                None => return,
            };
            match accepted {
                Ok(None) => return,
                Ok(Some(accepted)) => self.admit(accepted, has_tls, Room::Shared),
                Err(error) => {
                    log::warn!("Cannot accept a client: {error}");
                    // Usually the limit of open files is reached: clients wait until files are closed.
                    return self.rest_listeners(true);
                }
            }
        }
    }

    /// Stops or resumes watching for new clients.
    pub(super) fn rest_listeners(&mut self, rest: bool) {
        if self.clients_cron.listeners_rest == rest {
            return;
        }
        self.clients_cron.listeners_rest = rest;
        for listener in self.listeners.borrow().iter() {
            let watched = self.sockets.poller.watch(listener.fd(), Token::Listener(listener.id), !rest);
            if let Err(error) = watched {
                log::warn!("Cannot watch for new clients: {error}");
            }
        }
    }

    /// Refuses a client that may not connect, or gives it a handle.
    pub(super) fn admit(&mut self, accepted: Accepted, has_tls: bool, room: Room) {
        let server = &mut self.executor.server;
        let is_full = room == Room::Shared && server.clients.len() >= server.config.maxclients as usize;
        let refusal = if is_full {
            Some("-ERR max number of clients reached\r\n")
        } else if protects_itself_from(server, &accepted) {
            Some(PROTECTED_MODE_REFUSAL)
        } else {
            None
        };
        if let Some(text) = refusal {
            server.observed.statistics.connections_rejected += 1;
            if !has_tls {
                // The client is closed, whether or not the message is sent. A TLS client is closed without a handshake, hence
                // without a message.
                let _ = Transport::Plain(accepted.socket).write(text.as_bytes());
            }
            return;
        }
        let config = if has_tls { self.tls.borrow().server() } else { None };
        if has_tls && config.is_none() {
            return;
        }
        let transport = match Transport::accepted(accepted.socket, config) {
            Ok(transport) => transport,
            Err(error) => return log::warn!("Cannot accept a client: {error}"),
        };
        let figures = ConnectionFigures {
            address: accepted.address,
            local_address: accepted.local_address,
            fd: transport.fd().as_raw_fd(),
            is_unix_socket: accepted.peer.is_none(),
            is_tls: has_tls,
            is_loopback: accepted.peer.is_none_or(|ip| ip.is_loopback()),
            watches_readable: true,
            is_handshaking: has_tls,
            ..ConnectionFigures::default()
        };
        let handle = self.executor.connect(figures);
        // I/O threads, if there are any, perform the handshakes.
        let thread = self.emptiest_thread(!has_tls);
        self.place(Box::new(Connection::new(handle, transport)), None, thread);
    }
}

const PROTECTED_MODE_REFUSAL: &str = "-DENIED Running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running, however MAKE SURE it's not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

fn protects_itself_from(server: &crate::server::Server, accepted: &Accepted) -> bool {
    let is_open = server.config.protected_mode && server.users.default_needs_no_password();
    is_open && accepted.peer.is_some_and(|ip| !ip.is_loopback())
}
