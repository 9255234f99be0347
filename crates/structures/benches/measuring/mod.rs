//! Shared by the benchmarks: the allocator and its count, the size of the last-level cache, time slices of which the
//! least disturbed are kept, and results as JSON under `target/structures/`.
//!
//! Environment: `WARMLINE_BENCH_SIZES=128,1000` instead of the default sizes, `WARMLINE_BENCH_LARGE=1` for 10 million
//! members too, `WARMLINE_BENCH_COLD=8` for cold collections of eight times the last-level cache instead of twice,
//! `WARMLINE_BENCH_HOT=1` for hot ordered sets alone, `WARMLINE_BENCH_PASSES=2` to measure all twice and keep the
//! faster, `WARMLINE_BENCH_QUICK=1` for a tenth of the operations (a smoke test).

#![allow(dead_code)]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;
use structures::random::Random;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Slices of a plan.
const SLICES: usize = 60;

/// Bytes that this thread has allocated and not freed, in the allocator's size classes: the true cost in memory.
pub fn allocated_bytes() -> u64 {
    let allocated = tikv_jemalloc_ctl::thread::allocatedp::read().expect("jemalloc counts per thread").get();
    let freed = tikv_jemalloc_ctl::thread::deallocatedp::read().expect("jemalloc counts per thread").get();
    allocated.wrapping_sub(freed)
}

/// The largest cache of the first processor, from sysfs; 32 MiB where there is none.
pub fn last_level_cache_bytes() -> u64 {
    let directory = std::path::Path::new("/sys/devices/system/cpu/cpu0/cache");
    let size = |index: usize| {
        let text = std::fs::read_to_string(directory.join(format!("index{index}/size"))).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
}

/// Number of passes, of which each figure's lowest is kept: 1, or `WARMLINE_BENCH_PASSES`.
pub fn passes() -> usize {
    let passes = std::env::var("WARMLINE_BENCH_PASSES").ok();
    passes.map_or(1, |passes| passes.parse().expect("a number of passes"))
}

/// Total size of cold collections: twice the last-level cache, or `WARMLINE_BENCH_COLD` times.
pub fn cold_bytes() -> u64 {
    let times = std::env::var("WARMLINE_BENCH_COLD").ok();
    let times = times.map_or(2, |times| times.parse().expect("a number of last-level caches"));
    times * last_level_cache_bytes()
}

/// Returns whether the environment variable is set.
pub fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty() && value != "0")
}

/// Collection sizes to measure, ascending.
pub fn sizes() -> Vec<usize> {
    if let Ok(list) = std::env::var("WARMLINE_BENCH_SIZES") {
        return list.split(',').map(|size| size.trim().parse().expect("sizes are numbers")).collect();
    }
    let mut sizes = vec![128, 1_000, 10_000, 100_000, 1_000_000];
    if is_set("WARMLINE_BENCH_LARGE") {
        sizes.push(10_000_000);
    }
    sizes
}

/// `operations`, or a tenth of them in a quick run.
pub fn scaled(operations: usize) -> usize {
    if is_set("WARMLINE_BENCH_QUICK") { operations.div_ceil(10) } else { operations }
}

/// Times of short slices of a measurement. Other load on the machine only adds to a slice, and affects some and not
/// others, so the figure kept is the lowest decile.
#[derive(Default)]
pub struct Slices {
    ns_per_operation: Vec<f64>,
}

impl Slices {
    /// Times `work` as one slice of this number of operations.
    pub fn add(&mut self, operations: usize, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        self.ns_per_operation.push(start.elapsed().as_nanos() as f64 / operations as f64);
    }

    /// Runs a plan in slices.
    pub fn add_all<T>(&mut self, plan: &[T], mut body: impl FnMut(&T)) {
        for slice in plan.chunks(plan.len().div_ceil(SLICES).max(1)) {
            self.add(slice.len(), || slice.iter().for_each(&mut body));
        }
    }

    /// Nanoseconds per operation.
    pub fn lowest_decile(mut self) -> f64 {
        self.ns_per_operation.sort_by(f64::total_cmp);
        self.ns_per_operation[self.ns_per_operation.len() / 10]
    }
}

/// Evicts the contents of the caches.
pub fn evict_caches() {
    static FILL: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let mut fill = FILL.lock().expect("the lock is not poisoned");
    fill.resize(2 * last_level_cache_bytes() as usize / 8, 1);
    fill.iter_mut().step_by(8).for_each(|word| *word = word.wrapping_add(1));
}

/// Shuffles visits that are made to a number of places in turn: still in turn, to each place in another order.
pub fn shuffle_visits<T>(plan: &mut [T], places: usize, random: &mut Random) {
    for visit in (1..plan.len() / places).rev() {
        let other = random.below(visit as u64 + 1) as usize;
        (0..places).for_each(|place| plan.swap(visit * places + place, other * places + place));
    }
}

/// Sixteen hexadecimal digits without a pattern from which a structure could profit.
pub fn hexadecimal(number: u64) -> [u8; 16] {
    let mixed = Random::new(number).next_u64();
    std::array::from_fn(|digit| b"0123456789abcdef"[(mixed >> (4 * digit) & 15) as usize])
}

/// Rows of this benchmark, to be written to a file.
static ROWS: Mutex<Vec<Value>> = Mutex::new(Vec::new());

/// Adds a row, or keeps the faster one of the same row in two passes.
fn add(row: Value) {
    let mut rows = ROWS.lock().expect("no row panics");
    let what = ["structure", "operation", "shape", "size", "temperature"];
    let known = rows.iter_mut().find(|known| what.iter().all(|name| known[name] == row[name]));
    match known {
        Some(known) if known["ns"].as_f64() > row["ns"].as_f64() => *known = row,
        Some(_) => {}
        None => rows.push(row),
    }
}

/// Records the nanoseconds of an operation of a structure of `size` elements; `temperature` is "hot" or "cold".
pub fn note_time(structure: &str, operation: &str, size: usize, temperature: &str, ns: f64) {
    println!("{structure:26} {operation:46} {size:>9} {temperature:4} {ns:12.1} ns");
    add(json!({
        "structure": structure, "operation": operation, "size": size, "temperature": temperature, "ns": ns,
    }));
}

/// Records the bytes per element of a structure of `size` elements, in the allocator's size classes.
pub fn note_memory(structure: &str, shape: &str, size: usize, bytes: f64) {
    println!("{structure:26} {shape:46} {size:>9}      {bytes:12.2} B an element");
    add(json!({ "structure": structure, "shape": shape, "size": size, "bytes": bytes }));
}

/// Writes `target/structures/<name>.json`.
pub fn save(name: &str) {
    let rows = std::mem::take(&mut *ROWS.lock().expect("no row panics"));
    let document = json!({
        "processor": processor(),
        "last_level_cache_bytes": last_level_cache_bytes(),
        "cold_bytes": cold_bytes(),
        "quick": is_set("WARMLINE_BENCH_QUICK"),
        "rows": rows,
    });
    std::fs::create_dir_all(directory()).expect("the target directory can be written");
    let path = directory().join(format!("{name}.json"));
    std::fs::write(&path, format!("{document:#}\n")).expect("the target directory can be written");
}

/// The directory of the results.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("structures")
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or(std::env::consts::ARCH, |rest| rest.trim_start_matches([' ', '\t', ':'])).to_string()
}
