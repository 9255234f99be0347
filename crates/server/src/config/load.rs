//! Reads the configuration at startup: a file with its includes, standard input, and the command line.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::option::Refusal;
use super::{Config, Flags, Occurrence, Row, find};
use crate::sys::file::{open_to_append, system_text};

mod command_line;
mod error;

pub use error::ConfigError;

/// The limit of all files together; real configurations have a thousandth of that.
const TEXT_BYTES_MAX: u64 = 64 << 20;
const FILES_MAX: usize = 10_000;
const INCLUDE_DEPTH_MAX: usize = 64;

/// Directives of older versions that are accepted with one value and ignored.
const OBSOLETE: [&str; 7] = [
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
    "io-threads-do-reads",
    "dynamic-hz",
    "events-per-io-thread",
    "sanitize-dump-payload",
];

/// Directives that are not options: CONFIG GET does not return them, and CONFIG REWRITE keeps their lines.
pub(super) const NOT_OPTIONS: [&str; 5] = ["include", "rename-command", "user", "loadmodule", "sentinel"];

/// The source of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A configuration file.
    File(PathBuf),
    /// Standard input.
    StandardInput,
    /// The command line.
    CommandLine,
}

/// A line of configuration, for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the line was read.
    pub source: Source,
    /// From 1. Standard input and the command line continue the numbers of the preceding file.
    pub line_number: usize,
    /// Without surrounding blanks.
    pub line: Vec<u8>,
}

/// A directive of another part of the server: `rename-command`, `user`, `loadmodule`, `module.option`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first is the directive's name, in lower case.
    pub words: Vec<Vec<u8>>,
    /// Where the directive stands.
    pub place: Place,
}

/// The configuration and directives at startup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    /// The options.
    pub config: Config,
    /// `rename-command <command> <new name, or empty to remove the command>`.
    pub rename_commands: Vec<Directive>,
    /// `user <name> <rule>...`.
    pub users: Vec<Directive>,
    /// `loadmodule <path> <argument>...`.
    pub modules: Vec<Directive>,
    /// `<module>.<option> <word>...`.
    pub module_options: Vec<Directive>,
    /// Part of the configuration came from standard input.
    pub read_standard_input: bool,
}

impl Config {
    /// Reads `[file] [-] [--option value...]`, the arguments after the program's name. Later values override earlier ones.
    /// Nothing is applied, not even the working directory; but the log file, if there is one, is created.
    pub fn load(arguments: &[OsString]) -> Result<Startup, ConfigError> {
        Self::load_with_input(arguments, &mut io::stdin())
    }

    /// `load` with another standard input.
    pub fn load_with_input(arguments: &[OsString], input: &mut dyn Read) -> Result<Startup, ConfigError> {
        let startup = Self::read(arguments, input)?;
        let Some(path) = startup.config.logfile_path() else { return Ok(startup) };
        open_to_append(&path).map_err(|error| cannot_open_log(&path, &error))?;
        Ok(startup)
    }

    /// `load` as a check only: no file is created.
    pub fn check(arguments: &[OsString]) -> Result<Startup, ConfigError> {
        let startup = Self::read(arguments, &mut io::stdin())?;
        let Some(path) = startup.config.logfile_path() else { return Ok(startup) };
        match std::fs::OpenOptions::new().append(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                rustix::fs::access(directory, Access::EXISTS | Access::WRITE_OK)
                    .map_err(|error| cannot_open_log(&path, &error.into()))?;
            }
            opened => drop(opened.map_err(|error| cannot_open_log(&path, &error))?),
        }
        Ok(startup)
    }

    /// The log file, or `None` for standard output.
    pub fn logfile_path(&self) -> Option<PathBuf> {
        (!self.logfile.is_empty()).then(|| self.dir.join(OsStr::from_bytes(&self.logfile)))
    }

    fn read(arguments: &[OsString], input: &mut dyn Read) -> Result<Startup, ConfigError> {
        let command_line = command_line::parse(arguments);
        let mut loader = Loader::new();
        let mut line_number = 1;
        if let Some(file) = &command_line.file {
            loader.startup.config.config_file = Some(loader.absolute(file));
            line_number += loader.load_named(file.as_bytes(), None)?;
        }
        if command_line.reads_standard_input {
            let text = loader.read_string(input).map_err(ConfigError::standard_input)?;
            loader.startup.read_standard_input = true;
            line_number += loader.load_text(&Source::StandardInput, &text, line_number)?;
        }
        // The options are separate lines after an empty one, for the same line numbers as in the reference.
        loader.load_text(&Source::CommandLine, &command_line.options, line_number + 1)?;
        Ok(loader.startup)
    }
}

/// The startup configuration in the directory `started_in` if the file had this text.
pub(super) fn read_as_file(path: &Path, text: &[u8], started_in: &Path) -> Result<Startup, ConfigError> {
    let mut loader = Loader::new();
    loader.startup.config.dir = started_in.to_owned();
    loader.open_files.push(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    loader.load_text(&Source::File(path.to_owned()), text, 1)?;
    Ok(loader.startup)
}

struct Loader {
    startup: Startup,
    /// Names of the options that have been set.
    seen: Vec<&'static str>,
    /// Canonical paths of the files that are being read, the innermost last.
    open_files: Vec<PathBuf>,
    files_read: usize,
    bytes_left: u64,
}

impl Loader {
    fn new() -> Self {
        Self {
            startup: Startup::default(),
            seen: Vec::new(),
            open_files: Vec::new(),
            files_read: 0,
            bytes_left: TEXT_BYTES_MAX,
        }
    }

    /// Resolves a path relative to the working directory that `dir` lines have set so far.
    fn absolute(&self, path: &OsStr) -> PathBuf {
        self.startup.config.dir.join(path)
    }

    /// Reads the file of that name, or all files that a pattern matches, possibly none. Returns the number of line
    /// breaks.
    fn load_named(&mut self, name: &[u8], included_from: Option<&Place>) -> Result<usize, ConfigError> {
        if !name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
            return self.load_file(OsStr::from_bytes(name), included_from);
        }
        let mut line_breaks = 0;
        for path in
            self.matching_files(name).map_err(|error| ConfigError::open(name, error, included_from))?
        {
            line_breaks += self.load_file(path.as_os_str(), included_from)?;
        }
        Ok(line_breaks)
    }

    /// The files that a pattern matches, sorted. A leading dot of a name must be matched by a literal dot.
    fn matching_files(&self, pattern: &[u8]) -> io::Result<Vec<PathBuf>> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let directory = self.startup.config.dir.to_str().map(glob::Pattern::escape);
        let (Ok(pattern), Some(directory)) = (std::str::from_utf8(pattern), directory) else {
            return Err(invalid("the pattern is not UTF-8".into()));
        };
        let absolute = Path::new(&directory).join(pattern);
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let paths = glob::glob_with(absolute.to_str().unwrap_or_default(), options)
            .map_err(|error| invalid(error.to_string()))?;
        let files = paths.filter(|path| path.as_ref().map_or(true, |path| !path.is_dir()));
        files.map(|path| path.map_err(io::Error::from)).collect()
    }

    fn load_file(&mut self, name: &OsStr, included_from: Option<&Place>) -> Result<usize, ConfigError> {
        let path = self.absolute(name);
        let cannot = |error| ConfigError::open(name.as_bytes(), error, included_from);
        let mut file = std::fs::File::open(&path).map_err(cannot)?;
        let canonical = std::fs::canonicalize(&path).map_err(cannot)?;
        if let Some(refusal) = self.refuse_file(&canonical) {
            return Err(cannot(io::Error::other(refusal)));
        }
        let text = self.read_string(&mut file).map_err(cannot)?;
        self.files_read += 1;
        self.open_files.push(canonical);
        let line_breaks = self.load_text(&Source::File(path), &text, 1);
        self.open_files.pop();
        line_breaks
    }

    fn refuse_file(&self, canonical: &Path) -> Option<String> {
        if self.open_files.iter().any(|open| open == canonical) {
            Some("it includes itself".into())
        } else if self.open_files.len() >= INCLUDE_DEPTH_MAX {
            Some(format!("more than {INCLUDE_DEPTH_MAX} files include each other"))
        } else if self.files_read >= FILES_MAX {
            Some(format!("more than {FILES_MAX} files are included"))
        } else {
            None
        }
    }

    fn read_string(&mut self, from: &mut dyn Read) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let read = from.take(self.bytes_left + 1).read_to_end(&mut text)? as u64;
        self.bytes_left = self
            .bytes_left
            .checked_sub(read)
            .ok_or_else(|| io::Error::other(format!("the configuration exceeds {TEXT_BYTES_MAX} bytes")))?;
        Ok(text)
    }

    /// Reads all lines; the first has the number `line_number`. Returns the number of line breaks.
    fn load_text(&mut self, source: &Source, text: &[u8], line_number: usize) -> Result<usize, ConfigError> {
        let mut line_breaks = 0;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            line_breaks = index;
            let line = trimmed(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let place =
                Place { source: source.clone(), line_number: line_number + index, line: line.to_vec() };
            self.load_line(place)?;
        }
        Ok(line_breaks)
    }

    fn load_line(&mut self, place: Place) -> Result<(), ConfigError> {
        let mut words = match split_line(&place.line) {
            Ok(words) => words,
            Err(reason) => return Err(ConfigError::at(&place, reason)),
        };
        let Some(name) = words.first_mut() else { return Ok(()) };
        name.make_ascii_lowercase();
        match find(name) {
            Some((row, _)) => {
                self.set_option(row, &words[1..]).map_err(|reason| ConfigError::at(&place, reason))
            }
            None => self.load_directive(Directive { words, place }),
        }
    }

    fn set_option(&mut self, row: &'static Row, values: &[Vec<u8>]) -> Result<(), Refusal> {
        let multi = row.flags.has(Flags::MULTI);
        if !multi && values.len() != 1 {
            return Err("wrong number of arguments".into());
        }
        let occurrence = if self.seen.contains(&row.name) { Occurrence::Again } else { Occurrence::First };
        // `--option "a b c"` is the same as `--option a b c`.
        let resplit = match values {
            [one] if multi && !one.is_empty() => Some(split_line(one)?),
            _ => None,
        };
        let words: Vec<&[u8]> = resplit.as_deref().unwrap_or(values).iter().map(Vec::as_slice).collect();
        (row.set)(&mut self.startup.config, &words, occurrence)?;
        self.seen.push(row.name);
        Ok(())
    }

    /// A directive that is not an option.
    fn load_directive(&mut self, directive: Directive) -> Result<(), ConfigError> {
        let name = directive.words[0].as_slice();
        let words = directive.words.len();
        let startup = &mut self.startup;
        match name {
            b"include" if words == 2 => {
                self.load_named(&directive.words[1], Some(&directive.place))?;
            }
            b"rename-command" if words == 3 => startup.rename_commands.push(directive),
            b"user" if words >= 2 => startup.users.push(directive),
            b"loadmodule" if words >= 2 => startup.modules.push(directive),
            b"sentinel" => {
                return Err(ConfigError::at(
                    &directive.place,
                    "sentinel directive while not in sentinel mode",
                ));
            }
            _ if words == 2 && OBSOLETE.iter().any(|old| old.as_bytes() == name) => {}
            _ if name.contains(&b'.') && words < 2 => {
                return Err(ConfigError::at(&directive.place, "Module config specified without value"));
            }
            _ if name.contains(&b'.') => startup.module_options.push(directive),
            _ => return Err(ConfigError::bad_directive(&directive)),
        }
        Ok(())
    }
}

fn cannot_open_log(path: &Path, error: &io::Error) -> ConfigError {
    ConfigError::anywhere(format!("Can't open the log file {}: {}", path.display(), system_text(error)))
}

/// A line without leading and trailing blanks.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The words of a line. Zero bytes are refused, because the text after one would be lost silently.
pub fn split_line(line: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    if line.contains(&0) {
        return Err("Zero byte in configuration line".into());
    }
    wire::request::split_args(line).map_err(|_| "Unbalanced quotes in configuration line".into())
}
