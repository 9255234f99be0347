//! Pseudo-random numbers for sampling: xoshiro256++ (Blackman and Vigna, 2019). Not for secrets.

/// A generator whose seed the caller chooses, so that every run is reproducible.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates a generator. Any seed is good: splitmix64 spreads it over the state.
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let x = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Random { state }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform number in `0..n`, by multiplication (bias below 2^-32 for n < 2^32). `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no random number");
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }

    /// A uniform index of what has this length, as [`Self::below`].
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A uniform number in `[0, 1)`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Selection sampling (Knuth, volume 2, 3.4.2, algorithm S): takes some of the elements that are offered one by one, each
/// choice with the same probability.
#[derive(Clone, Copy, Debug)]
pub struct SelectionSample {
    /// Elements that have not been offered.
    left: u64,
    /// Elements still to be taken of these.
    wanted: u64,
}

impl SelectionSample {
    /// Takes `wanted` of `len` elements, all if there are fewer.
    pub fn new(len: u64, wanted: u64) -> SelectionSample {
        SelectionSample { left: len, wanted }
    }

    /// Returns whether the next element is taken. Not more than `len` elements may be offered.
    #[inline]
    pub fn takes(&mut self, random: &mut Random) -> bool {
        let is_taken = !self.is_complete() && random.below(self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(is_taken);
        is_taken
    }

    /// Returns whether all wanted elements have been taken.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.wanted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_wanted_number_and_each_element_about_equally() {
        let mut random = Random::new(8);
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            let mut sample = SelectionSample::new(counts.len() as u64, 3);
            let drawn: Vec<usize> = (0..counts.len()).filter(|_| sample.takes(&mut random)).collect();
            assert!(drawn.len() == 3 && sample.is_complete());
            drawn.into_iter().for_each(|at| counts[at] += 1);
        }
        assert!(counts.iter().all(|&count| (2_700..3_300).contains(&count)), "{counts:?}");
        let mut all = SelectionSample::new(5, 9);
        assert!((0..5).all(|_| all.takes(&mut random)));
    }

    #[test]
    fn below_reaches_every_value_about_equally() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_000..11_000).contains(&c)), "{counts:?}");
    }
}
