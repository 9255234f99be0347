//! `report`: measures the published results.

mod commands;
mod encodings;
mod headers;
mod memory;
mod page;
mod plot;
mod prefetch;
mod small_writes;
mod sorted_sets;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;

use crate::cases::Case;
use crate::compare::{self, Figures, Manner};
use crate::server::{Pinned, Server};
use page::{Page, Section};

/// Measures all published results, and writes them as a page in Markdown with plots, and as one in HTML.
#[derive(Parser, Debug)]
#[command(name = "warmline-benchmark report", max_term_width = 100)]
pub struct ReportOptions {
    /// The server (default: warmline-server in the directory of this program)
    #[arg(long)]
    pub warmline: Option<PathBuf>,
    /// A valkey-server for comparison
    #[arg(long)]
    pub valkey: Option<PathBuf>,
    /// A redis-server for comparison
    #[arg(long)]
    pub redis: Option<PathBuf>,
    /// Sections by their letters: a sorted sets by number, b indexes of sorted sets, c small writes, d prefetching, e
    /// encodings, f memory, g common commands
    #[arg(long, default_value = "abcdefg")]
    pub sections: String,
    /// Factor for data and requests, for a trial
    #[arg(long, default_value = "1", value_parser = compare::scale)]
    pub scale: f64,
    /// Number of runs, of which the median is used
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory of results.md, results.html and results/*.svg
    #[arg(long, default_value = "docs")]
    pub out: PathBuf,
    /// Core of the servers; the load generator uses the next one
    #[arg(long)]
    pub core: Option<usize>,
    /// Port of the servers
    #[arg(long, default_value_t = 27_100)]
    pub port: u16,
}

/// A server to be measured, with its name.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    /// Program and options.
    pub command: String,
}

impl Candidate {
    fn with(&self, name: &str, options: &str) -> Self {
        Self { name: name.to_string(), command: format!("{} {options}", self.command) }
    }
}

/// The environment of all sections.
pub struct Bench {
    pub warmline: Candidate,
    /// Servers for comparison.
    pub valkey: Option<Candidate>,
    pub redis: Option<Candidate>,
    pub scale: f64,
    pub runs: u32,
    pub core: Option<usize>,
    pub port: u16,
    started: Instant,
}

impl Bench {
    fn new(options: &ReportOptions) -> Result<Self, String> {
        let beside = std::env::current_exe().map_err(|error| error.to_string())?;
        let own = options.warmline.clone().unwrap_or_else(|| beside.with_file_name("warmline-server"));
        let mut bench = Self {
            warmline: candidate(&own)?,
            valkey: options.valkey.as_deref().map(candidate).transpose()?,
            redis: options.redis.as_deref().map(candidate).transpose()?,
            scale: options.scale,
            runs: options.runs,
            core: options.core,
            port: options.port,
            started: Instant::now(),
        };
        bench.warmline.name = bench.version(&bench.warmline)?;
        let named = |candidate: Option<Candidate>| -> Result<Option<Candidate>, String> {
            let Some(candidate) = candidate else { return Ok(None) };
            let name = bench.version(&candidate)?;
            Ok(Some(Candidate { name, ..candidate }))
        };
        let (valkey, redis) = (named(bench.valkey.clone())?, named(bench.redis.clone())?);
        Ok(Self { valkey, redis, ..bench })
    }

    fn version(&self, candidate: &Candidate) -> Result<String, String> {
        self.start(candidate)?.version().map_err(|error| error.to_string())
    }

    /// Returns this server and those for comparison.
    pub fn all(&self) -> Vec<Candidate> {
        [Some(self.warmline.clone()), self.valkey.clone(), self.redis.clone()].into_iter().flatten().collect()
    }

    /// Returns `count`, or fewer for a trial.
    pub fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(1)
    }

    pub fn start(&self, candidate: &Candidate) -> Result<Server, String> {
        Server::start(&candidate.command, self.port, self.core)
    }

    /// Prints the current step.
    pub fn progress(&self, text: &str) {
        eprint_line!("{:>5} s  {text}", self.started.elapsed().as_secs());
    }

    /// Returns the medians of several runs of a case whose data is stored, after a warm-up run.
    pub fn measure(&self, server: &Server, case: &Case, manner: Manner) -> Result<Figures, String> {
        let _load_core = self.core.map(|core| Pinned::to(core + 1));
        let mut runs = Vec::new();
        for turn in 0..=self.runs {
            let figures = compare::measure_turn(server, case, manner, turn);
            let figures = figures.map_err(|error| format!("{}: {error}", case.name))?;
            if turn > 0 {
                runs.push(figures);
            }
        }
        Ok(Figures { resident_bytes: server.resident_bytes() as f64, ..compare::medians(&runs) })
    }
}

fn candidate(program: &Path) -> Result<Candidate, String> {
    let program = fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let quoted =
        shlex::try_quote(&program.to_string_lossy()).map_err(|error| error.to_string())?.into_owned();
    let options = "--port {port} --save '' --appendonly no --loglevel warning";
    Ok(Candidate { name: String::new(), command: format!("{quoted} {options}") })
}

type Measure = fn(&Bench) -> Result<Section, String>;

const SECTIONS: &[(char, Measure)] = &[
    ('a', sorted_sets::by_number),
    ('b', sorted_sets::by_index),
    ('c', small_writes::measure),
    ('d', prefetch::measure),
    ('e', encodings::measure),
    ('f', memory::measure),
    ('g', commands::measure),
];

pub fn run(options: &ReportOptions) -> Result<(), String> {
    let wanted: Vec<_> = SECTIONS.iter().filter(|(id, _)| options.sections.contains(*id)).collect();
    if let Some(unknown) = options.sections.chars().find(|id| !SECTIONS.iter().any(|(known, _)| known == id))
    {
        return Err(format!("unknown section {unknown}"));
    }
    let bench = Bench::new(options)?;
    let mut page =
        Page { circumstances: circumstances(&bench), command: command(options), sections: Vec::new() };
    for (number, (id, measure)) in wanted.iter().enumerate() {
        bench.progress(&format!("section {id}, {} of {}", number + 1, wanted.len()));
        let section = measure(&bench).map_err(|error| format!("section {id}: {error}"))?;
        page.sections.push(section);
    }
    write(&page, &options.out)?;
    let minutes = bench.started.elapsed().as_secs_f64() / 60.0;
    bench.progress(&format!("all measured in {minutes:.1} minutes; see {}", options.out.display()));
    Ok(())
}

fn write(page: &Page, out: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", out.display());
    fs::create_dir_all(out.join("results")).map_err(failed)?;
    for plot in page.sections.iter().flat_map(|section| &section.plots) {
        fs::write(out.join("results").join(format!("{}.svg", plot.name)), plot.svg()?).map_err(failed)?;
    }
    fs::write(out.join("results.html"), page.html()?).map_err(failed)?;
    fs::write(out.join("results.md"), page.markdown()).map_err(failed)
}

/// Describes machine and programs.
fn circumstances(bench: &Bench) -> Vec<String> {
    let first = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string();
        line.split_once(':').map(|(_, value)| value.trim().to_string()).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_kb: u64 =
        first("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let servers: Vec<String> = bench.all().into_iter().map(|candidate| candidate.name).collect();
    vec![
        format!(
            "Machine: {}, {cores} cores, {} GiB, Linux {}.",
            first("/proc/cpuinfo", "model name"),
            memory_kb >> 20,
            kernel.trim().split('-').next().unwrap_or_default()
        ),
        format!(
            "Servers: {}, without persistence, with the default configuration unless stated otherwise.",
            servers.join(", ")
        ),
        format!("Load: warmline-benchmark {}, over loopback.", env!("CARGO_PKG_VERSION")),
        match bench.runs {
            1 => "Each figure is of one run, after a warm-up run.".to_string(),
            runs => format!("Each figure is the median of {runs} runs, after a warm-up run."),
        },
    ]
}

fn command(options: &ReportOptions) -> String {
    let mut command = "warmline-benchmark report".to_string();
    let programs =
        [("--valkey", &options.valkey, "valkey-server"), ("--redis", &options.redis, "redis-server")];
    for (name, _, program) in programs.iter().filter(|(_, path, _)| path.is_some()) {
        command.push_str(&format!(" {name} {program}"));
    }
    if options.sections.len() < SECTIONS.len() {
        command.push_str(&format!(" --sections {}", options.sections));
    }
    if options.scale != 1.0 {
        command.push_str(&format!(" --scale {}", options.scale));
    }
    if options.runs != 3 {
        command.push_str(&format!(" --runs {}", options.runs));
    }
    if let Some(core) = options.core {
        command.push_str(&format!(" --core {core}"));
    }
    command
}

/// Formats a number with few digits, for a table.
pub fn short(number: f64) -> String {
    match number.abs() {
        _ if !number.is_finite() => "-".to_string(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Formats 10 k, 2 M.
pub fn count(number: u64) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(100_000) => format!("{} M", number as f64 / 1e6),
        1_000.. if number.is_multiple_of(100) => format!("{} k", number as f64 / 1e3),
        _ => number.to_string(),
    }
}
