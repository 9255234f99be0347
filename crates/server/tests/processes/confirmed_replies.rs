//! Replies that wait until changes are on disk (`appendfsync always`) or at replicas (`min-replicas-durable`).

use crate::fake_replica::Replica;
use crate::process::{Client, Process, encode, eventually, info, shown};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Longer than a reply takes that waits for nothing.
const WHILE: Duration = Duration::from_millis(300);
const NOT_CONFIRMED: &str =
    "NOREPLICAS Not enough replicas have confirmed the changes in time: they may have been made.";
const TOO_FEW: &str = "NOREPLICAS Not enough good replicas to write.";

/// Whether a reply comes within a while.
fn is_answered(client: &mut Client<TcpStream>) -> bool {
    client.stream.set_read_timeout(Some(WHILE)).unwrap();
    let is_answered = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_read_timeout(None).unwrap();
    is_answered
}

fn send(client: &mut Client<TcpStream>, command: &str) {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    client.send(&words);
}

fn receive(client: &mut Client<TcpStream>) -> String {
    shown(&client.receive().expect("the server answers"))
}

/// A server with a replica that acknowledges when the test says so, after it has confirmed all so far.
fn settled(timeout_ms: &str) -> (Process, Client<TcpStream>, Replica) {
    let options = ["--repl-ping-replica-period", "3600", "--repl-diskless-sync-delay", "0"];
    let server = Process::start(&options);
    let mut client = server.connect();
    let mut replica = Replica::introduced(&server);
    let offset = replica.go_online();
    replica.acknowledge(offset);
    client.ask("SET old 1");
    replica.acknowledge(info(&mut client, "master_repl_offset").parse().unwrap());
    eventually("the replica is online", || info(&mut client, "slave0").contains("state=online"));
    let set = format!("CONFIG SET min-replicas-durable 1 min-replicas-durable-timeout {timeout_ms}");
    assert_eq!(client.ask(&set), "OK");
    (server, client, replica)
}

fn offset(server: &Process) -> u64 {
    info(&mut server.connect(), "master_repl_offset").parse().unwrap()
}

fn writes_are_refused_without_replicas() {
    let server = Process::start(&["--min-replicas-durable", "1"]);
    let mut client = server.connect();
    assert_eq!(client.ask("SET key 1"), TOO_FEW);
    assert_eq!(client.ask("GET key"), "Null");
    assert_eq!(client.ask("CONFIG SET min-replicas-durable 0"), "OK");
    assert_eq!(client.ask("SET key 1"), "OK");
}

fn a_write_waits_for_the_replica_and_others_do_not() {
    let (server, mut writer, mut replica) = settled("60000");
    let (mut reader, mut other) = (server.connect(), server.connect());
    send(&mut writer, "SET key 1");
    assert!(!is_answered(&mut writer));
    send(&mut reader, "GET key");
    assert!(!is_answered(&mut reader), "it shows the change");
    assert_eq!(other.ask("GET old"), "1");
    assert_eq!(other.ask("PING"), "PONG");
    replica.acknowledge(offset(&server));
    assert_eq!(receive(&mut writer), "OK");
    assert_eq!(receive(&mut reader), "1");
}

fn a_replica_is_asked_at_once() {
    let (server, mut writer, mut replica) = settled("60000");
    send(&mut writer, "SET key 1");
    replica.0.up_to(b"GETACK");
    replica.acknowledge(offset(&server));
    assert_eq!(receive(&mut writer), "OK");
}

fn replies_that_wait_too_long_are_errors() {
    let (server, mut writer, mut replica) = settled("500");
    let mut reader = server.connect();
    ["SET key 1", "GET key", "INCR n"].iter().for_each(|command| send(&mut writer, command));
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    assert_eq!(reader.ask("GET key"), NOT_CONFIRMED, "what it shows is not confirmed");
    assert_eq!(reader.ask("GET old"), "1");
    replica.acknowledge(offset(&server));
    eventually("the change is confirmed", || reader.ask("GET key") == "1");
    assert_eq!(writer.ask("PING"), "PONG");
}

fn a_demoted_primary_confirms_nothing() {
    let (server, mut writer, _replica) = settled("60000");
    let mut administrator = server.connect();
    send(&mut writer, "SET key 1");
    assert!(!is_answered(&mut writer));
    assert_eq!(administrator.ask("REPLICAOF 127.0.0.1 1"), "OK");
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    assert_eq!(administrator.ask("GET key"), "1", "a replica's reads wait for nobody");
}

fn the_option_can_be_switched_off_while_replies_wait() {
    let (server, mut writer, _replica) = settled("60000");
    send(&mut writer, "SET key 1");
    assert!(!is_answered(&mut writer));
    assert_eq!(server.connect().ask("CONFIG SET min-replicas-durable 0"), "OK");
    assert_eq!(receive(&mut writer), "OK");
}

fn replies_stay_in_order_while_fsyncs_are_under_way() {
    let server = Process::start(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--io-threads-always-active",
        "yes",
    ]);
    let mut client = server.connect();
    for round in 0..300 {
        for _ in 0..5 {
            send(&mut client, "INCR n");
            if round % 3 > 0 {
                std::thread::sleep(Duration::from_micros(50 * round % 7));
            }
            send(&mut client, "PING");
        }
        for n in 1..=5 {
            assert_eq!(receive(&mut client), (5 * round + n).to_string());
            assert_eq!(receive(&mut client), "PONG");
        }
    }
}

fn replicas_confirm_within_a_few_milliseconds() {
    let (server, mut writer, mut replica) = settled("60000");
    let mut offset = offset(&server);
    let began = Instant::now();
    for _ in 0..50 {
        send(&mut writer, "SET key 1");
        replica.0.up_to(b"GETACK\r\n$1\r\n*\r\n");
        offset += 1000;
        replica.acknowledge(self::offset(&server).min(offset));
        assert_eq!(receive(&mut writer), "OK");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

fn a_session_that_has_changed_is_closed_and_not_answered_with_errors() {
    let (server, mut client, _replica) = settled("300");
    client.stream.write_all(&[encode(&[b"SELECT", b"3"]), encode(&[b"SET", b"x", b"1"])].concat()).unwrap();
    assert!(client.receive().is_none());
    let mut client = server.connect();
    assert_eq!(client.ask("SELECT 3"), "OK");
    assert_eq!(client.ask("SET x 1"), NOT_CONFIRMED);
}

fn invalidations_come_though_changes_are_not_confirmed() {
    let (server, mut writer, _replica) = settled("300");
    let mut reader = server.connect();
    reader.ask("HELLO 3");
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "OK");
    assert_eq!(reader.ask("GET old"), "1");
    assert_eq!(writer.ask("SET old 2"), NOT_CONFIRMED);
    assert_eq!(receive(&mut reader), "[invalidate [old]]");
}

/// A reply that the client does not read yet, before one that waits.
fn what_was_sent_in_part_does_not_wait() {
    let (server, mut client, _replica) = settled("300");
    let value = "+".repeat(20_000_000);
    assert_eq!(server.connect().ask("CONFIG SET min-replicas-durable 0"), "OK");
    assert_eq!(client.ask(&format!("SET big {value}")), "OK");
    assert_eq!(server.connect().ask("CONFIG SET min-replicas-durable 1"), "OK");
    send(&mut client, "GET big");
    std::thread::sleep(WHILE);
    send(&mut client, "SET x 1");
    std::thread::sleep(WHILE);
    assert_eq!(receive(&mut client).len(), value.len());
    assert_eq!(receive(&mut client), NOT_CONFIRMED);
}

fn a_failed_fsync_ends_nothing_that_was_not_promised() {
    let (server, mut client, mut replica) = settled("60000");
    assert_eq!(client.ask("CONFIG SET appendonly yes appendfsync no"), "OK");
    send(&mut client, "SET key 1");
    replica.0.up_to(b"GETACK");
    replica.acknowledge(offset(&server));
    assert_eq!(receive(&mut client), "OK");
    assert_eq!(client.ask("PING"), "PONG");
}

fn the_last_connections_of_failed_replies_are_closed() {
    let (server, mut writer, _replica) = settled("300");
    let mut listeners: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for listener in &mut listeners {
        listener.ask("SUBSCRIBE channel");
    }
    writer
        .stream
        .write_all(&[encode(&[b"SET", b"x", b"1"]), encode(&[b"PUBLISH", b"channel", b"a"])].concat())
        .unwrap();
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    assert_eq!(receive(&mut writer), NOT_CONFIRMED);
    for listener in &mut listeners {
        assert!(listener.is_closed_by_server());
    }
    eventually("they are gone", || info(&mut server.connect(), "connected_clients") == "2");
}

fn many_pipelines_are_answered_in_order_under_always() {
    let server = Process::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mut client = server.connect();
            scope.spawn(move || {
                for round in 0..20 {
                    let mut bytes = Vec::new();
                    let key = format!("key{number}");
                    for n in 0..50 {
                        let value = format!("{round}-{n}");
                        bytes.extend(encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
                        bytes.extend(encode(&[b"GET", key.as_bytes()]));
                        bytes.extend(encode(&[b"GET", b"none"]));
                    }
                    std::io::Write::write_all(&mut client.stream, &bytes).unwrap();
                    for n in 0..50 {
                        assert_eq!(receive(&mut client), "OK");
                        assert_eq!(receive(&mut client), format!("{round}-{n}"));
                        assert_eq!(receive(&mut client), "Null");
                    }
                }
            });
        }
    });
    let mut client = server.connect();
    eventually("all is confirmed", || info(&mut client, "unconfirmed_turns") == "0");
    assert_eq!(info(&mut client, "unconfirmed_keys"), "0");
}

fn a_client_that_has_sent_its_last_request_gets_its_replies() {
    let server = Process::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    for _ in 0..50 {
        let mut client = server.connect();
        send(&mut client, "SET key 1");
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive(&mut client), "OK");
        assert!(client.receive().is_none());
    }
    let mut client = server.connect();
    send(&mut client, "SET key 2");
    send(&mut client, "QUIT");
    assert_eq!(receive(&mut client), "OK");
    assert_eq!(receive(&mut client), "OK");
    assert!(client.receive().is_none());
    drop(client);
    eventually("they are gone", || info(&mut server.connect(), "connected_clients") == "1");
}

tests_with_io_threads!(
    writes_are_refused_without_replicas,
    a_write_waits_for_the_replica_and_others_do_not,
    a_replica_is_asked_at_once,
    replies_that_wait_too_long_are_errors,
    a_demoted_primary_confirms_nothing,
    the_option_can_be_switched_off_while_replies_wait,
    many_pipelines_are_answered_in_order_under_always,
    a_client_that_has_sent_its_last_request_gets_its_replies,
    replies_stay_in_order_while_fsyncs_are_under_way,
    replicas_confirm_within_a_few_milliseconds,
    a_session_that_has_changed_is_closed_and_not_answered_with_errors,
    invalidations_come_though_changes_are_not_confirmed,
    what_was_sent_in_part_does_not_wait,
    a_failed_fsync_ends_nothing_that_was_not_promised,
    the_last_connections_of_failed_replies_are_closed,
);
