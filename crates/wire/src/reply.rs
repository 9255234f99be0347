//! Replies: values onto the bytes that a client will read, in the version of the protocol it asked for.
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

/// The version of the protocol on a connection: 2 until the client says HELLO 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol of Redis 1.2 on: integers, texts and arrays, null as a length of -1.
    #[default]
    Resp2,
    /// The protocol of Redis 6 on: maps, sets, doubles, booleans, null and messages out of turn have types of their own.
    Resp3,
}

/// Where an aggregate of yet unknown length begins. Marks end in the reverse order of their beginning, each with
/// the length that was then found.
///
/// Room for a one-digit length is kept; a longer one moves what was written since, unless that was set aside. It costs
/// one copy of bytes which cost more than that to be written, and keeps the bytes those of a length known in advance.
#[derive(Debug)]
#[must_use = "an aggregate that is begun must be ended"]
pub struct Mark {
    at: usize,
}

/// A type byte, one digit, CR and LF.
const SMALL_HEADER_LEN: usize = 4;
/// A type byte, 19 digits and their sign, CR and LF.
const HEADER_LEN_MAX: usize = 23;
/// Of a buffer that cannot be set aside, as it is read back: doubling a longer one would hold as much again for nothing.
const DOUBLED_BYTES_MAX: usize = CHUNK_BYTES;

/// The reply bytes of one connection, appended to in order.
///
/// It may have a limit: a reply that would grow beyond it is not kept any more, for its client is to be
/// disconnected. Then the buffer is empty and stays empty, whatever is written, until [`ReplyBuffer::set_limit`].
///
/// One that goes to a socket may refer to long values instead of copying them; see [`ReplyBuffer::take_references`].
/// What it refers to counts in its length as if it were copied.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    output: Output,
    /// The version of the protocol that the next reply is written in.
    pub protocol: Protocol,
    /// The longest that the buffer may become.
    len_max: Option<NonZeroUsize>,
    overflowed: bool,
    takes_references: bool,
}

impl ReplyBuffer {
    /// An empty buffer without a limit, which copies all it is given.
    pub fn new(protocol: Protocol) -> Self {
        Self::with_output(Output::default(), protocol)
    }

    /// Goes on behind the contents of a buffer that is being reused.
    pub fn with_bytes(bytes: Vec<u8>, protocol: Protocol) -> Self {
        Self::with_output(bytes.into(), protocol)
    }

    /// Goes on behind what has not been sent yet.
    pub fn with_output(output: Output, protocol: Protocol) -> Self {
        Self { output, protocol, len_max: None, overflowed: false, takes_references: false }
    }

    /// From now on [`ReplyBuffer::bulk_shared`] refers to what it is given. For buffers whose contents are sent, not
    /// read back: those may have to be copied together.
    pub fn take_references(&mut self) {
        self.takes_references = true;
    }

    /// Whether [`ReplyBuffer::bulk_shared`] saves a copy.
    #[inline]
    pub fn takes_references(&self) -> bool {
        self.takes_references
    }

    /// Sets how long the buffer may become, and forgets that it was to become longer. It is looked at when memory
    /// must be had for more, so a buffer that has room already may pass it by that room.
    pub fn set_limit(&mut self, len_max: Option<NonZeroUsize>) {
        self.len_max = len_max;
        self.overflowed = false;
    }

    /// Whether the limit has been passed: what goes on writing may stop.
    #[inline]
    pub fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    /// What has been written and not been sent; the buffer is empty and without capacity afterwards.
    pub fn take(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// What has been written, for sending it.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Unsent bytes, those included that are referred to.
    #[inline]
    pub fn len(&self) -> usize {
        self.output.len()
    }

    /// Whether nothing is to be sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// How many of the unsent bytes are referred to.
    pub fn shared_len(&self) -> usize {
        self.output.shared_len()
    }

    /// Forgets everything written; keeps the memory.
    pub fn clear(&mut self) {
        self.output.clear();
    }

    /// Forgets what was written after the buffer had this length.
    pub fn truncate(&mut self, len: usize) {
        self.output.truncate(len);
    }

    /// A copy of what was written since the buffer had this length.
    pub fn copy_from(&self, start: usize) -> Vec<u8> {
        self.output.copy_from(start)
    }

    /// All that was written into a buffer that takes no references and of which nothing was sent.
    #[inline]
    pub fn read_back(&self) -> &[u8] {
        self.output.as_slice().expect("a buffer that is read back takes no references")
    }

    /// The byte that was written when the buffer had this length.
    pub fn byte_at(&self, position: usize) -> Option<u8> {
        self.output.byte_at(position)
    }

    /// Makes room, unless the limit forbids it.
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

    /// Bytes of the buffer's allocation.
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

    /// Bytes that already are replies.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        if !self.overflowed {
            self.output.bytes.extend_from_slice(bytes);
        }
    }

    /// The status `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status line. Line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error line, its code included: `ERR no such key`. Line ends at its end are cut off, those within become
    /// spaces.
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

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// An integer that counts, measures or numbers something.
    #[inline]
    pub fn count(&mut self, count: impl Count) {
        self.integer(count.signed());
    }

    /// A text of any bytes, with its length in front.
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

    /// A bulk of `len` bytes that `fill` writes: it is handed as many zeros.
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

    /// Two numbers with a dash between them as a bulk: the id of a stream's entry.
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

    /// A bulk that is referred to, not copied, if the buffer takes references.
    pub fn bulk_shared(&mut self, bytes: &SharedBytes) {
        self.bulk_shared_part(bytes, 0..bytes.len());
    }

    /// As [`ReplyBuffer::bulk_shared`], of a part of the bytes.
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

    /// A bulk, or null when there is none.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// An integer's text as a bulk.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// The missing bulk (of all nulls RESP3 has only one).
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The missing array.
    pub fn null_array(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array; `len` elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', signed_len(len));
    }

    /// A map; `pairs` keys and values follow in turn.
    pub fn map(&mut self, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.header(kind, signed_len(len));
    }

    /// A set, in RESP2 an array; `len` elements follow.
    pub fn set(&mut self, len: usize) {
        self.header(self.set_kind(), signed_len(len));
    }

    /// A message out of turn (pub/sub, invalidation); in RESP2, where there is no such type, an array.
    pub fn push(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, signed_len(len));
    }

    /// Attributes before a reply; `pairs` keys and values follow in turn. They exist in RESP3 only.
    pub fn attribute(&mut self, pairs: usize) {
        assert!(self.is_resp3(), "RESP2 has no attributes");
        self.header(b'|', signed_len(pairs));
    }

    /// A number with fraction: in the shortest text that reads back as the same. In RESP2 a bulk.
    pub fn double(&mut self, value: f64) {
        match f64_as_integer(value) {
            Some(integer) => self.number(itoa::Buffer::new().format(integer).as_bytes()),
            None => self.number(&f64_text(value)),
        }
    }

    /// A double rounded to 17 digits behind the point, without exponent; zeros at its end are dropped.
    pub fn coordinate(&mut self, value: f64) {
        self.number(&coordinate_text(value));
    }

    /// The text of a number with fraction.
    fn number(&mut self, text: &[u8]) {
        if self.is_resp3() {
            self.line(b',', text);
        } else {
            self.bulk(text);
        }
    }

    /// True or false; in RESP2 the integer 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.is_resp3(), value) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        });
    }

    /// An integer of any size, given as its digits.
    pub fn big_number(&mut self, digits: &str) {
        if self.is_resp3() {
            self.line(b'(', digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// A text with its format: three letters such as `txt` and `mkd` (longer ones are cut, shorter ones filled up
    /// with spaces).
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

    /// Begins an aggregate whose length will be known at its end: see [`Mark`].
    pub fn begin(&mut self) -> Mark {
        self.reserve(SMALL_HEADER_LEN);
        let at = self.output.own_position();
        self.raw(&[0; SMALL_HEADER_LEN]);
        Mark { at }
    }

    /// Begins an array whose length is not known yet; see [`Mark`].
    pub fn begin_array(&mut self) -> Mark {
        self.begin()
    }

    /// Ends an array that has got `len` elements.
    pub fn end_array(&mut self, mark: Mark, len: usize) {
        self.end(mark, b'*', len);
    }

    /// Ends a map that has got `pairs` keys and values; in RESP2 an array of twice that length.
    pub fn end_map(&mut self, mark: Mark, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.end(mark, kind, len);
    }

    /// Ends a set that has got `len` elements; in RESP2 an array.
    pub fn end_set(&mut self, mark: Mark, len: usize) {
        self.end(mark, self.set_kind(), len);
    }

    fn end(&mut self, mark: Mark, kind: u8, len: usize) {
        if self.overflowed {
            return;
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(len).as_bytes();
        // In place of the room kept: type byte, digits, line end.
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

    /// A type byte and a number, the line that begins most replies.
    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        self.reserve(HEADER_LEN_MAX);
        if !self.overflowed {
            push_header(&mut self.output.bytes, kind, value);
        }
    }
}

/// See [`ReplyBuffer::header`]; there is room.
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
