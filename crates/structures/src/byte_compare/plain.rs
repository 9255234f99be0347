//! The portable form, for any processor.

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
use super::Line;
use super::{Narrowed, Row, narrowing};

narrowing!();

pub(super) fn equal(row: &Row, byte: u8) -> u64 {
    row.iter().enumerate().fold(0, |mask, (i, &b)| mask | u64::from(b == byte) << i)
}

fn less(row: &Row, byte: u8) -> u64 {
    row.iter().enumerate().fold(0, |mask, (i, &b)| mask | u64::from(b < byte) << i)
}

#[cfg(any(test, not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))))]
pub(super) fn sum_first(row: &Row, count: usize) -> usize {
    row[..count].iter().map(|&b| usize::from(b)).sum()
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
#[inline]
pub(super) fn equal_tags(slots: &Line, tag: u16) -> u32 {
    let (slots, _) = slots.0.as_chunks::<8>();
    let is_equal = |slot: &[u8; 8]| (u64::from_ne_bytes(*slot) >> 48) as u16 == tag;
    slots.iter().enumerate().fold(0, |mask, (i, slot)| mask | u32::from(is_equal(slot)) << i)
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
#[inline]
pub(super) fn count_below(numbers: &[u32; 16], least: u32) -> usize {
    numbers.iter().map(|&number| usize::from(number < least)).sum()
}
