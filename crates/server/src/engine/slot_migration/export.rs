//! Connections of exports: what is to be sent to their targets, and the replies of the handshake.
//!
//! ```text
//!  handshake, keys from the child's pipe -> | sending | -> socket
//!  changes, while keys are read          -> | waiting |    sent when all keys are
//!  changes and words after that          -> | the last of the two |
//! ```
//!
//! 1. Bytes leave in the order in which the target has to run them: all keys, then all changes since the fork.
//! 2. The pipe is read while less than [`AHEAD_BYTES_MAX`] wait to be sent.
//! 3. What waits counts against `client-output-buffer-limit replica`; an export beyond it fails.

use super::note;
use crate::acl::UserHandle;
use crate::command::Args;
use crate::config::OutputBufferLimit;
use crate::engine::Executor;
use crate::persist::child::ChildPipe;
use crate::server::{ProcessRequest, Server, Target};
use crate::session::client::{ConnectionFigures, SlotLink};
use crate::session::{Client, ClientHandle};
use cluster::{JobId, JobState, MigrationEvent};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, IoSlice, Read};
use structures::key_slot::key_slot;
use structures::shared_log::SharedLog;
use wire::aof::write_command;
use wire::cluster_bus::SlotSet;
use wire::request::{Limits, Parser, Progress, REQUEST_LEN_MAX};

/// Maximum read-ahead of the pipe.
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// Bytes read from the pipe at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum length of a reply of the target.
const REPLY_LEN_MAX: usize = 1 << 14;
/// Distinguishes the pipes of exports from those of replicas.
const PIPE_NUMBER: u64 = 1 << 63;

/// The connections of all exports.
#[derive(Default)]
pub struct SlotExports {
    exports: Vec<Export>,
    next_pipe: u64,
    /// A change could not be read: the targets would lack it.
    has_unreadable_change: bool,
}

struct Export {
    job: JobId,
    client: ClientHandle,
    /// Bytes to send, and how many of them have been sent.
    sending: SharedLog,
    sent: u64,
    /// Changes that follow the keys.
    waiting: Option<SharedLog>,
    /// The child's output, while it is read, and the number that identifies it.
    pipe: Option<(u64, ChildPipe)>,
    /// The child runs, or its result has not been seen.
    awaits_child: bool,
    /// The child has been started: the target needs all changes since.
    takes_changes: bool,
    /// The database that the target has selected.
    selected: Option<usize>,
    /// A reply of which the end has not been received.
    line: Vec<u8>,
    over_soft_limit_since_us: Option<u64>,
}

impl Export {
    /// Appends what the target runs after all that it has been sent.
    fn append(&mut self, bytes: &[u8]) {
        self.waiting.as_mut().unwrap_or(&mut self.sending).append(bytes);
    }

    fn unsent_bytes(&self) -> u64 {
        let waiting = self.waiting.as_ref().map_or(0, SharedLog::len);
        self.sending.end() - self.sent + waiting
    }

    /// Goes on to the changes once all keys have been sent.
    fn advance(&mut self) {
        self.sending.trim_to(self.sent);
        if self.sent == self.sending.end()
            && !self.is_snapshotting()
            && let Some(waiting) = self.waiting.take()
        {
            self.sent = waiting.start();
            self.sending = waiting;
        }
    }

    fn is_snapshotting(&self) -> bool {
        self.awaits_child || self.pipe.is_some()
    }

    /// Reads from the pipe what there is room for; returns whether it has been read to its end.
    fn read(&mut self) -> io::Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        while let Some((_, pipe)) = &mut self.pipe
            && self.sending.end() - self.sent < AHEAD_BYTES_MAX
        {
            match pipe.read(&mut piece) {
                Ok(0) => {
                    self.pipe = None;
                    return Ok(true);
                }
                Ok(count) => drop(self.sending.append(&piece[..count])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn is_over_limit(&mut self, limit: &OutputBufferLimit, output_bytes: u64, now_us: u64) -> bool {
        let bytes = self.unsent_bytes() + output_bytes;
        let exceeds = |limit_bytes: u64| limit_bytes != 0 && bytes > limit_bytes;
        let since_us = self.over_soft_limit_since_us;
        self.over_soft_limit_since_us = exceeds(limit.soft_bytes).then(|| since_us.unwrap_or(now_us));
        let over_us = self.over_soft_limit_since_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
        exceeds(limit.hard_bytes)
            || self.over_soft_limit_since_us.is_some()
                && over_us > limit.soft_seconds.saturating_mul(1_000_000)
    }
}

impl SlotExports {
    /// Begins the connection of a job.
    pub(super) fn connect(&mut self, server: &mut Server, job: JobId, host: String, port: u16) {
        let now = server.now;
        let client =
            server.clients.add(|id, handle| Client::new(id, handle, ConnectionFigures::default(), now, true));
        server.clients[client].routing.slot_link = Some(SlotLink { job, is_export: true });
        server.clients[client].is_linking = true;
        server.clients[client].deny_blocking = true;
        server.clients.set_user(client, UserHandle::SUPERUSER);
        self.exports.push(Export {
            job,
            client,
            sending: SharedLog::new(0),
            sent: 0,
            waiting: None,
            pipe: None,
            awaits_child: false,
            takes_changes: false,
            selected: None,
            line: Vec::new(),
            over_soft_limit_since_us: None,
        });
        let source = server.config.bind_source_addr.clone();
        let target = Target { host: host.into_bytes(), port, source };
        server.process_requests.push(ProcessRequest::Connect { client, target });
    }

    fn of_job(&mut self, job: JobId) -> Option<&mut Export> {
        self.exports.iter_mut().find(|export| export.job == job)
    }

    fn of_client(&self, handle: ClientHandle) -> Option<&Export> {
        self.exports.iter().find(|export| export.client == handle)
    }

    /// Returns whether there is a connection of an export.
    #[inline]
    pub fn are_any(&self) -> bool {
        !self.exports.is_empty()
    }

    /// Returns whether a target needs changes.
    #[inline]
    pub(in crate::engine) fn take_changes(&self) -> bool {
        self.exports.iter().any(|export| export.takes_changes)
    }

    /// Returns whether a change could not be read, once.
    pub(super) fn take_unreadable_change(&mut self) -> bool {
        std::mem::take(&mut self.has_unreadable_change)
    }

    /// Appends a command to what a job's target is sent; `false`: the job is no export with a connection.
    pub(super) fn append(&mut self, job: JobId, command: &[u8]) -> bool {
        let export = self.of_job(job);
        let found = export.is_some();
        if let Some(export) = export {
            export.append(command);
        }
        found
    }

    /// Forgets the connection of a job; returns its client.
    pub(super) fn remove(&mut self, job: JobId) -> Option<ClientHandle> {
        let at = self.exports.iter().position(|export| export.job == job)?;
        Some(self.exports.swap_remove(at).client)
    }

    /// Returns whether the child that runs writes for this job.
    pub(super) fn is_snapshot_of(&self, job: JobId) -> bool {
        self.exports.iter().any(|export| export.job == job && export.awaits_child)
    }

    /// Returns whether all that a child has written has been read, and it has succeeded.
    pub(super) fn has_whole_snapshot(&self, job: JobId) -> bool {
        self.exports.iter().any(|export| export.job == job && !export.is_snapshotting())
    }

    /// Begins to read a child's output: changes wait from here on.
    fn begin_snapshot(&mut self, job: JobId, pipe: ChildPipe) {
        let number = PIPE_NUMBER | self.next_pipe;
        self.next_pipe += 1;
        if let Some(export) = self.of_job(job) {
            export.pipe = Some((number, pipe));
            (export.awaits_child, export.takes_changes) = (true, true);
            export.waiting = Some(SharedLog::new(0));
            // The child's output selects databases, and the changes after it select their own.
            export.selected = None;
        }
    }

    /// The child has ended; returns the job that it wrote for.
    pub(super) fn child_ended(&mut self) -> Option<JobId> {
        let export = self.exports.iter_mut().find(|export| export.awaits_child)?;
        export.awaits_child = false;
        Some(export.job)
    }

    /// Appends the end of the keys behind them, in front of the changes that wait.
    pub(super) fn end_snapshot(&mut self, job: JobId, command: &[u8]) {
        if let Some(export) = self.of_job(job) {
            export.sending.append(command);
        }
    }

    /// Appends a change to what the target of its slot is sent.
    pub(in crate::engine) fn feed(&mut self, server: &Server, db_index: usize, command: &[u8]) {
        let Some(node) = server.cluster.as_deref() else { return };
        let slot = match slot_of_command(server, command) {
            Ok(Some(slot)) => slot,
            Ok(None) => return,
            Err(()) => {
                self.has_unreadable_change = true;
                return;
            }
        };
        let Some(job) = node.view.export_of(slot) else { return };
        let Some(export) = self.of_job(job) else { return };
        if export.selected != Some(db_index) {
            export.selected = Some(db_index);
            let mut select = Vec::new();
            let index = db_index.to_string();
            write_command(&mut select, [&b"SELECT"[..], index.as_bytes()].into_iter())
                .expect("writing to memory cannot fail");
            export.append(&select);
        }
        export.append(command);
    }

    /// Returns the unsent bytes of each job.
    pub(super) fn unsent(&self, server: &Server) -> Vec<(JobId, u64)> {
        let unsent = |export: &Export| {
            let output = server.clients.get(export.client).map_or(0, |client| client.output.len());
            (export.job, export.unsent_bytes() + output as u64)
        };
        self.exports.iter().map(unsent).collect()
    }

    /// Closes connections with too many unsent bytes.
    pub(super) fn enforce_limits(&mut self, server: &mut Server) {
        let now_us = server.now.monotonic_us;
        let limit = server.config.client_output_buffer_limit.replica;
        for export in &mut self.exports {
            let output = server.clients.get(export.client).map_or(0, |client| client.output.len());
            let is_open = server.clients.get(export.client).is_some_and(|client| !client.close_asap);
            if is_open && export.is_over_limit(&limit, output as u64, now_us) {
                let client = &server.clients[export.client];
                log::warn!(
                    "Client id={} addr={} flags=E scheduled to be closed ASAP for overcoming of output buffer limits.",
                    client.id,
                    client.connection.address
                );
                server.observed.statistics.output_buffer_limit_disconnections += 1;
                server.close_asap(export.client);
            }
        }
    }

    /// Returns the memory of what waits to be sent.
    pub fn memory_bytes(&self) -> usize {
        let bytes_of = |export: &Export| {
            export.sending.memory_bytes() + export.waiting.as_ref().map_or(0, SharedLog::memory_bytes)
        };
        self.exports.iter().map(bytes_of).sum()
    }

    /// Returns the clients with bytes to send now.
    pub fn with_output(&self) -> impl Iterator<Item = ClientHandle> {
        let owes = |export: &&Export| export.sent < export.sending.end();
        self.exports.iter().filter(owes).map(|export| export.client)
    }

    /// Returns whether there are bytes to send to this client now.
    pub fn has_output_for(&self, handle: ClientHandle) -> bool {
        self.of_client(handle).is_some_and(|export| export.sent < export.sending.end())
    }

    /// Collects the next bytes for a client as slices; returns their number. [`Self::output_sent`] takes how many were sent.
    pub fn output_for<'a>(&'a self, handle: ClientHandle, runs: &mut [IoSlice<'a>]) -> usize {
        let Some(export) = self.of_client(handle) else { return 0 };
        let mut count = 0;
        for (run, slice) in runs.iter_mut().zip(export.sending.slices(export.sent)) {
            *run = IoSlice::new(slice);
            count += 1;
        }
        count
    }

    /// Records sent bytes of [`Self::output_for`].
    pub fn output_sent(&mut self, handle: ClientHandle, bytes: usize) {
        if let Some(export) = self.exports.iter_mut().find(|export| export.client == handle) {
            export.sent += bytes as u64;
            export.advance();
        }
    }

    /// Returns the pipe to poll for reading, and the number that identifies it.
    pub fn pipe(&self) -> Option<(u64, BorrowedFd<'_>)> {
        let has_room = |export: &&Export| export.sending.end() - export.sent < AHEAD_BYTES_MAX;
        let (number, pipe) = self.exports.iter().filter(has_room).find_map(|export| export.pipe.as_ref())?;
        Some((*number, pipe.as_fd()))
    }

    /// Returns the pipe, whether or not there is room for its bytes.
    pub fn pipe_fd(&self) -> Option<BorrowedFd<'_>> {
        self.exports.iter().find_map(|export| export.pipe.as_ref()).map(|(_, pipe)| pipe.as_fd())
    }
}

/// Returns the slot of an encoded command's keys, if they have one in common; `Err`: it cannot be read. Changes without keys
/// do not concern exports.
fn slot_of_command(server: &Server, command: &[u8]) -> Result<Option<u16>, ()> {
    let limits = Limits { bulk_len_max: REQUEST_LEN_MAX, ..Limits::default() };
    let (mut buffer, mut position, mut ranges) = (command.to_vec(), 0, Vec::new());
    let parsed = Parser::new().parse(&mut buffer, &mut position, &limits, &mut ranges);
    if !matches!(parsed, Ok(Progress::Complete)) {
        return Err(());
    }
    let args = Args::new(&buffer, &ranges);
    // What the server propagates of its own has the names of before `rename-command`.
    let found = server.registry.find(args).ok().or_else(|| server.registry.named_originally(args.at(0)));
    let row = server.registry.row(found.ok_or(())?);
    let mut slot = None;
    let visited = row.visit_keys(args, &mut |at, _| slot = slot.or_else(|| Some(key_slot(args.at(at)))));
    Ok(slot.filter(|_| visited))
}

/// Starts a child that writes the keys of `slots` as commands; returns what it writes into, or `None` if there is no child.
/// There may be no other child.
pub fn begin_export(executor: &mut Executor, slots: &SlotSet) -> Option<ChildPipe> {
    let Executor { disk, db, server, .. } = executor;
    if disk.start_slot_export(db, server, slots) { disk.take_output() } else { None }
}

/// Starts the child that writes the keys of a job.
pub(super) fn start_snapshot(executor: &mut Executor, id: JobId) {
    let Some(slots) = super::slots_of(&executor.server, id) else { return };
    match begin_export(executor, &slots) {
        Some(pipe) => executor.slot_exports.begin_snapshot(id, pipe),
        None => note(executor, id, MigrationEvent::SnapshotNotStarted),
    }
}

/// Returns whether the input of a connection is a reply of the handshake.
pub(in crate::engine) fn awaits_reply(executor: &Executor, handle: ClientHandle) -> bool {
    let Some(link) = executor.server.clients[handle].routing.slot_link.filter(|link| link.is_export) else {
        return false;
    };
    let job = executor.server.cluster.as_deref().and_then(|node| node.view.migration(link.job));
    let awaits = |state| matches!(state, JobState::ReadingAuth | JobState::ReadingEstablish);
    job.is_some_and(|job| awaits(job.state())) && !executor.server.clients[handle].close_asap
}

/// Takes bytes of a reply; returns their number.
pub(in crate::engine) fn take_reply(executor: &mut Executor, handle: ClientHandle, bytes: &[u8]) -> usize {
    let Some(link) = executor.server.clients[handle].routing.slot_link else { return bytes.len() };
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let taken = end.map_or(bytes.len(), |end| end + 1);
    let Some(export) = executor.slot_exports.of_job(link.job) else { return bytes.len() };
    export.line.extend_from_slice(&bytes[..taken]);
    if export.line.len() > REPLY_LEN_MAX {
        export.line = Vec::new();
        note(executor, link.job, MigrationEvent::ReplyTooLong);
    } else if end.is_some() {
        let line = std::mem::take(&mut export.line).trim_ascii_end().to_vec();
        note(executor, link.job, MigrationEvent::Replied(line));
        let job = executor.server.cluster.as_deref().and_then(|node| node.view.migration(link.job));
        let is_established = job.is_some_and(|job| job.state() == JobState::WaitingToSnapshot);
        if is_established && executor.server.clients.get(handle).is_some() {
            executor.server.clients[handle].is_linking = false;
        }
    }
    taken
}

/// Reads available bytes of an export's keys.
pub(in crate::engine) fn read_pipe(executor: &mut Executor) {
    let Some(export) = executor.slot_exports.exports.iter_mut().find(|export| export.pipe.is_some()) else {
        return;
    };
    let job = export.job;
    let is_read = match export.read() {
        Ok(is_read) => is_read,
        Err(error) => {
            log::warn!("Cannot read the keys of a slot migration from the child's pipe: {error}");
            note(executor, job, MigrationEvent::SnapshotEnded { succeeded: false, copied_bytes: 0 });
            return;
        }
    };
    if is_read {
        let awaits_child = export.awaits_child;
        executor.reap_child();
        // Its end was seen before the end of its output.
        if !awaits_child {
            let copied_bytes = executor.server.observed.persistence.child.copied_bytes_peak;
            note(executor, job, MigrationEvent::SnapshotEnded { succeeded: true, copied_bytes });
        }
    }
}
