//! Signals handled by the process: SIGTERM and SIGINT request a shutdown, SIGHUP reopens the log file. A signal wakes
//! the loop, which handles it in its next turn.

use crate::sys::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    ReopenLog,
}

/// Receives signals.
pub struct Signals {
    /// Becomes readable when a signal has arrived.
    pub wakes: UnixStream,
    interrupted: Arc<AtomicBool>,
    received: [(Request, Arc<AtomicBool>); 3],
}

impl Signals {
    /// Installs the handlers, also for signals that the process has inherited as ignored. A second SIGINT, before
    /// [`Signals::forget`], ends the process at once.
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
            // In this order: the woken thread must find the flag set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        process::accept_signals();
        Ok(Signals { wakes, interrupted, received })
    }

    /// Rearms after a requested shutdown has been handled or abandoned.
    pub fn forget(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
    }

    /// Returns flags that are set from the arrival of a signal that requests a shutdown until [`Signals::take`], for scripts
    /// that delay the next turn of the loop.
    pub fn stop_requests(&self) -> [Arc<AtomicBool>; 2] {
        [Request::Interrupt, Request::Terminate].map(|request| Arc::clone(&self.received[request as usize].1))
    }

    /// Returns the requests since the last call, each once.
    pub fn take(&self) -> impl Iterator<Item = Request> {
        // Bytes that remain unread wake the loop again; the flags are taken below.
        let _ = (&self.wakes).read(&mut [0; 64]);
        self.received
            .iter()
            .filter(|(_, flag)| flag.swap(false, Ordering::Relaxed))
            .map(|(request, _)| *request)
    }
}
