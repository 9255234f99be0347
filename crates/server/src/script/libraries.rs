//! The libraries of scripts besides Lua's own: cjson, cmsgpack, struct and bit. Existing scripts rely on their results and
//! error texts, so both are compatible to the byte.

mod bits;
mod json;
mod json_reader;
mod json_writer;
mod message_pack;
mod structs;

use super::{Caller, Stack};
use crate::sys::lua::Native;

/// The longest text that they produce, as no key holds a longer one. Without it, tables that share their parts would
/// produce unlimited text.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// Adds the libraries to the table at the bottom of the stack.
pub fn open(stack: &mut Stack<'_>) {
    json::push(stack);
    stack.set_field(1, "cjson");
    push(stack, message_pack::FUNCTIONS);
    for (name, text) in message_pack::TEXTS {
        stack.push_bytes(text.as_bytes());
        stack.set_field(-2, name);
    }
    stack.set_field(1, "cmsgpack");
    push(stack, structs::FUNCTIONS);
    stack.set_field(1, "struct");
    push(stack, bits::FUNCTIONS);
    stack.set_field(1, "bit");
}

type Functions = &'static [(&'static str, Native<dyn Caller>)];

fn push(stack: &mut Stack<'_>, functions: Functions) {
    stack.push_table(0, functions.len());
    for (name, native) in functions {
        stack.push_native(*native);
        stack.set_field(-2, name);
    }
}

#[cfg(test)]
mod tests;
