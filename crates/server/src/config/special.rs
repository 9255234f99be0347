//! Options with a syntax of their own: save points, addresses, percentiles, the primary, the working directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::checks::is_host;
use super::option::{Kind, Occurrence, Refusal, RewrittenLine};
use super::quote::quoted;
use crate::sys::file::system_text;

const BIND_ADDRESSES_MAX: usize = 16;
const WRONG_NUMBER: Refusal = Refusal::Borrowed("wrong number of arguments");

/// Save the dataset once this many changes have happened and this many seconds have passed since the last save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Minimum time since the last save.
    pub seconds: u64,
    /// Minimum number of changes since the last save.
    pub changes: u64,
}

pub(super) fn default_save_points() -> Vec<SavePoint> {
    [(3600, 1), (300, 100), (60, 10_000)].map(|(seconds, changes)| SavePoint { seconds, changes }).into()
}

/// Pairs of seconds and changes. In a file, the first `save` replaces the defaults and later ones add to it; an
/// empty word removes all.
pub(super) struct SavePoints;

impl Kind<Vec<SavePoint>> for SavePoints {
    fn parse(
        &self,
        words: &[&[u8]],
        before: &Vec<SavePoint>,
        occurrence: Occurrence,
    ) -> Result<Vec<SavePoint>, Refusal> {
        if let [[]] = words {
            return Ok(Vec::new());
        }
        let invalid = || Refusal::from("Invalid save parameters");
        let number =
            |word: &[u8], low: i64| parse_integer(word).filter(|value| *value >= low).ok_or_else(invalid);
        if !words.len().is_multiple_of(2) {
            return Err(invalid());
        }
        let mut points = match occurrence {
            Occurrence::First => Vec::new(),
            Occurrence::Again => before.clone(),
        };
        for pair in words.chunks_exact(2) {
            let (seconds, changes) = (number(pair[0], 1)?, number(pair[1], 0)?);
            points.push(SavePoint { seconds: seconds as u64, changes: changes as u64 });
        }
        Ok(points)
    }

    fn format(&self, value: &Vec<SavePoint>) -> Vec<u8> {
        join_words(value.iter().map(|point| format!("{} {}", point.seconds, point.changes)))
    }

    fn accepts(&self) -> String {
        "pairs of seconds and changes".to_owned()
    }

    fn rewritten(&self, value: &Vec<SavePoint>, _default: &Vec<SavePoint>) -> Vec<RewrittenLine> {
        vec![always_written(self.format(value))]
    }
}

/// A line that is always written, with an empty word for an empty value.
pub(super) fn always_written(text: Vec<u8>) -> RewrittenLine {
    RewrittenLine { text: if text.is_empty() { b"\"\"".into() } else { text }, forced: true }
}

/// Whether a word needs no quotes.
pub(super) fn is_bare(word: &[u8]) -> bool {
    !word.is_empty()
        && word.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'))
}

fn join_words(words: impl Iterator<Item = String>) -> Vec<u8> {
    words.collect::<Vec<_>>().join(" ").into()
}

/// A decimal integer with optional sign and leading zeros.
fn parse_integer(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The kernel's preference for killing this process when memory runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomScoreAdjValues {
    /// The value of a primary.
    pub primary: i32,
    /// The value of a replica.
    pub replica: i32,
    /// The value of a child that saves or rewrites.
    pub background_child: i32,
}

impl OomScoreAdjValues {
    pub(super) const DEFAULT: Self = Self { primary: 0, replica: 200, background_child: 800 };

    /// Unprivileged processes can only raise their score, so it must not decrease from role to role.
    pub fn works_unprivileged(self) -> bool {
        self.primary <= self.replica && self.replica <= self.background_child
    }
}

pub(super) struct OomScores;

impl Kind<OomScoreAdjValues> for OomScores {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &OomScoreAdjValues,
        _occurrence: Occurrence,
    ) -> Result<OomScoreAdjValues, Refusal> {
        let [primary, replica, background_child] = words else {
            return Err(WRONG_NUMBER);
        };
        let score = |word: &[u8]| match parse_integer(word).map(i32::try_from) {
            Some(Ok(score @ -2000..=2000)) => Ok(score),
            _ => Err(Refusal::from("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")),
        };
        Ok(OomScoreAdjValues {
            primary: score(primary)?,
            replica: score(replica)?,
            background_child: score(background_child)?,
        })
    }

    fn format(&self, value: &OomScoreAdjValues) -> Vec<u8> {
        format!("{} {} {}", value.primary, value.replica, value.background_child).into()
    }

    fn accepts(&self) -> String {
        "three numbers from -2000 to 2000".to_owned()
    }
}

/// The addresses to listen on. A leading `-` permits that an address is not available.
pub(super) struct Addresses;

impl Kind<Vec<String>> for Addresses {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &Vec<String>,
        _occurrence: Occurrence,
    ) -> Result<Vec<String>, Refusal> {
        if words.len() > BIND_ADDRESSES_MAX {
            return Err("Too many bind addresses specified.".into());
        }
        if let [[]] = words {
            return Ok(Vec::new());
        }
        // Addresses never need quotes, here or when they are written back.
        let text = |word: &&[u8]| match std::str::from_utf8(word) {
            Ok(text) if is_bare(word) => Ok(text.to_owned()),
            _ => Err("Invalid bind address.".into()),
        };
        words.iter().map(text).collect()
    }

    fn format(&self, value: &Vec<String>) -> Vec<u8> {
        value.join(" ").into()
    }

    fn accepts(&self) -> String {
        "addresses".to_owned()
    }

    fn rewritten(&self, value: &Vec<String>, default: &Vec<String>) -> Vec<RewrittenLine> {
        if value == default { Vec::new() } else { vec![always_written(self.format(value))] }
    }
}

/// The primary that this server replicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOf {
    /// Host name or address of the primary.
    pub host: Vec<u8>,
    /// Port of the primary.
    pub port: u16,
}

pub(super) struct Primary;

impl Kind<Option<ReplicaOf>> for Primary {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &Option<ReplicaOf>,
        _occurrence: Occurrence,
    ) -> Result<Option<ReplicaOf>, Refusal> {
        let [host, port] = words else {
            return Err(WRONG_NUMBER);
        };
        if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
            return Ok(None);
        }
        if !is_host(host) {
            return Err("Invalid primary host".into());
        }
        let port = parse_integer(port).and_then(|port| u16::try_from(port).ok());
        Ok(Some(ReplicaOf { host: host.to_vec(), port: port.ok_or("Invalid primary port")? }))
    }

    fn format(&self, value: &Option<ReplicaOf>) -> Vec<u8> {
        let Some(primary) = value else { return Vec::new() };
        [&primary.host[..], format!(" {}", primary.port).as_bytes()].concat()
    }

    fn accepts(&self) -> String {
        "host and port".to_owned()
    }

    fn rewritten(&self, value: &Option<ReplicaOf>, _default: &Option<ReplicaOf>) -> Vec<RewrittenLine> {
        let line = |primary: &ReplicaOf| {
            let host = if is_bare(&primary.host) { primary.host.clone() } else { quoted(&primary.host) };
            always_written([&host[..], format!(" {}", primary.port).as_bytes()].concat())
        };
        value.iter().map(line).collect()
    }
}

/// Numbers from 0 to 100.
pub(super) struct Percentiles;

impl Kind<Vec<f64>> for Percentiles {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &Vec<f64>,
        _occurrence: Occurrence,
    ) -> Result<Vec<f64>, Refusal> {
        if let [[]] = words {
            return Ok(Vec::new());
        }
        let number = |word: &&[u8]| {
            let parsed = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
            match parsed {
                Some(percentile) if (0.0..=100.0).contains(&percentile) => Ok(percentile),
                Some(other) if !other.is_nan() => {
                    Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into())
                }
                _ => Err("Invalid latency-tracking-info-percentiles parameters".into()),
            }
        };
        words.iter().map(number).collect()
    }

    fn format(&self, value: &Vec<f64>) -> Vec<u8> {
        let text = |percentile: &f64| {
            format!("{percentile:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        join_words(value.iter().map(text))
    }

    fn accepts(&self) -> String {
        "numbers from 0 to 100".to_owned()
    }

    fn rewritten(&self, value: &Vec<f64>, _default: &Vec<f64>) -> Vec<RewrittenLine> {
        vec![always_written(self.format(value))]
    }
}

pub(super) fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// The absolute path of the working directory. It must exist, but the program's `main` enters it.
pub(super) struct Directory;

impl Kind<PathBuf> for Directory {
    fn parse(&self, words: &[&[u8]], before: &PathBuf, _occurrence: Occurrence) -> Result<PathBuf, Refusal> {
        if words[0].is_empty() {
            return Err("dir can't be empty".into());
        }
        enterable(&before.join(OsStr::from_bytes(words[0]))).map_err(|error| system_text(&error).into())
    }

    fn format(&self, value: &PathBuf) -> Vec<u8> {
        value.clone().into_os_string().into_vec()
    }

    fn accepts(&self) -> String {
        "a directory that exists".to_owned()
    }

    fn rewritten(&self, value: &PathBuf, _default: &PathBuf) -> Vec<RewrittenLine> {
        vec![always_written(quoted(&self.format(value)))]
    }
}

/// The absolute path of a directory that exists and can be entered.
fn enterable(path: &Path) -> io::Result<PathBuf> {
    // Resolving `.` inside needs the same as chdir: a directory, and permission to search it.
    std::fs::metadata(path.join("."))?;
    std::fs::canonicalize(path)
}
