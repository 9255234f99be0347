//! Requests: the bytes a client sends, cut into commands without copying them.
//!
//! A connection owns one growing buffer. [`Parser::parse`] looks at the buffer from `position` on and either
//! appends the arguments of one command, as ranges into the buffer, and moves `position` behind it, or asks for
//! more bytes.
//!
//! ```text
//!            position before                      position after
//!            v                                    v
//!  ..........*2\r\n$3\r\nGET\r\n$5\r\nhello\r\n*1\r\n...
//!                        ^--            ^----
//!                        ranges, from the start of the buffer
//! ```
//!
//! 1. `position` moves only when a command is complete; what lies before it the parser never needs again, and
//!    the caller may cut it off whenever it no longer needs the arguments itself.
//! 2. A half-read command is remembered relative to `position`, so cutting the front needs no word to the parser,
//!    and a command of a million arguments that comes in a thousand pieces is still read once.
//! 3. `args` receives whole commands only: on `Incomplete` and on an error it is as it was.
//! 4. What the parser answers does not depend on how the bytes were split on their way.
//! 5. Memory follows the bytes received, never a length that was merely announced.
//! 6. The caller may cut the argument under way, what has arrived of it, off the buffer's end and gather it elsewhere until it is
//!    whole ([`Parser::accept_apart`]). Its range then lies in no buffer. A command has one such argument at most.

use std::fmt;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::convert::{short_len, usize_of};
use crate::number::parse_i64;

mod inline;
pub use inline::{UnbalancedQuotes, quoted, split_args};

/// Most arguments that a command may announce.
pub const MULTIBULK_LEN_MAX: usize = i32::MAX as usize;
/// How a record of TLS begins that opens a connection: no command does.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];
/// Longest inline command, and longest line that announces a length.
pub const INLINE_LEN_MAX: usize = 64 * 1024;
/// Before authentication a command has at most this many arguments...
pub const UNAUTHENTICATED_MULTIBULK_LEN_MAX: usize = 10;
/// ...of at most this many bytes each.
pub const UNAUTHENTICATED_BULK_LEN_MAX: usize = 16 * 1024;
/// A command, from its first byte to its last, must fit into 32-bit ranges.
pub const REQUEST_LEN_MAX: usize = APART as usize - 1;
/// Where an argument begins that stands in no buffer: behind all other arguments.
const APART: u32 = u32::MAX;

/// What a client may send at this moment. The server derives it from its configuration and from the connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`: most bytes in one argument.
    pub bulk_len_max: usize,
    /// Most arguments of a command.
    pub multibulk_len_max: usize,
    /// Most bytes in the line of an inline command.
    pub inline_len_max: usize,
    /// False while the client still has to authenticate: then it is held to small commands.
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

/// One argument: where its bytes are in the connection's buffer. Eight bytes, so that the arguments of a usual
/// command share a cache line; hence buffers below 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgRange {
    /// Offset of the first byte in the buffer.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl ArgRange {
    #[inline]
    fn new(start: usize, len: usize) -> Self {
        debug_assert!(start + len <= REQUEST_LEN_MAX);
        Self { start: short_len(start), len: short_len(len) }
    }

    /// `None`: it ends behind what 32-bit ranges reach ([`REQUEST_LEN_MAX`]).
    #[inline]
    pub fn within(start: usize, len: usize) -> Option<Self> {
        let end = start.checked_add(len).filter(|&end| end <= REQUEST_LEN_MAX)?;
        debug_assert!(end >= start);
        Some(Self { start: u32::try_from(start).ok()?, len: u32::try_from(len).ok()? })
    }

    /// An argument that was gathered elsewhere; see [`Parser::accept_apart`]. Of one from a file that has 4 GiB or more
    /// the length stands as the greatest that there is: its bytes tell.
    pub fn apart(len: usize) -> Self {
        Self { start: APART, len: u32::try_from(len).unwrap_or(u32::MAX) }
    }

    /// Whether the argument stands elsewhere than in the buffer, of which it is no range.
    #[inline]
    pub fn is_apart(self) -> bool {
        self.start == APART
    }

    /// The range of bytes in the buffer. Of an argument that stands elsewhere there is none.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// The argument's bytes. `buffer` is the buffer that was parsed.
    #[inline]
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.range()]
    }

    /// The same argument after `by` bytes were cut from the front of the buffer.
    #[inline]
    pub fn rebased(self, by: usize) -> Self {
        Self { start: self.start - short_len(by), len: self.len }
    }
}

/// How far [`Parser`] has got with the command at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A whole command was read. It may have no arguments (an empty line, `*0`, `*-1`): then there is nothing to do.
    Complete,
    /// The buffer ends before the command does.
    Incomplete,
}

/// What is wrong with a request. `Display` and [`ProtocolError::text`] give the reply's text after `ERR Protocol
/// error: `; the connection is then closed, since the start of the next command is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The line of an inline command is longer than [`Limits::inline_len_max`].
    InlineTooLong,
    /// The line with the number of arguments is longer than [`INLINE_LEN_MAX`].
    MultibulkCountTooLong,
    /// The line with the length of an argument is longer than [`INLINE_LEN_MAX`].
    BulkCountTooLong,
    /// The number of arguments is no number, or above [`Limits::multibulk_len_max`].
    MultibulkLen,
    /// The length of an argument is no number, negative, or above [`Limits::bulk_len_max`].
    BulkLen,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedMultibulkLen,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedBulkLen,
    /// The byte found where a `$` must be.
    ExpectedBulk(u8),
    /// An argument is not followed by CR and LF.
    LineEnd,
    /// A quote of an inline command is not closed, or text follows the closing one.
    UnbalancedQuotes,
    /// More than [`REQUEST_LEN_MAX`] bytes of buffer up to this command's end; other servers have no such limit.
    RequestTooLong,
    /// What begins is a handshake of TLS.
    TlsHandshake,
}

impl ProtocolError {
    /// The exact bytes of the text: the offending byte of `ExpectedBulk` need not be UTF-8.
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

/// Reads commands from one connection's buffer; see the module's invariants.
#[derive(Debug, Default)]
pub struct Parser {
    /// Where reading goes on, as an offset from the command's start. For an inline command: how much of the line
    /// is known to hold no line end. 0: nothing of this command has been read.
    cursor: usize,
    /// Arguments announced and not yet read. 0 with `cursor` > 0: an inline command.
    remaining: usize,
    /// Length of the argument at `cursor`, when its header has been read.
    bulk_len: Option<usize>,
    /// Bytes that must follow before the argument at `cursor` is whole.
    wanted_bytes: usize,
    /// The arguments of a half-read command, starts counted from the command's start.
    partial: Vec<ArgRange>,
    /// Bytes of the one that stands elsewhere, its line end included; 0 if none does.
    apart_bytes: usize,
}

/// Capacity of `partial` that is kept for the connection's next half-read command.
const PARTIAL_CAPACITY_KEPT: usize = 64;

impl Parser {
    /// A parser at the start of a command.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes the argument being read still needs (its line end included), 0 if that is not known: lets
    /// the reader make room for a large argument at once. Valid after an `Incomplete`.
    pub fn wanted_bytes(&self) -> usize {
        self.wanted_bytes
    }

    /// About how many bytes the command under way still needs, if its arguments to come are like those that have: lets the
    /// reader grow its buffer in few steps. It is a guess from what was announced, so room for it has to stay in proportion to
    /// what has arrived. Valid after an `Incomplete`.
    pub fn bytes_to_come(&self) -> usize {
        match self.partial.len() {
            0 => 0,
            read => (self.cursor / read).saturating_add(1).saturating_mul(self.remaining),
        }
    }

    /// The length of the argument being read, when that is known, and where it begins, counted from the command's
    /// start. Valid after an `Incomplete`.
    pub fn argument_under_way(&self) -> Option<(usize, usize)> {
        self.bulk_len.map(|len| (len, self.cursor))
    }

    /// The argument under way has been cut out of the buffer and gathered elsewhere: `bytes` are all of it with its line end,
    /// which the buffer never holds. The next call of [`Parser::parse`] goes on behind it.
    ///
    /// # Panics
    /// If no argument is under way, it has another length, or the command has one already that stands elsewhere.
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

    /// Whether an argument of the command under way stands elsewhere.
    pub fn has_apart(&self) -> bool {
        self.apart_bytes > 0
    }

    /// Bytes that this parser itself occupies, beside the connection's buffer.
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() * size_of::<ArgRange>()
    }

    /// Reads one command from `buffer[*position..]`. Inline commands are unquoted where they stand, which is why
    /// the buffer must be writable. After an error the parser must not be used again.
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

    /// Goes on with a command whose beginning an earlier call has read.
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
            // A million of them are not held twice.
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
        // A NUL hides every line end behind it: such a line never ends, and fails once it is too long.
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

/// The arguments of a command in the array form, read one after the other.
struct Bulks {
    /// Where reading goes on: at a header, or behind it when `bulk_len` is known. From the start of the buffer.
    cursor: usize,
    remaining: usize,
    bulk_len: Option<usize>,
    wanted: usize,
    /// Where the command ends at the latest, from the start of the buffer. An argument that stands elsewhere counts as well: a
    /// command that is queued, or read from a file, has all its arguments in one buffer.
    end_max: usize,
}

impl Bulks {
    /// Appends the remaining arguments to `out`, starts counted from `origin`.
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

/// A length and the bytes its line takes; `None` while the line is not whole.
type Header = Option<(usize, usize)>;

/// `*<count>\r\n`. `rest` starts with the `*`. A count of zero or less means a command without arguments.
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
    // No whole argument is shorter, its line end included.
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

/// A header line up to its CR, and the byte behind the CR, which each caller judges in its own order. `None` while
/// that byte is missing.
fn header_line(rest: &[u8], too_long: ProtocolError) -> Result<Option<(&[u8], u8)>, ProtocolError> {
    match memchr(b'\r', &rest[..rest.len().min(INLINE_LEN_MAX + 1)]) {
        None if rest.len() > INLINE_LEN_MAX => Err(too_long),
        None => Ok(None),
        Some(line_len) => Ok(rest.get(line_len + 1).map(|&behind| (&rest[..line_len], behind))),
    }
}

#[cfg(test)]
mod tests;
