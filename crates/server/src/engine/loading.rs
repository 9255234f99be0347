//! Loading saved data: a few milliseconds at a time while clients get `LOADING`, or at once for DEBUG RELOAD.
//! [`replay`](super::replay) runs the commands of an append-only file.

use super::Executor;
use super::persistence::Answer;
use super::replay::LogLoading;
use super::saving::FAILED;
use crate::config::RdbVersionCheck;
use crate::error::ClientError;
use crate::observe::persistence::LoadingFigures;
use crate::persist::aof::manifest::ManifestError;
use crate::persist::rdb::load::{LoadFigures, LoadOptions};
use crate::persist::rdb::{LoadError, Loader, Reason};
use crate::script::functions::RestorePolicy;
use crate::server;
use crate::sys::file::FileError;
use crate::sys::world::{File, Open, World};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum time of a loading step between two polls of the clients.
pub(super) const LOAD_STEP_US: u64 = 10_000;
/// Period of log lines about loading progress.
const LOAD_TOLD_PERIOD_US: u64 = 5_000_000;

/// A running load of an RDB file.
pub(crate) struct Loading {
    source: Loader<File>,
    /// This server continues the history that the file names.
    continues: bool,
}

/// Progress of loading.
#[derive(Default)]
pub(crate) struct Progress {
    figures: LoadingFigures,
    /// Start time on the monotonic clock.
    began_us: u64,
    /// Time of the last progress line.
    told_us: u64,
}

/// Why the data set could not be loaded.
#[derive(Debug)]
pub enum RestoreError {
    Open {
        path: PathBuf,
        source: io::Error,
    },
    Rdb(LoadError),
    File(FileError),
    Manifest(ManifestError),
    /// Content that no server writes.
    LogFormat {
        path: PathBuf,
        at: u64,
    },
    /// The manifest names a missing file.
    LogMissing {
        path: PathBuf,
    },
    /// The file is truncated.
    LogEnd {
        path: PathBuf,
    },
    /// An unknown command.
    LogCommand {
        path: PathBuf,
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

impl Executor {
    pub(super) fn load_options(&self, drop_expired: bool, replaces: bool) -> LoadOptions {
        LoadOptions {
            strict: self.server.config.rdb_version_check == RdbVersionCheck::Strict,
            verify_checksum: self.server.config.rdbchecksum && !self.server.switches.skip_checksums,
            drop_expired,
            replaces,
            keys_expected_max: 0,
            key_delay_us: self.server.config.key_load_delay_us,
            now_ms: self.server.now.unix_ms(),
        }
    }

    /// Opens the RDB file to load; `None` if there is none.
    pub(super) fn open_rdb(
        &self,
        path: &Path,
        mut options: LoadOptions,
    ) -> Result<Option<(Loader<File>, u64)>, RestoreError> {
        let open = |source| RestoreError::Open { path: path.to_owned(), source };
        let file = match self.disk.world.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(open(error)),
        };
        let bytes = file.len().map_err(open)?;
        options.keys_expected_max = keys_in(bytes);
        Loader::open(file, options).map(|loader| Some((loader, bytes))).map_err(RestoreError::Rdb)
    }

    /// Begins loading saved data; [`Executor::load_step`] continues it.
    pub fn begin_loading(&mut self) -> Result<(), RestoreError> {
        self.begin_tick();
        remove_abandoned_files(&self.disk.world);
        if self.server.config.appendonly {
            return self.begin_log_loading();
        }
        // A replica keeps expired keys until its primary deletes them.
        let options = self.load_options(!self.is_replica(), false);
        let Some((mut source, total_bytes)) = self.open_rdb(&self.rdb_path(), options)? else {
            return Ok(());
        };
        source.tell_left_out(self.db.lazy_freeing.removal_of_expired());
        self.loading_begins(server::Loading::InPlace, total_bytes);
        self.load_from(source);
        Ok(())
    }

    pub(super) fn load_from(&mut self, source: Loader<File>) {
        self.disk.loading = Some(Loading { source, continues: false });
    }

    /// Cancels the rest of the load.
    pub(super) fn end_loading(&mut self) {
        self.disk.loading = None;
        self.loading_ended();
    }

    pub(super) fn loading_begins(&mut self, loading: server::Loading, total_bytes: u64) {
        let now = self.clock.read();
        let figures = LoadingFigures { started_s: now.unix_us / 1_000_000, total_bytes, loaded_bytes: 0 };
        self.disk.progress = Progress { figures, began_us: now.monotonic_us, told_us: now.monotonic_us };
        self.server.loading = loading;
        self.server.observed.persistence.loading = Some(figures);
    }

    pub(super) fn loading_ended(&mut self) {
        self.server.loading = server::Loading::Nothing;
        self.server.observed.persistence.loading = None;
    }

    /// Returns whether the last loaded file had nothing after its snapshot.
    pub(super) fn has_loaded_whole_file(&self) -> bool {
        let figures = &self.disk.progress.figures;
        figures.loaded_bytes == figures.total_bytes
    }

    /// Returns whether data is being loaded, so that commands may not use it.
    pub fn is_loading(&self) -> bool {
        self.disk.loading.is_some() || self.disk.log_loading.is_some() || self.loads_stream_in_place()
    }

    /// As [`Executor::is_loading`], but also true while a replacement of the data is loaded.
    pub(super) fn has_load_under_way(&self) -> bool {
        self.is_loading() || self.server.loading == server::Loading::Beside
    }

    /// Loads for a few milliseconds.
    pub fn load_step(&mut self) -> Result<(), RestoreError> {
        // The event loop continues a suspended script that is part of the load; later commands wait for it.
        if self.is_busy() {
            return Ok(());
        }
        self.db.begin(self.own_turn());
        let clock = self.clock.clone();
        let deadline_us = clock.monotonic_us() + LOAD_STEP_US;
        let mut out_of_time = || clock.monotonic_us() >= deadline_us;
        if let Some(mut loading) = self.disk.loading.take() {
            let done = loading.source.step(&mut self.db, &mut out_of_time).map_err(RestoreError::Rdb)?;
            self.note_loaded(loading.source.figures);
            self.note_loading_progress(loading.source.position());
            self.feed_left_out(&mut loading);
            if done {
                self.libraries_loaded(&loading.source)?;
                self.disk.loaded_stream_db = loading.source.stream_db;
                self.rdb_loaded(loading.source.figures);
                log::info!("DB loaded from disk: {:.3} seconds", self.loading_seconds());
                if !self.loads_for_sync() {
                    self.continue_history(&mut loading);
                    self.replication.without_replicas_since_us = self.server.now.monotonic_us;
                }
            } else {
                self.disk.loading = Some(loading);
            }
        } else if let Some(mut loading) = self.disk.log_loading.take() {
            match self.load_parts(&mut loading, &mut out_of_time) {
                Ok(false) => self.disk.log_loading = Some(loading),
                result => return self.log_loaded(loading, result.map(|_| ())),
            }
        }
        Ok(())
    }

    /// Continues the history that the file names, if any.
    fn continue_history(&mut self, loading: &mut Loading) {
        if let Some(place) = loading.source.place().filter(|_| !loading.continues) {
            loading.continues = true;
            self.take_up_stream(place);
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
        self.loading_ended();
        if result.is_ok() {
            log::info!("DB loaded from append only file: {:.3} seconds", self.loading_seconds());
            // The replayed commands' changes are already in their files.
            self.db.change_log.dirty = 0;
        }
        let asked_by = loading.asked_by;
        let opened = self.end_replay(loading);
        if let Some(handle) = asked_by {
            self.end_reloading(handle, result);
            return Ok(());
        }
        result?;
        match opened {
            Some((manifest, directory)) => self.open_log(manifest, directory).map_err(RestoreError::File),
            None => Ok(()),
        }
    }

    fn loading_seconds(&self) -> f64 {
        (self.clock.read().monotonic_us - self.disk.progress.began_us) as f64 / 1e6
    }

    pub(super) fn note_loaded(&mut self, loaded: LoadFigures) {
        let figures = &mut self.server.observed.persistence;
        (figures.keys_loaded, figures.keys_expired) = (loaded.keys_loaded, loaded.keys_expired);
    }

    /// Installs the function libraries of a snapshot.
    pub(super) fn libraries_loaded<R: io::Read>(&mut self, source: &Loader<R>) -> Result<(), RestoreError> {
        let restored = self.server.scripts.restore_libraries(&source.libraries, RestorePolicy::Replace);
        let at = source.position();
        restored.map_err(|error| RestoreError::Rdb(LoadError { at, reason: Reason::Library(error) }))
    }

    pub(super) fn rdb_loaded(&mut self, loaded: LoadFigures) {
        self.loading_ended();
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

    /// Updates loading progress and logs it periodically.
    pub(super) fn note_loading_progress(&mut self, loaded_bytes: u64) {
        if self.server.loading == server::Loading::Nothing {
            return;
        }
        let (progress, now) = (&mut self.disk.progress, self.server.now);
        progress.figures.loaded_bytes = loaded_bytes;
        self.server.observed.persistence.loading = Some(progress.figures);
        if now.monotonic_us.saturating_sub(progress.told_us) >= LOAD_TOLD_PERIOD_US {
            progress.told_us = now.monotonic_us;
            let left_s = progress.figures.seconds_left(now.unix_us / 1_000_000).unwrap_or(0);
            log::info!("Loading: {:.1} %, about {left_s} seconds left", progress.figures.percent());
        }
    }

    /// DEBUG RELOAD.
    pub(super) fn reload(&mut self, save: bool, flush: bool, merge: bool) -> Answer {
        const FAILED_LOAD: ClientError =
            ClientError::text("ERR Error trying to load the RDB dump, check server logs.");
        if save && !self.save() {
            return Err(FAILED);
        }
        // The append-only file would lack the deletion of keys left out here. A replica keeps expired keys until its
        // primary deletes them.
        let options = self.load_options(self.disk.aof.is_none() && !self.is_replica(), merge);
        let opened = self.open_rdb(&self.rdb_path(), options).unwrap_or_else(|error| {
            log::warn!("{error}");
            None
        });
        let Some((mut source, _)) = opened else { return Err(FAILED_LOAD) };
        if flush {
            self.empty_all(false);
        }
        source.tell_left_out(self.db.lazy_freeing.removal_of_expired());
        let result = self.load_at_once(&mut source, flush);
        let policy = match (flush, merge) {
            (true, _) => RestorePolicy::Flush,
            (false, true) => RestorePolicy::Replace,
            (false, false) => RestorePolicy::Append,
        };
        let restored = self.server.scripts.restore_libraries(&source.libraries, policy);
        if !flush {
            // Otherwise the change is recorded already, and notification finds the loaded data.
            self.db.change_log.flushed(None);
        }
        let figures = &mut self.server.observed.persistence;
        figures.keys_loaded = source.figures.keys_loaded;
        figures.keys_expired = source.figures.keys_expired;
        // The data now differs from the append-only file, even if loading failed half-way.
        if self.disk.aof.is_some() && !(save && flush && result.is_ok() && restored.is_ok()) {
            self.schedule_rewrite();
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

    /// If it `replaces` all data, replicas are sent deletions of the keys left out; otherwise nothing was deleted.
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

    /// Removes all data without recording a change.
    pub(super) fn empty_all(&mut self, in_background: bool) {
        let dirty = self.db.change_log.dirty;
        self.db.clear_all(in_background);
        self.db.change_log.dirty = dirty;
        self.db.change_log.flushed(None);
        self.db.change_log.audit.forget_unpropagated();
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
