//! Search of index entries by a leaf's tag, the first byte of a hash: in a small index, tag and leaf id identify an entry,
//! and hashing a member of a hundred bytes costs more than this search.
//!
//! Measurements: [docs/structures.md](../../../../../../docs/structures.md#the-feature-b-tree-part-by-part).

use super::{MemberIndex, Segment, bits_of};
use crate::work;

/// Bits of a hash in a leaf's tag.
const KNOWN_BITS: u32 = 8;
/// With this number of segments, about 3,000 entries, the tag selects one segment with about a dozen candidates. Popping
/// ten of 10,000 members of 100 bytes took as long with 256, all that a tag can select, as when each is hashed.
const SEGMENTS_MAX: usize = 32;

impl Segment {
    /// The only entry with this leaf among those of hashes from `first` to `last`; `None` if there are several.
    fn only_entry(&self, first: u64, last: u64, leaf: u32) -> Option<usize> {
        let start = self.lower_bound(self.tag_of(first));
        let (last, id_mask) = (self.tag_of(last), !(u32::MAX << self.id_bits));
        let range = self.entries[start..].iter().take_while(|&&entry| entry >> self.id_bits <= last);
        let (mut found, mut count) = (0, 0);
        for (nth, entry) in range.enumerate() {
            let is_it = entry & id_mask == leaf;
            found = if is_it { start + nth } else { found };
            count += u32::from(is_it);
        }
        (count == 1).then_some(found)
    }
}

impl MemberIndex {
    /// Removes the entry of the leaf's member whose hash begins with `tag`; returns `false`, with nothing done, if the
    /// entry is ambiguous.
    pub fn remove_by_tag(&mut self, tag: u8, leaf: u32) -> bool {
        let Some((first, at)) = self.find_by_tag(tag, leaf) else { return false };
        self.change(self.place(first), |segment| segment.remove(at));
        true
    }

    /// As [`MemberIndex::remove_by_tag`], for a member that moved from one leaf to another.
    pub fn relocate_by_tag(&mut self, tag: u8, from: u32, to: u32) -> bool {
        let Some((first, at)) = self.find_by_tag(tag, from) else { return false };
        let segment = self.segment_mut(self.place(first));
        segment.widen_ids(bits_of(to));
        segment.entries[at] = segment.tag_at(at) << segment.id_bits | to;
        true
    }

    /// The least hash that begins with `tag`, and the index of the leaf's entry in its segment.
    fn find_by_tag(&self, tag: u8, leaf: u32) -> Option<(u64, usize)> {
        if self.segments() > SEGMENTS_MAX {
            return None;
        }
        work::visited(1);
        let first = u64::from(tag) << (64 - KNOWN_BITS);
        let at = self.segment_of(first).only_entry(first, first | u64::MAX >> KNOWN_BITS, leaf)?;
        Some((first, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_tag_tells_an_entry_from_all_but_those_that_share_it_and_the_leaf() {
        let (mut index, tag) = (MemberIndex::new(), |first: u64| first << 56);
        [(tag(7), 1), (tag(7) | 5, 2), (tag(8), 1), (tag(9), 3), (tag(9) | 1 << 40, 3)]
            .into_iter()
            .for_each(|(hash, leaf)| index.insert(hash, leaf));
        assert!(!index.remove_by_tag(9, 3) && !index.relocate_by_tag(9, 3, 4), "two entries");
        assert!(!index.remove_by_tag(8, 2), "no entry");
        assert!(index.relocate_by_tag(7, 1, 2));
        assert!(!index.remove_by_tag(7, 2), "two entries by now");
        assert!(index.remove_by_tag(8, 1));
        index.remove(tag(9), 3);
        assert!(index.relocate_by_tag(9, 3, 1000));
        index.check(&[(tag(7), 2), (tag(7) | 5, 2), (tag(9) | 1 << 40, 1000)]);
    }

    #[test]
    fn in_a_large_index_none_is_told() {
        let (mut index, mut random) = (MemberIndex::new(), Random::new(1));
        let mut told = Vec::new();
        for leaf in 0..6_000u32 {
            let hash = random.next_u64();
            index.insert(hash, leaf);
            index.balance(&|_, _| unreachable!("ids of 13 bits leave long tags"));
            told.push(index.find_by_tag((hash >> 56) as u8, leaf).is_some());
        }
        let last = told.iter().rposition(|&told| told).expect("the first is found");
        assert!(told[..last].iter().all(|&told| told), "each leaf has one entry");
        assert_eq!((last + 1).div_ceil(super::super::SEGMENT_ENTRIES), SEGMENTS_MAX);
    }
}
