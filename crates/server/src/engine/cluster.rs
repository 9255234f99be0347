//! This server's part in a cluster: the executor feeds the node's view with time, facts and what comes from the bus, and does
//! what follows for data, replication and clients.
//!
//! ```text
//!  bus thread -- Input --> Executor::cluster_input --> Cluster::step
//!                                                          |
//!  bus thread <-- BusAction -- end_cluster_turn <----------+--> Effect: replication, keys, pauses, messages
//! ```
//!
//! 1. The view changes only in the executor's thread: CLUSTER's commands are answered at once, and an executor that hangs
//!    sends no PONG.
//! 2. Effects are carried out before the next command of a client runs.

use super::Executor;
use crate::config::{Config, LogLevel, ReplicaOf};
use crate::server::cluster_node::{ClusterNode, now};
use crate::server::pause::{Pause, PausePurpose};
use cluster::{BusAction, Cluster, Effect, Facts, Input, Level, Settings, TICK_MS};
use std::str::from_utf8;
use structures::key_slot::key_slot;
use wire::cluster_bus::{Address, Kind, SlotSet, Text};

/// Period of the checks of clients that wait for keys of slots.
const BLOCKED_CHECK_US: u64 = 1_000_000;
/// How far the bus's port is above the port for clients, unless it is configured.
pub const BUS_PORT_OFFSET: u16 = 10_000;

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

impl Executor {
    /// Makes this server a node with this view of its cluster; call before data is loaded.
    pub fn join_cluster(&mut self, view: Cluster) {
        self.server.cluster = Some(Box::new(ClusterNode::new(view)));
        self.reconfigured();
    }

    /// Passes an event of the bus to the view.
    pub fn cluster_input(&mut self, input: Input) {
        let now = now(self.server.now);
        if let Some(node) = &mut self.server.cluster {
            node.view.step(input, now);
        }
        self.carry_out_cluster_effects();
    }

    /// Counts a frame of the bus.
    pub fn count_bus_bytes(&mut self, kind: Kind, bytes: u64, is_sent: bool) {
        let Some(node) = &mut self.server.cluster else { return };
        let is_message = matches!(kind, Kind::Publish | Kind::PublishShard);
        let traffic = &mut node.traffic;
        let (all, messages) = match is_sent {
            true => (&mut traffic.sent, &mut traffic.messages_sent),
            false => (&mut traffic.received, &mut traffic.messages_received),
        };
        *all += bytes;
        *messages += if is_message { bytes } else { 0 };
    }

    /// Counts a frame that was read and not believed.
    pub fn count_dropped_frame(&mut self, kind: Option<Kind>) {
        if let (Some(node), Some(kind)) = (&mut self.server.cluster, kind) {
            node.view.count_dropped_frame(kind);
        }
    }

    /// When the view is next to be told of the time.
    pub(super) fn next_cluster_tick_us(&self) -> Option<u64> {
        self.server.cluster.is_some().then_some(self.cluster_work.next_us)
    }

    /// Ends the turn of the view: time passes, and what commands and events have led to is done. Returns what the bus
    /// thread is to do, in order.
    pub fn end_cluster_turn(&mut self) -> Vec<BusAction> {
        if self.server.cluster.is_none() {
            return Vec::new();
        }
        let (now_us, now) = (self.server.now.monotonic_us, now(self.server.now));
        let facts = self.cluster_facts();
        let is_due = now_us >= self.cluster_work.next_us;
        let verifies = !self.cluster_work.is_data_verified && !self.is_loading();
        if is_due {
            self.cluster_work.next_us = now_us + TICK_MS * 1000;
        }
        if now_us >= self.cluster_work.next_check_us {
            self.cluster_work.next_check_us = now_us + BLOCKED_CHECK_US;
            self.redirect_blocked();
        }
        if verifies {
            self.cluster_work.is_data_verified = true;
            self.verify_slots();
        }
        let Some(node) = &mut self.server.cluster else { return Vec::new() };
        if is_due {
            node.view.step(Input::Facts(facts), now);
            node.view.step(Input::Tick, now);
        }
        self.carry_out_cluster_effects();
        let Some(node) = &mut self.server.cluster else { return Vec::new() };
        let actions = node.view.end_turn(now);
        // The end of the turn may have decided an election.
        self.carry_out_cluster_effects();
        actions
    }

    fn cluster_facts(&self) -> Facts {
        let upstream = self.replication.upstream();
        // A replica without its primary's data is not to be read, nor elected.
        let has_data = !self.is_replica() || upstream.has_data();
        Facts {
            replication_offset: if has_data { self.replication.offset() } else { 0 },
            data_age_ms: upstream.data_age_ms(&self.server),
        }
    }

    fn verify_slots(&mut self) {
        let mut slots = SlotSet::new();
        for slot in self.db.slots_with_keys() {
            slots.insert(slot);
        }
        if let Some(node) = &mut self.server.cluster {
            node.view.verify_data(&slots);
        }
    }

    /// Not while the server's own data is loaded, which a link to a primary would disturb: what was decided follows.
    fn carry_out_cluster_effects(&mut self) {
        if self.is_loading() && !self.is_replica() {
            return;
        }
        loop {
            let Some(node) = &mut self.server.cluster else { return };
            let effects = node.view.take_effects();
            if effects.is_empty() {
                return;
            }
            self.gate.close();
            effects.into_iter().for_each(|effect| self.carry_out(effect));
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Log(level, text) => log(level, &text),
            Effect::ReplicateFrom { address, port, full_sync } => {
                let host = address.to_string().into_bytes();
                self.follow_in_cluster(ReplicaOf { host, port }, full_sync);
            }
            Effect::BecomePrimary => self.promote(),
            Effect::Flush(_) => {
                self.promote();
                self.begin_turn(self.own_turn());
                let in_background = self.server.config.replica_lazy_flush;
                self.db.clear_all(in_background);
                self.db.change_log.flushed(None);
                self.verify_slots();
            }
            Effect::DeleteKeysInSlots(slots) => self.give_up_slots(&slots),
            Effect::VerifyData => self.verify_slots(),
            Effect::SlotsLeft(slots) => self.leave_slots(&slots),
            Effect::PauseWrites { until_ms } => {
                let pause = Pause { until_us: until_ms.saturating_mul(1000), all: false };
                self.server.pauses.begin(PausePurpose::Failover, pause, self.server.now.monotonic_us);
            }
            Effect::ResumeWrites => self.server.pauses.end(PausePurpose::Failover),
            Effect::Deliver { publication, is_sharded } => {
                let (channel, message) = (&publication.channel, &publication.message);
                match is_sharded {
                    true => self.server.publish_to_shard(channel, message),
                    false => self.server.publish(channel, message),
                };
            }
        }
    }

    /// Removes the keys of slots that other nodes own now.
    fn give_up_slots(&mut self, slots: &SlotSet) {
        self.begin_turn(self.own_turn());
        for slot in slots.iter().filter(|slot| self.db.keys_in_slot(*slot) > 0).collect::<Vec<_>>() {
            if let Some(node) = &self.server.cluster {
                log::info!("{}", node.view.dirty_slot_text(slot));
            }
            self.db.give_up_slot(slot);
        }
        self.feed_removals();
        self.apply_effects(None);
    }

    /// Figures of the slots begin anew, and subscribers of their channels are told that they no longer are.
    fn leave_slots(&mut self, slots: &SlotSet) {
        if let Some(node) = &mut self.server.cluster {
            slots.iter().for_each(|slot| node.forget_figures_of(slot));
        }
        self.server.leave_shard_channels(|channel| slots.contains(key_slot(channel)));
    }
}
