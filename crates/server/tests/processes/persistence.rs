//! Data survives: servers in processes of their own are killed, their files torn, and what was acknowledged must be
//! there when they start again.
//!
//! ```text
//! WARMLINE_TEST_SCALE=40 cargo test -p warmline-server --test processes persistence::                a long run
//! VALKEY_SERVER=path cargo test -p warmline-server --test processes persistence:: -- --ignored   files cross with a reference
//! ```

use crate::process::{self, Client, PATIENCE, Process, eventually, free_port, scale, shown};
use server::db::Db;
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{Loader, Snapshot, write_snapshot};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use structures::hash::HashSeed;

/// A directory for files that outlive servers.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warmline-persistence-{name}-{}", std::process::id()));
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
    eventually("loading", || client.ask("PING") == "PONG");
    client
}

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// What one client has sent and what has been acknowledged to it, by key. Values grow.
#[derive(Default)]
struct Written {
    sent: HashMap<String, u64>,
    acknowledged: HashMap<String, u64>,
    counter: u64,
}

impl Written {
    /// Writes transactions and single values until the server is gone.
    fn write(&mut self, client: &mut Client<TcpStream>, writer: usize) {
        loop {
            self.counter += 1;
            let value = self.counter.to_string();
            let key = format!("writer{writer}:key{}", self.counter % 20);
            let (list, plain) = (format!("list:{key}"), format!("plain:{key}"));
            let (key, list, plain, value) =
                (key.as_bytes(), list.as_bytes(), plain.as_bytes(), value.as_bytes());
            self.sent.insert(String::from_utf8(key.to_vec()).unwrap(), self.counter);
            let commands: [&[&[u8]]; 5] = [
                &[b"SET", plain, value],
                &[b"MULTI"],
                &[b"SET", key, value],
                &[b"RPUSH", list, value],
                &[b"EXEC"],
            ];
            if commands.iter().any(|words| client.try_ask(words).is_none()) {
                return;
            }
            self.acknowledged.insert(String::from_utf8(key.to_vec()).unwrap(), self.counter);
        }
    }

    /// Compares with what is there after a restart, which is what counts from now on.
    fn verify(&mut self, client: &mut Client<TcpStream>) {
        for (key, last) in &mut self.sent {
            let mut number = |command: String| client.ask(&command).parse().unwrap_or(0);
            let value: u64 = number(format!("GET {key}"));
            let listed: u64 = number(format!("LINDEX list:{key} -1"));
            let plain: u64 = number(format!("GET plain:{key}"));
            assert_eq!(value, listed, "a transaction is whole or not there");
            let least = self.acknowledged.get(key).copied().unwrap_or(0);
            assert!((least..=*last).contains(&value), "{key}: {least} <= {value} <= {last}");
            assert!((value..=*last).contains(&plain), "{key}: {value} <= {plain} <= {last}");
            self.acknowledged.insert(key.clone(), value);
        }
    }
}

#[test]
fn no_acknowledged_write_is_lost_and_none_half_applied() {
    const WRITERS: usize = 3;
    let files = Files::new("kills");
    let mut written: [Written; WRITERS] = std::array::from_fn(|_| Written::default());
    let kills = 5 * scale();
    for kill in 0..=kills {
        // The file is rewritten every few kilobytes, so that many kills fall into a rewrite.
        let growth = ["--auto-aof-rewrite-min-size", "8kb", "--auto-aof-rewrite-percentage", "50"];
        let mut server = files.start(&[&ALWAYS[..], &growth].concat());
        let mut client = loaded(&server);
        written.iter_mut().for_each(|written| written.verify(&mut client));
        if kill == kills {
            break;
        }
        if kill % 2 == 0 {
            client.ask("BGREWRITEAOF");
        }
        let delay = Duration::from_micros(5_000 + (kill as u64 * 7_919) % 90_000);
        std::thread::scope(|scope| {
            for (writer, written) in written.iter_mut().enumerate() {
                let mut client = server.connect();
                scope.spawn(move || written.write(&mut client, writer));
            }
            std::thread::sleep(delay);
            server.signal(rustix::process::Signal::KILL);
        });
        server.wait();
    }
    let rounds: u64 = written.iter().map(|written| written.counter).sum();
    println!("{kills} kills, {rounds} rounds of five commands");
    assert!(rounds > kills as u64);
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

/// Files of an append-only file, each the base or an increment, and whether a server starts on them.
const TORN: &[(&[&str], bool)] = &[
    (&["b SET a 1|SET b"], true),
    (&["b SET a 1|MULTI|SET b 2"], true),
    (&["b SET a 1|SET b", "i "], false),
    (&["b SET a 1|MULTI|SET b 2", "i "], false),
    (&["b SET a 1|\0\0\0\0", "i ", "i "], false),
    (&["b SET a 1|SET b", "i SET c 3"], false),
    (&["b ", "i SET a 1|SET b"], true),
    // So a crash leaves it that comes as a rewrite begins.
    (&["b ", "i SET a 1|SET b", "i "], true),
    (&["i SET a 1|SET b", "i ", "i "], true),
    (&["i SET a 1|SET b", "i SET c 3"], false),
];

/// The bytes of commands between `|`. A key without a value is a command torn in its middle; NULs stay as they are.
fn commands_of(text: &str) -> Vec<u8> {
    let command = |text: &str| match text.split(' ').map(str::as_bytes).collect::<Vec<_>>() {
        words if words == [b"SET".as_slice(), b"b"] => b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r".to_vec(),
        words if text.starts_with('\0') => words.concat(),
        words => process::encode(&words),
    };
    text.split('|').filter(|text| !text.is_empty()).flat_map(command).collect()
}

/// What is torn is cut where whole commands end if nothing stands behind it. A base was on disk as a whole before
/// anything was to stand behind it, be that empty.
#[test]
fn a_torn_end_is_cut_off_only_where_a_crash_can_have_left_it() {
    for (parts, starts) in TORN {
        let files = Files::new("torn-part");
        fs::create_dir_all(files.0.join("appendonlydir")).unwrap();
        let (mut manifest, mut torn) = (String::new(), None);
        for (number, part) in (1..).zip(*parts) {
            let (kind, text) = part.split_once(' ').unwrap();
            let name = format!("appendonly.aof.{number}.{}.aof", if kind == "b" { "base" } else { "incr" });
            let path = files.0.join("appendonlydir").join(&name);
            fs::write(&path, commands_of(text)).unwrap();
            torn = torn.or_else(|| text.contains('|').then_some(path));
            manifest += &format!("file {name} seq {number} type {kind}\n");
        }
        fs::write(files.0.join("appendonlydir/appendonly.aof.manifest"), manifest).unwrap();
        let (torn, whole) = (torn.unwrap(), commands_of("SET a 1"));
        let before = fs::read(&torn).unwrap();
        let refuses = ["--appendonly", "yes", "--aof-load-truncated", "no"];
        assert_eq!(loads(&files, &refuses), None, "{parts:?}");
        assert_eq!(fs::read(&torn).unwrap(), before, "{parts:?}");
        let loaded = loads(&files, &["--appendonly", "yes", "--enable-debug-command", "yes"]);
        assert_eq!(loaded.is_some(), *starts, "{parts:?}");
        let kept = fs::read(&torn).unwrap();
        assert_eq!(kept, if *starts { whole } else { before }, "{parts:?}");
    }
}

#[test]
fn a_transaction_that_begins_twice_is_loaded_whole() {
    let files = Files::new("nested");
    fs::create_dir_all(files.0.join("appendonlydir")).unwrap();
    let name = "appendonly.aof.1.incr.aof";
    fs::write(files.increment(), commands_of("MULTI|SET a 1|MULTI|SET c 2|EXEC|SET d 3")).unwrap();
    fs::write(files.0.join("appendonlydir/appendonly.aof.manifest"), format!("file {name} seq 1 type i\n"))
        .unwrap();
    let server = files.start(&ALWAYS);
    assert_eq!(loaded(&server).ask("MGET a c d"), "[1 2 3]");
}

/// A server on files that may be broken: it runs, or it has refused to start with an error.
fn start_on(files: &Files, options: &[&str]) -> Result<Process, String> {
    let port = free_port();
    let mut child = Command::new(process::program())
        .args(["--port", &port.to_string(), "--save", "", "--dir", files.0.to_str().unwrap()])
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(1), "it ends by itself, not by a signal nor a panic");
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            return Err(text);
        }
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(Process::adopt(child, port));
        }
        assert!(started.elapsed() < PATIENCE, "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A signature of what the server has loaded of what it finds; `None` if it refuses, and then it has logged why.
fn loads(files: &Files, options: &[&str]) -> Option<String> {
    match start_on(files, options) {
        Ok(mut server) => {
            let started = Instant::now();
            let met = match TcpStream::connect(("127.0.0.1", server.port)) {
                Ok(stream) => {
                    let mut client = Client::new(stream);
                    while let Some(reply) = client.try_ask(&[b"PING"]) {
                        if process::shown(&reply) == "PONG" {
                            return Some(client.ask("DEBUG DIGEST"));
                        }
                        assert!(started.elapsed() < PATIENCE, "it loads for ever");
                    }
                    format!("the connection was closed after {:?}", started.elapsed())
                }
                Err(error) => error.to_string(),
            };
            // It has listened while it was loading, and has met the error then.
            println!("a server that refuses its files: {met}");
            assert_eq!(server.wait().code(), Some(1), "it ends by itself, not by a signal nor a panic");
            None
        }
        Err(text) => {
            assert!(!text.is_empty() && !text.contains("panicked"), "{text}");
            None
        }
    }
}

/// A signature of what the commands of an append-only file make when a client sends them, as far as they can be read.
fn sent_by_a_client(client: &mut Client<TcpStream>, file: &[u8]) -> String {
    client.ask("FLUSHALL");
    let mut reader = wire::aof::Reader::new(file, 0);
    while let Ok(item) = reader.read() {
        match item {
            wire::aof::Item::Command(arguments) => {
                let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                client.try_ask(&arguments);
            }
            wire::aof::Item::End => break,
            wire::aof::Item::Timestamp(_) | wire::aof::Item::BytesBefore(_) | wire::aof::Item::Comment => {}
        }
    }
    // A transaction that has no end is not run.
    client.ask("RESET");
    client.ask("DEBUG DIGEST")
}

/// What is loaded is what the file says with that bit, to the last byte, and a file that is refused stays as it was.
#[test]
fn an_append_only_file_with_a_wrong_bit_is_loaded_as_it_is_or_refused() {
    const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
    let options = [&ALWAYS[..], &DEBUG].concat();
    let files = Files::new("flips");
    {
        let server = files.start(&ALWAYS);
        fill_some(&mut loaded(&server));
    }
    let whole = fs::read(files.increment()).unwrap();
    let other = Process::start(&DEBUG);
    let mut client = other.connect();
    let unbroken = sent_by_a_client(&mut client, &whole);
    assert_eq!(loads(&files, &options).as_ref(), Some(&unbroken));
    let mut random = structures::random::Random::new(7);
    let (mut changed, mut refused) = (0, 0);
    for _ in 0..16 * scale() {
        let mut broken = whole.clone();
        let bit = random.below(8 * whole.len() as u64) as usize;
        broken[bit / 8] ^= 1 << (bit % 8);
        fs::write(files.increment(), &broken).unwrap();
        match loads(&files, &options) {
            Some(digest) => {
                assert_eq!(digest, sent_by_a_client(&mut client, &broken), "bit {bit} of the file");
                changed += u64::from(digest != unbroken);
            }
            None => {
                assert_eq!(fs::read(files.increment()).unwrap(), broken, "bit {bit}");
                refused += 1;
            }
        }
    }
    println!("{changed} loaded with other data, {refused} refused");
    assert!(changed > 0 && refused > 0);
}

/// Some values of each type.
fn fill_some(client: &mut Client<TcpStream>) {
    for command in [
        "SET string value",
        "RPUSH list a 1 b",
        "SADD set a b 3",
        "ZADD sorted 1.5 a -inf b",
        "HSET hash f v",
        "HSETEX expiring PXAT 4000000000000 FIELDS 1 f v",
        "XADD stream 1-1 f v",
        "XGROUP CREATE stream group 0",
        "MULTI",
        "INCR number",
        "INCR number",
        "EXEC",
    ] {
        client.ask(command);
    }
}

/// What comes of loading a file in this process: nothing but an error, if it is not whole.
fn load_snapshot(bytes: &[u8], verify_checksum: bool) -> Option<Db> {
    let options = LoadOptions {
        strict: true,
        verify_checksum,
        drop_expired: false,
        replaces: false,
        keys_expected_max: 1000,
        key_delay_us: 0,
        now_ms: 0,
    };
    let mut db = Db::new(16, HashSeed::new(1, 2), 3);
    let mut loader = Loader::open(bytes, options).ok()?;
    loader.step(&mut db, &mut || false).ok()?.then_some(db)
}

fn snapshot_of(db: &Db) -> Vec<u8> {
    let snapshot = Snapshot { release: "9.1.0", compresses: true, checksummed: true, ..Snapshot::default() };
    write_snapshot(Vec::new(), db, &snapshot, &mut |_| ()).unwrap()
}

#[test]
fn a_snapshot_cut_anywhere_or_with_a_wrong_bit_is_refused() {
    let files = Files::new("snapshot");
    let server = files.start(&[]);
    let mut client = loaded(&server);
    fill(&mut client, 1 + scale().min(4));
    assert_eq!(client.ask("SAVE"), "OK");
    let whole = fs::read(files.0.join("dump.rdb")).unwrap();
    assert!(load_snapshot(&whole, true).is_some());
    // Loading what precedes the cut takes as long as it is long: not at every byte of a long file by default.
    for len in (0..whole.len()).step_by((whole.len() / (2000 * scale())).max(1)) {
        assert!(load_snapshot(&whole[..len], true).is_none(), "cut to {len}");
    }
    let mut random = structures::random::Random::new(11);
    for _ in 0..500 * scale() {
        let bit = random.below(8 * whole.len() as u64) as usize;
        let mut broken = whole.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        assert!(load_snapshot(&broken, true).is_none(), "the checksum sees bit {bit}");
        // Without it, what is accepted is sound data all the same, and is saved as what it is.
        if let Some(db) = load_snapshot(&broken, false) {
            db.check();
            let again = load_snapshot(&snapshot_of(&db), true).expect("what was saved can be loaded");
            again.check();
            assert_eq!(again.digest().text(), db.digest().text(), "bit {bit}");
        }
    }
}

/// A disk that is full for a while: a small file system of its own where the tests may mount one, otherwise a limit
/// to the size of files.
struct SmallDisk {
    files: Files,
    mounted: bool,
}

impl SmallDisk {
    fn new(name: &str) -> Self {
        let files = Files::new(name);
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&files.0).output();
        let mounted = mount.as_ref().is_ok_and(|output| output.status.success());
        if !mounted {
            println!(
                "no small file system could be mounted ({mount:?}): the size of files is limited instead"
            );
        }
        SmallDisk { files, mounted }
    }

    fn fill(&self, server: &Process) {
        if !self.mounted {
            return server.limit_file_bytes(Some(64));
        }
        let mut ballast = fs::File::create(self.files.0.join("ballast")).unwrap();
        while ballast.write_all(&[0; 4096]).is_ok() {}
        while ballast.write_all(&[0]).is_ok() {}
    }

    fn free(&self, server: &Process) {
        if !self.mounted {
            return server.limit_file_bytes(None);
        }
        fs::remove_file(self.files.0.join("ballast")).unwrap();
    }

    /// Names of files that should have been removed.
    fn leftovers(&self) -> Vec<String> {
        let directories = [self.files.0.clone(), self.files.0.join("appendonlydir")];
        let entries = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("temp-")).collect()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.files.0).status();
        }
    }
}

/// Writes until that fails; answers how many writes were acknowledged, and the error.
fn write_until_refused(client: &mut Client<TcpStream>) -> (u64, String) {
    let filler = "x".repeat(500);
    for count in 0.. {
        let number = (count + 1).to_string();
        let Some(reply) =
            client.try_ask(&[b"MSET", b"count", number.as_bytes(), b"filler", filler.as_bytes()])
        else {
            return (count, String::new());
        };
        let reply = process::shown(&reply);
        if reply != "OK" {
            return (count, reply);
        }
        assert!(count < 100_000, "the disk is never full");
    }
    unreachable!("the loop ends by itself")
}

/// Waits for the end of all rewrites, asked for or under way.
fn rewritten(client: &mut Client<TcpStream>) {
    eventually("a rewrite", || {
        let info = client.ask("INFO persistence");
        ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_bgrewrite_status:ok"]
            .iter()
            .all(|line| info.contains(line))
    });
}

/// How the increment came about that is written to when the disk is full.
#[derive(Clone, Copy, Debug)]
enum Increment {
    AtStart,
    ByRewrite,
    BySwitchingOn,
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let increments = [Increment::AtStart, Increment::ByRewrite, Increment::BySwitchingOn];
    for (policy, increment) in ["everysec", "no"].into_iter().flat_map(|p| increments.map(|i| (p, i))) {
        let disk = SmallDisk::new(&format!("full-{policy}-{increment:?}"));
        let options = ["--appendonly", "yes", "--appendfsync", policy];
        let server = match increment {
            Increment::BySwitchingOn => disk.files.start(&["--appendfsync", policy]),
            Increment::AtStart | Increment::ByRewrite => disk.files.start(&options),
        };
        let mut client = loaded(&server);
        client.ask("SET before full");
        match increment {
            Increment::AtStart => {}
            Increment::ByRewrite => drop(client.ask("BGREWRITEAOF")),
            Increment::BySwitchingOn => assert_eq!(client.ask("CONFIG SET appendonly yes"), "OK"),
        }
        rewritten(&mut client);
        disk.fill(&server);
        let (acknowledged, error) = write_until_refused(&mut client);
        assert!(error.starts_with("MISCONF Errors writing to the AOF file: "), "{policy}: {error}");
        assert_eq!(client.ask("GET before"), "full");
        assert!(client.ask("PING").starts_with("MISCONF"));
        assert!(client.ask("INFO persistence").contains("aof_last_write_status:err"));
        client.ask("BGREWRITEAOF");
        assert!(client.ask("SHUTDOWN").starts_with("ERR Errors trying to SHUTDOWN"), "it would lose data");
        disk.free(&server);
        eventually("room", || client.ask("SET after full") == "OK");
        assert!(client.ask("INFO persistence").contains("aof_last_write_status:ok"));
        assert_eq!(client.ask("GET count"), acknowledged.to_string(), "{policy}");
        drop((client, server));
        let server = disk.files.start(&options);
        let mut client = loaded(&server);
        let values = client.ask("MGET count before after");
        assert_eq!(values, format!("[{acknowledged} full full]"), "{policy}, {increment:?}");
        assert_eq!(disk.leftovers(), [""; 0]);
    }
}

#[test]
fn a_full_disk_ends_a_server_that_promised_to_write_always() {
    let disk = SmallDisk::new("full-always");
    let mut server = disk.files.start(&ALWAYS);
    let mut client = loaded(&server);
    client.ask("SET before full");
    disk.fill(&server);
    let (acknowledged, error) = write_until_refused(&mut client);
    assert_eq!(error, "", "no reply is sent to a write that is not on disk");
    assert_eq!(server.wait().code(), Some(1));
    if disk.mounted {
        disk.free(&server);
    }
    let server = disk.files.start(&ALWAYS);
    let mut client = loaded(&server);
    assert_eq!(client.ask("GET before"), "full");
    let count: u64 = client.ask("GET count").parse().unwrap_or(0);
    assert!((acknowledged..=acknowledged + 1).contains(&count), "{acknowledged} acknowledged, {count} there");
}

#[test]
fn a_save_that_fails_stops_writes_and_leaves_nothing_behind() {
    let disk = SmallDisk::new("full-save");
    let server = disk.files.start(&["--save", "3600 1"]);
    let mut client = loaded(&server);
    client.ask("DEBUG POPULATE 100 key 100");
    assert_eq!(client.ask("SAVE"), "OK");
    let saved = fs::read(disk.files.0.join("dump.rdb")).unwrap();
    disk.fill(&server);
    assert!(client.ask("SAVE").starts_with("ERR"));
    client.ask("BGSAVE");
    eventually("the failure", || client.ask("INFO persistence").contains("rdb_last_bgsave_status:err"));
    assert!(client.ask("SET key value").starts_with("MISCONF Valkey is configured to save RDB snapshots"));
    assert!(client.ask("EVAL return(redis.call('set','key','value')) 1 key").starts_with("MISCONF"));
    assert_eq!(client.ask("EXISTS key"), "0");
    assert_eq!(disk.leftovers(), [""; 0]);
    assert_eq!(fs::read(disk.files.0.join("dump.rdb")).unwrap(), saved, "the old file stays as it was");
    client.ask("CONFIG SET stop-writes-on-bgsave-error no");
    assert_eq!(client.ask("SET key value"), "OK");
    client.ask("CONFIG SET stop-writes-on-bgsave-error yes");
    disk.free(&server);
    client.ask("BGSAVE");
    eventually("a save", || client.ask("SET key value") == "OK");
}

#[test]
fn a_rewrite_that_finds_no_room_loses_nothing() {
    let disk = SmallDisk::new("full-rewrite");
    let options = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = disk.files.start(&options);
    let mut client = loaded(&server);
    for n in 0..100 {
        client.ask(&format!("SET key{n} {n}"));
    }
    disk.fill(&server);
    client.ask("BGREWRITEAOF");
    eventually("the failure", || client.ask("INFO persistence").contains("aof_last_bgrewrite_status:err"));
    disk.free(&server);
    eventually("room", || client.ask("SET after full") == "OK");
    assert_eq!(disk.leftovers(), [""; 0]);
    drop((client, server));
    let server = disk.files.start(&options);
    let mut client = loaded(&server);
    assert_eq!(client.ask("DBSIZE"), "101");
    client.ask("BGREWRITEAOF");
    eventually("a rewrite", || {
        let info = client.ask("INFO persistence");
        info.contains("aof_last_bgrewrite_status:ok") && info.contains("aof_rewrite_in_progress:0")
    });
    drop((client, server));
    let server = disk.files.start(&options);
    assert_eq!(loaded(&server).ask("DBSIZE"), "101");
}

#[test]
fn scripts_in_old_append_only_files_are_run() {
    let files = Files::new("scripts");
    let mut log = process::encode(&[b"SELECT", b"0"]);
    log.extend(process::encode(&[b"EVAL", b"redis.call('set',KEYS[1],'100')", b"1", b"foo"]));
    log.extend(process::encode(&[b"MULTI"]));
    log.extend(process::encode(&[b"EVAL", b"redis.call('incr',KEYS[1])", b"1", b"foo"]));
    log.extend(process::encode(&[b"EXEC"]));
    let slow = "redis.call('incr',KEYS[1]); for i=1,300000 do redis.call('ping') end";
    log.extend(process::encode(&[b"EVAL", slow.as_bytes(), b"1", b"foo"]));
    fs::write(files.0.join("appendonly.aof"), log).unwrap();
    let server = files.start(&["--appendonly", "yes", "--busy-reply-threshold", "1"]);
    assert_eq!(loaded(&server).ask("GET foo"), "102");
}

/// Their writes were accepted once. A server that would accept none of a client today loads them all the same.
#[test]
fn scripts_in_append_only_files_write_where_clients_may_not() {
    for options in [&["--replicaof", "127.0.0.1 1"][..], &["--min-replicas-to-write", "1"]] {
        let files = Files::new("scripts-refused");
        let mut log = process::encode(&[b"SELECT", b"0"]);
        log.extend(process::encode(&[b"EVAL", b"redis.call('set',KEYS[1],'100')", b"1", b"foo"]));
        fs::write(files.0.join("appendonly.aof"), log).unwrap();
        let server = files.start(&[&["--appendonly", "yes"], options].concat());
        let mut client = loaded(&server);
        assert_eq!(client.ask("GET foo"), "100", "{options:?}");
        let refused = client.ask("EVAL return(redis.call('set','key','value')) 1 key");
        assert!(refused.starts_with("READONLY") || refused.starts_with("NOREPLICAS"), "{refused}");
    }
}

#[test]
fn clients_are_answered_while_a_slow_script_is_loaded() {
    let files = Files::new("slow-script");
    let server =
        files.start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--busy-reply-threshold", "1"]);
    let (mut asking, mut other) = (loaded(&server), loaded(&server));
    let name = fs::read_dir(files.0.join("appendonlydir"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().ends_with(".incr.aof"))
        .unwrap();
    let slow =
        "redis.call('incr',KEYS[1]); for i=1,3000000 do redis.call('ping') end; redis.call('incr',KEYS[1])";
    let mut log = process::encode(&[b"SELECT", b"0"]);
    log.extend(process::encode(&[b"MULTI"]));
    log.extend(process::encode(&[b"EVAL", slow.as_bytes(), b"1", b"x"]));
    log.extend(process::encode(&[b"INCR", b"x"]));
    log.extend(process::encode(&[b"EXEC"]));
    log.extend(process::encode(&[b"RPUSH", b"list", b"value"]));
    fs::write(name, log).unwrap();

    let mut waiting = loaded(&server);
    waiting.send(&[b"BLPOP", b"list", b"0"]);
    eventually("it waits", || other.ask("INFO clients").contains("blocked_clients:1"));
    asking.send(&[b"DEBUG", b"LOADAOF"]);
    eventually("loading begins", || other.ask("GET x").starts_with("LOADING"));
    // What is allowed while data is loaded is still not allowed beside a slow script.
    assert!(other.ask("INFO persistence").starts_with("BUSY"));
    assert!(other.ask("DEBUG LOADAOF").starts_with("BUSY"));
    assert_eq!(shown(&asking.receive().unwrap()), "OK");
    assert_eq!(other.ask("GET x"), "3");
    assert_eq!(shown(&waiting.receive().unwrap()), "[list value]");

    // The client may disconnect, and no other runs within a transaction.
    asking.send(&[b"DEBUG", b"LOADAOF"]);
    eventually("loading begins anew", || other.ask("GET x").starts_with("LOADING"));
    drop(asking);
    eventually("it ends", || other.ask("GET x") == "3");
    other.ask("MULTI");
    other.ask("DEBUG LOADAOF");
    other.ask("GET x");
    assert_eq!(other.ask("EXEC"), "[OK 3]");
    // What the waiting client was given has gone from the file too.
    assert_eq!(other.ask("LLEN list"), "0");
}

fn changes_since_save(client: &mut Client<TcpStream>) -> Option<u64> {
    let info = client.ask("INFO persistence");
    info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")?.parse().ok())
}

#[test]
fn what_was_loaded_anew_is_no_change() {
    let files = Files::new("loaded-anew");
    let server = files.start(&["--appendonly", "yes", "--save", ""]);
    let mut client = loaded(&server);
    client.ask("SET key value");
    client.ask("RPUSH list a b c");
    assert_eq!(changes_since_save(&mut client), Some(4));
    let digest = client.ask("DEBUG DIGEST");
    client.ask("CONFIG SET appendonly no");
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
    assert_eq!(changes_since_save(&mut client), Some(0));
}

#[test]
fn what_was_loaded_anew_is_no_use() {
    let files = Files::new("no-use");
    let server = files.start(&["--appendonly", "yes", "--save", ""]);
    let mut client = loaded(&server);
    client.ask("SET key value");
    assert!(client.ask("HOTKEYS TOP").contains("key"));
    client.ask("CONFIG SET appendonly no");
    client.ask("CONFIG SET hot-keys no");
    client.ask("CONFIG SET hot-keys yes");
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("HOTKEYS TOP"), "[]");
    client.ask("GET key");
    assert!(client.ask("HOTKEYS TOP").contains("key"));
}

#[test]
fn what_flushall_has_saved_is_no_change() {
    for appendonly in ["no", "yes"] {
        let files = Files::new("flushed");
        let server = files.start(&["--appendonly", appendonly, "--save", "3600 100000"]);
        let mut client = loaded(&server);
        client.ask("SET key value");
        client.ask("FLUSHALL");
        assert_eq!(changes_since_save(&mut client), Some(0));
        client.ask("CONFIG SET save ");
        client.ask("SET key value");
        client.ask("FLUSHALL");
        assert_eq!(changes_since_save(&mut client), Some(2));
    }
}

/// Until the first base is complete, the files of before are what counts, and what is loaded.
#[test]
fn loading_anew_before_the_first_base_loads_the_files_of_before() {
    for way in ["a snapshot", "a rewrite"] {
        let files = Files::new("loaded-before-base");
        let mut server = files.start(&["--appendonly", "yes", "--save", ""]);
        let mut client = loaded(&server);
        client.ask("SET kept 1");
        client.ask("CONFIG SET appendonly no rdb-key-save-delay 100000000");
        client.ask("SET lost 2");
        if way == "a snapshot" {
            assert_eq!(client.ask("BGSAVE"), "Background saving started");
        }
        assert_eq!(client.ask("CONFIG SET appendonly yes"), "OK");
        // The child that has begun is slow, and the one that the cron begins after the load, at once or later, is not.
        client.ask("CONFIG SET rdb-key-save-delay 0");
        client.ask("SET lost-too 3");
        assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
        assert_eq!(client.ask("EXISTS kept lost lost-too"), "1", "{way}");
        assert_eq!(client.ask("SET later 4"), "OK");
        if way == "a snapshot" {
            client.ask("BGSAVE CANCEL");
        }
        eventually("the first base", || {
            let info = client.ask("INFO persistence");
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        let server = files.start(&["--appendonly", "yes", "--save", ""]);
        let mut client = loaded(&server);
        assert_eq!(client.ask("EXISTS kept lost lost-too later"), "2", "{way}");
    }
}

/// A rewrite that began before the file was switched on lacks what has changed in between.
#[test]
fn switching_on_begins_a_rewrite_of_its_own() {
    let files = Files::new("switched-on");
    let mut server = files.start(&["--rdb-key-save-delay", "5000"]);
    let mut client = loaded(&server);
    client.ask("DEBUG POPULATE 200");
    assert_eq!(client.ask("BGREWRITEAOF"), "Background append only file rewriting started");
    assert_eq!(client.ask("SET between 1"), "OK");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "OK");
    assert_eq!(client.ask("SET behind 1"), "OK");
    // From now on it counts.
    eventually("a manifest", || files.0.join("appendonlydir/appendonly.aof.manifest").exists());
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    let server = files.start(&ALWAYS);
    assert_eq!(loaded(&server).ask("MGET between behind"), "[1 1]");
}

/// Expiry while recording is off does not count as a change.
#[test]
fn the_first_write_behind_an_expiry_reaches_a_file_just_switched_on() {
    let files = Files::new("first-write");
    let mut server = files.start(&["--appendfsync", "always"]);
    let mut client = loaded(&server);
    assert_eq!(client.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
    client.ask("SET short 1 PX 1");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(client.ask("GET short"), "Null");
    let switch_on = process::encode(&[b"CONFIG", b"SET", b"appendonly", b"yes"]);
    let requests = [switch_on, process::encode(&[b"SET", b"first", b"1"])].concat();
    client.stream.write_all(&requests).unwrap();
    assert_eq!(
        (shown(&client.receive().unwrap()), shown(&client.receive().unwrap())),
        ("OK".into(), "OK".into())
    );
    eventually("a manifest", || files.0.join("appendonlydir/appendonly.aof.manifest").exists());
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    let server = files.start(&ALWAYS);
    assert_eq!(loaded(&server).ask("GET first"), "1");
}

/// Two units of which the first half is seen by the file that is begun in the middle.
#[test]
fn what_begins_within_a_transaction_holds_all_of_it_or_nothing() {
    let files = Files::new("within");
    let server = files.start(&["--save", "3600 100000"]);
    let mut client = loaded(&server);
    client.ask("SET old 1");
    for command in ["MULTI", "SET a 1", "FLUSHALL", "SET b 1", "CONFIG SET appendonly yes", "SET c 1"] {
        client.ask(command);
    }
    client.ask("EXEC");
    let snapshot = fs::read(files.0.join("dump.rdb")).unwrap();
    let saved = load_snapshot(&snapshot, true).unwrap();
    assert_eq!(saved.database(0).len(), 2, "FLUSHALL saves, and what is saved is the whole transaction");
    rewritten(&mut client);
    drop((client, server));
    let server = files.start(&ALWAYS);
    assert_eq!(loaded(&server).ask("MGET old a b c"), "[Null Null 1 1]");
}

#[test]
fn a_child_whose_server_was_killed_replaces_nothing() {
    let files = Files::new("orphan");
    let mut server = files.start(&["--rdb-key-save-delay", "100000"]);
    let mut client = loaded(&server);
    client.ask("DEBUG POPULATE 1000");
    client.ask("BGSAVE");
    let child = || {
        let names = fs::read_dir(&files.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names = names.map(|name| name.into_string().unwrap());
        names.find_map(|name| Some(name.strip_prefix("temp-")?.strip_suffix(".rdb")?.to_owned()))
    };
    eventually("a child", || child().is_some());
    let status = format!("/proc/{}/stat", child().unwrap());
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    // It may stay as a zombie until init reaps it.
    let is_gone = || fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    let started = Instant::now();
    eventually("the child's end", is_gone);
    assert!(started.elapsed() < Duration::from_secs(20), "it has not gone on to its end");
}

#[test]
fn files_are_not_exchanged_while_they_are_loaded() {
    let files = Files::new("loading");
    let options = ["--enable-protected-configs", "yes", "--key-load-delay", "1000"];
    {
        let server = files.start(&options);
        let mut client = loaded(&server);
        client.ask("DEBUG POPULATE 20000");
        client.ask("SAVE");
    }
    let server = files.start(&options);
    let mut client = server.connect();
    for setting in ["dir /tmp", "appendonly yes"] {
        let answer = client.ask(&format!("CONFIG SET {setting}"));
        assert_eq!(answer, "LOADING Valkey is loading the dataset in memory", "{setting}");
    }
    assert_eq!(client.ask("CONFIG SET key-load-delay 0"), "OK");
    eventually("loading", || client.ask("DBSIZE") == "20000");
}

/// The commands of a file run without a client.
#[test]
fn clients_that_are_killed_while_data_is_loaded_do_not_end_it() {
    let files = Files::new("killed");
    let server = files.start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let (mut asking, mut other) = (loaded(&server), loaded(&server));
    for n in 0..300 {
        other.ask(&format!("DEBUG POPULATE 3000 {n} 10"));
    }
    for _ in 0..3 {
        asking.send(&[b"DEBUG", b"LOADAOF"]);
        eventually("loading begins", || other.ask("GET x").starts_with("LOADING"));
        assert_eq!(other.ask("CLIENT LIST").lines().count(), 2);
        assert_eq!(other.ask("CLIENT KILL TYPE normal"), "1");
        eventually("it ends", || other.ask("DBSIZE") == "900000");
        asking = loaded(&server);
    }
}

#[test]
fn two_servers_do_not_append_to_one_file() {
    let files = Files::new("lock");
    let server = files.start(&ALWAYS);
    loaded(&server);
    let second = Command::new(process::program())
        .args(["--port", &free_port().to_string(), "--dir", files.0.to_str().unwrap()])
        .args(ALWAYS)
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("Another process uses the append-only file"));
}

/// Commands that make values of every type and encoding.
fn fill(client: &mut Client<TcpStream>, sizes: usize) {
    for count in [1, 100, 129, 600].into_iter().take(sizes) {
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
                eventually("loading", || client.ask("PING") == "PONG");
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
    fill(&mut theirs, usize::MAX);
    assert_eq!(theirs.ask("SAVE"), "OK");
    let server = files.start(&[]);
    let mut ours = loaded(&server);
    assert_eq!(ours.ask("DEBUG DIGEST"), theirs.ask("DEBUG DIGEST"));
    assert_eq!(ours.ask("SAVE"), "OK");
    let second = Reference::start(&program, &files.0);
    assert_eq!(second.connect().ask("DEBUG DIGEST"), theirs.ask("DEBUG DIGEST"));
}
