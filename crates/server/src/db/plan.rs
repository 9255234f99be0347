//! Data computed for the current command before it runs: the hash of its first key, taken when the request was parsed,
//! and shared by prefetch and all look-ups of the command.

use super::Db;

/// The hash of one key, identified by its slice's address: comparing addresses is cheaper than hashing, and the address
/// cannot be reused while the current command's arguments exist.
#[derive(Debug, Default)]
pub(super) struct PlannedKey {
    /// Null without a planned key.
    address: usize,
    len: usize,
    hash: u64,
}

impl Db {
    /// Plans the first key of the next command, whose arguments do not move until [`Db::forget_plan`].
    #[inline]
    pub fn plan_key(&mut self, key: &[u8], hash: u64) {
        debug_assert!(hash == self.seed.hash(key), "the hash is not this key's");
        self.planned = PlannedKey { address: key.as_ptr().addr(), len: key.len(), hash };
    }

    /// Ends the command's plan.
    #[inline]
    pub fn forget_plan(&mut self) {
        self.planned.address = 0;
        self.forget_announced();
        self.forget_named_keys();
    }

    /// A key's hash in the tables of all databases.
    #[inline]
    pub fn key_hash(&self, key: &[u8]) -> u64 {
        let planned = &self.planned;
        match planned.address == key.as_ptr().addr() && planned.len == key.len() {
            true => planned.hash,
            false => self.seed.hash(key),
        }
    }
}
