//! The keyed hash of keys and elements: SipHash-1-2 with a 128-bit seed drawn once per process, so that a
//! client cannot choose keys that collide. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF".

/// The 128-bit key of the hash. Copied into each structure that hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed {
    pub k0: u64,
    pub k1: u64,
}

impl HashSeed {
    pub const fn new(k0: u64, k1: u64) -> Self {
        HashSeed { k0, k1 }
    }

    /// SipHash-1-2 of `bytes`; all 64 bits are usable, both ends included.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = [
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        ];
        let (words, _) = bytes.as_chunks();
        for word in words {
            absorb(&mut state, u64::from_le_bytes(*word));
        }
        absorb(&mut state, (bytes.len() as u64) << 56 | tail(bytes));
        state[2] ^= 0xff;
        round(&mut state);
        round(&mut state);
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

/// The bytes past the last whole word, in the lowest bits: from loads that overlap what was absorbed already,
/// as a loop over single bytes costs more than the rounds of the hash.
#[inline(always)]
fn tail(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    if let Some(last) = bytes.last_chunk() {
        // In two shifts, as one of 64 bits is not allowed.
        return u64::from_le_bytes(*last) >> 1 >> (63 - 8 * rest);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (rest - 4));
    }
    match *bytes {
        [] => 0,
        [a] => u64::from(a),
        [a, b, ..] => u64::from(a) | u64::from(b) << 8 | u64::from(bytes[rest - 1]) << (8 * (rest - 1)),
    }
}

#[inline(always)]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_matter() {
        let seed = HashSeed::new(1, 2);
        let mut seen = std::collections::HashSet::new();
        for len in 0..64 {
            assert!(seen.insert(seed.hash(&vec![0u8; len])));
            for at in 0..len {
                let mut bytes = vec![0u8; len];
                bytes[at] = 1;
                assert!(seen.insert(seed.hash(&bytes)));
            }
        }
    }

    #[test]
    fn the_tail_is_the_bytes_past_the_last_word() {
        let bytes: Vec<u8> = (1..40).collect();
        for len in 0..bytes.len() {
            let rest = &bytes[len - len % 8..len];
            let expected = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            assert_eq!(tail(&bytes[..len]), expected, "{len} bytes");
        }
    }

    #[test]
    fn the_seed_matters() {
        assert_ne!(HashSeed::new(1, 2).hash(b"key"), HashSeed::new(1, 3).hash(b"key"));
    }
}
