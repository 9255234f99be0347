//! The sockets of one thread, the executor's or an I/O thread: its poller, and the connections with unread input that no
//! event will report. `net/connection.rs` has the connections.
//!
//! ```text
//!   wait -> begin_turn -> next_postponed ..., events ..., next_listed ... -> wait
//! ```
//!
//! 1. The poller reports each change once (edges). A connection whose socket may have unread input is listed and read in
//!    the next turn, so that no connection is read twice in a turn or starves the others.
//! 2. A handshake step may take half a millisecond, which delays all other connections: a turn has a limited number, and the
//!    handshakes beyond it continue in later turns, in order.

use super::connection::Connection;
use super::poller::{Poller, Readiness};
use super::query_buffer::SpareQueryBuffers;
use crate::session::ClientHandle;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A thread's poller, and its connections with input that no event reports.
pub struct Sockets {
    /// The thread's poller.
    pub poller: Poller,
    /// Query buffers for reuse.
    pub spare_query_buffers: SpareQueryBuffers,
    /// The beginning of the turn, on the monotonic clock.
    now_us: u64,
    ready: Vec<Readiness>,
    /// Connections to be read in this turn.
    listed: VecDeque<ClientHandle>,
    /// Connections to be read in the next turn.
    listed_next: VecDeque<ClientHandle>,
    /// Connections whose handshake continues in a later turn, each once.
    postponed: VecDeque<ClientHandle>,
    handshake_steps_left: usize,
}

impl Sockets {
    /// Creates a thread's sockets, none at first.
    pub fn new(poller: Poller) -> Self {
        Sockets {
            poller,
            spare_query_buffers: SpareQueryBuffers::default(),
            now_us: 0,
            ready: Vec::new(),
            listed: VecDeque::new(),
            listed_next: VecDeque::new(),
            postponed: VecDeque::new(),
            handshake_steps_left: 0,
        }
    }

    /// Waits for events; does not wait while listed connections are to be read.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let has_more = !self.listed_next.is_empty() || !self.postponed.is_empty();
        self.poller.wait(if has_more { Duration::ZERO } else { timeout }, &mut self.ready)
    }

    /// Begins a turn, which may have this number of handshake steps.
    pub fn begin_turn(&mut self, now_us: u64, handshake_steps: usize) {
        self.now_us = now_us;
        self.handshake_steps_left = handshake_steps;
        std::mem::swap(&mut self.listed, &mut self.listed_next);
    }

    /// Returns the beginning of the turn, on the monotonic clock.
    #[inline]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Takes the events of the turn; [`Self::keep_ready`] takes the empty list back.
    pub fn take_ready(&mut self) -> Vec<Readiness> {
        std::mem::take(&mut self.ready)
    }

    /// Keeps the list of events for the next turn.
    pub fn keep_ready(&mut self, mut ready: Vec<Readiness>) {
        ready.clear();
        self.ready = ready;
    }

    /// Returns the next connection to be read without an event in this turn.
    #[inline]
    pub fn next_listed(&mut self) -> Option<ClientHandle> {
        self.listed.pop_front()
    }

    /// Lists a connection to be read in the next turn.
    pub(super) fn list(&mut self, handle: ClientHandle) {
        self.listed_next.push_back(handle);
    }

    /// Returns the next connection whose handshake was postponed, while the turn has a step for it.
    #[inline]
    pub fn next_postponed(&mut self) -> Option<ClientHandle> {
        if self.handshake_steps_left == 0 { None } else { self.postponed.pop_front() }
    }

    /// Postpones a handshake to a later turn.
    pub(super) fn postpone(&mut self, handle: ClientHandle) {
        self.postponed.push_back(handle);
    }

    /// Takes one of the turn's handshake steps; `false` if none is left.
    pub(super) fn take_handshake_step(&mut self) -> bool {
        let left = self.handshake_steps_left.checked_sub(1);
        self.handshake_steps_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Removes a connection's socket from the poller. It leaves it when it is closed in any case, and failing to remove it
    /// before it joins another poller shows there.
    pub fn remove(&self, connection: &Connection) {
        let _ = self.poller.remove(connection.fd());
    }
}
