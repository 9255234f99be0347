//! Eviction: chooses the key to remove when memory is short. Samples a few keys and keeps the best candidates from call
//! to call, as an approximation of the exact order. The s3fifo policies keep candidates for each of their queues, see
//! `queues`.

mod queues;
#[cfg(test)]
mod tests;

use super::access::Meaning;
use super::keyspace::{Database, Keyspace};
use super::{Db, EventClasses};
use crate::config::MaxmemoryPolicy;

/// Candidates kept between calls.
const POOL_LEN_MAX: usize = 16;

/// Databases whose keys are sampled for one eviction.
const DATABASES_PER_FILL: usize = 16;

#[derive(Clone, Debug)]
struct Candidate {
    /// Higher is evicted first.
    merit: u64,
    db_index: usize,
    key: Box<[u8]>,
}

/// The best candidates seen so far, the best last.
#[derive(Debug, Default)]
struct Candidates(Vec<Candidate>);

/// What is kept between evictions.
#[derive(Debug, Default)]
pub struct EvictionPool {
    /// Of small, with an s3fifo policy.
    candidates: Candidates,
    /// Of main, with an s3fifo policy.
    in_main: Candidates,
    next_db: usize,
    /// With an s3fifo policy.
    evictions: usize,
}

/// Key of a database that is to be evicted.
type Victim = (usize, Box<[u8]>);

impl Db {
    /// Evicts one key and returns its size in bytes, which may be freed a little later; `None` when no key qualifies.
    pub fn evict_one(
        &mut self,
        policy: MaxmemoryPolicy,
        samples: usize,
        pool: &mut EvictionPool,
    ) -> Option<usize> {
        use MaxmemoryPolicy::*;
        let (db_index, key) = match policy {
            NoEviction => return None,
            AllkeysRandom | VolatileRandom => pool.random_victim(self, policy)?,
            AllkeysS3fifo | VolatileS3fifo => pool.queued_victim(self, policy, samples)?,
            _ => pool.sampled_victim(self, policy, samples)?,
        };
        let key = self.key(&key);
        let entry = self.keyspace.database(db_index).get(key);
        let bytes = entry.map_or(0, |entry| self.value_of(entry).memory_bytes());
        self.with_database(db_index, |db| {
            if db.remove_stored(key, db.lazy_freeing.evicted) {
                db.free_scattered();
                db.figures.evicted_keys += 1;
                let name: &[u8] = if db.lazy_freeing.evicted { b"UNLINK" } else { b"DEL" };
                db.propagate_removal(&[name, key.bytes()], std::iter::empty());
                db.changed_too(EventClasses::EVICTED, "evicted", key);
            }
        });
        Some(bytes)
    }

    /// Lets access bits mean what eviction by this policy needs.
    pub fn follow_eviction(&mut self, policy: MaxmemoryPolicy, now_ms: i64) {
        let meaning = match policy {
            _ if policy.is_s3fifo() => Meaning::Queue,
            _ if policy.is_lfu() => Meaning::Frequency,
            _ if policy.is_lrm() => Meaning::LastChange,
            _ => Meaning::LastUse,
        };
        let keys = || self.keyspace.iter().map(|(_, database)| qualifying(policy, database)).sum();
        self.access.follow(meaning, policy.is_volatile(), keys, now_ms);
    }
}

/// Number of keys that the policy may evict: none of hidden slots.
fn qualifying(policy: MaxmemoryPolicy, database: &Database) -> usize {
    if policy.is_volatile() { database.shown_expiring_len() } else { database.shown_len() }
}

impl EvictionPool {
    /// Drops all candidates: the criterion has changed.
    pub fn clear(&mut self) {
        self.candidates.0.clear();
        self.in_main.0.clear();
    }

    fn random_victim(&mut self, db: &mut Db, policy: MaxmemoryPolicy) -> Option<Victim> {
        for _ in 0..db.keyspace.in_use_count() {
            let db_index = db.keyspace.next_in_use(self.next_db)?;
            self.next_db = db_index + 1;
            let database = db.keyspace.database(db_index);
            let entry = if policy.is_volatile() {
                database.random_expiring(&mut db.random)
            } else {
                database.random(&mut db.random)
            };
            if let Some(entry) = entry {
                return Some((db_index, entry.key().into()));
            }
        }
        None
    }

    fn sampled_victim(&mut self, db: &mut Db, policy: MaxmemoryPolicy, samples: usize) -> Option<Victim> {
        loop {
            let qualify = self.fill(db, policy, samples);
            while let Some(candidate) = self.candidates.0.pop() {
                let database = db.keyspace.database(candidate.db_index);
                // The slot may have been hidden since the key was sampled.
                let is_hidden = database.is_hidden(&candidate.key);
                let entry = database.get(db.key(&candidate.key)).filter(|_| !is_hidden);
                if entry.is_some_and(|e| !policy.is_volatile() || e.expiry_ms().is_some()) {
                    return Some((candidate.db_index, candidate.key));
                }
            }
            if !qualify {
                return None;
            }
        }
    }

    /// Samples some keys of the databases; returns whether any qualifies.
    fn fill(&mut self, db: &mut Db, policy: MaxmemoryPolicy, samples: usize) -> bool {
        let (access, now_ms) = (&db.access.bits, db.turn.now_ms);
        let (keyspace, random, candidates) = (&db.keyspace, &mut db.random, &mut self.candidates);
        for_some_databases(keyspace, &mut self.next_db, policy, |db_index, database| {
            database.sample(random, samples, policy.is_volatile(), &mut |entry| {
                let merit = match policy {
                    MaxmemoryPolicy::VolatileTtl => u64::MAX - entry.expiry_ms().unwrap_or(i64::MAX) as u64,
                    _ if policy.is_lfu() => 255 - access.frequency(entry.access(), now_ms) as u64,
                    _ => access.idle_ms(entry.access(), now_ms),
                };
                candidates.offer(merit, false, db_index, entry.key());
            });
        }) > 0
    }
}

/// Calls `visit` with the databases that have keys the policy may evict, in turns from `next_db` on if there are many;
/// returns their number.
fn for_some_databases(
    keyspace: &Keyspace,
    next_db: &mut usize,
    policy: MaxmemoryPolicy,
    mut visit: impl FnMut(usize, &Database),
) -> usize {
    let in_use = keyspace.in_use_count();
    if in_use <= DATABASES_PER_FILL {
        *next_db = 0;
    }
    let mut visited = 0;
    for _ in 0..in_use {
        let Some(db_index) = keyspace.next_in_use(*next_db) else { break };
        *next_db = db_index + 1;
        let database = keyspace.database(db_index);
        if qualifying(policy, database) == 0 {
            continue;
        }
        visit(db_index, database);
        visited += 1;
        if visited == DATABASES_PER_FILL {
            break;
        }
    }
    visited
}

impl Candidates {
    /// Takes the key if it is not there and is better than others. If the merit of a key is `fixed`, so that it is always
    /// offered with the same one, fewer keys have to be compared.
    fn offer(&mut self, merit: u64, fixed: bool, db_index: usize, key: &[u8]) {
        let candidates = &mut self.0;
        let full = candidates.len() == POOL_LEN_MAX;
        if full && merit <= candidates[0].merit
            || candidates
                .iter()
                .any(|c| (!fixed || c.merit == merit) && c.db_index == db_index && *c.key == *key)
        {
            return;
        }
        if full {
            candidates.remove(0);
        }
        let at = candidates.partition_point(|c| c.merit < merit);
        candidates.insert(at, Candidate { merit, db_index, key: key.into() });
    }
}
