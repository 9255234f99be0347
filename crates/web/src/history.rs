//! What the server did in the last hour, for graphs: a ring of samples, which get fewer as they age.
//!
//! ```text
//!  fine:   a sample a second, the last five minutes
//!  coarse: a sample of ten seconds each, the 55 minutes before; ten fine ones make one
//! ```
//!
//! 1. Samples are numbered; a coarse one has the number of the last fine one in it, so that a reader who has that sample lacks
//!    nothing.
//! 2. A sample holds how far counters have come since the one before, and gauges as they stood at its end, or at their
//!    highest, where it is made of several. A counter that falls (CONFIG RESETSTAT) began again at zero.
//! 3. All of it stays below [`HISTORY_BYTES_MAX`].

use std::collections::VecDeque;

/// How many buckets latencies are sorted into.
pub const LATENCY_BUCKETS: usize = 48;
/// The end of the first bucket; each next one ends at the square root of 2 times that.
pub const LATENCY_FIRST_NS: f64 = 128.0;

/// The most that the history takes.
pub const HISTORY_BYTES_MAX: usize = 512 << 10;
const FINE_MAX: usize = 300;
const COARSE_MAX: usize = 330;
/// Fine samples in a coarse one.
const MERGED: u64 = 10;

const _: () = assert!(
    (FINE_MAX + COARSE_MAX + 1) * 2 * size_of::<Sample>() <= HISTORY_BYTES_MAX,
    "rings may have room for twice as many samples as they hold"
);

/// Counters and gauges, each a field with a name that the API shows.
macro_rules! figures {
    ($name:ident, $names:ident: $($(#[$doc:meta])* $field:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        pub const $names: &[&str] = &[$(stringify!($field)),*];

        impl $name {
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
    commands,
    /// In commands.
    busy_ns,
    errors,
    hits,
    misses,
    input_bytes,
    output_bytes,
    connections,
    rejected_connections,
    expired_keys,
    evicted_keys,
    replication_offset,
);

figures!(Gauges, GAUGES:
    used_bytes,
    resident_bytes,
    maxmemory_bytes,
    clients,
    blocked_clients,
    keys,
    replicas,
);

/// What the server says of itself each second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    pub unix_ms: u64,
    /// Since the start.
    pub counters: Counters,
    pub gauges: Gauges,
    /// Calls since the figures before, by how long they took.
    pub latencies: [u32; LATENCY_BUCKETS],
}

#[derive(Clone, Debug)]
pub struct Sample {
    /// Rises by one a second.
    pub number: u64,
    pub end_ms: u64,
    pub span_ms: u64,
    /// How far they have come.
    pub counters: Counters,
    pub gauges: Gauges,
    pub latencies: [u32; LATENCY_BUCKETS],
}

#[derive(Debug, Default)]
pub struct History {
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// Fine samples that will be a coarse one.
    merging: Option<Sample>,
    last: Option<Figures>,
    number: u64,
}

impl History {
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

    /// Those with a number above `number`, oldest first.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &Sample> {
        self.coarse.iter().chain(&self.merging).chain(&self.fine).filter(move |sample| sample.number > number)
    }

    /// The last sample's number.
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
            // One follows on the other without a gap.
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
        // A clock that is set back makes a short second.
        history.note(figures(1, 31));
        let samples: Vec<(u64, u64)> =
            history.since(0).map(|sample| (sample.counters.commands, sample.span_ms)).collect();
        assert_eq!(samples, [(30, 1000), (1, 1)]);
    }
}
