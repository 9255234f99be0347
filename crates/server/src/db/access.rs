//! Access times and frequencies of keys: 24 bits in each entry, read by eviction and by OBJECT IDLETIME and FREQ.
//!
//! ```text
//!   LRU:     | seconds since the epoch, mod 2^24                    |      LRM the same, of the last change
//!   LFU:     | minutes since the epoch, mod 2^16 | counter, 8 bits  |
//!   s3fifo:  | uses 2 | main | age 21                               |      see `queues`
//! ```
//! The LFU counter is logarithmic: a use raises it with probability 1 / (counter * factor + 1), and it decays
//! by one every `decay_minutes`.
//!
//! A command that looks a key up to read or write its value uses the key, whatever the value's type, and even if it then
//! replaces the value. Each argument that names the key counts as one use, however often the command looks it up, unless
//! it has looked up two other arguments since. With LRM only a recorded change of the key counts.
//!
//! When the policy changes, the bits stay as they are and mean something else until keys are used again.

pub mod queues;
#[cfg(test)]
mod tests;

use super::{Key, Object};
use queues::{Place, Queues};
use structures::key_table::EntryMut;
use structures::random::Random;
use wire::convert::low_u32;

const LRU_MASK: u32 = (1 << 24) - 1;
/// A new key's LFU counter: high enough to survive until it has been used.
const LFU_INITIAL: u32 = 5;

/// What the 24 bits say of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// When it was used last.
    LastUse,
    /// When it was changed last.
    LastChange,
    /// How often it is used: an LFU counter.
    Frequency,
    /// Its queue, and its uses and age there.
    Queue,
}

/// How the 24 bits are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessBits {
    meaning: Meaning,
    /// The counter's `factor`; see above.
    pub lfu_log_factor: u32,
    /// Minutes after which the counter decays by one.
    pub lfu_decay_minutes: u32,
    /// Of [`Queues`].
    queue_base: u32,
}

impl Default for AccessBits {
    fn default() -> Self {
        AccessBits { meaning: Meaning::LastUse, lfu_log_factor: 10, lfu_decay_minutes: 1, queue_base: 0 }
    }
}

impl AccessBits {
    /// The current meaning.
    #[inline]
    pub fn meaning(&self) -> Meaning {
        self.meaning
    }

    /// Whether the bits count uses, and do not say how long a key has been idle.
    pub fn count_uses(&self) -> bool {
        matches!(self.meaning, Meaning::Frequency | Meaning::Queue)
    }

    /// Milliseconds since the last use, in whole seconds.
    pub fn idle_ms(&self, access: u32, now_ms: i64) -> u64 {
        (seconds(now_ms).wrapping_sub(access) & LRU_MASK) as u64 * 1000
    }

    /// The LFU counter after decay, or the number that stands for a key's place in the queues.
    pub fn frequency(&self, access: u32, now_ms: i64) -> u32 {
        if self.meaning == Meaning::Queue {
            return self.place(access).frequency();
        }
        let counter = access & 0xff;
        if self.lfu_decay_minutes == 0 {
            return counter;
        }
        let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0xffff;
        counter.saturating_sub(elapsed / self.lfu_decay_minutes)
    }

    /// The key's place, with [`Meaning::Queue`].
    pub fn place(&self, access: u32) -> Place {
        Place::of(access, self.queue_base)
    }

    /// The latest bits that a key can have now, by policies without queues.
    fn newest(&self, now_ms: i64) -> u32 {
        match self.meaning {
            Meaning::Frequency => minutes(now_ms) << 8 | 0xff,
            Meaning::LastUse | Meaning::LastChange | Meaning::Queue => seconds(now_ms),
        }
    }

    fn raised(&self, counter: u32, random: &mut Random) -> u32 {
        if counter >= 255 {
            return 255;
        }
        let base = counter.saturating_sub(LFU_INITIAL) as f64;
        let chance = 1.0 / (base * self.lfu_log_factor as f64 + 1.0);
        counter + (random.unit() < chance) as u32
    }
}

/// The access data of a key that comes from elsewhere: RESTORE's options, or a file's fields before a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenAccess {
    /// Of policies that count uses.
    pub frequency: Option<u8>,
    /// Seconds, of the other policies.
    pub idle_s: Option<u64>,
}

/// How the access bits are set.
#[derive(Debug, Default)]
pub struct AccessPolicy {
    /// How they are read.
    pub bits: AccessBits,
    /// Present with [`Meaning::Queue`].
    queues: Option<Box<Queues>>,
    /// The last two arguments for which the current command has used keys: some commands alternate between two.
    pub(super) counted: [Option<UsedKey>; 2],
}

/// A key named by an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsedKey {
    hash: u64,
    argument: u32,
}

impl UsedKey {
    /// Refers to a key of the running command.
    #[inline]
    pub fn new(key: Key<'_>) -> Self {
        UsedKey { hash: key.hash(), argument: key.argument() }
    }
}

/// A key that is created.
#[derive(Clone, Copy, Debug)]
pub struct NewKey {
    /// Its hash.
    pub hash: u64,
    /// Its database.
    pub db_index: usize,
    /// Whether it has an expiry.
    pub expires: bool,
}

impl NewKey {
    /// The hash by which the ghost knows the key.
    fn ghost_hash(self) -> u64 {
        ghost_hash(self.hash, self.db_index)
    }
}

/// Keys of different databases are different keys: each database turns all bits of the hash in another way.
fn ghost_hash(hash: u64, db_index: usize) -> u64 {
    hash ^ (db_index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl AccessPolicy {
    /// Gives the bits another meaning. `keys` counts the keys that qualify for eviction; only keys with an expiry do if
    /// `only_expiring` is set.
    pub fn follow(
        &mut self,
        meaning: Meaning,
        only_expiring: bool,
        keys: impl FnOnce() -> usize,
        now_ms: i64,
    ) {
        if meaning != Meaning::Queue {
            self.queues = None;
        } else if let Some(queues) = &mut self.queues {
            if queues.only_expiring != only_expiring {
                queues.restrict(only_expiring, keys());
            }
        } else {
            let queues = Queues::after(self.bits.newest(now_ms), only_expiring, keys());
            self.bits.queue_base = queues.base;
            self.queues = Some(Box::new(queues));
        }
        self.bits.meaning = meaning;
    }

    /// The queues, with [`Meaning::Queue`].
    pub fn queues(&self) -> Option<&Queues> {
        self.queues.as_deref()
    }

    /// As [`Self::queues`], mutable.
    pub fn queues_mut(&mut self) -> Option<&mut Queues> {
        self.queues.as_deref_mut()
    }

    /// The policy of databases that are filled beside these, and later replace them.
    pub(super) fn beside(&self) -> AccessPolicy {
        let queues = self.queues.as_ref().map(|queues| Box::new(queues.beside()));
        AccessPolicy { bits: self.bits, queues, counted: [None; 2] }
    }

    /// Exchanges what belongs to the keys: the queues, if both have them.
    pub(super) fn exchange(&mut self, other: &mut AccessPolicy) {
        if let (Some(own), Some(others)) = (&mut self.queues, &mut other.queues)
            && own.base == others.base
        {
            std::mem::swap(own, others);
            own.take_settings_of(others);
        }
    }

    /// Bits of a key created now.
    #[inline]
    pub fn initial(&mut self, key: NewKey, now_ms: i64) -> u32 {
        match self.bits.meaning {
            Meaning::LastUse | Meaning::LastChange => seconds(now_ms),
            Meaning::Frequency => minutes(now_ms) << 8 | LFU_INITIAL,
            Meaning::Queue => self.enter(key),
        }
    }

    #[inline(never)]
    fn enter(&mut self, key: NewKey) -> u32 {
        let Some(queues) = &mut self.queues else { return 0 };
        let qualifies = key.expires || !queues.only_expiring;
        queues.enter(key.ghost_hash(), qualifies).bits(self.bits.queue_base)
    }

    /// Bits of a key that comes from elsewhere now; access data that the policy has no use for is ignored.
    pub fn restored(&mut self, key: NewKey, given: GivenAccess, now_ms: i64) -> u32 {
        match (self.bits.meaning, given) {
            (Meaning::Frequency, GivenAccess { frequency: Some(frequency), .. }) => {
                minutes(now_ms) << 8 | u32::from(frequency)
            }
            (Meaning::LastUse | Meaning::LastChange, GivenAccess { idle_s: Some(idle_s), .. }) => {
                seconds(now_ms.saturating_sub_unsigned(idle_s.saturating_mul(1000)))
            }
            (Meaning::Queue, GivenAccess { frequency: Some(frequency), .. }) => {
                self.enter_with(key, frequency)
            }
            _ => self.initial(key, now_ms),
        }
    }

    fn enter_with(&mut self, key: NewKey, frequency: u8) -> u32 {
        let Some(queues) = &mut self.queues else { return 0 };
        let qualifies = key.expires || !queues.only_expiring;
        queues.enter_with(qualifies, frequency).bits(self.bits.queue_base)
    }

    /// Bits of a key changed now, with [`Meaning::LastChange`].
    pub(super) fn changed(&self, now_ms: i64) -> u32 {
        seconds(now_ms)
    }

    /// Notes a use of the key now.
    #[inline]
    pub fn touch(
        &mut self,
        key: UsedKey,
        entry: &mut EntryMut<'_, Object>,
        now_ms: i64,
        random: &mut Random,
    ) {
        let before = entry.as_ref().access();
        let access = self.used(key, before, now_ms, random);
        if access != before {
            entry.set_access(access);
        }
    }

    /// Bits of a key used now whose bits were `access`.
    #[inline]
    pub fn used(&mut self, key: UsedKey, access: u32, now_ms: i64, random: &mut Random) -> u32 {
        match self.bits.meaning {
            Meaning::LastUse => seconds(now_ms),
            Meaning::LastChange => access,
            Meaning::Frequency | Meaning::Queue => self.counted(key, access, now_ms, random),
        }
    }

    fn counted(&mut self, key: UsedKey, access: u32, now_ms: i64, random: &mut Random) -> u32 {
        if self.counted.contains(&Some(key)) {
            return access;
        }
        self.counted = [Some(key), self.counted[0]];
        if self.bits.meaning == Meaning::Queue {
            return queues::with_use(access, self.bits.queue_base);
        }
        minutes(now_ms) << 8 | self.bits.raised(self.bits.frequency(access, now_ms), random)
    }

    /// Notes the eviction of a key of the queues.
    pub(super) fn evicted(&mut self, hash: u64, db_index: usize, place: Place) {
        if let Some(queues) = &mut self.queues {
            queues.evicted(ghost_hash(hash, db_index), place.queue);
        }
    }
}

fn seconds(now_ms: i64) -> u32 {
    low_u32((now_ms / 1000) as u64) & LRU_MASK
}

fn minutes(now_ms: i64) -> u32 {
    low_u32((now_ms / 60_000) as u64) & 0xffff
}
