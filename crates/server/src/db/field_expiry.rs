//! Elements that expire: which hashes have fields that do, and which streams remember messages for a time; by when the
//! first of them does.
//!
//! Every place that stores, changes or removes a value tells [`ExpiringFields`] when the value's first element expires,
//! before and after, so the search for expired ones meets only values that have some.

use super::collection::{CollectionContext, ExpiredFields};
use super::hash::Hash;
use super::object::{ObjectVariant, by_type};
use super::rdb::ReadValue;
use super::stream::Stream;
use super::value_type::ValueType;
use super::{Db, EventClasses, ExpiredKeys, Key, Object};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Deref;
use structures::exact_bytes::ExactBytes;
use structures::size_class::usable_size;

/// Fields removed between two looks at the clock.
const FIELDS_PER_ROUND: usize = 64;
/// Removed fields that one command tells of, if their names are short.
const FIELDS_PER_COMMAND: usize = 1024;

/// When the first element of a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstExpiry {
    /// Time of expiry in milliseconds since the epoch.
    pub at_ms: i64,
    /// It is a hash's field, not a message that a stream remembers.
    pub is_field: bool,
}

/// Earliest expiry and key of a value; ordered by the expiry.
#[derive(Debug)]
struct Line<Key> {
    at_ms: i64,
    key: Key,
}

impl<Key: Deref<Target = [u8]>> Ord for Line<Key> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_ms.cmp(&other.at_ms).then_with(|| self.key.cmp(&*other.key))
    }
}

impl<Key: Deref<Target = [u8]>> PartialOrd for Line<Key> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<Key: Deref<Target = [u8]>> PartialEq for Line<Key> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<Key: Deref<Target = [u8]>> Eq for Line<Key> {}

/// The values of one database that have elements that expire.
#[derive(Debug, Default)]
pub struct ExpiringFields {
    /// Lines of 16 bytes.
    keys: BTreeSet<Line<ExactBytes>>,
    /// Those of keys of more than [`ExactBytes::LEN_MAX`] bytes.
    long_keys: BTreeSet<Line<Box<[u8]>>>,
    /// Hashes among them.
    hashes: usize,
}

/// Keys of hidden slots with expired elements that a search passes over. Behind more of them it finds nothing until they are
/// shown.
const HIDDEN_PASSED_MAX: usize = 1000;

/// A tree takes from 27 bytes for a key, where first expiries are set in any order, to 35, where each is later than those
/// before it: its nodes are then half full.
const TREE_BYTES_PER_KEY: usize = 31;

/// What [`ExpiringFields`] takes for a key, on average.
pub(super) fn line_bytes(key: &[u8]) -> usize {
    TREE_BYTES_PER_KEY + usable_size(key.len())
}

impl ExpiringFields {
    /// Hashes that have fields that expire.
    pub fn hashes(&self) -> usize {
        self.hashes
    }

    /// Panics unless it holds exactly these.
    pub(super) fn check(&self, expected: &BTreeSet<(i64, Box<[u8]>)>, hashes: usize) {
        let short = self.keys.iter().map(|line| (line.at_ms, (*line.key).into()));
        let long = self.long_keys.iter().map(|line| (line.at_ms, line.key.clone()));
        let lines: BTreeSet<(i64, Box<[u8]>)> = short.chain(long).collect();
        assert_eq!(&lines, expected, "keys with elements that expire");
        assert_eq!(self.hashes, hashes, "hashes with fields that expire");
    }

    /// The first of the key's elements to expire did so at `before`, and does now at `after`.
    #[inline]
    pub(super) fn moved(&mut self, key: &[u8], before: Option<FirstExpiry>, after: Option<FirstExpiry>) {
        if before != after {
            self.replace(key, before, after);
        }
    }

    #[cold]
    fn replace(&mut self, key: &[u8], before: Option<FirstExpiry>, after: Option<FirstExpiry>) {
        if let Some(before) = before {
            self.remove(before.at_ms, key.into());
            self.hashes -= usize::from(before.is_field);
        }
        if let Some(after) = after {
            self.insert(after.at_ms, key.into());
            self.hashes += usize::from(after.is_field);
        }
    }

    fn insert(&mut self, at_ms: i64, key: Box<[u8]>) {
        match key.len() > ExactBytes::LEN_MAX {
            true => self.long_keys.insert(Line { at_ms, key }),
            false => self.keys.insert(Line { at_ms, key: ExactBytes::new(key) }),
        };
    }

    fn remove(&mut self, at_ms: i64, key: Box<[u8]>) {
        match key.len() > ExactBytes::LEN_MAX {
            true => self.long_keys.remove(&Line { at_ms, key }),
            false => self.keys.remove(&Line { at_ms, key: ExactBytes::new(key) }),
        };
    }

    /// The key whose element is the first to expire, if that is before `now_ms`. Keys that `is_hidden` are passed over, up
    /// to [`HIDDEN_PASSED_MAX`].
    fn first_expired(&self, now_ms: i64, is_hidden: impl Fn(&[u8]) -> bool) -> Option<Box<[u8]>> {
        let short = self.keys.iter().map(|line| (line.at_ms, &*line.key));
        let long = self.long_keys.iter().map(|line| (line.at_ms, &*line.key));
        let is_due = |&(at_ms, key): &(i64, &[u8])| at_ms < now_ms && !is_hidden(key);
        let short = short.take(HIDDEN_PASSED_MAX).take_while(|line| line.0 < now_ms).find(is_due);
        let long = long.take(HIDDEN_PASSED_MAX).take_while(|line| line.0 < now_ms).find(is_due);
        short.into_iter().chain(long).min().map(|(_, key)| key.into())
    }
}

/// When the first element of an object expires.
pub(super) fn first_expiry(object: Option<&Object>) -> Option<FirstExpiry> {
    object.and_then(|object| by_type!(object, value => ValueType::first_expiry(value)))
}

impl ReadValue {
    /// Leaves out fields that expire before `now_ms`, and says which.
    pub fn leave_out_expired(&mut self, now_ms: i64) -> Vec<Vec<u8>> {
        let mut fields = Vec::new();
        let ReadValue::Object(object) = self else { return fields };
        if first_expiry(Some(object)).is_some_and(|first| first.at_ms < now_ms)
            && let Some(hash) = Hash::of_mut(object)
        {
            hash.remove_expired(usize::MAX, now_ms, &mut |field| fields.push(field.to_vec()));
            if hash.len() == 0 {
                *self = ReadValue::AllExpired;
            }
        }
        fields
    }
}

impl Db {
    /// Hashes of the selected database that have fields that expire.
    pub fn expiring_fields_len(&self) -> usize {
        self.selected_database().expiring_fields.hashes()
    }

    /// See [`ExpiringFields::moved`].
    #[inline]
    pub(super) fn fields_moved(
        &mut self,
        key: Key<'_>,
        before: Option<FirstExpiry>,
        after: Option<FirstExpiry>,
    ) {
        self.selected_database_mut().fields_moved(key, before, after);
    }

    /// The instant at which readers see fields: what expires before it is hidden from them.
    #[inline]
    pub fn fields_at_ms(&self) -> i64 {
        if self.turn.expired == ExpiredKeys::Shown { i64::MIN } else { self.turn.now_ms }
    }

    /// Says that a change has come upon fields that were expired and has removed them: as the search for them would have.
    #[cold]
    pub(super) fn record_expired_fields(&mut self, key: Key<'_>, expired: &ExpiredFields) {
        self.count_expired_fields(expired.removed.len());
        self.propagate_expired_fields(key, &expired.removed);
        self.event(EventClasses::HASH, "hexpired", key);
        if self.change_log.take_emptied(key) {
            return self.changed_too(EventClasses::GENERIC, "del", key);
        }
        if expired.emptied {
            self.selected_database_mut().set_expiry(key, None);
        }
        self.touched_by_expiry(key);
    }

    fn propagate_expired_fields(&mut self, key: Key<'_>, fields: &[Vec<u8>]) {
        for names in wire::aof::parts(fields, FIELDS_PER_COMMAND) {
            self.propagate_removal(&[b"HDEL", key.bytes()], names.iter().map(Vec::as_slice));
        }
    }

    /// Counts fields that are gone because they were expired.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.figures.expired_fields += fields as u64;
    }

    /// Removes expired elements from a value that has some; whether there may be more.
    pub(super) fn expire_some_fields(&mut self) -> bool {
        for index in self.databases_in_use() {
            let database = self.database(index);
            let first =
                database.expiring_fields.first_expired(self.turn.now_ms, |key| database.is_hidden(key));
            if let Some(key) = first
                && self.with_database(index, |db| db.expire_elements_of(db.key(&key)))
            {
                return true;
            }
        }
        false
    }

    /// Whether anything was done.
    fn expire_elements_of(&mut self, key: Key<'_>) -> bool {
        let forget = |stream: &mut Stream, context: CollectionContext<'_>| stream.forget_some(context.now_ms);
        match self.change_unasked(key, forget) {
            Ok(Some(())) => true,
            Ok(None) => !self.is_stored(self.turn.database, key),
            Err(_) => self.expire_fields_of(key),
        }
    }

    /// Whether anything was removed.
    fn expire_fields_of(&mut self, key: Key<'_>) -> bool {
        let now_ms = self.turn.now_ms;
        let mut fields = Vec::new();
        let remove = |hash: &mut Hash, _: CollectionContext<'_>| {
            hash.remove_expired(FIELDS_PER_ROUND, now_ms, &mut |field| fields.push(field.to_vec()))
        };
        let removed = match self.change_unasked(key, remove) {
            Ok(Some(removed)) => removed,
            // The key itself was expired.
            Ok(None) | Err(_) => return !self.is_stored(self.turn.database, key),
        };
        self.count_expired_fields(removed);
        self.propagate_expired_fields(key, &fields);
        self.event(EventClasses::EXPIRED, "hexpired", key);
        if self.change_log.take_emptied(key) {
            self.changed_too(EventClasses::GENERIC, "del", key);
        } else {
            self.touched_by_expiry(key);
        }
        removed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_found_in_the_order_of_their_expiries() {
        let (short, long) = (vec![b's'; ExactBytes::LEN_MAX], vec![b'l'; ExactBytes::LEN_MAX + 1]);
        let at = |at_ms| Some(FirstExpiry { at_ms, is_field: true });
        let mut fields = ExpiringFields::default();
        fields.moved(&short, None, at(20));
        fields.moved(&long, None, at(10));
        assert_eq!(fields.first_expired(10, |_| false), None);
        assert_eq!(fields.first_expired(11, |_| false).as_deref(), Some(&long[..]));
        fields.moved(&long, at(10), at(30));
        assert_eq!(fields.first_expired(40, |_| false).as_deref(), Some(&short[..]));
        assert_eq!(fields.first_expired(40, |key| key == short).as_deref(), Some(&long[..]));
        assert_eq!(fields.first_expired(30, |key| key == short), None);
        let lines = [(20, short.clone().into()), (30, long.clone().into())];
        fields.check(&BTreeSet::from(lines), 2);
        fields.moved(&short, at(20), None);
        fields.moved(&long, at(30), None);
        assert_eq!(fields.first_expired(40, |_| false), None);
        fields.check(&BTreeSet::new(), 0);
    }
}
