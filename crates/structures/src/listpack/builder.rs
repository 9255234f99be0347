//! Building a listpack front to back: one growing buffer, and one copy of it at the end. Appending one by one to a
//! listpack would reallocate it for each size class in turn.

use super::encoding::{END, Encoded, backlen};
use super::{COUNT_UNKNOWN, Element, HEADER_BYTES, Listpack, TOTAL_BYTES_MAX};
use crate::thin_bytes::ThinBytes;

/// A listpack under construction.
pub struct Builder {
    /// Room for the header, then elements.
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    /// Creates a builder with capacity for `bytes` of elements, which may be exceeded.
    pub fn with_room(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(HEADER_BYTES + bytes + 1);
        buffer.extend_from_slice(&[0; HEADER_BYTES]);
        Builder { bytes: buffer, count: 0 }
    }

    /// As [`Listpack::fits`].
    pub fn fits(&self, bytes: usize, elements: usize) -> bool {
        let added = elements.saturating_mul(14).saturating_add(bytes);
        self.bytes.len().saturating_add(added) < TOTAL_BYTES_MAX
    }

    /// Appends an element.
    pub fn push(&mut self, element: Element<'_>) {
        let encoded = Encoded::element(element);
        let (backlen, backlen_len) = backlen(encoded.size());
        self.bytes.extend_from_slice(encoded.head());
        self.bytes.extend_from_slice(encoded.body());
        self.bytes.extend_from_slice(&backlen[..backlen_len]);
        self.count += 1;
    }

    /// Returns the listpack.
    pub fn finish(mut self) -> Listpack {
        self.bytes.push(END);
        let total = u32::try_from(self.bytes.len()).expect("callers check fits() first");
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        self.bytes[4..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
        Listpack { bytes: ThinBytes::new(&[&self.bytes]) }
    }
}
