//! Finding and removing elements by value. A value is encoded once; a record is equal when its bytes are,
//! because records are always written in the one canonical encoding.

use super::node::{Node, Records, View};
use super::{Direction, PackedList};
use crate::listpack::encoding::Encoded;

struct Needle<'a> {
    bytes: &'a [u8],
    encoded: Encoded<'a>,
}

impl<'a> Needle<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Needle { bytes, encoded: Encoded::new(bytes) }
    }

    /// Calls `found` with the place of each equal element in `node`, in order, until it answers false.
    fn each_in(&self, node: &Node, scratch: &mut Vec<u8>, mut found: impl FnMut(usize) -> bool) {
        match node.view(scratch) {
            View::Plain(element) => {
                if element == self.bytes {
                    found(0);
                }
            }
            View::Records(records) => self.each_record(&records, found),
        }
    }

    fn each_record(&self, records: &Records<'_>, mut found: impl FnMut(usize) -> bool) {
        let mut at = records.start;
        for index in 0..records.count {
            if records.is_at(&self.encoded, at) && !found(index) {
                return;
            }
            at = records.after(at);
        }
    }
}

impl PackedList {
    /// Calls `found` with the index of each element equal to `value`, looking at no more than `looked_max`
    /// elements from the chosen end, until `found` answers false.
    pub fn search(
        &self,
        value: &[u8],
        direction: Direction,
        looked_max: u64,
        mut found: impl FnMut(u64) -> bool,
    ) {
        let needle = Needle::new(value);
        let mut scratch = Vec::new();
        let (mut places, mut passed) = (Vec::new(), 0u64);
        let nodes = self.nodes.len();
        for step in 0..nodes {
            if passed >= looked_max {
                return;
            }
            let backward = direction == Direction::Backward;
            let node = &self.nodes[if backward { nodes - 1 - step } else { step }];
            let (count, looked) = (node.count() as u64, looked_max - passed);
            places.clear();
            needle.each_in(node, &mut scratch, |place| {
                places.push(place as u64);
                backward || (place as u64) < looked
            });
            let mut go_on = true;
            if backward {
                let first = count.saturating_sub(looked);
                let base = self.len - passed - count;
                go_on = places
                    .iter()
                    .rev()
                    .take_while(|&&place| place >= first)
                    .all(|&place| found(base + place));
            } else {
                go_on = go_on
                    && places.iter().take_while(|&&place| place < looked).all(|&place| found(passed + place));
            }
            if !go_on {
                return;
            }
            passed += count;
        }
    }

    /// The indexes that LPOS gives: of the elements equal to `value` the `rank`-th (1 the first, -1 the last)
    /// and those after it in that direction, `count_max` in all, among the first `looked_max` looked at.
    pub fn positions(&self, value: &[u8], rank: i64, count_max: u64, looked_max: u64) -> Vec<u64> {
        assert!(rank != 0, "ranks count from 1 and from -1");
        let direction = if rank > 0 { Direction::Forward } else { Direction::Backward };
        let mut passing = rank.unsigned_abs() - 1;
        let mut positions = Vec::new();
        if count_max > 0 {
            self.search(value, direction, looked_max, |index| {
                if passing > 0 {
                    passing -= 1;
                } else {
                    positions.push(index);
                }
                (positions.len() as u64) < count_max
            });
        }
        positions
    }

    /// The index of the first element equal to `value`.
    pub fn position(&self, value: &[u8]) -> Option<u64> {
        self.positions(value, 1, 1, u64::MAX).first().copied()
    }

    /// Inserts before the first element equal to `pivot`; false when there is none.
    pub fn insert_before(&mut self, pivot: &[u8], element: &[u8]) -> bool {
        self.position(pivot).is_some_and(|index| self.insert(index, element))
    }

    /// Inserts after the first element equal to `pivot`; false when there is none.
    pub fn insert_after(&mut self, pivot: &[u8], element: &[u8]) -> bool {
        self.position(pivot).is_some_and(|index| self.insert(index + 1, element))
    }

    /// Removes the elements equal to `value`, at most `count_max`, from the chosen end on. Returns how many
    /// went.
    pub fn remove_matching(&mut self, value: &[u8], direction: Direction, count_max: u64) -> u64 {
        let needle = Needle::new(value);
        let (mut scratch, mut places) = (Vec::new(), Vec::<u16>::new());
        let mut rest = count_max;
        let (mut at, mut nodes_left) = (0, self.nodes.len());
        while nodes_left > 0 && rest > 0 {
            nodes_left -= 1;
            let index = if direction == Direction::Backward { nodes_left } else { at };
            places.clear();
            needle.each_in(&self.nodes[index], &mut scratch, |place| {
                places.push(place as u16);
                direction == Direction::Backward || (places.len() as u64) < rest
            });
            let surplus = (places.len() as u64).saturating_sub(rest) as usize;
            let places = &places[surplus..];
            rest -= places.len() as u64;
            at += 1;
            if places.len() == self.nodes[index].count() {
                self.nodes.remove(index);
                at -= 1;
            } else if !places.is_empty() {
                self.nodes[index].expand();
                self.nodes[index].remove_each(places);
            }
        }
        let removed = count_max - rest;
        self.len -= removed;
        if removed > 0 {
            self.join_and_settle();
        }
        removed
    }

    /// After removals all over the list: joins small neighbours, gives back slack, compresses again.
    fn join_and_settle(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        for mut node in nodes {
            if let Some(last) = self.nodes.back_mut()
                && last.can_merge(&node, self.limits)
            {
                last.expand();
                node.expand();
                *last = last.merged(&node);
                continue;
            }
            if let Some(last) = self.nodes.back_mut() {
                last.trim();
            }
            self.nodes.push_back(node);
        }
        for index in 0..self.nodes.len() {
            self.settle_node(index);
        }
    }
}
