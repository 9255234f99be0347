//! RDB saves: in this process or by a child, on request or at a save point.

use super::Executor;
use super::persistence::{Answer, Disk};
use super::replication::rdb_channel::ReplicaSockets;
use super::slot_migration;
use crate::db::Db;
use crate::error::ClientError;
use crate::persist::child::{Child, Outcome, Purpose};
use crate::persist::rdb::save::is_unrepresentable;
use crate::persist::rdb::{PlaceInStream, Snapshot, write_snapshot};
use crate::persist::slots::write_slots;
use crate::server::Server;
use crate::sys::child::{CANCEL, Ended};
use crate::sys::file;
use cluster::Job;
use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::cluster_bus::SlotSet;
use wire::rdb::slot_import::SlotImport;
use wire::reply::ReplyBuffer;

/// Minimum delay before a failed background save is retried automatically.
const RETRY_DELAY_US: u64 = 5_000_000;

/// The reply to a failure whose details are in the log.
pub(super) const FAILED: ClientError = ClientError::text("ERR");

/// Destination of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The RDB file.
    File,
    /// A pipe to this process, which reads it as it is written.
    Pipe,
}

/// Schedule of saves, and results of the last ones.
pub(crate) struct Saving {
    /// Time of the last save on the monotonic clock, so that setting the wall clock does not affect the schedule. The
    /// server's start counts as a save.
    last_us: u64,
    /// When the last background save began, on the monotonic clock.
    tried_us: Option<u64>,
    /// The last finished background save succeeded.
    is_well: bool,
    /// A save begins as soon as no other child writes.
    scheduled: bool,
    /// The number of changes when the running background save began.
    dirty_before: u64,
    /// Destination of the last save begun; the options may have changed since.
    target: PathBuf,
    /// An unfinished transaction or script has removed all data: it is saved at its end.
    saves_flushed: bool,
}

impl Default for Saving {
    fn default() -> Self {
        Saving {
            last_us: 0,
            tried_us: None,
            is_well: true,
            scheduled: false,
            dirty_before: 0,
            target: PathBuf::new(),
            saves_flushed: false,
        }
    }
}

impl Saving {
    /// Returns whether the last finished background save failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_well
    }

    /// Returns the destination of the last save begun.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// A transaction or script has removed all data, which is to be saved at its end.
    pub(super) fn note_flushed(&mut self) {
        self.saves_flushed = true;
    }

    /// Returns whether data that a unit has removed is to be saved, once.
    #[inline]
    pub(super) fn take_flushed(&mut self) -> bool {
        std::mem::take(&mut self.saves_flushed)
    }
}

pub(super) fn rdb_path(server: &Server) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&server.config.dbfilename))
}

/// Returns the configured metadata written with the data; a replica may continue from `place`.
pub(super) fn configured_snapshot(server: &Server, aof_base: bool, place: Option<PlaceInStream>) -> Snapshot {
    let config = &server.config;
    let policy = config.maxmemory_policy;
    Snapshot {
        release: crate::commands::info::VALKEY_VERSION,
        created_s: server.now.unix_s(),
        used_memory_bytes: server.observed.memory.used_bytes(),
        compresses: config.rdbcompression,
        checksummed: config.rdbchecksum,
        aof_base,
        with_idle_times: policy.is_by_age(),
        with_frequencies: policy.counts_uses(),
        libraries: server.scripts.libraries.codes().map(<[u8]>::to_vec).collect(),
        key_delay_us: config.rdb_key_save_delay_us,
        now_ms: server.now.unix_ms(),
        for_7_2: false,
        logs_keys: !config.hide_user_data_from_log,
        without_data: false,
        open_slots: None,
        slot_imports: slot_imports(server),
        place,
    }
}

/// Returns the imports of slots of which the data has a part.
fn slot_imports(server: &Server) -> Vec<SlotImport> {
    let Some(node) = &server.cluster else { return Vec::new() };
    let import = |job: &Job| SlotImport { name: job.name(), slots: job.slots().clone() };
    node.view.imports().map(import).collect()
}

impl Saving {
    /// Writes the data to its file; returns whether that succeeded. The log has the error.
    fn save(&mut self, disk: &Disk, db: &mut Db, server: &mut Server, place: Option<PlaceInStream>) -> bool {
        let snapshot = configured_snapshot(server, false, place);
        let temporary = temporary_path(disk.world().process_id());
        let incremental = server.config.rdb_save_incremental_fsync;
        let world = disk.world();
        let written = file::replace(world, &rdb_path(server), &temporary, incremental, |sink| {
            write_snapshot(sink, db, &snapshot, &mut |_| ())
        });
        if let Err(error) = written {
            log::warn!("{error}");
            return false;
        }
        log::info!("DB saved on disk");
        db.change_log.dirty = 0;
        self.note_saved(server);
        true
    }

    fn note_saved(&mut self, server: &mut Server) {
        self.last_us = server.now.monotonic_us;
        self.note_save_result(server, true);
        let now_s = server.now.unix_s();
        let figures = &mut server.observed.persistence;
        figures.last_save_s = now_s;
        figures.saves_completed += 1;
    }

    fn note_save_result(&mut self, server: &mut Server, is_well: bool) {
        self.is_well = is_well;
        server.observed.persistence.last_save_ok = is_well;
    }

    pub(super) fn cancel_save(&mut self, disk: &Disk, reply: &mut ReplyBuffer) -> Answer {
        match disk.child_purpose() {
            Some(Purpose::Snapshot | Purpose::Sync) => {
                log::info!("Background saving will be aborted due to user request");
                disk.cancel_child();
                reply.simple("Background saving cancelled");
            }
            _ if self.scheduled => {
                log::info!("Scheduled background saving will be cancelled due to user request");
                self.scheduled = false;
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

    /// Starts a snapshot of the current data in a child; returns whether it has begun. All snapshots start here.
    pub(super) fn start_snapshot(
        &mut self,
        disk: &mut Disk,
        db: &Db,
        server: &mut Server,
        target: Target,
        snapshot: Snapshot,
    ) -> bool {
        match target {
            Target::File => self.start_file(disk, db, server, snapshot),
            Target::Pipe => {
                let started = Child::start_streaming(disk.world(), Purpose::Sync, |reporter, output| {
                    let mut keys = 0;
                    let written = write_snapshot(output, db, &snapshot, &mut |so_far| {
                        keys = so_far;
                        reporter.progress(so_far);
                    });
                    reporter.report(keys);
                    outcome_of_sending(written.map(drop))
                });
                disk.child_started(db, server, started)
            }
        }
    }

    fn start_file(&mut self, disk: &mut Disk, db: &Db, server: &mut Server, snapshot: Snapshot) -> bool {
        server.observed.persistence.saves += 1;
        self.dirty_before = db.change_log.dirty;
        self.tried_us = Some(server.now.monotonic_us);
        let target = rdb_path(server);
        self.target = disk.world().absolute(&target);
        let incremental = server.config.rdb_save_incremental_fsync;
        let world = disk.world();
        let started = Child::start(world, Purpose::Snapshot, temporary_path, |reporter, temporary| {
            let mut keys = 0;
            let written = file::replace(world, &target, &temporary, incremental, |sink| {
                write_snapshot(sink, db, &snapshot, &mut |so_far| {
                    keys = so_far;
                    reporter.progress(so_far);
                })
            });
            reporter.report(keys);
            match &written {
                Ok(()) => log::info!("DB saved on disk"),
                Err(error) => log::warn!("{error}"),
            }
            written.is_ok()
        });
        let started = disk.child_started(db, server, started);
        if !started {
            self.note_save_result(server, false);
        }
        started
    }

    /// Handles the end of the child that saved; returns whether it succeeded.
    pub(super) fn save_ended(
        &mut self,
        disk: &Disk,
        db: &mut Db,
        server: &mut Server,
        child: &Child,
        ended: Ended,
    ) -> bool {
        let duration_s = disk.child_duration_s(server);
        server.observed.persistence.note_background_save(duration_s);
        match ended {
            Ended::Exited(0) => {
                log::info!("Background saving terminated with success");
                let dirty = &mut db.change_log.dirty;
                *dirty = dirty.saturating_sub(self.dirty_before);
                self.note_saved(server);
                return true;
            }
            Ended::Exited(_) => {
                log::warn!("Background saving error");
                self.note_save_result(server, false);
            }
            Ended::Killed { signal } => {
                log::warn!("Background saving terminated by signal {signal}");
                self.note_save_result(server, self.is_well && signal == CANCEL);
            }
        }
        child.remove_temporary();
        false
    }

    /// Returns whether a save is due, by a save point or as scheduled; a scheduled one is no longer scheduled then.
    fn take_due(&mut self, db: &Db, server: &Server) -> bool {
        let (now_us, dirty) = (server.now.monotonic_us, db.change_log.dirty);
        let tried_us = self.tried_us.filter(|_| !self.is_well);
        let may_try = tried_us.is_none_or(|tried_us| now_us - tried_us > RETRY_DELAY_US);
        let since_us = now_us - self.last_us;
        let due = server
            .config
            .save
            .iter()
            .find(|point| dirty >= point.changes && since_us > point.seconds.saturating_mul(1_000_000));
        if let Some(point) = due.filter(|_| may_try) {
            log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            return true;
        }
        may_try && std::mem::take(&mut self.scheduled)
    }
}

impl Disk {
    /// As [`Self::start_snapshot`], by a child that writes to sockets: the line with the offset to each, then the snapshot,
    /// framed by its mark, to all.
    pub(super) fn start_sending(
        &mut self,
        db: &Db,
        server: &mut Server,
        sockets: &mut dyn ReplicaSockets,
        greetings: &[String],
        mark: &str,
        snapshot: Snapshot,
    ) -> bool {
        let files = sockets.files();
        let started = Child::start_sending(self.world(), &files, |reporter| {
            let (mut keys, sent_bytes) = (0, Cell::new(0));
            for (place, greeting) in greetings.iter().enumerate() {
                sockets.write_to(place, greeting.as_bytes());
            }
            let mut sink = Sending { sockets, sent_bytes: &sent_bytes };
            let begun = sink.write_all(format!("$EOF:{mark}\r\n").as_bytes());
            let written = begun.and_then(|()| {
                let mut sink = write_snapshot(sink, db, &snapshot, &mut |so_far| {
                    keys = so_far;
                    reporter.sent_bytes = sent_bytes.get();
                    reporter.progress(so_far);
                })?;
                // After the last byte of the snapshot: a partial one must not look complete.
                sink.write_all(mark.as_bytes())
            });
            reporter.sent_bytes = sent_bytes.get();
            reporter.report(keys);
            outcome_of_sending(written)
        });
        self.child_started(db, server, started)
    }

    /// Starts a child that writes the commands for the keys of `slots` into a pipe to this process
    /// ([`Self::take_output`]); returns whether it has begun. [`slot_migration::export_ended`] follows its end, when the
    /// pipe may still have bytes to read.
    pub(super) fn start_slot_export(&mut self, db: &Db, server: &mut Server, slots: &SlotSet) -> bool {
        let key_delay_us = server.config.rdb_key_save_delay_us;
        let started = Child::start_streaming(self.world(), Purpose::SlotExport, |reporter, output| {
            let mut keys = 0;
            let written = write_slots(output, db, slots, key_delay_us, &mut |so_far| {
                keys = so_far;
                reporter.progress(so_far);
            });
            reporter.report(keys);
            match written {
                Ok(_) => Outcome::Written,
                Err(error) => {
                    log::warn!("Write error exporting slots: {error}");
                    Outcome::Failed
                }
            }
        });
        self.child_started(db, server, started)
    }
}

impl Executor {
    pub(super) fn save_on_request(&mut self) -> Answer {
        if self.disk.is_snapshot_under_way() {
            return Err(ClientError::text("ERR Background save already in progress"));
        }
        self.server.observed.persistence.saves += 1;
        if self.save_now() { Ok(()) } else { Err(FAILED) }
    }

    /// Writes the data to its file; returns whether that succeeded.
    pub(super) fn save_now(&mut self) -> bool {
        let place = self.replication.place_in_stream(&self.server);
        self.saving.save(&self.disk, &mut self.db, &mut self.server, place)
    }

    pub(super) fn save_in_background_on_request(
        &mut self,
        schedule: bool,
        in_transaction: bool,
        reply: &mut ReplyBuffer,
    ) -> Answer {
        if self.disk.is_snapshot_under_way() {
            return Err(ClientError::text("ERR Background save already in progress"));
        }
        if !self.disk.has_child() && !in_transaction {
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
        self.saving.scheduled = true;
        reply.simple("Background saving scheduled");
        Ok(())
    }

    /// Forks a child that saves; returns whether it started.
    fn save_in_background(&mut self) -> bool {
        let place = self.replication.place_in_stream(&self.server);
        let snapshot = configured_snapshot(&self.server, false, place);
        self.saving.start_snapshot(&mut self.disk, &self.db, &mut self.server, Target::File, snapshot)
    }

    pub(super) fn save_if_due(&mut self) {
        if !self.disk.has_child()
            && !self.has_load_under_way()
            && self.saving.take_due(&self.db, &self.server)
        {
            self.save_in_background();
        }
    }

    /// Ends the running background save, if there is one.
    pub(super) fn end_save(&mut self) {
        if let Some(child) = self.disk.take_snapshot_child() {
            log::info!("There is a child saving an .rdb. Killing it!");
            self.snapshot_killed(child);
        }
    }

    /// A client has removed all data: cancels the running save and empties the file too.
    pub(super) fn all_flushed(&mut self) {
        self.end_save();
        end_slot_export(self);
        if !self.server.config.save.is_empty() {
            self.save_now();
        }
    }
}

/// Ends the running export of slots, if there is one.
pub(super) fn end_slot_export(executor: &mut Executor) {
    if let Some(child) = executor.disk.take_child_for(Purpose::SlotExport) {
        log::info!("There is a child exporting slots. Killing it!");
        end_exporter(executor, child);
    }
}

/// Ends a child that exports slots.
pub(super) fn end_exporter(executor: &mut Executor, child: Child) {
    child.end();
    executor.server.observed.persistence.exports_slots = false;
    slot_migration::export_ended(executor, false);
}

/// The child's destination, with a byte count.
struct Sending<'a> {
    sockets: &'a mut dyn ReplicaSockets,
    sent_bytes: &'a Cell<u64>,
}

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sockets.write_to_all(bytes)?;
        self.sent_bytes.set(self.sent_bytes.get() + sent);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs why a child did not send a snapshot to replicas.
fn outcome_of_sending(sent: io::Result<()>) -> Outcome {
    let Err(error) = sent else { return Outcome::Written };
    log::warn!("Write error sending the data to replicas: {error}");
    if is_unrepresentable(&error) { Outcome::Unrepresentable } else { Outcome::Failed }
}

fn temporary_path(process: u32) -> PathBuf {
    PathBuf::from(format!("temp-{process}.rdb"))
}
