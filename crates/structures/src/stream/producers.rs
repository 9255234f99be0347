//! Messages that producers asked to be added only once (Redis's idempotent XADD): the recent messages of each producer, and
//! the ids of the entries added for them.
//!
//! ```text
//!  Producers ──> Producer: records, the first made first:  message | id of its entry
//!                          index over them                 hash_index.rs
//!            ──> index over the producers' names
//! ```
//! A record is dropped once its producer has more than `messages_max`, and when its entry's id is `kept_s` old. A message
//! does not trigger a search for all old records: [`Producers::forget_expired`] drops them, some producers at a time, and a
//! lookup skips them.
//!
//! Invariants:
//! 1. Every producer has a record, and none has more than `messages_max`.
//! 2. A producer's records are numbered consecutively, from `first_number` on; its index has each under the hash of its
//!    message, and the index over producers has each under that of its name. No two messages, and no two names, are equal.
//! 3. `message_bytes` is the sum over a producer's records, `producer_bytes` and `records` over the producers.
//! 4. While there are producers, `due_ms` is not [`NEVER_MS`].
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#streams).

use super::hash_index::{HashIndex, NUMBERS};
use super::{Stream, StreamId};
use crate::hash::HashSeed;
use crate::size_class::usable_size;
use crate::work;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// How long messages are kept, and how many of each producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// Seconds that a message is kept.
    pub kept_s: u32,
    /// Messages kept of each producer.
    pub messages_max: u32,
}

impl MessageLimits {
    /// Permitted values of `kept_s`.
    pub const KEPT_S: RangeInclusive<u32> = 1..=86_400;
    /// Permitted values of `messages_max`.
    pub const MESSAGES_MAX: RangeInclusive<u32> = 1..=10_000;

    fn kept_ms(self) -> u64 {
        u64::from(self.kept_s) * 1000
    }
}

impl Default for MessageLimits {
    fn default() -> Self {
        MessageLimits { kept_s: 100, messages_max: 100 }
    }
}

/// Most producers of a stream.
pub const PRODUCERS_MAX: usize = 65_536;
/// Number of producers that are searched for old records with each message.
const PRODUCERS_PER_MESSAGE: usize = 16;
/// Milliseconds between two searches of all producers for old records.
const SEARCHES_APART_MS: u64 = 1000;
/// The queue of records shrinks when fewer than one slot in this number is used.
const SPARSE: usize = 8;
const NEVER_MS: u64 = u64::MAX;

#[derive(Clone)]
struct Record {
    message: Box<[u8]>,
    id: StreamId,
}

#[derive(Clone)]
struct Producer {
    name: Box<[u8]>,
    records: VecDeque<Record>,
    index: HashIndex,
    /// The number of the first record.
    first_number: u32,
    message_bytes: usize,
}

impl Producer {
    fn new(name: &[u8]) -> Producer {
        let (records, index) = (VecDeque::new(), HashIndex::default());
        Producer { name: name.into(), records, index, first_number: 0, message_bytes: 0 }
    }

    /// The index of the record with this number.
    fn place(&self, number: u32) -> usize {
        (number.wrapping_sub(self.first_number).wrapping_add(if number < self.first_number {
            NUMBERS
        } else {
            0
        })) as usize
    }

    /// The number of the record at this index.
    fn number(&self, place: usize) -> u32 {
        ((u64::from(self.first_number) + place as u64) % u64::from(NUMBERS)) as u32
    }

    fn find(&self, hash: u32, message: &[u8]) -> Option<usize> {
        let is_it = |number| *self.records[self.place(number)].message == *message;
        self.index.find(hash, is_it).map(|number| self.place(number))
    }

    fn push(&mut self, hash: u32, message: &[u8], id: StreamId) {
        self.index.insert(hash, self.number(self.records.len()));
        self.message_bytes += usable_size(message.len());
        self.records.push_back(Record { message: message.into(), id });
    }

    fn forget_first(&mut self, seed: HashSeed) {
        let Some(record) = self.records.pop_front() else { return };
        self.message_bytes -= usable_size(record.message.len());
        self.index.remove(hash_of(seed, &record.message), self.first_number);
        self.first_number = (self.first_number + 1) % NUMBERS;
        if self.records.len() < self.records.capacity() / SPARSE {
            self.records.shrink_to(self.records.len() * 2);
        }
    }

    /// Drops the records up to `place`. A message recorded again was too old for the server that recorded it, though
    /// perhaps not by the clock here: a replica's may be behind. It is dropped together with those before it, which were
    /// too old as well: the next record to drop must be the same on both. Returns false, with nothing done, if one before
    /// it is newer.
    fn forget_up_to(&mut self, place: usize, seed: HashSeed) -> bool {
        let old_ms = self.records[place].id.ms;
        let are_old = self.records.range(..place).all(|record| record.id.ms <= old_ms);
        if are_old {
            (0..=place).for_each(|_| self.forget_first(seed));
        }
        are_old
    }

    fn memory_bytes(&self) -> usize {
        let records = usable_size(self.records.capacity() * size_of::<Record>());
        usable_size(self.name.len()) + records + self.index.memory_bytes() + self.message_bytes
    }
}

fn hash_of(seed: HashSeed, text: &[u8]) -> u32 {
    seed.hash(text) as u32
}

/// The producers of a stream and their messages.
pub struct Producers {
    limits: MessageLimits,
    seed: HashSeed,
    producers: Vec<Producer>,
    by_name: HashIndex,
    /// Number of messages ever added.
    added: u64,
    /// Number of messages ever that were duplicates.
    duplicates: u64,
    /// The next producer that the search for old records visits.
    cursor: usize,
    /// When the first record of the producers visited so far is too old.
    next_due_ms: u64,
    due_ms: u64,
    producer_bytes: usize,
    /// Number of records of all producers.
    records: usize,
}

impl Clone for Producers {
    fn clone(&self) -> Producers {
        let (producers, by_name) = (self.producers.clone(), self.by_name.clone());
        // A copy has no spare capacity.
        let producer_bytes = producers.iter().map(Producer::memory_bytes).sum();
        Producers { producers, by_name, producer_bytes, ..*self }
    }
}

impl Producers {
    fn new(limits: MessageLimits, seed: HashSeed) -> Producers {
        Producers {
            limits,
            seed,
            producers: Vec::new(),
            by_name: HashIndex::default(),
            added: 0,
            duplicates: 0,
            cursor: 0,
            next_due_ms: NEVER_MS,
            due_ms: NEVER_MS,
            producer_bytes: 0,
            records: 0,
        }
    }

    /// The limits.
    pub fn limits(&self) -> MessageLimits {
        self.limits
    }

    /// The numbers of messages ever added, and of duplicates.
    pub fn counts(&self) -> (u64, u64) {
        (self.added, self.duplicates)
    }

    /// Sets the counters, for a file that is loaded.
    pub fn set_counts(&mut self, added: u64, duplicates: u64) {
        (self.added, self.duplicates) = (added, duplicates);
    }

    /// Counts a duplicate.
    pub fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
    }

    fn is_expired(&self, id: StreamId, now_ms: u64) -> bool {
        id.ms.saturating_add(self.limits.kept_ms()) <= now_ms
    }

    fn find_producer(&self, name: &[u8]) -> Option<usize> {
        let is_it = |number: u32| *self.producers[number as usize].name == *name;
        self.by_name.find(hash_of(self.seed, name), is_it).map(|number| number as usize)
    }

    /// The entry added for the producer's message, if it is recorded.
    pub fn find(&self, producer: &[u8], message: &[u8], now_ms: u64) -> Option<StreamId> {
        let producer = &self.producers[self.find_producer(producer)?];
        let place = producer.find(hash_of(self.seed, message), message)?;
        Some(producer.records[place].id).filter(|&id| !self.is_expired(id, now_ms))
    }

    /// Returns whether a message of this producer can be recorded.
    pub fn has_room_for(&self, producer: &[u8]) -> bool {
        self.producers.len() < PRODUCERS_MAX || self.find_producer(producer).is_some()
    }

    /// Records the entry added for the producer's message; returns false if there are too many producers.
    pub fn record(&mut self, producer: &[u8], message: &[u8], id: StreamId, now_ms: u64) -> bool {
        self.forget_expired(now_ms, PRODUCERS_PER_MESSAGE);
        let at = match self.find_producer(producer) {
            Some(at) => at,
            None if self.producers.len() == PRODUCERS_MAX => return false,
            None => {
                self.by_name.insert(hash_of(self.seed, producer), self.producers.len() as u32);
                self.producers.push(Producer::new(producer));
                self.producer_bytes += usable_size(producer.len());
                self.producers.len() - 1
            }
        };
        self.producer_bytes -= self.producers[at].memory_bytes();
        self.records -= self.producers[at].records.len();
        let (hash, seed, messages_max) = (hash_of(self.seed, message), self.seed, self.limits.messages_max);
        while self.producers[at].records.front().is_some_and(|first| self.is_expired(first.id, now_ms)) {
            self.producers[at].forget_first(seed);
        }
        let producer = &mut self.producers[at];
        match producer.find(hash, message) {
            Some(place) if !producer.forget_up_to(place, seed) => producer.records[place].id = id,
            _ => {
                if producer.records.len() == messages_max as usize {
                    producer.forget_first(seed);
                }
                producer.push(hash, message, id);
            }
        }
        self.producer_bytes += producer.memory_bytes();
        self.records += producer.records.len();
        let first_ms = producer.records[0].id.ms;
        self.added = self.added.saturating_add(1);
        self.due_ms = self.due_ms.min(first_ms.saturating_add(self.limits.kept_ms()));
        true
    }

    /// When a record may be too old; `None` if there are none.
    pub fn due_ms(&self) -> Option<u64> {
        (self.due_ms != NEVER_MS).then_some(self.due_ms)
    }

    /// Searches `producers_max` producers for records that are too old, from where it stopped, if a search is due.
    pub fn forget_expired(&mut self, now_ms: u64, producers_max: usize) {
        for _ in 0..producers_max {
            if self.due_ms > now_ms {
                return;
            }
            if self.cursor >= self.producers.len() {
                let begins_ms = now_ms.saturating_add(SEARCHES_APART_MS);
                let is_empty = self.producers.is_empty();
                self.due_ms = if is_empty { NEVER_MS } else { self.next_due_ms.max(begins_ms) };
                (self.cursor, self.next_due_ms) = (0, NEVER_MS);
                return;
            }
            self.forget_expired_at_cursor(now_ms);
        }
    }

    fn forget_expired_at_cursor(&mut self, now_ms: u64) {
        self.producer_bytes -= self.producers[self.cursor].memory_bytes();
        while let Some(first) = self.producers[self.cursor].records.front() {
            if !self.is_expired(first.id, now_ms) {
                let due_ms = first.id.ms.saturating_add(self.limits.kept_ms());
                self.next_due_ms = self.next_due_ms.min(due_ms);
                self.producer_bytes += self.producers[self.cursor].memory_bytes();
                self.cursor += 1;
                return;
            }
            self.producers[self.cursor].forget_first(self.seed);
            self.records -= 1;
        }
        let gone = self.producers.swap_remove(self.cursor);
        self.by_name.remove(hash_of(self.seed, &gone.name), self.cursor as u32);
        if let Some(moved) = self.producers.get(self.cursor) {
            let hash = hash_of(self.seed, &moved.name);
            self.by_name.renumber(hash, self.producers.len() as u32, self.cursor as u32);
        }
        if self.producers.len() < self.producers.capacity() / SPARSE {
            self.producers.shrink_to(self.producers.len() * 2);
        }
    }

    /// The numbers of producers and messages, without those that are too old and not dropped yet: if there may be some,
    /// each message is examined.
    pub fn tracked(&self, now_ms: u64) -> (usize, usize) {
        if self.due_ms > now_ms {
            return (self.producers.len(), self.records);
        }
        let lens = self.producers.iter().map(|producer| {
            work::visited(producer.records.len());
            producer.records.iter().filter(|record| !self.is_expired(record.id, now_ms)).count()
        });
        lens.filter(|&len| len > 0).fold((0, 0), |(producers, messages), len| (producers + 1, messages + len))
    }

    /// Number of messages in memory.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Iterates over the producers in the order of their names, each with its messages and their entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = (&[u8], StreamId)>)> {
        let mut sorted: Vec<&Producer> = self.producers.iter().collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        sorted.into_iter().map(|producer| {
            (&*producer.name, producer.records.iter().map(|record| (&*record.message, record.id)))
        })
    }

    fn memory_bytes(&self) -> usize {
        usable_size(size_of::<Producers>())
            + usable_size(self.producers.capacity() * size_of::<Producer>())
            + self.by_name.memory_bytes()
            + self.producer_bytes
    }

    /// Panics unless every documented invariant holds.
    #[cfg(test)]
    fn check(&self) {
        self.by_name.check();
        assert_eq!(self.by_name.len(), self.producers.len());
        for (at, producer) in self.producers.iter().enumerate() {
            assert_eq!(self.find_producer(&producer.name), Some(at));
            producer.index.check();
            assert_eq!(producer.index.len(), producer.records.len());
            assert!((1..=self.limits.messages_max as usize).contains(&producer.records.len()));
            for (place, record) in producer.records.iter().enumerate() {
                let hash = hash_of(self.seed, &record.message);
                assert_eq!(producer.find(hash, &record.message), Some(place));
            }
            let bytes =
                producer.records.iter().map(|record| usable_size(record.message.len())).sum::<usize>();
            assert_eq!(bytes, producer.message_bytes);
        }
        let bytes: usize = self.producers.iter().map(Producer::memory_bytes).sum();
        assert_eq!(bytes, self.producer_bytes);
        let records: usize = self.producers.iter().map(|producer| producer.records.len()).sum();
        assert_eq!(records, self.records);
        assert!(self.producers.is_empty() || self.due_ms != NEVER_MS);
    }
}

impl Stream {
    /// Creates a stream with these limits of producers' messages; with the default ones, it allocates nothing until
    /// necessary.
    pub fn with_message_limits(limits: MessageLimits, seed: HashSeed) -> Stream {
        let mut stream = Stream::new();
        stream.set_message_limits(limits, seed);
        stream
    }

    /// The limits of producers' messages.
    pub fn message_limits(&self) -> MessageLimits {
        self.producers().map_or(MessageLimits::default(), Producers::limits)
    }

    /// Sets the limits; returns whether they changed, in which case all messages are dropped.
    pub fn set_message_limits(&mut self, limits: MessageLimits, seed: HashSeed) -> bool {
        if limits == self.message_limits() {
            return false;
        }
        let before = self.producers_mut(seed).counts();
        let mut producers = Producers::new(limits, seed);
        producers.set_counts(before.0, before.1);
        *self.producers_mut(seed) = producers;
        true
    }

    /// As [`Stream::set_message_limits`], for limits set explicitly: they become the stream's own, even if they equal the
    /// defaults. Returns whether the stream had none of its own.
    pub fn keep_message_limits(&mut self, limits: MessageLimits, seed: HashSeed) -> bool {
        let had_none = self.producers.is_none();
        self.producers_mut(seed);
        self.set_message_limits(limits, seed) || had_none
    }

    /// The producers; `None` while the stream has had no such message, and has no limits of its own.
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// The producers, created if necessary.
    pub fn producers_mut(&mut self, seed: HashSeed) -> &mut Producers {
        self.producers.get_or_insert_with(|| Box::new(Producers::new(MessageLimits::default(), seed)))
    }

    /// See [`Producers::forget_expired`].
    pub fn forget_messages(&mut self, now_ms: u64, producers_max: usize) {
        if let Some(producers) = &mut self.producers {
            producers.forget_expired(now_ms, producers_max);
        }
    }

    pub(super) fn producers_memory_bytes(&self) -> usize {
        self.producers().map_or(0, Producers::memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{scaled, with_seeds};
    use std::collections::BTreeMap;

    const SEED: HashSeed = HashSeed::new(1, 2);

    fn contents(producers: &Producers) -> BTreeMap<Vec<u8>, Vec<(Vec<u8>, StreamId)>> {
        let mut all = BTreeMap::new();
        for (name, records) in producers.iter() {
            all.insert(name.to_vec(), records.map(|(message, id)| (message.to_vec(), id)).collect());
        }
        all
    }

    #[test]
    fn a_model_remembers_the_same() {
        with_seeds(0..scaled(20), |random| {
            let limits = MessageLimits {
                kept_s: 1 + random.below(5) as u32,
                messages_max: 1 + random.below(40) as u32,
            };
            let mut stream = Stream::with_message_limits(limits, SEED);
            let mut model: BTreeMap<Vec<u8>, Vec<(Vec<u8>, StreamId)>> = BTreeMap::new();
            let mut now_ms = 1_000_000;
            for step in 0..3000 {
                now_ms += random.below(4) * random.below(20);
                let name = format!("producer {}", random.below(5)).into_bytes();
                let message = format!("{}", random.below(200)).into_bytes();
                let producers = stream.producers_mut(SEED);
                let is_live = |id: &StreamId| id.ms + u64::from(limits.kept_s) * 1000 > now_ms;
                let of = model.entry(name.clone()).or_default();
                of.retain(|(_, id)| is_live(id));
                let known = of.iter().find(|(other, _)| *other == message).map(|&(_, id)| id);
                assert_eq!(producers.find(&name, &message, now_ms), known);
                if known.is_none() {
                    let id = StreamId::new(now_ms, step as u64);
                    assert!(producers.record(&name, &message, id, now_ms));
                    if of.len() == limits.messages_max as usize {
                        of.remove(0);
                    }
                    of.push((message, id));
                }
                if random.below(50) == 0 {
                    producers.forget_expired(now_ms, random.below(4) as usize);
                }
                producers.check();
            }
            let producers = stream.producers_mut(SEED);
            now_ms += 2000;
            producers.forget_expired(now_ms, 10);
            producers.forget_expired(now_ms + 1000, 10);
            let expired_ms = now_ms + 1000 - u64::from(limits.kept_s) * 1000;
            model.values_mut().for_each(|of| of.retain(|(_, id)| id.ms > expired_ms));
            model.retain(|_, of| !of.is_empty());
            let live = contents(producers);
            assert!(live.iter().all(|(name, of)| of.ends_with(model.get(name).map_or(&[], Vec::as_slice))));
            producers.forget_expired(now_ms + 10_000, usize::MAX);
            producers.forget_expired(now_ms + 20_000, usize::MAX);
            assert!(producers.is_empty() && producers.due_ms().is_none());
            producers.check();
        });
    }

    #[test]
    fn a_copy_whose_clock_is_behind_forgets_the_same_messages() {
        let limits = MessageLimits { kept_s: 100, messages_max: 2 };
        let added = [("m", 0), ("n", 50_000), ("m", 100_000), ("o", 101_000)];
        let known = |behind_ms: u64| {
            let mut stream = Stream::with_message_limits(limits, SEED);
            let producers = stream.producers_mut(SEED);
            for (message, at_ms) in added {
                let id = StreamId::new(1_000_000 + at_ms, 0);
                assert!(producers.record(b"p", message.as_bytes(), id, id.ms - behind_ms));
                producers.check();
            }
            contents(producers)
        };
        assert_eq!(known(500), known(0));
    }

    #[test]
    fn numbers_begin_again() {
        let mut producer = Producer::new(b"p");
        producer.first_number = NUMBERS - 2;
        for n in 0..5u64 {
            let message = n.to_string().into_bytes();
            producer.push(hash_of(SEED, &message), &message, StreamId::new(n, 0));
        }
        let place = |producer: &Producer, n: u64| {
            let message = n.to_string().into_bytes();
            producer.find(hash_of(SEED, &message), &message)
        };
        assert_eq!(
            (0..5).map(|n| place(&producer, n)).collect::<Vec<_>>(),
            (0..5).map(Some).collect::<Vec<_>>()
        );
        (0..3).for_each(|_| producer.forget_first(SEED));
        assert_eq!([2, 3, 4].map(|n| place(&producer, n)), [None, Some(0), Some(1)]);
        producer.index.check();
    }

    #[test]
    fn producers_have_a_limit() {
        let mut stream = Stream::new();
        let id = StreamId::new(1000, 0);
        let producers = stream.producers_mut(SEED);
        for n in 0..PRODUCERS_MAX {
            assert!(producers.record(&n.to_le_bytes(), b"m", id, 1000));
        }
        assert!(!producers.has_room_for(b"another") && !producers.record(b"another", b"m", id, 1000));
        assert!(producers.has_room_for(&7usize.to_le_bytes()));
        producers.forget_expired(1000 + 100_000, usize::MAX);
        assert!(producers.has_room_for(b"another") && producers.memory_bytes() < 10_000);
    }

    #[test]
    fn a_stream_that_uses_none_takes_no_more() {
        assert_eq!(usable_size(size_of::<Stream>()), usable_size(size_of::<Stream>() - size_of::<usize>()));
    }
}
