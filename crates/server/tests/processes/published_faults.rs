//! A test for each class of fault that servers of this kind have published and that no other test has: the list of all of
//! them, and which test shows what, is in `docs/security.md`.

use crate::process::{Client, PATIENCE, Process, encode, eventually, program, shown};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use wire::rdb::{PayloadWriter, Writer, kind};

tests_with_io_threads!(
    clients_that_are_killed_are_used_no_more,
    who_waits_may_be_killed_by_what_it_waits_for,
    requests_without_a_command_leave_nothing_behind,
    commands_without_their_keys_are_fetched_ahead_of_nothing,
);

fn ask(client: &mut Client<TcpStream>, words: &[&[u8]]) -> String {
    client.send(words);
    shown(&client.receive().expect("the server answers"))
}

/// Patterns that make a matcher recurse or try again without end (CVE-2024-31228), wherever a pattern may stand.
#[test]
fn no_pattern_takes_long_or_much() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    let text = "a".repeat(5000);
    let patterns = [
        "*a".repeat(900) + "b",
        "*".repeat(200_000) + "b",
        "*?".repeat(50_000),
        "[".repeat(200_000),
        "[^".repeat(100_000) + "]",
        "\\".repeat(200_001),
        "a*".repeat(100_000) + "b",
    ];
    let started = Instant::now();
    ask(client, &[b"SET", text.as_bytes(), b"1"]);
    ask(client, &[b"FUNCTION", b"LOAD", b"#!lua name=l\nredis.register_function('f', function() end)"]);
    for pattern in &patterns {
        let pattern = pattern.as_bytes();
        let words: [&[&[u8]]; 8] = [
            &[b"KEYS", pattern],
            &[b"SCAN", b"0", b"MATCH", pattern],
            &[b"CONFIG", b"GET", pattern],
            &[b"PSUBSCRIBE", pattern],
            &[b"PUBSUB", b"CHANNELS", pattern],
            &[b"FUNCTION", b"LIST", b"LIBRARYNAME", pattern],
            &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", pattern],
            &[b"ACL", b"SETUSER", b"bob", b"reset", b"on", b"nopass", b"+@all", &[b"~", pattern].concat()],
        ];
        for words in words {
            let mut other = server.connect();
            ask(&mut other, words);
            assert!(ask(&mut other, &[b"PING"]).contains("PONG") || words[0] == b"PSUBSCRIBE");
        }
        ask(client, &[b"PUBLISH", text.as_bytes(), b"message"]);
        let mut bob = server.connect();
        if ask(&mut bob, &[b"AUTH", b"bob", b"x"]) == "OK" {
            ask(&mut bob, &[b"GET", text.as_bytes()]);
        }
    }
    assert!(started.elapsed() < PATIENCE, "patterns took {:?}", started.elapsed());
}

/// Rules of users that make no sense (CVE-2024-31227, CVE-2024-51741).
#[test]
fn rules_that_make_no_sense_are_refused_whole() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    let rules = [
        "(",
        ")",
        "()",
        "(()",
        "(+get",
        "(+get))",
        "%",
        "%~",
        "%R",
        "%R~",
        "%RW",
        "%RRWW~a",
        "%X~a",
        "%\u{0}~a",
        "~",
        "&",
        "+",
        "-",
        "+@",
        "-@",
        "+|",
        "+get|",
        "+|get",
        "+config|",
        "+config|get|x",
        "-config|nosuch",
        "+@nosuch",
        "db=",
        "db=,",
        "db=-1",
        "db=99999999999999999999",
        "db=1,,2",
        "db=a",
        "#",
        "#zz",
        "!",
        ">",
        "<nosuch",
        "( (",
        "(~a ~",
        "(db=)",
        "(on)",
        "(>password)",
        "(reset)",
        "((+get))",
        "\u{0}",
        " ",
        "a",
        "~a b",
        "~a\nuser evil on nopass +@all",
        "&a\nuser evil on nopass +@all",
    ];
    for rule in rules {
        for words in
            [vec!["ACL", "SETUSER", "bob", rule], vec!["ACL", "SETUSER", "bob", "on", rule, "+get", rule]]
        {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            ask(client, &words);
            ask(client, &[b"ACL", b"GETUSER", b"bob"]);
            assert!(!client.ask("ACL LIST").contains("evil"), "{rule:?}");
        }
    }
    let nested = "(".repeat(10_000);
    assert!(ask(client, &[b"ACL", b"SETUSER", b"bob", nested.as_bytes()]).starts_with("ERR"));
    assert_eq!(client.ask("PING"), "PONG");
}

/// Errors that clients make up, in scripts, hold no line ends: what follows them would be read as further replies
/// (CVE-2025-67733).
#[test]
fn a_reply_never_ends_within_an_error() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    let scripts = [
        "return redis.error_reply('ERR a\\r\\n+OK\\r\\n')",
        "return redis.error_reply('a\\r\\n$100\\r\\n')",
        "return {err = 'ERR a\\r\\n+OK'}",
        "return {err = 'a\\n:1\\r'}",
        "return redis.status_reply('a\\r\\n+OK')",
        "return {ok = 'a\\r\\n+OK\\n'}",
        "error('a\\r\\n+OK\\r\\n')",
        "error({err = 'a\\r\\n+OK\\r\\n'})",
        "return redis.call('SET\\r\\n+OK', 'a')",
        "return redis.pcall('no\\r\\n+OK\\r\\nsuch', 'b\\r\\n')",
        "return {double = 1.5, {err = 'x\\r\\n+OK'}, {ok = 'y\\r\\n:5'}}",
        "redis.setresp(3) return {verbatim_string = {format = 'a\\r\\n', string = 'b\\r\\n'}}",
        "redis.setresp(3) return {big_number = '1\\r\\n+OK'}",
    ];
    for protocol in ["HELLO 2", "HELLO 3"] {
        client.ask(protocol);
        for script in scripts {
            ask(client, &[b"EVAL", script.as_bytes(), b"0"]);
            assert_eq!(client.ask("ECHO next"), "next", "{protocol}: {script}");
        }
        for words in
            [&[b"NOSUCH\r\n+OK\r\n" as &[u8], b"a\r\n:1"][..], &[b"CLIENT", b"NO\r\n+OK"], &[b"GET\r\n+OK"]]
        {
            ask(client, words);
            assert_eq!(client.ask("ECHO next"), "next", "{protocol}");
        }
    }
}

/// What Lua's parser, collector and libraries have been made to fail with (CVE-2024-31449, CVE-2024-46981,
/// CVE-2025-46817, CVE-2025-46818, CVE-2025-46819, CVE-2025-49844); `scripts.rs` has more of each.
#[test]
fn what_has_broken_interpreters_breaks_nothing() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    let scripts = [
        // Numbers of digits that do not fit into the buffer.
        "return bit.tohex(65535, -2147483648)",
        "return bit.tohex(1, 2147483647)",
        // A chunk's name that is collected while the chunk is parsed.
        "for i = 1, 200 do loadstring('local a = {' .. string.rep('{},', i) .. '}', string.rep('n', 200 + i)) collectgarbage('step', 1) end return 1",
        "local n = 0 for i = 1, 300 do local f = loadstring(function() n = n + 1 collectgarbage() if n % 7 == 0 then return nil end return 'a = 1 ' end, '=' .. i) end return 1",
        "return {unpack({}, 0, 2147483647)}",
        "return {unpack({1}, -2147483648, 2147483647)}",
        "return loadstring('return [' .. string.rep('=', 100000) .. '[')",
        "return loadstring('return --[' .. string.rep('=', 100000))",
        // No script may change the methods of strings, numbers and functions.
        "getmetatable('').__index = function() return redis.call end return ('x').y",
        "getmetatable('').__add = function() return 1 end return 'a' + 'b'",
        "debug.setmetatable(1, {__index = {}}) return (1).x",
        // Objects with finalizers, when all scripts are forgotten.
        "local t = setmetatable({}, {__gc = function() redis.call('SET', 'collected', 1) end}) t = nil return 1",
        "local p = newproxy and newproxy(true) if p then getmetatable(p).__gc = function() redis.call('SET', 'collected', 1) end end return 1",
        "return string.format('%99.99f', 1e308)",
        "return string.format('%' .. string.rep('0', 100) .. 'd', 1)",
        "return struct.pack('>I2147483647', 1)",
        "return cjson.encode({[1] = 1, [2^53] = 2})",
        "return cmsgpack.unpack(string.rep('\\255', 10), 2147483647)",
        "return table.concat({}, 'x', 1, 2147483647)",
        "return string.rep('x', -2147483648)",
        "return ('x'):sub(-9223372036854775808, 9223372036854775807)",
    ];
    for round in 0..2 {
        for script in scripts {
            ask(client, &[b"EVAL", script.as_bytes(), b"0"]);
            assert_eq!(ask(client, &[b"EVAL", b"return 1", b"0"]), "1", "{script}");
        }
        for flush in ["SCRIPT FLUSH SYNC", "SCRIPT FLUSH ASYNC", "FUNCTION FLUSH ASYNC"] {
            assert_eq!(client.ask(flush), "OK", "round {round}");
        }
    }
    assert_eq!(client.ask("EXISTS collected"), "0", "no finalizer runs commands");
    assert_eq!(
        ask(client, &[b"EVAL", b"return ('x').y or 'none'", b"0"]),
        "none",
        "nobody has left anything to others"
    );
}

/// A stream, as a payload of RESTORE, in which an entry is pending for all of these consumers at the same time.
fn shared_pending(consumers: &[&[u8]]) -> Vec<u8> {
    PayloadWriter::default().make(
        false,
        |writer| {
            write_shared_pending(writer, consumers);
            Ok(())
        },
        std::mem::take,
    )
}

fn write_shared_pending(writer: &mut Writer<io::Sink>, consumers: &[&[u8]]) {
    let id = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let lengths = |writer: &mut Writer<io::Sink>, lengths: &[u64]| {
        lengths.iter().for_each(|&length| writer.length(length).unwrap());
    };
    writer.byte(kind::written(kind::STREAM_LISTPACKS_3)).unwrap();
    lengths(writer, &[0, 0, 1, 1, 0, 0, 1, 1, 1, 1]);
    writer.string(b"group").unwrap();
    lengths(writer, &[1, 1, 1, 1]);
    writer.raw(&id).unwrap();
    writer.time_ms(1000).unwrap();
    writer.length(2).unwrap();
    writer.length(consumers.len() as u64).unwrap();
    for name in consumers {
        writer.string(name).unwrap();
        writer.time_ms(1000).unwrap();
        writer.time_ms(1000).unwrap();
        writer.length(1).unwrap();
        writer.raw(&id).unwrap();
    }
}

/// Payloads of RESTORE that are sound but for what they say of each other's parts (CVE-2026-25243, CVE-2026-63639).
#[test]
fn a_pending_entry_has_one_owner() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    assert_eq!(ask(client, &[b"RESTORE", b"sound", b"0", &shared_pending(&[b"one"])]), "OK");
    assert_eq!(client.ask("XPENDING sound group"), "[1 1-1 1-1 [[one 1]]]");
    for consumers in [&[&b"one"[..], b"two"][..], &[b"one", b"one"], &[]] {
        let answer = ask(client, &[b"RESTORE", b"shared", b"0", &shared_pending(consumers)]);
        assert_eq!(answer, "ERR Bad data format", "{consumers:?}");
    }
    assert_eq!(client.ask("XGROUP DELCONSUMER sound group one"), "1");
    assert_eq!(client.ask("EXISTS shared"), "0");
}

/// Any number of ids and keys in one command (CVE-2025-62507).
#[test]
fn a_command_may_have_any_number_of_ids() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    client.ask("XADD s 1-1 f v");
    client.ask("XGROUP CREATE s g 0");
    client.ask("XREADGROUP GROUP g c STREAMS s >");
    let ids: Vec<String> = (1..=50_000).map(|n| format!("1-{n}")).collect();
    for head in [
        &["XACK", "s", "g"][..],
        &["XCLAIM", "s", "g", "c", "0"],
        &["XDEL", "s"],
        &["HMGET", "h"],
        &["SMISMEMBER", "h"],
    ] {
        let words: Vec<&[u8]> =
            head.iter().map(|word| word.as_bytes()).chain(ids.iter().map(String::as_bytes)).collect();
        client.send(&words);
        let answer = client.receive().unwrap();
        assert!(!answer.is_error(), "{head:?} answers {}", shown(&answer));
    }
    assert_eq!(client.ask("XLEN s"), "0");
}

/// A client is killed at every place where something of it is still to be done (CVE-2026-23479, CVE-2026-56684).
fn clients_that_are_killed_are_used_no_more() {
    let server = Process::start(&[]);
    let mut killer = server.connect();
    let stories: [&[&str]; 9] = [
        &["CLIENT KILL ID {own} SKIPME no", "SET used 1"],
        &["MULTI", "CLIENT KILL ID {own} SKIPME no", "SET counted 1", "EXEC", "SET used 1"],
        &["SUBSCRIBE c", "PING"],
        &["BLPOP l 0", "SET used 1"],
        &["MONITOR", "PING"],
        &["CLIENT PAUSE 50 ALL", "SET paused 1"],
        &["CLIENT REPLY OFF", "CLIENT KILL ID {own} SKIPME no", "SET used 1"],
        &["CLIENT KILL SKIPME no MAXAGE 1000000 TYPE pubsub", "PING"],
        &["QUIT", "SET used 1"],
    ];
    for round in 0..20 {
        for story in stories {
            let mut client = server.connect();
            let id = client.ask("CLIENT ID");
            let requests: Vec<u8> = story
                .iter()
                .map(|command| command.replace("{own}", &id))
                .flat_map(|command| encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
                .collect();
            client.stream.write_all(&requests).unwrap();
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            killer.ask(&format!("CLIENT KILL ID {id}"));
            assert!(client.is_closed_by_server());
        }
    }
    assert_eq!(killer.ask("RPUSH l a"), "1", "nobody is left that waits for it");
    assert_eq!(killer.ask("EXISTS used"), "0");
    let only_one = || server.connect().ask("INFO clients").contains("blocked_clients:0");
    eventually("nobody waits", only_one);
}

/// Of clients that wait for the same key, each may be gone by the time that it would be served: killed by a command of the
/// same transaction, or evicted for what another is answered (CVE-2026-23479).
fn who_waits_may_be_killed_by_what_it_waits_for() {
    let server = Process::start(&[]);
    let mut source = server.connect();
    source.ask("CLIENT NO-EVICT ON");
    for round in 0..30 {
        let mut waiting: Vec<_> = (0..6).map(|_| server.connect()).collect();
        let ids: Vec<String> = waiting.iter_mut().map(|client| client.ask("CLIENT ID")).collect();
        for (number, client) in waiting.iter_mut().enumerate() {
            match number % 3 {
                0 => client.send(&[b"BLMOVE", b"l", b"l", b"LEFT", b"RIGHT", b"0"]),
                1 => client.send(&[b"BLPOP", b"l", b"k", b"0"]),
                _ => client.send(&[b"BLMPOP", b"0", b"2", b"k", b"l", b"LEFT"]),
            }
        }
        eventually("all wait", || source.ask("INFO clients").contains("blocked_clients:6"));
        let killed = &ids[round % 6];
        source.ask("MULTI");
        source.ask("RPUSH l a b");
        source.ask(&format!("CLIENT KILL ID {killed}"));
        source.ask("RPUSH l c d e");
        source.ask("EXEC");
        assert!(waiting[round % 6].is_closed_by_server());
        let large = "x".repeat(300_000);
        source.ask("CONFIG SET maxmemory-clients 400kb");
        assert!(!ask(&mut source, &[b"RPUSH", b"l", large.as_bytes(), large.as_bytes()]).is_empty());
        drop(waiting);
        // Who is not exempt may be evicted for the large command's memory before it can say anything.
        source.ask("CONFIG SET maxmemory-clients 0");
        source.ask("DEL l k");
        eventually("nobody waits", || source.ask("INFO clients").contains("blocked_clients:0"));
    }
}

/// Requests of no words, between and within others (CVE-2026-27623).
fn requests_without_a_command_leave_nothing_behind() {
    let server = Process::start(&[]);
    let empty = [&b"*0\r\n"[..], b"\r\n", b"*-1\r\n", b"\n", b" \r\n", b"*0\r\n\r\n*-1\r\n"];
    let whole = [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n"];
    for first in empty {
        for second in empty {
            for request in whole {
                for end in whole {
                    let mut client = server.connect();
                    client.stream.write_all(&[first, request, second, end].concat()).unwrap();
                    for _ in 0..2 {
                        assert_eq!(shown(&client.receive().unwrap()), "PONG", "{first:?} {second:?}");
                    }
                    // The same, a byte at a time.
                    for byte in [first, request, second].concat() {
                        client.stream.write_all(&[byte]).unwrap();
                    }
                    assert_eq!(shown(&client.receive().unwrap()), "PONG", "{first:?} {second:?}");
                }
            }
        }
    }
}

/// Commands without the arguments that their keys would be, in a pipeline whose keys are fetched together, and where only
/// somebody's permission is asked for.
fn commands_without_their_keys_are_fetched_ahead_of_nothing() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("ACL SETUSER bob on nopass +@all ~a*"), "OK");
    let names = client.ask("COMMAND LIST");
    let names: Vec<&str> = names
        .trim_matches(['[', ']'])
        .split(' ')
        .filter(|name| {
            !matches!(*name, "shutdown" | "quit" | "monitor" | "psync" | "sync" | "debug" | "reset" | "exec")
        })
        .collect();
    assert!(names.len() > 200);
    let lengths = [&[][..], &["a"], &["a", "2"], &["a", "a", "9999999999"], &["99", "STORE"], &["KEYS"]];
    for user in ["default", "bob"] {
        let mut client = server.connect();
        assert_eq!(client.ask(&format!("AUTH {user} x")), "OK");
        for arguments in lengths {
            for name in &names {
                let words: Vec<&[u8]> =
                    std::iter::once(*name).chain(arguments.iter().copied()).map(str::as_bytes).collect();
                // Two at a time, of which the second has what the first lacks.
                let mut other = server.connect();
                other.ask(&format!("AUTH {user} x"));
                let bytes = [encode(&words), encode(&[b"GET", b"a1"]), encode(&[b"PING"])].concat();
                other.stream.write_all(&bytes).unwrap();
                if !name.contains("subscribe") && !name.starts_with('b') && !name.starts_with("wait") {
                    assert!(other.receive().is_some(), "{name} {arguments:?}");
                }
            }
        }
        let check = "local n = 0 for _, name in ipairs(cjson.decode(ARGV[1])) do pcall(redis.acl_check_cmd, name) \
             pcall(redis.acl_check_cmd, name, 'a') pcall(redis.acl_check_cmd, name, 'a', '99') n = n + 1 end return n";
        let list = format!("[\"{}\"]", names.join("\",\""));
        assert_eq!(
            ask(&mut client, &[b"EVAL", check.as_bytes(), b"0", list.as_bytes()]),
            names.len().to_string()
        );
    }
    assert_eq!(server.connect().ask("PING"), "PONG");
}

/// A path that is longer than any buffer for one (CVE-2025-27151).
#[test]
fn checkers_of_files_take_paths_of_any_length() {
    for name in ["warmline-check-aof", "warmline-check-rdb"] {
        for path in ["x".repeat(100_000), "x/".repeat(50_000), "a".repeat(255) + "/" + &"b".repeat(4000)] {
            let output = Command::new(program()).arg0(name).arg(&path).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{name} ends with an error, and not by a signal");
        }
    }
}
