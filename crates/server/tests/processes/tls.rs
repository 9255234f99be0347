//! TLS over real sockets: what passes, who is let in, and what peers that mean no good can do.

use crate::process::certificates::{TlsClient, TlsProcess};
use crate::process::{self, Client, PATIENCE, encode, eventually, info, shown};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

tests_with_io_threads!(
    commands_and_large_replies_pass,
    pipelines_pass_whatever_records_they_come_in,
    a_peer_that_says_goodbye_gets_its_replies_first,
    a_client_that_does_not_read_is_limited_by_what_it_would_read,
    peers_that_damage_their_records_disturb_nobody,
    handshakes_that_never_end_are_ended,
    plain_text_and_tls_on_the_wrong_port_end,
    clients_that_wait_are_served,
);

/// Bytes that differ from place to place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

fn text(client: &mut TlsClient) -> String {
    shown(&client.receive().expect("the server answers"))
}

fn commands_and_large_replies_pass() {
    let server = TlsProcess::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("SET key value"), "OK");
    assert_eq!(client.ask("GET key"), "value");
    for len in [16_300, 16_384, 65_536, 70_000, 5_000_000] {
        let value = pattern(len);
        client.send(&[b"SET", b"large", &value]);
        assert_eq!(text(&mut client), "OK");
        // Several at once, sent from where they are stored.
        client.stream.write_all(&encode(&[b"GET", b"large"]).repeat(5)).unwrap();
        for _ in 0..5 {
            assert!(client.receive().unwrap().as_bytes() == Some(&value[..]), "{len}");
        }
    }
    let mut plain = server.process.connect();
    assert_eq!(plain.ask("STRLEN large"), "5000000");
    assert_eq!(info(&mut plain, "listener1"), format!("name=tls,bind=*,bind=-::*,port={}", server.tls_port));
}

fn pipelines_pass_whatever_records_they_come_in() {
    let server = TlsProcess::start(&[]);
    let mut client = server.connect();
    let mut requests = Vec::new();
    for number in 0..3000 {
        requests.extend(encode(&[b"SET", format!("key:{number}").as_bytes(), &pattern(number % 200)]));
        requests.extend(encode(&[b"GET", format!("key:{number}").as_bytes()]));
    }
    for record_bytes in [17, 1000, 16_384, 65_536] {
        std::thread::scope(|scope| {
            let expected = (0..3000).map(|number| pattern(number % 200));
            let port = server.tls_port;
            let config = server.certificates.client_config(Some("client"));
            let requests = &requests;
            let task = scope.spawn(move || {
                let mut client = process::certificates::connect(port, &config).unwrap();
                // All are written before any reply is read: the server keeps what the socket does not take.
                for record in requests.chunks(record_bytes) {
                    client.stream.write_all(record).unwrap();
                }
                for value in expected {
                    assert_eq!(text(&mut client), "OK");
                    assert!(client.receive().unwrap().as_bytes() == Some(&value[..]));
                }
            });
            task.join().unwrap();
        });
    }
    assert_eq!(client.ask("DBSIZE"), "3000");
}

fn a_peer_that_says_goodbye_gets_its_replies_first() {
    let server = TlsProcess::start(&[]);
    for _ in 0..20 {
        let mut client = server.connect();
        client.send(&[b"ECHO", b"last"]);
        client.stream.close().unwrap();
        assert_eq!(text(&mut client), "last");
        assert!(client.is_closed_by_server());
        // However many requests there are: those of one read, and more.
        for requests in [200, 3000] {
            let mut client = server.connect();
            client.stream.write_all(&encode(&[b"PING"]).repeat(requests)).unwrap();
            client.stream.close().unwrap();
            for _ in 0..requests {
                assert_eq!(text(&mut client), "PONG");
            }
            assert!(client.is_closed_by_server());
        }
        // The socket's end without a word is an end too.
        let mut client = server.connect();
        client.send(&[b"ECHO", b"last"]);
        client.stream.socket.shutdown(Shutdown::Write).unwrap();
        assert!(client.is_closed_by_server());
    }
    // The server says goodbye as well.
    let mut client = server.connect();
    assert_eq!(client.ask("QUIT"), "OK");
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    let mut plain = server.process.connect();
    eventually("all are gone", || info(&mut plain, "connected_clients") == "1");
}

/// What is owed to a client counts as the bytes of its replies, and is as limited as without TLS.
fn a_client_that_does_not_read_is_limited_by_what_it_would_read() {
    let server = TlsProcess::start(&["--client-output-buffer-limit", "normal 4mb 0 0"]);
    let mut client = server.connect();
    client.send(&[b"SET", b"large", &pattern(100_000)]);
    assert_eq!(text(&mut client), "OK");
    let mut plain = server.process.connect();
    let requests = encode(&[b"GETRANGE", b"large", b"0", b"-1"]).repeat(10);
    let started = Instant::now();
    while client.stream.write_all(&requests).is_ok() {
        assert!(started.elapsed() < PATIENCE, "the client is never closed");
        let listed = plain.ask("CLIENT LIST");
        let owed = listed
            .lines()
            .filter_map(|line| line.split("omem=").nth(1)?.split(' ').next()?.parse::<u64>().ok());
        assert!(owed.max().unwrap_or(0) < 16 << 20);
    }
    eventually("it is gone", || info(&mut plain, "connected_clients") == "1");
    assert_eq!(info(&mut plain, "client_output_buffer_limit_disconnections"), "1");
}

/// A small generator, so that a run follows from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A socket that damages some of what is written to it.
struct Damaging {
    socket: TcpStream,
    dice: Dice,
    /// Writes that pass before.
    spared: usize,
}

impl Read for Damaging {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Damaging {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut damaged = bytes.to_vec();
        match self.spared.checked_sub(1) {
            Some(left) => self.spared = left,
            None => match self.dice.below(3) {
                0 => damaged[self.dice.below(bytes.len())] ^= 1 << self.dice.below(8),
                1 => damaged.truncate(self.dice.below(bytes.len())),
                _ => damaged.extend_from_slice(&pattern(self.dice.below(300))),
            },
        }
        self.socket.write_all(&damaged)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

/// Connections of this kind, one after the other: `WARMLINE_TEST_SCALE` multiplies how many.
fn misbehave(server: &TlsProcess, dice: &mut Dice, connections: usize) {
    let config = server.certificates.client_config(Some("client"));
    for _ in 0..connections {
        let socket = server.socket();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut stream = Damaging { socket, dice: Dice(dice.below(1 << 30) as u64), spared: dice.below(4) };
        match dice.below(4) {
            // Half a handshake, or none.
            0 => {
                let _ = stream.write(&pattern(1 + dice.below(2000)));
            }
            1 => {
                stream.socket.write_all(&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).unwrap();
                let _ = stream.socket.write_all(&pattern(dice.below(16_000)));
            }
            _ => {
                let name = tls::ServerName::try_from("127.0.0.1").unwrap();
                let Ok(mut stream) = tls::TlsStream::connect(stream, config.clone(), name) else { continue };
                for _ in 0..dice.below(5) {
                    let request = encode(&[b"ECHO", &pattern(dice.below(40_000))]);
                    if stream.write_all(&request).is_err() {
                        break;
                    }
                }
                let _ = stream.read(&mut [0; 1000]);
            }
        }
    }
}

fn peers_that_damage_their_records_disturb_nobody() {
    let server = TlsProcess::start(&[]);
    let mut bystander = server.connect();
    std::thread::scope(|scope| {
        let attackers: Vec<_> = (1..=2)
            .map(|seed| {
                let server = &server;
                scope.spawn(move || misbehave(server, &mut Dice(seed), 60 * process::scale()))
            })
            .collect();
        let mut steps = 0;
        while attackers.iter().any(|attacker| !attacker.is_finished()) {
            steps += 1;
            assert_eq!(bystander.ask("INCR steps"), steps.to_string());
        }
    });
    let mut plain = server.process.connect();
    eventually("all are gone", || info(&mut plain, "connected_clients") == "2");
}

/// The time that a handshake may take is ten seconds, whether nothing is said or too little.
fn handshakes_that_never_end_are_ended() {
    let server = TlsProcess::start(&[]);
    let started = Instant::now();
    let mut silent: Vec<TcpStream> = (0..50).map(|_| server.socket()).collect();
    for (index, socket) in silent.iter_mut().enumerate().filter(|(index, _)| index % 2 == 0) {
        socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc][..1 + index % 9]).unwrap();
    }
    let mut client = server.connect();
    assert_eq!(client.ask("PING"), "PONG");
    let mut bytes = Vec::new();
    for socket in &mut silent {
        match socket.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert!(started.elapsed() >= Duration::from_secs(9), "{:?}", started.elapsed());
    // One whose handshake was done stays.
    assert_eq!(client.ask("PING"), "PONG");
}

fn plain_text_and_tls_on_the_wrong_port_end() {
    let server = TlsProcess::start(&[]);
    let mut socket = server.socket();
    socket.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    let config = server.certificates.client_config(Some("client"));
    let error = process::certificates::connect(server.process.port, &config).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let mut socket = TcpStream::connect(("127.0.0.1", server.process.port)).unwrap();
    socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc]).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "-ERR Protocol error: this port does not speak TLS\r\n");
}

fn clients_that_wait_are_served() {
    let server = TlsProcess::start(&[]);
    let mut waiting = server.connect();
    waiting.send(&[b"BLPOP", b"list", b"0"]);
    // What follows is read and waits for its turn, however much it is.
    waiting.stream.write_all(&encode(&[b"ECHO", &pattern(50_000)]).repeat(40)).unwrap();
    let mut subscriber = server.connect();
    assert_eq!(subscriber.ask("SUBSCRIBE news"), "[subscribe news 1]");
    let mut other = server.connect();
    assert_eq!(other.ask("PUBLISH news hello"), "1");
    assert_eq!(text(&mut subscriber), "[message news hello]");
    assert_eq!(other.ask("RPUSH list element"), "1");
    assert_eq!(text(&mut waiting), "[list element]");
    for _ in 0..40 {
        assert!(waiting.receive().unwrap().as_bytes() == Some(&pattern(50_000)[..]));
    }
    let mut plain: Client<TcpStream> = server.process.connect();
    assert_eq!(plain.ask("CLIENT KILL TYPE pubsub"), "1");
    assert!(subscriber.is_closed_by_server());
}
