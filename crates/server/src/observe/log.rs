//! The server's log: lines of the forms that operators and their tools know, written to standard output or a file.
//!
//! ```text
//! legacy  pid:role date time mark message
//! logfmt  pid=1 role=primary timestamp="..." level=notice message="..."
//! json    {"pid":1,"role":"primary","timestamp":"...","level":"notice","message":"..."}
//! ```

use crate::config::{LogFormat, LogLevel, LogTimestampFormat};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What stands in each line for the server's part: `M` for a primary, `S` for a replica, `C` for a child process.
static ROLE: AtomicU8 = AtomicU8::new(b'M');

/// From now on lines are marked as those of a replica, or of a primary.
pub fn mark_role(is_replica: bool) {
    ROLE.store(if is_replica { b'S' } else { b'M' }, Ordering::Relaxed);
}

/// From now on lines are marked as those of a child process.
pub fn become_child() {
    ROLE.store(b'C', Ordering::Relaxed);
}

/// The log file, for those who close all others.
pub fn file_descriptor() -> Option<RawFd> {
    let target = LOGGER.target.lock().expect("no thread panics while it logs");
    target.as_ref().map(|log| log.file.as_raw_fd())
}

struct Logger {
    target: Mutex<Option<LogFile>>,
}

struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        // The working directory may change.
        let path = std::path::absolute(path)?;
        let file = open_to_append(&path)?;
        Ok(LogFile { path, file })
    }

    /// Who rotates logs moves the file away: what comes then belongs into another one of its name.
    fn follow_name(&mut self) {
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let named = std::fs::metadata(&self.path).map(identity).ok();
        let open = self.file.metadata().map(identity).ok();
        if (named.is_none() || named != open)
            && let Ok(file) = open_to_append(&self.path)
        {
            self.file = file;
        }
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

static LOGGER: Logger = Logger { target: Mutex::new(None) };

/// Starts logging, to the file or (`None`) to standard output. A later call moves the log.
pub fn start(file: Option<&Path>, level: LogLevel) -> io::Result<()> {
    let opened = match file {
        Some(path) => Some(LogFile::open(path)?),
        None => None,
    };
    *LOGGER.target.lock().expect("no thread panics while it logs") = opened;
    // Fails only when the logger is set already, by an earlier call.
    let _ = log::set_logger(&LOGGER);
    set_level(level);
    Ok(())
}

static FORMAT: AtomicU8 = AtomicU8::new(LogFormat::Legacy as u8);
static TIMESTAMP_FORMAT: AtomicU8 = AtomicU8::new(LogTimestampFormat::Legacy as u8);

/// Chooses the form of lines from now on.
pub fn set_format(format: LogFormat, timestamp: LogTimestampFormat) {
    FORMAT.store(format as u8, Ordering::Relaxed);
    TIMESTAMP_FORMAT.store(timestamp as u8, Ordering::Relaxed);
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = line(record, now);
        let mut target = LOGGER.target.lock().expect("no thread panics while it logs");
        // A log that cannot be written has nowhere to say so.
        let _ = match &mut *target {
            Some(log) => {
                log.follow_name();
                log.file.write_all(line.as_bytes())
            }
            None => io::stdout().lock().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

fn line(record: &log::Record<'_>, now: Duration) -> String {
    let (mark, level) = match record.level() {
        log::Level::Error | log::Level::Warn => ('#', "warning"),
        log::Level::Info => ('*', "notice"),
        log::Level::Debug => ('-', "info"),
        log::Level::Trace => ('.', "debug"),
    };
    let role = char::from(ROLE.load(Ordering::Relaxed));
    let role_name = match role {
        'C' => "RDB/AOF",
        'S' => "replica",
        _ => "primary",
    };
    let (unix_s, ms) = (now.as_secs() as i64, now.subsec_millis());
    let time = match TIMESTAMP_FORMAT.load(Ordering::Relaxed) {
        kind if kind == LogTimestampFormat::Iso8601 as u8 => iso_8601(unix_s, ms),
        kind if kind == LogTimestampFormat::Milliseconds as u8 => now.as_millis().to_string(),
        _ => date_and_time(unix_s, ms),
    };
    let (process, message) = (std::process::id(), record.args());
    match FORMAT.load(Ordering::Relaxed) {
        kind if kind == LogFormat::Logfmt as u8 => {
            // What would end the value early gives way to what looks like it.
            let message = message.to_string().replace('"', "'").replace(['\r', '\n'], " ");
            format!(
                "pid={process} role={role_name} timestamp=\"{time}\" level={level} message=\"{message}\"\n"
            )
        }
        kind if kind == LogFormat::Json as u8 => format!(
            "{{\"pid\":{process},\"role\":\"{role_name}\",\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":{}}}\n",
            json_string(&message.to_string())
        ),
        _ => format!("{process}:{role} {time} {mark} {message}\n"),
    }
}

fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\x08' => json.push_str("\\b"),
            '\x0c' => json.push_str("\\f"),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", c as u32)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

/// A moment in Universal Time.
struct Date {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

/// `20 Nov 2026 23:52:01.123`, in Universal Time.
fn date_and_time(unix_s: i64, ms: u32) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Date { year, month, day, hour, minute, second } = Date::of(unix_s);
    format!("{day:02} {} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}", MONTHS[month as usize - 1])
}

/// `2026-11-20T23:52:01.123+00:00`.
fn iso_8601(unix_s: i64, ms: u32) -> String {
    let Date { year, month, day, hour, minute, second } = Date::of(unix_s);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

impl Date {
    /// Days to date: Hinnant, "chrono-compatible low-level date algorithms".
    fn of(unix_s: i64) -> Date {
        let (days, seconds) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = (shifted_month + 2) % 12 + 1;
        Date {
            year: year_of_era + era * 400 + i64::from(month < 3),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{date_and_time, iso_8601, json_string};

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date_and_time(0, 0), "01 Jan 1970 00:00:00.000");
        assert_eq!(date_and_time(951_782_399, 999), "28 Feb 2000 23:59:59.999");
        assert_eq!(date_and_time(951_782_400, 0), "29 Feb 2000 00:00:00.000");
        assert_eq!(date_and_time(1_709_251_199, 1), "29 Feb 2024 23:59:59.001");
        assert_eq!(date_and_time(1_735_689_599, 5), "31 Dec 2024 23:59:59.005");
    }

    #[test]
    fn times_and_texts_are_as_their_formats_want_them() {
        assert_eq!(iso_8601(1_709_251_199, 1), "2024-02-29T23:59:59.001+00:00");
        assert_eq!(json_string("a\"\\\u{1}\n\u{e9}"), "\"a\\\"\\\\\\u0001\\n\u{e9}\"");
    }
}
