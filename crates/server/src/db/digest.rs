//! A digest of the data: equal data sets have equal digests, whatever the order of their keys and elements and however
//! they are encoded. Byte for byte the reference's, so that two servers can be compared.

use super::object::{StringValue, Value, by_type};
use super::value_type::ValueType;
use super::{Db, Key};
use sha1::{Digest as _, Sha1};
use wire::convert::short_len;

/// Added for an expiry, whatever its time.
const EXPIRES: &[u8] = b"!!expire!!";

/// A SHA-1 digest of 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Adds `bytes`, independent of order.
    pub(super) fn xor(&mut self, bytes: &[u8]) {
        for (own, added) in self.0.iter_mut().zip(Sha1::digest(bytes)) {
            *own ^= added;
        }
    }

    /// Adds another digest, independent of order.
    pub(super) fn xor_digest(&mut self, other: &Digest) {
        self.xor(&other.0);
    }

    /// Adds `bytes`, dependent on order.
    pub(super) fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    pub(super) fn mix_value(&mut self, text: StringValue<'_>) {
        text.with_bytes(|bytes| self.mix(bytes));
    }

    /// Forty hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Db {
    /// Digest of all databases, without keys of hidden slots.
    pub fn digest(&self) -> Digest {
        let mut all = Digest::default();
        for (index, database) in self.keyspace.iter().filter(|(_, database)| database.shown_len() > 0) {
            all.mix(&short_len(index).to_be_bytes());
            for entry in database.iter_shown() {
                let mut digest = Digest::default();
                digest.mix(entry.key());
                add_value(&mut digest, &self.value_of(entry), self.fields_at_ms());
                all.xor_digest(&digest);
            }
        }
        all
    }

    /// Digest of the value at `key`, even if expired; all zeros if the key does not exist.
    pub fn digest_of(&self, key: Key<'_>) -> Digest {
        let mut digest = Digest::default();
        if let Some(entry) = self.selected_database().get(key) {
            add_value(&mut digest, &self.value_of(entry), self.fields_at_ms());
        }
        digest
    }
}

fn add_value(digest: &mut Digest, value: &Value<'_>, fields_at_ms: i64) {
    digest.mix(&u32::from(value.kind().number()).to_be_bytes());
    match value.text() {
        Some(text) => digest.mix_value(text),
        None => {
            _ = value.with_object(|object| {
                by_type!(object, value => ValueType::add_to_digest(value, digest, fields_at_ms));
            })
        }
    }
    if value.expiry_ms().is_some() {
        digest.xor(EXPIRES);
    }
}
