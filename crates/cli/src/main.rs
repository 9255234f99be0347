//! `warmline-cli`: commands from the command line, the terminal or standard input to a server, and its replies back.
//!
//! 1. `options` reads the command line; what it asks for decides the mode.
//! 2. `session` connects, authenticates, and runs commands; `connection` moves the bytes, `encrypted` those under TLS.
//! 3. `format` turns replies into text.
//! 4. `repl` is the dialogue at the terminal, with hints from the server's own documentation in `hints`.
//! 5. `scan`, `pipe`, `monitor` and `bigkeys` are the modes that run more than one command.

mod bigkeys;
mod connection;
mod encrypted;
mod format;
mod hints;
mod monitor;
mod options;
mod pipe;
mod repl;
mod scan;
mod session;

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use connection::Address;
use options::Options;
use session::{Session, SessionError, Settings, is_command};

/// What ends the program early.
#[derive(Debug)]
pub enum Failure {
    Session(SessionError),
    /// Something of this machine: a file, standard input or output.
    Io(&'static str, io::Error),
    Usage(String),
    /// The server's error, which has been printed already or needs no message.
    Reply(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::Io(what, error) => write!(f, "Error {what}: {error}"),
            Self::Usage(text) | Self::Reply(text) => f.write_str(text),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<connection::ConnectionError> for Failure {
    fn from(error: connection::ConnectionError) -> Self {
        Self::Session(error.into())
    }
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    let outcome = options.apply_uri().map_err(Failure::Usage).and_then(|()| run(&options));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    let address = match &options.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(options.host.clone(), options.port),
    };
    let settings = Settings {
        user: options.user.clone(),
        password: options.password.clone(),
        connect_timeout: options.timeout,
        encryption: options.encryption().map_err(Failure::Usage)?,
        resp3: options.wants_resp3(),
        follow_redirections: options.cluster,
        show_pushes: match options.show_pushes.as_deref() {
            Some(choice) => choice.starts_with(['y', 'Y']),
            None => is_terminal,
        },
        errors_to_caller: options.error_exit,
        style: options.style(is_terminal),
    };
    let mut session = Session::new(settings, address, options.database);

    if options.scan {
        scan::list_keys(&mut session, options)
    } else if options.bigkeys || options.memkeys {
        bigkeys::run(&mut session, options)
    } else if options.pipe {
        pipe::run(&mut session, options.pipe_timeout)
    } else if options.stat {
        monitor::statistics(&mut session, options.interval)
    } else if options.latency || options.latency_history {
        monitor::latency(&mut session, options.interval, options.latency_history)
    } else if let Some(path) = &options.eval {
        let command = script_command(path, &options.command)?;
        run_command(&mut session, &command, options)
    } else if options.command.is_empty() {
        interactive(&mut session)
    } else {
        let command = command_line_args(options)?;
        run_command(&mut session, &command, options)
    }
}

/// A dialogue at a terminal, else the lines of standard input one after the other.
fn interactive(session: &mut Session) -> Result<(), Failure> {
    let is_dialogue = io::stdin().is_terminal();
    match session.connect() {
        Err(error) if is_dialogue => eprintln!("{error}"),
        outcome => outcome?,
    }
    if is_dialogue { repl::converse(session) } else { repl::read_lines(session) }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::Io("reading standard input", error))?;
    Ok(bytes)
}

/// The command as given, with what must come from standard input.
fn command_line_args(options: &Options) -> Result<Vec<Vec<u8>>, Failure> {
    let first = &options.command[0];
    if first.starts_with('-') && first.len() > 1 {
        return Err(Failure::Usage(format!("Unrecognized option or bad number of args for: '{first}'")));
    }
    let mut args = Vec::new();
    for word in &options.command {
        args.push(if options.quoted_input { unquoted(word)? } else { word.clone().into_bytes() });
    }
    if options.last_from_stdin {
        args.push(read_stdin()?);
    } else if let Some(tag) = &options.tag_from_stdin {
        let place = args.iter_mut().find(|arg| arg.as_slice() == tag.as_bytes());
        let place =
            place.ok_or_else(|| Failure::Usage("Using -X option but stdin tag not match.".to_string()))?;
        *place = read_stdin()?;
    }
    Ok(args)
}

/// One word with quotes and escapes.
fn unquoted(word: &str) -> Result<Vec<u8>, Failure> {
    let invalid = || Failure::Usage("Invalid quoted string".to_string());
    match wire::request::split_args(word.as_bytes()).map_err(|_| invalid())?.as_slice() {
        [] => Ok(Vec::new()),
        [only] => Ok(only.clone()),
        _ => Err(invalid()),
    }
}

/// `EVAL` of a file: what stands before a comma are keys, what follows are arguments.
fn script_command(path: &Path, words: &[String]) -> Result<Vec<Vec<u8>>, Failure> {
    let script = std::fs::read(path).map_err(|error| Failure::Io("reading the script", error))?;
    let keys = words.iter().position(|word| word == ",").unwrap_or(words.len());
    let mut args = vec![b"EVAL".to_vec(), script, keys.to_string().into_bytes()];
    args.extend(words.iter().filter(|word| *word != ",").map(|word| word.clone().into_bytes()));
    Ok(args)
}

/// Runs the command as often as it is wanted.
fn run_command(session: &mut Session, args: &[Vec<u8>], options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let mut left = options.repeat;
    while left != 0 {
        left -= i64::from(left > 0);
        let reply = match session.run(args) {
            Err(SessionError::Connection(connection::ConnectionError::Closed))
                if is_command(args, "SHUTDOWN") =>
            {
                return Ok(());
            }
            outcome => outcome?,
        };
        if options.error_exit && reply.is_error() {
            return Err(Failure::Reply(
                String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned(),
            ));
        }
        if is_command(args, "MONITOR") && !reply.is_error() {
            return repl::print_forever(session);
        }
        while session.is_subscribed() {
            // Without a dialogue to come back to, Ctrl-C ends the program.
            session.print_messages()?;
        }
        if let (Some(interval), true) = (options.interval, left != 0) {
            std::thread::sleep(interval);
        }
    }
    Ok(())
}
