//! The executor: one thread that owns all data and runs every command, in the order in which requests arrive.
//!
//! The steps of a command: [`lookup`](crate::command::registry), [`gate`] (the checks that may refuse it), queueing in an
//! open transaction, [`execute`], [`effects`] (consequences of its changes), and [`blocked`] (retries of the clients that
//! it unblocks). [`cron`] runs periodic work.

pub mod aof;
pub mod blocked;
mod call;
pub mod client_limits;
pub mod cluster;
pub mod confirmation;
pub mod cron;
pub mod effects;
pub mod execute;
mod feed;
pub mod gate;
pub mod loading;
pub mod memory;
mod migration;
mod observation;
pub mod peers;
mod permission;
mod persistence;
pub mod prefetch;
mod propagation;
mod readiness;
pub mod reclaim;
mod redirection;
mod replay;
mod replication;
mod saving;
mod script;
pub mod shutdown;
pub mod slot_migration;
pub mod tracing;
pub mod transaction;
mod turn;
pub mod users;

use crate::clock::{Clock, Reading};
use crate::command::registry::Registry;
use crate::config::Config;
use crate::db::{Db, LazyFreeing};
use crate::observe::command_log::Thresholds;
use crate::persist::migration::Targets;
use crate::script::environment;
use crate::server::{Identity, Server};
use crate::session::client::ConnectionFigures;
use crate::session::{Client, ClientHandle};
use crate::sys::world::World;
use client_limits::{count_all_memory, limits_client_memory};
use replication::Replication;
pub use replication::rdb_channel::ReplicaSockets;
use std::sync::Arc;
use structures::hash::HashSeed;
use structures::key_slot::KeySeed;

pub use execute::Flow;

/// Pending background frees beyond this number are handed over before the batch of commands ends.
const DISCARDED_MAX: usize = 4;

/// Owns the data and runs every command.
pub struct Executor {
    /// The data.
    pub db: Db,
    /// All other state that commands use.
    pub server: Server,
    /// Source of the time.
    pub clock: Clock,
    eviction: memory::Eviction,
    cron: cron::Cron,
    reclaimer: reclaim::Reclaimer,
    /// Both roles of replication.
    pub replication: Replication,
    pub(crate) disk: persistence::Disk,
    aof: aof::AppendOnlyFile,
    confirmation: confirmation::Confirmation,
    saving: saving::Saving,
    loads: loading::Loads,
    /// Connections of MIGRATE.
    targets: Targets,
    commands_before_tick: u64,
    /// The monotonic time at which the last command ended, or processing of a client's requests began: the start of the
    /// next command. Reading the clock once per command instead of twice saves 5 % of a GET's time.
    stopwatch_ns: u64,
    gate: gate::Gate,
    tracing: tracing::Tracing,
    script: script::ScriptExecution,
    cluster_work: cluster::ClusterWork,
    slot_exports: slot_migration::SlotExports,
    ending: shutdown::Ending,
}

/// Random seeds that the process draws once; tests pass constants.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// Seed for the hashes of keys and elements.
    pub hash: HashSeed,
    /// Seed for all random choices.
    pub random: u64,
    /// The seed for generated passwords.
    pub secret: [u8; 32],
}

impl Executor {
    /// Creates an executor without data.
    pub fn new(config: Config, clock: Clock, identity: Identity, seeds: Seeds) -> Self {
        let now = clock.read();
        let registry = Registry::new(crate::commands::GROUPS);
        let db = match config.cluster_enabled {
            true => Db::new(config.cluster_databases as usize, KeySeed::new(seeds.hash, true), seeds.random),
            false => Db::new(config.databases as usize, seeds.hash, seeds.random),
        };
        let server = Server::new(config, registry, identity, now, seeds.secret);
        let reclaimer = reclaim::Reclaimer::start(Arc::clone(&server.observed.memory.reclaiming));
        let mut executor = Executor {
            db,
            server,
            clock,
            eviction: memory::Eviction::default(),
            cron: cron::Cron::default(),
            reclaimer,
            replication: Replication::new(seeds.random ^ now.unix_us as u64),
            disk: persistence::Disk::default(),
            aof: aof::AppendOnlyFile::default(),
            confirmation: confirmation::Confirmation::default(),
            saving: saving::Saving::default(),
            loads: loading::Loads::default(),
            targets: Targets::default(),
            commands_before_tick: 0,
            stopwatch_ns: 0,
            gate: gate::Gate::default(),
            tracing: tracing::Tracing::new(seeds.random),
            script: script::ScriptExecution::default(),
            cluster_work: cluster::ClusterWork::default(),
            slot_exports: slot_migration::SlotExports::default(),
            ending: shutdown::Ending::default(),
        };
        executor.reconfigured();
        executor.replication.note_stream(&mut executor.db, &mut executor.server);
        let memory = &mut executor.server.observed.memory;
        memory.startup_bytes = memory.used_bytes();
        executor
    }

    /// Replaces the file system; call before any file is opened.
    pub fn move_to(&mut self, world: World) {
        self.disk.move_to(world);
    }

    /// Copies the settings that the data needs from the configuration; call after every change to it.
    pub fn reconfigured(&mut self) {
        let config = &self.server.config;
        if self.db.policies.follow(config) {
            self.db.follow_policies();
            self.db.forget_policy_tallies();
        }
        self.eviction.follow(config.maxmemory_policy);
        // Replayed commands of a file leave expired keys in place, whatever options a client sets meanwhile.
        self.db.importing = config.import_mode || config.replicaof.is_some() || self.loads.is_replaying();
        self.db.lazy_freeing = LazyFreeing {
            evicted: config.lazyfree_lazy_eviction,
            expired: config.lazyfree_lazy_expire,
            replaced: config.lazyfree_lazy_server_del,
            deleted: config.lazyfree_lazy_user_del,
        };
        self.db.count_prefixes(&config.memory_prefixes);
        self.server.observed.keep_hottest(config.hot_keys, self.server.now.monotonic_us);
        let insecure = config.lua_enable_insecure_api;
        self.server.scripts.change_environment(environment::Options { insecure });
        self.db.follow_eviction(config.maxmemory_policy, self.server.now.unix_ms());
        self.db.access.bits.lfu_log_factor = config.lfu_log_factor;
        self.db.access.bits.lfu_decay_minutes = config.lfu_decay_time_minutes;
        self.db.change_log.listening_to_misses =
            config.notify_keyspace_events.has(crate::config::EventClasses::KEY_MISS);
        self.server.observed.command_logs.thresholds = Thresholds::of(
            config.commandlog_execution_slower_than_us,
            config.commandlog_request_larger_than_bytes,
            config.commandlog_reply_larger_than_bytes,
        );
        self.server.observed.traces.limit(self.server.config.latency_trace_max_len);
        crate::observe::log::mark_role(config.replicaof.is_some());
        self.server.observed.memory.purge_in_background(config.jemalloc_bg_thread);
        // A limit lowered below current usage takes effect at once, not with the next command.
        if self.server.config.maxmemory_bytes > 0 {
            self.eviction.resume();
        }
        self.note_client_expiry();
        if let Some(node) = &mut self.server.cluster {
            node.view.reconfigure(cluster::settings(&self.server.config));
            node.is_reconfigured = true;
            self.server.counts_slots = self.server.config.cluster_slot_stats_enabled;
            if !self.server.counts_slots {
                node.forget_figures();
            }
        }
        self.server.clients.count_receivers(limits_client_memory(&self.server));
        count_all_memory(&mut self.server);
    }

    /// Samples the clock: all commands until the next call see this time.
    pub fn begin_tick(&mut self) {
        self.set_now(self.clock.read());
        self.eviction.begin_tick();
        confirmation::begin_turn(self);
        self.begin_tracing();
        self.commands_before_tick = self.server.observed.statistics.commands_processed;
    }

    /// Sets the time that commands see.
    pub(super) fn set_now(&mut self, now: Reading) {
        self.server.now = now;
        self.gate.close();
    }

    /// Starts the next command's time now.
    #[inline]
    pub(super) fn start_stopwatch(&mut self) {
        self.stopwatch_ns = self.clock.stopwatch_ns();
    }

    /// Returns the nanoseconds since the current command began; the next one begins now.
    #[inline]
    pub(super) fn lap_ns(&mut self) -> u64 {
        let now_ns = self.clock.stopwatch_ns();
        now_ns.saturating_sub(std::mem::replace(&mut self.stopwatch_ns, now_ns))
    }

    /// Runs the work that is due after all commands of the tick.
    pub fn end_tick(&mut self) {
        self.server.tracking.flush_broadcasts(&mut self.server.clients, &self.server.users);
        self.free_discarded();
        confirmation::before_write(self);
        self.replication.request_acknowledgements(&mut self.db, &mut self.server, &self.clock);
        match self.has_traces_under_way() {
            true => self.write_aof_traced(),
            false => self.aof.write_aof(&self.disk, &mut self.server),
        }
        confirmation::end_turn(self);
        let statistics = &mut self.server.observed.statistics;
        let commands = statistics.commands_processed.saturating_sub(self.commands_before_tick);
        statistics.count_loop(self.clock.monotonic_us() - self.server.now.monotonic_us, commands);
    }

    pub(crate) fn free_discarded(&mut self) {
        self.db.gather_scattered();
        self.hand_over_discarded();
    }

    fn hand_over_discarded(&mut self) {
        for garbage in self.db.discarded.drain(..) {
            self.reclaimer.free(garbage);
        }
    }

    /// Bounds pending frees: a script, a transaction or a pipeline may create and remove many collections before it
    /// ends.
    #[inline(always)]
    fn bound_discarded(&mut self) {
        if self.db.discarded.len() >= DISCARDED_MAX {
            self.hand_over_discarded();
        }
    }

    /// Registers a new client.
    pub fn connect(&mut self, connection: ConnectionFigures) -> ClientHandle {
        let now = self.server.now;
        let authenticated = self.server.users.default_is_open();
        self.server.observed.statistics.connections_received += 1;
        self.server.clients.add(|id, handle| Client::new(id, handle, connection, now, authenticated))
    }

    /// Counts bytes received from a client.
    #[inline]
    pub fn count_input(&mut self, handle: ClientHandle, bytes: usize) {
        self.server.observed.statistics.input_bytes += bytes as u64;
        self.server.observed.statistics.total_reads += 1;
        let client = &mut self.server.clients[handle];
        client.connection.input_bytes_total += bytes as u64;
        client.last_interaction = self.server.now;
        if let Some(link) = client.routing.slot_link.filter(|link| !link.is_export) {
            slot_migration::note_input(self, link, bytes);
        }
        let client = &self.server.clients[handle];
        if client.is_primary || client.is_replica {
            self.replication.note_received(&mut self.server, handle, bytes);
        }
    }

    /// Removes a client from all tables.
    pub fn disconnect(&mut self, handle: ClientHandle) {
        if self.has_traces_under_way() {
            self.end_traces_of(handle);
        }
        self.forget_replica(handle);
        peers::disconnected(self, handle);
        let server = &mut self.server;
        if self.script.abandon(handle) {
            // The suspended script continues; the client is forgotten when it ends.
            return server.detach(handle);
        }
        server.detach(handle);
        // Pending work lists keep the handle, which no longer resolves.
        server.clients.remove(handle);
    }
}
