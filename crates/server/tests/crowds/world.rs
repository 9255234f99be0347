//! An executor in this process with any number of clients, and what its commands visit and keep.

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::engine::client_limits::evict_clients;
use server::engine::tracing::Begun;
use server::engine::{Executor, Flow, Seeds};
use server::observe::memory::ThreadMemory;
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::time::{Duration, Instant};
use structures::hash::HashSeed;
use structures::work;

/// How many times as large the larger crowd is.
pub const GROWTH: usize = 16;

/// How often an act is timed.
const TIMED: usize = 20;

/// 2026-01-01, midnight.
const START_UNIX_MS: i64 = 1_767_225_600_000;

pub struct World {
    pub executor: Executor,
    lines: usize,
}

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
        let executor = Executor::new(config, Clock::standing_at(START_UNIX_MS), identity, seeds);
        World { executor, lines: 0 }
    }

    pub fn connect(&mut self) -> ClientHandle {
        self.executor.connect(ConnectionFigures {
            address: "127.0.0.1:1000".into(),
            local_address: "127.0.0.1:6379".into(),
            is_loopback: true,
            ..ConnectionFigures::default()
        })
    }

    pub fn connect_many(&mut self, count: usize) -> Vec<ClientHandle> {
        (0..count).map(|_| self.connect()).collect()
    }

    /// The client goes, if it has not gone before.
    pub fn leave(&mut self, client: ClientHandle) {
        if self.executor.server.clients.get(client).is_none() {
            return;
        }
        self.executor.begin_tick();
        self.executor.disconnect(client);
        self.end_turn();
    }

    /// One command in a turn of its own; what its client received.
    pub fn ask(&mut self, client: ClientHandle, words: &[&[u8]]) -> Vec<u8> {
        self.executor.begin_tick();
        self.run(client, words);
        self.end_turn();
        self.received(client)
    }

    /// As [`Self::ask`], of words without spaces in them; `{}` is another number each time.
    pub fn say(&mut self, client: ClientHandle, line: &str) -> Vec<u8> {
        self.lines += 1;
        let line = line.replace("{}", &self.lines.to_string());
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask(client, &words)
    }

    /// As [`Self::say`], for a command that must succeed.
    pub fn expect(&mut self, client: ClientHandle, line: &str) {
        let reply = self.say(client, line);
        assert!(!reply.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&reply));
    }

    /// A command within a turn; what follows from it happens at once, what the turn's end does not.
    pub fn run(&mut self, client: ClientHandle, words: &[&[u8]]) {
        let executor = &mut self.executor;
        let is_tracing = executor.is_tracing();
        let mut reply = executor.borrow_output(client);
        let args = OwnedArgs::new(words.iter().copied());
        let request = executor.request(args.view());
        let begun = if is_tracing { executor.begin_trace() } else { Begun::default() };
        let _: Flow = executor.execute_into(client, request, &mut reply);
        if is_tracing && executor.is_candidate(begun) {
            let received_us = executor.server.now.monotonic_us;
            executor.note_request(client, executor.request(args.view()), received_us, begun);
        }
        executor.return_output(client, reply);
    }

    /// Timers run, and the turn ends; clients that are to be closed go.
    pub fn end_turn(&mut self) {
        self.executor.run_timers();
        self.executor.end_tick();
        evict_clients(&mut self.executor.server);
        for receiver in std::mem::take(&mut self.executor.server.clients.with_output) {
            if self.executor.server.clients.get(receiver).is_some() {
                self.executor.server.clients[receiver].output_pending = false;
            }
        }
        if self.executor.has_traces_under_way() {
            self.executor.finish_traces();
        }
        self.executor.server.resumed.clear();
        self.executor.server.process_requests.clear();
        while let Some(closing) = self.executor.server.clients_to_close.pop() {
            if self.executor.server.clients.get(closing).is_some() {
                self.executor.disconnect(closing);
            }
        }
    }

    /// A turn without a request, some time later.
    pub fn advance_ms(&mut self, ms: u64) {
        self.executor.clock.advance_ms(ms);
        self.executor.begin_tick();
        self.end_turn();
    }

    /// What the client has been sent since the last time.
    pub fn received(&mut self, client: ClientHandle) -> Vec<u8> {
        if self.executor.server.clients.get(client).is_none() {
            return Vec::new();
        }
        let output = self.executor.server.clients[client].output.take();
        let bytes = output.copy_from(0);
        self.executor.server.clients[client].connection.output_bytes_total += bytes.len() as u64;
        self.executor.server.clients.keep_output(output);
        bytes
    }

    /// What is visited, hashed and moved meanwhile, as one number.
    pub fn cost(&mut self, act: impl FnOnce(&mut World)) -> u64 {
        work::take();
        act(self);
        let done = work::take();
        done.visited + (done.hashed + done.moved) / 64
    }

    /// The shortest of some times that this takes: a net for what visits without counting.
    pub fn shortest(&mut self, mut act: impl FnMut(&mut World)) -> Duration {
        let mut timed = || {
            let started = Instant::now();
            act(self);
            started.elapsed()
        };
        (0..TIMED).map(|_| timed()).min().unwrap()
    }

    /// Bytes that this thread has in use.
    pub fn used_bytes(&self) -> u64 {
        u64::try_from(ThreadMemory::of_this_thread().unwrap().used_bytes()).unwrap()
    }
}

/// What this thread has computed so far: the machine is others' as well. The figure is brought up to date as the thread
/// gives way.
pub fn computed() -> Duration {
    std::thread::yield_now();
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(figures.split(' ').next().unwrap().parse().unwrap())
}
