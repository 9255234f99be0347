//! What peers can hold of a server with TLS that do not say who they are, and what their handshakes cost others.

use crate::process::certificates::{TlsClient, TlsProcess};
use crate::process::{self, Client, encode, eventually, info};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::{ServerName, Session};

tests_with_io_threads!(
    handshakes_leave_others_their_turns,
    those_who_have_not_logged_in_hold_so_much_together,
    handshakes_that_are_not_done_hold_so_much_together,
    a_first_request_has_the_limits_of_whom_the_certificate_names,
);

/// Takes what a client says first, and answers nothing.
#[derive(Default)]
struct Recorder(Vec<u8>);

impl Read for Recorder {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a client's handshake begins with.
fn first_message(server: &TlsProcess) -> Vec<u8> {
    let mut recorder = Recorder::default();
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = Session::client(server.certificates.client_config(None), name).unwrap();
    session.handshake(&mut recorder).unwrap();
    recorder.0
}

/// How often each of the bystanders is answered while the server answers this many first messages.
fn turns_beside_handshakes(
    server: &TlsProcess,
    bystanders: &mut [TlsClient],
    handshakes: usize,
) -> Vec<usize> {
    let mut sockets: Vec<TcpStream> = (0..handshakes).map(|_| server.socket()).collect();
    let mut plain = server.process.connect();
    let clients = handshakes + bystanders.len() + 1;
    eventually("all are there", || info(&mut plain, "connected_clients") == clients.to_string());
    let message = first_message(server);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ask = |client: &mut TlsClient| {
            let mut turns = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(client.ask("PING"), "PONG");
                turns += 1;
            }
            turns
        };
        let asking: Vec<_> = bystanders.iter_mut().map(|client| scope.spawn(move || ask(client))).collect();
        for socket in &mut sockets {
            socket.write_all(&message).unwrap();
        }
        for socket in &mut sockets {
            socket.read_exact(&mut [0; 5]).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The answer to a first message is what costs most of a handshake. Turns are counted, not time; a busy machine may keep
/// the bystanders from asking for a turn, and then they try again.
fn handshakes_leave_others_their_turns() {
    let server = TlsProcess::start(&["--max-new-tls-connections-per-cycle", "2"]);
    // With one of them in each thread.
    let mut bystanders: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let mut turns = (0..10).map(|_| turns_beside_handshakes(&server, &mut bystanders, 400));
    assert!(turns.any(|turns| turns.iter().all(|&turns| turns >= 5)), "bystanders have no turns");
}

/// Memory of all clients, as CLIENT LIST shows it.
fn held_bytes(client: &mut Client<TcpStream>) -> usize {
    let list = client.ask("CLIENT LIST");
    let of = |line: &str| line.split("tot-mem=").nth(1)?.split(' ').next()?.parse::<usize>().ok();
    list.lines().filter_map(of).sum()
}

/// Of 100 clients at most, 1.6 MB.
const MAXCLIENTS: &str = "100";
const HELD_BYTES_MAX: usize = 100 * 16 * 1024;
/// Memory of authenticated clients, and input since the last report.
const BESIDE_BYTES: usize = 300 * 1024;

fn those_who_have_not_logged_in_hold_so_much_together() {
    let server = TlsProcess::start(&["--maxclients", MAXCLIENTS, "--requirepass", "secret"]);
    let mut admin = server.process.connect();
    assert_eq!(admin.ask("AUTH secret"), "OK");
    // Nine arguments of 16 KB, and one that never comes.
    let mut request = b"*10\r\n$4\r\nAUTH\r\n".to_vec();
    for _ in 0..8 {
        request.extend(encode(&[&[b'x'; 16_000]]).split_off(4));
    }
    let mut plain: Vec<TcpStream> = Vec::new();
    let mut encrypted = Vec::new();
    for _ in 0..20 {
        let mut socket = TcpStream::connect(("127.0.0.1", server.process.port)).unwrap();
        // Whoever is closed meanwhile cannot be written to.
        let _ = socket.write_all(&request);
        plain.push(socket);
        let mut client = server.connect();
        let _ = client.stream.write_all(&request);
        encrypted.push(client);
        // Whoever says no more than who it is gets through.
        assert_eq!(server.connect().ask("AUTH secret"), "OK");
    }
    eventually("there is no more than may be", || {
        held_bytes(&mut admin) < HELD_BYTES_MAX + BESIDE_BYTES && info(&mut admin, "evicted_clients") != "0"
    });
    // Some of them are still there: they are not closed for what they are, but for what all hold.
    assert!(info(&mut admin, "connected_clients").parse::<usize>().unwrap() > 5);
    assert_eq!(server.connect().ask("AUTH secret"), "OK");
}

/// The first message of a handshake may have 64 KB.
fn handshakes_that_are_not_done_hold_so_much_together() {
    let server = TlsProcess::start(&["--maxclients", MAXCLIENTS]);
    let mut admin = server.process.connect();
    let mut message = Vec::new();
    for record in 0..4 {
        message.extend([22, 3, 1, 0x3f, 0]);
        let mut content = vec![0; 0x3f00];
        if record == 0 {
            content[..4].copy_from_slice(&[1, 0, 0xff, 0xf0]);
        }
        message.extend(content);
    }
    message.truncate(64_000);
    let mut sockets = Vec::new();
    for _ in 0..40 {
        let mut socket = server.socket();
        let _ = socket.write_all(&message);
        sockets.push(socket);
        assert_eq!(server.connect().ask("PING"), "PONG");
        eventually("there is no more than may be", || held_bytes(&mut admin) < HELD_BYTES_MAX + BESIDE_BYTES);
    }
    assert_ne!(info(&mut admin, "evicted_clients"), "0");
    assert_eq!(server.connect().ask("PING"), "PONG");
}

fn a_first_request_has_the_limits_of_whom_the_certificate_names() {
    let server = TlsProcess::start(&["--tls-auth-clients-user", "CN", "--requirepass", "secret"]);
    let mut admin = server.process.connect();
    assert_eq!(admin.ask("AUTH secret"), "OK");
    assert_eq!(admin.ask("ACL SETUSER client on allcommands allkeys"), "OK");
    for round in 0..20 {
        // It comes with the last message of the handshake.
        let mut client = server.connect();
        let value = vec![b'x'; 20_000 + round];
        client.send(&[b"SET", b"key", &value]);
        assert_eq!(process::shown(&client.receive().unwrap()), "OK");
        let mut words: Vec<&[u8]> = vec![b"DEL"];
        words.extend([&b"key"[..]; 20]);
        client.send(&words);
        assert_eq!(process::shown(&client.receive().unwrap()), "1");
    }
    // Whom the certificate does not name has to log in as ever.
    server.certificates.issue("nobody", &[]);
    let config = server.certificates.client_config(Some("nobody"));
    let mut client = server.try_connect(&config).unwrap();
    assert!(client.ask("PING").starts_with("NOAUTH"));
    client.send(&[b"SET", b"key", &[b'x'; 20_000]]);
    assert!(process::shown(&client.receive().unwrap()).contains("unauthenticated bulk length"));
    let mut client = server.try_connect(&config).unwrap();
    assert_eq!(client.ask("AUTH secret"), "OK");
    assert_eq!(client.ask("PING"), "PONG");
}
