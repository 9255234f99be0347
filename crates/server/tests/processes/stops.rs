//! Processes that are asked to end, by signals and by SHUTDOWN, while clients write: what was acknowledged is there
//! afterwards, and nothing is there by half.

use crate::process::{self, Client, Process, encode, eventually, shown};
use rustix::process::Signal;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

tests_with_io_threads!(
    nothing_acknowledged_is_lost_by_a_stop,
    a_slow_script_is_saved_whole,
    a_script_that_reads_ends_with_the_process,
    a_stop_that_waits_for_nothing_saves_beside_a_script_that_reads,
    a_script_that_has_written_is_given_up,
    a_command_to_stop_loses_no_changes_to_a_script,
    a_signal_ends_what_a_command_waits_for,
    a_stop_that_cannot_save_does_not_happen,
    a_stop_that_a_pause_has_held_is_the_last_command,
    a_restart_is_the_same_process_with_the_same_data,
);

/// A directory for files that outlive servers.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let threads = process::IO_THREADS.get();
        let name = format!("warmline-stops-{name}-{threads}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    fn start(&self, options: &[&str]) -> Process {
        let fixed = ["--enable-debug-command", "yes", "--dir", self.0.to_str().unwrap()];
        Process::start(&[&fixed, options].concat())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn loaded(server: &Process) -> Client<TcpStream> {
    let mut client = server.connect();
    eventually("loading", || client.ask("PING") == "PONG");
    client
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Signal(Signal),
    Command(&'static str),
}

impl Stop {
    fn ask(self, server: &Process) {
        match self {
            Stop::Signal(signal) => server.signal(signal),
            Stop::Command(command) => {
                let mut client = server.connect();
                assert_eq!(client.ask("SET asked 1"), "OK");
                let requests = [encode(&words(command)), encode(&[b"SET", b"behind", b"1"])].concat();
                std::io::Write::write_all(&mut client.stream, &requests).unwrap();
                assert!(client.is_closed_by_server(), "nothing behind SHUTDOWN is answered");
            }
        }
    }
}

fn words(command: &str) -> Vec<&[u8]> {
    command.split(' ').map(str::as_bytes).collect()
}

const STOPS: [Stop; 7] = [
    Stop::Signal(Signal::TERM),
    Stop::Command("SHUTDOWN"),
    Stop::Signal(Signal::INT),
    Stop::Command("SHUTDOWN SAVE"),
    Stop::Command("SHUTDOWN NOW"),
    Stop::Signal(Signal::TERM),
    Stop::Command("SHUTDOWN NOW SAVE FORCE"),
];

/// Sends pipelines of a counter's values until the server is gone; the last one that was acknowledged.
fn write_until_gone(client: &mut Client<TcpStream>, key: &str) -> u64 {
    const PIPELINE: u64 = 20;
    let (mut sent, mut acknowledged) = (0, 0);
    loop {
        let values = (sent + 1..=sent + PIPELINE).map(|value| value.to_string());
        let requests: Vec<u8> =
            values.flat_map(|value| encode(&[b"SET", key.as_bytes(), value.as_bytes()])).collect();
        sent += PIPELINE;
        // After a failure, what was acknowledged before may still be on its way.
        let _ = std::io::Write::write_all(&mut client.stream, &requests);
        for _ in 0..PIPELINE {
            match client.receive().as_ref().map(shown).as_deref() {
                Some("OK") => acknowledged += 1,
                Some(other) => panic!("{other}"),
                None => return acknowledged,
            }
        }
    }
}

fn nothing_acknowledged_is_lost_by_a_stop() {
    const WRITERS: usize = 4;
    let snapshots: &[&str] = &["--save", "3600 100000000"];
    for options in [snapshots, &["--appendonly", "yes"], &["--appendonly", "yes", "--appendfsync", "always"]]
    {
        let files = Files::new("stops");
        for (round, stop) in STOPS.into_iter().enumerate() {
            let mut server = files.start(options);
            drop(loaded(&server));
            let acknowledged: Vec<u64> = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS)
                    .map(|writer| {
                        let mut client = server.connect();
                        scope.spawn(move || write_until_gone(&mut client, &format!("writer{writer}")))
                    })
                    .collect();
                std::thread::sleep(Duration::from_millis(40 + round as u64 * 7));
                stop.ask(&server);
                writers.into_iter().map(|writer| writer.join().unwrap()).collect()
            });
            assert_eq!(server.wait().code(), Some(0), "{stop:?}");
            let server = files.start(options);
            let mut client = loaded(&server);
            for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
                let value: u64 = client.ask(&format!("GET writer{writer}")).parse().unwrap_or(0);
                assert!(value >= acknowledged, "{stop:?}, {options:?}: {value} of {acknowledged}");
            }
            if matches!(stop, Stop::Command(_)) {
                assert_eq!(client.ask("MGET asked behind"), "[1 Null]", "{stop:?}, {options:?}");
            }
            client.ask("FLUSHALL");
        }
    }
}

/// Says that it has begun, writes, takes some hundred milliseconds, and writes again.
const SLOW: &str =
    "redis.call('incr',KEYS[1]) for i=1,300000 do redis.call('ping') end return redis.call('incr',KEYS[1])";

fn begin_slow(server: &Process, in_transaction: bool) -> Client<TcpStream> {
    let mut client = server.connect();
    if in_transaction {
        client.send(&[b"MULTI"]);
        client.send(&[b"INCR", b"x"]);
    }
    client.send(&[b"EVAL", SLOW.as_bytes(), b"1", b"x"]);
    if in_transaction {
        client.send(&[b"INCR", b"x"]);
        client.send(&[b"EXEC"]);
    }
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("GET x").starts_with("BUSY"));
    client
}

fn a_slow_script_is_saved_whole() {
    // It is waited for, however slow the machine is.
    let patient = ["--busy-reply-threshold", "1", "--shutdown-timeout", "600"];
    let snapshots: &[&str] = &[&["--save", "3600 100000000"], &patient[..]].concat();
    let log: &[&str] = &[&["--appendonly", "yes"], &patient[..]].concat();
    for (options, in_transaction) in [(snapshots, false), (snapshots, true), (log, false), (log, true)] {
        let whole = if in_transaction { "4" } else { "2" };
        let files = Files::new("slow");
        let mut server = files.start(options);
        let mut client = begin_slow(&server, in_transaction);
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
        while let Some(reply) = client.receive() {
            assert!(["OK", "QUEUED", "2", "[1 3 4]"].contains(&shown(&reply).as_str()), "{reply:?}");
        }
        assert_eq!(loaded(&files.start(options)).ask("GET x"), whole, "{options:?}");

        let mut server = files.start(options);
        loaded(&server).ask("SET x 2");
        let _client = begin_slow(&server, in_transaction);
        assert!(loaded_or_busy(&server).ask("PING").starts_with("BUSY"));
        let mut asks = loaded_or_busy(&server);
        asks.send(&[b"SHUTDOWN"]);
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(asks.receive(), None);
        assert_eq!(loaded(&files.start(options)).ask("SET x 2 GET"), if in_transaction { "6" } else { "4" });
        let mut server = files.start(options);
        loaded(&server).ask(&format!("SET x {whole}"));
        loaded(&server).send(&[b"SHUTDOWN"]);
        assert_eq!(server.wait().code(), Some(0));

        // Who does not want to wait for it may do without what is not saved.
        let mut server = files.start(options);
        loaded(&server).ask("SET y saved");
        let _client = begin_slow(&server, in_transaction);
        loaded_or_busy(&server).send(&[b"SHUTDOWN", b"NOSAVE"]);
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(loaded(&files.start(options)).ask("GET x"), whole, "{options:?}");
    }
}

/// Scripts that never end.
const READS: [&str; 4] = [
    "while true do redis.call('get', KEYS[1]) end",
    "while true do end",
    "while true do pcall(function() while true do redis.call('get', KEYS[1]) end end) end",
    "while true do redis.pcall('time') end",
];

fn begin_endless(server: &Process, script: &str) -> Client<TcpStream> {
    let mut client = server.connect();
    client.send(&[b"EVAL", script.as_bytes(), b"1", b"x"]);
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("GET x").starts_with("BUSY"));
    client
}

/// A script that has not written does not keep the process from ending, nor from saving.
fn a_script_that_reads_ends_with_the_process() {
    for script in READS {
        for stop in [Stop::Signal(Signal::TERM), Stop::Command("SHUTDOWN")] {
            let files = Files::new("reads");
            let options = ["--save", "3600 100000000", "--busy-reply-threshold", "1"];
            let mut server = files.start(&options);
            loaded(&server).ask("SET y kept");
            let mut client = begin_endless(&server, script);
            let asked = std::time::Instant::now();
            let mut asks = loaded_or_busy(&server);
            match stop {
                Stop::Signal(signal) => server.signal(signal),
                Stop::Command(command) => asks.send(&[command.as_bytes()]),
            }
            assert_eq!(server.wait().code(), Some(0), "{script}");
            assert!(
                asked.elapsed() < Duration::from_secs(5),
                "{script} held the end up for {:?}",
                asked.elapsed()
            );
            if let Some(reply) = client.receive() {
                assert!(shown(&reply).contains("the server is shutting down"), "{reply:?}");
            }
            assert_eq!(loaded(&files.start(&options)).ask("GET y"), "kept", "{script}");
        }
    }
}

/// Whatever `busy-reply-threshold` is, a signal ends the process. The script runs for as long as the default allows.
#[test]
fn a_script_that_is_never_slow_ends_with_the_process() {
    for (threshold, signal) in [("0", Signal::TERM), ("86400000", Signal::INT)] {
        let files = Files::new("never-slow");
        let options = ["--save", "3600 100000000", "--busy-reply-threshold", threshold];
        let mut server = files.start(&options);
        let mut client = loaded(&server);
        assert_eq!(client.ask("SET y kept"), "OK");
        client.send(&[b"EVAL", b"while true do end", b"0"]);
        std::thread::sleep(Duration::from_millis(500));
        let asked = std::time::Instant::now();
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{threshold}");
        assert!(asked.elapsed() < Duration::from_secs(20), "{threshold}: {:?}", asked.elapsed());
        assert_eq!(loaded(&files.start(&options)).ask("GET y"), "kept", "{threshold}");
    }
}

/// A shutdown without time for a script has the time to end one that has not written, and saves.
fn a_stop_that_waits_for_nothing_saves_beside_a_script_that_reads() {
    let stops: [(&[&str], Stop); 5] = [
        (&["--shutdown-timeout", "0"], Stop::Signal(Signal::TERM)),
        (&["--shutdown-timeout", "0"], Stop::Command("SHUTDOWN")),
        (&["--shutdown-on-sigterm", "now"], Stop::Signal(Signal::TERM)),
        (&[], Stop::Command("SHUTDOWN NOW")),
        (&[], Stop::Command("SHUTDOWN SAVE NOW")),
    ];
    for (timeout, stop) in stops {
        let files = Files::new("reads-now");
        let options = [&["--save", "3600 100000000", "--busy-reply-threshold", "1"], timeout].concat();
        let mut server = files.start(&options);
        loaded(&server).ask("SET y kept");
        let _client = begin_endless(&server, "while true do end");
        let mut asks = loaded_or_busy(&server);
        match stop {
            Stop::Signal(signal) => server.signal(signal),
            Stop::Command(command) => asks.send(&words(command)),
        }
        assert_eq!(server.wait().code(), Some(0), "{stop:?}");
        assert_eq!(loaded(&files.start(&options)).ask("GET y"), "kept", "{timeout:?} {stop:?}");
    }
}

/// Writes, and never ends.
const WRITES: &str = "redis.call('incr', KEYS[1]) while true do end";

/// One that has written gets as long as replicas do; nothing of it is kept then. If that costs changes from before it,
/// the status of the process and the log say so.
fn a_script_that_has_written_is_given_up() {
    let snapshots: &[&str] = &["--save", "3600 100000000"];
    let log: &[&str] = &["--appendonly", "yes"];
    for (kind, later, status, line) in [
        (snapshots, "Null", 1, "all changes since the last save are lost"),
        (log, "kept", 0, "the append-only file has all changes before it"),
    ] {
        for stop in [Signal::TERM, Signal::INT] {
            let files = Files::new("given-up");
            let log_path = files.0.join("log");
            let fixed = ["--busy-reply-threshold", "1", "--shutdown-timeout", "1", "--logfile"];
            let options = [kind, &fixed, &[log_path.to_str().unwrap()]].concat();
            let mut server = files.start(&options);
            let mut client = loaded(&server);
            assert_eq!(client.ask("SET saved kept"), "OK");
            if kind == snapshots {
                assert_eq!(client.ask("SAVE"), "OK");
            }
            assert_eq!(client.ask("SET later kept"), "OK");
            let _client = begin_endless(&server, WRITES);
            let asked = std::time::Instant::now();
            server.signal(stop);
            assert_eq!(server.wait().code(), Some(status));
            let took = asked.elapsed();
            assert!((Duration::from_millis(900)..Duration::from_secs(8)).contains(&took), "{took:?}");
            let lines = std::fs::read_to_string(&log_path).unwrap();
            assert!(lines.contains(line), "{lines}");
            let replies = loaded(&files.start(&options)).ask("MGET saved later x");
            assert_eq!(replies, format!("[kept {later} Null]"), "{options:?}");
        }
    }
}

const CANNOT_STOP: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Without an append-only file, SHUTDOWN fails beside a script that has written and does not end in time.
fn a_command_to_stop_loses_no_changes_to_a_script() {
    let snapshots: &[&str] =
        &["--save", "3600 100000000", "--busy-reply-threshold", "1", "--shutdown-timeout", "0"];
    let files = Files::new("not-lost");
    let mut server = files.start(snapshots);
    assert_eq!(loaded(&server).ask("SET y kept"), "OK");
    let mut slow = begin_endless(
        &server,
        "redis.call('incr', KEYS[1]) \
        local function now() local t = redis.call('TIME') return t[1] + t[2] / 1000000 end \
        local until_s = now() + 3 while now() < until_s do end return 'ended'",
    );
    let mut asks = loaded_or_busy(&server);
    for command in ["SHUTDOWN", "SHUTDOWN NOW", "SHUTDOWN SAVE"] {
        assert_eq!(asks.ask(command), CANNOT_STOP);
        assert_eq!(asks.ask("SHUTDOWN ABORT"), "ERR No shutdown in progress.");
    }
    assert_eq!(shown(&slow.receive().unwrap()), "ended", "the script goes on");
    asks.send(&[b"SHUTDOWN"]);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(loaded(&files.start(snapshots)).ask("MGET x y"), "[1 kept]");

    // With FORCE the changes are given up, and with an append-only file none are lost.
    let log: &[&str] = &[snapshots, &["--appendonly", "yes"]].concat();
    for (options, command) in [(snapshots, "SHUTDOWN FORCE"), (log, "SHUTDOWN"), (log, "SHUTDOWN SAVE")] {
        let files = Files::new("forced");
        let mut server = files.start(options);
        assert_eq!(loaded(&server).ask("SET y kept"), "OK");
        let _slow = begin_endless(&server, WRITES);
        loaded_or_busy(&server).send(&words(command));
        assert_eq!(server.wait().code(), Some(0), "{command}");
        let kept = if options == log { "[Null kept]" } else { "[Null Null]" };
        assert_eq!(loaded(&files.start(options)).ask("MGET x y"), kept, "{command}");
    }
}

/// A signal while SHUTDOWN waits for a script that does not end.
fn a_signal_ends_what_a_command_waits_for() {
    let files = Files::new("both");
    let options = ["--save", "3600 100000000", "--busy-reply-threshold", "1", "--shutdown-timeout", "2"];
    let mut server = files.start(&options);
    assert_eq!(loaded(&server).ask("SET y lost"), "OK");
    let _slow = begin_endless(&server, WRITES);
    let mut asks = loaded_or_busy(&server);
    asks.send(&[b"SHUTDOWN"]);
    std::thread::sleep(Duration::from_millis(200));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    assert_eq!(asks.receive(), None);
}

fn loaded_or_busy(server: &Process) -> Client<TcpStream> {
    let mut client = server.connect();
    eventually("loading", || !client.ask("PING").starts_with("LOADING"));
    client
}

fn a_stop_that_cannot_save_does_not_happen() {
    let files = Files::new("refused");
    let mut server = files.start(&["--save", "3600 100000000"]);
    let mut client = loaded(&server);
    client.ask("SET x 1");
    let path: &Path = &files.0.join("dump.rdb");
    std::fs::create_dir_all(path.join("in the way")).unwrap();
    assert_eq!(client.ask("SHUTDOWN"), "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(client.ask("SHUTDOWN ABORT"), "ERR No shutdown in progress.");
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.ask("INCR x"), "2");
    std::fs::remove_dir_all(path).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let mut server = files.start(&["--save", "3600 100000000"]);
    let mut client = loaded(&server);
    assert_eq!(client.ask("GET x"), "2");
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir_all(path.join("in the way")).unwrap();
    client.send(&[b"SHUTDOWN", b"FORCE"]);
    assert_eq!(server.wait().code(), Some(0));
}

fn a_stop_that_a_pause_has_held_is_the_last_command() {
    let files = Files::new("held-stop");
    let mut server = files.start(&[]);
    let (mut stopping, mut writing) = (loaded(&server), loaded(&server));
    assert_eq!(loaded(&server).ask("CLIENT PAUSE 400 ALL"), "OK");
    stopping.send(&[b"SHUTDOWN", b"SAVE"]);
    std::thread::sleep(Duration::from_millis(100));
    writing.send(&[b"SET", b"behind", b"1"]);
    let acknowledged = writing.receive().is_some();
    server.wait();
    let server = files.start(&[]);
    let kept = loaded(&server).ask("EXISTS behind") == "1";
    assert!(kept || !acknowledged, "a write was acknowledged behind the final save");
}

fn a_restart_is_the_same_process_with_the_same_data() {
    let files = Files::new("restart");
    let server = files.start(&["--appendonly", "yes"]);
    let (mut client, run) = (server.connect(), server.info("run_id"));
    assert_eq!(client.ask("SET a 1"), "OK");
    client.ask("MULTI");
    client.ask("DEBUG RESTART");
    assert_eq!(client.ask("EXEC"), "[ERR DEBUG RESTART is not allowed in a transaction]");
    client.send(&[b"DEBUG", b"RESTART", b"100"]);
    assert!(client.is_closed_by_server());
    let connect = || TcpStream::connect(("127.0.0.1", server.port));
    eventually("the restart", || connect().is_ok());
    let mut client = server.connect();
    eventually("the data", || client.ask("GET a") == "1");
    assert_ne!(server.info("run_id"), run);
    assert_eq!(server.info("process_id"), Some(server.pid().to_string()));
    // A signal ends the wait.
    client.send(&[b"DEBUG", b"RESTART", b"600000"]);
    assert!(client.is_closed_by_server());
    server.signal(Signal::TERM);
    let mut server = server;
    assert!(server.wait().success());
}
