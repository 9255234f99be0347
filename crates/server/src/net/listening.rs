//! The addresses that this process listens on, for the log.

use super::event_loop::EventLoop;
use super::listener::Listener;
use super::listeners::Protocol;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The open sockets by protocol. Optional addresses of `bind` may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListeningAddresses {
    /// Addresses of clients without TLS.
    pub plain: Vec<SocketAddr>,
    /// Addresses of clients with TLS.
    pub tls: Vec<SocketAddr>,
    /// Addresses of the HTTP server.
    pub http: Vec<SocketAddr>,
    /// Path of the Unix socket.
    pub unix: Option<PathBuf>,
}

impl ListeningAddresses {
    /// Returns an address that clients of other machines may reach.
    pub fn for_other_machines(&self) -> Option<SocketAddr> {
        let all = self.plain.iter().chain(&self.tls).chain(&self.http);
        all.copied().find(|address| !address.ip().is_loopback())
    }
}

impl EventLoop {
    /// Returns what this process listens on.
    pub fn listening(&self) -> ListeningAddresses {
        let (listeners, http) = (self.listeners.borrow(), self.http.borrow());
        let of = |protocol: Protocol| {
            let matching = listeners.iter().filter(|listener| listener.protocol == protocol);
            matching.filter_map(|listener| listener.address).collect()
        };
        ListeningAddresses {
            plain: of(Protocol::Plain),
            tls: of(Protocol::Tls),
            http: http.listeners().iter().filter_map(|listener| listener.address).collect(),
            unix: listeners.iter().find_map(Listener::path).map(Path::to_owned),
        }
    }
}
