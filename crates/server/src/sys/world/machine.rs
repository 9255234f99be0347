//! The operating system of this machine: Linux.

use super::super::child::{self, Ended, Side};
use super::super::file::{DATA_MODE, DIRECTORY_MODE, SECRET_MODE};
use super::{File, Forked, Job, Open, OpenFile, OperatingSystem, Worker};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a caller sleeps that waits for a thread's jobs.
const WORKER_POLL: Duration = Duration::from_millis(1);

/// This machine.
pub struct Machine;

impl OperatingSystem for Machine {
    fn open(&self, path: &Path, purpose: Open) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        match purpose {
            Open::Read => options.read(true),
            Open::Create => options.write(true).create(true).truncate(true).mode(DATA_MODE),
            Open::CreateNew => options.write(true).create_new(true).mode(SECRET_MODE),
            Open::Append => options.append(true).create(true).mode(DATA_MODE),
            Open::Cut => options.write(true),
        };
        options.open(path).map(File::of)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    fn resolved(&self, path: &Path) -> PathBuf {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }

    fn take_permissions(&self, path: &Path, of: &Path) -> io::Result<()> {
        match fs::metadata(of) {
            Ok(metadata) => fs::set_permissions(path, metadata.permissions()),
            Err(_) => Ok(()),
        }
    }

    fn len_of(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path).and_then(|directory| directory.sync_all())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(fs::read_dir(".")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    fn close_in_background(&self, files: Vec<File>) -> io::Result<()> {
        thread::Builder::new().name("remove".into()).spawn(move || drop(files)).map(drop)
    }

    fn start_worker(&self, name: &str) -> io::Result<Box<dyn Worker>> {
        let (jobs, receiver) = channel::<Job>();
        thread::Builder::new().name(name.into()).spawn(move || receiver.into_iter().for_each(|job| job()))?;
        Ok(Box::new(Thread { jobs }))
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }

    fn process_exists(&self, process: u32) -> bool {
        Path::new("/proc").join(process.to_string()).exists()
    }

    fn has_processes(&self) -> bool {
        true
    }

    fn fork(&self, kept: &[RawFd], work: &mut dyn FnMut(u32) -> i32) -> io::Result<Forked> {
        let started = Instant::now();
        match child::fork(kept)? {
            Side::Parent { child } => Ok(Forked { child, duration: started.elapsed() }),
            Side::Child => child::exit(work(std::process::id())),
        }
    }

    fn poll(&self, child: i32) -> io::Result<Option<Ended>> {
        child::poll(child)
    }

    fn cancel(&self, child: i32) {
        child::cancel(child);
    }

    fn join(&self, child: i32) -> io::Result<Option<Ended>> {
        child::join(child)
    }

    fn exit(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}

impl OpenFile for fs::File {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        fs::File::set_len(self, len)
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        fs::File::sync_all(self)
    }

    fn start_writeback(&self, start: u64, len: u64) {
        child::start_writeback(self.as_raw_fd(), start, len);
    }

    fn rewind(&mut self) -> io::Result<()> {
        io::Seek::rewind(self)
    }

    fn lock(&self) -> io::Result<()> {
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::fcntl_lock(self, exclusive).map_err(io::Error::from)
    }

    fn lock_whole(&self) -> io::Result<()> {
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(self, exclusive).map_err(io::Error::from)
    }
}

/// A thread of its own.
struct Thread {
    jobs: Sender<Job>,
}

impl Worker for Thread {
    fn submit(&mut self, job: Job) {
        if self.jobs.send(job).is_err() {
            unreachable!("the thread lives as long as the sender");
        }
    }

    fn wait(&self) {
        thread::sleep(WORKER_POLL);
    }
}
