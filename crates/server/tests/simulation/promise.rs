//! What must be found again, by what the server has acknowledged and how it is configured.

use crate::Episode;
use crate::world::BACKGROUND_US_MAX;
use server::config::AppendFsync;

/// What was acknowledged longer ago is on disk with `everysec`: a second until it is asked for, and what that takes.
const EVERY_SECOND_US: u64 = 2_000_000;

/// What the next start reads, as its configuration file says: the append-only file
/// once it has a base, snapshots once one has been taken without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Snapshot,
    Log,
}

impl Episode {
    /// Units that are done, for certain.
    pub fn done(&self) -> usize {
        self.history.len() - usize::from(self.in_flight.is_some())
    }

    /// Whether the append-only file is written to, and complete.
    pub fn log_is_in_use(&self) -> bool {
        let executor = self.executor.as_ref().expect("a server runs");
        let log = &executor.server.observed.persistence.log;
        log.enabled && !log.waits_for_rewrite
    }

    /// A snapshot of this number of units is on disk.
    pub fn saved(&mut self, units: usize) {
        let executor = self.executor.as_ref().expect("a server runs");
        if executor.server.observed.persistence.log.enabled && self.source == Source::Log {
            return;
        }
        if self.source == Source::Log {
            self.source = Source::Snapshot;
            (self.history.safe, self.forgotten_pages, self.lacks_pages) = (units, false, false);
            log::info!("the next start reads the snapshot of {units} units");
        }
        self.history.safe = self.history.safe.max(units);
        self.history.safe_from_kills = self.history.safe;
    }

    /// A save that begins in this tick has at least these units; a successful one exists.
    pub fn saves_begin(&mut self, units: usize) {
        let executor = self.executor.as_ref().expect("a server runs");
        let figures = &executor.server.observed.persistence;
        let (forks, saves, saved_ok) = (figures.forks, figures.saves_completed, figures.last_save_ok);
        if saves != self.saves && saved_ok {
            self.saves = saves;
            self.saved(self.forked);
        }
        if forks != self.forks {
            self.forked = self.units_before;
        }
        (self.forks, self.units_before) = (forks, units);
    }

    /// What CONFIG SET has changed in this tick.
    fn follow_switches(&mut self) {
        let in_use = self.log_is_in_use();
        let appendfsync = self.executor().server.config.appendfsync;
        if appendfsync != self.config.appendfsync {
            log::info!("appendfsync {appendfsync:?}");
            self.config.appendfsync = appendfsync;
            self.totals.switched += 1;
            self.trouble_us = Some(self.active_us);
        }
        if in_use == self.log_was_in_use {
            return;
        }
        self.log_was_in_use = in_use;
        self.totals.switched += 1;
        self.trouble_us = Some(self.active_us);
        if !in_use {
            // Nobody makes up for what an fsync has failed for.
            self.forgotten_pages |= self.lacks_pages;
        } else if self.source == Source::Snapshot {
            self.source = Source::Log;
            self.history.safe = self.forked;
            self.history.safe_from_kills = self.forked;
            log::info!("the next start reads the file, whose base has {} units", self.forked);
        }
    }

    pub fn note_acknowledged(&mut self, units_before: usize) {
        self.follow_switches();
        let units = self.done();
        let executor = self.executor.as_ref().expect("a server runs");
        let figures = executor.server.observed.persistence.log.clone();
        if units > units_before {
            self.acknowledged.push_back((self.active_us, units));
        }
        if figures.lacks_pages {
            self.mended_after_ticks = 3;
        }
        self.mended_after_ticks = self.mended_after_ticks.saturating_sub(1);
        self.lacks_pages &= self.mended_after_ticks > 0;
        if !(figures.last_write_ok && figures.last_fsync_ok) || figures.lacks_pages || !self.log_was_in_use {
            self.trouble_us = Some(self.active_us);
        }
        let since_us =
            self.pending_fsync_since_us.filter(|_| figures.pending_fsync).unwrap_or(self.active_us);
        self.pending_fsync_since_us = figures.pending_fsync.then_some(since_us);
        if self.active_us - since_us > BACKGROUND_US_MAX {
            // It takes as long as the disk does, and nothing is refused.
            self.trouble_us = Some(self.active_us);
        }
        let appendfsync = self.config.appendfsync;
        // Under `always` replies tell what is safe: `take_outputs`.
        if self.log_was_in_use && appendfsync != AppendFsync::Always && figures.buffered_bytes == 0 {
            self.history.safe_from_kills = units;
        }
        let well = self.trouble_us.is_none_or(|trouble_us| self.active_us - trouble_us > EVERY_SECOND_US);
        while let Some(&(at_us, units)) = self.acknowledged.front()
            && self.active_us - at_us > EVERY_SECOND_US
            && well
        {
            self.acknowledged.pop_front();
            if self.log_was_in_use && appendfsync == AppendFsync::EverySecond {
                self.history.safe = self.history.safe.max(units);
            }
        }
    }

    /// Whether a request may be refused so.
    pub fn is_reason(&self, error: &str, does: bool, name: &str) -> bool {
        let executor = self.executor.as_ref().expect("a server runs");
        let starts_with = |known: &[&str]| known.iter().any(|known| error.starts_with(known));
        if starts_with(&["-BUSY "]) {
            return executor.is_busy() && name != "MULTI";
        }
        if error.starts_with("-EXECABORT") && self.has_been_busy {
            return true;
        }
        if starts_with(&["-MISCONF", "-EXECABORT", "-ERR\r\n", "-ERR CONFIG SET failed"]) {
            return self.disk.figures().faults > 0;
        }
        const ADMINISTRATIVE: [&str; 7] = [
            "-ERR Background",
            "-ERR Another child",
            "-ERR Can't execute",
            "-ERR Command",
            "-ERR EXEC without MULTI",
            "-NOTBUSY",
            "-UNKILLABLE",
        ];
        !does && starts_with(&ADMINISTRATIVE)
    }
}
