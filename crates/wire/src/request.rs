//! Parser of requests: splits received bytes into commands without copying them.
//!
//! A connection owns one growing buffer. [`Parser::parse`] parses from `position` on. It either appends the arguments
//! of a complete command, as ranges of the buffer, and advances `position` past it, or asks for more bytes.
//!
//! ```text
//!            position before                      position after
//!            v                                    v
//!  ..........*2\r\n$3\r\nGET\r\n$5\r\nhello\r\n*1\r\n...
//!                        ^--            ^----
//!                        ranges, from the start of the buffer
//! ```
//!
//! 1. `position` advances only past complete commands. The parser never reads bytes before it again; the caller may
//!    remove them when it no longer needs the arguments.
//! 2. The state of an incomplete command is relative to `position`, so the caller may remove bytes before it at any
//!    time, and a command of a million arguments that arrives in a thousand pieces is parsed once.
//! 3. `args` receives complete commands only: on `Incomplete` and on an error it is unchanged.
//! 4. Results do not depend on how the bytes are split on arrival.
//! 5. Memory is proportional to the bytes received, not to announced lengths.
//! 6. The caller may move the received part of an incomplete argument off the buffer's end and gather it elsewhere
//!    until it is complete ([`Parser::accept_apart`]). Its range is then in no buffer. A command has at most one such
//!    argument.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::convert::{short_len, usize_of};
use crate::number::parse_i64;

mod inline;
pub use inline::{UnbalancedQuotes, quoted, split_args};

/// Maximum number of arguments of a command.
pub const MULTIBULK_LEN_MAX: usize = i32::MAX as usize;
/// First bytes of a TLS record that opens a connection; no command begins with them.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];
/// Maximum length of an inline command, and of a line with a length.
pub const INLINE_LEN_MAX: usize = 64 * 1024;
/// Maximum number of arguments of a command before authentication.
pub const UNAUTHENTICATED_MULTIBULK_LEN_MAX: usize = 10;
/// Maximum length of an argument before authentication.
pub const UNAUTHENTICATED_BULK_LEN_MAX: usize = 16 * 1024;
/// Maximum length of a command in the buffer: ranges have 32 bits.
pub const REQUEST_LEN_MAX: usize = APART as usize - 1;
/// Start of an argument that is in no buffer, greater than that of all others.
const APART: u32 = u32::MAX;

/// Limits of requests, from the configuration and the connection's state.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`: maximum length of an argument.
    pub bulk_len_max: usize,
    /// Maximum number of arguments of a command.
    pub multibulk_len_max: usize,
    /// Maximum length of an inline command.
    pub inline_len_max: usize,
    /// Whether the client has authenticated; until then its commands must be small.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_len_max: 512 * 1024 * 1024,
            multibulk_len_max: MULTIBULK_LEN_MAX,
            inline_len_max: INLINE_LEN_MAX,
            authenticated: true,
        }
    }
}

/// The range of an argument in the connection's buffer. Sixteen bytes, so that the arguments of a typical command share
/// a cache line; so buffers must be smaller than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgRange {
    /// Offset of the first byte in the buffer.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
    /// Hash of an argument that is a key, which the receiver of the command computes once. `None`: it has not.
    pub hash: Option<NonZeroU64>,
}

impl ArgRange {
    #[inline]
    fn new(start: usize, len: usize) -> Self {
        debug_assert!(start + len <= REQUEST_LEN_MAX);
        Self { start: short_len(start), len: short_len(len), hash: None }
    }

    /// Returns `None` if the end exceeds 32-bit ranges ([`REQUEST_LEN_MAX`]).
    #[inline]
    pub fn within(start: usize, len: usize) -> Option<Self> {
        let end = start.checked_add(len).filter(|&end| end <= REQUEST_LEN_MAX)?;
        debug_assert!(end >= start);
        Some(Self { start: u32::try_from(start).ok()?, len: u32::try_from(len).ok()?, hash: None })
    }

    /// An argument that was gathered elsewhere; see [`Parser::accept_apart`]. For an argument of 4 GiB or more, from
    /// a file, the length is the maximum, and that of its bytes applies.
    pub fn apart(len: usize) -> Self {
        Self { start: APART, len: u32::try_from(len).unwrap_or(u32::MAX), hash: None }
    }

    /// Returns whether the argument is outside the buffer.
    #[inline]
    pub fn is_apart(self) -> bool {
        self.start == APART
    }

    /// Returns the range in the buffer; an argument outside it has none.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Returns the bytes of the argument in `buffer`, the buffer that was parsed.
    #[inline]
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.range()]
    }

    /// Returns the range after `by` bytes were removed from the front of the buffer.
    #[inline]
    pub fn rebased(self, by: usize) -> Self {
        Self { start: self.start - short_len(by), ..self }
    }
}

/// Result of parsing the command at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A complete command. Without arguments (an empty line, `*0`, `*-1`) there is nothing to do.
    Complete,
    /// The buffer ends before the command.
    Incomplete,
}

/// Why a request is invalid. `Display` and [`ProtocolError::text`] are the reply's text after `ERR Protocol error: `;
/// the connection is then closed, because the start of the next command is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The line of an inline command exceeds [`Limits::inline_len_max`].
    InlineTooLong,
    /// The line with the number of arguments exceeds [`INLINE_LEN_MAX`].
    MultibulkCountTooLong,
    /// The line with the length of an argument exceeds [`INLINE_LEN_MAX`].
    BulkCountTooLong,
    /// The number of arguments is not a number, or exceeds [`Limits::multibulk_len_max`].
    MultibulkLen,
    /// The length of an argument is not a number, is negative, or exceeds [`Limits::bulk_len_max`].
    BulkLen,
    /// More arguments than are permitted before authentication.
    UnauthenticatedMultibulkLen,
    /// A longer argument than is permitted before authentication.
    UnauthenticatedBulkLen,
    /// This byte is in place of a `$`.
    ExpectedBulk(u8),
    /// An argument is not followed by CR and LF.
    LineEnd,
    /// An unclosed quote in an inline command, or text directly after a closing quote.
    UnbalancedQuotes,
    /// The command takes more than [`REQUEST_LEN_MAX`] bytes of the buffer; other servers have no such limit.
    RequestTooLong,
    /// The bytes are a TLS handshake.
    TlsHandshake,
}

impl ProtocolError {
    /// Returns the bytes of the text: the byte of `ExpectedBulk` may not be UTF-8.
    pub fn text(self) -> Vec<u8> {
        match self {
            Self::ExpectedBulk(byte) => [b"expected '$', got '".as_slice(), &[byte], b"'"].concat(),
            other => other.to_string().into_bytes(),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InlineTooLong => "too big inline request",
            Self::MultibulkCountTooLong => "too big mbulk count string",
            Self::BulkCountTooLong => "too big bulk count string",
            Self::MultibulkLen => "invalid multibulk length",
            Self::BulkLen => "invalid bulk length",
            Self::UnauthenticatedMultibulkLen => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLen => "unauthenticated bulk length",
            Self::ExpectedBulk(byte) => return write!(f, "expected '$', got '{}'", char::from(*byte)),
            Self::LineEnd => "invalid CRLF in request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::RequestTooLong => "request exceeds 4 GiB",
            Self::TlsHandshake => "this port does not speak TLS",
        })
    }
}

impl std::error::Error for ProtocolError {}

const LINE_END: &[u8] = b"\r\n";

/// Parses commands in the buffer of a connection; see the module's invariants.
#[derive(Debug, Default)]
pub struct Parser {
    /// Where parsing continues, as an offset from the command's start; for an inline command, the length of its
    /// beginning without a line end. 0: nothing of this command has been parsed.
    cursor: usize,
    /// Number of announced arguments that have not been parsed. 0 with `cursor` > 0: an inline command.
    remaining: usize,
    /// Length of the argument at `cursor`, once its header has been parsed.
    bulk_len: Option<usize>,
    /// Number of bytes that complete the argument at `cursor`.
    wanted_bytes: usize,
    /// The arguments of an incomplete command, relative to its start.
    partial: Vec<ArgRange>,
    /// Length of the argument outside the buffer, line end included; 0 if there is none.
    apart_bytes: usize,
}

/// Maximum capacity of `partial` that is kept for the connection's next incomplete command.
const PARTIAL_CAPACITY_KEPT: usize = 64;

impl Parser {
    /// Creates a parser at the start of a command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes that complete the current argument, line end included, or 0 if it is unknown: the
    /// reader can make room for a large argument at once. Valid after `Incomplete`.
    pub fn wanted_bytes(&self) -> usize {
        self.wanted_bytes
    }

    /// Returns the approximate number of bytes that complete the current command, if its remaining arguments are like
    /// the parsed ones: the reader can grow its buffer in few steps. This is a guess from announced counts, so the
    /// room must stay proportional to the bytes received. Valid after `Incomplete`.
    pub fn bytes_to_come(&self) -> usize {
        match self.partial.len() {
            0 => 0,
            read => (self.cursor / read).saturating_add(1).saturating_mul(self.remaining),
        }
    }

    /// Returns start and length of the current argument, if the length is known; the start is relative to the
    /// command. Valid after `Incomplete`.
    pub fn argument_under_way(&self) -> Option<(usize, usize)> {
        self.bulk_len.map(|len| (len, self.cursor))
    }

    /// Accepts the current argument, which the caller has removed from the buffer and gathered elsewhere; `bytes` is
    /// its length with the line end, which is never in the buffer. The next call of [`Parser::parse`] continues after
    /// it.
    ///
    /// # Panics
    /// If no argument is incomplete, its length differs, or the command already has an argument outside the buffer.
    pub fn accept_apart(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let len = self.bulk_len.take().expect("an argument is under way");
        assert_eq!(bytes.len(), len + LINE_END.len(), "it is whole");
        assert!(!self.has_apart(), "one stands elsewhere at most");
        if !bytes.ends_with(LINE_END) {
            return Err(ProtocolError::LineEnd);
        }
        self.partial.push(ArgRange::apart(len));
        self.apart_bytes = bytes.len();
        self.remaining -= 1;
        self.wanted_bytes = 0;
        Ok(())
    }

    /// Returns whether an argument of the current command is outside the buffer.
    pub fn has_apart(&self) -> bool {
        self.apart_bytes > 0
    }

    /// Returns the memory of the parser, without the connection's buffer.
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() * size_of::<ArgRange>()
    }

    /// Parses a command from `buffer[*position..]`. Inline commands are unquoted in place, so the buffer must be
    /// writable. After an error the parser must not be used again.
    #[inline]
    pub fn parse(
        &mut self,
        buffer: &mut [u8],
        position: &mut usize,
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<Progress, ProtocolError> {
        let Some(&first) = buffer.get(*position) else { return Ok(Progress::Incomplete) };
        if first != b'*' {
            return self.parse_inline(buffer, position, limits, args);
        }
        if self.cursor > 0 {
            return self.resume(buffer, position, limits, args);
        }
        let Some((count, header_len)) = multibulk_header(&buffer[*position..], limits)? else {
            return Ok(Progress::Incomplete);
        };
        let args_before = args.len();
        let mut reader = Bulks {
            cursor: *position + header_len,
            remaining: count,
            bulk_len: None,
            wanted: 0,
            end_max: REQUEST_LEN_MAX,
        };
        match reader.read(buffer, 0, limits, args) {
            Ok(Progress::Complete) => {
                *position = reader.cursor;
                Ok(Progress::Complete)
            }
            Ok(Progress::Incomplete) => {
                let start = *position;
                self.partial.extend(args.drain(args_before..).map(|arg| arg.rebased(start)));
                self.suspend(&reader, start);
                Ok(Progress::Incomplete)
            }
            Err(error) => {
                args.truncate(args_before);
                Err(error)
            }
        }
    }

    /// Continues an incomplete command.
    #[cold]
    fn resume(
        &mut self,
        buffer: &[u8],
        position: &mut usize,
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<Progress, ProtocolError> {
        let start = *position;
        let mut reader = Bulks {
            cursor: start + self.cursor,
            remaining: self.remaining,
            bulk_len: self.bulk_len,
            wanted: 0,
            end_max: REQUEST_LEN_MAX - self.apart_bytes,
        };
        let progress = reader.read(buffer, start, limits, &mut self.partial)?;
        if progress == Progress::Incomplete {
            self.suspend(&reader, start);
            return Ok(progress);
        }
        let in_buffer = |arg: ArgRange| match arg.is_apart() {
            true => arg,
            false => ArgRange::new(arg.start as usize + start, arg.len as usize),
        };
        if args.is_empty() {
            // Moved, so that a million ranges do not exist twice.
            std::mem::swap(args, &mut self.partial);
            args.iter_mut().for_each(|arg| *arg = in_buffer(*arg));
        } else {
            args.extend(self.partial.drain(..).map(in_buffer));
        }
        self.partial.shrink_to(PARTIAL_CAPACITY_KEPT);
        *position = reader.cursor;
        *self = Self { partial: std::mem::take(&mut self.partial), ..Self::default() };
        Ok(progress)
    }

    fn suspend(&mut self, reader: &Bulks, start: usize) {
        self.cursor = reader.cursor - start;
        self.remaining = reader.remaining;
        self.bulk_len = reader.bulk_len;
        self.wanted_bytes = reader.wanted;
    }

    #[cold]
    fn parse_inline(
        &mut self,
        buffer: &mut [u8],
        position: &mut usize,
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<Progress, ProtocolError> {
        let start = *position;
        if buffer[start..].starts_with(&TLS_HANDSHAKE) {
            return Err(ProtocolError::TlsHandshake);
        }
        let unseen = start + self.cursor;
        // A line with a NUL never ends, and fails when it exceeds the limit.
        let line_end = match memchr2(b'\n', 0, &buffer[unseen..]) {
            Some(found) if buffer[unseen + found] == b'\n' => Some(unseen + found),
            Some(found) => {
                self.cursor += found;
                None
            }
            None => {
                self.cursor = buffer.len() - start;
                None
            }
        };
        if line_end.unwrap_or(buffer.len()) - start > limits.inline_len_max {
            return Err(ProtocolError::InlineTooLong);
        }
        let Some(line_end) = line_end else { return Ok(Progress::Incomplete) };
        if line_end > REQUEST_LEN_MAX {
            return Err(ProtocolError::RequestTooLong);
        }
        self.cursor = 0;
        let line = &mut buffer[start..line_end];
        let line_len = line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
        inline::unquote_in_place(&mut line[..line_len], start, args)
            .map_err(|UnbalancedQuotes| ProtocolError::UnbalancedQuotes)?;
        *position = line_end + 1;
        Ok(Progress::Complete)
    }
}

/// Parses the arguments of a command in array form.
struct Bulks {
    /// Where parsing continues: at a header, or after it if `bulk_len` is known. Relative to the start of the buffer.
    cursor: usize,
    remaining: usize,
    bulk_len: Option<usize>,
    wanted: usize,
    /// Limit of the command's end, relative to the start of the buffer. An argument outside the buffer counts too: a
    /// queued command, or one from a file, has all its arguments in one buffer.
    end_max: usize,
}

impl Bulks {
    /// Appends the remaining arguments to `out`, relative to `origin`.
    #[inline(always)]
    fn read(
        &mut self,
        buffer: &[u8],
        origin: usize,
        limits: &Limits,
        out: &mut Vec<ArgRange>,
    ) -> Result<Progress, ProtocolError> {
        while self.remaining > 0 {
            let rest = &buffer[self.cursor..];
            let (len, header_len) = match self.bulk_len {
                Some(len) => (len, 0),
                None => match bulk_header(rest, limits)? {
                    Some(header) => header,
                    None => return Ok(Progress::Incomplete),
                },
            };
            let (start, end) = (self.cursor + header_len, self.cursor + header_len + len);
            match buffer.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::LineEnd),
                None => return self.stop_inside_bulk(len, header_len, rest.len() - header_len),
            }
            if end > self.end_max {
                return Err(ProtocolError::RequestTooLong);
            }
            out.push(ArgRange::new(start - origin, len));
            self.cursor = end + 2;
            self.bulk_len = None;
            self.remaining -= 1;
        }
        Ok(Progress::Complete)
    }

    #[cold]
    fn stop_inside_bulk(
        &mut self,
        len: usize,
        header_len: usize,
        available: usize,
    ) -> Result<Progress, ProtocolError> {
        self.cursor += header_len;
        self.bulk_len = Some(len);
        self.wanted = len + 2 - available;
        if self.cursor + len > self.end_max {
            return Err(ProtocolError::RequestTooLong);
        }
        Ok(Progress::Incomplete)
    }
}

/// A length and the size of its line; `None` while the line is incomplete.
type Header = Option<(usize, usize)>;

/// Parses `*<count>\r\n`. A count of zero or less is a command without arguments.
#[inline]
fn multibulk_header(rest: &[u8], limits: &Limits) -> Result<Header, ProtocolError> {
    if let [_, digit @ b'0'..=b'9', b'\r', b'\n', ..] = *rest {
        return Ok(Some((usize::from(digit - b'0'), 4)));
    }
    multibulk_header_any(rest, limits)
}

#[cold]
fn multibulk_header_any(rest: &[u8], limits: &Limits) -> Result<Header, ProtocolError> {
    let Some((line, behind_cr)) = header_line(rest, ProtocolError::MultibulkCountTooLong)? else {
        return Ok(None);
    };
    if behind_cr != b'\n' {
        return Err(ProtocolError::LineEnd);
    }
    let count = parse_i64(&line[1..]).ok_or(ProtocolError::MultibulkLen)?.max(0);
    let count = usize_of(count.unsigned_abs());
    if count > limits.multibulk_len_max {
        return Err(ProtocolError::MultibulkLen);
    }
    if count > UNAUTHENTICATED_MULTIBULK_LEN_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedMultibulkLen);
    }
    Ok(Some((count, line.len() + 2)))
}

/// `$<length>\r\n`.
#[inline(always)]
fn bulk_header(rest: &[u8], limits: &Limits) -> Result<Header, ProtocolError> {
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    // No complete argument is shorter, line end included.
    let Some(head) = rest.first_chunk::<6>() else { return bulk_header_any(rest, limits) };
    let (len, header_len) = match *head {
        [b'$', a @ b'0'..=b'9', b'\r', b'\n', ..] => (digit(a), 4),
        [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', _] => (digit(a) * 10 + digit(b), 5),
        [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', b'\n'] => {
            (digit(a) * 100 + digit(b) * 10 + digit(c), 6)
        }
        _ => return bulk_header_any(rest, limits),
    };
    if len > limits.bulk_len_max {
        return Err(ProtocolError::BulkLen);
    }
    Ok(Some((len, header_len)))
}

#[cold]
fn bulk_header_any(rest: &[u8], limits: &Limits) -> Result<Header, ProtocolError> {
    let Some((line, behind_cr)) = header_line(rest, ProtocolError::BulkCountTooLong)? else {
        return Ok(None);
    };
    if rest[0] != b'$' {
        return Err(ProtocolError::ExpectedBulk(rest[0]));
    }
    if behind_cr != b'\n' {
        return Err(ProtocolError::LineEnd);
    }
    let len =
        parse_i64(&line[1..]).and_then(|len| usize::try_from(len).ok()).ok_or(ProtocolError::BulkLen)?;
    if len > limits.bulk_len_max {
        return Err(ProtocolError::BulkLen);
    }
    if len > UNAUTHENTICATED_BULK_LEN_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLen);
    }
    if len > REQUEST_LEN_MAX {
        return Err(ProtocolError::RequestTooLong);
    }
    Ok(Some((len, line.len() + 2)))
}

/// Returns a header line without its CR, and the byte after the CR, which each caller checks in its own order. `None`
/// while that byte is missing.
fn header_line(rest: &[u8], too_long: ProtocolError) -> Result<Option<(&[u8], u8)>, ProtocolError> {
    match memchr(b'\r', &rest[..rest.len().min(INLINE_LEN_MAX + 1)]) {
        None if rest.len() > INLINE_LEN_MAX => Err(too_long),
        None => Ok(None),
        Some(line_len) => Ok(rest.get(line_len + 1).map(|&behind| (&rest[..line_len], behind))),
    }
}

#[cfg(test)]
mod tests;
