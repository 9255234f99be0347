//! Encoder of RDB, with a buffer: bytes are added to the checksum in large pieces. Payloads stay in their buffer.

use super::encoding;
use crate::convert::low_u8;
use crate::crc64;
use crate::number;
use std::io::{self, Write};
use structures::lzf::Compressor;

/// Size of a file's buffer, and the capacity that a payload's buffer keeps for the next one.
const BUFFER_BYTES: usize = 64 * 1024;
/// Shorter strings are never compressed.
const COMPRESSED_LEN_MIN: usize = 21;
/// Longer strings are not integers of 32 bits.
const INTEGER_LEN_MAX: usize = 11;
/// Minimum saving of compression.
const SAVED_MIN: usize = 4;

/// Encodes a file or a payload, and computes its checksum.
pub struct Writer<W> {
    sink: W,
    buffer: Vec<u8>,
    /// Size at which the buffer is written to the sink.
    buffer_bytes_max: usize,
    /// Checksum of the bytes written to the sink.
    checksum: u64,
    checksummed: bool,
    sent_bytes: u64,
    compresses: bool,
    /// Allocated for the first string that is long enough: allocating its table takes longer than encoding most
    /// values.
    compressor: Option<Compressor>,
    /// Output of compression, as long as the longest string compressed so far.
    compressed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Creates an encoder of a file, with a buffer of 64 KiB. `compresses`: strings of 21 bytes or more are stored as
    /// LZF if that saves 4 bytes or more; `checksummed`: the file ends with a checksum instead of zeros.
    pub fn new(sink: W, compresses: bool, checksummed: bool) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self::with_buffer(sink, buffer, BUFFER_BYTES, compresses, checksummed)
    }

    fn with_buffer(
        sink: W,
        buffer: Vec<u8>,
        buffer_bytes_max: usize,
        compresses: bool,
        checksummed: bool,
    ) -> Self {
        Writer {
            sink,
            buffer,
            buffer_bytes_max,
            checksum: 0,
            checksummed,
            sent_bytes: 0,
            compresses,
            compressor: None,
            compressed: Vec::new(),
        }
    }

    /// Returns the number of bytes written.
    pub fn position(&self) -> u64 {
        self.sent_bytes + self.buffer.len() as u64
    }

    fn send(&mut self) -> io::Result<()> {
        if self.checksummed {
            self.checksum = crc64::extend(self.checksum, &self.buffer);
        }
        self.sink.write_all(&self.buffer)?;
        self.sent_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes bytes.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > self.buffer_bytes_max {
            self.send()?;
            if bytes.len() > self.buffer_bytes_max {
                return self.raw_large(bytes);
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn raw_large(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.checksummed {
            self.checksum = crc64::extend(self.checksum, bytes);
        }
        self.sent_bytes += bytes.len() as u64;
        self.sink.write_all(bytes)
    }

    /// Writes a byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.raw(&[byte])
    }

    /// Writes a length in its shortest form: 1, 2, 5 or 9 bytes.
    #[inline]
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match length {
            0..64 => self.byte(low_u8(length)),
            64..0x4000 => self.raw(&[0x40 | low_u8(length >> 8), low_u8(length)]),
            _ => match u32::try_from(length) {
                Ok(length) => {
                    self.byte(0x80)?;
                    self.raw(&length.to_be_bytes())
                }
                Err(_) => {
                    self.byte(0x81)?;
                    self.raw(&length.to_be_bytes())
                }
            },
        }
    }

    /// Writes a string in its shortest form.
    #[inline]
    pub fn string(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() <= INTEGER_LEN_MAX
            && let Some(small) = number::parse_i64(bytes).and_then(|n| i32::try_from(n).ok())
        {
            return self.small_integer(small);
        }
        if bytes.len() >= COMPRESSED_LEN_MIN
            && self.compresses
            && let Some(compressed_len) = self.compress(bytes)
        {
            return self.compressed_string(compressed_len, bytes.len());
        }
        self.length(bytes.len() as u64)?;
        self.raw(bytes)
    }

    /// Writes the decimal text of `value` as a string.
    pub fn integer(&mut self, value: i64) -> io::Result<()> {
        match i32::try_from(value) {
            Ok(small) => self.small_integer(small),
            Err(_) => {
                let text = number::i64_text(value);
                self.length(text.len() as u64)?;
                self.raw(&text)
            }
        }
    }

    fn small_integer(&mut self, value: i32) -> io::Result<()> {
        let tag = |encoding: u8| 0xc0 | encoding;
        let [a, b, c, d] = value.to_le_bytes();
        if i8::try_from(value).is_ok() {
            self.raw(&[tag(encoding::INTEGER_8), a])
        } else if i16::try_from(value).is_ok() {
            self.raw(&[tag(encoding::INTEGER_16), a, b])
        } else {
            self.raw(&[tag(encoding::INTEGER_32), a, b, c, d])
        }
    }

    /// Returns the length of the bytes' shorter form in `compressed`, if there is one.
    fn compress(&mut self, bytes: &[u8]) -> Option<usize> {
        let room = bytes.len() - SAVED_MIN;
        if self.compressed.len() < room {
            self.compressed.resize(room, 0);
        }
        self.compressor.get_or_insert_default().compress(bytes, &mut self.compressed[..room])
    }

    fn compressed_string(&mut self, compressed_len: usize, len: usize) -> io::Result<()> {
        self.byte(0xc0 | encoding::LZF)?;
        self.length(compressed_len as u64)?;
        self.length(len as u64)?;
        let compressed = std::mem::take(&mut self.compressed);
        self.raw(&compressed[..compressed_len])?;
        self.compressed = compressed;
        Ok(())
    }

    /// Writes a double as 8 bytes in IEEE 754, little-endian.
    pub fn double(&mut self, value: f64) -> io::Result<()> {
        self.raw(&value.to_le_bytes())
    }

    /// Writes a time in milliseconds.
    pub fn time_ms(&mut self, time_ms: i64) -> io::Result<()> {
        self.raw(&time_ms.to_le_bytes())
    }

    /// Writes the checksum, or 0 if it is disabled, and returns the sink.
    pub fn finish_file(mut self) -> io::Result<W> {
        self.send()?;
        let checksum = self.checksum.to_le_bytes();
        self.sink.write_all(&checksum)?;
        Ok(self.sink)
    }

    /// Returns the sink without writing a checksum.
    pub fn finish(mut self) -> io::Result<W> {
        self.send()?;
        Ok(self.sink)
    }
}

/// Encodes payloads one after another in a shared buffer.
pub struct PayloadWriter {
    writer: Writer<io::Sink>,
}

impl Default for PayloadWriter {
    fn default() -> Self {
        PayloadWriter { writer: Writer::with_buffer(io::sink(), Vec::new(), usize::MAX, true, true) }
    }
}

impl PayloadWriter {
    /// Passes the payload of `write`, with version and checksum, to `read`, which may take it.
    pub fn make<R>(
        &mut self,
        compresses: bool,
        write: impl FnOnce(&mut Writer<io::Sink>) -> io::Result<()>,
        read: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let writer = &mut self.writer;
        writer.buffer.clear();
        writer.compresses = compresses;
        let written = write(writer).and_then(|()| writer.raw(&super::VERSION.to_le_bytes()));
        written.expect("memory takes all that is written");
        let checksum = crc64::extend(0, &writer.buffer);
        writer.buffer.extend_from_slice(&checksum.to_le_bytes());
        let result = read(&mut writer.buffer);
        for spare in [&mut writer.buffer, &mut writer.compressed] {
            if spare.capacity() > BUFFER_BYTES {
                *spare = Vec::new();
            }
        }
        result
    }
}
