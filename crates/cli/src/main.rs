//! `warmline-cli`: sends commands from the command line, the terminal or standard input to a server, and prints the
//! replies.
//!
//! 1. `options` parses the command line, which determines the mode. `program` is the name by which it was called.
//! 2. `session` connects, authenticates, and runs commands; `connection` transfers bytes, `encrypted` those under
//!    TLS.
//! 3. `format` formats replies, `pager` shows long ones a page at a time.
//! 4. `repl` is the interactive mode; `documentation` has the commands' documentation, `hints` completes a command's
//!    arguments.
//! 5. Modes that run several commands: `scan`, which `bigkeys`, `hotkeys`, `keystats` and `sizing` use; `sync`, which
//!    `rdb` and `replica` use; `latency`, `intrinsic_latency`, `statistics`, `lru_test`, `pipe`, `cluster`.
//!    `progress` shows the progress of long ones.

/// Prints a text on standard output, as [`client::print_bytes`] does.
macro_rules! print_text {
    ($($argument:tt)*) => { client::print_bytes(format!($($argument)*).as_bytes()) };
}

/// As `print_text`, with a line end.
macro_rules! print_line {
    ($($argument:tt)*) => { print_text!("{}\n", format_args!($($argument)*)) };
}

/// Prints a line on standard error, as [`client::eprint_line`] does.
macro_rules! eprint_line {
    ($($argument:tt)*) => { client::eprint_line(&format!($($argument)*)) };
}

mod arguments;
mod bigkeys;
mod cluster;
mod connection;
mod documentation;
mod encrypted;
mod format;
mod hint_suite;
mod hints;
mod hotkeys;
mod intrinsic_latency;
mod key_sizes;
mod keystats;
mod latency;
mod lru_test;
mod options;
mod pager;
mod pipe;
mod program;
mod progress;
mod rdb;
mod repl;
mod replica;
mod scan;
mod session;
mod sizing;
mod statistics;
mod sync;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use client::{print_bytes, system_text};

use connection::ConnectionError;
use documentation::Documentation;
use options::{NoOptions, Options};
use program::Program;
use session::{Session, SessionError, Settings, is_command};

/// Why the program ends early.
#[derive(Debug)]
pub enum Failure {
    Session(SessionError),
    /// An error of this machine: a file, standard input or output.
    Io(&'static str, io::Error),
    Usage(String),
    /// An error of the server.
    Reply(String),
    /// An error that has been printed.
    Reported,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::Io(what, error) => write!(f, "Error {what}: {}", system_text(error)),
            Self::Usage(text) | Self::Reply(text) => f.write_str(text),
            Self::Reported => Ok(()),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        Self::Session(error.into())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let outcome = match Options::read(&arguments) {
        Ok(options) => run(&options),
        Err(NoOptions::Text(text)) => {
            print_bytes(text.as_bytes());
            Ok(())
        }
        Err(NoOptions::Error(text)) => Err(Failure::Usage(text)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(failure) => {
            eprint_line!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the password: from a prompt, the command line, or the environment.
fn password(options: &Options) -> Result<Option<String>, Failure> {
    if options.password.is_some() && !options.no_auth_warning {
        eprint_line!(
            "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
        );
    }
    if options.askpass {
        let password = rpassword::prompt_password("Please input password: ");
        return password.map(Some).map_err(|error| Failure::Io("reading the password", error));
    }
    let from_environment = || Some(Program::current().variable("AUTH")?.to_string_lossy().into_owned());
    Ok(options.password.clone().or_else(from_environment))
}

fn open(options: &Options) -> Result<Session, Failure> {
    let is_watched = program::is_watched();
    let is_terminal = io::stdout().is_terminal();
    let interactive = options.command.is_empty() && options.eval.is_none();
    let settings = Settings {
        user: options.user.clone(),
        password: password(options)?,
        connect: options.connect_settings().map_err(Failure::Usage)?,
        resp3: options.uses_resp3(),
        resp3_is_optional: !options.resp3,
        follow_redirections: options.follows_redirections(),
        show_pushes: options.shows_pushes(is_watched),
        errors_to_caller: options.error_exit && !interactive,
        interactive,
        interval: options.interval,
        style: options.style(is_watched),
        is_colored: is_terminal && format::colors_are_welcome(),
        uses_pager: is_terminal,
    };
    Ok(Session::new(settings, options.address(), options.database))
}

fn run(options: &Options) -> Result<(), Failure> {
    if let Some(kind) = options.generate {
        let command = Options::command().version(env!("CARGO_PKG_VERSION"));
        print_bytes(&manual::text(command, kind));
        return Ok(());
    }
    let mut session = open(options)?;
    if let Some(command) = &options.cluster_options.cluster_command {
        cluster::run(options, &session.settings, command)
    } else if options.latency || options.latency_history {
        latency::run(&mut session, options.interval, options.latency_history)
    } else if options.latency_dist {
        latency::distribution::run(&mut session, options.interval, options.mono)
    } else if options.replica {
        replica::run(&mut session)
    } else if let Some(path) = &options.rdb {
        rdb::run(&mut session, path, false)
    } else if let Some(path) = &options.functions_rdb {
        rdb::run(&mut session, path, true)
    } else if options.pipe {
        pipe::run(&mut session, options.pipe_timeout)
    } else if options.bigkeys || options.memkeys || options.memkeys_samples.is_some() {
        bigkeys::run(&mut session, options)
    } else if options.keystats || options.keystats_samples.is_some() {
        keystats::run(&mut session, options)
    } else if options.sizing_options.sizing {
        sizing::run(&mut session, options)
    } else if options.hotkeys || options.hotkeys_count.is_some() {
        hotkeys::run(&mut session, options)
    } else if options.stat {
        statistics::run(&mut session, options.interval)
    } else if options.scan {
        scan::list_keys(&mut session, options)
    } else if let Some(keys) = options.lru_test {
        lru_test::run(&mut session, keys)
    } else if let Some(seconds) = options.intrinsic_latency {
        intrinsic_latency::run(seconds)
    } else if let Some(line) = &options.test_hint {
        hint_suite::print(&mut session, line)
    } else if let Some(path) = &options.test_hint_file {
        hint_suite::run(&mut session, path, options.verbose)
    } else if let Some(path) = &options.eval {
        run_script(&mut session, path, options)
    } else if options.command.is_empty() {
        repl::converse(&mut session)
    } else {
        let command = arguments::command(options, &options.command)?;
        run_command(&mut session, &command, options)
    }
}

fn run_script(session: &mut Session, path: &Path, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let command = arguments::eval(arguments::script(path)?, &options.command);
    run_command(session, &command, options)
}

/// Runs a command `-r` times, and prints messages of its subscriptions.
fn run_command(session: &mut Session, args: &[Vec<u8>], options: &Options) -> Result<(), Failure> {
    if is_command(args, "HELP") || is_command(args, "?") {
        let text = match &args[1..] {
            [] => Documentation::general_help(),
            words => Documentation::load(session).help(words),
        };
        print_bytes(text.as_bytes());
        return Ok(());
    }
    if !session.is_connected() {
        match session.connect() {
            // The connection stays, and the command receives the server's reply.
            Err(error @ SessionError::Setup(..)) => eprint_line!("{error}"),
            outcome => outcome?,
        }
    }
    match repl::run(session, args, options.repeat) {
        Err(Failure::Session(SessionError::Connection(ConnectionError::Closed)))
            if is_command(args, "SHUTDOWN") =>
        {
            return Ok(());
        }
        Ok(reply) if session.settings.errors_to_caller && reply.is_error() => {
            let text = reply.as_bytes().unwrap_or_default();
            return Err(Failure::Reply(String::from_utf8_lossy(text).into_owned()));
        }
        Ok(reply) => {
            if program::is_watched() && repl::is_unknown_command(&reply) {
                repl::print_advice(&Documentation::load(session), args);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(session.print_messages()?)
}
