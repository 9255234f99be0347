//! SIMD comparison of bytes: the tag columns of pages and leaves, the feature rows of inner nodes, the tags in a bucket's
//! slots. All code that depends on the instruction set is here, except for the registers of sketches, which are not bytes.
//!
//! ```text
//!  Group    64 bytes      matching(byte) -> BitMask      | 0 1 1 0 .. |  bit i: byte i matches
//!  Line     8 slots       matching(tag)  -> BitMask      an iterator over the lanes that match, ascending
//!
//!  plain   any processor; the reference in tests of the others
//!  sse2    part of x86-64
//!  avx2    x86-64; where the build targets it, and for `narrow` and `count_below` where the processor has it
//!  neon    part of AArch64
//! ```
//! Each instruction set is a module of the same functions. 64 bytes are compared at once without a branch on the result: a
//! page seldom has more, and a loop whose length depends on the data costs a mispredicted branch, more than the lanes that
//! are masked away.
//!
//! The set is chosen at build time, except for functions that compare many bytes in a call ([`Simd`]): for a single row, a
//! call that cannot be inlined costs more than wider lanes save.
//!
//! Invariants:
//! 1. A function of `avx2` runs only where the build targets AVX2, or behind [`Simd::Avx2`], which [`Simd::detect`] alone
//!    makes, on a processor that has it. SSE2 is part of x86-64, NEON of AArch64.
//! 2. Every load is of bytes of its argument.
//!
//! Measurements: [docs/structures.md](../../../docs/structures.md#byte-comparison).

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bit_mask;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod plain;
#[cfg(target_arch = "x86_64")]
mod sse2;

pub(crate) use bit_mask::BitMask;

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
use avx2::built_for as chosen;
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

/// A row of bytes, compared with one byte at once.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a>(&'a Row);

impl<'a> Group<'a> {
    /// The row at the start of `bytes`; `None` if they are fewer than [`LANES`].
    #[inline(always)]
    pub(crate) fn first_of(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Group)
    }

    /// This row.
    #[inline(always)]
    pub(crate) fn of(row: &'a Row) -> Self {
        Group(row)
    }

    /// The bytes that equal `byte`.
    #[inline(always)]
    pub(crate) fn matching(self, byte: u8) -> BitMask<u64> {
        BitMask(chosen::equal(self.0, byte))
    }
}

/// Eight slots of eight bytes: a cache line.
#[repr(C, align(64))]
pub(crate) struct Line(pub [u8; LANES]);

impl Line {
    /// The slots whose upper 16 bits are `tag`.
    #[inline(always)]
    pub(crate) fn matching(&self, tag: u16) -> BitMask<u32> {
        // Miri does not support pointers as numbers in vectors.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return BitMask(sse2::equal_tags(self, tag));
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return BitMask(plain::equal_tags(self, tag));
    }
}

/// The number of these numbers, which ascend, below `least`.
#[inline(always)]
pub(crate) fn count_below(numbers: &[u32; 16], least: u32) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return sse2::count_below(numbers, least);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return plain::count_below(numbers, least);
}

/// The sum of `bytes[start..end]`; reads no further than `bytes`.
#[inline(always)]
pub(crate) fn sum(bytes: &[u8], start: usize, end: usize) -> usize {
    let (mut total, mut at) = (0, start);
    while let Some(row) = bytes[at..].first_chunk() {
        let left = end - at;
        total += chosen::sum_first(row, left.min(LANES));
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
            // SAFETY: invariant 1: the processor has AVX2.
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
        match self {
            Simd::Plain => plain::narrow(rows, feature, live),
            #[cfg(target_arch = "x86_64")]
            Simd::Sse2 => sse2::narrow(rows, feature, live),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: invariant 1: the processor has AVX2.
            Simd::Avx2 => unsafe { avx2::narrow(rows, feature, live) },
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Simd::Neon => neon::narrow(rows, feature, live),
        }
    }
}

/// Defines [`Simd::narrow`] with the `equal` and `less` of the module it is expanded in.
macro_rules! narrowing {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        pub(super) fn narrow<const ROWS: usize>(
            rows: &[Row; ROWS],
            feature: [u8; ROWS],
            live: u64,
        ) -> Narrowed {
            // The bit behind a run of them; none behind the last lane. Not all processors count ones in one step.
            let behind = |run: u64| run.wrapping_add(run & run.wrapping_neg());
            let mut tied = live;
            for (row, &byte) in rows.iter().zip(&feature) {
                let equal = equal(row, byte) & tied;
                if equal == 0 {
                    let above = tied & !less(row, byte);
                    return Narrowed::Between((above | behind(tied)).trailing_zeros() as usize);
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
