//! `--keystats`: memory and number of elements of keys, the largest keys, results by type, and distributions of sizes
//! and lengths of names.

mod report;

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Failure;
use crate::key_sizes::{KeyTypes, Measure};
use crate::options::Options;
use crate::program::{Program, is_watched};
use crate::scan::{Walk, allow_reads, total_keys};
use crate::session::Session;

const REFRESH: Duration = Duration::from_millis(300);
/// Resolution of sizes: one part in ten thousand, up to a terabyte.
const SIZE_MAX: u64 = 1 << 40;
const SIZE_DIGITS: u8 = 4;

struct TopKey {
    size: u64,
    type_name: String,
    key: Vec<u8>,
}

/// Results of the scan so far.
struct Statistics {
    total_keys: u64,
    sampled: u64,
    total_bytes: u64,
    /// By memory, and by elements.
    by_memory: KeyTypes,
    by_elements: KeyTypes,
    /// In descending order.
    top: Vec<TopKey>,
    top_len_max: usize,
    sizes: Histogram<u64>,
    name_lengths: report::NameLengths,
}

impl Statistics {
    fn new(total_keys: u64, top_len_max: usize) -> Result<Statistics, Failure> {
        let sizes = Histogram::new_with_max(SIZE_MAX, SIZE_DIGITS);
        Ok(Statistics {
            total_keys,
            sampled: 0,
            total_bytes: 0,
            by_memory: KeyTypes::new(),
            by_elements: KeyTypes::new(),
            top: Vec::new(),
            top_len_max,
            sizes: sizes.map_err(|error| Failure::Usage(error.to_string()))?,
            name_lengths: report::NameLengths::default(),
        })
    }

    fn add(&mut self, key: &[u8], index: usize, bytes: u64, elements: u64) {
        self.sampled += 1;
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        self.by_memory.0[index].add(key, bytes);
        self.by_elements.0[index].add(key, elements);
        self.sizes.saturating_record(bytes.max(1));
        self.name_lengths.add(key.len() as u64);
        let place = self.top.partition_point(|other| other.size >= bytes);
        if place < self.top_len_max {
            let type_name = self.by_memory.0[index].name.clone();
            self.top.insert(place, TopKey { size: bytes, type_name, key: key.to_vec() });
            self.top.truncate(self.top_len_max);
        }
    }

    fn sample(&mut self, session: &mut Session, keys: &[Vec<u8>], memory: Measure) -> Result<(), Failure> {
        let types = self.by_memory.of_keys(session, keys)?;
        let bytes = self.by_memory.sizes(session, keys, &types, memory)?;
        // Both have the same types in the same order, so an index means the same in both.
        let again = self.by_elements.of_keys(session, keys)?;
        let elements = self.by_elements.sizes(session, keys, &again, Measure::Elements)?;
        for (place, key) in keys.iter().enumerate() {
            if let (Some(index), true) = (types[place], types[place] == again[place]) {
                self.add(key, index, bytes[place], elements[place]);
            }
        }
        Ok(())
    }
}

/// Overwrites the lines printed before, at a terminal.
fn print_lines(lines: &[String], is_watched: bool) {
    let clear = if is_watched { "\x1b[2K\r" } else { "" };
    let text: String = lines.iter().map(|line| format!("{clear}{line}\n")).collect();
    client::print_bytes(text.as_bytes());
}

pub fn run(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let memory = Measure::Memory(options.keystats_samples.or(options.memkeys_samples));
    let is_watched = is_watched();
    let total = total_keys(session)?;
    print_line!("\n# Scanning the entire keyspace to find the biggest keys and distribution information.");
    print_line!("# Use -i 0.1 to sleep 0.1 sec per 100 SCAN commands (not usually needed).");
    print_line!("# Use --cursor <n> to start the scan at the cursor <n> (usually after a Ctrl-C).");
    print_line!("# Use --top <n> to display <n> top key sizes (default is 10).");
    print_line!("# Ctrl-C to stop the scan.\n");
    allow_reads(session)?;

    let mut statistics = Statistics::new(total, options.top)?;
    let mut walk = Walk::new(session, options)?;
    walk.cursor = options.cursor;
    let mut shown = Instant::now();
    while let Some(keys) = walk.next(session)? {
        statistics.sample(session, &keys, memory)?;
        if is_watched && shown.elapsed() > REFRESH {
            let lines = statistics.overview(is_watched);
            print_lines(&lines, is_watched);
            print_text!("\x1b[{}A\r", lines.len());
            shown = Instant::now();
        }
    }
    print_lines(&statistics.overview(is_watched), is_watched);
    print_lines(&statistics.distributions(), is_watched);
    if walk.cursor != 0 {
        let name = Program::current().name;
        print_line!(
            "\nScan interrupted:\nUse '{name} --keystats --cursor {}' to restart from the last cursor.",
            walk.cursor
        );
    }
    Ok(())
}
