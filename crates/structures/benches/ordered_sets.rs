//! The ordered sets: time per operation, hot and cold, and memory per member.
//!
//! Hot is one set, visited repeatedly. Cold is many sets of the same size, visited in turn, in all at least twice the
//! last-level cache for the most compact structure. Members are 16 bytes without a pattern, scores random integers,
//! insertion in random order.

mod measuring;

use measuring::{Slices, cold_bytes, evict_caches, hexadecimal, scaled, shuffle_visits, sizes};
use std::hint::black_box;
use structures::hash::HashSeed;
use structures::ordered_set::fbtree::FbTree;
use structures::ordered_set::skip_list::{SeparateHeader, SkipList};
use structures::ordered_set::{OrderedSet, ScoreBound};
use structures::random::Random;

/// Cold sets have in all at least the number of members that fill twice the last-level cache at this density.
const DENSEST_BYTES_PER_MEMBER: u64 = 28;
const SCORE_END: u64 = 1 << 30;
/// Members are visited in steps of this prime, which is coprime to every size, so that none is repeated.
const STRIDE: u64 = 7_919;

/// One operation, chosen before the clock starts.
struct Operation {
    set: u32,
    rank: u32,
    member: [u8; 16],
    /// The member's initial score.
    score: f64,
    other_score: f64,
}

/// Sets of one size under measurement.
struct Bed<S> {
    sets: Vec<Box<S>>,
    size: usize,
    random: Random,
    turn: u64,
}

fn score_of(id: u64) -> f64 {
    Random::new(!id).below(SCORE_END) as f64
}

impl<S: OrderedSet> Bed<S> {
    /// Builds `count` sets of `size` members each; also returns the bytes per member.
    fn build(new: fn(u64) -> S, count: usize, size: usize) -> (Self, f64) {
        let before = measuring::allocated_bytes();
        let mut sets: Vec<Box<S>> = (0..count).map(|seed| Box::new(new(seed as u64))).collect();
        for set in &mut sets {
            for id in 0..size as u64 {
                set.insert(&hexadecimal(id), score_of(id)).expect("sizes are below the maximum");
            }
        }
        let bytes = measuring::allocated_bytes() - before;
        let bed = Bed { sets, size, random: Random::new(1), turn: 0 };
        (bed, bytes as f64 / (count * size) as f64)
    }

    /// The next `count` visits, one set after the other; no set has a member visited twice within `size` visits.
    fn plan(&mut self, count: usize) -> Vec<Operation> {
        let sets = self.sets.len() as u64;
        let mut next = || {
            let visit = self.turn / sets;
            let set = (self.turn % sets) as u32;
            self.turn += 1;
            let id = (visit * STRIDE + set as u64) % self.size as u64;
            Operation {
                set,
                rank: self.random.below(self.size as u64) as u32,
                member: hexadecimal(id),
                score: score_of(id),
                other_score: self.random.below(SCORE_END) as f64,
            }
        };
        (0..count).map(|_| next()).collect()
    }

    /// As `plan`, with members that are in no set.
    fn plan_new(&mut self, count: usize) -> Vec<Operation> {
        let mut plan = self.plan(count);
        let sets = self.sets.len();
        for (i, operation) in plan.iter_mut().enumerate() {
            operation.member = hexadecimal((self.size + i / sets) as u64);
        }
        plan
    }

    /// Carries out a plan in slices.
    fn run<T>(
        &mut self,
        slices: &mut Slices,
        plan: &[Operation],
        mut body: impl FnMut(&mut S, &Operation) -> T,
    ) {
        slices.add_all(plan, |operation| {
            black_box(body(&mut self.sets[operation.set as usize], operation));
        });
    }

    fn is_cold(&self) -> bool {
        self.sets.len() > 1
    }

    /// Visits between two restorations of the sets: none grows or shrinks by more than an eighth, or 32.
    fn batch(&self, operations: usize) -> usize {
        let per_set =
            (self.size / 8).min(operations / self.sets.len()).max(if self.is_cold() { 1 } else { 32 });
        per_set * self.sets.len()
    }

    /// Nanoseconds per operation that does not change the set, or not in a way that matters.
    fn reading<T>(&mut self, operations: usize, body: impl FnMut(&mut S, &Operation) -> T) -> f64 {
        let mut plan = self.plan(operations);
        // The same visits in one order, hundreds of times, would train the branch predictor on each comparison.
        shuffle_visits(&mut plan, self.sets.len(), &mut self.random);
        let mut slices = Slices::default();
        self.run(&mut slices, &plan, body);
        slices.lowest_decile()
    }

    /// Nanoseconds per removal, and per reinsertion of the removed members, at random positions.
    fn removing_and_inserting(&mut self, operations: usize) -> (f64, f64) {
        let (mut removing, mut inserting) = (Slices::default(), Slices::default());
        let batch = self.batch(operations);
        let mut done = 0;
        while done < operations {
            let mut plan = self.plan(batch);
            shuffle_visits(&mut plan, self.sets.len(), &mut self.random);
            self.run(&mut removing, &plan, |set, operation| set.remove(&operation.member));
            if self.is_cold() {
                evict_caches();
            }
            shuffle_visits(&mut plan, self.sets.len(), &mut self.random);
            self.run(&mut inserting, &plan, |set, operation| set.insert(&operation.member, operation.score));
            done += batch;
        }
        (removing.lowest_decile(), inserting.lowest_decile())
    }

    /// Nanoseconds per insertion beyond one end.
    fn inserting_at_an_end(&mut self, operations: usize, ascending: bool) -> f64 {
        let mut slices = Slices::default();
        let (batch, sets) = (self.batch(operations), self.sets.len());
        let mut done = 0;
        while done < operations {
            let mut plan = self.plan_new(batch);
            for (i, operation) in plan.iter_mut().enumerate() {
                let beyond = (1 + i / sets) as f64;
                operation.score = if ascending { SCORE_END as f64 + beyond } else { -beyond };
            }
            self.run(&mut slices, &plan, |set, operation| set.insert(&operation.member, operation.score));
            done += batch;
            for set in &mut self.sets {
                let added = set.len() - self.size;
                let range = if ascending { self.size..set.len() } else { 0..added };
                set.remove_range(range, &mut |_, _| {});
            }
            if self.is_cold() {
                evict_caches();
            }
        }
        slices.lowest_decile()
    }

    /// Nanoseconds per removal of `length` ranks at random; the removed members are inserted again afterwards.
    fn removing_ranges(&mut self, operations: usize, length: usize) -> f64 {
        let batch = if self.is_cold() { self.sets.len().min(operations) } else { 1 };
        self.removing(operations, batch, length, |operation, last| (operation.rank as usize).min(last))
    }

    /// Nanoseconds per removal of the lowest member, or of the highest.
    fn popping(&mut self, operations: usize, highest: bool) -> f64 {
        let batch = self.batch(operations);
        self.removing(operations, batch, 1, |_, last| if highest { last } else { 0 })
    }

    /// Nanoseconds per removal of `length` ranks from the one that `start` returns for an operation and the last one possible.
    /// The members of a batch are inserted again after it.
    fn removing(
        &mut self,
        operations: usize,
        batch: usize,
        length: usize,
        start: impl Fn(&Operation, usize) -> usize,
    ) -> f64 {
        let mut slices = Slices::default();
        let mut done = 0;
        while done < operations {
            let plan = self.plan(batch);
            let mut back: Vec<(u32, [u8; 16], f64)> = Vec::with_capacity(batch * length);
            self.run(&mut slices, &plan, |set, operation| {
                let start = start(operation, set.len() - length);
                set.remove_range(start..start + length, &mut |member, score| {
                    back.push((operation.set, member.try_into().expect("16 bytes"), score));
                })
            });
            for (set, member, score) in back {
                self.sets[set as usize].insert(&member, score).expect("it was in the set before");
            }
            if self.is_cold() {
                evict_caches();
            }
            done += batch;
        }
        slices.lowest_decile()
    }
}

/// All measurements of one structure at one size and temperature.
fn measure<S: OrderedSet>(name: &str, new: fn(u64) -> S, size: usize, cold: bool) {
    let members = cold_bytes() / DENSEST_BYTES_PER_MEMBER;
    let count = if cold { (members as usize).div_ceil(size) } else { 1 };
    let temperature = if cold { "cold" } else { "hot" };
    let (mut bed, bytes_per_member) = Bed::build(new, count, size);
    if cold {
        measuring::note_memory(name, "", size, bytes_per_member);
    }
    // Cold: several visits to each set, so that insertions find pages with and without room; by a set's next visit the
    // others have evicted it.
    let many = scaled(if cold { 40_000 } else { 100_000 }).max(if cold { 4 * count } else { 0 });
    let row = |operation: &str, ns: f64| measuring::note_time(name, operation, size, temperature, ns);

    row("score of member", bed.reading(many, |set, operation| set.score(&operation.member)));
    row("rank of member", bed.reading(many, |set, operation| set.rank(&operation.member)));
    row(
        "member at rank",
        bed.reading(many, |set, operation| set.at(operation.rank as usize).map(|(member, _)| member[0])),
    );
    row("lowest member", bed.reading(many, |set, _| set.member_at(0).map(|member| member[0])));
    row("highest member", bed.reading(many, |set, _| set.member_at(set.len() - 1).map(|member| member[0])));
    for length in [10, 100, 1_000] {
        if length <= size {
            let walks = (many * 10 / length).min(many);
            row(
                &format!("iterate {length}"),
                bed.reading(walks, |set, operation| iterate(set, operation, length)),
            );
        }
    }
    row("count a range", bed.reading(many, |set, operation| count_tenth(set, operation.score)));
    let update = |set: &mut S, operation: &Operation| set.insert(&operation.member, operation.other_score);
    row("update score", bed.reading(many, update));
    let (removing, inserting) = bed.removing_and_inserting(many);
    row("remove", removing);
    row("insert random", inserting);
    row("insert ascending", bed.inserting_at_an_end(many, true));
    row("insert descending", bed.inserting_at_an_end(many, false));
    row("remove the lowest", bed.popping(many, false));
    row("remove the highest", bed.popping(many, true));
    row("remove a range of 100", bed.removing_ranges(many / 60, 100));
}

/// Iterates over `length` members upwards, reading member and score.
fn iterate<S: OrderedSet>(set: &S, operation: &Operation, length: usize) -> f64 {
    let start = (operation.rank as usize).min(set.len() - length);
    let mut sum = 0.0;
    for (member, score) in set.ascending(start..start + length) {
        sum += score + member[15] as f64;
    }
    sum
}

/// Counts the scores in a tenth of the domain.
fn count_tenth<S: OrderedSet>(set: &S, score: f64) -> usize {
    let end = score + SCORE_END as f64 / 10.0;
    set.score_range(ScoreBound::Inclusive(score), ScoreBound::Exclusive(end)).len()
}

fn seeded(number: u64) -> HashSeed {
    HashSeed::new(number, 77)
}

fn fbtree(seed: u64) -> FbTree {
    FbTree::new(seeded(seed))
}

fn embedded(seed: u64) -> SkipList {
    SkipList::new(seeded(seed), seed)
}

fn separate(seed: u64) -> SkipList<SeparateHeader> {
    SkipList::with_separate_header(seeded(seed), seed)
}

fn main() {
    let temperatures: &[bool] =
        if measuring::is_set("WARMLINE_BENCH_HOT") { &[false] } else { &[false, true] };
    for size in std::iter::repeat_n(sizes(), measuring::passes()).flatten() {
        for &cold in temperatures {
            measure("fbtree", fbtree, size, cold);
            measure("skip list", embedded, size, cold);
            measure("skip list, separate header", separate, size, cold);
        }
    }
    measuring::save("ordered_sets");
}
