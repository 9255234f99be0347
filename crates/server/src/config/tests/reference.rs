//! Comparison with a reference server, where one is named: `REFERENCE=host:port cargo test config`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::config::*;

/// Options that differ on purpose, or that depend on how the reference was started.
const INTENDED_DIFFERENCES: &[(&str, &str)] = &[
    ("syslog-ident", "the program's own name"),
    ("tcp-nodelay", "new"),
    ("zset-index", "new"),
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
    fn connect() -> Option<Self> {
        let address = std::env::var("REFERENCE").ok()?;
        Some(Self(BufReader::new(TcpStream::connect(address).unwrap())))
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
    let Some(mut reference) = Reference::connect() else { return };
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

/// Refused values get the same error; the reference stays as it is.
#[test]
fn the_same_errors() {
    let Some(mut reference) = Reference::connect() else { return };
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
        // The reference has no RDMA and no TLS here, and cannot be asked about what is new.
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
