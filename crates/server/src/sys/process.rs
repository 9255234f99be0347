//! The process as the kernel accounts for it.

use std::time::Duration;

/// Whose time is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Process,
    /// Children that have ended and been waited for.
    Children,
    ThisThread,
}

/// Processor time spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: Duration,
    pub system: Duration,
}

/// Processor time from the kernel's books (getrusage).
pub fn cpu_times(whose: Whose) -> CpuTimes {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::ThisThread => libc::RUSAGE_THREAD,
    };
    // SAFETY: every field of rusage is an integer, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable and of the type that the call fills.
    let result = unsafe { libc::getrusage(who, &mut usage) };
    assert!(result == 0, "getrusage fails only for an unknown `who`");
    let duration = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    CpuTimes { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_used_at_least_what_this_thread_has() {
        let spin_until = std::time::Instant::now() + Duration::from_millis(5);
        while std::time::Instant::now() < spin_until {}
        let thread = cpu_times(Whose::ThisThread);
        let process = cpu_times(Whose::Process);
        assert!(thread.user + thread.system > Duration::ZERO);
        assert!(process.user + process.system >= thread.user + thread.system);
    }
}
