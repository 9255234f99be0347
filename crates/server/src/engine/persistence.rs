//! The common part of data files: the commands that save or load, periodic checks, and the child process that writes.
//!
//! Each part owns its state: [`Disk`] the file system and the child, [`Saving`](super::saving::Saving) the schedule of
//! RDB files, [`AppendOnlyFile`](super::aof::AppendOnlyFile) its files and rewrites, [`Loads`](super::loading::Loads)
//! the running load. [`shutdown`](super::shutdown) ends the process.

use super::Executor;
use super::slot_migration;
use crate::command::{Next, Origin};
use crate::db::Db;
use crate::engine::users::{load_users_on_request, save_users_on_request};
use crate::error::ClientError;
use crate::observe::persistence::ChildFigures;
use crate::persist::child::{Child, ChildPipe, Purpose};
use crate::server::{PersistRequest, Server};
use crate::session::{BlockRequest, BlockedOn, ClientHandle};
use crate::sys::child::Ended;
use crate::sys::world::World;
use std::io;
use std::path::Path;
use wire::convert::whole_us;
use wire::reply::ReplyBuffer;

/// The file system, and the child that writes to it. There is at most one child at a time.
#[derive(Default)]
pub(crate) struct Disk {
    world: World,
    child: Option<Child>,
    /// When the child was started, in seconds since 1970.
    child_started_s: i64,
}

impl Disk {
    /// Replaces the file system.
    pub fn move_to(&mut self, world: World) {
        self.world = world;
    }

    /// Returns the file system.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns a file's size, 0 if it does not exist.
    pub fn bytes_of(&self, path: &Path) -> u64 {
        self.world.len_of(path).unwrap_or(0)
    }

    /// Returns whether a child process runs.
    pub fn has_child(&self) -> bool {
        self.child.is_some()
    }

    /// Returns the purpose of the running child process.
    pub fn child_purpose(&self) -> Option<Purpose> {
        self.child.as_ref().map(|child| child.purpose)
    }

    /// Returns whether a child process runs for this purpose.
    pub fn child_is(&self, purpose: Purpose) -> bool {
        self.child_purpose() == Some(purpose)
    }

    /// Returns whether the child writes a snapshot, to any destination.
    pub fn is_snapshot_under_way(&self) -> bool {
        matches!(self.child_purpose(), Some(Purpose::Snapshot | Purpose::Sync))
    }

    /// Returns how long ago the child was started.
    pub fn child_duration_s(&self, server: &Server) -> i64 {
        server.now.unix_s() - self.child_started_s
    }

    /// Takes the child, to end it.
    pub fn take_child(&mut self) -> Option<Child> {
        self.child.take()
    }

    /// As [`Self::take_child`], if it has this purpose.
    pub fn take_child_for(&mut self, purpose: Purpose) -> Option<Child> {
        self.child.take_if(|child| child.purpose == purpose)
    }

    /// Takes the child that writes a snapshot, if there is one.
    pub fn take_snapshot_child(&mut self) -> Option<Child> {
        self.child.take_if(|child| matches!(child.purpose, Purpose::Snapshot | Purpose::Sync))
    }

    /// Requests that the child end without a result.
    pub fn cancel_child(&self) {
        if let Some(child) = &self.child {
            child.cancel();
        }
    }

    /// Takes the pipe that the child writes into, if it does.
    pub fn take_output(&mut self) -> Option<ChildPipe> {
        self.child.as_mut().and_then(|child| child.output.take())
    }

    /// Reads the child's reports; returns the child once it has ended.
    fn reap(&mut self, server: &mut Server) -> Option<(Child, Ended)> {
        let child = self.child.as_mut()?;
        let figures = &mut server.observed.persistence.child;
        child.read_reports(figures);
        let ended = child.poll()?;
        child.read_reports(figures);
        self.child.take().map(|child| (child, ended))
    }
}

/// Blocks a client until a load it requested ends.
const UNTIL_LOADED: BlockRequest = BlockRequest::until(BlockedOn::Loading);

pub(super) type Answer = Result<(), ClientError>;

impl Disk {
    /// Takes over a forked child; returns whether there is one. The log has the error.
    pub(super) fn child_started(&mut self, db: &Db, server: &mut Server, started: io::Result<Child>) -> bool {
        let now_s = server.now.unix_s();
        let keys_total = db.databases_in_use().map(|index| db.database(index).len() as u64).sum();
        let figures = &mut server.observed.persistence;
        match started {
            Ok(child) => {
                figures.forks += 1;
                figures.fork_us = whole_us(child.fork_duration);
                figures.child = ChildFigures { keys_total, ..ChildFigures::default() };
                match child.purpose {
                    Purpose::Snapshot => {
                        log::info!("Background saving started by pid {}", child.process);
                        figures.save_started_s = Some(now_s);
                    }
                    Purpose::Sync => {
                        let way = match child.output {
                            Some(_) => "pipe through parent process",
                            None => "direct socket to replica",
                        };
                        log::info!("Background RDB transfer started by pid {} to {way}", child.process);
                        figures.save_started_s = Some(now_s);
                    }
                    Purpose::LogBase => {
                        log::info!("Background append only file rewriting started by pid {}", child.process);
                        figures.log.rewrite_started_s = Some(now_s);
                        figures.log.rewriting = true;
                    }
                    Purpose::SlotExport => {
                        log::info!("Background slot export started by pid {}", child.process);
                        figures.exports_slots = true;
                    }
                }
                (self.child, self.child_started_s) = (Some(child), now_s);
                true
            }
            Err(error) => {
                log::warn!("Can't save in background: fork: {error}");
                false
            }
        }
    }
}

impl Executor {
    /// Carries out a command's request and writes its reply, or begins it and blocks the client.
    pub(super) fn persist(
        &mut self,
        handle: ClientHandle,
        request: PersistRequest,
        origin: Origin,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        let in_transaction = origin.in_transaction;
        // Servers write no such command to a file; a replayed one neither saves nor ends this process.
        if origin.replayed && request != PersistRequest::AllFlushed {
            return Err(ClientError::loading(self.server.name()));
        }
        // The other commands allowed during a load do not load.
        if self.has_load_under_way()
            && matches!(request, PersistRequest::Reload { .. } | PersistRequest::LoadAof)
        {
            return Err(ClientError::loading(self.server.name()));
        }
        match request {
            PersistRequest::Save => self.save_on_request()?,
            PersistRequest::BackgroundSave { schedule } => {
                return self
                    .save_in_background_on_request(schedule, in_transaction, reply)
                    .map(|()| Next::Reply);
            }
            PersistRequest::CancelSave => {
                return self.saving.cancel_save(&self.disk, reply).map(|()| Next::Reply);
            }
            PersistRequest::RewriteAof => {
                return self
                    .aof
                    .rewrite_log_on_request(&mut self.disk, &self.db, &mut self.server, in_transaction, reply)
                    .map(|()| Next::Reply);
            }
            PersistRequest::Reload { save, flush, merge } => self.reload(save, flush, merge)?,
            // A replayed FLUSHALL writes no new file.
            PersistRequest::AllFlushed if origin.replayed => {}
            // The file must name the stream offset after the command that removed the data.
            PersistRequest::AllFlushed if origin.in_transaction || self.db.change_log.is_recording() => {
                self.saving.note_flushed();
            }
            PersistRequest::AllFlushed => self.all_flushed(),
            PersistRequest::LoadAof if in_transaction => self.reload_aof(handle)?,
            PersistRequest::LoadAof if self.begin_reloading_aof(handle)? => {
                return Ok(Next::Block(Box::new(UNTIL_LOADED)));
            }
            PersistRequest::LoadAof => {}
            PersistRequest::Migrate(migration) => self.migrate(&migration)?,
            PersistRequest::LoadUsers => load_users_on_request(&self.disk, &mut self.server, handle)?,
            PersistRequest::SaveUsers => save_users_on_request(&self.disk, &self.server)?,
            PersistRequest::Shutdown(how) => return self.shut_down_on_request(handle, how),
            PersistRequest::AbortShutdown => return self.abort_shutdown(reply),
        }
        reply.ok();
        Ok(Next::Reply)
    }

    /// Periodic work on files, at each turn of the cron.
    pub(super) fn persist_cron(&mut self) {
        self.reap_child();
        self.save_if_due();
        let loads = self.has_load_under_way();
        self.aof.log_cron(&mut self.disk, &self.db, &mut self.server, loads);
        self.replication_cron();
        self.close_idle_targets();
    }

    /// Handles the end of the child.
    pub(super) fn reap_child(&mut self) {
        let Some((child, ended)) = self.disk.reap(&mut self.server) else { return };
        match child.purpose {
            Purpose::Snapshot => {
                let succeeded =
                    self.saving.save_ended(&self.disk, &mut self.db, &mut self.server, &child, ended);
                self.snapshot_ended(succeeded);
            }
            Purpose::LogBase => self.aof.rewrite_ended(&self.disk, &mut self.server, &child, ended),
            Purpose::Sync => self.transfer_ended(ended),
            Purpose::SlotExport => {
                self.server.observed.persistence.exports_slots = false;
                slot_migration::export_ended(self, matches!(ended, Ended::Exited(0)));
            }
        }
        self.server.observed.persistence.child = ChildFigures::default();
    }
}
