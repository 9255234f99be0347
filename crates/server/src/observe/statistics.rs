//! Counters since the start or the last CONFIG RESETSTAT.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Latencies between one nanosecond and one second are kept to two digits.
const LATENCY_NS_MAX: u64 = 1_000_000_000;
const LATENCY_DIGITS: u8 = 2;

/// How often one command ran and how that went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandFigures {
    pub calls: u64,
    pub busy_ns: u64,
    /// Refused before it ran.
    pub rejected: u64,
    /// Ran and answered an error.
    pub failed: u64,
    /// How long each call took, in nanoseconds; made when `latency-tracking` first finds a call to record.
    pub latency: Option<Box<Histogram<u64>>>,
}

impl CommandFigures {
    #[inline]
    pub fn count(&mut self, elapsed_ns: u64, failed: bool, track_latency: bool) {
        self.calls += 1;
        self.busy_ns += elapsed_ns;
        self.failed += failed as u64;
        if track_latency {
            let histogram = self.latency.get_or_insert_with(new_histogram);
            histogram.saturating_record(elapsed_ns.max(1));
        }
    }

    pub fn busy_us(&self) -> u64 {
        self.busy_ns / 1000
    }

    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.rejected == 0 && self.failed == 0
    }
}

#[cold]
fn new_histogram() -> Box<Histogram<u64>> {
    let bounds = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
    Box::new(bounds.expect("the bounds are constants that the crate accepts"))
}

/// Distinct error codes counted; a script can invent more, and counting by code then ends.
const ERROR_CODES_MAX: usize = 128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub commands_processed: u64,
    pub connections_received: u64,
    pub connections_rejected: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub errors: u64,
    pub errors_by_code: BTreeMap<String, u64>,
    pub total_reads: u64,
    pub total_writes: u64,
    /// Turns of the loop, the microseconds spent in them, and of these the ones spent in commands.
    pub loops: u64,
    pub loop_us: u64,
    pub command_ns: u64,
    pub loop_us_max: u64,
    pub commands_per_loop_max: u64,
    /// In periodic work.
    pub cron_us: u64,
    pub expire_time_cap_reached: u64,
    pub evicted_clients: u64,
    pub query_buffer_limit_disconnections: u64,
    pub output_buffer_limit_disconnections: u64,
    pub denied_authentications: u64,
}

impl Statistics {
    /// Notes a turn of the loop in which `commands` ran.
    pub fn count_loop(&mut self, elapsed_us: u64, commands: u64) {
        self.loops += 1;
        self.loop_us += elapsed_us;
        self.loop_us_max = self.loop_us_max.max(elapsed_us);
        self.commands_per_loop_max = self.commands_per_loop_max.max(commands);
    }

    /// Counts an error reply; `line` is its text, code first.
    pub fn count_error(&mut self, line: &str) {
        self.errors += 1;
        let code = crate::error::ClientError::code(line);
        if let Some(count) = self.errors_by_code.get_mut(code) {
            *count += 1;
        } else if self.errors_by_code.len() < ERROR_CODES_MAX {
            self.errors_by_code.insert(code.to_owned(), 1);
        }
    }
}
