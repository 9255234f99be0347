//! Writing, through a buffer: what is sent on is added to the checksum in large pieces. Payloads stay in theirs.

use super::encoding;
use crate::convert::low_u8;
use crate::crc64;
use crate::number;
use std::io::{self, Write};
use structures::lzf::Compressor;

/// What a writer of files sends on at a time; what a writer of payloads keeps from one to the next.
const BUFFER_BYTES: usize = 64 * 1024;
/// Shorter strings never shrink.
const COMPRESSED_LEN_MIN: usize = 21;
/// Longer strings are no integer of 32 bits.
const INTEGER_LEN_MAX: usize = 11;
/// What compression must save to be worth it.
const SAVED_MIN: usize = 4;

/// Writes the elements of a file, or of a payload, and sums up their checksum.
pub struct Writer<W> {
    sink: W,
    buffer: Vec<u8>,
    /// More is sent on.
    buffer_bytes_max: usize,
    /// Of what has been sent on.
    checksum: u64,
    checksummed: bool,
    sent_bytes: u64,
    compresses: bool,
    /// Made for the first string that is long enough: its table takes longer to get than most values to write.
    compressor: Option<Compressor>,
    /// Where it writes; as long as the longest string that it was to compress.
    compressed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes a file to `sink`, through a buffer of 64 KiB. `compresses`: strings of 21 bytes or more are stored by LZF where
    /// that saves 4 bytes or more; `checksummed`: the end has a checksum, else zeros.
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

    /// Bytes written so far.
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

    /// Bytes as they are.
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

    /// One byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.raw(&[byte])
    }

    /// A length, in the shortest of its forms: 1, 2, 5 or 9 bytes.
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

    /// A string in its shortest form.
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

    /// The string that spells `value`.
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

    /// How much of `compressed` the bytes take in a shorter form, if they have one.
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

    /// The 8 bytes of the number, little-endian, as IEEE 754 has them.
    pub fn double(&mut self, value: f64) -> io::Result<()> {
        self.raw(&value.to_le_bytes())
    }

    /// Milliseconds.
    pub fn time_ms(&mut self, time_ms: i64) -> io::Result<()> {
        self.raw(&time_ms.to_le_bytes())
    }

    /// Writes the checksum of all before it, or 0 if there is to be none, and hands the sink back.
    pub fn finish_file(mut self) -> io::Result<W> {
        self.send()?;
        let checksum = self.checksum.to_le_bytes();
        self.sink.write_all(&checksum)?;
        Ok(self.sink)
    }

    /// Hands the sink back, with nothing behind what was written.
    pub fn finish(mut self) -> io::Result<W> {
        self.send()?;
        Ok(self.sink)
    }
}

/// Makes payloads one after another: what the first needed, the others use again.
pub struct PayloadWriter {
    writer: Writer<io::Sink>,
}

impl Default for PayloadWriter {
    fn default() -> Self {
        PayloadWriter { writer: Writer::with_buffer(io::sink(), Vec::new(), usize::MAX, true, true) }
    }
}

impl PayloadWriter {
    /// Hands `read` the payload of what `write` writes, with version and checksum at its end. `read` may take it.
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
