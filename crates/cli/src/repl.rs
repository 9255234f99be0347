//! The interactive mode: reads lines from a terminal, a file or another program, and prints the replies.

mod history;
mod messages;
mod preferences;

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, IsTerminal, Stdin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Address, print_bytes};
use rustyline::config::CompletionType;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use wire::request::split_args;
use wire::response::Value;

use crate::Failure;
use crate::connection::ConnectionError;
use crate::documentation::Documentation;
use crate::format::Style;
use crate::hints::LineHelper;
use crate::program::Program;
use crate::replica;
use crate::session::{Session, SessionError, is_command};
use history::{HistoryFile, is_secret};
use preferences::Preference;

/// Commands that take this long are shown with their duration.
const SLOW: Duration = Duration::from_millis(500);

type LineEditor = Editor<LineHelper, DefaultHistory>;

/// The source of lines.
enum Input {
    /// A terminal, with history, hints and completion.
    Terminal(Box<LineEditor>),
    Stream(BufReader<Stdin>),
}

struct Dialogue<'a> {
    session: &'a mut Session,
    input: Input,
    /// Lines that were pasted together and have not run.
    pasted: VecDeque<String>,
    /// The history file of a terminal.
    history: HistoryFile,
    /// The documentation for lines of a stream, once requested.
    documentation: Option<Documentation>,
}

/// Runs lines until their end.
pub fn converse(session: &mut Session) -> Result<(), Failure> {
    flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&session.exit_on_interrupt))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&session.interrupted)))
        .map_err(|error| Failure::Io("preparing for Ctrl-C", error))?;
    if let Err(error) = session.connect() {
        eprint_line!("{error}");
    }
    let mut dialogue = if io::stdin().is_terminal() {
        let (input, history) = terminal(session)?;
        let mut dialogue = Dialogue { session, input, pasted: VecDeque::new(), history, documentation: None };
        dialogue.load_preferences();
        dialogue
    } else {
        let input = Input::Stream(BufReader::new(io::stdin()));
        Dialogue {
            session,
            input,
            pasted: VecDeque::new(),
            history: HistoryFile::new(None),
            documentation: None,
        }
    };
    dialogue.run()
}

fn editor_failed(error: ReadlineError) -> Failure {
    Failure::Io("at the terminal", io::Error::other(error))
}

fn terminal(session: &mut Session) -> Result<(Input, HistoryFile), Failure> {
    let config = Config::builder()
        .max_history_size(history::LINES_MAX)
        .map_err(editor_failed)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor: LineEditor = Editor::with_config(config).map_err(editor_failed)?;
    let documentation = Documentation::load(session);
    editor.set_helper(Some(LineHelper { documentation, hints_on: true }));
    let history = HistoryFile::new(Program::current().user_file("HISTFILE", "_history"));
    for line in history.load() {
        editor.add_history_entry(line).map_err(editor_failed)?;
    }
    Ok((Input::Terminal(Box::new(editor)), history))
}

impl Dialogue<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let Some(line) = self.read_line()? else {
                // The end of input first ends the subscriptions.
                if self.session.is_subscribed() && self.session.connect().is_ok() {
                    continue;
                }
                return Ok(());
            };
            if self.run_line(&line)? {
                return Ok(());
            }
            if self.session.is_subscribed() {
                self.wait_for_messages()?;
            }
        }
    }

    /// Returns the next line, without its end.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(line) = self.pasted.pop_front() {
            print_line!("{}{line}", self.session.prompt());
            return Ok(Some(line.into_bytes()));
        }
        match &mut self.input {
            Input::Terminal(editor) => match editor.readline(&self.session.prompt()) {
                Ok(text) => {
                    self.pasted.extend(text.lines().map(str::to_owned));
                    Ok(Some(self.pasted.pop_front().unwrap_or_default().into_bytes()))
                }
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(None),
                Err(error) => Err(editor_failed(error)),
            },
            Input::Stream(lines) => {
                let mut line = Vec::new();
                let len = lines.read_until(b'\n', &mut line);
                let len = len.map_err(|error| Failure::Io("reading from standard input", error))?;
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                Ok((len > 0).then_some(line))
            }
        }
    }

    /// Returns whether the interactive mode has ended.
    fn run_line(&mut self, line: &[u8]) -> Result<bool, Failure> {
        let Ok(mut words) = split_args(line) else {
            print_bytes(b"Invalid argument(s)\n");
            self.remember(line, false);
            return Ok(false);
        };
        if words.is_empty() {
            return Ok(false);
        }
        let repeat = match repetitions(&words) {
            Some(repeat) if repeat <= 0 => {
                print_line!("Invalid {} repeat command option value.", Program::current().name);
                return Ok(false);
            }
            Some(repeat) => {
                words.remove(0);
                repeat
            }
            None => 1,
        };
        self.remember(line, is_secret(&words));
        if is_command(&words, "QUIT") || is_command(&words, "EXIT") {
            return Ok(true);
        }
        if words[0].starts_with(b":") {
            self.prefer(&words, true);
        } else if is_command(&words, "CONNECT") && words.len() == 3 {
            self.connect_elsewhere(&words);
        } else if is_command(&words, "RESTART") {
            print_line!("Use 'restart' only in Lua debugging mode.");
        } else if is_command(&words, "CLEAR") && words.len() == 1 {
            self.clear_screen()?;
        } else if is_command(&words, "HELP") || is_command(&words, "?") {
            print_bytes(self.help(&words[1..]).as_bytes());
        } else {
            self.run_command(&words, repeat)?;
        }
        Ok(false)
    }

    fn run_command(&mut self, words: &[Vec<u8>], repeat: i64) -> Result<(), Failure> {
        let start = Instant::now();
        self.session.paged.set(Duration::ZERO);
        let outcome = run(self.session, words, repeat);
        match outcome {
            Ok(reply) => self.advise(words, &reply),
            Err(Failure::Session(SessionError::Connection(ConnectionError::Closed)))
                if is_command(words, "SHUTDOWN") => {}
            Err(error @ Failure::Session(_)) => eprint_line!("{error}"),
            Err(error) => return Err(error),
        }
        let took = start.elapsed().saturating_sub(self.session.paged.get());
        if took >= SLOW && self.session.settings.style == Style::Terminal {
            print_line!("({:.2}s)", took.as_secs_f64());
        }
        Ok(())
    }

    /// Prints the command closest to an unknown one.
    fn advise(&self, words: &[Vec<u8>], reply: &Value) {
        if let Input::Terminal(editor) = &self.input
            && let Some(helper) = editor.helper()
            && is_unknown_command(reply)
        {
            print_advice(&helper.documentation, words);
        }
    }

    fn help(&mut self, words: &[Vec<u8>]) -> String {
        if words.is_empty() {
            return Documentation::general_help();
        }
        match &self.input {
            Input::Terminal(editor) => {
                editor.helper().map(|helper| helper.documentation.help(words)).unwrap_or_default()
            }
            Input::Stream(_) => {
                let session = &mut *self.session;
                self.documentation.get_or_insert_with(|| Documentation::load(session)).help(words)
            }
        }
    }

    fn clear_screen(&mut self) -> Result<(), Failure> {
        match &mut self.input {
            Input::Terminal(editor) => editor.clear_screen().map_err(editor_failed),
            Input::Stream(_) => {
                print_bytes(b"\x1b[H\x1b[2J");
                Ok(())
            }
        }
    }

    fn connect_elsewhere(&mut self, words: &[Vec<u8>]) {
        let host = String::from_utf8_lossy(&words[1]).into_owned();
        match std::str::from_utf8(&words[2]).ok().and_then(|port| port.parse().ok()) {
            None => print_line!("Invalid server port."),
            Some(port) => {
                self.session.address = Address::Tcp(host, port);
                if let Err(error) = self.session.connect() {
                    eprint_line!("{error}");
                }
            }
        }
    }

    /// Adds a line to the history, unless there is no file for it.
    fn remember(&mut self, line: &[u8], is_secret: bool) {
        let (Input::Terminal(editor), false) = (&mut self.input, is_secret) else { return };
        let line = String::from_utf8_lossy(line);
        // A failed write of the history is ignored; a repeated line is stored once.
        if editor.add_history_entry(line.as_ref()).is_ok_and(|is_new| is_new) {
            let _unwritable = self.history.add(&line);
        }
    }

    fn load_preferences(&mut self) {
        let Some(path) = Program::current().user_file("RCFILE", "rc") else { return };
        // Most users have no such file.
        let Ok(text) = std::fs::read(path) else { return };
        for line in text.split(|&byte| byte == b'\n') {
            match split_args(line) {
                Ok(words) if !words.is_empty() => self.prefer(&words, false),
                _ => {}
            }
        }
    }

    fn prefer(&mut self, words: &[Vec<u8>], is_typed: bool) {
        match preferences::read(words, is_typed) {
            Ok(Preference::Hints(on)) => {
                if let Input::Terminal(editor) = &mut self.input
                    && let Some(helper) = editor.helper_mut()
                {
                    helper.hints_on = on;
                }
            }
            Ok(Preference::Pager(on)) => self.session.settings.uses_pager = on,
            Ok(Preference::Color(on)) => self.session.settings.is_colored = on,
            Ok(Preference::ShowSubscribed) => {
                print_bytes(format!("{}\n", i32::from(self.session.is_subscribed())).as_bytes());
            }
            Err(text) => print_bytes(text.as_bytes()),
        }
    }
}

/// Runs a command and prints the messages after it, such as the output of MONITOR. Returns the last reply.
pub fn run(session: &mut Session, words: &[Vec<u8>], repeat: i64) -> Result<Value, Failure> {
    if is_command(words, "SYNC") || is_command(words, "PSYNC") {
        return Err(replica::follow_typed(session, words));
    }
    let reply = session.run(words, repeat)?;
    if is_command(words, "MONITOR") && !reply.is_error() {
        session.print_monitor()?;
    }
    Ok(reply)
}

/// Returns whether the reply is the error of an unknown command or subcommand.
pub fn is_unknown_command(reply: &Value) -> bool {
    let Value::Error(text) = reply else { return false };
    let starts = |start: &[u8]| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
    starts(b"ERR unknown command") || starts(b"ERR unknown subcommand")
}

/// Prints the command closest to `words`. At a terminal only: scripts read replies.
pub fn print_advice(documentation: &Documentation, words: &[Vec<u8>]) {
    if let Some(name) = documentation.meant(words) {
        eprint_line!("Did you mean {name}?");
    }
}

/// Parses the count before a command: `5 INCR counter`.
fn repetitions(words: &[Vec<u8>]) -> Option<i64> {
    if words.len() < 2 {
        return None;
    }
    std::str::from_utf8(&words[0]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_before_commands_repeat_them() {
        let words = |line: &str| split_args(line.as_bytes()).unwrap();
        assert_eq!(repetitions(&words("5 ping")), Some(5));
        assert_eq!(repetitions(&words("-1 ping")), Some(-1));
        assert_eq!(repetitions(&words("5")), None);
        assert_eq!(repetitions(&words("get 5")), None);
    }
}
