//! Negative counts: SRANDMEMBER and similar commands draw elements repeatedly, so the number in the request alone
//! determines the length of the reply, whatever the data is. Such replies have a limit in elements, checked against the
//! count before the first byte is written, and one in bytes, checked while the reply grows. The commands of a transaction
//! share both, because nothing else runs until the last of them is done. A script can be stopped between its commands.
//!
//! The same check detects that the reply exceeds the client's own output limit: the rest would be discarded.

use super::{Args, Context, Outcome};
use crate::error::ClientError;
use wire::reply::ReplyBuffer;

/// The maximum of repeated elements of one command, or one transaction.
pub const ELEMENTS_MAX: i64 = 1 << 20;
/// The maximum bytes of replies to negative counts of one command, or one transaction: the default limit of a string's
/// length.
pub const BYTES_MAX: usize = 512 << 20;

const TOO_MANY_BYTES: ClientError =
    ClientError::text("ERR the reply is too large: with a negative count the limit is 536870912 bytes");

/// The remainder of both limits.
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

/// `*0` and its line end: the reply for a key that does not exist, which uses no allowance.
const EMPTY_ARRAY_BYTES: usize = 4;

/// The reply to a count, while it is being written.
#[derive(Clone, Copy, Debug)]
pub struct Repetition {
    start: usize,
    bytes_max: usize,
    /// Elements taken from the allowance; 0 unless the count is negative.
    elements: i64,
}

impl Repetition {
    /// Whether the reply can grow further.
    #[inline]
    pub fn goes_on(&self, reply: &ReplyBuffer) -> bool {
        !reply.is_overflowed() && reply.len().saturating_sub(self.start) <= self.bytes_max
    }
}

/// The count in the argument at `index`.
pub fn count(args: Args<'_>, index: usize) -> Result<i64, ClientError> {
    within_limit(args.integer(index)?)
}

/// The count in the third argument, and whether `word` follows it. Faults are found in the order of the reference: the
/// number, the word, then the range.
pub fn count_and_word(args: Args<'_>, word: &str) -> Result<(i64, bool), ClientError> {
    let count = args.integer(2)?;
    if count == i64::MIN {
        return within_limit(count).map(|count| (count, false));
    }
    let has_word = args.len() == 4 && args.is(3, word);
    if args.len() > 3 && !has_word {
        return Err(ClientError::Syntax);
    }
    if has_word && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(ClientError::OutOfRange);
    }
    within_limit(count).map(|count| (count, has_word))
}

fn within_limit(count: i64) -> Result<i64, ClientError> {
    if count >= -ELEMENTS_MAX {
        return Ok(count);
    }
    let range = format!("value must between -{ELEMENTS_MAX} and {}", i64::MAX);
    Err(ClientError::formatted(format!("ERR value is out of range, {range}")))
}

/// A larger collection finds an element without a scan.
const LISTED_LEN_MAX: usize = 4096;

/// Whether drawing `count` elements from a collection of this length is faster from a list of all its elements.
pub fn is_worth_listing(len: usize, count: i64) -> bool {
    (1..=LISTED_LEN_MAX).contains(&len) && len as u64 <= count.unsigned_abs()
}

impl Context<'_> {
    /// Must be called before the first byte of the reply to a [`count`].
    pub fn begin_repetition(&mut self, count: i64) -> Result<Repetition, ClientError> {
        let start = self.reply.len();
        if count >= 0 {
            return Ok(Repetition { start, bytes_max: usize::MAX, elements: 0 });
        }
        let mut own = Allowance::default();
        let allowance = if self.shares_allowance() { &mut self.server.allowance } else { &mut own };
        if count < -allowance.elements {
            return Err(ClientError::formatted(format!(
                "ERR value is out of range, negative counts of a transaction may sum to -{ELEMENTS_MAX} at most"
            )));
        }
        allowance.elements += count;
        Ok(Repetition { start, bytes_max: allowance.bytes, elements: -count })
    }

    /// Must be called after the last byte of the reply. Removes a reply that is too long.
    pub fn end_repetition(&mut self, repetition: Repetition) -> Outcome {
        if repetition.elements == 0 || self.reply.is_overflowed() {
            return Ok(());
        }
        let written = self.reply.len().saturating_sub(repetition.start);
        if self.shares_allowance() {
            let allowance = &mut self.server.allowance;
            allowance.bytes = repetition.bytes_max.saturating_sub(written);
            if written <= EMPTY_ARRAY_BYTES {
                allowance.elements += repetition.elements;
            }
        }
        if written > repetition.bytes_max {
            self.reply.truncate(repetition.start);
            return Err(TOO_MANY_BYTES);
        }
        Ok(())
    }

    /// Whether the command is part of a transaction.
    fn shares_allowance(&self) -> bool {
        self.origin.in_transaction && !self.origin.in_script
    }
}
