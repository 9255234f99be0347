//! Modes that look at all keys.

use std::io::PipeWriter;
use std::process::Stdio;

use crate::process::Server;

fn filled() -> Server {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lfu"]);
    let mut commands = String::new();
    for number in 0..100 {
        commands += &format!("set key:{number} {}\n", "x".repeat(number + 1));
    }
    commands += "rpush list a b c\nsadd set a b\nzadd zset 1 a\nhset hash f v\nxadd stream * f v\n";
    commands += "5 get key:42\n";
    server.run_with_input(&[], commands.as_bytes());
    server
}

pub fn keys_are_listed() {
    let server = filled();
    let scan = |options: &[&str]| {
        let output = server.run(&[&["--scan"], options].concat());
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout
    };
    assert_eq!(scan(&[]).lines().count(), 105);
    assert_eq!(scan(&["--pattern", "*:42"]), "key:42\n");
    assert_eq!(scan(&["--no-raw", "--quoted-pattern", r#""key:\x34\x32""#]), "\"key:42\"\n");
    assert_eq!(scan(&["--type", "hash", "--count", "1000"]), "hash\n");
    assert_eq!(scan(&["--pattern", "nothing*"]), "");
    let wrong = server.run(&["--scan", "--quoted-pattern", "\"a"]);
    assert_eq!(wrong.stderr, "Invalid quoted string specified for --quoted-pattern.\n");
    assert_eq!(server.run(&["--scan", "--count", "0"]).stderr, "SCAN error: ERR syntax error\n");
}

pub fn the_biggest_keys_are_found() {
    let server = filled();
    let text = server.run(&["--bigkeys"]).stdout;
    assert!(text.contains("# Scanning the entire keyspace to find biggest keys as well as\n"), "{text}");
    for line in [
        "Sampled 105 keys in the keyspace!",
        "Biggest string found '\"key:99\"' has 100 bytes",
        "Biggest   list found '\"list\"' has 3 items",
        "100 strings with 5050 bytes (95.24% of keys, avg size 50.50)",
        "1 streams with 1 entries (00.95% of keys, avg size 1.00)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    let text = server.run(&["--memkeys", "--pattern", "key:9*", "-i", "0.001"]).stdout;
    assert!(text.contains("Sampled 11 keys") && text.contains("Biggest string found '\"key:9"), "{text}");
    let text = server.run(&["--memkeys-samples", "3"]).stdout;
    assert!(text.contains("Biggest   hash found '\"hash\"' has "), "{text}");
}

pub fn readers_may_leave_early() {
    let server = filled();
    for mode in [
        "--help",
        "--version",
        "--generate man",
        "help",
        "lrange list 0 -1",
        "monitor",
        "--stat",
        "--scan --count 1",
        "--bigkeys --count 1",
        "--hotkeys",
        "--keystats",
        "--intrinsic-latency 1",
        "--rdb -",
    ] {
        let arguments: Vec<&str> = mode.split(' ').collect();
        let output = server.client(&arguments).stdout(unread_pipe()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{mode}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.is_empty() || mode == "--rdb -" && !printed.contains("Error"), "{mode}: {printed}");
    }
    // Error output is not read either.
    server.ask(&["config", "set", "repl-ping-replica-period", "1"]);
    let mut client = server.client(&["--replica"]);
    let status = client.stdin(Stdio::null()).stdout(unread_pipe()).stderr(unread_pipe()).status();
    assert_eq!(status.unwrap().code(), Some(1));
}

/// The end of a pipe whose other end is closed.
fn unread_pipe() -> PipeWriter {
    std::io::pipe().unwrap().1
}

pub fn the_hottest_keys_are_found() {
    let server = filled();
    let text = server.run(&["--hotkeys-count", "2"]).stdout;
    assert!(text.contains("Hot key '\"key:42\"' found so far with counter "), "{text}");
    let (_, summary) = text.split_once("-------- Summary --------").unwrap();
    assert_eq!(summary.matches("hot key found with counter: ").count(), 2, "{text}");
    assert!(summary.contains("\tkeyname: \"key:42\"\n"), "{text}");
    let other = Server::start(&[]);
    other.ask(&["set", "a", "1"]);
    let output = other.run(&["--hotkeys"]);
    assert!(output.stderr.starts_with("Error: ERR An LFU maxmemory policy is not selected"), "{output:?}");
    assert_eq!(output.code, 1);
}

pub fn statistics_of_keys() {
    let server = filled();
    let text = server.run(&["--keystats", "--top", "3"]).stdout;
    for part in [
        "100.00% keys scanned\nKeys sampled: 105\n",
        "--- Top 3 key sizes ---\n  1 ",
        "list       \"list\" has 3 items\n",
        "Key name length Percentile Total keys\n",
        "string             100  95.24% ",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("Scan interrupted"));
}
