//! When and how often keys are used: 24 bits in each entry, read by eviction and by OBJECT IDLETIME and FREQ.
//!
//! ```text
//!   LRU:  | seconds since the epoch, mod 2^24                    |
//!   LFU:  | minutes since the epoch, mod 2^16 | counter, 8 bits  |
//! ```
//! The LFU counter is logarithmic: a use raises it with probability 1 / (counter * factor + 1), and it decays
//! by one every `decay_minutes`.

use super::Object;
use structures::key_table::EntryMut;
use structures::random::Random;

const LRU_MASK: u32 = (1 << 24) - 1;
/// A new key's LFU counter: high enough to survive until it has been used.
const LFU_INITIAL: u32 = 5;

/// What the 24 bits mean at the moment.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPolicy {
    pub lfu: bool,
    pub lfu_log_factor: u32,
    pub lfu_decay_minutes: u32,
    /// The client at hand has asked that its reads leave no trace (CLIENT NO-TOUCH).
    pub no_touch: bool,
}

impl Default for AccessPolicy {
    fn default() -> Self {
        AccessPolicy { lfu: false, lfu_log_factor: 10, lfu_decay_minutes: 1, no_touch: false }
    }
}

impl AccessPolicy {
    /// The bits of a key made now.
    #[inline]
    pub fn initial(&self, now_ms: i64) -> u32 {
        if self.lfu { minutes(now_ms) << 8 | LFU_INITIAL } else { seconds(now_ms) }
    }

    /// Notes a use.
    #[inline]
    pub fn touch(&self, entry: &mut EntryMut<'_, Object>, now_ms: i64, random: &mut Random) {
        if self.no_touch {
            return;
        }
        if !self.lfu {
            let now = seconds(now_ms);
            if entry.as_ref().access() != now {
                entry.set_access(now);
            }
            return;
        }
        let counter = self.frequency(entry.as_ref().access(), now_ms);
        entry.set_access(minutes(now_ms) << 8 | self.raised(counter, random));
    }

    fn raised(&self, counter: u32, random: &mut Random) -> u32 {
        if counter >= 255 {
            return 255;
        }
        let base = counter.saturating_sub(LFU_INITIAL) as f64;
        let chance = 1.0 / (base * self.lfu_log_factor as f64 + 1.0);
        counter + (random.unit() < chance) as u32
    }

    /// How long since the last use, in milliseconds, to the second.
    pub fn idle_ms(&self, access: u32, now_ms: i64) -> u64 {
        (seconds(now_ms).wrapping_sub(access) & LRU_MASK) as u64 * 1000
    }

    /// The decayed counter.
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
    (now_ms / 1000) as u32 & LRU_MASK
}

fn minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xffff
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
    fn idle_time_survives_the_clock_wrapping() {
        let policy = AccessPolicy::default();
        let before_wrap_ms = ((1i64 << 24) - 5) * 1000;
        let access = policy.initial(before_wrap_ms);
        assert_eq!(policy.idle_ms(access, before_wrap_ms + 10_000), 10_000);
    }
}
