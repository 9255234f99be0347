//! A session on a blocking socket.

use crate::{ClientConfig, ServerName, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// Bytes decrypted per call.
const RECEIVED_BYTES: usize = 32 * 1024;

/// A TLS client on a blocking socket.
pub struct TlsStream<S: Read + Write> {
    /// The socket; reads and writes on it bypass TLS.
    pub socket: S,
    session: Session,
    /// Decrypted bytes, read up to `position`.
    received: Vec<u8>,
    position: usize,
}

/// A socket that records its failures. `WouldBlock` of a session on a blocking socket means that more must be read, unless
/// the socket itself has failed with it by a timeout.
struct Watched<'a, S> {
    socket: &'a mut S,
    has_failed: bool,
}

impl<S> Watched<'_, S> {
    /// Repeats calls that were interrupted.
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
    /// Performs a client's handshake.
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

    /// Returns socket and session, directly after the handshake.
    pub fn into_parts(self) -> (S, Session) {
        (self.socket, self.session)
    }

    /// Returns whether there are bytes to read that the socket does not announce.
    pub fn has_received(&self) -> bool {
        self.position < self.received.len() || self.session.has_decrypted()
    }

    /// Signals the end of the stream to the server.
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
