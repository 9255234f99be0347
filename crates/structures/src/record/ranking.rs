//! Small sorted sets as a column of scores and a sequence of values, short enough to be stored in their keys' entries.
//!
//! ```text
//!  | 0xC0 + members | form u8 | base | column of scores | member | member | ...        0 to 63 members, in their order
//!
//!  form  bytes of the base << 3 | bytes of an offset       scores are integers: offsets from the base
//!        255                                               any scores, of 8 bytes each; there is no base
//! ```
//! Members are the forms of `record/value.rs`. The order is that of the scores, and of the members' texts where scores are
//! equal. All entries of the column have one length, so that a rank's score, and the scores at both ends, are found without
//! the members. Offsets are differences from a common base, as a chain of differences would change at two places with
//! every insertion.
//!
//! Invariants:
//! 1. The bytes are a head and exactly the scores and members that it announces.
//! 2. Members are distinct and in order; no score is NaN or -0.
//! 3. An empty set is `[0xC0, 0]`.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#records).

use super::room::{ROOM_BYTES, Room};
use super::value::{Encoded, Needle, TextBuffer, Value, end, first_word, integer_at, integer_bytes};
use crate::ordered_set::{Insertion, ScoreBound};
use std::cmp::Ordering;
use std::ops::Range;

/// The first byte of a sorted set's record is this one plus at most [`MEMBERS_MAX`].
pub const FIRST_BYTE: u8 = 0xC0;
/// Most members.
pub const MEMBERS_MAX: usize = 63;
/// The form of a column of any scores.
const FLOATS: u8 = 255;
const FLOAT_BYTES: usize = 8;
/// Bytes of the head before the base.
const HEAD_BYTES: usize = 2;
const BASE_BYTES_MAX: usize = 7;
/// Most bytes that a form adds to its text.
const VALUE_HEAD_BYTES_MAX: usize = 5;
/// Integers up to this one are exact in 64-bit floating point; they and their differences have at most 7 bytes.
const INTEGRAL_MAX: f64 = 9_007_199_254_740_992.0;
const EMPTY: [u8; HEAD_BYTES] = [FIRST_BYTE, 0];

/// A sorted set of few members, outside of its key's entry.
#[derive(Clone, Debug)]
pub struct Ranking {
    room: Room,
}

/// A sorted set of few members, for reading.
#[derive(Clone, Copy, Debug)]
pub struct RankingView<'a> {
    len: usize,
    /// Bytes of a score; [`FLOAT_BYTES`] if they are not offsets.
    width: usize,
    base: i64,
    /// Bytes before the column.
    column_at: usize,
    /// The column and all behind it.
    column: &'a [u8],
    members: &'a [u8],
}

/// Bytes of a sorted set as a record, found without making it.
#[derive(Clone, Copy, Debug)]
pub struct RankingBytes {
    len: usize,
    members: usize,
    /// The lowest and the highest score, as long as all are integers.
    ends: Option<(i64, i64)>,
}

impl Default for RankingBytes {
    fn default() -> Self {
        RankingBytes { len: 0, members: 0, ends: Some((i64::MAX, i64::MIN)) }
    }
}

impl RankingBytes {
    /// Counts a member.
    pub fn add(&mut self, member: &[u8], score: f64) {
        self.len += 1;
        self.members += Encoded::of(member).len();
        let (ends, score) = (self.ends, as_integer(score));
        let widen =
            |(lowest, highest): (i64, i64)| score.map(|score| (lowest.min(score), highest.max(score)));
        self.ends = ends.and_then(widen);
    }

    /// Bytes of the record.
    pub fn total(&self) -> usize {
        let (base_bytes, width) = match self.ends {
            Some((lowest, highest)) if self.len > 0 => column_form(lowest, highest),
            _ => (0, FLOAT_BYTES),
        };
        HEAD_BYTES + base_bytes + self.len * width + self.members
    }
}

/// Bytes of the base and of an offset in a column of integers with these ends.
fn column_form(lowest: i64, highest: i64) -> (usize, usize) {
    let base_bytes = if lowest == 0 { 0 } else { integer_bytes(lowest) };
    (base_bytes, offset_bytes(lowest.abs_diff(highest)))
}

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Its rank, from 0 at the lowest score.
    pub rank: usize,
    /// Its score.
    pub score: f64,
    /// Index of its form among the members.
    at: usize,
}

/// The integer that is exactly this score, if columns of offsets may have it.
#[expect(clippy::cast_possible_truncation, reason = "what is no integer is found by converting it back")]
#[inline]
fn as_integer(score: f64) -> Option<i64> {
    let integer = score as i64;
    (score.abs() <= INTEGRAL_MAX && integer as f64 == score).then_some(integer)
}

/// Bytes of an unsigned integer.
#[inline]
fn offset_bytes(offset: u64) -> usize {
    (u64::BITS - offset.leading_zeros()).div_ceil(8) as usize
}

impl<'a> RankingView<'a> {
    /// The set with these [embedded bytes](Ranking::embedded).
    #[inline]
    pub fn of_embedded(bytes: &'a [u8]) -> Self {
        let (len, form) = (RankingView::len_of_embedded(bytes), bytes[1]);
        let (base_bytes, width) = match form {
            FLOATS => (0, FLOAT_BYTES),
            _ => (usize::from(form >> 3), usize::from(form & 7)),
        };
        let column_at = HEAD_BYTES + base_bytes;
        let column = &bytes[column_at..];
        let base = if base_bytes == 0 { 0 } else { integer_at(bytes, HEAD_BYTES, base_bytes) };
        RankingView { len, width, base, column_at, column, members: &column[len * width..] }
    }

    /// Number of members of the set with these [embedded bytes](Ranking::embedded).
    #[inline]
    pub fn len_of_embedded(bytes: &[u8]) -> usize {
        (bytes[0] - FIRST_BYTE).into()
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of scores and members.
    pub fn used_bytes(&self) -> usize {
        self.column.len()
    }

    /// Where the set's bytes are.
    pub fn address(&self) -> *const u8 {
        self.column.as_ptr()
    }

    /// The score at a rank, which must be below the number of members.
    #[inline]
    pub fn score_at(&self, rank: usize) -> f64 {
        let word = self.word_at(rank * self.width);
        match self.width {
            FLOAT_BYTES => f64::from_bits(word),
            width => self.base.wrapping_add_unsigned(word & !(u64::MAX << (8 * width))) as f64,
        }
    }

    /// Eight bytes of the column and of what follows it; zeros behind the end.
    #[inline]
    fn word_at(&self, at: usize) -> u64 {
        let rest = &self.column[at..];
        rest.first_chunk().map_or_else(|| first_word(rest), |word| u64::from_le_bytes(*word))
    }

    /// The place of a member.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Place> {
        if member.len() > ROOM_BYTES { None } else { self.place(&Needle::of(member)) }
    }

    #[inline]
    fn place(&self, member: &Needle<'_>) -> Option<Place> {
        let (mut at, mut rank) = (0, 0);
        while at < self.members.len() {
            if member.is_at(self.members, at) {
                return Some(Place { rank, score: self.score_at(rank), at });
            }
            at = end(self.members, at);
            rank += 1;
        }
        None
    }

    /// Index of the form of the member with this rank, or behind the last.
    #[inline]
    fn form_at(&self, rank: usize) -> usize {
        if rank == self.len {
            return self.members.len();
        }
        let mut at = 0;
        for _ in 0..rank {
            at = end(self.members, at);
        }
        at
    }

    /// The members from a rank on, which may be their number, with their scores.
    #[inline]
    pub fn iter_from(&self, rank: usize) -> Iter<'a> {
        Iter { set: *self, rank, at: self.form_at(rank) }
    }

    /// Visits the ranks in `range`, which must be below the number of members, upwards, until `visit` returns `false`.
    #[inline]
    pub fn ascending(&self, range: Range<usize>, mut visit: impl FnMut(Value<'a>, f64) -> bool) {
        let mut at = self.form_at(range.start);
        for rank in range {
            let (member, behind) = Value::at(self.members, at);
            if !visit(member, self.score_at(rank)) {
                return;
            }
            at = behind;
        }
    }

    /// Visits the ranks in `range`, which must be below the number of members, downwards, until `visit` returns `false`.
    pub fn descending(&self, range: Range<usize>, mut visit: impl FnMut(Value<'a>, f64) -> bool) {
        let mut at = self.form_at(range.start);
        if range.len() == 1 {
            visit(Value::at(self.members, at).0, self.score_at(range.start));
            return;
        }
        let mut starts = [0u16; MEMBERS_MAX];
        for start in &mut starts[range.clone()] {
            *start = at as u16;
            at = end(self.members, at);
        }
        for rank in range.rev() {
            let (member, _) = Value::at(self.members, starts[rank].into());
            if !visit(member, self.score_at(rank)) {
                return;
            }
        }
    }

    /// Number of members with scores below a bound: those that it excludes as the lower bound of a range.
    #[inline]
    pub fn below(&self, min: ScoreBound) -> usize {
        self.partition(|score| match min {
            ScoreBound::Inclusive(bound) => score < bound,
            ScoreBound::Exclusive(bound) => score <= bound,
        })
    }

    /// Number of members with scores that are not above a bound: those that it includes as the upper bound of a range.
    #[inline]
    pub fn up_to(&self, max: ScoreBound) -> usize {
        self.partition(|score| match max {
            ScoreBound::Inclusive(bound) => score <= bound,
            ScoreBound::Exclusive(bound) => score < bound,
        })
    }

    /// Number of scores for which `is_before` holds; they precede the others.
    #[inline]
    fn partition(&self, is_before: impl Fn(f64) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = (from + to) / 2;
            match is_before(self.score_at(middle)) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }

    /// The rank at which a member with this score, which is not in the set, would be inserted, and its form's index.
    fn place_of_new(&self, member: &[u8], score: f64) -> (usize, usize) {
        let mut rank = self.partition(|other| other < score);
        let mut at = self.form_at(rank);
        while rank < self.len && self.score_at(rank) == score {
            let (other, behind) = Value::at(self.members, at);
            if other.text(&mut TextBuffer::default()).cmp(member) == Ordering::Greater {
                break;
            }
            (rank, at) = (rank + 1, behind);
        }
        (rank, at)
    }

    /// Whether the column can have this score as it is.
    #[inline]
    fn has_room_for(&self, score: f64) -> bool {
        self.width == FLOAT_BYTES
            || self.offset(score).is_some_and(|offset| offset_bytes(offset) <= self.width)
    }

    #[inline]
    fn offset(&self, score: f64) -> Option<u64> {
        as_integer(score).and_then(|score| u64::try_from(score - self.base).ok())
    }

    /// The word whose lowest bytes are the score's in the column.
    #[inline]
    fn word_of(&self, score: f64) -> u64 {
        if self.width == FLOAT_BYTES { score.to_bits() } else { self.offset(score).unwrap_or_default() }
    }
}

/// Iterates over members and their scores.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    set: RankingView<'a>,
    rank: usize,
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Value<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<(Value<'a>, f64)> {
        if self.rank >= self.set.len {
            return None;
        }
        let (member, behind) = Value::at(self.set.members, self.at);
        let score = self.set.score_at(self.rank);
        (self.rank, self.at) = (self.rank + 1, behind);
        Some((member, score))
    }
}

impl Default for Ranking {
    fn default() -> Self {
        Ranking { room: Room::of(&EMPTY) }
    }
}

impl Ranking {
    /// The set with these [embedded bytes](Ranking::embedded).
    pub fn of_embedded(bytes: &[u8]) -> Self {
        Ranking { room: Room::of(bytes) }
    }

    /// Replaces the set by the one with these [embedded bytes](Ranking::embedded).
    #[inline]
    pub fn assign_embedded(&mut self, bytes: &[u8]) {
        self.room.assign(bytes);
    }

    /// The bytes that represent the set in an entry, if they are few enough.
    #[inline]
    pub fn embedded(&self) -> Option<&[u8]> {
        self.room.embedded()
    }

    /// The set, for reading.
    #[inline]
    pub fn view(&self) -> RankingView<'_> {
        RankingView::of_embedded(self.room.as_slice())
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.room.memory_bytes()
    }

    /// Whether there is room for another member of this length with any score.
    #[inline]
    pub fn fits(&self, member_bytes: usize) -> bool {
        let view = self.view();
        let head_and_scores = HEAD_BYTES + BASE_BYTES_MAX + (view.len + 1) * FLOAT_BYTES;
        let bytes = head_and_scores + view.members.len() + VALUE_HEAD_BYTES_MAX;
        view.len < MEMBERS_MAX && bytes.saturating_add(member_bytes) <= ROOM_BYTES
    }

    /// Whether there is room for any other score of a member.
    pub fn fits_score(&self) -> bool {
        let view = self.view();
        HEAD_BYTES + BASE_BYTES_MAX + view.len * FLOAT_BYTES + view.members.len() <= ROOM_BYTES
    }

    /// Inserts a member, or moves it to `score`, which is not NaN; `there` is its place. A new member must
    /// [fit](Ranking::fits), a new score of one that is there must [fit too](Ranking::fits_score).
    pub fn insert(&mut self, member: &[u8], score: f64, there: Option<Place>) -> Insertion {
        let score = score + 0.0; // -0.0 becomes 0.0
        let result = match there {
            Some(place) if place.score == score => return Insertion::Unchanged,
            Some(place) => Insertion::Updated { previous: place.score },
            None => Insertion::Added,
        };
        if !self.view().has_room_for(score) {
            self.make_room_for(score);
        }
        match there {
            Some(place) if self.stays(place, member, score) => self.put_score(place.rank, score),
            Some(place) => {
                self.cut(place.rank..place.rank + 1);
                self.insert_new(member, score);
            }
            None => self.insert_new(member, score),
        }
        result
    }

    /// Whether the member at this place is at its place with another score too.
    fn stays(&self, place: Place, member: &[u8], score: f64) -> bool {
        let view = self.view();
        let is_between = |other: f64, order: Ordering| other.total_cmp(&score) == order;
        let follows = place.rank == 0 || is_between(view.score_at(place.rank - 1), Ordering::Less);
        let precedes =
            place.rank + 1 == view.len || is_between(view.score_at(place.rank + 1), Ordering::Greater);
        debug_assert!(view.find(member) == Some(Place { score: view.score_at(place.rank), ..place }));
        follows && precedes
    }

    fn put_score(&mut self, rank: usize, score: f64) {
        let view = self.view();
        let (word, width) = (view.word_of(score).to_le_bytes(), view.width);
        let at = view.column_at + rank * width;
        self.room.as_mut_slice()[at..at + width].copy_from_slice(&word[..width]);
    }

    /// Adds a member behind all others, which precede it; it must [fit](Ranking::fits).
    pub fn push(&mut self, member: &[u8], score: f64) {
        let score = score + 0.0; // -0.0 becomes 0.0
        if !self.view().has_room_for(score) {
            self.make_room_for(score);
        }
        let view = self.view();
        let end = (view.len, view.members.len());
        self.insert_at(end, member, score);
    }

    fn insert_new(&mut self, member: &[u8], score: f64) {
        let place = self.view().place_of_new(member, score);
        self.insert_at(place, member, score);
    }

    fn insert_at(&mut self, (rank, at): (usize, usize), member: &[u8], score: f64) {
        let (form, view) = (Encoded::of(member), self.view());
        let (word, width) = (view.word_of(score).to_le_bytes(), view.width);
        let column = view.column_at + rank * width;
        let members_at = view.column_at + view.len * width;
        let start = members_at + at;
        self.room.replace(start..start, form.len() + width);
        let bytes = self.room.as_mut_slice();
        bytes.copy_within(column..start, column + width);
        bytes[column..column + width].copy_from_slice(&word[..width]);
        form.write_to(&mut bytes[start + width..]);
        bytes[0] += 1;
    }

    /// Writes the column in the form that has this score too.
    #[cold]
    fn make_room_for(&mut self, score: f64) {
        let mut scores = [0.0; MEMBERS_MAX + 1];
        let view = self.view();
        let scores = &mut scores[..=view.len];
        (0..view.len).for_each(|rank| scores[rank] = view.score_at(rank));
        scores[view.len] = score;
        let (len, column_end) = (view.len, view.column_at + view.len * view.width);
        let ends = scores.iter().try_fold((i64::MAX, i64::MIN), |(lowest, highest), score| {
            let score = as_integer(*score)?;
            Some((lowest.min(score), highest.max(score)))
        });
        let (form, base, base_bytes, width) = match ends {
            None => (FLOATS, 0, 0, FLOAT_BYTES),
            Some((lowest, highest)) => {
                let (base_bytes, width) = column_form(lowest, highest);
                ((base_bytes << 3 | width) as u8, lowest, base_bytes, width)
            }
        };
        let head = self.room.replace(1..column_end, 1 + base_bytes + len * width);
        head[0] = form;
        head[1..1 + base_bytes].copy_from_slice(&base.to_le_bytes()[..base_bytes]);
        for (rank, score) in scores[..len].iter().enumerate() {
            self.put_score(rank, *score);
        }
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = self.view().find(member)?;
        self.cut_at(place.rank..place.rank + 1, place.at);
        Some(place.score)
    }

    /// Removes the ranks in `range`, which must be below the number of members.
    pub fn cut(&mut self, range: Range<usize>) {
        let at = self.view().form_at(range.start);
        self.cut_at(range, at);
    }

    /// As [`Ranking::cut`]; `at` is the index of the first removed member's form.
    fn cut_at(&mut self, range: Range<usize>, at: usize) {
        let view = self.view();
        if range.len() == view.len {
            return self.room.assign(&EMPTY);
        }
        let behind = range.clone().fold(at, |at, _| end(view.members, at));
        let column = view.column_at + range.start * view.width;
        let removed = range.len() * view.width;
        let members_at = view.column_at + view.len * view.width;
        let bytes = self.room.as_mut_slice();
        bytes.copy_within(column + removed..members_at + at, column);
        bytes[0] -= range.len() as u8;
        self.room.replace(members_at + at - removed..members_at + behind, 0);
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        let view = self.view();
        let mut pairs: Vec<(f64, Vec<u8>)> = Vec::new();
        let mut members = view.iter_from(0);
        for (member, score) in members.by_ref() {
            let text = member.text(&mut TextBuffer::default()).to_vec();
            let place = view.find(&text).expect("a member is in its form");
            assert_eq!((place.rank, place.score), (pairs.len(), score), "a member occurs twice");
            assert!(!score.is_nan() && score.to_bits() != (-0.0f64).to_bits());
            pairs.push((score, text));
        }
        assert_eq!(members.at, view.members.len(), "bytes behind the last member");
        assert!(pairs.is_sorted() && pairs.len() == view.len);
        assert!(view.len > 0 || self.room.as_slice() == EMPTY, "an empty set has one form");
    }
}

#[cfg(test)]
mod tests;
