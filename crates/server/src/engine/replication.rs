//! Copies of the data on other servers: the stream of changes that keeps them as this one is, and who is sent it.
//!
//! The stream is what the feed gives this sink (`engine/feed.rs`), or on a replica what its own primary has sent. While
//! there is a *backlog*, its last bytes are kept: for replicas that are behind, and for those that come back. There is one
//! copy of them, however many replicas read it.
//!
//! 1. With a backlog, its end is the history's offset.
//! 2. A replica that has a position can be sent all from there to the end: the backlog is not trimmed beyond the slowest,
//!    which is closed when it is further behind than `client-output-buffer-limit` allows.
//! 3. There are no replicas, and nothing is reserved for any, without a backlog.

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
mod transfer;

use super::Executor;
use crate::config::OutputBufferLimit;
use crate::observe::replication::BacklogFigures;
use crate::server::{AcknowledgedOffsets, Durability};
use crate::session::{ClientHandle, ClientId};
use failover::Failover;
use full_sync::{Format, Transfer};
use history::{History, ID_LEN};
use indexmap::IndexMap;
use primary::Replica;
use rdb_channel::Reservation;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use structures::random::Random;
use structures::shared_log::{BLOCK_BYTES, SharedLog};
use wire::aof::write_command;
use wire::number::i64_text;

/// What a backlog takes beyond its size although nobody is behind.
const BEYOND_SIZE_BYTES: u64 = 4 * BLOCK_BYTES as u64;

pub(crate) struct Replication {
    pub history: History,
    backlog: Option<SharedLog>,
    /// The last commands of the stream that change no data, one behind the other, as offsets.
    control: Range<u64>,
    /// The database of the last command; `None` makes the next one say its own.
    selected: Option<usize>,
    /// The backlog has taken another block since its limits were last looked at.
    has_grown: bool,
    random: Random,
    /// Those attached, in the order in which they came.
    replicas: IndexMap<ClientHandle, Replica>,
    /// What others are shown of replicas is not true any more.
    has_changed: bool,
    /// What was known when those who wait for acknowledgements were last looked at.
    acknowledgements_served: Option<KnownAcknowledgements>,
    transfer: Option<Transfer>,
    /// By the client of the rdb channel.
    reservations: IndexMap<ClientId, Reservation>,
    /// This server's role is being handed over.
    failover: Option<Failover>,
    next_transfer: u64,
    /// The offset of the snapshot that was begun last for replicas.
    snapshot_offset: u64,
    /// How the snapshot that was begun last for replicas is.
    snapshot_format: Option<Format>,
    /// Until then, no snapshot is begun in the form for releases before 9.0: the last one met a value that has none.
    old_form_refused_until_us: u64,
    /// A file that was written for replicas alone, and is to be removed.
    sync_file: Option<PathBuf>,
    /// On the monotonic clock, as all times here.
    pub(super) without_replicas_since_us: u64,
    next_cron_us: u64,
    pinged_us: u64,
}

/// All that decides whether a client that waits for acknowledgements has them.
#[derive(PartialEq)]
struct KnownAcknowledgements {
    replicas: Vec<AcknowledgedOffsets>,
    durability: Durability,
    histories_forgotten: u64,
}

impl Replication {
    /// The seed is to be another one in each process: ids of histories are drawn from it.
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
            snapshot_format: None,
            old_form_refused_until_us: 0,
            sync_file: None,
            without_replicas_since_us: 0,
            next_cron_us: 0,
            pinged_us: 0,
        }
    }

    /// An id that no history has had.
    pub fn draw_id(&mut self) -> String {
        draw_id(&mut self.random)
    }

    /// Whether what is fed is kept.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.backlog.is_some()
    }

    pub fn backlog(&self) -> Option<&SharedLog> {
        self.backlog.as_ref()
    }

    /// What comes from now on is kept.
    pub fn create_backlog(&mut self) {
        self.backlog = Some(SharedLog::new(self.history.offset()));
        self.selected = None;
    }

    pub fn remove_backlog(&mut self) {
        self.backlog = None;
    }

    /// The file that was written or received for a sync is gone, or is another's.
    pub fn forget_sync_file(&mut self) {
        self.sync_file = None;
    }

    /// The next command says its database: somebody begins with it.
    pub fn forget_selected(&mut self) {
        self.selected = None;
    }

    /// The database that the stream has selected.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// A child's snapshot has been read, and the child's end has yet to be seen.
    pub fn awaits_child(&self) -> bool {
        self.transfer.as_ref().is_some_and(Transfer::awaits_child)
    }

    /// The first byte of the stream that has to be kept for a replica.
    fn slowest(&self) -> u64 {
        let positions = self.replicas.values().filter_map(|replica| replica.position);
        let reserved = self.reservations.values().map(|reservation| reservation.position);
        positions.chain(reserved).min().unwrap_or(self.history.offset())
    }

    /// Numbers of the bytes with which a replica could be sent the rest of the stream.
    pub fn sendable(&self) -> Option<RangeInclusive<u64>> {
        self.backlog.as_ref().map(|log| log.start() + 1..=log.end() + 1)
    }

    /// Bytes held for the stream.
    pub fn memory_bytes(&self) -> usize {
        self.backlog.as_ref().map_or(0, SharedLog::memory_bytes)
    }

    /// Bytes held for the stream, and for a snapshot on its way.
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

    /// As [`Self::append`], of a command that changes no data.
    pub fn append_control(&mut self, bytes: &[u8]) {
        let offset = self.history.offset();
        if self.control.end != offset {
            self.control.start = offset;
        }
        self.append(bytes);
        self.control.end = self.history.offset();
    }

    /// The offset behind the last change of data.
    pub fn data_end(&self) -> u64 {
        let offset = self.history.offset();
        if self.control.end == offset { self.control.start } else { offset }
    }

    /// As [`Self::append`], of whole commands, encoded, that are about one database.
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
        write_command(&mut select, [&b"SELECT"[..], &i64_text(db_index as i64)].into_iter())
            .expect("memory takes all that is written");
        self.append(&select);
    }
}

/// How far behind replicas may be, at one instant.
struct OutputLimit {
    hard_bytes: u64,
    soft_bytes: u64,
    soft_seconds: u64,
    now_us: u64,
}

/// Since when somebody has been further behind than the soft limit, on the monotonic clock.
#[derive(Debug, Default)]
struct SoftLimit {
    exceeded_since_us: Option<u64>,
}

impl OutputLimit {
    /// What the backlog holds in any case costs nothing more.
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
    let digit = |_| char::from(b"0123456789abcdef"[random.below(16) as usize]);
    (0..ID_LEN).map(digit).collect()
}

impl Executor {
    /// This server is a primary of its own from now on: those that have followed the same one can go on with this one.
    pub(super) fn take_history_over(&mut self) {
        let id = self.replication.draw_id();
        self.replication.history.part(id);
        self.replication.without_replicas_since_us = self.server.now.monotonic_us;
        // What the former primary has said of its own is not told apart.
        self.replication.control = 0..0;
        // Whoever goes on does not know which database the last command here was about.
        self.replication.selected = None;
        self.note_stream();
    }

    /// Hands on what this server's primary has sent, byte for byte: its replicas are those of the same stream.
    pub fn feed_verbatim(&mut self, bytes: &[u8]) {
        self.replication.append(bytes);
        self.after_feeding();
    }

    /// Whether what is done here makes the stream; on a replica it is what comes from its primary.
    #[inline]
    pub(super) fn feeds_stream(&self) -> bool {
        self.replication.has_backlog() && self.server.config.replicaof.is_none()
    }

    /// Keeps the figures true and the backlog within its limits.
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

    /// Closes replicas that are too far behind, and gives back what nobody is going to be sent.
    fn limit_backlog(&mut self) {
        if self.has_replicas() || !self.replication.reservations.is_empty() {
            self.limit_replicas();
        }
        let kept_bytes = self.server.config.repl_backlog_size_bytes;
        let slowest = self.replication.slowest();
        if let Some(log) = &mut self.replication.backlog {
            // What is left for the next time is freed then.
            self.replication.has_grown = log.trim_to(slowest.min(log.end().saturating_sub(kept_bytes)));
        }
        self.note_stream();
    }

    /// Copies what others show of the stream, and whether it is fed.
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
        // A block that is being filled, one to spare, and the list of them.
        let backlog_bytes = self.server.config.repl_backlog_size_bytes + BEYOND_SIZE_BYTES;
        // What nobody is going to be sent any more is freed a little at a time.
        let beyond_bytes = figures.buffer_bytes.saturating_sub(backlog_bytes);
        figures.beyond_size_bytes = if replication.replicas.is_empty() { 0 } else { beyond_bytes };
    }
}
