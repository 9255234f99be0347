//! Memory per element, by type and shape.

use client::append_request;

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, count, short};
use crate::cases::shuffled;
use crate::connection::Conversation;

const MILLION: u64 = 1_000_000;

/// Name, number of commands, elements per command, and the encoder of the command with a number.
type Weighed = (&'static str, u64, u64, fn(u64, u64, &mut Vec<u8>));

fn pairs(count: u64, pair: impl Fn(u64) -> [String; 2]) -> Vec<String> {
    (0..count).flat_map(pair).collect()
}

fn append_with(out: &mut Vec<u8>, first: &[&str], rest: Vec<String>) {
    let args: Vec<String> = first.iter().map(|word| word.to_string()).chain(rest).collect();
    append_request(out, &args);
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// The encoder receives the number and a shuffled one.
const SHAPES: &[Weighed] = &[
    ("string of 10", MILLION, 1, |i, _, out| append_request(out, &["SET", &key(i), &format!("v{i:09}")])),
    ("string of 10, with expiry", MILLION, 1, |i, _, out| {
        append_request(out, &["SET", &key(i), &format!("v{i:09}"), "EX", "100000"]);
    }),
    ("string of an integer", MILLION, 1, |i, _, out| {
        append_request(out, &["SET", &key(i), &(i + 100_000).to_string()])
    }),
    ("string of 100", MILLION, 1, |i, _, out| append_request(out, &["SET", &key(i), &"v".repeat(100)])),
    ("string of 512", 200_000, 1, |i, _, out| append_request(out, &["SET", &key(i), &"v".repeat(512)])),
    ("1 sorted set, random order", MILLION, 1, |i, s, out| {
        append_request(out, &["ZADD", "z", &s.to_string(), &format!("member:{i:09}")]);
    }),
    ("1 sorted set, in order", MILLION, 1, |i, _, out| {
        append_request(out, &["ZADD", "z", &i.to_string(), &format!("member:{i:09}")]);
    }),
    ("1 sorted set, real scores", MILLION, 1, |i, s, out| {
        append_request(out, &["ZADD", "z", &(s as f64 / 7919.0).to_string(), &format!("member:{i:09}")]);
    }),
    ("sorted sets of 129", 10_000, 129, |i, _, out| {
        let members = pairs(129, |member| [member.to_string(), format!("member:{member}")]);
        append_with(out, &["ZADD", &format!("zset:{i:012}")], members);
    }),
    ("sorted sets of 1,000", MILLION, 1, |i, s, out| {
        append_request(out, &["ZADD", &format!("z{}", i % 1000), &s.to_string(), &format!("member:{i:09}")]);
    }),
    ("sorted sets of 100", 10_000, 100, |i, _, out| {
        let members = pairs(100, |member| [member.to_string(), format!("member:{member}")]);
        append_with(out, &["ZADD", &format!("zset:{i:012}")], members);
    }),
    ("1 hash of 10,000 integers", 10_001, 1, |i, _, out| {
        append_request(out, &["HSET", "test", &i.to_string(), &i.to_string()]);
    }),
    ("1 hash, 10 and 10", MILLION, 1, |i, _, out| {
        append_request(out, &["HSET", "test", &format!("f{i:09}"), &format!("v{i:09}")]);
    }),
    ("hashes of 1,000, 8 and 10", MILLION, 1, |i, _, out| {
        append_request(out, &["HSET", &format!("h{}", i % 1000), &format!("f{i:07}"), &format!("v{i:09}")]);
    }),
    ("hashes of 5", 100_000, 5, |i, _, out| {
        let (key, id) = (format!("user:{i}"), i.to_string());
        let fields = ["firstname", "Ivan", "lastname", "Ivanov", "location", "Tomsk", "twitter", "ivashka"];
        let first = ["HSET", &key, "id", &id];
        append_request(out, &[first.as_slice(), fields.as_slice()].concat());
    }),
    ("1 set", MILLION, 1, |i, _, out| append_request(out, &["SADD", "s", &format!("m{i:09}")])),
    ("1 set of consecutive integers", MILLION, 1, |i, _, out| {
        append_request(out, &["SADD", "s", &i.to_string()])
    }),
    ("1 set of sparse integers", MILLION, 1, |i, _, out| {
        append_request(out, &["SADD", "s", &(i * 7919 + (i * i) % 7919).to_string()]);
    }),
    ("sets of 1,000", MILLION, 1, |i, _, out| {
        append_request(out, &["SADD", &format!("s{}", i % 1000), &format!("m{i:09}")]);
    }),
    ("1 list of integers", MILLION, 1, |i, _, out| append_request(out, &["RPUSH", "l", &i.to_string()])),
    ("1 list", MILLION, 1, |i, _, out| append_request(out, &["RPUSH", "l", &format!("e{i:09}")])),
    ("1 stream", MILLION, 1, |i, _, out| {
        append_request(out, &["XADD", "st", &format!("{}-1", i + 1), "f", &format!("v{i:09}")]);
    }),
];

pub fn measure(bench: &Bench) -> Result<Section, String> {
    let candidates = bench.all();
    let servers: Vec<_> = candidates
        .iter()
        .enumerate()
        .map(|(place, candidate)| {
            let port = bench.port + place as u16;
            crate::server::Server::start(&candidate.command, port, bench.core)
        })
        .collect::<Result<_, _>>()?;
    let mut heading = vec!["what", "elements"];
    heading.extend(candidates.iter().map(|candidate| candidate.name.as_str()));
    let ratios: Vec<String> =
        candidates.iter().skip(1).map(|other| format!("ratio to {}", other.name)).collect();
    heading.extend(ratios.iter().map(String::as_str));
    let mut table = Table::new("Bytes per element, keys included:", &heading);
    let mut points: Vec<Vec<(f64, f64)>> = vec![Vec::new(); servers.len()];
    for (name, commands, elements_each, append) in SHAPES {
        let commands = bench.scaled(*commands).max(1000);
        let mut row = Vec::new();
        for (place, server) in servers.iter().enumerate() {
            bench.progress(&format!("{name}, {}", candidates[place].name));
            let mut conversation = server.conversation().map_err(|error| error.to_string())?;
            let bytes = weigh(&mut conversation, commands, *append)?;
            row.push(bytes / (commands * elements_each) as f64);
        }
        for (place, bytes) in row.iter().enumerate() {
            points[place].push((0.0, *bytes));
        }
        let mut cells = vec![name.to_string(), count(commands * elements_each)];
        cells.extend(row.iter().map(|bytes| short(*bytes)));
        cells.extend(row.iter().skip(1).map(|other| short(row[0] / other)));
        table.row(cells);
    }
    // Long strings would make all other bars small.
    let shown = |points: &Vec<(f64, f64)>| points[5..].to_vec();
    let plot = Plot {
        name: "memory".to_string(),
        title: "Bytes per element of collections, in the order of the table".to_string(),
        x_label: "row of the table".to_string(),
        y_label: "bytes".to_string(),
        shape: Shape::Bars((5..SHAPES.len()).map(|row| (row + 1).to_string()).collect()),
        series: candidates
            .iter()
            .zip(&points)
            .map(|(candidate, points)| (candidate.name.clone(), shown(points)))
            .collect(),
    };
    Ok(Section {
        title: "Memory by type",
        text: "The growth of `used_memory` per element. Values, members and fields have 10 bytes unless stated otherwise, \
               members of sorted sets 16, keys 16. One connection inserts one element per command."
            .to_string(),
        tables: vec![table],
        plots: vec![plot],
    })
}

/// Returns the growth of a server's memory.
fn weigh(
    conversation: &mut Conversation,
    commands: u64,
    append: fn(u64, u64, &mut Vec<u8>),
) -> Result<f64, String> {
    let failed = |error: crate::connection::LoadError| error.to_string();
    conversation.ask(&["FLUSHALL", "SYNC"]).map_err(failed)?;
    let order = shuffled(commands);
    let before = settled(conversation)?;
    conversation.load(commands, |number, out| append(number, order[number as usize], out)).map_err(failed)?;
    let bytes = settled(conversation)? - before;
    conversation.ask(&["FLUSHALL", "SYNC"]).map_err(failed)?;
    Ok(bytes)
}

/// Returns the server's memory, after its background work has ended.
fn settled(conversation: &mut Conversation) -> Result<f64, String> {
    std::thread::sleep(std::time::Duration::from_millis(300));
    let bytes = conversation.info("memory", "used_memory").map_err(|error| error.to_string())?;
    bytes.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| "INFO has no used_memory".to_string())
}
