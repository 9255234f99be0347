//! The log from which replicas are sent, against a copy for each reader and against one ring of bytes: time per
//! command appended and read, and the longest single append while a reader does not read.

mod measuring;

use measuring::{Slices, scaled};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;
use structures::shared_log::SharedLog;

const READERS: usize = 2;
const BEHIND_BYTES: u64 = 10 << 20;
const STALLED_BYTES: u64 = 64 << 20;
const COMMAND: [u8; 64] = [b'c'; 64];
/// Commands between two reads by the readers.
const COMMANDS_PER_TURN: usize = 160;

/// A log and its readers.
trait Log {
    const NAME: &'static str;
    fn new() -> Self;
    fn append(&mut self, bytes: &[u8]);
    /// Every reader reads up to `behind_bytes` before the end; returns the sum of the bytes at the ends of runs.
    fn read(&mut self, behind_bytes: u64) -> u64;
}

struct Shared {
    log: SharedLog,
    readers: [u64; READERS],
}

impl Log for Shared {
    const NAME: &'static str = "shared log";
    fn new() -> Self {
        Shared { log: SharedLog::new(0), readers: [0; READERS] }
    }
    fn append(&mut self, bytes: &[u8]) {
        self.log.append(bytes);
    }
    fn read(&mut self, behind_bytes: u64) -> u64 {
        let target = self.log.end().saturating_sub(behind_bytes);
        let mut sum = 0;
        for reader in &mut self.readers {
            let mut left = target.saturating_sub(*reader);
            for run in self.log.slices(*reader) {
                if left == 0 {
                    break;
                }
                sum += u64::from(run[0]);
                left = left.saturating_sub(run.len() as u64);
            }
            *reader = (*reader).max(target);
        }
        self.log.trim_to(target);
        sum
    }
}

struct Copies([VecDeque<Vec<u8>>; READERS]);

impl Log for Copies {
    const NAME: &'static str = "a copy for each";
    fn new() -> Self {
        Copies(Default::default())
    }
    fn append(&mut self, bytes: &[u8]) {
        for copy in &mut self.0 {
            match copy.back_mut() {
                Some(last) if last.len() + bytes.len() <= last.capacity() => last.extend_from_slice(bytes),
                _ => {
                    let mut block = Vec::with_capacity(structures::shared_log::BLOCK_BYTES);
                    block.extend_from_slice(bytes);
                    copy.push_back(block);
                }
            }
        }
    }
    fn read(&mut self, behind_bytes: u64) -> u64 {
        let blocks = behind_bytes as usize / structures::shared_log::BLOCK_BYTES;
        let mut sum = 0;
        for copy in &mut self.0 {
            while copy.len() > blocks + 1 {
                sum += copy.pop_front().map_or(0, |block| u64::from(block[0]));
            }
        }
        sum
    }
}

struct Ring {
    bytes: VecDeque<u8>,
}

impl Log for Ring {
    const NAME: &'static str = "ring of bytes";
    fn new() -> Self {
        Ring { bytes: VecDeque::new() }
    }
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }
    fn read(&mut self, behind_bytes: u64) -> u64 {
        let taken = (self.bytes.len() as u64).saturating_sub(behind_bytes) as usize;
        let sum = (0..READERS).map(|_| self.bytes.front().map_or(0, |byte| u64::from(*byte))).sum();
        self.bytes.drain(..taken);
        sum
    }
}

fn measure<L: Log>() {
    let mut log = L::new();
    let commands = scaled(1_000_000);
    let turns = commands / COMMANDS_PER_TURN;
    let mut slices = Slices::default();
    let turn_of = |log: &mut L| {
        (0..COMMANDS_PER_TURN).for_each(|_| log.append(black_box(&COMMAND)));
        black_box(log.read(BEHIND_BYTES));
    };
    let turns_to_fill = BEHIND_BYTES as usize / (COMMANDS_PER_TURN * COMMAND.len());
    (0..=turns_to_fill).for_each(|_| turn_of(&mut log));
    for _ in 0..turns {
        slices.add(COMMANDS_PER_TURN, || turn_of(&mut log));
    }
    let mut longest_ns = 0;
    for _ in 0..STALLED_BYTES / COMMAND.len() as u64 {
        let started = Instant::now();
        log.append(black_box(&COMMAND));
        longest_ns = longest_ns.max(started.elapsed().as_nanos());
    }
    println!(
        "{:16} {:6.1} ns a command, longest append {:8.1} us with a reader {} MB behind",
        L::NAME,
        slices.lowest_decile(),
        longest_ns as f64 / 1e3,
        STALLED_BYTES >> 20
    );
}

fn main() {
    measure::<Shared>();
    measure::<Copies>();
    measure::<Ring>();
}
