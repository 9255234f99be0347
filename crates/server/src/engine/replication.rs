//! Replication: the stream of changes that keeps copies on other servers up to date, and the replicas it is sent to.
//!
//! The stream is fed by `engine/feed.rs`, or on a replica by its own primary. The *backlog* keeps its last bytes, for
//! replicas that are behind and for those that reconnect. There is one copy of them, however many replicas read it.
//!
//! 1. With a backlog, its end is the history's offset.
//! 2. A replica with a position can be sent everything from there to the end: the backlog is not trimmed beyond the
//!    slowest, which is closed when it is further behind than `client-output-buffer-limit` allows.
//! 3. Without a backlog there are no replicas and no reservations.

mod channels;
mod failover;
mod full_sync;
mod handshake;
pub mod history;
pub(super) mod link;
mod output;
mod primary;
pub mod rdb_channel;
mod received_file;
mod snapshot_frame;
mod stream;
mod stream_load;
#[cfg(test)]
mod tests;
mod transfer;

use super::Executor;
use crate::config::OutputBufferLimit;
use crate::observe::replication::BacklogFigures;
use crate::server::{AcknowledgedOffsets, Durability};
use crate::session::{ClientHandle, ClientId};
use failover::Failover;
use full_sync::Transfer;
use history::{History, ID_LEN};
use indexmap::IndexMap;
use primary::Replica;
use rdb_channel::Reservation;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use structures::random::Random;
use structures::shared_log::{BLOCK_BYTES, SharedLog};
use wire::aof::write_command;
use wire::convert::signed_len;
use wire::number::i64_text;

/// Memory of a backlog beyond its size when no replica is behind.
const BEYOND_SIZE_BYTES: u64 = 4 * BLOCK_BYTES as u64;

pub(crate) struct Replication {
    pub history: History,
    backlog: Option<SharedLog>,
    /// Offsets of the contiguous trailing commands of the stream that change no data.
    control: Range<u64>,
    /// The database of the last command; `None` makes the next one select its own.
    selected: Option<usize>,
    /// The backlog has taken another block since its limits were last checked.
    has_grown: bool,
    random: Random,
    /// Attached replicas, in the order of attachment.
    replicas: IndexMap<ClientHandle, Replica>,
    /// The published figures of replicas are outdated.
    has_changed: bool,
    /// The state when waiters for acknowledgements were last checked.
    acknowledgements_served: Option<KnownAcknowledgements>,
    transfer: Option<Transfer>,
    /// Keyed by the client of the rdb channel.
    reservations: IndexMap<ClientId, Reservation>,
    /// A running FAILOVER.
    failover: Option<Failover>,
    next_transfer: u64,
    /// The offset of the last snapshot begun for replicas.
    snapshot_offset: u64,
    /// Until then, no snapshot is begun in the format for releases before 9.0: the last one met a value that this
    /// format cannot represent.
    old_form_refused_until_us: u64,
    /// A file written for replicas only, to be removed.
    sync_file: Option<PathBuf>,
    /// On the monotonic clock, as all times here.
    pub(super) without_replicas_since_us: u64,
    next_cron_us: u64,
    pinged_us: u64,
}

/// All state that decides whether a wait for acknowledgements is satisfied.
#[derive(PartialEq)]
struct KnownAcknowledgements {
    replicas: Vec<AcknowledgedOffsets>,
    durability: Durability,
    histories_forgotten: u64,
}

impl Replication {
    /// The seed must differ between processes: ids of histories are drawn from it.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let history = History::new(draw_id(&mut random));
        Replication {
            history,
            backlog: None,
            control: 0..0,
            selected: None,
            has_grown: false,
            random,
            replicas: IndexMap::new(),
            has_changed: false,
            acknowledgements_served: None,
            transfer: None,
            reservations: IndexMap::new(),
            failover: None,
            next_transfer: 0,
            snapshot_offset: 0,
            old_form_refused_until_us: 0,
            sync_file: None,
            without_replicas_since_us: 0,
            next_cron_us: 0,
            pinged_us: 0,
        }
    }

    /// Draws an id that no history has had.
    pub fn draw_id(&mut self) -> String {
        draw_id(&mut self.random)
    }

    /// Returns whether the stream is kept.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.backlog.is_some()
    }

    /// Returns the backlog, if there is one.
    pub fn backlog(&self) -> Option<&SharedLog> {
        self.backlog.as_ref()
    }

    /// Starts keeping the stream.
    pub fn create_backlog(&mut self) {
        self.backlog = Some(SharedLog::new(self.history.offset()));
        self.selected = None;
    }

    /// Removes the backlog.
    pub fn remove_backlog(&mut self) {
        self.backlog = None;
    }

    /// Forgets the file that was written or received for a sync: it is gone or reused.
    pub fn forget_sync_file(&mut self) {
        self.sync_file = None;
    }

    /// Makes the next command select its database, because a receiver begins with it.
    pub fn forget_selected(&mut self) {
        self.selected = None;
    }

    /// Returns the database that the stream has selected.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Returns whether a child's snapshot has been read but its exit has not been seen.
    pub fn awaits_child(&self) -> bool {
        self.transfer.as_ref().is_some_and(Transfer::awaits_child)
    }

    /// Returns the first byte of the stream that must be kept for a replica.
    fn slowest(&self) -> u64 {
        let positions = self.replicas.values().filter_map(|replica| replica.position);
        let reserved = self.reservations.values().map(|reservation| reservation.position);
        positions.chain(reserved).min().unwrap_or(self.history.offset())
    }

    /// Returns the range of byte numbers from which a replica could continue the stream.
    pub fn sendable(&self) -> Option<RangeInclusive<u64>> {
        self.backlog.as_ref().map(|log| log.start() + 1..=log.end() + 1)
    }

    /// Returns the memory held for the stream.
    pub fn memory_bytes(&self) -> usize {
        self.backlog.as_ref().map_or(0, SharedLog::memory_bytes)
    }

    /// Returns the memory held for the stream and for snapshots in transfer.
    pub fn held_bytes(&self) -> usize {
        self.memory_bytes() + self.transfer.as_ref().map_or(0, Transfer::memory_bytes)
    }

    /// Appends to the stream.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        if let Some(log) = &mut self.backlog {
            self.has_grown |= log.append(bytes);
        }
        self.history.advance(bytes.len());
    }

    /// As [`Self::append`], for a command that changes no data.
    pub fn append_control(&mut self, bytes: &[u8]) {
        let offset = self.history.offset();
        if self.control.end != offset {
            self.control.start = offset;
        }
        self.append(bytes);
        self.control.end = self.history.offset();
    }

    /// Returns the offset after the last change of data.
    pub fn data_end(&self) -> u64 {
        let offset = self.history.offset();
        if self.control.end == offset { self.control.start } else { offset }
    }

    /// As [`Self::append`], for whole encoded commands of one database.
    #[inline]
    pub fn append_commands(&mut self, db_index: usize, commands: &[u8]) {
        if self.selected != Some(db_index) {
            self.select(db_index);
        }
        self.append(commands);
    }

    #[cold]
    fn select(&mut self, db_index: usize) {
        self.selected = Some(db_index);
        let mut select = Vec::new();
        write_command(&mut select, [&b"SELECT"[..], &i64_text(signed_len(db_index))].into_iter())
            .expect("writing to memory cannot fail");
        self.append(&select);
    }
}

/// How far replicas may be behind, at one instant.
struct OutputLimit {
    hard_bytes: u64,
    soft_bytes: u64,
    soft_seconds: u64,
    now_us: u64,
}

/// Since when a replica has exceeded the soft limit, on the monotonic clock.
#[derive(Debug, Default)]
struct SoftLimit {
    exceeded_since_us: Option<u64>,
}

impl OutputLimit {
    /// The backlog's own size does not count against the limit.
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

fn draw_id(random: &mut Random) -> String {
    let digit = |_| char::from(b"0123456789abcdef"[random.index(16)]);
    (0..ID_LEN).map(digit).collect()
}

impl Executor {
    /// Promotes this server: replicas of the same primary can continue with this one.
    pub(super) fn take_history_over(&mut self) {
        let id = self.replication.draw_id();
        self.replication.history.part(id);
        self.replication.without_replicas_since_us = self.server.now.monotonic_us;
        // The former primary's control commands are not distinguished.
        self.replication.control = 0..0;
        // A continuing replica does not know which database the last command here used.
        self.replication.selected = None;
        self.note_stream();
    }

    /// Forwards the primary's bytes verbatim: this server's replicas follow the same stream.
    pub fn feed_verbatim(&mut self, bytes: &[u8]) {
        self.replication.append(bytes);
        self.after_feeding();
    }

    /// Returns whether local changes make the stream; on a replica the primary's stream does.
    #[inline]
    pub(super) fn feeds_stream(&self) -> bool {
        self.replication.has_backlog() && self.server.config.replicaof.is_none()
    }

    /// Updates the figures and keeps the backlog within its limits.
    #[inline]
    pub(super) fn after_feeding(&mut self) {
        self.server.observed.replication.offset = self.replication.history.offset();
        self.limit_grown_backlog();
    }

    #[inline]
    fn limit_grown_backlog(&mut self) {
        if std::mem::take(&mut self.replication.has_grown) {
            self.limit_backlog();
        }
    }

    /// Closes replicas that are too far behind, and frees bytes that no replica needs.
    fn limit_backlog(&mut self) {
        if self.has_replicas() || !self.replication.reservations.is_empty() {
            self.limit_replicas();
        }
        let kept_bytes = self.server.config.repl_backlog_size_bytes;
        let slowest = self.replication.slowest();
        if let Some(log) = &mut self.replication.backlog {
            // The rest is freed in later turns.
            self.replication.has_grown = log.trim_to(slowest.min(log.end().saturating_sub(kept_bytes)));
        }
        self.note_stream();
    }

    /// Publishes the figures of the stream, and whether it is fed.
    pub(super) fn note_stream(&mut self) {
        self.db.change_log.feeds_replicas = self.feeds_stream();
        let replication = &self.replication;
        let figures = &mut self.server.observed.replication;
        let history = &replication.history;
        history.id().clone_into(&mut figures.id);
        figures.second_id = history.second().map(|second| (second.id.clone(), second.first_other));
        figures.offset = history.offset();
        figures.backlog =
            replication.backlog().map(|log| BacklogFigures { first_byte_offset: log.start() + 1 });
        figures.buffer_bytes = replication.memory_bytes() as u64;
        // A block being filled, a spare one, and the list of blocks.
        let backlog_bytes = self.server.config.repl_backlog_size_bytes + BEYOND_SIZE_BYTES;
        // Bytes that no replica needs any more are freed gradually.
        let beyond_bytes = figures.buffer_bytes.saturating_sub(backlog_bytes);
        figures.beyond_size_bytes = if replication.replicas.is_empty() { 0 } else { beyond_bytes };
    }
}
