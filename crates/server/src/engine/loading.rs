//! Loading saved data: a few milliseconds at a time while clients get `LOADING`, or at once for DEBUG RELOAD.
//! [`replay`](super::replay) runs the commands of an append-only file.

use super::Executor;
use super::persistence::Answer;
use super::persistence::Disk;
use super::replay::LogLoading;
use super::saving::FAILED;
use super::saving::rdb_path;
use super::{cluster, slot_migration};
use crate::clock::Clock;
use crate::config::RdbVersionCheck;
use crate::db::Db;
use crate::error::ClientError;
use crate::observe::persistence::LoadingFigures;
use crate::persist::aof::manifest::ManifestError;
use crate::persist::rdb::load::{LoadFigures, LoadOptions};
use crate::persist::rdb::{LoadError, Loader, Reason};
use crate::script::functions::RestorePolicy;
use crate::server;
use crate::server::Server;
use crate::sys::file::FileError;
use crate::sys::world::{File, Open, World};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use wire::nodes_conf::OpenSlot;

/// Maximum time of a loading step between two polls of the clients.
pub(super) const LOAD_STEP_US: u64 = 10_000;
/// Period of log lines about loading progress.
const LOAD_LOG_PERIOD_US: u64 = 5_000_000;

/// The running load of saved data, of either kind, and the result of the last one.
#[derive(Default)]
pub(crate) struct Loads {
    rdb: Option<Loading>,
    log: Option<LogLoading>,
    progress: Progress,
    /// The database selected in the stream at the end of the last loaded RDB file.
    stream_db: Option<usize>,
    /// The primary's open slots, as its snapshot states them.
    open_slots: Option<Vec<OpenSlot>>,
    /// Commands of an append-only file are being replayed.
    replays: bool,
    /// The replay runs to its end without interruption, however long that takes.
    replays_at_once: bool,
}

impl Loads {
    /// Returns whether a file is being loaded, so that commands may not use the data.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.rdb.is_some() || self.log.is_some()
    }

    /// Begins an RDB file.
    pub(super) fn begin_rdb(&mut self, source: Loader<File>) {
        self.rdb = Some(Loading { source, continues: false });
    }

    /// Begins the files of an append-only file.
    pub(super) fn begin_log(&mut self, loading: LogLoading) {
        self.log = Some(loading);
    }

    /// Returns whether a DEBUG LOADAOF is running.
    pub(super) fn is_reloading(&self) -> bool {
        self.log.as_ref().is_some_and(|loading| loading.requested_by().is_some())
    }

    /// Returns whether commands of an append-only file are being replayed.
    #[inline]
    pub(super) fn is_replaying(&self) -> bool {
        self.replays
    }

    /// Returns whether the replay runs to its end without interruption.
    pub(super) fn replays_at_once(&self) -> bool {
        self.replays_at_once
    }

    /// Begins a replay.
    pub(super) fn begin_replay(&mut self) {
        self.replays = true;
    }

    /// Lets the replay run to its end without interruption.
    pub(super) fn replay_at_once(&mut self) {
        self.replays_at_once = true;
    }

    /// Ends the replay, complete or not.
    pub(super) fn end_replay(&mut self) {
        (self.replays, self.replays_at_once) = (false, false);
    }

    /// Sets the database selected in the stream at the end of a loaded RDB file.
    pub(super) fn set_stream_db(&mut self, db_index: Option<usize>) {
        self.stream_db = db_index;
    }

    /// Sets the primary's open slots, as the snapshot that is loaded for a synchronisation states them.
    pub(super) fn set_open_slots(&mut self, open_slots: Option<Vec<OpenSlot>>) {
        self.open_slots = open_slots;
    }

    /// Takes the primary's open slots.
    pub(super) fn take_open_slots(&mut self) -> Option<Vec<OpenSlot>> {
        self.open_slots.take()
    }

    /// Takes the database selected in the stream at the end of the last loaded RDB file.
    pub(super) fn take_stream_db(&mut self) -> Option<usize> {
        self.stream_db.take()
    }
}

/// A running load of an RDB file.
struct Loading {
    source: Loader<File>,
    /// This server continues the history that the file names.
    continues: bool,
}

/// Progress of loading.
#[derive(Default)]
struct Progress {
    figures: LoadingFigures,
    /// Start time on the monotonic clock.
    began_us: u64,
    /// Time of the last progress line.
    logged_us: u64,
}

/// Why the data set could not be loaded.
#[derive(Debug)]
pub enum RestoreError {
    /// A file could not be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// An RDB file is invalid.
    Rdb(LoadError),
    /// A file could not be read or written.
    File(FileError),
    /// The manifest of the append-only file is invalid.
    Manifest(ManifestError),
    /// An append-only file is invalid.
    LogFormat {
        /// The file.
        path: PathBuf,
        /// Offset of the invalid bytes.
        at: u64,
    },
    /// The manifest names a missing file.
    LogMissing {
        /// The missing file.
        path: PathBuf,
    },
    /// An append-only file is truncated.
    LogEnd {
        /// The file.
        path: PathBuf,
    },
    /// A command of an append-only file cannot run.
    LogCommand {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
}

impl RestoreError {
    /// Returns whether the error concerns an RDB file rather than an append-only file.
    pub fn is_of_snapshot(&self) -> bool {
        matches!(self, RestoreError::Open { .. } | RestoreError::Rdb(_))
    }

    /// Returns whether the content of an RDB file is invalid, rather than the file as a whole.
    pub fn is_within_snapshot(&self) -> bool {
        matches!(self, RestoreError::Rdb(LoadError { reason: Reason::Read(_), .. }))
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Open { path, source } => {
                write!(f, "Fatal error: can't open the RDB file {} for reading: {source}", path.display())
            }
            RestoreError::Rdb(error) => error.fmt(f),
            RestoreError::File(error) => error.fmt(f),
            RestoreError::Manifest(error) => error.fmt(f),
            RestoreError::LogFormat { path, at } => write!(
                f,
                "Bad file format reading the append only file {} at byte {at}: make a backup of your AOF file, then use ./valkey-check-aof --fix <filename.manifest>",
                path.display()
            ),
            RestoreError::LogMissing { path } => write!(
                f,
                "Unable to obtain the AOF file {} length. stat: No such file or directory",
                path.display()
            ),
            RestoreError::LogEnd { path } => write!(
                f,
                "Unexpected end of file reading the append only file {}. You can: 1) Make a backup of your AOF file, then use ./valkey-check-aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the server.",
                path.display()
            ),
            RestoreError::LogCommand { path, reason } => {
                write!(f, "Error reading the append only file {}, error: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for RestoreError {}

pub(super) fn load_options(server: &Server, drop_expired: bool, replaces: bool) -> LoadOptions {
    LoadOptions {
        strict: server.config.rdb_version_check == RdbVersionCheck::Strict,
        verify_checksum: server.config.rdbchecksum && !server.switches.skip_checksums,
        drop_expired,
        replaces,
        keys_expected_max: 0,
        key_delay_us: server.config.key_load_delay_us,
        now_ms: server.now.unix_ms(),
    }
}

/// Opens the RDB file to load; `None` if there is none.
pub(super) fn open_rdb(
    disk: &Disk,
    path: &Path,
    mut options: LoadOptions,
) -> Result<Option<(Loader<File>, u64)>, RestoreError> {
    let open = |source| RestoreError::Open { path: path.to_owned(), source };
    let file = match disk.world().open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(open(error)),
    };
    let bytes = file.len().map_err(open)?;
    options.keys_expected_max = keys_in(bytes);
    Loader::open(file, options).map(|loader| Some((loader, bytes))).map_err(RestoreError::Rdb)
}

pub(super) fn loading_ended(server: &mut Server) {
    server.loading = server::Loading::Nothing;
    server.observed.persistence.loading = None;
}

pub(super) fn note_loaded(server: &mut Server, loaded: LoadFigures) {
    let figures = &mut server.observed.persistence;
    (figures.keys_loaded, figures.keys_expired) = (loaded.keys_loaded, loaded.keys_expired);
}

/// Installs the function libraries of a snapshot.
pub(super) fn libraries_loaded<R: io::Read>(
    server: &mut Server,
    source: &Loader<R>,
) -> Result<(), RestoreError> {
    let restored = server.scripts.restore_libraries(&source.libraries, RestorePolicy::Replace);
    let at = source.position();
    restored.map_err(|error| RestoreError::Rdb(LoadError { at, reason: Reason::Library(error) }))
}

pub(super) fn rdb_loaded(server: &mut Server, loaded: LoadFigures) {
    loading_ended(server);
    let empty = match loaded.keys_empty {
        0 => String::new(),
        empty => format!("empty keys skipped: {empty}, "),
    };
    log::info!(
        "Done loading RDB, keys loaded: {}, keys expired: {}, {empty}all fields expired hashes: {}.",
        loaded.keys_loaded,
        loaded.keys_expired,
        loaded.keys_emptied
    );
}

/// Removes all data without recording a change.
pub(super) fn empty_all(db: &mut Db, in_background: bool) {
    let dirty = db.change_log.dirty;
    db.clear_all(in_background);
    db.change_log.dirty = dirty;
    db.change_log.flushed(None);
    db.change_log.audit.forget_unpropagated();
}

impl Loads {
    /// Cancels the running load.
    pub(super) fn end_loading(&mut self, server: &mut Server) {
        self.rdb = None;
        loading_ended(server);
    }

    pub(super) fn loading_begins(
        &mut self,
        server: &mut Server,
        clock: &Clock,
        loading: server::Loading,
        total_bytes: u64,
    ) {
        let now = clock.read();
        let figures = LoadingFigures { started_s: now.unix_s(), total_bytes, loaded_bytes: 0 };
        self.progress = Progress { figures, began_us: now.monotonic_us, logged_us: now.monotonic_us };
        server.loading = loading;
        server.observed.persistence.loading = Some(figures);
    }

    /// Returns whether the last loaded file ended with its snapshot.
    pub(super) fn has_loaded_whole_file(&self) -> bool {
        let figures = &self.progress.figures;
        figures.loaded_bytes == figures.total_bytes
    }

    fn loading_seconds(&self, clock: &Clock) -> f64 {
        (clock.read().monotonic_us - self.progress.began_us) as f64 / 1e6
    }

    /// Updates loading progress and logs it periodically.
    pub(super) fn note_loading_progress(&mut self, server: &mut Server, loaded_bytes: u64) {
        if server.loading == server::Loading::Nothing {
            return;
        }
        let (progress, now) = (&mut self.progress, server.now);
        progress.figures.loaded_bytes = loaded_bytes;
        server.observed.persistence.loading = Some(progress.figures);
        if now.monotonic_us.saturating_sub(progress.logged_us) >= LOAD_LOG_PERIOD_US {
            progress.logged_us = now.monotonic_us;
            let left_s = progress.figures.seconds_left(now.unix_s()).unwrap_or(0);
            log::info!("Loading: {:.1} %, about {left_s} seconds left", progress.figures.percent());
        }
    }
}

impl Executor {
    /// Begins loading saved data; [`Executor::load_step`] continues it.
    pub fn begin_loading(&mut self) -> Result<(), RestoreError> {
        self.begin_tick();
        remove_abandoned_files(self.disk.world());
        if self.server.config.appendonly {
            return self.begin_log_loading();
        }
        // A replica keeps expired keys until its primary deletes them.
        let options = load_options(&self.server, !self.is_replica(), false);
        let Some((mut source, total_bytes)) = open_rdb(&self.disk, &rdb_path(&self.server), options)? else {
            return Ok(());
        };
        source.record_left_out(self.db.lazy_freeing.removal_of_expired());
        self.loads.loading_begins(&mut self.server, &self.clock, server::Loading::InPlace, total_bytes);
        self.loads.begin_rdb(source);
        Ok(())
    }

    /// Returns whether data is being loaded, so that commands may not use it.
    pub fn is_loading(&self) -> bool {
        self.loads.are_any() || self.replication.upstream().loads_stream_in_place()
    }

    /// As [`Executor::is_loading`], but also true while a replacement of the data is loaded.
    pub(super) fn has_load_under_way(&self) -> bool {
        self.is_loading() || self.server.loading == server::Loading::Beside
    }

    /// Loads for a few milliseconds.
    pub fn load_step(&mut self) -> Result<(), RestoreError> {
        // The event loop continues a suspended script of the load; later commands wait for it.
        if self.is_busy() {
            return Ok(());
        }
        self.begin_turn(self.own_turn());
        let clock = self.clock.clone();
        let deadline_us = clock.monotonic_us() + LOAD_STEP_US;
        let mut out_of_time = || clock.monotonic_us() >= deadline_us;
        if let Some(mut loading) = self.loads.rdb.take() {
            let done = loading.source.step(&mut self.db, &mut out_of_time).map_err(RestoreError::Rdb)?;
            note_loaded(&mut self.server, loading.source.figures);
            self.loads.note_loading_progress(&mut self.server, loading.source.position());
            self.feed_left_out(&mut loading);
            if done {
                libraries_loaded(&mut self.server, &loading.source)?;
                slot_migration::take_up(self, loading.source.take_slot_imports());
                self.loads.stream_db = loading.source.stream_db;
                rdb_loaded(&mut self.server, loading.source.figures);
                log::info!("DB loaded from disk: {:.3} seconds", self.loads.loading_seconds(&self.clock));
                if self.replication.upstream().loads_for_sync() {
                    self.loads.set_open_slots(loading.source.take_open_slots());
                } else {
                    self.continue_history(&mut loading);
                    self.replication.note_without_replicas(self.server.now.monotonic_us);
                }
            } else {
                self.loads.rdb = Some(loading);
            }
        } else if let Some(mut loading) = self.loads.log.take() {
            match self.load_parts(&mut loading, &mut out_of_time) {
                Ok(false) => self.loads.log = Some(loading),
                result => return self.log_loaded(loading, result.map(|_| ())),
            }
        }
        Ok(())
    }

    /// Continues the history that the file names, if any.
    fn continue_history(&mut self, loading: &mut Loading) {
        if let Some(place) = loading.source.place().filter(|_| !loading.continues) {
            loading.continues = true;
            self.replication.take_up_stream(&mut self.db, &mut self.server, place);
        }
    }

    /// Feeds deletions of the keys that were left out: replicas that resume at the file's offset still have them.
    fn feed_left_out(&mut self, loading: &mut Loading) {
        for (db_index, commands) in loading.source.take_left_out() {
            self.continue_history(loading);
            self.replication.append_commands(db_index, &commands);
            self.after_feeding();
        }
    }

    fn log_loaded(
        &mut self,
        loading: LogLoading,
        result: Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        loading_ended(&mut self.server);
        if result.is_ok() {
            log::info!(
                "DB loaded from append only file: {:.3} seconds",
                self.loads.loading_seconds(&self.clock)
            );
            // The replayed commands' changes are already in their files.
            self.db.change_log.dirty = 0;
        }
        let requested_by = loading.requested_by();
        let opened = self.end_replay(loading);
        if let Some(handle) = requested_by {
            self.end_reloading(handle, result);
            return Ok(());
        }
        result?;
        match opened {
            Some((manifest, directory)) => self
                .aof
                .open_log(&self.disk, &self.db, &mut self.server, manifest, directory)
                .map_err(RestoreError::File),
            None => Ok(()),
        }
    }

    /// DEBUG RELOAD.
    pub(super) fn reload(&mut self, save: bool, flush: bool, merge: bool) -> Answer {
        const FAILED_LOAD: ClientError =
            ClientError::text("ERR Error trying to load the RDB dump, check server logs.");
        if save && !self.save_now() {
            return Err(FAILED);
        }
        // The append-only file would lack the deletion of keys left out here. A replica keeps expired keys until its
        // primary deletes them.
        let options = load_options(&self.server, !self.aof.is_on() && !self.is_replica(), merge);
        let opened = open_rdb(&self.disk, &rdb_path(&self.server), options).unwrap_or_else(|error| {
            log::warn!("{error}");
            None
        });
        let Some((mut source, _)) = opened else { return Err(FAILED_LOAD) };
        if flush {
            empty_all(&mut self.db, false);
        }
        slot_migration::data_is_replaced(self, "A new RDB is being loaded");
        source.record_left_out(self.db.lazy_freeing.removal_of_expired());
        let result = self.load_at_once(&mut source, flush);
        slot_migration::take_up(self, source.take_slot_imports());
        cluster::note_loaded(self);
        let policy = match (flush, merge) {
            (true, _) => RestorePolicy::Flush,
            (false, true) => RestorePolicy::Replace,
            (false, false) => RestorePolicy::Append,
        };
        let restored = self.server.scripts.restore_libraries(&source.libraries, policy);
        if !flush {
            // Otherwise the change was recorded before, and notifications refer to the loaded data.
            self.db.change_log.flushed(None);
        }
        let figures = &mut self.server.observed.persistence;
        figures.keys_loaded = source.figures.keys_loaded;
        figures.keys_expired = source.figures.keys_expired;
        // The data now differs from the append-only file, even if loading failed half-way.
        if self.aof.is_on() && !(save && flush && result.is_ok() && restored.is_ok()) {
            self.aof.schedule_rewrite(&mut self.server);
        }
        result.map_err(|error| {
            log::warn!("{error}");
            FAILED_LOAD
        })?;
        restored.map_err(|error| {
            log::warn!("Failed loading library, {error}");
            FAILED_LOAD
        })?;
        log::info!("DB reloaded by DEBUG RELOAD");
        Ok(())
    }

    /// Loads a file without interruption. If it `replaces` all data, deletions of the skipped keys are propagated.
    fn load_at_once(&mut self, source: &mut Loader<File>, replaces: bool) -> Result<(), LoadError> {
        let clock = self.clock.clone();
        loop {
            let deadline_us = clock.monotonic_us() + LOAD_STEP_US;
            let done = source.step(&mut self.db, &mut || clock.monotonic_us() >= deadline_us)?;
            for (db_index, commands) in source.take_left_out() {
                if replaces && self.feeds_stream() {
                    self.replication.append_commands(db_index, &commands);
                    self.after_feeding();
                }
            }
            if done {
                return Ok(());
            }
        }
    }
}

/// Upper bound of the number of keys in this many bytes: each has a type, a length and a value.
pub(super) fn keys_in(bytes: u64) -> usize {
    (bytes / 3) as usize
}

/// Removes temporary files left in the working directory by children of killed servers.
fn remove_abandoned_files(world: &World) {
    for name in world.names().unwrap_or_default() {
        let rewritten = name.strip_prefix("temp-rewriteaof-bg-").and_then(|rest| rest.strip_suffix(".aof"));
        let saved = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
        let received = name.strip_prefix("temp-sync-").and_then(|rest| rest.strip_suffix(".rdb"));
        let Some(process) = rewritten.or(received).or(saved).and_then(|digits| digits.parse::<u32>().ok())
        else {
            continue;
        };
        // In containers each server may have the same process id: this process has no such files yet.
        if process == world.process_id() || !world.process_exists(process) {
            log::info!("Removing {name}, left by a process that no longer exists");
            // A file that cannot be removed only takes disk space.
            let _ = world.remove(Path::new(&name));
        }
    }
}
