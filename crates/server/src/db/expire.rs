//! Keys that are due: removed when met, and sought a little at a time so that unread ones go too.

use super::{Cleared, Db, DbFigures, EventClasses};

/// Buckets walked between two looks at the clock.
const BUCKETS_PER_ROUND: usize = 64;

/// Rounds without a sufficient number of keys that have an expiry before a database is left for this time.
const ROUNDS_WITHOUT_KEYS_MAX: u64 = 16;

/// Where the search for due keys stands, from one call to the next.
#[derive(Clone, Debug, Default)]
pub struct ExpireCursor {
    /// Where the next call begins.
    db_index: usize,
    /// In each database.
    positions: Vec<u64>,
}

/// How hard due keys are sought: `active-expire-effort`, 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireEffort(pub u32);

impl ExpireEffort {
    /// Keys with an expiry to be met before a round says anything about the rest.
    fn keys_min(self) -> u64 {
        20 + 5 * u64::from(self.0 - 1)
    }

    /// The share of due keys, in percent, that may be left: their memory is cheaper than the search for them.
    fn stale_percent_max(self) -> u64 {
        11 - u64::from(self.0)
    }

    /// Of the executor's time, in percent.
    pub fn time_percent_max(self) -> u64 {
        25 + 2 * u64::from(self.0 - 1)
    }

    /// How long a search may take that is made before its time, because the last one was not done.
    pub fn short_search_us(self) -> u64 {
        1000 + 250 * u64::from(self.0 - 1)
    }
}

/// What a search has come across.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Keys with an expiry.
    met: u64,
    due: u64,
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

    /// Whether a key that is given this expiry is to be removed instead.
    #[inline]
    pub fn is_due(&self, expiry_ms: i64) -> bool {
        expiry_ms <= self.now_ms && !self.importing
    }

    /// Whether a key with this expiry counts as absent.
    #[inline]
    pub fn hides(&self, expiry_ms: Option<i64>) -> bool {
        self.hiding()(expiry_ms)
    }

    /// As [`Db::hides`], to be asked while an entry is borrowed.
    #[inline]
    pub(super) fn hiding(&self) -> impl Fn(Option<i64>) -> bool + use<> {
        let (now_ms, shows) = (self.now_ms, self.show_due_keys);
        move |expiry_ms| expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) && !shows
    }

    /// Whether the key is still stored but already due: what a transaction that watches it must notice.
    pub fn is_gone(&self, db_index: usize, key: &[u8]) -> bool {
        let table = &self.databases[db_index];
        table.get(table.hash(key), key).is_some_and(|entry| self.hides(entry.expiry_ms()))
    }

    /// The expiry of the key in the selected database, due or not.
    pub fn stored_expiry_ms(&self, key: &[u8]) -> Option<i64> {
        let table = self.table();
        table.get(table.hash(key), key)?.expiry_ms()
    }

    /// Whether the key is stored, due or not.
    pub fn holds(&self, db_index: usize, key: &[u8]) -> bool {
        let table = &self.databases[db_index];
        table.get(table.hash(key), key).is_some()
    }

    /// Whether the key was stored in a database that the last command has emptied.
    pub fn was_cleared(&self, db_index: usize, key: &[u8]) -> bool {
        let mut cleared = self.cleared.iter().filter(|cleared| cleared.db_index == db_index);
        cleared.any(|Cleared { table, .. }| table.get(table.hash(key), key).is_some())
    }

    /// Removes the key if it is due. Whether it must count as absent.
    #[inline]
    pub(super) fn remove_if_due(&mut self, hash: u64, key: &[u8]) -> bool {
        if self.table().expiring_len() == 0 {
            return false;
        }
        let expiry_ms = self.table().get(hash, key).and_then(|entry| entry.expiry_ms());
        if !self.hides(expiry_ms) {
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
        if self.remove_hashed(hash, key, self.lazy_freeing.expired) {
            self.figures.expired_keys += 1;
            self.of_its_own(&[if self.lazy_freeing.expired { b"UNLINK" } else { b"DEL" }, key]);
            self.changed(EventClasses::EXPIRED, "expired", key);
        }
    }

    /// Looks for due keys across all databases, from where the last call stopped, until `out_of_time` says so or few
    /// enough of them are left. Whether the time ran out first.
    pub fn expire_cycle(
        &mut self,
        cursor: &mut ExpireCursor,
        effort: ExpireEffort,
        out_of_time: &mut dyn FnMut() -> bool,
    ) -> bool {
        if self.expire_fields(out_of_time) {
            return true;
        }
        let selected = self.selected;
        cursor.positions.resize(self.databases.len(), 0);
        let mut all = Search::default();
        let mut interrupted = false;
        for _ in 0..self.databases.len() {
            self.selected = cursor.db_index % self.databases.len();
            if self.table().expiring_len() > 0 {
                let position = &mut cursor.positions[self.selected];
                interrupted = !self.expire_database(position, effort, &mut all, out_of_time);
                if interrupted {
                    break;
                }
            }
            cursor.db_index = (self.selected + 1) % self.databases.len();
        }
        self.selected = selected;
        self.figures.note_stale(all);
        interrupted
    }

    /// Whether the search has come to an end before the time has.
    fn expire_database(
        &mut self,
        position: &mut u64,
        effort: ExpireEffort,
        all: &mut Search,
        out_of_time: &mut dyn FnMut() -> bool,
    ) -> bool {
        for round in 1.. {
            let found = self.expire_round(position);
            all.met += found.met;
            all.due += found.due;
            if *position == 0 {
                return true;
            }
            let met_enough = found.met >= effort.keys_min() || round >= ROUNDS_WITHOUT_KEYS_MAX;
            if met_enough && found.due * 100 <= found.met * effort.stale_percent_max() {
                return true;
            }
            if out_of_time() {
                return false;
            }
        }
        true
    }

    /// Walks some buckets and removes what is due there. Reads only bucket lines: an entry without an expiry is not
    /// touched.
    fn expire_round(&mut self, position: &mut u64) -> Search {
        let now_ms = self.now_ms;
        let (mut met, mut due) = (0, Vec::<Box<[u8]>>::new());
        let table = &self.databases[self.selected];
        *position = table.scan_expiring(*position, BUCKETS_PER_ROUND, &mut |entry| {
            met += 1;
            if entry.expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms) {
                due.push(entry.key().into());
            }
        });
        for key in &due {
            let hash = self.table().hash(key);
            self.expire(hash, key);
        }
        Search { met, due: due.len() as u64 }
    }
}

impl DbFigures {
    /// A moving average: one search counts for a twentieth.
    fn note_stale(&mut self, search: Search) {
        let percent = if search.met == 0 { 0.0 } else { search.due as f64 * 100.0 / search.met as f64 };
        self.stale_percent = self.stale_percent * 0.95 + percent * 0.05;
    }
}
