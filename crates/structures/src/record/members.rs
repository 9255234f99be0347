//! Small sets as one sequence of values, short enough to be stored in their keys' entries.
//!
//! ```text
//!  | 0x40 + members | member | member | ...        0 to 63 members, in the order in which they were added
//! ```
//! Members are the forms of `record/value.rs`.
//!
//! Invariants:
//! 1. The bytes are a head and exactly the members that it announces.
//! 2. The members are distinct: equal texts have equal forms.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#records).

use super::room::{ROOM_BYTES, Room};
use super::value::{Encoded, Needle, TextBuffer, Value, end};

/// The first byte of a set's record is this one plus at most [`MEMBERS_MAX`].
pub const FIRST_BYTE: u8 = 0x40;
/// Most members.
pub const MEMBERS_MAX: usize = 63;
/// Most bytes that a form adds to its text.
const HEAD_BYTES_MAX: usize = 5;

/// A set of few members, outside of its key's entry.
#[derive(Clone, Debug)]
pub struct Members {
    room: Room,
}

/// A set of few members, for reading.
#[derive(Clone, Copy, Debug)]
pub struct MembersView<'a> {
    len: usize,
    forms: &'a [u8],
}

impl<'a> MembersView<'a> {
    /// The set with these [embedded bytes](Members::embedded).
    #[inline]
    pub fn of_embedded(bytes: &'a [u8]) -> Self {
        MembersView { len: (bytes[0] - FIRST_BYTE).into(), forms: &bytes[1..] }
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

    /// Bytes of the members.
    pub fn used_bytes(&self) -> usize {
        self.forms.len()
    }

    /// Where the set's bytes are.
    pub fn address(&self) -> *const u8 {
        self.forms.as_ptr()
    }

    /// Whether this is a member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        member.len() <= ROOM_BYTES && self.place(&Needle::of(member)).is_some()
    }

    #[inline]
    fn place(&self, member: &Needle<'_>) -> Option<usize> {
        let mut at = 0;
        while at < self.forms.len() {
            if member.is_at(self.forms, at) {
                return Some(at);
            }
            at = end(self.forms, at);
        }
        None
    }

    /// The member at an index, which must be below their number.
    pub fn at(&self, index: usize) -> Value<'a> {
        let at = (0..index).fold(0, |at, _| end(self.forms, at));
        Value::at(self.forms, at).0
    }

    /// All members, in the order in which they were added.
    #[inline]
    pub fn iter(&self) -> Iter<'a> {
        Iter { forms: self.forms, at: 0 }
    }
}

/// Iterates over members.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    forms: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Value<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Value<'a>> {
        if self.at == self.forms.len() {
            return None;
        }
        let (member, behind) = Value::at(self.forms, self.at);
        self.at = behind;
        Some(member)
    }
}

impl Default for Members {
    fn default() -> Self {
        Members { room: Room::of(&[FIRST_BYTE]) }
    }
}

impl Members {
    /// The set with these [embedded bytes](Members::embedded).
    pub fn of_embedded(bytes: &[u8]) -> Self {
        Members { room: Room::of(bytes) }
    }

    /// Replaces the set by the one with these [embedded bytes](Members::embedded).
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
    pub fn view(&self) -> MembersView<'_> {
        MembersView::of_embedded(self.room.as_slice())
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        self.room.memory_bytes()
    }

    /// Whether there is room for another member of this length.
    #[inline]
    pub fn fits(&self, member_bytes: usize) -> bool {
        self.view().len() < MEMBERS_MAX
            && self.room.len().saturating_add(member_bytes) <= ROOM_BYTES - HEAD_BYTES_MAX
    }

    /// Adds a member that is not there, behind all others; it must [fit](Members::fits).
    pub fn push(&mut self, member: &[u8]) {
        self.push_encoded(&Encoded::of(member));
    }

    /// As [`Members::push`], the decimal digits of an integer.
    pub fn push_integer(&mut self, member: i64) {
        self.push_encoded(&Encoded::of_integer(member));
    }

    #[inline]
    fn push_encoded(&mut self, member: &Encoded<'_>) {
        let end = self.room.len();
        member.write_to(self.room.replace(end..end, member.len()));
        self.room.as_mut_slice()[0] += 1;
    }

    /// Adds a member if it is not there and `may_add` agrees; returns whether it was there, and whether it was added. It must
    /// [fit](Members::fits) if it may be added.
    #[inline]
    pub fn add(&mut self, member: &[u8], may_add: bool) -> Addition {
        let needle = Needle::of(member);
        if self.view().place(&needle).is_some() {
            return Addition::Present;
        }
        if !may_add {
            return Addition::Refused;
        }
        self.push_encoded(needle.form());
        Addition::Added
    }

    /// Removes a member; returns whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if member.len() > ROOM_BYTES {
            return false;
        }
        let Some(at) = self.view().place(&Needle::of(member)) else { return false };
        let at = at + 1;
        let behind = end(self.room.as_slice(), at);
        self.room.replace(at..behind, 0);
        self.room.as_mut_slice()[0] -= 1;
        true
    }

    /// Keeps the members for which `keeps` returns true; it is called in their order.
    pub fn retain(&mut self, mut keeps: impl FnMut(Value<'_>) -> bool) {
        let (mut at, mut kept, mut count) = (1, 1, 0);
        while at < self.room.len() {
            let (member, behind) = Value::at(self.room.as_slice(), at);
            if keeps(member) {
                self.room.as_mut_slice().copy_within(at..behind, kept);
                kept += behind - at;
                count += 1;
            }
            at = behind;
        }
        self.room.replace(kept..at, 0);
        self.room.as_mut_slice()[0] = FIRST_BYTE + count;
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        let mut members: Vec<Vec<u8>> = Vec::new();
        for member in self.view().iter() {
            let text = member.text(&mut TextBuffer::default()).to_vec();
            assert!(self.view().contains(&text), "a member is not in its form");
            members.push(text);
        }
        assert_eq!(members.len(), self.view().len());
        members.sort();
        assert!(members.is_sorted_by(|a, b| a < b), "a member occurs twice");
    }
}

/// Outcome of [`Members::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addition {
    /// The member was there.
    Present,
    /// It was not there and has been added.
    Added,
    /// It was not there and may not be added.
    Refused,
}

#[cfg(test)]
pub(super) mod tests;
