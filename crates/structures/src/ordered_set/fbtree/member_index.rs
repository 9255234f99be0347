//! The member index: maps a member's hash to the leaf that holds it, in about 4.5 bytes a member. A hash table by linear
//! hashing; unlike the textbook's, its buckets are sorted arrays of any length, searched by interpolation.
//!
//! ```text
//! hash:     | reversed: segment | tag (tag_bits)      | not kept                      |
//!             depth bits          4 bytes minus id_bits
//!
//! segment:  | entry | entry | ..     entry u32 = tag << id_bits | leaf id,  ascending by tag
//! ```
//!
//! The top bits of the hash select a segment, by linear hashing ([`LinearHash`]). A segment is a sorted array of the bits
//! that follow. As those are uniform, a lookup computes the expected position of its tag and examines a few entries to
//! either side: one or two cache lines, no empty slots, no probe sequence.
//!
//! Growth splits one segment at a time: the entries whose tag starts with a 1 are the upper part of the array, and lose
//! that bit, which is now part of the segment's number. Shrinking is the reverse. Neither reads a member. Each split costs
//! a tag one bit, and so does each doubling of the leaf ids; when too few are left the segment is rebuilt from the leaves
//! it names.
//!
//! Invariants:
//! 1. Every member of every leaf has exactly one entry, in the segment that its hash selects, with the leaf's id and the
//!    leading `tag_bits` of the hash bits after the segment's `depth`.
//! 2. Entries ascend by tag; among equal tags the order is free.
//! 3. `tag_bits + id_bits <= 32` in each segment.
//! 4. `len` is the number of entries, `entries_bytes` the allocated size of their arrays.
//! 5. All chunks but the last are full and have no spare capacity.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

mod by_tag;
mod rename;

use super::walk::CURSOR_BITS;
use crate::byte_compare::count_below;
use crate::linear_hash::LinearHash;
use crate::prefetch::prefetch;
use crate::size_class::usable_size;
use crate::work;
pub(super) use rename::GONE;

/// Entries a segment has on average before the table grows. Smaller ones move less on insertion, larger ones
/// need fewer segment headers.
const SEGMENT_ENTRIES: usize = 96;
const CHUNK: usize = 256;
/// With fewer bits a tag is too unspecific, and its segment is rebuilt.
const TAG_BITS_MIN: u32 = 4;
/// Entries around the guess that a lookup counts.
const WINDOW: usize = 16;
/// Room for new entries when an array is full.
const GROWTH: usize = 8;

#[derive(Clone, Default)]
struct Segment {
    entries: Vec<u32>,
    tag_bits: u8,
    id_bits: u8,
    /// Number of hash bits that select this segment: the tag consists of those that follow.
    depth: u8,
}

/// The position in the index where a hash was searched.
#[derive(Clone, Copy)]
pub(super) struct Place {
    segment: usize,
    /// The first entry whose tag is not below the hash's.
    at: usize,
}

/// A scan's result: a leaf, and the leading hash bits of its members that are meant.
#[derive(Clone, Copy, Default)]
pub(super) struct Met {
    /// The leaf's id.
    pub leaf: u32,
    /// The hash; only the leading `bits` are meaningful.
    pub hash: u64,
    /// Number of meaningful bits of `hash`.
    pub bits: u32,
    /// Whether exactly one member is meant.
    pub is_only: bool,
}

pub(super) struct MemberIndex {
    chunks: Vec<Vec<Segment>>,
    shape: LinearHash,
    len: usize,
    entries_bytes: usize,
}

impl Clone for MemberIndex {
    /// The clone's arrays have no spare capacity; the sum of their bytes follows.
    fn clone(&self) -> Self {
        let chunks = self.chunks.clone();
        let entries_bytes = chunks.iter().flatten().map(Segment::bytes).sum();
        MemberIndex { chunks, shape: self.shape, len: self.len, entries_bytes }
    }
}

/// The index's access to the tree: appends the hashes of all members of a leaf.
pub(super) type HashesOf<'a> = dyn Fn(u32, &mut Vec<u64>) + 'a;

impl Segment {
    fn new() -> Self {
        Segment { entries: Vec::new(), tag_bits: 31, id_bits: 1, depth: 0 }
    }

    #[inline]
    fn tag_of(&self, hash: u64) -> u32 {
        ((hash << self.depth) >> (64 - u32::from(self.tag_bits))) as u32
    }

    #[inline]
    fn tag_at(&self, at: usize) -> u32 {
        self.entries[at] >> self.id_bits
    }

    #[inline]
    fn id_at(&self, at: usize) -> u32 {
        self.entries[at] & !(u32::MAX << self.id_bits)
    }

    /// The expected position of an entry with this tag.
    #[inline]
    fn guess(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.entries.len() as u64) >> self.tag_bits) as usize
    }

    /// The start of the entries around a guess that a lookup examines first.
    #[inline]
    fn window_around(&self, guess: usize) -> usize {
        guess.saturating_sub(WINDOW / 2).min(self.entries.len().saturating_sub(WINDOW))
    }

    /// The first entry whose tag is not below `tag`.
    #[inline]
    fn lower_bound(&self, tag: u32) -> usize {
        let (mut at, least) = (self.guess(tag), tag << self.id_bits);
        // Nine times in ten it is within these; counting them has no branch to mispredict.
        let start = self.window_around(at);
        if let Some(window) = self.entries.get(start..).and_then(|entries| entries.first_chunk::<WINDOW>()) {
            at = start + count_below(window, least);
        }
        let before = at > 0 && self.entries[at - 1] >= least;
        if before || self.entries.get(at).is_some_and(|&entry| entry < least) {
            return self.lower_bound_far(at, least);
        }
        at
    }

    /// The first entry not below `least`, which is far from its expected position: searched from there in steps that
    /// double.
    #[cold]
    fn lower_bound_far(&self, guess: usize, least: u32) -> usize {
        let entries = &self.entries;
        let (mut start, mut end, mut step) = (guess, guess, 1);
        while end < entries.len() && entries[end] < least {
            work::visited(1);
            start = end + 1;
            end += step;
            step *= 2;
        }
        while start > 0 && entries[start - 1] >= least {
            work::visited(1);
            end = start - 1;
            start = start.saturating_sub(step);
            step *= 2;
        }
        let end = end.min(entries.len());
        start + entries[start..end].partition_point(|&entry| entry < least)
    }

    /// The indices of the entries with this tag.
    #[inline]
    fn run(&self, tag: u32) -> impl Iterator<Item = usize> + '_ {
        (self.lower_bound(tag)..self.entries.len()).take_while(move |&at| self.tag_at(at) == tag)
    }

    /// The ids of the entries with this tag, of which the first, if any, is at `at`.
    #[inline]
    fn ids_from(&self, at: usize, tag: u32) -> impl Iterator<Item = u32> + '_ {
        let (id_bits, entries) = (self.id_bits, self.entries.get(at..).unwrap_or_default());
        let run = entries.iter().take_while(move |&&entry| entry >> id_bits == tag);
        run.map(move |&entry| entry & !(u32::MAX << id_bits))
    }

    fn bytes(&self) -> usize {
        entries_bytes(self.entries.capacity())
    }

    /// Makes room for ids of `bits` bits, at the cost of the tags' last bits.
    fn widen_ids(&mut self, bits: u8) {
        if bits > self.id_bits {
            self.set_bits(self.tag_bits.min(32 - bits), bits);
        }
    }

    /// Rewrites all entries with these widths; tags lose their last bits.
    fn set_bits(&mut self, tag_bits: u8, id_bits: u8) {
        work::moved(self.entries.len() * size_of::<u32>());
        for at in 0..self.entries.len() {
            let tag = self.tag_at(at) >> (self.tag_bits - tag_bits);
            self.entries[at] = tag << id_bits | self.id_at(at);
        }
        (self.tag_bits, self.id_bits) = (tag_bits, id_bits);
    }

    /// Adds an entry, at `at` if that is its place.
    #[inline]
    fn insert(&mut self, hash: u64, leaf: u32, at: usize) {
        self.widen_ids(bits_of(leaf));
        let tag = self.tag_of(hash);
        let at = if self.is_place_for(at, tag) { at } else { self.lower_bound(tag) };
        work::moved((self.entries.len() - at + 1) * size_of::<u32>());
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(GROWTH);
        }
        self.entries.insert(at, tag << self.id_bits | leaf);
    }

    /// Returns whether entries ascend with one of this tag at `at`.
    #[inline]
    fn is_place_for(&self, at: usize, tag: u32) -> bool {
        let behind = at == 0 || self.entries.get(at - 1).is_some_and(|&entry| entry >> self.id_bits <= tag);
        behind && self.entries.get(at).is_none_or(|&entry| entry >> self.id_bits >= tag)
    }

    fn remove(&mut self, at: usize) {
        work::moved((self.entries.len() - at) * size_of::<u32>());
        self.entries.remove(at);
        if self.entries.capacity() > self.entries.len() + 3 * GROWTH {
            self.entries.shrink_to(self.entries.len() + GROWTH);
        }
    }
}

/// Allocated bytes of an array of this capacity.
fn entries_bytes(capacity: usize) -> usize {
    usable_size(capacity * size_of::<u32>())
}

fn bits_of(leaf: u32) -> u8 {
    (32 - leaf.leading_zeros()).max(1) as u8
}

impl MemberIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        MemberIndex {
            chunks: vec![vec![Segment::new()]],
            shape: LinearHash::new(1),
            len: 0,
            entries_bytes: 0,
        }
    }

    /// Builds an index of members with these hashes, given the number of them in each leaf. Also returns the pairs of
    /// leaves that may hold the same member: those whose entries have equal tags.
    pub fn of(hashes: &[u64], leaves: &[(u32, usize)]) -> (Self, Vec<(u32, u32)>) {
        let segments = hashes.len().div_ceil(SEGMENT_ENTRIES).max(1);
        let mut index =
            MemberIndex { chunks: Vec::new(), shape: LinearHash::new(segments), len: 0, entries_bytes: 0 };
        let id_bits = bits_of(leaves.iter().map(|&(leaf, _)| leaf).max().unwrap_or(0));
        let shape = |at| Segment {
            entries: Vec::new(),
            tag_bits: 32 - id_bits,
            id_bits,
            depth: index.shape.depth_of(at) as u8,
        };
        let shapes: Vec<Segment> = (0..segments).map(shape).collect();
        let mut ends = vec![0; segments];
        hashes.iter().for_each(|&hash| ends[index.place(hash)] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += std::mem::replace(count, end);
        }
        // Each entry goes behind the earlier ones of its segment, which advances the segment's end.
        let mut entries = vec![0; hashes.len()];
        let leaf_of_each = leaves.iter().flat_map(|&(leaf, count)| std::iter::repeat_n(leaf, count));
        for (&hash, leaf) in hashes.iter().zip(leaf_of_each) {
            let at = index.place(hash);
            entries[ends[at]] = shapes[at].tag_of(hash) << id_bits | leaf;
            ends[at] += 1;
        }
        let (mut start, mut alike) = (0, Vec::new());
        for (end, shape) in ends.into_iter().zip(shapes) {
            let sorted = &mut entries[std::mem::replace(&mut start, end)..end];
            sorted.sort_unstable();
            for run in sorted.chunk_by(|a, b| a >> id_bits == b >> id_bits) {
                let ids = run.iter().map(|entry| entry & !(u32::MAX << id_bits));
                let later = |at: usize| ids.clone().skip(at + 1);
                alike.extend(ids.clone().enumerate().flat_map(|(at, a)| later(at).map(move |b| (a, b))));
            }
            index.push_filled(sorted, shape);
        }
        (index, alike)
    }

    fn push_filled(&mut self, entries: &[u32], mut segment: Segment) {
        segment.entries.reserve_exact(entries.len() + GROWTH / 2);
        segment.entries.extend_from_slice(entries);
        self.len += entries.len();
        self.entries_bytes += segment.bytes();
        self.push(segment);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated for the index.
    pub fn memory_bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        usable_size(size_of::<Self>())
            + self.entries_bytes
            + self.chunks.len().saturating_sub(1) * usable_size(CHUNK * size_of::<Segment>())
            + usable_size(last * size_of::<Segment>())
            + usable_size(self.chunks.capacity() * size_of::<Vec<Segment>>())
    }

    fn segments(&self) -> usize {
        self.shape.parts()
    }

    #[inline]
    fn segment(&self, at: usize) -> &Segment {
        &self.chunks[at / CHUNK][at % CHUNK]
    }

    fn segment_mut(&mut self, at: usize) -> &mut Segment {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }

    /// The segment that a hash selects.
    #[inline]
    fn place(&self, hash: u64) -> usize {
        // Half of the bits are more than enough, and quicker to reverse.
        self.shape.index(u64::from(((hash >> 32) as u32).reverse_bits()))
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> &Segment {
        self.segment(self.place(hash))
    }

    /// The leaves that may hold a member with this hash.
    #[inline]
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        self.candidates_at(self.seek(hash), hash)
    }

    /// The position of the entries that may be of a member with this hash, or where the first would be.
    #[inline]
    pub fn seek(&self, hash: u64) -> Place {
        let segment = self.place(hash);
        let entries = self.segment(segment);
        Place { segment, at: entries.lower_bound(entries.tag_of(hash)) }
    }

    /// The leaves that the entries from `place` on name for this hash.
    #[inline]
    pub fn candidates_at(&self, place: Place, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let segment = self.segment(place.segment);
        segment.ids_from(place.at, segment.tag_of(hash))
    }

    /// Runs `change` on a segment and updates the sums.
    #[inline]
    fn change<R>(&mut self, segment: usize, change: impl FnOnce(&mut Segment) -> R) -> R {
        let segment = self.segment_mut(segment);
        let (len, capacity) = (segment.entries.len(), segment.entries.capacity());
        let result = change(segment);
        let (new_len, new_capacity) = (segment.entries.len(), segment.entries.capacity());
        self.len = self.len + new_len - len;
        if new_capacity != capacity {
            self.entries_bytes = self.entries_bytes + entries_bytes(new_capacity) - entries_bytes(capacity);
        }
        result
    }

    /// Adds an entry. The caller calls [`MemberIndex::balance`] once the leaves are in order.
    pub fn insert(&mut self, hash: u64, leaf: u32) {
        self.insert_at(self.seek(hash), hash, leaf);
    }

    /// As [`MemberIndex::insert`], with the place found before. Entries may have been given other leaves since.
    pub fn insert_at(&mut self, place: Place, hash: u64, leaf: u32) {
        debug_assert_eq!(place.segment, self.place(hash), "no segment was split since");
        self.change(place.segment, |segment| segment.insert(hash, leaf, place.at));
    }

    /// Removes the entries of members of one leaf.
    pub fn remove_all(&mut self, hashes: &[u64], leaf: u32) {
        self.prefetch_all(hashes);
        hashes.iter().for_each(|&hash| self.remove(hash, leaf));
    }

    /// Removes the entry of a member of `leaf`.
    pub fn remove(&mut self, hash: u64, leaf: u32) {
        self.change(self.place(hash), |segment| {
            let found = segment.run(segment.tag_of(hash)).find(|&at| segment.id_at(at) == leaf);
            segment.remove(found.expect("every member has an entry"));
        });
    }

    /// Prefetches the lines of all these hashes, so that their fetches overlap.
    pub fn prefetch_all(&self, hashes: &[u64]) {
        hashes.iter().for_each(|&hash| prefetch(self.header_address(hash)));
        hashes.iter().for_each(|&hash| self.prefetch_entries(hash));
    }

    /// Updates the entries of members that moved from one leaf to another.
    pub fn relocate(&mut self, hashes: &[u64], from: u32, to: u32) {
        self.prefetch_all(hashes);
        hashes.iter().for_each(|&hash| self.relocate_one(hash, from, to));
    }

    fn relocate_one(&mut self, hash: u64, from: u32, to: u32) {
        work::visited(1);
        let segment = self.segment_mut(self.place(hash));
        segment.widen_ids(bits_of(to));
        let found = segment.run(segment.tag_of(hash)).find(|&at| segment.id_at(at) == from);
        let at = found.expect("every member has an entry");
        segment.entries[at] = segment.tag_at(at) << segment.id_bits | to;
    }

    /// Returns whether [`MemberIndex::balance`] has nothing to do.
    #[inline]
    pub fn is_balanced(&self) -> bool {
        let segments = self.segments();
        self.len <= segments * SEGMENT_ENTRIES
            && (segments == 1 || self.len >= segments * SEGMENT_ENTRIES / 2)
    }

    /// Grows or shrinks the index, segment by segment, to the number of members: by one at most after a single insertion
    /// or removal.
    pub fn balance(&mut self, hashes_of: &HashesOf<'_>) {
        while self.len > self.segments() * SEGMENT_ENTRIES {
            self.grow(hashes_of);
        }
        while self.segments() > 1 && self.len < self.segments() * SEGMENT_ENTRIES / 2 {
            self.shrink();
        }
    }

    fn grow(&mut self, hashes_of: &HashesOf<'_>) {
        let (low, _) = self.shape.next_split();
        work::moved(self.segment(low).entries.len() * size_of::<u32>());
        if u32::from(self.segment(low).tag_bits) <= TAG_BITS_MIN {
            self.rewrite(low, hashes_of);
        }
        let segment = self.segment_mut(low);
        assert!(segment.tag_bits > 1, "leaf ids leave room for a tag");
        let bytes = segment.bytes();
        let half = 1 << (segment.tag_bits - 1);
        let middle = segment.entries.partition_point(|&entry| entry >> segment.id_bits < half);
        let upper = segment.entries[middle..].iter().map(|&entry| entry - (half << segment.id_bits));
        segment.tag_bits -= 1;
        segment.depth += 1;
        let mut high = Segment { entries: Vec::new(), ..*segment };
        high.entries.reserve_exact(upper.len() + GROWTH / 2);
        high.entries.extend(upper);
        segment.entries.truncate(middle);
        segment.entries.shrink_to(middle + GROWTH / 2);
        let new_bytes = segment.bytes() + high.bytes();
        self.entries_bytes = self.entries_bytes + new_bytes - bytes;
        self.push(high);
        self.shape = LinearHash::new(self.segments() + 1);
    }

    fn push(&mut self, segment: Segment) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => {
                if chunk.len() == chunk.capacity() {
                    chunk.reserve_exact((chunk.len() / 4).clamp(1, CHUNK - chunk.len()));
                }
                chunk.push(segment);
            }
            _ => self.chunks.push(vec![segment]),
        }
    }

    /// Merges the last segment with the one it was split from.
    fn shrink(&mut self) {
        let split_from = self.shape.last_split_from();
        self.shape = LinearHash::new(self.segments() - 1);
        let chunk = self.chunks.last_mut().expect("a table has segments");
        let mut high = chunk.pop().expect("no chunk is empty");
        if chunk.is_empty() {
            self.chunks.pop();
            if self.chunks.len() < self.chunks.capacity() / 4 {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        } else if chunk.len() < chunk.capacity() / 4 {
            chunk.shrink_to(2 * chunk.len());
        }
        let low = self.segment_mut(split_from);
        let bytes = low.bytes() + high.bytes();
        let id_bits = low.ids_need().max(high.ids_need());
        let tag_bits = low.tag_bits.min(high.tag_bits).min(31 - id_bits);
        low.set_bits(tag_bits, id_bits);
        high.set_bits(tag_bits, id_bits);
        low.entries.reserve_exact(high.entries.len());
        // The bit that distinguished the two becomes the tags' first.
        let bit = 1 << (tag_bits + id_bits);
        low.entries.extend(high.entries.iter().map(|&entry| entry | bit));
        low.tag_bits += 1;
        low.depth -= 1;
        let new_bytes = low.bytes();
        self.entries_bytes = self.entries_bytes + new_bytes - bytes;
    }

    /// Rebuilds a segment with the longest possible tags, from the members of the leaves it names.
    fn rewrite(&mut self, at: usize, hashes_of: &HashesOf<'_>) {
        let old = self.segment(at);
        let mut leaves: Vec<u32> = (0..old.entries.len()).map(|entry| old.id_at(entry)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let id_bits = old.ids_need();
        let mut new = Segment { entries: Vec::new(), tag_bits: 32 - id_bits, id_bits, depth: old.depth };
        let mut hashes = Vec::new();
        for leaf in leaves {
            work::visited(1);
            hashes.clear();
            hashes_of(leaf, &mut hashes);
            for &hash in hashes.iter().filter(|&&hash| self.place(hash) == at) {
                let entry = new.tag_of(hash) << id_bits | leaf;
                new.entries.push(entry);
            }
        }
        new.entries.sort_unstable();
        assert_eq!(new.entries.len(), old.entries.len(), "index and leaves agree");
        self.entries_bytes = self.entries_bytes + new.bytes() - old.bytes();
        *self.segment_mut(at) = new;
    }

    /// Visits the entries from the hash position `cursor` to the end of a run of equal tags after `visits` entries, or of
    /// the segment. Returns the position that follows, 0 at the end.
    pub fn scan(&self, cursor: u64, visits: usize, visit: &mut dyn FnMut(Met)) -> u64 {
        let segment = self.segment_of(cursor);
        let depth = u32::from(segment.depth);
        let bits = depth + u32::from(segment.tag_bits);
        let position = |tag: u64| {
            let prefix = if depth == 0 { 0 } else { cursor >> (64 - depth) << (64 - depth) };
            prefix.wrapping_add(tag << (64 - bits))
        };
        // Positions that a cursor cannot express are passed together.
        let unseen = bits.saturating_sub(CURSOR_BITS);
        let first = segment.lower_bound(segment.tag_of(cursor));
        let mut run_start = first;
        for at in first..segment.entries.len() {
            let tag = segment.tag_at(at);
            if at > first && segment.tag_at(at - 1) != tag {
                if at - first >= visits && (segment.tag_at(at - 1) ^ tag) >> unseen != 0 {
                    return position(u64::from(tag >> unseen << unseen));
                }
                run_start = at;
            }
            let leaf = segment.id_at(at);
            if (run_start..at).all(|earlier| segment.id_at(earlier) != leaf) {
                let is_last = at + 1 == segment.entries.len() || segment.tag_at(at + 1) != tag;
                let (hash, is_only) = (position(u64::from(tag)), run_start == at && is_last);
                visit(Met { leaf, hash, bits, is_only });
            }
        }
        position(1 << segment.tag_bits)
    }

    /// Address of the header of the hash's segment, for prefetching.
    pub fn header_address(&self, hash: u64) -> *const u8 {
        let header: *const Segment = self.segment_of(hash);
        header.cast()
    }

    /// Prefetches the entries around the hash's expected position.
    #[inline]
    pub fn prefetch_entries(&self, hash: u64) {
        let segment = self.segment_of(hash);
        let first = segment.window_around(segment.guess(segment.tag_of(hash)));
        for at in [first, first + WINDOW - 1] {
            prefetch(segment.entries.as_ptr().wrapping_add(at));
        }
    }

    /// Verifies the invariants; `members` are all expected `(hash, leaf)`.
    pub fn check(&self, members: &[(u64, u32)]) {
        assert_eq!(self.len, members.len(), "index invariant 4: entries miscounted");
        let segments: Vec<&Segment> = self.chunks.iter().flatten().collect();
        assert_eq!(segments.len(), self.segments(), "index: shape and segments disagree");
        let entries: usize = segments.iter().map(|segment| segment.entries.len()).sum();
        assert_eq!(entries, self.len, "index invariant 4: len");
        let bytes: usize = segments.iter().map(|segment| segment.bytes()).sum();
        assert_eq!(bytes, self.entries_bytes, "index invariant 4: bytes");
        let full = &self.chunks[..self.chunks.len() - 1];
        assert!(
            full.iter().all(|chunk| (chunk.len(), chunk.capacity()) == (CHUNK, CHUNK)),
            "index invariant 5"
        );
        let mut expected: Vec<Vec<u32>> = vec![Vec::new(); segments.len()];
        for &(hash, leaf) in members {
            let at = self.place(hash);
            let segment = segments[at];
            expected[at].push(segment.tag_of(hash) << segment.id_bits | leaf);
        }
        for (at, (segment, mut expected)) in segments.iter().zip(expected).enumerate() {
            assert_eq!(u32::from(segment.depth), self.shape.depth_of(at), "index: depth of segment {at}");
            assert!(segment.tag_bits + segment.id_bits <= 32, "index invariant 3");
            let sorted = (1..segment.entries.len()).all(|at| segment.tag_at(at - 1) <= segment.tag_at(at));
            assert!(sorted, "index invariant 2: entries out of order");
            let mut actual = segment.entries.clone();
            actual.sort_unstable();
            expected.sort_unstable();
            assert_eq!(actual, expected, "index invariant 1: entries and members disagree");
        }
    }
}

impl Segment {
    /// Bits needed for the ids in use.
    fn ids_need(&self) -> u8 {
        let all = (0..self.entries.len()).fold(0, |bits, at| bits | self.id_at(at));
        bits_of(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::{BTreeMap, HashSet};

    /// A model of the tree's leaves: hashes by leaf id.
    #[derive(Default)]
    struct Leaves(BTreeMap<u32, Vec<u64>>);

    impl Leaves {
        fn all(&self) -> Vec<(u64, u32)> {
            self.0.iter().flat_map(|(&leaf, hashes)| hashes.iter().map(move |&hash| (hash, leaf))).collect()
        }

        fn balance(&self, index: &mut MemberIndex) {
            index.balance(&|leaf, hashes| hashes.extend(&self.0[&leaf]));
        }
    }

    /// Random insertions, moves and removals; ids `spread` apart, so that wide ones leave tags few bits.
    fn random_run(seed: u64, spread: u32, steps: u64) {
        let mut random = Random::new(seed);
        let (mut index, mut leaves) = (MemberIndex::new(), Leaves::default());
        let mut present: Vec<(u64, u32)> = Vec::new();
        for step in 0..steps {
            let leaf = random.below(60) as u32 * spread;
            let grows = (step * 4 / steps).is_multiple_of(2);
            let at = random.below(present.len() as u64 + 1) as usize;
            if present.is_empty() || random.below(10) < if grows { 7 } else { 2 } {
                let hash = random.next_u64();
                index.insert(hash, leaf);
                leaves.0.entry(leaf).or_default().push(hash);
                present.push((hash, leaf));
            } else if at < present.len() {
                let (hash, from) = present.swap_remove(at);
                leaves.0.get_mut(&from).unwrap().retain(|&other| other != hash);
                // By its first byte, where that distinguishes it from others.
                let tag = (random.below(2) == 0).then_some((hash >> 56) as u8);
                if random.below(3) == 0 {
                    if !tag.is_some_and(|tag| index.relocate_by_tag(tag, from, leaf)) {
                        index.relocate(&[hash], from, leaf);
                    }
                    leaves.0.entry(leaf).or_default().push(hash);
                    present.push((hash, leaf));
                } else if !tag.is_some_and(|tag| index.remove_by_tag(tag, from)) {
                    index.remove_all(&[hash], from);
                }
            }
            if random.below(100) == 0 {
                let (from, to) = (random.below(60) as u32 * spread, (60 + step as u32 % 60) * spread);
                index.rename_leaf(from, to);
                index.rename_leaf(to, from);
            }
            leaves.balance(&mut index);
            if step % 512 == 0 {
                index.check(&leaves.all());
            }
        }
        index.check(&leaves.all());
        for &(hash, leaf) in &present {
            assert!(index.candidates(hash).any(|candidate| candidate == leaf), "seed {seed}");
        }
    }

    #[test]
    fn entries_follow_their_members() {
        let steps = if cfg!(miri) { 300 } else { 30_000 };
        for (seed, spread) in [1, 1000, 1 << 20, 1 << 22].into_iter().enumerate() {
            random_run(seed as u64, spread, steps);
        }
    }

    /// With ids of 28 bits a tag has 4, and every split of a segment must rebuild it.
    #[test]
    fn segments_whose_tags_run_out_are_written_anew() {
        let (mut index, mut leaves, mut random) = (MemberIndex::new(), Leaves::default(), Random::new(1));
        let count = if cfg!(miri) { 400 } else { 6_000 };
        for i in 0..count {
            let (hash, leaf) = (random.next_u64(), (1 << 27) + i % 50);
            index.insert(hash, leaf);
            leaves.0.entry(leaf).or_default().push(hash);
            leaves.balance(&mut index);
        }
        index.check(&leaves.all());
        assert!(index.segments() > count as usize / 2 / SEGMENT_ENTRIES);
        let narrow = index.chunks.iter().flatten().all(|segment| segment.tag_bits <= TAG_BITS_MIN as u8);
        assert!(narrow, "ids of 28 bits leave 4 for tags");
        let (mut met, mut cursor) = (HashSet::new(), 0);
        loop {
            cursor = index.scan(cursor, 16, &mut |Met { leaf, hash, bits, is_only }| {
                let of_leaf = leaves.0[&leaf].iter().filter(|&&other| (other ^ hash) >> (64 - bits) == 0);
                assert!(!is_only || of_leaf.clone().count() == 1);
                met.extend(of_leaf.copied());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(met.len(), count as usize, "a scan meets every member");
    }

    #[test]
    fn tags_that_are_not_spread_are_found_in_steps_that_double() {
        let (mut index, mut present) = (MemberIndex::new(), Vec::new());
        let count = if cfg!(miri) { 300 } else { 20_000 };
        // All but one tag in a thousand are the lowest and the highest.
        let hash = |number: u64| match number % 1_000 {
            0 => !(number << 20),
            _ => number.wrapping_mul(0x9e37_79b9) << 20 & 0x000f_ffff_fff0_0000,
        };
        for number in 0..count {
            work::take();
            index.insert(hash(number), 1);
            assert!(work::take().visited <= 40, "entry {number}");
            present.push((hash(number), 1));
        }
        index.check(&present);
        for number in 0..count {
            work::take();
            index.remove(hash(number), 1);
            assert!(work::take().visited <= 40, "entry {number}");
        }
        index.check(&[]);
    }

    #[test]
    fn segments_that_are_joined_have_no_more_room_than_others() {
        let (mut index, mut leaves, mut random) = (MemberIndex::new(), Leaves::default(), Random::new(4));
        let hashes: Vec<u64> =
            (0..if cfg!(miri) { 500 } else { 20_000 }).map(|_| random.next_u64()).collect();
        leaves.0.insert(1, hashes.clone());
        hashes.iter().for_each(|&hash| index.insert(hash, 1));
        leaves.balance(&mut index);
        for &hash in &hashes {
            index.remove(hash, 1);
            index.balance(&|_, _| unreachable!("tags of 31 bits do not run out"));
            let roomiest =
                index.chunks.iter().flatten().map(|s| s.entries.capacity() - s.entries.len()).max();
            assert!(roomiest <= Some(3 * GROWTH), "room for {roomiest:?} in a segment");
        }
    }
}
