//! Writing a listpack into a reused buffer, from records: encoded elements without backlens.

use super::encoding::{END, backlen, backlen_size, element_size};
use super::{COUNT_UNKNOWN, HEADER_BYTES};

/// Records up to this long are copied with one instruction or two instead of a call.
const SHORT: usize = 16;

/// An element of 128 bytes or more has a backlen of two bytes, and of more only if it is far longer than these.
fn backlens_bytes_max(records_bytes: usize, count: usize) -> usize {
    count + records_bytes / 64
}

pub(crate) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    count: usize,
}

impl<'a> Writer<'a> {
    /// Begins a listpack in `bytes`, replacing its contents.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        bytes.clear();
        bytes.extend_from_slice(&[0; HEADER_BYTES]);
        Writer { bytes, count: 0 }
    }

    /// Adds `count` contiguous records.
    pub fn add(&mut self, records: &[u8], count: usize) {
        self.count += count;
        let (mut at, mut to) = (0, self.bytes.len());
        self.bytes.resize(to + records.len() + backlens_bytes_max(records.len(), count), 0);
        for _ in 0..count {
            let size = element_size(records, at);
            let (record, room) = (&records[at..], &mut self.bytes[to..]);
            match (record.first_chunk(), room.first_chunk_mut()) {
                // Surplus bytes are overwritten by the next record, or cut off.
                (Some(record), Some(room)) if size <= SHORT => {
                    let (record, room): (&[u8; SHORT], &mut [u8; SHORT]) = (record, room);
                    *room = *record;
                }
                _ => room[..size].copy_from_slice(&record[..size]),
            }
            (at, to) = (at + size, to + size);
            if backlen_size(size) == 1 {
                self.bytes[to] = size as u8;
                to += 1;
            } else {
                let (backlen, len) = backlen(size);
                self.bytes[to..to + len].copy_from_slice(&backlen[..len]);
                to += len;
            }
        }
        self.bytes.truncate(to);
    }

    /// Completes the listpack in the buffer.
    pub fn finish(self) {
        self.bytes.push(END);
        let total = u32::try_from(self.bytes.len()).expect("a list's node has fewer bytes");
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        self.bytes[4..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }
}
