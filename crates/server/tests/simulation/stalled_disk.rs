//! A rewrite begins, and the disk takes long for the end of the file before: the server goes on, in the next one.

use crate::forks::Bench;
use crate::world::{Disk, End};
use server::config::{AppendFsync, Config};
use std::sync::Arc;

/// Far more than there are in a test that waits for nothing.
const LOOKS: u64 = 5000;
const POLICIES: [AppendFsync; 2] = [AppendFsync::No, AppendFsync::EverySecond];

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

/// A rewrite has begun, and what was written before it is not on disk.
fn stalled(disk: &Arc<Disk>, appendfsync: AppendFsync) -> Bench {
    let mut bench = Bench::on(disk.clone(), config(appendfsync));
    assert_eq!(bench.ask("SET before 1"), "+OK\r\n");
    disk.stall(LOOKS);
    assert_eq!(bench.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    assert_eq!(bench.ask("SET behind 2"), "+OK\r\n");
    bench
}

#[test]
fn the_server_goes_on() {
    for (seed, appendfsync) in (0..10).flat_map(|seed| POLICIES.map(|policy| (seed, policy))) {
        let disk = Arc::new(Disk::new(seed));
        let mut bench = stalled(&disk, appendfsync);
        for n in 0..20 {
            assert_eq!(bench.ask(&format!("SET key{n} 1")), "+OK\r\n");
        }
        bench.wait();
        assert!(bench.info("aof_buffer_length:0") && bench.info("aof_delayed_fsync:0"));
        assert_eq!(
            bench.ask("BGREWRITEAOF"),
            "+Background append only file rewriting scheduled\r\n",
            "files would pile up"
        );
        assert_eq!(disk.take_waits(), [], "{appendfsync:?}");
        disk.restart(End::Killed);
        assert_eq!(Bench::on(disk, config(appendfsync)).ask("EXISTS before behind key0 key19"), ":4\r\n");
    }
}

#[test]
fn a_power_cut_meanwhile_leaves_no_gap() {
    let keys = ["before", "behind", "more", "last"];
    let mut found = [0; 5];
    for (seed, appendfsync) in (0..100).flat_map(|seed| POLICIES.map(|policy| (seed, policy))) {
        let disk = Arc::new(Disk::new(seed));
        let mut bench = stalled(&disk, appendfsync);
        assert_eq!(bench.ask("SET more 3"), "+OK\r\n");
        assert_eq!(bench.ask("SET last 4"), "+OK\r\n");
        // Before the rewrite's child has ended.
        disk.restart(End::PowerCut);
        let mut bench = Bench::on(disk.clone(), config(appendfsync));
        let there = keys.map(|key| bench.ask(&format!("EXISTS {key}")) == ":1\r\n");
        let count = there.iter().take_while(|&&is_there| is_there).count();
        assert!(there[count..].iter().all(|&is_there| !is_there), "{seed}: {there:?}");
        found[count] += 1;
        // What is written from here on is found with that.
        assert_eq!(bench.ask("SET anew 5"), "+OK\r\n");
        disk.restart(End::Killed);
        let mut bench = Bench::on(disk, config(appendfsync));
        assert_eq!(bench.ask("EXISTS before behind more last anew"), format!(":{}\r\n", count + 1));
    }
    assert!(found.iter().all(|&times| times > 0), "{found:?}");
}
