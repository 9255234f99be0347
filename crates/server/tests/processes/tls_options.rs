//! What the options of TLS do, at the start and by CONFIG SET, and servers that speak TLS with each other.

use crate::process::certificates::{Certificates, TlsProcess, connect};
use crate::process::{self, Client, Process, encode, eventually, free_port, info, program};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const REFUSED: &str = "Unable to update TLS configuration. Check server logs.";

/// What CONFIG SET answers.
fn set(client: &mut Client<TcpStream>, options: &[(&str, &str)]) -> String {
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
    words.extend(options.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
    client.send(&words);
    process::shown(&client.receive().unwrap())
}

fn expect(client: &mut Client<TcpStream>, options: &[(&str, &str)]) {
    assert_eq!(set(client, options), "OK", "{options:?}");
}

#[test]
fn new_connections_go_by_what_was_set_and_old_ones_stay() {
    let server = TlsProcess::start(&[]);
    let mut plain = server.process.connect();
    let mut old = server.connect();
    let (known, unknown) =
        (server.certificates.client_config(Some("client")), server.certificates.client_config(None));
    // A handshake of TLS 1.3 is over for a client before the server has judged its certificate.
    let is_let_in = |config| {
        server.try_connect(config).is_ok_and(|mut client| {
            client.stream.write_all(b"PING\r\n").is_ok()
                && client.stream.read(&mut [0; 7]).is_ok_and(|count| count > 0)
        })
    };
    assert!(is_let_in(&known) && !is_let_in(&unknown));
    expect(&mut plain, &[("tls-auth-clients", "no")]);
    assert!(is_let_in(&known) && is_let_in(&unknown));
    expect(&mut plain, &[("tls-auth-clients", "optional")]);
    assert!(is_let_in(&known) && is_let_in(&unknown));
    expect(&mut plain, &[("tls-auth-clients", "yes")]);
    assert!(!is_let_in(&unknown));
    // A certificate of somebody else.
    let others = Certificates::new();
    let other = others.client_config(Some("client"));
    assert!(!is_let_in(&other), "the client does not believe the server");
    expect(&mut plain, &[("tls-ca-cert-file", &others.path("ca.crt"))]);
    assert!(!is_let_in(&known));
    expect(&mut plain, &[("tls-ca-cert-file", ""), ("tls-ca-cert-dir", &server.certificates.path(""))]);
    assert!(is_let_in(&known));
    // Another version, or suite.
    for (name, value) in [
        ("tls-protocols", "TLSv1.2"),
        ("tls-ciphersuites", "TLS_AES_128_GCM_SHA256"),
        ("tls-session-caching", "no"),
    ] {
        expect(&mut plain, &[(name, value)]);
        assert!(is_let_in(&known), "{name}");
    }
    assert_eq!(old.ask("PING"), "PONG");
}

#[test]
fn what_cannot_be_had_leaves_everything_as_it_was() {
    let server = TlsProcess::start(&[]);
    let mut plain = server.process.connect();
    let serial = info(&mut plain, "tls_server_cert_serial");
    assert!(serial != "none" && info(&mut plain, "tls_server_cert_expires_in_seconds") != "0");
    server.certificates.write("bad.crt", "no certificate");
    server
        .certificates
        .write("other.key", &std::fs::read_to_string(server.certificates.path("client.key")).unwrap());
    for (name, value) in [
        ("tls-cert-file", server.certificates.path("bad.crt")),
        ("tls-cert-file", server.certificates.path("nowhere.crt")),
        ("tls-key-file", server.certificates.path("other.key")),
        ("tls-client-cert-file", server.certificates.path("bad.crt")),
        ("tls-ca-cert-file", server.certificates.path("bad.crt")),
        ("tls-ca-cert-dir", server.certificates.path("nowhere")),
        ("tls-protocols", "TLSv1.1".to_owned()),
        ("tls-protocols", "SSLv3".to_owned()),
        ("tls-ciphers", "AES128-SHA256".to_owned()),
        ("tls-ciphersuites", "TLS_AES_128_CCM_SHA256".to_owned()),
    ] {
        let answer = set(&mut plain, &[("maxmemory", "0"), (name, &value)]);
        assert!(answer.contains(REFUSED), "{name} {value}: {answer}");
        assert_eq!(server.connect().ask("PING"), "PONG");
    }
    assert!(set(&mut plain, &[("tls-ca-cert-file", "")]).contains(REFUSED));
    assert_eq!(info(&mut plain, "tls_server_cert_serial"), serial);
    // Several at once are judged together.
    server.certificates.issue("server2", &[]);
    let (certificate, key) =
        (server.certificates.path("server2.crt"), server.certificates.path("server2.key"));
    expect(&mut plain, &[("tls-cert-file", &certificate), ("tls-key-file", &key)]);
    assert_ne!(info(&mut plain, "tls_server_cert_serial"), serial);
    // Without TLS there is nothing to tell, and it can be had again.
    expect(&mut plain, &[("tls-port", "0")]);
    assert_eq!(info(&mut plain, "tls_server_cert_serial"), "none");
    assert!(TcpStream::connect(("127.0.0.1", server.tls_port)).is_err());
    expect(&mut plain, &[("tls-port", &server.tls_port.to_string())]);
    assert_eq!(server.connect().ask("PING"), "PONG");
    let taken = set(&mut plain, &[("tls-port", &server.process.port.to_string())]);
    assert!(taken.contains("Unable to listen on this port. Check server logs."), "{taken}");
    assert_eq!(server.connect().ask("PING"), "PONG");
}

#[test]
fn what_is_taken_back_needs_no_files() {
    let server = TlsProcess::start(&[]);
    let mut plain = server.process.connect();
    let serial = info(&mut plain, "tls_server_cert_serial");
    server.certificates.issue("server2", &[]);
    let path = |name: &str| server.certificates.path(name);
    for name in ["server.crt", "server.key", "ca.crt"] {
        let gone = format!("{}.gone", path(name));
        std::fs::rename(path(name), gone).unwrap();
    }
    server.certificates.write("ca2.crt", &std::fs::read_to_string(path("ca.crt.gone")).unwrap());
    let taken = server.process.port.to_string();
    let answer = set(
        &mut plain,
        &[
            ("tls-cert-file", &path("server2.crt")),
            ("tls-key-file", &path("server2.key")),
            ("tls-ca-cert-file", &path("ca2.crt")),
            ("tls-port", &taken),
        ],
    );
    assert!(answer.contains("Unable to listen on this port. Check server logs."), "{answer}");
    assert_eq!(info(&mut plain, "tls_server_cert_serial"), serial);
    assert_eq!(server.connect().ask("PING"), "PONG");
}

/// Clients of other machines are refused while `default` has no password.
#[test]
fn protected_mode_keeps_other_machines_out() {
    let Some(address) = other_address() else { return };
    let server = TlsProcess::start(&["--tls-auth-clients", "no"]);
    let mut here = server.process.connect();
    let plain = || {
        let mut stream = TcpStream::connect((address, server.process.port)).unwrap();
        stream.set_read_timeout(Some(process::PATIENCE)).unwrap();
        let _ = stream.write_all(b"PING\r\n");
        let mut answer = [0; 7];
        // What is refused may be reset before it has read why.
        if stream.read_exact(&mut answer).is_err() {
            String::new()
        } else {
            String::from_utf8(answer.into()).unwrap()
        }
    };
    let encrypted = || {
        let socket = TcpStream::connect((address, server.tls_port)).unwrap();
        socket.set_read_timeout(Some(process::PATIENCE)).unwrap();
        let name = tls::ServerName::try_from("localhost").unwrap();
        let config = server.certificates.client_config(None);
        tls::TlsStream::connect(socket, config, name).map(|stream| Client::new(stream).ask("PING")).ok()
    };
    let refused = |plain: String| plain.is_empty() || plain.starts_with("-DENIED");
    assert!(refused(plain()));
    assert_eq!(encrypted(), None);
    assert_eq!(info(&mut here, "rejected_connections"), "2");
    assert_eq!(server.connect().ask("PING"), "PONG");
    expect(&mut here, &[("protected-mode", "no")]);
    assert_eq!((plain(), encrypted().as_deref()), ("+PONG\r\n".to_owned(), Some("PONG")));
    expect(&mut here, &[("protected-mode", "yes")]);
    assert!(refused(plain()) && encrypted().is_none());
    // With a password it is that which protects.
    expect(&mut here, &[("requirepass", "secret")]);
    assert_eq!(plain(), "-NOAUTH");
    assert!(encrypted().unwrap().starts_with("NOAUTH"));
    expect(&mut here, &[("requirepass", "")]);
    assert!(refused(plain()));
}

/// An address of this machine that is not its loopback's, if it has one.
fn other_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: finds the local address for a route to an unused address.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn a_server_that_cannot_speak_tls_as_it_is_told_does_not_start() {
    let certificates = Certificates::new();
    let port = free_port().to_string();
    let start = |more: &[&str]| {
        let output = Command::new(program())
            .args(["--port", "0", "--tls-port", &port, "--save", ""])
            .args(more)
            .current_dir(&certificates.directory)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(start(&[]), "No tls-cert-file configured! tls-port is on and needs it.\n");
    let without_key = start(&["--tls-cert-file", "server.crt"]);
    assert_eq!(without_key, "No tls-key-file configured! tls-port is on and needs it.\n");
    let identity = ["--tls-cert-file", "server.crt", "--tls-key-file", "server.key"];
    assert!(start(&identity).starts_with("Either tls-ca-cert-file or tls-ca-cert-dir must be specified"));
    let mut old = identity.to_vec();
    old.extend(["--tls-auth-clients", "no", "--tls-protocols", "TLSv1.1 TLSv1.2"]);
    assert!(start(&old).starts_with("TLSv1.1 is specified in tls-protocols but not supported"));
}

#[test]
fn certificates_that_change_are_read_again() {
    let server = TlsProcess::start(&["--tls-auto-reload-interval", "1"]);
    let mut plain = server.process.connect();
    let serial = info(&mut plain, "tls_server_cert_serial");
    // A key that does not belong to the certificate is an instant that passes.
    server.certificates.issue("server", &[]);
    eventually("another certificate", || info(&mut plain, "tls_server_cert_serial") != serial);
    assert_eq!(server.connect().ask("PING"), "PONG");
    let serial = info(&mut plain, "tls_server_cert_serial");
    server.certificates.write("server.crt", "");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(info(&mut plain, "tls_server_cert_serial"), serial, "a bad one leaves the old one");
    assert_eq!(server.connect().ask("PING"), "PONG");
}

#[test]
fn a_certificate_names_its_user() {
    let certificates = Certificates::new();
    certificates.issue("client", &["urn:first", "urn:second"]);
    certificates.issue("client\0attacker", &[]);
    let server = TlsProcess::start_with(certificates, &["--tls-auth-clients", "optional"]);
    let mut plain = server.process.connect();
    for user in ["client", "urn:first", "urn:second"] {
        assert_eq!(plain.ask(&format!("ACL SETUSER {user} on allcommands allkeys")), "OK");
    }
    let whoami = |name: Option<&str>| {
        server.try_connect(&server.certificates.client_config(name)).unwrap().ask("ACL WHOAMI")
    };
    assert_eq!(whoami(Some("client")), "default");
    expect(&mut plain, &[("tls-auth-clients-user", "CN")]);
    assert_eq!(whoami(Some("client")), "client");
    assert_eq!(whoami(None), "default");
    // Names are compared whole; a name without a user is logged.
    assert_eq!(whoami(Some("client\0attacker")), "default");
    assert_eq!(info(&mut plain, "acl_access_denied_tls_cert"), "1");
    assert!(plain.ask("ACL LOG").contains("reason tls-cert"));
    expect(&mut plain, &[("tls-auth-clients-user", "URI")]);
    assert_eq!(whoami(Some("client")), "urn:first");
    plain.ask("ACL SETUSER urn:first off");
    assert_eq!(whoami(Some("client")), "urn:second");
    plain.ask("ACL DELUSER urn:second");
    assert_eq!(whoami(Some("client")), "default");
}

fn fill(client: &mut Client<TcpStream>) {
    let mut requests = Vec::new();
    for number in 0..2000 {
        requests.extend(encode(&[b"SET", format!("key:{number}").as_bytes(), &vec![b'x'; number * 5]]));
    }
    client.stream.write_all(&requests).unwrap();
    for _ in 0..2000 {
        client.receive().unwrap();
    }
}

/// A server that can replicate over TLS.
fn replica_of(primary: &TlsProcess, options: &[&str]) -> TlsProcess {
    let address = format!("127.0.0.1 {}", primary.tls_port);
    let mut all = vec!["--replicaof", &address, "--tls-replication", "yes", "--enable-debug-command", "yes"];
    all.extend(options);
    let certificates = Certificates::new();
    for name in ["ca.crt", "server.crt", "server.key", "client.crt", "client.key"] {
        certificates.write(name, &std::fs::read_to_string(primary.certificates.path(name)).unwrap());
    }
    TlsProcess::start_with(certificates, &all)
}

fn have_the_same(primary: &mut Client<TcpStream>, replica: &mut Client<TcpStream>) {
    eventually("the replica has all", || {
        info(replica, "master_link_status") == "up"
            && info(primary, "master_repl_offset") == info(replica, "slave_repl_offset")
            && primary.ask("DEBUG DIGEST") == replica.ask("DEBUG DIGEST")
    });
}

#[test]
fn replicas_sync_and_follow_over_tls() {
    for (diskless, load, dual) in [
        ("yes", "swapdb", "no"),
        ("no", "disabled", "no"),
        ("yes", "disabled", "no"),
        ("yes", "disabled", "yes"),
    ] {
        let options = [
            "--repl-diskless-sync",
            diskless,
            "--repl-diskless-sync-delay",
            "0",
            "--enable-debug-command",
            "yes",
            "--dual-channel-replication-enabled",
            dual,
        ];
        let primary = TlsProcess::start(&options);
        let mut here = primary.process.connect();
        fill(&mut here);
        let replica =
            replica_of(&primary, &["--repl-diskless-load", load, "--dual-channel-replication-enabled", dual]);
        let mut there = replica.process.connect();
        have_the_same(&mut here, &mut there);
        // It tells the port that speaks TLS.
        let line = info(&mut here, "slave0");
        assert!(line.contains(&format!("port={},state=online", replica.tls_port)), "{line}");
        here.ask("DEL key:1 key:2");
        fill(&mut here);
        have_the_same(&mut here, &mut there);
        // The link goes and comes back: a partial sync.
        there.ask("CLIENT KILL TYPE primary");
        here.ask("SET after kill");
        have_the_same(&mut here, &mut there);
        assert_eq!(info(&mut here, "sync_full"), "1", "{diskless} {load} {dual}");
    }
}

#[test]
fn a_primary_that_is_not_believed_is_not_followed() {
    let primary = TlsProcess::start(&[]);
    let replica = replica_of(&primary, &[]);
    let mut there = replica.process.connect();
    eventually("the link is up", || info(&mut there, "master_link_status") == "up");
    let other = TlsProcess::start(&[]);
    assert_eq!(there.ask(&format!("REPLICAOF 127.0.0.1 {}", other.tls_port)), "OK");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(info(&mut there, "master_link_status"), "down");
    // Nor one that does not speak TLS.
    assert_eq!(there.ask(&format!("REPLICAOF 127.0.0.1 {}", other.process.port)), "OK");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(info(&mut there, "master_link_status"), "down");
    assert_eq!(there.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.tls_port)), "OK");
    eventually("the link is up", || info(&mut there, "master_link_status") == "up");
}

#[test]
fn keys_migrate_over_tls() {
    let source = TlsProcess::start(&["--tls-cluster", "yes"]);
    let target = Process::start(
        &[
            &source.certificates.options().iter().map(String::as_str).collect::<Vec<_>>()[..],
            &["--tls-port", "0"],
        ]
        .concat(),
    );
    let mut to = target.connect();
    let port = free_port();
    expect(&mut to, &[("tls-port", &port.to_string())]);
    let mut from = source.process.connect();
    for round in 0..3 {
        from.ask(&format!("SET key {round}"));
        assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {port} key 0 5000 REPLACE")), "OK");
        assert_eq!(to.ask("GET key"), round.to_string());
    }
    let config = source.certificates.client_config(Some("client"));
    assert_eq!(connect(port, &config).unwrap().ask("GET key"), "2");
    from.ask("SET key left");
    let refusal = from.ask(&format!("MIGRATE 127.0.0.1 {} key 0 500", target.port));
    assert_eq!(refusal, "IOERR error or timeout connecting to the client");
    assert_eq!(from.ask("GET key"), "left");
}
