//! Data survives: servers in processes of their own are killed, their files torn, and what was acknowledged must be
//! there when they start again.
//!
//! ```text
//! WARMLINE_TEST_SCALE=40 cargo test -p warmline-server --test persistence            a long run
//! VALKEY_SERVER=path cargo test -p warmline-server --test persistence -- --ignored   files cross with a reference
//! ```
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod process;

use process::{Client, PATIENCE, Process, free_port};
use std::collections::HashMap;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn scale() -> usize {
    std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A directory for files that outlive servers.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warmline-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    fn increment(&self) -> PathBuf {
        self.0.join("appendonlydir/appendonly.aof.1.incr.aof")
    }

    fn start(&self, options: &[&str]) -> Process {
        let fixed = ["--enable-debug-command", "yes", "--dir", self.0.to_str().unwrap()];
        Process::start(&[&fixed, options].concat())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Asks until the data is loaded.
fn loaded(server: &Process) -> Client<TcpStream> {
    let mut client = server.connect();
    process::eventually("loading", || client.ask("PING") == "PONG");
    client
}

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

#[test]
fn no_acknowledged_write_is_lost_and_none_half_applied() {
    let files = Files::new("kills");
    let (mut sent, mut acknowledged) = (HashMap::<String, u64>::new(), HashMap::<String, u64>::new());
    let mut counter: u64 = 0;
    for kill in 0..5 * scale() as u64 {
        let mut server = files.start(&ALWAYS);
        let mut client = loaded(&server);
        for (key, last) in &mut sent {
            let value: u64 = client.ask(&format!("GET {key}")).parse().unwrap_or(0);
            let listed: u64 = client.ask(&format!("LINDEX list:{key} -1")).parse().unwrap_or(0);
            assert_eq!(value, listed, "a transaction is whole or not there");
            let least = acknowledged.get(key).copied().unwrap_or(0);
            assert!((least..=*last).contains(&value), "{key}: {least} <= {value} <= {last}");
            acknowledged.insert(key.clone(), value);
        }
        let until = Instant::now() + Duration::from_millis(20 + kill * 37 % 100);
        client.ask("BGREWRITEAOF");
        while Instant::now() < until {
            counter += 1;
            let key = format!("key{}", counter % 20);
            sent.insert(key.clone(), counter);
            client.ask("MULTI");
            client.ask(&format!("SET {key} {counter}"));
            client.ask(&format!("RPUSH list:{key} {counter}"));
            client.ask("EXEC");
            acknowledged.insert(key, counter);
        }
        // One more is under way when the end comes.
        counter += 1;
        let (key, value) = (format!("key{}", counter % 20), counter.to_string());
        sent.insert(key.clone(), counter);
        let list = format!("list:{key}");
        for words in [&["MULTI"][..], &["SET", &key, &value], &["RPUSH", &list, &value], &["EXEC"]] {
            client.send(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
        server.signal(rustix::process::Signal::KILL);
        server.wait();
    }
}

#[test]
fn a_torn_file_is_read_up_to_where_it_is_whole() {
    let files = Files::new("torn");
    {
        let server = files.start(&ALWAYS);
        let mut client = loaded(&server);
        for n in 0..20 {
            client.ask(&format!("SET key {n}"));
        }
    }
    let whole = fs::read(files.increment()).unwrap();
    let step = (whole.len() / (12 * scale())).max(1);
    for len in (0..whole.len()).step_by(step) {
        fs::write(files.increment(), &whole[..len]).unwrap();
        let server = files.start(&ALWAYS);
        let value = loaded(&server).ask("GET key");
        let kept = fs::read(files.increment()).unwrap();
        assert!(whole.starts_with(&kept) && kept.len() <= len);
        let text = String::from_utf8(kept).unwrap();
        let last = text.rsplit("\r\n").nth(1).filter(|_| text.contains("SET")).unwrap_or("Null");
        assert_eq!(value, last, "cut to {len}");
    }
}

#[test]
fn two_servers_do_not_append_to_one_file() {
    let files = Files::new("lock");
    let server = files.start(&ALWAYS);
    loaded(&server);
    let second = Command::new(env!("CARGO_BIN_EXE_warmline-server"))
        .args(["--port", &free_port().to_string(), "--dir", files.0.to_str().unwrap()])
        .args(ALWAYS)
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("Another process uses the append-only file"));
}

/// Commands that make values of every type and encoding.
fn fill(client: &mut Client<TcpStream>) {
    for count in [1, 100, 129, 600] {
        for n in 0..count {
            let text = format!("{n}:{}", "x".repeat(n % 90));
            for command in [
                format!("SET string:{count}:{n} {text}"),
                format!("SET integer:{count}:{n} {}", n * 70_001),
                format!("RPUSH list:{count} {text}"),
                format!("SADD set:{count} {text}"),
                format!("SADD integers:{count} {}", n * 3),
                format!("ZADD sorted:{count} {}.5 {text}", n % 7),
                format!("HSET hash:{count} {text} {n}"),
                format!("XADD stream:{count} {}-1 field {text}", n + 1),
            ] {
                client.ask(&command);
            }
        }
        client.ask(&format!("HSETEX expiring:{count} PXAT 4000000000000 FIELDS 1 field value"));
        client.ask(&format!("XGROUP CREATE stream:{count} group 0"));
        client.ask(&format!("XREADGROUP GROUP group someone COUNT 5 STREAMS stream:{count} >"));
        client.ask(&format!("EXPIREAT list:{count} 4000000000"));
    }
}

/// A reference server; killed when this is dropped.
struct Reference(Child, u16);

impl Reference {
    fn start(program: &str, directory: &Path) -> Self {
        let port = free_port();
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--save", "", "--enable-debug-command", "yes", "--dir"])
            .arg(directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Reference(child, port)
    }

    fn connect(&self) -> Client<TcpStream> {
        let started = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.1)) {
                let mut client = Client::new(stream);
                process::eventually("loading", || client.ask("PING") == "PONG");
                return client;
            }
            assert!(started.elapsed() < PATIENCE, "the reference does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs a reference server: VALKEY_SERVER"]
fn files_cross_both_ways() {
    let program = std::env::var("VALKEY_SERVER").expect("VALKEY_SERVER names the reference's program");
    let files = Files::new("cross");
    let reference = Reference::start(&program, &files.0);
    let mut theirs = reference.connect();
    fill(&mut theirs);
    assert_eq!(theirs.ask("SAVE"), "OK");
    let server = files.start(&[]);
    let mut ours = loaded(&server);
    assert_eq!(ours.ask("DEBUG DIGEST"), theirs.ask("DEBUG DIGEST"));
    assert_eq!(ours.ask("SAVE"), "OK");
    let second = Reference::start(&program, &files.0);
    assert_eq!(second.connect().ask("DEBUG DIGEST"), theirs.ask("DEBUG DIGEST"));
}
