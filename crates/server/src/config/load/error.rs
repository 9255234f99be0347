//! Why the server cannot start with its configuration.

use std::fmt;
use std::io;

use super::super::option::Refusal;
use super::{Directive, NOT_OPTIONS, Place, Source};
use crate::config::{Flags, ROWS, Row};
use crate::sys::file::system_text;

/// What the command line may begin with in place of options.
const TOOLS: [&str; 6] = ["check-config", "print-config", "check-rdb", "check-aof", "help", "version"];

/// An error that stops the start. `Display` is the whole text for standard error.
#[derive(Debug)]
pub enum ConfigError {
    /// A file could not be opened or read, or may not be read.
    Open {
        /// The file.
        file: Vec<u8>,
        /// The error.
        error: io::Error,
        /// The line that includes the file.
        included_from: Option<Place>,
    },
    /// Standard input could not be read.
    StandardInput {
        /// The error.
        error: io::Error,
    },
    /// A line is wrong, or (without a place) the configuration as a whole.
    Invalid {
        /// The line, if there is one.
        place: Option<Place>,
        /// Why it is refused.
        reason: Refusal,
    },
}

impl ConfigError {
    /// An error about a line, also for the parts of the server that process a `Directive`.
    pub fn at(place: &Place, reason: impl Into<Refusal>) -> Self {
        Self::Invalid { place: Some(place.clone()), reason: reason.into() }
    }

    pub(super) fn anywhere(reason: impl Into<Refusal>) -> Self {
        Self::Invalid { place: None, reason: reason.into() }
    }

    pub(super) fn bad_directive(directive: &Directive) -> Self {
        const REASON: &str = "Bad directive or wrong number of arguments";
        let name = String::from_utf8_lossy(&directive.words[0]);
        let tools: &[&str] = if directive.place.source == Source::CommandLine { &TOOLS } else { &[] };
        let options = ROWS.iter().filter(|row| !row.flags.has(Flags::HIDDEN)).flat_map(Row::names);
        let names = options.chain(NOT_OPTIONS).chain(tools.iter().copied());
        match wire::spelling::meant(&name, names) {
            Some(meant) => Self::at(&directive.place, format!("{REASON}. Did you mean '{meant}'?")),
            None => Self::at(&directive.place, REASON),
        }
    }

    pub(super) fn open(file: &[u8], error: io::Error, included_from: Option<&Place>) -> Self {
        Self::Open { file: file.to_vec(), error, included_from: included_from.cloned() }
    }

    pub(super) fn standard_input(error: io::Error) -> Self {
        Self::StandardInput { error }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { file, error, included_from } => {
                let file = String::from_utf8_lossy(file);
                write!(f, "Fatal error, can't open config file '{file}': {}", system_text(error))?;
                match included_from {
                    Some(place) => write!(f, "\nIncluded from {place}"),
                    None => Ok(()),
                }
            }
            Self::StandardInput { error } => {
                write!(f, "Fatal error, can't read the config from stdin: {}", system_text(error))
            }
            Self::Invalid { place, reason } => {
                write!(f, "\n*** FATAL CONFIG FILE ERROR (Version {}) ***", env!("CARGO_PKG_VERSION"))?;
                let Some(place) = place else { return write!(f, "\n{reason}") };
                match place.source {
                    Source::CommandLine => f.write_str("\nReading the options of the command line")?,
                    Source::StandardInput => {
                        write!(
                            f,
                            "\nReading the configuration of standard input, at line {}",
                            place.line_number
                        )?;
                    }
                    Source::File(_) => {
                        write!(f, "\nReading the configuration file, at line {}", place.line_number)?;
                    }
                }
                write!(f, "\n>>> '{}'", String::from_utf8_lossy(&without_passwords(&place.line)))?;
                write!(f, "\n{reason}")?;
                let blank = |byte: &u8| byte.is_ascii_whitespace();
                let directive = place.line.split(blank).next().unwrap_or_default().to_ascii_lowercase();
                write!(f, "\n({place}, directive '{}')", String::from_utf8_lossy(&directive))
            }
        }
    }
}

/// The line; the passwords of a `user` line are removed.
fn without_passwords(line: &[u8]) -> Vec<u8> {
    let is_of_user = line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"user "));
    let shown = |word: &[u8]| match word {
        [kind @ (b'<' | b'>'), ..] if is_of_user => [&[*kind][..], b"(redacted)"].concat(),
        word => word.to_vec(),
    };
    line.split(|&byte| byte == b' ').map(shown).collect::<Vec<_>>().join(&b' ')
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line_number;
        match &self.source {
            Source::File(path) => write!(f, "{}, line {line}", path.display()),
            Source::StandardInput => write!(f, "standard input, line {line}"),
            Source::CommandLine => f.write_str("the command line"),
        }
    }
}
