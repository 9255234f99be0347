//! The poller of ready files: epoll. Connections are edge-triggered, since their input may have to wait for the executor;
//! listeners, signals and pipes are level-triggered.

use crate::session::ClientHandle;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::time::Duration;
use wire::convert::{low_u32, signed_count};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

const EDGES: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// The subject of a readiness event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The connection of a client.
    Connection(ClientHandle),
    /// By its identifier.
    Listener(u32),
    /// A signal has arrived.
    Signal,
    /// Another thread has sent a value.
    Waker,
    /// A child has written output for replicas.
    SyncPipe,
    /// A request over HTTP.
    Http,
    /// A link of the cluster bus, by its number, which is below 2^62.
    BusLink(u64),
}

/// Handles never use this bit.
const NOT_CONNECTION: u64 = 1 << 63;
/// What is no connection has this bit if it is a link.
const LINK: u64 = 1 << 62;

impl Token {
    fn pack(self) -> u64 {
        match self {
            Token::Connection(handle) => handle.to_bits(),
            Token::Listener(index) => NOT_CONNECTION | 1 << 32 | index as u64,
            Token::Signal => NOT_CONNECTION | 2 << 32,
            Token::Waker => NOT_CONNECTION | 3 << 32,
            Token::SyncPipe => NOT_CONNECTION | 4 << 32,
            Token::Http => NOT_CONNECTION | 5 << 32,
            Token::BusLink(number) => NOT_CONNECTION | LINK | number,
        }
    }

    fn unpack(data: u64) -> Self {
        if data & NOT_CONNECTION == 0 {
            return Token::Connection(ClientHandle::from_bits(data));
        }
        if data & LINK != 0 {
            return Token::BusLink(data & !(NOT_CONNECTION | LINK));
        }
        match (data & !NOT_CONNECTION) >> 32 {
            1 => Token::Listener(low_u32(data)),
            2 => Token::Signal,
            3 => Token::Waker,
            5 => Token::Http,
            _ => Token::SyncPipe,
        }
    }
}

/// A readiness event of a file.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The source of the event.
    pub token: Token,
    /// Whether it can be read, or is at its end.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether the peer has closed its sending side.
    pub hung_up: bool,
    /// Whether the peer has sent TCP urgent data, at which a read stops.
    pub urgent: bool,
}

/// An epoll instance.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// Creates an epoll instance.
    pub fn new() -> io::Result<Self> {
        Ok(Self::of(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Wraps an epoll file created elsewhere.
    pub fn of(epoll: OwnedFd) -> Self {
        Poller { epoll, events: Vec::with_capacity(EVENTS_MAX) }
    }

    /// Duplicates the poller, for an owner that adds sockets but does not wait.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Poller { epoll: self.epoll.try_clone()?, events: Vec::new() })
    }

    /// Returns the epoll file, for [`Poller::of`] in another thread.
    pub fn into_file(self) -> OwnedFd {
        self.epoll
    }

    /// Adds a file, level-triggered for reading.
    pub fn add(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.pack()), EventFlags::IN)?)
    }

    /// Adds a socket edge-triggered: readiness is reported once. Writing is not watched yet.
    pub fn add_edges(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.pack()), EDGES)?)
    }

    /// Changes whether writing is watched; current readiness is reported again.
    pub fn watch_edges(&self, fd: impl AsFd, token: Token, writable: bool) -> io::Result<()> {
        let mut flags = EDGES;
        flags.set(EventFlags::OUT, writable);
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.pack()), flags)?)
    }

    /// Changes whether a level-triggered file is watched for reading.
    pub fn watch(&self, fd: impl AsFd, token: Token, readable: bool) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, readable);
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.pack()), flags)?)
    }

    /// Removes a file.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until a file is ready or the timeout has passed, and appends the events.
    pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let timeout =
            Timespec { tv_sec: signed_count(timeout.as_secs()), tv_nsec: timeout.subsec_nanos().into() };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(|event| {
            let Event { flags, data } = *event;
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Readiness {
                token: Token::unpack(data.u64()),
                readable: broken || flags.contains(EventFlags::IN),
                writable: broken || flags.contains(EventFlags::OUT),
                hung_up: broken || flags.contains(EventFlags::RDHUP),
                urgent: flags.contains(EventFlags::PRI),
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let handles = [0, u64::from(u32::MAX), u64::MAX >> 1].map(ClientHandle::from_bits);
        let tokens = handles.map(Token::Connection).into_iter().chain([Token::Listener(3)]);
        let links = [0, 1 << 40, LINK - 1].map(Token::BusLink);
        for token in tokens.chain([Token::Signal, Token::Waker, Token::SyncPipe, Token::Http]).chain(links) {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
