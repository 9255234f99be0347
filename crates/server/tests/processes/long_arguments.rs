//! Arguments that are read into buffers of their own, and kept by commands that store them: commands do with them what they do with
//! others, files and replicas get them, and a change by one holder does not change the bytes of the others.

use crate::process::{Client, Process, encode, eventually, shown};
use std::io::{Read, Write};
use std::net::TcpStream;

tests_with_io_threads!(
    strings_are_stored_by_each_command_that_stores_them,
    a_command_of_several_keeps_each,
    what_is_stored_is_changed_for_its_key_alone,
    pipelines_go_on_behind_a_long_argument,
    clients_wait_in_front_of_a_long_argument,
    other_commands_take_long_arguments,
    peers_that_vanish_leave_nothing,
    limits_count_what_has_arrived,
    transactions_and_files_and_replicas_have_them,
);

/// The longest argument that is read with others, the shortest that is not, and longer ones.
const LENS: [usize; 5] = [524_287, 524_288, 600_000, 1 << 20, 3_000_001];

/// Bytes that tell where they come from.
fn value(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + number * 97) as u8).collect()
}

#[track_caller]
fn ask(client: &mut Client<TcpStream>, words: &[&[u8]]) -> String {
    client.send(words);
    let text = shown(&client.receive().expect("the server answers"));
    if text.len() > 200 { format!("{} bytes", text.len()) } else { text }
}

#[track_caller]
fn expect_string(client: &mut Client<TcpStream>, key: &[u8], expected: &[u8]) {
    client.send(&[b"GET", key]);
    let reply = client.receive().expect("the server answers");
    // Not assert_eq: its output would be too long.
    assert!(reply.as_bytes() == Some(expected), "not the {} bytes that are expected", expected.len());
}

fn strings_are_stored_by_each_command_that_stores_them() {
    let process = Process::start(&[]);
    let client = &mut process.connect();
    for (number, len) in LENS.into_iter().enumerate() {
        let long = &value(number, len);
        for (words, expires) in [
            (&[&b"SET"[..], b"k", long][..], false),
            (&[b"SET", b"k", long, b"EX", b"1000"], true),
            (&[b"SET", b"k", long, b"XX", b"KEEPTTL"], true),
            (&[b"SETEX", b"k", b"1000", long], true),
            (&[b"PSETEX", b"k", b"1000000", long], true),
            (&[b"MSET", b"other", b"short", b"k", long], false),
        ] {
            assert_eq!(ask(client, words), "OK");
            expect_string(client, b"k", long);
            assert_eq!(ask(client, &[b"TTL", b"k"]) != "-1", expires, "{} words", words.len());
        }
        assert_eq!(ask(client, &[b"SET", b"k", b"short", b"NX"]), "Null");
        assert_eq!(ask(client, &[b"SET", b"k", &value(9, len), b"NX"]), "Null");
        assert_eq!(ask(client, &[b"SETNX", b"k", &value(9, len)]), "0");
        expect_string(client, b"k", long);
        assert_eq!(ask(client, &[b"DEL", b"k"]), "1");
        assert_eq!(ask(client, &[b"SETNX", b"k", long]), "1");
        client.send(&[b"GETSET", b"k", &value(7, len)]);
        assert!(client.receive().unwrap().as_bytes() == Some(long));
        client.send(&[b"SET", b"k", long, b"GET"]);
        assert!(client.receive().unwrap().as_bytes() == Some(&value(7, len)));
        assert_eq!(ask(client, &[b"MSETNX", b"set", b"short", b"k", &value(9, len)]), "0");
        assert_eq!(ask(client, &[b"MSETNX", b"set", b"short", b"set too", long]), "1");
        expect_string(client, b"set too", long);
        let changed = &value(8, len);
        assert_eq!(
            ask(client, &[b"MSETEX", b"2", b"set", b"short", b"set too", changed, b"EX", b"100"]),
            "1"
        );
        expect_string(client, b"set too", changed);
        assert_eq!(ask(client, &[b"DEL", b"set", b"set too"]), "2");
        assert_eq!(ask(client, &[b"APPEND", b"appended", long]), len.to_string());
        expect_string(client, b"appended", long);
        assert_eq!(ask(client, &[b"SET", b"k", long, b"PXAT", b"1"]), "OK");
        assert_eq!(ask(client, &[b"EXISTS", b"k"]), "0");
        assert_eq!(ask(client, &[b"DEL", b"appended"]), "1");
    }
}

fn a_command_of_several_keeps_each() {
    let process = Process::start(&[]);
    let client = &mut process.connect();
    let long: Vec<Vec<u8>> = LENS.iter().enumerate().map(|(number, &len)| value(number, len)).collect();
    for first in 0..LENS.len() {
        let (a, b, c) = (&long[first], &long[(first + 1) % 5], &long[(first + 2) % 5]);
        assert_eq!(ask(client, &[b"MSET", b"a", a, b"b", b, b"c", c, b"d", b"short"]), "OK");
        for (key, expected) in [(b"a", a), (b"b", b), (b"c", c)] {
            expect_string(client, key, expected);
        }
        // The last of the same key counts, and a key may be long.
        assert_eq!(ask(client, &[b"MSET", b"a", b, b"a", a, a, b"short"]), "OK");
        expect_string(client, b"a", a);
        expect_string(client, a, b"short");
        assert_eq!(ask(client, &[b"DEL", a, b"a", b"b", b"c", b"d"]), "5");
    }
}

fn what_is_stored_is_changed_for_its_key_alone() {
    let process = Process::start(&[]);
    let (client, reader) = (&mut process.connect(), &mut process.connect());
    for (number, len) in LENS.into_iter().enumerate() {
        let mut long = value(number, len);
        assert_eq!(ask(client, &[b"SET", b"k", &long]), "OK");
        assert_eq!(ask(client, &[b"COPY", b"k", b"copy"]), "1");
        // A reply under way keeps what it was written with.
        (0..3).for_each(|_| reader.send(&[b"GET", b"k"]));
        assert_eq!(ask(client, &[b"APPEND", b"k", b"more"]), (len + 4).to_string());
        assert_eq!(ask(client, &[b"SETRANGE", b"k", b"1", b"changed"]), (len + 4).to_string());
        let before = long.clone();
        long.extend_from_slice(b"more");
        long[1..8].copy_from_slice(b"changed");
        expect_string(client, b"k", &long);
        expect_string(client, b"copy", &before);
        for _ in 0..3 {
            let reply = reader.receive().unwrap();
            let got = reply.as_bytes().unwrap();
            // They were asked for on another connection, at no certain moment among the changes.
            assert!(got.len() == len || got.len() == len + 4, "{}", got.len());
            assert!(got[8..len] == before[8..], "{len}");
        }
        let memory: usize = ask(client, &[b"MEMORY", b"USAGE", b"copy"]).parse().unwrap();
        assert!(memory < len + len / 4 + 300, "{memory} bytes for {len}");
        assert_eq!(ask(client, &[b"DEL", b"k", b"copy"]), "2");
    }
}

fn pipelines_go_on_behind_a_long_argument() {
    let process = Process::start(&[]);
    let client = &mut process.connect();
    let mut sent = Vec::new();
    for (number, len) in LENS.into_iter().enumerate() {
        let key = format!("k{number}");
        sent.extend(encode(&[b"INCR", b"n"]));
        sent.extend(encode(&[b"SET", key.as_bytes(), &value(number, len)]));
        sent.extend(encode(&[b"STRLEN", key.as_bytes()]));
        sent.extend(encode(&[b"APPEND", key.as_bytes(), &value(number + 1, len)]));
        sent.extend(b"STRLEN nothing\r\n");
    }
    let mut stream = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        // In pieces that end anywhere.
        sent.chunks(99_991).for_each(|piece| stream.write_all(piece).unwrap());
    });
    for (number, len) in LENS.into_iter().enumerate() {
        for expected in
            [format!("{}", number + 1), "OK".into(), len.to_string(), (2 * len).to_string(), "0".into()]
        {
            assert_eq!(shown(&client.receive().unwrap()), expected);
        }
    }
    writer.join().unwrap();
    for (number, len) in LENS.into_iter().enumerate() {
        let expected = [value(number, len), value(number + 1, len)].concat();
        expect_string(client, format!("k{number}").as_bytes(), &expected);
    }
}

/// How a client waits, how its waiting ends, and what it is answered then.
type Waiting = (&'static [&'static str], &'static [&'static str], &'static str);

fn clients_wait_in_front_of_a_long_argument() {
    let process = Process::start(&[]);
    let client = &mut process.connect();
    let waitings: [Waiting; 5] = [
        (&["BLPOP", "q", "0"], &["RPUSH", "q", "v"], "[q v]"),
        (&["BLPOP", "q", "0.3"], &["PING"], "NullArray"),
        (&["BLPOP", "q", "0"], &["CLIENT", "UNBLOCK", "ID"], "NullArray"),
        (&["WAIT", "1", "300"], &["PING"], "0"),
        (&["INCR", "n"], &["CLIENT", "UNPAUSE"], "1"),
    ];
    for (waits, ends, answer) in waitings {
        // How much of the argument comes before the client waits, while it does, and when it does no longer; and what follows.
        for [before, meanwhile] in [[100, 0], [100, 200_000], [100, 599_900], [299_900, 300_100], [0, 0]] {
            let waiting = &mut process.connect();
            let id = waiting.ask("CLIENT ID");
            if ends.contains(&"UNPAUSE") {
                client.ask("DEL n");
                assert_eq!(client.ask("CLIENT PAUSE 100000 WRITE"), "OK");
            }
            let long = value(before, 600_000);
            let mut sent = encode(&waits.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
            let set = encode(&[b"SET", b"k", &long]);
            let start = set.len() - 2 - long.len() + before;
            sent.extend_from_slice(&set[..start]);
            waiting.stream.write_all(&sent).unwrap();
            eventually("the client waiting", || {
                let list = client.ask(&format!("CLIENT LIST ID {id}"));
                list.contains("flags=b") || !ends.contains(&"RPUSH") && !ends.contains(&"UNBLOCK")
            });
            waiting.stream.write_all(&set[start..start + meanwhile]).unwrap();
            if start + meanwhile + 2 == set.len() {
                // All of it, and of the next.
                waiting.stream.write_all(b"\r\n").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
                waiting.stream.write_all(b"PI").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
                waiting.stream.write_all(b"NG\r\n").unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            let end = ends.iter().map(|word| word.replace("ID", &id)).collect::<Vec<_>>().join(" ");
            client.ask(&end);
            if start + meanwhile + 2 != set.len() {
                waiting.stream.write_all(&set[start + meanwhile..]).unwrap();
                waiting.stream.write_all(b"PING\r\n").unwrap();
            }
            for expected in [answer, "OK", "PONG"] {
                assert_eq!(
                    shown(&waiting.receive().expect("it is answered")),
                    expected,
                    "{waits:?} {before} {meanwhile}"
                );
            }
            expect_string(client, b"k", &long);
        }
    }
}

fn other_commands_take_long_arguments() {
    let process = Process::start(&["--commandlog-execution-slower-than", "0"]);
    let (client, subscriber, monitor) =
        (&mut process.connect(), &mut process.connect(), &mut process.connect());
    assert_eq!(subscriber.ask("SUBSCRIBE channel"), "[subscribe channel 1]");
    assert_eq!(monitor.ask("MONITOR"), "OK");
    let long = &value(3, 700_000);
    for command in [&b"ECHO"[..], b"PING"] {
        client.send(&[command, long]);
        assert!(client.receive().unwrap().as_bytes() == Some(long));
    }
    assert_eq!(ask(client, &[b"PUBLISH", b"channel", long]), "1");
    let message = subscriber.receive().unwrap();
    assert!(message.as_list().unwrap()[2].as_bytes() == Some(long));
    assert_eq!(ask(client, &[b"HSET", b"hash", b"field", long, b"other", b"short"]), "2");
    client.send(&[b"HGET", b"hash", b"field"]);
    assert!(client.receive().unwrap().as_bytes() == Some(long));
    assert_eq!(ask(client, &[b"RPUSH", b"list", b"a", long, b"b"]), "3");
    assert_eq!(ask(client, &[b"ZADD", b"zset", b"1", long]), "1");
    assert_eq!(ask(client, &[b"ZSCORE", b"zset", long]), "1");
    assert_eq!(
        ask(client, &[b"EVAL", b"return redis.call('SET', KEYS[1], ARGV[1])", b"1", b"s", long]),
        "OK"
    );
    expect_string(client, b"s", long);
    client.send(&[long, long]);
    assert!(shown(&client.receive().unwrap()).contains("ERR unknown command"));
    assert!(ask(client, &[b"SET", long]).contains("wrong number of arguments"));
    assert!(ask(client, &[b"SET", b"list", long, b"WHAT"]).contains("syntax error"));
    assert!(ask(client, &[b"SET", b"k", long, b"EX", b"0"]).contains("invalid expire time"));
    assert!(ask(client, &[b"INCR", long]).parse::<i64>().is_ok());
    assert_eq!(ask(client, &[b"LLEN", b"list"]), "3");
    let mut shown_to_monitor = vec![0; 5_000_000];
    monitor.stream.read_exact(&mut shown_to_monitor).unwrap();
    let logged = ask(client, &[b"COMMANDLOG", b"LEN", b"slow"]);
    assert!(logged.parse::<usize>().unwrap() > 10, "{logged}");
    assert_eq!(ask(client, &[b"CONFIG", b"SET", b"commandlog-request-larger-than", b"1000"]), "OK");
    assert_eq!(ask(client, &[b"SET", b"k", &value(0, 600_000)]), "OK");
    let logged = client.ask("COMMANDLOG GET 1 large-request");
    // From the command's name to the last byte: no more depends on where an argument stands.
    assert!(logged.contains(" 600021 "), "{logged}");
}

fn peers_that_vanish_leave_nothing() {
    let process = Process::start(&[]);
    let client = &mut process.connect();
    assert_eq!(client.ask("SET k before"), "OK");
    for sent in [1, 16_384, 524_288, 900_000, 1_000_000] {
        let mut peer = process.connect();
        let request = encode(&[b"SET", b"k", &value(0, 1_000_000)]);
        peer.stream.write_all(&request[..sent]).unwrap();
        drop(peer);
        eventually("the peer gone", || client.ask("CLIENT LIST").lines().count() == 1);
        assert_eq!(client.ask("GET k"), "before");
    }
    let mut peer = process.connect();
    let mut request = encode(&[b"SET", b"k", &value(0, 1_000_000)]);
    let end = request.len();
    request[end - 2] = b'x';
    // The server may close the connection before it has taken all.
    let _ = peer.stream.write_all(&request);
    assert!(peer.is_closed_by_server());
    assert_eq!(client.ask("GET k"), "before");
}

fn limits_count_what_has_arrived() {
    let process = Process::start(&["--client-query-buffer-limit", "1mb"]);
    let (client, peer) = (&mut process.connect(), &mut process.connect());
    let request = encode(&[b"SET", b"k", &value(0, 3_000_000)]);
    let _ = peer.stream.write_all(&request[..2_000_000]);
    assert!(peer.is_closed_by_server());
    let peer = &mut process.connect();
    let id = peer.ask("CLIENT ID");
    let request = encode(&[b"SET", b"k", &value(0, 1_000_000)]);
    peer.stream.write_all(&request[..500_000]).unwrap();
    eventually("half of the argument arrived", || {
        let line = client.ask(&format!("CLIENT LIST ID {id}"));
        let field = |name: &str| {
            let text = line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap().to_owned();
            text.parse::<usize>().unwrap()
        };
        let (arrived, free, all) = (field("qbuf="), field("qbuf-free="), field("tot-mem="));
        (499_000..500_000).contains(&arrived) && free >= 400_000 && all > 900_000
    });
    peer.stream.write_all(&request[500_000..]).unwrap();
    assert_eq!(shown(&peer.receive().unwrap()), "OK");
    expect_string(client, b"k", &value(0, 1_000_000));
    let request = encode(&[b"SET", b"k", &value(1, 600_000), b"EX", b"100"]);
    peer.stream.write_all(&request[..request.len() - 3]).unwrap();
    eventually("an argument arrived whose command has not", || {
        client.ask(&format!("CLIENT LIST ID {id}")).contains(" qbuf=6000")
    });
    peer.stream.write_all(&request[request.len() - 3..]).unwrap();
    assert_eq!(shown(&peer.receive().unwrap()), "OK");
}

fn transactions_and_files_and_replicas_have_them() {
    let options = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let process = Process::start(&options);
    let replica = Process::start(&["--enable-debug-command", "yes"]);
    let client = &mut process.connect();
    assert_eq!(replica.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", process.port)), "OK");
    replica.eventually_shows("master_link_status", "up");
    for (number, len) in LENS.into_iter().enumerate() {
        let long = &value(number, len);
        let key = format!("k{number}");
        let queued = format!("queued{number}");
        assert_eq!(ask(client, &[b"SET", key.as_bytes(), long]), "OK");
        assert_eq!(client.ask("MULTI"), "OK");
        assert_eq!(ask(client, &[b"SET", queued.as_bytes(), long]), "QUEUED");
        assert_eq!(ask(client, &[b"SETEX", b"e", b"10000", long]), "QUEUED");
        assert_eq!(client.ask("EXEC"), "[OK OK]");
        expect_string(client, queued.as_bytes(), long);
    }
    let digest = client.ask("DEBUG DIGEST");
    assert_eq!(client.ask("WAIT 1 60000"), "1");
    assert_eq!(replica.connect().ask("DEBUG DIGEST"), digest);
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
    assert_eq!(client.ask("DEBUG RELOAD"), "OK");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
}
