//! Slots of a cluster: which of the 16,384 slots a key belongs to, and hashes of keys that begin with the slot.
//!
//! ```text
//!  hash of a key, without slots   | SipHash: 64 bits                                             |
//!  hash of a key, with slots      | slot: 14 bits | SipHash's upper 45 bits | its lower 5 bits    |
//!  hash in the table of a slot    | SipHash's upper 45 bits | slot: 14 bits | its lower 5 bits    |
//! ```
//! So the order of hashes is one order over all tables of a database: a position in it (a cursor, a walk) names a slot and a
//! place in the slot's table. A table of keys uses the upper bits and the lowest five of a hash, see
//! [`crate::key_table`].

use crate::hash::HashSeed;

/// The number of slots.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// The number after the last slot.
pub const SLOTS_END: u16 = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 14;
const SLOT_SHIFT: u32 = u64::BITS - SLOT_BITS;
/// The lowest bits of a hash are the same in all three forms.
const LOW_BIT_COUNT: u32 = 5;
const LOW_BITS: u64 = (1 << LOW_BIT_COUNT) - 1;

/// Returns the slot of a key: CRC-16 of the text between its first opening brace and the next closing one, so that clients
/// can put keys into one slot; of the whole key if there are none or nothing is between them.
pub fn key_slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').map(|open| &key[open + 1..]);
    let tag = tag.and_then(|rest| rest.iter().position(|&byte| byte == b'}').map(|close| &rest[..close]));
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS_END
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value zero, not reflected. Eight bytes at a time.
fn crc16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(0u16, |crc, word| {
        let [high, low] = crc.to_be_bytes();
        TABLES[7][usize::from(word[0] ^ high)]
            ^ TABLES[6][usize::from(word[1] ^ low)]
            ^ (2..8).fold(0, |sum, at| sum ^ TABLES[7 - at][usize::from(word[at])])
    });
    rest.iter().fold(crc, |crc, byte| crc << 8 ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// `TABLES[n][byte]` is the checksum of `byte` followed by `n` zero bytes.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = crc << 8 ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// What hashes the keys of all databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySeed {
    seed: HashSeed,
    by_slot: bool,
}

/// Without slots.
impl From<HashSeed> for KeySeed {
    fn from(seed: HashSeed) -> Self {
        KeySeed::new(seed, false)
    }
}

impl KeySeed {
    /// Hashes begin with the slot of the key if `by_slot`.
    pub const fn new(seed: HashSeed, by_slot: bool) -> Self {
        KeySeed { seed, by_slot }
    }

    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let hash = self.seed.hash(key);
        if self.by_slot { with_slot(hash, key) } else { hash }
    }

    /// Returns whether hashes begin with slots.
    pub fn by_slot(&self) -> bool {
        self.by_slot
    }

    /// Returns the seed of the hash, which collections use too.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }
}

#[inline(never)]
fn with_slot(hash: u64, key: &[u8]) -> u64 {
    u64::from(key_slot(key)) << SLOT_SHIFT | hash >> SLOT_BITS & !LOW_BITS | hash & LOW_BITS
}

/// Returns the slot with which a hash begins.
#[inline]
pub fn slot_of_hash(hash: u64) -> u16 {
    (hash >> SLOT_SHIFT) as u16
}

/// Returns the hash in the table of its slot.
#[inline]
pub fn hash_in_table(hash: u64) -> u64 {
    (hash & !LOW_BITS) << SLOT_BITS | hash >> SLOT_SHIFT << LOW_BIT_COUNT | hash & LOW_BITS
}

/// Returns the slot that [`hash_in_table`] was given.
#[inline]
pub fn slot_of_hash_in_table(hash: u64) -> u16 {
    (hash >> LOW_BIT_COUNT) as u16 % SLOTS_END
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn crc16_by_bits(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, &byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 }
            })
        })
    }

    #[test]
    fn checksums_are_those_of_the_published_test() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn eight_bytes_at_a_time_are_the_same_as_bit_by_bit() {
        let mut random = Random::new(1);
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            assert_eq!(crc16(&bytes), crc16_by_bits(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn tags_bring_keys_together() {
        assert_eq!(key_slot(b"a"), 15495);
        assert_eq!(key_slot(b"x{a}y"), key_slot(b"a"));
        assert_eq!(key_slot(b"x{a}{b}"), key_slot(b"a"));
        assert_ne!(key_slot(b"{}a"), key_slot(b"{}b"));
        assert_eq!(key_slot(b"}{a"), crc16(b"}{a") % 16384);
        assert_eq!(key_slot(b""), 0);
    }

    #[test]
    fn hashes_with_slots_begin_with_them_and_keep_the_bits_that_tables_use() {
        let (plain, by_slot) = [false, true].map(|by_slot| KeySeed::new(HashSeed::new(1, 2), by_slot)).into();
        for i in 0..1000u32 {
            let key = i.to_le_bytes();
            let (hash, combined) = (plain.hash(&key), by_slot.hash(&key));
            assert_eq!(slot_of_hash(combined), key_slot(&key));
            let (in_table, bits_kept) = (hash_in_table(combined), u64::MAX << 19 | LOW_BITS);
            assert_eq!(in_table & bits_kept, hash & bits_kept);
            assert_eq!(slot_of_hash_in_table(in_table), key_slot(&key));
        }
    }
}
