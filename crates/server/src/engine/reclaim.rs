//! Background freeing of large values by a separate thread, so that the removal of ten million elements does not delay
//! the executor.

use crate::db::Garbage;
use crate::observe::memory::{Reclaiming, ThreadMemory};
use crate::sys::allocator;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The executor's handle of the thread. When it is dropped, the thread frees all queued values and ends.
pub struct Reclaimer {
    sender: Option<Sender<Garbage>>,
    progress: Arc<Reclaiming>,
}

impl Reclaimer {
    /// Starts the thread. Without one, values are freed where they are discarded.
    pub fn start(progress: Arc<Reclaiming>) -> Self {
        let (sender, receiver) = channel();
        let shared = Arc::clone(&progress);
        let spawned =
            thread::Builder::new().name("reclaim".into()).spawn(move || free_all(&receiver, &shared));
        if let Err(error) = &spawned {
            log::warn!("Cannot start the thread that frees memory: {error}; freeing on the main thread");
        }
        Reclaimer { sender: spawned.is_ok().then_some(sender), progress }
    }

    /// Queues a value for the thread to free.
    pub fn free(&self, garbage: Garbage) {
        let Some(sender) = &self.sender else { return drop(garbage) };
        self.progress.pending.fetch_add(garbage.objects(), Ordering::Relaxed);
        if sender.send(garbage).is_err() {
            unreachable!("the thread lives as long as the sender");
        }
    }
}

fn free_all(receiver: &Receiver<Garbage>, progress: &Reclaiming) {
    let memory = ThreadMemory::of_this_thread();
    while let Ok(garbage) = receiver.recv() {
        let objects = garbage.objects();
        drop(garbage);
        if let Some(memory) = memory {
            progress.used_bytes.store(memory.used_bytes(), Ordering::Relaxed);
        }
        progress.freed.fetch_add(objects as u64, Ordering::Relaxed);
        if progress.pending.fetch_sub(objects, Ordering::Relaxed) == objects {
            allocator::empty_thread_cache();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Object;

    #[test]
    fn what_is_handed_over_is_freed_and_counted() {
        let progress = Arc::new(Reclaiming::default());
        let reclaimer = Reclaimer::start(Arc::clone(&progress));
        for _ in 0..100 {
            reclaimer.free(Garbage::Object(Object::text(vec![0; 1 << 16])));
        }
        while progress.pending.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert_eq!(progress.freed.load(Ordering::Relaxed), 100);
        let used_bytes = progress.used_bytes.load(Ordering::Relaxed);
        assert!(used_bytes <= -(100 << 16), "{used_bytes}");
    }
}
