//! Conversion of dense registers, six bits each, to bytes and back, and their histogram: 16384 at a time, with vectors if
//! the processor has AVX2.
//!
//! Four registers are three bytes. With AVX2 a shuffle moves each three bytes to a lane of 32 bits, 32 registers in two
//! loads of 16 bytes, and three shifts separate the registers. Otherwise eight registers are widened in one word of 64
//! bits. Values are counted by comparing: eight values in each pass over the bytes, with no more passes than there are
//! values, which are few since a register is rarely far above the others.
//!
//! Invariants:
//! 1. The functions of `avx2` run only on a processor that has AVX2.
//! 2. A load or store is of bytes of its argument, and needs no alignment.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#hyperloglog).

use super::{Histogram, REGISTERS, Registers};

/// All registers, six bits each.
pub(super) type Packed = [u8; REGISTERS * 6 / 8];

/// Raises each of `registers` to the packed one.
pub(super) fn raise_to(registers: &mut Registers, packed: &Packed) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: invariant 1, as was just checked.
        return unsafe { avx2::raise_to(registers, packed) };
    }
    raise_words(registers, packed);
}

/// Packs all registers.
pub(super) fn pack(packed: &mut Packed, registers: &Registers) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: invariant 1, as was just checked.
        return unsafe { avx2::pack(packed, registers) };
    }
    pack_words(packed, registers);
}

/// The number of registers with each value.
pub(super) fn count(registers: &Registers) -> Histogram {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: invariant 1, as was just checked.
        return unsafe { avx2::count(registers) };
    }
    count_in_turns(registers)
}

/// Eight registers, a byte for each.
#[inline(always)]
fn widen(packed: &[u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = *packed;
    let x = u64::from_le_bytes([a, b, c, 0, d, e, f, 0]);
    let x = x & 0x0000_0fff_0000_0fff | (x & 0x00ff_f000_00ff_f000) << 4;
    let x = x & 0x003f_003f_003f_003f | (x & 0x0fc0_0fc0_0fc0_0fc0) << 2;
    x.to_le_bytes()
}

fn narrow(wide: &[u8; 8]) -> [u8; 6] {
    let x = u64::from_le_bytes(*wide);
    let x = x & 0x003f_003f_003f_003f | (x & 0x3f00_3f00_3f00_3f00) >> 2;
    let x = x & 0x0000_0fff_0000_0fff | (x & 0x0fff_0000_0fff_0000) >> 4;
    let [a, b, c, _, d, e, f, _] = x.to_le_bytes();
    [a, b, c, d, e, f]
}

/// Raises each of `registers` to the corresponding one in `packed`.
fn raise_words(registers: &mut [u8], packed: &[u8]) {
    let (wide, _) = registers.as_chunks_mut::<8>();
    let (packed, _) = packed.as_chunks::<6>();
    for (wide, packed) in wide.iter_mut().zip(packed) {
        let other = widen(packed);
        for (register, other) in wide.iter_mut().zip(other) {
            *register = (*register).max(other);
        }
    }
}

fn pack_words(packed: &mut [u8], registers: &[u8]) {
    let (packed, _) = packed.as_chunks_mut::<6>();
    let (wide, _) = registers.as_chunks::<8>();
    for (packed, wide) in packed.iter_mut().zip(wide) {
        *packed = narrow(wide);
    }
}

/// Counts in four histograms, so that an increment need not wait for the previous one.
fn count_in_turns(registers: &Registers) -> Histogram {
    let mut parts: [Histogram; 4] = [[0; 64]; 4];
    let (quads, _) = registers.as_chunks::<4>();
    for quad in quads {
        for (part, &value) in parts.iter_mut().zip(quad) {
            part[usize::from(value & 0x3f)] += 1;
        }
    }
    std::array::from_fn(|value| parts.iter().map(|part| part[value]).sum())
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Histogram, Packed, REGISTERS, Registers, pack_words, raise_words};
    use std::arch::x86_64::*;

    /// Registers in a vector, and its packed size in bytes.
    const LANES: usize = 32;
    const PACKED: usize = LANES * 6 / 8;
    /// Two loads of 16 bytes reach beyond the last vector: its registers are converted by words.
    const WHOLE: usize = REGISTERS / LANES - 1;
    /// Registers counted before an 8-bit lane could overflow.
    const COUNTED: usize = 128 * LANES;
    /// Values counted in one pass.
    const VALUES: usize = 8;

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(bytes: &[u8; LANES]) -> __m256i {
        // SAFETY: invariant 2.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn store(bytes: &mut [u8; LANES], vector: __m256i) {
        // SAFETY: invariant 2.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
    }

    /// The 12 bytes from `at` on and the 12 behind them, each at the beginning of a half.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_halves(packed: &[u8; PACKED + 4]) -> __m256i {
        // SAFETY: invariant 2: both loads are of 16 bytes of 28.
        let (low, high) = unsafe {
            let low = packed.as_ptr();
            (_mm_loadu_si128(low.cast()), _mm_loadu_si128(low.add(PACKED / 2).cast()))
        };
        _mm256_set_m128i(high, low)
    }

    /// Stores the first 12 bytes of both halves, one behind the other; the bytes behind them are overwritten.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn store_halves(packed: &mut [u8; PACKED + 4], halves: __m256i) {
        let low = packed.as_mut_ptr();
        // SAFETY: invariant 2: both stores are of 16 bytes of 28.
        unsafe {
            _mm_storeu_si128(low.cast(), _mm256_castsi256_si128(halves));
            _mm_storeu_si128(low.add(PACKED / 2).cast(), _mm256_extracti128_si256::<1>(halves));
        }
    }

    /// Moves each three bytes of the first 12 of both halves to a lane of 32 bits, or back.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn spread(vector: __m256i) -> __m256i {
        let places = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
        _mm256_shuffle_epi8(vector, _mm256_broadcastsi128_si256(places))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn close(vector: __m256i) -> __m256i {
        let places = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        _mm256_shuffle_epi8(vector, _mm256_broadcastsi128_si256(places))
    }

    /// The registers whose six bits start at bit `N` of a lane.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn six_bits<const N: i32>(vector: __m256i) -> __m256i {
        _mm256_and_si256(vector, _mm256_set1_epi32(0x3f << N))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn raise_to(registers: &mut Registers, packed: &Packed) {
        let (rows, _) = registers.as_chunks_mut::<LANES>();
        for (at, row) in rows[..WHOLE].iter_mut().enumerate() {
            let piece = packed[at * PACKED..].first_chunk().expect("bytes follow the last whole vector");
            let x = spread(load_halves(piece));
            let low = _mm256_or_si256(six_bits::<0>(x), _mm256_slli_epi32::<2>(six_bits::<6>(x)));
            let high = _mm256_slli_epi32::<4>(six_bits::<12>(x));
            let top = _mm256_slli_epi32::<6>(six_bits::<18>(x));
            let wide = _mm256_or_si256(low, _mm256_or_si256(high, top));
            store(row, _mm256_max_epu8(wide, load(row)));
        }
        raise_words(&mut registers[WHOLE * LANES..], &packed[WHOLE * PACKED..]);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn pack(packed: &mut Packed, registers: &Registers) {
        let (rows, _) = registers.as_chunks::<LANES>();
        for (at, row) in rows[..WHOLE].iter().enumerate() {
            let x = load(row);
            let low = _mm256_or_si256(six_bits::<0>(x), _mm256_srli_epi32::<2>(six_bits::<8>(x)));
            let high = _mm256_srli_epi32::<4>(six_bits::<16>(x));
            let top = _mm256_srli_epi32::<6>(six_bits::<24>(x));
            let halves = close(_mm256_or_si256(low, _mm256_or_si256(high, top)));
            let piece = packed[at * PACKED..].first_chunk_mut().expect("bytes follow the last whole vector");
            store_halves(piece, halves);
        }
        pack_words(&mut packed[WHOLE * PACKED..], &registers[WHOLE * LANES..]);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn count(registers: &Registers) -> Histogram {
        let (mut histogram, mut left) = ([0; 64], REGISTERS as u32);
        for (pass, counts) in histogram.as_chunks_mut::<VALUES>().0.iter_mut().enumerate() {
            if left == 0 {
                break;
            }
            *counts = count_from(registers, (pass * VALUES) as u8);
            left -= counts.iter().sum::<u32>();
        }
        histogram
    }

    /// The number of registers equal to `first`, `first + 1`, ...
    #[target_feature(enable = "avx2")]
    fn count_from(registers: &Registers, first: u8) -> [u32; VALUES] {
        let zero = _mm256_setzero_si256();
        let mut counts = [0; VALUES];
        for part in registers.as_chunks::<COUNTED>().0 {
            let mut found = [zero; VALUES];
            for row in part.as_chunks::<LANES>().0 {
                let row = load(row);
                for (value, found) in found.iter_mut().enumerate() {
                    let wanted = _mm256_set1_epi8((first + value as u8) as i8);
                    *found = _mm256_sub_epi8(*found, _mm256_cmpeq_epi8(row, wanted));
                }
            }
            for (count, found) in counts.iter_mut().zip(found) {
                let mut sums = [0; LANES];
                store(&mut sums, _mm256_sad_epu8(found, zero));
                let (sums, _) = sums.as_chunks::<8>();
                *count += sums.iter().map(|sum| u64::from_le_bytes(*sum) as u32).sum::<u32>();
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{scaled, with_seeds};
    use crate::random::Random;

    fn random_registers(random: &mut Random, below: u64) -> Box<Registers> {
        let mut registers = Box::new([0; REGISTERS]);
        registers.iter_mut().for_each(|register| *register = random.below(below) as u8);
        registers
    }

    #[test]
    fn vectors_do_what_words_do() {
        with_seeds(0..4, |random| {
            for _ in 0..scaled(20) {
                let below = 1 + random.below(64);
                let registers = random_registers(random, below);
                let (mut packed, mut by_words) = ([0; REGISTERS * 6 / 8], [0; REGISTERS * 6 / 8]);
                pack(&mut packed, &registers);
                pack_words(&mut by_words, &registers[..]);
                assert!(packed == by_words);
                let others = random_registers(random, below);
                let (mut raised, mut by_words) = (others.clone(), others.clone());
                raise_to(&mut raised, &packed);
                raise_words(&mut by_words[..], &packed);
                assert!(raised == by_words);
                assert!((0..REGISTERS).all(|at| raised[at] == registers[at].max(others[at])));
                assert_eq!(count(&raised), count_in_turns(&raised));
            }
        });
    }
}
