//! What the log says when the process ends by a fault of its own, and when somebody asks where it is.

use crate::process::{Process, eventually, shown};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;

const OPTIONS: [&str; 4] = ["--logfile", "log", "--enable-debug-command", "yes"];

fn start(options: &[&str]) -> Process {
    Process::start(&[&OPTIONS[..], options].concat())
}

fn log_of(process: &Process) -> String {
    std::fs::read_to_string(process.directory.join("log")).unwrap()
}

fn assert_says(process: &Process, wanted: &[&str]) {
    let log = log_of(process);
    for wanted in wanted {
        assert_eq!(log.matches(wanted).count(), 1, "{wanted} in {log}");
    }
}

/// Whether the calls of DEBUG SLEEP are in the log; how much of a function's path its name has depends on what was inlined.
fn assert_shows_sleep(process: &Process) {
    let log = log_of(process);
    let is_call = |line: &str| line.contains("sleep at ") && line.contains("commands/debug.rs");
    assert!(log.lines().any(is_call), "{log}");
}

const REPORT: [&str; 4] =
    ["BUG REPORT START", "------ STACK TRACE ------", "------ STACK TRACE DONE ------", "BUG REPORT END"];

#[test]
fn a_fault_is_reported_with_the_calls_that_led_to_it() {
    for (options, word, signal, what) in [
        (
            &[][..],
            &b"SEGFAULT"[..],
            Signal::SEGV,
            &["crashed by signal: 11, si_code: 2", "Accessing address: 0x"],
        ),
        (&[], b"PANIC", Signal::ABORT, &["=== ASSERTION FAILED ===", "'DEBUG PANIC' is not true"]),
        (&[], b"ASSERT", Signal::ABORT, &["=== ASSERTION FAILED ===", "'DEBUG ASSERT' is not true"]),
        (
            &["--io-threads", "3"],
            b"SEGFAULT",
            Signal::SEGV,
            &["crashed by signal: 11, si_code: 2", "Thread: "],
        ),
    ] {
        let mut process = start(options);
        assert_eq!(process.connect().try_ask(&[b"DEBUG", word]), None);
        assert_eq!(process.wait().signal(), Some(signal.as_raw()));
        assert_says(&process, &REPORT);
        assert_says(&process, what);
        let log = log_of(&process);
        assert!(log.contains("commands/debug.rs"), "the calls have names: {log}");
        assert!(!log.contains("sys/crash.rs"), "the handler is not part of the story: {log}");
    }
}

#[test]
fn a_signal_from_outside_is_reported_while_a_command_runs() {
    let mut process = start(&[]);
    let mut client = process.connect();
    client.send(&[b"DEBUG", b"SLEEP", b"10"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    process.signal(Signal::ABORT);
    assert_eq!(process.wait().signal(), Some(Signal::ABORT.as_raw()));
    assert_says(&process, &REPORT);
    let sender = format!("Killed by PID: {}, UID: ", std::process::id());
    assert_says(&process, &["crashed by signal: 6", &sender]);
    assert_shows_sleep(&process);
}

#[test]
fn without_reports_a_signal_ends_the_process_as_ever() {
    let mut process = start(&["--crash-log-enabled", "no"]);
    assert_eq!(process.connect().try_ask(&[b"DEBUG", b"SEGFAULT"]), None);
    assert_eq!(process.wait().signal(), Some(Signal::SEGV.as_raw()));
    assert!(!log_of(&process).contains("crashed by signal"));

    let mut process = start(&[]);
    assert_eq!(process.connect().ask("CONFIG SET crash-log-enabled no"), "OK");
    assert_eq!(process.connect().ask("CONFIG SET crash-log-enabled yes"), "OK");
    process.signal(Signal::ABORT);
    assert_eq!(process.wait().signal(), Some(Signal::ABORT.as_raw()));
    assert_says(&process, &REPORT);
}

#[test]
fn whoever_asks_learns_where_the_server_is_and_it_goes_on() {
    let process = start(&[]);
    let mut client = process.connect();
    client.send(&[b"DEBUG", b"SLEEP", b"1"]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    process.signal(Signal::ALARM);
    assert_eq!(shown(&client.receive().unwrap()), "OK");
    eventually("the log tells of it", || log_of(&process).contains("STACK TRACE DONE"));
    assert_says(&process, &["Received SIGALRM"]);
    assert_shows_sleep(&process);

    assert_eq!(client.ask("CONFIG SET watchdog-period 200"), "OK");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert!(!log_of(&process).contains("WATCHDOG"), "a loop that turns is not reported");
    assert_eq!(client.ask("DEBUG SLEEP 1"), "OK");
    eventually("the log tells of it too", || log_of(&process).contains("--- WATCHDOG TIMER EXPIRED ---"));
    assert_eq!(client.ask("CONFIG SET watchdog-period 0"), "OK");
    std::thread::sleep(std::time::Duration::from_millis(400));
    let reported = log_of(&process).matches("WATCHDOG").count();
    assert_eq!(client.ask("DEBUG SLEEP 1"), "OK");
    assert_eq!(log_of(&process).matches("WATCHDOG").count(), reported);
}

#[test]
fn bytes_that_make_no_sense_are_shown_unless_they_are_to_be_hidden() {
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n";
    for (option, wanted) in [("no", "blabla.."), ("yes", "Query buffer: *redacted*\n")] {
        let process = start(&["--hide-user-data-from-log", option, "--loglevel", "verbose"]);
        let mut client = process.connect();
        std::io::Write::write_all(&mut client.stream, request).unwrap();
        assert_eq!(shown(&client.receive().unwrap()), "ERR Protocol error: invalid bulk length");
        assert_says(&process, &["Protocol error (invalid bulk length) from client: id=", wanted]);
    }
}
