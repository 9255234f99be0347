//! Large values on their way to clients that read slowly, while others change and remove them: a reply is what was
//! there when its command ran, however late it is read, and nothing of it stays behind.

use crate::process::{Client, Process, encode, eventually, shown};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

tests_with_io_threads!(
    replies_stay_what_they_were,
    pending_replies_follow_their_connection,
    values_under_way_are_held_once,
    output_limits_count_what_is_referred_to,
    other_replies_follow_references,
);

/// More of these than a socket takes, and each more than it takes at once.
const VALUE_BYTES: usize = 3_000_000;
const KEYS: usize = 6;

/// Bytes that tell where they come from.
fn value(key: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + key * 97) as u8).collect()
}

fn name(key: usize) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

fn field(client: &mut Client<TcpStream>, section: &str, name: &str) -> i64 {
    let info = client.ask(&format!("INFO {section}"));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().parse().unwrap()
}

fn put(client: &mut Client<TcpStream>, key: usize, value: &[u8]) {
    client.send(&[b"SET", &name(key), value]);
    assert_eq!(shown(&client.receive().unwrap()), "OK");
}

fn fill(client: &mut Client<TcpStream>) {
    (0..KEYS).for_each(|key| put(client, key, &value(key, VALUE_BYTES)));
}

/// Sends commands without reading their replies yet.
fn run_unread(process: &Process, reader: &mut Client<TcpStream>, commands: &[&[&[u8]]]) {
    let mut watcher = process.connect();
    let before = watcher.ask("GET runs").parse().unwrap_or(0);
    commands.iter().for_each(|command| reader.send(command));
    reader.send(&[b"INCR", b"runs"]);
    eventually("running commands whose replies nobody reads", || {
        watcher.ask("GET runs").parse().is_ok_and(|runs: u64| runs > before)
    });
}

#[track_caller]
fn expect_bulk(reader: &mut Client<TcpStream>, expected: &[u8]) {
    let received = reader.receive().expect("the server answers");
    // Not assert_eq: its output would be too long.
    assert!(received.as_bytes() == Some(expected), "{} bytes are not as expected", expected.len());
}

/// The reply of the INCR that [`run_unread`] ends with.
#[track_caller]
fn expect_number(reader: &mut Client<TcpStream>) {
    let _: u64 = shown(&reader.receive().unwrap()).parse().unwrap();
}

/// Each way to change or lose a value; the key is key:1 to key:5 in turn.
fn change_all(client: &mut Client<TcpStream>) {
    put(client, 1, &[b'o'; VALUE_BYTES]);
    for command in ["APPEND key:2 more", "SETRANGE key:3 10 changed", "SETBIT key:4 7 1", "DEL key:5"] {
        let _: u64 = client.ask(command).parse().unwrap();
    }
}

fn replies_stay_what_they_were() {
    let process = Process::start(&[]);
    let mut writer = process.connect();
    // What commands leave behind when they run for the first time is there from then on.
    read_what_is_gone(&process, &mut writer, "FLUSHALL SYNC");
    let before_bytes = field(&mut writer, "memory", "used_memory");
    for flush in ["FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB"] {
        read_what_is_gone(&process, &mut writer, flush);
    }
    eventually("memory on its former level", || {
        field(&mut writer, "memory", "used_memory") - before_bytes < VALUE_BYTES as i64 / 10
    });
}

/// Reads what was asked for before it was changed and lost in all ways.
fn read_what_is_gone(process: &Process, writer: &mut Client<TcpStream>, flush: &str) {
    fill(writer);
    let mut reader = process.connect();
    let names: Vec<_> = (0..KEYS).map(name).collect();
    let gets: Vec<[&[u8]; 2]> = names.iter().map(|name| [&b"GET"[..], name]).collect();
    let gets: Vec<&[&[u8]]> = gets.iter().map(|get| &get[..]).collect();
    run_unread(process, &mut reader, &gets);
    change_all(writer);
    let all: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(names.iter().map(|name| &name[..])).collect();
    run_unread(process, &mut reader, &[&all, &[b"GETDEL", b"key:2"], &[b"GETSET", b"key:3", b"short"]]);
    assert_eq!(writer.ask("STRLEN key:3"), "5");
    assert_eq!(writer.ask(flush), "OK");
    fill(writer);
    assert_eq!(writer.ask(flush), "OK");

    let originals: Vec<_> = (0..KEYS).map(|key| value(key, VALUE_BYTES)).collect();
    originals.iter().for_each(|original| expect_bulk(&mut reader, original));
    expect_number(&mut reader);
    let appended = [&originals[2][..], b"more"].concat();
    let (mut changed, mut one_bit) = (originals[3].clone(), originals[4].clone());
    changed[10..17].copy_from_slice(b"changed");
    one_bit[0] |= 1;
    let received = reader.receive().unwrap();
    let list = received.as_list().unwrap();
    let expected = [&originals[0][..], &[b'o'; VALUE_BYTES], &appended, &changed, &one_bit];
    for (element, expected) in list.iter().zip(expected) {
        assert!(element.as_bytes() == Some(expected));
    }
    assert!(list.len() == KEYS && list[5].as_bytes().is_none());
    expect_bulk(&mut reader, &appended);
    expect_bulk(&mut reader, &changed);
    expect_number(&mut reader);
}

/// What is unsent goes along when a connection moves from thread to thread.
fn pending_replies_follow_their_connection() {
    let process = Process::start(&[]);
    let mut writer = process.connect();
    fill(&mut writer);
    let mut reader = process.connect();
    let get: &[&[u8]] = &[b"GET", b"key:0"];
    run_unread(&process, &mut reader, &[get, &[b"ECHO", b"between"], get, get]);
    for threads in [3, 1, 2, 1] {
        assert_eq!(writer.ask(&format!("CONFIG SET io-threads {threads}")), "OK");
        run_unread(&process, &mut reader, &[get, &[b"APPEND", b"key:0", b"+"]]);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(writer.ask("DEL key:0"), "1");
    let mut expected = value(0, VALUE_BYTES);
    expect_bulk(&mut reader, &expected);
    expect_bulk(&mut reader, b"between");
    expect_bulk(&mut reader, &expected);
    expect_bulk(&mut reader, &expected);
    expect_number(&mut reader);
    for _ in 0..4 {
        expect_bulk(&mut reader, &expected);
        expected.push(b'+');
        assert_eq!(shown(&reader.receive().unwrap()), expected.len().to_string());
        expect_number(&mut reader);
    }
    assert_eq!(reader.ask("PING"), "PONG");
}

fn values_under_way_are_held_once() {
    let process = Process::start(&[]);
    let mut writer = process.connect();
    put(&mut writer, 0, &value(0, VALUE_BYTES));
    let before_bytes = field(&mut writer, "memory", "used_memory");
    let mut readers: Vec<_> = (0..5).map(|_| process.connect()).collect();
    let get: &[&[u8]] = &[b"GET", b"key:0"];
    for reader in &mut readers {
        run_unread(&process, reader, &[get; 4]);
    }
    let growth = field(&mut writer, "memory", "used_memory") - before_bytes;
    assert!(growth < VALUE_BYTES as i64 / 2, "{growth} bytes more for 20 pending replies");
    let line = writer.ask("CLIENT LIST");
    let figure = |line: &str, name: &str| -> Option<usize> {
        line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let waiting: Vec<_> = line.lines().filter(|line| figure(line, "omem") > Some(VALUE_BYTES)).collect();
    assert_eq!(waiting.len(), readers.len(), "{line}");
    assert!(waiting.iter().all(|line| figure(line, "tot-mem") > Some(VALUE_BYTES)));
    // Those that leave without reading let go of it as well.
    readers.truncate(2);
    assert_eq!(writer.ask("DEL key:0"), "1");
    for reader in &mut readers {
        (0..4).for_each(|_| expect_bulk(reader, &value(0, VALUE_BYTES)));
    }
    eventually("freeing what was held", || {
        field(&mut writer, "memory", "used_memory") - before_bytes < -(VALUE_BYTES as i64) / 2
    });
}

fn output_limits_count_what_is_referred_to() {
    let process = Process::start(&["--client-output-buffer-limit", "normal 10mb 0 0"]);
    let mut writer = process.connect();
    put(&mut writer, 0, &value(0, VALUE_BYTES));
    let mut reader = process.connect();
    let gets = encode(&[b"GET", b"key:0"]).repeat(10);
    reader.stream.write_all(&gets).unwrap();
    eventually("the end of a client over its limit", || {
        field(&mut writer, "stats", "client_output_buffer_limit_disconnections") == 1
    });
    assert!(reader.is_closed_by_server());
    reader = process.connect();
    reader.send(&[b"GET", b"key:0"]);
    expect_bulk(&mut reader, &value(0, VALUE_BYTES));
}

/// What follows a reference in the same output, written by those who look at what they have written.
fn other_replies_follow_references() {
    let process = Process::start(&[]);
    let mut client = process.connect();
    let large = value(7, 100_000);
    put(&mut client, 7, &large);
    let followers: [(&[&[u8]], &str); 9] = [
        (&[b"EVAL", b"return 1", b"0"], "1"),
        (&[b"EVAL", b"return redis.error_reply('ERR of a script')", b"0"], "ERR of a script"),
        (&[b"EVAL", b"return #redis.call('get', KEYS[1])", b"1", b"key:7"], "100000"),
        (&[b"NOSUCH"], "ERR unknown command 'NOSUCH', with args beginning with: "),
        (&[b"MULTI"], "OK"),
        (&[b"GET", b"key:7"], "QUEUED"),
        (
            &[b"NOSUCH", b"in", b"MULTI"],
            "ERR unknown command 'NOSUCH', with args beginning with: 'in' 'MULTI' ",
        ),
        (&[b"EXEC"], "EXECABORT Transaction discarded because of previous errors."),
        (&[b"CONFIG", b"SET", b"maxmemory", b"x"], "ERR CONFIG SET failed"),
    ];
    let pipeline: Vec<u8> = followers
        .iter()
        .flat_map(|(command, _)| [encode(&[b"GET", b"key:7"]), encode(command)].concat())
        .collect();
    client.stream.write_all(&pipeline).unwrap();
    for (command, expected) in followers {
        let first = client.receive().expect("the server answers");
        assert!(first.as_bytes() == Some(&large[..]) || shown(&first) == "QUEUED");
        let reply = shown(&client.receive().unwrap());
        assert!(reply.starts_with(expected), "{:?}: {reply}", command[0]);
    }
}
