//! Insertion and removal at the ends, where columns of leaves are open.

use super::*;

/// A run whose scores extend beyond both ends in steps of one size.
struct Ends {
    run: Run,
    spread: f64,
    lowest: f64,
    highest: f64,
    next: u64,
}

impl Ends {
    fn new(seed: u64, shape: Shape, spread: f64) -> Self {
        Ends { run: Run::new(seed, Kind::Plain, shape), spread, lowest: 0.0, highest: 0.0, next: 0 }
    }

    /// Inserts a member that was never in the set, sometimes a long one.
    fn insert(&mut self, score: f64) {
        self.next += 1;
        let len = if self.run.random.below(60) == 0 { 300 } else { 6 };
        let member = format!("{:0len$}", self.next).into_bytes();
        let expected = self.run.model.insert(&member, score);
        assert_eq!(self.run.tree.insert(&member, score), Ok(expected));
    }

    fn come(&mut self, above: bool) {
        // Sometimes the same score again, so that the members decide the order.
        let step = if self.run.random.below(20) == 0 { 0.0 } else { self.spread };
        let score = if above { self.highest + step } else { self.lowest - step };
        (self.lowest, self.highest) = (score.min(self.lowest), score.max(self.highest));
        self.insert(score);
    }

    /// Removes some members at one end, at once.
    fn go(&mut self, above: bool, count: usize) {
        let len = self.run.tree.len();
        let count = count.min(len);
        let ranks = if above { len - count..len } else { 0..count };
        let expected: Vec<_> = self.run.model.ordered[ranks.clone()].to_vec();
        assert_eq!(self.run.tree.drop_range(ranks), count);
        expected.iter().for_each(|(_, member)| {
            self.run.model.remove(member);
        });
    }

    /// Moves the member at one end beyond the other.
    fn change_ends(&mut self, above: bool) {
        let last = self.run.model.ordered.len().saturating_sub(1);
        let Some((member, _)) = self.run.model.at(if above { 0 } else { last }) else { return };
        let member = member.to_vec();
        let score = if above { self.highest + self.spread } else { self.lowest - self.spread };
        (self.lowest, self.highest) = (score.min(self.lowest), score.max(self.highest));
        let expected = self.run.model.insert(&member, score);
        assert_eq!(self.run.tree.insert(&member, score), Ok(expected));
    }

    /// Inserts, removes or moves a member between the ends.
    fn within(&mut self) {
        let len = self.run.model.ordered.len() as u64;
        let Some((member, score)) = self.run.model.at(self.run.random.below(len.max(1)) as usize) else {
            return;
        };
        let member = member.to_vec();
        match self.run.random.below(3) {
            0 => self.insert(score),
            1 => assert_eq!(self.run.tree.remove(&member), self.run.model.remove(&member)),
            _ => {
                let expected = self.run.model.insert(&member, score + self.spread);
                assert_eq!(self.run.tree.insert(&member, score + self.spread), Ok(expected));
            }
        }
    }

    fn check(&self) {
        self.run.check();
        for (rank, (member, score)) in self.run.model.pairs().enumerate() {
            assert_eq!(self.run.tree.rank(member), Some((rank, score)));
        }
    }

    /// Some steps of one kind: at one end, at both in turn, as a queue, or between.
    fn phase(&mut self, wanted: usize) {
        let (kind, above) = (self.run.random.below(9), self.run.random.below(2) == 0);
        for nth in 0..1 + self.run.random.below(60) {
            let short = self.run.model.ordered.len() < wanted;
            match kind {
                0 | 1 if short => self.come(above),
                2 if short => self.come(nth % 2 == 0),
                3 if nth < 10 => {
                    let count = self.run.random.below(20) as usize;
                    self.go(above, count);
                }
                4 => {
                    self.come(above);
                    self.go(!above, 1);
                }
                5 => {
                    self.come(above);
                    self.go(above, 1);
                }
                6 => self.within(),
                7 => self.change_ends(above),
                _ => self.go(above, 1),
            }
            if self.run.model.ordered.len() <= 300 || nth % 16 == 0 {
                self.run.check();
            }
        }
        self.check();
    }
}

#[test]
fn members_come_and_go_at_both_ends() {
    for (at, spread) in [1.0, 0.25, 70_000.0, 1e300].into_iter().enumerate() {
        for (shape_at, shape) in SHAPES.into_iter().enumerate() {
            let seed = (200 + 10 * at + shape_at) as u64;
            println!("seed {seed}, {shape:?}, steps of {spread}");
            let mut ends = Ends::new(seed, shape, spread);
            for phase in 0..sized(400, 6) {
                ends.phase([20, 45, 130, 600][phase / 4 % 4]);
            }
        }
    }
}

/// Steps of many sizes, so that columns become wider and narrower while they are open below.
#[test]
fn members_at_both_ends_whose_scores_go_on_in_other_steps() {
    for (shape_at, shape) in SHAPES.into_iter().enumerate() {
        let seed = 300 + shape_at as u64;
        println!("seed {seed}, {shape:?}");
        let mut ends = Ends::new(seed, shape, 1.0);
        for phase in 0..sized(800, 6) {
            ends.spread = [1.0, 0.0, 0.25, 1.0, 70_000.0, 1e-9, 1e12][ends.run.random.below(7) as usize];
            if phase % 100 == 99 {
                ends.run.tree.drop_range(ALL_RANKS);
                (ends.run.model, ends.lowest, ends.highest) = (Model::default(), 0.0, 0.0);
            }
            ends.phase([20, 45, 130, 600][phase / 4 % 4]);
        }
    }
}

/// An insertion below all others moves few bytes besides its own, as one above does; a removal there moves none.
#[test]
#[cfg(debug_assertions)]
fn nothing_moves_for_members_at_either_end() {
    let count = sized(5_000, 200) as u64;
    let mut moved = [0; 2];
    for (at, upwards) in [true, false].into_iter().enumerate() {
        let mut set = FbTree::new(SEED);
        work::take();
        for nth in 0..count as i32 {
            let score = f64::from(if upwards { nth } else { -nth });
            set.insert(format!("{nth:012}").as_bytes(), score).unwrap();
        }
        moved[at] = work::take().moved / count;
        set.check();
    }
    assert!(moved[1] < moved[0] + 24, "{moved:?} bytes above and below");
    let mut set = FbTree::new(SEED);
    (0..100).for_each(|nth| {
        set.insert(format!("{nth:012}").as_bytes(), f64::from(nth)).unwrap();
    });
    work::take();
    for _ in 0..10 {
        assert_eq!(set.drop_range(0..1), 1);
    }
    assert_eq!(work::take().moved, 0, "bytes that move when the lowest goes");
}
