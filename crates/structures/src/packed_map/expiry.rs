//! The earliest expiry of each page and, above those, of every sixteen: what is due is found by one descent.
//!
//! Exists only while some field of a map expires. Level 0 has an entry a page; entry `i` of a level is the
//! minimum of entries `16 i .. 16 i + 16` of the level below. About 8.6 bytes a page, a quarter byte a field.

use super::page::NEVER;
use crate::size_class::usable_size;

const FAN_OUT: usize = 16;

pub(super) struct EarliestExpiries {
    levels: Vec<Vec<u64>>,
}

impl EarliestExpiries {
    /// For `pages` pages of which none expires.
    pub(super) fn new(pages: usize) -> EarliestExpiries {
        let mut levels = vec![vec![NEVER; pages]];
        while levels[levels.len() - 1].len() > FAN_OUT {
            let above = levels[levels.len() - 1].len().div_ceil(FAN_OUT);
            levels.push(vec![NEVER; above]);
        }
        EarliestExpiries { levels }
    }

    /// The earliest of all, [`NEVER`] if none expires.
    pub(super) fn earliest(&self) -> u64 {
        self.levels[self.levels.len() - 1].iter().copied().min().unwrap_or(NEVER)
    }

    pub(super) fn of_page(&self, page: usize) -> u64 {
        self.levels[0][page]
    }

    /// The page whose earliest expiry is the earliest of all, if any page expires.
    pub(super) fn earliest_page(&self) -> Option<usize> {
        let mut index = 0;
        for (number, level) in self.levels.iter().enumerate().rev() {
            let start = if number + 1 == self.levels.len() { 0 } else { index * FAN_OUT };
            let group = &level[start..(start + FAN_OUT).min(level.len())];
            let (offset, &earliest) = group.iter().enumerate().min_by_key(|(_, expiry)| **expiry)?;
            if earliest == NEVER {
                return None;
            }
            index = start + offset;
        }
        Some(index)
    }

    pub(super) fn set(&mut self, page: usize, earliest: u64) {
        if self.levels[0][page] == earliest {
            return;
        }
        self.levels[0][page] = earliest;
        self.update_above(page);
    }

    pub(super) fn push(&mut self, earliest: u64) {
        let mut index = self.levels[0].len();
        self.levels[0].push(NEVER);
        for number in 1.. {
            index /= FAN_OUT;
            if number == self.levels.len() {
                if self.levels[number - 1].len() <= FAN_OUT {
                    break;
                }
                let first_group = self.levels[number - 1][..FAN_OUT].iter().copied().min();
                self.levels.push(vec![first_group.unwrap_or(NEVER)]);
            }
            if self.levels[number].len() == index {
                self.levels[number].push(NEVER);
            }
        }
        self.set(self.levels[0].len() - 1, earliest);
    }

    pub(super) fn pop(&mut self) {
        let Some(last) = self.levels[0].len().checked_sub(1) else { return };
        // As a page that never expires it counts in no minimum, so truncation leaves all others true.
        self.set(last, NEVER);
        let mut len = last;
        self.levels[0].truncate(len);
        for number in 1..self.levels.len() {
            len = len.div_ceil(FAN_OUT);
            self.levels[number].truncate(len);
        }
        while self.levels.len() > 1 && self.levels[self.levels.len() - 2].len() <= FAN_OUT {
            self.levels.pop();
        }
        for level in &mut self.levels {
            if level.len() < level.capacity() / 4 {
                level.shrink_to(level.len() * 2);
            }
        }
    }

    fn update_above(&mut self, page: usize) {
        let mut index = page / FAN_OUT;
        for number in 1..self.levels.len() {
            let start = index * FAN_OUT;
            let below = &self.levels[number - 1];
            let group = &below[start..(start + FAN_OUT).min(below.len())];
            let earliest = group.iter().copied().min().unwrap_or(NEVER);
            if self.levels[number][index] == earliest {
                return;
            }
            self.levels[number][index] = earliest;
            index /= FAN_OUT;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| usable_size(level.capacity() * 8)).sum();
        levels + usable_size(self.levels.capacity() * size_of::<Vec<u64>>()) + usable_size(size_of::<Self>())
    }

    /// Panics unless the levels agree with `pages`, the earliest expiry of each page.
    pub(super) fn check(&self, pages: impl Iterator<Item = u64>) {
        assert!(self.levels[0].iter().copied().eq(pages), "an entry for each page, its earliest expiry");
        for pair in self.levels.windows(2) {
            let minima = pair[0].chunks(FAN_OUT).map(|group| group.iter().copied().min().unwrap_or(NEVER));
            assert!(minima.eq(pair[1].iter().copied()), "an entry for each group, its minimum");
        }
        assert!(self.levels[self.levels.len() - 1].len() <= FAN_OUT, "one group at the top");
        assert!(
            self.levels.len() == 1 || self.levels[self.levels.len() - 2].len() > FAN_OUT,
            "no idle level"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut random = Random::new(3);
        let mut list: Vec<u64> = Vec::new();
        let mut tree = EarliestExpiries::new(0);
        let steps = if cfg!(miri) { 300 } else { 20_000 };
        for step in 0..steps {
            let growing = (step / 1_000) % 3 != 2;
            match random.below(10) {
                0..4 if growing => {
                    let expiry = random.below(1_000);
                    list.push(expiry);
                    tree.push(expiry);
                }
                0..4 if !list.is_empty() => {
                    list.pop();
                    tree.pop();
                }
                _ if !list.is_empty() => {
                    let page = random.below(list.len() as u64) as usize;
                    let expiry = if random.below(3) == 0 { NEVER } else { random.below(1_000) };
                    list[page] = expiry;
                    tree.set(page, expiry);
                }
                _ => {}
            }
            let earliest = list.iter().copied().min().unwrap_or(NEVER);
            assert_eq!(tree.earliest(), earliest);
            assert_eq!(tree.earliest_page().map(|page| list[page]), Some(earliest).filter(|&e| e != NEVER));
            if step % 50 == 0 {
                tree.check(list.iter().copied());
                EarliestExpiries::new(list.len()).check(list.iter().map(|_| NEVER));
            }
        }
    }
}
