//! FAILOVER: a primary hands its role over to a replica, to another server or to one that these tests play by hand,
//! which refuses, vanishes or answers nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod process;

use process::{Client, PATIENCE, Process, encode, eventually, shown};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const UNBLOCKED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

fn info(server: &Process, field: &str) -> String {
    let info = server.connect().ask("INFO everything");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field} in INFO")).to_owned()
}

fn awaits(server: &Process, field: &str, value: &str) {
    eventually(&format!("{field} {value}"), || info(server, field) == value);
}

fn answer(client: &mut Client<TcpStream>) -> String {
    shown(&client.receive().expect("the server answers"))
}

/// A primary with its replica.
fn pair() -> (Process, Process) {
    let primary = Process::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Process::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    awaits(&replica, "master_link_status", "up");
    awaits(&primary, "connected_slaves", "1");
    (primary, replica)
}

/// A replica that is played by hand: its connection, and where its primary finds it.
struct Target {
    connection: TcpStream,
    listener: TcpListener,
    port: u16,
}

impl Target {
    fn online(primary: &Process) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connection = TcpStream::connect(("127.0.0.1", primary.port)).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut target = Target { connection, listener, port };
        target.send(&format!("REPLCONF listening-port {port} capa psync2"));
        assert_eq!(line(&mut target.connection), "+OK");
        target.send("PSYNC ? -1");
        awaits(primary, "connected_slaves", "1");
        eventually("it is online", || info(primary, "slave0").contains("state=online"));
        target
    }

    fn send(&mut self, words: &str) {
        send(&mut self.connection, words);
    }

    fn acknowledge_all(&mut self, primary: &Process) {
        self.send(&format!("REPLCONF ACK {}", info(primary, "master_repl_offset")));
    }

    /// The connection of the server that hands its role over, up to the request.
    fn asked(&self) -> (TcpStream, String) {
        let mut accepted = None;
        eventually("the connection of who hands over", || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            let command = command(&mut stream);
            match command.split(' ').next().unwrap() {
                "PING" => stream.write_all(b"+PONG\r\n").unwrap(),
                "REPLCONF" => stream.write_all(b"+OK\r\n").unwrap(),
                _ => return (stream, command),
            }
        }
    }
}

fn send(stream: &mut TcpStream, words: &str) {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    stream.write_all(&encode(&words)).unwrap();
}

fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

fn command(stream: &mut TcpStream) -> String {
    let count: usize = line(stream).strip_prefix('*').unwrap().parse().unwrap();
    let word = |_| {
        line(stream);
        line(stream)
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// Counts up until the server says no; how often it said yes.
fn count_up(mut client: Client<TcpStream>) -> i64 {
    let mut count = 0;
    loop {
        match client.try_ask(&[b"INCR", b"counter"]).map(|answer| shown(&answer)) {
            Some(answer) if !answer.starts_with("READONLY") => count = answer.parse().unwrap(),
            _ => return count,
        }
    }
}

fn the_role_goes_over_with_all_that_was_acknowledged() {
    let (first, second) = pair();
    let client = first.connect();
    let counting = std::thread::spawn(move || count_up(client));
    eventually("it is written", || info(&first, "total_commands_processed").parse::<u64>().unwrap() > 1000);
    let mut client = first.connect();
    assert_eq!(client.ask(&format!("FAILOVER TO 127.0.0.1 {}", second.port)), "OK");
    awaits(&second, "role", "master");
    awaits(&first, "master_failover_state", "no-failover");
    let count = counting.join().unwrap();
    assert_eq!(second.connect().ask("GET counter"), count.to_string());
    assert_eq!(info(&first, "role"), "slave");
    awaits(&first, "master_link_status", "up");
    assert_eq!((info(&second, "sync_full"), info(&second, "sync_partial_ok")), ("0".into(), "1".into()));
    assert_eq!(first.connect().ask("GET counter"), count.to_string());
    // And back, to whichever.
    assert_eq!(second.connect().ask("FAILOVER"), "OK");
    awaits(&first, "role", "master");
    awaits(&second, "master_link_status", "up");
    assert_eq!(info(&first, "sync_partial_ok"), "1");
    assert_eq!(first.connect().ask("INCR counter"), (count + 1).to_string());
}

fn in_a_transaction_what_stands_behind_it_goes_over_too() {
    let (first, second) = pair();
    let mut client = first.connect();
    let failover = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 60000", second.port);
    for words in ["MULTI", "CLIENT PAUSE 60000 WRITE", &failover, "SET behind 1", "EXEC"] {
        client.ask(words);
    }
    awaits(&second, "role", "master");
    awaits(&first, "master_failover_state", "no-failover");
    assert_eq!(second.connect().ask("GET behind"), "1");
    // Who wants to write waits until the other pause is over.
    let mut writer = first.connect();
    assert_eq!(writer.ask("CLIENT CAPA REDIRECT"), "OK");
    let mut script = first.connect();
    script.send(&[b"EVAL", b"return redis.call('SET','k','1')", b"0"]);
    awaits(&first, "blocked_clients", "1");
    assert_eq!(writer.ask("SET k 1"), format!("REDIRECT 127.0.0.1:{}", second.port));
    assert_eq!(info(&first, "paused_reason"), "client_pause");
    assert_eq!(client.ask("CLIENT UNPAUSE"), "OK");
    assert!(answer(&mut script).starts_with("READONLY"));
}

fn until_the_target_has_all_writes_wait_and_reads_do_not() {
    let primary = Process::start(&["--repl-diskless-sync", "no", "--repl-ping-replica-period", "1"]);
    let mut client = primary.connect();
    let mut target = Target::online(&primary);
    client.ask("SET k 1");
    let mut waiting = primary.connect();
    waiting.ask("SET waiting 1");
    assert_eq!(
        client.ask(&format!("FAILOVER TO 127.0.0.1 {}", target.port + 1)),
        "ERR FAILOVER target HOST and PORT is not a replica."
    );
    assert_eq!(client.ask("FAILOVER TIMEOUT 60000"), "OK");
    assert_eq!(client.ask("FAILOVER"), "ERR FAILOVER already in progress.");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "ERR REPLICAOF not allowed while failing over.");
    assert!(client.ask("INFO replication").contains("\r\nmaster_failover_state:waiting-for-sync\r\n"));
    assert!(
        client
            .ask("INFO clients")
            .contains("\r\npaused_reason:failover_in_progress\r\npaused_actions:write\r\n")
    );
    let mut newcomer = primary.connect();
    assert_eq!(newcomer.ask("PSYNC ? -1"), "NOMASTERLINK Can't SYNC while failing over");
    let mut writer = primary.connect();
    writer.send(&[b"SET", b"k", b"2"]);
    waiting.send(&[b"WAIT", b"1", b"0"]);
    awaits(&primary, "blocked_clients", "2");
    let offset = info(&primary, "master_repl_offset");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(info(&primary, "master_repl_offset"), offset, "nothing is added to the stream");
    assert_eq!(client.ask("GET k"), "1");
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    assert_eq!(client.ask("FAILOVER ABORT"), "ERR No failover in progress.");
    assert_eq!(answer(&mut writer), "OK");
    assert_eq!(client.ask("GET k"), "2");
    // Asking for acknowledgements has been put off.
    eventually("it is asked", || info(&primary, "master_repl_offset") != offset);
    target.acknowledge_all(&primary);
    assert_eq!(answer(&mut waiting), "1");
    assert_eq!(client.ask("SET k 3"), "OK");
    assert_eq!(client.ask("FAILOVER TIMEOUT 50"), "OK");
    awaits(&primary, "master_failover_state", "no-failover");
    assert_eq!(client.ask("SET k 4"), "OK");
    assert_eq!(info(&primary, "role"), "master");
}

fn a_target_that_is_gone_is_waited_for_until_the_end_or_somebody_s_word() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let target = Target::online(&primary);
    let id = info(&primary, "master_replid");
    client.ask("SET k 1");
    let mut blocked = primary.connect();
    blocked.send(&[b"BLPOP", b"list", b"0"]);
    awaits(&primary, "blocked_clients", "1");
    let wish = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 100", target.port);
    assert_eq!(client.ask(&wish), "OK");
    let mut writer = primary.connect();
    writer.send(&[b"RPUSH", b"list", b"x"]);
    awaits(&primary, "blocked_clients", "2");
    // Nobody is there any more, and nobody answers.
    drop(target);
    awaits(&primary, "master_failover_state", "failover-in-progress");
    assert_eq!(info(&primary, "role"), "slave");
    assert_eq!(client.ask("FAILOVER"), "ERR FAILOVER already in progress.");
    assert!(client.ask("SET k 2").starts_with("READONLY"));
    // Who knows how to ask elsewhere is told nothing before it is true.
    let mut redirected = primary.connect();
    redirected.ask("CLIENT CAPA REDIRECT");
    redirected.send(&[b"GET", b"k"]);
    awaits(&primary, "blocked_clients", "3");
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    assert_eq!(answer(&mut redirected), "1");
    assert_eq!(answer(&mut blocked), "[list x]");
    assert_eq!(answer(&mut writer), "1");
    assert_eq!(info(&primary, "role"), "master");
    assert_eq!(info(&primary, "master_replid2"), id);
    assert_eq!(client.ask("SET k 2"), "OK");
}

fn a_target_that_refuses_leaves_the_primary_what_it_was() {
    for refusal in
        ["-NOPERM no", "-NOMASTERLINK later", "-LOADING", "-ERR PSYNC FAILOVER can't be sent to a master."]
    {
        let primary = Process::start(&["--repl-diskless-sync", "no"]);
        let mut client = primary.connect();
        let mut target = Target::online(&primary);
        client.ask("SET k 1");
        let mut blocked = primary.connect();
        blocked.send(&[b"BLPOP", b"list", b"0"]);
        awaits(&primary, "blocked_clients", "1");
        client.ask("FAILOVER");
        let mut writer = primary.connect();
        writer.send(&[b"RPUSH", b"list", b"x"]);
        awaits(&primary, "blocked_clients", "2");
        let (id, offset) = (info(&primary, "master_replid"), info(&primary, "master_repl_offset"));
        target.acknowledge_all(&primary);
        let (mut link, request) = target.asked();
        assert_eq!(request, format!("PSYNC {id} {} FAILOVER", offset.parse::<u64>().unwrap() + 1));
        assert_eq!(info(&primary, "role"), "slave");
        link.write_all(format!("{refusal}\r\n").as_bytes()).unwrap();
        assert_eq!(answer(&mut blocked), "[list x]");
        assert_eq!(answer(&mut writer), "1");
        assert_eq!(info(&primary, "role"), "master");
        assert_eq!(info(&primary, "master_failover_state"), "no-failover");
        assert_eq!(info(&primary, "master_replid2"), id);
    }
}

fn a_target_whose_answer_was_lost_is_followed_all_the_same() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let mut target = Target::online(&primary);
    client.ask("SET k 1");
    let mut blocked = primary.connect();
    blocked.send(&[b"BLPOP", b"list", b"0"]);
    awaits(&primary, "blocked_clients", "1");
    assert_eq!(client.ask("FAILOVER"), "OK");
    target.acknowledge_all(&primary);
    let (link, request) = target.asked();
    drop(link);
    let (mut link, again) = target.asked();
    assert_eq!(request, again);
    link.write_all(b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n").unwrap();
    let (mut link, request) = target.asked();
    let id = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(request.matches("FAILOVER").count(), 0, "{request}");
    link.write_all(format!("+CONTINUE {id}\r\n").as_bytes()).unwrap();
    awaits(&primary, "master_link_status", "up");
    assert_eq!(info(&primary, "master_replid"), id);
    assert_eq!(info(&primary, "master_failover_state"), "no-failover");
    assert_eq!(answer(&mut blocked), UNBLOCKED);
    assert!(blocked.is_closed_by_server());
}

fn a_target_that_was_started_anew_takes_no_data_away() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let mut target = Target::online(&primary);
    client.ask("SET k 1");
    assert_eq!(client.ask("FAILOVER"), "OK");
    target.acknowledge_all(&primary);
    drop(target.asked());
    let (mut link, _) = target.asked();
    link.write_all(b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n").unwrap();
    let (mut link, _) = target.asked();
    link.write_all(b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 0\r\n").unwrap();
    awaits(&primary, "master_failover_state", "no-failover");
    assert_eq!(info(&primary, "role"), "master");
    assert_eq!(client.ask("GET k"), "1");
    assert_eq!(client.ask("SET k 2"), "OK");
}

fn who_waits_for_keys_is_sent_to_the_new_primary() {
    let (first, second) = pair();
    let mut plain = first.connect();
    plain.send(&[b"BLPOP", b"list", b"0"]);
    let mut redirected = first.connect();
    redirected.ask("CLIENT CAPA REDIRECT");
    redirected.send(&[b"BLPOP", b"list", b"0"]);
    let mut reading = first.connect();
    reading.ask("READONLY");
    reading.send(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"stream", b"$"]);
    awaits(&first, "blocked_clients", "3");
    assert_eq!(first.connect().ask("FAILOVER"), "OK");
    assert_eq!(answer(&mut plain), UNBLOCKED);
    assert!(plain.is_closed_by_server());
    assert_eq!(answer(&mut redirected), format!("REDIRECT 127.0.0.1:{}", second.port));
    second.connect().ask("XADD stream 1-1 field value");
    assert_eq!(answer(&mut reading), "[[stream [[1-1 [field value]]]]]");
}

tests_with_io_threads!(
    the_role_goes_over_with_all_that_was_acknowledged,
    in_a_transaction_what_stands_behind_it_goes_over_too,
    until_the_target_has_all_writes_wait_and_reads_do_not,
    a_target_that_is_gone_is_waited_for_until_the_end_or_somebody_s_word,
    a_target_that_refuses_leaves_the_primary_what_it_was,
    a_target_whose_answer_was_lost_is_followed_all_the_same,
    a_target_that_was_started_anew_takes_no_data_away,
    who_waits_for_keys_is_sent_to_the_new_primary,
);
