//! Periodic work, `hz` times a second: timeouts, expiry, table growth and shrinking.

use super::{Executor, cluster, confirmation};
use crate::db::Db;
use crate::db::expire::{ExpireCursor, ExpireEffort};
use crate::engine::gate::{forget_departed_trackers, limit_tracking};
use crate::engine::memory::note_latency;
use crate::server::Server;
use crate::sys::crash;
use std::time::Duration;

/// Period of short searches for expired keys after a regular search that ran out of time.
const SHORT_SEARCH_PERIOD_US: u64 = 2000;
/// Period of checks of an fsync or a child while a client waits for it.
const SYNC_LOOK_PERIOD_US: u64 = 1000;
/// Buckets that one call may rearrange in each table that is growing or shrinking.
const TABLE_STEP_BUCKETS: usize = 1024;
/// Period of refreshing the sizes of the largest keys.
const MEASURE_PERIOD_US: u64 = 10_000_000;
/// Period of counting keys by class; the buckets per step take about 0.1 ms.
const COUNT_PERIOD_US: u64 = 2000;
const COUNT_STEP_BUCKETS: usize = 64;
/// Maximum time of one search, however low `hz` is: short searches make up for an unfinished one.
const SEARCH_US_MAX: u64 = 5000;
/// Maximum time spent on keys to which a replica's clients gave an expiry.
const CLIENT_EXPIRY_US_MAX: u64 = 1000;
/// Period of the walks over all keys.
const WALK_PERIOD_US: u64 = 2000;
/// Period of sampling rates and memory.
const SAMPLE_PERIOD_US: u64 = 100_000;

/// State of the periodic work.
#[derive(Clone, Debug, Default)]
pub(super) struct Cron {
    /// Where the search for expired keys continues.
    expire_cursor: ExpireCursor,
    /// Next run, on the monotonic clock.
    next_us: u64,
    next_sample_us: u64,
    /// The watchdog timer, which reports a stalled loop, is set.
    watched: bool,
    /// When the search for expired keys continues early.
    next_short_search_us: Option<u64>,
    /// When a walk over all keys continues.
    next_walk_us: Option<u64>,
    /// When the key count continues.
    next_count_us: u64,
    next_measure_us: u64,
}

impl Cron {
    fn measure_if_due(&mut self, db: &mut Db, now_us: u64) {
        if now_us >= self.next_measure_us {
            self.next_measure_us = now_us + MEASURE_PERIOD_US;
            db.measure_big_keys();
        }
    }

    fn sample_if_due(&mut self, server: &mut Server) {
        let now_us = server.now.monotonic_us;
        if now_us >= self.next_sample_us {
            self.next_sample_us = now_us + SAMPLE_PERIOD_US;
            server.observed.sample(now_us);
        }
    }

    /// Postpones the watchdog; if this is not called often enough, the log shows where the loop is.
    fn put_off_watchdog(&mut self, server: &Server) {
        let config = &server.config;
        let is_enabled = config.watchdog_period_ms > 0;
        if is_enabled || self.watched {
            // A period shorter than two turns of the cron would report normal operation.
            let period_ms = config.watchdog_period_ms.max(2000 / config.hz);
            crash::set_alarm(is_enabled.then(|| Duration::from_millis(period_ms.into())));
            self.watched = is_enabled;
        }
    }
}

fn expire_effort(server: &Server) -> ExpireEffort {
    ExpireEffort(server.config.active_expire_effort)
}

impl Executor {
    /// Returns the monotonic time of the next periodic work.
    pub fn next_timer_us(&self) -> u64 {
        if self.is_busy() {
            return 0;
        }
        let mut next_us = self.cron.next_us;
        let ends = [
            cluster::next_tick_us(self),
            confirmation::next_turn_us(self),
            self.server.blocked.next_deadline_us(),
            self.server.pauses.next_end_us(),
            self.ending.shutdown_deadline_us(),
        ];
        for end_us in ends.into_iter().flatten() {
            next_us = next_us.min(end_us);
        }
        if self.is_loading() {
            // All other work waits until the data is loaded.
            return next_us.min(self.replication.upstream().next_load_us(self.server.now.monotonic_us));
        }
        if let Some(retry_us) = self
            .server
            .blocked
            .next_retry_us()
            .filter(|_| !self.server.pauses.are_any() && !self.server.pauses.hold_slots())
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
        if self.eviction.is_unfinished() || self.has_load_beside_to_do() || self.may_pass_kept_stream() {
            next_us = 0;
        }
        if self.server.blocked.wait_for_own_file() || self.replication.awaits_child() {
            next_us = next_us.min(self.server.now.monotonic_us + SYNC_LOOK_PERIOD_US);
        }
        next_us
    }

    /// Runs the work that is due at the tick's time. Safe to call at any time.
    pub fn run_timers(&mut self) {
        if self.ending.is_over() {
            return;
        }
        self.go_on_with_shutdown();
        if self.ending.is_over() {
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
        self.replication.upstream().go_on_with_kept_stream(&mut self.server);
        if self.replication.awaits_child() {
            self.reap_child();
        }
        self.serve_acknowledged();
        self.time_out_blocked();
        self.go_on_with_failover();
        self.end_pauses_if_due();
        self.retry_those_due();
        if self.ending.is_over() {
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
                self.step_walks();
            }
            if self.cron.next_short_search_us.is_some_and(|search_us| search_us <= now_us) {
                self.expire_some(expire_effort(&self.server).short_search_us());
            }
            return;
        }
        let started_us = self.clock.monotonic_us();
        let period_us = 1_000_000 / self.server.config.hz as u64;
        self.cron.next_us = now_us + period_us;
        self.cron.put_off_watchdog(&self.server);
        let switches = self.server.switches;
        if !switches.cron {
            return;
        }
        self.persist_cron();
        self.link_cron();
        if switches.active_expire {
            let share_us = period_us * expire_effort(&self.server).time_percent_max() / 100;
            self.expire_some(share_us.min(SEARCH_US_MAX));
        }
        limit_tracking(&mut self.server);
        forget_departed_trackers(&mut self.server);
        if switches.table_steps {
            self.db.step_tables(TABLE_STEP_BUCKETS);
        }
        self.eviction.count_queues(&mut self.db);
        self.step_walks();
        self.cron.sample_if_due(&mut self.server);
        self.cron.measure_if_due(&mut self.db, now_us);
        let elapsed_us = self.clock.monotonic_us() - started_us;
        self.server.observed.statistics.cron_us += elapsed_us;
    }

    /// Continues the walks over all keys. They pause while a child writes the data: a moved value has its pages copied.
    fn step_walks(&mut self) {
        self.begin_turn(self.own_turn());
        let may_walk = !self.disk.has_child();
        let goes_on = self.db.step_compression(may_walk) | self.db.step_shapes(may_walk);
        self.cron.next_walk_us = goes_on.then(|| self.server.now.monotonic_us + WALK_PERIOD_US);
        let (memory, shapes) = (&mut self.server.observed.memory, self.db.shape_figures());
        memory.dictionaries_bytes = self.db.dictionaries_bytes() as u64;
        (memory.hash_shapes, memory.hash_shapes_bytes) = (shapes.shapes as u64, shapes.memory_bytes as u64);
    }

    /// Continues loading and runs the work that does not depend on the data: the source may be slow.
    fn run_timers_beside_loading(&mut self) {
        self.go_on_reloading();
        self.go_on_with_sync();
        self.serve_acknowledged();
        self.time_out_blocked();
        self.end_pauses_if_due();
        let now_us = self.server.now.monotonic_us;
        if self.ending.is_over() || now_us < self.cron.next_us {
            return;
        }
        self.cron.next_us = now_us + 1_000_000 / self.server.config.hz as u64;
        self.cron.put_off_watchdog(&self.server);
        if self.server.switches.cron {
            limit_tracking(&mut self.server);
            self.cron.sample_if_due(&mut self.server);
        }
    }

    fn expire_some(&mut self, budget_us: u64) {
        self.cron.next_short_search_us = None;
        match self.db.client_expiring_len() {
            0 => {}
            // A primary searches for all expired keys.
            _ if !self.is_replica() => self.db.forget_client_expiry(),
            _ if self.server.pauses.are_any() => {}
            _ => self.expire_for_clients(),
        }
        // A paused server and a replica expire no keys themselves.
        if self.server.pauses.are_any() || self.leaves_expiry_to_source() {
            return;
        }
        let started_us = self.clock.monotonic_us();
        let deadline_us = started_us + budget_us;
        self.begin_turn(self.own_turn());
        self.begin_changes();
        let interrupted = self.expire_until(deadline_us);
        let ended_us = self.clock.monotonic_us();
        if interrupted {
            self.cron.next_short_search_us = Some(ended_us + SHORT_SEARCH_PERIOD_US);
            self.server.observed.statistics.expire_time_cap_reached += 1;
        }
        self.db.figures.expire_cycle_cpu_us += ended_us - started_us;
        note_latency(&mut self.server, &self.clock, "expire-cycle", started_us);
        self.serve_ready();
    }

    /// Removes expired keys that clients of this replica created and that its primary does not have.
    fn expire_for_clients(&mut self) {
        let deadline_us = self.clock.monotonic_us() + CLIENT_EXPIRY_US_MAX;
        self.begin_turn(self.own_turn());
        self.begin_changes();
        let mut left = self.db.client_expiring_len();
        while !self.db.expire_for_clients(&mut left) && self.clock.monotonic_us() < deadline_us {}
        self.feed_removals();
        self.apply_effects(None);
        self.free_discarded();
        self.serve_ready();
    }

    /// Removes expired keys and applies the effects; returns whether time ran out first.
    fn expire_until(&mut self, deadline_us: u64) -> bool {
        let mut cycle = self.db.begin_expire_cycle(expire_effort(&self.server));
        let interrupted = loop {
            let goes_on = self.db.expire_step(&mut self.cron.expire_cursor, &mut cycle);
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
        self.db.end_expire_cycle(&mut self.cron.expire_cursor, cycle);
        interrupted
    }
}
