//! This server's part in a cluster: the executor feeds the node's view with time, facts and what comes from the bus, and does
//! what follows for data, replication and clients.
//!
//! ```text
//!  bus thread -- Input ------> take --> Cluster::step
//!                                              |
//!  bus thread <-- BusAction -- end_turn <------+--> Effect: replication, keys, pauses, messages
//! ```
//!
//! 1. The view changes only in the executor's thread: an executor that hangs sends no PONG. A command of CLUSTER that
//!    changes the view is answered when nodes.conf is on disk.
//! 2. Effects are carried out before the next command of a client runs: when an event has been passed on, and when a
//!    client's command, transaction or script ends. What the primary's stream has led to waits for the end of the turn, and
//!    everything for the end of a load of this server's own data.

use super::Executor;
use super::blocked::refuse_waiting_slots;
use super::redirection::redirect_blocked;
use super::replication::follow_in_cluster;
use super::slot_migration;
use crate::config::{Config, LogLevel, ReplicaOf};
use crate::db::slots;
use crate::error::on_the_wire;
use crate::server::cluster_node::{ClusterNode, now};
use crate::server::pause::{Pause, PausePurpose};
use cluster::{BusAction, Cluster, Effect, Facts, Flush, Input, Level, Settings, TICK_MS};
use std::str::from_utf8;
use structures::key_slot::key_slot;
use wire::cluster_bus::{Address, SlotSet, Text};
use wire::convert::usize_of;
use wire::nodes_conf::BUS_PORT_OFFSET;

/// Period of the checks of clients that wait for keys of slots.
const BLOCKED_CHECK_US: u64 = 1_000_000;

/// State of the executor's part.
#[derive(Default)]
pub(super) struct ClusterWork {
    /// Next tick of the view, on the monotonic clock.
    next_us: u64,
    /// Next check of the clients that wait for keys.
    next_check_us: u64,
    /// The keys have been compared with the slots since the data was loaded.
    is_data_verified: bool,
}

/// Returns the options that the view depends on.
pub fn settings(config: &Config) -> Settings {
    let text = |bytes: &Option<Vec<u8>>| {
        let text = bytes.as_deref().and_then(|bytes| from_utf8(bytes).ok());
        text.and_then(Text::parse).unwrap_or_default()
    };
    let ip =
        |bytes: &Option<Vec<u8>>| bytes.as_deref().and_then(|bytes| from_utf8(bytes).ok()).map(str::to_owned);
    let announced = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    Settings {
        node_timeout_ms: config.cluster_node_timeout_ms,
        ping_interval_ms: config.cluster_ping_interval_ms,
        gossip_percent: config.cluster_message_gossip_perc.into(),
        replica_validity_factor: config.cluster_replica_validity_factor.into(),
        replica_no_failover: config.cluster_replica_no_failover,
        migration_barrier: config.cluster_migration_barrier as usize,
        allow_replica_migration: config.cluster_allow_replica_migration,
        require_full_coverage: config.cluster_require_full_coverage,
        manual_failover_timeout_ms: config.cluster_manual_failover_timeout_ms.into(),
        blacklist_ttl_s: config.cluster_blacklist_ttl_seconds,
        link_send_buffer_limit_bytes: config.cluster_link_sendbuf_limit_bytes,
        replication_ping_period_s: config.repl_ping_replica_period_seconds.into(),
        tls_cluster: config.tls_cluster,
        tls_replication: config.tls_replication,
        announce_ip: ip(&config.cluster_announce_ip).and_then(|text| Address::parse(&text)),
        announce_client_ipv4: ip(&config.cluster_announce_client_ipv4).and_then(|text| text.parse().ok()),
        announce_client_ipv6: ip(&config.cluster_announce_client_ipv6).and_then(|text| text.parse().ok()),
        announce_hostname: text(&config.cluster_announce_hostname),
        announce_human_nodename: text(&config.cluster_announce_human_nodename),
        availability_zone: from_utf8(&config.availability_zone)
            .ok()
            .and_then(Text::parse)
            .unwrap_or_default(),
        tcp_port: announced(config.cluster_announce_port, config.port),
        tls_port: announced(config.cluster_announce_tls_port, config.tls_port),
        bus_port: announced(config.cluster_announce_bus_port, bus_port(config)),
        client_tcp_port: config.cluster_announce_client_port,
        client_tls_port: config.cluster_announce_client_tls_port,
        replication_timeout_s: config.repl_timeout_seconds.into(),
        slot_migration_unsent_bytes_max: u64::try_from(config.slot_migration_max_failover_repl_bytes).ok(),
        slot_migration_log_len_max: usize_of(config.cluster_slot_migration_log_max_len),
        log_level: match config.loglevel {
            LogLevel::Debug => Level::Debug,
            LogLevel::Verbose => Level::Verbose,
            LogLevel::Notice => Level::Notice,
            LogLevel::Warning | LogLevel::Nothing => Level::Warning,
        },
    }
}

/// Returns the port on which the bus listens.
pub fn bus_port(config: &Config) -> u16 {
    let base = if config.tls_cluster && config.tls_port != 0 { config.tls_port } else { config.port };
    let base = if base == 0 { config.tls_port } else { base };
    match config.cluster_port {
        0 => base.saturating_add(BUS_PORT_OFFSET),
        port => port,
    }
}

fn log(level: Level, text: &str) {
    match level {
        Level::Debug => log::trace!("{text}"),
        Level::Verbose => log::debug!("{text}"),
        Level::Notice => log::info!("{text}"),
        Level::Warning => log::warn!("{text}"),
    }
}

/// Makes this server a node with this view of its cluster; call before data is loaded.
pub fn join(executor: &mut Executor, view: Cluster) {
    executor.server.cluster = Some(Box::new(ClusterNode::new(view)));
    executor.reconfigured();
}

/// Passes an event of the bus to the view.
pub fn take(executor: &mut Executor, input: Input) {
    let (now, facts) = (now(executor.server.now), facts(executor));
    if let Some(node) = &mut executor.server.cluster {
        // A frame that answers `input` has the replication offset of this instant: a manual failover relies on it.
        node.view.step(Input::Facts(facts), now);
        node.view.step(input, now);
    }
    carry_out_effects(executor);
}

/// Replies to the clients whose changes of the cluster are on disk with this save of nodes.conf, or, with the reason, could
/// not be saved.
pub fn saved(executor: &mut Executor, number: u64, failure: Option<&str>) {
    let server = &mut executor.server;
    while let Some((handle, answer)) = server.blocked.first_for_save(number) {
        server.note_given_up(handle, false);
        match failure.and_then(|failure| answer.error(failure)) {
            Some(line) => {
                server.observed.statistics.count_error(&line);
                server.wake(handle, |reply| reply.error(on_the_wire(&line)));
            }
            None => server.wake(handle, |reply| answer.write(reply)),
        }
    }
}

/// When the view next takes the time.
pub(super) fn next_tick_us(executor: &Executor) -> Option<u64> {
    executor.server.cluster.is_some().then_some(executor.cluster_work.next_us)
}

/// Ends the turn of the view: time passes, and what commands and events have led to is done. Returns what the bus
/// thread is to do, in order.
pub fn end_turn(executor: &mut Executor) -> Vec<BusAction> {
    if executor.server.cluster.is_none() {
        return Vec::new();
    }
    let (now_us, now) = (executor.server.now.monotonic_us, now(executor.server.now));
    let is_due = now_us >= executor.cluster_work.next_us;
    let verifies = !executor.cluster_work.is_data_verified && !executor.is_loading();
    if is_due {
        executor.cluster_work.next_us = now_us + TICK_MS * 1000;
    }
    if now_us >= executor.cluster_work.next_check_us {
        executor.cluster_work.next_check_us = now_us + BLOCKED_CHECK_US;
        redirect_blocked(executor);
    }
    if verifies {
        executor.cluster_work.is_data_verified = true;
        verify_data(executor);
    }
    let fails_over = executor.server.cluster.as_ref().is_some_and(|node| node.view.is_in_manual_failover());
    if is_due || fails_over {
        // A replica that waits for its primary's last write has it in this turn, not at the next tick.
        let facts = facts(executor);
        let Some(node) = &mut executor.server.cluster else { return Vec::new() };
        node.view.step(Input::Facts(facts), now);
        if is_due {
            node.view.step(Input::Tick, now);
        }
    }
    carry_out_effects(executor);
    if !executor.is_loading() {
        slot_migration::run(executor);
    }
    let ends = executor.ending.is_over();
    let Some(node) = &mut executor.server.cluster else { return Vec::new() };
    if ends {
        node.view.hasten_save();
    }
    let actions = node.view.end_turn(now);
    // The end of the turn may have decided an election.
    carry_out_effects(executor);
    actions
}

fn facts(executor: &Executor) -> Facts {
    let upstream = executor.replication.upstream();
    // A replica without its primary's data is not to be read, nor elected.
    let has_data = !executor.is_replica() || upstream.has_data();
    Facts {
        replication_offset: if has_data { executor.replication.offset() } else { 0 },
        data_age_ms: upstream.data_age_ms(&executor.server),
    }
}

/// The data of this node has been loaded: what its imports have left is removed before the keys are compared with the slots.
fn verify_data(executor: &mut Executor) {
    carry_out_effects(executor);
    let now = now(executor.server.now);
    if let Some(node) = &mut executor.server.cluster {
        node.view.migrations_loaded(now);
    }
    slot_migration::run(executor);
    verify_slots(executor);
}

/// Data of this node has been loaded again.
pub(super) fn note_loaded(executor: &mut Executor) {
    executor.cluster_work.is_data_verified = false;
}

fn verify_slots(executor: &mut Executor) {
    let mut slots = SlotSet::new();
    for slot in slots::with_keys(&executor.db) {
        slots.insert(slot);
    }
    if let Some(node) = &mut executor.server.cluster {
        node.view.verify_data(&slots);
    }
}

/// Not while the server's own data is loaded, which a link to a primary would disturb: what was decided follows. Lines of the
/// log are written at once: what peers do makes them pile up.
pub(super) fn carry_out_effects(executor: &mut Executor) {
    let is_loading = executor.is_loading() && !executor.is_replica();
    let Some(node) = &mut executor.server.cluster else { return };
    if is_loading {
        return node.view.take_log().iter().for_each(|(level, text)| log(*level, text));
    }
    loop {
        let Some(node) = &mut executor.server.cluster else { return };
        let effects = node.view.take_effects();
        if effects.is_empty() {
            return;
        }
        executor.gate.close();
        effects.into_iter().for_each(|effect| carry_out(executor, effect));
        executor.serve_ready();
    }
}

fn carry_out(executor: &mut Executor, effect: Effect) {
    match effect {
        Effect::Log(level, text) => log(level, &text),
        Effect::ReplicateFrom { address, port, full_sync } => {
            let host = address.to_string().into_bytes();
            follow_in_cluster(executor, ReplicaOf { host, port }, full_sync);
            refuse_waiting_slots(executor);
        }
        Effect::BecomePrimary => executor.promote(),
        Effect::Flush(why) => flush(executor, why),
        Effect::DeleteKeysInSlots(slots) => give_up_slots(executor, &slots),
        Effect::VerifyData => verify_slots(executor),
        Effect::SlotsLeft(slots) => leave_slots(executor, &slots),
        Effect::PauseWrites { until_ms } => {
            let pause = Pause { until_us: until_ms.saturating_mul(1000), all: false };
            executor.server.pauses.begin(PausePurpose::Failover, pause, executor.server.now.monotonic_us);
        }
        Effect::PauseSlots { slots, until_ms } => {
            executor.server.pauses.pause_slots(slots, until_ms.saturating_mul(1000));
        }
        Effect::ResumeSlots => {
            executor.server.pauses.end_slots();
            // Before the held commands run again: they may not be served here any more.
            redirect_blocked(executor);
        }
        Effect::Migration(job, action) => slot_migration::carry_out(executor, job, action),
        Effect::ResumeWrites => executor.server.pauses.end(PausePurpose::Failover),
        Effect::Deliver { publication, is_sharded } => {
            let (channel, message) = (&publication.channel, &publication.message);
            match is_sharded {
                true => executor.server.publish_to_shard(channel, message),
                false => executor.server.publish(channel, message),
            };
        }
    }
}

/// Removes all data and libraries for the server itself. The append-only file and replicas get the commands that do the
/// same: a restart must not bring the keys back, with which the node would take their slots.
fn flush(executor: &mut Executor, why: Flush) {
    executor.promote();
    executor.begin_turn(executor.own_turn());
    executor.begin_changes();
    let config = &executor.server.config;
    let in_background = match why {
        Flush::Detached => config.replica_lazy_flush,
        Flush::Reset => config.lazyfree_lazy_user_flush,
    };
    executor.db.clear_all(in_background);
    executor.db.forget_client_expiry();
    executor.server.scripts.flush_functions();
    executor.db.change_log.flushed(None);
    if executor.records_changes() {
        for command in [&[b"FLUSHALL".as_slice()][..], &[b"FUNCTION", b"FLUSH"]] {
            executor.db.change_log.propagate_verbatim(0, command.iter().copied());
        }
    }
    executor.feed_removals();
    executor.apply_effects(None);
    executor.free_discarded();
    executor.all_flushed();
    verify_slots(executor);
}

/// Removes the keys of slots that other nodes own now.
fn give_up_slots(executor: &mut Executor, slots: &SlotSet) {
    let node = executor.server.cluster.as_deref();
    for slot in slots.iter().filter(|slot| slots::keys_in(&executor.db, *slot) > 0) {
        node.inspect(|node| log::info!("{}", node.view.dirty_slot_text(slot)));
    }
    remove_keys(executor, slots);
}

/// Removes the keys of slots, with one DEL for each for copies of the data.
pub(super) fn remove_keys(executor: &mut Executor, slots: &SlotSet) {
    executor.begin_turn(executor.own_turn());
    executor.begin_changes();
    for slot in slots.iter() {
        let mut removal = slots::Removal::of(&executor.db, slot);
        while removal.give_up_some(&mut executor.db) {
            executor.feed_removals();
            executor.apply_effects(None);
            executor.free_discarded();
        }
    }
}

/// Figures of the slots begin anew, and subscribers of their channels get the end of their subscriptions.
fn leave_slots(executor: &mut Executor, slots: &SlotSet) {
    if let Some(node) = &mut executor.server.cluster {
        slots.iter().for_each(|slot| node.forget_figures_of(slot));
    }
    executor.server.leave_shard_channels(|channel| slots.contains(key_slot(channel)));
}
