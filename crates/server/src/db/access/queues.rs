//! The access bits of the s3fifo policies: S3-FIFO (Yang and others, 2023) without queues. Each key knows in which queue it
//! would be and how old it is there, and eviction compares the ages of a few sampled keys instead of taking a queue's head.
//!
//! ```text
//!  | uses, 2 bits | main | age: step in which the key came to its queue, mod 2^21 |
//! ```
//! A *step* passes when as many keys have been created as 1/128 of the keys that qualify, so ages depend on neither clock nor
//! rate. They are only compared: 2^21 steps are 16,384 times the data, after which an age that eviction has never met
//! counts as young again.
//!
//! - A new key is in small; in main if the ghost knows it.
//! - Eviction takes the oldest sampled key of small while more than a tenth of the keys are there, else of main. A key of
//!   small that was used twice moves to main; a key of main that was used stays and has one use less. Both are young again.
//! - What is evicted from small is noted in the ghost.
//!
//! Invariants:
//! 1. `keys` and `small` count what the policy may evict. They follow creations and evictions exactly, all else
//!    (DEL, expiry, EXPIRE, FLUSHALL, the keys that were there before the policy) by a look at some keys now and then.
//! 2. Bits are stored plus `base`, mod 2^24, which is chosen so that the keys of the policy before count as unused keys of
//!    small, in the order of their last use: those used within 24 days (LRU, LRM) or 5.6 days (LFU) of the change. Older ones
//!    count as keys of main with three uses.

use structures::ghost::Ghost;
use wire::convert::low_u32;

/// All access bits.
const BITS: u32 = (1 << 24) - 1;
const AGE_BITS: u32 = 21;
const AGE_MASK: u32 = (1 << AGE_BITS) - 1;
const MAIN: u32 = 1 << AGE_BITS;
const USES_SHIFT: u32 = 22;
/// Uses are counted up to here.
const USES_MAX: u32 = 3;
/// Uses with which a key of small moves to main.
const USES_TO_MAIN: u32 = 2;
/// Steps in which as many keys are created as there are.
const STEPS_PER_TURNOVER: usize = 128;
/// Small holds this part of the keys: one in ten.
const SMALL_DIVISOR: f64 = 10.0;
/// Sampled keys whose mean corrects the number of keys in small.
const WINDOW: f64 = 2048.0;
/// The frequencies that stand for bits in OBJECT FREQ, RESTORE and RDB files: that of a new key of a server with an LFU
/// policy, and that of a key of main.
const FREQUENCY_SMALL: u32 = 5;
const FREQUENCY_MAIN: u32 = 9;

/// The queue in which a key would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// New keys.
    Small,
    /// Keys that were used, or came back soon after their eviction.
    Main,
}

impl Queue {
    /// The queue's name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Small => "small",
            Queue::Main => "main",
        }
    }

    /// The other queue.
    pub fn other(self) -> Queue {
        match self {
            Queue::Small => Queue::Main,
            Queue::Main => Queue::Small,
        }
    }
}

/// What the bits of one key say; see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The queue.
    pub queue: Queue,
    /// Number of uses in it, as far as they count.
    pub uses: u32,
    /// Step of the arrival, mod 2^21.
    step: u32,
}

impl Place {
    /// The place that these bits mean.
    #[inline]
    pub fn of(bits: u32, base: u32) -> Place {
        let bits = bits.wrapping_sub(base) & BITS;
        let queue = if bits & MAIN == 0 { Queue::Small } else { Queue::Main };
        Place { queue, uses: bits >> USES_SHIFT & USES_MAX, step: bits & AGE_MASK }
    }

    /// The bits that mean this place.
    #[inline]
    pub fn bits(self, base: u32) -> u32 {
        let main = if self.queue == Queue::Main { MAIN } else { 0 };
        (self.uses << USES_SHIFT | main | self.step).wrapping_add(base) & BITS
    }

    /// Whether the key moves to main instead of being evicted from small, or stays in main.
    pub fn is_kept(self) -> bool {
        match self.queue {
            Queue::Small => self.uses >= USES_TO_MAIN,
            Queue::Main => self.uses > 0,
        }
    }

    /// The frequency that stands for this place: 5 to 8 in small, 9 to 12 in main.
    pub fn frequency(self) -> u32 {
        self.uses + if self.queue == Queue::Main { FREQUENCY_MAIN } else { FREQUENCY_SMALL }
    }
}

/// Bits of a key with one use more.
#[inline]
pub(super) fn with_use(bits: u32, base: u32) -> u32 {
    let is_full = Place::of(bits, base).uses == USES_MAX;
    if is_full { bits } else { bits.wrapping_add(1 << USES_SHIFT) & BITS }
}

/// What a look at some keys has shown.
#[derive(Debug, Default)]
pub struct Survey {
    /// Keys in the databases that were looked at, and how many of them are in small if what was seen is typical.
    keys: f64,
    small: f64,
    sampled: usize,
}

impl Survey {
    /// Adds a sample of a database with `keys` keys that qualify.
    pub fn add(&mut self, keys: usize, sampled: usize, small: usize) {
        if sampled > 0 {
            self.keys += keys as f64;
            self.small += keys as f64 * small as f64 / sampled as f64;
            self.sampled += sampled;
        }
    }
}

/// Counters that INFO shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Keys in small, about.
    pub small_keys: u64,
    /// Keys in main, about.
    pub main_keys: u64,
    /// Keys that moved from small to main.
    pub promoted_keys: u64,
    /// New keys that the ghost knew.
    pub ghost_hits: u64,
    /// Memory of the ghost.
    pub ghost_bytes: u64,
}

/// The state that all keys share.
#[derive(Debug)]
pub struct Queues {
    /// Whether only keys with an expiry qualify.
    pub only_expiring: bool,
    /// See invariant 2.
    pub(super) base: u32,
    /// Steps so far; entries have the lowest 21 bits.
    steps: u64,
    /// Keys created since the last step, times 128.
    created: usize,
    keys: usize,
    small: f64,
    /// Keys created since the last count that did not qualify at their creation, and those of them in small.
    unqualified: usize,
    unqualified_small: usize,
    /// Sampled keys that `small` rests on, at most [`WINDOW`].
    weight: f64,
    ghost: Ghost,
    promoted_keys: u64,
    ghost_hits: u64,
}

impl Queues {
    /// Queues for `keys` keys that qualify, none of which has later bits by the policy before than `newest`.
    pub(super) fn after(newest: u32, only_expiring: bool, keys: usize) -> Queues {
        Queues {
            only_expiring,
            base: newest.wrapping_sub(AGE_MASK) & BITS,
            steps: u64::from(AGE_MASK),
            created: 0,
            keys,
            small: keys as f64,
            unqualified: 0,
            unqualified_small: 0,
            weight: if keys == 0 { WINDOW } else { 0.0 },
            ghost: Ghost::default(),
            promoted_keys: 0,
            ghost_hits: 0,
        }
    }

    /// Empty queues that read bits in the same way.
    pub(super) fn beside(&self) -> Queues {
        let mut beside = Queues::after(0, self.only_expiring, 0);
        (beside.base, beside.steps) = (self.base, self.steps);
        beside
    }

    /// Takes over what does not belong to the keys: the setting, and the counters of INFO.
    pub(super) fn take_settings_of(&mut self, other: &Queues) {
        self.only_expiring = other.only_expiring;
        (self.promoted_keys, self.ghost_hits) = (other.promoted_keys, other.ghost_hits);
    }

    /// Lets other keys qualify than before.
    pub(super) fn restrict(&mut self, only_expiring: bool, keys: usize) {
        (self.only_expiring, self.keys) = (only_expiring, keys);
        (self.small, self.weight) = (self.small.min(keys as f64), 0.0);
    }

    fn place(&self, queue: Queue, uses: u32) -> Place {
        Place { queue, uses, step: low_u32(self.steps) & AGE_MASK }
    }

    /// Place of a key that is created now, and counted if it `qualifies`.
    pub(super) fn enter(&mut self, hash: u64, qualifies: bool) -> Place {
        self.pass();
        let is_known = self.ghost.take(hash);
        self.ghost_hits += u64::from(is_known);
        let place = self.place(if is_known { Queue::Main } else { Queue::Small }, 0);
        self.came(place, qualifies)
    }

    /// Place of a key created now whose frequency is given; see [`Place::frequency`]. Frequencies of LFU policies are as
    /// good: keys that were used often are in main.
    pub(super) fn enter_with(&mut self, qualifies: bool, frequency: u8) -> Place {
        self.pass();
        let frequency = u32::from(frequency);
        let place = match frequency.checked_sub(FREQUENCY_MAIN) {
            Some(uses) => self.place(Queue::Main, uses.min(USES_MAX)),
            None => self.place(Queue::Small, frequency.saturating_sub(FREQUENCY_SMALL)),
        };
        self.came(place, qualifies)
    }

    /// Lets the time pass that one created key takes.
    fn pass(&mut self) {
        self.created += STEPS_PER_TURNOVER;
        if self.created >= self.keys {
            // With few keys a step is one key, and what exceeds it is dropped.
            self.created = (self.created - self.keys).min(self.keys);
            self.steps += 1;
        }
    }

    fn came(&mut self, place: Place, qualifies: bool) -> Place {
        let is_small = place.queue == Queue::Small;
        if qualifies {
            self.keys += 1;
            self.small += f64::from(u8::from(is_small));
        } else {
            self.unqualified += 1;
            self.unqualified_small += usize::from(is_small);
        }
        place
    }

    /// The queue from which a key is evicted next.
    pub fn source(&self) -> Queue {
        if self.small * SMALL_DIVISOR >= self.keys as f64 { Queue::Small } else { Queue::Main }
    }

    /// The place of a key with these bits.
    pub fn place_of(&self, bits: u32) -> Place {
        Place::of(bits, self.base)
    }

    /// The step in which a key came to its place, as a number that does not wrap.
    pub fn arrival(&self, place: Place) -> u64 {
        let age = low_u32(self.steps).wrapping_sub(place.step) & AGE_MASK;
        // Bits of another policy may be older than the first step.
        (self.steps + u64::from(AGE_MASK)) - u64::from(age)
    }

    /// Keeps a key that eviction has met and that was used; returns its new bits.
    pub fn keep(&mut self, place: Place) -> u32 {
        let kept = match place.queue {
            Queue::Small => {
                self.promoted_keys += 1;
                self.small = (self.small - 1.0).max(0.0);
                self.place(Queue::Main, 0)
            }
            Queue::Main => self.place(Queue::Main, place.uses - 1),
        };
        kept.bits(self.base)
    }

    /// Notes the eviction of a key.
    pub fn evicted(&mut self, hash: u64, queue: Queue) {
        if queue == Queue::Small {
            self.ghost.put(hash, self.keys);
            self.small = (self.small - 1.0).max(0.0);
        }
        self.keys = self.keys.saturating_sub(1);
    }

    /// Sets the number of keys that qualify. Keys that were not seen to come are taken for new ones that got their time to
    /// live after their creation (SET and EXPIRE); keys that were not seen to go have left both queues alike.
    pub fn count(&mut self, keys: usize) {
        let (before, after) = (self.keys as f64, keys as f64);
        self.small = if after > before {
            let new = self.unqualified.max(1) as f64;
            let new_in_main = self.unqualified.saturating_sub(self.unqualified_small) as f64;
            self.small + (after - before) * (1.0 - new_in_main / new)
        } else {
            self.small * after / before.max(1.0)
        };
        (self.keys, self.unqualified, self.unqualified_small) = (keys, 0, 0);
        self.ghost.fit(keys);
    }

    /// Corrects the number of keys in small.
    pub fn correct(&mut self, survey: &Survey) {
        if survey.sampled == 0 {
            return;
        }
        let (keys, sampled, share) = (self.keys as f64, survey.sampled as f64, survey.small / survey.keys);
        let gain = sampled / (self.weight + sampled);
        self.small += (share * keys - self.small) * gain;
        self.weight = (self.weight + sampled).min(WINDOW);
    }

    /// Counts by queue, and counters since the policy was chosen.
    pub fn figures(&self) -> QueueFigures {
        let small_keys = wire::convert::whole_u64(self.small.round()).min(self.keys as u64);
        QueueFigures {
            small_keys,
            main_keys: self.keys as u64 - small_keys,
            promoted_keys: self.promoted_keys,
            ghost_hits: self.ghost_hits,
            ghost_bytes: self.ghost.memory_bytes() as u64,
        }
    }

    /// Begins counting from 0 (CONFIG RESETSTAT).
    pub fn reset_counters(&mut self) {
        (self.promoted_keys, self.ghost_hits) = (0, 0);
    }
}
