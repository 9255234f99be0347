//! SIMD comparison of bytes: the tag columns of pages and leaves, the feature rows of inner nodes, the tags in a bucket's
//! slots. All code that depends on the instruction set is here, except for the registers of sketches, which are not bytes.
//!
//! ```text
//!  plain   any processor; the reference in tests of the others
//!  sse2    part of x86-64
//!  avx2    x86-64; where the build targets it, and for `narrow` and `count_below` where the processor has it
//!  neon    part of AArch64
//! ```
//! Each set is a module of the same functions, `unsafe` for one reason: the processor must have the instructions. 64 bytes
//! are compared at once without a branch on the result: a page seldom has more, and a loop whose length depends on the data
//! costs a mispredicted branch, more than the lanes that are masked away.
//!
//! The set is chosen at build time, except for functions that compare many bytes in a call. Measured: choosing at run time
//! for a single row costs a call that cannot be inlined, more than wider lanes save. `narrow` compares up to four rows in a
//! call: with SSE2 instead of the detected AVX2, an update of a sorted set of 100,000 took 6 % longer, a rank 7 %.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod plain;
#[cfg(target_arch = "x86_64")]
mod sse2;

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
use avx2 as chosen;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use neon as chosen;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
use plain as chosen;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
use sse2 as chosen;

/// Number of bytes compared together.
pub(crate) const LANES: usize = 64;

/// One feature of every child of a node, or 64 tags or lengths.
pub(crate) type Row = [u8; LANES];

/// Eight slots of eight bytes: a cache line.
#[repr(C, align(64))]
pub(crate) struct Line(pub [u8; LANES]);

/// Bit `i` is set where `row[i] == byte`.
#[inline(always)]
pub(crate) fn equal(row: &Row, byte: u8) -> u64 {
    // SAFETY: `chosen` is the build's target.
    unsafe { chosen::equal(row, byte) }
}

/// Bit `i` is set where the upper 16 bits of slot `i` are `tag`.
#[inline(always)]
pub(crate) fn equal_tags(slots: &Line, tag: u16) -> u32 {
    // Miri does not support pointers as numbers in vectors.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { sse2::equal_tags(slots, tag) };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return plain::equal_tags(slots, tag);
}

/// The number of these numbers, which ascend, below `least`.
#[inline(always)]
pub(crate) fn count_below(numbers: &[u32; 16], least: u32) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { sse2::count_below(numbers, least) };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return plain::count_below(numbers, least);
}

/// The sum of `bytes[start..end]`; reads no further than `bytes`.
#[inline(always)]
pub(crate) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
    let (mut total, mut at) = (0, start);
    while let Some(row) = bytes[at..].first_chunk() {
        let left = end - at;
        // SAFETY: `chosen` is the build's target.
        total += unsafe { chosen::sum_first(row, left.min(LANES)) };
        if left <= LANES {
            return total;
        }
        at += LANES;
    }
    total + bytes[at..end].iter().map(|&byte| usize::from(byte)).sum::<usize>()
}

/// The number of `bytes[start..end]` that equal `byte`. Used only for pages with large records.
pub(crate) fn count_equal(bytes: &[u8], start: usize, end: usize, byte: u8) -> usize {
    bytes[start..end].iter().filter(|&&b| b == byte).count()
}

/// A column of contiguous little-endian numbers of `width` bytes each, which ascend.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    /// The bytes from the first number on.
    pub bytes: &'a [u8],
    /// Bytes per number.
    pub width: usize,
    /// Number of numbers.
    pub count: usize,
}

/// The instruction set of [`Simd::narrow`] and [`Simd::count_below`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simd {
    #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), allow(dead_code))]
    Plain,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon,
}

/// The position of a key's feature bytes among the features of a node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrowed {
    /// This number of children has lower features; none has equal ones.
    Between(usize),
    /// The children `from..to` have exactly these features.
    Tied { from: usize, to: usize },
}

impl Simd {
    /// The widest instruction set of this machine.
    pub(crate) fn detect() -> Simd {
        #[cfg(target_arch = "x86_64")]
        return if is_x86_feature_detected!("avx2") { Simd::Avx2 } else { Simd::Sse2 };
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        return Simd::Neon;
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        Simd::Plain
    }

    /// The number of numbers of a column below each of `least`. None if this machine has nothing better than a loop, the
    /// column is short, or fewer than 16 bytes follow it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    #[inline]
    pub(crate) fn count_below<const N: usize>(
        self,
        column: &Column<'_>,
        least: [u64; N],
    ) -> Option<[usize; N]> {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as for `narrow`.
            Simd::Avx2 => unsafe { avx2::count_below(column, least) },
            _ => None,
        }
    }

    /// Narrows the children `live` (a run of low bits, not 0) to those whose features equal `feature`. The columns must
    /// be sorted lexicographically, which a node's are.
    #[inline]
    pub(crate) fn narrow<const ROWS: usize>(
        self,
        rows: &[Row; ROWS],
        feature: [u8; ROWS],
        live: u64,
    ) -> Narrowed {
        // SAFETY: SSE2 and NEON are part of their architectures; `Simd::Avx2` is only made by `Simd::detect` (and tests)
        // after detecting AVX2; the plain form needs nothing.
        unsafe {
            match self {
                Simd::Plain => plain::narrow(rows, feature, live),
                #[cfg(target_arch = "x86_64")]
                Simd::Sse2 => sse2::narrow(rows, feature, live),
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 => avx2::narrow(rows, feature, live),
                #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
                Simd::Neon => neon::narrow(rows, feature, live),
            }
        }
    }
}

/// Defines [`Simd::narrow`] with the `equal` and `less` of the module it is expanded in.
macro_rules! narrowing {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        pub(super) unsafe fn narrow<const ROWS: usize>(
            rows: &[Row; ROWS],
            feature: [u8; ROWS],
            live: u64,
        ) -> Narrowed {
            // The bit behind a run of them; none behind the last lane. Not all processors count ones in one step.
            let behind = |run: u64| run.wrapping_add(run & run.wrapping_neg());
            let mut tied = live;
            for (row, &byte) in rows.iter().zip(&feature) {
                // SAFETY: the caller has checked the instruction set.
                let equal = unsafe { equal(row, byte) } & tied;
                if equal == 0 {
                    // SAFETY: as above.
                    let less = unsafe { less(row, byte) };
                    return Narrowed::Between((tied & !less | behind(tied)).trailing_zeros() as usize);
                }
                tied = equal;
            }
            Narrowed::Tied { from: tied.trailing_zeros() as usize, to: behind(tied).trailing_zeros() as usize }
        }
    };
}
use narrowing;

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
static NUMBERS: Row = {
    let mut numbers = [0; LANES];
    let mut i = 0;
    while i < LANES {
        numbers[i] = i as u8;
        i += 1;
    }
    numbers
};

/// Returns `start` if a lane from there on is wanted, else 0: lanes that are masked away must not fetch their line.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[inline(always)]
fn wanted(start: usize, lanes_wanted: usize) -> usize {
    if start < lanes_wanted { start } else { 0 }
}

#[cfg(test)]
mod tests;
