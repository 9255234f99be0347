//! Expired keys: removed when accessed, and searched for incrementally so that unread ones are removed too.

#[cfg(test)]
mod tests;

use super::object::kind_of;
use super::{Cleared, Db, DbFigures, EventClasses, ExpiredKeys, Key, Kind};
use wire::convert::whole_i64;

/// Stretches of the table searched between two readings of the clock.
const STRETCHES_PER_STEP: usize = 4;

/// Keys removed between two readings of the clock.
const KEYS_PER_STEP: usize = 256;

/// More keys than a stretch has when keys are spread evenly.
const KEYS_PER_STRETCH: usize = 128;

/// A search that has met this number of keys leaves a third of the weight to the previous average.
const TTL_AVERAGE_KEYS: usize = 1_000;

/// Keys whose times to live are sampled where no search has run.
const TTL_SAMPLES: usize = 16;

/// Position of the search for expired keys, kept between calls.
#[derive(Clone, Debug, Default)]
pub struct ExpireCursor {
    /// Database with which the next call begins.
    db_index: usize,
    /// Position in each database.
    positions: Vec<u64>,
}

/// Effort of the search for expired keys: `active-expire-effort`, 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireEffort(pub u32);

impl ExpireEffort {
    /// Number of keys with an expiry after which a round represents the rest.
    fn keys_min(self) -> u64 {
        20 + 5 * u64::from(self.0 - 1)
    }

    /// Share of expired keys, in percent, that may be left: their memory is cheaper than the search for them.
    fn stale_percent_max(self) -> u64 {
        11 - u64::from(self.0)
    }

    /// Maximum share of the executor's time, in percent.
    pub fn time_percent_max(self) -> u64 {
        25 + 2 * u64::from(self.0 - 1)
    }

    /// Maximum time of an extra search, made because the last one was not finished.
    pub fn short_search_us(self) -> u64 {
        1000 + 250 * u64::from(self.0 - 1)
    }
}

/// A search for expired keys and fields, made in steps: between steps the caller runs the effects of removals and reads
/// the clock.
#[derive(Debug)]
pub struct ExpireCycle {
    effort: ExpireEffort,
    /// Databases still to search, including the current one.
    databases_left: usize,
    /// Counts of the current database since the last decision about continuing.
    round: Search,
    all: Search,
    /// Whether there may be expired fields.
    fields_left: bool,
}

/// Counts of a search.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Keys with an expiry.
    met: u64,
    expired: u64,
}

/// Average time to live of a database's keys, in milliseconds: a moving average over the keys that the search for expired
/// keys meets, because visiting keys just for this would cost a fetch each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TtlAverage(f64);

/// Times to live met by a search.
#[derive(Clone, Copy, Debug, Default)]
struct Ttls {
    sum_ms: i128,
    keys: usize,
}

impl Ttls {
    fn add(&mut self, expiry_ms: i64, now_ms: i64) {
        self.sum_ms += i128::from(expiry_ms.saturating_sub(now_ms).max(0));
        self.keys += 1;
    }

    fn average(self) -> Option<TtlAverage> {
        (self.keys > 0).then(|| TtlAverage(self.sum_ms as f64 / self.keys as f64))
    }

    /// The new average after meeting these keys of `expiring_len`. A search that meets all of them is exact.
    fn take_into(self, before: Option<TtlAverage>, expiring_len: usize) -> Option<TtlAverage> {
        let (Some(before), Some(met)) = (before, self.average()) else { return before.or(self.average()) };
        let weight = (self.keys as f64 / expiring_len.clamp(1, TTL_AVERAGE_KEYS) as f64).min(1.0);
        Some(TtlAverage(before.0 + (met.0 - before.0) * weight))
    }
}

impl Db {
    /// Average time to live of the selected database's keys with an expiry.
    pub fn average_ttl_ms(&mut self) -> i64 {
        let database = self.keyspace.database(self.turn.database);
        if database.shown_expiring_len() == 0 {
            return 0;
        }
        let average = database.ttl_average.or_else(|| {
            let (mut ttls, now_ms) = (Ttls::default(), self.turn.now_ms);
            database.sample(&mut self.random, TTL_SAMPLES, true, &mut |entry| {
                entry.expiry_ms().into_iter().for_each(|expiry_ms| ttls.add(expiry_ms, now_ms));
            });
            ttls.average()
        });
        average.map_or(0, |average| whole_i64(average.0))
    }

    /// Sets or clears the key's expiry; returns whether the key exists. Records no event.
    pub fn set_expiry(&mut self, key: Key<'_>, expiry_ms: Option<i64>) -> bool {
        self.change_log.audit.check_named_changed(key.bytes());
        let found = !self.remove_if_expired(key) && self.selected_database_mut().set_expiry(key, expiry_ms);
        if found {
            self.change_log.audit.key_changed(self.turn.database, key.bytes());
            self.note_given_expiry(key, expiry_ms);
        }
        found
    }

    /// Whether a key given this expiry has to be removed instead.
    #[inline]
    pub fn is_expired(&self, expiry_ms: i64) -> bool {
        expiry_ms <= self.turn.now_ms && !self.importing
    }

    /// Whether a key with this expiry counts as absent.
    #[inline]
    pub fn hides(&self, expiry_ms: Option<i64>) -> bool {
        self.hiding()(expiry_ms)
    }

    /// As [`Db::hides`], for use while an entry is borrowed.
    #[inline]
    pub(super) fn hiding(&self) -> impl Fn(Option<i64>) -> bool + use<> {
        let (now_ms, shows) = (self.turn.now_ms, self.turn.expired == ExpiredKeys::Shown);
        move |expiry_ms| expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) && !shows
    }

    /// Whether the key is still stored but expired, which a transaction that watches it must notice.
    pub fn is_stored_expired(&self, db_index: usize, key: Key<'_>) -> bool {
        self.database(db_index).get(key).is_some_and(|entry| self.hides(entry.expiry_ms()))
    }

    /// Type of the value stored at the key, unless it is expired.
    pub fn live_kind(&self, db_index: usize, key: Key<'_>) -> Option<Kind> {
        let entry = self.database(db_index).get(key)?;
        (!self.hides(entry.expiry_ms())).then(|| kind_of(entry))
    }

    /// The expiry of the key in the selected database, expired or not.
    pub fn stored_expiry_ms(&self, key: Key<'_>) -> Option<i64> {
        self.selected_database().get(key)?.expiry_ms()
    }

    /// Whether the key is stored, expired or not.
    pub fn is_stored(&self, db_index: usize, key: Key<'_>) -> bool {
        self.database(db_index).get(key).is_some()
    }

    /// Whether the key was stored in a database that the last command has emptied.
    pub fn was_cleared(&self, db_index: usize, key: Key<'_>) -> bool {
        let mut cleared = self.cleared.iter().filter(|cleared| cleared.db_index == db_index);
        cleared.any(|Cleared { database, .. }| database.get(key).is_some())
    }

    /// Removes the key if it is expired. Returns whether it counts as absent.
    #[inline(always)]
    pub(super) fn remove_if_expired(&mut self, key: Key<'_>) -> bool {
        self.selected_database().expiring_len() != 0 && self.remove_if_stored_expired(key)
    }

    #[inline(never)]
    fn remove_if_stored_expired(&mut self, key: Key<'_>) -> bool {
        let expiry_ms = self.selected_database().get(key).and_then(|entry| entry.expiry_ms());
        if !self.hides(expiry_ms) {
            return false;
        }
        if self.turn.expired == ExpiredKeys::Removed {
            self.expire(key);
        }
        true
    }

    /// Removes a key that a command has given an expiry in the past: a change by that command, propagated as the removal,
    /// unless the key was expired before.
    pub fn remove_as_expired(&mut self, key: Key<'_>) {
        self.change_log.audit.check_named_changed(key.bytes());
        if self.is_stored_expired(self.turn.database, key) {
            self.expire(key);
        } else if self.remove_stored(key, self.lazy_freeing.expired) {
            self.figures.expired_keys += 1;
            self.propagate_as(&[self.lazy_freeing.removal_of_expired(), key.bytes()]);
            self.changed(EventClasses::EXPIRED, "expired", key);
        }
    }

    /// Removes an expired key.
    pub(super) fn expire(&mut self, key: Key<'_>) {
        if self.remove_stored(key, self.lazy_freeing.expired) {
            self.figures.expired_keys += 1;
            self.propagate_removal(
                &[self.lazy_freeing.removal_of_expired(), key.bytes()],
                std::iter::empty(),
            );
            self.changed_too(EventClasses::EXPIRED, "expired", key);
        }
    }

    /// Records that an expired key was replaced: the replacement stands for its removal.
    #[cold]
    pub(super) fn note_expired_and_replaced(&mut self, key: Key<'_>) {
        if self.turn.expired == ExpiredKeys::Removed {
            self.figures.expired_keys += 1;
            self.event(EventClasses::EXPIRED, "expired", key);
        }
    }

    /// Begins a search for expired keys and fields in all databases.
    pub fn begin_expire_cycle(&self, effort: ExpireEffort) -> ExpireCycle {
        ExpireCycle {
            effort,
            databases_left: self.keyspace.in_use_count(),
            round: Search::default(),
            all: Search::default(),
            fields_left: true,
        }
    }

    /// Continues a search from where the last step or cycle stopped, and removes at most some hundred keys and fields.
    /// Returns whether there may be more than the share left on purpose.
    pub fn expire_step(&mut self, cursor: &mut ExpireCursor, cycle: &mut ExpireCycle) -> bool {
        cycle.fields_left = cycle.fields_left && self.expire_some_fields();
        cursor.positions.resize(self.database_count(), 0);
        while cycle.databases_left > 0 {
            let Some(index) = self.keyspace.next_in_use(cursor.db_index) else { break };
            cursor.db_index = index;
            let database = self.keyspace.database_mut(index);
            if database.shown_expiring_len() == 0 {
                database.ttl_average = None;
            } else if self.with_database(index, |db| db.expire_round(&mut cursor.positions[index], cycle)) {
                return true;
            }
            cursor.next_database();
            cycle.next_database();
        }
        cycle.fields_left
    }

    /// Ends a search that is finished or out of time: in the latter case the next one begins with the next database, so
    /// that one with too much work does not starve the others.
    pub fn end_expire_cycle(&mut self, cursor: &mut ExpireCursor, cycle: ExpireCycle) {
        if cycle.databases_left > 0 {
            cursor.next_database();
        }
        self.figures.note_stale(cycle.all);
    }

    /// Scans some stretches of the table and removes expired keys; returns whether the database may have more. Reads only
    /// bucket lines: an entry without an expiry is not touched.
    fn expire_round(&mut self, position: &mut u64, cycle: &mut ExpireCycle) -> bool {
        let now_ms = self.turn.now_ms;
        let database = self.keyspace.database_mut(self.turn.database);
        let mut expired = Vec::<Box<[u8]>>::new();
        let (mut met, mut ttls) = (0, Ttls::default());
        let (mut at_end, mut stretch_left) = (false, false);
        for _ in 0..STRETCHES_PER_STEP {
            if at_end || expired.len() > KEYS_PER_STEP - KEYS_PER_STRETCH {
                break;
            }
            let next = database.scan_expiring(*position, &mut |entry| {
                met += 1;
                match entry.expiry_ms() {
                    None => {}
                    Some(expiry_ms) if expiry_ms > now_ms => ttls.add(expiry_ms, now_ms),
                    Some(_) if expired.len() < KEYS_PER_STEP => expired.push(entry.key().into()),
                    Some(_) => stretch_left = true,
                }
            });
            if stretch_left {
                break;
            }
            (*position, at_end) = (next, next == 0);
        }
        for key in &expired {
            self.expire(self.key(key));
        }
        let database = self.selected_database_mut();
        database.ttl_average = ttls.take_into(database.ttl_average, database.shown_expiring_len());
        let goes_on = cycle.note(Search { met, expired: expired.len() as u64 });
        !at_end && goes_on
    }
}

impl ExpireCursor {
    fn next_database(&mut self) {
        self.db_index += 1;
    }
}

impl ExpireCycle {
    fn next_database(&mut self) {
        self.databases_left -= 1;
        self.round = Search::default();
    }

    /// Adds the counts of a step; returns whether another step in the database is worthwhile.
    fn note(&mut self, found: Search) -> bool {
        for search in [&mut self.round, &mut self.all] {
            search.met += found.met;
            search.expired += found.expired;
        }
        // A stretch without expiring keys is skipped until it has some: this ends.
        if self.round.met < self.effort.keys_min() {
            return true;
        }
        let round = std::mem::take(&mut self.round);
        round.expired * 100 > round.met * self.effort.stale_percent_max()
    }
}

impl DbFigures {
    /// Updates a moving average: one search weighs a twentieth.
    fn note_stale(&mut self, search: Search) {
        let percent = if search.met == 0 { 0.0 } else { search.expired as f64 * 100.0 / search.met as f64 };
        self.stale_percent = self.stale_percent * 0.95 + percent * 0.05;
    }
}
