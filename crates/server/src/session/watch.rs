//! WATCH: which clients' transactions a change to a key breaks.

use super::clients::{ClientSlot, Clients};
use std::collections::HashMap;

/// One key a client watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched {
    pub db_index: usize,
    pub key: Box<[u8]>,
    /// It was already past its expiry when the watch began: its removal for that reason breaks nothing.
    pub was_expired: bool,
}

/// Watchers of each key, by database.
#[derive(Default)]
pub struct WatchTable {
    watchers: HashMap<(usize, Box<[u8]>), Vec<ClientSlot>>,
}

impl WatchTable {
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    pub fn keys(&self) -> usize {
        self.watchers.len()
    }

    pub fn watch(&mut self, clients: &mut Clients, slot: ClientSlot, watched: Watched) {
        let list = self.watchers.entry((watched.db_index, watched.key.clone())).or_default();
        if !list.contains(&slot) {
            list.push(slot);
            clients[slot].watched.push(watched);
        }
    }

    /// Forgets all that the client watches, and that something broke.
    pub fn unwatch_all(&mut self, clients: &mut Clients, slot: ClientSlot) {
        let client = &mut clients[slot];
        client.watch_broken = false;
        for watched in std::mem::take(&mut client.watched) {
            let key = (watched.db_index, watched.key);
            if let Some(list) = self.watchers.get_mut(&key) {
                list.retain(|&other| other != slot);
                if list.is_empty() {
                    self.watchers.remove(&key);
                }
            }
        }
    }

    /// A key has changed.
    pub fn touch(&self, clients: &mut Clients, db_index: usize, key: &[u8]) {
        for &slot in self.watchers.get(&(db_index, key.into())).into_iter().flatten() {
            clients[slot].watch_broken = true;
        }
    }

    /// Whole databases are about to change (FLUSHDB, SWAPDB): breaks what watches a key for which `affected`
    /// says so.
    pub fn touch_where(&self, clients: &mut Clients, affected: impl Fn(usize, &[u8]) -> bool) {
        for ((db_index, key), slots) in &self.watchers {
            if affected(*db_index, key) {
                for &slot in slots {
                    clients[slot].watch_broken = true;
                }
            }
        }
    }
}
