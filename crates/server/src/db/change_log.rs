//! What commands, expiry and eviction have done to keys, in order. The engine's effects read it after every
//! command and feed watchers, trackers, notifications and blocked clients from it: nobody else does.

use super::audit::Audit;
use super::encoded_commands::{EncodedCommands, Receivers};
use crate::config::EventClasses;

/// One entry of the change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key's value changed (or it came or went): watchers and trackers care; `event` is announced.
    Key {
        db_index: usize,
        class: EventClasses,
        event: &'static str,
        key: Box<[u8]>,
    },
    /// Only announced: nothing changed (`keymiss`), or the change was recorded with another event already.
    Event {
        db_index: usize,
        class: EventClasses,
        event: &'static str,
        key: Box<[u8]>,
    },
    /// The key's value changed without an event of its own.
    Touched {
        db_index: usize,
        key: Box<[u8]>,
    },
    /// Clients that wait for the key must look again, though its value has not changed.
    Ready {
        db_index: usize,
        key: Box<[u8]>,
    },
    /// Entries of a stream have come to be pending in a group; or it has been set for how long they have been, so that what
    /// waits for that may be due earlier.
    Pending {
        db_index: usize,
        key: Box<[u8]>,
        group: Box<[u8]>,
        may_be_due_earlier: bool,
    },
    /// A database was emptied; `None` is all of them.
    Flushed {
        db_index: Option<usize>,
    },
    Swapped {
        a: usize,
        b: usize,
    },
}

/// Entries are kept only while somebody listens, and commands for copies only while somebody keeps one; the count of
/// changes is kept always.
#[derive(Default)]
pub struct ChangeLog {
    /// Somebody watches, tracks, waits for keys, or has asked for notifications.
    listening: bool,
    /// Somebody has asked to hear of misses.
    pub listening_to_misses: bool,
    changes: Vec<Change>,
    /// Somebody keeps a copy of the data by doing what was done here.
    recording: bool,
    /// Replicas are among them: the engine says so.
    pub feeds_replicas: bool,
    /// What the command, transaction or script at hand has done so far, for those who keep a copy.
    unit: EncodedCommands,
    /// So many of them are of commands that have ended.
    ended: usize,
    /// The command at hand is not for them itself: what was noted stands for it.
    replaced: bool,
    /// `dirty` when the command at hand began.
    dirty_at_begin: u64,
    /// What commands have changed since the server started, and not what expiry and eviction have; its difference is INFO's
    /// `rdb_changes_since_last_save`.
    pub dirty: u64,
    /// Compares what is recorded, and propagated, with what has changed.
    pub audit: Audit,
}

impl ChangeLog {
    /// A command begins, or a search for what is expired, or eviction.
    #[inline]
    pub fn begin(&mut self, listening: bool, recording: bool) {
        (self.listening, self.recording) = (listening, recording);
        self.begin_next();
    }

    /// The next command of a pipeline begins, for the same listeners.
    #[inline]
    pub fn begin_next(&mut self) {
        self.dirty_at_begin = self.dirty;
    }

    /// Whether what is done is noted for those who keep a copy. What is noted otherwise comes to nothing: this is for
    /// those to ask who would have to work it out first.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    /// `count` of them, for those who count changes.
    #[inline]
    pub(super) fn changed(
        &mut self,
        db_index: usize,
        class: EventClasses,
        event: &'static str,
        key: &[u8],
        count: u64,
    ) {
        self.dirty += count;
        self.audit.key_recorded(db_index, key);
        if self.listening {
            self.changes.push(Change::Key { db_index, class, event, key: key.into() });
        }
    }

    /// Announces an event without a change.
    #[inline]
    pub fn event(&mut self, db_index: usize, class: EventClasses, event: &'static str, key: &[u8]) {
        if self.listening {
            self.changes.push(Change::Event { db_index, class, event, key: key.into() });
        }
    }

    /// A change that has no event; `count` of them, for those who count changes.
    pub(super) fn touched(&mut self, db_index: usize, key: &[u8], count: u64) {
        self.dirty += count;
        self.audit.key_recorded(db_index, key);
        if self.listening {
            self.changes.push(Change::Touched { db_index, key: key.into() });
        }
    }

    /// Makes clients that wait for the key look again, without a change that watchers would care about.
    pub fn ready(&mut self, db_index: usize, key: &[u8]) {
        if self.listening {
            self.changes.push(Change::Ready { db_index, key: key.into() });
        }
    }

    /// Entries of a stream have come to be pending in a group; see [`Change::Pending`].
    pub fn became_pending(&mut self, db_index: usize, key: &[u8], group: &[u8], may_be_due_earlier: bool) {
        if self.listening {
            let (key, group) = (key.into(), group.into());
            self.changes.push(Change::Pending { db_index, key, group, may_be_due_earlier });
        }
    }

    /// Records changes that nobody who watches a key hears of: of a stream's groups, of libraries. Save points count
    /// them, and who keeps a copy must have them.
    pub fn add_dirty(&mut self, n: u64) {
        self.dirty += n;
    }

    #[inline]
    pub(super) fn missed(&mut self, db_index: usize, key: &[u8]) {
        if self.listening_to_misses {
            self.event(db_index, EventClasses::KEY_MISS, "keymiss", key);
        }
    }

    /// `None`: all databases.
    pub fn flushed(&mut self, db_index: Option<usize>) {
        self.audit.database_recorded(db_index);
        self.changes.push(Change::Flushed { db_index });
    }

    pub fn swapped(&mut self, a: usize, b: usize) {
        self.dirty += 1;
        self.audit.database_recorded(Some(a));
        self.audit.database_recorded(Some(b));
        self.changes.push(Change::Swapped { a, b });
    }

    /// Notes what expiry or eviction does beside the command at hand.
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

    /// Notes a command that, with others so noted, stands for the one at hand.
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

    /// Notes the command at hand itself.
    #[inline]
    pub fn propagate_verbatim<'a>(
        &mut self,
        db_index: usize,
        arguments: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        self.unit.push(db_index, false, &[], arguments);
    }

    /// Notes the command at hand itself for replicas: it changes no data, and what it does is to happen there too.
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

    /// Nothing but what is noted stands for the command at hand.
    pub fn not_verbatim(&mut self) {
        self.replaced = self.recording;
    }

    /// Whether the command at hand has changed something, and nothing that was noted stands for it.
    #[inline]
    pub fn is_to_be_propagated(&self) -> bool {
        !self.replaced && self.dirty > self.dirty_at_begin
    }

    /// The command at hand has ended: what was noted is part of the unit, and goes to `receivers`.
    #[inline]
    pub fn end_command(&mut self, receivers: Receivers) {
        self.audit.check_propagated(&self.unit, self.ended);
        if receivers != Receivers::ALL {
            self.unit.restrict(self.ended, receivers);
        }
        (self.ended, self.replaced) = (self.unit.len(), false);
    }

    /// The command at hand has ended, and is fed to those who keep a copy as it is encoded here. It must have noted nothing
    /// else, and be a unit of its own.
    #[inline]
    pub fn end_lone_command(&mut self, command: &[u8]) {
        debug_assert!(self.unit.is_empty() && !self.replaced);
        self.audit.check_encoded(command);
    }

    /// As [`Self::end_command`], for one that may not say what it has done: only what others did counts.
    pub fn end_unpropagated(&mut self) {
        self.audit.forget_unpropagated();
        self.unit.keep_of_its_own(self.ended);
        (self.ended, self.replaced) = (self.unit.len(), false);
    }

    /// What the command, transaction or script at hand has done.
    #[inline]
    pub fn unit(&self) -> &EncodedCommands {
        &self.unit
    }

    /// The unit has been fed to those who keep a copy, or is in what they have got by another way.
    #[inline]
    pub fn end_unit(&mut self) {
        self.unit.truncate(0);
        self.ended = 0;
    }

    /// What the unit holds so far is in the append-only file already, by another way.
    pub fn leave_unit_to_replicas(&mut self) {
        self.unit.leave_to_replicas();
    }

    /// What expiry and eviction have noted between commands, each with its database.
    pub fn removals(&mut self) -> impl Iterator<Item = (usize, &[u8])> {
        self.audit.check_propagated(&self.unit, self.ended);
        self.unit.from(self.ended)
    }

    /// They have been fed to those who keep a copy. What a script that is put aside has done stays.
    pub fn end_removals(&mut self) {
        self.unit.truncate(self.ended);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether something has been recorded since it was taken last. A change that nobody has recorded is a bug in a handler.
    #[inline]
    pub fn has_changes(&mut self) -> bool {
        self.audit.check_recorded();
        !self.changes.is_empty()
    }

    /// Takes what has been recorded since the last time.
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
