//! A key as look-ups take it: its bytes and their hash, which is computed once.

use super::Db;
use structures::key_slot::{KeySeed, slot_of_hash};

/// A key with its hash in the tables of all databases. The key of a command is made of the argument that names it, by
/// [`Args::key`](crate::command::Args::key), all others are made by [`Db::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    bytes: &'a [u8],
    hash: u64,
    /// Tells apart the arguments of a command that name the same key; 0 if it is no argument.
    argument: u32,
}

/// Keys are equal if their bytes are.
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<'a> Key<'a> {
    /// Hashes a key.
    #[inline]
    pub fn new(bytes: &'a [u8], seed: KeySeed) -> Self {
        Key::hashed(bytes, seed.hash(bytes))
    }

    /// A key whose hash is known.
    #[inline]
    pub fn hashed(bytes: &'a [u8], hash: u64) -> Self {
        Key { bytes, hash, argument: 0 }
    }

    /// The key that this argument of a command names.
    #[inline]
    pub fn of_argument(self, argument: u32) -> Self {
        Key { argument, ..self }
    }

    /// Returns the key's name.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the hash of the name by the databases' seed.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the key's slot, if the hash begins with slots: in a cluster.
    #[inline]
    pub fn slot(&self) -> u16 {
        slot_of_hash(self.hash)
    }

    /// See [`Key::of_argument`].
    #[inline]
    pub fn argument(&self) -> u32 {
        self.argument
    }
}

impl Db {
    /// Makes a key of bytes that are no argument of a command.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(bytes, self.key_seed)
    }
}
