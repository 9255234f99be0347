//! The feed of changes: what has been done here goes, encoded once, to all that keep a copy of the data by doing the
//! same. What a command, transaction or script has done goes as one unit, when it has ended; what expiry and eviction
//! remove goes by itself.
//!
//! Whoever keeps a copy is a [`Sink`], and [`sinks`] is the one list of them: while it is empty, nothing is recorded.

use super::Executor;
use super::persistence::Disk;
use crate::persist::aof::Appender;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Takes what is fed, in order. Each selects databases in its own way: one may have begun later than another.
enum Sink<'a> {
    /// Notes the time, if that is wanted, where a second has passed.
    AppendOnlyFile { appender: &'a mut Appender, timestamp_s: Option<i64> },
}

/// All that keep a copy.
#[inline]
fn sinks(disk: &mut Disk, timestamp_s: Option<i64>) -> impl Iterator<Item = Sink<'_>> {
    let file = disk.aof.as_mut().map(|aof| Sink::AppendOnlyFile { appender: &mut aof.appender, timestamp_s });
    file.into_iter()
}

impl Sink<'_> {
    /// Takes in a command, encoded, that is about one database.
    #[inline]
    fn append(&mut self, db_index: usize, command: &[u8]) {
        match self {
            Sink::AppendOnlyFile { appender, timestamp_s } => appender.add(db_index, *timestamp_s, command),
        }
    }
}

impl Executor {
    /// What follows changes data: sees to it that its changes are noted for those who are there to hear of them.
    /// `replayed`: it comes from the very copy that it would be fed to.
    #[inline]
    pub(super) fn begin_changes(&mut self, replayed: bool) {
        let recording = !replayed && sinks(&mut self.disk, None).next().is_some();
        self.db.change_log.begin(self.server.listens_to_changes(), recording);
    }

    /// Feeds the unit, in a transaction if it is more than one command; whether it was any.
    #[inline]
    pub(super) fn feed_unit(&mut self) -> bool {
        let timestamp_s = self.timestamp_s();
        let unit = self.db.change_log.unit();
        let Some((first_db_index, _)) = unit.from(0).next() else { return false };
        let is_transaction = unit.len() > 1;
        for mut sink in sinks(&mut self.disk, timestamp_s) {
            if is_transaction {
                sink.append(first_db_index, MULTI);
            }
            unit.from(0).for_each(|(db_index, command)| sink.append(db_index, command));
            if is_transaction {
                sink.append(first_db_index, EXEC);
            }
        }
        self.db.change_log.end_unit();
        true
    }

    /// Feeds what expiry and eviction have removed on their own account, each by itself.
    pub(super) fn feed_removals(&mut self) {
        if !self.db.change_log.is_recording() {
            return self.db.change_log.audit.forget_unpropagated();
        }
        let timestamp_s = self.timestamp_s();
        for mut sink in sinks(&mut self.disk, timestamp_s) {
            self.db.change_log.removals().for_each(|(db_index, command)| sink.append(db_index, command));
        }
        self.db.change_log.end_removals();
    }
}
