//! A log of bytes that is appended at its end, trimmed at its front, and read by any number of readers at once, each at an
//! offset of its own: the replication stream of a primary and its backlog.
//!
//! ```text
//!            trimmed       | block 0 | block 1 | block 2 |        each BLOCK_BYTES long, the last one being filled
//!  offset 0 . . . . . start^                 end^
//!                               ^reader   ^reader ^reader         readers keep their own offsets
//! ```
//!
//! 1. Bytes are numbered from the log's beginning, independent of trimming: an offset always means the same byte.
//! 2. `start` is the offset of the first byte of the first block. `full` are the blocks before the last, all full; the last
//!    is empty only if nothing has been appended yet, and then takes no memory.
//! 3. Hence a byte's block is found by a division; a block never moves, and a full one never changes.
//!
//! There is one copy of a byte for any number of readers. A reader writes runs of bytes, at most one for each block,
//! directly from here to its socket.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#the-replication-stream).

use std::collections::VecDeque;

/// A size class of the allocator: a log at its length limit frees one block for each that it allocates.
pub const BLOCK_BYTES: usize = 16 << 10;

/// Most blocks freed by a call of [`SharedLog::trim_to`]: a reader that was far behind and disconnects leaves many.
const TRIMMED_BLOCKS_MAX: usize = 128;

/// Spare capacity of the list of blocks that is not worth freeing.
const LISTED_BLOCKS_KEPT: usize = 64;

/// A log of bytes. See the [module](self) for the layout.
#[derive(Debug)]
pub struct SharedLog {
    start: u64,
    end: u64,
    full: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    /// The block that was trimmed last, reused for the next one.
    spare: Option<Vec<u8>>,
}

impl SharedLog {
    /// Creates an empty log; the first byte appended has the offset `start`.
    pub fn new(start: u64) -> Self {
        SharedLog { start, end: start, full: VecDeque::new(), last: Vec::new(), spare: None }
    }

    /// Offset of the first byte in the log.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset of the next byte to be appended.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of bytes in the log.
    #[inline]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the log has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        let blocks = self.full.len() + usize::from(self.spare.is_some());
        blocks * BLOCK_BYTES + self.last.capacity() + self.full.capacity() * size_of::<Vec<u8>>()
    }

    /// Appends the bytes; returns whether another block was allocated.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.last.capacity() - self.last.len() {
            return self.append_across_blocks(bytes);
        }
        self.last.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        false
    }

    #[cold]
    fn append_across_blocks(&mut self, mut bytes: &[u8]) -> bool {
        self.end += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.last.capacity() - self.last.len();
            if room == 0 {
                let block = self.spare.take().unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES));
                let full = std::mem::replace(&mut self.last, block);
                if !full.is_empty() {
                    self.full.push_back(full);
                }
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.last.extend_from_slice(now);
            bytes = later;
        }
        true
    }

    /// Frees blocks that end at or before `offset`, some at a time and never the last one; returns whether there are more
    /// to free.
    pub fn trim_to(&mut self, offset: u64) -> bool {
        for _ in 0..TRIMMED_BLOCKS_MAX {
            if self.full.is_empty() || self.start + BLOCK_BYTES as u64 > offset {
                self.shrink_list();
                return false;
            }
            self.start += BLOCK_BYTES as u64;
            self.spare = self.full.pop_front().map(|mut block| {
                block.clear();
                block
            });
        }
        true
    }

    /// Frees the list's capacity for removed blocks, if that is most of it.
    fn shrink_list(&mut self) {
        let (len, capacity) = (self.full.len(), self.full.capacity());
        if capacity > LISTED_BLOCKS_KEPT && len < capacity / 4 {
            self.full.shrink_to(len * 2);
        }
    }

    /// The bytes from `offset` to the end, in runs. `offset` must lie between [`Self::start`] and [`Self::end`].
    pub fn slices(&self, offset: u64) -> impl Iterator<Item = &[u8]> {
        assert!((self.start..=self.end).contains(&offset), "a reader is within the log");
        let (block, skipped) = split(offset - self.start);
        // The end of a full last block has the offset of a next one, which does not exist.
        let last = (block <= self.full.len()).then_some(&self.last);
        let blocks = self.full.range(block.min(self.full.len())..).chain(last);
        blocks
            .enumerate()
            .map(move |(at, block)| if at == 0 { &block[skipped..] } else { block })
            .filter(|run| !run.is_empty())
    }

    /// Panics unless the invariants hold.
    pub fn check(&self) {
        let bytes: usize = self.full.iter().chain([&self.last]).map(Vec::len).sum();
        assert_eq!(self.len(), bytes as u64);
        assert!(self.full.iter().all(|block| block.len() == BLOCK_BYTES && block.capacity() == BLOCK_BYTES));
        assert!(self.last.is_empty() && self.full.is_empty() || self.last.capacity() == BLOCK_BYTES);
        assert!(!self.last.is_empty() || self.full.is_empty());
    }
}

/// The index of a block from the first on, and the offset within it.
fn split(distance: u64) -> (usize, usize) {
    ((distance / BLOCK_BYTES as u64) as usize, (distance % BLOCK_BYTES as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{scaled, with_seeds};

    #[test]
    fn random_appends_and_trims_are_those_of_a_vector() {
        with_seeds(0..20, |random| {
            let start = random.below(1 << 40);
            let (mut log, mut model) = (SharedLog::new(start), Vec::new());
            for step in 0..scaled(400) {
                let len = match random.below(4) {
                    0 => random.below(3),
                    1 | 2 => random.below(2000),
                    _ => random.below(3 * BLOCK_BYTES as u64),
                };
                let bytes: Vec<u8> = (0..len).map(|at| (at ^ step) as u8).collect();
                let blocks = |log: &SharedLog| log.full.len() + usize::from(!log.last.is_empty());
                let blocks_before = blocks(&log);
                assert_eq!(log.append(&bytes), blocks(&log) > blocks_before);
                model.extend_from_slice(&bytes);
                let end = start + model.len() as u64;
                if random.below(5) == 0 {
                    let keep = log.start() + random.below(end - log.start() + 1);
                    while log.trim_to(keep) {}
                    assert!(log.start() <= keep, "bytes to be kept are in the log");
                    assert!(keep - log.start() < 2 * BLOCK_BYTES as u64, "and little more");
                }
                log.check();
                assert_eq!(log.end(), end);
                let from = log.start() + random.below(log.len() + 1);
                assert_eq!(log.slices(from).flatten().count() as u64, end - from);
                assert!(log.slices(from).flatten().eq(&model[(from - start) as usize..]));
                assert!(log.slices(from).all(|run| !run.is_empty()));
            }
        });
    }

    #[test]
    fn a_log_that_is_trimmed_as_it_grows_takes_no_more_memory() {
        let mut log = SharedLog::new(0);
        for _ in 0..1000 {
            log.append(&[7; 1000]);
            log.trim_to(log.end().saturating_sub(3 * BLOCK_BYTES as u64));
        }
        assert!(log.memory_bytes() <= 6 * BLOCK_BYTES, "{}", log.memory_bytes());
    }

    #[test]
    fn much_is_freed_in_several_steps() {
        let mut log = SharedLog::new(5);
        log.append(&vec![1; 200 * BLOCK_BYTES]);
        let end = log.end();
        assert!(log.trim_to(end));
        assert_eq!(log.start(), 5 + (TRIMMED_BLOCKS_MAX * BLOCK_BYTES) as u64);
        while log.trim_to(end) {}
        assert_eq!(log.len(), BLOCK_BYTES as u64, "the last block stays");
        assert!(log.memory_bytes() <= 2 * BLOCK_BYTES + 64, "and the list of them is as short");
    }
}
