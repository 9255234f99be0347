//! A replica that is sent a snapshot over one connection and the stream over another, by a primary that is played by hand:
//! what it makes of both, of either one's end at any moment, and of lies.

use crate::fake_primary::{
    ID, Link, MARK, OTHER_ID, Primary, by_length, by_mark, encoded, eventually_answers, full_resync,
    large_snapshot, snapshot,
};
use crate::process::{Client, Process, eventually, info};
use std::net::TcpStream;

const CHANNELS: [&str; 2] = ["--dual-channel-replication-enabled", "yes"];
const PROMISE: &str = "$ENDOFF:100 0123456789abcdef0123456789abcdef01234567 -1 7\r\n";

/// Both connections of a replica, the second one for the snapshot.
struct Channels {
    main: Link,
    rdb: Link,
}

/// Up to where the replica waits for its snapshot.
fn open(primary: &Primary) -> Channels {
    let (mut main, _) = primary.accept_and_greet();
    main.send("+DUALCHANNELSYNC\r\n");
    let mut rdb = primary.accept();
    let words = rdb.command();
    assert_eq!(
        words[..8],
        ["REPLCONF", "capa", "eof", "rdb-only", "1", "rdb-channel", "1", "listening-port"]
    );
    assert_eq!(words[9], "version");
    rdb.send("+OK\r\n");
    rdb.0.up_to(b"SYNC\r\n");
    Channels { main, rdb }
}

/// Up to where the replica takes in both.
fn promised(primary: &Primary) -> Channels {
    let mut channels = open(primary);
    channels.rdb.send(PROMISE);
    join(&mut channels.main);
    channels
}

fn join(main: &mut Link) {
    assert_eq!(main.command(), ["REPLCONF", "set-rdb-client-id", "7"]);
    main.send("+OK\r\n");
    assert_eq!(main.command(), ["PSYNC", ID, "101"]);
    main.send(format!("+CONTINUE {ID}\r\n"));
}

fn start(primary: &Primary, options: &[&str]) -> Process {
    primary.replica(&[&CHANNELS, options].concat())
}

fn kept_bytes(client: &mut Client<TcpStream>) -> u64 {
    info(client, "replicas_repl_buffer_size").parse().unwrap()
}

fn what_comes_beside_the_snapshot_is_applied_behind_it() {
    for load in ["disabled", "swapdb", "flush-before-load"] {
        let primary = Primary::listen();
        let replica = start(&primary, &["--repl-diskless-load", load]);
        let Channels { mut main, mut rdb } = promised(&primary);
        let mut client = replica.connect();
        let sent = snapshot(0, &[("a", "1"), ("b", "1")]);
        let sent = by_mark(&sent);
        let (first, second) = sent.split_at(sent.len() - 50);
        rdb.send(first);
        let commands =
            ["SELECT 0", "SET b 2", "INCR n", "SELECT 3", "MULTI", "SET c 3", "INCR n", "EXEC", "SET d 4"];
        let stream: Vec<u8> = commands.iter().flat_map(|command| encoded(command)).collect();
        // In two halves, with signs of life between.
        let (kept, later) = stream.split_at(stream.len() - 5);
        main.send(kept);
        eventually("it is kept", || kept_bytes(&mut client) == kept.len() as u64);
        assert_eq!(
            info(&mut client, "mem_replicas_repl_buffer"),
            info(&mut client, "mem_total_replication_buffers")
        );
        assert_eq!(info(&mut client, "master_link_status"), "down");
        rdb.send(second);
        assert!(rdb.is_closed());
        let offset = 100 + stream.len() as u64;
        main.expect_acknowledgement(|words| words[2].parse::<u64>().unwrap() < offset);
        main.send(later);
        main.expect_acknowledged(offset);
        for (command, answer) in [("GET a", "1"), ("GET b", "2"), ("GET n", "1"), ("DBSIZE", "3")] {
            assert_eq!(client.ask(command), answer, "{load}: {command}");
        }
        client.ask("SELECT 3");
        assert_eq!(client.ask("MGET c n d"), "[3 1 4]");
        assert_eq!((kept_bytes(&mut client), info(&mut client, "master_link_status")), (0, "up".to_owned()));
        assert_eq!(info(&mut client, "replicas_repl_buffer_peak"), kept.len().to_string());
        // It goes on from there as ever.
        main.vanish();
        let (_, psync) = primary.accept_and_greet();
        assert_eq!(psync, ["PSYNC", ID, &(offset + 1).to_string()]);
    }
}

fn more_is_kept_than_may_be_only_by_the_primary() {
    let primary = Primary::listen();
    let limit = ["--client-output-buffer-limit", "replica 100kb 0 0"];
    let replica = start(&primary, &limit);
    let Channels { mut main, mut rdb } = promised(&primary);
    let mut client = replica.connect();
    rdb.send(format!("$EOF:{MARK}\r\n"));
    let command = encoded(&format!("APPEND k {}", "v".repeat(1000)));
    let (bytes, count) = (command.len() as u64, 20_000);
    let mut writer = main.0.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        for _ in 0..count {
            std::io::Write::write_all(&mut writer, &command).unwrap();
        }
    });
    eventually("the limit is reached", || kept_bytes(&mut client) > 100_000);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(kept_bytes(&mut client) < 800_000, "more than a turn's reads beyond it");
    assert!(!sending.is_finished(), "the rest waits at the other end");
    rdb.send([snapshot(0, &[("a", "1")]), MARK.as_bytes().to_vec()].concat());
    main.expect_acknowledged(100 + count * bytes);
    sending.join().unwrap();
    assert_eq!(client.ask("STRLEN k"), (count * 1000).to_string());
}

tests_with_io_threads!(
    what_comes_beside_the_snapshot_is_applied_behind_it,
    more_is_kept_than_may_be_only_by_the_primary,
);

#[test]
fn the_stream_may_be_promised_long_before_it_is_given() {
    for (load, rdb_vanishes) in [("disabled", false), ("swapdb", false), ("disabled", true), ("swapdb", true)]
    {
        let primary = Primary::listen();
        let replica = start(&primary, &["--repl-diskless-load", load]);
        let Channels { mut main, mut rdb } = open(&primary);
        rdb.send(PROMISE);
        assert_eq!(main.command(), ["REPLCONF", "set-rdb-client-id", "7"]);
        rdb.send(by_mark(&snapshot(2, &[("a", "1")])));
        if rdb_vanishes {
            rdb.vanish();
        }
        let mut client = replica.connect();
        eventually_answers(&mut client, "GET a", "1");
        assert_eq!(info(&mut client, "master_link_status"), "down");
        main.send("+OK\r\n");
        assert_eq!(main.command(), ["PSYNC", ID, "101"]);
        main.send("+CONTINUE\r\n");
        let offset = 100 + main.send_command("SET in 2") as u64;
        main.expect_acknowledged(offset);
        client.ask("SELECT 2");
        assert_eq!(client.ask("GET in"), "2", "the stream is about the database that the snapshot names");
    }
}

#[test]
fn what_the_primary_may_not_do_is_not_asked_for() {
    let primary = Primary::listen();
    let _replica = primary.replica(&[]);
    let mut main = primary.accept();
    assert_eq!(main.command(), ["PING"]);
    main.send("+PONG\r\n");
    for words in [&["listening-port"][..], &["capa", "eof", "capa", "psync2"]] {
        let command = main.command();
        assert_eq!(command[1..=words.len()], *words);
        assert!(!command.contains(&"dual-channel".to_owned()));
        main.send("+OK\r\n");
    }
    main.command();
    main.send("+OK\r\n");
    main.command();
    main.send("+DUALCHANNELSYNC\r\n");
    // As any answer that makes no sense.
    main.0.up_to(b"SYNC\r\n");
}

#[test]
fn both_connections_prove_who_they_are() {
    let primary = Primary::listen();
    let options =
        ["--primaryuser", "replica", "--primaryauth", "secret", "--replica-announce-ip", "10.0.0.5"];
    let _replica = start(&primary, &options);
    let mut main = primary.accept();
    assert_eq!(main.command(), ["PING"]);
    main.send("-NOAUTH\r\n");
    assert_eq!(main.command(), ["AUTH", "replica", "secret"]);
    main.send("+OK\r\n");
    while main.command()[1] != "version" {
        main.send("+OK\r\n");
    }
    main.send("+OK\r\n");
    main.command();
    main.send("+DUALCHANNELSYNC\r\n");
    let mut rdb = primary.accept();
    assert_eq!(rdb.command(), ["AUTH", "replica", "secret"]);
    assert_eq!(rdb.command()[5..7], ["rdb-channel", "1"]);
    assert_eq!(rdb.command(), ["REPLCONF", "ip-address", "10.0.0.5"]);
    rdb.send("+OK\r\n+OK\r\n+OK\r\n");
    rdb.0.up_to(b"SYNC\r\n");
    rdb.send("\n\n");
    rdb.send("-NOMASTERLINK not yet\r\n");
    assert!(rdb.is_closed() && main.is_closed());
    assert_eq!(primary.accept().command(), ["PING"], "it is tried again");
}

/// A replica that has `old` = 1 of a sync before, and is at the offset 50.
fn with_old_data(primary: &Primary, options: &[&str]) -> (Process, Client<TcpStream>) {
    let replica = start(primary, options);
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(OTHER_ID, 50));
    link.send(by_length(&snapshot(0, &[("old", "1")])));
    link.expect_acknowledged(50);
    link.vanish();
    let client = replica.connect();
    (replica, client)
}

#[test]
fn a_sync_that_is_cut_leaves_what_was_there() {
    let whole = by_mark(&large_snapshot(1000));
    for load in ["disabled", "swapdb"] {
        let primary = Primary::listen();
        let (_replica, mut client) = with_old_data(&primary, &["--repl-diskless-load", load]);
        for stage in 0..6 {
            for cuts_main in [true, false] {
                let mut channels = if stage < 2 { open(&primary) } else { promised(&primary) };
                if stage == 1 {
                    channels.rdb.send(PROMISE);
                    channels.main.command();
                }
                if stage >= 3 {
                    channels.main.send_command("SET kept 1");
                }
                match stage {
                    4 => channels.rdb.send(&whole[..30]),
                    5 => channels.rdb.send(&whole[..whole.len() - 20]),
                    _ => {}
                }
                let Channels { main, rdb } = channels;
                let (cut, mut other) = if cuts_main { (main, rdb) } else { (rdb, main) };
                cut.vanish();
                assert!(other.is_closed(), "{load}: stage {stage}, main: {cuts_main}");
                eventually_answers(&mut client, "GET old", "1");
                assert_eq!(client.ask("EXISTS kept key:1"), "0");
            }
        }
        let Channels { mut main, mut rdb } = promised(&primary);
        rdb.send(&whole);
        let offset = 100 + main.send_command("SET kept 1") as u64;
        main.expect_acknowledged(offset);
        assert_eq!(client.ask("EXISTS old kept key:1"), "2");
    }
}

#[test]
fn what_makes_no_sense_ends_both_connections() {
    let primary = Primary::listen();
    let (_replica, mut client) = with_old_data(&primary, &[]);
    for wrong in [
        "$ENDOFF:100 0123 -1 7\r\n".to_owned(),
        format!("$ENDOFF:-1 {ID} -1 7\r\n"),
        format!("$ENDOFF:100 {ID} -1\r\n"),
        format!("$EOF:{MARK}\r\n"),
        "+FULLRESYNC\r\n".to_owned(),
        "x".repeat(2000),
    ] {
        let Channels { mut main, mut rdb } = open(&primary);
        rdb.send(&wrong);
        assert!(rdb.is_closed() && main.is_closed(), "{wrong}");
    }
    for wrong in [
        format!("+CONTINUE {OTHER_ID}\r\n"),
        format!("+FULLRESYNC {ID} 100\r\n"),
        "+DUALCHANNELSYNC\r\n".to_owned(),
        "-ERR no\r\n".to_owned(),
        "x".repeat(2000),
    ] {
        let Channels { mut main, mut rdb } = open(&primary);
        rdb.send(PROMISE);
        main.command();
        main.send("+OK\r\n");
        main.command();
        main.send(&wrong);
        assert!(main.is_closed() && rdb.is_closed(), "{wrong}");
    }
    // Nothing is due on the main channel before the promise.
    let Channels { mut main, mut rdb } = open(&primary);
    main.send("x".repeat(2000));
    assert!(main.is_closed() && rdb.is_closed());
    let Channels { mut main, mut rdb } = open(&primary);
    rdb.send(PROMISE);
    main.command();
    main.send("-ERR Unrecognized RDB client id 7\r\n");
    assert!(main.is_closed() && rdb.is_closed());
    let (mut main, _) = primary.accept_and_greet();
    main.send("+DUALCHANNELSYNC\r\n");
    let mut rdb = primary.accept();
    rdb.command();
    rdb.send("-ERR Unrecognized REPLCONF option: rdb-channel\r\n");
    assert!(rdb.is_closed() && main.is_closed());
    assert_eq!(client.ask("GET old"), "1");
}

#[test]
fn a_stream_that_cannot_be_applied_is_left_behind_the_snapshot() {
    let primary = Primary::listen();
    let _replica = start(&primary, &[]);
    let Channels { mut main, mut rdb } = promised(&primary);
    main.send("*1\r\n$x\r\n");
    rdb.send(by_mark(&snapshot(0, &[("a", "1")])));
    assert!(main.is_closed());
    let (_, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", "?", "-1"], "all is asked for anew");
}

#[test]
fn a_main_channel_that_lives_is_no_sign_of_life_of_the_other() {
    let primary = Primary::listen();
    let _replica = start(&primary, &["--repl-timeout", "2"]);
    let Channels { mut main, mut rdb } = promised(&primary);
    let mut pinging = main.0.stream.try_clone().unwrap();
    let pings = std::thread::spawn(move || {
        while std::io::Write::write_all(&mut pinging, b"*1\r\n$4\r\nPING\r\n").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    assert!(rdb.is_closed() && main.is_closed());
    pings.join().unwrap();
    let Channels { mut rdb, .. } = open(&primary);
    // Nor does the rdb channel live that says nothing before its snapshot.
    assert!(rdb.is_closed());
}

#[test]
fn a_role_that_changes_ends_the_sync() {
    let primary = Primary::listen();
    let (_replica, mut client) = with_old_data(&primary, &[]);
    let Channels { mut main, mut rdb } = promised(&primary);
    main.send_command("SET kept 1");
    rdb.send(format!("$EOF:{MARK}\r\n"));
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert!(main.is_closed() && rdb.is_closed());
    assert_eq!(client.ask("EXISTS old kept"), "1");
    assert_eq!(client.ask("SET new 1"), "OK");
}
