//! What the kernel has counted for this process.

pub use crate::sys::process::{CpuTimes, Whose, cpu_times};
