//! Common commands on all servers, and latencies at a fixed rate.

use std::time::Duration;

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, Candidate, short};
use crate::cases::{self, Case};
use crate::compare::{Figures, Manner, Requested, requests_to};
use crate::server::Pinned;

const CASES: [&str; 12] = [
    "set10-p1",
    "set10-p16",
    "get10-p1",
    "get10-p16",
    "get1k-p10",
    "incr-p16",
    "mget10-p10",
    "hset-1M-p16",
    "zadd-1M-p16",
    "zrank-1M-p16",
    "lpush-p16",
    "xadd-p10",
];
const MANNER: Manner = Manner { clients: 50, threads: 1 };
/// The rate at which latencies are measured, and the duration.
const RATE: f64 = 40_000.0;
const RATE_SECONDS: f64 = 8.0;
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

pub fn measure(bench: &Bench) -> Result<Section, String> {
    let candidates = bench.all();
    let all = cases::all(bench.scale);
    let chosen: Vec<&Case> = all.iter().filter(|case| CASES.contains(&case.name.as_str())).collect();
    let mut found: Vec<Vec<Figures>> = Vec::new();
    for case in &chosen {
        let mut row = Vec::new();
        for candidate in &candidates {
            bench.progress(&format!("{}, {}", case.name, candidate.name));
            let server = bench.start(candidate)?;
            let stored =
                server.conversation().and_then(|mut conversation| case.load.store(&mut conversation));
            stored.map_err(|error| error.to_string())?;
            row.push(bench.measure(&server, case, MANNER)?);
        }
        found.push(row);
    }
    let mut heading = vec!["case"];
    heading.extend(candidates.iter().map(|candidate| candidate.name.as_str()));
    let table = |caption: &str, cell: &dyn Fn(&Figures) -> String| {
        let mut table = Table::new(caption, &heading);
        for (case, row) in chosen.iter().zip(&found) {
            table.row(std::iter::once(case.name.clone()).chain(row.iter().map(cell)).collect());
        }
        table
    };
    let rates =
        table("Throughput, thousands of requests per second:", &|figures| short(figures.per_second / 1e3));
    let times = table("Processor time of the server per request in microseconds:", &|figures| {
        short(figures.processor_us)
    });
    let latencies = table("Latency in milliseconds, median and 99th percentile:", &|figures| {
        format!("{:.3} / {:.3}", figures.p50_ms, figures.p99_ms)
    });
    let series = |(place, candidate): (usize, &Candidate)| {
        (candidate.name.clone(), found.iter().map(|row| (0.0, row[place].per_second / 1e3)).collect())
    };
    let throughput = Plot {
        name: "commands".to_string(),
        title: "Throughput, thousands of requests per second".to_string(),
        x_label: "case".to_string(),
        y_label: "k/s".to_string(),
        shape: Shape::Bars(chosen.iter().map(|case| case.name.clone()).collect()),
        series: candidates.iter().enumerate().map(series).collect(),
    };
    let (steady, curve) = at_a_rate(bench, &candidates, &chosen)?;
    Ok(Section {
        title: "Common commands",
        text: "The cases of `warmline-benchmark compare --list`: random keys, fields or members out of a million, 50 \
               connections; p16 is pipeline 16."
            .to_string(),
        tables: vec![rates, times, latencies, steady],
        plots: vec![throughput, curve],
    })
}

/// Measures latencies of GET at a rate that all servers can serve.
fn at_a_rate(bench: &Bench, candidates: &[Candidate], cases: &[&Case]) -> Result<(Table, Plot), String> {
    let case = cases.iter().find(|case| case.name == "get10-p1").ok_or("there is no such case")?;
    let seconds = (RATE_SECONDS * bench.scale).max(0.5);
    let mut heading = vec!["percentile"];
    heading.extend(candidates.iter().map(|candidate| candidate.name.as_str()));
    let caption = format!(
        "Latency of GET in milliseconds at a fixed rate of {RATE:.0} requests per second, measured from the scheduled \
         time of each:"
    );
    let mut table = Table::new(caption, &heading);
    let mut found = Vec::new();
    for candidate in candidates {
        bench.progress(&format!("GET at a fixed rate, {}", candidate.name));
        let server = bench.start(candidate)?;
        let stored = server.conversation().and_then(|mut conversation| case.load.store(&mut conversation));
        stored.map_err(|error| error.to_string())?;
        let _load_core = bench.core.map(|core| Pinned::to(core + 1));
        let requested = Requested::AtRate(RATE, Duration::from_secs_f64(seconds));
        found.push(requests_to(&server.setup, case, requested, MANNER, 1)?);
    }
    for percentile in PERCENTILES {
        let cells = found.iter().map(|measured| format!("{:.3}", measured.percentile(percentile)));
        table.row(std::iter::once(format!("{percentile} %")).chain(cells).collect());
    }
    let beyond = |percentile: f64| 1.0 / (1.0 - percentile / 100.0);
    let plot = Plot {
        name: "latency".to_string(),
        title: format!("Latency of GET at {RATE:.0} requests per second"),
        x_label: "one request in this many takes longer".to_string(),
        y_label: "milliseconds".to_string(),
        shape: Shape::Lines,
        series: candidates
            .iter()
            .zip(&found)
            .map(|(candidate, measured)| {
                let points = PERCENTILES.iter().filter(|percentile| **percentile < 100.0);
                let point = |percentile: &f64| (beyond(*percentile), measured.percentile(*percentile));
                (candidate.name.clone(), points.map(point).collect())
            })
            .collect(),
    };
    Ok((table, plot))
}
