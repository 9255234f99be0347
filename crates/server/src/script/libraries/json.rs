//! `cjson`: its table and its settings.

use super::{Stack, json_reader, json_writer};
use crate::script::{Kind, Raise};
use crate::sys::lua::Native;
use wire::convert::{low_i32, whole_i32};

type Function = (&'static str, Native<dyn super::Caller>);

const FUNCTIONS: [Function; 10] = [
    ("encode", json_writer::encode),
    ("decode", json_reader::decode),
    ("encode_sparse_array", sparse_array),
    ("encode_max_depth", |stack| option(stack, Setting::EncodeDepth, i32::MAX)),
    ("decode_max_depth", |stack| option(stack, Setting::DecodeDepth, i32::MAX)),
    ("encode_number_precision", |stack| option(stack, Setting::Precision, 14)),
    ("encode_keep_buffer", |stack| switch(stack, Setting::KeepBuffer, &["off", "on"])),
    ("encode_invalid_numbers", |stack| switch(stack, Setting::EncodeInvalid, &["off", "on", "null"])),
    ("decode_invalid_numbers", |stack| switch(stack, Setting::DecodeInvalid, &["off", "on"])),
    ("new", |stack| {
        push(stack);
        Ok(1)
    }),
];

/// Settings of one `cjson` table, in a table that its functions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Whether sparse arrays become objects.
    SparseConvert = 1,
    /// Ratio of the largest index to the number of elements above which an array is sparse.
    SparseRatio,
    /// Arrays with smaller indexes are never sparse.
    SparseSafe,
    /// Maximum nesting when encoding.
    EncodeDepth,
    /// Maximum nesting when decoding.
    DecodeDepth,
    /// 0: an error, 1: written as they are, 2: written as null.
    EncodeInvalid,
    /// Whether NaN and infinity are accepted when decoding.
    DecodeInvalid,
    /// Whether the buffer is kept; without effect.
    KeepBuffer,
    /// Significant digits of numbers.
    Precision,
}

const DEFAULTS: [i32; 9] = [0, 2, 10, 1000, 1000, 0, 1, 1, 14];

/// Reads settings of the current function.
pub fn settings<const N: usize>(stack: &mut Stack<'_>, wanted: [Setting; N]) -> [i32; N] {
    stack.push_companion();
    let values = wanted.map(|setting| {
        stack.get_element(-1, setting as i32);
        let value = whole_i32(stack.number(-1).unwrap_or_default());
        stack.pop(1);
        value
    });
    stack.pop(1);
    values
}

fn set(stack: &mut Stack<'_>, setting: Setting, value: i32) {
    stack.push_companion();
    stack.push_number(f64::from(value));
    stack.set_element(-2, setting as i32);
    stack.pop(1);
}

/// Pushes a `cjson` table with settings of its own.
pub fn push(stack: &mut Stack<'_>) {
    stack.push_table(0, FUNCTIONS.len() + 3);
    stack.push_table(DEFAULTS.len(), 0);
    for (number, default) in (1..).zip(DEFAULTS) {
        stack.push_number(f64::from(default));
        stack.set_element(-2, number);
    }
    for (name, native) in FUNCTIONS {
        stack.push_value(-1);
        stack.push_native_with(native);
        stack.set_field(-3, name);
    }
    stack.pop(1);
    stack.push_null_pointer();
    stack.set_field(-2, "null");
    stack.push_bytes(b"cjson");
    stack.set_field(-2, "_NAME");
    stack.push_bytes(b"2.1.0");
    stack.set_field(-2, "_VERSION");
}

/// Refuses more than `count` arguments, and fills missing ones with nil.
fn take_arguments(stack: &mut Stack<'_>, count: i32) -> Result<(), Raise> {
    if stack.top() > count {
        return Err(stack.argument_error(count + 1, "found too many arguments"));
    }
    stack.set_top(count);
    Ok(())
}

fn option(stack: &mut Stack<'_>, setting: Setting, max: i32) -> Result<usize, Raise> {
    take_arguments(stack, 1)?;
    integer(stack, 1, setting, 1, max)
}

/// Applies the argument, if there is one, and pushes the setting.
fn integer(
    stack: &mut Stack<'_>,
    argument: i32,
    setting: Setting,
    min: i32,
    max: i32,
) -> Result<usize, Raise> {
    if stack.kind(argument) != Kind::Nil {
        let value = low_i32(stack.integer_argument(argument)?);
        if value < min || value > max {
            let text = format!("expected integer between {min} and {max}");
            return Err(stack.argument_error(1, &text));
        }
        set(stack, setting, value);
    }
    let [value] = settings(stack, [setting]);
    stack.push_number(f64::from(value));
    Ok(1)
}

fn switch(stack: &mut Stack<'_>, setting: Setting, words: &[&str]) -> Result<usize, Raise> {
    take_arguments(stack, 1)?;
    choice(stack, 1, setting, words)
}

fn choice(stack: &mut Stack<'_>, argument: i32, setting: Setting, words: &[&str]) -> Result<usize, Raise> {
    match stack.kind(argument) {
        Kind::Nil => {}
        Kind::Boolean => set(stack, setting, i32::from(stack.truth(argument))),
        _ => {
            let word = stack.text_argument(argument)?;
            let Some((_, value)) = words.iter().zip(0..).find(|(known, _)| known.as_bytes() == word) else {
                let text = format!("invalid option '{}'", String::from_utf8_lossy(&word));
                return Err(stack.argument_error(argument, &text));
            };
            set(stack, setting, value);
        }
    }
    match settings(stack, [setting]) {
        [value @ (0 | 1)] => stack.push_boolean(value == 1),
        [value] => stack.push_bytes(words[value as usize].as_bytes()),
    }
    Ok(1)
}

fn sparse_array(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    take_arguments(stack, 3)?;
    choice(stack, 1, Setting::SparseConvert, &["off", "on"])?;
    integer(stack, 2, Setting::SparseRatio, 0, i32::MAX)?;
    integer(stack, 3, Setting::SparseSafe, 0, i32::MAX)?;
    Ok(3)
}
