//! A world with a disk whose power can go.
//!
//! Of each file two contents are kept: what a process reads (the page cache), and what is on disk, with the operations
//! since in order. Of each directory likewise: its entries, and which of the changes to them are on disk. A power cut
//! keeps a prefix of each file's operations, the last of them perhaps in part, perhaps with zeros up to the length that
//! the file had, and a prefix of each directory's changes. What fsync has returned for is kept; what it has failed for
//! may be gone for good, whatever a later fsync says.
//!
//! A child does all its work when it is forked. Its new files are visible at once, because the server does not read them; what it
//! renames and removes takes effect when it ends, some time later, or not at all if it is ended before.

use server::sys::child::{CANCEL, Ended};
use server::sys::world::{File, Forked, Job, Open, OpenFile, OperatingSystem, Worker};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::os::fd::RawFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use structures::random::Random;

/// How the process's end comes through all that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// What was not synced may be gone.
    PowerCut,
    /// What was written stays.
    Killed,
    Exited(i32),
}

/// What goes wrong, in calls of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    pub write: u64,
    pub sync: u64,
    pub cut: u64,
    /// Opening, renaming, removing, and what concerns directories.
    pub entry: u64,
    pub read: u64,
    pub fork: u64,
    /// Children that are killed.
    pub child: u64,
    /// So many bytes can still be written.
    pub room: Option<usize>,
    /// What waits for the disk takes [`SLOW_US`]: fsync, and all that changes a directory.
    pub slow: u64,
}

/// A call that the server has waited for as long as a slow disk takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub call: &'static str,
    pub path: PathBuf,
}

enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

#[derive(Default)]
struct Inode {
    seen: Vec<u8>,
    on_disk: Vec<u8>,
    changes: Vec<Change>,
}

fn apply(bytes: &mut Vec<u8>, change: &Change, part: Option<usize>) {
    match change {
        Change::Write { at, bytes: written } => {
            let written = &written[..part.unwrap_or(written.len())];
            if bytes.len() < at + written.len() {
                bytes.resize(at + written.len(), 0);
            }
            bytes[*at..at + written.len()].copy_from_slice(written);
        }
        Change::Cut { len } => bytes.resize(*len, 0),
    }
}

impl Inode {
    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change, None);
        self.changes.push(change);
    }

    fn synced(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            apply(&mut self.on_disk, &change, None);
        }
    }

    fn cut_power(&mut self, random: &mut Random) {
        let kept = random.below(self.changes.len() as u64 + 1) as usize;
        for change in &self.changes[..kept] {
            apply(&mut self.on_disk, change, None);
        }
        if let Some(change @ Change::Write { bytes, .. }) = self.changes.get(kept) {
            apply(&mut self.on_disk, change, Some(random.below(bytes.len() as u64 + 1) as usize));
        }
        if random.below(4) == 0 && self.on_disk.len() < self.seen.len() && kept < self.changes.len() {
            // The file's new length was on disk before what stands there.
            self.on_disk.resize(self.seen.len(), 0);
        }
        self.changes.clear();
        self.seen = self.on_disk.clone();
    }
}

#[derive(Clone)]
enum Entry {
    Link(PathBuf, usize),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, usize),
    Directory(PathBuf),
}

impl Entry {
    /// The directory whose fsync brings it to disk.
    fn directory(&self) -> &Path {
        match self {
            Entry::Link(path, _)
            | Entry::Unlink(path)
            | Entry::Rename(_, path, _)
            | Entry::Directory(path) => parent(path),
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[derive(Clone, Default)]
struct Entries {
    files: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
}

impl Entries {
    fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Link(path, inode) => drop(self.files.insert(path.clone(), *inode)),
            Entry::Unlink(path) => drop(self.files.remove(path)),
            Entry::Rename(from, to, inode) => {
                if self.files.get(from) == Some(inode) {
                    self.files.remove(from);
                }
                self.files.insert(to.clone(), *inode);
            }
            Entry::Directory(path) => drop(self.directories.insert(path.clone())),
        }
    }
}

struct ChildProcess {
    number: i32,
    ends_us: u64,
    killed: bool,
    succeeded: bool,
    /// What takes effect when it ends; what is to be synced of it, by the directory.
    left: Vec<Effect>,
    ended: Option<Ended>,
}

enum Effect {
    Entry(Entry),
    Sync(PathBuf),
}

struct State {
    random: Random,
    weather: Weather,
    now_us: u64,
    inodes: Vec<Inode>,
    seen: Entries,
    on_disk: Entries,
    pending: Vec<Entry>,
    open: HashMap<u64, (usize, bool)>,
    /// What the files were opened by.
    paths: HashMap<u64, PathBuf>,
    files_opened: u64,
    child: Option<ChildProcess>,
    in_child: bool,
    processes: i32,
    background_since_us: Option<u64>,
    /// What is under way there takes so long.
    background_us_max: u64,
    /// The next fsync is one of another thread.
    in_background: bool,
    waits: Vec<Wait>,
    stalled_looks: u64,
    calls: u64,
    end_at_call: Option<(u64, End)>,
    ended: bool,
    figures: Figures,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub calls: u64,
    pub faults: u64,
    pub syncs: u64,
    pub forks: u64,
    /// An fsync of this disk has failed, and may have taken pages with it, since it was last asked.
    pub pages_lost: bool,
}

/// Shared by its files and workers.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

/// Other threads finish within this time.
pub const BACKGROUND_US_MAX: u64 = 300_000;
/// What a call takes on a slow disk.
pub const SLOW_US: u64 = 15_000_000;

fn failure(kind: i32) -> io::Error {
    io::Error::from_raw_os_error(kind)
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;

impl State {
    fn strikes(&mut self, of_a_thousand: u64) -> bool {
        let strikes = of_a_thousand > 0 && self.random.below(1000) < of_a_thousand;
        self.figures.faults += u64::from(strikes);
        strikes
    }

    fn fails(&mut self, of_a_thousand: u64) -> io::Result<()> {
        if self.strikes(of_a_thousand) { Err(failure(EIO)) } else { Ok(()) }
    }

    /// A call that takes long on a slow disk: the server waits for it, if neither a child nor another thread makes it.
    fn may_be_slow(&mut self, call: &'static str, path: &Path) {
        let slow = self.weather.slow;
        let elsewhere = std::mem::take(&mut self.in_background) || self.in_child;
        if !elsewhere && slow > 0 && self.random.below(1000) < slow {
            self.waits.push(Wait { call, path: path.to_owned() });
        }
    }

    fn entry(&mut self, entry: Entry) {
        self.seen.apply(&entry);
        self.pending.push(entry);
    }

    fn sync_directory(&mut self, path: &Path) {
        let (synced, pending) =
            std::mem::take(&mut self.pending).into_iter().partition(|entry| entry.directory() == path);
        let synced: Vec<Entry> = synced;
        self.pending = pending;
        synced.iter().for_each(|entry| self.on_disk.apply(entry));
    }

    fn inode_of(&self, path: &Path) -> io::Result<usize> {
        self.seen.files.get(path).copied().ok_or(ErrorKind::NotFound.into())
    }

    fn end_child_if_due(&mut self) {
        let now_us = self.now_us;
        let Some(child) =
            self.child.as_mut().filter(|child| child.ended.is_none() && child.ends_us <= now_us)
        else {
            return;
        };
        if child.killed {
            child.ended = Some(Ended::Killed { signal: 9 });
            return;
        }
        child.ended = Some(Ended::Exited(i32::from(!child.succeeded)));
        for effect in std::mem::take(&mut child.left) {
            match effect {
                Effect::Entry(entry) => self.entry(entry),
                Effect::Sync(path) => self.sync_directory(&path),
            }
        }
    }

    fn cut_power(&mut self) {
        let mut kept: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for entry in &self.pending {
            *kept.entry(entry.directory().to_owned()).or_default() += 1;
        }
        for count in kept.values_mut() {
            *count = self.random.below(*count as u64 + 1) as usize;
        }
        for entry in std::mem::take(&mut self.pending) {
            let left = kept.get_mut(entry.directory()).expect("each was counted");
            if *left > 0 {
                *left -= 1;
                self.on_disk.apply(&entry);
            }
        }
        let directories = self.on_disk.directories.clone();
        self.on_disk
            .files
            .retain(|path, _| parent(path) == Path::new(".") || directories.contains(parent(path)));
        self.seen = self.on_disk.clone();
        let random = &mut self.random;
        self.inodes.iter_mut().for_each(|inode| inode.cut_power(random));
    }
}

impl Disk {
    pub fn new(seed: u64) -> Self {
        Disk(Arc::new(Mutex::new(State {
            random: Random::new(seed),
            weather: Weather::default(),
            now_us: 0,
            inodes: Vec::new(),
            seen: Entries::default(),
            on_disk: Entries::default(),
            pending: Vec::new(),
            open: HashMap::new(),
            paths: HashMap::new(),
            files_opened: 0,
            child: None,
            in_child: false,
            processes: 100,
            background_since_us: None,
            background_us_max: BACKGROUND_US_MAX,
            in_background: false,
            waits: Vec::new(),
            stalled_looks: 0,
            calls: 0,
            end_at_call: None,
            ended: false,
            figures: Figures::default(),
        })))
    }

    /// Another disk, with the files that a process sees on this one now.
    #[allow(dead_code, reason = "the replay test copies disks")]
    pub fn copied(&self, seed: u64) -> Self {
        let disk = Disk::new(seed);
        let state = self.state();
        let mut copy = disk.state();
        copy.inodes.resize_with(state.inodes.len(), Inode::default);
        for &inode in state.seen.files.values() {
            let seen = &state.inodes[inode].seen;
            copy.inodes[inode] = Inode { seen: seen.clone(), on_disk: seen.clone(), changes: Vec::new() };
        }
        (copy.seen, copy.on_disk) = (state.seen.clone(), state.seen.clone());
        drop(copy);
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins: the process may have ended, or end with it.
    fn call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.ended {
            return Err(failure(EIO));
        }
        state.calls += 1;
        state.figures.calls += 1;
        match state.end_at_call {
            Some((call, end)) if state.calls >= call => {
                state.ended = true;
                drop(state);
                resume_unwind(Box::new(end))
            }
            _ => Ok(state),
        }
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    pub fn set_time(&self, now_us: u64) {
        let mut state = self.state();
        state.now_us = now_us;
        if !state.ended {
            state.end_child_if_due();
        }
    }

    /// What other threads have been asked for is done only after the server has looked for it so often.
    #[allow(dead_code, reason = "the replay test stalls nothing")]
    pub fn stall(&self, looks: u64) {
        self.state().stalled_looks = looks;
    }

    /// Number of calls after which the process ends.
    pub fn end_after(&self, calls: u64, end: End) {
        let mut state = self.state();
        state.end_at_call = Some((state.calls + calls, end));
    }

    /// The process has ended so; the next one finds what that leaves.
    pub fn restart(&self, end: End) {
        let mut state = self.state();
        // It dies with its server.
        state.child = None;
        (state.in_child, state.in_background, state.background_since_us) = (false, false, None);
        state.waits.clear();
        if end == End::PowerCut {
            state.cut_power();
        }
        state.open.clear();
        (state.end_at_call, state.ended) = (None, false);
        state.processes += 1;
    }

    pub fn figures(&self) -> Figures {
        self.state().figures
    }

    pub fn take_pages_lost(&self) -> bool {
        std::mem::take(&mut self.state().figures.pages_lost)
    }

    /// Calls that the server has waited for since this was asked last.
    pub fn take_waits(&self) -> Vec<Wait> {
        std::mem::take(&mut self.state().waits)
    }

    pub fn has_child(&self) -> bool {
        self.state().child.is_some()
    }

    /// The files that are there, and their lengths.
    pub fn listing(&self) -> Vec<(PathBuf, usize)> {
        let state = self.state();
        state.seen.files.iter().map(|(path, &inode)| (path.clone(), state.inodes[inode].seen.len())).collect()
    }

    fn begin_child(&self) -> io::Result<i32> {
        let mut state = self.call()?;
        let weather = state.weather;
        if state.strikes(weather.fork) {
            return Err(failure(EAGAIN));
        }
        state.figures.forks += 1;
        state.processes += 1;
        let (number, killed) = (state.processes, state.strikes(weather.child));
        let ends_us = state.now_us + state.random.below(2_000_000);
        let left = Vec::new();
        state.child = Some(ChildProcess { number, ends_us, killed, succeeded: false, left, ended: None });
        state.in_child = true;
        Ok(number)
    }

    fn child_done(&self, child: i32, succeeded: bool) {
        let mut state = self.state();
        state.in_child = false;
        let process = state.child.as_mut().filter(|process| process.number == child);
        process.expect("it has been forked").succeeded = succeeded;
    }

    fn is_background_done(&self) -> bool {
        let mut state = self.state();
        if state.stalled_looks > 0 {
            state.stalled_looks -= 1;
            return false;
        }
        let (now_us, slow) = (state.now_us, state.weather.slow);
        if state.background_since_us.is_none() {
            state.background_since_us = Some(now_us);
            let is_slow = slow > 0 && state.random.below(1000) < slow;
            state.background_us_max = if is_slow { SLOW_US } else { BACKGROUND_US_MAX };
        }
        let passed_us = now_us - state.background_since_us.unwrap_or(now_us);
        let is_early = state.background_us_max == BACKGROUND_US_MAX && state.random.below(3) == 0;
        let done = passed_us >= state.background_us_max || is_early;
        if done {
            state.background_since_us = None;
        }
        state.in_background = done && !state.ended;
        state.in_background
    }

    fn wait_for_background(&self) {
        let mut state = self.state();
        let is_slow = state.background_us_max == SLOW_US && state.background_since_us.is_some();
        if is_slow || state.stalled_looks > 0 {
            state.waits.push(Wait { call: "background", path: PathBuf::new() });
            // That time has passed.
            state.background_us_max = BACKGROUND_US_MAX;
        }
    }
}

impl OperatingSystem for Disk {
    fn open(&self, path: &Path, purpose: Open) -> io::Result<File> {
        let mut state = self.call()?;
        let weather = state.weather;
        if state.inode_of(path).is_err() {
            state.may_be_slow("open", path);
        }
        state.fails(weather.entry)?;
        let inode = match (state.inode_of(path), purpose) {
            (Ok(inode), Open::Create) => {
                state.inodes[inode].change(Change::Cut { len: 0 });
                inode
            }
            (Ok(_), Open::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (Err(_), Open::Create | Open::CreateNew | Open::Append) => {
                let directory = parent(path);
                if directory != Path::new(".") && !state.seen.directories.contains(directory) {
                    return Err(ErrorKind::NotFound.into());
                }
                if weather.room == Some(0) && state.strikes(300) {
                    return Err(failure(ENOSPC));
                }
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.entry(Entry::Link(path.to_owned(), inode));
                inode
            }
            (found, _) => found?,
        };
        state.files_opened += 1;
        let number = state.files_opened;
        state.open.insert(number, (inode, purpose == Open::Append));
        state.paths.insert(number, path.to_owned());
        let disk = self.clone();
        Ok(File::of(OpenedFile { disk, number, position: AtomicU64::new(0) }))
    }

    fn len_of(&self, path: &Path) -> io::Result<u64> {
        let state = self.call()?;
        state.inode_of(path).map(|inode| state.inodes[inode].seen.len() as u64)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let weather = state.weather;
        state.may_be_slow("rename", to);
        state.fails(weather.entry)?;
        let inode = state.inode_of(from)?;
        let entry = Entry::Rename(from.to_owned(), to.to_owned(), inode);
        let in_child = state.in_child;
        match &mut state.child {
            Some(child) if in_child => child.left.push(Effect::Entry(entry)),
            _ => state.entry(entry),
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let weather = state.weather;
        state.inode_of(path)?;
        state.may_be_slow("remove", path);
        state.fails(weather.entry)?;
        state.entry(Entry::Unlink(path.to_owned()));
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let weather = state.weather;
        if state.seen.directories.contains(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.fails(weather.entry)?;
        state.entry(Entry::Directory(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let weather = state.weather;
        state.may_be_slow("fsync", path);
        state.fails(weather.entry)?;
        let in_child = state.in_child;
        match &mut state.child {
            Some(child) if in_child => {
                child.left.push(Effect::Sync(path.to_owned()));
            }
            _ => state.sync_directory(path),
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let state = self.call()?;
        let here = state.seen.files.keys().filter(|path| parent(path) == Path::new("."));
        Ok(here.filter_map(|path| path.to_str().map(str::to_owned)).collect())
    }

    fn process_id(&self) -> u32 {
        1
    }

    fn process_exists(&self, process: u32) -> bool {
        let state = self.state();
        process == 1 || state.child.as_ref().is_some_and(|child| child.number as u32 == process)
    }

    fn start_worker(&self, _name: &str) -> io::Result<Box<dyn Worker>> {
        Ok(Box::new(Background { disk: self.clone(), jobs: VecDeque::new() }))
    }

    fn fork(&self, _kept: &[RawFd], work: &mut dyn FnMut(u32) -> i32) -> io::Result<Forked> {
        let child = self.begin_child()?;
        let succeeded = work(child.unsigned_abs()) == 0;
        self.child_done(child, succeeded);
        Ok(Forked { child, duration: Duration::ZERO })
    }

    fn poll(&self, child: i32) -> io::Result<Option<Ended>> {
        let mut state = self.state();
        state.end_child_if_due();
        let Some(process) = state.child.as_ref().filter(|process| process.number == child) else {
            return Err(failure(10));
        };
        let ended = process.ended;
        if ended.is_some() {
            state.child = None;
        }
        Ok(ended)
    }

    fn cancel(&self, child: i32) {
        let mut state = self.state();
        if let Some(process) = state.child.as_mut().filter(|process| process.number == child)
            && process.ended.is_none()
        {
            process.ended = Some(Ended::Killed { signal: CANCEL });
            process.left.clear();
        }
    }

    fn exit(&self, code: i32) -> ! {
        self.state().ended = true;
        resume_unwind(Box::new(End::Exited(code)))
    }
}

struct OpenedFile {
    disk: Disk,
    number: u64,
    position: AtomicU64,
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.open.remove(&self.number);
        state.paths.remove(&self.number);
    }
}

impl Read for OpenedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.call()?;
        let weather = state.weather;
        state.fails(weather.read)?;
        let (inode, _) = state.open[&self.number];
        let position = self.position.get_mut();
        let rest = state.inodes[inode].seen.get(*position as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        *position += count as u64;
        Ok(count)
    }
}

impl OpenFile for OpenedFile {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.call()?;
        let weather = state.weather;
        let mut count = bytes.len();
        if state.strikes(weather.write) {
            // Some of it, or none.
            count = state.random.below(count as u64 + 1) as usize;
            if count == 0 || state.random.below(3) == 0 {
                return Err(failure(EIO));
            }
        }
        if let Some(room) = &mut state.weather.room {
            count = count.min(*room);
            *room -= count;
            if count == 0 && !bytes.is_empty() {
                state.figures.faults += 1;
                return Err(failure(ENOSPC));
            }
        }
        let (inode, appends) = state.open[&self.number];
        let inode = &mut state.inodes[inode];
        let at = if appends { inode.seen.len() } else { self.position.load(Ordering::Relaxed) as usize };
        inode.change(Change::Write { at, bytes: bytes[..count].to_vec() });
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.call()?;
        let weather = state.weather;
        state.fails(weather.cut)?;
        let (inode, _) = state.open[&self.number];
        state.inodes[inode].change(Change::Cut { len: len as usize });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.call()?;
        let weather = state.weather;
        let (inode, _) = state.open[&self.number];
        state.figures.syncs += 1;
        let path = state.paths[&self.number].clone();
        state.may_be_slow("fsync", &path);
        if state.strikes(weather.sync) {
            // Whether the pages are gone or still to be written, no process can know.
            state.figures.pages_lost |= !state.inodes[inode].changes.is_empty();
            if state.random.below(2) == 0 {
                state.inodes[inode].changes.clear();
            }
            return Err(failure(EIO));
        }
        state.inodes[inode].synced();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.disk.call()?;
        let (inode, _) = state.open[&self.number];
        Ok(state.inodes[inode].seen.len() as u64)
    }

    fn rewind(&mut self) -> io::Result<()> {
        *self.position.get_mut() = 0;
        Ok(())
    }
}

/// Runs jobs on the caller's thread, when the disk says that another would have done them.
struct Background {
    disk: Disk,
    jobs: VecDeque<Job>,
}

impl Worker for Background {
    fn submit(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    fn catch_up(&mut self) {
        while !self.jobs.is_empty() && self.disk.is_background_done() {
            self.jobs.pop_front().into_iter().for_each(|job| job());
        }
    }

    fn wait(&self) {
        self.disk.wait_for_background();
    }
}
