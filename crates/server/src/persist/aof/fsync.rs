//! Forcing a file to disk on a thread of its own.

use crate::persist::file::system_text;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

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
    sender: Sender<(Arc<File>, u64)>,
    progress: Arc<Progress>,
}

impl Fsyncer {
    pub fn start() -> io::Result<Self> {
        let (sender, receiver) = channel();
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        thread::Builder::new().name("fsync".into()).spawn(move || sync_all(&receiver, &shared))?;
        Ok(Fsyncer { sender, progress })
    }

    /// Has the file forced to disk, of which `appended` bytes have been written in all.
    pub fn sync(&self, file: &Arc<File>, appended: u64) {
        self.progress.pending.fetch_add(1, Ordering::AcqRel);
        if self.sender.send((Arc::clone(file), appended)).is_err() {
            unreachable!("the thread lives as long as the sender");
        }
    }

    pub fn is_pending(&self) -> bool {
        self.progress.pending.load(Ordering::Acquire) > 0
    }

    pub fn synced(&self) -> u64 {
        self.progress.synced.load(Ordering::Acquire)
    }

    /// Whether an fsync has failed since this was asked last.
    pub fn take_failure(&self) -> bool {
        self.progress.failed.swap(false, Ordering::AcqRel)
    }

    /// Why the last fsync failed, if it did.
    pub fn error(&self) -> Option<String> {
        let error = self.progress.error.lock().expect("no thread panics while it holds this");
        error.as_ref().map(system_text)
    }
}

fn sync_all(receiver: &Receiver<(Arc<File>, u64)>, progress: &Progress) {
    while let Ok((file, appended)) = receiver.recv() {
        let result = file.sync_data();
        match &result {
            Ok(()) => drop(progress.synced.fetch_max(appended, Ordering::AcqRel)),
            Err(_) => progress.failed.store(true, Ordering::Release),
        }
        *progress.error.lock().expect("no thread panics while it holds this") = result.err();
        progress.pending.fetch_sub(1, Ordering::AcqRel);
    }
}
