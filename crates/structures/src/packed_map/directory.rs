//! The pages of a table in order, and the mapping from hash to page: linear hashing ([`LinearHash`]).
//!
//! Pages are added and removed one at a time, at any size. Unlike an extendible directory this has exactly one entry per
//! page, none shared, and removes pages as readily as it adds them. The cost: pages not yet split in this round hold twice
//! as much as those that are.
//!
//! Entries are in segments of [`SEGMENT_PAGES`], so that no growth copies more than one segment. The first segment is a
//! field of the directory: a table of one segment needs no second fetch. All but the last are full and have no spare
//! capacity.

use super::page::Page;
use crate::linear_hash::LinearHash;
use crate::size_class::usable_size;

const SEGMENT_BITS: u32 = 12;
const SEGMENT_PAGES: usize = 1 << SEGMENT_BITS;
/// Bits of a position: with the tag that [`super::scan`] adds, a cursor stays far below 2^53, so that clients that store
/// numbers as doubles read it exactly.
pub(super) const CURSOR_BITS: u32 = 42;

pub(super) struct Directory {
    first: Vec<Page>,
    rest: Vec<Vec<Page>>,
    shape: LinearHash,
}

impl Directory {
    pub(super) const fn new() -> Directory {
        Directory { first: Vec::new(), rest: Vec::new(), shape: LinearHash::new(0) }
    }

    /// Copies the pages into allocations of their own.
    pub(super) fn copy(&self) -> Directory {
        let segment = |pages: &Vec<Page>| pages.iter().map(Page::copy).collect();
        Directory {
            first: segment(&self.first),
            rest: self.rest.iter().map(segment).collect(),
            shape: self.shape,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.shape.parts()
    }

    /// Which pages are split, and which page is split next.
    #[inline]
    pub(super) fn shape(&self) -> LinearHash {
        self.shape
    }

    /// The page that holds `hash` among `len > 0` pages.
    #[inline(always)]
    pub(super) fn index(&self, hash: u64) -> usize {
        self.shape.index(hash)
    }

    #[inline(always)]
    pub(super) fn page(&self, index: usize) -> &Page {
        if index < SEGMENT_PAGES {
            return &self.first[index];
        }
        &self.rest[(index >> SEGMENT_BITS) - 1][index & (SEGMENT_PAGES - 1)]
    }

    #[inline(always)]
    pub(super) fn page_mut(&mut self, index: usize) -> &mut Page {
        if index < SEGMENT_PAGES {
            return &mut self.first[index];
        }
        &mut self.rest[(index >> SEGMENT_BITS) - 1][index & (SEGMENT_PAGES - 1)]
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.first.iter().chain(self.rest.iter().flatten())
    }

    pub(super) fn push(&mut self, page: Page) {
        let segment = match self.len() >> SEGMENT_BITS {
            0 => &mut self.first,
            number => {
                if number > self.rest.len() {
                    self.rest.push(Vec::new());
                }
                &mut self.rest[number - 1]
            }
        };
        if segment.len() == segment.capacity() {
            let wanted = segment.len() / 8 + 1;
            segment.reserve_exact(wanted.min(SEGMENT_PAGES - segment.len()));
        }
        segment.push(page);
        self.shape = LinearHash::new(self.len() + 1);
    }

    pub(super) fn pop(&mut self) -> Option<Page> {
        let segment = self.rest.last_mut().unwrap_or(&mut self.first);
        let page = segment.pop()?;
        if segment.capacity() > 4 && segment.len() <= segment.capacity() / 2 {
            segment.shrink_to(segment.len() * 9 / 8);
        }
        if segment.is_empty() {
            if self.rest.pop().is_none() {
                self.first = Vec::new();
            } else {
                self.rest.shrink_to(self.rest.len() * 2);
            }
        }
        self.shape = LinearHash::new(self.len() - 1);
        Some(page)
    }

    /// Positions covered by a page: its first, and the first of the next page (0 past the last).
    pub(super) fn cursor_range(&self, index: usize) -> (u64, u64) {
        let depth = self.shape.depth_of(index);
        assert!(depth < CURSOR_BITS, "more pages than a cursor can distinguish");
        let start = (index as u64).reverse_bits() >> (64 - CURSOR_BITS);
        let end = start + (1 << (CURSOR_BITS - depth));
        (start, end & ((1 << CURSOR_BITS) - 1))
    }

    /// The page that covers the position `cursor`; bits beyond the cursor's are ignored.
    pub(super) fn page_at_cursor(&self, cursor: u64) -> usize {
        self.index((cursor << (64 - CURSOR_BITS)).reverse_bits())
    }

    /// Bytes requested from the allocator for the entries.
    pub(super) fn memory_bytes(&self) -> usize {
        let last = self.rest.last().unwrap_or(&self.first);
        self.rest.len() * usable_size(SEGMENT_PAGES * size_of::<Page>())
            + usable_size(last.capacity() * size_of::<Page>())
            + usable_size(self.rest.capacity() * size_of::<Vec<Page>>())
    }

    /// Panics unless all segments but the last are full.
    pub(super) fn check(&self) {
        let segments = std::iter::once(&self.first).chain(&self.rest);
        for segment in segments.take(self.rest.len()) {
            assert_eq!((segment.len(), segment.capacity()), (SEGMENT_PAGES, SEGMENT_PAGES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_belongs_to_the_page_whose_interval_covers_it() {
        let mut directory = Directory::new();
        for pages in 1..=if cfg!(miri) { 20 } else { 200 } {
            directory.push(Page::empty());
            assert_eq!(directory.len(), pages);
            let (mut cursor, mut seen) = (0, vec![false; pages]);
            loop {
                let index = directory.page_at_cursor(cursor);
                let (start, end) = directory.cursor_range(index);
                assert_eq!(start, cursor);
                assert!(!std::mem::replace(&mut seen[index], true));
                for inside in [start, (end.wrapping_sub(1)) & ((1 << CURSOR_BITS) - 1)] {
                    assert_eq!(directory.page_at_cursor(inside), index);
                }
                cursor = end;
                if cursor == 0 {
                    break;
                }
            }
            assert!(seen.iter().all(|&s| s), "{pages} pages: {seen:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of pages")]
    fn segments_come_and_go() {
        let mut directory = Directory::new();
        let pages = 3 * SEGMENT_PAGES + 5;
        for index in 0..pages {
            let mut page = Page::empty();
            page.push_inline(index as u8, 0, 0, u64::MAX, |_| ());
            directory.push(page);
        }
        assert!((0..pages).step_by(97).all(|index| directory.page(index).tag(0) == index as u8));
        for left in (0..pages).rev() {
            let page = directory.pop().expect("as many pages as were pushed");
            assert_eq!(page.tag(0), left as u8);
        }
        assert!(directory.pop().is_none());
        assert_eq!(directory.memory_bytes(), 0);
    }
}
