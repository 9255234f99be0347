//! `bit`: operations on 32-bit integers. Results are signed.

use super::{Functions, Stack};
use crate::script::{Kind, Raise};
use wire::convert::low_u32;

/// The functions of the `bit` table.
pub const FUNCTIONS: Functions = &[
    ("tobit", |stack| unary(stack, |bits| bits)),
    ("bnot", |stack| unary(stack, |bits| !bits)),
    ("bswap", |stack| unary(stack, u32::swap_bytes)),
    ("band", |stack| fold(stack, |a, b| a & b)),
    ("bor", |stack| fold(stack, |a, b| a | b)),
    ("bxor", |stack| fold(stack, |a, b| a ^ b)),
    ("lshift", |stack| shift(stack, |bits, by| bits << by)),
    ("rshift", |stack| shift(stack, |bits, by| bits >> by)),
    ("arshift", |stack| shift(stack, |bits, by| (bits.cast_signed() >> by) as u32)),
    ("rol", |stack| shift(stack, u32::rotate_left)),
    ("ror", |stack| shift(stack, u32::rotate_right)),
    ("tohex", to_hex),
];

/// Added to a number, leaves its integer part in the low bits of the double.
const SHIFTER: f64 = 6_755_399_441_055_744.0;

fn argument(stack: &mut Stack<'_>, index: i32) -> Result<u32, Raise> {
    Ok(low_u32((stack.number_argument(index)? + SHIFTER).to_bits()))
}

fn answer(stack: &mut Stack<'_>, bits: u32) -> Result<usize, Raise> {
    stack.push_number(f64::from(bits.cast_signed()));
    Ok(1)
}

fn unary(stack: &mut Stack<'_>, operation: fn(u32) -> u32) -> Result<usize, Raise> {
    let bits = argument(stack, 1)?;
    answer(stack, operation(bits))
}

fn fold(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<usize, Raise> {
    let mut bits = argument(stack, 1)?;
    for index in (2..=stack.top()).rev() {
        bits = operation(bits, argument(stack, index)?);
    }
    answer(stack, bits)
}

fn shift(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<usize, Raise> {
    let bits = argument(stack, 1)?;
    let by = argument(stack, 2)? & 31;
    answer(stack, operation(bits, by))
}

/// Hexadecimal digits, the lowest ones; in upper case if the number of digits is negative.
fn to_hex(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let bits = argument(stack, 1)?;
    let digits = if stack.kind(2) == Kind::None { 8 } else { argument(stack, 2)?.cast_signed() };
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    let shown = digits.unsigned_abs().min(8) as usize;
    stack.push_bytes(&text.as_bytes()[8 - shown..]);
    Ok(1)
}
