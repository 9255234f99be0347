//! When the data goes to disk and comes back: what commands, save points, the start and the end of the process ask of
//! [`persist`](crate::persist).

use super::Executor;
use super::aof::{Aof, Rewrites};
use super::replay::LogLoading;
use crate::command::{Next, Origin};
use crate::config::{MaxmemoryPolicy, RdbVersionCheck};
use crate::error::ClientError;
use crate::observe::persistence::{ChildFigures, LoadingFigures};
use crate::persist::aof::manifest::ManifestError;
use crate::persist::child::{Child, Purpose};
use crate::persist::migration::Targets;
use crate::persist::rdb::load::{LoadFigures, LoadOptions};
use crate::persist::rdb::{LoadError, Loader, Reason, Snapshot, write_snapshot};
use crate::script::functions::RestorePolicy;
use crate::server::{PersistRequest, ProcessRequest, Shutdown};
use crate::session::{BlockRequest, BlockedOn, ClientHandle, TimeoutReply};
use crate::sys::child::{CANCEL, Ended};
use crate::sys::file::{self, FileError};
use crate::sys::world::{File, Open, World};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::reply::ReplyBuffer;

/// A background save that failed is not begun again by itself before this.
const RETRY_DELAY_US: u64 = 5_000_000;
/// Loading goes on for so long between two looks at the clients.
const LOAD_STEP_US: u64 = 10_000;
/// Between two lines about the progress of loading.
const LOAD_TOLD_PERIOD_US: u64 = 5_000_000;

/// Data on its way to or from the disk.
#[derive(Default)]
pub(crate) struct Disk {
    /// Where the files are.
    pub world: World,
    pub child: Option<Child>,
    /// When the child was started, in seconds since 1970.
    pub child_started_s: i64,
    pub saving: Saving,
    pub rewrites: Rewrites,
    pub loading: Option<Loading>,
    pub log_loading: Option<LogLoading>,
    pub aof: Option<Aof>,
    /// Commands of an append-only file are being run.
    pub replays: bool,
    /// All of them are run at once, however long that takes.
    pub replays_at_once: bool,
    pub targets: Targets,
    /// A transaction or script that is not done yet has removed all data: it is saved when it is done.
    pub saves_flushed: bool,
    progress: Progress,
}

/// When the data is saved next, and how the last saves went.
pub(crate) struct Saving {
    /// When the data was last saved, on the monotonic clock: whether it is time to save again does not depend on when
    /// the clock is set. The server's start counts.
    last_us: u64,
    /// When a background save was last begun, on the monotonic clock.
    tried_us: Option<u64>,
    /// The last background save that ended did so well.
    is_well: bool,
    /// One begins as soon as nothing else is being written.
    scheduled: bool,
    /// Changes when the background save under way began.
    dirty_before: u64,
}

impl Default for Saving {
    fn default() -> Self {
        Saving { last_us: 0, tried_us: None, is_well: true, scheduled: false, dirty_before: 0 }
    }
}

impl Saving {
    /// Whether the last background save that ended has failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_well
    }
}

/// How far loading is.
#[derive(Default)]
struct Progress {
    figures: LoadingFigures,
    /// On the monotonic clock.
    began_us: u64,
    /// When the log was last told.
    told_us: u64,
}

pub(crate) struct Loading {
    source: Loader<File>,
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
    /// What no server writes.
    LogFormat {
        path: PathBuf,
        at: u64,
    },
    /// The manifest names it, and it is not there.
    LogMissing {
        path: PathBuf,
    },
    /// The file ends too early.
    LogEnd {
        path: PathBuf,
    },
    /// A command that there is not.
    LogCommand {
        path: PathBuf,
        reason: String,
    },
}

impl RestoreError {
    /// Whether it is about an RDB file rather than an append-only one.
    pub fn is_of_snapshot(&self) -> bool {
        matches!(self, RestoreError::Open { .. } | RestoreError::Rdb(_))
    }

    /// Whether the bytes of an RDB file make no sense, rather than the file as a whole.
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

/// What a client hears when something goes wrong that the log tells more of.
const FAILED: ClientError = ClientError::text("ERR");

/// What a client that has asked for data to be loaded waits for.
const UNTIL_LOADED: BlockRequest =
    BlockRequest { on: BlockedOn::Loading, timeout_us: None, timeout_reply: TimeoutReply::Null };

pub(super) type Answer = Result<(), ClientError>;

impl Executor {
    pub(super) fn now_s(&self) -> i64 {
        self.server.now.unix_us / 1_000_000
    }

    /// Does what a command has asked for, and writes its reply; or has begun what the client is to wait for.
    pub(super) fn persist(
        &mut self,
        handle: ClientHandle,
        request: PersistRequest,
        origin: Origin,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        let in_transaction = origin.in_transaction;
        // No server writes such a command to a file; one that stands there all the same neither saves nor ends this.
        if origin.replayed && request != PersistRequest::AllFlushed {
            return Err(ClientError::loading(self.server_name()));
        }
        // The other commands that may run meanwhile load nothing.
        if self.is_loading() && matches!(request, PersistRequest::Reload { .. } | PersistRequest::LoadAof) {
            return Err(ClientError::loading(self.server_name()));
        }
        match request {
            PersistRequest::Save => self.save_on_request()?,
            PersistRequest::BackgroundSave { schedule } => {
                return self
                    .save_in_background_on_request(schedule, in_transaction, reply)
                    .map(|()| Next::Reply);
            }
            PersistRequest::CancelSave => return self.cancel_save(reply).map(|()| Next::Reply),
            PersistRequest::RewriteAof => {
                return self.rewrite_log_on_request(in_transaction, reply).map(|()| Next::Reply);
            }
            PersistRequest::Reload { save, flush, merge } => self.reload(save, flush, merge)?,
            // What a file says that was loaded is no reason to write another one.
            PersistRequest::AllFlushed if origin.replayed => {}
            PersistRequest::AllFlushed if origin.in_transaction => self.disk.saves_flushed = true,
            PersistRequest::AllFlushed => self.all_flushed(),
            PersistRequest::LoadAof if in_transaction => self.reload_aof(handle)?,
            PersistRequest::LoadAof if self.begin_reloading_aof(handle)? => {
                return Ok(Next::Block(UNTIL_LOADED));
            }
            PersistRequest::LoadAof => {}
            PersistRequest::Migrate(migration) => self.migrate(&migration)?,
            PersistRequest::Shutdown(how) => {
                if !self.shut_down(how) {
                    return Err(ClientError::text("ERR Errors trying to SHUTDOWN. Check logs."));
                }
                // Nothing that the client has sent behind it may run; it learns of the end by the connection's end.
                self.server.close_asap(handle);
                return Ok(Next::Reply);
            }
        }
        reply.ok();
        Ok(Next::Reply)
    }

    fn rdb_path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.server.config.dbfilename))
    }

    /// What is written with the data, as configured.
    pub(super) fn snapshot(&self, aof_base: bool) -> Snapshot {
        let config = &self.server.config;
        let policy = config.maxmemory_policy;
        let by_age = matches!(policy, MaxmemoryPolicy::AllkeysLru | MaxmemoryPolicy::VolatileLru);
        Snapshot {
            release: crate::commands::info::VALKEY_VERSION,
            created_s: self.now_s(),
            used_memory_bytes: self.server.observed.memory.used_bytes() as usize,
            compresses: config.rdbcompression,
            checksummed: config.rdbchecksum,
            aof_base,
            with_idle_times: by_age,
            with_frequencies: policy.is_lfu(),
            libraries: self.server.scripts.libraries.codes().map(<[u8]>::to_vec).collect(),
            key_delay_us: config.rdb_key_save_delay_us,
            now_ms: self.server.now.unix_ms(),
        }
    }

    /// Writes the data to its file; whether that has worked. The log tells why not.
    fn save(&mut self) -> bool {
        let snapshot = self.snapshot(false);
        let temporary = temporary_path(self.disk.world.process_id());
        let incremental = self.server.config.rdb_save_incremental_fsync;
        let (db, world) = (&self.db, &self.disk.world);
        let written = file::replace(world, &self.rdb_path(), &temporary, incremental, |sink| {
            write_snapshot(sink, db, &snapshot, &mut |_| ())
        });
        if let Err(error) = written {
            log::warn!("{error}");
            return false;
        }
        log::info!("DB saved on disk");
        self.db.change_log.dirty = 0;
        self.note_saved();
        true
    }

    fn note_saved(&mut self) {
        self.disk.saving.last_us = self.server.now.monotonic_us;
        self.note_save_result(true);
        let now_s = self.now_s();
        let figures = &mut self.server.observed.persistence;
        figures.last_save_s = now_s;
        figures.saves_completed += 1;
    }

    fn note_save_result(&mut self, is_well: bool) {
        self.disk.saving.is_well = is_well;
        self.server.observed.persistence.last_save_ok = is_well;
    }

    fn save_on_request(&mut self) -> Answer {
        if self.child_is(Purpose::Snapshot) {
            return Err(ClientError::text("ERR Background save already in progress"));
        }
        self.server.observed.persistence.saves += 1;
        if self.save() { Ok(()) } else { Err(FAILED) }
    }

    fn child_is(&self, purpose: Purpose) -> bool {
        self.disk.child.as_ref().is_some_and(|child| child.purpose == purpose)
    }

    fn save_in_background_on_request(
        &mut self,
        schedule: bool,
        in_transaction: bool,
        reply: &mut ReplyBuffer,
    ) -> Answer {
        if self.child_is(Purpose::Snapshot) {
            return Err(ClientError::text("ERR Background save already in progress"));
        }
        if self.disk.child.is_none() && !in_transaction {
            if !self.save_in_background() {
                return Err(FAILED);
            }
            reply.simple("Background saving started");
            return Ok(());
        }
        if !schedule && !in_transaction {
            return Err(ClientError::text(
                "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.",
            ));
        }
        let why = if schedule { "due to user request" } else { "to run after transaction execution" };
        log::info!("Background saving scheduled {why}");
        self.disk.saving.scheduled = true;
        reply.simple("Background saving scheduled");
        Ok(())
    }

    fn cancel_save(&mut self, reply: &mut ReplyBuffer) -> Answer {
        match &self.disk.child {
            Some(child) if child.purpose == Purpose::Snapshot => {
                log::info!("Background saving will be aborted due to user request");
                child.cancel();
                reply.simple("Background saving cancelled");
            }
            _ if self.disk.saving.scheduled => {
                log::info!("Scheduled background saving will be cancelled due to user request");
                self.disk.saving.scheduled = false;
                reply.simple("Scheduled background saving cancelled");
            }
            _ => {
                return Err(ClientError::text(
                    "ERR Background saving is currently not in progress or scheduled",
                ));
            }
        }
        Ok(())
    }

    /// Starts a child that saves; whether it has started.
    fn save_in_background(&mut self) -> bool {
        self.server.observed.persistence.saves += 1;
        self.disk.saving.dirty_before = self.db.change_log.dirty;
        self.disk.saving.tried_us = Some(self.server.now.monotonic_us);
        let (snapshot, target) = (self.snapshot(false), self.rdb_path());
        let incremental = self.server.config.rdb_save_incremental_fsync;
        let (db, world) = (&self.db, &self.disk.world);
        let started = Child::start(world, Purpose::Snapshot, temporary_path, |reporter, temporary| {
            let mut keys = 0;
            let written = file::replace(world, &target, &temporary, incremental, |sink| {
                write_snapshot(sink, db, &snapshot, &mut |so_far| {
                    keys = so_far;
                    reporter.progress(so_far);
                })
            });
            reporter.tell(keys);
            match &written {
                Ok(()) => log::info!("DB saved on disk"),
                Err(error) => log::warn!("{error}"),
            }
            written.is_ok()
        });
        let started = self.child_started(started);
        if !started {
            self.note_save_result(false);
        }
        started
    }

    /// Takes a child that has just been forked; whether there is one. The log tells why not.
    pub(super) fn child_started(&mut self, started: io::Result<Child>) -> bool {
        let now_s = self.now_s();
        let keys_total =
            (0..self.db.database_count()).map(|index| self.db.database(index).len() as u64).sum();
        let figures = &mut self.server.observed.persistence;
        match started {
            Ok(child) => {
                figures.forks += 1;
                figures.fork_us = child.fork_duration.as_micros() as u64;
                figures.child = ChildFigures { keys_total, ..ChildFigures::default() };
                match child.purpose {
                    Purpose::Snapshot => {
                        log::info!("Background saving started by pid {}", child.process);
                        figures.save_started_s = Some(now_s);
                    }
                    Purpose::LogBase => {
                        log::info!("Background append only file rewriting started by pid {}", child.process);
                        figures.log.rewrite_started_s = Some(now_s);
                        figures.log.rewriting = true;
                    }
                }
                (self.disk.child, self.disk.child_started_s) = (Some(child), now_s);
                true
            }
            Err(error) => {
                log::warn!("Can't save in background: fork: {error}");
                false
            }
        }
    }

    /// What is due for the sake of files, at each turn of the cron.
    pub(super) fn persist_cron(&mut self) {
        self.reap_child();
        self.save_if_due();
        self.log_cron();
        self.close_idle_targets();
    }

    fn reap_child(&mut self) {
        let Some(child) = &mut self.disk.child else { return };
        child.read_reports(&mut self.server.observed.persistence.child);
        let Some(ended) = child.poll() else { return };
        child.read_reports(&mut self.server.observed.persistence.child);
        let child = self.disk.child.take().expect("it was there just now");
        match child.purpose {
            Purpose::Snapshot => self.save_ended(&child, ended),
            Purpose::LogBase => self.rewrite_ended(&child, ended),
        }
        self.server.observed.persistence.child = ChildFigures::default();
    }

    fn save_ended(&mut self, child: &Child, ended: Ended) {
        let duration_s = self.now_s() - self.disk.child_started_s;
        let figures = &mut self.server.observed.persistence;
        figures.save_started_s = None;
        figures.last_background_save_duration_s = duration_s;
        figures.last_save_copied_bytes = figures.child.copied_bytes_peak;
        match ended {
            Ended::Exited(0) => {
                log::info!("Background saving terminated with success");
                let dirty = &mut self.db.change_log.dirty;
                *dirty = dirty.saturating_sub(self.disk.saving.dirty_before);
                return self.note_saved();
            }
            Ended::Exited(_) => {
                log::warn!("Background saving error");
                self.note_save_result(false);
            }
            Ended::Killed { signal } => {
                log::warn!("Background saving terminated by signal {signal}");
                self.note_save_result(self.disk.saving.is_well && signal == CANCEL);
            }
        }
        child.remove_temporary();
    }

    fn save_if_due(&mut self) {
        if self.disk.child.is_some() || self.is_loading() {
            return;
        }
        let (now_us, dirty) = (self.server.now.monotonic_us, self.db.change_log.dirty);
        let saving = &mut self.disk.saving;
        let tried_us = saving.tried_us.filter(|_| !saving.is_well);
        let may_try = tried_us.is_none_or(|tried_us| now_us - tried_us > RETRY_DELAY_US);
        let since_us = now_us - saving.last_us;
        let due = self
            .server
            .config
            .save
            .iter()
            .find(|point| dirty >= point.changes && since_us > point.seconds.saturating_mul(1_000_000));
        if let Some(point) = due.filter(|_| may_try) {
            log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            self.save_in_background();
        } else if saving.scheduled && may_try {
            saving.scheduled = false;
            self.save_in_background();
        }
    }

    /// All data has been removed by a client: what is being saved is not worth it, and the file is to be empty too.
    pub(super) fn all_flushed(&mut self) {
        if self.child_is(Purpose::Snapshot)
            && let Some(child) = self.disk.child.take()
        {
            log::info!("There is a child saving an .rdb. Killing it!");
            child.end();
            self.server.observed.persistence.save_started_s = None;
        }
        if !self.server.config.save.is_empty() {
            let dirty = self.db.change_log.dirty;
            self.save();
            // The command itself counts as a change that is not saved, as clients know it.
            self.db.change_log.dirty = dirty;
        }
    }

    /// Gets ready to end; whether the process may. The log tells why not.
    pub fn shut_down(&mut self, how: Shutdown) -> bool {
        log::info!("User requested shutdown...");
        if !self.may_stop_first_rewrite(how) {
            return false;
        }
        if let Some(child) = self.disk.child.take() {
            match child.purpose {
                Purpose::Snapshot => log::warn!("There is a child saving an .rdb. Killing it!"),
                Purpose::LogBase => log::warn!("There is a child rewriting the AOF. Killing it!"),
            }
            child.end();
            let figures = &mut self.server.observed.persistence;
            (figures.save_started_s, figures.log.rewriting, figures.log.rewrite_started_s) =
                (None, false, None);
        }
        if !self.close_log(how.force || self.log_waits_for_rewrite())
            && !how.force
            && !self.log_waits_for_rewrite()
        {
            log::warn!("Error writing the append-only file, can't exit.");
            log::warn!("Errors trying to shut down the server. Check the logs for more information.");
            return false;
        }
        let loading = self.is_loading();
        let saves = how.save.unwrap_or(!self.server.config.save.is_empty());
        if saves && !loading {
            log::info!("Saving the final RDB snapshot before exiting.");
            if !self.save() {
                if !how.force {
                    log::warn!("Error trying to save the DB, can't exit.");
                    log::warn!("Errors trying to shut down the server. Check the logs for more information.");
                    return false;
                }
                log::warn!("Error trying to save the DB. Exit anyway.");
            }
        }
        self.server.process_requests.push(ProcessRequest::Shutdown);
        self.ends = true;
        true
    }

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

    /// Opens the file that the data is loaded from; `None` if there is none.
    fn open_rdb(
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

    /// Begins to load what was saved; [`Executor::load_step`] goes on with it.
    pub fn begin_loading(&mut self) -> Result<(), RestoreError> {
        self.begin_tick();
        remove_abandoned_files(&self.disk.world);
        if self.server.config.appendonly {
            return self.begin_log_loading();
        }
        let options = self.load_options(true, false);
        let Some((source, total_bytes)) = self.open_rdb(&self.rdb_path(), options)? else { return Ok(()) };
        self.loading_begins(total_bytes);
        self.disk.loading = Some(Loading { source });
        Ok(())
    }

    pub(super) fn loading_begins(&mut self, total_bytes: u64) {
        let now = self.clock.read();
        let figures = LoadingFigures { started_s: now.unix_us / 1_000_000, total_bytes, loaded_bytes: 0 };
        self.disk.progress = Progress { figures, began_us: now.monotonic_us, told_us: now.monotonic_us };
        self.server.loading = true;
        self.server.observed.persistence.loading = Some(figures);
    }

    fn loading_ended(&mut self) {
        self.server.loading = false;
        self.server.observed.persistence.loading = None;
    }

    pub fn is_loading(&self) -> bool {
        self.disk.loading.is_some() || self.disk.log_loading.is_some()
    }

    /// Loads for a few milliseconds.
    pub fn load_step(&mut self) -> Result<(), RestoreError> {
        // The loop goes on with a script that is part of what is loaded; what follows it has to wait.
        if self.is_busy() {
            return Ok(());
        }
        self.db.begin(0, self.server.now.unix_ms());
        let clock = self.clock.clone();
        let deadline_us = clock.monotonic_us() + LOAD_STEP_US;
        let mut out_of_time = || clock.monotonic_us() >= deadline_us;
        if let Some(mut loading) = self.disk.loading.take() {
            let done = loading.source.step(&mut self.db, &mut out_of_time).map_err(RestoreError::Rdb)?;
            self.note_loaded(loading.source.figures);
            self.note_loading_progress(loading.source.position());
            if done {
                self.libraries_loaded(&loading.source)?;
                self.rdb_loaded(loading.source.figures);
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

    fn log_loaded(
        &mut self,
        loading: LogLoading,
        result: Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        self.loading_ended();
        if result.is_ok() {
            log::info!("DB loaded from append only file: {:.3} seconds", self.loading_seconds());
            // What the commands have changed is in the files they were read from.
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

    fn note_loaded(&mut self, loaded: LoadFigures) {
        let figures = &mut self.server.observed.persistence;
        (figures.keys_loaded, figures.keys_expired) = (loaded.keys_loaded, loaded.keys_expired);
    }

    /// Takes in the libraries of functions that a snapshot has brought.
    pub(super) fn libraries_loaded<R: io::Read>(&mut self, source: &Loader<R>) -> Result<(), RestoreError> {
        let restored = self.server.scripts.restore_libraries(&source.libraries, RestorePolicy::Replace);
        let at = source.position();
        restored.map_err(|error| RestoreError::Rdb(LoadError { at, reason: Reason::Library(error) }))
    }

    fn rdb_loaded(&mut self, loaded: LoadFigures) {
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
        log::info!("DB loaded from disk: {:.3} seconds", self.loading_seconds());
    }

    /// Takes in how far loading is, and says so in the log now and then.
    pub(super) fn note_loading_progress(&mut self, loaded_bytes: u64) {
        if !self.server.loading {
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
    fn reload(&mut self, save: bool, flush: bool, merge: bool) -> Answer {
        const FAILED_LOAD: ClientError =
            ClientError::text("ERR Error trying to load the RDB dump, check server logs.");
        if save && !self.save() {
            return Err(FAILED);
        }
        // What were left out would be missed by the append-only file, in which nobody has removed it.
        let options = self.load_options(self.disk.aof.is_none(), merge);
        let opened = self.open_rdb(&self.rdb_path(), options).unwrap_or_else(|error| {
            log::warn!("{error}");
            None
        });
        let Some((mut source, _)) = opened else { return Err(FAILED_LOAD) };
        if flush {
            self.empty_all();
        }
        let result = source.step(&mut self.db, &mut || false);
        let policy = match (flush, merge) {
            (true, _) => RestorePolicy::Flush,
            (false, true) => RestorePolicy::Replace,
            (false, false) => RestorePolicy::Append,
        };
        let restored = self.server.scripts.restore_libraries(&source.libraries, policy);
        if !flush {
            // Otherwise it has been said, and whoever hears it finds what has been loaded.
            self.db.change_log.flushed(None);
        }
        let figures = &mut self.server.observed.persistence;
        figures.keys_loaded = source.figures.keys_loaded;
        figures.keys_expired = source.figures.keys_expired;
        // Other data than the append-only file tells of, of which some may be there even if not all could be loaded.
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

    /// Removes all data, as if there had never been any.
    pub(super) fn empty_all(&mut self) {
        let dirty = self.db.change_log.dirty;
        for index in 0..self.db.database_count() {
            self.db.with_database(index, |db| db.clear(false));
        }
        self.db.change_log.dirty = dirty;
        self.db.change_log.flushed(None);
        self.db.change_log.audit.forget_unpropagated();
    }
}

/// More keys cannot be in so many bytes: each has a type, a length and a value.
pub(super) fn keys_in(bytes: u64) -> usize {
    (bytes / 3) as usize
}

fn temporary_path(process: u32) -> PathBuf {
    PathBuf::from(format!("temp-{process}.rdb"))
}

/// Removes what children of servers that were killed have left half-written in the working directory.
fn remove_abandoned_files(world: &World) {
    for name in world.names().unwrap_or_default() {
        let rewritten = name.strip_prefix("temp-rewriteaof-bg-").and_then(|rest| rest.strip_suffix(".aof"));
        let saved = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
        let Some(process) = rewritten.or(saved).and_then(|digits| digits.parse::<u32>().ok()) else {
            continue;
        };
        if !world.process_exists(process) {
            log::info!("Removing {name}, which a process that is gone has left");
            // What cannot be removed takes room and does no other harm.
            let _ = world.remove(Path::new(&name));
        }
    }
}
