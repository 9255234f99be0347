//! What the server may wait for on a disk whose calls take 15 s.

use crate::Episode;
use crate::world::Wait;

/// What has happened up to the beginning of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FiguresBefore {
    forks: u64,
    has_child: bool,
    failed_rewrites: u64,
    waits_for_rewrite: bool,
}

/// Commands that are done before anything else is: SAVE by its nature, CONFIG SET because its reply says that it is done.
/// What a queued one does, EXEC does.
pub fn is_done_at_once(name: &[u8]) -> bool {
    matches!(name, b"SAVE" | b"CONFIG" | b"EXEC" | b"BGREWRITEAOF" | b"BGSAVE")
}

impl Episode {
    fn figures_now(&self) -> FiguresBefore {
        let executor = self.executor.as_ref().expect("a server runs");
        let figures = &executor.server.observed.persistence;
        FiguresBefore {
            forks: figures.forks,
            has_child: self.disk.has_child(),
            failed_rewrites: figures.log.rewrites_failed_in_a_row,
            waits_for_rewrite: figures.log.waits_for_rewrite,
        }
    }

    pub fn begin_waiting(&mut self) {
        self.disk.take_waits();
        self.asked = false;
        self.figures_before = self.figures_now();
    }

    pub fn check_waits(&mut self) {
        let now = self.figures_now();
        for wait in self.disk.take_waits() {
            assert!(self.may_wait(&wait, now), "clients that read wait for {wait:?}\n{now:?}");
            self.totals.waits += 1;
        }
    }

    /// Whether this call may hold up the tick that ends.
    fn may_wait(&self, wait: &Wait, now: FiguresBefore) -> bool {
        let before = self.figures_before;
        // Names of files, their directory and the manifest change only where a child begins or has ended, or could not begin.
        let is_log = wait.call == "background"
            || wait.call == "fsync" && wait.path.to_string_lossy().contains(".incr.aof");
        self.asked && (!is_log || before.waits_for_rewrite != now.waits_for_rewrite || self.has_switched(now))
            || !is_log && now != before
    }

    /// Whether the file, or what is acknowledged by it, has been switched on or off in this tick.
    fn has_switched(&self, now: FiguresBefore) -> bool {
        let executor = self.executor.as_ref().expect("a server runs");
        let is_other = executor.server.config.appendfsync != self.config.appendfsync;
        self.asked && (is_other || self.log_is_in_use() != self.log_was_in_use || now.waits_for_rewrite)
    }
}
