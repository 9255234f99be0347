//! What happens when nobody asks: timeouts, expiry, table growth and shrinking, `hz` times a second.

use super::Executor;
use crate::db::expire::ExpireEffort;
use crate::sys::crash;
use std::time::Duration;

/// Between two short searches for expired keys, where the last regular one was not done in time.
const SHORT_SEARCH_PERIOD_US: u64 = 2000;
/// Between two looks at whether the append-only file is on disk, or a child at its end, while somebody waits for that.
const SYNC_LOOK_PERIOD_US: u64 = 1000;
/// Buckets that one call may rearrange in each table that is growing or shrinking.
const TABLE_STEP_BUCKETS: usize = 1024;
/// Between two looks at what has become of the largest keys.
const MEASURE_PERIOD_US: u64 = 10_000_000;
/// Between two steps of counting keys by class, and buckets in each: about 0.1 ms.
const COUNT_PERIOD_US: u64 = 2000;
const COUNT_STEP_BUCKETS: usize = 64;
/// How long a search may take at a time, however seldom the timers run: the short searches that follow one that was not
/// done make up for it.
const SEARCH_US_MAX: u64 = 5000;
/// How long keys are looked at that clients of a replica have given an expiry.
const CLIENT_EXPIRY_US_MAX: u64 = 1000;
/// Between two steps of the walk that compresses what was put plain.
const WALK_PERIOD_US: u64 = 2000;
/// Between two samples of rates and memory.
const SAMPLE_PERIOD_US: u64 = 100_000;

#[derive(Clone, Debug, Default)]
pub struct Cron {
    /// On the monotonic clock.
    next_us: u64,
    next_sample_us: u64,
    /// The alarm that tells of a loop that does not turn is set.
    watched: bool,
    /// When the search for expired keys goes on before its time.
    next_short_search_us: Option<u64>,
    /// When the walk goes on that compresses values.
    next_walk_us: Option<u64>,
    /// When counting keys goes on.
    next_count_us: u64,
    next_measure_us: u64,
}

impl Executor {
    /// When [`Executor::cron`] wants to run next, on the monotonic clock.
    pub fn next_timer_us(&self) -> u64 {
        if self.is_busy() {
            return 0;
        }
        let mut next_us = self.cron.next_us;
        let ends = [
            self.server.blocked.next_deadline_us(),
            self.server.pauses.next_end_us(),
            self.shutdown_deadline_us(),
        ];
        for end_us in ends.into_iter().flatten() {
            next_us = next_us.min(end_us);
        }
        if self.is_loading() {
            // All else waits for the data.
            return next_us.min(self.next_load_us());
        }
        if let Some(retry_us) = self.server.blocked.next_retry_us().filter(|_| !self.server.pauses.are_any())
        {
            next_us = next_us.min(retry_us);
        }
        if let Some(deadline_us) = self.replication.failover_deadline_us() {
            next_us = next_us.min(deadline_us);
        }
        if let Some(search_us) = self.cron.next_short_search_us {
            next_us = next_us.min(search_us);
        }
        if let Some(walk_us) = self.cron.next_walk_us {
            next_us = next_us.min(walk_us);
        }
        if self.db.has_keys_to_count() {
            next_us = next_us.min(self.cron.next_count_us);
        }
        if self.evicting || self.has_load_beside_to_do() || self.may_pass_kept_stream() {
            next_us = 0;
        }
        if self.server.blocked.wait_for_own_file() || self.replication.awaits_child() {
            next_us = next_us.min(self.server.now.monotonic_us + SYNC_LOOK_PERIOD_US);
        }
        next_us
    }

    /// Does what is due at the tick's instant. Safe to call at any time.
    pub fn run_timers(&mut self) {
        if self.ends {
            return;
        }
        self.go_on_with_shutdown();
        if self.ends {
            return;
        }
        if self.is_busy() {
            return self.go_on_with_script();
        }
        if self.is_loading() {
            return self.run_timers_beside_loading();
        }
        self.load_if_received();
        self.go_on_with_sync();
        self.go_on_with_kept_stream();
        if self.replication.awaits_child() {
            self.reap_child();
        }
        self.serve_acknowledged();
        self.time_out_blocked();
        self.go_on_with_failover();
        self.end_pauses_if_due();
        self.retry_those_due();
        if self.ends {
            return;
        }
        self.go_on_evicting();
        let now_us = self.server.now.monotonic_us;
        if self.db.has_keys_to_count() && self.cron.next_count_us <= now_us {
            self.cron.next_count_us = now_us + COUNT_PERIOD_US;
            self.db.step_accounts(COUNT_STEP_BUCKETS);
        }
        if now_us < self.cron.next_us {
            if self.cron.next_walk_us.is_some_and(|walk_us| walk_us <= now_us) {
                self.step_compression();
            }
            if self.cron.next_short_search_us.is_some_and(|search_us| search_us <= now_us) {
                self.expire_some(self.expire_effort().short_search_us());
            }
            return;
        }
        let started_us = self.clock.monotonic_us();
        let period_us = 1_000_000 / self.server.config.hz as u64;
        self.cron.next_us = now_us + period_us;
        self.put_off_watchdog();
        let switches = self.server.switches;
        if !switches.cron {
            return;
        }
        self.persist_cron();
        self.link_cron();
        if switches.active_expire {
            let share_us = period_us * self.expire_effort().time_percent_max() / 100;
            self.expire_some(share_us.min(SEARCH_US_MAX));
        }
        self.limit_tracking();
        if switches.table_steps {
            self.db.step_tables(TABLE_STEP_BUCKETS);
        }
        self.step_compression();
        self.sample_if_due();
        self.measure_if_due(now_us);
        let elapsed_us = self.clock.monotonic_us() - started_us;
        self.server.observed.statistics.cron_us += elapsed_us;
    }

    /// While a child writes the data, values stay where they are: what is moved is copied, page by page.
    fn step_compression(&mut self) {
        self.db.begin(self.own_turn());
        let goes_on = self.db.step_compression(self.disk.child.is_none());
        self.cron.next_walk_us = goes_on.then(|| self.server.now.monotonic_us + WALK_PERIOD_US);
        self.server.observed.memory.dictionaries_bytes = self.db.dictionaries_bytes() as u64;
    }

    /// Loads on, and does what is due of all that is not about the data: whoever sends it may take long.
    fn run_timers_beside_loading(&mut self) {
        self.go_on_reloading();
        self.go_on_with_sync();
        self.serve_acknowledged();
        self.time_out_blocked();
        self.end_pauses_if_due();
        let now_us = self.server.now.monotonic_us;
        if self.ends || now_us < self.cron.next_us {
            return;
        }
        self.cron.next_us = now_us + 1_000_000 / self.server.config.hz as u64;
        self.put_off_watchdog();
        if self.server.switches.cron {
            self.limit_tracking();
            self.sample_if_due();
        }
    }

    fn measure_if_due(&mut self, now_us: u64) {
        if now_us >= self.cron.next_measure_us {
            self.cron.next_measure_us = now_us + MEASURE_PERIOD_US;
            self.db.measure_big_keys();
        }
    }

    fn sample_if_due(&mut self) {
        let now_us = self.server.now.monotonic_us;
        if now_us >= self.cron.next_sample_us {
            self.cron.next_sample_us = now_us + SAMPLE_PERIOD_US;
            self.server.observed.sample(now_us);
        }
    }

    /// While this is called often enough, nothing happens; otherwise the log tells where the loop is.
    fn put_off_watchdog(&mut self) {
        let config = &self.server.config;
        let is_wanted = config.watchdog_period_ms > 0;
        if is_wanted || self.cron.watched {
            // A shorter time than two turns of the cron would tell of nothing.
            let period_ms = config.watchdog_period_ms.max(2000 / config.hz);
            crash::set_alarm(is_wanted.then(|| Duration::from_millis(period_ms.into())));
            self.cron.watched = is_wanted;
        }
    }

    fn expire_effort(&self) -> ExpireEffort {
        ExpireEffort(self.server.config.active_expire_effort)
    }

    fn expire_some(&mut self, budget_us: u64) {
        self.cron.next_short_search_us = None;
        match self.db.client_expiring_len() {
            0 => {}
            // A primary looks for all that is due.
            _ if !self.is_replica() => self.db.forget_client_expiry(),
            _ if self.server.pauses.are_any() => {}
            _ => self.expire_for_clients(),
        }
        // Neither a paused server nor one that data is brought into removes keys on its own account.
        if self.server.pauses.are_any() || self.leaves_expiry_to_source() {
            return;
        }
        let started_us = self.clock.monotonic_us();
        let deadline_us = started_us + budget_us;
        self.db.begin(self.own_turn());
        self.begin_changes(false);
        let interrupted = self.expire_until(deadline_us);
        let ended_us = self.clock.monotonic_us();
        if interrupted {
            self.cron.next_short_search_us = Some(ended_us + SHORT_SEARCH_PERIOD_US);
            self.server.observed.statistics.expire_time_cap_reached += 1;
        }
        self.db.figures.expire_cycle_cpu_us += ended_us - started_us;
        self.note_latency("expire-cycle", started_us);
        self.serve_ready();
    }

    /// Removes what clients of this replica have made and its primary knows nothing of.
    fn expire_for_clients(&mut self) {
        let deadline_us = self.clock.monotonic_us() + CLIENT_EXPIRY_US_MAX;
        self.db.begin(self.own_turn());
        self.begin_changes(false);
        let mut left = self.db.client_expiring_len();
        while !self.db.expire_for_clients(&mut left) && self.clock.monotonic_us() < deadline_us {}
        self.feed_removals();
        self.apply_effects(None);
        self.free_discarded();
        self.serve_ready();
    }

    /// Removes what is due, and sees to what follows from that; whether the time ran out first.
    fn expire_until(&mut self, deadline_us: u64) -> bool {
        let mut cycle = self.db.begin_expire_cycle(self.expire_effort());
        let interrupted = loop {
            let goes_on = self.db.expire_step(&mut self.expire_cursor, &mut cycle);
            self.feed_removals();
            self.apply_effects(None);
            self.free_discarded();
            if !goes_on {
                break false;
            }
            if self.clock.monotonic_us() >= deadline_us {
                break true;
            }
        };
        self.db.end_expire_cycle(&mut self.expire_cursor, cycle);
        interrupted
    }
}
