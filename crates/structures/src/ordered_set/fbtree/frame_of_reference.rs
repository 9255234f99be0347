//! Frame-of-reference coding of a leaf's scores: `base + (delta << shift)`, each delta in `width` bytes.
//!
//! It works on the ordered bits of [`score_to_bits`](super::key::score_to_bits), not on the numbers. The scores of one leaf
//! are neighbours, so their ordered bits share the leading ones, and integers (of any size and either sign), timestamps and
//! halves share the trailing ones: the rest fits one to three bytes. Equal scores take none. Random doubles at a million
//! members take five or six bytes, and no flag is needed: `width` 8 with `base` 0 is the plain column.

/// The code of one leaf's scores. Packed, to keep the leaf small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub(super) struct FrameOfReference {
    base: u64,
    shift: u8,
    width: u8,
}

impl FrameOfReference {
    /// The code of a leaf without members: any first score fits.
    pub const EMPTY: FrameOfReference = FrameOfReference { base: 0, shift: 0, width: 0 };

    /// The narrowest code for `scores` (ordered bits).
    pub fn fit(scores: impl Iterator<Item = u64> + Clone) -> FrameOfReference {
        let Some(min) = scores.clone().min() else { return FrameOfReference::EMPTY };
        let (max, differing) =
            scores.fold((0, 0), |(max, bits), score| (score.max(max), bits | (score ^ min)));
        FrameOfReference::spanning(min, max, differing)
    }

    /// The narrowest code for scores from `min` to `max` that differ from one another in no bit below the lowest of
    /// `differing`. Spare range of its width is divided among values below, values above, and more trailing bits.
    pub fn spanning(min: u64, max: u64, differing: u64) -> FrameOfReference {
        let span = max - min;
        if span == 0 {
            return FrameOfReference { base: min, shift: 0, width: 0 };
        }
        let trailing = differing.trailing_zeros();
        let bits = 64 - (span >> trailing).leading_zeros();
        let width = bits.div_ceil(8);
        if width == 8 {
            return FrameOfReference { base: 0, shift: 0, width: 8 };
        }
        let shift = trailing - trailing.min((8 * width - bits) / 2);
        let spare = mask(width as u8) - (span >> shift);
        let below = (spare / 2).min(min >> shift);
        FrameOfReference { base: min - (below << shift), shift: shift as u8, width: width as u8 }
    }

    /// Bytes per delta.
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// The delta of a score, if this code can express it.
    #[inline]
    pub fn encode(&self, score: u64) -> Option<u64> {
        let distance = score.checked_sub(self.base)?;
        let delta = distance >> self.shift;
        (delta << self.shift == distance && delta <= mask(self.width)).then_some(delta)
    }

    /// The score of a delta.
    #[inline]
    pub fn decode(&self, delta: u64) -> u64 {
        self.base + self.distance(delta)
    }

    /// The distance of two scores whose deltas differ by `delta`.
    #[inline]
    pub fn distance(&self, delta: u64) -> u64 {
        delta << self.shift
    }

    /// The least delta whose score is not below `score`, and whether it is equal: `None` when every score that this code
    /// can express is below.
    #[inline]
    pub fn lower_bound(&self, score: u64) -> Option<(u64, bool)> {
        let Some(distance) = score.checked_sub(self.base) else { return Some((0, false)) };
        let floor = distance >> self.shift;
        let exact = floor << self.shift == distance;
        let delta = floor + u64::from(!exact);
        (delta <= mask(self.width)).then_some((delta, exact))
    }

    /// The least delta whose score is not below `score`, if deltas had any width.
    #[inline]
    pub fn least_delta(&self, score: u64) -> u64 {
        let distance = score.saturating_sub(self.base);
        let floor = distance >> self.shift;
        floor + u64::from(floor << self.shift != distance)
    }

    /// The delta at `at` in `page`, read as eight bytes where the page has them.
    #[inline]
    pub fn read(&self, page: &[u8], at: usize) -> u64 {
        word_at(page, at) & mask(self.width)
    }

    /// The decoder of this code.
    #[inline]
    pub fn decoder(&self) -> Decoder {
        Decoder { mask: mask(self.width), width: self.width() }
    }

    /// The decoder from words of the column to scores, none if they differ in sign: `ends` are the least and the greatest
    /// of them (ordered bits).
    #[inline]
    pub fn numbers(&self, ends: impl Fn() -> (u64, u64)) -> Option<Numbers> {
        let (mask, step) = (mask(self.width), 1 << self.shift);
        if self.base >= SIGN || ends().0 >= SIGN {
            return Some(Numbers { mask, step, first: self.base.wrapping_sub(SIGN) });
        }
        (ends().1 < SIGN).then(|| Numbers { mask, step: 0u64.wrapping_sub(step), first: !self.base })
    }

    /// Writes a delta at `at`, leaving the bytes behind it unchanged.
    #[inline]
    pub fn write(&self, page: &mut [u8], at: usize, delta: u64) {
        match page[at..].first_chunk_mut() {
            Some(word) => *word = (u64::from_le_bytes(*word) & !mask(self.width) | delta).to_le_bytes(),
            None => page[at..at + self.width()].copy_from_slice(&delta.to_le_bytes()[..self.width()]),
        }
    }
}

/// A decoder for many deltas of one code.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    mask: u64,
    width: usize,
}

impl Decoder {
    /// The delta of a slot of a column that starts with `column`.
    #[inline(always)]
    pub fn delta(&self, column: &[u8], slot: usize) -> u64 {
        word_at(column, slot * self.width) & self.mask
    }
}

/// The ordered bit that is set in scores that are not negative.
const SIGN: u64 = 1 << 63;

/// A decoder for many scores of one sign: as numbers they are evenly spaced, upwards or downwards.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    mask: u64,
    step: u64,
    first: u64,
}

impl Numbers {
    /// The score whose delta is at the start of the word.
    #[inline(always)]
    pub fn score(&self, word: u64) -> f64 {
        f64::from_bits(self.first.wrapping_add((word & self.mask).wrapping_mul(self.step)))
    }
}

/// Eight bytes at `at`, zeros beyond the end.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(bytes, at),
    }
}

/// The existing ones of eight bytes at `at`, zeros beyond the end.
#[cold]
#[inline(never)]
fn last_word(column: &[u8], at: usize) -> u64 {
    let (mut bytes, rest) = ([0; 8], &column[at..]);
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

/// The largest delta of `width` bytes.
#[inline]
fn mask(width: u8) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - 8 * width as u32) }
}

#[cfg(test)]
mod tests {
    use super::super::key::score_to_bits;
    use super::*;
    use crate::random::Random;

    fn code_of(scores: &[f64]) -> FrameOfReference {
        let bits: Vec<u64> = scores.iter().map(|&s| score_to_bits(s)).collect();
        let code = FrameOfReference::fit(bits.iter().copied());
        for &score in &bits {
            let delta = code.encode(score).expect("a code expresses what it was fitted to");
            assert_eq!(code.decode(delta), score);
            let mut page = vec![0xaa; 16];
            code.write(&mut page, 3, delta);
            assert_eq!(code.read(&page, 3), delta);
            let decoder = code.decoder();
            assert_eq!(decoder.delta(&page[3..], 0), delta);
            page.truncate(3 + code.width());
            assert_eq!(code.read(&page, 3), delta);
            assert_eq!(decoder.delta(&page[3..], 0), delta);
            assert_eq!(code.lower_bound(score), Some((delta, true)));
        }
        code
    }

    #[test]
    fn neighbours_are_narrow() {
        let integers = |range: std::ops::Range<i64>| range.map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(code_of(&[7.5; 9]).width(), 0);
        assert_eq!(code_of(&integers(500_000..500_150)).width(), 1);
        assert_eq!(code_of(&integers(1..150)).width(), 2);
        assert_eq!(code_of(&integers(0..150)).width(), 3);
        assert_eq!(code_of(&integers(-500_150..-500_000)).width(), 1);
        assert_eq!(code_of(&integers(1_700_000_000_000..1_700_000_000_150)).width(), 1);
        assert_eq!(code_of(&[f64::NEG_INFINITY, 0.1, f64::INFINITY]).width(), 8);
        assert_eq!(code_of(&[-1.0, 1.0]).width(), 8);
    }

    #[test]
    fn bounds_agree_with_decoded_scores() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let near = random.next_u64() >> random.below(40);
            let spread = 1u64 << random.below(40);
            let scores: Vec<u64> = (0..1 + random.below(9))
                .map(|_| near.saturating_add(random.below(spread)) & !0 << random.below(30))
                .collect();
            let code = FrameOfReference::fit(scores.iter().copied());
            for _ in 0..20 {
                let probe = near.saturating_sub(spread).saturating_add(random.below(3 * spread));
                let least = code.least_delta(probe);
                for &score in &scores {
                    assert_eq!(code.encode(score).unwrap() < least, score < probe, "{code:?} {probe}");
                }
                match code.lower_bound(probe) {
                    None => assert!(scores.iter().all(|&s| s < probe)),
                    Some((delta, exact)) => {
                        for &score in &scores {
                            let stored = code.encode(score).unwrap();
                            assert_eq!(stored >= delta, score >= probe, "{code:?} {probe}");
                            assert_eq!(exact && stored == delta, score == probe, "{code:?} {probe}");
                        }
                    }
                }
            }
        }
    }
}
