//! Output of a client: bytes to be sent. Long values are not copied but referenced, and the referenced bytes do not
//! change after the reply was written, whatever happens to the value. Long runs of own bytes become pieces too, so
//! that they do not move when more are written.
//!
//! ```text
//!   bytes    | +OK.. $65536.. | .. $70000.. | .. :1.. |        own bytes, in order; `sent` of them were sent
//!                             ^at           ^at
//!   pieces                 | Arc 0..65536 |  | Arc 0..70000 |  each is sent before the byte at `at`
//!
//!   set aside:  pieces | own | Arc 0..65536 | own | Arc 0..70000 | own |   bytes | .. |   all `at` are 0
//! ```
//!
//! Invariants, verified by [`Output::check`]:
//! 1. `at` does not decrease from piece to piece, and lies in `sent..=bytes.len()`.
//! 2. No piece is empty; `pieces` is `None` if there are none.
//! 3. `shared_len` is the total length of all pieces, `own_len` that of pieces of own bytes.
//! 4. Pieces of own bytes precede all other unsent own bytes.
//! 5. A buffer that was set aside has at most about twice the capacity of its unsent bytes, or is the first piece,
//!    which is being sent. Otherwise discarded replies, of clients that want none, would occupy memory that no limit
//!    counts.
//!
//! Rejected: one buffer that grows by a quarter, which moves each byte of megabytes four times: `GETEX` of 10 KB, 500
//! in a pipeline, took 7.7 and 8.0 us of processor time in place of 4.3 and 5.0; with 4 KB there was no clear
//! difference.
//! Buffers of 64 KB: `GET` and `GETSET` of 10 KB, 60 in a pipeline, took 1.2 to 1.5 times what they take with 32 KB, `GETDEL`
//! 1.04 and 1.15, `GET` of 1 to 16 KB 0.99 to 1.15.

use super::HEADER_LEN_MAX;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bytes shared by a value and the replies that contain it. Growable like the value, which is changed in place only
/// while there is no other reference.
pub type SharedBytes = Arc<Vec<u8>>;

/// Sent bytes are removed from the front when there are this many and they are at least half.
const SENT_BYTES_KEPT_MAX: usize = 64 * 1024;

/// A full buffer of at least this size is set aside, and another one is allocated, so that nothing is moved. It is
/// the largest size that jemalloc caches per thread: longer buffers come from the arena each time.
pub(super) const CHUNK_BYTES: usize = 32 * 1024;

/// Maximum number of bytes that a buffer set aside may lack for headers to be filled in later.
const SPARSE_BYTES_FORGIVEN: usize = 64;

/// Replies and messages in order of sending. Its length is the number of unsent bytes.
#[derive(Debug, Default)]
pub struct Output {
    pub(super) bytes: Vec<u8>,
    sent: usize,
    /// Boxed, because few outputs have pieces and all outputs are moved.
    pieces: Option<Box<Pieces>>,
}

#[derive(Debug, Default)]
struct Pieces {
    queue: VecDeque<Piece>,
    shared_len: usize,
    own_len: usize,
}

#[derive(Debug)]
struct Piece {
    at: usize,
    shared: SharedBytes,
    /// The range to be sent.
    range: Range<usize>,
    /// Whether it was a buffer of own bytes.
    is_own: bool,
}

impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Self {
        Output { bytes, sent: 0, pieces: None }
    }
}

impl Output {
    /// Returns the number of unsent bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.shared_len()
    }

    /// Returns whether there are no unsent bytes, own or referenced.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.pieces.is_none()
    }

    /// Returns the number of unsent bytes outside the buffer.
    #[inline]
    pub fn shared_len(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.shared_len)
    }

    /// Returns the memory, including referenced bytes. A buffer that was set aside counts with its capacity until it
    /// is sent.
    pub fn memory_bytes(&self) -> usize {
        let unused_bytes = self.pieces.as_ref().map_or(0, |pieces| pieces.unused_bytes_of_first());
        self.bytes.capacity() + self.shared_len() + unused_bytes
    }

    /// Returns the capacity for own bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the unsent bytes if none are referenced.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        self.pieces.is_none().then(|| &self.bytes[self.sent..])
    }

    /// Removes the contents and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.sent, self.pieces) = (0, None);
    }

    /// Returns the emptied buffer for reuse.
    pub fn into_spare(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }

    /// Appends a reference to bytes, which must not be empty.
    pub(super) fn push_shared(&mut self, shared: SharedBytes, range: Range<usize>) {
        assert!(!range.is_empty(), "an empty piece is indistinguishable from one that has been sent");
        let pieces = self.pieces.get_or_insert_default();
        pieces.shared_len += range.len();
        pieces.queue.push_back(Piece { at: self.bytes.len(), shared, range, is_own: false });
    }

    /// Returns whether the buffer is long and half of it is unsent, so that it can be set aside as it is.
    pub(super) fn is_worth_setting_aside(&self) -> bool {
        self.bytes.capacity() >= CHUNK_BYTES && !self.is_sparse()
    }

    fn is_sparse(&self) -> bool {
        self.bytes.len() - self.sent < self.bytes.capacity() / 2
    }

    /// Frees the capacity of a long buffer with few unsent bytes, since limits count only unsent bytes.
    pub fn shrink_if_sparse(&mut self) {
        if self.bytes.capacity() >= CHUNK_BYTES && self.is_sparse() {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.sent > 0 {
            self.cut_off_sent();
        }
        self.bytes.shrink_to_fit();
    }

    /// Sets all own bytes aside, which leaves an empty buffer without capacity.
    #[cold]
    pub(super) fn set_aside(&mut self) {
        if self.sent > 0 {
            self.cut_off_sent();
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let pieces = self.pieces.get_or_insert_default();
        let among = pieces.queue.partition_point(|piece| piece.at == 0);
        let mut among = pieces.queue.split_off(among);
        // Bytes after the last reference become a piece of their own, so that the headers of open aggregates are
        // filled in in place.
        let behind = among.back().map(|last| bytes.split_off(last.at));
        if behind.is_some() {
            bytes.shrink_to_fit();
        }
        let (bytes, mut from) = (SharedBytes::new(bytes), 0);
        for piece in among.drain(..) {
            pieces.push_own(&bytes, std::mem::replace(&mut from, piece.at)..piece.at);
            pieces.queue.push_back(Piece { at: 0, ..piece });
        }
        let last = behind.map_or(bytes, SharedBytes::new);
        pieces.push_own(&last, 0..last.len());
        self.pieces.take_if(|pieces| pieces.queue.is_empty());
    }

    /// Returns the unsent byte at this offset.
    pub(super) fn byte_at(&self, position: usize) -> Option<u8> {
        let last_piece = self.pieces.as_ref().and_then(|pieces| pieces.queue.back());
        let behind_pieces = &self.bytes[last_piece.map_or(self.sent, |piece| piece.at)..];
        // Usually the byte was just written.
        if let Some(index) = position.checked_sub(self.len() - behind_pieces.len()) {
            return behind_pieces.get(index).copied();
        }
        let mut left = position;
        self.runs().find_map(|run| {
            let byte = run.get(left).copied();
            left = left.saturating_sub(run.len());
            byte
        })
    }

    /// Returns the position of the next own byte among the unsent ones, for [`Self::replace`].
    #[inline]
    pub(super) fn own_position(&self) -> usize {
        self.own_len() + self.bytes.len() - self.sent
    }

    #[inline]
    fn own_len(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.own_len)
    }

    /// Appends the unsent bytes of another output.
    pub fn append(&mut self, other: Output) {
        if let Some(more) = other.pieces {
            if more.own_len > 0 {
                self.shrink();
                self.set_aside();
            }
            let shift = |at: usize| at - other.sent + self.bytes.len();
            let pieces = self.pieces.get_or_insert_default();
            pieces.shared_len += more.shared_len;
            pieces.own_len += more.own_len;
            pieces.queue.extend(more.queue.into_iter().map(|piece| Piece { at: shift(piece.at), ..piece }));
        }
        self.bytes.extend_from_slice(&other.bytes[other.sent..]);
    }

    /// Returns the unsent bytes as consecutive slices, none of which is empty.
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

    /// Fills `slices` with the first slices, for one gathering write, and returns their number.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        slices.iter_mut().zip(self.runs()).map(|(slice, run)| *slice = IoSlice::new(run)).count()
    }

    /// Copies the unsent bytes from `start` on.
    pub fn copy_from(&self, start: usize) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len().saturating_sub(start));
        let mut skipped = start;
        for run in self.runs() {
            copy.extend_from_slice(&run[skipped.min(run.len())..]);
            skipped = skipped.saturating_sub(run.len());
        }
        copy
    }

    /// Records that `count` bytes were sent. References to sent pieces are dropped.
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

    /// Truncates the unsent bytes to `len`.
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
        let own_len = pieces.own_len;
        pieces.truncate(self.sent, len);
        if pieces.own_len < own_len {
            self.bytes.truncate(self.sent);
            self.take_back_if_sparse();
        }
        self.pieces.take_if(|pieces| pieces.queue.is_empty());
    }

    /// Invariant 5: the unsent bytes of the last buffer set aside are too few for its capacity, and move to the
    /// current buffer, which is empty.
    fn take_back_if_sparse(&mut self) {
        let Some(pieces) = &mut self.pieces else { return };
        let Some(index) = pieces.sparse_from() else { return };
        for piece in pieces.queue.split_off(index) {
            if piece.is_own {
                pieces.forget(piece.range.len(), true);
                self.bytes.extend_from_slice(&piece.shared[piece.range]);
            } else {
                pieces.queue.push_back(Piece { at: self.bytes.len(), ..piece });
            }
        }
    }

    /// Replaces `len` own bytes, which were written together at this [`Self::own_position`]. Later pieces move along.
    pub(super) fn replace(&mut self, position: usize, len: usize, bytes: &[u8]) {
        let Some(start) = position.checked_sub(self.own_len()) else {
            let pieces = self.pieces.as_mut().expect("what is not in the buffer was set aside");
            return pieces.replace(position, len, bytes);
        };
        let range = self.sent + start..self.sent + start + len;
        if bytes.len() == len {
            return self.bytes[range].copy_from_slice(bytes);
        }
        if let Some(pieces) = &mut self.pieces {
            for piece in pieces.queue.iter_mut().rev().take_while(|piece| piece.at >= range.end) {
                piece.at = piece.at - len + bytes.len();
            }
        }
        self.bytes.splice(range, bytes.iter().copied());
    }

    /// Verifies the invariants; panics on the first violation.
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
        let own = || pieces.queue.iter().filter(|piece| piece.is_own);
        let len_of = |piece: &Piece| piece.range.len();
        assert_eq!(pieces.shared_len, pieces.queue.iter().map(len_of).sum(), "invariant 3");
        assert_eq!(pieces.own_len, own().map(len_of).sum(), "invariant 3");
        assert!(own().all(|piece| piece.at == self.sent), "invariant 4");
        let buffers = || own().filter(|piece| piece.is_of_buffer());
        for part in buffers() {
            let is_of_same = |piece: &&Piece| SharedBytes::ptr_eq(&piece.shared, &part.shared);
            // Filled-in headers are separate pieces.
            let own_len = own().filter(is_of_same).map(len_of).sum::<usize>() + SPARSE_BYTES_FORGIVEN;
            let is_first = buffers().next().is_some_and(|piece| is_of_same(&piece));
            assert!(is_first || part.shared.capacity() <= 2 * own_len, "invariant 5");
        }
    }
}

impl Piece {
    /// Returns whether the piece is a buffer that was set aside, not a filled-in header, which is among the parts of
    /// a buffer.
    fn is_of_buffer(&self) -> bool {
        self.is_own && self.shared.capacity() > HEADER_LEN_MAX
    }
}

impl Pieces {
    fn push_own(&mut self, bytes: &SharedBytes, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.shared_len += range.len();
        self.own_len += range.len();
        self.queue.push_back(Piece { at: 0, shared: SharedBytes::clone(bytes), range, is_own: true });
    }

    /// Returns the capacity that is not, or no longer, to be sent of the first buffer set aside.
    fn unused_bytes_of_first(&self) -> usize {
        if self.own_len == 0 {
            return 0;
        }
        let mut buffers = self.queue.iter().filter(|piece| piece.is_of_buffer());
        let Some(first) = buffers.next() else { return 0 };
        let others = buffers.take_while(|piece| SharedBytes::ptr_eq(&piece.shared, &first.shared));
        let len = first.range.len() + others.map(|piece| piece.range.len()).sum::<usize>();
        first.shared.capacity() - len
    }

    /// Removes this number of bytes from the front of a piece.
    fn forget(&mut self, len: usize, is_own: bool) {
        self.shared_len -= len;
        self.own_len -= if is_own { len } else { 0 };
    }

    /// Removes everything after the first `len` bytes, counting own bytes from `sent` on.
    fn truncate(&mut self, sent: usize, len: usize) {
        while let Some(last) = self.queue.back_mut() {
            let before = last.at - sent + self.shared_len - last.range.len();
            let kept = last.range.len().min(len.saturating_sub(before));
            let (cut, is_own) = (last.range.len() - kept, last.is_own);
            last.range.end = last.range.start + kept;
            self.forget(cut, is_own);
            if kept > 0 {
                break;
            }
            self.queue.pop_back();
        }
    }

    /// Returns the start of the last buffer set aside, if less than half of its capacity is unsent.
    fn sparse_from(&self) -> Option<usize> {
        let last = &self.queue.iter().rfind(|piece| piece.is_of_buffer())?.shared;
        let is_other = |piece: &Piece| piece.is_of_buffer() && !SharedBytes::ptr_eq(&piece.shared, last);
        let from = self.queue.iter().rposition(is_other).map_or(0, |index| index + 1);
        let own_len: usize =
            self.queue.range(from..).filter(|piece| piece.is_own).map(|piece| piece.range.len()).sum();
        (own_len < last.capacity() / 2).then_some(from)
    }

    /// See [`Output::replace`]. A piece is split if it shares its bytes with others.
    #[cold]
    fn replace(&mut self, position: usize, len: usize, bytes: &[u8]) {
        let mut start = self.own_len;
        let found = self.queue.iter().rposition(|piece| {
            start -= if piece.is_own { piece.range.len() } else { 0 };
            piece.is_own && start <= position
        });
        let index = found.expect("own bytes are in some piece");
        let piece = &mut self.queue[index];
        let at = piece.range.start + position - start;
        assert!(at + len <= piece.range.end, "what was written at once lies together");
        self.shared_len = self.shared_len - len + bytes.len();
        self.own_len = self.own_len - len + bytes.len();
        if let Some(buffer) = SharedBytes::get_mut(&mut piece.shared) {
            piece.range.end = piece.range.end - len + bytes.len();
            buffer.reserve_exact(bytes.len().saturating_sub(len));
            buffer.splice(at..at + len, bytes.iter().copied());
            return;
        }
        let piece = self.queue.remove(index).expect("it has just been found");
        let before =
            Piece { shared: SharedBytes::clone(&piece.shared), range: piece.range.start..at, ..piece };
        let replaced = Piece { shared: SharedBytes::new(bytes.to_vec()), range: 0..bytes.len(), ..piece };
        let behind = Piece { range: at + len..piece.range.end, ..piece };
        for part in [behind, replaced, before] {
            if !part.range.is_empty() {
                self.queue.insert(index, part);
            }
        }
    }

    /// Computes the result of sending `len` bytes when own bytes up to `sent` were sent: the new `sent`, and the
    /// number of bytes sent after the last piece.
    fn advance(&mut self, mut sent: usize, mut len: usize) -> (usize, usize) {
        while let Some(first) = self.queue.front_mut() {
            let own = first.at - sent;
            if len < own {
                return (sent, len);
            }
            (sent, len) = (first.at, len - own);
            let of_piece = first.range.len().min(len);
            first.range.start += of_piece;
            len -= of_piece;
            let (is_own, is_left) = (first.is_own, !first.range.is_empty());
            self.forget(of_piece, is_own);
            if is_left {
                return (sent, 0);
            }
            self.queue.pop_front();
        }
        (sent, len)
    }
}

#[cfg(test)]
mod tests;
