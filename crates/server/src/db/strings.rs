//! Strings: stored in the entry, as an integer, or in a buffer of their own.
//!
//! ```text
//!   len <= 128                   in the entry
//!   len <= 2,048                 in the entry if its size class is then no larger than with a separate buffer
//!   len < 16,384                 an exact buffer, whose length and address are one word of the entry (`long_string`)
//!   longer, or once changed      a vector, which can grow, and to which replies can refer
//!   by policy                    compressed, in the entry: see `compression`
//! ```
//! Measured: bytes per key of 16 bytes relative to Valkey 9.1, and in brackets with a vector for all of more than 128:
//! 150: 0.95 (1.07), 200: 0.85 (1.05), 300: 0.97 (1.04), 400: 0.92 (1.03), 500: 0.98 (1.03), 700: 0.95 (1.02), 1,000:
//! 0.99 (1.01), 1,500: 0.97 (1.01), 2,000: 0.98 (1.00), 3,000 to 5,000: 1.00 (1.00). A string that replaces one with a
//! buffer of the same size class is written over it without an allocation: SET of 10 KB over 10 KB takes 0.96 of the
//! time. Processor time of a GET at pipeline 16 out of 300,000 keys, relative to a vector: 200: 0.85, 350: 0.96, 400:
//! 0.94, 460: 0.85, 700: 0.77, 1,000: 0.95.

pub mod long_string;
mod rdb;
#[cfg(test)]
mod tests;
mod value_type;

use super::access::UsedKey;
use super::accounts::Image;
use super::audit::signature;
use super::compression::dictionary::CompressedText;
use super::object::{ObjectVariant, StringValue};
use super::{Db, Key, Kind, Object, Turn};
use crate::error::ClientError;
use long_string::LongString;
use structures::key_table::{NewValue, Value as Stored, inline_entry_bytes, object_entry_bytes};
use structures::size_class::size_class;
use wire::reply::SharedBytes;

/// The longest string that OBJECT ENCODING calls `embstr`. Strings up to this length are always stored in the entry: one
/// fetch less.
pub const EMBEDDED_LEN_MAX: usize = 128;

/// The longest string stored in the entry where that takes no more of the allocator's size classes than a buffer of its
/// own. Beyond it at most a hundredth is gained, and moving entries would cost more.
const INLINE_LEN_MAX: usize = 2048;

/// A string to be stored.
#[derive(Clone, Copy)]
pub enum NewText<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// A long string in a buffer of its own, which the key then shares: nothing is copied.
    Shared(&'a SharedBytes),
}

impl Db {
    /// The string at `key` for a read.
    #[inline]
    pub fn read_string(&mut self, key: Key<'_>) -> Result<Option<StringValue<'_>>, ClientError> {
        let Some(value) = self.read(key) else { return Ok(None) };
        match value.text() {
            Some(text) => Ok(Some(text)),
            None => Err(ClientError::WrongType),
        }
    }

    /// The string at `key` for a write that reads it first.
    pub fn read_string_for_write(&mut self, key: Key<'_>) -> Result<Option<StringValue<'_>>, ClientError> {
        match self.read_for_write(key) {
            None => Ok(None),
            Some(value) => value.text().map(Some).ok_or(ClientError::WrongType),
        }
    }

    /// The long string at `key`, for a reply to refer to. Not counted as a read.
    pub fn share_string(&mut self, key: Key<'_>) -> Option<&SharedBytes> {
        self.change_log.audit.check_named(key.bytes());
        let database = self.selected_database_mut();
        if database.are_accounts_kept() {
            // A shared string has a head of its own.
            database.change_object(key, |object| _ = LongString::of_mut(object).map(LongString::share));
        }
        let object = database.get_mut(key)?.into_object_mut()?;
        LongString::of_mut(object).map(LongString::share)
    }

    /// Stores a string, in its smallest encoding.
    #[inline]
    pub fn put_string(&mut self, key: Key<'_>, text: &[u8], expiry_ms: Option<i64>) {
        match wire::number::parse_i64(text) {
            Some(n) => self.put(key, NewValue::Integer(n), expiry_ms),
            None => self.put_bytes(key, text, expiry_ms),
        }
    }

    /// As [`Db::put_string`], without a copy if the string need not be copied.
    #[inline]
    pub fn put_text(&mut self, key: Key<'_>, text: NewText<'_>, expiry_ms: Option<i64>) {
        match text {
            NewText::Bytes(bytes) => self.put_string(key, bytes, expiry_ms),
            NewText::Shared(bytes) => self.put_shared(key, bytes, expiry_ms),
        }
    }

    #[cold]
    fn put_shared(&mut self, key: Key<'_>, text: &SharedBytes, expiry_ms: Option<i64>) {
        let text = LongString::shared(SharedBytes::clone(text));
        self.put(key, NewValue::Object(text.into_object()), expiry_ms);
    }

    /// Stores a string as bytes, even if it reads as an integer.
    #[inline]
    pub fn put_bytes(&mut self, key: Key<'_>, text: &[u8], expiry_ms: Option<i64>) {
        if belongs_in_entry(key.bytes(), text, expiry_ms) {
            self.put(key, NewValue::Inline(text), expiry_ms);
        } else if !self.overwrite_buffer(key, text, expiry_ms) {
            self.put(key, NewValue::Object(LongString::exact(text).into_object()), expiry_ms);
        }
    }

    /// As [`Db::put`], if the key holds a string in a buffer of the size that the new one would get: overwrites it.
    /// Returns whether it has.
    #[inline(never)]
    fn overwrite_buffer(&mut self, key: Key<'_>, text: &[u8], expiry_ms: Option<i64>) -> bool {
        if self.policies.compressing(key.bytes()).is_some() {
            return false;
        }
        self.begin_look_up(key);
        let (hidden, Turn { now_ms, no_touch, .. }) = (self.hiding(), self.turn);
        let database = self.keyspace.database_mut(self.turn.database);
        let is_accounted = database.are_accounts_kept();
        let Some(mut entry) = database.get_mut(key) else { return false };
        let previous_ms = entry.as_ref().expiry_ms();
        let before = is_accounted.then(|| Image::of(entry.as_ref()));
        let is_overwritten = !hidden(previous_ms)
            && entry.object_mut().and_then(LongString::of_mut).is_some_and(|long| long.overwrite(text));
        if !is_overwritten {
            return false;
        }
        if !no_touch {
            self.access.touch(UsedKey::new(key), &mut entry, now_ms, &mut self.random);
        }
        let bytes = entry.object_mut().map_or(0, |object| object.memory_bytes());
        let images = before.map(|before| (before, Image::of(entry.as_ref())));
        database.changed_in_place(key, images);
        database.note_size(key, Kind::String, bytes);
        if previous_ms != expiry_ms {
            database.set_expiry(key, expiry_ms);
        }
        self.change_log.audit.check_named_changed(key.bytes());
        self.change_log.audit.key_changed(self.turn.database, key.bytes());
        self.note_given_expiry(key, expiry_ms);
        true
    }

    /// Stores an integer, in place if the value is one already. Keeps the expiry.
    pub fn put_integer_keeping_expiry(&mut self, key: Key<'_>, n: i64) {
        let (mut expiry_ms, hidden) = (None, self.hiding());
        if let Some(mut entry) = self.selected_database_mut().get_mut(key)
            && !hidden(entry.as_ref().expiry_ms())
        {
            if entry.set_integer(n) {
                self.change_log.audit.check_named_changed(key.bytes());
                self.change_log.audit.key_changed(self.turn.database, key.bytes());
                return;
            }
            expiry_ms = entry.as_ref().expiry_ms();
        }
        self.put(key, NewValue::Integer(n), expiry_ms);
    }

    /// Passes the string at `key` (empty if it does not exist) to `edit` as a buffer, and stores the result, keeping the
    /// expiry. The string stays a growable buffer from then on.
    pub fn edit_string<R>(
        &mut self,
        key: Key<'_>,
        edit: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, ClientError> {
        self.edit_text_if(key, |text| (edit(text), true))
    }

    /// As [`Db::edit_string`], for edits that may change nothing: `edit` returns with its result whether it has, and if
    /// not the key stays unchanged.
    pub fn edit_text_if<R>(
        &mut self,
        key: Key<'_>,
        edit: impl FnOnce(&mut Vec<u8>) -> (R, bool),
    ) -> Result<R, ClientError> {
        self.expect_kind(key, Kind::String)?;
        let (mut text, mut expiry_ms, hidden) = (Vec::new(), None, self.hiding());
        let database = self.keyspace.database_mut(self.turn.database);
        let is_accounted = database.are_accounts_kept();
        if let Some(mut entry) = database.get_mut(key)
            && !hidden(entry.as_ref().expiry_ms())
        {
            let image = is_accounted.then(|| Image::of(entry.as_ref()));
            if let Some(object) = entry.object_mut() {
                let before = signature(object);
                let text = LongString::of_mut(object).ok_or(ClientError::WrongType)?;
                let (result, changed) = edit(text.to_mut());
                let after = signature(object);
                let (kind, bytes) = (object.kind(), object.memory_bytes());
                let images = image.map(|before| (before, Image::of(entry.as_ref())));
                database.changed_in_place(key, images);
                database.note_size(key, kind, bytes);
                match changed {
                    true => {
                        self.change_log.audit.check_named_changed(key.bytes());
                        self.change_log.audit.key_changed(self.turn.database, key.bytes());
                    }
                    false => self.change_log.audit.compare(self.turn.database, key.bytes(), before, after),
                }
                return Ok(result);
            }
            expiry_ms = entry.as_ref().expiry_ms();
            text = match entry.as_ref().value() {
                Stored::Inline(bytes) => bytes.to_vec(),
                Stored::Compressed(stored) => {
                    CompressedText::new(stored, &self.interned.dictionaries).to_vec()
                }
                Stored::Integer(n) => StringValue::Integer(n).to_vec(),
                Stored::Object(_) | Stored::Embedded(_) => unreachable!("the string is not an object"),
            };
        }
        let (result, changed) = edit(&mut text);
        if changed {
            self.put_buffer(key, text, expiry_ms);
        }
        Ok(result)
    }

    /// Stores a string as a growable buffer, like edited ones.
    pub fn put_buffer(&mut self, key: Key<'_>, text: Vec<u8>, expiry_ms: Option<i64>) {
        self.put(key, NewValue::Object(Object::text(text)), expiry_ms);
    }

    /// The strings at several keys at once, for commands that combine them.
    pub fn read_strings<'a, 'k>(
        &'a mut self,
        keys: impl Iterator<Item = Key<'k>> + Clone,
    ) -> Result<Vec<Option<StringValue<'a>>>, ClientError> {
        let mut present = Vec::new();
        for key in keys.clone() {
            present.push(self.read_string(key)?.is_some());
        }
        let database = self.selected_database();
        let find = |key: Key<'_>| database.get(key).and_then(|entry| self.value_of(entry).text());
        Ok(keys.zip(present).map(|(key, present)| if present { find(key) } else { None }).collect())
    }
}

/// Maximum spare room: a growing string gets its length again, so that growing step by step is not quadratic, but at most
/// this.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Grows the string to `len` bytes with zeros, if it is shorter.
pub fn grow(text: &mut Vec<u8>, len: usize) {
    if len > text.len() {
        reserve(text, len - text.len());
        text.resize(len, 0);
    }
}

/// Reserves room for `more` bytes at the string's end. A new string gets exactly its length: most never grow again.
pub fn reserve(text: &mut Vec<u8>, more: usize) {
    if text.capacity() - text.len() >= more {
        return;
    }
    let spare = if text.is_empty() { 0 } else { (text.len() + more).min(SPARE_BYTES_MAX) };
    text.reserve_exact(more + spare);
}

/// Chooses where a key's bytes are stored: in its entry, or in a buffer of their own.
#[inline]
pub(super) fn bytes_value<'a>(key: &[u8], text: &'a [u8], expiry_ms: Option<i64>) -> NewValue<'a, Object> {
    match belongs_in_entry(key, text, expiry_ms) {
        true => NewValue::Inline(text),
        false => NewValue::Object(LongString::exact(text).into_object()),
    }
}

#[inline]
fn belongs_in_entry(key: &[u8], text: &[u8], expiry_ms: Option<i64>) -> bool {
    text.len() <= EMBEDDED_LEN_MAX || fits_entry(key.len(), text.len(), expiry_ms.is_some())
}

fn fits_entry(key_len: usize, len: usize, expires: bool) -> bool {
    len <= INLINE_LEN_MAX
        && inline_entry_bytes::<Object>(key_len, len, expires)
            <= object_entry_bytes::<Object>(key_len, expires) + size_class(len)
}
