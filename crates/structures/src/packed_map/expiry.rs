//! The earliest expiry of each page and, above those, of every sixteen: one descent finds an expired element.
//!
//! ```text
//!  group of groups   | 16 earliest expiries | 16 groups, each there only if something in it expires |
//!  group of pages    | 16 earliest expiries |
//! ```
//!
//! A group is allocated with the first expiring page in it and freed with the last, so that an element which starts or
//! stops to expire costs one descent, for any number of pages. Where all pages expire, 9.3 bytes a page, a quarter byte an
//! element. While only some of the first sixteen pages expire, a list replaces the groups.
//!
//! # Invariants
//! 1. An entry is the earliest expiry below it, [`NEVER`] if nothing there expires.
//! 2. A group exists exactly if one of its entries is not `NEVER`.
//! 3. The topmost group covers the last page that expires and is no higher than necessary; a list ends with that page.
//! 4. `group_bytes` is the sum of the groups' allocations.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#packed-maps-and-sets).

use super::page::NEVER;
use crate::size_class::usable_size;
use crate::work;

const FAN_OUT_BITS: u32 = 4;
const FAN_OUT: usize = 1 << FAN_OUT_BITS;

/// The earliest expiries of [`FAN_OUT`] pages or groups.
type Expiries = [u64; FAN_OUT];

#[derive(Clone)]
pub(super) enum Group {
    Pages(Box<Expiries>),
    Groups(Box<Groups>),
}

#[derive(Clone)]
pub(super) struct Groups {
    earliest: Expiries,
    below: [Option<Group>; FAN_OUT],
}

#[derive(Clone)]
pub(super) enum EarliestExpiries {
    /// The first pages' expiries, up to the last that expires.
    Few(Vec<u64>),
    /// `levels` groups from the top to the pages.
    Many { top: Group, levels: u32, group_bytes: usize },
}

fn minimum(expiries: &[u64]) -> u64 {
    expiries.iter().copied().min().unwrap_or(NEVER)
}

fn position_of_minimum(expiries: &[u64]) -> Option<usize> {
    let (position, &earliest) = expiries.iter().enumerate().min_by_key(|(_, expiry)| **expiry)?;
    (earliest != NEVER).then_some(position)
}

impl Group {
    /// A group of `levels` levels in which nothing expires.
    fn new(levels: u32) -> Group {
        if levels == 1 {
            return Group::Pages(Box::new([NEVER; FAN_OUT]));
        }
        let none = [const { None }; FAN_OUT];
        Group::Groups(Box::new(Groups { earliest: [NEVER; FAN_OUT], below: none }))
    }

    /// Puts a group below an empty one, as its first, unless nothing expires in it; returns whether it did.
    fn put_first(&mut self, lower: Group) -> bool {
        let earliest = minimum(lower.expiries());
        let (Group::Groups(groups), true) = (self, earliest < NEVER) else { return false };
        groups.earliest[0] = earliest;
        groups.below[0] = Some(lower);
        true
    }

    fn expiries(&self) -> &Expiries {
        match self {
            Group::Pages(earliest) => earliest,
            Group::Groups(groups) => &groups.earliest,
        }
    }

    /// Bytes allocated for a group `levels` levels high, without those below it.
    fn own_bytes(levels: u32) -> usize {
        usable_size(if levels == 1 { size_of::<Expiries>() } else { size_of::<Groups>() })
    }

    /// Sets a page's expiry, its number counted from this group's first; returns the group's earliest. Adjusts
    /// `group_bytes` by the groups allocated and freed.
    fn set(&mut self, levels: u32, page: usize, expiry: u64, group_bytes: &mut usize) -> u64 {
        work::visited(1);
        match self {
            Group::Pages(earliest) => {
                earliest[page] = expiry;
                minimum(&**earliest)
            }
            Group::Groups(groups) => {
                let shift = (levels - 1) * FAN_OUT_BITS;
                let (position, page) = (page >> shift, page & ((1 << shift) - 1));
                let below = &mut groups.below[position];
                if below.is_none() && expiry == NEVER {
                    return minimum(&groups.earliest);
                }
                let group = below.get_or_insert_with(|| {
                    *group_bytes += Group::own_bytes(levels - 1);
                    Group::new(levels - 1)
                });
                groups.earliest[position] = group.set(levels - 1, page, expiry, group_bytes);
                if groups.earliest[position] == NEVER {
                    *below = None;
                    *group_bytes -= Group::own_bytes(levels - 1);
                }
                minimum(&groups.earliest)
            }
        }
    }

    /// Panics unless the group agrees with the pages; returns the allocated bytes of it and the groups below.
    fn check(&self, levels: u32, first_page: usize, pages: &[u64]) -> usize {
        let mut bytes = Group::own_bytes(levels);
        assert!(minimum(self.expiries()) < NEVER, "invariant 2: a group in which nothing expires");
        let span = 1 << ((levels - 1) * FAN_OUT_BITS);
        for (position, &expiry) in self.expiries().iter().enumerate() {
            let start = (first_page + position * span).min(pages.len());
            let covered = &pages[start..(start + span).min(pages.len())];
            let earliest = covered.iter().copied().min().unwrap_or(NEVER);
            assert_eq!(expiry, earliest, "invariant 1: {position} of the group at page {first_page}");
            if let Group::Groups(groups) = self {
                assert_eq!(groups.below[position].is_some(), earliest < NEVER, "invariant 2");
                if let Some(group) = &groups.below[position] {
                    bytes += group.check(levels - 1, start, pages);
                }
            }
        }
        bytes
    }
}

impl Default for EarliestExpiries {
    fn default() -> Self {
        EarliestExpiries::Few(Vec::new())
    }
}

impl EarliestExpiries {
    /// The earliest expiry, [`NEVER`] if none expires.
    pub(super) fn earliest(&self) -> u64 {
        match self {
            EarliestExpiries::Few(pages) => minimum(pages),
            EarliestExpiries::Many { top, .. } => minimum(top.expiries()),
        }
    }

    /// The page with the earliest expiry, if any page expires.
    pub(super) fn earliest_page(&self) -> Option<usize> {
        let mut group = match self {
            EarliestExpiries::Few(pages) => return position_of_minimum(pages),
            EarliestExpiries::Many { top, .. } => top,
        };
        let mut page = 0;
        loop {
            let position = position_of_minimum(group.expiries())?;
            page = page << FAN_OUT_BITS | position;
            match group {
                Group::Pages(_) => return Some(page),
                Group::Groups(groups) => group = groups.below[position].as_ref()?,
            }
        }
    }

    pub(super) fn set(&mut self, page: usize, earliest: u64) {
        match self {
            EarliestExpiries::Few(pages) if page < FAN_OUT => set_in_few(pages, page, earliest),
            EarliestExpiries::Few(_) if earliest == NEVER => {}
            EarliestExpiries::Few(pages) => {
                let mut all = [NEVER; FAN_OUT];
                all[..pages.len()].copy_from_slice(pages);
                let (top, group_bytes) = (Group::Pages(Box::new(all)), Group::own_bytes(1));
                *self = EarliestExpiries::Many { top, levels: 1, group_bytes };
                self.set_in_many(page, earliest);
            }
            EarliestExpiries::Many { .. } => self.set_in_many(page, earliest),
        }
    }

    fn set_in_many(&mut self, page: usize, earliest: u64) {
        let EarliestExpiries::Many { top, levels, group_bytes } = self else { return };
        while page >> (*levels * FAN_OUT_BITS) != 0 {
            if earliest == NEVER {
                return;
            }
            let lower = std::mem::replace(top, Group::new(*levels + 1));
            if !top.put_first(lower) {
                *group_bytes -= Group::own_bytes(*levels);
            }
            *levels += 1;
            *group_bytes += Group::own_bytes(*levels);
        }
        top.set(*levels, page, earliest, group_bytes);
        self.lower();
    }

    /// Removes top levels that cover only one group, the first.
    fn lower(&mut self) {
        let EarliestExpiries::Many { top, levels, group_bytes } = self else { return };
        while let Group::Groups(groups) = top {
            if groups.earliest[1..].iter().any(|&expiry| expiry != NEVER) {
                return;
            }
            *group_bytes -= Group::own_bytes(*levels);
            *levels -= 1;
            match groups.below[0].take() {
                Some(group) => *top = group,
                None => {
                    (*levels, *group_bytes) = (1, Group::own_bytes(1));
                    *top = Group::new(1);
                }
            }
        }
        if let Group::Pages(earliest) = top {
            let end = earliest.iter().rposition(|&expiry| expiry != NEVER).map_or(0, |last| last + 1);
            *self = EarliestExpiries::Few(earliest[..end].to_vec());
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let below = match self {
            EarliestExpiries::Few(pages) => usable_size(pages.capacity() * size_of::<u64>()),
            EarliestExpiries::Many { group_bytes, .. } => *group_bytes,
        };
        usable_size(size_of::<Self>()) + below
    }

    /// Panics unless everything agrees with `pages`, the earliest expiry of each page.
    pub(super) fn check(&self, pages: impl Iterator<Item = u64>) {
        let mut pages: Vec<u64> = pages.collect();
        pages.truncate(pages.iter().rposition(|&expiry| expiry != NEVER).map_or(0, |last| last + 1));
        match self {
            EarliestExpiries::Few(few) => assert_eq!(few, &pages, "invariants 1 and 3"),
            EarliestExpiries::Many { top, levels, group_bytes } => {
                let last = pages.len() - 1;
                assert!(last >> (levels * FAN_OUT_BITS) == 0, "invariant 3: the last page is covered");
                assert!(last >> ((levels - 1) * FAN_OUT_BITS) != 0, "invariant 3: an idle level");
                assert_eq!(top.check(*levels, 0, &pages), *group_bytes, "invariant 4");
            }
        }
    }
}

/// Sets the expiry of a page in a list; the list ends with the last page that expires.
fn set_in_few(pages: &mut Vec<u64>, page: usize, earliest: u64) {
    if page < pages.len() {
        pages[page] = earliest;
        let end = pages.iter().rposition(|&expiry| expiry != NEVER).map_or(0, |last| last + 1);
        pages.truncate(end);
        if pages.len() < pages.capacity() / 2 {
            pages.shrink_to_fit();
        }
    } else if earliest != NEVER {
        pages.reserve_exact(page + 1 - pages.len());
        pages.resize(page, NEVER);
        pages.push(earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut random = Random::new(3);
        let mut list = vec![NEVER; 5_000];
        let mut tree = EarliestExpiries::default();
        let steps = if cfg!(miri) { 300 } else { 20_000 };
        for step in 0..steps {
            // Few pages that expire, then many, then few, near the front or anywhere.
            let clears = if (step / 2_000) % 2 == 0 { 7 } else { 2 };
            let reach = if (step / 1_000) % 3 == 0 { 40 } else { list.len() as u64 };
            let page = random.below(reach) as usize;
            let expiry = if random.below(10) < clears { NEVER } else { random.below(1_000) };
            list[page] = expiry;
            tree.set(page, expiry);
            let earliest = list.iter().copied().min().unwrap_or(NEVER);
            assert_eq!(tree.earliest(), earliest);
            assert_eq!(tree.earliest_page().map(|page| list[page]), Some(earliest).filter(|&e| e != NEVER));
            if step % 50 == 0 {
                tree.check(list.iter().copied());
            }
        }
        for page in 0..list.len() {
            tree.set(page, NEVER);
        }
        assert!(matches!(tree, EarliestExpiries::Few(pages) if pages.is_empty()));
    }

    #[test]
    fn one_page_of_very_many_costs_one_way_down() {
        let mut tree = EarliestExpiries::default();
        tree.set(40_000_000, 7);
        assert_eq!(tree.earliest_page(), Some(40_000_000));
        assert!(tree.memory_bytes() < 3_000, "{} bytes", tree.memory_bytes());
        tree.set(40_000_000, NEVER);
        assert!(matches!(tree, EarliestExpiries::Few(pages) if pages.is_empty()));
    }
}
