//! Connections that come, go, are killed and change threads while others work: no reply may be lost, come twice or
//! go to somebody else, and nothing may be left behind.
//!
//! Short by default: `WARMLINE_TEST_SCALE` multiplies the time, `WARMLINE_SOAK_MINUTES` sets it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod process;

use process::{Client, PATIENCE, Process, encode, eventually, shown};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::response::Value;

const WORKERS: u64 = 6;
const VICTIMS: u64 = 3;
const THREADS_MAX: u64 = 5;
const DURATION: Duration = Duration::from_secs(4);

fn duration() -> Duration {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok());
    match number("WARMLINE_SOAK_MINUTES") {
        Some(minutes) => Duration::from_secs_f64(minutes * 60.0),
        None => DURATION.mul_f64(number("WARMLINE_TEST_SCALE").unwrap_or(1.0)),
    }
}

/// A small generator, so that a run follows from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Ends the work when it is dropped, be it by a panic: otherwise a test that fails would go on for ever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Connects over TCP or the Unix socket, by chance.
fn with_any_client(process: &Process, dice: &mut Dice, work: &mut dyn FnMut(&mut dyn Wire, &mut Dice)) {
    if dice.below(2) == 0 {
        return work(&mut process.connect(), dice);
    }
    let stream = UnixStream::connect(process.directory.join("soak.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    work(&mut Client::new(stream), dice);
}

trait Wire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    fn reply(&mut self) -> Option<Value>;
}

impl<S: std::io::Read + Write> Wire for Client<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn reply(&mut self) -> Option<Value> {
        self.receive()
    }
}

fn text(value: Option<Value>) -> String {
    shown(&value.expect("the server answers"))
}

/// Pipelines whose every reply is known beforehand; returns how many increments were answered.
fn pipelines(client: &mut dyn Wire, dice: &mut Dice, worker: u64, counted: &mut u64) {
    for _ in 0..1 + dice.below(8) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..1 + dice.below(200) {
            let key = format!("worker:{worker}:{}", dice.below(1000));
            match dice.below(5) {
                0 | 1 => {
                    *counted += 1;
                    bytes.extend(encode(&[b"INCR", format!("count:{worker}").as_bytes()]));
                    expected.push(counted.to_string());
                }
                2 => {
                    let value =
                        format!("{worker}:{}", dice.below(1 << 30)).repeat(1 + dice.below(20) as usize);
                    bytes.extend(encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
                    bytes.extend(encode(&[b"GET", key.as_bytes()]));
                    expected.extend(["OK".to_owned(), value]);
                }
                3 if dice.below(50) == 0 => {
                    let value = vec![b'a' + worker as u8; 200_000 + dice.below(300_000) as usize];
                    bytes.extend(encode(&[b"ECHO", &value]));
                    expected.push(String::from_utf8(value).unwrap());
                }
                _ => {
                    let word = dice.below(1 << 40).to_string();
                    bytes.extend(encode(&[b"ECHO", word.as_bytes()]));
                    expected.push(word);
                }
            }
        }
        // In pieces, so that requests are cut anywhere.
        let (first, second) = bytes.split_at(dice.below(bytes.len() as u64) as usize);
        client.write(first).unwrap();
        if dice.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(dice.below(3)));
        }
        client.write(second).unwrap();
        for expected in expected {
            assert_eq!(text(client.reply()), expected);
        }
    }
}

/// Waits for what it pushes itself over another connection, with requests behind the one that waits.
fn waiting(client: &mut dyn Wire, dice: &mut Dice, process: &Process, worker: u64) {
    let list = format!("list:{worker}");
    let mut bytes = encode(&[b"BLPOP", list.as_bytes(), b"0"]);
    bytes.extend(encode(&[b"ECHO", b"behind"]));
    client.write(&bytes).unwrap();
    std::thread::sleep(Duration::from_millis(dice.below(5)));
    assert_eq!(process.connect().ask(&format!("RPUSH {list} x")), "1");
    assert_eq!(text(client.reply()), format!("[{list} x]"));
    assert_eq!(text(client.reply()), "behind");
}

fn work(process: &Process, worker: u64, goes_on: &AtomicBool, seed: u64) -> u64 {
    let (mut dice, mut counted) = (Dice(seed + worker), 0);
    while goes_on.load(Ordering::Relaxed) {
        with_any_client(process, &mut dice, &mut |client, dice| {
            pipelines(client, dice, worker, &mut counted);
            if dice.below(4) == 0 {
                waiting(client, dice, process, worker);
            }
        });
    }
    counted
}

/// A client that may be killed at any time: until then, what it gets is right.
fn be_killed(process: &Process, ids: &Mutex<Vec<String>>, goes_on: &AtomicBool, seed: u64) -> u64 {
    let (mut dice, mut deaths) = (Dice(seed), 0);
    while goes_on.load(Ordering::Relaxed) {
        let mut client = process.connect();
        ids.lock().unwrap().push(client.ask("CLIENT ID"));
        while goes_on.load(Ordering::Relaxed) {
            let count = 1 + dice.below(500);
            let bytes: Vec<u8> =
                (0..count).flat_map(|n| encode(&[b"ECHO", n.to_string().as_bytes()])).collect();
            if client.stream.write_all(&bytes).is_err() {
                break;
            }
            let answered = (0..count).take_while(|n| match client.receive() {
                Some(reply) => {
                    assert_eq!(shown(&reply), n.to_string());
                    true
                }
                None => false,
            });
            if (answered.count() as u64) < count {
                break;
            }
        }
        deaths += 1;
    }
    deaths
}

/// Subscribers get every message in order, on any thread.
fn subscribe(process: &Process, goes_on: &AtomicBool, published: &AtomicU64) -> u64 {
    let mut subscriber = process.connect();
    assert_eq!(subscriber.ask("SUBSCRIBE news"), "[subscribe news 1]");
    let mut publisher = process.connect();
    let mut received = 0;
    while goes_on.load(Ordering::Relaxed) {
        let burst = 1 + received % 40;
        let bytes: Vec<u8> = (0..burst)
            .flat_map(|n| encode(&[b"PUBLISH", b"news", (received + n).to_string().as_bytes()]))
            .collect();
        publisher.stream.write_all(&bytes).unwrap();
        for n in 0..burst {
            assert_eq!(shown(&subscriber.receive().unwrap()), format!("[message news {}]", received + n));
        }
        for _ in 0..burst {
            assert_eq!(shown(&publisher.receive().unwrap()), "1");
        }
        received += burst;
        published.store(received, Ordering::Relaxed);
    }
    received
}

/// Changes the number of threads and kills victims, while the others work.
fn disturb(process: &Process, ids: &Mutex<Vec<String>>, until: Instant, seed: u64) {
    let (mut control, mut dice) = (process.connect(), Dice(seed));
    while Instant::now() < until {
        let threads = 1 + dice.below(THREADS_MAX);
        assert_eq!(control.ask(&format!("CONFIG SET io-threads {threads}")), "OK");
        for _ in 0..dice.below(10) {
            std::thread::sleep(Duration::from_millis(dice.below(20)));
            if let Some(id) = ids.lock().unwrap().pop() {
                let killed = control.ask(&format!("CLIENT KILL ID {id}"));
                assert!(killed == "1" || killed == "0", "{killed}");
            }
            let info = control.ask("INFO everything");
            assert!(info.contains("io_threads_active"), "{info}");
            assert!(control.ask("CLIENT LIST").contains("io-thread="));
        }
    }
}

fn used_memory(client: &mut Client<TcpStream>) -> u64 {
    let info = client.ask("INFO memory");
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn nothing_is_lost_while_connections_and_threads_come_and_go() {
    let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    println!("seed {seed}");
    let process = Process::start(&["--unixsocket", "soak.sock", "--io-threads", "3"]);
    let before_bytes = used_memory(&mut process.connect());
    let until = Instant::now() + duration();
    let (goes_on, published, ids) = (AtomicBool::new(true), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (goes_on, published, ids, process) = (&goes_on, &published, &ids, &process);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(process, worker, goes_on, seed))).collect();
        let victims: Vec<_> = (0..VICTIMS)
            .map(|victim| scope.spawn(move || be_killed(process, ids, goes_on, seed ^ victim)))
            .collect();
        let listener = scope.spawn(move || subscribe(process, goes_on, published));
        let stop = Stop(goes_on);
        disturb(process, ids, until, seed);
        drop(stop);
        let mut client = process.connect();
        for (worker, handle) in workers.into_iter().enumerate() {
            let counted = handle.join().unwrap();
            assert!(counted > 0);
            assert_eq!(client.ask(&format!("GET count:{worker}")), counted.to_string());
        }
        assert!(victims.into_iter().map(|victim| victim.join().unwrap()).sum::<u64>() > 0);
        assert!(listener.join().unwrap() > 0);
    });
    let mut client = process.connect();
    assert_eq!(client.ask("FLUSHALL"), "OK");
    eventually("every connection is forgotten", || client.ask("CLIENT LIST").lines().count() == 1);
    assert_eq!(client.ask("CONFIG SET io-threads 1"), "OK");
    eventually("memory is back where it was", || used_memory(&mut client) < before_bytes + 4 * 1024 * 1024);
}

#[test]
fn who_has_half_closed_gets_every_reply_while_threads_come_and_go() {
    const ROUNDS: usize = 30;
    const CLIENTS: usize = 10;
    const REQUESTS: usize = 200;
    let process = Process::start(&[]);
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _stop = Stop(&goes_on);
        let (process, goes_on) = (&process, &goes_on);
        scope.spawn(move || {
            let mut control = process.connect();
            for threads in [4, 2, 3, 1].into_iter().cycle().take_while(|_| goes_on.load(Ordering::Relaxed)) {
                assert_eq!(control.ask(&format!("CONFIG SET io-threads {threads}")), "OK");
            }
        });
        for _ in 0..ROUNDS {
            let mut clients: Vec<_> = (0..CLIENTS).map(|_| process.connect()).collect();
            for client in &mut clients {
                client.stream.write_all(&b"PING\r\n".repeat(REQUESTS)).unwrap();
                client.stream.shutdown(Shutdown::Write).unwrap();
            }
            for client in &mut clients {
                let mut replies = Vec::new();
                client.stream.read_to_end(&mut replies).unwrap();
                assert_eq!(replies.len(), b"+PONG\r\n".len() * REQUESTS);
            }
        }
    });
}

/// How many connections each thread has.
fn places(client: &mut Client<TcpStream>) -> Vec<usize> {
    let list = client.ask("CLIENT LIST");
    let place = |line: &str| line.rsplit_once("io-thread=").unwrap().1.trim().parse().unwrap();
    let mut connections = vec![0; 5];
    list.lines().map(place).for_each(|thread: usize| connections[thread] += 1);
    connections
}

#[test]
fn the_executor_takes_all_connections_back_when_it_has_time_for_them() {
    let process = Process::start(&["--io-threads", "4"]);
    let mut clients: Vec<_> = (0..16).map(|_| process.connect()).collect();
    eventually("each thread has its share", || places(&mut clients[0])[..4].iter().all(|&own| own >= 3));
    assert_eq!(clients[0].ask("CONFIG SET io-threads-always-active no"), "OK");
    eventually("the executor has all", || {
        clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
        places(&mut clients[0])[0] == 16
    });
    clients.extend((0..4).map(|_| process.connect()));
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    assert_eq!(places(&mut clients[0])[0], 20, "new ones come to it at once");
    assert_eq!(clients[0].ask("CONFIG SET io-threads-always-active yes"), "OK");
    let newest = process.connect();
    eventually("threads are used again", || places(&mut clients[0])[1..].iter().sum::<usize>() > 0);
    drop(newest);
}

#[test]
fn connections_are_spread_and_moved_as_the_number_of_threads_changes() {
    let process = Process::start(&["--io-threads", "4"]);
    let mut clients: Vec<_> = (0..16).map(|_| process.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    eventually("each thread has its share", || {
        places(&mut clients[0])[..4].iter().all(|&connections| (3..=5).contains(&connections))
    });
    assert!(clients[0].ask("INFO server").contains("io_threads_active:1"));
    assert_eq!(clients[0].ask("CONFIG SET io-threads 2"), "OK");
    eventually("two threads have all", || {
        let places = places(&mut clients[0]);
        places[0] + places[1] == 16 && places[0] > 0 && places[1] > 0
    });
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    assert_eq!(clients[0].ask("CONFIG SET io-threads 1"), "OK");
    eventually("the executor has all", || places(&mut clients[0])[0] == 16);
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    assert!(clients[0].ask("INFO server").contains("io_threads_active:0"));
    let stats = clients[0].ask("INFO stats");
    assert!(!stats.contains("io_threaded_reads_processed:0\r"), "{stats}");
}

/// The least memory in use within a while: a thread that has been asked to end holds its queues until it has.
fn least_used_memory(client: &mut Client<TcpStream>) -> u64 {
    let figures = (0..100).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        used_memory(client)
    });
    figures.min().expect("the range is not empty")
}

#[test]
fn threads_that_come_and_go_leave_nothing_in_the_figures_of_memory() {
    let process = Process::start(&[]);
    let mut client = process.connect();
    let rounds_of_changes = |client: &mut Client<TcpStream>| {
        for threads in [4, 1].into_iter().cycle().take(100) {
            assert_eq!(client.ask(&format!("CONFIG SET io-threads {threads}")), "OK");
        }
    };
    // Tables that grow once are no leak: what leaks does so in every series.
    let mut figures = vec![least_used_memory(&mut client)];
    let has_settled = (0..6).any(|_| {
        rounds_of_changes(&mut client);
        figures.push(least_used_memory(&mut client));
        figures[figures.len() - 1] < figures[figures.len() - 2] + 4096
    });
    assert!(has_settled, "bytes in use after each series: {figures:?}");
}
