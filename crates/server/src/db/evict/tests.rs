//! Eviction by the s3fifo policies, beside exact S3-FIFO and LRU.

use super::*;
use crate::db::access::GivenAccess;
use crate::db::access::queues::QueueFigures;
use crate::db::rdb::LoadedKey;
use crate::db::{ChangeLog, Turn};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use structures::hash::HashSeed;
use structures::random::Random;
use wire::rdb::StringRef;

const SAMPLES: usize = 5;

/// A cache of a number of keys, instead of bytes.
struct Cache {
    db: Db,
    pool: EvictionPool,
    policy: MaxmemoryPolicy,
    capacity: usize,
}

impl Cache {
    fn new(policy: MaxmemoryPolicy, capacity: usize) -> Cache {
        let mut db = Db::new(64, HashSeed::new(3, 4), 5);
        db.begin(Turn::new(0, 1_800_000_000_000));
        db.follow_eviction(policy, 1_800_000_000_000);
        Cache { db, pool: EvictionPool::default(), policy, capacity }
    }

    fn follow(&mut self, policy: MaxmemoryPolicy) {
        self.policy = policy;
        self.pool.clear();
        self.db.follow_eviction(policy, self.db.now_ms());
    }

    /// Looks a key up, and stores it if it is missing; returns whether it was there.
    fn request(&mut self, key: u64) -> bool {
        let bytes = key.to_le_bytes();
        let key = self.db.key(&bytes);
        self.db.begin(self.db.turn());
        if self.db.read(key).is_some() {
            return true;
        }
        while self.db.len() >= self.capacity {
            self.evict().expect("there are keys");
        }
        let expiry_ms = self.policy.is_volatile().then_some(1 << 60);
        self.db.put_string(key, b"value", expiry_ms);
        false
    }

    fn evict(&mut self) -> Option<usize> {
        let evicted = self.db.evict_one(self.policy, SAMPLES, &mut self.pool);
        self.db.change_log = ChangeLog::default();
        evicted
    }

    /// Hits in percent of these requests.
    fn replay(&mut self, trace: &[u64]) -> f64 {
        trace.iter().filter(|&&key| self.request(key)).count() as f64 * 100.0 / trace.len() as f64
    }

    fn figures(&self) -> QueueFigures {
        self.db.access.queues().expect("the policy is s3fifo").figures()
    }

    /// Keys in small, counted.
    fn small_keys(&self) -> usize {
        let database = self.db.database(0);
        database
            .iter()
            .filter(|entry| self.db.access.bits.place(entry.access()).queue.name() == "small")
            .count()
    }
}

/// S3-FIFO as it was published, with three queues.
fn exact_s3fifo(trace: &[u64], capacity: usize) -> f64 {
    let small_max = (capacity / 10).max(1);
    let (mut small, mut main, mut ghost) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let mut ghosts: HashMap<u64, usize> = HashMap::new();
    let mut uses: HashMap<u64, u32> = HashMap::new();
    let mut hits = 0;
    for (at, &key) in trace.iter().enumerate() {
        if let Some(uses) = uses.get_mut(&key) {
            *uses = (*uses + 1).min(3);
            hits += 1;
            continue;
        }
        while uses.len() >= capacity {
            if small.len() >= small_max || main.is_empty() {
                let key: u64 = small.pop_front().expect("small has keys");
                if uses[&key] >= 2 {
                    uses.insert(key, 0);
                    main.push_back(key);
                    continue;
                }
                uses.remove(&key);
                ghosts.insert(key, at);
                ghost.push_back((key, at));
                if ghost.len() > capacity - small_max {
                    let (key, at) = ghost.pop_front().expect("the ghost has keys");
                    if ghosts.get(&key) == Some(&at) {
                        ghosts.remove(&key);
                    }
                }
            } else {
                let key: u64 = main.pop_front().expect("main has keys");
                if uses[&key] > 0 {
                    *uses.get_mut(&key).expect("the key is stored") -= 1;
                    main.push_back(key);
                } else {
                    uses.remove(&key);
                }
            }
        }
        if ghosts.remove(&key).is_some() {
            main.push_back(key)
        } else {
            small.push_back(key)
        }
        uses.insert(key, 0);
    }
    hits as f64 * 100.0 / trace.len() as f64
}

fn exact_lru(trace: &[u64], capacity: usize) -> f64 {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (at, &key) in trace.iter().enumerate() {
        if let Some(before) = last.insert(key, at) {
            order.remove(&before);
            hits += 1;
        } else if last.len() > capacity {
            let (_, oldest) = order.pop_first().expect("there are keys");
            last.remove(&oldest);
        }
        order.insert(at, key);
    }
    hits as f64 * 100.0 / trace.len() as f64
}

/// Requests by Zipf's law with exponent 1; every `scan_every` requests, keys that are requested once.
fn zipf(keys: usize, len: usize, scan_every: usize, seed: u64) -> Vec<u64> {
    let mut sums = Vec::with_capacity(keys);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let (mut random, mut trace, mut next_once) = (Random::new(seed), Vec::new(), keys as u64);
    while trace.len() < len {
        let at = random.unit() * sum;
        trace.push(sums.partition_point(|&below| below < at) as u64);
        if trace.len() % scan_every == 0 {
            trace.extend(next_once..next_once + scan_every as u64 / 4);
            next_once += scan_every as u64 / 4;
        }
    }
    trace
}

/// Points of hit ratio by which the sampled queues may be below exact ones.
const MARGIN: f64 = 1.0;

#[test]
fn hits_are_close_to_exact_s3fifo_and_more_than_with_lru() {
    let scale = std::env::var("WARMLINE_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap());
    for (name, scan_every, least_gains) in
        [("Zipf", usize::MAX, [6.0, 3.0]), ("with scans", 4000, [5.0, 4.0])]
    {
        let trace = zipf(20_000, 150_000 * scale, scan_every, 11);
        for (capacity, least_gain) in [200, 2000].into_iter().zip(least_gains) {
            let (exact, lru) = (exact_s3fifo(&trace, capacity), exact_lru(&trace, capacity));
            for policy in [MaxmemoryPolicy::AllkeysS3fifo, MaxmemoryPolicy::VolatileS3fifo] {
                let hits = Cache::new(policy, capacity).replay(&trace);
                let seen = format!("{name}, {capacity} keys: {hits:.2}, exact {exact:.2}, LRU {lru:.2}");
                assert!(hits > exact - MARGIN, "{seen}");
                assert!(hits > lru + least_gain, "{seen}");
            }
        }
    }
}

#[test]
fn counts_of_the_queues_stay_near_the_truth() {
    let mut cache = Cache::new(MaxmemoryPolicy::AllkeysS3fifo, 2000);
    let trace = zipf(20_000, 60_000, 4000, 12);
    let mut random = Random::new(13);
    for part in trace.chunks(10_000) {
        cache.replay(part);
        let (seen, truth) = (cache.figures(), cache.small_keys());
        assert!(seen.small_keys.abs_diff(truth as u64) < 100, "{seen:?}, {truth} in small");
        assert_eq!(seen.small_keys + seen.main_keys, 2000);
        assert!(seen.promoted_keys > 0 && seen.ghost_hits > 0);
        assert_eq!(seen.ghost_bytes, 4000);
        // What commands remove is not counted, but seen.
        for _ in 0..500 {
            let key = cache.db.random_key().unwrap();
            if random.below(2) == 0 {
                cache.db.remove(cache.db.key(&key));
            }
        }
        (0..100).for_each(|_| cache.pool.count_queues(&mut cache.db, cache.policy));
        let (seen, truth) = (cache.figures(), cache.small_keys());
        assert!(seen.small_keys.abs_diff(truth as u64) < 100, "{seen:?}, {truth} in small after removals");
    }
}

#[test]
fn any_number_of_keys_can_be_evicted_to_the_last() {
    for keys in [1, 5, 127, 128, 129, 1000] {
        for uses in 0..4 {
            let mut cache = Cache::new(MaxmemoryPolicy::AllkeysS3fifo, usize::MAX);
            for key in 0..keys {
                (0..=uses).for_each(|_| _ = cache.request(key));
            }
            assert_eq!(cache.figures().small_keys, keys, "all keys are in small");
            for left in (0..keys).rev() {
                assert!(cache.evict().is_some());
                assert_eq!(cache.db.len() as u64, left);
            }
            assert_eq!(cache.evict(), None);
            (0..keys).for_each(|key| _ = cache.request(key));
            assert_eq!(cache.db.len() as u64, keys);
        }
    }
}

#[test]
fn a_cache_of_few_keys_serves_what_is_used() {
    for capacity in [1, 5, 127, 128, 129] {
        let mut cache = Cache::new(MaxmemoryPolicy::AllkeysS3fifo, capacity);
        let mut random = Random::new(7);
        let used = capacity as u64 / 2;
        for once in 1000..4000 {
            (0..3).for_each(|_| _ = cache.request(random.below(used + 1)));
            cache.request(once);
        }
        assert_eq!(cache.db.len(), capacity);
        let kept = (0..used).filter(|key| cache.db.exists(cache.db.key(&key.to_le_bytes()))).count() as u64;
        assert!(kept * 10 >= used * 9, "{kept} of {used} used keys are left of {capacity}");
    }
}

#[test]
fn one_queue_gives_keys_when_the_other_is_empty() {
    let mut cache = Cache::new(MaxmemoryPolicy::AllkeysS3fifo, usize::MAX);
    for key in 0..100 {
        (0..4).for_each(|_| _ = cache.request(key));
    }
    // All keys of small were used: they move to main, where keys are evicted once small has a tenth.
    (0..30).for_each(|_| assert!(cache.evict().is_some()));
    assert_eq!(cache.db.len(), 70);
    assert!(cache.small_keys() < 15 && cache.figures().promoted_keys > 80, "{:?}", cache.figures());
    // Without any key in small, as after RESTORE of all of them, and without any in main.
    for frequency in [12, 5] {
        cache.db.clear_all(false);
        for key in 0..100u64 {
            let given = GivenAccess { frequency: Some(frequency), idle_s: None };
            let about = LoadedKey { access: given, ..LoadedKey::default() };
            cache.db.load_string(cache.db.key(&key.to_le_bytes()), &StringRef::Integer(1), about);
        }
        let in_small = if frequency == 5 { 100 } else { 0 };
        assert_eq!((cache.db.len(), cache.small_keys()), (100, in_small));
        assert_eq!((0..200).map_while(|_| cache.evict()).count(), 100);
    }
}

#[test]
fn the_volatile_policy_evicts_and_counts_only_keys_with_a_time_to_live() {
    let mut cache = Cache::new(MaxmemoryPolicy::VolatileS3fifo, usize::MAX);
    for key in 0..1000u64 {
        let expiry_ms = (key % 4 == 0).then_some(1 << 60);
        cache.db.put_string(cache.db.key(&key.to_le_bytes()), b"value", expiry_ms);
    }
    assert_eq!(cache.figures().small_keys, 250);
    // A key's time to live may come and go after its creation.
    cache.db.set_expiry(cache.db.key(&1u64.to_le_bytes()), Some(1 << 60));
    cache.db.set_expiry(cache.db.key(&4u64.to_le_bytes()), None);
    let evicted = (0..1000).map_while(|_| cache.evict()).count();
    assert_eq!((evicted, cache.db.len(), cache.db.expiring_len()), (250, 750, 0));
    assert!(
        cache.db.exists(cache.db.key(&4u64.to_le_bytes()))
            && !cache.db.exists(cache.db.key(&1u64.to_le_bytes()))
    );
    cache.follow(MaxmemoryPolicy::AllkeysS3fifo);
    assert_eq!(cache.figures().small_keys + cache.figures().main_keys, 750);
    assert_eq!((0..1000).map_while(|_| cache.evict()).count(), 750);
}

/// SET and EXPIRE, as fields and members need: creation does not say that the key qualifies.
#[test]
fn keys_that_get_their_time_to_live_later_are_counted() {
    let mut cache = Cache::new(MaxmemoryPolicy::VolatileS3fifo, 2000);
    let mut random = Random::new(3);
    for n in 0..40_000u64 {
        let number = if random.below(2) == 0 { random.below(1900) } else { 1900 + n };
        let bytes = number.to_le_bytes();
        let key = cache.db.key(&bytes);
        cache.db.begin(cache.db.turn());
        if cache.db.read(key).is_some() {
            continue;
        }
        while cache.db.len() >= cache.capacity {
            cache.evict().expect("there are keys");
        }
        cache.db.put_string(key, b"value", None);
        cache.db.set_expiry(key, Some(1 << 60));
    }
    let (seen, truth) = (cache.figures(), cache.small_keys() as u64);
    assert!(seen.small_keys.abs_diff(truth) < 100, "{seen:?}, {truth} in small");
    assert!((100..400).contains(&truth), "{truth} of 2000 keys in small");
}

#[test]
fn keys_of_all_databases_are_evicted() {
    let mut cache = Cache::new(MaxmemoryPolicy::AllkeysS3fifo, usize::MAX);
    for key in 0..10u64 {
        for db_index in 0..64 {
            cache.db.begin(Turn::new(db_index, 1_800_000_000_000));
            cache.db.put_string(cache.db.key(&key.to_le_bytes()), b"value", None);
        }
    }
    assert_eq!(cache.figures().small_keys, 640);
    let mut left = HashSet::new();
    for evicted in 1..=640 {
        assert!(cache.evict().is_some(), "{evicted}");
        if evicted == 320 {
            left.extend(cache.db.databases_in_use().filter(|&index| !cache.db.database(index).is_empty()));
        }
        cache.db.step_tables(16);
    }
    assert!(left.len() > 50, "each database gives its oldest keys: {} have some left", left.len());
    assert_eq!(cache.evict(), None);
}

#[test]
fn a_change_of_policy_in_the_midst_loses_no_key_and_little_of_the_hits() {
    use MaxmemoryPolicy::*;
    let trace = zipf(20_000, 60_000, usize::MAX, 14);
    let mut steady = Cache::new(AllkeysS3fifo, 1000);
    steady.replay(&trace);
    let expected = steady.replay(&trace);
    for before in [AllkeysLru, AllkeysLfu, AllkeysLrm, AllkeysRandom, VolatileTtl] {
        let mut cache = Cache::new(before, 1000);
        if before == VolatileTtl {
            // Nothing qualifies for a volatile policy.
            (0..1000u64)
                .for_each(|key| cache.db.put_string(cache.db.key(&key.to_le_bytes()), b"value", None));
            assert_eq!(cache.evict(), None);
        } else {
            cache.replay(&trace);
        }
        assert_eq!(cache.db.len(), 1000);
        cache.follow(AllkeysS3fifo);
        assert_eq!(cache.figures().small_keys, 1000, "all count as new");
        cache.replay(&trace);
        let hits = cache.replay(&trace);
        assert!((hits - expected).abs() < 1.0, "{hits:.2} after {before:?}, {expected:.2} in a steady state");
        assert!(cache.figures().ghost_bytes > 0);
        cache.follow(before);
        assert!(cache.db.access.queues().is_none(), "the ghost is freed");
        let evicted = (0..1000).map_while(|_| cache.evict()).count();
        assert_eq!(evicted, if before.is_volatile() { 0 } else { 1000 });
    }
}
