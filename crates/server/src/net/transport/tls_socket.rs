//! A socket with a TLS session.

use super::Stopped;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::SendFlags;
use std::io::{self, ErrorKind, IoSlice};
use tls::Session;

/// A connected socket with its TLS session.
pub struct TlsSocket {
    socket: OwnedFd,
    session: Session,
    /// The end of the handshake has been reported.
    is_announced: bool,
}

impl std::fmt::Debug for TlsSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The socket, as the session's stream.
struct Raw<'a>(&'a OwnedFd);

impl io::Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

impl io::Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsSocket {
    /// Wraps a connected socket.
    pub fn new(socket: OwnedFd, session: Session) -> Self {
        TlsSocket { socket, session, is_announced: false }
    }

    /// Returns the socket's file, for watching.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns whether the connection can continue only when the socket has room. During a handshake only the handshake's
    /// bytes are written.
    pub fn needs_room(&self, has_output: bool) -> bool {
        has_output && self.session.is_established() || self.session.has_unsent()
    }

    /// Returns whether there is decrypted input, or an end, that no readiness event announces.
    #[inline]
    pub fn has_decrypted(&self) -> bool {
        self.session.has_decrypted()
    }

    /// As [`Self::has_decrypted`], or the socket may have unread input.
    #[inline]
    pub fn has_unread(&self) -> bool {
        self.session.has_unread()
    }

    /// Returns whether encrypted output waits for room in the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.session.has_unsent()
    }

    /// Returns whether the handshake is in progress.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        !self.session.is_established()
    }

    /// Returns whether the handshake is complete, once.
    pub fn is_newly_established(&mut self) -> bool {
        self.session.is_established() && !std::mem::replace(&mut self.is_announced, true)
    }

    /// Returns the peer's certificate, which has been verified.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.session.peer_certificate()
    }

    /// Returns the error of a failed handshake.
    pub fn handshake_failure(&self) -> Option<String> {
        if self.session.is_established() {
            return None;
        }
        let closed = || "the peer has closed the connection".to_owned();
        Some(self.session.failure().map_or_else(closed, ToString::to_string))
    }

    /// Returns the memory of the session.
    pub fn memory_bytes(&self) -> usize {
        size_of::<OwnedFd>() + self.session.memory_bytes()
    }

    /// Continues the handshake; returns whether it is complete.
    pub fn handshake(&mut self) -> io::Result<bool> {
        self.session.handshake(&mut Raw(&self.socket))
    }

    /// Sends encrypted output that waits for room in the socket.
    pub fn flush(&mut self) -> Result<(), Stopped> {
        self.session.flush(&mut Raw(&self.socket)).map_err(|error| stopped_by(&error))
    }

    /// Reads and decrypts available input.
    pub fn read(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Stopped> {
        match self.session.read(&mut Raw(&self.socket), bytes) {
            Ok(0) => Err(Stopped::Closed),
            Ok(count) => Ok(count),
            Err(error) => Err(stopped_by(&error)),
        }
    }

    /// Encrypts and writes some of the bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Stopped> {
        self.session.write(&mut Raw(&self.socket), bytes).map_err(|error| stopped_by(&error))
    }

    /// As [`Self::write`], for several slices.
    pub fn write_runs(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, Stopped> {
        self.session.write_runs(&mut Raw(&self.socket), runs).map_err(|error| stopped_by(&error))
    }

    /// Stops writing: a child continues with a copy of the session. Records written by this process would reuse the child's
    /// record numbers, which would break the encryption of both.
    pub fn leave_to_child(&mut self) {
        self.session.stop_writing();
    }

    /// Sends the closing alert, if the socket takes it.
    pub fn close(&mut self) {
        // Without the alert the peer sees the end of the socket.
        let _ = self.session.close(&mut Raw(&self.socket));
    }
}

/// Sends the closing alert, without which a peer cannot distinguish the end from an attack.
impl Drop for TlsSocket {
    fn drop(&mut self) {
        self.close();
    }
}

fn stopped_by(error: &io::Error) -> Stopped {
    if error.kind() == ErrorKind::WouldBlock { Stopped::WouldBlock } else { Stopped::Closed }
}
