//! A long argument that is received into a buffer of its own: a command that stores it takes that buffer, instead of
//! copying the bytes out of the query buffer.
//!
//! ```text
//!   query buffer   *3 $3 SET $3 key $1000000 <arrived bytes>   ends before the argument, and continues after it
//!                                            | moved
//!                                            v
//!   its buffer                               <arrived bytes> <bytes read later> \r\n
//! ```
//!
//! 1. The capacity follows the arrived bytes: [`ANNOUNCED_BYTES_MAX`] more, or [`EXPECTED_ROOM`] times as many. Each step
//!    copies the arrived bytes to a new buffer.
//! 2. A complete argument fills its allocation's size class, which is the smallest that holds it: the string takes the same
//!    memory as a copy, and can grow within it.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#long-arguments).

use super::{ANNOUNCED_BYTES_MAX, EXPECTED_ROOM, INPUT_EMPTY_BYTES_MAX};
use crate::net::transport::{Stopped, Transport};
use structures::size_class::usable_size;
use wire::reply::SharedBytes;

/// Minimum length of an argument with a buffer of its own: a query buffer of this size would not be reused.
pub(super) const LONG_ARGUMENT_BYTES_MIN: usize = INPUT_EMPTY_BYTES_MAX;

const LINE_END_BYTES: usize = 2;

#[derive(Debug)]
pub(super) struct LongArgument {
    /// Length without the line end.
    len: usize,
    /// The bytes arrived, line end included.
    bytes: Vec<u8>,
}

impl LongArgument {
    /// Begins an argument of `len` bytes without its line end. `arrived`: its first bytes.
    pub(super) fn begin(len: usize, arrived: &[u8]) -> Self {
        assert!(arrived.len() <= len, "the argument is incomplete");
        let mut argument = LongArgument { len, bytes: Vec::new() };
        argument.reserve();
        argument.bytes.extend_from_slice(arrived);
        argument
    }

    pub(super) fn arrived_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn reserve(&mut self) {
        let arrived = self.bytes.len();
        let wanted = self.len + LINE_END_BYTES - arrived;
        if self.bytes.capacity() == arrived {
            self.bytes.reserve_exact(wanted.min(ANNOUNCED_BYTES_MAX.max(arrived * EXPECTED_ROOM)));
        }
    }

    /// Reads bytes of the argument from the transport, and none after it; returns their number. It must be incomplete.
    pub(super) fn read(&mut self, transport: &mut Transport) -> Result<usize, Stopped> {
        assert!(!self.is_whole(), "a complete argument has no room left");
        self.reserve();
        transport.read(&mut self.bytes)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() == self.len + LINE_END_BYTES
    }

    /// Returns whether the last read filled the buffer.
    pub(super) fn is_filled(&self) -> bool {
        self.bytes.len() == self.bytes.capacity()
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Returns the arrived bytes of the argument and its line end.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the complete argument.
    pub(super) fn into_shared(self) -> SharedBytes {
        let LongArgument { len, mut bytes } = self;
        bytes.truncate(len);
        let room = usable_size(len);
        match bytes.capacity() > room {
            true => bytes.shrink_to(room),
            false => bytes.reserve_exact(room - len),
        }
        SharedBytes::new(bytes)
    }
}
