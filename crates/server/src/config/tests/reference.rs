//! Comparison with the reference, if available: `REFERENCE=host:port` names a running server, whose configuration is
//! restored; `VALKEY_SERVER=path` names the program, which is started with configurations of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Scratch, load, load_file, set, value};
use crate::config::*;

/// Options with intended differences, or that depend on how the reference was started.
const INTENDED_DIFFERENCES: &[(&str, &str)] = &[
    ("syslog-ident", "the program's own name"),
    ("tcp-nodelay", "new"),
    ("zset-index", "new"),
    ("key-policy", "new"),
    ("bind", "how the reference was started"),
    ("config-file", "how the reference was started"),
    ("dir", "how the reference was started"),
    ("enable-debug-command", "how the reference was started"),
    ("enable-module-command", "how the reference was started"),
    ("enable-protected-configs", "how the reference was started"),
    ("logfile", "how the reference was started"),
    ("pidfile", "how the reference was started"),
    ("port", "how the reference was started"),
    ("save", "how the reference was started"),
    ("unixsocket", "how the reference was started"),
];

struct Reference(BufReader<TcpStream>);

impl Reference {
    /// The server of the environment variable, for one test at a time.
    fn named() -> Option<(Self, MutexGuard<'static, ()>)> {
        static TURN: Mutex<()> = Mutex::new(());
        let address = std::env::var("REFERENCE").ok()?;
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some((Self::connect(&address).unwrap(), turn))
    }

    fn connect(address: &str) -> std::io::Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(address)?)))
    }

    fn send(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A simple reply, or the strings of an array.
    fn reply(&mut self) -> Vec<String> {
        let line = self.line();
        let Some(count) = line.strip_prefix('*') else { return vec![line] };
        let count: usize = count.parse().unwrap();
        (0..count).map(|_| self.bulk()).collect()
    }

    fn bulk(&mut self) -> String {
        let len: usize = self.line()[1..].parse().unwrap();
        let mut bulk = vec![0; len + 2];
        self.0.read_exact(&mut bulk).unwrap();
        bulk.truncate(len);
        String::from_utf8(bulk).unwrap()
    }

    fn ask(&mut self, words: &[&str]) -> Vec<String> {
        self.send(words);
        self.reply()
    }
}

fn differs_on_purpose(name: &str) -> bool {
    INTENDED_DIFFERENCES.iter().any(|(other, _)| *other == name)
}

#[test]
fn the_same_options_with_the_same_defaults() {
    let Some((mut reference, _turn)) = Reference::named() else { return };
    let theirs: BTreeMap<String, String> = reference
        .ask(&["CONFIG", "GET", "*"])
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let ours: BTreeMap<String, String> =
        Config::default().get(&[b"*"]).into_iter().map(|(name, value)| (text(name), text(value))).collect();
    for name in ours.keys().chain(theirs.keys()) {
        if !differs_on_purpose(name) {
            assert_eq!(ours.get(name), theirs.get(name), "{name}");
        }
    }
    // Hidden options too.
    for row in ROWS.iter().filter(|row| row.flags.has(Flags::HIDDEN)) {
        let theirs = reference.ask(&["CONFIG", "GET", row.name]);
        assert_eq!(theirs, [row.name.to_owned(), text(Config::default().value_of(row))]);
    }
}

/// Refused values have the same error; the reference is not changed.
#[test]
fn the_same_errors() {
    let Some((mut reference, _turn)) = Reference::named() else { return };
    let bad = [
        "",
        "bogus",
        "-1",
        "-99999999999",
        "99999999999999999999",
        "1 2 3",
        "yess",
        "1tb",
        "101%",
        "{",
        "a/b",
    ];
    let mut compared = 0;
    for name in ROWS.iter().flat_map(Row::names) {
        // The reference has no RDMA and no TLS here, and lacks the new options.
        if differs_on_purpose(name)
            || ["rdma-", "tls-", "locale-"].iter().any(|start| name.starts_with(start))
        {
            continue;
        }
        for value in bad {
            let config = Config::default();
            let origin = SetOrigin::default();
            let Err(error) = config.prepare(&[(name.as_bytes(), value.as_bytes())], origin) else { continue };
            let ours = String::from_utf8(error.text().unwrap()).unwrap();
            assert_eq!(
                reference.ask(&["CONFIG", "SET", name, value]),
                [format!("-{ours}")],
                "{name} {value:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Accepted values are printed in the same way.
#[test]
fn the_same_values() {
    let Some((mut reference, _turn)) = Reference::named() else { return };
    // Options that would close the connection, change the address, or depend on the build of the reference.
    let risky = [
        "requirepass",
        "appendonly",
        "io-threads",
        "maxclients",
        "oom-score-adj",
        "locale-collate",
        "watchdog-period",
    ];
    let values = [
        "", "0", "1", "7", "yes", "NO", "1k", "5gb", "50%", "KEgx", "An", "1 2", "1 2 3", "abc", "nosave",
        "{port}",
    ];
    let mut compared = 0;
    for (row, name) in ROWS.iter().flat_map(|row| row.names().map(move |name| (row, name))) {
        let skipped = risky.contains(&name) || ["rdma-", "tls-"].iter().any(|start| name.starts_with(start));
        if skipped || differs_on_purpose(name) {
            continue;
        }
        for typed in values {
            let mut config = Config::default();
            if set(&mut config, &[(name, typed)]).is_err() {
                continue;
            }
            assert_eq!(reference.ask(&["CONFIG", "SET", name, typed]), ["+OK"], "{name} {typed:?}");
            assert_eq!(reference.ask(&["CONFIG", "GET", name])[1], value(&config, name), "{name} {typed:?}");
            compared += 1;
        }
        if !row.flags.has(Flags::IMMUTABLE) && !row.flags.has(Flags::PROTECTED) {
            let default = value(&Config::default(), name);
            assert_eq!(reference.ask(&["CONFIG", "SET", name, &default]), ["+OK"], "{name} {default:?}");
        }
    }
    assert!(compared > 400, "{compared}");
}

fn reference_program() -> Option<std::ffi::OsString> {
    std::env::var_os("VALKEY_SERVER")
}

#[test]
fn the_same_errors_at_start() {
    let Some(program) = reference_program() else { return };
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| scratch.write(name, text).to_str().unwrap().to_owned();
    let unbalanced = file("unbalanced.conf", "port 0\n\n  requirepass \"a\n");
    let short = file("short.conf", "port 0\nport");
    let chain = file("chain.conf", &format!("hz 1\ninclude {short}"));
    let cases: &[&[&str]] = &[
        &["--invalid"],
        &["--port"],
        &["--port 1 2"],
        &["--port", "--bla", "--loglevel", "x"],
        &["--loglevel"],
        &["--replicaof", "--127.0.0.1", "--abc"],
        &["--replicaof", "1.1.1.1", "70000"],
        &["--shutdown-on-sigint", "now force", "--shutdown-on-sigterm"],
        &["--save", "1"],
        &["--save", "1 2 3"],
        &["--user"],
        &["--rename-command", "a"],
        &["--include", "a", "b"],
        &["--dynamic-hz"],
        &["--a.b"],
        &["--dir", "/nonexistent"],
        &["--requirepass", "a\"b\n", "\u{e9}"],
        &["--logfile", "/nonexistent/x"],
        &["--client-output-buffer-limit", "normal", "1"],
        &["--unixsocketperm", "789"],
        &["--unixsocketperm", "1000"],
        &["--hash-seed", &"x".repeat(257)],
        &["--appendfilename", "a/b"],
        &[&unbalanced],
        &[&short],
        &[&chain],
        &[&file("ok.conf", "hz 1\n"), "--hz", "x"],
        &["--list-max-ziplist-value", "3", "--port", "x"],
    ];
    for arguments in cases {
        let output = Command::new(&program).args(*arguments).stdin(Stdio::null()).output().unwrap();
        let theirs = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours = load(arguments).unwrap_err().to_string();
        // After the line with the version, and without our last line, which contains file and word.
        let theirs: Vec<&str> = theirs.lines().skip(2).collect();
        let ours: Vec<&str> = ours.lines().skip(2).filter(|line| !line.starts_with('(')).collect();
        assert_eq!(ours, theirs, "{arguments:?}");
        assert!(!theirs.is_empty());
    }
}

/// A server started by the test.
struct Server(Child);

impl Server {
    fn start(program: &std::ffi::OsStr, file: &std::path::Path, port: u16) -> (Self, Reference) {
        let child = Command::new(program)
            .arg(file)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match Reference::connect(&format!("127.0.0.1:{port}")) {
                Ok(reference) => return (server, reference),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_same_rewritten_file() {
    let Some(program) = reference_program() else { return };
    let scratch = Scratch::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "# top\n\n\n\ndir {}\n  # indented\nMaxMemory 100mb\nhz 10\nsave 900 1\nsave 300 10\nslave-priority 5\n\
         hash-max-ziplist-entries 3\nhash-max-ziplist-entries 4\ndynamic-hz yes\nloglevel warning\n\
         requirepass 'a b'\nclient-output-buffer-limit pubsub 1mb 1mb 1\nbind 127.0.0.1\nbind *  -::*\n\
         rename-command flushdb zap\nmaxmemory-clients 5%\n# end",
        scratch.0.display()
    );
    let changes = [
        ("maxmemory", "1025"),
        ("notify-keyspace-events", "KEA"),
        ("requirepass", ""),
        ("client-output-buffer-limit", "normal 1kb 1gb 3 replica 0 0 0"),
        ("shutdown-on-sigterm", "now nosave"),
        ("tls-ciphers", ""),
        ("availability-zone", "a\\b\"c"),
        ("timeout", "100"),
        ("latency-tracking-info-percentiles", ""),
        ("maxmemory-clients", "7%"),
        ("repl-backlog-size", "3mb"),
    ];
    let theirs = scratch.write("theirs.conf", &text);
    let (_server, mut reference) = Server::start(&program, &theirs, port);
    reference.ask(&["AUTH", "a b"]);
    for (name, value) in changes {
        assert_eq!(reference.ask(&["CONFIG", "SET", name, value]), ["+OK"], "{name}");
    }
    assert_eq!(reference.ask(&["CONFIG", "REWRITE"]), ["+OK"]);
    let theirs = std::fs::read_to_string(theirs).unwrap();

    let mut config = load_file(&scratch.write("ours.conf", &text)).unwrap().config;
    config.port = port;
    set(&mut config, &changes).unwrap();
    let users: Vec<Vec<u8>> = theirs
        .lines()
        .filter_map(|line| line.strip_prefix("user "))
        .map(|user| user.as_bytes().into())
        .collect();
    let request = RewriteRequest { users: Some(&users), every_option: false, ..RewriteRequest::default() };
    let ours = String::from_utf8(config.rewritten_text(text.as_bytes(), request)).unwrap();

    // The reference appends new options in the order of a hash table.
    let (our_head, our_tail) = ours.split_once("# Generated by CONFIG REWRITE\n").unwrap();
    let (their_head, their_tail) = theirs.split_once("# Generated by CONFIG REWRITE\n").unwrap();
    assert_eq!(our_head, their_head);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(our_tail), sorted(their_tail));
}
