//! Several lookups at once, with overlapping fetches.
//!
//! Each lookup waits for four lines in turn, and no lookup depends on another. A lookup keeps the slots that have its tag from
//! one round to the next. In a tree that fits the caches, prefetching only costs.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::descend::tag;
use super::key::bits_to_score;
use super::leaf::{Few, NO_LEAF};
use super::member_index::MemberIndex;
use super::{FbTree, OrderedSet};
use crate::prefetch::prefetch;

/// Lookups in progress at once: more than the memory serves at a time.
const TOGETHER: usize = 16;
/// Members of a tree that probably fits the caches. Tests have smaller ones.
const CACHED_MAX: usize = if cfg!(test) { 256 } else { 8192 };

/// One of several lookups: the first leaf that the index names for it, if any, and the slots there.
#[derive(Clone, Copy, Default)]
struct Lookup {
    hash: u64,
    leaf: u32,
    few: Few,
}

impl FbTree {
    pub(super) fn scores_of(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        match &self.index {
            Some(index) if self.len() > CACHED_MAX => {
                members.chunks(TOGETHER).for_each(|members| self.scores_together(index, members, visit));
            }
            _ => members.iter().for_each(|member| visit(self.score(member))),
        }
    }

    /// Scores of up to [`TOGETHER`] members.
    fn scores_together(&self, index: &MemberIndex, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        let mut lookups = [Lookup::default(); TOGETHER];
        let lookups = &mut lookups[..members.len()];
        for (lookup, member) in lookups.iter_mut().zip(members) {
            lookup.hash = self.seed.hash(member);
            prefetch(index.header_address(lookup.hash));
        }
        lookups.iter().for_each(|lookup| index.prefetch_entries(lookup.hash));
        for lookup in &mut *lookups {
            lookup.leaf = index.candidates(lookup.hash).next().unwrap_or(NO_LEAF);
            if lookup.leaf != NO_LEAF {
                prefetch(&raw const self.pages.leaves[lookup.leaf]);
            }
        }
        let leaf_of = |lookup: &Lookup| (lookup.leaf != NO_LEAF).then(|| &self.pages.leaves[lookup.leaf]);
        lookups.iter().filter_map(leaf_of).for_each(|leaf| leaf.prefetch_for_lookup());
        for lookup in &mut *lookups {
            let Some(leaf) = leaf_of(lookup) else { continue };
            lookup.few = leaf.few_tagged(tag(lookup.hash));
            lookup.few.slots().for_each(|slot| leaf.prefetch_slot_and_record(slot));
        }
        for (lookup, member) in lookups.iter().zip(members) {
            let Some(leaf) = leaf_of(lookup) else {
                visit(None);
                continue;
            };
            let found = lookup.few.slots().find(|&slot| leaf.member(slot, &self.pages.longs) == *member);
            // Otherwise another index entry leads to it, or it is one of many slots with its tag.
            let score = found
                .map(|slot| leaf.score(slot))
                .or_else(|| self.locate(member, lookup.hash).map(|found| found.leaf.score(found.slot)));
            visit(score.map(bits_to_score));
        }
    }

    pub(super) fn at_ranks<'a>(&'a self, ranks: &[usize], visit: &mut dyn FnMut(&'a [u8], f64) -> bool) {
        for ranks in ranks.chunks(TOGETHER) {
            let mut places = [(0, 0); TOGETHER];
            for (place, &rank) in places.iter_mut().zip(ranks) {
                *place = self.leaf_at_rank(rank);
                prefetch(&raw const self.pages.leaves[place.0]);
            }
            let places = &places[..ranks.len()];
            if self.len() > CACHED_MAX {
                places.iter().for_each(|&(leaf, _)| self.pages.leaves[leaf].prefetch_columns());
                places
                    .iter()
                    .for_each(|&(leaf, slot)| self.pages.leaves[leaf].prefetch_records(slot..slot + 1));
            }
            for &(leaf, slot) in places {
                let key = self.pages.key(leaf, slot);
                if !visit(key.member, bits_to_score(key.score)) {
                    return;
                }
            }
        }
    }
}
