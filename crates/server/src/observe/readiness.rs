//! Readiness to receive clients: set by the executor, read by other threads.

use std::sync::atomic::{AtomicU8, Ordering};

/// Why the server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The event loop has not started.
    Starting,
    /// Data is being loaded.
    Loading,
    /// Writes are refused: the data files cannot be written.
    DiskTrouble,
    /// This replica's data may be stale.
    PrimaryLinkDown,
    /// A script or transaction takes longer than `busy-reply-threshold`.
    Busy,
    /// A shutdown is in progress.
    Stopping,
}

impl Unready {
    const ALL: [Unready; 6] = [
        Unready::Starting,
        Unready::Loading,
        Unready::DiskTrouble,
        Unready::PrimaryLinkDown,
        Unready::Busy,
        Unready::Stopping,
    ];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    fn text(self) -> &'static str {
        match self {
            Unready::Starting => "starting",
            Unready::Loading => "loading the data",
            Unready::DiskTrouble => "writes are refused: saving fails",
            Unready::PrimaryLinkDown => "the link to the primary is down",
            Unready::Busy => "busy with a script",
            Unready::Stopping => "stopping",
        }
    }
}

/// The reasons, a bit each.
#[derive(Debug)]
pub struct Readiness(AtomicU8);

impl Default for Readiness {
    fn default() -> Self {
        Readiness(AtomicU8::new(Unready::Starting.bit()))
    }
}

impl Readiness {
    /// Sets the reasons.
    pub fn publish(&self, reasons: impl IntoIterator<Item = Unready>) {
        let bits = reasons.into_iter().fold(0, |bits, reason| bits | reason.bit());
        self.0.store(bits, Ordering::Relaxed);
    }

    /// Returns the reasons in words; empty when ready.
    pub fn reasons(&self) -> Vec<&'static str> {
        let bits = self.0.load(Ordering::Relaxed);
        Unready::ALL.into_iter().filter(|reason| bits & reason.bit() != 0).map(Unready::text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_and_go() {
        let readiness = Readiness::default();
        assert_eq!(readiness.reasons(), ["starting"]);
        readiness.publish([Unready::Stopping, Unready::Loading]);
        assert_eq!(readiness.reasons(), ["loading the data", "stopping"]);
        readiness.publish([]);
        assert!(readiness.reasons().is_empty());
    }
}
