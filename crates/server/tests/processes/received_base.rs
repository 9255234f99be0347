//! A replica with an append-only file: the snapshot that it has received as a file is the base of it.

use crate::fake_primary::{ID, Link, Primary, by_length, full_resync, snapshot};
use crate::process::{Process, encode, eventually, info};

const LOG: [&str; 4] = ["--appendonly", "yes", "--enable-debug-command", "yes"];

/// A replica that has been sent these bytes as its snapshot, `a` being `1` in it.
fn synced(primary: &Primary, options: &[&str], sent: &[u8]) -> (Process, Link) {
    let replica = primary.replica(&[&LOG, options].concat());
    let (mut link, _) = primary.accept_and_greet();
    link.send(full_resync(ID, 100));
    link.send(by_length(sent));
    link.expect_acknowledged(100);
    (replica, link)
}

/// Sends a command behind the offset, and waits until it is applied.
fn stream(link: &mut Link, offset: u64, command: &str) {
    let sent = link.send_command(command) as u64;
    link.expect_acknowledged(offset + sent);
}

fn read(replica: &Process, name: &str) -> Option<Vec<u8>> {
    std::fs::read(replica.directory.join(name)).ok()
}

fn manifest(replica: &Process) -> String {
    String::from_utf8(read(replica, "appendonlydir/appendonly.aof.manifest").unwrap()).unwrap()
}

/// The base that the manifest names.
fn base(replica: &Process) -> Vec<u8> {
    let manifest = manifest(replica);
    let line = manifest.lines().find(|line| line.ends_with("type b")).unwrap();
    let name = line.split(' ').nth(1).unwrap();
    read(replica, &format!("appendonlydir/{name}")).unwrap()
}

/// Loads what is on disk, and whether that is `a` and what came in the stream.
fn expect_loadable(replica: &Process, stream_value: &str) {
    let mut client = replica.connect();
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    eventually("the file is complete", || info(&mut client, "aof_rewrite_in_progress") == "0");
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(client.ask("GET b"), stream_value);
    assert_eq!(client.ask("DBSIZE"), "2");
}

#[test]
fn what_was_received_is_the_base_and_the_stream_goes_behind_it() {
    let primary = Primary::listen();
    let sent = snapshot(0, &[("a", "1")]);
    let (replica, mut link) = synced(&primary, &[], &sent);
    assert_eq!(base(&replica), sent);
    assert_eq!(read(&replica, "dump.rdb"), None, "it has moved");
    let mut client = replica.connect();
    assert_eq!(info(&mut client, "total_forks"), "0", "no child writes it once more");
    assert_eq!(info(&mut client, "aof_base_size"), sent.len().to_string());
    stream(&mut link, 100, "SET b 2");
    let names: Vec<_> =
        manifest(&replica).lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}: what was there before is removed");
    expect_loadable(&replica, "2");
}

#[test]
fn the_next_snapshot_takes_the_place_of_the_last() {
    let primary = Primary::listen();
    let (replica, mut link) = synced(&primary, &[], &snapshot(0, &[("x", "1"), ("y", "2")]));
    link.send_command("SET z 3");
    // All is asked for anew after what cannot be applied.
    link.send("not a command\r\n");
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync[..2], ["PSYNC", "?"]);
    let sent = snapshot(0, &[("a", "1")]);
    link.send(full_resync(ID, 500));
    link.send(by_length(&sent));
    link.expect_acknowledged(500);
    assert_eq!(base(&replica), sent);
    stream(&mut link, 500, "SET b 5");
    expect_loadable(&replica, "5");
}

#[test]
fn what_stands_behind_a_snapshot_is_never_run_as_commands() {
    let primary = Primary::listen();
    let sent = [snapshot(0, &[("a", "1")]), encode(&[b"FLUSHALL"])].concat();
    let (replica, mut link) = synced(&primary, &[], &sent);
    stream(&mut link, 100, "SET b 2");
    let mut client = replica.connect();
    eventually("a base is written", || info(&mut client, "aof_rewrite_in_progress") == "0");
    assert_ne!(base(&replica), sent);
    expect_loadable(&replica, "2");
}

#[test]
fn bases_that_are_to_be_commands_are_written() {
    let primary = Primary::listen();
    let sent = snapshot(0, &[("a", "1")]);
    let (replica, mut link) = synced(&primary, &["--aof-use-rdb-preamble", "no"], &sent);
    stream(&mut link, 100, "SET b 2");
    let mut client = replica.connect();
    eventually("a base is written", || info(&mut client, "aof_rewrite_in_progress") == "0");
    assert_eq!(read(&replica, "dump.rdb"), Some(sent));
    assert!(base(&replica).starts_with(b"*"));
    expect_loadable(&replica, "2");
}

#[test]
fn where_it_cannot_be_moved_a_base_is_written() {
    let primary = Primary::listen();
    let replica = primary.replica(&LOG);
    let (mut link, _) = primary.accept_and_greet();
    // What has the name that the base is going to have cannot be replaced by a file.
    let in_the_way = replica.directory.join("appendonlydir/appendonly.aof.2.base.rdb");
    std::fs::create_dir(&in_the_way).unwrap();
    let sent = snapshot(0, &[("a", "1")]);
    link.send(full_resync(ID, 100));
    link.send(by_length(&sent));
    link.expect_acknowledged(100);
    assert_eq!(read(&replica, "dump.rdb"), Some(sent), "it has stayed");
    std::fs::remove_dir(&in_the_way).unwrap();
    stream(&mut link, 100, "SET b 2");
    let mut client = replica.connect();
    eventually("a base is written", || manifest(&replica).contains("appendonly.aof.2.base.rdb"));
    assert_eq!(client.ask("GET a"), "1");
    expect_loadable(&replica, "2");
}

#[test]
fn a_snapshot_that_breaks_within_keeps_no_start_from_succeeding() {
    let primary = Primary::listen();
    let replica = primary.replica(&[]);
    let (mut link, _) = primary.accept_and_greet();
    let sent = snapshot(0, &[("a", "1")]);
    link.send(full_resync(ID, 100));
    link.send(by_length(&sent[..sent.len() - 12]));
    assert!(link.is_closed());
    eventually("it is removed", || read(&replica, "dump.rdb").is_none());
    assert_eq!(replica.connect().ask("DBSIZE"), "0");
}

#[test]
fn what_a_client_saves_stays_where_a_received_file_has_moved_away() {
    let primary = Primary::listen();
    let sent = snapshot(0, &[("a", "1")]);
    let (replica, mut link) = synced(&primary, &["--rdb-del-sync-files", "yes"], &sent);
    stream(&mut link, 100, "SET b 2");
    let mut client = replica.connect();
    assert_eq!(client.ask("CONFIG SET appendonly no"), "OK");
    assert_eq!(client.ask("SAVE"), "OK");
    // What is done once a second is done.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(read(&replica, "dump.rdb").is_some());
}
