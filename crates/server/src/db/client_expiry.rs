//! Keys that clients of a writable replica have given an expiry. The primary does not know of them and never sends their
//! removal, so this server removes them: of all keys of a replica, only these are removed when they expire.
//!
//! The recorded keys are scanned a few at a time, cyclically. A key is looked up again before it is removed: if its
//! expiry differs from the recorded one, or it has none, the primary has set that, and removes the key itself.
//!
//! 1. At most [`KEYS_MAX`] keys with [`KEY_BYTES_MAX`] bytes in all are recorded. Other keys are hidden when they expire,
//!    and stay until this server becomes a primary.
//! 2. `len` and `key_bytes` are sums over all databases.

use super::{Db, Key};
use indexmap::IndexMap;

const KEYS_MAX: usize = 1_000_000;
const KEY_BYTES_MAX: usize = 64 << 20;
/// Keys checked between two readings of the clock.
const KEYS_PER_STEP: usize = 64;

/// A database's recorded keys, each with the expiry set by a client.
type GivenExpiry = IndexMap<Box<[u8]>, i64, foldhash::quality::RandomState>;

/// The recorded keys of all databases.
#[derive(Debug, Default)]
pub struct ClientExpiry {
    /// The current command comes from a client of a writable replica.
    pub(super) is_noting: bool,
    /// Recorded keys by database index; only as long as the last database written to requires.
    given: Vec<GivenExpiry>,
    len: usize,
    key_bytes: usize,
    /// The next key to check: the database, and the position in it.
    cursor: (usize, usize),
}

impl ClientExpiry {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[cold]
    pub(super) fn note(&mut self, db_index: usize, key: &[u8], expiry_ms: i64) {
        if self.given.len() <= db_index {
            self.given.resize_with(db_index + 1, GivenExpiry::default);
        }
        let database = &mut self.given[db_index];
        if let Some(given_ms) = database.get_mut(key) {
            *given_ms = expiry_ms;
        } else if self.len < KEYS_MAX && self.key_bytes + key.len() <= KEY_BYTES_MAX {
            database.insert(key.into(), expiry_ms);
            self.len += 1;
            self.key_bytes += key.len();
        }
    }

    /// The key at the cursor. At a database's end the cursor moves to the next database that has keys.
    fn next(&mut self) -> Option<(usize, &[u8], i64)> {
        if self.len == 0 {
            return None;
        }
        while self.given.get(self.cursor.0).is_none_or(|database| self.cursor.1 >= database.len()) {
            self.cursor = ((self.cursor.0 + 1) % self.given.len(), 0);
        }
        let (key, &expiry_ms) = self.given[self.cursor.0].get_index(self.cursor.1)?;
        Some((self.cursor.0, key, expiry_ms))
    }

    fn pass(&mut self) {
        self.cursor.1 += 1;
    }

    /// Removes the record of the key at the cursor and returns the key.
    fn forget_next(&mut self) -> Option<(usize, Box<[u8]>)> {
        let (db_index, at) = self.cursor;
        let (key, _) = self.given.get_mut(db_index)?.swap_remove_index(at)?;
        self.len -= 1;
        self.key_bytes -= key.len();
        Some((db_index, key))
    }

    /// Drops all records: the data was replaced, or this server now decides about expiry itself.
    pub(super) fn forget_all(&mut self) {
        *self = ClientExpiry { is_noting: self.is_noting, ..ClientExpiry::default() };
    }

    /// Follows a swap of two databases.
    pub(super) fn swapped(&mut self, a: usize, b: usize) {
        if self.len > 0 {
            let databases = self.given.len().max(a.max(b) + 1);
            self.given.resize_with(databases, GivenExpiry::default);
            self.given.swap(a, b);
        }
    }
}

impl Db {
    /// Sets whether keys given an expiry from now on are recorded.
    pub fn note_client_expiry(&mut self, notes: bool) {
        self.client_expiry.is_noting = notes;
    }

    /// Records that a key of the selected database was given this expiry, if a client of a replica has done it.
    #[inline]
    pub(super) fn note_given_expiry(&mut self, key: Key<'_>, expiry_ms: Option<i64>) {
        if let Some(expiry_ms) = expiry_ms.filter(|_| self.client_expiry.is_noting) {
            self.client_expiry.note(self.turn.database, key.bytes(), expiry_ms);
        }
    }

    /// Number of recorded keys.
    pub fn client_expiring_len(&self) -> usize {
        self.client_expiry.len()
    }

    /// Drops all records: this server's role has changed.
    pub fn forget_client_expiry(&mut self) {
        self.client_expiry.forget_all();
    }

    /// Checks some of the recorded keys and removes the expired ones. `left` is the number of keys still to check in this
    /// search; returns whether the search is over.
    pub fn expire_for_clients(&mut self, left: &mut usize) -> bool {
        for _ in 0..KEYS_PER_STEP.min(*left) {
            *left -= 1;
            let Some((db_index, key, given_ms)) = self.client_expiry.next() else { return true };
            let stored = self.keyspace.database(db_index).get(Key::new(key, self.key_seed));
            let stored = stored.and_then(|entry| entry.expiry_ms());
            if stored == Some(given_ms) && given_ms > self.turn.now_ms {
                self.client_expiry.pass();
            } else if let Some((db_index, key)) = self.client_expiry.forget_next()
                && stored == Some(given_ms)
            {
                self.with_database(db_index, |db| db.expire(db.key(&key)));
            }
        }
        *left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Turn;
    use structures::hash::HashSeed;

    fn db() -> Db {
        let mut db = Db::new(4, HashSeed::new(1, 2), 1);
        db.begin(Turn::new(0, 1000));
        db.note_client_expiry(true);
        db
    }

    fn round(db: &mut Db) {
        let mut left = db.client_expiring_len();
        while !db.expire_for_clients(&mut left) {}
        db.change_log.audit.forget_unpropagated();
    }

    #[test]
    fn of_all_keys_those_that_clients_gave_an_expiry_are_removed_when_due() {
        let mut db = db();
        for number in 0..1000 {
            db.put_string(db.key(format!("client:{number}").as_bytes()), b"v", Some(2000 + number));
        }
        db.put_string(db.key(b"lasting"), b"v", None);
        db.note_client_expiry(false);
        db.put_string(db.key(b"primary's"), b"v", Some(2000));
        db.put_string(db.key(b"client:7"), b"v", None);
        assert_eq!(db.client_expiring_len(), 1000);
        db.begin(Turn::new(0, 2499));
        round(&mut db);
        assert_eq!(db.len(), 500 + 1 + 1 + 1);
        assert_eq!(db.client_expiring_len(), 500);
        db.begin(Turn::new(0, 9000));
        round(&mut db);
        assert_eq!((db.len(), db.client_expiring_len()), (3, 0));
        round(&mut db);
    }

    #[test]
    fn what_is_remembered_goes_with_its_database_and_has_a_limit() {
        let mut db = db();
        db.put_string(db.key(b"a"), b"v", Some(2000));
        db.swap(0, 2);
        db.put_string(db.key(b"a"), b"v", Some(3000));
        let long = vec![b'k'; KEY_BYTES_MAX];
        db.put_string(db.key(&long), b"v", Some(2000));
        assert_eq!(db.client_expiring_len(), 2, "the long key does not fit the limit");
        db.begin(Turn::new(0, 2500));
        round(&mut db);
        assert_eq!((db.len(), db.database(2).len()), (2, 0));
        db.forget_client_expiry();
        db.begin(Turn::new(0, 9000));
        round(&mut db);
        assert_eq!(db.len(), 2);
    }

    #[test]
    fn what_somebody_else_gives_another_expiry_is_forgotten() {
        let mut db = db();
        for key in [&b"later"[..], b"sooner", b"written"] {
            db.put_string(db.key(key), b"v", Some(2000));
        }
        db.note_client_expiry(false);
        db.set_expiry(db.key(b"later"), Some(3000));
        db.set_expiry(db.key(b"sooner"), Some(1500));
        db.put_string(db.key(b"written"), b"w", Some(2500));
        db.note_client_expiry(true);
        round(&mut db);
        assert_eq!(db.client_expiring_len(), 0);
        db.set_expiry(db.key(b"later"), Some(3500));
        db.set_expiry(db.key(b"later"), Some(4000));
        db.begin(Turn::new(0, 3900));
        round(&mut db);
        assert_eq!((db.len(), db.client_expiring_len()), (3, 1));
        db.begin(Turn::new(0, 4000));
        round(&mut db);
        assert_eq!((db.len(), db.client_expiring_len()), (2, 0));
    }
}
