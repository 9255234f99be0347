//! The feed of changes: each change is encoded once and appended to all sinks, the append-only file and the replication
//! stream. The changes of a command, transaction or script form one unit, fed when it ends; keys removed by expiry and
//! eviction are fed singly.
//!
//! A receiver is a [`Sink`], and [`sinks`] is the only list of them: while it is empty, nothing is recorded. Why the file
//! does not read the stream's blocks: [docs/structures.md](../../../../docs/structures.md#the-feed-of-changes).

use super::Executor;
use super::aof::AppendOnlyFile;
use super::aof::timestamp_s;
use super::replication::Replication;
use super::slot_migration::SlotExports;
use crate::db::encoded_commands::{EncodedCommands, Receivers};
use crate::persist::aof::Appender;
use crate::server::Server;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// A receiver of the feed. Each tracks the selected database itself: one may have begun later than another.
enum Sink<'a> {
    /// Writes a timestamp, if enabled, when the second has changed.
    AppendOnlyFile { appender: &'a mut Appender, timestamp_s: Option<i64> },
    /// The stream to replicas.
    Stream(&'a mut Replication),
    /// Exports of slots, each of which takes the changes of its own.
    Exports { exports: &'a mut SlotExports, server: &'a Server },
}

/// Returns all receivers; `stream` if replicas are sent this server's changes.
#[inline]
fn sinks<'a>(
    aof: &'a mut AppendOnlyFile,
    stream: Option<&'a mut Replication>,
    (exports, server): (&'a mut SlotExports, &'a Server),
) -> impl Iterator<Item = Sink<'a>> {
    let timestamp_s = timestamp_s(server);
    let file = aof.appender().map(|appender| Sink::AppendOnlyFile { appender, timestamp_s });
    let exports = exports.take_changes().then_some(Sink::Exports { exports, server });
    file.into_iter().chain(stream.map(Sink::Stream)).chain(exports)
}

impl Sink<'_> {
    #[inline]
    fn receiver(&self) -> Receivers {
        match self {
            Sink::AppendOnlyFile { .. } => Receivers::FILE,
            Sink::Stream(_) | Sink::Exports { .. } => Receivers::REPLICAS,
        }
    }

    /// Appends an encoded command for one database.
    #[inline]
    fn append(&mut self, db_index: usize, command: &[u8]) {
        match self {
            Sink::AppendOnlyFile { appender, timestamp_s } => appender.add(db_index, *timestamp_s, command),
            Sink::Stream(stream) => stream.append_commands(db_index, command),
            Sink::Exports { exports, server } => exports.feed(server, db_index, command),
        }
    }

    /// Appends the part of a unit that is for this receiver, as a transaction if it is more than one command.
    fn append_unit(&mut self, unit: &EncodedCommands) {
        let receiver = self.receiver();
        let is_transaction = unit.count_for(receiver) > 1;
        if is_transaction {
            self.append_bracket(MULTI);
        }
        unit.all_for(receiver).for_each(|(db_index, command)| self.append(db_index, command));
        if is_transaction {
            self.append_bracket(EXEC);
        }
    }

    /// Appends MULTI or EXEC: databases are selected between them.
    #[inline]
    fn append_bracket(&mut self, command: &[u8]) {
        match self {
            Sink::AppendOnlyFile { appender, timestamp_s } => appender.add_bracket(*timestamp_s, command),
            Sink::Stream(stream) => stream.append_bracket(command),
            // Clients see the slots when all changes have arrived: they need no transactions.
            Sink::Exports { .. } => {}
        }
    }
}

impl Executor {
    /// Starts recording the changes of the server's own work for listeners and receivers, if there are any.
    pub(super) fn begin_changes(&mut self) {
        let (listening, recording) = (self.server.listens_to_changes(), self.records_changes());
        self.db.change_log.begin(listening, recording);
        self.gate.close();
    }

    /// Returns whether there is a receiver.
    #[inline]
    pub(super) fn records_changes(&self) -> bool {
        self.aof.is_on() || self.feeds_stream() || self.slot_exports.take_changes()
    }

    /// Feeds the unit, as a transaction if it is more than one command; returns whether it held any.
    #[inline]
    pub(super) fn feed_unit(&mut self) -> bool {
        if self.db.change_log.unit().is_empty() {
            return false;
        }
        let feeds_stream = self.feeds_stream();
        let stream = feeds_stream.then_some(&mut self.replication);
        for mut sink in sinks(&mut self.aof, stream, (&mut self.slot_exports, &self.server)) {
            sink.append_unit(self.db.change_log.unit());
        }
        self.db.change_log.end_unit();
        self.after_feeding();
        true
    }

    /// Feeds the current command, which is a unit of its own and encoded as received.
    #[inline]
    pub(super) fn feed_lone_command(&mut self, command: &[u8]) {
        self.db.change_log.end_lone_command(command);
        let feeds_stream = self.feeds_stream();
        let (db_index, stream) = (self.db.selected(), feeds_stream.then_some(&mut self.replication));
        for mut sink in sinks(&mut self.aof, stream, (&mut self.slot_exports, &self.server)) {
            sink.append(db_index, command);
        }
        self.after_feeding();
    }

    /// Feeds the keys removed by expiry and eviction, each as its own unit.
    pub(super) fn feed_removals(&mut self) {
        if !self.db.change_log.is_recording() {
            return self.db.change_log.audit.forget_unpropagated();
        }
        let feeds_stream = self.feeds_stream();
        let stream = feeds_stream.then_some(&mut self.replication);
        for mut sink in sinks(&mut self.aof, stream, (&mut self.slot_exports, &self.server)) {
            self.db.change_log.removals().for_each(|(db_index, command)| sink.append(db_index, command));
        }
        self.db.change_log.end_removals();
        self.after_feeding();
    }
}
