//! Rates per second: the mean of the last few samples.

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
            self.samples[self.next] = (grown * factor as u128 / elapsed) as u64;
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    /// Returns the mean of the samples.
    pub fn mean(&self) -> u64 {
        self.samples.iter().sum::<u64>() / SAMPLES as u64
    }
}

/// The rates in INFO stats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub commands: Rate,
    pub input_bytes: Rate,
    pub output_bytes: Rate,
    /// Parts of the above.
    pub replication_input_bytes: Rate,
    pub replication_output_bytes: Rate,
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
}
