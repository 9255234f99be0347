//! The server's presence on the machine: its pid file, and the service manager's notification.

use crate::config::Config;
use crate::observe::supervisor;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The pid file of a daemon without a `pidfile`.
const PID_FILE: &str = "/var/run/warmline.pid";

/// The pid file; removed when the server stops.
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file if configured. A failure is only logged.
    pub fn write(config: &Config) -> Option<Self> {
        let path = match &config.pidfile {
            Some(path) => PathBuf::from(OsStr::from_bytes(path)),
            None if config.daemonize => PathBuf::from(PID_FILE),
            None => return None,
        };
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(PidFile { path }),
            Err(error) => {
                log::warn!("Cannot write the pid file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Nothing is lost if it no longer exists.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the kinds of sockets that the server listens on.
pub fn listener_kinds(config: &Config) -> impl Iterator<Item = &'static str> {
    let tcp = (config.port != 0).then_some("tcp");
    let tls = (config.tls_port != 0).then_some("tls");
    let unix = config.unixsocket.is_some().then_some("unix");
    tcp.into_iter().chain(unix).chain(tls)
}

/// Notifies the service manager of readiness.
pub fn notify_of_readiness(config: &Config) {
    let status = match config.replicaof {
        None => "Ready to accept connections",
        Some(_) => "Ready to accept connections in read-only mode. Waiting for MASTER <-> REPLICA sync",
    };
    supervisor::notify(&format!("STATUS={status}\nREADY=1\n"));
}
