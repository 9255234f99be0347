//! Sets: unordered members. Integers while all members are, a compact list while small, packed pages beyond, with the
//! integers separate in a set that had many before its first other member.

mod mixed;
mod rdb;
#[cfg(test)]
mod tests;
mod value_type;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::object::StringValue;
use mixed::Mixed;
use structures::hash::HashSeed;
use structures::integer_set::{IntegerSet, SMALL_MAX, cursor};
use structures::listpack::{Builder, Element, Listpack, Position};
use structures::packed_map::PackedSet;
use structures::random::Random;
use structures::unaligned_box::UnalignedBox;
use wire::convert::{signed_len, usize_of};

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
    Compact(Listpack),
    Packed(UnalignedBox<PackedSet>),
    Mixed(UnalignedBox<Mixed>),
}

impl Collection for Set {
    type View<'a> = &'a Set;

    #[inline]
    fn view(&self) -> &Set {
        self
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Set { encoding: Encoding::Integers { set: IntegerSet::new(), outgrown: false } }
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect_more(self.len(), context);
    }
}

impl Set {
    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.encoding {
            Encoding::Integers { set, .. } => usize_of(set.len()),
            Encoding::Compact(list) => list.len(),
            Encoding::Packed(set) => set.len(),
            Encoding::Mixed(set) => set.len(),
        }
    }

    /// Whether all members lie side by side and are searched one by one.
    pub fn is_compact(&self) -> bool {
        matches!(self.encoding, Encoding::Compact(_))
    }

    /// Whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.encoding {
            Encoding::Integers { set, .. } => {
                wire::number::parse_i64(member).is_some_and(|value| set.contains(value))
            }
            Encoding::Compact(list) => find(list, member).is_some(),
            Encoding::Packed(set) => set.contains(member),
            Encoding::Mixed(set) => set.contains(member),
        }
    }

    /// As [`Set::contains`], for a member of another set.
    pub fn contains_value(&self, member: StringValue<'_>) -> bool {
        match (&self.encoding, member) {
            (Encoding::Integers { set, .. }, StringValue::Integer(value)) => set.contains(value),
            (Encoding::Mixed(set), StringValue::Integer(value)) => set.integers.contains(value),
            _ => member.with_bytes(|bytes| self.contains(bytes)),
        }
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
            Encoding::Integers { .. } | Encoding::Compact(_) => {
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
            self.encoding = Encoding::Compact(Listpack::new());
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
        if is_small && let Some(list) = list_of(&integers, others) {
            return Set { encoding: Encoding::Compact(list) };
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
            Encoding::Compact(_) if count > context.limits.set_listpack_entries_max => {
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

    /// Visits all members.
    pub fn for_each<'a>(&'a self, visit: &mut dyn FnMut(StringValue<'a>)) {
        self.any(&mut |member| {
            visit(member);
            false
        });
    }

    /// Visits members until one satisfies `visit`; returns whether one did.
    pub fn any<'a>(&'a self, visit: &mut dyn FnMut(StringValue<'a>) -> bool) -> bool {
        match &self.encoding {
            Encoding::Integers { set, .. } => set.iter().any(|value| visit(StringValue::Integer(value))),
            Encoding::Compact(list) => list.iter().any(|element| visit(element.into())),
            Encoding::Packed(set) => set.iter().any(|member| visit(StringValue::Bytes(member))),
            Encoding::Mixed(set) => set.any(visit),
        }
    }

    /// Visits about `wanted` members and returns the next cursor, 0 at the end; a small set is visited whole. Cursors of
    /// packed pages and of integers are distinct, so that members that stay are visited through every change of encoding:
    /// a part that the cursor does not refer to is visited from its beginning.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(StringValue<'_>)) -> u64 {
        match &self.encoding {
            Encoding::Packed(set) => {
                let cursor = if cursor < cursor::FIRST { cursor } else { 0 };
                set.scan(cursor, wanted, &mut |member| visit(StringValue::Bytes(member)))
            }
            Encoding::Integers { set, outgrown: true } => {
                set.scan(cursor, wanted, |value| visit(StringValue::Integer(value)))
            }
            Encoding::Mixed(set) => set.scan(cursor, wanted, visit),
            Encoding::Integers { .. } | Encoding::Compact(_) => {
                self.for_each(visit);
                0
            }
        }
    }

    /// A uniformly random member.
    pub fn random(&self, random: &mut Random) -> Option<StringValue<'_>> {
        if self.is_empty() {
            return None;
        }
        match &self.encoding {
            Encoding::Integers { set, .. } => set.random(random).map(StringValue::Integer),
            Encoding::Compact(list) => {
                list.at(signed_len(random.index(self.len()))).map(|at| list.get(at).into())
            }
            Encoding::Packed(set) => set.random(random).map(StringValue::Bytes),
            Encoding::Mixed(set) => set.random(random),
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
            Encoding::Compact(list) => {
                let (mut left, mut needed) = (list.len() as u64, wanted as u64);
                list.retain(|element| {
                    let taken = random.below(left) < needed;
                    left -= 1;
                    needed -= u64::from(taken);
                    if taken {
                        visit(element.into());
                    }
                    !taken
                });
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

    /// `wanted` distinct members (all, if there are fewer), each choice equally likely. Takes time proportional to
    /// `wanted`, in a small set to its size.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        visit: &mut dyn FnMut(StringValue<'_>),
    ) {
        match &self.encoding {
            Encoding::Packed(set) => {
                set.random_distinct(wanted, random, &mut |member| visit(StringValue::Bytes(member)))
            }
            Encoding::Integers { set, .. } => {
                set.random_distinct(wanted as u64, random, |value| visit(StringValue::Integer(value)));
            }
            Encoding::Mixed(set) => set.random_distinct(wanted, random, visit),
            Encoding::Compact(list) => {
                // Selection sampling, Knuth 3.4.2, algorithm S.
                let (mut left, mut needed) = (list.len() as u64, wanted as u64);
                for element in list {
                    if needed == 0 {
                        return;
                    }
                    if random.below(left) < needed {
                        visit(element.into());
                        needed -= 1;
                    }
                    left -= 1;
                }
            }
        }
    }
}

/// Maximum size of most integers in a list.
const INTEGER_ROOM_BYTES: usize = 8;

/// A list of integers followed by other members; `None` if they exceed its format.
fn list_of(integers: &[i64], others: &[StringValue<'_>]) -> Option<Listpack> {
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
    Some(list.finish())
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
