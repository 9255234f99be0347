//! Full syncs, for replicas that cannot continue from their offset: a child writes a snapshot, either to a file that is
//! then sent to each replica, or into a pipe whose bytes are sent to all of them at once.
//!
//! ```text
//!  file   +FULLRESYNC id offset    $<length>      RDB                      the stream from the offset on
//!  pipe   +FULLRESYNC id offset    $EOF:<mark>    RDB  <mark>   ACK of the replica   the stream
//! ```
//!
//! 1. A pipe is read while its slowest replica is less than [`TRANSFER_BYTES_MAX`] behind: the memory of a sync does not
//!    depend on the size of the data.
//! 2. The mark, forty random digits, is sent only after the child has succeeded: a partial snapshot never looks complete.

use super::super::Executor;
use super::super::saving::{Target, configured_snapshot};
use super::Replication;
use super::primary::no_id;
use super::rdb_channel::ReplicaSockets;
use super::replicas::{Replica, Stage, profile_of, replica_name};
use super::reservations;
use super::sync_plan::{Action, Event, Facts, Format, Phase, SyncPlan, Syncing};
use crate::db::Db;
use crate::engine::persistence::Disk;
use crate::persist::child::{Child, ChildPipe, Purpose};
use crate::persist::rdb::Snapshot;
use crate::persist::rdb::save::VERSION_OF_7_2;
use crate::server::Server;
use crate::session::ClientHandle;
use crate::sys::child::Ended;
use crate::sys::process;
use crate::sys::world::{File, Open, World};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use structures::shared_log::SharedLog;
use wire::convert::usize_of;

/// Maximum read-ahead of a pipe before the slowest replica.
const TRANSFER_BYTES_MAX: u64 = 1 << 20;
/// Bytes read from a file or a pipe at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A file being sent to a replica.
pub(crate) struct FileTransfer {
    file: File,
    /// Bytes of the file not read yet.
    left_bytes: u64,
    piece: Vec<u8>,
    sent: usize,
}

impl FileTransfer {
    fn new(world: &World, path: &Path) -> io::Result<Self> {
        let file = world.open(path, Open::Read)?;
        let left_bytes = file.len()?;
        let piece = format!("${left_bytes}\r\n").into_bytes();
        Ok(FileTransfer { file, left_bytes, piece, sent: 0 })
    }

    /// Returns the bytes read from the file and not yet sent.
    pub fn unsent(&self) -> &[u8] {
        &self.piece[self.sent..]
    }

    /// Records sent bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Returns whether the whole file has been sent.
    pub fn is_done(&self) -> bool {
        self.left_bytes == 0 && self.unsent().is_empty()
    }

    /// Reads the next piece of the file, if any.
    pub fn read_on(&mut self) -> io::Result<()> {
        if !self.unsent().is_empty() || self.left_bytes == 0 {
            return Ok(());
        }
        self.piece.resize(usize_of(self.left_bytes.min(PIECE_BYTES as u64)), 0);
        let read = self.file.read(&mut self.piece)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "premature EOF"));
        }
        self.piece.truncate(read);
        self.left_bytes -= read as u64;
        self.sent = 0;
        Ok(())
    }
}

/// A snapshot streamed from a child to replicas.
struct Transfer {
    /// Identifies the transfer.
    number: u64,
    /// Bytes read and not yet sent to all.
    log: SharedLog,
    /// The child's pipe; `None` once it has been read to its end.
    pipe: Option<ChildPipe>,
    mark: String,
    /// The child has succeeded.
    is_written: bool,
    /// The mark is in the log: it is complete.
    is_complete: bool,
    piece: Vec<u8>,
}

impl Transfer {
    fn new(number: u64, pipe: ChildPipe, mark: String) -> Self {
        let mut log = SharedLog::new(0);
        log.append(format!("$EOF:{mark}\r\n").as_bytes());
        let piece = vec![0; PIECE_BYTES];
        Transfer { number, log, pipe: Some(pipe), mark, is_written: false, is_complete: false, piece }
    }

    /// Reads the pipe, up to the allowed distance ahead of the slowest reader.
    fn read(&mut self, slowest: u64) -> io::Result<()> {
        while let Some(pipe) = &mut self.pipe
            && self.log.end() - slowest < TRANSFER_BYTES_MAX
        {
            match pipe.read(&mut self.piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => drop(self.log.append(&self.piece[..count])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn complete_if_written(&mut self) {
        if self.is_written && self.pipe.is_none() && !self.is_complete {
            self.is_complete = true;
            self.log.append(self.mark.as_bytes());
        }
    }
}

/// The snapshots for replicas.
#[derive(Default)]
pub(crate) struct FullSyncs {
    transfer: Option<Transfer>,
    next_transfer: u64,
    /// The offset of the last snapshot begun.
    snapshot_offset: u64,
    plan: SyncPlan,
    /// A file written for replicas only, or received; it will be removed.
    sync_file: Option<PathBuf>,
}

impl FullSyncs {
    /// Returns whether a snapshot is streamed from a child.
    pub fn is_transferring(&self) -> bool {
        self.transfer.is_some()
    }

    /// Returns the bytes of the transfer that are not yet sent to all.
    pub fn transferred(&self) -> Option<&SharedLog> {
        self.transfer.as_ref().map(|transfer| &transfer.log)
    }

    /// Returns the number of bytes of the transfer that can be sent.
    pub fn transfer_end(&self) -> Option<u64> {
        self.transferred().map(SharedLog::end)
    }

    /// Returns whether a replica at this position has the whole snapshot.
    pub fn is_sent(&self, position: u64) -> bool {
        let has_all = |transfer: &Transfer| transfer.is_complete && position == transfer.log.end();
        self.transfer.as_ref().is_none_or(has_all)
    }

    /// Returns the memory of the transfer.
    pub fn memory_bytes(&self) -> usize {
        let bytes_of = |transfer: &Transfer| transfer.log.memory_bytes() + transfer.piece.capacity();
        self.transfer.as_ref().map_or(0, bytes_of)
    }

    /// Returns whether everything is read but the child has not yet reported success.
    pub fn awaits_child(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.pipe.is_none() && !transfer.is_written)
    }

    /// Records the start of a snapshot at this offset.
    pub fn note_begun(&mut self, offset: u64) {
        self.snapshot_offset = offset;
    }

    /// Begins a transfer through this pipe.
    fn begin_transfer(&mut self, pipe: ChildPipe, mark: String) {
        self.transfer = Some(Transfer::new(self.next_transfer, pipe, mark));
        self.next_transfer += 1;
    }

    /// The child has succeeded.
    fn note_written(&mut self) {
        if let Some(transfer) = &mut self.transfer {
            transfer.is_written = true;
            transfer.complete_if_written();
        }
    }

    /// Reads the pipe; returns whether everything is read now.
    fn read(&mut self, slowest: u64) -> io::Result<bool> {
        let Some(transfer) = &mut self.transfer else { return Ok(false) };
        transfer.read(slowest)?;
        let is_read = transfer.pipe.is_none();
        if is_read {
            transfer.complete_if_written();
        }
        Ok(is_read)
    }

    /// Frees bytes that all replicas have, and ends the transfer when none are left.
    fn trim(&mut self, slowest: Option<u64>) {
        match (slowest, &mut self.transfer) {
            (Some(slowest), Some(transfer)) => drop(transfer.log.trim_to(slowest)),
            (None, transfer) => *transfer = None,
            (Some(_), None) => {}
        }
    }

    /// Sets the file that is removed once no replica needs it.
    pub fn set_sync_file(&mut self, path: PathBuf) {
        self.sync_file = Some(path);
    }

    /// Keeps the file of a sync, which was renamed or is reused.
    pub fn forget_sync_file(&mut self) {
        self.sync_file = None;
    }
}

/// Returns the state on which the plan of syncs depends.
fn facts_of<'a>(
    server: &'a Server,
    disk: &Disk,
    full_syncs: &FullSyncs,
    is_busy: bool,
    replicas: &'a [Syncing<'a>],
) -> Facts<'a> {
    Facts {
        now_us: server.now.monotonic_us,
        config: &server.config,
        child: disk.child_purpose(),
        transfer_end: full_syncs.transfer_end(),
        is_busy,
        replicas,
    }
}

pub(super) fn debug_pause_after_fork(server: &Server) {
    if server.switches.pause_after_fork {
        log::info!("Process is about to stop.");
        process::stop();
        log::info!("Process has been continued.");
    }
}

impl Replication {
    /// Returns whether a child's snapshot has been read but its exit has not been seen.
    pub(in crate::engine) fn awaits_child(&self) -> bool {
        self.full_syncs.awaits_child()
    }

    /// Starts a new history: no replica has the previous one.
    fn begin_history(&mut self, db: &mut Db, server: &mut Server) {
        self.outgoing.begin_anew();
        self.outgoing.create_backlog();
        log::info!(
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            self.outgoing.history().id(),
            no_id()
        );
        self.note_stream(db, server);
    }

    /// Passes an event to the plan; returns the actions.
    fn step_syncs(&mut self, server: &Server, disk: &Disk, is_busy: bool, event: Event<'_>) -> Vec<Action> {
        let syncing = self.syncing(server, |_| true);
        let facts = facts_of(server, disk, &self.full_syncs, is_busy, &syncing);
        self.full_syncs.plan.step(event, &facts, &|handle| replica_name(server, handle))
    }

    /// Returns the replicas that `is_meant` holds for, as the plan sees them.
    fn syncing<'a>(&self, server: &'a Server, is_meant: fn(&Replica) -> bool) -> Vec<Syncing<'a>> {
        let meant = self.replicas.iter().filter(|(_, replica)| is_meant(replica));
        let replicas = meant.map(|(handle, replica)| Syncing {
            handle,
            phase: replica.phase(),
            profile: profile_of(server, handle),
            is_closing: server.clients[handle].close_asap,
            has_output: !server.clients[handle].output.is_empty(),
        });
        replicas.collect()
    }

    /// Returns the metadata of a snapshot of this format.
    pub(super) fn snapshot_of(&self, server: &Server, format: Format) -> Snapshot {
        let mut snapshot = configured_snapshot(server, false, self.place_in_stream(server));
        snapshot.for_7_2 = format.version == VERSION_OF_7_2;
        snapshot.without_data = format.without_data;
        snapshot.open_slots = server.cluster.as_ref().map(|node| node.open_slots());
        if format.without_functions {
            snapshot.libraries.clear();
        }
        snapshot
    }

    /// Attaches a replica to the snapshot for which another one waits.
    fn join_snapshot(&mut self, server: &mut Server, handle: ClientHandle, other: ClientHandle) {
        let position = self.replicas.get(other).and_then(|replica| replica.position);
        let offset = position.unwrap_or(self.full_syncs.snapshot_offset);
        self.snapshot_begun(server, handle, Stage::Snapshot, offset);
    }

    /// Records the offset of the snapshot that the replica will be sent.
    fn snapshot_begun(&mut self, server: &mut Server, handle: ClientHandle, stage: Stage, offset: u64) {
        let profile = profile_of(server, handle);
        let (needs_stream, needs_offset) = (!profile.snapshot_only, !profile.attached_with_sync);
        if let Some(replica) = self.replicas.change(handle) {
            replica.stage = stage;
            replica.position = needs_stream.then_some(offset);
        }
        if needs_offset {
            let line = format!("+FULLRESYNC {} {offset}\r\n", self.outgoing.history().id());
            server.clients.push(handle, |reply| reply.raw(line.as_bytes()));
        }
    }

    /// Records the start of a snapshot for this group, into the pipe or the file. `removed_file`: removed afterwards.
    fn sync_begun(
        &mut self,
        server: &mut Server,
        group: Vec<ClientHandle>,
        pipe: Option<ChildPipe>,
        removed_file: Option<PathBuf>,
    ) {
        let now_us = server.now.monotonic_us;
        let is_piped = pipe.is_some();
        if let Some(pipe) = pipe {
            let mark = self.outgoing.draw_id();
            self.full_syncs.begin_transfer(pipe, mark);
        }
        let offset = self.outgoing.offset();
        self.full_syncs.note_begun(offset);
        self.outgoing.forget_selected();
        if removed_file.is_some() {
            self.full_syncs.sync_file = removed_file;
        }
        for handle in group {
            let stage = match is_piped {
                true => Stage::Pipe { position: 0, progress_us: now_us },
                false => Stage::Snapshot,
            };
            self.snapshot_begun(server, handle, stage, offset);
        }
    }

    /// Begins to send a replica the file that was written.
    fn send_file(&mut self, server: &mut Server, disk: &Disk, path: &Path, handle: ClientHandle) {
        match FileTransfer::new(disk.world(), path) {
            Ok(transfer) => {
                if let Some(replica) = self.replicas.get_mut(handle) {
                    replica.stage = Stage::File(Box::new(transfer));
                }
            }
            Err(error) => {
                log::warn!("SYNC failed. Can't open DB after BGSAVE: {error}");
                server.close_asap(handle);
            }
        }
    }

    /// Returns the position of the transfer's slowest replica.
    fn slowest_of_transfer(&self) -> Option<u64> {
        let positions = self.replicas.iter().filter_map(|(_, replica)| match replica.stage {
            Stage::Pipe { position, .. } => Some(position),
            _ => None,
        });
        positions.min()
    }

    /// Frees bytes that all replicas have, and ends the transfer when none are left.
    pub(super) fn trim_transfer(&mut self) {
        let slowest = self.slowest_of_transfer();
        self.full_syncs.trim(slowest);
    }

    /// Returns the pipe to poll for reading, and the number that identifies it.
    pub fn sync_pipe(&self) -> Option<(u64, BorrowedFd<'_>)> {
        let transfer = self.full_syncs.transfer.as_ref()?;
        let pipe = transfer.pipe.as_ref()?;
        let slowest = self.slowest_of_transfer()?;
        let has_room = transfer.log.end() - slowest < TRANSFER_BYTES_MAX;
        has_room.then(|| (transfer.number, pipe.as_fd()))
    }

    /// Returns the pipe, whether or not there is room for its bytes.
    pub fn sync_pipe_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.full_syncs.transfer.as_ref()?.pipe.as_ref()?.as_fd())
    }

    /// Removes a file that was written for replicas only, once they have it, if `rdb-del-sync-files` is on.
    pub(super) fn remove_unneeded_sync_file(&mut self, server: &Server, disk: &Disk) {
        let config = &server.config;
        if !config.rdb_del_sync_files {
            self.full_syncs.forget_sync_file();
        }
        let is_needed =
            config.appendonly || !config.save.is_empty() || self.replicas.any(|replica| !replica.is_online());
        if is_needed {
            return;
        }
        let Some(path) = self.full_syncs.sync_file.take() else { return };
        if disk.world().exists(&path) {
            log::info!("Removing the RDB file used to feed replicas in a persistence-less instance");
            if let Err(error) = disk.world().remove_in_background(vec![path]) {
                log::warn!("Cannot remove the RDB file: {error}");
            }
        }
    }
}

impl Executor {
    /// Begins a full sync of a replica.
    pub(super) fn begin_full_sync(&mut self, handle: ClientHandle) {
        let replication = &mut self.replication;
        self.server.observed.statistics.full_syncs += 1;
        if !replication.outgoing.has_backlog() {
            replication.begin_history(&mut self.db, &mut self.server);
        }
        let since_us = self.server.now.monotonic_us;
        replication.replicas.add(&mut self.server, handle, Stage::Waiting { since_us }, None);
        self.server.clients[handle].replica.get_or_insert_default().gathers_small_writes =
            self.server.config.repl_disable_tcp_nodelay;
        self.plan_syncs(Event::Attached(handle));
    }

    /// Returns whether a suspended script or a load has made partial changes, which must not be in a snapshot.
    fn has_partial_data(&self) -> bool {
        self.has_load_under_way() || self.is_busy()
    }

    /// Passes an event to the plan of syncs, and carries out its actions.
    pub(super) fn plan_syncs(&mut self, event: Event<'_>) {
        let is_busy = self.has_partial_data();
        for action in self.replication.step_syncs(&self.server, &self.disk, is_busy, event) {
            self.perform_sync(action);
        }
    }

    fn perform_sync(&mut self, action: Action) {
        let (replication, server) = (&mut self.replication, &mut self.server);
        match action {
            Action::Log(level, text) => log::log!(level, "{text}"),
            Action::Join(handle, other) => replication.join_snapshot(server, handle, other),
            Action::Begin { format, target, group } => self.begin_sync(format, target, group),
            Action::BeginChannels { .. } => unreachable!("only `begin_rdb_channels` has the sockets"),
            Action::Refuse { group, text } => replication.replicas.refuse(server, &group, &text),
            Action::Close(handle) => server.close_asap(handle),
            Action::SendFile(handle) => {
                replication.send_file(server, &self.disk, self.saving.target(), handle);
            }
            Action::CompleteTransfer => replication.full_syncs.note_written(),
            Action::DropTransfer => replication.full_syncs.transfer = None,
            Action::CloseAfterOutput(handle) => {
                server.clients[handle].close_after_reply = true;
                server.clients.push(handle, |_| ());
            }
            Action::ForgetReservation(handle) => {
                replication.step_reservations(server, reservations::Event::Failed(handle));
            }
            Action::KeepAlive(handle) => server.clients.push(handle, |reply| reply.raw(b"\n")),
            Action::KillChild(purpose) => self.end_snapshot_child(purpose),
        }
    }

    fn begin_sync(&mut self, format: Format, target: Target, group: Vec<ClientHandle>) {
        let snapshot = self.replication.snapshot_of(&self.server, format);
        if !self.saving.start_snapshot(&mut self.disk, &self.db, &mut self.server, target, snapshot) {
            return self.plan_syncs(Event::NotBegun);
        }
        debug_pause_after_fork(&self.server);
        let is_removed = target == Target::File && self.server.config.rdb_del_sync_files;
        let removed_file = is_removed.then(|| self.saving.target().to_owned());
        self.replication.sync_begun(&mut self.server, group, self.disk.take_output(), removed_file);
    }

    /// Returns the rdb channels whose snapshot is due; it begins once all of their sockets are in this thread.
    pub fn rdb_channels_due(&self) -> Vec<ClientHandle> {
        let replication = &self.replication;
        // Called in each tick: replicas that do not wait are not read.
        let is_held_up = self.disk.has_child() || replication.full_syncs.is_transferring();
        if is_held_up || !replication.replicas.any(Replica::is_waiting) {
            return Vec::new();
        }
        let waiting = replication.syncing(&self.server, Replica::is_waiting);
        let is_busy = self.has_partial_data();
        facts_of(&self.server, &self.disk, &replication.full_syncs, is_busy, &waiting).channels_due()
    }

    /// Begins a snapshot for these channels, whose `sockets` have no pending output.
    pub fn begin_rdb_channels(&mut self, channels: &[ClientHandle], sockets: &mut dyn ReplicaSockets) {
        let (event, is_busy) = (Event::ChannelsReady(channels), self.has_partial_data());
        for action in self.replication.step_syncs(&self.server, &self.disk, is_busy, event) {
            match action {
                Action::BeginChannels { format, group } => self.begin_channels(format, &group, sockets),
                action => self.perform_sync(action),
            }
        }
    }

    /// Handles the end of the child that wrote a file: its replicas are sent the file.
    pub(in crate::engine) fn snapshot_ended(&mut self, succeeded: bool) {
        self.plan_syncs(Event::FileEnded { succeeded });
        self.replication.replicas.note_change();
        self.plan_syncs(Event::Tick);
    }

    /// Handles the end of the child that wrote into a pipe.
    pub(in crate::engine) fn transfer_ended(&mut self, ended: Ended) {
        let duration_s = self.disk.child_duration_s(&self.server);
        let sent_bytes = self.server.observed.persistence.child.sent_bytes;
        self.server.observed.persistence.note_background_save(duration_s);
        self.server.observed.statistics.replication_output_bytes += sent_bytes;
        self.plan_syncs(Event::SyncEnded(ended));
    }

    /// Handles the killing of the snapshot child.
    pub(in crate::engine) fn snapshot_killed(&mut self, child: Child) {
        let purpose = child.purpose;
        child.end();
        self.server.observed.persistence.save_started_s = None;
        match purpose {
            Purpose::Snapshot => self.snapshot_ended(false),
            Purpose::Sync => self.plan_syncs(Event::SyncKilled),
            Purpose::LogBase | Purpose::SlotExport => {}
        }
    }

    /// Ends the snapshot of a detached replica, if no other replica needs it.
    pub(super) fn leave_sync(&mut self, replica: &Replica) {
        let phase = replica.phase();
        if !matches!(phase, Phase::Snapshot | Phase::Piped { .. } | Phase::RdbChannel) {
            return;
        }
        if phase == Phase::RdbChannel && self.disk.child_is(Purpose::Sync) {
            // The child may have ended before, successfully.
            self.reap_child();
        }
        self.plan_syncs(Event::Left(phase));
        if replica.is_piped() {
            self.replication.trim_transfer();
        }
    }

    /// Ends the child if it has this purpose.
    pub(super) fn end_snapshot_child(&mut self, purpose: Purpose) {
        if let Some(child) = self.disk.take_child_for(purpose) {
            self.snapshot_killed(child);
        }
    }

    /// Reads available bytes from the pipe.
    pub fn read_sync_pipe(&mut self) {
        let Some(slowest) = self.replication.slowest_of_transfer() else { return };
        match self.replication.full_syncs.read(slowest) {
            Ok(false) => {}
            Ok(true) => {
                let still_up = self.replication.replicas.those(Replica::is_piped).len();
                log::info!("Diskless rdb transfer, done reading from pipe, {still_up} replicas still up.");
                self.reap_child();
            }
            Err(error) => {
                log::warn!("Diskless rdb transfer, read error sending DB to replicas: {error}");
                self.end_snapshot_child(Purpose::Sync);
            }
        }
    }
}
