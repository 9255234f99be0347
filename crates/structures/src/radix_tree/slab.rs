//! A slab: values in chunks, addressed by dense numbers. Growing never moves more than one chunk, and there
//! are no holes because the last value moves to a removed one's number.
//!
//! Invariant: every chunk but the last is full, and has no spare capacity.

use crate::size_class::usable_size;

const CHUNK: usize = 128;

#[derive(Clone)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Slab<T> {
    /// Creates an empty slab.
    pub fn new() -> Self {
        Slab { chunks: Vec::new() }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// The value with this number.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    /// The value with this number, for changing it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Adds a value with number `len`.
    pub fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => {
                if last.len() == last.capacity() {
                    last.reserve_exact(last.len().clamp(1, CHUNK - last.len()));
                }
                last.push(value);
            }
            _ => {
                let room = if self.chunks.is_empty() { 1 } else { CHUNK };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(value);
                self.chunks.push(chunk);
            }
        }
    }

    /// Removes the last value.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.chunks.last_mut()?;
        let value = last.pop();
        if last.is_empty() {
            self.chunks.pop();
            if self.chunks.len() * 4 < self.chunks.capacity() {
                self.chunks.shrink_to(self.chunks.len() * 2);
            }
        }
        value
    }

    /// Removes value `index`; the last value, if it is another, gets its number.
    pub fn swap_remove(&mut self, index: usize) -> T {
        let last = self.pop().expect("the removed value is in the slab");
        if index == self.len() { last } else { std::mem::replace(self.get_mut(index), last) }
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        let Some(last) = self.chunks.last() else { return self.places_bytes() };
        let full = (self.chunks.len() - 1) * usable_size(CHUNK * size_of::<T>());
        full + usable_size(last.capacity() * size_of::<T>()) + self.places_bytes()
    }

    fn places_bytes(&self) -> usize {
        usable_size(self.chunks.capacity() * size_of::<Vec<T>>())
    }

    /// Panics unless the documented invariant holds.
    pub fn check(&self) {
        let Some((last, full)) = self.chunks.split_last() else { return };
        assert!(!last.is_empty() && last.len() <= CHUNK && last.capacity() <= CHUNK);
        assert!(full.iter().all(|chunk| chunk.len() == CHUNK && chunk.capacity() == CHUNK));
    }
}
