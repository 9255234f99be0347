//! The figures that the event loop reports to the HTTP thread each second, for its history.
//!
//! Latencies are sorted into buckets from the histograms of the commands called since the last report; reading a cold
//! histogram takes 17 us. Separate bucket counters would be read faster, but lack resolution below a microsecond.

use crate::engine::Executor;
use crate::observe::CommandFigures;
use hdrhistogram::Histogram;
use web::{Counters, Figures, Gauges, LATENCY_BUCKETS, LATENCY_FIRST_NS};
use wire::convert::{usize_of, whole_u64};

type Buckets = [u64; LATENCY_BUCKETS];

/// The last reported values of each command, by its id.
#[derive(Default)]
pub struct LastReport {
    commands: Vec<Option<Box<Counted>>>,
}

struct Counted {
    calls: u64,
    buckets: Buckets,
}

impl LastReport {
    /// Returns the figures since the last call.
    pub fn figures(&mut self, executor: &mut Executor) -> Figures {
        let server = &executor.server;
        let (observed, data) = (&server.observed, &executor.db.figures);
        let statistics = &observed.statistics;
        let counters = Counters {
            commands: statistics.commands_processed,
            busy_ns: statistics.command_ns,
            errors: statistics.errors,
            hits: data.hits,
            misses: data.misses,
            input_bytes: statistics.input_bytes,
            output_bytes: statistics.output_bytes + statistics.replication_output_bytes,
            connections: statistics.connections_received,
            rejected_connections: statistics.connections_rejected,
            expired_keys: data.expired_keys,
            evicted_keys: data.evicted_keys,
            replication_offset: observed.replication.offset,
        };
        let mut gauges = Gauges {
            used_bytes: observed.memory.used_bytes(),
            resident_bytes: observed.memory.sample.process_resident_bytes,
            maxmemory_bytes: server.config.maxmemory_bytes,
            clients: server.clients.len() as u64,
            blocked_clients: server.blocked.count() as u64,
            keys: 0,
            replicas: observed.replication.replicas.len() as u64,
        };
        let unix_ms = (server.now.unix_us / 1000).max(0) as u64;
        let latencies = self.latencies(&observed.commands);
        for index in executor.db.databases_in_use() {
            gauges.keys += executor.db.database(index).shown_len() as u64;
        }
        Figures { unix_ms, counters, gauges, latencies }
    }

    /// Returns the calls since the last report.
    fn latencies(&mut self, commands: &[CommandFigures]) -> [u32; LATENCY_BUCKETS] {
        self.commands.resize_with(commands.len(), || None);
        let mut calls = [0u32; LATENCY_BUCKETS];
        for (figures, last) in commands.iter().zip(&mut self.commands) {
            let Some(histogram) = figures.latency.as_ref().map(|latency| latency.histogram()) else {
                *last = None;
                continue;
            };
            let last =
                last.get_or_insert_with(|| Box::new(Counted { calls: 0, buckets: [0; LATENCY_BUCKETS] }));
            if last.calls == histogram.len() {
                continue;
            }
            let buckets = sorted(histogram);
            for (calls, (now, before)) in calls.iter_mut().zip(buckets.iter().zip(&last.buckets)) {
                // Fewer calls than before: CONFIG RESETSTAT has begun a new histogram.
                let more = if histogram.len() > last.calls { now.saturating_sub(*before) } else { *now };
                *calls = calls.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            }
            **last = Counted { calls: histogram.len(), buckets };
        }
        calls
    }
}

fn sorted(histogram: &Histogram<u64>) -> Buckets {
    let mut buckets = [0; LATENCY_BUCKETS];
    for step in histogram.iter_recorded() {
        let ratio = (step.value_iterated_to() as f64 / LATENCY_FIRST_NS).log2() * 2.0;
        let bucket = usize_of(whole_u64(ratio.ceil())).min(LATENCY_BUCKETS - 1);
        buckets[bucket] += step.count_at_value();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_reported_once() {
        let mut last = LastReport::default();
        let mut commands = vec![CommandFigures::default(); 3];
        let mut count = |commands: &[CommandFigures]| last.latencies(commands).iter().sum::<u32>();
        assert_eq!(count(&commands), 0);
        (0..100).for_each(|i| commands[1].count(i * 1000, false, true));
        commands[2].count(u64::MAX, false, true);
        assert_eq!(count(&commands), 101);
        assert_eq!(count(&commands), 0);
        commands[1].count(1, false, true);
        assert_eq!(count(&commands), 1);
        commands[1] = CommandFigures::default();
        assert_eq!(count(&commands), 0);
        commands[1].count(1, false, true);
        assert_eq!(count(&commands), 1);
    }

    #[test]
    fn buckets_end_where_they_say() {
        let mut figures = CommandFigures::default();
        for ns in [1, 127, 140, 1_000_000, 900_000_000] {
            figures.count(ns, false, true);
        }
        let buckets = sorted(figures.latency.as_ref().unwrap().histogram());
        let ends: Vec<(usize, u64)> =
            buckets.iter().copied().enumerate().filter(|(_, calls)| *calls > 0).collect();
        // 128 ns times 2^(26/2) is 1.05 ms, times 2^(46/2) 1.07 s.
        assert_eq!(ends, [(0, 2), (1, 1), (26, 1), (46, 1)]);
    }
}
