//! Loading members in order, many at a time: whole leaves are packed and put at an edge of the tree, and the lines
//! of the index are asked for together. One by one, two fifths of the time goes into waiting for the index, and a
//! fifth into making room at the front of leaves when a set arrives from its highest member down.

use super::descend::tag;
use super::key::{Key, score_to_bits};
use super::leaf::{Leaf, Record};
use super::{FbTree, Full, Insertion, OrderedSet};
use crate::size_class::usable_size;

/// Lookups whose fetches overlap.
const LOOKUPS: usize = 64;

/// At which end of the tree a run of keys goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Front,
    Back,
}

impl FbTree {
    pub(super) fn load_ordered_run(&mut self, run: &[(&[u8], f64)]) -> Result<usize, Full> {
        let keys: Vec<Key<'_>> =
            run.iter().map(|&(member, score)| Key { score: score_to_bits(score), member }).collect();
        let hashes: Vec<u64> = run.iter().map(|&(member, _)| self.seed.hash(member)).collect();
        let fits = u32::MAX as usize - self.len as usize >= run.len();
        match self.edge_for(&keys) {
            Some(edge) if fits && self.are_new(run, &hashes) => {
                self.add_run(&keys, &hashes, edge);
                Ok(run.len())
            }
            _ => {
                let mut added = 0;
                for &(member, score) in run {
                    added += usize::from(self.insert(member, score)? == Insertion::Added);
                }
                Ok(added)
            }
        }
    }

    /// Where the keys can go as whole leaves: they ascend and lie beyond all that are there, which are many.
    fn edge_for(&self, keys: &[Key<'_>]) -> Option<Edge> {
        let (first, last) = (keys.first()?, keys.last()?);
        self.index.as_ref()?;
        let ascend =
            keys.windows(2).all(|pair| (pair[0].score, pair[0].member) < (pair[1].score, pair[1].member));
        if !ascend {
            return None;
        }
        let (front, back) = (&self.pages.leaves[self.first], &self.pages.leaves[self.last]);
        if back.compare(back.count() - 1, first, &self.pages.longs).is_lt() {
            return Some(Edge::Back);
        }
        front.compare(0, last, &self.pages.longs).is_gt().then_some(Edge::Front)
    }

    /// Whether no member is in the set, nor probably twice in the run.
    fn are_new(&self, run: &[(&[u8], f64)], hashes: &[u64]) -> bool {
        let mut sorted = hashes.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return false;
        }
        run.chunks(LOOKUPS).zip(hashes.chunks(LOOKUPS)).all(|(members, hashes)| {
            if let Some(index) = &self.index {
                index.prefetch_all(hashes);
            }
            members.iter().zip(hashes).all(|(&(member, _), &hash)| self.locate(member, hash).is_none())
        })
    }

    /// Packs the keys into leaves and puts these at the edge.
    fn add_run(&mut self, keys: &[Key<'_>], hashes: &[u64], edge: Edge) {
        let records: Vec<Record<'_>> =
            keys.iter().map(|key| Record::new(key.member, &mut self.pages.longs)).collect();
        let long = keys.iter().zip(&records).filter(|(_, record)| record.is_long());
        self.pages.long_bytes += long.map(|(key, _)| usable_size(key.member.len())).sum::<usize>();
        let (mut leaves, mut start, mut guess) = (Vec::new(), 0, keys.len());
        while start < keys.len() {
            let rest = start..(start + guess).min(keys.len());
            let parts = keys[rest.clone()].iter().zip(&hashes[rest.clone()]).zip(&records[rest]);
            let parts: Vec<(u64, u8, &Record<'_>)> =
                parts.map(|((key, &hash), record)| (key.score, tag(hash), record)).collect();
            let leaf = Leaf::packed(&parts, self.page_max());
            let count = leaf.count();
            leaves.push((leaf, start));
            start += count;
            // The next ones are probably alike.
            guess = count + count / 8 + 1;
        }
        match edge {
            Edge::Back => {
                leaves.into_iter().for_each(|(leaf, at)| self.add_packed(leaf, &hashes[at..], edge))
            }
            Edge::Front => {
                leaves.into_iter().rev().for_each(|(leaf, at)| self.add_packed(leaf, &hashes[at..], edge));
            }
        }
    }

    /// Puts a leaf at the edge; `hashes` begin with those of its members.
    fn add_packed(&mut self, leaf: Leaf, hashes: &[u64], edge: Edge) {
        let count = leaf.count();
        let back = edge == Edge::Back;
        let path = self.path_to_edge(back);
        let id = self.add_edge_leaf(&path, leaf, back);
        self.len += count as u32;
        if let Some(index) = &mut self.index {
            index.prefetch_moved(&hashes[..count]);
            hashes[..count].iter().for_each(|&hash| index.insert(hash, id));
        }
        self.balance_index();
    }
}
