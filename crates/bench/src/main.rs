//! `warmline-benchmark`: a load generator that measures throughput and latency.
//!
//! 1. `options` parses the command line, with the letters of `valkey-benchmark`; `suite` runs the selected tests.
//!    `compare` sends the requests of `cases` to servers started by `server`, alternating; `spec` runs published
//!    definitions of benchmarks; `report` measures the published results of this project.
//! 2. `workloads` are the tests by name, `template` encodes their requests.
//! 3. `run` runs a test: `load` sends requests and measures replies over the connections of `connection`; `cluster`
//!    maps keys to nodes.
//! 4. `summary` prints the results.

/// Prints a line on standard output, as [`client::print_bytes`] does. Servers started for a measurement have ended
/// before.
macro_rules! print_line {
    ($($argument:tt)*) => { client::print_bytes(format!("{}\n", format_args!($($argument)*)).as_bytes()) };
}

/// Prints a line on standard error, as [`client::eprint_line`] does.
macro_rules! eprint_line {
    ($($argument:tt)*) => { client::eprint_line(&format!($($argument)*)) };
}

mod cases;
mod cluster;
mod compare;
mod connection;
mod load;
mod options;
mod report;
mod run;
mod server;
mod spec;
mod suite;
mod summary;
mod template;
mod workloads;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use compare::CompareOptions;
use options::Options;
use report::ReportOptions;
use spec::SpecOptions;

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    let outcome = match words.get(1).and_then(|word| word.to_str()) {
        Some("compare") => {
            words.remove(1);
            compare::run(&CompareOptions::parse_from(words))
        }
        Some("report") => {
            words.remove(1);
            report::run(&ReportOptions::parse_from(words))
        }
        Some("spec") => {
            words.remove(1);
            spec::run(&SpecOptions::parse_from(words))
        }
        _ => {
            let mut options = Options::parse_from(words);
            match options.generate {
                Some(kind) => {
                    client::print_bytes(&manual::text(described(), kind));
                    Ok(())
                }
                None => options.settle().and_then(|()| suite::run(&options)),
            }
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprint_line!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The command line, with subcommands.
fn described() -> clap::Command {
    Options::command()
        .name("warmline-benchmark")
        .disable_help_subcommand(true)
        .subcommand(CompareOptions::command().name("compare"))
        .subcommand(SpecOptions::command().name("spec"))
        .subcommand(ReportOptions::command().name("report"))
}
