//! A replica that loads what its primary sends while it comes (`repl-diskless-load`), of a primary that these tests play by
//! hand: one that sends all of it, that vanishes in the middle, stalls, and lies.

use crate::fake_primary::{
    ID, Link, MARK, OTHER_ID, Primary, by_length, by_mark, eventually_answers, full_resync, large_snapshot,
    snapshot,
};
use crate::process::{Client, Process, eventually, info, shown};
use std::io::Write;
use std::net::TcpStream;

const SWAP: &[&str] = &["--repl-diskless-load", "swapdb"];
const FLUSH: &[&str] = &["--repl-diskless-load", "flush-before-load"];
const ON_EMPTY: &[&str] = &["--repl-diskless-load", "on-empty-db"];

fn loading(client: &mut Client<TcpStream>) -> [String; 2] {
    ["loading", "async_loading"].map(|name| info(client, name))
}

fn eventually_loads(client: &mut Client<TcpStream>, expected: [&str; 2]) {
    eventually(&format!("loading and async_loading are {expected:?}"), || loading(client) == expected);
}

/// A replica with `a` = 1 and a function, linked to the history [`ID`] at offset 100.
fn linked(primary: &Primary, options: &[&str]) -> (Process, Link, Client<TcpStream>) {
    let replica = primary.replica(&[options, &["--replica-read-only", "no"]].concat());
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(ID, 100));
    link.send(by_mark(&snapshot(0, &[("a", "1")])));
    link.expect_acknowledged(100);
    let mut client = replica.connect();
    let library = "#!lua name=mine\nserver.register_function('mine', function() return 'old' end)";
    client.send(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert!(client.receive().is_some());
    (replica, link, client)
}

/// The next full sync, of this history, up to where `sent` bytes of the snapshot have come.
fn begin_sync(primary: &Primary, id: &str, snapshot: &[u8], sent: usize) -> Link {
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(id, 200));
    link.send(&by_mark(snapshot)[..sent]);
    link
}

#[test]
fn in_each_mode_a_snapshot_is_loaded_without_a_file_and_the_stream_followed() {
    for options in [SWAP, FLUSH, ON_EMPTY] {
        for frame in [by_mark, by_length] {
            let primary = Primary::listen();
            let replica = primary.replica(options);
            let (mut link, psync) = primary.accept_and_greet();
            assert_eq!(psync, ["PSYNC", "?", "-1"]);
            let body = large_snapshot(3000);
            let all =
                [full_resync(ID, 7).as_bytes(), &frame(&body), b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"].concat();
            for piece in all.chunks(70_001) {
                link.send(piece);
            }
            let offset = 7 + 23 + link.send_command("SET b 2") as u64;
            link.expect_acknowledged(offset);
            let mut client = replica.connect();
            assert_eq!(client.ask("DBSIZE"), "3000", "{options:?}");
            assert_eq!(client.ask("STRLEN key:2999"), "1000");
            client.ask("SELECT 3");
            assert_eq!(client.ask("GET b"), "2");
            assert_eq!(info(&mut client, "master_replid"), ID);
            assert!(std::fs::read_dir(&replica.directory).unwrap().next().is_none(), "no file is needed");
        }
    }
}

#[test]
fn while_a_snapshot_of_the_same_history_comes_the_old_data_is_served() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, SWAP);
    assert_eq!(client.ask("WATCH a new"), "OK");
    link.vanish();
    let body = snapshot(0, &[("new", "2")]);
    let mut link = begin_sync(&primary, ID, &body, 60);
    let mut other = _replica.connect();
    eventually_loads(&mut other, ["0", "1"]);
    assert_eq!(info(&mut other, "master_sync_in_progress"), "1");
    assert_eq!(other.ask("GET a"), "1");
    assert_eq!(other.ask("FCALL mine 0"), "old");
    assert_eq!(other.ask("SET mine 1"), "OK");
    assert_eq!(other.ask("EVAL return(redis.call('get','mine')) 0"), "1");
    for refused in ["REPLICAOF NO ONE", "BGSAVE", "SAVE", "CONFIG SET appendonly yes", "DEBUG RELOAD"] {
        let answer = other.ask(refused);
        let is_refused = answer.starts_with("LOADING") || refused.starts_with("DEBUG");
        assert!(is_refused, "{refused}: {answer}");
    }
    assert_eq!(other.ask("MULTI"), "OK");
    assert_eq!(other.ask("REPLICAOF NO ONE").as_str(), "LOADING Valkey is loading the dataset in memory");
    assert!(other.ask("EXEC").starts_with("EXECABORT"));
    link.send(&by_mark(&body)[60..]);
    link.expect_acknowledged(200);
    assert_eq!(loading(&mut other), ["0", "0"]);
    assert_eq!(other.ask("GET a"), "Null");
    assert_eq!(other.ask("GET new"), "2");
    assert_eq!(other.ask("DBSIZE"), "1");
    assert!(other.ask("FCALL mine 0").starts_with("ERR Function not found"));
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("GET a"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "NullArray", "the keys that are watched are others'");
}

#[test]
fn a_snapshot_of_another_history_keeps_clients_waiting_and_the_old_data_until_it_is_whole() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, SWAP);
    link.vanish();
    let body = snapshot(0, &[("b", "2")]);
    let link = begin_sync(&primary, OTHER_ID, &body, 60);
    eventually_loads(&mut client, ["1", "0"]);
    assert!(client.ask("GET a").starts_with("LOADING"));
    link.vanish();
    eventually_loads(&mut client, ["0", "0"]);
    assert_eq!(client.ask("GET a"), "1");
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", ID, "101"], "what was here is as it was");
    link.send("+CONTINUE\r\n");
    link.send_command("SET a 2");
    eventually_answers(&mut client, "GET a", "2");
}

#[test]
fn a_primary_that_vanishes_at_any_byte_leaves_the_old_data_or_none() {
    let body = snapshot(0, &[("b", "2"), ("c", "3")]);
    let whole = by_mark(&body);
    for (options, id) in [(SWAP, ID), (SWAP, OTHER_ID), (FLUSH, ID)] {
        let primary = Primary::listen();
        let (_replica, link, mut client) = linked(&primary, options);
        link.vanish();
        let line_end = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let mut is_emptied = false;
        for sent in (0..whole.len()).step_by(29).chain([line_end, line_end + 9, whole.len() - 1]) {
            let link = begin_sync(&primary, id, &body, sent);
            // The signature is read once as much has come as may be a mark behind it.
            let header_read = sent >= line_end + 9 + MARK.len() - 1;
            if sent >= line_end {
                let expected = if id == ID && options == SWAP { ["0", "1"] } else { ["1", "0"] };
                eventually_loads(&mut client, expected);
            }
            link.vanish();
            eventually_loads(&mut client, ["0", "0"]);
            is_emptied |= header_read && options == FLUSH;
            let expected = if is_emptied { "Null" } else { "1" };
            assert_eq!(client.ask("GET a"), expected, "{options:?} {id} {sent}");
            assert_eq!(client.ask("GET b"), "Null", "{options:?} {id} {sent}");
        }
        let mut link = begin_sync(&primary, id, &body, whole.len());
        link.expect_acknowledged(200);
        assert_eq!(client.ask("MGET a b c"), "[Null 2 3]");
    }
}

#[test]
fn a_snapshot_that_is_broken_is_asked_for_again_and_the_old_data_kept_where_the_mode_says_so() {
    let good = snapshot(0, &[("b", "2")]);
    let mut broken = good.clone();
    let kind = broken.len() - 14;
    broken[kind] = 0xbf;
    let longer = [&good[..], b"more than is in it"].concat();
    let shorter = &good[..good.len() - 3];
    let library = b"#!lua name=x\nno such code";
    let mut functions = good[..good.len() - 9].to_vec();
    functions.extend([&[0xf5, library.len() as u8][..], library, &[0xff], &[0; 8]].concat());
    for (options, left) in [(SWAP, "1"), (FLUSH, "Null")] {
        for lie in [&broken[..], &longer, shorter, &functions] {
            let primary = Primary::listen();
            let (_replica, link, mut client) = linked(&primary, options);
            link.vanish();
            let mut link = begin_sync(&primary, ID, lie, by_mark(lie).len());
            assert!(link.is_closed());
            eventually_loads(&mut client, ["0", "0"]);
            assert_eq!(client.ask("GET a"), left, "{options:?}");
            assert_eq!(client.ask("GET b"), "Null");
            let (mut link, psync) = primary.accept_and_greet();
            let goes_on = psync == ["PSYNC", ID, "101"];
            assert_eq!(goes_on, options == SWAP, "{psync:?}");
            link.send(full_resync(ID, 300));
            link.send(by_length(&good));
            link.expect_acknowledged(300);
            assert_eq!(client.ask("MGET a b"), "[Null 2]");
        }
    }
}

#[test]
fn what_is_no_snapshot_leaves_the_data_whatever_the_mode() {
    for options in [SWAP, FLUSH] {
        let primary = Primary::listen();
        let (_replica, link, mut client) = linked(&primary, options);
        link.vanish();
        let no_snapshot = [&b"no snapshot, but long enough to be one"[..], &[b'.'; 60]].concat();
        let unknown = [&b"REDIS9999"[..], &[b'.'; 60]].concat();
        for lie in [by_mark(&no_snapshot), by_length(&unknown), b"$-1\r\n".to_vec(), b"-ERR no\r\n".to_vec()]
        {
            let (mut link, _) = primary.accept_and_greet();
            link.send(full_resync(OTHER_ID, 200));
            link.send(&lie);
            assert!(link.is_closed());
            eventually_loads(&mut client, ["0", "0"]);
            assert_eq!(client.ask("GET a"), "1", "{options:?} {}", String::from_utf8_lossy(&lie));
        }
    }
}

#[test]
fn while_a_primary_stalls_who_waits_for_something_else_waits_no_longer_than_it_wants() {
    for (options, id) in [(SWAP, OTHER_ID), (FLUSH, ID)] {
        let primary = Primary::listen();
        let (replica, link, mut client) = linked(&primary, options);
        let mut waiting = replica.connect();
        waiting.send(&[b"BLPOP", b"list", b"3"]);
        eventually("it waits", || info(&mut client, "blocked_clients") == "1");
        let mut paused = replica.connect();
        assert_eq!(client.ask("CLIENT PAUSE 3600000 WRITE"), "OK");
        paused.send(&[b"SET", b"b", b"1"]);
        eventually("both wait", || info(&mut client, "blocked_clients") == "2");
        link.vanish();
        let body = snapshot(0, &[("b", "2")]);
        let mut link = begin_sync(&primary, id, &body, 60);
        eventually_loads(&mut client, ["1", "0"]);
        assert_eq!(shown(&waiting.receive().unwrap()), "NullArray");
        assert_eq!(client.ask("CLIENT UNPAUSE"), "OK");
        assert!(shown(&paused.receive().unwrap()).starts_with("LOADING"));
        assert_eq!(loading(&mut client), ["1", "0"]);
        link.send(&by_mark(&body)[60..]);
        link.expect_acknowledged(200);
        assert_eq!(client.ask("GET b"), "2");
    }
}

#[test]
fn bytes_behind_a_snapshot_within_its_length_do_not_keep_it_from_its_end() {
    let primary = Primary::listen();
    let options = [SWAP, &["--key-load-delay", "20000", "--repl-timeout", "3600"]].concat();
    let replica = primary.replica(&options);
    let (mut link, _) = primary.accept_and_greet();
    let pairs: Vec<String> = (0..20).map(|number| format!("key:{number}")).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|key| (key.as_str(), "v")).collect();
    let body = [snapshot(0, &pairs), vec![0; 1 << 20]].concat();
    link.send(full_resync(ID, 7));
    link.send(by_length(&body));
    link.expect_acknowledged(7);
    assert_eq!(replica.connect().ask("DBSIZE"), "20");
}

#[test]
fn a_snapshot_waits_until_the_append_only_file_has_been_loaded_anew() {
    let primary = Primary::listen();
    let options = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let (replica, mut link, mut client) = linked(&primary, &[SWAP, &options].concat());
    for number in 0..200 {
        link.send_command(&format!("SET key:{number} v"));
    }
    eventually_answers(&mut client, "DBSIZE", "201");
    client.ask("BGREWRITEAOF");
    eventually("the base has all", || {
        info(&mut client, "aof_rewrite_in_progress") == "0"
            && info(&mut client, "aof_base_size").parse::<u64>().unwrap() > 2000
    });
    assert_eq!(client.ask("CONFIG SET key-load-delay 10000"), "OK");
    link.vanish();
    let (mut link, _) = primary.accept_and_greet();
    client.send(&[b"DEBUG", b"LOADAOF"]);
    let mut other = replica.connect();
    eventually_loads(&mut other, ["1", "0"]);
    link.send(full_resync(OTHER_ID, 200));
    link.send(by_mark(&snapshot(0, &[("b", "2")])));
    assert_eq!(shown(&client.receive().unwrap()), "OK");
    link.expect_acknowledged(200);
    assert_eq!(client.ask("KEYS *"), "[b]");
}

#[test]
fn with_data_on_empty_db_means_a_file() {
    let primary = Primary::listen();
    let (replica, link, mut client) = linked(&primary, ON_EMPTY);
    link.vanish();
    let mut link = begin_sync(&primary, ID, &snapshot(0, &[("b", "2")]), 60);
    eventually("the file is there", || {
        let mut names = std::fs::read_dir(&replica.directory).unwrap();
        names.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("temp-sync-"))
    });
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(loading(&mut client), ["0", "0"]);
    link.send(&by_mark(&snapshot(0, &[("b", "2")]))[60..]);
    link.expect_acknowledged(200);
    assert_eq!(client.ask("MGET a b"), "[Null 2]");
}

#[test]
fn a_primary_that_stalls_is_given_up_after_the_timeout() {
    for (options, left) in [(SWAP, "1"), (FLUSH, "Null")] {
        let primary = Primary::listen();
        let (_replica, link, mut client) = linked(&primary, options);
        assert_eq!(client.ask("CONFIG SET repl-timeout 3"), "OK");
        link.vanish();
        let mut link = begin_sync(&primary, ID, &snapshot(0, &[("b", "2"), ("c", "3")]), 100);
        assert!(link.is_closed());
        eventually_loads(&mut client, ["0", "0"]);
        assert_eq!(client.ask("GET a"), left);
    }
}

#[test]
fn a_replica_that_loads_slowly_takes_in_no_more_than_it_has_room_for() {
    let primary = Primary::listen();
    let replica = primary.replica(&[SWAP, &["--key-load-delay", "2000"]].concat());
    let (mut link, _) = primary.accept_and_greet();
    let body = large_snapshot(40_000);
    link.send(full_resync(ID, 7));
    let mut sender = link.0.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&by_length(&body)));
    let mut client = replica.connect();
    eventually_loads(&mut client, ["1", "0"]);
    eventually("some of it is loaded", || {
        info(&mut client, "loading_loaded_bytes").parse::<u64>().unwrap() > 300_000
    });
    let used: u64 = info(&mut client, "used_memory").parse().unwrap();
    assert!(used < 20_000_000, "{used} bytes, of 40 million that want to come");
    // What was slow may be quick again.
    assert_eq!(client.ask("CONFIG SET key-load-delay 0"), "OK");
    drop(client);
    assert!(replica.connect().ask("PING").starts_with("LOADING"));
    replica.signal(rustix::process::Signal::KILL);
    assert!(sending.join().unwrap().is_err(), "the replica is gone before all has come");
}
