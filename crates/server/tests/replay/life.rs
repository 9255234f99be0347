//! A server in this process that writes an append-only file, and those that are made from what it has written.

use super::Command;
use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::db::Db;
use server::engine::{Executor, Flow, Seeds};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{Loader, Snapshot, write_snapshot};
use server::script::functions::RestorePolicy;
use server::server::Identity;
use server::session::ClientSlot;
use server::session::client::ConnectionFigures;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use structures::hash::HashSeed;
use wire::aof::{Item, Reader};

pub const CLIENTS: usize = 4;
/// Far more turns of the loop than loading takes.
const LOAD_STEPS_MAX: usize = 1_000_000;

pub struct Life {
    pub executor: Box<Executor>,
    /// Of the append-only file.
    folder: PathBuf,
    clients: Vec<ClientSlot>,
}

/// Words as redis-cli takes them.
pub fn shown(command: &Command) -> String {
    let word = |arg: &Vec<u8>| match arg.len() {
        0..300 => format!("\"{}\"", arg.escape_ascii().to_string().replace("\\'", "'")),
        len => format!("\"{}...({len} bytes)\"", arg[..60].escape_ascii()),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn executor(config: &Config, folder: &Path, now_ms: i64, seed: u64) -> Box<Executor> {
    let identity = Identity {
        run_id: "0123456789abcdef0123456789abcdef01234567".into(),
        replication_id: "0123456789abcdef0123456789abcdef01234567".into(),
        process_id: 1,
        executable: "warmline-server".into(),
        config_file: String::new(),
        started: Default::default(),
    };
    let config = Config { appenddirname: folder.as_os_str().as_bytes().to_vec(), ..config.clone() };
    let seeds = Seeds { hash: HashSeed::new(seed, !seed), random: seed };
    Box::new(Executor::new(config, Clock::standing_at(now_ms), identity, seeds))
}

impl Life {
    pub fn begin(config: &Config, folder: &Path, now_ms: i64, seed: u64) -> Life {
        Life::load(executor(config, folder, now_ms, seed), folder)
    }

    /// With what is in the folder, or, if nothing is, with a base of what the executor holds already.
    fn load(mut executor: Box<Executor>, folder: &Path) -> Life {
        executor.begin_loading().unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..LOAD_STEPS_MAX {
            if !executor.is_loading() {
                break;
            }
            executor.begin_tick();
            executor.load_step().unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(!executor.is_loading(), "loading ends");
        let clients = (0..CLIENTS).map(|_| connect(&mut executor)).collect();
        Life { executor, folder: folder.to_owned(), clients }
    }

    /// A server that was started from a copy of the append-only file, by a clock that is ahead by so much.
    pub fn replayed(&mut self, config: &Config, copy: &Path, ahead_ms: u64) -> Life {
        let _ = std::fs::remove_dir_all(copy);
        std::fs::create_dir_all(copy).unwrap();
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
        let now_ms = self.now_ms() + ahead_ms as i64;
        Life::load(executor(config, copy, now_ms, 77), copy)
    }

    pub fn now_ms(&self) -> i64 {
        self.executor.clock.read().unix_ms()
    }

    fn snapshot(&self) -> Vec<u8> {
        let libraries = self.executor.server.scripts.libraries.codes().map(<[u8]>::to_vec).collect();
        let snapshot = Snapshot {
            release: "9.1",
            compresses: true,
            checksummed: true,
            libraries,
            ..Snapshot::default()
        };
        write_snapshot(Vec::new(), &self.executor.db, &snapshot, &mut |_| ()).unwrap()
    }

    /// What a server would hold that is started from a snapshot of this one now, and its libraries.
    pub fn snapshot_loaded(&self, config: &Config) -> (Db, Vec<Vec<u8>>) {
        let mut db = Db::new(config.databases as usize, HashSeed::new(5, 6), 7);
        db.limits = server::db::collection::EncodingLimits::of(config);
        let libraries = load(&self.snapshot(), &mut db, true, self.now_ms());
        (db, libraries)
    }

    /// A server with the same data, whose append-only file begins with it.
    pub fn reborn(&mut self, config: &Config, folder: &Path, seed: u64) -> Life {
        let now_ms = self.now_ms();
        let mut executor = executor(config, folder, now_ms, seed);
        executor.begin_tick();
        let libraries = load(&self.snapshot(), &mut executor.db, false, now_ms);
        executor.server.scripts.restore_libraries(&libraries, RestorePolicy::Flush).unwrap();
        Life::load(executor, folder)
    }

    pub fn waits(&self, client: usize) -> bool {
        !self.executor.accepts_requests(self.clients[client])
    }

    pub fn in_transaction(&self, client: usize) -> bool {
        self.executor.server.clients[self.clients[client]].transaction.is_some()
    }

    /// Closes the connection and opens another.
    pub fn reconnect(&mut self, client: usize) {
        self.executor.disconnect(self.clients[client]);
        self.clients[client] = connect(&mut self.executor);
    }

    /// Runs the command; what the client is answered.
    pub fn send(&mut self, client: usize, command: &Command) -> Vec<u8> {
        let (executor, slot) = (&mut self.executor, self.clients[client]);
        executor.begin_tick();
        let args = OwnedArgs::new(command.iter().map(Vec::as_slice));
        let mut reply = executor.borrow_output(slot);
        let id = executor.server.registry.find(args.view()).ok();
        let _: Flow = executor.execute_into(slot, id, args.view(), &mut reply);
        executor.return_output(slot, reply);
        self.turn(0);
        let answered = self.received(client);
        for client in 0..CLIENTS {
            let slot = self.clients[client];
            self.executor.server.clients[slot].output.take();
            self.executor.server.clients[slot].output_pending = false;
            if self.executor.server.clients[slot].is_closing() {
                self.reconnect(client);
            }
        }
        self.executor.server.clients.with_output.clear();
        answered
    }

    /// What the client has been answered since it was last asked for.
    pub fn received(&mut self, client: usize) -> Vec<u8> {
        self.executor.server.clients[self.clients[client]].output.take().copy_from(0)
    }

    /// Turns the clock, and then the loop once.
    pub fn turn(&mut self, ms: u64) {
        self.executor.clock.advance_ms(ms);
        self.executor.begin_tick();
        self.executor.run_timers();
        self.executor.end_tick();
    }

    /// The last commands of the append-only file that name the key, as text.
    pub fn told(&self, key: &[u8], count_max: usize) -> String {
        let mut told = Vec::new();
        let mut paths: Vec<_> =
            std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "aof"));
        paths.sort();
        for path in paths {
            let mut reader = Reader::new(BufReader::new(std::fs::File::open(path).unwrap()), 0);
            while let Ok(item) = reader.read() {
                match item {
                    Item::End => break,
                    Item::Command(command) => {
                        let name = command[0].to_ascii_uppercase();
                        let is_broad = [&b"SELECT"[..], b"SWAPDB", b"FLUSHDB", b"FLUSHALL"];
                        if is_broad.contains(&name.as_slice()) || command.iter().any(|word| word == key) {
                            told.push(format!("  {}\n", shown(&command)));
                        }
                    }
                    _ => {}
                }
            }
        }
        told.split_off(told.len().saturating_sub(count_max)).concat()
    }
}

fn connect(executor: &mut Executor) -> ClientSlot {
    executor.begin_tick();
    executor.connect(ConnectionFigures {
        address: "127.0.0.1:1000".into(),
        local_address: "127.0.0.1:6379".into(),
        is_loopback: true,
        ..ConnectionFigures::default()
    })
}

/// Loads a snapshot; the libraries in it.
fn load(snapshot: &[u8], db: &mut Db, drop_due: bool, now_ms: i64) -> Vec<Vec<u8>> {
    let options = LoadOptions {
        strict: true,
        verify_checksum: true,
        drop_due,
        replaces: false,
        keys_expected_max: 0,
        key_delay_us: 0,
        now_ms,
    };
    let mut loader = Loader::open(snapshot, options).unwrap_or_else(|error| panic!("{error}"));
    let done = loader.step(db, &mut || false).unwrap_or_else(|error| panic!("{error}"));
    assert!(done, "all is loaded at once");
    loader.libraries
}
