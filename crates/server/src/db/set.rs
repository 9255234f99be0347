//! Sets: unordered members. Integers while all members are, a record in the key's entry while it fits there, a compact list
//! while small, packed pages beyond, with the integers separate in a set that had many before its first other member.

mod mixed;
mod rdb;
#[cfg(test)]
mod tests;
mod value_type;
mod view;

pub use view::SetView;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::interned::Interned;
use super::object::StringValue;
use mixed::Mixed;
use structures::hash::HashSeed;
use structures::integer_set::{IntegerSet, SMALL_MAX};
use structures::listpack::{Builder, Element, Listpack, Position};
use structures::packed_map::PackedSet;
use structures::random::{Random, SelectionSample};
use structures::record::members::{Addition, MEMBERS_MAX, Members, MembersView};
use structures::record::value::TextBuffer;
use structures::unaligned_box::UnalignedBox;
use wire::convert::usize_of;

/// The value of a set key.
#[derive(Clone, Debug)]
pub struct Set {
    encoding: Encoding,
}

#[derive(Clone, Debug)]
enum Encoding {
    Integers {
        set: IntegerSet,
        /// It has exceeded the limit for small integer sets: a reference server would keep it as a table.
        outgrown: bool,
    },
    /// Few other members, or integers that were among others. Only while the set is created or changed: it is embedded, or
    /// becomes a list, when it is stored.
    Record(UnalignedBox<Members>),
    /// As a record, but longer.
    Compact(Listpack),
    Packed(UnalignedBox<PackedSet>),
    Mixed(UnalignedBox<Mixed>),
}

impl Collection for Set {
    type View<'a> = SetView<'a>;

    #[inline]
    fn view(&self) -> SetView<'_> {
        let encoding = match &self.encoding {
            Encoding::Integers { set, outgrown } => view::Encoding::Integers { set, outgrown: *outgrown },
            Encoding::Record(members) => view::Encoding::Record(members.view()),
            Encoding::Compact(list) => view::Encoding::Compact(list),
            Encoding::Packed(set) => view::Encoding::Packed(set),
            Encoding::Mixed(set) => view::Encoding::Mixed(set),
        };
        SetView { encoding }
    }

    #[inline]
    fn view_embedded<'a>(bytes: &'a [u8], _interned: &'a Interned) -> Option<SetView<'a>> {
        Some(SetView { encoding: view::Encoding::Record(MembersView::of_embedded(bytes)) })
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Set { encoding: Encoding::Integers { set: IntegerSet::new(), outgrown: false } }
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect_more(self.len(), context);
    }
}

impl Set {
    fn of_record(members: Members) -> Set {
        Set { encoding: Encoding::Record(UnalignedBox::new(members)) }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// See [`SetView::contains`].
    pub fn contains(&self, member: &[u8]) -> bool {
        self.view().contains(member)
    }

    /// See [`SetView::for_each`].
    pub fn for_each<'a>(&'a self, visit: &mut dyn FnMut(StringValue<'a>)) {
        self.view().for_each(visit);
    }

    /// See [`SetView::random_distinct`].
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'_>),
    ) {
        self.view().random_distinct(wanted, random, visit);
    }

    /// Adds a member. Returns whether it is new.
    pub fn add(&mut self, member: &[u8], context: &CollectionContext<'_>) -> bool {
        if let Encoding::Integers { set, outgrown } = &mut self.encoding {
            match wire::number::parse_i64(member) {
                Some(value) => {
                    let added = set.insert(value);
                    *outgrown |= usize_of(set.len()) > context.limits.set_intset_entries_max;
                    return added;
                }
                None if self.leave_integers(member, context) => return true,
                None => {}
            }
        }
        if let Encoding::Record(members) = &mut self.encoding {
            match add_to_record(members, member, context.limits) {
                Addition::Added => return true,
                Addition::Present => return false,
                Addition::Refused => self.leave_record(),
            }
        }
        if let Encoding::Compact(list) = &mut self.encoding {
            if find(list, member).is_some() {
                return false;
            }
            let limits = context.limits;
            if list.len() < limits.set_listpack_entries_max
                && member.len() <= limits.set_listpack_value_bytes_max
                && list.fits(member.len(), 1)
            {
                list.push_back(member);
                return true;
            }
            self.pack(context.seed);
        }
        match &mut self.encoding {
            Encoding::Packed(set) => set.insert(member),
            Encoding::Mixed(set) => set.add(member),
            Encoding::Integers { .. } | Encoding::Record(_) | Encoding::Compact(_) => {
                unreachable!("any other encoding is packed by now")
            }
        }
    }

    /// Adds members; returns the number of new ones.
    pub fn add_all<'a>(
        &mut self,
        mut members: impl ExactSizeIterator<Item = &'a [u8]>,
        context: &CollectionContext<'_>,
    ) -> usize {
        let mut added = 0;
        while let Some(member) = members.next() {
            if let Encoding::Packed(set) = &mut self.encoding
                && members.len() > 0
            {
                return added + set.insert_all(std::iter::once(member).chain(members));
            }
            added += usize::from(self.add(member, context));
        }
        added
    }

    /// Chooses the encoding of a new set about to get `count` members, including `first`.
    pub fn expect(&mut self, first: &[u8], count: usize, context: &CollectionContext<'_>) {
        assert!(self.len() == 0, "only a new set is free to choose");
        let limits = context.limits;
        let integers = wire::number::parse_i64(first).is_some();
        if integers && count <= limits.set_intset_entries_max {
            return;
        }
        if count <= limits.set_listpack_entries_max {
            *self = Set::of_record(Members::default());
        } else if let Encoding::Integers { outgrown, .. } = &mut self.encoding {
            *outgrown = true;
        }
    }

    /// Creates a set of distinct members, as if they had been added one by one, in this order.
    pub fn of_distinct(members: &[StringValue<'_>], context: &CollectionContext<'_>) -> Set {
        let limits = context.limits;
        let mut integers: Vec<i64> = members.iter().map_while(StringValue::integer).collect();
        let others = &members[integers.len()..];
        integers.sort_unstable();
        if others.is_empty() {
            let outgrown = integers.len() > limits.set_intset_entries_max;
            return Set {
                encoding: Encoding::Integers { set: IntegerSet::from_sorted(&integers), outgrown },
            };
        }
        let is_small = integers.len() <= limits.set_intset_entries_max
            && members.len() <= limits.set_listpack_entries_max
            && others.iter().all(|member| member.len() <= limits.set_listpack_value_bytes_max);
        if is_small && let Some(encoding) = encoding_of_few(&integers, others) {
            return Set { encoding };
        }
        if integers.len() > SMALL_MAX {
            let mut set = Set::new(limits, context.seed);
            members.iter().for_each(|member| {
                member.with_bytes(|bytes| set.add(bytes, context));
            });
            return set;
        }
        let mut packed = PackedSet::new(context.seed);
        members.iter().for_each(|member| {
            member.with_bytes(|bytes| packed.insert(bytes));
            packed.expect(members.len() as u64);
        });
        Set { encoding: Encoding::Packed(UnalignedBox::new(packed)) }
    }

    /// Prepares a set for adding `count` members at once: a small encoding that they alone would exceed is converted
    /// before they are added, whether or not they are new.
    pub fn expect_more(&mut self, count: usize, context: &CollectionContext<'_>) {
        match &mut self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) if count > context.limits.set_listpack_entries_max => {
                self.pack(context.seed)
            }
            Encoding::Integers { outgrown, .. } if count > context.limits.set_intset_entries_max => {
                *outgrown = true
            }
            _ => {}
        }
    }

    /// Converts an integer set before a member that is not an integer is added. Returns whether it has been added
    /// already: a list is created with it.
    fn leave_integers(&mut self, member: &[u8], context: &CollectionContext<'_>) -> bool {
        let Encoding::Integers { set, outgrown } = &mut self.encoding else { return false };
        let limits = context.limits;
        let compact = !*outgrown
            && usize_of(set.len()) < limits.set_listpack_entries_max
            && member.len() <= limits.set_listpack_value_bytes_max;
        if compact && usize_of(set.len()) < MEMBERS_MAX {
            let mut members = Members::default();
            set.iter().for_each(|value| members.push_integer(value));
            let has_room = members.fits(member.len());
            if has_room {
                members.push(member);
            }
            *self = Set::of_record(members);
            return has_room;
        }
        if compact {
            let (list, is_whole) = list_with(set, member);
            self.encoding = Encoding::Compact(list);
            return is_whole;
        }
        if set.len() <= SMALL_MAX as u64 {
            self.pack(context.seed);
        } else {
            let integers = std::mem::take(set);
            self.encoding = Encoding::Mixed(UnalignedBox::new(Mixed::new(integers, context.seed)));
        }
        false
    }

    /// Converts a record to a list.
    fn leave_record(&mut self) {
        let Encoding::Record(members) = &self.encoding else { return };
        self.encoding = Encoding::Compact(listpack_of(members.view()));
    }

    fn pack(&mut self, seed: HashSeed) {
        let mut packed = PackedSet::new(seed);
        self.for_each(&mut |member| {
            member.with_bytes(|bytes| packed.insert(bytes));
        });
        self.encoding = Encoding::Packed(UnalignedBox::new(packed));
    }

    /// Removes the member. Returns whether it was present.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.encoding {
            Encoding::Integers { set, .. } => {
                wire::number::parse_i64(member).is_some_and(|value| set.remove(value))
            }
            Encoding::Packed(set) => set.remove(member),
            Encoding::Mixed(set) => {
                let removed = set.remove(member);
                self.leave_mixed();
                removed
            }
            Encoding::Record(members) => members.remove(member),
            Encoding::Compact(list) => match find(list, member) {
                Some(at) => {
                    list.remove(at);
                    true
                }
                None => false,
            },
        }
    }

    /// Converts a mixed set one of whose parts has lost its last member: the other part is then the whole set.
    fn leave_mixed(&mut self) {
        let Encoding::Mixed(set) = &mut self.encoding else { return };
        if set.others.is_empty() {
            let set = std::mem::take(&mut set.integers);
            self.encoding = Encoding::Integers { set, outgrown: true };
        } else if set.integers.is_empty() {
            let others = set.others.take();
            self.encoding = Encoding::Packed(UnalignedBox::new(others));
        }
    }

    /// Removes `wanted` distinct members (all, if there are fewer), each choice equally likely, and passes each to
    /// `visit`.
    pub fn take_random(
        &mut self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'_>),
    ) {
        match &mut self.encoding {
            // Removing them one by one would move all members behind each.
            Encoding::Record(members) => {
                let mut sample = SelectionSample::new(members.view().len() as u64, wanted as u64);
                members.retain(|member| stays(member.into(), &mut sample, random, visit));
            }
            Encoding::Compact(list) => {
                let mut sample = SelectionSample::new(list.len() as u64, wanted as u64);
                list.retain(|element| stays(element.into(), &mut sample, random, visit));
            }
            Encoding::Integers { set, .. } => {
                let mut taken = Vec::with_capacity(wanted.min(usize_of(set.len())));
                set.random_distinct(wanted as u64, random, |value| taken.push(value));
                taken.iter().for_each(|&value| {
                    set.remove(value);
                    visit(StringValue::Integer(value));
                });
            }
            Encoding::Packed(_) | Encoding::Mixed(_) => {
                let (mut taken, mut ends) = (Vec::new(), Vec::with_capacity(wanted.min(self.len())));
                self.random_distinct(wanted, random, &mut |member| {
                    member.with_bytes(|bytes| taken.extend_from_slice(bytes));
                    ends.push(taken.len());
                    visit(member);
                });
                let mut start = 0;
                for end in ends {
                    self.remove(&taken[start..end]);
                    start = end;
                }
            }
        }
    }
}

/// Passes a member to `visit` if it is drawn; returns whether it stays.
fn stays(
    member: StringValue<'_>,
    sample: &mut SelectionSample,
    random: &mut Random,
    visit: &mut dyn FnMut(StringValue<'_>),
) -> bool {
    let is_drawn = sample.takes(random);
    if is_drawn {
        visit(member);
    }
    !is_drawn
}

/// Adds a member if it is not there; refuses one that makes the set too large for its limits or for a record.
#[inline]
fn add_to_record(members: &mut Members, member: &[u8], limits: &EncodingLimits) -> Addition {
    let may_add = members.view().len() < limits.set_listpack_entries_max
        && member.len() <= limits.set_listpack_value_bytes_max
        && members.fits(member.len());
    members.add(member, may_add)
}

/// The set as a list.
fn listpack_of(members: MembersView<'_>) -> Listpack {
    let mut list = Builder::with_room(2 * members.used_bytes());
    for member in members.iter() {
        match member.integer() {
            Some(value) => list.push(Element::Integer(value)),
            None => list.push(Element::Bytes(member.text(&mut TextBuffer::default()))),
        }
    }
    list.finish()
}

/// The list as a record, if it is short enough.
fn record_of(list: &Listpack) -> Option<Members> {
    if list.len() > MEMBERS_MAX {
        return None;
    }
    let mut members = Members::default();
    for element in list {
        match element {
            _ if !members.fits(element.text_len()) => return None,
            Element::Integer(value) => members.push_integer(value),
            Element::Bytes(text) => members.push(text),
        }
    }
    Some(members)
}

/// Maximum size of most integers in a list.
const INTEGER_ROOM_BYTES: usize = 8;

/// A record or list of integers followed by other members; `None` if they exceed its format.
fn encoding_of_few(integers: &[i64], others: &[StringValue<'_>]) -> Option<Encoding> {
    if let Some(members) = record_with(integers.iter().copied(), others) {
        return Some(Encoding::Record(UnalignedBox::new(members)));
    }
    let bytes =
        INTEGER_ROOM_BYTES * integers.len() + others.iter().map(|member| member.len() + 2).sum::<usize>();
    let mut list = Builder::with_room(bytes);
    integers.iter().for_each(|&value| list.push(Element::Integer(value)));
    for member in others {
        if !list.fits(member.len(), 1) {
            return None;
        }
        match *member {
            StringValue::Bytes(bytes) => list.push(Element::Bytes(bytes)),
            StringValue::Integer(value) => list.push(Element::Integer(value)),
            text => text.with_bytes(|bytes| list.push(Element::Bytes(bytes))),
        }
    }
    Some(Encoding::Compact(list.finish()))
}

/// A record of integers followed by other members; `None` if they do not fit one.
fn record_with(integers: impl ExactSizeIterator<Item = i64>, others: &[StringValue<'_>]) -> Option<Members> {
    if integers.len() + others.len() > MEMBERS_MAX {
        return None;
    }
    let mut members = Members::default();
    integers.for_each(|value| members.push_integer(value));
    for member in others {
        if !members.fits(member.len()) {
            return None;
        }
        match *member {
            StringValue::Integer(value) => members.push_integer(value),
            text => text.with_bytes(|bytes| members.push(bytes)),
        }
    }
    Some(members)
}

/// A list of integers followed by another member, and whether that fitted.
fn list_with(integers: &IntegerSet, member: &[u8]) -> (Listpack, bool) {
    let mut list = Builder::with_room(INTEGER_ROOM_BYTES * usize_of(integers.len()) + member.len());
    integers.iter().for_each(|value| list.push(Element::Integer(value)));
    let has_room = list.fits(member.len(), 1);
    if has_room {
        list.push(Element::Bytes(member));
    }
    (list.finish(), has_room)
}

fn find(list: &Listpack, member: &[u8]) -> Option<Position> {
    list.find(list.first()?, member, 0)
}
