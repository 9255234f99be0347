//! Elements drawn at random, each equally likely.

use super::page::Slot;
use super::table::{Format, Table};
use crate::random::{Random, SelectionSample};
use crate::work;
use std::collections::HashSet;

/// With at most this number of pages, the page of a random rank is found by adding up counts.
const WALKED_PAGES_MAX: usize = 16;
/// Draws before counts are added up in a table of any size: one in four hits, unless a page holds many times the
/// average.
const DRAWS_MAX: usize = 256;

impl<F: Format> Table<F> {
    /// Returns an element drawn uniformly; none if the table is empty.
    ///
    /// A page is drawn together with a slot number below the bound of its kind; if the page has fewer elements, both are
    /// drawn again. So every element has the same chance, whatever its page holds. Counts are in the directory: a failed
    /// draw fetches no page.
    pub(super) fn random(&self, random: &mut Random) -> Option<(usize, Slot)> {
        if self.len() == 0 {
            return None;
        }
        if self.directory.len() <= WALKED_PAGES_MAX {
            return self.at_rank(random.below(self.len() as u64) as usize);
        }
        let split = self.directory.shape().split_count() as u64;
        let unsplit = self.directory.len() as u64 - 2 * split;
        let (split_bound, unsplit_bound) =
            (u64::from(self.count_bounds.split), u64::from(self.count_bounds.unsplit));
        let split_slots = 2 * split * split_bound;
        for _ in 0..DRAWS_MAX {
            let draw = random.below(split_slots + unsplit * unsplit_bound);
            let (index, slot) = if draw < split_slots {
                let number = draw / split_bound;
                let page = if number < split { number } else { number + unsplit };
                (page, draw % split_bound)
            } else {
                let draw = draw - split_slots;
                (split + draw / unsplit_bound, draw % unsplit_bound)
            };
            work::visited(1);
            let page = self.directory.page(index as usize);
            if (slot as usize) < page.count() {
                return Some((index as usize, page.slot(slot as usize)));
            }
        }
        self.at_rank(random.below(self.len() as u64) as usize)
    }

    fn at_rank(&self, mut rank: usize) -> Option<(usize, Slot)> {
        for (index, page) in self.directory.pages().enumerate() {
            work::visited(1);
            if rank < page.count() {
                return Some((index, page.slot(rank)));
            }
            rank -= page.count();
        }
        None
    }

    /// Visits `wanted` different elements, every choice equally likely; all of them if there are no more.
    pub(super) fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        if wanted <= self.len() / 4 {
            let mut seen = HashSet::with_capacity(wanted);
            while seen.len() < wanted {
                let Some((index, slot)) = self.random(random) else { return };
                if seen.insert((index, slot.index)) {
                    let (key, value) = self.read(index, slot);
                    visit(key, value);
                }
            }
            return;
        }
        let mut sample = SelectionSample::new(self.len() as u64, wanted as u64);
        for page in self.directory.pages() {
            work::visited(1);
            for slot in page.slots() {
                if sample.is_complete() {
                    return;
                }
                if sample.takes(random) {
                    let (key, value) = F::read(page.record(slot));
                    visit(key, value);
                }
            }
        }
    }
}
