//! Append-only files: commands in the encoding of requests, with annotations between them.
//!
//! ```text
//!  *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n    a command
//!  #TS:1731920000\r\n                   the following commands were written at this second
//!  #BEHIND:1024\r\n                     the previous file has this length; otherwise the rest is not read
//! ```

use crate::convert;
use crate::request::ArgRange;
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// Why the next item cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// An error of the file.
    Io(io::Error),
    /// The file ends within a command.
    UnexpectedEnd,
    /// Bytes that no server writes.
    Format,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::UnexpectedEnd => f.write_str("unexpected end of file"),
            ReadError::Format => f.write_str("bad file format"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// An item of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The arguments of a command, with its name.
    Command(Vec<Vec<u8>>),
    /// A timestamp in seconds since 1970.
    Timestamp(i64),
    /// Length of the previous file, at the beginning of this one.
    BytesBefore(u64),
    /// An unknown annotation.
    Comment,
    /// The end of the file, between two items.
    End,
}

/// Maximum length of headers and annotations.
const LINE_BYTES_MAX: u64 = 1024;
/// Maximum number of arguments, as in requests ([`crate::request::MULTIBULK_LEN_MAX`]): what a client has sent can be
/// read again. Memory is allocated only for arguments that are there.
const ARGUMENTS_MAX: usize = crate::request::MULTIBULK_LEN_MAX;
/// Capacity for arguments before they were read.
const FIRST_ARGUMENTS: usize = 64;
/// Maximum length of an argument, as in requests.
const ARGUMENT_BYTES_MAX: u64 = 1 << 39;
/// Capacity for an argument before its bytes were read.
const FIRST_PIECE_BYTES: usize = 1 << 16;

/// Reads a file from start to end.
pub struct Reader<R> {
    source: R,
    position: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader; `position` is the offset in the file of the source's first byte.
    pub fn new(source: R, position: u64) -> Self {
        Reader { source, position, line: Vec::new() }
    }

    /// Returns the number of bytes read: after [`Reader::read`] the start of the next item.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next item. After an error the position is within the invalid item.
    pub fn read(&mut self) -> Result<Item, ReadError> {
        if !self.read_line()? {
            return Ok(Item::End);
        }
        match self.line.split_first() {
            Some((b'*', count)) => {
                let count = number(count).and_then(|count| usize::try_from(count).ok());
                let count = count.filter(|count| (1..=ARGUMENTS_MAX).contains(count));
                self.read_arguments(count.ok_or(ReadError::Format)?).map(Item::Command)
            }
            Some((b'#', note)) => Ok(read_note(note)),
            _ => Err(ReadError::Format),
        }
    }

    fn read_arguments(&mut self, count: usize) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut arguments = Vec::with_capacity(FIRST_ARGUMENTS.min(count));
        for _ in 0..count {
            if !self.read_line()? {
                return Err(ReadError::UnexpectedEnd);
            }
            let len = self.line.strip_prefix(b"$").and_then(number);
            let len = len.and_then(|len| u64::try_from(len).ok()).filter(|&len| len <= ARGUMENT_BYTES_MAX);
            arguments.push(self.read_bytes(len.ok_or(ReadError::Format)?)?);
        }
        Ok(arguments)
    }

    /// Reads the bytes of an argument and the line end after them.
    fn read_bytes(&mut self, len: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(FIRST_PIECE_BYTES.min(convert::usize_of(len)));
        let read = self.source.by_ref().take(len).read_to_end(&mut bytes)? as u64;
        self.position += read;
        if read < len {
            return Err(ReadError::UnexpectedEnd);
        }
        let mut end = [0; 2];
        match self.source.read_exact(&mut end) {
            Ok(()) => self.position += 2,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ReadError::UnexpectedEnd);
            }
            Err(error) => return Err(error.into()),
        }
        if end == *b"\r\n" { Ok(bytes) } else { Err(ReadError::Format) }
    }

    /// Reads a line into `line`, without its end; returns `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        let read = self.source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)? as u64;
        self.position += read;
        match self.line.pop() {
            None => return Ok(false),
            Some(b'\n') => {}
            Some(_) if read == LINE_BYTES_MAX => return Err(ReadError::Format),
            Some(_) => return Err(ReadError::UnexpectedEnd),
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }
}

fn read_note(note: &[u8]) -> Item {
    if let Some(unix_s) = note.strip_prefix(b"TS:").and_then(number) {
        return Item::Timestamp(unix_s);
    }
    let bytes = note.strip_prefix(b"BEHIND:").and_then(number);
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).map_or(Item::Comment, Item::BytesBefore)
}

fn number(digits: &[u8]) -> Option<i64> {
    crate::number::parse_i64(digits)
}

/// Appends a command.
pub fn write_command<'a>(
    out: &mut impl Write,
    arguments: impl ExactSizeIterator<Item = &'a [u8]>,
) -> io::Result<()> {
    write_count(out, arguments.len())?;
    for argument in arguments {
        write_argument(out, argument)?;
    }
    Ok(())
}

/// Begins a command with this number of arguments.
#[inline]
pub fn write_count(out: &mut impl Write, arguments: usize) -> io::Result<()> {
    write_header(out, b'*', arguments)
}

/// Appends an argument of a command begun by [`write_count`]: `$`, its length, and its bytes.
#[inline]
pub fn write_argument(out: &mut impl Write, argument: &[u8]) -> io::Result<()> {
    write_header(out, b'$', argument.len())?;
    out.write_all(argument)?;
    out.write_all(b"\r\n")
}

#[inline]
fn write_header(out: &mut impl Write, kind: u8, value: usize) -> io::Result<()> {
    match value {
        0..10 => out.write_all(&[kind, convert::digit(value), b'\r', b'\n']),
        10..100 => {
            out.write_all(&[kind, convert::digit(value / 10), convert::digit(value % 10), b'\r', b'\n'])
        }
        _ => write!(out, "{}{value}\r\n", char::from(kind)),
    }
}

/// Returns the bytes of a command whose arguments are in `buffer` in the encoding of [`write_command`], as those of a
/// request are. Returns `None` if they are not, or if their number or length makes the comparison as expensive as
/// encoding.
#[inline]
pub fn as_written<'a>(buffer: &'a [u8], arguments: &[ArgRange]) -> Option<&'a [u8]> {
    let (&first, rest) = arguments.split_first()?;
    let start = (first.start as usize).checked_sub(4 + header_len_before(buffer, first)?)?;
    if arguments.len() >= 10 || buffer[start..start + 2] != [b'*', convert::digit(arguments.len())] {
        return None;
    }
    let mut end = first.range().end;
    for &argument in rest {
        let header_len = header_len_before(buffer, argument)?;
        if argument.start as usize != end + LINE_END.len() + header_len {
            return None;
        }
        end = argument.range().end;
    }
    let bytes = buffer.get(start..end + LINE_END.len())?;
    bytes.ends_with(LINE_END).then_some(bytes)
}

const LINE_END: &[u8] = b"\r\n";

/// For each length below a thousand, a line end and an argument's header as the last bytes of a number.
static HEADERS: [u64; 1000] = {
    let mut headers = [0; 1000];
    let mut len = 0;
    while len < headers.len() {
        let digits = [convert::digit(len / 100), convert::digit(len / 10 % 10), convert::digit(len % 10)];
        headers[len] = match len {
            0..10 => u64::from_be_bytes([0, 0, b'\r', b'\n', b'$', digits[2], b'\r', b'\n']),
            10..100 => u64::from_be_bytes([0, b'\r', b'\n', b'$', digits[1], digits[2], b'\r', b'\n']),
            _ => u64::from_be_bytes([b'\r', b'\n', b'$', digits[0], digits[1], digits[2], b'\r', b'\n']),
        };
        len += 1;
    }
    headers
};

/// Returns the length of the argument's header, if it directly precedes the argument and follows a line end.
#[inline]
fn header_len_before(buffer: &[u8], argument: ArgRange) -> Option<usize> {
    let before = u64::from_be_bytes(*buffer.get(..argument.start as usize)?.last_chunk()?);
    let header = *HEADERS.get(argument.len as usize)?;
    let digits = 1 + usize::from(argument.len >= 10) + usize::from(argument.len >= 100);
    let mask = u64::MAX >> (8 * (3 - digits));
    (before & mask == header).then_some(digits + 3)
}

/// Size of elements after which a command that adds or removes many elements ends, and another begins. A command is
/// read as a whole, and must fit [`crate::request::REQUEST_LEN_MAX`].
pub const PART_BYTES: usize = 64 << 20;

/// Divides elements among commands, in order.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    elements: usize,
    elements_max: usize,
    bytes: usize,
}

impl Part {
    /// Creates an empty one for this number of short elements.
    pub fn new(elements_max: usize) -> Self {
        Part { elements: 0, elements_max, bytes: 0 }
    }

    /// Adds an element of this length. Returns whether it begins another command.
    pub fn add(&mut self, bytes: usize) -> bool {
        let is_full = self.elements == self.elements_max || self.bytes >= PART_BYTES;
        if is_full {
            *self = Part::new(self.elements_max);
        }
        (self.elements, self.bytes) = (self.elements + 1, self.bytes.saturating_add(bytes));
        is_full
    }
}

/// Divides elements into slices, one for each command.
pub fn parts<E: AsRef<[u8]>>(elements: &[E], elements_max: usize) -> impl Iterator<Item = &[E]> {
    let (mut rest, mut part) = (elements, Part::new(elements_max));
    std::iter::from_fn(move || {
        // The first element of this slice was added when the previous one ended.
        let counted = usize::from(rest.len() < elements.len());
        let len = counted
            + rest.iter().skip(counted).take_while(|element| !part.add(element.as_ref().len())).count();
        let (taken, behind) = rest.split_at_checked(len).filter(|_| !rest.is_empty())?;
        rest = behind;
        Some(taken)
    })
}

/// Appends a timestamp.
pub fn write_timestamp(out: &mut impl Write, unix_s: i64) -> io::Result<()> {
    write!(out, "#TS:{unix_s}\r\n")
}

/// Begins a file that continues another of this length, which may be truncated by a power loss. Servers that do not
/// know this annotation ignore it.
pub fn write_bytes_before(out: &mut impl Write, bytes: u64) -> io::Result<()> {
    write!(out, "#BEHIND:{bytes}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_bytes_before(&mut bytes, 1 << 40).unwrap();
        write_timestamp(&mut bytes, 1_731_920_000).unwrap();
        write_command(&mut bytes, [&b"SET"[..], b"key", b"line\r\nend"].into_iter()).unwrap();
        write_command(&mut bytes, [&b"DEL"[..], b""].into_iter()).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample();
        let mut reader = Reader::new(&bytes[..], 0);
        assert_eq!(reader.read().unwrap(), Item::BytesBefore(1 << 40));
        assert_eq!(reader.read().unwrap(), Item::Timestamp(1_731_920_000));
        let command = vec![b"SET".to_vec(), b"key".to_vec(), b"line\r\nend".to_vec()];
        assert_eq!(reader.read().unwrap(), Item::Command(command));
        assert_eq!(reader.read().unwrap(), Item::Command(vec![b"DEL".to_vec(), b"".to_vec()]));
        assert_eq!(reader.read().unwrap(), Item::End);
        assert_eq!(reader.position(), bytes.len() as u64);
    }

    #[test]
    fn a_request_stands_as_it_is_written_and_anything_else_does_not() {
        let lens = [0, 1, 9, 10, 11, 99, 100, 101, 999];
        for count in 1..10 {
            let arguments: Vec<Vec<u8>> =
                (0..count).map(|at| vec![b'a' + at as u8; lens[(at * count) % lens.len()]]).collect();
            let mut bytes = b"\r\n".to_vec();
            write_command(&mut bytes, arguments.iter().map(Vec::as_slice)).unwrap();
            bytes.extend_from_slice(b"*1\r\n");
            let (mut ranges, mut position) = (Vec::new(), 0);
            while ranges.is_empty() {
                let limits = crate::request::Limits::default();
                crate::request::Parser::new().parse(&mut bytes, &mut position, &limits, &mut ranges).unwrap();
            }
            assert_eq!(as_written(&bytes, &ranges), Some(&bytes[2..position]), "{count}");
            for len in 0..position {
                assert_eq!(as_written(&bytes[..len], &ranges), None);
            }
            let contents: Vec<_> = ranges.iter().map(|range| range.range()).collect();
            for at in 2..position {
                let is_content = contents.iter().any(|content| content.contains(&at));
                bytes[at] ^= 1;
                assert_eq!(as_written(&bytes, &ranges).is_some(), is_content, "{count} {at}");
                bytes[at] ^= 1;
            }
            let moved: Vec<_> =
                ranges.iter().map(|range| ArgRange { start: range.start + 1, ..*range }).collect();
            assert_eq!(as_written(&bytes, &moved), None);
            assert_eq!(as_written(&bytes, &ranges[1..]), None, "its first argument is missing");
        }
        let long = [ArgRange { len: 1000, ..ArgRange::default() }];
        assert_eq!(as_written(&[0; 1000], &long), None);
        assert_eq!(as_written(b"", &[]), None);
        let beyond = [ArgRange { start: u32::MAX, len: 999, hash: None }];
        assert_eq!(as_written(b"*1\r\n", &beyond), None);
    }

    #[test]
    fn parts_are_bounded_by_elements_and_by_bytes() {
        let lens = |elements: &[&[u8]], elements_max: usize| {
            let parts: Vec<_> = parts(elements, elements_max).map(<[_]>::len).collect();
            assert_eq!(parts.iter().sum::<usize>(), elements.len());
            parts
        };
        let (whole, half) = (vec![0; PART_BYTES], vec![0; PART_BYTES / 2]);
        let (short, long, whole) = (&b"x"[..], half.as_slice(), whole.as_slice());
        assert_eq!(lens(&[], 3), [0; 0]);
        assert_eq!(lens(&[short; 7], 3), [3, 3, 1]);
        assert_eq!(lens(&[short; 6], 3), [3, 3]);
        assert_eq!(lens(&[long; 5], 1024), [2, 2, 1]);
        assert_eq!(lens(&[short, long, long, short, short], 1024), [3, 2]);
        assert_eq!(lens(&[whole, whole, short], 1024), [1, 1, 1]);
    }

    #[test]
    fn a_truncated_file_ends_between_items_or_says_so() {
        let bytes = sample();
        for len in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..len], 0);
            let mut valid = 0;
            let complete = loop {
                match reader.read() {
                    Ok(Item::End) => break true,
                    Ok(_) => valid = reader.position(),
                    Err(ReadError::UnexpectedEnd) => break false,
                    Err(error) => panic!("{len}: {error}"),
                }
            };
            assert_eq!(complete, valid == len as u64, "{len}");
        }
    }

    #[test]
    fn as_many_arguments_are_read_as_clients_may_send() {
        let count = crate::request::MULTIBULK_LEN_MAX;
        let begun = format!("*{count}\r\n$4\r\nMGET\r\n$1\r\na\r\n");
        let error = Reader::new(begun.as_bytes(), 0).read().unwrap_err();
        assert!(matches!(error, ReadError::UnexpectedEnd), "{error}");
        let begun = format!("*{}\r\n$4\r\nMGET\r\n$1\r\na\r\n", count + 1);
        let error = Reader::new(begun.as_bytes(), 0).read().unwrap_err();
        assert!(matches!(error, ReadError::Format), "{error}");
    }

    #[test]
    fn damage_is_an_error_or_another_command() {
        let bytes = sample();
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let mut reader = Reader::new(&damaged[..], 0);
                while !matches!(reader.read(), Ok(Item::End) | Err(_)) {}
            }
        }
        for hostile in
            ["*99999999999\r\n", "*-1\r\n", "*1\r\n$99999999999999\r\n", "*1\r\n$5\r\nab", "GET\r\n"]
        {
            assert!(Reader::new(hostile.as_bytes(), 0).read().is_err(), "{hostile}");
        }
    }
}
