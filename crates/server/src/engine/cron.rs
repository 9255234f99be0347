//! What happens when nobody asks: timeouts, expiry, table growth and shrinking, `hz` times a second.

use super::Executor;

/// Part of the time between two calls that the search for due keys may take, in percent.
const EXPIRE_TIME_PERCENT: u64 = 25;
/// Buckets that one call may rearrange in each table that is growing or shrinking.
const TABLE_STEP_BUCKETS: usize = 1024;
/// Between two samples of rates and memory.
const SAMPLE_PERIOD_US: u64 = 100_000;

#[derive(Clone, Debug, Default)]
pub struct Cron {
    /// On the monotonic clock.
    next_us: u64,
    next_sample_us: u64,
}

impl Executor {
    /// When [`Executor::cron`] wants to run next, on the monotonic clock.
    pub fn next_timer_us(&self) -> u64 {
        let mut next_us = self.cron.next_us;
        if let Some(deadline_us) = self.server.blocked.next_deadline_us() {
            next_us = next_us.min(deadline_us);
        }
        if let Some(pause) = self.server.pause {
            next_us = next_us.min(pause.until_us);
        }
        next_us
    }

    /// Does what is due at the tick's instant. Safe to call at any time.
    pub fn run_timers(&mut self) {
        self.time_out_blocked();
        self.end_pause_if_due();
        let now_us = self.server.now.monotonic_us;
        if now_us < self.cron.next_us {
            return;
        }
        let started_us = self.clock.read().monotonic_us;
        let period_us = 1_000_000 / self.server.config.hz as u64;
        self.cron.next_us = now_us + period_us;
        let switches = self.server.switches;
        if !switches.cron {
            return;
        }
        if switches.active_expire {
            self.expire_some(period_us * EXPIRE_TIME_PERCENT / 100);
        }
        if switches.table_steps {
            self.db.step_tables(TABLE_STEP_BUCKETS);
        }
        if now_us >= self.cron.next_sample_us {
            self.cron.next_sample_us = now_us + SAMPLE_PERIOD_US;
            self.server.observed.sample(now_us);
        }
        let elapsed_us = self.clock.read().monotonic_us - started_us;
        self.server.observed.statistics.cron_us += elapsed_us;
    }

    fn expire_some(&mut self, budget_us: u64) {
        let started_us = self.clock.read().monotonic_us;
        let deadline_us = started_us + budget_us;
        self.db.begin(0, self.server.now.unix_ms());
        self.db.journal.listening = self.server.listens_to_changes();
        if self.server.pause.is_some() {
            return;
        }
        let clock = &self.clock;
        self.db.expire_cycle(&mut self.expire_cursor, &mut || clock.read().monotonic_us >= deadline_us);
        let ended_us = self.clock.read().monotonic_us;
        self.db.figures.expire_cycle_cpu_us += ended_us - started_us;
        let (now_s, threshold_ms) =
            (self.server.now.unix_us / 1_000_000, self.server.config.latency_monitor_threshold_ms);
        self.server.observed.latency.note("expire-cycle", ended_us - started_us, threshold_ms, now_s);
        self.server.observed.statistics.expire_time_cap_reached += u64::from(ended_us >= deadline_us);
        self.apply_effects(None);
        if self.server.blocked.has_ready() {
            self.serve_blocked();
        }
    }
}
