//! Observations of the server's own work: counters, slow commands, latencies, memory.

pub mod command_log;
pub mod crash_report;
pub mod hot_keys;
pub mod hottest;
pub mod io_threads;
pub mod latency;
pub mod log;
pub mod memory;
pub mod otlp;
pub mod persistence;
pub mod process;
pub mod rates;
pub mod readiness;
pub mod replication;
pub mod statistics;
pub mod supervisor;
pub mod tls;
mod top_keys;
pub mod trace;

pub use command_log::CommandLogs;
pub use hot_keys::HotKeys;
use hottest::{Countdown, Hottest};
pub use io_threads::IoThreadFigures;
pub use latency::LatencyMonitor;
pub use memory::Memory;
pub use persistence::Persistence;
pub use rates::Rates;
pub use readiness::Readiness;
pub use replication::Replication;
pub use statistics::{CommandFigures, Denials, Statistics};
use std::sync::Arc;
pub use tls::TlsFigures;
pub use trace::Traces;

/// Replaces an argument that must not be shown.
pub const REDACTED: &[u8] = b"(redacted)";

/// All observations.
pub struct Observations {
    /// Counters of INFO stats.
    pub statistics: Statistics,
    /// Counts of what was denied, by reason.
    pub denials: Denials,
    /// By command id.
    pub commands: Vec<CommandFigures>,
    /// Memory of the process and of its parts, with their peaks.
    pub memory: Memory,
    /// The rates in INFO stats.
    pub rates: Rates,
    /// Events that took long: LATENCY.
    pub latency: LatencyMonitor,
    /// Commands that were slow or large: COMMANDLOG.
    pub command_logs: CommandLogs,
    /// The latest traces of commands.
    pub traces: Traces,
    /// The keys used most during a measurement; `None` while none runs: HOTKEYS.
    pub hot_keys: Option<Box<HotKeys>>,
    /// The weight left until the next sample of `hottest`.
    pub countdown: Countdown,
    /// `None` if the option is off.
    pub hottest: Option<Box<Hottest>>,
    /// Saves, rewrites and loads: INFO persistence.
    pub persistence: Persistence,
    /// The stream of changes, and its receivers.
    pub replication: Replication,
    /// Handshakes and sessions, counted by all threads.
    pub tls: Arc<TlsFigures>,
    /// Whether the server is ready to serve, as other threads see it.
    pub readiness: Arc<Readiness>,
    /// The shutdown's deadline for replicas, on the monotonic clock.
    pub shutdown_deadline_us: Option<u64>,
}

impl Observations {
    /// Creates observations without any counts, for this number of commands.
    pub fn new(commands: usize, now_s: i64) -> Self {
        Observations {
            statistics: Statistics::default(),
            denials: Denials::default(),
            commands: vec![CommandFigures::default(); commands],
            memory: Memory::of_this_thread(),
            rates: Rates::default(),
            latency: LatencyMonitor::default(),
            command_logs: CommandLogs::default(),
            traces: Traces::default(),
            hot_keys: None,
            countdown: Countdown::default(),
            hottest: None,
            persistence: Persistence::new(now_s),
            replication: Replication::default(),
            tls: Arc::default(),
            readiness: Arc::default(),
            shutdown_deadline_us: None,
        }
    }

    /// Resets the counters (CONFIG RESETSTAT).
    pub fn reset(&mut self) {
        self.statistics = Statistics::default();
        self.commands.fill_with(CommandFigures::default);
        self.rates = Rates::default();
        self.memory.peak_bytes = self.memory.used_bytes();
        self.memory.reclaiming.freed.store(0, std::sync::atomic::Ordering::Relaxed);
        for thread in &self.memory.io_threads {
            for counter in [&thread.reads, &thread.writes, &thread.polls] {
                counter.store(0, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    /// Starts or stops tracking the hottest keys.
    pub fn keep_hottest(&mut self, is_on: bool, now_us: u64) {
        if is_on == self.hottest.is_some() {
            return;
        }
        self.countdown = Countdown::default();
        let commands = self.statistics.commands_processed;
        self.hottest = is_on.then(|| Box::new(Hottest::begin(now_us, commands, now_us, &mut self.countdown)));
    }

    /// Takes all periodic samples; `now_us` is on the monotonic clock.
    pub fn sample(&mut self, now_us: u64) {
        const SECOND_US: u64 = 1_000_000;
        if let Some(hottest) = &mut self.hottest {
            hottest.adapt(now_us, self.statistics.commands_processed, &mut self.countdown);
        }
        let statistics = &self.statistics;
        self.rates.commands.note(statistics.commands_processed, now_us, SECOND_US);
        self.rates.input_bytes.note(statistics.input_bytes, now_us, SECOND_US);
        let output_bytes = statistics.output_bytes + statistics.replication_output_bytes;
        self.rates.output_bytes.note(output_bytes, now_us, SECOND_US);
        let (input_bytes, output_bytes) =
            (statistics.replication_input_bytes, statistics.replication_output_bytes);
        self.rates.replication_input_bytes.note(input_bytes, now_us, SECOND_US);
        self.rates.replication_output_bytes.note(output_bytes, now_us, SECOND_US);
        self.rates.loops.note(statistics.loops, now_us, SECOND_US);
        self.rates.loop_us.note(statistics.loop_us, statistics.loops, 1);
        self.memory.take_sample();
    }
}
