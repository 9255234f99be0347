//! `timeout` closes idle clients, but no client with bytes in transfer, however long that takes.

use crate::process::{self, PATIENCE, Process};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The `timeout` of these servers.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a slow client takes: long enough for it to be closed if nothing of what it does counted.
const SLOW: Duration = Duration::from_secs(7);
const PIECE: Duration = Duration::from_millis(100);

fn start() -> Process {
    Process::start(&["--timeout", &TIMEOUT.as_secs().to_string()])
}

fn connect(process: &Process) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", process.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn set(process: &Process, value_bytes: usize) {
    let mut client = process.connect();
    client.send(&[b"SET", b"key", &vec![b'x'; value_bytes]]);
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
}

/// Sends one request in small pieces.
fn upload_slowly(value_bytes: usize) {
    let process = start();
    let mut stream = connect(&process);
    let request = process::encode(&[b"SET", b"key", &vec![b'x'; value_bytes]]);
    let pieces = SLOW.as_millis() / PIECE.as_millis();
    for piece in request.chunks(request.len().div_ceil(usize::try_from(pieces).unwrap())) {
        stream.write_all(piece).unwrap();
        std::thread::sleep(PIECE);
    }
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
}

fn a_client_that_sends_a_long_request_slowly_is_not_idle() {
    upload_slowly(2 << 20);
}

fn a_client_that_sends_a_short_request_slowly_is_not_idle() {
    upload_slowly(500);
}

fn a_client_that_reads_slowly_is_not_idle() {
    let process = start();
    let value_bytes = 24 << 20;
    set(&process, value_bytes);
    let mut stream = connect(&process);
    stream.write_all(&process::encode(&[b"GET", b"key"])).unwrap();
    let (started, mut piece, mut received) = (Instant::now(), vec![0; 60_000], 0);
    while started.elapsed() < SLOW {
        received += stream.read(&mut piece).unwrap();
        std::thread::sleep(PIECE);
    }
    let all = format!("${value_bytes}\r\n").len() + value_bytes + 2;
    stream.read_exact(&mut vec![0; all - received]).unwrap();
}

fn a_client_that_does_not_read_on_is_idle() {
    let process = start();
    set(&process, 24 << 20);
    let mut stream = connect(&process);
    stream.write_all(&process::encode(&[b"GET", b"key"])).unwrap();
    let started = Instant::now();
    // Only the requesting client.
    process.eventually_shows("connected_clients", "1");
    assert!(started.elapsed() < SLOW + TIMEOUT, "{:?}", started.elapsed());
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest);
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(rest.len() < 24 << 20, "the reply was cut off");
}

fn a_client_that_stops_within_a_request_is_idle() {
    let process = start();
    let mut stream = connect(&process);
    stream.write_all(b"*2\r\n$3\r\nGET\r\n$3\r\nke").unwrap();
    let started = Instant::now();
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    let elapsed = started.elapsed();
    assert!(elapsed > TIMEOUT && elapsed < TIMEOUT * 4, "{elapsed:?}");
}

tests_with_io_threads!(
    a_client_that_sends_a_long_request_slowly_is_not_idle,
    a_client_that_sends_a_short_request_slowly_is_not_idle,
    a_client_that_reads_slowly_is_not_idle,
    a_client_that_does_not_read_on_is_idle,
    a_client_that_stops_within_a_request_is_idle,
);
