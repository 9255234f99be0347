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
use super::primary::{Stage, no_id};
use crate::persist::child::{Child, ChildPipe, Outcome, Purpose};
use crate::persist::rdb::Snapshot;
use crate::persist::rdb::save::VERSION_OF_7_2;
use crate::session::ClientHandle;
use crate::session::client::ReplicaProfile;
use crate::sys::child::Ended;
use crate::sys::process;
use crate::sys::world::{File, Open, World};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read};
use std::path::Path;
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
pub(crate) struct Transfer {
    /// Identifies the transfer.
    number: u64,
    /// Bytes read and not yet sent to all.
    pub log: SharedLog,
    /// `None` when everything has been read.
    pipe: Option<ChildPipe>,
    mark: String,
    /// The child has succeeded.
    is_written: bool,
    /// The mark is in the log: it is complete.
    pub is_complete: bool,
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

    /// Returns the memory of the transfer.
    pub fn memory_bytes(&self) -> usize {
        self.log.memory_bytes() + self.piece.capacity()
    }

    /// Returns whether everything is read but the child has not yet reported success.
    pub fn awaits_child(&self) -> bool {
        self.pipe.is_none() && !self.is_written
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
        self.server.observed.statistics.full_syncs += 1;
        if !self.replication.has_backlog() {
            self.begin_history();
        }
        let since_us = self.server.now.monotonic_us;
        self.add_replica(handle, Stage::Waiting { since_us }, None);
        self.server.clients[handle].replica.get_or_insert_default().gathers_small_writes =
            self.server.config.repl_disable_tcp_nodelay;
        let config = &self.server.config;
        let finds_end_mark = self.profile(handle).finds_end_mark;
        let is_delayed =
            config.repl_diskless_sync && config.repl_diskless_sync_delay_seconds > 0 && finds_end_mark;
        match self.disk.child_purpose() {
            Some(Purpose::Snapshot) => self.join_snapshot(handle),
            Some(Purpose::Sync) => {
                log::info!("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC");
            }
            Some(Purpose::LogBase) | None if is_delayed => {
                log::info!("Delay next BGSAVE for diskless SYNC");
            }
            // Begins when its socket is available.
            None if Format::of(self.profile(handle)).goes_by_rdb_channel => {}
            None if self.replication.transfer.is_none() => self.begin_sync(Format::of(self.profile(handle))),
            Some(Purpose::LogBase) | None => log::info!(
                "No BGSAVE in progress, but another BG operation is active. BGSAVE for replication delayed"
            ),
        }
    }

    /// Starts a new history: no replica has the previous one.
    fn begin_history(&mut self) {
        let id = self.replication.draw_id();
        self.replication.history.begin_anew(id);
        self.replication.create_backlog();
        log::info!(
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            self.replication.history.id(),
            no_id()
        );
        self.note_stream();
    }

    pub(super) fn profile(&self, handle: ClientHandle) -> &ReplicaProfile {
        let profile = self.server.clients[handle].replica.as_deref();
        profile.expect("the command that attaches a replica creates its profile")
    }

    /// Lets the replica share the file being written, if the stream has been kept since its start.
    fn join_snapshot(&mut self, handle: ClientHandle) {
        let own = self.profile(handle);
        let first = self.replication.replicas.iter().find(|(other, replica)| {
            let profile = self.profile(**other);
            matches!(replica.stage, Stage::Snapshot)
                && !self.server.clients[**other].close_asap
                && (!profile.wants_snapshot_only || own.wants_snapshot_only)
        });
        let fitting = first.filter(|(other, _)| {
            let profile = self.profile(**other);
            Format::of(profile) == Format::of(own)
                && (own.finds_end_mark || !profile.finds_end_mark)
                && (own.takes_new_ids || !profile.takes_new_ids)
        });
        let Some((_, first)) = fitting else {
            return log::info!(
                "Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC"
            );
        };
        let offset = first.position.unwrap_or(self.replication.snapshot_offset);
        self.snapshot_begun(handle, Stage::Snapshot, offset);
        log::info!("Waiting for end of BGSAVE for SYNC");
    }

    /// Records the offset of the snapshot that the replica will be sent.
    fn snapshot_begun(&mut self, handle: ClientHandle, stage: Stage, offset: u64) {
        let profile = self.profile(handle);
        let (wants_stream, is_told) = (!profile.wants_snapshot_only, !profile.came_with_sync);
        if let Some(replica) = self.replication.replicas.get_mut(&handle) {
            replica.stage = stage;
            replica.position = wants_stream.then_some(offset);
        }
        self.replication.has_changed = true;
        if is_told {
            let line = format!("+FULLRESYNC {} {offset}\r\n", self.replication.history.id());
            self.server.clients.push(handle, |reply| reply.raw(line.as_bytes()));
        }
    }

    /// Returns the format of the longest waiting replica, since when it waits, and how many wait for that format.
    fn waiting(&self) -> Option<(Format, u64, usize)> {
        let mut found: Option<(Format, u64, usize)> = None;
        for (&handle, replica) in &self.replication.replicas {
            let Stage::Waiting { since_us } = replica.stage else { continue };
            let format = Format::of(self.profile(handle));
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
    pub(super) fn waiting_for(&self, format: Format) -> Vec<ClientHandle> {
        let waiting = self.replication.replicas.iter().filter(|(handle, replica)| {
            matches!(replica.stage, Stage::Waiting { .. }) && Format::of(self.profile(**handle)) == format
        });
        waiting.map(|(&handle, _)| handle).collect()
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
        if self.disk.has_child() || self.replication.transfer.is_some() || is_busy {
            return None;
        }
        let (format, since_us, count) = self.waiting()?;
        let config = &self.server.config;
        let waited_us = self.server.now.monotonic_us.saturating_sub(since_us);
        let enough = config.repl_diskless_sync_max_replicas as usize;
        let is_due = !config.repl_diskless_sync
            || enough > 0 && count >= enough
            || waited_us >= u64::from(config.repl_diskless_sync_delay_seconds) * SECOND_US;
        is_due.then_some(format)
    }

    pub(super) fn pause_after_fork_if_wanted(&self) {
        if self.server.switches.pause_after_fork {
            log::info!("Process is about to stop.");
            process::stop();
            log::info!("Process has been continued.");
        }
    }

    /// Returns whether a value recently had no representation in these replicas' format: then they get an error and no
    /// snapshot begins.
    pub(super) fn refuses_form(&mut self, format: Format) -> bool {
        let is_refused = format.version == VERSION_OF_7_2
            && self.server.now.monotonic_us < self.replication.old_form_refused_until_us;
        if is_refused {
            let text = format!(
                "ERR a key has no form in RDB version {VERSION_OF_7_2}, which replicas of releases before 9.0 read"
            );
            self.refuse_replicas(&self.waiting_for(format), &text);
        }
        is_refused
    }

    /// Records that a value has no representation in the format of older releases.
    fn note_unrepresentable(&mut self) {
        self.replication.old_form_refused_until_us = self.server.now.monotonic_us + OLD_FORM_REFUSED_US;
        log::warn!(
            "Replicas of releases before 9.0 are refused for {} s: the data was not written in RDB version {VERSION_OF_7_2}",
            OLD_FORM_REFUSED_US / SECOND_US
        );
    }

    fn begin_sync(&mut self, format: Format) {
        if self.refuses_form(format) {
            return;
        }
        let group = self.waiting_for(format);
        let all_find_end = group.iter().all(|&handle| self.profile(handle).finds_end_mark);
        let Some(target) = format.target(all_find_end, self.server.config.repl_diskless_sync) else {
            return self.refuse_waiting();
        };
        let piped = target == Target::Pipe;
        log::info!(
            "Starting BGSAVE for SYNC with target: {} using: normal sync",
            if piped { "replicas sockets" } else { "disk" }
        );
        let snapshot = self.snapshot_of(format);
        if !self.saving.start_snapshot(&mut self.disk, &self.db, &mut self.server, target, snapshot) {
            return self.refuse_waiting();
        }
        self.pause_after_fork_if_wanted();
        let now_us = self.server.now.monotonic_us;
        let pipe = self.disk.take_output();
        if let Some(pipe) = pipe {
            let (number, mark) = (self.replication.next_transfer, self.replication.draw_id());
            self.replication.next_transfer += 1;
            self.replication.transfer = Some(Transfer::new(number, pipe, mark));
        }
        let offset = self.replication.history.offset();
        self.replication.snapshot_offset = offset;
        self.replication.forget_selected();
        if !piped && self.server.config.rdb_del_sync_files {
            self.replication.sync_file = Some(self.saving.target().to_owned());
        }
        for handle in group {
            let stage =
                if piped { Stage::Pipe { position: 0, progress_us: now_us } } else { Stage::Snapshot };
            self.snapshot_begun(handle, stage, offset);
        }
    }

    /// Sends an error to the waiting replicas, which may retry.
    pub(super) fn refuse_waiting(&mut self) {
        log::warn!("BGSAVE for replication failed");
        let waiting = self
            .replication
            .replicas
            .iter()
            .filter(|(_, replica)| matches!(replica.stage, Stage::Waiting { .. }));
        let waiting: Vec<_> = waiting.map(|(&handle, _)| handle).collect();
        self.refuse_replicas(&waiting, "ERR BGSAVE failed, replication can't continue");
    }

    fn refuse_replicas(&mut self, replicas: &[ClientHandle], text: &str) {
        for &handle in replicas {
            self.replication.replicas.shift_remove(&handle);
            self.server.clients[handle].is_replica = false;
            self.server.clients.push(handle, |reply| reply.error(text));
            self.server.clients[handle].close_after_reply = true;
        }
        self.replication.has_changed = true;
    }

    /// Handles the end of the child that wrote a file: its replicas are sent the file.
    pub(in crate::engine) fn snapshot_ended(&mut self, succeeded: bool) {
        let waiting =
            self.replication.replicas.iter().filter(|(_, replica)| matches!(replica.stage, Stage::Snapshot));
        for handle in waiting.map(|(&handle, _)| handle).collect::<Vec<_>>() {
            if !succeeded {
                log::warn!("SYNC failed. BGSAVE child returned an error");
                self.server.close_asap(handle);
                continue;
            }
            match FileTransfer::new(self.disk.world(), self.saving.target()) {
                Ok(transfer) => {
                    if let Some(replica) = self.replication.replicas.get_mut(&handle) {
                        replica.stage = Stage::File(Box::new(transfer));
                    }
                }
                Err(error) => {
                    log::warn!("SYNC failed. Can't open DB after BGSAVE: {error}");
                    self.server.close_asap(handle);
                }
            }
        }
        self.replication.has_changed = true;
        self.begin_pending_sync();
    }

    /// Handles the end of the child that wrote into a pipe.
    pub(in crate::engine) fn transfer_ended(&mut self, ended: Ended) {
        let duration_s = self.disk.child_duration_s(&self.server);
        let sent_bytes = self.server.observed.persistence.child.sent_bytes;
        self.server.observed.persistence.note_background_save(duration_s);
        self.server.observed.statistics.replication_output_bytes += sent_bytes;
        match ended {
            Ended::Exited(0) => log::info!("Background RDB transfer terminated with success"),
            Ended::Exited(code) => {
                log::warn!("Background RDB transfer error");
                if code == Outcome::Unrepresentable.exit_code() {
                    self.note_unrepresentable();
                }
            }
            Ended::Killed { signal } => {
                log::warn!("Background RDB transfer terminated by signal {signal}");
            }
        }
        if ended != Ended::Exited(0) {
            return self.fail_transfer();
        }
        if let Some(transfer) = &mut self.replication.transfer {
            transfer.is_written = true;
            transfer.complete_if_written();
        }
        self.rdb_channels_sent();
    }

    fn fail_transfer(&mut self) {
        self.replication.transfer = None;
        let taking = self
            .replication
            .replicas
            .iter()
            .filter(|(_, replica)| matches!(replica.stage, Stage::Pipe { .. }));
        for handle in taking.map(|(&handle, _)| handle).collect::<Vec<_>>() {
            log::warn!("SYNC failed. BGSAVE child returned an error");
            self.server.close_asap(handle);
        }
        self.rdb_channels_failed();
    }

    /// Handles the killing of the snapshot child.
    pub(in crate::engine) fn snapshot_killed(&mut self, child: Child) {
        let purpose = child.purpose;
        child.end();
        self.server.observed.persistence.save_started_s = None;
        match purpose {
            Purpose::Snapshot => self.snapshot_ended(false),
            Purpose::Sync => self.fail_transfer(),
            Purpose::LogBase => {}
        }
    }

    /// Ends a snapshot that no other replica needs, when a replica leaves at this stage.
    pub(super) fn leave_sync(&mut self, stage: &Stage) {
        let replicas = || self.replication.replicas.values();
        match stage {
            Stage::Snapshot => {
                let is_last = !replicas().any(|replica| matches!(replica.stage, Stage::Snapshot));
                if is_last && self.server.config.save.is_empty() && self.disk.child_is(Purpose::Snapshot) {
                    log::info!(
                        "Background saving, persistence disabled, last replica dropped, killing fork child."
                    );
                    self.end_snapshot_child(Purpose::Snapshot);
                }
            }
            Stage::Pipe { .. } => {
                if replicas().any(|replica| matches!(replica.stage, Stage::Pipe { .. })) {
                    return self.trim_transfer();
                }
                self.replication.transfer = None;
                if self.disk.child_is(Purpose::Sync) {
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

    /// Returns the position of the transfer's slowest replica.
    fn slowest_of_transfer(&self) -> Option<u64> {
        let positions = self.replication.replicas.values().filter_map(|replica| match replica.stage {
            Stage::Pipe { position, .. } => Some(position),
            _ => None,
        });
        positions.min()
    }

    /// Frees bytes that all replicas have, and ends the transfer when none are left.
    pub(super) fn trim_transfer(&mut self) {
        match (self.slowest_of_transfer(), &mut self.replication.transfer) {
            (Some(slowest), Some(transfer)) => drop(transfer.log.trim_to(slowest)),
            (None, transfer) => *transfer = None,
            (Some(_), None) => {}
        }
    }

    /// Returns the pipe to poll for reading, and the number that identifies it.
    pub fn sync_pipe(&self) -> Option<(u64, BorrowedFd<'_>)> {
        let transfer = self.replication.transfer.as_ref()?;
        let pipe = transfer.pipe.as_ref()?;
        let slowest = self.slowest_of_transfer()?;
        let has_room = transfer.log.end() - slowest < TRANSFER_BYTES_MAX;
        has_room.then(|| (transfer.number, pipe.as_fd()))
    }

    /// Returns the pipe, whether or not there is room for its bytes.
    pub fn sync_pipe_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.replication.transfer.as_ref()?.pipe.as_ref()?.as_fd())
    }

    /// Reads available bytes from the pipe.
    pub fn read_sync_pipe(&mut self) {
        let Some(slowest) = self.slowest_of_transfer() else { return };
        let Some(transfer) = &mut self.replication.transfer else { return };
        if let Err(error) = transfer.read(slowest) {
            log::warn!("Diskless rdb transfer, read error sending DB to replicas: {error}");
            return self.end_snapshot_child(Purpose::Sync);
        }
        if transfer.pipe.is_none() {
            transfer.complete_if_written();
            let still_up = self.replication.replicas.values();
            let still_up = still_up.filter(|replica| matches!(replica.stage, Stage::Pipe { .. })).count();
            log::info!("Diskless rdb transfer, done reading from pipe, {still_up} replicas still up.");
            self.reap_child();
        }
    }

    /// Removes a file written for replicas only once they have it, if configured.
    pub(super) fn remove_sync_file_if_wanted(&mut self) {
        let config = &self.server.config;
        if !config.rdb_del_sync_files {
            self.replication.sync_file = None;
        }
        let is_needed = config.appendonly
            || !config.save.is_empty()
            || self.replication.replicas.values().any(|replica| !replica.is_online());
        if is_needed {
            return;
        }
        let Some(path) = self.replication.sync_file.take() else { return };
        if self.disk.world().exists(&path) {
            log::info!("Removing the RDB file used to feed replicas in a persistence-less instance");
            if let Err(error) = self.disk.world().remove_in_background(vec![path]) {
                log::warn!("Removing the RDB file: {error}");
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
