//! zstd dictionaries, and strings stored compressed with them.
//!
//! ```text
//!   | slot u8 | descriptor u8 | length - 256 u16, or length u8 | blocks |
//!     ^         ^ a frame without magic number, dictionary id and checksum
//!     the dictionary's slot
//! ```
//! The length of the text is only in the frame's own field: STRLEN reads it from there.
//!
//! Invariants:
//! 1. A stored string was made by [`Dictionaries::compress`] with the dictionary in its slot: other bytes are never
//!    marked as compressed, because outside data contains none, and a slot is emptied only when no value refers to it
//!    ([`super::Compression`]).
//! 2. The compressing context refers to a dictionary only during a call.
//!
//! Measured (values of `tests/outside/compression.py`), the mean of stored bytes to plain ones, and memory, for
//! sessions of 500 B, replies of an API of 1 KB and 4 KB, fragments of HTML of 1 KB, with dictionaries of 16 KB:
//! level 1: .274 .285 .273 .251, 108 KB; level 2: .279 .263 .254 .235, 206 KB; level 3: .271 .263 .249 .235, 468 KB;
//! level 6: .214 to .236, at 4 to 5 times the time of level 2. Dictionaries of 32 KB save 1.5 % at most.

use std::cell::RefCell;
use std::sync::Arc;
use wire::convert::len_u8;
use zstd_safe::{
    CCtx, CDict, CParameter, DCtx, DDict, DParameter, FrameFormat, ResetDirective, train_from_buffer,
};

/// Bytes of training values that a dictionary contains.
const CONTENT_BYTES_MAX: usize = 16 * 1024;
/// zstd's compression level.
const LEVEL: i32 = 2;
/// Maximum number of dictionaries: a slot's number is one byte.
pub const SLOTS_MAX: usize = 256;

const SLOT_LEN: usize = 1;
/// Bits of a frame's descriptor that encode the width of its content length field.
const LEN_FIELD_SHIFT: u32 = 6;
/// Offset of the length in a field of two bytes.
const LONG_LEN_MIN: usize = 256;
/// Descriptors of frames with a content length of one byte and of two.
const DESCRIPTORS: [u8; 2] = [0x20, 0x60];

/// A dictionary prepared for compressing and for decompressing.
pub struct Dictionary {
    compressing: CDict<'static>,
    decompressing: DDict<'static>,
    /// Version number, from 1 for each rule.
    pub version: u32,
}

impl Dictionary {
    /// Trains a dictionary on samples stored back to back, with these lengths. `None` if training fails for lack of
    /// content.
    pub fn train(samples: &[u8], lens: &[usize], version: u32) -> Option<Dictionary> {
        let mut content = Vec::with_capacity(CONTENT_BYTES_MAX);
        train_from_buffer(&mut content, samples, lens).ok()?;
        let compressing = CDict::try_create(&content, LEVEL)?;
        Some(Dictionary { compressing, decompressing: DDict::try_create(&content)?, version })
    }

    /// Memory of both sides in the C library's allocator.
    pub fn memory_bytes(&self) -> usize {
        self.compressing.sizeof() + self.decompressing.sizeof()
    }
}

/// Contexts for compressing and decompressing, created with the first dictionary.
struct Contexts {
    compressing: CCtx<'static>,
    decompressing: DCtx<'static>,
}

impl Contexts {
    fn new() -> Option<Contexts> {
        let (mut compressing, mut decompressing) = (CCtx::try_create()?, DCtx::try_create()?);
        let parameters = [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::DictIdFlag(false),
            CParameter::ChecksumFlag(false),
        ];
        for parameter in parameters {
            compressing.set_parameter(parameter).ok()?;
        }
        decompressing.set_parameter(DParameter::Format(FrameFormat::Magicless)).ok()?;
        Some(Contexts { compressing, decompressing })
    }
}

/// All dictionaries in use.
#[derive(Default)]
pub struct Dictionaries {
    slots: Vec<Option<Arc<Dictionary>>>,
    contexts: RefCell<Option<Contexts>>,
    /// Buffer into which a text is decompressed for reading in place.
    text: RefCell<Vec<u8>>,
}

/// A string stored compressed.
#[derive(Clone, Copy)]
pub struct CompressedText<'a> {
    stored: &'a [u8],
    dictionaries: &'a Dictionaries,
}

impl Dictionaries {
    /// Puts a dictionary into a free slot. `None` if all are taken, or memory for the contexts is lacking.
    pub fn add(&mut self, dictionary: Arc<Dictionary>) -> Option<u8> {
        let contexts = self.contexts.get_mut();
        if contexts.is_none() {
            *contexts = Some(Contexts::new()?);
        }
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.slots.len() < SLOTS_MAX => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return None,
        };
        self.slots[slot] = Some(dictionary);
        Some(len_u8(slot))
    }

    /// Empties a slot that no value refers to. The last dictionary's removal frees the contexts.
    pub fn remove(&mut self, slot: u8) {
        self.slots[usize::from(slot)] = None;
        if self.slots.iter().all(Option::is_none) {
            *self = Dictionaries::default();
        }
    }

    /// The dictionary in a slot.
    pub fn get(&self, slot: u8) -> Option<&Dictionary> {
        self.slots.get(usize::from(slot))?.as_deref()
    }

    /// The slots that hold a dictionary.
    pub fn taken(&self) -> impl Iterator<Item = u8> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some()).map(|(index, _)| len_u8(index))
    }

    /// The same dictionaries in the same slots, for a second set of databases.
    pub fn share(&self) -> Dictionaries {
        let mut shared = Dictionaries { slots: self.slots.clone(), ..Dictionaries::default() };
        if self.contexts.borrow().is_some() {
            *shared.contexts.get_mut() = Contexts::new();
        }
        shared
    }

    /// Memory in the C library's allocator.
    pub fn memory_bytes(&self) -> usize {
        let dictionaries: usize =
            self.slots.iter().flatten().map(|dictionary| dictionary.memory_bytes()).sum();
        let contexts = self.contexts.borrow();
        let contexts = contexts.as_ref();
        dictionaries + contexts.map_or(0, |both| both.compressing.sizeof() + both.decompressing.sizeof())
    }

    /// Compresses a text to the beginning of `into`; returns the compressed length. `None` if it does not fit.
    pub fn compress(&self, slot: u8, text: &[u8], into: &mut [u8]) -> Option<usize> {
        let dictionary = self.get(slot)?;
        let mut contexts = self.contexts.borrow_mut();
        let context = &mut contexts.as_mut()?.compressing;
        let (first, frame) = into.split_first_mut()?;
        *first = slot;
        context.ref_cdict(&dictionary.compressing).ok()?;
        let written = context.compress2(frame, text);
        // A text that did not fit leaves the context in the middle of a frame.
        context.reset(ResetDirective::SessionOnly).ok()?;
        context.disable_dictionary().ok()?;
        let written = written.ok()?;
        let is_plain = DESCRIPTORS.contains(&frame[0]) && text_len(into) == text.len();
        is_plain.then_some(SLOT_LEN + written)
    }

    /// Decompresses a string. Panics if it is damaged or its dictionary is missing: the value is lost then.
    fn decompress(&self, stored: &[u8], into: &mut [u8]) {
        let mut contexts = self.contexts.borrow_mut();
        let both = contexts.as_mut().zip(self.get(slot_of(stored)));
        let (contexts, dictionary) = both.expect("a dictionary stays while values are compressed with it");
        let frame = &stored[SLOT_LEN..];
        let len = into.len();
        let written = contexts.decompressing.decompress_using_ddict(into, frame, &dictionary.decompressing);
        assert!(written == Ok(len), "decompressing a stored value failed: {written:?} of {len}");
    }
}

/// Slot of the dictionary that a stored string was compressed with.
#[inline]
pub fn slot_of(stored: &[u8]) -> u8 {
    stored[0]
}

/// Length of a stored string after decompression.
#[inline]
pub fn text_len(stored: &[u8]) -> usize {
    match stored[SLOT_LEN] >> LEN_FIELD_SHIFT {
        0 => usize::from(stored[2]),
        _ => usize::from(u16::from_le_bytes([stored[2], stored[3]])) + LONG_LEN_MIN,
    }
}

impl<'a> CompressedText<'a> {
    /// A stored string whose dictionary is in `dictionaries`.
    #[inline]
    pub fn new(stored: &'a [u8], dictionaries: &'a Dictionaries) -> Self {
        CompressedText { stored, dictionaries }
    }

    /// Length of the text.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        text_len(self.stored)
    }

    /// Writes the text to `into`, whose length is the text's.
    #[inline]
    pub fn write(&self, into: &mut [u8]) {
        self.dictionaries.decompress(self.stored, into);
    }

    /// Returns the decompressed text.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut text = vec![0; self.len()];
        self.write(&mut text);
        text
    }

    /// Passes the text to `work`. Allocates only while another text is being read.
    pub fn with_bytes<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        let len = self.len();
        let mut text = self.dictionaries.text.take();
        if text.len() < len {
            text.resize(len, 0);
        }
        self.write(&mut text[..len]);
        let result = work(&text[..len]);
        self.dictionaries.text.replace(text);
        result
    }
}

impl PartialEq for CompressedText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.with_bytes(|own| other.with_bytes(|others| own == others))
    }
}

impl Eq for CompressedText<'_> {}

impl std::fmt::Debug for CompressedText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with_bytes(|text| write!(f, "Compressed(\"{}\")", text.escape_ascii()))
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary")
            .field("version", &self.version)
            .field("bytes", &self.memory_bytes())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    fn record(i: u64) -> Vec<u8> {
        let name = ["Anna", "Ben", "Carla"][(i % 3) as usize];
        format!(
            "{{\"id\":{i},\"name\":\"{name}\",\"active\":true,\"tags\":[\"blue\",\"green\"],\"score\":{}}}",
            i * 7919
        )
        .into_bytes()
    }

    fn trained(version: u32) -> Dictionary {
        let samples: Vec<Vec<u8>> = (0..2000).map(record).collect();
        let lens: Vec<usize> = samples.iter().map(Vec::len).collect();
        Dictionary::train(&samples.concat(), &lens, version).expect("there is something to learn")
    }

    #[test]
    fn texts_of_every_length_come_back_from_the_dictionary_they_were_compressed_with() {
        let mut dictionaries = Dictionaries::default();
        let dictionary = Arc::new(trained(1));
        let slots = [dictionaries.add(Arc::clone(&dictionary)), dictionaries.add(dictionary)];
        let (mut random, text) = (Random::new(7), (0..400).flat_map(record).collect::<Vec<u8>>());
        let mut stored = vec![0; 20_000];
        for len in (64..600).chain([16_383, 4095, 4096, 65_791]) {
            let from = random.below((text.len() - len.min(16_384)) as u64) as usize;
            let Some(text) = text.get(from..from + len) else { continue };
            for slot in slots.iter().flatten() {
                let stored_len = dictionaries.compress(*slot, text, &mut stored).expect("it fits");
                let stored = &stored[..stored_len];
                assert_eq!((slot_of(stored), text_len(stored)), (*slot, len));
                let compressed = CompressedText::new(stored, &dictionaries);
                assert_eq!(compressed.to_vec(), text);
                compressed
                    .with_bytes(|one| compressed.with_bytes(|other| assert!(one == text && other == text)));
                assert_eq!(dictionaries.compress(*slot, text, &mut vec![0; stored_len - 1]), None);
            }
        }
        let beside = dictionaries.share();
        let len = dictionaries.compress(1, &text[..300], &mut stored).expect("it fits");
        dictionaries.remove(0);
        assert_eq!(
            (dictionaries.taken().collect::<Vec<_>>(), dictionaries.memory_bytes() > 0),
            (vec![1], true)
        );
        assert_eq!(CompressedText::new(&stored[..len], &dictionaries).to_vec(), &text[..300]);
        dictionaries.remove(1);
        assert_eq!(dictionaries.memory_bytes(), 0);
        assert_eq!(CompressedText::new(&stored[..len], &beside).to_vec(), &text[..300]);
    }

    #[test]
    fn there_are_as_many_slots_as_a_byte_can_name_and_free_ones_are_used_again() {
        let mut dictionaries = Dictionaries::default();
        let dictionary = Arc::new(trained(1));
        for slot in 0..SLOTS_MAX {
            assert_eq!(dictionaries.add(Arc::clone(&dictionary)), Some(slot as u8));
        }
        assert_eq!(dictionaries.add(Arc::clone(&dictionary)), None);
        dictionaries.remove(77);
        assert_eq!(dictionaries.add(dictionary), Some(77));
    }

    #[test]
    fn nothing_is_learned_from_too_little() {
        assert!(Dictionary::train(b"", &[], 1).is_none());
        assert!(Dictionary::train(b"a", &[1], 1).is_none());
    }
}
