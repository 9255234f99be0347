//! Measures single operations and checks them against their bounds.

use structures::hash::HashSeed;
use structures::random::Random;
use structures::work;
use tikv_jemalloc_ctl::thread;

/// The seed of all hashes.
pub const SEED: HashSeed = HashSeed::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

/// Upper bounds of one operation, each in bytes or places of [`work::Work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Bytes requested from the allocator, including those it may have to copy for a larger allocation.
    pub allocated: u64,
    /// Bytes hashed.
    pub hashed: u64,
    /// Bytes moved.
    pub moved: u64,
    /// Places visited.
    pub visited: u64,
}

/// Checks operations against bounds and prints the worst.
pub struct Meter {
    name: &'static str,
    allocated: thread::ThreadLocal<u64>,
    /// The maximum of each over all operations, as a guide for setting bounds.
    worst: Bound,
}

impl Meter {
    /// Creates a meter.
    pub fn new(name: &'static str) -> Meter {
        let allocated = thread::allocatedp::read().expect("jemalloc counts per thread");
        Meter { name, allocated, worst: Bound::default() }
    }

    /// Runs one operation, which must not exceed `bound`.
    pub fn hold<R>(&mut self, bound: Bound, operation: impl FnOnce() -> R) -> R {
        work::take();
        let before = self.allocated.get();
        let result = operation();
        let allocated = self.allocated.get() - before;
        let work::Work { hashed, moved, visited } = work::take();
        let done = Bound { allocated, hashed, moved, visited };
        let within = done.allocated <= bound.allocated
            && done.hashed <= bound.hashed
            && done.moved <= bound.moved
            && done.visited <= bound.visited;
        assert!(within, "{}: {done:?} where {bound:?} is allowed", self.name);
        self.worst = Bound {
            allocated: done.allocated.max(self.worst.allocated),
            hashed: done.hashed.max(self.worst.hashed),
            moved: done.moved.max(self.worst.moved),
            visited: done.visited.max(self.worst.visited),
        };
        result
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        println!("{}: at most {:?}", self.name, self.worst);
    }
}

/// `elements` multiplied by the environment variable `WARMLINE_TEST_SCALE`.
pub fn scaled(elements: u64) -> u64 {
    let scale =
        std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    (elements as f64 * scale) as u64
}

/// An element of up to 16 bytes; neighbouring numbers are far apart in any order.
pub fn element(number: u64) -> Vec<u8> {
    format!("{:x}:{number}", number.wrapping_mul(0x9e37_79b9) as u32).into_bytes()
}

/// An element of `len` bytes.
pub fn long_element(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![b'x'; len];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The numbers below `count`, each once, in an order without a pattern.
pub fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut random = Random::new(seed);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers
}
