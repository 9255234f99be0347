//! The load generator's encrypted connections to a real server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../server/tests/process/mod.rs"]
mod process;

use process::certificates::{Certificates, TlsProcess};
use process::info;
use std::process::{Command, Output};

/// Runs the generator with these options beside the port and the client's certificate.
fn run(server: &TlsProcess, authorities: &Certificates, options: &[&str]) -> Output {
    let path = |name: &str| server.certificates.path(name);
    Command::new(env!("CARGO_BIN_EXE_warmline-benchmark"))
        .args(["-p", &server.tls_port.to_string(), "-q", "--tls"])
        .args([
            "--cacert",
            &authorities.path("ca.crt"),
            "--cert",
            &path("client.crt"),
            "--key",
            &path("client.key"),
        ])
        .args(options)
        .output()
        .unwrap()
}

#[test]
fn loads_of_all_shapes_are_answered_whole() {
    let server = TlsProcess::start(&[]);
    let mut plain = server.process.connect();
    let mut expected = 0;
    for (options, requests) in [
        (&["-t", "set", "-c", "8", "-n", "2000"][..], 2000),
        (&["-t", "get", "-c", "8", "-n", "20000", "-P", "50"], 20_000),
        (&["-t", "set", "-c", "4", "-n", "500", "-d", "100000", "-P", "4"], 500),
        (&["-t", "get", "-c", "4", "-n", "500", "-P", "4", "--threads", "2"], 500),
        // A connection for each request.
        (&["-t", "ping_mbulk", "-c", "2", "-n", "40", "-k", "0"], 40),
    ] {
        let before = calls(&mut plain);
        let output = run(&server, &server.certificates, options);
        let printed = [&output.stdout[..], &output.stderr].concat();
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&printed));
        let done = calls(&mut plain) - before;
        assert!(done >= requests, "{options:?}: {done}");
        expected += requests;
    }
    assert!(info(&mut plain, "total_commands_processed").parse::<u64>().unwrap() >= expected);
    process::eventually("all connections are gone", || info(&mut plain, "connected_clients") == "1");
}

/// How many commands the server has run.
fn calls(client: &mut process::Client<std::net::TcpStream>) -> u64 {
    info(client, "total_commands_processed").parse().unwrap()
}

#[test]
fn a_server_that_is_not_believed_gets_no_load() {
    let server = TlsProcess::start(&[]);
    let output = run(&server, &Certificates::new(), &["-t", "get", "-n", "10"]);
    assert!(!output.status.success());
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("invalid peer certificate"), "{printed}");
}
