//! `struct`: converts values to the bytes of a C structure and back, according to a format.

use super::{Functions, Stack, TEXT_BYTES_MAX};
use crate::script::values::until_nul;
use crate::script::{PIECE_BYTES, Raise};
use crate::sys::lua::truncated;
use wire::convert::{nearest_f32, short_len, signed_bits, usize_of, whole_u32, whole_u64};

/// The functions of the `struct` table.
pub const FUNCTIONS: Functions = &[("pack", pack), ("unpack", unpack), ("size", size)];

/// The maximum size of an integer.
const INTEGER_BYTES_MAX: i32 = 32;
const ALIGNMENT_MAX: i32 = 8;

/// The format being parsed.
struct Format {
    text: Vec<u8>,
    at: usize,
    big_endian: bool,
    alignment: usize,
}

impl Format {
    fn argument(stack: &mut Stack<'_>) -> Result<Self, Raise> {
        let mut text = stack.text_argument(1)?;
        text.truncate(until_nul(&text).len());
        Ok(Format { text, at: 0, big_endian: cfg!(target_endian = "big"), alignment: 1 })
    }

    fn next(&mut self) -> Option<u8> {
        let option = self.text.get(self.at).copied();
        self.at += 1;
        option
    }

    /// The number that follows, or `default`.
    fn number(&mut self, default: i32) -> Result<i32, String> {
        let mut number = None;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let value = number.unwrap_or(0i32).checked_mul(10);
            let value = value.and_then(|value| value.checked_add(i32::from(digit - b'0')));
            number = Some(value.ok_or("integral size overflow")?);
            self.at += 1;
        }
        Ok(number.unwrap_or(default))
    }

    /// Size of the option's value; 0 if it depends on the value.
    fn size(&mut self, option: u8) -> Result<usize, String> {
        Ok(match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(1)? as usize,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let limit = INTEGER_BYTES_MAX;
                    return Err(format!("integral size {size} is larger than limit of {limit}"));
                }
                size as usize
            }
            _ => 0,
        })
    }

    /// Padding bytes before a value of this size.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// Applies an option without a value.
    fn control(&mut self, stack: &mut Stack<'_>, option: u8) -> Result<(), Raise> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT_MAX).map_err(|text| stack.error(&text))?;
                if alignment <= 0 || !alignment.unsigned_abs().is_power_of_two() {
                    return Err(stack.error(&format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment as usize;
            }
            _ => {
                let text = [b"invalid format option '".as_slice(), &[option], b"'"].concat();
                stack.push_bytes(&text);
                return Err(Raise::Argument(1));
            }
        }
        Ok(())
    }
}

fn pack(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let mut format = Format::argument(stack)?;
    let (mut out, mut argument) = (Vec::new(), 2);
    // Makes errors report a missing argument as nil.
    stack.push_nil();
    while let Some(option) = format.next() {
        let size = format.size(option).map_err(|text| stack.error(&text))?;
        out.resize(out.len() + format.padding(out.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = unsigned(stack.number_argument(argument)?);
                argument += 1;
                push_integer(&mut out, value, size, format.big_endian);
            }
            b'x' => out.push(0),
            b'f' => {
                let value = nearest_f32(stack.number_argument(argument)?);
                argument += 1;
                out.extend(if format.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
            }
            b'd' => {
                let value = stack.number_argument(argument)?;
                argument += 1;
                out.extend(if format.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
            }
            b'c' | b's' => {
                let text = stack.text_argument(argument)?;
                argument += 1;
                let len = if size == 0 { text.len() } else { size };
                let Some(bytes) = text.get(..len) else {
                    return Err(stack.argument_error(argument, "string too short"));
                };
                for piece in bytes.chunks(PIECE_BYTES) {
                    out.extend(piece);
                    stack.count_bytes(piece.len());
                }
                if option == b's' {
                    out.push(0);
                }
            }
            _ => format.control(stack, option)?,
        }
        stack.step()?;
        if out.len() > TEXT_BYTES_MAX {
            return Err(stack.out_of_memory());
        }
    }
    stack.push_bytes(&out);
    Ok(1)
}

/// Converts a double to a C unsigned long.
fn unsigned(value: f64) -> u64 {
    if value.is_nan() {
        return 1 << 63;
    }
    if value < 0.0 { truncated(value) as u64 } else { whole_u64(value) }
}

fn push_integer(out: &mut Vec<u8>, value: u64, size: usize, big_endian: bool) {
    let mut bytes = [0; INTEGER_BYTES_MAX as usize];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    let bytes = &mut bytes[..size];
    if big_endian {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

fn integer(bytes: &[u8], is_signed: bool, big_endian: bool) -> f64 {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) };
    if !is_signed {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl(short_len(bytes.len()).wrapping_mul(8).wrapping_sub(1));
    let value = if value & mask != 0 { value | mask } else { value };
    signed_bits(value) as f64
}

const TOO_SHORT: &str = "data string too short";

fn unpack(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let mut format = Format::argument(stack)?;
    let data = stack.text_argument(2)?;
    let position = stack.integer_argument_or(3, 1)?;
    // A negative position is converted to an unsigned length, as in C: it is far after the end.
    let Some(start) = position.cast_unsigned().checked_sub(1) else {
        return Err(stack.argument_error(3, "offset must be 1 or greater"));
    };
    let (mut at, mut values) = (usize::try_from(start).unwrap_or(usize::MAX), 0);
    while let Some(option) = format.next() {
        stack.step()?;
        let mut size = format.size(option).map_err(|text| stack.error(&text))?;
        at = at.wrapping_add(format.padding(at, option, size));
        if data.len() < size || at > data.len() - size {
            return Err(stack.argument_error(2, TOO_SHORT));
        }
        if !stack.reserve(4) {
            return Err(stack.error("stack overflow (too many results)"));
        }
        let bytes = &data[at..at + size];
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                stack.push_number(integer(bytes, option.is_ascii_lowercase(), format.big_endian));
                values += 1;
            }
            b'x' => {}
            b'f' => {
                let bits = whole_u32(integer(bytes, false, format.big_endian));
                stack.push_number(f64::from(f32::from_bits(bits)));
                values += 1;
            }
            b'd' => {
                let mut bytes: [u8; 8] = bytes.try_into().expect("a double has 8 bytes");
                if format.big_endian {
                    bytes.reverse();
                }
                stack.push_number(f64::from_le_bytes(bytes));
                values += 1;
            }
            b'c' => {
                if size == 0 {
                    size = previous_size(stack, values)?;
                    values -= 1;
                    if data.len() < size || at > data.len() - size {
                        return Err(stack.argument_error(2, TOO_SHORT));
                    }
                }
                stack.push_bytes(&data[at..at + size]);
                values += 1;
            }
            b's' => {
                let Some(len) = memchr::memchr(0, &data[at..]) else {
                    return Err(stack.error("unfinished string in data"));
                };
                stack.push_bytes(&data[at..at + len]);
                size = len + 1;
                values += 1;
            }
            _ => format.control(stack, option)?,
        }
        at += size;
    }
    stack.push_number(at.wrapping_add(1).cast_signed() as f64);
    Ok(values + 1)
}

/// Pops the number that was read last: the byte count of `c0`.
fn previous_size(stack: &mut Stack<'_>, values: usize) -> Result<usize, Raise> {
    let number = if values > 0 { stack.number(-1) } else { None };
    let Some(number) = number else {
        return Err(stack.error("format 'c0' needs a previous size"));
    };
    stack.pop(1);
    Ok(usize_of(unsigned(number)))
}

fn size(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let mut format = Format::argument(stack)?;
    let mut at = 0usize;
    while let Some(option) = format.next() {
        stack.step()?;
        let size = format.size(option).map_err(|text| stack.error(&text))?;
        at += format.padding(at, option, size);
        match option {
            b's' => return Err(stack.argument_error(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(stack.argument_error(1, "option 'c0' has no fixed size")),
            _ if !option.is_ascii_alphanumeric() => format.control(stack, option)?,
            _ => {}
        }
        at = at.wrapping_add(size);
    }
    stack.push_number(at as f64);
    Ok(1)
}
