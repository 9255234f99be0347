//! Eviction: chooses the key to remove when memory is short. Samples a few keys and keeps the best candidates from call
//! to call, as an approximation of the exact order.

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
pub struct EvictionPool {
    candidates: Vec<Candidate>,
    next_db: usize,
}

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
            AllkeysRandom | VolatileRandom => self.random_victim(policy, pool)?,
            _ => self.sampled_victim(policy, samples, pool)?,
        };
        let hash = self.key_hash(&key);
        let entry = self.keyspace.database(db_index).get(hash, &key);
        let bytes = entry.map_or(0, |entry| self.value_of(entry).memory_bytes());
        self.with_database(db_index, |db| {
            if db.remove_hashed(hash, &key, db.lazy_freeing.evicted) {
                db.free_scattered();
                db.figures.evicted_keys += 1;
                let name: &[u8] = if db.lazy_freeing.evicted { b"UNLINK" } else { b"DEL" };
                db.propagate_removal(&[name, &key], std::iter::empty());
                db.changed_too(EventClasses::EVICTED, "evicted", &key);
            }
        });
        Some(bytes)
    }

    fn random_victim(
        &mut self,
        policy: MaxmemoryPolicy,
        pool: &mut EvictionPool,
    ) -> Option<(usize, Box<[u8]>)> {
        for _ in 0..self.keyspace.in_use_count() {
            let db_index = self.keyspace.next_in_use(pool.next_db)?;
            pool.next_db = db_index + 1;
            let database = self.keyspace.database(db_index);
            let entry = if policy.is_volatile() {
                database.random_expiring(&mut self.random)
            } else {
                database.random(&mut self.random)
            };
            if let Some(entry) = entry {
                return Some((db_index, entry.key().into()));
            }
        }
        None
    }

    fn sampled_victim(
        &mut self,
        policy: MaxmemoryPolicy,
        samples: usize,
        pool: &mut EvictionPool,
    ) -> Option<(usize, Box<[u8]>)> {
        loop {
            let qualify = self.fill_pool(policy, samples, pool);
            while let Some(candidate) = pool.candidates.pop() {
                let database = self.keyspace.database(candidate.db_index);
                let entry = database.get(self.key_hash(&candidate.key), &candidate.key);
                if entry.is_some_and(|e| !policy.is_volatile() || e.expiry_ms().is_some()) {
                    return Some((candidate.db_index, candidate.key));
                }
            }
            if !qualify {
                return None;
            }
        }
    }

    /// Samples some keys of the databases, in turns if there are many; returns whether any qualifies.
    fn fill_pool(&mut self, policy: MaxmemoryPolicy, samples: usize, pool: &mut EvictionPool) -> bool {
        let (access, now_ms) = (&self.access, self.turn.now_ms);
        let in_use = self.keyspace.in_use_count();
        if in_use <= DATABASES_PER_FILL {
            pool.next_db = 0;
        }
        let mut sampled = 0;
        for _ in 0..in_use {
            let Some(db_index) = self.keyspace.next_in_use(pool.next_db) else { break };
            pool.next_db = db_index + 1;
            let database = self.keyspace.database(db_index);
            let qualifying = if policy.is_volatile() { database.expiring_len() } else { database.len() };
            if qualifying == 0 {
                continue;
            }
            database.sample(&mut self.random, samples, policy.is_volatile(), &mut |entry| {
                let merit = match policy {
                    MaxmemoryPolicy::VolatileTtl => u64::MAX - entry.expiry_ms().unwrap_or(i64::MAX) as u64,
                    _ if policy.is_lfu() => 255 - access.frequency(entry.access(), now_ms) as u64,
                    _ => access.idle_ms(entry.access(), now_ms),
                };
                pool.offer(merit, db_index, entry.key());
            });
            sampled += 1;
            if sampled == DATABASES_PER_FILL {
                break;
            }
        }
        sampled > 0
    }
}

impl EvictionPool {
    /// Drops all candidates: the criterion has changed.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }

    fn offer(&mut self, merit: u64, db_index: usize, key: &[u8]) {
        let full = self.candidates.len() == POOL_LEN_MAX;
        if full && merit <= self.candidates[0].merit
            || self.candidates.iter().any(|c| c.db_index == db_index && *c.key == *key)
        {
            return;
        }
        if full {
            self.candidates.remove(0);
        }
        let at = self.candidates.partition_point(|c| c.merit < merit);
        self.candidates.insert(at, Candidate { merit, db_index, key: key.into() });
    }
}
