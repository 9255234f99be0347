//! Output of subscriptions in the interactive mode, until a key is pressed.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::print_bytes;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{Dialogue, Input};
use crate::Failure;
use crate::format::Style;
use crate::program::{has_colors, is_watched};

/// The notice is shown again after this time without a message.
const WAIT: Duration = Duration::from_secs(5);
const NOTICE: &str = "Reading messages... (press Ctrl-C to quit or any key to type command)\r";
const CLEAR_LINE: &[u8] = b"\x1b[K";

/// A terminal in character mode without echo; the previous mode is restored on drop.
struct AnyKey(Termios);

impl AnyKey {
    fn new() -> Option<AnyKey> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut mode = before.clone();
        mode.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON);
        tcsetattr(&stdin, OptionalActions::Now, &mode).ok()?;
        Some(AnyKey(before))
    }
}

impl Drop for AnyKey {
    fn drop(&mut self) {
        // The terminal may have been closed.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

impl Dialogue<'_> {
    /// Prints messages until the last subscription ends or a key is pressed.
    pub(super) fn wait_for_messages(&mut self) -> Result<(), Failure> {
        let is_raw = matches!(self.session.settings.style, Style::Raw { .. });
        let shows_notice = !is_raw && is_watched();
        self.session.exit_on_interrupt.store(false, Ordering::Relaxed);
        self.session.interrupted.store(false, Ordering::Relaxed);
        let any_key = AnyKey::new();
        let outcome = self.print_until_input(shows_notice);
        drop(any_key);
        self.session.exit_on_interrupt.store(true, Ordering::Relaxed);
        outcome
    }

    fn print_until_input(&mut self, shows_notice: bool) -> Result<(), Failure> {
        let notice = match (shows_notice, has_colors()) {
            (false, _) => String::new(),
            (true, false) => NOTICE.to_owned(),
            (true, true) => format!("\x1b[1;90m{NOTICE}\x1b[0m"),
        };
        while self.session.is_subscribed() {
            while let Some(value) = self.session.connection()?.received()? {
                self.session.print_message(&value);
            }
            if !self.session.is_subscribed() {
                break;
            }
            print_bytes(notice.as_bytes());
            let has_line = matches!(&self.input, Input::Stream(lines) if !lines.buffer().is_empty());
            let stdin = std::io::stdin();
            let connection = self.session.connection()?;
            let (has_message, has_input) = match has_line {
                true => (false, true),
                false => connection.wait(Some(stdin.as_fd()), WAIT)?,
            };
            if shows_notice {
                print_bytes(CLEAR_LINE);
            }
            if self.session.interrupted.swap(false, Ordering::Relaxed) {
                let server = crate::program::Program::current().server;
                print_line!("Closing current connection. Ready to reconnect to {server} server... ");
                self.session.connect()?;
            } else if has_message {
                // The rest of a partial message is awaited.
                let value = self.session.connection()?.receive()?;
                self.session.print_message(&value);
            } else if has_input {
                break;
            }
        }
        Ok(())
    }
}
