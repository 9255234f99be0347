//! Keeping within `maxmemory`.

use super::Executor;

/// Keys evicted for one command before it is let through anyway; the next command goes on.
const EVICTIONS_PER_COMMAND_MAX: usize = 1000;

impl Executor {
    /// Evicts until memory is within its limit; whether it is.
    pub(super) fn make_room(&mut self) -> bool {
        let config = &self.server.config;
        let (maxmemory, policy) = (config.maxmemory_bytes, config.maxmemory_policy);
        let samples = config.maxmemory_samples as usize;
        // A paused server changes no data, on its own account least of all.
        if self.server.observed.memory.used_bytes() <= maxmemory || self.server.pause.is_some() {
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
            if self.server.observed.memory.used_bytes() <= maxmemory {
                return true;
            }
        }
        true
    }
}
