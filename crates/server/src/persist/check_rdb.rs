//! `warmline-check-rdb`: reads an RDB file to its end without keeping the data, and reports errors and, if asked,
//! statistics.

mod statistics;

use super::rdb::load::LoadOptions;
use super::rdb::{LoadError, Loader, Observer, Reason};
use crate::db::rdb::ReadValue;
use crate::db::{Db, Turn};
use statistics::Statistics;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use structures::hash::HashSeed;
use wire::cluster_bus::SlotSet;
use wire::rdb::{FOREIGN_VERSIONS, REDIS_VERSIONS, SlotImport, VERSION, kind};

/// Limit above the number of databases of any server.
const DATABASES_MAX: usize = 1 << 16;

/// Output format of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// Lines in the format of INFO.
    Info,
    /// Comma-separated values.
    Csv,
}

/// Output besides the verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Whether statistics are printed.
    pub statistics: bool,
    /// Format of the statistics.
    pub format: Format,
    /// File for statistics; `None`: standard output.
    pub output: Option<PathBuf>,
}

impl ReportOptions {
    /// Parses the arguments; `None` if they are invalid.
    pub fn parse(words: &[OsString]) -> Option<ReportOptions> {
        let mut wanted = ReportOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_str()? {
                "--stats" => wanted.statistics = true,
                "--output" => wanted.output = Some(PathBuf::from(words.next()?)),
                "--format" => {
                    wanted.format = match words.next()?.to_str()? {
                        "table" => Format::Table,
                        "info" => Format::Info,
                        "csv" => Format::Csv,
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
        Some(wanted)
    }
}

/// Prints the file's attributes, and counts keys if asked.
struct PropagateAs {
    statistics: Option<Statistics>,
    now_ms: i64,
}

impl Observer for PropagateAs {
    fn about(&mut self, name: &[u8], value: &[u8], at: u64) {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        print_line!("[offset {at}] AUX FIELD {name} = '{value}'");
    }

    fn slot_import(&mut self, import: &SlotImport, at: u64) {
        let (name, slots) = (&import.name, ranges_of(&import.slots));
        print_line!("[offset {at}] Slot import {name} of slots {slots}");
    }

    fn database(&mut self, index: u64, at: u64) {
        print_line!("[offset {at}] Selecting DB ID {index}");
    }

    fn key(&mut self, db_index: usize, key: &[u8], value: &ReadValue, expiry_ms: Option<i64>) {
        if let Some(statistics) = &mut self.statistics {
            statistics.add(db_index, key, value, expiry_ms, self.now_ms);
        }
    }
}

/// As CLUSTER NODES writes them.
fn ranges_of(slots: &SlotSet) -> String {
    let ranges = slots.ranges().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(" ")
}

/// Checks the file and reports on standard output; returns the offset after its end if it is valid.
pub fn check(path: &Path) -> Option<u64> {
    run(path, &ReportOptions::default())
}

/// As [`check`]; returns whether the file is valid and all output was written.
pub fn check_and_describe(path: &Path, wanted: &ReportOptions) -> bool {
    run(path, wanted).is_some()
}

fn run(path: &Path, wanted: &ReportOptions) -> Option<u64> {
    print_line!("[offset 0] Checking RDB file {}", path.display());
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let options = LoadOptions {
        strict: false,
        verify_checksum: true,
        drop_expired: false,
        replaces: false,
        keys_expected_max: 1000,
        key_delay_us: 0,
        now_ms,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            print_line!("Cannot open file {}: {error}", path.display());
            return None;
        }
    };
    let mut loader = match Loader::open(file, options) {
        Ok(loader) => loader,
        Err(error) => {
            refuse(error.at, &text_of(&error, 0));
            return None;
        }
    };
    let version = loader.version();
    let from_elsewhere = match version {
        version if version > VERSION => Some("Future"),
        version if FOREIGN_VERSIONS.contains(&version) => Some("Foreign"),
        _ => None,
    };
    if let Some(origin) = from_elsewhere {
        print_line!("[offset {}] {origin} RDB version {version} detected", loader.position());
    }
    let statistics = wanted.statistics.then(Statistics::default);
    let mut propagate_as = PropagateAs { statistics, now_ms };
    let mut db = Db::new(DATABASES_MAX, HashSeed::new(0, 0), 0);
    db.begin(Turn::new(0, now_ms));
    let outcome = loader.check(&mut db, &mut propagate_as);
    match &outcome {
        Ok(()) => {
            let at = loader.position();
            print_line!("[offset {at}] Checksum OK");
            print_line!("[offset {at}] \\o/ RDB looks OK{}", caution(version));
        }
        Err(error) => {
            refuse(error.at, &text_of(error, version));
            print_line!("[additional info] While doing: {}", loader.doing());
            if let Some((key, kind)) = loader.unfinished_key() {
                print_line!("[additional info] Reading key '{}'", String::from_utf8_lossy(key));
                let written = kind::written(kind);
                print_line!("[additional info] Reading type {written} ({})", kind::name(kind));
            }
        }
    }
    print_figures(&loader);
    let is_printed = propagate_as.statistics.is_none_or(|statistics| print_statistics(&statistics, wanted));
    (outcome.is_ok() && is_printed).then(|| loader.position())
}

/// Warning about loading a file of this version.
fn caution(version: u16) -> &'static str {
    match version {
        version if REDIS_VERSIONS.contains(&version) => {
            "! \\o/ Valkey loads it only with config 'rdb-version-check relaxed', and without field expiry and newer streams."
        }
        version if version > VERSION || FOREIGN_VERSIONS.contains(&version) => {
            ", but loading requires config 'rdb-version-check relaxed'"
        }
        _ => "! \\o/",
    }
}

fn text_of(error: &LoadError, version: u16) -> String {
    match &error.reason {
        Reason::Signature(_) => "Wrong signature trying to load DB from file".to_owned(),
        Reason::ForeignType { kind, version } => {
            format!("Unknown object type {kind} in RDB file with foreign version {version}")
        }
        Reason::UnknownType { kind } if version > VERSION => {
            format!("Unknown object type {kind} in RDB file with future version {version}")
        }
        Reason::UnknownType { kind } => format!("Invalid object type: {kind}"),
        Reason::Read(reason) => reason.to_string(),
        _ => error.to_string(),
    }
}

fn refuse(at: u64, what: &str) {
    print_line!("--- RDB ERROR DETECTED ---");
    print_line!("[offset {at}] {what}");
}

fn print_figures(loader: &Loader<File>) {
    let figures = loader.figures;
    print_line!("[info] {} keys read", figures.keys_loaded);
    print_line!("[info] {} expires", figures.keys_expiring);
    print_line!("[info] {} already expired", figures.keys_expired);
    print_line!("[info] {} functions", loader.libraries.len());
}

fn print_statistics(statistics: &Statistics, wanted: &ReportOptions) -> bool {
    let text = statistics.describe(wanted.format);
    let written = match &wanted.output {
        Some(path) => std::fs::write(path, text),
        None => io::stdout().write_all(text.as_bytes()),
    };
    match (written, &wanted.output) {
        (Err(error), Some(path)) => {
            let _unread = writeln!(io::stderr(), "Cannot open output file: '{}': {error}", path.display());
            false
        }
        (written, _) => written.is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn slots_are_shown_as_ranges() {
        assert_eq!(ranges_of(&[0, 1, 2, 5, 7, 8].into_iter().collect()), "0-2 5 7-8");
    }

    #[test]
    fn words_are_taken_in_any_order_and_only_if_they_make_sense() {
        let wanted = ReportOptions::parse(&words("--format csv --stats --output file")).unwrap();
        assert_eq!(wanted.format, Format::Csv);
        assert!(wanted.statistics && wanted.output == Some("file".into()));
        for bad in ["--format", "--format xml", "--output", "more"] {
            assert_eq!(ReportOptions::parse(&words(bad)), None, "{bad}");
        }
    }
}
