//! SIGTERM and SIGINT: the loop is woken and ends when it next turns.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What asked the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    Interrupt,
    Terminate,
}

/// How the process learns that it is asked to stop.
pub struct StopSignals {
    /// Becomes readable when one has come.
    pub wakes: UnixStream,
    interrupted: Arc<AtomicBool>,
}

impl StopSignals {
    /// Takes the signals over. A second SIGINT, before [`StopSignals::forget`], ends the process at once: a person at the
    /// keyboard insists.
    pub fn new() -> io::Result<Self> {
        let (wakes, writer) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&interrupted))?;
        signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(StopSignals { wakes, interrupted })
    }

    /// What was asked for is done, or is not going to be.
    pub fn forget(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
    }

    /// Which has come, if any; says so in the log.
    pub fn requested(&self) -> Option<StopSignal> {
        let mut bytes = [0; 16];
        if !matches!((&self.wakes).read(&mut bytes), Ok(1..)) {
            return None;
        }
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        let name = if interrupted { "SIGINT" } else { "SIGTERM" };
        log::warn!("Received {name} scheduling shutdown...");
        Some(if interrupted { StopSignal::Interrupt } else { StopSignal::Terminate })
    }
}
