//! The set of tables in use: of ten thousand databases few have keys, and a search through all databases visits only those.
//!
//! A table registers itself when its first bucket is allocated, so that no other put checks. It stays registered until
//! [`super::KeyTable::leave_use`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of the tables in use. Clones share the set. Locked, although one thread reads it, because a dropped table
/// may be sent to another thread.
#[derive(Clone, Debug, Default)]
pub struct TablesInUse(Arc<Mutex<BTreeSet<usize>>>);

impl TablesInUse {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lowest number in the set that is at least `least`.
    pub fn next_from(&self, least: usize) -> Option<usize> {
        self.numbers().range(least..).next().copied()
    }

    /// The number of tables in use.
    pub fn len(&self) -> usize {
        self.numbers().len()
    }

    /// Returns whether no table is in use.
    pub fn is_empty(&self) -> bool {
        self.numbers().is_empty()
    }
}

/// The number of a table, or of a group of tables, and the set in which it registers.
#[derive(Debug)]
pub struct Registration {
    number: usize,
    tables: TablesInUse,
}

impl Registration {
    /// Does not register yet.
    pub fn new(number: usize, tables: &TablesInUse) -> Registration {
        Registration { number, tables: tables.clone() }
    }

    /// Adds the number to the set.
    pub fn enter(&self) {
        self.tables.numbers().insert(self.number);
    }

    /// Removes the number from the set.
    pub fn leave(&self) {
        self.tables.numbers().remove(&self.number);
    }
}
