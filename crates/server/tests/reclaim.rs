//! However a large collection is lost, it is freed by the thread for that and not by the one that runs commands.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod process;

use process::{Client, Process, eventually};
use std::net::TcpStream;

/// Enough that freeing it is left to the background.
const MEMBERS: usize = 5000;

fn build(client: &mut Client<TcpStream>, key: &str, kind: &str) {
    let member = |i: usize| format!("member:{i}");
    let commands: Vec<Vec<String>> = match kind {
        "stream" => (1..=MEMBERS)
            .map(|i| vec!["XADD".into(), key.into(), format!("{i}-0"), "f".into(), "v".into()])
            .collect(),
        "string" => vec![vec!["SET".into(), key.into(), "x".repeat(2 << 20)]],
        kind => {
            let (command, elements): (&str, Vec<String>) = match kind {
                "list" => ("RPUSH", (0..MEMBERS).map(member).collect()),
                "set" => ("SADD", (0..MEMBERS).map(member).collect()),
                "integers" => ("SADD", (0..MEMBERS).map(|i| (i * i).to_string()).collect()),
                "hash" => ("HSET", (0..MEMBERS).flat_map(|i| [member(i), "v".into()]).collect()),
                _ => ("ZADD", (0..MEMBERS).flat_map(|i| [i.to_string(), member(i)]).collect()),
            };
            vec![[command.to_owned(), key.to_owned()].into_iter().chain(elements).collect()]
        }
    };
    for batch in commands.chunks(1000) {
        for command in batch {
            client.send(&command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
        batch.iter().for_each(|_| drop(client.receive().unwrap()));
    }
}

fn field(client: &mut Client<TcpStream>, section: &str, name: &str) -> u64 {
    let info = client.ask(&format!("INFO {section}"));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().parse().unwrap()
}

/// Runs the commands and expects `objects` more to have been freed in the background.
fn expect_freed(client: &mut Client<TcpStream>, what: &str, objects: u64, commands: &[&str]) {
    let before = field(client, "memory", "lazyfreed_objects");
    for command in commands {
        client.ask(command);
    }
    let freed = |client: &mut Client<TcpStream>| field(client, "memory", "lazyfreed_objects") - before;
    eventually(&format!("freeing in the background after {what}"), || freed(client) >= objects);
    assert_eq!(freed(client), objects, "{what}");
}

#[test]
fn what_is_large_is_freed_in_the_background() {
    let server = Process::start(&["--enable-debug-command", "yes", "--stream-node-max-entries", "4"]);
    let mut client = server.connect();
    for kind in ["string", "list", "set", "integers", "hash", "sorted set", "stream"] {
        let ways: &[(&str, &[&str])] = &[
            ("DEL", &["DEL big"]),
            ("UNLINK", &["UNLINK big"]),
            ("SET over it", &["SET big x", "DEL big"]),
            ("RENAME over it", &["SET other x", "RENAME other big", "DEL big"]),
            ("COPY over it", &["SET other x", "COPY other big REPLACE", "DEL big"]),
            ("storing over it", &["SADD other x", "SUNIONSTORE big other", "DEL big", "DEL other"]),
            ("storing nothing over it", &["SUNIONSTORE big nothing"]),
            (
                "expiry found by a reader",
                &["DEBUG SET-ACTIVE-EXPIRE 0", "PEXPIRE big 1", "DEBUG SLEEP 0.01", "EXISTS big"],
            ),
            ("expiry found by the search", &["DEBUG SET-ACTIVE-EXPIRE 1", "PEXPIRE big 1"]),
            ("FLUSHDB", &["FLUSHDB"]),
            ("FLUSHALL", &["FLUSHALL"]),
        ];
        for (way, commands) in ways {
            build(&mut client, "big", kind);
            expect_freed(&mut client, &format!("a {kind}: {way}"), 1, commands);
        }
    }
}
