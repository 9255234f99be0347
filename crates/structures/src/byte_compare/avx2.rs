//! x86-64 with AVX2, which every caller's processor must have (invariant 1 of [`super`]).

use super::{Column, Narrowed, Row, narrowing};
#[cfg(any(test, target_feature = "avx2"))]
use super::{LANES, NUMBERS, wanted};
use std::arch::x86_64::*;

narrowing!(#[target_feature(enable = "avx2")]);

/// The `at`-th half.
#[target_feature(enable = "avx2")]
#[inline]
fn half(row: &Row, at: usize) -> __m256i {
    let bytes: &[u8; 32] = row[32 * at..32 * at + 32].try_into().expect("32 bytes");
    // SAFETY: invariant 2: the load needs no alignment, and `bytes` are 32.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn equal(row: &Row, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 0), byte)) as u32;
    let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 1), byte)) as u32;
    u64::from(low) | u64::from(high) << 32
}

#[target_feature(enable = "avx2")]
#[inline]
fn less(row: &Row, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    let not_less = |bytes| _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, byte), bytes);
    let low = _mm256_movemask_epi8(not_less(half(row, 0))) as u32;
    let high = _mm256_movemask_epi8(not_less(half(row, 1))) as u32;
    !(u64::from(low) | u64::from(high) << 32)
}

#[cfg(any(test, target_feature = "avx2"))]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn sum_first(row: &Row, lanes_wanted: usize) -> usize {
    let (zero, count) = (_mm256_setzero_si256(), _mm256_set1_epi8(lanes_wanted as i8));
    let mut total = zero;
    for start in (0..LANES).step_by(32) {
        // SAFETY: invariant 2: each load needs no alignment, and is of 32 of 64 bytes.
        let (numbers, lanes) = unsafe {
            (
                _mm256_loadu_si256(NUMBERS.as_ptr().add(start).cast()),
                _mm256_loadu_si256(row.as_ptr().add(wanted(start, lanes_wanted)).cast()),
            )
        };
        let first = _mm256_and_si256(lanes, _mm256_cmpgt_epi8(count, numbers));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(first, zero));
    }
    let half = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
    _mm_cvtsi128_si64(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half))) as usize
}

/// Numbers compared first.
const SAMPLES: usize = 8;

/// The shuffle that moves two numbers of a width from 16 bytes to words of their own, and the mask of a number's bits.
struct Widen {
    shuffle: [u8; 16],
    mask: u64,
}

/// Indexed by width. Eight bytes are missing: only signed words have a comparison.
static WIDEN: [Widen; 8] = {
    let mut all = [const { Widen { shuffle: [0x80; 16], mask: 0 } }; 8];
    let mut width = 1;
    while width < 8 {
        let mut byte = 0;
        while byte < width {
            all[width].shuffle[byte] = byte as u8;
            all[width].shuffle[8 + byte] = (width + byte) as u8;
            byte += 1;
        }
        all[width].mask = u64::MAX >> (64 - 8 * width);
        width += 1;
    }
    all
};

/// See [`super::Simd::count_below`]. Compares the last number of each eighth, then all of one eighth: no branch on the
/// results.
#[target_feature(enable = "avx2")]
pub(super) fn count_below<const N: usize>(column: &Column<'_>, least: [u64; N]) -> Option<[usize; N]> {
    let Column { bytes, width, count } = *column;
    let widen = WIDEN.get(width)?;
    if count < 2 * SAMPLES || bytes.len() < count * width + 16 {
        return None;
    }
    let part = count / SAMPLES;
    // Four numbers at a time, and the rest behind the last whole part.
    let fours = part.div_ceil(4).max(SAMPLES / 4);
    // SAFETY: invariant 2: the column has `count` numbers and 16 bytes more. A sample is below `SAMPLES * part <= count`,
    // and the loads of a part begin at most `4 * fours <= count` numbers before the end.
    unsafe {
        let step = part * width;
        let last = bytes.as_ptr().add(step).sub(width);
        let sample = |nth: usize| last.add(step * nth).cast::<i64>().read_unaligned();
        let mask = _mm256_set1_epi64x(widen.mask as i64);
        let samples = [0, 4].map(|at| {
            let words = _mm256_set_epi64x(sample(at + 3), sample(at + 2), sample(at + 1), sample(at));
            _mm256_and_si256(words, mask)
        });
        let shuffle = _mm256_broadcastsi128_si256(_mm_loadu_si128(widen.shuffle.as_ptr().cast()));
        Some(least.map(|least| {
            let bound = _mm256_set1_epi64x(least.min(i64::MAX as u64) as i64);
            let below = samples.map(|words| _mm256_cmpgt_epi64(bound, words));
            let first = (part * negative_sum(_mm256_add_epi64(below[0], below[1]))).min(count - 4 * fours);
            let (mut at, mut left) = (bytes.as_ptr().add(first * width), fours);
            let mut below = _mm256_setzero_si256();
            while left > 0 {
                let pair = |at: *const u8| _mm_loadu_si128(at.cast());
                let pairs = _mm256_set_m128i(pair(at.add(2 * width)), pair(at));
                let words = _mm256_shuffle_epi8(pairs, shuffle);
                below = _mm256_add_epi64(below, _mm256_cmpgt_epi64(bound, words));
                at = at.add(4 * width);
                left -= 1;
            }
            first + negative_sum(below)
        }))
    }
}

/// The negated sum of four words.
#[target_feature(enable = "avx2")]
#[inline]
fn negative_sum(words: __m256i) -> usize {
    let half = _mm_add_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
    (-_mm_cvtsi128_si64(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half)))) as usize
}

/// What a build that targets AVX2 calls everywhere.
#[cfg(target_feature = "avx2")]
pub(super) mod built_for {
    use super::Row;

    #[inline(always)]
    pub(in super::super) fn equal(row: &Row, byte: u8) -> u64 {
        // SAFETY: invariant 1: the build targets AVX2.
        unsafe { super::equal(row, byte) }
    }

    #[inline(always)]
    pub(in super::super) fn sum_first(row: &Row, lanes_wanted: usize) -> usize {
        // SAFETY: invariant 1: the build targets AVX2.
        unsafe { super::sum_first(row, lanes_wanted) }
    }
}
