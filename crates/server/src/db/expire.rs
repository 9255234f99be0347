//! Keys that are due: removed when met, and sought a little at a time so that unread ones go too.

use super::{Db, EventClasses};

/// Buckets walked between two looks at the clock.
const BUCKETS_PER_ROUND: usize = 64;

/// Where the search for due keys stands, from one call to the next.
#[derive(Clone, Debug, Default)]
pub struct ExpireCursor {
    db_index: usize,
    position: u64,
}

impl Db {
    /// Sets or clears the key's expiry; whether the key exists. Says nothing.
    pub fn set_expiry(&mut self, key: &[u8], expiry_ms: Option<i64>) -> bool {
        let hash = self.table().hash(key);
        let found = !self.remove_if_due(hash, key) && self.table_mut().set_expiry(hash, key, expiry_ms);
        if found {
            self.journal.mutated();
        }
        found
    }

    /// Whether `expiry_ms` has come.
    #[inline]
    pub fn is_due(&self, expiry_ms: i64) -> bool {
        expiry_ms <= self.now_ms
    }

    /// Whether the key is still stored but already due: what a transaction that watches it must notice.
    pub fn is_gone(&self, db_index: usize, key: &[u8]) -> bool {
        let table = &self.databases[db_index];
        table.get(table.hash(key), key).and_then(|entry| entry.expiry_ms()).is_some_and(|ms| self.is_due(ms))
    }

    /// Whether the key is stored, due or not.
    pub fn holds(&self, db_index: usize, key: &[u8]) -> bool {
        let table = &self.databases[db_index];
        table.get(table.hash(key), key).is_some()
    }

    /// Whether the key was stored in a database that the last command has emptied.
    pub fn was_cleared(&self, db_index: usize, key: &[u8]) -> bool {
        let mut tables = self.cleared.iter().filter(|(index, ..)| *index == db_index);
        tables.any(|(_, table, _)| table.get(table.hash(key), key).is_some())
    }

    /// Removes the key if it is due. Whether it must count as absent.
    #[inline]
    pub(super) fn remove_if_due(&mut self, hash: u64, key: &[u8]) -> bool {
        if self.table().expiring_len() == 0 {
            return false;
        }
        let Some(expiry_ms) = self.table().get(hash, key).and_then(|entry| entry.expiry_ms()) else {
            return false;
        };
        if !self.is_due(expiry_ms) {
            return false;
        }
        if !self.keep_due_keys {
            self.expire(hash, key);
        }
        true
    }

    /// Removes a key that a command has given an expiry in the past.
    pub fn remove_as_expired(&mut self, key: &[u8]) {
        let hash = self.table().hash(key);
        self.expire(hash, key);
    }

    fn expire(&mut self, hash: u64, key: &[u8]) {
        if self.remove_hashed(hash, key) {
            self.figures.expired_keys += 1;
            self.changed(EventClasses::EXPIRED, "expired", key);
        }
    }

    /// Looks for due keys across all databases, from where the last call stopped, until `out_of_time` says so
    /// or a whole turn is done. Walks only bucket lines: an entry without an expiry is not touched.
    pub fn expire_cycle(&mut self, cursor: &mut ExpireCursor, out_of_time: &mut dyn FnMut() -> bool) {
        let selected = self.selected;
        for _ in 0..self.databases.len() {
            self.selected = cursor.db_index % self.databases.len();
            if self.table().expiring_len() > 0 && !self.expire_database(cursor, out_of_time) {
                break;
            }
            cursor.db_index = (self.selected + 1) % self.databases.len();
            cursor.position = 0;
        }
        self.selected = selected;
    }

    /// Whether the whole database has been walked.
    fn expire_database(&mut self, cursor: &mut ExpireCursor, out_of_time: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let now_ms = self.now_ms;
            let mut due: Vec<Box<[u8]>> = Vec::new();
            let table = &self.databases[self.selected];
            cursor.position = table.scan_expiring(cursor.position, BUCKETS_PER_ROUND, &mut |entry| {
                if entry.expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms) {
                    due.push(entry.key().into());
                }
            });
            for key in due {
                let hash = self.table().hash(&key);
                self.expire(hash, &key);
            }
            if cursor.position == 0 {
                return true;
            }
            if out_of_time() {
                return false;
            }
        }
    }
}
