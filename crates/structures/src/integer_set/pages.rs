//! A large set of integers: pages in groups, both in ascending order.
//!
//! ```text
//!  groups: | first, count, pages | first, count, pages | ...     binary search by `first`
//!                           └──> | page | page | ...             at most 128 pages, by their base
//! ```
//!
//! Invariants:
//! 1. Every value of a page is at least the page's base and below the base of the next page.
//! 2. A group has 1 to 128 pages; `first` is the base of its first page, `count` the sum of their counts.
//! 3. `len` is the sum of the groups' counts, `group_bytes` of their allocated sizes.

use super::page::{PAGE_MAX, Page};
use crate::prefetch::prefetch;
use crate::random::Random;
use crate::size_class::usable_size;
use crate::work;

const GROUP_MAX: usize = 128;
/// With at most this number of groups, a random rank is found by adding up counts.
const WALKED_GROUPS_MAX: usize = 4;

#[derive(Clone)]
struct Group {
    first: i64,
    count: u64,
    pages: Vec<Page>,
}

impl Group {
    fn new(pages: Vec<Page>) -> Group {
        let count = pages.iter().map(|page| page.count() as u64).sum();
        Group { first: pages[0].base, count, pages }
    }

    /// Allocated size of the pages. Reads each.
    fn memory_bytes(&self) -> usize {
        self.pages.iter().map(Page::memory_bytes).sum::<usize>() + self.place_bytes()
    }

    /// The part of it taken by the array of pages.
    fn place_bytes(&self) -> usize {
        usable_size(self.pages.capacity() * size_of::<Page>())
    }
}

/// The parts of a large set, for OBJECT LAYOUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerFigures {
    /// Number of pages.
    pub pages: usize,
    /// Pages of consecutive values, which have no contents.
    pub runs: usize,
    /// Number of bitmap pages.
    pub bitmaps: usize,
    /// Bytes allocated for the pages, headers included.
    pub page_bytes: usize,
    /// Bytes of `page_bytes` that hold headers or values.
    pub used_bytes: usize,
}

/// A large set: pages in groups.
#[derive(Default)]
pub struct IntegerPages {
    groups: Vec<Group>,
    len: u64,
    group_bytes: usize,
}

impl Clone for IntegerPages {
    fn clone(&self) -> Self {
        let groups = self.groups.clone();
        let group_bytes = groups.iter().map(Group::memory_bytes).sum();
        IntegerPages { groups, len: self.len, group_bytes }
    }
}

impl IntegerPages {
    /// Creates a set of `values`, which must ascend strictly.
    pub fn from_sorted(values: &[i64]) -> Self {
        let parts = values.chunks(PAGE_MAX * GROUP_MAX / 2);
        let groups: Vec<Group> = parts
            .map(|part| Group::new(part.chunks(PAGE_MAX).map(|part| Page::encode(part, 0)).collect()))
            .collect();
        let group_bytes = groups.iter().map(Group::memory_bytes).sum();
        IntegerPages { groups, len: values.len() as u64, group_bytes }
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The group and the page for `value`: the last whose base is at most `value`, else the first.
    #[inline]
    fn locate(&self, value: i64) -> Option<(usize, usize)> {
        if self.groups.is_empty() {
            return None;
        }
        let group = self.groups.partition_point(|group| group.first <= value).saturating_sub(1);
        let page = self.groups[group].pages.partition_point(|page| page.base <= value).saturating_sub(1);
        Some((group, page))
    }

    /// See [`super::IntegerSet::prefetch`]: the middle of a group's pages, then of a page's contents.
    pub fn prefetch(&self, value: i64, step: u32) -> bool {
        if self.groups.is_empty() || step > 1 {
            return false;
        }
        if step == 0 {
            let group = self.groups.partition_point(|group| group.first <= value).saturating_sub(1);
            let pages = &self.groups[group].pages;
            prefetch(&raw const pages[pages.len() / 2]);
        } else if let Some((group, page)) = self.locate(value) {
            self.groups[group].pages[page].prefetch(value);
        }
        step == 0
    }

    /// Returns whether `value` is in the set.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        self.locate(value).is_some_and(|(group, page)| self.groups[group].pages[page].contains(value))
    }

    /// Adds `value`; returns false if it was in the set.
    pub fn insert(&mut self, value: i64) -> bool {
        let Some((group, page)) = self.locate(value) else {
            *self = IntegerPages::from_sorted(&[value]);
            return true;
        };
        let owner = &mut self.groups[group];
        let target = &mut owner.pages[page];
        if target.contains(value) {
            return false;
        }
        self.len += 1;
        owner.count += 1;
        if target.count() < PAGE_MAX {
            let before = target.memory_bytes();
            target.insert(value);
            self.group_bytes = self.group_bytes - before + target.memory_bytes();
            owner.first = owner.pages[0].base;
            return true;
        }
        self.insert_into_full(group, page, value);
        true
    }

    #[cold]
    fn insert_into_full(&mut self, group: usize, page: usize, value: i64) {
        let (first, last) = (group == 0 && page == 0, group + 1 == self.groups.len());
        let owner = &mut self.groups[group];
        self.group_bytes -= owner.memory_bytes();
        let last = last && page + 1 == owner.pages.len();
        let full = &mut owner.pages[page];
        if last && value > full.last() {
            // Ascending inserts leave full pages behind them, and so do descending ones.
            owner.pages.push(Page::encode(&[value], 0));
        } else if first && value < full.base {
            owner.pages.insert(0, Page::encode(&[value], 0));
        } else {
            let mut values: Vec<i64> = full.values().collect();
            let place = values.partition_point(|&other| other < value);
            values.insert(place, value);
            let (low, high) = values.split_at(values.len() / 2);
            *full = Page::encode(low, 0);
            owner.pages.insert(page + 1, Page::encode(high, 0));
        }
        owner.first = owner.pages[0].base;
        if owner.pages.len() > GROUP_MAX {
            let cut = if last { GROUP_MAX } else { GROUP_MAX / 2 };
            let tail = owner.pages.split_off(cut);
            owner.pages.shrink_to_fit();
            owner.count = owner.pages.iter().map(|page| page.count() as u64).sum();
            let tail = Group::new(tail);
            self.group_bytes += tail.memory_bytes();
            self.groups.insert(group + 1, tail);
        }
        self.group_bytes += self.groups[group].memory_bytes();
    }

    /// Removes `value`; returns false if it was not in the set.
    pub fn remove(&mut self, value: i64) -> bool {
        let Some((group, page)) = self.locate(value) else { return false };
        let owner = &mut self.groups[group];
        let target = &mut owner.pages[page];
        if !target.contains(value) {
            return false;
        }
        self.len -= 1;
        owner.count -= 1;
        self.group_bytes -= target.memory_bytes();
        if target.count() > 1 {
            target.remove(value);
            self.group_bytes += target.memory_bytes();
            if target.count() < PAGE_MAX / 4 {
                self.merge_pages(group, page);
            }
        } else {
            owner.pages.remove(page);
        }
        match self.groups[group].pages.first() {
            Some(page) => self.groups[group].first = page.base,
            None => self.group_bytes -= self.groups.remove(group).place_bytes(),
        }
        if group < self.groups.len() && self.groups[group].pages.len() < GROUP_MAX / 8 {
            self.merge_groups(group);
        }
        true
    }

    /// Merges page `page` with a neighbour if both make a page that is at most three quarters full.
    fn merge_pages(&mut self, group: usize, page: usize) {
        let owner = &mut self.groups[group];
        for low in [page.wrapping_sub(1), page] {
            let Some(pair) = owner.pages.get(low..low.wrapping_add(2)) else { continue };
            if pair[0].count() + pair[1].count() <= PAGE_MAX / 4 * 3 {
                let values: Vec<i64> = pair[0].values().chain(pair[1].values()).collect();
                self.group_bytes -= pair[0].memory_bytes() + pair[1].memory_bytes();
                owner.pages[low] = Page::encode(&values, 0);
                owner.pages.remove(low + 1);
                self.group_bytes += owner.pages[low].memory_bytes();
                return;
            }
        }
    }

    fn merge_groups(&mut self, group: usize) {
        for low in [group.wrapping_sub(1), group] {
            let Some(pair) = self.groups.get(low..low.wrapping_add(2)) else { continue };
            if pair[0].pages.len() + pair[1].pages.len() <= GROUP_MAX / 2 {
                let high = self.groups.remove(low + 1);
                let low = &mut self.groups[low];
                self.group_bytes -= low.place_bytes() + high.place_bytes();
                low.count += high.count;
                low.pages.extend(high.pages);
                self.group_bytes += low.place_bytes();
                return;
            }
        }
    }

    /// The value with `rank` smaller ones.
    pub fn at(&self, rank: u64) -> Option<i64> {
        let mut rest = rank;
        for group in &self.groups {
            if rest >= group.count {
                rest -= group.count;
                continue;
            }
            for page in &group.pages {
                if rest < page.count() as u64 {
                    return Some(page.at(rest as usize));
                }
                rest -= page.count() as u64;
            }
        }
        None
    }

    /// A value drawn uniformly; none if the set is empty.
    ///
    /// A group, a page and a place in it are drawn as if all were full, and drawn again if the place is empty.
    /// Merging keeps at least a tenth of the places filled, so that the number of draws does not grow with the set.
    pub fn random(&self, random: &mut Random) -> Option<i64> {
        if self.groups.len() <= WALKED_GROUPS_MAX {
            return if self.len == 0 { None } else { self.at(random.below(self.len)) };
        }
        loop {
            work::visited(1);
            let draw = random.below((self.groups.len() * GROUP_MAX * PAGE_MAX) as u64) as usize;
            let group = &self.groups[draw / (GROUP_MAX * PAGE_MAX)];
            let (page, rank) = (draw / PAGE_MAX % GROUP_MAX, draw % PAGE_MAX);
            if let Some(page) = group.pages.get(page).filter(|page| rank < page.count()) {
                return Some(page.at(rank));
            }
        }
    }

    /// Iterates over the values in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { set: self, group: 0, page: 0, place: 0 }
    }

    /// Allocated bytes, without the value itself.
    pub fn memory_bytes(&self) -> usize {
        self.group_bytes + usable_size(self.groups.capacity() * size_of::<Group>())
    }

    /// Computes the figures by visiting every page.
    pub fn figures(&self) -> IntegerFigures {
        let pages = || self.groups.iter().flat_map(|group| &group.pages);
        IntegerFigures {
            pages: pages().count(),
            runs: pages().filter(|page| page.is_run()).count(),
            bitmaps: pages().filter(|page| page.is_bitmap()).count(),
            page_bytes: pages().map(|page| size_of::<Page>() + page.memory_bytes()).sum(),
            used_bytes: pages().map(|page| size_of::<Page>() + page.used_bytes()).sum(),
        }
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        assert_eq!(self.len, self.groups.iter().map(|group| group.count).sum::<u64>());
        assert_eq!(self.group_bytes, self.groups.iter().map(Group::memory_bytes).sum::<usize>());
        let mut previous: Option<i64> = None;
        for group in &self.groups {
            assert!((1..=GROUP_MAX).contains(&group.pages.len()));
            assert_eq!(group.first, group.pages[0].base);
            assert_eq!(group.count, group.pages.iter().map(|page| page.count() as u64).sum::<u64>());
            for page in &group.pages {
                page.check();
                assert!(previous.is_none_or(|previous| previous < page.base));
                previous = Some(page.last());
            }
        }
    }
}

/// An iterator over the values in ascending order.
#[derive(Clone)]
pub struct Iter<'a> {
    set: &'a IntegerPages,
    group: usize,
    page: usize,
    place: usize,
}

impl Iter<'_> {
    /// Skips all values below `value`. Never goes back.
    pub fn seek(&mut self, value: i64) {
        let Some((group, page)) = self.set.locate(value) else { return };
        if (group, page) < (self.group, self.page) {
            return;
        }
        let place = self.set.groups[group].pages[page].place(value);
        if (group, page) > (self.group, self.page) {
            (self.group, self.page, self.place) = (group, page, place);
        } else {
            self.place = self.place.max(place);
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        loop {
            let group = self.set.groups.get(self.group)?;
            let Some(page) = group.pages.get(self.page) else {
                (self.group, self.page, self.place) = (self.group + 1, 0, 0);
                continue;
            };
            if let Some((value, place)) = page.step(self.place) {
                self.place = place;
                return Some(value);
            }
            (self.page, self.place) = (self.page + 1, 0);
        }
    }
}
