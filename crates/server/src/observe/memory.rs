//! The allocator's true figures.

use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes that one thread has asked for and given back so far, in whole size classes.
#[derive(Clone, Copy)]
pub struct ThreadMemory {
    allocated: thread::ThreadLocal<u64>,
    deallocated: thread::ThreadLocal<u64>,
}

impl ThreadMemory {
    /// The calling thread's counters. `None` if the allocator was built without statistics.
    pub fn of_this_thread() -> Option<Self> {
        Some(ThreadMemory {
            allocated: thread::allocatedp::read().ok()?,
            deallocated: thread::deallocatedp::read().ok()?,
        })
    }

    /// Bytes in use: what this thread allocated less what it freed. A read of two words.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.allocated.get().wrapping_sub(self.deallocated.get())
    }
}
