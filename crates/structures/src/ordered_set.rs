//! Ordered sets: members with a 64-bit float score, ordered by score and then by the member's bytes.
//!
//! One interface, two engines: [`fbtree`], the feature B+ tree, and [`skip_list`], the design it replaces and
//! the second engine of every differential test.

pub mod fbtree;
pub mod skip_list;

/// What [`OrderedSet::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Insertion {
    Added,
    /// The member was there with another score.
    Updated {
        previous: f64,
    },
    /// The member was there with this score.
    Unchanged,
}

/// The set holds its maximum of 2^32-1 members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// One end of a range of scores. An infinite score is an ordinary bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    Inclusive(f64),
    Exclusive(f64),
}

/// One end of a range of members, for sets whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Below every member (`-`).
    Min,
    /// Above every member (`+`).
    Max,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

/// A range of ranks, `start..end`, end excluded; empty when `start >= end`.
pub type RankRange = std::ops::Range<usize>;

/// The ranks of all members, however many there are.
pub const ALL_RANKS: RankRange = 0..usize::MAX;

/// An end of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Lowest,
    Highest,
}

/// A lookup of one member's score taken in steps, each of which only asks for the next cache line, so that many
/// lookups can fetch together. It changes nothing and may be dropped at any step; any change to the set ends it.
#[derive(Clone, Copy, Debug)]
pub struct ScoreProbe {
    hash: u64,
    leaf: u32,
    /// Where in the leaf the member may be, as far as it is known.
    slots: [u16; ScoreProbe::SLOTS_MAX],
    stage: u8,
}

impl ScoreProbe {
    const FINISHED: u8 = u8::MAX;
    /// So many members of a leaf that share the sought one's tag are fetched; one lookup in thirty meets more.
    const SLOTS_MAX: usize = 2;
    const NO_SLOT: u16 = u16::MAX;

    /// A lookup without steps.
    fn finished() -> Self {
        ScoreProbe { hash: 0, leaf: 0, slots: [Self::NO_SLOT; Self::SLOTS_MAX], stage: Self::FINISHED }
    }

    /// Ends the steps; false, as [`OrderedSet::probe_step`] then answers.
    fn finish(&mut self) -> bool {
        self.stage = Self::FINISHED;
        false
    }
}

/// What both engines do. Ranks count from 0 at the lowest score; -0.0 is stored as 0.0; NaN scores are the
/// caller's to refuse (asserted). Every range, by score or lex, is first turned into ranks, which costs one
/// descent an end and no walk; iteration and removal then take ranks.
pub trait OrderedSet {
    /// A walk over `(member, score)` in ascending order.
    type Ascending<'a>: Iterator<Item = (&'a [u8], f64)>
    where
        Self: 'a;
    /// A walk over `(member, score)` in descending order.
    type Descending<'a>: Iterator<Item = (&'a [u8], f64)>
    where
        Self: 'a;

    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds the member or moves it to `score`; in place where the order does not change.
    fn insert(&mut self, member: &[u8], score: f64) -> Result<Insertion, Full>;
    /// Adds the member with, or moves it to, the score that `wanted` makes of the one it has, if it wants any: one search.
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
    fn score(&self, member: &[u8]) -> Option<f64>;
    /// The member's rank and score.
    fn rank(&self, member: &[u8]) -> Option<(usize, f64)>;
    /// The member at `rank`, if `rank < len`.
    fn at(&self, rank: usize) -> Option<(&[u8], f64)>;
    /// Visits the score of each member, in turn.
    fn scores(&self, members: &[&[u8]], visit: &mut dyn FnMut(Option<f64>)) {
        members.iter().for_each(|member| visit(self.score(member)));
    }
    /// Visits the member at each of these ranks, all of them below `len`, in turn until `visit` says stop (`false`).
    fn at_each<'a>(&'a self, ranks: &[usize], visit: &mut dyn FnMut(&'a [u8], f64) -> bool) {
        ranks.iter().filter_map(|&rank| self.at(rank)).all(|(member, score)| visit(member, score));
    }
    /// The members of these ranks, as far as there are, upwards. Who says what it wants pays for no more.
    fn ascending(&self, ranks: RankRange) -> Self::Ascending<'_>;
    /// The same, downwards.
    fn descending(&self, ranks: RankRange) -> Self::Descending<'_>;
    /// The ranks whose scores lie within both bounds.
    fn score_range(&self, min: ScoreBound, max: ScoreBound) -> RankRange;
    /// The ranks whose members lie within both bounds; meaningful when all scores are equal.
    fn lex_range(&self, min: LexBound<'_>, max: LexBound<'_>) -> RankRange;
    /// Removes the ranks in `range`, handing each `(member, score)` to `removed` in ascending order;
    /// returns how many.
    fn remove_range(&mut self, range: RankRange, removed: &mut dyn FnMut(&[u8], f64)) -> usize;
    /// As [`OrderedSet::remove_range`], telling nobody.
    fn drop_range(&mut self, range: RankRange) -> usize {
        self.remove_range(range, &mut |_, _| ())
    }
    /// Visits some members and returns the next cursor, 0 when done; start with 0. A member present from the
    /// first call to the last is visited at least once, whatever is inserted and removed between the calls. A call
    /// visits about `wanted` members. Cursors stay below 2^53; any number is accepted.
    fn scan<'a>(&'a self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64;
    /// Adds members that arrive in ascending order, which is the fastest order and fills pages best. Members out
    /// of order or repeated are stored as correctly as by `insert`.
    fn load_sorted<'m>(&mut self, members: impl Iterator<Item = (&'m [u8], f64)>) -> Result<(), Full>
    where
        Self: Sized,
    {
        for (member, score) in members {
            self.insert(member, score)?;
        }
        Ok(())
    }
    /// Begins a lookup in steps, asking for its first cache line.
    fn probe(&self, member: &[u8]) -> ScoreProbe {
        let _ = member;
        ScoreProbe::finished()
    }
    /// Begins a walk from the lowest member, or from the highest, in steps as those of a lookup.
    fn probe_end(&self, end: End) -> ScoreProbe {
        let _ = end;
        ScoreProbe::finished()
    }
    /// Asks for the next lines of a lookup begun by [`OrderedSet::probe`], or of a walk by [`OrderedSet::probe_end`], on the
    /// unchanged set; whether more steps remain.
    fn probe_step(&self, probe: &mut ScoreProbe) -> bool {
        let _ = probe;
        false
    }
    /// Everything allocated for the set, this value's own size left out.
    fn memory_bytes(&self) -> usize;
    /// Verifies every documented invariant; panics naming the one that fails. For tests.
    fn check(&self);
}
