//! HTTP over TLS (`http-tls`): with the certificates of the other ports, and the limits of plain HTTP.

use crate::process::certificates::Certificates;
use crate::process::{self, PATIENCE, Process, eventually, free_port};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

fn start(certificates: &Certificates, options: &[&str]) -> (Process, u16) {
    let port = free_port();
    let mut all = certificates.options();
    all.extend(["--http-tls", "yes", "--http-port", &port.to_string()].map(str::to_owned));
    all.extend(options.iter().map(|option| (*option).to_owned()));
    (Process::start(&all.iter().map(String::as_str).collect::<Vec<_>>()), port)
}

fn socket(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The answer to a request, and the certificate that the server has shown.
fn get(
    port: u16,
    path: &str,
    config: &Arc<ClientConfig>,
) -> std::io::Result<(String, CertificateDer<'static>)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(port, &request, config)
}

fn exchange(
    port: u16,
    request: &str,
    config: &Arc<ClientConfig>,
) -> std::io::Result<(String, CertificateDer<'static>)> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = StreamOwned::new(session, socket(port));
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let shown = stream.conn.peer_certificates().unwrap()[0].clone().into_owned();
    Ok((answer, shown))
}

#[test]
fn metrics_are_answered_to_those_who_may_speak_tls() {
    let certificates = Certificates::new();
    let (_process, port) = start(&certificates, &[]);
    let (answer, _) = get(port, "/metrics", &certificates.client_config(Some("client"))).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("redis_up 1.0\n"), "{answer}");
    // `tls-auth-clients yes` applies here too.
    assert!(get(port, "/metrics", &certificates.client_config(None)).is_err());
    // Plain text is no answer's beginning.
    let mut plain = socket(port);
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

/// The console is served as metrics are: to those with a certificate where one is asked for, and as the user that a request names,
/// whatever the certificate says.
#[test]
fn the_console_is_there_over_tls() {
    let certificates = Certificates::new();
    for (asks, named, is_let_in) in [
        ("yes", Some("client"), true),
        ("yes", None, false),
        ("no", None, true),
        ("no", Some("client"), true),
    ] {
        let options =
            ["--tls-auth-clients", asks, "--requirepass", "secret", "--tls-auth-clients-user", "CN"];
        let (_process, port) = start(&certificates, &options);
        let config = certificates.client_config(named);
        let body = r#"[["ACL","WHOAMI"]]"#;
        let asked = |headers: &str| {
            let head = "POST /api/commands HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json";
            let request = format!("{head}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
            exchange(port, &request, &config).map(|(answer, _)| answer)
        };
        if !is_let_in {
            assert!(get(port, "/", &config).is_err() && asked("").is_err());
            continue;
        }
        assert!(get(port, "/", &config).unwrap().0.contains("<title>Warmline</title>"));
        assert!(asked("").unwrap().starts_with("HTTP/1.1 401 "));
        let own = asked("Origin: https://localhost\r\nAuthorization: Bearer secret\r\n").unwrap();
        assert!(own.ends_with("{\"replies\":[\"default\"]}"), "{own}");
        let foreign = asked("Origin: https://evil.example\r\nAuthorization: Bearer secret\r\n").unwrap();
        assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    }
}

#[test]
fn certificates_change_for_connections_to_come() {
    let certificates = Certificates::new();
    let (process, port) = start(&certificates, &["--tls-auth-clients", "no"]);
    let config = certificates.client_config(None);
    let (_, before) = get(port, "/health", &config).unwrap();
    assert_eq!(get(port, "/health", &config).unwrap().1, before);
    certificates.issue("other", &[]);
    let command = format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        certificates.path("other.crt"),
        certificates.path("other.key")
    );
    assert_eq!(process.connect().ask(&command), "OK");
    let (answer, after) = get(port, "/health", &config).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    assert_ne!(before, after);
}

#[test]
fn peers_that_say_nothing_hold_their_places_for_ten_seconds() {
    let certificates = Certificates::new();
    let (process, port) = start(&certificates, &["--tls-auth-clients", "no"]);
    let config = certificates.client_config(None);
    let began = Instant::now();
    let silent: Vec<_> = (0..64).map(|_| socket(port)).collect();
    eventually("there is no place left", || get(port, "/health", &config).is_err());
    assert_eq!(process.connect().ask("PING"), "PONG");
    eventually("places are free again", || get(port, "/health", &config).is_ok());
    assert!(began.elapsed().as_secs() >= 9, "{:?}", began.elapsed());
    drop(silent);
}

#[test]
fn without_a_certificate_nothing_starts() {
    let port = free_port().to_string();
    let http = free_port().to_string();
    let program = process::program();
    let options = ["--port", &port, "--http-port", &http, "--http-tls", "yes", "--save", ""];
    let started = std::process::Command::new(program).args(options).output().unwrap();
    assert!(!started.status.success());
}
