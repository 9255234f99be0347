//! The server's activity in the last hour, for graphs: a ring of samples whose resolution decreases with age.
//!
//! ```text
//!  fine:   samples of one second, the last five minutes
//!  coarse: samples of ten seconds, the 55 minutes before; each merges ten fine ones
//! ```
//!
//! 1. Samples are numbered. A coarse sample has the number of its last fine one, so that a reader who has that sample
//!    lacks nothing.
//! 2. A sample has the increase of counters since the previous one, and gauges at its end; a merged one has the
//!    maximum of gauges. A counter that falls (CONFIG RESETSTAT) restarted at zero.
//! 3. The total size stays below [`HISTORY_BYTES_MAX`].

use std::collections::VecDeque;

/// Number of latency buckets.
pub const LATENCY_BUCKETS: usize = 48;
/// Upper bound of the first bucket; each next bound is larger by the square root of 2.
pub const LATENCY_FIRST_NS: f64 = 128.0;

/// Maximum size of the history.
pub const HISTORY_BYTES_MAX: usize = 512 << 10;
const FINE_MAX: usize = 300;
const COARSE_MAX: usize = 330;
/// Number of fine samples in a coarse one.
const MERGED: u64 = 10;

const _: () = assert!(
    (FINE_MAX + COARSE_MAX + 1) * 2 * size_of::<Sample>() <= HISTORY_BYTES_MAX,
    "rings may have room for twice as many samples as they hold"
);

/// Defines a struct of counters or gauges, whose field names appear in the API.
macro_rules! figures {
    ($name:ident, $names:ident: $($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Values of a sample.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        /// Names of the fields, in order.
        pub const $names: &[&str] = &[$(stringify!($field)),*];

        impl $name {
            /// Returns the values in the order of the names.
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$field),*]
            }

            fn each(mut self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
                $(self.$field = f(self.$field, other.$field);)*
                self
            }
        }
    };
}

figures!(Counters, COUNTERS:
    /// Commands processed.
    commands,
    /// Nanoseconds spent in commands.
    busy_ns,
    /// Error replies.
    errors,
    /// Key lookups that hit.
    hits,
    /// Key lookups that missed.
    misses,
    /// Bytes received from clients.
    input_bytes,
    /// Bytes sent to clients.
    output_bytes,
    /// Connections accepted.
    connections,
    /// Connections rejected.
    rejected_connections,
    /// Expired keys removed.
    expired_keys,
    /// Keys evicted.
    evicted_keys,
    /// Replication offset.
    replication_offset,
);

figures!(Gauges, GAUGES:
    /// Memory used, as counted by the allocator.
    used_bytes,
    /// Resident memory of the process.
    resident_bytes,
    /// `maxmemory`; 0 is no limit.
    maxmemory_bytes,
    /// Connected clients.
    clients,
    /// Blocked clients.
    blocked_clients,
    /// Keys of all databases.
    keys,
    /// Connected replicas.
    replicas,
);

/// The server's counters and gauges at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Time of the reading.
    pub unix_ms: u64,
    /// Counters since the start.
    pub counters: Counters,
    /// Current values.
    pub gauges: Gauges,
    /// Number of calls since the previous reading, by latency bucket.
    pub latencies: [u32; LATENCY_BUCKETS],
}

/// A sample of the history.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Number of the sample, one per second.
    pub number: u64,
    /// End of the sample's time span.
    pub end_ms: u64,
    /// Length of the time span.
    pub span_ms: u64,
    /// Increase of the counters.
    pub counters: Counters,
    /// Gauges at the end, or their maximum.
    pub gauges: Gauges,
    /// Number of calls by latency bucket.
    pub latencies: [u32; LATENCY_BUCKETS],
}

/// The samples of the last hour.
#[derive(Debug, Default)]
pub struct History {
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// Fine samples to be merged into a coarse one.
    merging: Option<Sample>,
    last: Option<Figures>,
    number: u64,
}

impl History {
    /// Appends the sample between the previous figures and these.
    pub fn note(&mut self, figures: Figures) {
        if let Some(last) = &self.last {
            self.number += 1;
            let grown = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
            let sample = Sample {
                number: self.number,
                end_ms: figures.unix_ms,
                span_ms: figures.unix_ms.saturating_sub(last.unix_ms).max(1),
                counters: figures.counters.each(&last.counters, grown),
                gauges: figures.gauges,
                latencies: figures.latencies,
            };
            self.push(sample);
        }
        self.last = Some(figures);
    }

    fn push(&mut self, sample: Sample) {
        self.fine.push_back(sample);
        if self.fine.len() <= FINE_MAX {
            return;
        }
        let Some(aged) = self.fine.pop_front() else { return };
        let is_full = aged.number.is_multiple_of(MERGED);
        let merged = match self.merging.take() {
            None => aged,
            Some(earlier) => merge(&earlier, &aged),
        };
        if !is_full {
            self.merging = Some(merged);
            return;
        }
        self.coarse.push_back(merged);
        if self.coarse.len() > COARSE_MAX {
            self.coarse.pop_front();
        }
    }

    /// Returns the samples with a number above `number`, oldest first.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &Sample> {
        self.coarse.iter().chain(&self.merging).chain(&self.fine).filter(move |sample| sample.number > number)
    }

    /// Returns the number of the last sample.
    pub fn number(&self) -> u64 {
        self.number
    }
}

fn merge(earlier: &Sample, later: &Sample) -> Sample {
    let mut merged = later.clone();
    merged.span_ms += earlier.span_ms;
    merged.counters = later.counters.each(&earlier.counters, u64::saturating_add);
    merged.gauges = later.gauges.each(&earlier.gauges, u64::max);
    for (count, more) in merged.latencies.iter_mut().zip(&earlier.latencies) {
        *count = count.saturating_add(*more);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(second: u64, commands: u64) -> Figures {
        let mut latencies = [0; LATENCY_BUCKETS];
        latencies[(second % 48) as usize] = 5;
        Figures {
            unix_ms: second * 1000,
            counters: Counters { commands, ..Counters::default() },
            gauges: Gauges { keys: second, ..Gauges::default() },
            latencies,
        }
    }

    #[test]
    fn an_hour_is_kept_and_nothing_is_counted_twice() {
        let mut history = History::default();
        for second in 0..5000 {
            history.note(figures(second, second * 7));
            let samples: Vec<&Sample> = history.since(0).collect();
            assert!(samples.len() <= FINE_MAX + COARSE_MAX + 1);
            // Consecutive samples have no gap.
            for pair in samples.windows(2) {
                assert!(pair[0].number < pair[1].number);
                assert_eq!(pair[1].end_ms - pair[1].span_ms, pair[0].end_ms);
            }
            for sample in &samples {
                let seconds = sample.span_ms / 1000;
                assert_eq!(sample.counters.commands, seconds * 7);
                assert_eq!(sample.latencies.iter().sum::<u32>(), seconds as u32 * 5);
                assert_eq!(sample.gauges.keys, sample.end_ms / 1000);
            }
            if second > 3700 {
                assert!(samples[0].end_ms <= (second - 3590) * 1000, "{second}");
            }
        }
        assert_eq!(history.since(history.number()).count(), 0);
        assert_eq!(history.since(history.number() - 3).count(), 3);
    }

    #[test]
    fn counters_that_fall_began_again() {
        let mut history = History::default();
        history.note(figures(1, 100));
        history.note(figures(2, 30));
        // If the clock is set back, the sample's span is short.
        history.note(figures(1, 31));
        let samples: Vec<(u64, u64)> =
            history.since(0).map(|sample| (sample.counters.commands, sample.span_ms)).collect();
        assert_eq!(samples, [(30, 1000), (1, 1)]);
    }
}
