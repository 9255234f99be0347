//! Small values stored in their keys' entries, without an allocation and a fetch of their own.
//!
//! ```text
//!   entry   | header | expiry | key | bytes of the value |      as its type writes them: ValueType::embedded
//! ```
//! Reads use the bytes in place ([`super::collection::Collection::view_embedded`]). A change takes the value out, changes
//! it as any other, and puts it back ([`super::Db::change`]), over the old bytes if they are as many. Rare operations that
//! all types have take the value out for the call ([`Value::with_object`]).
//!
//! Invariant, verified by [`super::Db::check`]: a stored value is embedded exactly if its [`embedded`](super::value_type::ValueType::embedded) has bytes.
//! Every value stored in a table is settled, and passes through [`embedded`] or [`TakenOut::value`].
//!
//! Measured with lists of elements of 10 bytes at keys of 16, and (in brackets) with an object in the entry that points
//! to the elements: lists of 1, 3, 5 and 10 elements take 51.7 B each (59.7), 67.4 (83.4), 91.4 (107.4), 171.4 (171.4).
//! Processor time of a request at pipeline 16, relative to that object, among lists of 3: LLEN 0.96, LINDEX and LRANGE
//! 0.97, RPUSH 0.96, LPUSH 0.97, RPOP 0.94, LPOP 1.00 out of a million keys, and 0.97 to 1.01 out of a thousand (0.56 to
//! 0.88 of Valkey 9.1).
//!
//! Rejected: taking a value out into a new allocation, and putting it back by a second lookup. Instructions of a request
//! by callgrind, with the object, rejected, and as it is: RPUSH to 3 elements 3,466, 4,100, 3,564; RPOP from 3 3,016,
//! 3,994, 3,369.

use super::collection::Collection;
use super::interned::Interned;
use super::list::List;
use super::object::{ObjectVariant, Value};
use super::{Kind, Object};
use structures::key_table::{NewValue, Value as Stored};

/// The value to store: embedded if its type says so. Then `kept` holds the object whose bytes they are.
#[inline]
pub(super) fn embedded<'v>(
    value: NewValue<'v, Object>,
    kept: &'v mut Option<Object>,
    interned: &mut Interned,
) -> NewValue<'v, Object> {
    let NewValue::Object(mut object) = value else { return value };
    object.settle(interned);
    if object.embedded().is_none() {
        return NewValue::Object(object);
    }
    NewValue::Embedded(kept.insert(object).embedded().unwrap_or_default())
}

/// The values of each type last taken out of an entry to be changed. Their allocations are reused for the next.
#[derive(Debug)]
pub(super) struct TakenOut([Object; Kind::ALL.len()]);

impl Default for TakenOut {
    fn default() -> Self {
        TakenOut(std::array::from_fn(|_| none()))
    }
}

/// An object without content and allocation.
fn none() -> Object {
    List::default().into_object()
}

impl TakenOut {
    #[inline]
    fn of_type<C: Collection>(&mut self) -> &mut Object {
        &mut self.0[C::KIND as usize]
    }

    /// Creates the object of an embedded value of type `C`, in the reused allocation of that type.
    #[inline]
    pub fn take_out<C: Collection>(&mut self, bytes: &[u8], interned: &Interned) -> &mut Object {
        let object = self.of_type::<C>();
        match C::of_mut(object) {
            Some(value) => value.assign_embedded(bytes, interned),
            None => *object = C::from_embedded(bytes, interned).into_object(),
        }
        object
    }

    /// Swaps in an object of type `C`, for one that is not needed any more.
    pub fn exchange<C: Collection>(&mut self, object: &mut Object) {
        std::mem::swap(self.of_type::<C>(), object);
    }

    /// The value of type `C` to put back.
    #[inline]
    pub fn value<C: Collection>(&mut self) -> NewValue<'_, Object> {
        let object = self.of_type::<C>();
        if C::of(object).is_none_or(|value| value.embedded().is_none()) {
            return NewValue::Object(std::mem::replace(object, none()));
        }
        NewValue::Embedded(C::of(object).and_then(C::embedded).unwrap_or_default())
    }
}

impl Value<'_> {
    /// Passes the object to `work`, or one created from an embedded value. `None` for other values.
    pub(super) fn with_object<R>(&self, work: impl FnOnce(&Object) -> R) -> Option<R> {
        match self.entry().value() {
            Stored::Object(object) => Some(work(object)),
            Stored::Embedded(bytes) => Some(work(&Object::from_embedded(bytes, self.interned()))),
            Stored::Inline(_) | Stored::Compressed(_) | Stored::Integer(_) => None,
        }
    }
}
