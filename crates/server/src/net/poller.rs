//! Which sockets are ready: epoll, level-triggered.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

/// What a readiness event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Connection(u32),
    Listener(u32),
    Signal,
}

impl Token {
    fn pack(self) -> u64 {
        match self {
            Token::Connection(slot) => slot as u64,
            Token::Listener(index) => 1 << 32 | index as u64,
            Token::Signal => 2 << 32,
        }
    }

    fn unpack(data: u64) -> Self {
        match data >> 32 {
            0 => Token::Connection(data as u32),
            1 => Token::Listener(data as u32),
            _ => Token::Signal,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub token: Token,
    pub readable: bool,
    pub writable: bool,
}

pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Poller { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS_MAX) })
    }

    pub fn add(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.pack()), EventFlags::IN)?)
    }

    /// Changes what a socket is watched for.
    pub fn watch(&self, fd: impl AsFd, token: Token, readable: bool, writable: bool) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, readable);
        flags.set(EventFlags::OUT, writable);
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.pack()), flags)?)
    }

    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready or the time is up, and appends what is.
    pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
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
        for token in [Token::Connection(0), Token::Connection(u32::MAX), Token::Listener(3), Token::Signal] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
