//! Application of the primary's stream: commands run on arrival, without replies, and the bytes of an applied command are
//! forwarded, so that the offset matches the data of this server.
//!
//! 1. The offset moves only at the end of whole commands and whole transactions: resuming there neither repeats nor
//!    omits any.

use super::super::Executor;
use super::super::call::Call;
use super::Replication;
use super::link::{Stage, Upstream};
use crate::command::{Command, Control, Group, Request, flag};
use crate::config::{Config, PropagationError};
use crate::db::Db;
use crate::engine::aof::AppendOnlyFile;
use crate::error::quoted;
use crate::server::Server;
use crate::session::ClientHandle;
use std::collections::VecDeque;
use wire::aof::write_command;
use wire::reply::ReplyBuffer;

/// Returns whether a command may occur in a stream: it changes data, reaches subscribers, or controls the stream.
fn belongs_to_stream(row: &Command) -> bool {
    row.is(flag::WRITE | flag::MAY_REPLICATE | flag::STREAMED) && !row.is(flag::NOT_STREAMED)
        || row.group == Group::Scripting
        || row.control.belongs_to_stream()
}

/// Returns whether the byte is part of a keep-alive line between commands.
fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Period of log lines about applied changes that cannot be written to disk.
const DISK_TROUBLE_LOG_PERIOD_US: u64 = 10_000_000;
const NO_DATABASE: &str = "there is no such database here";
/// Number of unread bytes beyond which the primary gets no replies.
const UNREAD_BYTES_MAX: usize = 1 << 16;
/// Maximum number of points; one is added per second while the disk is behind.
const LOG_POINTS_MAX: usize = 1000;

/// Pairs of positions in the append-only file and offsets of the stream.
#[derive(Debug, Default)]
pub(super) struct LogPoints {
    /// The end of the file, in total bytes appended, and the offset at that time; both ascend.
    points: VecDeque<(u64, u64)>,
    last_end: u64,
    synced: Option<u64>,
}

impl LogPoints {
    /// Returns the offset up to which all changes are on disk. `progress`: bytes appended to the file and synced, at this
    /// `offset`.
    fn synced_offset(&mut self, progress: Option<(u64, u64)>, offset: u64) -> Option<u64> {
        let Some((end, synced)) = progress else {
            *self = LogPoints::default();
            return None;
        };
        if end < self.last_end {
            // The file has been replaced.
            *self = LogPoints::default();
        }
        self.last_end = end;
        if self.points.len() < LOG_POINTS_MAX && self.points.back() != Some(&(end, offset)) {
            self.points.push_back((end, offset));
        }
        while let Some((_, offset)) = self.points.pop_front_if(|&mut (end, _)| end <= synced) {
            self.synced = Some(offset);
        }
        // A file is in use, so an offset is reported from the beginning on.
        Some(self.synced.unwrap_or(0))
    }
}

/// Handles a command that failed on this replica but not on the primary: the data differs.
fn note_failed_command(config: &Config, command: &[u8]) {
    log::warn!(
        "== CRITICAL == This replica is sending an error to its primary after processing the command '{}'",
        quoted(command)
    );
    // On a writable replica, clients may have caused the conflict.
    let behavior = config.propagation_error_behavior;
    if config.replica_read_only
        && matches!(behavior, PropagationError::Panic | PropagationError::PanicOnReplicas)
    {
        panic!("This replica panicked sending an error to its primary after processing a command.");
    }
}

impl Upstream {
    /// Handles changes that cannot be made durable; the option decides whether the process ends.
    #[cold]
    fn note_disk_trouble(&mut self, server: &Server) {
        if !server.config.replica_ignore_disk_write_errors {
            panic!("Replica was unable to write command to disk.");
        }
        let now_us = server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        if now_us >= link.disk_trouble_logged_us + DISK_TROUBLE_LOG_PERIOD_US {
            link.disk_trouble_logged_us = now_us;
            log::warn!("Replica is applying a command even though it is unable to write to disk.");
        }
    }
}

impl Replication {
    /// Switches the connection to commands.
    pub(super) fn follow_stream(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        aof: &AppendOnlyFile,
        handle: ClientHandle,
    ) {
        if let Some(link) = &mut self.upstream.link {
            link.stage = Stage::Connected;
            link.down_since_s = None;
            link.open_transaction.clear();
            link.log_points = LogPoints::default();
            link.note_input(server.now.monotonic_us);
        }
        let client = &mut server.clients[handle];
        (client.transaction, client.is_linking) = (None, false);
        self.acknowledge(server, aof);
        self.upstream.note_link(server);
        self.note_stream(db, server);
    }

    /// Sends the primary this replica's offset.
    pub(in crate::engine) fn acknowledge(&mut self, server: &mut Server, aof: &AppendOnlyFile) {
        let Some(handle) = self.upstream.link_client() else { return };
        if server.clients[handle].output.len() <= UNREAD_BYTES_MAX {
            let acknowledgement = self.acknowledgement(aof);
            server.clients.push(handle, |output| output.raw(&acknowledgement));
        }
    }

    /// Builds the acknowledgement command.
    fn acknowledgement(&mut self, aof: &AppendOnlyFile) -> Vec<u8> {
        let offset = self.outgoing.offset().to_string();
        let synced = self.synced_offset(aof).map(|synced| synced.to_string());
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        if let Some(synced) = &synced {
            words.extend([&b"FACK"[..], synced.as_bytes()]);
        }
        let mut command = Vec::new();
        write_command(&mut command, words.into_iter()).expect("writing to memory cannot fail");
        command
    }

    /// Returns the offset up to which the stream's changes are on disk in the append-only file; `None` without one.
    fn synced_offset(&mut self, aof: &AppendOnlyFile) -> Option<u64> {
        let (link, offset) = (self.upstream.link.as_mut()?, self.outgoing.offset());
        let progress = aof.progress();
        link.log_points.synced_offset(progress, offset)
    }
}

impl Executor {
    /// Runs a command of the stream; `bytes` are its encoded form and preceding empty lines.
    pub fn apply_streamed(
        &mut self,
        handle: ClientHandle,
        request: Request<'_>,
        bytes: &[u8],
        reply: &mut ReplyBuffer,
    ) {
        let now = self.server.now;
        let client = &mut self.server.clients[handle];
        (client.last_interaction, client.last_command) = (now, request.id);
        if let Some(link) = &mut self.replication.upstream.link {
            link.note_input(now.monotonic_us);
        }
        if bytes.iter().find(|&byte| !is_line_end(byte)) != Some(&b'*') {
            return self.stream_is_broken(handle, "inline command");
        }
        let args = request.args;
        let Some(id) = request.id.or_else(|| self.server.registry.find(args).ok()) else {
            return self.reject_command(handle, args.at(0), "it is not known here");
        };
        let call = Call::new(&self.server.registry, handle, id, args);
        let row = call.row;
        if !row.accepts(args.len()) {
            return self.reject_command(handle, args.at(0), "it has a wrong number of arguments");
        }
        if !belongs_to_stream(row) {
            return self.reject_command(handle, args.at(0), "it is none that changes data");
        }
        if row.control == Control::Link {
            self.forward(handle, bytes);
            let asks = args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
            // A primary that does not read its replies gets no more of them.
            if asks && reply.len() <= UNREAD_BYTES_MAX {
                reply.raw(&self.replication.acknowledgement(&self.aof));
            }
            return;
        }
        if row.is(flag::WRITE) && self.disk_error().is_some() {
            self.replication.upstream.note_disk_trouble(&self.server);
        }
        if self.server.clients[handle].transaction.is_some() && !row.control.runs_inside_multi() {
            if row.control == Control::OpensTransaction {
                return self.reject_command(handle, args.at(0), "a transaction is open");
            }
            if row.control == Control::SelectsDatabase
                && !args.integer(1).is_ok_and(|index| self.has_database(index))
            {
                return self.reject_command(handle, args.at(0), NO_DATABASE);
            }
            self.queue(&call);
        } else {
            let failed = self.run_streamed(&call, reply);
            self.serve_ready();
            if failed {
                if row.control == Control::SelectsDatabase {
                    return self.reject_command(handle, args.at(0), NO_DATABASE);
                }
                note_failed_command(&self.server.config, args.at(0));
            }
        }
        self.forward(handle, bytes);
    }

    /// Runs the command without a reply; returns whether it failed.
    #[inline]
    fn run_streamed(&mut self, call: &Call<'_>, reply: &mut ReplyBuffer) -> bool {
        let (start, errors) = (reply.len(), self.server.observed.statistics.errors);
        if !self.server.config.replica_ignore_maxmemory && self.server.config.maxmemory_bytes > 0 {
            self.make_room();
        }
        // The primary removes keys whose expiry it has set.
        self.db.note_client_expiry(false);
        let next = self.call(call, reply);
        self.do_next(call, next, reply);
        self.note_client_expiry();
        reply.truncate(start);
        self.server.observed.statistics.errors > errors
    }

    /// Attributes later expiries to clients, if this is a writable replica.
    pub(in crate::engine) fn note_client_expiry(&mut self) {
        let notes = self.is_replica() && !self.server.config.replica_read_only;
        self.db.note_client_expiry(notes);
    }

    fn has_database(&self, index: i64) -> bool {
        usize::try_from(index).is_ok_and(|index| index < self.db.database_count())
    }

    /// Forwards an applied command. A queued command, or one whose script was suspended, is forwarded at the end of its
    /// transaction or script.
    fn forward(&mut self, handle: ClientHandle, bytes: &[u8]) {
        let is_put_aside = self.is_put_aside(handle);
        let Some(link) = self.replication.upstream.link.as_mut().filter(|link| link.is_of(handle)) else {
            return;
        };
        let empty_lines = bytes.iter().take_while(|byte| is_line_end(byte)).count();
        let bytes = &bytes[empty_lines..];
        let is_open = is_put_aside
            || self.server.clients.get(handle).is_some_and(|client| client.transaction.is_some());
        if is_open || !link.open_transaction.is_empty() {
            link.open_transaction.extend_from_slice(bytes);
            if is_open {
                return;
            }
            let whole = std::mem::take(&mut link.open_transaction);
            return self.feed_verbatim(&whole);
        }
        self.feed_verbatim(bytes);
    }

    /// Forwards a suspended script of the stream at its end, or when its connection closes.
    pub(crate) fn forward_script(&mut self, handle: ClientHandle) {
        let Some(link) = self.replication.upstream.link.as_mut().filter(|link| link.is_of(handle)) else {
            return;
        };
        let whole = std::mem::take(&mut link.open_transaction);
        if !whole.is_empty() {
            self.feed_verbatim(&whole);
        }
    }

    /// Requests a full sync after a command that cannot be applied, since skipping it would leave a gap.
    fn reject_command(&mut self, handle: ClientHandle, command: &[u8], why: &str) {
        log::warn!(
            "Command '{}' of the primary's stream cannot be applied: {why}. Closing the link and requesting a full sync.",
            quoted(command)
        );
        self.schedule_full_sync(handle);
    }

    /// Handles a protocol error in the stream: earlier commands may have been misread too.
    pub(crate) fn stream_is_broken(&mut self, handle: ClientHandle, why: &str) {
        log::warn!("Protocol error ({why}) from primary. Closing the link and requesting a full sync.");
        self.schedule_full_sync(handle);
        // Whatever link the client was of: what follows in its input is no stream.
        self.server.close_asap(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_disk_is_told_in_terms_of_the_stream() {
        let mut points = LogPoints::default();
        assert_eq!(points.synced_offset(Some((100, 0)), 1000), Some(0));
        assert_eq!(points.synced_offset(Some((200, 99)), 2000), Some(0));
        assert_eq!(points.synced_offset(Some((200, 100)), 2000), Some(1000));
        assert_eq!(points.synced_offset(Some((300, 300)), 3000), Some(3000));
        assert_eq!(points.synced_offset(Some((50, 0)), 3100), Some(0), "another file");
        assert_eq!(points.synced_offset(None, 3200), None);
    }
}
