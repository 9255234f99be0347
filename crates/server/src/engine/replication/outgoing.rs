//! The stream to this server's replicas: its history and its last bytes, the *backlog*.
//!
//! 1. With a backlog, its end is the history's offset.

use super::history::{History, ID_LEN};
use crate::observe::replication::{BacklogFigures, Replication as Figures};
use std::ops::{Range, RangeInclusive};
use structures::random::Random;
use structures::shared_log::{BLOCK_BYTES, SharedLog};
use wire::aof::write_command;
use wire::convert::signed_len;
use wire::number::i64_text;

/// Memory of a backlog beyond its size when no replica is behind.
const BEYOND_SIZE_BYTES: u64 = 4 * BLOCK_BYTES as u64;

pub(crate) struct OutgoingStream {
    history: History,
    backlog: Option<SharedLog>,
    /// Offsets of the contiguous trailing commands of the stream that change no data.
    control: Range<u64>,
    /// The database of the last command; `None` makes the next one select its own.
    selected: Option<usize>,
    /// Bytes of commands, with MULTI and EXEC and without SELECT, since these bytes were last taken.
    command_bytes: u64,
    /// The backlog has taken another block since its limits were last checked.
    has_grown: bool,
    random: Random,
}

impl OutgoingStream {
    /// Creates an empty stream. `seed` must differ between processes: ids of histories are drawn from it.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let history = History::new(draw_id(&mut random));
        OutgoingStream {
            history,
            backlog: None,
            control: 0..0,
            selected: None,
            command_bytes: 0,
            has_grown: false,
            random,
        }
    }

    /// Draws a random id for a history.
    pub fn draw_id(&mut self) -> String {
        draw_id(&mut self.random)
    }

    /// Returns the history of this server's data.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the number of the last byte; 0 before the first.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.history.offset()
    }

    /// Returns the database that the stream has selected.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Makes the next command select its database, because a receiver begins there.
    pub fn forget_selected(&mut self) {
        self.selected = None;
    }

    /// Starts a new history unrelated to any other.
    pub fn begin_anew(&mut self) {
        let id = self.draw_id();
        self.history.begin_anew(id);
    }

    /// Becomes the history `id` at `offset`, as reported by a primary.
    pub fn take_over(&mut self, id: String, offset: u64) {
        self.history.take_over(id, offset);
    }

    /// Continues the primary's history under its new id.
    pub fn take_new_id(&mut self, id: String) {
        self.history.part(id);
    }

    /// Starts this server's own history after `offset` of the history `id`.
    pub fn inherit(&mut self, id: String, offset: u64) {
        self.history.inherit(id, offset);
        self.create_backlog();
    }

    /// Starts this server's own history after the applied part of its primary's.
    pub fn part_from_primary(&mut self) {
        let id = self.draw_id();
        self.history.part(id);
        // The former primary's control commands are not distinguished.
        self.control = 0..0;
        // A replica that continues from here has not received this server's last SELECT.
        self.selected = None;
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

    /// Returns whether the backlog has grown since its limits were last checked, once.
    #[inline]
    pub fn take_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// Frees bytes beyond the backlog's size, up to the first that a replica still needs.
    pub fn trim(&mut self, kept_bytes: u64, slowest: u64) {
        if let Some(log) = &mut self.backlog {
            // The rest is freed in later turns.
            self.has_grown = log.trim_to(slowest.min(log.end().saturating_sub(kept_bytes)));
        }
    }

    /// Returns the range of byte numbers from which a replica can continue the stream.
    pub fn sendable(&self) -> Option<RangeInclusive<u64>> {
        self.backlog.as_ref().map(|log| log.start() + 1..=log.end() + 1)
    }

    /// Returns the memory of the stream.
    pub fn memory_bytes(&self) -> usize {
        self.backlog.as_ref().map_or(0, SharedLog::memory_bytes)
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
        self.append_counted(commands);
    }

    /// As [`Self::append`], for what [`Self::take_command_bytes`] counts: commands of clients, MULTI and EXEC.
    #[inline]
    pub fn append_counted(&mut self, command: &[u8]) {
        self.command_bytes += command.len() as u64;
        self.append(command);
    }

    /// Takes the number of bytes of commands since the last call.
    pub fn take_command_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.command_bytes)
    }

    #[cold]
    fn select(&mut self, db_index: usize) {
        self.selected = Some(db_index);
        let mut select = Vec::new();
        write_command(&mut select, [&b"SELECT"[..], &i64_text(signed_len(db_index))].into_iter())
            .expect("writing to memory cannot fail");
        self.append(&select);
    }

    /// Publishes the figures of the stream.
    pub fn publish(&self, figures: &mut Figures, backlog_size_bytes: u64, has_replicas: bool) {
        self.history.id().clone_into(&mut figures.id);
        figures.second_id = self.history.second().map(|second| (second.id.clone(), second.first_other));
        figures.offset = self.history.offset();
        figures.backlog =
            self.backlog.as_ref().map(|log| BacklogFigures { first_byte_offset: log.start() + 1 });
        figures.buffer_bytes = self.memory_bytes() as u64;
        // A block being filled, a spare one, and the list of blocks.
        let backlog_bytes = backlog_size_bytes + BEYOND_SIZE_BYTES;
        // Bytes that no replica needs any more are freed gradually.
        let beyond_bytes = figures.buffer_bytes.saturating_sub(backlog_bytes);
        figures.beyond_size_bytes = if has_replicas { beyond_bytes } else { 0 };
    }
}

fn draw_id(random: &mut Random) -> String {
    let digit = |_| char::from(b"0123456789abcdef"[random.index(16)]);
    (0..ID_LEN).map(digit).collect()
}
