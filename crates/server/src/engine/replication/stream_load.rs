//! Loading a snapshot while it is received (`repl-diskless-load`): into separate databases, which replace those in use
//! once it is complete.
//!
//! | option | old data during the load | replies to clients | old data after a failure |
//! |---|---|---|---|
//! | `swapdb`, same history | kept | from the old data (`async_loading`) | kept |
//! | `swapdb`, another history | kept | LOADING | kept |
//! | `on-empty-db`, `flush-before-load` | removed once the beginning is valid | LOADING | lost |
//!
//! 1. The link's `load` exists from the line that defines the snapshot's end until it is loaded or has failed.
//! 2. Data changes only in steps of the timers, never in the middle of a suspended script.

use super::super::Executor;
use super::super::loading::{LOAD_STEP_US, Loads};
use super::super::slot_migration;
use super::link::{Stage, Upstream};
use super::snapshot_frame::MARK_BYTES;
use super::transfer::SIGN_PERIOD_US;
use crate::config::{Config, ReplDisklessLoad};
use crate::db::Db;
use crate::engine::loading::{load_options, loading_ended, note_loaded, rdb_loaded};
use crate::persist::rdb::streamed::{Loaded, Outcome, Step, StreamedLoad};
use crate::script::functions::RestorePolicy;
use crate::server::{Loading, Server};
use crate::session::ClientHandle;
use std::fmt::Display;

/// A snapshot being loaded while it is received.
pub(super) struct StreamLoad {
    load: StreamedLoad,
    /// The present data stays until the snapshot is complete.
    keeps_data: bool,
    /// Clients read the present data during the load.
    is_async: bool,
    has_removed_data: bool,
}

impl StreamLoad {
    /// Returns the number of bytes that can be taken now.
    pub fn room(&self) -> usize {
        self.load.room()
    }

    /// Adds received bytes to the loader's input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.load.push(bytes);
    }

    /// Marks the input as complete.
    pub fn end_input(&mut self) {
        self.load.end_input();
    }
}

/// Returns whether the next snapshot is loaded while it is received.
pub(super) fn loads_while_receiving(db: &Db, config: &Config) -> bool {
    let is_empty = || db.databases_in_use().all(|index| db.database(index).is_empty());
    match config.repl_diskless_load {
        ReplDisklessLoad::Disabled => false,
        ReplDisklessLoad::OnEmptyDb => is_empty(),
        ReplDisklessLoad::SwapDb | ReplDisklessLoad::FlushBeforeLoad => true,
    }
}

impl Upstream {
    /// Returns whether a snapshot is loaded in place, so that commands may not use the data.
    pub(in crate::engine) fn loads_stream_in_place(&self) -> bool {
        self.link.as_ref().and_then(|link| link.load.as_ref()).is_some_and(|load| !load.is_async)
    }

    /// Returns the monotonic time at which loading continues: now, unless it waits for the primary.
    pub(in crate::engine) fn next_load_us(&self, now_us: u64) -> u64 {
        match self.link.as_ref().and_then(|link| link.load.as_ref().map(|load| (link, load))) {
            Some((link, load)) if !load.load.has_work() && !link.has_received_all() => {
                link.signed_us + SIGN_PERIOD_US
            }
            _ => now_us,
        }
    }

    /// Reads the primary's next bytes, if there is room for them.
    fn note_stream_load(&mut self, server: &mut Server, loads: &mut Loads, step: Step) {
        let now_us = server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        let Some(load) = &link.load else { return };
        let (position, has_room) = (load.load.position(), load.room() > MARK_BYTES);
        if step == Step::OutOfTime {
            // Input that arrived during the step was not read.
            link.note_input(now_us);
        }
        loads.note_loading_progress(server, position);
        if has_room {
            self.resume_primary(server);
        }
    }
}

impl Executor {
    /// Begins loading, after the framing line.
    pub(super) fn begin_stream_load(&mut self, handle: ClientHandle) {
        let Some(link) = &self.replication.upstream.link else { return };
        let Stage::Transfer(transfer) = &link.stage else { return };
        let total_bytes = transfer.frame.total_bytes().unwrap_or(0);
        let keeps_data = self.server.config.repl_diskless_load == ReplDisklessLoad::SwapDb;
        let is_same_history = transfer
            .origin
            .as_ref()
            .is_some_and(|origin| origin.id == self.replication.outgoing.history().id());
        let is_async = keeps_data && is_same_history;
        let options = load_options(&self.server, false, false);
        let beside = Box::new(self.db.empty_beside());
        let load = match StreamedLoad::new(beside, options, self.clock.clone()) {
            Ok(load) => load,
            Err(error) => {
                log::warn!("Cannot begin loading the primary's snapshot: {error}");
                return self.leave(handle);
            }
        };
        log::info!("PRIMARY <-> REPLICA sync: Loading DB in memory");
        self.loads.loading_begins(
            &mut self.server,
            &self.clock,
            if is_async { Loading::Beside } else { Loading::InPlace },
            total_bytes,
        );
        if let Some(link) = &mut self.replication.upstream.link {
            link.load = Some(Box::new(StreamLoad { load, keeps_data, is_async, has_removed_data: false }));
        }
        self.replication.upstream.note_link(&mut self.server);
    }

    /// Returns whether more bytes from the primary can be taken.
    pub fn has_room_for_bytes(&self, handle: ClientHandle) -> bool {
        let Some(link) = &self.replication.upstream.link else { return true };
        match &link.stage {
            _ if link.channels.is_some() && link.is_of(handle) => {
                !self.replication.upstream.leaves_unread(&self.server, handle)
            }
            Stage::Transfer(transfer) if transfer.is_to_databases() => {
                let has_room = link.load.as_ref().is_none_or(|load| load.room() > MARK_BYTES);
                has_room && !self.is_busy() && !self.loads.is_reloading()
            }
            _ => true,
        }
    }

    /// Returns whether received bytes remain of a snapshot that is loaded beside the data.
    #[inline]
    pub(in crate::engine) fn has_load_beside_to_do(&self) -> bool {
        self.server.loading == Loading::Beside && {
            let now_us = self.server.now.monotonic_us;
            self.replication.upstream.next_load_us(now_us) <= now_us
        }
    }

    /// Loads received bytes, for a few milliseconds at most.
    pub(super) fn go_on_with_stream_load(&mut self) {
        // The link's timeouts apply although no other work runs during the step.
        self.link_cron();
        let deadline_us = self.clock.monotonic_us() + LOAD_STEP_US;
        self.begin_turn(self.own_turn());
        let step = loop {
            let Some(load) = self.replication.upstream.link.as_mut().and_then(|link| link.load.as_mut())
            else {
                return;
            };
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
        self.replication.upstream.note_stream_load(&mut self.server, &mut self.loads, step);
        if step == Step::Ended {
            self.stream_load_ended();
        }
    }

    /// Handles the end of the loader; the snapshot's end mark may follow.
    fn stream_load_ended(&mut self) {
        let Some(link) = &self.replication.upstream.link else { return };
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

    /// Replaces the data with the loaded snapshot.
    fn replace_data(&mut self) {
        let Some(load) = self.replication.upstream.link.as_mut().and_then(|link| link.load.take()) else {
            return;
        };
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
                return self.cancel_stream_load(&error, keeps_data, has_removed_data);
            }
        };
        if let Some(link) = &mut self.replication.upstream.link
            && let Stage::Transfer(transfer) = &mut link.stage
        {
            let (origin, received) = (transfer.origin.take(), transfer.figures());
            link.stage = Stage::Loading { origin, received, file: None };
        }
        if keeps_data {
            log::info!("PRIMARY <-> REPLICA sync: Swapping active DB with loaded DB");
        }
        self.leave_replaced_history();
        slot_migration::data_is_replaced(self, "Full resynchronization occurred");
        self.db.replace_all(*db, self.server.config.replica_lazy_flush);
        self.db.change_log.flushed(None);
        self.db.change_log.audit.forget_unpropagated();
        self.apply_effects(None);
        self.free_discarded();
        if keeps_data {
            log::info!("PRIMARY <-> REPLICA sync: Discarding old DB in background");
        }
        let Loaded { figures, stream_db, open_slots, slot_imports, .. } = loaded;
        slot_migration::take_up(self, slot_imports);
        note_loaded(&mut self.server, figures);
        rdb_loaded(&mut self.server, figures);
        self.loads.set_stream_db(stream_db);
        self.loads.set_open_slots(open_slots);
        self.sync_ended();
        // No file contains the new data.
        self.db.change_log.add_dirty(1);
        self.serve_ready();
    }

    /// Handles an invalid snapshot. `why`: the reason for the log, unless the loader has its own.
    fn stream_load_failed(&mut self, why: &str) {
        let Some(load) = self.replication.upstream.link.as_mut().and_then(|link| link.load.take()) else {
            return;
        };
        let StreamLoad { load, keeps_data, has_removed_data, .. } = *load;
        let Outcome { db, loaded } = load.finish();
        self.db.discard_all(*db);
        match loaded {
            Err(error) => self.cancel_stream_load(&error, keeps_data, has_removed_data),
            Ok(_) => self.cancel_stream_load(&why, keeps_data, has_removed_data),
        }
    }

    /// Abandons the load; another snapshot is requested after a delay.
    fn cancel_stream_load(&mut self, why: &dyn Display, keeps_data: bool, has_removed_data: bool) {
        self.note_failed_stream_load(why, keeps_data, has_removed_data);
        match self.replication.upstream.link_client() {
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
        loading_ended(&mut self.server);
    }

    /// Abandons the load of a snapshot whose connection was lost.
    pub(super) fn abandon_stream_load(&mut self) {
        let Some(load) = self.replication.upstream.link.as_mut().and_then(|link| link.load.take()) else {
            return;
        };
        let StreamLoad { load, keeps_data, has_removed_data, .. } = *load;
        let Outcome { db, loaded } = load.finish();
        self.db.discard_all(*db);
        let error = loaded.err().map_or_else(String::new, |error| error.to_string());
        self.note_failed_stream_load(&error, keeps_data, has_removed_data);
    }
}
