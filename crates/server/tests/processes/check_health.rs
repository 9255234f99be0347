//! `--check-health`: which sockets of a running server are asked, and what counts as an answer.

use crate::process::certificates::TlsProcess;
use crate::process::{self, Process, free_port};
use rustix::process::Signal;
use std::process::Command;

/// The exit code, and what was printed.
fn check(process_id: &str) -> (Option<i32>, String) {
    let output = Command::new(process::program()).args(["--check-health", process_id]).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

fn lines(process: &Process) -> Vec<String> {
    let (code, printed) = check(&process.pid().to_string());
    assert_eq!(code, Some(0), "{printed}");
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_socket_that_is_open_now_is_asked() {
    let http = free_port();
    let options = ["--requirepass", "secret", "--bind", "127.0.0.1", "--unixsocket", "a socket"];
    let server = Process::start(
        &[&options[..], &["--http-port", &http.to_string(), "--http-bind", "127.0.0.1"]].concat(),
    );
    let asked = lines(&server);
    let mut expected =
        vec![format!("127.0.0.1:{} answers.", server.port), format!("127.0.0.1:{http} answers.")];
    expected.sort();
    assert_eq!(asked[1..], expected);
    assert!(asked[0].ends_with("/a socket answers."), "{asked:?}");

    let mut client = server.connect();
    client.ask("AUTH secret");
    let port = free_port();
    assert_eq!(client.ask(&format!("CONFIG SET port {port} http-port 0")), "OK");
    let asked = lines(&server);
    assert_eq!(asked[1..], [format!("127.0.0.1:{port} answers.")]);
}

#[test]
fn tls_that_asks_for_a_certificate_answers() {
    let http = free_port().to_string();
    for versions in ["TLSv1.3", "TLSv1.2"] {
        let options =
            ["--tls-protocols", versions, "--http-port", &http, "--http-tls", "yes", "--bind", "127.0.0.1"];
        let server = TlsProcess::start(&options);
        let asked = lines(&server.process);
        let tls = format!("127.0.0.1:{} answers.", server.tls_port);
        assert!(asked.contains(&tls), "{asked:?}");
        assert!(asked.contains(&format!("127.0.0.1:{http} answers.")), "{asked:?}");
        assert_eq!(server.process.connect().ask("CONFIG SET port 0"), "OK");
        let asked = lines(&server.process);
        assert!(asked.contains(&tls) && asked.len() == 3, "{asked:?}");
    }
}

#[test]
fn a_server_that_stands_still_is_not_healthy() {
    let server = Process::start(&[]);
    server.signal(Signal::STOP);
    let (code, printed) = check(&server.pid().to_string());
    server.signal(Signal::CONT);
    assert_eq!(code, Some(1));
    assert!(printed.starts_with("No answer on ") && printed.ends_with("nothing within 2 s\n"), "{printed}");
    assert_eq!(check(&server.pid().to_string()).0, Some(0));
}

#[test]
fn what_is_no_server_is_not_healthy() {
    let mut other = Command::new("sleep").arg("3600").spawn().unwrap();
    let answer = check(&other.id().to_string());
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(answer, (Some(1), format!("Process {} listens on no socket\n", other.id())));
    let (code, printed) = check("4294967295");
    assert_eq!(code, Some(1));
    assert!(printed.starts_with("Reading the sockets of process 4294967295: "), "{printed}");
    let usage = "Usage: warmline-server --check-health [process-id]\n";
    assert_eq!(check("x"), (Some(1), usage.to_owned()));
}
