//! A connection to a server: sends commands and receives responses.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use client::{Address, ConnectError, ConnectSettings, Replies, append_request, system_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::response::{ResponseError, Value};

use crate::encrypted::{Encrypted, EncryptedSender};
use crate::program::Program;

/// Why an exchange with the server failed.
#[derive(Debug)]
pub enum ConnectionError {
    Connect(Address, ConnectError),
    Write(io::Error),
    Read(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error @ ConnectError::Socket(_)) => {
                let server = Program::current().server;
                write!(f, "Could not connect to {server} at {address}: {error}")
            }
            Self::Connect(_, error) => error.fmt(f),
            Self::Write(error) | Self::Read(error) => write!(f, "Error: {}", system_text(error)),
            Self::Closed => f.write_str("Error: Server closed the connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl ConnectionError {
    /// Returns whether the peer has closed the connection, so that reconnecting may help.
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

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Encrypted>),
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

pub struct Connection {
    stream: Stream,
    replies: Replies,
}

/// The sending half of a connection, for another thread.
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

impl Connection {
    pub fn connect(address: &Address, settings: &ConnectSettings) -> Result<Self, ConnectionError> {
        let failed = |error| ConnectionError::Connect(address.clone(), error);
        let stream = match client::Stream::connect(address, settings).map_err(failed)? {
            client::Stream::Tcp(stream) => Stream::Tcp(stream),
            client::Stream::Unix(stream) => Stream::Unix(stream),
            client::Stream::Tls(stream) => {
                let encrypted = Encrypted::new(*stream).map_err(ConnectError::Handshake);
                Stream::Tls(Box::new(encrypted.map_err(failed)?))
            }
        };
        Ok(Self { stream, replies: Replies::default() })
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

    /// Reads bytes that are not a response, such as a snapshot's.
    pub fn read_bytes(&mut self, out: &mut [u8]) -> Result<usize, ConnectionError> {
        let count = match self.replies.take_bytes(out) {
            0 => {
                self.set_read_timeout(None)?;
                on_stream!(&mut self.stream, stream => stream.read(out)).map_err(ConnectionError::Read)?
            }
            count => count,
        };
        if count == 0 && !out.is_empty() { Err(ConnectionError::Closed) } else { Ok(count) }
    }

    /// Waits for bytes from the server, and from `other` if given, and returns which has some. A signal or the
    /// timeout may end the wait before.
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

    /// Returns a response that has been received completely, if there is one.
    pub fn received(&mut self) -> Result<Option<Value>, ConnectionError> {
        self.replies.whole().map_err(ConnectionError::Malformed)
    }

    /// Returns the next response, without a timeout.
    pub fn receive(&mut self) -> Result<Value, ConnectionError> {
        self.set_read_timeout(None)?;
        loop {
            // Without a timeout only a signal ends a read early.
            if let Some(value) = self.receive_some()? {
                return Ok(value);
            }
        }
    }

    /// Returns the next response, or `None` after the timeout.
    pub fn receive_within(&mut self, timeout: Duration) -> Result<Option<Value>, ConnectionError> {
        self.set_read_timeout(Some(timeout))?;
        self.receive_some()
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<(), ConnectionError> {
        on_stream!(&self.stream, stream => stream.set_read_timeout(timeout)).map_err(ConnectionError::Read)
    }

    /// Reads until a response is complete, or a read times out or is interrupted.
    fn receive_some(&mut self) -> Result<Option<Value>, ConnectionError> {
        loop {
            if let Some(value) = self.received()? {
                return Ok(Some(value));
            }
            match on_stream!(&mut self.stream, stream => self.replies.read_from(stream)) {
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
