//! Transports: connecting, reading and writing, with or without TLS. Only this module creates outgoing sockets, so that
//! the layers above are independent of encryption.
//!
//! TLS is visible in three ways only: a transport may have input that no readiness event announces
//! ([`Transport::has_decrypted`]), may hold output that counts as written ([`Transport::has_unsent`]), and may begin with a
//! handshake.

mod tls_socket;

pub use tls_socket::TlsSocket;

use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use tls::{ClientConfig, ServerConfig, ServerName, Session};

/// Why a read or write transferred no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The socket is not ready: the poller reports its readiness.
    WouldBlock,
    /// The connection is closed, or has failed.
    Closed,
}

/// A connected non-blocking stream.
#[derive(Debug)]
pub enum Transport {
    /// TCP or a Unix socket, unencrypted.
    Plain(OwnedFd),
    /// TCP under TLS. Boxed, so that other transports stay small.
    Tls(Box<TlsSocket>),
}

/// The TLS configuration and the expected name of a server.
pub struct TlsPeer {
    /// The TLS configuration.
    pub config: Arc<ClientConfig>,
    /// Name of the server.
    pub name: ServerName<'static>,
}

impl Transport {
    /// Wraps an accepted connection: it begins with a handshake if there is a configuration for it.
    pub fn accepted(socket: OwnedFd, config: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        let Some(config) = config else { return Ok(Transport::Plain(socket)) };
        let session = Session::server(config).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(TlsSocket::new(socket, session))))
    }

    /// Begins connecting to a server, from the address `source` if given, and with TLS if it is a TLS peer. The socket
    /// becomes writable when the attempt ends, and [`Self::connected`] returns the result.
    pub fn connect(
        address: SocketAddr,
        source: Option<SocketAddr>,
        peer: Option<TlsPeer>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = source {
            socket.set_reuse_address(true)?;
            socket.bind(&source.into())?;
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        let Some(TlsPeer { config, name }) = peer else { return Ok(Transport::Plain(socket.into())) };
        let session = Session::client(config, name).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(TlsSocket::new(socket.into(), session))))
    }

    /// Returns whether an outgoing connection is established, after the socket was ready; with TLS that includes a
    /// handshake. An error is final.
    pub fn connected(&mut self) -> io::Result<bool> {
        rustix::net::sockopt::socket_error(self.fd())??;
        match self {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(tls) => tls.handshake(),
        }
    }

    /// Returns the socket's file, for watching.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Plain(socket) => socket.as_fd(),
            Transport::Tls(tls) => tls.fd(),
        }
    }

    /// Returns the local address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        socket2::SockRef::from(&self.fd()).local_addr().ok()?.as_socket()
    }

    /// Returns whether the connection, which `has_output` or not, can continue only when the socket has room.
    pub fn needs_room(&self, has_output: bool) -> bool {
        match self {
            Transport::Plain(_) => has_output,
            Transport::Tls(tls) => tls.needs_room(has_output),
        }
    }

    /// Returns whether there is input, or an end, that no readiness event announces.
    #[inline]
    pub fn has_decrypted(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.has_decrypted())
    }

    /// As [`Self::has_decrypted`], or the socket may have unread input: for edge-triggered polling.
    #[inline]
    pub fn has_unread(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.has_unread())
    }

    /// Returns whether output that counts as written waits for room in the socket, and for [`Self::flush`].
    #[inline]
    pub fn has_unsent(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.has_unsent())
    }

    /// Returns whether a handshake must be done before bytes pass.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.is_handshaking())
    }

    /// Returns the memory of the transport besides the connection.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Transport::Plain(_) => 0,
            Transport::Tls(tls) => tls.memory_bytes(),
        }
    }

    /// Sends output that waits for room in the socket.
    pub fn flush(&mut self) -> Result<(), Stopped> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(tls) => tls.flush(),
        }
    }

    /// Appends available input, up to the spare capacity of `bytes`, which must not be zero; returns the number of
    /// bytes. The peer's end is [`Stopped::Closed`].
    #[inline]
    pub fn read(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Stopped> {
        match self {
            Transport::Plain(socket) => loop {
                match rustix::io::read(&*socket, spare_capacity(bytes)) {
                    Ok(0) => return Err(Stopped::Closed),
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
            Transport::Tls(tls) => tls.read(bytes),
        }
    }

    /// Writes some of the bytes; returns their number.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Stopped> {
        match self {
            Transport::Plain(socket) => loop {
                match rustix::net::send(&*socket, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
            Transport::Tls(tls) => tls.write(bytes),
        }
    }

    /// As [`Self::write`], for several slices.
    #[cold]
    pub fn write_runs(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, Stopped> {
        let mut nothing_beside = SendAncillaryBuffer::default();
        match self {
            Transport::Plain(socket) => loop {
                match rustix::net::sendmsg(&*socket, runs, &mut nothing_beside, SendFlags::NOSIGNAL) {
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
            Transport::Tls(tls) => tls.write_runs(runs),
        }
    }

    /// Delays small writes until the peer has acknowledged earlier ones (Nagle's algorithm): fewer packets, more latency. No
    /// effect on a Unix socket.
    pub fn gather_small_writes(&self) {
        if let Err(error) = rustix::net::sockopt::set_tcp_nodelay(self.fd(), false) {
            log::debug!("Switching TCP_NODELAY off: {error}");
        }
    }

    /// Closes the direction to the peer. Its input can still be read.
    pub fn shutdown_write(&mut self) -> Result<(), Stopped> {
        if let Transport::Tls(tls) = self {
            tls.close();
        }
        rustix::net::shutdown(self.fd(), Shutdown::Write).map_err(|_| Stopped::Closed)
    }

    /// Ends the connection for all processes that have its socket open.
    pub fn shut_down(&mut self) {
        // The connection may have ended already.
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Both);
    }

    /// Stops writing to the socket, to which a child writes from now on.
    pub fn leave_to_child(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.leave_to_child();
        }
    }
}

fn stopped_by(error: Errno) -> Stopped {
    if error == Errno::AGAIN { Stopped::WouldBlock } else { Stopped::Closed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn unix() -> (Transport, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        (Transport::Plain(here.into()), there)
    }

    fn tcp() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        (Transport::Plain(here.into()), there)
    }

    fn connect_to(address: SocketAddr) -> (Transport, io::Result<bool>) {
        let mut transport = Transport::connect(address, None, None).unwrap();
        let mut watched = [rustix::event::PollFd::new(&transport, rustix::event::PollFlags::OUT)];
        rustix::event::poll(&mut watched, None).unwrap();
        let connected = transport.connected();
        (transport, connected)
    }

    impl AsFd for Transport {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.fd()
        }
    }

    #[test]
    fn a_connection_outwards_comes_about_or_tells_why_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (transport, connected) = connect_to(address);
        assert!(connected.unwrap());
        bytes_pass_both_ways(transport, listener.accept().unwrap().0);
        drop(listener);
        let (_, connected) = connect_to(address);
        assert_eq!(connected.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_connection_outwards_comes_from_the_address_that_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let _transport = Transport::connect(listener.local_addr().unwrap(), Some(source), None).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), source.ip());
    }

    fn bytes_pass_both_ways(mut transport: Transport, mut peer: impl Read + Write) {
        let mut bytes = Vec::with_capacity(8);
        assert_eq!(transport.read(&mut bytes), Err(Stopped::WouldBlock));
        assert_eq!(transport.write(b"one "), Ok(4));
        assert_eq!(transport.write_runs(&[IoSlice::new(b"two "), IoSlice::new(b"three")]), Ok(9));
        let mut come = [0; 13];
        peer.read_exact(&mut come).unwrap();
        assert_eq!(&come, b"one two three");
        peer.write_all(b"0123456789").unwrap();
        // Input beyond the capacity of `bytes` stays for the next read.
        while bytes.len() < 8 {
            _ = transport.read(&mut bytes);
        }
        assert_eq!((bytes.as_slice(), bytes.capacity()), (&b"01234567"[..], 8));
        // The end of one direction does not end the other.
        assert_eq!(transport.shutdown_write(), Ok(()));
        assert_eq!(peer.read(&mut come).unwrap(), 0);
        bytes.clear();
        assert_eq!((transport.read(&mut bytes), bytes.as_slice()), (Ok(2), &b"89"[..]));
        drop(peer);
        assert_eq!(transport.read(&mut bytes), Err(Stopped::Closed));
    }

    #[test]
    fn bytes_pass_both_ways_over_tcp() {
        let (transport, peer) = tcp();
        bytes_pass_both_ways(transport, peer);
    }

    #[test]
    fn small_writes_are_gathered_where_there_are_packets() {
        let (transport, peer) = tcp();
        rustix::net::sockopt::set_tcp_nodelay(&transport, true).unwrap();
        transport.gather_small_writes();
        assert!(!rustix::net::sockopt::tcp_nodelay(&transport).unwrap());
        bytes_pass_both_ways(transport, peer);
        let (transport, peer) = unix();
        transport.gather_small_writes();
        bytes_pass_both_ways(transport, peer);
    }

    #[test]
    fn bytes_pass_both_ways_over_unix_sockets() {
        let (transport, peer) = unix();
        bytes_pass_both_ways(transport, peer);
    }

    #[test]
    fn a_peer_that_does_not_read_stops_the_writer_and_one_that_has_gone_ends_it() {
        let (mut transport, peer) = unix();
        let chunk = [b'x'; 4096];
        let stopped = (0..100_000).find_map(|_| transport.write(&chunk).err());
        assert_eq!(stopped, Some(Stopped::WouldBlock));
        drop(peer);
        assert_eq!(transport.write(&chunk), Err(Stopped::Closed));
        assert_eq!(transport.write_runs(&[IoSlice::new(&chunk)]), Err(Stopped::Closed));
    }
}
