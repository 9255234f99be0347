//! The process: the kernel's counters for it, and a fault on request.

pub use crate::sys::process::{CpuTimes, Whose, cpu_times, fault};
