//! WATCH: the transactions that a change to a key aborts.

use super::clients::{ClientHandle, Clients};
use super::members::Members;
use super::name_table::NameTable;
use std::sync::Arc;
use structures::size_class::usable_size;

/// A key that a client watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched {
    /// Database of the key.
    pub db_index: usize,
    /// The key; its text is shared with the table of watched keys.
    pub key: Arc<[u8]>,
}

/// Memory of a watched key besides its name: its entries in the client's list and in the table.
const WATCHED_BYTES: usize = 120;

/// Memory of a watched key. Each client is charged in full: each may be the last that holds the name.
fn bytes_of(key: &[u8]) -> usize {
    WATCHED_BYTES + usable_size(2 * size_of::<usize>() + key.len())
}

/// Watchers, each with whether the key was stored but expired when the watch began: its removal is then not a change.
type Watchers = Members<ClientHandle, bool>;

/// The event on a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The key was created or its value changed.
    Changed,
    /// The key is no longer stored.
    Removed,
}

/// One key before and after its whole database was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Whether it existed before.
    pub existed: bool,
    /// Whether it exists now.
    pub exists: bool,
    /// Whether it exists now but has expired.
    pub is_stale: bool,
}

/// Watchers of each key, by database.
#[derive(Default)]
pub struct WatchTable {
    databases: Vec<NameTable<Arc<[u8]>, Watchers>>,
    keys: usize,
}

impl WatchTable {
    /// Returns whether no keys are watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Returns the number of watched keys.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Watches a key. `is_stale`: it is stored but expired.
    pub fn watch(
        &mut self,
        clients: &mut Clients,
        handle: ClientHandle,
        db_index: usize,
        key: &[u8],
        is_stale: bool,
    ) {
        if self.databases.len() <= db_index {
            self.databases.resize_with(db_index + 1, NameTable::default);
        }
        let database = &mut self.databases[db_index];
        let key = database.shared(key).map_or_else(|| Arc::from(key), Arc::clone);
        let watchers = database.get_or_default(key.clone());
        self.keys += usize::from(watchers.is_empty());
        if !watchers.insert(handle, is_stale) {
            return;
        }
        let client = &mut clients[handle];
        client.watched_bytes += bytes_of(&key);
        client.watched.push(Watched { db_index, key });
    }

    /// Removes all watches of the client, and its broken state.
    pub fn unwatch_all(&mut self, clients: &mut Clients, handle: ClientHandle) {
        self.release(clients, handle);
        clients[handle].watch_broken = false;
    }

    fn release(&mut self, clients: &mut Clients, handle: ClientHandle) {
        clients[handle].watched_bytes = 0;
        for watched in std::mem::take(&mut clients[handle].watched) {
            let database = &mut self.databases[watched.db_index];
            let watchers = database.get_mut(&watched.key).expect("a watched key has watchers");
            watchers.remove(handle);
            if watchers.is_empty() {
                database.remove(&watched.key);
                self.keys -= 1;
            }
        }
    }

    /// Returns whether the key had already expired when the client began to watch it.
    pub fn watches_stale_key(&self, handle: ClientHandle, watched: &Watched) -> bool {
        let watchers = self.databases[watched.db_index].get(&watched.key);
        watchers.and_then(|watchers| watchers.get(handle)).is_some_and(|&of_stale_key| of_stale_key)
    }

    /// Handles a changed or removed key.
    pub fn touch(&mut self, clients: &mut Clients, db_index: usize, key: &[u8], touch: Touch) {
        if self.keys == 0 {
            return;
        }
        let Some(watchers) = self.databases.get_mut(db_index).and_then(|database| database.get_mut(key))
        else {
            return;
        };
        let mut broken = Vec::new();
        for (watcher, of_stale_key) in watchers.iter_mut() {
            if touch == Touch::Removed && *of_stale_key {
                *of_stale_key = false;
            } else {
                broken.push(watcher);
            }
        }
        self.break_transactions(clients, &broken);
    }

    /// Handles an emptied or swapped database; `replaced` returns the effect on a key.
    pub fn database_replaced(
        &mut self,
        clients: &mut Clients,
        db_index: usize,
        replaced: impl Fn(&[u8]) -> Replaced,
    ) {
        let mut broken = Vec::new();
        for (key, watchers) in self.databases.get_mut(db_index).into_iter().flat_map(NameTable::iter_mut) {
            let Replaced { existed, exists, is_stale } = replaced(key);
            if !existed && !exists {
                continue;
            }
            for (watcher, of_stale_key) in watchers.iter_mut() {
                if *of_stale_key && !exists {
                    *of_stale_key = false;
                } else if is_stale && (*of_stale_key || !existed) {
                    *of_stale_key = true;
                } else {
                    broken.push(watcher);
                }
            }
        }
        self.break_transactions(clients, &broken);
    }

    /// Marks transactions for a null reply to EXEC; frees their watches and queues.
    fn break_transactions(&mut self, clients: &mut Clients, broken: &[ClientHandle]) {
        for &handle in broken {
            let client = &mut clients[handle];
            client.watch_broken = true;
            if let Some(transaction) = &mut client.transaction {
                transaction.forget_queue();
            }
            self.release(clients, handle);
        }
    }
}
