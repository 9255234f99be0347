//! The limit of open files: one file for each client, and a reserve for the server, so that it can save and attach replicas
//! at any number of clients.

use super::http::HTTP_FILES_MAX;
use crate::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;

/// Files not used by clients: listeners, the log, persistence and replication.
const OTHER_FILES: u64 = 32;
/// Poller and waker of each I/O thread.
const FILES_PER_THREAD: u64 = 2;

/// The system permits fewer files than needed.
#[derive(Clone, Copy, Debug)]
pub struct FileShortage {
    /// The limit before any change.
    before: Rlimit,
    /// Number of open files that the process needs.
    pub needed: u64,
    /// The highest limit obtained.
    pub permitted: u64,
    /// Open files besides those of clients.
    pub own: OwnFiles,
}

impl FileShortage {
    /// Returns the number of clients that have a file.
    pub fn clients_possible(&self) -> u32 {
        u32::try_from(self.permitted.saturating_sub(self.own.total())).unwrap_or(u32::MAX)
    }

    /// Returns the error of a start without a file for any client.
    pub fn start_refusal(&self) -> String {
        let (before, own, needed) = (self.before.current.unwrap_or(u64::MAX), self.own.total(), self.needed);
        let without_http = match self.own.http {
            0 => "",
            _ => ", or turn http-port off",
        };
        format!(
            "Your current 'ulimit -n' of {before} is not enough for the server to start: it needs {own} open files itself ({}) and one for each client. Please increase your open file limit to more than {own}, or to {needed} for all clients of maxclients{without_http}. Exiting.",
            self.own
        )
    }

    /// Returns the error of an option, other than `maxclients`, that needs more files.
    pub fn option_refusal(&self, option: &str) -> String {
        let FileShortage { needed, permitted, own, .. } = self;
        let fewer_clients = match self.clients_possible() {
            0 => String::new(),
            clients => format!(", or set maxclients to {clients} or less"),
        };
        format!(
            "{option} needs more open files than the operating system permits: {needed} ({own}, and one for each client of maxclients), not {permitted}. Increase the open file limit ('ulimit -n'){fewer_clients}"
        )
    }

    /// Restores the limits.
    pub fn restore(&self) {
        // A process may always lower a raised limit.
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// Files not used by clients, by the option that they are for.
#[derive(Clone, Copy, Debug)]
pub struct OwnFiles {
    /// For `http-port`; 0 while it is off.
    pub http: u64,
    threads: u64,
}

impl OwnFiles {
    fn of(config: &Config) -> Self {
        OwnFiles {
            http: if config.http_port == 0 { 0 } else { HTTP_FILES_MAX },
            threads: FILES_PER_THREAD * u64::from(config.io_threads.saturating_sub(1)),
        }
    }

    fn total(&self) -> u64 {
        OTHER_FILES + self.http + self.threads
    }
}

impl fmt::Display for OwnFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OTHER_FILES} in any case")?;
        for (files, option) in [(self.http, "http-port"), (self.threads, "io-threads")] {
            if files > 0 {
                write!(f, ", {files} for {option}")?;
            }
        }
        Ok(())
    }
}

/// Raises the limit to a file for each client that the configuration allows, plus the server's own.
///
/// # Errors
/// The system does not permit that. The highest permitted limit is in force then.
pub fn allow_clients(config: &Config) -> Result<(), FileShortage> {
    let own = OwnFiles::of(config);
    let needed = u64::from(config.maxclients) + own.total();
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
    Err(FileShortage { before, needed, permitted, own })
}

/// Finds the greatest permitted number between `known`, which is permitted, and `beyond`, which is not; the last
/// successful call sets that number.
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
