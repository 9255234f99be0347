//! An executor in this process, and clients whose sockets it never sees.

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::{Config, MemoryLimit};
use server::engine::client_limits::evict_clients;
use server::engine::{Executor, Seeds};
use server::observe::memory::ThreadMemory;
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use structures::hash::HashSeed;

/// 2026-01-01, midnight.
const START_UNIX_MS: i64 = 1_767_225_600_000;

pub struct World {
    pub executor: Executor,
}

impl World {
    pub fn new() -> Self {
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let config = Config { save: Vec::new(), ..Config::default() };
        World { executor: Executor::new(config, Clock::standing_at(START_UNIX_MS), identity, seeds) }
    }

    pub fn connect(&mut self) -> ClientHandle {
        self.executor.connect(ConnectionFigures { is_loopback: true, ..ConnectionFigures::default() })
    }

    /// One command in a turn of its own, which must not fail; what it is answered stays with the client.
    pub fn tell(&mut self, client: ClientHandle, words: &[&[u8]]) {
        let executor = &mut self.executor;
        executor.begin_tick();
        let mut reply = executor.borrow_output(client);
        let start = reply.len();
        let args = OwnedArgs::new(words.iter().copied());
        let request = executor.request(args.view());
        executor.execute_into(client, request, &mut reply);
        let answer = reply.copy_from(start);
        executor.return_output(client, reply);
        assert!(!answer.starts_with(b"-"), "{}", String::from_utf8_lossy(&answer));
        self.end_turn();
    }

    /// As [`Self::tell`], and the client receives all that it is owed.
    pub fn ask(&mut self, client: ClientHandle, words: &[&[u8]]) {
        self.tell(client, words);
        self.receive(client);
    }

    /// As [`Self::ask`], of words without spaces in them.
    pub fn say(&mut self, client: ClientHandle, line: &str) {
        self.ask(client, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }

    pub fn receive(&mut self, client: ClientHandle) {
        drop(self.executor.server.clients[client].output.take());
    }

    fn end_turn(&mut self) {
        self.executor.run_timers();
        self.executor.end_tick();
        evict_clients(&mut self.executor.server);
        for receiver in std::mem::take(&mut self.executor.server.clients.with_output) {
            if self.executor.server.clients.get(receiver).is_some() {
                self.executor.server.clients[receiver].output_pending = false;
            }
        }
        self.executor.server.clients.with_much_output.clear();
        self.executor.server.resumed.clear();
        while let Some(closing) = self.executor.server.clients_to_close.pop() {
            self.executor.disconnect(closing);
        }
    }

    /// Turns without requests, for so long.
    pub fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            self.executor.clock.advance_ms(100);
            self.executor.begin_tick();
            self.end_turn();
        }
    }

    /// Sets `maxmemory-clients`.
    pub fn limit_clients(&mut self, bytes: usize) {
        self.executor.server.config.maxmemory_clients = MemoryLimit::Bytes(bytes as u64);
        self.executor.server.clients.count_memory_of_all();
        self.executor.begin_tick();
        self.end_turn();
    }

    pub fn is_connected(&self, client: ClientHandle) -> bool {
        self.executor.server.clients.get(client).is_some()
    }

    /// What CLIENT LIST shows as the client's `tot-mem`.
    pub fn counted_bytes(&self, client: ClientHandle) -> usize {
        self.executor.server.clients[client].memory_bytes()
    }

    /// Bytes that this thread has in use.
    pub fn used_bytes(&self) -> usize {
        usize::try_from(ThreadMemory::of_this_thread().unwrap().used_bytes()).unwrap()
    }
}
