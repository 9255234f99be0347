//! A server in this process that writes an append-only file, and those that are made from what it has written.

use super::Command;
use super::world::{Disk, Weather};
use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::db::Db;
use server::engine::{Executor, Flow, Seeds};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{Loader, Snapshot, write_snapshot};
use server::script::functions::RestorePolicy;
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use server::sys::world::{File, Open, World};
use std::io::{BufReader, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use structures::hash::HashSeed;
use wire::aof::{Item, Reader};

pub const CLIENTS: usize = 4;
/// Far more turns of the loop than loading takes.
const LOAD_STEPS_MAX: usize = 1_000_000;
/// Far more turns of the loop than it takes other threads to be done.
const TURNS_MAX: usize = 1_000;

pub struct Life {
    pub executor: Box<Executor>,
    disk: Arc<Disk>,
    weather: Weather,
    clients: Vec<ClientHandle>,
    /// How much more memory is in use than there may be, whenever a command comes.
    pub shortage_bytes: Option<i64>,
}

/// Words as redis-cli takes them.
pub fn shown(command: &Command) -> String {
    let word = |arg: &Vec<u8>| match arg.len() {
        0..300 => format!("\"{}\"", arg.escape_ascii().to_string().replace("\\'", "'")),
        len => format!("\"{}...({len} bytes)\"", arg[..60].escape_ascii()),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn executor(config: &Config, disk: &Arc<Disk>, now_ms: i64, seed: u64) -> Box<Executor> {
    let identity = Identity {
        run_id: "0123456789abcdef0123456789abcdef01234567".into(),
        process_id: 1,
        executable: "warmline-server".into(),
        config_file: String::new(),
        started: Default::default(),
    };
    let seeds = Seeds { hash: HashSeed::new(seed, !seed), random: seed, secret: [4; 32] };
    let mut executor = Executor::new(config.clone(), Clock::standing_at(now_ms), identity, seeds);
    executor.move_to(World::of(Arc::clone(disk)));
    Box::new(executor)
}

impl Life {
    /// `weather` says how often children cannot be forked, or are killed.
    pub fn begin(config: &Config, weather: Weather, now_ms: i64, seed: u64) -> Life {
        let disk = Arc::new(Disk::new(seed));
        Life::load(executor(config, &disk, now_ms, seed), disk, weather)
    }

    /// With what is on the disk, or, if nothing is, with a base of what the executor holds already.
    fn load(mut executor: Box<Executor>, disk: Arc<Disk>, weather: Weather) -> Life {
        executor.begin_loading().unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..LOAD_STEPS_MAX {
            if !executor.is_loading() {
                break;
            }
            executor.begin_tick();
            executor.load_step().unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(!executor.is_loading(), "loading ends");
        disk.set_weather(weather);
        let clients = (0..CLIENTS).map(|_| connect(&mut executor)).collect();
        Life { executor, disk, weather, clients, shortage_bytes: None }
    }

    /// A server that was started from a copy of the append-only file, with its clock ahead by this time.
    pub fn replayed(&self, config: &Config, ahead_ms: u64) -> Life {
        let disk = Arc::new(self.disk.copied(77));
        let now_ms = self.now_ms() + ahead_ms as i64;
        Life::load(executor(config, &disk, now_ms, 77), disk, Weather::default())
    }

    /// A server that was started from these commands, the base of its append-only file.
    pub fn of_commands(config: &Config, commands: &[u8], now_ms: i64, seed: u64) -> Life {
        let disk = Arc::new(Disk::new(seed));
        let world = World::of(Arc::clone(&disk));
        let directory = Path::new("appendonlydir");
        world.create_directory(directory).unwrap();
        let name = "appendonly.aof.1.base.aof";
        let manifest = format!("file {name} seq 1 type b\n");
        let files = [(name, commands), ("appendonly.aof.manifest", manifest.as_bytes())];
        for (name, contents) in files {
            world.open(&directory.join(name), Open::Create).unwrap().write_all(contents).unwrap();
        }
        Life::load(executor(config, &disk, now_ms, seed), disk, Weather::default())
    }

    /// Whether the append-only file is in use and complete.
    pub fn is_logged(&self) -> bool {
        let log = &self.executor.server.observed.persistence.log;
        log.enabled && !log.waits_for_rewrite
    }

    /// Waits until the append-only file has a base that was begun from now on, for it does not tell of what is there.
    pub fn rewrite_log(&mut self) {
        for _ in 0..TURNS_MAX {
            let log = &self.executor.server.observed.persistence.log;
            if log.last_rewrite_ok && !log.rewriting && !log.rewrite_scheduled {
                return;
            }
            if !log.rewriting {
                // After failures the next rewrite would be begun by itself much later.
                self.reconnect(CLIENTS - 1);
                self.send(CLIENTS - 1, &vec![b"BGREWRITEAOF".to_vec()]);
            }
            self.turn(100);
        }
        panic!("a rewrite ends");
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
        db.policies = server::db::policy::Policies::of(config);
        let libraries = load(&self.snapshot(), &mut db, true, self.now_ms());
        (db, libraries)
    }

    /// A server with the same data, whose append-only file begins with it.
    pub fn reborn(&mut self, config: &Config, seed: u64) -> Life {
        let now_ms = self.now_ms();
        let disk = Arc::new(Disk::new(seed));
        let mut executor = executor(config, &disk, now_ms, seed);
        executor.begin_tick();
        let libraries = load(&self.snapshot(), &mut executor.db, false, now_ms);
        executor.server.scripts.restore_libraries(&libraries, RestorePolicy::Flush).unwrap();
        Life::load(executor, disk, self.weather)
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
        self.run_short_of_memory();
        let (executor, handle) = (&mut self.executor, self.clients[client]);
        executor.begin_tick();
        let args = OwnedArgs::new(command.iter().map(Vec::as_slice));
        let mut reply = executor.borrow_output(handle);
        let request = executor.request(args.view());
        let _: Flow = executor.execute_into(handle, request, &mut reply);
        executor.return_output(handle, reply);
        self.turn(0);
        self.write_all();
        let answered = self.received(client);
        for client in 0..CLIENTS {
            let handle = self.clients[client];
            self.executor.server.clients[handle].output.take();
            self.executor.server.clients[handle].output_pending = false;
            if self.executor.server.clients[handle].is_closing() {
                self.reconnect(client);
            }
        }
        self.executor.server.clients.with_output.clear();
        answered
    }

    /// What is in use changes with what this test itself keeps: the limit goes with it.
    fn run_short_of_memory(&mut self) {
        let Some(shortage_bytes) = self.shortage_bytes else { return };
        let memory = &self.executor.server.observed.memory;
        while memory.reclaiming.pending.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        let limit_bytes = memory.used_bytes() as i64 - shortage_bytes;
        self.executor.server.config.maxmemory_bytes = limit_bytes.max(1) as u64;
    }

    /// While a rewrite begins, another thread may have to be done before the file is written again.
    fn write_all(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.executor.server.observed.persistence.log.buffered_bytes == 0 {
                return;
            }
            self.turn(0);
        }
        panic!("what is propagated is written");
    }

    /// What the client has been answered since it was last asked for.
    pub fn received(&mut self, client: usize) -> Vec<u8> {
        self.executor.server.clients[self.clients[client]].output.take().copy_from(0)
    }

    /// Turns the clock, and then the loop once.
    pub fn turn(&mut self, ms: u64) {
        self.executor.clock.advance_ms(ms);
        self.disk.set_time(self.executor.clock.monotonic_us());
        self.executor.begin_tick();
        self.executor.run_timers();
        self.executor.end_tick();
    }

    /// All that stands in the increments of the append-only file, as text.
    pub fn increments(&self) -> String {
        let mut text = String::new();
        for (path, _) in self.disk.listing() {
            if path.to_string_lossy().ends_with(".incr.aof") {
                let mut reader = self.commands_in(&path);
                while let Ok(item) = reader.read() {
                    match item {
                        Item::End => break,
                        Item::Command(words) => text.push_str(&String::from_utf8_lossy(&words.join(&b' '))),
                        Item::Timestamp(unix_s) => text.push_str(&format!("#{unix_s}")),
                        Item::BytesBefore(_) | Item::Comment => text.push('#'),
                    }
                    text.push(';');
                }
            }
        }
        text
    }

    fn commands_in(&self, path: &Path) -> Reader<BufReader<File>> {
        let world = World::of(Arc::clone(&self.disk));
        Reader::new(BufReader::new(world.open(path, Open::Read).unwrap()), 0)
    }

    /// The last commands of the append-only file that name the key, as text.
    pub fn propagated(&self, key: &[u8], count_max: usize) -> String {
        let mut commands = Vec::new();
        for (path, _) in self.disk.listing() {
            if path.extension().is_some_and(|extension| extension == "aof") {
                self.propagated_in(&path, key, &mut commands);
            }
        }
        commands.split_off(commands.len().saturating_sub(count_max)).concat()
    }

    fn propagated_in(&self, path: &Path, key: &[u8], commands: &mut Vec<String>) {
        let mut reader = self.commands_in(path);
        while let Ok(item) = reader.read() {
            match item {
                Item::End => break,
                Item::Command(command) => {
                    let name = command[0].to_ascii_uppercase();
                    let is_broad = [&b"SELECT"[..], b"SWAPDB", b"FLUSHDB", b"FLUSHALL"];
                    if is_broad.contains(&name.as_slice()) || command.iter().any(|word| word == key) {
                        commands.push(format!("  {}\n", shown(&command)));
                    }
                }
                _ => {}
            }
        }
    }
}

fn connect(executor: &mut Executor) -> ClientHandle {
    executor.begin_tick();
    executor.connect(ConnectionFigures {
        address: "127.0.0.1:1000".into(),
        local_address: "127.0.0.1:6379".into(),
        is_loopback: true,
        ..ConnectionFigures::default()
    })
}

/// Loads a snapshot; the libraries in it.
fn load(snapshot: &[u8], db: &mut Db, drop_expired: bool, now_ms: i64) -> Vec<Vec<u8>> {
    let options = LoadOptions {
        strict: true,
        verify_checksum: true,
        drop_expired,
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
