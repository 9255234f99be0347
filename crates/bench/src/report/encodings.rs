//! A hash and a list of ten thousand integers in each encoding.

use client::append_request;

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, Candidate, short};
use crate::compare::median;
use crate::connection::{Conversation, LoadError};
use crate::server::Server;

const ELEMENTS: u64 = 10_000;
/// Number of reads of the whole collection.
const WHOLE_READS: u64 = 50;

/// Microseconds per element of each step, and the encoding.
#[derive(Default)]
struct Found {
    encoding: String,
    bytes: f64,
    steps: Vec<f64>,
}

type Append = fn(u64, &mut Vec<u8>);

/// A step: name, number of requests, elements per request, and the request.
struct Step {
    name: &'static str,
    requests: u64,
    elements_each: u64,
    append: Append,
}

const fn step(name: &'static str, append: Append) -> Step {
    Step { name, requests: ELEMENTS, elements_each: 1, append }
}

/// Returns the element accessed at a step, in a random-like order.
fn place(number: u64) -> u64 {
    // A prime that does not divide the number of elements.
    number * 7_919 % ELEMENTS
}

const HASH: &[Step] = &[
    step("write each", |number, out| {
        append_request(out, &["HSET", "c", &number.to_string(), &number.to_string()]);
    }),
    step("read each", |number, out| append_request(out, &["HGET", "c", &place(number).to_string()])),
    Step {
        name: "read all",
        requests: WHOLE_READS,
        elements_each: ELEMENTS,
        append: |_, out| append_request(out, &["HGETALL", "c"]),
    },
];

const PUSH: Step =
    step("write each", |number, out| append_request(out, &["RPUSH", "c", &number.to_string()]));
const LIST: &[Step] = &[
    PUSH,
    step("read each", |number, out| append_request(out, &["LINDEX", "c", &place(number).to_string()])),
    Step {
        name: "read all",
        requests: WHOLE_READS,
        elements_each: ELEMENTS,
        append: |_, out| append_request(out, &["LRANGE", "c", "0", "-1"]),
    },
    step("LPOP to the end", |_, out| append_request(out, &["LPOP", "c"])),
    step("write again", |number, out| append_request(out, &["RPUSH", "c", &number.to_string()])),
    step("RPOP to the end", |_, out| append_request(out, &["RPOP", "c"])),
];

pub fn measure(bench: &Bench) -> Result<Section, String> {
    let hash_ways = [
        ("one listpack", format!("--hash-max-listpack-entries {}", ELEMENTS + 1)),
        ("table", "--hash-max-listpack-entries 512".to_string()),
    ];
    let list_ways = [
        ("nodes of 64 KB", "--list-max-listpack-size -5".to_string()),
        ("nodes of 8 KB", "--list-max-listpack-size -2".to_string()),
        ("nodes of 8 KB, compressed", "--list-max-listpack-size -2 --list-compress-depth 1".to_string()),
    ];
    let mut tables = Vec::new();
    let mut plots = Vec::new();
    for (kind, steps, ways) in [("hash", HASH, hash_ways.as_slice()), ("list", LIST, list_ways.as_slice())] {
        let mut heading = vec!["server", "stored as", "encoding", "bytes"];
        heading.extend(steps.iter().map(|step| step.name));
        let caption = format!(
            "A {kind} of {ELEMENTS} integers: bytes, and processor time of the server per element in nanoseconds:"
        );
        let mut table = Table::new(caption, &heading);
        let mut series = Vec::new();
        for candidate in bench.all() {
            let mut points = Vec::new();
            for (way, options) in ways {
                bench.progress(&format!("a {kind} of {ELEMENTS} as {way}, {}", candidate.name));
                let found = collection(bench, &candidate.with(&candidate.name, options), steps)?;
                let bytes = format!("{:.0}", found.bytes);
                let mut cells = vec![candidate.name.clone(), way.to_string(), found.encoding, bytes];
                cells.extend(found.steps.iter().map(|us| short(us * 1e3)));
                table.row(cells);
                points.push((0.0, found.bytes / ELEMENTS as f64));
            }
            series.push((candidate.name, points));
        }
        tables.push(table);
        plots.push(Plot {
            name: format!("encodings-{kind}"),
            title: format!("Bytes per element of a {kind} of {ELEMENTS} integers"),
            x_label: String::new(),
            y_label: "bytes".to_string(),
            shape: Shape::Bars(ways.iter().map(|(way, _)| way.to_string()).collect()),
            series,
        });
    }
    Ok(Section {
        title: "10,000 integers in each encoding",
        text: "One connection, pipelines of 500; \"read each\" is HGET or LINDEX in random order. The encoding is that of \
               OBJECT ENCODING."
            .to_string(),
        tables,
        plots,
    })
}

fn collection(bench: &Bench, candidate: &Candidate, steps: &[Step]) -> Result<Found, String> {
    let server = bench.start(candidate)?;
    let measured = measure_steps(&server, bench.runs, steps);
    measured.map_err(|error: LoadError| format!("{}: {error}", candidate.name))
}

fn measure_steps(server: &Server, runs: u32, steps: &[Step]) -> Result<Found, LoadError> {
    let mut conversation = server.conversation()?;
    let mut found = Found::default();
    let mut times = vec![Vec::new(); steps.len()];
    for run in 0..=runs {
        conversation.ask(&["DEL", "c"])?;
        for (place, step) in steps.iter().enumerate() {
            let before = server.processor_time();
            conversation.load(step.requests, step.append)?;
            let used = server.processor_time_since(before).as_secs_f64() * 1e6;
            if run > 0 {
                times[place].push(used / (step.requests * step.elements_each) as f64);
            }
            if place == 0 {
                (found.encoding, found.bytes) = weigh(&mut conversation)?;
            }
        }
    }
    found.steps = times.into_iter().map(median).collect();
    Ok(found)
}

/// Returns encoding and size of the collection.
fn weigh(conversation: &mut Conversation) -> Result<(String, f64), LoadError> {
    let encoding = conversation.ask(&["OBJECT", "ENCODING", "c"])?;
    let encoding = String::from_utf8_lossy(encoding.as_bytes().unwrap_or_default()).into_owned();
    let bytes = conversation.ask(&["MEMORY", "USAGE", "c", "SAMPLES", "0"])?;
    Ok((encoding, if let wire::response::Value::Integer(bytes) = bytes { bytes as f64 } else { f64::NAN }))
}
