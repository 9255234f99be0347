//! Forces files to disk on a thread of its own.

use crate::sys::file::system_text;
use crate::sys::world::{File, Simulation, World};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Polling interval while waiting for a sync.
const PENDING_POLL: Duration = Duration::from_millis(1);

/// State of the thread.
#[derive(Debug, Default)]
struct Progress {
    /// Number of files requested and not finished.
    pending: AtomicU64,
    failed: AtomicBool,
    /// Position up to which the log is on disk, in bytes appended in all.
    synced: AtomicU64,
    /// Error of the last fsync, if it failed.
    error: Mutex<Option<io::Error>>,
}

/// The caller's end. The thread ends when this is dropped.
pub struct Fsyncer {
    worker: Worker,
    progress: Arc<Progress>,
}

enum Worker {
    Thread(Sender<Request>),
    /// Syncs on the caller's thread, at the simulation's command.
    Simulated {
        world: Arc<dyn Simulation>,
        requests: VecDeque<Request>,
    },
}

/// A file, and the number of bytes written in all.
type Request = (Arc<File>, u64);

impl Fsyncer {
    /// Starts the thread.
    pub fn start(world: &World) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let worker = match world {
            World::Machine => {
                let (sender, receiver) = channel();
                let shared = Arc::clone(&progress);
                thread::Builder::new().name("fsync".into()).spawn(move || sync_all(&receiver, &shared))?;
                Worker::Thread(sender)
            }
            World::Simulated(world) => {
                Worker::Simulated { world: Arc::clone(world), requests: VecDeque::new() }
            }
        };
        Ok(Fsyncer { worker, progress })
    }

    /// Starts forcing a file to disk; `appended` is the number of bytes written in all.
    pub fn sync(&mut self, file: &Arc<File>, appended: u64) {
        self.progress.pending.fetch_add(1, Ordering::AcqRel);
        let request = (Arc::clone(file), appended);
        match &mut self.worker {
            Worker::Thread(sender) => {
                if sender.send(request).is_err() {
                    unreachable!("the thread lives as long as the sender");
                }
            }
            Worker::Simulated { requests, .. } => requests.push_back(request),
        }
    }

    /// Whether a sync is pending.
    pub fn is_pending(&mut self) -> bool {
        if let Worker::Simulated { world, requests } = &mut self.worker {
            while !requests.is_empty() && world.is_background_done() {
                requests.pop_front().iter().for_each(|request| sync_one(request, &self.progress));
            }
        }
        self.progress.pending.load(Ordering::Acquire) > 0
    }

    /// Waits a little for pending syncs to progress.
    pub fn let_work(&self) {
        match &self.worker {
            Worker::Thread(_) => thread::sleep(PENDING_POLL),
            Worker::Simulated { world, .. } => world.wait_for_background(),
        }
    }

    /// Position up to which the log is on disk.
    pub fn synced(&self) -> u64 {
        self.progress.synced.load(Ordering::Acquire)
    }

    /// Whether an fsync has failed since the last call.
    pub fn take_failure(&self) -> bool {
        self.progress.failed.swap(false, Ordering::AcqRel)
    }

    /// Clears the error.
    pub fn forget_error(&self) {
        *self.progress.error.lock().expect("no thread panics while it holds this") = None;
    }

    /// Error of the last fsync, if it failed.
    pub fn error(&self) -> Option<String> {
        let error = self.progress.error.lock().expect("no thread panics while it holds this");
        error.as_ref().map(system_text)
    }
}

fn sync_all(receiver: &Receiver<Request>, progress: &Progress) {
    while let Ok(request) = receiver.recv() {
        sync_one(&request, progress);
    }
}

fn sync_one((file, appended): &Request, progress: &Progress) {
    let result = file.sync_data();
    match &result {
        Ok(()) => drop(progress.synced.fetch_max(*appended, Ordering::AcqRel)),
        Err(_) => progress.failed.store(true, Ordering::Release),
    }
    *progress.error.lock().expect("no thread panics while it holds this") = result.err();
    progress.pending.fetch_sub(1, Ordering::AcqRel);
}
