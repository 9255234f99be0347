//! Append-only files: commands as clients send them, and notes of the time between.
//!
//! ```text
//!  *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n    a command
//!  #TS:1731920000\r\n                   what follows was written at this second
//! ```

use std::fmt;
use std::io::{self, BufRead, Read, Write};

#[derive(Debug)]
pub enum ReadError {
    Io(io::Error),
    /// The file ends within a command.
    UnexpectedEnd,
    /// What no server writes.
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

/// What stands at some place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Command(Vec<Vec<u8>>),
    /// Seconds since 1970.
    Timestamp(i64),
    /// A line that means nothing here.
    Comment,
    End,
}

/// Headers and notes are no longer.
const LINE_BYTES_MAX: u64 = 1024;
/// As many as a client can send ([`crate::request::MULTIBULK_LEN_MAX`]): what was taken from one is read again. Room is
/// only made for those that are there.
const ARGUMENTS_MAX: i64 = crate::request::MULTIBULK_LEN_MAX as i64;
/// An argument cannot be longer than a client could have sent it.
const ARGUMENT_BYTES_MAX: i64 = 1 << 39;
/// Room made for an argument before its bytes have come.
const FIRST_PIECE_BYTES: usize = 1 << 16;

/// Reads a file from front to end.
pub struct Reader<R> {
    source: R,
    position: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// `position` is how many bytes of the file lie before the source's first.
    pub fn new(source: R, position: u64) -> Self {
        Reader { source, position, line: Vec::new() }
    }

    /// Bytes of the file read so far: after [`Reader::read`] where the next item begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn read(&mut self) -> Result<Item, ReadError> {
        if !self.read_line()? {
            return Ok(Item::End);
        }
        match self.line.split_first() {
            Some((b'*', count)) => {
                let count = number(count).filter(|count| (1..=ARGUMENTS_MAX).contains(count));
                self.read_arguments(count.ok_or(ReadError::Format)?).map(Item::Command)
            }
            Some((b'#', note)) => Ok(match note.strip_prefix(b"TS:").and_then(number) {
                Some(unix_s) => Item::Timestamp(unix_s),
                None => Item::Comment,
            }),
            _ => Err(ReadError::Format),
        }
    }

    fn read_arguments(&mut self, count: i64) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut arguments = Vec::with_capacity(count.min(64) as usize);
        for _ in 0..count {
            if !self.read_line()? {
                return Err(ReadError::UnexpectedEnd);
            }
            let len = self.line.strip_prefix(b"$").and_then(number);
            let len = len.filter(|len| (0..=ARGUMENT_BYTES_MAX).contains(len)).ok_or(ReadError::Format)?;
            arguments.push(self.read_bytes(len as u64)?);
        }
        Ok(arguments)
    }

    /// The bytes of an argument; also reads the line end behind them.
    fn read_bytes(&mut self, len: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(FIRST_PIECE_BYTES.min(len as usize));
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

    /// Reads a line into `line`, without its end; `false` at the end of the file.
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

/// Begins a command: so many arguments follow.
#[inline]
pub fn write_count(out: &mut impl Write, arguments: usize) -> io::Result<()> {
    write_header(out, b'*', arguments)
}

#[inline]
pub fn write_argument(out: &mut impl Write, argument: &[u8]) -> io::Result<()> {
    write_header(out, b'$', argument.len())?;
    out.write_all(argument)?;
    out.write_all(b"\r\n")
}

#[inline]
fn write_header(out: &mut impl Write, kind: u8, value: usize) -> io::Result<()> {
    match value {
        0..10 => out.write_all(&[kind, b'0' + value as u8, b'\r', b'\n']),
        10..100 => {
            let value = value as u8;
            out.write_all(&[kind, b'0' + value / 10, b'0' + value % 10, b'\r', b'\n'])
        }
        _ => write!(out, "{}{value}\r\n", char::from(kind)),
    }
}

/// Appends a note of the time.
pub fn write_timestamp(out: &mut impl Write, unix_s: i64) -> io::Result<()> {
    write!(out, "#TS:{unix_s}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_timestamp(&mut bytes, 1_731_920_000).unwrap();
        write_command(&mut bytes, [&b"SET"[..], b"key", b"line\r\nend"].into_iter()).unwrap();
        write_command(&mut bytes, [&b"DEL"[..], b""].into_iter()).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample();
        let mut reader = Reader::new(&bytes[..], 0);
        assert_eq!(reader.read().unwrap(), Item::Timestamp(1_731_920_000));
        let command = vec![b"SET".to_vec(), b"key".to_vec(), b"line\r\nend".to_vec()];
        assert_eq!(reader.read().unwrap(), Item::Command(command));
        assert_eq!(reader.read().unwrap(), Item::Command(vec![b"DEL".to_vec(), b"".to_vec()]));
        assert_eq!(reader.read().unwrap(), Item::End);
        assert_eq!(reader.position(), bytes.len() as u64);
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
