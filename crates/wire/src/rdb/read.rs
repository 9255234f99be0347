//! Decoder of RDB, with a buffer. Input is not trusted: memory is proportional to the bytes read, not to announced
//! lengths.

use super::encoding;
use crate::convert::usize_of;
use crate::{crc64, number};
use std::fmt;
use std::io::{self, Read};
use structures::lzf;

const BUFFER_BYTES: usize = 256 * 1024;
/// Strings up to this length are read from the buffer of a file: longer ones would move the rest of the buffer too
/// often.
const IN_PLACE_LEN_MAX: u64 = 64 * 1024;
/// Capacity for a long string before its bytes were read; it doubles with them.
const FIRST_PIECE_BYTES: u64 = 1 << 20;
/// Maximum length of a string, as in requests.
const STRING_LEN_MAX: u64 = 1 << 39;

/// Why an element cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// An error of the source.
    Io(io::Error),
    /// The data is incomplete.
    UnexpectedEnd,
    /// Data that no server writes.
    Corrupt(&'static str),
    /// Data of another server that this one does not support.
    Unsupported(Box<str>),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::UnexpectedEnd => f.write_str("unexpected end of data"),
            ReadError::Corrupt(what) => f.write_str(what),
            ReadError::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// A string in its stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringRef<'a> {
    /// The bytes, decompressed.
    Bytes(&'a [u8]),
    /// An integer, whose decimal text is the string.
    Integer(i64),
}

impl StringRef<'_> {
    /// Passes the bytes to a function, without a copy on the heap.
    #[inline]
    pub fn with_bytes<T>(&self, work: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            StringRef::Bytes(bytes) => work(bytes),
            StringRef::Integer(n) => work(&number::i64_text(*n)),
        }
    }

    /// Copies the bytes, or the decimal text.
    pub fn to_vec(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// Replaces the contents of `out`, reusing its allocation.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        out.clear();
        self.with_bytes(|bytes| out.extend_from_slice(bytes));
    }
}

/// An owned [`StringRef`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedString {
    /// The bytes, decompressed.
    Bytes(Vec<u8>),
    /// An integer, whose decimal text is the string.
    Integer(i64),
}

enum Length {
    Plain(u64),
    Encoded(u8),
}

/// Decodes a file or a payload, and computes its checksum.
pub struct Reader<R> {
    source: R,
    buffer: Box<[u8]>,
    /// Strings up to this length are returned as slices of the buffer.
    in_place_len_max: u64,
    /// The unread bytes are at `at..end`.
    at: usize,
    end: usize,
    /// Checksum of everything before `checksummed_to` in the buffer.
    checksum: u64,
    checksummed_to: usize,
    /// Number of bytes removed from the buffer.
    passed_bytes: u64,
    /// The latest string that did not fit in the buffer, in its stored form.
    scratch: Vec<u8>,
    /// The latest compressed string that was borrowed.
    expanded: Vec<u8>,
}

impl Reader<io::Empty> {
    /// Creates a decoder of a payload in memory.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Reader { end: bytes.len(), ..Self::with_buffer(io::empty(), bytes.into(), bytes.len() as u64) }
    }
}

impl<R: Read> Reader<R> {
    /// Creates a decoder of a file, with a buffer of 256 KiB.
    pub fn new(source: R) -> Self {
        Self::with_buffer(source, vec![0; BUFFER_BYTES].into_boxed_slice(), IN_PLACE_LEN_MAX)
    }

    fn with_buffer(source: R, buffer: Box<[u8]>, in_place_len_max: u64) -> Self {
        Reader {
            source,
            buffer,
            in_place_len_max,
            at: 0,
            end: 0,
            checksum: 0,
            checksummed_to: 0,
            passed_bytes: 0,
            scratch: Vec::new(),
            expanded: Vec::new(),
        }
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> u64 {
        self.passed_bytes + self.at as u64
    }

    /// Returns the buffered unread bytes, and the source of the rest.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.buffer[self.at..self.end].to_vec(), self.source)
    }

    /// Returns whether the data has ended.
    pub fn is_at_end(&mut self) -> Result<bool, ReadError> {
        match self.fetch(1) {
            Ok(()) => Ok(false),
            Err(ReadError::UnexpectedEnd) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn add_to_checksum(&mut self) {
        self.checksum = crc64::extend(self.checksum, &self.buffer[self.checksummed_to..self.at]);
        self.checksummed_to = self.at;
    }

    /// Fills the buffer with `wanted` unread bytes, for which it is large enough.
    #[inline]
    fn fetch(&mut self, wanted: usize) -> Result<(), ReadError> {
        if self.end - self.at >= wanted { Ok(()) } else { self.refill(wanted) }
    }

    #[cold]
    fn refill(&mut self, wanted: usize) -> Result<(), ReadError> {
        self.add_to_checksum();
        self.buffer.copy_within(self.at..self.end, 0);
        self.passed_bytes += self.at as u64;
        (self.end, self.at, self.checksummed_to) = (self.end - self.at, 0, 0);
        while self.end < wanted {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(ReadError::UnexpectedEnd),
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        self.fetch(N)?;
        let bytes = self.buffer[self.at..self.at + N].try_into().expect("the slice is as long");
        self.at += N;
        Ok(bytes)
    }

    /// Reads a byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, ReadError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    fn length_or_encoding(&mut self) -> Result<Length, ReadError> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match first >> 6 {
            0 => Length::Plain(low.into()),
            1 => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            3 => Length::Encoded(low),
            _ => match first {
                0x80 => Length::Plain(u32::from_be_bytes(self.array()?).into()),
                0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
                _ => return Err(ReadError::Corrupt("Unknown length encoding in rdbLoadLen()")),
            },
        })
    }

    /// Reads a length of 1, 2, 5 or 9 bytes, or the number of an encoding in place of a length.
    #[inline]
    pub fn length(&mut self) -> Result<u64, ReadError> {
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(encoding) => Ok(encoding.into()),
        }
    }

    /// Reads a string that is borrowed until the next read.
    #[inline]
    pub fn string(&mut self) -> Result<StringRef<'_>, ReadError> {
        match self.length_or_encoding()? {
            Length::Plain(len) => Ok(StringRef::Bytes(self.bytes(len)?)),
            Length::Encoded(encoding::LZF) => Ok(StringRef::Bytes(self.compressed()?)),
            Length::Encoded(encoding) => Ok(StringRef::Integer(self.integer(encoding)?)),
        }
    }

    /// Reads an owned string. Assembled bytes are moved, not copied.
    pub fn owned_string(&mut self) -> Result<OwnedString, ReadError> {
        match self.length_or_encoding()? {
            Length::Plain(len) if len <= self.in_place_len_max => {
                return Ok(OwnedString::Bytes(self.bytes(len)?.to_vec()));
            }
            Length::Plain(len) => self.long_bytes(len)?,
            Length::Encoded(encoding::LZF) => {
                let mut bytes = Vec::new();
                self.decompress(&mut bytes)?;
                return Ok(OwnedString::Bytes(bytes));
            }
            Length::Encoded(encoding) => return Ok(OwnedString::Integer(self.integer(encoding)?)),
        }
        // The buffer has the capacity of an earlier, longer string, and is kept.
        let is_exact = self.scratch.capacity() == self.scratch.len();
        Ok(OwnedString::Bytes(if is_exact {
            std::mem::take(&mut self.scratch)
        } else {
            self.scratch.clone()
        }))
    }

    #[inline]
    fn integer(&mut self, encoding: u8) -> Result<i64, ReadError> {
        match encoding {
            encoding::INTEGER_8 => Ok(i8::from_le_bytes(self.array()?).into()),
            encoding::INTEGER_16 => Ok(i16::from_le_bytes(self.array()?).into()),
            encoding::INTEGER_32 => Ok(i32::from_le_bytes(self.array()?).into()),
            _ => Err(ReadError::Corrupt("Unknown RDB string encoding type")),
        }
    }

    fn bytes(&mut self, len: u64) -> Result<&[u8], ReadError> {
        if len > self.in_place_len_max {
            self.long_bytes(len)?;
            return Ok(&self.scratch);
        }
        let len = usize_of(len);
        self.fetch(len)?;
        let start = self.at;
        self.at += len;
        Ok(&self.buffer[start..start + len])
    }

    /// Reads into `scratch`, whose size is proportional to the bytes read.
    fn long_bytes(&mut self, len: u64) -> Result<(), ReadError> {
        if len > STRING_LEN_MAX {
            return Err(ReadError::Corrupt("A string is longer than any can be"));
        }
        self.scratch.clear();
        self.scratch.shrink_to(usize_of(FIRST_PIECE_BYTES));
        let mut left = len;
        while left > 0 {
            if self.at == self.end {
                self.refill(1)?;
            }
            let piece = usize_of(left.min((self.end - self.at) as u64));
            if self.scratch.capacity() - self.scratch.len() < piece {
                let more = left.min(FIRST_PIECE_BYTES.max(self.scratch.len() as u64));
                self.scratch.reserve_exact(usize_of(more).max(piece));
            }
            self.scratch.extend_from_slice(&self.buffer[self.at..self.at + piece]);
            self.at += piece;
            left -= piece as u64;
        }
        Ok(())
    }

    fn compressed(&mut self) -> Result<&[u8], ReadError> {
        let mut expanded = std::mem::take(&mut self.expanded);
        let result = self.decompress(&mut expanded);
        self.expanded = expanded;
        result?;
        Ok(&self.expanded)
    }

    /// Reads a compressed string and replaces the contents of `output`.
    fn decompress(&mut self, output: &mut Vec<u8>) -> Result<(), ReadError> {
        const INVALID: ReadError = ReadError::Corrupt("Invalid LZF compressed string");
        let (packed_len, len) = (self.length()?, self.length()?);
        if len > STRING_LEN_MAX {
            return Err(INVALID);
        }
        lzf::decompress_into(self.bytes(packed_len)?, usize_of(len), output).map_err(|_| INVALID)
    }

    /// Reads a binary double.
    pub fn double(&mut self) -> Result<f64, ReadError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads a double in the text form of the first versions.
    pub fn text_double(&mut self) -> Result<f64, ReadError> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            len => {
                let text = self.bytes(len.into())?;
                number::parse_f64(text).ok_or(ReadError::Corrupt("A score is not a number"))
            }
        }
    }

    /// Reads a time in milliseconds.
    pub fn time_ms(&mut self) -> Result<i64, ReadError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads and verifies the checksum of a file; 0 stands for none.
    pub fn file_checksum(&mut self, verify: bool) -> Result<(), ReadError> {
        self.add_to_checksum();
        let calculated = self.checksum;
        let written = u64::from_le_bytes(self.array()?);
        if verify && written != 0 && written != calculated {
            return Err(ReadError::Corrupt("RDB CRC error"));
        }
        Ok(())
    }
}

/// Length of a payload's end: version and checksum.
pub const PAYLOAD_FOOTER_BYTES: usize = 10;

/// Returns a payload's content and version, if its checksum is valid.
pub fn split_payload(payload: &[u8]) -> Option<(&[u8], u16)> {
    let (content, footer) = payload.split_last_chunk::<PAYLOAD_FOOTER_BYTES>()?;
    let [low, high, checksum @ ..] = *footer;
    let covered = &payload[..payload.len() - checksum.len()];
    (u64::from_le_bytes(checksum) == crc64::extend(0, covered))
        .then_some((content, u16::from_le_bytes([low, high])))
}
