//! Keeping within `maxmemory`.

use super::Executor;
use super::reclaim::Reclaimer;
use crate::observe::memory::ThreadMemory;

/// Keys evicted for one command before it is let through anyway; the next command goes on.
const EVICTIONS_PER_COMMAND_MAX: usize = 1000;

/// Reads how much memory the executor's thread uses, and has large things freed.
pub struct Meter {
    thread: Option<ThreadMemory>,
    pub reclaimer: Reclaimer,
}

impl Meter {
    pub fn of_this_thread() -> Self {
        Meter { thread: ThreadMemory::of_this_thread(), reclaimer: Reclaimer::start() }
    }

    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.thread.map_or(0, |thread| thread.used_bytes().saturating_add_signed(self.reclaimer.used_bytes()))
    }
}

impl Executor {
    /// Evicts until memory is within its limit; whether it is.
    pub(super) fn make_room(&mut self) -> bool {
        let config = &self.server.config;
        let (maxmemory, policy) = (config.maxmemory_bytes, config.maxmemory_policy);
        let samples = config.maxmemory_samples as usize;
        if self.memory.used_bytes() <= maxmemory {
            return true;
        }
        self.db.begin(0, self.server.now.unix_ms());
        for _ in 0..EVICTIONS_PER_COMMAND_MAX {
            self.db.journal.listening = self.server.listens_to_changes();
            if self.db.evict_one(policy, samples, &mut self.eviction_pool).is_none() {
                return false;
            }
            self.apply_effects(None);
            self.free_discarded();
            if self.memory.used_bytes() <= maxmemory {
                return true;
            }
        }
        true
    }
}
