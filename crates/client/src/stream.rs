//! A connection to a server, over TCP, a Unix socket or TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tls::{ClientConfig, ServerName, TlsStream};

use crate::Address;

/// Idle time after which the system sends keepalive probes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_BETWEEN: Duration = Duration::from_secs(5);
const KEEPALIVE_TRIES: u32 = 3;

/// The address family that is tried first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Encryption of connections.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// Configuration of TLS.
    pub config: Arc<ClientConfig>,
    /// Name of the server, if it differs from its address.
    pub name: Option<String>,
}

/// Settings of connections.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// Timeout per address of a name; zero is that of the system.
    pub timeout: Duration,
    /// The address family that is tried first.
    pub preferred_family: Option<Family>,
    /// Whether multipath TCP (MPTCP) is used.
    pub multipath: bool,
    /// Whether Nagle's algorithm is disabled.
    pub no_delay: bool,
    /// Whether TCP keepalive is enabled.
    pub keepalive: bool,
    /// Encryption with TLS, if any.
    pub encryption: Option<Encryption>,
}

impl Default for ConnectSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::ZERO,
            preferred_family: None,
            multipath: false,
            no_delay: true,
            keepalive: false,
            encryption: None,
        }
    }
}

/// Why a connection could not be established.
#[derive(Debug)]
pub enum ConnectError {
    /// An error of the socket or of the name's resolution.
    Socket(io::Error),
    /// A failed TLS handshake.
    Handshake(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => f.write_str(&system_text(error)),
            Self::Handshake(error) => write!(f, "Could not negotiate a TLS connection: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Returns the system's error text, without the library's additions.
pub fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A connection to a server.
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of the variant's stream.
macro_rules! on_stream {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl Stream {
    /// Connects, and completes the handshake of TLS; reads and writes block.
    pub fn connect(address: &Address, settings: &ConnectSettings) -> Result<Self, ConnectError> {
        let (host, port) = match address {
            Address::Tcp(host, port) => (host, *port),
            Address::Unix(path) => {
                return UnixStream::connect(path).map(Self::Unix).map_err(ConnectError::Socket);
            }
        };
        let stream = connect_tcp(host, port, settings).map_err(ConnectError::Socket)?;
        let Some(Encryption { config, name }) = &settings.encryption else { return Ok(Self::Tcp(stream)) };
        let name = ServerName::try_from(name.as_ref().unwrap_or(host).clone())
            .map_err(|error| ConnectError::Handshake(io::Error::other(error)))?;
        let stream = TlsStream::connect(stream, Arc::clone(config), name).map_err(ConnectError::Handshake)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Returns whether there may be bytes to read that a poll does not report.
    pub fn has_received(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_received())
    }

    /// Makes reads and writes non-blocking.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tls(stream) => stream.socket.set_nonblocking(true),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        on_stream!(self, stream => stream.read(piece))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        on_stream!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        on_stream!(self, stream => stream.flush())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

/// Connects to the first address of a host that accepts.
fn connect_tcp(host: &str, port: u16, settings: &ConnectSettings) -> io::Result<TcpStream> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if let Some(family) = settings.preferred_family {
        // The sort is stable: the system's order is kept within each family.
        addresses.sort_by_key(|address| address.is_ipv4() != (family == Family::V4));
    }
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match connect_address(address, settings) {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn connect_address(address: SocketAddr, settings: &ConnectSettings) -> io::Result<TcpStream> {
    let protocol = settings.multipath.then_some(Protocol::MPTCP);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
    match settings.timeout {
        Duration::ZERO => socket.connect(&address.into())?,
        timeout => socket.connect_timeout(&address.into(), timeout)?,
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(settings.no_delay)?;
    if settings.keepalive {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_BETWEEN)
            .with_retries(KEEPALIVE_TRIES);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    }
    Ok(stream)
}
