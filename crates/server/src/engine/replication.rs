//! Both roles of replication: a primary sends its replicas the stream of changes; a replica applies its primary's stream
//! and forwards it.
//!
//! `engine/feed.rs` feeds a primary's stream. The *backlog* keeps the stream's last bytes, for replicas that are behind or
//! reconnect; all replicas read the same copy.
//!
//! 1. The backlog has all bytes from a replica's position on: it is not trimmed beyond the slowest replica, which is
//!    closed when it is further behind than `client-output-buffer-limit` allows.
//! 2. Without a backlog there are no replicas and no reservations.

mod channels;
mod failover;
mod full_sync;
mod handshake;
mod history;
mod link;
mod link_timers;
mod outgoing;
mod output;
mod primary;
pub mod rdb_channel;
mod received_file;
mod replicas;
mod reservations;
mod snapshot_frame;
mod stream;
mod stream_load;
mod sync_plan;
#[cfg(test)]
mod tests;
mod transfer;

use super::Executor;
use crate::clock::Clock;
use crate::config::{Config, OutputBufferLimit};
use crate::db::Db;
use crate::server::{AcknowledgedOffsets, Durability, Server};
use crate::session::ClientId;
use failover::Failover;
use full_sync::FullSyncs;
use link::Upstream;
pub(in crate::engine) use link::follow_in_cluster;
use outgoing::OutgoingStream;
use replicas::Replicas;
use reservations::Reservations;

/// State of replication. Its methods receive the other parts of the executor as parameters.
pub struct Replication {
    outgoing: OutgoingStream,
    replicas: Replicas,
    full_syncs: FullSyncs,
    reservations: Reservations,
    failover: Failover,
    upstream: Upstream,
    /// State at the last check of the clients that wait for acknowledgements.
    acknowledgements_served: Option<KnownAcknowledgements>,
    /// On the monotonic clock, as all times here.
    next_cron_us: u64,
    pinged_us: u64,
}

/// The state on which waits for acknowledgements depend.
#[derive(PartialEq)]
struct KnownAcknowledgements {
    replicas: Vec<AcknowledgedOffsets>,
    durability: Durability,
    histories_forgotten: u64,
}

impl Replication {
    /// Creates the state. `seed` must differ between processes: ids of histories are drawn from it.
    pub(super) fn new(seed: u64) -> Self {
        Replication {
            outgoing: OutgoingStream::new(seed),
            replicas: Replicas::default(),
            full_syncs: FullSyncs::default(),
            reservations: Reservations::default(),
            failover: Failover::default(),
            upstream: Upstream::default(),
            acknowledgements_served: None,
            next_cron_us: 0,
            pinged_us: 0,
        }
    }

    /// Returns the replica's role of this server.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// As [`Self::upstream`], mutably.
    pub fn upstream_mut(&mut self) -> &mut Upstream {
        &mut self.upstream
    }

    /// Returns the stream's offset.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.outgoing.offset()
    }

    /// Returns the offset after the last change of data.
    #[inline]
    pub(super) fn data_end(&self) -> u64 {
        self.outgoing.data_end()
    }

    /// Returns whether this server's changes feed the stream; a replica forwards the primary's stream.
    #[inline]
    pub(super) fn feeds_stream(&self, config: &Config) -> bool {
        self.outgoing.has_backlog() && config.replicaof.is_none()
    }

    /// Returns the memory of the stream and of snapshots in transfer.
    pub(super) fn held_bytes(&self) -> usize {
        self.outgoing.memory_bytes() + self.full_syncs.memory_bytes()
    }

    /// Appends whole encoded commands of one database to the stream.
    #[inline]
    pub(super) fn append_commands(&mut self, db_index: usize, commands: &[u8]) {
        self.outgoing.append_commands(db_index, commands);
    }

    /// Appends MULTI or EXEC: databases are selected between them.
    #[inline]
    pub(super) fn append_bracket(&mut self, command: &[u8]) {
        self.outgoing.append_counted(command);
    }

    /// Takes the bytes of commands for all replicas since the last call.
    pub(super) fn take_command_bytes(&mut self) -> u64 {
        self.outgoing.take_command_bytes() * self.replicas.len() as u64
    }

    /// Appends a command that changes no data.
    fn append_control(&mut self, db: &mut Db, server: &mut Server, clock: &Clock, command: &[u8]) {
        self.outgoing.append_control(command);
        self.after_feeding(db, server, clock);
    }

    /// Makes the primary's history this server's own, after a promotion: replicas of the same primary can continue with this
    /// server.
    fn take_history_over(&mut self, db: &mut Db, server: &mut Server) {
        self.outgoing.part_from_primary();
        self.replicas.note_none_since(server.now.monotonic_us);
        self.note_stream(db, server);
    }

    /// Records that no replica is attached from now on; the backlog is freed after `repl-backlog-ttl`.
    pub(super) fn note_without_replicas(&mut self, now_us: u64) {
        self.replicas.note_none_since(now_us);
    }

    /// Updates the figures and keeps the backlog within its limits.
    #[inline]
    pub(super) fn after_feeding(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        server.observed.replication.offset = self.outgoing.offset();
        self.limit_grown_backlog(db, server, clock);
    }

    #[inline]
    fn limit_grown_backlog(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        if self.outgoing.take_grown() {
            self.limit_backlog(db, server, clock);
        }
    }

    /// Closes replicas that are too far behind, and frees bytes that no replica needs.
    fn limit_backlog(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        let end = self.outgoing.offset();
        let kept_bytes = server.config.repl_backlog_size_bytes;
        if !self.replicas.is_empty() || !self.reservations.is_empty() {
            let limit = server.config.client_output_buffer_limit.replica;
            let limit = OutputLimit::new(limit, kept_bytes, clock.monotonic_us());
            self.replicas.limit(server, &limit, end);
            self.step_reservations(server, reservations::Event::Fed { end, limit: &limit });
        }
        let slowest = [self.replicas.slowest(), self.reservations.slowest()];
        self.outgoing.trim(kept_bytes, slowest.into_iter().flatten().min().unwrap_or(end));
        self.note_stream(db, server);
    }

    /// Publishes the figures of the stream, and whether this server feeds it.
    pub(super) fn note_stream(&self, db: &mut Db, server: &mut Server) {
        db.change_log.feeds_replicas = self.feeds_stream(&server.config);
        let kept_bytes = server.config.repl_backlog_size_bytes;
        self.outgoing.publish(&mut server.observed.replication, kept_bytes, !self.replicas.is_empty());
    }

    /// Publishes the state of the replicas.
    pub fn note_replicas(&mut self, db: &mut Db, server: &mut Server) {
        if self.replicas.take_changed() {
            self.replicas.publish(server, self.outgoing.offset());
            self.note_stream(db, server);
        }
    }
}

/// Limit of the bytes that replicas may be behind, at one instant.
struct OutputLimit {
    hard_bytes: u64,
    soft_bytes: u64,
    soft_seconds: u64,
    now_us: u64,
}

/// Monotonic time since which a replica has exceeded the soft limit.
#[derive(Debug, Default)]
struct SoftLimit {
    exceeded_since_us: Option<u64>,
}

impl OutputLimit {
    /// Creates the limit. `kept_bytes`, the backlog's size, is allowed in any case.
    fn new(limit: OutputBufferLimit, kept_bytes: u64, now_us: u64) -> Self {
        let [hard_bytes, soft_bytes] = [limit.hard_bytes, limit.soft_bytes]
            .map(|bytes| if bytes == 0 { u64::MAX } else { bytes.max(kept_bytes) });
        OutputLimit { hard_bytes, soft_bytes, soft_seconds: limit.soft_seconds, now_us }
    }

    fn is_exceeded(&self, behind_bytes: u64, soft_limit: &mut SoftLimit) -> bool {
        let since_us = soft_limit.exceeded_since_us;
        let is_over = behind_bytes >= self.soft_bytes;
        soft_limit.exceeded_since_us = is_over.then(|| since_us.unwrap_or(self.now_us));
        let is_over_for_long = is_over
            && since_us.is_some_and(|since_us| {
                self.now_us.saturating_sub(since_us) > self.soft_seconds.saturating_mul(1_000_000)
            });
        behind_bytes >= self.hard_bytes || is_over_for_long
    }
}

/// Logs that a replica is closed because it is too far behind.
fn note_exceeded_limit(server: &mut Server, client_id: ClientId, address: &str) {
    log::warn!(
        "Client id={} addr={address} flags=S scheduled to be closed ASAP for overcoming of output buffer limits.",
        client_id.0
    );
    server.observed.statistics.output_buffer_limit_disconnections += 1;
}

impl Executor {
    /// Returns whether the primary's stream is being applied.
    pub(crate) fn is_linked(&self) -> bool {
        self.replication.upstream.is_linked()
    }

    /// Forwards the primary's bytes verbatim to this server's replicas.
    pub fn feed_verbatim(&mut self, bytes: &[u8]) {
        self.replication.outgoing.append(bytes);
        self.after_feeding();
    }

    /// As [`Replication::feeds_stream`].
    #[inline]
    pub(super) fn feeds_stream(&self) -> bool {
        self.replication.feeds_stream(&self.server.config)
    }

    /// Updates the figures of the stream and keeps its backlog within its limits.
    #[inline]
    pub(super) fn after_feeding(&mut self) {
        self.replication.after_feeding(&mut self.db, &mut self.server, &self.clock);
    }

    /// Publishes the state of the replicas.
    pub fn note_replicas(&mut self) {
        self.replication.note_replicas(&mut self.db, &mut self.server);
    }
}
