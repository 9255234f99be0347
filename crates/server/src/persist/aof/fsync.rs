//! Forces files to disk on a thread of its own.

use crate::sys::file::system_text;
use crate::sys::world::{File, Worker, World};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Called in the thread after each file.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

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
    thread: Box<dyn Worker>,
    progress: Arc<Progress>,
    wake: Option<Wake>,
}

impl Fsyncer {
    /// Starts the thread.
    pub fn start(world: &World, wake: Option<Wake>) -> io::Result<Self> {
        Ok(Fsyncer { thread: world.start_worker("fsync")?, progress: Arc::default(), wake })
    }

    /// Starts forcing a file to disk; `appended` is the number of bytes written in all.
    pub fn sync(&mut self, file: &Arc<File>, appended: u64) {
        self.progress.pending.fetch_add(1, Ordering::AcqRel);
        let (file, progress, wake) = (Arc::clone(file), Arc::clone(&self.progress), self.wake.clone());
        self.thread.submit(Box::new(move || {
            progress.sync(&file, appended);
            if let Some(wake) = wake {
                wake();
            }
        }));
    }

    /// Whether a sync is pending.
    pub fn is_pending(&mut self) -> bool {
        self.thread.catch_up();
        self.progress.pending.load(Ordering::Acquire) > 0
    }

    /// Whether a sync was pending when the caller last looked, and has not ended since.
    pub fn has_pending(&self) -> bool {
        self.progress.pending.load(Ordering::Acquire) > 0
    }

    /// Waits a little for pending syncs to progress.
    pub fn let_work(&self) {
        self.thread.wait();
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

impl Progress {
    fn sync(&self, file: &File, appended: u64) {
        let result = file.sync_data();
        match &result {
            Ok(()) => drop(self.synced.fetch_max(appended, Ordering::AcqRel)),
            Err(_) => self.failed.store(true, Ordering::Release),
        }
        *self.error.lock().expect("no thread panics while it holds this") = result.err();
        self.pending.fetch_sub(1, Ordering::AcqRel);
    }
}
