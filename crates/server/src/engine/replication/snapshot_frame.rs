//! The framing of a snapshot in a primary's bytes: its start, and its end by length or by mark.
//!
//! ```text
//! $<length>\r\n <that many bytes>                      a file of the primary's
//! $EOF:<mark of 40 bytes>\r\n <bytes> <the mark>       written while it is sent
//! ```
//!
//! 1. `tail` may be the beginning of the mark; all bytes before it have been forwarded.

use super::handshake::{LINE_BYTES_MAX, line_of};
use crate::sys::file::FileError;
use memchr::memmem;

pub(super) const MARK_BYTES: usize = 40;

#[derive(Clone, Copy)]
enum Extent {
    /// The framing line has not been received.
    Unknown,
    Bytes(u64),
    Mark([u8; MARK_BYTES]),
}

/// Result of taking bytes.
pub(super) enum Taken {
    /// Number taken; the snapshot continues.
    Some(usize),
    /// Number taken; the snapshot is complete.
    Last(usize),
}

/// Why a transfer failed.
pub(super) enum TransferError {
    File(FileError),
    Protocol(String),
}

pub(super) struct SnapshotFrame {
    extent: Extent,
    tail: Vec<u8>,
    /// Bytes of the snapshot that were forwarded.
    received_bytes: u64,
}

impl SnapshotFrame {
    /// Creates a frame that awaits its framing line.
    pub fn new() -> Self {
        SnapshotFrame { extent: Extent::Unknown, tail: Vec::new(), received_bytes: 0 }
    }

    /// Returns whether the framing line has been received.
    pub fn has_begun(&self) -> bool {
        !matches!(self.extent, Extent::Unknown)
    }

    /// Returns whether the snapshot ends with a mark rather than after a known length.
    pub fn ends_with_mark(&self) -> bool {
        matches!(self.extent, Extent::Mark(_))
    }

    /// Returns the size; 0: unknown to the primary; `None`: not received yet.
    pub fn total_bytes(&self) -> Option<u64> {
        match self.extent {
            Extent::Unknown => None,
            Extent::Bytes(bytes) => Some(bytes),
            Extent::Mark(_) => Some(0),
        }
    }

    /// Returns the bytes of the snapshot received so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Takes bytes and forwards those of the snapshot, at most [`MARK_BYTES`] more than given. The framing line is taken
    /// separately; `to` names the destination in the log.
    pub fn take_in(
        &mut self,
        bytes: &[u8],
        to: &str,
        forward: &mut dyn FnMut(&[u8]) -> Result<(), TransferError>,
    ) -> Result<Taken, TransferError> {
        match self.extent {
            Extent::Unknown => self.read_extent(bytes, to),
            Extent::Bytes(total) => {
                let left = usize::try_from(total - self.received_bytes).unwrap_or(usize::MAX);
                let own = &bytes[..bytes.len().min(left)];
                self.pass(own, forward)?;
                let is_whole = self.received_bytes == total;
                Ok(if is_whole { Taken::Last(own.len()) } else { Taken::Some(own.len()) })
            }
            Extent::Mark(mark) => self.take_in_up_to(&mark, bytes, forward),
        }
    }

    fn pass(
        &mut self,
        bytes: &[u8],
        forward: &mut dyn FnMut(&[u8]) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if !bytes.is_empty() {
            forward(bytes)?;
        }
        self.received_bytes += bytes.len() as u64;
        Ok(())
    }

    fn read_extent(&mut self, bytes: &[u8], to: &str) -> Result<Taken, TransferError> {
        let Some((line, taken)) = line_of(bytes) else {
            let is_endless = bytes.len() > LINE_BYTES_MAX;
            let error =
                || TransferError::Protocol("Bad protocol from PRIMARY: a line without end".to_owned());
            return if is_endless { Err(error()) } else { Ok(Taken::Some(0)) };
        };
        let shown = || String::from_utf8_lossy(line).into_owned();
        if let Some(mark) = line.strip_prefix(b"$EOF:").and_then(|rest| rest.first_chunk::<MARK_BYTES>()) {
            log::info!("PRIMARY <-> REPLICA sync: receiving streamed RDB from primary with EOF to {to}");
            self.extent = Extent::Mark(*mark);
        } else if let Some(digits) = line.strip_prefix(b"$") {
            let bytes = wire::number::parse_i64(digits).and_then(|bytes| u64::try_from(bytes).ok());
            let bytes = bytes.filter(|&bytes| bytes > 0);
            let wrong = || TransferError::Protocol(format!("Bad bulk count from PRIMARY: '{}'", shown()));
            let bytes = bytes.ok_or_else(wrong)?;
            log::info!("PRIMARY <-> REPLICA sync: receiving {bytes} bytes from primary to {to}");
            self.extent = Extent::Bytes(bytes);
        } else if line.starts_with(b"-") {
            return Err(TransferError::Protocol(format!(
                "PRIMARY aborted replication with an error: {}",
                &shown()[1..]
            )));
        } else if !line.is_empty() {
            return Err(TransferError::Protocol(format!(
                "Bad protocol from PRIMARY, the first byte is not '$' (we received '{}'), are you sure the host and port are right?",
                shown()
            )));
        }
        Ok(Taken::Some(taken))
    }

    fn take_in_up_to(
        &mut self,
        mark: &[u8; MARK_BYTES],
        bytes: &[u8],
        forward: &mut dyn FnMut(&[u8]) -> Result<(), TransferError>,
    ) -> Result<Taken, TransferError> {
        let before = self.tail.len();
        let mut all = std::mem::take(&mut self.tail);
        all.extend_from_slice(bytes);
        if let Some(end) = memmem::find(&all, mark) {
            self.pass(&all[..end], forward)?;
            return Ok(Taken::Last(end + MARK_BYTES - before));
        }
        let kept = all.len().min(MARK_BYTES - 1);
        self.pass(&all[..all.len() - kept], forward)?;
        all.drain(..all.len() - kept);
        self.tail = all;
        Ok(Taken::Some(bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(chunks: &[&[u8]]) -> (Vec<u8>, Option<usize>) {
        let mut frame = SnapshotFrame::new();
        let (mut received, mut pending) = (Vec::new(), Vec::new());
        for chunk in chunks {
            pending.extend_from_slice(chunk);
            while !pending.is_empty() {
                let mut forward = |bytes: &[u8]| {
                    received.extend_from_slice(bytes);
                    Ok(())
                };
                match frame.take_in(&pending, "here", &mut forward) {
                    Ok(Taken::Some(0)) => break,
                    Ok(Taken::Some(taken)) => drop(pending.drain(..taken)),
                    Ok(Taken::Last(taken)) => {
                        assert_eq!(frame.received_bytes(), received.len() as u64);
                        return (received, Some(pending.len() - taken));
                    }
                    Err(_) => return (received, None),
                }
            }
        }
        (received, None)
    }

    #[test]
    fn a_snapshot_ends_with_its_length_or_its_mark_however_it_is_cut() {
        let mark = "0123456789abcdefghijklmnopqrstuvwxyzABCD";
        let body = [b"body".repeat(100), mark.as_bytes()[..39].to_vec(), b"0123".to_vec()].concat();
        let by_mark = [format!("\n$EOF:{mark}\r\n").as_bytes(), &body, mark.as_bytes(), b"*1"].concat();
        let by_length = [format!("\r\n${}\r\n", body.len()).as_bytes(), &body, b"*1"].concat();
        for all in [by_mark, by_length] {
            for size in (1..=all.len()).step_by(7).chain([all.len()]) {
                let chunks: Vec<&[u8]> = all.chunks(size).collect();
                let (written, left) = received(&chunks);
                assert_eq!(written, body, "in pieces of {size}");
                assert!(left.is_some_and(|left| left <= 2), "in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for wrong in ["$-1\r\n", "$0\r\n", "$x\r\n", "$EOF:short\r\n", "+OK\r\n", "-ERR no\r\n"] {
            assert_eq!(received(&[wrong.as_bytes(), b"more"]), (Vec::new(), None), "{wrong}");
        }
        assert_eq!(received(&[&[b'x'; LINE_BYTES_MAX + 1]]), (Vec::new(), None));
    }
}
