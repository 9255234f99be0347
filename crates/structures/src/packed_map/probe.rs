//! A lookup divided at its cache misses, so that the misses of many lookups overlap.

use super::directory::Directory;
use super::page::Slot;
use crate::prefetch::prefetch;

/// Records fetched per lookup; more share a tag once in tens of thousands of lookups.
const CANDIDATES_MAX: usize = 3;

/// A lookup in a map or a set: each step reads what the previous one prefetched and prefetches the next part.
/// It changes nothing and borrows the table, so that no page moves between steps.
pub struct Probe<'a> {
    directory: &'a Directory,
    hash: u64,
    stage: Stage,
}

enum Stage {
    /// The directory's entry is being fetched.
    Entry { page: usize },
    /// The page's columns are being fetched.
    Columns { page: usize },
    /// Records are being fetched.
    Records { page: usize, candidates: [Option<Slot>; CANDIDATES_MAX] },
    /// Nothing is left to fetch.
    Done,
}

impl<'a> Probe<'a> {
    /// Prefetches the directory's entry.
    pub(super) fn new(directory: &'a Directory, hash: u64) -> Probe<'a> {
        if directory.len() == 0 {
            return Probe { directory, hash, stage: Stage::Done };
        }
        let page = directory.index(hash);
        prefetch(directory.page(page));
        Probe { directory, hash, stage: Stage::Entry { page } }
    }

    /// Reads what was fetched and prefetches the next part; returns whether more steps remain.
    pub fn step(&mut self) -> bool {
        self.stage = match self.stage {
            Stage::Entry { page } => self.fetch_columns(page),
            Stage::Columns { page } => self.fetch_records(page),
            Stage::Records { page, candidates } => {
                for slot in candidates.into_iter().flatten() {
                    self.directory.page(page).prefetch_large(slot);
                }
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
        !matches!(self.stage, Stage::Done)
    }

    fn fetch_columns(&self, page: usize) -> Stage {
        let entry = self.directory.page(page);
        if entry.count() == 0 {
            return Stage::Done;
        }
        entry.prefetch_searched();
        Stage::Columns { page }
    }

    fn fetch_records(&self, page: usize) -> Stage {
        let entry = self.directory.page(page);
        let mut candidates = [None; CANDIDATES_MAX];
        let mut found = 0;
        entry.find_slot((self.hash >> 56) as u8, |slot| {
            let stored = entry.stored_range(slot);
            prefetch(stored.start);
            prefetch(stored.end.wrapping_sub(1));
            candidates[found] = Some(slot);
            found += 1;
            (found == CANDIDATES_MAX).then_some(())
        });
        if found == 0 { Stage::Done } else { Stage::Records { page, candidates } }
    }
}
