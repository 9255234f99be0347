//! A TLS connection on which one thread can read while another writes.
//!
//! A writer locks `outgoing` until its bytes are written, and `session` only while it encrypts; a reader locks
//! `session` only while it decrypts. So neither blocks while the server waits for the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tls::{Session, TlsStream};

const READ_LEN: usize = 32 * 1024;

struct Shared {
    outgoing: Mutex<TcpStream>,
    session: Mutex<Session>,
}

pub struct Encrypted {
    socket: TcpStream,
    shared: Arc<Shared>,
    /// Bytes read from the socket.
    received: Vec<u8>,
    /// Decrypted bytes that have not been taken.
    decrypted: Vec<u8>,
}

/// The writing half.
pub struct EncryptedSender(Arc<Shared>);

/// Received bytes in place of a socket; bytes written in response are kept.
struct Received<'a>(&'a [u8]);

impl Read for Received<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.0.read(buffer) }
    }
}

impl Write for Received<'_> {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = locked(&self.outgoing);
        let mut encrypted = Vec::new();
        let written = locked(&self.session).write(&mut encrypted, bytes)?;
        socket.write_all(&encrypted)?;
        Ok(written)
    }
}

impl Encrypted {
    /// Creates the connection after the handshake.
    pub fn new(stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let (socket, session) = stream.into_parts();
        let shared = Shared { outgoing: Mutex::new(socket.try_clone()?), session: Mutex::new(session) };
        Ok(Encrypted { socket, shared: Arc::new(shared), received: vec![0; READ_LEN], decrypted: Vec::new() })
    }

    pub fn sender(&self) -> EncryptedSender {
        EncryptedSender(Arc::clone(&self.shared))
    }

    /// Returns whether there are bytes that can be read without the socket.
    pub fn has_decrypted(&self) -> bool {
        !self.decrypted.is_empty()
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// Decrypts received bytes: returns 0 at the end, `None` if more are needed.
    fn decrypt(&mut self, received: usize) -> io::Result<Option<usize>> {
        let mut session = locked(&self.shared.session);
        let mut incoming = Received(&self.received[..received]);
        loop {
            self.decrypted.reserve(READ_LEN);
            match session.read(&mut incoming, &mut self.decrypted) {
                Ok(0) if self.decrypted.is_empty() => return Ok(Some(0)),
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Bytes decrypted before the error are returned first.
                Err(_) if !self.decrypted.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok((!self.decrypted.is_empty()).then_some(self.decrypted.len()))
    }
}

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Bytes left from the handshake are decrypted without a read.
        let mut is_over = !self.decrypted.is_empty() || self.decrypt(0)?.is_some();
        while !is_over {
            let count = self.socket.read(&mut self.received)?;
            if count == 0 {
                return Ok(0);
            }
            is_over = self.decrypt(count)?.is_some();
        }
        let count = self.decrypted.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.decrypted[..count]);
        self.decrypted.drain(..count);
        Ok(count)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for EncryptedSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
