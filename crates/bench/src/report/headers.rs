//! Structures of sorted sets without a server: the cost of a separate header.

use std::hint::black_box;
use std::time::Instant;

use structures::hash::HashSeed;
use structures::ordered_set::OrderedSet;
use structures::ordered_set::fbtree::FbTree;
use structures::ordered_set::skip_list::SkipList;

use super::page::Table;
use super::{Bench, count, short};
use crate::compare::median;
use crate::template::Random;

const VISITS: u64 = 1_000_000;

/// Bytes per set, and nanoseconds to access its first member.
type Found = (f64, f64);

pub fn table(bench: &Bench, counts: &[u64], members: u64) -> Table {
    let mut table = Table::new(
        "The structures alone, without a server: nanoseconds to access the first member of a random set (bytes per set):",
        &["sets", "fbtree", "skip list", "skip list, separate header"],
    );
    for sets in counts {
        bench.progress(&format!("{} sets in this process", count(*sets)));
        let visits = bench.scaled(VISITS);
        let found: [Found; 3] = [
            first_of(*sets, members, visits, bench.runs, |number| FbTree::new(seed(number))),
            first_of(*sets, members, visits, bench.runs, |number| SkipList::new(seed(number), number)),
            first_of(*sets, members, visits, bench.runs, |number| {
                SkipList::with_separate_header(seed(number), number)
            }),
        ];
        let cells = found.iter().map(|(bytes, ns)| format!("{} ({bytes:.0})", short(*ns)));
        table.row(std::iter::once(count(*sets)).chain(cells).collect());
    }
    table
}

fn seed(number: u64) -> HashSeed {
    HashSeed::new(number, 77)
}

fn first_of<S: OrderedSet>(sets: u64, members: u64, visits: u64, runs: u32, new: impl Fn(u64) -> S) -> Found {
    let names: Vec<String> = (0..members).map(|member| format!("member:{member}")).collect();
    let build = |number: u64| {
        let mut set = Box::new(new(number));
        for (score, name) in names.iter().enumerate() {
            set.insert(name.as_bytes(), score as f64).expect("a small set is never full");
        }
        set
    };
    let built: Vec<Box<S>> = (0..sets).map(build).collect();
    let mut random = Random::new(sets, 7);
    let mut run = || {
        let order: Vec<u64> = (0..visits).map(|_| random.next_number()).collect();
        let start = Instant::now();
        let lengths: usize =
            order.iter().map(|number| built[*number as usize].member_at(0).map_or(0, <[u8]>::len)).sum();
        black_box(lengths);
        start.elapsed().as_nanos() as f64 / visits as f64
    };
    let times = (0..=runs).map(|_| run()).skip(1).collect();
    let bytes = built.first().map_or(0, |set| set.memory_bytes() + size_of::<S>());
    (bytes as f64, median(times))
}
