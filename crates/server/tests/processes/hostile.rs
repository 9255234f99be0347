//! Damaged input against a real server over real sockets, while another client's work goes on: every truncation and
//! every flipped bit of a corpus of commands. Nothing of it may end the server, keep a connection hanging, answer
//! what is not a reply, or disturb anybody else.

use crate::process::{self, Client, PATIENCE, Process, encode, shown};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::response::Reader;

tests_with_io_threads!(
    damaged_requests_disturb_nobody,
    requests_may_come_in_any_pieces,
    announced_lengths_cost_nothing,
);

/// Connections that attack at the same time.
const ATTACKERS: usize = 3;

/// Requests, each the whole of what one connection sends.
fn corpus() -> Vec<Vec<u8>> {
    let commands: &[&[&[u8]]] = &[
        &[b"PING"],
        &[b"ECHO", b"hello"],
        &[b"SET", b"k", b"v", b"PX", b"100000", b"NX", b"GET"],
        &[b"GETRANGE", b"k", b"0", b"-1"],
        &[b"MSET", b"a", b"1", b"b", b"\x00\xff"],
        &[b"MGET", b"a", b"b", b"c"],
        &[b"INCRBYFLOAT", b"f", b"1.5"],
        &[b"EXPIRE", b"a", b"1000", b"LT"],
        &[b"OBJECT", b"ENCODING", b"a"],
        &[b"SCAN", b"0", b"MATCH", b"[a-c]*", b"COUNT", b"10"],
        &[b"HELLO", b"3", b"SETNAME", b"n"],
        &[b"CLIENT", b"LIST", b"ID", b"1", b"2"],
        &[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", b"a"],
        &[b"SUBSCRIBE", b"channel"],
        &[b"PSUBSCRIBE", b"[^a-"],
        &[b"CONFIG", b"GET", b"max*"],
        &[b"COMMAND", b"GETKEYS", b"MSET", b"a", b"1"],
    ];
    let mut corpus: Vec<Vec<u8>> = commands.iter().map(|words| encode(words)).collect();
    let transaction: [&[&[u8]]; 4] = [&[b"WATCH", b"a"], &[b"MULTI"], &[b"INCR", b"t"], &[b"EXEC"]];
    corpus.push(transaction.iter().flat_map(|words| encode(words)).collect());
    corpus.push(b"SET inline 'it\\'s' EX 10\r\nGET \"in\\x6cine\"\r\n\r\n*0\r\nPING\r\n".to_vec());
    corpus
}

/// Every beginning of the request, and the request with every single bit flipped.
fn damaged(request: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let truncated = (0..request.len()).map(|len| request[..len].to_vec());
    let flipped = (0..request.len() * 8).map(|bit| {
        let mut bytes = request.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    truncated.chain(flipped)
}

/// Sends bytes and no more, and reads until the server closes: what it sent must be whole replies.
fn attack(port: u16, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may have closed already, having seen enough.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{:?} leaves the connection hanging: {error}", bytes.escape_ascii().to_string()),
    }
    let (mut reader, mut position) = (Reader::new(), 0);
    while position < received.len() {
        let reply = reader.read(&received, &mut position);
        let whole = matches!(reply, Ok(Some(_)));
        assert!(
            whole,
            "{:?} is answered {:?}",
            bytes.escape_ascii().to_string(),
            received.escape_ascii().to_string()
        );
    }
}

/// Counts up by one while `goes_on`, and checks each step and what is stored beside it.
fn bystander(process: &Process, goes_on: &AtomicBool) -> usize {
    let mut client = process.connect();
    let (mut steps, mut slowest) = (0, Duration::ZERO);
    while goes_on.load(Ordering::Relaxed) {
        let started = Instant::now();
        steps += 1;
        assert_eq!(client.ask("INCR bystander:counter"), steps.to_string());
        assert_eq!(client.ask(&format!("SET bystander:value {steps}")), "OK");
        assert_eq!(client.ask("GET bystander:value"), steps.to_string());
        slowest = slowest.max(started.elapsed());
    }
    assert!(slowest < PATIENCE / 4, "a bystander waited {slowest:?}");
    steps
}

fn damaged_requests_disturb_nobody() {
    let process = Process::start(&[]);
    let attacks: Vec<Vec<u8>> =
        corpus().iter().flat_map(|request| damaged(request).collect::<Vec<_>>()).collect();
    assert!(attacks.len() > 5000);
    let goes_on = AtomicBool::new(true);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| bystander(&process, &goes_on));
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(bytes) = attacks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        attack(process.port, bytes);
                    }
                })
            })
            .collect();
        let results: Vec<_> = attackers.into_iter().map(|attacker| attacker.join()).collect();
        goes_on.store(false, Ordering::Relaxed);
        assert!(watcher.join().unwrap() > 0);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let mut client = process.connect();
    process::eventually("all attackers are gone", || client.ask("CLIENT LIST").lines().count() == 1);
}

fn requests_may_come_in_any_pieces() {
    let process = Process::start(&[]);
    // HELLO and CLIENT LIST answer differently each time.
    let differs = |request: &[u8]| request.windows(5).any(|word| word == b"HELLO" || word == b"\nLIST");
    let whole: Vec<u8> = corpus().into_iter().filter(|request| !differs(request)).flatten().collect();
    let mut answers = Vec::new();
    for piece_len in [whole.len(), 1, 7] {
        let mut client = process.connect();
        assert_eq!(client.ask("FLUSHALL"), "OK");
        client.ask("HELLO 3");
        for piece in whole.chunks(piece_len) {
            client.stream.write_all(piece).unwrap();
        }
        client.send(&[b"QUIT"]);
        let mut replies = Vec::new();
        while let Some(reply) = client.receive() {
            replies.push(shown(&reply));
        }
        answers.push(replies);
    }
    assert!(answers[0].len() > 15, "{:?}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

fn announced_lengths_cost_nothing() {
    let process = Process::start(&[]);
    let mut control = process.connect();
    let used = |control: &mut Client<TcpStream>| -> u64 {
        let info = control.ask("INFO memory");
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse().unwrap()
    };
    let before = used(&mut control);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = process.connect();
        client.stream.write_all(b"*1000000\r\n$3\r\nSET\r\n$500000000\r\nx").unwrap();
        held.push(client);
    }
    process::eventually("all announcements have arrived", || {
        control.ask("CLIENT LIST").lines().filter(|line| !line.contains(" qbuf=0 ")).count() == 20
    });
    let after = used(&mut control);
    assert!(after < before + 64 * 1024 * 1024, "{before} bytes became {after}");
}
