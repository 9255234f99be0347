//! Prefetching off and on, with one and two I/O threads.

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, count, short};
use crate::cases::{Case, Load};
use crate::compare::{Figures, Manner};

const KEYS: u64 = 3_000_000;
const VALUE_LEN: usize = 1000;
const KEY_COUNTS: [u64; 6] = [2, 5, 10, 20, 50, 100];
const PIPELINE: u64 = 10;
/// Keys that a run looks up.
const KEYS_A_RUN: u64 = 1_000_000;
const MANNER: Manner = Manner { clients: 50, threads: 1 };
/// Off, and as it is by default.
const BATCHES: [&str; 2] = ["0", "32"];
const IO_THREADS: [u64; 2] = [1, 2];

fn commands() -> Vec<(String, String, u64)> {
    let repeated = |words: &str, keys: u64| vec![words; keys as usize].join(" ");
    let mut out = vec![
        ("GET".to_string(), "GET key:__rand_int__".to_string(), 1),
        ("SET".to_string(), "SET key:__rand_int__ __data__".to_string(), 1),
    ];
    for keys in KEY_COUNTS {
        let command = format!("MGET {}", repeated("key:__rand_int__", keys));
        out.push((format!("MGET of {keys}"), command, keys));
    }
    for keys in KEY_COUNTS {
        let command = format!("MSET {}", repeated("key:__rand_int__ __data__", keys));
        out.push((format!("MSET of {keys}"), command, keys));
    }
    out
}

/// By threads, then command, then off and on.
type Found = Vec<Vec<Vec<Figures>>>;

pub fn measure(bench: &Bench) -> Result<Section, String> {
    let keys = bench.scaled(KEYS);
    let commands = commands();
    let rows = IO_THREADS.iter().map(|threads| with_threads(bench, *threads, keys, &commands));
    let found: Found = rows.collect::<Result<_, _>>()?;
    let heading = ["command", "1 thread, off", "on", "ratio", "2 threads, off", "on", "ratio"];
    let table = |caption: &str, figure: &dyn Fn(&Figures) -> f64| {
        let mut table = Table::new(caption, &heading);
        for (row, (name, ..)) in commands.iter().enumerate() {
            let mut cells = vec![name.clone()];
            for rows in &found {
                let [off, on] = [figure(&rows[row][0]), figure(&rows[row][1])];
                cells.extend([short(off), short(on), short(on / off)]);
            }
            table.row(cells);
        }
        table
    };
    let times =
        table("Processor time of the server per request in microseconds:", &|figures| figures.processor_us);
    let rates = table("Throughput, thousands of requests per second:", &|figures| figures.per_second / 1e3);
    let series = |threads: usize, name: &str| {
        let points = found[threads].iter().map(|row| (0.0, row[1].processor_us / row[0].processor_us));
        (name.to_string(), points.collect())
    };
    let plot = Plot {
        name: "prefetching".to_string(),
        title: "Processor time with prefetching, relative to without".to_string(),
        x_label: "command".to_string(),
        y_label: "ratio".to_string(),
        shape: Shape::Bars(commands.iter().map(|(name, ..)| name.replace(" of ", " ")).collect()),
        series: vec![series(0, "1 I/O thread"), series(1, "2 I/O threads")],
    };
    Ok(Section {
        title: "Prefetching and I/O threads",
        text: format!(
            "Random keys out of {} with values of {VALUE_LEN} bytes, 50 connections, pipeline {PIPELINE}. Off is \
             `prefetch-batch-max-size 0`, on is {}, the default. See also [prefetching](prefetch.md).",
            count(keys),
            BATCHES[1]
        ),
        tables: vec![times, rates],
        plots: vec![plot],
    })
}

/// All commands with this number of I/O threads, each with prefetching off and on.
fn with_threads(
    bench: &Bench,
    threads: u64,
    keys: u64,
    commands: &[(String, String, u64)],
) -> Result<Vec<Vec<Figures>>, String> {
    let candidate = bench.warmline.with(&bench.warmline.name, &format!("--io-threads {threads}"));
    bench.progress(&format!("{} keys of {VALUE_LEN} bytes, {threads} I/O threads", count(keys)));
    let server = bench.start(&candidate)?;
    let mut conversation = server.conversation().map_err(|error| error.to_string())?;
    let load = Load::Strings { count: keys, len: VALUE_LEN };
    load.store(&mut conversation).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for (name, command, per_request) in commands {
        bench.progress(&format!("{name}, {threads} I/O threads"));
        let case = Case {
            name: name.clone(),
            load: Load::Nothing,
            command: command.clone(),
            pipeline: PIPELINE,
            requests: bench.scaled(KEYS_A_RUN / per_request),
            keyspace: keys,
            data_len: VALUE_LEN,
        };
        let mut row = Vec::new();
        for batch in BATCHES {
            let set = conversation.ask(&["CONFIG", "SET", "prefetch-batch-max-size", batch]);
            set.map_err(|error| error.to_string())?;
            row.push(bench.measure(&server, &case, MANNER)?);
        }
        rows.push(row);
    }
    Ok(rows)
}
