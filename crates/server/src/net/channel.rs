//! How threads hand values to each other: a queue with one end in each, and a waker that wakes the one that sleeps.
//!
//! ```text
//!   sender                                      receiver
//!   send: ring <- value, no system call         works: takes values while there are any
//!   announce: wakes ---------------------------> sleeps in epoll: the waker's file becomes readable
//! ```
//!
//! 1. A sender never waits. What does not fit into the ring waits on the sender's side and follows, in order, when
//!    the sender next announces.
//! 2. The waker costs a system call only while the receiver sleeps, and one of those however many values follow.
//! 3. No value is left behind: the receiver says that it will sleep, then looks once more; the sender sends, then
//!    looks whether the receiver sleeps. Each puts a full fence between its two steps, so at least one of them sees
//!    what the other did.

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Values in a ring; a power of two well above the connections that are busy at one instant.
const RING_VALUES: usize = 4096;

/// Wakes one thread, which watches [`Waker::fd`] for edges: each wake-up is an edge, so that nobody has to read the file.
pub struct Waker {
    file: OwnedFd,
    sleeps: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { file, sleeps: AtomicBool::new(false) })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The owner says that it is about to sleep and has to be woken from now on. It may, if `has_nothing_to_do`
    /// still says so afterwards.
    pub fn may_sleep(&self, has_nothing_to_do: impl FnOnce() -> bool) -> bool {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may = has_nothing_to_do();
        if !may {
            self.woken();
        }
        may
    }

    /// The owner is up: nobody needs to wake it.
    pub fn woken(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            // Fails only when 2^64 wake-ups have gone unread, and then the file is readable anyway.
            let _ = rustix::io::write(&self.file, &1u64.to_ne_bytes());
        }
    }
}

pub struct Sender<T> {
    ring: Producer<T>,
    /// What did not fit into the ring, oldest first.
    waiting: VecDeque<T>,
    waker: Arc<Waker>,
    unannounced: usize,
}

pub struct Receiver<T> {
    ring: Consumer<T>,
}

/// A queue to the owner of `waker`.
pub fn queue<T>(waker: Arc<Waker>) -> (Sender<T>, Receiver<T>) {
    with_room(RING_VALUES, waker)
}

fn with_room<T>(values: usize, waker: Arc<Waker>) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = RingBuffer::new(values);
    let sender = Sender { ring: producer, waiting: VecDeque::new(), waker, unannounced: 0 };
    (sender, Receiver { ring: consumer })
}

impl<T> Sender<T> {
    #[inline]
    pub fn send(&mut self, value: T) {
        self.unannounced += 1;
        if !self.waiting.is_empty() {
            return self.waiting.push_back(value);
        }
        if let Err(PushError::Full(value)) = self.ring.push(value) {
            self.waiting.push_back(value);
        }
    }

    /// How many values the receiver may not know of.
    pub fn unannounced(&self) -> usize {
        self.unannounced
    }

    /// Sees to it that the receiver takes what was sent.
    #[inline]
    pub fn announce(&mut self) {
        if !self.waiting.is_empty() {
            self.refill();
        }
        if std::mem::take(&mut self.unannounced) > 0 {
            self.waker.wake();
        }
    }

    #[cold]
    fn refill(&mut self) {
        while let Some(value) = self.waiting.pop_front() {
            self.unannounced += 1;
            if let Err(PushError::Full(value)) = self.ring.push(value) {
                return self.waiting.push_front(value);
            }
        }
    }

    /// Whether values wait for room: the sender has to announce again soon.
    pub fn is_backed_up(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl<T> Receiver<T> {
    #[inline]
    pub fn receive(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests;
