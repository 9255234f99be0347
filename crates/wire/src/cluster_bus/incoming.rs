//! The bytes of a link as frames, whatever pieces they come in.
//!
//! ```text
//!  input   [ end of a frame ][ frame ][ frame ][ beginning of a frame ]
//!            held + this       read where they are    held until the rest has come
//! ```
//!
//! 1. What is held is at most twice what has come of one frame: an announced length takes no memory.
//! 2. Of a frame that will not be read, nothing is held: its bytes are counted and passed over.

use super::layout::PREFIX_LEN;
use super::read::{Fault, Prefix, read_frame};
use super::{Frame, Kind};

/// Memory that a link keeps for its next partial frame.
const KEPT_BYTES_MAX: usize = 4096;

/// The reader of a link.
#[derive(Debug)]
pub struct Incoming {
    held: Vec<u8>,
    /// Bytes to pass over, of the frame that `passed` is about.
    to_pass: usize,
    passed: Option<Received>,
    message_bytes_max: usize,
}

/// A frame that has come, or why it is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its type, if that is known.
    pub kind: Option<Kind>,
    /// Its length, as announced.
    pub bytes: u32,
    /// Its content, or why it was dropped.
    pub frame: Result<Frame, Fault>,
}

impl Incoming {
    /// Returns the reader of a new link. Publications and messages of modules that are longer than this are dropped.
    pub fn new(message_bytes_max: usize) -> Incoming {
        Incoming { held: Vec::new(), to_pass: 0, passed: None, message_bytes_max }
    }

    /// Reads the next frame. The input is left behind it, or at its own end if there is no whole frame.
    ///
    /// # Errors
    ///
    /// Fails if the link has to be closed, for there is no end that a next frame could follow.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Received>, Fault> {
        if self.passed.is_some() {
            return Ok(self.pass(input));
        }
        if self.held.len() < PREFIX_LEN {
            if self.held.is_empty() && input.len() >= PREFIX_LEN {
                return self.read_in_place(input);
            }
            self.hold(input, PREFIX_LEN);
        }
        let Some(bytes) = self.held.first_chunk() else { return Ok(None) };
        let prefix = Prefix::read(bytes)?;
        if let Err(fault) = prefix.check(self.message_bytes_max) {
            self.to_pass = prefix.len as usize - PREFIX_LEN;
            self.passed = Some(Received { kind: prefix.kind(), bytes: prefix.len, frame: Err(fault) });
            self.release();
            return Ok(self.pass(input));
        }
        self.hold(input, prefix.len as usize);
        if self.held.len() < prefix.len as usize {
            return Ok(None);
        }
        let received = received(&prefix, &self.held, self.message_bytes_max);
        self.release();
        Ok(Some(received))
    }

    /// Returns the bytes of memory that are held for a frame of which only a part has come.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Reads a frame that nothing is held of, without a copy if it has come as a whole.
    fn read_in_place(&mut self, input: &mut &[u8]) -> Result<Option<Received>, Fault> {
        let Some(bytes) = input.first_chunk() else { return Ok(None) };
        let prefix = Prefix::read(bytes)?;
        if let Some((frame, rest)) = input.split_at_checked(prefix.len as usize) {
            *input = rest;
            return Ok(Some(received(&prefix, frame, self.message_bytes_max)));
        }
        self.hold(input, PREFIX_LEN);
        self.next(input)
    }

    /// Moves bytes from the input until this many are held.
    fn hold(&mut self, input: &mut &[u8], len: usize) {
        let (taken, rest) = input.split_at(input.len().min(len.saturating_sub(self.held.len())));
        self.held.extend_from_slice(taken);
        *input = rest;
    }

    fn release(&mut self) {
        self.held.clear();
        self.held.shrink_to(KEPT_BYTES_MAX);
    }

    fn pass(&mut self, input: &mut &[u8]) -> Option<Received> {
        let (passed, rest) = input.split_at(input.len().min(self.to_pass));
        self.to_pass -= passed.len();
        *input = rest;
        if self.to_pass == 0 { self.passed.take() } else { None }
    }
}

fn received(prefix: &Prefix, bytes: &[u8], message_bytes_max: usize) -> Received {
    Received { kind: prefix.kind(), bytes: prefix.len, frame: read_frame(bytes, message_bytes_max) }
}
