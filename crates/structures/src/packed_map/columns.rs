//! The two vector operations of a page: which tags equal a byte, and the sum of the first so many lengths.
//!
//! Both take 64 lanes at once and do not branch on what they find: a page seldom has more, and a loop whose
//! length depends on the data costs a mispredicted branch, more than the lanes that are masked away.
//!
//! Each exists in a plain form and in one form per instruction set; tests hold them equal. SSE2 and NEON are
//! part of their architecture's baseline. AVX2 is used when the build targets it: choosing at run time costs
//! a call that cannot be inlined, which is more than wider lanes save.

/// Lanes of one step. Page capacities are multiples of it.
pub(super) const GROUP: usize = 64;

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
use avx2 as chosen;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use neon as chosen;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
use plain as chosen;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
use sse2 as chosen;

/// Bit `i` is set where `group[i] == byte`.
#[inline(always)]
pub(super) fn equal_mask(group: &[u8; GROUP], byte: u8) -> u64 {
    // SAFETY: `chosen` is what the build targets.
    unsafe { chosen::equal_mask(group, byte) }
}

/// The sum of `bytes[start..end]`; reads no further than `bytes`.
#[inline(always)]
pub(super) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
    let (mut total, mut at) = (0, start);
    while let Some(group) = bytes[at..].first_chunk() {
        let left = end - at;
        // SAFETY: `chosen` is what the build targets.
        total += unsafe { chosen::sum_first(group, left.min(GROUP)) };
        if left <= GROUP {
            return total;
        }
        at += GROUP;
    }
    total + bytes[at..end].iter().map(|&byte| usize::from(byte)).sum::<usize>()
}

/// How many of `bytes[start..end]` equal `byte`. Only pages with large records ask.
pub(super) fn count_equal(bytes: &[u8], start: usize, end: usize, byte: u8) -> usize {
    bytes[start..end].iter().filter(|&&b| b == byte).count()
}

#[cfg(any(test, not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))))]
mod plain {
    use super::GROUP;

    /// # Safety
    /// None is needed; the other forms need theirs.
    pub(super) unsafe fn equal_mask(group: &[u8; GROUP], byte: u8) -> u64 {
        group.iter().enumerate().fold(0, |mask, (i, &b)| mask | (u64::from(b == byte) << i))
    }

    /// # Safety
    /// None is needed; the other forms need theirs.
    pub(super) unsafe fn sum_first(group: &[u8; GROUP], count: usize) -> usize {
        group[..count].iter().map(|&b| usize::from(b)).sum()
    }
}

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
static LANES: [u8; GROUP] = {
    let mut lanes = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        lanes[i] = i as u8;
        i += 1;
    }
    lanes
};

/// `start` if a lane from there on is wanted, else 0: lanes that are masked away must not fetch their line.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[inline(always)]
fn wanted(start: usize, lanes_wanted: usize) -> usize {
    if start < lanes_wanted { start } else { 0 }
}

#[cfg(all(target_arch = "x86_64", any(test, not(target_feature = "avx2"))))]
mod sse2 {
    use super::{GROUP, LANES, wanted};
    use std::arch::x86_64::*;

    /// # Safety
    /// None is needed: SSE2 is part of x86-64.
    #[inline(always)]
    pub(super) unsafe fn equal_mask(group: &[u8; GROUP], byte: u8) -> u64 {
        let mut mask = 0;
        for start in (0..GROUP).step_by(16) {
            // SAFETY: SSE2 is part of x86-64; the unaligned load covers 16 bytes of `group`.
            mask |= unsafe {
                let lanes = _mm_loadu_si128(group.as_ptr().add(start).cast());
                let equal = _mm_cmpeq_epi8(lanes, _mm_set1_epi8(byte as i8));
                u64::from(_mm_movemask_epi8(equal) as u32) << start
            };
        }
        mask
    }

    /// # Safety
    /// None is needed: SSE2 is part of x86-64.
    #[inline(always)]
    pub(super) unsafe fn sum_first(group: &[u8; GROUP], lanes_wanted: usize) -> usize {
        // SAFETY: SSE2 is part of x86-64; each unaligned load covers 16 of 64 bytes.
        unsafe {
            let (zero, count) = (_mm_setzero_si128(), _mm_set1_epi8(lanes_wanted as i8));
            let mut total = zero;
            for start in (0..GROUP).step_by(16) {
                let numbers = _mm_loadu_si128(LANES.as_ptr().add(start).cast());
                let lanes = _mm_loadu_si128(group.as_ptr().add(wanted(start, lanes_wanted)).cast());
                let first = _mm_and_si128(lanes, _mm_cmpgt_epi8(count, numbers));
                total = _mm_add_epi64(total, _mm_sad_epu8(first, zero));
            }
            let high = _mm_unpackhi_epi64(total, total);
            _mm_cvtsi128_si64(_mm_add_epi64(total, high)) as usize
        }
    }
}

#[cfg(all(target_arch = "x86_64", any(test, target_feature = "avx2")))]
mod avx2 {
    use super::{GROUP, LANES, wanted};
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn equal_mask(group: &[u8; GROUP], byte: u8) -> u64 {
        let mut mask = 0;
        for start in (0..GROUP).step_by(32) {
            // SAFETY: the unaligned load covers 32 bytes of `group`.
            let lanes = unsafe { _mm256_loadu_si256(group.as_ptr().add(start).cast()) };
            let equal = _mm256_cmpeq_epi8(lanes, _mm256_set1_epi8(byte as i8));
            mask |= u64::from(_mm256_movemask_epi8(equal) as u32) << start;
        }
        mask
    }

    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn sum_first(group: &[u8; GROUP], lanes_wanted: usize) -> usize {
        let (zero, count) = (_mm256_setzero_si256(), _mm256_set1_epi8(lanes_wanted as i8));
        let mut total = zero;
        for start in (0..GROUP).step_by(32) {
            // SAFETY: each unaligned load covers 32 of 64 bytes.
            let (numbers, lanes) = unsafe {
                (
                    _mm256_loadu_si256(LANES.as_ptr().add(start).cast()),
                    _mm256_loadu_si256(group.as_ptr().add(wanted(start, lanes_wanted)).cast()),
                )
            };
            let first = _mm256_and_si256(lanes, _mm256_cmpgt_epi8(count, numbers));
            total = _mm256_add_epi64(total, _mm256_sad_epu8(first, zero));
        }
        let half = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
        _mm_cvtsi128_si64(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half))) as usize
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon {
    use super::{GROUP, LANES, wanted};
    use std::arch::aarch64::*;

    const BIT_OF_LANE: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

    /// # Safety
    /// None is needed: NEON is part of AArch64.
    #[inline(always)]
    pub(super) unsafe fn equal_mask(group: &[u8; GROUP], byte: u8) -> u64 {
        // SAFETY: NEON is part of AArch64; each load covers 16 bytes of an array at least that long.
        unsafe {
            let (wanted, bits) = (vdupq_n_u8(byte), vld1q_u8(BIT_OF_LANE.as_ptr()));
            let part = |start| vandq_u8(vceqq_u8(vld1q_u8(group.as_ptr().add(start)), wanted), bits);
            let low = vpaddq_u8(part(0), part(16));
            let high = vpaddq_u8(part(32), part(48));
            let quads = vpaddq_u8(low, high);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(quads, quads)))
        }
    }

    /// # Safety
    /// None is needed: NEON is part of AArch64.
    #[inline(always)]
    pub(super) unsafe fn sum_first(group: &[u8; GROUP], lanes_wanted: usize) -> usize {
        // SAFETY: NEON is part of AArch64; each load covers 16 of 64 bytes.
        unsafe {
            let count = vdupq_n_u8(lanes_wanted as u8);
            let mut total = vdupq_n_u16(0);
            for start in (0..GROUP).step_by(16) {
                let below = vcltq_u8(vld1q_u8(LANES.as_ptr().add(start)), count);
                total = vpadalq_u8(
                    total,
                    vandq_u8(vld1q_u8(group.as_ptr().add(wanted(start, lanes_wanted))), below),
                );
            }
            vaddlvq_u16(total) as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scaled;
    use crate::random::Random;

    #[test]
    fn every_form_finds_the_same_tags() {
        let mut random = Random::new(1);
        for round in 0..scaled(3_000) {
            let distinct = 1 + random.below(if round % 2 == 0 { 3 } else { 256 });
            let group: [u8; GROUP] = std::array::from_fn(|_| random.below(distinct) as u8);
            let byte = random.below(distinct) as u8;
            // SAFETY: the plain form runs anywhere.
            let expected = unsafe { plain::equal_mask(&group, byte) };
            assert_eq!(equal_mask(&group, byte), expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: detected on the line above.
                assert_eq!(unsafe { avx2::equal_mask(&group, byte) }, expected);
            }
        }
    }

    #[test]
    fn every_form_sums_alike() {
        let mut random = Random::new(2);
        for round in 0..scaled(1_000) {
            let group: [u8; GROUP] =
                std::array::from_fn(|_| if round == 0 { 255 } else { random.next_u64() as u8 });
            for count in 0..=GROUP {
                // SAFETY: the plain form runs anywhere.
                let expected = unsafe { plain::sum_first(&group, count) };
                assert_eq!(sum(&group, 0, count), expected);
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: detected on the line above.
                    assert_eq!(unsafe { avx2::sum_first(&group, count) }, expected);
                }
            }
        }
    }

    #[test]
    fn sums_of_any_range_stay_within_the_bytes() {
        let mut random = Random::new(3);
        let bytes: Vec<u8> =
            (0..if cfg!(miri) { 70 } else { 200 }).map(|_| random.next_u64() as u8).collect();
        for start in 0..bytes.len() {
            for end in (start..=bytes.len()).step_by(3) {
                let expected: usize = bytes[start..end].iter().map(|&byte| usize::from(byte)).sum();
                assert_eq!(sum(&bytes, start, end), expected, "{start}..{end}");
                let ones = bytes[start..end].iter().filter(|&&byte| byte == bytes[0]).count();
                assert_eq!(count_equal(&bytes, start, end, bytes[0]), ones);
            }
        }
    }
}
