//! Every numeric option at the ends of its range and at powers of two, by the table of options: with CONFIG SET, in the file
//! that the server starts with, and through CONFIG REWRITE. The server serves then, or refuses the value and names the range.

use crate::process::certificates::Certificates;
use crate::process::{Client, Process, free_port, shown};
use server::config::{Config, Flags, OptionId, ROWS, Row};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;

/// Ports are opened when they are set; what that does has tests of its own.
const PORTS: [OptionId; 3] = [OptionId::port, OptionId::tls_port, OptionId::http_port];

/// Options of several numbers: what stands around the one that is tried, and its range.
const PARTS: [(&str, &str, &str, i128, i128); 8] = [
    ("save", "", " 1000000000", 1, i64::MAX as i128),
    ("save", "1000000000 ", "", 0, i64::MAX as i128),
    ("client-output-buffer-limit", "pubsub ", " 0 0", 0, u64::MAX as i128),
    ("client-output-buffer-limit", "pubsub 0 ", " 0", 0, u64::MAX as i128),
    ("client-output-buffer-limit", "pubsub 0 1 ", "", 0, u32::MAX as i128),
    ("client-output-buffer-limit", "replica 0 1 ", "", 0, u32::MAX as i128),
    ("oom-score-adj-values", "-2000 ", " 2000", -2000, 2000),
    ("latency-tracking-info-percentiles", "", "", 0, 100),
];

/// The ends, what is beside them, zero, and powers of two with what is beside them.
fn numbers(low: i128, high: i128) -> BTreeSet<i128> {
    let ends = [low, high, 0].into_iter();
    let powers = [1, 15, 16, 31, 32, 53, 62, 63, 64].into_iter().map(|exponent| 1i128 << exponent);
    let negative = [-(1i128 << 31), -(1i128 << 63)].into_iter();
    ends.chain(powers).chain(negative).flat_map(|n| [n - 1, n, n + 1]).collect()
}

/// An option's number as its values are written.
fn text_of(row: &Row, number: i128) -> String {
    match row.id {
        OptionId::unixsocketperm if number >= 0 => format!("{number:o}"),
        _ => number.to_string(),
    }
}

/// What the server may answer a write with, and a new client, because the option's value asks for just that.
fn wanted_refusals(name: &str, number: i128) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "maxmemory" if (1..1 << 31).contains(&number) => (&["OOM "], &[]),
        "min-replicas-to-write" | "min-replicas-durable" if number > 0 => (&["NOREPLICAS "], &[]),
        "maxclients" if number < 8 => (&[], &["ERR max number of clients reached"]),
        _ => (&[], &[]),
    }
}

/// The reply to a command as text, or what is the matter.
fn ask(client: &mut Client<TcpStream>, words: &[&str]) -> Result<String, String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.try_ask(&words).map(|reply| shown(&reply)).ok_or_else(|| "the connection is closed".to_owned())
}

fn expect(got: Result<String, String>, wanted: &str, also: &[&str]) -> Result<(), String> {
    match got {
        Ok(text) if text == wanted || also.iter().any(|start| text.starts_with(start)) => Ok(()),
        Ok(text) | Err(text) => Err(format!("{text:?} instead of {wanted}")),
    }
}

/// Whether a client that is there and one that comes are answered.
fn serves(process: &Process, client: &mut Client<TcpStream>, name: &str, number: i128) -> Result<(), String> {
    let (of_writes, of_clients) = wanted_refusals(name, number);
    expect(ask(client, &["PING"]), "PONG", &[]).map_err(|why| format!("PING: {why}"))?;
    expect(ask(client, &["SET", "key", "value"]), "OK", of_writes).map_err(|why| format!("SET: {why}"))?;
    let also: &[&str] = if of_writes.is_empty() { &[] } else { &["", "Null"] };
    expect(ask(client, &["GET", "key"]), "value", also).map_err(|why| format!("GET: {why}"))?;
    let mut newcomer = process.connect();
    expect(ask(&mut newcomer, &["PING"]), "PONG", of_clients).map_err(|why| format!("a new client: {why}"))
}

/// The words by which a number is refused, behind what CONFIG SET says of all refusals.
fn is_refusal(row: &Row, number: i128, reply: &str) -> bool {
    let (low, high) = (row.range)().expect("it is a number");
    let range = match row.id {
        OptionId::unixsocketperm => format!("argument must be between 0 and {high:o} inclusive"),
        _ => format!("argument must be between {low} and {high} inclusive"),
    };
    let shapes = [
        "argument couldn't be parsed into an integer",
        "argument couldn't be parsed as an octal number",
        "argument must be a memory value",
        "argument must be a memory or percent value",
    ];
    // Text that is beyond all numbers, or a size below zero, is none.
    let is_no_number = i64::try_from(number).is_err() || number < 0;
    reply.ends_with(&range) || is_no_number && shapes.iter().any(|shape| reply.ends_with(shape))
}

/// Tries one value with CONFIG SET; says what is wrong then.
fn try_value(
    process: &Process,
    client: &mut Client<TcpStream>,
    row: &Row,
    number: i128,
) -> Result<(), String> {
    let text = text_of(row, number);
    let reply = ask(client, &["CONFIG", "SET", row.name, &text])?;
    let (low, high) = (row.range)().expect("it is a number");
    if (low..=high).contains(&number) {
        // The system has the last word on how many files there may be; what it allows instead is possible.
        let possible = reply.split_once("number of clients, try with ").map(|(_, possible)| possible);
        match possible.filter(|_| row.id == OptionId::maxclients) {
            Some(possible) => expect(ask(client, &["CONFIG", "SET", row.name, possible]), "OK", &[])?,
            None => expect(Ok(reply), "OK", &[])?,
        }
        // The cron has its turn.
        std::thread::sleep(Duration::from_millis(3));
    } else {
        expect(ask(client, &["PING"]), "PONG", &[])?;
        return is_refusal(row, number, &reply).then_some(()).ok_or_else(|| format!("answered {reply:?}"));
    }
    serves(process, client, row.name, number)
}

fn numeric() -> impl Iterator<Item = (&'static Row, i128, i128)> {
    // The upper half of the range of `cluster-blacklist-ttl`, which has no effect, is written with a sign, as in the reference.
    let rows = ROWS.iter().filter(|row| row.id != OptionId::cluster_blacklist_ttl_seconds);
    rows.filter_map(|row| (row.range)().map(|(low, high)| (row, low, high)))
}

#[test]
fn a_server_serves_with_each_value_that_it_takes_while_it_runs() {
    let certificates = Certificates::new();
    let (tls_port, http_port) = (free_port().to_string(), free_port().to_string());
    let tls = certificates.options();
    let mut options = vec!["--tls-port", &tls_port, "--http-port", &http_port, "--hz", "500"];
    // The one snapshot is there before a delay is set that would keep its child.
    options.extend(["--repl-diskless-sync-delay", "0"]);
    options.extend(tls.iter().map(String::as_str));
    let process = Process::start(&options);
    let mut client = process.connect();
    let mut replica = process.connect();
    replica.send(&[b"PSYNC", b"?", b"-1"]);
    let mut wrong = Vec::new();
    for (row, low, high) in numeric() {
        if row.flags.has(Flags::IMMUTABLE) || PORTS.contains(&row.id) {
            continue;
        }
        let before = client.ask(&format!("CONFIG GET {}", row.name));
        let before = before.trim_matches(['[', ']']).split(' ').next_back().unwrap().to_owned();
        for number in numbers(low, high) {
            if let Err(why) = try_value(&process, &mut client, row, number) {
                wrong.push(format!("{} {number}: {why}", row.name));
                // The connection that is there may be needed to set the option right.
                if ask(&mut client, &["PING"]).is_err() {
                    client = process.connect();
                }
            }
        }
        assert_eq!(client.ask(&format!("CONFIG SET {} {before}", row.name)), "OK", "{}", row.name);
    }
    for (name, start, end, low, high) in PARTS {
        for number in numbers(low, high) {
            let reply = ask(&mut client, &["CONFIG", "SET", name, &format!("{start}{number}{end}")]);
            let wanted = if (low..=high).contains(&number) { "OK" } else { "ERR CONFIG SET failed" };
            std::thread::sleep(Duration::from_millis(3));
            let tried = match reply {
                Ok(text) if text.starts_with(wanted) => serves(&process, &mut client, name, number),
                Ok(text) | Err(text) => Err(text),
            };
            wrong.extend(tried.err().map(|why| format!("{name} {start}{number}{end}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The value of each option that stands at a place in its range.
fn placed(low: i128, high: i128, place: usize) -> i128 {
    let power = |exponent: u32| (1i128 << exponent).clamp(low, high);
    match place {
        0 => low,
        1 => (low + 1).min(high),
        2 => power(15),
        3 => power(31),
        4 => power(62),
        5 => (high - 1).max(low),
        _ => high,
    }
}

const PLACES: usize = 7;

#[test]
fn a_server_starts_with_each_value_that_it_takes_and_keeps_it() {
    for place in 0..PLACES {
        let directory = std::env::temp_dir().join(format!("warmline-bounds-{}-{place}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("warmline.conf").display().to_string();
        let placed = numeric().filter(|(row, ..)| !PORTS.contains(&row.id)).map(|(row, low, high)| {
            let number = match row.id {
                // One for this test, and one for the connection that waits for the start and may still be closing.
                OptionId::maxclients => placed(low, high, place).max(8),
                _ => placed(low, high, place),
            };
            format!("{} {}\n", row.name, text_of(row, number))
        });
        let text = format!("dir {}\n{}", directory.display(), placed.collect::<String>());
        std::fs::write(&file, text).unwrap();
        let values = |client: &mut Client<TcpStream>| {
            let names = numeric().filter(|(row, ..)| !PORTS.contains(&row.id)).map(|(row, ..)| row.name);
            names.map(|name| client.ask(&format!("CONFIG GET {name}"))).collect::<Vec<_>>()
        };
        let mut before = None;
        for start in ["the first", "the second"] {
            let process = Process::start_with_file(&file, &[]);
            let mut client = process.connect();
            // With many options no single one can be named: each may refuse its own bad values.
            let tried = ask(&mut client, &["SET", "key", "value"]);
            expect(tried, "OK", &["OOM ", "NOREPLICAS "])
                .unwrap_or_else(|why| panic!("{place}, {start}: {why}"));
            let mut newcomer = process.connect();
            let tried = ask(&mut newcomer, &["PING"]);
            expect(tried, "PONG", &[]).unwrap_or_else(|why| panic!("{place}, {start}, new client: {why}"));
            drop(newcomer);
            let now = values(&mut client);
            assert_eq!(*before.get_or_insert(now.clone()), now, "{place}, {start} start");
            assert_eq!(client.ask("CONFIG REWRITE"), "OK", "{place}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn a_server_does_not_start_with_a_value_beyond_the_range() {
    for (row, low, high) in numeric() {
        for number in [low - 1, high + 1] {
            let text = text_of(row, number);
            let arguments = [format!("--{}", row.name).into(), text.clone().into()];
            let error = Config::check(&arguments).err().unwrap_or_else(|| panic!("{} {text}", row.name));
            let error = error.to_string();
            let is_refused = error.lines().any(|line| is_refusal(row, number, line));
            assert!(is_refused, "{} {text}: {error}", row.name);
        }
    }
}
