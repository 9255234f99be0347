//! The simplest ordered set: a sorted vector beside a map. The reference for the implementations.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use structures::ordered_set::{Full, Insertion, LexBound, OrderedSet, RankRange, ScoreBound};

/// The model.
#[derive(Default)]
pub struct SortedModel {
    order: Vec<(f64, Vec<u8>)>,
    scores: BTreeMap<Vec<u8>, f64>,
}

impl SortedModel {
    fn position(&self, score: f64, member: &[u8]) -> Result<usize, usize> {
        self.order.binary_search_by(|(own_score, own_member)| {
            own_score.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| own_member[..].cmp(member))
        })
    }
}

impl OrderedSet for SortedModel {
    type Ascending<'a> = Box<dyn Iterator<Item = (&'a [u8], f64)> + 'a>;
    type Descending<'a> = Box<dyn Iterator<Item = (&'a [u8], f64)> + 'a>;

    fn len(&self) -> usize {
        self.order.len()
    }

    fn insert(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full> {
        let score = if score == 0.0 { 0.0 } else { score };
        let previous = self.scores.insert(member.to_vec(), score);
        if previous == Some(score) {
            return Ok(Insertion::Unchanged);
        }
        if let Some(previous) = previous {
            let at = self.position(previous, member).expect("both halves of the model agree");
            self.order.remove(at);
        }
        let at = self.position(score, member).expect_err("it was taken out");
        self.order.insert(at, (score, member.to_vec()));
        Ok(previous.map_or(Insertion::Added, |previous| Insertion::Updated { previous }))
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        let at = self.position(score, member).expect("both halves of the model agree");
        self.order.remove(at);
        Some(score)
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.position(score, member).expect("both halves of the model agree"), score))
    }

    fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.order.get(rank).map(|(score, member)| (&member[..], *score))
    }

    fn ascending(&self, ranks: RankRange) -> Self::Ascending<'_> {
        let end = ranks.end.min(self.len());
        let wanted = self.order.get(ranks.start..end).unwrap_or_default();
        Box::new(wanted.iter().map(|(score, member)| (&member[..], *score)))
    }

    fn descending(&self, ranks: RankRange) -> Self::Descending<'_> {
        let end = ranks.end.min(self.len());
        let wanted = self.order.get(ranks.start..end).unwrap_or_default();
        Box::new(wanted.iter().rev().map(|(score, member)| (&member[..], *score)))
    }

    fn score_range(&self, min: ScoreBound, max: ScoreBound) -> RankRange {
        let start = match min {
            ScoreBound::Inclusive(bound) => self.order.partition_point(|(score, _)| *score < bound),
            ScoreBound::Exclusive(bound) => self.order.partition_point(|(score, _)| *score <= bound),
        };
        let end = match max {
            ScoreBound::Inclusive(bound) => self.order.partition_point(|(score, _)| *score <= bound),
            ScoreBound::Exclusive(bound) => self.order.partition_point(|(score, _)| *score < bound),
        };
        start..end
    }

    fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> RankRange {
        let below = |bound: &[u8]| self.order.partition_point(|(_, member)| &member[..] < bound);
        let up_to = |bound: &[u8]| self.order.partition_point(|(_, member)| &member[..] <= bound);
        let start = match min {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(bound) => below(bound),
            LexBound::Exclusive(bound) => up_to(bound),
        };
        let end = match max {
            LexBound::Min => 0,
            LexBound::Max => self.len(),
            LexBound::Inclusive(bound) => up_to(bound),
            LexBound::Exclusive(bound) => below(bound),
        };
        start..end
    }

    fn remove_range(&mut self, range: RankRange, removed: &mut dyn FnMut(&[u8], f64)) -> usize {
        let end = range.end.min(self.len());
        if range.start >= end {
            return 0;
        }
        for (score, member) in self.order.drain(range.start..end) {
            self.scores.remove(&member);
            removed(&member, score);
        }
        end - range.start
    }

    fn scan<'a>(&'a self, cursor: u64, _wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        // All in one call: a cursor other than 0 is never returned.
        assert_eq!(cursor, 0);
        self.order.iter().for_each(|(score, member)| visit(member, *score));
        0
    }

    fn memory_bytes(&self) -> usize {
        self.order.iter().map(|(_, member)| 2 * member.len() + 64).sum()
    }

    fn check(&self) {
        assert_eq!(self.order.len(), self.scores.len());
        assert!(self.order.windows(2).all(|pair| pair[0].partial_cmp(&pair[1]) == Some(Ordering::Less)));
    }
}
