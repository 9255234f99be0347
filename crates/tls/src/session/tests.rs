use super::*;
use crate::configs::{ClientAuthentication, ClientOptions, ResumptionOptions, ServerContext, ServerOptions};
use crate::materials::IdentityFiles;
use crate::tests::Authority;
use rcgen::{CertificateParams, DnType};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// One end of a connection in memory: what it can read, what it has written, and how much it takes at once.
struct End {
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
    room: usize,
    is_closed: bool,
}

impl End {
    fn new() -> Self {
        End { incoming: VecDeque::new(), outgoing: Vec::new(), room: usize::MAX, is_closed: false }
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() {
            return if self.is_closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        self.incoming.read(buffer)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.outgoing.extend_from_slice(&bytes[..count]);
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client and a server that are connected.
struct Pair {
    client: Session,
    server: Session,
    client_end: End,
    server_end: End,
}

impl Pair {
    fn new(files: &Files, protocols: Option<&str>) -> Self {
        let options = ServerOptions { protocols: protocols.map(str::to_owned), ..files.server_options() };
        let context = ServerContext::read(&options).unwrap();
        let client = files.client_options().config().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Pair {
            client: Session::client(client, name).unwrap(),
            server: Session::server(context.server).unwrap(),
            client_end: End::new(),
            server_end: End::new(),
        }
    }

    /// What each has written gets to the other.
    fn deliver(&mut self) {
        self.server_end.incoming.extend(self.client_end.outgoing.drain(..));
        self.client_end.incoming.extend(self.server_end.outgoing.drain(..));
    }

    fn established(files: &Files, protocols: Option<&str>) -> Self {
        let mut pair = Pair::new(files, protocols);
        pair.establish();
        pair
    }

    fn establish(&mut self) {
        for _ in 0..8 {
            self.client.handshake(&mut self.client_end).unwrap();
            self.deliver();
            self.server.handshake(&mut self.server_end).unwrap();
            self.deliver();
        }
        assert!(self.client.is_established() && self.server.is_established());
    }
}

struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("warmline-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let files = Files(directory);
        let authority = Authority::new();
        files.write("ca.crt", &authority.pem);
        for name in ["server", "client"] {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            let signed = authority.sign(params);
            files.write(&format!("{name}.crt"), &signed.pem);
            files.write(&format!("{name}.key"), &signed.key.serialize_pem());
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn identity(&self, name: &str) -> IdentityFiles {
        let path = |end: &str| self.0.join(format!("{name}.{end}"));
        IdentityFiles { certificate: path("crt"), key: path("key"), key_password: None }
    }

    fn server_options(&self) -> ServerOptions {
        ServerOptions {
            identity: self.identity("server"),
            authorities_file: Some(self.0.join("ca.crt")),
            client_authentication: ClientAuthentication::Required,
            resumption: Some(ResumptionOptions { cache_size: 10, timeout_s: 60 }),
            ..ServerOptions::default()
        }
    }

    fn client_options(&self) -> ClientOptions {
        ClientOptions {
            identity: Some(self.identity("client")),
            authorities_file: Some(self.0.join("ca.crt")),
            ..ClientOptions::default()
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads all available bytes with buffers of this size.
fn read_all(session: &mut Session, end: &mut End, room: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::with_capacity(room);
        match session.read(end, &mut bytes) {
            Ok(0) => return all,
            Ok(count) => assert_eq!(count, bytes.len()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(!session.has_decrypted());
                return all;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(bytes.len() <= room);
        all.extend(bytes);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn bytes_pass_both_ways_whatever_the_room() {
    let files = Files::new("ways");
    for protocols in [Some("TLSv1.2"), Some("TLSv1.3"), None] {
        let mut pair = Pair::established(&files, protocols);
        assert_eq!(
            crate::certificate::common_name(pair.server.peer_certificate().unwrap()).unwrap(),
            b"client"
        );
        for len in [1, 16_383, 16_384, 16_385, 65_536, 300_000] {
            let bytes = pattern(len);
            for room in [1.max(len / 300), 16 * 1024, 1 << 20] {
                let mut sent = 0;
                while sent < len {
                    sent += pair.client.write(&mut pair.client_end, &bytes[sent..]).unwrap();
                }
                pair.deliver();
                assert!(read_all(&mut pair.server, &mut pair.server_end, room) == bytes, "{len} {room}");
            }
            let runs: Vec<IoSlice<'_>> = bytes.chunks(len.div_ceil(7)).map(IoSlice::new).collect();
            let sent = pair.server.write_runs(&mut pair.server_end, &runs).unwrap();
            assert!(sent == len.min(PIECE_BYTES_MAX) || sent == runs[0].len().min(PIECE_BYTES_MAX));
            pair.deliver();
            assert!(read_all(&mut pair.client, &mut pair.client_end, 5000) == bytes[..sent]);
        }
        let chain_bytes: usize = pair.server.peer_certificates().iter().map(|one| one.len()).sum();
        let idle_bytes = size_of::<Session>() + INNER_BYTES + chain_bytes;
        assert!(
            chain_bytes > 0 && pair.server.memory_bytes() == idle_bytes,
            "an idle session has no buffers"
        );
    }
}

#[test]
fn what_a_socket_does_not_take_is_sent_later_and_once() {
    let files = Files::new("later");
    let mut pair = Pair::established(&files, None);
    let bytes = pattern(200_000);
    let (mut sent, mut come) = (0, Vec::new());
    pair.server_end.room = 0;
    while come.len() < bytes.len() {
        match pair.server.write(&mut pair.server_end, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        pair.server_end.room = 1000;
        pair.deliver();
        come.extend(read_all(&mut pair.client, &mut pair.client_end, 777));
    }
    assert!(come == bytes && !pair.server.has_unsent());
}

#[test]
fn a_handshake_goes_on_when_the_socket_has_room_again() {
    let files = Files::new("room");
    let mut pair = Pair::new(&files, None);
    for _ in 0..2000 {
        (pair.client_end.room, pair.server_end.room) = (0, 0);
        let _ = pair.client.handshake(&mut pair.client_end).unwrap();
        let _ = pair.server.handshake(&mut pair.server_end).unwrap();
        (pair.client_end.room, pair.server_end.room) = (7, 7);
        let _ = pair.client.handshake(&mut pair.client_end).unwrap();
        let _ = pair.server.handshake(&mut pair.server_end).unwrap();
        pair.deliver();
    }
    assert!(pair.client.is_established() && pair.server.is_established());
}

#[test]
fn what_a_peer_sends_before_its_handshake_is_done_counts() {
    let files = Files::new("counts");
    let mut pair = Pair::new(&files, None);
    let before = pair.server.memory_bytes();
    pair.server_end.incoming.extend([22, 3, 1, 0x40, 0, 1, 0, 0xfc, 0]);
    pair.server_end.incoming.extend(pattern(16_000));
    assert!(!pair.server.handshake(&mut pair.server_end).unwrap());
    assert!(pair.server.memory_bytes() >= before + 3 * 16_000);
}

/// TLS 1.3 changes its key instead, however often; and ChaCha20 has no such limit.
#[test]
fn one_key_of_tls_1_2_encrypts_so_many_blocks_and_any_number_of_records() {
    let files = Files::new("blocks");
    for (protocols, ciphers, ends) in
        [("TLSv1.2", "AES", true), ("TLSv1.2", "CHACHA20", false), ("TLSv1.3", "ALL", false)]
    {
        let mut pair = Pair::new(&files, None);
        let options = ServerOptions {
            protocols: Some(protocols.to_owned()),
            ciphers: Some(ciphers.to_owned()),
            ..files.server_options()
        };
        pair.server = Session::server(ServerContext::read(&options).unwrap().server).unwrap();
        pair.establish();
        pair.server.blocks = TLS12_BLOCKS_MAX - 4;
        assert_eq!(pair.server.write(&mut pair.server_end, b"one more").unwrap(), 8);
        let written = pair.server.write(&mut pair.server_end, b"and another");
        assert_eq!(written.is_err(), ends, "{protocols} {ciphers}");
        pair.deliver();
        let come = read_all(&mut pair.client, &mut pair.client_end, 100);
        assert_eq!(come, if ends { &b"one more"[..] } else { b"one moreand another" });
    }
}

#[test]
fn the_end_comes_behind_the_last_bytes_and_one_direction_may_end_first() {
    let files = Files::new("end");
    for protocols in ["TLSv1.2", "TLSv1.3"] {
        let mut pair = Pair::established(&files, Some(protocols));
        assert_eq!(pair.client.write(&mut pair.client_end, b"last").unwrap(), 4);
        pair.client.close(&mut pair.client_end).unwrap();
        pair.deliver();
        let mut bytes = Vec::with_capacity(3);
        assert_eq!(pair.server.read(&mut pair.server_end, &mut bytes).unwrap(), 3);
        assert!(pair.server.has_decrypted());
        bytes.clear();
        assert_eq!(pair.server.read(&mut pair.server_end, &mut bytes).unwrap(), 1);
        assert!(pair.server.has_decrypted(), "the end has not been reported, and no event will follow");
        assert_eq!(pair.server.read(&mut pair.server_end, &mut bytes).unwrap(), 0);
        assert_eq!(pair.server.write(&mut pair.server_end, b"answer").unwrap(), 6);
        pair.deliver();
        assert_eq!(read_all(&mut pair.client, &mut pair.client_end, 100), b"answer");
    }
}

#[test]
fn records_that_come_a_byte_at_a_time_come_all_the_same() {
    let files = Files::new("dribble");
    let mut pair = Pair::new(&files, None);
    let (mut come, mut is_sent) = (Vec::new(), false);
    pair.client.handshake(&mut pair.client_end).unwrap();
    for _ in 0..20 {
        for byte in std::mem::take(&mut pair.client_end.outgoing) {
            pair.server_end.incoming.push_back(byte);
            let mut bytes = Vec::with_capacity(100);
            match pair.server.read(&mut pair.server_end, &mut bytes) {
                Ok(_) => come.extend(bytes),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        pair.deliver();
        if pair.client.handshake(&mut pair.client_end).unwrap() && !std::mem::replace(&mut is_sent, true) {
            pair.client.write(&mut pair.client_end, &pattern(50_000)).unwrap();
        }
    }
    come.extend(read_all(&mut pair.server, &mut pair.server_end, 100));
    assert!(come == pattern(50_000), "{} bytes have come", come.len());
}

/// A peer that is cut, or whose bytes are changed, ends the session with an error or leaves it waiting; nothing else.
#[test]
fn bytes_that_are_changed_or_missing_are_an_error() {
    let files = Files::new("changed");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let (mut errors, mut waits) = (0, 0);
    for round in 0..300 {
        let mut pair = Pair::new(&files, [Some("TLSv1.2"), None][round % 2]);
        let spared = next(6);
        let mut failed = false;
        for step in 0..12 {
            let client = pair.client.handshake(&mut pair.client_end);
            if client.is_ok_and(|done| done) && step < 8 {
                pair.client.write(&mut pair.client_end, &pattern(next(40_000) + 1)).unwrap();
            }
            if step >= spared && !pair.client_end.outgoing.is_empty() {
                let len = pair.client_end.outgoing.len();
                match next(3) {
                    0 => pair.client_end.outgoing[next(len)] ^= 1 << next(8),
                    1 => pair.client_end.outgoing.truncate(next(len)),
                    _ => {
                        pair.client_end.outgoing.remove(next(len));
                    }
                }
            }
            pair.deliver();
            let mut bytes = Vec::with_capacity(16 * 1024);
            for _ in 0..10 {
                bytes.clear();
                failed |= matches!(pair.server.read(&mut pair.server_end, &mut bytes),
                    Err(error) if error.kind() != ErrorKind::WouldBlock);
            }
            pair.deliver();
        }
        if failed { errors += 1 } else { waits += 1 }
    }
    assert!(errors > 100 && waits > 10, "{errors} {waits}");
}

#[test]
fn plain_text_is_an_error_and_gets_no_answer() {
    let files = Files::new("plain");
    let mut pair = Pair::new(&files, None);
    pair.server_end.incoming.extend(b"*1\r\n$4\r\nPING\r\n");
    let error = pair.server.read(&mut pair.server_end, &mut Vec::with_capacity(100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(pair.server_end.outgoing.is_empty());
    assert!(pair.server.write(&mut pair.server_end, b"x").is_err());
}

#[test]
fn certificates_are_asked_for_and_judged() {
    let (files, others) = (Files::new("asked"), Files::new("others"));
    let attempt = |authentication, identity: Option<IdentityFiles>, authorities: &Path| {
        let options = ServerOptions { client_authentication: authentication, ..files.server_options() };
        let client = ClientOptions {
            identity,
            authorities_file: Some(authorities.to_owned()),
            ..ClientOptions::default()
        };
        let mut pair = Pair::new(&files, None);
        pair.server = Session::server(ServerContext::read(&options).unwrap().server).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        pair.client = Session::client(client.config().unwrap(), name).unwrap();
        for _ in 0..6 {
            let client = pair.client.handshake(&mut pair.client_end);
            pair.deliver();
            let server = pair.server.handshake(&mut pair.server_end);
            pair.deliver();
            if client.is_err() || server.is_err() {
                return false;
            }
        }
        pair.server.is_established()
    };
    use ClientAuthentication::{No, Optional, Required};
    let own = files.0.join("ca.crt");
    let known = || Some(files.identity("client"));
    let unknown = || Some(others.identity("client"));
    assert!(attempt(Required, known(), &own));
    assert!(!attempt(Required, None, &own));
    assert!(!attempt(Required, unknown(), &own));
    assert!(attempt(Optional, None, &own) && attempt(Optional, known(), &own));
    assert!(!attempt(Optional, unknown(), &own));
    assert!(attempt(No, None, &own) && attempt(No, unknown(), &own));
    assert!(!attempt(No, None, &others.0.join("ca.crt")), "the client does not believe this server");
}

#[test]
fn files_that_are_wrong_are_told_by_name() {
    let files = Files::new("wrong");
    let error =
        |options: ServerOptions| ServerContext::read(&options).map(|_| ()).expect_err("it is wrong").0;
    let with = |identity: IdentityFiles| ServerOptions { identity, ..files.server_options() };
    let missing = IdentityFiles { certificate: files.0.join("none.crt"), ..files.identity("server") };
    assert!(error(with(missing)).starts_with("Failed to load certificate: "));
    let swapped = IdentityFiles { key: files.0.join("ca.crt"), ..files.identity("server") };
    let text = error(with(swapped));
    assert!(text.starts_with("Failed to load private key: "), "{text}");
    assert!(text.ends_with("ca.crt: there is no private key in it"), "{text}");
    let mixed = IdentityFiles { key: files.0.join("client.key"), ..files.identity("server") };
    let text = error(with(mixed));
    assert!(
        text.starts_with("Failed to load private key: ") && text.contains("client.key: it is not"),
        "{text}"
    );
    assert!(text.ends_with("server.crt"), "{text}");
    let whole = std::fs::read_to_string(files.0.join("server.crt")).unwrap();
    std::fs::write(files.0.join("cut.crt"), &whole[..whole.len() / 2]).unwrap();
    let cut = IdentityFiles { certificate: files.0.join("cut.crt"), ..files.identity("server") };
    assert!(error(with(cut)).ends_with("cut.crt: it has no line `-----END CERTIFICATE-----`"));
    let header = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(files.0.join("odd.crt"), header).unwrap();
    let odd = IdentityFiles { certificate: files.0.join("odd.crt"), ..files.identity("server") };
    assert!(error(with(odd)).ends_with("odd.crt: it is damaged, or no X.509 certificate"));
    let options =
        ServerOptions { authorities_file: Some(files.0.join("server.key")), ..files.server_options() };
    assert!(error(options).starts_with("Failed to configure CA certificate(s) file/directory: "));
    let options = ServerOptions { authorities_file: None, ..files.server_options() };
    assert!(error(options).starts_with("Failed to configure CA certificate(s) file/directory: "));
    let directory = ServerOptions {
        authorities_file: None,
        authorities_directory: Some(files.0.clone()),
        ..files.server_options()
    };
    assert!(ServerContext::read(&directory).unwrap().authority.is_some());
}

#[test]
fn an_encrypted_key_needs_its_password() {
    let files = Files::new("password");
    // As `openssl pkcs8 -topk8` makes it.
    let pem = std::fs::read_to_string(files.0.join("server.key")).unwrap();
    let (_, document) = pkcs8::SecretDocument::from_pem(&pem).unwrap();
    let parameters =
        pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(2048, b"saltsalt", [7; 16])
            .unwrap();
    let encrypted_data = parameters.encrypt(b"1234", document.as_bytes()).unwrap();
    let info = pkcs8::EncryptedPrivateKeyInfo {
        encryption_algorithm: parameters.into(),
        encrypted_data: pkcs8::der::asn1::OctetStringRef::new(&encrypted_data).unwrap(),
    };
    let encrypted = pkcs8::SecretDocument::try_from(info).unwrap();
    let pem = encrypted.to_pem("ENCRYPTED PRIVATE KEY", Default::default()).unwrap();
    files.write("server.key", &pem);
    let with = |password: Option<&[u8]>| {
        let key_password = password.map(<[u8]>::to_vec);
        let identity = IdentityFiles { key_password, ..files.identity("server") };
        ServerContext::read(&ServerOptions { identity, ..files.server_options() }).map(|_| ())
    };
    with(Some(b"1234")).unwrap();
    assert!(with(Some(b"123")).expect_err("it is not the password").0.contains("cannot be decrypted"));
    assert!(with(None).expect_err("there is no password").0.contains("it is encrypted"));
}
