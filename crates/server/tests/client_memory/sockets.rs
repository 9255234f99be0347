//! What has been read of a request, and what large requests take beyond what they hold.

use super::process::{self, Client, Process, encode, eventually, info};
use super::tests_with_io_threads;
use std::io::Write;
use std::net::TcpStream;

const MEGABYTE: usize = 1 << 20;

fn used_bytes(client: &mut Client<TcpStream>) -> usize {
    info(client, "used_memory").trim().parse().unwrap()
}

/// What CLIENT LIST shows as `tot-mem` of the client of this name.
fn counted_bytes(client: &mut Client<TcpStream>, name: &str) -> Option<usize> {
    let list = client.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains(&format!(" name={name} ")))?;
    let field = line.split(' ').find_map(|field| field.strip_prefix("tot-mem="))?;
    Some(field.parse().unwrap())
}

fn holder(process: &Process) -> Client<TcpStream> {
    let mut client = process.connect();
    client.ask("CLIENT SETNAME holder");
    client
}

const WAITING: &str = "requests behind one that waits";

/// What is sent of requests that are never whole, or never run: a part of a long argument, many arguments, many short
/// requests behind one that waits.
fn parts() -> Vec<(&'static str, Vec<u8>)> {
    let long = [&b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100000000\r\n"[..], &vec![b'x'; 8 * MEGABYTE]].concat();
    let keys: Vec<Vec<u8>> = (0..200_000).map(|number| format!("key:{number:08}").into_bytes()).collect();
    let words: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let many = [&b"*1000000\r\n$3\r\nDEL\r\n"[..], &encode(&words)[b"*200000\r\n".len()..]].concat();
    let behind = encode(&[b"SET", b"key", &[b'x'; 1000]]).repeat(900);
    let waiting = [encode(&[b"BLPOP", b"list", b"0"]), behind].concat();
    vec![("a part of a long argument", long), ("a part of many", many), (WAITING, waiting)]
}

fn what_has_been_read_is_counted_limited_and_given_back() {
    for (what, part) in parts() {
        if what == WAITING && process::IO_THREADS.get() > 1 {
            // Nothing more is read of a connection in a thread whose client waits.
            continue;
        }
        let process = Process::start(&[]);
        let mut other = process.connect();
        let mut client = holder(&process);
        let (before, counted_before) = (used_bytes(&mut other), counted_bytes(&mut other, "holder").unwrap());
        client.stream.write_all(&part).unwrap();
        let mut last = (0, 0);
        eventually(&format!("{what}: all of it is counted"), || {
            let used = used_bytes(&mut other).saturating_sub(before);
            let counted = counted_bytes(&mut other, "holder").unwrap().saturating_sub(counted_before);
            let is_told = std::mem::replace(&mut last, (used, counted)) == (used, counted);
            is_told && counted >= part.len() * 9 / 10 && counted.abs_diff(used) < used / 5 + MEGABYTE / 2
        });
        other.ask(&format!("CONFIG SET maxmemory-clients {}", part.len() / 2));
        eventually(&format!("{what}: its client is evicted"), || {
            counted_bytes(&mut other, "holder").is_none()
        });
        eventually(&format!("{what}: its memory is back"), || used_bytes(&mut other) < before + MEGABYTE / 2);
    }
}

tests_with_io_threads!(what_has_been_read_is_counted_limited_and_given_back);

/// Names in a large request. Debug builds look for each key that a command touches among all of its arguments, which takes long
/// with many; PING refuses as many at once, and has them read all the same.
const NAMES: usize = 5000;

/// The most that was resident, in bytes.
fn resident_peak(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Memory of a request of this size: bytes in use after it has run or blocked, and peak resident memory meanwhile,
/// both as shares of its length in percent.
fn shares_of(words: &[&[u8]], waits: bool) -> (usize, usize) {
    let process = Process::start(&["--io-threads", "1"]);
    let mut other = process.connect();
    let request = encode(words);
    let (before, peak_before) = (used_bytes(&mut other), resident_peak(&process));
    let mut client = process.connect();
    client.stream.write_all(&request).unwrap();
    match waits {
        true => process.eventually_shows("blocked_clients", "1"),
        false => drop(client.receive().unwrap()),
    }
    let used = used_bytes(&mut other).saturating_sub(before);
    (used * 100 / request.len(), (resident_peak(&process) - peak_before) * 100 / request.len())
}

#[test]
fn what_large_requests_take_is_in_proportion() {
    let names: Vec<Vec<u8>> =
        (0..NAMES).map(|number| format!("{number:05}{}", "x".repeat(8000)).into_bytes()).collect();
    let short: Vec<Vec<u8>> = (0..1_500_000).map(|number| format!("key:{number:012}").into_bytes()).collect();
    let with = |before: &[&'static [u8]], names: &[Vec<u8>], behind: &[&'static [u8]]| -> Vec<Vec<u8>> {
        let all = before.iter().copied().chain(names.iter().map(Vec::as_slice)).chain(behind.iter().copied());
        all.map(<[u8]>::to_vec).collect()
    };
    let same = vec![vec![b'k'; 8000]; NAMES];
    let ids = vec![&b"0"[..]; NAMES];
    let cases = [
        ("BLPOP", with(&[b"BLPOP"], &names, &[b"0"]), true, (115, 450)),
        ("BLPOP of one name", with(&[b"BLPOP"], &same, &[b"0"]), true, (5, 450)),
        ("BLMPOP", with(&[b"BLMPOP", b"0", b"5000"], &names, &[b"LEFT"]), true, (115, 450)),
        ("BZPOPMIN", with(&[b"BZPOPMIN"], &names, &[b"0"]), true, (115, 450)),
        ("XREAD", with(&[b"XREAD", b"BLOCK", b"0", b"STREAMS"], &names, &ids), true, (115, 450)),
        ("many long arguments", with(&[b"PING"], &names, &[]), false, (5, 300)),
        ("many short arguments", with(&[b"PING"], &short, &[]), false, (5, 400)),
        ("SET", with(&[b"SET", b"key"], &[vec![b'x'; 40 * MEGABYTE]], &[]), false, (105, 200)),
    ];
    let mut faults = Vec::new();
    for (what, words, waits, most) in &cases {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (used, resident) = shares_of(&words, *waits);
        eprintln!("{what}: {used} % in use, {resident} % resident at most");
        if used > most.0 || resident > most.1 {
            faults.push(format!("{what}: {used} % in use, {resident} % resident at most, not {most:?}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
