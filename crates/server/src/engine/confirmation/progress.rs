//! Turns with changes, and how far they are confirmed: by position in the append-only file and in the replication stream.
//!
//! 1. Turns are confirmed and fail in their order: `failed` covers all turns up to it that are not confirmed.
//! 2. A position of a turn that is not needed, or not needed any more, is 0: it has been reached.

use crate::server::Server;
use std::collections::VecDeque;

/// A position in the append-only file, by the opening of the file that it counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct LogProgress {
    /// Number of the opening.
    pub opening: u64,
    /// Bytes appended.
    pub end: u64,
    /// Bytes that are on disk.
    pub synced: u64,
}

/// Where and when a turn ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Bytes appended to the append-only file.
    pub log: u64,
    /// Monotonic time.
    pub now_us: u64,
}

/// A turn that has changed data and is not confirmed.
#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    turn: u64,
    log_end: u64,
    /// The offset plus 1: it is not reached while there are too few replicas.
    stream_end: u64,
    ended_us: u64,
}

/// The turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    needs_disk: bool,
    needs_replicas: bool,
    /// Number of the current turn, from 1 on.
    turn: u64,
    /// The current turn has changed data.
    has_changed: bool,
    /// End of the current turn's changes in the stream, plus 1; 0: none.
    stream_end: u64,
    /// All turns up to this one are confirmed.
    confirmed: u64,
    /// All unconfirmed turns up to this one have waited too long for replicas.
    failed: u64,
    /// Turns have failed because this server is no primary any more: no replica will confirm them.
    is_demoted: bool,
    /// Later turns that changed data.
    unconfirmed: VecDeque<Unconfirmed>,
    /// The opening of the file that positions count from.
    opening: u64,
}

impl Turns {
    /// Returns whether replies wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.needs_disk || self.needs_replicas || !self.unconfirmed.is_empty()
    }

    /// Returns whether replies wait for the disk.
    #[inline]
    pub fn needs_disk(&self) -> bool {
        self.needs_disk
    }

    /// Returns whether replies wait for replicas.
    #[inline]
    pub fn needs_replicas(&self) -> bool {
        self.needs_replicas
    }

    /// Makes replies wait for the file of this opening from now on.
    pub fn need_disk(&mut self, opening: u64) {
        (self.needs_disk, self.opening, self.turn) = (true, opening, self.turn.max(1));
    }

    /// Makes replies wait for replicas from now on.
    pub fn need_replicas(&mut self) {
        (self.needs_replicas, self.turn) = (true, self.turn.max(1));
    }

    /// Lets no reply wait for the disk any longer: all changes are on disk.
    pub fn need_no_disk(&mut self) {
        self.needs_disk = false;
        self.unconfirmed.iter_mut().for_each(|turn| turn.log_end = 0);
    }

    /// Lets no reply wait for replicas any longer. `has_failed`: what waits for them is answered with an error.
    pub fn need_no_replicas(&mut self, has_failed: bool) {
        self.needs_replicas = false;
        if has_failed {
            (self.failed, self.is_demoted) = (self.latest().max(self.failed), true);
        } else {
            self.stream_end = 0;
            self.unconfirmed.iter_mut().for_each(|turn| turn.stream_end = 0);
        }
    }

    /// Returns the latest unconfirmed turn; 0: there is none.
    #[inline]
    pub fn latest(&self) -> u64 {
        match self.has_changed {
            true => self.turn,
            false => self.unconfirmed.back().map_or(0, |last| last.turn),
        }
    }

    /// Returns the turn up to which all are confirmed.
    #[inline]
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Returns the turn up to which all have failed, unless they are confirmed.
    #[inline]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the turn up to which nothing waits.
    pub fn decided(&self) -> u64 {
        self.confirmed.max(self.failed)
    }

    /// Returns the number of unconfirmed turns.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Returns whether a turn waits for the disk.
    pub fn await_disk(&self) -> bool {
        self.needs_disk && self.unconfirmed.back().is_some_and(|last| last.log_end > 0)
    }

    /// Records that the current turn has changed data.
    pub fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Records where the current turn's changes end in the stream; returns whether replicas are to be asked.
    pub fn note_stream_end(&mut self, end: u64) -> bool {
        let asks = self.needs_replicas && self.has_changed;
        if asks {
            self.stream_end = end + 1;
        }
        asks
    }

    /// Begins the end of a turn: what failed in the last one because this server is no primary any more has been answered.
    pub fn forget_demotion(&mut self) {
        if std::mem::take(&mut self.is_demoted) {
            let failed = self.unconfirmed.iter_mut().take_while(|turn| turn.turn <= self.failed);
            failed.for_each(|turn| turn.stream_end = 0);
        }
    }

    /// Ends the turn; returns whether it has changed data.
    pub fn end_turn(&mut self, ends: Ends) -> bool {
        if !std::mem::take(&mut self.has_changed) {
            return false;
        }
        let log_end = if self.needs_disk { ends.log } else { 0 };
        let stream_end = std::mem::take(&mut self.stream_end);
        self.unconfirmed.push_back(Unconfirmed {
            turn: self.turn,
            log_end,
            stream_end,
            ended_us: ends.now_us,
        });
        self.turn += 1;
        true
    }

    /// Confirms turns whose changes are on disk up to `log`, if that is needed, and at enough replicas up to `stream`; `None`:
    /// there are too few replicas.
    pub fn advance(&mut self, log: Option<LogProgress>, stream: Option<u64>) {
        if let Some(log) = log {
            self.note_synced(log);
        }
        let stream = stream.map_or(0, |offset| offset + 1);
        let is_reached = |turn: &mut Unconfirmed| turn.log_end == 0 && turn.stream_end <= stream;
        while let Some(Unconfirmed { turn, .. }) = self.unconfirmed.pop_front_if(is_reached) {
            self.confirmed = turn;
        }
        if self.unconfirmed.is_empty() {
            // The memory of a long wait is not kept.
            self.unconfirmed.shrink_to(UNCONFIRMED_KEPT);
        }
    }

    /// Clears the positions that are on disk: they lie behind those cleared before, and before later ones. Visits no others.
    fn note_synced(&mut self, log: LogProgress) {
        let is_reopened = log.opening != self.opening;
        self.opening = log.opening;
        if is_reopened {
            // The file before was forced to disk when it was closed. The last turn ends in the new one.
            let last = self.unconfirmed.pop_back_if(|turn| turn.log_end == log.end);
            self.unconfirmed.iter_mut().for_each(|turn| turn.log_end = 0);
            self.unconfirmed.extend(last);
        }
        let synced = self.unconfirmed.partition_point(|turn| turn.log_end <= log.synced);
        let newly = self.unconfirmed.range_mut(..synced).rev().take_while(|turn| turn.log_end > 0);
        newly.for_each(|turn| turn.log_end = 0);
    }

    /// Returns the first turn that waits for replicas and has not failed.
    fn first_undecided(&self) -> Option<&Unconfirmed> {
        let from = self.unconfirmed.partition_point(|turn| turn.turn <= self.failed);
        self.unconfirmed.range(from..).find(|turn| turn.stream_end > 0)
    }

    /// Returns the monotonic time at which the next turn fails.
    pub fn next_failure_us(&self, server: &Server) -> Option<u64> {
        let next = self.first_undecided().filter(|_| self.needs_replicas)?;
        let timeout_us = server.config.min_replicas_durable_timeout_ms.saturating_mul(1000);
        Some(next.ended_us.saturating_add(timeout_us))
    }

    /// Fails the turns that have waited too long for replicas.
    pub fn fail_overdue(&mut self, server: &Server) {
        while self.next_failure_us(server).is_some_and(|at_us| at_us <= server.now.monotonic_us)
            && let Some(next) = self.first_undecided()
        {
            self.failed = next.turn;
        }
    }

    /// Returns the memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.unconfirmed.capacity() * size_of::<Unconfirmed>()
    }
}

/// Number of turns for which memory is kept.
const UNCONFIRMED_KEPT: usize = 1024;
