//! Groups of consumers: how far each group has read, and which delivered entries of each consumer are not acknowledged.
//!
//! Invariants:
//! 1. Every pending entry of a group is in the pending ids of exactly the consumer it names, and vice versa.
//! 2. `by_name` lists the occupied slots of `consumers` in the order of their names. The last slot is occupied, and
//!    `free_places` contains all others that are not.
//! 3. Those of `oldest.rs`.
//! 4. `consumer_bytes` is the allocated size of the consumers, with their names; a stream's group is changed through a
//!    [`GroupMut`], which updates the stream's sum of all groups.

use super::oldest::{Delivered, Oldest};
use super::sorted_blocks::{Place, SortedBlocks};
use super::{COUNTER_MAX, Direction, Entries, Entry, Finder, State, Stream, StreamId};
use crate::radix_tree::RadixTree;
use crate::size_class::usable_size;
use crate::work;
use std::ops::{Deref, DerefMut};

/// A consumer within its group. Valid until the consumer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsumerId(u32);

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer to which it was delivered.
    pub consumer: ConsumerId,
    /// Time of the last delivery.
    pub delivered_ms: i64,
    /// Number of deliveries. A file can hold any: behind the greatest comes 0.
    pub deliveries: u64,
}

/// A consumer of a group.
#[derive(Clone)]
pub struct Consumer {
    name: Box<[u8]>,
    /// Time of the last attempt to read or claim.
    pub seen_ms: i64,
    /// Time of the last successful one; none if there was none.
    pub active_ms: Option<i64>,
    pending: RadixTree<()>,
}

impl Consumer {
    fn memory_bytes(&self) -> usize {
        usable_size(size_of::<Consumer>()) + usable_size(self.name.len()) + self.pending.memory_bytes()
    }

    /// The consumer's name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Ids delivered to this consumer and not acknowledged, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl Iterator<Item = StreamId> + '_ {
        let mut cursor = self.pending.at_or_after(&start.to_key());
        std::iter::from_fn(move || {
            let (key, ()) = cursor.get()?;
            cursor.move_next();
            Some(StreamId::from_key(key))
        })
    }
}

/// A group of consumers.
pub struct Group {
    /// The last id that was delivered.
    pub last_id: StreamId,
    /// The number of entries read, counted from the stream's first ever; none if unknown.
    pub entries_read: Option<u64>,
    pending: RadixTree<Pending>,
    by_name: SortedBlocks<ConsumerId>,
    consumers: Vec<Option<Box<Consumer>>>,
    /// Free slots of `consumers`, unordered. May contain slots that are occupied again or removed: to be checked on use.
    #[expect(clippy::box_collection, reason = "most groups have none, and each would take two words more")]
    free_places: Option<Box<Vec<u32>>>,
    consumer_bytes: usize,
    oldest: Oldest,
}

/// A group and its name.
pub(super) type NamedGroup = (Box<[u8]>, Box<Group>);

/// Allocated size of a group, with its name.
pub(super) fn memory_bytes_of((name, group): &NamedGroup) -> usize {
    usable_size(name.len()) + usable_size(size_of::<Group>()) + group.memory_bytes()
}

impl Clone for Group {
    fn clone(&self) -> Group {
        let consumers = self.consumers.clone();
        Group {
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: self.pending.clone(),
            by_name: self.by_name.clone(),
            // A copy has no spare capacity.
            consumer_bytes: consumers.iter().flatten().map(|consumer| consumer.memory_bytes()).sum(),
            consumers,
            free_places: self.free_places.clone(),
            oldest: self.oldest.clone(),
        }
    }
}

/// Write access to a group of a stream.
pub struct GroupMut<'a> {
    group: &'a mut Group,
    /// The stream's sum, without this group while this value exists.
    part_bytes: &'a mut usize,
}

impl<'a> GroupMut<'a> {
    #[inline]
    pub(super) fn new(group: &'a mut Group, part_bytes: &'a mut usize) -> GroupMut<'a> {
        *part_bytes -= group.memory_bytes();
        GroupMut { group, part_bytes }
    }
}

impl Drop for GroupMut<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.part_bytes += self.group.memory_bytes();
    }
}

impl Deref for GroupMut<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        self.group
    }
}

impl DerefMut for GroupMut<'_> {
    fn deref_mut(&mut self) -> &mut Group {
        self.group
    }
}

/// The entries that a consumer may claim from a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claimable {
    /// The longest idle first.
    pub ids: Vec<StreamId>,
    /// A lower bound of the others' delivery times; `None` if nothing else is pending.
    pub next_ms: Option<i64>,
}

impl Group {
    fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        let entries_read = entries_read.map(|read| read.min(COUNTER_MAX));
        Group {
            last_id,
            entries_read,
            pending: RadixTree::new(),
            by_name: SortedBlocks::default(),
            consumers: Vec::new(),
            free_places: None,
            consumer_bytes: 0,
            oldest: Oldest::new(),
        }
    }

    /// The number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.by_name.len()
    }

    /// The position in `by_name` of the consumer with this name, or where it would be.
    fn search(&self, name: &[u8]) -> Result<Place, Place> {
        self.by_name.search(|&id| self.consumer(id).name().cmp(name))
    }

    /// The consumer with this name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.search(name).ok().map(|place| *self.by_name.get(place))
    }

    /// A free slot: the end, unless there is another.
    fn free_place(&mut self) -> usize {
        while let Some(place) = self.free_places.as_mut().and_then(|places| places.pop()) {
            work::visited(1);
            if let Some(None) = self.consumers.get(place as usize) {
                return place as usize;
            }
        }
        self.free_places = None;
        self.consumers.len()
    }

    /// Creates a consumer; returns none if there is one with this name.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> Option<ConsumerId> {
        let at = self.search(name).err()?;
        let place = self.free_place();
        let id = ConsumerId(u32::try_from(place).expect("fewer than 2^32 consumers"));
        let consumer =
            Consumer { name: name.into(), seen_ms: now_ms, active_ms: None, pending: RadixTree::new() };
        if place == self.consumers.len() {
            self.consumers.push(None);
        }
        self.consumer_bytes += consumer.memory_bytes();
        self.consumers[place] = Some(Box::new(consumer));
        self.by_name.insert(at, id);
        Some(id)
    }

    /// Removes a consumer and its pending entries; returns their number.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let at = self.search(name).ok()?;
        let id = self.by_name.remove(at);
        let consumer = self.consumers[id.0 as usize].take()?;
        self.consumer_bytes -= consumer.memory_bytes();
        for (key, ()) in consumer.pending.iter() {
            self.pending.remove(&key);
        }
        self.give_back_place(id);
        Some(consumer.pending.len())
    }

    /// Releases a slot: slots at the end are removed, with their memory; others are kept for later consumers.
    fn give_back_place(&mut self, id: ConsumerId) {
        while let Some(None) = self.consumers.last() {
            work::visited(1);
            self.consumers.pop();
        }
        if self.consumers.len() < self.consumers.capacity() / 4 {
            self.consumers.shrink_to(self.consumers.len() * 2);
        }
        if self.by_name.len() == self.consumers.len() {
            self.free_places = None;
        } else if (id.0 as usize) < self.consumers.len() {
            self.free_places.get_or_insert_default().push(id.0);
        }
    }

    /// The consumer with this id, which must exist.
    pub fn consumer(&self, id: ConsumerId) -> &Consumer {
        self.consumers[id.0 as usize].as_ref().expect("the id is of a present consumer")
    }

    /// The consumer with this id, for changing it.
    pub fn consumer_mut(&mut self, id: ConsumerId) -> &mut Consumer {
        self.consumers[id.0 as usize].as_mut().expect("the id is of a present consumer")
    }

    /// Iterates over the consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.by_name.iter().map(|&id| (id, self.consumer(id)))
    }

    /// The number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The pending entry with this id.
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id.to_key()).copied()
    }

    /// The least and the greatest pending id.
    pub fn pending_bounds(&self) -> Option<(StreamId, StreamId)> {
        let (first, last) = (self.pending.first().get()?, self.pending.last().get()?);
        Some((StreamId::from_key(first.0), StreamId::from_key(last.0)))
    }

    /// Pending entries by ascending id, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl Iterator<Item = (StreamId, Pending)> + '_ {
        let mut cursor = self.pending.at_or_after(&start.to_key());
        std::iter::from_fn(move || {
            let (key, pending) = cursor.get()?;
            cursor.move_next();
            Some((StreamId::from_key(key), *pending))
        })
    }

    /// Makes an entry pending, or replaces its pending state, which may have been another consumer's.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        let key = id.to_key();
        self.oldest.note((pending.delivered_ms, id));
        let before = self.pending.insert(&key, pending);
        if before.is_some_and(|before| before.consumer == pending.consumer) {
            return;
        }
        if let Some(before) = before {
            self.change_pending_of(before.consumer, |ids| _ = ids.remove(&key));
        }
        self.change_pending_of(pending.consumer, |ids| _ = ids.insert(&key, ()));
    }

    fn change_pending_of(&mut self, id: ConsumerId, change: impl FnOnce(&mut RadixTree<()>)) {
        let consumer = self.consumer_mut(id);
        let before = consumer.pending.memory_bytes();
        change(&mut consumer.pending);
        let after = consumer.pending.memory_bytes();
        self.consumer_bytes = self.consumer_bytes - before + after;
    }

    /// Removes an entry from the pending ones; returns false if it was not pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let key = id.to_key();
        let Some(pending) = self.pending.remove(&key) else { return false };
        self.change_pending_of(pending.consumer, |ids| _ = ids.remove(&key));
        true
    }

    /// Records the delivery of the entry `id` to the group, if it is above the last one.
    fn advance(&mut self, id: StreamId, state: &State) {
        if id <= self.last_id {
            return;
        }
        match &mut self.entries_read {
            Some(read) if self.last_id >= state.first_id && !state.has_deleted_from(self.last_id) => {
                *read = (*read + 1).min(COUNTER_MAX)
            }
            _ if state.entries_added > 0 => self.entries_read = state.entries_added_up_to(id),
            _ => {}
        }
        self.last_id = id;
    }

    /// The number of entries that the group has not read yet, if it is known.
    pub fn lag(&self, state: &State) -> Option<i64> {
        if state.entries_added == 0 {
            return Some(0);
        }
        let read = match self.entries_read {
            Some(read) if !state.has_deleted_from(self.last_id) => read,
            _ => state.entries_added_up_to(self.last_id)?,
        };
        Some(state.entries_added.wrapping_sub(read) as i64)
    }

    /// Allocated bytes, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        let places = usable_size(self.consumers.capacity() * size_of::<Option<Box<Consumer>>>());
        let free_places = self.free_places.as_ref().map_or(0, |places| {
            usable_size(size_of::<Vec<u32>>()) + usable_size(places.capacity() * size_of::<u32>())
        });
        let names = self.by_name.memory_bytes();
        let (pending, oldest) = (self.pending.memory_bytes(), self.oldest.memory_bytes());
        self.consumer_bytes + pending + oldest + places + free_places + names
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        self.pending.check();
        self.by_name.check();
        assert_eq!(self.by_name.len(), self.consumers.iter().flatten().count());
        assert!(self.consumers.last().is_none_or(Option::is_some));
        let free_places: &[u32] = self.free_places.as_ref().map_or(&[], |places| places);
        let free = (0..).zip(&self.consumers).filter(|(_, consumer)| consumer.is_none());
        free.for_each(|(place, _)| assert!(free_places.contains(&place)));
        assert!(self.consumers().map(|(_, consumer)| consumer.name()).is_sorted_by(|a, b| a < b));
        let mut pending = 0;
        for (id, consumer) in self.consumers() {
            consumer.pending.check();
            assert_eq!(self.find_consumer(consumer.name()), Some(id));
            pending += consumer.pending_len();
            for own in consumer.pending_from(StreamId::MIN) {
                assert_eq!(self.pending(own).map(|pending| pending.consumer), Some(id));
            }
        }
        assert_eq!(pending, self.pending_len());
        let consumers = self.consumers.iter().flatten();
        assert_eq!(consumers.map(|consumer| consumer.memory_bytes()).sum::<usize>(), self.consumer_bytes);
    }

    /// As [`Group::check`], for the invariants that depend on which entries exist.
    pub(super) fn check_oldest(&self, exists: impl Fn(StreamId) -> bool) {
        let existing = self.pending_from(StreamId::MIN).filter(|&(id, _)| exists(id));
        self.oldest.check(existing.map(|(id, pending)| (pending.delivered_ms, id)));
    }

    /// Invalidates the window: a deleted id may be added again.
    pub(super) fn forget_oldest(&mut self) {
        self.oldest.forget();
    }
}

impl Stream {
    fn search_group(&self, name: &[u8]) -> Result<Place, Place> {
        self.groups.search(|(other, _)| (**other).cmp(name))
    }

    /// Creates a group; returns false if there is one with this name.
    pub fn create_group(&mut self, name: &[u8], last_id: StreamId, entries_read: Option<u64>) -> bool {
        let Err(at) = self.search_group(name) else { return false };
        let group = (name.into(), Box::new(Group::new(last_id, entries_read)));
        self.part_bytes += memory_bytes_of(&group);
        self.groups.insert(at, group);
        true
    }

    /// Removes and returns a group; none if it does not exist.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Box<Group>> {
        let at = self.search_group(name).ok()?;
        let removed = self.groups.remove(at);
        self.part_bytes -= memory_bytes_of(&removed);
        Some(removed.1)
    }

    /// The group with this name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.search_group(name).ok().map(|at| &*self.groups.get(at).1)
    }

    /// The group with this name, for changing it.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        let at = self.search_group(name).ok()?;
        Some(GroupMut::new(&mut self.groups.get_mut(at).1, &mut self.part_bytes))
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Iterates over the groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, &**group))
    }

    /// Delivers to `consumer` the entries that the group has not read, at most `count_max`, passing each to `read`. They
    /// become pending unless `no_acknowledge`. Returns their number; none if the group does not exist.
    pub fn read_new(
        &mut self,
        group: &[u8],
        consumer: ConsumerId,
        count_max: u64,
        no_acknowledge: bool,
        now_ms: i64,
        mut read: impl FnMut(StreamId, Entry<'_>, Option<Pending>),
    ) -> Option<u64> {
        let at = self.search_group(group).ok()?;
        let mut group = GroupMut::new(&mut self.groups.get_mut(at).1, &mut self.part_bytes);
        let mut delivered = 0;
        let Some(start) = group.last_id.next() else { return Some(0) };
        let mut entries = Entries::new(&self.nodes, start, StreamId::MAX, Direction::Forward);
        while delivered < count_max {
            let Some(entry) = entries.next() else { break };
            let id = entry.id;
            group.advance(id, &self.state);
            let pending =
                (!no_acknowledge).then_some(Pending { consumer, delivered_ms: now_ms, deliveries: 1 });
            if let Some(pending) = pending {
                group.assign(id, pending);
                group.consumer_mut(consumer).active_ms = Some(now_ms);
            }
            read(id, entry, pending);
            delivered += 1;
        }
        Some(delivered)
    }

    /// The group's pending entries that exist and were delivered at `until_ms` or before, at most `count_max`; none if the
    /// group does not exist.
    pub fn claimable(&mut self, group: &[u8], until_ms: i64, count_max: usize) -> Option<Claimable> {
        let at = self.search_group(group).ok()?;
        let mut group = GroupMut::new(&mut self.groups.get_mut(at).1, &mut self.part_bytes);
        let Group { oldest, pending, .. } = &mut *group;
        let exists = |id: StreamId| Entries::new(&self.nodes, id, id, Direction::Forward).next().is_some();
        let is_pending = |(delivered_ms, id): Delivered| {
            let found = pending.get(&id.to_key());
            found.is_some_and(|pending| pending.delivered_ms == delivered_ms) && exists(id)
        };
        let walk = |visit: &mut dyn FnMut(Delivered)| {
            for (key, pending) in pending.iter_unordered() {
                visit((pending.delivered_ms, StreamId::from_key(key)));
            }
        };
        let (ids, next_ms) = oldest.take(until_ms, count_max, pending.len(), is_pending, walk);
        Some(Claimable { ids, next_ms })
    }

    /// Delivers again the pending entries of `consumer` above `after`, at most `count_max`, passing each to `read`, without
    /// the entry if it is deleted. Returns their number; none if the group does not exist.
    pub fn read_pending(
        &mut self,
        group: &[u8],
        consumer: ConsumerId,
        after: StreamId,
        count_max: u64,
        now_ms: i64,
        mut read: impl FnMut(StreamId, Option<Entry<'_>>),
    ) -> Option<u64> {
        let at = self.search_group(group).ok()?;
        let mut group = GroupMut::new(&mut self.groups.get_mut(at).1, &mut self.part_bytes);
        let group = &mut *group;
        let own = &group.consumers[consumer.0 as usize].as_ref()?.pending;
        let mut cursor = own.at_or_after(&after.next()?.to_key());
        let (mut delivered, mut entries) = (0, Finder::new(&self.nodes));
        while delivered < count_max {
            let Some((key, ())) = cursor.get() else { break };
            cursor.move_next();
            let id = StreamId::from_key(key);
            let entry = entries.find(id);
            if entry.is_some()
                && let Some(pending) = group.pending.get_mut(&key)
            {
                pending.delivered_ms = now_ms;
                pending.deliveries = pending.deliveries.wrapping_add(1);
                group.oldest.note((now_ms, id));
            }
            read(id, entry);
            delivered += 1;
        }
        Some(delivered)
    }
}
