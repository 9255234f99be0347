//! Sorted sets: members in order of their scores. A compact list while small; beyond, a feature B+ tree or (by
//! `zset-index skiplist`) a skip list.

mod compact;
mod rdb;

use super::collection::{Collection, EncodingLimits, Means};
use super::layout::Layout;
use super::object::{Kind, Object, Text};
use compact::Compact;
use std::ops::Range;
use structures::hash::HashSeed;
pub use structures::ordered_set::{Full, Insertion, LexBound, ScoreBound};
use structures::ordered_set::{OrderedSet, ScoreProbe, fbtree::FbTree, skip_list::SkipList};
use structures::prefetch::prefetch_object;
use structures::random::Random;
use structures::size_class::usable_size;
use structures::unaligned_box::UnalignedBox;

pub struct SortedSet {
    form: Form,
}

enum Form {
    Compact(Compact),
    Tree(UnalignedBox<FbTree>),
    SkipList(UnalignedBox<SkipList>),
}

/// Does the same with whichever large form there is.
macro_rules! large {
    ($form:expr, $compact:pat => $small:expr, $set:ident => $work:expr) => {
        match $form {
            Form::Compact($compact) => $small,
            Form::Tree($set) => $work,
            Form::SkipList($set) => $work,
        }
    };
}

/// A lookup of a member, taken apart at its cache misses.
pub struct Probe<'a> {
    set: &'a SortedSet,
    member: &'a [u8],
    probe: ScoreProbe,
}

impl Probe<'_> {
    /// Asks for the next line; whether there are more.
    #[inline]
    pub fn step(&mut self) -> bool {
        large!(&self.set.form, _ => false, set => set.probe_step(&mut self.probe, self.member))
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SortedSet of {}", self.len())
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> Self {
        let form = match &self.form {
            Form::Compact(list) => Form::Compact(list.clone()),
            Form::Tree(set) => {
                let mut copy = FbTree::new(set.seed());
                copy.load_sorted(set.ascending(0)).expect("a copy is no larger");
                Form::Tree(UnalignedBox::new(copy))
            }
            Form::SkipList(set) => {
                let mut copy = SkipList::new(set.seed(), set.len() as u64);
                copy.load_sorted(set.ascending(0)).expect("a copy is no larger");
                Form::SkipList(UnalignedBox::new(copy))
            }
        };
        SortedSet { form }
    }
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        SortedSet { form: Form::Compact(Compact::default()) }
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }

    fn into_object(self) -> Object {
        Object::SortedSet(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl SortedSet {
    pub(super) fn check(&self) {
        large!(&self.form, list => list.check(), set => set.check());
    }

    #[inline]
    pub fn len(&self) -> usize {
        large!(&self.form, list => list.len(), set => set.len())
    }

    /// Asks for what the value points at; whether more can be fetched once that has come.
    #[inline]
    pub fn prefetch_head(&self) -> bool {
        match &self.form {
            Form::Compact(list) => {
                list.prefetch();
                false
            }
            Form::Tree(set) => {
                prefetch_object(&**set);
                true
            }
            Form::SkipList(set) => {
                prefetch_object(&**set);
                true
            }
        }
    }

    /// A lookup of the member in steps; none where the head is all there is to fetch.
    #[inline]
    pub fn probe<'a>(&'a self, member: &'a [u8]) -> Option<Probe<'a>> {
        let probe = large!(&self.form, _ => return None, set => set.probe(member));
        Some(Probe { set: self, member, probe })
    }

    /// So small that all members stand side by side.
    pub fn is_compact(&self) -> bool {
        matches!(self.form, Form::Compact(_))
    }

    pub fn encoding_name(&self) -> &'static str {
        if self.is_compact() { "listpack" } else { "skiplist" }
    }

    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        large!(&self.form, list => list.score(member), set => set.score(member))
    }

    /// The member's rank, from 0 at the lowest score, and its score.
    #[inline]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        large!(&self.form, list => list.rank(member), set => set.rank(member))
    }

    /// Adds the member or moves it to `score`, which must be a number.
    #[inline]
    pub fn insert(&mut self, member: &[u8], score: f64, means: &Means<'_>) -> Result<Insertion, Full> {
        if let Form::Compact(list) = &mut self.form {
            let limits = means.limits;
            let there = list.score(member);
            let grows = there.is_none()
                && (list.len() >= limits.sorted_set_listpack_entries_max
                    || member.len() > limits.sorted_set_listpack_value_bytes_max
                    || !list.has_room_for(member));
            if !grows {
                return Ok(list.insert(member, score, there));
            }
            self.enlarge(means);
        }
        large!(&mut self.form, _ => unreachable!("enlarged above"), set => set.insert(member, score))
    }

    /// So many members, the longest of this length, are about to be added: what would be too much for the compact form
    /// ends it at once, even where the set has some of them already. Filling that form first costs five times the
    /// whole.
    pub fn expect(&mut self, members: usize, longest_bytes: usize, means: &Means<'_>) {
        let limits = means.limits;
        if members > limits.sorted_set_listpack_entries_max
            || longest_bytes > limits.sorted_set_listpack_value_bytes_max
        {
            self.enlarge(means);
        }
    }

    fn enlarge(&mut self, means: &Means<'_>) {
        let Form::Compact(list) = &self.form else { return };
        let mut members: Vec<(Vec<u8>, f64)> = Vec::with_capacity(list.len());
        list.for_range(0..list.len(), false, &mut |member, score| {
            members.push((member.to_vec(), score));
            true
        });
        let sorted = members.iter().map(|(member, score)| (member.as_slice(), *score));
        self.form = if means.limits.sorted_set_skip_list {
            let mut set = SkipList::new(means.seed, means.seed.k1 ^ means.now_ms as u64);
            set.load_sorted(sorted).expect("a compact set is small");
            Form::SkipList(UnalignedBox::new(set))
        } else {
            let mut set = FbTree::new(means.seed);
            set.load_sorted(sorted).expect("a compact set is small");
            Form::Tree(UnalignedBox::new(set))
        };
    }

    /// Removes the member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        large!(&mut self.form, list => list.remove(member), set => set.remove(member))
    }

    /// The ranks whose scores lie within both bounds.
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let range = large!(&self.form, list => list.score_range(min, max), set => set.score_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// The ranks whose members lie within both bounds, where all scores are equal.
    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let range = large!(&self.form, list => list.lex_range(min, max), set => set.lex_range(min, max));
        range.start..range.end.max(range.start)
    }

    /// Visits the ranks in `range`, upwards or downwards, until `visit` says stop (`false`).
    pub fn for_range(
        &self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(Text<'_>, f64) -> bool,
    ) {
        let count = range.end.saturating_sub(range.start);
        if count == 0 {
            return;
        }
        large!(&self.form, list => list.for_range(range, reverse, visit), set => {
            let mut visit = |(member, score)| visit(Text::Bytes(member), score);
            if reverse {
                set.descending(range.end - 1).take(count).all(&mut visit);
            } else {
                set.ascending(range.start).take(count).all(&mut visit);
            }
        });
    }

    /// Removes the ranks in `range`, handing each to `removed` in ascending order; returns how many.
    pub fn remove_range(&mut self, range: Range<usize>, removed: &mut dyn FnMut(Text<'_>, f64)) -> usize {
        large!(&mut self.form, list => list.remove_range(range, removed), set => {
            set.remove_range(range, &mut |member, score| removed(Text::Bytes(member), score))
        })
    }

    /// Visits some members and returns the next cursor, 0 at the end; a compact set is visited whole.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(Text<'_>, f64)) -> u64 {
        large!(&self.form, list => {
            list.for_range(0..list.len(), false, &mut |member, score| { visit(member, score); true });
            0
        }, set => set.scan(cursor, wanted, &mut |member, score| visit(Text::Bytes(member), score)))
    }

    /// One member, each as likely as any other, handed to `visit`.
    pub fn random(&self, random: &mut Random, visit: &mut dyn FnMut(Text<'_>, f64)) {
        if self.len() == 0 {
            return;
        }
        let rank = random.below(self.len() as u64) as usize;
        self.for_range(rank..rank + 1, false, &mut |member, score| {
            visit(member, score);
            true
        });
    }

    /// Bytes held from the allocator beyond this value.
    pub fn memory_bytes(&self) -> usize {
        large!(&self.form, list => list.memory_bytes(), set => {
            usable_size(size_of_val(&**set)) + set.memory_bytes()
        })
    }

    pub fn layout(&self) -> Layout {
        match &self.form {
            Form::Compact(list) => list.layout(),
            Form::Tree(tree) => {
                let figures = tree.figures();
                let parts = vec![
                    ("leaves", figures.leaves),
                    ("inner-nodes", figures.inner_nodes),
                    ("levels", figures.levels),
                    ("long-members", figures.long_members),
                    ("index-bytes", figures.index_bytes),
                ];
                Layout::new("feature B+ tree", parts).packed(figures.used_bytes, figures.page_bytes)
            }
            Form::SkipList(list) => {
                let figures = list.figures();
                let parts = vec![
                    ("nodes", list.len()),
                    ("levels", figures.levels),
                    ("node-bytes", figures.nodes_bytes),
                    ("index-bytes", figures.index_bytes),
                ];
                Layout::new("skip list", parts)
            }
        }
    }
}
