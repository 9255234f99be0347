//! The file nodes.conf: locked while this process runs, and replaced as a whole.
//!
//! ```text
//!  open    lock, check that the path still has this file, read
//!  save    write and lock "nodes.conf.tmp-<process>" -> fsync -> rename -> fsync of the directory
//! ```
//!
//! 1. The file that the path names is locked by this process, as other servers lock it (flock): two nodes with one file would
//!    be one node twice.
//! 2. After a crash at any instant the path names the last content that was saved with `sync`, or a later one.

use crate::sys::file::{DATA_MODE, system_text};
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a file that was replaced between its opening and its locking is opened anew.
const ATTEMPTS_MAX: usize = 100;

/// The file, which stays locked until this is dropped.
#[derive(Debug)]
pub struct ConfFile {
    path: PathBuf,
    temporary: PathBuf,
    locked: File,
    /// The file before it. Another process may have opened it when it still had the name.
    _locked_before: Option<File>,
}

/// Why the file cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has locked it.
    Used(PathBuf),
    /// It cannot be opened or locked.
    Lock(PathBuf, io::Error),
    /// It cannot be read.
    Read(PathBuf, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Used(path) => write!(
                f,
                "Sorry, the cluster configuration file {} is already used by a different Cluster node. Please make \
                 sure that different nodes use different cluster configuration files.",
                path.display()
            ),
            OpenError::Lock(path, error) => {
                write!(f, "Can't open {} in order to acquire a lock: {}", path.display(), system_text(error))
            }
            OpenError::Read(path, error) => {
                write!(f, "Loading the cluster node config from {}: {}", path.display(), system_text(error))
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// A file that could not be replaced, at the step that failed.
#[derive(Debug)]
pub struct SaveError {
    step: Step,
    source: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Open,
    Write,
    Sync,
    Rename,
    SyncDirectory,
}

impl Step {
    fn failed(self) -> impl Fn(io::Error) -> SaveError {
        move |source| SaveError { step: self, source }
    }
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            Step::Open => "open temp cluster config file",
            Step::Write => "write tmp cluster config file",
            Step::Sync => "sync tmp cluster config file",
            Step::Rename => "rename tmp cluster config file",
            Step::SyncDirectory => "sync cluster config file dir",
        };
        write!(f, "Could not {step}: {}", system_text(&self.source))
    }
}

impl std::error::Error for SaveError {}

impl ConfFile {
    /// Locks the file, which is created empty if there is none, and reads it.
    pub fn open(path: &Path) -> Result<(ConfFile, Vec<u8>), OpenError> {
        let mut file = lock(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(|error| OpenError::Read(path.to_owned(), error))?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".tmp-{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        Ok((ConfFile { path: path.to_owned(), temporary, locked: file, _locked_before: None }, content))
    }

    /// Replaces the content. With `sync` it is on disk when this returns. On failure the file is unchanged, or new but
    /// perhaps not on disk.
    pub fn save(&mut self, text: &str, sync: bool) -> Result<(), SaveError> {
        let saved = self.replace(text, sync);
        if saved.is_err() {
            // Without effect if it has been renamed.
            let _ = std::fs::remove_file(&self.temporary);
        }
        saved
    }

    fn replace(&mut self, text: &str, sync: bool) -> Result<(), SaveError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(DATA_MODE);
        let mut file = options.open(&self.temporary).map_err(Step::Open.failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Step::Open.failed()(io::ErrorKind::WouldBlock.into()));
            }
            Err(TryLockError::Error(error)) => return Err(Step::Open.failed()(error)),
        }
        file.write_all(text.as_bytes()).map_err(Step::Write.failed())?;
        if sync {
            file.sync_all().map_err(Step::Sync.failed())?;
        }
        std::fs::rename(&self.temporary, &self.path).map_err(Step::Rename.failed())?;
        self._locked_before = Some(std::mem::replace(&mut self.locked, file));
        if sync {
            sync_directory_of(&self.path).map_err(Step::SyncDirectory.failed())?;
        }
        Ok(())
    }
}

/// Opens and locks the file that the path names.
fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |error| OpenError::Lock(path.to_owned(), error);
    for _ in 0..ATTEMPTS_MAX {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(DATA_MODE);
        let file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Used(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Its owner may have put another in its place before the lock was free.
        let own = file.metadata().map_err(failed)?;
        let is_same = |other: std::fs::Metadata| (own.dev(), own.ino()) == (other.dev(), other.ino());
        if std::fs::metadata(path).is_ok_and(is_same) {
            return Ok(file);
        }
    }
    Err(OpenError::Used(path.to_owned()))
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
