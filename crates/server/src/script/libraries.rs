//! The libraries that scripts find beside Lua's own: cjson, cmsgpack, struct and bit. What they do, to the byte and to
//! the text of an error, is what scripts have come to rely on.

mod bits;
mod json;
mod json_reader;
mod json_writer;
mod message_pack;
mod structs;

use super::{Caller, Stack};
use crate::sys::lua::Native;

/// The longest text that they make: no key holds a longer one. Tables that share their parts would make texts without
/// end.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// Puts the libraries into the table at the bottom of the stack.
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
