//! A signature of the data: equal data sets have equal ones, whatever the order of their keys and elements and
//! however they are encoded. Byte for byte that of the reference, so that two servers can be compared.

use super::object::{Kind, Object, StringValue, Value};
use super::sorted_set::SortedSet;
use super::{Db, Hash, Set};
use sha1::{Digest as _, Sha1};
use structures::key_table::Value as Stored;

/// What an expiry adds, whenever it is.
const EXPIRES: &[u8] = b"!!expire!!";

/// 20 bytes of SHA-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Adds `bytes` in any order with others.
    fn xor(&mut self, bytes: &[u8]) {
        for (own, added) in self.0.iter_mut().zip(Sha1::digest(bytes)) {
            *own ^= added;
        }
    }

    /// Adds `bytes` so that their order matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_value(&mut self, text: StringValue<'_>) {
        text.with_bytes(|bytes| self.mix(bytes));
    }

    /// Forty hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Db {
    /// Of all databases.
    pub fn digest(&self) -> Digest {
        let mut all = Digest::default();
        for (index, database) in self.keyspace.iter().enumerate().filter(|(_, database)| !database.is_empty())
        {
            all.mix(&(index as u32).to_be_bytes());
            for entry in database.iter() {
                let mut digest = Digest::default();
                digest.mix(entry.key());
                add_value(&mut digest, &Value::new(entry), self.fields_at_ms());
                all.xor(&digest.0);
            }
        }
        all
    }

    /// Of the value at `key`, past its expiry too; all zeros if there is none.
    pub fn digest_of(&self, key: &[u8]) -> Digest {
        let mut digest = Digest::default();
        if let Some(entry) = self.selected_database().get(self.key_hash(key), key) {
            add_value(&mut digest, &Value::new(entry), self.fields_at_ms());
        }
        digest
    }
}

/// Numbers that stand for the types in signatures and files.
const fn type_number(kind: Kind) -> u32 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::SortedSet => 3,
        Kind::Hash => 4,
        Kind::Stream => 6,
    }
}

fn add_value(digest: &mut Digest, value: &Value<'_>, fields_at_ms: i64) {
    digest.mix(&type_number(value.kind()).to_be_bytes());
    match value.entry().value() {
        Stored::Inline(bytes) => digest.mix(bytes),
        Stored::Integer(n) => digest.mix_value(StringValue::Integer(n)),
        Stored::Object(object) => add_object(digest, object, fields_at_ms),
    }
    if value.expiry_ms().is_some() {
        digest.xor(EXPIRES);
    }
}

fn add_object(digest: &mut Digest, object: &Object, fields_at_ms: i64) {
    match object {
        Object::String(text) => digest.mix(text),
        Object::Hash(hash) => add_hash(digest, hash, fields_at_ms),
        Object::Set(set) => add_set(digest, set),
        Object::List(list) => list.for_each(0, list.len(), &mut |element| digest.mix_value(element)),
        Object::SortedSet(set) => add_sorted_set(digest, set),
        Object::Stream(stream) => stream.for_each(&mut |id, fields| {
            digest.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
            for (field, value) in fields {
                digest.mix_value(field);
                digest.mix_value(value);
            }
        }),
    }
}

fn add_hash(digest: &mut Digest, hash: &Hash, fields_at_ms: i64) {
    hash.for_each(fields_at_ms, &mut |field, value| {
        let mut pair = Digest::default();
        pair.mix_value(field);
        pair.mix_value(value);
        digest.xor(&pair.0);
    });
}

fn add_sorted_set(digest: &mut Digest, set: &SortedSet) {
    set.for_range(0..set.len(), false, &mut |member, score| {
        let mut pair = Digest::default();
        pair.mix_value(member);
        pair.mix(&wire::number::f64_text_in_few_digits(score));
        digest.xor(&pair.0);
        true
    });
}

fn add_set(digest: &mut Digest, set: &Set) {
    set.for_each(&mut |member| member.with_bytes(|bytes| digest.xor(bytes)));
}
