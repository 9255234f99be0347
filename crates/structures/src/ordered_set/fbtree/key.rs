//! The tree's key: a score as 8 big-endian bytes whose byte order is the order of scores, then the member.

use super::inner::{PREFIX_MAX, ROWS};
use std::cmp::Ordering;

/// Length of the score's part of every key.
pub(super) const SCORE_BYTES: usize = 8;

/// `(score, member)` as the tree orders them. Deriving the order field by field equals comparing the
/// concatenated bytes, because the score's part has a fixed length and is compared as a big-endian number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'a> {
    /// The score as [`score_to_bits`] orders it.
    pub score: u64,
    /// The member's bytes.
    pub member: &'a [u8],
}

/// The member before all others. It is in mapped memory: processors take a hundred times as long for a comparison of no
/// bytes at an unmapped address, which was three quarters of ZCOUNT.
#[inline]
pub(super) fn below_all() -> &'static [u8] {
    static SOMEWHERE: [u8; 1] = [0];
    &SOMEWHERE[..0]
}

/// Maps scores to integers of the same order: negative numbers have all bits flipped, others the sign bit. -0.0 becomes
/// 0.0. The caller must reject NaN.
#[inline]
pub(super) fn score_to_bits(score: f64) -> u64 {
    assert!(!score.is_nan(), "a score is never NaN");
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

/// The inverse of [`score_to_bits`].
#[inline]
pub(super) fn bits_to_score(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits })
}

impl Key<'_> {
    /// Length of the key in bytes.
    pub fn len(&self) -> usize {
        SCORE_BYTES + self.member.len()
    }

    /// The byte at `at`; 0 beyond the end.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        if at < SCORE_BYTES {
            (self.score >> (56 - 8 * at)) as u8
        } else {
            self.member.get(at - SCORE_BYTES).copied().unwrap_or(0)
        }
    }

    /// The bytes a node compares after its prefix: those from `at` on, zeros beyond the end.
    #[inline]
    pub fn feature(&self, at: usize) -> [u8; ROWS] {
        if at + ROWS <= SCORE_BYTES {
            let bytes = (self.score << (8 * at)).to_be_bytes();
            std::array::from_fn(|row| bytes[row])
        } else {
            std::array::from_fn(|row| self.byte(at + row))
        }
    }

    /// Compares the key with the first `len` bytes of `prefix`; `Equal` when it starts with them. The first `skip` are
    /// known to be equal.
    #[inline]
    pub fn compare_prefix(&self, prefix: &[u8; PREFIX_MAX], len: usize, skip: usize) -> Ordering {
        if skip >= len {
            return Ordering::Equal;
        }
        let [a, b, c, d, e, f, g, h, rest @ ..] = prefix;
        let beyond = 8 * (SCORE_BYTES - len.min(SCORE_BYTES));
        let score = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        match (self.score >> beyond).cmp(&(score >> beyond)) {
            Ordering::Equal if len > SCORE_BYTES => self.compare_member(&rest[..len - SCORE_BYTES], skip),
            order => order,
        }
    }

    /// Compares the member with the part of a prefix behind the score. `skip` counts from the key's first byte.
    #[inline(never)]
    fn compare_member(&self, rest: &[u8], skip: usize) -> Ordering {
        let from = skip.max(SCORE_BYTES) - SCORE_BYTES;
        let mine = &self.member[from.min(self.member.len())..self.member.len().min(rest.len())];
        mine.cmp(&rest[from..])
    }

    /// The number of leading bytes that the key shares with `bytes`.
    pub fn shared_with(&self, bytes: &[u8]) -> usize {
        let shared = (0..bytes.len().min(self.len())).take_while(|&at| self.byte(at) == bytes[at]);
        shared.count()
    }

    /// The number of leading bytes that two keys share, at most `limit`.
    pub fn shared_prefix(&self, other: &Key<'_>, limit: usize) -> usize {
        if self.score != other.score {
            return ((self.score ^ other.score).leading_zeros() as usize / 8).min(limit);
        }
        let pairs = self.member.iter().zip(other.member).take(limit.saturating_sub(SCORE_BYTES));
        (SCORE_BYTES + pairs.take_while(|(a, b)| a == b).count()).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(key: &Key<'_>) -> Vec<u8> {
        [&key.score.to_be_bytes(), key.member].concat()
    }

    #[test]
    fn bits_order_as_scores_and_come_back() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -2.0, -1.0, -1e-310, 0.0, 1e-310, 1.0, 2.0, 1e300, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(score_to_bits(pair[0]) < score_to_bits(pair[1]), "{pair:?}");
        }
        for score in scores {
            assert_eq!(bits_to_score(score_to_bits(score)), score);
        }
        assert_eq!(score_to_bits(-0.0), score_to_bits(0.0));
        assert!(bits_to_score(score_to_bits(-0.0)).is_sign_positive());
        assert_eq!(score_to_bits(1.0).to_be_bytes(), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(score_to_bits(-1.0).to_be_bytes(), [0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    #[should_panic(expected = "never NaN")]
    fn nan_is_refused() {
        score_to_bits(f64::NAN);
    }

    #[test]
    fn keys_compare_as_their_bytes() {
        let members: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"ab", b"\xff", b"\xff\xff"];
        let keys: Vec<Key> = [-1.0, 0.0, 256.0]
            .iter()
            .flat_map(|&score| members.map(|member| Key { score: score_to_bits(score), member }))
            .collect();
        for a in &keys {
            for b in &keys {
                assert_eq!(a.cmp(b), bytes(a).cmp(&bytes(b)));
                let shared = bytes(a).iter().zip(&bytes(b)).take_while(|(x, y)| x == y).count();
                assert_eq!(a.shared_prefix(b, 100), shared);
                assert_eq!(a.shared_prefix(b, 3), shared.min(3));
                assert_eq!(a.shared_with(&bytes(b)), shared);
                let padded = [bytes(b), vec![0xaa; PREFIX_MAX]].concat();
                let whole = padded.first_chunk().unwrap();
                for len in 0..=bytes(b).len() {
                    let prefix = &bytes(b)[..len];
                    let mine = &bytes(a)[..len.min(a.len())];
                    for skip in 0..=shared.min(len) {
                        assert_eq!(
                            a.compare_prefix(whole, len, skip),
                            mine.cmp(prefix),
                            "{a:?} {prefix:?} {skip}"
                        );
                    }
                }
            }
            for at in 0..a.len() + 2 {
                let padded = [bytes(a), vec![0; 16]].concat();
                assert_eq!(a.feature(at), padded[at..at + ROWS]);
            }
        }
    }
}
