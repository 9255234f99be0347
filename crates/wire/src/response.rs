//! Decoder of responses, for programs that connect to a server.
//!
//! [`Reader`] decodes values, [`Skipper`] finds only the end of each response, which a load generator needs. Like the
//! parser of requests, both take a growing buffer and a position, and do not trust the peer:
//!
//! 1. `position` advances past every part that was read; bytes before it may be removed at any time.
//! 2. Memory is proportional to the bytes received, not to announced lengths.
//! 3. Depth is limited, and only dropping values is recursive. A response that is too deep is skipped before the
//!    error is returned, so that reading can continue after it.

use std::fmt;

use memchr::memchr;

use crate::number::parse_i64;

/// Maximum depth of aggregates.
pub const DEPTH_MAX: usize = 64;
/// Maximum length of a line: an error or status, a number, a length.
pub const LINE_LEN_MAX: usize = 64 * 1024;

/// A response, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A status line.
    Simple(Vec<u8>),
    /// Code and text of an error, also of RESP3's bulk errors.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// A verbatim string with the three letters of its format.
    Verbatim([u8; 3], Vec<u8>),
    /// RESP3's null, and the null bulk string of RESP2.
    Null,
    /// The null array of RESP2.
    NullArray,
    /// A boolean of RESP3.
    Boolean(bool),
    /// The text of a double.
    Double(Vec<u8>),
    /// The digits of a big number.
    BigNumber(Vec<u8>),
    /// The elements of an array.
    Array(Vec<Value>),
    /// The elements of a set of RESP3, in the server's order.
    Set(Vec<Value>),
    /// A push message: its kind, then its elements.
    Push(Vec<Value>),
    /// The keys and values of a map of RESP3, in the server's order.
    Map(Vec<(Value, Value)>),
    /// Attributes and their value.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// Returns the bytes of a string of any kind.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(text)
            | Self::Error(text)
            | Self::Bulk(text)
            | Self::Verbatim(_, text)
            | Self::Double(text)
            | Self::BigNumber(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of an aggregate of any kind.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the entries of a map, or of the flat array that RESP2 has in its place.
    pub fn entries(&self) -> Vec<(&Value, &Value)> {
        match self {
            Self::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
            other => {
                other.as_list().unwrap_or(&[]).chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()
            }
        }
    }

    /// Returns whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Why bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// An unknown type byte.
    UnknownType(u8),
    /// An invalid number, length or boolean.
    Number,
    /// A line exceeds [`LINE_LEN_MAX`].
    LineTooLong,
    /// A line or a string is not followed by CR and LF.
    LineEnd,
    /// Aggregates are nested deeper than [`DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) => write!(f, "unknown type '{}' in a response", byte.escape_ascii()),
            Self::Number => f.write_str("invalid number in a response"),
            Self::LineTooLong => write!(f, "a line of more than {LINE_LEN_MAX} bytes in a response"),
            Self::LineEnd => f.write_str("missing line end in a response"),
            Self::TooDeep => write!(f, "more than {DEPTH_MAX} levels in a response"),
        }
    }
}

impl std::error::Error for ResponseError {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Aggregate {
    Array,
    Set,
    Push,
    Map,
    /// The count is of its pairs, plus the value after them.
    Attribute,
}

/// An element of a response: a scalar with all its bytes, or the header of an aggregate.
enum Part<'a> {
    Line(u8, &'a [u8]),
    Bulk(u8, &'a [u8]),
    Null,
    NullArray,
    /// Number of elements that follow.
    Open(Aggregate, u64),
}

/// Parses the element at the start of `rest` and returns it with its length, or `None` if it is incomplete.
fn part(rest: &[u8]) -> Result<Option<(Part<'_>, usize)>, ResponseError> {
    let Some(&kind) = rest.first() else { return Ok(None) };
    if !b"+-:,#(_$=!*~>%|".contains(&kind) {
        return Err(ResponseError::UnknownType(kind));
    }
    let Some(line_end) = memchr(b'\r', &rest[..rest.len().min(LINE_LEN_MAX)]) else {
        return if rest.len() >= LINE_LEN_MAX { Err(ResponseError::LineTooLong) } else { Ok(None) };
    };
    let behind = line_end + 2;
    match rest.get(line_end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(ResponseError::LineEnd),
    }
    let line = &rest[1..line_end];
    let len = || parse_i64(line).ok_or(ResponseError::Number);
    let part = match kind {
        b'_' => Part::Null,
        b'$' | b'=' | b'!' => match len()? {
            -1 if kind == b'$' => Part::Null,
            len => {
                let read = bulk(kind, len, &rest[behind..])?;
                return Ok(read.map(|(part, len)| (part, behind + len)));
            }
        },
        b'*' | b'~' | b'>' | b'%' | b'|' => match len()? {
            -1 if kind == b'*' => Part::NullArray,
            len => open(kind, len)?,
        },
        _ => Part::Line(kind, line),
    };
    Ok(Some((part, behind)))
}

fn bulk(kind: u8, len: i64, rest: &[u8]) -> Result<Option<(Part<'_>, usize)>, ResponseError> {
    let len = usize::try_from(len).map_err(|_| ResponseError::Number)?;
    let whole = len.checked_add(2).ok_or(ResponseError::Number)?;
    match rest.get(len..whole) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Part::Bulk(kind, &rest[..len]), whole))),
        Some(_) => Err(ResponseError::LineEnd),
    }
}

fn open(kind: u8, len: i64) -> Result<Part<'static>, ResponseError> {
    let len = u64::try_from(len).map_err(|_| ResponseError::Number)?;
    let twice = || len.checked_mul(2).ok_or(ResponseError::Number);
    Ok(match kind {
        b'~' => Part::Open(Aggregate::Set, len),
        b'>' => Part::Open(Aggregate::Push, len),
        b'%' => Part::Open(Aggregate::Map, twice()?),
        b'|' => Part::Open(Aggregate::Attribute, twice()? + 1),
        _ => Part::Open(Aggregate::Array, len),
    })
}

/// An aggregate whose elements are incomplete.
#[derive(Debug)]
struct Frame {
    kind: Aggregate,
    missing: u64,
    items: Vec<Value>,
}

impl Frame {
    fn close(mut self) -> Value {
        match self.kind {
            Aggregate::Array => Value::Array(self.items),
            Aggregate::Set => Value::Set(self.items),
            Aggregate::Push => Value::Push(self.items),
            Aggregate::Map => Value::Map(in_pairs(self.items)),
            Aggregate::Attribute => {
                let subject = self.items.pop().expect("an attribute's frame counts its subject");
                Value::Attributed(in_pairs(self.items), Box::new(subject))
            }
        }
    }
}

fn in_pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// Decodes responses to values, and continues where bytes were missing.
#[derive(Debug, Default)]
pub struct Reader {
    open: Vec<Frame>,
    /// The number of elements to skip of a response that is too deep.
    passed_over: Option<Skipper>,
}

impl Reader {
    /// Creates a reader at the start of a response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the response at `position`, or returns `None` if it is incomplete. After `TooDeep` the next response
    /// can be read; all other errors are final.
    pub fn read(&mut self, buffer: &[u8], position: &mut usize) -> Result<Option<Value>, ResponseError> {
        loop {
            if let Some(deep) = &mut self.passed_over {
                let end = deep.skip(buffer, position)?;
                if end.is_some() {
                    self.passed_over = None;
                    return Err(ResponseError::TooDeep);
                }
                return Ok(None);
            }
            let Some((part, len)) = part(&buffer[*position..])? else { return Ok(None) };
            let value = match part {
                Part::Open(kind, missing) if missing > 0 => {
                    *position += len;
                    match self.open.len() {
                        DEPTH_MAX => self.passed_over = Some(self.give_up(missing)?),
                        _ => self.open.push(Frame { kind, missing, items: Vec::new() }),
                    }
                    continue;
                }
                Part::Open(kind, missing) => Frame { kind, missing, items: Vec::new() }.close(),
                scalar => scalar_value(scalar)?,
            };
            *position += len;
            if let Some(whole) = self.place(value) {
                return Ok(Some(whole));
            }
        }
    }

    /// Skips the rest of a response whose innermost aggregate lacks this number of elements.
    fn give_up(&mut self, missing: u64) -> Result<Skipper, ResponseError> {
        // Each aggregate is one of the missing elements of its parent.
        let rest = self.open.drain(..).try_fold(missing, |sum, frame| sum.checked_add(frame.missing - 1));
        Ok(Skipper { missing: rest.ok_or(ResponseError::Number)?, is_error: false })
    }

    /// Adds a value to its parent; returns the response if that completes it.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        while let Some(frame) = self.open.last_mut() {
            frame.items.push(value);
            frame.missing -= 1;
            if frame.missing > 0 {
                return None;
            }
            value = self.open.pop()?.close();
        }
        Some(value)
    }
}

fn scalar_value(part: Part<'_>) -> Result<Value, ResponseError> {
    Ok(match part {
        Part::Null => Value::Null,
        Part::NullArray => Value::NullArray,
        Part::Line(b'+', line) => Value::Simple(line.to_vec()),
        Part::Line(b'-', line) => Value::Error(line.to_vec()),
        Part::Line(b':', line) => Value::Integer(parse_i64(line).ok_or(ResponseError::Number)?),
        Part::Line(b',', line) => Value::Double(line.to_vec()),
        Part::Line(b'#', b"t") => Value::Boolean(true),
        Part::Line(b'#', b"f") => Value::Boolean(false),
        Part::Line(b'#', _) => return Err(ResponseError::Number),
        Part::Line(_, line) => Value::BigNumber(line.to_vec()),
        Part::Bulk(b'!', bytes) => Value::Error(bytes.to_vec()),
        Part::Bulk(b'=', [a, b, c, b':', text @ ..]) => Value::Verbatim([*a, *b, *c], text.to_vec()),
        Part::Bulk(b'=', _) => return Err(ResponseError::Number),
        Part::Bulk(_, bytes) => Value::Bulk(bytes.to_vec()),
        Part::Open(..) => unreachable!("aggregates are opened by the caller"),
    })
}

/// Finds the end of each response and discards its contents.
#[derive(Debug)]
pub struct Skipper {
    /// Number of elements that complete the response.
    missing: u64,
    is_error: bool,
}

impl Default for Skipper {
    fn default() -> Self {
        Self { missing: 1, is_error: false }
    }
}

impl Skipper {
    /// Creates a skipper at the start of a response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the response at `position` is an error, or `None` if it is incomplete.
    pub fn skip(&mut self, buffer: &[u8], position: &mut usize) -> Result<Option<bool>, ResponseError> {
        while self.missing > 0 {
            let Some((part, len)) = part(&buffer[*position..])? else { return Ok(None) };
            *position += len;
            self.missing -= 1;
            match part {
                Part::Open(_, elements) => {
                    self.missing = self.missing.checked_add(elements).ok_or(ResponseError::Number)?;
                }
                Part::Line(b'-', _) | Part::Bulk(b'!', _) => self.is_error = true,
                _ => {}
            }
        }
        Ok(Some(std::mem::take(self).is_error))
    }
}

#[cfg(test)]
mod tests;
