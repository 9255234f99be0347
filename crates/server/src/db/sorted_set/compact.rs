//! A small sorted set as a compact list: member, score, member, score... in ascending order, as in RDB files.

use super::ordered::Scored;
use crate::db::layout::Layout;
use crate::db::object::StringValue;
use std::cmp::Ordering;
use std::ops::Range;
use structures::listpack::{self, Builder, Element, Listpack, Position};
use structures::ordered_set::{Insertion, LexBound, ScoreBound};
use structures::random::Random;
use wire::convert::signed_len;

/// Likely size of a score in a new list.
const SCORE_BYTES_LIKELY: usize = 8;

/// A small sorted set.
#[derive(Clone, Default)]
pub struct Compact {
    list: Listpack,
}

fn number(element: Element<'_>) -> f64 {
    match element {
        Element::Integer(n) => n as f64,
        Element::Bytes(bytes) => wire::number::parse_f64(bytes).expect("a score is stored as a number"),
    }
}

impl Compact {
    /// Wraps a list in this type's form: in order, each score a number.
    pub fn of_listpack(list: Listpack) -> Self {
        Compact { list }
    }

    /// The list in its form in files.
    pub fn as_bytes(&self) -> &[u8] {
        self.list.as_bytes()
    }

    pub(in crate::db) fn check(&self) {
        crate::db::check::check_unique(&self.list, 2);
        let pairs: Vec<(f64, Vec<u8>)> =
            self.pairs().map(|(member, score)| (score, member.to_vec())).collect();
        assert!(pairs.iter().all(|(score, _)| !score.is_nan()), "every score is a number");
        assert!(pairs.is_sorted(), "pairs are in order");
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.list.len() / 2
    }

    /// Memory held from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.list.memory_bytes()
    }

    /// Prefetches the first line.
    pub fn prefetch(&self) {
        self.list.prefetch();
    }

    /// Its memory layout.
    pub fn layout(&self) -> Layout {
        Layout::of_listpack(&self.list)
    }

    /// Whether the list's format has room for another pair.
    pub fn has_room_for(&self, member: &[u8]) -> bool {
        self.list.fits(member.len() + 64, 2)
    }

    /// Creates a list of distinct members in order; `None` if they exceed its format.
    pub fn of_ordered(members: &[Scored<'_>]) -> Option<Self> {
        let bytes: usize = members.iter().map(|(member, _)| member.len() + SCORE_BYTES_LIKELY).sum();
        let mut list = Builder::with_room(bytes);
        for &(member, score) in members {
            if !list.fits(member.len() + 64, 2) {
                return None;
            }
            match member {
                StringValue::Bytes(bytes) => list.push(Element::Bytes(bytes)),
                StringValue::Integer(value) => list.push(Element::Integer(value)),
                text => text.with_bytes(|bytes| list.push(Element::Bytes(bytes))),
            }
            push_score(&mut list, score);
        }
        Some(Compact { list: list.finish() })
    }

    /// All members with their scores, in order.
    fn pairs(&self) -> Pairs<'_> {
        Pairs { elements: self.list.iter() }
    }

    /// The members from a rank on, with their scores.
    fn pairs_from(&self, rank: usize) -> Pairs<'_> {
        Pairs { elements: self.list.iter_from(self.list.at(signed_len(2 * rank))) }
    }

    /// A member's position and score.
    pub fn find(&self, member: &[u8]) -> Option<(Position, f64)> {
        let at = self.list.find(self.list.first()?, member, 1)?;
        let score = self.list.next(at).expect("a member is followed by its score");
        Some((at, number(self.list.get(score))))
    }

    /// The member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(|(_, score)| score)
    }

    /// The member's rank, from 0 at the lowest score, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (rank, at) = self.list.find_counted(self.list.first()?, member, 1)?;
        let score = self.list.next(at).expect("a member is followed by its score");
        Some((rank, number(self.list.get(score))))
    }

    /// Inserts a member; `there` is the result of [`Compact::find`].
    pub fn insert(&mut self, member: &[u8], score: f64, there: Option<(Position, f64)>) -> Insertion {
        let score = score + 0.0; // -0.0 becomes 0.0
        let (from, result) = match there {
            Some((_, previous)) if previous == score => return Insertion::Unchanged,
            Some((at, previous)) => {
                self.list.remove_from(at, 2);
                // A higher score moves the member behind its old position.
                let from = self.list.first().map(|first| if score > previous { at } else { first });
                (from, Insertion::Updated { previous })
            }
            None => (self.list.first(), Insertion::Added),
        };
        let at = self.first_behind(from, member, score);
        let member = Element::Bytes(member);
        match wire::number::f64_as_integer(score) {
            Some(integer) => self.list.insert_pair(at, [member, Element::Integer(integer)]),
            None => self.list.insert_pair(at, [member, Element::Bytes(&score_text(score))]),
        }
        result
    }

    /// Position, from this one on, of the first member that sorts after the given one.
    fn first_behind(&self, from: Option<Position>, member: &[u8], score: f64) -> Option<Position> {
        let mut pairs = Pairs { elements: self.list.iter_from(from) };
        loop {
            let at = pairs.elements.next_position()?;
            let (text, other) = pairs.next()?;
            let order = other.total_cmp(&score).then_with(|| text.with_bytes(|bytes| bytes.cmp(member)));
            if order == Ordering::Greater {
                return Some(at);
            }
        }
    }

    /// Removes the member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (at, score) = self.find(member)?;
        self.list.remove_from(at, 2);
        Some(score)
    }

    /// The ranks of the scores within both bounds.
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        range_of(self.pairs(), |(_, score)| is_below(*score, min), |(_, score)| !is_above(*score, max))
    }

    /// See [`SortedSetView::for_score_ranges`](super::SortedSetView::for_score_ranges): the list is scanned once.
    pub fn for_score_ranges<'a>(
        &'a self,
        ranges: &[(ScoreBound, ScoreBound)],
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        for_score_ranges(self.pairs().collect(), ranges, visit);
    }

    /// The ranks of the members within both bounds, where all scores are equal.
    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        lex_range(self.pairs(), self.len(), min, max)
    }

    /// Visits the ranks in `range`, upwards or downwards, until `visit` returns `false`.
    pub fn for_range<'a>(
        &'a self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        let count = range.end.min(self.len()).saturating_sub(range.start);
        if !reverse {
            self.pairs_from(range.start).take(count).all(|(text, score)| visit(text, score));
            return;
        }
        let mut at = self.list.at(signed_len(2 * range.end) - 1);
        for _ in 0..count {
            let Some(score) = at else { return };
            let member = self.list.previous(score).expect("a score follows its member");
            if !visit(self.list.get(member).into(), number(self.list.get(score))) {
                return;
            }
            at = self.list.previous(member);
        }
    }

    /// Removes the ranks in `range`; returns how many existed.
    pub fn drop_range(&mut self, range: Range<usize>) -> usize {
        let count = range.end.min(self.len()).saturating_sub(range.start);
        self.list.remove_range(signed_len(2 * range.start), 2 * count);
        count
    }

    /// Visits `wanted` members drawn one by one, possibly the same more than once, until `visit` returns `false`.
    pub fn random_each<'a>(
        &'a self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
    ) {
        if wanted == 1 {
            let rank = random.index(self.len());
            self.for_range(rank..rank + 1, false, visit);
            return;
        }
        // Any access scans the list: one scan serves all.
        random_each(&self.pairs().collect::<Vec<_>>(), wanted, random, visit);
    }
}

/// Visits `wanted` of the members drawn one by one until `visit` returns `false`; there must be one.
pub(super) fn random_each<'a>(
    pairs: &[Scored<'a>],
    wanted: usize,
    random: &mut Random,
    visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
) {
    (0..wanted).all(|_| {
        let (member, score) = pairs[random.index(pairs.len())];
        visit(member, score)
    });
}

/// See [`SortedSetView::for_score_ranges`](super::SortedSetView::for_score_ranges).
pub(super) fn for_score_ranges<'a>(
    pairs: Vec<Scored<'a>>,
    ranges: &[(ScoreBound, ScoreBound)],
    visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
) {
    for &(min, max) in ranges {
        let start = pairs.partition_point(|&(_, score)| is_below(score, min));
        let mut within = pairs[start..].iter().take_while(|&&(_, score)| !is_above(score, max));
        if !within.all(|&(member, score)| visit(member, score)) {
            return;
        }
    }
}

/// The ranks of the members within both bounds, of all `len` pairs, whose scores are equal.
pub(super) fn lex_range<'a>(
    pairs: impl Iterator<Item = Scored<'a>>,
    len: usize,
    min: LexBound<'_>,
    max: LexBound<'_>,
) -> Range<usize> {
    // Texts of integers are created only if there is a bound to compare with.
    let below_min = |member: &StringValue<'_>| match min {
        LexBound::Min => false,
        LexBound::Max => true,
        LexBound::Inclusive(bound) => member.with_bytes(|member| member < bound),
        LexBound::Exclusive(bound) => member.with_bytes(|member| member <= bound),
    };
    let within_max = |member: &StringValue<'_>| match max {
        LexBound::Min => false,
        LexBound::Max => true,
        LexBound::Inclusive(bound) => member.with_bytes(|member| member <= bound),
        LexBound::Exclusive(bound) => member.with_bytes(|member| member < bound),
    };
    if let (LexBound::Min, LexBound::Max) = (min, max) {
        return 0..len;
    }
    range_of(pairs, |(member, _)| below_min(member), |(member, _)| within_max(member))
}

/// The ranks of the members within, which follow those below.
fn range_of<'a>(
    mut pairs: impl Iterator<Item = Scored<'a>>,
    below: impl Fn(&Scored<'a>) -> bool,
    within: impl Fn(&Scored<'a>) -> bool,
) -> Range<usize> {
    let (mut start, mut first) = (0, pairs.next());
    while first.as_ref().is_some_and(&below) {
        start += 1;
        first = pairs.next();
    }
    start..start + first.into_iter().chain(pairs).take_while(within).count()
}

fn is_below(score: f64, min: ScoreBound) -> bool {
    match min {
        ScoreBound::Inclusive(bound) => score < bound,
        ScoreBound::Exclusive(bound) => score <= bound,
    }
}

fn is_above(score: f64, max: ScoreBound) -> bool {
    match max {
        ScoreBound::Inclusive(bound) => score > bound,
        ScoreBound::Exclusive(bound) => score >= bound,
    }
}

/// See [`Compact::pairs`].
struct Pairs<'a> {
    elements: listpack::Iter<'a>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Scored<'a>;

    #[inline]
    fn next(&mut self) -> Option<Scored<'a>> {
        let member = self.elements.next()?;
        let score = self.elements.next().expect("a member is followed by its score");
        Some((member.into(), number(score)))
    }
}

/// Appends a score.
pub(super) fn push_score(list: &mut Builder, score: f64) {
    match wire::number::f64_as_integer(score) {
        Some(value) => list.push(Element::Integer(value)),
        None => list.push(Element::Bytes(&score_text(score))),
    }
}

/// The text of a score in a compact list; the list stores integers in its own form.
fn score_text(score: f64) -> wire::number::NumberText {
    wire::number::f64_text(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_score_and_then_by_member() {
        let mut set = Compact::default();
        for (member, score) in [("b", 1.0), ("a", 1.0), ("c", -2.5), ("10", 7.0), ("9", 7.0)] {
            assert_eq!(set.insert(member.as_bytes(), score, None), Insertion::Added);
        }
        let mut seen = Vec::new();
        set.for_range(0..5, false, &mut |member, score| {
            seen.push((String::from_utf8(member.to_vec()).unwrap(), score));
            true
        });
        let expected = [("c", -2.5), ("a", 1.0), ("b", 1.0), ("10", 7.0), ("9", 7.0)];
        assert_eq!(seen, expected.map(|(m, s)| (m.to_owned(), s)));
        assert_eq!(set.rank(b"10"), Some((3, 7.0)));
        assert_eq!(set.score_range(ScoreBound::Exclusive(1.0), ScoreBound::Inclusive(f64::INFINITY)), 3..5);
    }

    #[test]
    fn members_that_move_stand_in_order() {
        let mut random = Random::new(3);
        let mut set = Compact::default();
        let mut model: Vec<(f64, Vec<u8>)> = Vec::new();
        for _ in 0..20_000 {
            let member = random.below(40).to_string().into_bytes();
            let scores = [0.0, -0.0, 1.5, 2.0, 3e9, -7.25, 1e300, f64::INFINITY, f64::NEG_INFINITY];
            let score = scores[random.below(scores.len() as u64) as usize];
            let there = model.iter().position(|(_, other)| *other == member);
            if random.below(4) == 0 {
                assert_eq!(set.remove(&member), there.map(|at| model.remove(at).0));
            } else {
                let previous = there.map(|at| model.remove(at).0);
                let expected = match previous {
                    None => Insertion::Added,
                    Some(previous) if previous == score => Insertion::Unchanged,
                    Some(previous) => Insertion::Updated { previous },
                };
                assert_eq!(set.insert(&member, score, set.find(&member)), expected);
                model.push((score + 0.0, member));
                model.sort_by(|a, b| a.partial_cmp(b).expect("no score is NaN"));
            }
            set.check();
            let stored: Vec<_> = set.pairs().map(|(member, score)| (score, member.to_vec())).collect();
            assert_eq!(stored, model);
            let (rank, (score, member)) = match model.len() {
                0 => continue,
                len => {
                    model.iter().enumerate().nth(random.below(len as u64) as usize).expect("a rank there is")
                }
            };
            assert_eq!(set.rank(member), Some((rank, *score)));
        }
    }
}
