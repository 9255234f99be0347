//! Compressed strings, for keys whose policy asks for it (`compress-values`).
//!
//! ```text
//!   put ──> does the key's policy compress values? ──no──> plain
//!           has its family a dictionary? ──no──> plain, and kept as a sample
//!           does it look random, or did the last attempts fail? ──yes──> plain
//!           does it save a quarter of the key's memory? ──yes──> in the entry, marked as compressed
//!
//!   enough samples ──> a thread trains a dictionary ──> cron puts it to use, and walks all keys, a few at a time:
//!                                                       plain values and those of an older dictionary are stored anew
//! ```
//! A *family* is the keys of one rule. Values are decompressed where they are read ([`super::StringValue`]), so no other
//! code depends on compression; a value changed in place is stored plain, as a buffer that grows, and stays so until it
//! is stored anew. Files, payloads and replicas get plain values.
//!
//! Invariants:
//! 1. Each database counts its values by the slot of their dictionary ([`Counts`]), and a slot is emptied only when no
//!    database has any value of it.
//! 2. A family has at most two dictionaries, and gets a new one only when it has one or none.
//! 3. The executor never waits for training: one thread at a time trains, and cron polls it.

mod counts;
pub mod dictionary;
mod family;
mod training;
mod walk;

pub(super) use counts::Counts;

use super::object::{ObjectVariant, REFERRED_LEN_MIN};
use super::strings::EMBEDDED_LEN_MAX;
use super::strings::long_string::LongString;
use super::{Db, Object};
use dictionary::{Dictionaries, slot_of};
use family::{Attempt, Family};
use structures::key_table::{NewValue, inline_entry_bytes, object_entry_bytes};
use structures::size_class::size_class;
use training::Training;
use walk::Walk;

/// Shorter strings are stored plain: 64 bytes are one line, the least that a fetch loads.
pub const TEXT_LEN_MIN: usize = 64;
/// Longer strings are stored plain: replies refer to them instead of copying them.
pub const TEXT_LEN_MAX: usize = REFERRED_LEN_MIN - 1;
/// A compressed value is kept if the key then takes at most three quarters of its memory with the plain value.
const KEPT_PARTS: usize = 3;
const PARTS: usize = 4;

/// State of the families of all databases.
#[derive(Default)]
pub struct Compression {
    /// One family for each rule, whether or not the rule compresses.
    families: Vec<Family>,
    /// Families whose rule was removed while values are compressed with their dictionaries: the rule may come back.
    former: Vec<Family>,
    training: Option<Training>,
    walk: Walk,
    /// Buffer for the compressed value until it is stored.
    stored: Vec<u8>,
}

/// Figures of a rule's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressionFigures {
    /// Number of compressed values.
    pub values: u64,
    /// Total length of the compressed values before compression.
    pub plain_bytes: u64,
    /// Total length of the compressed values.
    pub stored_bytes: u64,
    /// Memory of the dictionaries.
    pub dictionary_bytes: u64,
    /// Number of dictionaries trained so far.
    pub version: u32,
    /// Values stored plain because too little was saved or expected.
    pub refused: u64,
}

/// A text about to be stored in the key's entry.
struct Offer<'a> {
    key_len: usize,
    text: &'a [u8],
    expires: bool,
    /// Tries to compress, whatever the last results.
    insists: bool,
}

impl Offer<'_> {
    /// Memory of the key with the text plain.
    fn plain_bytes(&self, is_inline: bool) -> usize {
        match is_inline {
            true => inline_entry_bytes::<Object>(self.key_len, self.text.len(), self.expires),
            false => object_entry_bytes::<Object>(self.key_len, self.expires) + size_class(self.text.len()),
        }
    }
}

/// The text of a value that may be stored compressed, and whether it is inline in the entry. Excludes strings that grow
/// in place, and short strings outside the entry, copies of such: OBJECT ENCODING distinguishes these.
#[inline]
fn text_of<'a>(value: &'a NewValue<'_, Object>) -> Option<(&'a [u8], bool)> {
    let (text, is_inline) = match value {
        NewValue::Inline(text) => (*text, true),
        NewValue::Object(object) => match LongString::of(object)? {
            LongString::Exact(text) if text.len() > EMBEDDED_LEN_MAX => (&text[..], false),
            _ => return None,
        },
        NewValue::Integer(_) | NewValue::Compressed(_) | NewValue::Embedded(_) => return None,
    };
    (TEXT_LEN_MIN..=TEXT_LEN_MAX).contains(&text.len()).then_some((text, is_inline))
}

impl Compression {
    /// State for new databases that are loaded with values of the same keys.
    pub(super) fn beside(&self) -> Compression {
        Compression { families: self.families.iter().map(Family::beside).collect(), ..Compression::default() }
    }

    /// Restarts a walk: databases that it has visited may have other indexes now.
    pub(super) fn databases_swapped(&mut self) {
        if self.walk.is_under_way() {
            self.walk.begin();
        }
    }

    /// Compresses a text to the beginning of `self.stored`; returns the compressed length if that is worth it.
    fn offer(
        &mut self,
        rule: usize,
        offer: &Offer<'_>,
        is_inline: bool,
        now_ms: i64,
        dictionaries: &Dictionaries,
    ) -> Option<usize> {
        let family = self.families.get_mut(rule)?;
        let Attempt::With(slot) = family.attempt(offer.text, offer.insists, now_ms) else { return None };
        let kept_bytes = offer.plain_bytes(is_inline) * KEPT_PARTS / PARTS;
        if self.stored.is_empty() {
            self.stored.resize(TEXT_LEN_MAX, 0);
        }
        let room = kept_bytes.saturating_sub(offer.key_len).min(TEXT_LEN_MAX);
        let stored = dictionaries.compress(slot, offer.text, &mut self.stored[..room]);
        let entry_bytes = |len| inline_entry_bytes::<Object>(offer.key_len, len, offer.expires);
        let stored = stored.filter(|len| entry_bytes(*len) <= kept_bytes);
        family.note(offer.text.len(), stored, offer.insists, now_ms);
        stored
    }
}

impl Db {
    /// The value to be stored at the key: compressed into `buffer` if the key's policy wants that and it is worth it.
    /// Rules are evaluated only for texts of a length that may be compressed.
    #[inline]
    pub(super) fn compressed<'v>(
        &mut self,
        key: &[u8],
        value: NewValue<'v, Object>,
        expires: bool,
        buffer: &'v mut Vec<u8>,
    ) -> NewValue<'v, Object> {
        if !self.policies.compress_any() {
            return value;
        }
        let Some((text, is_inline)) = text_of(&value) else { return value };
        let Some(rule) = self.policies.compressing(key) else { return value };
        let offer = Offer { key_len: key.len(), text, expires, insists: false };
        let Some(len) =
            self.compression.offer(rule, &offer, is_inline, self.turn.now_ms, &self.interned.dictionaries)
        else {
            return value;
        };
        *buffer = std::mem::take(&mut self.compression.stored);
        NewValue::Compressed(&buffer[..len])
    }

    /// Takes back the buffer lent by [`Db::compressed`], if any.
    #[inline]
    pub(super) fn take_back(&mut self, buffer: Vec<u8>) {
        if !buffer.is_empty() {
            self.compression.stored = buffer;
        }
    }

    /// Follows a change of the rules.
    pub fn follow_policies(&mut self) {
        let compression = &mut self.compression;
        let mut before = std::mem::take(&mut compression.families);
        before.append(&mut compression.former);
        for glob in self.policies.globs() {
            let same = before.iter().position(|family| family.is_of(glob));
            let family = same.map_or_else(|| Family::new(glob), |place| before.swap_remove(place));
            compression.families.push(family);
        }
        before.retain_mut(Family::retire);
        compression.former = before;
        if self.policies.compress_any() {
            self.compression.walk.begin();
        }
    }

    /// Figures of a rule's family.
    pub fn compression_figures(&self, rule: usize) -> CompressionFigures {
        let Some(family) = self.compression.families.get(rule) else { return CompressionFigures::default() };
        let mut figures = family.figures();
        for slot in family.slots() {
            let dictionary = self.interned.dictionaries.get(slot);
            figures.dictionary_bytes += dictionary.map_or(0, |dictionary| dictionary.memory_bytes() as u64);
            for (_, database) in self.keyspace.iter() {
                let count = database.compressed.of(slot);
                figures.values += count.values;
                figures.plain_bytes += count.plain_bytes;
                figures.stored_bytes += count.stored_bytes;
            }
        }
        figures
    }

    /// Bytes that dictionaries take of the C library's allocator.
    pub fn dictionaries_bytes(&self) -> usize {
        self.interned.dictionaries.memory_bytes()
    }

    /// Cron's work for compressed values: takes a trained dictionary, starts training, drops unused dictionaries, and
    /// continues the walk if `may_walk`. Returns whether the walk should continue soon.
    pub fn step_compression(&mut self, may_walk: bool) -> bool {
        let compression = &self.compression;
        let has_dictionaries = self.interned.dictionaries.taken().next().is_some();
        if compression.families.is_empty() && compression.training.is_none() && !has_dictionaries {
            return false;
        }
        self.take_trained();
        self.train();
        self.release_dictionaries();
        may_walk && self.walk_step()
    }

    fn take_trained(&mut self) {
        let compression = &mut self.compression;
        let Some(trained) = compression.training.as_ref().and_then(Training::take) else { return };
        let glob = compression.training.take().map(|training| training.glob).unwrap_or_default();
        let Some(family) = compression.families.iter_mut().find(|family| family.is_of(&glob)) else { return };
        let added = trained.dictionary.and_then(|dictionary| self.interned.dictionaries.add(dictionary));
        match added {
            Some(slot) => {
                family.replace(slot, self.turn.now_ms);
                compression.walk.begin();
            }
            None => family.put_off(self.turn.now_ms),
        }
    }

    fn train(&mut self) {
        let compression = &mut self.compression;
        if compression.training.is_some() {
            return;
        }
        let Some(family) = compression.families.iter_mut().find(|family| family.is_ready()) else { return };
        let (samples, version) = family.take_samples();
        compression.training = Training::start(family.glob(), samples, version);
        if compression.training.is_none() {
            family.put_off(self.turn.now_ms);
        }
    }

    fn release_dictionaries(&mut self) {
        let able = |families: &[Family]| families.iter().filter(|family| family.has_dictionary()).count();
        let able_before = able(&self.compression.families);
        let slots: Vec<u8> = self.interned.dictionaries.taken().collect();
        for slot in slots {
            let is_used = self.keyspace.iter().any(|(_, database)| database.compressed.of(slot).values > 0);
            let families = &mut self.compression.families;
            let is_kept = families.iter_mut().any(|family| family.keeps(slot, is_used));
            if !is_used && !is_kept {
                self.interned.dictionaries.remove(slot);
                self.compression.former.retain_mut(|family| family.forget(slot));
            }
        }
        if able(&self.compression.families) < able_before {
            // Existing values are samples for the next one.
            self.compression.walk.begin();
        }
    }

    /// Panics unless each database's counts match its values, and each value's dictionary exists.
    pub(super) fn check_compression(&self) {
        for (_, database) in self.keyspace.iter() {
            let mut counts = Counts::default();
            for entry in database.iter() {
                if let structures::key_table::Value::Compressed(stored) = entry.value() {
                    assert!(
                        self.interned.dictionaries.get(slot_of(stored)).is_some(),
                        "its dictionary is here"
                    );
                    counts.add(stored);
                }
            }
            assert!(
                counts.are_those_of(&database.compressed),
                "{counts:?} are counted as {:?}",
                database.compressed
            );
        }
    }
}

#[cfg(test)]
mod tests;
