//! Reports a thread's call stack when a signal ends the process, or requests a report.
//!
//! ```text
//! the thread that gets the signal            the reporter, a thread of its own
//!   notes the signal and its calls
//!   a byte             ------ pipe ------->  finds the names of the calls, and reports
//!   waits              <- Phase::Reported ------
//!   the signal's default action
//! ```
//!
//! Almost nothing is safe in a signal handler: the thread may hold any lock, including the allocator's. So the handler
//! only stores numbers in a preallocated place and waits; if no report is written in time the process ends without one.
//!
//! Invariants, beside those of [`super`]:
//! 1. What runs in a handler allocates nothing, takes no lock, and leaves `errno` as it was.
//! 2. At most one thread is in a handler's trace at a time: others ask for one only when they end the process themselves.

use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use wire::convert::signed_count;

/// Signals that end the process by default and indicate an error in it.
const FATAL: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
const CALLS_MAX: usize = 100;
/// Time after which the process ends without a report.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(10);
/// Stack for a handler: for unwinding, and for the state that the processor saves.
const HANDLER_STACK_BYTES: usize = 128 * 1024;

/// A signal received by a thread.
pub struct Event {
    /// Number of the signal.
    pub signal: i32,
    /// The kernel's reason (`si_code`).
    pub code: i32,
    /// The faulting address, for signals about one.
    pub address: Option<usize>,
    /// Sender's process and user; `None`: the kernel.
    pub sender: Option<(i32, u32)>,
    /// Name of the thread.
    pub thread: String,
    /// Call stack, the innermost first.
    pub calls: Vec<Call>,
}

impl Event {
    /// Whether the signal ends the process.
    pub fn is_fatal(&self) -> bool {
        FATAL.contains(&self.signal)
    }
}

/// A function call on the stack.
pub struct Call {
    /// Address of the instruction.
    pub address: usize,
    /// Name of the function, if known.
    pub function: Option<String>,
    /// File and line.
    pub place: Option<String>,
}

impl Call {
    fn is(&self, name: &str) -> bool {
        self.function.as_ref().is_some_and(|function| function.contains(name))
    }

    /// By file or, in a binary without files, by name.
    fn is_of_this_file(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.contains(file!())) || self.is(module_path!())
    }
}

#[repr(u8)]
enum Phase {
    Free,
    /// A thread is writing into [`NOTED`].
    Noting,
    /// The event waits for the reporter.
    Noted,
    Reported,
}

struct Noted {
    phase: AtomicU8,
    signal: AtomicI32,
    code: AtomicI32,
    address: AtomicUsize,
    sender_process: AtomicI32,
    sender_user: AtomicI32,
    thread: AtomicI32,
    calls: [AtomicUsize; CALLS_MAX],
    call_count: AtomicUsize,
}

static NOTED: Noted = Noted {
    phase: AtomicU8::new(Phase::Free as u8),
    signal: AtomicI32::new(0),
    code: AtomicI32::new(0),
    address: AtomicUsize::new(0),
    sender_process: AtomicI32::new(0),
    sender_user: AtomicI32::new(0),
    thread: AtomicI32::new(0),
    calls: [const { AtomicUsize::new(0) }; CALLS_MAX],
    call_count: AtomicUsize::new(0),
};

/// Where handlers write a byte to wake the reporter; -1 while there is none.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static REPORTER: AtomicI32 = AtomicI32::new(0);

/// Starts the reporter, which passes events to `report`, and makes SIGALRM, which ends nothing, request one. To be called
/// once, by the thread that does most of the work: it gets the handler's stack.
pub fn start(report: fn(&Event)) -> io::Result<()> {
    let (mut woken, wake) = io::pipe()?;
    WAKE.store(wake.into_raw_fd(), Ordering::Release);
    std::thread::Builder::new().name("reporter".into()).spawn(move || {
        REPORTER.store(this_thread(), Ordering::Release);
        let mut byte = [0];
        while woken.read_exact(&mut byte).is_ok() {
            write_report(report);
        }
    })?;
    make_handler_stack();
    set_action(libc::SIGALRM, Action::Note);
    Ok(())
}

/// Whether signals that end the process are reported first.
pub fn watch_fatal(watched: bool) {
    let action = if watched { Action::Note } else { Action::Usual };
    FATAL.into_iter().for_each(|signal| set_action(signal, action));
}

/// Restores the default action of every signal in a child, which has no reporter.
pub(super) fn forget() {
    watch_fatal(false);
    set_action(libc::SIGALRM, Action::Usual);
}

/// Schedules SIGALRM after this time, replacing an earlier request; `None`: cancels it. Without a reporter it is never
/// sent.
pub fn set_alarm(after: Option<Duration>) {
    if WAKE.load(Ordering::Acquire) < 0 {
        return;
    }
    let after = after.unwrap_or_default();
    let value = libc::timeval {
        tv_sec: signed_count(after.as_secs()),
        tv_usec: libc::suseconds_t::from(after.subsec_micros()),
    };
    let once = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: once, it_value: value };
    // SAFETY: invariant 2 of `sys`: the timer is readable for the call, and no old one is asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
}

/// The current call stack, the innermost first, without this function.
pub fn calls_to_here() -> Vec<Call> {
    let mut addresses = Vec::new();
    backtrace::trace(|frame| {
        addresses.push(frame.ip() as usize);
        addresses.len() < CALLS_MAX
    });
    named(&addresses)
}

#[derive(Clone, Copy)]
enum Action {
    Note,
    Usual,
}

fn set_action(signal: i32, action: Action) {
    // SAFETY: invariant 2 of `sys`: every field is a number or a pointer that may be null.
    let mut sigaction: libc::sigaction = unsafe { std::mem::zeroed() };
    match action {
        Action::Note => {
            sigaction.sa_sigaction = note as *const () as usize;
            sigaction.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        }
        Action::Usual => sigaction.sa_sigaction = libc::SIG_DFL,
    }
    // SAFETY: invariant 1: the handler has the signature that SA_SIGINFO asks for, and keeps to what a handler
    // may do.
    let result = unsafe { libc::sigaction(signal, &sigaction, ptr::null_mut()) };
    assert!(result == 0, "signal {signal} can be handled");
}

/// Creates the stack on which this thread handles signals: its own may have overflowed.
fn make_handler_stack() {
    let stack = Box::leak(vec![0u8; HANDLER_STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK_BYTES };
    // SAFETY: invariant 2 of `sys`: the stack is given away for good by being leaked.
    let result = unsafe { libc::sigaltstack(&stack, ptr::null_mut()) };
    assert!(result == 0, "a stack of {HANDLER_STACK_BYTES} bytes is large enough");
}

fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// The handler: allocates nothing and takes no lock of this program.
extern "C" fn note(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: invariant 1: errno's address is the thread's own; its value is restored below for the interrupted
    // code.
    let error = unsafe { *libc::__errno_location() };
    let fatal = FATAL.contains(&signal);
    if this_thread() != REPORTER.load(Ordering::Acquire) && claim(fatal) {
        // SAFETY: invariant 2 of `sys`: the kernel hands a handler that is registered with SA_SIGINFO what
        // has happened.
        note_event(signal, unsafe { &*info });
        NOTED.phase.store(Phase::Noted as u8, Ordering::Release);
        // SAFETY: invariant 2 of `sys`: one byte of a constant; the pipe stays open as long as the process.
        unsafe { libc::write(WAKE.load(Ordering::Acquire), b"!".as_ptr().cast(), 1) };
        if fatal {
            wait_until(Phase::Reported);
        }
    }
    if fatal {
        set_action(signal, Action::Usual);
        // SAFETY: invariant 1 of `sys`: the signal is held back until the handler returns, and then ends the
        // process.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: invariant 1, as above.
    unsafe { *libc::__errno_location() = error };
}

/// Whether this thread may write into [`NOTED`]: waits for its turn if the process is about to end.
fn claim(fatal: bool) -> bool {
    let free = Phase::Free as u8;
    let mut waited = Duration::ZERO;
    while NOTED
        .phase
        .compare_exchange(free, Phase::Noting as u8, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        if !fatal || waited >= WAIT_MAX {
            return false;
        }
        sleep_a_step(&mut waited);
    }
    true
}

fn wait_until(phase: Phase) {
    let (wanted, mut waited) = (phase as u8, Duration::ZERO);
    while NOTED.phase.load(Ordering::Acquire) != wanted && waited < WAIT_MAX {
        sleep_a_step(&mut waited);
    }
}

fn sleep_a_step(waited: &mut Duration) {
    std::thread::sleep(WAIT_STEP);
    *waited += WAIT_STEP;
}

fn note_event(signal: i32, info: &libc::siginfo_t) {
    NOTED.signal.store(signal, Ordering::Relaxed);
    NOTED.code.store(info.si_code, Ordering::Relaxed);
    NOTED.thread.store(this_thread(), Ordering::Relaxed);
    // SAFETY: invariant 2 of `sys`: of both unions' members only numbers are read, and each bit pattern is one;
    // which of them mean something is decided by signal and code, where they are read.
    let (address, process, user) = unsafe { (info.si_addr() as usize, info.si_pid(), info.si_uid()) };
    NOTED.address.store(address, Ordering::Relaxed);
    NOTED.sender_process.store(process, Ordering::Relaxed);
    NOTED.sender_user.store(user.cast_signed(), Ordering::Relaxed);
    let mut count = 0;
    // SAFETY: invariant 2: unsynchronised, as the lock of its sibling may be held by the thread that was
    // interrupted.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            NOTED.calls[count].store(frame.ip() as usize, Ordering::Relaxed);
            count += 1;
            count < CALLS_MAX
        });
    }
    NOTED.call_count.store(count, Ordering::Relaxed);
}

fn write_report(report: fn(&Event)) {
    if NOTED.phase.load(Ordering::Acquire) != Phase::Noted as u8 {
        return;
    }
    let (signal, code) = (NOTED.signal.load(Ordering::Relaxed), NOTED.code.load(Ordering::Relaxed));
    let thread = NOTED.thread.load(Ordering::Relaxed);
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    let addresses: Vec<usize> = NOTED.calls[..NOTED.call_count.load(Ordering::Relaxed)]
        .iter()
        .map(|address| address.load(Ordering::Relaxed))
        .collect();
    let sender =
        (NOTED.sender_process.load(Ordering::Relaxed), NOTED.sender_user.load(Ordering::Relaxed) as u32);
    let is_about_memory = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && code > 0;
    let event = Event {
        signal,
        code,
        address: is_about_memory.then(|| NOTED.address.load(Ordering::Relaxed)),
        sender: (code == libc::SI_USER).then_some(sender),
        thread: name.trim_end().to_owned(),
        calls: named(&addresses),
    };
    report(&event);
    let next = if event.is_fatal() { Phase::Reported } else { Phase::Free };
    NOTED.phase.store(next as u8, Ordering::Release);
}

/// The calls' names, without those between the event and this file, and those before `main` or a thread's own function.
fn named(addresses: &[usize]) -> Vec<Call> {
    let mut calls: Vec<Call> = addresses.iter().flat_map(|address| named_at(*address)).collect();
    if let Some(outermost) = calls.iter().position(|call| call.is("__rust_begin_short_backtrace")) {
        calls.truncate(outermost);
    }
    let is_behind = |call: &Call| call.is("__rust_end_short_backtrace") || call.is_of_this_file();
    if let Some(last) = calls.iter().rposition(is_behind) {
        calls.drain(..=last);
    }
    calls
}

/// Several where functions were inlined.
fn named_at(address: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    backtrace::resolve(address as *mut _, |symbol| {
        let place = symbol.filename().map(|path| match symbol.lineno() {
            Some(line) => format!("{}:{line}", path.display()),
            None => path.display().to_string(),
        });
        calls.push(Call { address, function: symbol.name().map(|name| format!("{name:#}")), place });
    });
    if calls.is_empty() {
        calls.push(Call { address, function: None, place: None });
    }
    calls
}
