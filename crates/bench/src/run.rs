//! Runs a test with its threads.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::connection::LoadError;
use crate::load::{self, Shared, Test};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which threads are checked for their end.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Results of a test.
pub struct Measured {
    /// Duration without the warm-up.
    pub elapsed: Duration,
    /// Number of replies.
    pub commands: u64,
    /// Number of error replies, and the text of the first.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Requests per second, in intervals of a quarter of a second.
    pub rates: Vec<f64>,
}

/// Counts since the start of the test, and since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub is_warming: bool,
    pub elapsed: Duration,
    pub commands: u64,
    pub latency_sum_ns: u64,
    pub recent_elapsed: Duration,
    pub recent_commands: u64,
    pub recent_latency_sum_ns: u64,
}

/// Runs a test; `watch` receives its progress four times a second.
pub fn run(test: &Test<'_>, mut watch: impl FnMut(&Progress)) -> Result<Measured, LoadError> {
    let shared = Shared::new(test);
    let mut rates = Vec::new();
    thread::scope(|scope| {
        let shared = &shared;
        let running: Vec<_> =
            (0..test.threads).map(|thread| scope.spawn(move || load::run(test, shared, thread))).collect();
        let (mut last, mut last_told) = (Progress::default(), Instant::now());
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(LOOK_INTERVAL);
            if last_told.elapsed() >= PROGRESS_INTERVAL && shared.start.get().is_some() {
                last_told = Instant::now();
                last = progress(test, shared, &last);
                if !last.is_warming {
                    rates.push(last.recent_commands as f64 / last.recent_elapsed.as_secs_f64());
                }
                watch(&last);
            }
        }
        let mut latencies = load::new_histogram(test.precision);
        let (mut outcome, mut ended) = (Ok(()), None);
        for thread in running {
            match thread.join() {
                Ok(Ok(share)) => {
                    latencies.add(share.latencies).expect("all histograms have the same bounds");
                    ended = ended.max(Some(share.ended));
                }
                Ok(Err(error)) => outcome = outcome.and(Err(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome?;
        let elapsed = ended.zip(shared.start.get()).map_or(Duration::ZERO, |(end, start)| end - *start);
        Ok(Measured {
            elapsed: elapsed.saturating_sub(test.warmup),
            commands: shared.sum(|counters| &counters.finished),
            errors: shared.sum(|counters| &counters.errors),
            first_error: shared.first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(),
            latencies,
            rates,
        })
    })
}

fn progress(test: &Test<'_>, shared: &Shared, last: &Progress) -> Progress {
    let running = shared.start.get().map_or(Duration::ZERO, Instant::elapsed);
    let is_warming = running < test.warmup;
    let elapsed = if is_warming { running } else { running - test.warmup };
    let commands = match is_warming {
        true => shared.sum(|counters| &counters.warming),
        false => shared.sum(|counters| &counters.finished),
    };
    let latency_sum_ns = shared.sum(|counters| &counters.latency_sum_ns);
    let last = if last.is_warming == is_warming { *last } else { Progress::default() };
    Progress {
        is_warming,
        elapsed,
        commands,
        latency_sum_ns,
        recent_elapsed: elapsed.saturating_sub(last.elapsed).max(Duration::from_micros(1)),
        recent_commands: commands - last.commands,
        recent_latency_sum_ns: latency_sum_ns - last.latency_sum_ns,
    }
}
