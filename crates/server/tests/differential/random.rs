//! Where the choices of a random run come from: a seed, or bytes that a fuzzer has made and learns from.

// Each user of this file needs its part of it.
#![allow(dead_code)]

use structures::random::Random as Seeded;

pub struct Random {
    bytes: Vec<u8>,
    at: usize,
    /// Without bytes, or once they are used up.
    seeded: Seeded,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { bytes: Vec::new(), at: 0, seeded: Seeded::new(seed) }
    }

    /// Each choice takes as many bytes as it needs, so that a changed byte changes one choice.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Random { bytes: bytes.to_vec(), at: 0, seeded: Seeded::new(0) }
    }

    /// Whether all bytes have been used; never so with a seed.
    pub fn is_used_up(&self) -> bool {
        !self.bytes.is_empty() && self.at >= self.bytes.len()
    }

    /// A number of `bytes` bytes.
    fn take(&mut self, width: usize) -> u64 {
        let Some(taken) = self.bytes.get(self.at..self.at + width) else {
            self.at = self.bytes.len();
            return self.seeded.next_u64();
        };
        self.at += width;
        taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub fn next_u64(&mut self) -> u64 {
        if self.bytes.is_empty() { self.seeded.next_u64() } else { self.take(8) }
    }

    /// In `0..n`, uniform with a seed.
    pub fn below(&mut self, n: u64) -> u64 {
        if self.bytes.is_empty() {
            return self.seeded.below(n);
        }
        let bits = u64::BITS - (n - 1).leading_zeros();
        self.take(bits.div_ceil(8) as usize) % n
    }

    /// In `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        if self.bytes.is_empty() {
            self.seeded.unit()
        } else {
            (self.take(4) as u32) as f64 / 4_294_967_296.0
        }
    }
}
