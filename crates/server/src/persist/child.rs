//! A child process that writes the data as it was when it was forked.
//!
//! Fork rather than a snapshot taken page by page in this process: nothing of the execution path knows of it, and the
//! stall is that of copying page tables. It tells its progress through a pipe, 24 bytes at a time:
//! `| keys written u64 | bytes sent to sockets u64 | bytes copied u64 |`, native byte order.

use crate::observe::log as server_log;
use crate::observe::persistence::ChildFigures;
use crate::sys::child::{self, Ended, Side};
use crate::sys::world::{Simulation, World};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a child writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Snapshot,
    /// The base of the append-only file.
    LogBase,
    /// What replicas are sent as it is written.
    Sync,
}

/// The end of a pipe that a child writes to for this process. Reading does not block.
pub struct ChildPipe(File);

impl Read for ChildPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl AsFd for ChildPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub struct Child {
    pub process: i32,
    pub purpose: Purpose,
    /// What it writes before it is renamed; removed if the child fails.
    pub temporary: PathBuf,
    pub fork_duration: Duration,
    /// What a child that writes for this process has written; the reader takes it.
    pub output: Option<ChildPipe>,
    world: World,
    /// None in a simulation.
    reports: Option<File>,
}

/// The child's way of telling how far it is.
pub struct Reporter {
    pipe: Option<File>,
    reported: Instant,
    /// Bytes that the child has sent itself.
    pub sent_bytes: u64,
}

impl Reporter {
    fn new(pipe: Option<File>) -> Self {
        Reporter { pipe, reported: Instant::now(), sent_bytes: 0 }
    }
}

/// Written by a child ahead of who reads it.
const OUTPUT_PIPE_BYTES: usize = 1 << 20;
const REPORT_BYTES: usize = 24;
const REPORT_PERIOD: Duration = Duration::from_secs(1);

impl Reporter {
    /// Tells now and then.
    pub fn progress(&mut self, keys: u64) {
        if self.reported.elapsed() >= REPORT_PERIOD {
            self.tell(keys);
        }
    }

    pub fn tell(&mut self, keys: u64) {
        self.reported = Instant::now();
        let Some(pipe) = &mut self.pipe else { return };
        let report = [keys, self.sent_bytes, copied_bytes()].map(u64::to_ne_bytes).concat();
        // A parent that does not read, or is gone, misses only figures.
        let _ = pipe.write_all(&report);
    }
}

/// Memory that this process does not share with its parent any more.
fn copied_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

impl Child {
    /// Runs `work` in a child; it answers whether all went well. `temporary` makes the file's name of the child's
    /// process number.
    pub fn start(
        world: &World,
        purpose: Purpose,
        temporary: impl Fn(u32) -> PathBuf,
        work: impl FnOnce(&mut Reporter, PathBuf) -> bool,
    ) -> io::Result<Child> {
        if let World::Simulated(simulation) = world {
            return Child::simulate(simulation, purpose, temporary, work);
        }
        Child::fork(world, purpose, &[], temporary, work)
    }

    /// As [`Child::start`], of a child that writes to sockets of this process, the files of which it keeps.
    pub fn start_sending(
        world: &World,
        sockets: &[RawFd],
        work: impl FnOnce(&mut Reporter) -> bool,
    ) -> io::Result<Child> {
        if matches!(world, World::Simulated(_)) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Child::fork(world, Purpose::Sync, sockets, |_| PathBuf::new(), |reporter, _| work(reporter))
    }

    /// As [`Child::start`], of a child that writes to this process and to no file.
    pub fn start_streaming(
        world: &World,
        work: impl FnOnce(&mut Reporter, File) -> bool,
    ) -> io::Result<Child> {
        if matches!(world, World::Simulated(_)) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        // A system that allows no more does with less.
        let _ = rustix::pipe::fcntl_setpipe_size(&reader, OUTPUT_PIPE_BYTES);
        let (output, no_file) = (File::from(writer), |_| PathBuf::new());
        // Moved into the child's work, nothing of it stays here.
        let mut child = Child::fork(world, Purpose::Sync, &[output.as_raw_fd()], no_file, |reporter, _| {
            work(reporter, output)
        })?;
        child.output = Some(ChildPipe(File::from(reader)));
        Ok(child)
    }

    /// `outputs` are files that the child writes to.
    fn fork(
        world: &World,
        purpose: Purpose,
        outputs: &[RawFd],
        temporary: impl Fn(u32) -> PathBuf,
        work: impl FnOnce(&mut Reporter, PathBuf) -> bool,
    ) -> io::Result<Child> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (reports, pipe) = (File::from(reader), File::from(writer));
        let started = Instant::now();
        let log = server_log::file_descriptor();
        let kept: Vec<RawFd> =
            log.into_iter().chain([pipe.as_raw_fd()]).chain(outputs.iter().copied()).collect();
        match child::fork(&kept)? {
            Side::Parent { child: process } => Ok(Child {
                process,
                purpose,
                temporary: world.absolute(&temporary(process.unsigned_abs())),
                fork_duration: started.elapsed(),
                output: None,
                world: world.clone(),
                reports: Some(reports),
            }),
            Side::Child => {
                server_log::become_child();
                let mut reporter = Reporter::new(Some(pipe));
                let done = work(&mut reporter, temporary(std::process::id()));
                child::exit(i32::from(!done))
            }
        }
    }

    /// Does the child's work at the instant of the fork; the simulation lets it take effect later.
    fn simulate(
        simulation: &Arc<dyn Simulation>,
        purpose: Purpose,
        temporary: impl Fn(u32) -> PathBuf,
        work: impl FnOnce(&mut Reporter, PathBuf) -> bool,
    ) -> io::Result<Child> {
        let process = simulation.fork()?;
        let temporary = temporary(process.unsigned_abs());
        let done = work(&mut Reporter::new(None), temporary.clone());
        simulation.child_done(process, done);
        let world = World::Simulated(Arc::clone(simulation));
        Ok(Child {
            process,
            purpose,
            temporary,
            fork_duration: Duration::ZERO,
            output: None,
            world,
            reports: None,
        })
    }

    /// Reads what the child has reported.
    pub fn read_reports(&mut self, figures: &mut ChildFigures) {
        let Some(reports) = &mut self.reports else { return };
        let mut report = [0; REPORT_BYTES];
        while matches!(reports.read(&mut report), Ok(REPORT_BYTES)) {
            let number = |at: usize| {
                u64::from_ne_bytes(report[at..at + 8].try_into().expect("eight bytes are a number"))
            };
            (figures.keys_processed, figures.sent_bytes) = (number(0), number(8));
            figures.copied_bytes = number(16);
            figures.copied_bytes_peak = figures.copied_bytes_peak.max(figures.copied_bytes);
        }
    }

    /// How it ended, if it has.
    pub fn poll(&self) -> Option<Ended> {
        self.world.poll(self.process).unwrap_or_else(|error| {
            log::warn!("Waiting for child process {}: {error}", self.process);
            Some(Ended::Exited(1))
        })
    }

    pub fn cancel(&self) {
        self.world.cancel(self.process);
    }

    /// Ends the child and waits for that; nothing is left of what it wrote.
    pub fn end(self) {
        self.cancel();
        if let Err(error) = self.world.join(self.process) {
            log::warn!("Waiting for child process {}: {error}", self.process);
        }
        self.remove_temporary();
    }

    pub fn remove_temporary(&self) {
        match self.world.remove(&self.temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("Removing {}: {error}", self.temporary.display()),
        }
    }
}
