//! The listening sockets, as configured.
//!
//! A change has two steps: [`Listeners::prepare`] opens the missing sockets and may fail without an effect;
//! [`Listeners::commit`] cannot fail. A socket whose address is in both configurations stays open, with its waiting
//! clients. At the start, the Unix socket and HTTP are opened between [`Listeners::bind`] and [`Listeners::listen`].

use super::http::without_address;
use super::listener::{ListenError, Listener, SocketOwners, overlap};
use super::poller::{Poller, Token};
use crate::config::Config;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The open listeners, shared by the event loop and CONFIG SET, which changes them.
pub struct Listeners {
    unix: Option<Listener>,
    tcp: Vec<Listener>,
    /// The event loop's poller.
    poller: Poller,
    last_id: u32,
}

/// Protocol of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Without TLS.
    Plain,
    /// With TLS.
    Tls,
}

/// A configured address.
pub(super) struct ConfiguredAddress {
    address: SocketAddr,
    protocol: Protocol,
    /// A failure to listen on it is ignored.
    is_optional: bool,
}

/// TCP sockets that have their addresses, but do not listen yet.
pub struct BoundListeners {
    /// Sockets already open: their identifiers and new protocols.
    kept: Vec<(u32, Protocol)>,
    bound: Vec<BoundListener>,
}

struct BoundListener {
    listener: Listener,
    /// A failure to listen is ignored.
    is_optional: bool,
}

/// TCP sockets of a configuration that is not in force yet.
pub struct PreparedListeners {
    /// Sockets already open: their identifiers and new protocols.
    kept: Vec<(u32, Protocol)>,
    opened: Vec<Listener>,
}

impl Listeners {
    /// Creates an empty set; `poller` watches sockets opened later.
    pub fn new(poller: Poller) -> Self {
        Listeners { unix: None, tcp: Vec::new(), poller, last_id: 0 }
    }

    /// Iterates over the open listeners.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.unix.iter().chain(&self.tcp)
    }

    /// Returns the listener with this identifier, if it is still open.
    pub fn get(&self, id: u32) -> Option<&Listener> {
        self.iter().find(|listener| listener.id == id)
    }

    /// Closes all of them.
    pub fn close(&mut self) {
        self.unix = None;
        self.tcp.clear();
    }

    /// Opens the configured Unix socket, whose path cannot be changed at run time.
    pub fn open_unix(&mut self, config: &Config) -> Result<(), ListenError> {
        self.unix = match open_unix(config)? {
            Some(listener) => Some(self.watch(listener)?),
            None => None,
        };
        Ok(())
    }

    /// Opens the missing TCP sockets of `config`. On failure, which names its protocol, and when the result is dropped, the
    /// listeners are unchanged.
    pub fn prepare(&mut self, config: &Config) -> Result<PreparedListeners, (Protocol, ListenError)> {
        let bound = self.bind(config)?;
        self.listen(bound, config.tcp_backlog)
    }

    /// Takes the addresses of the missing TCP sockets, as the first half of [`Listeners::prepare`].
    pub fn bind(&self, config: &Config) -> Result<BoundListeners, (Protocol, ListenError)> {
        let mut addresses = Vec::new();
        for (protocol, port) in [(Protocol::Plain, config.port), (Protocol::Tls, config.tls_port)] {
            let hosts = if port == 0 { &[][..] } else { &config.bind };
            addresses.extend(resolve(hosts, port, protocol).map_err(|error| (protocol, error))?);
        }
        let (mut kept, mut bound) = (Vec::new(), Vec::new());
        for (position, &ConfiguredAddress { protocol, is_optional, .. }) in addresses.iter().enumerate() {
            match find_or_bind(&self.tcp, &addresses, position, config.tcp_backlog) {
                Ok(Found::Open(index)) => kept.push((self.tcp[index].id, protocol)),
                Ok(Found::Bound(listener)) => bound.push(BoundListener { listener, is_optional }),
                Err(error) if is_optional => log::warn!("{error}; continuing without it"),
                Err(error) => return Err((protocol, error)),
            }
        }
        Ok(BoundListeners { kept, bound })
    }

    /// Listens on the bound sockets, on those of the plain port last: a client that connects to it finds all others open.
    pub fn listen(
        &mut self,
        bound: BoundListeners,
        backlog: u32,
    ) -> Result<PreparedListeners, (Protocol, ListenError)> {
        let BoundListeners { kept, mut bound } = bound;
        bound.sort_by_key(|bound| bound.listener.protocol == Protocol::Plain);
        let mut opened = Vec::new();
        for BoundListener { listener, is_optional } in bound {
            let protocol = listener.protocol;
            match listener.listen(backlog).map_err(|source| listener.failure(source)) {
                Ok(()) => opened.push(self.watch(listener).map_err(|error| (protocol, error))?),
                Err(error) if is_optional => log::warn!("{error}; continuing without it"),
                Err(error) => return Err((protocol, error)),
            }
        }
        Ok(PreparedListeners { kept, opened })
    }

    /// Replaces the listeners by the prepared ones.
    pub fn commit(&mut self, prepared: PreparedListeners) {
        let PreparedListeners { kept, opened } = prepared;
        for listener in &mut self.tcp {
            if let Some((_, protocol)) = kept.iter().find(|(id, _)| *id == listener.id) {
                listener.protocol = *protocol;
            } else {
                // A child may have a duplicate of the file, which would keep it in the poller.
                let _ = self.poller.remove(listener.fd());
            }
        }
        self.tcp.retain(|listener| kept.iter().any(|(id, _)| *id == listener.id));
        self.tcp.extend(opened);
    }

    /// Assigns a unique identifier for the poller.
    fn watch(&mut self, mut listener: Listener) -> Result<Listener, ListenError> {
        self.last_id = self.last_id.wrapping_add(1);
        listener.id = self.last_id;
        self.poller
            .add(listener.fd(), Token::Listener(listener.id))
            .map_err(|source| ListenError::Listen { address: format!("listener {}", listener.id), source })?;
        Ok(listener)
    }
}

/// Returns the addresses of `hosts`; those after a `-` are optional.
pub(super) fn resolve(
    hosts: &[String],
    port: u16,
    protocol: Protocol,
) -> Result<Vec<ConfiguredAddress>, ListenError> {
    let mut addresses = Vec::new();
    for text in hosts {
        let (host, is_optional) = match text.strip_prefix('-') {
            Some(host) => (host, true),
            None => (text.as_str(), false),
        };
        match Listener::resolve(host, port) {
            Ok(resolved) => {
                addresses.extend(resolved.map(|address| ConfiguredAddress {
                    address,
                    protocol,
                    is_optional,
                }));
            }
            Err(error) if is_optional => log::warn!("{error}; continuing without it"),
            Err(error) => return Err(error),
        }
    }
    Ok(addresses)
}

enum Found {
    /// Index among the open sockets.
    Open(usize),
    Bound(Listener),
}

/// Returns the socket for one of the addresses: a matching one of `open`, or a new one. A new socket may overlap with
/// sockets of `open` whose addresses are no longer configured, but with no other; an overlapping one listens at once.
fn find_or_bind(
    open: &[Listener],
    addresses: &[ConfiguredAddress],
    position: usize,
    backlog: u32,
) -> Result<Found, ListenError> {
    let ConfiguredAddress { address, protocol, .. } = addresses[position];
    let failed = |source| ListenError::Listen { address: address.to_string(), source };
    if addresses[..position].iter().any(|earlier| earlier.address == address) {
        return Err(failed(Errno::ADDRINUSE.into()));
    }
    if let Some(index) = open.iter().position(|listener| listener.address == Some(address)) {
        return Ok(Found::Open(index));
    }
    let bound = match Listener::bind(address, protocol) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_left = |listener: &&Listener| {
                listener.overlaps(address)
                    && !addresses.iter().any(|other| Some(other.address) == listener.address)
            };
            let left: Vec<&Listener> = open.iter().filter(is_left).collect();
            if left.is_empty() {
                Err(error)
            } else {
                Listener::tcp_in_place_of(&left, address, protocol, backlog)
            }
        }
        bound => bound,
    };
    bound.map(Found::Bound).map_err(failed)
}

/// Listens on each of the addresses, duplicating sockets of `open` with the same address.
pub(super) fn open_beside(
    open: &[Listener],
    addresses: &[ConfiguredAddress],
    backlog: u32,
) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::new();
    for (position, address) in addresses.iter().enumerate() {
        let listener = find_or_bind(open, addresses, position, backlog).and_then(|found| match found {
            Found::Bound(listener) => match listener.listen(backlog) {
                Ok(()) => Ok(listener),
                Err(source) => Err(listener.failure(source)),
            },
            Found::Open(index) => open[index].try_clone().map_err(|source| open[index].failure(source)),
        });
        match listener {
            Ok(listener) => listeners.push(listener),
            Err(error) if address.is_optional => log::warn!("{error}; continuing without it"),
            Err(error) => return Err(error),
        }
    }
    Ok(listeners)
}

fn open_unix(config: &Config) -> Result<Option<Listener>, ListenError> {
    let Some(path) = unix_path(config) else { return Ok(None) };
    Listener::unix(path, unix_owners(config), config.tcp_backlog).map(Some)
}

fn unix_path(config: &Config) -> Option<&Path> {
    config.unixsocket.as_deref().map(|path| Path::new(OsStr::from_bytes(path)))
}

fn unix_owners(config: &Config) -> SocketOwners<'_> {
    SocketOwners {
        permissions: (config.unixsocketperm != 0).then_some(config.unixsocketperm),
        group: config.unixsocketgroup.as_deref(),
    }
}

/// Checks, without opening sockets, that the configured addresses resolve and belong to this machine, that no two of them
/// overlap, and that the directory of the Unix socket can be written to. A port in use is no error, because the server of
/// this configuration may be running.
pub fn probe(config: &Config) -> Result<(), ListenError> {
    if let Some(path) = unix_path(config) {
        Listener::probe_unix(path, unix_owners(config))?;
    }
    if config.http_port != 0 && config.http_bind.is_empty() {
        return Err(without_address(config.http_port));
    }
    let mut taken: Vec<(&'static str, SocketAddr)> = Vec::new();
    for (option, port, hosts) in [
        ("port", config.port, &config.bind),
        ("tls-port", config.tls_port, &config.bind),
        ("http-port", config.http_port, &config.http_bind),
    ] {
        let hosts = if port == 0 { &[][..] } else { hosts };
        for ConfiguredAddress { address, is_optional, .. } in resolve(hosts, port, Protocol::Plain)? {
            let other = taken.iter().find(|&&(_, other)| overlap(other, address));
            let probed = match other {
                Some(&(other, _)) => Err(ListenError::Shared { address, options: [other, option] }),
                None => Listener::probe(address)
                    .map_err(|source| ListenError::Listen { address: address.to_string(), source }),
            };
            match probed {
                Ok(()) => taken.push((option, address)),
                Err(_) if is_optional => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
