//! Things found by a 32-bit id: pages, nodes and long members. Chunked, so that growing never copies more than
//! one chunk.

use crate::size_class::usable_size;
use std::ops::{Index, IndexMut};

const CHUNK: usize = 256;

/// Ids are handed out densely and reused last in, first out. A freed id holds `T::default()`.
pub(super) struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self[id] = value;
            return id;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows as needed; once it was filled, a next one is likely to be.
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

    pub fn take(&mut self, id: u32) -> T {
        self.free.push(id);
        let value = std::mem::take(&mut self[id]);
        if self.live() == 0 {
            *self = Slab::new();
        }
        value
    }

    pub fn live(&self) -> usize {
        self.ids() - self.free.len()
    }

    /// One more than the highest id ever handed out.
    pub fn ids(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Bytes of the table itself, without what the values own.
    pub fn table_bytes(&self) -> usize {
        let values: usize =
            self.chunks.iter().map(|chunk| usable_size(chunk.capacity() * size_of::<T>())).sum();
        values
            + usable_size(self.chunks.capacity() * size_of::<Vec<T>>())
            + usable_size(self.free.capacity() * size_of::<u32>())
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_and_reused() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..1000u64).map(|value| slab.insert(value)).collect();
        assert_eq!(ids, (0..1000).collect::<Vec<u32>>());
        assert_eq!(slab.take(300), 300);
        assert_eq!(slab.take(7), 7);
        assert_eq!((slab.insert(1), slab.insert(2), slab.insert(3)), (7, 300, 1000));
        assert_eq!((slab[7], slab[300], slab[999], slab.live()), (1, 2, 999, 1001));
        for id in 0..1001 {
            slab.take(id);
        }
        assert_eq!((slab.live(), slab.table_bytes()), (0, 0));
    }
}
