//! The server's log: lines in forms that operators' tools parse, written to standard output or a file, with times of
//! the machine's zone (`TZ`, `/etc/localtime`).
//!
//! ```text
//! legacy  pid:role date time mark message            (in colors on a terminal)
//! logfmt  pid=1 role=primary timestamp="..." level=notice message="..."
//! json    {"pid":1,"role":"primary","timestamp":"...","level":"notice","message":"..."}
//! ```

use crate::config::{LogFormat, LogLevel, LogTimestampFormat};
use crate::sys::file::open_to_append;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The role mark in each line: `M` for a primary, `S` for a replica, `C` for a child process.
static ROLE: AtomicU8 = AtomicU8::new(b'M');

/// Marks later lines as those of a replica, or of a primary.
pub fn mark_role(is_replica: bool) {
    ROLE.store(if is_replica { b'S' } else { b'M' }, Ordering::Relaxed);
}

/// Marks later lines as those of a child process.
pub fn become_child() {
    ROLE.store(b'C', Ordering::Relaxed);
}

/// Returns the log's file descriptor, which a child keeps open.
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

    /// Reopens the log after rotation has moved the file: later lines go to a new file of the same name.
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

static LOGGER: Logger = Logger { target: Mutex::new(None) };

/// Starts logging, to the file or (`None`) to standard output. A later call moves the log.
pub fn start(file: Option<&Path>, level: LogLevel) -> io::Result<()> {
    let opened = match file {
        Some(path) => Some(LogFile::open(path)?),
        None => None,
    };
    IS_COLORED.store(opened.is_none() && has_colors(), Ordering::Relaxed);
    *LOGGER.target.lock().expect("no thread panics while it logs") = opened;
    ZONE.get_or_init(|| {
        let zone = TimeZone::system();
        // The zone look-up has cached the names of all zones: 100 KB.
        jiff::tz::db().reset();
        zone
    });
    // Fails only when the logger is set already, by an earlier call.
    let _ = log::set_logger(&LOGGER);
    set_level(level);
    Ok(())
}

/// Reopens the log file on SIGHUP: a new file of its name exists at once, not only with the next line. On failure the
/// open one stays.
pub fn reopen() {
    let reopened = match &mut *LOGGER.target.lock().expect("no thread panics while it logs") {
        Some(log) => LogFile::open(&log.path).map(|file| *log = file),
        None => return,
    };
    match reopened {
        Ok(()) => log::info!("Received SIGHUP, the log file is reopened"),
        Err(error) => log::warn!("Received SIGHUP, but the log file cannot be reopened: {error}"),
    }
}

/// Lines of the legacy format are colored.
static IS_COLORED: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output is a terminal that shows colors, and its user wants them.
fn has_colors() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_able = std::env::var("TERM").is_ok_and(|name| name != "dumb");
    is_able && !is_set("NO_COLOR") && io::stdout().is_terminal()
}

static FORMAT: AtomicU8 = AtomicU8::new(LogFormat::Legacy as u8);
static TIMESTAMP_FORMAT: AtomicU8 = AtomicU8::new(LogTimestampFormat::Legacy as u8);

/// Sets the form of later lines.
pub fn set_format(format: LogFormat, timestamp: LogTimestampFormat) {
    FORMAT.store(format as u8, Ordering::Relaxed);
    TIMESTAMP_FORMAT.store(timestamp as u8, Ordering::Relaxed);
}

/// Sets the level below which lines are not written.
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
        // An error of the log itself cannot be logged.
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
    let time = match TIMESTAMP_FORMAT.load(Ordering::Relaxed) {
        kind if kind == LogTimestampFormat::Iso8601 as u8 => iso_8601(&local(now)),
        kind if kind == LogTimestampFormat::Milliseconds as u8 => now.as_millis().to_string(),
        _ => date_and_time(&local(now)),
    };
    let (process, message) = (std::process::id(), record.args());
    match FORMAT.load(Ordering::Relaxed) {
        kind if kind == LogFormat::Logfmt as u8 => {
            // Characters that would end the value early are replaced by similar ones.
            let message = message.to_string().replace('"', "'").replace(['\r', '\n'], " ");
            format!(
                "pid={process} role={role_name} timestamp=\"{time}\" level={level} message=\"{message}\"\n"
            )
        }
        kind if kind == LogFormat::Json as u8 => format!(
            "{{\"pid\":{process},\"role\":\"{role_name}\",\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":{}}}\n",
            json_string(&message.to_string())
        ),
        _ => {
            let (start, text) =
                (format!("{process}:{role} {time} {mark}"), as_one_entry(message.to_string()));
            match IS_COLORED.load(Ordering::Relaxed) {
                true => colored(record.level(), &start, &text),
                false => format!("{start} {text}\n"),
            }
        }
    }
}

/// A line for a terminal: warnings in yellow, what is of less interest in gray.
fn colored(level: log::Level, start: &str, text: &str) -> String {
    const GRAY: &str = "\x1b[90m";
    const YELLOW: &str = "\x1b[33m";
    const PLAIN: &str = "\x1b[0m";
    match level {
        log::Level::Error | log::Level::Warn => format!("{YELLOW}{start} {text}{PLAIN}\n"),
        log::Level::Info => format!("{GRAY}{start}{PLAIN} {text}\n"),
        log::Level::Debug | log::Level::Trace => format!("{GRAY}{start} {text}{PLAIN}\n"),
    }
}

/// Indents the further lines of a text, so that none looks like an entry of its own whatever names are in it; other
/// control characters, which could move a terminal's cursor, are escaped.
fn as_one_entry(text: String) -> String {
    if !text.bytes().any(|byte| byte.is_ascii_control()) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.trim_end_matches(['\r', '\n']).chars() {
        match c {
            '\n' => shown.push_str("\n  "),
            '\t' => shown.push(c),
            c if c.is_ascii_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
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

/// The machine's zone, read once: a child that logs opens no file and takes no lock.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Converts a time to the machine's zone; to Universal Time before the log has been started.
fn local(since_1970: Duration) -> ZonedDateTime {
    let zone = ZONE.get().cloned().unwrap_or(TimeZone::UTC);
    Timestamp::try_from(UNIX_EPOCH + since_1970).unwrap_or(Timestamp::MAX).to_zoned_datetime(zone)
}

/// `20 Nov 2026 23:52:01.123`.
fn date_and_time(time: &ZonedDateTime) -> String {
    time.strftime("%d %b %Y %H:%M:%S%.3f").to_string()
}

/// `2026-11-20T23:52:01.123+00:00`.
fn iso_8601(time: &ZonedDateTime) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::{as_one_entry, colored, date_and_time, iso_8601, json_string};
    use jiff::{Timestamp, ZonedDateTime, tz::TimeZone};

    fn at(unix_ms: i64, zone: &str) -> ZonedDateTime {
        let zone = TimeZone::posix(zone).unwrap();
        Timestamp::from_millisecond(unix_ms).unwrap().to_zoned_datetime(zone)
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        let shown = |unix_ms| date_and_time(&at(unix_ms, "UTC0"));
        assert_eq!(shown(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(shown(951_782_399_999), "28 Feb 2000 23:59:59.999");
        assert_eq!(shown(951_782_400_000), "29 Feb 2000 00:00:00.000");
        assert_eq!(shown(1_709_251_199_001), "29 Feb 2024 23:59:59.001");
        assert_eq!(shown(1_735_689_599_005), "31 Dec 2024 23:59:59.005");
    }

    #[test]
    fn times_are_those_of_the_zone_in_summer_too() {
        const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
        let shown = |unix_ms| iso_8601(&at(unix_ms, BERLIN));
        assert_eq!(shown(1_774_745_999_999), "2026-03-29T01:59:59.999+01:00");
        assert_eq!(shown(1_774_746_000_000), "2026-03-29T03:00:00.000+02:00");
        assert_eq!(date_and_time(&at(1_774_746_000_000, BERLIN)), "29 Mar 2026 03:00:00.000");
        assert_eq!(date_and_time(&at(1_774_746_000_000, "IST-5:30")), "29 Mar 2026 06:30:00.000");
    }

    #[test]
    fn warnings_stand_out_on_a_terminal() {
        assert_eq!(colored(log::Level::Warn, "1:M #", "text"), "\x1b[33m1:M # text\x1b[0m\n");
        assert_eq!(colored(log::Level::Info, "1:M *", "text"), "\x1b[90m1:M *\x1b[0m text\n");
        assert_eq!(colored(log::Level::Debug, "1:M -", "text"), "\x1b[90m1:M - text\x1b[0m\n");
    }

    #[test]
    fn no_text_makes_an_entry_of_its_own() {
        assert_eq!(as_one_entry("plain \u{e9}".to_owned()), "plain \u{e9}");
        assert_eq!(
            as_one_entry("a\n1:M * b\r\n\tc\u{1b}[2J\n".to_owned()),
            "a\n  1:M * b\\r\n  \tc\\u{1b}[2J"
        );
    }

    #[test]
    fn times_and_texts_are_as_their_formats_want_them() {
        assert_eq!(iso_8601(&at(1_709_251_199_001, "UTC0")), "2024-02-29T23:59:59.001+00:00");
        assert_eq!(json_string("a\"\\\u{1}\n\u{e9}"), "\"a\\\"\\\\\\u0001\\n\u{e9}\"");
    }
}
