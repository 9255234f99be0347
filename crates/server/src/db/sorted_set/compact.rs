//! A small sorted set as a compact list: member, score, member, score... in ascending order, as RDB files have it.

use crate::db::layout::Layout;
use crate::db::object::StringValue;
use std::cmp::Ordering;
use std::ops::Range;
use structures::listpack::{Element, Listpack, Position};
use structures::ordered_set::{Insertion, LexBound, ScoreBound};

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
    /// Takes a list that is as this type keeps it: in order, each score a number.
    pub fn of_listpack(list: Listpack) -> Self {
        Compact { list }
    }

    /// The list as files have it.
    pub fn as_bytes(&self) -> &[u8] {
        self.list.as_bytes()
    }

    pub(in crate::db) fn check(&self) {
        crate::db::check::check_unique(&self.list, 2);
        let pairs: Vec<(f64, Vec<u8>)> =
            self.pairs().map(|(_, member, score)| (score, member.to_vec())).collect();
        assert!(pairs.iter().all(|(score, _)| !score.is_nan()), "every score is a number");
        assert!(pairs.is_sorted(), "pairs stand in order");
    }

    pub fn len(&self) -> usize {
        self.list.len() / 2
    }

    pub fn memory_bytes(&self) -> usize {
        self.list.memory_bytes()
    }

    /// Asks for the first line.
    pub fn prefetch(&self) {
        self.list.prefetch();
    }

    pub fn layout(&self) -> Layout {
        Layout::of_listpack(&self.list)
    }

    /// Whether the list's format can take another pair.
    pub fn has_room_for(&self, member: &[u8]) -> bool {
        self.list.fits(member.len() + 64, 2)
    }

    /// All pairs with the position of their members.
    fn pairs(&self) -> impl Iterator<Item = (Position, StringValue<'_>, f64)> {
        let mut at = self.list.first();
        std::iter::from_fn(move || {
            let member = at?;
            let score = self.list.next(member).expect("a member is followed by its score");
            at = self.list.next(score);
            Some((member, self.list.get(member).into(), number(self.list.get(score))))
        })
    }

    fn find(&self, member: &[u8]) -> Option<(Position, f64)> {
        let at = self.list.find(self.list.first()?, member, 1)?;
        let score = self.list.next(at).expect("a member is followed by its score");
        Some((at, number(self.list.get(score))))
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(|(_, score)| score)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        self.pairs()
            .enumerate()
            .find(|(_, (_, text, _))| text.equals(member))
            .map(|(rank, (_, _, score))| (rank, score))
    }

    /// `there` is the member's present score.
    pub fn insert(&mut self, member: &[u8], score: f64, there: Option<f64>) -> Insertion {
        let score = score + 0.0; // -0.0 becomes 0.0
        let result = match there {
            Some(previous) if previous == score => return Insertion::Unchanged,
            Some(previous) => {
                self.remove(member);
                Insertion::Updated { previous }
            }
            None => Insertion::Added,
        };
        let behind = self.pairs().find(|(_, text, other)| {
            other.total_cmp(&score).then_with(|| text.with_bytes(|bytes| bytes.cmp(member)))
                == Ordering::Greater
        });
        match behind.map(|(at, ..)| at) {
            Some(at) => {
                let at = self.list.insert_before(at, member);
                self.list.insert_after(at, &score_text(score));
            }
            None => {
                self.list.push_back(member);
                self.list.push_back(&score_text(score));
            }
        }
        result
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (at, score) = self.find(member)?;
        self.list.remove_from(at, 2);
        Some(score)
    }

    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let below_min = |score: f64| match min {
            ScoreBound::Inclusive(bound) => score < bound,
            ScoreBound::Exclusive(bound) => score <= bound,
        };
        let above_max = |score: f64| match max {
            ScoreBound::Inclusive(bound) => score > bound,
            ScoreBound::Exclusive(bound) => score >= bound,
        };
        let start = self.pairs().take_while(|&(_, _, score)| below_min(score)).count();
        let end = self.pairs().take_while(|&(_, _, score)| !above_max(score)).count();
        start..end
    }

    pub fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let below_min = |member: &[u8]| match min {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(bound) => member < bound,
            LexBound::Exclusive(bound) => member <= bound,
        };
        let within_max = |member: &[u8]| match max {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(bound) => member <= bound,
            LexBound::Exclusive(bound) => member < bound,
        };
        let start = self.pairs().take_while(|(_, text, _)| text.with_bytes(below_min)).count();
        let end = self.pairs().take_while(|(_, text, _)| text.with_bytes(within_max)).count();
        start..end
    }

    pub fn for_range(
        &self,
        range: Range<usize>,
        reverse: bool,
        visit: &mut dyn FnMut(StringValue<'_>, f64) -> bool,
    ) {
        let count = range.end.min(self.len()).saturating_sub(range.start);
        if !reverse {
            self.pairs().skip(range.start).take(count).all(|(_, text, score)| visit(text, score));
            return;
        }
        let mut at = self.list.at(2 * range.end as i64 - 1);
        for _ in 0..count {
            let Some(score) = at else { return };
            let member = self.list.previous(score).expect("a score follows its member");
            if !visit(self.list.get(member).into(), number(self.list.get(score))) {
                return;
            }
            at = self.list.previous(member);
        }
    }

    pub fn remove_range(
        &mut self,
        range: Range<usize>,
        removed: &mut dyn FnMut(StringValue<'_>, f64),
    ) -> usize {
        let count = range.end.min(self.len()).saturating_sub(range.start);
        self.for_range(range.clone(), false, &mut |member, score| {
            removed(member, score);
            true
        });
        self.list.remove_range(2 * range.start as i64, 2 * count);
        count
    }
}

/// The text that a compact list keeps; integers become the list's own.
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
}
