//! The walk: after a family has got a new dictionary, all keys are visited once, a few at a time, so that values stored
//! earlier are compressed too and the older dictionary falls out of use.

use super::dictionary::slot_of;
use super::{Offer, TEXT_LEN_MAX, TEXT_LEN_MIN};
use crate::db::object::{ObjectVariant, Value};
use crate::db::strings::long_string::LongString;
use crate::db::strings::{EMBEDDED_LEN_MAX, bytes_value};
use crate::db::{Db, Key, Object};
use structures::key_table::{EntryRef, NewValue, Value as Stored};

/// Calls of the table's scan per step, and bytes compressed per step: a quarter of a millisecond.
const SCANS_PER_STEP: usize = 64;
const BYTES_PER_STEP: usize = 64 * 1024;

/// Position of the walk.
#[derive(Debug, Default)]
pub struct Walk {
    /// Database and cursor.
    place: Option<(usize, u64)>,
    /// Another walk follows: it was requested during this one.
    is_requested: bool,
}

impl Walk {
    /// Starts a walk, or requests another one.
    pub fn begin(&mut self) {
        self.is_requested = true;
    }

    /// Whether a walk is under way.
    pub fn is_under_way(&self) -> bool {
        self.place.is_some()
    }
}

impl Db {
    /// Continues the walk; returns whether it is unfinished.
    pub(super) fn walk_step(&mut self) -> bool {
        let Some((mut index, mut cursor)) = self.next_place() else { return false };
        let (mut scans, mut bytes) = (0, 0);
        while scans < SCANS_PER_STEP && bytes < BYTES_PER_STEP {
            let Some(in_use) = self.keyspace.next_in_use_from(index) else {
                self.compression.walk.place = None;
                return self.compression.walk.is_requested;
            };
            if in_use != index {
                (index, cursor) = (in_use, 0);
            }
            let mut wanted: Vec<Box<[u8]>> = Vec::new();
            let visit = &mut |entry: EntryRef<'_, Object>| {
                if self.needs_rewrite(entry) {
                    wanted.push(entry.key().into());
                }
            };
            cursor = self.keyspace.database(index).scan(cursor, visit);
            scans += 1;
            for key in wanted {
                bytes += self.with_database(index, |db| db.put_again(db.key(&key)));
            }
            if cursor == 0 {
                index += 1;
            }
        }
        self.compression.walk.place = Some((index, cursor));
        true
    }

    fn next_place(&mut self) -> Option<(usize, u64)> {
        let walk = &mut self.compression.walk;
        if walk.place.is_none() && std::mem::take(&mut walk.is_requested) {
            walk.place = Some((0, 0));
        }
        walk.place
    }

    /// Returns whether the entry's value would now be stored differently, or is a sample.
    fn needs_rewrite(&self, entry: EntryRef<'_, Object>) -> bool {
        let (len, slot) = match entry.value() {
            Stored::Inline(text) => (text.len(), None),
            Stored::Object(object) => match LongString::of(object) {
                Some(LongString::Exact(text)) if text.len() > EMBEDDED_LEN_MAX => (text.len(), None),
                _ => return false,
            },
            Stored::Compressed(stored) => (TEXT_LEN_MIN, Some(slot_of(stored))),
            Stored::Integer(_) | Stored::Embedded(_) => return false,
        };
        let rule = || self.policies.compressing(entry.key());
        let needs_rewrite = |rule: usize| {
            self.compression.families.get(rule).is_some_and(|family| family.needs_rewrite(slot))
        };
        (TEXT_LEN_MIN..=TEXT_LEN_MAX).contains(&len) && rule().is_some_and(needs_rewrite)
    }

    /// Rewrites the value of a key in the selected database; returns its length. The value is the same for clients, so no
    /// change is recorded.
    fn put_again(&mut self, key: Key<'_>) -> usize {
        let Some(rule) = self.policies.compressing(key.bytes()) else { return 0 };
        let Some(entry) = self.selected_database().get(key) else { return 0 };
        let Some(text) = Value::new(entry, &self.interned).text().map(|text| text.to_vec()) else {
            return 0;
        };
        let was_compressed = matches!(entry.value(), Stored::Compressed(_));
        let expiry_ms = entry.expiry_ms();
        let plain = bytes_value(key.bytes(), &text, expiry_ms);
        let is_inline = matches!(plain, NewValue::Inline(_));
        let offer =
            Offer { key_len: key.bytes().len(), text: &text, expires: expiry_ms.is_some(), insists: true };
        let stored_len =
            self.compression.offer(rule, &offer, is_inline, self.turn.now_ms, &self.interned.dictionaries);
        let value = match stored_len {
            Some(len) => NewValue::Compressed(&self.compression.stored[..len]),
            None if was_compressed => plain,
            None => return text.len(),
        };
        let access = |replaced: Option<EntryRef<'_, Object>>| replaced.map_or(0, |entry| entry.access());
        self.keyspace.database_mut(self.turn.database).put_over(key, value, expiry_ms, access);
        text.len()
    }
}
