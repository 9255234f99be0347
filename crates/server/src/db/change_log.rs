//! The changes that commands, expiry and eviction have made to keys, in order. Only the engine's effects read it, after
//! every command: they feed watchers, tracking, notifications and blocked clients from it.

use super::Key;
use super::audit::Audit;
use super::encoded_commands::{EncodedCommands, Receivers};
use crate::config::EventClasses;

/// One entry of the change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key's value changed, was created or removed: for WATCH and tracking; `event` is announced.
    Key {
        /// Database of the key.
        db_index: usize,
        /// Class of the event.
        class: EventClasses,
        /// Name of the event.
        event: &'static str,
        /// The key.
        key: Box<[u8]>,
    },
    /// An event only: nothing changed (`keymiss`), or the change was recorded with another event already.
    Event {
        /// Database of the key.
        db_index: usize,
        /// Class of the event.
        class: EventClasses,
        /// Name of the event.
        event: &'static str,
        /// The key.
        key: Box<[u8]>,
    },
    /// The key's value changed without an event of its own.
    Touched {
        /// Database of the key.
        db_index: usize,
        /// The key.
        key: Box<[u8]>,
    },
    /// Clients blocked on the key must be tried again, though its value has not changed.
    Ready {
        /// Database of the key.
        db_index: usize,
        /// The key.
        key: Box<[u8]>,
    },
    /// Entries of a stream became pending in a group, or their delivery time was set so that a client waiting for them
    /// may be due earlier.
    Pending {
        /// Database of the stream.
        db_index: usize,
        /// The stream.
        key: Box<[u8]>,
        /// The consumer group.
        group: Box<[u8]>,
        /// Whether idle times were increased.
        may_be_due_earlier: bool,
    },
    /// A database was emptied.
    Flushed {
        /// The database; `None`: all of them.
        db_index: Option<usize>,
    },
    /// Two databases exchanged their keys (SWAPDB).
    Swapped {
        /// One database.
        a: usize,
        /// The other one.
        b: usize,
    },
}

/// Changes are kept only while something listens, and commands only while there are copies to feed; the count of changes
/// is always kept.
#[derive(Default)]
pub struct ChangeLog {
    /// There are watchers, tracking clients, blocked clients or notifications.
    listening: bool,
    /// Notifications of misses are enabled.
    pub listening_to_misses: bool,
    changes: Vec<Change>,
    /// The hash of the key whose collection the command has emptied, so that the key was removed: its removal is recorded
    /// with the change, which the handler has yet to record.
    emptied: Option<u64>,
    /// There is a replica or an append-only file to feed.
    recording: bool,
    /// There are replicas; set by the engine.
    pub feeds_replicas: bool,
    /// Commands to propagate of the current command, transaction or script so far.
    unit: EncodedCommands,
    /// Number of them that belong to ended commands.
    ended: usize,
    /// The current command itself is not propagated: the noted commands stand for it.
    replaced: bool,
    /// `dirty` when the current command began.
    dirty_at_begin: u64,
    /// Number of changes by commands since the server started, without those of expiry and eviction; its difference is
    /// INFO's `rdb_changes_since_last_save`.
    pub dirty: u64,
    /// Compares the recorded and propagated changes with the actual ones.
    pub audit: Audit,
}

impl ChangeLog {
    /// Begins a command, an expire cycle or eviction.
    #[inline]
    pub fn begin(&mut self, listening: bool, recording: bool) {
        (self.listening, self.recording) = (listening, recording);
        self.begin_next();
    }

    /// Begins the next command with the same listeners.
    #[inline]
    pub fn begin_next(&mut self) {
        self.dirty_at_begin = self.dirty;
        self.emptied = None;
    }

    /// Whether changes are noted for listeners.
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Whether changes are noted for propagation. Otherwise notes are dropped: callers that would have to compute one
    /// first ask this.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    /// Records `count` changes for `dirty`.
    #[inline]
    pub(super) fn changed(
        &mut self,
        db_index: usize,
        class: EventClasses,
        event: &'static str,
        key: Key<'_>,
        count: u64,
    ) {
        self.dirty += count;
        self.audit.key_recorded(db_index, key.bytes());
        if self.listening {
            self.changes.push(Change::Key { db_index, class, event, key: key.bytes().into() });
        }
        if self.take_emptied(key) {
            // The key's removal is part of the change, which counts once.
            self.event(db_index, EventClasses::GENERIC, "del", key.bytes());
        }
    }

    /// Notes that a change has emptied this key's collection, and the key was removed.
    #[inline]
    pub(super) fn emptied(&mut self, key: Key<'_>) {
        self.emptied = Some(key.hash());
    }

    /// Returns whether a change that is yet to be recorded has emptied this key's collection; clears the note.
    #[inline]
    pub(super) fn take_emptied(&mut self, key: Key<'_>) -> bool {
        self.emptied.take_if(|hash| *hash == key.hash()).is_some()
    }

    /// Announces an event without a change.
    #[inline]
    pub fn event(&mut self, db_index: usize, class: EventClasses, event: &'static str, key: &[u8]) {
        if self.listening {
            self.changes.push(Change::Event { db_index, class, event, key: key.into() });
        }
    }

    /// Records a change without an event; it adds `count` to `dirty`.
    pub(super) fn touched(&mut self, db_index: usize, key: &[u8], count: u64) {
        self.dirty += count;
        self.audit.key_recorded(db_index, key);
        if self.listening {
            self.changes.push(Change::Touched { db_index, key: key.into() });
        }
    }

    /// Makes clients blocked on the key try again, without a change for watchers.
    pub fn ready(&mut self, db_index: usize, key: &[u8]) {
        if self.listening {
            self.changes.push(Change::Ready { db_index, key: key.into() });
        }
    }

    /// Records that entries of a stream became pending in a group; see [`Change::Pending`].
    pub fn became_pending(&mut self, db_index: usize, key: &[u8], group: &[u8], may_be_due_earlier: bool) {
        if self.listening {
            let (key, group) = (key.into(), group.into());
            self.changes.push(Change::Pending { db_index, key, group, may_be_due_earlier });
        }
    }

    /// Records changes that WATCH and tracking do not report: of a stream's groups, of libraries. Save points count them,
    /// and they are propagated.
    pub fn add_dirty(&mut self, n: u64) {
        self.dirty += n;
    }

    #[inline]
    pub(super) fn missed(&mut self, db_index: usize, key: &[u8]) {
        if self.listening_to_misses {
            self.event(db_index, EventClasses::KEY_MISS, "keymiss", key);
        }
    }

    /// Records that a database was emptied; `None`: all databases.
    pub fn flushed(&mut self, db_index: Option<usize>) {
        self.audit.database_recorded(db_index);
        self.changes.push(Change::Flushed { db_index });
    }

    /// Records that two databases were swapped.
    pub fn swapped(&mut self, a: usize, b: usize) {
        self.dirty += 1;
        self.audit.database_recorded(Some(a));
        self.audit.database_recorded(Some(b));
        self.changes.push(Change::Swapped { a, b });
    }

    /// Notes a command for a removal by expiry or eviction, beside the current command.
    pub(super) fn propagate_removal<'a>(
        &mut self,
        db_index: usize,
        head: &[&[u8]],
        rest: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if self.recording {
            self.unit.push(db_index, true, head, rest);
        }
    }

    /// Notes a command that, with others so noted, is propagated instead of the current one.
    pub(super) fn propagate_as<'a>(
        &mut self,
        db_index: usize,
        head: &[&[u8]],
        rest: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if self.recording {
            self.replaced = true;
            self.unit.push(db_index, false, head, rest);
        }
    }

    /// Notes the current command itself.
    #[inline]
    pub fn propagate_verbatim<'a>(
        &mut self,
        db_index: usize,
        arguments: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        self.unit.push(db_index, false, &[], arguments);
    }

    /// Notes the current command itself for replicas: it changes no data, but has to run there too.
    pub fn propagate_to_replicas<'a>(
        &mut self,
        db_index: usize,
        arguments: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if self.recording && self.feeds_replicas {
            self.replaced = true;
            self.unit.push(db_index, false, &[], arguments);
            self.unit.restrict(self.unit.len() - 1, Receivers::REPLICAS);
        }
    }

    /// Notes the current command itself, although it changes no data: copies of the data have to run it too.
    pub fn propagate_as_received<'a>(
        &mut self,
        db_index: usize,
        arguments: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if self.recording {
            self.replaced = true;
            self.unit.push(db_index, false, &[], arguments);
        }
    }

    /// Propagates only the noted commands instead of the current one.
    pub fn not_verbatim(&mut self) {
        self.replaced = self.recording;
    }

    /// Returns whether the current command has changed data.
    pub fn has_changed_data(&self) -> bool {
        self.dirty > self.dirty_at_begin
    }

    /// Whether the current command has changed something and no noted command stands for it.
    #[inline]
    pub fn is_to_be_propagated(&self) -> bool {
        !self.replaced && self.dirty > self.dirty_at_begin
    }

    /// Ends the current command: its noted commands join the unit, for `receivers`.
    #[inline]
    pub fn end_command(&mut self, receivers: Receivers) {
        self.audit.check_propagated(&self.unit, self.ended);
        if receivers != Receivers::ALL {
            self.unit.restrict(self.ended, receivers);
        }
        (self.ended, self.replaced) = (self.unit.len(), false);
    }

    /// Ends the current command, whose encoded form is fed to replicas and file directly. It must have noted nothing
    /// else, and be a unit of its own.
    #[inline]
    pub fn end_lone_command(&mut self, command: &[u8]) {
        debug_assert!(self.unit.is_empty() && !self.replaced);
        self.audit.check_encoded(command);
    }

    /// As [`Self::end_command`], for a command that is not propagated: only removals by expiry and eviction are.
    pub fn end_unpropagated(&mut self) {
        self.audit.forget_unpropagated();
        self.unit.keep_of_its_own(self.ended);
        (self.ended, self.replaced) = (self.unit.len(), false);
    }

    /// Commands to propagate of the current command, transaction or script.
    #[inline]
    pub fn unit(&self) -> &EncodedCommands {
        &self.unit
    }

    /// Drops the unit: it has been fed to replicas and file, or they have its contents in another way.
    #[inline]
    pub fn end_unit(&mut self) {
        self.unit.truncate(0);
        self.ended = 0;
    }

    /// Marks the unit's commands so far as written to the append-only file already, in another way.
    pub fn leave_unit_to_replicas(&mut self) {
        self.unit.leave_to_replicas();
    }

    /// Removals that expiry and eviction have noted between commands, each with its database.
    pub fn removals(&mut self) -> impl Iterator<Item = (usize, &[u8])> {
        self.audit.check_propagated(&self.unit, self.ended);
        self.unit.from(self.ended)
    }

    /// Drops the removals, which have been fed. Commands of a suspended script stay.
    pub fn end_removals(&mut self) {
        self.unit.truncate(self.ended);
    }

    /// Whether no change is recorded.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether changes have been recorded since the last [`ChangeLog::take`]. A change that is not recorded is a bug in a
    /// handler.
    #[inline]
    pub fn has_changes(&mut self) -> bool {
        self.audit.check_recorded();
        !self.changes.is_empty()
    }

    /// Takes the changes recorded since the last call.
    pub fn take(&mut self) -> Vec<Change> {
        self.audit.check_recorded();
        std::mem::take(&mut self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_replicas_alone_is_encoded_only_for_them() {
        let mut log = ChangeLog::default();
        for feeds_replicas in [false, true] {
            log.feeds_replicas = feeds_replicas;
            log.begin(false, true);
            log.propagate_to_replicas(0, [&b"PUBLISH"[..], b"channel", b"message"].into_iter());
            assert_eq!(log.unit().is_empty(), !feeds_replicas);
        }
    }
}
