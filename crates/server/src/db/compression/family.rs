//! A family: the keys of one rule, the dictionaries of their values, and how well they compress.

use super::CompressionFigures;

/// Bytes of recent values that a dictionary is trained on, and the maximum taken of each value.
const SAMPLES_BYTES: usize = 256 * 1024;
const SAMPLE_LEN_MAX: usize = 4096;

/// Number of failed attempts in a row after which the next values are stored plain without an attempt; the number of
/// skipped values doubles each time.
const FAILURES_MAX: u32 = 8;
const SKIPPED_MAX: u32 = 1024;

/// Number of values over which a dictionary's ratio is measured.
const WINDOW_VALUES: u32 = 1024;
/// A dictionary whose ratio is worse than its first by this factor, in percent, is replaced by one trained on newer
/// values.
const WORSE_PERCENT: u64 = 125;
/// Time between two trainings, doubled after each training that fails.
const TRAINING_PERIOD_MS: i64 = 60_000;
const TRAINING_PERIOD_MS_MAX: i64 = 64 * TRAINING_PERIOD_MS;

/// Number of bytes checked for randomness, and the number of distinct ones among them if they are random: of 64 random
/// bytes 57 are distinct, of 64 digits of base64 40, of texts no more than those.
const LOOKED_AT: usize = 64;
const DIFFERENT_MIN: u32 = 51;

/// Values stored back to back, and their lengths.
#[derive(Default)]
pub struct Samples {
    /// The values, back to back.
    pub bytes: Vec<u8>,
    /// Length of each value in bytes.
    pub lens: Vec<usize>,
}

impl Samples {
    fn is_full(&self) -> bool {
        self.bytes.len() >= SAMPLES_BYTES
    }

    fn add(&mut self, text: &[u8]) {
        let sample = &text[..text.len().min(SAMPLE_LEN_MAX)];
        self.bytes.extend_from_slice(sample);
        self.lens.push(sample.len());
    }
}

/// What to do with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Store it plain.
    None,
    /// Compress it with the dictionary in this slot.
    With(u8),
}

/// Results of the last values.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    values: u32,
    plain_bytes: u64,
    stored_bytes: u64,
}

/// State of a rule's family.
pub struct Family {
    glob: Box<[u8]>,
    current: Option<u8>,
    /// The dictionary of values that the walk has not visited yet.
    previous: Option<u8>,
    /// Values have been compressed with the current dictionary.
    is_in_use: bool,
    versions: u32,
    /// Collected samples; `None` while none are collected.
    samples: Option<Samples>,
    /// A thread is training on the samples.
    is_training: bool,
    next_training_ms: i64,
    training_period_ms: i64,
    refused: u64,
    failures: u32,
    skips: u32,
    window: Window,
    /// The ratio in percent when the dictionary was new.
    first_percent: Option<u64>,
}

impl Family {
    /// Creates the family of a rule's glob.
    pub fn new(glob: &[u8]) -> Family {
        Family {
            glob: glob.into(),
            current: None,
            previous: None,
            is_in_use: false,
            versions: 0,
            samples: Some(Samples::default()),
            is_training: false,
            next_training_ms: 0,
            training_period_ms: TRAINING_PERIOD_MS,
            refused: 0,
            failures: 0,
            skips: 0,
            window: Window::default(),
            first_percent: None,
        }
    }

    /// The same family, for a second set of databases.
    pub fn beside(&self) -> Family {
        Family {
            current: self.current,
            versions: self.versions,
            samples: self.current.is_none().then(Samples::default),
            first_percent: self.first_percent,
            ..Family::new(&self.glob)
        }
    }

    /// The rule's glob.
    pub fn glob(&self) -> &[u8] {
        &self.glob
    }

    /// Whether it is the family of this glob.
    pub fn is_of(&self, glob: &[u8]) -> bool {
        *self.glob == *glob
    }

    /// Whether values can be compressed.
    pub fn has_dictionary(&self) -> bool {
        self.current.is_some()
    }

    /// Slots of its dictionaries.
    pub fn slots(&self) -> impl Iterator<Item = u8> {
        self.current.into_iter().chain(self.previous)
    }

    /// Version and refusals; values are counted by database.
    pub fn figures(&self) -> CompressionFigures {
        CompressionFigures { version: self.versions, refused: self.refused, ..CompressionFigures::default() }
    }

    /// Returns whether a value that is plain, or compressed with the dictionary in `slot`, is to be rewritten.
    pub fn needs_rewrite(&self, slot: Option<u8>) -> bool {
        match (self.current, slot) {
            (Some(current), Some(slot)) => current != slot,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => self.samples.as_ref().is_some_and(|samples| !samples.is_full()),
        }
    }

    /// Decides about the compression of a value, and keeps a sample of it while samples are collected.
    pub fn attempt(&mut self, text: &[u8], insists: bool, now_ms: i64) -> Attempt {
        if let Some(samples) = &mut self.samples
            && !samples.is_full()
            && now_ms >= self.next_training_ms
        {
            samples.add(text);
        }
        let Some(slot) = self.current else { return Attempt::None };
        if insists {
            return if looks_random(text) { Attempt::None } else { Attempt::With(slot) };
        }
        if self.skips > 0 {
            self.skips -= 1;
            self.refused += 1;
            self.count(text.len(), text.len(), now_ms);
            return Attempt::None;
        }
        if looks_random(text) {
            self.fail(text.len(), now_ms);
            return Attempt::None;
        }
        Attempt::With(slot)
    }

    /// Notes the result of compressing a value: its stored length, if it was worth it.
    pub fn note(&mut self, text_len: usize, stored_len: Option<usize>, insists: bool, now_ms: i64) {
        self.is_in_use |= stored_len.is_some();
        if insists {
            self.note_walked(text_len, stored_len, now_ms);
        } else if let Some(len) = stored_len {
            self.failures = 0;
            self.count(text_len, len, now_ms);
        } else {
            self.fail(text_len, now_ms);
        }
    }

    /// Results of a walk measure a new dictionary, but say nothing about new values: later walks meet only values that
    /// did not compress in the first.
    fn note_walked(&mut self, text_len: usize, stored_len: Option<usize>, now_ms: i64) {
        if self.first_percent.is_none() {
            self.count(text_len, stored_len.unwrap_or(text_len), now_ms);
        }
    }

    fn fail(&mut self, text_len: usize, now_ms: i64) {
        self.refused += 1;
        self.failures += 1;
        if self.failures >= FAILURES_MAX {
            self.skips =
                1u32.checked_shl(self.failures - FAILURES_MAX).map_or(SKIPPED_MAX, |n| n.min(SKIPPED_MAX));
        }
        self.count(text_len, text_len, now_ms);
    }

    /// Values stored plain count with their plain size, tried or not: otherwise a family whose values have changed in
    /// kind would get a new dictionary only after a hundred thousand of them.
    fn count(&mut self, plain_len: usize, stored_len: usize, now_ms: i64) {
        self.window.values += 1;
        self.window.plain_bytes += plain_len as u64;
        self.window.stored_bytes += stored_len as u64;
        if self.window.values >= WINDOW_VALUES {
            self.look_at_window(now_ms);
        }
    }

    fn look_at_window(&mut self, now_ms: i64) {
        let window = std::mem::take(&mut self.window);
        let percent = window.stored_bytes * 100 / window.plain_bytes.max(1);
        let Some(first) = self.first_percent else {
            self.first_percent = Some(percent);
            return;
        };
        let is_worse = percent * 100 > first * WORSE_PERCENT;
        if is_worse && self.may_be_replaced() && now_ms >= self.next_training_ms {
            self.samples = Some(Samples::default());
        }
    }

    fn may_be_replaced(&self) -> bool {
        self.previous.is_none() && self.samples.is_none() && !self.is_training
    }

    /// Whether there are enough samples to train on.
    pub fn is_ready(&self) -> bool {
        !self.is_training && self.previous.is_none() && self.samples.as_ref().is_some_and(Samples::is_full)
    }

    /// Takes the samples, and the version of the dictionary to train on them.
    pub fn take_samples(&mut self) -> (Samples, u32) {
        self.is_training = true;
        (self.samples.take().unwrap_or_default(), self.versions + 1)
    }

    /// Starts using a new dictionary.
    pub fn replace(&mut self, slot: u8, now_ms: i64) {
        debug_assert!(self.previous.is_none(), "two dictionaries at most");
        self.previous = self.current.replace(slot);
        self.versions += 1;
        self.is_training = false;
        self.samples = None;
        self.is_in_use = false;
        self.first_percent = None;
        self.window = Window::default();
        (self.failures, self.skips) = (0, 0);
        self.training_period_ms = TRAINING_PERIOD_MS;
        self.next_training_ms = now_ms + self.training_period_ms;
    }

    /// Delays the next training after a failed one.
    pub fn put_off(&mut self, now_ms: i64) {
        self.is_training = false;
        self.samples = self.current.is_none().then(Samples::default);
        self.next_training_ms = now_ms + self.training_period_ms;
        self.training_period_ms = (2 * self.training_period_ms).min(TRAINING_PERIOD_MS_MAX);
    }

    /// Sets the number of values to skip.
    #[cfg(test)]
    pub fn replace_skips(&mut self, skips: u32) {
        self.skips = skips;
    }

    /// Whether there is no dictionary and the next training has been delayed.
    #[cfg(test)]
    pub fn is_put_off(&self) -> bool {
        self.current.is_none() && self.next_training_ms > 0
    }

    /// Follows the removal of its rule. Returns whether the family has state worth keeping in case the rule comes back.
    pub fn retire(&mut self) -> bool {
        self.is_training = false;
        self.samples = self.current.is_none().then(Samples::default);
        self.slots().next().is_some()
    }

    /// Drops the dictionary in this slot. Returns whether the family has another one.
    pub fn forget(&mut self, slot: u8) -> bool {
        self.previous = self.previous.filter(|own| *own != slot);
        if self.current == Some(slot) {
            self.current = None;
            self.samples = Some(Samples::default());
        }
        self.slots().next().is_some()
    }

    /// Whether the family keeps a used or unused dictionary. A dictionary without values is dropped, unless values of the
    /// previous one are still to be recompressed with it.
    pub fn keeps(&mut self, slot: u8, is_used: bool) -> bool {
        if self.previous == Some(slot) && !is_used {
            self.previous = None;
        }
        let is_given_up = !is_used && self.is_in_use && !self.is_training && self.previous.is_none();
        if self.current == Some(slot) && is_given_up {
            self.current = None;
            self.is_in_use = false;
            self.samples = Some(Samples::default());
            self.next_training_ms = 0;
        }
        self.current == Some(slot) || self.previous == Some(slot)
    }
}

/// Returns whether the sampled bytes have too many distinct values to be compressible.
fn looks_random(text: &[u8]) -> bool {
    let mut seen = [0u64; 4];
    for &byte in text.iter().step_by((text.len() / LOOKED_AT).max(1)).take(LOOKED_AT) {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= DIFFERENT_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    #[test]
    fn random_bytes_are_told_from_texts() {
        let mut random = Random::new(5);
        let mut told = 0;
        for _ in 0..1000 {
            let len = 64 + random.below(2000) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            told += usize::from(looks_random(&bytes));
            let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let base64: Vec<u8> = bytes.iter().map(|byte| digits[usize::from(byte & 63)]).collect();
            assert!(!looks_random(&base64));
        }
        assert!(told > 950, "{told} of 1000");
    }

    #[test]
    fn what_fails_again_and_again_is_tried_less_and_less_until_something_is_worth_it() {
        let mut family = Family::new(b"*");
        family.replace(3, 0);
        let (mut tried, text) = (0, [b'a'; 100]);
        for _ in 0..10_000 {
            if family.attempt(&text, false, 0) == Attempt::With(3) {
                tried += 1;
                family.note(100, None, false, 0);
            }
        }
        assert!((20..30).contains(&tried), "{tried}");
        assert_eq!(family.figures().refused, 10_000);
        assert_eq!(family.attempt(&text, true, 0), Attempt::With(3));
        family.note(100, Some(30), true, 0);
        assert_eq!(
            family.attempt(&text, false, 0),
            Attempt::None,
            "results of a walk do not predict new values"
        );
        family.note(100, Some(30), false, 0);
        family.skips = 0;
        for _ in 0..7 {
            assert_eq!(family.attempt(&text, false, 0), Attempt::With(3));
            family.note(100, None, false, 0);
        }
        assert_eq!(family.attempt(&text, false, 0), Attempt::With(3));
    }

    #[test]
    fn values_that_are_put_without_trying_have_the_dictionary_replaced_too() {
        let (mut family, text) = (Family::new(b"*"), [b'a'; 1000]);
        family.replace(1, 0);
        for _ in 0..WINDOW_VALUES {
            family.note(1000, Some(300), false, 1);
        }
        for _ in 0..WINDOW_VALUES {
            assert!(family.samples.is_none());
            if family.attempt(&text, false, TRAINING_PERIOD_MS) == Attempt::With(1) {
                family.note(1000, None, false, TRAINING_PERIOD_MS);
            }
        }
        assert!(family.samples.is_some());
    }

    #[test]
    fn a_dictionary_is_replaced_when_it_does_worse_than_at_first_and_only_after_a_while() {
        let mut family = Family::new(b"*");
        family.take_samples();
        family.replace(1, 0);
        let put = |family: &mut Family, stored, now_ms| {
            for _ in 0..WINDOW_VALUES {
                assert_eq!(
                    family.attempt(&[b'a'; 1000], false, now_ms),
                    Attempt::With(family.current.unwrap_or(9))
                );
                family.note(1000, Some(stored), false, now_ms);
            }
        };
        put(&mut family, 300, 1);
        put(&mut family, 360, TRAINING_PERIOD_MS);
        assert!(family.samples.is_none(), "that is not much worse");
        put(&mut family, 400, TRAINING_PERIOD_MS - 1);
        assert!(family.samples.is_none(), "it is too early");
        put(&mut family, 400, TRAINING_PERIOD_MS);
        assert!(family.samples.is_some() && !family.is_ready());
        put(&mut family, 400, TRAINING_PERIOD_MS);
        assert!(family.is_ready());
        let (samples, version) = family.take_samples();
        assert_eq!((version, samples.bytes.len() >= SAMPLES_BYTES), (2, true));
        family.replace(2, TRAINING_PERIOD_MS);
        assert_eq!(family.slots().collect::<Vec<_>>(), [2, 1]);
        assert!(
            family.needs_rewrite(Some(1)) && family.needs_rewrite(None) && !family.needs_rewrite(Some(2))
        );
        assert!(family.keeps(1, true) && family.keeps(2, false), "a new one has no values yet");
        family.note(1000, Some(300), false, TRAINING_PERIOD_MS);
        assert!(
            family.keeps(2, false) && family.needs_rewrite(Some(1)),
            "the walk still has to visit the old one's values"
        );
        assert!(!family.keeps(1, false));
        put(&mut family, 300, TRAINING_PERIOD_MS);
        assert!(family.keeps(2, true) && !family.keeps(2, false), "its last value was removed");
        assert!(family.samples.is_some());
    }
}
