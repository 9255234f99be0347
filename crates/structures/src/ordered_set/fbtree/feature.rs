//! Comparing a byte with 64 bytes at once: feature rows of inner nodes and tag columns of leaves.
//!
//! Four versions of two primitives, chosen once per tree: AVX2, SSE2, NEON and plain code. All are tested
//! equal on random input.

use super::inner::ROWS;

/// 64 bytes compared together: one feature of every child of a node, or 64 tags.
pub(super) type Row = [u8; 64];

/// The instruction set that compares rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Simd {
    #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), allow(dead_code))]
    Plain,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Simd {
    /// The widest this machine has.
    pub fn detect() -> Simd {
        #[cfg(target_arch = "x86_64")]
        return if is_x86_feature_detected!("avx2") { Simd::Avx2 } else { Simd::Sse2 };
        #[cfg(target_arch = "aarch64")]
        return Simd::Neon;
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Simd::Plain
    }
}

/// Where a key's feature bytes lie among the features of a node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrowed {
    /// So many children have lower features; none has equal ones.
    Between(usize),
    /// The children `from..to` have exactly these features.
    Tied { from: usize, to: usize },
}

macro_rules! narrowing {
    ($(#[$attribute:meta])* $visibility:vis $name:ident, $equal:ident, $less:ident) => {
        $(#[$attribute])*
        $visibility fn $name(rows: &[Row; ROWS], feature: [u8; ROWS], live: u64) -> Narrowed {
            let mut tied = live;
            for (row, &byte) in rows.iter().zip(&feature) {
                let equal = $equal(row, byte) & tied;
                if equal == 0 {
                    let less = $less(row, byte) & tied;
                    return Narrowed::Between((tied.trailing_zeros() + less.count_ones()) as usize);
                }
                tied = equal;
            }
            let from = tied.trailing_zeros() as usize;
            Narrowed::Tied { from, to: from + tied.count_ones() as usize }
        }
    };
}

/// Narrows the children `live` (a run of low bits, not 0) to those whose features equal `feature`. The columns
/// must be sorted lexicographically, which a node's are.
#[inline]
pub(super) fn narrow(simd: Simd, rows: &[Row; ROWS], feature: [u8; ROWS], live: u64) -> Narrowed {
    match simd {
        Simd::Plain => narrow_plain(rows, feature, live),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is in the baseline of x86-64.
        Simd::Sse2 => unsafe { narrow_sse2(rows, feature, live) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::Avx2` is only made by `Simd::detect` (and tests) after detecting AVX2.
        Simd::Avx2 => unsafe { narrow_avx2(rows, feature, live) },
        #[cfg(target_arch = "aarch64")]
        Simd::Neon => narrow_neon(rows, feature, live),
    }
}

/// The set of positions in `row` that hold `byte`, position 0 in the lowest bit.
#[inline]
pub(super) fn equal(simd: Simd, row: &Row, byte: u8) -> u64 {
    match simd {
        Simd::Plain => equal_plain(row, byte),
        // Four inlined SSE2 compares need no call, which two AVX2 compares would.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is in the baseline of x86-64.
        Simd::Sse2 | Simd::Avx2 => unsafe { equal_sse2(row, byte) },
        #[cfg(target_arch = "aarch64")]
        Simd::Neon => equal_neon(row, byte),
    }
}

narrowing!(narrow_plain, equal_plain, less_plain);

fn equal_plain(row: &Row, byte: u8) -> u64 {
    row.iter().enumerate().fold(0, |mask, (at, &b)| mask | u64::from(b == byte) << at)
}

fn less_plain(row: &Row, byte: u8) -> u64 {
    row.iter().enumerate().fold(0, |mask, (at, &b)| mask | u64::from(b < byte) << at)
}

#[cfg(target_arch = "x86_64")]
use x86::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Narrowed, ROWS, Row};
    use std::arch::x86_64::*;

    narrowing!(
        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) narrow_sse2, equal_sse2, less_sse2);
    narrowing!(
        #[target_feature(enable = "avx2")]
        pub(super) narrow_avx2, equal_avx2, less_avx2);

    #[inline]
    #[target_feature(enable = "sse2")]
    fn quarter(row: &Row, at: usize) -> __m128i {
        let bytes: &[u8; 16] = row[16 * at..16 * at + 16].try_into().expect("16 bytes");
        // SAFETY: `bytes` is 16 readable bytes, and the load asks for no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn equal_sse2(row: &Row, byte: u8) -> u64 {
        let byte = _mm_set1_epi8(byte as i8);
        (0..4).fold(0, |mask, at| {
            let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(quarter(row, at), byte));
            mask | u64::from(equal as u16) << (16 * at)
        })
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn less_sse2(row: &Row, byte: u8) -> u64 {
        let byte = _mm_set1_epi8(byte as i8);
        (0..4).fold(0, |mask, at| {
            // max(b, byte) == b means not less: bytes have no unsigned comparison of their own.
            let bytes = quarter(row, at);
            let not_less = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, byte), bytes));
            mask | u64::from(!not_less as u16) << (16 * at)
        })
    }

    #[target_feature(enable = "avx2")]
    fn half(row: &Row, at: usize) -> __m256i {
        let bytes: &[u8; 32] = row[32 * at..32 * at + 32].try_into().expect("32 bytes");
        // SAFETY: `bytes` is 32 readable bytes, and the load asks for no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn equal_avx2(row: &Row, byte: u8) -> u64 {
        let byte = _mm256_set1_epi8(byte as i8);
        let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 0), byte)) as u32;
        let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half(row, 1), byte)) as u32;
        u64::from(low) | u64::from(high) << 32
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn less_avx2(row: &Row, byte: u8) -> u64 {
        let byte = _mm256_set1_epi8(byte as i8);
        let not_less = |bytes| _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, byte), bytes);
        let low = _mm256_movemask_epi8(not_less(half(row, 0))) as u32;
        let high = _mm256_movemask_epi8(not_less(half(row, 1))) as u32;
        !(u64::from(low) | u64::from(high) << 32)
    }
}

#[cfg(target_arch = "aarch64")]
use neon::*;

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::{Narrowed, ROWS, Row};
    use std::arch::aarch64::*;

    narrowing!(
        #[inline]
        pub(super) narrow_neon, equal_neon, less_neon);

    #[inline]
    pub(super) fn equal_neon(row: &Row, byte: u8) -> u64 {
        // SAFETY: every AArch64 processor this crate is built for has NEON (it is in the target's baseline).
        unsafe {
            let byte = vdupq_n_u8(byte);
            mask(std::array::from_fn(|at| vceqq_u8(quarter(row, at), byte)))
        }
    }

    #[inline]
    fn less_neon(row: &Row, byte: u8) -> u64 {
        // SAFETY: as in `equal_neon`.
        unsafe {
            let byte = vdupq_n_u8(byte);
            mask(std::array::from_fn(|at| vcltq_u8(quarter(row, at), byte)))
        }
    }

    #[inline]
    fn quarter(row: &Row, at: usize) -> uint8x16_t {
        let bytes: &[u8; 16] = row[16 * at..16 * at + 16].try_into().expect("16 bytes");
        // SAFETY: `bytes` is 16 readable bytes, and the load asks for no alignment.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    /// One bit of each byte: keep bit `i % 8` of byte `i`, then add neighbours three times.
    #[inline]
    fn mask(lanes: [uint8x16_t; 4]) -> u64 {
        const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: `BITS` is 16 readable bytes; NEON is in the target's baseline.
        unsafe {
            let bits = vld1q_u8(BITS.as_ptr());
            let [a, b, c, d] = lanes.map(|lane| vandq_u8(lane, bits));
            let halves = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn available() -> Vec<Simd> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut all = vec![Simd::Plain, Simd::detect()];
        #[cfg(target_arch = "x86_64")]
        all.push(Simd::Sse2);
        all.dedup();
        all
    }

    /// Sorted columns of few distinct bytes, so that ties are common.
    fn sorted_rows(random: &mut Random, distinct: u64) -> [Row; ROWS] {
        let mut columns: Vec<[u8; ROWS]> = (0..64)
            .map(|_| std::array::from_fn(|_| (random.below(distinct) * 255 / (distinct - 1)) as u8))
            .collect();
        columns.sort();
        std::array::from_fn(|row| std::array::from_fn(|column| columns[column][row]))
    }

    #[test]
    fn every_version_finds_what_a_linear_search_finds() {
        let mut random = Random::new(11);
        let rounds = if cfg!(miri) { 10 } else { 5_000 };
        for _ in 0..rounds {
            let distinct = 2 + random.below(254);
            let rows = sorted_rows(&mut random, distinct);
            let count = 1 + random.below(64) as usize;
            let live = u64::MAX >> (64 - count);
            let columns: Vec<[u8; ROWS]> =
                (0..count).map(|column| std::array::from_fn(|row| rows[row][column])).collect();
            let feature = match random.below(2) {
                0 => columns[random.below(count as u64) as usize],
                _ => std::array::from_fn(|_| random.next_u64() as u8),
            };
            let from = columns.iter().filter(|&&column| column < feature).count();
            let to = columns.iter().filter(|&&column| column <= feature).count();
            let expected = if from == to { Narrowed::Between(from) } else { Narrowed::Tied { from, to } };
            for simd in available() {
                assert_eq!(narrow(simd, &rows, feature, live), expected, "{simd:?}");
                assert_eq!(equal(simd, &rows[0], feature[0]), equal_plain(&rows[0], feature[0]));
            }
        }
    }

    #[test]
    fn every_version_compares_every_pair_of_bytes() {
        let step = if cfg!(miri) { 51 } else { 1 };
        for row_byte in (0..=255u8).step_by(step) {
            for byte in (0..=255u8).step_by(step) {
                let mut row = [row_byte; 64];
                row[63] = byte;
                let rows = [row; ROWS];
                let one = u64::MAX >> 63;
                let expected = match row_byte.cmp(&byte) {
                    std::cmp::Ordering::Less => Narrowed::Between(1),
                    std::cmp::Ordering::Equal => Narrowed::Tied { from: 0, to: 1 },
                    std::cmp::Ordering::Greater => Narrowed::Between(0),
                };
                for simd in available() {
                    assert_eq!(
                        narrow(simd, &rows, [byte; ROWS], one),
                        expected,
                        "{simd:?} {row_byte} {byte}"
                    );
                }
            }
        }
    }
}
