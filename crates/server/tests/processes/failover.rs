//! FAILOVER: a primary hands its role over to a replica, to another server or to one that these tests play by hand,
//! which refuses, vanishes or answers nothing.

use crate::fake_primary::{ID, Link, Primary, encoded, full_resync};
use crate::process::peer::Peer;
use crate::process::{Client, Process, eventually, shown};
use std::net::TcpStream;
use std::time::Duration;

const UNBLOCKED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

fn answer(client: &mut Client<TcpStream>) -> String {
    shown(&client.receive().expect("the server answers"))
}

/// A primary with its replica.
fn pair() -> (Process, Process) {
    let primary = Process::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Process::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    replica.eventually_shows("master_link_status", "up");
    primary.eventually_shows("connected_slaves", "1");
    (primary, replica)
}

/// A replica that is played by hand: its connection, and where its primary finds it.
struct Target {
    connection: Peer,
    as_primary: Primary,
}

impl Target {
    fn online(primary: &Process) -> Target {
        let as_primary = Primary::listen();
        let mut target = Target { connection: Peer::connect(primary.port), as_primary };
        target.send(&format!("REPLCONF listening-port {} capa psync2", target.as_primary.port));
        assert_eq!(target.connection.up_to(b"\r\n"), b"+OK");
        target.send("PSYNC ? -1");
        primary.eventually_shows("connected_slaves", "1");
        eventually("it is online", || primary.info("slave0").unwrap().contains("state=online"));
        target
    }

    fn send(&mut self, words: &str) {
        self.connection.send(&encoded(words));
    }

    fn acknowledge_all(&mut self, primary: &Process) {
        self.send(&format!("REPLCONF ACK {}", primary.info("master_repl_offset").unwrap()));
    }

    /// The connection of the server that hands its role over, up to the request.
    fn asked(&self) -> (Link, String) {
        let mut link = self.as_primary.accept();
        loop {
            let command = link.command();
            match command[0].as_str() {
                "PING" => link.send("+PONG\r\n"),
                "REPLCONF" => link.send("+OK\r\n"),
                _ => return (link, command.join(" ")),
            }
        }
    }

    /// As a primary already, of which the server that hands its role over has not heard.
    fn asked_again(&self) -> (Link, String) {
        let (link, request) = self.asked();
        drop(link);
        let (mut link, again) = self.asked();
        assert_eq!(request, again);
        link.send("-ERR PSYNC FAILOVER can't be sent to a master.\r\n");
        self.asked()
    }
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
    eventually("it is written", || {
        first.info("total_commands_processed").unwrap().parse::<u64>().unwrap() > 1000
    });
    let mut client = first.connect();
    assert_eq!(client.ask(&format!("FAILOVER TO 127.0.0.1 {}", second.port)), "OK");
    second.eventually_shows("role", "master");
    first.eventually_shows("master_failover_state", "no-failover");
    let count = counting.join().unwrap();
    assert_eq!(second.connect().ask("GET counter"), count.to_string());
    assert_eq!(first.info("role").unwrap(), "slave");
    first.eventually_shows("master_link_status", "up");
    assert_eq!(
        (second.info("sync_full").unwrap(), second.info("sync_partial_ok").unwrap()),
        ("0".into(), "1".into())
    );
    assert_eq!(first.connect().ask("GET counter"), count.to_string());
    // And back, to whichever.
    assert_eq!(second.connect().ask("FAILOVER"), "OK");
    first.eventually_shows("role", "master");
    second.eventually_shows("master_link_status", "up");
    assert_eq!(first.info("sync_partial_ok").unwrap(), "1");
    assert_eq!(first.connect().ask("INCR counter"), (count + 1).to_string());
}

fn in_a_transaction_what_stands_behind_it_goes_over_too() {
    let (first, second) = pair();
    let mut client = first.connect();
    let failover = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 60000", second.port);
    for words in ["MULTI", "CLIENT PAUSE 60000 WRITE", &failover, "SET behind 1", "EXEC"] {
        client.ask(words);
    }
    second.eventually_shows("role", "master");
    first.eventually_shows("master_failover_state", "no-failover");
    assert_eq!(second.connect().ask("GET behind"), "1");
    // Who wants to write waits until the other pause is over.
    let mut writer = first.connect();
    assert_eq!(writer.ask("CLIENT CAPA REDIRECT"), "OK");
    let mut script = first.connect();
    script.send(&[b"EVAL", b"return redis.call('SET','k','1')", b"0"]);
    first.eventually_shows("blocked_clients", "1");
    assert_eq!(writer.ask("SET k 1"), format!("REDIRECT 127.0.0.1:{}", second.port));
    assert_eq!(first.info("paused_reason").unwrap(), "client_pause");
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
        client.ask(&format!("FAILOVER TO 127.0.0.1 {}", target.as_primary.port.parse::<u16>().unwrap() - 1)),
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
    primary.eventually_shows("blocked_clients", "2");
    let offset = primary.info("master_repl_offset").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(primary.info("master_repl_offset").unwrap(), offset, "nothing is added to the stream");
    assert_eq!(client.ask("GET k"), "1");
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    assert_eq!(client.ask("FAILOVER ABORT"), "ERR No failover in progress.");
    assert_eq!(answer(&mut writer), "OK");
    assert_eq!(client.ask("GET k"), "2");
    // Asking for acknowledgements has been put off.
    eventually("it is asked", || primary.info("master_repl_offset").unwrap() != offset);
    target.acknowledge_all(&primary);
    assert_eq!(answer(&mut waiting), "1");
    assert_eq!(client.ask("SET k 3"), "OK");
    assert_eq!(client.ask("FAILOVER TIMEOUT 50"), "OK");
    primary.eventually_shows("master_failover_state", "no-failover");
    assert_eq!(client.ask("SET k 4"), "OK");
    assert_eq!(primary.info("role").unwrap(), "master");
}

fn a_target_that_is_gone_is_waited_for_until_the_end_or_somebody_s_word() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let target = Target::online(&primary);
    let id = primary.info("master_replid").unwrap();
    client.ask("SET k 1");
    let mut blocked = primary.connect();
    blocked.send(&[b"BLPOP", b"list", b"0"]);
    primary.eventually_shows("blocked_clients", "1");
    let wish = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 100", target.as_primary.port);
    assert_eq!(client.ask(&wish), "OK");
    let mut writer = primary.connect();
    writer.send(&[b"RPUSH", b"list", b"x"]);
    primary.eventually_shows("blocked_clients", "2");
    // The peer has gone and does not answer.
    drop(target);
    primary.eventually_shows("master_failover_state", "failover-in-progress");
    assert_eq!(primary.info("role").unwrap(), "slave");
    assert_eq!(client.ask("FAILOVER"), "ERR FAILOVER already in progress.");
    assert!(client.ask("SET k 2").starts_with("READONLY"));
    // A client with the redirect capability is not redirected before the failover is complete.
    let mut redirected = primary.connect();
    redirected.ask("CLIENT CAPA REDIRECT");
    redirected.send(&[b"GET", b"k"]);
    primary.eventually_shows("blocked_clients", "3");
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    assert_eq!(answer(&mut redirected), "1");
    assert_eq!(answer(&mut blocked), "[list x]");
    assert_eq!(answer(&mut writer), "1");
    assert_eq!(primary.info("role").unwrap(), "master");
    assert_eq!(primary.info("master_replid2").unwrap(), id);
    assert_eq!(client.ask("SET k 2"), "OK");
}

fn without_a_timeout_a_target_that_is_gone_is_waited_for_until_an_abort() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let target = Target::online(&primary);
    client.ask("SET k 1");
    assert_eq!(client.ask(&format!("FAILOVER TO 127.0.0.1 {}", target.as_primary.port)), "OK");
    drop(target);
    primary.eventually_shows("connected_slaves", "0");
    let mut writer = primary.connect();
    writer.send(&[b"SET", b"k", b"2"]);
    primary.eventually_shows("blocked_clients", "1");
    // It may not come back meanwhile, nor may another replica.
    let mut replica = primary.connect();
    assert_eq!(replica.ask("PSYNC ? -1"), "NOMASTERLINK Can't SYNC while failing over");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "ERR REPLICAOF not allowed while failing over.");
    assert_eq!(client.ask("GET k"), "1");
    assert_eq!(primary.info("master_failover_state").unwrap(), "waiting-for-sync");
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    assert_eq!(answer(&mut writer), "OK");
    assert_eq!(primary.info("master_failover_state").unwrap(), "no-failover");
    assert_eq!(primary.info("role").unwrap(), "master");
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
        primary.eventually_shows("blocked_clients", "1");
        client.ask("FAILOVER");
        let mut writer = primary.connect();
        writer.send(&[b"RPUSH", b"list", b"x"]);
        primary.eventually_shows("blocked_clients", "2");
        let (id, offset) =
            (primary.info("master_replid").unwrap(), primary.info("master_repl_offset").unwrap());
        target.acknowledge_all(&primary);
        let (mut link, request) = target.asked();
        assert_eq!(request, format!("PSYNC {id} {} FAILOVER", offset.parse::<u64>().unwrap() + 1));
        assert_eq!(primary.info("role").unwrap(), "slave");
        link.send(format!("{refusal}\r\n"));
        assert_eq!(answer(&mut blocked), "[list x]");
        assert_eq!(answer(&mut writer), "1");
        assert_eq!(primary.info("role").unwrap(), "master");
        assert_eq!(primary.info("master_failover_state").unwrap(), "no-failover");
        assert_eq!(primary.info("master_replid2").unwrap(), id);
    }
}

fn who_reads_waits_for_the_failover_and_for_no_pause() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let mut target = Target::online(&primary);
    client.ask("SET k 1");
    assert_eq!(client.ask("CLIENT PAUSE 3600000 WRITE"), "OK");
    let mut writer = primary.connect();
    writer.send(&[b"INCR", b"k"]);
    primary.eventually_shows("blocked_clients", "1");
    client.ask("FAILOVER");
    target.acknowledge_all(&primary);
    let (mut link, _) = target.asked();
    let mut reader = primary.connect();
    assert_eq!(reader.ask("CLIENT CAPA redirect"), "OK");
    reader.send(&[b"GET", b"k"]);
    primary.eventually_shows("blocked_clients", "2");
    link.send("-NOPERM no\r\n");
    assert_eq!(answer(&mut reader), "1");
    assert_eq!(primary.info("blocked_clients").unwrap(), "1");
    assert_eq!(client.ask("CLIENT UNPAUSE"), "OK");
    assert_eq!(answer(&mut writer), "2");
}

/// As Sentinel hands a role over: who writes meanwhile hears nothing but the end of its connection.
fn who_writes_during_a_pause_is_not_refused_when_the_role_goes_over() {
    let (first, second) = pair();
    let mut client = first.connect();
    for words in ["MULTI", "CLIENT PAUSE 3600000 WRITE", "FAILOVER", "EXEC"] {
        client.ask(words);
    }
    let mut writer = first.connect();
    writer.send(&[b"INCR", b"k"]);
    second.eventually_shows("role", "master");
    first.eventually_shows("master_failover_state", "no-failover");
    assert_eq!(first.info("blocked_clients").unwrap(), "1");
    for words in ["MULTI", "CLIENT KILL TYPE normal", "CLIENT UNPAUSE"] {
        client.ask(words);
    }
    // The writer, and perhaps a connection that asked for INFO, whose end an I/O thread has yet to see.
    let killed = client.ask("EXEC");
    assert!(["[1 OK]", "[2 OK]"].contains(&killed.as_str()), "{killed}");
    assert_eq!(writer.receive(), None);
}

fn a_target_whose_answer_was_lost_is_followed_all_the_same() {
    let primary = Process::start(&["--repl-diskless-sync", "no"]);
    let mut client = primary.connect();
    let mut target = Target::online(&primary);
    client.ask("SET k 1");
    let mut blocked = primary.connect();
    blocked.send(&[b"BLPOP", b"list", b"0"]);
    primary.eventually_shows("blocked_clients", "1");
    assert_eq!(client.ask("FAILOVER"), "OK");
    target.acknowledge_all(&primary);
    let (mut link, request) = target.asked_again();
    assert_eq!(request.matches("FAILOVER").count(), 0, "{request}");
    link.send(format!("+CONTINUE {ID}\r\n"));
    primary.eventually_shows("master_link_status", "up");
    assert_eq!(primary.info("master_replid").unwrap(), ID);
    assert_eq!(primary.info("master_failover_state").unwrap(), "no-failover");
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
    let (mut link, _) = target.asked_again();
    link.send(full_resync(ID, 0));
    primary.eventually_shows("master_failover_state", "no-failover");
    assert_eq!(primary.info("role").unwrap(), "master");
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
    first.eventually_shows("blocked_clients", "3");
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
    without_a_timeout_a_target_that_is_gone_is_waited_for_until_an_abort,
    a_target_that_refuses_leaves_the_primary_what_it_was,
    who_reads_waits_for_the_failover_and_for_no_pause,
    who_writes_during_a_pause_is_not_refused_when_the_role_goes_over,
    a_target_whose_answer_was_lost_is_followed_all_the_same,
    a_target_that_was_started_anew_takes_no_data_away,
    who_waits_for_keys_is_sent_to_the_new_primary,
);
