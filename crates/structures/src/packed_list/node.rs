//! A node of a packed list: records in a buffer with room at either end, or one large element; either may be compressed.
//!
//! ```text
//!  records:     | gap | record | record | ... | record | gap | restart point k | ... | restart point 1 | restart point 0 |
//!                start                                end      u16 each, little-endian
//!  plain:       | the element |
//!  compressed:  | LZF of the records, or u32 length and LZF of the element |
//! ```
//!
//!  headed:      | header | gap | record | ... | record | gap | restart point k | ... | restart point 0 |
//!               └ start u16, end u16, count u16, phase u5 and capacity / 8 u11: all else that a node is
//!
//! A node that is its list's only one, and holds records, is *headed* while it is not in use: one allocation
//! ([`super::single`]).
//!
//! A record is a listpack element without its backlen. A *restart point* is the offset of a record, kept for every 32nd:
//! record `i` has one when `(i + phase) % 32 == 0`. Restart points make any record, the last one too, reachable in at most
//! 31 steps; `phase` allows adding and removing records at the front without renumbering.
//!
//! Invariants:
//! 1. Records: `start <= end <= bytes.len() - 2 * restarts`, and `bytes.len() <= 65,535`; exactly `count >= 1` well-formed
//!    records fill `start..end`; each restart point is the offset of its record. Removing records or restart points keeps
//!    room for a header if there was some, and so does adding them in a node that may be that large.
//! 2. Plain: `count == 1`, the buffer is the element exactly.
//! 3. Compressed: the expanded contents satisfy 1 or 2; `end` is the length of the records; they had at least 48 bytes and
//!    lost at least 8.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#packed-lists).

use crate::listpack::Element;
use crate::listpack::encoding::{Encoded, decode, element_size};
use crate::lzf;
use crate::prefetch::{prefetch, prefetch_bytes};
use crate::size_class::{size_class, usable_size};

/// Number of records from one restart point to the next.
pub(super) const RESTART_INTERVAL: usize = 32;
const RESTART_BYTES: usize = 2;
/// The largest buffer of records: with one byte more, the end of the last record would not fit 16 bits when no restart
/// point follows it.
const BUFFER_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes in front of the records of a headed node.
pub(super) const HEADER_BYTES: usize = 8;
/// Larger buffers are not headed: the saving would be small in proportion.
const HEADED_BYTES_MAX: usize = 8192;
const PHASE_BITS: u32 = RESTART_INTERVAL.ilog2();
/// Initial buffer size of a new node of records.
const FIRST_BYTES: usize = 64;
/// Fewer bytes, and smaller gains, are not worth compressing.
const COMPRESS_BYTES_MIN: usize = 48;
const COMPRESS_GAIN_MIN: usize = 8;

/// The size limits of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Records and restart points together; below 64 KiB, so that offsets fit 16 bits.
    pub bytes: u16,
    /// Number of records.
    pub entries: u16,
}

impl Limits {
    #[inline]
    fn bytes(self) -> usize {
        self.bytes.into()
    }

    #[inline]
    fn entries(self) -> usize {
        self.entries.into()
    }
}

/// Bytes and number of records, for merging nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    bytes: usize,
    entries: usize,
}

impl Share {
    /// The sum of both, if it makes a node that is at most three quarters full.
    pub fn with(self, other: Share, limits: Limits) -> Option<Share> {
        let sum = Share { bytes: self.bytes + other.bytes, entries: self.entries + other.entries };
        let bytes = sum.bytes + restarts_of(sum.entries, 0) * RESTART_BYTES;
        (sum.entries <= limits.entries() && bytes <= limits.bytes() / 4 * 3).then_some(sum)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Records,
    Plain,
    CompressedRecords,
    CompressedPlain,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

#[derive(Clone)]
pub(super) struct Node {
    bytes: Box<[u8]>,
    start: u16,
    end: u16,
    count: u16,
    phase: u8,
    encoding: Encoding,
}

const _: () = assert!(size_of::<Node>() == 24);

/// The records of a node, readable whether or not it is compressed.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    /// Offset of the first record.
    pub start: usize,
    /// End of the last record.
    pub end: usize,
    /// Number of records.
    pub count: usize,
    phase: usize,
    /// Whether the restart points are at the end of `bytes`.
    has_restart: bool,
}

/// The contents of a node, for reading.
pub(super) enum View<'a> {
    Records(Records<'a>),
    Plain(&'a [u8]),
}

/// The buffer size for this number of bytes of records and restart points: a size class, within the range of offsets.
#[inline]
fn buffer_bytes(needed: usize) -> usize {
    debug_assert!(needed <= BUFFER_BYTES_MAX);
    size_class(needed).min(BUFFER_BYTES_MAX)
}

/// The length of the buffer that has this header.
#[inline]
pub(super) fn headed_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_le_bytes([header[6], header[7]]) >> PHASE_BITS) * 8
}

/// Where to start records of `needed` bytes, restart points included: behind room for a header if that costs nothing.
#[inline]
fn first_start(needed: usize) -> usize {
    let headed = needed + HEADER_BYTES;
    if headed <= BUFFER_BYTES_MAX && buffer_bytes(headed) == buffer_bytes(needed) { HEADER_BYTES } else { 0 }
}

#[inline]
fn restarts_of(count: usize, phase: usize) -> usize {
    (phase + count).div_ceil(RESTART_INTERVAL) - phase.div_ceil(RESTART_INTERVAL)
}

#[inline]
fn restart(bytes: &[u8], nth: usize) -> usize {
    let at = bytes.len() - RESTART_BYTES * (nth + 1);
    u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize
}

#[inline]
fn set_restart(bytes: &mut [u8], nth: usize, to: usize) {
    let at = bytes.len() - RESTART_BYTES * (nth + 1);
    bytes[at..at + RESTART_BYTES].copy_from_slice(&(to as u16).to_le_bytes());
}

impl<'a> Records<'a> {
    /// `count` records that fill `bytes` from `start` on.
    #[inline]
    pub fn between(bytes: &'a [u8], start: usize, count: usize) -> Self {
        Records { bytes, start, end: bytes.len(), count, phase: 0, has_restart: false }
    }

    /// The records of a headed node.
    #[inline]
    pub fn headed(bytes: &'a [u8]) -> Self {
        let header = u64::from_le_bytes(*bytes.first_chunk().expect("a headed node has a header"));
        let field = |nth: u32| usize::from((header >> (16 * nth)) as u16);
        let phase = field(3) % RESTART_INTERVAL;
        Records { bytes, start: field(0), end: field(1), count: field(2), phase, has_restart: true }
    }

    /// The bytes of all records, one behind the other.
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.start..self.end]
    }

    /// The offset of record `index`.
    #[inline]
    pub fn seek(&self, index: usize) -> usize {
        let first_restart = (RESTART_INTERVAL - self.phase) % RESTART_INTERVAL;
        let (mut at, steps) = if self.has_restart && index >= first_restart {
            let past = index - first_restart;
            (restart(self.bytes, past / RESTART_INTERVAL), past % RESTART_INTERVAL)
        } else {
            (self.start, index)
        };
        for _ in 0..steps {
            at += element_size(self.bytes, at);
        }
        at
    }

    /// The element at offset `at`.
    #[inline]
    pub fn element(&self, at: usize) -> Element<'a> {
        decode(self.bytes, at).0
    }

    /// The element at `at` and the offset of the next.
    #[inline]
    pub fn step(&self, at: usize) -> (Element<'a>, usize) {
        let (element, size) = decode(self.bytes, at);
        (element, at + size)
    }

    /// The offset behind the record at `at`.
    #[inline(always)]
    pub fn after(&self, at: usize) -> usize {
        at + element_size(self.bytes, at)
    }

    /// Returns whether the record at `at` is `needle`.
    #[inline(always)]
    pub fn is_at(&self, needle: &Encoded<'_>, at: usize) -> bool {
        needle.is_at(self.bytes, at)
    }
}

impl Node {
    /// Creates a node of one record.
    pub fn new(element: &Encoded<'_>, limits: Limits) -> Node {
        let mut node = Node::empty(buffer_bytes((element.size() + RESTART_BYTES).max(FIRST_BYTES)));
        let pushed = node.push_back(element, limits);
        assert!(pushed, "callers store large elements as plain nodes");
        node
    }

    fn empty(capacity: usize) -> Node {
        Node::of(vec![0; capacity].into_boxed_slice(), Encoding::Records)
    }

    fn of(bytes: Box<[u8]>, encoding: Encoding) -> Node {
        Node { bytes, start: 0, end: 0, count: 0, phase: 0, encoding }
    }

    /// Creates a node from its [buffer alone](Node::into_headed).
    #[inline]
    pub fn from_headed(bytes: Box<[u8]>) -> Node {
        let Records { start, end, count, phase, .. } = Records::headed(&bytes);
        let (start, end, count, phase) = (start as u16, end as u16, count as u16, phase as u8);
        Node { bytes, start, end, count, phase, encoding: Encoding::Records }
    }

    /// Returns whether the node can be headed, for which its records may be moved within the buffer.
    #[inline]
    pub fn can_be_headed(&self) -> bool {
        let capacity = self.bytes.len();
        let needed = HEADER_BYTES + self.used() + self.restarts() * RESTART_BYTES;
        self.is_records() && needed <= capacity && capacity <= HEADED_BYTES_MAX
    }

    /// The buffer, with the rest of the node's state in its first bytes.
    #[inline]
    pub fn into_headed(mut self) -> Box<[u8]> {
        debug_assert!(self.can_be_headed() && size_class(self.bytes.len()) == self.bytes.len());
        if (self.start as usize) < HEADER_BYTES {
            self.move_to(self.bytes.len(), HEADER_BYTES);
        }
        let last = (self.bytes.len() as u64 / 8) << PHASE_BITS | u64::from(self.phase);
        let [start, end, count] = [self.start, self.end, self.count].map(u64::from);
        let header = start | end << 16 | count << 32 | last << 48;
        *self.bytes.first_chunk_mut().expect("the node has room for a header") = header.to_le_bytes();
        self.bytes
    }

    /// Room for a header, if there is any, which is to be kept.
    #[inline]
    fn header_room(&self) -> usize {
        if self.start as usize >= HEADER_BYTES { HEADER_BYTES } else { 0 }
    }

    /// Creates a node of one large element.
    pub fn plain(element: &[u8]) -> Node {
        Node { count: 1, ..Node::of(element.into(), Encoding::Plain) }
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        usable_size(self.bytes.len())
    }

    /// The buffer's length.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Prefetches the first `bytes` bytes of the buffer.
    #[inline]
    pub fn prefetch_first(&self, bytes: usize) {
        prefetch_bytes(&self.bytes[..bytes.min(self.bytes.len())]);
    }

    /// Prefetches the line where the first record starts or the last one ends.
    pub fn prefetch_end(&self, front: bool) {
        let at = if front { self.start } else { self.end };
        if let Some(byte) = self.bytes.get(at as usize) {
            prefetch(byte);
        }
    }

    /// Returns whether the node holds records, uncompressed.
    #[inline]
    pub fn is_records(&self) -> bool {
        self.encoding == Encoding::Records
    }

    /// Returns whether the node holds one large element.
    pub fn is_plain(&self) -> bool {
        matches!(self.encoding, Encoding::Plain | Encoding::CompressedPlain)
    }

    /// Returns whether the node is compressed.
    pub fn is_compressed(&self) -> bool {
        matches!(self.encoding, Encoding::CompressedRecords | Encoding::CompressedPlain)
    }

    /// Bytes of the records, or of the large element.
    pub fn used(&self) -> usize {
        match self.encoding {
            Encoding::Plain | Encoding::CompressedPlain => self.bytes.len(),
            Encoding::Records | Encoding::CompressedRecords => self.end as usize - self.start as usize,
        }
    }

    fn restarts(&self) -> usize {
        restarts_of(self.count(), self.phase as usize)
    }

    /// The records, which must not be compressed.
    #[inline]
    pub fn records(&self) -> Records<'_> {
        debug_assert!(self.is_records());
        Records {
            bytes: &self.bytes,
            start: self.start as usize,
            end: self.end as usize,
            count: self.count(),
            phase: self.phase as usize,
            has_restart: true,
        }
    }

    /// The records that [`Node::view`] expanded into `bytes`.
    pub fn expanded_records<'a>(&self, bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, start: 0, end: self.end as usize, count: self.count(), phase: 0, has_restart: false }
    }

    /// The element of a plain node that is not compressed.
    pub fn plain_bytes(&self) -> &[u8] {
        debug_assert!(self.encoding == Encoding::Plain);
        &self.bytes
    }

    /// The contents of the node, expanded into `scratch` if compressed.
    pub fn view<'a>(&'a self, scratch: &'a mut Vec<u8>) -> View<'a> {
        match self.encoding {
            Encoding::Records => View::Records(self.records()),
            Encoding::Plain => View::Plain(&self.bytes),
            Encoding::CompressedRecords => {
                self.expand_into(scratch);
                View::Records(self.expanded_records(scratch))
            }
            Encoding::CompressedPlain => {
                self.expand_into(scratch);
                View::Plain(scratch)
            }
        }
    }

    /// Returns whether the buffer has room for a record of `size` bytes at an end, and for one more restart point, without
    /// moving others.
    #[inline]
    pub fn has_room(&self, front: bool, size: usize) -> bool {
        let behind = self.bytes.len() - self.end as usize - self.restarts() * RESTART_BYTES;
        if front {
            self.start as usize >= size + HEADER_BYTES && behind >= RESTART_BYTES
        } else {
            behind >= size + RESTART_BYTES
        }
    }

    /// Appends a record; returns false if the node is full.
    #[inline]
    pub fn push_back(&mut self, element: &Encoded<'_>, limits: Limits) -> bool {
        let (size, restarts) = (element.size(), self.restarts());
        let has_restart = (self.count() + self.phase as usize).is_multiple_of(RESTART_INTERVAL);
        let extra = size + has_restart as usize * RESTART_BYTES;
        if self.count() >= limits.entries() || self.used() + restarts * RESTART_BYTES + extra > limits.bytes()
        {
            return false;
        }
        if self.end as usize + restarts * RESTART_BYTES + extra > self.bytes.len()
            && !self.make_room(Side::Back, size, has_restart as usize, limits)
        {
            return false;
        }
        let end = self.end as usize;
        element.write(&mut self.bytes[end..]);
        if has_restart {
            set_restart(&mut self.bytes, restarts, end);
        }
        self.end = (end + size) as u16;
        self.count += 1;
        true
    }

    /// Prepends a record; returns false if the node is full.
    #[inline]
    pub fn push_front(&mut self, element: &Encoded<'_>, limits: Limits) -> bool {
        let (size, restarts) = (element.size(), self.restarts());
        let phase = (self.phase as usize + RESTART_INTERVAL - 1) % RESTART_INTERVAL;
        let has_restart = phase == 0;
        let extra = size + has_restart as usize * RESTART_BYTES;
        if self.count() >= limits.entries() || self.used() + restarts * RESTART_BYTES + extra > limits.bytes()
        {
            return false;
        }
        let no_restart_room = self.end as usize + (restarts + 1) * RESTART_BYTES > self.bytes.len();
        if ((self.start as usize) < size + self.header_room() || (has_restart && no_restart_room))
            && !self.make_room(Side::Front, size, has_restart as usize, limits)
        {
            return false;
        }
        let start = self.start as usize - size;
        element.write(&mut self.bytes[start..]);
        if has_restart {
            let len = self.bytes.len();
            self.bytes.copy_within(len - restarts * RESTART_BYTES.., len - (restarts + 1) * RESTART_BYTES);
            set_restart(&mut self.bytes, 0, start);
        }
        self.start = start as u16;
        self.phase = phase as u8;
        self.count += 1;
        true
    }

    /// Makes room for a record of `size` bytes at one side and for `new_restarts`, by sliding the records or by growing.
    /// The other side keeps at most an eighth of the free bytes, so that alternating pushes at both ends stay cheap. Room
    /// for a header stays unless the node becomes too full for it.
    #[cold]
    fn make_room(&mut self, side: Side, size: usize, new_restarts: usize, limits: Limits) -> bool {
        let capacity = self.bytes.len();
        let restarts_bytes = (self.restarts() + new_restarts) * RESTART_BYTES;
        let needed = self.used() + size + restarts_bytes;
        let header = self.header_room().min(limits.bytes().max(capacity).saturating_sub(needed));
        let needed = needed + header;
        let mut wanted = capacity;
        if needed > capacity - capacity / 8 {
            // To the size class after this one.
            let grown = needed.max(capacity + 1).min(BUFFER_BYTES_MAX);
            wanted = buffer_bytes(grown).min(limits.bytes().max(capacity));
            if wanted == capacity && needed > capacity - capacity / 16 {
                // Sliding kilobytes for each push would cost more than closing the node early.
                return false;
            }
        }
        let free = wanted - needed;
        let start = match side {
            Side::Back => (self.start as usize).min(free / 8).max(header),
            Side::Front => {
                // Restart points grow down from the end: leave room for those of the records that will fill the free bytes.
                let coming = free * (self.count() + 1) / (self.used() + size) / RESTART_INTERVAL + 1;
                let gap = (capacity - restarts_bytes.min(capacity)).saturating_sub(self.end as usize);
                wanted - restarts_bytes - self.used() - gap.max(coming * RESTART_BYTES).min(free / 8)
            }
        };
        self.move_to(wanted, start);
        true
    }

    /// Moves the records to `start` in a buffer of `capacity` bytes, and the restart points to its end.
    fn move_to(&mut self, capacity: usize, start: usize) {
        let (old_start, old_end, restarts) = (self.start as usize, self.end as usize, self.restarts());
        if capacity == self.bytes.len() {
            self.bytes.copy_within(old_start..old_end, start);
        } else {
            let mut bytes = vec![0; capacity].into_boxed_slice();
            bytes[start..start + old_end - old_start].copy_from_slice(&self.bytes[old_start..old_end]);
            let from = self.bytes.len() - restarts * RESTART_BYTES;
            bytes[capacity - restarts * RESTART_BYTES..].copy_from_slice(&self.bytes[from..]);
            self.bytes = bytes;
        }
        for nth in 0..restarts {
            let moved = restart(&self.bytes, nth) + start - old_start;
            set_restart(&mut self.bytes, nth, moved);
        }
        self.end = (start + old_end - old_start) as u16;
        self.start = start as u16;
    }

    /// Frees slack that the allocator can reuse.
    pub fn trim(&mut self) {
        if self.encoding == Encoding::Records {
            let capacity = buffer_bytes(self.used() + self.restarts() * RESTART_BYTES);
            if capacity < self.bytes.len() {
                self.move_to(capacity, 0);
            }
        }
    }

    /// After pops: halves a buffer that is three quarters empty.
    fn shrink_if_sparse(&mut self) {
        let needed = self.used() + self.restarts() * RESTART_BYTES;
        if self.count > 0 && needed * 4 < self.bytes.len() && self.bytes.len() > FIRST_BYTES {
            self.move_to(buffer_bytes((needed * 2).max(FIRST_BYTES)), self.header_room());
        }
    }

    /// Removes the first record; the node may become empty.
    pub fn drop_front(&mut self) {
        let to = self.start as usize + element_size(&self.bytes, self.start as usize);
        self.drop_front_to(to, 1);
    }

    /// Removes the first `count` records; the one behind them starts at `to`.
    #[inline]
    fn drop_front_to(&mut self, to: usize, count: usize) {
        let phase = self.phase as usize;
        let gone = restarts_of(count, phase) * RESTART_BYTES;
        if gone > 0 {
            let len = self.bytes.len();
            let low = len - self.restarts() * RESTART_BYTES;
            self.bytes.copy_within(low..len - gone, low + gone);
        }
        self.phase = ((phase + count) % RESTART_INTERVAL) as u8;
        self.start = to as u16;
        self.count -= count as u16;
        self.shrink_if_sparse();
    }

    /// Removes the last record, which starts at `at`; the node may become empty.
    pub fn drop_back(&mut self, at: usize) {
        self.drop_back_from(at, 1);
    }

    /// Removes the last `count` records, the first of which starts at `at`.
    #[inline]
    fn drop_back_from(&mut self, at: usize, count: usize) {
        self.end = at as u16;
        self.count -= count as u16;
        self.shrink_if_sparse();
    }

    /// Inserts before record `index`; returns false if the node is full.
    pub fn insert(&mut self, index: usize, element: &Encoded<'_>, limits: Limits) -> bool {
        if index == self.count() {
            return self.push_back(element, limits);
        }
        if index == 0 {
            return self.push_front(element, limits);
        }
        let (size, room) = (element.size(), self.restarts() * RESTART_BYTES + element.size() + RESTART_BYTES);
        if self.count() >= limits.entries() || self.used() + room > limits.bytes() {
            return false;
        }
        if self.end as usize + room > self.bytes.len() && !self.make_room(Side::Back, size, 1, limits) {
            return false;
        }
        let at = self.records().seek(index);
        self.bytes.copy_within(at..self.end as usize, at + size);
        element.write(&mut self.bytes[at..]);
        self.end += size as u16;
        self.count += 1;
        self.rebuild_marks();
        true
    }

    /// Replaces record `index`; returns false, with nothing changed, if the new one does not fit.
    pub fn replace(&mut self, index: usize, element: &Encoded<'_>, limits: Limits) -> bool {
        let at = self.records().seek(index);
        let (old, new) = (element_size(&self.bytes, at), element.size());
        if new > old {
            let (grown, restarts) = (new - old, self.restarts() * RESTART_BYTES);
            let needed = self.used() + restarts + grown;
            if needed > limits.bytes() {
                return false;
            }
            if self.end as usize + restarts + grown > self.bytes.len() {
                // No larger: short elements are often replaced by longer ones repeatedly.
                let header = self.header_room().min(limits.bytes() - needed);
                let capacity = buffer_bytes(needed + header).min(limits.bytes());
                self.move_to(capacity.max(self.bytes.len()), header);
            }
        }
        // Making room may have moved the record.
        let at = self.records().seek(index);
        if old != new {
            self.bytes.copy_within(at + old..self.end as usize, at + new);
            self.end = (self.end as usize + new - old) as u16;
            for nth in 0..self.restarts() {
                let start = restart(&self.bytes, nth);
                if start > at {
                    set_restart(&mut self.bytes, nth, start + new - old);
                }
            }
        }
        element.write(&mut self.bytes[at..]);
        true
    }

    /// Removes `count` records from `index` on.
    pub fn remove(&mut self, index: usize, count: usize) {
        let from = self.records().seek(index);
        if index + count == self.count() {
            return self.drop_back_from(from, count);
        }
        let to = self.records().seek(index + count);
        if index == 0 {
            return self.drop_front_to(to, count);
        }
        self.bytes.copy_within(to..self.end as usize, from);
        self.end -= (to - from) as u16;
        self.count -= count as u16;
        self.rebuild_marks();
        self.shrink_if_sparse();
    }

    /// Removes the records whose indexes are in `sorted`.
    pub fn remove_each(&mut self, sorted: &[u16]) {
        let Some(&first) = sorted.first() else { return };
        let mut to = self.records().seek(first as usize);
        let (mut at, mut gone) = (to, 0);
        for index in first..self.count {
            let size = element_size(&self.bytes, at);
            if sorted.get(gone) == Some(&index) {
                gone += 1;
            } else {
                self.bytes.copy_within(at..at + size, to);
                to += size;
            }
            at += size;
        }
        self.end = to as u16;
        self.count -= gone as u16;
        self.rebuild_marks();
        self.shrink_if_sparse();
    }

    /// Moves the records from `index` on to a node of their own. Both keep at least one.
    pub fn split_off(&mut self, index: usize) -> Node {
        let at = self.records().seek(index);
        let phase = (self.phase as usize + index) % RESTART_INTERVAL;
        let tail = Node::from_records(&self.bytes[at..self.end as usize], self.count() - index, phase);
        self.end = at as u16;
        self.count = index as u16;
        tail
    }

    /// Records from another node keep their `phase`: with another one they might need a restart point more than there is
    /// room for.
    pub fn from_records(records: &[u8], count: usize, phase: usize) -> Node {
        let mut node = Node::of_records(records, restarts_of(count, phase), count);
        node.phase = phase as u8;
        node.rebuild_marks();
        node
    }

    /// As [`Node::from_records`], with the restart points of records that begin at `phase` 0, counted from the first
    /// record.
    pub fn from_parts(records: &[u8], restarts: &[u16], count: usize) -> Node {
        debug_assert_eq!(restarts.len(), restarts_of(count, 0));
        let mut node = Node::of_records(records, restarts.len(), count);
        for (nth, &place) in restarts.iter().enumerate() {
            set_restart(&mut node.bytes, nth, (place + node.start).into());
        }
        node
    }

    /// A node of these records, with room for this number of restart points.
    fn of_records(records: &[u8], restarts: usize, count: usize) -> Node {
        let needed = records.len() + restarts * RESTART_BYTES;
        let start = first_start(needed);
        let mut node = Node::empty(buffer_bytes(needed + start));
        let end = start + records.len();
        node.bytes[start..end].copy_from_slice(records);
        (node.start, node.end, node.count) = (start as u16, end as u16, count as u16);
        node
    }

    /// The node's share in a merged node, if it may be merged at all.
    pub fn share(&self) -> Option<Share> {
        (!self.is_plain()).then(|| Share { bytes: self.used(), entries: self.count() })
    }

    /// Merges the records of all nodes, none of them compressed.
    pub fn joined<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) -> Node {
        let records = |node: &'a Node| &node.bytes[node.start as usize..node.end as usize];
        let all: Vec<&[u8]> = nodes.clone().map(records).collect();
        Node::from_records(&all.concat(), nodes.map(Node::count).sum(), 0)
    }

    /// A node without elements, as a placeholder outside of lists.
    pub fn gone() -> Node {
        Node::empty(0)
    }

    /// Removes all elements; the caller removes the node from the list.
    pub fn clear(&mut self) {
        *self = Node::gone();
    }

    /// Rewrites every restart point, reading all records; `phase` stays, so there are never more new restart points than
    /// new records.
    fn rebuild_marks(&mut self) {
        let (mut at, mut nth) = (self.start as usize, 0);
        for index in 0..self.count() {
            if (index + self.phase as usize).is_multiple_of(RESTART_INTERVAL) {
                set_restart(&mut self.bytes, nth, at);
                nth += 1;
            }
            at += element_size(&self.bytes, at);
        }
        debug_assert_eq!(at, self.end as usize);
    }

    /// Compresses the contents if that saves enough.
    pub fn compress(&mut self) {
        let (encoding, content): (Encoding, &[u8]) = match self.encoding {
            Encoding::Records => {
                (Encoding::CompressedRecords, &self.bytes[self.start as usize..self.end as usize])
            }
            Encoding::Plain => (Encoding::CompressedPlain, &self.bytes),
            _ => return,
        };
        if content.len() < COMPRESS_BYTES_MIN {
            return;
        }
        let prefix = if encoding == Encoding::CompressedPlain { 4 } else { 0 };
        let mut out = vec![0; content.len() - COMPRESS_GAIN_MIN];
        let room = &mut out[prefix..];
        let made = if content.len() <= 1 << 16 {
            lzf::compress_small(content, room)
        } else {
            lzf::Compressor::new().compress(content, room)
        };
        let Some(made) = made else { return };
        if prefix > 0 {
            let len = u32::try_from(content.len()).expect("the compressor takes less than 4 GiB");
            out[..prefix].copy_from_slice(&len.to_le_bytes());
        }
        out.truncate(prefix + made);
        let records_bytes = if encoding == Encoding::CompressedRecords { self.end - self.start } else { 0 };
        (self.bytes, self.encoding) = (out.into_boxed_slice(), encoding);
        (self.start, self.end) = (0, records_bytes);
    }

    /// Undoes [`Node::compress`].
    pub fn expand(&mut self) {
        match self.encoding {
            Encoding::Records | Encoding::Plain => {}
            Encoding::CompressedRecords => {
                let mut records = Vec::new();
                self.expand_into(&mut records);
                *self = Node::from_records(&records, self.count(), self.phase as usize);
            }
            Encoding::CompressedPlain => {
                let mut element = Vec::new();
                self.expand_into(&mut element);
                *self = Node::plain(&element);
            }
        }
    }

    fn expand_into(&self, out: &mut Vec<u8>) {
        let (compressed, len) = if self.encoding == Encoding::CompressedPlain {
            let (len, compressed) = self.bytes.split_at(4);
            let len = u32::from_le_bytes(len.try_into().expect("split at 4"));
            (compressed, len as usize)
        } else {
            (&self.bytes[..], self.end as usize)
        };
        lzf::decompress_into(compressed, len, out).expect("this node compressed it");
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self, limits: Limits) {
        assert!(self.count >= 1, "no node is empty");
        if self.is_compressed() {
            let mut expanded = self.clone();
            expanded.expand();
            assert!(!expanded.is_compressed());
            expanded.check(limits);
            return;
        }
        if self.is_plain() {
            assert_eq!(self.count, 1);
            return;
        }
        assert!(self.count() <= limits.entries());
        assert!(self.bytes.len() <= BUFFER_BYTES_MAX);
        assert!(self.end as usize + self.restarts() * RESTART_BYTES <= self.bytes.len());
        assert!(self.used() + self.restarts() * RESTART_BYTES <= limits.bytes());
        let (mut at, mut nth) = (self.start as usize, 0);
        for index in 0..self.count() {
            if (index + self.phase as usize).is_multiple_of(RESTART_INTERVAL) {
                assert_eq!(restart(&self.bytes, nth), at);
                nth += 1;
            }
            assert_eq!(self.records().seek(index), at);
            at += element_size(&self.bytes, at);
        }
        assert_eq!((at, nth), (self.end as usize, self.restarts()));
    }
}
