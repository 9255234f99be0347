//! What processes leave that end before their work is done: increments that a base has taken the place of, which are
//! still there while numbers begin again at one, and starts that were killed.

use crate::forks::Bench;
use crate::world::{Disk, End};
use server::config::{AppendFsync, Config};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn config() -> Config {
    Config { appendonly: true, appendfsync: AppendFsync::Always, save: Vec::new(), ..Config::default() }
}

/// A list in an increment, and then in a base alone.
fn rewritten_while_off(bench: &mut Bench) {
    assert_eq!(bench.ask("RPUSH list first"), ":1\r\n");
    assert_eq!(bench.ask("CONFIG SET appendonly no"), "+OK\r\n");
    assert_eq!(bench.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    bench.wait();
}

#[test]
fn an_increment_that_a_power_cut_brings_back_is_not_gone_on_with() {
    for seed in 0..60 {
        let disk = Arc::new(Disk::new(seed));
        rewritten_while_off(&mut Bench::on(disk.clone(), config()));
        disk.restart(End::PowerCut);
        assert_eq!(Bench::on(disk.clone(), config()).ask("RPUSH list second"), ":2\r\n", "{seed}");
        disk.restart(End::PowerCut);
        assert_eq!(Bench::on(disk, config()).ask("LLEN list"), ":2\r\n", "{seed}");
    }
}

#[test]
fn an_increment_that_is_kept_as_history_is_not_gone_on_with() {
    let disk = Arc::new(Disk::new(1));
    let config = Config { aof_disable_auto_gc: true, ..config() };
    rewritten_while_off(&mut Bench::on(disk.clone(), config.clone()));
    disk.restart(End::Killed);
    let mut bench = Bench::on(disk.clone(), config.clone());
    assert_eq!(bench.ask("RPUSH list second"), ":2\r\n");
    assert_eq!(bench.ask("CONFIG SET aof-disable-auto-gc no"), "+OK\r\n");
    disk.restart(End::Killed);
    assert_eq!(Bench::on(disk, config).ask("LLEN list"), ":2\r\n");
}

#[test]
fn what_a_killed_start_has_left_does_not_go_with_the_next_power_cut() {
    for calls in 0.. {
        let disk = Arc::new(Disk::new(calls));
        disk.end_after(calls, End::Killed);
        let start = || drop(Bench::on(disk.clone(), config()));
        let is_whole = catch_unwind(AssertUnwindSafe(start)).is_ok();
        disk.restart(End::Killed);
        assert_eq!(Bench::on(disk.clone(), config()).ask("SET key value"), "+OK\r\n", "{calls}");
        disk.restart(End::PowerCut);
        assert_eq!(Bench::on(disk, config()).ask("GET key"), "$5\r\nvalue\r\n", "{calls}");
        if is_whole {
            assert!(calls > 10, "{calls}");
            break;
        }
    }
}

#[test]
fn a_stop_forces_the_file_before_the_last_to_disk_too() {
    let config = Config { appendfsync: AppendFsync::No, ..config() };
    for seed in 0..60 {
        let disk = Arc::new(Disk::new(seed));
        let mut bench = Bench::on(disk.clone(), config.clone());
        assert_eq!(bench.ask("SET before 1"), "+OK\r\n");
        assert_eq!(bench.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
        assert_eq!(bench.ask("SET behind 2"), "+OK\r\n");
        assert!(bench.shut_down());
        disk.restart(End::PowerCut);
        assert_eq!(Bench::on(disk, config.clone()).ask("EXISTS before behind"), ":2\r\n", "{seed}");
    }
}
