//! Outgoing connections: to the primary. Each belongs to a client created by the executor, and sends that client's
//! output; input is handed to the executor unparsed until the stream of commands begins, which is then served like any
//! client's.

use super::connection::Connection;
use super::event_loop::{ClientConnection, EventLoop, local};
use super::poller::Token;
use super::query_buffer::{QueryBuffer, Transfer};
use super::transport::{TlsPeer, Transport};
use crate::server::Target;
use crate::session::ClientHandle;
use rustix::fd::AsRawFd;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tls::{ClientConfig, ServerName};

/// Reads in one turn while a snapshot is received: each is small, and there are many.
const READS_PER_TURN: usize = 32;

impl EventLoop {
    /// Begins a client's connection to a server.
    pub(super) fn connect(&mut self, handle: ClientHandle, target: &Target) {
        if self.executor.server.clients.get(handle).is_none() {
            return;
        }
        let has_tls = self.executor.server.config.tls_replication;
        let no_config = || io::Error::other("TLS is not configured");
        let config = has_tls.then(|| self.tls.borrow().client().ok_or_else(no_config)).transpose();
        let begun = config.and_then(|config| connect(target, config)).and_then(|(transport, address)| {
            let connection = Box::new(Connection::connecting(handle, transport));
            self.poller.add(connection.fd(), Token::Connection(handle))?;
            self.poller.watch(connection.fd(), Token::Connection(handle), false, true)?;
            Ok((connection, address))
        });
        let (connection, address) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.executor.connecting_failed(handle, &error);
                return self.executor.disconnect(handle);
            }
        };
        let figures = &mut self.executor.server.clients[handle].connection;
        (figures.address, figures.fd) = (address.to_string(), connection.fd().as_raw_fd());
        if self.connections.len() <= handle.index() {
            self.connections.resize_with(handle.index() + 1, || None);
        }
        self.connections[handle.index()] = Some(ClientConnection::Local(connection));
    }

    /// Handles the end of a connection attempt.
    pub(super) fn finish_connecting(&mut self, handle: ClientHandle) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        match connection.transport.connected() {
            Ok(true) => {}
            Ok(false) => {
                // For the rest of the handshake: writing is watched if it waits for room.
                (connection.watches_readable, connection.watches_writable) = (true, false);
                return self.rewatch(handle);
            }
            Err(error) => {
                self.executor.connecting_failed(handle, &error);
                return self.close(handle);
            }
        }
        if let Some(address) = connection.transport.local_address() {
            self.executor.server.clients[handle].connection.local_address = address.to_string();
        }
        connection.is_connecting = false;
        connection.watches_readable = true;
        // The end of the handshake may wait for room.
        connection.watches_writable = connection.transport.has_unsent();
        if connection.transport.has_decrypted() {
            connection.is_listed = true;
            self.unread.push(handle);
        }
        self.rewatch(handle);
        self.executor.connected(handle);
    }

    /// Hands unparsed input to the executor, as long as it takes bytes rather than commands; `true` when that is over
    /// and the query buffer holds commands.
    pub(super) fn hand_over_bytes(&mut self, handle: ClientHandle, query_buffer: &mut QueryBuffer) -> bool {
        for _ in 0..READS_PER_TURN {
            let taken = self.executor.received(handle, query_buffer.unparsed());
            query_buffer.skip(taken);
            if !self.executor.takes_bytes(handle) {
                return true;
            }
            if !self.executor.has_room_for_bytes(handle) {
                return false;
            }
            let Some(connection) = local(&mut self.connections, handle) else { return false };
            let Transfer::Bytes { count, .. } = query_buffer.read(&mut connection.transport) else {
                // The next event finds an end again.
                return false;
            };
            self.executor.count_input(handle, count);
        }
        let taken = self.executor.received(handle, query_buffer.unparsed());
        query_buffer.skip(taken);
        !self.executor.takes_bytes(handle)
    }
}

/// Connects. Resolving a name blocks the loop: an address avoids that.
fn connect(target: &Target, config: Option<Arc<ClientConfig>>) -> io::Result<(Transport, SocketAddr)> {
    let address = resolve(&target.host, target.port)?;
    let source = target.source.as_deref().map(|host| resolve(host, 0)).transpose()?;
    let peer = config.map(|config| TlsPeer { config, name: server_name(&target.host, address.ip()) });
    Ok((Transport::connect(address, source, peer)?, address))
}

/// Returns the name for TLS; an invalid name is not sent.
fn server_name(host: &[u8], address: IpAddr) -> ServerName<'static> {
    let name = std::str::from_utf8(host).ok().and_then(|host| ServerName::try_from(host.to_owned()).ok());
    name.unwrap_or_else(|| ServerName::IpAddress(address.into()))
}

fn resolve(host: &[u8], port: u16) -> io::Result<SocketAddr> {
    let host = std::str::from_utf8(host).map_err(io::Error::other)?;
    let mut addresses = (host, port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other(format!("{host} has no address")))
}
