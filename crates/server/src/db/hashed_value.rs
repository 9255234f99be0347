//! Members in temporary tables that commands create to combine collections.

use super::object::StringValue;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use structures::hash::HashSeed;
use structures::work;

/// A member with the keyed hash of its text, so that clients cannot choose members that collide.
pub struct HashedValue<'a> {
    hash: u64,
    /// The member.
    pub value: StringValue<'a>,
}

impl<'a> HashedValue<'a> {
    /// Hashes a member.
    pub fn new(value: StringValue<'a>, seed: HashSeed) -> Self {
        work::visited(1);
        HashedValue { hash: value.with_bytes(|bytes| seed.hash(bytes)), value }
    }
}

impl Hash for HashedValue<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for HashedValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.value.compare(&other.value).is_eq()
    }
}

impl Eq for HashedValue<'_> {}

/// The hasher of a table of [`HashedValue`]s.
pub type KeptHash = BuildHasherDefault<KeptHasher>;

/// Returns the hash stored in a [`HashedValue`].
#[derive(Default)]
pub struct KeptHasher(u64);

impl Hasher for KeptHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only a kept hash is written");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
