//! What clients may do while a file is loaded, step by step.

use crate::forks::Bench;
use crate::history::ask;
use crate::world::{Disk, End};
use crate::{connect, server_of};
use server::config::{AppendFsync, Config};
use server::sys::world::World;
use std::sync::Arc;

#[test]
fn options_that_clients_set_meanwhile_do_not_make_times_of_the_file_pass() {
    let config =
        Config { appendonly: true, appendfsync: AppendFsync::Always, save: Vec::new(), ..Config::default() };
    let disk = Arc::new(Disk::new(1));
    let mut bench = Bench::on(disk.clone(), config.clone());
    // A session whose time is put off again and again.
    assert_eq!(bench.ask("SET session value PX 100"), "+OK\r\n");
    assert_eq!(bench.ask("PEXPIRE session 100000000"), ":1\r\n");
    drop(bench);
    disk.restart(End::Killed);
    let mut executor = Box::new(server_of(config, 0));
    executor.move_to(World::of(disk.clone()));
    executor.clock.advance_ms(1000);
    executor.begin_loading().unwrap();
    let client = connect(&mut executor);
    assert!(executor.is_loading());
    executor.begin_tick();
    assert_eq!(ask(&mut executor, client, &[b"CONFIG", b"SET", b"maxmemory", b"1gb"]), b"+OK\r\n");
    while executor.is_loading() {
        executor.begin_tick();
        executor.load_step().unwrap();
        executor.end_tick();
    }
    executor.begin_tick();
    assert_eq!(ask(&mut executor, client, &[b"GET", b"session"]), b"$5\r\nvalue\r\n");
}
