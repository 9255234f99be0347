//! Lookups of a batch of commands, interleaved: each is split at its cache misses, and while one waits for memory the
//! others continue. They only prefetch lines; a command that runs later looks everything up itself, so a key removed in
//! between, or one that shares its tag with another, costs a fetch and nothing else.
//!
//! ```text
//!   round 1    bucket of A    bucket of B    bucket of C   ...
//!   round 2    entry of A     entry of B     entry of C    ...      strings of up to 128 bytes end here
//!   round 3    collection     (long text)    collection    ...      and others of up to 16 KB here
//!   round 4..  index, columns, record of the element that the command names
//! ```
//!
//! For a command with more keys than a batch holds the other keys are *announced*: when the command looks up the first
//! key of the next piece, that piece is prefetched as a batch of its own.

use super::object::by_type;
use super::value_type::ValueType;
use super::{Db, Key, Object};
use std::ops::Range;
use structures::key_table::{Probe, ProbeState};
use structures::packed_map;

/// What a command accesses inside its key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchTarget<'a> {
    /// The value's head.
    Value,
    /// A field or a member.
    Element(&'a [u8]),
    /// The first element.
    Front,
    /// The last element.
    Back,
}

/// The lookup of one key of a command in the batch. It holds no reference to what is fetched.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    probe: Probe,
    db_index: usize,
    target: PrefetchTarget<'a>,
}

/// Keys of the current command beyond those that its batch has prefetched.
#[derive(Debug, Default)]
pub(super) struct Announced {
    hashes: Vec<u64>,
    /// The hashes before this index are prefetched.
    next: usize,
    piece_keys: usize,
    /// The first key of the next piece; any value while nothing is announced.
    trigger: u64,
}

/// Capacity for announced hashes kept between commands.
const ANNOUNCED_KEPT_MAX: usize = 4096;

/// A table of fewer buckets, with about 12,000 keys, stays in the processor's near caches. Time of GET at pipeline 16
/// with prefetch, relative to without: 1.10 with 100 keys, 1.02 with 10,000, 0.81 with 30,000, 0.74 with 300,000.
/// Rejected: prefetching always from 256 buckets on. A busy server's GET at pipeline 100 took 1.13 with 2,000 keys and
/// 1.08 with 10,000.
const BUCKETS_CACHED_MAX: usize = 2048;
/// A table of fewer buckets, with about 800 keys, returns to the caches with the first lookups.
const BUCKETS_FEW_MAX: usize = 128;
/// After a wait of this length others have used the caches, and a small table is prefetched like a large one. Of 10,000
/// keys, each turn after another server's: 300 GETs took 67 us instead of 106, 65 took 35 instead of 47.
const COLD_AFTER_US: u64 = 100;
/// Number of lookups until the table is assumed to be cached again.
const COLD_LOOKUPS: usize = BUCKETS_CACHED_MAX;

/// How the accessed element is searched for inside a value.
pub enum Search<'a> {
    /// In a packed map.
    Record(packed_map::Probe<'a>),
    /// In a sorted set.
    Ordered(super::sorted_set::Probe<'a>),
    /// By [`ValueType::prefetch_step`].
    Steps,
}

/// A lookup that has found its object.
enum Inside<'a> {
    /// The object is fetched, and the memory it points at is on its way.
    Boxed(&'a Object, PrefetchTarget<'a>),
    Record(packed_map::Probe<'a>),
    Stepwise(&'a Object, PrefetchTarget<'a>, u32),
    Ordered(super::sorted_set::Probe<'a>),
}

impl Db {
    /// The current command looks the key up: fetches the announced keys that follow.
    #[inline]
    pub(super) fn begin_look_up(&mut self, key: Key<'_>) {
        self.change_log.audit.check_named(key.bytes());
        if key.hash() == self.announced.trigger {
            self.fetch_announced();
        }
    }

    /// Whether there are so few keys that the processor's caches hold their table and prefetching only costs. A
    /// collection among them may still be large.
    #[inline]
    pub fn is_in_cache(&self, db_index: usize) -> bool {
        let buckets_max = if self.cold_lookups == 0 { BUCKETS_CACHED_MAX } else { BUCKETS_FEW_MAX };
        self.database(db_index).buckets() < buckets_max
    }

    /// Notes that nothing was looked up for `waited_us`.
    #[inline]
    pub fn note_wait(&mut self, waited_us: u64) {
        if waited_us >= COLD_AFTER_US {
            self.cold_lookups = COLD_LOOKUPS;
        }
    }

    /// Prefetches the bucket of a key, with which [`Db::prefetch`] continues.
    #[inline]
    pub fn begin_lookup<'a>(&self, db_index: usize, hash: u64, target: PrefetchTarget<'a>) -> Lookup<'a> {
        Lookup { probe: self.database(db_index).probe(hash), db_index, target }
    }

    /// Prefetches the memory that the lookups will touch, all of them interleaved.
    pub fn prefetch(&mut self, mut lookups: Vec<Lookup<'_>>) {
        self.cold_lookups = self.cold_lookups.saturating_sub(lookups.len());
        self.figures.count_prefetch(lookups.len());
        let mut inside = Vec::new();
        while !lookups.is_empty() {
            lookups.retain_mut(|lookup| match self.database(lookup.db_index).step_probe(&mut lookup.probe) {
                ProbeState::More => true,
                ProbeState::Done => false,
                ProbeState::Object(object) => {
                    inside.extend(begin(object, lookup.target));
                    false
                }
            });
        }
        while !inside.is_empty() {
            inside.retain_mut(step);
        }
    }

    /// Announces the keys that the current command will look up after those of its batch, in this order.
    pub fn announce<'k>(&mut self, keys: impl Iterator<Item = Key<'k>>, piece_keys: usize) {
        let announced = &mut self.announced;
        announced.hashes.clear();
        announced.hashes.extend(keys.map(|key| key.hash()));
        (announced.next, announced.piece_keys) = (0, piece_keys.max(1));
        announced.trigger = announced.hashes.first().copied().unwrap_or_default();
    }

    /// Drops announced keys that the command has not reached.
    #[inline]
    pub(super) fn forget_announced(&mut self) {
        self.announced.hashes.clear();
        self.announced.next = 0;
        if self.announced.hashes.capacity() > ANNOUNCED_KEPT_MAX {
            self.announced.hashes = Vec::new();
        }
    }

    #[cold]
    fn fetch_announced(&mut self) {
        let Announced { hashes, next, piece_keys, .. } = &self.announced;
        let piece: Range<usize> = *next..hashes.len().min(next + piece_keys);
        if piece.is_empty() {
            return;
        }
        let db_index = self.turn.database;
        let begin = |&hash| self.begin_lookup(db_index, hash, PrefetchTarget::Value);
        let lookups: Vec<Lookup<'_>> = hashes[piece.clone()].iter().map(begin).collect();
        self.prefetch(lookups);
        self.announced.next = piece.end;
        self.announced.trigger = self.announced.hashes.get(piece.end).copied().unwrap_or_default();
    }
}

/// Prefetches the memory that the object points at; `None` if there is nothing else to fetch.
#[inline]
fn begin<'a>(object: &'a Object, target: PrefetchTarget<'a>) -> Option<Inside<'a>> {
    by_type!(object, value => ValueType::prefetch_head(value)).then_some(Inside::Boxed(object, target))
}

/// Advances a lookup inside a value by one fetch; false when it has ended.
#[inline]
fn step(inside: &mut Inside<'_>) -> bool {
    match inside {
        Inside::Boxed(object, target) => match enter(object, *target) {
            Some(next) => {
                *inside = next;
                true
            }
            None => false,
        },
        Inside::Record(probe) => probe.step(),
        Inside::Ordered(probe) => probe.step(),
        Inside::Stepwise(object, target, done) => {
            *done += 1;
            prefetch_step(object, *target, *done)
        }
    }
}

/// Begins the search for the element once the object's head is fetched.
fn enter<'a>(object: &'a Object, target: PrefetchTarget<'a>) -> Option<Inside<'a>> {
    match by_type!(object, value => ValueType::prefetch_search(value, target))? {
        Search::Record(probe) => Some(Inside::Record(probe)),
        Search::Ordered(probe) => Some(Inside::Ordered(probe)),
        Search::Steps => prefetch_step(object, target, 0).then_some(Inside::Stepwise(object, target, 0)),
    }
}

/// Prefetches the next memory that a lookup by steps touches; returns whether there is more.
fn prefetch_step(object: &Object, target: PrefetchTarget<'_>, step: u32) -> bool {
    by_type!(object, value => ValueType::prefetch_step(value, target, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::hash::HashSeed;

    fn filled(keys: u32) -> Db {
        let mut db = Db::new(1, HashSeed::new(1, 2), 3);
        (0..keys).for_each(|i| db.put_string(db.key(&i.to_le_bytes()), b"value", None));
        db
    }

    fn look_up(db: &mut Db, keys: usize) {
        let hash = |i: u32| db.key(&i.to_le_bytes()).hash();
        let lookup = |i| db.begin_lookup(0, hash(i), PrefetchTarget::Value);
        let lookups = (0..keys as u32).map(lookup).collect();
        db.prefetch(lookups);
    }

    #[test]
    fn a_table_that_fits_in_the_cache_is_asked_for_after_a_wait_until_it_has_come() {
        let mut db = filled(9_000);
        assert!((BUCKETS_FEW_MAX..BUCKETS_CACHED_MAX).contains(&db.database(0).buckets()));
        assert!(db.is_in_cache(0));
        db.note_wait(COLD_AFTER_US - 1);
        assert!(db.is_in_cache(0));
        for _ in 0..2 {
            db.note_wait(COLD_AFTER_US);
            look_up(&mut db, COLD_LOOKUPS - 1);
            assert!(!db.is_in_cache(0));
            look_up(&mut db, 32);
            assert!(db.is_in_cache(0));
        }
    }

    #[test]
    fn a_wait_changes_nothing_for_tables_that_are_tiny_or_large() {
        let (mut tiny, mut large) = (filled(300), filled(20_000));
        assert!(tiny.is_in_cache(0) && !large.is_in_cache(0));
        [&mut tiny, &mut large].into_iter().for_each(|db| db.note_wait(u64::MAX));
        assert!(tiny.is_in_cache(0) && !large.is_in_cache(0));
    }
}
