//! The common part of data files: replies to commands that save or load, periodic checks, and the child that writes
//! while this process continues.
//!
//! [`saving`](super::saving) writes RDB files, [`aof`](super::aof) the append-only file, [`loading`](super::loading)
//! reads them, [`shutdown`](super::shutdown) ends the process.

use super::Executor;
use super::aof::{Aof, Rewrites};
use super::loading::{Loading, Progress};
use super::replay::LogLoading;
use super::saving::Saving;
use crate::command::{Next, Origin};
use crate::error::ClientError;
use crate::observe::persistence::ChildFigures;
use crate::persist::child::{Child, Purpose};
use crate::persist::migration::Targets;
use crate::server::PersistRequest;
use crate::session::{BlockRequest, BlockedOn, ClientHandle};
use crate::sys::world::World;
use std::io;
use wire::convert::whole_us;
use wire::reply::ReplyBuffer;

/// State of saving and loading.
#[derive(Default)]
pub(crate) struct Disk {
    /// The file system.
    pub world: World,
    pub child: Option<Child>,
    /// When the child was started, in seconds since 1970.
    pub child_started_s: i64,
    pub saving: Saving,
    pub rewrites: Rewrites,
    pub loading: Option<Loading>,
    pub log_loading: Option<LogLoading>,
    /// The database selected in the stream at the end of the last loaded RDB file.
    pub loaded_stream_db: Option<usize>,
    /// Progress of either load.
    pub progress: Progress,
    pub aof: Option<Aof>,
    /// Commands of an append-only file are being replayed.
    pub replays: bool,
    /// The replay runs to its end without interruption, however long that takes.
    pub replays_at_once: bool,
    pub targets: Targets,
    /// An unfinished transaction or script has removed all data: it is saved at its end.
    pub saves_flushed: bool,
}

/// Blocks a client until a load it requested ends.
const UNTIL_LOADED: BlockRequest = BlockRequest::until(BlockedOn::Loading);

pub(super) type Answer = Result<(), ClientError>;

impl Executor {
    pub(super) fn now_s(&self) -> i64 {
        self.server.now.unix_us / 1_000_000
    }

    /// Does what a command has requested and writes its reply, or begins it and blocks the client.
    pub(super) fn persist(
        &mut self,
        handle: ClientHandle,
        request: PersistRequest,
        origin: Origin,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        let in_transaction = origin.in_transaction;
        // No server writes such a command to a file; a replayed one neither saves nor ends this process.
        if origin.replayed && request != PersistRequest::AllFlushed {
            return Err(ClientError::loading(self.server_name()));
        }
        // The other commands allowed during a load do not load.
        if self.has_load_under_way()
            && matches!(request, PersistRequest::Reload { .. } | PersistRequest::LoadAof)
        {
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
            // A replayed FLUSHALL is no reason to write a new file.
            PersistRequest::AllFlushed if origin.replayed => {}
            // The file must name the stream offset after the command that removed the data.
            PersistRequest::AllFlushed if origin.in_transaction || self.db.change_log.is_recording() => {
                self.disk.saves_flushed = true;
            }
            PersistRequest::AllFlushed => self.all_flushed(),
            PersistRequest::LoadAof if in_transaction => self.reload_aof(handle)?,
            PersistRequest::LoadAof if self.begin_reloading_aof(handle)? => {
                return Ok(Next::Block(Box::new(UNTIL_LOADED)));
            }
            PersistRequest::LoadAof => {}
            PersistRequest::Migrate(migration) => self.migrate(&migration)?,
            PersistRequest::LoadUsers => self.load_users_on_request(handle)?,
            PersistRequest::SaveUsers => self.save_users_on_request()?,
            PersistRequest::Shutdown(how) => return self.shut_down_on_request(handle, how),
            PersistRequest::AbortShutdown => return self.abort_shutdown(reply),
        }
        reply.ok();
        Ok(Next::Reply)
    }

    pub(super) fn child_is(&self, purpose: Purpose) -> bool {
        self.disk.child.as_ref().is_some_and(|child| child.purpose == purpose)
    }

    /// Takes over a forked child; returns whether there is one. The log has the error.
    pub(super) fn child_started(&mut self, started: io::Result<Child>) -> bool {
        let now_s = self.now_s();
        let keys_total = self.db.databases_in_use().map(|index| self.db.database(index).len() as u64).sum();
        let figures = &mut self.server.observed.persistence;
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

    /// Periodic work on files, at each turn of the cron.
    pub(super) fn persist_cron(&mut self) {
        self.reap_child();
        self.save_if_due();
        self.log_cron();
        self.replication_cron();
        self.close_idle_targets();
    }

    pub(super) fn reap_child(&mut self) {
        let Some(child) = &mut self.disk.child else { return };
        child.read_reports(&mut self.server.observed.persistence.child);
        let Some(ended) = child.poll() else { return };
        child.read_reports(&mut self.server.observed.persistence.child);
        let child = self.disk.child.take().expect("its presence was just checked");
        match child.purpose {
            Purpose::Snapshot => self.save_ended(&child, ended),
            Purpose::LogBase => self.rewrite_ended(&child, ended),
            Purpose::Sync => self.transfer_ended(ended),
        }
        self.server.observed.persistence.child = ChildFigures::default();
    }
}
