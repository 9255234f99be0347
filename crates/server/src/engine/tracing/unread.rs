//! Traced requests whose replies are unread: their clients are slow, or do not read at all.
//!
//! A turn looks at the clients to which this thread has written, and at a few of all: those whose sockets other threads
//! serve. So it costs nothing that many replies stay unread.
//!
//! 1. A client with requests here is in `by_client` and at least once in `to_look_at`, which may name others too.
//! 2. A client's requests are in the order of their replies.

use super::Waiting;
use crate::session::ClientHandle;
use crate::session::name_table::NameTable;
use std::collections::VecDeque;

/// Clients that a turn looks at, beside one for each request that was set aside.
const LOOKED_AT: usize = 64;

#[derive(Default)]
pub(super) struct Unread {
    by_client: NameTable<ClientHandle, VecDeque<Waiting>>,
    requests: usize,
    /// Clients to which this thread has written since the last look.
    written: Vec<ClientHandle>,
    /// All clients, in the order in which turns look at them.
    to_look_at: VecDeque<ClientHandle>,
    set_aside: usize,
}

impl Unread {
    pub fn len(&self) -> usize {
        self.requests
    }

    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Adds a request, behind the earlier ones of its client.
    pub fn push(&mut self, waiting: Waiting) {
        let handle = waiting.request.handle;
        let requests = self.by_client.get_or_default(handle);
        if requests.is_empty() {
            self.to_look_at.push_back(handle);
        }
        requests.push_back(waiting);
        self.requests += 1;
        self.set_aside += 1;
    }

    /// Output was written to the client.
    pub fn note_written(&mut self, handle: ClientHandle) {
        if !self.is_empty() && self.by_client.get(&handle).is_some() {
            self.written.push(handle);
        }
    }

    /// Takes the requests of a client.
    pub fn take(&mut self, handle: ClientHandle) -> VecDeque<Waiting> {
        let requests = self.by_client.remove(&handle).unwrap_or_default();
        self.requests -= requests.len();
        requests
    }

    /// Puts back those of [`Self::take`] that are still unread.
    pub fn put_back(&mut self, handle: ClientHandle, requests: VecDeque<Waiting>) {
        if !requests.is_empty() {
            self.requests += requests.len();
            self.by_client.insert(handle, requests);
        }
    }

    /// Returns the clients that this turn looks at.
    pub fn clients_to_look_at(&mut self) -> Vec<ClientHandle> {
        let mut clients = std::mem::take(&mut self.written);
        let count = (LOOKED_AT + std::mem::take(&mut self.set_aside)).min(self.to_look_at.len());
        for handle in self.to_look_at.drain(..count).collect::<Vec<_>>() {
            // One whose replies have been read since is dropped here.
            if self.by_client.get(&handle).is_some() {
                self.to_look_at.push_back(handle);
                clients.push(handle);
            }
        }
        clients
    }
}
