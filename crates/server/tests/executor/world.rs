//! An executor in this process with some clients and a clock that the steps turn. It stands for the loop that would
//! serve their sockets.

use super::Command;
use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::db::{Db, Turn};
use server::engine::client_limits::evict_clients;
use server::engine::{Executor, Flow, Seeds};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{Loader, Snapshot, write_snapshot};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use structures::hash::HashSeed;
use wire::response::{Reader, ResponseError, Value};

pub const CLIENTS: usize = 4;

#[derive(Clone, Debug)]
pub enum Step {
    /// Commands of one client, sent at once.
    Commands {
        client: usize,
        commands: Vec<Command>,
    },
    Advance {
        ms: u64,
    },
    /// The client goes, and another takes its place.
    Leave {
        client: usize,
    },
}

/// DEBUG RELOAD writes to the working directory: from here on, one of this process.
pub fn enter_directory() {
    let directory = std::env::temp_dir().join(format!("warmline-executor-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a folder for temporary files is there");
    std::env::set_current_dir(directory).expect("the folder has just been made");
}

impl Step {
    pub fn command(client: usize, args: Command) -> Self {
        Step::Commands { client, commands: vec![args] }
    }
}

pub struct World {
    executor: Executor,
    clients: [ClientHandle; CLIENTS],
    /// What was sent at once runs in one turn, not a turn for each command.
    pub has_pipelines: bool,
}

/// 2026-01-01, midnight.
pub const START_UNIX_MS: i64 = 1_767_225_600_000;

impl World {
    pub fn new(config: Config) -> Self {
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let mut executor = Executor::new(config, Clock::standing_at(START_UNIX_MS), identity, seeds);
        let clients = std::array::from_fn(|_| connect(&mut executor));
        World { executor, clients, has_pipelines: true }
    }

    /// Runs a step; what the client that took it received. Commands of a client that waits come from another.
    pub fn perform(&mut self, step: &Step) -> Vec<Value> {
        match step {
            Step::Commands { client, commands } => {
                let free = (0..CLIENTS).map(|offset| (client + offset) % CLIENTS);
                let free = free.into_iter().find(|&at| self.executor.accepts_requests(self.clients[at]));
                let client = free.unwrap_or_else(|| {
                    self.replace(*client);
                    *client
                });
                self.send(self.clients[client], commands);
                self.after_turn(Some(client))
            }
            Step::Advance { ms } => {
                // In pieces, so that what is expired early happens before what is expired late.
                for _ in 0..4 {
                    self.executor.clock.advance_ms(ms.div_ceil(4));
                    self.executor.begin_tick();
                    self.executor.run_timers();
                    self.executor.end_tick();
                    self.after_turn(None);
                }
                Vec::new()
            }
            Step::Leave { client } => {
                self.executor.begin_tick();
                self.replace(*client);
                self.after_turn(None)
            }
        }
    }

    fn replace(&mut self, client: usize) {
        self.executor.disconnect(self.clients[client]);
        self.clients[client] = connect(&mut self.executor);
    }

    /// Until one makes the client wait, or ends it.
    fn send(&mut self, handle: ClientHandle, commands: &[Command]) {
        let in_a_turn = if self.has_pipelines { commands.len() } else { 1 };
        for turn in commands.chunks(in_a_turn) {
            if self.run_turn(handle, turn) == Flow::Stop {
                return;
            }
        }
    }

    fn run_turn(&mut self, handle: ClientHandle, commands: &[Command]) -> Flow {
        let executor = &mut self.executor;
        executor.begin_tick();
        let mut reply = executor.borrow_output(handle);
        reply.take_references();
        let mut flow = Flow::Next;
        for args in commands {
            let args = OwnedArgs::new(args.iter().map(Vec::as_slice));
            let request = executor.request(args.view());
            flow = executor.execute_into(handle, request, &mut reply);
            if flow == Flow::Stop {
                break;
            }
        }
        executor.return_output(handle, reply);
        executor.run_timers();
        executor.end_tick();
        flow
    }

    /// Takes what all clients are owed, which must be whole replies, and lets those go that are to be closed. What
    /// `client` received.
    fn after_turn(&mut self, client: Option<usize>) -> Vec<Value> {
        let executor = &mut self.executor;
        executor.server.resumed.clear();
        executor.server.process_requests.clear();
        let mut received = Vec::new();
        for (at, &handle) in self.clients.iter().enumerate() {
            let connected = &mut executor.server.clients[handle];
            connected.output_pending = false;
            let is_condemned = connected.close_asap;
            let output = connected.output.take();
            let values = if is_condemned { Vec::new() } else { values(&output.copy_from(0)) };
            if client == Some(at) {
                received = values;
            }
        }
        executor.server.clients.with_output.clear();
        evict_clients(&mut executor.server);
        for at in 0..CLIENTS {
            let closing = &self.executor.server.clients[self.clients[at]];
            if closing.close_asap || closing.close_after_reply {
                self.replace(at);
            }
        }
        self.executor.server.clients_to_close.clear();
        received
    }

    /// Panics unless the data keeps all invariants.
    pub fn check(&self) {
        self.executor.db.check();
    }

    /// Panics unless the data is the same once it has been written to a file and loaded.
    pub fn check_file(&mut self) {
        let executor = &self.executor;
        let snapshot =
            Snapshot { release: "9.1.0", compresses: true, checksummed: true, ..Snapshot::default() };
        let file = write_snapshot(Vec::new(), &executor.db, &snapshot, &mut |_| ()).unwrap();
        let mut copy = Db::new(executor.db.database_count(), executor.db.key_seed(), 3);
        copy.policies = executor.db.policies.clone();
        copy.begin(Turn { database: 0, ..executor.db.turn() });
        let mut loader = Loader::open(&file[..], LOADING).unwrap();
        assert!(loader.step(&mut copy, &mut || false).unwrap(), "all is loaded at once");
        copy.check();
        for index in 0..copy.database_count() {
            assert_eq!(
                copy.database(index).len(),
                executor.db.database(index).len(),
                "keys of database {index}"
            );
        }
        assert_eq!(copy.digest().text(), executor.db.digest().text(), "what was saved is what was loaded");
    }
}

const LOADING: LoadOptions = LoadOptions {
    strict: true,
    verify_checksum: true,
    drop_expired: false,
    replaces: false,
    keys_expected_max: 1_000_000,
    key_delay_us: 0,
    now_ms: 0,
};

fn connect(executor: &mut Executor) -> ClientHandle {
    executor.connect(ConnectionFigures {
        address: "127.0.0.1:1000".into(),
        local_address: "127.0.0.1:6379".into(),
        is_loopback: true,
        ..ConnectionFigures::default()
    })
}

/// Whole replies. An error that repeats a long key may be more than a client takes in one line.
fn values(bytes: &[u8]) -> Vec<Value> {
    let (mut reader, mut position, mut values) = (Reader::new(), 0, Vec::new());
    while position < bytes.len() {
        match reader.read(bytes, &mut position) {
            Ok(value) => values.push(value.expect("a client receives whole replies")),
            Err(ResponseError::LineTooLong) => break,
            Err(error) => panic!("{error:?} in what a client received"),
        }
    }
    values
}
