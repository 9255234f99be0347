//! The progress of a long mode: a bar on standard error, if it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const KEYS: &str = "{bar:40} {percent:>3}% {human_pos} of {human_len} keys, {per_sec}, {eta} left";
const BYTES: &str = "{bar:40} {percent:>3}% {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const BYTES_WITHOUT_TOTAL: &str = "{spinner} {bytes}, {bytes_per_sec}";
const REFRESH: Duration = Duration::from_millis(200);

pub struct Progress(ProgressBar);

impl Progress {
    pub fn keys(total: u64) -> Progress {
        Self::new(Some(total), KEYS)
    }

    pub fn bytes(total: Option<u64>) -> Progress {
        Self::new(total, if total.is_some() { BYTES } else { BYTES_WITHOUT_TOTAL })
    }

    fn new(total: Option<u64>, template: &str) -> Progress {
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(REFRESH);
        Progress(bar)
    }

    pub fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }

    /// Prints a line on standard output, without disturbing the bar.
    pub fn print(&self, line: &str) {
        self.0.suspend(|| print_line!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
