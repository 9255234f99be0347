//! A replica that clients write to (`replica-read-only no`): what they give an expiry is not its primary's to remove. And
//! what it does when it cannot write its files.

use crate::fake_primary::{ID, Primary, by_length, eventually_answers, full_resync, linked, snapshot};
use crate::process::{self, eventually, info};

#[test]
fn what_clients_give_an_expiry_goes_when_it_is_due_and_what_the_primary_does_stays() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &["--replica-read-only", "no"]);
    link.send_command("SET primary v PX 1");
    link.send_command("SET shared v PX 1");
    eventually_answers(&mut client, "DBSIZE", "3");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "0", "the primary's own are not tracked");
    for command in
        ["SET one v PX 1", "RPUSH two v", "PEXPIRE two 1", "SET kept v PX 1", "SET later v EX 1000"]
    {
        client.ask(command);
    }
    client.ask("EVAL return(redis.call('set','three','v','px','1')) 0");
    client.ask("SELECT 5");
    client.ask("SET four v PX 1");
    // The primary says otherwise, before it is due there.
    link.send_command("SET kept v2");
    eventually_answers(&mut client, "DBSIZE", "0");
    client.ask("SELECT 0");
    eventually_answers(&mut client, "DBSIZE", "5");
    assert_eq!(client.ask("MGET a primary shared kept later"), "[1 Null Null v2 v]");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "1");
    link.send_command("DEL primary shared");
    eventually_answers(&mut client, "DBSIZE", "3");
    // As a primary it removes all that is due, and remembers nothing.
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    eventually("nothing is remembered", || info(&mut client, "slave_expires_tracked_keys") == "0");
}

#[test]
fn what_is_restored_goes_and_what_the_primary_has_written_since_stays() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &["--replica-read-only", "no"]);
    client.send(&[b"DUMP", b"a"]);
    let payload = client.receive().unwrap();
    client.send(&[b"RESTORE", b"restored", b"1", payload.as_bytes().unwrap()]);
    assert!(client.receive().is_some());
    eventually_answers(&mut client, "DBSIZE", "1");
    client.ask("SET shared v EX 1000");
    // It has an expiry of the primary's now, and passes it before the primary says so.
    link.send_command("SET shared v PX 1");
    eventually_answers(&mut client, "GET shared", "Null");
    eventually("nothing is remembered", || info(&mut client, "slave_expires_tracked_keys") == "0");
    assert_eq!(client.ask("DBSIZE"), "2", "the primary's keys");
}

#[test]
fn what_a_slow_script_of_the_stream_gives_an_expiry_is_the_primarys() {
    let primary = Primary::listen();
    let options = ["--replica-read-only", "no", "--busy-reply-threshold", "10"];
    let (replica, mut link, mut client) = linked(&primary, &options);
    let script = "for i = 1, 1e8 do end redis.call('SET', 'b', 'v', 'EX', '1000')";
    link.send(process::encode(&[b"EVAL", script.as_bytes(), b"0"]));
    let mut other = replica.connect();
    eventually("the script is slow", || other.ask("PING").starts_with("BUSY"));
    eventually_answers(&mut client, "GET b", "v");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "0");
    client.ask("SET mine v EX 1000");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "1");
}

#[test]
fn what_fails_where_clients_write_ends_no_process() {
    for read_only in ["no", "yes"] {
        let primary = Primary::listen();
        let options = ["--propagation-error-behavior", "panic", "--replica-read-only", read_only];
        let (mut replica, mut link, mut client) = linked(&primary, &options);
        client.ask("SET a text");
        link.send_command("SELECT 0");
        link.send_command(if read_only == "no" { "INCR a" } else { "LPUSH a 1" });
        if read_only == "yes" {
            assert!(!replica.wait().success());
            continue;
        }
        link.send_command("SET b 2");
        eventually_answers(&mut client, "MGET a b", "[text 2]");
    }
}

#[test]
fn what_is_remembered_is_forgotten_with_the_data() {
    let primary = Primary::listen();
    let (_replica, mut link, mut client) = linked(&primary, &["--replica-read-only", "no"]);
    client.ask("SET mine v EX 1000");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "1");
    link.send_command("FLUSHALL");
    eventually_answers(&mut client, "DBSIZE", "0");
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "0");
    client.ask("SET mine v EX 1000");
    link.vanish();
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(ID, 200));
    link.send(by_length(&snapshot(0, &[("b", "2")])));
    link.expect_acknowledged(200);
    assert_eq!(info(&mut client, "slave_expires_tracked_keys"), "0");
    assert_eq!(client.ask("KEYS *"), "[b]");
}

#[test]
fn a_replica_that_cannot_write_its_files_ends_or_goes_on_as_the_option_says() {
    for ignores in ["yes", "no"] {
        let primary = Primary::listen();
        let options = ["--save", "3600 1000000", "--replica-ignore-disk-write-errors", ignores];
        let (mut replica, mut link, mut client) = linked(&primary, &options);
        // There is a directory where the file is to be.
        std::fs::remove_file(replica.directory.join("dump.rdb")).unwrap();
        std::fs::create_dir_all(replica.directory.join("dump.rdb/full")).unwrap();
        assert_eq!(client.ask("BGSAVE"), "Background saving started");
        eventually("the save fails", || {
            client.ask("INFO persistence").contains("rdb_last_bgsave_status:err")
        });
        let offset = 100 + link.send_command("PING") as u64;
        link.expect_acknowledged(offset);
        link.send_command("SET b 2");
        if ignores == "yes" {
            eventually_answers(&mut client, "GET b", "2");
        } else {
            assert!(link.is_closed());
            assert!(!replica.wait().success());
        }
    }
}
