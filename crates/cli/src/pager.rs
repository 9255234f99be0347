//! The pager: shows replies that exceed the screen, with the program in `PAGER`, or `less`.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::tcgetwinsize;

use crate::program::Program;

/// Shows a text if it exceeds the screen. Returns whether it was shown.
pub fn show(text: &[u8], exit_on_interrupt: &Arc<AtomicBool>) -> bool {
    let Ok(size) = tcgetwinsize(io::stdout()) else { return false };
    // A terminal of unknown size has no limit.
    if size.ws_row == 0 || rows(text, size.ws_col.into()) <= size.ws_row.into() {
        return false;
    }
    // Ctrl-C is handled by the pager.
    exit_on_interrupt.store(false, Ordering::Relaxed);
    let was_shown = run(text).is_ok();
    exit_on_interrupt.store(true, Ordering::Relaxed);
    was_shown
}

fn run(text: &[u8]) -> io::Result<()> {
    let chosen = Program::current().variable("PAGER").or_else(|| std::env::var_os("PAGER"));
    let mut command = match chosen.filter(|command| !command.is_empty()) {
        Some(chosen) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(chosen);
            shell
        }
        None => {
            let mut less = Command::new("less");
            // Keep colors, and leave the text on the screen.
            less.args(["-R", "-X"]);
            less
        }
    };
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // The pager may exit before all output is read.
        let _seen_enough = input.write_all(text);
    }
    child.wait().map(drop)
}

/// Returns the number of screen lines of a text. Escape sequences of colors are counted as characters.
fn rows(text: &[u8], columns: usize) -> usize {
    let columns = columns.max(1);
    text.split_inclusive(|&byte| byte == b'\n').map(|line| line.len().div_ceil(columns)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_take_several_rows() {
        assert_eq!(rows(b"a\nb\n", 80), 2);
        assert_eq!(rows(&[b'x'; 200], 80), 3);
        assert_eq!(rows(b"", 0), 0);
    }
}
