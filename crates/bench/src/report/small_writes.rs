//! Values of two kilobytes, by who lets small packets wait.

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, Candidate, short};
use crate::cases::{Case, Load};
use crate::compare::{Figures, Manner};
use crate::server::Server;

const MANNER: Manner = Manner { clients: 50, threads: 1 };
const DATA_LEN: usize = 2048;
const REQUESTS: u64 = 50_000;
/// A reply is more than a megabyte.
const RANGE_REQUESTS: u64 = 2_500;

const COMMANDS: [(&str, &str); 9] = [
    ("SET", "SET key:1 __data__"),
    ("GET", "GET key:1"),
    ("INCR", "INCR counter:1"),
    ("LPUSH", "LPUSH mylist __data__"),
    ("LRANGE_600", "LRANGE mylist 0 599"),
    ("LPOP", "LPOP mylist"),
    ("SADD", "SADD myset element:1"),
    ("SPOP", "SPOP myset"),
    ("MSET", MSET),
];
const MSET: &str = "MSET key:0 __data__ key:1 __data__ key:2 __data__ key:3 __data__ key:4 __data__ \
                    key:5 __data__ key:6 __data__ key:7 __data__ key:8 __data__ key:9 __data__";

pub fn measure(bench: &Bench) -> Result<Section, String> {
    // Whether the client sets TCP_NODELAY; the servers say whether they do.
    let own = &bench.warmline;
    let mut ways: Vec<(String, Candidate, bool)> = vec![
        ("set on both sides".to_string(), own.with(&own.name, "--tcp-nodelay yes"), true),
        ("set by the server".to_string(), own.with(&own.name, "--tcp-nodelay yes"), false),
        ("not set (Nagle's algorithm)".to_string(), own.with(&own.name, "--tcp-nodelay no"), false),
    ];
    ways.extend(
        bench.valkey.iter().map(|valkey| (format!("{}, both sides", valkey.name), valkey.clone(), true)),
    );
    let mut found = Vec::new();
    for (name, candidate, no_delay) in &ways {
        bench.progress(&format!("values of {DATA_LEN} bytes, TCP_NODELAY {name}"));
        let mut server = bench.start(candidate)?;
        server.setup.connect.no_delay = *no_delay;
        found.push(figures(bench, &server)?);
    }
    let mut heading = vec!["command"];
    heading.extend(ways.iter().map(|(name, ..)| name.as_str()));
    let mut rates = Table::new("Requests per second, by the sides that set TCP_NODELAY:", &heading);
    let mut times = Table::new("Processor time of the server per request in microseconds:", &heading);
    let mut medians = Table::new("Median latency in milliseconds:", &heading);
    for (row, (name, _)) in COMMANDS.iter().enumerate() {
        let cells = |cell: &dyn Fn(&Figures) -> String| {
            let cells = found.iter().map(|figures| cell(&figures[row]));
            std::iter::once(name.to_string()).chain(cells).collect()
        };
        rates.row(cells(&|figures| format!("{:.0}", figures.per_second)));
        times.row(cells(&|figures| short(figures.processor_us)));
        medians.row(cells(&|figures| format!("{:.3}", figures.p50_ms)));
    }
    // Replies of a megabyte would make everything else small.
    let is_shown = |command: &&(&str, &str)| !command.1.starts_with("LRANGE");
    let series = |(way, figures): (&(String, Candidate, bool), &Vec<Figures>)| {
        let shown = figures.iter().zip(COMMANDS).filter(|(_, command)| is_shown(&command));
        (way.0.clone(), shown.map(|(figures, _)| (0.0, figures.p50_ms)).collect())
    };
    let plot = Plot {
        name: "small-writes".to_string(),
        title: "Median latency, values of 2 KB".to_string(),
        x_label: "command".to_string(),
        y_label: "milliseconds".to_string(),
        shape: Shape::Bars(COMMANDS.iter().filter(is_shown).map(|(name, _)| name.to_string()).collect()),
        series: ways.iter().zip(&found).map(series).collect(),
    };
    Ok(Section {
        title: "Values of 2 KB and Nagle's algorithm",
        text: format!(
            "`-n {REQUESTS} -k 1 -d {DATA_LEN}`, 50 connections, without pipelining ({RANGE_REQUESTS} requests for LRANGE, \
             whose replies have 1.2 MB each). With Nagle's algorithm the system delays small packets until earlier ones \
             are acknowledged."
        ),
        tables: vec![rates, times, medians],
        plots: vec![plot],
    })
}

fn figures(bench: &Bench, server: &Server) -> Result<Vec<Figures>, String> {
    let case = |(name, command): &(&str, &str)| Case {
        name: name.to_string(),
        load: Load::Nothing,
        command: command.to_string(),
        pipeline: 1,
        requests: bench.scaled(if *name == "LRANGE_600" { RANGE_REQUESTS } else { REQUESTS }),
        keyspace: 1,
        data_len: DATA_LEN,
    };
    COMMANDS.iter().map(|command| bench.measure(server, &case(command), MANNER)).collect()
}
