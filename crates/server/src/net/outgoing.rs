//! Outgoing connections, to the primary and to targets of slot migrations. Each belongs to a client that the executor creates, and sends that client's
//! output. The executor receives the input unparsed until the stream of commands begins, which is then served like a
//! client's requests.

use super::by_handle::OfClient;
use super::connection::{Connection, Stay};
use super::event_loop::EventLoop;
use super::inline::Inline;
use super::query_buffer::{QueryBuffer, Transfer};
use super::sockets::Sockets;
use super::transport::{TlsPeer, Transport};
use crate::engine::{Executor, peers};
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
            let connection = Connection::connecting(handle, transport, &self.sockets)?;
            Ok((Box::new(connection), address))
        });
        let (connection, address) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                peers::connecting_failed(&mut self.executor, handle, &error);
                return self.executor.disconnect(handle);
            }
        };
        let figures = &mut self.executor.server.clients[handle].connection;
        (figures.address, figures.fd) = (address.to_string(), connection.fd().as_raw_fd());
        self.connections.insert(connection);
    }
}

/// Continues an attempt to connect.
pub(super) fn go_on_connecting(
    connection: &mut Connection,
    sockets: &mut Sockets,
    inline: &mut Inline<'_>,
) -> Stay {
    let handle = connection.handle();
    let is_established = match connection.go_on_connecting(sockets) {
        Ok(is_established) => is_established,
        Err(error) => {
            peers::connecting_failed(inline.executor, handle, &error);
            return Stay::Leaves;
        }
    };
    let figures = &mut inline.executor.server.clients[handle].connection;
    (figures.watches_readable, figures.watches_writable) = (true, connection.watches_writable());
    if is_established {
        if let Some(address) = connection.transport.local_address() {
            figures.local_address = address.to_string();
        }
        peers::connected(inline.executor, handle);
    }
    Stay::Stays
}

/// Passes unparsed input to the executor, while it takes bytes rather than commands; `true`: the query buffer holds
/// commands.
pub(super) fn receive_bytes(
    executor: &mut Executor,
    connection: &mut Connection,
    query_buffer: &mut QueryBuffer,
) -> bool {
    let handle = connection.handle();
    for _ in 0..READS_PER_TURN {
        let taken = peers::received(executor, handle, query_buffer.unparsed());
        query_buffer.skip(taken);
        if !peers::takes_bytes(executor, handle) {
            return true;
        }
        if !executor.has_room_for_bytes(handle) {
            return false;
        }
        let Transfer::Bytes { count, .. } = connection.read(query_buffer) else {
            // The connection's next turn finds the end again.
            return false;
        };
        executor.count_input(handle, count);
    }
    let taken = peers::received(executor, handle, query_buffer.unparsed());
    query_buffer.skip(taken);
    !peers::takes_bytes(executor, handle)
}

/// Begins to connect. Resolving a host name blocks the loop; an address does not.
fn connect(target: &Target, config: Option<Arc<ClientConfig>>) -> io::Result<(Transport, SocketAddr)> {
    let address = resolve(&target.host, target.port)?;
    let source = target.source.as_deref().map(|host| resolve(host, 0)).transpose()?;
    let peer = config.map(|config| TlsPeer { config, name: server_name(&target.host, address.ip()) });
    Ok((Transport::connect(address, source, peer)?, address))
}

/// Returns the server name for TLS, or the address if the host is no valid name.
pub(super) fn server_name(host: &[u8], address: IpAddr) -> ServerName<'static> {
    let name = std::str::from_utf8(host).ok().and_then(|host| ServerName::try_from(host.to_owned()).ok());
    name.unwrap_or_else(|| ServerName::IpAddress(address.into()))
}

fn resolve(host: &[u8], port: u16) -> io::Result<SocketAddr> {
    let host = std::str::from_utf8(host).map_err(io::Error::other)?;
    let mut addresses = (host, port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other(format!("{host} has no address")))
}
