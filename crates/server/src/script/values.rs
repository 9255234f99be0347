//! Conversion of replies to Lua values, and of a script's result to a reply.
//!
//! | reply | value |
//! |---|---|
//! | integer, bulk, array | number, string, table |
//! | status, error | table with the one field `ok`, `err` |
//! | missing bulk or array | `false` |
//! | RESP3: null, boolean | `nil`, boolean |
//! | RESP3: double, big number, verbatim, map, set | tables with the one field `double`, `big_number`, `verbatim_string`, `map`, `set` |

use super::environment::BYTES_MAX;
use super::{Kind, MESSAGE_BYTES_MAX, Raise, Stack};
use wire::convert::unsigned_len;
use wire::reply::{Protocol, ReplyBuffer};

/// Stack slots for one level of a reply.
const STACK_PER_LEVEL: u32 = 6;

/// Pushes the value of the reply at the beginning of `bytes`. This server has written the bytes, so they are not
/// validated. Returns the reply's length, or raises an error if the values exceed the script's limits.
pub fn push_reply(stack: &mut Stack<'_>, bytes: &[u8]) -> Result<usize, Raise> {
    stack.step()?;
    let line_len = line_len(bytes);
    let (line, len) = (&bytes[1..line_len], line_len + 2);
    match bytes[0] {
        b':' => stack.push_number(integer(line) as f64),
        b'$' | b'=' if line != b"-1" => {
            let body_len = length(line);
            let body = &bytes[len..len + body_len];
            match bytes[0] {
                b'$' => stack.push_bytes(body),
                _ => push_verbatim(stack, &body[..3], &body[4..]),
            }
            return Ok(len + body_len + 2);
        }
        b'$' => stack.push_boolean(false),
        b'*' if line == b"-1" => stack.push_boolean(false),
        b'*' | b'>' => return Ok(len + push_array(stack, &bytes[len..], length(line))?),
        b'%' => return Ok(len + push_map(stack, &bytes[len..], length(line))?),
        b'~' => return Ok(len + push_set(stack, &bytes[len..], length(line))?),
        b'|' => {
            // Attributes are skipped.
            let attributes = push_map(stack, &bytes[len..], length(line))?;
            stack.pop(1);
            return Ok(len + attributes + push_reply(stack, &bytes[len + attributes..])?);
        }
        b'+' => push_field(stack, "ok", |stack| stack.push_bytes(line)),
        b'-' => push_error_reply(stack, line),
        b'#' => stack.push_boolean(line == b"t"),
        b',' => push_field(stack, "double", |stack| stack.push_number(double(line))),
        b'(' => push_field(stack, "big_number", |stack| stack.push_bytes(line)),
        _ => stack.push_nil(),
    }
    Ok(len)
}

/// A reply's first line, without its end.
fn line_len(bytes: &[u8]) -> usize {
    memchr::memchr(b'\r', bytes).expect("every reply begins with a line")
}

fn integer(line: &[u8]) -> i64 {
    wire::number::parse_i64(line).unwrap_or_default()
}

fn length(line: &[u8]) -> usize {
    unsigned_len(integer(line))
}

fn double(line: &[u8]) -> f64 {
    match line {
        b"nan" => f64::NAN,
        _ => wire::number::parse_f64_saturating(line).unwrap_or_default(),
    }
}

fn push_field(stack: &mut Stack<'_>, name: &str, push: impl FnOnce(&mut Stack<'_>)) {
    stack.push_table(0, 1);
    push(stack);
    stack.set_field(-2, name);
}

fn push_verbatim(stack: &mut Stack<'_>, format: &[u8], text: &[u8]) {
    push_field(stack, "verbatim_string", |stack| {
        stack.push_table(0, 2);
        stack.push_bytes(text);
        stack.set_field(-2, "string");
        stack.push_bytes(format);
        stack.set_field(-2, "format");
    });
}

fn push_array(stack: &mut Stack<'_>, bytes: &[u8], elements: usize) -> Result<usize, Raise> {
    stack.push_table(elements, 0);
    stack.reserve(STACK_PER_LEVEL);
    let mut at = 0;
    for number in (1..).take(elements) {
        at += push_reply(stack, &bytes[at..])?;
        stack.set_element(-2, number);
    }
    Ok(at)
}

fn push_map(stack: &mut Stack<'_>, bytes: &[u8], pairs: usize) -> Result<usize, Raise> {
    stack.push_table(0, 1);
    stack.push_table(0, pairs);
    stack.reserve(STACK_PER_LEVEL);
    let mut at = 0;
    for _ in 0..pairs {
        at += push_reply(stack, &bytes[at..])?;
        at += push_reply(stack, &bytes[at..])?;
        put(stack);
    }
    stack.set_field(-2, "map");
    Ok(at)
}

fn push_set(stack: &mut Stack<'_>, bytes: &[u8], members: usize) -> Result<usize, Raise> {
    stack.push_table(0, 1);
    stack.push_table(0, members);
    stack.reserve(STACK_PER_LEVEL);
    let mut at = 0;
    for _ in 0..members {
        at += push_reply(stack, &bytes[at..])?;
        stack.push_boolean(true);
        put(stack);
    }
    stack.set_field(-2, "set");
    Ok(at)
}

/// Puts a key and a value into the table below them; skips a key that Lua tables do not allow.
fn put(stack: &mut Stack<'_>) {
    if stack.set(-3).is_err() {
        stack.pop(3);
    }
}

/// Pushes the table of an error that a command has returned, and that has been counted.
fn push_error_reply(stack: &mut Stack<'_>, line: &[u8]) {
    push_error(stack, &[b"-", line].concat());
    stack.push_boolean(true);
    stack.set_field(-2, "ignore_error_stats_update");
}

/// Pushes the table of an error. After a leading `-`, the text begins with its code; else the code is `ERR`.
pub fn push_error(stack: &mut Stack<'_>, text: &[u8]) {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let trimmed = |text: &[u8]| {
        let start = text.iter().take_while(|&byte| is_line_end(byte)).count();
        let end = text.len() - text[start..].iter().rev().take_while(|&byte| is_line_end(byte)).count();
        text[start..end].to_vec()
    };
    let message = match text.strip_prefix(b"-") {
        Some(line) => match line.iter().position(|&byte| byte == b' ') {
            Some(space) => [&line[..=space], &trimmed(&line[space + 1..])].concat(),
            None => [b"ERR ", line].concat(),
        },
        None => [b"ERR ".as_slice(), &trimmed(text)].concat(),
    };
    push_field(stack, "err", |stack| stack.push_bytes(&message));
}

/// Details of an error that stopped a script, or that it returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorInformation {
    /// Text of the error, with its code.
    pub message: Vec<u8>,
    /// The script's file and line.
    pub place: Option<(Vec<u8>, Vec<u8>)>,
    /// It was counted when it was raised.
    pub counted: bool,
}

/// Reads the error value on top of the stack.
pub fn error_information(stack: &mut Stack<'_>) -> ErrorInformation {
    if let Some(text) = stack.text_up_to(-1, MESSAGE_BYTES_MAX) {
        let message = [b"ERR ", text.as_slice()].concat();
        return ErrorInformation { message, ..Default::default() };
    }
    if stack.kind(-1) != Kind::Table {
        return ErrorInformation { message: b"ERR unknown error".to_vec(), ..Default::default() };
    }
    let mut field = |name| {
        stack.get_field(-1, name);
        let text = stack.text_up_to(-1, MESSAGE_BYTES_MAX);
        let truth = stack.kind(-1) == Kind::Boolean && stack.truth(-1);
        stack.pop(1);
        (text, truth)
    };
    let message = field("err").0.unwrap_or_else(|| b"ERR unknown error".to_vec());
    let (source, line) = (field("source").0, field("line").0);
    let counted = field("ignore_error_stats_update").1;
    ErrorInformation { message, place: source.zip(line), counted }
}

/// The outcome of writing a script's result.
#[derive(Debug, Default)]
pub struct Written {
    /// Errors within it that have not been counted yet.
    pub errors: Vec<String>,
    /// The result as a whole is an error.
    pub failed: bool,
    /// It is longer than a script's memory, which is possible only for tables that share their parts.
    too_long: bool,
}

impl Written {
    /// Records an error that has not been counted, as the one line of its reply.
    pub fn note_error(&mut self, message: &[u8]) {
        self.errors.push(String::from_utf8_lossy(message).replace(['\r', '\n'], " "));
    }
}

/// Pops the value on top and writes it as a reply. `protocol` is the script's: it determines the encoding of booleans.
pub fn write(stack: &mut Stack<'_>, reply: &mut ReplyBuffer, protocol: Protocol) -> Written {
    let mut written = Written::default();
    let start = reply.len();
    write_value(stack, reply, protocol, &mut written);
    if written.too_long {
        reply.truncate(start);
        let line = "ERR the script's result is too large";
        written.note_error(line.as_bytes());
        reply.error(line);
    }
    written.failed = reply.byte_at(start) == Some(b'-');
    written
}

fn write_value(stack: &mut Stack<'_>, reply: &mut ReplyBuffer, protocol: Protocol, written: &mut Written) {
    written.too_long |= reply.len() > BYTES_MAX || reply.is_overflowed();
    if written.too_long {
        return stack.pop(1);
    }
    if !stack.reserve(STACK_PER_LEVEL) {
        reply.error("ERR reached lua stack limit");
        return stack.pop(1);
    }
    match stack.kind(-1) {
        Kind::String => reply.bulk(stack.bytes(-1).unwrap_or_default()),
        Kind::Boolean if protocol == Protocol::Resp3 => reply.boolean(stack.truth(-1)),
        Kind::Boolean if stack.truth(-1) => reply.integer(1),
        Kind::Number => reply.integer(crate::sys::lua::truncated(stack.number(-1).unwrap_or_default())),
        Kind::Table => return write_table(stack, reply, protocol, written),
        _ => reply.null(),
    }
    stack.pop(1);
}

/// A table with one field of a known name is written as that reply type, any other as an array.
fn write_table(stack: &mut Stack<'_>, reply: &mut ReplyBuffer, protocol: Protocol, written: &mut Written) {
    if write_error(stack, reply, written) || write_scalar(stack, reply) {
        return stack.pop(1);
    }
    for (name, is_map) in [("map", true), ("set", false)] {
        stack.get_field(-1, name);
        if stack.kind(-1) == Kind::Table {
            write_entries(stack, reply, protocol, written, is_map);
            return stack.pop(2);
        }
        stack.pop(1);
    }
    let mark = reply.begin_array();
    let mut elements = 0;
    loop {
        stack.get_element(-1, elements + 1);
        if stack.kind(-1) == Kind::Nil || written.too_long {
            break;
        }
        write_value(stack, reply, protocol, written);
        elements += 1;
    }
    reply.end_array(mark, elements as usize);
    stack.pop(2);
}

fn write_error(stack: &mut Stack<'_>, reply: &mut ReplyBuffer, written: &mut Written) -> bool {
    stack.get_field(-1, "err");
    let is_error = stack.kind(-1) == Kind::String;
    stack.pop(1);
    if is_error {
        let error = error_information(stack);
        if !error.counted {
            written.note_error(until_nul(&error.message));
        }
        reply.error(until_nul(&error.message));
    }
    is_error
}

/// Writes a status, a double, a big number or a verbatim text.
fn write_scalar(stack: &mut Stack<'_>, reply: &mut ReplyBuffer) -> bool {
    for name in ["ok", "double", "big_number", "verbatim_string"] {
        stack.get_field(-1, name);
        let known = match (name, stack.kind(-1)) {
            ("ok", Kind::String) => {
                let line = line(b"+", stack.bytes(-1).unwrap_or_default());
                reply.raw(&line);
                true
            }
            ("double", Kind::Number) => {
                reply.double(stack.number(-1).unwrap_or_default());
                true
            }
            ("big_number", Kind::String) => {
                let digits = line(b"(", stack.bytes(-1).unwrap_or_default());
                match reply.protocol {
                    Protocol::Resp3 => reply.raw(&digits),
                    Protocol::Resp2 => reply.bulk(&digits[1..digits.len() - 2]),
                }
                true
            }
            ("verbatim_string", Kind::Table) => write_verbatim(stack, reply),
            _ => false,
        };
        stack.pop(1);
        if known {
            return true;
        }
    }
    false
}

/// A reply's line with the text up to its first NUL.
fn line(kind: &[u8; 1], text: &[u8]) -> Vec<u8> {
    let mut line = [kind, until_nul(text)].concat();
    line.iter_mut().filter(|byte| matches!(**byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    line.extend(b"\r\n");
    line
}

/// The text up to its first NUL, as C reads it.
pub fn until_nul(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).map_or(text, |at| &text[..at])
}

fn write_verbatim(stack: &mut Stack<'_>, reply: &mut ReplyBuffer) -> bool {
    stack.get_field(-1, "format");
    stack.get_field(-2, "string");
    let format = stack.bytes(-2).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let known = match (format, stack.bytes(-1)) {
        (Some(format), Some(text)) => {
            reply.verbatim(&format, text);
            true
        }
        _ => false,
    };
    stack.pop(2);
    known
}

/// Writes the pairs of the table on top, or only its keys.
fn write_entries(
    stack: &mut Stack<'_>,
    reply: &mut ReplyBuffer,
    protocol: Protocol,
    written: &mut Written,
    is_map: bool,
) {
    let mark = reply.begin();
    let mut entries = 0;
    stack.push_nil();
    while stack.next(-2) {
        if !is_map {
            stack.pop(1);
            stack.push_value(-1);
            write_value(stack, reply, protocol, written);
        } else {
            stack.push_value(-2);
            write_value(stack, reply, protocol, written);
            write_value(stack, reply, protocol, written);
        }
        entries += 1;
        if written.too_long {
            stack.pop(1);
            break;
        }
    }
    if is_map {
        reply.end_map(mark, entries);
    } else {
        reply.end_set(mark, entries);
    }
}
