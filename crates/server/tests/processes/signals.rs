//! Signals that a terminal, a service manager, the rotation of logs or a person sends, in each state that a server may be
//! in: they do what docs/operations.md says, and nothing that is being done fails by them.

use crate::process::{self, Client, Process, eventually, free_port, program};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Signals that end nothing.
const HARMLESS: [Signal; 10] = [
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::PIPE,
    Signal::CHILD,
    Signal::WINCH,
    Signal::URG,
    Signal::CONT,
    Signal::XFSZ,
];

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

/// A directory of one test, with the server's files and its log.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warmline-signals-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    /// A server that leads a group of processes, as one that a terminal has started.
    fn start(&self, options: &[&str]) -> Process {
        self.start_by(Command::new(program()), options)
    }

    fn start_by(&self, mut command: Command, options: &[&str]) -> Process {
        let port = free_port();
        command
            .args(["--port", &port.to_string(), "--save", "", "--dir", self.0.to_str().unwrap()])
            .args(["--logfile", self.log().to_str().unwrap(), "--enable-debug-command", "yes"])
            .args(options)
            .stdout(Stdio::null())
            .process_group(0);
        let server = Process::adopt(command.spawn().unwrap(), port);
        eventually("listening", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn logged(&self, text: &str) -> usize {
        std::fs::read_to_string(self.log()).unwrap_or_default().matches(text).count()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ready(server: &Process) -> Client<TcpStream> {
    let mut client = server.connect();
    eventually("loading", || client.ask("PING") == "PONG");
    client
}

fn pid(server: &Process) -> Pid {
    Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap()
}

/// Sends it to the server and its children.
fn signal_group(server: &Process, signal: Signal) {
    kill_process_group(pid(server), signal).unwrap();
}

/// The child that writes a file.
fn child_of(server: &Process) -> Option<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", server.pid());
    let children = std::fs::read_to_string(path).unwrap();
    children.split_whitespace().next().and_then(|child| Pid::from_raw(child.parse().unwrap()))
}

/// All that mean nothing to a child, USR1 excepted, which cancels a child.
fn trouble(server: &Process) {
    for signal in HARMLESS {
        if signal == Signal::USR1 {
            server.signal(signal);
        } else {
            signal_group(server, signal);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_idle_server_goes_on() {
    let files = Files::new();
    let server = files.start(&["--io-threads", "2"]);
    let mut client = ready(&server);
    for signal in HARMLESS {
        server.signal(signal);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(client.ask("PING"), "PONG", "{signal:?}");
    }
    assert_eq!(files.logged("Received SIGHUP, the log file is reopened"), 1);
    eventually("SIGALRM is reported", || files.logged("Received SIGALRM") == 1);
    for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::STOP] {
        server.signal(signal);
        let (_, status) = waitpid(Some(pid(&server)), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{signal:?}");
        server.signal(Signal::CONT);
        assert_eq!(client.ask("PING"), "PONG", "{signal:?}");
    }
}

#[test]
fn signals_that_end_a_server_end_it() {
    for (signal, code) in [(Signal::TERM, Some(0)), (Signal::INT, Some(0)), (Signal::QUIT, None)] {
        let files = Files::new();
        let mut server = files.start(&[]);
        drop(ready(&server));
        signal_group(&server, signal);
        let status = server.wait();
        assert_eq!(status.code(), code, "{signal:?}");
        assert_eq!(status.signal(), code.is_none().then_some(signal.as_raw()), "{signal:?}");
    }
}

#[test]
fn a_server_under_load_loses_nothing() {
    let files = Files::new();
    let server =
        files.start(&["--appendonly", "yes", "--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut client = ready(&server);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (mut client, is_over) = (server.connect(), &is_over);
                scope.spawn(move || {
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        count += 1;
                        assert_eq!(client.ask(&format!("INCR writer{writer}")), count.to_string());
                    }
                    count
                })
            })
            .collect();
        (0..10).for_each(|_| trouble(&server));
        is_over.store(true, Ordering::Relaxed);
        for (writer, counted) in writers.into_iter().enumerate() {
            let counted: u64 = counted.join().unwrap();
            assert_eq!(client.ask(&format!("GET writer{writer}")), counted.to_string());
        }
    });
}

#[test]
fn a_child_finishes_what_it_writes() {
    let files = Files::new();
    let server = files.start(&["--rdb-key-save-delay", "10000"]);
    let mut client = ready(&server);
    client.ask("DEBUG POPULATE 100");
    for (command, running, status) in [
        ("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status"),
        ("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_bgrewrite_status"),
    ] {
        client.ask(command);
        eventually("a child", || child_of(&server).is_some());
        let child = child_of(&server).unwrap();
        // It has to have begun before it can ignore anything.
        std::thread::sleep(Duration::from_millis(100));
        trouble(&server);
        for signal in [Signal::TERM, Signal::INT] {
            kill_process(child, signal).unwrap();
        }
        assert_eq!(child_of(&server), Some(child), "{command} goes on");
        server.eventually_shows(running, "0");
        assert_eq!(server.info(status).as_deref(), Some("ok"), "{command}");
        assert_eq!(files.logged("terminated by signal"), 0, "{command}");
    }
    // To end a child on purpose is no error.
    client.ask("BGSAVE");
    eventually("a child", || child_of(&server).is_some());
    // Until it has begun it ignores the signal, as its parent does.
    std::thread::sleep(Duration::from_millis(100));
    kill_process(child_of(&server).unwrap(), Signal::USR1).unwrap();
    server.eventually_shows("rdb_bgsave_in_progress", "0");
    assert_eq!(server.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
    assert_eq!(files.logged("terminated by signal 10"), 1);
}

/// The server ends its child, which leaves no file behind.
#[test]
fn a_stop_of_the_group_ends_the_child_with_the_server() {
    for signal in [Signal::TERM, Signal::INT] {
        let files = Files::new();
        let mut server = files.start(&["--rdb-key-save-delay", "10000", "--save", "3600 100000000"]);
        let mut client = ready(&server);
        client.ask("DEBUG POPULATE 300");
        client.ask("BGSAVE");
        eventually("a child", || child_of(&server).is_some());
        client.ask("CONFIG SET rdb-key-save-delay 0");
        std::thread::sleep(Duration::from_millis(100));
        signal_group(&server, signal);
        assert_eq!(server.wait().code(), Some(0), "{signal:?}");
        let left: Vec<_> =
            std::fs::read_dir(&files.0).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| name == "log" || name == "dump.rdb"), "{left:?}");
        assert_eq!(ready(&files.start(&[])).ask("DBSIZE"), "300");
    }
}

#[test]
fn a_slow_script_goes_on() {
    let files = Files::new();
    let server = files.start(&["--busy-reply-threshold", "1"]);
    let mut client = ready(&server);
    let script = "redis.call('incr',KEYS[1]) for i=1,2000000 do redis.call('ping') end return redis.call('incr',KEYS[1])";
    client.send(&[b"EVAL", script.as_bytes(), b"1", b"x"]);
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("GET x").starts_with("BUSY"));
    trouble(&server);
    assert_eq!(process::shown(&client.receive().unwrap()), "2");
}

#[test]
fn loading_goes_on_and_can_be_stopped() {
    let files = Files::new();
    let mut server = files.start(&["--save", "3600 100000000"]);
    ready(&server).ask("DEBUG POPULATE 3000 key 1000");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let slow = ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"];
    let mut server = files.start(&slow);
    assert!(server.connect().ask("DBSIZE").starts_with("LOADING"));
    trouble(&server);
    assert!(server.connect().ask("DBSIZE").starts_with("LOADING"), "signals came too late to try anything");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let server = files.start(&[]);
    assert_eq!(ready(&server).ask("DBSIZE"), "3000");
}

/// Both sides of a sync, with a child and without.
#[test]
fn a_sync_goes_on() {
    for diskless in ["yes", "no"] {
        let (files, replica_files) = (Files::new(), Files::new());
        let primary = files.start(&[
            "--rdb-key-save-delay",
            "10000",
            "--repl-diskless-sync-delay",
            "0",
            "--repl-diskless-sync",
            diskless,
        ]);
        let mut client = ready(&primary);
        client.ask("DEBUG POPULATE 100");
        let port = primary.port.to_string();
        let replica = replica_files.start(&["--replicaof", "127.0.0.1", &port]);
        eventually("a child", || child_of(&primary).is_some());
        std::thread::sleep(Duration::from_millis(100));
        trouble(&primary);
        trouble(&replica);
        replica.eventually_shows("master_link_status", "up");
        assert_eq!(primary.info("sync_full").as_deref(), Some("1"), "it did not begin again");
        assert_eq!(ready(&replica).ask("DBSIZE"), "100");
    }
}

/// SIGHUP does not hurry a stop that waits for replicas, nor call it off.
#[test]
fn a_stop_that_waits_goes_on_waiting() {
    let (files, replica_files) = (Files::new(), Files::new());
    let mut primary = files.start(&["--repl-diskless-sync-delay", "0", "--shutdown-timeout", "2"]);
    let port = primary.port.to_string();
    let replica = replica_files.start(&["--replicaof", "127.0.0.1", &port]);
    replica.eventually_shows("master_link_status", "up");
    replica.signal(Signal::STOP);
    ready(&primary).ask("SET x 1");
    primary.signal(Signal::TERM);
    eventually("it waits", || files.logged("Waiting for replicas before shutting down") == 1);
    trouble(&primary);
    assert_eq!(primary.connect().ask("PING"), "PONG");
    replica.signal(Signal::CONT);
    assert_eq!(primary.wait().code(), Some(0));
    assert_eq!(ready(&replica).ask("GET x"), "1");
}

#[test]
fn the_log_goes_on_in_a_new_file() {
    let files = Files::new();
    let server = files.start(&[]);
    let mut client = ready(&server);
    let rotated = files.0.join("log.1");
    for round in 1..=3 {
        std::fs::rename(files.log(), &rotated).unwrap();
        let before = std::fs::read_to_string(&rotated).unwrap();
        server.signal(Signal::HUP);
        eventually("a new log", || files.log().exists() && files.logged("the log file is reopened") == 1);
        assert_eq!(std::fs::read_to_string(&rotated).unwrap(), before, "round {round}");
        assert!(!holds(&server, &rotated), "who has rotated it may compress or remove it");
    }
    // One that cannot be opened leaves the one that is open.
    std::fs::rename(files.log(), &rotated).unwrap();
    std::fs::create_dir(files.log()).unwrap();
    server.signal(Signal::HUP);
    let is_told = || std::fs::read_to_string(&rotated).unwrap().contains("cannot be reopened");
    eventually("the old log says so", is_told);
    assert_eq!(client.ask("PING"), "PONG");
}

fn holds(server: &Process, path: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|open| open == path)
}

/// The log on a terminal that is closed: no line of it can be written any more.
#[test]
fn a_closed_terminal_ends_nothing() {
    let port = free_port();
    let directory = Files::new();
    let mut child = Command::new(program())
        .args(["--port", &port.to_string(), "--save", "", "--dir", directory.0.to_str().unwrap()])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let terminal = child.stdout.take();
    let server = Process::adopt(child, port);
    eventually("listening", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mut client = ready(&server);
    drop(terminal);
    trouble(&server);
    assert_eq!(client.ask("SET x 1"), "OK");
    assert_eq!(client.ask("SAVE"), "OK");
    trouble(&server);
    assert_eq!(client.ask("GET x"), "1");
}

/// What the process that starts a server does with signals is not what the server does with them.
#[test]
fn inherited_signals_are_taken_over() {
    for option in ["--ignore-signal", "--block-signal"] {
        let files = Files::new();
        let mut command = Command::new("env");
        command.args([option, &program()]);
        let mut server = files.start_by(command, &["--rdb-key-save-delay", "1000"]);
        let mut client = ready(&server);
        client.ask("DEBUG POPULATE 10");
        client.ask("BGSAVE");
        server.eventually_shows("rdb_bgsave_in_progress", "0");
        assert_eq!(server.info("rdb_last_bgsave_status").as_deref(), Some("ok"), "{option}");
        server.signal(Signal::HUP);
        eventually("SIGHUP", || files.logged("the log file is reopened") == 1);
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{option}");
    }
}
