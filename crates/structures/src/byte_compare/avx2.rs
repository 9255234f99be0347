//! x86-64 with AVX2, which is every function's contract.

#[cfg(any(test, target_feature = "avx2"))]
use super::{LANES, NUMBERS, wanted};
use super::{Narrowed, Row, narrowing};
use std::arch::x86_64::*;

narrowing!(#[target_feature(enable = "avx2")]);

/// The `at`-th half.
#[target_feature(enable = "avx2")]
#[inline]
fn half(row: &Row, at: usize) -> __m256i {
    let bytes: &[u8; 32] = row[32 * at..32 * at + 32].try_into().expect("32 bytes");
    // SAFETY: `bytes` is 32 readable bytes, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn equal(row: &Row, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 0), byte)) as u32;
    let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 1), byte)) as u32;
    u64::from(low) | u64::from(high) << 32
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn less(row: &Row, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    let not_less = |bytes| _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, byte), bytes);
    let low = _mm256_movemask_epi8(not_less(half(row, 0))) as u32;
    let high = _mm256_movemask_epi8(not_less(half(row, 1))) as u32;
    !(u64::from(low) | u64::from(high) << 32)
}

/// # Safety
/// The processor has AVX2.
#[cfg(any(test, target_feature = "avx2"))]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn sum_first(row: &Row, lanes_wanted: usize) -> usize {
    let (zero, count) = (_mm256_setzero_si256(), _mm256_set1_epi8(lanes_wanted as i8));
    let mut total = zero;
    for start in (0..LANES).step_by(32) {
        // SAFETY: each unaligned load covers 32 of 64 bytes.
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
