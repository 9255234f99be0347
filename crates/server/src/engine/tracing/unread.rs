//! Traced requests whose replies are unread: their clients are slow, or do not read at all.
//!
//! A turn checks the clients to which this thread has written, and a few others, whose sockets I/O threads serve. So the
//! cost of a turn does not depend on the number of unread replies.
//!
//! 1. The clients of `by_client` are those of `to_check`, each once. A client whose replies have been read stays, without
//!    requests, until a turn checks it: a client that alternates between both states is listed once.
//! 2. A client's requests are in the order of their replies.

use super::Waiting;
use crate::session::ClientHandle;
use crate::session::name_table::NameTable;
use std::collections::VecDeque;

/// Clients that a turn checks, besides one for each request that was set aside.
const CHECKED_PER_TURN: usize = 64;

#[derive(Default)]
pub(super) struct Unread {
    by_client: NameTable<ClientHandle, VecDeque<Waiting>>,
    requests: usize,
    /// Clients to which this thread has written since the last check.
    written: Vec<ClientHandle>,
    /// All clients, in the order of the checks.
    to_check: VecDeque<ClientHandle>,
    set_aside: usize,
}

impl Unread {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.requests
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Adds a request, behind the earlier ones of its client.
    pub fn push(&mut self, waiting: Waiting) {
        let handle = waiting.request.handle;
        if self.by_client.get(&handle).is_none() {
            self.to_check.push_back(handle);
        }
        self.by_client.get_or_default(handle).push_back(waiting);
        self.requests += 1;
        self.set_aside += 1;
    }

    /// Records that output was written to the client.
    pub fn note_written(&mut self, handle: ClientHandle) {
        if !self.is_empty() && self.has_requests(handle) {
            self.written.push(handle);
        }
    }

    /// Takes the requests of a client.
    pub fn take(&mut self, handle: ClientHandle) -> VecDeque<Waiting> {
        let requests = self.by_client.get_mut(&handle).map(std::mem::take).unwrap_or_default();
        self.requests -= requests.len();
        requests
    }

    /// Puts back those of [`Self::take`] that are still unread.
    pub fn put_back(&mut self, handle: ClientHandle, requests: VecDeque<Waiting>) {
        if let Some(place) = self.by_client.get_mut(&handle) {
            self.requests += requests.len();
            *place = requests;
        }
    }

    /// Returns the clients to check in this turn.
    pub fn clients_to_check(&mut self) -> Vec<ClientHandle> {
        let mut clients = std::mem::take(&mut self.written);
        let count = (CHECKED_PER_TURN + std::mem::take(&mut self.set_aside)).min(self.to_check.len());
        for handle in self.to_check.drain(..count).collect::<Vec<_>>() {
            if self.has_requests(handle) {
                self.to_check.push_back(handle);
                clients.push(handle);
            } else {
                self.by_client.remove(&handle);
            }
        }
        clients
    }

    fn has_requests(&self, handle: ClientHandle) -> bool {
        self.by_client.get(&handle).is_some_and(|requests| !requests.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CutArgs, Stages, UnderWay};
    use super::*;

    fn waiting(handle: ClientHandle) -> Waiting {
        let request = UnderWay {
            handle,
            db_index: 0,
            received_ns: 0,
            stages: Stages::default(),
            since_ns: 0,
            is_chosen: true,
            waits: None,
            answered_at: Some(1),
            slow_log: 0..0,
        };
        Waiting { request, args: CutArgs::default() }
    }

    #[test]
    fn a_client_is_listed_once_however_often_its_replies_are_read() {
        let mut unread = Unread::default();
        let (slow, other) = (ClientHandle::from_bits(0), ClientHandle::from_bits(1));
        unread.push(waiting(other));
        for _ in 0..1000 {
            unread.push(waiting(slow));
            assert_eq!(unread.take(slow).len(), 1);
            unread.put_back(slow, VecDeque::new());
        }
        assert_eq!((unread.len(), unread.to_check.len()), (1, 2));
        // A turn drops the one without requests.
        assert_eq!(unread.clients_to_check(), [other]);
        assert_eq!(unread.to_check.len(), 1);
        unread.push(waiting(slow));
        unread.push(waiting(slow));
        assert_eq!(unread.clients_to_check(), [other, slow]);
        let mut requests = unread.take(slow);
        requests.pop_front();
        unread.put_back(slow, requests);
        assert_eq!((unread.len(), unread.to_check.len()), (2, 2));
    }
}
