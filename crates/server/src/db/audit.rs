//! What debug builds watch: that whatever changes a value is said in the change log, and that whatever is said is
//! propagated.
//!
//! A change is noted with its key where it happens: of values stored, removed or given an expiry, always; of values
//! changed in place, by comparing their signatures. Two questions are asked of the notes:
//!
//! 1. When effects are read: has every key whose content changed been said to have changed?
//! 2. When a command's effects are taken to be propagated: does every key that changed, be it in what nobody that watches it
//!    hears of, stand among the words that are written?
//!
//! Errors are to one side: what is not noted is not asked about. Values too large to be read twice are not compared, and
//! saying or writing what has not changed is allowed. In release builds nothing is noted.

use super::change_log::Effect;
use super::object::{Object, StringValue};
use super::stream::{Stream, StreamId};
use super::{Hash, Set};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

/// Collections of more elements are not compared, nor values of more bytes.
const ELEMENTS_MAX: usize = 64;
const BYTES_MAX: usize = 4096;
/// Of a command that changes more keys at once, no more are watched.
const NOTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Database(usize),
    Key(usize, Box<[u8]>),
}

#[derive(Debug, Default)]
pub struct Audit {
    unsaid: Vec<Place>,
    unpropagated: Vec<Place>,
}

/// Of a value as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// What reads of the value answer, and when its fields expire.
    content: u64,
    /// What else a copy must have: a stream's counters and groups.
    rest: u64,
}

impl Audit {
    #[inline]
    pub(super) fn key_changed(&mut self, db_index: usize, key: &[u8]) {
        if cfg!(debug_assertions) {
            note(&mut self.unsaid, Place::Key(db_index, key.into()));
            note(&mut self.unpropagated, Place::Key(db_index, key.into()));
        }
    }

    #[inline]
    pub(super) fn database_changed(&mut self, db_index: usize) {
        if cfg!(debug_assertions) {
            note(&mut self.unsaid, Place::Database(db_index));
            note(&mut self.unpropagated, Place::Database(db_index));
        }
    }

    /// Notes what became of a value that may have been changed in place.
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
            self.key_changed(db_index, key);
        } else if before.rest != after.rest {
            note(&mut self.unpropagated, Place::Key(db_index, key.into()));
        }
    }

    #[inline]
    pub(super) fn key_said(&mut self, db_index: usize, key: &[u8]) {
        if cfg!(debug_assertions) {
            let is_it = |index: usize, changed: &[u8]| index == db_index && changed == key;
            self.unsaid
                .retain(|place| !matches!(place, Place::Key(index, changed) if is_it(*index, changed)));
        }
    }

    /// With all keys in it. `None`: all databases.
    #[inline]
    pub(super) fn database_said(&mut self, db_index: Option<usize>) {
        if cfg!(debug_assertions) {
            self.unsaid.retain(|place| {
                let (Place::Database(index) | Place::Key(index, _)) = place;
                db_index.is_some_and(|db_index| db_index != *index)
            });
        }
    }

    /// Panics if a change has not been said.
    #[inline]
    pub(super) fn check_said(&self) {
        if let Some(place) = self.unsaid.first().filter(|_| cfg!(debug_assertions)) {
            panic!("{place} was changed, and nobody has said so");
        }
    }

    /// Panics if a change has not been said, or is in none of the effects that stand for it.
    #[inline]
    pub fn check_propagated(&mut self, effects: &[Effect]) {
        self.check_said();
        if cfg!(debug_assertions) && !self.unpropagated.is_empty() {
            let words: HashSet<&[u8]> =
                effects.iter().flat_map(|effect| &effect.arguments).map(Vec::as_slice).collect();
            for place in self.unpropagated.drain(..) {
                let is_propagated = match &place {
                    Place::Database(_) => !effects.is_empty(),
                    Place::Key(_, key) => words.contains(&**key),
                };
                assert!(is_propagated, "{place} was changed, and what is propagated is {effects:?}");
            }
        }
    }

    /// What has changed so far is not to be propagated.
    #[inline]
    pub fn forget_unpropagated(&mut self) {
        if cfg!(debug_assertions) {
            self.unpropagated.clear();
        }
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

/// `None` if the value is too large to be read for this, and in release builds.
#[inline]
pub(super) fn signature(object: &Object) -> Option<Signature> {
    if cfg!(debug_assertions) { small_signature(object) } else { None }
}

fn small_signature(object: &Object) -> Option<Signature> {
    let elements = match object {
        Object::String(text) => text.len() / BYTES_MAX,
        Object::Hash(hash) => hash.len(),
        Object::Set(set) => set.len(),
        Object::List(list) => list.len(),
        Object::SortedSet(set) => set.len(),
        Object::Stream(stream) => stream.len() as usize + elements_of_groups(stream),
    };
    if elements > ELEMENTS_MAX || object.memory_bytes() > 4 * BYTES_MAX {
        return None;
    }
    let content = match object {
        Object::String(text) => of_texts(&[StringValue::Bytes(text)]),
        Object::Hash(hash) => of_hash(hash),
        Object::Set(set) => of_set(set),
        Object::List(list) => {
            let mut all = DefaultHasher::new();
            list.for_each(0, list.len(), &mut |element| all.write_u64(of_texts(&[element])));
            all.finish()
        }
        Object::SortedSet(set) => {
            let mut sum = 0u64;
            set.for_range(0..set.len(), false, &mut |member, score| {
                let score = score.to_bits().to_ne_bytes();
                sum = sum.wrapping_add(of_texts(&[member, StringValue::Bytes(&score)]));
                true
            });
            sum
        }
        Object::Stream(stream) => of_entries(stream),
    };
    let rest = if let Object::Stream(stream) = object { of_groups(stream) } else { 0 };
    Some(Signature { content, rest })
}

fn of_texts(texts: &[StringValue<'_>]) -> u64 {
    let mut all = DefaultHasher::new();
    for text in texts {
        text.with_bytes(|bytes| {
            all.write_usize(bytes.len());
            all.write(bytes);
        });
    }
    all.finish()
}

fn of_hash(hash: &Hash) -> u64 {
    let mut sum = 0u64;
    hash.for_each(i64::MIN, &mut |field, value| {
        let expiry_ms = field.with_bytes(|name| hash.get_with_expiry(name, i64::MIN)).and_then(|(_, at)| at);
        let expiry = expiry_ms.unwrap_or(i64::MAX).to_ne_bytes();
        sum = sum.wrapping_add(of_texts(&[field, value, StringValue::Bytes(&expiry)]));
    });
    sum
}

fn of_set(set: &Set) -> u64 {
    let mut sum = 0u64;
    set.for_each(&mut |member| sum = sum.wrapping_add(of_texts(&[member])));
    sum
}

fn of_entries(stream: &Stream) -> u64 {
    let mut all = DefaultHasher::new();
    stream.for_each(&mut |id, fields| {
        all.write(&id.to_key());
        fields.for_each(|(field, value)| all.write_u64(of_texts(&[field, value])));
    });
    all.finish()
}

/// The counters, and who has read what; not when consumers were last seen.
fn of_groups(stream: &Stream) -> u64 {
    let mut all = DefaultHasher::new();
    all.write(format!("{:?}", stream.state()).as_bytes());
    for (name, group) in stream.groups() {
        all.write_u64(of_texts(&[StringValue::Bytes(name)]));
        all.write(format!("{:?}", (group.last_id, group.entries_read)).as_bytes());
        for (id, pending) in group.pending_from(StreamId::MIN) {
            let consumer = group.consumer(pending.consumer).name();
            all.write(
                format!("{id} {consumer:?} {} {}", pending.delivered_ms, pending.deliveries).as_bytes(),
            );
        }
        let mut names: Vec<&[u8]> = group.consumers().map(|(_, consumer)| consumer.name()).collect();
        names.sort_unstable();
        names.iter().for_each(|name| all.write_u64(of_texts(&[StringValue::Bytes(name)])));
    }
    all.finish()
}

fn elements_of_groups(stream: &Stream) -> usize {
    stream.groups().map(|(_, group)| 1 + group.pending_len() + group.consumer_count()).sum()
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests;
