//! What commands, expiry and eviction have done to keys, in order. The engine's effects read it after every
//! command and feed watchers, trackers, notifications and blocked clients from it: nobody else does.

use super::audit::Audit;
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
    /// Only announced: nothing changed (`keymiss`), or the change was said with another event already.
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
    /// A database was emptied; `None` is all of them.
    Flushed {
        db_index: Option<usize>,
    },
    Swapped {
        a: usize,
        b: usize,
    },
}

/// A command that does to a copy of the data what has been done here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub db_index: usize,
    pub arguments: Vec<Vec<u8>>,
    /// Expiry or eviction has done it, and no command: who may choose where a command's effects go has no say in it.
    pub of_its_own: bool,
}

/// What was noted while a command ran.
#[derive(Debug, Default)]
pub struct Noted {
    pub effects: Vec<Effect>,
    /// They stand for the command too.
    pub replaced: bool,
    /// Changes that the command has not made itself.
    pub dirty_of_its_own: u64,
}

/// Entries are kept only while somebody listens; the count of changes is kept always.
#[derive(Debug, Default)]
pub struct ChangeLog {
    /// Somebody watches, tracks, waits for keys, or has asked for notifications: the engine keeps this true.
    pub listening: bool,
    /// Somebody has asked to hear of misses.
    pub listening_to_misses: bool,
    changes: Vec<Change>,
    /// Somebody copies the data by its effects: the engine keeps this true.
    pub recording: bool,
    effects: Vec<Effect>,
    /// The command at hand is not an effect itself: those noted stand for it.
    replaced: bool,
    /// Changes among `dirty` that expiry and eviction have made, since effects were last taken.
    dirty_of_its_own: u64,
    /// Changes since the server started; its difference is INFO's `rdb_changes_since_last_save`.
    pub dirty: u64,
    /// Holds what is said, and propagated, against what has changed.
    pub audit: Audit,
}

impl ChangeLog {
    #[inline]
    pub fn changed(&mut self, db_index: usize, class: EventClasses, event: &'static str, key: &[u8]) {
        self.dirty += 1;
        self.audit.key_said(db_index, key);
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

    /// A change that has no event.
    pub fn touched(&mut self, db_index: usize, key: &[u8]) {
        self.dirty += 1;
        self.audit.key_said(db_index, key);
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

    /// Counts further elements changed by a change already said.
    pub fn add_dirty(&mut self, n: u64) {
        self.dirty += n;
    }

    /// `n` changes that have been said belong to others that were said with them, and do not count on their own.
    pub fn count_together(&mut self, n: u64) {
        self.dirty -= n;
    }

    #[inline]
    pub(super) fn missed(&mut self, db_index: usize, key: &[u8]) {
        if self.listening_to_misses {
            self.event(db_index, EventClasses::KEY_MISS, "keymiss", key);
        }
    }

    /// `None`: all databases.
    pub fn flushed(&mut self, db_index: Option<usize>) {
        self.audit.database_said(db_index);
        self.changes.push(Change::Flushed { db_index });
    }

    pub fn swapped(&mut self, a: usize, b: usize) {
        self.dirty += 1;
        self.audit.database_said(Some(a));
        self.audit.database_said(Some(b));
        self.changes.push(Change::Swapped { a, b });
    }

    /// Notes what expiry or eviction does beside the command at hand, and is going to say as one change.
    pub fn of_its_own(&mut self, db_index: usize, arguments: &[&[u8]]) {
        self.note(db_index, arguments, true);
        // Nobody takes this away while nothing is recorded.
        self.dirty_of_its_own += u64::from(self.recording);
    }

    /// Notes an effect that, with others so noted, stands for the command at hand.
    pub fn instead(&mut self, db_index: usize, arguments: &[&[u8]]) {
        self.replaced = self.recording;
        self.note(db_index, arguments, false);
    }

    fn note(&mut self, db_index: usize, arguments: &[&[u8]], of_its_own: bool) {
        if self.recording {
            let arguments = arguments.iter().map(|argument| argument.to_vec()).collect();
            self.effects.push(Effect { db_index, arguments, of_its_own });
        }
    }

    /// The command at hand has no effect but those noted.
    pub fn not_verbatim(&mut self) {
        self.replaced = self.recording;
    }

    /// Takes the effects noted.
    #[inline]
    pub fn take_effects(&mut self) -> Noted {
        Noted {
            effects: std::mem::take(&mut self.effects),
            replaced: std::mem::take(&mut self.replaced),
            dirty_of_its_own: std::mem::take(&mut self.dirty_of_its_own),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Takes what has been said since the last time. A change that nobody has said is a bug in a handler.
    #[inline]
    pub fn take(&mut self) -> Vec<Change> {
        self.audit.check_said();
        if self.changes.is_empty() { Vec::new() } else { std::mem::take(&mut self.changes) }
    }
}
