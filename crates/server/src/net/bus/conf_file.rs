//! The file nodes.conf: locked while this process runs, and replaced as a whole.
//!
//! ```text
//!  open    lock, check that the path still has this file, read
//!  save    write and lock "nodes.conf.tmp-<process>" -> fdatasync -> rename -> with `sync`: fsync of the directory
//! ```
//!
//! 1. The file that the path names is locked by this process, as other servers lock it (flock): two nodes with one file would
//!    be one node twice.
//! 2. After a crash at any instant the path names the last content that was saved with `sync`, or a later one, and never
//!    an empty file, which would start another node: a file system may put the new name on disk before the content.

use crate::sys::file::{DATA_MODE, directory_of, system_text};
use crate::sys::world::{Open, World};
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a file that was replaced between its opening and its locking is opened anew.
const ATTEMPTS_MAX: usize = 100;

/// The file, which stays locked until this is dropped.
pub struct ConfFile {
    world: World,
    path: PathBuf,
    temporary: PathBuf,
    /// Open for its lock alone.
    locked: Option<Locked>,
    /// The file before it. Another process may have opened it when it still had the name.
    _locked_before: Option<Locked>,
}

/// A locked file, of the standard library or of a [`World`].
type Locked = Box<dyn Send>;

impl fmt::Debug for ConfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfFile").field("path", &self.path).finish_non_exhaustive()
    }
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
        let locked = Some(Box::new(file) as Locked);
        Ok((ConfFile { locked, ..ConfFile::unlocked(World::default(), path) }, content))
    }

    /// The file of a world without other processes: it is not locked before the first save.
    pub fn unlocked(world: World, path: &Path) -> ConfFile {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".tmp-{}", world.process_id()));
        let temporary = PathBuf::from(temporary);
        ConfFile { world, path: path.to_owned(), temporary, locked: None, _locked_before: None }
    }

    /// Replaces the content. With `sync` it is on disk when this returns; without, a crash may leave the content before.
    /// On failure the file is unchanged, or new but perhaps not on disk.
    pub fn save(&mut self, text: &str, sync: bool) -> Result<(), SaveError> {
        let saved = self.replace(text, sync);
        if saved.is_err() {
            // Without effect if it has been renamed.
            let _ = self.world.remove(&self.temporary);
        }
        saved
    }

    fn replace(&mut self, text: &str, sync: bool) -> Result<(), SaveError> {
        let mut file = self.world.open(&self.temporary, Open::Create).map_err(Step::Open.failed())?;
        file.lock_whole().map_err(Step::Open.failed())?;
        file.write_all(text.as_bytes()).map_err(Step::Write.failed())?;
        file.sync_data().map_err(Step::Sync.failed())?;
        self.world.rename(&self.temporary, &self.path).map_err(Step::Rename.failed())?;
        self._locked_before = self.locked.replace(Box::new(file));
        if sync {
            let directory = directory_of(&self.path);
            self.world.sync_directory(directory).map_err(Step::SyncDirectory.failed())?;
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

#[cfg(test)]
mod tests;
