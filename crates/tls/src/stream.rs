//! A session on a socket that blocks, for programs with one conversation at a time.

use crate::{ClientConfig, ServerName, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// Bytes decrypted at once.
const RECEIVED_BYTES: usize = 32 * 1024;

pub struct TlsStream<S: Read + Write> {
    pub socket: S,
    session: Session,
    /// What was decrypted, and how much of it has been read.
    received: Vec<u8>,
    position: usize,
}

/// A socket, and whether it has failed: what a session waits for a blocking socket brings.
struct Watched<'a, S> {
    socket: &'a mut S,
    has_failed: bool,
}

impl<S> Watched<'_, S> {
    /// A call that was interrupted is made again.
    fn note(&mut self, error: &io::Error) {
        self.has_failed |= error.kind() != ErrorKind::Interrupted;
    }
}

impl<S: Read> Read for Watched<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer).inspect_err(|error| self.note(error))
    }
}

impl<S: Write> Write for Watched<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes).inspect_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// Does the handshake of a client.
    pub fn connect(mut socket: S, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let mut session = Session::client(config, name).map_err(io::Error::other)?;
        loop {
            let mut watched = Watched { socket: &mut socket, has_failed: false };
            if session.handshake(&mut watched)? {
                return Ok(TlsStream { socket, session, received: Vec::new(), position: 0 });
            }
            if watched.has_failed {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// The socket and the session, right after the handshake.
    pub fn into_parts(self) -> (S, Session) {
        (self.socket, self.session)
    }

    /// Whether there is something to read that the socket says nothing of.
    pub fn has_received(&self) -> bool {
        self.position < self.received.len() || self.session.has_decrypted()
    }

    /// Signals the server that no more bytes will be written.
    pub fn close(&mut self) -> io::Result<()> {
        self.session.close(&mut self.socket)
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.received.len() {
            self.received.clear();
            self.position = 0;
            self.received.reserve(RECEIVED_BYTES);
            let mut watched = Watched { socket: &mut self.socket, has_failed: false };
            match self.session.read(&mut watched, &mut self.received) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !watched.has_failed => {}
                Err(error) => return Err(error),
            }
        }
        let rest = &self.received[self.position..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.write(&mut self.socket, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.session.flush(&mut self.socket)
    }
}
