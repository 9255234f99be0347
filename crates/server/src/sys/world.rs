//! The outside world of persistence: files, child processes, and the end of this process. It is the real machine, or a
//! simulation for tests, in which every call can fail and the power can fail at any call.
//!
//! This is not on a command's hot path: the log is written once for all pending commands. The cost is that of the system
//! call.

use super::child::{self, Ended};
use super::file::{DATA_MODE, DIRECTORY_MODE, SECRET_MODE};
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A simulated world for tests. Files are known by numbers, one for each time they are opened.
///
/// Between [`Simulation::fork`] and [`Simulation::child_done`] all calls are a child's, whose effects the simulation may
/// delay, or drop.
pub trait Simulation: Send + Sync {
    /// Opens a file; returns its number.
    fn open(&self, path: &Path, purpose: Open) -> io::Result<u64>;
    /// Closes a file.
    fn close(&self, file: u64);
    /// Reads at the offset `at`; returns the number of bytes.
    fn read(&self, file: u64, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes at the offset `at`, or at the end of a file opened to append.
    fn write(&self, file: u64, at: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Changes a file's length.
    fn set_len(&self, file: u64, len: u64) -> io::Result<()>;
    /// Forces a file to disk.
    fn sync(&self, file: u64) -> io::Result<()>;
    /// An open file's length.
    fn len(&self, file: u64) -> io::Result<u64>;
    /// A file's length.
    fn len_of(&self, path: &Path) -> io::Result<u64>;
    /// Renames a file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Forces a directory's entries to disk.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Names of the files in the working directory.
    fn names(&self) -> io::Result<Vec<String>>;
    /// This process's number.
    fn process_id(&self) -> u32;
    /// Whether a process of this number exists.
    fn process_exists(&self, process: u32) -> bool;
    /// Starts a child; returns its number.
    fn fork(&self) -> io::Result<i32>;
    /// Ends the work of a child.
    fn child_done(&self, child: i32, succeeded: bool);
    /// How a child ended; `None` while it runs.
    fn poll(&self, child: i32) -> io::Result<Option<Ended>>;
    /// Asks a child to end.
    fn cancel(&self, child: i32);
    /// Whether the requests to other threads are done by now, one at a time.
    fn is_background_done(&self) -> bool;
    /// Waits until they are done.
    fn wait_for_background(&self);
    /// Ends the process.
    fn exit(&self, code: i32) -> !;
}

/// The real machine or a simulation.
#[derive(Clone, Default)]
pub enum World {
    #[default]
    Machine,
    Simulated(Arc<dyn Simulation>),
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            World::Machine => "Machine",
            World::Simulated(_) => "Simulated",
        })
    }
}

/// An open file.
pub struct File(Kind);

enum Kind {
    Machine(fs::File),
    Simulated(SimulatedFile),
}

struct SimulatedFile {
    world: Arc<dyn Simulation>,
    number: u64,
    position: AtomicU64,
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.world.close(self.number);
    }
}

impl World {
    /// Opens a file.
    pub fn open(&self, path: &Path, purpose: Open) -> io::Result<File> {
        match self {
            World::Machine => open_here(path, purpose).map(|file| File(Kind::Machine(file))),
            World::Simulated(world) => world.open(path, purpose).map(|number| {
                File(Kind::Simulated(SimulatedFile {
                    world: Arc::clone(world),
                    number,
                    position: AtomicU64::new(0),
                }))
            }),
        }
    }

    /// The absolute path, independent of the working directory.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        match self {
            World::Machine => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            // Its working directory does not change.
            World::Simulated(_) => path.to_owned(),
        }
    }

    /// The path's target, if it is a link.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        match self {
            World::Machine => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            World::Simulated(_) => path.to_owned(),
        }
    }

    /// Copies the permissions of `of` to `path`, if `of` exists.
    pub fn take_permissions(&self, path: &Path, of: &Path) -> io::Result<()> {
        match (self, fs::metadata(of)) {
            (World::Machine, Ok(metadata)) => fs::set_permissions(path, metadata.permissions()),
            _ => Ok(()),
        }
    }

    /// Reads a whole file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path, Open::Read)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Length of a file.
    pub fn len_of(&self, path: &Path) -> io::Result<u64> {
        match self {
            World::Machine => fs::metadata(path).map(|metadata| metadata.len()),
            World::Simulated(world) => world.len_of(path),
        }
    }

    /// Whether a file exists.
    pub fn exists(&self, path: &Path) -> bool {
        self.len_of(path).is_ok()
    }

    /// Renames a file.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            World::Machine => fs::rename(from, to),
            World::Simulated(world) => world.rename(from, to),
        }
    }

    /// Removes a file.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match self {
            World::Machine => fs::remove_file(path),
            World::Simulated(world) => world.remove(path),
        }
    }

    /// Creates a directory.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        match self {
            World::Machine => fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path),
            World::Simulated(world) => world.create_directory(path),
        }
    }

    /// Forces a directory's entries to disk.
    pub fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match self {
            World::Machine => fs::File::open(path).and_then(|directory| directory.sync_all()),
            World::Simulated(world) => world.sync_directory(path),
        }
    }

    /// Names of the files in the working directory, without those that are not UTF-8.
    pub fn names(&self) -> io::Result<Vec<String>> {
        match self {
            World::Machine => Ok(fs::read_dir(".")?
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect()),
            World::Simulated(world) => world.names(),
        }
    }

    /// Removes files. Their names are free at once; their space, which can take a while to free, is freed on a thread of
    /// its own.
    pub fn remove_in_background(&self, paths: Vec<PathBuf>) -> io::Result<()> {
        let mut held = Vec::new();
        for path in paths {
            // A file that cannot be opened is freed here.
            held.extend(self.open(&path, Open::Read).ok());
            if let Err(error) = self.remove(&path) {
                log::warn!("Removing {}: {error}", path.display());
            }
        }
        match self {
            World::Machine => {
                std::thread::Builder::new().name("remove".into()).spawn(move || drop(held)).map(drop)
            }
            World::Simulated(_) => Ok(()),
        }
    }

    /// Locks an open file for this process until it is closed. Children do not inherit the lock.
    pub fn lock(&self, file: &File) -> io::Result<()> {
        match &file.0 {
            Kind::Machine(file) => {
                let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
                rustix::fs::fcntl_lock(file, exclusive).map_err(io::Error::from)
            }
            // A simulated world has no other process.
            Kind::Simulated(_) => Ok(()),
        }
    }

    /// This process's number.
    pub fn process_id(&self) -> u32 {
        match self {
            World::Machine => std::process::id(),
            World::Simulated(world) => world.process_id(),
        }
    }

    /// Whether a process of this number exists.
    pub fn process_exists(&self, process: u32) -> bool {
        match self {
            World::Machine => Path::new("/proc").join(process.to_string()).exists(),
            World::Simulated(world) => world.process_exists(process),
        }
    }

    /// How a child ended; `None` while it runs.
    pub fn poll(&self, child: i32) -> io::Result<Option<Ended>> {
        match self {
            World::Machine => child::poll(child),
            World::Simulated(world) => world.poll(child),
        }
    }

    /// Asks a child to end.
    pub fn cancel(&self, child: i32) {
        match self {
            World::Machine => child::cancel(child),
            World::Simulated(world) => world.cancel(child),
        }
    }

    /// Waits until a cancelled child has ended.
    pub fn join(&self, child: i32) -> io::Result<Option<Ended>> {
        match self {
            World::Machine => child::join(child),
            World::Simulated(world) => world.poll(child),
        }
    }

    /// Ends the process.
    pub fn exit(&self, code: i32) -> ! {
        match self {
            World::Machine => std::process::exit(code),
            World::Simulated(world) => world.exit(code),
        }
    }
}

fn open_here(path: &Path, purpose: Open) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    match purpose {
        Open::Read => options.read(true),
        Open::Create => options.write(true).create(true).truncate(true).mode(DATA_MODE),
        Open::CreateNew => options.write(true).create_new(true).mode(SECRET_MODE),
        Open::Append => options.append(true).create(true).mode(DATA_MODE),
        Open::Cut => options.write(true),
    };
    options.open(path)
}

impl File {
    /// Writes some of the bytes; returns how many.
    pub fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Kind::Machine(file) => (&*file).write(bytes),
            Kind::Simulated(file) => {
                let at = file.position.load(Ordering::Relaxed);
                let written = file.world.write(file.number, at, bytes)?;
                file.position.store(at + written as u64, Ordering::Relaxed);
                Ok(written)
            }
        }
    }

    /// Changes the file's length.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.0 {
            Kind::Machine(file) => file.set_len(len),
            Kind::Simulated(file) => file.world.set_len(file.number, len),
        }
    }

    /// The file's length.
    pub fn len(&self) -> io::Result<u64> {
        match &self.0 {
            Kind::Machine(file) => file.metadata().map(|metadata| metadata.len()),
            Kind::Simulated(file) => file.world.len(file.number),
        }
    }

    /// Forces the file to disk, with its length.
    pub fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Machine(file) => file.sync_data(),
            Kind::Simulated(file) => file.world.sync(file.number),
        }
    }

    /// As [`File::sync_data`], with all metadata.
    pub fn sync_all(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Machine(file) => file.sync_all(),
            Kind::Simulated(file) => file.world.sync(file.number),
        }
    }

    /// Starts writing this part to disk, without waiting for it.
    pub fn start_writeback(&self, start: u64, len: u64) {
        if let Kind::Machine(file) = &self.0 {
            child::start_writeback(file.as_raw_fd(), start, len);
        }
    }

    /// Moves the reading position to the start.
    pub fn rewind(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Machine(file) => io::Seek::rewind(file),
            Kind::Simulated(file) => {
                *file.position.get_mut() = 0;
                Ok(())
            }
        }
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Machine(file) => file.read(buffer),
            Kind::Simulated(file) => {
                let position = file.position.get_mut();
                let read = file.world.read(file.number, *position, buffer)?;
                *position += read as u64;
                Ok(read)
            }
        }
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
