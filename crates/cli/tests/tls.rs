//! The client's encrypted connections to a real server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../server/tests/process/mod.rs"]
mod process;

use process::certificates::{Certificates, TlsProcess};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the client with these options beside the port.
fn run(server: &TlsProcess, options: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warmline-cli"))
        .args(["-p", &server.tls_port.to_string()])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A client that has failed takes nothing more.
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The certificates of a client that the server believes, and that believes the server.
fn identity(certificates: &Certificates) -> Vec<String> {
    let options = [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")];
    let files = options.iter().flat_map(|(option, file)| [(*option).to_owned(), certificates.path(file)]);
    std::iter::once("--tls".to_owned()).chain(files).collect()
}

#[test]
fn commands_and_large_values_pass() {
    let server = TlsProcess::start(&[]);
    let identity = identity(&server.certificates);
    let with = |more: &[&str], input: &[u8]| {
        let options: Vec<&str> = identity.iter().map(String::as_str).chain(more.iter().copied()).collect();
        text(&run(&server, &options, input))
    };
    assert_eq!(with(&["PING"], b""), "PONG\n");
    let value: String = (0..1_000_000u32).map(|index| char::from(b'a' + (index % 23) as u8)).collect();
    assert_eq!(with(&["-x", "SET", "key"], value.as_bytes()), "OK\n");
    assert!(with(&["GET", "key"], b"") == format!("{value}\n"));
    assert_eq!(with(&[], b"SELECT 3\nSET other value\nGET other\n"), "OK\nOK\nvalue\n");
    assert_eq!(with(&["--sni", "server", "--tls-ciphers", "AES256", "PING"], b""), "PONG\n");
    assert_eq!(with(&["--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "PING"], b""), "PONG\n");
    // Both directions at once, more than fits between them.
    let mut requests = Vec::new();
    for number in 0..50_000 {
        requests.extend(process::encode(&[b"ECHO", format!("{number:>100}").as_bytes()]));
    }
    let printed = with(&["--pipe"], &requests);
    assert!(printed.contains("errors: 0, replies: 50000"), "{printed}");
    // By its name in an address, and by a directory of authorities.
    let port = server.tls_port;
    let uri = format!("rediss://127.0.0.1:{port}/3");
    assert_eq!(with(&["-u", &uri, "GET", "other"], b""), "value\n");
    let directory = server.certificates.path("");
    let (certificate, key) = (server.certificates.path("client.crt"), server.certificates.path("client.key"));
    let options = ["--tls", "--cacertdir", &directory, "--cert", &certificate, "--key", &key, "PING"];
    assert_eq!(text(&run(&server, &options, b"")), "PONG\n");
}

#[test]
fn servers_and_clients_that_are_not_believed_are_told() {
    let server = TlsProcess::start(&[]);
    let others = Certificates::new();
    let own = server.certificates.path("ca.crt");
    let fails = |options: &[&str]| {
        let output = run(&server, options, b"");
        assert!(!output.status.success(), "{options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // The server asks for a certificate.
    assert!(!fails(&["--tls", "--cacert", &own, "PING"]).is_empty());
    let (certificate, key) = (server.certificates.path("client.crt"), server.certificates.path("client.key"));
    let identity = ["--cert", &certificate, "--key", &key];
    let with = |more: &[&str]| {
        let all = [&["--tls"], more, &identity, &["PING"]].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let fails_with = |more: &[&str]| fails(&with(more).iter().map(String::as_str).collect::<Vec<_>>());
    for (authorities, reason) in
        [(others.path("ca.crt"), "invalid peer certificate"), ("/nonexistent".to_owned(), "/nonexistent")]
    {
        let printed = fails_with(&["--cacert", &authorities]);
        assert!(printed.contains(reason), "{printed}");
    }
    assert!(fails(&["--tls", "--cert", &certificate, "PING"]).contains("--key"));
    // Plain text where TLS is spoken.
    assert!(!fails(&["PING"]).is_empty());
    let insecure = with(&["--insecure"]);
    let insecure: Vec<&str> = insecure.iter().map(String::as_str).collect();
    assert_eq!(text(&run(&server, &insecure, b"")), "PONG\n");
}
