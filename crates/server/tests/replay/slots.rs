//! The keys of some slots of a cluster, as commands for the node to which they move.

use super::commands::Commands;
use super::contents::{Contents, Detail};
use super::hidden_slots::LOADING;
use super::life::Life;
use super::world::Weather;
use super::{START_UNIX_MS, config_of};
use server::config::Config;
use server::db::Db;
use server::db::rdb::ReadValue;
use server::engine::slot_migration::begin_export;
use server::persist::rdb::{Loader, Observer, Snapshot, write_snapshot};
use server::persist::slots::write_slots;
use std::io::Read as _;
use structures::hash::HashSeed;
use structures::random::Random;
use wire::aof::{Item, Reader};
use wire::cluster_bus::SlotSet;
use wire::rdb::SlotImport;

const RUNS: u64 = 6;
const COMMANDS: u64 = 1_500;
const DATABASES: u32 = 3;

pub fn clustered(seed: u64) -> Config {
    Config { cluster_enabled: true, cluster_databases: DATABASES, ..config_of(seed) }
}

/// A node with values of all types, some of them expired.
fn lived(config: &Config, seed: u64) -> Life {
    let mut life = Life::begin(config, Weather::default(), START_UNIX_MS, seed);
    let mut commands = Commands::new(seed, START_UNIX_MS);
    for _ in 0..COMMANDS {
        let (client, command) = commands.next(&mut life);
        life.send(client, &command);
        commands.turn_the_clock(&mut life);
    }
    life
}

fn written(life: &Life, slots: &SlotSet) -> (Vec<u8>, u64) {
    let (mut out, mut told) = (Vec::new(), 0);
    let keys = write_slots(&mut out, &life.executor.db, slots, 0, &mut |keys| told = keys).unwrap();
    assert_eq!(keys, told);
    (out, keys)
}

#[test]
fn the_keys_of_slots_are_written_as_commands_that_create_them() {
    let mut keys_in_all = 0;
    for seed in 1..=RUNS {
        println!("seed {seed}");
        let config = clustered(seed);
        let life = lived(&config, seed);
        let mut random = Random::new(seed);
        let some: SlotSet = (0..wire::cluster_bus::SLOTS).filter(|_| random.below(2) == 0).collect();
        let mut rest = SlotSet::full();
        rest.remove_all(&some);
        for slots in [&some, &rest] {
            let (commands, keys) = written(&life, slots);
            let other = Life::of_commands(&config, &commands, life.now_ms(), seed + 100);
            other.executor.db.check();
            let here = Contents::of(&life.executor, Detail::WithoutTimes).without_libraries().in_slots(slots);
            let there = Contents::of(&other.executor, Detail::WithoutTimes);
            assert_eq!(here.difference(&there), None, "seed {seed}");
            assert_eq!(here.keys() as u64, keys);
            keys_in_all += keys;
        }
    }
    assert!(keys_in_all > 20 * RUNS, "{keys_in_all} keys are few");
}

/// Each slot's keys stand behind the choice of their database, so that a receiver may forget it between slots.
#[test]
fn each_slot_begins_with_its_database() {
    let mut life = Life::begin(&clustered(1), Weather::default(), START_UNIX_MS, 1);
    let send = |life: &mut Life, line: &str| {
        let command = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(life.send(0, &command), b"+OK\r\n", "{line}");
    };
    // Slots 15495, 3300 and 7365.
    ["SET a 1", "SET b 1", "SET c 1 PXAT 9999999999999", "SELECT 2", "SET a 2", "SET {a}2 x"]
        .iter()
        .for_each(|line| send(&mut life, line));
    let slots = [3300, 15_495].into_iter().collect();
    let (commands, keys) = written(&life, &slots);
    assert_eq!(keys, 4);
    let mut reader = Reader::new(&commands[..], 0);
    let mut text = Vec::new();
    while let Ok(Item::Command(words)) = reader.read() {
        text.push(String::from_utf8(words.join(&b' ')).unwrap());
    }
    text[5..].sort();
    assert_eq!(text, ["SELECT 0", "SET b 1", "SELECT 0", "SET a 1", "SELECT 2", "SET a 2", "SET {a}2 x"]);
    assert_eq!(written(&life, &SlotSet::new()), (Vec::new(), 0));
}

/// The child that writes them is a child as any other: no second one begins beside it.
#[test]
fn a_child_writes_them_into_a_pipe() {
    let mut life = Life::begin(&clustered(1), Weather::default(), START_UNIX_MS, 1);
    let send = |life: &mut Life, line: &str| {
        let command = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        String::from_utf8(life.send(0, &command)).unwrap()
    };
    (0..100).for_each(|number| drop(send(&mut life, &format!("SET key:{number} x"))));
    let running = |life: &mut Life| {
        let info = send(life, "INFO persistence");
        info.contains("slot_migration_fork_in_progress:1")
    };
    assert!(!running(&mut life));
    let slots = SlotSet::full();
    let (commands, _) = written(&life, &slots);
    let mut pipe = begin_export(&mut life.executor, &slots).expect("a child");
    assert!(running(&mut life));
    assert!(send(&mut life, "BGSAVE").starts_with("-ERR Another child process is active"));
    let mut out = Vec::new();
    pipe.read_to_end(&mut out).unwrap();
    assert_eq!(out, commands);
    (0..1000).for_each(|_| life.turn(100));
    assert!(!running(&mut life));
    // FLUSHALL kills it.
    begin_export(&mut life.executor, &slots).expect("a child");
    assert_eq!((running(&mut life), send(&mut life, "FLUSHALL").as_str()), (true, "+OK\r\n"));
    assert!(!running(&mut life));
}

/// What a file says of slots, and the keys behind it.
#[derive(Default)]
struct SlotInfos(Vec<String>);

impl Observer for SlotInfos {
    fn about(&mut self, name: &[u8], value: &[u8], _at: u64) {
        if name == b"slot-info" {
            self.0.push(String::from_utf8(value.to_vec()).unwrap());
        }
    }

    fn slot_import(&mut self, _import: &SlotImport, _at: u64) {}

    fn database(&mut self, index: u64, _at: u64) {
        self.0.push(format!("database {index}"));
    }

    fn key(&mut self, _db_index: usize, key: &[u8], _value: &ReadValue, _expiry_ms: Option<i64>) {
        self.0.push(String::from_utf8(key.to_vec()).unwrap());
    }
}

#[test]
fn files_say_how_many_keys_of_a_slot_follow() {
    let mut life = Life::begin(&clustered(1), Weather::default(), START_UNIX_MS, 1);
    for line in ["SET a 1", "SET b 1", "SET {b} 1", "SET c 1 PX 9000", "SELECT 2", "SET a 2"] {
        life.send(0, &line.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    }
    let snapshot = Snapshot { release: "9.1", ..Snapshot::default() };
    let file = write_snapshot(Vec::new(), &life.executor.db, &snapshot, &mut |_| ()).unwrap();
    let mut seen = SlotInfos::default();
    let mut loader = Loader::open(&file[..], LOADING).unwrap();
    loader.check(&mut Db::new(3, HashSeed::new(1, 2), 3), &mut seen).unwrap();
    seen.0[2..4].sort();
    let infos = ["3300,2,0", "b", "{b}", "7365,1,1", "c", "15495,1,0", "a"];
    assert_eq!(seen.0, [&["database 0"][..], &infos, &["database 2", "15495,1,0", "a"]].concat());
}
