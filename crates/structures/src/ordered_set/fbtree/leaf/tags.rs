//! Search by tag, without regard to the order of the slots: invariant 3 of [`super`].

use super::{Leaf, LongMembers};
use crate::byte_compare::{BitMask, Group, LANES};

/// Slots of a leaf that have one tag. In a full leaf of short members every other lookup meets two, one in fifty more than
/// fit here.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Few {
    slots: [u16; 4],
    count: u16,
}

impl Few {
    #[inline(always)]
    fn push(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(usize::from(self.count)) {
            *place = slot as u16;
        }
        self.count += 1;
    }

    /// Returns whether no slot was left out.
    #[inline]
    pub fn is_all(&self) -> bool {
        usize::from(self.count) <= self.slots.len()
    }

    /// The slots, ascending.
    #[inline]
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.slots[..self.slots.len().min(self.count.into())].iter().map(|&slot| usize::from(slot))
    }
}

impl Leaf {
    /// The tag of `slot`.
    pub fn tag(&self, slot: usize) -> u8 {
        self.page[self.tags_at() + slot]
    }

    /// The tag of each member.
    pub fn tags(&self) -> &[u8] {
        &self.page[self.tags_at()..self.tags_at() + self.count()]
    }

    /// Slots whose tag is `tag`, ascending.
    pub fn tagged(&self, tag: u8) -> Tagged<'_> {
        Tagged { leaf: self, tag, next: 0, mask: BitMask::<u64>::NONE }
    }

    /// The first few slots with this tag, and their number, for many lookups at once.
    #[inline]
    pub fn few_tagged(&self, tag: u8) -> Few {
        let mut few = Few::default();
        if self.page.len() < LANES {
            self.tagged(tag).for_each(|slot| few.push(slot));
            return few;
        }
        for row in (0..self.count()).step_by(2 * LANES) {
            self.two_rows_matching(row, tag).for_each(|lane| few.push(row + lane));
        }
        few
    }

    /// The slot of `member`, whose tag is `tag`.
    #[inline]
    pub fn find(&self, tag: u8, member: &[u8], longs: &LongMembers) -> Option<usize> {
        // The most common lengths are compared by two words that overlap. Without calls no registers are saved.
        match member.len() {
            8..=16 if self.page.len() >= LANES => self.find_short::<8>(tag, member),
            17..=32 if self.page.len() >= LANES => self.find_short::<16>(tag, member),
            _ => self.find_other(tag, member, longs),
        }
    }

    /// The slot of a member of `WORD` to twice as many bytes.
    #[inline(always)]
    fn find_short<const WORD: usize>(&self, tag: u8, member: &[u8]) -> Option<usize> {
        let (head, tail) = (member.first_chunk::<WORD>()?, member.last_chunk::<WORD>()?);
        self.find_record(tag, |record| {
            let Some((len, bytes)) = record.get(..1 + member.len()).and_then(|record| record.split_first())
            else {
                return false;
            };
            usize::from(*len) == member.len()
                && bytes.first_chunk() == Some(head)
                && bytes.last_chunk() == Some(tail)
        })
    }

    /// The slot with this tag whose record is the one sought; `is_it` is given the bytes from the record's start on.
    #[inline(always)]
    fn find_record(&self, tag: u8, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let mut row = 0;
        while row < self.count() {
            let mut matches = self.two_rows_matching(row, tag);
            while let Some(lane) = matches.lowest() {
                let slot = row + lane;
                if is_it(&self.page[self.record_at(slot)..]) {
                    return Some(slot);
                }
                // Only now: mostly the first is the one.
                matches.next();
            }
            row += 2 * LANES;
        }
        None
    }

    /// Those of the slots from `row` on, which must exist, that have this tag, as far as two rows reach; the page must be a
    /// row or longer. Two rows at once: the branch on which of them has the member would be mispredicted half the time.
    #[inline(always)]
    fn two_rows_matching(&self, row: usize, tag: u8) -> BitMask<u128> {
        let matching = |row: usize| {
            let tags = self.tags_from(row).expect("in a page of a row or more a whole row follows each tag");
            tags.matching(tag)
        };
        let left = self.count() - row;
        let behind = if left > LANES { matching(row + LANES) } else { BitMask::<u64>::NONE };
        matching(row).followed_by(behind).below(left)
    }

    #[inline(never)]
    fn find_other(&self, tag: u8, member: &[u8], longs: &LongMembers) -> Option<usize> {
        self.tagged(tag).find(|&slot| self.member(slot, longs) == member)
    }

    /// The row of bytes from tag `row` on, which must exist. Only pages shorter than a row lack it: beyond the first row,
    /// the columns behind the tags take more than a row.
    #[inline(always)]
    fn tags_from(&self, row: usize) -> Option<Group<'_>> {
        Group::first_of(&self.page[self.tags_at() + row..])
    }

    /// Those of the slots from `row` on, which must exist, that have this tag, as far as one row reaches.
    fn row_matching(&self, row: usize, tag: u8) -> BitMask<u64> {
        let mut short = [0; LANES];
        let tags = self.tags_from(row).unwrap_or_else(|| {
            let tags = &self.page[self.tags_at() + row..];
            short[..tags.len()].copy_from_slice(tags);
            Group::of(&short)
        });
        tags.matching(tag).below(self.count() - row)
    }
}

/// Iterator of [`Leaf::tagged`]: compares [`LANES`] tags at a time.
pub(in super::super) struct Tagged<'a> {
    leaf: &'a Leaf,
    tag: u8,
    /// The first slot not compared yet.
    next: usize,
    /// The rest of the last compare; lane 0 is slot `next - 64`.
    mask: BitMask<u64>,
}

impl Iterator for Tagged<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(lane) = self.mask.next() {
                return Some(self.next - LANES + lane);
            }
            if self.next >= self.leaf.count() {
                return None;
            }
            self.mask = self.leaf.row_matching(self.next, self.tag);
            self.next += LANES;
        }
    }
}
