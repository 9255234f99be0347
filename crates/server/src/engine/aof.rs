//! The append-only file: its writes, syncs and rewrites.

mod confirming;

use super::persistence::{Answer, Disk};
use super::saving::configured_snapshot;
use crate::command::Origin;
use crate::config::AppendFsync;
use crate::db::Db;
use crate::error::ClientError;
use crate::observe::supervisor;
use crate::persist::aof::manifest::{self, Names};
use crate::persist::aof::rewrite::write_commands;
use crate::persist::aof::{Appender, Manifest, Wake};
use crate::persist::child::{Child, Purpose};
use crate::persist::rdb::{Snapshot, write_snapshot};
use crate::server::{Durability, Server, Shutdown};
use crate::sys::child::{CANCEL, Ended};
use crate::sys::file::{self, FileError, Written, failed};
use crate::sys::world::{File, Open, World};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::reply::ReplyBuffer;

/// Period of fsync under `appendfsync everysec`.
const SYNC_PERIOD_US: u64 = 1_000_000;
/// Maximum postponement of writes while an fsync runs: the kernel would block them.
const POSTPONED_MAX_US: u64 = 2_000_000;
/// Maximum number of bytes that are not written while an fsync runs, under `appendfsync always`.
const POSTPONED_BYTES_MAX: usize = 64 << 20;
/// Number of consecutive failed rewrites that are retried at once; later retries back off.
const FAILURES_TOLERATED: u64 = 3;
const RETRY_DELAY_MAX_S: u64 = 3600;

/// Ends the process: clients have already seen data that cannot be synced.
fn end_unsynced(world: &World, error: &io::Error) -> ! {
    log::warn!(
        "Can't persist AOF for fsync error when the AOF fsync policy is 'always': {error}. Exiting..."
    );
    world.exit(1);
}

/// Ends the process: clients have already seen data that cannot be written.
fn end_unwritten(world: &World) -> ! {
    log::warn!("Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...");
    world.exit(1);
}

/// An append-only file in use.
struct Aof {
    names: Names,
    manifest: Manifest,
    appender: Appender,
    /// Locks the directory: no other process appends to these files while this is open.
    _directory: File,
    /// Bytes in the base and all increments except the last.
    earlier_bytes: u64,
    /// The log was enabled on a server with data: it is not loadable until its first base is complete.
    waits_for_rewrite: bool,
    /// Number of appended bytes that are certainly on disk.
    synced: u64,
    synced_us: u64,
    postponed_since_us: Option<u64>,
    /// The errors of the last write and the last background fsync, if they failed: writes are refused until one
    /// succeeds.
    write_error: Option<String>,
    fsync_error: Option<String>,
    /// Monotonic time of the last failed rewrite.
    rewrite_failed_us: u64,
    /// A log line about the pause was written since the last rewrite failed.
    pause_logged: bool,
    /// An fsync has failed: its pages may never reach the disk, even if later fsyncs succeed. A new base repairs that.
    lacks_pages: bool,
    /// The running rewrite began after the last failed fsync.
    rewrite_mends: bool,
}

/// Whether writing the buffer is postponed because an fsync runs.
enum Postponement {
    Unneeded,
    GoesOn,
    /// The maximum postponement has passed.
    Over,
}

/// The append-only file, if it is enabled, and its rewrites, whether or not it is.
#[derive(Default)]
pub(crate) struct AppendOnlyFile {
    open: Option<Aof>,
    /// Number of files opened so far: the first bytes appended to each are counted from 0.
    openings: u64,
    /// Monotonic time at which the last fsync began that replies wait for.
    sync_started_us: u64,
    /// The next one begins at this time, so that it covers the writes of more clients.
    gathers_until_us: Option<u64>,
    wake: Option<Wake>,
    rewrites: Rewrites,
}

/// Rewrites of the append-only file.
#[derive(Default)]
struct Rewrites {
    /// A rewrite begins as soon as no other child writes.
    scheduled: bool,
    failed_in_a_row: u64,
    /// The running rewrite writes its base as RDB.
    as_rdb: bool,
    /// Total file size when the base was last written; growth is measured against it.
    base_bytes: u64,
}

/// Returns whether nothing is synced while a child writes.
fn is_sync_put_off(disk: &Disk, server: &Server) -> bool {
    server.config.no_appendfsync_on_rewrite && disk.has_child()
}

fn temporary_base(process: u32) -> PathBuf {
    PathBuf::from(format!("temp-rewriteaof-bg-{process}.aof"))
}

/// Returns the delay after this number of consecutive failures.
fn retry_delay_s(failures: u64) -> u64 {
    (60 << failures.saturating_sub(FAILURES_TOLERATED).min(6)).min(RETRY_DELAY_MAX_S)
}

fn open_for_appending(world: &World, path: &Path) -> Result<(File, u64), FileError> {
    let doing = failed("Can't open the append-only file", path);
    let file = world.open(path, Open::Append).map_err(&doing)?;
    let bytes = file.len().map_err(&doing)?;
    Ok((file, bytes))
}

/// Creates an empty file in append mode: after a partial write is truncated, the next write must not leave a hole.
/// Empties and syncs an older file of that name, so that its content does not reappear after a power failure.
fn create_for_appending(world: &World, path: &Path) -> Result<File, FileError> {
    let (file, bytes) = open_for_appending(world, path)?;
    if bytes > 0 {
        let emptied = file.set_len(0).and_then(|()| file.sync_data());
        emptied.map_err(failed("Can't open the append-only file", path))?;
    }
    Ok(file)
}

/// Syncs a file that a killed process may have left unsynced: later acknowledged writes follow it and must not reach
/// the disk first.
fn sync(names: &Names, name: &[u8]) -> Result<(), FileError> {
    let path = names.path(name);
    let synced = names.world.open(&path, Open::Read).and_then(|file| file.sync_data());
    synced.map_err(failed("Forcing to disk", &path))
}

/// Loads the manifest in use; reports invalid content like a disk error.
fn load_manifest(names: &Names) -> Result<Manifest, FileError> {
    Manifest::load(names).map_err(|error| {
        failed("Reading the manifest in", &names.directory)(io::Error::other(error.to_string()))
    })
}

impl Aof {
    fn new(
        names: Names,
        manifest: Manifest,
        directory: File,
        increment: (File, u64),
        (now_us, wake): (u64, Option<Wake>),
    ) -> Result<Aof, FileError> {
        let (file, bytes) = increment;
        let appender = Appender::new(&names.world, file, bytes, wake)
            .map_err(failed("Starting a thread for", &names.directory))?;
        Ok(Aof {
            names,
            manifest,
            appender,
            _directory: directory,
            earlier_bytes: 0,
            waits_for_rewrite: false,
            synced: 0,
            synced_us: now_us,
            postponed_since_us: None,
            write_error: None,
            fsync_error: None,
            rewrite_failed_us: 0,
            pause_logged: false,
            lacks_pages: false,
            rewrite_mends: false,
        })
    }
}

impl Aof {
    /// Returns the total size of the files that would be loaded.
    fn file_bytes(&self) -> u64 {
        self.earlier_bytes + self.appender.file_bytes()
    }

    /// Returns whether the buffer waits for a background fsync.
    fn postponement(&mut self, policy: AppendFsync, now_us: u64) -> Postponement {
        if policy == AppendFsync::No || !self.appender.is_file_syncing() {
            return Postponement::Unneeded;
        }
        if policy == AppendFsync::Always {
            // The replies wait for the next fsync in any case, which begins when this one ends.
            let is_long = self.appender.buffered_bytes() >= POSTPONED_BYTES_MAX;
            return if is_long { Postponement::Over } else { Postponement::GoesOn };
        }
        let since_us = *self.postponed_since_us.get_or_insert(now_us);
        if now_us - since_us < POSTPONED_MAX_US { Postponement::GoesOn } else { Postponement::Over }
    }

    /// Records a failed fsync: later ones do not cover its pages.
    fn lack_pages(&mut self) {
        (self.lacks_pages, self.rewrite_mends) = (true, false);
    }

    /// Checks whether a background fsync has failed, which ends the process if replies wait for it.
    fn note_sync_failure(&mut self, policy: AppendFsync) {
        if !self.appender.take_sync_failure() {
            return;
        }
        if policy == AppendFsync::Always {
            let error = self.appender.background_error().unwrap_or_default();
            end_unsynced(&self.names.world, &io::Error::other(error));
        }
        self.lack_pages();
    }
}

impl AppendOnlyFile {
    /// Returns whether changes are written.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the appender, if changes are written.
    #[inline]
    pub(super) fn appender(&mut self) -> Option<&mut Appender> {
        self.open.as_mut().map(|log| &mut log.appender)
    }

    /// Returns the number of bytes appended.
    #[inline]
    pub(super) fn end(&self) -> Option<u64> {
        self.open.as_ref().map(|log| log.appender.end())
    }

    /// Returns the memory of commands that are not written yet.
    #[inline]
    pub(super) fn buffer_memory_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |log| log.appender.memory_bytes())
    }

    /// Returns the appended bytes and the synced bytes; `None` while the log is not loadable.
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        let log = self.open.as_ref().filter(|log| !log.waits_for_rewrite)?;
        Some((log.appender.end(), log.synced))
    }

    /// Returns the reason why changes may not reach the disk.
    pub(super) fn trouble(&self) -> Option<&str> {
        let log = self.open.as_ref()?;
        log.write_error.as_deref().or(log.fsync_error.as_deref())
    }
}

pub(super) fn log_names(disk: &Disk, server: &Server) -> Names {
    let config = &server.config;
    Names {
        world: disk.world().clone(),
        directory: PathBuf::from(OsStr::from_bytes(&config.appenddirname)),
        file: config.appendfilename.clone(),
    }
}

pub(super) fn timestamp_s(server: &Server) -> Option<i64> {
    server.config.aof_timestamp_enabled.then(|| server.now.unix_s())
}

/// Stores the base alone while the log is off, for a server that is later started with it on.
fn keep_base_alone(disk: &Disk, server: &Server, temporary: &Path, is_rdb: bool) -> Result<bool, FileError> {
    let names = log_names(disk, server);
    let _directory = manifest::lock(&names)?;
    let mut manifest = load_manifest(&names)?;
    let base = names.path(&manifest.next_base(&names, is_rdb));
    file::rename(&names.world, temporary, &base)?;
    manifest.retire_increments(0);
    manifest.persist(&names)?;
    if !server.config.aof_disable_auto_gc {
        manifest.remove_history(&names).unwrap_or_else(|error| log::warn!("{error}"));
    }
    Ok(true)
}

impl AppendOnlyFile {
    /// Opens the append-only file for writes after loading; creates it if missing.
    pub(super) fn open_log(
        &mut self,
        disk: &Disk,
        db: &Db,
        server: &mut Server,
        mut manifest: Manifest,
        directory: File,
    ) -> Result<(), FileError> {
        let names = log_names(disk, server);
        if manifest.is_empty() {
            let is_rdb = server.config.aof_use_rdb_preamble;
            let name = manifest.next_base(&names, is_rdb);
            log::info!("Creating AOF base file {} on server start", String::from_utf8_lossy(&name));
            let snapshot = configured_snapshot(server, true, None);
            let path = names.path(&name);
            let timestamp_s = timestamp_s(server);
            file::write_new(disk.world(), &path, false, |sink| {
                write_base(sink, db, is_rdb, &snapshot, timestamp_s, &mut |_| ())
            })?;
        }
        let known = manifest.increments.last().map(|part| part.name.clone());
        let (doing, name, (file, bytes)) = if let Some(name) = known {
            let opened = open_for_appending(&names.world, &names.path(&name))?;
            ("Opening", name, opened)
        } else {
            let name = manifest.next_increment(&names);
            let file = create_for_appending(&names.world, &names.path(&name))?;
            ("Creating", name, (file, 0))
        };
        for part in manifest.parts() {
            sync(&names, &part.name)?;
        }
        manifest.persist(&names)?;
        log::info!("{doing} AOF incr file {} on server start", String::from_utf8_lossy(&name));
        let base_bytes = manifest.base.as_ref().map_or(0, |base| disk.bytes_of(&names.path(&base.name)));
        let earlier_bytes =
            manifest.parts().map(|part| disk.bytes_of(&names.path(&part.name))).sum::<u64>() - bytes;
        let log = Aof::new(names, manifest, directory, (file, bytes), self.thread_facts(server))?;
        self.use_log(Aof { earlier_bytes, ..log });
        self.remove_kept_history(server);
        self.rewrites.base_bytes = base_bytes;
        self.note_log(server);
        Ok(())
    }

    /// Applies a change of `appendonly` by CONFIG SET. On error the caller restores the option.
    pub(super) fn follow_appendonly(
        &mut self,
        disk: &mut Disk,
        db: &mut Db,
        server: &mut Server,
        origin: Origin,
        is_loading: bool,
    ) -> Answer {
        let wanted = server.config.appendonly;
        // The commands of a file run while the log being replayed is detached.
        if is_loading || origin.replayed || wanted == self.open.is_some() {
            self.remove_kept_history(server);
            return Ok(());
        }
        if !wanted {
            self.stop_log(disk, server);
            return Ok(());
        }
        let started = self.start_log(disk, db, server, origin).unwrap_or_else(|error| {
            log::warn!("{error}");
            false
        });
        if !started {
            server.observed.persistence.log.last_rewrite_ok = false;
            return Err(ClientError::text(
                "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.",
            ));
        }
        Ok(())
    }

    /// Removes the history files once `aof-disable-auto-gc` no longer keeps them.
    fn remove_kept_history(&mut self, server: &Server) {
        if server.config.aof_disable_auto_gc {
            return;
        }
        if let Some(log) = &mut self.open
            && let Err(error) = log.manifest.remove_history(&log.names)
        {
            log::warn!("{error}");
        }
    }

    /// Enables the log on a server with data: it is valid after the first rewrite. `false`: the rewrite cannot begin,
    /// and nothing has changed.
    fn start_log(
        &mut self,
        disk: &mut Disk,
        db: &mut Db,
        server: &mut Server,
        origin: Origin,
    ) -> Result<bool, FileError> {
        let names = log_names(disk, server);
        let directory = manifest::lock(&names)?;
        let manifest = load_manifest(&names)?;
        let temporary = names.temporary_increment();
        let file = create_for_appending(&names.world, &temporary)?;
        let log = Aof::new(names, manifest, directory, (file, 0), self.thread_facts(server))?;
        // A rewrite that began earlier lacks the changes made since.
        self.end_rewrite(disk, server);
        // Earlier commands of the transaction are in the base and must not be in the file again.
        db.change_log.leave_unit_to_replicas();
        server.clients.forget_log();
        self.use_log(Aof { waits_for_rewrite: true, ..log });
        if disk.is_snapshot_under_way() {
            log::info!(
                "AOF was enabled but there is already another background operation. An AOF background was scheduled to start when possible."
            );
            self.schedule_rewrite(server);
        } else if origin.in_transaction {
            // The base would contain half of the transaction.
            log::info!(
                "AOF was enabled during a transaction. An AOF background was scheduled to start when possible."
            );
            self.schedule_rewrite(server);
        } else if !self.rewrite_log(disk, db, server) {
            self.stop_log(disk, server);
            return Ok(false);
        }
        self.note_log(server);
        Ok(true)
    }

    /// Ends the running rewrite, if there is one.
    fn end_rewrite(&mut self, disk: &mut Disk, server: &mut Server) {
        if let Some(child) = disk.take_child_for(Purpose::LogBase) {
            log::info!("Killing AOF child");
            end_rewriter(child, server);
        }
    }

    /// Schedules the first rewrite again.
    pub(super) fn begin_first_rewrite_anew(&mut self, disk: &mut Disk, server: &mut Server) {
        self.end_rewrite(disk, server);
        self.schedule_rewrite(server);
    }

    /// Schedules a rewrite for when no other child writes.
    pub(super) fn schedule_rewrite(&mut self, server: &mut Server) {
        self.rewrites.scheduled = true;
        self.note_rewrites(server);
    }

    /// Restarts the append-only file after the data set was replaced or this server was promoted, using the file that
    /// the data was loaded from as the base if there is one. A replica that cannot write it ends, since it would lose
    /// data that it is assumed to keep. Returns whether the file is the base now.
    pub(super) fn restart_log(
        &mut self,
        disk: &mut Disk,
        db: &mut Db,
        server: &mut Server,
        snapshot: Option<&Path>,
        origin: Origin,
    ) -> bool {
        if !server.config.appendonly || self.open.is_some() {
            return false;
        }
        if let Some(snapshot) = snapshot.filter(|_| server.config.aof_use_rdb_preamble) {
            match self.start_log_with(disk, db, server, snapshot) {
                Ok(()) => return true,
                Err(error) => log::warn!("{error}"),
            }
        }
        let started = self.start_log(disk, db, server, origin).unwrap_or_else(|error| {
            log::warn!("{error}");
            false
        });
        if !started {
            log::warn!(
                "FATAL: this replica instance finished the synchronization with its primary, but the AOF can't be turned on. Exiting now."
            );
            disk.world().exit(1);
        }
        false
    }

    /// Makes the file that the data was loaded from the base of a new log. On failure the file may have been moved and
    /// the manifest may name it: the next base replaces it.
    fn start_log_with(
        &mut self,
        disk: &mut Disk,
        db: &mut Db,
        server: &mut Server,
        snapshot: &Path,
    ) -> Result<(), FileError> {
        let names = log_names(disk, server);
        let directory = manifest::lock(&names)?;
        let mut manifest = load_manifest(&names)?;
        self.end_rewrite(disk, server);
        let name = manifest.next_base(&names, true);
        let base = names.path(&name);
        manifest.retire_increments(0);
        let increment = names.path(&manifest.next_increment(&names));
        let increment = create_for_appending(&names.world, &increment)?;
        file::rename(&names.world, snapshot, &base)?;
        manifest.persist(&names)?;
        let bytes = disk.bytes_of(&base);
        let log = Aof::new(names, manifest, directory, (increment, 0), self.thread_facts(server))?;
        db.change_log.leave_unit_to_replicas();
        server.clients.forget_log();
        self.use_log(Aof { earlier_bytes: bytes, ..log });
        self.rewrites = Rewrites { as_rdb: true, base_bytes: bytes, ..Rewrites::default() };
        server.observed.persistence.log.last_rewrite_ok = true;
        self.remove_kept_history(server);
        self.note_log(server);
        log::info!("Reused RDB file from primary sync as AOF base file: {}", String::from_utf8_lossy(&name));
        Ok(())
    }

    pub(super) fn stop_log(&mut self, disk: &mut Disk, server: &mut Server) {
        self.end_rewrite(disk, server);
        self.close_log(server, false);
        if let Some(log) = self.open.take().filter(|log| log.waits_for_rewrite) {
            // The temporary increment has no commands to load.
            let _ = log.names.world.remove(&log.names.temporary_increment());
        }
        let figures = &mut server.observed.persistence.log;
        (figures.rewriting, figures.rewrite_started_s) = (false, None);
        self.rewrites.scheduled = false;
        self.note_log(server);
    }

    /// Writes buffered commands to the file, before their replies are sent.
    pub(super) fn write_aof(&mut self, disk: &Disk, server: &mut Server) {
        let Some(log) = &mut self.open else { return };
        let now_us = server.now.monotonic_us;
        let policy = server.config.appendfsync;
        if log.appender.buffered_bytes() > 0 {
            match log.postponement(policy, now_us) {
                Postponement::Unneeded => {}
                Postponement::GoesOn => return self.note_log(server),
                Postponement::Over => {
                    server.observed.persistence.log.delayed_fsyncs += 1;
                    log::info!(
                        "Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF buffer without waiting for fsync to complete, this may slow down the server."
                    );
                }
            }
            log.postponed_since_us = None;
            let delay_us = server.switches.aof_write_delay_us;
            if delay_us > 0 {
                std::thread::sleep(Duration::from_micros(delay_us));
            }
            let result = log.appender.write();
            self.note_write(server, result);
        } else if log.write_error.is_some() {
            // A failed rewrite or stop has already written the rest.
            self.note_write(server, Ok(()));
        }
        self.sync_log(disk, server, policy, now_us);
        self.note_log(server);
    }

    fn note_write(&mut self, server: &Server, result: io::Result<()>) {
        let always = server.config.appendfsync == AppendFsync::Always;
        let Some(Aof { write_error, names, .. }) = &mut self.open else { return };
        match result {
            Ok(()) => {
                if write_error.take().is_some() {
                    log::warn!("AOF write error looks solved. The server can write again.");
                }
            }
            Err(error) => {
                if write_error.is_none() {
                    log::warn!("Error writing to the AOF file: {error}");
                }
                if always {
                    end_unwritten(&names.world);
                }
                *write_error = Some(file::system_text(&error));
            }
        }
    }

    fn sync_log(&mut self, disk: &Disk, server: &Server, policy: AppendFsync, now_us: u64) {
        if !is_sync_put_off(disk, server) {
            self.force_to_disk(policy, now_us);
        }
        let Some(log) = &mut self.open else { return };
        log.fsync_error = log.appender.background_error();
        log.note_sync_failure(policy);
    }

    fn force_to_disk(&mut self, policy: AppendFsync, now_us: u64) {
        let Some(log) = &mut self.open else { return };
        match policy {
            AppendFsync::Always => {
                if self.gathers_until_us.is_none_or(|until_us| now_us >= until_us)
                    && log.appender.sync_in_background()
                {
                    (self.sync_started_us, self.gathers_until_us) = (now_us, None);
                }
            }
            AppendFsync::EverySecond if now_us - log.synced_us >= SYNC_PERIOD_US => {
                log.synced_us = now_us;
                log.appender.sync_in_background();
            }
            AppendFsync::EverySecond | AppendFsync::No => {}
        }
    }

    /// Updates the file's progress for waiting clients and INFO.
    pub(super) fn note_log(&mut self, server: &mut Server) {
        let figures = &mut server.observed.persistence.log;
        figures.enabled = self.open.is_some();
        (figures.buffered_bytes, figures.buffer_memory_bytes) = (0, 0);
        (figures.last_write_ok, figures.last_fsync_ok, figures.lacks_pages) = (true, true, false);
        let mut durability = Durability { aof_enabled: figures.enabled, aof_synced: None };
        if let Some(log) = &mut self.open {
            let synced = log.appender.synced();
            log.note_sync_failure(server.config.appendfsync);
            if !log.lacks_pages {
                // Later fsyncs do not cover the pages of one that failed.
                log.synced = synced;
            }
            durability.aof_synced = (!log.waits_for_rewrite).then_some(log.synced);
            figures.last_write_ok = log.write_error.is_none();
            figures.last_fsync_ok = log.fsync_error.is_none();
            figures.lacks_pages = log.lacks_pages;
            figures.waits_for_rewrite = log.waits_for_rewrite;
            figures.bytes = log.file_bytes();
            figures.buffered_bytes = log.appender.buffered_bytes() as u64;
            figures.buffer_memory_bytes = log.appender.memory_bytes() as u64;
            figures.pending_fsync = log.appender.is_syncing();
        }
        server.durability = durability;
        self.note_rewrites(server);
    }

    /// Copies the rewrite figures for INFO.
    fn note_rewrites(&mut self, server: &mut Server) {
        let (figures, rewrites) = (&mut server.observed.persistence.log, &self.rewrites);
        figures.rewrite_scheduled = rewrites.scheduled;
        figures.rewrites_failed_in_a_row = rewrites.failed_in_a_row;
        figures.base_bytes = rewrites.base_bytes;
    }

    /// Writes and syncs everything; returns whether that succeeded. `ends`: the process ends even on failure.
    pub(super) fn close_log(&mut self, server: &Server, ends: bool) -> bool {
        let Some(log) = &mut self.open else { return true };
        let is_promised = server.config.appendfsync == AppendFsync::Always && !ends;
        log::info!("Calling fsync() on the AOF file.");
        if let Err(error) = log.appender.write() {
            log::warn!("Fail to write the AOF file: {error}.");
            if is_promised {
                end_unwritten(&log.names.world);
            }
            return false;
        }
        let Err(error) = log.appender.sync() else { return true };
        log::warn!("Fail to fsync the AOF file: {error}.");
        if is_promised {
            end_unsynced(&log.names.world, &error);
        }
        log.lack_pages();
        false
    }

    /// Returns whether the log was enabled on a server with data and has no base yet.
    pub(super) fn log_waits_for_rewrite(&self) -> bool {
        self.open.as_ref().is_some_and(|log| log.waits_for_rewrite)
    }

    /// Returns whether the previous file is not yet on disk: another rewrite waits for that, so that files do not pile
    /// up.
    fn log_is_switching(&mut self) -> bool {
        self.open.as_mut().is_some_and(|log| log.appender.is_switching())
    }

    pub(super) fn may_stop_first_rewrite(&self, how: Shutdown) -> bool {
        let waits = self.log_waits_for_rewrite();
        if waits {
            let then = if how.force { "Exit anyway." } else { "can't exit." };
            log::warn!("Writing initial AOF, {then}");
            if !how.force {
                supervisor::notify("STATUS=Writing initial AOF, can't exit.\n");
            }
        }
        !waits || how.force
    }

    pub(super) fn rewrite_log_on_request(
        &mut self,
        disk: &mut Disk,
        db: &Db,
        server: &mut Server,
        in_transaction: bool,
        reply: &mut ReplyBuffer,
    ) -> Answer {
        let is_switching = self.log_is_switching();
        match disk.child_purpose() {
            Some(Purpose::LogBase) => {
                return Err(ClientError::text(
                    "ERR Background append only file rewriting already in progress",
                ));
            }
            None if !in_transaction && !is_switching => {
                if !self.rewrite_log(disk, db, server) {
                    return Err(ClientError::text(
                        "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
                    ));
                }
                reply.simple("Background append only file rewriting started");
            }
            _ => {
                self.rewrites.failed_in_a_row = 0;
                self.schedule_rewrite(server);
                log::info!("Background append only file rewriting scheduled.");
                reply.simple("Background append only file rewriting scheduled");
            }
        }
        Ok(())
    }

    /// Forks a child that writes the data as the new base; returns whether it started.
    fn rewrite_log(&mut self, disk: &mut Disk, db: &Db, server: &mut Server) -> bool {
        let started =
            self.begin_increment().map(|()| self.start_rewriter(disk, db, server)).unwrap_or_else(|error| {
                log::warn!("{error}");
                false
            });
        if started {
            self.rewrites.scheduled = false;
            self.note_rewrites(server);
        } else {
            self.note_failed_rewrite(server);
        }
        started
    }

    fn start_rewriter(&mut self, disk: &mut Disk, db: &Db, server: &mut Server) -> bool {
        server.observed.persistence.log.rewrites += 1;
        let is_rdb = server.config.aof_use_rdb_preamble;
        let incremental = server.config.aof_rewrite_incremental_fsync;
        let (snapshot, timestamp_s) = (configured_snapshot(server, true, None), timestamp_s(server));
        let world = disk.world();
        let started = Child::start(world, Purpose::LogBase, temporary_base, |reporter, temporary| {
            let mut keys = 0;
            let written = file::write_new(world, &temporary, incremental, |sink| {
                write_base(sink, db, is_rdb, &snapshot, timestamp_s, &mut |so_far| {
                    keys = so_far;
                    reporter.progress(so_far);
                })
            });
            reporter.report(keys);
            match &written {
                Ok(()) => {
                    log::info!("Successfully created the temporary AOF base file {}", temporary.display());
                }
                Err(error) => log::warn!("{error}"),
            }
            written.is_ok()
        });
        self.rewrites.as_rdb = is_rdb;
        disk.child_started(db, server, started)
    }

    fn note_failed_rewrite(&mut self, server: &mut Server) {
        server.observed.persistence.log.last_rewrite_ok = false;
        self.rewrites.failed_in_a_row += 1;
        self.note_rewrites(server);
        if let Some(log) = &mut self.open {
            (log.rewrite_failed_us, log.pause_logged) = (server.now.monotonic_us, false);
        }
    }

    /// Starts a new increment: the base will contain all earlier commands.
    fn begin_increment(&mut self) -> Result<(), FileError> {
        let Some(log) = &mut self.open else { return Ok(()) };
        let names = log.names.clone();
        log.appender.write().map_err(failed("Writing to the AOF in", &names.directory))?;
        log.rewrite_mends = true;
        if log.waits_for_rewrite {
            let temporary = names.temporary_increment();
            log.appender.switch(create_for_appending(&names.world, &temporary)?);
            return Ok(());
        }
        let mut manifest = log.manifest.clone();
        let name = manifest.next_increment(&names);
        let path = names.path(&name);
        let file = create_for_appending(&names.world, &path)?;
        manifest.persist(&names)?;
        log.earlier_bytes += log.appender.file_bytes();
        log.appender.switch(file);
        log.manifest = manifest;
        log::info!("Creating AOF incr file {} on background rewrite", String::from_utf8_lossy(&name));
        Ok(())
    }

    pub(super) fn rewrite_ended(&mut self, disk: &Disk, server: &mut Server, child: &Child, ended: Ended) {
        let duration_s = disk.child_duration_s(server);
        let adopted = match ended {
            Ended::Exited(0) => {
                log::info!("Background AOF rewrite terminated with success");
                self.adopt_base(disk, server, &child.temporary)
            }
            Ended::Exited(_) => {
                log::warn!("Background AOF rewrite terminated with error");
                Ok(false)
            }
            Ended::Killed { signal } => {
                log::warn!("Background AOF rewrite terminated by signal {signal}");
                Ok(signal == CANCEL)
            }
        };
        let figures = &mut server.observed.persistence;
        figures.log.last_rewrite_copied_bytes = figures.child.copied_bytes_peak;
        figures.log.last_rewrite_duration_s = duration_s;
        (figures.log.rewriting, figures.log.rewrite_started_s) = (false, None);
        match adopted {
            Ok(true) => {
                figures.log.last_rewrite_ok = true;
                self.rewrites.failed_in_a_row = 0;
                log::info!("Background AOF rewrite finished successfully");
            }
            failed => {
                if let Err(error) = failed {
                    log::warn!("{error}");
                }
                self.note_failed_rewrite(server);
            }
        }
        child.remove_temporary();
        if let Some(log) = self.open.as_ref().filter(|log| log.waits_for_rewrite) {
            // The file is not loadable before its first base is complete: the rewrite is retried with a new increment.
            let temporary = log.names.temporary_increment();
            log::info!("Removing the temp incr aof file {} in the background", temporary.display());
            if let Err(error) = log.names.world.remove(&temporary) {
                log::warn!("Removing {}: {error}", temporary.display());
            }
            self.rewrites.scheduled = true;
        }
        self.note_log(server);
    }

    /// Replaces the old base, and the increments that the new base contains.
    fn adopt_base(&mut self, disk: &Disk, server: &Server, temporary: &Path) -> Result<bool, FileError> {
        let is_rdb = self.rewrites.as_rdb;
        let aof_on = self.open.is_some();
        if !aof_on {
            return keep_base_alone(disk, server, temporary, is_rdb);
        }
        let Some(log) = &mut self.open else { return Ok(false) };
        let names = log.names.clone();
        let mut manifest = log.manifest.clone();
        let base = names.path(&manifest.next_base(&names, is_rdb));
        file::rename(&names.world, temporary, &base)?;
        if log.waits_for_rewrite {
            let increment = names.path(&manifest.next_increment(&names));
            file::rename(&names.world, &names.temporary_increment(), &increment)?;
        }
        manifest.retire_increments(1);
        manifest.persist(&names)?;
        log.manifest = manifest;
        log.waits_for_rewrite = false;
        if log.rewrite_mends {
            log.lacks_pages = false;
            log.appender.forget_sync_error();
        }
        log.earlier_bytes = names.world.len_of(&base).unwrap_or(0);
        self.rewrites.base_bytes = log.file_bytes();
        self.remove_kept_history(server);
        Ok(true)
    }

    /// Retries failed work and starts rewrites that are due, at each turn of the cron.
    pub(super) fn log_cron(
        &mut self,
        disk: &mut Disk,
        db: &Db,
        server: &mut Server,
        has_load_under_way: bool,
    ) {
        self.write_aof(disk, server);
        if disk.has_child() || has_load_under_way || self.log_is_switching() {
            return;
        }
        let scheduled = self.rewrites.scheduled;
        let growth_percent = self.growth_if_due(server);
        let mends = self.open.as_ref().is_some_and(|log| log.lacks_pages);
        if !(scheduled || mends || growth_percent.is_some()) || self.rewrites_pause(server) {
            return;
        }
        if mends {
            log::info!("Starting automatic rewriting of AOF because a part of it may not be on disk");
        } else if let Some(percent) = growth_percent.filter(|_| !scheduled) {
            log::info!("Starting automatic rewriting of AOF on {percent}% growth");
        }
        self.rewrite_log(disk, db, server);
    }

    /// Returns the files' growth, if it requires a rewrite.
    fn growth_if_due(&self, server: &Server) -> Option<u64> {
        let (config, bytes) = (&server.config, self.open.as_ref()?.file_bytes());
        let percent_wanted = u64::from(config.auto_aof_rewrite_percentage);
        let grown = bytes > config.auto_aof_rewrite_min_size_bytes;
        let percent = (bytes * 100 / self.rewrites.base_bytes.max(1)).saturating_sub(100);
        (percent_wanted > 0 && grown && percent >= percent_wanted).then_some(percent)
    }

    /// Backs off when rewrites fail repeatedly: each leaves an increment behind.
    fn rewrites_pause(&mut self, server: &Server) -> bool {
        let now_us = server.now.monotonic_us;
        let failures = self.rewrites.failed_in_a_row;
        let Some(log) = &mut self.open else { return false };
        let delay_s = retry_delay_s(failures);
        if failures < FAILURES_TOLERATED || now_us - log.rewrite_failed_us >= delay_s * 1_000_000 {
            return false;
        }
        if !std::mem::replace(&mut log.pause_logged, true) {
            let minutes = delay_s / 60;
            log::warn!(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
            );
        }
        true
    }
}

/// Ends a child that writes a base.
pub(super) fn end_rewriter(child: Child, server: &mut Server) {
    child.end();
    let figures = &mut server.observed.persistence.log;
    (figures.rewriting, figures.rewrite_started_s) = (false, None);
}

/// Writes a base, as RDB or as commands.
fn write_base(
    sink: Written,
    db: &Db,
    is_rdb: bool,
    snapshot: &Snapshot,
    timestamp_s: Option<i64>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Written> {
    if is_rdb {
        return write_snapshot(sink, db, snapshot, progress);
    }
    let mut buffered = BufWriter::with_capacity(1 << 16, sink);
    write_commands(&mut buffered, db, snapshot, timestamp_s, progress)?;
    buffered.flush()?;
    buffered.into_inner().map_err(io::IntoInnerError::into_error)
}
