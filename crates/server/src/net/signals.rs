//! Signals that the process follows: SIGTERM and SIGINT ask it to stop, SIGHUP to open the log file anew. The loop is woken
//! and sees to them when it next turns.

use crate::sys::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    ReopenLog,
}

/// How the process learns of signals.
pub struct Signals {
    /// Becomes readable when one has come.
    pub wakes: UnixStream,
    interrupted: Arc<AtomicBool>,
    received: [(Request, Arc<AtomicBool>); 3],
}

impl Signals {
    /// Takes the signals over, however the process has inherited them. A second SIGINT, before [`Signals::forget`], ends the
    /// process at once: a person at the keyboard insists.
    pub fn new() -> io::Result<Self> {
        process::ignore_signals_of_others();
        let (wakes, writer) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&interrupted))?;
        signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))?;
        let received = [Request::Interrupt, Request::Terminate, Request::ReopenLog]
            .map(|request| (request, Arc::new(AtomicBool::new(false))));
        for (signal, (_, flag)) in [SIGINT, SIGTERM, SIGHUP].into_iter().zip(&received) {
            // In this order: who is woken finds the flag.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        process::accept_signals();
        Ok(Signals { wakes, interrupted, received })
    }

    /// The stop that was asked for is done, or is not going to be.
    pub fn forget(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
    }

    /// What has been asked for since the last call, each once.
    pub fn take(&self) -> impl Iterator<Item = Request> {
        // What is left unread wakes the loop again, and its flags are taken below all the same.
        let _ = (&self.wakes).read(&mut [0; 64]);
        self.received
            .iter()
            .filter(|(_, flag)| flag.swap(false, Ordering::Relaxed))
            .map(|(request, _)| *request)
    }
}
