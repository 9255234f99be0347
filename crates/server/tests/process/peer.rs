//! One end of a connection, spoken by hand. Whatever is waited for has to come within [`PATIENCE`]: a server that keeps a
//! connection open, or alive with signs of life, makes a test fail rather than wait.

use super::PATIENCE;
use memchr::memmem;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// When what is waited for has to have come.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    pub fn new() -> Self {
        Deadline(Instant::now() + PATIENCE)
    }

    /// What is left, of which there has to be something.
    #[track_caller]
    fn left(self, what: &str) -> Duration {
        let left = self.0.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{what}");
        left
    }
}

pub struct Peer {
    pub stream: TcpStream,
    /// Received bytes that the test has not taken.
    received: Vec<u8>,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, received: Vec::new() }
    }

    pub fn connect(port: u16) -> Self {
        Peer::new(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    #[track_caller]
    pub fn accept(listener: &TcpListener) -> Self {
        let deadline = Deadline::new();
        listener.set_nonblocking(true).unwrap();
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    return Peer::new(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    deadline.left("nobody connects");
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("no connection: {error}"),
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Waits for more; `false`: the other end has closed the connection.
    #[track_caller]
    pub fn receive(&mut self, deadline: Deadline) -> bool {
        let mut chunk = [0; 1 << 16];
        self.stream.set_read_timeout(Some(deadline.left("the connection stays open"))).unwrap();
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing comes: {error}"),
        }
    }

    /// What has come.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// The first of what has come.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let rest = self.received.split_off(len);
        std::mem::replace(&mut self.received, rest)
    }

    #[track_caller]
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        let deadline = Deadline::new();
        while self.received.len() < len {
            assert!(self.receive(deadline), "the connection is closed before {len} bytes have come");
        }
        self.take(len)
    }

    /// All before the mark, which is taken as well.
    #[track_caller]
    pub fn up_to(&mut self, mark: &[u8]) -> Vec<u8> {
        let (deadline, mut searched) = (Deadline::new(), 0);
        let end = loop {
            if let Some(at) = memmem::find(&self.received[searched..], mark) {
                break searched + at;
            }
            searched = self.received.len().saturating_sub(mark.len() - 1);
            assert!(self.receive(deadline), "the connection is closed before {mark:?} has come");
        };
        let mut taken = self.take(end + mark.len());
        taken.truncate(end);
        taken
    }

    /// Whether the other end closes the connection; what it sends before that is ignored, and may not go on for ever.
    #[track_caller]
    pub fn is_closed(&mut self) -> bool {
        let deadline = Deadline::new();
        while self.receive(deadline) {
            self.received.clear();
        }
        true
    }
}
