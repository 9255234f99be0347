//! Writing, through a buffer: what is sent on is added to the checksum in large pieces.

use super::encoding;
use crate::crc64;
use crate::number;
use std::io::{self, Write};
use structures::lzf::Compressor;

/// Sent on when it holds more.
const BUFFER_BYTES: usize = 64 * 1024;
/// Shorter strings never shrink.
const COMPRESSED_LEN_MIN: usize = 21;
/// Longer strings are no integer of 32 bits.
const INTEGER_LEN_MAX: usize = 11;
/// What compression must save to be worth it.
const SAVED_MIN: usize = 4;

pub struct Writer<W> {
    sink: W,
    buffer: Vec<u8>,
    /// Of what has been sent on.
    checksum: u64,
    checksummed: bool,
    sent_bytes: u64,
    compresses: bool,
    /// Made for the first string that is long enough: its table takes longer to get than most values to write.
    compressor: Option<Compressor>,
    compressed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(sink: W, compresses: bool, checksummed: bool) -> Self {
        Writer {
            sink,
            buffer: Vec::with_capacity(BUFFER_BYTES),
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
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.send()?;
            if bytes.len() > BUFFER_BYTES {
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

    #[inline]
    pub fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.raw(&[byte])
    }

    #[inline]
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match length {
            0..64 => self.byte(length as u8),
            64..0x4000 => self.raw(&[0x40 | (length >> 8) as u8, length as u8]),
            0x4000..=0xffff_ffff => {
                self.byte(0x80)?;
                self.raw(&(length as u32).to_be_bytes())
            }
            _ => {
                self.byte(0x81)?;
                self.raw(&length.to_be_bytes())
            }
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
        if bytes.len() >= COMPRESSED_LEN_MIN && self.compresses && self.compress(bytes) {
            return self.compressed_string(bytes.len());
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

    /// Whether `compressed` now holds the bytes in a shorter form.
    fn compress(&mut self, bytes: &[u8]) -> bool {
        let compressor = self.compressor.get_or_insert_default();
        self.compressed.resize(bytes.len() - SAVED_MIN, 0);
        match compressor.compress(bytes, &mut self.compressed) {
            Some(len) => {
                self.compressed.truncate(len);
                true
            }
            None => false,
        }
    }

    fn compressed_string(&mut self, len: usize) -> io::Result<()> {
        let compressed = std::mem::take(&mut self.compressed);
        self.byte(0xc0 | encoding::LZF)?;
        self.length(compressed.len() as u64)?;
        self.length(len as u64)?;
        self.raw(&compressed)?;
        self.compressed = compressed;
        Ok(())
    }

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

    /// As [`Writer::finish_file`] for a payload, whose version stands before the checksum.
    pub fn finish_payload(mut self) -> io::Result<W> {
        self.raw(&super::VERSION.to_le_bytes())?;
        self.finish_file()
    }
}
