//! Modes that watch a server: `--stat` and `--latency`.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use wire::response::Value;

use crate::Failure;
use crate::format::Style;
use crate::session::Session;

const PING_PAUSE: Duration = Duration::from_millis(10);
const HISTORY_INTERVAL: Duration = Duration::from_secs(15);
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);
/// Rows between two headings.
const ROWS_PER_HEADING: usize = 20;

/// The value of a field of INFO.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn info_number(info: &str, name: &str) -> i64 {
    info_field(info, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Keys in all databases: the sum of `db0:keys=5,...` and its like.
fn total_keys(info: &str) -> i64 {
    let keys = |line: &str| -> Option<i64> {
        let (_, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        rest.split(',').next()?.parse().ok()
    };
    info.lines().filter_map(keys).sum()
}

pub fn human_bytes(bytes: i64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["K", "M", "G", "T", "P"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}

pub fn statistics(session: &mut Session, interval: Option<Duration>) -> Result<(), Failure> {
    let mut requests_before = None;
    for row in 0.. {
        let reply = session.request(&["INFO"])?;
        let info = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if reply.is_error() {
            return Err(Failure::Reply(format!("ERROR: {info}")));
        }
        if row % ROWS_PER_HEADING == 0 {
            println!("------- data ------ --------------------- load -------------------- - child -");
            println!("keys       mem      clients blocked requests            connections          ");
        }
        let requests = info_number(&info, "total_commands_processed");
        let since = requests - requests_before.replace(requests).unwrap_or(requests);
        let row = format!(
            "{:<11}{:<8} {:<8}{:<8}{:<19} {:<12}{}",
            total_keys(&info),
            human_bytes(info_number(&info, "used_memory")),
            info_number(&info, "connected_clients"),
            info_number(&info, "blocked_clients"),
            format!("{requests} (+{since})"),
            info_number(&info, "total_connections_received"),
            children(&info),
        );
        println!("{row}");
        thread::sleep(interval.unwrap_or(STATISTICS_INTERVAL));
    }
    Ok(())
}

/// What the server does beside serving.
fn children(info: &str) -> String {
    let running = |(field, name)| (info_number(info, field) != 0).then_some(name);
    let all = [("rdb_bgsave_in_progress", "SAVE"), ("aof_rewrite_in_progress", "AOF"), ("loading", "LOAD")];
    all.into_iter().filter_map(running).collect::<Vec<_>>().join("+")
}

#[derive(Default)]
struct Samples {
    min: f64,
    max: f64,
    total: f64,
    count: u64,
}

impl Samples {
    fn add(&mut self, milliseconds: f64) {
        self.min = if self.count == 0 { milliseconds } else { self.min.min(milliseconds) };
        self.max = self.max.max(milliseconds);
        self.total += milliseconds;
        self.count += 1;
    }

    fn text(&self, style: &Style) -> String {
        let Self { min, max, count, .. } = self;
        let mean = self.total / (*count).max(1) as f64;
        match style {
            Style::Terminal => format!("min: {min:.2}, max: {max:.2}, avg: {mean:.2} ({count} samples)"),
            Style::Csv => format!("{min:.2},{max:.2},{mean:.2},{count}"),
            _ => format!("{min:.2} {max:.2} {mean:.2} {count}"),
        }
    }
}

/// PING after PING. At a terminal one line shows the figures so far for ever; elsewhere they are printed once, after
/// `interval`. With `history` a new line begins after each interval.
pub fn latency(session: &mut Session, interval: Option<Duration>, history: bool) -> Result<(), Failure> {
    session.connect()?;
    let is_live = session.settings.style == Style::Terminal;
    let interval = interval.unwrap_or(if history { HISTORY_INTERVAL } else { Duration::from_secs(1) });
    let (mut samples, mut since) = (Samples::default(), Instant::now());
    loop {
        let start = Instant::now();
        if let Value::Error(text) = session.request(&["PING"])? {
            return Err(Failure::Reply(format!("ERROR: {}", String::from_utf8_lossy(&text))));
        }
        samples.add(start.elapsed().as_secs_f64() * 1000.0);
        let text = samples.text(&session.settings.style);
        if is_live {
            print!("\x1b[0G\x1b[2K{text}");
            io::stdout().flush().map_err(|error| Failure::Io("writing to standard output", error))?;
        }
        if since.elapsed() >= interval && (history || !is_live) {
            let range = since.elapsed().as_secs_f64();
            match (is_live, history) {
                (true, _) => println!(" -- {range:.2} seconds range"),
                (false, true) => println!("{text} -- {range:.2} seconds range"),
                (false, false) => {
                    println!("{text}");
                    return Ok(());
                }
            }
            (samples, since) = (Samples::default(), Instant::now());
        }
        thread::sleep(PING_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read() {
        let info = "# Server\r\nused_memory:1234\r\nused_memory_human:1K\r\n# Keyspace\r\ndb0:keys=5,expires=0\r\ndb12:keys=7,expires=1\r\n";
        assert_eq!(info_field(info, "used_memory"), Some("1234"));
        assert_eq!((total_keys(info), info_number(info, "nothing")), (12, 0));
        assert_eq!([0, 1023, 1024, 1536 * 1024].map(human_bytes), ["0B", "1023B", "1.00K", "1.50M"]);
    }
}
