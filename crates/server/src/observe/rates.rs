//! Rates per second: the mean of the last few samples.

use wire::convert::low_u64;

/// Samples that make up one rate.
const SAMPLES: usize = 16;

/// One rate, sampled about every tenth of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    samples: [u64; SAMPLES],
    next: usize,
    /// The counters at the last sample.
    last: Option<(u64, u64)>,
}

impl Rate {
    /// Records that the counter is at `total` when its base (time in microseconds, or another counter) is at `base`;
    /// the sample is the growth per `factor` of the base.
    pub fn note(&mut self, total: u64, base: u64, factor: u64) {
        if let Some((last_total, last_base)) = self.last.replace((total, base)) {
            let grown = total.saturating_sub(last_total) as u128;
            let elapsed = base.saturating_sub(last_base).max(1) as u128;
            self.samples[self.next] = u64::try_from(grown * factor as u128 / elapsed).unwrap_or(u64::MAX);
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    /// Returns the mean of the samples.
    pub fn mean(&self) -> u64 {
        // Not below zero and not above the largest sample.
        low_u64(self.samples.iter().map(|&sample| u128::from(sample)).sum::<u128>() / SAMPLES as u128)
    }
}

/// The rates in INFO stats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands processed.
    pub commands: Rate,
    /// Bytes received from clients.
    pub input_bytes: Rate,
    /// Bytes sent to clients.
    pub output_bytes: Rate,
    /// Parts of the above.
    pub replication_input_bytes: Rate,
    /// Bytes sent to replicas.
    pub replication_output_bytes: Rate,
    /// Iterations of the event loop.
    pub loops: Rate,
    /// Microseconds per turn of the loop.
    pub loop_us: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_seen_after_all_samples() {
        let mut rate = Rate::default();
        for i in 0..=SAMPLES as u64 {
            rate.note(i * 50, i * 100_000, 1_000_000);
        }
        assert_eq!(rate.mean(), 500);
        rate.note(0, 10_000_000, 1_000_000);
        assert!(rate.mean() < 500, "a counter set back to zero counts as no growth");
    }

    #[test]
    fn growth_beyond_64_bits_is_the_greatest_that_there_is() {
        let mut rate = Rate::default();
        for i in 0..=SAMPLES as u64 {
            rate.note(i * (1 << 50), i, 1_000_000);
        }
        assert_eq!(rate.mean(), u64::MAX);
    }
}
