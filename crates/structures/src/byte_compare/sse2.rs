//! x86-64: with SSE2, which is part of it (invariant 1 of [`super`]).

use super::{LANES, Line, NUMBERS, Narrowed, Row, narrowing, wanted};
use std::arch::x86_64::*;

narrowing!(#[inline]);

/// The `at`-th quarter.
#[inline(always)]
fn quarter(row: &Row, at: usize) -> __m128i {
    let bytes: &[u8; 16] = row[16 * at..16 * at + 16].try_into().expect("16 bytes");
    // SAFETY: invariants 1 and 2: the load needs no alignment, and `bytes` are 16.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline(always)]
pub(super) fn equal(row: &Row, byte: u8) -> u64 {
    let mut mask = 0;
    for at in 0..4 {
        // SAFETY: invariant 1.
        let equal = unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(quarter(row, at), _mm_set1_epi8(byte as i8))) };
        mask |= u64::from(equal as u32) << (16 * at);
    }
    mask
}

#[inline(always)]
fn less(row: &Row, byte: u8) -> u64 {
    let mut mask = 0;
    for at in 0..4 {
        let bytes = quarter(row, at);
        // max(b, byte) == b means not less: bytes have no unsigned comparison.
        // SAFETY: invariant 1.
        let not_less = unsafe {
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, _mm_set1_epi8(byte as i8)), bytes))
        };
        mask |= u64::from(!not_less as u16) << (16 * at);
    }
    mask
}

#[cfg_attr(target_feature = "avx2", allow(dead_code))]
#[inline(always)]
pub(super) fn sum_first(row: &Row, lanes_wanted: usize) -> usize {
    // SAFETY: invariants 1 and 2: each load needs no alignment, and is of 16 of 64 bytes.
    unsafe {
        let (zero, count) = (_mm_setzero_si128(), _mm_set1_epi8(lanes_wanted as i8));
        let mut total = zero;
        for start in (0..LANES).step_by(16) {
            let numbers = _mm_loadu_si128(NUMBERS.as_ptr().add(start).cast());
            let lanes = _mm_loadu_si128(row.as_ptr().add(wanted(start, lanes_wanted)).cast());
            let first = _mm_and_si128(lanes, _mm_cmpgt_epi8(count, numbers));
            total = _mm_add_epi64(total, _mm_sad_epu8(first, zero));
        }
        let high = _mm_unpackhi_epi64(total, total);
        _mm_cvtsi128_si64(_mm_add_epi64(total, high)) as usize
    }
}

#[cfg_attr(miri, allow(dead_code))]
#[inline(always)]
pub(super) fn equal_tags(slots: &Line, tag: u16) -> u32 {
    // SAFETY: invariants 1 and 2: the four loads are of the 64 aligned bytes of the line.
    unsafe {
        let line = slots.0.as_ptr().cast::<__m128>();
        // 0xdd selects the upper 32 bits of each of four slots; shifting right leaves the tag, sign-extended, which
        // the saturating pack preserves.
        let upper = |i: usize| {
            let pair =
                _mm_shuffle_ps::<0xdd>(_mm_load_ps(line.add(i).cast()), _mm_load_ps(line.add(i + 1).cast()));
            _mm_srai_epi32::<16>(_mm_castps_si128(pair))
        };
        let tags = _mm_packs_epi32(upper(0), upper(2));
        let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
    }
}

#[cfg_attr(miri, allow(dead_code))]
#[inline(always)]
pub(super) fn count_below(numbers: &[u32; 16], least: u32) -> usize {
    // SAFETY: invariants 1 and 2: the four loads are of the 64 bytes of the numbers.
    unsafe {
        // Only signed numbers have a comparison: flipping the sign bit maps the unsigned order to the signed one.
        let flip = _mm_set1_epi32(i32::MIN);
        let least = _mm_xor_si128(_mm_set1_epi32(least as i32), flip);
        let below = |at: usize| {
            let four = _mm_loadu_si128(numbers.as_ptr().add(4 * at).cast());
            _mm_cmpgt_epi32(least, _mm_xor_si128(four, flip))
        };
        let (low, high) = (_mm_packs_epi32(below(0), below(1)), _mm_packs_epi32(below(2), below(3)));
        (_mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32).trailing_ones() as usize
    }
}
