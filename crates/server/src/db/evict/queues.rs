//! Eviction by the s3fifo policies; see `access::queues` for the rules.
//!
//! A sample has keys of both queues, and each queue keeps its oldest ones as candidates. So the samples taken for one queue
//! serve the other too, and a candidate is the oldest of more keys than one sample has.
//!
//! Samples favour keys in buckets with few others, which are the older ones. So the queues are counted by whole buckets,
//! which do not.
//!
//! Invariants:
//! 1. A candidate counts only if its key is still in the place in which it was sampled, but for its uses: so a key that was
//!    removed, created again, or moved to main in the meantime is not evicted for its age from before.
//! 2. One eviction judges at most [`JUDGED_MAX`] candidates; the last is evicted even if it was used.

use super::super::access::queues::{Queue, Survey};
use super::{Candidates, DATABASES_PER_FILL, EvictionPool, Victim, for_some_databases, qualifying};
use crate::config::MaxmemoryPolicy;
use crate::db::Db;

/// Candidates that one eviction judges.
const JUDGED_MAX: usize = 64;
/// Samples taken for one queue before a key is taken from the other.
const FILLS_MAX: usize = 4;
/// Evictions between two corrections of the number of keys in small, each by one bucket of each database.
const EVICTIONS_PER_CORRECTION: usize = 16;
/// Buckets for a correction when the queues are counted, in all databases that are looked at.
const COUNTED_BUCKETS: usize = 16;

impl EvictionPool {
    /// The key to evict next; used keys that are met before are kept.
    pub(super) fn queued_victim(
        &mut self,
        db: &mut Db,
        policy: MaxmemoryPolicy,
        samples: usize,
    ) -> Option<Victim> {
        if !self.fill_queues(db, policy, samples) {
            return None;
        }
        self.evictions += 1;
        if self.evictions.is_multiple_of(EVICTIONS_PER_CORRECTION) {
            self.correct_counts(db, policy, 1);
        }
        let mut judged = 0;
        loop {
            let source = db.access.queues()?.source();
            for _ in 0..FILLS_MAX {
                if !self.of(source).0.is_empty() {
                    break;
                }
                if !self.fill_queues(db, policy, samples) {
                    return None;
                }
            }
            let is_missing = self.of(source).0.is_empty();
            let from = if is_missing { source.other() } else { source };
            let Some(candidate) = self.of(from).0.pop() else { continue };
            let (db_index, key) = (candidate.db_index, db.key(&candidate.key));
            let (access, queues) = (db.access.bits, db.access.queues_mut()?);
            if db.keyspace.database(db_index).is_hidden(key.bytes()) {
                continue;
            }
            let Some(mut entry) = db.keyspace.database_mut(db_index).get_mut(key) else {
                continue;
            };
            let place = access.place(entry.as_ref().access());
            let is_there = place.queue == from && merit(queues.arrival(place)) == candidate.merit;
            if !is_there || policy.is_volatile() && entry.as_ref().expiry_ms().is_none() {
                continue;
            }
            judged += 1;
            if !place.is_kept() || judged == JUDGED_MAX {
                db.access.evicted(key.hash(), db_index, place);
                return Some((db_index, candidate.key));
            }
            entry.set_access(queues.keep(place));
        }
    }

    fn of(&mut self, queue: Queue) -> &mut Candidates {
        match queue {
            Queue::Small => &mut self.candidates,
            Queue::Main => &mut self.in_main,
        }
    }

    /// Samples some keys of the databases; returns whether any qualifies.
    fn fill_queues(&mut self, db: &mut Db, policy: MaxmemoryPolicy, samples: usize) -> bool {
        let EvictionPool { candidates: in_small, in_main, next_db, .. } = self;
        let Some(queues) = db.access.queues() else { return false };
        let (keyspace, random) = (&db.keyspace, &mut db.random);
        for_some_databases(keyspace, next_db, policy, |db_index, database| {
            database.sample(random, samples, policy.is_volatile(), &mut |entry| {
                let place = queues.place_of(entry.access());
                let candidates = match place.queue {
                    Queue::Small => &mut *in_small,
                    Queue::Main => &mut *in_main,
                };
                candidates.offer(merit(queues.arrival(place)), true, db_index, entry.key());
            });
        }) > 0
    }

    /// Counts the keys that qualify, and corrects the number of those in small by some buckets of each database; called
    /// now and then.
    pub fn count_queues(&mut self, db: &mut Db, policy: MaxmemoryPolicy) {
        if policy.is_s3fifo() {
            let keys = db.keyspace.iter().map(|(_, database)| qualifying(policy, database)).sum();
            if let Some(queues) = db.access.queues_mut() {
                queues.count(keys);
            }
            let databases = db.keyspace.in_use_count().clamp(1, DATABASES_PER_FILL);
            self.correct_counts(db, policy, COUNTED_BUCKETS / databases);
        }
    }

    fn correct_counts(&mut self, db: &mut Db, policy: MaxmemoryPolicy, buckets: usize) {
        let Some(queues) = db.access.queues() else { return };
        let (keyspace, random) = (&db.keyspace, &mut db.random);
        let (mut survey, mut keys) = (Survey::default(), 0);
        for_some_databases(keyspace, &mut self.next_db, policy, |_, database| {
            let (mut seen, mut small) = (0, 0);
            for _ in 0..buckets {
                database.visit_bucket(random, policy.is_volatile(), &mut |entry| {
                    seen += 1;
                    small += usize::from(queues.place_of(entry.access()).queue == Queue::Small);
                });
            }
            keys += qualifying(policy, database);
            survey.add(qualifying(policy, database), seen, small);
        });
        if let Some(queues) = db.access.queues_mut() {
            if db.keyspace.in_use_count() <= DATABASES_PER_FILL {
                queues.count(keys);
            }
            queues.correct(&survey);
        }
    }
}

/// Keys that arrived earlier have a higher merit.
fn merit(arrival: u64) -> u64 {
    u64::MAX - arrival
}
