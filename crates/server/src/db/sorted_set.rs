//! Sorted sets: members ordered by score. A record in the key's entry while it fits there, then a compact list; beyond, a
//! feature B+ tree or (with `zset-index skiplist`) a skip list.

mod compact;
pub mod ordered;
mod rdb;
#[cfg(test)]
mod tests;
mod value_type;
mod view;

pub use view::SortedSetView;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::interned::Interned;
use super::object::StringValue;
use compact::Compact;
use std::ops::Range;
use structures::hash::HashSeed;
use structures::listpack::{Builder, Element, Listpack, Position};
use structures::ordered_set::{ALL_RANKS, OrderedSet, ScoreProbe, fbtree::FbTree, skip_list::SkipList};
pub use structures::ordered_set::{Full, Insertion, LexBound, ScoreBound};
use structures::record::EMBEDDED_BYTES_MAX;
use structures::record::ranking::{MEMBERS_MAX, Place, Ranking, RankingBytes, RankingView};
use structures::record::value::TextBuffer;
use structures::unaligned_box::UnalignedBox;

/// The value of a sorted set key.
pub struct SortedSet {
    encoding: Encoding,
}

enum Encoding {
    /// Only while the set is created or changed: it is embedded, or becomes a list, when it is stored.
    Record(UnalignedBox<Ranking>),
    Compact(Compact),
    Tree(UnalignedBox<FbTree>),
    SkipList(UnalignedBox<SkipList>),
}

/// Runs the same code on either large encoding.
macro_rules! large {
    ($encoding:expr, $record:pat => $tiny:expr, $compact:pat => $small:expr, $set:ident => $work:expr) => {
        match $encoding {
            Encoding::Record($record) => $tiny,
            Encoding::Compact($compact) => $small,
            Encoding::Tree($set) => $work,
            Encoding::SkipList($set) => $work,
        }
    };
}

use large;

/// A lookup of a member, split at its cache misses.
pub struct Probe<'a> {
    set: &'a SortedSet,
    probe: ScoreProbe,
}

impl Probe<'_> {
    /// Prefetches the next line; returns whether there are more.
    #[inline]
    pub fn step(&mut self) -> bool {
        large!(&self.set.encoding, _ => false, _ => false, set => set.probe_step(&mut self.probe))
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SortedSet of {}", self.len())
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> Self {
        let encoding = match &self.encoding {
            Encoding::Record(record) => Encoding::Record(record.clone()),
            Encoding::Compact(list) => Encoding::Compact(list.clone()),
            Encoding::Tree(set) => Encoding::Tree(UnalignedBox::new(FbTree::clone(set))),
            Encoding::SkipList(set) => {
                let mut copy = SkipList::new(set.seed(), set.len() as u64);
                copy.load_sorted(set.ascending(ALL_RANKS)).expect("a copy is no larger");
                Encoding::SkipList(UnalignedBox::new(copy))
            }
        };
        SortedSet { encoding }
    }
}

impl Collection for SortedSet {
    type View<'a> = SortedSetView<'a>;

    #[inline]
    fn view(&self) -> SortedSetView<'_> {
        let encoding = match &self.encoding {
            Encoding::Record(record) => view::Encoding::Record(record.view()),
            Encoding::Compact(list) => view::Encoding::Compact(list),
            Encoding::Tree(set) => view::Encoding::Tree(set),
            Encoding::SkipList(set) => view::Encoding::SkipList(set),
        };
        SortedSetView { encoding }
    }

    #[inline]
    fn view_embedded<'a>(bytes: &'a [u8], _interned: &'a Interned) -> Option<SortedSetView<'a>> {
        Some(SortedSetView { encoding: view::Encoding::Record(RankingView::of_embedded(bytes)) })
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        SortedSet::of_record(Ranking::default())
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect(self.len(), 0, context);
    }
}

impl SortedSet {
    fn of_record(record: Ranking) -> SortedSet {
        SortedSet { encoding: Encoding::Record(UnalignedBox::new(record)) }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// See [`SortedSetView::is_compact`].
    pub fn is_compact(&self) -> bool {
        self.view().is_compact()
    }

    /// See [`SortedSetView::for_range`].
    pub fn for_range<'a>(
        &'a self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        self.view().for_range(range, reverse, visit);
    }

    /// Adds the member or moves it to `score`, which must be a number.
    #[inline]
    pub fn insert(
        &mut self,
        member: &[u8],
        score: f64,
        context: &CollectionContext<'_>,
    ) -> Result<Insertion, Full> {
        match &self.encoding {
            Encoding::Record(record) => {
                let there = record.view().find(member);
                self.insert_record(member, score, there, context)
            }
            Encoding::Compact(list) => {
                let there = list.find(member);
                self.insert_compact(member, score, there, context)
            }
            Encoding::Tree(_) | Encoding::SkipList(_) => self.insert_large(member, score),
        }
    }

    /// Adds or moves the member to the score that `wanted` computes from its current one, if any: one search.
    pub fn insert_if(
        &mut self,
        member: &[u8],
        context: &CollectionContext<'_>,
        wanted: &mut dyn FnMut(Option<f64>) -> Option<f64>,
    ) -> Result<Option<Insertion>, Full> {
        match &mut self.encoding {
            Encoding::Record(record) => {
                let there = record.view().find(member);
                let score = wanted(there.map(|place| place.score));
                score.map(|score| self.insert_record(member, score, there, context)).transpose()
            }
            Encoding::Compact(list) => {
                let there = list.find(member);
                let score = wanted(there.map(|(_, score)| score));
                score.map(|score| self.insert_compact(member, score, there, context)).transpose()
            }
            Encoding::Tree(set) => set.insert_if(member, wanted),
            Encoding::SkipList(set) => set.insert_if(member, wanted),
        }
    }

    fn insert_large(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full> {
        large!(
            &mut self.encoding,
            _ => unreachable!("the set is large"),
            _ => unreachable!("the set is large"),
            set => set.insert(member, score)
        )
    }

    /// Inserts into a record; `there` is the member's place.
    #[inline]
    fn insert_record(
        &mut self,
        member: &[u8],
        score: f64,
        there: Option<Place>,
        context: &CollectionContext<'_>,
    ) -> Result<Insertion, Full> {
        if let Encoding::Record(record) = &mut self.encoding {
            let limits = context.limits;
            let fits = match there {
                Some(_) => record.fits_score(),
                None => {
                    record.view().len() < limits.sorted_set_listpack_entries_max
                        && member.len() <= limits.sorted_set_listpack_value_bytes_max
                        && record.fits(member.len())
                }
            };
            if fits {
                return Ok(record.insert(member, score, there));
            }
            self.leave_record();
        }
        let there = if let Encoding::Compact(list) = &self.encoding { list.find(member) } else { None };
        self.insert_compact(member, score, there, context)
    }

    /// Inserts into a compact set; `there` is the member's current entry.
    #[inline]
    fn insert_compact(
        &mut self,
        member: &[u8],
        score: f64,
        there: Option<(Position, f64)>,
        context: &CollectionContext<'_>,
    ) -> Result<Insertion, Full> {
        if let Encoding::Compact(list) = &mut self.encoding {
            let limits = context.limits;
            // A score may be longer than the one it replaces.
            let grows = !list.has_room_for(member)
                || there.is_none()
                    && (list.len() >= limits.sorted_set_listpack_entries_max
                        || member.len() > limits.sorted_set_listpack_value_bytes_max);
            if !grows {
                return Ok(list.insert(member, score, there));
            }
            self.enlarge(context);
        }
        self.insert_large(member, score)
    }

    /// Prepares for adding `members` members, the longest of `longest_bytes` bytes: if they exceed the compact encoding
    /// it is converted at once, even if the set has some of them already. Filling the compact encoding first costs five
    /// times the whole.
    pub fn expect(&mut self, members: usize, longest_bytes: usize, context: &CollectionContext<'_>) {
        let limits = context.limits;
        if members > limits.sorted_set_listpack_entries_max
            || longest_bytes > limits.sorted_set_listpack_value_bytes_max
        {
            self.enlarge(context);
        } else if members > MEMBERS_MAX {
            self.leave_record();
        }
    }

    /// Converts a record to a list.
    fn leave_record(&mut self) {
        let Encoding::Record(record) = &self.encoding else { return };
        self.encoding = Encoding::Compact(Compact::of_listpack(listpack_of(record.view())));
    }

    fn enlarge(&mut self, context: &CollectionContext<'_>) {
        if !self.is_compact() {
            return;
        }
        let mut members: Vec<(Vec<u8>, f64)> = Vec::with_capacity(self.len());
        self.for_range(0..self.len(), false, &mut |member, score| {
            members.push((member.to_vec(), score));
            true
        });
        let sorted = members.iter().map(|(member, score)| (member.as_slice(), *score));
        self.encoding = if context.limits.sorted_set_skip_list {
            let mut set = SkipList::new(context.seed, context.seed.k1 ^ context.now_ms as u64);
            set.load_sorted(sorted).expect("a compact set is small");
            Encoding::SkipList(UnalignedBox::new(set))
        } else {
            let mut set = FbTree::new(context.seed);
            set.load_sorted(sorted).expect("a compact set is small");
            Encoding::Tree(UnalignedBox::new(set))
        };
    }

    /// Removes the member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        large!(
            &mut self.encoding,
            record => record.remove(member),
            list => list.remove(member),
            set => set.remove(member)
        )
    }

    /// Removes the ranks in `range`, passing each to `removed` in ascending order; returns how many.
    pub fn remove_range(
        &mut self,
        range: Range<usize>,
        removed: &mut dyn FnMut(StringValue<'_>, f64),
    ) -> usize {
        large!(&mut self.encoding, record => {
            let range = range.start..range.end.min(record.view().len());
            let pairs = record.view().iter_from(range.start).take(range.len());
            pairs.for_each(|(member, score)| removed(member.into(), score));
            drop_of_record(record, range)
        }, list => {
            list.for_range(range.clone(), false, &mut |member, score| { removed(member, score); true });
            list.drop_range(range)
        }, set => {
            set.remove_range(range, &mut |member, score| removed(StringValue::Bytes(member), score))
        })
    }

    /// As [`SortedSet::remove_range`], without passing them on.
    pub fn drop_range(&mut self, range: Range<usize>) -> usize {
        large!(
            &mut self.encoding,
            record => {
                let end = range.end.min(record.view().len());
                drop_of_record(record, range.start..end)
            },
            list => list.drop_range(range),
            set => set.drop_range(range)
        )
    }
}

/// Removes these ranks; returns their number.
fn drop_of_record(record: &mut Ranking, range: Range<usize>) -> usize {
    let removed = range.len();
    if removed > 0 {
        record.cut(range);
    }
    removed
}

/// The record as a list.
fn listpack_of(record: RankingView<'_>) -> Listpack {
    let mut list = Builder::with_room(3 * record.used_bytes());
    for (member, score) in record.iter_from(0) {
        match member.integer() {
            Some(value) => list.push(Element::Integer(value)),
            None => list.push(Element::Bytes(member.text(&mut TextBuffer::default()))),
        }
        compact::push_score(&mut list, score);
    }
    list.finish()
}

/// The list as a record, if that fits in an entry and is no longer: one score that is no integer, or far from the others, makes
/// all scores long. The length is found first, since this is asked after every change.
fn record_of(list: &Compact) -> Option<Ranking> {
    if list.len() > MEMBERS_MAX {
        return None;
    }
    let mut bytes = RankingBytes::default();
    list.for_range(0..list.len(), false, &mut |member, score| {
        member.with_bytes(|member| bytes.add(member, score));
        bytes.total() <= EMBEDDED_BYTES_MAX
    });
    if bytes.total() > EMBEDDED_BYTES_MAX.min(list.as_bytes().len()) {
        return None;
    }
    let mut record = Ranking::default();
    let mut fits = true;
    list.for_range(0..list.len(), false, &mut |member, score| {
        fits = record.fits(member.len());
        if fits {
            member.with_bytes(|member| record.push(member, score));
        }
        fits
    });
    fits.then_some(record)
}
