//! A read-only view of a set, embedded or not.

use super::find;
use super::mixed::Mixed;
use crate::db::object::StringValue;
use structures::integer_set::{IntegerSet, cursor};
use structures::listpack::Listpack;
use structures::packed_map::PackedSet;
use structures::random::{Random, SelectionSample};
use structures::record::members::MembersView;
use wire::convert::{signed_len, usize_of};

/// A read-only view of a set.
#[derive(Clone, Copy)]
pub struct SetView<'a> {
    pub(super) encoding: Encoding<'a>,
}

/// The encodings of [`super::Encoding`].
#[derive(Clone, Copy)]
pub(super) enum Encoding<'a> {
    Integers { set: &'a IntegerSet, outgrown: bool },
    Record(MembersView<'a>),
    Compact(&'a Listpack),
    Packed(&'a PackedSet),
    Mixed(&'a Mixed),
}

impl<'a> SetView<'a> {
    /// Where the set is: views of one key's set have the same address, of different keys different ones.
    pub fn address(&self) -> *const () {
        match self.encoding {
            Encoding::Integers { set, .. } => std::ptr::from_ref(set).cast(),
            Encoding::Record(members) => members.address().cast(),
            Encoding::Compact(list) => std::ptr::from_ref(list).cast(),
            Encoding::Packed(set) => std::ptr::from_ref(set).cast(),
            Encoding::Mixed(set) => std::ptr::from_ref(set).cast(),
        }
    }

    /// Number of members.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self.encoding {
            Encoding::Integers { set, .. } => usize_of(set.len()),
            Encoding::Record(members) => members.len(),
            Encoding::Compact(list) => list.len(),
            Encoding::Packed(set) => set.len(),
            Encoding::Mixed(set) => set.len(),
        }
    }

    /// Whether all members lie side by side and are searched one by one.
    pub fn is_compact(&self) -> bool {
        matches!(self.encoding, Encoding::Record(_) | Encoding::Compact(_))
    }

    /// Whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.encoding {
            Encoding::Integers { set, .. } => {
                wire::number::parse_i64(member).is_some_and(|value| set.contains(value))
            }
            Encoding::Record(members) => members.contains(member),
            Encoding::Compact(list) => find(list, member).is_some(),
            Encoding::Packed(set) => set.contains(member),
            Encoding::Mixed(set) => set.contains(member),
        }
    }

    /// As [`SetView::contains`], for a member of another set.
    pub fn contains_value(&self, member: StringValue<'_>) -> bool {
        match (&self.encoding, member) {
            (Encoding::Integers { set, .. }, StringValue::Integer(value)) => set.contains(value),
            (Encoding::Mixed(set), StringValue::Integer(value)) => set.integers.contains(value),
            _ => member.with_bytes(|bytes| self.contains(bytes)),
        }
    }

    /// Visits all members.
    pub fn for_each(&self, visit: &mut dyn FnMut(StringValue<'a>)) {
        self.any(&mut |member| {
            visit(member);
            false
        });
    }

    /// Visits members until one satisfies `visit`; returns whether one did.
    pub fn any(&self, visit: &mut dyn FnMut(StringValue<'a>) -> bool) -> bool {
        match self.encoding {
            Encoding::Integers { set, .. } => set.iter().any(|value| visit(StringValue::Integer(value))),
            Encoding::Record(members) => members.iter().any(|member| visit(member.into())),
            Encoding::Compact(list) => list.iter().any(|element| visit(element.into())),
            Encoding::Packed(set) => set.iter().any(|member| visit(StringValue::Bytes(member))),
            Encoding::Mixed(set) => set.any(visit),
        }
    }

    /// Visits about `wanted` members and returns the next cursor, 0 at the end; a small set is visited whole. Cursors of
    /// packed pages and of integers are distinct, so that members that stay are visited through every change of encoding:
    /// a part that the cursor does not refer to is visited from its beginning.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(StringValue<'_>)) -> u64 {
        match self.encoding {
            Encoding::Packed(set) => {
                let cursor = if cursor < cursor::FIRST { cursor } else { 0 };
                set.scan(cursor, wanted, &mut |member| visit(StringValue::Bytes(member)))
            }
            Encoding::Integers { set, outgrown: true } => {
                set.scan(cursor, wanted, |value| visit(StringValue::Integer(value)))
            }
            Encoding::Mixed(set) => set.scan(cursor, wanted, visit),
            Encoding::Integers { .. } | Encoding::Record(_) | Encoding::Compact(_) => {
                self.for_each(visit);
                0
            }
        }
    }

    /// A uniformly random member.
    pub fn random(&self, random: &mut Random) -> Option<StringValue<'a>> {
        if self.len() == 0 {
            return None;
        }
        match self.encoding {
            Encoding::Integers { set, .. } => set.random(random).map(StringValue::Integer),
            Encoding::Record(members) => Some(members.at(random.index(members.len())).into()),
            Encoding::Compact(list) => {
                list.at(signed_len(random.index(self.len()))).map(|at| list.get(at).into())
            }
            Encoding::Packed(set) => set.random(random).map(StringValue::Bytes),
            Encoding::Mixed(set) => set.random(random),
        }
    }

    /// `wanted` distinct members (all, if there are fewer), each choice equally likely. Takes time proportional to
    /// `wanted`, in a small set to its size.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'_>),
    ) {
        match self.encoding {
            Encoding::Packed(set) => {
                set.random_distinct(wanted, random, &mut |member| visit(StringValue::Bytes(member)))
            }
            Encoding::Integers { set, .. } => {
                set.random_distinct(wanted as u64, random, |value| visit(StringValue::Integer(value)));
            }
            Encoding::Mixed(set) => set.random_distinct(wanted, random, visit),
            Encoding::Record(members) => {
                let sample = SelectionSample::new(members.len() as u64, wanted as u64);
                visit_sample(members.iter().map(StringValue::from), sample, random, visit);
            }
            Encoding::Compact(list) => {
                let sample = SelectionSample::new(list.len() as u64, wanted as u64);
                visit_sample(list.iter().map(StringValue::from), sample, random, visit);
            }
        }
    }
}

/// Visits the members that are taken.
fn visit_sample<'a>(
    members: impl Iterator<Item = StringValue<'a>>,
    mut sample: SelectionSample,
    random: &mut Random,
    visit: &mut dyn FnMut(StringValue<'_>),
) {
    for member in members {
        if sample.is_complete() {
            return;
        }
        if sample.takes(random) {
            visit(member);
        }
    }
}
