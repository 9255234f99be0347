//! The keys that have paid most, of many more: Space-Saving (Metwally, Agrawal, El Abbadi, 2005) with random admission (Ben
//! Basat and others, 2017).
//!
//! As long as there are no more keys than places, all is exact. Then a key that is not among those kept may take the place of
//! the one with the least cost, and that cost as its own, with a chance of its own part of both: who comes often gets in, and
//! who comes once seldom does, which costs a look-up and no more.
//!
//! Rejected: a sketch of counters beside it, as Redis has (a cuckoo table of decaying counters): what keeps rare keys from
//! passing through is random admission, and what it tells is exact for none of them.

use std::collections::HashMap;
use std::sync::Arc;
use structures::random::Random;

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
pub(super) struct TopKeys {
    kept_max: usize,
    kept: Vec<Kept>,
    places: HashMap<Arc<[u8]>, usize>,
    heap: Vec<usize>,
}

impl TopKeys {
    pub(super) fn new(kept_max: usize) -> Self {
        TopKeys { kept_max, kept: Vec::new(), places: HashMap::new(), heap: Vec::new() }
    }

    pub(super) fn add(&mut self, key: &[u8], cost: u64, random: &mut Random) {
        if self.kept_max == 0 || cost == 0 {
            return;
        }
        let at = match self.places.get(key) {
            Some(&at) => at,
            None if self.admits(cost, random) => self.make_place(key),
            None => return,
        };
        self.kept[at].cost += cost;
        self.sink(self.kept[at].heap_at);
    }

    /// Whether a key that is not kept gets a place.
    fn admits(&self, cost: u64, random: &mut Random) -> bool {
        self.kept.len() < self.kept_max || random.below(self.cost_at(0).saturating_add(cost)) < cost
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
    pub(super) fn largest(&self, count: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self.kept.iter().map(|kept| (&*kept.key, kept.cost)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(count);
        all
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(|kept| &*kept.key)
    }

    /// `None` of a key that is not kept.
    pub(super) fn cost_of(&self, key: &[u8]) -> Option<u64> {
        self.places.get(key).map(|&at| self.kept[at].cost)
    }

    /// Multiplies all costs. They stay in order, so the heap stays one.
    pub(super) fn scale(&mut self, factor: f64) {
        self.kept.iter_mut().for_each(|kept| kept.cost = (kept.cost as f64 * factor) as u64);
    }
}

#[cfg(test)]
pub(super) mod tests {
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
            top.add(key.as_bytes(), cost, &mut random);
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
            top.add(key.as_bytes(), cost, &mut random);
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
    fn costs_that_are_scaled_keep_their_order() {
        let (mut top, mut random) = (TopKeys::new(20), Random::new(4));
        for at in 0..2000 {
            top.add(random.below(40).to_string().as_bytes(), 1 + random.below(100), &mut random);
            if at % 100 == 0 {
                top.scale(0.7);
                check(&top);
            }
        }
        let (key, cost) = top.largest(1)[0];
        assert_eq!(top.cost_of(key), Some(cost));
        assert_eq!((top.cost_of(b"none"), top.keys().count()), (None, 20));
    }

    /// Keys whose chances fall with their place, as a power of it.
    pub(in super::super) struct Zipf {
        sums: Vec<f64>,
    }

    impl Zipf {
        pub(in super::super) fn new(keys: usize, power: f64) -> Zipf {
            let mut sum = 0.0;
            let add = |rank: usize| {
                sum += (rank as f64).powf(-power);
                sum
            };
            Zipf { sums: (1..=keys).map(add).collect() }
        }

        pub(in super::super) fn draw(&self, random: &mut Random) -> usize {
            let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * self.sums[self.sums.len() - 1];
            self.sums.partition_point(|&sum| sum <= at)
        }
    }
}
