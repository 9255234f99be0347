//! SIGTERM and SIGINT: the loop is woken and ends when it next turns.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the process learns that it is asked to stop.
pub struct StopSignals {
    /// Becomes readable when one has come.
    pub wakes: UnixStream,
    interrupted: Arc<AtomicBool>,
}

impl StopSignals {
    /// Takes the signals over. A second SIGINT, while the first has not been seen to, ends the process at once: a
    /// person at the keyboard insists.
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

    /// Whether one has come; says so in the log.
    pub fn requested(&self) -> bool {
        let mut bytes = [0; 16];
        if !matches!((&self.wakes).read(&mut bytes), Ok(1..)) {
            return false;
        }
        let name = if self.interrupted.load(Ordering::Relaxed) { "SIGINT" } else { "SIGTERM" };
        log::warn!("Received {name} scheduling shutdown...");
        true
    }
}
