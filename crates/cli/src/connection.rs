//! One connection to a server: commands out, responses in.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use wire::response::{Reader, ResponseError, Value};

use crate::encrypted::{Encrypted, EncryptedSender, Encryption};

const READ_LEN: usize = 64 * 1024;

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

/// What went wrong between us and the server.
#[derive(Debug)]
pub enum ConnectionError {
    Connect(Address, io::Error),
    Write(io::Error),
    Read(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error) => write!(f, "Could not connect to {address}: {error}"),
            Self::Write(error) => write!(f, "Error: cannot write to the server: {error}"),
            Self::Read(error) => write!(f, "Error: cannot read from the server: {error}"),
            Self::Closed => f.write_str("Error: Server closed the connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}

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

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    if timeout.is_zero() {
        return TcpStream::connect((host, port));
    }
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

impl Connection {
    /// `timeout`: zero leaves it to the system.
    pub fn connect(
        address: &Address,
        timeout: Duration,
        encryption: Option<&Encryption>,
    ) -> Result<Self, ConnectionError> {
        let stream = match address {
            Address::Tcp(host, port) => connect_tcp(host, *port, timeout).and_then(|stream| {
                stream.set_nodelay(true)?;
                match encryption {
                    None => Ok(Stream::Tcp(stream)),
                    Some(encryption) => {
                        Ok(Stream::Tls(Box::new(Encrypted::connect(stream, encryption, host)?)))
                    }
                }
            }),
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        };
        let stream = stream.map_err(|error| ConnectionError::Connect(address.clone(), error))?;
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
        on_stream!(&mut self.stream, stream => stream.write_all(&request)).map_err(ConnectionError::Write)
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

    pub fn request<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, ConnectionError> {
        self.send(args)?;
        self.receive()
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<(), ConnectionError> {
        on_stream!(&self.stream, stream => stream.set_read_timeout(timeout)).map_err(ConnectionError::Read)
    }

    /// Reads until a response is whole, or until a read times out or is interrupted.
    fn receive_some(&mut self) -> Result<Option<Value>, ConnectionError> {
        loop {
            let value =
                self.reader.read(&self.buffer, &mut self.position).map_err(ConnectionError::Malformed)?;
            if value.is_some() {
                return Ok(value);
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
