//! A rewrite begins, and the disk takes long for the end of the file before: nothing can be written to the next one.

use crate::forks::Bench;
use crate::world::{Disk, End};
use server::config::{AppendFsync, Config};
use std::sync::Arc;

/// Far more than there are in a test that waits for nothing.
const LOOKS: u64 = 5000;
/// As many as fill the room that there is for what waits.
const MEGABYTES: usize = 32;

fn config(appendfsync: AppendFsync) -> Config {
    let auto_aof_rewrite_percentage = 0;
    Config {
        appendonly: true,
        appendfsync,
        auto_aof_rewrite_percentage,
        save: Vec::new(),
        ..Config::default()
    }
}

/// A rewrite has begun, what was written before it is not on disk, and what comes behind it is in memory.
fn stalled(disk: &Arc<Disk>, appendfsync: AppendFsync) -> Bench {
    let mut bench = Bench::on(disk.clone(), config(appendfsync));
    assert_eq!(bench.ask("SET before 1"), "+OK\r\n");
    disk.stall(LOOKS);
    assert_eq!(bench.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    assert_eq!(bench.ask("SET behind 2"), "+OK\r\n");
    assert!(!bench.info("aof_buffer_length:0"));
    bench
}

#[test]
fn the_server_goes_on_where_it_promises_nothing() {
    for seed in 0..10 {
        let disk = Arc::new(Disk::new(seed));
        let mut bench = stalled(&disk, AppendFsync::No);
        bench.wait();
        assert!(!bench.info("aof_buffer_length:0"));
        assert_eq!(
            bench.ask("BGREWRITEAOF"),
            "+Background append only file rewriting scheduled\r\n",
            "it would begin with a wait"
        );
        disk.stall(0);
        bench.wait();
        assert!(bench.info("aof_buffer_length:0") && bench.info("aof_delayed_fsync:0"));
        disk.restart(End::Killed);
        assert_eq!(Bench::on(disk, config(AppendFsync::No)).ask("EXISTS before behind"), ":2\r\n");
    }
}

#[test]
fn a_power_cut_meanwhile_leaves_what_can_be_loaded() {
    for seed in 0..60 {
        let disk = Arc::new(Disk::new(seed));
        stalled(&disk, AppendFsync::No).wait();
        disk.restart(End::PowerCut);
        let found = Bench::on(disk, config(AppendFsync::No)).ask("MGET before behind");
        assert!(found.ends_with("$-1\r\n"), "{found}");
    }
}

#[test]
fn the_server_waits_where_what_is_two_seconds_old_is_to_be_kept() {
    let disk = Arc::new(Disk::new(1));
    let mut bench = stalled(&disk, AppendFsync::EverySecond);
    bench.wait();
    assert!(bench.info("aof_buffer_length:0") && bench.info("aof_delayed_fsync:1"));
    disk.restart(End::Killed);
    assert_eq!(Bench::on(disk, config(AppendFsync::EverySecond)).ask("EXISTS before behind"), ":2\r\n");
}

#[test]
fn what_waits_in_memory_has_a_limit() {
    let disk = Arc::new(Disk::new(1));
    let mut bench = stalled(&disk, AppendFsync::No);
    let value = "v".repeat(1 << 20);
    for n in 1..MEGABYTES {
        assert_eq!(bench.ask(&format!("SET key{n} {value}")), "+OK\r\n");
    }
    assert!(!bench.info("aof_buffer_length:0") && bench.info("aof_delayed_fsync:0"));
    assert_eq!(bench.ask(&format!("SET last {value}")), "+OK\r\n");
    assert!(bench.info("aof_buffer_length:0") && bench.info("aof_delayed_fsync:1"));
    disk.restart(End::Killed);
    assert_eq!(Bench::on(disk, config(AppendFsync::No)).ask("EXISTS before key1 last"), ":3\r\n");
}
