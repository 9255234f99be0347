//! A large set that began with integers only: those stay where they are, all other members lie in packed pages. The first
//! member that is not an integer converts nothing, and integers keep their compact form.
//!
//! Invariants:
//! 1. Neither part is empty, except during a change.
//! 2. No member of `others` is the canonical text of an integer.

use crate::db::layout::Layout;
use crate::db::object::StringValue;
use structures::hash::HashSeed;
use structures::integer_set::{IntegerSet, cursor};
use structures::packed_map::{CURSORS_END, PackedSet, Probe};
use structures::random::Random;
use wire::convert::usize_of;
use wire::number::parse_i64;

const _: () = assert!(CURSORS_END <= cursor::FIRST, "cursors of both parts are distinct");

#[derive(Clone, Debug)]
pub(super) struct Mixed {
    /// The integers.
    pub integers: IntegerSet,
    /// All other members.
    pub others: PackedSet,
}

impl Mixed {
    /// A mixed set of these integers, without other members yet.
    pub fn new(integers: IntegerSet, seed: HashSeed) -> Self {
        Mixed { integers, others: PackedSet::new(seed) }
    }

    /// Panics unless every invariant holds.
    pub fn check(&self) {
        self.integers.check();
        self.others.check();
        assert!(!self.integers.is_empty() && !self.others.is_empty(), "neither part is empty");
        let is_integer = |member: &[u8]| parse_i64(member).is_some();
        assert!(!self.others.iter().any(is_integer), "no other member spells an integer");
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        usize_of(self.integers.len()) + self.others.len()
    }

    /// Memory held from the allocator, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        self.integers.memory_bytes() + self.others.memory_bytes()
    }

    /// Its memory layout.
    pub fn layout(&self) -> Layout {
        let (mut pages, mut used, mut held) =
            (self.others.pages_len(), self.others.used_bytes(), self.others.page_bytes());
        match &self.integers {
            IntegerSet::Small(sorted) => {
                (pages, used, held) =
                    (pages + 1, used + sorted.as_bytes().len(), held + sorted.memory_bytes());
            }
            IntegerSet::Large(integers) => {
                let figures = integers.figures();
                (pages, used, held) =
                    (pages + figures.pages, used + figures.used_bytes, held + figures.page_bytes);
            }
        }
        let parts = vec![("integers", usize_of(self.integers.len())), ("pages", pages)];
        Layout::new("integer pages and packed set", parts).packed(used, held)
    }

    /// A lookup in steps, of a member that is not an integer.
    pub fn probe(&self, member: &[u8]) -> Option<Probe<'_>> {
        parse_i64(member).is_none().then(|| self.others.probe(self.others.hash(member)))
    }

    /// Whether `member` is in the set.
    pub fn contains(&self, member: &[u8]) -> bool {
        match parse_i64(member) {
            Some(value) => self.integers.contains(value),
            None => self.others.contains(member),
        }
    }

    /// Adds a member. Returns whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        match parse_i64(member) {
            Some(value) => self.integers.insert(value),
            None => self.others.insert(member),
        }
    }

    /// Removes the member. Returns whether it was present.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match parse_i64(member) {
            Some(value) => self.integers.remove(value),
            None => self.others.remove(member),
        }
    }

    /// Visits members until one satisfies `visit`; returns whether one did. Integers come first: a set read back in this
    /// order gets the same encoding.
    pub fn any<'a>(&'a self, visit: &mut dyn FnMut(StringValue<'a>) -> bool) -> bool {
        self.integers.iter().any(|value| visit(StringValue::Integer(value)))
            || self.others.iter().any(|member| visit(StringValue::Bytes(member)))
    }

    /// As [`super::Set::scan`]. The packed pages come first: a scan begun when the set held all members in packed pages,
    /// before it was saved and loaded, visits the integers after them.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(StringValue<'_>)) -> u64 {
        if cursor >= cursor::FIRST {
            return self.integers.scan(cursor, wanted, |value| visit(StringValue::Integer(value)));
        }
        match self.others.scan(cursor, wanted, &mut |member| visit(StringValue::Bytes(member))) {
            0 => cursor::START,
            next => next,
        }
    }

    /// A uniformly random member.
    pub fn random(&self, random: &mut Random) -> Option<StringValue<'_>> {
        if random.below(self.len() as u64) < self.integers.len() {
            return self.integers.random(random).map(StringValue::Integer);
        }
        self.others.random(random).map(StringValue::Bytes)
    }

    /// As [`super::Set::random_distinct`]: the number from each part is random.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'_>),
    ) {
        let (mut integers_left, mut left) = (self.integers.len(), self.len() as u64);
        let mut integers_wanted = 0;
        let wanted = wanted.min(self.len());
        for _ in 0..wanted {
            let is_integer = random.below(left) < integers_left;
            integers_wanted += u64::from(is_integer);
            integers_left -= u64::from(is_integer);
            left -= 1;
        }
        self.integers.random_distinct(integers_wanted, random, |value| visit(StringValue::Integer(value)));
        let others_wanted = wanted - usize_of(integers_wanted);
        self.others.random_distinct(others_wanted, random, &mut |member| visit(StringValue::Bytes(member)));
    }
}
