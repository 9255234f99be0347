//! The process's resources and settings in the kernel.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::time::Duration;
use wire::convert::low_u32;

/// Subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The process.
    Process,
    /// Children that have ended and been waited for.
    Children,
    /// The calling thread.
    ThisThread,
}

/// Processor time spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

/// Replaces this process by one of the same program with these arguments, in this directory; returns only the failure. Files
/// of this process are closed.
pub fn start_again(directory: &Path, arguments: &[OsString]) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new(program).args(arguments).current_dir(directory).exec()
}

/// Processor time as counted by the kernel (getrusage).
pub fn cpu_times(whose: Whose) -> CpuTimes {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::ThisThread => libc::RUSAGE_THREAD,
    };
    // SAFETY: invariant 2 of `sys`: every field of rusage is an integer, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: invariant 2 of `sys`.
    let result = unsafe { libc::getrusage(who, &mut usage) };
    assert!(result == 0, "getrusage fails only for an unknown `who`");
    let duration =
        |time: libc::timeval| Duration::new(time.tv_sec as u64, low_u32(time.tv_usec as u64) * 1000);
    CpuTimes { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

/// Size of a memory page in bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: invariant 1 of `sys`.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every system knows the size of its pages")
}

/// Continues as a process in the background: without a terminal, in a session of its own, with /dev/null as its standard
/// streams. Only the child returns.
///
/// # Errors
/// The system's, when it gives no process or no session.
pub fn daemonize() -> io::Result<()> {
    assert!(threads() <= 1, "only the thread that forks lives on in the child, so there must be no other");
    // SAFETY: invariant 3 of `sys`: the process has one thread, as asserted above, so the child has no lock that
    // a missing thread holds.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        // SAFETY: invariant 1 of `sys`: ends the parent at once; it runs no destructor that the child will
        // run too.
        _ => unsafe { libc::_exit(0) },
    }
    rustix::process::setsid()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Clears the bits of the process's umask that would deny its own user what it creates: a log file that cannot be opened
/// again, or a snapshot that the next start cannot read. What other users may do is left to the umask.
pub fn keep_own_files_usable() {
    use rustix::fs::Mode;
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask.difference(Mode::RWXU));
}

/// Makes exceeding the file size limit an error of the write instead of the end of the process.
pub fn report_file_size_limits() {
    // SAFETY: invariant 1 of `sys`: sets an action that runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ignores signals that this program does not use and that would end it. Makes ended children waitable and lets SIGQUIT
/// end the process, even if it was started with SIGCHLD or SIGQUIT ignored.
pub fn ignore_signals_of_others() {
    for (signal, action) in [
        (libc::SIGUSR1, libc::SIG_IGN),
        (libc::SIGUSR2, libc::SIG_IGN),
        (libc::SIGPIPE, libc::SIG_IGN),
        (libc::SIGCHLD, libc::SIG_DFL),
        // A shell without job control starts programs in the background with SIGQUIT ignored.
        (libc::SIGQUIT, libc::SIG_DFL),
    ] {
        // SAFETY: invariant 1 of `sys`: neither action runs code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Unblocks all signals that were blocked when the process started.
pub fn accept_signals() {
    // SAFETY: invariant 2 of `sys`: `set` is filled before it is read, both are this function's own, and no old
    // mask is asked for.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut());
    }
}

/// Keeps the kernel from backing this process's memory with huge pages.
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: invariant 1 of `sys`.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Stops the process until it is continued by a signal.
pub fn stop() {
    // A signal to itself that cannot be refused.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

/// Writes to read-only memory (DEBUG SEGFAULT).
pub fn fault() -> ! {
    // SAFETY: invariant 1 of `sys`: a new mapping overlaps no other memory.
    let page = unsafe {
        libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    // SAFETY: invariant 2 of `sys`: the page is this function's own; the write is refused by the processor,
    // which is what it is for.
    unsafe { ptr::write_volatile(page.cast::<u8>(), b'x') };
    std::process::abort();
}

/// Number of threads of the process; 0 if unknown.
pub(super) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
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
