//! `--latency` and `--latency-history`: the round-trip times of consecutive PINGs.

pub mod distribution;

use std::thread;
use std::time::{Duration, Instant};

use client::print_bytes;

use crate::Failure;
use crate::format::Style;
use crate::session::Session;

const PAUSE: Duration = Duration::from_millis(10);
const HISTORY_INTERVAL: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(1);

/// Milliseconds of each PING since the last row.
#[derive(Default)]
struct Samples {
    min: u128,
    max: u128,
    total: u128,
    count: u64,
}

impl Samples {
    fn add(&mut self, milliseconds: u128) {
        self.min = if self.count == 0 { milliseconds } else { self.min.min(milliseconds) };
        self.max = self.max.max(milliseconds);
        self.total += milliseconds;
        self.count += 1;
    }

    fn text(&self, style: &Style) -> String {
        let Self { min, max, count, .. } = self;
        let mean = self.total as f64 / (*count).max(1) as f64;
        match style {
            Style::Terminal => format!("min: {min}, max: {max}, avg: {mean:.2} ({count} samples)"),
            Style::Csv => format!("{min},{max},{mean:.2},{count}\n"),
            Style::Raw { .. } => format!("{min} {max} {mean:.2} {count}\n"),
            Style::Json | Style::QuotedJson => {
                format!("{{\"min\": {min}, \"max\": {max}, \"avg\": {mean:.2}, \"count\": {count}}}\n")
            }
        }
    }
}

/// Measures until interrupted. At a terminal one line shows the current results; otherwise they are printed once, after
/// `interval`. With `history` a new row begins after each interval.
pub fn run(session: &mut Session, interval: Option<Duration>, history: bool) -> Result<(), Failure> {
    session.connect()?;
    let is_live = session.settings.style == Style::Terminal;
    let interval = interval.unwrap_or(if history { HISTORY_INTERVAL } else { INTERVAL });
    let (mut samples, mut since) = (Samples::default(), Instant::now());
    loop {
        let start = Instant::now();
        session.request_with_retries(&["PING"])?;
        samples.add(start.elapsed().as_millis());
        let text = samples.text(&session.settings.style);
        if is_live {
            print_bytes(format!("\x1b[0G\x1b[2K{text}").as_bytes());
        } else if history {
            print_bytes(text.as_bytes());
        } else if since.elapsed() > interval {
            print_bytes(text.as_bytes());
            return Ok(());
        }
        if history && since.elapsed() > interval {
            print_line!(" -- {:.2} seconds range", since.elapsed().as_secs_f64());
            (samples, since) = (Samples::default(), Instant::now());
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up() {
        let mut samples = Samples::default();
        [3, 1, 2].into_iter().for_each(|milliseconds| samples.add(milliseconds));
        assert_eq!(samples.text(&Style::Terminal), "min: 1, max: 3, avg: 2.00 (3 samples)");
        assert_eq!(samples.text(&Style::Csv), "1,3,2.00,3\n");
        assert_eq!(samples.text(&Style::Json), "{\"min\": 1, \"max\": 3, \"avg\": 2.00, \"count\": 3}\n");
    }
}
