//! `warmline-benchmark`: requests as fast as a server answers them, and how long it took.
//!
//! 1. `options` reads the command line, with the letters of `valkey-benchmark`; `suite` runs the tests that it asks for.
//!    `compare` has servers, started as `server` does, answer the requests of `cases` by turns, `spec` runs definitions
//!    that others have published,
//!    `report` measures what is published of this project.
//! 2. `workloads` are the tests by name, `template` the bytes of a test's requests.
//! 3. `run` runs a test: `load` sends requests and times the replies, over the connections of `connection`;
//!    `cluster` knows which keys belong to which node.
//! 4. `summary` prints the results.

/// Prints a line on standard output, as [`client::print_bytes`] does. Servers that were started for a measurement have
/// ended by then.
macro_rules! print_line {
    ($($argument:tt)*) => { client::print_bytes(format!("{}\n", format_args!($($argument)*)).as_bytes()) };
}

/// Prints a line on standard error, as [`client::tell`] does.
macro_rules! tell_line {
    ($($argument:tt)*) => { client::tell(&format!($($argument)*)) };
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
            tell_line!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The whole command line, with the words that stand for programs of their own.
fn described() -> clap::Command {
    Options::command()
        .name("warmline-benchmark")
        .disable_help_subcommand(true)
        .subcommand(CompareOptions::command().name("compare"))
        .subcommand(SpecOptions::command().name("spec"))
        .subcommand(ReportOptions::command().name("report"))
}
