//! The server's log: lines of the form that operators and their tools know,
//! `pid:role date time level message`, written to standard output or a file.

use crate::config::LogLevel;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What stands in each line for the server's part: `M` for a primary, `C` for a child process.
static ROLE: AtomicU8 = AtomicU8::new(b'M');

/// From now on lines are marked as those of a child process.
pub fn become_child() {
    ROLE.store(b'C', Ordering::Relaxed);
}

/// The log file, for those who close all others.
pub fn file_descriptor() -> Option<RawFd> {
    let target = LOGGER.target.lock().expect("no thread panics while it logs");
    target.as_ref().map(AsRawFd::as_raw_fd)
}

struct Logger {
    target: Mutex<Option<File>>,
}

static LOGGER: Logger = Logger { target: Mutex::new(None) };

/// Starts logging, to the file or (`None`) to standard output. A later call moves the log.
pub fn start(file: Option<&Path>, level: LogLevel) -> io::Result<()> {
    let opened = match file {
        Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        None => None,
    };
    *LOGGER.target.lock().expect("no thread panics while it logs") = opened;
    // Fails only when the logger is set already, by an earlier call.
    let _ = log::set_logger(&LOGGER);
    set_level(level);
    Ok(())
}

/// Lines below the level are not written.
pub fn set_level(level: LogLevel) {
    log::set_max_level(match level {
        LogLevel::Debug => log::LevelFilter::Trace,
        LogLevel::Verbose => log::LevelFilter::Debug,
        LogLevel::Notice => log::LevelFilter::Info,
        LogLevel::Warning => log::LevelFilter::Warn,
        LogLevel::Nothing => log::LevelFilter::Off,
    });
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("server") && metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mark = match record.level() {
            log::Level::Error | log::Level::Warn => '#',
            log::Level::Info => '*',
            log::Level::Debug => '-',
            log::Level::Trace => '.',
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = date_and_time(now.as_secs() as i64, now.subsec_millis());
        let line = {
            let role = char::from(ROLE.load(Ordering::Relaxed));
            format!("{}:{role} {time} {mark} {}\n", std::process::id(), record.args())
        };
        let mut target = LOGGER.target.lock().expect("no thread panics while it logs");
        // A log that cannot be written has nowhere to say so.
        let _ = match &mut *target {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stdout().lock().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

/// `20 Nov 2026 23:52:01.123`, in Universal Time. Days to date: Hinnant, "chrono-compatible low-level date
/// algorithms".
fn date_and_time(unix_s: i64, ms: u32) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, seconds) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{day:02} {} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}", MONTHS[month as usize])
}

#[cfg(test)]
mod tests {
    use super::date_and_time;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date_and_time(0, 0), "01 Jan 1970 00:00:00.000");
        assert_eq!(date_and_time(951_782_399, 999), "28 Feb 2000 23:59:59.999");
        assert_eq!(date_and_time(951_782_400, 0), "29 Feb 2000 00:00:00.000");
        assert_eq!(date_and_time(1_709_251_199, 1), "29 Feb 2024 23:59:59.001");
        assert_eq!(date_and_time(1_735_689_599, 5), "31 Dec 2024 23:59:59.005");
    }
}
