//! Which keys cost most, while somebody wants to know (HOTKEYS): processor time, and bytes over the network.
//!
//! Each cost has a [`TopKeys`]: Space-Saving (Metwally, Agrawal, El Abbadi, 2005). A key that is not among those kept takes the
//! place of the one with the least cost, and that cost as its own. So whatever has more than one of so many parts of all
//! costs as there are places is among them, told with at most that much too much; and as long as there are no more keys
//! than places, all is exact.
//!
//! Rejected: a sketch of counters beside it, as Redis has (a cuckoo table of decaying counters). It keeps rare keys from
//! passing through, which here costs a place out of ten for each key that is asked for, and is exact for none of them.

use super::process::{CpuTimes, Whose, cpu_times};
use std::collections::HashMap;
use std::sync::Arc;
use structures::random::Random;

/// Places for each key that is asked for.
const PLACES_PER_KEY: usize = 10;
/// Longer keys count in the sums, and are not kept.
const KEY_LEN_MAX: usize = 1024;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub by_cpu: bool,
    pub by_net: bool,
    /// Keys to be answered of each cost.
    pub count: usize,
    /// After so long it ends by itself.
    pub duration_ms: Option<i64>,
    /// One command of so many is looked at.
    pub sample_ratio: u64,
}

/// What a command has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu_ns: u64,
    pub net_bytes: u64,
}

/// What has been collected since the beginning, on the wall clock.
pub struct HotKeys {
    pub options: Options,
    pub started_ms: i64,
    /// How long it went on, if it has ended.
    ended_after_ms: Option<i64>,
    cpu_times_before: CpuTimes,
    /// Of all commands with keys.
    pub total: Cost,
    /// Of what has been looked at, by key.
    pub keys_net_bytes: u64,
    cpu: TopKeys,
    net: TopKeys,
    random: Random,
}

impl HotKeys {
    pub fn begin(options: Options, now_ms: i64) -> Self {
        let places = |is_wanted: bool| if is_wanted { options.count * PLACES_PER_KEY } else { 0 };
        HotKeys {
            options,
            started_ms: now_ms,
            ended_after_ms: None,
            cpu_times_before: cpu_times(Whose::Process),
            total: Cost { cpu_ns: 0, net_bytes: 0 },
            keys_net_bytes: 0,
            cpu: TopKeys::new(places(options.by_cpu)),
            net: TopKeys::new(places(options.by_net)),
            random: Random::new(now_ms as u64),
        }
    }

    /// Whether commands are still to be noted.
    pub fn is_active(&mut self, now_ms: i64) -> bool {
        if let Some(duration_ms) = self.options.duration_ms
            && now_ms.saturating_sub(self.started_ms) >= duration_ms
        {
            self.end(now_ms);
        }
        self.ended_after_ms.is_none()
    }

    pub fn end(&mut self, now_ms: i64) {
        self.ended_after_ms.get_or_insert(now_ms.saturating_sub(self.started_ms));
    }

    /// How long it has gone on.
    pub fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_after_ms.unwrap_or_else(|| now_ms.saturating_sub(self.started_ms))
    }

    /// Processor time of this process since the beginning.
    pub fn cpu_times(&self) -> CpuTimes {
        let (now, before) = (cpu_times(Whose::Process), self.cpu_times_before);
        CpuTimes {
            user: now.user.saturating_sub(before.user),
            system: now.system.saturating_sub(before.system),
        }
    }

    /// Notes a command with keys; whether it is to be looked at.
    pub fn note(&mut self, cost: Cost) -> bool {
        self.total.cpu_ns += cost.cpu_ns;
        self.total.net_bytes += cost.net_bytes;
        self.options.sample_ratio == 1 || self.random.below(self.options.sample_ratio) == 0
    }

    /// Notes what a command has cost for one of its keys.
    pub fn note_key(&mut self, key: &[u8], cost: Cost) {
        self.keys_net_bytes += cost.net_bytes;
        if key.len() <= KEY_LEN_MAX {
            self.cpu.add(key, cost.cpu_ns);
            self.net.add(key, cost.net_bytes);
        }
    }

    /// The keys that have cost most time, in microseconds; those that have cost none are none.
    pub fn by_cpu_us(&self) -> Vec<(&[u8], u64)> {
        let all = self.cpu.largest(self.options.count).into_iter();
        all.map(|(key, ns)| (key, ns / 1000)).filter(|&(_, us)| us > 0).collect()
    }

    pub fn by_net_bytes(&self) -> Vec<(&[u8], u64)> {
        self.net.largest(self.options.count)
    }
}

/// A key and what it has cost.
struct Kept {
    key: Arc<[u8]>,
    cost: u64,
    /// Its place in the heap.
    heap_at: usize,
}

/// The keys with the largest costs.
///
/// 1. `places` has each key that is in `kept`, and where.
/// 2. `heap` is a binary heap of places in `kept`, the least cost first, and each of them knows its place there.
struct TopKeys {
    kept_max: usize,
    kept: Vec<Kept>,
    places: HashMap<Arc<[u8]>, usize>,
    heap: Vec<usize>,
}

impl TopKeys {
    fn new(kept_max: usize) -> Self {
        TopKeys { kept_max, kept: Vec::new(), places: HashMap::new(), heap: Vec::new() }
    }

    fn add(&mut self, key: &[u8], cost: u64) {
        if self.kept_max == 0 || cost == 0 {
            return;
        }
        let at = match self.places.get(key) {
            Some(&at) => at,
            None => self.make_place(key),
        };
        self.kept[at].cost += cost;
        self.sink(self.kept[at].heap_at);
    }

    /// A place for a key that has none: that of the least one if all are taken.
    fn make_place(&mut self, key: &[u8]) -> usize {
        let key: Arc<[u8]> = key.into();
        if self.kept.len() < self.kept_max {
            let (at, heap_at) = (self.kept.len(), self.heap.len());
            self.kept.push(Kept { key: Arc::clone(&key), cost: 0, heap_at });
            self.heap.push(at);
            self.places.insert(key, at);
            self.rise(heap_at);
            return at;
        }
        let at = self.heap[0];
        let before = std::mem::replace(&mut self.kept[at].key, Arc::clone(&key));
        self.places.remove(&before);
        self.places.insert(key, at);
        at
    }

    fn cost_at(&self, heap_at: usize) -> u64 {
        self.kept[self.heap[heap_at]].cost
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.kept[self.heap[a]].heap_at = a;
        self.kept[self.heap[b]].heap_at = b;
    }

    /// A cost has come that is none yet.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.cost_at(at) < self.cost_at((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// A cost has grown.
    fn sink(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..2 * at + 3).filter(|&child| child < self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.cost_at(child)) else { return };
            if self.cost_at(least) >= self.cost_at(at) {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    /// The keys with the largest costs, the largest first.
    fn largest(&self, count: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self.kept.iter().map(|kept| (&*kept.key, kept.cost)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check(top: &TopKeys) {
        assert_eq!((top.places.len(), top.heap.len()), (top.kept.len(), top.kept.len()));
        for (at, kept) in top.kept.iter().enumerate() {
            assert_eq!((top.places[&kept.key], top.heap[kept.heap_at]), (at, at));
        }
        (1..top.heap.len()).for_each(|at| assert!(top.cost_at((at - 1) / 2) <= top.cost_at(at)));
    }

    #[test]
    fn as_long_as_there_is_room_all_is_exact() {
        let (mut top, mut model, mut random) = (TopKeys::new(50), BTreeMap::new(), Random::new(1));
        for _ in 0..5000 {
            let (key, cost) = (random.below(50).to_string(), random.below(100));
            top.add(key.as_bytes(), cost);
            *model.entry(key).or_insert(0) += cost;
        }
        check(&top);
        let mut all: Vec<(&[u8], u64)> = model.iter().map(|(key, &cost)| (key.as_bytes(), cost)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        assert_eq!(top.largest(50), all);
        assert_eq!(top.largest(3), all[..3]);
    }

    #[test]
    fn whatever_has_a_large_part_is_found_among_many() {
        let (mut top, mut model, mut random) = (TopKeys::new(100), BTreeMap::new(), Random::new(2));
        let mut all = 0;
        for _ in 0..20_000 {
            let is_hot = random.below(5) == 0;
            let key = if is_hot { random.below(5) } else { 1000 + random.below(10_000) }.to_string();
            let cost = 1 + random.below(50);
            top.add(key.as_bytes(), cost);
            *model.entry(key).or_insert(0) += cost;
            all += cost;
        }
        check(&top);
        for (key, cost) in top.largest(5) {
            let (key, error_max) = (std::str::from_utf8(key).unwrap(), all / 100);
            assert!(key.len() == 1 && (model[key]..=model[key] + error_max).contains(&cost), "{key}: {cost}");
        }
    }

    #[test]
    fn what_has_a_time_ends_by_itself() {
        let options =
            Options { by_cpu: true, by_net: false, count: 1, duration_ms: Some(2000), sample_ratio: 1 };
        let mut keys = HotKeys::begin(options, 10_000);
        assert!(keys.is_active(11_999));
        assert_eq!(keys.duration_ms(11_999), 1999);
        assert!(!keys.is_active(12_500));
        assert_eq!(keys.duration_ms(99_999), 2500);
        keys.note_key(&[b'k'; KEY_LEN_MAX + 1], Cost { cpu_ns: 5000, net_bytes: 1 });
        keys.note_key(b"k", Cost { cpu_ns: 2500, net_bytes: 1 });
        keys.note_key(b"k", Cost { cpu_ns: 2500, net_bytes: 1 });
        assert_eq!((keys.by_cpu_us(), keys.by_net_bytes()), (vec![(&b"k"[..], 5)], vec![]));
    }
}
