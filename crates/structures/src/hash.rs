//! The keyed hash of keys and elements: SipHash-1-2 with a 128-bit seed drawn once per process, so that a client cannot
//! choose keys that collide. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF".

/// The 128-bit key of the hash. Copied into each structure that hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed {
    /// The low 8 bytes of the key, as a little-endian number.
    pub k0: u64,
    /// The high 8 bytes of the key, likewise.
    pub k1: u64,
}

impl HashSeed {
    /// Creates a seed from its two words.
    pub const fn new(k0: u64, k1: u64) -> Self {
        HashSeed { k0, k1 }
    }

    /// SipHash-1-2 of `bytes`; all 64 bits are usable, both ends included.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        crate::work::hashed(bytes.len());
        let mut state = self.state();
        let mut rest = bytes;
        while let Some((word, after)) = rest.split_first_chunk() {
            absorb(&mut state, u64::from_le_bytes(*word));
            rest = after;
        }
        finish(state, bytes, rest.len())
    }

    /// As [`HashSeed::hash`], inlined for one word and a remainder, without a loop or a call: the most common lengths of
    /// fields and members.
    #[inline(always)]
    pub(crate) fn hash_in_line(&self, bytes: &[u8]) -> u64 {
        if let 8..16 = bytes.len()
            && let Some(word) = bytes.first_chunk()
        {
            crate::work::hashed(bytes.len());
            let mut state = self.state();
            absorb(&mut state, u64::from_le_bytes(*word));
            return finish(state, bytes, bytes.len() - 8);
        }
        self.hash(bytes)
    }

    #[inline(always)]
    fn state(&self) -> [u64; 4] {
        [
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        ]
    }
}

/// Absorbs the last `count` (below 8) bytes and the length.
#[inline(always)]
fn finish(mut state: [u64; 4], bytes: &[u8], count: usize) -> u64 {
    absorb(&mut state, (bytes.len() as u64) << 56 | last_bytes(bytes, count));
    state[2] ^= 0xff;
    round(&mut state);
    round(&mut state);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

/// The last `count` (below 8) of the bytes as a little-endian number, read in at most three loads: a loop over the
/// bytes cost more than a round.
#[inline(always)]
fn last_bytes(bytes: &[u8], count: usize) -> u64 {
    if let Some(word) = bytes.last_chunk() {
        // The preceding word is loaded too and shifted out, in two steps because a shift by 64 is undefined.
        return u64::from_le_bytes(*word) >> 1 >> (63 - 8 * count as u32);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64);
        // Where the two overlap, they agree.
        return first | last << (8 * (count - 4));
    }
    match *bytes {
        [] => 0,
        [a] => a as u64,
        [a, b] => a as u64 | (b as u64) << 8,
        [a, b, ref c @ ..] => a as u64 | (b as u64) << 8 | (c[0] as u64) << 16,
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

    /// The published form: words, then the remaining bytes below the length.
    fn plain(seed: HashSeed, bytes: &[u8]) -> u64 {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() / 8 * 8 + 7, 0);
        padded.push(bytes.len() as u8);
        let mut v = [
            seed.k0 ^ 0x736f_6d65_7073_6575,
            seed.k1 ^ 0x646f_7261_6e64_6f6d,
            seed.k0 ^ 0x6c79_6765_6e65_7261,
            seed.k1 ^ 0x7465_6462_7974_6573,
        ];
        for word in padded.chunks(8) {
            absorb(&mut v, u64::from_le_bytes(word.try_into().unwrap()));
        }
        v[2] ^= 0xff;
        round(&mut v);
        round(&mut v);
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    #[test]
    fn short_reads_of_the_tail_do_not_change_the_result() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 167 + 13) as u8).collect();
        let seed = HashSeed::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        for len in 0..bytes.len() {
            assert_eq!(seed.hash(&bytes[..len]), plain(seed, &bytes[..len]), "length {len}");
            assert_eq!(seed.hash_in_line(&bytes[..len]), plain(seed, &bytes[..len]), "length {len}");
        }
    }

    #[test]
    fn the_seed_matters() {
        assert_ne!(HashSeed::new(1, 2).hash(b"key"), HashSeed::new(1, 3).hash(b"key"));
    }
}
