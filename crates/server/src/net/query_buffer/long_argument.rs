//! A long argument, most of which is yet to come, in a buffer of its own: a command that stores it takes over that
//! buffer, instead of copying bytes from between other arguments.
//!
//! ```text
//!   query buffer   *3 $3 SET $3 key $1000000 <what had arrived>   ends before the argument, and continues after it
//!                                            | moved
//!                                            v
//!   its buffer                               <what had arrived> <what is read from then on> \r\n
//! ```
//!
//! 1. Room follows what has arrived: for [`ANNOUNCED_BYTES_MAX`] more, or for [`EXPECTED_ROOM`] times as much. Each step copies
//!    what has arrived and leaves as much behind; with as much again, SET of 40 MB had 2.6 times that resident.
//! 2. When it is whole the buffer has all the room of its allocation, and that is the least which holds the argument, so that a
//!    string takes what it would have taken as a copy, and can grow within it.
//!
//! Processor time of SET over a string of the same length relative to copying, least and median of five rounds by
//! turns, one command at a time; with four in a pipeline in brackets: 1,000,000 bytes 0.63 and 0.65, 1,048,576: 0.81
//! and 0.80 (0.72, 0.82), 10,000,000: 0.82 and 0.77 (0.63, 0.77), 500,000: 0.90 and 0.95 (0.82, 0.87), 262,144: 0.91
//! and 0.92 (0.98, 1.00). Below that the copy goes from cache to cache over the previous string, and a separate buffer
//! costs more than it saves: 150,000: 1.19 and 1.05 (1.30, 1.16), 65,536: 1.03 and 1.06, 33,000: 1.14 and 1.30.
//! Commands that copy the argument anyway: of 1,000,000 bytes HSET 1.08 and 1.03, PUBLISH 0.98 and 0.88, LSET 0.87 and
//! 0.96; of 300,000 PUBLISH 1.32 and 1.36, for a query buffer of that size is reused.
//!
//! Rejected: keeping the whole query buffer with the request around the value, which is simpler to read. A value of 2^n
//! bytes would then take the allocator's next class, a quarter more, and a first change would have to move all of it.

use super::{ANNOUNCED_BYTES_MAX, EXPECTED_ROOM, INPUT_EMPTY_BYTES_MAX};
use crate::net::transport::{Stopped, Transport};
use structures::size_class::usable_size;
use wire::reply::SharedBytes;

/// The shortest argument that is worth a buffer of its own: beyond it, a query buffer would not be reused.
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
    /// Begins an argument of `len` bytes, of which `arrived` are here, without the line end.
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

    /// Reads bytes of the argument from the transport, and nothing after it; returns the number. It must be incomplete.
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
