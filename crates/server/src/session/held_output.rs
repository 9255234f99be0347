//! Output of one client that waits for changes to be confirmed.
//!
//! ```text
//!   oldest                                                          newest
//!   | what the socket did not take | chunk, turn 7 | chunk, turn 9 |   Client::output: of the current turn
//! ```
//!
//! 1. The order of a client's output is: its chunks, then its output. While chunks exist, the socket is offered nothing else.
//! 2. The turns of chunks never fall: a chunk waits at least for the turn of the chunk before it.

use std::collections::VecDeque;
use wire::reply::{Output, Protocol, ReplyBuffer};
use wire::response::Skipper;

/// First byte of a message in RESP3.
const PUSH: u8 = b'>';
/// Start of an invalidation. It is no promise, and the entry that it is about is tracked no more.
const INVALIDATION: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

/// Bytes of one turn, and the turn whose confirmation they wait for. 0: none.
#[derive(Debug)]
struct Chunk {
    output: Output,
    turn: u64,
    /// Its replies show that the session has changed: no error may stand in their place.
    changes_session: bool,
}

/// The chunks, oldest first.
#[derive(Debug, Default)]
pub struct HeldOutput {
    chunks: VecDeque<Chunk>,
    /// Sum of their lengths.
    len: usize,
    /// The turn whose confirmation the client's current output waits for. 0: none.
    awaits: u64,
    /// The client's current output shows that its session has changed.
    changes_session: bool,
    /// The turn for which the client was last listed as waiting.
    listed_for: u64,
}

impl HeldOutput {
    /// Makes the client's current output wait for this turn.
    pub fn await_turn(&mut self, turn: u64) {
        self.awaits = self.awaits.max(turn);
    }

    /// Records that the client's current output shows a change of its session: another database, user or protocol.
    pub fn note_session_change(&mut self) {
        self.changes_session = true;
    }

    /// Adds the client's current output. Without output it stays noted what the next one waits for: that of a suspended
    /// script comes later.
    pub fn push(&mut self, output: Output) {
        if output.is_empty() {
            return;
        }
        let turn = std::mem::take(&mut self.awaits).max(self.chunks.back().map_or(0, |chunk| chunk.turn));
        let changes_session = std::mem::take(&mut self.changes_session);
        self.len += output.len();
        self.chunks.push_back(Chunk { output, turn, changes_session });
    }

    /// Returns bytes that the socket did not take to the front.
    pub fn push_back_unsent(&mut self, output: Output) {
        self.len += output.len();
        self.chunks.push_front(Chunk { output, turn: 0, changes_session: false });
    }

    /// Removes the chunks that wait for no turn after `confirmed`, and returns their bytes.
    pub fn take_confirmed(&mut self, confirmed: u64) -> Output {
        let mut taken = Output::default();
        while let Some(chunk) = self.chunks.pop_front_if(|chunk| chunk.turn <= confirmed) {
            match taken.is_empty() {
                true => taken = chunk.output,
                false => taken.append(chunk.output),
            }
        }
        self.len -= taken.len();
        taken
    }

    /// Returns whether the first chunk waits for a turn after `confirmed` that has `failed`.
    pub fn has_failed(&self, confirmed: u64, failed: u64) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.turn > confirmed && chunk.turn <= failed)
    }

    /// Removes the chunks up to the turn `failed`. Returns this error in place of each of their replies, and of messages the
    /// invalidations alone; `None` if that would not be the truth.
    pub fn take_failed(&mut self, failed: u64, error: &str) -> Option<Output> {
        let is_simple = !self.chunks.iter().any(|chunk| chunk.turn <= failed && chunk.changes_session);
        let output = self.take_confirmed(failed).copy_from(0);
        let mut errors = ReplyBuffer::new(Protocol::Resp3);
        let (mut skipper, mut position) = (Skipper::new(), 0);
        while position < output.len() {
            let start = position;
            skipper.skip(&output, &mut position).ok()??;
            match &output[start..position] {
                message if message.starts_with(INVALIDATION) => errors.raw(message),
                [PUSH, ..] => {}
                _ => errors.error(error.as_bytes()),
            }
        }
        is_simple.then(|| errors.take())
    }

    /// Returns the turn for which the first chunk waits, if the client is to be listed as waiting for it. A first chunk that
    /// is confirmed waits for room in the socket.
    pub fn turn_to_list(&mut self, confirmed: u64) -> Option<u64> {
        let turn = self.chunks.front()?.turn;
        (turn > confirmed && std::mem::replace(&mut self.listed_for, turn) != turn).then_some(turn)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it is of no use any more, when turns up to `confirmed` are confirmed.
    pub fn is_over(&self, confirmed: u64) -> bool {
        self.chunks.is_empty() && self.awaits <= confirmed && !self.changes_session
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        let outputs: usize = self.chunks.iter().map(|chunk| chunk.output.memory_bytes()).sum();
        size_of::<Self>() + self.chunks.capacity() * size_of::<Chunk>() + outputs
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldOutput, Output, Protocol, ReplyBuffer};

    fn output(text: &str) -> Output {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        reply.raw(text.as_bytes());
        reply.take()
    }

    fn push(held: &mut HeldOutput, text: &str, turn: u64) {
        held.await_turn(turn);
        held.push(output(text));
    }

    fn taken(held: &mut HeldOutput, confirmed: u64) -> Vec<u8> {
        held.take_confirmed(confirmed).copy_from(0)
    }

    #[test]
    fn output_leaves_in_order_as_turns_are_confirmed() {
        let mut held = HeldOutput::default();
        push(&mut held, "a", 3);
        push(&mut held, "b", 5);
        assert_eq!((held.turn_to_list(2), held.len()), (Some(3), 2));
        assert_eq!(held.turn_to_list(2), None, "it is listed");
        assert_eq!(taken(&mut held, 2), b"");
        assert_eq!(taken(&mut held, 3), b"a");
        push(&mut held, "c", 0);
        assert_eq!(taken(&mut held, 4), b"", "what waits for nothing follows what waits");
        assert_eq!(taken(&mut held, 5), b"bc");
        assert!(held.is_empty());
        assert_eq!(held.len, 0);
    }

    #[test]
    fn what_the_socket_did_not_take_stays_first() {
        let mut held = HeldOutput::default();
        push(&mut held, "ab", 1);
        push(&mut held, "c", 2);
        let mut first = held.take_confirmed(1);
        first.advance(1);
        held.push_back_unsent(first);
        push(&mut held, "d", 1);
        assert_eq!((held.turn_to_list(1), held.len()), (None, 3));
        assert_eq!(taken(&mut held, 1), b"b");
        assert_eq!(taken(&mut held, 2), b"cd");
    }

    #[test]
    fn replies_of_failed_turns_are_errors() {
        let mut held = HeldOutput::default();
        push(&mut held, "+OK\r\n", 1);
        push(&mut held, ">2\r\n+a\r\n+b\r\n*2\r\n:1\r\n$2\r\n\r\n\r\n:5\r\n", 2);
        push(&mut held, ":6\r\n", 3);
        assert!(!held.has_failed(1, 1) && !held.has_failed(2, 2));
        assert_eq!(taken(&mut held, 1), b"+OK\r\n");
        assert!(held.has_failed(1, 2));
        assert_eq!(
            held.take_failed(2, "E").map(|errors| errors.copy_from(0)),
            Some(b"-E\r\n-E\r\n".to_vec())
        );
        assert_eq!(held.len(), 4);
        held.note_session_change();
        push(&mut held, "+OK\r\n", 4);
        push(&mut held, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", 5);
        assert!(held.take_failed(4, "E").is_none(), "it is closed");
        assert!(held.take_failed(5, "E").is_some_and(|output| output.copy_from(0).starts_with(b">2")));
        push(&mut held, "+half", 4);
        assert!(held.take_failed(4, "E").is_none(), "it is closed");
    }

    #[test]
    fn nothing_is_kept_of_an_empty_output() {
        let mut held = HeldOutput::default();
        push(&mut held, "", 7);
        assert!(held.is_empty() && held.is_over(7) && !held.is_over(6));
        push(&mut held, "a", 0);
        assert_eq!(taken(&mut held, 6), b"", "a suspended script has changed something before");
        assert_eq!(taken(&mut held, 7), b"a");
    }
}
