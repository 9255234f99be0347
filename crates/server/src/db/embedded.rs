//! Small values that lie in their keys' entries, where they take no allocation of their own and no fetch.
//!
//! ```text
//!   entry   | header | expiry | key | bytes of the value |      as its type writes them: ValueType::embedded
//! ```
//! A read looks at the bytes where they lie ([`super::collection::Collection::view_embedded`]). A change takes the value out,
//! changes it as any other, and puts it back ([`super::Db::change`]). What is asked rarely and of all types is asked of a value
//! that has been taken out for that ([`Value::with_object`]).
//!
//! Invariant, verified by [`super::Db::check`]: what its type says is to be embedded is, and nothing else. All that puts a
//! value into a table passes through [`embedded`] or [`TakenOut::value`].
//!
//! Measured, lists of elements of 10 bytes at keys of 16, and (in brackets) with an object in the entry that points to the
//! elements: of 1, 3, 5 and 10 elements 51.7 B a list (59.7), 67.4 (83.4), 91.4 (107.4), 171.4 (171.4). Processor time of a
//! request at pipeline 16, of what it is with that object, among lists of 3: LLEN 0.96, LINDEX and LRANGE 0.97, RPUSH 0.96, LPUSH
//! 0.97, RPOP 0.94, LPOP 1.00 out of a million keys, and 0.97 to 1.01 out of a thousand (0.56 to 0.88 of Valkey 9.1).
//!
//! Rejected: a value that is taken out into an allocation made for that, and put back by a second lookup. Instructions of a
//! request by callgrind, with that object, so, and as it is: RPUSH to 3 elements 3,466, 4,100, 3,564; RPOP from 3 3,016, 3,994,
//! 3,369.

use super::Object;
use super::object::Value;
use structures::key_table::{NewValue, Value as Stored};

/// The value as it is to be put: embedded, if its type says so. Then `kept` has the object that the bytes are of.
#[inline]
pub(super) fn embedded<'v>(
    value: NewValue<'v, Object>,
    kept: &'v mut Option<Object>,
) -> NewValue<'v, Object> {
    let NewValue::Object(object) = value else { return value };
    if object.embedded().is_none() {
        return NewValue::Object(object);
    }
    NewValue::Embedded(kept.insert(object).embedded().unwrap_or_default())
}

/// The value that was taken out of an entry last, to be changed. Its allocation serves the next.
#[derive(Debug)]
pub(super) struct TakenOut(Object);

impl Default for TakenOut {
    fn default() -> Self {
        TakenOut(Object::empty_embedded())
    }
}

impl TakenOut {
    #[inline]
    pub fn take_out(&mut self, bytes: &[u8]) -> &mut Object {
        self.0.assign_embedded(bytes);
        &mut self.0
    }

    /// Takes an object, for another that is worth nothing.
    pub fn exchange(&mut self, object: &mut Object) {
        std::mem::swap(&mut self.0, object);
    }

    /// As it is to be put back.
    #[inline]
    pub fn value(&mut self) -> NewValue<'_, Object> {
        if self.0.embedded().is_none() {
            return NewValue::Object(std::mem::replace(&mut self.0, Object::empty_embedded()));
        }
        NewValue::Embedded(self.0.embedded().unwrap_or_default())
    }
}

impl Value<'_> {
    /// Hands over the object here, or one that is made for that of what is embedded. `None` if it is neither.
    pub(super) fn with_object<R>(&self, work: impl FnOnce(&Object) -> R) -> Option<R> {
        match self.entry().value() {
            Stored::Object(object) => Some(work(object)),
            Stored::Embedded(bytes) => Some(work(&Object::from_embedded(bytes))),
            Stored::Inline(_) | Stored::Compressed(_) | Stored::Integer(_) => None,
        }
    }
}
