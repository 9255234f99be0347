//! Figures of saving and loading for INFO: copies made by the engine. No decision depends on them.

use wire::convert::whole_i64;

/// Figures of snapshots, of the append-only file, and of loading.
#[derive(Clone, Debug, PartialEq)]
pub struct Persistence {
    /// When the data was last saved, in seconds since 1970; the server's start counts.
    pub last_save_s: i64,
    /// The last finished background save succeeded.
    pub last_save_ok: bool,
    pub last_background_save_duration_s: i64,
    /// Start of the running background save.
    pub save_started_s: Option<i64>,
    /// Saves begun, and those that succeeded.
    pub saves: u64,
    pub saves_completed: u64,
    pub last_save_copied_bytes: u64,
    pub child: ChildFigures,
    pub fork_us: u64,
    pub forks: u64,
    pub loading: Option<LoadingFigures>,
    pub keys_loaded: u64,
    pub keys_expired: u64,
    pub log: AofFigures,
    /// Cached connections to servers that MIGRATE has used.
    pub migration_connections: usize,
}

/// Progress reported by the running child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildFigures {
    pub keys_processed: u64,
    pub keys_total: u64,
    /// Bytes sent to replicas by the child itself.
    pub sent_bytes: u64,
    /// Memory copied for it because of writes to shared pages.
    pub copied_bytes: u64,
    pub copied_bytes_peak: u64,
}

/// The running load and its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadingFigures {
    pub started_s: i64,
    pub total_bytes: u64,
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
    pub enabled: bool,
    /// The first rewrite since it was enabled has not finished.
    pub waits_for_rewrite: bool,
    pub rewriting: bool,
    pub rewrite_scheduled: bool,
    pub rewrite_started_s: Option<i64>,
    pub last_rewrite_duration_s: i64,
    pub last_rewrite_ok: bool,
    pub rewrites: u64,
    pub rewrites_failed_in_a_row: u64,
    pub last_rewrite_copied_bytes: u64,
    pub last_write_ok: bool,
    /// Result of background fsyncs.
    pub last_fsync_ok: bool,
    /// An fsync has failed, and no base has been written since.
    pub lacks_pages: bool,
    pub bytes: u64,
    pub base_bytes: u64,
    pub buffered_bytes: u64,
    /// Memory allocated for the buffer.
    pub buffer_memory_bytes: u64,
    pub pending_fsync: bool,
    pub delayed_fsyncs: u64,
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
