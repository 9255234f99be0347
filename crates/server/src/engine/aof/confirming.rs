//! The file under `appendfsync always`: how far it is on disk, and when the next fsync begins (`engine/confirmation.rs`).

use super::{Aof, AppendOnlyFile, end_unsynced, end_unwritten, is_sync_put_off};
use crate::config::AppendFsync;
use crate::engine::confirmation::LogProgress;
use crate::engine::persistence::Disk;
use crate::persist::aof::Wake;
use crate::server::Server;

/// Part of an fsync's time for which the next one is put off, at most, while several clients write. Without it, the first
/// client to write again would be alone in the next fsync, and all others would wait for two.
const GATHERED_SHARE: u64 = 8;
const GATHERED_US_MAX: u64 = 1000;

impl AppendOnlyFile {
    /// Sets what is called, in the thread of fsyncs, when one has ended. Call before a file is opened.
    pub(in crate::engine) fn wake_when_synced(&mut self, wake: Wake) {
        self.wake = Some(wake);
    }

    pub(super) fn thread_facts(&self, server: &Server) -> (u64, Option<Wake>) {
        (server.now.monotonic_us, self.wake.clone())
    }

    pub(super) fn use_log(&mut self, log: Aof) {
        self.openings += 1;
        self.open = Some(log);
    }

    /// Returns whether replies wait for the disk.
    pub(in crate::engine) fn confirms(&self, disk: &Disk, server: &Server) -> bool {
        self.open.is_some()
            && server.config.appendfsync == AppendFsync::Always
            && !is_sync_put_off(disk, server)
    }

    /// Returns how far what was appended is on disk. Ends the process if an fsync has failed: replies wait for it.
    pub(in crate::engine) fn log_progress(&mut self) -> LogProgress {
        let opening = self.openings;
        let Some(log) = &mut self.open else { return LogProgress { opening, ..LogProgress::default() } };
        // In this order: a file's sync may succeed after that of the file before it has failed.
        let (end, synced) = (log.appender.end(), log.appender.synced());
        log.note_sync_failure(AppendFsync::Always);
        LogProgress { opening, end, synced }
    }

    /// Returns whether an fsync is under way.
    pub(in crate::engine) fn is_syncing(&self) -> bool {
        self.open.as_ref().is_some_and(|log| log.appender.has_pending_sync())
    }

    /// Puts the next fsync off for a small part of the time that the last one, which has just ended, has taken.
    pub(in crate::engine) fn gather(&mut self, now_us: u64) {
        let taken_us = now_us.saturating_sub(self.sync_started_us);
        self.gathers_until_us = Some(now_us + (taken_us / GATHERED_SHARE).min(GATHERED_US_MAX));
    }

    /// Lets the next fsync begin at once.
    pub(in crate::engine) fn end_gathering(&mut self) {
        self.gathers_until_us = None;
    }

    /// Returns the time at which the next fsync begins, if it is put off.
    pub(in crate::engine) fn gathers_until_us(&self) -> Option<u64> {
        self.gathers_until_us
    }

    /// Writes and syncs what replies wait for, which ends the process if it fails.
    pub(in crate::engine) fn sync_promised(&mut self) {
        let Some(log) = &mut self.open else { return };
        if log.appender.write().is_err() {
            end_unwritten(&log.names.world);
        }
        log.appender.sync().unwrap_or_else(|error| end_unsynced(&log.names.world, &error));
    }
}
