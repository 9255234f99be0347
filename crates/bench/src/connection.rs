//! Connections to a server, over TCP, a Unix socket or TLS, set up before their first request; and conversations, for
//! what is asked once.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tls::{ClientConfig, ServerName, TlsStream};
use wire::response::{Reader, ResponseError, Value};

use crate::template::append_request;

const READ_LEN: usize = 64 * 1024;
/// Commands that a bulk load sends before it reads their replies.
const BULK_COMMANDS: u64 = 500;

#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How connections are encrypted.
#[derive(Clone)]
pub struct Encryption {
    pub config: Arc<ClientConfig>,
    /// What the server is called, if not by its address.
    pub name: Option<String>,
}

/// What every connection does first.
#[derive(Clone)]
pub struct Setup {
    pub address: Address,
    pub encryption: Option<Encryption>,
    /// Multipath TCP.
    pub is_multipath: bool,
    /// TCP sends small pieces at once instead of waiting for more.
    pub no_delay: bool,
    pub commands: Vec<Vec<String>>,
}

impl Setup {
    pub fn of_port(port: u16) -> Self {
        Self {
            address: Address::Tcp("127.0.0.1".to_string(), port),
            encryption: None,
            is_multipath: false,
            no_delay: true,
            commands: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub enum LoadError {
    Connect(Address, io::Error),
    Handshake(io::Error),
    /// An error instead of an answer.
    Answer(String),
    Poll(io::Error),
    Transfer(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error) => write!(f, "Could not connect to server at {address}: {error}"),
            Self::Handshake(error) => write!(f, "Error: Could not negotiate a TLS connection: {error}"),
            Self::Answer(answer) => write!(f, "Error from server: {answer}"),
            Self::Poll(error) => write!(f, "Error: cannot wait for events: {error}"),
            Self::Transfer(error) => write!(f, "Error: {error}"),
            Self::Closed => f.write_str("Error: Server closed the connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
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

impl Stream {
    /// Connected, and for TLS with its handshake done; reading and writing block.
    pub fn connect(setup: &Setup) -> Result<Self, LoadError> {
        let refused = |error| LoadError::Connect(setup.address.clone(), error);
        let (host, port) = match &setup.address {
            Address::Tcp(host, port) => (host, *port),
            Address::Unix(path) => return UnixStream::connect(path).map(Self::Unix).map_err(refused),
        };
        let stream = match setup.is_multipath {
            true => connect_multipath(host, port),
            false => TcpStream::connect((host.as_str(), port)),
        };
        let stream = stream.map_err(refused)?;
        stream.set_nodelay(setup.no_delay).map_err(refused)?;
        let Some(Encryption { config, name }) = &setup.encryption else { return Ok(Self::Tcp(stream)) };
        let name = ServerName::try_from(name.as_ref().unwrap_or(host).clone())
            .map_err(|error| LoadError::Handshake(io::Error::other(error)))?;
        let stream = TlsStream::connect(stream, Arc::clone(config), name).map_err(LoadError::Handshake)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Connected and set up.
    pub fn prepare(setup: &Setup) -> Result<Self, LoadError> {
        let mut conversation =
            Conversation { stream: Self::connect(setup)?, reader: Reader::new(), received: Vec::new() };
        for command in &setup.commands {
            conversation.ask(command)?;
        }
        Ok(conversation.stream)
    }

    /// Whether there may be something to read that a poll will not tell of.
    pub fn has_received(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_received())
    }

    pub fn set_nonblocking(&self) -> Result<(), LoadError> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tls(stream) => stream.socket.set_nonblocking(true),
        }
        .map_err(LoadError::Transfer)
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
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

/// The first of a host's addresses that takes a connection of several paths.
fn connect_multipath(host: &str, port: u16) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
    let mut refusal = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let connected = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP))
            .and_then(|socket| connect(&socket, &address).map(|()| socket));
        match connected {
            Ok(socket) => return Ok(socket.into()),
            Err(error) => refusal = error.into(),
        }
    }
    Err(refusal)
}

/// One command at a time, with its answer.
pub struct Conversation {
    stream: Stream,
    reader: Reader,
    received: Vec<u8>,
}

impl Conversation {
    pub fn new(setup: &Setup) -> Result<Self, LoadError> {
        Ok(Self { stream: Stream::prepare(setup)?, reader: Reader::new(), received: Vec::new() })
    }

    /// A conversation with a server that may just have been started: it is tried until the time is over.
    pub fn with_patience(setup: &Setup, patience: Duration) -> Result<Self, LoadError> {
        let start = std::time::Instant::now();
        loop {
            let answer = Self::new(setup).and_then(|mut conversation| {
                conversation.ask(&["PING"])?;
                Ok(conversation)
            });
            match answer {
                Err(_) if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(20)),
                answer => return answer,
            }
        }
    }

    /// The answer to a command; one that is an error is [`LoadError::Answer`].
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, LoadError> {
        let mut request = Vec::new();
        append_request(&mut request, args);
        self.stream.write_all(&request).map_err(LoadError::Transfer)?;
        self.stream.flush().map_err(LoadError::Transfer)?;
        self.answer()
    }

    /// So many commands, which `append` encodes one by one; the first answer that is an error ends it.
    pub fn load(&mut self, count: u64, mut append: impl FnMut(u64, &mut Vec<u8>)) -> Result<(), LoadError> {
        let mut request = Vec::new();
        for first in (0..count).step_by(BULK_COMMANDS as usize) {
            let behind = count.min(first + BULK_COMMANDS);
            request.clear();
            (first..behind).for_each(|number| append(number, &mut request));
            self.stream.write_all(&request).map_err(LoadError::Transfer)?;
            self.stream.flush().map_err(LoadError::Transfer)?;
            for _ in first..behind {
                self.answer()?;
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<Value, LoadError> {
        loop {
            let mut position = 0;
            let answer = self.reader.read(&self.received, &mut position).map_err(LoadError::Malformed)?;
            self.received.drain(..position);
            match answer {
                Some(Value::Error(text)) => {
                    return Err(LoadError::Answer(String::from_utf8_lossy(&text).into_owned()));
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
            let mut piece = [0; READ_LEN];
            match self.stream.read(&mut piece).map_err(LoadError::Transfer)? {
                0 => return Err(LoadError::Closed),
                len => self.received.extend_from_slice(&piece[..len]),
            }
        }
    }

    /// A line of INFO, such as `used_memory`.
    pub fn info(&mut self, section: &str, field: &str) -> Result<Option<String>, LoadError> {
        let answer = self.ask(&["INFO", section])?;
        let text = String::from_utf8_lossy(answer.as_bytes().unwrap_or_default()).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.map(|value| value.trim().to_string()))
    }
}
