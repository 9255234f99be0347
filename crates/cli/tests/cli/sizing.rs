//! What `--sizing` estimates is what a server that holds the same data takes.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{Output, Server, eventually, finish, starting_servers};

/// Takes the number of the key and of the element, and writes the command that adds it.
type Add = fn(&mut String, usize, usize);

/// Others for each key: where elements lie follows from a server's seed, and in keys that hold the same it would be the
/// same in all.
fn scattered(key: usize, i: usize) -> usize {
    (key * 1_000_003 + i).wrapping_mul(2_654_435_761) % 1_000_000_007
}

const TYPES: [(&str, Add); 12] = [
    ("string", |out, key, i| writeln!(out, "set string:{key} {}", "x".repeat(7 * i + 1)).unwrap()),
    ("hash", |out, key, i| writeln!(out, "hset hash:{key} field:{} value:{i}", scattered(key, i)).unwrap()),
    ("hash with fields that expire", |out, key, i| {
        writeln!(out, "hsetex hash:{key} ex 100000 fields 1 field:{} value:{i}", scattered(key, i)).unwrap();
    }),
    ("list", |out, key, i| writeln!(out, "rpush list:{key} element:{}", scattered(key, i)).unwrap()),
    ("list of long elements", |out, key, i| {
        writeln!(out, "lpush list:{key} {}", "x".repeat(100 + i % 1000)).unwrap();
    }),
    ("set", |out, key, i| writeln!(out, "sadd set:{key} member:{}", scattered(key, i)).unwrap()),
    ("set of integers", |out, key, i| writeln!(out, "sadd set:{key} {}", scattered(key, i)).unwrap()),
    ("set of consecutive integers", |out, key, i| writeln!(out, "sadd set:{key} {i}").unwrap()),
    ("sorted set", |out, key, i| {
        writeln!(out, "zadd zset:{key} {i}.5 member:{}", scattered(key, i)).unwrap()
    }),
    ("stream", |out, key, i| {
        writeln!(out, "xadd stream:{key} {}-1 field value:{i}", 1_700_000_000_000 + i).unwrap()
    }),
    ("stream with readers", |out, key, i| {
        let stream = format!("stream:{key}");
        if i == 0 {
            writeln!(out, "xgroup create {stream} group 0 mkstream\nxgroup create {stream} other 0").unwrap();
        }
        writeln!(out, "xadd {stream} {}-1 field value:{i}", 1_700_000_000_000 + i).unwrap();
        writeln!(out, "xreadgroup group group reader:{} count 1 streams {stream} >", i % 3).unwrap();
    }),
    ("keys that expire", |out, key, i| {
        writeln!(out, "hset hash:{key} field:{} value:{i}", scattered(key, i)).unwrap();
        writeln!(out, "expire hash:{key} 100000").unwrap();
    }),
];

/// `--sizing`, which starts this test binary as its server.
fn size(server: &Server, options: &[&str]) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut client = server.client(&["--sizing", "--sizing-server", program.to_str().unwrap()]);
    finish(starting_servers(&mut client).args(options), b"")
}

/// Bytes there and here, by the first line of the report that begins so.
fn bytes(report: &str, begin: &str) -> (f64, f64) {
    let number = |word: &str| -> Option<f64> {
        let (digits, unit) = word.split_at_checked(word.len() - 1)?;
        let power = ["B", "K", "M"].iter().position(|name| *name == unit)?;
        Some(digits.parse::<f64>().ok()? * 1024_f64.powi(power as i32))
    };
    let line = report.lines().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no {begin} in {report}"));
    let found: Vec<f64> = line.split_whitespace().filter_map(number).collect();
    (found[0], found[1])
}

/// What is kept of hot keys is part of it, unless the server keeps none.
fn used_memory(server: &Server) -> f64 {
    let info = server.ask(&["info", "memory"]);
    info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
}

fn fill(server: &Server, add: Add, keys: usize, elements: usize) {
    let mut commands = String::new();
    for key in 0..keys {
        (0..elements).for_each(|i| add(&mut commands, key, i));
    }
    let output = server.run_with_input(&["--pipe"], commands.as_bytes());
    assert!(output.stdout.contains("errors: 0,"), "{output:?}");
}

/// Empties the server; what it takes then, with the buffers that it keeps once they have been used.
fn empty(server: &Server) -> f64 {
    let (_, add) = TYPES[0];
    // As much as fills a buffer of what a client sends.
    fill(server, add, 10_000, 1);
    fill(server, add, 1, 500);
    server.ask(&["dump", "string:0"]);
    server.ask(&["flushall", "sync"]);
    used_memory(server)
}

/// What of this sizing is further off than this share of the truth: of what the server says of the keys, and of what it
/// took for all of them since it was empty, when it used this number of bytes.
fn faults(server: &Server, what: &str, keys: usize, empty_bytes: f64, error_max: f64) -> Vec<String> {
    let taken = used_memory(server) - empty_bytes;
    let output = size(server, &[]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let kind = server.ask(&["type", &server.ask(&["randomkey"])]);
    let mut pairs = vec![("by MEMORY USAGE", bytes(&output.stdout, &format!("{kind} ")))];
    // Of few keys it says little beside what the server takes for itself.
    if keys > 1000 {
        pairs.push(("by used_memory", (taken, bytes(&output.stdout, "db0 ").1)));
    }
    let is_off = |(_, (truth, estimate)): &(&str, (f64, f64))| (estimate - truth).abs() > truth * error_max;
    let printed = |(source, (truth, estimate)): (&str, (f64, f64))| {
        format!("{what}: {estimate} estimated, {truth} {source}")
    };
    pairs.into_iter().filter(is_off).map(printed).collect()
}

/// The estimate, against a server that has loaded such data, and against one whose clients have built it piece by piece,
/// which leaves some room in its pages.
fn compare(server: &Server, (what, add): (&str, Add), keys: usize, elements: usize) -> Vec<String> {
    let before = empty(server);
    fill(server, add, keys, elements);
    let what = format!("{keys} x {what} of {elements}");
    let mut found = faults(server, &format!("{what}, built"), keys, before, 0.1);
    assert_eq!(server.ask(&["debug", "reload"]), "OK");
    found.extend(faults(server, &format!("{what}, loaded"), keys, before, 0.05));
    found
}

pub fn estimates_are_what_the_data_takes() {
    let server = Server::start(&["--enable-debug-command", "yes", "--hot-keys", "no"]);
    let mut found = Vec::new();
    for case in TYPES {
        // Of a few pages one may be half full in one server and none in the other, which many pages even out.
        for (keys, elements) in [(1, 1), (4000, 1), (3000, 9), (60, 150), (40, 300), (6, 3000)] {
            found.extend(compare(&server, case, keys, elements));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

pub fn large_keys_are_estimated_by_some_of_their_elements() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut found = Vec::new();
    for case in TYPES.into_iter().skip(1) {
        found.extend(compare(&server, case, 1, 100_000));
    }
    for len in [1_500_000, 5_000_000] {
        server.ask(&["flushall", "sync"]);
        server.run_with_input(&["-x", "set", "string"], "x".repeat(len).as_bytes());
        let (there, here) = bytes(&size(&server, &[]).stdout, "string ");
        assert!((here - there).abs() < there * 0.05, "{here} estimated, {there} taken");
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

pub fn samples_stand_for_all_keys() {
    let server = Server::start(&["--hot-keys", "no"]);
    let before = empty(&server);
    fill(
        &server,
        |out, key, i| writeln!(out, "hset hash:{key} field:{i} {}", "x".repeat(key % 50 + 1)).unwrap(),
        20_000,
        4,
    );
    let taken = used_memory(&server) - before;
    let report = size(&server, &["--sizing-samples", "1000"]).stdout;
    assert!(report.contains("Sampled 1,000 of 20,000 keys; read "), "{report}");
    let (_, here) = bytes(&report, "db0 ");
    assert!((here - taken).abs() < taken * 0.05, "{here} estimated, {taken} taken");
    // Those that match are counted to the end.
    server.run(&["-n", "5", "mset", "hash:100", "x", "other", "x"]);
    let report = size(&server, &["--pattern", "hash:1??", "--sizing-samples", "50"]).stdout;
    assert!(report.contains("\ndb0                  100          50   50.00% "), "{report}");
    assert!(report.contains("\ndb5                    1           1  100.00% "), "{report}");
    assert!(report.contains("\nall                  101          51 "), "{report}");
    let report = size(&server, &["--type", "string", "--sizing-bytes", "1"]).stdout;
    assert!(report.contains("Sampled 2 of 2 keys"), "{report}");
}

pub fn a_signal_ends_the_server_too() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    server.ask(&["debug", "populate", "300000"]);
    let program = std::env::current_exe().unwrap();
    let arguments = ["--sizing", "--sizing-samples", "300000", "--sizing-server", program.to_str().unwrap()];
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let temporary = server.path("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let entries = || std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
        let mut client = server.client(&arguments);
        starting_servers(&mut client).env("TMPDIR", &temporary).stdout(Stdio::null());
        let mut client = client.spawn().unwrap();
        eventually("the server listens", || entries().any(|directory| directory.join("socket").exists()));
        let started = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", client.id())).unwrap();
        let started: u32 = started.trim().parse().unwrap();
        kill_process(Pid::from_child(&client), signal).unwrap();
        client.wait().unwrap();
        assert_eq!(entries().count(), 0, "{signal:?}");
        eventually("the server is gone", || !Path::new(&format!("/proc/{started}/cmdline")).exists());
        std::fs::remove_dir(&temporary).unwrap();
    }
}

pub fn what_cannot_be_measured_is_said() {
    let server = Server::start(&[]);
    assert!(size(&server, &[]).stdout.contains("Sampled 0 of 0 keys"));
    let run = |program: &str| {
        let output = server.run(&["--sizing", "--sizing-server", program]);
        assert_eq!(output.code, 1);
        output.stderr
    };
    assert_eq!(run("/nothing"), "Cannot start /nothing (--sizing-server): No such file or directory\n");
    assert!(run("/bin/false").starts_with("The server that was started for --sizing: "));
    // A user who may look but not read.
    server.ask(&["acl", "setuser", "default", "-dump"]);
    server.ask(&["set", "a", "1"]);
    let output = size(&server, &[]);
    assert!(output.stderr.starts_with("DUMP returned an error: NOPERM"), "{output:?}");
    assert_eq!(output.code, 1);
}
