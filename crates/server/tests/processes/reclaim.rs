//! However a large collection is lost, it is freed by the thread for that and not by the one that runs commands; what
//! is free goes back to the system; and what removes much on the server's own account does so a little at a time.

use crate::process::{Client, Process, encode, eventually, shown};
use server::db::expire::{ExpireCursor, ExpireEffort};
use server::db::hash::FieldExpiry;
use server::db::{Db, EventClasses, Hash, Turn};
use server::sys::process::page_bytes;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use structures::hash::HashSeed;

/// Enough that freeing it is left to the background.
const MEMBERS: usize = 5000;

fn build(client: &mut Client<TcpStream>, key: &str, kind: &str) {
    let member = |i: usize| format!("member:{i}");
    let commands: Vec<Vec<String>> = match kind {
        "stream" => (1..=MEMBERS)
            .map(|i| vec!["XADD".into(), key.into(), format!("{i}-0"), "f".into(), "v".into()])
            .collect(),
        "string" => vec![vec!["SET".into(), key.into(), "x".repeat(2 << 20)]],
        kind => {
            let (command, elements): (&str, Vec<String>) = match kind {
                // Of a list it is the nodes that take time.
                "list" => ("RPUSH", (0..MEMBERS).map(|i| format!("{i:0200}")).collect()),
                "set" => ("SADD", (0..MEMBERS).map(member).collect()),
                "integers" => ("SADD", (0..MEMBERS).map(|i| (i * i).to_string()).collect()),
                "hash" => ("HSET", (0..MEMBERS).flat_map(|i| [member(i), "v".into()]).collect()),
                _ => ("ZADD", (0..MEMBERS).flat_map(|i| [i.to_string(), member(i)]).collect()),
            };
            vec![[command.to_owned(), key.to_owned()].into_iter().chain(elements).collect()]
        }
    };
    for batch in commands.chunks(1000) {
        for command in batch {
            client.send(&command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
        batch.iter().for_each(|_| drop(client.receive().unwrap()));
    }
}

fn field(client: &mut Client<TcpStream>, section: &str, name: &str) -> u64 {
    field_of(&client.ask(&format!("INFO {section}")), name)
}

fn field_of(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().parse().unwrap()
}

/// Runs the commands and expects `objects` more to have been freed in the background.
fn expect_freed(client: &mut Client<TcpStream>, what: &str, objects: u64, commands: &[&str]) {
    let before = field(client, "memory", "lazyfreed_objects");
    for command in commands {
        client.ask(command);
    }
    let freed = |client: &mut Client<TcpStream>| field(client, "memory", "lazyfreed_objects") - before;
    eventually(&format!("freeing in the background after {what}"), || freed(client) >= objects);
    assert_eq!(freed(client), objects, "{what}");
}

#[test]
fn what_is_large_is_freed_in_the_background() {
    let server = Process::start(&["--enable-debug-command", "yes", "--stream-node-max-entries", "4"]);
    let mut client = server.connect();
    for kind in ["string", "list", "set", "integers", "hash", "sorted set", "stream"] {
        let ways: &[(&str, &[&str])] = &[
            ("DEL", &["DEL big"]),
            ("UNLINK", &["UNLINK big"]),
            ("SET over it", &["SET big x", "DEL big"]),
            ("RENAME over it", &["SET other x", "RENAME other big", "DEL big"]),
            ("COPY over it", &["SET other x", "COPY other big REPLACE", "DEL big"]),
            ("storing over it", &["SADD other x", "SUNIONSTORE big other", "DEL big", "DEL other"]),
            ("storing nothing over it", &["SUNIONSTORE big nothing"]),
            (
                "expiry found by a reader",
                &["DEBUG SET-ACTIVE-EXPIRE 0", "PEXPIRE big 1", "DEBUG SLEEP 0.01", "EXISTS big"],
            ),
            ("expiry found by the search", &["DEBUG SET-ACTIVE-EXPIRE 1", "PEXPIRE big 1"]),
            ("FLUSHDB", &["FLUSHDB"]),
            ("FLUSHALL", &["FLUSHALL"]),
        ];
        for (way, commands) in ways {
            build(&mut client, "big", kind);
            expect_freed(&mut client, &format!("a {kind}: {way}"), 1, commands);
        }
    }
}

/// What takes some calls of the allocator is handed over if there is enough of it to be worth waking a thread.
#[test]
fn many_that_are_scattered_are_freed_in_the_background_together() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let build = |client: &mut Client<TcpStream>, kind: usize| {
        for key in &keys {
            let members = (0..100).map(|number| format!("{number:0100}"));
            let words: Vec<String> = match kind {
                0 => ["SADD", key].map(String::from).into_iter().chain(members).collect(),
                1 => ["HSET", key].map(String::from).into_iter().chain(members).collect(),
                _ => {
                    let scored = members.enumerate().flat_map(|(at, member)| [at.to_string(), member]);
                    ["ZADD", key].map(String::from).into_iter().chain(scored).collect()
                }
            };
            client.ask(&words.join(" "));
        }
    };
    for kind in 0..3 {
        build(&mut client, kind);
        expect_freed(&mut client, "one of them", 0, &["DEL key:0"]);
        expect_freed(&mut client, "few", 0, &["DEL key:1 key:2 key:3 key:4 key:5 key:6 key:7"]);
        expect_freed(&mut client, "some", 12, &[&format!("UNLINK {}", keys[8..20].join(" "))]);
        expect_freed(
            &mut client,
            "many, of which a few are left over",
            64,
            &[&format!("DEL {}", keys[20..87].join(" "))],
        );
        expect_freed(
            &mut client,
            "what is overwritten",
            13,
            &[&format!("MSET {} x", keys[87..].join(" x "))],
        );
        client.ask("FLUSHALL SYNC");
        client.ask("CONFIG SET lazyfree-lazy-user-del no");
        build(&mut client, kind);
        expect_freed(&mut client, "at once, where that is wanted", 0, &[&format!("DEL {}", keys.join(" "))]);
        client.ask("CONFIG SET lazyfree-lazy-user-del yes");
    }
}

/// What a script makes and removes does not all wait for its end to be freed.
#[test]
fn what_is_removed_again_and_again_in_one_batch_does_not_gather() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    let script = "local members = {} \
        for at = 1, 100 do members[at] = string.rep('x', 100) .. at end \
        for turn = 1, 3000 do \
            redis.call('SADD', 'key', unpack(members)) redis.call('DEL', 'key') \
        end \
        return redis.call('INFO', 'memory')";
    client.send(&[b"EVAL", script.as_bytes(), b"0"]);
    let used_bytes = field_of(&shown(&client.receive().unwrap()), "used_memory");
    assert!(used_bytes < 16 << 20, "{used_bytes}");
    // Few, but of almost a megabyte each.
    let members: Vec<String> = (0..1000).map(|number| format!("{number:0800}")).collect();
    client.ask(&format!("SADD source {}", members.join(" ")));
    let script = "for turn = 1, 100 do redis.call('SUNIONSTORE', 'key', 'source') end \
        return redis.call('INFO', 'memory')";
    client.send(&[b"EVAL", script.as_bytes(), b"0"]);
    let used_bytes = field_of(&shown(&client.receive().unwrap()), "used_memory");
    assert!(used_bytes < 32 << 20, "{used_bytes}");
}

/// What commands of the same batch have removed makes no room that keys would have to make.
#[test]
fn no_key_is_evicted_for_what_waits_to_be_freed() {
    let server = Process::start(&["--maxmemory-policy", "allkeys-random"]);
    let mut client = server.connect();
    pipe(&mut client, (0..100).map(|key| set(key, 10)));
    let members: Vec<String> = (0..1000).map(|number| format!("{number:0800}")).collect();
    client.ask(&format!("SADD removed {}", members.join(" ")));
    let used_bytes = field(&mut client, "memory", "used_memory");
    client.ask(&format!("CONFIG SET maxmemory {}", used_bytes + 300_000));
    let batch: [&[&[u8]]; 3] =
        [&[b"DEL", b"removed"], &[b"SETRANGE", b"long", b"600000", b"x"], &[b"SET", b"other", b"x"]];
    client.stream.write_all(&batch.map(encode).concat()).unwrap();
    batch.iter().for_each(|_| drop(client.receive().unwrap()));
    assert_eq!(field(&mut client, "stats", "evicted_keys"), 0);
}

/// Sends commands without waiting for each, in portions that neither side's buffers stop.
fn pipe(client: &mut Client<TcpStream>, commands: impl Iterator<Item = Vec<Vec<u8>>>) {
    let commands: Vec<_> = commands.collect();
    for portion in commands.chunks(500) {
        let request: Vec<u8> = portion
            .iter()
            .flat_map(|command| encode(&command.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        client.stream.write_all(&request).unwrap();
        portion.iter().for_each(|_| drop(client.receive().unwrap()));
    }
}

fn set(key: usize, value_bytes: usize) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), format!("key:{key}").into_bytes(), vec![b'x'; value_bytes]]
}

/// Threads of the process with this name.
fn threads_named(server: &Process, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}

#[test]
fn the_allocators_threads_come_and_go_with_their_option() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    let threads = || threads_named(&server, "jemalloc_bg_thd");
    eventually("a thread that gives memory back", || threads() > 0);
    assert_eq!(client.ask("CONFIG SET jemalloc-bg-thread no"), "OK");
    eventually("the end of that thread", || threads() == 0);
    assert_eq!(client.ask("CONFIG SET jemalloc-bg-thread yes"), "OK");
    eventually("another thread that gives memory back", || threads() > 0);
    let server = Process::start(&["--jemalloc-bg-thread", "no"]);
    assert_eq!(server.connect().ask("PING"), "PONG");
    assert_eq!(threads_named(&server, "jemalloc_bg_thd"), 0);
}

#[test]
fn memory_goes_back_to_the_system_while_nobody_asks_for_anything() {
    let server = Process::start(&[]);
    let resident_bytes = || {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * page_bytes() as usize
    };
    let before_bytes = resident_bytes();
    let mut client = server.connect();
    pipe(&mut client, (0..60_000).map(|key| set(key, 1000)));
    let loaded_bytes = resident_bytes() - before_bytes;
    assert!(loaded_bytes > 60_000_000, "{loaded_bytes}");
    assert_eq!(client.ask("FLUSHALL"), "OK");
    eventually("memory's way back", || resident_bytes().saturating_sub(before_bytes) < loaded_bytes / 4);
}

/// The most keys and fields that one step of the search for due ones removes from this data.
fn removed_by_a_step(db: &mut Db) -> (usize, usize) {
    let mut cursor = ExpireCursor::default();
    let (mut keys_max, mut fields_max) = (0, 0);
    while !db.is_empty() {
        let mut cycle = db.begin_expire_cycle(ExpireEffort(1));
        loop {
            let before = (db.figures.expired_keys, db.figures.expired_fields);
            let goes_on = db.expire_step(&mut cursor, &mut cycle);
            drop(db.change_log.take());
            keys_max = keys_max.max((db.figures.expired_keys - before.0) as usize);
            fields_max = fields_max.max((db.figures.expired_fields - before.1) as usize);
            if !goes_on {
                break;
            }
        }
        db.end_expire_cycle(&mut cursor, cycle);
    }
    (keys_max, fields_max)
}

fn put(db: &mut Db, number: i64, expiry_ms: i64) {
    let key = format!("key:{number}");
    db.put_string(db.key(key.as_bytes()), b"x", Some(expiry_ms));
    db.changed(EventClasses::GENERIC, "set", db.key(key.as_bytes()));
    drop(db.change_log.take());
}

#[test]
fn a_step_of_the_search_for_what_is_due_removes_little_however_much_is_due() {
    let mut db = Db::new(1, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, 0));
    (0..300_000).for_each(|i| put(&mut db, i, 100));
    for i in 0..5000 {
        db.change_or_create(db.key(b"hash"), |hash: &mut Hash, mut means| {
            hash.set(format!("field:{i}").as_bytes(), b"v", FieldExpiry::At(100), &mut means);
        })
        .unwrap();
    }
    db.changed(EventClasses::GENERIC, "set", db.key(b"hash"));
    drop(db.change_log.take());
    db.begin(Turn::new(0, 1000));
    let (keys_max, fields_max) = removed_by_a_step(&mut db);
    assert!(keys_max <= 256 && fields_max <= 64, "{keys_max} keys, {fields_max} fields");
    assert_eq!((db.figures.expired_keys, db.figures.expired_fields), (300_000, 5000));
}

/// Places that a look at the average time to live visits; 0 where work is not counted. It is to lie within 30 % of 50,000.
fn visited_for_average(db: &mut Db) -> u64 {
    structures::work::take();
    let average_ms = db.average_ttl_ms();
    let visited = structures::work::take().visited;
    assert!((35_000..65_000).contains(&average_ms), "{average_ms}");
    visited
}

#[test]
fn the_average_time_to_live_is_known_without_looking_at_many_keys() {
    let mut db = Db::new(2, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, 0));
    let average = |db: &mut Db| db.average_ttl_ms();
    assert_eq!(average(&mut db), 0);
    // Before any search has come by, from a few keys.
    put(&mut db, 0, 40_000);
    assert_eq!(average(&mut db), 40_000);
    (0..200_000).for_each(|i| put(&mut db, i, 49_000 + i % 2_001));
    let visited = visited_for_average(&mut db);
    assert!(visited <= 16, "{visited} places");
    // Times of all lengths: the search's average comes to the same.
    (0..200_000).for_each(|i| put(&mut db, i, 1 + i % 100_000));
    let (mut cursor, mut searches) = (ExpireCursor::default(), 0);
    while searches < 20 {
        let mut cycle = db.begin_expire_cycle(ExpireEffort(1));
        while db.expire_step(&mut cursor, &mut cycle) {}
        db.end_expire_cycle(&mut cursor, cycle);
        drop(db.change_log.take());
        searches += 1;
    }
    // Only the database itself is visited.
    assert_eq!(visited_for_average(&mut db), 1);
    // It goes with the database, and ends with it.
    db.swap(0, 1);
    assert_eq!(average(&mut db), 0);
    db.begin(Turn::new(1, 0));
    assert_eq!(visited_for_average(&mut db), 1);
    db.clear(false);
    db.forget_cleared();
    assert_eq!(average(&mut db), 0);
}

#[test]
fn databases_with_much_to_expire_leave_others_their_turn() {
    let server = Process::start(&["--databases", "3", "--enable-debug-command", "yes"]);
    let mut client = server.connect();
    assert_eq!(client.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
    for database in [0, 2] {
        client.ask(&format!("SELECT {database}"));
        let due = |key| [set(key, 1), vec![b"PX".to_vec(), b"1".to_vec()]].concat();
        pipe(&mut client, (0..if database == 0 { 200_000 } else { 100 }).map(due));
    }
    let keyspace = client.ask("INFO keyspace");
    assert!(keyspace.contains("db0:keys=200000,") && keyspace.contains("db2:keys=100,"), "{keyspace}");
    assert_eq!(client.ask("DEBUG SET-ACTIVE-EXPIRE 1"), "OK");
    let mut keyspace = String::new();
    eventually("expiry in the last database", || {
        (0..1000).any(|_| {
            keyspace = client.ask("INFO keyspace");
            !keyspace.contains("db2:")
        })
    });
    assert!(keyspace.contains("db0:"), "the first database had its end first");
}

#[test]
fn commands_in_a_row_do_not_each_wait_for_eviction() {
    let server =
        Process::start(&["--maxmemory-policy", "allkeys-random", "--maxmemory-eviction-tenacity", "0"]);
    let mut client = server.connect();
    pipe(&mut client, (0..60_000).map(|key| set(key, 100)));
    let used_bytes = field(&mut client, "memory", "used_memory");
    client.ask(&format!("CONFIG SET maxmemory {}", used_bytes / 4));
    let info = encode(&[b"INFO", b"stats"]);
    let request = [info.clone(), encode(&[b"PING"]).repeat(1000), info].concat();
    client.stream.write_all(&request).unwrap();
    let replies: Vec<String> = (0..1002).map(|_| shown(&client.receive().unwrap())).collect();
    let evicted = |info: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let meanwhile = evicted(&replies[1001]) - evicted(&replies[0]);
    // Each round of eviction takes 16 keys, and some ticks go by until all has come.
    assert!(meanwhile < 4000, "{meanwhile} keys");
    // The reply that tells takes some, too.
    eventually("room", || field(&mut client, "memory", "used_memory") <= used_bytes / 3);
}

#[test]
fn what_waits_to_be_written_to_the_append_only_file_evicts_no_key() {
    let server = Process::start(&["--appendonly", "yes", "--maxmemory-policy", "allkeys-random"]);
    let mut client = server.connect();
    let value_bytes = 1_000_000;
    for _ in 0..2 {
        pipe(&mut client, std::iter::once(set(0, value_bytes)));
    }
    let started = Instant::now();
    // What the request was in goes when the client has been quiet for a while.
    while started.elapsed() < Duration::from_secs(1) {
        client.ask("PING");
        std::thread::sleep(Duration::from_millis(50));
    }
    let buffer_bytes = field(&mut client, "memory", "mem_aof_buffer");
    assert!(buffer_bytes > value_bytes as u64 / 2, "{buffer_bytes} in the buffer");
    assert_eq!(field(&mut client, "memory", "mem_not_counted_for_evict"), buffer_bytes);
    let used_bytes = field(&mut client, "memory", "used_memory");
    client.ask(&format!("CONFIG SET maxmemory {}", used_bytes - buffer_bytes / 2));
    (0..20).for_each(|_| drop(client.ask("PING")));
    assert_eq!(field(&mut client, "stats", "evicted_keys"), 0);
    assert_eq!(client.ask("EXISTS key:0"), "1");
}

/// Messages on evicted keys take memory until they are sent, and their buffers are kept for the next replies.
#[test]
fn what_tells_of_evicted_keys_evicts_no_more_of_them() {
    const KEYS: usize = 300;
    let server =
        Process::start(&["--maxmemory-policy", "allkeys-lru", "--maxmemory-eviction-tenacity", "100"]);
    let mut client = server.connect();
    let key = |number: usize| format!("{number}{}", "x".repeat(1000));
    (0..KEYS).for_each(|number| drop(client.ask(&format!("SET {} x", key(number)))));
    let caching: Vec<Client<TcpStream>> = (0..10)
        .map(|_| {
            let mut reader = server.connect();
            reader.ask("HELLO 3");
            assert_eq!(reader.ask("CLIENT TRACKING on"), "OK");
            (0..KEYS).for_each(|number| drop(reader.ask(&format!("GET {}", key(number)))));
            reader
        })
        .collect();
    // The buffers of requests are freed once the clients have been quiet for a while.
    std::thread::sleep(Duration::from_secs(2));
    let used_bytes = field(&mut client, "memory", "used_memory");
    client.ask(&format!("CONFIG SET maxmemory {}", used_bytes - 40_000));
    (0..20).for_each(|_| drop(client.ask("PING")));
    let evicted = field(&mut client, "stats", "evicted_keys");
    assert!((30..150).contains(&evicted), "{evicted} keys of {KEYS}");
    drop(caching);
}
