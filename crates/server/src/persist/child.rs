//! A child process that writes the data as of the fork.
//!
//! Fork instead of a snapshot taken page by page in this process: the execution path needs no code for it, and the only
//! stall is copying page tables. The child reports its progress through a pipe, in records of 24 bytes: `| keys written
//! u64 | bytes sent to sockets u64 | bytes copied u64 |`, native byte order.

use crate::observe::log as server_log;
use crate::observe::persistence::ChildFigures;
use crate::sys::child::Ended;
use crate::sys::world::World;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a child writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A snapshot.
    Snapshot,
    /// The base of the append-only file.
    LogBase,
    /// A snapshot streamed to replicas.
    Sync,
    /// The keys of some slots, streamed to another node of the cluster.
    SlotExport,
}

/// Result of a child's work. Its number is the child's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has succeeded.
    Written = 0,
    /// It has failed.
    Failed = 1,
    /// A value has no representation in the version of the format.
    Unrepresentable = 2,
}

impl Outcome {
    /// The code with which a child exits that had this outcome.
    pub const fn exit_code(self) -> i32 {
        self as i32
    }
}

/// The reading end of a pipe from a child. Reading does not block.
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

/// A running child.
pub struct Child {
    /// Process id.
    pub process: i32,
    /// What it writes.
    pub purpose: Purpose,
    /// Its output file before it is renamed; removed if the child fails.
    pub temporary: PathBuf,
    /// Duration of the fork.
    pub fork_duration: Duration,
    /// Output of a streaming child; taken by the reader.
    pub output: Option<ChildPipe>,
    world: World,
    /// `None` if its work was done at the fork.
    reports: Option<File>,
}

/// The child's progress reports.
pub struct Reporter {
    pipe: Option<File>,
    reported: Instant,
    /// Bytes sent by the child itself.
    pub sent_bytes: u64,
}

impl Reporter {
    fn new(pipe: Option<File>) -> Self {
        Reporter { pipe, reported: Instant::now(), sent_bytes: 0 }
    }
}

/// Size of the output pipe: how far the child may write ahead of the reader.
const OUTPUT_PIPE_BYTES: usize = 1 << 20;
const REPORT_BYTES: usize = 24;
const REPORT_PERIOD: Duration = Duration::from_secs(1);

impl Reporter {
    /// Reports periodically.
    pub fn progress(&mut self, keys: u64) {
        if self.reported.elapsed() >= REPORT_PERIOD {
            self.report(keys);
        }
    }

    /// Reports now.
    pub fn report(&mut self, keys: u64) {
        self.reported = Instant::now();
        let Some(pipe) = &mut self.pipe else { return };
        let report = [keys, self.sent_bytes, copied_bytes()].map(u64::to_ne_bytes).concat();
        // A failed write loses only figures.
        let _ = pipe.write_all(&report);
    }
}

/// Memory that this process no longer shares with its parent.
fn copied_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The reading and the writing end of a pipe for reports. Neither blocks.
fn report_pipe() -> io::Result<(File, File)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((File::from(reader), File::from(writer)))
}

/// The reading and the writing end of a child's output. Reading does not block.
fn output_pipe() -> io::Result<(File, File)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    // A smaller pipe works too.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, OUTPUT_PIPE_BYTES);
    Ok((File::from(reader), File::from(writer)))
}

/// As [`output_pipe`], where the child has written all of its output before any of it is read.
fn output_in_memory() -> io::Result<(File, File)> {
    let output = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
    let writer = output.try_clone()?;
    Ok((output, writer))
}

impl Child {
    /// Runs `work` in a child; it returns whether it succeeded. `temporary` derives the file's name from the child's
    /// process number.
    pub fn start(
        world: &World,
        purpose: Purpose,
        temporary: impl Fn(u32) -> PathBuf,
        work: impl FnOnce(&mut Reporter, PathBuf) -> bool,
    ) -> io::Result<Child> {
        Child::fork(world, purpose, &[], temporary, |reporter, temporary| match work(reporter, temporary) {
            true => Outcome::Written,
            false => Outcome::Failed,
        })
    }

    /// As [`Child::start`], for a child that writes to sockets of this process, whose files it keeps open.
    pub fn start_sending(
        world: &World,
        sockets: &[RawFd],
        work: impl FnOnce(&mut Reporter) -> Outcome,
    ) -> io::Result<Child> {
        Child::fork(world, Purpose::Sync, sockets, |_| PathBuf::new(), |reporter, _| work(reporter))
    }

    /// As [`Child::start`], for a child that writes to this process and not to a file.
    pub fn start_streaming(
        world: &World,
        purpose: Purpose,
        work: impl FnOnce(&mut Reporter, File) -> Outcome,
    ) -> io::Result<Child> {
        let has_processes = world.has_processes();
        let (mut reader, output) = if has_processes { output_pipe()? } else { output_in_memory()? };
        let (file, no_file) = (output.as_raw_fd(), |_| PathBuf::new());
        // Moved into the child's work, so that this process keeps no copy.
        let mut child = Child::fork(world, purpose, &[file], no_file, |reporter, _| work(reporter, output))?;
        if !has_processes {
            reader.rewind()?;
        }
        child.output = Some(ChildPipe(reader));
        Ok(child)
    }

    /// `outputs` are files that the child writes to.
    fn fork(
        world: &World,
        purpose: Purpose,
        outputs: &[RawFd],
        temporary: impl Fn(u32) -> PathBuf,
        work: impl FnOnce(&mut Reporter, PathBuf) -> Outcome,
    ) -> io::Result<Child> {
        let (reports, pipe) = world.has_processes().then(report_pipe).transpose()?.unzip();
        let own = server_log::file_descriptor().into_iter().chain(pipe.iter().map(AsRawFd::as_raw_fd));
        let kept: Vec<RawFd> = own.chain(outputs.iter().copied()).collect();
        let mut once = Some((work, pipe));
        let forked = world.fork(&kept, &mut |process| {
            let (work, pipe) = once.take().expect("a child works once");
            if world.has_processes() {
                server_log::become_child();
            }
            work(&mut Reporter::new(pipe), temporary(process)).exit_code()
        })?;
        Ok(Child {
            process: forked.child,
            purpose,
            temporary: world.absolute(&temporary(forked.child.unsigned_abs())),
            fork_duration: forked.duration,
            output: None,
            world: world.clone(),
            reports,
        })
    }

    /// Reads the child's reports.
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

    /// How it ended; `None` while it runs.
    pub fn poll(&self) -> Option<Ended> {
        self.world.poll(self.process).unwrap_or_else(|error| {
            log::warn!("Cannot wait for child process {}: {error}", self.process);
            Some(Ended::Exited(1))
        })
    }

    /// Asks the child to end.
    pub fn cancel(&self) {
        self.world.cancel(self.process);
    }

    /// Ends the child, waits for it, and removes its output.
    pub fn end(self) {
        self.cancel();
        if let Err(error) = self.world.join(self.process) {
            log::warn!("Cannot wait for child process {}: {error}", self.process);
        }
        self.remove_temporary();
    }

    /// Removes the child's temporary file.
    pub fn remove_temporary(&self) {
        match self.world.remove(&self.temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("Cannot remove {}: {error}", self.temporary.display()),
        }
    }
}
