//! Which of many tables have been put to use: of ten thousand databases, few have keys, and what looks for keys in all of
//! them looks at those.
//!
//! A table enters itself with its first entry, on the way that makes its first bucket, so that no other put knows of it. It
//! stays until it is taken out ([`super::KeyTable::leave_use`]).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of tables that are in use. Copies are of the same set. Locked, though one thread asks, because a table that
/// is dropped may go to another.
#[derive(Clone, Debug, Default)]
pub struct TablesInUse(Arc<Mutex<BTreeSet<usize>>>);

impl TablesInUse {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The least number that is not below `least`.
    pub fn next_from(&self, least: usize) -> Option<usize> {
        self.numbers().range(least..).next().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers().len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers().is_empty()
    }
}

/// A table's place among those that may be in use.
#[derive(Debug)]
pub(super) struct Registration {
    number: usize,
    tables: TablesInUse,
}

impl Registration {
    pub(super) fn new(number: usize, tables: &TablesInUse) -> Registration {
        Registration { number, tables: tables.clone() }
    }

    pub(super) fn enter(&self) {
        self.tables.numbers().insert(self.number);
    }

    pub(super) fn leave(&self) {
        self.tables.numbers().remove(&self.number);
    }
}
