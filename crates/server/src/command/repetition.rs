//! Counts below zero: they ask SRANDMEMBER and its like for elements again and again, so that the number in the request
//! alone says how long the reply becomes, whatever the data is. Such replies have a limit in elements, which the count is
//! held against before anything is written, and one in bytes, which is looked at while the reply grows. The commands of a
//! transaction share both: nothing else runs until the last of them is done. A script may be ended between its commands.
//!
//! The same look sees that the reply is over the client's own limit of output: then the rest would be for nothing.

use super::{Args, Context, Outcome};
use crate::error::ClientError;
use wire::reply::ReplyBuffer;

/// Elements that one command, or one transaction, repeats at most.
pub const ELEMENTS_MAX: i64 = 1 << 20;
/// Bytes of replies of one command, or one transaction, that counts below zero have asked for; as long as one string may
/// be unless told otherwise.
pub const BYTES_MAX: usize = 512 << 20;

const TOO_MANY_BYTES: ClientError =
    ClientError::text("ERR the reply is too large: with a count below zero it has 536870912 bytes at most");

/// What is left of both limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    elements: i64,
    bytes: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance { elements: ELEMENTS_MAX, bytes: BYTES_MAX }
    }
}

/// The reply to a count, while it is written.
#[derive(Clone, Copy, Debug)]
pub struct Repetition {
    start: usize,
    bytes_max: usize,
    repeats: bool,
}

impl Repetition {
    /// Whether more may be written.
    #[inline]
    pub fn goes_on(&self, reply: &ReplyBuffer) -> bool {
        !reply.is_overflowed() && reply.len().saturating_sub(self.start) <= self.bytes_max
    }
}

/// The count that is the argument at `index`.
pub fn count(args: Args<'_>, index: usize) -> Result<i64, ClientError> {
    let count = args.integer(index)?;
    if count >= -ELEMENTS_MAX {
        return Ok(count);
    }
    let range = format!("value must between -{ELEMENTS_MAX} and {}", i64::MAX);
    Err(ClientError::formatted(format!("ERR value is out of range, {range}")))
}

/// A larger collection finds an element without a walk.
const LISTED_LEN_MAX: usize = 4096;

/// Whether so many elements of a collection of this length are drawn that they are better listed first.
pub fn is_worth_listing(len: usize, count: i64) -> bool {
    (1..=LISTED_LEN_MAX).contains(&len) && len as u64 <= count.unsigned_abs()
}

impl Context<'_> {
    /// Before the first byte of the reply to a [`count`].
    pub fn begin_repetition(&mut self, count: i64) -> Result<Repetition, ClientError> {
        let start = self.reply.len();
        if count >= 0 {
            return Ok(Repetition { start, bytes_max: usize::MAX, repeats: false });
        }
        let mut own = Allowance::default();
        let allowance = if self.shares_allowance() { &mut self.server.allowance } else { &mut own };
        if count < -allowance.elements {
            return Err(ClientError::formatted(format!(
                "ERR value is out of range, counts below zero come to -{ELEMENTS_MAX} at most in a transaction"
            )));
        }
        allowance.elements += count;
        Ok(Repetition { start, bytes_max: allowance.bytes, repeats: true })
    }

    /// Behind the last byte of it. One that is too long is taken back.
    pub fn end_repetition(&mut self, repetition: Repetition) -> Outcome {
        if !repetition.repeats || self.reply.is_overflowed() {
            return Ok(());
        }
        let written = self.reply.len().saturating_sub(repetition.start);
        if self.shares_allowance() {
            self.server.allowance.bytes = repetition.bytes_max.saturating_sub(written);
        }
        if written > repetition.bytes_max {
            self.reply.truncate(repetition.start);
            return Err(TOO_MANY_BYTES);
        }
        Ok(())
    }

    /// Whether it is one of a transaction's commands.
    fn shares_allowance(&self) -> bool {
        self.origin.in_transaction && !self.origin.in_script
    }
}
