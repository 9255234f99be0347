//! Fields that expire: which hashes have any, by when the first of them does.
//!
//! Every place that stores, changes or removes a value tells [`ExpiringFields`] when the value's first field expires,
//! before and after, so the search for expired fields meets only hashes that have some.

use super::collection::{CollectionContext, ExpiredFields};
use super::hash::Hash;
use super::object::{ObjectVariant, by_type};
use super::rdb::ReadValue;
use super::value_type::ValueType;
use super::{Db, EventClasses, Object};
use std::collections::BTreeSet;

/// Fields removed between two looks at the clock.
const FIELDS_PER_ROUND: usize = 64;

/// The hashes of one database that have fields that expire.
#[derive(Debug, Default)]
pub struct ExpiringFields {
    /// Earliest expiry and key.
    hashes: BTreeSet<(i64, Box<[u8]>)>,
}

impl ExpiringFields {
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Panics unless it holds exactly these.
    pub(super) fn check(&self, expected: &BTreeSet<(i64, Box<[u8]>)>) {
        assert_eq!(&self.hashes, expected, "hashes with fields that expire");
    }

    /// The first of the key's fields to expire did so at `before`, and does now at `after`.
    #[inline]
    pub(super) fn moved(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if before != after {
            self.replace(key, before, after);
        }
    }

    #[cold]
    fn replace(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if let Some(before_ms) = before {
            self.hashes.remove(&(before_ms, key.into()));
        }
        if let Some(after_ms) = after {
            self.hashes.insert((after_ms, key.into()));
        }
    }

    /// The hash whose field is the first to expire, if that is before `now_ms`.
    fn first_expired(&self, now_ms: i64) -> Option<Box<[u8]>> {
        self.hashes.first().filter(|(expiry_ms, _)| *expiry_ms < now_ms).map(|(_, key)| key.clone())
    }
}

/// When the first element of an object expires.
pub(super) fn earliest_expiry_ms(object: Option<&Object>) -> Option<i64> {
    object.and_then(|object| by_type!(object, value => ValueType::earliest_expiry_ms(value)))
}

impl ReadValue {
    /// Leaves out fields that expire before `now_ms`, and says which.
    pub fn leave_out_expired(&mut self, now_ms: i64) -> Vec<Vec<u8>> {
        let mut fields = Vec::new();
        let ReadValue::Object(object) = self else { return fields };
        if earliest_expiry_ms(Some(object)).is_some_and(|earliest_ms| earliest_ms < now_ms)
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
    /// Keys of the selected database whose values have elements that expire.
    pub fn expiring_fields_len(&self) -> usize {
        self.selected_database().expiring_fields.len()
    }

    /// See [`ExpiringFields::moved`].
    #[inline]
    pub(super) fn fields_moved(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        self.selected_database_mut().fields_moved(key, before, after);
    }

    /// The instant at which readers see fields: what expires before it is hidden from them.
    #[inline]
    pub fn fields_at_ms(&self) -> i64 {
        if self.show_expired_keys { i64::MIN } else { self.now_ms }
    }

    /// Says that a change has come upon fields that were expired and has removed them: as the search for them would have.
    #[cold]
    pub(super) fn record_expired_fields(&mut self, key: &[u8], expired: &ExpiredFields) {
        self.count_expired_fields(expired.removed.len());
        let names = expired.removed.iter().map(Vec::as_slice);
        self.propagate_removal(&[b"HDEL", key], names);
        self.event(EventClasses::HASH, "hexpired", key);
        if std::mem::take(&mut self.emptied) {
            return self.changed(EventClasses::GENERIC, "del", key);
        }
        if expired.emptied {
            let hash = self.key_hash(key);
            self.selected_database_mut().set_expiry(hash, key, None);
        }
        self.touched(key);
    }

    /// Counts fields that are gone because they were expired.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.figures.expired_fields += fields as u64;
    }

    /// Removes expired fields from a hash that has some; whether there may be more.
    pub(super) fn expire_some_fields(&mut self) -> bool {
        for index in 0..self.database_count() {
            if let Some(key) = self.database(index).expiring_fields.first_expired(self.now_ms)
                && self.with_database(index, |db| db.expire_fields_of(&key))
            {
                return true;
            }
        }
        false
    }

    /// Whether anything was removed.
    fn expire_fields_of(&mut self, key: &[u8]) -> bool {
        let now_ms = self.now_ms;
        let mut fields = Vec::new();
        let remove = |hash: &mut Hash, _: CollectionContext<'_>| {
            hash.remove_expired(FIELDS_PER_ROUND, now_ms, &mut |field| fields.push(field.to_vec()))
        };
        let removed = match self.change_unasked(key, remove) {
            Ok(Some(removed)) => removed,
            // The key itself was expired.
            Ok(None) | Err(_) => return !self.holds(self.selected, key),
        };
        self.count_expired_fields(removed);
        if removed > 0 {
            let names = fields.iter().map(Vec::as_slice);
            self.propagate_removal(&[b"HDEL", key], names);
        }
        self.event(EventClasses::EXPIRED, "hexpired", key);
        if std::mem::take(&mut self.emptied) {
            self.changed(EventClasses::GENERIC, "del", key);
        } else {
            self.touched(key);
        }
        removed > 0
    }
}
