//! A process that is asked to end while a replica, which these tests play by hand, lacks something: it waits, ends all the
//! same once the time is over, or does not end and goes on as before.

use crate::fake_primary::{ID, Primary, by_length, full_resync, snapshot};
use crate::process::{Client, PATIENCE, Process, encode, eventually, shown};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

fn offset(server: &Process) -> u64 {
    server.info("master_repl_offset").unwrap().parse().unwrap()
}

struct Replica(TcpStream);

impl Replica {
    fn online(server: &Process) -> Replica {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&encode(&[b"PSYNC", b"?", b"-1"])).unwrap();
        eventually("it is online", || {
            server.info("slave0").is_some_and(|line| line.contains("state=online"))
        });
        Replica(stream)
    }

    fn acknowledge(&mut self, offset: u64) {
        self.0.write_all(&encode(&[b"REPLCONF", b"ACK", offset.to_string().as_bytes()])).unwrap();
    }

    /// All that it has been sent, once its primary is gone.
    fn received(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        bytes
    }
}

fn start(options: &[&str]) -> (Process, Client<TcpStream>, Replica) {
    let server = Process::start(
        &[&["--repl-diskless-sync", "no", "--repl-ping-replica-period", "3600"], options].concat(),
    );
    let replica = Replica::online(&server);
    let mut client = server.connect();
    assert_eq!(client.ask("SET before 1"), "OK");
    (server, client, replica)
}

fn answer(client: &mut Client<TcpStream>) -> String {
    shown(&client.receive().expect("the server answers"))
}

fn it_waits_until_all_is_acknowledged_and_accepts_no_write_meanwhile() {
    for by_signal in [true, false] {
        let (mut server, mut client, mut replica) = start(&["--shutdown-timeout", "3600"]);
        let wanted = offset(&server);
        let mut stopping = server.connect();
        match by_signal {
            true => server.signal(Signal::TERM),
            false => stopping.send(&[b"SHUTDOWN"]),
        }
        eventually("it waits", || server.info("shutdown_in_milliseconds").is_some());
        assert_eq!(server.info("paused_reason").unwrap(), "shutdown_in_progress");
        let mut writer = server.connect();
        writer.send(&[b"SET", b"behind", b"1"]);
        server.eventually_shows("blocked_clients", if by_signal { "1" } else { "2" });
        // The last of its bytes ask for the acknowledgement itself, and are no data.
        assert!(offset(&server) > wanted);
        replica.acknowledge(wanted - 1);
        assert_eq!(client.ask("GET before"), "1");
        replica.acknowledge(wanted);
        assert_eq!(server.wait().code(), Some(0));
        assert!(writer.receive().is_none(), "it was not acknowledged");
        let received = String::from_utf8_lossy(&replica.received()).into_owned();
        assert!(received.contains("before") && !received.contains("behind"));
    }
}

fn it_ends_when_the_time_is_over_or_nobody_is_to_be_waited_for() {
    let (mut server, _, _replica) = start(&["--shutdown-timeout", "1"]);
    let started = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(started.elapsed() >= Duration::from_secs(1));
    let by_signal = ["--shutdown-timeout", "3600", "--shutdown-on-sigterm", "now"];
    for (options, command) in
        [(&["--shutdown-timeout", "0"][..], "SHUTDOWN"), (&by_signal[..2], "SHUTDOWN NOW"), (&by_signal, "")]
    {
        let (mut server, mut client, _replica) = start(options);
        match command {
            "" => server.signal(Signal::TERM),
            command => client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()),
        }
        assert_eq!(server.wait().code(), Some(0));
    }
    // Of a second SIGINT no question is asked.
    let (mut server, _, _replica) = start(&["--shutdown-timeout", "3600"]);
    server.signal(Signal::INT);
    eventually("it waits", || server.info("shutdown_in_milliseconds").is_some());
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(1));
}

fn an_end_that_is_called_off_leaves_everything_as_it_was() {
    let (mut server, mut client, _replica) = start(&["--shutdown-timeout", "3600"]);
    assert_eq!(client.ask("SHUTDOWN ABORT"), "ERR No shutdown in progress.");
    let mut stopping = [server.connect(), server.connect()];
    stopping.iter_mut().for_each(|client| client.send(&[b"SHUTDOWN"]));
    server.eventually_shows("blocked_clients", "2");
    let id = stopping[1].stream.local_addr().unwrap();
    let listed = client.ask("CLIENT LIST");
    let line = listed.lines().find(|line| line.contains(&format!("addr={id} "))).unwrap();
    let id = line.split(' ').next().unwrap().strip_prefix("id=").unwrap();
    assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}")), "0");
    let mut writer = server.connect();
    writer.send(&[b"INCR", b"before"]);
    server.eventually_shows("blocked_clients", "3");
    assert_eq!(client.ask("SHUTDOWN ABORT"), "OK");
    stopping.iter_mut().for_each(|client| assert_eq!(answer(client), FAILED));
    assert_eq!(answer(&mut writer), "2");
    assert_eq!(server.info("shutdown_in_milliseconds"), None);
    assert_eq!(server.info("paused_reason").unwrap(), "none");
    client.send(&[b"SHUTDOWN", b"NOW", b"NOSAVE"]);
    assert_eq!(server.wait().code(), Some(0));
}

fn who_waits_for_the_end_waits_on_when_the_role_changes() {
    let (mut server, mut client, mut replica) = start(&["--shutdown-timeout", "3600"]);
    let mut stopping = server.connect();
    stopping.send(&[b"SHUTDOWN"]);
    server.eventually_shows("blocked_clients", "1");
    let primary = Primary::listen();
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert_eq!(server.info("blocked_clients").unwrap(), "1");
    replica.acknowledge(offset(&server));
    assert!(stopping.receive().is_none());
    assert_eq!(server.wait().code(), Some(0));
}

/// What its primary sends waits, too: otherwise the stream would go on and on.
fn a_replica_with_replicas_of_its_own_waits_for_what_they_lack_now() {
    for is_called_off in [true, false] {
        let primary = Primary::listen();
        let mut server = primary.replica(&["--shutdown-timeout", "3600", "--repl-diskless-sync", "no"]);
        let (mut link, _) = primary.accept_and_greet();
        link.send(full_resync(ID, 100));
        link.send(by_length(&snapshot(0, &[("a", "1")])));
        link.expect_acknowledged(100);
        let mut replica = Replica::online(&server);
        let wanted = 100 + link.send_command("INCR a") as u64;
        link.expect_acknowledged(wanted);
        let mut stopping = server.connect();
        stopping.send(&[b"SHUTDOWN"]);
        server.eventually_shows("blocked_clients", "1");
        let more = link.send_command("INCR a") as u64;
        let mut client = server.connect();
        if is_called_off {
            assert_eq!(client.ask("SHUTDOWN ABORT"), "OK");
            link.expect_acknowledged(wanted + more);
            assert_eq!(client.ask("GET a"), "3");
            continue;
        }
        replica.acknowledge(wanted);
        assert_eq!(server.wait().code(), Some(0));
    }
}

fn a_script_that_has_begun_meanwhile_is_waited_for() {
    let (mut server, _, mut replica) = start(&["--shutdown-timeout", "3600", "--busy-reply-threshold", "10"]);
    let mut stopping = server.connect();
    stopping.send(&[b"SHUTDOWN"]);
    server.eventually_shows("blocked_clients", "1");
    let wanted = offset(&server);
    let mut client = server.connect();
    client.send(&[b"EVAL", b"#!lua flags=no-writes\nfor i = 1, 2e8 do end return 'done'", b"0"]);
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
    replica.acknowledge(wanted);
    assert_eq!(answer(&mut client), "done");
    assert_eq!(server.wait().code(), Some(0));
}

fn snapshot_file(server: &Process) -> Vec<u8> {
    std::fs::read(server.directory.join("dump.rdb")).unwrap()
}

fn holds(snapshot: &[u8], name: &[u8]) -> bool {
    snapshot.windows(name.len()).any(|part| part == name)
}

/// Once the time is over, one that only reads is ended.
fn a_script_that_has_begun_meanwhile_holds_no_end_up() {
    let options = ["--shutdown-timeout", "2", "--busy-reply-threshold", "10", "--save", "3600 1000000"];
    let (mut server, _, _replica) = start(&options);
    server.signal(Signal::TERM);
    let mut client = server.connect();
    eventually("it waits", || server.info("shutdown_in_milliseconds").is_some());
    client.send(&[b"EVAL_RO", b"while true do redis.call('get', KEYS[1]) end", b"1", b"before"]);
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
    let asked = Instant::now();
    assert_eq!(server.wait().code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    if let Some(reply) = client.receive() {
        assert!(shown(&reply).contains("the server is shutting down"), "{reply:?}");
    }
    assert!(holds(&snapshot_file(&server), b"before"));
}

/// One that has written and did not end in its own time does so in that of the replicas.
fn a_script_that_was_given_up_and_ends_is_saved() {
    let options = ["--shutdown-timeout", "5", "--busy-reply-threshold", "1", "--save", "3600 1000000"];
    let (mut server, _, _replica) = start(&[&options[..], &["--logfile", "log"]].concat());
    let mut client = server.connect();
    let script = "redis.call('set', KEYS[1], 1) \
        local function now() local t = redis.call('TIME') return t[1] + t[2] / 1000000 end \
        local until_s = now() + 6.5 while now() < until_s do end return 'ended'";
    client.send(&[b"EVAL", script.as_bytes(), b"1", b"by_script"]);
    let mut other = server.connect();
    eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(answer(&mut client), "ended");
    let log = std::fs::read_to_string(server.directory.join("log")).unwrap();
    assert!(log.contains("has not ended in time"), "it was given up: {log}");
    let snapshot = snapshot_file(&server);
    assert!(holds(&snapshot, b"before") && holds(&snapshot, b"by_script"), "{log}");
}

tests_with_io_threads!(
    it_waits_until_all_is_acknowledged_and_accepts_no_write_meanwhile,
    it_ends_when_the_time_is_over_or_nobody_is_to_be_waited_for,
    an_end_that_is_called_off_leaves_everything_as_it_was,
    who_waits_for_the_end_waits_on_when_the_role_changes,
    a_replica_with_replicas_of_its_own_waits_for_what_they_lack_now,
    a_script_that_has_begun_meanwhile_is_waited_for,
    a_script_that_has_begun_meanwhile_holds_no_end_up,
    a_script_that_was_given_up_and_ends_is_saved,
);
