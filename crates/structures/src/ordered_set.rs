//! Ordered sets: members with a 64-bit float score, ordered by score and then by the member's bytes.
//!
//! One interface, two implementations: [`fbtree`], the feature B+ tree, and [`skip_list`], the textbook design that it
//! replaces and the reference of every differential test.

pub mod fbtree;
pub mod skip_list;

/// The effect of [`OrderedSet::insert`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Insertion {
    /// The member was not in the set.
    Added,
    /// The member was in the set with another score.
    Updated {
        /// Its former score.
        previous: f64,
    },
    /// The member was in the set with this score.
    Unchanged,
}

/// The set holds its maximum of 2^32-1 members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// One end of a range of scores. An infinite score is an ordinary bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// Members with this score are in the range.
    Inclusive(f64),
    /// Members with this score are not in the range.
    Exclusive(f64),
}

/// One end of a range of members, for sets whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Below every member (`-`).
    Min,
    /// Above every member (`+`).
    Max,
    /// The range contains this member, if the set does.
    Inclusive(&'a [u8]),
    /// The range does not contain this member.
    Exclusive(&'a [u8]),
}

/// A range of ranks, `start..end`, end excluded; empty when `start >= end`.
pub type RankRange = std::ops::Range<usize>;

/// The ranks of all members, in a set of any size.
pub const ALL_RANKS: RankRange = 0..usize::MAX;

/// An end of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The member with the lowest score, and the least bytes among those with this score.
    Lowest,
    /// The member with the highest score, and the greatest bytes among those with this score.
    Highest,
}

/// A stepwise lookup of one member's score: each step only prefetches the next cache line, so that the fetches of many
/// lookups overlap. It changes nothing and may be dropped at any step; any change to the set ends it.
#[derive(Clone, Copy, Debug)]
pub struct ScoreProbe {
    hash: u64,
    leaf: u32,
    /// The slots of the leaf where the member may be, once known.
    slots: [u16; ScoreProbe::SLOTS_MAX],
    stage: u8,
}

impl ScoreProbe {
    const FINISHED: u8 = u8::MAX;
    /// Number of members with the sought one's tag that are fetched of a leaf; one lookup in thirty meets more.
    const SLOTS_MAX: usize = 2;
    const NO_SLOT: u16 = u16::MAX;

    /// A lookup without steps.
    fn finished() -> Self {
        ScoreProbe { hash: 0, leaf: 0, slots: [Self::NO_SLOT; Self::SLOTS_MAX], stage: Self::FINISHED }
    }

    /// Ends the steps; returns false, the result of [`OrderedSet::probe_step`] at the end.
    fn finish(&mut self) -> bool {
        self.stage = Self::FINISHED;
        false
    }
}

/// The operations of both implementations. Ranks count from 0 at the lowest score; -0.0 is stored as 0.0; the caller must
/// reject NaN scores (asserted). Every range, by score or lex, is first converted into ranks, which costs one descent per
/// end and no iteration; iteration and removal then take ranks.
pub trait OrderedSet {
    /// An iterator over `(member, score)` in ascending order.
    type Ascending<'a>: Iterator<Item = (&'a [u8], f64)>
    where
        Self: 'a;
    /// An iterator over `(member, score)` in descending order.
    type Descending<'a>: Iterator<Item = (&'a [u8], f64)>
    where
        Self: 'a;

    /// The number of members.
    fn len(&self) -> usize;
    /// Returns whether there are no members.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds the member or moves it to `score`; in place where the order does not change.
    fn insert(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full>;
    /// Adds the member with, or moves it to, the score that `wanted` returns for its present score, if it returns one: one
    /// search.
    fn insert_if(
        &mut self,
        member: &[u8],
        wanted: &mut dyn FnMut(Option<f64>) -> Option<f64>,
    ) -> Result<Option<Insertion>, Full> {
        let there = self.score(member);
        wanted(there).map(|score| self.insert(member, score)).transpose()
    }
    /// Removes the member and returns its score.
    fn remove(&mut self, member: &[u8]) -> Option<f64>;
    /// The member's score; `None` if it is not in the set.
    fn score(&self, member: &[u8]) -> Option<f64>;
    /// The member's rank and score.
    fn rank(&self, member: &[u8]) -> Option<(usize, f64)>;
    /// The member at `rank`, if `rank < len`.
    fn at(&self, rank: usize) -> Option<(&[u8], f64)>;
    /// The member at `rank`, if `rank < len`, for callers that do not need its score.
    fn member_at(&self, rank: usize) -> Option<&[u8]> {
        self.at(rank).map(|(member, _)| member)
    }
    /// Visits the score of each member, in turn.
    fn scores(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        members.iter().for_each(|member| visit(self.score(member)));
    }
    /// Visits the member at each of these ranks, all below `len`, in turn, until `visit` returns `false`.
    fn at_each<'a>(&'a self, ranks: &[usize], visit: &mut dyn FnMut(&'a [u8], f64) -> bool) {
        ranks.iter().filter_map(|&rank| self.at(rank)).all(|(member, score)| visit(member, score));
    }
    /// Iterates upwards over the members of these ranks, as far as they exist. A narrow range costs less to start.
    fn ascending(&self, ranks: RankRange) -> Self::Ascending<'_>;
    /// Iterates downwards over the members of these ranks.
    fn descending(&self, ranks: RankRange) -> Self::Descending<'_>;
    /// The ranks whose scores lie within both bounds.
    fn score_range(&self, min: ScoreBound, max: ScoreBound) -> RankRange;
    /// The first of the ranks whose scores lie within both bounds, for callers that need `wanted` of them, and possibly
    /// others behind them.
    fn score_range_start(&self, min: ScoreBound, max: ScoreBound, wanted: usize) -> RankRange {
        let _ = wanted;
        self.score_range(min, max)
    }
    /// The ranks whose members lie within both bounds; meaningful when all scores are equal.
    fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> RankRange;
    /// Removes the ranks in `range`, passing each `(member, score)` to `removed` in ascending order; returns their number.
    fn remove_range(&mut self, range: RankRange, removed: &mut dyn FnMut(&[u8], f64)) -> usize;
    /// As [`OrderedSet::remove_range`], without a callback.
    fn drop_range(&mut self, range: RankRange) -> usize {
        self.remove_range(range, &mut |_, _| ())
    }
    /// Visits some members and returns the next cursor, 0 when done; start with 0. A member present from the first call to
    /// the last is visited at least once, whatever is inserted and removed between the calls. A call visits about `wanted`
    /// members. Cursors stay below 2^53; any number is accepted.
    fn scan<'a>(&'a self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64;
    /// Adds members in ascending order, which is the fastest order and fills pages best. Members out of order or repeated
    /// are stored as correctly as by `insert`.
    fn load_sorted<'m>(&mut self, members: impl Iterator<Item = (&'m [u8], f64)>) -> Result<(), Full>
    where
        Self: Sized,
    {
        for (member, score) in members {
            self.insert(member, score)?;
        }
        Ok(())
    }
    /// Begins a stepwise lookup, prefetching its first cache line.
    fn probe(&self, member: &[u8]) -> ScoreProbe {
        let _ = member;
        ScoreProbe::finished()
    }
    /// Begins an iteration from the lowest member, or from the highest, in steps like those of a lookup.
    fn probe_end(&self, end: End) -> ScoreProbe {
        let _ = end;
        ScoreProbe::finished()
    }
    /// Prefetches the next lines of a lookup begun by [`OrderedSet::probe`], or of an iteration by
    /// [`OrderedSet::probe_end`], on the unchanged set; returns whether more steps remain.
    fn probe_step(&self, probe: &mut ScoreProbe) -> bool {
        let _ = probe;
        false
    }
    /// Bytes allocated for the set, without the size of this value.
    fn memory_bytes(&self) -> usize;
    /// Verifies every documented invariant; panics naming the one that fails. For tests.
    fn check(&self);
}
