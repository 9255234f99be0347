//! The append-only file is switched off in the tick of a write that it cannot take.

use crate::forks::Bench;
use crate::world::{Disk, End, Weather};
use server::config::{AppendFsync, Config};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const COMMANDS: [&str; 2] = ["SET key value", "CONFIG SET appendonly no"];

fn switched_off_on_a_full_disk(appendfsync: AppendFsync) -> Result<String, End> {
    let config = Config { appendonly: true, appendfsync, save: Vec::new(), ..Config::default() };
    let disk = Arc::new(Disk::new(1));
    let mut bench = Bench::on(disk.clone(), config);
    disk.set_weather(Weather { room: Some(0), ..Weather::default() });
    let answered = catch_unwind(AssertUnwindSafe(|| bench.ask_at_once(&COMMANDS)));
    answered.map_err(|panic| *panic.downcast::<End>().expect("nothing else ends it"))
}

#[test]
fn the_process_ends_rather_than_answer_a_write_that_is_to_be_on_disk() {
    assert_eq!(switched_off_on_a_full_disk(AppendFsync::Always), Err(End::Exited(1)));
}

#[test]
fn other_policies_let_it_go() {
    for appendfsync in [AppendFsync::EverySecond, AppendFsync::No] {
        assert_eq!(switched_off_on_a_full_disk(appendfsync), Ok("+OK\r\n+OK\r\n".to_owned()));
    }
}
