//! The manifest: the list of an append-only file's files.
//!
//! ```text
//!  file appendonly.aof.2.base.rdb seq 2 type b
//!  file appendonly.aof.1.incr.aof seq 1 type h         history: to be removed
//!  file appendonly.aof.4.incr.aof seq 4 type i
//! ```
//! Names with spaces or quotes are quoted, with escapes as in configuration files.

use crate::config::{quoted, split_line};
use crate::sys::file::{self, FileError, failed};
use crate::sys::world::{File, Open, World};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The data at the last rewrite.
    Base,
    /// A file of an earlier base, to be removed.
    History,
    /// Changes since the base.
    Increment,
}

/// A file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// File name, without the directory.
    pub name: Vec<u8>,
    /// Sequence number among the files of its type.
    pub sequence: u64,
}

/// The files of the manifest on disk, once [`Manifest::persist`] has returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base, if there is one.
    pub base: Option<Part>,
    /// The latest first.
    pub history: Vec<(Part, FileKind)>,
    /// The increments, in order.
    pub increments: Vec<Part>,
    /// Sequence number of the last base.
    pub base_sequence: u64,
    /// Sequence number of the last increment.
    pub increment_sequence: u64,
}

/// Why the manifest cannot be used.
#[derive(Debug)]
pub enum ManifestError {
    /// It could not be read.
    File(FileError),
    /// An invalid line.
    Line {
        /// Number of the line, from 1.
        number: usize,
        /// Why it is invalid.
        reason: &'static str,
        /// The line.
        line: String,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::File(error) => error.fmt(f),
            ManifestError::Line { number, reason, line } => {
                write!(f, "Reading the manifest file, at line {number}: '{line}': {reason}")
            }
        }
    }
}

impl std::error::Error for ManifestError {}

impl From<FileError> for ManifestError {
    fn from(error: FileError) -> Self {
        ManifestError::File(error)
    }
}

/// File names from the configuration, and their location.
#[derive(Clone, Debug)]
pub struct Names {
    /// Access to files.
    pub world: World,
    /// The directory of the files.
    pub directory: PathBuf,
    /// The prefix of the files' names.
    pub file: Vec<u8>,
}

impl Names {
    /// The path of a file in the directory.
    pub fn path(&self, name: &[u8]) -> PathBuf {
        self.directory.join(OsStr::from_bytes(name))
    }

    fn with(&self, suffix: &str) -> Vec<u8> {
        [&self.file[..], suffix.as_bytes()].concat()
    }

    fn manifest(&self) -> PathBuf {
        self.path(&self.with(".manifest"))
    }

    fn temporary_manifest(&self) -> PathBuf {
        self.path(&[b"temp-", &self.with(".manifest")[..]].concat())
    }

    /// Increment for commands while the first base is being written.
    pub fn temporary_increment(&self) -> PathBuf {
        self.path(&[b"temp-", &self.with(".incr")[..]].concat())
    }

    /// Name of a base.
    pub fn base(&self, sequence: u64, is_rdb: bool) -> Vec<u8> {
        self.with(&format!(".{sequence}.base.{}", if is_rdb { "rdb" } else { "aof" }))
    }

    /// Name of an increment.
    pub fn increment(&self, sequence: u64) -> Vec<u8> {
        self.with(&format!(".{sequence}.incr.aof"))
    }
}

const LINE_BYTES_MAX: usize = 1024;

impl Manifest {
    /// Reads the manifest from disk; an empty one if the file does not exist.
    pub fn load(names: &Names) -> Result<Manifest, ManifestError> {
        let path = names.manifest();
        match names.world.read(&path) {
            Ok(bytes) => Manifest::parse(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(error) => Err(failed("Opening the AOF manifest", &path)(error).into()),
        }
    }

    /// Parses a manifest's text.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let refuse = |number, reason, line: &[u8]| ManifestError::Line {
            number,
            reason,
            line: String::from_utf8_lossy(line).into_owned(),
        };
        if bytes.is_empty() {
            return Err(refuse(1, "Found an empty AOF manifest", b""));
        }
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let unfinished = lines.pop().filter(|rest| !rest.is_empty());
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with(b"#")) {
            let parsed = if line.len() >= LINE_BYTES_MAX {
                Err("The AOF manifest file contains too long line")
            } else {
                manifest.add_line(line)
            };
            parsed.map_err(|reason| refuse(index + 1, reason, line))?;
        }
        match unfinished {
            Some(rest) if !rest.starts_with(b"#") => {
                Err(refuse(lines.len() + 1, "The AOF manifest file contains too long line", rest))
            }
            _ => Ok(manifest),
        }
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        const INVALID: &str = "Invalid AOF manifest file format";
        let words = split_line(line).ok().filter(|words| words.len() >= 6 && words.len() % 2 == 0);
        let (mut name, mut sequence, mut kind) = (None, 0, None);
        for pair in words.ok_or(INVALID)?.chunks_exact(2) {
            match pair[0].to_ascii_lowercase().as_slice() {
                b"file" if pair[1].contains(&b'/') => {
                    return Err("File can't be a path, just a filename");
                }
                b"file" => name = Some(pair[1].clone()),
                b"seq" => sequence = wire::number::parse_i64(&pair[1]).unwrap_or(0).max(0) as u64,
                b"type" => kind = pair[1].first().copied(),
                _ => {}
            }
        }
        let (Some(name), Some(kind), 1..) = (name, kind, sequence) else { return Err(INVALID) };
        let part = Part { name, sequence };
        match kind {
            b'b' if self.base.is_some() => return Err("Found duplicate base file information"),
            b'b' => {
                self.base_sequence = sequence;
                self.base = Some(part);
            }
            b'h' => self.history.push((part, FileKind::History)),
            b'i' if sequence <= self.increment_sequence => {
                return Err("Found a non-monotonic sequence number");
            }
            b'i' => {
                self.increment_sequence = sequence;
                self.increments.push(part);
            }
            _ => return Err("Unknown AOF file type"),
        }
        Ok(())
    }

    /// The manifest's text.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let base = self.base.iter().map(|part| (part, 'b'));
        let history = self.history.iter().map(|(part, _)| (part, 'h'));
        let increments = self.increments.iter().map(|part| (part, 'i'));
        for (part, kind) in base.chain(history).chain(increments) {
            text.extend_from_slice(b"file ");
            if part.name.iter().all(|&byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'))
            {
                text.extend_from_slice(&part.name);
            } else {
                text.extend_from_slice(&quoted(&part.name));
            }
            text.extend_from_slice(format!(" seq {} type {kind}\n", part.sequence).as_bytes());
        }
        text
    }

    /// Whether it lists no files.
    pub fn is_empty(&self) -> bool {
        self.base.is_none() && self.increments.is_empty()
    }

    /// The base and the increments in reading order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.base.iter().chain(&self.increments)
    }

    /// Names the next base; the current base becomes history.
    pub fn next_base(&mut self, names: &Names, is_rdb: bool) -> Vec<u8> {
        if let Some(part) = self.base.take() {
            self.history.insert(0, (part, FileKind::Base));
        }
        self.base_sequence += 1;
        let name = names.base(self.base_sequence, is_rdb);
        self.base = Some(Part { name: name.clone(), sequence: self.base_sequence });
        name
    }

    /// Names the next increment: not like a history file, which will be removed.
    pub fn next_increment(&mut self, names: &Names) -> Vec<u8> {
        let name = loop {
            self.increment_sequence += 1;
            let name = names.increment(self.increment_sequence);
            if self.history.iter().all(|(part, _)| part.name != name) {
                break name;
            }
        };
        self.increments.push(Part { name: name.clone(), sequence: self.increment_sequence });
        name
    }

    /// Moves all increments but the last `kept` to history.
    pub fn retire_increments(&mut self, kept: usize) {
        let retired = self.increments.len().saturating_sub(kept);
        for part in self.increments.drain(..retired) {
            self.history.insert(0, (part, FileKind::Increment));
        }
    }

    /// Writes the manifest to disk, whole or not at all.
    pub fn persist(&self, names: &Names) -> Result<(), FileError> {
        let text = self.to_text();
        file::replace(&names.world, &names.manifest(), &names.temporary_manifest(), false, |mut sink| {
            sink.write_all(&text)?;
            Ok(sink)
        })
    }

    /// Removes the history files from disk and manifest.
    pub fn remove_history(&mut self, names: &Names) -> Result<(), FileError> {
        if self.history.is_empty() {
            return Ok(());
        }
        let history = std::mem::take(&mut self.history);
        if let Err(error) = self.persist(names) {
            // They stay in the manifest, and are removed another time.
            self.history = history;
            return Err(error);
        }
        let obsolete: Vec<PathBuf> = history.iter().map(|(part, _)| names.path(&part.name)).collect();
        for path in &obsolete {
            log::info!("Removing the history file {} in the background", path.display());
        }
        let removing = names.world.remove_in_background(obsolete);
        removing.map_err(failed("Starting a thread to remove files in", &names.directory))
    }
}

/// Creates the directory if it does not exist, and locks the files of these names in it for this process: two servers
/// must not append to the same files. The lock is released when the result is dropped, or the process ends.
///
/// The lock is on a file of its own, because all others are replaced. It is a record lock, which children do not inherit:
/// a child that outlives a killed server does not keep the next from starting.
pub fn lock(names: &Names) -> Result<File, FileError> {
    match names.world.create_directory(&names.directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("Can't open or create append-only dir", &names.directory)(error)),
    }
    // Also if it existed: a killed process may have created it without syncing.
    file::sync_directory_of(&names.world, &names.directory)?;
    let path = names.path(&names.with(".lock"));
    let file = names.world.open(&path, Open::Append).map_err(failed("Can't open or create", &path))?;
    let locked = file.lock();
    locked.map_err(failed("Another process uses the append-only file; it holds", &path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            world: World::default(),
            directory: PathBuf::from("appendonlydir"),
            file: b"append only.aof".to_vec(),
        }
    }

    #[test]
    fn a_manifest_comes_back_as_it_was_written() {
        let mut manifest = Manifest::default();
        manifest.next_base(&names(), true);
        manifest.next_increment(&names());
        manifest.next_increment(&names());
        let text = manifest.to_text();
        assert!(text.starts_with(b"file \"append only.aof.1.base.rdb\" seq 1 type b\n"));
        assert_eq!(Manifest::parse(&text).unwrap(), manifest);
        manifest.retire_increments(1);
        assert_eq!(manifest.next_base(&names(), false), b"append only.aof.2.base.aof");
        assert_eq!(manifest.history.len(), 2);
        let read = Manifest::parse(&manifest.to_text()).unwrap();
        assert_eq!((read.base, read.increments), (manifest.base, manifest.increments));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "\n",
            "file a seq 1 type b",
            "file a seq 1\n",
            "file a/b seq 1 type b\n",
            "file a seq 0 type b\n",
            "file a seq 1 type x\n",
            "file a seq 1 type b\nfile b seq 2 type b\n",
            "file a seq 2 type i\nfile b seq 2 type i\n",
        ] {
            assert!(Manifest::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let forward = "# a comment\nfile a seq 1 type b newkey newvalue\n";
        assert!(Manifest::parse(forward.as_bytes()).is_ok());
    }
}
