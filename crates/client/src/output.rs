//! Output of programs to standard output and error; a reader such as `head` may close the pipe at any time.

use std::io::{self, ErrorKind, Write};
use std::process;

use crate::system_text;

/// Writes to standard output and flushes. If the pipe is closed the program ends silently, as by SIGPIPE, which Rust
/// programs ignore.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            eprint_line(&format!("Error writing to standard output: {}", system_text(&error)));
        }
        process::exit(1);
    }
}

/// Writes a line to standard error, ignoring failures. Control characters of the server are escaped for the terminal.
pub fn eprint_line(line: &str) {
    let _unread = io::stderr().write_all(format!("{}\n", printable(line)).as_bytes());
}

/// Escapes control characters in a text, except line feeds and tabs.
pub fn printable(text: &str) -> String {
    let is_shown = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    let shown = |letter: char| match is_shown(letter) {
        true => letter.to_string(),
        false => format!("\\x{:02x}", u32::from(letter)),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_told_nothing() {
        assert_eq!(printable("a\tb\n\u{1b}[2J\u{7}\u{9b}2Jé"), "a\tb\n\\x1b[2J\\x07\\x9b2Jé");
    }
}
