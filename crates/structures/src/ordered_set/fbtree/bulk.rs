//! Loading a set whose members arrive in order, many at a time: whole leaves are packed and put at an edge of the tree,
//! and the member index is built once at the end.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::descend::tag;
use super::key::{Key, score_to_bits};
use super::leaf::{Leaf, Record};
use super::member_index::MemberIndex;
use super::{FbTree, OrderedSet};
use crate::hash::HashSeed;
use crate::size_class::usable_size;

/// A member occurred twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated;

/// The end of the tree to which a run of keys is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Front,
    Back,
}

/// A set being loaded.
pub struct Loader {
    /// The tree, without an index whatever its number of leaves.
    tree: FbTree,
    /// The hashes of all members, leaf by leaf.
    hashes: Vec<u64>,
    /// The leaves, and how many of these hashes belong to each.
    leaves: Vec<(u32, usize)>,
}

impl Loader {
    /// Begins loading an empty set.
    pub fn new(seed: HashSeed) -> Self {
        Loader::filling(FbTree::new(seed))
    }

    /// As [`Loader::new`], into an empty set of any shape.
    pub(super) fn filling(tree: FbTree) -> Self {
        assert!(tree.is_empty(), "only loaded members are indexed at the end");
        Loader { tree, hashes: Vec::new(), leaves: Vec::new() }
    }

    /// Adds members that ascend and lie before or behind all earlier ones; returns whether they do. If not, or if there
    /// are too many, none is added.
    pub fn add(&mut self, run: &[(&[u8], f64)]) -> bool {
        let keys: Vec<Key<'_>> =
            run.iter().map(|&(member, score)| Key { score: score_to_bits(score), member }).collect();
        let ascend = keys.is_sorted_by(|a, b| (a.score, a.member) < (b.score, b.member));
        if !ascend || u32::MAX as usize - self.hashes.len() < run.len() {
            return false;
        }
        let Some(edge) = self.edge_for(&keys) else { return false };
        let hashes: Vec<u64> = keys.iter().map(|key| self.tree.seed.hash(key.member)).collect();
        self.add_leaves(&keys, &hashes, edge);
        true
    }

    /// Builds the index and returns the set.
    pub fn finish(mut self) -> Result<FbTree, Repeated> {
        if self.tree.height > 0 {
            let (index, alike) = MemberIndex::of(&self.hashes, &self.leaves);
            if alike.iter().any(|&(a, b)| self.tree.share_a_member(a, b)) {
                return Err(Repeated);
            }
            self.tree.index = Some(Box::new(index));
        } else if self.tree.share_a_member(self.tree.first, self.tree.first) {
            return Err(Repeated);
        }
        Ok(self.tree)
    }

    fn edge_for(&self, keys: &[Key<'_>]) -> Option<Edge> {
        let tree = &self.tree;
        let (Some(first), Some(last), false) = (keys.first(), keys.last(), tree.is_empty()) else {
            return Some(Edge::Back);
        };
        let (front, back) = (&tree.pages.leaves[tree.first], &tree.pages.leaves[tree.last]);
        if back.compare(back.count() - 1, first, &tree.pages.longs).is_lt() {
            return Some(Edge::Back);
        }
        front.compare(0, last, &tree.pages.longs).is_gt().then_some(Edge::Front)
    }

    /// Packs the keys into leaves and adds these at the edge.
    fn add_leaves(&mut self, keys: &[Key<'_>], hashes: &[u64], edge: Edge) {
        let pages = &mut self.tree.pages;
        let records: Vec<Record<'_>> = keys
            .iter()
            .zip(hashes)
            .map(|(key, &hash)| Record::new(key.member, hash, &mut pages.longs))
            .collect();
        let long = keys.iter().zip(&records).filter(|(_, record)| record.is_long());
        pages.long_bytes += long.map(|(key, _)| usable_size(key.member.len())).sum::<usize>();
        let (mut leaves, mut start, mut guess) = (Vec::new(), 0, keys.len());
        while start < keys.len() {
            let rest = start..(start + guess).min(keys.len());
            let parts = keys[rest.clone()].iter().zip(&hashes[rest.clone()]).zip(&records[rest]);
            let parts: Vec<(u64, u8, &Record<'_>)> =
                parts.map(|((key, &hash), record)| (key.score, tag(hash), record)).collect();
            let leaf = Leaf::packed(&parts, self.tree.page_max());
            let count = leaf.count();
            leaves.push((leaf, start));
            start += count;
            // The next ones are probably of similar size.
            guess = count + count / 8 + 1;
        }
        if edge == Edge::Front {
            leaves.reverse();
        }
        for (leaf, start) in leaves {
            let members = start..start + leaf.count();
            let was_empty = self.tree.is_empty();
            self.tree.len += members.len() as u32;
            let id = if was_empty {
                // An empty tree has its first leaf. With a second leaf beside it, a set that fits one page would have a
                // node and an index too, which took half as much again.
                self.tree.pages.replace(self.tree.first, leaf);
                self.tree.first
            } else {
                let path = self.tree.path_to_edge(edge == Edge::Back);
                self.tree.add_edge_leaf(&path, leaf, edge == Edge::Back)
            };
            self.leaves.push((id, members.len()));
            self.hashes.extend_from_slice(&hashes[members]);
        }
    }
}

impl FbTree {
    /// Returns whether two leaves have a member in common; for a leaf and itself, whether it has a member twice.
    fn share_a_member(&self, a: u32, b: u32) -> bool {
        let (mut hashes, mut others) = (Vec::new(), Vec::new());
        self.push_hashes(a, &mut hashes);
        self.push_hashes(b, &mut others);
        let mut sorted: Vec<(u64, usize)> = hashes.into_iter().zip(0..).collect();
        sorted.sort_unstable();
        others.into_iter().zip(0..).any(|(hash, other)| {
            let from = sorted.partition_point(|&(known, _)| known < hash);
            let alike = sorted[from..].iter().take_while(|&&(known, _)| known == hash);
            alike.filter(|&&(_, slot)| a != b || slot != other).any(|&(_, slot)| {
                let longs = &self.pages.longs;
                self.pages.leaves[a].member(slot, longs) == self.pages.leaves[b].member(other, longs)
            })
        })
    }
}
