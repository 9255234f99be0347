//! A small map some of whose fields expire: a listpack in which each value is followed by its field's expiry.
//!
//! ```text
//!  ExpiringList (one pointer) ──> | listpack header | earliest | field | value | expiry | field | value | expiry | ... | 0xFF |
//! ```
//!
//! An expiry is milliseconds since the epoch as an integer, ten bytes with its backlen; for a field without an expiry, and
//! as the earliest when none expires, it is the empty string, two bytes.
//!
//! Invariants:
//! 1. One element, then triples; the third of each, and the first element, is an integer or empty.
//! 2. The first element is the least of the expiries.
//! 3. No field occurs twice.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#small-hashes-whose-fields-expire).

#[cfg(test)]
mod tests;

use crate::listpack::{Element, Iter, Listpack, Position};
use crate::packed_map::{Expiry, Insertion};
use std::fmt;

const NO_EXPIRY: &[u8] = b"";
/// Elements per field.
const STEP: usize = 3;

/// A small map with expiries. See the [module](self) for the layout.
#[derive(Clone)]
pub struct ExpiringList {
    list: Listpack,
}

/// A field with its value and its expiry.
pub type Field<'a> = (Element<'a>, Element<'a>, Option<i64>);

fn expiry_of(element: Element<'_>) -> Option<i64> {
    match element {
        Element::Integer(at_ms) => Some(at_ms),
        Element::Bytes(_) => None,
    }
}

impl fmt::Debug for ExpiringList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn is_earlier(expiry_ms: Option<i64>, than: Option<i64>) -> bool {
    expiry_ms.is_some_and(|at_ms| than.is_none_or(|than| at_ms < than))
}

impl ExpiringList {
    /// Converts a listpack of fields and values, none of which expires.
    pub fn new(pairs: &Listpack) -> Self {
        let none = Element::Bytes(NO_EXPIRY);
        let mut pairs = pairs.iter();
        let mut elements = vec![none];
        while let (Some(field), Some(value)) = (pairs.next(), pairs.next()) {
            elements.extend([field, value, none]);
        }
        ExpiringList { list: elements.into_iter().collect() }
    }

    /// The number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() / STEP
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes used.
    pub fn used_bytes(&self) -> usize {
        self.list.total_bytes()
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.list.memory_bytes()
    }

    /// Prefetches the first line of the buffer.
    #[inline]
    pub fn prefetch(&self) {
        self.list.prefetch();
    }

    /// The earliest expiry of a field.
    #[inline]
    pub fn earliest_ms(&self) -> Option<i64> {
        self.list.first().and_then(|at| expiry_of(self.list.get(at)))
    }

    #[inline]
    fn find(&self, field: &[u8]) -> Option<Position> {
        let mut elements = self.list.iter();
        elements.pass_over(1)?;
        self.list.find(elements.next_position()?, field, STEP - 1)
    }

    /// The positions of the value of the field at `field`, and of its expiry.
    #[inline]
    fn beside(&self, field: Position) -> (Position, Position) {
        let value = self.list.next(field).expect("a field is followed by its value");
        (value, self.list.next(value).expect("a value is followed by its field's expiry"))
    }

    /// The field's value and expiry.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<(Element<'_>, Option<i64>)> {
        let mut elements = self.list.iter_from(Some(self.find(field)?));
        elements.pass_over(1)?;
        Some((elements.next()?, expiry_of(elements.next()?)))
    }

    /// The field's expiry; none if it has none or is not in the list.
    pub fn expiry(&self, field: &[u8]) -> Option<i64> {
        self.get(field).and_then(|(_, expiry_ms)| expiry_ms)
    }

    /// Adds the field or replaces its value.
    pub fn insert(&mut self, field: &[u8], value: &[u8], expiry: Expiry) -> Insertion {
        let Some(found) = self.find(field) else {
            let expiry_ms = if let Expiry::AtMs(at_ms) = expiry { Some(at_ms.max(0)) } else { None };
            let last = expiry_ms.map_or(Element::Bytes(NO_EXPIRY), Element::Integer);
            self.list.append([Element::Bytes(field), Element::Bytes(value), last]);
            self.moved(None, expiry_ms);
            return Insertion::Added;
        };
        let (at, expiry_at) = self.beside(found);
        let before = expiry_of(self.list.get(expiry_at));
        let after = match expiry {
            Expiry::Keep => before,
            Expiry::Clear => None,
            Expiry::AtMs(at_ms) => Some(at_ms.max(0)),
        };
        if before != after {
            // Behind the value, which keeps its position.
            self.write_expiry(expiry_at, after);
        }
        self.list.replace(at, value);
        self.moved(before, after);
        Insertion::Replaced
    }

    /// Sets or clears the expiry of a field, if it is in the list.
    pub fn set_expiry(&mut self, field: &[u8], expiry_ms: Option<i64>) {
        let Some(found) = self.find(field) else { return };
        let (_, at) = self.beside(found);
        let expiry_ms = expiry_ms.map(|at_ms| at_ms.max(0));
        let before = expiry_of(self.list.get(at));
        if before == expiry_ms {
            return;
        }
        self.write_expiry(at, expiry_ms);
        self.moved(before, expiry_ms);
    }

    fn write_expiry(&mut self, at: Position, expiry_ms: Option<i64>) {
        match expiry_ms {
            Some(at_ms) => self.list.replace_integer(at, at_ms),
            None => self.list.replace(at, NO_EXPIRY),
        }
    }

    /// Restores invariant 2 after a field's expiry changed from `before` to `after`.
    #[inline]
    fn moved(&mut self, before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        let earliest = self.earliest_ms();
        if is_earlier(after, earliest) {
            self.write_earliest(after);
        } else if before.is_some() && before == earliest {
            self.write_earliest(self.iter().filter_map(|(.., expiry_ms)| expiry_ms).min());
        }
    }

    fn write_earliest(&mut self, earliest_ms: Option<i64>) {
        let first = self.list.first().expect("invariant 1: the first element is the earliest expiry");
        self.write_expiry(first, earliest_ms);
    }

    /// Removes the field; returns whether it was in the list.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(found) = self.find(field) else { return false };
        let (_, expiry) = self.beside(found);
        let before = expiry_of(self.list.get(expiry));
        self.list.remove_from(found, STEP);
        self.moved(before, None);
        true
    }

    /// Removes up to `limit` fields that expire before `now_ms`, passing each to `removed`; returns their number.
    pub fn remove_expired(&mut self, now_ms: i64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < limit && self.earliest_ms().is_some_and(|at_ms| at_ms < now_ms) {
            let earliest = self.earliest_ms();
            let Some((field, ..)) = self.iter().find(|&(.., expiry_ms)| expiry_ms == earliest) else { break };
            let field = field.to_vec();
            self.remove(&field);
            removed(&field);
            count += 1;
        }
        count
    }

    /// Iterates over all fields in the order in which they were added.
    #[inline]
    pub fn iter(&self) -> Fields<'_> {
        let mut elements = self.list.iter();
        elements.next();
        Fields { elements }
    }

    /// The field at an index in that order.
    pub fn at(&self, index: usize) -> Option<Field<'_>> {
        let mut elements = self.list.iter_from(Some(self.list.at((1 + STEP * index) as i64)?));
        Some((elements.next()?, elements.next()?, expiry_of(elements.next()?)))
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        self.list.check();
        assert_eq!(self.list.len() % STEP, 1, "invariant 1");
        let is_expiry = |element| matches!(element, Element::Integer(_) | Element::Bytes(b""));
        assert!(self.list.iter().step_by(STEP).all(is_expiry), "invariant 1");
        let earliest = self.iter().filter_map(|(.., expiry_ms)| expiry_ms).min();
        assert_eq!(self.earliest_ms(), earliest, "invariant 2");
        let mut names: Vec<Vec<u8>> = self.iter().map(|(field, ..)| field.to_vec()).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|a, b| a < b), "invariant 3");
    }
}

/// An iterator over fields in order.
#[derive(Clone)]
pub struct Fields<'a> {
    elements: Iter<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        Some((self.elements.next()?, self.elements.next()?, expiry_of(self.elements.next()?)))
    }
}
