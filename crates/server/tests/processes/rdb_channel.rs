//! A primary that sends a snapshot over one connection and the stream over another, to replicas that are played by hand.

use crate::fake_replica::Replica;
use crate::process::{Client, Process, eventually, info};
use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::engine::{Executor, Flow, Seeds};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use structures::hash::HashSeed;

const CHANNELS: [&str; 10] = [
    "--rdbcompression",
    "no",
    "--dual-channel-replication-enabled",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "3600",
    "--enable-debug-command",
    "yes",
];
const RDB_CHANNEL: &str = "REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7777 version 9.1.2";
/// More than sockets take: who writes a snapshot of these waits for who reads it.
const MANY_KEYS: &str = "DEBUG POPULATE 30000 key 1000";
const MANY_KEYS_BYTES: usize = 30_000_000;

/// What the primary says before a snapshot of where it stands.
struct Promise {
    offset: u64,
    id: String,
    client_id: String,
}

fn start(options: &[&str]) -> (Process, Client<TcpStream>) {
    let server = Process::start(&[&CHANNELS, options].concat());
    let client = server.connect();
    (server, client)
}

/// The main channel of a replica that was asked to open the other one.
fn main_channel(server: &Process) -> Replica {
    let mut main = Replica::introduced(server);
    assert_eq!(main.ask("REPLCONF capa dual-channel"), "+OK");
    assert_eq!(main.ask("PSYNC ? -1"), "+DUALCHANNELSYNC");
    main
}

/// One that waits for its snapshot.
fn rdb_channel(server: &Process) -> Replica {
    let mut rdb = Replica::connect(server);
    assert_eq!(rdb.ask(RDB_CHANNEL), "+OK");
    rdb.send("SYNC");
    rdb
}

fn promise(rdb: &mut Replica) -> Promise {
    let line = rdb.line();
    let words: Vec<&str> = line.split(' ').collect();
    let [offset, id, _, client_id] = words[..] else { panic!("{line}") };
    let offset = offset.strip_prefix("$ENDOFF:").unwrap().parse().unwrap();
    Promise { offset, id: id.to_owned(), client_id: client_id.to_owned() }
}

/// Both channels, the stream being kept for the main one.
fn promised(server: &Process) -> (Replica, Replica, Promise) {
    let (main, mut rdb) = (main_channel(server), rdb_channel(server));
    let promise = promise(&mut rdb);
    (main, rdb, promise)
}

fn join(main: &mut Replica, promise: &Promise) {
    assert_eq!(main.ask(&format!("REPLCONF set-rdb-client-id {}", promise.client_id)), "+OK");
    let answer = main.ask(&format!("PSYNC {} {}", promise.id, promise.offset + 1));
    assert_eq!(answer, format!("+CONTINUE {}", promise.id));
}

fn waiting(client: &mut Client<TcpStream>) -> String {
    info(client, "replicas_waiting_psync")
}

fn a_snapshot_and_the_stream_come_side_by_side() {
    let (server, mut client) = start(&[]);
    client.ask(MANY_KEYS);
    client.ask("SELECT 2");
    client.ask("SET before 1");
    let (mut main, mut rdb, promise) = promised(&server);
    assert_eq!(waiting(&mut client), "1");
    join(&mut main, &promise);
    assert_eq!(waiting(&mut client), "0");
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
    let slaves = |client: &mut Client<TcpStream>| [info(client, "slave0"), info(client, "slave1")];
    let [first, second] = slaves(&mut client);
    assert_eq!(first, "ip=127.0.0.1,port=7777,state=wait_bgsave,offset=0,lag=0,type=rdb-channel");
    assert_eq!(second, "ip=127.0.0.1,port=7777,state=bg_transfer,offset=0,lag=0,type=main-channel");
    // Nothing of the snapshot has been read, and the stream passes by it.
    client.ask("SET after 2");
    let mut offset = promise.offset + main.expect(&["SELECT 2", "SET after 2"]);
    let snapshot = rdb.snapshot();
    assert!(snapshot.len() > MANY_KEYS_BYTES && snapshot.starts_with(b"VALKEY080"));
    assert!(rdb.is_closed());
    eventually("one connection is left", || info(&mut client, "connected_slaves") == "1");
    assert!(info(&mut client, "slave0").contains("state=bg_transfer"), "it has yet to load");
    main.acknowledge(offset);
    eventually("it is online", || info(&mut client, "slave0").contains("state=online"));
    assert!(info(&mut client, "slave0").ends_with("type=replica"));
    client.ask("SET more 3");
    offset += main.expect(&["SET more 3"]);
    assert_eq!(info(&mut client, "master_repl_offset"), offset.to_string());
    assert_eq!(
        (info(&mut client, "sync_full"), info(&mut client, "sync_partial_ok")),
        ("1".into(), "1".into())
    );
    assert!(info(&mut client, "total_net_repl_output_bytes").parse::<usize>().unwrap() > MANY_KEYS_BYTES);
}

fn the_stream_is_kept_until_the_main_channel_asks_for_it() {
    let (server, mut client) = start(&["--repl-backlog-size", "16kb"]);
    let (mut main, mut rdb, promise) = promised(&server);
    rdb.snapshot();
    let value = "v".repeat(1000);
    for _ in 0..1000 {
        client.ask(&format!("SET k {value}"));
    }
    assert!(info(&mut client, "repl_backlog_histlen").parse::<u64>().unwrap() > 1_000_000);
    join(&mut main, &promise);
    main.expect(&["SELECT 0"]);
    for _ in 0..1000 {
        main.expect(&[&format!("SET k {value}")]);
    }
    eventually("what has been sent is given back", || {
        info(&mut client, "repl_backlog_histlen").parse::<u64>().unwrap() < 200_000
    });
}

fn what_the_channel_is_not_made_for_goes_another_way() {
    for (options, capability) in [
        (&["--dual-channel-replication-enabled", "no"][..], "dual-channel"),
        (&["--repl-diskless-sync", "no"], "dual-channel"),
        (&[], "psync2"),
    ] {
        let (server, _client) = start(options);
        let mut replica = Replica::introduced(&server);
        assert_eq!(replica.ask(&format!("REPLCONF capa {capability}")), "+OK");
        replica.full_sync();
    }
    let (server, mut client) = start(&[]);
    client.ask("SET a 1");
    for options in ["capa eof rdb-channel 1", "rdb-only 1 rdb-channel 1", "capa eof rdb-only 1 rdb-channel 0"]
    {
        let mut replica = Replica::connect(&server);
        assert_eq!(replica.ask(&format!("REPLCONF {options}")), "+OK");
        replica.send("SYNC");
        assert!(!replica.snapshot().is_empty(), "{options}");
    }
    let mut replica = Replica::connect(&server);
    assert_eq!(replica.ask(RDB_CHANNEL), "+OK");
    assert!(!replica.full_sync().rdb.is_empty(), "PSYNC is answered as ever");
    assert_eq!(waiting(&mut client), "0");
}

#[test]
fn who_names_a_client_that_nothing_is_kept_for_is_told_so() {
    let (server, mut client) = start(&[]);
    let (mut main, mut rdb, promise) = promised(&server);
    for id in ["0", "-1", "4711", "9223372036854775807"] {
        let refusal = format!("-ERR Unrecognized RDB client id {id}");
        assert_eq!(main.ask(&format!("REPLCONF set-rdb-client-id {id}")), refusal);
    }
    // What is asked for is not there: the replica has to begin anew, and what was kept for it still is.
    assert_eq!(main.ask(&format!("REPLCONF set-rdb-client-id {}", promise.client_id)), "+OK");
    assert_eq!(main.ask(&format!("PSYNC {} 4711", promise.id)), "+DUALCHANNELSYNC");
    assert_eq!(main.ask("PSYNC ? -1"), "+DUALCHANNELSYNC");
    assert_eq!(waiting(&mut client), "1");
    join(&mut main, &promise);
    // A second one finds the stream as any replica does.
    let mut other = Replica::introduced(&server);
    let refusal = format!("-ERR Unrecognized RDB client id {}", promise.client_id);
    assert_eq!(other.ask(&format!("REPLCONF set-rdb-client-id {}", promise.client_id)), refusal);
    rdb.snapshot();
    assert!(rdb.is_closed());
}

#[test]
fn what_is_kept_is_given_back_when_nobody_comes_for_it() {
    let (server, mut client) = start(&["--repl-backlog-size", "16kb"]);
    client.ask("DEBUG DELAY-RDB-CLIENT-FREE-SECONDS 1");
    let (mut main, mut rdb, promise) = promised(&server);
    rdb.snapshot();
    assert!(rdb.is_closed());
    assert_eq!(waiting(&mut client), "1", "the main channel may yet come");
    for _ in 0..100 {
        client.ask(&format!("SET k {}", "v".repeat(10_000)));
    }
    eventually("the time is over", || waiting(&mut client) == "0");
    eventually("nothing is kept", || {
        info(&mut client, "repl_backlog_histlen").parse::<u64>().unwrap() < 200_000
    });
    let question = format!("REPLCONF set-rdb-client-id {}", promise.client_id);
    assert!(main.ask(&question).starts_with("-ERR Unrecognized"));
    assert_eq!(main.ask(&format!("PSYNC {} {}", promise.id, promise.offset + 1)), "+DUALCHANNELSYNC");
}

/// Takes a snapshot slowly until something is so; how much of it: at most two megabytes a second, so that one of
/// `MANY_KEYS_BYTES` takes longer than any test waits, whatever sockets buffer of it.
fn dawdle_until(rdb: &mut Replica, what: &str, mut is_over: impl FnMut() -> bool) -> usize {
    let (mut taken, mut some) = (0, vec![0; 40_000]);
    rdb.0.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    eventually(what, || {
        taken += std::io::Read::read(&mut rdb.0.stream, &mut some).unwrap_or(0);
        is_over()
    });
    taken
}

#[test]
fn what_no_main_channel_comes_for_is_kept_no_longer_than_replicas_are_waited_for() {
    let (server, mut client) = start(&["--repl-timeout", "2"]);
    client.send(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"replica 0 0 0"]);
    client.receive().unwrap();
    client.ask("DEBUG DELAY-RDB-CLIENT-FREE-SECONDS 1");
    client.ask(MANY_KEYS);
    let (_main, mut rdb, _) = promised(&server);
    assert_eq!(waiting(&mut client), "1");
    let taken = dawdle_until(&mut rdb, "nothing is kept", || waiting(&mut client) == "0");
    assert!(taken < MANY_KEYS_BYTES, "the snapshot was under way: {taken}");
    eventually("the child has gone", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut client, "connected_slaves"), "0");
}

#[test]
fn a_main_channel_may_be_silent_only_while_its_snapshot_is_under_way() {
    let (server, mut client) = start(&["--repl-timeout", "3"]);
    client.ask(MANY_KEYS);
    let (mut main, mut rdb, promise) = promised(&server);
    join(&mut main, &promise);
    let started = Instant::now();
    dawdle_until(&mut rdb, "time passes", || started.elapsed() > Duration::from_secs(5));
    assert_eq!(info(&mut client, "connected_slaves"), "2", "the snapshot is taken");
    drop(rdb);
    let started = Instant::now();
    assert!(main.is_closed());
    assert!(started.elapsed() > Duration::from_secs(2), "it may be loading");
    eventually("nobody is there", || info(&mut client, "connected_slaves") == "0");
}

#[test]
fn several_channels_that_take_nothing_are_waited_for_at_the_same_time() {
    let gathered = ["--repl-diskless-sync-delay", "3600", "--repl-diskless-sync-max-replicas", "5"];
    let (server, mut client) = start(&[&gathered[..], &["--repl-timeout", "3"]].concat());
    client.ask("DEBUG DELAY-RDB-CLIENT-FREE-SECONDS 60");
    client.ask(MANY_KEYS);
    let mut channels: Vec<Replica> = (0..5).map(|_| rdb_channel(&server)).collect();
    promise(&mut channels[4]);
    let started = Instant::now();
    assert!(channels[4].snapshot().len() > MANY_KEYS_BYTES);
    let seconds = started.elapsed().as_secs_f32();
    assert!((2.0..9.0).contains(&seconds), "four silent ones took {seconds} seconds");
}

#[test]
fn no_more_is_kept_than_a_replica_may_be_behind() {
    let (server, mut client) = start(&["--repl-backlog-size", "16kb"]);
    client.send(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"replica 1mb 0 0"]);
    client.receive().unwrap();
    client.ask(MANY_KEYS);
    let (_main, mut rdb, _) = promised(&server);
    for _ in 0..30 {
        client.ask(&format!("SET k {}", "v".repeat(100_000)));
    }
    assert_eq!(waiting(&mut client), "0");
    assert!(rdb.is_closed());
    assert_eq!(info(&mut client, "client_output_buffer_limit_disconnections"), "1");
    eventually("the child has gone", || info(&mut client, "rdb_bgsave_in_progress") == "0");
}

#[test]
fn a_channel_that_is_cut_ends_its_snapshot_and_no_other() {
    let (server, mut client) =
        start(&["--repl-diskless-sync-delay", "3600", "--repl-diskless-sync-max-replicas", "2"]);
    client.ask(MANY_KEYS);
    let (mut first, mut second) = (rdb_channel(&server), rdb_channel(&server));
    let promises = [promise(&mut first), promise(&mut second)];
    assert_ne!(promises[0].client_id, promises[1].client_id);
    assert_eq!(info(&mut client, "total_forks"), "1");
    first.exactly(10_000);
    first.0.stream.shutdown(Shutdown::Both).unwrap();
    assert!(second.snapshot().len() > MANY_KEYS_BYTES);
    assert!(second.is_closed());
    client.ask("CONFIG SET repl-diskless-sync-delay 0");
    let mut last = rdb_channel(&server);
    promise(&mut last);
    last.exactly(10_000);
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
    drop(last);
    eventually("the child has gone", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    assert_eq!(client.ask("PING"), "PONG");
}

#[test]
fn half_a_snapshot_ends_without_its_mark() {
    let (server, mut client) = start(&["--repl-timeout", "2"]);
    client.ask(MANY_KEYS);
    for how in ["CLIENT KILL TYPE replica", "BGSAVE CANCEL", "PING", "FLUSHALL"] {
        let mut rdb = rdb_channel(&server);
        promise(&mut rdb);
        let mark = rdb.line().strip_prefix("$EOF:").unwrap().to_owned();
        // A replica that reads nothing for longer than the timeout.
        client.ask(how);
        eventually(&format!("the child has gone after {how}"), || {
            info(&mut client, "rdb_bgsave_in_progress") == "0"
        });
        assert!(!rdb.ends_with(&mark), "{how}");
    }
}

#[test]
fn a_channel_that_takes_nothing_does_not_have_replicas_of_its_release_refused() {
    let (server, mut client) = start(&["--repl-timeout", "2", "--logfile", "log"]);
    client.ask(MANY_KEYS);
    let mut rdb = Replica::connect(&server);
    assert_eq!(rdb.ask("REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7777"), "+OK");
    rdb.send("SYNC");
    promise(&mut rdb);
    assert!(rdb.line().starts_with("$EOF:"));
    // It reads nothing for longer than it may.
    eventually("the child has gone", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    let log = std::fs::read_to_string(server.directory.join("log")).unwrap();
    assert!(log.contains("Write error sending the data to replicas"), "the child has ended by itself: {log}");
    let mut next = Replica::connect(&server);
    assert_eq!(next.ask("REPLCONF capa eof"), "+OK");
    assert!(next.full_sync().rdb.starts_with(b"REDIS0011"));
}

/// A server whose sockets are not served: its output stays until the test takes it.
struct Unserved(Executor);

impl Unserved {
    fn new(config: Config) -> Self {
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        Unserved(Executor::new(config, Clock::standing_at(1_767_225_600_000), identity, seeds))
    }

    fn channel(&mut self) -> ClientHandle {
        let handle = self.0.connect(ConnectionFigures { is_loopback: true, ..ConnectionFigures::default() });
        for command in [RDB_CHANNEL, "SYNC"] {
            let args = OwnedArgs::new(command.split(' ').map(str::as_bytes));
            self.0.begin_tick();
            let mut reply = self.0.borrow_output(handle);
            let request = self.0.request(args.view());
            let _: Flow = self.0.execute_into(handle, request, &mut reply);
            self.0.return_output(handle, reply);
            self.0.end_tick();
            self.take_output(handle);
        }
        handle
    }

    fn take_output(&mut self, handle: ClientHandle) {
        self.0.server.clients[handle].output.take();
    }

    fn pass_a_second(&mut self) {
        self.0.clock.advance_ms(1000);
        self.0.begin_tick();
        self.0.run_timers();
        self.0.end_tick();
    }
}

#[test]
fn a_channel_whose_socket_takes_nothing_keeps_no_other_from_its_snapshot() {
    let config = Config { repl_timeout_seconds: 5, repl_diskless_sync_delay_seconds: 0, ..Config::default() };
    let mut server = Unserved::new(config);
    let (full, empty) = (server.channel(), server.channel());
    for _ in 0..5 {
        server.pass_a_second();
        server.take_output(empty);
        assert_eq!(server.0.rdb_channels_due(), [full, empty]);
        assert!(!server.0.server.clients[full].close_asap);
    }
    for _ in 0..2 {
        server.pass_a_second();
        server.take_output(empty);
    }
    assert!(server.0.server.clients[full].close_asap, "it has not taken the signs of life");
    server.0.disconnect(full);
    assert_eq!(server.0.rdb_channels_due(), [empty]);
    assert!(!server.0.server.clients[empty].close_asap);
}

tests_with_io_threads!(
    a_snapshot_and_the_stream_come_side_by_side,
    the_stream_is_kept_until_the_main_channel_asks_for_it,
    what_the_channel_is_not_made_for_goes_another_way,
);
