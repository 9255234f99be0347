//! Sessions of TLS as a client of its own makes them: what goes on in a later connection, and what is refused in the midst of
//! one.

use crate::process::certificates::TlsProcess;
use crate::process::{Client, eventually, info};
use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundPlainMessage,
};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, HandshakeKind, ProtocolVersion,
    StreamOwned, SupportedCipherSuite, SupportedProtocolVersion, version,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tls::ServerName;

tests_with_io_threads!(
    sessions_go_on_in_later_connections,
    sessions_that_are_not_kept_do_not_go_on,
    sessions_go_on_under_the_options_they_were_made_under,
    renegotiation_is_refused_and_then_ends_the_connection,
);

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// A client that keeps what it needs to go on with a session.
fn config(
    server: &TlsProcess,
    version: &'static SupportedProtocolVersion,
    kept: Tls12Resumption,
) -> Arc<ClientConfig> {
    let options = server.certificates.client_config(Some("client"));
    let verifier = Arc::new(Believing(options.crypto_provider().clone()));
    let mut config = ClientConfig::builder_with_provider(options.crypto_provider().clone())
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(options.client_auth_cert_resolver.clone());
    config.resumption = Resumption::in_memory_sessions(8).tls12_resumption(kept);
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// Believes every server.
#[derive(Debug)]
struct Believing(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(server: &TlsProcess, config: &Arc<ClientConfig>) -> Client<Stream> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    Client::new(StreamOwned::new(connection, server.socket()))
}

/// Who the client is in a connection, and how its handshake was.
fn visit(server: &TlsProcess, config: &Arc<ClientConfig>) -> (String, HandshakeKind) {
    let mut client = connect(server, config);
    let user = client.ask("ACL WHOAMI");
    client.stream.conn.send_close_notify();
    let _ = client.stream.conn.complete_io(&mut client.stream.sock);
    (user, client.stream.conn.handshake_kind().unwrap())
}

/// How handshakes after the first are.
fn later(server: &TlsProcess, config: &Arc<ClientConfig>) -> HandshakeKind {
    let first = visit(server, config);
    assert_eq!(first.1, HandshakeKind::Full);
    let kinds: Vec<_> = (0..6).map(|_| visit(server, config)).collect();
    assert!(kinds.iter().all(|(user, kind)| *user == first.0 && *kind == kinds[0].1), "{kinds:?}");
    kinds[0].1
}

/// By tickets, and by ids where a client knows no tickets; whichever thread serves the later one. The certificate is
/// remembered.
fn sessions_go_on_in_later_connections() {
    let server = TlsProcess::start(&["--tls-auth-clients-user", "CN"]);
    let mut plain = server.process.connect();
    assert_eq!(plain.ask("ACL SETUSER client on allcommands"), "OK");
    for kept in [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly] {
        for version in BOTH {
            let config = config(&server, version, kept);
            assert_eq!(later(&server, &config), HandshakeKind::Resumed, "{version:?} {kept:?}");
            assert_eq!(visit(&server, &config).0, "client");
        }
    }
}

fn sessions_that_are_not_kept_do_not_go_on() {
    let server = TlsProcess::start(&["--tls-session-caching", "no"]);
    for kept in [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly] {
        for version in BOTH {
            let config = config(&server, version, kept);
            assert_eq!(later(&server, &config), HandshakeKind::Full, "{version:?} {kept:?}");
        }
    }
    let mut plain = server.process.connect();
    assert_eq!(plain.ask("CONFIG SET tls-session-caching yes tls-session-cache-size 0"), "OK");
    let by_ids = config(&server, &version::TLS12, Tls12Resumption::SessionIdOnly);
    assert_eq!(later(&server, &by_ids), HandshakeKind::Full);
    let by_tickets = config(&server, &version::TLS12, Tls12Resumption::SessionIdOrTickets);
    assert_eq!(later(&server, &by_tickets), HandshakeKind::Resumed);
}

fn sessions_go_on_under_the_options_they_were_made_under() {
    let server = TlsProcess::start(&["--tls-session-cache-timeout", "4"]);
    let mut plain = server.process.connect();
    for (version, other) in BOTH.into_iter().zip(["yes", "no"]) {
        let config = config(&server, version, Tls12Resumption::SessionIdOrTickets);
        assert_eq!(later(&server, &config), HandshakeKind::Resumed);
        assert_eq!(plain.ask(&format!("CONFIG SET tls-prefer-server-ciphers {other}")), "OK");
        assert_eq!(later(&server, &config), HandshakeKind::Resumed);
        // Nor for longer than they are good.
        std::thread::sleep(std::time::Duration::from_millis(5100));
        assert_eq!(visit(&server, &config).1, HandshakeKind::Full);
    }
}

/// Both directions of a connection as they go on after its handshake.
struct Records {
    socket: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    decrypter: Box<dyn MessageDecrypter>,
    sent: u64,
    received: u64,
}

impl Records {
    /// Takes over a connection on which all that came has been read.
    fn of(stream: Stream) -> Self {
        let StreamOwned { conn, sock, .. } = stream;
        let Some(SupportedCipherSuite::Tls12(suite)) = conn.negotiated_cipher_suite() else {
            panic!("it speaks TLS 1.2")
        };
        let secrets = conn.dangerous_extract_secrets().unwrap();
        let key_of = |secrets| match secrets {
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("it uses ChaCha20"),
        };
        let ((sent, tx), (received, rx)) = (secrets.tx, secrets.rx);
        let ((tx, tx_iv), (rx, rx_iv)) = (key_of(tx), key_of(rx));
        Records {
            socket: sock,
            encrypter: suite.aead_alg.encrypter(tx, tx_iv.as_ref(), &[]),
            decrypter: suite.aead_alg.decrypter(rx, rx_iv.as_ref()),
            sent,
            received,
        }
    }

    fn send(&mut self, typ: ContentType, payload: &[u8]) {
        let plain = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload: payload.into() };
        let record = self.encrypter.encrypt(plain, self.sent).unwrap().encode();
        self.sent += 1;
        self.socket.write_all(&record).unwrap();
    }

    /// The next record, until the server ends the connection.
    fn receive(&mut self) -> Option<(ContentType, Vec<u8>)> {
        let mut header = [0; 5];
        self.socket.read_exact(&mut header).ok()?;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
        self.socket.read_exact(&mut payload).ok()?;
        let record = InboundOpaqueMessage::new(header[0].into(), ProtocolVersion::TLSv1_2, &mut payload);
        let plain = self.decrypter.decrypt(record, self.received).unwrap();
        self.received += 1;
        Some((plain.typ, plain.payload.to_vec()))
    }
}

const NO_RENEGOTIATION: [u8; 2] = [1, 100];

/// The first attempt is answered with a warning, as the standard says; a client that tries again gets no answer.
fn renegotiation_is_refused_and_then_ends_the_connection() {
    let server = TlsProcess::start(&["--tls-ciphers", "CHACHA20"]);
    let config = config(&server, &version::TLS12, Tls12Resumption::Disabled);
    let mut plain = server.process.connect();
    let mut client = connect(&server, &config);
    assert_eq!(client.ask("PING"), "PONG");
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(config, name).unwrap().write_tls(&mut hello).unwrap();
    let mut records = Records::of(client.stream);
    records.send(ContentType::Handshake, &hello[5..]);
    assert_eq!(records.receive(), Some((ContentType::Alert, NO_RENEGOTIATION.to_vec())));
    records.send(ContentType::ApplicationData, b"PING\r\n");
    assert_eq!(records.receive(), Some((ContentType::ApplicationData, b"+PONG\r\n".to_vec())));
    records.send(ContentType::Handshake, &hello[5..]);
    assert_eq!(records.receive(), None);
    eventually("it is gone", || info(&mut plain, "connected_clients") == "1");
    assert_eq!(server.connect().ask("PING"), "PONG");
}
