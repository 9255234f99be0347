//! Figures of saving and loading for INFO: copies made by the engine. No decision depends on them.

use wire::convert::whole_i64;

/// Figures of snapshots, of the append-only file, and of loading.
#[derive(Clone, Debug, PartialEq)]
pub struct Persistence {
    /// When the data was last saved, in seconds since 1970; the server's start counts.
    pub last_save_s: i64,
    /// The last finished background save succeeded.
    pub last_save_ok: bool,
    /// Duration of the last background save; -1 if there was none.
    pub last_background_save_duration_s: i64,
    /// Start of the running background save.
    pub save_started_s: Option<i64>,
    /// Saves begun, and those that succeeded.
    pub saves: u64,
    /// Snapshots completed.
    pub saves_completed: u64,
    /// A child writes the keys of slots for another node of the cluster.
    pub exports_slots: bool,
    /// Copy-on-write memory of the last save.
    pub last_save_copied_bytes: u64,
    /// Progress of the running child.
    pub child: ChildFigures,
    /// Duration of the last fork.
    pub fork_us: u64,
    /// Number of forks.
    pub forks: u64,
    /// The running load.
    pub loading: Option<LoadingFigures>,
    /// Keys read by the last load.
    pub keys_loaded: u64,
    /// Keys skipped by the last load because they had expired.
    pub keys_expired: u64,
    /// The append-only file.
    pub log: AofFigures,
    /// Cached connections to servers that MIGRATE has used.
    pub migration_connections: usize,
}

/// Progress reported by the running child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildFigures {
    /// Keys written so far.
    pub keys_processed: u64,
    /// Keys to write.
    pub keys_total: u64,
    /// Bytes sent to replicas by the child itself.
    pub sent_bytes: u64,
    /// Memory copied for it because of writes to shared pages.
    pub copied_bytes: u64,
    /// Maximum of the child's copy-on-write memory.
    pub copied_bytes_peak: u64,
}

/// The running load and its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadingFigures {
    /// Start of the load.
    pub started_s: i64,
    /// Size of the files.
    pub total_bytes: u64,
    /// Bytes loaded so far.
    pub loaded_bytes: u64,
}

impl LoadingFigures {
    /// Returns the loaded part in percent.
    pub fn percent(&self) -> f64 {
        match self.total_bytes {
            0 => 0.0,
            total => self.loaded_bytes as f64 * 100.0 / total as f64,
        }
    }

    /// Returns an estimate from the speed so far; `None` while that is unknown.
    pub fn seconds_left(&self, now_s: i64) -> Option<i64> {
        let elapsed_s = now_s - self.started_s;
        let left_bytes = self.total_bytes.saturating_sub(self.loaded_bytes);
        (self.loaded_bytes > 0)
            .then(|| whole_i64(left_bytes as f64 / self.loaded_bytes as f64 * elapsed_s as f64))
    }
}

/// The append-only file.
#[derive(Clone, Debug, PartialEq)]
pub struct AofFigures {
    /// Whether it is enabled.
    pub enabled: bool,
    /// The first rewrite since it was enabled has not finished.
    pub waits_for_rewrite: bool,
    /// Whether a rewrite is in progress.
    pub rewriting: bool,
    /// Whether a rewrite follows the running child.
    pub rewrite_scheduled: bool,
    /// Start of the running rewrite.
    pub rewrite_started_s: Option<i64>,
    /// Duration of the last rewrite; -1 if there was none.
    pub last_rewrite_duration_s: i64,
    /// Whether the last rewrite succeeded.
    pub last_rewrite_ok: bool,
    /// Rewrites completed.
    pub rewrites: u64,
    /// Rewrites that failed since the last success.
    pub rewrites_failed_in_a_row: u64,
    /// Copy-on-write memory of the last rewrite.
    pub last_rewrite_copied_bytes: u64,
    /// Whether the last write succeeded.
    pub last_write_ok: bool,
    /// Result of background fsyncs.
    pub last_fsync_ok: bool,
    /// An fsync has failed, and no base has been written since.
    pub lacks_pages: bool,
    /// Size of all files.
    pub bytes: u64,
    /// Size after the last rewrite.
    pub base_bytes: u64,
    /// Bytes that are not written yet.
    pub buffered_bytes: u64,
    /// Memory allocated for the buffer.
    pub buffer_memory_bytes: u64,
    /// Whether an fsync is in progress.
    pub pending_fsync: bool,
    /// Writes that were delayed by an fsync.
    pub delayed_fsyncs: u64,
    /// Turns of the event loop with changes that are not on disk, for which replies wait.
    pub unconfirmed_turns: u64,
    /// Keys that these turns have changed.
    pub unconfirmed_keys: u64,
    /// Memory of the table of these keys.
    pub confirmation_memory_bytes: u64,
}

impl Default for AofFigures {
    fn default() -> Self {
        AofFigures {
            enabled: false,
            waits_for_rewrite: false,
            rewriting: false,
            rewrite_scheduled: false,
            rewrite_started_s: None,
            last_rewrite_duration_s: -1,
            last_rewrite_ok: true,
            rewrites: 0,
            rewrites_failed_in_a_row: 0,
            last_rewrite_copied_bytes: 0,
            last_write_ok: true,
            last_fsync_ok: true,
            lacks_pages: false,
            bytes: 0,
            base_bytes: 0,
            buffered_bytes: 0,
            buffer_memory_bytes: 0,
            pending_fsync: false,
            delayed_fsyncs: 0,
            unconfirmed_turns: 0,
            unconfirmed_keys: 0,
            confirmation_memory_bytes: 0,
        }
    }
}

impl Persistence {
    /// Records the duration of a child that wrote all data, to any destination.
    pub fn note_background_save(&mut self, duration_s: i64) {
        self.save_started_s = None;
        self.last_background_save_duration_s = duration_s;
        self.last_save_copied_bytes = self.child.copied_bytes_peak;
    }

    /// Creates the figures of a server that starts now.
    pub fn new(now_s: i64) -> Self {
        Persistence {
            last_save_s: now_s,
            last_save_ok: true,
            last_background_save_duration_s: -1,
            save_started_s: None,
            saves: 0,
            saves_completed: 0,
            exports_slots: false,
            last_save_copied_bytes: 0,
            child: ChildFigures::default(),
            fork_us: 0,
            forks: 0,
            loading: None,
            keys_loaded: 0,
            keys_expired: 0,
            log: AofFigures::default(),
            migration_connections: 0,
        }
    }
}
