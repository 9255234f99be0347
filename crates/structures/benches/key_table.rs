//! The keyspace table against std's HashMap: bytes per key, and nanoseconds per operation at random keys.
//!
//! `cargo bench -p warmline-structures --bench key_table [-- sizes...]`, sizes in keys.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use structures::hash::HashSeed;
use structures::key_table::{KeyTable, NewValue, Probe, ProbeState, Value};
use structures::random::Random;
use structures::size_class::size_class;

/// Counts live bytes in jemalloc's size classes with quantum 8: each request is rounded up to its class.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VALUE: &[u8] = b"0123456789";
const OPERATIONS: usize = 1_000_000;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// CPU time of this thread, which is less disturbed on a shared machine.
fn cpu_ns() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library, which std links, writes one timespec: two 64-bit words on 64-bit Linux.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// CPU time per operation, best of three.
fn nanoseconds(mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = cpu_ns();
        run();
        best = best.min((cpu_ns() - start) as f64 / OPERATIONS as f64);
    }
    best
}

struct Row {
    name: &'static str,
    bytes_per_key: f64,
    put: f64,
    put_slowest_us: f64,
    get: f64,
    miss: f64,
    replace: f64,
    batched: f64,
    remove: f64,
}

/// Random numbers of present or (`offset`) absent keys, drawn before the clock runs.
fn draws(keys: usize, offset: usize) -> Vec<[u8; 16]> {
    let mut random = Random::new(42);
    (0..OPERATIONS).map(|_| key(random.below(keys as u64) + offset as u64)).collect()
}

/// Builds and empties the table; best of several when that is quick.
fn build<M>(
    keys: usize,
    new: impl Fn() -> M,
    put: impl Fn(&mut M, u64),
    remove: impl Fn(&mut M, u64),
) -> (f64, f64) {
    let (mut best_put, mut best_remove) = (f64::MAX, f64::MAX);
    for _ in 0..(2_000_000 / keys).clamp(1, 50) {
        let mut map = new();
        let start = cpu_ns();
        (0..keys as u64).for_each(|i| put(&mut map, i));
        best_put = best_put.min((cpu_ns() - start) as f64 / keys as f64);
        let start = cpu_ns();
        (0..keys as u64).for_each(|i| remove(&mut map, i));
        best_remove = best_remove.min((cpu_ns() - start) as f64 / keys as f64);
    }
    (best_put, best_remove)
}

fn slowest_us<M>(keys: usize, map: &mut M, put: impl Fn(&mut M, u64)) -> f64 {
    let slowest = (0..keys as u64).map(|i| {
        let start = cpu_ns();
        put(map, i);
        cpu_ns() - start
    });
    slowest.max().unwrap_or(0) as f64 / 1e3
}

type Table = KeyTable<Box<u64>>;

fn put_table(table: &mut Table, i: u64) {
    let key = key(i);
    table.put(table.hash(&key), &key, NewValue::Inline(VALUE), None, 0);
}

fn remove_table(table: &mut Table, i: u64) {
    let key = key(i);
    black_box(table.remove(table.hash(&key), &key));
}

fn measure_table(keys: usize) -> Row {
    let new = || Table::new(HashSeed::new(1, 2));
    let (put, remove) = build(keys, new, put_table, remove_table);
    let mut table = new();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let put_slowest_us = slowest_us(keys, &mut table, put_table);
    let bytes_per_key = (LIVE_BYTES.load(Ordering::Relaxed) - before) as f64 / keys as f64;
    let (hits, misses) = (draws(keys, 0), draws(keys, keys));
    let get = |keys: &[[u8; 16]]| {
        for key in keys {
            if let Some(entry) = table.get(table.hash(key), key)
                && let Value::Inline(bytes) = entry.value()
            {
                black_box(bytes[0]);
            }
        }
    };
    let (get, miss) = (nanoseconds(|| get(&hits)), nanoseconds(|| get(&misses)));
    let batched = nanoseconds(|| get_batched(&table, &hits));
    let replace = nanoseconds(|| {
        for key in &hits {
            table.put(table.hash(key), key, NewValue::Inline(VALUE), None, 1);
        }
    });
    Row { name: "key table", bytes_per_key, put, put_slowest_us, get, miss, replace, batched, remove }
}

fn get_batched(table: &KeyTable<Box<u64>>, keys: &[[u8; 16]]) {
    for batch in keys.chunks(16) {
        let mut hashes = [0; 16];
        let mut probes = [const { None }; 16];
        for (i, key) in batch.iter().enumerate() {
            hashes[i] = table.hash(key);
            probes[i] = Some(Probe::start(table, hashes[i]));
        }
        let mut going = true;
        while std::mem::take(&mut going) {
            for probe in probes.iter_mut().flatten() {
                going |= matches!(probe.step(table), ProbeState::More);
            }
        }
        for (i, key) in batch.iter().enumerate() {
            if let Some(entry) = table.get(hashes[i], key)
                && let Value::Inline(bytes) = entry.value()
            {
                black_box(bytes[0]);
            }
        }
    }
}

#[derive(Clone)]
struct Sip(HashSeed);

struct SipState(HashSeed, u64);

impl BuildHasher for Sip {
    type Hasher = SipState;
    fn build_hasher(&self) -> SipState {
        SipState(self.0, 0)
    }
}

impl Hasher for SipState {
    fn write(&mut self, bytes: &[u8]) {
        self.1 = self.0.hash(bytes);
    }
    fn write_usize(&mut self, _: usize) {}
    fn finish(&self) -> u64 {
        self.1
    }
}

/// Uses the table's hash, so that only the tables differ.
type Std = HashMap<Box<[u8]>, Box<[u8]>, Sip>;

fn put_std(map: &mut Std, i: u64) {
    map.insert(key(i).as_slice().into(), VALUE.into());
}

fn remove_std(map: &mut Std, i: u64) {
    black_box(map.remove(key(i).as_slice()));
}

fn measure_std(keys: usize) -> Row {
    let new = || Std::with_hasher(Sip(HashSeed::new(1, 2)));
    let (put, remove) = build(keys, new, put_std, remove_std);
    let mut map = new();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let put_slowest_us = slowest_us(keys, &mut map, put_std);
    let bytes_per_key = (LIVE_BYTES.load(Ordering::Relaxed) - before) as f64 / keys as f64;
    let (hits, misses) = (draws(keys, 0), draws(keys, keys));
    let get = |keys: &[[u8; 16]]| {
        for key in keys {
            if let Some(value) = map.get(key.as_slice()) {
                black_box(value[0]);
            }
        }
    };
    let (get, miss) = (nanoseconds(|| get(&hits)), nanoseconds(|| get(&misses)));
    let replace = nanoseconds(|| {
        for key in &hits {
            map.insert(key.as_slice().into(), VALUE.into());
        }
    });
    Row {
        name: "std HashMap",
        bytes_per_key,
        put,
        put_slowest_us,
        get,
        miss,
        replace,
        batched: f64::NAN,
        remove,
    }
}

fn print(keys: usize, row: Row) {
    println!(
        "{keys:>9} {:<12} {:>8.1} {:>8.1} {:>12.1} {:>8.1} {:>8.1} {:>8.1} {:>12.1} {:>8.1}",
        row.name,
        row.bytes_per_key,
        row.put,
        row.put_slowest_us,
        row.get,
        row.miss,
        row.replace,
        row.batched,
        row.remove
    );
}

fn hash_speed() {
    let seed = HashSeed::new(1, 2);
    let bytes = [7u8; 64];
    for len in [3, 8, 10, 16, 20, 24, 40] {
        let ns = nanoseconds(|| {
            for i in 0..OPERATIONS {
                let at = i & 7;
                black_box(seed.hash(black_box(&bytes[at..at + len])));
            }
        });
        print!("hash of {len} bytes: {ns:.1} ns   ");
    }
    println!();
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 1_000_000, 5_000_000];
    }
    hash_speed();
    println!(
        "     keys               B/key   put ns  put slowest us  get ns  miss ns  replace  get x16 ns   remove"
    );
    for keys in sizes {
        print(keys, measure_table(keys));
        print(keys, measure_std(keys));
    }
}
