//! What is known of the command at hand before it runs: the hash of its first key, which was taken where the request was
//! parsed, so that prefetch and every look-up of the command share it.

use super::Db;

/// The hash of one key, known by where the key's bytes are: comparing an address is cheaper than hashing the key, and
/// nothing else can be there while the arguments of the command at hand are.
#[derive(Debug, Default)]
pub(super) struct PlannedKey {
    /// Null while nothing is planned.
    address: usize,
    len: usize,
    hash: u64,
}

impl Db {
    /// The command that runs next has this key among its arguments, which stay where they are until
    /// [`Db::forget_plan`].
    #[inline]
    pub fn plan_key(&mut self, key: &[u8], hash: u64) {
        debug_assert!(hash == self.seed.hash(key), "the hash is another key's");
        self.planned = PlannedKey { address: key.as_ptr().addr(), len: key.len(), hash };
    }

    /// The command is over.
    #[inline]
    pub fn forget_plan(&mut self) {
        self.planned.address = 0;
        self.forget_announced();
        self.forget_named_keys();
    }

    /// The hash that all databases' tables know a key by.
    #[inline]
    pub fn key_hash(&self, key: &[u8]) -> u64 {
        let planned = &self.planned;
        match planned.address == key.as_ptr().addr() && planned.len == key.len() {
            true => planned.hash,
            false => self.seed.hash(key),
        }
    }
}
