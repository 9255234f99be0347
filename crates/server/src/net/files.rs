//! How many files the process may have open: one for each client, and some that are kept back for the server itself, so that
//! it can save and take in replicas however many clients there are.

use super::http::HTTP_FILES_MAX;
use crate::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no client's: listeners, the log, and what persistence and replication need.
const OTHER_FILES: u64 = 32;
/// What each thread beside the executor waits with, and is woken by.
const FILES_PER_THREAD: u64 = 2;

/// The system permits fewer files than are needed.
#[derive(Clone, Copy, Debug)]
pub struct FileShortage {
    /// Before anything was tried.
    before: Rlimit,
    pub needed: u64,
    /// As many as could be had.
    pub permitted: u64,
    /// Those that are no client's.
    others: u64,
}

impl FileShortage {
    /// How many clients there is a file for.
    pub fn clients_possible(&self) -> u32 {
        u32::try_from(self.permitted.saturating_sub(self.others)).unwrap_or(u32::MAX)
    }

    /// How many files there could be before.
    pub fn permitted_before(&self) -> u64 {
        self.before.current.unwrap_or(u64::MAX)
    }

    /// Has the limits be what they were.
    pub fn restore(&self) {
        // A process may always lower what it has raised.
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// Files that are no client's.
fn other_files(config: &Config) -> u64 {
    let http = if config.http_port == 0 { 0 } else { HTTP_FILES_MAX };
    OTHER_FILES + http + FILES_PER_THREAD * u64::from(config.io_threads.saturating_sub(1))
}

/// Sees to it that the process may open a file for each client that the configuration allows, and those of its own.
///
/// # Errors
/// The system does not permit that. What it permits at most is in force then.
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

/// The greatest number that is permitted, of which `known` is one and `beyond` none; the last that was permitted is that.
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
