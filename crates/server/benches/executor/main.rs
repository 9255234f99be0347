//! What the executor can do by itself: requests come through the queues that I/O threads use, parsed and with their
//! keys hashed, from one thread that stands in for those, and no socket is in the way. Prints the table of
//! `docs/threads.md`.
//!
//! ```text
//!   cargo bench -p warmline-server --bench executor
//!   stand-in: 50 clients --> ring --> executor: batch, prefetch, run --> ring --> stand-in reads
//! ```
//! The number of each case is the number of strings (GET, SET, MGET), of members of a sorted set (ZADD) or of fields of
//! a hash (HSET). All commands update existing data, in pipelines of 16 by default. The executor's time is the processor
//! time of its thread, and its limit the requests that fit into a second of that. Requests a second are those of both
//! threads together, and fewer: one thread cannot deliver as fast as the executor works.
//!
//! Environment: `WARMLINE_BENCH_QUICK=1` for a tenth of the requests and keys, to see that all runs;
//! `WARMLINE_BENCH_KEYS=5000000` instead of one and five million; `WARMLINE_BENCH_CASES=GET,SET` for some cases only;
//! `WARMLINE_BENCH_ROUNDS=1` instead of 5.

mod clients;

use clients::{CASES, Case, Clients, Job};
use server::clock::Clock;
use server::config::Config;
use server::engine::{Executor, Seeds};
use server::net::EventLoop;
use server::net::signals::Signals;
use server::observe::process::{Whose, cpu_times};
use server::server::Identity;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use structures::hash::HashSeed;

const CLIENTS: usize = 50;
/// Requests that are prepared at once.
const REQUESTS: usize = 1_000_000;

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value != "0")
}

/// The executor in this thread, the clients in another.
struct Bench {
    /// Before the event loop, which waits for the clients' thread to end, and that ends when there are no more jobs.
    jobs: Sender<Job>,
    event_loop: EventLoop,
    /// How long the last job took, in ns; 0 while it is under way.
    elapsed_ns: Arc<AtomicU64>,
}

#[derive(Clone, Copy)]
struct Figures {
    requests_per_s: f64,
    executor_us: f64,
    /// Share of the time in which the executor was at work.
    busy: f64,
}

impl Bench {
    fn start() -> Bench {
        let identity = Identity {
            run_id: "0".repeat(40),
            process_id: std::process::id(),
            executable: String::new(),
            config_file: String::new(),
            started: Default::default(),
        };
        let config = Config { save: Vec::new(), ..Config::default() };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let executor = Executor::new(config, Clock::machine(), identity, seeds);
        let signals = Signals::new().expect("signals can be watched");
        let mut event_loop = EventLoop::new(executor, signals).expect("the system has epoll");
        let (jobs, orders) = channel();
        let elapsed_ns = Arc::new(AtomicU64::new(0));
        let done = Arc::clone(&elapsed_ns);
        pin_to(0);
        let work = move |stand_in| {
            pin_to(1);
            let mut clients = Clients::new(stand_in, CLIENTS);
            for job in orders {
                done.store(clients.perform(job).as_nanos() as u64, Ordering::Release);
            }
        };
        event_loop.start_stand_in(CLIENTS, work).expect("a thread can be started");
        Bench { event_loop, jobs, elapsed_ns }
    }

    fn perform(&mut self, job: Job) -> Figures {
        self.elapsed_ns.store(0, Ordering::Release);
        let before = executor_time();
        self.jobs.send(job).expect("the clients are there");
        while self.elapsed_ns.load(Ordering::Acquire) == 0 {
            self.event_loop.tick().expect("the executor's own files can be watched");
        }
        let used = executor_time() - before;
        let elapsed = Duration::from_nanos(self.elapsed_ns.load(Ordering::Acquire));
        Figures {
            requests_per_s: job.requests as f64 / elapsed.as_secs_f64(),
            executor_us: used.as_secs_f64() * 1e6 / job.requests as f64,
            busy: used.as_secs_f64() / elapsed.as_secs_f64(),
        }
    }

    fn load(&mut self, keys: usize) {
        self.perform(Job { case: Case::FLUSH, keys, first: 0, requests: 1 });
        for case in [Case::LOAD_STRINGS, Case::LOAD_SORTED_SET, Case::LOAD_HASH] {
            for first in (0..keys).step_by(REQUESTS) {
                self.perform(Job { case, keys, first, requests: REQUESTS.min(keys - first) });
            }
        }
    }
}

fn executor_time() -> Duration {
    let times = cpu_times(Whose::ThisThread);
    times.user + times.system
}

/// Each thread has a processor of its own, where there are two.
fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    // Without it the figures are less steady, and nothing else changes.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn median(mut rounds: Vec<Figures>) -> Figures {
    rounds.sort_by(|a, b| a.executor_us.total_cmp(&b.executor_us));
    rounds[rounds.len() / 2]
}

fn main() {
    let tenth = if is_set("WARMLINE_BENCH_QUICK") { 10 } else { 1 };
    let key_counts = number("WARMLINE_BENCH_KEYS").map_or(vec![1_000_000, 5_000_000], |keys| vec![keys]);
    let rounds = number("WARMLINE_BENCH_ROUNDS").unwrap_or(5);
    let chosen = std::env::var("WARMLINE_BENCH_CASES").ok();
    let is_chosen =
        |case: &&Case| chosen.as_ref().is_none_or(|names| names.split(',').any(|name| name == case.name));
    let cases: Vec<&Case> = CASES.iter().filter(is_chosen).collect();
    let mut bench = Bench::start();
    println!("| case | keys | executor, µs a request | its limit, requests/s | requests/s | busy |");
    println!("|---|---|---|---|---|---|");
    for keys in key_counts {
        let keys = keys / tenth;
        bench.load(keys);
        let mut measured: Vec<Vec<Figures>> = vec![Vec::new(); cases.len()];
        for _ in 0..rounds {
            for (case, rounds) in cases.iter().zip(&mut measured) {
                let requests = REQUESTS / tenth / case.cost;
                rounds.push(bench.perform(Job { case: **case, keys, first: 0, requests }));
            }
        }
        for (case, rounds) in cases.iter().zip(measured) {
            let Figures { requests_per_s, executor_us, busy } = median(rounds);
            let limit = 1e6 / executor_us;
            let Case { name, .. } = case;
            println!("| {name} | {keys} | {executor_us:.3} | {limit:.0} | {requests_per_s:.0} | {busy:.2} |");
        }
    }
}
