//! Bytes on their way to a socket. Long ones are not copied among the others: they are referred to, and stay what they
//! were when the reply was written, whatever becomes of the value they belong to.
//!
//! ```text
//!   bytes    | +OK.. $65536.. | .. $70000.. | .. :1.. |        own, in order; `sent` of them have left
//!                             ^at           ^at
//!   pieces                 | Arc 0..65536 |  | Arc 0..70000 |  each stands before the byte at `at`
//! ```
//!
//! Invariants, verified by [`Output::check`]:
//! 1. `at` does not decrease from piece to piece, and lies in `sent..=bytes.len()`.
//! 2. No piece is empty; `pieces` is `None` when there is none.
//! 3. `shared_len` is the length of all pieces together.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a value and the replies that show it hold together. Growable, because the value may be: whoever changes
/// it does so in place only while nobody else holds it.
pub type SharedBytes = Arc<Vec<u8>>;

/// What has been sent is cut off the front when it is this much and at least half.
const SENT_BYTES_KEPT_MAX: usize = 64 * 1024;

/// Replies and messages in the order in which they are to be sent. Its length is what is left to send.
#[derive(Debug, Default)]
pub struct Output {
    pub(super) bytes: Vec<u8>,
    sent: usize,
    /// Boxed, because few outputs have any and all of them are passed around.
    pieces: Option<Box<Pieces>>,
}

#[derive(Debug, Default)]
struct Pieces {
    queue: VecDeque<Piece>,
    shared_len: usize,
}

#[derive(Debug)]
struct Piece {
    at: usize,
    shared: SharedBytes,
    /// What of it is to be sent.
    range: Range<usize>,
}

impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Self {
        Output { bytes, sent: 0, pieces: None }
    }
}

impl Output {
    /// What is left to send.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.shared_len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.pieces.is_none()
    }

    /// How much of the length is referred to.
    #[inline]
    pub fn shared_len(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.shared_len)
    }

    /// Room held for bytes of its own.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// All that is left, if nothing of it is referred to.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        self.pieces.is_none().then(|| &self.bytes[self.sent..])
    }

    /// Forgets the contents and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.sent, self.pieces) = (0, None);
    }

    /// Its buffer, emptied, to be used again.
    pub fn into_spare(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }

    /// Appends bytes without copying them; they may not be empty.
    pub(super) fn push_shared(&mut self, shared: SharedBytes, range: Range<usize>) {
        assert!(!range.is_empty(), "an empty piece cannot be told from one that has been sent");
        let pieces = self.pieces.get_or_insert_default();
        pieces.shared_len += range.len();
        pieces.queue.push_back(Piece { at: self.bytes.len(), shared, range });
    }

    /// Appends what is left of another output.
    pub fn append(&mut self, other: Output) {
        let shift = |at: usize| at - other.sent + self.bytes.len();
        if let Some(more) = other.pieces {
            let pieces = self.pieces.get_or_insert_default();
            pieces.shared_len += more.shared_len;
            pieces.queue.extend(more.queue.into_iter().map(|piece| Piece { at: shift(piece.at), ..piece }));
        }
        self.bytes.extend_from_slice(&other.bytes[other.sent..]);
    }

    /// What is left, in order, in runs of bytes that lie together. None of them is empty.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let queue = self.pieces.as_deref().map(|pieces| &pieces.queue);
        let starts = queue.into_iter().flatten().map(|piece| piece.at);
        let mut own_from = self.sent;
        let own = starts
            .chain([self.bytes.len()])
            .map(move |end| &self.bytes[std::mem::replace(&mut own_from, end)..end]);
        let shared = queue.into_iter().flatten().map(|piece| &piece.shared[piece.range.clone()]);
        own.zip(shared.map(Some).chain([None]))
            .flat_map(|(own, shared)| [own, shared.unwrap_or_default()])
            .filter(|run| !run.is_empty())
    }

    /// Fills `slices` with the first of the runs, for one gathering write; answers how many there are.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        slices.iter_mut().zip(self.runs()).map(|(slice, run)| *slice = IoSlice::new(run)).count()
    }

    /// A copy of what is left from `start` on.
    pub fn copy_from(&self, start: usize) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len().saturating_sub(start));
        let mut skipped = start;
        for run in self.runs() {
            copy.extend_from_slice(&run[skipped.min(run.len())..]);
            skipped = skipped.saturating_sub(run.len());
        }
        copy
    }

    /// So much of what was left has been sent. What is referred to is let go of as soon as it is.
    pub fn advance(&mut self, len: usize) {
        let mut left = len;
        if let Some(pieces) = &mut self.pieces {
            (self.sent, left) = pieces.advance(self.sent, left);
            if pieces.queue.is_empty() {
                self.pieces = None;
            }
        }
        self.sent += left;
        assert!(self.sent <= self.bytes.len(), "more was sent than there is");
        if self.sent >= SENT_BYTES_KEPT_MAX.max(self.bytes.len() / 2) {
            self.cut_off_sent();
        }
    }

    #[cold]
    fn cut_off_sent(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        self.bytes.drain(..sent);
        if let Some(pieces) = &mut self.pieces {
            pieces.queue.iter_mut().for_each(|piece| piece.at -= sent);
        }
    }

    /// Forgets all but the first `len` of what is left.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        if self.pieces.is_some() {
            self.truncate_pieces(len);
        }
        self.bytes.truncate(self.sent + len - self.shared_len().min(len));
    }

    #[cold]
    fn truncate_pieces(&mut self, len: usize) {
        let Some(pieces) = &mut self.pieces else { return };
        while let Some(last) = pieces.queue.back_mut() {
            let before = last.at - self.sent + pieces.shared_len - last.range.len();
            if before < len {
                let kept = last.range.len().min(len - before);
                pieces.shared_len -= last.range.len() - kept;
                last.range.end = last.range.start + kept;
                return;
            }
            pieces.shared_len -= last.range.len();
            pieces.queue.pop_back();
        }
        self.pieces = None;
    }

    /// Own bytes in `range` become others: pieces behind them move along.
    pub(super) fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        if let Some(pieces) = &mut self.pieces {
            for piece in pieces.queue.iter_mut().rev().take_while(|piece| piece.at >= range.end) {
                piece.at = piece.at - range.len() + bytes.len();
            }
        }
        self.bytes.splice(range, bytes.iter().copied());
    }

    /// Verifies the documented invariants; panics on the first that does not hold.
    pub fn check(&self) {
        assert!(self.sent <= self.bytes.len());
        let Some(pieces) = &self.pieces else { return };
        assert!(!pieces.queue.is_empty(), "invariant 2");
        let mut at = self.sent;
        for piece in &pieces.queue {
            assert!(at <= piece.at && piece.at <= self.bytes.len(), "invariant 1");
            assert!(!piece.range.is_empty() && piece.range.end <= piece.shared.len(), "invariant 2");
            at = piece.at;
        }
        let shared_len: usize = pieces.queue.iter().map(|piece| piece.range.len()).sum();
        assert_eq!(pieces.shared_len, shared_len, "invariant 3");
    }
}

impl Pieces {
    /// `len` bytes have been sent after own bytes up to `sent`. Answers up to where own bytes are sent now, and how
    /// much was sent behind the last piece.
    fn advance(&mut self, mut sent: usize, mut len: usize) -> (usize, usize) {
        while let Some(first) = self.queue.front_mut() {
            let own = first.at - sent;
            if len < own {
                return (sent, len);
            }
            (sent, len) = (first.at, len - own);
            let of_piece = first.range.len().min(len);
            first.range.start += of_piece;
            self.shared_len -= of_piece;
            len -= of_piece;
            if !first.range.is_empty() {
                return (sent, 0);
            }
            self.queue.pop_front();
        }
        (sent, len)
    }
}

#[cfg(test)]
mod tests;
