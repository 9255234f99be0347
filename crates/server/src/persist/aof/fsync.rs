//! Forcing a file to disk on a thread of its own.

use crate::sys::file::system_text;
use crate::sys::world::{File, Simulation, World};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Between two looks whether a file is on disk that has to be waited for.
const PENDING_POLL: Duration = Duration::from_millis(1);

/// What the thread has done.
#[derive(Debug, Default)]
struct Progress {
    /// Files that have been asked for and are not done.
    pending: AtomicU64,
    failed: AtomicBool,
    /// Up to here the log is on disk, in bytes ever appended.
    synced: AtomicU64,
    /// Why the last fsync failed.
    error: Mutex<Option<io::Error>>,
}

/// The caller's end. The thread ends when this is dropped.
pub struct Fsyncer {
    worker: Worker,
    progress: Arc<Progress>,
}

enum Worker {
    Thread(Sender<Request>),
    /// Done on the caller's thread, when the simulation says so.
    Simulated {
        world: Arc<dyn Simulation>,
        requests: VecDeque<Request>,
    },
}

/// A file, and how many bytes have been written in all.
type Request = (Arc<File>, u64);

impl Fsyncer {
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

    /// Has the file forced to disk, of which `appended` bytes have been written in all.
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

    pub fn is_pending(&mut self) -> bool {
        if let Worker::Simulated { world, requests } = &mut self.worker {
            while !requests.is_empty() && world.is_background_done() {
                requests.pop_front().iter().for_each(|request| sync_one(request, &self.progress));
            }
        }
        self.progress.pending.load(Ordering::Acquire) > 0
    }

    /// Waits a little, so that what is pending gets on.
    pub fn let_work(&self) {
        match &self.worker {
            Worker::Thread(_) => thread::sleep(PENDING_POLL),
            Worker::Simulated { world, .. } => world.wait_for_background(),
        }
    }

    pub fn synced(&self) -> u64 {
        self.progress.synced.load(Ordering::Acquire)
    }

    /// Whether an fsync has failed since this was asked last.
    pub fn take_failure(&self) -> bool {
        self.progress.failed.swap(false, Ordering::AcqRel)
    }

    pub fn forget_error(&self) {
        *self.progress.error.lock().expect("no thread panics while it holds this") = None;
    }

    /// Why the last fsync failed, if it did.
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
