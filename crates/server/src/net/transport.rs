//! How bytes get from a connection to its peer and back. It alone reads and writes the socket, so that nothing above it
//! knows whether they are changed on the way.

use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use std::io::IoSlice;

/// Why no bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// None can for now: the poller tells when.
    WouldBlock,
    /// None will any more.
    Closed,
}

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub readable: bool,
    pub writable: bool,
}

/// A connected stream that does not block.
#[derive(Debug)]
pub enum Transport {
    /// TCP or a Unix socket, as it is.
    Plain(OwnedFd),
}

impl Transport {
    /// For watching only.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Plain(socket) => socket.as_fd(),
        }
    }

    /// What the socket has to be ready for, so that a connection gets what it `wants`: bytes to read, or room for its own.
    pub fn interest(&self, wants: Interest) -> Interest {
        match self {
            Transport::Plain(_) => wants,
        }
    }

    /// Appends what has come, at most as much as `bytes` has room for without growing, which must be some; how much. The
    /// peer's end is [`Stopped::Closed`].
    #[inline]
    pub fn read(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Stopped> {
        match self {
            Transport::Plain(socket) => loop {
                match rustix::io::read(&*socket, spare_capacity(bytes)) {
                    Ok(0) => return Err(Stopped::Closed),
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
        }
    }

    /// Writes some of the bytes; how many.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Stopped> {
        match self {
            Transport::Plain(socket) => loop {
                match rustix::net::send(&*socket, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
        }
    }

    /// As [`Self::write`], of several runs of bytes one after the other.
    #[cold]
    pub fn write_runs(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, Stopped> {
        let mut nothing_beside = SendAncillaryBuffer::default();
        match self {
            Transport::Plain(socket) => loop {
                match rustix::net::sendmsg(&*socket, runs, &mut nothing_beside, SendFlags::NOSIGNAL) {
                    Ok(count) => return Ok(count),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(stopped_by(error)),
                }
            },
        }
    }

    /// Tells the peer that no more will be written to it. What it sends can be read on.
    pub fn shutdown_write(&mut self) -> Result<(), Stopped> {
        match self {
            Transport::Plain(socket) => {
                rustix::net::shutdown(&*socket, Shutdown::Write).map_err(|_| Stopped::Closed)
            }
        }
    }
}

fn stopped_by(error: Errno) -> Stopped {
    if error == Errno::AGAIN { Stopped::WouldBlock } else { Stopped::Closed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn unix() -> (Transport, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        (Transport::Plain(here.into()), there)
    }

    fn tcp() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        (Transport::Plain(here.into()), there)
    }

    fn bytes_pass_both_ways(mut transport: Transport, mut peer: impl Read + Write) {
        let mut bytes = Vec::with_capacity(8);
        assert_eq!(transport.read(&mut bytes), Err(Stopped::WouldBlock));
        assert_eq!(transport.write(b"one "), Ok(4));
        assert_eq!(transport.write_runs(&[IoSlice::new(b"two "), IoSlice::new(b"three")]), Ok(9));
        let mut come = [0; 13];
        peer.read_exact(&mut come).unwrap();
        assert_eq!(&come, b"one two three");
        peer.write_all(b"0123456789").unwrap();
        // What `bytes` has no room for stays for the next time.
        while bytes.len() < 8 {
            _ = transport.read(&mut bytes);
        }
        assert_eq!((bytes.as_slice(), bytes.capacity()), (&b"01234567"[..], 8));
        // The end of one direction is not that of the other.
        assert_eq!(transport.shutdown_write(), Ok(()));
        assert_eq!(peer.read(&mut come).unwrap(), 0);
        bytes.clear();
        assert_eq!((transport.read(&mut bytes), bytes.as_slice()), (Ok(2), &b"89"[..]));
        drop(peer);
        assert_eq!(transport.read(&mut bytes), Err(Stopped::Closed));
    }

    #[test]
    fn bytes_pass_both_ways_over_tcp() {
        let (transport, peer) = tcp();
        bytes_pass_both_ways(transport, peer);
    }

    #[test]
    fn bytes_pass_both_ways_over_unix_sockets() {
        let (transport, peer) = unix();
        bytes_pass_both_ways(transport, peer);
    }

    #[test]
    fn a_peer_that_does_not_read_stops_the_writer_and_one_that_has_gone_ends_it() {
        let (mut transport, peer) = unix();
        let chunk = [b'x'; 4096];
        let stopped = (0..100_000).find_map(|_| transport.write(&chunk).err());
        assert_eq!(stopped, Some(Stopped::WouldBlock));
        drop(peer);
        assert_eq!(transport.write(&chunk), Err(Stopped::Closed));
        assert_eq!(transport.write_runs(&[IoSlice::new(&chunk)]), Err(Stopped::Closed));
    }
}
