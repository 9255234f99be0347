//! The primary's side of replication, spoken to by hand: handshakes, full and partial syncs, the stream byte for byte, and
//! replicas that lie, stall or vanish.

use crate::fake_replica::{Replica, Snapshot};
use crate::process::{self, Client, Process, encode, eventually, info};
use std::net::TcpStream;
use std::time::Duration;

const DISK: &[&str] = &["--repl-diskless-sync", "no"];
const PIPE: &[&str] = &["--repl-diskless-sync-delay", "0"];

fn start(options: &[&str]) -> (Process, Client<TcpStream>) {
    // Nothing but what the test does is in the stream.
    let options: Vec<&str> = [&["--repl-ping-replica-period", "3600"], options].concat();
    let server = Process::start(&options);
    let client = server.connect();
    (server, client)
}

fn contains(rdb: &[u8], part: &str) -> bool {
    rdb.windows(part.len()).any(|window| window == part.as_bytes())
}

fn a_replica_gets_all_data_and_then_every_change() {
    for options in [DISK, PIPE] {
        let (server, mut client) = start(options);
        client.ask("SET before 1");
        let mut replica = Replica::introduced(&server);
        let snapshot = replica.full_sync();
        assert!(snapshot.rdb.starts_with(b"VALKEY080"));
        for part in ["before", "repl-id", "repl-offset", "repl-stream-db", &snapshot.id] {
            assert!(contains(&snapshot.rdb, part), "{part}");
        }
        replica.acknowledge(snapshot.offset);
        let mut offset = replica.expect(&["PING"]);
        assert_eq!(client.ask("SET a 1"), "OK");
        client.ask("MULTI");
        client.ask("INCR n");
        client.ask("SPOP none");
        client.ask("DEL a");
        client.ask("EXEC");
        client.ask("SELECT 3");
        client.ask("RPUSH list x");
        offset += replica.expect(&[
            "SELECT 0",
            "SET a 1",
            "MULTI",
            "INCR n",
            "DEL a",
            "EXEC",
            "SELECT 3",
            "RPUSH list x",
        ]);
        // What is published is heard there too, and scripts may leave replicas out.
        client.ask("PUBLISH channel message");
        let script = [
            "redis.set_repl(redis.REPL_AOF)",
            "redis.call('SET','here','1')",
            "redis.set_repl(redis.REPL_ALL)",
            "redis.call('SET','there','1')",
        ];
        client.send(&[b"EVAL", script.join("\n").as_bytes(), b"0"]);
        client.receive();
        offset += replica.expect(&["PUBLISH channel message", "SET there 1"]);
        assert_eq!(info(&mut client, "master_repl_offset"), offset.to_string());
        replica.acknowledge(offset);
        eventually("the acknowledgement", || {
            info(&mut client, "slave0")
                == format!("ip=127.0.0.1,port=7777,state=online,offset={offset},lag=0,type=replica")
        });
        assert_eq!(client.ask("ROLE"), format!("[master {offset} [[127.0.0.1 7777 {offset}]]]"));
        assert!(client.ask("CLIENT LIST TYPE replica").contains(" flags=S "));
        assert_eq!(client.ask("CLIENT KILL TYPE replica"), "1");
        assert!(replica.is_closed());
        assert_eq!(info(&mut client, "connected_slaves"), "0");
    }
}

fn a_replica_that_comes_back_gets_what_it_has_missed() {
    let (server, mut client) = start(DISK);
    let mut replica = Replica::introduced(&server);
    let Snapshot { id, offset, .. } = replica.full_sync();
    replica.acknowledge(offset);
    client.ask("SET a 1");
    let seen = replica.expect(&["PING", "SELECT 0", "SET a 1"]);
    drop(replica);
    let large = "x".repeat(100_000);
    client.ask(&format!("SET b {large}"));
    client.ask("SET c 1");
    let mut replica = Replica::introduced(&server);
    assert_eq!(replica.ask(&format!("PSYNC {id} {}", seen + 1)), format!("+CONTINUE {id}"));
    replica.expect(&[&format!("SET b {large}"), "SET c 1"]);
    // A replica without the psync2 capability gets no id.
    let mut old = Replica::connect(&server);
    let next: u64 = info(&mut client, "master_repl_offset").parse::<u64>().unwrap() + 1;
    assert_eq!(old.ask(&format!("PSYNC {id} {next}")), "+CONTINUE");
    client.ask("SET d 1");
    old.expect(&["SET d 1"]);
    // Nobody goes on from what there is not.
    let end = info(&mut client, "master_repl_offset").parse::<i64>().unwrap();
    let other = "f".repeat(40);
    for (id, next) in [(&id, end + 2), (&id, i64::MAX), (&id, 0), (&id, i64::MIN), (&other, 1)] {
        let mut liar = Replica::introduced(&server);
        assert!(liar.ask(&format!("PSYNC {id} {next}")).starts_with("+FULLRESYNC"), "{next}");
    }
    assert_eq!(info(&mut client, "sync_partial_ok"), "2");
    assert_eq!(info(&mut client, "sync_partial_err"), "5");
}

/// The id of the history of a server that has ended after `keys` in the databases 0 and 3 had expired unseen, the offset up
/// to which a replica has it, and the server that has loaded the data.
fn restarted(keys: usize, options: &[&str]) -> (String, u64, Process, Client<TcpStream>) {
    let set = |index: usize| {
        let select = if index.is_multiple_of(2) { "SELECT 0" } else { "SELECT 3" };
        [select.to_owned(), format!("SET key:{index} 1 PX 1")]
    };
    let commands: Vec<String> =
        std::iter::once("SET kept 1".to_owned()).chain((0..keys).flat_map(set)).collect();
    restarted_after(&commands, options)
}

/// As [`restarted`], after these commands.
fn restarted_after(
    commands: &[impl AsRef<str>],
    options: &[&str],
) -> (String, u64, Process, Client<TcpStream>) {
    let (mut before, mut client) = start(&[DISK, &["--enable-debug-command", "yes"]].concat());
    let mut replica = Replica::introduced(&before);
    let Snapshot { id, offset, .. } = replica.full_sync();
    replica.acknowledge(offset);
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    for command in commands {
        client.ask(command.as_ref());
    }
    drop(replica);
    eventually("the replica is gone", || info(&mut client, "connected_slaves") == "0");
    let seen = info(&mut client, "master_repl_offset").parse().unwrap();
    let directory = client.ask("CONFIG GET dir");
    let directory = directory.trim_matches(['[', ']']).split(' ').nth(1).unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(10));
    client.send(&[b"SHUTDOWN", b"SAVE"]);
    assert!(before.wait().success());
    let (server, mut client) = start(&[&["--dir", &directory], DISK, options].concat());
    eventually("the data is loaded", || info(&mut client, "loading") == "0");
    (id, seen, server, client)
}

fn who_comes_back_to_a_server_that_has_started_again_hears_of_what_had_expired() {
    let at_once = ["--lazyfree-lazy-expire", "no"];
    for (options, removal) in [(&at_once[..], "DEL"), (&[], "UNLINK")] {
        let (id, seen, server, mut client) = restarted(2, options);
        assert_eq!(info(&mut client, "rdb_last_load_keys_expired"), "2");
        assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), "1");
        assert_eq!(info(&mut client, "expired_keys"), "0", "nobody had to look for them");
        let mut replica = Replica::introduced(&server);
        let own = info(&mut client, "master_replid");
        assert_eq!(info(&mut client, "master_replid2"), id);
        assert_eq!(info(&mut client, "second_repl_offset"), (seen + 1).to_string());
        assert_eq!(replica.ask(&format!("PSYNC {id} {}", seen + 1)), format!("+CONTINUE {own}"));
        let (first, second) = (format!("{removal} key:0"), format!("{removal} key:1"));
        let sent = replica.expect(&["SELECT 0", &first, "SELECT 3", &second]);
        assert_eq!(info(&mut client, "master_repl_offset"), (seen + sent).to_string());
        client.ask("SET next 1");
        replica.expect(&["SELECT 0", "SET next 1"]);
        // Who has seen what followed under the old id is on another history.
        let mut other = Replica::introduced(&server);
        assert!(other.ask(&format!("PSYNC {id} {}", seen + 2)).starts_with("+FULLRESYNC"));
    }
}

fn fields_that_had_expired_are_left_out_too() {
    let commands = [
        "HSET hash a 1 b 2",
        "HPEXPIRE hash 1 FIELDS 1 a",
        "HSET mesh f 1",
        "HPEXPIRE mesh 1 FIELDS 1 f",
        "HSET none f 1",
        "HEXPIRE none 1000 FIELDS 1 f",
    ];
    let (id, seen, server, mut client) = restarted_after(&commands, &[]);
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), "2");
    assert_eq!(info(&mut client, "expired_fields"), "0", "nobody had to look for them");
    assert_eq!(client.ask("HGETALL hash"), "[b 2]");
    assert_eq!(client.ask("EXISTS mesh none"), "1");
    let mut replica = Replica::introduced(&server);
    let own = info(&mut client, "master_replid");
    assert_eq!(replica.ask(&format!("PSYNC {id} {}", seen + 1)), format!("+CONTINUE {own}"));
    replica.expect(&["SELECT 0"]);
    let [first, second] = ["hash a", "mesh f"].map(|rest| {
        let words = format!("HDEL {rest}");
        encode(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    });
    let sent = replica.exactly(first.len() + second.len());
    assert!(sent == [&first[..], &second].concat() || sent == [second, first].concat());
}

fn what_had_expired_is_left_out_of_a_reload_and_replicas_hear_of_it() {
    let (server, mut client) = start(&["--enable-debug-command", "yes"]);
    let mut replica = Replica::introduced(&server);
    let online_at = replica.go_online();
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ask("HSETEX hash PX 1 FIELDS 1 f 1");
    client.ask("SET key 1 PX 1");
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(client.ask("DEBUG RELOAD"), "OK");
    assert_eq!(client.ask("DBSIZE"), "0");
    let offset: usize = info(&mut client, "master_repl_offset").parse().unwrap();
    let sent = replica.exactly(offset - online_at as usize);
    let sent = String::from_utf8_lossy(&sent);
    for removal in ["UNLINK\r\n$3\r\nkey", "HDEL\r\n$4\r\nhash"] {
        assert!(sent.contains(removal), "{sent}");
    }
}

fn what_had_expired_is_forgotten_where_it_is_more_than_a_backlog_holds() {
    let (id, seen, server, mut client) = restarted(4000, &["--repl-backlog-size", "16384"]);
    assert_eq!(info(&mut client, "rdb_last_load_keys_expired"), "4000");
    let first: u64 = info(&mut client, "repl_backlog_first_byte_offset").parse().unwrap();
    assert!(first > seen + 1, "{first} {seen}");
    let mut replica = Replica::introduced(&server);
    assert!(replica.ask(&format!("PSYNC {id} {}", seen + 1)).starts_with("+FULLRESYNC"));
    assert_eq!(client.ask("DBSIZE"), "1");
}

fn waiting_for_replicas_ends_with_what_they_really_have() {
    let (server, mut client) = start(PIPE);
    let mut replica = Replica::introduced(&server);
    let offset = replica.go_online();
    assert_eq!(client.ask("SET a 1"), "OK");
    let mut seen = offset + replica.expect(&["SELECT 0", "SET a 1"]);
    client.send(&[b"WAIT", b"1", b"0"]);
    seen += replica.expect(&["REPLCONF GETACK *"]);
    // No replica has bytes that were not sent.
    replica.send(&format!("REPLCONF ACK {}", u64::MAX >> 1));
    replica.send("REPLCONF ACK -5");
    replica.send("REPLCONF ACK many");
    replica.acknowledge(offset);
    let mut other = server.connect();
    assert_eq!(other.ask("WAIT 0 0"), "1", "it has written nothing");
    assert_eq!(other.ask("WAIT 2 1"), "1");
    replica.expect(&["REPLCONF GETACK *"]);
    eventually("one waits", || info(&mut other, "blocked_clients") == "1");
    replica.acknowledge(seen);
    assert_eq!(process::shown(&client.receive().unwrap()), "1");
    // On disk is another matter.
    assert_eq!(client.ask("WAITAOF 0 1 1"), "[0 0]");
    replica.expect(&["REPLCONF GETACK *"]);
    replica.send(&format!("REPLCONF ACK {seen} FACK {seen}"));
    eventually("it is on disk", || client.ask("WAITAOF 0 1 10") == "[0 1]");
    client.ask("CONFIG SET min-replicas-to-write 1");
    assert_eq!(client.ask("SET a 2"), "OK");
    client.ask("CONFIG SET min-replicas-to-write 2");
    assert!(client.ask("SET a 3").starts_with("NOREPLICAS"));
    assert_eq!(client.ask("GET a"), "2");
}

fn several_replicas_are_fed_by_one_child_and_one_that_stalls_or_goes_holds_up_nobody() {
    let options =
        ["--repl-diskless-sync-delay", "2", "--repl-diskless-sync-max-replicas", "4", "--repl-timeout", "6"];
    let (server, mut client) = start(&[&options[..], &["--enable-debug-command", "yes"]].concat());
    client.ask("DEBUG POPULATE 60000 key 200");
    let mut replicas: Vec<Replica> = (0..4).map(|_| Replica::introduced(&server)).collect();
    replicas.iter_mut().for_each(|replica| replica.send("PSYNC ? -1"));
    let mut stalled = replicas.pop().unwrap();
    drop(replicas.pop());
    let mut first = replicas.pop().unwrap();
    let mut second = replicas.pop().unwrap();
    let taking = std::thread::spawn(move || {
        assert!(second.line().starts_with("+FULLRESYNC"));
        second.snapshot().len()
    });
    assert!(first.line().starts_with("+FULLRESYNC"));
    let rdb = first.snapshot();
    assert_eq!(rdb.len(), taking.join().unwrap());
    assert!(contains(&rdb, "key:59999"));
    client.ask("SET after 1");
    first.acknowledge(0);
    first.expect(&["SELECT 0", "SET after 1"]);
    assert!(stalled.is_closed());
    assert_eq!(info(&mut client, "total_forks"), "1");
}

fn a_sync_that_everybody_leaves_is_given_up() {
    let options = ["--rdb-key-save-delay", "1000", "--enable-debug-command", "yes"];
    for kind in [DISK, PIPE] {
        let (server, mut client) = start(&[kind, &options].concat());
        client.ask("DEBUG POPULATE 20000 key 100");
        let mut replica = Replica::introduced(&server);
        assert!(replica.ask("PSYNC ? -1").starts_with("+FULLRESYNC"));
        assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
        drop(replica);
        eventually("the child is gone", || info(&mut client, "rdb_bgsave_in_progress") == "0");
        // What is flushed is not sent any more.
        let mut replica = Replica::introduced(&server);
        assert!(replica.ask("PSYNC ? -1").starts_with("+FULLRESYNC"));
        assert_eq!(client.ask("FLUSHALL"), "OK");
        assert!(replica.is_closed());
        eventually("nobody is left", || info(&mut client, "connected_slaves") == "0");
        let mut replica = Replica::introduced(&server);
        assert!(!contains(&replica.full_sync().rdb, "key:"));
    }
}

fn what_a_child_wrote_is_sent_wherever_the_options_point_by_then() {
    let options =
        ["--rdb-key-save-delay", "500", "--rdb-del-sync-files", "yes", "--enable-debug-command", "yes"];
    let (server, mut client) = start(&[DISK, &options, &["--enable-protected-configs", "yes"]].concat());
    client.ask("DEBUG POPULATE 2000 key 10");
    let other = server.directory.join("other");
    std::fs::create_dir_all(&other).unwrap();
    for (option, value, decoy) in
        [("dbfilename", "other.rdb", "other.rdb"), ("dir", other.to_str().unwrap(), "other/other.rdb")]
    {
        let decoy = server.directory.join(decoy);
        std::fs::write(&decoy, "no snapshot of anything").unwrap();
        let mut replica = Replica::introduced(&server);
        assert!(replica.ask("PSYNC ? -1").starts_with("+FULLRESYNC"));
        assert_eq!(client.ask(&format!("CONFIG SET {option} {value}")), "OK");
        let rdb = replica.snapshot();
        assert!(rdb.starts_with(b"VALKEY080") && contains(&rdb, "key:1999"), "{option}");
        let names = || std::fs::read_dir(&server.directory).unwrap().flatten().map(|entry| entry.file_name());
        let kept = if option == "dir" { "other" } else { "other.rdb" };
        eventually("only the decoy is left", || names().all(|name| name == kept || name == "other"));
        assert_eq!(std::fs::read(&decoy).unwrap(), b"no snapshot of anything");
        let _ = std::fs::remove_file(&decoy);
    }
}

fn replicas_are_answered_nothing_and_told_what_is_wrong_before() {
    let (server, mut client) = start(DISK);
    let mut replica = Replica::introduced(&server);
    for (words, answer) in [
        ("PSYNC ? x", "-ERR value is not an integer or out of range"),
        ("PSYNC ? -1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master."),
        ("REPLCONF ACK", "-ERR syntax error"),
        ("REPLCONF rdb-filter-only all", "-ERR Unsupported rdb-filter-only option: all"),
        ("MULTI", "+OK"),
        ("PSYNC ? -1", "-ERR Command 'psync' not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ] {
        assert_eq!(replica.ask(words), answer, "{words}");
    }
    // Neither acknowledges anything, nor is it answered.
    replica.send("REPLCONF ACK 5");
    replica.send("REPLCONF GETACK *");
    assert_eq!(replica.ask("PING"), "+PONG");
    replica.0.send(&[encode(&[b"PING"]), encode(&[b"SYNC"])].concat());
    assert_eq!(replica.line(), "+PONG");
    assert_eq!(replica.line(), "-ERR SYNC and PSYNC are invalid with pending output");
    replica.go_online();
    replica.send("SYNC");
    replica.send("PSYNC ? -1");
    client.ask("SET a 1");
    replica.expect(&["SELECT 0", "SET a 1"]);
    replica.send("GET a");
    assert!(replica.is_closed());
    let mut old = Replica::connect(&server);
    old.send("SYNC");
    assert!(contains(&old.snapshot(), "repl-id"));
    client.ask("SET b 1");
    old.expect(&["SELECT 0", "SET b 1"]);
    assert_eq!(info(&mut client, "connected_slaves"), "1");
}

fn what_a_replica_can_read_is_what_it_gets() {
    let log = ["--logfile", "log", "--hide-user-data-from-log", "no"];
    let (server, mut client) = start(&[DISK, &log].concat());
    client.ask("HSET plain field value");
    client.ask(
        "FUNCTION LOAD #!lua\u{20}name=lib\nserver.register_function('f',function()return\u{20}1\u{20}end)",
    );
    let mut redis = Replica::connect(&server);
    redis.ask("REPLCONF capa eof capa psync2");
    assert!(redis.full_sync().rdb.starts_with(b"REDIS0011"));
    let mut only = Replica::introduced(&server);
    only.ask("REPLCONF rdb-only 1");
    assert!(contains(&only.full_sync().rdb, "plain"));
    assert!(only.is_closed());
    let mut filtered = Replica::introduced(&server);
    filtered.send("REPLCONF rdb-only 1 rdb-filter-only functions");
    filtered.line();
    assert!(!contains(&filtered.full_sync().rdb, "plain"));
    // Fields that expire have no form that it could read; others go on.
    assert_eq!(client.ask("HSETEX expiring EX 1000 FIELDS 1 f v"), "1");
    let mut redis = Replica::connect(&server);
    redis.ask("REPLCONF capa eof");
    assert!(redis.ask("PSYNC ? -1").starts_with("+FULLRESYNC"));
    assert!(redis.is_closed());
    let log = std::fs::read_to_string(server.directory.join("log")).unwrap();
    assert!(log.contains("Can't store key 'expiring' (db 0) in RDB version 11"), "{log}");
    // It is not tried again for each that comes.
    for request in ["PSYNC ? -1", "SYNC"] {
        let mut redis = Replica::connect(&server);
        redis.ask("REPLCONF capa eof");
        let refusal = "-ERR a key has no form in RDB version 11, which replicas of releases before 9.0 read";
        assert_eq!(redis.ask(request), refusal);
        assert!(redis.is_closed());
    }
    let log = std::fs::read_to_string(server.directory.join("log")).unwrap();
    assert_eq!(log.matches("Can't store key").count(), 1, "{log}");
    assert!(log.contains("this hash needs version 80"), "{log}");
    let mut replica = Replica::introduced(&server);
    assert!(contains(&replica.full_sync().rdb, "expiring"));
}

fn who_reads_too_slowly_is_closed_and_what_is_kept_for_it_is_bounded() {
    let limit = ["--client-output-buffer-limit", "replica 4mb 0 0", "--repl-backlog-size", "1mb"];
    let (server, mut client) = start(&[DISK, &limit].concat());
    let mut replica = Replica::introduced(&server);
    replica.go_online();
    let large = "x".repeat(100_000);
    for _ in 0..400 {
        assert_eq!(client.ask(&format!("SET key {large}")), "OK");
    }
    eventually("it is closed", || info(&mut client, "connected_slaves") == "0");
    assert_eq!(info(&mut client, "client_output_buffer_limit_disconnections"), "1");
    assert!(info(&mut client, "mem_total_replication_buffers").parse::<u64>().unwrap() < 6 << 20);
    let first: u64 = info(&mut client, "repl_backlog_first_byte_offset").parse().unwrap();
    assert!(first > 30_000_000, "{first}");
    eventually("the backlog is short", || {
        info(&mut client, "repl_backlog_histlen").parse::<u64>().unwrap() < (1 << 20) + (1 << 16)
    });
}

fn what_a_replica_has_yet_to_be_sent_is_shown() {
    let limit = ["--client-output-buffer-limit", "replica 0 0 0", "--repl-backlog-size", "1mb"];
    for kind in [DISK, PIPE] {
        let (server, mut client) = start(&[kind, &limit].concat());
        let mut replica = Replica::introduced(&server);
        assert_eq!(info(&mut client, "rdb_last_bgsave_time_sec"), "-1");
        replica.go_online();
        assert_ne!(info(&mut client, "rdb_last_bgsave_time_sec"), "-1");
        assert_eq!(info(&mut client, "connected_clients"), "1", "replicas are counted by themselves");
        let large = "x".repeat(1 << 20);
        for _ in 0..40 {
            assert_eq!(client.ask(&format!("SET key {large}")), "OK");
        }
        let unsent = |client: &mut Client<TcpStream>| -> u64 {
            let line = client.ask("CLIENT LIST TYPE replica");
            let word = line.split(' ').find_map(|word| word.strip_prefix("omem=")).unwrap();
            word.parse().unwrap()
        };
        eventually("much is unsent", || unsent(&mut client) > 10 << 20);
        let of_replicas: u64 = info(&mut client, "mem_clients_slaves").parse().unwrap();
        assert!(of_replicas > 10 << 20, "{of_replicas}");
        assert_ne!(info(&mut client, "instantaneous_output_repl_kbps"), "0.00");
        replica.0.exactly(40 << 20);
        eventually("all is sent", || unsent(&mut client) == 0);
        let sent: u64 = info(&mut client, "total_net_repl_output_bytes").parse().unwrap();
        assert!((40 << 20..41 << 20).contains(&sent), "{sent}");
    }
}

fn what_is_kept_for_replicas_evicts_nothing() {
    let kept = ["--repl-backlog-size", "4mb", "--maxmemory-policy", "allkeys-lru"];
    let (server, mut client) = start(&[PIPE, &kept].concat());
    for key in 0..100 {
        client.ask(&format!("SET key:{key} value"));
    }
    let mut replica = Replica::introduced(&server);
    replica.go_online();
    let value = "x".repeat(100_000);
    client.ask(&format!("SET large {value}"));
    let used: u64 = info(&mut client, "used_memory").parse().unwrap();
    client.ask(&format!("CONFIG SET maxmemory {}", used + (1 << 20)));
    // The replica does not read: what its socket does not take stays here.
    for _ in 0..300 {
        assert_eq!(client.ask(&format!("SET large {value}")), "OK");
    }
    let number = |client: &mut Client<TcpStream>, field: &str| info(client, field).parse::<u64>().unwrap();
    let buffers = number(&mut client, "mem_total_replication_buffers");
    assert!(buffers > 4 << 20, "{buffers}");
    assert_eq!(number(&mut client, "mem_not_counted_for_evict"), buffers);
    assert_eq!(number(&mut client, "evicted_keys"), 0);
    assert_eq!(client.ask("DBSIZE"), "101");
}

fn many_that_ask_and_vanish_leave_nothing() {
    let (server, mut client) = start(PIPE);
    for round in 0..400 {
        let mut replica = Replica::connect(&server);
        if round % 2 == 0 {
            replica.ask("REPLCONF capa eof version 9.1.2");
        }
        replica.send(if round % 3 == 0 { "SYNC" } else { "PSYNC ? -1" });
    }
    eventually("all are gone", || info(&mut client, "connected_slaves") == "0");
    eventually("no child is left", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    let mut replica = Replica::introduced(&server);
    replica.go_online();
    client.ask("SET a 1");
    replica.expect(&["SELECT 0", "SET a 1"]);
}

fn a_waiting_replica_hears_of_its_primary_and_a_silent_one_is_dropped() {
    let options =
        ["--repl-diskless-sync-delay", "3", "--repl-timeout", "2", "--repl-ping-replica-period", "1"];
    let server = Process::start(&options);
    let mut client = server.connect();
    let mut replica = Replica::introduced(&server);
    replica.send("PSYNC ? -1");
    assert_eq!(replica.byte(), b'\n', "while it waits");
    assert!(replica.line().starts_with("+FULLRESYNC"));
    replica.snapshot();
    replica.send("REPLCONF ACK 0");
    replica.expect(&["PING"]);
    assert!(replica.is_closed(), "it acknowledges nothing");
    eventually("it is gone", || info(&mut client, "connected_slaves") == "0");
}

fn a_replica_that_loads_for_long_and_shows_signs_of_life_is_kept() {
    let server = Process::start(&[PIPE, &["--repl-timeout", "2"]].concat());
    let mut client = server.connect();
    client.ask("SET before 1");
    let mut replica = Replica::introduced(&server);
    replica.full_sync();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(400));
        replica.0.send(b"\n");
    }
    replica.acknowledge(0);
    replica.expect(&["PING"]);
    assert_eq!(info(&mut client, "connected_slaves"), "1");
}

fn a_pause_of_clients_is_none_of_replicas() {
    let (server, mut client) = start(PIPE);
    let mut replica = Replica::introduced(&server);
    let offset = replica.full_sync().offset;
    client.ask("SET a 1");
    assert_eq!(client.ask("CLIENT PAUSE 60000"), "OK");
    // The stream begins with the acknowledgement.
    replica.acknowledge(offset);
    replica.expect(&["SELECT 0", "SET a 1"]);
}

fn a_file_that_a_transaction_switches_on_takes_nothing_from_the_stream() {
    let (server, mut client) = start(PIPE);
    let mut replica = Replica::introduced(&server);
    replica.go_online();
    for command in ["MULTI", "SET a 1", "CONFIG SET appendonly yes", "SET b 2", "EXEC"] {
        client.ask(command);
    }
    replica.expect(&["MULTI", "SELECT 0", "SET a 1", "SET b 2", "EXEC"]);
}

fn who_has_not_acknowledged_has_nothing() {
    let (server, mut client) = start(&[PIPE, &["--appendonly", "yes"]].concat());
    client.ask("SET before 1");
    let mut replica = Replica::introduced(&server);
    let offset = replica.full_sync().offset;
    eventually("it is online", || info(&mut client, "slave0").contains("state=online"));
    assert_eq!(client.ask("WAIT 1 50"), "0");
    replica.acknowledge(offset);
    assert_eq!(client.ask("WAIT 1 0"), "1");
    assert!(client.ask("WAITAOF 0 1 50").ends_with(" 0]"), "it has no file");
}

fn what_debug_makes_up_is_not_in_the_stream() {
    let (server, mut client) = start(&[PIPE, &["--enable-debug-command", "yes"]].concat());
    let mut replica = Replica::introduced(&server);
    replica.go_online();
    assert_eq!(client.ask("DEBUG POPULATE 10"), "OK");
    client.ask("SET a 1");
    replica.expect(&["SELECT 0", "SET a 1"]);
}

tests_with_io_threads!(
    a_replica_gets_all_data_and_then_every_change,
    a_replica_that_comes_back_gets_what_it_has_missed,
    who_comes_back_to_a_server_that_has_started_again_hears_of_what_had_expired,
    fields_that_had_expired_are_left_out_too,
    what_had_expired_is_left_out_of_a_reload_and_replicas_hear_of_it,
    what_had_expired_is_forgotten_where_it_is_more_than_a_backlog_holds,
    waiting_for_replicas_ends_with_what_they_really_have,
    several_replicas_are_fed_by_one_child_and_one_that_stalls_or_goes_holds_up_nobody,
    a_sync_that_everybody_leaves_is_given_up,
    what_a_child_wrote_is_sent_wherever_the_options_point_by_then,
    replicas_are_answered_nothing_and_told_what_is_wrong_before,
    what_a_replica_can_read_is_what_it_gets,
    who_reads_too_slowly_is_closed_and_what_is_kept_for_it_is_bounded,
    what_a_replica_has_yet_to_be_sent_is_shown,
    what_is_kept_for_replicas_evicts_nothing,
    many_that_ask_and_vanish_leave_nothing,
    a_waiting_replica_hears_of_its_primary_and_a_silent_one_is_dropped,
    a_replica_that_loads_for_long_and_shows_signs_of_life_is_kept,
    a_pause_of_clients_is_none_of_replicas,
    a_file_that_a_transaction_switches_on_takes_nothing_from_the_stream,
    who_has_not_acknowledged_has_nothing,
    what_debug_makes_up_is_not_in_the_stream,
);
