//! A slab: pages, nodes and long members by a 32-bit id. Chunked, so that growing never copies more than one chunk. A single
//! value is within the slab itself: most sets have one page.
//!
//! The lowest free id is allocated first, and chunks behind the highest one in use are freed, at most [`GIVEN_BACK_MAX`]
//! ids in a call: half a table may lie behind the last but one in use. The owner moves the value with the highest id once
//! most ids are free: see [`Slab::sparse_last`].
//!
//! Invariants: all chunks but the last are full and have no spare capacity; the set of free ids exists only if some are
//! free; a table has no ids or at least two.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use crate::prefetch::{prefetch, prefetch_object};
use crate::size_class::usable_size;
use crate::work;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

const CHUNK: usize = 256;
/// Up to this number of ids, nothing is moved.
const FEW: usize = 16;
/// Free ids that one call drops. Each call frees at most one, so that the rest is soon dropped.
const GIVEN_BACK_MAX: usize = 64;

/// Ids are allocated densely. A freed id holds `T::default()`. The highest id is in use, unless more free ones lay behind
/// the highest in use than the calls since could drop.
#[derive(Clone)]
pub(super) enum Slab<T> {
    /// The value with id 0, and no others.
    One(T),
    /// Any other number.
    Table(Table<T>),
}

/// Values in chunks.
#[derive(Clone)]
pub(super) struct Table<T> {
    chunks: Vec<Vec<T>>,
    #[expect(clippy::box_collection, reason = "most sets have none, and each has three tables")]
    free: Option<Box<BTreeSet<u32>>>,
}

impl<T: Default> Slab<T> {
    /// Creates an empty slab.
    pub fn new() -> Self {
        Slab::Table(Table { chunks: Vec::new(), free: None })
    }

    /// Stores a value under the lowest free id and returns the id.
    pub fn insert(&mut self, value: T) -> u32 {
        let id = match self {
            Slab::Table(table) if !table.chunks.is_empty() => table.insert(value),
            _ => return self.insert_first_or_second(value),
        };
        self.leave_small_table();
        id
    }

    /// Frees a table with one id.
    fn leave_small_table(&mut self) {
        if let Slab::Table(table) = self
            && table.ids() == 1
        {
            let only = table.chunks.pop().and_then(|mut chunk| chunk.pop());
            // The id may be free: then there is no value.
            let is_used = table.free_count() == 0;
            *self = only.filter(|_| is_used).map_or_else(Slab::new, Slab::One);
        }
    }

    fn insert_first_or_second(&mut self, value: T) -> u32 {
        match std::mem::replace(self, Slab::new()) {
            Slab::Table(_) => {
                *self = Slab::One(value);
                0
            }
            Slab::One(first) => {
                let mut table = Table { chunks: Vec::new(), free: None };
                table.insert(first);
                let id = table.insert(value);
                *self = Slab::Table(table);
                id
            }
        }
    }

    /// Takes the value of an id, which becomes free.
    pub fn take(&mut self, id: u32) -> T {
        let table = match self {
            Slab::Table(table) => table,
            Slab::One(_) => match std::mem::replace(self, Slab::new()) {
                Slab::One(value) => return value,
                Slab::Table(_) => unreachable!("matched above"),
            },
        };
        let value = table.take(id);
        self.leave_small_table();
        value
    }

    /// The only value, if its id is 0.
    #[inline]
    pub fn only(&self) -> Option<&T> {
        match self {
            Slab::One(value) => Some(value),
            Slab::Table(_) => None,
        }
    }

    /// Prefetches the pointer to the chunk of an id, if there is one.
    #[inline]
    pub fn prefetch_place(&self, id: u32) {
        if let Slab::Table(table) = self {
            prefetch(table.chunks.as_ptr().wrapping_add(id as usize / CHUNK));
        }
    }

    /// Prefetches the value of an id.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        prefetch_object(&self[id]);
    }

    /// The number of ids in use.
    #[inline]
    pub fn live(&self) -> usize {
        match self {
            Slab::One(_) => 1,
            Slab::Table(table) => table.ids() - table.free_count(),
        }
    }

    /// The highest id, if most ids are free and there are more than a few: its value is to be taken and inserted again.
    /// None while the highest id is free itself: it and those before it are dropped first.
    pub fn sparse_last(&self) -> Option<u32> {
        let Slab::Table(table) = self else { return None };
        (table.is_sparse() && !table.has_free_end()).then(|| table.ids() as u32 - 1)
    }

    /// Returns whether most ids are free, and there are more than a few.
    #[inline]
    pub fn is_sparse(&self) -> bool {
        matches!(self, Slab::Table(table) if table.is_sparse())
    }

    /// One more than the highest id.
    pub fn ids(&self) -> usize {
        match self {
            Slab::One(_) => 1,
            Slab::Table(table) => table.ids(),
        }
    }

    /// Bytes of the table itself, without what the values own.
    pub fn table_bytes(&self) -> usize {
        let Slab::Table(table) = self else { return 0 };
        let last = table.chunks.last().map_or(0, Vec::capacity);
        table.chunks.len().saturating_sub(1) * usable_size(CHUNK * size_of::<T>())
            + usable_size(last * size_of::<T>())
            + usable_size(table.chunks.capacity() * size_of::<Vec<T>>())
            + table.free.as_ref().map_or(0, |free| usable_size(size_of_val(&**free)) + tree_bytes(free.len()))
    }

    /// Panics unless the documented invariants hold.
    pub fn check(&self) {
        let Slab::Table(table) = self else { return };
        assert!(table.free.as_ref().is_none_or(|free| !free.is_empty()));
        let full = table.chunks.split_last().map_or(&[][..], |(_, full)| full);
        assert!(full.iter().all(|chunk| (chunk.len(), chunk.capacity()) == (CHUNK, CHUNK)));
        assert_ne!(table.ids(), 1, "a single value in a table");
    }
}

impl<T: Default> Table<T> {
    fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.as_mut().and_then(|free| free.pop_first()) {
            *self.at_mut(id) = value;
            self.give_back();
            self.release_empty_tree();
            return id;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows as needed; once it has been filled, later ones are likely to be.
            if self.chunks.is_empty() {
                self.chunks.reserve_exact(1);
            }
            self.chunks.push(Vec::new());
        }
        let (chunk_at, chunk) = (self.chunks.len() - 1, self.chunks.last_mut().expect("pushed above"));
        if chunk.len() == chunk.capacity() {
            let more = (chunk.len() / 2).max(1).min(CHUNK - chunk.len());
            chunk.reserve_exact(more);
        }
        chunk.push(value);
        u32::try_from(chunk_at * CHUNK + chunk.len() - 1).expect("fewer pages than members")
    }

    fn take(&mut self, id: u32) -> T {
        let value = std::mem::take(self.at_mut(id));
        self.free.get_or_insert_default().insert(id);
        self.give_back();
        self.release_empty_tree();
        value
    }

    /// Frees the set of free ids when it is empty: a tree that has lost its last id would keep a node.
    fn release_empty_tree(&mut self) {
        if self.free_count() == 0 {
            self.free = None;
        }
    }

    /// Returns whether the highest id is free.
    fn has_free_end(&self) -> bool {
        let last = self.free.as_ref().and_then(|free| free.last());
        last.is_some_and(|&last| last as usize + 1 == self.ids())
    }

    /// Drops free ids behind the highest in use, with the memory of their chunks.
    fn give_back(&mut self) {
        for _ in 0..GIVEN_BACK_MAX {
            if !self.has_free_end() {
                break;
            }
            work::visited(1);
            self.free.as_mut().and_then(|free| free.pop_last());
            let Some(chunk) = self.chunks.last_mut() else { return };
            chunk.pop();
            if chunk.is_empty() {
                self.chunks.pop();
                if self.chunks.is_empty() || self.chunks.len() < self.chunks.capacity() / 4 {
                    self.chunks.shrink_to(2 * self.chunks.len());
                }
            }
        }
        if let Some(chunk) = self.chunks.last_mut().filter(|chunk| chunk.len() < chunk.capacity() / 4) {
            chunk.shrink_to(2 * chunk.len());
        }
    }
}

impl<T> Table<T> {
    #[inline]
    fn free_count(&self) -> usize {
        self.free.as_ref().map_or(0, |free| free.len())
    }

    /// Returns whether most ids are free, and there are more than a few.
    #[inline]
    fn is_sparse(&self) -> bool {
        self.free_count() > FEW / 2 && 2 * self.free_count() > self.ids() && self.ids() > FEW
    }

    fn ids(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    #[inline]
    fn at(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    #[inline]
    fn at_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

/// Most ids in a leaf of the standard library's tree.
const LEAF_IDS_MAX: usize = 11;
/// The ids, a pointer to the parent, the index there and the length.
const LEAF_BYTES: usize = LEAF_IDS_MAX * size_of::<u32>() + 12;
/// An inner node has a leaf's fields and 12 pointers.
const INNER_BYTES: usize = LEAF_BYTES + 12 * size_of::<usize>();

/// Bytes of a tree of this number of ids: exact while it is one leaf, else with nodes about three quarters full.
fn tree_bytes(ids: usize) -> usize {
    match ids {
        0 => 0,
        1..=LEAF_IDS_MAX => LEAF_BYTES,
        _ => ids.div_ceil(8) * LEAF_BYTES + ids.div_ceil(64) * usable_size(INNER_BYTES),
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        match self {
            Slab::One(value) => {
                debug_assert_eq!(id, 0, "the only id");
                value
            }
            Slab::Table(table) => table.at(id),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        match self {
            Slab::One(value) => {
                debug_assert_eq!(id, 0, "the only id");
                value
            }
            Slab::Table(table) => table.at_mut(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn has_free_end<T: Default>(slab: &Slab<T>) -> bool {
        matches!(slab, Slab::Table(table) if table.has_free_end())
    }

    /// A take gives back 64 ids at most, and may so leave a single free one.
    #[test]
    fn a_table_whose_last_value_is_taken_is_empty() {
        for values in 1..200 {
            let mut slab = Slab::new();
            (0..values).for_each(|value| _ = slab.insert(u64::from(value)));
            for id in 0..values {
                assert_eq!((slab.take(id), slab.live()), (u64::from(id), (values - 1 - id) as usize));
                slab.check();
            }
            while slab.ids() > 0 {
                assert_eq!(slab.live(), 0);
                let id = slab.insert(7);
                assert_eq!((slab.live(), slab.take(id)), (1, 7));
                slab.check();
            }
            assert_eq!((slab.insert(8), slab.live(), slab[0]), (0, 1, 8));
        }
    }

    #[test]
    fn one_value_allocates_nothing() {
        let mut slab = Slab::new();
        for _ in 0..2 {
            assert_eq!(slab.insert(5u64), 0);
            assert_eq!((slab[0], slab.live(), slab.ids(), slab.table_bytes()), (5, 1, 1, 0));
            assert_eq!((slab.insert(6), slab.live()), (1, 2));
            slab.check();
            assert_eq!(slab.take(0), 5);
            assert!(slab.table_bytes() > 0);
            assert_eq!((slab.insert(7), slab.take(1), slab[0]), (0, 6, 7));
            slab.check();
            assert_eq!((slab.clone()[0], slab.live(), slab.table_bytes()), (7, 1, 0));
            assert_eq!((slab.take(0), slab.live(), slab.ids()), (7, 0, 0));
            slab.check();
        }
    }

    #[test]
    fn ids_are_dense_and_reused() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..1000u64).map(|value| slab.insert(value)).collect();
        assert_eq!(ids, (0..1000).collect::<Vec<u32>>());
        assert_eq!(slab.take(300), 300);
        assert_eq!(slab.take(7), 7);
        slab.check();
        slab.clone().check();
        assert_eq!((slab.insert(1), slab.insert(2), slab.insert(3)), (7, 300, 1000));
        slab.check();
        assert_eq!((slab[7], slab[300], slab[999], slab.live()), (1, 2, 999, 1001));
        for id in (0..1001).rev() {
            slab.take(id);
        }
        assert_eq!((slab.live(), slab.table_bytes()), (0, 0));
    }

    #[test]
    fn many_free_ids_behind_the_highest_in_use_are_given_back_a_few_in_a_call() {
        let mut slab = Slab::new();
        let count: u32 = if cfg!(miri) { 2_000 } else { 1_000_000 };
        (0..count).for_each(|value| assert_eq!(slab.insert(value), value));
        let full = slab.table_bytes();
        (count / 2..count - 1).for_each(|id| assert_eq!(slab.take(id), id));
        assert_eq!(slab.ids(), count as usize);
        // Now all ids beyond the half are free; those below are freed one by one, and every third is inserted again.
        slab.take(count - 1);
        let mut calls = 0;
        while has_free_end(&slab) {
            assert_eq!(slab.sparse_last(), None);
            work::take();
            slab.take(calls);
            assert!(!cfg!(debug_assertions) || work::take().visited <= GIVEN_BACK_MAX as u64);
            if calls % 3 == 0 {
                assert!(slab.insert(calls) <= calls);
                assert!(!cfg!(debug_assertions) || work::take().visited <= GIVEN_BACK_MAX as u64);
            }
            calls += 1;
        }
        assert!((calls as usize) < count as usize / GIVEN_BACK_MAX, "{calls} calls");
        assert!(slab.table_bytes() < full * 6 / 10);
    }

    #[test]
    fn memory_is_given_back_as_what_is_left_moves_down() {
        let mut slab = Slab::new();
        let mut random = Random::new(5);
        let count = if cfg!(miri) { 600 } else { 20_000 };
        let mut live: Vec<u32> = (0..count).map(|value| slab.insert(value)).collect();
        let full = slab.table_bytes();
        while live.len() > 100 {
            slab.take(live.swap_remove(random.below(live.len() as u64) as usize));
            while let Some(last) = slab.sparse_last() {
                let value = slab.take(last);
                let at = live.iter().position(|&id| id == last).expect("the highest id is in use");
                live[at] = slab.insert(value);
                slab.check();
                assert!(live[at] < last);
            }
        }
        assert_eq!(slab.live(), 100);
        assert!(cfg!(miri) || slab.table_bytes() < full / 20, "{} of {full} bytes", slab.table_bytes());
    }
}
