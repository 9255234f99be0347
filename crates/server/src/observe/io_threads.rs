//! What each I/O thread does, as it tells itself: written by that thread alone, read by the executor.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub struct IoThreadFigures {
    /// Connections that live there; the executor counts them.
    pub clients: AtomicUsize,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    /// How often it asked the kernel which sockets are ready.
    pub polls: AtomicU64,
    /// Processor time that it has used, a moment ago.
    pub busy_us: AtomicU64,
    /// Bytes that the threads of this number have allocated less those they have freed: negative when buffers of
    /// others ended there.
    pub used_bytes: AtomicI64,
}

impl IoThreadFigures {
    /// Adds to a counter that only the calling thread adds to.
    #[inline]
    pub fn count(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}
