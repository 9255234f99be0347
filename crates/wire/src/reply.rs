//! Encoder of replies, in the protocol version of the connection.
//!
//! | value | RESP2 | RESP3 |
//! |---|---|---|
//! | ok, simple, error, integer, bulk, array | the same in both | |
//! | null | `$-1` or `*-1` | `_` |
//! | map of n pairs | `*2n` | `%n` |
//! | set, push | `*n` | `~n`, `>n` |
//! | double | a bulk of its text | `,1.5` |
//! | boolean | `:1`, `:0` | `#t`, `#f` |
//! | big number, verbatim | a bulk | `(...`, `=...` |
//!
//! Lengths that are not known in advance are filled in afterwards; see [`Mark`].

mod output;

use std::num::NonZeroUsize;
use std::ops::Range;

pub use output::{Output, SharedBytes};

use output::CHUNK_BYTES;

use crate::convert::{Count, low_u8, signed_len};
use crate::number::{coordinate_text, f64_as_integer, f64_text};

/// The protocol version of a connection: 2 until HELLO 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol since Redis 1.2: integers, strings and arrays; null is a length of -1.
    #[default]
    Resp2,
    /// The protocol since Redis 6: additional types for maps, sets, doubles, booleans, null and push messages.
    Resp3,
}

/// The start of an aggregate of unknown length. Marks are ended in reverse order, with the final length.
///
/// A header with a one-digit length is reserved; a longer header moves the bytes written since, unless they were set
/// aside. The copy costs less than writing these bytes did, and the encoding is that of a length known in advance.
#[derive(Debug)]
#[must_use = "an aggregate that is begun must be ended"]
pub struct Mark {
    at: usize,
}

/// A type byte, one digit, CR and LF.
const SMALL_HEADER_LEN: usize = 4;
/// A type byte, 19 digits and their sign, CR and LF.
const HEADER_LEN_MAX: usize = 23;
/// Limit of doubling for a buffer that is not set aside, because it is read back: doubling a longer one would double
/// its memory for nothing.
const DOUBLED_BYTES_MAX: usize = CHUNK_BYTES;

/// The reply buffer of a connection.
///
/// With a limit, a reply that would exceed it is dropped, since its client is to be disconnected. Then the buffer is
/// empty and stays empty until [`ReplyBuffer::set_limit`].
///
/// A buffer that is sent to a socket can reference long values instead of copying them; see
/// [`ReplyBuffer::take_references`]. Referenced bytes count in its length.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    output: Output,
    /// The protocol version of the next reply.
    pub protocol: Protocol,
    /// The maximum length of the buffer.
    len_max: Option<NonZeroUsize>,
    overflowed: bool,
    takes_references: bool,
}

impl ReplyBuffer {
    /// Creates an empty buffer without a limit, which copies all bytes.
    pub fn new(protocol: Protocol) -> Self {
        Self::with_output(Output::default(), protocol)
    }

    /// Continues after the contents of a reused buffer.
    pub fn with_bytes(bytes: Vec<u8>, protocol: Protocol) -> Self {
        Self::with_output(bytes.into(), protocol)
    }

    /// Continues after the unsent bytes.
    pub fn with_output(output: Output, protocol: Protocol) -> Self {
        Self { output, protocol, len_max: None, overflowed: false, takes_references: false }
    }

    /// Makes [`ReplyBuffer::bulk_shared`] store references. For buffers whose contents are sent, not read back, which
    /// may require a copy.
    pub fn take_references(&mut self) {
        self.takes_references = true;
    }

    /// Returns whether [`ReplyBuffer::bulk_shared`] avoids a copy.
    #[inline]
    pub fn takes_references(&self) -> bool {
        self.takes_references
    }

    /// Sets the maximum length, and clears the overflow. The limit is checked when memory is allocated, so a buffer
    /// with spare capacity may exceed it by that capacity.
    pub fn set_limit(&mut self, len_max: Option<NonZeroUsize>) {
        self.len_max = len_max;
        self.overflowed = false;
    }

    /// Returns whether the limit was exceeded: writers may stop.
    #[inline]
    pub fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Takes the unsent bytes, which leaves an empty buffer without capacity.
    pub fn take(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// Returns the output for sending.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Returns the number of unsent bytes, including referenced ones.
    #[inline]
    pub fn len(&self) -> usize {
        self.output.len()
    }

    /// Returns whether there are no unsent bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// Returns the number of unsent bytes that are referenced.
    pub fn shared_len(&self) -> usize {
        self.output.shared_len()
    }

    /// Removes the contents and keeps the memory.
    pub fn clear(&mut self) {
        self.output.clear();
    }

    /// Truncates the buffer to this length.
    pub fn truncate(&mut self, len: usize) {
        self.output.truncate(len);
    }

    /// Copies the bytes written since the buffer had this length.
    pub fn copy_from(&self, start: usize) -> Vec<u8> {
        self.output.copy_from(start)
    }

    /// Returns the bytes of a buffer without references of which nothing was sent.
    #[inline]
    pub fn read_back(&self) -> &[u8] {
        self.output.as_slice().expect("a buffer that is read back takes no references")
    }

    /// Returns the byte written when the buffer had this length.
    pub fn byte_at(&self, position: usize) -> Option<u8> {
        self.output.byte_at(position)
    }

    /// Reserves capacity, unless the limit forbids it.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        if additional > self.output.bytes.capacity() - self.output.bytes.len() {
            self.grow(additional);
        }
    }

    #[cold]
    fn grow(&mut self, additional: usize) {
        if !self.may_grow(additional) {
            return;
        }
        if self.takes_references && self.output.is_worth_setting_aside() {
            self.output.set_aside();
            return self.output.bytes.reserve_exact(additional.max(CHUNK_BYTES));
        }
        let bytes = &mut self.output.bytes;
        match bytes.len() < DOUBLED_BYTES_MAX {
            true => bytes.reserve(additional),
            false => bytes.reserve_exact(additional.saturating_add(bytes.len() / 4)),
        }
    }

    /// Returns whether this many bytes may be written; if not, the buffer is dropped.
    fn may_grow(&mut self, additional: usize) -> bool {
        if self.len_max.is_some_and(|max| self.output.len().saturating_add(additional) > max.get()) {
            self.overflowed = true;
            self.output = Output::default();
        }
        !self.overflowed
    }

    /// Returns the capacity of the buffer.
    pub fn capacity(&self) -> usize {
        self.output.capacity()
    }

    /// See [`Output::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.output.memory_bytes()
    }

    #[inline]
    fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Appends bytes that are encoded replies.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        if !self.overflowed {
            self.output.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends the status `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// Appends a status line. Line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Appends an error line with its code: `ERR no such key`. Trailing line ends are removed, others become spaces.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let len = text.len() - text.iter().rev().take_while(|byte| is_line_end(byte)).count();
        self.line(b'-', &text[..len]);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.reserve(text.len() + 3);
        if self.overflowed {
            return;
        }
        let bytes = &mut self.output.bytes;
        bytes.push(kind);
        let start = bytes.len();
        bytes.extend_from_slice(text);
        for byte in &mut bytes[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.raw(b"\r\n");
    }

    /// Appends an integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Appends a count, measurement or number as an integer.
    #[inline]
    pub fn count(&mut self, count: impl Count) {
        self.integer(count.signed());
    }

    /// Appends a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len() + HEADER_LEN_MAX + 2);
        if self.overflowed {
            return;
        }
        let output = &mut self.output.bytes;
        push_header(output, b'$', signed_len(bytes.len()));
        output.extend_from_slice(bytes);
        output.extend_from_slice(b"\r\n");
    }

    /// Appends a bulk string of `len` bytes that `fill` writes into zeroed memory.
    #[inline]
    pub fn bulk_filled(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        self.reserve(len + 16);
        self.header(b'$', signed_len(len));
        if !self.overflowed {
            let bytes = &mut self.output.bytes;
            let start = bytes.len();
            bytes.resize(start + len, 0);
            fill(&mut bytes[start..]);
        }
        self.raw(b"\r\n");
    }

    /// Appends two numbers with a dash between them as a bulk string: the id of a stream's entry.
    pub fn bulk_pair(&mut self, first: u64, second: u64) {
        let (mut first_digits, mut second_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let first = first_digits.format(first).as_bytes();
        let second = second_digits.format(second).as_bytes();
        self.reserve(first.len() + second.len() + 17);
        self.header(b'$', signed_len(first.len() + 1 + second.len()));
        self.raw(first);
        self.raw(b"-");
        self.raw(second);
        self.raw(b"\r\n");
    }

    /// Appends a bulk string by reference, if the buffer accepts references.
    pub fn bulk_shared(&mut self, bytes: &SharedBytes) {
        self.bulk_shared_part(bytes, 0..bytes.len());
    }

    /// Like [`ReplyBuffer::bulk_shared`], for a part of the bytes.
    pub fn bulk_shared_part(&mut self, bytes: &SharedBytes, range: Range<usize>) {
        if !self.takes_references || range.is_empty() {
            return self.bulk(&bytes[range]);
        }
        if !self.may_grow(range.len()) {
            return;
        }
        self.header(b'$', signed_len(range.len()));
        if !self.overflowed {
            self.output.push_shared(SharedBytes::clone(bytes), range);
        }
        self.raw(b"\r\n");
    }

    /// Appends a bulk string, or null for `None`.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Appends the text of an integer as a bulk string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Appends the null bulk string (RESP3 has a single null).
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Appends the null array.
    pub fn null_array(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Begins an array; `len` elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', signed_len(len));
    }

    /// Begins a map; `pairs` keys and values follow.
    pub fn map(&mut self, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.header(kind, signed_len(len));
    }

    /// Begins a set, in RESP2 an array; `len` elements follow.
    pub fn set(&mut self, len: usize) {
        self.header(self.set_kind(), signed_len(len));
    }

    /// Begins a push message (pub/sub, invalidation), in RESP2 an array.
    pub fn push(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, signed_len(len));
    }

    /// Begins attributes before a reply; `pairs` keys and values follow. RESP3 only.
    pub fn attribute(&mut self, pairs: usize) {
        assert!(self.is_resp3(), "RESP2 has no attributes");
        self.header(b'|', signed_len(pairs));
    }

    /// Appends a double, in the shortest text that parses to the same value; in RESP2 as a bulk string.
    pub fn double(&mut self, value: f64) {
        match f64_as_integer(value) {
            Some(integer) => self.number(itoa::Buffer::new().format(integer).as_bytes()),
            None => self.number(&f64_text(value)),
        }
    }

    /// Appends a double rounded to 17 digits after the point, without exponent and trailing zeros.
    pub fn coordinate(&mut self, value: f64) {
        self.number(&coordinate_text(value));
    }

    /// Appends the text of a double.
    fn number(&mut self, text: &[u8]) {
        if self.is_resp3() {
            self.line(b',', text);
        } else {
            self.bulk(text);
        }
    }

    /// Appends a boolean; in RESP2 the integer 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.is_resp3(), value) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        });
    }

    /// Appends an integer of any size, given by its digits.
    pub fn big_number(&mut self, digits: &str) {
        if self.is_resp3() {
            self.line(b'(', digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// Appends a verbatim string with its format: three letters such as `txt` and `mkd` (longer ones are cut, shorter
    /// ones padded with spaces).
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        if !self.is_resp3() {
            return self.bulk(text);
        }
        let mut prefix = *b"   :";
        let letters = format.len().min(3);
        prefix[..letters].copy_from_slice(&format.as_bytes()[..letters]);
        self.header(b'=', signed_len(text.len() + prefix.len()));
        self.raw(&prefix);
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// Begins an aggregate of unknown length: see [`Mark`].
    pub fn begin(&mut self) -> Mark {
        self.reserve(SMALL_HEADER_LEN);
        let at = self.output.own_position();
        self.raw(&[0; SMALL_HEADER_LEN]);
        Mark { at }
    }

    /// Begins an array of unknown length; see [`Mark`].
    pub fn begin_array(&mut self) -> Mark {
        self.begin()
    }

    /// Ends an array of `len` elements.
    pub fn end_array(&mut self, mark: Mark, len: usize) {
        self.end(mark, b'*', len);
    }

    /// Ends a map of `pairs` keys and values; in RESP2 an array of twice that length.
    pub fn end_map(&mut self, mark: Mark, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.end(mark, kind, len);
    }

    /// Ends a set of `len` elements; in RESP2 an array.
    pub fn end_set(&mut self, mark: Mark, len: usize) {
        self.end(mark, self.set_kind(), len);
    }

    fn end(&mut self, mark: Mark, kind: u8, len: usize) {
        if self.overflowed {
            return;
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(len).as_bytes();
        // Replaces the reserved header: type byte, digits, line end.
        match digits {
            &[digit] => self.output.replace(mark.at, SMALL_HEADER_LEN, &[kind, digit, b'\r', b'\n']),
            _ => self.output.replace(mark.at, SMALL_HEADER_LEN, &[&[kind], digits, b"\r\n"].concat()),
        }
    }

    fn map_header(&self, pairs: usize) -> (u8, usize) {
        if self.is_resp3() { (b'%', pairs) } else { (b'*', pairs * 2) }
    }

    fn set_kind(&self) -> u8 {
        if self.is_resp3() { b'~' } else { b'*' }
    }

    /// Appends a type byte and a number, the header of most replies.
    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        self.reserve(HEADER_LEN_MAX);
        if !self.overflowed {
            push_header(&mut self.output.bytes, kind, value);
        }
    }
}

/// See [`ReplyBuffer::header`]; the capacity is reserved.
#[inline(always)]
fn push_header(bytes: &mut Vec<u8>, kind: u8, value: i64) {
    match value {
        0..100 => {
            let value = low_u8(value.unsigned_abs());
            if value < 10 {
                bytes.extend_from_slice(&[kind, b'0' + value, b'\r', b'\n']);
            } else {
                bytes.extend_from_slice(&[kind, b'0' + value / 10, b'0' + value % 10, b'\r', b'\n']);
            }
        }
        _ => push_long_header(bytes, kind, value),
    }
}

#[inline(never)]
fn push_long_header(bytes: &mut Vec<u8>, kind: u8, value: i64) {
    bytes.push(kind);
    bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
