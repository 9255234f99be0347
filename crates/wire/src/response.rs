//! Responses: what a client reads. For our own tools; the server never reads any.
//!
//! [`Reader`] builds values, [`Skipper`] only finds where each response ends (a load generator needs no more). Both
//! take a growing buffer and a position in it, like the parser of requests, and trust the other side as little:
//!
//! 1. `position` moves behind every part that was read; what lies before it may be cut off at any time.
//! 2. Memory follows the bytes received, never a length that was merely announced.
//! 3. Depth is limited, and nothing here is recursive but the dropping of values, which depth bounds. What is too deep is
//!    skipped to its end before the error is returned: the reader can continue behind it.

use std::fmt;

use memchr::memchr;

use crate::number::parse_i64;

/// Aggregates within aggregates.
pub const DEPTH_MAX: usize = 64;
/// Longest line: an error or status text, a number, a length.
pub const LINE_LEN_MAX: usize = 64 * 1024;

/// One response, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A status line.
    Simple(Vec<u8>),
    /// Code and text, or the text of RESP3's long form.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A text of any bytes.
    Bulk(Vec<u8>),
    /// A bulk with the three letters of its format.
    Verbatim([u8; 3], Vec<u8>),
    /// RESP3's null, and the missing bulk of RESP2.
    Null,
    /// The missing array of RESP2.
    NullArray,
    /// RESP3's true or false.
    Boolean(bool),
    /// A number with fraction, as it was written.
    Double(Vec<u8>),
    /// An integer of any size, as it was written.
    BigNumber(Vec<u8>),
    /// The elements of an array.
    Array(Vec<Value>),
    /// The elements of RESP3's set, in the server's order.
    Set(Vec<Value>),
    /// A message that answers no command: its kind first.
    Push(Vec<Value>),
    /// The keys and values of RESP3's map, in the server's order.
    Map(Vec<(Value, Value)>),
    /// Attributes and the value they are about.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// The bytes of a text of any kind.
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

    /// The elements of a list of any kind.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a map, or of the flat list that RESP2 sends in its place.
    pub fn entries(&self) -> Vec<(&Value, &Value)> {
        match self {
            Self::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
            other => {
                other.as_list().unwrap_or(&[]).chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()
            }
        }
    }

    /// Whether the server has answered with an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Bytes that are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// This byte begins no type of response.
    UnknownType(u8),
    /// A number, length or boolean that is none.
    Number,
    /// A line exceeds [`LINE_LEN_MAX`].
    LineTooLong,
    /// A line or a text is not followed by CR and LF.
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
    /// Counts its pairs and the value behind them.
    Attribute,
}

/// One element of a response: a scalar with all its bytes, or the line that opens an aggregate.
enum Part<'a> {
    Line(u8, &'a [u8]),
    Bulk(u8, &'a [u8]),
    Null,
    NullArray,
    /// Elements that follow.
    Open(Aggregate, u64),
}

/// The part at the start of `rest` and how many bytes it takes, or `None` if the bytes end before it does.
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

/// An aggregate of which not all elements have been read.
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

/// Reads responses into values, going on where it stopped when bytes were missing.
#[derive(Debug, Default)]
pub struct Reader {
    open: Vec<Frame>,
    /// What is left of a response that is too deep.
    passed_over: Option<Skipper>,
}

impl Reader {
    /// A reader at the start of a response.
    pub fn new() -> Self {
        Self::default()
    }

    /// The response at `position`, or `None` if the buffer ends before it does. Behind one that is `TooDeep` the next can be
    /// read; all other errors are final.
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

    /// Forgets what has been read of a response whose innermost aggregate lacks this number of elements.
    fn give_up(&mut self, missing: u64) -> Result<Skipper, ResponseError> {
        // Each aggregate is one of the missing elements of that around it.
        let rest = self.open.drain(..).try_fold(missing, |sum, frame| sum.checked_add(frame.missing - 1));
        Ok(Skipper { missing: rest.ok_or(ResponseError::Number)?, is_error: false })
    }

    /// Puts a value where it belongs; the response, if that completes it.
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

/// Finds the end of each response and keeps nothing of it.
#[derive(Debug)]
pub struct Skipper {
    /// Elements until the response is whole.
    missing: u64,
    is_error: bool,
}

impl Default for Skipper {
    fn default() -> Self {
        Self { missing: 1, is_error: false }
    }
}

impl Skipper {
    /// A skipper at the start of a response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the response at `position` is an error, or `None` if the buffer ends before it does.
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
