//! An fsync in the background that fails: writes are refused, and INFO says so too.

use crate::forks::Bench;
use crate::world::{Disk, Weather};
use server::config::{AppendFsync, Config};
use std::sync::Arc;

#[test]
fn info_tells_of_what_writes_are_refused_for() {
    let config = Config {
        appendonly: true,
        appendfsync: AppendFsync::EverySecond,
        save: Vec::new(),
        ..Config::default()
    };
    let disk = Arc::new(Disk::new(1));
    let mut bench = Bench::on(disk.clone(), config);
    assert!(bench.info("aof_last_write_status:ok"));
    disk.set_weather(Weather { sync: 1000, ..Weather::default() });
    assert_eq!(bench.ask("SET key value"), "+OK\r\n");
    bench.wait();
    let refusal = bench.ask("SET key value");
    assert!(refusal.starts_with("-MISCONF Errors writing to the AOF file: "), "{refusal}");
    assert!(bench.info("aof_last_write_status:err"));
    disk.set_weather(Weather::default());
    bench.wait();
    assert_eq!(bench.ask("SET key value"), "+OK\r\n");
    assert!(bench.info("aof_last_write_status:ok"));
}
