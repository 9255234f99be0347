//! `warmline-benchmark`: requests as fast as a server answers them, and how long it took.
//!
//! 1. `options` reads the command line.
//! 2. `workloads` are the tests by name, `template` the bytes of a test's requests.
//! 3. `load` sends them and times the replies.
//! 4. `report` tells what came out.

mod load;
mod options;
mod report;
mod template;
mod workloads;

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hdrhistogram::Histogram;

use load::{Address, LoadError, Setup, Test};
use options::Options;
use report::{Circumstances, Outcome};
use template::{Numbers, Template};
use workloads::Workload;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let data = vec![b'x'; options.data_len];
    let workloads = if options.command.is_empty() {
        workloads::selected(&options.tests, &data, options.random_below.is_some())?
    } else {
        vec![custom(options, &data)?]
    };
    let setup = setup(options)?;
    let seed = options.seed.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    });
    if options.csv {
        println!("{}", report::CSV_HEADING);
    }
    loop {
        for workload in &workloads {
            measure(options, &setup, workload, seed).map_err(|error| error.to_string())?;
        }
        if !options.endless {
            return Ok(());
        }
    }
}

/// The command of the command line.
fn custom(options: &Options, data: &[u8]) -> Result<Workload, String> {
    let first = &options.command[0];
    if first.starts_with('-') && first.len() > 1 {
        return Err(format!("unknown option {first}; see --help"));
    }
    let with_data = |word: &String| match word.split_once("__data__") {
        Some((before, behind)) => [before.as_bytes(), data, behind.as_bytes()].concat(),
        None => word.clone().into_bytes(),
    };
    let mut words: Vec<Vec<u8>> = options.command.iter().map(with_data).collect();
    if options.last_from_stdin {
        let mut last = Vec::new();
        io::stdin().read_to_end(&mut last).map_err(|error| format!("cannot read standard input: {error}"))?;
        words.push(last);
    }
    Ok(Workload { title: options.command.join(" "), template: Template::sequence(&words)? })
}

fn setup(options: &Options) -> Result<Setup, String> {
    let address = match &options.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(options.host.clone(), options.port),
    };
    let mut commands = Vec::new();
    let mut add = |args: &[&str]| commands.push(args.iter().map(|arg| arg.to_string()).collect());
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => add(&["AUTH", user, password]),
        (None, Some(password)) => add(&["AUTH", password]),
        _ => {}
    }
    if options.resp3 {
        add(&["HELLO", "3"]);
    }
    if options.database != 0 {
        add(&["SELECT", &options.database.to_string()]);
    }
    Ok(Setup { address, encryption: options.encryption()?, commands })
}

/// Runs one test and prints its report.
fn measure(options: &Options, setup: &Setup, workload: &Workload, seed: u64) -> Result<(), LoadError> {
    let threads = options.threads.min(options.clients);
    let (pipeline, commands) = (u64::from(options.pipeline), workload.template.commands);
    let commands_per_batch = (pipeline * commands) as f64;
    let start = Instant::now();
    let test = Test {
        template: &workload.template,
        setup,
        pipeline,
        keep_alive: options.keep_alive != 0,
        batch_interval: (options.rps > 0)
            .then(|| Duration::from_secs_f64(commands_per_batch * f64::from(threads) / options.rps as f64)),
        sequences: if options.duration.is_some() { u64::MAX } else { options.requests.div_ceil(commands) },
        deadline: options.duration.map(|duration| start + duration),
        claimed: AtomicU64::new(0),
        finished: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        first_error: Mutex::new(None),
    };
    let latencies = generate(options, &test, &workload.title, threads, seed)?;
    let outcome = Outcome {
        title: &workload.title,
        elapsed: start.elapsed(),
        commands: test.finished.load(Ordering::Relaxed),
        latencies: &latencies,
    };
    if options.csv {
        println!("{}", outcome.csv(options.precision));
    } else if options.quiet {
        println!("{}", outcome.quiet(options.precision));
    } else {
        let circumstances = Circumstances {
            clients: options.clients,
            data_len: options.data_len,
            keep_alive: test.keep_alive,
            pipeline: options.pipeline,
            threads,
            precision: options.precision,
        };
        println!("{}", outcome.long(&circumstances));
    }
    let first_error = test.first_error.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(text) = first_error {
        eprintln!("{}: {} errors, the first: {text}", workload.title, test.errors.into_inner());
    }
    Ok(())
}

/// Runs the threads of a test; all their latencies together.
fn generate(
    options: &Options,
    test: &Test<'_>,
    title: &str,
    threads: u32,
    seed: u64,
) -> Result<Histogram<u64>, LoadError> {
    let sequential = Default::default();
    let shows_progress = !options.csv && io::stdout().is_terminal();
    thread::scope(|scope| {
        let spawn = |index: u32| {
            let clients = options.clients / threads + u32::from(index < options.clients % threads);
            let numbers = match options.random_below {
                None | Some(0) => Numbers::None,
                Some(below) if options.sequential => Numbers::Sequential { below, next: &sequential },
                Some(below) => {
                    let state = seed.wrapping_add(u64::from(index).wrapping_mul(0xd1b5_4a32_d192_ed03));
                    Numbers::Random { below, state }
                }
            };
            scope.spawn(move || load::run(test, clients as usize, numbers))
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        if shows_progress {
            show_progress(title, test, &|| running.iter().any(|thread| !thread.is_finished()));
        }
        let mut all = load::new_histogram();
        for thread in running {
            match thread.join() {
                Ok(latencies) => all.add(latencies?).expect("all histograms have the same bounds"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })
}

/// A line that is written over itself until the test ends.
fn show_progress(title: &str, test: &Test<'_>, is_running: &dyn Fn() -> bool) {
    let (start, mut last, mut finished_before) = (Instant::now(), Instant::now(), 0);
    while is_running() {
        thread::sleep(Duration::from_millis(10));
        if last.elapsed() < PROGRESS_INTERVAL {
            continue;
        }
        let finished = test.finished.load(Ordering::Relaxed);
        let line =
            report::progress(title, start.elapsed(), finished, last.elapsed(), finished - finished_before);
        print!("\r\x1b[2K{line}");
        // Progress that cannot be shown is no reason to stop.
        let _unwritable = io::stdout().flush();
        (last, finished_before) = (Instant::now(), finished);
    }
    print!("\r\x1b[2K");
}
