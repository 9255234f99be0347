//! `spec`: runs definitions in the format of redis-benchmarks-specification, one server after another.

mod definition;
mod generator;
mod memtier;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use client::{Address, seconds};
use wire::response::Value;

use crate::connection::{Conversation, LoadError, Setup};
use crate::load::{Requests, Test};
use crate::run::{self, Measured};
use crate::server::Server;
use definition::Definition;
use generator::Generator;
use memtier::Plan;

/// Runs benchmark definitions in the format of redis-benchmarks-specification: options of the server, requests that
/// store data, and the measurement, as arguments of memtier_benchmark. Unsupported parts are named.
#[derive(Parser, Debug)]
#[command(name = "warmline-benchmark spec", disable_help_flag = true, max_term_width = 100)]
pub struct SpecOptions {
    /// Files with definitions
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Command that starts a server for each definition, with {port} where the port goes
    #[arg(long)]
    pub server: Option<String>,
    /// Host of a running server, without --server; all its data is deleted
    #[arg(short = 'h', default_value = "127.0.0.1")]
    pub host: String,
    /// Its port, or the port of the server to start
    #[arg(short = 'p', default_value_t = 6379)]
    pub port: u16,
    /// Maximum duration of measurements in seconds, overriding the definition
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Maximum duration of loading data in seconds
    #[arg(long, default_value = "1800", value_parser = seconds)]
    pub preload_seconds: Duration,
    /// Maximum number of threads that generate the load
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
    /// Only list the definitions that would run
    #[arg(long)]
    pub check: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Result of a definition.
struct Outcome {
    measured: Measured,
    /// Processor time of the server per request in microseconds, if it was started here.
    processor_us: Option<f64>,
    /// Deviations from the definition.
    remarks: Vec<String>,
}

pub fn run(options: &SpecOptions) -> Result<(), String> {
    if options.csv {
        print_line!("definition,rps,p50_ms,p99_ms,cpu_us,requests,errors,remarks");
    }
    let (mut ran, mut refusals) = (0, BTreeMap::<String, u32>::new());
    for file in &options.files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| Definition::read(&text))
            .and_then(|definition| {
                if options.check { check_only(&definition, options) } else { one(&definition, options) }
            });
        match outcome {
            Ok(outcome) => {
                ran += 1;
                print_line!("{}", line(options.csv, &name, outcome.as_ref()));
            }
            Err(reason) => {
                print_line!("{}", refusal(options.csv, &name, &reason));
                // The text after a colon varies between definitions.
                let kind = reason.split(": ").next().unwrap_or(&reason).to_string();
                *refusals.entry(kind).or_default() += 1;
            }
        }
    }
    if !options.csv {
        let (would, did) = if options.check { ("would run", "would not") } else { ("ran", "did not") };
        print_line!("\n{ran} of {} definitions {would}", options.files.len());
        refusals.iter().for_each(|(reason, count)| print_line!("{count:>6} {did}: {reason}"));
    }
    match ran {
        0 => Err("no definition ran".to_string()),
        _ => Ok(()),
    }
}

/// A server that was started, or was running.
struct Place {
    started: Option<Server>,
    setup: Setup,
}

impl Place {
    fn find(options: &SpecOptions) -> Result<Self, String> {
        match &options.server {
            Some(command) => {
                let server = Server::start(command, options.port, None)?;
                Ok(Self { setup: server.setup.clone(), started: Some(server) })
            }
            None => {
                let address = Address::Tcp(options.host.clone(), options.port);
                Ok(Self { started: None, setup: Setup { address, ..Setup::of_port(options.port) } })
            }
        }
    }

    fn conversation(&self) -> Result<Conversation, String> {
        Conversation::new(&self.setup).map_err(|error| error.to_string())
    }
}

fn check_only(definition: &Definition, options: &SpecOptions) -> Result<Option<Outcome>, String> {
    check_commands(definition, &mut Place::find(options)?.conversation()?)?;
    Ok(None)
}

fn one(definition: &Definition, options: &SpecOptions) -> Result<Option<Outcome>, String> {
    check_memory(definition)?;
    let place = Place::find(options)?;
    let mut conversation = place.conversation()?;
    check_commands(definition, &mut conversation)?;
    let mut remarks = prepare(definition, options, &place.setup, &mut conversation)?;
    let before = place.started.as_ref().map(Server::processor_time);
    // The last one is measured; the others run in parallel.
    let outcomes: Vec<Result<Measured, String>> = thread::scope(|scope| {
        let running: Vec<_> = definition
            .clients
            .iter()
            .map(|plan| scope.spawn(|| measure(plan, &place.setup, options.threads, options.seconds)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread failed".to_string())))
            .collect()
    });
    let all: Vec<Measured> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let commands: u64 = all.iter().map(|measured| measured.commands).sum();
    let processor_us = place.started.as_ref().zip(before).map(|(server, before)| {
        server.processor_time_since(before).as_secs_f64() * 1e6 / commands.max(1) as f64
    });
    let measured = all.into_iter().next_back().ok_or("it measures nothing")?;
    if let Some(text) = &measured.first_error {
        remarks.push(format!("{} errors, the first: {text}", measured.errors));
    }
    if measured.commands == 0 {
        return Err("nothing was answered in the time".to_string());
    }
    Ok(Some(Outcome { measured, processor_us, remarks }))
}

/// A server that exceeds the machine's memory would be killed by the system.
fn check_memory(definition: &Definition) -> Result<(), String> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let available = kilobytes.map_or(u64::MAX, |kilobytes| kilobytes << 10);
    if definition.memory_bytes <= available {
        return Ok(());
    }
    let gibibytes = |bytes: u64| bytes >> 30;
    let (wanted, there) = (gibibytes(definition.memory_bytes), gibibytes(available));
    Err(format!("it asks for more memory than there is: {wanted} GiB of {there}"))
}

/// Checks that the server has all commands.
fn check_commands(definition: &Definition, conversation: &mut Conversation) -> Result<(), String> {
    let names = definition.commands();
    let mut question = vec!["COMMAND".to_string(), "INFO".to_string()];
    question.extend(names.iter().cloned());
    let answer = conversation.ask(&question).map_err(|error| error.to_string())?;
    let known = answer.as_list().unwrap_or_default();
    let is_unknown = |entry: &Value| matches!(entry, Value::Null | Value::NullArray);
    let unknown: Vec<String> = names
        .iter()
        .zip(known)
        .filter(|(_, entry)| is_unknown(entry))
        .map(|(name, _)| name.to_uppercase())
        .collect();
    match unknown.as_slice() {
        [] => Ok(()),
        unknown => Err(format!("the server does not know its commands: {}", unknown.join(", "))),
    }
}

/// Sets options and stores data; returns deviations from the definition.
fn prepare(
    definition: &Definition,
    options: &SpecOptions,
    setup: &Setup,
    conversation: &mut Conversation,
) -> Result<Vec<String>, String> {
    let failed = |error: LoadError| error.to_string();
    conversation.ask(&["FLUSHALL"]).map_err(failed)?;
    for (name, value) in &definition.parameters {
        match conversation.ask(&["CONFIG", "SET", name, value]) {
            Ok(_) => {}
            Err(LoadError::Answer(_)) => {
                return Err(format!("the server does not take its options: {name} {value}"));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let mut remarks = Vec::new();
    if let Some(plan) = &definition.preload {
        let start = Instant::now();
        let limit = options.preload_seconds;
        let stored = measure(plan, setup, options.threads, Some(limit))?;
        if start.elapsed() >= limit {
            return Err(format!("storing its data took too long: {limit:?}"));
        }
        if let Some(text) = stored.first_error {
            remarks.push(format!("{} errors while data was stored, the first: {text}", stored.errors));
        }
    }
    for command in &definition.init_commands {
        conversation.ask(command).map_err(|error| format!("an init command failed: {error}"))?;
    }
    if let Some(expected) = definition.keys_expected {
        let there = conversation.ask(&["DBSIZE"]).map_err(failed)?;
        if let Value::Integer(keys) = there
            && u64::try_from(keys) != Ok(expected)
        {
            remarks.push(format!("{keys} keys instead of {expected}"));
        }
    }
    Ok(remarks)
}

/// Runs a plan for at most `limit`.
fn measure(plan: &Plan, setup: &Setup, threads: u32, limit: Option<Duration>) -> Result<Measured, String> {
    let mut setup = setup.clone();
    if plan.database != 0 {
        setup.commands.push(vec!["SELECT".to_string(), plan.database.to_string()]);
    }
    let make = |connection: usize| -> Box<dyn Requests + '_> { Box::new(Generator::new(plan, connection)) };
    let duration = match (plan.duration, limit) {
        (Some(duration), Some(limit)) => Some(duration.min(limit)),
        (duration, limit) => duration.or(limit),
    };
    let test = Test {
        setups: &[setup],
        requests: &make,
        connections: plan.connections,
        threads: plan.threads.min(threads as usize).min(plan.connections).max(1),
        reconnect_after: plan.reconnect_after,
        rate: plan.rate.map(|rate| rate * plan.connections as f64),
        warmup: Duration::ZERO,
        duration,
        stops_at_errors: false,
        precision: 3,
    };
    run::run(&test, |_| ()).map_err(|error| error.to_string())
}

fn line(csv: bool, name: &str, outcome: Option<&Outcome>) -> String {
    let Some(Outcome { measured, processor_us, remarks }) = outcome else {
        return format!("{name}: would run");
    };
    let (rate, p50, p99) = (measured.per_second(), measured.percentile(50.0), measured.percentile(99.0));
    let remarks = remarks.join("; ");
    if csv {
        let processor = processor_us.map_or(String::new(), |us| format!("{us:.3}"));
        let (commands, errors) = (measured.commands, measured.errors);
        let remarks = remarks.replace('"', "\"\"");
        return format!(
            "\"{name}\",{rate:.0},{p50:.3},{p99:.3},{processor},{commands},{errors},\"{remarks}\""
        );
    }
    let processor = processor_us.map_or(String::new(), |us| format!(", {us:.2} us of the server each"));
    let remarks = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
    format!("{name}: {rate:.0} requests per second, p50={p50:.3} msec, p99={p99:.3} msec{processor}{remarks}")
}

fn refusal(csv: bool, name: &str, reason: &str) -> String {
    match csv {
        true => format!("\"{name}\",,,,,,,\"not run: {}\"", reason.replace('"', "\"\"").replace('\n', " ")),
        false => format!("{name}: NOT RUN: {reason}"),
    }
}
