//! Checks all data: the invariants of every table and every value. For tests and fuzzers; reads everything.

use super::object::by_type;
use super::value_type::ValueType;
use super::{Db, Object};
use std::collections::HashSet;
use structures::key_table::Value as Stored;
use structures::listpack::Listpack;

impl Db {
    /// Panics unless every invariant holds.
    pub fn check(&self) {
        self.check_compression();
        self.interned.shapes.check();
        for (_, database) in self.keyspace.iter() {
            database.check();
            for entry in database.iter() {
                match entry.value() {
                    Stored::Object(object) => {
                        object.check();
                        assert!(object.embedded().is_none(), "should be embedded: {object:?}");
                    }
                    Stored::Embedded(bytes) => {
                        let object = Object::from_embedded(bytes, &self.interned);
                        object.check();
                        assert_eq!(object.embedded(), Some(bytes), "embedded: {object:?}");
                    }
                    Stored::Inline(_) | Stored::Compressed(_) | Stored::Integer(_) => {}
                }
            }
        }
    }
}

impl Object {
    fn check(&self) {
        by_type!(self, value => ValueType::check(value));
        assert!(!self.is_to_go(), "an empty collection stays: {self:?}");
    }
}

/// Checks that every `step`-th element of a list is unique: fields of a hash, members of a set.
pub(super) fn check_unique(list: &Listpack, step: usize) {
    list.check();
    assert_eq!(list.len() % step, 0, "the number of elements is a multiple of {step}");
    let names: Vec<Vec<u8>> = list.iter().step_by(step).map(|element| element.to_vec()).collect();
    let different: HashSet<&Vec<u8>> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "an element occurs twice");
}
