//! The process: what the kernel has counted for it, and a fault for who wants one.

pub use crate::sys::process::{CpuTimes, Whose, cpu_times, fault};
