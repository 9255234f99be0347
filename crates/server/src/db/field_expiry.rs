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
use super::{Db, EventClasses, ExpiredKeys, Object};
use std::collections::BTreeSet;
use structures::size_class::usable_size;

/// Fields removed between two looks at the clock.
const FIELDS_PER_ROUND: usize = 64;
/// Removed fields that one command tells of, if their names are short.
const FIELDS_PER_COMMAND: usize = 1024;

/// When the first element of a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstExpiry {
    pub at_ms: i64,
    /// It is a hash's field, not a message that a stream remembers.
    pub is_field: bool,
}

/// The values of one database that have elements that expire.
#[derive(Debug, Default)]
pub struct ExpiringFields {
    /// Earliest expiry and key.
    keys: BTreeSet<(i64, Box<[u8]>)>,
    /// Hashes among them.
    hashes: usize,
}

/// A tree's nodes are two thirds full, and have pointers of their own.
const TREE_BYTES_PER_KEY: usize = 40;

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
        assert_eq!(&self.keys, expected, "keys with elements that expire");
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
            self.keys.remove(&(before.at_ms, key.into()));
            self.hashes -= usize::from(before.is_field);
        }
        if let Some(after) = after {
            self.keys.insert((after.at_ms, key.into()));
            self.hashes += usize::from(after.is_field);
        }
    }

    /// The key whose element is the first to expire, if that is before `now_ms`.
    fn first_expired(&self, now_ms: i64) -> Option<Box<[u8]>> {
        self.keys.first().filter(|(expiry_ms, _)| *expiry_ms < now_ms).map(|(_, key)| key.clone())
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
        key: &[u8],
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
    pub(super) fn record_expired_fields(&mut self, key: &[u8], expired: &ExpiredFields) {
        self.count_expired_fields(expired.removed.len());
        self.propagate_expired_fields(key, &expired.removed);
        self.event(EventClasses::HASH, "hexpired", key);
        if std::mem::take(&mut self.emptied) {
            return self.changed_too(EventClasses::GENERIC, "del", key);
        }
        if expired.emptied {
            let hash = self.key_hash(key);
            self.selected_database_mut().set_expiry(hash, key, None);
        }
        self.touched_by_expiry(key);
    }

    fn propagate_expired_fields(&mut self, key: &[u8], fields: &[Vec<u8>]) {
        for names in wire::aof::parts(fields, FIELDS_PER_COMMAND) {
            self.propagate_removal(&[b"HDEL", key], names.iter().map(Vec::as_slice));
        }
    }

    /// Counts fields that are gone because they were expired.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.figures.expired_fields += fields as u64;
    }

    /// Removes expired elements from a value that has some; whether there may be more.
    pub(super) fn expire_some_fields(&mut self) -> bool {
        for index in self.databases_in_use() {
            if let Some(key) = self.database(index).expiring_fields.first_expired(self.turn.now_ms)
                && self.with_database(index, |db| db.expire_elements_of(&key))
            {
                return true;
            }
        }
        false
    }

    /// Whether anything was done.
    fn expire_elements_of(&mut self, key: &[u8]) -> bool {
        let forget = |stream: &mut Stream, context: CollectionContext<'_>| stream.forget_some(context.now_ms);
        match self.change_unasked(key, forget) {
            Ok(Some(())) => true,
            Ok(None) => !self.holds(self.turn.database, key),
            Err(_) => self.expire_fields_of(key),
        }
    }

    /// Whether anything was removed.
    fn expire_fields_of(&mut self, key: &[u8]) -> bool {
        let now_ms = self.turn.now_ms;
        let mut fields = Vec::new();
        let remove = |hash: &mut Hash, _: CollectionContext<'_>| {
            hash.remove_expired(FIELDS_PER_ROUND, now_ms, &mut |field| fields.push(field.to_vec()))
        };
        let removed = match self.change_unasked(key, remove) {
            Ok(Some(removed)) => removed,
            // The key itself was expired.
            Ok(None) | Err(_) => return !self.holds(self.turn.database, key),
        };
        self.count_expired_fields(removed);
        self.propagate_expired_fields(key, &fields);
        self.event(EventClasses::EXPIRED, "hexpired", key);
        if std::mem::take(&mut self.emptied) {
            self.changed_too(EventClasses::GENERIC, "del", key);
        } else {
            self.touched_by_expiry(key);
        }
        removed > 0
    }
}
