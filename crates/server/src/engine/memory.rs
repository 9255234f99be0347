//! Eviction of keys, which keeps memory within `maxmemory`.

use super::Executor;
use crate::clock::Clock;
use crate::config::MaxmemoryPolicy;
use crate::db::Db;
use crate::db::evict::EvictionPool;
use crate::server::Server;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::convert::{signed_len, whole_u64};

/// Keys evicted between two readings of the clock.
const EVICTIONS_PER_ROUND: usize = 16;
/// Maximum wait at a time for memory being freed in the background.
const WAIT_US_MAX: u64 = 1000;

/// Result of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Memory is within its limit.
    Enough,
    /// Over the limit, but eviction continues: commands may run.
    Soon,
    /// Nothing can be evicted.
    None,
}

/// State of eviction.
pub(super) struct Eviction {
    /// Candidates.
    pool: EvictionPool,
    /// The policy by which the pool's candidates were chosen.
    policy: MaxmemoryPolicy,
    /// Eviction ran out of time and continues when the executor is idle.
    is_unfinished: bool,
    /// The excess over the memory limit when the tick's eviction time ran out; `None` while time remains.
    goal_bytes: Option<i64>,
}

impl Default for Eviction {
    fn default() -> Self {
        Eviction {
            pool: EvictionPool::default(),
            policy: MaxmemoryPolicy::NoEviction,
            is_unfinished: false,
            goal_bytes: None,
        }
    }
}

impl Eviction {
    /// Resets the time limit of the tick.
    #[inline]
    pub(super) fn begin_tick(&mut self) {
        self.goal_bytes = None;
    }

    /// Discards candidates that another policy has chosen.
    pub(super) fn follow(&mut self, policy: MaxmemoryPolicy) {
        if self.policy != policy {
            self.policy = policy;
            self.pool.clear();
        }
    }

    /// Counts the queues of an s3fifo policy.
    pub(super) fn count_queues(&mut self, db: &mut Db) {
        self.pool.count_queues(db, self.policy);
    }

    /// Schedules eviction for when the executor is idle.
    pub(super) fn resume(&mut self) {
        self.is_unfinished = true;
    }

    /// Returns whether eviction continues when the executor is idle.
    #[inline]
    pub(super) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }
}

pub(super) fn note_latency(server: &mut Server, clock: &Clock, event: &'static str, started_us: u64) {
    let elapsed_us = clock.monotonic_us() - started_us;
    let now_s = server.now.unix_s();
    let threshold_ms = server.config.latency_monitor_threshold_ms;
    server.observed.latency.note(event, elapsed_us, threshold_ms, now_s);
}

impl Executor {
    fn is_within_limit(&self) -> bool {
        self.excess_bytes() <= 0
    }

    /// Returns the bytes in use beyond the limit; negative while there is room. The append-only buffer and the
    /// replication backlog do not count: evicted keys add to them, so evicting more keys to compensate would evict all.
    /// They have limits of their own.
    fn excess_bytes(&self) -> i64 {
        let unwritten_bytes = self.aof.buffer_memory_bytes();
        let kept_bytes = self.replication.held_bytes()
            + self.replication.upstream().kept_stream_bytes()
            + self.slot_exports.memory_bytes();
        let used_bytes = self.server.observed.memory.used_bytes();
        let used_bytes = used_bytes.saturating_sub((unwritten_bytes + kept_bytes) as u64);
        // No memory is half as large as the largest possible limit: limits beyond it are equivalent.
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(used_bytes) - signed(self.server.config.maxmemory_bytes)
    }

    /// Frees what this batch has removed and the output buffers that are kept for the next replies; returns whether that
    /// suffices, so that no key is evicted. Invalidation messages of evicted keys leave such buffers: evicting more keys
    /// to compensate would evict all.
    #[cold]
    fn is_within_limit_without_spares(&mut self) -> bool {
        self.db.free_scattered();
        self.is_within_limit() || {
            self.server.clients.free_spare_outputs();
            self.is_within_limit()
        }
    }

    /// Returns whether memory is within its limit, so that [`Executor::make_room`] is not needed.
    #[inline]
    pub(super) fn needs_no_room(&self) -> bool {
        self.is_within_limit()
            && !self.eviction.is_unfinished
            && self.server.observed.statistics.over_memory_since_us.is_none()
    }

    /// Evicts until memory is within its limit or time runs out.
    pub(super) fn make_room(&mut self) -> Room {
        let within_limit = self.is_within_limit() || self.is_within_limit_without_spares();
        // A paused server changes no data; a replica keeps the data of its primary.
        let leaves_it =
            self.server.pauses.are_any() || self.is_replica() && self.server.config.replica_ignore_maxmemory;
        let room = if within_limit || leaves_it { Room::Enough } else { self.evict_in_tick() };
        self.eviction.is_unfinished = room == Room::Soon;
        if !within_limit {
            // Eviction time belongs to no command.
            self.start_stopwatch();
        }
        let statistics = &mut self.server.observed.statistics;
        if !within_limit || statistics.over_memory_since_us.is_some() {
            statistics.note_memory(room == Room::Enough, self.clock.monotonic_us());
        }
        room
    }

    /// The first command of a tick that meets an excess evicts for as long as allowed. Later ones only keep the excess
    /// from growing: otherwise each of a thousand commands in a row would wait for its own time slice.
    fn evict_in_tick(&mut self) -> Room {
        let goal_bytes = self.eviction.goal_bytes.unwrap_or(0);
        if self.excess_bytes() <= goal_bytes {
            return Room::Soon;
        }
        let room = self.evict(goal_bytes);
        if room == Room::Soon && self.eviction.goal_bytes.is_none() {
            self.eviction.goal_bytes = Some(self.excess_bytes());
        }
        room
    }

    /// Evicts until the excess is at most `goal_bytes`. The memory cost of effects, such as invalidation messages, is
    /// left to the next command: evicting more keys to compensate would cost more again, until none are left.
    fn evict(&mut self, goal_bytes: i64) -> Room {
        let config = &self.server.config;
        let (policy, samples) = (config.maxmemory_policy, config.maxmemory_samples as usize);
        // During an import, the importing client decides about removals.
        let policy = if config.import_mode { MaxmemoryPolicy::NoEviction } else { policy };
        let started_us = self.clock.monotonic_us();
        let deadline_us = started_us.saturating_add(time_limit_us(config.maxmemory_eviction_tenacity));
        self.begin_turn(self.own_turn());
        self.begin_changes();
        let mut excess_bytes = self.excess_bytes();
        let room = loop {
            let mut all_evicted = false;
            for _ in 0..EVICTIONS_PER_ROUND {
                let freed_bytes = self.db.evict_one(policy, samples, &mut self.eviction.pool);
                excess_bytes -= signed_len(freed_bytes.unwrap_or(0));
                all_evicted = freed_bytes.is_none();
                if all_evicted || excess_bytes <= goal_bytes {
                    break;
                }
            }
            self.feed_removals();
            self.apply_effects(None);
            self.free_discarded();
            if excess_bytes <= goal_bytes || self.excess_bytes() <= goal_bytes {
                break if goal_bytes == 0 { Room::Enough } else { Room::Soon };
            }
            if all_evicted {
                break self.wait_for_background(deadline_us);
            }
            if self.clock.monotonic_us() > deadline_us {
                break Room::Soon;
            }
        };
        note_latency(&mut self.server, &self.clock, "eviction-cycle", started_us);
        room
    }

    /// Waits for evicted values that the background thread is freeing, when no keys are left to evict.
    fn wait_for_background(&mut self, deadline_us: u64) -> Room {
        let started_us = self.clock.monotonic_us();
        let mut now_us = started_us;
        let freeing = || self.server.observed.memory.reclaiming.pending.load(Ordering::Relaxed) > 0;
        while freeing() && now_us < deadline_us {
            if self.is_within_limit() {
                return Room::Enough;
            }
            std::thread::sleep(Duration::from_micros(WAIT_US_MAX.min(deadline_us - now_us)));
            now_us = self.clock.monotonic_us();
        }
        let room = if self.is_within_limit() { Room::Enough } else { Room::None };
        note_latency(&mut self.server, &self.clock, "eviction-lazyfree", started_us);
        room
    }

    /// Continues an eviction that ran out of time.
    pub(super) fn go_on_evicting(&mut self) {
        if self.server.config.maxmemory_bytes == 0 {
            self.eviction.is_unfinished = false;
        } else if self.eviction.is_unfinished && self.eviction.goal_bytes.is_none() {
            self.make_room();
        }
    }
}

/// Returns the time limit of eviction per command: zero (tenacity 0), half a millisecond (10), then 15 percent more per
/// step, up to two minutes (99) and unlimited (100).
fn time_limit_us(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50 * u64::from(tenacity),
        11..=99 => whole_u64(500.0 * 1.15f64.powi((tenacity - 10).cast_signed())),
        _ => u64::MAX,
    }
}
