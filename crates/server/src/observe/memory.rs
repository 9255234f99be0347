//! Figures of the allocator, and the kernel's figures of the process.

use super::io_threads::IoThreadFigures;
use crate::sys::allocator;
use crate::sys::process::page_bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tikv_jemalloc_ctl::{epoch, stats, thread};
use wire::convert::signed_bits;

#[global_allocator]
static ALLOCATOR: crate::sys::allocator::Allocator = crate::sys::allocator::Allocator;

/// The allocator's name in INFO.
pub const ALLOCATOR_NAME: &str = "jemalloc-5.3.1";

/// Bytes that one thread has allocated and freed so far, in whole size classes.
#[derive(Clone, Copy)]
pub struct ThreadMemory {
    allocated: thread::ThreadLocal<u64>,
    deallocated: thread::ThreadLocal<u64>,
}

impl ThreadMemory {
    /// Returns the calling thread's counters. `None` if the allocator was built without statistics.
    pub fn of_this_thread() -> Option<Self> {
        Some(ThreadMemory {
            allocated: thread::allocatedp::read().ok()?,
            deallocated: thread::deallocatedp::read().ok()?,
        })
    }

    /// Returns the bytes in use: what this thread allocated less what it freed, negative if it frees what others have
    /// allocated. A read of two words.
    #[inline]
    pub fn used_bytes(&self) -> i64 {
        signed_bits(self.allocated.get().wrapping_sub(self.deallocated.get()))
    }
}

/// Progress of the thread that frees large values, shared with the executor.
#[derive(Debug, Default)]
pub struct Reclaiming {
    /// Objects handed over and not freed yet.
    pub pending: AtomicUsize,
    /// Number of values freed.
    pub freed: AtomicU64,
    /// Bytes the thread has allocated less those it has freed: negative, for it frees what others allocated.
    pub used_bytes: AtomicI64,
}

/// Figures that are too costly to read for every command: sampled several times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory in use at the sample's time.
    pub used_bytes: u64,
    /// The process's resident pages.
    pub process_resident_bytes: u64,
    /// In the whole process, all threads and start included.
    pub allocated_bytes: u64,
    /// Pages with anything in use.
    pub active_bytes: u64,
    /// Resident pages that the allocator manages.
    pub resident_bytes: u64,
    /// Unused pages that the system may reclaim.
    pub muzzy_bytes: u64,
    /// Unused memory in slabs of small classes.
    pub fragmented_bytes: u64,
}

/// The server's memory.
pub struct Memory {
    thread: Option<ThreadMemory>,
    /// Progress of the thread that frees values.
    pub reclaiming: Arc<Reclaiming>,
    /// Figures of I/O threads, ended ones included: the first is thread 1.
    pub io_threads: Vec<Arc<IoThreadFigures>>,
    /// Memory of compression dictionaries, allocated by the C library.
    pub dictionaries_bytes: u64,
    /// Number of shapes of hashes.
    pub hash_shapes: u64,
    /// Their memory, which is part of the memory used.
    pub hash_shapes_bytes: u64,
    /// In use when the server had started and held no data.
    pub startup_bytes: u64,
    /// Maximum of the memory used.
    pub peak_bytes: u64,
    /// The latest sample.
    pub sample: Sample,
    /// The machine's memory.
    pub system_bytes: u64,
    /// The allocator's last setting; `None`: not set yet.
    purges_in_background: Option<bool>,
}

impl Memory {
    /// Creates the figures of a server whose executor is the calling thread.
    pub fn of_this_thread() -> Self {
        let system = rustix::system::sysinfo();
        let mut memory = Memory {
            thread: ThreadMemory::of_this_thread(),
            reclaiming: Arc::default(),
            io_threads: Vec::new(),
            dictionaries_bytes: 0,
            hash_shapes: 0,
            hash_shapes_bytes: 0,
            startup_bytes: 0,
            peak_bytes: 0,
            sample: Sample::default(),
            system_bytes: system.totalram as u64 * u64::from(system.mem_unit),
            purges_in_background: None,
        };
        memory.take_sample();
        memory
    }

    /// Returns the bytes in use.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        let mut used_elsewhere = self.reclaiming.used_bytes.load(Ordering::Relaxed);
        for thread in &self.io_threads {
            used_elsewhere += thread.used_bytes.load(Ordering::Relaxed);
        }
        self.dictionaries_bytes
            + self.thread.map_or(0, |thread| used_by_all(thread.used_bytes(), used_elsewhere))
    }

    /// Takes a sample.
    pub fn take_sample(&mut self) {
        // An allocator without statistics reports zero everywhere.
        let _ = epoch::advance();
        let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.unwrap_or(0) as u64;
        self.sample = Sample {
            used_bytes: self.used_bytes(),
            process_resident_bytes: process_resident_bytes().unwrap_or(0),
            allocated_bytes: bytes(stats::allocated::read()),
            active_bytes: bytes(stats::active::read()),
            resident_bytes: bytes(stats::resident::read()),
            muzzy_bytes: allocator::muzzy_bytes().unwrap_or(0) as u64,
            fragmented_bytes: allocator::small_bin_waste_bytes().unwrap_or(0) as u64,
        };
        self.note_peak(self.sample.used_bytes);
    }

    /// Updates the peak. It is recorded at reads, so it is at least the current use.
    pub fn note_peak(&mut self, used_bytes: u64) {
        self.peak_bytes = self.peak_bytes.max(used_bytes);
    }

    /// Returns the allocator's own statistics as text.
    pub fn allocator_report(&self) -> String {
        let mut text = Vec::new();
        match tikv_jemalloc_ctl::stats_print::stats_print(&mut text, Default::default()) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("The allocator gives no statistics: {error}\n"),
        }
    }

    /// Applies `jemalloc-bg-thread`.
    pub fn purge_in_background(&mut self, on: bool) {
        if self.purges_in_background.replace(on) != Some(on) && !allocator::purge_in_background(on) {
            log::warn!(
                "The allocator cannot start threads that return memory; it returns memory when it is freed"
            );
        }
    }

    /// Returns free memory to the kernel; returns whether the allocator agreed.
    pub fn purge(&self) -> bool {
        allocator::purge()
    }
}

/// Any thread may have freed more than it has allocated, the executor with its wrapping count as well: what one frees
/// another has allocated. A sum below zero results from reading its parts while memory changed hands.
fn used_by_all(own_bytes: i64, elsewhere_bytes: i64) -> u64 {
    own_bytes.wrapping_add(elsewhere_bytes).max(0) as u64
}

/// Reads the second word of /proc/self/statm, in pages.
fn process_resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_bytes())
}

#[cfg(test)]
mod tests {
    use super::{process_resident_bytes, used_by_all};

    #[test]
    fn pages_in_memory_are_counted_in_bytes() {
        let resident_bytes = process_resident_bytes().expect("the kernel tells");
        let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("of each process");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!((kilobytes * 512..kilobytes * 2048).contains(&resident_bytes), "{resident_bytes}: {line}");
    }

    #[test]
    fn memory_in_use_is_the_sum_whoever_has_freed_it() {
        assert_eq!(used_by_all(100, 20), 120);
        assert_eq!(used_by_all(100, -20), 80);
        assert_eq!(used_by_all(20 - 50, 100), 70);
        assert_eq!(used_by_all(20, -30), 0);
    }
}
