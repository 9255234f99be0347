//! Figures of each I/O thread, written by that thread alone and read by the executor.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Figures of one I/O thread.
#[derive(Debug, Default)]
pub struct IoThreadFigures {
    /// Number of its connections, maintained by the executor.
    pub clients: AtomicUsize,
    /// Reads of sockets.
    pub reads: AtomicU64,
    /// Writes to sockets.
    pub writes: AtomicU64,
    /// Number of polls.
    pub polls: AtomicU64,
    /// Processor time used, as of a moment ago.
    pub busy_us: AtomicU64,
    /// Bytes that the threads of this number have allocated less those they have freed: negative when they freed other
    /// threads' buffers.
    pub used_bytes: AtomicI64,
}

impl IoThreadFigures {
    /// Adds to a counter that only the calling thread writes.
    #[inline]
    pub fn count(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}
