//! The two vector operations of a page: which tags equal a byte, and the sum of a run of lengths.
//!
//! Each exists in a plain form and in one form per instruction set; tests hold them equal. SSE2 and NEON are
//! part of their architecture's baseline. AVX2 is used when the build targets it: choosing at run time costs
//! a call that cannot be inlined, which is more than one 32-byte compare saves over two of 16.

/// Tags compared in one step. Page capacities are multiples of it.
pub(super) const GROUP: usize = 32;

/// Bit `i` is set where `group[i] == byte`.
#[inline(always)]
pub(super) fn equal_mask(group: &[u8; GROUP], byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    // SAFETY: the build targets AVX2.
    return unsafe { avx2::equal_mask(group, byte) };
    #[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
    return sse2::equal_mask(group, byte);
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    return neon::equal_mask(group, byte);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
    plain::equal_mask(group, byte)
}

/// The sum of `bytes[start..end]`. Bytes before `start` may be read, none at or after `end`.
#[inline(always)]
pub(super) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return sse2::sum(bytes, start, end);
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    return neon::sum(bytes, start, end);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
    plain::sum(bytes, start, end)
}

/// How many of `bytes[start..end]` equal `byte`. Only pages with large records ask.
pub(super) fn count_equal(bytes: &[u8], start: usize, end: usize, byte: u8) -> usize {
    bytes[start..end].iter().filter(|&&b| b == byte).count()
}

#[cfg(any(test, not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))))]
mod plain {
    use super::GROUP;

    pub(super) fn equal_mask(group: &[u8; GROUP], byte: u8) -> u32 {
        group.iter().enumerate().fold(0, |mask, (i, &b)| mask | (u32::from(b == byte) << i))
    }

    pub(super) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
        bytes[start..end].iter().map(|&b| usize::from(b)).sum()
    }
}

/// 16 bytes of 0, then 16 of 255: read from `n`, it keeps the last `n` lanes.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
const KEEP_LAST: [u8; 32] = {
    let mut lanes = [0; 32];
    let mut i = 16;
    while i < 32 {
        lanes[i] = 255;
        i += 1;
    }
    lanes
};

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::{GROUP, KEEP_LAST};
    use std::arch::x86_64::*;

    #[cfg(any(test, not(target_feature = "avx2")))]
    #[inline(always)]
    pub(super) fn equal_mask(group: &[u8; GROUP], byte: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64; both loads are unaligned and lie within the 32 bytes of `group`.
        unsafe {
            let wanted = _mm_set1_epi8(byte as i8);
            let low = _mm_loadu_si128(group.as_ptr().cast());
            let high = _mm_loadu_si128(group.as_ptr().add(16).cast());
            let low = _mm_movemask_epi8(_mm_cmpeq_epi8(low, wanted)) as u32;
            let high = _mm_movemask_epi8(_mm_cmpeq_epi8(high, wanted)) as u32;
            low | high << 16
        }
    }

    #[inline(always)]
    pub(super) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
        let bytes = &bytes[..end];
        if end < 16 {
            return bytes[start..].iter().map(|&b| usize::from(b)).sum();
        }
        let tail = (end - start) % 16;
        // SAFETY: SSE2 is part of x86-64. The tail load covers `end - 16..end` with `end >= 16`; the others
        // cover 16 bytes each from `start` on and stop `tail` bytes before `end`; the mask load covers
        // `tail..tail + 16` of 32 bytes.
        unsafe {
            let keep = _mm_loadu_si128(KEEP_LAST.as_ptr().add(tail).cast());
            let last = _mm_loadu_si128(bytes.as_ptr().add(end - 16).cast());
            let mut total = _mm_sad_epu8(_mm_and_si128(last, keep), _mm_setzero_si128());
            let mut at = start;
            while at + 16 <= end {
                let group = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
                total = _mm_add_epi64(total, _mm_sad_epu8(group, _mm_setzero_si128()));
                at += 16;
            }
            let high = _mm_unpackhi_epi64(total, total);
            _mm_cvtsi128_si64(_mm_add_epi64(total, high)) as usize
        }
    }
}

#[cfg(all(target_arch = "x86_64", any(test, target_feature = "avx2")))]
mod avx2 {
    use super::GROUP;
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn equal_mask(group: &[u8; GROUP], byte: u8) -> u32 {
        // SAFETY: the unaligned load covers exactly the 32 bytes of `group`.
        let lanes = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(lanes, _mm256_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon {
    use super::{GROUP, KEEP_LAST};
    use std::arch::aarch64::*;

    const BIT_OF_LANE: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

    #[inline(always)]
    pub(super) fn equal_mask(group: &[u8; GROUP], byte: u8) -> u32 {
        // SAFETY: NEON is part of AArch64; each load covers 16 bytes of a slice at least that long.
        unsafe {
            let wanted = vdupq_n_u8(byte);
            let bits = vld1q_u8(BIT_OF_LANE.as_ptr());
            let low = vandq_u8(vceqq_u8(vld1q_u8(group.as_ptr()), wanted), bits);
            let high = vandq_u8(vceqq_u8(vld1q_u8(group.as_ptr().add(16)), wanted), bits);
            let pairs = vpaddq_u8(low, high);
            let quads = vpaddq_u8(pairs, pairs);
            let octets = vpaddq_u8(quads, quads);
            vgetq_lane_u32::<0>(vreinterpretq_u32_u8(octets))
        }
    }

    #[inline(always)]
    pub(super) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
        let bytes = &bytes[..end];
        if end < 16 {
            return bytes[start..].iter().map(|&b| usize::from(b)).sum();
        }
        let tail = (end - start) % 16;
        // SAFETY: NEON is part of AArch64. The tail load covers `end - 16..end` with `end >= 16`; the others
        // cover 16 bytes each from `start` on and stop `tail` bytes before `end`; the mask load covers
        // `tail..tail + 16` of 32 bytes.
        unsafe {
            let keep = vld1q_u8(KEEP_LAST.as_ptr().add(tail));
            let last = vld1q_u8(bytes.as_ptr().add(end - 16));
            let mut total = usize::from(vaddlvq_u8(vandq_u8(last, keep)));
            let mut at = start;
            while at + 16 <= end {
                total += usize::from(vaddlvq_u8(vld1q_u8(bytes.as_ptr().add(at))));
                at += 16;
            }
            total
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_form_finds_the_same_tags() {
        let mut random = Random::new(1);
        for round in 0..if cfg!(miri) { 50 } else { 2_000 } {
            let distinct = 1 + random.below(if round % 2 == 0 { 3 } else { 256 });
            let group: [u8; GROUP] = std::array::from_fn(|_| random.below(distinct) as u8);
            let byte = random.below(distinct) as u8;
            let expected = plain::equal_mask(&group, byte);
            assert_eq!(equal_mask(&group, byte), expected);
            #[cfg(target_arch = "x86_64")]
            {
                assert_eq!(sse2::equal_mask(&group, byte), expected);
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: detected on the line above.
                    assert_eq!(unsafe { avx2::equal_mask(&group, byte) }, expected);
                }
            }
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            assert_eq!(neon::equal_mask(&group, byte), expected);
        }
    }

    #[test]
    fn every_form_sums_alike() {
        let mut random = Random::new(2);
        let bytes: Vec<u8> = (0..if cfg!(miri) { 35 } else { 96 }).map(|_| random.next_u64() as u8).collect();
        for start in 0..bytes.len() {
            for end in start..=bytes.len() {
                assert_eq!(sum(&bytes, start, end), plain::sum(&bytes, start, end), "{start}..{end}");
            }
        }
    }
}
