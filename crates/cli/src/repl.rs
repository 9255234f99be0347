//! The dialogue: a line, its reply, and so on.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};
use wire::request::split_args;

use crate::Failure;
use crate::connection::Address;
use crate::format::Style;
use crate::hints::{Documentation, LineHelper};
use crate::session::{Session, is_command};

/// Commands that take this long are shown with their time.
const SLOW: Duration = Duration::from_millis(500);
const HISTORY_LINES_MAX: usize = 1000;

type LineEditor = Editor<LineHelper, DefaultHistory>;

/// What a line leads to.
enum Next {
    GoOn,
    Quit,
    Help(Vec<Vec<u8>>),
    Hints(bool),
    Clear,
}

/// Lines from a terminal, with history, hints and completion.
pub fn converse(session: &mut Session) -> Result<(), Failure> {
    let failed = |error: ReadlineError| Failure::Io("at the terminal", io::Error::other(error));
    let config = Config::builder().max_history_size(HISTORY_LINES_MAX).map_err(failed)?.build();
    let mut editor: LineEditor = Editor::with_config(config).map_err(failed)?;
    let documentation =
        if session.is_connected() { Documentation::load(session) } else { Documentation::default() };
    editor.set_helper(Some(LineHelper { documentation, hints_on: true }));
    let history = history_path();
    if let Some(path) = &history {
        // The first time there is none.
        let _missing = editor.load_history(path);
    }
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&session.interrupted))
        .map_err(|error| Failure::Io("preparing for Ctrl-C", error))?;

    loop {
        let line = match editor.readline(&session.prompt()) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        remember(&mut editor, &line, history.as_ref());
        match run_line(session, &line) {
            Next::GoOn => {}
            Next::Quit => return Ok(()),
            Next::Clear => editor.clear_screen().map_err(failed)?,
            Next::Help(words) => {
                let helper = editor.helper_mut().expect("the helper was set above");
                if helper.documentation.help(&words).trim().is_empty() && session.is_connected() {
                    helper.documentation = Documentation::load(session);
                }
                print!("{}", helper.documentation.help(&words));
            }
            Next::Hints(on) => editor.helper_mut().expect("the helper was set above").hints_on = on,
        }
    }
}

/// Lines from a file or another program.
pub fn read_lines(session: &mut Session) -> Result<(), Failure> {
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| Failure::Io("reading standard input", error))?;
        match split_args(&line) {
            Err(_) => println!("Invalid argument(s)"),
            Ok(words) if words.is_empty() => {}
            Ok(words) => match run_words(session, words) {
                Next::Quit => return Ok(()),
                Next::Help(words) => print!("{}", Documentation::load(session).help(&words)),
                _ => {}
            },
        }
    }
    Ok(())
}

/// What MONITOR sends, until the end.
pub fn print_forever(session: &mut Session) -> Result<(), Failure> {
    loop {
        let value = session.connection()?.receive()?;
        let text = crate::format::reply(&value, &session.settings.style, false);
        let mut out = io::stdout().lock();
        out.write_all(&text)
            .and_then(|()| out.flush())
            .map_err(|error| Failure::Io("writing to standard output", error))?;
    }
}

fn run_line(session: &mut Session, line: &str) -> Next {
    match split_args(line.as_bytes()) {
        Err(_) => {
            println!("Invalid argument(s)");
            Next::GoOn
        }
        Ok(words) if words.is_empty() => Next::GoOn,
        Ok(words) => run_words(session, words),
    }
}

fn run_words(session: &mut Session, mut words: Vec<Vec<u8>>) -> Next {
    let repeat = match repetitions(&words) {
        Some(repeat) if repeat <= 0 => {
            println!("Invalid repeat count.");
            return Next::GoOn;
        }
        Some(repeat) => {
            words.remove(0);
            repeat
        }
        None => 1,
    };
    if is_command(&words, "QUIT") || is_command(&words, "EXIT") {
        return Next::Quit;
    }
    if is_command(&words, "HELP") || is_command(&words, "?") {
        return Next::Help(words.split_off(1));
    }
    if is_command(&words, "CLEAR") && words.len() == 1 {
        return Next::Clear;
    }
    if words[0].starts_with(b":") {
        return preference(&words);
    }
    if is_command(&words, "CONNECT") && words.len() == 3 {
        connect_elsewhere(session, &words);
        return Next::GoOn;
    }
    let start = Instant::now();
    if let Err(error) = run_repeatedly(session, &words, repeat) {
        eprintln!("{error}");
    }
    if start.elapsed() >= SLOW && session.settings.style == Style::Terminal {
        println!("({:.2}s)", start.elapsed().as_secs_f64());
    }
    Next::GoOn
}

/// The number before a command: `5 INCR counter`.
fn repetitions(words: &[Vec<u8>]) -> Option<i64> {
    if words.len() < 2 {
        return None;
    }
    std::str::from_utf8(&words[0]).ok()?.parse().ok()
}

/// `:set hints` and `:set nohints`.
fn preference(words: &[Vec<u8>]) -> Next {
    match words {
        [set, hints] if set == b":set" && hints == b"hints" => Next::Hints(true),
        [set, hints] if set == b":set" && hints == b"nohints" => Next::Hints(false),
        _ => {
            println!("unknown preference: there are \":set hints\" and \":set nohints\"");
            Next::GoOn
        }
    }
}

fn connect_elsewhere(session: &mut Session, words: &[Vec<u8>]) {
    let host = String::from_utf8_lossy(&words[1]).into_owned();
    match std::str::from_utf8(&words[2]).ok().and_then(|port| port.parse().ok()) {
        None => println!("Invalid port number"),
        Some(port) => {
            session.address = Address::Tcp(host, port);
            if let Err(error) = session.connect() {
                eprintln!("{error}");
            }
        }
    }
}

fn run_repeatedly(session: &mut Session, words: &[Vec<u8>], repeat: i64) -> Result<(), Failure> {
    for _ in 0..repeat {
        let reply = session.run(words)?;
        if is_command(words, "MONITOR") && !reply.is_error() {
            return print_forever(session);
        }
    }
    if session.is_subscribed() {
        println!("Reading messages... (press Ctrl-C to quit)");
        session.print_messages()?;
    }
    Ok(())
}

fn history_path() -> Option<PathBuf> {
    match std::env::var_os("WARMLINECLI_HISTFILE") {
        Some(path) if path == "/dev/null" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::home_dir().map(|home| home.join(".warmlinecli_history")),
    }
}

fn remember(editor: &mut LineEditor, line: &str, path: Option<&PathBuf>) {
    let words = split_args(line.as_bytes()).unwrap_or_default();
    if words.is_empty() || is_secret(&words) {
        return;
    }
    // A history that cannot be written must not stop the work.
    let _unwritable = editor.add_history_entry(line).map(|_| path.map(|path| editor.save_history(path)));
}

/// Lines with passwords in them, which no file should keep.
fn is_secret(words: &[Vec<u8>]) -> bool {
    let has = |name: &str| words.iter().skip(1).any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let is = |name| is_command(words, name);
    is("AUTH")
        || (is("ACL") && has("SETUSER"))
        || (is("HELLO") && has("AUTH"))
        || (is("MIGRATE") && (has("AUTH") || has("AUTH2")))
        || (is("CONFIG")
            && has("SET")
            && (has("requirepass") || has("masterauth") || has("primaryauth") || has("masteruser")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split_args(line.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_before_commands_repeat_them() {
        assert_eq!(repetitions(&words("5 ping")), Some(5));
        assert_eq!(repetitions(&words("5")), None);
        assert_eq!(repetitions(&words("get 5")), None);
    }

    #[test]
    fn passwords_are_not_remembered() {
        for line in [
            "auth x",
            "ACL setuser a >b",
            "hello 3 auth a b",
            "config set RequirePass x",
            "migrate h 1 k 0 1 AUTH x",
        ] {
            assert!(is_secret(&words(line)), "{line}");
        }
        assert!(!is_secret(&words("set auth x")) && !is_secret(&words("config get requirepass")));
    }
}
