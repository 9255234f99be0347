//! Reception of the primary's snapshot: into a file, which then replaces the RDB file and is loaded in steps; or into
//! memory, loaded on arrival (`stream_load`). Clients are served between the steps.
//!
//! 1. Data and files of this server stay unchanged until the snapshot's beginning is valid, and for a file until the whole
//!    snapshot has been received.

use super::super::Executor;
use super::super::loading::RestoreError;
use super::super::slot_migration;
use super::channels::Main;
use super::link::{Stage, Upstream};
use super::received_file::ReceivedFile;
use super::snapshot_frame::{MARK_BYTES, SnapshotFrame, Taken, TransferError};
use crate::command::args::OwnedArgs;
use crate::engine::loading::{empty_all, load_options, open_rdb};
use crate::engine::persistence::Disk;
use crate::engine::saving::rdb_path;
use crate::observe::replication::TransferFigures;
use crate::observe::supervisor;
use crate::persist::rdb::Loader;
use crate::server::{Loading, Server};
use crate::session::BlockedOn;
use crate::session::blocked::{Arrival, Blocked};
use crate::session::{ClientHandle, TimeoutReply};
use crate::sys::file::FileError;
use crate::sys::world::{File, World};
use std::io;

/// Period of keep-alives to the primary during a load.
pub(super) const SIGN_PERIOD_US: u64 = 1_000_000;

/// Position of the stream after the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Id of the primary's history.
    pub id: String,
    /// Number of the last byte before the stream; bytes are numbered from 1.
    pub offset: u64,
}

enum Destination {
    File(ReceivedFile),
    /// The link's `load`, which exists after the framing line.
    Databases,
}

pub(super) struct Transfer {
    destination: Destination,
    /// Position of the stream after the snapshot; `None`: not sent by the primary, so that a partial sync is impossible.
    pub origin: Option<Origin>,
    /// Framing of the snapshot: its length or its end mark.
    pub frame: SnapshotFrame,
    is_whole: bool,
}

impl Transfer {
    /// Begins a transfer into a file.
    pub fn to_file(world: &World, origin: Option<Origin>) -> Result<Self, FileError> {
        ReceivedFile::create(world).map(|file| Transfer::new(Destination::File(file), origin))
    }

    /// Begins a transfer that is loaded while it is received.
    pub fn to_databases(origin: Option<Origin>) -> Self {
        Transfer::new(Destination::Databases, origin)
    }

    fn new(destination: Destination, origin: Option<Origin>) -> Self {
        Transfer { destination, origin, frame: SnapshotFrame::new(), is_whole: false }
    }

    /// Returns whether the snapshot is loaded while it is received.
    pub fn is_to_databases(&self) -> bool {
        matches!(self.destination, Destination::Databases)
    }

    /// Returns whether all of it has been received.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Removes the temporary file of the transfer.
    pub fn abandon(&self, world: &World) {
        if let Destination::File(file) = &self.destination {
            file.abandon(world);
        }
    }

    /// Returns the figures for INFO.
    pub fn figures(&self) -> TransferFigures {
        TransferFigures { total_bytes: self.frame.total_bytes(), read_bytes: self.frame.received_bytes() }
    }
}

/// Opens the received file, if its beginning is valid.
fn open_received(
    disk: &Disk,
    server: &Server,
    file: &ReceivedFile,
) -> Result<(Loader<File>, u64), RestoreError> {
    let options = load_options(server, false, false);
    let missing =
        || RestoreError::Open { path: file.path().to_owned(), source: io::ErrorKind::NotFound.into() };
    open_rdb(disk, file.path(), options)?.ok_or_else(missing)
}

/// Blocks the primary's stream until the data is loaded.
fn wait_for_loading(server: &mut Server, handle: ClientHandle) {
    // Found by its table row, since it may be renamed.
    let own = server.registry.iter().find(|(_, row)| row.name == "replicaof");
    let (command, _) = own.expect("a link is made by this command");
    let blocked = Blocked {
        on: BlockedOn::Loading,
        timeout_reply: TimeoutReply::Null,
        deadline_us: None,
        claimed: None,
        since_us: server.now.monotonic_us,
        command,
        args: OwnedArgs::default(),
        keys: Vec::new(),
        keys_bytes: 0,
        unblocks_on_removal: false,
        arrival: Arrival::default(),
    };
    let no_args = OwnedArgs::default();
    server.blocked.block(&mut server.clients, handle, blocked, no_args.view(), None);
}

impl Upstream {
    /// Sends the primary a keep-alive periodically.
    fn show_signs_of_life(&mut self, server: &mut Server) {
        let now_us = server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        if now_us - link.signed_us >= SIGN_PERIOD_US {
            link.signed_us = now_us;
            if let Some(handle) = link.client {
                // Primaries accept an empty line as a keep-alive before the first acknowledgement.
                server.clients.push(handle, |output| output.raw(b"\n"));
            }
        }
    }

    /// Removes a file that failed to load and would make the next start fail.
    fn remove_broken_file(&self, disk: &Disk) {
        let Some(Stage::Loading { file: Some(path), .. }) = self.link.as_ref().map(|link| &link.stage) else {
            return;
        };
        log::info!("Removing {}: the primary's snapshot cannot be loaded", path.display());
        if let Err(error) = disk.world().remove(path) {
            log::warn!("Removing {}: {error}", path.display());
        }
    }
}

impl Executor {
    /// Takes bytes of the snapshot; returns their number.
    pub(super) fn take_in(&mut self, handle: ClientHandle, bytes: &[u8]) -> usize {
        let is_reloading = self.loads.is_reloading();
        let has_channels = self.replication.upstream.has_channels();
        let Some(link) = &mut self.replication.upstream.link else { return 0 };
        let Stage::Transfer(transfer) = &mut link.stage else { return 0 };
        let had_begun = transfer.frame.has_begun();
        let taken = match &mut transfer.destination {
            Destination::File(file) => transfer.frame.take_in(bytes, "disk", &mut |bytes| file.write(bytes)),
            // This load would replace the data of another running load.
            Destination::Databases if link.load.is_none() && is_reloading => return 0,
            Destination::Databases => {
                let room = link.load.as_ref().map(|load| load.room().saturating_sub(MARK_BYTES));
                let bytes = &bytes[..bytes.len().min(room.unwrap_or(usize::MAX))];
                transfer.frame.take_in(bytes, "parser", &mut |bytes| {
                    if let Some(load) = &mut link.load {
                        load.push(bytes);
                    }
                    Ok(())
                })
            }
        };
        match taken {
            Ok(Taken::Some(taken)) => {
                if transfer.is_to_databases() && !had_begun && transfer.frame.has_begun() {
                    self.begin_stream_load(handle);
                }
                taken
            }
            Ok(Taken::Last(taken)) => {
                transfer.is_whole = true;
                if let Some(load) = &mut link.load {
                    load.end_input();
                }
                if !has_channels {
                    wait_for_loading(&mut self.server, handle);
                }
                taken
            }
            Err(error) => {
                match error {
                    TransferError::File(error) => log::warn!("{error}"),
                    TransferError::Protocol(text) => log::warn!("{text}"),
                }
                self.leave(handle);
                0
            }
        }
    }

    /// Replaces the data with a complete snapshot, unless a script is suspended.
    pub(crate) fn load_if_received(&mut self) {
        let rdb_path = rdb_path(&self.server);
        let Some(link) = &mut self.replication.upstream.link else { return };
        let (Stage::Transfer(transfer), Some(handle)) = (&mut link.stage, link.client) else { return };
        if !transfer.is_whole || transfer.is_to_databases() {
            return;
        }
        let path = self.disk.world().absolute(&rdb_path);
        let (origin, received) = (transfer.origin.take(), transfer.figures());
        let loading = Stage::Loading { origin, received, file: Some(path) };
        let Stage::Transfer(transfer) = std::mem::replace(&mut link.stage, loading) else { return };
        let Destination::File(file) = transfer.destination else { return };
        let (source, total_bytes) = match open_received(&self.disk, &self.server, &file) {
            Ok(opened) => opened,
            Err(error) => {
                log::warn!("{error}");
                log::warn!(
                    "Failed trying to load the PRIMARY synchronization DB from disk, check server logs."
                );
                log::info!("PRIMARY <-> REPLICA sync: Skipping flush, no new data was loaded.");
                file.abandon(self.disk.world());
                return self.schedule_full_sync(handle);
            }
        };
        // Before their snapshot child is killed: otherwise another snapshot would begin for the remaining replicas.
        self.disconnect_replicas();
        self.end_save();
        let placed = file.put_in_place(self.disk.world(), &rdb_path);
        if let Err(error) = placed {
            log::warn!("{error}");
            file.abandon(self.disk.world());
            return self.leave(handle);
        }
        if self.server.config.rdb_del_sync_files {
            self.replication.full_syncs.set_sync_file(rdb_path);
        }
        log::info!("PRIMARY <-> REPLICA sync: Loading DB in memory");
        self.remove_replaced_data();
        self.loads.loading_begins(&mut self.server, &self.clock, Loading::InPlace, total_bytes);
        self.loads.begin_rdb(source);
        self.replication.upstream.note_link(&mut self.server);
    }

    /// Removes the data that the snapshot replaces, and the state that depends on it.
    pub(super) fn remove_replaced_data(&mut self) {
        self.leave_replaced_history();
        slot_migration::data_is_replaced(self, "Full resynchronization occurred");
        empty_all(&mut self.db, self.server.config.replica_lazy_flush);
        self.server.scripts.flush_functions();
        self.apply_effects(None);
        self.free_discarded();
    }

    /// Ends the old history: this replica, its own replicas and a file being written cannot continue it.
    pub(super) fn leave_replaced_history(&mut self) {
        if let Some(link) = &mut self.replication.upstream.link {
            link.continues = false;
        }
        self.disconnect_replicas();
        self.end_save();
        self.db.forget_client_expiry();
        self.replication.outgoing.remove_backlog();
        if self.aof.is_on() {
            self.aof.stop_log(&mut self.disk, &mut self.server);
        }
    }

    /// Continues loading the primary's data.
    pub(crate) fn go_on_with_sync(&mut self) {
        let Some(link) = &self.replication.upstream.link else { return };
        let is_from_file = matches!(link.stage, Stage::Loading { .. }) && link.load.is_none();
        if link.load.is_none() && !is_from_file {
            return;
        }
        self.replication.upstream.show_signs_of_life(&mut self.server);
        if !is_from_file {
            return self.go_on_with_stream_load();
        }
        match self.load_step() {
            Ok(()) if self.is_loading() => {}
            Ok(()) => self.sync_ended(),
            Err(error) => {
                log::warn!("{error}");
                self.sync_failed();
            }
        }
    }

    fn sync_failed(&mut self) {
        log::warn!("Failed trying to load the PRIMARY synchronization DB from disk, check server logs.");
        log::info!("PRIMARY <-> REPLICA sync: Discarding the half-loaded data");
        self.loads.end_loading(&mut self.server);
        slot_migration::data_is_replaced(self, "Full resynchronization failed");
        empty_all(&mut self.db, self.server.config.replica_lazy_flush);
        self.server.scripts.flush_functions();
        self.apply_effects(None);
        self.free_discarded();
        self.replication.upstream.remove_broken_file(&self.disk);
        match self.replication.upstream.link_client() {
            Some(handle) => self.schedule_full_sync(handle),
            None => self.note_lost_link(),
        }
    }

    /// Adopts the loaded data and its position in the primary's stream.
    pub(super) fn sync_ended(&mut self) {
        let db_index = self.loads.take_stream_db().unwrap_or(0);
        if let (Some(node), Some(open_slots)) = (&mut self.server.cluster, self.loads.take_open_slots()) {
            node.set_open_slots(&open_slots);
        }
        let Some(link) = &mut self.replication.upstream.link else { return };
        let Stage::Loading { origin, file, .. } = std::mem::replace(&mut link.stage, Stage::Connected) else {
            return;
        };
        let (client, databases) = (link.client, self.db.database_count());
        link.continues = origin.is_some();
        link.db_index = if db_index < databases { db_index } else { 0 };
        let db_index = link.db_index;
        match origin {
            Some(origin) => self.replication.outgoing.take_over(origin.id, origin.offset),
            None => self.replication.outgoing.begin_anew(),
        }
        self.db.change_log.dirty = 0;
        self.server.clients.forget_stream();
        self.replication.outgoing.create_backlog();
        log::info!("PRIMARY <-> REPLICA sync: Finished with success");
        supervisor::notify(
            "STATUS=PRIMARY <-> REPLICA sync: Finished with success. Ready to accept connections in read-write mode.\n",
        );
        // A base must end with its snapshot.
        let file = file.filter(|_| self.loads.has_loaded_whole_file());
        if self.aof.restart_log(
            &mut self.disk,
            &mut self.db,
            &mut self.server,
            file.as_deref(),
            crate::command::Origin::default(),
        ) {
            self.replication.full_syncs.forget_sync_file();
        }
        let main = self.replication.upstream.end_channels(&mut self.server);
        let Some(handle) = client else { return self.note_lost_link() };
        match main {
            // The stream has been requested; the reply will follow.
            Some(Main::Handshake(handshake)) => {
                if let Some(link) = &mut self.replication.upstream.link {
                    // The connection was not read while the data was loaded.
                    link.note_input(self.server.now.monotonic_us);
                }
                self.replication.upstream.expect(&mut self.server, handshake.after_load());
            }
            main => {
                self.server.clients[handle].db_index = db_index;
                self.replication.follow_stream(&mut self.db, &mut self.server, &self.aof, handle);
                match main {
                    None => self.server.wake(handle, |_| ()),
                    Some(_) => self.replication.upstream.resume_primary(&mut self.server),
                }
            }
        }
    }
}
