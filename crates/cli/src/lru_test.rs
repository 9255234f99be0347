//! `--lru-test`: the server as a cache, where a fifth of the keys receives four fifths of the requests.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use client::print_bytes;
use wire::response::Value;

use crate::Failure;
use crate::session::Session;

const PERIOD: Duration = Duration::from_secs(1);
const PIPELINE_LEN: usize = 250;
const VALUE_LEN: usize = 5;
/// Exponent of the power law that gives a fifth of the keys four fifths of the requests.
const ALPHA: f64 = 6.2;

/// A fast random number generator of low quality.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number from 1 to `max`, small ones with higher probability.
    fn skewed(&mut self, max: u64) -> u64 {
        let end = max as f64 + 1.0;
        let power = (end.powf(ALPHA + 1.0) - 1.0) * self.fraction() + 1.0;
        let drawn = power.powf(1.0 / (ALPHA + 1.0)) as u64;
        max.saturating_sub(drawn.saturating_sub(1)).clamp(1, max)
    }

    fn key(&mut self, keys: u64) -> Vec<u8> {
        format!("lru:{}", self.skewed(keys)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        (0..VALUE_LEN).map(|_| b'A' + (self.next() % u64::from(b'z' - b'A')) as u8).collect()
    }
}

pub fn run(session: &mut Session, keys: u64) -> Result<(), Failure> {
    if keys == 0 {
        return Err(Failure::Usage("--lru-test needs at least one key".to_owned()));
    }
    session.connect()?;
    let mut random = Random(RandomState::new().hash_one(keys) | 1);
    loop {
        let (start, mut hits, mut misses) = (Instant::now(), 0u64, 0u64);
        while start.elapsed() < PERIOD {
            let writes: Vec<Vec<Vec<u8>>> =
                (0..PIPELINE_LEN).map(|_| vec![b"SET".to_vec(), random.key(keys), random.value()]).collect();
            session.pipeline(&writes)?;
            let reads: Vec<Vec<Vec<u8>>> =
                (0..PIPELINE_LEN).map(|_| vec![b"GET".to_vec(), random.key(keys)]).collect();
            for reply in session.pipeline(&reads)? {
                match reply {
                    Value::Error(text) => eprint_line!("{}", String::from_utf8_lossy(&text)),
                    Value::Null => misses += 1,
                    _ => hits += 1,
                }
            }
        }
        print_bytes(row(hits, misses).as_bytes());
    }
}

fn row(hits: u64, misses: u64) -> String {
    let total = hits + misses;
    let percent = |part: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 };
    format!(
        "{total} Gets/sec | Hits: {hits} ({:.2}%) | Misses: {misses} ({:.2}%)\n",
        percent(hits),
        percent(misses)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_keys_is_asked_for_most() {
        let mut random = Random(42);
        let drawn: Vec<u64> = (0..100_000).map(|_| random.skewed(1000)).collect();
        assert!(drawn.iter().all(|key| (1..=1000).contains(key)));
        let popular = drawn.iter().filter(|key| **key <= 200).count();
        assert!((75_000..85_000).contains(&popular), "{popular}");
        assert_eq!(random.skewed(1), 1);
        assert!(random.skewed(u64::MAX) > 0);
    }

    #[test]
    fn rows_tell_shares() {
        assert_eq!(row(3, 1), "4 Gets/sec | Hits: 3 (75.00%) | Misses: 1 (25.00%)\n");
        assert_eq!(row(0, 0), "0 Gets/sec | Hits: 0 (0.00%) | Misses: 0 (0.00%)\n");
    }
}
