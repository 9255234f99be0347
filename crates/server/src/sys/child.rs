//! Child processes that are copies of this one, and their reports.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use wire::convert::signed_count;

/// The side of the fork.
pub enum Side {
    /// The parent.
    Parent {
        /// Process id of the child.
        child: i32,
    },
    /// The child.
    Child,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has exited with this status.
    Exited(i32),
    /// A signal has ended it.
    Killed {
        /// Number of the signal.
        signal: i32,
    },
}

/// Forks this process; the copy has only the calling thread. The child must end with [`exit`], and must not touch
/// anything that another thread may have locked at that moment; the allocator and the standard streams are safe. It
/// ignores signals meant for its parent, even if they are sent to the group; its only open files are the standard streams
/// and `kept`.
pub fn fork(kept: &[RawFd]) -> io::Result<Side> {
    let parent = std::process::id();
    // The parent may ask the child to end before the child runs, while it still has the parent's action for the signal.
    let mask = block_cancel();
    // SAFETY: invariant 3 of `sys`: the child runs on with the caller's thread alone; the allocator's locks are
    // released on both sides by its own fork handlers, and the callers keep to the rules above.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            set_mask(&mask);
            Err(error)
        }
        0 => {
            become_independent(kept);
            set_mask(&mask);
            die_with(parent);
            Ok(Side::Child)
        }
        child => {
            set_mask(&mask);
            Ok(Side::Parent { child })
        }
    }
}

/// Defers [`CANCEL`] for this thread, and for children that it forks, until [`set_mask`] is called with the result.
fn block_cancel() -> libc::sigset_t {
    let (mut signals, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: invariant 2 of `sys`: `sigemptyset` writes the set, and the last call writes the mask of before; with this
    // set and operation it does not fail.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), CANCEL);
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: invariant 2 of `sys`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

fn become_independent(kept: &[RawFd]) {
    super::crash::forget();
    // Signals that a terminal, a service manager or log rotation sends to all processes of a server are for the parent:
    // it ends the child if it ends itself.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR2, libc::SIGALRM] {
        set_action(signal, libc::SIG_IGN);
    }
    set_action(CANCEL, libc::SIG_DFL);
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    for fd in open.into_iter().filter(|fd| *fd > libc::STDERR_FILENO && !kept.contains(fd)) {
        // SAFETY: invariants 1 and 3 of `sys`: the values that own these files are never used nor dropped in
        // the child, which ends by `exit`.
        unsafe { libc::close(fd) };
    }
}

fn set_action(signal: i32, action: libc::sighandler_t) {
    // SAFETY: invariant 1 of `sys`: neither ignoring a signal nor its default action runs code of ours.
    unsafe { libc::signal(signal, action) };
}

/// Has the kernel kill this process as soon as the thread that forked it is gone: its output must not replace that of a
/// server started since.
fn die_with(parent: u32) {
    // SAFETY: invariant 1 of `sys`. A kernel that does not know the call leaves things as they are.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() != parent {
        exit(1);
    }
}

/// Ends the process at once without running destructors: they belong to the parent.
pub fn exit(code: i32) -> ! {
    // SAFETY: invariant 1 of `sys`.
    unsafe { libc::_exit(code) }
}

/// How the child ended; `None` while it runs.
pub fn poll(child: i32) -> io::Result<Option<Ended>> {
    wait(child, libc::WNOHANG)
}

/// Waits until the child has ended.
pub fn join(child: i32) -> io::Result<Option<Ended>> {
    wait(child, 0)
}

fn wait(child: i32, options: i32) -> io::Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: invariant 2 of `sys`.
    match unsafe { libc::waitpid(child, &mut status, options) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ if libc::WIFSIGNALED(status) => Ok(Some(Ended::Killed { signal: libc::WTERMSIG(status) })),
        _ => Ok(Some(Ended::Exited(libc::WEXITSTATUS(status)))),
    }
}

/// The signal that stops a child on purpose.
pub const CANCEL: i32 = libc::SIGUSR1;

/// Asks the child to end.
pub fn cancel(child: i32) {
    // SAFETY: invariant 1 of `sys`. The child has not been waited for, so its number is its own.
    unsafe { libc::kill(child, CANCEL) };
}

/// Starts writing this part of a file to disk, without waiting for it.
pub fn start_writeback(fd: RawFd, start: u64, len: u64) {
    // SAFETY: invariant 1 of `sys`; a number that is no open file is an error, and what is not begun now is done
    // by fsync.
    unsafe { libc::sync_file_range(fd, signed_count(start), signed_count(len), libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_as_it_says_or_as_it_is_told() {
        let Side::Parent { child } = fork(&[]).unwrap() else { exit(7) };
        assert_eq!(join(child).unwrap(), Some(Ended::Exited(7)));
        let Side::Parent { child } = fork(&[]).unwrap() else {
            std::thread::sleep(std::time::Duration::from_secs(60));
            exit(0)
        };
        assert_eq!(poll(child).unwrap(), None);
        cancel(child);
        assert_eq!(join(child).unwrap(), Some(Ended::Killed { signal: CANCEL }));
    }

    /// A server ignores the signal, as its children do until they have their own action for it.
    #[test]
    fn a_child_that_has_not_run_yet_is_ended_too() {
        set_action(CANCEL, libc::SIG_IGN);
        for _ in 0..100 {
            let Side::Parent { child } = fork(&[]).unwrap() else {
                std::thread::sleep(std::time::Duration::from_secs(10));
                exit(0)
            };
            cancel(child);
            assert_eq!(join(child).unwrap(), Some(Ended::Killed { signal: CANCEL }));
        }
    }
}
