//! AArch64: with NEON, which is part of it (invariant 1 of [`super`]).

use super::{LANES, NUMBERS, Narrowed, Row, narrowing, wanted};
use std::arch::aarch64::*;

narrowing!(#[inline]);

const BIT_OF_LANE: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

#[inline(always)]
pub(super) fn equal(row: &Row, byte: u8) -> u64 {
    // SAFETY: invariants 1 and 2: each load is of 16 of 64 bytes.
    unsafe {
        let byte = vdupq_n_u8(byte);
        mask(std::array::from_fn(|at| vceqq_u8(vld1q_u8(row.as_ptr().add(16 * at)), byte)))
    }
}

#[inline(always)]
fn less(row: &Row, byte: u8) -> u64 {
    // SAFETY: invariants 1 and 2: each load is of 16 of 64 bytes.
    unsafe {
        let byte = vdupq_n_u8(byte);
        mask(std::array::from_fn(|at| vcltq_u8(vld1q_u8(row.as_ptr().add(16 * at)), byte)))
    }
}

/// One bit of each byte: keep bit `i % 8` of byte `i`, then add neighbours three times.
#[inline(always)]
fn mask(lanes: [uint8x16_t; 4]) -> u64 {
    // SAFETY: invariants 1 and 2: `BIT_OF_LANE` is 16 bytes.
    unsafe {
        let bits = vld1q_u8(BIT_OF_LANE.as_ptr());
        let [a, b, c, d] = lanes.map(|lane| vandq_u8(lane, bits));
        let halves = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)))
    }
}

#[inline(always)]
pub(super) fn sum_first(row: &Row, lanes_wanted: usize) -> usize {
    // SAFETY: invariants 1 and 2: each load is of 16 of 64 bytes.
    unsafe {
        let count = vdupq_n_u8(lanes_wanted as u8);
        let mut total = vdupq_n_u16(0);
        for start in (0..LANES).step_by(16) {
            let below = vcltq_u8(vld1q_u8(NUMBERS.as_ptr().add(start)), count);
            let lanes = vld1q_u8(row.as_ptr().add(wanted(start, lanes_wanted)));
            total = vpadalq_u8(total, vandq_u8(lanes, below));
        }
        vaddlvq_u16(total) as usize
    }
}
