//! Checks in debug builds: every change of a value is recorded in the change log, every recorded change is propagated,
//! and a command accesses only the keys that its table row finds among its arguments, because permissions are checked on
//! those.
//!
//! A change is noted with its key where it happens: for values stored, removed or given an expiry, always; for values
//! changed in place, by comparing their signatures. Two checks use the notes:
//!
//! 1. When effects are read: every key whose content changed has been recorded.
//! 2. When a command's effects are propagated: every changed key, even where only parts changed that its watchers do not
//!    depend on, is among the arguments written.
//!
//! A third check runs when a command looks keys up and changes them:
//!
//! 3. The key is one that the command's row finds, and if it changes, the row says so of this key.
//!
//! The checks err on one side: what is not noted is not checked. Values too large to be read twice are not compared, and
//! recording or writing unchanged keys is allowed. In release builds nothing is noted.

use super::Db;
use super::encoded_commands::EncodedCommands;
use super::object::{Object, StringValue, by_type};
use super::value_type::ValueType;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};
use wire::aof::{Item, Reader};

/// Collections of more elements, or of more memory, are not compared.
const ELEMENTS_MAX: usize = 64;
const MEMORY_BYTES_MAX: usize = 16 * 1024;
/// Number of changed keys watched for one command.
const NOTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Database(usize),
    Key(usize, Box<[u8]>),
}

/// Notes of changes not checked yet, and the keys that may be accessed.
#[derive(Debug, Default)]
pub struct Audit {
    unrecorded: Vec<Place>,
    unpropagated: Vec<Place>,
    /// `None` while no command runs, or one that may touch any key.
    named: Option<NamedKeys>,
}

/// The keys that a command finds among its arguments.
#[derive(Clone, Debug)]
pub struct NamedKeys {
    /// The command's name.
    pub command: &'static str,
    /// Its keys.
    pub keys: Vec<NamedKey>,
    /// The command reads keys derived from values it reads (SORT BY).
    pub reads_others: bool,
}

/// A key among a command's arguments.
#[derive(Clone, Debug)]
pub struct NamedKey {
    /// The key.
    pub key: Box<[u8]>,
    /// Whether the row says that the command may change it.
    pub changes: bool,
}

/// Signature of a value's current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What reads of the value reply, and when its fields expire.
    pub content: u64,
    /// State that a copy must also have: a stream's counters and groups.
    pub rest: u64,
}

impl Signature {
    /// Signature of a value without other state.
    pub fn of_content(content: u64) -> Self {
        Signature { content, rest: 0 }
    }
}

impl Audit {
    #[inline]
    pub(super) fn key_changed(&mut self, db_index: usize, key: &[u8]) {
        if cfg!(debug_assertions) {
            note(&mut self.unrecorded, Place::Key(db_index, key.into()));
            note(&mut self.unpropagated, Place::Key(db_index, key.into()));
        }
    }

    #[inline]
    pub(super) fn database_changed(&mut self, db_index: usize) {
        if cfg!(debug_assertions) {
            note(&mut self.unrecorded, Place::Database(db_index));
            note(&mut self.unpropagated, Place::Database(db_index));
        }
    }

    /// Notes the change of a value that may have been changed in place.
    #[inline]
    pub(super) fn compare(
        &mut self,
        db_index: usize,
        key: &[u8],
        before: Option<Signature>,
        after: Option<Signature>,
    ) {
        let (Some(before), Some(after)) = (before, after) else { return };
        if before.content != after.content {
            self.check_named_changed(key);
            self.key_changed(db_index, key);
        } else if before.rest != after.rest {
            note(&mut self.unpropagated, Place::Key(db_index, key.into()));
        }
    }

    /// Panics if the current command does not name the key.
    #[inline]
    pub(super) fn check_named(&self, key: &[u8]) {
        if cfg!(debug_assertions)
            && let Some(named) = &self.named
        {
            let is_named = named.reads_others || named.keys.iter().any(|named| *named.key == *key);
            assert!(is_named, "{} looks at '{}', which is not among its keys", named.command, shown(key));
        }
    }

    /// Panics if the current command's row does not say that it changes the key.
    #[inline]
    pub(super) fn check_named_changed(&self, key: &[u8]) {
        if cfg!(debug_assertions)
            && let Some(named) = &self.named
        {
            let is_named = named.keys.iter().any(|named| named.changes && *named.key == *key);
            assert!(is_named, "{} changes '{}', and its row does not say so", named.command, shown(key));
        }
    }

    #[inline]
    pub(super) fn key_recorded(&mut self, db_index: usize, key: &[u8]) {
        if cfg!(debug_assertions) {
            let is_it = |index: usize, changed: &[u8]| index == db_index && changed == key;
            self.unrecorded
                .retain(|place| !matches!(place, Place::Key(index, changed) if is_it(*index, changed)));
        }
    }

    /// Notes that the current command is propagated without the name of this key, which it removed.
    #[inline]
    pub(super) fn propagated_without_name(&mut self, db_index: usize, key: &[u8]) {
        if cfg!(debug_assertions) {
            let is_it = |place: &Place| matches!(place, Place::Key(index, changed) if *index == db_index && **changed == *key);
            self.unpropagated.retain(|place| !is_it(place));
            note(&mut self.unpropagated, Place::Database(db_index));
        }
    }

    /// Notes a recorded change of a whole database. `None`: of all.
    #[inline]
    pub(super) fn database_recorded(&mut self, db_index: Option<usize>) {
        if cfg!(debug_assertions) {
            self.unrecorded.retain(|place| {
                let (Place::Database(index) | Place::Key(index, _)) = place;
                db_index.is_some_and(|db_index| db_index != *index)
            });
        }
    }

    /// Panics if a change has not been recorded.
    #[inline]
    pub(super) fn check_recorded(&self) {
        if let Some(place) = self.unrecorded.first().filter(|_| cfg!(debug_assertions)) {
            panic!("{place} was changed, but the change is not recorded");
        }
    }

    /// Panics if a change has not been recorded, or is in none of the commands from `first` on.
    #[inline]
    pub(super) fn check_propagated(&mut self, commands: &EncodedCommands, first: usize) {
        self.check_recorded();
        if cfg!(debug_assertions) && !self.unpropagated.is_empty() {
            self.check_words(&commands.from(first).map(|(_, bytes)| words_of(bytes)).collect::<Vec<_>>());
        }
    }

    /// As [`Self::check_propagated`], for a single command.
    #[inline]
    pub(super) fn check_encoded(&mut self, command: &[u8]) {
        self.check_recorded();
        if cfg!(debug_assertions) && !self.unpropagated.is_empty() {
            self.check_words(&[words_of(command)]);
        }
    }

    fn check_words(&mut self, commands: &[Vec<Vec<u8>>]) {
        let words: HashSet<&[u8]> = commands.iter().flatten().map(Vec::as_slice).collect();
        for place in self.unpropagated.drain(..) {
            let is_propagated = match &place {
                Place::Database(_) => !commands.is_empty(),
                Place::Key(_, key) => words.contains(&**key),
            };
            let shown =
                || commands.iter().map(|words| String::from_utf8_lossy(&words.join(&b' ')).into_owned());
            assert!(
                is_propagated,
                "{place} was changed, and what is propagated is {:?}",
                shown().collect::<Vec<_>>()
            );
        }
    }

    /// Drops the notes of changes that are not propagated.
    #[inline]
    pub fn forget_unpropagated(&mut self) {
        if cfg!(debug_assertions) {
            self.unpropagated.clear();
        }
    }
}

fn shown(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

impl Db {
    /// Restricts access to these keys until [`Db::end`]; with `None` any key is allowed. Not checked in release
    /// builds.
    #[inline]
    pub fn name_keys(&mut self, named: impl FnOnce() -> Option<NamedKeys>) {
        if cfg!(debug_assertions) {
            self.change_log.audit.named = named();
        }
    }

    #[inline]
    pub(super) fn forget_named_keys(&mut self) {
        if cfg!(debug_assertions) {
            self.change_log.audit.named = None;
        }
    }
}

fn words_of(command: &[u8]) -> Vec<Vec<u8>> {
    match Reader::new(command, 0).read() {
        Ok(Item::Command(arguments)) => arguments,
        other => panic!("what was encoded is read as {other:?}"),
    }
}

fn note(notes: &mut Vec<Place>, place: Place) {
    if notes.len() < NOTES_MAX {
        notes.push(place);
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Database(index) => write!(f, "database {index}"),
            Place::Key(index, key) => {
                write!(f, "the value of '{}' in database {index}", String::from_utf8_lossy(key))
            }
        }
    }
}

/// The value's signature. `None` if the value is too large to be read for this, and in release builds.
#[inline]
pub(super) fn signature(object: &Object) -> Option<Signature> {
    if cfg!(debug_assertions) { small_signature(object) } else { None }
}

fn small_signature(object: &Object) -> Option<Signature> {
    let elements = by_type!(object, value => ValueType::signature_elements(value));
    if elements > ELEMENTS_MAX || object.memory_bytes() > MEMORY_BYTES_MAX {
        return None;
    }
    Some(by_type!(object, value => ValueType::signature(value)))
}

/// Hash of the texts in this order.
pub(super) fn hash_of(texts: &[StringValue<'_>]) -> u64 {
    let mut all = DefaultHasher::new();
    for text in texts {
        text.with_bytes(|bytes| {
            all.write_usize(bytes.len());
            all.write(bytes);
        });
    }
    all.finish()
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests;
