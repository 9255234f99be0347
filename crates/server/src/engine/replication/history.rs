//! Histories: an id and an offset identify the stream of changes. A replica that has followed the same history up to an
//! offset can continue with the bytes after it.
//!
//! A server that takes over a history from its primary keeps the primary's id as its *second* id, valid up to the offset
//! at which its own history begins: replicas of the old primary can then continue with the new one.

use std::ops::RangeInclusive;

/// Length of an id in hexadecimal digits.
pub const ID_LEN: usize = 40;

/// The history's previous id, valid for the common part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondId {
    /// The id, in [`ID_LEN`] hexadecimal digits.
    pub id: String,
    /// Number of the first byte that may differ.
    pub first_other: u64,
}

/// A history. Bytes of the stream are numbered from 1, as in the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    id: String,
    second: Option<SecondId>,
    /// Number of the last byte; 0 before the first.
    offset: u64,
}

/// Why a replica cannot continue from its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The replica reports no history.
    NoHistory,
    OtherHistory,
    /// Beyond the end of the second id.
    BeyondSecond {
        first_other: u64,
    },
    NoBacklog,
    /// The byte is not among those that could be sent.
    OutOfBacklog {
        numbers: RangeInclusive<u64>,
    },
}

impl History {
    /// Creates an empty history without a second id.
    pub fn new(id: String) -> Self {
        History { id, second: None, offset: 0 }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the second id, if there is one.
    pub fn second(&self) -> Option<&SecondId> {
        self.second.as_ref()
    }

    /// Returns the number of the last byte; 0 before the first.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Advances the offset by received bytes.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
    }

    /// Starts a new history unrelated to any other: no earlier byte of it can be sent.
    pub fn begin_anew(&mut self, id: String) {
        (self.id, self.second) = (id, None);
    }

    /// Becomes the history `id` at `offset`, as reported by a primary.
    pub fn take_over(&mut self, id: String, offset: u64) {
        *self = History { id, second: None, offset };
    }

    /// Starts this server's own history after `offset` of the history `id`.
    pub fn inherit(&mut self, id: String, offset: u64) {
        self.second = Some(SecondId { id, first_other: offset + 1 });
        self.offset = offset;
    }

    /// Starts a new history under this id; the old id stays valid for the part before.
    pub fn part(&mut self, id: String) {
        let old = std::mem::replace(&mut self.id, id);
        self.second = Some(SecondId { id: old, first_other: self.offset + 1 });
    }

    /// Returns whether a replica that has the history `id` up to before byte `next` can be sent the rest. `sendable` is
    /// the range of possible next bytes, the first future one included.
    pub fn may_continue(
        &self,
        id: &[u8],
        next: i64,
        sendable: Option<RangeInclusive<u64>>,
    ) -> Result<u64, Refusal> {
        let is = |own: &str| own.as_bytes().eq_ignore_ascii_case(id);
        if !is(&self.id) {
            match &self.second {
                _ if id.starts_with(b"?") => return Err(Refusal::NoHistory),
                Some(second) if is(&second.id) => {
                    if u64::try_from(next).is_ok_and(|next| next > second.first_other) {
                        return Err(Refusal::BeyondSecond { first_other: second.first_other });
                    }
                }
                Some(_) | None => return Err(Refusal::OtherHistory),
            }
        }
        let numbers = sendable.ok_or(Refusal::NoBacklog)?;
        let next = u64::try_from(next).ok().filter(|next| numbers.contains(next));
        next.ok_or(Refusal::OutOfBacklog { numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> String {
        digit.to_string().repeat(ID_LEN)
    }

    fn history() -> History {
        let second = Some(SecondId { id: id('b'), first_other: 51 });
        History { id: id('a'), second, offset: 100 }
    }

    #[test]
    fn who_has_seen_the_same_goes_on_where_the_backlog_reaches() {
        let history = history();
        let ask = |digit, next| history.may_continue(id(digit).as_bytes(), next, Some(21..=101));
        assert_eq!(ask('a', 101), Ok(101), "nothing was missed");
        assert_eq!(ask('a', 21), Ok(21));
        assert_eq!(ask('A', 30), Ok(30), "digits are digits");
        for next in [20, 102, 0, -1, i64::MIN, i64::MAX] {
            assert_eq!(ask('a', next), Err(Refusal::OutOfBacklog { numbers: 21..=101 }), "{next}");
        }
        let without = history.may_continue(id('a').as_bytes(), 101, None);
        assert_eq!(without, Err(Refusal::NoBacklog));
    }

    #[test]
    fn the_second_id_is_good_up_to_where_histories_part() {
        let history = history();
        let ask = |digit, next| history.may_continue(id(digit).as_bytes(), next, Some(21..=101));
        assert_eq!(ask('b', 51), Ok(51), "all of the common history has been seen");
        assert_eq!(ask('b', 52), Err(Refusal::BeyondSecond { first_other: 51 }));
        assert_eq!(ask('b', -7), Err(Refusal::OutOfBacklog { numbers: 21..=101 }));
        assert_eq!(ask('c', 51), Err(Refusal::OtherHistory));
        assert_eq!(history.may_continue(b"?", -1, Some(21..=101)), Err(Refusal::NoHistory));
        assert_eq!(history.may_continue(b"", 30, Some(21..=101)), Err(Refusal::OtherHistory));
    }

    #[test]
    fn a_new_beginning_knows_nobody_from_before() {
        let mut history = history();
        history.begin_anew(id('d'));
        assert_eq!(history, History { id: id('d'), second: None, offset: 100 });
        history.advance(7);
        assert_eq!(history.offset(), 107);
    }
}
