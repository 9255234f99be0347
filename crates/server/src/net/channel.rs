//! Channels between threads: a queue with one end in each, and a waker for a sleeping receiver.
//!
//! ```text
//!   sender                                      receiver
//!   send: ring <- value, no system call         works: takes values while there are any
//!   announce: wakes ---------------------------> sleeps in epoll: the waker's file becomes readable
//! ```
//!
//! 1. A sender never blocks. Values that do not fit into the ring are queued on the sender's side and follow, in order,
//!    at the sender's next announcement.
//! 2. The waker costs a system call only while the receiver sleeps, and only one however many values follow.
//! 3. No value is left behind: the receiver declares that it will sleep, then checks once more; the sender sends, then
//!    checks whether the receiver sleeps. Each executes a full fence between its two steps, so at least one of them sees
//!    the other's step.

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Values in a ring; a power of two well above the number of connections that are busy at one instant.
const RING_VALUES: usize = 4096;

/// Wakes one thread, which watches [`Waker::fd`] edge-triggered: each wake-up is an edge, so the file need not be read.
pub struct Waker {
    file: OwnedFd,
    sleeps: AtomicBool,
}

impl Waker {
    /// Creates a waker with its own event file.
    pub fn new() -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { file, sleeps: AtomicBool::new(false) })
    }

    /// Returns the file to watch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Declares that the owner is about to sleep and must be woken from now on. Returns true if `has_nothing_to_do`
    /// still holds afterwards.
    pub fn may_sleep(&self, has_nothing_to_do: impl FnOnce() -> bool) -> bool {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may = has_nothing_to_do();
        if !may {
            self.woken();
        }
        may
    }

    /// Declares that the owner is awake.
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

/// The sending end of a queue.
pub struct Sender<T> {
    ring: Producer<T>,
    /// Values that did not fit into the ring, oldest first.
    waiting: VecDeque<T>,
    waker: Arc<Waker>,
    unannounced: usize,
}

/// The receiving end of a queue.
pub struct Receiver<T> {
    ring: Consumer<T>,
}

/// Creates a queue to the owner of `waker`.
pub fn queue<T>(waker: Arc<Waker>) -> (Sender<T>, Receiver<T>) {
    with_room(RING_VALUES, waker)
}

/// As [`queue`], with a ring for this number of values.
pub fn with_room<T>(values: usize, waker: Arc<Waker>) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = RingBuffer::new(values);
    let sender = Sender { ring: producer, waiting: VecDeque::new(), waker, unannounced: 0 };
    (sender, Receiver { ring: consumer })
}

impl<T> Sender<T> {
    /// Adds a value; the receiver is not woken before [`Self::announce`].
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

    /// Returns the number of values sent since the last announcement.
    pub fn unannounced(&self) -> usize {
        self.unannounced
    }

    /// Makes the receiver take the values sent.
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

    /// Returns whether values wait for room in the ring: the sender must announce again soon.
    pub fn is_backed_up(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl<T> Receiver<T> {
    /// Takes the next value, if there is one.
    #[inline]
    pub fn receive(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }

    /// Returns whether the ring is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests;
