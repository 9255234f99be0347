//! The bytes of a small set or sorted set while it is changed: one allocation, large enough for every change.

use super::EMBEDDED_BYTES_MAX;
use std::ops::Range;

/// Most bytes.
pub(super) const ROOM_BYTES: usize = 1022;

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Room {
    used: u16,
    bytes: [u8; ROOM_BYTES],
}

impl Room {
    /// A copy of at most [`ROOM_BYTES`] bytes.
    pub fn of(content: &[u8]) -> Self {
        let mut room = Room { used: 0, bytes: [0; ROOM_BYTES] };
        room.assign(content);
        room
    }

    /// Replaces the content.
    #[inline]
    pub fn assign(&mut self, content: &[u8]) {
        self.bytes[..content.len()].copy_from_slice(content);
        self.used = content.len() as u16;
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.used.into()
    }

    /// The content.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// The content, if it is short enough to be embedded in an entry.
    #[inline]
    pub fn embedded(&self) -> Option<&[u8]> {
        (self.len() <= EMBEDDED_BYTES_MAX).then(|| self.as_slice())
    }

    /// The content, for changes that keep its length.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used as usize]
    }

    /// Replaces a range by `added` bytes, which are returned for the caller to write.
    #[inline]
    pub fn replace(&mut self, replaced: Range<usize>, added: usize) -> &mut [u8] {
        let Range { start, end } = replaced;
        let used = self.len();
        self.bytes.copy_within(end..used, start + added);
        self.used = (used - (end - start) + added) as u16;
        &mut self.bytes[start..start + added]
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Room>()
    }
}
