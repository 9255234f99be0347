//! Keys that clients of a writable replica have given an expiry. Its primary knows nothing of them and never says that they
//! are gone, so that this server does: of all keys of a replica, it removes these alone when they are due.
//!
//! A key is looked up again before it is removed: by then it may be another's, with another expiry, or gone. What is
//! remembered is walked a few keys at a time, round and round.
//!
//! 1. No more than [`KEYS_MAX`] keys with [`KEY_BYTES_MAX`] bytes together are remembered. Others are hidden when they are
//!    due, and stay until this server is a primary.

use super::Db;
use indexmap::IndexSet;

const KEYS_MAX: usize = 1_000_000;
const KEY_BYTES_MAX: usize = 64 << 20;
/// Keys looked at between two looks at the clock.
const KEYS_PER_STEP: usize = 64;

/// Database and key.
type Place = (usize, Box<[u8]>);

#[derive(Debug, Default)]
pub struct ClientExpiry {
    /// A client of a writable replica is at work.
    pub(super) is_noting: bool,
    places: IndexSet<Place, foldhash::quality::RandomState>,
    key_bytes: usize,
    /// The next to be looked at.
    cursor: usize,
}

impl ClientExpiry {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    #[cold]
    pub(super) fn note(&mut self, db_index: usize, key: &[u8]) {
        if self.places.len() < KEYS_MAX
            && self.key_bytes + key.len() <= KEY_BYTES_MAX
            && self.places.insert((db_index, key.into()))
        {
            self.key_bytes += key.len();
        }
    }

    fn forget(&mut self, at: usize) {
        if let Some((_, key)) = self.places.swap_remove_index(at) {
            self.key_bytes -= key.len();
        }
    }

    /// What is remembered is not true of the data any more, or none of this server's business.
    pub(super) fn forget_all(&mut self) {
        *self = ClientExpiry { is_noting: self.is_noting, ..ClientExpiry::default() };
    }

    /// Two databases have been exchanged.
    pub(super) fn swapped(&mut self, a: usize, b: usize) {
        let places = std::mem::take(&mut self.places);
        let exchanged = |index: usize| match index {
            index if index == a => b,
            index if index == b => a,
            index => index,
        };
        self.places = places.into_iter().map(|(index, key)| (exchanged(index), key)).collect();
    }
}

impl Db {
    /// Whether keys that are given an expiry from now on are remembered.
    pub fn note_client_expiry(&mut self, notes: bool) -> bool {
        std::mem::replace(&mut self.client_expiry.is_noting, notes)
    }

    /// How many keys are remembered.
    pub fn client_expiring_len(&self) -> usize {
        self.client_expiry.len()
    }

    /// Whoever decides now when keys are gone is somebody else.
    pub fn forget_client_expiry(&mut self) {
        self.client_expiry.forget_all();
    }

    /// Looks at some of the remembered keys and removes those that are due. `left` is how many of them are to be looked at
    /// before the search is over, which is what is answered.
    pub fn expire_for_clients(&mut self, left: &mut usize) -> bool {
        for _ in 0..KEYS_PER_STEP.min(*left) {
            *left -= 1;
            if self.client_expiry.cursor >= self.client_expiry.len() {
                self.client_expiry.cursor = 0;
            }
            let at = self.client_expiry.cursor;
            let Some((db_index, key)) = self.client_expiry.places.get_index(at).cloned() else { return true };
            match self.with_database(db_index, |db| db.stored_expiry_ms(&key)) {
                Some(expiry_ms) if expiry_ms > self.now_ms => self.client_expiry.cursor += 1,
                Some(_) => {
                    self.with_database(db_index, |db| db.remove_as_expired(&key));
                    self.client_expiry.forget(at);
                }
                None => self.client_expiry.forget(at),
            }
        }
        *left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::hash::HashSeed;

    fn db() -> Db {
        let mut db = Db::new(4, HashSeed::new(1, 2), 1);
        db.begin(0, 1000);
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
            db.put_string(format!("client:{number}").as_bytes(), b"v", Some(2000 + number));
        }
        db.put_string(b"lasting", b"v", None);
        db.note_client_expiry(false);
        db.put_string(b"primary's", b"v", Some(2000));
        db.put_string(b"client:7", b"v", None);
        assert_eq!(db.client_expiring_len(), 1000);
        db.begin(0, 2499);
        round(&mut db);
        assert_eq!(db.len(), 500 + 1 + 1 + 1);
        assert_eq!(db.client_expiring_len(), 500);
        db.begin(0, 9000);
        round(&mut db);
        assert_eq!((db.len(), db.client_expiring_len()), (3, 0));
        round(&mut db);
    }

    #[test]
    fn what_is_remembered_goes_with_its_database_and_has_a_limit() {
        let mut db = db();
        db.put_string(b"a", b"v", Some(2000));
        db.swap(0, 2);
        db.put_string(b"a", b"v", Some(3000));
        let long = vec![b'k'; KEY_BYTES_MAX];
        db.put_string(&long, b"v", Some(2000));
        assert_eq!(db.client_expiring_len(), 2, "of the long key there is no room");
        db.begin(0, 2500);
        round(&mut db);
        assert_eq!((db.len(), db.database(2).len()), (2, 0));
        db.forget_client_expiry();
        db.begin(0, 9000);
        round(&mut db);
        assert_eq!(db.len(), 2);
    }
}
