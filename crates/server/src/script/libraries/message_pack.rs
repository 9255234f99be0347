//! `cmsgpack`: converts values to MessagePack and back.

use super::{Functions, Stack, TEXT_BYTES_MAX};
use crate::script::{Kind, Raise};
use wire::convert::{
    int_len, len_u8, len_u16, low_i32, low_u32, nearest_f32, short_len, signed_bits, signed_byte,
    unsigned_len, usize_of, whole_u64,
};

/// The functions of the `cmsgpack` table.
pub const FUNCTIONS: Functions = &[
    ("pack", pack),
    ("unpack", |stack| unpack(stack, 0, 0)),
    ("unpack_one", |stack| {
        let offset = stack.integer_argument_or(2, 0)?;
        stack.set_top(stack.top().min(1));
        unpack(stack, 1, offset)
    }),
    ("unpack_limit", |stack| {
        let (limit, offset) = (stack.integer_argument(2)?, stack.integer_argument_or(3, 0)?);
        stack.set_top(stack.top().min(1));
        unpack(stack, limit, offset)
    }),
];

/// The text fields of the `cmsgpack` table.
pub const TEXTS: &[(&str, &str)] = &[
    ("_NAME", "cmsgpack"),
    ("_VERSION", "lua-cmsgpack 0.4.0"),
    ("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."),
    ("_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// The nesting limit of tables; deeper ones are packed as nil, so that a table that contains itself is finite.
const NESTING_MAX: u32 = 16;

/// The error of a native function when Lua's stack cannot grow.
fn stack_overflow(stack: &mut Stack<'_>, why: &str) -> Raise {
    stack.error(&format!("stack overflow ({why})"))
}

fn pack(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let count = stack.top();
    if count == 0 {
        return Err(stack.argument_error(0, "MessagePack pack needs input."));
    }
    if !stack.reserve(count as u32 + 8) {
        return Err(stack.argument_error(0, "Too many arguments for MessagePack pack."));
    }
    let mut bytes = Vec::new();
    for argument in 1..=count {
        stack.push_value(argument);
        write_value(stack, &mut bytes, 0)?;
    }
    stack.push_bytes(&bytes);
    Ok(1)
}

/// Pops the value on top and packs it.
fn write_value(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    stack.step()?;
    let len = stack.bytes(-1).map_or(0, <[u8]>::len);
    if out.len() + len > TEXT_BYTES_MAX {
        return Err(stack.out_of_memory());
    }
    match stack.kind(-1) {
        Kind::String => {
            write_bytes_len(out, len);
            stack.append_bytes(-1, out);
        }
        Kind::Boolean => out.push(if stack.truth(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => write_number(out, stack.number(-1).unwrap_or_default()),
        Kind::Table if depth < NESTING_MAX => {
            if !stack.reserve(6) {
                return Err(stack_overflow(stack, "in function mp_encode_lua_table_as_map"));
            }
            match is_array(stack) {
                true => write_array(stack, out, depth)?,
                false => write_map(stack, out, depth)?,
            }
        }
        _ => out.push(0xc0),
    }
    stack.pop(1);
    Ok(())
}

fn write_number(out: &mut Vec<u8>, value: f64) {
    let integer = crate::sys::lua::truncated(value);
    if integer as f64 == value {
        return write_integer(out, integer);
    }
    let single = nearest_f32(value);
    if f64::from(single) == value {
        out.push(0xca);
        out.extend(single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(value.to_be_bytes());
    }
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_be_bytes();
    match value {
        -0x20..=0x7f => out.push(bytes[7]),
        0x80..=0xff => tagged(out, 0xcc, &bytes[7..]),
        0x100..=0xffff => tagged(out, 0xcd, &bytes[6..]),
        0x1_0000..=0xffff_ffff => tagged(out, 0xce, &bytes[4..]),
        0x1_0000_0000.. => tagged(out, 0xcf, &bytes),
        -0x80..=-0x21 => tagged(out, 0xd0, &bytes[7..]),
        -0x8000..=-0x81 => tagged(out, 0xd1, &bytes[6..]),
        -0x8000_0000..=-0x8001 => tagged(out, 0xd2, &bytes[4..]),
        _ => tagged(out, 0xd3, &bytes),
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend(bytes);
}

fn write_bytes_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..32 => out.push(0xa0 | len_u8(len)),
        32..=0xff => out.extend([0xd9, len_u8(len)]),
        0x100..=0xffff => tagged(out, 0xda, &len_u16(len).to_be_bytes()),
        _ => tagged(out, 0xdb, &short_len(len).to_be_bytes()),
    }
}

/// Writes the length of an array or a map: `tiny` for up to 15, else `tag` with 16 bits, or the next tag with 32.
fn write_len(out: &mut Vec<u8>, tiny: u8, tag: u8, len: usize) {
    match len {
        0..16 => out.push(tiny | len_u8(len)),
        16..=0xffff => tagged(out, tag, &len_u16(len).to_be_bytes()),
        _ => tagged(out, tag + 1, &short_len(len).to_be_bytes()),
    }
}

/// Whether the keys of the table on top are 1 to its length.
fn is_array(stack: &mut Stack<'_>) -> bool {
    let (mut keys, mut max) = (0u64, 0u64);
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        let number = if stack.kind(-1) == Kind::Number { stack.number(-1) } else { None };
        match number.filter(|key| *key > 0.0 && *key <= f64::from(i32::MAX) && key.trunc() == *key) {
            Some(key) => max = max.max(whole_u64(key)),
            None => {
                stack.pop(1);
                return false;
            }
        }
        keys += 1;
    }
    max == keys
}

fn write_array(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    let len = stack.len(-1);
    write_len(out, 0x90, 0xdc, len);
    for number in (1..).take(len) {
        stack.get_element(-1, number);
        write_value(stack, out, depth + 1)?;
    }
    Ok(())
}

fn write_map(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    let mut len = 0;
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        len += 1;
    }
    write_len(out, 0x80, 0xde, len);
    stack.push_nil();
    while stack.next(-2) {
        stack.push_value(-2);
        write_value(stack, out, depth + 1)?;
        write_value(stack, out, depth + 1)?;
    }
    Ok(())
}

/// Why bytes are not valid MessagePack.
enum Problem {
    Missing,
    Bad,
    /// The error on top of the stack is raised.
    Raised,
    StackOverflow,
}

/// Reads up to `limit` values from `offset` on, and returns the end position (-1 at the end of the text) and the values;
/// if both are 0, returns only the values, all of them.
fn unpack(stack: &mut Stack<'_>, limit: i64, offset: i64) -> Result<usize, Raise> {
    let input = stack.text_argument(1)?;
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let len = input.len();
        drop(input);
        let (offset, len) = (low_i32(offset), int_len(len));
        return Err(
            stack.error(&format!("Invalid request to unpack with offset of {offset} and limit of {len}."))
        );
    }
    if offset as u64 > input.len() as u64 {
        let len = input.len();
        drop(input);
        let (offset, len) = (low_i32(offset), int_len(len));
        return Err(stack.error(&format!("Start offset {offset} greater than input length {len}.")));
    }
    let limit = if all { i64::from(i32::MAX) } else { limit };
    let mut reader = Reader { rest: &input[unsigned_len(offset)..] };
    let mut values = 0i32;
    while !reader.rest.is_empty() && i64::from(values) < limit {
        if let Err(problem) = reader.value(stack) {
            drop(input);
            return Err(match problem {
                Problem::Missing => stack.error("Missing bytes in input."),
                Problem::Bad => stack.error("Bad data format in input."),
                Problem::Raised => Raise::Value,
                Problem::StackOverflow => stack_overflow(
                    stack,
                    "too many return values at once; use unpack_one or unpack_limit instead.",
                ),
            });
        }
        values += 1;
    }
    if all {
        return Ok(values as usize);
    }
    let next = if reader.rest.is_empty() { -1.0 } else { (input.len() - reader.rest.len()) as f64 };
    if !stack.reserve(2) {
        drop(input);
        return Err(stack_overflow(stack, "in function mp_unpack_full"));
    }
    stack.push_number(next);
    stack.insert(-1 - values);
    Ok(values as usize + 1)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Problem::Missing)?;
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, len: usize) -> Result<u64, Problem> {
        Ok(self.take(len)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Result<f64, Problem> {
        let unused = 64 - 8 * short_len(len);
        Ok((signed_bits(self.unsigned(len)? << unused) >> unused) as f64)
    }

    fn bytes(&mut self, stack: &mut Stack<'_>, len: u64) -> Result<(), Problem> {
        let bytes = self.take(usize::try_from(len).map_err(|_| Problem::Missing)?)?;
        stack.push_bytes(bytes);
        Ok(())
    }

    fn value(&mut self, stack: &mut Stack<'_>) -> Result<(), Problem> {
        if !stack.reserve(4) {
            return Err(Problem::StackOverflow);
        }
        stack.step().map_err(|_| Problem::Raised)?;
        let tag = self.take(1)?[0];
        match tag {
            0x00..=0x7f => stack.push_number(f64::from(tag)),
            0xe0..=0xff => stack.push_number(f64::from(signed_byte(tag))),
            0xcc..=0xce => stack.push_number(self.unsigned(1 << (tag - 0xcc))? as f64),
            // Converted to a double as a signed number.
            0xcf => stack.push_number(signed_bits(self.unsigned(8)?) as f64),
            0xd0..=0xd3 => stack.push_number(self.signed(1 << (tag - 0xd0))?),
            0xca => stack.push_number(f64::from(f32::from_bits(low_u32(self.unsigned(4)?)))),
            0xcb => stack.push_number(f64::from_bits(self.unsigned(8)?)),
            0xc0 => stack.push_nil(),
            0xc2 | 0xc3 => stack.push_boolean(tag == 0xc3),
            0xa0..=0xbf => self.bytes(stack, u64::from(tag & 0x1f))?,
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))?;
                self.bytes(stack, len)?;
            }
            0x90..=0x9f => self.array(stack, u64::from(tag & 15))?,
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (tag - 0xdc))?;
                self.array(stack, len)?;
            }
            0x80..=0x8f => self.map(stack, u64::from(tag & 15))?,
            0xde | 0xdf => {
                let len = self.unsigned(2 << (tag - 0xde))?;
                self.map(stack, len)?;
            }
            _ => return Err(Problem::Bad),
        }
        Ok(())
    }

    fn array(&mut self, stack: &mut Stack<'_>, len: u64) -> Result<(), Problem> {
        stack.push_table(0, 0);
        for number in (1..).take(usize_of(len)) {
            self.value(stack)?;
            stack.set_element(-2, number);
        }
        Ok(())
    }

    fn map(&mut self, stack: &mut Stack<'_>, len: u64) -> Result<(), Problem> {
        stack.push_table(0, 0);
        for _ in 0..len {
            self.value(stack)?;
            self.value(stack)?;
            stack.set(-3).map_err(|_| Problem::Raised)?;
        }
        Ok(())
    }
}
