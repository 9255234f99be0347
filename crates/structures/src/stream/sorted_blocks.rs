//! A sorted sequence that mostly has few elements, and sometimes a million.
//!
//! ```text
//!  one    [ element | element | ... ]                       exactly sized
//!  many   blocks: [ block | block | ... ]
//!                   +-> [ element | element | ... ]          exactly sized, 1 to BLOCK_MAX elements
//! ```
//! Adding or removing an element moves at most a block, and once in half a block's length the array of blocks.
//!
//! Invariants:
//! 1. No block is longer than [`BLOCK_MAX`], and none of many is empty.
//! 2. `many` has two blocks or more; `len` is the sum of their lengths, `block_bytes` of their allocated sizes.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#streams).

use crate::size_class::usable_size;
use crate::work;
use std::cmp::Ordering;

/// Most elements of a block; a split leaves half of it in each.
const BLOCK_MAX: usize = if cfg!(miri) { 8 } else { 256 };
/// Two neighbours with at most this number of elements together are merged.
const JOINED_MAX: usize = BLOCK_MAX / 2;

/// The position of an element, or where it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    block: usize,
    at: usize,
}

#[derive(Clone)]
pub(super) enum SortedBlocks<T> {
    One(Box<[T]>),
    Many(Box<Blocks<T>>),
}

// Each stream has one of these, and each group another.
const _: () = assert!(size_of::<SortedBlocks<u32>>() == 2 * size_of::<usize>());

#[derive(Clone)]
pub(super) struct Blocks<T> {
    blocks: Vec<Box<[T]>>,
    len: usize,
    block_bytes: usize,
}

impl<T> Default for SortedBlocks<T> {
    fn default() -> Self {
        SortedBlocks::One(Box::default())
    }
}

fn block_bytes<T>(block: &[T]) -> usize {
    usable_size(size_of_val(block))
}

fn insert_into<T>(block: &mut Box<[T]>, at: usize, element: T) {
    let mut elements = std::mem::take(block).into_vec();
    work::moved((elements.len() - at) * size_of::<T>());
    elements.reserve_exact(1);
    elements.insert(at, element);
    *block = elements.into();
}

fn remove_from<T>(block: &mut Box<[T]>, at: usize) -> T {
    let mut elements = std::mem::take(block).into_vec();
    work::moved((elements.len() - at) * size_of::<T>());
    let removed = elements.remove(at);
    *block = elements.into();
    removed
}

/// Splits a full block in half.
fn split<T>(block: Box<[T]>) -> [Box<[T]>; 2] {
    let mut first = block.into_vec();
    work::moved(first.len() * size_of::<T>());
    let second = first.split_off(first.len() / 2);
    [first.into(), second.into()]
}

impl<T> SortedBlocks<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            SortedBlocks::One(block) => block.len(),
            SortedBlocks::Many(many) => many.len,
        }
    }

    fn blocks(&self) -> &[Box<[T]>] {
        match self {
            SortedBlocks::One(block) => std::slice::from_ref(block),
            SortedBlocks::Many(many) => &many.blocks,
        }
    }

    fn blocks_mut(&mut self) -> &mut [Box<[T]>] {
        match self {
            SortedBlocks::One(block) => std::slice::from_mut(block),
            SortedBlocks::Many(many) => &mut many.blocks,
        }
    }

    /// The position of the element that is equal by `compare`, or where it would be.
    pub(super) fn search(&self, compare: impl Fn(&T) -> Ordering) -> Result<Place, Place> {
        let compare = |element: &T| {
            work::visited(1);
            compare(element)
        };
        let blocks = self.blocks();
        let block = match blocks.len() {
            1 => 0,
            _ => blocks.partition_point(|block| compare(&block[0]).is_le()).saturating_sub(1),
        };
        let place = |at| Place { block, at };
        blocks[block].binary_search_by(compare).map(place).map_err(place)
    }

    pub(super) fn get(&self, place: Place) -> &T {
        &self.blocks()[place.block][place.at]
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut T {
        &mut self.blocks_mut()[place.block][place.at]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks().iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.blocks_mut().iter_mut().flatten()
    }

    /// Adds an element at the position that a search returned.
    pub(super) fn insert(&mut self, place: Place, element: T) {
        match self {
            SortedBlocks::One(block) if block.len() < BLOCK_MAX => insert_into(block, place.at, element),
            SortedBlocks::One(block) => {
                let len = block.len();
                let blocks = Vec::from(split(std::mem::take(block)));
                let block_bytes = blocks.iter().map(|block| block_bytes(block)).sum();
                let mut many = Box::new(Blocks { blocks, len, block_bytes });
                many.insert(place, element);
                *self = SortedBlocks::Many(many);
            }
            SortedBlocks::Many(many) => many.insert(place, element),
        }
    }

    pub(super) fn remove(&mut self, place: Place) -> T {
        match self {
            SortedBlocks::One(block) => remove_from(block, place.at),
            SortedBlocks::Many(many) => {
                let removed = many.remove(place);
                if let [block] = &mut *many.blocks {
                    *self = SortedBlocks::One(std::mem::take(block));
                }
                removed
            }
        }
    }

    /// Allocated bytes, without those that elements own and the value itself.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            SortedBlocks::One(block) => block_bytes(block),
            SortedBlocks::Many(many) => {
                let places = usable_size(many.blocks.capacity() * size_of::<Box<[T]>>());
                usable_size(size_of::<Blocks<T>>()) + places + many.block_bytes
            }
        }
    }

    /// Panics unless every documented invariant holds.
    pub(super) fn check(&self) {
        assert!(self.blocks().iter().all(|block| block.len() <= BLOCK_MAX));
        if let SortedBlocks::Many(many) = self {
            assert!(many.blocks.len() > 1 && many.blocks.iter().all(|block| !block.is_empty()));
            assert_eq!(many.len, many.blocks.iter().map(|block| block.len()).sum::<usize>());
            assert_eq!(many.block_bytes, many.blocks.iter().map(|block| block_bytes(block)).sum::<usize>());
        }
    }
}

impl<T> Blocks<T> {
    /// Changes a block and updates the sums.
    fn changed<R>(&mut self, block: usize, change: impl FnOnce(&mut Box<[T]>) -> R) -> R {
        let block = &mut self.blocks[block];
        self.block_bytes -= block_bytes(block);
        let result = change(block);
        self.block_bytes += block_bytes(block);
        result
    }

    fn insert(&mut self, Place { mut block, mut at }: Place, element: T) {
        // After a split the position may be in the second half of the block.
        if at > self.blocks[block].len() {
            (block, at) = (block + 1, at - self.blocks[block].len());
        }
        if self.blocks[block].len() == BLOCK_MAX {
            let second = self.changed(block, |full| {
                let [first, second] = split(std::mem::take(full));
                *full = first;
                second
            });
            self.block_bytes += block_bytes(&second);
            work::moved((self.blocks.len() - block) * size_of::<Box<[T]>>());
            self.blocks.insert(block + 1, second);
            if at > self.blocks[block].len() {
                (block, at) = (block + 1, at - self.blocks[block].len());
            }
        }
        self.changed(block, |block| insert_into(block, at, element));
        self.len += 1;
    }

    fn remove(&mut self, Place { block, at }: Place) -> T {
        let removed = self.changed(block, |block| remove_from(block, at));
        self.len -= 1;
        let neighbours = [block.checked_sub(1), Some(block)];
        let joined = neighbours.into_iter().flatten().find(|&first| {
            let second = self.blocks.get(first + 1);
            second.is_some_and(|second| {
                let lens = [self.blocks[first].len(), second.len()];
                lens[0] + lens[1] <= JOINED_MAX || lens.contains(&0)
            })
        });
        if let Some(first) = joined {
            self.join_with_next(first);
        }
        removed
    }

    fn join_with_next(&mut self, first: usize) {
        work::moved((self.blocks.len() - first) * size_of::<Box<[T]>>());
        let second = self.blocks.remove(first + 1);
        self.block_bytes -= block_bytes(&second);
        self.changed(first, |block| {
            let mut elements = std::mem::take(block).into_vec();
            work::moved((elements.len() + second.len()) * size_of::<T>());
            elements.reserve_exact(second.len());
            elements.extend(second);
            *block = elements.into();
        });
        if self.blocks.len() < self.blocks.capacity() / 4 {
            self.blocks.shrink_to(self.blocks.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{scaled, with_seeds};

    /// A sequence that grows to thousands, shrinks to nothing and grows again has the same elements as a vector.
    #[test]
    fn a_vector_has_the_same() {
        with_seeds(0..4, |random| {
            let (mut blocks, mut model) = (SortedBlocks::<u64>::default(), Vec::<u64>::new());
            let steps = scaled(4_000);
            for step in 0..steps * 4 {
                let grows = (step / steps).is_multiple_of(2);
                let value = random.below(1 << 20);
                let found = blocks.search(|other| other.cmp(&value));
                let expected = model.binary_search(&value);
                assert_eq!(found.is_ok(), expected.is_ok());
                if let (Err(place), Err(at)) = (found, expected)
                    && (grows || random.below(4) == 0)
                {
                    blocks.insert(place, value);
                    model.insert(at, value);
                } else if !grows && !model.is_empty() {
                    let at = random.below(model.len() as u64) as usize;
                    let place = blocks.search(|other| other.cmp(&model[at])).expect("the element is present");
                    assert_eq!((*blocks.get(place), blocks.remove(place)), (model[at], model[at]));
                    model.remove(at);
                }
                assert_eq!(blocks.len(), model.len());
                if step.is_multiple_of(100) {
                    blocks.check();
                    assert!(blocks.iter().eq(&model));
                }
            }
            while let Some(value) = model.pop() {
                let place = blocks.search(|other| other.cmp(&value)).expect("the element is present");
                assert_eq!(blocks.remove(place), value);
            }
            assert_eq!((blocks.len(), blocks.memory_bytes()), (0, 0));
        });
    }
}
