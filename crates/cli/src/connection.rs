//! One connection to a server: commands out, responses in.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use wire::response::{Reader, ResponseError, Value};

use crate::encrypted::{Encrypted, EncryptedSender, Encryption};
use crate::program::Program;

const READ_LEN: usize = 64 * 1024;
/// Silence after which the system asks whether the other side is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_BETWEEN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Which of a name's addresses are tried first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    V4,
    V6,
}

/// How connections are made.
#[derive(Clone, Debug, Default)]
pub struct ConnectSettings {
    /// Zero leaves it to the system.
    pub timeout: Duration,
    pub preferred_family: Option<Family>,
    /// Several paths at once (MPTCP).
    pub multipath: bool,
    pub encryption: Option<Encryption>,
}

/// What went wrong between us and the server.
#[derive(Debug)]
pub enum ConnectionError {
    Connect(Address, io::Error),
    Encrypt(io::Error),
    Write(io::Error),
    Read(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error) => {
                let server = Program::current().server;
                write!(f, "Could not connect to {server} at {address}: {}", system_text(error))
            }
            Self::Encrypt(error) => write!(f, "Could not negotiate a TLS connection: {error}"),
            Self::Write(error) | Self::Read(error) => write!(f, "Error: {}", system_text(error)),
            Self::Closed => f.write_str("Error: Server closed the connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl ConnectionError {
    /// The other side has gone, so that a new connection may help.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Write(error) | Self::Read(error) => {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
            _ => false,
        }
    }
}

/// The system's words for an error, without what the library puts around them.
pub fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Encrypted>),
}

/// Calls the same method on whichever stream there is.
macro_rules! on_stream {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

pub struct Connection {
    stream: Stream,
    reader: Reader,
    buffer: Vec<u8>,
    position: usize,
}

/// The half of a connection that only sends, for another thread.
pub enum Sender {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(EncryptedSender),
}

impl Sender {
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let sent = match self {
            Sender::Tcp(stream) => stream.write_all(bytes),
            Sender::Unix(stream) => stream.write_all(bytes),
            Sender::Tls(sender) => sender.write_all(bytes),
        };
        sent.map_err(ConnectionError::Write)
    }
}

fn connect_tcp(host: &str, port: u16, settings: &ConnectSettings) -> io::Result<TcpStream> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if let Some(family) = settings.preferred_family {
        // A stable sort: the system's order stays within each family.
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
    Ok(socket.into())
}

impl Connection {
    pub fn connect(address: &Address, settings: &ConnectSettings) -> Result<Self, ConnectionError> {
        let failed = |error| ConnectionError::Connect(address.clone(), error);
        let stream = match address {
            Address::Tcp(host, port) => {
                let stream = connect_tcp(host, *port, settings).map_err(failed)?;
                prepare(&stream).map_err(failed)?;
                match &settings.encryption {
                    None => Stream::Tcp(stream),
                    Some(encryption) => {
                        let encrypted = Encrypted::connect(stream, encryption, host);
                        Stream::Tls(Box::new(encrypted.map_err(ConnectionError::Encrypt)?))
                    }
                }
            }
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path).map_err(failed)?),
        };
        Ok(Self { stream, reader: Reader::new(), buffer: Vec::new(), position: 0 })
    }

    pub fn sender(&self) -> Result<Sender, ConnectionError> {
        let stream = match &self.stream {
            Stream::Tcp(stream) => stream.try_clone().map(Sender::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Sender::Unix),
            Stream::Tls(stream) => Ok(Sender::Tls(stream.sender())),
        };
        stream.map_err(ConnectionError::Write)
    }

    /// Makes a reader in another thread find the connection closed.
    pub fn shut_down(&self) {
        let _already_closed = on_stream!(&self.stream, stream => stream.shutdown(Shutdown::Both));
    }

    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<(), ConnectionError> {
        let mut request = Vec::new();
        append_request(&mut request, args);
        self.send_bytes(&request)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        on_stream!(&mut self.stream, stream => stream.write_all(bytes)).map_err(ConnectionError::Write)
    }

    /// Bytes that are no response, such as a snapshot's: some of those that come next.
    pub fn read_bytes(&mut self, out: &mut [u8]) -> Result<usize, ConnectionError> {
        let received = &self.buffer[self.position..];
        let count = if received.is_empty() {
            self.set_read_timeout(None)?;
            on_stream!(&mut self.stream, stream => stream.read(out)).map_err(ConnectionError::Read)?
        } else {
            let count = received.len().min(out.len());
            out[..count].copy_from_slice(&received[..count]);
            self.position += count;
            count
        };
        if count == 0 && !out.is_empty() { Err(ConnectionError::Closed) } else { Ok(count) }
    }

    /// Waits for bytes from the server, and from `other` if there is one: whether each has some. A signal or the time
    /// may end it before either has.
    pub fn wait(
        &self,
        other: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> Result<(bool, bool), ConnectionError> {
        if let Stream::Tls(stream) = &self.stream
            && stream.has_decrypted()
        {
            return Ok((true, false));
        }
        let socket = on_stream!(&self.stream, stream => stream.as_fd());
        let mut sources = vec![PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        sources.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match poll(&mut sources, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, false)),
            Err(error) => return Err(ConnectionError::Read(error.into())),
        }
        let has_some = |index: usize| sources.get(index).is_some_and(|source| !source.revents().is_empty());
        Ok((has_some(0), has_some(1)))
    }

    /// A response that has come already, if there is a whole one.
    pub fn received(&mut self) -> Result<Option<Value>, ConnectionError> {
        self.reader.read(&self.buffer, &mut self.position).map_err(ConnectionError::Malformed)
    }

    /// The next response, however long it takes.
    pub fn receive(&mut self) -> Result<Value, ConnectionError> {
        self.set_read_timeout(None)?;
        loop {
            // Without a timeout only an interrupting signal ends a read early.
            if let Some(value) = self.receive_some()? {
                return Ok(value);
            }
        }
    }

    /// The next response, or `None` if it does not come in time.
    pub fn receive_within(&mut self, timeout: Duration) -> Result<Option<Value>, ConnectionError> {
        self.set_read_timeout(Some(timeout))?;
        self.receive_some()
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<(), ConnectionError> {
        on_stream!(&self.stream, stream => stream.set_read_timeout(timeout)).map_err(ConnectionError::Read)
    }

    /// Reads until a response is whole, or until a read times out or is interrupted.
    fn receive_some(&mut self) -> Result<Option<Value>, ConnectionError> {
        loop {
            if let Some(value) = self.received()? {
                return Ok(Some(value));
            }
            self.buffer.drain(..self.position);
            self.position = 0;
            let len = self.buffer.len();
            // Room for what is missing, but never more at once than was received already.
            let wanted = self.reader.wanted_bytes().min(len);
            self.buffer.resize(len + wanted.max(READ_LEN), 0);
            let read = on_stream!(&mut self.stream, stream => stream.read(&mut self.buffer[len..]));
            self.buffer.truncate(len + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                        return Ok(None);
                    }
                    _ => return Err(ConnectionError::Read(error)),
                },
            }
        }
    }
}

/// What every connection over TCP has.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_BETWEEN).with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// A command as an array of bulks.
pub fn append_request<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
