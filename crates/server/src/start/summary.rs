//! What the log says of the server once its data is loaded: where it listens, what it has loaded, its limits and users.

use crate::commands::info::{VALKEY_VERSION, human_bytes};
use crate::config::{Config, Named};
use crate::engine::Executor;
use crate::net::EventLoop;
use crate::net::listening::ListeningAddresses;
use crate::server::Server;
use std::ffi::OsStr;
use std::fmt::Display;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files that hold the data, as they are before the start reads them.
pub struct DataFiles {
    /// The working directory.
    directory: PathBuf,
    /// The snapshot, or the append-only file's manifest, in that directory.
    name: PathBuf,
    is_present: bool,
    /// What is kept of later changes.
    keeps: Keeps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    EachChange,
    Snapshots,
    Nothing,
}

/// What the start has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    keys: usize,
    duration: Duration,
}

impl Loaded {
    /// Counts the keys of all databases.
    pub fn of(executor: &mut Executor, duration: Duration) -> Self {
        let db = &mut executor.db;
        let keys = db.databases_in_use().map(|index| db.with_database(index, |db| db.len())).sum();
        Loaded { keys, duration }
    }
}

impl DataFiles {
    /// Looks for the configured files in the working directory.
    pub fn find(config: &Config) -> Self {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let (name, keeps) = match (config.appendonly, config.save.is_empty()) {
            (true, _) => {
                let manifest = [&config.appendfilename[..], b".manifest"].concat();
                (path(&config.appenddirname).join(path(&manifest)), Keeps::EachChange)
            }
            (false, is_never_saved) => {
                let keeps = if is_never_saved { Keeps::Nothing } else { Keeps::Snapshots };
                (path(&config.dbfilename), keeps)
            }
        };
        let directory = std::env::current_dir().unwrap_or_else(|_| config.dir.clone());
        DataFiles { is_present: name.exists(), directory, name, keeps }
    }

    fn describe(&self, loaded: Loaded) -> String {
        let (directory, name) = (self.directory.display(), self.name.display());
        let kind = match self.keeps {
            Keeps::EachChange => "append-only file",
            Keeps::Snapshots | Keeps::Nothing => "snapshot",
        };
        let state = match self.is_present {
            true => format!("keys: {}, loaded in {:.3} seconds", loaded.keys, loaded.duration.as_secs_f64()),
            false => "no data yet".to_owned(),
        };
        let kept = match self.keeps {
            Keeps::Nothing => "; no snapshots are saved by themselves (save, appendonly)",
            Keeps::EachChange | Keeps::Snapshots => "",
        };
        format!("Directory {directory}, {kind} {name}, {state}{kept}")
    }
}

/// Returns the lines of the log.
pub fn lines(event_loop: &EventLoop, files: &DataFiles, loaded: Loaded) -> Vec<String> {
    let (server, addresses) = (&event_loop.executor.server, event_loop.listening());
    let config = &server.config;
    let mut lines = vec![
        format!("Warmline {}, with the commands of Valkey {VALKEY_VERSION}", env!("CARGO_PKG_VERSION")),
        format!("Listening on {}", listening(&addresses)),
        files.describe(loaded),
        memory(server),
        format!("I/O threads: {}", config.io_threads),
        users(server),
    ];
    lines.extend(console_url(&addresses.http, config.http_tls).map(|url| format!("Console: {url}")));
    lines
}

/// Returns a line about clients of other machines if `default` has no password: a warning if they are served.
pub fn access_without_password(event_loop: &EventLoop) -> Option<(log::Level, String)> {
    let server = &event_loop.executor.server;
    let address = event_loop.listening().for_other_machines()?;
    match (server.config.protected_mode, server.users.default_is_open()) {
        (_, false) => None,
        (true, true) => Some((
            log::Level::Info,
            "Clients of other machines are refused as long as there is no password (protected-mode). Set requirepass \
             or users to let them in, or bind to 127.0.0.1."
                .to_owned(),
        )),
        (false, true) => Some((
            log::Level::Warn,
            format!(
                "Clients that reach {address} need no password, and protected-mode is off. Set \
                 requirepass or users, set protected-mode to yes, or bind to 127.0.0.1."
            ),
        )),
    }
}

fn listed<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// `0.0.0.0:6379, [::]:6379; TLS 0.0.0.0:6380; socket /run/x.sock; HTTP 127.0.0.1:8080`.
fn listening(addresses: &ListeningAddresses) -> String {
    let tcp = [("", &addresses.plain), ("TLS ", &addresses.tls)];
    let http = [("HTTP ", &addresses.http)];
    let shown = |(name, addresses): &(&str, &Vec<SocketAddr>)| {
        (!addresses.is_empty()).then(|| format!("{name}{}", listed(addresses)))
    };
    let unix = addresses.unix.as_ref().map(|path| format!("socket {}", path.display()));
    let parts: Vec<String> =
        tcp.iter().filter_map(shown).chain(unix).chain(http.iter().filter_map(shown)).collect();
    match parts.is_empty() {
        true => "nothing: port, tls-port, unixsocket and http-port are off".to_owned(),
        false => parts.join("; "),
    }
}

fn memory(server: &Server) -> String {
    let (config, memory) = (&server.config, &server.observed.memory);
    let used = human_bytes(memory.used_bytes());
    match config.maxmemory_bytes {
        0 => format!(
            "Memory: no limit (maxmemory), {used} used, the machine has {}",
            human_bytes(memory.system_bytes)
        ),
        limit => {
            let policy = config.maxmemory_policy.name();
            format!("Memory: at most {} ({policy}), {used} used", human_bytes(limit))
        }
    }
}

fn users(server: &Server) -> String {
    let users = &server.users;
    let default = users.iter().find(|user| user.name == b"default");
    let default = match default.filter(|user| user.is_enabled) {
        Some(user) if user.credentials.needs_no_password => "no password",
        Some(_) => "default has a password",
        None => "default is off",
    };
    let others = match users.iter().len().saturating_sub(1) {
        0 => String::new(),
        1 => ", 1 other".to_owned(),
        others => format!(", {others} others"),
    };
    let file = match server.config.aclfile.is_empty() {
        true => String::new(),
        false => format!(", ACL file {}", Path::new(OsStr::from_bytes(&server.config.aclfile)).display()),
    };
    format!("Users: {default}{others}{file}")
}

/// The address of the console for a browser on this machine, if it is served.
fn console_url(http: &[SocketAddr], is_tls: bool) -> Option<String> {
    let address = http.iter().find(|address| address.is_ipv4()).or_else(|| http.first())?;
    let scheme = if is_tls { "https" } else { "http" };
    Some(match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}/", address.port()),
        false => format!("{scheme}://{address}/"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn all_sockets_are_listed() {
        let mut all = ListeningAddresses::default();
        assert_eq!(listening(&all), "nothing: port, tls-port, unixsocket and http-port are off");
        all.plain = addresses(&["0.0.0.0:6379", "[::]:6379"]);
        assert_eq!(listening(&all), "0.0.0.0:6379, [::]:6379");
        all.tls = addresses(&["127.0.0.1:6380"]);
        all.http = addresses(&["127.0.0.1:8080"]);
        all.unix = Some("/run/x.sock".into());
        assert_eq!(
            listening(&all),
            "0.0.0.0:6379, [::]:6379; TLS 127.0.0.1:6380; socket /run/x.sock; HTTP 127.0.0.1:8080"
        );
    }

    #[test]
    fn the_consoles_address_opens_in_a_browser() {
        let url = |texts: &[&str], is_tls| console_url(&addresses(texts), is_tls);
        assert_eq!(url(&[], false), None);
        assert_eq!(url(&["[::1]:80", "127.0.0.1:80"], false).unwrap(), "http://127.0.0.1:80/");
        assert_eq!(url(&["[::1]:81"], true).unwrap(), "https://[::1]:81/");
        assert_eq!(url(&["0.0.0.0:82"], true).unwrap(), "https://localhost:82/");
    }

    #[test]
    fn data_files_are_described_by_what_they_keep() {
        let files = |keeps, is_present| DataFiles {
            directory: "/data".into(),
            name: "dump.rdb".into(),
            is_present,
            keeps,
        };
        let loaded = Loaded { keys: 3, duration: Duration::from_millis(10) };
        assert_eq!(
            files(Keeps::Snapshots, true).describe(loaded),
            "Directory /data, snapshot dump.rdb, keys: 3, loaded in 0.010 seconds"
        );
        assert_eq!(
            files(Keeps::EachChange, false).describe(loaded),
            "Directory /data, append-only file dump.rdb, no data yet"
        );
        assert!(files(Keeps::Nothing, true).describe(loaded).ends_with("(save, appendonly)"));
    }
}
