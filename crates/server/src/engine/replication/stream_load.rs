//! A snapshot that is loaded while it comes (`repl-diskless-load`): into databases beside those in use, whose place they
//! take once it is whole.
//!
//! | | the data here, meanwhile | clients are | after a failure |
//! |---|---|---|---|
//! | `swapdb`, of the history that the data is of | stays | served it (`async_loading`) | as it was |
//! | `swapdb`, of another history | stays | told LOADING | as it was |
//! | `on-empty-db`, `flush-before-load` | goes once the beginning makes sense | told LOADING | none |
//!
//! 1. The link's `load` is there from the line that tells how the snapshot ends until all of it is loaded, or it has failed.
//! 2. What changes the data happens in steps of the timers, so never in the middle of a script that was put aside.

use super::super::Executor;
use super::super::loading::LOAD_STEP_US;
use super::link::Stage;
use super::snapshot_frame::MARK_BYTES;
use super::transfer::SIGN_PERIOD_US;
use crate::config::ReplDisklessLoad;
use crate::persist::rdb::streamed::{Loaded, Outcome, Step, StreamedLoad};
use crate::script::functions::RestorePolicy;
use crate::server::Loading;
use crate::session::ClientHandle;
use std::fmt::Display;

/// A snapshot that is being loaded while it comes.
pub(super) struct StreamLoad {
    load: StreamedLoad,
    /// What is here stays until the snapshot is whole.
    keeps_data: bool,
    /// And is served.
    is_async: bool,
    has_removed_data: bool,
}

impl StreamLoad {
    pub fn room(&self) -> usize {
        self.load.room()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.load.push(bytes);
    }

    /// All of the snapshot has come.
    pub fn end_input(&mut self) {
        self.load.end_input();
    }
}

impl Executor {
    /// Whether the next snapshot is to be loaded while it comes.
    pub(super) fn loads_while_receiving(&self) -> bool {
        let is_empty = || self.db.databases_in_use().all(|index| self.db.database(index).is_empty());
        match self.server.config.repl_diskless_load {
            ReplDisklessLoad::Disabled => false,
            ReplDisklessLoad::OnEmptyDb => is_empty(),
            ReplDisklessLoad::SwapDb | ReplDisklessLoad::FlushBeforeLoad => true,
        }
    }

    /// Whether a snapshot that comes in is loaded, so that nobody may use the data.
    pub(in crate::engine) fn loads_stream_in_place(&self) -> bool {
        self.link.as_ref().and_then(|link| link.load.as_ref()).is_some_and(|load| !load.is_async)
    }

    /// How a snapshot ends is known: what follows is loaded.
    pub(super) fn begin_stream_load(&mut self, handle: ClientHandle) {
        let Some(link) = &self.link else { return };
        let Stage::Transfer(transfer) = &link.stage else { return };
        let total_bytes = transfer.frame.total_bytes().unwrap_or(0);
        let keeps_data = self.server.config.repl_diskless_load == ReplDisklessLoad::SwapDb;
        let is_same_history =
            transfer.origin.as_ref().is_some_and(|origin| origin.id == self.replication.history.id());
        let is_async = keeps_data && is_same_history;
        let options = self.load_options(false, false);
        let beside = Box::new(self.db.empty_beside());
        let load = match StreamedLoad::new(beside, options, self.clock.clone()) {
            Ok(load) => load,
            Err(error) => {
                log::warn!("Loading what the primary sends cannot begin: {error}");
                return self.leave(handle);
            }
        };
        log::info!("PRIMARY <-> REPLICA sync: Loading DB in memory");
        self.loading_begins(if is_async { Loading::Beside } else { Loading::InPlace }, total_bytes);
        if let Some(link) = &mut self.link {
            link.load = Some(Box::new(StreamLoad { load, keeps_data, is_async, has_removed_data: false }));
        }
        self.note_link();
    }

    /// Whether what comes from the primary can be taken in now.
    pub fn has_room_for_bytes(&self, handle: ClientHandle) -> bool {
        let Some(link) = &self.link else { return true };
        match &link.stage {
            _ if link.channels.is_some() && link.is_of(handle) => !self.leaves_unread(handle),
            Stage::Transfer(transfer) if transfer.is_to_databases() => {
                let has_room = link.load.as_ref().is_none_or(|load| load.room() > MARK_BYTES);
                has_room && !self.is_busy() && !self.is_reloading()
            }
            _ => true,
        }
    }

    /// When loading goes on, on the monotonic clock: at once, unless it waits for the primary.
    pub(in crate::engine) fn next_load_us(&self) -> u64 {
        match self.link.as_ref().and_then(|link| link.load.as_ref().map(|load| (link, load))) {
            Some((link, load)) if !load.load.has_work() && !link.has_received_all() => {
                link.signed_us + SIGN_PERIOD_US
            }
            _ => self.server.now.monotonic_us,
        }
    }

    /// Whether a snapshot that is loaded beside the data has more to load.
    #[inline]
    pub(in crate::engine) fn has_load_beside_to_do(&self) -> bool {
        self.server.loading == Loading::Beside && self.next_load_us() <= self.server.now.monotonic_us
    }

    /// Loads what has come, for a few milliseconds at most.
    pub(super) fn go_on_with_stream_load(&mut self) {
        // Its timeouts hold although nothing else is done in this time.
        self.link_cron();
        let deadline_us = self.clock.monotonic_us() + LOAD_STEP_US;
        self.db.begin(self.own_turn());
        let step = loop {
            let Some(load) = self.link.as_mut().and_then(|link| link.load.as_mut()) else { return };
            match load.load.step(deadline_us) {
                Step::Begun if load.keeps_data => {}
                Step::Begun => {
                    load.has_removed_data = true;
                    log::info!("RDB signature and version check passed. Flushing old data");
                    self.remove_replaced_data();
                }
                step => break step,
            }
        };
        self.note_stream_load(step);
        if step == Step::Ended {
            self.stream_load_ended();
        }
    }

    fn note_stream_load(&mut self, step: Step) {
        let now_us = self.server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        let Some(load) = &link.load else { return };
        if step == Step::OutOfTime {
            // What it may have sent meanwhile has not been asked for.
            link.heard_us = now_us;
        }
        let (position, has_room) = (load.load.position(), load.room() > MARK_BYTES);
        self.note_loading_progress(position);
        if has_room {
            self.resume_primary();
        }
    }

    /// The loader has come to its end; the snapshot's may be yet to come.
    fn stream_load_ended(&mut self) {
        let Some(link) = &self.link else { return };
        let Some(load) = &link.load else { return };
        let Stage::Transfer(transfer) = &link.stage else { return };
        let frame = &transfer.frame;
        match load.load.loaded_bytes() {
            None => self.stream_load_failed(""),
            Some(bytes) if frame.ends_with_mark() && frame.received_bytes() > bytes => {
                self.stream_load_failed("Replication stream EOF marker is broken");
            }
            Some(_) if transfer.is_whole() => self.replace_data(),
            Some(_) => {}
        }
    }

    /// All that the primary has sent is loaded.
    fn replace_data(&mut self) {
        let Some(load) = self.link.as_mut().and_then(|link| link.load.take()) else { return };
        let StreamLoad { load, keeps_data, has_removed_data, .. } = *load;
        let Outcome { db, loaded } = load.finish();
        let restored = loaded.map_err(|error| error.to_string()).and_then(|loaded| {
            let restored = self.server.scripts.restore_libraries(&loaded.libraries, RestorePolicy::Flush);
            restored.map_err(|error| format!("Failed loading library, {error}")).map(|()| loaded)
        });
        let loaded = match restored {
            Ok(loaded) => loaded,
            Err(error) => {
                self.db.discard_all(*db);
                return self.give_stream_load_up(&error, keeps_data, has_removed_data);
            }
        };
        if let Some(link) = &mut self.link
            && let Stage::Transfer(transfer) = &mut link.stage
        {
            let (origin, received) = (transfer.origin.take(), transfer.figures());
            link.stage = Stage::Loading { origin, received, file: None };
        }
        if keeps_data {
            log::info!("PRIMARY <-> REPLICA sync: Swapping active DB with loaded DB");
        }
        self.leave_replaced_history();
        self.db.replace_all(*db, self.server.config.replica_lazy_flush);
        self.db.change_log.flushed(None);
        self.db.change_log.audit.forget_unpropagated();
        self.apply_effects(None);
        self.free_discarded();
        if keeps_data {
            log::info!("PRIMARY <-> REPLICA sync: Discarding old DB in background");
        }
        let Loaded { figures, stream_db, .. } = loaded;
        self.note_loaded(figures);
        self.rdb_loaded(figures);
        self.disk.loaded_stream_db = stream_db;
        self.sync_ended();
        // No file holds it.
        self.db.change_log.add_dirty(1);
        self.serve_ready();
    }

    /// What the primary has sent is of no use; `why`, unless the loader says so.
    fn stream_load_failed(&mut self, why: &str) {
        let Some(load) = self.link.as_mut().and_then(|link| link.load.take()) else { return };
        let StreamLoad { load, keeps_data, has_removed_data, .. } = *load;
        let Outcome { db, loaded } = load.finish();
        self.db.discard_all(*db);
        match loaded {
            Err(error) => self.give_stream_load_up(&error, keeps_data, has_removed_data),
            Ok(_) => self.give_stream_load_up(&why, keeps_data, has_removed_data),
        }
    }

    /// Another snapshot is asked for, after a while.
    fn give_stream_load_up(&mut self, why: &dyn Display, keeps_data: bool, has_removed_data: bool) {
        self.note_failed_stream_load(why, keeps_data, has_removed_data);
        match self.link.as_ref().and_then(|link| link.client) {
            Some(handle) => self.retry_later(handle),
            None => self.note_lost_link(),
        }
    }

    fn note_failed_stream_load(&mut self, why: &dyn Display, keeps_data: bool, has_removed_data: bool) {
        log::warn!("{why}");
        log::warn!("Failed trying to load the PRIMARY synchronization DB from socket, check server logs.");
        if keeps_data {
            log::info!("PRIMARY <-> REPLICA sync: Discarding temporary DB in background");
        } else if has_removed_data {
            log::info!("PRIMARY <-> REPLICA sync: Discarding the half-loaded data");
        } else {
            log::info!("PRIMARY <-> REPLICA sync: Skipping flush, no new data was loaded.");
        }
        self.free_discarded();
        self.loading_ended();
    }

    /// The rest of a snapshot that is being loaded will not come.
    pub(super) fn abandon_stream_load(&mut self) {
        let Some(load) = self.link.as_mut().and_then(|link| link.load.take()) else { return };
        let StreamLoad { load, keeps_data, has_removed_data, .. } = *load;
        let Outcome { db, loaded } = load.finish();
        self.db.discard_all(*db);
        let error = loaded.err().map_or_else(String::new, |error| error.to_string());
        self.note_failed_stream_load(&error, keeps_data, has_removed_data);
    }
}
