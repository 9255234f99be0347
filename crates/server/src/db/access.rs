//! Access times and frequencies of keys: 24 bits in each entry, read by eviction and by OBJECT IDLETIME and FREQ.
//!
//! ```text
//!   LRU:  | seconds since the epoch, mod 2^24                    |      LRM the same, of the last change
//!   LFU:  | minutes since the epoch, mod 2^16 | counter, 8 bits  |
//! ```
//! The LFU counter is logarithmic: a use raises it with probability 1 / (counter * factor + 1), and it decays
//! by one every `decay_minutes`.
//!
//! A command that looks a key up to read or write its value uses the key, whatever the value's type, and even if it then
//! replaces the value. Each argument that names the key counts as one use, however often the command looks it up, unless
//! it has looked up two other arguments since. With LRM only a recorded change of the key counts.

use super::Object;
use structures::key_table::EntryMut;
use structures::random::Random;
use wire::convert::low_u32;

const LRU_MASK: u32 = (1 << 24) - 1;
/// A new key's LFU counter: high enough to survive until it has been used.
const LFU_INITIAL: u32 = 5;

/// The current meaning of the 24 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPolicy {
    /// The bits are an LFU counter.
    pub lfu: bool,
    /// Only changes are noted.
    pub lrm: bool,
    /// The counter's `factor`; see above.
    pub lfu_log_factor: u32,
    /// Minutes after which the counter decays by one.
    pub lfu_decay_minutes: u32,
    /// The last two arguments for which the current command has used keys: some commands alternate between two.
    pub(super) counted: [Option<UsedKey>; 2],
}

/// A key named by an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsedKey {
    hash: u64,
    address: usize,
}

impl UsedKey {
    /// The key of the argument `key`, identified by the slice's address.
    #[inline]
    pub fn new(hash: u64, key: &[u8]) -> Self {
        UsedKey { hash, address: key.as_ptr().addr() }
    }
}

impl Default for AccessPolicy {
    fn default() -> Self {
        AccessPolicy { lfu: false, lrm: false, lfu_log_factor: 10, lfu_decay_minutes: 1, counted: [None; 2] }
    }
}

impl AccessPolicy {
    /// Bits of a key created now.
    #[inline]
    pub fn initial(&self, now_ms: i64) -> u32 {
        if self.lfu { minutes(now_ms) << 8 | LFU_INITIAL } else { seconds(now_ms) }
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
        if self.lrm {
            return access;
        }
        if !self.lfu {
            return seconds(now_ms);
        }
        if self.counted.contains(&Some(key)) {
            return access;
        }
        self.counted = [Some(key), self.counted[0]];
        minutes(now_ms) << 8 | self.raised(self.frequency(access, now_ms), random)
    }

    fn raised(&self, counter: u32, random: &mut Random) -> u32 {
        if counter >= 255 {
            return 255;
        }
        let base = counter.saturating_sub(LFU_INITIAL) as f64;
        let chance = 1.0 / (base * self.lfu_log_factor as f64 + 1.0);
        counter + (random.unit() < chance) as u32
    }

    /// Milliseconds since the last use, in whole seconds.
    pub fn idle_ms(&self, access: u32, now_ms: i64) -> u64 {
        (seconds(now_ms).wrapping_sub(access) & LRU_MASK) as u64 * 1000
    }

    /// The LFU counter after decay.
    pub fn frequency(&self, access: u32, now_ms: i64) -> u32 {
        let counter = access & 0xff;
        if self.lfu_decay_minutes == 0 {
            return counter;
        }
        let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0xffff;
        counter.saturating_sub(elapsed / self.lfu_decay_minutes)
    }

    /// Bits for a key whose idle time is given (RESTORE IDLETIME).
    pub fn with_idle_ms(&self, idle_ms: u64, now_ms: i64) -> u32 {
        seconds(now_ms.saturating_sub_unsigned(idle_ms))
    }

    /// Bits for a key whose frequency is given (RESTORE FREQ).
    pub fn with_frequency(&self, frequency: u8, now_ms: i64) -> u32 {
        minutes(now_ms) << 8 | frequency as u32
    }
}

fn seconds(now_ms: i64) -> u32 {
    low_u32((now_ms / 1000) as u64) & LRU_MASK
}

fn minutes(now_ms: i64) -> u32 {
    low_u32((now_ms / 60_000) as u64) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_decays_with_the_minutes() {
        let policy = AccessPolicy { lfu: true, ..AccessPolicy::default() };
        let access = policy.with_frequency(10, 60_000);
        assert_eq!(policy.frequency(access, 60_000), 10);
        assert_eq!(policy.frequency(access, 4 * 60_000), 7);
        assert_eq!(policy.frequency(access, 60 * 60_000), 0);
    }

    #[test]
    fn a_command_counts_once_for_each_argument_however_often_it_looks() {
        let mut policy = AccessPolicy { lfu: true, ..AccessPolicy::default() };
        let mut random = Random::new(1);
        let argument = |address| UsedKey { hash: 1, address };
        let first = policy.used(argument(8), policy.initial(0), 0, &mut random);
        assert_eq!(policy.frequency(first, 0), LFU_INITIAL + 1, "the first use is certain to count");
        assert_eq!(policy.used(argument(8), first, 0, &mut random), first);
        // A counter that has fallen is certain to rise too.
        let fallen = policy.with_frequency(1, 0);
        let risen = policy.with_frequency(2, 0);
        assert_eq!(policy.used(argument(8), fallen, 0, &mut random), fallen);
        assert_eq!(policy.used(argument(9), fallen, 0, &mut random), risen, "the same key named again");
        let other = UsedKey { hash: 2, address: 9 };
        assert_eq!(policy.used(other, fallen, 0, &mut random), risen, "another key in the same place");
        assert_eq!(policy.used(argument(9), fallen, 0, &mut random), fallen, "two in turn");
        policy.counted = [None; 2];
        assert_eq!(policy.used(other, fallen, 0, &mut random), risen, "another command");
    }

    #[test]
    fn idle_time_survives_the_clock_wrapping() {
        let policy = AccessPolicy::default();
        let before_wrap_ms = ((1i64 << 24) - 5) * 1000;
        let access = policy.initial(before_wrap_ms);
        assert_eq!(policy.idle_ms(access, before_wrap_ms + 10_000), 10_000);
    }
}
