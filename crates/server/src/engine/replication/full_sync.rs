//! Full syncs, for replicas that cannot continue from their offset: a child writes a snapshot, to a file that each
//! replica is sent when it is complete, or through a pipe to all of them as it is written.
//!
//! ```text
//!  file   +FULLRESYNC id offset    $<length>      RDB                      the stream from the offset on
//!  pipe   +FULLRESYNC id offset    $EOF:<mark>    RDB  <mark>   ACK of the replica   the stream
//! ```
//!
//! A pipe is read while its slowest replica is less than [`TRANSFER_BYTES_MAX`] behind: the memory of a sync does not
//! depend on the size of the data. The mark, forty random digits, is sent only after the child has succeeded: a partial
//! snapshot never looks complete.

use super::super::Executor;
use super::super::saving::Target;
use super::Replication;
use super::primary::no_id;
use super::replicas::{Replica, Stage, profile_of};
use crate::db::Db;
use crate::engine::persistence::Disk;
use crate::persist::child::{Child, ChildPipe, Outcome, Purpose};
use crate::persist::rdb::Snapshot;
use crate::persist::rdb::save::VERSION_OF_7_2;
use crate::server::Server;
use crate::session::ClientHandle;
use crate::session::client::ReplicaProfile;
use crate::sys::child::Ended;
use crate::sys::process;
use crate::sys::world::{File, Open, World};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use structures::shared_log::SharedLog;
use wire::convert::usize_of;
use wire::rdb::VERSION;

/// Maximum read-ahead of a pipe before the slowest replica.
const TRANSFER_BYTES_MAX: u64 = 1 << 20;
/// Bytes read from a file or a pipe at a time.
const PIECE_BYTES: usize = 64 << 10;
const SECOND_US: u64 = 1_000_000;
/// How long no snapshot of the old format is begun after a value could not be represented in it.
const OLD_FORM_REFUSED_US: u64 = 60 * SECOND_US;
/// Replicas of older releases read only the formats written since 7.2.
const VERSION_80_SINCE: u32 = 0x09_00_00;

/// The snapshot format that a replica needs. Replicas with equal formats share a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    version: u16,
    without_data: bool,
    without_functions: bool,
    /// A child writes it to the socket, after the line with its offset.
    pub goes_by_rdb_channel: bool,
}

impl Format {
    /// Returns the format for a replica with this profile.
    pub fn of(profile: &ReplicaProfile) -> Self {
        // A file may serve other replicas, so it has the newest version.
        let is_new = !profile.finds_end_mark || profile.version >= VERSION_80_SINCE;
        Format {
            version: if is_new { VERSION } else { VERSION_OF_7_2 },
            without_data: profile.without_data,
            without_functions: profile.without_functions,
            goes_by_rdb_channel: profile.is_rdb_channel
                && profile.finds_end_mark
                && profile.wants_snapshot_only
                && profile.came_with_sync,
        }
    }

    /// Returns whether a file of this format can serve as the RDB file.
    fn fits_file(self) -> bool {
        self.version == VERSION && !self.without_data && !self.without_functions
    }

    /// Returns the target for a snapshot of this format, given whether all replicas find its end; `None`: no target
    /// fits.
    fn target(self, all_find_end: bool, is_diskless: bool) -> Option<Target> {
        match (self.fits_file(), all_find_end) {
            (true, true) if is_diskless => Some(Target::Pipe),
            (true, _) => Some(Target::File),
            (false, true) => Some(Target::Pipe),
            (false, false) => None,
        }
    }
}

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
    /// `None` when everything has been read.
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
    /// Until then, no snapshot is begun in the format for releases before 9.0: the last one met a value that this
    /// format cannot represent.
    old_form_refused_until_us: u64,
    /// A file written for replicas only, or received, to be removed.
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

    /// A snapshot has begun, at this offset.
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

    /// Forgets the file that was written or received for a sync: it is gone or reused.
    pub fn forget_sync_file(&mut self) {
        self.sync_file = None;
    }
}

pub(super) fn pause_after_fork_if_wanted(server: &Server) {
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

    /// Lets the replica share the file being written, if the stream has been kept since its start.
    fn join_snapshot(&mut self, server: &mut Server, handle: ClientHandle) {
        let own = profile_of(server, handle);
        let first = self.replicas.iter().find(|&(other, replica)| {
            let profile = profile_of(server, other);
            matches!(replica.stage, Stage::Snapshot)
                && !server.clients[other].close_asap
                && (!profile.wants_snapshot_only || own.wants_snapshot_only)
        });
        let fitting = first.filter(|&(other, _)| {
            let profile = profile_of(server, other);
            Format::of(profile) == Format::of(own)
                && (own.finds_end_mark || !profile.finds_end_mark)
                && (own.takes_new_ids || !profile.takes_new_ids)
        });
        let Some((_, first)) = fitting else {
            return log::info!(
                "Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC"
            );
        };
        let offset = first.position.unwrap_or(self.full_syncs.snapshot_offset);
        self.snapshot_begun(server, handle, Stage::Snapshot, offset);
        log::info!("Waiting for end of BGSAVE for SYNC");
    }

    /// Records the offset of the snapshot that the replica will be sent.
    fn snapshot_begun(&mut self, server: &mut Server, handle: ClientHandle, stage: Stage, offset: u64) {
        let profile = profile_of(server, handle);
        let (wants_stream, is_told) = (!profile.wants_snapshot_only, !profile.came_with_sync);
        if let Some(replica) = self.replicas.change(handle) {
            replica.stage = stage;
            replica.position = wants_stream.then_some(offset);
        }
        if is_told {
            let line = format!("+FULLRESYNC {} {offset}\r\n", self.outgoing.history().id());
            server.clients.push(handle, |reply| reply.raw(line.as_bytes()));
        }
    }

    /// Returns the format of the longest waiting replica, since when it waits, and how many wait for that format.
    fn waiting(&self, server: &Server) -> Option<(Format, u64, usize)> {
        let mut found: Option<(Format, u64, usize)> = None;
        for (handle, replica) in self.replicas.iter() {
            let Stage::Waiting { since_us } = replica.stage else { continue };
            let format = Format::of(profile_of(server, handle));
            match &mut found {
                None => found = Some((format, since_us, 1)),
                Some((first, earliest_us, count)) if *first == format => {
                    *earliest_us = since_us.min(*earliest_us);
                    *count += 1;
                }
                Some(_) => {}
            }
        }
        found
    }

    /// Returns the replicas that wait for this format, in the order of arrival.
    pub(super) fn waiting_for(&self, server: &Server, format: Format) -> Vec<ClientHandle> {
        let mut waiting = self.replicas.those(Replica::is_waiting);
        waiting.retain(|&handle| Format::of(profile_of(server, handle)) == format);
        waiting
    }

    /// Returns the format of the snapshot to begin now, if any and nothing else prevents it.
    fn due_format(&self, server: &Server) -> Option<Format> {
        if self.full_syncs.is_transferring() {
            return None;
        }
        let (format, since_us, count) = self.waiting(server)?;
        let config = &server.config;
        let waited_us = server.now.monotonic_us.saturating_sub(since_us);
        let enough = config.repl_diskless_sync_max_replicas as usize;
        let is_due = !config.repl_diskless_sync
            || enough > 0 && count >= enough
            || waited_us >= u64::from(config.repl_diskless_sync_delay_seconds) * SECOND_US;
        is_due.then_some(format)
    }

    /// Returns whether a value recently had no representation in these replicas' format: then they get an error and no
    /// snapshot begins.
    pub(super) fn refuses_form(&mut self, server: &mut Server, format: Format) -> bool {
        let is_refused = format.version == VERSION_OF_7_2
            && server.now.monotonic_us < self.full_syncs.old_form_refused_until_us;
        if is_refused {
            let text = format!(
                "ERR a key has no form in RDB version {VERSION_OF_7_2}, which replicas of releases before 9.0 read"
            );
            let waiting = self.waiting_for(server, format);
            self.replicas.refuse(server, &waiting, &text);
        }
        is_refused
    }

    /// Records that a value has no representation in the format of older releases.
    fn note_unrepresentable(&mut self, server: &Server) {
        self.full_syncs.old_form_refused_until_us = server.now.monotonic_us + OLD_FORM_REFUSED_US;
        log::warn!(
            "Replicas of releases before 9.0 are refused for {} s: the data was not written in RDB version {VERSION_OF_7_2}",
            OLD_FORM_REFUSED_US / SECOND_US
        );
    }

    /// Sends an error to the waiting replicas, which may retry.
    pub(super) fn refuse_waiting(&mut self, server: &mut Server) {
        log::warn!("BGSAVE for replication failed");
        let waiting = self.replicas.those(Replica::is_waiting);
        self.replicas.refuse(server, &waiting, "ERR BGSAVE failed, replication can't continue");
    }

    /// A snapshot for this group has begun: to the pipe, or to the file that is to be removed afterwards, if any.
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

    /// Begins to send a written file to the replicas that wait for it.
    fn send_written(&mut self, server: &mut Server, disk: &Disk, path: &Path, succeeded: bool) {
        for handle in self.replicas.those(|replica| matches!(replica.stage, Stage::Snapshot)) {
            if !succeeded {
                log::warn!("SYNC failed. BGSAVE child returned an error");
                server.close_asap(handle);
                continue;
            }
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
        self.replicas.note_change();
    }

    /// Handles the end of the child that wrote for replicas.
    fn written_for_sync(&mut self, server: &mut Server, ended: Ended) {
        match ended {
            Ended::Exited(0) => log::info!("Background RDB transfer terminated with success"),
            Ended::Exited(code) => {
                log::warn!("Background RDB transfer error");
                if code == Outcome::Unrepresentable.exit_code() {
                    self.note_unrepresentable(server);
                }
            }
            Ended::Killed { signal } => {
                log::warn!("Background RDB transfer terminated by signal {signal}");
            }
        }
        if ended != Ended::Exited(0) {
            return self.fail_transfer(server);
        }
        self.full_syncs.note_written();
        self.rdb_channels_sent(server);
    }

    fn fail_transfer(&mut self, server: &mut Server) {
        self.full_syncs.transfer = None;
        for handle in self.replicas.those(Replica::is_piped) {
            log::warn!("SYNC failed. BGSAVE child returned an error");
            server.close_asap(handle);
        }
        self.rdb_channels_failed(server);
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

    /// Removes a file written for replicas only once they have it, if configured.
    pub(super) fn remove_sync_file_if_wanted(&mut self, server: &Server, disk: &Disk) {
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
                log::warn!("Removing the RDB file: {error}");
            }
        }
    }
}

impl Executor {
    pub(super) fn snapshot_of(&self, format: Format) -> Snapshot {
        let mut snapshot = self.snapshot_in_stream();
        snapshot.for_7_2 = format.version == VERSION_OF_7_2;
        snapshot.without_data = format.without_data;
        if format.without_functions {
            snapshot.libraries.clear();
        }
        snapshot
    }

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
        let config = &self.server.config;
        let profile = profile_of(&self.server, handle);
        let format = Format::of(profile);
        let is_delayed = config.repl_diskless_sync
            && config.repl_diskless_sync_delay_seconds > 0
            && profile.finds_end_mark;
        match self.disk.child_purpose() {
            Some(Purpose::Snapshot) => replication.join_snapshot(&mut self.server, handle),
            Some(Purpose::Sync) => {
                log::info!("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC");
            }
            Some(Purpose::LogBase) | None if is_delayed => {
                log::info!("Delay next BGSAVE for diskless SYNC");
            }
            // Begins when its socket is available.
            None if format.goes_by_rdb_channel => {}
            None if !replication.full_syncs.is_transferring() => self.begin_sync(format),
            Some(Purpose::LogBase) | None => log::info!(
                "No BGSAVE in progress, but another BG operation is active. BGSAVE for replication delayed"
            ),
        }
    }

    /// Begins a snapshot for the waiting replicas, after a delay in which others can join.
    pub(in crate::engine) fn begin_pending_sync(&mut self) {
        if let Some(format) = self.due_sync().filter(|format| !format.goes_by_rdb_channel) {
            self.begin_sync(format);
        }
    }

    /// Returns the format of the snapshot to begin now, if any.
    pub(super) fn due_sync(&self) -> Option<Format> {
        // A suspended script has made partial changes, which must not be in a snapshot.
        let is_busy = self.has_load_under_way() || self.is_busy();
        if self.disk.has_child() || is_busy { None } else { self.replication.due_format(&self.server) }
    }

    fn begin_sync(&mut self, format: Format) {
        if self.replication.refuses_form(&mut self.server, format) {
            return;
        }
        let group = self.replication.waiting_for(&self.server, format);
        let all_find_end = group.iter().all(|&handle| profile_of(&self.server, handle).finds_end_mark);
        let Some(target) = format.target(all_find_end, self.server.config.repl_diskless_sync) else {
            return self.replication.refuse_waiting(&mut self.server);
        };
        let piped = target == Target::Pipe;
        log::info!(
            "Starting BGSAVE for SYNC with target: {} using: normal sync",
            if piped { "replicas sockets" } else { "disk" }
        );
        let snapshot = self.snapshot_of(format);
        if !self.saving.start_snapshot(&mut self.disk, &self.db, &mut self.server, target, snapshot) {
            return self.replication.refuse_waiting(&mut self.server);
        }
        pause_after_fork_if_wanted(&self.server);
        let is_removed = !piped && self.server.config.rdb_del_sync_files;
        let removed_file = is_removed.then(|| self.saving.target().to_owned());
        self.replication.sync_begun(&mut self.server, group, self.disk.take_output(), removed_file);
    }

    /// Handles the end of the child that wrote a file: its replicas are sent the file.
    pub(in crate::engine) fn snapshot_ended(&mut self, succeeded: bool) {
        self.replication.send_written(&mut self.server, &self.disk, self.saving.target(), succeeded);
        self.begin_pending_sync();
    }

    /// Handles the end of the child that wrote into a pipe.
    pub(in crate::engine) fn transfer_ended(&mut self, ended: Ended) {
        let duration_s = self.disk.child_duration_s(&self.server);
        let sent_bytes = self.server.observed.persistence.child.sent_bytes;
        self.server.observed.persistence.note_background_save(duration_s);
        self.server.observed.statistics.replication_output_bytes += sent_bytes;
        self.replication.written_for_sync(&mut self.server, ended);
    }

    /// Handles the killing of the snapshot child.
    pub(in crate::engine) fn snapshot_killed(&mut self, child: Child) {
        let purpose = child.purpose;
        child.end();
        self.server.observed.persistence.save_started_s = None;
        match purpose {
            Purpose::Snapshot => self.snapshot_ended(false),
            Purpose::Sync => self.replication.fail_transfer(&mut self.server),
            Purpose::LogBase => {}
        }
    }

    /// Ends a snapshot that no other replica needs, when a replica leaves at this stage.
    pub(super) fn leave_sync(&mut self, stage: &Stage) {
        let replicas = &self.replication.replicas;
        match stage {
            Stage::Snapshot => {
                let is_last = !replicas.any(|replica| matches!(replica.stage, Stage::Snapshot));
                if is_last && self.server.config.save.is_empty() && self.disk.child_is(Purpose::Snapshot) {
                    log::info!(
                        "Background saving, persistence disabled, last replica dropped, killing fork child."
                    );
                    self.end_snapshot_child(Purpose::Snapshot);
                }
            }
            Stage::Pipe { .. } => {
                let is_last = !replicas.any(Replica::is_piped);
                self.replication.trim_transfer();
                if is_last && self.disk.child_is(Purpose::Sync) {
                    log::info!("Diskless rdb transfer, last replica dropped, killing fork child.");
                    self.end_snapshot_child(Purpose::Sync);
                }
            }
            Stage::RdbChannel => self.leave_rdb_channel(),
            Stage::Waiting { .. } | Stage::File(_) | Stage::MainChannel { .. } | Stage::Online { .. } => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_say_a_version_gets_what_all_can_read() {
        let profile =
            |finds_end_mark, version| ReplicaProfile { finds_end_mark, version, ..Default::default() };
        let version_for = |finds, version| Format::of(&profile(finds, version)).version;
        assert_eq!(version_for(true, 0), 11);
        assert_eq!(version_for(true, 0x08_ff_ff), 11);
        assert_eq!(version_for(true, 0x09_00_00), VERSION);
        assert_eq!(version_for(false, 0), VERSION, "a file serves others too");
        assert!(Format::of(&profile(false, 0)).fits_file());
        assert!(!Format::of(&profile(true, 0)).fits_file());
    }

    #[test]
    fn what_may_not_stand_in_a_file_goes_only_to_those_who_find_its_end() {
        let whole = Format {
            version: VERSION,
            without_data: false,
            without_functions: false,
            goes_by_rdb_channel: false,
        };
        let partial = Format { without_data: true, ..whole };
        for is_diskless in [false, true] {
            assert_eq!(whole.target(false, is_diskless), Some(Target::File));
            assert_eq!(partial.target(true, is_diskless), Some(Target::Pipe));
            assert_eq!(partial.target(false, is_diskless), None);
        }
        assert_eq!(whole.target(true, true), Some(Target::Pipe));
        assert_eq!(whole.target(true, false), Some(Target::File));
    }
}
