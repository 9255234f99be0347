//! What persistence asks of the operating system: files, child processes, and the end of this process. [`OperatingSystem`]
//! has two implementations: [`machine::Machine`] asks the kernel; tests have a simulation, in which every call can fail and
//! the power can fail at any call. A function with a default is one that a simulation need not have.
//!
//! This is not on a command's hot path: the log is written once for all pending commands, and each call is a system call.

mod machine;

use super::child::Ended;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Purpose of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file.
    Read,
    /// Created if it does not exist, and truncated if it does.
    Create,
    /// A file that must not exist; only its owner may read it until its permissions are changed.
    CreateNew,
    /// Created if it does not exist; every write goes to its end.
    Append,
    /// An existing file whose length will be changed.
    Cut,
}

/// A child process that was started.
#[derive(Clone, Copy, Debug)]
pub struct Forked {
    /// The child's process number.
    pub child: i32,
    /// How long this process was stopped for it.
    pub duration: Duration,
}

/// Files, child processes, and the end of this process.
pub trait OperatingSystem: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, purpose: Open) -> io::Result<File>;

    /// The absolute path, independent of the working directory. The path itself if that does not change.
    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// The path's target, if it is a link.
    fn resolved(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// Copies the permissions of `of` to `path`, if `of` exists and files have permissions.
    fn take_permissions(&self, _path: &Path, _of: &Path) -> io::Result<()> {
        Ok(())
    }

    /// A file's length in bytes.
    fn len_of(&self, path: &Path) -> io::Result<u64>;

    /// Renames a file; replaces the file `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory; an error if it exists.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Forces a directory's entries to disk.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Names of the files in the working directory, without those that are not UTF-8.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Closes files without waiting for it: the space of a removed file, which can take a while to free, is freed when its
    /// last user closes it.
    fn close_in_background(&self, _files: Vec<File>) -> io::Result<()> {
        Ok(())
    }

    /// Starts a thread, and returns the caller's end of it.
    fn start_worker(&self, name: &str) -> io::Result<Box<dyn Worker>>;

    /// This process's number.
    fn process_id(&self) -> u32;

    /// Whether a process of this number exists.
    fn process_exists(&self, process: u32) -> bool;

    /// Whether a child is a process of its own, with pipes and sockets of this one, that runs beside it. Otherwise its work
    /// is done when [`OperatingSystem::fork`] returns, and only its effects may come later.
    fn has_processes(&self) -> bool {
        false
    }

    /// Runs `work` in a child that has a copy of this process's memory and of its files only `kept` and the standard
    /// streams (see [`super::child::fork`] for what it must not touch). `work` is called once, with the child's process
    /// number, and returns its exit code.
    fn fork(&self, kept: &[RawFd], work: &mut dyn FnMut(u32) -> i32) -> io::Result<Forked>;

    /// How a child ended; `None` while it runs.
    fn poll(&self, child: i32) -> io::Result<Option<Ended>>;

    /// Asks a child to end.
    fn cancel(&self, child: i32);

    /// Waits until a cancelled child has ended.
    fn join(&self, child: i32) -> io::Result<Option<Ended>> {
        self.poll(child)
    }

    /// Ends the process.
    fn exit(&self, code: i32) -> !;

    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path, Open::Read)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether a file exists.
    fn exists(&self, path: &Path) -> bool {
        self.len_of(path).is_ok()
    }

    /// Removes files. Their names are free at once, their space when [`OperatingSystem::close_in_background`] is done.
    fn remove_in_background(&self, paths: Vec<PathBuf>) -> io::Result<()> {
        let mut held = Vec::new();
        for path in paths {
            // A file that cannot be opened is freed here.
            held.extend(self.open(&path, Open::Read).ok());
            if let Err(error) = self.remove(&path) {
                log::warn!("Removing {}: {error}", path.display());
            }
        }
        self.close_in_background(held)
    }
}

/// An open file. Its reading and writing position is its own.
pub trait OpenFile: Read + Send + Sync {
    /// Writes some of the bytes; returns how many.
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Changes the file's length, in bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Forces the file to disk, with its length.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`OpenFile::sync_data`], with all metadata.
    fn sync_all(&self) -> io::Result<()>;

    /// Starts writing `len` bytes from the offset `start` on to disk, without waiting for it.
    fn start_writeback(&self, _start: u64, _len: u64) {}

    /// Moves the position to the start.
    fn rewind(&mut self) -> io::Result<()>;

    /// Locks the file for this process until it is closed; an error if another has locked it. Children do not inherit the
    /// lock.
    fn lock(&self) -> io::Result<()> {
        Ok(())
    }

    /// As [`OpenFile::lock`], by flock: the lock is the open file's, so that opening and closing the path again keeps it.
    fn lock_whole(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Work for another thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// The caller's end of a thread that runs jobs in their order. The thread ends when this is dropped.
pub trait Worker: Send {
    /// Has the thread run a job after those before it.
    fn submit(&mut self, job: Job);

    /// Called before the caller looks at what jobs have done: a thread that is simulated runs those now that would be done.
    fn catch_up(&mut self) {}

    /// Waits a little for jobs to be done.
    fn wait(&self);
}

/// The operating system in use; by default that of this machine.
#[derive(Clone)]
pub struct World(Arc<dyn OperatingSystem>);

impl World {
    /// A world made of `system`.
    pub fn of<S: OperatingSystem + 'static>(system: Arc<S>) -> Self {
        World(system)
    }
}

impl Default for World {
    fn default() -> Self {
        World::of(Arc::new(machine::Machine))
    }
}

impl Deref for World {
    type Target = dyn OperatingSystem;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

/// An open file of whichever system; closed when dropped.
pub struct File(Box<dyn OpenFile>);

impl File {
    /// The file that a system has opened.
    pub fn of(file: impl OpenFile + 'static) -> Self {
        File(Box::new(file))
    }
}

impl Deref for File {
    type Target = dyn OpenFile;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for File {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_some(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
