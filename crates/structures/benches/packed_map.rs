//! Packed pages against std's hash map with two allocations a field, on the same hash and the same allocator.
//!
//! `cargo bench -p warmline-structures --bench packed_map [-- FIELDS ...]` prints bytes and nanoseconds per
//! element. Hot: a map of 1,000 fields. Cold: a map larger than the caches (pass 10000000 and more where the
//! last-level cache is large), visited in random order. Every figure is the median of some runs.

use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use structures::hash::HashSeed;
use structures::packed_map::{Expiry, PackedMap, PackedSet};
use structures::random::Random;
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SEED: HashSeed = HashSeed::new(0x5eed, 0x1dea);
const KEY_BYTES: usize = 10;
type Key = [u8; KEY_BYTES];

/// std's map under the hash that the packed map uses.
#[derive(Clone, Copy)]
struct SameHash;
struct SameHasher(u64);

impl BuildHasher for SameHash {
    type Hasher = SameHasher;
    fn build_hasher(&self) -> SameHasher {
        SameHasher(0)
    }
}

impl Hasher for SameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = SEED.hash(bytes);
    }
    fn write_usize(&mut self, _length_prefix: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

type BoxedMap = HashMap<Box<[u8]>, Box<[u8]>, SameHash>;

/// Bytes that this thread has allocated, by usable size.
fn allocated() -> usize {
    let read = |total: u64, freed: u64| (total - freed) as usize;
    let total = thread::allocatedp::read().expect("jemalloc counts").get();
    read(total, thread::deallocatedp::read().expect("jemalloc counts").get())
}

fn keys(count: usize, first: usize) -> Vec<Key> {
    let mut keys: Vec<Key> = (first..first + count)
        .map(|number| format!("{number:0KEY_BYTES$}").into_bytes().try_into().expect("10 digits"))
        .collect();
    shuffle(&mut keys);
    keys
}

fn shuffle(keys: &mut [Key]) {
    let mut random = Random::new(keys.len() as u64);
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// The interface shared by the two maps.
trait Map {
    const NAME: &str;
    fn new() -> Self;
    fn put(&mut self, field: &[u8], value: &[u8]);
    fn value(&self, field: &[u8]) -> Option<&[u8]>;
    fn delete(&mut self, field: &[u8]) -> bool;
    fn bytes_of_all(&self) -> usize;
}

impl Map for PackedMap {
    const NAME: &str = "packed";
    fn new() -> Self {
        PackedMap::new(SEED)
    }
    fn put(&mut self, field: &[u8], value: &[u8]) {
        self.insert(field, value, Expiry::Keep);
    }
    fn value(&self, field: &[u8]) -> Option<&[u8]> {
        self.get(field)
    }
    fn delete(&mut self, field: &[u8]) -> bool {
        self.remove(field)
    }
    fn bytes_of_all(&self) -> usize {
        self.iter().map(|(field, value)| sum_first(field, value)).sum()
    }
}

impl Map for BoxedMap {
    const NAME: &str = "boxed";
    fn new() -> Self {
        HashMap::with_hasher(SameHash)
    }
    fn put(&mut self, field: &[u8], value: &[u8]) {
        match self.get_mut(field) {
            Some(old) => *old = value.into(),
            None => {
                self.insert(field.into(), value.into());
            }
        }
    }
    fn value(&self, field: &[u8]) -> Option<&[u8]> {
        self.get(field).map(|value| &**value)
    }
    fn delete(&mut self, field: &[u8]) -> bool {
        self.remove(field).is_some()
    }
    fn bytes_of_all(&self) -> usize {
        self.iter().map(|(field, value)| sum_first(field, value)).sum()
    }
}

/// Reads both, as a reply would.
fn sum_first(field: &[u8], value: &[u8]) -> usize {
    usize::from(field[0]) + usize::from(value[0]) + field.len() + value.len()
}

/// Nanoseconds of processor time of this thread, so that other programs do not count.
fn processor_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// Nanoseconds per call, of `count` calls.
fn timed(count: usize, work: impl FnOnce()) -> f64 {
    let start = processor_ns();
    work();
    (processor_ns() - start) as f64 / count as f64
}

fn median(runs: usize, mut run: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..runs).map(|_| run()).collect();
    figures.sort_by(f64::total_cmp);
    figures[runs / 2]
}

/// Looks up all keys, each after the previous result: as commands do, with work between them.
fn chained<M: Map>(map: &M, wanted: &[Key]) {
    let (mut answer, none) = (0, black_box(0));
    for at in 0..wanted.len() {
        let value = map.value(&wanted[at + (answer & none)]);
        answer = value.map_or(0, |value| usize::from(value[0]));
    }
    black_box(answer);
}

/// Smaller sizes are repeated until about this number of operations was timed.
const OPERATIONS_MIN: usize = 1_000_000;

fn speed<M: Map>(fields: usize) {
    let repeats = (OPERATIONS_MIN / fields).max(1);
    let runs = if fields > 3_000_000 { 1 } else { 3 };
    let (mut order, misses) = (keys(fields, 0), keys(fields, fields));
    let insert_ns = median(runs, || {
        let mut total = 0.0;
        for _ in 0..repeats {
            let mut map = M::new();
            total += timed(fields, || order.iter().for_each(|key| map.put(key, key)));
        }
        total / repeats as f64
    });
    let before = allocated();
    let mut map = M::new();
    order.iter().for_each(|key| map.put(key, key));
    let bytes = (allocated() - before) as f64 / fields as f64;
    shuffle(&mut order);
    let get = |wanted: &[Key]| {
        median(runs, || {
            timed(fields * repeats, || {
                for _ in 0..repeats {
                    for key in wanted {
                        black_box(map.value(black_box(key)).map(|value| value[0]));
                    }
                }
            })
        })
    };
    let (hit_ns, miss_ns) = (get(&order), get(&misses));
    let chained_ns = median(runs, || {
        timed(fields * repeats, || {
            for _ in 0..repeats {
                chained(&map, &order);
            }
        })
    });
    let iterate_ns = median(runs, || {
        timed(fields * repeats, || {
            for _ in 0..repeats {
                black_box(black_box(&map).bytes_of_all());
            }
        })
    });
    let replace_ns = median(runs, || {
        timed(fields, || order.iter().for_each(|key| map.put(key, black_box(b"replaced 9"))))
    });
    shuffle(&mut order);
    let remove_ns = timed(fields, || order.iter().for_each(|key| assert!(map.delete(key))));
    println!(
        "{:>9}  {:<7} {bytes:>7.1} {insert_ns:>8.1} {replace_ns:>8.1} {hit_ns:>8.1} {chained_ns:>8.1} {miss_ns:>8.1} {iterate_ns:>8.1} {remove_ns:>8.1}",
        fields,
        M::NAME
    );
}

/// Lookups of 16 keys at a time, their steps interleaved, as for a batch of commands.
fn batched_lookups(fields: usize) {
    const BATCH: usize = 16;
    let mut order = keys(fields, 0);
    let mut map = PackedMap::new(SEED);
    order.iter().for_each(|key| map.put(key, key));
    shuffle(&mut order);
    let ns = median(3, || {
        timed(fields, || {
            for batch in order.chunks(BATCH) {
                let hashes: [u64; BATCH] = std::array::from_fn(|i| map.hash(&batch[i.min(batch.len() - 1)]));
                let mut probes = hashes.map(|hash| map.probe(hash));
                while probes.iter_mut().fold(false, |more, probe| probe.step() | more) {}
                for (key, hash) in batch.iter().zip(hashes) {
                    black_box(map.get_hashed(hash, key).map(|value| value[0]));
                }
            }
        })
    });
    println!("{fields:>9}  packed, get in batches of {BATCH} with probes: {ns:.1} ns");
}

fn map_bytes(fields: usize) -> (f64, PackedMap) {
    let before = allocated();
    let mut map = PackedMap::new(SEED);
    for number in 0..fields {
        let field = format!("{number:0KEY_BYTES$}");
        map.put(field.as_bytes(), field.as_bytes());
    }
    let held = allocated() - before;
    assert_eq!(held, map.memory_bytes(), "memory_bytes equals the allocator's count");
    (held as f64 / fields as f64, map)
}

fn set_bytes(members: usize) -> f64 {
    let before = allocated();
    let mut set = PackedSet::new(SEED);
    for number in 0..members {
        set.insert(format!("{number:0KEY_BYTES$}").as_bytes());
    }
    let held = allocated() - before;
    assert_eq!(held, set.memory_bytes(), "memory_bytes equals the allocator's count");
    held as f64 / members as f64
}

fn memory() {
    println!("bytes an element, allocator-true:\n  elements   map 10+10 B   set 10 B");
    for count in [
        150, 250, 500, 700, 1_000, 10_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 1_000_000,
        1_400_000,
    ] {
        println!("{count:>10} {:>13.2} {:>10.2}", map_bytes(count).0, set_bytes(count));
    }
    let before = allocated();
    let mut map = PackedMap::new(SEED);
    for number in 0..10_000 {
        map.put(number.to_string().as_bytes(), number.to_string().as_bytes());
    }
    println!("10,000 integer fields and values: {:.2}", (allocated() - before) as f64 / 10_000.0);
    let before = allocated();
    let maps: Vec<PackedMap> = (0..1_000).map(|_| map_bytes(1_000).1).collect();
    println!(
        "1,000 maps of 1,000 fields: {:.2}, the maps' own {} B included",
        (allocated() - before) as f64 / 1e6,
        size_of::<PackedMap>()
    );
    drop(maps);
}

fn main() {
    let mut sizes: Vec<usize> =
        std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        memory();
        sizes = vec![1_000, 1_000_000];
    }
    println!("\nnanoseconds, fields and values of 10 B:");
    println!("   fields            bytes   insert  replace      hit  chained     miss  iterate   remove");
    for &fields in &sizes {
        speed::<PackedMap>(fields);
        speed::<BoxedMap>(fields);
    }
    for &fields in &sizes {
        batched_lookups(fields);
    }
}
