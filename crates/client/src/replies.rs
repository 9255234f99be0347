//! Replies of a server.

use std::io::{self, Read};

use wire::response::{Reader, ResponseError, Value};

const READ_LEN: usize = 64 * 1024;

/// Decodes consecutive replies from received bytes.
#[derive(Debug, Default)]
pub struct Replies {
    reader: Reader,
    received: Vec<u8>,
    /// Bytes before this position have been decoded.
    position: usize,
}

impl Replies {
    /// Returns the next reply if it is complete.
    ///
    /// # Errors
    /// The bytes are not a reply; nothing after them can be decoded.
    pub fn whole(&mut self) -> Result<Option<Value>, ResponseError> {
        self.reader.read(&self.received, &mut self.position)
    }

    /// Reads once from the source and returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// Errors of the source; received bytes are kept.
    pub fn read_from(&mut self, source: &mut impl Read) -> io::Result<usize> {
        self.received.drain(..self.position);
        self.position = 0;
        let len = self.received.len();
        // Memory grows with received bytes, not with announced lengths; and the buffer is zeroed at each read.
        self.received.resize(len + READ_LEN, 0);
        let read = source.read(&mut self.received[len..]);
        self.received.truncate(len + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Takes received bytes that are not a reply, such as a snapshot's, and returns their number.
    pub fn take_bytes(&mut self, out: &mut [u8]) -> usize {
        let rest = &self.received[self.position..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        count
    }
}

/// Returns the value of a field of INFO.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns few bytes per read, with errors in between.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = self.0.len().min(7);
            (&self.0[..count]).read(buffer).inspect(|read| self.0 = &self.0[*read..])
        }
    }

    #[test]
    fn replies_come_in_pieces() {
        let sent = b"+OK\r\n$11\r\nhello world\r\n*2\r\n:1\r\n:2\r\nsnapshot";
        let (mut source, mut replies, mut whole) = (Slow(sent, false), Replies::default(), Vec::new());
        while whole.len() < 3 {
            whole.extend(replies.whole().unwrap());
            let _later = replies.read_from(&mut source);
        }
        assert_eq!(whole[1], Value::Bulk(b"hello world".to_vec()));
        assert_eq!(whole[2], Value::Array(vec![Value::Integer(1), Value::Integer(2)]));
        while !source.0.is_empty() {
            let _later = replies.read_from(&mut source);
        }
        let mut piece = [0; 6];
        assert_eq!((replies.take_bytes(&mut piece), &piece), (6, b"snapsh"));
        assert_eq!((replies.take_bytes(&mut piece), &piece[..2]), (2, &b"ot"[..]));
        assert_eq!(replies.take_bytes(&mut piece), 0);
    }

    #[test]
    fn fields_of_info() {
        let info = "# Server\r\nused_memory:1234\r\nused_memory_human:1K\r\n";
        assert_eq!(info_field(info, "used_memory"), Some("1234"));
        assert_eq!((info_field(info, "used"), info_field(info, "# Server")), (None, None));
    }
}
