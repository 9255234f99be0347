//! Tables by client-chosen names: a hash table that shrinks.
//!
//! The standard library's tables keep their largest capacity, and iterating one takes time proportional to it. Here
//! neither exceeds the number of names by more than a constant factor: a removal that leaves one name in [`SPARSE`]
//! slots moves the rest to a table of fitting size, at a constant cost per earlier removal.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use structures::work;

/// A table with this many slots per name is too large.
const SPARSE: usize = 8;
/// Minimum capacity.
const ROOM_KEPT: usize = 64;

/// A hash table whose capacity follows the number of names, both ways.
#[derive(Debug)]
pub struct NameTable<K, V> {
    names: HashMap<K, V>,
}

impl<K, V> Default for NameTable<K, V> {
    fn default() -> Self {
        NameTable { names: HashMap::new() }
    }
}

impl<K: Hash + Eq, V> NameTable<K, V> {
    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name's value.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        work::visited(1);
        self.names.get(name)
    }

    /// Returns the name as the table holds it.
    pub fn shared<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        work::visited(1);
        self.names.get_key_value(name).map(|(shared, _)| shared)
    }

    /// As [`Self::get`], mutably.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, name: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        work::visited(1);
        self.names.get_mut(name)
    }

    /// Returns the name's value, inserting a default one if missing.
    pub fn get_or_default(&mut self, name: K) -> &mut V
    where
        V: Default,
    {
        work::visited(1);
        self.names.entry(name).or_default()
    }

    /// Sets the name's value; returns the previous one.
    pub fn insert(&mut self, name: K, value: V) -> Option<V> {
        work::visited(1);
        self.names.insert(name, value)
    }

    /// Removes the name; returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, name: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        work::visited(1);
        let removed = self.names.remove(name);
        let (len, room) = (self.names.len(), self.names.capacity());
        if room > ROOM_KEPT && room / SPARSE > len {
            self.names.shrink_to(len * 2);
        }
        removed
    }

    /// Iterates over all names and values, in time proportional to the capacity.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        work::visited(self.names.capacity());
        self.names.iter()
    }

    /// As [`Self::iter`].
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        work::visited(self.names.capacity());
        self.names.iter_mut()
    }

    /// As [`Self::iter`].
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_the_number_of_names_both_ways() {
        let mut table: NameTable<Box<str>, u32> = NameTable::default();
        for number in 0..100_000 {
            assert_eq!(table.insert(number.to_string().into(), number), None);
        }
        for number in 0..99_990 {
            assert_eq!(table.remove(number.to_string().as_str()), Some(number));
            assert!(table.names.capacity() <= (table.len() * SPARSE * 2).max(ROOM_KEPT * 2));
        }
        let mut left: Vec<u32> = table.iter().map(|(_, &number)| number).collect();
        left.sort_unstable();
        assert_eq!(left, (99_990..100_000).collect::<Vec<_>>());
    }
}
