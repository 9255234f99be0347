//! The limit of open files: one for each client, and some reserved for the server, so that it can save and attach
//! replicas however many clients there are.

use super::http::HTTP_FILES_MAX;
use crate::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files not used by clients: listeners, the log, persistence and replication.
const OTHER_FILES: u64 = 32;
/// Poller and waker of each I/O thread.
const FILES_PER_THREAD: u64 = 2;

/// The system permits fewer files than needed.
#[derive(Clone, Copy, Debug)]
pub struct FileShortage {
    /// The limit before any change.
    before: Rlimit,
    pub needed: u64,
    /// The highest limit obtained.
    pub permitted: u64,
    /// Files not used by clients.
    others: u64,
}

impl FileShortage {
    /// Returns the number of clients that have a file.
    pub fn clients_possible(&self) -> u32 {
        u32::try_from(self.permitted.saturating_sub(self.others)).unwrap_or(u32::MAX)
    }

    /// Returns the limit before the change.
    pub fn permitted_before(&self) -> u64 {
        self.before.current.unwrap_or(u64::MAX)
    }

    /// Restores the limits.
    pub fn restore(&self) {
        // A process may always lower a raised limit.
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// Returns the number of files not used by clients.
fn other_files(config: &Config) -> u64 {
    let http = if config.http_port == 0 { 0 } else { HTTP_FILES_MAX };
    OTHER_FILES + http + FILES_PER_THREAD * u64::from(config.io_threads.saturating_sub(1))
}

/// Raises the limit to a file for each client that the configuration allows, plus the server's own.
///
/// # Errors
/// The system does not permit that. The highest permitted limit is in force then.
pub fn allow_clients(config: &Config) -> Result<(), FileShortage> {
    let others = other_files(config);
    let needed = u64::from(config.maxclients) + others;
    let before = getrlimit(Resource::Nofile);
    let Some(current) = before.current.filter(|&current| current < needed) else { return Ok(()) };
    let permits = |files: u64| {
        let maximum = before.maximum.map(|maximum| maximum.max(files));
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).is_ok()
    };
    if permits(needed) {
        return Ok(());
    }
    let permitted = greatest(current, needed, permits);
    Err(FileShortage { before, needed, permitted, others })
}

/// Finds the greatest permitted number between `known`, which is permitted, and `beyond`, which is not; the last
/// permitted call is for that number.
fn greatest(mut known: u64, mut beyond: u64, mut permits: impl FnMut(u64) -> bool) -> u64 {
    while beyond - known > 1 {
        let middle = known + (beyond - known) / 2;
        match permits(middle) {
            true => known = middle,
            false => beyond = middle,
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::greatest;

    #[test]
    fn the_greatest_number_that_is_permitted_is_found() {
        for limit in [5, 6, 7, 63, 64, 99] {
            let mut last = 5;
            let found = greatest(5, 100, |files| {
                let is_permitted = files <= limit;
                if is_permitted {
                    last = files;
                }
                is_permitted
            });
            assert_eq!((found, last), (limit, limit));
        }
    }
}
