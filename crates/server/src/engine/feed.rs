//! The feed of changes: what has been done here goes, encoded once, to all that keep a copy of the data by doing the
//! same. What a command, transaction or script has done goes as one unit, when it has ended; what expiry and eviction
//! remove goes by itself.
//!
//! Whoever keeps a copy is a [`Sink`], and [`sinks`] is the one list of them: while it is empty, nothing is recorded.
//!
//! Rejected: the append-only file as another reader of the stream's blocks. Its bytes are others (which databases are
//! selected where, times, what a script says is for one of the two only, PING and REPLCONF), a replica's are not its
//! stream's at all, and what a full disk leaves unwritten would hold the backlog beyond its size. A copy of its own costs
//! a SET 50 instructions of 3,500 (callgrind, 16 in a pipeline).

use super::Executor;
use super::persistence::Disk;
use super::replication::Replication;
use crate::db::encoded_commands::{EncodedCommands, Receivers};
use crate::persist::aof::Appender;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Takes what is fed, in order. Each selects databases in its own way: one may have begun later than another.
enum Sink<'a> {
    /// Notes the time, if that is wanted, where a second has passed.
    AppendOnlyFile { appender: &'a mut Appender, timestamp_s: Option<i64> },
    /// What replicas are sent.
    Stream(&'a mut Replication),
}

/// All that keep a copy; `stream` if replicas are sent what is done here.
#[inline]
fn sinks<'a>(
    disk: &'a mut Disk,
    stream: Option<&'a mut Replication>,
    timestamp_s: Option<i64>,
) -> impl Iterator<Item = Sink<'a>> {
    let file = disk.aof.as_mut().map(|aof| Sink::AppendOnlyFile { appender: &mut aof.appender, timestamp_s });
    file.into_iter().chain(stream.map(Sink::Stream))
}

impl Sink<'_> {
    #[inline]
    fn receiver(&self) -> Receivers {
        match self {
            Sink::AppendOnlyFile { .. } => Receivers::FILE,
            Sink::Stream(_) => Receivers::REPLICAS,
        }
    }

    /// Takes in a command, encoded, that is about one database.
    #[inline]
    fn append(&mut self, db_index: usize, command: &[u8]) {
        match self {
            Sink::AppendOnlyFile { appender, timestamp_s } => appender.add(db_index, *timestamp_s, command),
            Sink::Stream(stream) => stream.append_commands(db_index, command),
        }
    }

    /// Takes in what of a unit is for it, as a transaction if that is more than one command.
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

    /// Takes in MULTI or EXEC: databases are selected between them.
    #[inline]
    fn append_bracket(&mut self, command: &[u8]) {
        match self {
            Sink::AppendOnlyFile { appender, timestamp_s } => appender.add_bracket(*timestamp_s, command),
            Sink::Stream(stream) => stream.append(command),
        }
    }
}

impl Executor {
    /// What follows changes data: sees to it that its changes are noted for those who are there to hear of them.
    /// `replayed`: it comes from the very copy that it would be fed to.
    #[inline]
    pub(super) fn begin_changes(&mut self, replayed: bool) {
        let recording = !replayed && (self.disk.aof.is_some() || self.feeds_stream());
        self.db.change_log.begin(self.server.listens_to_changes(), recording);
    }

    /// Feeds the unit, in a transaction if it is more than one command; whether it was any.
    #[inline]
    pub(super) fn feed_unit(&mut self) -> bool {
        if self.db.change_log.unit().is_empty() {
            return false;
        }
        let (timestamp_s, feeds_stream) = (self.timestamp_s(), self.feeds_stream());
        let stream = feeds_stream.then_some(&mut self.replication);
        for mut sink in sinks(&mut self.disk, stream, timestamp_s) {
            sink.append_unit(self.db.change_log.unit());
        }
        self.db.change_log.end_unit();
        self.after_feeding();
        true
    }

    /// Feeds the command at hand, which is a unit of its own and encoded as it came.
    #[inline]
    pub(super) fn feed_lone_command(&mut self, command: &[u8]) {
        self.db.change_log.end_lone_command(command);
        let (timestamp_s, feeds_stream) = (self.timestamp_s(), self.feeds_stream());
        let (db_index, stream) = (self.db.selected(), feeds_stream.then_some(&mut self.replication));
        for mut sink in sinks(&mut self.disk, stream, timestamp_s) {
            sink.append(db_index, command);
        }
        self.after_feeding();
    }

    /// Feeds what expiry and eviction have removed on their own account, each by itself.
    pub(super) fn feed_removals(&mut self) {
        if !self.db.change_log.is_recording() {
            return self.db.change_log.audit.forget_unpropagated();
        }
        let (timestamp_s, feeds_stream) = (self.timestamp_s(), self.feeds_stream());
        let stream = feeds_stream.then_some(&mut self.replication);
        for mut sink in sinks(&mut self.disk, stream, timestamp_s) {
            self.db.change_log.removals().for_each(|(db_index, command)| sink.append(db_index, command));
        }
        self.db.change_log.end_removals();
        self.after_feeding();
    }
}
