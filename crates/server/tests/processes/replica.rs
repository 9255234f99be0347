//! A server as a replica, whose primary is played by the test: what it sends, what it does with what it receives, and
//! what it makes of lies.

use crate::fake_primary::{
    ID, MARK, OTHER_ID, Primary, by_length, encoded, eventually_answers, full_resync, linked, snapshot,
};
use crate::process::peer::Peer;
use crate::process::{Client, Process, encode, eventually, info, shown};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_replica_says_who_it_is_loads_what_it_is_sent_and_follows() {
    let primary = Primary::listen();
    let replica = primary.replica(&[
        "--primaryauth",
        "secret",
        "--primaryuser",
        "who",
        "--replica-announce-ip",
        "1.2.3.4",
    ]);
    let mut link = primary.accept();
    assert_eq!(link.command(), ["PING"]);
    link.send("-NOAUTH Authentication required.\r\n");
    assert_eq!(link.command(), ["AUTH", "who", "secret"]);
    let port = replica.port.to_string();
    assert_eq!(link.command(), ["REPLCONF", "listening-port", &port]);
    assert_eq!(link.command(), ["REPLCONF", "ip-address", "1.2.3.4"]);
    assert_eq!(link.command(), ["REPLCONF", "capa", "eof", "capa", "psync2"]);
    assert_eq!(link.command()[..2], ["REPLCONF", "version"]);
    // Only AUTH has to be taken.
    link.send("+OK\r\n-ERR what\r\n\n+OK\r\n-ERR what\r\n");
    link.send("-ERR what\r\n");
    assert_eq!(link.command(), ["PSYNC", "?", "-1"]);
    link.send(format!("\n\n+FULLRESYNC {ID} 100\r\n"));
    link.send("\n");
    link.send(by_length(&snapshot(3, &[("a", "1")])));
    link.expect_acknowledged(100);
    let mut offset = 100;
    // The snapshot has said that the stream is about database 3.
    for command in ["SET b 2", "SELECT 0", "INCR a", "PING", "REPLCONF GETACK *"] {
        offset += link.send_command(command) as u64;
    }
    link.expect_acknowledged(offset);
    let mut client = replica.connect();
    assert_eq!(client.ask("GET a"), "2");
    assert_eq!(client.ask("ROLE"), format!("[slave 127.0.0.1 {} connected {offset}]", primary.port));
    assert_eq!(info(&mut client, "master_link_status"), "up");
    assert_eq!(info(&mut client, "master_replid"), ID);
    client.ask("SELECT 3");
    assert_eq!(client.ask("GET b"), "2");
    assert_eq!(client.ask("SET b 3"), "READONLY You can't write against a read only replica.");
}

#[test]
fn after_the_connections_end_the_stream_is_gone_on_with() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &[]);
    let mut offset = 100;
    for command in ["SELECT 2", "SET x 1", "MULTI", "SET x 2", "SELECT 5", "SET y 1", "EXEC"] {
        offset += link.send_command(command) as u64;
    }
    // Of what is not whole, nothing counts.
    for command in ["SET y 2", "MULTI", "SET y 3"] {
        let len = link.send_command(command) as u64;
        offset += if command == "SET y 2" { len } else { 0 };
    }
    link.send("*3\r\n$3\r\nSET");
    client.ask("SELECT 5");
    eventually_answers(&mut client, "GET y", "2");
    drop(link);
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", ID, &(offset + 1).to_string()]);
    link.send(format!("+CONTINUE {OTHER_ID}\r\n*3\r\n$3\r\nSET\r\n$1\r\ny\r\n$1\r\n4\r\n"));
    eventually_answers(&mut client, "GET y", "4");
    assert_eq!(info(&mut client, "master_replid"), OTHER_ID);
    assert_eq!(info(&mut client, "master_replid2"), ID);
    assert_eq!(info(&mut client, "second_repl_offset"), (offset + 1).to_string());
    // It becomes a primary, and then a replica again that offers what it has.
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert!(link.is_closed());
    assert_eq!(client.ask("SET y 5"), "OK");
    let own = info(&mut client, "master_replid");
    assert_eq!(info(&mut client, "master_replid2"), OTHER_ID);
    let next = info(&mut client, "master_repl_offset").parse::<u64>().unwrap() + 1;
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", &own, &next.to_string()]);
    link.send("-NOMASTERLINK not now\r\n");
    let (_link, again) = primary.accept_and_greet();
    assert_eq!(again, psync);
}

#[test]
fn another_primary_goes_on_in_the_database_of_the_stream() {
    let (first, second) = (Primary::listen(), Primary::listen());
    let (_replica, mut link, mut client) = linked(&first, &[]);
    let offset = 100 + (link.send_command("SELECT 5") + link.send_command("SET y 1")) as u64;
    client.ask("SELECT 5");
    eventually_answers(&mut client, "GET y", "1");
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", second.port)), "OK");
    let (mut link, psync) = second.accept_and_greet();
    assert_eq!(psync, ["PSYNC", ID, &(offset + 1).to_string()]);
    link.send("+CONTINUE\r\n");
    link.send_command("SET y 2");
    eventually_answers(&mut client, "GET y", "2");
}

#[test]
fn a_snapshot_by_its_mark_may_be_followed_by_the_stream_at_once() {
    let primary = Primary::listen();
    let replica = primary.replica(&[]);
    let (mut link, _) = primary.accept_and_greet();
    let head = format!("{}$EOF:{MARK}\r\n", full_resync(ID, 7));
    let body = snapshot(0, &[("a", "1")]);
    let all = [head.as_bytes(), &body, MARK.as_bytes(), &encoded("INCR a")].concat();
    for piece in all.chunks(11) {
        link.send(piece);
        std::thread::sleep(Duration::from_millis(1));
    }
    eventually_answers(&mut replica.connect(), "GET a", "2");
}

/// What a primary may send in place of a snapshot, each of it wrong.
fn lies() -> Vec<Vec<u8>> {
    let whole = snapshot(0, &[("b", "2")]);
    let mut lies: Vec<Vec<u8>> = [
        "+FULLRESYNC\r\n$-1\r\n",
        "+WHAT\r\n+OK\r\n",
        "-ERR unknown command\r\n-ERR unknown command\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n",
        "\0\0\0\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    lies.push(vec![b'x'; 5000]);
    let resync = full_resync(ID, 200).into_bytes();
    for transfer in [
        b"$99999999999999999999\r\n".to_vec(),
        b"$0\r\n".to_vec(),
        b"$12\r\nno snapshot!".to_vec(),
        b"-ERR no\r\n".to_vec(),
        vec![b'$'; 2000],
        format!("$EOF:short\r\n{MARK}").into_bytes(),
        by_length(b"REDIS9999\xff"),
    ] {
        lies.push([resync.clone(), transfer].concat());
    }
    // Longer than it is: the connection ends first.
    lies.push([resync, format!("${}\r\n", whole.len() + 1).into_bytes(), whole].concat());
    lies
}

#[test]
fn what_a_replica_shows_of_its_link_is_what_has_come() {
    let primary = Primary::listen();
    let replica = primary.replica(&[]);
    let mut link = primary.accept();
    let mut client = replica.connect();
    assert_eq!(link.command(), ["PING"]);
    // Before its first command the primary is not shown as a client.
    assert!(client.ask("ROLE").contains(" handshake -1"));
    assert!(!client.ask("CLIENT LIST").contains("flags=M"));
    assert_eq!(client.ask("CLIENT KILL TYPE primary"), "0");
    let shows = |client: &mut Client<TcpStream>, fields: &[(&str, &str)]| {
        fields.iter().for_each(|(field, value)| assert_eq!(info(client, field), *value, "{field}"));
    };
    shows(
        &mut client,
        &[
            ("connected_clients", "1"),
            ("master_link_down_since_seconds", "-1"),
            ("slave_repl_offset", "1"),
            ("slave_read_repl_offset", "1"),
            ("master_sync_in_progress", "0"),
        ],
    );
    link.send("-NOAUTH\r\n");
    while link.command()[0] != "PSYNC" {
        link.send("+OK\r\n");
    }
    let body = snapshot(0, &[("a", "1")]);
    let (first, rest) = body.split_at(20);
    link.send(full_resync(ID, 100));
    eventually("it syncs", || info(&mut client, "master_sync_in_progress") == "1");
    shows(&mut client, &[("master_sync_total_bytes", "-1"), ("master_sync_left_bytes", "-1")]);
    let length = format!("${}\r\n", body.len());
    link.send([length.as_bytes(), first].concat());
    eventually("a part has come", || info(&mut client, "master_sync_read_bytes") == "20");
    shows(&mut client, &[("master_sync_total_bytes", &body.len().to_string()), ("connected_clients", "1")]);
    assert_eq!(info(&mut client, "master_sync_left_bytes"), rest.len().to_string());
    let received = length.len() + first.len();
    assert_eq!(
        info(&mut client, "total_net_repl_input_bytes"),
        received.to_string(),
        "without the handshake"
    );
    link.send(rest);
    link.expect_acknowledged(100);
    link.send("*3\r\n$3\r\nSET");
    eventually("a part of a command has come", || info(&mut client, "slave_read_repl_offset") == "111");
    shows(&mut client, &[("slave_repl_offset", "100"), ("connected_clients", "2")]);
    let line = client.ask("CLIENT LIST TYPE master");
    for part in
        [" flags=M ", " user=(superuser) ", &format!(" laddr={} ", link.0.stream.peer_addr().unwrap())]
    {
        assert!(line.contains(part), "{part} in {line}");
    }
    drop(link);
    eventually("it is down", || info(&mut client, "master_link_status") == "down");
    assert_ne!(info(&mut client, "master_link_down_since_seconds"), "-1");
}

#[test]
fn lies_before_the_snapshot_leave_the_data_as_it_is() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, &["--repl-timeout", "5"]);
    drop(link);
    for lie in lies() {
        // A snapshot that cannot be loaded is not asked for again at once.
        let (mut link, _) = primary.accept_and_greet();
        link.send(&lie);
        let _ = link.0.stream.shutdown(std::net::Shutdown::Write);
        assert!(link.is_closed());
        assert_eq!(client.ask("GET a"), "1", "after {:?}", String::from_utf8_lossy(&lie));
    }
}

#[test]
fn a_snapshot_that_is_broken_within_leaves_nothing_half_and_is_asked_for_again() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, &[]);
    drop(link);
    let (mut link, _) = primary.accept_and_greet();
    let mut broken = snapshot(0, &[("a", "2"), ("b", "2")]);
    let kind = broken.len() - 14;
    broken[kind] = 0xbf;
    link.send(full_resync(ID, 200));
    link.send(by_length(&broken));
    assert!(link.is_closed());
    eventually_answers(&mut client, "DBSIZE", "0");
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", "?", "-1"], "of the stream nothing can be gone on with");
    link.send(full_resync(ID, 300));
    link.send(by_length(&snapshot(0, &[("a", "3")])));
    link.expect_acknowledged(300);
    assert_eq!(client.ask("GET a"), "3");
}

#[test]
fn a_command_that_is_not_known_is_no_silent_gap() {
    let inline: [&[u8]; 2] = [b"SET a 3\r\n", b"\r\n\nSET a \"3 4\"\r\n"];
    for broken in [encoded("NOSUCH a b"), encoded("SET a"), b"*1\r\n+PING\r\n".to_vec()]
        .into_iter()
        .chain(inline.map(<[u8]>::to_vec))
    {
        let primary = Primary::listen();
        let (_replica, mut link, mut client) = linked(&primary, &[]);
        link.send_command("SET a 2");
        eventually_answers(&mut client, "GET a", "2");
        link.send(&broken);
        assert!(link.is_closed());
        assert_eq!(info(&mut client, "master_link_status"), "down");
        let (mut link, psync) = primary.accept_and_greet();
        assert_eq!(psync, ["PSYNC", "?", "-1"]);
        link.send(full_resync(ID, 500));
        link.send(by_length(&snapshot(0, &[("a", "3")])));
        link.expect_acknowledged(500);
        assert_eq!(client.ask("GET a"), "3");
    }
}

#[test]
fn what_is_expired_is_hidden_until_the_primary_removes_it() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &[]);
    link.send_command("SET k v PX 1");
    link.send_command("RPUSH l v");
    link.send_command("PEXPIREAT l 1");
    link.send_command("HSETEX h PX 1 FIELDS 1 f v");
    link.send_command("SET done 1");
    eventually_answers(&mut client, "GET done", "1");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.ask("GET k"), "Null");
    assert_eq!(client.ask("EXISTS l"), "0");
    assert_eq!(client.ask("DBSIZE"), "5", "a, k, l, h and done are there");
    // For the primary they exist: its own clock says when they do not.
    link.send_command("APPEND k w");
    link.send_command("PERSIST k");
    link.send_command("RPUSH l w");
    link.send_command("PERSIST l");
    eventually_answers(&mut client, "GET k", "vw");
    eventually_answers(&mut client, "LLEN l", "2");
    link.send_command("DEL k");
    eventually_answers(&mut client, "DBSIZE", "4");
}

#[test]
fn without_its_primary_a_replica_answers_as_it_is_configured() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, &["--replica-serve-stale-data", "no"]);
    const DOWN: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    assert_eq!(client.ask("GET a"), "1");
    drop(link);
    eventually_answers(&mut client, "GET a", DOWN);
    assert_eq!(client.ask("PING"), DOWN);
    assert!(client.ask("INFO server").contains("redis_version"));
    client.ask("MULTI");
    assert_eq!(client.ask("GET a"), DOWN);
    assert_eq!(client.ask("EXEC"), "EXECABORT Transaction discarded because of previous errors.");
    let mut run = |script: &str| {
        client.send(&[b"EVAL", script.as_bytes(), b"0"]);
        shown(&client.receive().unwrap())
    };
    assert_eq!(run("return redis.call('GET', 'a')"), DOWN);
    assert_eq!(run("#!lua flags=no-writes\nreturn 1"), DOWN);
    assert_eq!(run("#!lua flags=no-writes,allow-stale\nreturn redis.call('ECHO', 'heard')"), "heard");
    let refused = run("#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', 'a')");
    assert!(refused.starts_with("ERR Can not execute the command on a stale replica"), "{refused}");
    assert_eq!(client.ask("CONFIG SET replica-serve-stale-data yes"), "OK");
    assert_eq!(client.ask("GET a"), "1");
}

#[test]
fn who_waits_is_told_that_the_server_is_a_replica_now() {
    let primary = Primary::listen();
    let server = Process::start(&[]);
    let mut waiting = server.connect();
    waiting.send(&[b"BLPOP", b"list", b"0"]);
    let mut redirected = server.connect();
    assert_eq!(redirected.ask("CLIENT CAPA redirect"), "OK");
    redirected.send(&[b"BLPOP", b"list", b"0"]);
    let mut writing = server.connect();
    for (command, answer) in [("CLIENT CAPA redirect", "OK"), ("MULTI", "OK"), ("SET a 1", "QUEUED")] {
        assert_eq!(writing.ask(command), answer);
    }
    let mut running = server.connect();
    assert_eq!(running.ask("MULTI"), "OK");
    running.send(&[b"EVAL", b"#!lua\nreturn 1", b"0"]);
    assert_eq!(shown(&running.receive().unwrap()), "QUEUED");
    let mut client = server.connect();
    eventually("both wait", || client.ask("INFO clients").contains("blocked_clients:2"));
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert_eq!(
        shown(&waiting.receive().unwrap()),
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
    );
    assert!(waiting.is_closed_by_server());
    let answer = format!("REDIRECT 127.0.0.1:{}", primary.port);
    assert_eq!(shown(&redirected.receive().unwrap()), answer);
    let figures = info(&mut client, "cmdstat_blpop");
    assert!(
        figures.starts_with("calls=2,") && figures.contains(",rejected_calls=2,failed_calls=0"),
        "{figures}"
    );
    assert_eq!(redirected.ask("GET a"), answer);
    assert_eq!(writing.ask("EXEC"), answer);
    assert_eq!(writing.ask("EXEC"), "ERR EXEC without MULTI");
    let refused =
        "EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.";
    assert_eq!(running.ask("EXEC"), refused);
    assert_eq!(
        client.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port)),
        "OK Already connected to specified master"
    );
    assert_eq!(client.ask("REPLICAOF 127.0.0.1 65536"), "ERR Invalid master port");
}

#[test]
fn a_replica_with_an_append_only_file_begins_it_anew_and_says_what_is_on_disk() {
    let primary = Primary::listen();
    let replica =
        primary.replica(&["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"]);
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(ID, 100));
    link.send(by_length(&snapshot(0, &[("a", "1")])));
    let mut client = replica.connect();
    eventually_answers(&mut client, "GET a", "1");
    let offset = 100 + link.send_command("SET b 2") as u64;
    link.expect_acknowledgement(|words| words[3..] == ["FACK", &offset.to_string()]);
    // What is in the file is what was received.
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    eventually("the first base is there", || {
        client.ask("INFO persistence").contains("aof_rewrite_in_progress:0")
    });
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("GET b"), "2");
}

#[test]
fn what_a_primary_asks_for_and_does_not_read_is_not_kept_without_end() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &[]);
    let questions = encoded("REPLCONF GETACK *").repeat(1000);
    let mut asked = 0;
    for _ in 0..500 {
        link.send(&questions);
        asked += questions.len() as u64;
    }
    let offset = (100 + asked).to_string();
    eventually("all questions are read", || info(&mut client, "slave_repl_offset") == offset);
    let clients = client.ask("CLIENT LIST TYPE primary");
    let unread = clients.split(' ').find_map(|field| field.strip_prefix("omem=")).unwrap();
    assert!(unread.parse::<u64>().unwrap() < 1 << 18, "{clients}");
    link.expect_acknowledged(100 + questions.len() as u64 / 1000);
}

#[test]
fn what_has_no_place_in_a_stream_is_not_run() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &["--databases", "4"]);
    let commands: [&[&str]; 7] = [
        &["SHUTDOWN NOSAVE"],
        &["MIGRATE 127.0.0.1 1 a 0 1000"],
        &["REPLICAOF NO ONE"],
        &["CONFIG SET port 1"],
        &["SELECT 4"],
        &["MULTI", "SELECT 4"],
        &["MULTI", "MULTI"],
    ];
    for (number, sent) in commands.iter().enumerate() {
        for command in *sent {
            link.send_command(command);
        }
        assert!(link.is_closed(), "{sent:?}");
        assert_eq!(info(&mut client, "role"), "slave");
        if number + 1 < commands.len() {
            link = primary.accept_and_greet().0;
            link.send(full_resync(ID, 100));
            link.send(by_length(&snapshot(0, &[("a", "1")])));
            link.expect_acknowledged(100);
        }
    }
}

#[test]
fn a_message_that_the_primary_has_forgotten_is_recorded_anew() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &[]);
    // So late that by no clock its time has passed here.
    link.send_command("XADD s IDMP p m 9999999999999-1 f v");
    link.send_command("XADD s 9999999999999-2 f v");
    link.send_command("XIDMPRECORD s p m 9999999999999-2");
    link.send_command("SET behind it");
    eventually_answers(&mut client, "GET behind", "it");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(client.ask("XADD s IDMP p m * f v"), "9999999999999-2");
}

#[test]
fn an_error_for_somebody_who_has_waited_is_none_for_the_primary() {
    let primary = Primary::listen();
    let options = ["--replica-read-only", "no", "--propagation-error-behavior", "panic"];
    let (replica, mut link, mut client) = linked(&primary, &options);
    let mut waiting = replica.connect();
    waiting.ask("XGROUP CREATE stream group $ MKSTREAM");
    waiting.send(&[b"XREADGROUP", b"GROUP", b"group", b"c", b"BLOCK", b"0", b"STREAMS", b"stream", b">"]);
    eventually("it waits", || info(&mut client, "blocked_clients") == "1");
    let offset = 100 + link.send_command("DEL stream") as u64;
    assert!(shown(&waiting.receive().unwrap()).starts_with("NOGROUP"));
    link.expect_acknowledged(offset);
}

#[test]
fn a_replica_that_minds_its_limit_evicts_what_the_stream_brings() {
    let primary = Primary::listen();
    let options =
        ["--replica-ignore-maxmemory", "no", "--maxmemory", "8mb", "--maxmemory-policy", "allkeys-random"];
    let (_replica, mut link, mut client) = linked(&primary, &options);
    let value = "x".repeat(1000);
    let commands: Vec<u8> = (0..40_000).flat_map(|key| encoded(&format!("SET {key} {value}"))).collect();
    link.send(&commands);
    link.expect_acknowledged(100 + commands.len() as u64);
    // The backlog for replicas of its own does not count towards the limit.
    let peak_bytes: u64 = info(&mut client, "used_memory_peak").parse().unwrap();
    assert!(peak_bytes < 28 << 20, "{peak_bytes}");
}

#[test]
fn the_file_that_a_snapshot_came_in_is_removed_where_files_are_not_wanted() {
    let primary = Primary::listen();
    let (_replica, _link, mut client) = linked(&primary, &["--rdb-del-sync-files", "yes", "--save", ""]);
    let directory = client.ask("CONFIG GET dir");
    let directory = directory.trim_matches(['[', ']']).split_once(' ').unwrap().1;
    let path = std::path::Path::new(directory).join("dump.rdb");
    eventually("it is gone", || !path.exists());
}

#[test]
fn nothing_of_the_primarys_comes_between_what_a_slow_script_does() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &["--busy-reply-threshold", "10"]);
    client.send(&[
        b"EVAL",
        b"local first = redis.call('get', 'a') for i = 1, 2e8 do end return first .. redis.call('get', 'a')",
        b"0",
    ]);
    let mut other = _replica.connect();
    eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
    link.send_command("SET a 2");
    link.send_command("MULTI");
    link.send_command("INCR a");
    link.send_command("EXEC");
    assert_eq!(shown(&client.receive().unwrap()), "11");
    eventually_answers(&mut client, "GET a", "3");
}

#[test]
fn a_slow_script_of_the_stream_is_handed_on_when_it_has_ended() {
    let primary = Primary::listen();
    let (replica, mut link, mut client) = linked(&primary, &["--busy-reply-threshold", "10"]);
    let mut next = Peer::connect(replica.port);
    next.send(&encoded(&format!("PSYNC {ID} 101")));
    next.up_to(b"+CONTINUE\r\n");
    let script = b"for i = 1, 3e8 do end redis.call('SET', 'a', '2')";
    for transaction in [false, true] {
        let eval = encode(&[b"EVAL", script, b"0"]);
        let sent = match transaction {
            true => [encoded("MULTI"), eval, encoded("EXEC")].concat(),
            false => eval,
        };
        link.send(&sent);
        let mut other = replica.connect();
        eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
        assert!(other.ask("SCRIPT KILL").starts_with("UNKILLABLE The busy script was sent by a master"));
        next.stream.set_nonblocking(true).unwrap();
        let is_early = next.stream.peek(&mut [0]).is_ok();
        assert!(
            !is_early || !other.ask("PING").starts_with("BUSY"),
            "its end is not known before it has come"
        );
        next.stream.set_nonblocking(false).unwrap();
        assert_eq!(next.exactly(sent.len()), sent);
        eventually_answers(&mut client, "GET a", "2");
    }
}

#[test]
fn a_chain_of_servers_holds_the_same_at_the_same_offset() {
    let debug: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    let head = Process::start(debug);
    let mut at_head = head.connect();
    at_head.ask("SELECT 3");
    at_head.ask("SET before 1");
    let follow = |primary: &Process| {
        let port = primary.port.to_string();
        Process::start(&[&["--replicaof", "127.0.0.1", &port], debug].concat())
    };
    let middle = follow(&head);
    let mut at_middle = middle.connect();
    eventually("the middle is linked", || info(&mut at_middle, "master_link_status") == "up");
    at_head.ask("SET in-3 1");
    // The middle's snapshot says which database the stream is about.
    let last = follow(&middle);
    let mut at_last = last.connect();
    eventually("the last is linked", || info(&mut at_last, "master_link_status") == "up");
    for command in
        ["SET in-3 2", "MULTI", "SELECT 5", "INCR in-5", "EXEC", "PEXPIRE in-5 1", "LPUSH list a b"]
    {
        at_head.ask(command);
    }
    assert_eq!(at_head.ask("WAIT 1 60000"), "1");
    let same = |client: &mut Client<TcpStream>, other: &mut Client<TcpStream>| {
        info(client, "master_repl_offset") == info(other, "master_repl_offset")
            && client.ask("DEBUG DIGEST") == other.ask("DEBUG DIGEST")
    };
    eventually("the middle holds the same", || same(&mut at_head, &mut at_middle));
    eventually("the last holds the same", || same(&mut at_head, &mut at_last));
    // The last goes on with the middle, and the head becomes its replica, without another snapshot.
    assert_eq!(at_middle.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(at_middle.ask("SET promoted 1"), "OK");
    assert_eq!(at_head.ask(&format!("REPLICAOF 127.0.0.1 {}", middle.port)), "OK");
    assert_eq!(at_middle.ask("WAIT 2 60000"), "2");
    eventually("the head holds the same", || same(&mut at_middle, &mut at_head));
    eventually("the last holds the same", || same(&mut at_middle, &mut at_last));
    assert_eq!(info(&mut at_middle, "sync_full"), "1", "the last's, at the beginning");
}

#[test]
fn after_a_restart_both_sides_go_on_from_what_the_file_says() {
    let directory = std::env::temp_dir().join(format!("warmline-restart-{}", std::process::id()));
    let [of_head, of_replica] = ["head", "replica"].map(|name| directory.join(name));
    let start = |directory: &std::path::Path, options: &[&str]| {
        std::fs::create_dir_all(directory).unwrap();
        let common =
            ["--dir", directory.to_str().unwrap(), "--save", "900 100000", "--repl-diskless-sync-delay", "0"];
        Process::start(&[&common[..], &["--enable-debug-command", "yes"], options].concat())
    };
    let mut head = start(&of_head, &[]);
    let mut at_head = head.connect();
    let follow = |head: &Process| ["--replicaof".to_owned(), "127.0.0.1".to_owned(), head.port.to_string()];
    let options = follow(&head);
    let mut replica = start(&of_replica, &options.each_ref().map(String::as_str));
    let mut at_replica = replica.connect();
    eventually("it is linked", || info(&mut at_replica, "master_link_status") == "up");
    at_head.ask("SELECT 3");
    at_head.ask("SET short v PX 400");
    at_head.ask("SET long v");
    assert_eq!(at_head.ask("WAIT 1 60000"), "1");
    replica.signal(rustix::process::Signal::TERM);
    assert!(replica.wait().success());
    at_head.ask("APPEND long w");
    let replica = start(&of_replica, &options.each_ref().map(String::as_str));
    let mut at_replica = replica.connect();
    eventually("it is linked again", || info(&mut at_replica, "master_link_status") == "up");
    assert_eq!([info(&mut at_head, "sync_full"), info(&mut at_head, "sync_partial_ok")], ["1", "1"]);
    at_replica.ask("SELECT 3");
    eventually_answers(&mut at_replica, "GET long", "vw");
    // What expires while the head is away is removed at the replica too.
    head.signal(rustix::process::Signal::TERM);
    assert!(head.wait().success());
    std::thread::sleep(Duration::from_millis(500));
    let head = start(&of_head, &[]);
    let mut at_head = head.connect();
    assert_eq!(at_replica.ask(&format!("REPLICAOF 127.0.0.1 {}", head.port)), "OK");
    eventually("it is linked to the new head", || info(&mut at_replica, "master_link_status") == "up");
    assert_eq!([info(&mut at_head, "sync_full"), info(&mut at_head, "sync_partial_ok")], ["0", "1"]);
    eventually_answers(&mut at_replica, "DBSIZE", "1");
    assert_eq!(at_head.ask("DEBUG DIGEST"), at_replica.ask("DEBUG DIGEST"));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_was_queued_before_a_snapshot_came_does_not_run_while_it_loads() {
    let primary = Primary::listen();
    let (_replica, link, mut client) = linked(&primary, &[]);
    for command in ["MULTI", "REPLICAOF NO ONE"] {
        client.ask(command);
    }
    let mut other = _replica.connect();
    assert_eq!(other.ask("CONFIG SET key-load-delay 20000"), "OK");
    drop(link);
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(ID, 200));
    let keys: Vec<String> = (0..50).map(|number| format!("key:{number}")).collect();
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
    link.send(by_length(&snapshot(0, &pairs)));
    eventually("it loads", || {
        other.ask("PING").starts_with("LOADING") || other.ask("GET a").starts_with("LOADING")
    });
    assert!(client.ask("EXEC").starts_with("EXECABORT Transaction discarded because of: LOADING"));
    link.expect_acknowledged(200);
    assert_eq!(other.ask("DBSIZE"), "50");
    assert_eq!(info(&mut other, "role"), "slave");
}

#[test]
fn a_primary_that_has_removed_all_and_dies_is_not_gone_on_with_from_before_that() {
    let directory = std::env::temp_dir().join(format!("warmline-flushed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let options =
        ["--dir", directory.to_str().unwrap(), "--save", "900 100000", "--repl-diskless-sync-delay", "0"];
    let mut head = Process::start(&options);
    let mut at_head = head.connect();
    let mut replica = Process::start(&["--replicaof", "127.0.0.1", &head.port.to_string()]);
    let mut at_replica = replica.connect();
    eventually("it is linked", || info(&mut at_replica, "master_link_status") == "up");
    at_head.ask("SET a 1");
    assert_eq!(at_head.ask("WAIT 1 60000"), "1");
    let before: u64 = info(&mut at_replica, "master_repl_offset").parse().unwrap();
    replica.signal(rustix::process::Signal::KILL);
    replica.wait();
    assert_eq!(at_head.ask("FLUSHALL"), "OK");
    head.signal(rustix::process::Signal::KILL);
    head.wait();
    let head = Process::start(&options);
    let named: u64 = info(&mut head.connect(), "second_repl_offset").parse().unwrap();
    assert!(named > before + 1, "the file holds what FLUSHALL did, and names the stream's end behind it");
    std::fs::remove_dir_all(&directory).unwrap();
}
