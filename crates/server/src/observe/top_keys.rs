//! The keys with the largest costs, of many more: Space-Saving (Metwally, Agrawal, El Abbadi, 2005) with random
//! admission (Ben Basat and others, 2017).
//!
//! While there are no more keys than slots, all costs are exact. After that a new key may replace the one with the
//! least cost, and take over that cost, with a probability of its own share of both: a frequent key gets in, and a key
//! that occurs once seldom does, at the cost of a look-up.
//!
//! Rejected: an additional sketch of counters, as Redis has (a cuckoo table of decaying counters): random admission
//! already keeps rare keys from passing through, and the sketch's results are exact for none of them.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use structures::hash::HashSeed;
use structures::random::Random;
use wire::convert::whole_u64;

/// A key and its cost.
struct Kept<const N: usize> {
    key: Vec<u8>,
    hash: u64,
    cost: u64,
    details: [f64; N],
    /// Its index in the heap.
    heap_at: usize,
}

/// The keys with the largest costs, and `N` further figures of each.
///
/// 1. `places` maps the hash of each key in `kept` to its index. Two keys of one hash are not kept at once.
/// 2. `heap` is a binary heap of indices into `kept`, the least cost first, and each entry knows its index there.
pub(super) struct TopKeys<const N: usize> {
    kept_max: usize,
    kept: Vec<Kept<N>>,
    places: HashMap<u64, usize, BuildHasherDefault<SameHash>>,
    heap: Vec<usize>,
    seed: HashSeed,
}

impl<const N: usize> TopKeys<N> {
    pub(super) fn new(kept_max: usize) -> Self {
        // Drawn from the system: clients choose keys, and must not be able to choose collisions.
        let drawn = RandomState::new();
        TopKeys {
            kept_max,
            kept: Vec::new(),
            places: HashMap::default(),
            heap: Vec::new(),
            seed: HashSeed::new(drawn.hash_one(0), drawn.hash_one(1)),
        }
    }

    /// Adds a cost to a key, with its figures in `details`. A key that replaces another starts with that one's cost,
    /// and its figures are scaled up accordingly: so each of them is right on average.
    pub(super) fn add(&mut self, key: &[u8], cost: u64, details: [f64; N], random: &mut Random) {
        if self.kept_max == 0 || cost == 0 {
            return;
        }
        let hash = self.seed.hash(key);
        let (at, part) = match self.places.get(&hash) {
            Some(&at) if self.kept[at].key == key => (at, 1.0),
            Some(_) => return,
            None if self.admits(cost, random) => {
                let at = self.make_place(hash, key);
                (at, (self.kept[at].cost + cost) as f64 / cost as f64)
            }
            None => return,
        };
        let kept = &mut self.kept[at];
        kept.cost += cost;
        kept.details.iter_mut().zip(details).for_each(|(sum, detail)| *sum += detail * part);
        self.sink(self.kept[at].heap_at);
    }

    /// Returns whether a new key gets a slot.
    fn admits(&self, cost: u64, random: &mut Random) -> bool {
        self.kept.len() < self.kept_max || random.below(self.cost_at(0).saturating_add(cost)) < cost
    }

    /// Returns a slot for a new key: that of the least one, with its cost, if all are taken.
    fn make_place(&mut self, hash: u64, key: &[u8]) -> usize {
        if self.kept.len() < self.kept_max {
            let (at, heap_at) = (self.kept.len(), self.heap.len());
            self.kept.push(Kept { key: key.to_vec(), hash, cost: 0, details: [0.0; N], heap_at });
            self.heap.push(at);
            self.places.insert(hash, at);
            self.rise(heap_at);
            return at;
        }
        let at = self.heap[0];
        let kept = &mut self.kept[at];
        kept.key.clear();
        kept.key.extend_from_slice(key);
        kept.details = [0.0; N];
        let before = std::mem::replace(&mut kept.hash, hash);
        self.places.remove(&before);
        self.places.insert(hash, at);
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

    /// Restores the heap after a new entry without cost.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.cost_at(at) < self.cost_at((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Restores the heap after an increased cost.
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

    /// Returns the keys with the largest costs, in descending order.
    pub(super) fn largest(&self, count: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> =
            self.kept.iter().map(|kept| (kept.key.as_slice(), kept.cost)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(count);
        all
    }

    /// Returns all keys with their figures, unordered.
    pub(super) fn details(&self) -> impl Iterator<Item = (&[u8], &[f64; N])> {
        self.kept.iter().map(|kept| (kept.key.as_slice(), &kept.details))
    }

    /// Multiplies all costs and figures. Their order, and so the heap, stays the same.
    pub(super) fn scale(&mut self, factor: f64) {
        for kept in &mut self.kept {
            kept.cost = whole_u64(kept.cost as f64 * factor);
            kept.details.iter_mut().for_each(|detail| *detail *= factor);
        }
    }
}

/// The identity hasher, for values that are hashes already.
#[derive(Default)]
struct SameHash(u64);

impl Hasher for SameHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are written");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check<const N: usize>(top: &TopKeys<N>) {
        assert_eq!((top.places.len(), top.heap.len()), (top.kept.len(), top.kept.len()));
        for (at, kept) in top.kept.iter().enumerate() {
            assert_eq!((top.places[&kept.hash], top.heap[kept.heap_at]), (at, at));
        }
        (1..top.heap.len()).for_each(|at| assert!(top.cost_at((at - 1) / 2) <= top.cost_at(at)));
    }

    #[test]
    fn as_long_as_there_is_room_all_is_exact() {
        let (mut top, mut model, mut random) = (TopKeys::<0>::new(50), BTreeMap::new(), Random::new(1));
        for _ in 0..5000 {
            let (key, cost) = (random.below(50).to_string(), random.below(100));
            top.add(key.as_bytes(), cost, [], &mut random);
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
        let (mut top, mut model, mut random) = (TopKeys::<0>::new(100), BTreeMap::new(), Random::new(2));
        let mut all = 0;
        for _ in 0..20_000 {
            let is_hot = random.below(5) == 0;
            let key = if is_hot { random.below(5) } else { 1000 + random.below(10_000) }.to_string();
            let cost = 1 + random.below(50);
            top.add(key.as_bytes(), cost, [], &mut random);
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
        let (mut top, mut random) = (TopKeys::<1>::new(20), Random::new(4));
        for at in 0..2000 {
            let cost = 1 + random.below(100);
            top.add(random.below(40).to_string().as_bytes(), cost, [cost as f64], &mut random);
            if at % 100 == 0 {
                top.scale(0.7);
                check(&top);
            }
        }
        assert_eq!(top.details().count(), 20);
        for (key, &[detail]) in top.details() {
            let cost = top.largest(20).into_iter().find(|&(other, _)| other == key).unwrap().1 as f64;
            // Costs are whole numbers, and lose up to one each time.
            assert!((cost..cost + 4.0).contains(&detail), "{cost} {detail}");
        }
    }

    /// Keys whose probability falls with their rank, as a power of it.
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
