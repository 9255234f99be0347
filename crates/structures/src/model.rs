//! Shared by the model tests of this crate: their length and their seeds.

use crate::random::Random;

/// `steps` multiplied by the environment variable `WARMLINE_TEST_SCALE`; far fewer under Miri.
pub fn scaled(steps: u64) -> u64 {
    if cfg!(miri) {
        return steps.div_ceil(200);
    }
    let scale =
        std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    (steps as f64 * scale) as u64
}

/// Runs `test` with several seeds; a failure prints its seed.
pub fn with_seeds(seeds: std::ops::Range<u64>, mut test: impl FnMut(&mut Random)) {
    for seed in seeds {
        let guard = TellSeed(seed);
        test(&mut Random::new(seed));
        std::mem::forget(guard);
    }
}

struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        eprintln!("failed with seed {}", self.0);
    }
}

/// Text of every kind of element: small and large numbers, near-numbers, short and long strings.
pub fn random_text(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => random.below(130).to_string().into_bytes(),
        1 => (random.below(20_000) as i64 - 10_000).to_string().into_bytes(),
        2 => ((random.next_u64() >> random.below(64)) as i64).to_string().into_bytes(),
        3 => (-((random.next_u64() >> (1 + random.below(63))) as i64)).to_string().into_bytes(),
        4 => format!("0{}", random.below(100)).into_bytes(),
        5 => Vec::new(),
        6 => vec![random.below(256) as u8; random.below(200) as usize],
        7 if random.below(20) == 0 => vec![b'x'; random.below(10_000) as usize],
        _ => (0..random.below(20)).map(|_| random.below(256) as u8).collect(),
    }
}
